"""Operators: values and gradients by hand, every table that has a row per operator, and the
check of declared constants.
"""

import math
import re
from itertools import product

import click
import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.cli import options
from smoothcruiser.jit.build import compile_function
from smoothcruiser.operators import OPERATORS, dispatch, entropy, make_operator
from smoothcruiser.operators.base import OWN, Scalar
from smoothcruiser.operators.outward import sum_in_order

BUILT_IN = [
    sc.Entropy(0.7),
    sc.KL(0.7),
    sc.KL(0.7, (0.2, 0.5, 0.3)),
    sc.Sparsemax(0.7),
    sc.SquareRoot(0.7),
    sc.Max(),
]


# --- hand numbers -------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "q", "value", "policy"),
    [
        # exp(q/2) = (1, 3)
        (sc.Entropy(2.0), [0, 2 * math.log(3)], 2 * math.log(4), [0.25, 0.75]),
        # the prior 1:3 is (1/4, 3/4), exp(q) = (3, 1): F = log(3/4 + 3/4)
        (sc.KL(1.0, (1.0, 3.0)), [math.log(3), 0], math.log(1.5), [0.5, 0.5]),
        # support {0, 1}, tau = (1.5 - 1)/2; F = 0.75 + 0.125 - (0.5625 + 0.0625 - 1)/2
        (sc.Sparsemax(1.0), [1.0, 0.5, -1.0], 1.0625, [0.75, 0.25, 0.0]),
        # a lead of lambda or more takes everything
        (sc.Sparsemax(1.0), [2.0, 0.5, -1.0], 2.0, [1.0, 0.0, 0.0]),
        # (1/(U - q))^2 = p with U = sqrt 5; F = (4/5) sqrt(5)/2 + 2 (1 + 2)/sqrt 5
        (sc.SquareRoot(2.0), [0, math.sqrt(5) / 2], 8 / math.sqrt(5), [0.2, 0.8]),
        (sc.Max(), [1.0, 3.0, 3.0], 3.0, [0.0, 1.0, 0.0]),  # the first of the largest
    ],
    ids=str,
)
def test_values_and_policies_by_hand(operator, q, value, policy):
    assert operator.value(q) == pytest.approx(value, abs=1e-14)
    assert operator.gradient(q) == pytest.approx(policy, abs=1e-15)


@pytest.mark.parametrize("operator", BUILT_IN, ids=str)
def test_min_player_mirrors_the_max_player(operator):
    q = [0.4, -1.2, 0.9]
    assert operator.value(q, player=2) == -operator.value([-x for x in q])
    assert operator.gradient(q, player=2) == operator.gradient([-x for x in q])
    # near the minimum, not the maximum
    assert operator.value(q, player=2) <= min(q) + abs(operator.offset(3)) + 0.7


# --- limits and extremes ------------------------------------------------------


@pytest.mark.parametrize("kind", [sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot])
@pytest.mark.parametrize("temperature", [1e-300, 1e-12, 1e12, 1e200, 1e300])
def test_no_overflow_at_any_temperature(kind, temperature):
    operator = kind(temperature)
    for q in (
        [1e6, -1e6, 0.0],
        [0.0, 0.0, 0.0],
        [1e-9, 0.0, -1e-9],
        [-1e300, 1.0, 2.0],
    ):
        policy = operator.gradient(q)
        assert math.isfinite(operator.value(q))
        assert all(0.0 <= p <= 1.0 for p in policy)
        assert sum(policy) == pytest.approx(1.0, abs=1e-12)


# --- bad input ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot])
@pytest.mark.parametrize(
    "temperature", [0.0, 5e-324, -1.0, math.inf, math.nan, "1", True, None]
)
def test_bad_temperatures_are_refused(kind, temperature):
    with pytest.raises(sc.InvalidInput, match="temperature above 0") as caught:
        kind(temperature)
    assert repr(temperature) in str(caught.value)
    assert "Max()" in str(caught.value)


@pytest.mark.parametrize(
    "prior", [(), (0.5, 0.0), (0.5, -0.5), (0.5, math.nan), (math.inf, 1.0)]
)
def test_bad_priors_are_refused(prior):
    with pytest.raises(sc.InvalidInput, match="positive weights"):
        sc.KL(1.0, prior)


def test_priors_of_another_length_and_other_players_are_refused():
    assert sc.KL(1.0, (1.0, 3.0)).prior == (0.25, 0.75)
    with pytest.raises(sc.InvalidInput, match="2 weights for 3 actions"):
        sc.KL(1.0, (0.5, 0.5)).value([0.0, 0.0, 0.0])
    with pytest.raises(sc.InvalidInput, match="got 3"):
        sc.Entropy(1.0).value([0.0], player=3)


