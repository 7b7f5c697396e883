"""Every constant of an operator is tested: true ones pass at any temperature and
number of actions, and one that is false by a factor of 2 in the direction that
would break a promise is caught under its own name.
"""

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.operators import entropy
from smoothcruiser.operators.base import Scalar

TEMPERATURES = (1e-3, 1e3)
KINDS = (sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot)
pytestmark = pytest.mark.compiles  # it takes seconds


def lying(kind, **declared):
    """``kind`` with other declarations; not one of the built-in ones."""
    return type(f"Lying{kind.__name__}", (kind,), {"code": -1, **declared})


def custom(t, share=1.0):
    """Logsumexp at a temperature, by two functions; its tight L is 1/(4 t)."""

    def value(q):
        return float(q.max() + t * math.log(np.exp((q - q.max()) / t).sum()))

    def gradient(q):
        weight = np.exp((q - q.max()) / t)
        return weight / weight.sum()

    return sc.CustomOperator(
        value, gradient, smooth=0.25 * share / t, sums_to_one=True
    )


@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_true_constants_pass(temperature, k):
    prior = tuple(float(a) for a in range(1, k + 1))
    operators = [kind(temperature) for kind in KINDS]
    for operator in (*operators, sc.KL(temperature, prior), custom(temperature)):
        report = sc.check_operator(operator, k, samples=3, seed=k)
        assert report.ok, f"{operator}\n{report}"


@pytest.mark.parametrize("k", [1, 2, 8])
def test_plain_max_fails_its_kink_alone(k):
    expected = () if k == 1 else ("differentiable", "L-smooth")
    assert sc.check_operator(sc.Max(), k, samples=3).failures == expected


# --- false declarations: a function of the kind, and the condition that catches it ---


def scale(name, factor):
    return lambda kind: {name: lambda s, *k: factor * getattr(kind, name)(s, *k)}


def half_smoothness(kind):
    """The printed L of entropy is 4 times its own (theory, section 1)."""
    loose = 4.0 if kind in (sc.Entropy, sc.KL) else 1.0
    return scale("smoothness", 0.5 / loose)(kind)


def half_range(end):
    def ends(kind, s, k):
        low, high = kind.omega_range(s, k)
        middle = (low + high) / 2
        return (low, middle) if end == "lower" else (middle, high)

    return lambda kind: {"omega_range": lambda s, k: ends(kind, s, k)}


def wrong_offset(factor):
    def offset(kind, s, k):
        return factor * (s.temperature if kind is sc.KL else kind.offset(s, k))

    return lambda kind: {
        "offset": lambda s, k: offset(kind, s, k),
        # not by way of the offset, as some of them have it
        "omega_range": lambda s, k: kind(s.temperature).omega_range(k),
    }


def twice_omega(kind):
    value, gradient, omega = kind.scalar
    return {"scalar": Scalar(value, gradient, lambda p, w, t: 2.0 * omega(p, w, t))}


def higher(name):
    """The first of what an array form returns, a temperature too high."""

    def form(kind, s, *arrays):
        first, *others = getattr(kind, name)(s, *arrays)
        return (first + s.temperature, *others)

    return lambda kind: {name: lambda s, *arrays: form(kind, s, *arrays)}


def higher_rows(kind):
    return {"omega_rows": lambda s, p, w: kind.omega_rows(s, p, w) + s.temperature}


def twice_convexity(kind):
    if kind is sc.SquareRoot:
        return {"strong_convexity": lambda s: 2.0 * s.temperature}
    return scale("strong_convexity", 2.0)(kind)


