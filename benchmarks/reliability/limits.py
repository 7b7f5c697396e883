"""Time limits and Ctrl-C: how late the answer comes, and whether its interval holds.

  python -m benchmarks.reliability.limits [--seconds S [S ...]] [--quick] [--only WAY ...]
      [--out FILE]

Every method that certifies runs on every executor that takes it, with simulators of
nanoseconds (compiled), of 2 ms and of 20 ms (``exact`` with tables that take it tens
of seconds), once with ``seconds=`` and once with a SIGINT from outside: in a Python
script, in a notebook's kernel (where ipykernel and jupyter_client are installed) and
on the command line. What was compiled before is not counted; workers that have to be
started are. A row fails where the answer comes more than 10% + 0.5 s late, where it
has no interval, or where the interval excludes the exact value.

How much of a limit is used, with empty caches too: ``limits_used.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.timing import load, signed

import smoothcruiser as sc

HERE = Path(__file__).resolve().parent
DELTA = 1e-3  # so that no row fails by chance
LATE_SHARE, LATE_SECONDS = 0.1, 0.5
WARM = 0.05  # seconds of the run that compiles


def move(state, action, rng):
    """A walk on nine states that pays at one of them."""
    after = (state + 1 + action) % 9 if rng.random() < 0.7 else (2 * state) % 9
    return (1.0 if after == 3 else 0.0), after


def slow_2ms(state, action, rng):
    time.sleep(2e-3)
    return move(state, action, rng)


def slow_20ms(state, action, rng):
    time.sleep(2e-2)
    return move(state, action, rng)


def outcomes(state, action):
    ways = ((0.7, (state + 1 + action) % 9), (0.3, (2 * state) % 9))
    return [(p, 1.0 if after == 3 else 0.0, after) for p, after in ways]


def world(step: Any, **model: Any) -> sc.MDP:
    """The walk with a step of some speed; nobody sees the model of a simulator."""
    about: dict[str, Any] = {"discount": 0.8, "operator": sc.Entropy(0.2)}
    return sc.MDP(step, num_actions=2, initial_state=0, **about, **model)


RING, PATIENT = 200_000, 0.99999


def ring() -> sc.MDP:
    """A circle of many states, of which one pays: sweeps take long to go around it."""
    from scipy.sparse import csr_array

    pair = np.arange(2 * RING)
    after = (pair // 2 + 1) % RING
    P = csr_array((np.ones(2 * RING), (pair, after)), shape=(2 * RING, RING))
    R = np.zeros((RING, 2))
    R[0] = 1.0
    return sc.tabular(P, R, discount=PATIENT, operator=sc.Entropy(0.2))


@cache
def compiled() -> sc.MDP:
    """One problem for all runs: it is compiled once."""
    import numba

    return world(numba.njit(move))


SIMULATORS = {
    "10 ns": compiled,
    "2 ms": lambda: world(slow_2ms),
    "20 ms": lambda: world(slow_20ms),
    "tables": ring,
}
STEPS = ("10 ns", "2 ms", "20 ms")
slow, slower = world(slow_2ms), world(slow_20ms)  # for the command line


class Way(NamedTuple):
    """A way to ask: what is called, with which keywords, on which executors."""

    name: str
    asked: dict[str, Any]
    executors: tuple[str | None, ...]
    promise: dict[str, Any]  # what a run without a time limit is asked for
    simulators: tuple[str, ...] = STEPS


WORKERS = ("processes", "dask")
SCHEDULE = {"epsilon": 0.02, "delta": DELTA, "budget": 10**12}
WAYS = (
    Way("certified", {"delta": DELTA}, (None, *WORKERS), {"epsilon": 1e-4}),
    Way("smoothcruiser", SCHEDULE, (None, *WORKERS), {}),
    Way("sparse-sampling", SCHEDULE, (None,), {}),
    Way("paper", SCHEDULE | {"epsilon": 1.0}, (None,), {}),
    Way("auto", SCHEDULE, (None,), {}),
    Way("exact", {}, (None,), {}, ("tables",)),
    Way("uct", {"certify": True, "delta": DELTA}, (None,), {"budget": 10**11}),
    Way("ments", {"certify": True, "delta": DELTA}, (None,), {"budget": 10**11}),
    Way("evaluate", {"delta": DELTA}, (None,), {"budget": 10**11}),
)


def ask(way: Way, problem: sc.MDP, executor: str | None, **more: Any) -> sc.Estimate:
    asked = dict(way.asked, **more)
    if executor is not None:
        asked |= {"executor": executor, "workers": 2}
    if way.name == "evaluate":
        return sc.evaluate(problem, half, **asked)
    return sc.plan(problem, method=way.name, **asked)


def half(state: int) -> list[float]:
    return [0.5, 0.5]


def truths() -> dict[str, float]:
    """The exact value, and that of the policy that ``evaluate`` plays."""
    from smoothcruiser.exact import policy_value

    problem = world(move, outcomes=outcomes)
    extra = 0.2 * math.log(2.0) / (1.0 - PATIENT)  # of the regularizer, in every step
    return {
        "evaluate": float(policy_value(problem, [[0.5, 0.5]] * 9)[0]),
        "exact": extra + 1.0 / (1.0 - PATIENT**RING),
        "": sc.plan(problem, method="exact").value,
    }


class Row(NamedTuple):
    """What came of one run."""

    where: str
    way: str
    executor: str
    simulator: str
    limit: float
    late: float
    interval: tuple[float, float] | None
    holds: bool
    said: str = ""

    @property
    def fine(self) -> bool:
        return self.holds and self.late <= LATE_SHARE * self.limit + LATE_SECONDS

    def __str__(self) -> str:
        shown = (
            "none"
            if self.interval is None
            else "[{:.4g}, {:.4g}]".format(*self.interval)
        )
        cells = (
            self.where,
            self.way,
            self.executor,
            self.simulator,
            f"{self.limit:g}",
            f"{self.late:+.2f}",
            shown,
            "yes" if self.fine else f"NO {self.said}",
        )
        return f"| {' | '.join(cells)} |"


def holds(way: str, interval: Any, known: dict[str, float]) -> bool:
    truth = known.get(way, known[""])
    return interval is not None and interval[0] <= truth <= interval[1]


@contextlib.contextmanager
def pressed(seconds: float | None) -> Iterator[None]:
    """SIGINT from a process of its own, after so long."""
    if seconds is None:
        yield
        return
    code = f"import os, time; time.sleep({seconds}); os.kill({os.getpid()}, 2)"
    child = subprocess.Popen([sys.executable, "-S", "-c", code])
    try:
        yield
    finally:
        child.kill()
        child.wait()


def timed(
    where: str, way: Way, executor: str | None, name: str, limit: float, known: Any
) -> Row:
    """One run in this process, ended by the clock or by a signal."""
    problem, by_hand = SIMULATORS[name](), where == "script"
    more = way.promise if by_hand else {"seconds": limit}
    cells = (where, way.name, executor or "default", name, limit)
    begin = time.perf_counter()
    try:
        with pressed(limit if by_hand else None):
            answer = ask(way, problem, executor, **more)
    except (Exception, KeyboardInterrupt) as error:
        late = time.perf_counter() - begin - limit
        return Row(*cells, late, None, False, f"{type(error).__name__}: {error}"[:90])
    late = time.perf_counter() - begin - limit
    return Row(*cells, late, answer.interval, holds(way.name, answer.interval, known))


def in_process(
    where: str, limits: list[float], known: Any, quick: bool
) -> Iterator[Row]:
    for way in WAYS:
        for executor in way.executors[: 1 if quick else None]:
            for name in way.simulators:
                if executor in WORKERS and name == "10 ns":
                    continue  # machine code runs here
                problem = SIMULATORS[name]()
                if executor is None:  # compile
                    with contextlib.suppress(sc.SmoothcruiserError):
                        ask(way, problem, None, seconds=WARM)
                for limit in limits:
                    yield timed(where, way, executor, name, limit, known)


COMMANDS = (
    ("certified", ["--epsilon", "1e-4", "--delta", "0.001"]),
    ("uct", ["--certify", "--delta", "0.001", "--budget", "100000000"]),
    ("auto", ["--epsilon", "1e-4", "--delta", "0.001"]),
    (
        "smoothcruiser",
        ["--epsilon", "0.02", "--delta", "0.001", "--budget", str(10**12)],
    ),
)


def commands(limits: list[float], known: Any) -> Iterator[Row]:
    """The command line, with SIGINT so long after its simulator was first called."""
    for method, more in COMMANDS:
        for simulator, name in (("slow", "2 ms"), ("slower", "20 ms")):
            for limit in limits:
                line = [
                    "plan",
                    f"benchmarks.reliability.limits:{simulator}",
                    "--method",
                    method,
                    *more,
                    "--json",
                ]
                child = subprocess.Popen(
                    [sys.executable, "-m", "smoothcruiser", *line],
                    cwd=HERE.parents[1],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                time.sleep(12.0 + limit)  # imports and compiling
                begin = time.perf_counter()
                child.send_signal(signal.SIGINT)
                out, err = child.communicate()
                late = time.perf_counter() - begin
                interval, said = None, f"exit code {child.returncode}: {err[-80:]}"
                with contextlib.suppress(ValueError):
                    interval = json.loads(out)["interval"]
                fine = child.returncode == 130 and holds(method, interval, known)
                yield Row(
                    "command line",
                    method,
                    "default",
                    name,
                    limit,
                    late,
                    interval,
                    fine,
                    said,
                )


def notebooks(limits: list[float], known: Any) -> Iterator[Row]:
    """Cells of a real kernel that is interrupted as the stop button does it."""
    try:
        from jupyter_client import KernelManager
        from jupyter_client.kernelspec import KernelSpec
    except ImportError:
        return
    manager = KernelManager()
    launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=launch, display_name="", language="python")
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        about = {"PYTHONPATH": os.pathsep.join(paths), "IPYTHONDIR": folder}
        manager.start_kernel(env=os.environ | about)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            _cell(client, "from benchmarks.reliability import limits")
            for way in WAYS:
                for name in way.simulators:
                    yield from _cells(manager, client, way, name, limits, known)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def _cells(
    manager: Any, client: Any, way: Way, name: str, limits: list[float], known: Any
) -> Iterator[Row]:
    found = f"next(way for way in limits.WAYS if way.name == {way.name!r})"
    problem = f"way = {found}; problem = limits.SIMULATORS[{name!r}]()"
    _cell(
        client,
        f"{problem}\ntry: limits.ask(way, problem, None, seconds={WARM})\nexcept Exception: pass",
    )
    for limit in limits:
        timer = threading.Timer(limit, manager.interrupt_kernel)
        timer.start()
        begin = time.perf_counter()
        shown = _cell(client, "limits.ask(way, problem, None, **way.promise).interval")
        timer.cancel()
        late = time.perf_counter() - begin - limit
        cells = ("notebook", way.name, "default", name, limit, late)
        interval = None
        with contextlib.suppress(ValueError, IndexError):
            low, high = shown.strip("()").split(",")
            interval = (float(low), float(high))
        yield Row(*cells, interval, holds(way.name, interval, known), shown[-80:])


def _cell(client: Any, code: str) -> str:
    """What a cell shows as its result, or the error's name."""
    shown: list[str] = []

    def hear(message: Any) -> None:
        content = message["content"]
        if message["msg_type"] == "execute_result":
            shown.append(content["data"]["text/plain"])
        elif message["msg_type"] == "error":
            shown.append(f"{content['ename']}: {content['evalue']}")

    client.execute_interactive(code, timeout=600, output_hook=hear)
    return shown[-1] if shown else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--quick", action="store_true", help="no workers")
    parser.add_argument("--only", nargs="+", help="ways to ask")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.only:
        globals()["WAYS"] = tuple(way for way in WAYS if way.name in options.only)
    limits, known = options.seconds, truths()
    rows = []
    sources = (
        in_process("seconds=", limits, known, options.quick),
        in_process("script", [0.0, 0.3, *limits], known, options.quick),
        notebooks(limits, known),
        commands(limits, known),
    )
    for source in sources:
        for row in source:
            rows.append(row)
            print(row, flush=True)
    bad = [row for row in rows if not row.fine]
    lines = [
        "# Time limits and Ctrl-C",
        "",
        "`python -m benchmarks.reliability.limits --seconds "
        f"{' '.join(f'{x:g}' for x in limits)}`, "
        f"{signed()}, Python {platform.python_version()}, load {load()[0]:.1f} on "
        f"{os.cpu_count()} cores.",
        "",
        f"{len(rows)} runs, {len(bad)} of them later than 10% + 0.5 s, without an "
        "interval, or with one that excludes the exact value. Late: seconds between the "
        "limit (or the signal) and the answer.",
        "",
        "| ended by | method | executor | a call takes | after s | late | interval | fine |",
        "|---|---|---|---|---|---|---|---|",
        *map(str, rows),
    ]
    text = "\n".join(lines) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(f"{len(rows)} runs, {len(bad)} bad")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
