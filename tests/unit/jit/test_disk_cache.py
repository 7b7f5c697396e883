"""The cache on disk, and the process that fills it."""

import errno
import json
import logging
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.reliability import damaged_cache
from click.testing import CliRunner

import smoothcruiser
from smoothcruiser.certified.sweeps import layers_kernel, sweeps_kernel
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
from smoothcruiser.cli.cache import cache
from smoothcruiser.exact import loops
from smoothcruiser.exact.model import EXACT
from smoothcruiser.jit import disk_cache, forms, warm
from smoothcruiser.jit.build import compile_function, count_on_disk
from smoothcruiser.jit.forms import LOOKING, PATIENCE, WARMING, KernelFamily
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


# --- a process that fills the cache -------------------------------------------


SWEEP = (sweeps_kernel.sweep, "betting_0123456789ab")


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The commands of the processes that were started, none of which runs."""
    commands = []

    def note_command(command, **options):
        commands.append((command, options))
        return SimpleNamespace(returncode=0, poll=lambda: None)

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(warm.VARIABLE, raising=False)
    monkeypatch.setattr(subprocess, "Popen", note_command)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    return commands


def test_one_process_at_a_time_gets_names_and_no_pipes(started, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert warm.start_warming([SWEEP, (layers_kernel.list_layers, None)])
    ((command, options),) = started
    program, option, module, mark, *words = command
    assert (program, option, module) == (
        sys.executable,
        "-m",
        "smoothcruiser.jit.warm",
    )
    assert words == ["sweep=betting"]
    assert Path(mark).exists()
    assert {options[x] for x in ("stdin", "stdout", "stderr")} == {subprocess.DEVNULL}
    assert options["env"][warm.VARIABLE] == "0"
    assert options["env"]["XDG_CACHE_HOME"] == "/relative"

    assert warm.start_warming([SWEEP]) is None  # it runs
    assert warm.start_warming([(loops.fill_values, None)])  # of another kind
    old = time.time() - warm.STALE_SECONDS - 1
    os.utime(mark, (old, old))
    assert warm.start_warming([SWEEP])
    assert len(started) == 3


@pytest.mark.parametrize(
    "obstacle",
    [
        lambda patch: patch.setenv(warm.VARIABLE, "0"),
        lambda patch: patch.setattr(os, "sched_getaffinity", lambda process: {0}),
        lambda patch: patch.setattr(sys, "frozen", True, raising=False),
        lambda patch: patch.setattr(sys, "executable", "/opt/shop/app"),
        lambda patch: patch.setattr(sys, "executable", None),
        lambda patch: patch.setattr(multiprocessing, "parent_process", lambda: 1),
        lambda patch: patch.setattr(warm, "find_folder", lambda: None),
        lambda patch: patch.setattr(warm, "find_folder", lambda: Path("/proc/none")),
    ],
    ids=["switch", "core", "frozen", "no Python", "unknown", "worker", "none", "disk"],
)
def test_no_process_is_started_where_none_may_be(
    obstacle, started, monkeypatch, capfd
):
    obstacle(monkeypatch)
    assert warm.start_warming([SWEEP]) is None
    assert started == []
    assert capfd.readouterr() == ("", "")


def test_a_limit_on_processes_leaves_no_mark(started, monkeypatch, tmp_path, capfd):
    def refuse(*arguments, **options):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert warm.start_warming([SWEEP]) is None
    assert not list(tmp_path.glob("smoothcruiser/warm-*"))
    assert capfd.readouterr() == ("", "")
    assert warm.start_warming([(layers_kernel.list_layers, None)]) is None


def test_a_family_starts_it_once_and_changes_over_when_the_code_is_there(monkeypatch):
    now, on_disk, status, starts = [0.0], [0], [None], []

    def start(kernels):
        starts.append(set(kernels))
        return SimpleNamespace(poll=lambda: status[0])

    monkeypatch.setattr(warm, "start_warming", start)
    monkeypatch.setattr(forms, "count_on_disk", lambda kernels: on_disk[0])
    monkeypatch.setattr(forms, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    family = KernelFamily(compiling=10.0)
    family.interpreted_seconds = 0.9 * WARMING
    assert not family.must_compile(*SWEEP[:1], (), salt=SWEEP[1])
    assert starts == []
    family.interpreted_seconds = 10.6
    assert family.seconds_until_ready() == pytest.approx(10.0 * PATIENCE)
    assert not family.must_compile(
        *SWEEP[:1], (), salt=SWEEP[1]
    )  # waits for the child
    assert starts == [{SWEEP}]

    on_disk[0] = 1  # seen at the next look
    assert not family.must_compile(*SWEEP[:1], (), salt=SWEEP[1])
    now[0] += 1.01 * LOOKING
    assert family.must_compile(*SWEEP[:1], (), salt=SWEEP[1])

    family, on_disk[0], status[0] = KernelFamily(compiling=10.0), 0, 1  # it fails
    family.interpreted_seconds = 10.6
    assert family.must_compile(*SWEEP[:1], (), salt=SWEEP[1])
    assert len(starts) == 2


@pytest.mark.parametrize(
    ("word", "family", "kernel"),
    [
        ("sweep=betting", CERTIFIED, sweeps_kernel.sweep),
        ("sweep=law", CERTIFIED, sweeps_kernel.sweep),
        ("sweep_layers=law", CERTIFIED, layers_kernel.sweep_layers),
        ("fill_values", EXACT, loops.fill_values),
    ],
)
def test_a_request_runs_the_kernel_that_its_word_names(
    word, family, kernel, monkeypatch
):
    monkeypatch.setattr(KernelFamily, "first_form", None)
    monkeypatch.setattr(family, "interpreted_seconds", 0.0)
    monkeypatch.setattr(family, "called", set())
    with family.use_form(compiled=None):
        warm.compile_kernels([word])
    bounds = {str(salt).rpartition("_")[0] for k, salt in family.called if k is kernel}
    assert bounds == {word.partition("=")[2]}


@pytest.mark.slow
@pytest.mark.compiles
def test_the_process_leaves_machine_code_and_no_mark(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(warm.VARIABLE, raising=False)
    kernels = [(loops.fill_values, None), (loops.fill_q, None)]
    assert count_on_disk(kernels) == 0
    mark = tmp_path / "mark"
    mark.touch()
    command = [sys.executable, "-m", warm.__name__, str(mark), "fill_values"]
    subprocess.run(command, check=True, timeout=300)
    assert count_on_disk(kernels) == 2
    assert not mark.exists()


CHANGE_OVER = """
import sys
import smoothcruiser as sc
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED

