"""From samples to an answer: shards, sums of scores, when an action may stop, and how
wide its answer is.
"""

import math
import random
from array import array
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothcruiser as sc
from smoothcruiser import Kind, Level, Root, Schedule
from smoothcruiser.engines.root_answer import usual_error
from smoothcruiser.engines.root_scores import (
    BINNED,
    BINS,
    LOGGED,
    WHOLE,
    Score,
    add_scores,
    add_sums,
    bin_of,
)
from smoothcruiser.engines.run import Ledger, Outcome, RootSums, run_schedule
from smoothcruiser.engines.shards import (
    CALLS_PER_SHARD,
    MOST_SHARDS,
    Partial,
    Piece,
    cut_shards,
)
from smoothcruiser.engines.stopping_rule import StoppingRule, stopping_rule
from smoothcruiser.estimate import best_action
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.paper_schedule import paper_schedule
from smoothcruiser.schedule.verify.sharp import SecondMoment
from smoothcruiser.theory.bets import bet_interval, offsets
from smoothcruiser.theory.stopping import psi

FACTS = Facts(2, 2, 0.3, sc.Entropy(1.0), (0.0, 1.0))
SCHEDULE = compile_schedule(FACTS, epsilon=0.05, delta=0.1)
RULE = stopping_rule(SCHEDULE)
FULL = SCHEDULE.root.samples
LOOK = SCHEDULE.root.looks[-1]


def tally(*samples, rule=RULE):
    """The sums of so many samples at so many distances from the centre."""
    found = RootSums()
    for count, x in samples:
        one = add_scores(rule.score, [x])
        found.draws, found.total = found.draws + count, found.total + count * x
        found.square += count * x * x
        more = tuple(count * weight for weight in one)
        found.score = tuple(
            a + b for a, b in zip(found.score or rule.score.none, more, strict=True)
        )
    return found


