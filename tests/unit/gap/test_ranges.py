"""The most that a path can be worth: against every path of small worlds.

The recursion here is the definition of U and of the walk, written for arrays; the
formulas of ``ranges`` must bound every path of it, and be reached in worlds made for it.
"""

import itertools
import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.duality.machines.gap_rules import (
    CLIP_HIGH,
    CLIP_LOW,
    LOWER,
    POLICY_HIGH,
    POLICY_LOW,
    POLICY_UPPER,
    UPPER,
    VALUE_HIGH,
    VALUE_LOW,
    GapRule,
    count_columns,
)
from smoothcruiser.duality.runs.path_ranges import (
    check_ranges,
    longest_path,
    path_ranges,
    path_weights,
    rounding_losses,
    total_weight,
    value_rows,
)
from smoothcruiser.errors import OracleError

STATES, ACTIONS, NOISES = 3, 2, 2
OPERATORS = (
    sc.Max(),
    sc.Entropy(0.3),
    sc.KL(0.4, prior=(0.2, 0.8)),
    sc.Sparsemax(0.5),
    sc.SquareRoot(0.2),
)


def problem_with(operator, discount=0.9, horizon=3, rewards=(-0.5, 1.0), **more):
    """A problem whose declarations alone matter here."""
    return sc.MDP(
        lambda s, a, rng: (0.0, s, False),
        num_actions=ACTIONS,
        discount=discount,
        horizon=horizon,
        operator=operator,
        reward_range=rewards,
        terminal=True,
        initial_state=0,
        **more,
    )


class SmallWorld:
    """Rewards and next states (-1: an end) by time, state, action, noise; W by time."""

    def __init__(self, rng, problem, rule, steps):
        low, high = problem.reward_range
        shape = (steps, STATES, ACTIONS, NOISES)
        # extremes often, so that ranges are nearly reached
        self.rewards = rng.choice([low, high, rng.uniform(low, high)], size=shape)
        self.next = rng.integers(-1, STATES, size=shape)
        self.clips = np.sort(rng.normal(size=(steps + 1, 2)) * 2.0, axis=1)
        self.values = rng.uniform(self.clips[:, :1], self.clips[:, 1:], (steps + 1, 3))
        at_ends = rng.random(self.values.shape) < 0.6
        sides = rng.integers(2, size=self.values.shape)
        extremes = np.take_along_axis(self.clips, sides, axis=1)
        self.values = np.where(at_ends, extremes, self.values)
        self.policy = rng.dirichlet(np.ones(ACTIONS), size=(steps, STATES))
        self.problem, self.rule, self.steps = problem, rule, steps

    def times(self):
        """Clips and the declared bounds."""
        num_rows = self.steps + 1
        times = value_rows(self.problem, self.problem.horizon, num_rows)
        times[:, [CLIP_LOW, CLIP_HIGH]] = self.clips
        if self.rule.fixed and self.rule.ends_at_horizon:
            times[-1] = 0.0
            self.values[-1] = 0.0
        return times

    def worth(self, t, state):
        return 0.0 if state < 0 else self.values[t, state]

    def estimate(self, t, state, action, inner):
        nxt = self.next[t, state, action, inner]
        reward = self.rewards[t, state, action, inner]
        return reward + self.rule.discount * self.worth(t + 1, nxt)

    def upper(self, times, noise, inner, length, sign):
        """U of one path; ``sign`` -1: the minimizer is relaxed."""
        rule, weights = self.rule, path_weights(self.rule, self.steps + 2)
        column = VALUE_HIGH if sign > 0 else VALUE_LOW
        scores = [{0: 0.0}]
        for t in range(length):
            layer = {}
            for state, score in scores[t].items():
                if t > 0 and score >= rule.upper_cut:
                    continue
                for a in range(ACTIONS):
                    nxt = self.next[t, state, a, noise[t]]
                    gain = self.estimate(t, state, a, inner[t]) - self.worth(t, state)
                    if nxt >= 0:
                        new = score + sign * weights[t] * gain
                        layer[nxt] = max(layer.get(nxt, -math.inf), new)
            scores.append(layer)
        operator, below = self.problem.operator, {}
        for t in range(length, -1, -1):
            layer = {}
            for state, score in scores[t].items():
                if t == length or (t > 0 and score >= rule.upper_cut):
                    layer[state] = times[t, column]
                    continue
                x = []
                for a in range(ACTIONS):
                    nxt = self.next[t, state, a, noise[t]]
                    number = self.estimate(t, state, a, inner[t])
                    is_dead = not rule.fixed and t == length - 1
                    if nxt >= 0 and not is_dead:
                        factor = rule.discount if t < rule.head else 1.0
                        number += factor * (below[nxt] - self.worth(t + 1, nxt))
                    x.append(number)
                layer[state] = operator.value(x, player=1 if sign > 0 else 2)
            below = layer
        return below[0]

    def walk(self, times, noise, inner, length, actions, sign):
        """(cut below, cut above) of the policy's walk for player 1 or 2."""
        rule, weights = self.rule, path_weights(self.rule, self.steps + 2)
        operator = self.problem.operator
        prior = operator.weights(ACTIONS)
        state, x, low, high = 0, self.worth(0, 0), None, None
        for t in range(length):
            score = x - self.worth(0, 0)
            value = self.worth(t, state)
            if t > 0 and score <= -rule.lower_cut and low is None:
                low = x + weights[t] * (times[t, POLICY_LOW] - value)
            if t > 0 and score >= rule.lower_cut and high is None:
                high = x + weights[t] * (times[t, POLICY_HIGH] - value)
            p = self.policy[t, state].tolist()
            omega = sign * operator.omega(p, prior)
            income = sum(
                p[a] * self.estimate(t, state, a, inner[t]) for a in range(ACTIONS)
            )
            x += weights[t] * (income - omega - value)
            state = self.next[t, state, actions[t], noise[t]]
            if state < 0 or (not rule.fixed and t == length - 1):
                break
        else:
            tail = weights[length] * self.worth(length, state)
            ends = weights[length] * times[length, [POLICY_LOW, POLICY_HIGH]] - tail
            low = x + ends[0] if low is None else low
            high = x + ends[1] if high is None else high
        return x if low is None else low, x if high is None else high


