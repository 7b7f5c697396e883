"""The choice that ``auto`` makes: the same for ``explain`` and ``plan``."""

from __future__ import annotations

import pytest

import smoothcruiser as sc


@pytest.mark.compiles
def test_explain_auto_explains_what_plan_auto_does() -> None:
    def step(state, action, rng):
        return (0.1, 0.7)[action], (state + action) % 3

    made = sc.MDP(
        step,
        num_actions=2,
        discount=0.5,
        operator=sc.Entropy(1.0),
        initial_state=0,
        deterministic=True,
    )
    assert sc.plan(made, epsilon=1e-8, delta=0.1).method == "certified"
    assert (
        sc.explain(made, epsilon=1e-8, delta=0.1, method="auto").method == "certified"
    )
