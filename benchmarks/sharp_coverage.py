"""Coverage of the sharp schedule: how often a promise fails, over adversarial problems, against exact values.

  python benchmarks/sharp_coverage.py [--runs 110] [--budget 20000] [--out FILE]

A run fails if the value or any action value is off by more than epsilon, or if any printed interval misses the truth. Each case asks for
the smallest epsilon that the budget pays, at delta = 0.1 and 0.01, for the action values and for the value alone, with the adaptive
stop and without. Failures are tested against delta by the exact binomial tail; a false alarm at any of the cases has probability 1e-3
at most (Bonferroni).
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from adversarial import cases

import smoothcruiser as sc
from smoothcruiser.schedule.optimizer import compile_schedule, smallest_epsilon

FALSE_ALARM = 1e-3


@dataclass
class Result:
    name: str
    operator: str
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
    terms = (math.comb(runs, k) * delta**k * (1.0 - delta) ** (runs - k) for k in range(failures))
    return max(0.0, 1.0 - sum(terms))


def study(problem: sc.Problem, *, target: str, delta: float, adaptive: bool, runs: int, budget: int, first_seed: int) -> Result:
    exact = sc.solve(problem)
    state = problem.start()
    value, q_values = float(exact.values[state]), np.asarray(exact.q_values[state])
    epsilon = smallest_epsilon(problem.facts, budget=budget, delta=delta, target=target)
    epsilon = max(epsilon, 1e-6)  # problems without any doubt cost nothing
    schedule = compile_schedule(problem.facts, epsilon=epsilon, delta=delta, target=target, adaptive=adaptive)
    failures, worst, calls = 0, 0.0, 0
    for seed in range(first_seed, first_seed + runs):
        estimate = sc.run(problem, schedule, seed=seed, workers=1)
        error = abs(estimate.value - value)
        inside = estimate.interval[0] - 1e-9 <= value <= estimate.interval[1] + 1e-9
        if estimate.q_values:
            error = max(error, float(np.nanmax(np.abs(np.array(estimate.q_values) - q_values))))
            boxes = np.array(estimate.certificate.q_intervals)
            inside &= bool(np.nanmin(q_values - boxes[:, 0]) >= -1e-9 and np.nanmin(boxes[:, 1] - q_values) >= -1e-9)
        failures += not (inside and error <= epsilon * (1 + 1e-9))
        worst = max(worst, error / epsilon)
        calls += estimate.num_calls
    kind = problem.operator.name
    return Result(problem.name, kind, target, delta, adaptive, epsilon, schedule.num_calls, runs, failures, worst, calls / runs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--budget", type=int, default=20_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every n-th problem only")
    options = parser.parse_args()
    begin = time.perf_counter()
    results: list[Result] = []
    settings = [("q_values", 0.1, True), ("q_values", 0.1, False), ("value", 0.1, True), ("q_values", 0.01, True)]
    problems = cases()[:: options.every]
    for i, problem in enumerate(problems):
        target, delta, adaptive = settings[i % len(settings)]
        for target, delta, adaptive in (settings[i % 4], settings[(i + 1) % 4]):
            results.append(
                study(problem, target=target, delta=delta, adaptive=adaptive, runs=options.runs, budget=options.budget, first_seed=1000 * i)
            )
    text = report(results, time.perf_counter() - begin)
    print(text)
    if options.out:
        options.out.write_text(text)


def report(results: list[Result], seconds: float) -> str:
    lines = [
        "# Coverage of the sharp schedule", "",
        "`python benchmarks/sharp_coverage.py` (what counts as a failure: its head)", "",
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {seconds:.0f} s", "",
    ]  # fmt: skip
    runs, failures = sum(r.runs for r in results), sum(r.failures for r in results)
    alarm = FALSE_ALARM / len(results)
    beyond = [r for r in results if binomial_tail(r.failures, r.runs, r.delta) < alarm]
    lines += [f"{runs:,} runs of {len(results)} cases: {failures} failures, {len(beyond)} cases beyond their delta.", ""]
    lines += ["| problem | operators | cases | runs | failures | worst error/epsilon | calls/price |", "|---|---|---|---|---|---|---|"]
    groups: dict[str, list[Result]] = defaultdict(list)
    for r in results:
        groups[r.name.split(":")[0]].append(r)
    for name, part in sorted(groups.items()):
        used = ", ".join(sorted({r.operator for r in part}))
        spent = sum(r.mean_calls for r in part) / sum(r.price for r in part)
        total, failed, worst = sum(r.runs for r in part), sum(r.failures for r in part), max(r.worst for r in part)
        lines.append(f"| {name} | {used} | {len(part)} | {total:,} | {failed} | {worst:.3f} | {spent:.2f} |")
    lines += ["", "| target | delta | adaptive stop | runs | failures | worst error/epsilon | calls/price |"]
    lines.append("|---|---|---|---|---|---|---|")
    settings: dict[tuple[str, float, bool], list[Result]] = defaultdict(list)
    for r in results:
        settings[r.target, r.delta, r.adaptive].append(r)
    for (target, delta, adaptive), part in sorted(settings.items()):
        spent = sum(r.mean_calls for r in part) / sum(r.price for r in part)
        total, failed, worst = sum(r.runs for r in part), sum(r.failures for r in part), max(r.worst for r in part)
        lines.append(f"| {target} | {delta} | {'yes' if adaptive else 'no'} | {total:,} | {failed} | {worst:.3f} | {spent:.2f} |")
    assert not beyond, f"promises broken: {beyond}"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
