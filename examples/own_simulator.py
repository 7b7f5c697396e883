"""One's own simulator, compiled and in plain Python.

How many boxes should the shop order tonight?

Run it with ``python examples/own_simulator.py``, or in this folder
``smoothcruiser plan own_simulator:problem --epsilon 5% --delta 0.1``.
"""

from typing import NamedTuple

import numba

import smoothcruiser as sc


class Shop(NamedTuple):
    stock: int  # boxes on the shelf, 0 to 5
    day: int  # 0 to 6; demand is higher on days 5 and 6


def step(shop, order, rng):  # the oracle: (state, action, rng) -> (reward, next state)
    stock = min(shop.stock + order, 5)
    demand = rng.integers(6) if shop.day >= 5 else rng.integers(3)
    sold = min(stock, demand)
    # 0 to 1: at most 5 sold, at most 2 ordered
    reward = (sold - 0.4 * order + 0.8) / 5.8
    return reward, Shop(stock - sold, (shop.day + 1) % 7)


def shop_problem(simulator):
    return sc.MDP(
        simulator,
        num_actions=3,
        discount=0.3,
        operator=sc.Entropy(0.1),
        initial_state=Shop(0, 5),
        name="shop",
    )


# machine code: tens of millions of calls per second
problem = shop_problem(numba.njit(step))
# plain Python: the same answer to the last bit, some hundred times slower
plain = shop_problem(step)


def main():
    print(sc.explain(problem, epsilon="5%", delta=0.1), end="\n\n")
    estimate = sc.plan(problem, epsilon="5%", delta=0.1)
    low, high = estimate.interval
    print(
        f"value {estimate.value:.3f}, in [{low:.3f}, "
        f"{high:.3f}] with probability {1 - estimate.delta:g}"
    )
    print(
        f"order {estimate.action} (policy "
        f"{', '.join(f'{p:.2f}' for p in estimate.policy)}); "
        f"{estimate.num_calls:,} calls"
    )
    fast, slow = (sc.plan(p, epsilon="10%", delta=0.1) for p in (problem, plain))
    print(
        "compiled and plain Python agree to the last bit at 10%: "
        f"{fast.value == slow.value} ({slow.num_calls:,} calls)"
    )


if __name__ == "__main__":
    main()
