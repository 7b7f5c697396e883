"""The cache on disk: an entry is right or it counts as missing, and no fault stops a run.

The fuzz is the reduced form of benchmarks/reliability/damaged_cache.py
(docs/evidence/damaged-cache.md). Names of machine code are read from ``jit.disk_cache``
itself, since no answer shows whether code was compiled or loaded.
"""

import errno
import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.reliability import damaged_cache
from click.testing import CliRunner

import smoothcruiser
from smoothcruiser.cli.cache import cache
from smoothcruiser.jit import disk_cache
from smoothcruiser.jit.build import compile_function
from smoothcruiser.operators import dispatch
from smoothcruiser.schedule import schedule_cache

SOURCE = Path(smoothcruiser.__file__).parent
NAMES = [f"schedule-{digit * 32}" for digit in "123"]


@pytest.fixture
def base(tmp_path, monkeypatch):
    """The folder of ``NUMBA_CACHE_DIR``, with one entry."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o755)
    disk_cache.write_entry(NAMES[0], b"first")
    assert disk_cache.read_entry(NAMES[0]) == b"first"
    return tmp_path


def entry_path(name: str = NAMES[0]) -> Path:
    folder = disk_cache.find_folder()
    assert folder is not None
    return folder / name


# --- the fuzz, and processes ------------------------------------------------------


@pytest.mark.compiles
def test_damaged_entries_count_as_missing_or_give_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule_cache, "is_on", lambda: True)
    cases = damaged_cache.all_cases(120, tmp_path)
    assert [case for case in cases if case.is_broken] == []
    assert {case.result for case in cases} == {
        damaged_cache.MISSING,
        damaged_cache.SAME,
    }


def run(folder: Path, source: Path) -> list[str]:
    program = (
        damaged_cache.PROGRAM + "import sys\nprint('numba.np.linalg' in sys.modules)"
    )
    return subprocess.check_output(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(source)},
        text=True,
    ).split()


@pytest.mark.compiles
def test_installations_share_entries_which_need_no_compiler(tmp_path):
    """Another path and other dates of the same sources; Numba's tables stay empty."""
    value, hits, _ = run(tmp_path / "cache", SOURCE.parent)
    assert hits == "0"
    other = tmp_path / "other" / SOURCE.name
    shutil.copytree(SOURCE, other, ignore=shutil.ignore_patterns("__pycache__"))
    for path in other.rglob("*.py"):
        os.utime(path, (1, 1))
    assert run(tmp_path / "cache", other.parent) == [value, "1", "False"]
    (other / "jit" / "memory.py").open("a").write("# edited\n")
    assert run(tmp_path / "cache", other.parent)[:2] == [value, "0"]


# --- machine code -----------------------------------------------------------------


@pytest.mark.compiles
def test_without_numbas_internals_every_process_compiles(base, monkeypatch):
    from numba.core import caching

    names = {path.name for path in disk_cache.list_entries()}
    monkeypatch.delattr(caching, "CompileResultCacheImpl")
    value = compile_function(dispatch.builtin_value, salt="without_internals")
    assert value(0, np.array([1.0, 2.0]), np.array([1.0, 1.0]), 0.5) > 2.0
    assert {path.name for path in disk_cache.list_entries()} == names


