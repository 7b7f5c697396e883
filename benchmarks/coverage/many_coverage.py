"""Coverage of joint promises: many states in one call, and relaxed temperatures.

  python -m benchmarks.coverage.many_coverage [--runs 400] [--out FILE]

The worlds are small, random and hostile: rewards at the ends of their range, decided
by the next state; games, terminal states, illegal actions, horizons. Their exact
values are known.

  many      ``plan_many`` on all states, by certified search (epsilon, and a budget
            that is too small) and by schedules: a run fails if any interval of any
            state misses, and for certified search also if any row of its table does
  relaxed   V_0 and Q_0 through four operators, at temperatures that spend a tenth, a
            half or nine tenths of epsilon: a run fails if any interval misses, or
            the value or an action value is off by more than epsilon

Failures are tested against delta by the exact binomial tail; a false alarm at any of
the cases has probability 1e-3 at most (Bonferroni).
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.timing import signed
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.estimate import Estimate
from smoothcruiser.exact.solution import Solution
from smoothcruiser.methods.schedules.relaxing import PreparedRelaxation, with_operator
from smoothcruiser.operators import TemperedOperator
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Query
from smoothcruiser.schedule.relaxation import relax_through, value_band

DELTA = 0.2
FALSE_ALARM = 1e-3
FAMILIES: tuple[type[TemperedOperator], ...] = (
    sc.Entropy,
    sc.KL,
    sc.Sparsemax,
    sc.SquareRoot,
)
KINDS = ("mdp", "ends", "game", "turns", "game with ends", "horizon", "illegal")


def world(kind: str, seed: int, *, discount: float = 0.3) -> Problem:
    """A random problem of six states and two actions, with plain max."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    states, actions = 6, 2
    P = np.zeros((states, actions, states))
    turns = kind == "turns"
    for s in range(states):
        for a in range(actions):
            others = [z for z in range(states) if not turns or (z - s) % 2 == 1]
            reached = rng.choice(others, 2, replace=False)
            p = rng.choice([0.05, 0.5, 0.9])
            P[s, a, reached] = p, 1.0 - p
    R = rng.integers(0, 2, (states, actions, states)).astype(float)
    more = {}
    if "game" in kind or turns:
        more["players"] = [1 + s % 2 for s in range(states)]
    if "ends" in kind:
        more["terminal"] = [s == 5 for s in range(states)]
    if kind == "illegal":
        more["legal"] = [[True, s % 2 == 0] for s in range(states)]
    if kind == "horizon":
        more["horizon"] = 3
    return sc.tabular(
        P, R, discount=discount, operator=sc.Max(), alternating=turns, **more
    )


def misses(found: Estimate, truth: Solution) -> bool:
    """Whether an interval of an estimate excludes the exact value."""
    certificate = found.certificate
    assert certificate is not None
    row = truth.index(found.state)
    pairs = [(float(truth.values[row]), certificate.interval)]
    pairs += zip(truth.q_values[row].tolist(), certificate.q_intervals, strict=False)
    return any(not _holds(x, box) for x, box in pairs)


def _holds(x: float, box: tuple[float, float]) -> bool:
    return math.isnan(x) or math.isnan(box[0]) or box[0] - 1e-9 <= x <= box[1] + 1e-9


# --- many states --------------------------------------------------------------

ASKED = {
    "certified, epsilon": {"method": "certified", "epsilon": "15%"},
    "certified, budget": {"method": "certified", "epsilon": "2%", "budget": 400},
    "schedules": {"method": "smoothcruiser", "epsilon": "30%"},
}


def many_fails(kind: str, how: str, seed: int) -> bool:
    """Whether one call about all states breaks its promise."""
    problem = replace(world(kind, seed % 10), operator=sc.Entropy(0.2))
    truth = sc.solve(problem)
    asked = {"delta": DELTA, "seed": seed, "workers": 1} | ASKED[how]
    answers = sc.plan_many(problem, range(6), **asked)
    return any(misses(x, truth) for x in answers if x.action is not None)