def test_make_operator():
    assert make_operator("entropy", 2.0) == sc.Entropy(2.0)
    assert make_operator("square-root", 2.0) == sc.SquareRoot(2.0)
    # temperature 0 is plain max for every name
    assert make_operator("sparsemax", 0) == sc.Max()
    assert make_operator("max", None) == sc.Max()
    with pytest.raises(sc.InvalidInput, match=r"Unknown operator 'softmax'.*entropy"):
        make_operator("softmax", 1.0)
    with pytest.raises(sc.InvalidInput, match="needs a temperature"):
        make_operator("entropy", None)


def test_custom_operators_check_what_they_are_given():
    half = sc.CustomOperator(
        lambda q: 0.5 * float(q.sum()) / len(q),
        lambda q: np.full(len(q), 0.5 / len(q)),
        smooth=0.0,
    )
    assert half.value([1.0, 3.0]) == 1.0
    assert half.value([1.0, 3.0], player=2) == 1.0  # linear: -F(-Q) = F(Q)
    assert half.gradient([1.0, 3.0]) == [0.25, 0.25]
    assert half.offset(4) == 0.0
    assert not half.shift_invariant
    with pytest.raises(sc.InvalidInput, match="two functions"):
        sc.CustomOperator(1.0, lambda q: q, smooth=1.0)
    with pytest.raises(sc.InvalidInput, match="finite smoothness"):
        sc.CustomOperator(max, max, smooth=-1.0)


def test_sparsemax_ends_at_ties():
    """Rounding at a tie must not make the support flip for ever (found by a
    random search; it hung).
    """
    q = [0.30000000000000004, 0.6000000000000001, 0.7]
    operator = sc.Sparsemax(0.7)
    policy = operator.gradient(q)
    assert sum(policy) == pytest.approx(1.0, abs=1e-12)
    assert operator.value(q) == pytest.approx(
        sum(p * x for p, x in zip(policy, q, strict=True))
        - 0.35 * (sum(p * p for p in policy) - 1)
    )


def test_each_number_is_rounded_as_it_is_added():
    """From left to right: the built-in ``sum`` of Python 3.12, or ``math.fsum``, gives 2."""
    assert sum_in_order([1.0, 1e100, 1.0, -1e100]) == 0.0
    assert sum_in_order([0.1] * 10) == 0.9999999999999999
    assert sum_in_order([]) == 0.0


# --- every operator is known wherever operators are listed --------------------


T = 0.7
STEPS = 12  # of the grid over policies: the uniform ones of 1 to 4 actions are on it

# name: Omega(p) for prior weights w
REGULARIZERS = {
    "entropy": lambda p, w: T * sum(x * math.log(x) for x in p if x > 0),
    "kl": lambda p, w: (
        T
        * sum(
            x * math.log(x / (y / sum(w))) for x, y in zip(p, w, strict=True) if x > 0
        )
    ),
    "sparsemax": lambda p, w: T / 2 * (sum(x * x for x in p) - 1),
    "square-root": lambda p, w: -T * sum(math.sqrt(x) for x in p),
    "max": lambda p, w: 0.0,
}


def cases(k):
    prior = tuple(range(1, k + 1))
    return [kind.at(T) for kind in OPERATORS.values()] + [sc.KL(T, prior)]


def policies(k):
    return [
        tuple(x / STEPS for x in (*parts, STEPS - sum(parts)))
        for parts in product(range(STEPS + 1), repeat=k - 1)
        if sum(parts) <= STEPS
    ]


def points(k, count=20):
    rng = np.random.default_rng(k)
    return [[0.0] * k, *(rng.uniform(-2.0, 2.0, size=(count, k)).tolist())]


EVERY = [(operator, k) for k in (1, 2, 3, 4) for operator in cases(k)]
every = pytest.mark.parametrize("operator, k", EVERY, ids=str)


def test_every_operator_has_a_slow_definition_here():
    assert set(REGULARIZERS) == set(OPERATORS)
    assert all(kind.name == name for name, kind in OPERATORS.items())


# --- the tables ---------------------------------------------------------------


def test_codes_are_the_first_whole_numbers():
    codes = [kind.code for kind in OPERATORS.values()]
    assert codes == list(range(len(OPERATORS)))
    assert OWN not in codes