@pytest.mark.compiles
@pytest.mark.parametrize("num_unknown", [0, 1, 2])
def test_a_name_without_an_address_is_supplied_before_code_is_loaded(
    base, monkeypatch, num_unknown
):
    """Numba's runtime first, and all of its tables only where that is not enough."""
    from llvmlite import binding
    from numba.core.caching import CompileResultCacheImpl
    from numba.core.runtime import rtsys

    supplied = []

    class Context:
        def codegen(self):
            return SimpleNamespace(magic_tuple=lambda: ["triple", "cpu", "features"])

        def refresh(self):
            supplied.append("tables")

    code_cache = disk_cache.CodeCache(f"code-{'0' * 32}-", lambda: None)
    name = code_cache.prefix + disk_cache.digest_of(
        ["()"], ["triple", "cpu", "features"]
    )
    disk_cache.write_entry(name, pickle.dumps((["name"], (1, 2))))
    monkeypatch.setattr(
        type(rtsys), "initialize", lambda self, context: supplied.append("runtime")
    )
    monkeypatch.setattr(
        CompileResultCacheImpl, "rebuild", lambda self, context, parts: parts
    )
    monkeypatch.setattr(
        binding, "address_of_symbol", lambda _: len(supplied) >= num_unknown or None
    )
    assert code_cache.load_overload((), Context()) == (1, 2)
    assert supplied == ["runtime", "tables"][:num_unknown]


def outer(value):
    def inner():
        return value

    return inner


def test_functions_over_other_values_have_other_names(monkeypatch):
    prefixes = {disk_cache.code_prefix(outer(x), "name") for x in (1, 2, 1.0)}
    assert len(prefixes) == 3
    assert disk_cache.code_prefix(outer(1), "other") not in prefixes
    assert disk_cache.code_prefix(outer(outer), "name") is None  # no digest
    disk_cache._environment_words.cache_clear()
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert disk_cache.code_prefix(outer(1), "name") not in prefixes
    disk_cache._environment_words.cache_clear()


# --- files ------------------------------------------------------------------------


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def put_long(path: Path) -> None:
    os.truncate(path, disk_cache.LARGEST + 1000)


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, 12345)


FAULTS = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "garbage": lambda path: path.write_bytes(b"x" * 1000),
    "pipe": put_pipe,
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "link": put_link,
    "long": put_long,
    "foreign": give_away,
    "group": lambda path: path.chmod(0o664),
    "world": lambda path: path.chmod(0o646),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_ours_counts_as_missing_and_is_replaced(base, fault):
    FAULTS[fault](entry_path())
    assert disk_cache.read_entry(NAMES[0]) is None
    assert not os.path.lexists(entry_path())
    disk_cache.write_entry(NAMES[0], b"again")
    assert disk_cache.read_entry(NAMES[0]) == b"again"


def test_an_entry_under_another_name_counts_as_missing(base):
    entry_path().rename(entry_path(NAMES[1]))
    assert disk_cache.read_entry(NAMES[1]) is None


def test_writers_at_once_leave_no_wrong_entry(base):
    def write(number: int) -> None:
        for _ in range(10):
            disk_cache.write_entry(NAMES[number], b"%d" % number)
            assert disk_cache.read_entry(NAMES[number]) in (None, b"%d" % number)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    contents = [disk_cache.read_entry(name) for name in NAMES]
    assert contents == [b"0", b"1", b"2"]
    assert sorted(path.name for path in entry_path().parent.iterdir()) == NAMES


