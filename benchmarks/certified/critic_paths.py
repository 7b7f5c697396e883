"""``evaluate(value=W)`` with a learned W: half-widths at equal calls, and coverage.

    python -m benchmarks.certified.critic_paths [--runs 5000]
        [--out docs/evidence/critic-paths.md]

The first table: the value of the optimal policy of four worlds by 150,000 calls, delta =
.1. W is the plug-in value of the policy from 30% of the calls (paths that end with
probability 1 - gamma per step, counts of outcomes, states never met get the mean), and
70% go to ``evaluate``. "Prototype" are the half-widths of the design note's program.

The second: ``--runs`` runs of 3,000 calls in a world with rare breakdowns, with W that
knows of none (a constant), that is the truth, and that is noise: how often the interval
and the usual one (value ± 1.645 standard errors) missed the exact value. delta = .1; the
promise is tested by the exact binomial tail at 1e-3.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.timing import signed

import smoothcruiser as sc

CALLS, LEARNED, DELTA, SEEDS = 150_000, 0.3, 0.1, (1, 2, 3, 4, 5)
MOST_RATIO = 1.2  # times the prototype's half-width
Rows = list[tuple[float, float, int]]  # probability, reward, next state
MAP = [
    "SFFFFFFF",
    "FFFFFFFF",
    "FFFHFFFF",
    "FFFFFHFF",
    "FFFHFFFF",
    "FHHFFFHF",
    "FHFFHFHF",
    "FFFHFFFG",
]


def inventory() -> tuple[Callable[[int, int], Rows], dict[str, Any]]:
    """Stock and an order under way; Poisson(3) demand; holding 1, lost sale 9, order 0."""
    demand = [math.exp(-3) * 3**k / math.factorial(k) for k in range(40)]

    def law(state: int, order: int) -> Rows:
        stock = min(state // 7 + state % 7, 15)
        rows = []
        for d, p in enumerate(demand):
            left = stock - min(stock, d)
            cost = left + 9.0 * min(d - min(stock, d), 10)
            rows.append((p / sum(demand), -cost, left * 7 + order))
        return rows

    return law, {"S": 112, "A": 7, "discount": 0.95, "range": (-90, 0), "first": 38}


def queues() -> tuple[Callable[[int, int], Rows], dict[str, Any]]:
    """Two queues of at most 12, one server; costs 2 and 1 per customer and step."""

    def law(state: int, served: int) -> Rows:
        rows = []
        for a in (1, 0):
            for b in (1, 0):
                p = (0.3 if a else 0.7) * (0.25 if b else 0.75)
                x, y = min(state // 13 + a, 12), min(state % 13 + b, 12)
                outs = [(1.0, x, y)]
                if served == 0 and x > 0:
                    outs = [(0.7, x - 1, y), (0.3, x, y)]
                elif served == 1 and y > 0:
                    outs = [(0.6, x, y - 1), (0.4, x, y)]
                rows += [(p * q, -(2.0 * u + v), u * 13 + v) for q, u, v in outs]
        return rows

    return law, {"S": 169, "A": 2, "discount": 0.98, "range": (-36, 0), "first": 42}


def lake() -> tuple[Callable[[int, int], Rows], dict[str, Any]]:
    """Frozen Lake 8x8; state 64 is the end. Values are declared to lie in [0, 1]."""
    moves = ((0, -1), (1, 0), (0, 1), (-1, 0))

    def law(state: int, action: int) -> Rows:
        if state == 64 or MAP[state // 8][state % 8] in "HG":
            return [(1.0, 0.0, 64)]
        rows = []
        for turn in (-1, 0, 1):
            dy, dx = moves[(action + turn) % 4]
            y, x = min(max(state // 8 + dy, 0), 7), min(max(state % 8 + dx, 0), 7)
            over = MAP[y][x] in "HG"
            rows.append((1 / 3, float(MAP[y][x] == "G"), 64 if over else y * 8 + x))
        return rows

    facts = {"S": 65, "A": 4, "discount": 0.99, "range": (0, 1), "first": 0}
    return law, facts | {"over": 64, "most": 1.0}


def garnet() -> tuple[Callable[[int, int], Rows], dict[str, Any]]:
    """50 states, 4 actions, 3 successors, rewards 0 or 1."""
    rng, rows = np.random.default_rng(1), {}
    for state in range(50):
        for action in range(4):
            after = rng.choice(50, 3, replace=False)
            shares, mean = rng.dirichlet(np.ones(3)), rng.random()
            rows[state, action] = [
                (float(shares[i] * q), r, int(after[i]))
                for i in range(3)
                for q, r in ((mean, 1.0), (1.0 - mean, 0.0))
            ]
    facts = {"S": 50, "A": 4, "discount": 0.99, "range": (0, 1), "first": 0}
    return lambda state, action: rows[state, action], facts


# world -> (law and facts, the prototype's half-widths: least, largest)
WORLDS = {
    "inventory": (inventory, (0.92, 1.13)),
    "queues": (queues, (6.2, 7.7)),
    "garnet 50x4": (garnet, (0.58, 0.69)),
    "Frozen Lake 8x8": (lake, (0.015, 0.017)),
}


class World:
    """A law as arrays, its optimal policy, and a table of pairs to sample from.

    Rewards that differ while the next state is the same become states of their own
    outcome: a ``tabular`` problem has one reward per (state, action, next state), so
    the sampled chain's reward is paid by the outcome, and only the mean would be kept.
    """

    def __init__(self, law: Callable[[int, int], Rows], facts: dict[str, Any]) -> None:
        self.law, self.facts = law, facts
        S, A, gamma = facts["S"], facts["A"], facts["discount"]
        self.over = facts.get("over", -1)
        P, R = np.zeros((S, A, S)), np.zeros((S, A))
        for s in range(S):
            for a in range(A):
                for p, r, z in law(s, a):
                    P[s, a, z] += p
                    R[s, a] += p * r
        values = np.zeros(S)
        for _ in range(20_000):
            q = R + gamma * P @ values
            if np.abs(q.max(axis=1) - values).max() < 1e-12:
                break
            values = q.max(axis=1)
        self.policy, self.truth = q.argmax(axis=1), float(values[facts["first"]])
        self.ladders = []
        for s in range(S):
            row = law(s, int(self.policy[s]))
            self.ladders.append((np.cumsum([p for p, _, _ in row]).tolist(), row))

    def problem(self) -> sc.Problem:
        """The policy's chain as a compiled step, which looks its rows up."""
        from numba import njit

        width = max(len(ladder) for ladder, _ in self.ladders)
        size = len(self.ladders)
        ladders, rewards = np.full((size, width), 2.0), np.zeros((size, width))
        targets = np.zeros((size, width), np.int64)
        for s, (ladder, row) in enumerate(self.ladders):
            ladders[s, : len(row) - 1] = ladder[:-1]
            rewards[s, : len(row)] = [r for _, r, _ in row]
            targets[s, : len(row)] = [z for _, _, z in row]
        over = self.over

        @njit
        def step(state: int, action: int, rng: Any) -> Any:
            i = np.searchsorted(ladders[state], rng.random(), side="right")
            return rewards[state, i], targets[state, i]

        @njit
        def ends(state: int) -> bool:
            return state == over

        low, high = map(float, self.facts["range"])
        declared: dict[str, Any] = {}
        if "most" in self.facts:
            declared["value_bounds"] = (0.0, self.facts["most"])
        if over >= 0:
            declared["terminal"] = ends
        return sc.MDP(
            step,
            num_actions=1,
            discount=self.facts["discount"],
            operator=sc.Max(),
            reward_range=(low, high),
            initial_state=self.facts["first"],
            **declared,
        )

    def learn(self, calls: int, seed: int) -> Any:
        """W from so many calls: the plug-in value of the policy."""
        rng, gamma = np.random.default_rng(seed), self.facts["discount"]
        counts: dict[int, Counter[tuple[float, int]]] = defaultdict(Counter)
        state, luck = self.facts["first"], rng.random((calls, 2))
        for u, coin in luck.tolist():
            ladder, row = self.ladders[state]
            i = min(int(np.searchsorted(ladder, u, side="right")), len(row) - 1)
            _, reward, after = row[i]
            counts[state][reward, after] += 1
            alive = after != self.over and coin < gamma
            state = after if alive else self.facts["first"]
        met = sorted(counts)
        number = {s: i for i, s in enumerate(met)}
        P, R = np.zeros((len(met), len(met))), np.zeros(len(met))
        for s, outcomes in counts.items():
            total = sum(outcomes.values())
            for (reward, after), n in outcomes.items():
                R[number[s]] += n / total * reward
                if after in number:
                    P[number[s], number[after]] += n / total
        learned = np.linalg.solve(np.eye(len(met)) - gamma * P, R)
        values = np.full(self.facts["S"], learned.mean())
        values[met] = learned
        return values


