"""Tabular problems: dense equals sparse, alias tables reproduce P exactly, rows
are normalized, bad arrays are refused with a remedy.
"""

import copy
import math

import numpy as np
import pytest
import scipy.sparse as sp
from worlds import given_streams

import smoothcruiser as sc

P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
R = np.array([[0.0, 1.0], [0.5, 0.2]])
COMMON = {"discount": 0.5, "operator": sc.Entropy(1.0)}


def tables(P, R=R, **more):
    return sc.tabular(P, R, **COMMON, **more).tables


def same(first, second):
    names = ("start", "next_state", "prob", "reward", "player", "terminal", "legal")
    return all(np.array_equal(getattr(first, x), getattr(second, x)) for x in names)


# --- reading arrays -----------------------------------------------------------


def test_rows_by_hand():
    dense = tables(P)
    assert dense.start.tolist() == [0, 2, 3, 4, 6]
    assert dense.next_state.tolist() == [0, 1, 1, 0, 0, 1]
    assert dense.prob.tolist() == [0.5, 0.5, 1.0, 1.0, 0.25, 0.75]
    assert dense.reward.tolist() == [0.0, 0.0, 1.0, 0.5, 0.2, 0.2]
    assert (dense.num_states, dense.num_actions) == (2, 2)
    assert dense.outcomes(1, 1) == [(0.25, 0.2, 0), (0.75, 0.2, 1)]
    for kind in (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_matrix):
        assert same(dense, tables(kind(P.reshape(4, 2))))


def test_rewards_by_pair_by_arrival_and_by_nonzero():
    arrival = np.arange(8.0).reshape(2, 2, 2) / 8.0
    dense = tables(P, arrival)
    assert dense.reward.tolist() == [0.0, 0.125, 0.375, 0.5, 0.75, 0.875]
    csr = sp.csr_matrix(P.reshape(4, 2))
    assert same(dense, tables(csr, dense.reward))
    assert same(dense, tables(csr, sp.csr_matrix(arrival.reshape(4, 2))))


def test_rows_are_normalized():
    """Thirds in float32 sum to 1 + 3e-8: accepted, and divided by their sum."""
    third = np.full((3, 1, 3), 1.0 / 3.0, dtype=np.float32)
    assert float(third[0].astype(float).sum()) != 1.0
    rows = tables(third, np.zeros((3, 1))).prob.reshape(3, 3)
    assert rows.sum(axis=1) == pytest.approx(1.0, abs=3e-16)


def test_a_problem_does_not_change_with_the_arrays_it_was_made_of():
    csr, rewards = sp.csr_matrix(P.reshape(4, 2)), np.arange(6.0) / 6.0
    players, legal = np.array([1, 2], dtype=np.int8), np.ones((2, 2), dtype=bool)
    model = tables(csr, rewards, players=players, legal=legal)
    for array in (rewards, players, legal, csr.data):
        array[...] = 0
    assert model.reward.tolist() == (np.arange(6.0) / 6.0).tolist()
    assert model.player.tolist() == [1, 2]
    assert model.legal.all()
    assert model.prob.tolist() == [0.5, 0.5, 1.0, 1.0, 0.25, 0.75]


def test_reward_ranges():
    """The default where it holds all rewards; what cannot be paid does not count."""
    illegal = np.array([[0.0, 99.0], [0.5, 0.2]])
    masked = {"legal": [[True, False], [True, True]]}
    for rewards, more, expected in (
        (R, {}, (0.0, 1.0)),
        (3.0 * R - 1.0, {}, (-1.0, 2.0)),
        (R, {"reward_range": (-1.0, 4.0)}, (-1.0, 4.0)),
        (illegal, masked, (0.0, 1.0)),
    ):
        problem = sc.tabular(P, rewards, **more, **COMMON)
        assert problem.reward_range == pytest.approx(expected)


@pytest.mark.parametrize("numbered", [1, 2])
def test_a_terminal_state_is_nobodys_turn(numbered):
    """0 -> 1 -> 0 or the end: turns alternate, whichever player the end is
    numbered with.
    """
    rows = np.zeros((3, 1, 3))
    rows[0, 0, 1] = rows[2, 0, 2] = 1.0
    rows[1, 0, 0] = rows[1, 0, 2] = 0.5
    turns = {"players": [1, 2, numbered], "alternating": True, **COMMON}
    ends = [False, False, True]
    assert sc.tabular(rows, np.zeros((3, 1)), terminal=ends, **turns).facts.alternating


