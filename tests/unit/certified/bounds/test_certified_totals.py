"""Discount 1 without a horizon in certified search: what closes, what cannot, refusals."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


TOTAL: dict[str, Any] = {"discount": 1.0, "operator": sc.Max()}


def trap(leak: float, **more: object) -> sc.Problem:
    """Two states between which play can go round; one way out wins with probability 0.6.

    State 0 may go to 1 (action 0) or leave (action 1), state 1 goes back, and with
    probability ``leak`` to the goal.
    """

    def step(state: int, action: int, rng: np.random.Generator):
        if state == 1:
            return (1.0, 2) if rng.random() < leak else (0.0, 0)
        if action == 0:
            return 0.0, 1
        return (1.0, 2) if rng.random() < 0.6 else (0.0, 3)

    settings = {"reward_range": (0.0, 1.0), "payoffs": "end"} | more
    return sc.MDP(
        step,
        num_actions=2,
        **TOTAL,
        initial_state=0,
        terminal=lambda state: state > 1,
        **settings,
    )


def paid_by_min(step: Any, **more: Any) -> sc.Game:
    """A game of the min player alone, over the states of the trap."""
    return sc.Game(
        step,
        player=lambda state: 2,
        num_actions=2,
        initial_state=0,
        payoffs="end",
        terminal=lambda state: state > 1,
        min_probability=0.3,
        **TOTAL,
        **more,
    )


def test_without_a_declaration_the_upper_bound_stays_and_the_note_says_why():
    """A way out that is too rare to be seen would make the value 1."""
    found = sc.Certified(trap(0.0), delta=0.1, seed=1).query(
        epsilon=0.05, budget=20_000
    )
    assert found.interval[0] <= 0.6 <= found.interval[1] == 1.0
    assert any("go round for ever" in note for note in found.notes)


def test_a_least_probability_closes_it():
    """Supports are complete, and the bound is proved by induction."""
    problem = trap(0.0, min_probability=0.3)
    found = sc.Certified(problem, delta=0.1, seed=1).query(epsilon=0.05)
    assert found.interval[0] <= 0.6 <= found.interval[1] <= found.interval[0] + 0.1
    assert any("min_probability" in line for line in found.certificate.assumptions)
    assert found.certificate.bound == "law"


def test_a_least_probability_of_one_needs_few_samples():
    """Every outcome is certain, so one sample of a pair tells its law."""
    problem = mdp(
        lambda state, action, rng: (float(state + action == 4), state + action),
        **TOTAL,
        payoffs="end",
        terminal=lambda state: state >= 4,
        min_probability=1.0,
    )
    memory = sc.Certified(problem, delta=0.1, seed=1)
    assert memory.query(budget=500).interval[1] >= 1.0
    assert memory.query(1, epsilon=1e-6).interval[0] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_a_rare_way_out_is_worth_the_goal(seed: int):
    """It leaks with 0.02, as declared: the value is 1, and no bound excludes it."""
    problem = trap(0.02, min_probability=0.02)
    found = sc.Certified(problem, delta=0.05, seed=seed).query(epsilon=0.05)
    assert found.interval[0] <= 1.0 <= found.interval[1]


def test_the_min_player_goes_round_for_ever():
    """Who would pay 0.6 stays in the trap, which is worth 0."""
    game = paid_by_min(trap(0.0).oracle, reward_range=(0.0, 1.0))
    found = sc.Certified(game, delta=0.1, seed=1).query(epsilon=0.05)
    assert found.interval[0] == 0.0
    assert found.interval[1] <= 0.1


def test_costs_are_mirrored():
    """Rewards that are not positive: lower bounds are closed by induction."""

    def step(state: int, action: int, rng: np.random.Generator):
        if state == 1:
            return 0.0, 0
        if action == 0:
            return 0.0, 1
        return (-1.0, 2) if rng.random() < 0.6 else (0.0, 3)

    game = paid_by_min(step, reward_range=(-1.0, 0.0))
    found = sc.Certified(game, delta=0.1, seed=1).query(epsilon=0.05)
    assert found.interval[0] <= -0.6 <= found.interval[1] <= found.interval[0] + 0.1


def test_known_rows_need_no_samples():
    """With outcomes= the same induction closes the trap; nothing is drawn."""
    rows = {
        (0, 0): [(1.0, 0.0, 1)],
        (0, 1): [(0.6, 1.0, 2), (0.4, 0.0, 3)],
        (1, 0): [(1.0, 0.0, 0)],
        (1, 1): [(0.5, 0.0, 0), (0.5, 0.0, 1)],
    }
    problem = mdp(
        trap(0.0).oracle,
        **TOTAL,
        payoffs="end",
        terminal=lambda state: state > 1,
        outcomes=lambda state, action: rows[state, action],
    )
    found = sc.Certified(problem).query(epsilon=0.01)
    assert found.num_calls == 0
    assert found.interval[0] <= 0.6 <= found.interval[1] <= found.interval[0] + 0.02


def test_running_rewards_where_episodes_end():
    """A geometric number of steps, each paid 1: declared to end within 1 step by half."""

    def step(state: int, action: int, rng: np.random.Generator):
        return 1.0, int(rng.random() < 0.5)

    problem = mdp(
        step,
        num_actions=1,
        **TOTAL,
        terminal=lambda state: state == 1,
        episodes_end=(1, 0.5),
    )
    found = sc.Certified(problem, delta=0.1, seed=3).query(epsilon=0.1)
    assert found.epsilon == 0.1
    assert found.interval[0] <= 2.0 <= found.interval[1]


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (0.6, "[23] outcomes were seen"),
        (0.2, "turned up|less likely|exclude each other"),
    ],
)
def test_a_false_declaration_is_an_error(declared: float, why: str):
    """More outcomes than it allows; one that comes late or is too rare."""

    def step(state: int, action: int, rng: np.random.Generator):
        u = rng.random()
        return (1.0, 1) if u < 0.01 else (0.0, 1) if u < 0.5 else (0.0, 0)

    problem = mdp(
        step,
        num_actions=1,
        **TOTAL,
        payoffs="end",
        terminal=lambda state: state == 1,
        min_probability=declared,
    )
    refused = [r for r in map(refusal, [problem] * 20, range(20)) if r]
    assert refused
    assert all("min_probability" in r and re.search(why, r) for r in refused)


def refusal(problem: sc.Problem, seed: int) -> str:
    """What a search says that finds the declaration false; empty if it does not."""
    memory = sc.Certified(problem, delta=0.1, seed=seed)
    try:
        memory.query(epsilon=1e-3, budget=5_000)
    except sc.OracleError as error:
        return str(error)
    return ""


def test_what_nothing_bounds_is_refused():
    """Running rewards and no declaration: one sentence with the ways out."""
    with pytest.raises(sc.InvalidInput, match="episodes_end"):
        trap(0.0, payoffs="every step")


def test_a_search_taken_up_has_the_bits_of_one_that_went_on(tmp_path):
    """Snapshots at discount 1 hold what the closing depends on."""
    problem = trap(0.0, min_probability=0.3)
    whole = sc.Certified(problem, delta=0.1, seed=5)
    whole.query(epsilon=0.2)
    whole.save(tmp_path / "runs.db")
    again = sc.Certified.load(tmp_path / "runs.db", problem)
    assert again.table().to_json() == whole.table().to_json()
    one, other = whole.query(epsilon=0.03), again.query(epsilon=0.03)
    assert (one.interval, one.num_calls) == (other.interval, other.num_calls)


def test_no_price_is_promised():
    """Explain says that no number of calls is certain, and plan ends at the promise."""
    problem = trap(0.0, min_probability=0.3)
    text = str(sc.explain(problem, method="certified", epsilon=0.1, delta=0.1))
    assert "no number of calls is certain" in text
    found = sc.plan(problem, epsilon=0.1, delta=0.1, seed=1)
    assert found.method == "certified"
    assert found.interval[0] <= 0.6 <= found.interval[1]
    assert math.isclose(found.delta, 0.1)
