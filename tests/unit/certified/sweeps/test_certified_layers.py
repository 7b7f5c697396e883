"""A horizon in certified search: one law for a pair, bounds for each number of steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


TOTAL: dict[str, Any] = {"discount": 1.0, "operator": sc.Max()}


def ring(horizon: int, states: int = 5, **more: object) -> sc.Problem:
    """Places on a ring with two actions, of which each may slip."""
    rng = np.random.default_rng(7)
    P = rng.dirichlet(np.full(states, 0.4), size=(states, 2))
    settings = {"discount": 1.0, "operator": sc.Max()} | more
    return sc.tabular(P, rng.random((states, 2)), horizon=horizon, **settings)


def test_samples_serve_every_number_of_steps_left():
    """Ten pairs at most, whatever the horizon; every row of the table holds."""
    problem = ring(30)
    memory, solution = sc.Certified(problem, delta=0.01, seed=3), sc.solve(problem)
    found = memory.query(epsilon=3.0)
    assert memory.shares.num_pairs <= 20  # those of the last step may be sampled anew
    assert found.interval[0] <= solution.stages[30][0] <= found.interval[1]
    table = memory.table()
    assert len(table) > 5 * 20
    for row in table:
        exact = solution.stages[row.remaining]
        assert row.interval[0] - 1e-9 <= exact[row.state] <= row.interval[1] + 1e-9
        after = solution.stages[row.remaining - 1]
        for action, (low, high) in enumerate(row.q_intervals):
            outcomes = problem.tables.outcomes(row.state, action)
            q = sum(p * (r + after[z]) for p, r, z in outcomes)
            assert low - 1e-9 <= q <= high + 1e-9


def test_layers_are_listed_as_deep_as_they_matter():
    """An episode of three steps and a horizon of 100,000: few layers, little memory."""

    def step(state: int, action: int, rng: np.random.Generator):
        return float(rng.random() < 0.5), state + 1, state == 2

    problem = mdp(
        step,
        num_actions=1,
        **TOTAL,
        total_reward_range=(0.0, 3.0),
        horizon=100_000,
        terminal=lambda state: state > 2,
    )
    memory = sc.Certified(problem, delta=0.1, seed=1)
    found = memory.query(epsilon=0.3)
    assert found.epsilon == 0.3
    assert found.interval[0] <= 1.5 <= found.interval[1]
    region = memory.region
    assert region.depth < 100
    assert memory.memory.layer_bytes < 10**6


def test_nobody_is_asked_about_states_after_the_last_step():
    """Rewards alone count there: the state may be anything, and none is kept."""
    asked: list[tuple[int, float]] = []

    def legal(state: tuple[int, float]) -> list[int]:
        asked.append(state)
        return [0, 1]

    def step(state: tuple[int, float], action: int, rng: np.random.Generator):
        place, _ = state
        following = (1, 0.0) if place == 0 else (2, float(rng.random()))
        return float(rng.random() < 0.3 + 0.2 * action), following

    problem = mdp(
        step,
        discount=1.0,
        operator=sc.Entropy(0.1),
        initial_state=(0, 0.0),
        horizon=2,
        legal=lambda state, action: action in legal(state),
    )
    memory = sc.Certified(problem, delta=0.1, seed=2)
    found = memory.query(epsilon=0.2)
    one = 0.1 * np.log(np.exp(0.3 / 0.1) + np.exp(0.5 / 0.1))
    assert found.interval[0] <= 2.0 * one <= found.interval[1]
    assert {place for place, _ in asked} == {0, 1}
    assert memory.memory.num_nodes == 3  # the end, and two states


def test_a_state_met_early_after_all_is_sampled_anew():
    """Samples for the last step are rewards only, and are not used for earlier ones.

    State 9 is met with one step left from the start, and with two steps left by a
    rare way. Its next state pays 1, which rewards alone cannot show.
    """

    def step(state: int, action: int, rng: np.random.Generator):
        if state == 0:
            return 0.0, 9 if rng.random() < 0.05 else 1
        if state == 1:
            return 0.0, 9
        return (0.0, 5) if state == 9 else (1.0, 5)

    problem = mdp(step, num_actions=1, **TOTAL, horizon=3)
    truth = 0.05  # 0 -> 9 -> 5, whose step pays
    anew = 0
    for seed in range(12):
        memory = sc.Certified(problem, delta=0.1, seed=seed)
        found = memory.query(epsilon=0.05, target="value")
        assert found.interval[0] <= truth <= found.interval[1]
        anew += memory.shares.num_pairs > 4
        for row in memory.table():
            exact = {0: {3: truth}, 1: {2: 0.0}, 5: {1: 1.0}, 9: {2: 1.0, 1: 0.0}}
            value = exact[row.state][row.remaining]
            assert row.interval[0] - 1e-12 <= value <= row.interval[1] + 1e-12
    assert anew > 0  # in some of them the rare way was found late


def test_one_step():
    """With one step left only rewards count."""
    problem = ring(1, operator=sc.Entropy(0.2))
    found = sc.Certified(problem, delta=0.05, seed=1).query(epsilon=0.1)
    assert found.interval[0] <= sc.solve(problem).stages[1][0] <= found.interval[1]


def test_two_queries_keep_the_bounds_of_both():
    """The second query does not forget the stages of the first."""
    problem = ring(12)
    memory, solution = sc.Certified(problem, delta=0.05, seed=4), sc.solve(problem)
    first = memory.query(0, epsilon=2.0)
    memory.query(3, epsilon=2.0)
    table = memory.table()
    assert table.at(0).interval[0] >= first.interval[0] - 1e-12
    assert table.at(0).interval[1] <= first.interval[1] + 1e-12
    for row in table:
        exact = solution.stages[row.remaining][row.state]
        assert row.interval[0] - 1e-9 <= exact <= row.interval[1] + 1e-9


def test_bounds_by_state_are_used_in_every_layer():
    """Bounds on V as functions hold with every number of steps left, and save samples."""
    problem, solution = ring(6), sc.solve(ring(6))
    low, high = solution.stages[1:].min(axis=0), solution.stages[1:].max(axis=0)
    bounded = mdp(
        problem.oracle,
        **TOTAL,
        reward_range=problem.reward_range,
        horizon=6,
        value_bounds=(lambda s: low[s] - 0.05, lambda s: high[s] + 0.05),
        value_gap=float((high - low).max()) + 0.2,
    )
    memory = sc.Certified(bounded, delta=0.05, seed=1)
    found = memory.query(epsilon=0.8)
    assert found.interval[0] <= solution.stages[6][0] <= found.interval[1]
    for row in memory.table():
        assert row.interval[0] >= low[row.state] - 0.05 - 1e-9
        assert row.interval[1] <= high[row.state] + 0.05 + 1e-9


def test_a_machine_with_less_memory_lists_two_layers_still(tmp_path):
    """Where a snapshot alone is more than fits, another query ends, and holds."""

    def step(state: float, action: int, rng: np.random.Generator):
        return float(rng.random() < 0.5), float(rng.random())

    problem = mdp(step, **TOTAL, initial_state=0.0, horizon=2)
    memory = sc.Certified(problem, delta=0.1, seed=1)
    memory.query(epsilon=1e-3, budget=5000)
    memory.save(tmp_path / "runs.db")
    small = sc.Certified.load(tmp_path / "runs.db", problem)
    small.memory.room = replace(small.memory.room, max_bytes=500_000)
    assert len(small.region.layers.stages) > 1024  # no room is left in the list
    found = small.query(small.memory.states[5], epsilon=1e-3, budget=5000)
    assert found.interval[0] <= 1.0 <= found.interval[1]


@pytest.mark.parametrize("horizon", [3, 40])
def test_bounds_by_state_that_cannot_be_are_refused(horizon: int):
    """V >= 2 with one step left, where one reward is at most 1: before or at the rim."""
    problem = mdp(
        lambda s, a, rng: (float(rng.random()), (s + 1) % 5),
        num_actions=1,
        **TOTAL,
        horizon=horizon,
        value_bounds=(lambda s: 2.0, lambda s: 39.0),
        value_gap=37.0,
    )
    memory = sc.Certified(problem, delta=0.1, seed=1)
    with pytest.raises(sc.OracleError, match="the rewards allow values"):
        memory.query(epsilon=1e-3, budget=200_000)


class Everywhere(sc.Certified):
    """Certified search that samples every pair, also of states not yet listed."""

    class steering(sc.Certified.steering):
        def steered_jobs(self, root, limits, calls):
            pairs = np.arange(self.memory.num_pairs)
            return pairs, np.full(len(pairs), max(1, calls // len(pairs)))


def test_samples_with_next_states_stay_so():
    """A state that was sampled whole is never taken for one of the last step."""
    line = mdp(
        lambda state, action, rng: (float(rng.random() < 0.5), state + 1),
        num_actions=1,
        **TOTAL,
        horizon=12,
    )
    memory = Everywhere(line, delta=0.1, seed=2)
    for _ in range(2):  # the first one samples states that only the second one lists
        memory.query(budget=20_000)
    g, num_pairs = memory.memory.graph, memory.memory.num_pairs
    nodes = g.pairs["node"][:num_pairs]
    assert np.all(g.nodes["last"][nodes] == 0)
    assert g.nodes["depth"][nodes].max() >= 11
