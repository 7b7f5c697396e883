"""Coverage of the root's own bounds: bets, line, fixed radius, second moments.

  python -m benchmarks.coverage.root_coverage [--runs 50000] [--out docs/evidence/root-coverage.md]

Three parts share the runs:

  one step     The root samples the reward itself, so there is no bias in which an error
               could hide. Rewards have two values: at both ends of the range, with
               chances from 0.002 to 0.998; close together at an end, in the middle,
               and between two bins. 2 to 10 actions with chances of their own, either
               player to move, actions that end the episode. A root that bets.
  bets         The adversarial problems (``adversarial.py``) with the schedules of
               ``plan``: bias, rollouts and plug-ins under a root that bets.
  randomized   The same problems with randomized rollouts and plug-ins under the root
               that needs a second moment only, wherever the compiler finds such a
               table, also where a plain one is cheaper.

A run is not stopped early. It fails if an interval misses the truth at *any* of the
counts that are looked at or at the end, or if the answer (the middle) at the first of
them that would have stopped it is off by more than epsilon. That is what "at every
count at once" promises, with probability 1 - delta for all actions together. One run
in 16 has all checkpoints of its schedule, the others every tenth, because an interval
takes as long as 10^4 calls; a randomized schedule has none, and is looked at after each
of eight parts. Failures are tested against delta by the exact binomial tail
(Bonferroni, 1e-3 for all cases).

A control repeats some cases with intervals a quarter as long about their middles. It
has to fail.

Engines, streams, shards and sums are those of ``plan``; an engine and a schedule are
built once per case.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.coverage.adversarial import cases as adversarial
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.timing import publish

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.registry import make_engine
from smoothcruiser.engines.root_answer import pieces
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.shards import cut_shards
from smoothcruiser.engines.stopping_rule import stopping_rule
from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler import optimizer
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.schedule import Schedule, Target

FALSE_ALARM = 1e-3
SHRUNK = 0.25  # of an interval, in the control
SPARSE, ALL = 10, 16  # most runs have every 10th checkpoint, every 16th run has all
PARTS = 8  # of a randomized schedule
DELTAS = (0.1, 0.02, 0.3)
# epsilon as a share of the value span: the smallest of these that a budget pays
SHARES = (0.3, 0.15, 0.08)
BUDGET = {"bets": 20_000, "randomized": 100_000}
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


@dataclass(frozen=True)
class Case:
    """A problem with its exact values, and a schedule."""

    part: str
    name: str
    problem: Any
    schedule: Schedule
    value: float
    q_values: np.ndarray

    @property
    def mover(self) -> int:
        return int(self.problem.mover(self.problem.start()))


@dataclass
class Result:
    """What the runs of one case gave."""

    case: Case
    control: bool = False
    runs: int = 0
    missed: int = 0  # some interval at some count
    off: int = 0  # the answer at the first stop
    calls: float = 0.0  # until that stop, of the price
    looks: int = 0  # intervals that were looked at

    @property
    def failures(self) -> int:
        return self.missed + self.off

    @property
    def tail(self) -> float:
        """The chance of as many failures, if each had the probability delta."""
        return binomial_tail(self.failures, self.runs, self.case.schedule.delta)


# --- cases ---------------------------------------------------------------------


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


def one_step() -> list[Case]:
    found = []
    for name in LAWS:
        for i, actions in enumerate((2, 3, 4, 5, 10)):
            player = 1 + i % 2
            problem, truth = world(name, actions, player, ends=actions % 3 == 0)
            value = problem.operator.value(list(truth), player=player)
            schedule = compile_schedule(
                problem.facts, epsilon=0.08, delta=(*DELTAS, 0.1, 0.2)[i]
            )
            found.append(Case("one step", name, problem, schedule, value, truth))
    return found


@lru_cache(maxsize=256)
def affordable(
    facts: Facts, part: str, target: Target, delta: float
) -> Schedule | None:
    """The schedule of the finest share that the budget pays, None if there is none."""
    low, high = facts.value_hull()
    best = None
    for share in SHARES:
        try:
            made = _made(facts, part, target, share * (high - low), delta)
        except SmoothcruiserError:
            break
        if made is not None and made.num_calls > BUDGET[part]:
            break
        best = made or best
    return best


def _made(
    facts: Facts, part: str, target: Target, epsilon: float, delta: float
) -> Schedule | None:
    if part == "bets":
        plain = frozenset(k for k in optimizer.ALL_KINDS if k.name[:6] != "RANDOM")
        made = compile_schedule(
            facts, epsilon=epsilon, delta=delta, target=target, kinds=plain
        )
        return made if made.root.looks else None
    _, random = optimizer._best_drafts(
        facts, optimizer.ALL_KINDS, epsilon, delta, target
    )
    if random is None:
        return None
    return optimizer._build_schedule(
        optimizer._close_draft(random, delta, 0.0), delta, "random"
    )


def of_set(part: str) -> list[Case]:
    """Half of the adversarial problems; of each kind, either part has some."""
    found = []
    for i, problem in enumerate(adversarial()):
        if (i + i // 14) % 2 != (part == "randomized"):
            continue
        target: Target = ("q_values", "value")[i // 2 % 2]
        schedule = affordable(problem.facts, part, target, DELTAS[i % 3])
        if schedule is None:
            continue
        exact, state = sc.solve(problem), problem.start()
        value, q = float(exact.values[state]), np.asarray(exact.q_values[state])
        name = problem.name.split(":")[0].split(" K=")[0]
        found.append(Case(part, name, problem, schedule, value, q))
    return found


# --- runs ----------------------------------------------------------------------


def study(case: Case, runs: int, seed: int, shrink: float = 1.0) -> Result:
    """Run one case."""
    result = Result(case, shrink < 1.0)
    schedule, root = case.schedule, case.schedule.root
    few = replace(schedule, root=replace(root, looks=root.looks[::SPARSE]))
    for chosen, share in ((schedule, range(0, runs, ALL)), (few, range(runs))):
        numbers = [i for i in share if chosen is schedule or i % ALL]
        if numbers:
            _run(result, replace(case, schedule=chosen), numbers, seed, shrink)
    result.calls /= runs
    return result


def _run(
    result: Result, case: Case, numbers: list[int], seed: int, shrink: float
) -> None:
    """Add the runs ``numbers`` of a case to its result."""
    problem, schedule, state = case.problem, case.schedule, case.problem.start()
    rule = stopping_rule(schedule, mover=case.mover)
    job = Job(problem, schedule, state, rule.center, rule.score)
    engine = make_engine("compiled", job)
    segments = cut_shards(schedule)
    if case.part == "randomized":  # the interval of a run that is stopped by hand
        parts = cut_shards(schedule, shards=PARTS)
        segments = tuple((shard,) for segment in parts for shard in segment)
    q = schedule.root.target == "q_values"
    asked = problem.legal_actions(state) if q else [0]
    truth = {a: float(case.q_values[a]) if q else case.value for a in asked}
    for number in numbers:
        tallies = {action: RootSums() for action in asked}
        frozen: dict[int, RootSums] = {}
        spent, missed = 0, False
        for segment in segments:
            last = segment is segments[-1]
            for action in asked:
                tally = tallies[action]
                for shard in segment:
                    shard = replace(shard, action=action)
                    part = engine.run_shard(shard, seed + number)
                    tally.add(part)
                    spent += part.calls if action not in frozen else 0
                middle, half = rule.ball(tally)
                missed |= not abs(middle - truth[action]) <= shrink * half + 1e-9
                result.looks += 1
                if action not in frozen and (last or half <= schedule.epsilon):
                    frozen[action] = replace(tally)
        _, interval, _, boxes, _ = pieces(problem, state, rule, tallies)
        if shrink == 1.0:  # what is printed at the end, clipped to what is possible
            ends = [(interval, case.value)]
            ends += [(boxes[a], truth[a]) for a in (asked if q else [])]
            missed |= any(not a - 1e-9 <= x <= b + 1e-9 for (a, b), x in ends)
        found, _, q_values, _, _ = pieces(problem, state, rule, frozen)
        error = abs(found - case.value)
        error = max([error, *(abs(q_values[a] - truth[a]) for a in asked if q)])
        result.runs += 1
        result.missed += missed
        result.off += error > schedule.epsilon * (1.0 + 1e-9) and not missed
        result.calls += spent / schedule.num_calls


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin, results = time.perf_counter(), []
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    found = {"one step": one_step(), "bets": of_set("bets")}
    found["randomized"] = of_set("randomized")
    print(f"cases: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    for part, share in (("one step", 0.25), ("bets", 0.35), ("randomized", 0.4)):
        each = math.ceil(share * options.runs / len(found[part]))
        start = time.perf_counter()
        for i, case in enumerate(found[part]):
            results.append(study(case, each, 100_000 * i))
            if i % 6 == 0:
                results.append(study(case, max(20, each // 3), 100_000 * i, SHRUNK))
        print(f"{part}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    text = report(results, time.perf_counter() - begin, commit)
    publish(text, options.out)


# --- report --------------------------------------------------------------------


def report(results: list[Result], seconds: float, commit: str) -> str:
    real = [r for r in results if not r.control]
    control = [r for r in results if r.control]
    alarm = FALSE_ALARM / len(real)
    beyond = [r for r in real if r.tail < alarm]
    seen = [r for r in control if r.tail < alarm]
    lines = [
        "# Coverage of the root's bounds at every count",
        "",
        f"`python {' '.join(sys.argv)}` at commit {commit.strip()} "
        "(what counts as a failure: the script's head)",
        "",
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, {seconds:.0f} s in one process",
        "",
        f"{sum(r.runs for r in real):,} runs of {len(real)} cases, "
        f"{sum(r.looks for r in real):,} intervals: {sum(r.missed for r in real)} runs "
        "with an interval that missed at any count, "
        f"{sum(r.off for r in real)} others with an answer beyond epsilon, "
        f"{len(beyond)} cases beyond their delta.",
        "",
        f"Control, intervals a quarter as long: {sum(r.failures for r in control):,} of "
        f"{sum(r.runs for r in control):,} runs failed, {len(seen)} of {len(control)} "
        "cases beyond their delta (the others do not fail often enough).",
        "",
        *_table("law", [r for r in real if r.case.part == "one step"]),
        *_table("problem", [r for r in real if r.case.part == "bets"]),
        *_table("problem", [r for r in real if r.case.part == "randomized"]),
        *_table("control", control),
    ]
    assert not beyond, (
        f"promises broken: {[(r.case.name, r.failures) for r in beyond]}"
    )
    assert len(seen) > len(control) / 4, "the control does not fail"
    return "\n".join(lines) + "\n"


def _table(head: str, results: list[Result]) -> list[str]:
    """One line for each name, with what its cases have in common."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for r in results:
        groups[r.case.part, r.case.name].append(r)
    lines = [
        f"| part | {head} | cases | operators | actions | movers | targets | deltas "
        "| kinds | runs | missed | off | paid |",
        "|---" * 13 + "|",
    ]
    for (part, name), group in groups.items():
        all_cases = [r.case for r in group]
        kinds = {level.kind.name for c in all_cases for level in c.schedule.levels}
        cells = [
            part,
            name,
            len(group),
            _set(c.problem.operator.name for c in all_cases),
            _set(c.problem.num_actions for c in all_cases),
            _set(c.mover for c in all_cases),
            _set(c.schedule.root.target for c in all_cases),
            _set(c.schedule.delta for c in all_cases),
            _set(k.lower() for k in kinds if k != "CONSTANT"),
            f"{sum(r.runs for r in group):,}",
            sum(r.missed for r in group),
            sum(r.off for r in group),
            f"{sum(r.calls * r.runs for r in group) / sum(r.runs for r in group):.2f}",
        ]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return [*lines, ""]


def _set(values: Any) -> str:
    return ", ".join(str(x) for x in sorted(set(values)))


if __name__ == "__main__":
    main()
