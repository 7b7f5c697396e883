"""Intervals of RDDL expressions hold every value that is computed.

Law: for any expression and any values of its slots inside their intervals, the value that
the compiled function returns lies in the interval, rounding included; and the law of a
random expression lists only values in it, with probabilities that sum to 1.
"""

import math

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from smoothcruiser.adapters.rddl import expressions as rddl
from smoothcruiser.adapters.rddl.code import source, value
from smoothcruiser.adapters.rddl.laws import interval, law

# examples are built by hand here, and slowly on a busy machine
LAWS = settings(
    deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
KINDS = ("bool", "bool", "int", "real", "real")
BINARY = ("-", "/", "min", "max", "div", "mod", "fmod", "pow")
UNARY = ("negative", "abs", "sgn", "round", "floor", "ceil", "exp", "ln", "sqrt")
COMPARED = ("<", ">", "<=", ">=", "==", "~=")
numbers = st.one_of(
    st.integers(-5, 5), st.floats(-10, 10, allow_nan=False, allow_subnormal=False)
)


def leaves(boolean):
    places = [i for i, kind in enumerate(KINDS) if (kind == "bool") == boolean]
    slots = st.sampled_from([rddl.SlotNode(i, KINDS[i]) for i in places])
    return st.one_of(
        slots, (st.booleans() if boolean else numbers).map(rddl.ConstantNode)
    )


def built(name, *parts):
    try:
        return rddl.apply(name, *parts)
    except rddl.Untranslatable:
        return parts[0]


@st.composite
def expressions(draw, boolean=False, depth=3, random=False):
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(leaves(boolean))

    def below(is_bool=boolean):
        return draw(expressions(is_bool, depth - 1, random))

    if draw(st.integers(0, 3)) == 0:
        return rddl.choice(below(True), below(), below())
    if boolean:
        if random and draw(st.booleans()):
            p = draw(st.floats(0, 1))
            return rddl.FlipNode(rddl.ConstantNode(p))
        kind = draw(st.integers(0, 2))
        if kind == 0:
            return built(draw(st.sampled_from(COMPARED)), below(False), below(False))
        if kind == 1:
            name = draw(st.sampled_from(("and", "or")))
            return built(name, *(below() for _ in range(draw(st.integers(1, 3)))))
        name = draw(st.sampled_from(("not", "=>", "<=>", "xor")))
        return built(name, *((below(),) if name == "not" else (below(), below())))
    kind = draw(st.integers(0, 2))
    if kind == 0:
        name = draw(st.sampled_from(("+", "*")))
        return built(name, *(below() for _ in range(draw(st.integers(1, 4)))))
    if kind == 1:
        return built(draw(st.sampled_from(BINARY)), below(), below())
    return built(draw(st.sampled_from(UNARY)), below())


@st.composite
def slots(draw):
    """(intervals of the slots, values inside them)."""
    ranges, values = [], []
    for kind in KINDS:
        if kind == "bool":
            low, high = draw(st.sampled_from(((0, 1), (0, 0), (1, 1))))
            values.append(bool(draw(st.integers(low, high))))
        elif kind == "int":
            low, high = sorted((draw(st.integers(-6, 6)), draw(st.integers(-6, 6))))
            values.append(draw(st.integers(low, high)))
        else:
            ends = st.floats(-8, 8, allow_nan=False, allow_subnormal=False)
            low, high = sorted((draw(ends), draw(ends)))
            values.append(draw(st.one_of(st.floats(low, high), st.just(low))))
        ranges.append((float(low), float(high)))
    return ranges, values


def computed(node, values):
    """The value; examples that no simulator could compute are left out."""
    try:
        found = value(node)(values)
        number = float(found)
    except (ArithmeticError, ValueError):
        assume(False)
    assume(math.isfinite(number))
    return found


@settings(LAWS, max_examples=250)
@given(expressions(), slots())
def test_an_interval_holds_every_value(node, given_slots):
    ranges, values = given_slots
    low, high = interval(node, ranges)
    assert low <= computed(node, values) <= high


@settings(LAWS, max_examples=60)
@given(expressions(boolean=True, random=True), slots())
def test_the_law_of_a_random_expression_lies_in_its_interval(node, given_slots):
    ranges, values = given_slots
    low, high = interval(node, ranges)
    try:
        found = law(node)(values)
    except (ArithmeticError, ValueError):
        assume(False)
    assert math.fsum(p for p, _ in found) == pytest.approx(1, abs=1e-12)
    assert all(low <= x <= high for _, x in found)
    assert rddl.is_random(node) or len(found) == 1


@settings(LAWS, max_examples=60)
@given(expressions(), slots())
def test_simplified_expressions_have_the_value_of_the_whole(node, given_slots):
    """Terms that change nothing may be added anywhere."""
    _, values = given_slots
    found = computed(node, values)
    padded = rddl.apply("+", node, rddl.ConstantNode(0))
    assert computed(padded, values) == found
    assert computed(rddl.apply("*", rddl.ConstantNode(1), node), values) == found
    assert rddl.apply("*", node, rddl.ConstantNode(0)) == rddl.ConstantNode(0)
    assert "import" not in source(node, "v[{}]".format)
