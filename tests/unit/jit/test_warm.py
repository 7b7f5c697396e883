"""Another process fills the cache: when it is started, when not, and what is done then."""

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from smoothcruiser.certified.sweeps import layers_kernel, sweeps_kernel
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
from smoothcruiser.exact import loops
from smoothcruiser.exact.model import EXACT
from smoothcruiser.jit import forms, warm
from smoothcruiser.jit.build import count_on_disk
from smoothcruiser.jit.forms import LOOKING, PATIENCE, WARMING, KernelFamily

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
