"""Bounds that a user gives hold where a step is left; an end is worth 0
whatever they say.
"""

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.schedule.alternatives import payable_temperature
from smoothcruiser.schedule.relaxation import relax


def ends_at_once(state, action, rng):
    """Pays 0.9 and is over: V = 0.9, and r + gamma V of a state with bounds
    [1.9, 2] would be above.
    """
    return 0.9, state, True


ONE = {"num_actions": 1, "operator": sc.Max()}
COLD = {"operator": sc.Entropy(0.1), "terminal": True, "value_bounds": (0.9, 2.1)}
FACTS = mdp(ends_at_once, **COLD).facts


@pytest.mark.compiles
@pytest.mark.parametrize("method", ["smoothcruiser", "sparse-sampling", "certified"])
@pytest.mark.parametrize("seed", range(2))
def test_an_end_is_inside_the_interval(method, seed):
    """Every state that goes on is worth 1.9 to 2; the clip at r + gamma 1.9 =
    0.95 shut out the truth, 0.9.
    """
    problem = mdp(ends_at_once, **ONE, terminal=True, value_bounds=(0.85, 2.0))
    estimate = sc.plan(problem, epsilon=0.05, delta=0.1, method=method, seed=seed)
    low, high = estimate.interval
    assert low <= 0.9 <= high
    for q_low, q_high in estimate.certificate.q_intervals:
        assert q_low <= 0.9 <= q_high
    assert any(
        "value_bounds" in sentence or "as given" in sentence
        for sentence in estimate.certificate.assumptions
    )


@pytest.mark.compiles
def test_bounds_given_for_one_operator_are_dropped_for_another():
    """V of Entropy(0.1) may lie in [0.9, 2.1] and V of another operator outside."""
    assert FACTS.under(FACTS.operator).given_bounds == (0.9, 2.1)
    assert FACTS.under(sc.Max()).given_bounds is None
    plan = relax(FACTS, epsilon=0.5, delta=0.1)
    assert plan.operator == FACTS.operator or plan.schedule.facts.given_bounds is None
    warmer = payable_temperature(FACTS, 0.2, 0.1, "q_values", 10**12)
    assert warmer is not None
    temperature, calls, _ = warmer
    plain = mdp(ends_at_once, operator=sc.Entropy(temperature), terminal=True)
    explained = sc.explain(plain, epsilon=0.2, delta=0.1, method="smoothcruiser")
    assert calls == explained.num_calls


@pytest.mark.parametrize(("discount", "value"), [(0.7, 1.0), (0.99, 30.0)])
def test_tight_bounds_survive_rounding(discount, value):
    """0.3 / (1 - 0.7) = 1 is what the rewards allow, whichever way the last bit
    falls.
    """
    allowed = {"reward_range": (0.1, 0.3), "value_bounds": (value, value)}
    assert mdp(**ONE, **allowed, discount=discount).value_bounds == (value, value)
