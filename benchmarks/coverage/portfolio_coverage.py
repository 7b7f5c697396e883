"""Coverage of ``auto``: how often what it answers is false, branch by branch.

  python -m benchmarks.coverage.portfolio_coverage [--worlds 90] [--runs 60] [--out FILE]

Small random MDPs and games, with and without horizons and ends, noisy and without
chance, are given as simulators: no method sees their tables. Their exact values come
from value iteration in this file, which shares no code with the package. A state may
carry a *label* that changes nothing, so that one world serves three branches: with
one label states come back and certified search wins, with some tens of them the
schedule has to take over, and with real numbers no state ever comes back.

Every world is asked in all ways that end differently: a promise, a promise that a
budget or the clock cuts, a limit without a promise, and a callback that stops. A run
fails if the interval of the value or of any action value excludes the truth, if the
value or an action value is off by more than the epsilon of the answer, or if the
parts of the portfolio contradict each other. Failures are tested against delta by the
exact binomial tail, in each branch and way to ask; a false alarm in any of them has
probability 1e-3 at most (Bonferroni). A run that raises anything else fails the
script: every limit has to give an answer.

Bounds that hold for every world are loose on most. So that "no failure" says
something, the table also shows how many runs would have failed had each interval been
half, a quarter or an eighth as wide around its middle.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.timing import publish, signed

import smoothcruiser as sc
from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.schedule.compiler.optimizer import smallest_epsilon

FALSE_ALARM = 1e-3
ROUNDING = 1e-9
SHARES = (0.5, 0.25, 0.125)  # of their widths, to which intervals are narrowed
LABELS = (1, 40, 0)  # 0: a real number
SECONDS = 0.1  # of the runs that the clock ends


@dataclass(frozen=True)
class Small:
    """A small world: tables, an operator, and how its states are labelled."""

    P: np.ndarray  # (S, A, S)
    R: np.ndarray  # (S, A, S), paid on arrival
    ends: np.ndarray  # (S,)
    player: np.ndarray  # (S,), 1 or 2
    operator: sc.Operator
    discount: float
    horizon: int | None
    labels: int
    deterministic: bool

    def problem(self) -> sc.Problem:
        """The world as a plain Python simulator."""
        P, R, labels = self.P, self.R, self.labels
        ladder, places = np.cumsum(P, axis=2).tolist(), range(len(P) - 1)
        rewards, ends = R.tolist(), self.ends.tolist()
        player = self.player.tolist()

        def step(state, action, rng):
            place = state[0]
            u, row = (
                (0.5 if self.deterministic else rng.random()),
                ladder[place][action],
            )
            following = next((z for z in places if u < row[z]), len(row) - 1)
            label: float = 0
            if labels == 0:
                label = rng.random()
            elif labels > 1:
                label = rng.integers(labels)
            return rewards[place][action][following], (following, label)

        rest: dict[str, Any] = {
            "num_actions": P.shape[1],
            "discount": self.discount,
            "operator": self.operator,
            "horizon": self.horizon,
            "initial_state": (0, 0.0 if labels == 0 else 0),
            "deterministic": self.deterministic and labels == 1,
        }
        if self.ends.any():
            rest["terminal"] = lambda state: ends[state[0]]
        if (self.player == 1).all():
            return sc.MDP(step, **rest)
        return sc.Game(step, player=lambda state: player[state[0]], **rest)

    def truth(self) -> tuple[float, np.ndarray]:
        """V and Q of the first state, by value iteration."""
        values = np.zeros(len(self.P))
        sweeps = self.horizon
        if sweeps is None:
            sweeps = math.ceil(math.log(1e-14) / math.log(self.discount))
        for _ in range(sweeps):
            Q = (self.P * (self.R + self.discount * values)).sum(axis=2)
            values = np.array(
                [backed_up(self.operator, Q[s], self.player[s]) for s in range(len(Q))]
            )
            values[self.ends] = 0.0
        return float(values[0]), Q[0]


def backed_up(operator: sc.Operator, q: np.ndarray, player: int) -> float:
    """F(q) of the max player, -F(-q) of the min player, by the textbook formulas."""
    if player == 2:
        return -backed_up(operator, -q, 1)
    if operator.name == "max":
        return float(q.max())
    scaled = q / operator.temperature
    if operator.name == "sparsemax":
        ordered = np.sort(scaled)[::-1]
        ranks = np.arange(1, len(q) + 1)
        support = ranks[1.0 + ranks * ordered > np.cumsum(ordered)][-1]
        tau = (ordered[:support].sum() - 1.0) / support
        total = 0.5 * ((ordered[:support] ** 2 - tau**2).sum() + 1.0)
        return float(operator.temperature * total)
    top = scaled.max()
    total = np.log(np.exp(scaled - top).sum()) + top
    return float(operator.temperature * total)


def small_world(number: int) -> Small:
    """World ``number``: its kind goes around, the rest is random."""
    rng = np.random.default_rng([16, number])
    places, actions = int(rng.integers(1, 6)), int(rng.integers(2, 4))
    deterministic = number % 5 == 4
    P = rng.dirichlet(np.full(places, 0.7), size=(places, actions))
    if deterministic:
        P = np.eye(places)[rng.integers(places, size=(places, actions))]
    # coins are the hardest rewards: nothing of the range is spare
    pays = 0.5 + rng.choice([0.1, 0.9]) * (rng.random((places, actions, 1)) - 0.5)
    if deterministic:
        pays = np.round(pays)
    rows = np.concatenate([P * (1.0 - pays), P * pays], axis=2)  # twins that pay
    P = np.concatenate([rows, rows])
    R = np.zeros(P.shape)
    R[:, :, places:] = 1.0
    states = 2 * places
    temperature = float(10.0 ** rng.uniform(-1.0, 0.5))
    operators = (sc.Entropy(temperature), sc.Max(), sc.Sparsemax(temperature))
    ends = np.zeros(states, dtype=bool)
    if places > 1 and rng.random() < 0.3:
        ends[-1] = True
    return Small(
        P=P,
        R=R,
        ends=ends,
        player=rng.integers(1, 3, size=states)
        if rng.random() < 1 / 3
        else np.ones(states, dtype=int),
        operator=operators[int(rng.integers(3))],
        discount=float(rng.uniform(0.1, 0.4)),
        horizon=int(rng.integers(2, 4)) if rng.random() < 0.25 else None,
        labels=LABELS[number % 3],
        deterministic=deterministic,
    )


@dataclass
class Tally:
    """What was seen in one branch, of one way to ask."""

    runs: int = 0
    failures: int = 0
    allowed: float = 0.0  # sum of the deltas
    delta: float = 0.0  # the largest of them
    narrowed: tuple[int, ...] = (0,) * len(SHARES)  # failures, had it been narrower
    calls: int = 0

    def add(self, other: Tally) -> None:
        """The two as one."""
        self.runs += other.runs
        self.failures += other.failures
        self.allowed += other.allowed
        self.delta = max(self.delta, other.delta)
        self.narrowed = tuple(
            map(sum, zip(self.narrowed, other.narrowed, strict=True))
        )
        self.calls += other.calls


def hurried(calls: int) -> Callable[[Any], bool]:
    """A callback that stops once so many calls are made."""
    return lambda seen: seen.calls < calls


def ways(
    problem: sc.Problem, delta: float, rng: np.random.Generator
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The ways to ask: each ends in another manner.

    The promises are those that a schedule keeps for some thousands of calls, and for
    ten times as many.
    """
    price = int(rng.integers(2_000, 6_000))
    wide, tight = (
        max(1e-3, smallest_epsilon(problem.facts, budget=calls, delta=delta))
        for calls in (price, 10 * price)
    )
    budget = int(rng.integers(100, price))
    for _ in range(2):  # those that take no time of their own are asked more often
        yield "promise", {"epsilon": wide}
        yield "promise, budget cuts", {"epsilon": tight, "budget": budget}
        yield "budget alone", {"budget": budget}
        yield "callback stops", {"epsilon": tight, "progress": hurried(budget)}
    yield "promise, seconds cut", {"epsilon": tight, "seconds": SECONDS}
    yield "seconds alone", {"seconds": SECONDS}


