"""Corrections against the truth (docs/randomized.md, R1-R4).

Samples are Bernoulli, so both means live on a grid of binomial outcomes and every
expectation is a finite sum, exact to rounding. Pathwise inequalities are attacked by
random search and by an optimizer, with two to ten actions.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.engines.root_scores import add_scores
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.stopping_rule import StoppingRule, stopping_rule
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.theory import randomized
from smoothcruiser.theory.noise import OperatorRule
from smoothcruiser.theory.stopping import line_radius, line_slope, root_radius

SMOOTH = [
    sc.Entropy(0.3),
    sc.Entropy(1.0),
    sc.KL(0.5, (0.2, 0.8)),
    sc.SquareRoot(0.6),
    sc.Sparsemax(0.7319),
]


def both(operator: sc.Operator, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(F, policy) of every row."""
    weights = operator.weights(q.shape[1])
    found = [operator.both(list(row), weights) for row in q]
    values, policies = zip(*found, strict=True)
    return np.array(values), np.array(policies)


class Pair:
    """Everything about two means q', q'' that the lemmas bound, row by row."""

    def __init__(self, operator: sc.Operator, first: np.ndarray, second: np.ndarray):
        average = 0.5 * (first + second)
        sides = [(q, *both(operator, q)) for q in (average, first, second)]
        (_, f, pi), (_, f1, pi1), (_, f2, pi2) = sides
        self.delta = pi - 0.5 * pi1 - 0.5 * pi2
        self.norm = np.abs(self.delta).sum(axis=1)
        losses = [f - value - ((average - q) * p).sum(axis=1) for q, value, p in sides]
        self.loss = 0.5 * losses[1] + 0.5 * losses[2]
        self.bracket = 0.5 * f1 + 0.5 * f2 - f
        self.average = average
        apart = first - second
        self.span = apart.max(axis=1) - apart.min(axis=1)


# --- R2: pathwise ----------------------------------------------------------------