def compare_widths() -> tuple[list[str], bool]:
    """(the first table, whether a row is beyond the prototype)."""
    lines = [
        "| world | V_pi | without W, 150,000 calls | learned W, 45,000 + 105,000 calls | "
        "half-widths of 5 seeds | prototype | CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    failed = False
    for name, (make, (least, largest)) in WORLDS.items():
        world = World(*make())
        problem = world.problem()
        facts = {"delta": DELTA, "state": world.facts["first"]}
        policy = sc.Tree(problem, method="uct", seed=0).grow(simulations=1)
        bare = sc.evaluate(problem, policy, budget=CALLS, seed=1, **facts)
        halves, shown, begin = [], "", time.process_time()
        for seed in SEEDS:
            critic = world.learn(int(LEARNED * CALLS), seed)
            answer = sc.evaluate(
                problem,
                policy,
                value=critic,
                budget=CALLS - int(LEARNED * CALLS),
                seed=seed,
                **facts,
            )
            halves.append(answer.epsilon)
            shown = shown or f"{answer.value:.5g} ± {answer.epsilon:.3g}"
        seconds = (time.process_time() - begin) / len(SEEDS)
        failed = failed or float(np.median(halves)) > MOST_RATIO * largest
        lines.append(
            f"| {name} | {world.truth:.5g} | {bare.value:.5g} ± {bare.epsilon:.3g} | "
            f"{shown} | {min(halves):.3g} to {max(halves):.3g} | {least:g} to "
            f"{largest:g} | {seconds:.2f} s |"
        )
        print(lines[-1], flush=True)
    return lines, failed


def rare_world() -> tuple[sc.Problem, Any]:
    """A ring of five states and a breakdown; the table, its exact values."""
    rng, P, R = np.random.default_rng(4), np.zeros((6, 1, 6)), np.zeros((6, 1, 6))
    for state in range(5):
        chance, costs = 0.3 + 0.4 * rng.random(), rng.integers(1, 9, 2)
        for k, share in enumerate((chance, 1.0 - chance)):
            P[state, 0, (state + 1 + k) % 5] = 0.9992 * share
            R[state, 0, (state + 1 + k) % 5] = -costs[k]
        P[state, 0, 5], R[state, 0, 5] = 0.0008, -90.0
    P[5, 0, [5, 0]], R[5, 0, [5, 0]] = (0.9, 0.1), -90.0
    values = np.linalg.solve(np.eye(6) - 0.95 * P[:, 0], (P * R)[:, 0].sum(axis=1))
    facts = {"discount": 0.95, "operator": sc.Max(), "reward_range": (-90.0, 0.0)}
    return sc.tabular(P, R, **facts), values


def cover(runs: int) -> tuple[list[str], bool]:
    """(the second table, whether a row is beyond its delta)."""
    problem, values = rare_world()
    noise = values + np.random.default_rng(1).normal(0.0, 30.0, 6)
    critics = {
        "constant": np.full(6, values[:5].mean()),
        "truth": values,
        "noise": noise,
    }
    lines = [
        "| W | runs | misses | misses of the usual interval | mean of all values, in its "
        "standard errors |",
        "|---|---|---|---|---|",
    ]
    failed = False
    for name, critic in critics.items():
        errors, misses, usual = [], 0, 0
        for seed in range(runs):
            answer = sc.evaluate(
                problem,
                np.ones((6, 1)),
                value=critic,
                budget=3000,
                delta=DELTA,
                seed=seed,
            )
            error = answer.value - values[0]
            misses += not answer.interval[0] <= values[0] <= answer.interval[1]
            usual += abs(error) > 1.645 * answer.standard_error
            errors.append(error)
        scale = float(np.std(errors, ddof=1)) / math.sqrt(runs)
        failed = failed or binomial_tail(misses, runs, DELTA) < 1e-3
        lines.append(
            f"| {name} | {runs:,} | {misses} | {usual} ({100 * usual / runs:.1f}%) | "
            f"{np.mean(errors) / scale:+.1f} |"
        )
        print(lines[-1], flush=True)
    return lines, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    requested = parser.parse_args()
    widths, is_wide = compare_widths()
    coverage, is_missed = cover(requested.runs)
    paragraphs = [text.replace("\n", " ") for text in (__doc__ or "").split("\n\n")]
    command = f"python -m benchmarks.certified.critic_paths --runs {requested.runs}"
    page = [
        "# `evaluate` with a critic",
        f"`{command}`; {signed()}",
        paragraphs[2],
        "\n".join(widths),
        "## Coverage with rare breakdowns",
        paragraphs[3],
        "\n".join(coverage),
    ]
    if requested.out is not None:
        requested.out.write_text("\n\n".join(text.strip() for text in page) + "\n")
    return 1 if is_wide or is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