def noisy(draws):
    """Half of the samples at each end of their range: the largest variance."""
    half = 0.5 * RULE.promise.spread
    return tally((draws // 2, -half), (draws - draws // 2, half))


def steady(draws):
    """Every sample the same."""
    return tally((draws, 0.25))


def test_shares_of_delta():
    """Law: the bets have log(2 means/delta_a), the fixed promise log(2 means/(delta -
    delta_a)), so that all sides of all means together fail with probability delta.
    """
    bets, fixed = RULE.promise.bet_level, RULE.promise.level
    events = 2 * RULE.promise.means
    assert events == 4
    assert events * math.exp(-bets) == pytest.approx(SCHEDULE.root.adaptive_delta)
    assert events * (math.exp(-bets) + math.exp(-fixed)) == pytest.approx(0.1)


def test_noise_has_the_fixed_radius_at_the_full_number_of_samples():
    """There it is part of the width, with bias and rounding, around the mean."""
    known, added = noisy(FULL), RULE.promise.bias + RULE.rounding
    middle, width = RULE.ball(known)
    assert middle == pytest.approx(RULE.mean(known))
    assert width == pytest.approx(RULE.promise.radius + added)


def test_a_prefix_has_the_line_which_ends_at_the_fixed_radius():
    """Law: at any count noise has the width of the line, by hand: R (l + n psi)/(n
    theta) with psi at p = min(p*, 1/theta - 1/(e^theta - 1)).
    """
    promise, theta = RULE.promise, RULE.slope
    added = promise.bias + RULE.rounding
    ratio = promise.variance / promise.spread**2
    top = (1.0 - math.sqrt(1.0 - 4.0 * ratio)) / 2.0
    p = min(top, 1.0 / theta - 1.0 / math.expm1(theta))
    grown = math.log(1.0 - p + p * math.exp(theta)) - p * theta
    level = math.log(2.0 * 2 / (0.1 - SCHEDULE.root.adaptive_delta))
    for n in (FULL // 2, FULL - 1):
        line = promise.spread * (level + n * grown) / (n * theta)
        assert RULE.ball(noisy(n))[1] == pytest.approx(line + added, rel=1e-6)
    assert line == pytest.approx(promise.radius, rel=1e-3)
    assert RULE.ball(RootSums())[1] == math.inf


def test_steady_samples_have_the_interval_of_the_bets():
    """Law: by hand on the grid, both sides, widened by two units of a weight; the
    answer is its middle and not the mean.
    """
    known, promise, score = steady(FULL // 4), RULE.promise, RULE.score
    step = 1.0 / score.scale
    radius, variance = (SCHEDULE.epsilon - promise.bias) / step, promise.variance
    poles = offsets(radius, float(BINS), variance / step**2)
    low, high = bet_interval(known.score, WHOLE, poles, promise.bet_level)
    ends = [RULE.center - score.half + end * step for end in (low, high)]
    middle, width = RULE.ball(known)
    assert middle == pytest.approx(sum(ends) / 2.0)
    assert middle != pytest.approx(RULE.mean(known), abs=1e-4)
    added = promise.bias + RULE.rounding + 2.0 * step / WHOLE
    assert width == pytest.approx((ends[1] - ends[0]) / 2.0 + added, rel=1e-9)
    assert ends[0] < RULE.mean(known) < ends[1]


def test_bets_that_exclude_the_fixed_interval_are_dropped():
    """Law: one of two bounds has failed then, and the fixed one is taken."""
    known = replace(noisy(FULL), score=steady(FULL).score)
    wrong = replace(known, total=-0.2 * FULL)
    mean, width = RULE.ball(wrong)
    assert mean == pytest.approx(RULE.mean(wrong))
    assert width == pytest.approx(RULE.promise.half_width + RULE.rounding)


def test_samples_outside_their_proved_range_are_not_bet_on():
    """Law: bets hold for samples in the range of the player who moves."""
    low, high = (tuple(x) for x in (RULE.promise.low * 2, RULE.promise.high * 2))
    game = replace(RULE.promise, low=(low[0], low[1] + 0.3), high=high)
    known = tally((FULL // 4, -0.45 * RULE.promise.spread))
    first, second = (replace(RULE, promise=game, mover=who) for who in (1, 2))
    assert first.ball(known)[1] < second.ball(known)[1]
    assert second.bound_name(Outcome({0: known})) == "Bennett at every count"


def test_a_shorter_range_of_the_mover_makes_bets_narrower():
    low, high = RULE.promise.low, RULE.promise.high
    game = replace(RULE.promise, low=low * 2, high=(high[0], high[0] - 0.5))
    known = tally((FULL // 8, -0.2))
    whole, second = (replace(RULE, promise=game, mover=who) for who in (None, 2))
    assert second.ball(known)[1] < whole.ball(known)[1]


def test_an_action_stops_where_radius_and_bias_together_keep_epsilon():
    assert RULE.enough(0, steady(LOOK))
    assert not RULE.enough(0, noisy(LOOK))
    known = steady(FULL // 4)
    low, high = RULE.interval(known)
    edge = (high - low) / 2.0 + RULE.promise.bias
    assert edge < SCHEDULE.epsilon
    # with a bias that takes nearly all the rest it stops, with a little more it goes
    # on (the poles move with the bias, and the interval by a few percent with them)
    rest = SCHEDULE.epsilon - edge
    for more, stops in ((0.8 * rest, True), (1.2 * rest, False)):
        moved = replace(RULE.promise, bias=RULE.promise.bias + more)
        assert replace(RULE, promise=moved).enough(0, known) is stops


@pytest.mark.parametrize(
    ("tallies", "bound"),
    [
        ((replace(steady(LOOK), look=0), steady(FULL)), "betting"),
        ((noisy(LOOK), RootSums()), "Bennett at every count and range of values"),
        (
            (noisy(FULL), replace(steady(LOOK), look=0)),
            f"{SCHEDULE.root.bound} and betting",
        ),
        ((noisy(FULL), noisy(FULL)), SCHEDULE.root.bound),
    ],
)
def test_the_certificate_names_the_inequalities_that_closed_it(tallies, bound):
    assert RULE.bound_name(Outcome(dict(enumerate(tallies)))) == bound


def test_a_root_that_knows_a_second_moment_only():
    """Law: the answer is c + sum psi(alpha (Y - c))/(n alpha), the radius alpha S^2/2 +
    l/(n alpha) at every count, which is sqrt(2 S^2 l/N) at the last one.
    """
    second, level = 0.3, RULE.promise.level
    alpha = math.sqrt(2.0 * level / (FULL * second))
    moment = SecondMoment((0.4, 0.7), second, alpha)
    radius = math.sqrt(2.0 * second * level / FULL)
    promise = replace(RULE.promise, moment=moment, radius=radius)
    rule = StoppingRule(SCHEDULE, promise, 0.0, mover=2)
    assert (rule.center, rule.score.kind) == (0.7, LOGGED)
    known = tally((FULL, 0.9), rule=rule)
    middle, width = rule.ball(known)
    assert middle == pytest.approx(0.7 + psi(0.9 * alpha) / alpha)
    assert width == pytest.approx(radius + promise.bias)
    part = tally((FULL // 4, 0.9), rule=rule)
    line = alpha * second / 2.0 + level / (part.draws * alpha)
    assert rule.ball(part)[1] == pytest.approx(line + promise.bias)
    assert rule._line_radius(FULL) == pytest.approx(radius)
    assert rule.bound_name(Outcome({0: part})) == "Catoni at every count"


def test_the_printed_promise_is_the_printed_epsilon_and_never_stops_early():
    schedule = paper_schedule(FACTS, epsilon=2.0, delta_prime=0.05)
    rule = stopping_rule(schedule)
    full = tally((schedule.root.samples, 0.25), rule=rule)
    assert rule.ball(full)[1] == 2.0
    part = tally((2, 0.25), rule=rule)
    assert rule.ball(part)[1] == math.inf  # it is for the full count
    assert not rule.enough(0, tally((10**9, 0.25), rule=rule))
    assert rule.bound_name(Outcome({})).startswith("paper")


def test_an_epsilon_below_rounding_is_refused():
    """Rewards near 1e12 leave no digits for an epsilon of a thousandth."""
    far = Facts(2, 2, 0.3, sc.Entropy(1.0), (1e12, 1e12 + 1.0))
    schedule = compile_schedule(far, epsilon=0.3, delta=0.1)
    with pytest.raises(sc.InvalidInput, match="rounding alone"):
        stopping_rule(schedule)
    assert math.isfinite(stopping_rule(SCHEDULE).rounding)


# --- sums of scores -----------------------------------------------------------


HALF = 1.3
SCORE = Score(BINNED, HALF, BINS / (2.0 * HALF))


def test_a_sample_is_spread_over_its_two_neighbours():
    """Law: the weights add up to one sample, and their mean is the sample, rounded
    down by less than 1/WHOLE of a bin; what lies outside is taken to the end.
    """
    width = 2.0 * HALF / BINS
    for x in [random.Random(1).uniform(-HALF, HALF) for _ in range(500)]:
        k, above = bin_of(x, HALF, SCORE.scale)
        assert 0 <= k < BINS
        assert 0 <= above <= WHOLE
        mean = (k + above / WHOLE) * width - HALF
        assert -1e-12 < x - mean < width / WHOLE + 1e-12
    assert bin_of(-HALF - 1.0, HALF, SCORE.scale) == (0, 0)
    assert bin_of(HALF + 1.0, HALF, SCORE.scale) == (BINS - 1, WHOLE)
    assert bin_of(0.0, HALF, SCORE.scale) == (BINS // 2, 0)


@pytest.mark.parametrize("score", [SCORE, Score(LOGGED, 0.0, 0.7), Score()])
def test_sums_in_pieces_are_those_at_once(score):
    """Law: a shard that is resumed has the bits of one that is run at once, and whole
    numbers add up in any order.
    """
    numbers = random.Random(2)
    x = array("d", [numbers.uniform(-1.4, 1.4) for _ in range(300)])
    whole = add_scores(score, x)
    assert add_scores(score, x[120:], add_scores(score, x[:120])) == whole
    assert len(whole) == len(score.none)
    if score.kind == BINNED:
        assert add_sums(add_scores(score, x[7:]), add_scores(score, x[:7])) == whole
        assert sum(whole) == 300 * WHOLE
    assert add_sums((), whole) == add_sums(whole, ()) == whole


def test_psi():
    """Law: e^psi(x) = 1 + x + x^2/2 for x >= 0, and psi is odd; at any size of x."""
    for x in (0.0, 1e-300, 1e-9, 0.3, 40.0, 1e9):
        assert psi(x) == pytest.approx(math.log1p(x + x * x / 2.0))
        assert psi(-x) == -psi(x)


# --- shards, a cut of the root's samples that the schedule alone decides ------


def schedule(samples, *, leaf=1, looks=(), target="q_values", K=2):
    facts = Facts(K, K, 0.5, sc.Entropy(1.0), (0.0, 1.0))
    levels = (Level(Kind.CONSTANT), Level(Kind.PLUGIN, samples=leaf, query=0))
    return Schedule(
        "hand",
        facts,
        levels,
        Root(target, samples, 1, "none", looks=looks),
        math.inf,
        1.0,
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    samples=st.integers(1, 10**12),
    leaf=st.integers(1, 10**9),
    fractions=st.lists(st.floats(0.001, 0.999), max_size=5),
    shards=st.none() | st.integers(1, 10**5),
    target=st.sampled_from(["q_values", "value"]),
    K=st.integers(1, 20),
)
def test_every_draw_is_in_one_shard(samples, leaf, fractions, shards, target, K):
    """Contiguous, in order, none across a look, at most 4,096 over all actions
    (plus one for each look).
    """
    looks = tuple(
        sorted({n for n in (int(f * samples) for f in fractions) if 0 < n < samples})
    )
    segments = cut_shards(
        schedule(samples, leaf=leaf, looks=looks, target=target, K=K), shards=shards
    )
    assert len(segments) == len(looks) + 1
    first = 0
    for segment, end in zip(segments, (*looks, samples), strict=True):
        for shard in segment:
            assert shard.first == first
            assert shard.count >= 1
            first += shard.count
        assert first == end
    every = [shard for segment in segments for shard in segment]
    assert [shard.index for shard in every] == list(range(len(every)))
    actions = K if target == "q_values" else 1
    assert actions * len(every) <= MOST_SHARDS + actions * (len(looks) + 1)


def test_a_shard_is_worth_about_a_million_calls():
    """10,000 draws of 1 + 2*500 calls are 10,010,000 calls: eleven shards of at
    most 910 draws.
    """
    (segment,) = cut_shards(schedule(10_000, leaf=500))
    assert len(segment) == 11
    assert max(shard.count for shard in segment) * 1001 <= CALLS_PER_SHARD


def test_an_override_cuts_finer_but_never_below_one_draw():
    (segment,) = cut_shards(schedule(10), shards=4)
    assert [shard.count for shard in segment] == [3, 3, 3, 1]
    (segment,) = cut_shards(schedule(3), shards=8)
    assert [shard.count for shard in segment] == [1, 1, 1]


def test_a_number_of_shards_below_one_is_refused():
    with pytest.raises(sc.InvalidInput, match="at least 1, got 0"):
        cut_shards(schedule(10), shards=0)


# --- the usual standard error -------------------------------------------------


# distances 1, -1, 1, -1: variance 4/3; and 2, 2: variance 0
SPREAD = RootSums(draws=4, total=0.0, square=4.0)
EQUAL = RootSums(draws=2, total=4.0, square=8.0)


def rule_of(bias):
    return SimpleNamespace(promise=SimpleNamespace(bias=bias))


def test_shares_of_the_policy_weigh_the_errors_of_the_actions():
    tallies = {0: SPREAD, 2: EQUAL}
    by_hand = 0.25 * (4.0 / 3.0 / 4.0) ** 0.5
    error = usual_error(rule_of(0.0), tallies, (0.25, 0.0, 0.75))
    assert error == pytest.approx(by_hand)
    error = usual_error(rule_of(0.0), {0: SPREAD}, ())
    assert error == pytest.approx((1.0 / 3.0) ** 0.5)


def test_there_is_none_where_it_would_mislead():
    policy, one = (1.0,), RootSums(draws=1, total=1.0, square=1.0)
    assert usual_error(rule_of(0.0), {0: one}, policy) is None
    assert usual_error(rule_of(1.0), {0: SPREAD}, policy) is None
    assert usual_error(SimpleNamespace(promise=None), {0: SPREAD}, policy) is None


# --- the recommended action -----------------------------------------------


@pytest.mark.parametrize(
    ("policy", "q_values", "player", "action"),
    [
        # the most likely action, whatever the values say
        ((0.2, 0.5, 0.3), (9.0, 0.0, 1.0), 1, 1),
        # equal shares: the larger value for player 1, the smaller for player 2
        ((0.4, 0.4, 0.2), (1.0, 2.0, 3.0), 1, 1),
        ((0.4, 0.4, 0.2), (1.0, 2.0, 0.0), 2, 0),
        # equal shares and values: the first
        ((0.25, 0.25, 0.25, 0.25), (1.0, 2.0, 2.0, 0.0), 1, 1),
        ((0.25, 0.25, 0.25, 0.25), (1.0, 0.0, 2.0, 0.0), 2, 1),
        ((0.5, 0.5), (1.0, 1.0), 1, 0),
        # illegal actions are never recommended
        ((0.0, 0.0, 1.0), (math.nan, 1.0, 0.0), 1, 2),
        ((0.0, 0.0, 0.0), (math.nan, 1.0, 2.0), 2, 1),
    ],
)
def test_ties_are_broken_by_value_for_the_mover_and_then_by_index(
    policy, q_values, player, action
):
    assert best_action(policy, q_values, player) == action


def test_calls_of_shards_under_way_at_an_early_stop_are_counted():
    """Other threads are in the middle of a shard when the first checkpoint is enough."""
    workers = SimpleNamespace(abreast=1, left=[], unfinished=0, stuck=0)

    def map_shards(source, seed, report):
        ahead, is_complete = next(source), False
        while not is_complete:
            shard, ahead = ahead, next(source)
            part = Partial(shard.count, 0.0, 0.0, 10 * shard.count)
            is_complete = report(shard, part)
        workers.left = [Piece(ahead, Partial(ahead.count - 1, 0.0, 0.0, 23))]
        workers.unfinished = 7

    workers.map = map_shards
    ledger = Ledger(cut_shards(SCHEDULE), [0, 1], lambda number, sums: True)
    outcome = run_schedule(workers, SCHEDULE, ledger, seed=0)
    assert outcome.finished
    assert outcome.num_calls == sum(part.calls for part in ledger.parts.values())
    assert outcome.calls_spent == outcome.num_calls + 23 + 7
