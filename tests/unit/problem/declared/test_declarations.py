"""What a user declares is checked where it is met, and named in the certificate
where it cannot be.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest

import smoothcruiser as sc


@numba.njit
def step(state, action, rng):
    return 0.5 + 0.25 * rng.random(), (state + 1 + rng.integers(2)) % 6


@numba.njit
def legal(state, action):
    return action < 2 or state < 4  # two actions from state 4 on


def rows(states, actions, rng):
    return np.full(len(states), 0.5), (
        states + 1 + rng.integers(2, size=len(states))
    ) % 6


def legal_rows(states, actions):
    return (actions < 2) | (states < 4)


FALSE = {
    "num_actions": 3,
    "min_actions": 3,
    "discount": 0.6,
    "operator": sc.Entropy(1.0),
    "initial_state": 0,
}
PROMISE = {"epsilon": 1.0, "delta": 0.1, "method": "smoothcruiser"}


@pytest.mark.compiles
@pytest.mark.parametrize("executor", ["reference", "python", "compiled"])
def test_fewer_legal_actions_than_declared_are_refused_where_they_are_met(
    executor: str,
) -> None:
    problem = sc.MDP(step, legal=legal, **FALSE)
    with pytest.raises(
        sc.InvalidInput, match=r"has 2 legal actions, fewer than min_actions=3"
    ):
        sc.plan(problem, executor=executor, **PROMISE)


@pytest.mark.compiles
def test_fewer_legal_rows_than_declared_are_refused() -> None:
    problem = sc.MDP(sc.batched(rows), legal=legal_rows, **FALSE)
    with pytest.raises(
        sc.InvalidInput, match=r"has 2 legal actions, fewer than min_actions=3"
    ):
        sc.plan(problem, **PROMISE)


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("compiled", [True, False])
def test_searches_and_policies_meet_the_same_refusal(compiled: bool) -> None:
    functions = (step, legal) if compiled else (step.py_func, legal.py_func)
    problem = sc.MDP(functions[0], legal=functions[1], **FALSE)
    match = r"has 2 legal actions, fewer than min_actions=3"
    with pytest.raises(sc.InvalidInput, match=match):
        sc.plan(problem, method="certified", epsilon=0.5, delta=0.1)
    with pytest.raises(sc.InvalidInput, match=match):
        sc.plan(problem, method="uct", simulations=200)
    with pytest.raises(sc.InvalidInput, match=match):
        sc.evaluate(problem, lambda state: [1 / 3] * 3, budget=10_000)


@pytest.mark.compiles
def test_the_certificate_names_the_fewest_actions_and_the_operator() -> None:
    smooth = sc.CustomOperator(
        lambda q: float(np.logaddexp.reduce(q)),
        lambda q: np.exp(q - np.logaddexp.reduce(q)),
        smooth=0.5,
        sums_to_one=True,
    )
    problem = sc.MDP(
        step.py_func,
        legal=lambda s, a: True,
        **(FALSE | {"discount": 0.2, "operator": smooth}),
    )
    for method in ("smoothcruiser", "certified"):
        estimate = sc.plan(problem, epsilon=1.0, delta=0.1, method=method)
        named = " ".join(estimate.certificate.assumptions)
        assert "at least 3 legal actions" in named
        assert "CustomOperator" in named


def test_an_interval_with_nothing_in_it_is_an_error() -> None:
    """value_bounds that the world breaks: every reward is 1, the value 2, and
    the bounds end at 1.2.
    """
    problem = sc.MDP(
        lambda s, a, rng: (1.0, s),
        num_actions=1,
        discount=0.5,
        operator=sc.Max(),
        initial_state=0,
        value_bounds=(0.0, 1.0),
    )
    with pytest.raises(sc.OracleError, match=r"exclude each other.*value_bounds"):
        sc.plan(
            problem, epsilon=0.05, delta=0.1, method="smoothcruiser", target="value"
        )