def table_fails(kind: str, seed: int) -> bool:
    """Whether a row of the table of a certified memory misses."""
    problem = replace(world(kind, seed % 10), operator=sc.Entropy(0.2))
    memory = sc.Certified(problem, delta=DELTA, seed=seed)
    memory.query(0, budget=300)
    longer = {None: sc.solve(problem)}
    if problem.horizon is not None:
        longer = {
            left: sc.solve(replace(problem, horizon=left))
            for left in range(1, problem.horizon + 1)
        }
    return any(
        not _holds(float(longer[row.remaining].values[row.state]), row.interval)
        or any(
            not _holds(float(q), box)
            for q, box in zip(
                longer[row.remaining].q_values[row.state], row.q_intervals, strict=True
            )
        )
        for row in memory.table()
    )


# --- relaxed ------------------------------------------------------------------


def relaxed_runs(
    kind: str,
    family: type[TemperedOperator],
    share: float,
    seeds: range,
    *,
    shifted: bool = True,
) -> Iterator[bool]:
    """Whether each run breaks its promise about V_0; unless ``shifted``, V_lambda is
    taken for V_0, which must be found out.
    """
    problem = world(kind, seeds[0])
    epsilon = 0.3 * problem.facts.value_span()
    bands = [value_band(problem.facts.under(family(1.0)), player) for player in (1, 2)]
    half = max(0.5 * (high - low) for low, high in bands)
    operator = family(share * epsilon / half)
    plan = relax_through(
        problem.facts, operator, epsilon=epsilon, delta=DELTA, target="q_values"
    )
    truth = sc.solve(problem)
    method = sc.SmoothCruiser(relax=str(operator.name))
    for seed in seeds:
        query = Query.of(
            problem, seed % 5, epsilon=epsilon, delta=DELTA, seed=seed, workers=1
        )
        if shifted:
            ready = PreparedRelaxation(method=method, query=query, explanation=plan)
            found = ready.run()
            row = truth.index(found.state)
            far = abs(found.value - truth.values[row]) > epsilon
            for q, exact in zip(found.q_values, truth.q_values[row], strict=True):
                far = far or abs(q - exact) > epsilon
        else:
            soft = with_operator(problem, operator)
            found, far = sc.run(soft, plan.schedule, seed % 5, seed=seed, workers=1), 0
        yield bool(far) or misses(found, truth)


def cases(runs: int) -> Iterator[tuple[str, int, int]]:
    """(case, failures, runs), one after the other."""
    for how in ASKED:
        for kind in KINDS:
            bad = sum(many_fails(kind, how, seed) for seed in range(runs))
            yield f"many, {how}, {kind}", bad, runs
    for kind in KINDS:
        bad = sum(table_fails(kind, seed) for seed in range(runs))
        yield f"table, {kind}", bad, runs
    for family in FAMILIES:
        for kind in KINDS:
            for share in (0.1, 0.5, 0.9):
                if share == 0.9 and runs < 100:
                    continue
                seeds = range(max(1, runs // 4))
                bad = sum(relaxed_runs(kind, family, share, seeds))
                yield f"relaxed, {family.__name__}, {share:g}, {kind}", bad, len(seeds)


def main() -> None:
    """Run all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    begin = time.perf_counter()
    lines = ["| case | runs | failures |", "|---|---|---|"]
    found = []
    for name, bad, runs in cases(asked.runs):
        found.append((name, bad, runs))
        lines.append(f"| {name} | {runs} | {bad} |")
        print(lines[-1], flush=True)
    alarm = FALSE_ALARM / len(found)
    broken = [x for x in found if binom.sf(x[1] - 1, x[2], DELTA) < alarm]
    total, bad = sum(x[2] for x in found), sum(x[1] for x in found)
    lines.append("")
    lines.append(
        f"{total:,} runs at delta = {DELTA:g}, {bad} failures, {len(broken)} cases beyond "
        f"delta; {time.perf_counter() - begin:.0f} s."
    )
    print(lines[-1])
    if asked.out is not None:
        head = [
            "# Coverage of joint and relaxed promises",
            "",
            f"`python {' '.join(sys.argv)}` (what counts as a failure: the script's head)",
            "",
            signed(),
            "",
        ]
        asked.out.write_text("\n".join([*head, *lines]) + "\n")
    if broken:
        raise SystemExit(f"broken promises: {broken}")


if __name__ == "__main__":
    main()
