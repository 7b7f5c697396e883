"""Law: bounds on V by ``episodes_end`` hold the exact values of random models.

The declaration is as tight as can be: q is the smallest probability, over all states
and all ways to play, that an episode ends within m steps. Values are those of the
exact solver, which does not use the declaration. A second law is the one behind the
bounds: the longest expected play has at most m/q steps.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

LAWS = settings(derandomize=True, deadline=None, max_examples=60)
ROUNDING = 1e-9


def absorbing(seed: int, m: int) -> tuple[np.ndarray, np.ndarray, float]:
    """P and R of a model whose last state is its end, and the tight q for m steps.

    Every step leads with some probability to a state with a larger number.
    """
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    P = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.4)
    for s in range(S - 1):
        for a in range(A):
            P[s, a, rng.integers(s + 1, S)] += rng.choice([0.05, 0.5, 5.0])
    P[S - 1] = np.eye(S)[S - 1]
    P /= P.sum(axis=2, keepdims=True)
    ended = np.eye(S)[S - 1]
    for _ in range(m):
        ended = (P @ ended).min(axis=1)
    R = rng.choice([-1.0, 0.0, 1.0]) + rng.uniform(-1.0, 1.0, size=(S, A))
    return P, R, float(ended.min())


def model(P: np.ndarray, R: np.ndarray, end: tuple[int, float], **more) -> sc.Problem:
    over = np.arange(len(P)) == len(P) - 1
    facts = {"discount": 1, "operator": sc.Max()} | more
    return sc.tabular(P, R, terminal=over, episodes_end=end, **facts)


def hold(problem: sc.Problem):
    """The exact values lie in the bounds of the problem's facts."""
    solution = sc.solve(replace(problem, episodes_end=None))
    facts, rounding = problem.facts, ROUNDING + solution.residual_bound
    for state, value in enumerate(solution.values[:-1]):
        mover = problem.mover(state)
        for bounds in (facts.value_bounds(mover), facts.value_hull()):
            assert bounds[0] - rounding <= value <= bounds[1] + rounding
        low, high = facts.q_bounds(mover)
        q = np.asarray(solution.q_values[state])
        assert np.all((low - rounding <= q) & (q <= high + rounding))


def declared(seed: int, m: int) -> tuple[np.ndarray, np.ndarray, tuple[int, float]]:
    P, R, q = absorbing(seed, m)
    while q == 0.0:  # the end may be farther than m steps
        m += 1
        P, R, q = absorbing(seed, m)
    return P, R, (m, min(1.0, q * (1.0 - 1e-12)))


@LAWS
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1, 0.6, 0.9, 0.999]))
def test_values_with_and_without_a_discount(seed, m, discount):
    P, R, end = declared(seed, m)
    players = 1 + np.random.default_rng(seed).integers(0, 2, len(P))
    for operator in (sc.Max(), sc.Entropy(0.7))[: 1 if discount == 1 else 2]:
        for more in ({}, {"players": players}):
            hold(model(P, R, end, discount=discount, operator=operator, **more))


@LAWS
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_the_longest_expected_play(seed, m):
    """A reward of 1 per step: the value is the expected number of steps."""
    P, R, end = declared(seed, m)
    problem = model(P, np.ones_like(R), end)
    longest = float(np.max(sc.solve(problem).values[:-1]))
    expected = end[0] / end[1]
    assert longest <= expected * (1.0 + ROUNDING)
    if len(P) == 2 and end[0] == 1:  # one state: the bound is attained
        assert longest == pytest.approx(expected)
