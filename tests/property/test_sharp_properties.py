"""Laws of the sharp schedule over random problems: monotone bounds, the two
limits of the temperature, promises that verify.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from benchmarks.reliability import calls_and_price as benchmark
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothcruiser as sc
from smoothcruiser.engines.inspection import look
from smoothcruiser.methods.schedules import schedule_within_limits
from smoothcruiser.problem.facts import Facts
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.schedule.compiler.optimizer import compile_schedule, sparse_sampling
from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.reach import OutOfTime
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


def compiles_layers(request):
    """Whether a certified search with a horizon may run: its loops take 24 s to compile."""
    return request.method in ("auto", "certified") and "horizon" in request.about


def test_random_requests_keep_their_price(tmp_path):
    every = benchmark.requests(0, tmp_path, light=True)
    light = (request for request in every if not compiles_layers(request))
    rows = [benchmark.paid(request) for request in islice(light, 40)]
    assert [row.broken for row in rows if row.broken] == []
    assert sum(row.num_calls for row in rows) > 5_000
    assert sum(bool(row.refused) for row in rows) < 10


FACTS = {"num_actions": 2, "initial_state": 1, "discount": 0.5, "operator": sc.Max()}


def make_world(folder, **more):
    return benchmark.World(
        str(folder / "calls"), **{"seed": 3, "states": 9, "actions": 2} | more
    )


@pytest.mark.parametrize("limits", [{}, {"seconds": 2.0}])
def test_timing_the_simulator_is_within_the_price(tmp_path, limits):
    world = make_world(tmp_path)
    sharp = {"discount": 0.2, "operator": sc.Entropy(2.0)}
    problem = sc.MDP(world, **FACTS | sharp)
    asked = {"epsilon": 0.3, "delta": 0.1, "method": "smoothcruiser", **limits}
    ready = sc.prepare(problem, **asked)
    schedule = ready.explanation
    # timing takes a twentieth of the price at the most
    assert world.calls <= 0.05 * schedule.num_calls
    assert ready.price <= 1.05 * schedule.num_calls + problem.inspection_calls
    shown = " ".join(str(ready).split())
    assert f"at most {ready.price} oracle calls" in shown
    answer = ready.run()
    assert world.calls == answer.calls_spent <= answer.price == ready.price


def test_states_that_cannot_be_compared_keep_the_price_of_inspections(tmp_path):
    world = make_world(tmp_path, actions=1, opaque=True)
    start = world.state(1)
    problem = sc.MDP(world, **FACTS | {"num_actions": 1, "initial_state": start})
    for most in (3, 6, 9, 27):
        before, ledger = world.calls, CallLedger(most)
        looked = look(problem, start, 0, ledger)
        look(problem, start, 0, ledger, looked)
        assert world.calls - before == ledger.total <= most


def test_a_search_that_goes_on_reserves_the_calls_of_its_last_inspection(tmp_path):
    """Each query ends with an inspection; it made 1,010 of 1,000 calls."""
    world = make_world(tmp_path)
    search = sc.Certified(sc.MDP(world, **FACTS), delta=0.1)
    assert search.query(budget=500).num_calls == world.calls == 500
    assert search.go_on(budget=1_000).num_calls == world.calls == 1_000


@pytest.mark.parametrize("verb", ["plan", "agent"])
@pytest.mark.parametrize("is_late", [True, False])
def test_calls_before_and_after_a_choice_are_counted(
    tmp_path, monkeypatch, verb, is_late
):
    """The simulator is timed, and then there may be no time to find a schedule."""

    def late(*asked):
        raise OutOfTime("There was not enough time to look for a schedule.")

    if is_late:
        monkeypatch.setattr(schedule_within_limits, "_payable", late)
    about = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    limits = {"delta": 0.1, "seconds": 0.5, "budget": 5_000}
    if not is_late:
        limits |= {"epsilon": "20%", "seconds": 20.0, "budget": 1805}
    world = make_world(tmp_path, seed=3 if is_late else 0)
    row = benchmark.paid(benchmark.Request(verb, "auto", world, about, limits))
    assert (row.broken, bool(row.refused)) == ("", False)
    assert row.num_calls > 0
