"""Another process that compiles kernels while this one interprets them.

``python -m smoothcruiser.jit.warm MARK KERNEL[=BOUND] ...`` makes a small request
for each kernel named, with all kernels compiled, so that their machine code is
in the cache on disk. It gets names alone: no objects and no code of a user. The
process that started it never waits for it, and may end first: its code serves
the next run then.

Where a process cannot be started, or would share the only core, nothing happens
and nothing is printed: kernels stay interpreted until they have taken as long
as compiling. That holds for frozen applications, for workers, for a disk that
cannot be written, for limits on processes, and with ``SMOOTHCRUISER_WARM=0``.
Kernels of one kind are compiled by one process at a time: a file in the cache,
the mark, says that it runs.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from smoothcruiser.jit.disk_cache import find_folder, is_private

VARIABLE = "SMOOTHCRUISER_WARM"  # "0": no process is started
MOST_SECONDS = 300  # of CPU time
STALE_SECONDS = 900  # after which a mark counts no more
NUM_SAMPLES = 200
# for kernels that stand for all that are compiled with them, a request
REQUESTS: dict[str, dict[str, Any]] = {
    "sweep": {"discount": 0.5},
    "sweep_layers": {"discount": 0.9, "horizon": 3},
    "fill_values": {},  # exactly
}


def start_warming(kernels: Iterable[tuple[Any, str | None]]) -> Any:
    """Start the process for kernels with their salts; None where none may be."""
    words = sorted(
        f"{kernel.__name__}={salt.rpartition('_')[0]}" if salt else kernel.__name__
        for kernel, salt in kernels
        if kernel.__name__ in REQUESTS
    )
    folder = find_folder() if words and may_start() else None
    if folder is None:
        return None
    mark_path = (
        folder / f"warm-{hashlib.sha256(repr(words).encode()).hexdigest()[:16]}"
    )
    try:
        set_mark(mark_path)
    except OSError:  # another process is at it, or the disk cannot be written
        return None
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", __name__, str(mark_path), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).resolve().parents[2],  # where the package is
            env=child_environment(),
            start_new_session=True,  # Ctrl-C is for its parent
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        mark_path.unlink(missing_ok=True)
        return None
    atexit.register(forget, child)
    return child


def may_start() -> bool:
    """Whether this process may have a helper: a core, a Python, and leave."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    program = os.path.basename(sys.executable or "").lower()
    return (
        os.environ.get(VARIABLE) != "0"
        and cores > 1
        and not getattr(sys, "frozen", False)
        and program.startswith(("python", "pypy"))
        and multiprocessing.parent_process() is None
    )


def set_mark(path: Path) -> None:
    """Create the file that says that a process runs; OSError if one does."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if is_private(status) and time.time() - status.st_mtime > STALE_SECONDS:
            path.unlink()
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def child_environment() -> dict[str, str]:
    """This environment, for a process elsewhere that starts none itself."""
    folders = {
        name: os.path.abspath(os.environ[name])
        for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
        if os.environ.get(name)
    }
    return os.environ | folders | {VARIABLE: "0"}


def forget(child: Any) -> None:
    """Let a child outlive this process without a warning."""
    if child.returncode is None:
        child.returncode = 0


def compile_kernels(words: Iterable[str]) -> None:
    """Make the requests that compile the kernels named."""
    from smoothcruiser.jit.forms import KernelFamily

    def step(state: int, action: int, rng: Any) -> tuple[float, int]:
        return 0.5 * (state % 2), (state + action + rng.integers(3)) % 5

    KernelFamily.first_form = True
    sc: Any = import_module(__package__.partition(".")[0])  # the front door
    operator = sc.Entropy(0.1)
    for word in words:
        kernel_name, _, bound = word.partition("=")
        facts = REQUESTS[kernel_name]
        if not facts:
            P, R = [[[0.5, 0.5]], [[0.0, 1.0]]], [[0.1], [0.9]]
            problem = sc.tabular(P, R, discount=0.5, operator=operator)
            sc.plan(problem, 0, method="exact")
        else:
            problem = sc.MDP(step, num_actions=3, operator=operator, **facts)
            promise = {
                "budget": NUM_SAMPLES,
                "delta": 0.1,
                "options": {"bound": bound},
            }
            sc.plan(problem, 0, method="certified", **promise)


def main() -> None:
    """Compile what the command line names, and remove the mark."""
    mark_path, *words = sys.argv[1:]
    try:
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource  # not on Windows

            limits = MOST_SECONDS, MOST_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, limits)
        compile_kernels(words)
    finally:
        Path(mark_path).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