def check_world(world, lengths, sign=1):
    """All paths of a world lie in its ranges; the share of the upper one reached."""
    rule, problem = world.rule, world.problem
    times = world.times()
    ranges = path_ranges(problem, rule, times, world.worth(0, 0))
    reached = -math.inf
    for length in lengths:
        for noise in itertools.product(range(NOISES), repeat=length):
            inner = [(3 * t + sum(noise)) % NOISES for t in range(length)]
            x = world.upper(times, noise, inner, length, sign)
            assert x <= ranges.upper if sign > 0 else x >= ranges.lower
            reached = max(reached, sign * x)
            low, high = world.walk(times, noise, inner, length, noise, sign)
            assert ranges.walk_lower <= low
            assert high <= ranges.walk_upper
            if sign > 0:
                assert low >= ranges.lower
                assert x - low <= ranges.gap
            else:
                assert high <= ranges.upper
                assert high - x <= ranges.gap
    return reached


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
@pytest.mark.parametrize("form", ["horizon", "truncated", "killed"])
def test_no_path_of_small_worlds_leaves_its_range(operator, form):
    rng = np.random.default_rng(len(form) + len(operator.name))
    for _ in range(12):
        discount = float(rng.choice([0.5, 0.9]))
        cut = float(rng.choice([0.0, 0.3, 2.0, math.inf]))
        rule = GapRule(discount, 3, upper_cut=cut, lower_cut=cut)
        lengths, steps, horizon = (3,), 3, 3
        if form != "horizon":
            horizon = None
            rule = rule._replace(ends_at_horizon=False)
        if form == "killed":
            rule = rule._replace(fixed=False, head=1)
            lengths, steps = (2, 4), 4
        problem = problem_with(operator, discount, horizon)
        world = SmallWorld(rng, problem, rule, steps)
        if horizon is None:  # nothing is known of later times
            world.clips[:] = world.clips.min(), world.clips.max()
        check_world(world, lengths)


