"""The table of a memory: all states seen, their bounds, policies and samples."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified.state_table import queried_estimates

pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module")
def asked():
    problem = sc.make("garnet:states=8,actions=3,seed=2", discount=0.5, temperature=1)
    memory = sc.Certified(problem, delta=0.1)
    estimate = memory.query(0, epsilon=0.3)
    return problem, memory, estimate


def test_rows_have_the_bounds_of_the_queries_and_hold(asked):
    problem, memory, estimate = asked
    table, exact = memory.table(), sc.solve(problem)
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
    for row in table:
        assert row.interval[0] <= exact.values[row.state] <= row.interval[1]
        for q, (low, high) in zip(
            exact.q_values[row.state], row.q_intervals, strict=True
        ):
            assert low <= q <= high


def test_samples_are_counted_by_action(asked):
    _, memory, _ = asked
    table = memory.table()
    assert sum(sum(row.samples) for row in table) == table.num_calls


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

    problem = sc.MDP(
        step,
        num_actions=2,
        discount=1.0,
        operator=sc.Max(),
        reward_range=(0, 1),
        horizon=3,
        initial_state=0,
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
    import numpy as np

    def step(state, action, rng):
        return float(rng.random() < 0.3 + 0.4 * action), np.array([1 - state[0]])

    problem = sc.Game(
        step,
        num_actions=2,
        discount=0.5,
        operator=sc.Entropy(0.5),
        reward_range=(0, 1),
        legal=lambda state, action: action == 0 or state[0] == 0,
        player=lambda state: 2 if state[0] else 1,
        initial_state=np.array([0]),
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


def assert_holds(answers, exact):
    """All intervals of the answers have the exact values in them."""
    for answer in answers:
        low, high = answer.interval
        assert low <= exact.values[answer.state] <= high
        boxes = answer.certificate.q_intervals
        for q, (low, high) in zip(exact.q_values[answer.state], boxes, strict=True):
            assert low <= q <= high, answer


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
    assert_holds(answers, exact)
    assert answers[-1].certificate.q_intervals == last.certificate.q_intervals
    assert answers[-1].interval == last.interval


@pytest.mark.parametrize("reports", range(3, 12, 2))
def test_with_a_horizon_many_states_hold_wherever_they_are_stopped(
    three_steps, reports
):
    problem, exact = three_steps
    left = iter(range(reports))
    answers = sc.plan_many(
        problem,
        range(4),
        method="certified",
        epsilon=0.1,
        delta=0.001,
        progress=lambda news: next(left, None) is not None,
    )
    assert_holds(answers, exact)
