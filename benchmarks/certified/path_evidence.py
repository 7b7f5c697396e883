"""Is ``value`` of ``evaluate`` the mean of unbiased samples? A test with a proven level.

  python -m benchmarks.certified.path_evidence [--runs 400] [--first-seed 2000] [--out FILE]

A path X under its rule (head h, control variate w) has mean V_pi, and a moment
generating function that the table gives exactly. With D_t = gamma^min(t, h), the income
i of a step and W = w, 0 at ends, the rest of a path that is about to make step t in s is

  g_t(s) = sum over a, z of pi(a|s) P(z|s, a) exp(l D_t (i + gamma W(z) - w)) f_t(z)

where f_t = 1 at ends, else g_(t+1) in the head and 1 - gamma + gamma g_(t+1) after it,
where g no longer depends on t: a linear system. So psi(l) = log g_0(start) + l (w - V_pi)
is the logarithm of E exp(l (X - V_pi)), and infinite where the system has spectral
radius 1 or more. A rule is fixed before its path begins, so that the product of
exp(l (X_i - V_pi) - psi_i(l)) over all paths of all runs is a martingale, and so is its
mean E over the fixed grid ``SCALES`` of l, both signs: E[E] <= 1 at every stopping time.
A run that stops at its epsilon (no budget interrupts a path) is such a time, hence

  P(E >= 1/alpha) <= alpha,    alpha = ``LEVEL`` for each world,

whatever the law of X, without a normal approximation and with no scale taken from the
runs. Near the best l, E = 1/alpha is a mean about 5 of its exact standard deviations off.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from benchmarks.coverage.known_worlds import Known, evaluated_tables
from benchmarks.timing import signed

import smoothcruiser as sc
from smoothcruiser.evaluation.path_rules import X
from smoothcruiser.evaluation.path_sampling import PathRun

DELTA, LEVEL = 0.1, 1e-4
SCALES = np.outer((1.0, -1.0), 10.0 ** np.arange(-5.0, 0.1, 0.25)).reshape(-1)  # l
# epsilon of each world: some 8,000 to 240,000 calls, fixed by runs of seeds 0 and 1
EPSILONS = {
    "rare breakdown, 0.99": 200.0,
    "fines, 0.99": 1500.0,
    "regimes, 0.999": 500.0,
    "round of four, 0.9": 0.3,
    "errands, 0.99": 5.0,
    "garnet 8x4, 0.9, entropy": 0.05,
    "garnet 8x4, 0.8, sparsemax": 0.01,
    "game of garnet 8x2, 0.9, entropy": 0.05,
    "garnet 8x3, 1, horizon 20": 0.2,
}

Rule = tuple[int, bool, float]  # head, whether it is all, control variate


def log_moments(known: Known, rules: list[Rule]) -> dict[Rule, Any]:
    """psi at all ``SCALES`` for each rule."""
    tables, policy = known.problem.tables, np.asarray(known.policy)
    size, actions = policy.shape
    pair = np.repeat(np.arange(size * actions), np.diff(tables.start))
    state, target = pair // actions, tables.next_state
    sign = np.where(tables.player == 1, 1.0, -1.0)
    weights = known.problem.operator.weights(actions)
    omega = [known.problem.operator.omega(list(p), list(weights)) for p in policy]
    income = tables.reward - (sign * np.array(omega))[state]
    chance, ends = policy.reshape(-1)[pair] * tables.prob, tables.terminal
    gamma, psi = float(known.problem.discount), {}

    def factors(weight: float) -> Any:
        """P exp(l D i) for all l."""
        tilted = np.zeros((len(SCALES), size, size))
        terms = chance * np.exp(np.outer(SCALES * weight, income))
        for k, row in enumerate(terms):
            np.add.at(tilted[k], (state, target), row)
        return tilted

    for head, fixed in {rule[:2] for rule in rules}:
        controls = np.array([w for h, f, w in rules if (h, f) == (head, fixed)])
        exponents = SCALES[:, None] * controls  # (scales, rules)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            live = np.ones((len(SCALES), size, len(controls)))
            if not fixed:
                live = _after_head(factors(gamma**head), exponents, ends, gamma, head)
            for t in reversed(range(head)):
                live = _one_step(
                    factors(gamma**t), exponents * gamma**t, ends, gamma, live
                )
            moments = live[:, 0] * np.exp(
                exponents - SCALES[:, None] * float(known.truth)
            )
            logs = np.where(np.isfinite(moments), np.log(moments), math.inf)
        for number, control in enumerate(controls):
            psi[head, fixed, float(control)] = logs[:, number]
    return psi


def _one_step(tilted: Any, exponents: Any, ends: Any, gamma: float, after: Any) -> Any:
    """g_t from f_t of states that are no ends (scales, states, rules)."""
    ended = tilted[:, :, ends].sum(axis=2)[:, :, None] * np.exp(-exponents)[:, None]
    fee = np.exp((gamma - 1.0) * exponents)[:, None]
    return ended + fee * (tilted[:, :, ~ends] @ after[:, ~ends])


def _after_head(
    tilted: Any, exponents: Any, ends: Any, gamma: float, head: int
) -> Any:
    """g after the head, by one linear system for each l and w; inf without a mean."""
    weighted, size = exponents * gamma**head, len(ends)
    result = np.full((len(tilted), size, exponents.shape[1]), math.inf)
    first = _one_step(tilted, weighted, ends, gamma, np.full_like(result, 1.0 - gamma))
    inner = tilted * ~ends
    for k, matrix in enumerate(inner):
        if not np.isfinite(matrix).all():
            continue
        radius = float(np.abs(np.linalg.eigvals(matrix)).max())
        for number, exponent in enumerate(weighted[k]):
            again = gamma * math.exp(min(700.0, (gamma - 1.0) * exponent))
            if again * radius < 1.0 - 1e-9:
                system = np.eye(size) - again * matrix
                result[k, :, number] = np.linalg.solve(system, first[k, :, number])
    return result


@dataclass
class Weighed:
    """The runs of one world."""

    runs: int = 0
    misses: int = 0  # intervals that exclude the value
    within: int = 0  # values within four of their own standard errors
    paths: int = 0
    calls: int = 0
    off: float = 0.0  # sum of X - V_pi over all paths
    log_evidence: float = 0.0  # log E

    @property
    def holds(self) -> bool:
        """Whether E < 1/alpha."""
        return self.log_evidence < math.log(1.0 / LEVEL)


def weigh(known: Known, seeds: range) -> Weighed:
    """The evidence of runs that stop at the epsilon of their world."""
    counts: Counter[Rule] = Counter()
    found, truth, take = Weighed(), float(known.truth), PathRun._take
    parts: list[Any] = []

    def watched(run: PathRun, samples: Any) -> None:
        if len(samples):
            rule = run.rule
            counts[rule.head, rule.fixed, float(rule.control)] += len(samples)
            parts.append(samples[:, X].copy())
        take(run, samples)

    for seed in seeds:
        parts.clear()
        with patch.object(PathRun, "_take", watched):
            answer = sc.evaluate(
                known.problem,
                known.policy,
                epsilon=EPSILONS[known.name],
                delta=DELTA,
                seed=seed,
            )
        x, (low, high) = np.concatenate(parts), answer.interval
        # the answer is the mean of these samples, and its error the usual one
        mean, error = float(x.mean()), float(x.std(ddof=1)) / math.sqrt(len(x))
        assert math.isclose(
            answer.value, min(max(mean, low), high), rel_tol=1e-9, abs_tol=1e-9
        )
        assert math.isclose(answer.standard_error, error, rel_tol=1e-3, abs_tol=1e-9)
        found.runs += 1
        found.misses += not low <= truth <= high
        found.within += abs(answer.value - truth) <= 4.0 * answer.standard_error
        found.paths += len(x)
        found.calls += answer.num_calls
        found.off += float(np.sum(x - truth))
    psi = log_moments(known, list(counts))
    logs = SCALES * found.off - sum(n * psi[rule] for rule, n in counts.items())
    top = float(logs.max())
    found.log_evidence = top + math.log(float(np.exp(logs - top).mean()))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.runs)
    lines = [
        "# `value` of `evaluate` against its exact law",
        "",
        f"`python {' '.join(sys.argv)}` (the test: the script's head); {signed()}",
        "",
        "| world | epsilon | runs | calls per run | paths | misses (delta = 0.1) | "
        "within 4 standard errors | evidence E (fails from "
        f"{1.0 / LEVEL:,.0f} on) | CPU |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    holds = True
    for known in evaluated_tables():
        if known.name not in EPSILONS:
            continue
        begin = time.process_time()
        found = weigh(known, seeds)
        holds &= found.holds
        lines.append(
            f"| {known.name} | {EPSILONS[known.name]:g} | {found.runs} "
            f"| {found.calls / found.runs:,.0f} | {found.paths:,} | {found.misses} "
            f"| {found.within / found.runs:.4f} | {math.exp(found.log_evidence):.3g} "
            f"| {time.process_time() - begin:.1f} s |"
        )
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