def branch_of(answer: sc.Estimate) -> str:
    """Which part of the portfolio gave the answer."""
    text = " ".join(answer.notes)
    if "its intervals and the schedule's hold together" in text:
        return "race: search, then schedule"
    if "auto runs certified search first" in text:
        return "race: the search was enough"
    return f"{answer.method} alone"


def judge(answer: sc.Estimate, value: float, q_values: np.ndarray) -> Tally:
    """One run: whether it failed, and at which share of its widths it would have."""
    assert answer.certificate is not None
    assert answer.interval is not None
    boxes = [(answer.interval, value)]
    boxes += zip(answer.certificate.q_intervals, q_values, strict=True)

    def excluded(share: float) -> bool:
        return any(
            abs(truth - 0.5 * (low + high)) > 0.5 * share * (high - low) + ROUNDING
            for (low, high), truth in boxes
        )

    pairs = [(answer.value, value), *zip(answer.q_values, q_values, strict=True)]
    off = max(abs(found - truth) for found, truth in pairs)
    failed = excluded(1.0) or off > answer.epsilon + ROUNDING
    return Tally(
        runs=1,
        failures=int(failed),
        allowed=answer.delta,
        delta=answer.delta,
        narrowed=tuple(int(excluded(share)) for share in SHARES),
        calls=answer.num_calls,
    )


