"""Certified search over states of several kinds, in plain Python and compiled.

The problem is that of examples/inventory.py (1,085 states, 4 actions), once with plain
tuples, once with NamedTuples and once with arrays of two numbers. The step is the same
function, plain or under ``numba.njit``; both make the same calls and return the same
bits. Printed are seconds of CPU without compiling, and their ratio.

    python -m benchmarks.certified.certified_states [--epsilon 0.1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

import smoothcruiser as sc
from smoothcruiser.certified.search import Certified


class Stock(NamedTuple):
    """What is on the two shelves."""

    a: int
    b: int


def as_tuple(a: int, b: int) -> Any:
    return (a, b)


def as_array(a: int, b: int) -> Any:
    return np.array([a, b])


def make_step(build: Callable[..., Any], compiled: bool) -> Any:
    """The step of examples/inventory.py over states that ``build`` makes."""
    wrap = numba.njit if compiled else lambda function: function
    new = build if build is Stock else wrap(build)

    @wrap
    def customers(u):
        if u < 0.15:
            return 0
        if u < 0.5:
            return 1
        return 3 if u < 0.8 else 6

    @wrap
    def shelf(stock, capacity, more, wanted, margin):
        stock = min(stock + more, capacity)
        sold = min(stock, wanted)
        return stock - sold, margin * sold - 0.02 * (stock - sold)

    @wrap
    def step(state, action, rng):
        more_a = 10 if action == 1 else (5 if action == 3 else 0)
        more_b = 10 if action == 2 else (5 if action == 3 else 0)
        wanted_a, wanted_b = customers(rng.random()), customers(rng.random())
        a, paid_a = shelf(state[0], 34, more_a, wanted_a, 1.0)
        b, paid_b = shelf(state[1], 30, more_b, wanted_b, 1.5)
        profit = paid_a + paid_b - (0.8 if action > 0 else 0.0)
        worst, best = -64 * 0.02 - 0.8, 15.0
        return min(1.0, max(0.0, (profit - worst) / (best - worst))), new(a, b)

    return step


KINDS: dict[str, tuple[Callable[..., Any], Any]] = {
    "tuple": (as_tuple, (10, 10)),
    "NamedTuple": (Stock, Stock(10, 10)),
    "array": (as_array, np.array([10, 10])),
}


def searched(kind: str, compiled: bool, epsilon: float) -> tuple[Any, float]:
    """The answer at the first state, and the seconds of CPU without compiling."""
    build, state = KINDS[kind]
    problem = sc.MDP(
        make_step(build, compiled),
        num_actions=4,
        discount=0.9,
        operator=sc.Entropy(0.05),
        initial_state=state,
    )
    memory = Certified(problem, delta=0.05)
    memory.query(budget=100)  # compiles
    begin = time.process_time()
    found = memory.query(epsilon=epsilon * problem.facts.value_span())
    return found, time.process_time() - begin


def main() -> None:
    """Print one line per kind of state."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=0.1, help="of the value span")
    epsilon = parser.parse_args().epsilon
    print(f"{'states':<12}{'calls':>12}{'plain s':>10}{'compiled s':>12}{'ratio':>8}")
    for kind in KINDS:
        plain, slow = searched(kind, False, epsilon)
        quick, fast = searched(kind, True, epsilon)
        same = plain.interval == quick.interval and plain.num_calls == quick.num_calls
        print(
            f"{kind:<12}{quick.num_calls:>12,}{slow:>10.2f}{fast:>12.2f}"
            f"{slow / fast:>8.1f}  {'same bits' if same else 'OTHER BITS'}"
        )


if __name__ == "__main__":
    main()