if sys.argv[1:] == ["interpreted"]:
    CERTIFIED.is_compiled = False
codes = []

def step(state, action, rng):
    after = (state * 7 + action * 3 + rng.integers(4)) % 50
    return (after % 10) / 10, after

def wait(report):
    if CERTIFIED.child is not None and not codes:
        assert CERTIFIED.is_compiled is None
        codes.append(CERTIFIED.child.wait())

problem = sc.MDP(step, num_actions=3, discount=0.9, operator=sc.Entropy(0.1))
answer = sc.plan(problem, 0, method="certified", budget=400_000, delta=0.1, seed=3,
                 progress=wait)
print(repr((answer.value, answer.q_values, answer.interval)))
print(codes, CERTIFIED.is_compiled)
"""


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs a core for the process")
def test_a_run_changes_over_in_the_middle_and_changes_no_bit(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(warm.VARIABLE, raising=False)
    (tmp_path / "change_over.py").write_text(CHANGE_OVER)
    command = [sys.executable, "change_over.py"]
    answers = [
        subprocess.run(
            [*command, *form], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for form in (["interpreted"], [])
    ]
    (alone, interpreted), (changed, compiled) = answers
    assert interpreted == "[] False"
    assert compiled == "[0] True"  # the process ended well, and its code was taken
    assert changed == alone
