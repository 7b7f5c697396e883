"""The exact solver against QuantEcon's DiscreteDP.

Seconds and ratios on problems of 1,000 states and more, with the Max operator.

Both prove max |V - V*| <= 1e-8: QuantEcon's epsilon is twice that, because its
bound is epsilon/2. Both are timed after compilation, best of five, interleaved
in one run; building the problem is not timed. QuantEcon runs each of its
iterative methods where it ends within the time set here, and the fastest
counts ("best"). A ratio above 1 means that smoothcruiser is faster.

    python benchmarks/exact_solver.py            prints the table
    python benchmarks/exact_solver.py --quick    without the 100,000 states
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from quantecon.markov import DiscreteDP

import smoothcruiser.exact as exact
from smoothcruiser.operators import Entropy, Max
from smoothcruiser.problem.tabular import tabular

TOLERANCE = 1e-8
ROUNDS = 5
# seconds; a QuantEcon method that needed more in its first run is left out, and so
# named
PATIENCE = 10.0

# name, states, actions, successors (None: all), discount, grid-like neighbours
# instead of random ones
CASES: list[tuple[str, int, int, int | None, float, bool]] = [
    ("random sparse", 1_000, 4, 5, 0.95, False),
    ("random sparse", 1_000, 4, 5, 0.999, False),
    ("random dense", 1_000, 4, None, 0.95, False),
    ("ring, local moves", 1_000, 4, 5, 0.99, True),
    ("random sparse", 10_000, 4, 5, 0.95, False),
    ("ring, local moves", 10_000, 4, 5, 0.99, True),
    ("random sparse", 100_000, 4, 5, 0.95, False),
]
# sides and discounts of grids with four moves, which slip, and a reward in one corner
GRIDS = [(50, 0.99), (100, 0.99), (100, 0.999)]


def model(
    states: int, actions: int, successors: int | None, local: bool, seed: int = 0
) -> tuple[Any, Any]:
    """P as CSR (S*A, S), or dense (S, A, S) without ``successors``; and R (S, A).

    With ``local`` next states lie within 10 of the state.
    """
    rng = np.random.default_rng(seed)
    rewards = rng.random((states, actions))
    if successors is None:
        dense = rng.random((states, actions, states))
        return dense / dense.sum(axis=2, keepdims=True), rewards
    rows = states * actions
    if local:
        home = np.repeat(np.arange(states), actions)[:, None]
        index = (home + rng.integers(-10, 11, size=(rows, successors))) % states
        # sparse rewards: values have to travel
        rewards = rewards * (np.arange(states) < 10)[:, None]
    else:
        index = rng.integers(0, states, size=(rows, successors))
    prob = rng.dirichlet(np.ones(successors), size=rows)
    sparse = sp.csr_matrix(
        (prob.ravel(), index.ravel(), np.arange(0, rows * successors + 1, successors)),
        shape=(rows, states),
    )
    sparse.sum_duplicates()
    return sparse, rewards


def grid(side: int, seed: int = 0) -> tuple[Any, Any]:
    """P and R of a grid: a move goes where it should with probability 0.85."""
    states = side * side
    at = np.arange(states)
    ways = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    after = np.stack(
        [
            np.clip(at // side + y, 0, side - 1) * side
            + np.clip(at % side + x, 0, side - 1)
            for y, x in ways
        ],
        axis=1,
    )
    index = np.repeat(after[:, None, :], 4, axis=1)
    prob = np.broadcast_to(np.where(np.eye(4) > 0, 0.85, 0.05), index.shape)
    rows = 4 * states
    sparse = sp.csr_matrix(
        (prob.ravel(), index.ravel(), np.arange(0, 4 * rows + 1, 4)), (rows, states)
    )
    sparse.sum_duplicates()
    rewards = 0.01 * np.random.default_rng(seed).random((states, 4))
    rewards[-1] += 1.0
    return sparse, rewards


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = run()
    return time.perf_counter() - begin, result


def quantecon(P: Any, R: Any, discount: float) -> DiscreteDP:
    if not sp.issparse(P):
        return DiscreteDP(R, P, discount)
    states, actions = R.shape
    return DiscreteDP(
        R.ravel(),
        P,
        discount,
        np.repeat(np.arange(states), actions),
        np.tile(np.arange(actions), states),
    )


def compare(
    name: str,
    states: int,
    actions: int,
    successors: int | None,
    discount: float,
    local: bool,
    tables: tuple[Any, Any] | None = None,
) -> None:
    P, R = tables or model(states, actions, successors, local)
    ours = tabular(P, R, discount=discount, operator=Max())
    theirs = quantecon(P, R, discount)
    methods = ["value_iteration", "modified_policy_iteration"] + (
        ["policy_iteration"] if states <= 1_000 else []
    )
    runs: dict[str, Callable[[], Any]] = {
        "smoothcruiser": lambda: exact.solve(ours, tolerance=TOLERANCE)
    }
    for method in methods:
        runs[method] = lambda method=method: theirs.solve(
            method, epsilon=2.0 * TOLERANCE, max_iter=10**6
        )
    times: dict[str, list[float]] = {}
    for label, run in list(runs.items()):  # the first run compiles and is not counted
        seconds, _ = timed(run)
        times[label] = []
        if seconds > PATIENCE and label != "smoothcruiser":
            del runs[label]
    results: dict[str, Any] = {}
    for _ in range(ROUNDS):
        for label, run in runs.items():
            seconds, results[label] = timed(run)
            times[label].append(seconds)
    best = {label: min(found) for label, found in times.items() if found}
    mine = best.pop("smoothcruiser")
    rival = min(best, key=lambda label: best[label])
    apart = float(np.max(np.abs(results["smoothcruiser"].values - results[rival].v)))
    others = ", ".join(
        f"{label} {seconds * 1e3:.1f} ms" for label, seconds in best.items()
    )
    width = "all" if successors is None else str(successors)
    print(
        f"{name:18} S={states:<7} A={actions} successors={width:3} "
        f"discount={discount:<5}  smoothcruiser {mine * 1e3:8.2f} ms  ratio "
        f"{best[rival] / mine:6.2f}  (QuantEcon: {others}; values differ by "
        f"{apart:.1e})",
        flush=True,
    )


def entropy_case() -> None:
    """The case that issue 2 names: 100,000 states, 4 actions, 5 successors.

    Its discount is 0.95 and its accuracy 1e-8; it runs with entropy, too.
    """
    P, R = model(100_000, 4, 5, False)
    for operator in (Max(), Entropy(0.1)):
        problem = tabular(P, R, discount=0.95, operator=operator)
        best = min(
            (exact.solve(problem, tolerance=TOLERANCE) for _ in range(ROUNDS)),
            key=lambda found: found.seconds,
        )
        print(
            f"100,000 states, {operator}: {best.seconds:.2f} s, "
            f"{best.sweeps} sweeps, proven to {best.residual_bound:.1e}"
        )


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    for case in CASES:
        if not (quick and case[1] > 10_000):
            compare(*case)
    for side, discount in GRIDS:
        compare("grid", side * side, 4, 4, discount, True, grid(side))
    if not quick:
        entropy_case()
