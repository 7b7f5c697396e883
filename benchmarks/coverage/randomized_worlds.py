"""Random worlds against random tables of randomized levels: moments and coverage.

  python -m benchmarks.coverage.randomized_worlds [--worlds 250] [--out FILE]

The compiler chooses randomized levels where they pay. Here they stand anywhere: tables
are made at random of all kinds (corrections that continue at corrections, at blind
levels, at plain ones; chances from 0.001 to 1), over worlds of two-point laws that are
made at random too: 2 to 6 actions, games, ends, varying actions, horizons from 2 to 4,
discounts up to 1, rewards with an offset, every operator. The promise has nothing to
spare: epsilon is the bias of the table plus the radius of its root.

For each world, against exact values:

  moments    some 10^4 samples at the root: |mean - truth| is at most the claimed bias,
             and the second moment about the root's centre at most the claimed S^2, both
             within five standard errors. The largest ratios say how sharp the claims are.
  coverage   runs that are looked at after a quarter of their samples and at the end. A
             run fails if any interval misses. Failures are tested against delta by the
             exact binomial tail (Bonferroni, 1e-3 for all worlds).

A control compares some worlds with claims a fifth smaller, and intervals a quarter as
long: it has to fail. (Engines with a mistake are seen by exact enumeration, in
tests/unit/engines/test_randomized_levels.py.)
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.timing import publish

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.registry import make_engine
from smoothcruiser.engines.root_answer import pieces
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.shards import Shard
from smoothcruiser.engines.stopping_rule import StoppingRule, stopping_rule
from smoothcruiser.schedule.kinds import KINDS, Kind
from smoothcruiser.schedule.schedule import Level, Root, Schedule
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import Moments, backup, itself

STATES = 5
PARTS = 20  # of the samples that estimate moments, for their errors
ERRORS = 5.0
FALSE_ALARM = 1e-3
MOST_CALLS = 2e7  # of one world, for either part

Generator = np.random.Generator


# --- worlds --------------------------------------------------------------------


def operator(rng: Generator, actions: int) -> sc.Operator:
    strength = float(rng.choice([0.1, 0.3, 1.0, 3.0]))
    prior = tuple(int(x) for x in rng.integers(1, 6, actions))
    entropy = sc.Entropy(strength)
    chosen = (
        *(entropy, entropy, entropy, sc.KL(strength, prior=prior)),
        *(sc.Sparsemax(strength), sc.SquareRoot(strength), sc.Max()),
    )
    return chosen[int(rng.integers(len(chosen)))]


def world(rng: Generator) -> Any:
    """A tabular problem: two outcomes for every pair, mostly of reward 0 and 1."""
    k = int(rng.integers(2, 7))
    P, R = np.zeros((2, STATES, k, STATES))
    alike = rng.random() < 0.3  # all actions of a state have one law
    for s in range(STATES):
        first = (*rng.choice(STATES, 2, replace=False), rng.choice([0.5, 0.1, 0.9]))
        for a in range(k):
            x, y = rng.choice(STATES, 2, replace=False)
            chance = float(rng.choice([0.5, 0.1, 0.02, 0.98, 0.0]))
            if alike:
                x, y, chance = first
            P[s, a, x], P[s, a, y] = chance, 1.0 - chance
            R[s, a, x] = 1.0 if rng.random() < 0.8 else rng.random()
            R[s, a, y] = 0.0 if rng.random() < 0.8 else rng.random()
    more: dict[str, Any] = {}
    if rng.random() < 0.5:
        more["players"] = rng.integers(1, 3, STATES)
    if rng.random() < 0.4:
        more["terminal"] = np.append([False, False], rng.random(STATES - 2) < 0.4)
    if rng.random() < 0.4:
        legal = rng.random((STATES, k)) < 0.6
        legal[:, 0] = legal[0] = True
        more["legal"] = legal
    discount = float(rng.choice([0.3, 0.5, 0.8, 0.9]))
    if rng.random() < 0.35:
        more["horizon"] = int(rng.integers(2, 5))
        discount = 1.0 if rng.random() < 0.3 else discount
    offset = float(rng.choice([0.0, 0.0, -0.5, 100.0]))
    return sc.tabular(
        P,
        R + offset,
        discount=discount,
        operator=operator(rng, k),
        reward_range=(offset, offset + 1.0),
        initial_state=0,
        **more,
    )


# --- tables --------------------------------------------------------------------


class Table:
    """Rows made at random, each with the shift and baseline of its moments."""

    def __init__(self, problem: Any, rng: Generator) -> None:
        self.base, self.rng = ground(problem.facts), rng
        self.smooth = problem.facts.curvature < math.inf
        self.levels: list[Level] = []
        self.made: list[Moments] = []

    def add(self, level: Level, left: int | None) -> int:
        after = _less(left)
        query, onward = (
            backup(self.base, self.made[child], after) if child >= 0 else None
            for child in (level.query, level.continuation)
        )
        estimator, n = KINDS[level.kind], np.array([float(level.samples)])
        moments = estimator.of_row(self.base, level, n, None, query, onward, left)
        self.levels.append(estimator.finish_row(level, moments))
        self.made.append(moments)
        return len(self.levels) - 1

    def plain(self, left: int | None, depth: int) -> int:
        if left == 0 or depth == 0:
            return self.add(Level(Kind.CONSTANT), left)
        query, n = self.plain(_less(left), depth - 1), int(self.rng.integers(1, 4))
        if self.smooth and self.rng.random() < 0.5:
            onward = self.plain(_less(left), depth - 1)
            return self.add(Level(Kind.ROLLOUT, n, query, onward), left)
        return self.add(Level(Kind.PLUGIN, n, query), left)

    def chain(self, left: int | None, length: int) -> int:
        """A path of ``length`` levels, most of them randomized."""
        draw = self.rng
        if left == 0 or length == 0:
            return self.plain(left, int(draw.integers(0, 3)))
        query = self.plain(_less(left), int(draw.integers(0, 2)))
        n = int(draw.integers(1, 3))
        if not self.smooth or draw.random() < (0.4 if length == 1 else 0.1):
            return self.add(
                Level(Kind.RANDOM_PLUGIN, n, query, rungs=self.rungs()), left
            )
        onward, choice = self.chain(_less(left), length - 1), draw.random()
        if choice < 0.15:
            return self.add(Level(Kind.BLIND, continuation=onward), left)
        if choice < 0.3:
            return self.add(Level(Kind.ROLLOUT, n, query, onward), left)
        row = Level(Kind.RANDOM_ROLLOUT, n, query, onward, rungs=self.rungs())
        return self.add(row, left)

    def rungs(self) -> tuple[float, ...]:
        p = self.rng.random(int(self.rng.integers(1, 5))) ** 3 + 1e-3
        p *= self.rng.choice([0.95, 0.4, 0.1]) / p.sum()
        return tuple(float(x) for x in p)


def _less(left: int | None) -> int | None:
    return None if left is None else left - 1


def schedule(problem: Any, rng: Generator) -> Schedule | None:
    """A promise with nothing to spare; None where no level has corrections."""
    facts, delta = problem.facts, float(rng.choice([0.3, 0.1]))
    target = "q_values" if rng.random() < 0.6 else "value"
    left = facts.horizon if target == "value" else _less(facts.horizon)
    table = Table(problem, rng)
    top = table.chain(left, int(rng.integers(1, 4)))
    form = itself if target == "value" else backup
    draw = form(table.base, table.made[top], left)
    if not np.any(draw.rare > 0.0):
        return None
    second, samples = (
        float(np.max(draw.about(draw.centers))),
        int(rng.choice([40, 200])),
    )
    means = facts.num_actions if target == "q_values" else 1
    radius = math.sqrt(2.0 * second * math.log(2.0 * means / delta) / samples)
    epsilon = (float(draw.bias[0]) + radius) * (1.0 + 1e-12)
    root = Root(target, samples, top, "catoni")  # type: ignore[arg-type]
    return Schedule("random", facts, tuple(table.levels), root, epsilon, delta)


# --- runs ----------------------------------------------------------------------


@dataclass
class Result:
    """What all worlds gave."""

    worlds: int = 0
    runs: int = 0
    looks: int = 0
    missed: int = 0
    samples: int = 0
    bias: float = 0.0  # the largest |mean - truth| over its claim, less three errors
    second: float = 0.0  # the same of the second moment
    broken: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)


class Engine:
    """One world with its engine and the truth."""

    def __init__(self, problem: Any, plan: Schedule, control: bool) -> None:
        self.problem, self.plan, self.state = problem, plan, problem.start()
        self.claims, self.length = (0.8, 0.25) if control else (1.0, 1.0)
        self.rule: StoppingRule = stopping_rule(plan, mover=problem.mover(self.state))
        job = Job(problem, plan, self.state, self.rule.center, self.rule.score)
        self.engine = make_engine("compiled", job)
        exact, q = sc.solve(problem), plan.root.target == "q_values"
        self.value = float(exact.values[self.state])
        self.asked = problem.legal_actions(self.state) if q else [0]
        values = exact.q_values[self.state]
        self.truth = {a: float(values[a]) if q else self.value for a in self.asked}

    def moments(self, seed: int, found: Result) -> None:
        """Add how the mean and the second moment compare with their claims."""
        calls = 1 + self.plan.level_calls[self.plan.root.child]
        most = MOST_CALLS / calls / len(self.asked)
        size = int(min(2000, max(20, most / PARTS)))
        promise = self.rule.promise
        for action, truth in self.truth.items():
            parts = [
                self.engine.run_shard(Shard(action, 5000 + i, 0, size), seed)
                for i in range(PARTS)
            ]
            found.samples += PARTS * size
            mean, error = _mean([self.rule.center + p.total / size for p in parts])
            second, room = _mean([p.square / size for p in parts])
            off = abs(mean - truth)
            most = self.claims * promise.bias + 1e-9 * (1.0 + abs(truth))
            claim = self.claims * promise.moment.second
            if off > most + ERRORS * error:
                found.broken.append(f"bias {off:.4g} above {most:.4g} (world {seed})")
            if second > claim + ERRORS * room:
                found.broken.append(
                    f"S^2 {second:.4g} above {claim:.4g} (world {seed})"
                )
            found.bias = max(found.bias, (off - 3.0 * error) / most)
            found.second = max(found.second, (second - 3.0 * room) / claim)

    def coverage(self, seed: int, runs: int, found: Result) -> None:
        """Add runs that are looked at twice."""
        count = self.plan.root.samples
        runs = int(min(runs, max(4, MOST_CALLS // self.plan.mean_calls)))
        missed = 0
        for number in range(runs):
            tallies = {action: RootSums() for action in self.asked}
            failed = False
            for i, size in enumerate((count // 4, count - count // 4)):
                for action, truth in self.truth.items():
                    shard = Shard(action, i, 0, size)
                    part = self.engine.run_shard(shard, 10**6 + 1000 * seed + number)
                    tallies[action].add(part)
                    middle, half = self.rule.ball(tallies[action])
                    failed |= not abs(middle - truth) <= self.length * half
                    found.looks += 1
            ends = pieces(self.problem, self.state, self.rule, tallies)[1]
            failed |= not ends[0] - 1e-9 <= self.value <= ends[1] + 1e-9
            missed += failed
        found.runs, found.missed = found.runs + runs, found.missed + missed
        if binomial_tail(missed, runs, self.plan.delta) < FALSE_ALARM / 1000:
            found.broken.append(f"{missed} of {runs} runs failed (world {seed})")


def _mean(values: list[float]) -> tuple[float, float]:
    """(mean, its standard error)."""
    found = np.array(values)
    return float(found.mean()), float(found.std(ddof=1)) / math.sqrt(len(found))


def study(worlds: int, runs: int, control: bool = False) -> Result:
    found, seed = Result(), 0
    while found.worlds < worlds:
        seed += 1
        rng = np.random.default_rng(seed)
        problem = world(rng)
        plan = schedule(problem, rng)
        if plan is None or plan.mean_calls > MOST_CALLS / 5:
            continue
        facts = problem.facts
        found.worlds += 1
        found.kinds.update(level.kind.name.lower() for level in plan.levels)
        found.facts.update(
            name
            for name, true in (
                ("games", facts.game),
                ("with ends", facts.terminals),
                ("with a horizon", facts.horizon is not None),
                ("with varying actions", facts.min_actions < facts.num_actions),
                (f"of {facts.num_actions} actions", True),
                (f"for {plan.root.target}", True),
                (f"under {facts.operator.name}", True),
            )
            if true
        )
        engine = Engine(problem, plan, control)
        engine.moments(seed, found)
        engine.coverage(seed, runs, found)
    return found


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counter.items()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=250)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    found = study(options.worlds, options.runs)
    control = study(max(20, options.worlds // 5), 10, control=True)
    text = "\n".join(
        [
            "# Random worlds against random tables of randomized levels",
            "",
            f"`python {' '.join(sys.argv)}` at commit {commit.strip()}, "
            f"{time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f}, "
            f"{time.perf_counter() - begin:.0f} s (what is compared: the script's head)",
            "",
            f"- {found.worlds} worlds: {_counts(found.facts)}.",
            f"- Rows of their tables: {_counts(found.kinds)}.",
            f"- Moments, {found.samples:,} samples at roots: largest |mean - truth| "
            f"{found.bias:.3f} of the claim, largest second moment {found.second:.3f} of "
            "the claim (less three standard errors).",
            f"- Coverage: {found.runs:,} runs, {found.looks:,} intervals, "
            f"{found.missed} runs with a miss.",
            f"- Claims broken: {len(found.broken)}.",
            f"- Control, claims a fifth smaller and intervals a quarter as long: "
            f"{len(control.broken)} claims broken in {control.worlds} worlds, "
            f"{control.missed} of {control.runs} runs with a miss.",
            "",
        ]
    )
    publish(text, options.out)
    assert not found.broken, found.broken
    assert control.broken, "the control does not fail"


if __name__ == "__main__":
    main()
