"""A plain Python simulator, certified from the hashes of its states alone.

Two products share a warehouse and a truck.

A state is a tuple (stock of A, stock of B). Each day one decides what the truck
brings (nothing, ten of A, ten of B, five of both), then customers come, and
stock costs money overnight. No table, no list of states: certified search meets
them one by one.

    python examples/inventory.py
"""

from __future__ import annotations

import time

from smoothcruiser.certified.search import Certified
from smoothcruiser.exact import solve
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.problem import MDP

CAPACITY = (34, 30)  # places for A and for B: 35 * 31 = 1,085 states
LOADS = [(0, 0), (10, 0), (0, 10), (5, 5)]
# the same law for both products, independent
DEMAND = [(0.15, 0), (0.35, 1), (0.30, 3), (0.20, 6)]
MARGIN = (1.0, 1.5)
HOLDING, TRUCK = 0.02, 0.8
# a day's profit lies between: scaled to [0, 1]
BEST, WORST = 6 * 1.0 + 6 * 1.5, -(34 + 30) * 0.02 - 0.8


def scaled(profit: float) -> float:
    """A day's profit on [0, 1]."""
    return min(1.0, max(0.0, (profit - WORST) / (BEST - WORST)))


def day(
    state: tuple[int, int], action: int, demand: tuple[int, int]
) -> tuple[float, tuple[int, int]]:
    """What a day with a given demand pays and leaves."""
    load = LOADS[action]
    profit = -TRUCK if action else 0.0
    left = []
    for stock, capacity, more, wanted, margin in zip(
        state, CAPACITY, load, demand, MARGIN, strict=True
    ):
        stock = min(stock + more, capacity)
        sold = min(stock, wanted)
        profit += margin * sold - HOLDING * (stock - sold)
        left.append(stock - sold)
    return scaled(profit), (left[0], left[1])


def customers(u: float) -> int:
    for chance, number in DEMAND:
        if u < chance:
            return number
        u -= chance
    return DEMAND[-1][1]


def step(
    state: tuple[int, int], action: int, rng: object
) -> tuple[float, tuple[int, int]]:
    """The simulator: one day."""
    return day(state, action, (customers(rng.random()), customers(rng.random())))  # type: ignore[attr-defined]


def outcomes(
    state: tuple[int, int], action: int
) -> list[tuple[float, float, tuple[int, int]]]:
    """The model behind the simulator: used to check the answer, never by the search."""
    return [(p * q, *day(state, action, (m, n))) for p, m in DEMAND for q, n in DEMAND]


def main() -> None:
    problem = MDP(
        step,
        num_actions=4,
        discount=0.9,
        operator=Entropy(0.05),
        initial_state=(10, 10),
        name="inventory",
    )
    epsilon = 0.1 * problem.facts.value_span()
    memory = Certified(problem, delta=0.05)
    begin = time.perf_counter()
    found = memory.query(epsilon=epsilon)
    print(
        f"value {found.value:.3f}, interval [{found.interval[0]:.3f}, "
        f"{found.interval[1]:.3f}] at confidence 95%, epsilon {epsilon:.2f}"
    )
    print(
        f"{found.num_calls:,} calls, "
        f"{time.perf_counter() - begin:.1f} s; {found.notes[-1]}"
    )
    print(
        f"policy {[round(p, 3) for p in found.policy]}, its "
        f"loss at most {found.certificate.policy_loss:.3f}"
    )
    again = memory.query((20, 3), epsilon=epsilon)
    print(
        f"a second state on the same memory: {again.num_calls:,} "
        f"further calls, value {again.value:.3f}"
    )
    known = MDP(
        step,
        num_actions=4,
        discount=0.9,
        operator=Entropy(0.05),
        initial_state=(10, 10),
        outcomes=outcomes,
    )
    solution = solve(known)
    for estimate, state in ((found, (10, 10)), (again, (20, 3))):
        exact = float(solution.values[solution.index(state)])
        inside = estimate.interval[0] <= exact <= estimate.interval[1]
        print(
            f"exact value of {state} from the model: {exact:.3f} "
            f"({len(solution.values):,} states), inside its interval: {inside}"
        )


if __name__ == "__main__":
    main()
