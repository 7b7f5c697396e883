"""Laws of the sharp schedule over random problems: monotone bounds, the two
limits of the temperature, promises that verify.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule, sparse_sampling
from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.verify.sharp import root_promise
from smoothcruiser.theory import noise as noise_bounds

temperatures = st.floats(0.05, 50.0)


@st.composite
def operators(draw: st.DrawFn) -> sc.Operator:
    """Any built-in operator."""
    kind = draw(
        st.sampled_from([sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot, sc.Max])
    )
    return sc.Max() if kind is sc.Max else kind(draw(temperatures))


@st.composite
def problems(draw: st.DrawFn) -> Facts:
    """Facts of every shape the library knows."""
    k = draw(st.integers(1, 5))
    game = draw(st.booleans())
    horizon = draw(st.one_of(st.none(), st.integers(1, 4)))
    low = draw(st.floats(-2.0, 1.0))
    return Facts(
        num_actions=k,
        min_actions=draw(st.integers(1, k)),
        discount=draw(st.floats(0.0, 0.6))
        if horizon is None
        else draw(st.floats(0.0, 1.0)),
        operator=draw(operators()),
        reward_range=(low, low + draw(st.floats(0.0, 2.0))),
        game=game,
        alternating=game and draw(st.booleans()),
        terminals=draw(st.booleans()),
        horizon=horizon,
    )


@given(
    operators(),
    st.integers(1, 8),
    st.integers(1, 200),
    st.floats(0.01, 5.0),
    st.floats(0.0, 0.25),
    st.floats(0.0, 3.0),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_noise_bounds_are_monotone(operator, k, n, spread, ratio, tilt):
    """More draws never hurt; a wider range, a larger variance or bias and more
    actions never help.
    """
    variance = ratio * spread * spread
    here = (k, n, spread, variance, tilt)
    for noise, tilted in (
        (noise_bounds.plug_in_noise, False),
        (noise_bounds.bregman_noise, True),
        (noise_bounds.plug_in_variance, False),
    ):

        def bound(k: int, *more: float, f=noise, m: bool = tilted) -> float:
            return float(
                f(
                    noise_bounds.OperatorRule.of(operator, k),
                    *(more if m else more[:3]),
                )
            )

        now = bound(*here)
        slack = 1e-9 * (1.0 + now)
        assert bound(k, n + 1, spread, variance, tilt) <= now + slack
        assert bound(k, n, 1.1 * spread, variance, tilt) >= now - slack
        assert bound(k, n, spread, 0.9 * variance, tilt) <= now + slack
        assert bound(k, n, spread, variance, tilt + 0.1) >= now - slack
        assert bound(k + 1, n, spread, variance, tilt) >= now - slack


@given(operators(), st.integers(2, 6), st.floats(0.01, 4.0), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_bregman_cap_holds_at_random_points(operator, k, width, seed):
    """D(Q, Q') <= cap(span(Q - Q')) for any two vectors."""
    rng = np.random.default_rng(seed)
    q, h = rng.normal(size=k), rng.random(k)
    h *= width / max(np.ptp(h), 1e-9)
    d = (
        operator.value(list(q + h))
        - operator.value(list(q))
        - float(np.dot(operator.gradient(list(q)), h))
    )
    assert (
        d
        <= float(
            noise_bounds.bregman_cap(noise_bounds.OperatorRule.of(operator, k), width)
        )
        + 1e-9
    )


@given(
    problems(),
    st.floats(0.15, 0.6),
    st.sampled_from([0.1, 0.01]),
    st.sampled_from(["q_values", "value"]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_compiled_schedules_verify_and_are_tight(facts, share, delta, target):
    """Any facts: the table verifies when it is made, spends its epsilon, and
    one root draw less is refused.
    """
    epsilon = share * facts.value_span() or 0.1
    schedule = compile_schedule(
        facts, epsilon=epsilon, delta=delta, target=target, adaptive=False
    )  # type: ignore[arg-type]
    promise = root_promise(schedule)
    assert promise.half_width <= epsilon * (1 + 1e-9)
    if schedule.root.samples > 1:
        with pytest.raises(sc.BrokenPromise):
            replace(
                schedule,
                root=replace(schedule.root, samples=schedule.root.samples - 1),
            )


@given(
    st.one_of(st.just(0.0), st.floats(1e-300, 0.8)),
    st.integers(2, 6),
    st.floats(0.05, 0.3),
)
@settings(max_examples=8, deadline=None, derandomize=True)
@pytest.mark.slow
def test_strong_regularization_is_blind(gamma, k, share):
    """Lambda to infinity: blind rollouts only, a price of O(1/epsilon^2) up to
    the depth log(1/epsilon).
    """
    facts = Facts(k, k, gamma, sc.Entropy(1e9), (0.0, 1.0))
    prices = []
    for part in (share, share / 4.0):
        schedule = compile_schedule(
            facts, epsilon=part * facts.value_span(), delta=0.1, adaptive=False
        )
        assert {level.kind for level in schedule.levels} <= {
            sc.Kind.CONSTANT,
            sc.Kind.BLIND,
        }
        prices.append(schedule.num_calls)
    depth = 1.0 + math.log(4.0) / max(-math.log(gamma), 0.1) if gamma > 0.0 else 1.0
    assert prices[1] <= 16.0 * (1.0 + depth) * 1.2 * prices[0] + 200 * k


@given(st.floats(0.05, 0.5), st.integers(2, 5), st.floats(0.08, 0.3))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_weak_regularization_is_sparse_sampling(gamma, k, share):
    """Lambda to 0: plug-ins only, at the price of sparse sampling with plain max."""
    promise = {"epsilon": share / (1.0 - gamma), "delta": 0.1, "adaptive": False}
    kinds = frozenset(kind for kind in sc.Kind if not KINDS[kind].randomized)
    weak = compile_schedule(
        Facts(k, k, gamma, sc.Entropy(1e-9), (0.0, 1.0)),
        kinds=kinds,
        **promise,  # type: ignore[arg-type]
    )
    plain = sparse_sampling(Facts(k, k, gamma, sc.Max(), (0.0, 1.0)), **promise)  # type: ignore[arg-type]
    assert {level.kind for level in weak.levels} <= {sc.Kind.CONSTANT, sc.Kind.PLUGIN}
    assert weak.num_calls == pytest.approx(plain.num_calls, rel=1e-3)


@given(st.floats(0.1, 0.6), temperatures, st.integers(1, 5), st.floats(0.05, 0.3))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_easier_promises_are_not_dearer(gamma, temperature, k, share):
    """A larger epsilon or delta, or the value alone, never costs more than 2%
    more (the search is not exhaustive).
    """
    facts = Facts(k, k, gamma, sc.Entropy(temperature), (0.0, 1.0))
    promise = {"epsilon": share / (1.0 - gamma), "delta": 0.05, "adaptive": False}
    price = compile_schedule(facts, **promise).num_calls  # type: ignore[arg-type]
    for easier in (
        {"epsilon": 1.1 * promise["epsilon"]},
        {"delta": 0.1},
        {"target": "value"},
    ):
        schedule = compile_schedule(facts, **promise | easier)  # type: ignore[arg-type]
        assert schedule.num_calls <= 1.02 * price
