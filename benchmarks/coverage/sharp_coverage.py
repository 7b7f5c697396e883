"""Coverage: how often a promise fails, for every method that promises.

The problems are adversarial, and the answers are compared with exact values.

  python -m benchmarks.coverage.sharp_coverage [--runs 110] [--budget 20000] [--out FILE]

A run fails if the value or any action value is off by more than epsilon, or if
any printed interval misses the truth.

  smoothcruiser    the smallest epsilon that the budget pays, at delta = 0.1 and
                   0.01, for the action values and for the value alone, with
                   the adaptive stop and without
  sparse-sampling  three times that epsilon
  certified        a budget, spent on one memory: the intervals of value and
                   action values
  evaluate         the uniform policy, by a budget: its own exact value, and V
                   from below in MDPs

Schedules drive the compiled engine directly, with engine and schedule built
once per case: the same sums, checkpoints and intervals as ``plan``. Half of the
worlds have ``value_bounds`` (the exact range of V, widened), which the clip at
the root has to survive. Failures are tested against delta by the exact binomial
tail; a false alarm at any of the cases has probability 1e-3 at most
(Bonferroni).
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.coverage.adversarial import cases
from benchmarks.timing import publish

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.registry import make_engine
from smoothcruiser.engines.root_answer import pieces
from smoothcruiser.engines.shards import cut_shards
from smoothcruiser.engines.stopping_rule import stopping_rule
from smoothcruiser.exact.policy_value import policy_value
from smoothcruiser.reproduce.full_algorithm import root_samples
from smoothcruiser.schedule.compiler.optimizer import (
    compile_schedule,
    smallest_epsilon,
    sparse_sampling,
)
from smoothcruiser.schedule.schedule import Schedule

FALSE_ALARM = 1e-3


@dataclass
class Result:
    name: str
    operator: str
    method: str
    target: str
    delta: float
    adaptive: bool
    epsilon: float
    price: int
    runs: int
    failures: int
    worst: float  # largest error / epsilon
    mean_calls: float


def binomial_tail(failures: int, runs: int, delta: float) -> float:
    """P(at least ``failures`` of ``runs``) at probability delta."""
    terms = (
        math.comb(runs, k) * delta**k * (1.0 - delta) ** (runs - k)
        for k in range(failures)
    )
    return max(0.0, 1.0 - sum(terms))


# value, interval, q, boxes, calls
Answer = tuple[
    float, tuple[float, float], tuple[float, ...], tuple[tuple[float, float], ...], int
]


def failed(
    answer: Answer, value: float, q_values: np.ndarray, epsilon: float
) -> tuple[bool, float]:
    """Whether a run failed, and its largest error / epsilon."""
    found, interval, q, boxes, _ = answer
    error = abs(found - value)
    inside = interval[0] - 1e-9 <= value <= interval[1] + 1e-9
    if q:
        error = max(error, float(np.nanmax(np.abs(np.array(q) - q_values))))
        ends = np.array(boxes)
        inside &= bool(
            np.nanmin(q_values - ends[:, 0]) >= -1e-9
            and np.nanmin(ends[:, 1] - q_values) >= -1e-9
        )
    return not (inside and error <= epsilon * (1 + 1e-9)), error / epsilon


def scheduled(problem: sc.Problem, schedule: Schedule) -> Callable[[int], Answer]:
    """One run of a schedule, as a function of its seed."""
    state = problem.start()
    rule = stopping_rule(schedule, mover=problem.mover(state))
    job = Job(problem, schedule, state, rule.center, rule.score)
    engine = make_engine("compiled", job)
    segments = cut_shards(schedule)
    actions = (
        problem.legal_actions(state) if schedule.root.target == "q_values" else [0]
    )

    def run(seed: int) -> Answer:
        tallies, calls = {}, 0
        for action in actions:
            tallies[action], spent = root_samples(engine, rule, segments, action, seed)
            calls += spent
        value, interval, q_values, boxes, _ = pieces(problem, state, rule, tallies)
        return value, interval, q_values, boxes, calls

    return run


def study(
    problem: sc.Problem,
    *,
    target: str,
    delta: float,
    adaptive: bool,
    runs: int,
    budget: int,
    first_seed: int,
    method: str = "smoothcruiser",
) -> Result:
    exact = sc.solve(problem)
    state = problem.start()
    value, q_values = float(exact.values[state]), np.asarray(exact.q_values[state])
    # 0 where there is no doubt
    epsilon = max(
        smallest_epsilon(problem.facts, budget=budget, delta=delta, target=target),
        1e-6,
    )
    price = budget
    if method == "smoothcruiser":
        schedule = compile_schedule(
            problem.facts,
            epsilon=epsilon,
            delta=delta,
            target=target,
            adaptive=adaptive,
        )
        run, price = scheduled(problem, schedule), schedule.num_calls
    elif method == "sparse-sampling":
        epsilon *= 3.0
        schedule = sparse_sampling(
            problem.facts, epsilon=epsilon, delta=delta, target=target
        )
        if schedule.num_calls > 20 * budget:  # seconds per run
            schedule = compile_schedule(
                problem.facts, epsilon=epsilon, delta=delta, target=target
            )
            method = "smoothcruiser"
        run, price = scheduled(problem, schedule), schedule.num_calls
    else:
        epsilon = math.inf  # intervals alone are promised
        run = (
            certified(problem, delta, budget)
            if method == "certified"
            else evaluated(problem, delta, budget)
        )
        if method == "evaluate":
            uniform = problem.tables.legal / np.maximum(
                1, problem.tables.legal.sum(axis=1, keepdims=True)
            )
            value = float(policy_value(problem, uniform)[state])
    failures, worst, calls = 0, 0.0, 0
    for seed in range(first_seed, first_seed + runs):
        answer = run(seed)
        bad, share = failed(answer, value, q_values, epsilon)
        failures, worst, calls = failures + bad, max(worst, share), calls + answer[4]
    kind = problem.operator.name
    return Result(
        problem.name,
        kind,
        method,
        target,
        delta,
        adaptive,
        epsilon,
        price,
        runs,
        failures,
        worst,
        calls / runs,
    )


def certified(
    problem: sc.Problem, delta: float, budget: int
) -> Callable[[int], Answer]:
    def run(seed: int) -> Answer:
        found = sc.plan(
            problem, method="certified", budget=budget, delta=delta, seed=seed
        )
        return (
            found.value,
            found.interval,
            found.q_values,
            found.certificate.q_intervals,
            found.num_calls,
        )

    return run


def evaluated(
    problem: sc.Problem, delta: float, budget: int
) -> Callable[[int], Answer]:
    uniform = problem.tables.legal / np.maximum(
        1, problem.tables.legal.sum(axis=1, keepdims=True)
    )

    def run(seed: int) -> Answer:
        found = sc.evaluate(problem, uniform, budget=budget, delta=delta, seed=seed)
        return found.value, found.interval, (), (), found.num_calls

    return run


def with_bounds(problem: sc.Problem) -> sc.Problem:
    """The same world with ``value_bounds``: the range of its values, a tenth wider."""
    exact = sc.solve(problem)
    alive = exact.values[~problem.tables.terminal]
    low, high = float(alive.min()), float(alive.max())
    room = 0.1 * (high - low) + 1e-3
    return dataclasses.replace(
        problem, value_bounds=(low - room, high + room), name=f"{problem.name} bounded"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--budget", type=int, default=20_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--every", type=int, default=1, help="take every n-th problem only"
    )
    options = parser.parse_args()
    begin = time.perf_counter()
    results: list[Result] = []
    settings = [
        ("q_values", 0.1, True),
        ("q_values", 0.1, False),
        ("value", 0.1, True),
        ("q_values", 0.01, True),
    ]
    problems = cases()[:: options.every]
    for i, problem in enumerate(problems):
        bounded = with_bounds(problem)
        for j, world in ((i, problem), (i + 1, bounded)):
            target, delta, adaptive = settings[j % 4]
            promise = {
                "target": target,
                "delta": delta,
                "adaptive": adaptive,
                "budget": options.budget,
                "first_seed": 1000 * i,
            }
            results.append(
                study(world, method="smoothcruiser", runs=options.runs, **promise)
            )
        promise |= {"target": "q_values", "delta": 0.1, "adaptive": True}
        results.append(
            study(bounded, method="sparse-sampling", runs=options.runs // 3, **promise)
        )
        for method in ("certified", "evaluate"):
            results.append(
                study(
                    bounded,
                    method=method,
                    runs=options.runs // 5,
                    **(promise | {"budget": 2_000}),
                )
            )
    text = report(results, time.perf_counter() - begin)
    publish(text, options.out)


def commit() -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


def outcome_cells(part: list[Result]) -> str:
    """The last cells of a row: runs, failures, the worst error, calls per price."""
    total, failed = sum(r.runs for r in part), sum(r.failures for r in part)
    worst = max(r.worst for r in part)
    spent = sum(r.mean_calls for r in part) / sum(r.price for r in part)
    return f"| {total:,} | {failed} | {worst:.3f} | {spent:.2f} |"


def report(results: list[Result], seconds: float) -> str:
    lines = [
        "# Coverage of every method that promises",
        "",
        (
            f"`python {' '.join(sys.argv)}` at commit {commit()} "
            "(what counts as a failure: the script's head)"
        ),
        "",
        (
            f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} "
            f"cores, load {os.getloadavg()[0]:.1f}, {seconds:.0f} s"
        ),
        "",
    ]
    runs, failures = sum(r.runs for r in results), sum(r.failures for r in results)
    alarm = FALSE_ALARM / len(results)
    beyond = [r for r in results if binomial_tail(r.failures, r.runs, r.delta) < alarm]
    lines += [
        (
            f"{runs:,} runs of {len(results)} cases: {failures} "
            f"failures, {len(beyond)} cases beyond their delta."
        ),
        "",
    ]
    lines += [
        (
            "| problem | operators | cases | runs | "
            "failures | worst error/epsilon | calls/price |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[Result]] = defaultdict(list)
    for r in results:
        groups[r.name.split(":")[0]].append(r)
    for name, part in sorted(groups.items()):
        used = ", ".join(sorted({r.operator for r in part}))
        lines.append(f"| {name} | {used} | {len(part)} {outcome_cells(part)}")
    lines += [
        "",
        (
            "| method | target | delta | adaptive stop | runs "
            "| failures | worst error/epsilon | calls/price |"
        ),
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    settings: dict[tuple[str, str, float, bool], list[Result]] = defaultdict(list)
    for r in results:
        settings[r.method, r.target, r.delta, r.adaptive].append(r)
    for (method, target, delta, adaptive), part in sorted(settings.items()):
        lines.append(
            f"| {method} | {target} | {delta} | {'yes' if adaptive else 'no'} "
            f"{outcome_cells(part)}"
        )
    assert not beyond, f"promises broken: {beyond}"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