Found = dict[tuple[str, str], Tally]


def study(job: tuple[int, int]) -> tuple[Found, list[str]]:
    """The runs of one world: tallies by branch and way, and what was raised."""
    number, runs = job
    world = small_world(number)
    problem, (value, q_values) = world.problem(), world.truth()
    rng = np.random.default_rng([17, number])
    delta = float(rng.choice([0.2, 0.35, 0.5]))
    asked = list(ways(problem, delta, rng))
    found: Found = defaultdict(Tally)
    raised = []
    for run in range(runs):
        way, keywords = asked[run % len(asked)]
        try:
            answer = sc.plan(problem, delta=delta, seed=run, **keywords)
        except SmoothcruiserError as error:
            if "contradict" in str(error):
                tally = Tally(1, 1, delta, delta, (1,) * len(SHARES))
                found["contradiction", way].add(tally)
            else:
                shown = f"{type(error).__name__}: {error}"
                raised.append(f"world {number}, {way} {keywords}: {shown}")
            continue
        found[branch_of(answer), way].add(judge(answer, value, q_values))
    return dict(found), raised


def gather(worlds: int, runs: int, workers: int) -> tuple[Found, list[str]]:
    """All worlds, on several processes."""
    found: Found = defaultdict(Tally)
    raised = []
    jobs = [(number, runs) for number in range(worlds)]
    with get_context("spawn").Pool(workers) as pool:
        for part, errors in pool.imap_unordered(study, jobs):
            raised += errors
            for key, tally in part.items():
                found[key].add(tally)
    return dict(found), raised


def beyond(tally: Tally, cases: int) -> bool:
    """Whether so many failures are no accident at the delta that was allowed."""
    tail = binomial_tail(tally.failures, tally.runs, tally.delta)
    return tail < FALSE_ALARM / cases


def page(found: Found, raised: list[str], seconds: float) -> tuple[str, bool]:
    """The table as Markdown, and whether everything held."""
    total = Tally()
    for tally in found.values():
        total.add(tally)
    broken = [key for key, tally in found.items() if beyond(tally, len(found))]
    lines = [
        "# Coverage of `auto`, branch by branch",
        "",
        f"`python {' '.join(sys.argv)}` (what counts as a failure: the script's head)",
        "",
        signed(),
        "",
        f"{total.runs:,} runs in {seconds:.0f} s: {total.failures} failures where the "
        f"deltas (0.2, 0.35, 0.5) allow {total.allowed:.0f}; {len(broken)} of "
        f"{len(found)} cases beyond their delta; {len(raised)} runs without an answer.",
        "",
        "| branch | asked for | runs | failures | allowed "
        "| had intervals been 1/2, 1/4, 1/8 as wide | calls per run |",
        "|---|---|---|---|---|---|---|",
    ]
    for (branch, way), tally in sorted(found.items()):
        narrowed = ", ".join(map(str, tally.narrowed))
        lines.append(
            f"| {branch} | {way} | {tally.runs:,} | {tally.failures} "
            f"| {tally.allowed:.0f} | {narrowed} | {tally.calls / tally.runs:,.0f} |"
        )
    lines += ["", *(f"- beyond delta: {', '.join(key)}" for key in broken)]
    lines += [f"- no answer: {text}" for text in raised[:20]]
    return "\n".join(lines).rstrip() + "\n", not broken and not raised


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=90)
    parser.add_argument("--runs", type=int, default=60, help="per world")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    found, raised = gather(options.worlds, options.runs, options.workers)
    text, good = page(found, raised, time.perf_counter() - begin)
    publish(text, options.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
