"""What rounding adds to a box is in the interval: values in exact fractions lie inside."""

import random
from fractions import Fraction
from functools import cache

import pytest
from tree_worlds import BOARD, SURE, mdp

import smoothcruiser as sc

SCALES = (0.1, 1e99, 1e16, 5e-324, 1e-310)
UCT = sc.UCT(solve=True)


def walk(rewards, *, actions=1, low=None, discount=1.0):
    """A walk through ``rewards``, whichever action is taken."""
    return mdp(
        lambda s, a, rng: (rewards[s], s + 1),
        num_actions=actions,
        discount=discount,
        horizon=len(rewards),
        reward_range=(min(rewards) if low is None else low, max(rewards)),
        deterministic=True,
    )


def holds(interval, value):
    return Fraction(interval[0]) <= value <= Fraction(interval[1])


@pytest.mark.parametrize("budget", [12, 200])
def test_what_the_rewards_allow_is_rounded_too(budget):
    """Ten tenths are a little more than 1 and the product says 1, with no play ended."""
    tenths = walk([0.1] * 10, actions=2, low=0.0)
    interval = sc.plan(tenths, method=UCT, budget=budget).interval
    assert holds(interval, 10 * Fraction(0.1))
    certain = walk([0.1] * 3, discount=0.9)  # one reward: known before the first call
    exact = Fraction(0.1) * sum(Fraction(0.9) ** t for t in range(3))
    assert holds(sc.plan(certain, method=UCT, budget=5).interval, exact)


def test_room_for_rounding_is_that_of_the_largest_sums():
    """Rewards of 0.1 and then -0.1: sums below the root are larger than its value."""
    there_and_back = walk([0.1] * 100 + [-0.1] * 100, low=-1.0)
    method = sc.UCT(solve=True, expansion=None)
    low, high = sc.plan(there_and_back, method=method, budget=900).interval
    assert low <= 0.0 <= high
    assert 0.0 < high - low < 1e-9


def world(seed):
    """A random game of some scale, its steps, and its values in fractions."""
    rnd = random.Random(seed)
    scale, size = rnd.choice(SCALES), rnd.randint(2, 5)
    after = [[rnd.randrange(size) for _ in range(2)] for _ in range(size)]
    units = (-1, 0, 1, 3, 1e-16)
    reward = [[scale * rnd.choice(units) for _ in range(2)] for _ in range(size)]
    discount, horizon = rnd.choice((0.0, 0.3, 0.5, 0.9, 1.0)), rnd.randint(1, 5)
    mover = [rnd.choice((1, 2)) for _ in range(size)]

    @cache
    def q(state, action, left):
        later = value(after[state][action], left - 1)
        return Fraction(reward[state][action]) + Fraction(discount) * later

    @cache
    def value(state, left):
        best = max if mover[state] == 1 else min
        return best(q(state, a, left) for a in (0, 1)) if left else Fraction(0)

    game = sc.Game(
        lambda s, a, rng: (reward[s][a], after[s][a]),
        player=lambda s: mover[s],
        num_actions=2,
        discount=discount,
        horizon=horizon,
        operator=sc.Max(),
        reward_range=(-3 * scale, 3 * scale),
        initial_state=0,
        deterministic=True,
    )
    return game, horizon, value, q


def test_random_worlds_of_every_scale_hold_their_exact_values():
    """Sums of huge, tiny and cancelling rewards, at five discounts and four times."""
    for seed in range(80):
        game, horizon, value, q = world(seed)
        tree = sc.Tree(game, method=UCT, seed=seed)
        for calls in (1, 3, 10, 100):
            tree.grow(calls=calls)
            if not any(tree.node(0).edge_visits):
                continue
            found = tree.estimate().certificate
            assert holds(found.interval, value(0, horizon))
            for a in (0, 1):
                assert holds(found.q_intervals[a], q(0, a, horizon))


def test_short_numbers_and_declared_totals_leave_no_width():
    halves = walk([0.5, -0.25, 3.0], low=-1.0)
    assert sc.plan(halves, method=UCT, budget=50).interval == (3.25, 3.25)
    pays = {"horizon": 3, "reward_range": (0.0, 0.3)}
    ends = sc.MDP(lambda s, a, rng: (0.3 * (s == 2), s + 1, s == 2), **(BOARD | pays))
    assert sc.plan(ends, method=UCT, budget=200).interval == (0.3, 0.3)


def test_long_sums_are_no_broken_claim():
    """A hundred thousand tenths add up to 2e-12 more than their product, relatively."""
    steps, total = 100_000, 0.0
    for _ in range(steps):
        total += 0.1
    slack = sc.Tree(walk([0.1] * steps, low=0.0), method=UCT).setting.slack
    assert steps * 0.1 * (1.0 + 1e-12) < total < steps * 0.1 + slack


def test_a_tree_that_met_a_contradiction_proves_nothing():
    liar = mdp(lambda s, a, rng: (0.0, s + 1, rng.random() < 0.5), horizon=6, **SURE)
    tree = sc.Tree(liar, method=UCT)
    for ask in (lambda: tree.grow(simulations=500), tree.estimate):
        with pytest.raises(sc.OracleError, match="had two outcomes"):
            ask()
