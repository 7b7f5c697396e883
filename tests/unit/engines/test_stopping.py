"""When an action may stop and how wide its answer is: hand-made sums against the
promise of the root.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.run import Outcome, RootSums
from smoothcruiser.engines.stopping import stopping_rule
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.paper import paper_schedule
from smoothcruiser.theory.stopping import (
    look_level,
    may_stop,
    radius_at_look,
    sample_variance,
)

FACTS = Facts(2, 2, 0.3, sc.Entropy(1.0), (0.0, 1.0))
SCHEDULE = compile_schedule(FACTS, epsilon=0.05, delta=0.1)
RULE = stopping_rule(SCHEDULE)
FULL = SCHEDULE.root.samples
LOOK = SCHEDULE.root.looks[-1]


def noisy(draws: int) -> RootSums:
    """Half of the samples at each end of their range: the largest variance."""
    half = 0.5 * RULE.promise.spread
    return RootSums(draws, 0.0, draws * half * half)


def steady(draws: int) -> RootSums:
    """Every sample the same."""
    return RootSums(draws, 0.25 * draws, 0.0625 * draws)


class Promised:
    """A schedule's epsilon without its table."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon, self.root = epsilon, SCHEDULE.root


def empirical(tally: RootSums) -> float:
    promise = RULE.promise
    return radius_at_look(
        tally.draws,
        sample_variance(tally.draws, tally.total, tally.square),
        promise.spread,
        promise.look_level,
        promise.variance,
    )


def test_the_schedule_has_what_the_tests_need() -> None:
    assert RULE.promise.bias > 0.0
    assert RULE.rounding > 0.0
    assert 1 < LOOK < FULL


def test_the_fixed_radius_belongs_to_the_full_number_of_samples() -> None:
    """There it is part of the width, with bias and rounding. An action that stopped at
    a checkpoint has the radius of the data alone.
    """
    promise = RULE.promise
    added = promise.bias + RULE.rounding
    assert empirical(noisy(FULL)) > promise.radius
    assert RULE.half_width(noisy(FULL)) == promise.radius + added
    stopped = replace(noisy(LOOK), look=len(SCHEDULE.root.looks) - 1)
    assert RULE.half_width(stopped) == pytest.approx(empirical(stopped) + added)


def test_a_prefix_has_the_line_which_ends_at_the_fixed_radius() -> None:
    """Law: at any count the width is that of the line, by hand: R (l + n psi)/(n
    theta) with psi at p = min(p*, 1/theta - 1/(e^theta - 1)).
    """
    promise, theta = RULE.promise, RULE.slope
    added = promise.bias + RULE.rounding
    ratio = promise.variance / promise.spread**2
    top = (1.0 - math.sqrt(1.0 - 4.0 * ratio)) / 2.0
    p = min(top, 1.0 / theta - 1.0 / math.expm1(theta))
    psi = math.log(1.0 - p + p * math.exp(theta)) - p * theta
    level = math.log(2.0 * 2 / (0.1 - SCHEDULE.root.adaptive_delta))
    for n in (FULL // 10, FULL // 2, FULL - 1):
        line = promise.spread * (level + n * psi) / (n * theta)
        found = RULE.half_width(noisy(n))
        assert found == pytest.approx(min(line, promise.spread) + added, rel=1e-6)
    assert line == pytest.approx(promise.radius, rel=1e-3)
    assert RULE.half_width(RootSums()) == math.inf


def test_a_prefix_beyond_a_checkpoint_may_use_the_radius_there() -> None:
    """Both hold at once, so the narrower one is taken, around its own mean."""
    quiet = replace(steady(LOOK + 1), total=0.0, last=steady(LOOK))
    mean, width = RULE.ball(quiet)
    assert mean == RULE.mean(steady(LOOK)) != RULE.mean(quiet)
    assert width == empirical(steady(LOOK)) + RULE.promise.bias + RULE.rounding
    loud = replace(noisy(LOOK + 1), last=noisy(2))
    assert RULE.ball(loud) == (RULE.mean(loud), RULE.half_width(loud))


def test_steady_samples_have_the_smaller_radius_of_the_data() -> None:
    tally = steady(FULL)
    assert empirical(tally) < RULE.promise.radius
    added = RULE.promise.bias + RULE.rounding
    assert RULE.half_width(tally) == empirical(tally) + added


def test_an_action_stops_where_radius_and_bias_together_keep_epsilon() -> None:
    assert RULE.enough(0, steady(LOOK))
    assert not RULE.enough(0, noisy(LOOK))
    tally = steady(LOOK)
    edge = empirical(tally) + RULE.promise.bias
    # at an epsilon between the radius and the radius plus the bias it goes on
    for epsilon, stops in ((edge, True), (edge - 0.5 * RULE.promise.bias, False)):
        moved = replace(RULE, schedule=Promised(epsilon))
        assert moved.enough(0, tally) is stops


@pytest.mark.parametrize(
    ("radius", "bias", "stops"),
    [(0.5, 0.25, True), (0.5, 0.2500001, False), (0.75, 0.0, True), (0.0, 0.8, False)],
)
def test_a_width_that_equals_epsilon_is_enough(radius, bias, stops) -> None:
    assert may_stop(radius, bias, 0.75) is stops


def test_the_variance_has_one_degree_of_freedom_less() -> None:
    """Samples 0, 1, 2, 3: the sum of squares about 3/2 is 5, over 3."""
    assert sample_variance(4, 6.0, 14.0) == pytest.approx(5.0 / 3.0)
    assert sample_variance(1, 6.0, 14.0) == 0.0


def test_every_look_of_every_action_pays_for_three_events() -> None:
    """Two sides of the mean and the variance, 5 looks, 2 actions: 30 events that
    fail with probability 0.03 together.
    """
    assert look_level(2, 5, 0.03) == pytest.approx(math.log(1000.0))


@pytest.mark.parametrize(
    ("tallies", "bound"),
    [
        ((replace(steady(LOOK), look=0), steady(FULL)), "empirical Bernstein"),
        ((noisy(LOOK), RootSums()), "Bennett at every count and range of values"),
        ((replace(noisy(LOOK + 1), last=steady(LOOK)),), "empirical Bernstein"),
        (
            (noisy(FULL), replace(steady(LOOK), look=0)),
            f"{SCHEDULE.root.bound} and empirical Bernstein",
        ),
        ((noisy(FULL), noisy(FULL)), SCHEDULE.root.bound),
    ],
)
def test_the_certificate_names_the_inequalities_that_closed_it(tallies, bound) -> None:
    assert RULE.bound(Outcome(dict(enumerate(tallies)))) == bound


def test_the_printed_promise_is_the_printed_epsilon_and_never_stops_early() -> None:
    schedule = paper_schedule(FACTS, epsilon=2.0, delta_prime=0.05)
    rule = stopping_rule(schedule)
    assert rule.half_width(steady(schedule.root.samples)) == 2.0
    assert rule.half_width(steady(2)) == math.inf  # it is for the full count
    assert not rule.enough(0, steady(10**9))
    assert rule.bound(Outcome({})).startswith("paper")


def test_an_epsilon_below_rounding_is_refused() -> None:
    """Rewards near 1e12 leave no digits for an epsilon of a thousandth."""
    far = Facts(2, 2, 0.3, sc.Entropy(1.0), (1e12, 1e12 + 1.0))
    schedule = compile_schedule(far, epsilon=0.3, delta=0.1)
    with pytest.raises(sc.InvalidInput, match="rounding alone"):
        stopping_rule(schedule)
    assert math.isfinite(stopping_rule(SCHEDULE).rounding)
