"""The table of a memory: all states seen, their bounds, policies and samples."""

import json
import math

import numpy as np
import pytest
from worlds import COMMON, mdp

import smoothcruiser as sc
from smoothcruiser.certified.state_table import queried_estimates

pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module")
def asked():
    problem = sc.make("garnet:states=8,actions=3,seed=2", discount=0.5, temperature=1)
    memory = sc.Certified(problem, delta=0.1)
    estimate = memory.query(0, epsilon=0.3)
    return problem, memory, estimate


def assert_holds(rows, exact):
    """All intervals of (state, interval, boxes) have the exact values in them."""
    for state, (low, high), boxes in rows:
        assert low <= exact.values[state] <= high
        for q, (low, high) in zip(exact.q_values[state], boxes, strict=True):
            assert low <= q <= high


def holding(answers):
    return [(x.state, x.interval, x.certificate.q_intervals) for x in answers]


def test_rows_have_the_bounds_of_the_queries_and_hold(asked):
    problem, memory, estimate = asked
    table, exact = memory.table(), sc.solve(problem)
    assert sum(sum(row.samples) for row in table) == table.num_calls
    assert len(table) == memory.memory.num_nodes - 1
    row = table.at(0)
    assert row == table[0]
    assert row.interval == estimate.interval
    assert row.q_intervals == estimate.certificate.q_intervals
    assert row.policy == pytest.approx(estimate.policy, abs=0.02)
    # the query's own value was brought within epsilon of both ends
    assert row.value == pytest.approx(estimate.value, abs=0.05)
    assert row.action == estimate.action
    assert table.confidence == 0.9
    assert_holds([(row.state, row.interval, row.q_intervals) for row in table], exact)


def test_a_table_keeps_what_it_was_made_of(asked):
    problem, _, _ = asked
    memory = sc.Certified(problem, delta=0.1)
    memory.query(0, budget=200)
    table = memory.table()
    before = table.at(0)
    memory.query(0, budget=2000)
    assert table.at(0) == before
    now = memory.table().at(0)
    assert now.interval[1] - now.interval[0] < before.interval[1] - before.interval[0]


def test_a_horizon_counts_the_steps_left():
    """A state stands in the table once for every number of steps it was met with."""

    def step(state, action, rng):
        return float(rng.random() < 0.5), (state + action) % 2

    problem = mdp(
        step, discount=1.0, operator=sc.Max(), reward_range=(0, 1), horizon=3
    )
    memory = sc.Certified(problem, delta=0.1)
    memory.query(0, epsilon=0.5)
    table = memory.table()
    assert {row.remaining for row in table} == {1, 2, 3}
    assert table.at(0).remaining == 3
    for left in (1, 2, 3):
        low, high = table.at(0, left).interval
        assert low <= 0.5 * left <= high
    with pytest.raises(sc.InvalidInput, match="never seen"):
        table.at(1, 3)


def test_movers_and_illegal_actions_are_shown():
    """A game of arrays: player 2 may only pass, and states are found by value."""

    def step(state, action, rng):
        return float(rng.random() < 0.3 + 0.4 * action), np.array([1 - state[0]])

    problem = sc.Game(
        step,
        reward_range=(0, 1),
        legal=lambda state, action: action == 0 or state[0] == 0,
        player=lambda state: 2 if state[0] else 1,
        **COMMON | {"initial_state": np.array([0])},
    )
    memory = sc.Certified(problem, delta=0.1)
    memory.query(epsilon=0.4)
    table = memory.table()
    second = table.at(np.array([1]))
    assert (table.at(np.array([0])).player, second.player) == (1, 2)
    assert second.policy == (1.0, 0.0)
    assert math.isnan(second.q_intervals[1][0])
    assert second.samples[1] == 0
    assert np.array([1]) in table
    assert np.array([7]) not in table


def test_a_table_is_data_and_says_what_is_wrong(asked):
    _, memory, _ = asked
    table = memory.table()
    data = json.loads(table.to_json())
    assert data["confidence"] == 0.9
    assert data["rows"][0]["state"] == 0
    assert "states=8" in repr(table)
    assert "8 states" in str(table)
    with pytest.raises(sc.InvalidInput, match="no horizon"):
        table.at(0, 2)
    with pytest.raises(IndexError):
        table[8]
    assert table[-1] == table[7]
    assert [row.state for row in table[:2]] == [table[0].state, table[1].state]


@pytest.fixture(scope="module")
def three_steps():
    rng = np.random.default_rng(5)
    moves = rng.dirichlet([0.5] * 5, size=(5, 3))
    rewards = 3.0 * rng.random((5, 3)) - 4.0
    problem = sc.tabular(moves, rewards, discount=1.0, operator=sc.Max(), horizon=3)
    return problem, sc.solve(problem)


def test_with_a_horizon_the_page_has_action_values_with_all_steps_left(three_steps):
    """Sweeps of later queries leave those with fewer steps left in the memory."""
    problem, exact = three_steps
    memory = sc.Certified(problem, delta=0.001)
    last = [memory.query(state, epsilon=0.3) for state in range(4)][-1]
    answers = queried_estimates(memory)
    assert_holds(holding(answers), exact)
    assert answers[-1].certificate.q_intervals == last.certificate.q_intervals
    assert answers[-1].interval == last.interval


@pytest.mark.parametrize("reports", range(3, 12, 2))
def test_with_a_horizon_many_states_hold_wherever_they_are_stopped(
    three_steps, reports
):
    problem, exact = three_steps
    left = iter(range(reports))
    asked = {"method": "certified", "epsilon": 0.1, "delta": 0.001}
    stop = lambda news: next(left, None) is not None  # noqa: E731
    answers = sc.plan_many(problem, range(4), progress=stop, **asked)
    assert_holds(holding(answers), exact)
