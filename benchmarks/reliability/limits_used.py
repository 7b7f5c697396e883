"""What becomes of ``seconds=``: how much of it is used, and how much of that samples.

  python -m benchmarks.reliability.limits_used [--seconds 2] [--only WAY [WAY ...]] [--out FILE]

Every way to ask runs with a limit alone, on four worlds (states that come back and states
on a line, discounts 0.9 and 0.99), with a step in plain Python and a compiled one. Each of
the two steps is asked about in two processes of its own, one after the other, in one
order: the caches of the first (machine code, schedules) are empty, those of the second
are what the first has left. Numba and the engines are imported before the first call.

  used       seconds of the call, by the library's stopwatch: without compiling, and
             without loading compiled code, as ``seconds=`` is documented
  sampling   the share of the limit between the reports (``progress=``) that samples are
             taken (phases sampling and evaluating) and the next phase or the answer, by
             the same stopwatch: choosing, timing and inspecting the step are outside

A row is fine where ``used`` is at most 10% + 0.5 s above the limit and ``sampling`` at
least 0.8. Exits with 1 if one is not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.timing import load, signed

import smoothcruiser as sc
from smoothcruiser.run_control import clock

LATE_SHARE, LATE_SECONDS, LEAST = 0.1, 0.5, 0.8
DELTA = 0.05
SAMPLES = ("sampling", "evaluating")
CACHES = ("empty", "filled")


def walk(state, action, rng):
    """Nine states, of which one pays."""
    after = (state + 1 + action) % 9 if rng.random() < 0.7 else (2 * state) % 9
    return (1.0 if after == 3 else 0.0), after


def drift(state, action, rng):
    """A point on a line, where no state comes back."""
    after = 0.9 * state + 0.2 * (action - 0.5) + 0.1 * rng.normal()
    return 1.0 / (1.0 + after * after), after


STEPS = {"come back": (walk, 0), "on a line": (drift, 0.0)}


def half(state: Any) -> list[float]:
    return [0.5, 0.5]


def plan(method: str, **more: Any) -> Callable[..., Any]:
    return lambda problem, **asked: sc.plan(problem, method=method, **more, **asked)


def evaluate(problem: sc.MDP, **asked: Any) -> Any:
    return sc.evaluate(problem, half, delta=DELTA, **asked)


def plan_many(problem: sc.MDP, **asked: Any) -> Any:
    start = problem.initial_state
    return sc.plan_many(problem, [start, start + 1], delta=DELTA, **asked)[0]


def act(problem: sc.MDP, **asked: Any) -> Any:
    agent = sc.Agent(problem, method="auto", delta=DELTA, **asked)
    try:
        agent.act(problem.initial_state)
        return agent.estimate
    finally:
        agent.close()


# auto first: who comes later finds schedules that it has looked for
WAYS: dict[str, Callable[..., Any]] = {
    "auto": plan("auto", delta=DELTA),
    "certified": plan("certified", delta=DELTA),
    "smoothcruiser": plan("smoothcruiser", delta=DELTA),
    "sparse-sampling": plan("sparse-sampling", delta=DELTA),
    "uct": plan("uct"),
    "ments": plan("ments"),
    "evaluate": evaluate,
    "plan_many": plan_many,
    "Agent.act": act,
}


class SamplingClock:
    """How long samples are taken, by the reports of a run in this thread."""

    def __init__(self) -> None:
        self.stopwatch, self.sampled, self.since = clock.Clock(), 0.0, None

    def __call__(self, seen: sc.Progress) -> None:
        now = self.stopwatch.elapsed()
        if self.since is None and seen.phase in SAMPLES:
            self.since = now
        elif self.since is not None and seen.phase not in SAMPLES:
            self.sampled, self.since = self.sampled + now - self.since, None

    def end(self) -> tuple[float, float]:
        """(seconds used, seconds of sampling)."""
        used = self.stopwatch.elapsed()
        return used, self.sampled + (0.0 if self.since is None else used - self.since)


class Row(NamedTuple):
    """One call."""

    way: str
    step: str
    caches: str
    states: str
    discount: float
    limit: float
    used: float
    share: float
    compiling: float
    calls: int
    interval: tuple[float, float] | None
    method: str  # that answered, or what went wrong

    @property
    def late(self) -> bool:
        return self.used > (1.0 + LATE_SHARE) * self.limit + LATE_SECONDS

    @property
    def fine(self) -> bool:
        return not self.late and self.share >= LEAST

    def __str__(self) -> str:
        shown = (
            "" if self.interval is None else "[{:.3g}, {:.3g}]".format(*self.interval)
        )
        verdict = "yes" if self.fine else "NO, late" if self.late else "NO"
        cells = (
            *(self.way, self.step, self.caches, self.states, f"{self.discount:g}"),
            *(f"{self.used:.2f}", f"{self.share:.0%}", f"{self.compiling:.1f}"),
            *(f"{self.calls:,}", shown, self.method, verdict),
        )
        return f"| {' | '.join(cells)} |"


def timed(
    way: str, step: str, caches: str, states: str, discount: float, limit: float
) -> Row:
    """One call of this process."""
    move, start = STEPS[states]
    if step == "compiled":
        import numba

        move = numba.njit(move)
    problem = sc.MDP(
        move,
        num_actions=2,
        initial_state=start,
        discount=discount,
        operator=sc.Entropy(0.2),
    )
    sampling_clock = SamplingClock()
    head = (way, step, caches, states, discount, limit)
    try:
        answer = WAYS[way](problem, seconds=limit, progress=sampling_clock)
    except sc.SmoothcruiserError as error:
        return Row(*head, sampling_clock.end()[0], 0.0, 0.0, 0, None, str(error)[:80])
    used, sampled = sampling_clock.end()
    return Row(
        *head,
        used,
        sampled / limit,
        answer.compile_seconds,
        answer.num_calls,
        answer.interval,
        answer.method,
    )


def child(step: str, caches: str, limit: float, ways: list[str]) -> None:
    """All rows of one process, a line of JSON for each."""
    import numba  # noqa: F401  # modules are loaded before the first call, not in it

    import smoothcruiser.engines.calibrate
    import smoothcruiser.engines.pilot  # noqa: F401

    for states in STEPS:
        for discount in (0.9, 0.99):
            for way in ways:
                row = timed(way, step, caches, states, discount, limit)
                print(json.dumps(row), flush=True)


def rows_of(step: str, caches: str, folder: str, options: Any) -> list[Row]:
    """The rows of a process whose caches lie in ``folder``; they are printed."""
    line = [
        sys.executable,
        "-m",
        "benchmarks.reliability.limits_used",
        "--child",
        step,
        caches,
    ]
    line += ["--seconds", str(options.seconds), "--only", *options.only]
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    rows = []
    with subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            rows.append(Row(*json.loads(text)))
            print(rows[-1], flush=True)
    if process.returncode:
        raise SystemExit(f"the process of {step}, {caches} ended in an error")
    return rows


def report(rows: list[Row], options: Any, seconds: float) -> str:
    """The page of the evidence."""
    late = sum(row.late for row in rows)
    little = sum(row.share < LEAST for row in rows)
    return "\n".join(
        [
            "# How a time limit is used",
            "",
            "`python -m benchmarks.reliability.limits_used "
            f"--seconds {options.seconds:g}`, {signed()}, "
            f"load {load()[0]:.1f} at the end; {seconds:.0f} s. What the columns mean and "
            "how they are measured: the script's head.",
            "",
            f"{len(rows)} calls with `seconds={options.seconds:g}` and no epsilon. Later "
            f"than 10% + 0.5 s: {late}. Less than four fifths of the limit spent on "
            f"sampling: {little}.",
            "",
            "| asked | step | caches | states | discount | used s | sampling | compiling s | "
            "calls | interval | answered by | fine |",
            "|" + "---|" * 12,
            *map(str, rows),
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.seconds, options.only)
        return 0
    begin, rows = time.perf_counter(), []
    for step in ("plain", "compiled"):
        with tempfile.TemporaryDirectory() as folder:
            for caches in CACHES:
                rows += rows_of(step, caches, folder, options)
                text = report(rows, options, time.perf_counter() - begin)
                if options.out:
                    options.out.write_text(text)
    print(text.split("| asked")[0])
    return int(any(not row.fine for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
