"""What a user declares is checked where it is met, and named in the certificate
where it cannot be.
"""

import numba
import numpy as np
import pytest
from worlds import mdp

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


FALSE = {"num_actions": 3, "min_actions": 3, "discount": 0.6}
REFUSAL = r"has 2 legal actions, fewer than min_actions=3"
PROMISE = {"epsilon": 1.0, "delta": 0.1, "method": "smoothcruiser"}


@pytest.mark.compiles
@pytest.mark.parametrize("executor", ["reference", "python", "compiled", "batched"])
def test_fewer_legal_actions_than_declared_are_refused_where_they_are_met(executor):
    arrays = executor == "batched"
    oracle, test = (sc.batched(rows), legal_rows) if arrays else (step, legal)
    problem = mdp(oracle, legal=test, **FALSE)
    with pytest.raises(sc.InvalidInput, match=REFUSAL):
        sc.plan(problem, executor=executor, **PROMISE)


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("compiled", [True, False])
def test_searches_and_policies_meet_the_same_refusal(compiled):
    functions = (step, legal) if compiled else (step.py_func, legal.py_func)
    problem = mdp(functions[0], legal=functions[1], **FALSE)
    for run in (
        lambda: sc.plan(problem, method="certified", epsilon=0.5, delta=0.1),
        lambda: sc.plan(problem, method="uct", budget=2000),
        lambda: sc.evaluate(problem, lambda state: [1 / 3] * 3, budget=10_000),
    ):
        with pytest.raises(sc.InvalidInput, match=REFUSAL):
            run()


@pytest.mark.compiles
def test_the_certificate_names_the_fewest_actions_and_the_operator():
    smooth = sc.CustomOperator(
        lambda q: float(np.logaddexp.reduce(q)),
        lambda q: np.exp(q - np.logaddexp.reduce(q)),
        smooth=0.5,
        sums_to_one=True,
    )
    changes = {"discount": 0.2, "operator": smooth, "legal": lambda s, a: True}
    problem = mdp(step.py_func, **(FALSE | changes))
    for method in ("smoothcruiser", "certified"):
        estimate = sc.plan(problem, epsilon=1.0, delta=0.1, method=method)
        named = " ".join(estimate.certificate.assumptions)
        assert "at least 3 legal actions" in named
        assert "CustomOperator" in named


def test_an_interval_with_nothing_in_it_is_an_error():
    """value_bounds that the world breaks: every reward is 1, the value 2, and
    the bounds end at 1.2.
    """
    known = {"num_actions": 1, "operator": sc.Max(), "value_bounds": (0.0, 1.0)}
    problem = mdp(lambda s, a, rng: (1.0, s), **known)
    with pytest.raises(sc.OracleError, match=r"exclude each other.*value_bounds"):
        sc.plan(problem, **(PROMISE | {"epsilon": 0.05, "target": "value"}))
