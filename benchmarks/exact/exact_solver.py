"""The exact solver against QuantEcon's DiscreteDP and mdpsolver.

CPU seconds and ratios on problems of 1,000 states and more, with the Max operator.

All are asked for max |V - V*| <= 1e-8: QuantEcon's epsilon is twice that, because its
bound is epsilon/2, and so is mdpsolver's tolerance for Gauss-Seidel; for standard
updates its bound is the tolerance. All are timed after compilation, best of five
rounds, interleaved in one run; building the problem is not timed. "First" is a solve of new
tables, where smoothcruiser also reads them and looks for an order of the states; later
solves of the same tables find both.

The figures are CPU time, since machines are busy; wall time is beside it. The fastest
method of each rival counts. One whose second run too took more than ``PATIENCE`` is run
no more.
mdpsolver begins every run at zero values, and is counted with one thread. With its own
choice of threads (``parallel``, its default: one per core) it is shown below the table,
run once, for up to 1,000 states. A ratio above 1 means that smoothcruiser is faster.

    python -m benchmarks.exact.exact_solver               prints the table
    python -m benchmarks.exact.exact_solver --quick       without the 100,000 states
    python -m benchmarks.exact.exact_solver --out FILE    writes it, signed

mdpsolver is optional (pip install mdpsolver): without it, its columns say so.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks.timing import load, signed
from quantecon.markov import DiscreteDP

import smoothcruiser.exact as exact
from smoothcruiser.operators import Entropy, Max
from smoothcruiser.problem.model.tabular import tabular

TOLERANCE = 1e-8
ROUNDS = 5
# seconds of CPU; a rival's method that needed more in two runs is not run again
PATIENCE = 0.3
# In a round, a short run is repeated, so that a busy moment spoils no figure.
REPEATS, ENOUGH = 10, 0.03
OURS, FIRST = "smoothcruiser", "first"

# name, states, actions, successors (None: all), discount, grid-like neighbours
# instead of random ones
CASES: list[tuple[str, int, int, int | None, float, bool]] = [
    ("random sparse", 1_000, 4, 5, 0.95, False),
    ("random sparse", 1_000, 4, 5, 0.999, False),
    ("random dense", 1_000, 4, None, 0.95, False),
    ("ring, local moves", 1_000, 4, 5, 0.99, True),
    ("ring, local moves", 1_000, 4, 5, 0.999, True),
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


def shuffled(P: Any, R: Any, seed: int = 1) -> tuple[Any, Any]:
    """The same model with its states in random order."""
    states, actions = R.shape
    old = np.random.default_rng(seed).permutation(states)
    mixed = P[(old[:, None] * actions + np.arange(actions)).ravel()].tocsr()
    mixed.indices = np.argsort(old)[mixed.indices].astype(mixed.indices.dtype)
    mixed.sort_indices()
    return mixed, R[old]


# --- the runs -----------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """Seconds of one run."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu * 1e3:.2f} ({self.wall * 1e3:.2f})"


def quickest(run: Callable[[], Any], most: int) -> Taken:
    """The best of ``most`` runs, or of fewer that last ``ENOUGH`` together."""
    found, end = [], time.process_time() + ENOUGH
    while len(found) < most and (not found or time.process_time() < end):
        found.append(timed(run)[0])
    return Taken(min(x.cpu for x in found), min(x.wall for x in found))


def timed(run: Callable[[], Any]) -> tuple[Taken, Any]:
    cpu, wall = time.process_time(), time.perf_counter()
    result = run()
    return Taken(time.process_time() - cpu, time.perf_counter() - wall), result


def quantecon(P: Any, R: Any, discount: float) -> dict[str, Callable[[], Any]]:
    """Runs that return the values, by method."""
    states, actions = R.shape
    if sp.issparse(P):
        each = (
            np.repeat(np.arange(states), actions),
            np.tile(np.arange(actions), states),
        )
        model = DiscreteDP(R.ravel(), P, discount, *each)
    else:
        model = DiscreteDP(R, P, discount)
    methods = ["modified_policy_iteration", "value_iteration"]
    if states <= 1_000:
        methods.append("policy_iteration")

    def run(method: str) -> Any:
        return model.solve(method, epsilon=2.0 * TOLERANCE, max_iter=10**6).v

    return {method: lambda method=method: run(method) for method in methods}


def mdpsolver(P: Any, R: Any, discount: float) -> dict[str, Callable[[], Any]]:
    """Runs that return the values, by method; none where it is not installed."""
    if importlib.util.find_spec("mdpsolver") is None:
        return {}
    import mdpsolver as solver

    states, actions = R.shape
    model = solver.model()
    if sp.issparse(P):
        parts = [np.split(x, P.indptr[1:-1]) for x in (P.data, P.indices)]
        prob, column = (
            [
                [x[s * actions + a].tolist() for a in range(actions)]
                for s in range(states)
            ]
            for x in parts
        )
        tables = {"tranMatProbs": prob, "tranMatColumns": column}
    else:
        tables = {"tranMatWithZeros": P.tolist()}
    model.mdp(discount=discount, rewards=R.tolist(), **tables)
    values, policy = [0.0] * states, [0] * states  # else it goes on where it ended

    def run(algorithm: str, update: str, parallel: bool) -> Any:
        model.solve(
            algorithm=algorithm,
            update=update,
            tolerance=TOLERANCE * (2.0 if update == "gs" else 1.0),
            initValueVector=values,
            initPolicy=policy,
            parallel=parallel,
        )
        return np.array(model.getValueVector())

    runs = {
        "mpi": lambda: run("mpi", "standard", False),
        "mpi, Gauss-Seidel": lambda: run("mpi", "gs", False),
        "pi": lambda: run("pi", "standard", False),
    }
    if states <= 1_000:
        runs["mpi, parallel"] = lambda: run("mpi", "standard", True)
    return runs


