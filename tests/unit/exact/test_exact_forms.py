"""Both forms of the solver's loops, interpreted and compiled, give the same bits.

Law: a form changes the seconds of a solution and nothing else; and small problems are
solved without Numba.
"""

import subprocess
import sys

import numpy as np
import pytest
from exact_worlds import random_arrays

import smoothcruiser as sc
from smoothcruiser.exact.solver_clock import EXACT  # forces a form

OPERATORS = {
    "max": sc.Max(),
    "entropy": sc.Entropy(0.3),
    "KL": sc.KL(0.2, prior=(0.5, 0.3, 0.2)),
    "sparsemax": sc.Sparsemax(0.5),
    "square root": sc.SquareRoot(0.4),
}


def ring(size):
    """Moves around a ring with slips, and one state that pays: eliminations, flow."""
    moves = np.zeros((size, 2, size))
    for state in range(size):
        for action, step in enumerate((-1, 1)):
            moves[state, action, (state + step) % size] = 0.8
            moves[state, action, state] += 0.2
    return moves, np.repeat((np.arange(size) == 0.0)[:, None], 2, 1) * 1.0


def worlds():
    moves, rewards = random_arrays(12, 3, seed=5)[:2]
    sparse = (
        np.where(moves > np.median(moves), moves, 0.0) + np.eye(12)[:, None, :] * 0.1
    )
    sparse /= sparse.sum(axis=2, keepdims=True)
    end, players = np.arange(12) == 7, np.arange(12) % 2 + 1
    made = {
        f"{name}, {kind}": sc.tabular(
            table, rewards, discount=0.97, operator=operator, terminal=end
        )
        for name, operator in OPERATORS.items()
        for kind, table in (("dense", moves), ("sparse", sparse))
    }
    options = {"operator": sc.Max(), "terminal": end}
    made["game"] = sc.tabular(
        sparse, rewards, discount=0.9, operator=sc.Entropy(0.2), players=players
    )
    made["horizon"] = sc.tabular(sparse, rewards, discount=1.0, horizon=9, **options)
    made["discount 1"] = sc.tabular(sparse, -rewards, discount=1.0, **options)
    for size in (40, 2200):  # a dense solve; too large for one
        made[f"ring of {size}"] = sc.tabular(
            *ring(size), discount=0.999, operator=sc.Max()
        )
    return made


WORLDS = worlds()


@pytest.mark.compiles
@pytest.mark.parametrize("name", WORLDS)
def test_a_solution_has_the_same_bits_in_both_forms(name):
    answers = []
    for compiled in (False, True):
        with EXACT.use_form(compiled=compiled):
            answers.append(sc.solve(WORLDS[name]))
    interpreted, compiled = answers
    for part in ("values", "q_values", "policy"):
        first, second = getattr(interpreted, part), getattr(compiled, part)
        assert first.tobytes() == second.tobytes(), part
    assert interpreted.residual_bound == compiled.residual_bound
    assert interpreted.sweeps == compiled.sweeps
    assert interpreted.compile_seconds == 0.0


@pytest.mark.compiles  # it starts a process
def test_a_small_table_is_solved_without_numba():
    program = (
        "import sys, smoothcruiser as sc\n"
        "p = sc.tabular([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[-1, 0], [0, -2]],"
        " discount=0.97, operator=sc.Max())\n"
        "assert abs(sc.solve(p).values[0]) < 1e-9\n"
        "assert sc.plan(p, epsilon=0.1, delta=0.1).num_calls == 0\n"
        "assert 'numba' not in sys.modules, 'Numba was imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
