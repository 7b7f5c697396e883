"""How benchmarks are timed and signed.

A time is the best of five interleaved runs (``best``), a ratio of two programs the median
over many short pairs of runs (``paired``). The machine and its load stand beside them.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

REPEATS = 5


def best(
    runs: dict[str, Callable[[], Any]],
    *,
    clock: Callable[[], float] = time.perf_counter,
    repeats: int = REPEATS,
) -> dict[str, float]:
    """Seconds of the fastest of ``repeats`` runs of each function.

    Runs are interleaved, so that a busy minute hits all alike.

    One thread is timed by ``time.thread_time``: what other processes take of
    the core is not counted, so ratios stay meaningful on a busy machine.
    Several threads can only be timed by the wall clock.
    """
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            begin = clock()
            run()
            seconds[name] = min(seconds[name], clock() - begin)
    return seconds


class Paired(NamedTuple):
    """How one function compares with another that is timed beside it."""

    seconds: float  # of its fastest run
    ratio: float  # the other's seconds divided by its own, median over all rounds
    low: float  # quartiles of this ratio
    high: float


def paired(
    runs: dict[str, Callable[[], Any]],
    base: str,
    *,
    clock: Callable[[], float] = time.perf_counter,
    rounds: int,
) -> dict[str, Paired]:
    """Each function compared with ``base``, which is one of them.

    In a round every function runs once, every other round in the opposite order. Runs
    should be short, some milliseconds: a core changes its speed by a third when its
    neighbour is busy, and both runs of a pair must meet the same speed. Whether the
    fastest runs of two functions did is chance, so their ratio says less than
    the median of all pairs.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(rounds):
        for name in list(runs)[:: 1 if i % 2 == 0 else -1]:
            begin = clock()
            runs[name]()
            seconds[name].append(clock() - begin)
    found = {}
    for name, own in seconds.items():
        ratios = [b / a for a, b in zip(own, seconds[base], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        found[name] = Paired(min(own), median(ratios), low, high)
    return found


def load() -> list[float]:
    """The load averages of the last 1, 5 and 15 minutes."""
    return [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else []


def machine() -> dict[str, Any]:
    """What a figure depends on."""
    import numba
    import numpy
    import scipy

    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": load(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "cc": _first_line(["cc", "--version"]),
        "commit": commit(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip()
            for line in lines
            if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit(folder: Path = Path(__file__).parent) -> str:
    """The commit of the tree of a folder, by default of this one."""
    return _first_line(["git", "-C", str(folder), "rev-parse", "--short", "HEAD"])


def subject(folder: Path = Path(__file__).parent) -> str:
    """The subject of that commit, which a rebase does not change."""
    return _first_line(["git", "-C", str(folder), "log", "-1", "--format=%s"])


def _first_line(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def publish(text: str, file: Path | None) -> None:
    """Print the page of a benchmark, and write it to a file where one was requested."""
    print(text)
    if file is not None:
        file.write_text(text)


def signed() -> str:
    """One paragraph on the machine, for the head of a table."""
    facts = machine()
    versions = ", ".join(
        f"{name} {facts[name]}" for name in ("python", "numba", "numpy", "scipy")
    )
    return (
        f"{facts['date']}, commit {facts['commit']}, {facts['cpu']}, {facts['cores']} "
        f"cores, load {facts['load']} when it began; {versions}, {facts['cc']}."
    )