def limits(rule: OperatorRule, span: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(bound on |delta|, bound on B and on the plug-in's bracket)."""
    two = rule.num_actions == 2
    norm = np.minimum(rule.curvature / (8 if two else 4) * span, 1.0 if two else 2.0)
    norm = np.minimum(norm, rule.bend * np.maximum(span, 1e-9) ** 2)
    return norm, np.minimum(rule.curvature * span**2 / 32.0, span / 4.0)


def ratios(
    operator: sc.Operator, first: np.ndarray, second: np.ndarray
) -> list[float]:
    """The largest ratios of truth to bound: |delta|, B, the bracket."""
    rule = OperatorRule.of(operator, first.shape[1])
    pair = Pair(operator, first, second)
    norm, size = limits(rule, pair.span)
    fine = pair.span > 1e-3
    return [
        float(np.max(x[fine] / y[fine], initial=0.0))
        for x, y in ((pair.norm, norm), (pair.loss, size), (pair.bracket, size))
    ]


@pytest.mark.parametrize("k", [2, 3, 5, 10])
@pytest.mark.parametrize(
    "operator", [sc.Entropy(1.0), sc.SquareRoot(1.0), sc.Sparsemax(1.0)]
)
def test_path_inequalities_hold(operator, k):
    rng = np.random.default_rng(k)
    shape = (400, k)
    for scale in (0.3, 2.0, 12.0):
        first, second = rng.normal(size=shape), rng.normal(size=shape)
        # half of the pairs have two values only, which are the worst ones
        first[::2], second[::2] = np.sign(first[::2]), np.sign(second[::2])
        offset = 2.0 * rng.normal(size=shape)
        found = ratios(operator, offset + scale * first, offset + scale * second)
        assert max(found) <= 1.0 + 1e-7
        assert min(found) > 0.01  # the search is no empty one


@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_bend_of_entropy_is_attained(k):
    """An optimizer comes within a percent of the second-order bound, never above."""
    operator = sc.Entropy(1.0)

    def lost(x: np.ndarray) -> float:
        q, d = x[None, :k], x[None, k:]
        span = d.max() - d.min()
        step = 0.5 * d * (0.3 / max(span, 1e-9))  # Delta = 0.3
        return -ratios(operator, q + step, q - step)[0]

    rng = np.random.default_rng(0)
    best = min(
        minimize(lost, rng.normal(size=2 * k), method="Powell", tol=1e-4).fun
        for _ in range(2)
    )
    assert 0.98 <= -best <= 1.0 + 1e-9


@pytest.mark.parametrize("k", [3, 4, 10])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 20.0])
def test_even_policies_have_smaller_brackets(k, temperature):
    """B and the plug-in's bracket are at most M d'Pd/(8 lambda), all values in [0, 1]."""
    operator, rng = sc.Entropy(temperature), np.random.default_rng(k)
    first, second = rng.uniform(size=(2, 600, k))
    first[::2], second[::2] = np.round(first[::2]), np.round(second[::2])
    pair, d = Pair(operator, first, second), first - second
    energy = ((d - d.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    most = randomized.largest_chance(OperatorRule.of(operator, k), 1.0)
    fine = energy > 1e-6
    size = most * energy[fine] / (8.0 * temperature)
    worst = max(np.max(x[fine] / size) for x in (pair.loss, pair.bracket))
    assert worst <= 1.0 + 1e-9
    assert temperature < 20.0 or worst > 0.9  # nearly attained


# --- R1, R3, R4: exactly -----------------------------------------------------------


def outcomes(p: tuple[float, ...], m: int) -> tuple[np.ndarray, np.ndarray]:
    """(weights, means) of all outcomes of a mean of m coins per action."""
    grid = np.array(list(itertools.product(range(m + 1), repeat=len(p))))
    weight = np.prod([binom.pmf(grid[:, a], m, x) for a, x in enumerate(p)], axis=0)
    return weight, grid / m


def pairs(p: tuple[float, ...], m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(weights, q', q'') of all pairs of outcomes."""
    weight, means = outcomes(p, m)
    i, j = np.indices((len(weight), len(weight))).reshape(2, -1)
    return weight[i] * weight[j], means[i], means[j]


LAWS = [(0.5, 0.5), (0.1, 0.1), (0.5, 0.05), (0.5, 0.5, 0.5), (0.2, 0.8, 0.5)]


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("law", LAWS)
def test_moments_of_the_distance_hold_exactly(law, m):
    weight, first, second = pairs(law, min(m, 2) if len(law) == 3 else m)
    m = min(m, 2) if len(law) == 3 else m
    variance = max(p * (1.0 - p) for p in law)
    bounds = randomized.span_moments(len(law), np.array([float(m)]), 1.0, variance)
    center = 2.0 * np.array(law)
    for d in (first - second, first + second - center):
        span = d.max(axis=1) - d.min(axis=1)
        for power, bound in zip((2, 4, 6), bounds, strict=True):
            truth = float(weight @ span**power)
            assert truth <= bound[0] * (1.0 + 1e-9)
    if len(set(law)) == 1 and len(law) == 2:  # both actions have the largest variance
        d = (first - second) @ np.array([1.0, -1.0])
        assert float(weight @ d**2) == pytest.approx(bounds.second[0])
        assert float(weight @ d**4) == pytest.approx(bounds.fourth[0])


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("operator", SMOOTH, ids=lambda o: f"{o.name} {o.strength:g}")
def test_second_moments_of_corrections_hold_exactly(operator, m):
    """A sampled correction with its signed action and a two-point continuation."""
    worst = 0.0
    for law, gap in itertools.product(
        [(0.5, 0.5), (0.1, 0.1), (0.4, 0.05)], (0, 0.4, 2)
    ):
        weight, first, second = pairs(law, m)
        # an action that is better by a gap: its samples are shifted, their law is not
        shift = np.array([0.0, float(gap)])
        pair = Pair(operator, first + shift, second + shift)
        variance = max(p * (1.0 - p) for p in law)
        rule = OperatorRule.of(operator, 2)
        parts = randomized.correction(rule, np.array([float(m)]), 1.0, variance)
        for apart, size in ((0.0, 0.5), (0.3, 2.0)):
            # the continuation's means are off by +-apart/2, its samples +-size around b
            means = np.array(law) + shift + np.array([0.5, -0.5]) * apart
            b = float(np.mean(means))
            inner = pair.loss + (pair.delta * (means - pair.average)).sum(axis=1)
            around = max(float(np.max(np.abs(means - b))) ** 2, size**2)
            # Var[c | q', q''] = |delta| sum |delta| E (xi - b)^2 - <delta, means - b>^2
            mean_part = (pair.delta * (means - b)).sum(axis=1)
            noise = pair.norm**2 * around - mean_part**2
            truth = float(weight @ (inner**2 + noise))
            bound = float(parts.second(apart, around)[0])
            assert truth <= bound * (1.0 + 1e-9)
            worst = max(worst, truth / bound)
    assert worst > 0.02


@pytest.mark.parametrize("operator", [*SMOOTH, sc.Max()], ids=lambda o: o.name)
@pytest.mark.parametrize("m", [1, 3])
def test_brackets_of_plug_ins_hold_exactly(operator, m):
    worst = 0.0
    for law in [(0.5, 0.5), (0.1, 0.1), (0.4, 0.05)]:
        weight, first, second = pairs(law, m)
        pair = Pair(operator, first, second)
        variance = max(p * (1.0 - p) for p in law)
        rule, count = OperatorRule.of(operator, 2), np.array([float(m)])
        bound = randomized.plug_in_correction(rule, count, 1.0, variance)[0]
        truth = math.sqrt(float(weight @ pair.bracket**2))
        assert truth <= bound * (1.0 + 1e-9)
        worst = max(worst, truth / bound)
    assert worst > 0.1


@pytest.mark.parametrize("temperature", [0.3, 1.0, 20.0])
def test_second_moments_hold_for_even_policies_of_fewer_actions(temperature):
    """The bound for four actions, against laws of two, three and four (R2a)."""
    operator, worst = sc.Entropy(temperature), 0.0
    rule, ones = OperatorRule.of(operator, 4), (0.5, 0.08)
    for k, m, p in itertools.product((2, 3, 4), (1, 2), ones):
        weight, first, second = pairs((p,) * k, m)
        pair, count = Pair(operator, first, second), np.array([float(m)])
        bound = float(
            randomized.plug_in_correction(rule, count, 1.0, p * (1.0 - p))[0]
        )
        whole = float(randomized.correction(rule, count, 1.0, p * (1.0 - p)).own[0])
        inner = pair.loss - (pair.delta * (pair.average - p)).sum(axis=1)
        for x, limit in ((pair.loss, bound), (pair.bracket, bound), (inner, whole)):
            truth = math.sqrt(float(weight @ x**2))
            assert truth <= limit * (1.0 + 1e-9)
            worst = max(worst, truth / limit)
    assert worst > (0.9 if temperature == 20.0 else 0.3)


DELTA, RUNS = 0.02, 100
FACTS = Facts(2, 2, 0.5, sc.Max(), (0.0, 1.0), horizon=1)
SCHEDULE = compile_schedule(FACTS, epsilon=0.06, delta=DELTA)
RULE = stopping_rule(SCHEDULE)
# (low value, high value, chance of the high one)
ROOT_LAWS = {
    "fair coin": (0.0, 1.0, 0.5),
    "rare high": (0.0, 1.0, 0.01),
    "skewed": (0.0, 1.0, 0.06),
    "rare low": (0.0, 1.0, 0.985),
    "near the edge": (0.96, 1.0, 0.2),
    "between two bins": (0.3031, 0.3107, 0.5),
}


def failures(rule: StoppingRule, law: tuple[float, float, float], seed: int) -> int:
    """How many of ``RUNS`` runs of two actions miss the truth at any checkpoint."""
    low, high, chance = law
    truth = low + chance * (high - low)
    counts = (0, *SCHEDULE.root.looks[::2], SCHEDULE.root.samples)
    one, other = (
        (x, add_scores(rule.score, [x])) for x in (d - rule.center for d in law[:2])
    )
    rng = np.random.default_rng(seed)
    failed = 0
    for _ in range(RUNS):
        missed = False
        for _ in range(2):
            wins = 0
            for before, after in pairwise(counts):
                wins += int(rng.binomial(after - before, chance))
                total = wins * other[0] + (after - wins) * one[0]
                bins = zip(one[1], other[1], strict=True)
                score = tuple((after - wins) * a + wins * b for a, b in bins)
                middle, half = rule.ball(RootSums(after, total, 0.0, score))
                missed |= abs(middle - truth) > half
        failed += missed
    return failed


def tail(failed: int) -> float:
    """The chance of so many failures if each had probability delta."""
    return float(binom.sf(failed - 1, RUNS, DELTA))


def test_the_root_has_nothing_but_its_bounds():
    assert RULE.promise.bias == 0.0
    assert len(SCHEDULE.root.looks) > 20


@pytest.mark.parametrize("name", ROOT_LAWS)
def test_no_checkpoint_excludes_the_truth(name):
    """Law: all intervals of a run hold at once with probability 1 - delta."""
    failed = failures(RULE, ROOT_LAWS[name], len(name))
    assert tail(failed) > 1e-4, failed


def test_half_the_level_is_noticed():
    """Mutation: log(1/alpha) halved."""
    broken = replace(RULE.promise, bet_level=0.5 * RULE.promise.bet_level)
    failed = failures(replace(RULE, promise=broken), ROOT_LAWS["skewed"], 1)
    assert tail(failed) < 1e-3, failed


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_is_dropped_is_noticed(side, monkeypatch):
    """Mutation: one end of the bets at the mean itself."""
    whole = StoppingRule._bet_ends

    def broken(self: StoppingRule, tally: RootSums) -> tuple[float, float]:
        ends = list(whole(self, tally))
        ends[side] = self.mean(tally)
        return ends[0], ends[1]

    monkeypatch.setattr(StoppingRule, "_bet_ends", broken)
    assert tail(failures(RULE, ROOT_LAWS["fair coin"], 2)) < 1e-4


def test_the_least_interval_keeps_epsilon():
    """Law: at the last count no law has a wider interval than epsilon."""
    for name in ROOT_LAWS:
        low, high, chance = ROOT_LAWS[name]
        count = SCHEDULE.root.samples
        wins = round(count * chance)
        parts = [add_scores(RULE.score, [x - RULE.center]) for x in (low, high)]
        score = tuple(
            (count - wins) * a + wins * b for a, b in zip(*parts, strict=True)
        )
        total = wins * (high - RULE.center) + (count - wins) * (low - RULE.center)
        half = RULE.ball(RootSums(count, total, 0.0, score))[1]
        assert half <= SCHEDULE.epsilon * (1.0 + 1e-9)
        assert math.isfinite(half)


def ever_crossed(p: float, radii: list[float]) -> float:
    """P(|mean_n - p| > radius_n for some n) of Bernoulli(p) samples, exactly."""
    alive, crossed = {0: 1.0}, 0.0  # successes -> chance that no line was crossed yet
    for n, radius in enumerate(radii, start=1):
        after: dict[int, float] = {}
        for k, chance in alive.items():
            for step, share in ((1, p), (0, 1.0 - p)):
                if abs((k + step) / n - p) > radius * (1.0 + 1e-12):
                    crossed += chance * share
                else:
                    after[k + step] = after.get(k + step, 0.0) + chance * share
        alive = after
    return crossed


@pytest.mark.parametrize("variance", [0.25, 0.16, 0.04, 0.004])
@pytest.mark.parametrize(("count", "delta"), [(40, 0.3), (150, 0.05)])
def test_the_chance_that_a_line_is_ever_crossed(variance, count, delta):
    """Law: at most delta for every two-point law with this range and variance, skewed
    to either side; and lines of half the height are crossed too often by one of them.
    """
    level = math.log(2.0 / delta)
    theta = line_slope(count, 1.0, variance, level)
    radii = [line_radius(n, theta, 1.0, variance, level) for n in range(1, count + 1)]
    assert radii[-1] == pytest.approx(root_radius(count, 1.0, variance, level))
    top = (1.0 - math.sqrt(1.0 - 4.0 * variance)) / 2.0
    laws = [
        q for share in (1.0, 0.7, 0.3, 0.05) for q in (share * top, 1 - share * top)
    ]
    worst = max(ever_crossed(p, radii) for p in laws)
    assert worst <= delta
    lower = [0.5 * radius for radius in radii]
    assert max(ever_crossed(p, lower) for p in laws) > (delta if top > 0.01 else worst)


def coin(p: float) -> sc.MDP:
    """Two actions that pay 1 with probability p, for one step."""
    return sc.MDP(
        lambda state, action, rng: (float(rng.random() < p), state),
        num_actions=2,
        discount=0.5,
        horizon=1,
        operator=sc.Max(),
        initial_state=0,
    )


@pytest.mark.parametrize("p", [0.5, 0.03])
def test_a_run_that_is_stopped_where_it_looks_most_wrong(p):
    """Law: the callback sees every interval and stops at the first that excludes the
    truth; at most a share delta of the runs has one.
    """
    delta, runs, problem = 0.4, 60, coin(p)
    schedule = sc.explain(problem, epsilon=0.12, delta=delta)
    failures, stopped = 0, 0
    for seed in range(runs):

        def wrong(progress: sc.Progress) -> bool:
            if progress.interval is None:  # before the first shard
                return True
            return progress.interval[0] <= p <= progress.interval[1]

        found = sc.run(problem, schedule, seed=seed, shards=40, progress=wrong)
        low, high = found.interval
        failures += not low <= p <= high
        stopped += any("progress function" in note for note in found.notes)
    assert stopped <= failures
    # binomial(60, 0.4) exceeds 38 with a chance of 1 in 10^4
    assert failures <= 38
