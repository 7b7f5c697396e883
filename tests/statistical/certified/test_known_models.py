"""Certified search over a known model has delta 0, so no interval may ever fail.

Small worlds made to break it are compared with values in exact arithmetic: rational
numbers for plain max, forty digits for the entropy. Compared are all bounds of all
states met, to the last bit, with no tolerance.
"""

import itertools
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.exact.verification_worlds import solve_rationally

import smoothcruiser as sc

getcontext().prec = 40
SIZE, ACTIONS = 4, 2
EPSILONS = (0.1, 1e-3, 1e-9, 1e-13)
DISCOUNTS = (0.0, 0.3, 0.9, 0.999)


def never(state, action, rng):
    raise AssertionError("the step was called")


def known(rows, kind=sc.MDP, **facts):
    """The problem of these rows."""
    facts = {"num_actions": ACTIONS, "operator": sc.Max(), "initial_state": 0} | facts
    return kind(never, outcomes=lambda state, action: rows[state, action], **facts)


def random_rows(rng):
    """Rows with tiny shares, near loops, ties, repeated next states and zeros."""
    rows = {}
    for state, action in itertools.product(range(SIZE), range(ACTIONS)):
        count = int(rng.integers(1, 5))
        kind = rng.integers(4)
        if kind == 0:  # nearly a loop
            shares = np.r_[1.0 - 1e-12, np.full(count, 1e-12 / count)]
        elif kind == 1:  # far below the rounding of the others
            shares = np.r_[rng.dirichlet(np.ones(count)), 1e-17, 1e-300]
        else:
            shares = np.r_[rng.dirichlet(np.ones(count)), 0.0]
        shares = shares * (1.0 + 1e-7 * rng.uniform(-1.0, 1.0))
        after = rng.integers(SIZE, size=len(shares))
        after[0] = state if kind == 0 else after[0]
        paid = rng.choice([0.0, 0.1, 1.0 / 3.0, 1.0], size=len(shares))
        if kind == 3:  # the same next state, other rewards; and ties
            after[:] = after[0]
        rows[state, action] = [
            (float(p), float(r), int(z))
            for p, r, z in zip(shares, paid, after, strict=True)
        ]
    return rows


def exactly(row, discount, values):
    """The action value of a row, with its shares divided by their exact sum."""
    total = sum(Fraction(p) for p, _, _ in row)
    mean = sum(
        Fraction(p) * (Fraction(r) + Fraction(discount) * values[z]) for p, r, z in row
    )
    return mean / total


def rational_values(rows, discount, minimal):
    """V of every state: that of the one pair of policies which no player leaves."""
    zero = [Fraction(0)] * SIZE
    for policy in itertools.product(range(ACTIONS), repeat=SIZE):
        chosen = [rows[s, policy[s]] for s in range(SIZE)]
        matrix = [
            [
                Fraction(int(s == z))
                - exactly(
                    [(p, 0.0, int(y == z)) for p, _, y in chosen[s]],
                    discount,
                    [Fraction(0), Fraction(1)],
                )
                for z in range(SIZE)
            ]
            for s in range(SIZE)
        ]
        values = solve_rationally(
            matrix, [exactly(row, discount, zero) for row in chosen]
        )
        best = [
            (min if minimal[s] else max)(
                exactly(rows[s, a], discount, values) for a in range(ACTIONS)
            )
            for s in range(SIZE)
        ]
        if best == values:
            return values
    raise AssertionError("some pair of policies is optimal")


def check_all_bounds(memory, true_value):
    graph = memory.memory.graph
    for row in memory.table():
        true = true_value(row.state, row.remaining)
        low, high = row.interval
        assert type(true)(low) <= true <= type(true)(high)
    assert not graph.pairs["cost"].any()  # no share of delta was given away


@pytest.mark.compiles
@pytest.mark.parametrize("seed", range(40))
def test_no_bound_of_any_state_misses_the_rational_value(seed):
    """MDPs and games, plain max, discounts to 0.999, epsilon to below rounding."""
    rng = np.random.default_rng(seed)
    rows, discount = random_rows(rng), DISCOUNTS[seed % len(DISCOUNTS)]
    minimal = (
        [bool(x) for x in rng.integers(2, size=SIZE)] if seed % 2 else [False] * 4
    )
    truth = rational_values(rows, discount, minimal)
    players = {"player": lambda state: 2 if minimal[state] else 1}
    memory = sc.Certified(known(rows, sc.Game, discount=discount, **players))
    for epsilon in EPSILONS:
        found = memory.query(epsilon=epsilon)
        assert found.num_calls == 0
        assert found.delta == 0.0
        reached = 0.5 * (found.interval[1] - found.interval[0])
        assert reached <= epsilon or memory.reason in ("rounding", "exhausted")
        check_all_bounds(memory, lambda state, left: truth[state])


def decimal_value(rows, discount, temperature, state, left):
    """V with ``left`` steps to go under the entropy, by its definition."""
    if left == 0 or state == SIZE - 1:
        return Decimal(0)
    found = []
    for action in range(ACTIONS):
        row = rows[state, action]
        total = sum(Decimal(p) for p, _, _ in row)
        mean = sum(
            Decimal(p)
            * (
                Decimal(r)
                + Decimal(discount)
                * decimal_value(rows, discount, temperature, z, left - 1)
            )
            for p, r, z in row
            if p > 0.0
        )
        found.append(mean / total)
    scale = Decimal(temperature)
    return scale * sum((q / scale).exp() for q in found).ln()


@pytest.mark.compiles
@pytest.mark.parametrize("seed", range(12))
def test_no_bound_misses_with_a_horizon_and_an_entropy(seed):
    """Horizons 1 to 3, an end, discounts 1 and just below it."""
    rng = np.random.default_rng(1_000 + seed)
    rows, horizon = random_rows(rng), 1 + seed % 3
    discount = (1.0, 1.0 - 1e-10, 0.7)[seed // 3 % 3]
    temperature = float(rng.choice([0.05, 1.0]))
    facts = {"discount": discount, "horizon": horizon}
    facts |= {"operator": sc.Entropy(temperature), "terminal": lambda s: s == SIZE - 1}
    memory = sc.Certified(known(rows, **facts))
    for epsilon in EPSILONS:
        memory.query(epsilon=epsilon)
        check_all_bounds(
            memory,
            lambda state, left: decimal_value(
                rows, discount, temperature, state, left
            ),
        )


@pytest.mark.compiles
def test_an_allowance_of_the_wrong_sign_is_found_out():
    """The comparison can fail: bounds that rounding has to widen are narrowed."""

    class Narrowed(sc.Certified):
        radius_scale = -1e3

    rows = random_rows(np.random.default_rng(2))
    truth = rational_values(rows, 0.9, [False] * SIZE)
    memory = Narrowed(known(rows, discount=0.9))

    def search() -> None:
        memory.query(epsilon=1e-13)  # bounds that cross are found at once
        check_all_bounds(memory, lambda state, left: truth[state])

    with pytest.raises((AssertionError, sc.OracleError)):
        search()
