"""Moments of randomized levels against those of the plain ones (docs/randomized.md, R0, R5).

The mean of a level with J rungs over N0 samples is that of a plain one with 2^J N0, so
its bias interval is the same to the last bit; what it costs is variance.
"""

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.theory import randomized
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import backup, constant, plug_in, rollout

N0, RUNGS = 2, (0.3, 0.2, 0.05)
COUNT, LAST = np.array([float(N0)]), np.array([float(N0 * 2 ** len(RUNGS))])
CHANCES = np.array(RUNGS)[:, None]
FACTS = {
    "entropy": Facts(3, 3, 0.6, sc.Entropy(0.7), (0.0, 1.0)),
    "game": Facts(2, 2, 0.6, sc.Entropy(0.7), (0.0, 1.0), game=True),
    "ends": Facts(
        4, 2, 0.6, sc.Sparsemax(1.1), (-1.0, 2.0), game=True, terminals=True
    ),
}


def children(facts):
    """The backups of a plug-in and of a rollout over it, which are no mirror images."""
    base = ground(facts)
    leaf = backup(base, constant(base, None), None)
    query = backup(base, plug_in(base, leaf, np.array([5.0])), None)
    onward = rollout(base, query, np.array([4.0]), query, None)
    return base, query, backup(base, onward, None)


def same_bias(one, other):
    for name in ("bias_low", "bias_high", "shift"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-14
        )


@pytest.mark.parametrize("name", FACTS)
def test_a_randomized_rollout_has_the_bias_of_all_its_samples(name):
    base, query, onward = children(FACTS[name])
    terms = randomized.rollout_terms(base, query, COUNT, onward, len(RUNGS))
    made = randomized.random_rollout(base, query, COUNT, onward, None, CHANCES, terms)
    whole, first = (rollout(base, query, n, onward, None) for n in (LAST, COUNT))
    same_bias(made, whole)
    assert np.all(whole.width < 0.99 * first.width)
    added = np.sum(terms.second / CHANCES[:, None, :], axis=0)
    np.testing.assert_allclose(made.rare, onward.rare + added)
    assert np.all(made.variance <= first.variance + added + 1e-12)
    # what corrections add in the mean widens the part Y: it holds the plain rollout
    assert np.all(made.low <= whole.low)
    assert np.all(made.high >= whole.high)
    again = randomized.rollout_terms(
        base, query, COUNT, backup(base, made, None), len(RUNGS)
    )
    chain = randomized.random_rollout(
        base, query, COUNT, backup(base, made, None), None, CHANCES, again
    )
    passed = base.facts.discount**2 * base.after(made.rare, made.rare)[1]
    added = np.sum(again.second / CHANCES[:, None, :], axis=0)
    np.testing.assert_allclose(chain.rare, passed + added)


@pytest.mark.parametrize("name", [*FACTS, "max"])
def test_a_randomized_plug_in_has_the_bias_of_all_its_samples(name):
    plain = Facts(3, 3, 0.6, sc.Max(), (0.0, 1.0))
    facts = FACTS.get(name, plain)
    base = ground(facts)
    query = backup(base, constant(base, None), None)
    query = backup(base, plug_in(base, query, np.array([5.0])), None)
    terms = randomized.plug_in_terms(base, query, COUNT, len(RUNGS))
    made = randomized.random_plug_in(base, query, COUNT, CHANCES, terms)
    whole, first = (plug_in(base, query, n) for n in (LAST, COUNT))
    same_bias(made, whole)
    assert np.all(whole.width < 0.99 * first.width)
    added = np.sum(terms.second / CHANCES[:, None, :], axis=0)
    np.testing.assert_allclose(made.variance, first.variance + added)
    np.testing.assert_allclose(made.rare, added)


def test_a_second_moment_that_is_no_number_promises_nothing():
    second = np.array([[[np.nan]], [[0.5]]])
    none, ones = np.zeros_like(second), np.ones((2, 1))
    terms = randomized.Terms(second, none, ones, np.zeros(1))
    assert randomized._correction_variance(terms, 0.5 * ones)[0, 0] == np.inf
