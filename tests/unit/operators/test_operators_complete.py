"""Every operator of the table is known everywhere, and its numbers are right.

The numbers are compared with slow definitions of this file: Omega by its
formula, its range and F by trying all policies of a grid, noise by summing over
all outcomes.
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
from smoothcruiser.operators import OPERATORS, dispatch
from smoothcruiser.operators.base import OWN

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
