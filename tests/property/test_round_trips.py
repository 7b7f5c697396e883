"""What JSON gives back is what was written: random results of every shape.

Equal means equal to the bit, with NaN equal to NaN. A NamedTuple comes back as the tuple
that equals it, a NumPy number as the Python number, an object as its ``repr``.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import smoothcruiser as sc
from smoothcruiser.certified.price_forecast import CertifiedForecast
from smoothcruiser.certified.state_table import KeptTable, Row
from smoothcruiser.checks.probe import Finding
from smoothcruiser.comparison import PlannerRun, Truth
from smoothcruiser.methods.base import Forecast
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule, sparse_sampling
from smoothcruiser.schedule.paper_schedule import paper_schedule

LAWS = settings(derandomize=True, deadline=None, max_examples=150)
FEW = settings(derandomize=True, deadline=None, max_examples=25)
COMPILING = settings(derandomize=True, deadline=None, max_examples=8)


class Place(NamedTuple):
    row: int
    column: int


class Thing:
    """A state that JSON cannot hold."""

    def __repr__(self) -> str:
        return "Thing of mine"


def alike(x, y) -> bool:
    """Whether two values are equal, NaN to NaN, -0.0 not to 0.0, arrays by their bits."""
    if is_dataclass(x) and not isinstance(x, type):
        if type(x) is not type(y):
            return False
        parts = [f.name for f in fields(x) if f.name != "key_of"]
        return all(alike(getattr(x, name), getattr(y, name)) for name in parts)
    if isinstance(x, np.ndarray):
        same = isinstance(y, np.ndarray) and x.dtype == y.dtype and x.shape == y.shape
        return bool(same and (np.array_equal(x, y, equal_nan=x.dtype.kind == "f")))
    if isinstance(x, tuple | list):
        kind = tuple if isinstance(x, tuple) else list
        return isinstance(y, kind) and len(x) == len(y) and all(map(alike, x, y))
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(alike(x[name], y[name]) for name in x)
    if isinstance(x, float | np.floating):
        both = x != x and y != y
        return both or (x == y and math.copysign(1, x) == math.copysign(1, y))
    if isinstance(x, Thing):
        return bool(y == repr(x))
    return bool(x == y)


def again(result):
    """The result after JSON text, which its schema allows."""
    text = result.to_json()
    data = json.loads(text, parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(sc.schema(data["kind"])).validate(data)
    assert data["schema"] == 1
    assert json.loads(json.dumps(result.to_dict())) == data
    return type(result).from_json(text)


# --- what results are made of -------------------------------------------------

numbers = st.floats(width=64)  # NaN, infinities and -0.0 among them
bounded = st.floats(-1e6, 1e6)
names = st.text(max_size=8)
maybe_number = st.none() | numbers
boxes = st.tuples(numbers, numbers)
counts = st.integers(0, 10**6) | st.integers(2**53 - 1, 2**53 + 2) | st.just(7**9999)
kept_arrays = arrays.arrays(
    dtype=st.sampled_from(["f8", "f4", "i8", "u8", "i1", "?", "U3"]),
    shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | numbers
    | names
    | kept_arrays
    | st.builds(Place, st.integers(), st.integers())
    | st.builds(Thing)
    | st.integers(0, 100).map(np.int16)
    | bounded.map(np.float64)
)
states = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def estimates(draw: st.DrawFn) -> sc.Estimate:
    k = draw(st.integers(0, 4))

    def per_action(each: st.SearchStrategy[Any]) -> tuple[Any, ...]:
        return tuple(draw(st.lists(each, min_size=k, max_size=k)))

    certificate = None
    if draw(st.booleans()):
        certificate = sc.Certificate(
            kind=draw(st.sampled_from(["schedule", "search", "exact"])),
            interval=draw(boxes),
            q_intervals=per_action(boxes),
            confidence=draw(st.floats(0, 1)),
            bound=draw(names),
            assumptions=tuple(draw(st.lists(names, max_size=2))),
            policy_loss=draw(maybe_number),
            best_actions=draw(st.none() | st.just(tuple(range(k)))),
        )
    return sc.Estimate(
        value=draw(numbers | bounded.map(np.float64)),
        interval=draw(st.none() | boxes),
        q_values=per_action(numbers),
        policy=per_action(numbers),
        action=draw(st.none() | st.integers(0, k - 1)) if k else None,
        num_calls=draw(st.integers(0, 10**9)),
        epsilon=draw(maybe_number),
        delta=draw(maybe_number),
        method=draw(names),
        certificate=certificate,
        seconds=draw(numbers),
        compile_seconds=draw(numbers),
        problem=draw(names),
        state=draw(states),
        seed=draw(st.none() | st.integers(0, 2**128)),
        executor=draw(st.none() | names),
        calls_spent=draw(st.none() | st.integers(0, 10**9)),
        price=draw(st.none() | counts),
        run=draw(st.none() | st.integers(1, 99)),
        notes=tuple(draw(st.lists(names, max_size=2))),
        labels=draw(st.none() | st.just(tuple("abcd"[:k]))),
    )


@st.composite
def all_facts(draw: st.DrawFn) -> Facts:
    k = draw(st.integers(2, 4))
    heat = draw(st.floats(0.3, 3.0))
    prior = tuple(draw(st.lists(st.floats(0.1, 1.0), min_size=k, max_size=k)))
    kinds = [kind(heat) for kind in (sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot)]
    game = draw(st.booleans())
    return Facts(
        num_actions=k,
        min_actions=draw(st.integers(1, k)),
        discount=draw(st.floats(0.1, 0.6)),
        operator=draw(st.sampled_from([*kinds, sc.KL(heat, prior), sc.Max()])),
        reward_range=draw(st.sampled_from([(0.0, 1.0), (-2.0, 0.5)])),
        game=game,
        alternating=game and draw(st.booleans()),
        terminals=draw(st.booleans()),
        horizon=draw(st.none() | st.integers(1, 6)),
    )


# --- the laws -----------------------------------------------------------------


@LAWS
@given(estimates())
def test_estimates_come_back(estimate):
    assert alike(estimate, again(estimate))


@FEW
@given(st.lists(estimates(), max_size=3), maybe_number)
def test_lists_of_estimates_come_back(found, delta):
    many = sc.Estimates(tuple(found), delta, 5, 0.5, "auto", ("a note",))
    assert alike(many, again(many))


@COMPILING
@given(all_facts(), st.sampled_from([0.2, 0.3, 0.5]), st.sampled_from([0.01, 0.2]))
def test_schedules_come_back(facts, share, delta):
    promise = {"epsilon": share * facts.value_span(), "delta": delta}
    for make in (compile_schedule, sparse_sampling):
        try:
            schedule = make(facts, **promise)
        except sc.SmoothcruiserError:
            continue  # of KL with a prior and few actions, say
        found = again(schedule)
        assert found == schedule
        assert found.num_calls == schedule.num_calls
        assert str(found) == str(schedule)
    forecast = CertifiedForecast(facts, promise["epsilon"], delta)
    assert again(forecast) == forecast


@pytest.mark.parametrize("discount, epsilon", [(0.7, 0.1), (0.1, 1e-6)])
def test_counts_beyond_every_float_come_back(discount, epsilon):
    facts = Facts(2, 2, discount, sc.Entropy(1.0), (0.0, 1.0))
    schedule = paper_schedule(facts, epsilon=epsilon, delta=0.1)
    assert schedule.num_calls > 2**53
    assert again(schedule) == schedule
    data = schedule.to_dict()
    assert data["num_calls"] is None
    samples = schedule.root.samples
    assert data["root"]["samples"] == (samples if discount == 0.7 else None)


def test_a_prior_is_not_scaled_twice():
    """Its weights add up to 1 - 1e-16: dividing by that again would move a last bit."""
    operator = sc.KL(1.0, (0.9, 0.8, 0.7, 0.5))
    assert sc.KL(1.0, operator.prior) != operator
    facts = Facts(4, 4, 0.3, operator, (0.0, 1.0))
    forecast = CertifiedForecast(facts, 0.1, 0.1)
    assert again(forecast) == forecast


@LAWS
@given(
    arrays.arrays("f8", (3,), elements=numbers),
    arrays.arrays("f8", (3, 2), elements=numbers),
    st.none() | st.lists(states, min_size=3, max_size=3).map(tuple),
)
def test_solutions_with_any_numbers_come_back(values, q, named):
    solution = sc.Solution(values, q, q, 0.5, "by hand", 1, 0.1, states=named)
    assert alike(solution, again(solution))


@LAWS
@given(
    st.lists(st.tuples(maybe_number, st.none() | boxes), max_size=4), states, numbers
)
def test_comparisons_tables_forecasts_and_checks_come_back(found, state, number):
    runs = tuple(
        PlannerRun("uct", 10, i, value=value, interval=box, error=value)
        for i, (value, box) in enumerate(found)
        if value is None or math.isfinite(value)
    )
    truth = Truth(number, {0: number, 5: 1.0}, 2, sc.Sparsemax(0.5), 6, 0.1)
    for known in (None, truth):
        comparison = sc.Comparison(runs, known, "problem")
        assert alike(comparison, again(comparison))
    row = Row(state, 3, 2, number, (number, 1.0), ((0.0, number),), (1.0,), 0, (7,))
    table = KeptTable("problem", 0.9, 12, (row,))
    assert alike(table, again(table))
    forecast = Forecast("uct", 7**9999, "so many", number, 0.1)
    assert alike(forecast, again(forecast))
    findings = (Finding("states", "warning", "is odd"),)
    report = sc.Check("problem", findings, 3, number, 7**9999, math.inf)
    assert alike(report, again(report))