FALSE = [
    ("curvature", KINDS, scale("curvature", 0.5)),
    ("L-smooth", KINDS, half_smoothness),
    ("omega width", KINDS, scale("omega_width", 0.5)),
    ("omega range", KINDS, half_range("lower")),
    ("omega range", KINDS, half_range("upper")),
    ("value at zero", KINDS, wrong_offset(0.5)),
    ("value at zero", KINDS, wrong_offset(2.0)),
    ("regularizer", KINDS, twice_omega),
    ("array forms", KINDS, higher("batch")),
    (
        "array forms",
        KINDS,
        lambda kind: {"batch": lambda s, q, w: (q.sum(axis=1),) * 2},
    ),
    ("array forms", KINDS, higher_rows),
    ("array forms", [sc.Entropy], higher("both")),
    ("strong convexity", KINDS, twice_convexity),
    ("convex Omega", KINDS, twice_convexity),
    ("entropic", [sc.Sparsemax, sc.SquareRoot], lambda kind: {"entropic": True}),
    ("unweighted", [sc.KL], lambda kind: {"weighted": False}),
]


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("row", range(len(FALSE)), ids=lambda i: f"{i} {FALSE[i][0]}")
def test_each_false_constant_is_caught(row, temperature):
    condition, kinds, declare = FALSE[row]
    for kind in kinds:
        operator = lying(kind, **declare(kind))(temperature)
        for k in (2, 3, 8) if temperature == 1e3 else (3,):
            report = sc.check_operator(operator, k, samples=3)
            assert condition in report.failures, f"{operator} over {k}\n{report}"
            assert report[condition].finding
            assert report[condition].sentence in " ".join(str(report).split())


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_custom_operator_and_a_prior_that_is_not_declared(temperature):
    for k in (2, 3, 8):
        half = custom(temperature, share=0.5)
        assert "L-smooth" in sc.check_operator(half, k, samples=3).failures
    for declared, condition in (
        ({"uniform_at_zero": True}, "blind policy"),
        ({"has_prior": False}, "alike"),
    ):
        operator = lying(sc.KL, **declared)(temperature, (0.2, 0.3, 0.5))
        assert condition in sc.check_operator(operator, samples=3).failures


def test_an_operator_that_is_not_convex():
    """Two thirds of logsumexp and a third of its mirror image -logsumexp(-Q)."""

    def value(q, w, t):
        mirrored = entropy.entropy_value([-x for x in q], w, t)
        return entropy.entropy_value(q, w, t) * 0.66 - mirrored * 0.34

    def gradient(q, w, t, out):
        up, down = [0.0] * len(q), [0.0] * len(q)
        entropy.entropy_gradient(q, w, t, up)
        entropy.entropy_gradient([-x for x in q], w, t, down)
        out[:] = [0.66 * a + 0.34 * b for a, b in zip(up, down, strict=True)]

    declared = {
        "scalar": Scalar(value, gradient, entropy.entropy_omega),
        "offset": lambda s, k: 0.32 * sc.Entropy.offset(s, k),
        "has_omega": False,
        "entropic": False,
        "omega_range": lambda s, k: (-math.inf, math.inf),
        "omega_width": lambda s, k: math.inf,
        "both": sc.Operator.both,
        "batch": sc.Operator.batch,
    }
    said = sc.check_operator(lying(sc.Entropy, **declared)(0.5))
    assert said.failures == ("convex",)
    honest = sc.check_operator(lying(sc.Entropy, convex=False, **declared)(0.5))
    assert honest.ok, str(honest)


# --- what is no number ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset", lambda s, *k: math.inf),
        ("curvature", lambda s, *k: math.nan),
        ("curvature", lambda s, *k: -1.0),
        ("omega_range", lambda s, *k: 1.0),
        ("omega_range", lambda s, *k: (1.0, 0.0)),
        ("omega_width", lambda s, *k: True),
        ("strong_convexity", lambda s: math.inf),
        ("strength", "warm"),
        ("convex", "yes"),
        ("shift_invariant", 1),
    ],
)
def test_what_is_no_number_is_said_in_one_sentence(name, value):
    # the width is by default computed of the range
    width = {"omega_width": lambda s, k: 1.0} if name == "omega_range" else {}
    report = sc.check_operator(lying(sc.Entropy, **width | {name: value})(1.0))
    assert report.failures == ("constants",)
    finding = report["constants"].finding
    assert finding.startswith(name)
    assert " has to be " in finding


def plain_omega(p, w, t):
    return t * sum(x * math.log(x) for x in p)  # log 0 at a corner


RAISING = [
    ({"curvature": lambda s, k: 1 / 0}, "constants", "curvature(3) raises ZeroDivisi"),
    ({"scalar": tuple(sc.Entropy.scalar)}, "differentiable", "raise AttributeError"),
    (
        {"scalar": sc.Entropy.scalar._replace(omega=plain_omega)},
        "regularizer",
        "raises ValueError",
    ),
]


@pytest.mark.parametrize(("declared", "condition", "words"), RAISING)
def test_what_raises_is_said_in_one_sentence(declared, condition, words):
    report = sc.check_operator(lying(sc.Entropy, **declared)(1.0))
    assert report.failures == (condition,)
    assert words in report[condition].finding
