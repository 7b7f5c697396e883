"""What certified search costs and whether it keeps its promise.

python -m benchmarks.certified.certified [OPTION]

  (none)      Frozen Lake at three promises, beside uniform sampling
  --coverage  2,000 runs on random problems: every bound of every state seen
              against exact values
  --scaling   calls, seconds and memory against states and 1/epsilon, threads
              (certified_scaling.py: --million, --out FILE)
  --reach     Bernoulli rewards: whether every run reaches epsilon, and within
              the price that explain states
  --radii     the radii beside Hoeffding's and Bernstein's at the same confidence
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.certified.certified_scaling import show_scaling
from benchmarks.certified.certified_worlds import (
    FAMILIES,
    LAKE_4,
    LAKE_8,
    bernoulli,
    frozen_lake,
    some_operator,
)

from smoothcruiser.certified.bounds.base import pair_cost
from smoothcruiser.certified.bounds.betting import best_bound
from smoothcruiser.certified.price_forecast import price_bound
from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.steering import LEAST_GROWTH, Steering
from smoothcruiser.certified.sweeps.steering_kernel import FIRST_BATCH
from smoothcruiser.errors import OracleError
from smoothcruiser.exact import solve
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.problem import Problem

# --- Frozen Lake --------------------------------------------------------------

PROMISES = [
    (0.95, 0.05, 0.05, 4.2e6),
    (0.99, 0.05, 0.05, 6.7e7),
    (0.9, 0.1, 0.01, 8.4e6),
]


def uniform_bernstein(problem: Problem, epsilon: float, delta: float) -> float:
    """Calls of the baseline prototype.

    It samples all pairs equally, with empirical Bernstein radii at 6 delta/(pi
    k)**2 and doubling epochs.
    """
    tables = problem.tables
    assert tables is not None
    size, A, gamma = tables.num_states, tables.num_actions, problem.discount
    rng = np.random.default_rng(0)
    rows = [slice(tables.start[i], tables.start[i + 1]) for i in range(size * A)]
    low, high = problem.facts.value_bounds()
    span = problem.facts.reward_span + gamma * (high - low)
    k = np.arange(1, size * A + 1)
    n, epoch = 64, 1
    counts = np.zeros(len(tables.prob))
    row = np.repeat(np.arange(size * A), np.diff(tables.start))
    have = 0
    L, U = np.full(size, low), np.full(size, high)
    while n < 1e9:
        for part in rows:
            counts[part] += rng.multinomial(n - have, tables.prob[part])
        have = n
        log_term = np.log(
            4.0 * (math.pi**2 * k**2 / 6.0) * epoch * (epoch + 1) / delta
        )
        for _ in range(int(20 / (1 - gamma))):
            before = U[0] - L[0]
            values = tables.reward + gamma * 0.5 * (L + U)[tables.next_state]
            mean = np.bincount(row, counts * values) / n
            second = np.bincount(row, counts * values**2) / n
            variance = np.maximum(second - mean**2, 0.0)
            half = 0.5 * (U - L)[tables.next_state]
            doubt = gamma * np.sqrt(np.bincount(row, counts * half**2) / n)
            radius = (np.sqrt(variance) + doubt) * np.sqrt(2 * log_term / n)
            radius += 7 * span * log_term / (3 * (n - 1))
            radius = np.minimum(radius, span * np.sqrt(log_term / (2 * n)))
            upper = tables.reward + gamma * U[tables.next_state]
            lower = tables.reward + gamma * L[tables.next_state]
            up = np.bincount(row, counts * upper) / n + radius
            down = np.bincount(row, counts * lower) / n - radius
            t = problem.operator.strength
            U = np.minimum(U, _entropy(up.reshape(size, A), t))
            L = np.maximum(L, _entropy(down.reshape(size, A), t))
            if before - (U[0] - L[0]) < 1e-4 * before * (1 - gamma):
                break
        if U[0] - L[0] <= 2 * epsilon:
            return n * size * A
        n, epoch = math.ceil(n * 1.25), epoch + 1
    return math.inf


def _entropy(q: Any, t: float) -> Any:
    top = q.max(axis=1)
    return top + t * np.log(np.exp((q - top[:, None]) / t).sum(axis=1))


class Uniform(Certified):
    """Certified search that samples every pair equally often."""

    class steering(Steering):
        def next_calls(self, root: int, limits: Any, drawn_pairs: int) -> int:
            return 2**62

        def num_steerable(self, limits: Any, calls: int) -> int:
            return calls

        def steered_jobs(self, root: int, limits: Any, calls: int) -> Any:
            self.region.list_reach()
            nodes, pairs = self.memory.graph.nodes, self.memory.graph.pairs
            n = pairs["total"][: self.memory.num_pairs]
            nodes["mass"][1 : self.memory.num_nodes] = 1.0
            new_pairs = np.flatnonzero(n == 0.0)
            jobs = new_pairs if len(new_pairs) else np.arange(len(n))
            count = max(FIRST_BATCH, int(n.max(initial=0.0)))
            if not len(new_pairs):
                count = max(1, int(LEAST_GROWTH * count))
            jobs = jobs[: max(1, calls // count)]
            return jobs, np.full(len(jobs), min(count, calls), dtype=np.int64)


def show_lake() -> None:
    small = frozen_lake(LAKE_4, discount=0.5, operator=Entropy(1.0))
    Certified(small, delta=0.1).query(budget=1_000)  # compile
    print(
        "Frozen Lake 8x8, slippery, no terminals; delta = 0.05; "
        "epsilon in percent of B. Calls until the promise is kept."
    )
    print(
        f"{'promise':34}{'certified':>12}{'seconds':>9}{'uniform':>12}{'ratio':>7}"
        f"{'Bernstein':>12}{'the bar':>10}  error / epsilon"
    )
    for discount, temperature, share, bar in PROMISES:
        problem = frozen_lake(LAKE_8, discount=discount, operator=Entropy(temperature))
        exact = float(solve(problem).values[0])
        epsilon = share * problem.facts.value_span()
        for target in ("value", "q_values"):
            asked: Any = {"epsilon": epsilon, "target": target}
            ours = Certified(problem, delta=0.05).query(**asked)
            equal = Uniform(problem, delta=0.05).query(**asked)
            old = f"{'':12}"
            if target == "value":
                old = f"{uniform_bernstein(problem, epsilon, 0.05):12.3g}"
            name = f"{discount:g}, {temperature:g}, {share:.0%}, {target}"
            ratio = ours.num_calls / equal.num_calls
            print(
                f"{name:34}{ours.num_calls:12,}{ours.seconds:9.2f}"
                f"{equal.num_calls:12,}{ratio:7.2f}{old}{bar:10.2g}  "
                f"{(ours.value - exact) / epsilon:+.3f}",
                flush=True,
            )
    print(
        "uniform: the same radii, every seen pair equally often. Bernstein: "
        "every pair equally often, Hoeffding or empirical Bernstein"
    )
    print(
        "with 6 delta / (pi k)**2 per pair and a union over epochs "
        "(n grows by a quarter per epoch): the prototype's recipe."
    )


# --- coverage -----------------------------------------------------------------


def one_run(
    number: int, *, most_calls: int, delta: float, radius_scale: float = 1.0
) -> tuple[str, bool, bool, int]:
    """(family, whether any bound missed, whether intervals were nested, calls).

    The bounds are those of every state seen, against exact values; intervals
    are to be nested over time.
    """
    rng = np.random.default_rng([6, number])
    family = list(FAMILIES)[number % len(FAMILIES)]
    horizon = (
        int(rng.integers(2, 6)) if rng.random() < 0.15 and family != "lake" else None
    )
    discount = (
        1.0 if horizon is not None else float(rng.choice([0.0, 0.5, 0.9, 0.95, 0.99]))
    )
    problem = FAMILIES[family](
        rng, discount=discount, operator=some_operator(rng), horizon=horizon
    )
    solution = solve(problem)
    intervals: list[tuple[float, float]] = []
    memory = Certified(problem, delta=delta, seed=number)
    memory.radius_scale = radius_scale
    budget = int(10.0 ** rng.uniform(2.5, math.log10(most_calls)))
    try:
        memory.query(
            budget=budget, progress=lambda news: intervals.append(news.interval)
        )
    except OracleError:  # bounds that exclude each other: a miss
        return family, True, True, memory.num_calls
    known = [interval for interval in intervals if interval is not None]
    nested = all(a[0] <= b[0] and b[1] <= a[1] for a, b in pairwise(known))
    return family, misses(memory, solution, problem), nested, memory.num_calls


def misses(memory: Certified, solution: Any, problem: Problem) -> bool:
    """Whether any bound on V(s) or Q(s, a) of a state seen excludes the exact value.

    The solver's own error bound is allowed for.
    """
    slack = float(solution.residual_bound)
    for row in memory.table():
        left = row.remaining
        value, after = solution.values[row.state], solution.values
        if left is not None:
            value, after = solution.stages[left][row.state], solution.stages[left - 1]
        if not row.interval[0] - slack <= value <= row.interval[1] + slack:
            return True
        for action in range(problem.num_actions):
            low, high = row.q_intervals[action]
            if low != low:  # not legal
                continue
            outcomes = problem.tables.outcomes(row.state, action)  # type: ignore[union-attr]
            q = sum(p * (r + problem.discount * after[z]) for p, r, z in outcomes)
            if not low - slack - 1e-12 <= q <= high + slack + 1e-12:
                return True
    return False


def show_coverage(runs: int, most_calls: int, delta: float) -> None:
    from scipy.stats import binom

    for scale in (1.0, 0.25):
        begin = time.perf_counter()
        results = [
            one_run(i, most_calls=most_calls, delta=delta, radius_scale=scale)
            for i in range(runs)
        ]
        missed, calls = sum(r[1] for r in results), sum(r[3] for r in results)
        chance = float(binom.sf(missed - 1, runs, delta))
        print(
            f"radii times {scale:g}: {missed} of {runs} runs with a "
            f"miss in any bound of any state seen; delta = {delta:g}."
        )
        print(
            "  Chance of that many or more if each run "
            f"misses with probability delta: {chance:.3g}."
        )
        print(
            f"  Nested over time: {all(r[2] for r in results)}; "
            f"{calls:,} calls, {time.perf_counter() - begin:.0f} s."
        )
        for family in FAMILIES:
            own = [r for r in results if r[0] == family]
            print(
                f"  {family:14} {sum(r[1] for r in own):4} of {len(own)}", flush=True
            )


# --- reaching epsilon ---------------------------------------------------------

REACH_DISCOUNTS = (0.5, 0.9, 0.95, 0.99)
REACH_SHARE = {0.5: 0.02, 0.9: 0.02, 0.95: 0.03, 0.99: 0.05}  # epsilon as a share of B
# the certain price rises like 1/(1 - discount)**4: beyond, it takes minutes to sample
CERTAIN_DISCOUNTS = (0.0, 0.3, 0.6, 0.85)


def one_reach(number: int, *, delta: float) -> tuple[float, bool, bool, int]:
    """(discount, whether epsilon was reached, whether any bound missed, calls).

    The run has no budget.
    """
    rng = np.random.default_rng([7, number])
    discount = REACH_DISCOUNTS[number % len(REACH_DISCOUNTS)]
    problem = bernoulli(rng, discount)
    epsilon = REACH_SHARE[discount] * problem.facts.value_span()
    memory = Certified(problem, delta=delta, seed=number)
    target: Any = ("q_values", "value")[number // 4 % 2]
    try:
        found = memory.query(epsilon=epsilon, target=target)
    except OracleError:  # bounds that exclude each other: a miss
        return discount, False, True, memory.num_calls
    return (
        discount,
        kept(found, epsilon),
        misses(memory, solve(problem), problem),
        found.num_calls,
    )


def kept(found: Any, epsilon: float) -> bool:
    """Whether the answer is as narrow as requested, and says so."""
    half_width = 0.5 * (found.interval[1] - found.interval[0])
    return bool(found.epsilon == epsilon and half_width <= epsilon)


class Wasteful(Certified):
    """Certified search whose steered samples all go to the root's first action.

    The price must not rely on them.
    """

    class steering(Steering):
        def steered_jobs(self, root: int, limits: Any, calls: int) -> Any:
            return np.array([self.memory.graph.nodes["first"][root]]), np.array(
                [calls]
            )


def one_certain(
    number: int, *, delta: float, kind: type[Certified] = Certified
) -> tuple[float, bool, bool, int, float]:
    """(discount, reached, missed, calls, calls / price).

    The budget is exactly the price that ``explain`` states. The price depends
    on the pairs that are met, so a run without a budget comes first.
    """
    rng = np.random.default_rng([8, number])
    discount = CERTAIN_DISCOUNTS[number % len(CERTAIN_DISCOUNTS)]
    problem = bernoulli(rng, discount)
    epsilon = float(rng.uniform(0.05, 0.2)) * problem.facts.value_span()
    budget, price = None, 0
    while True:  # a run that meets more pairs than the one before has a higher price
        memory = kind(problem, delta=delta, seed=number)
        found = memory.query(epsilon=epsilon, budget=budget)
        price = price_bound(
            problem.facts,
            epsilon=epsilon,
            delta=delta,
            num_pairs=memory.memory.num_pairs,
        )
        if budget is not None and price <= budget:
            break
        budget = max(1, price)  # 0 where what is known before the first call is enough
    missed = misses(memory, solve(problem), problem)
    return (
        discount,
        kept(found, epsilon),
        missed,
        found.num_calls,
        found.num_calls / max(1, price),
    )


def show_reach(runs: int, delta: float) -> None:
    begin = time.perf_counter()
    results = [one_reach(i, delta=delta) for i in range(runs)]
    print(
        "Random MDPs and games with rewards 0 and 1, delta "
        f"= {delta:g}, no budget: runs that reached epsilon."
    )
    print(
        f"{'discount':>9}{'epsilon':>9}{'reached':>14}{'missed':>8}"
        f"{'calls (median)':>16}{'(most)':>14}"
    )
    for discount in REACH_DISCOUNTS:
        own = [r for r in results if r[0] == discount]
        calls = sorted(r[3] for r in own)
        reached = f"{sum(r[1] for r in own)} of {len(own)}"
        share = f"{REACH_SHARE[discount]:.0%}"
        print(
            f"{discount:9}{share:>9}{reached:>14}{sum(r[2] for r in own):8}"
            f"{calls[len(calls) // 2]:16,}{calls[-1]:14,}"
        )
    print(
        "missed: any bound of any state seen excludes the exact value. "
        f"{time.perf_counter() - begin:.0f} s.",
        flush=True,
    )
    print()
    print(
        "With a budget of exactly the calls that explain "
        "says suffice, for the pairs that were met:"
    )
    print(
        f"{'steering':>16}{'discount':>9}{'reached':>14}{'missed':>8}"
        f"{'calls / price (median)':>24}{'(most)':>8}"
    )
    for name, kind in (("as it is", Certified), ("all to one pair", Wasteful)):
        begin = time.perf_counter()
        certain = [one_certain(i, delta=delta, kind=kind) for i in range(runs // 2)]
        for discount in CERTAIN_DISCOUNTS:
            mine = [r for r in certain if r[0] == discount]
            shares = sorted(r[4] for r in mine)
            reached = f"{sum(r[1] for r in mine)} of {len(mine)}"
            middle = shares[len(shares) // 2]
            print(
                f"{name:>16}{discount:9}{reached:>14}{sum(r[2] for r in mine):8}"
                f"{middle:24.3f}{shares[-1]:8.3f}"
            )
        print(f"{time.perf_counter() - begin:.0f} s.", flush=True)


# --- radii --------------------------------------------------------------------


def show_radii() -> None:
    """Upper radii at confidence log(1/alpha) = 14 on [0, 1], mean over 200 samples."""
    cost, rng = 14.0, np.random.default_rng(0)
    print(
        "Upper radius of a mean on [0, 1] at log(1/alpha) = 14 "
        "for all n at once (ours), or for one n (the others)."
    )
    print(
        f"{'law':24}{'n':>8}{'ours':>10}{'Hoeffding':>11}{'Bernstein':>11}"
        f"{'known sigma':>12}"
    )
    laws = {
        "Bernoulli(0.5)": lambda n: (rng.random(n) < 0.5).astype(float),
        "Bernoulli(0.02)": lambda n: (rng.random(n) < 0.02).astype(float),
        "uniform": rng.random,
        "0.3 + noise of 0.01": lambda n: 0.3 + 0.02 * (rng.random(n) - 0.5),
        "constant 0.3": lambda n: np.full(n, 0.3),
    }
    for name, law in laws.items():
        for n in (100, 1_000, 10_000):
            ours, bernstein, ideal = [], [], []
            for _ in range(200):
                x = law(n)
                ours.append(best_bound(x, 0.0, 1.0, cost) - x.mean())
                bernstein.append(
                    math.sqrt(2 * x.var(ddof=1) * (cost + math.log(2)) / n)
                    + 7 * (cost + math.log(2)) / (3 * (n - 1))
                )
                ideal.append(math.sqrt(2 * x.var() * cost / n))
            hoeffding = math.sqrt(cost / (2 * n))
            print(
                f"{name:24}{n:8}{np.mean(ours):10.4f}{hoeffding:11.4f}"
                f"{np.mean(bernstein):11.4f}{np.mean(ideal):12.4f}"
            )
    prices = ", ".join(f"{k}: {pair_cost(k, 0.05):.1f}" for k in (1, 100, 10**4))
    print(f"Price of the k-th pair, log(2/(delta p_k)) at delta = 0.05: {prices}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--reach", action="store_true")
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--radii", action="store_true")
    options = parser.parse_args()
    if options.coverage:
        show_coverage(options.runs, options.calls, options.delta)
    elif options.reach:
        show_reach(options.runs, options.delta)
    elif options.scaling:
        show_scaling(options.million, options.out)
    elif options.radii:
        show_radii()
    else:
        show_lake()


if __name__ == "__main__":
    main()
