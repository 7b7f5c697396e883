"""Functions that write into the states they read, and totals that are declared falsely:
no bound rests on them.
"""

from dataclasses import replace

import numpy as np
import pytest

import smoothcruiser as sc


def step(state, action, rng):
    """State (moves made, what every move pays): nothing ever pays in this world."""
    return float(state[1]), state + np.array([1.0, 0.0])


def enrich(state):
    """A heuristic that writes into its argument."""
    state[1] = 1.0
    return 0.0


def world(**more):
    rest = {"num_actions": 2} if "sample_action" not in more else {}
    rest |= {"discount": 1.0, "horizon": 3, "operator": sc.Max()}
    return sc.MDP(step, initial_state=np.array([0.0, 0.0]), **rest, **more)


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_heuristic_that_writes_into_its_state_earns_nothing(deterministic):
    poor = world(deterministic=deterministic)
    method = sc.UCT(value=enrich)
    found = sc.plan(poor, method=method, certify=True, budget=600)
    assert found.interval[0] == 0.0
    assert poor.initial_state.tolist() == [0.0, 0.0]


def test_neither_does_a_policy():
    def policy(state):
        if state[0] > 0:  # a later state, which nobody compares with the first
            enrich(state)
        return [1.0, 0.0]

    assert sc.evaluate(world(), policy, budget=600).interval[0] == 0.0
    sampled = world(sample_action=lambda state, rng: rng.random())
    action = lambda state: enrich(state) if state[0] > 0 else 0.0  # noqa: E731
    assert sc.evaluate(sampled, action, budget=600).interval[0] == 0.0


def test_actions_that_no_sampler_knows_are_an_assumption():
    """The sampler stays below 1, and the policy plays 5: no bound on V but by a word."""
    pays = sc.MDP(
        lambda s, u, rng: (u, s),
        sample_action=lambda s, rng: rng.random(),
        discount=0.5,
        operator=sc.Max(),
        initial_state=0,
        reward_range=(0.0, 10.0),
    )
    said = sc.evaluate(pays, lambda s: 5.0, budget=500).certificate.assumptions
    assert any("an action of the problem" in words for words in said)


@pytest.mark.compiles
@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_a_false_total_is_refused_by_machine_code_too(executor):
    """Every step pays 1, and a total of 1 is declared: samples would be cut at 1."""
    pays = sc.tabular(np.ones((1, 1, 1)), [[1.0]], discount=0.5, operator=sc.Max())
    four = replace(pays, discount=1.0, horizon=4, total_reward_range=(0.0, 1.0))
    with pytest.raises(sc.OracleError, match="An episode was worth 4"):
        sc.evaluate(four, np.ones((1, 1)), budget=500, executor=executor)