def test_a_minimizer_has_the_mirror_image():
    rng = np.random.default_rng(9)
    for operator in OPERATORS[:2]:
        for _ in range(8):
            rule = GapRule(0.9, 3, upper_cut=0.5, lower_cut=0.5, relaxed=2)
            game = sc.Game(
                lambda s, a, rng: (0.0, s, False),
                player=lambda s: 2,
                num_actions=ACTIONS,
                discount=0.9,
                horizon=3,
                operator=operator,
                reward_range=(-0.5, 1.0),
                terminal=True,
                initial_state=0,
            )
            check_world(SmallWorld(rng, game, rule, 3), (3,), sign=-1)


def made_to_reach(cut_excess):
    """A world whose only path stays just below c, gains the most, and is cut."""
    problem = problem_with(sc.Max(), 1.0, 3, (0.0, 1.0))
    rule = GapRule(1.0, 3, upper_cut=1.0 + cut_excess, lower_cut=math.inf)
    world = SmallWorld(np.random.default_rng(0), problem, rule, 3)
    world.clips[:] = [[0, 0], [-1, 1], [-1, 1], [0, 0]]
    # inner sample 1 sees state 1, where W is high; the noise 0 leads to state 2
    world.values[:] = [[0] * 3, [0, 1, -1], [0, 1, -1], [0] * 3]
    world.rewards[:], world.next[:, :, :, 0], world.next[:, :, :, 1] = 1.0, 2, 1
    world.rewards[0] = 0.0  # the first step: 0 + W(1) - W_0 = 1
    times = world.times()
    upper = world.upper(times, (0, 0, 0), (1, 1, 1), 3, 1)
    return upper, path_ranges(problem, rule, times, 0.0).upper


def test_the_range_is_reached():
    upper, nu = made_to_reach(1e-9)
    # c, then 1 + 1 + 1 of the step, then Vbar - W = 1 + 1 at the cut, or more
    assert upper <= nu
    assert upper == pytest.approx(1.0 + 3.0 + 2.0)
    assert nu == pytest.approx(upper, abs=1e-6)


def test_positive_parts_are_needed_where_a_step_may_end():
    problem = problem_with(sc.Max(), 0.9, None, (0.0, 0.0))
    rule = GapRule(0.9, 1, ends_at_horizon=False, upper_cut=0.0)
    times = value_rows(problem, None, 2)
    times[:, CLIP_LOW] = times[:, CLIP_HIGH] = 10.0
    # W is 10, Vbar 0. The noise ends, the inner sample goes on: U = Qhat = 9, though
    # the formula without positive parts says 10 - 1 - 9 = 0
    assert 9.0 <= path_ranges(problem, rule, times, 10.0).upper <= 10.0 + 1e-9


