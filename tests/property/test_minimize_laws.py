"""Costs that are minimized are the negated answers of the maximizer of their negations.

``minimize=True`` flips no sign anywhere: the one player is player 2, whose operator is
-F(-Q) in every machine. So each machine is compared with itself as a maximizer on 60
random problems: the same actions, calls and policies, and every number negated. Sums of
schedules are rounded to a grid around other centers, hence ``ROUNDED``; all else agrees
to the last bit.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.schedule.relaxation import value_band
from smoothcruiser.theory.least_price import least_price

PROBLEMS = 60
ROUNDED = 1e-7  # of the sums of a schedule
OPERATORS = (
    *(sc.Max(), sc.Entropy(0.7), sc.KL(0.5), sc.Sparsemax(0.6), sc.SquareRoot(0.5)),
)
EXECUTORS = ("reference", "python", "batched", "compiled")
TREES = ("uct", "ments", "puct", "bts", "rents")


def arrays(number):
    """P, costs on a lattice, and more facts of the problem with this number."""
    rng = np.random.default_rng(number)
    num_states, num_actions = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    P = rng.dirichlet(np.full(num_states, 0.4), size=(num_states, num_actions))
    low = -2.0 if number % 3 == 0 else 0.0  # nonnegative or not
    costs = low + rng.integers(0, 9, size=(num_states, num_actions)) / 2.0
    more = {"discount": 0.5, "operator": OPERATORS[number % 5]}
    if number % 4 == 1:
        more["terminal"] = np.arange(num_states) == num_states - 1
    if number % 4 == 2:
        more["legal"] = np.arange(num_actions) < rng.integers(
            1, num_actions + 1, size=(num_states, 1)
        )
    if number % 6 == 5:
        more |= {"horizon": 3, "discount": 1.0}
    return P, costs, (low, low + 4.0), more


def pair_of(number):
    """The problem of costs, and the maximizer of their negations."""
    P, costs, (low, high), more = arrays(number)
    return (
        sc.tabular(P, costs, reward_range=(low, high), minimize=True, **more),
        sc.tabular(P, 0.0 - costs, reward_range=(0.0 - high, 0.0 - low), **more),
    )


def sampled_pair(number):
    """The same with steps that know no table."""
    P, costs, (low, high), more = arrays(number)
    sums = P.cumsum(axis=2)
    terminal, legal = more.pop("terminal", None), more.pop("legal", None)

    def cost_step(state, action, rng):
        after = int(np.searchsorted(sums[state, action], rng.random(), side="right"))
        return float(costs[state, action]), min(after, len(costs) - 1)

    def gain_step(state, action, rng):
        cost, after = cost_step(state, action, rng)
        return 0.0 - cost, after

    more |= {"num_actions": costs.shape[1], "initial_state": 0}
    if terminal is not None:
        more["terminal"] = lambda state: bool(terminal[state])
    if legal is not None:
        more["legal"] = lambda state, action: bool(legal[state, action])
    return (
        sc.MDP(cost_step, reward_range=(low, high), minimize=True, **more),
        sc.MDP(gain_step, reward_range=(0.0 - high, 0.0 - low), **more),
    )


def near(cost, gain, slack):
    if math.isnan(cost):
        return math.isnan(gain)
    return abs(cost + gain) <= slack


def assert_negated(costs, gains, slack=0.0):
    """Two estimates: one of costs, one of the gains that are their negations."""
    assert costs.minimize
    assert not gains.minimize
    assert costs.num_calls == gains.num_calls
    assert costs.action == gains.action
    assert near(costs.value, gains.value, slack), (costs.value, gains.value)
    for cost, gain in zip(costs.q_values, gains.q_values, strict=True):
        assert near(cost, gain, slack)
    assert costs.policy == pytest.approx(gains.policy, abs=slack)
    pairs = [] if costs.interval is None else [(costs.interval, gains.interval)]
    assert (costs.interval is None) == (gains.interval is None)
    if costs.certificate is not None:
        pairs += zip(
            costs.certificate.q_intervals, gains.certificate.q_intervals, strict=True
        )
        assert costs.certificate.best_actions == gains.certificate.best_actions
    for (low, high), (gain_low, gain_high) in pairs:
        assert near(low, gain_high, slack)
        assert near(high, gain_low, slack)


@pytest.mark.parametrize("number", range(PROBLEMS))
def test_costs_are_negated_gains(number):
    costs, gains = pair_of(number)
    facts, mirrored = costs.facts, gains.facts
    assert facts.players == (2,)
    assert facts.mirror_image == mirrored
    assert facts.value_bounds(2) == tuple(
        0.0 - x for x in mirrored.value_bounds()[::-1]
    )
    solution, mirror_solution = sc.solve(costs), sc.solve(gains)
    assert solution.minimize
    slack = solution.residual_bound + mirror_solution.residual_bound
    assert np.max(np.abs(solution.values + mirror_solution.values)) <= slack

    def planned(method, pair=(costs, gains), **more):
        return [
            sc.plan(problem, method=method, seed=number, **more) for problem in pair
        ]

    assert_negated(*planned("exact"), slack)
    assert_negated(*planned("certified", budget=200, delta=0.1))
    assert_negated(*planned(TREES[number % 5], budget=150, executor="reference"))
    policy = [1.0 / costs.num_actions] * costs.num_actions
    if costs.legal is None:
        uniform = dict.fromkeys(range(len(solution.values)), policy)
        assert_negated(
            *(sc.evaluate(p, uniform, budget=150, seed=number) for p in (costs, gains))
        )
    if number % 5 != 4:  # the square root's schedule is long
        share = "60%" if costs.horizon is None else "90%"
        promise = {"epsilon": share, "delta": 0.2}
        more = {"executor": EXECUTORS[number % 4]}
        assert_negated(*planned("smoothcruiser", **promise, **more), ROUNDED)


@pytest.mark.parametrize("number", range(0, PROBLEMS, 4))
def test_sampled_costs_are_negated_gains(number):
    pair = sampled_pair(number)
    certified = [
        sc.plan(p, method="certified", budget=250, delta=0.1, seed=1) for p in pair
    ]
    assert_negated(*certified)
    executor = "python" if number % 8 else "reference"
    promise = {"epsilon": "90%", "delta": 0.2, "executor": executor}
    assert_negated(
        *(sc.plan(p, method="smoothcruiser", seed=2, **promise) for p in pair), ROUNDED
    )
    assert_negated(
        *(sc.evaluate(p, lambda state: 0, budget=150, seed=3) for p in pair)
    )


def test_schedules_of_costs_are_mirrored():
    """Equal levels; constants are negated, shifts have the sign of the player already."""
    costs, gains = (
        sc.explain(problem, epsilon="12%", delta=0.1, method="smoothcruiser")
        for problem in pair_of(6)
    )
    assert costs.num_calls == gains.num_calls
    for level, mirrored in zip(costs.levels, gains.levels, strict=True):
        assert (level.kind, level.samples) == (mirrored.kind, mirrored.samples)
        assert level.shift == pytest.approx(mirrored.shift, abs=1e-12)
        assert level.constant == pytest.approx(0.0 - mirrored.constant, abs=1e-12)
    assert {level.kind.name for level in costs.levels} >= {"PLUGIN", "CONSTANT"}
    assert costs.centers == pytest.approx([0.0 - x for x in gains.centers])
    bands = [value_band(x.facts, player) for x, player in ((costs, 2), (gains, 1))]
    declared = [
        replace(facts, total_range=total_range)
        for facts, total_range in (
            (costs.facts, (-3.0, 0.0)),
            (gains.facts, (0.0, 3.0)),
        )
    ]
    prices = [least_price(facts, 0.1, 0.1, "q_values") for facts in declared]
    assert prices[0] == prices[1] != least_price(costs.facts, 1e9, 0.1)
    assert bands[0] == tuple(0.0 - x for x in bands[1][::-1])
