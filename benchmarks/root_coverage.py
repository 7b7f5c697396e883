"""Coverage of the root's own bounds: bets, line and fixed radius, at every checkpoint.

  python benchmarks/root_coverage.py [--runs 40] [--out docs/evidence/root-coverage.md]

The worlds have one step: the root samples the reward itself, so there is no bias in
which an error could hide, and the truth is a mean that is known. Rewards have two
values: at both ends of the range, with chances from 0.002 to 0.998; close together at
an end, in the middle, and between two bins. There are 2 to 10 actions with chances of
their own, either player to move, both targets, and actions that end the episode.

A run is not stopped early: a failure is an interval that misses the truth at *any*
checkpoint or at the end, an answer at the first checkpoint that would have stopped it
that is off by more than epsilon, or a wrong value there. That is what "at every count
at once" promises, with probability 1 - delta for all actions together. Failures are
tested against delta by the exact binomial tail (Bonferroni, 1e-3 for all cases).

Engines, streams, shards and sums are those of ``plan``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sharp_coverage import binomial_tail

import smoothcruiser as sc
from smoothcruiser.engines.answer import pieces
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.registry import make_engine
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.shards import cut
from smoothcruiser.engines.stopping import stopping_rule
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.schedule import Target

FALSE_ALARM = 1e-3
# name -> (low reward, high reward, chances of the high one for the actions in turn)
LAWS: dict[str, tuple[float, float, tuple[float, ...]]] = {
    "fair coins": (0.0, 1.0, (0.5,)),
    "skewed": (0.0, 1.0, (0.06, 0.9, 0.3)),
    "rare": (0.0, 1.0, (0.002, 0.02, 0.998, 0.98)),
    "at the upper end": (0.97, 1.0, (0.5, 0.05, 0.95)),
    "at the lower end": (0.0, 0.03, (0.5, 0.05, 0.95)),
    "tiny noise": (0.5, 0.5001, (0.5, 0.1)),
    "between bins": (0.3031, 0.3107, (0.5, 0.2, 0.8)),
    "no noise": (0.25, 0.75, (0.0, 1.0)),
}


@dataclass
class Result:
    name: str
    actions: int
    player: int
    target: str
    delta: float
    runs: int = 0
    missed: int = 0  # some interval at some checkpoint
    off: int = 0  # the answer at the first stop
    calls: float = 0.0  # until that stop, of the price

    @property
    def failures(self) -> int:
        return self.missed + self.off


def world(name: str, actions: int, player: int, ends: bool) -> tuple[Any, np.ndarray]:
    """One step: the chances are those of the next states, which pay."""
    low, high, chances = LAWS[name]
    p = np.array([chances[a % len(chances)] for a in range(actions)])
    P, R = np.zeros((3, actions, 3)), np.zeros((3, actions, 3))
    P[0, :, 1], P[0, :, 2] = p, 1.0 - p
    P[1, :, 1] = P[2, :, 2] = 1.0
    R[0, :, 1], R[0, :, 2] = high, low
    more: dict[str, Any] = {"players": [player] * 3} if player == 2 else {}
    if ends:
        more["terminal"] = [False, True, False]
    problem = sc.tabular(
        P,
        R,
        discount=0.5,
        operator=sc.Entropy(0.3) if actions % 2 else sc.Max(),
        horizon=1,
        reward_range=(0.0, 1.0),
        initial_state=0,
        **more,
    )
    return problem, low + p * (high - low)


def study(
    name: str, actions: int, player: int, target: Target, delta: float, runs: int
) -> Result:
    problem, truth = world(name, actions, player, ends=actions % 3 == 0)
    value = problem.operator.value(list(truth), player=player)
    epsilon = 0.06
    schedule = compile_schedule(
        problem.facts, epsilon=epsilon, delta=delta, target=target
    )
    rule = stopping_rule(schedule, mover=player)
    engine = make_engine("compiled", Job(problem, schedule, 0, rule.center, rule.score))
    result = Result(name, actions, player, schedule.root.target, delta, runs)
    asked = range(actions) if schedule.root.target == "q_values" else [0]
    segments = cut(schedule)
    for seed in range(runs):
        tallies = {action: RootSums() for action in asked}
        live, frozen, spent = set(asked), {}, 0
        missed = False
        for segment in segments:
            for action in asked:
                for shard in segment:
                    part = engine.run_shard(replace(shard, action=action), seed)
                    tallies[action].add(part)
                    spent += part.calls if action in live else 0
            missed |= not _holds(problem, rule, tallies, truth, value)
            for action in list(live):
                if segment is segments[-1] or rule.enough(0, tallies[action]):
                    frozen[action] = replace(tallies[action])
                    live.discard(action)
        found, _, q_values, _, _ = pieces(problem, 0, rule, frozen)
        error = abs(found - value)
        if q_values:
            error = max(error, float(np.max(np.abs(np.array(q_values) - truth))))
        result.missed += missed
        result.off += error > epsilon * (1.0 + 1e-9) and not missed
        result.calls += spent / schedule.num_calls / runs
    return result


def _holds(problem: Any, rule: Any, tallies: Any, truth: Any, value: float) -> bool:
    _, interval, _, boxes, _ = pieces(problem, 0, rule, tallies)
    inside = interval[0] - 1e-9 <= value <= interval[1] + 1e-9
    for (low, high), q in zip(boxes, truth, strict=bool(boxes)):
        inside &= low - 1e-9 <= q <= high + 1e-9
    return inside


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin, results = time.perf_counter(), []
    for name in LAWS:
        for i, actions in enumerate((2, 3, 5, 10)):
            player = 1 + i % 2
            target: Target = "value" if i == 1 else "q_values"
            delta = (0.1, 0.1, 0.02, 0.2)[i]
            runs = options.runs if actions < 10 else options.runs // 2
            results.append(study(name, actions, player, target, delta, runs))
    text = report(results, time.perf_counter() - begin)
    print(text)
    if options.out:
        options.out.write_text(text)


def report(results: list[Result], seconds: float) -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    alarm = FALSE_ALARM / len(results)
    beyond = [r for r in results if binomial_tail(r.failures, r.runs, r.delta) < alarm]
    lines = [
        "# Coverage of the root's bounds at every checkpoint",
        "",
        f"`python {' '.join(sys.argv)}` at commit {commit.strip()}, {seconds:.0f} s "
        "(what counts as a failure: the script's head)",
        "",
        f"{sum(r.runs for r in results):,} runs of {len(results)} cases: "
        f"{sum(r.missed for r in results)} with an interval that missed at any "
        f"checkpoint, {sum(r.off for r in results)} others with an answer beyond "
        f"epsilon, {len(beyond)} cases beyond their delta.",
        "",
        "| law | actions | mover | target | delta | runs | missed | off | paid |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.name} | {r.actions} | {r.player} | {r.target} | {r.delta} | {r.runs} "
        f"| {r.missed} | {r.off} | {r.calls:.2f} |"
        for r in results
    ]
    assert not beyond, f"promises broken: {beyond}"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
