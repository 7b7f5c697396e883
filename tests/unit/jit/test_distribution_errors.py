"""The laws of ``rng`` outside their domains: one sentence with a remedy, the same
from Python and from compiled code.
"""

import math

import numpy as np
import pytest
from numba import njit

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import METHODS, stream

pytestmark = pytest.mark.compiles

# by sentence: arguments that it refuses
WRONG = {
    "rng.integers(n) needs n from 1 to 2**63": (
        *("0", "-5", "-(2**63)", "np.uint64(2**63 + 1)"),
    ),
    "rng.integers(low, high) needs -2**63 <= low < high": (
        *("3, 3", "4, -4", "1, np.uint64(2**63 + 1)"),
    ),
    "rng.uniform(low, high) needs finite numbers with low <= high": (
        *("2.0, 1.0", "0.0, math.inf", "math.nan, 1.0"),
    ),
    "rng.normal(loc, scale) needs a finite loc and a finite scale": (
        *("0.0, -1.0", "math.nan", "scale=math.nan"),
    ),
    "rng.exponential(scale) needs a finite scale >= 0": ("-1", "math.inf"),
    "rng.gamma(shape, scale) needs finite shape >= 0": ("-0.5", "1.0, math.nan"),
    "rng.beta(a, b) needs a and b > 0": ("0.0, 1.0", "1.0, math.nan"),
    "rng.poisson(lam) needs a mean lam >= 0 (at most 1e15)": (
        *("-1e-9", "math.nan", "1e18"),
    ),
    "rng.binomial(n, p) needs n >= 0": ("-1, 0.5", "3, 1.1", "3, math.nan"),
    "rng.geometric(p) needs a probability 0 < p <= 1": ("0.0", "1.5"),
    "rng.categorical(weights) needs weights >= 0": ("[1.0, -0.5]", "[1.0, math.nan]"),
    "rng.categorical(weights) needs weights with a finite sum > 0": (
        *("[0.0, 0.0]", "[1.0, math.inf]", "np.zeros(0)"),
    ),
    "rng.choice(a, p) needs at least one element": (
        *("0", "np.zeros(0)", "np.zeros(0), np.zeros(0)"),
    ),
    "rng.choice(a, p) needs probabilities p that sum to 1 (rng.categorical(weights)": (
        *("[1, 2], [0.5, 0.4]", "[1, 2], [0.0, 0.0]"),
    ),
    "rng.choice(a, p) needs probabilities p >= 0": (
        *("[1, 2], [1.5, -0.5]", "[1, 2], [1.0, math.nan]"),
    ),
    "rng.choice(a, p) needs one probability in p for every element": (
        "3, [0.5, 0.5]",
    ),
    "rng.permutation(n) needs n >= 0": ("-1",),
}
CASES = [
    (f"{sentence.partition('(')[0]}({arguments})", sentence)
    for sentence, refused in WRONG.items()
    for arguments in refused
]


@pytest.fixture(scope="module")
def fail():
    """``fail(rng, case)`` makes the call number ``case``."""
    lines = [
        f"    if case == {i}:\n        {call}\n" for i, (call, _) in enumerate(CASES)
    ]
    scope = {"np": np, "math": math}
    exec("def fail(rng, case):\n" + "".join(lines), scope)
    return njit(scope["fail"])


@pytest.mark.parametrize("case", range(len(CASES)), ids=[call for call, _ in CASES])
def test_arguments_outside_the_domain_are_errors_in_both_forms(fail, case):
    rng = stream(0)
    before = rng.words.tolist()
    for function in (fail, fail.py_func):
        with pytest.raises(ValueError) as caught:
            function(rng, case)
        assert str(caught.value).startswith(CASES[case][1])
        assert ("got" in str(caught.value)) == (function is fail.py_func)
    assert rng.words.tolist() == before


@pytest.mark.parametrize(
    "method, arguments, said",
    [
        ("integers", (2.5,), "integers(low, high) takes whole numbers, got 2.5"),
        ("binomial", (2.5, 0.5), "binomial(n, p) takes a whole number as n, got"),
        ("choice", ("abc",), "choice(a, p) takes a whole number or a list"),
        ("choice", ({1, 2},), "choice(a, p) takes a whole number or a list"),
        ("permutation", (2.5,), "permutation(x) takes a whole number or a list"),
        ("shuffle", ((1, 2),), "shuffle(x) takes an array or a list, got tuple"),
    ],
)
def test_arguments_of_the_wrong_kind_are_errors(method, arguments, said):
    with pytest.raises(TypeError) as caught:
        getattr(stream(0), method)(*arguments)
    assert str(caught.value).startswith(f"rng.{said}")
    with pytest.raises(ValueError, match="needs n >= 0"):
        stream(0).binomial(10**30, 0.5)  # beyond what compiled code can hold


def problem(step):
    return sc.MDP(
        step, num_actions=1, discount=0.0, operator=sc.Max(), initial_state=0
    )


def cauchy(state, action, rng):
    return rng.standard_cauchy(), state


def generator_inside(state, action, rng):
    return rng.numpy().random(), state


def sized(state, action, rng):
    return rng.random(5)[0], state


def mixed(state, action, rng):
    return rng.choice((0, 0.5)), state


def negative(state, action, rng):
    return 0.5 + 0.0 * rng.poisson(-1.0), state


@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
def test_a_missing_method_is_answered_with_those_there_are(method):
    said = f"rng has no method 'standard_cauchy'; it has {METHODS}"
    for step, error in ((cauchy, sc.OracleError), (njit(cauchy), sc.InvalidInput)):
        with pytest.raises(error) as caught:
            sc.plan(problem(step), epsilon=0.1, delta=0.1, method=method)
        assert said in str(caught.value)
        assert "drop numba.njit" not in str(caught.value)


SIZED = f"rng.random does not take the arguments (Literal[int](5)); rng has {METHODS}"


@pytest.mark.parametrize(
    "step, said, drop",
    [
        (generator_inside, "rng.numpy() works in plain Python only", True),
        (mixed, "rng.choice(a, p) takes tuples whose elements have one type", True),
        (sized, SIZED, False),
    ],
)
def test_what_compiled_code_cannot_do_is_said_with_a_remedy_that_helps(
    step, said, drop
):
    with pytest.raises(sc.InvalidInput) as caught:
        sc.plan(problem(njit(step)), epsilon=0.1, delta=0.1)
    assert said in str(caught.value)
    assert ("drop numba.njit" in str(caught.value)) == drop


@pytest.mark.parametrize("step", [negative, njit(negative)], ids=["plain", "compiled"])
def test_a_wrong_argument_arrives_as_one_sentence_with_its_place(step):
    with pytest.raises(sc.OracleError, match="at state 0, action 0") as caught:
        sc.plan(problem(step), epsilon=0.1, delta=0.1, method="smoothcruiser")
    said = "ValueError: rng.poisson(lam) needs a mean lam >= 0 (at most 1e15)"
    assert said in str(caught.value)
