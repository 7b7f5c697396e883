"""Tabular problems: dense equals sparse, alias tables reproduce P exactly, rows
are normalized, bad arrays are refused with a remedy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import Entropy, Max
from smoothcruiser.problem.model.tabular import Tables, fill_alias, tabular
from smoothcruiser.problem.problem import MDP, Game

P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
R = np.array([[0.0, 1.0], [0.5, 0.2]])
COMMON: dict[str, Any] = {"discount": 0.5, "operator": Entropy(1.0)}


def tables_of(problem: Any) -> Tables:
    found: Tables = problem.tables
    return found


def same(first: Tables, second: Tables) -> bool:
    names = ("start", "next_state", "prob", "reward", "player", "terminal", "legal")
    return all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in names
    )


# --- reading arrays -----------------------------------------------------------


def test_rows_by_hand() -> None:
    tables = tables_of(tabular(P, R, **COMMON))
    assert tables.start.tolist() == [0, 2, 3, 4, 6]
    assert tables.next_state.tolist() == [0, 1, 1, 0, 0, 1]
    assert tables.prob.tolist() == [0.5, 0.5, 1.0, 1.0, 0.25, 0.75]
    assert tables.reward.tolist() == [0.0, 0.0, 1.0, 0.5, 0.2, 0.2]
    assert (tables.num_states, tables.num_actions) == (2, 2)
    assert tables.outcomes(1, 1) == [(0.25, 0.2, 0), (0.75, 0.2, 1)]


@pytest.mark.parametrize(
    "kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_matrix]
)
def test_dense_and_sparse_give_the_same_tables(kind: Any) -> None:
    dense = tables_of(tabular(P, R, **COMMON))
    assert same(dense, tables_of(tabular(kind(P.reshape(4, 2)), R, **COMMON)))


def test_rewards_by_pair_by_arrival_and_by_nonzero() -> None:
    arrival = np.arange(8.0).reshape(2, 2, 2) / 8.0
    dense = tables_of(tabular(P, arrival, **COMMON))
    assert dense.reward.tolist() == [0.0, 0.125, 0.375, 0.5, 0.75, 0.875]
    csr = sp.csr_matrix(P.reshape(4, 2))
    assert same(dense, tables_of(tabular(csr, dense.reward, **COMMON)))
    assert same(
        dense, tables_of(tabular(csr, sp.csr_matrix(arrival.reshape(4, 2)), **COMMON))
    )


def test_rows_are_normalized() -> None:
    """Thirds in float32 sum to 1 + 3e-8: accepted, and divided by their sum."""
    third = np.full((3, 1, 3), 1.0 / 3.0, dtype=np.float32)
    assert float(third[0].astype(float).sum()) != 1.0
    tables = tables_of(tabular(third, np.zeros((3, 1)), **COMMON))
    assert tables.prob.reshape(3, 3).sum(axis=1) == pytest.approx(1.0, abs=3e-16)


def test_a_problem_does_not_change_with_the_arrays_it_was_made_of() -> None:
    P2, csr = P.copy(), sp.csr_matrix(P.reshape(4, 2))
    rewards, players, legal = (
        np.arange(6.0) / 6.0,
        np.array([1, 2], dtype=np.int8),
        np.ones((2, 2), dtype=bool),
    )
    problem = tabular(csr, rewards, players=players, legal=legal, **COMMON)
    before = tables_of(
        tabular(P2.reshape(2, 2, 2), np.zeros((2, 2)), **COMMON)
    ).prob.copy()
    for array in (rewards, players, legal, csr.data):
        array[...] = 0
    assert tables_of(problem).reward.tolist() == (np.arange(6.0) / 6.0).tolist()
    assert tables_of(problem).player.tolist() == [1, 2]
    assert tables_of(problem).legal.all()
    assert np.array_equal(tables_of(problem).prob, before)


def test_reward_ranges() -> None:
    # the default where it holds all rewards
    assert tabular(P, R, **COMMON).reward_range == (0.0, 1.0)
    assert tabular(P, 3.0 * R - 1.0, **COMMON).reward_range == pytest.approx(
        (-1.0, 2.0)
    )
    assert tabular(P, R, reward_range=(-1.0, 4.0), **COMMON).reward_range == (
        -1.0,
        4.0,
    )
    illegal = np.array([[0.0, 99.0], [0.5, 0.2]])  # what cannot be paid does not count
    assert tabular(
        P, illegal, legal=[[True, False], [True, True]], **COMMON
    ).reward_range == (0.0, 1.0)


def test_kinds_of_problem() -> None:
    assert isinstance(tabular(P, R, **COMMON), MDP)
    game = tabular(P, R, players=[1, 2], **COMMON)
    assert isinstance(game, Game)
    assert (game.mover(0), game.mover(1)) == (1, 2)
    swap = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    assert tabular(
        swap, [[0.0], [0.0]], players=[1, 2], alternating=True, **COMMON
    ).facts.alternating


@pytest.mark.parametrize("numbered", [1, 2])
def test_a_terminal_state_is_nobodys_turn(numbered: int) -> None:
    """0 -> 1 -> 0 or the end: turns alternate, whichever player the end is
    numbered with.
    """
    rows = np.zeros((3, 1, 3))
    rows[0, 0, 1] = rows[2, 0, 2] = 1.0
    rows[1, 0, 0] = rows[1, 0, 2] = 0.5
    game = tabular(
        rows,
        np.zeros((3, 1)),
        players=[1, 2, numbered],
        terminal=[False, False, True],
        alternating=True,
        **COMMON,
    )
    assert game.facts.alternating
    with pytest.raises(
        InvalidInput, match="state 1 can lead to a state of the same player"
    ):
        tabular(rows, np.zeros((3, 1)), players=[1, 2, 2], alternating=True, **COMMON)


def test_masks() -> None:
    problem = tabular(P, R, legal=[[1, 0], [1, 1]], terminal=[0, 1], **COMMON)
    assert problem.legal_actions(0) == [0]
    assert problem.is_terminal(1)
    assert problem.facts.min_actions == 1  # of the states that are not terminal
    assert problem.facts.terminals
    assert tabular(P, R, legal=np.ones((2, 2), dtype=bool), **COMMON).legal is None


def test_rows_that_cannot_be_used_may_hold_anything() -> None:
    broken, rewards = P.copy(), R.copy()
    broken[1] = 0.0
    rewards[1] = math.nan
    assert (
        tabular(broken, rewards, terminal=[False, True], **COMMON).tables is not None
    )


# --- alias sampling -----------------------------------------------------------


def alias_probabilities(tables: Tables) -> np.ndarray:
    """P(slot j) = (accept_j + sum over slots that fall to j of 1 - accept)/n,
    row by row.
    """
    accept, alias = tables.alias_form
    found = np.zeros(len(tables.prob))
    for row in range(len(tables.start) - 1):
        low, high = int(tables.start[row]), int(tables.start[row + 1])
        for i in range(low, high):
            assert low <= alias[i] < high
            assert 0.0 <= accept[i] <= 1.0
            found[i] += accept[i] / (high - low)
            found[alias[i]] += (1.0 - accept[i]) / (high - low)
    return found


@pytest.mark.compiles
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("concentration", [0.05, 1.0, 100.0])
def test_alias_tables_reproduce_the_probabilities(
    seed: int, concentration: float
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(30, concentration), size=(30, 2))
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[..., 0] += 1e-3
    rows /= rows.sum(axis=2, keepdims=True)
    tables = tables_of(tabular(rows, np.zeros((30, 2)), **COMMON))
    assert alias_probabilities(tables) == pytest.approx(tables.prob, abs=1e-15)


@pytest.mark.compiles
def test_alias_tables_of_halves_are_exact() -> None:
    """Dyadic probabilities leave no rounding at all."""
    start, prob = np.array([0, 4, 5]), np.array([0.5, 0.25, 0.125, 0.125, 1.0])
    tables = Tables(
        start,
        np.zeros(5, dtype=np.int64),
        prob,
        np.zeros(5),
        np.ones(1, dtype=np.int8),
        np.zeros(1, dtype=bool),
        np.ones((1, 2), dtype=bool),
    )
    assert alias_probabilities(tables).tolist() == prob.tolist()


@pytest.mark.compiles
def test_alias_construction_is_the_same_in_python() -> None:
    tables = tables_of(tabular(P, R, **COMMON))
    accept, alias = np.empty(6), np.empty(6, dtype=np.int64)
    fill_alias(tables.start, tables.prob, accept, alias, np.empty(2, dtype=np.int64))
    assert np.array_equal(accept, tables.alias_form[0])
    assert np.array_equal(alias, tables.alias_form[1])


@pytest.mark.compiles
def test_draws_follow_the_table() -> None:
    """40,000 draws of (0.25, 0.75): the share of state 0 is within 5 standard
    deviations (0.0108; one false alarm in 1.7 million).
    """
    problem = tabular(P, R, **COMMON)
    rng = stream(1, 2, 3)
    draws = [problem.oracle(1, 1, rng) for _ in range(40_000)]
    assert {reward for reward, _ in draws} == {0.2}
    assert abs(sum(z == 0 for _, z in draws) / 40_000 - 0.25) < 0.0108


@pytest.mark.compiles
def test_a_single_successor_consumes_no_randomness() -> None:
    problem = tabular(P, R, **COMMON)
    rng, twin = stream(5), stream(5)
    assert problem.oracle(0, 1, rng) == (1.0, 1)
    assert rng.raw() == twin.raw()
    problem.oracle(0, 0, rng)
    twin.random()
    assert rng.raw() == twin.raw()  # two successors: exactly one uniform


# --- bad input ----------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"P": P[0]}, r"shape \(S, A, S\).*got \(2, 2\)"),
    ({"P": np.ones((2, 2, 3))}, r"got \(2, 2, 3\)"),
    ({"P": np.zeros((0, 0, 0))}, "must have shape"),
    ({"P": [["a"]]}, "P must be an array of numbers"),
    ({"P": 0.9 * P}, "state 0, action 0 sums to 0.9"),
    ({"P": P - 0.5}, "negative or undefined"),
    (
        {"P": np.where(P == 0.75, np.nan, P)},
        "state 1, action 1 has a negative or undefined",
    ),
    ({"P": sp.csr_matrix(np.ones((3, 2)))}, r"\(S\*A, S\), got \(3, 2\)"),
    ({"R": np.zeros(3)}, r"\(S, A\) = \(2, 2\).*got \(3,\)"),
    ({"R": "x"}, "R must be an array of numbers"),
    ({"R": np.where(R == 0.5, np.inf, R)}, "R must be finite"),
    ({"R": sp.csr_matrix(np.ones((3, 2)))}, r"sparse R.*got \(3, 2\)"),
    ({"P": sp.coo_matrix(P.reshape(4, 2)), "R": np.zeros(6)}, "R must have shape"),
    ({"players": [1, 3]}, r"players.*1 \(max\) and 2 \(min\)"),
    ({"players": [1]}, r"shape \(2,\)"),
    ({"alternating": True}, "needs players="),
    (
        {"players": [1, 2], "alternating": True},
        "state 0 can lead to a state of the same player; drop alternating=",
    ),
    ({"terminal": [True]}, r"terminal must be a mask of shape \(2,\), got \(1,\)"),
    ({"legal": [True, True]}, r"legal must be a mask of shape \(2, 2\)"),
    (
        {"legal": [[0, 0], [1, 1]]},
        "State 0 has no legal action; allow one, or mark the state terminal",
    ),
    ({"initial_state": 2}, "whole number from 0 to 1, got 2"),
    ({"initial_state": 0.0}, "got 0.0"),
    ({"reward_range": (0.0, 0.5)}, "which go from 0 to 1; widen or drop it"),
    ({"reward_range": (1.0, 0.0)}, "low <= high"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=range(len(BAD)))
def test_bad_arrays_are_refused_with_a_remedy(
    changes: dict[str, Any], message: str
) -> None:
    arguments = {"P": P, "R": R, **COMMON, **changes}
    with pytest.raises(InvalidInput, match=message):
        tabular(arguments.pop("P"), arguments.pop("R"), **arguments)


@pytest.mark.parametrize("state", [-1, 2, 0.5, "0", True, None])
def test_states_that_do_not_exist_are_refused(state: Any) -> None:
    problem = tabular(P, R, initial_state=1, **COMMON)
    if state is None:
        assert problem.start(state) == 1
        return
    with pytest.raises(InvalidInput, match="from 0 to 1") as caught:
        problem.start(state)
    assert repr(state) in str(caught.value)
    assert problem.start(np.int64(0)) == 0


def test_max_needs_no_temperature() -> None:
    assert tabular(P, R, discount=0.0, operator=Max()).facts.value_range() == (
        0.0,
        1.0,
    )