def test_the_formulas_by_hand():
    """Three steps at discount 1/2, W in [-1, 2], W_0 = 1; bounds are wide at t = 2."""
    log2, times = math.log(2.0), np.zeros((4, 6))
    times[:3] = (-1.0, 2.0, -1.0, 0.0, -1.0, 0.0)
    times[2, 2:] = (-15.0, 20.0, -20.0, 19.0)
    rule = GapRule(0.5, 3, upper_cut=0.5, lower_cut=0.25)
    for operator, lift, low_omega, high_omega in (
        (sc.Max(), 0.0, 0.0, 0.0),
        (sc.Entropy(0.3), 0.3 * log2, -0.3 * log2, 0.0),
        (sc.KL(0.4, prior=(0.25, 0.75)), 0.0, 0.0, 0.8 * log2),
    ):
        ranges = path_ranges(problem_with(operator, 0.5, 3), rule, times, 1.0)
        assert ranges.is_cut
        # t = 2: .5 (1 + .5 2 + 1) + .25 (20 + 1)
        assert ranges.upper == pytest.approx(1.0 + 0.5 + 6.75 + 1.75 * lift)
        # .5 (1 + .5 2 + 1 - low) + .25 (19 + 1)
        assert ranges.walk_upper == pytest.approx(1.0 + 0.25 + 6.5 - 0.5 * low_omega)
        # .5 (2 + .5 + .5 1 + high) + .25 (2 + 20)
        assert ranges.walk_lower == pytest.approx(1.0 - 0.25 - 7.0 - 0.5 * high_omega)
        assert ranges.gap == pytest.approx(ranges.upper - ranges.lower)
        every_walk = path_ranges(
            problem_with(operator, 0.5, 3),
            rule._replace(walks_every_action=True),
            times,
            1.0,
        )
        more = ranges.walk_lower - every_walk.walk_lower
        assert more == pytest.approx(high_omega)
        more = every_walk.walk_upper - ranges.walk_upper
        assert more == pytest.approx(-low_omega)
    # without a cut: (1 + .5 2 - W_0) + .5 (1 + .5 2 + 1) + .25 (20 + 1)
    open_rule = rule._replace(upper_cut=math.inf)
    ranges = path_ranges(problem_with(sc.Max(), 0.5, 3), open_rule, times, 1.0)
    assert ranges.upper == pytest.approx(1.0 + 1.0 + 1.5 + 5.25)
    ranges = path_ranges(problem_with(sc.Entropy(0.3), 0.5, 3), open_rule, times, 1.0)
    assert ranges.upper == pytest.approx(1.0 + 1.0 + 1.5 + 5.25 + 1.5 * 0.3 * log2)
    assert not ranges.is_cut


def test_the_longest_killed_path_and_its_weight():
    rule = GapRule(0.9, 5, fixed=False, ends_at_horizon=False)
    longest = longest_path(rule)
    assert longest >= 5 + 1 + math.floor(math.log(2.0**-53) / math.log(0.9))
    weight = float(path_weights(rule, longest).sum())
    assert weight <= total_weight(rule) <= weight * (1 + 1e-9)


def test_rows_of_bounds_follow_the_steps_left():
    problem = problem_with(sc.Max(), 1.0, 3, (0.0, 2.0), value_bounds=(1.0, 5.0))
    times = value_rows(problem, 3, 4)
    assert times[:, VALUE_HIGH].tolist() == [5.0, 4.0, 2.0, 0.0]
    # a declared bound on V from below says nothing of a policy
    assert times[:, POLICY_LOW].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert times[0, VALUE_LOW] == 1.0


def test_a_path_beyond_its_range_is_an_error_that_names_the_declaration():
    problem = problem_with(sc.Max(), 1.0, 3, (0.0, 2.0))
    rule = GapRule(1.0, 3, upper_cut=1.0, lower_cut=1.0)
    times = value_rows(problem, 3, 4)
    times[:, CLIP_LOW] = times[:, CLIP_HIGH] = 0.0
    ranges = path_ranges(problem, rule, times, 0.0)
    rows = np.zeros((2, count_columns(ACTIONS)))
    losses = rounding_losses(problem, rule, times, ranges, rows)
    assert 0.0 < losses.max() < 1e-10
    check_ranges(rows, losses, ranges, rule)
    for column, number in (
        (UPPER, ranges.upper + 1e-6),
        (LOWER, ranges.lower - 1e-6),
        (POLICY_UPPER, ranges.walk_upper + 1e-6),
    ):
        bad = rows.copy()
        bad[1, column] = number
        with pytest.raises(OracleError, match="reward_range"):
            check_ranges(bad, losses, ranges, rule)
    rows[0, UPPER] = math.nan
    with pytest.raises(OracleError, match="nan"):
        check_ranges(rows, losses, ranges, rule)
