"""Both forms of the solver's loops, interpreted and compiled, give the same bits.

Law: a form changes the seconds of a solution and nothing else; and small problems are
solved without Numba.
"""

import subprocess
import sys

import numpy as np
import pytest
from exact_worlds import OPERATORS, random_arrays, walk

import smoothcruiser as sc
from smoothcruiser.exact.model import EXACT  # forces a form


def worlds():
    moves, rewards = random_arrays(12, 3, seed=5)
    sparse = np.where(moves > np.median(moves), moves, 0.0)
    sparse += np.eye(12)[:, None, :] * 0.1
    sparse /= sparse.sum(axis=2, keepdims=True)
    end, players = np.arange(12) == 7, np.arange(12) % 2 + 1
    problems = {
        f"{operator}, {kind}": sc.tabular(
            table, rewards, discount=0.97, operator=operator, terminal=end
        )
        for operator in OPERATORS
        for kind, table in (("dense", moves), ("sparse", sparse))
    }
    options = {"operator": sc.Max(), "terminal": end}
    problems["game"] = sc.tabular(
        sparse, rewards, discount=0.9, operator=sc.Entropy(0.2), players=players
    )
    problems["horizon"] = sc.tabular(sparse, rewards, discount=1, horizon=9, **options)
    problems["discount 1"] = sc.tabular(sparse, -rewards, discount=1.0, **options)
    for size in (40, 2200):  # a dense solve; too large for one
        problems[f"ring of {size}"] = slow_ring(size).problem()
    return problems


def slow_ring(size):
    """Moves around a ring, and one state that pays: eliminations, flow."""
    at = np.arange(size)
    rewards = np.repeat((at == 0.0)[:, None], 2, 1)
    return walk(np.stack([(at - 1) % size, (at + 1) % size], axis=1), rewards, 0.999)


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
