"""Killed paths: their mean is the value whatever head and control variate are, cuts move
it to their side and stay in range, and short paths are not preferred.
"""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.evaluation import evaluate, path_fitting, path_rules
from smoothcruiser.evaluation import path_sampling as sampling
from smoothcruiser.evaluation.evaluate import rollout_setting
from smoothcruiser.evaluation.path_fitting import Fit, Stakes
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts
from smoothcruiser.evaluation.rollouts import RolloutTask

GAMMA, QUIT = 0.6, 0.2
STEPS_SEEN = 60  # 0.6^60 < 1e-13


class Luck:
    """Coins that fall as they are told."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def walk(state, action, rng):
    """A reward that depends on the step; the episode ends with probability 1/5."""
    return reward(state), state + 1 if rng.random() >= QUIT else -1


def reward(step):
    return -1.0 - (step % 3)


def world(step=walk, **more):
    facts = {"num_actions": 1, "discount": GAMMA, "operator": sc.Max()}
    facts |= {"reward_range": (-3.0, 0.0), "terminal": lambda state: state == -1}
    return mdp(step, **facts | more)


class Script:
    """Paths of chosen lengths and ends, as a rule counts them."""

    def __init__(self, rule):
        self.rule, self.last, self.samples = rule, -1, {}
        self.rollouts = plain(world(self.step))

    def step(self, state, action, rng):
        return reward(state), -1 if state == self.last else state + 1

    def sample(self, length, end, ended):
        """The sample of a path of so many steps at most, of which ``end`` are played.

        A path that ended does not depend on the steps that might have followed.
        """
        length = max(self.rule.head + 1, min(length, end + 1))
        if (length, end, ended) not in self.samples:
            self.samples[length, end, ended] = self._play(length, end, ended)
        return self.samples[length, end, ended]

    def _play(self, length, end, ended):
        self.last = end - 1 if ended else -1
        self.rollouts.coins = Luck(1.0 - GAMMA ** (length - self.rule.head - 0.5))
        (row,) = self.rollouts.run_paths(1, 10**9, self.rule)
        assert row[path_rules.STEPS] == end
        return row


def expected(rule):
    """Means of X, LOWER and UPPER by all paths, and the extremes of the last two."""
    means, least, most = [0.0, 0.0, 0.0], math.inf, -math.inf
    script = Script(rule)
    for length in range(rule.head + 1, STEPS_SEEN):
        lives = GAMMA ** (length - rule.head - 1) * (1.0 - GAMMA)
        # ends with this step, or is killed at the last
        for end in range(1, length + 1):
            goes_on = (1.0 - QUIT) ** (end - 1)
            for ended in (True, False) if end == length else (True,):
                chance = lives * goes_on * (QUIT if ended else 1.0 - QUIT)
                row = script.sample(length, end, ended)
                for k, column in enumerate(
                    (path_rules.X, path_rules.LOWER, path_rules.UPPER)
                ):
                    means[k] += chance * row[column]
                least, most = (
                    min(least, row[path_rules.LOWER]),
                    max(most, row[path_rules.UPPER]),
                )
    return means, least, most


TRUTH = sum((GAMMA * (1.0 - QUIT)) ** t * reward(t) for t in range(200))


@pytest.mark.parametrize("head", [0, 1, 4])
@pytest.mark.parametrize("control", [0.0, -3.4, 2.5])
def test_the_mean_is_the_value_and_cuts_move_it_to_their_side(head, control):
    stakes = Stakes(world(), None)
    free = path_rules.PathRule(head, False, GAMMA, control)
    means, _, _ = expected(free)
    assert means == pytest.approx([TRUTH] * 3, abs=1e-10)
    cut = free._replace(
        floor=min(control, TRUTH) - 1.0,
        ceiling=max(control, TRUTH) + 0.3,
        value_low=stakes.values[0],
        value_high=stakes.values[1],
    )
    (x, lower, upper), least, most = expected(cut)
    assert x == pytest.approx(TRUTH, abs=1e-10)
    assert lower < TRUTH - 1e-6  # some paths are cut
    assert upper >= TRUTH - 1e-10
    bottom, top = stakes.range_of(cut)
    assert bottom <= least
    assert most <= top


def test_poles_lie_beyond_the_range_and_rules_leave_room():
    """Whatever a fit says, no path can reach a pole."""
    stakes = Stakes(world(), None)
    for head in stakes.heads():
        for fit in (Fit(-3.0, -3.2, 0.5, 2.0), Fit(0.0, -7.0, 0.0, 2.0)):
            for count in (1.0, 1e3, 1e6):
                rule = stakes.rule(head, fit, count, 3.0)
                low, high = stakes.range_of(rule)
                below, above = stakes.poles(rule, fit, count, 3.0)
                assert below < low <= stakes.values[0]
                assert stakes.values[1] <= high < above


def test_lengths_are_geometric_after_the_head():
    rule = path_rules.PathRule(3, False, 0.9)
    count = 20_000
    luck = Luck(*((k + 0.5) / count for k in range(count)))
    lengths = np.array([path_rules.path_length(rule, luck) for _ in range(count)])
    assert lengths.min() == 4
    for more in (1, 2, 10, 40):
        assert np.mean(lengths >= 3 + more) == pytest.approx(
            0.9 ** (more - 1), abs=1e-4
        )
    assert path_rules.path_length(path_rules.PathRule(7, True, 0.9), Luck()) == 7
    assert path_rules.path_length(path_rules.PathRule(0, False, 0.0), Luck()) == 1
    longest = path_rules.path_length(rule, Luck(1.0 - 2.0**-53))
    assert longest <= 37.0 / 0.1 + 4.0


def plain(problem, seed=5):
    task = RolloutTask(problem, 0, rollout_setting(problem, path_rules.LONGEST), seed)
    return PlainRollouts(task, lambda: lambda state, action: [1.0])


def test_a_budget_leaves_the_beginning_of_a_fixed_order():
    """The path under way is dropped with all later ones, the short ones among them."""
    problem = world(lambda s, a, r: (-1.0, s), terminal=None, discount=0.9)
    rule = path_rules.PathRule(0, False, 0.9)
    whole = plain(problem).run_paths(60, 10**9, rule)
    lengths = whole[:, path_rules.STEPS].astype(int)
    turns = 0
    for budget in range(1, 300, 7):
        part = plain(problem).run_paths(60, budget, rule)
        finished = int(np.searchsorted(np.cumsum(lengths), budget, side="right"))
        assert np.array_equal(part, whole[:finished])
        left = budget - lengths[:finished].sum()
        turns += bool((lengths[finished : finished + 3] <= left).any())
    assert turns > 5  # a later path would often have fitted in


@pytest.mark.parametrize("discount", [0.95, 0.99])
def test_a_constant_cost_is_worth_what_it_is(discount):
    """The estimate was -29.7 for -20, and -148.6 for -100."""
    known = {"discount": discount, "reward_range": (-100.0, 0.0)}
    problem = world(lambda s, a, r: (-1.0, s), terminal=None, **known)
    answer = sc.evaluate(problem, lambda state: [1.0], budget=20_000)
    truth = -1.0 / (1.0 - discount)
    assert answer.value == pytest.approx(truth, rel=1e-9)
    assert abs(answer.value - truth) <= 4.0 * answer.standard_error <= 1e-6
    assert answer.interval[0] <= truth <= answer.interval[1]
    assert "All rollouts agreed" in answer.notes[-1]


def test_a_sure_world_is_cut_where_nothing_is_left_to_see():
    """Declared deterministic: the value is that of the steps played, carried on."""
    problem = world(
        lambda s, a, r: (-1.0, s), terminal=None, discount=0.95, deterministic=True
    )
    answer = sc.evaluate(problem, lambda state: [1.0], budget=10_000)
    assert answer.value == pytest.approx(-20.0, rel=1e-12)
    assert answer.standard_error is None
    assert answer.interval[0] <= -20.0 <= answer.interval[1]
    assert answer.epsilon <= 1e-4 * 60.0
    ends = {"terminal": lambda s: s == 5, "discount": 0.5, "deterministic": True}
    sure = world(lambda s, a, r: (-1.0, s + 1), **ends)
    answer = sc.evaluate(sure, lambda state: [1.0], budget=10_000)
    assert (answer.value, answer.standard_error) == (-1.9375, 0.0)


@pytest.mark.compiles
def test_few_paths_have_no_usual_error():
    """Two calls finish two paths of one step, which agree on 1; the value is 20/11."""
    P, R = np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), np.array([[1.0], [0.0]])
    over = [False, True]
    world = sc.tabular(P, R, discount=0.9, operator=sc.Max(), terminal=over)
    short = sc.evaluate(world, np.ones((2, 1)), budget=2, seed=0)
    assert short.value == 1.0
    assert short.standard_error is None
    assert sc.evaluate(world, np.ones((2, 1)), budget=200).standard_error > 0.01


def test_without_a_limit_plain_python_answers_in_seconds_and_says_so(monkeypatch):
    assert evaluate.DEFAULT_CALLS["reference"] <= 100_000  # some 20 us each
    monkeypatch.setitem(evaluate.DEFAULT_CALLS, "reference", 2000)
    monkeypatch.setattr(sampling, "WARNED_FROM", 0.0)
    monkeypatch.setattr(sampling, "LONG_SECONDS", 0.0)
    coin = mdp(lambda s, a, rng: (rng.random(), s), discount=0.9, operator=sc.Max())
    with pytest.warns(UserWarning, match="2,000 calls where no limit is set") as told:
        answer = sc.evaluate(coin, lambda s: 0)
    assert len(told) == 1
    assert answer.num_calls <= 2000
    assert "No limit was set" in answer.notes[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limited = sc.evaluate(coin, lambda s: 0, budget=2000)
        sc.evaluate(coin, lambda s: 0, progress=lambda news: None)
    assert limited.interval == answer.interval
    assert "No limit was set" not in " ".join(limited.notes)


def test_two_samples_by_hand():
    """alpha = 1/4, pole -1: (v + 1)^2 >= 2 * 1.5/4 wherever (1 - (-1))(0.5 - (-1)) = 3."""
    bound = path_fitting.MeanBound(0.25, -0.5, 10.0)
    bound.begin_era(-1.0)
    bound.take(np.array([1.0, 0.5]))
    assert bound.raise_low() == pytest.approx(math.sqrt(3.0 / 4.0) - 1.0, abs=1e-9)


def test_eras_multiply():
    """A second pole: (v + 1)(v + 2) = 2 * 3/alpha^-1 with samples 1 and 1."""
    bound = path_fitting.MeanBound(0.5, -0.9, 10.0)
    for pole in (-1.0, -2.0):
        bound.begin_era(pole)
        bound.take(np.array([1.0]))
    low = bound.raise_low()
    assert (low + 1.0) * (low + 2.0) == pytest.approx(2.0 * 3.0 * 0.5, abs=1e-9)


def test_it_holds_at_every_count_at_once():
    """400 sequences of 400 skewed samples at alpha = 0.1, poles from the past: more than
    60 that ever miss would have probability below 1e-3. Of bets on twice the sample more
    than half miss.
    """
    assert binom.sf(60, 400, 0.1) < 1e-3
    rng = np.random.default_rng(3)
    for scale, allowed in ((1.0, range(61)), (2.0, range(200, 401))):
        missed = 0
        for _ in range(400):
            samples = scale * (rng.random(400) < 0.1)
            bound = path_fitting.MeanBound(0.1, 0.0, 2.0)
            for begin, end in ((0, 20), (20, 100), (100, 400)):
                before = samples[:begin] if begin else np.array([0.5, 0.1])
                sd, mean = float(before.std()), float(before.mean())
                distance = path_fitting.pole_distance(mean, sd, 400.0, bound.level)
                bound.begin_era(min(0.0, mean - distance) - 1e-9)
                for first in range(begin, end, 100):
                    bound.take(samples[first : min(end, first + 100)])
                    bound.raise_low()
            missed += bound.low > 0.1
        assert missed in allowed


def test_constant_samples_are_soon_believed():
    """The width falls like 1/n without variance, and as the forecast says."""
    widths = []
    for n in (100, 1000):
        bound = path_fitting.MeanBound(0.05, 0.0, 1.0)
        bound.begin_era(0.3 - path_fitting.pole_distance(0.3, 0.0, n, bound.level))
        bound.take(np.full(n, 0.3))
        widths.append(0.3 - bound.raise_low())
        assert widths[-1] == pytest.approx(
            path_fitting.forecast_width(0.3, 0.0, n, bound.level), rel=0.05
        )
    assert widths[1] < widths[0] / 9.0


def test_a_sample_at_its_pole_ends_the_bets_and_no_bound():
    bound = path_fitting.MeanBound(0.05, 0.0, 1.0)
    bound.begin_era(0.0)
    bound.take(np.array([0.9, 0.0, 0.9]))
    assert bound.raise_low() == 0.0