def test_a_full_disk_costs_nothing_but_the_entry(base, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", fill)
    disk_cache.write_entry(NAMES[1], b"second")
    assert disk_cache.read_entry(NAMES[1]) is None
    assert disk_cache.read_entry(NAMES[0]) == b"first"
    assert [path.name for path in disk_cache.list_entries()] == [NAMES[0]]


def test_what_is_too_long_is_not_written(base, monkeypatch):
    monkeypatch.setattr(disk_cache, "LARGEST", 10)
    disk_cache.write_entry(NAMES[1], b"x" * 11)
    assert disk_cache.read_entry(NAMES[1]) is None


def test_the_oldest_entries_go_first_and_other_files_stay(base, monkeypatch):
    folder = entry_path().parent
    mine = [folder / name for name in ("schedule-2024.csv", "code-notes")]
    for path in mine:
        path.write_text("mine")
        os.utime(path, (1, 1))
    for number, name in enumerate(NAMES):
        disk_cache.write_entry(name, b"entry")
        os.utime(entry_path(name), (number + 2, number + 2))
    disk_cache.read_entry(NAMES[0])  # used just now
    monkeypatch.setattr(disk_cache, "MOST", 3)
    disk_cache.write_entry(f"schedule-{'4' * 32}", b"entry")
    names = sorted(path.name for path in disk_cache.list_entries())
    assert names == [NAMES[0], f"schedule-{'4' * 32}"]
    assert disk_cache.clear() == 2
    assert sorted(folder.iterdir()) == sorted(mine)


# --- the folder -------------------------------------------------------------------


def test_the_folder_is_in_the_users_cache_unless_numbas_is_named(
    tmp_path, monkeypatch
):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    places = []
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        places.append(disk_cache.find_folder().relative_to(tmp_path).parts[0])
        monkeypatch.setenv(name, "")
    assert places == ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"]


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_where_others_can_write_entries_lie_in_a_folder_of_ones_own(
    base, mode, caplog
):
    folder = entry_path().parent
    folder.chmod(mode)
    with caplog.at_level(logging.WARNING):
        assert disk_cache.read_entry(NAMES[0]) is None  # others may have written it
        disk_cache.write_entry(NAMES[1], b"second")
        assert disk_cache.read_entry(NAMES[1]) == b"second"
    own_folder = entry_path().parent
    assert own_folder.parent == folder
    assert own_folder.stat().st_mode & 0o777 == 0o700
    assert not caplog.records


def test_under_a_umask_for_groups_entries_are_kept(base, monkeypatch):
    before = os.umask(0o002)
    try:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(base / "not made yet" / "cache"))
        disk_cache.write_entry(NAMES[0], b"first")
        assert disk_cache.read_entry(NAMES[0]) == b"first"
        assert disk_cache.is_private(entry_path().stat())
    finally:
        os.umask(before)


def put_linked_folder(own: Path) -> None:
    elsewhere = own.parent / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    own.symlink_to(elsewhere)


def put_foreign_folder(own: Path) -> None:
    own.mkdir(mode=0o700)
    give_away(own)


def put_shared_folder(own: Path) -> None:
    own.mkdir()
    own.chmod(0o770)


@pytest.mark.parametrize(
    "prepare", [put_linked_folder, put_foreign_folder, put_shared_folder, Path.touch]
)
def test_nothing_is_kept_in_a_folder_that_another_has_made(base, prepare, caplog):
    disk_cache._warn_once.cache_clear()
    folder = entry_path().parent
    folder.chmod(0o775)
    prepare(folder / f"{disk_cache.OWN}{os.geteuid()}")
    before = sorted(folder.rglob("*"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            disk_cache.write_entry(NAMES[1], b"second")
            assert disk_cache.read_entry(NAMES[0]) is None
    assert sorted(folder.rglob("*")) == before
    assert [record.name for record in caplog.records] == [disk_cache.__name__]


def test_a_folder_of_another_user_is_not_used(base):
    folder = entry_path().parent
    give_away(folder)
    assert disk_cache.find_folder() != folder
    os.chown(folder, 0, 0)
    assert disk_cache.find_folder() == folder


# --- the command ------------------------------------------------------------------


def test_the_command_shows_and_clears(base):
    disk_cache.write_entry(f"code-{'0' * 32}-{'0' * 32}", b"second")

    def call(*words: str) -> str:
        done = CliRunner().invoke(cache, words)
        assert done.exit_code == 0
        return done.stdout

    shown = json.loads(call("--json"))
    assert shown["folder"] == str(entry_path().parent)
    assert shown["schedule"] == {"files": 1, "bytes": 5 + disk_cache.SEAL_BYTES}
    assert shown["code"]["files"] == 1
    assert "machine code" in call()
    cleared = json.loads(call("clear", "--json"))
    assert cleared["removed"] == 2
    assert cleared["code"] == cleared["schedule"] == {"files": 0, "bytes": 0}
    assert disk_cache.list_entries() == []
