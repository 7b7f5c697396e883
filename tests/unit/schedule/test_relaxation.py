"""Regularization as a relaxation: the band between V_lambda and V_0, the
promise for V_0, and the choice of lambda by price.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule import relaxation

OPERATORS = [
    sc.Entropy(0.4),
    sc.KL(0.4),
    sc.KL(0.4, (0.5, 0.3, 0.2)),
    sc.Sparsemax(0.4),
    sc.SquareRoot(0.4),
    sc.Max(),
]
PROBLEMS = [
    "garnet:states=8,actions=3,seed=5",
    "random-game:states=8,actions=3,seed=2",
    "random-game:states=8,actions=3,seed=2,alternating=true",
]


@pytest.mark.parametrize("operator", OPERATORS, ids=repr)
def test_the_step_band_holds_and_is_attained(operator):
    """F(Q) - max Q over random Q lies in the band; equal actions and a clear
    winner reach its ends.
    """
    low, high = relaxation.step_band(Facts(3, 3, 0.5, operator, (0.0, 1.0)))
    rng = np.random.default_rng(0)
    gaps = [
        operator.value(q) - max(q)
        for q in rng.normal(size=(300, 3))
        * rng.choice([0.1, 1.0, 10.0], size=(300, 1))
    ]
    assert min(gaps) >= low - 1e-12
    assert max(gaps) <= high + 1e-12
    ends = [operator.value([0.0] * 3)] + [
        operator.value([1e6 * (i == a) for i in range(3)]) - 1e6 for a in range(3)
    ]
    assert [min(ends), max(ends)] == pytest.approx([low, high], abs=1e-6)


@pytest.mark.compiles
@pytest.mark.parametrize("text", PROBLEMS)
@pytest.mark.parametrize("operator", OPERATORS, ids=repr)
@pytest.mark.parametrize("horizon", [None, 3])
def test_the_value_band_holds(text, operator, horizon):
    """V_lambda - V_0 of exact solutions, in every state, lies in the band of
    the player to move.
    """
    soft = replace(sc.make(text, discount=0.7, operator=operator), horizon=horizon)
    plain = replace(soft, operator=sc.Max())
    gap = np.asarray(sc.solve(soft).values) - np.asarray(sc.solve(plain).values)
    for state, distance in enumerate(gap):
        low, high = relaxation.value_band(soft.facts, soft.mover(state))
        assert low - 1e-9 <= distance <= high + 1e-9
        assert abs(distance) <= soft.facts.relaxation_bound() + 1e-9


def test_what_cannot_be_relaxed_is_refused():
    facts = Facts(2, 2, 0.2, sc.Max(), (0.0, 1.0))
    with pytest.raises(sc.InvalidInput, match="may move the value"):
        relaxation.relax_through(facts, sc.Entropy(1.0), epsilon=0.1, delta=0.1)
    with pytest.raises(sc.InvalidInput, match="one of Entropy"):
        relaxation.relax(facts, epsilon=0.1, delta=0.1, family=sc.Max)
    with pytest.raises(sc.InvalidInput, match="epsilon"):
        relaxation.relax(facts, epsilon=0.0, delta=0.1)
    custom = sc.CustomOperator(
        lambda q: float(np.mean(q)),
        lambda q: np.full(len(q), 1.0 / len(q)),
        smooth=0.0,
        sums_to_one=True,
    )
    with pytest.raises(sc.InvalidInput, match="not known"):
        relaxation.step_band(replace(facts, operator=custom))


def test_alternation_narrows_the_band():
    """One player's pull partly undoes the other's: around the known middle the
    width is that of an MDP.
    """
    facts = Facts(3, 3, 0.5, sc.Entropy(0.4), (0.0, 1.0), game=True)
    alternating = replace(facts, alternating=True)
    width, narrow = (
        high - low
        for low, high in (
            relaxation.value_band(facts),
            relaxation.value_band(alternating),
        )
    )
    assert narrow == pytest.approx(0.4 * math.log(3.0) / 0.5)
    assert narrow < width


def test_an_early_end_stops_the_band():
    """Square root: with terminal states the known offset lambda a step may be
    cut short, so 0 is back in the band.
    """
    facts = Facts(2, 2, 0.5, sc.SquareRoot(1.0), (0.0, 1.0))
    assert relaxation.value_band(facts)[0] == pytest.approx(2.0)
    assert relaxation.value_band(replace(facts, terminals=True))[0] == 0.0
