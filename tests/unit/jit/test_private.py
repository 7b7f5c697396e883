"""Files of the cache that are not what was written: none stops a plan, none is loaded."""

import errno
import logging
import os
import pickle
import signal
import threading
from pathlib import Path

import pytest

from smoothcruiser.jit import code_files as disk
from smoothcruiser.jit import private_folder as private

KEYS = ("first", "second", "third")


class Loud:
    """A pickle that says when it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("loaded",)


def cache(folder: Path) -> disk._CheckedFiles:
    return disk._CheckedFiles(str(folder), "f", "stamp")


def hangs(*_):
    raise TimeoutError("a file of the cache was waited for")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of one entry; a test that waits for a pipe fails after 20 seconds."""
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(20)
    yield filled(tmp_path, monkeypatch)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def filled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    cache(tmp_path).save("first", 1)
    assert cache(tmp_path).load("first") == 1
    return tmp_path


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def as_pickle(path: Path) -> None:
    """As Numba itself would load it, without a digest."""
    path.write_bytes(pickle.dumps(Loud()))


def as_foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, 12345)


FAULTS = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "garbage": lambda path: path.write_bytes(b"x" * 1000),
    "pickle": as_pickle,
    "pipe": as_pipe,
    "folder": as_folder,
    "link": as_link,
    "foreign": as_foreign,
    "group": lambda path: path.chmod(0o664),
    "world": lambda path: path.chmod(0o646),
}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_ours_counts_as_missing_and_is_replaced(
    folder, fault, ending
):
    (path,) = folder.glob(f"*.{ending}")
    FAULTS[fault](path)
    assert cache(folder).load("first") is None
    assert not os.path.lexists(path)
    assert not (folder / "loaded").exists()
    cache(folder).save("first", 2)
    assert cache(folder).load("first") == 2


def test_an_entry_under_another_number_counts_as_missing(folder):
    """Two processes that begin with the same index give both of theirs one number."""
    one, other = cache(folder), cache(folder)
    before = one._load_index()
    one.save("second", 2)
    other._load_index = lambda: before
    other.save("third", 3)
    assert cache(folder).load("third") == 3
    one._save_index(before | {"second": "f.2.nbc"})  # the first one's index comes last
    assert cache(folder).load("second") is None
    assert cache(folder).load("first") == 1


def test_writers_at_once_leave_no_wrong_entry(folder):
    def write(number: int) -> None:
        for _ in range(10):
            cache(folder).save(KEYS[number], number)
            assert cache(folder).load(KEYS[number]) in (None, number)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, key in enumerate(KEYS):
        assert cache(folder).load(key) in (None, number)
    assert not list(folder.glob("*.tmp.*"))


def ready(folder: Path) -> disk.OnDisk:
    """A cache with a compiler that always has a result."""
    on_disk = object.__new__(disk.OnDisk)
    own = private.find_private_folder(folder)
    on_disk._cache_file, on_disk._name = cache(own or folder), "f"
    on_disk.private = own is not None
    on_disk.complete = lambda: None
    on_disk._load_overload = lambda sig, context: on_disk._cache_file.load(sig)
    on_disk._save_overload = lambda sig, data: on_disk._cache_file.save(sig, data)
    return on_disk


def test_a_full_disk_costs_nothing_but_the_entry(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    ready(folder).save_overload("second", 2)
    assert ready(folder).load_overload("second", None) is None
    assert ready(folder).load_overload("first", None) == 1
    assert not list(folder.glob("*.tmp.*"))


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_where_others_can_write_files_lie_in_a_folder_of_ones_own(
    folder, mode, caplog
):
    folder.chmod(mode)
    before = sorted(folder.iterdir())
    with caplog.at_level(logging.WARNING):
        assert (
            ready(folder).load_overload("first", None) is None
        )  # others may write it
        ready(folder).save_overload("second", 2)
        assert ready(folder).load_overload("second", None) == 2
    (own,) = set(folder.iterdir()) - set(before)
    assert own.stat().st_mode & 0o777 == 0o700
    assert {path.suffix for path in own.iterdir()} == {".nbi", ".nbc"}
    assert not caplog.records


def test_under_a_umask_for_groups_machine_code_is_kept(tmp_path):
    before = os.umask(0o002)
    try:
        cached = tmp_path / "package" / "__pycache__"
        cached.mkdir(parents=True)
        assert cached.stat().st_mode & 0o777 == 0o775
        for folder in (cached, tmp_path / "not made yet"):
            ready(folder).save_overload("first", 1)
            assert ready(folder).load_overload("first", None) == 1
            for path in private.find_private_folder(folder).iterdir():
                assert private.is_private(path.stat())
    finally:
        os.umask(before)


def linked(own: Path) -> None:
    elsewhere = own.parent / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    own.symlink_to(elsewhere)


def foreign(own: Path) -> None:
    own.mkdir(mode=0o700)
    as_foreign(own)


def shared(own: Path) -> None:
    own.mkdir()
    own.chmod(0o770)


@pytest.mark.parametrize("prepare", [linked, foreign, shared, Path.touch])
def test_nothing_is_kept_in_a_folder_that_another_has_made(folder, prepare, caplog):
    private._tell.cache_clear()
    folder.chmod(0o775)
    own = folder / f"{private.OWN}{os.geteuid()}"
    prepare(own)
    before = sorted(folder.rglob("*"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            on_disk = ready(folder)
            on_disk.save_overload("second", 2)
            assert on_disk.load_overload("first", None) is None
    assert sorted(folder.rglob("*")) == before
    assert [record.name for record in caplog.records] == [private.__name__]


def test_a_folder_of_another_user_is_not_used(folder):
    as_foreign(folder)
    assert private.find_private_folder(folder) != folder
    os.chown(folder, 0, 0)
    assert private.find_private_folder(folder) == folder
    assert private.find_private_folder(folder / "new") == folder / "new"