@pytest.mark.compiles
@every
def test_dispatch_calls_the_operators_own_functions(operator, k):
    """To the last bit, plain and compiled."""
    w, zeros = operator.weights(k), [0.0] * k
    names = ("value", "gradient", "both", "omega", "blind")
    plain = [getattr(dispatch, f"builtin_{name}") for name in names]
    for value, gradient, both, omega, blind in (
        plain,
        [compile_function(f) for f in plain],
    ):
        for q in points(k):
            policy = operator.gradient(q, weights=w)
            out, fused, start = np.zeros(k), np.zeros(k), np.zeros(k)
            arrays = np.array(q), np.array(w), T
            assert value(operator.code, *arrays) == operator.value(q, weights=w)
            gradient(operator.code, *arrays, out)
            assert both(operator.code, *arrays, fused) == operator.value(q, weights=w)
            assert out.tolist() == fused.tolist() == policy
            assert operator.both(q, w) == (operator.value(q, weights=w), policy)
            assert omega(operator.code, np.array(policy), *arrays[1:]) == (
                operator.omega(policy, w)
            )
            blind(operator.code, np.array(zeros), *arrays[1:], start)
            assert start.tolist() == operator.blind(w)


@pytest.mark.parametrize("name", list(OPERATORS))
def test_make_and_the_command_line_know_it(name):
    problem = sc.make("chain:n=3", discount=0.5, temperature=T, operator=name)
    assert type(problem.operator) is OPERATORS[name]
    assert problem.operator == OPERATORS[name].at(T)
    command = options.problem_options(lambda: None)
    (option,) = [p for p in command.__click_params__ if p.name == "operator"]
    record = option.get_help_record(click.Context(click.Command("plan")))
    assert record is not None
    assert re.search(rf"\b{name}\b", record[1])


# --- the numbers --------------------------------------------------------------


@every
def test_omega_is_its_formula_and_its_range_is_attained(operator, k):
    """Also row by row, and sup D(0, .) is the width of the range."""
    w = operator.weights(k)
    grid = policies(k)
    slow = [REGULARIZERS[operator.name](p, w) for p in grid]
    assert [operator.omega(p, w) for p in grid] == pytest.approx(slow, abs=1e-12)
    rows = operator.omega_rows(np.array(grid), np.array([w] * len(grid)))
    assert rows.tolist() == pytest.approx(slow, abs=1e-12)
    low, high = operator.omega_range(k)
    if operator.has_prior:  # the least policy is the prior, beside the grid
        assert REGULARIZERS[operator.name](w, w) == pytest.approx(low, abs=1e-12)
    else:
        assert low == pytest.approx(min(slow), abs=1e-12)
    assert high == pytest.approx(max(slow), abs=1e-12)
    assert operator.omega_width(k) == pytest.approx(high - low, abs=1e-12)
    assert operator.offset(k) == pytest.approx(-low, abs=1e-12)


@every
def test_value_is_the_best_policys(operator, k):
    """F(Q) >= <p, Q> - Omega(p) for all p, with equality at the gradient."""
    w = operator.weights(k)
    for q in points(k, 5):
        value = operator.value(q, weights=w)

        def worth(p, q=q):
            return float(np.dot(p, q)) - REGULARIZERS[operator.name](p, w)

        assert max(map(worth, policies(k))) <= value + 1e-9
        assert worth(operator.gradient(q, weights=w)) == pytest.approx(value, abs=1e-9)


@every
def test_batch_is_the_scalar_functions(operator, k):
    """To 1e-12, and with some actions missing; the default of the base class as
    well, to the last bit.
    """
    w = np.array(operator.weights(k))
    q = np.array(points(k)).T
    q[0, 1::2] = -np.inf if k > 1 else q[0, 1::2]
    fast, slow = operator.batch(q, w), sc.Operator.batch(operator, q, w)
    for i in range(q.shape[1]):
        legal = np.flatnonzero(q[:, i] > -np.inf)
        numbers, shares = q[legal, i].tolist(), w[legal].tolist()
        assert slow[0][i] == operator.value(numbers, weights=shares)
        assert slow[1][legal, i].tolist() == operator.gradient(numbers, weights=shares)
    assert fast[0] == pytest.approx(slow[0], abs=1e-12)
    assert fast[1] == pytest.approx(slow[1], abs=1e-12)


# --- constants that a user declares -------------------------------------------


TEMPERATURES = (1e-3, 1e3)
KINDS = (sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot)


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


@pytest.mark.compiles
@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_true_constants_pass(temperature, k):
    prior = tuple(float(a) for a in range(1, k + 1))
    operators = [kind(temperature) for kind in KINDS]
    for operator in (*operators, sc.KL(temperature, prior), custom(temperature)):
        report = sc.check_operator(operator, k, samples=3, seed=k)
        assert report.ok, f"{operator}\n{report}"


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
@pytest.mark.parametrize(("declared", "condition", "words"), RAISING)
def test_what_raises_is_said_in_one_sentence(declared, condition, words):
    report = sc.check_operator(lying(sc.Entropy, **declared)(1.0))
    assert report.failures == (condition,)
    assert words in report[condition].finding