def measured(
    runs: dict[str, Callable[[], Any]],
) -> tuple[dict[str, Taken], set[str], dict[str, Any]]:
    """(best seconds, those run only once, results) of each run."""
    best: dict[str, Taken] = {}
    results: dict[str, Any] = {}
    for label, run in runs.items():
        best[label], results[label] = timed(run)
        if (
            best[label].cpu > PATIENCE
        ):  # compiling takes about as long, and is not timed
            best[label], results[label] = timed(run)
    slow = {x for x in runs if best[x].cpu > PATIENCE or x.endswith("parallel")}
    once = slow - {OURS, FIRST}
    again = {x: run for x, run in runs.items() if x not in once}
    rounds: dict[str, list[Taken]] = {label: [] for label in again}
    for _ in range(ROUNDS):
        for label, run in again.items():
            rounds[label].append(quickest(run, 1 if label == FIRST else REPEATS))
    for label, found in rounds.items():
        best[label] = Taken(min(x.cpu for x in found), min(x.wall for x in found))
    return best, once, results


def compare(name: str, P: Any, R: Any, discount: float) -> list[str]:
    """One row of the table, and a line with all figures."""
    ours = tabular(P, R, discount=discount, operator=Max())
    fresh = [
        tabular(P, R, discount=discount, operator=Max()) for _ in range(ROUNDS + 1)
    ]
    rivals = {
        "QuantEcon": quantecon(P, R, discount),
        "mdpsolver": mdpsolver(P, R, discount),
    }
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: exact.solve(ours, tolerance=TOLERANCE).values,
        FIRST: lambda: exact.solve(fresh.pop(), tolerance=TOLERANCE).values,
    }
    for rival, methods in rivals.items():
        runs |= {f"{rival} {method}": run for method, run in methods.items()}
    best, once, results = measured(runs)
    cells, mine = [], best[OURS].cpu
    for rival, methods in rivals.items():
        serial = [f"{rival} {x}" for x in methods if "parallel" not in x]
        if not serial:
            cells += ["not installed", ""]
            continue
        fastest = min(serial, key=lambda x: best[x].cpu)
        apart = float(np.max(np.abs(results[OURS] - results[fastest])))
        cells += [
            f"{best[fastest]} {fastest.removeprefix(rival + ' ')}",
            f"{best[fastest].cpu / mine:.2f}, {apart:.0e}",
        ]
    size = f"{R.shape[0]:,}"
    row = f"| {name} | {size} | {discount} | {best[OURS]} | {best[FIRST].cpu * 1e3:.2f} |"
    figures = "; ".join(
        f"{x} {found}{' once' if x in once else ''}" for x, found in best.items()
    )
    return [f"{row} {' | '.join(cells)} |", f"{name}, {size}, {discount}: {figures}"]


def cases(quick: bool) -> list[tuple[str, Any, Any, float]]:
    """(name, P, R, discount)."""
    found = []
    for name, states, actions, successors, discount, local in CASES:
        if not (quick and states > 10_000):
            made = model(states, actions, successors, local)
            found.append((name, *made, discount))
    ring = model(10_000, 4, 5, True)
    found.append(("ring, shuffled", *shuffled(*ring), 0.99))
    for side, discount in GRIDS:
        found.append((f"grid, {side} x {side}", *grid(side), discount))
    return found


def entropy_case() -> list[str]:
    """The case that issue 2 names: 100,000 states, 4 actions, 5 successors.

    Its discount is 0.95 and its accuracy 1e-8; it runs with entropy, too.
    """
    P, R = model(100_000, 4, 5, False)
    lines = []
    for operator in (Max(), Entropy(0.1)):
        problem = tabular(P, R, discount=0.95, operator=operator)
        found = [
            timed(lambda p=problem: exact.solve(p, tolerance=TOLERANCE))
            for _ in range(5)
        ]
        taken, solution = min(found, key=lambda x: x[0].cpu)
        lines.append(
            f"100,000 states, {operator}: {taken} ms, {solution.sweeps} sweeps, proven to "
            f"{solution.residual_bound:.1e}"
        )
    return lines


COLUMNS = (
    *("model", "states", "discount", "smoothcruiser", "first", "QuantEcon"),
    *("ratio, difference", "mdpsolver, one thread", "ratio, difference"),
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="without 100,000 states")
    parser.add_argument("--out", type=Path, help="where to write the table, signed")
    options = parser.parse_args()
    machine = signed()
    print(HEAD)
    rows, figures = [], []
    for case in cases(options.quick):
        row, line = compare(*case)
        print(row, flush=True)
        rows.append(row)
        figures.append(line)
    figures += [] if options.quick else entropy_case()
    print("\n".join(["", *figures]))
    if options.out is not None:
        text = __doc__ or ""
        page = [
            *("# The exact solver against QuantEcon and mdpsolver", ""),
            *(f"`python -m benchmarks.exact.exact_solver --out {options.out}`", ""),
            *(f"{machine} Load when it ended: {load()}.", ""),
            *("Milliseconds of CPU, and of wall time in brackets.", ""),
            *(text.split("\n\n", 2)[2].split("    python")[0].strip(), ""),
            *(HEAD, *rows, "", "All figures:", "", "```text", *figures, "```"),
        ]
        options.out.write_text("\n".join(page) + "\n")


if __name__ == "__main__":
    main()
