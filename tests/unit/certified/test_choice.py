"""What choosing among noisy action values adds: hand-computed maxima and curvatures, and
the usual error of certified search where many actions are equally good.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.sweeps.counted_kernel import (
    choice_excess,
    curvature_excess,
    maximum_excess,
)


def rules_of(operator, q):
    return SimpleNamespace(
        operator=operator.code,
        temperature=getattr(operator, "temperature", 0.0),
        q=np.array(q),
        w=np.ones(len(q)),
    )


def test_the_mean_of_a_maximum_of_two_normal_variables():
    """E max(X, Y) = theta phi(0) for two equal means, theta**2 the sum of variances."""
    noise = np.array([3.0, 4.0])
    by_hand = 5.0 / math.sqrt(2.0 * math.pi)
    assert maximum_excess(np.array([7.0, 7.0]), noise, 2) == pytest.approx(by_hand)
    # a gap of one theta is what noise alone makes of equal values
    assert maximum_excess(np.array([7.0, 2.0]), noise, 2) == pytest.approx(by_hand)
    # a gap of sqrt(2) theta is taken for theta: theta phi(1) - theta (1 - Phi(1))
    far = np.array([7.0, 7.0 - 5.0 * math.sqrt(2.0)])
    assert maximum_excess(far, noise, 2) == pytest.approx(5.0 * 0.0833155, rel=1e-5)


def test_a_smooth_operator_adds_its_curvature():
    """Half the trace of Hessian times covariance: pi (1 - pi) / t per action."""
    operator, noise = sc.Entropy(2.0), np.array([0.01, 0.02])
    rules = rules_of(operator, [1.0, 1.0])
    by_hand = 0.5 * 0.25 / 2.0 * (0.01**2 + 0.02**2)
    assert curvature_excess(noise, 2, rules) == pytest.approx(by_hand, rel=1e-4)
    assert choice_excess(noise, 2, rules) == pytest.approx(by_hand, rel=1e-4)
    assert rules.q.tolist() == [1.0, 1.0]
    # where noise is far above the temperature, it is a maximum
    cold = rules_of(sc.Entropy(1e-6), [1.0] * 10)
    largest = maximum_excess(cold.q, np.ones(10), 10)
    assert choice_excess(np.ones(10), 10, cold) == largest


@pytest.mark.compiles
@pytest.mark.parametrize(("horizon", "truth"), [(None, 5.0), (6, 3.0)])
def test_equal_actions_are_within_their_usual_errors(horizon, truth):
    """Ten fair coins in each of twelve states: the best frequency is above one half.

    Without what choosing adds no run is within 2 errors.
    """
    problem = mdp(
        lambda state, action, rng: (float(rng.integers(2)), (state + 1) % 12),
        num_actions=10,
        discount=0.9 if horizon is None else 1.0,
        horizon=horizon,
        operator=sc.Max(),
    )
    answers = [
        sc.Certified(problem, delta=0.1, seed=seed).query(budget=2_500)
        for seed in range(10)
    ]
    off = np.array([answer.value - truth for answer in answers])
    errors = np.array([answer.standard_error for answer in answers])
    assert (off > 0.0).all()
    assert (off <= 2.0 * errors).all()
    assert errors.mean() <= 1.5 * np.sqrt((off**2).mean())


@pytest.mark.compiles
def test_samples_that_all_agree_get_the_note_of_evaluate():
    """A cost of 1,000 with probability 1e-4 is not met in 500 calls."""

    def step(state, action, rng):
        return (-1000.0 if rng.random() < 1e-4 else -1.0), 0

    problem = mdp(step, discount=0.9, operator=sc.Max(), reward_range=(-1000.0, 0.0))
    answer = sc.plan(problem, method="certified", budget=500, delta=0.1, seed=1)
    assert answer.value == pytest.approx(-10.0, rel=1e-3)
    told = "standard error knows nothing of events that none of them met"
    assert any(told in note for note in answer.notes)
    evaluated = sc.evaluate(problem, lambda state: 0, budget=500, delta=0.1, seed=1)
    assert any(told in note for note in evaluated.notes)