def test_masks():
    problem = sc.tabular(P, R, legal=[[1, 0], [1, 1]], terminal=[0, 1], **COMMON)
    assert problem.legal_actions(0) == [0]
    assert problem.is_terminal(1)
    assert problem.facts.min_actions == 1  # of the states that are not terminal
    assert problem.facts.terminals
    assert sc.tabular(P, R, legal=np.ones((2, 2), bool), **COMMON).legal is None
    broken, rewards = P.copy(), R.copy()  # rows that cannot be used hold anything
    broken[1], rewards[1] = 0.0, math.nan
    assert tables(broken, rewards, terminal=[False, True]) is not None


# --- alias sampling -----------------------------------------------------------


def alias_probabilities(model):
    """P(slot j) = (accept_j + sum over slots that fall to j of 1 - accept)/n,
    row by row.
    """
    accept, alias = model.alias_form
    chances = np.zeros(len(model.prob))
    for low, high in zip(model.start[:-1], model.start[1:], strict=True):
        for i in range(low, high):
            assert low <= alias[i] < high
            assert 0.0 <= accept[i] <= 1.0
            chances[i] += accept[i] / (high - low)
            chances[alias[i]] += (1.0 - accept[i]) / (high - low)
    return chances


@pytest.mark.compiles
@pytest.mark.parametrize("concentration", [0.05, 1.0, 100.0])
def test_alias_tables_reproduce_the_probabilities(concentration):
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(30, concentration), size=(30, 2))
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[..., 0] += 1e-3
    rows /= rows.sum(axis=2, keepdims=True)
    model = tables(rows, np.zeros((30, 2)))
    assert alias_probabilities(model) == pytest.approx(model.prob, abs=1e-15)


@pytest.mark.compiles
def test_alias_tables_of_halves_are_exact():
    """Dyadic probabilities leave no rounding at all."""
    rows = np.zeros((4, 1, 4))
    rows[:, 0] = [0.5, 0.25, 0.125, 0.125]
    model = tables(rows, np.zeros((4, 1)))
    assert alias_probabilities(model).tolist() == model.prob.tolist()


@pytest.mark.compiles
def test_a_single_successor_consumes_no_randomness():
    problem = sc.tabular(P, R, **COMMON)
    (rng,) = given_streams(1)
    twin = copy.deepcopy(rng)
    assert problem.oracle(0, 1, rng) == (1.0, 1)
    assert rng.raw() == twin.raw()
    problem.oracle(0, 0, rng)
    twin.random()
    assert rng.raw() == twin.raw()  # two successors: exactly one uniform


# --- bad input ----------------------------------------------------------------


BAD = [  # tests/unit/test_api_bad_input.py has the others
    ({"P": [["a"]]}, "P must be an array of numbers"),
    ({"P": P - 0.5}, "negative or undefined"),
    ({"P": sp.csr_matrix(np.ones((3, 2)))}, r"\(S\*A, S\), got \(3, 2\)"),
    ({"R": "x"}, "R must be an array of numbers"),
    ({"R": np.where(R == 0.5, np.inf, R)}, "R must be finite"),
    ({"R": sp.csr_matrix(np.ones((3, 2)))}, r"sparse R.*got \(3, 2\)"),
    ({"players": [1]}, r"shape \(2,\)"),
    ({"alternating": True}, "needs players="),
    ({"reward_range": (0.0, 0.5)}, "which go from 0 to 1; widen or drop it"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=range(len(BAD)))
def test_bad_arrays_are_refused_with_a_remedy(changes, message):
    arguments = {"P": P, "R": R, **COMMON, **changes}
    with pytest.raises(sc.InvalidInput, match=message):
        sc.tabular(**arguments)


@pytest.mark.parametrize("state", [-1, 2, 0.5, True])
def test_states_that_do_not_exist_are_refused(state):
    problem = sc.tabular(P, R, initial_state=1, **COMMON)
    assert problem.start(None) == 1
    with pytest.raises(sc.InvalidInput, match="from 0 to 1") as caught:
        problem.start(state)
    assert repr(state) in str(caught.value)
    assert problem.start(np.int64(0)) == 0
