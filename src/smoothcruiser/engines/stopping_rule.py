"""The rule by which a run ends, and the width of its answer.

The root's promise is applied to the sums of the samples. Paper mode has the
printed promise only. Sharp schedules have two bounds that hold at every count at
once, each with its share of delta: the line of the fixed promise, which ends at the
promised radius at the last count, and bets on the samples (``theory.bets``),
which pay for the problem's own noise. The interval is their intersection. An action
stops at the first checkpoint where half its length plus the bias is at most
epsilon, and its middle is the answer. Since both hold at every count, a schedule that was
chosen for a time limit may stop at another half-width (``wanted``), or at none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothcruiser.engines.root_scores import (
    BINNED,
    BINS,
    LOGGED,
    NO_SCORE,
    WHOLE,
    Score,
)
from smoothcruiser.engines.run import Outcome, RootSums
from smoothcruiser.engines.shards import cut_shards
from smoothcruiser.errors import InvalidInput
from smoothcruiser.schedule.kinds.base import TOLERANCE
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.verify.sharp import UNIT, RootPromise, root_promise
from smoothcruiser.theory.bets import bet_interval, offsets
from smoothcruiser.theory.stopping import catoni_radius, line_radius, line_slope

# A share of epsilon. Intervals are widened by the rounding error, so that they
# stay true. An epsilon of which it may be a larger share is refused.
ROUNDING_SHARE = 1e-2

# the inequalities behind an interval, beside the one that the schedule names
BETS, LINE, RANGE = "betting", "Bennett at every count", "range of values"
MOMENT_LINE = "Catoni at every count"
# |psi| of a double, at most: log(1 + x + x^2/2) with x^2/2 < 1.8e308
LARGEST_PSI = 710.0

Ends = tuple[float, float]
EVERYTHING: Ends = -math.inf, math.inf


@dataclass(frozen=True)
class StoppingRule:
    """The stopping rule of one schedule.

    ``promise`` is None where only the printed epsilon holds.
    """

    schedule: Schedule
    promise: RootPromise | None
    # The error that floating point may add to a mean. It is 0 in paper mode, since the
    # bounds there are loose enough to cover it.
    rounding: float = 0.0
    slope: float = math.nan  # theta of the line; nan where there is none
    mover: int | None = None  # the player to move at the root; None: either one
    # half-width at which an action may stop; None: the schedule's epsilon
    wanted: float | None = None

    @property
    def center(self) -> float:
        """The middle of the root's range.

        Sums are of distances to it, so that no digits cancel.
        """
        if self.promise is None:
            return sum(self.schedule.facts.q_bounds()) / 2.0
        if self.promise.moment is not None:
            centers = self.promise.moment.centers
            return centers[min(self.mover or 1, len(centers)) - 1]
        return (min(self.promise.low) + max(self.promise.high)) / 2.0

    @property
    def score(self) -> Score:
        """The scores that are added up beside the sums of the root's samples.

        It is the same for both players, so that workers serve every state.
        """
        if self.promise is None:
            return NO_SCORE
        if self.promise.moment is not None:
            return Score(LOGGED, 0.0, self.promise.moment.alpha)
        half_width = (max(self.promise.high) - min(self.promise.low)) / 2.0
        if self.schedule.root.adaptive_delta == 0.0 or not half_width > 0.0:
            return NO_SCORE
        return Score(BINNED, half_width, BINS / (2.0 * half_width))

    @property
    def farthest(self) -> float:
        """The farthest that a sample at the root can be from the center."""
        if self.promise is None or self.promise.moment is not None:
            return math.inf
        center, ends = self.center, (*self.promise.low, *self.promise.high)
        return max(abs(end - center) for end in ends) + self.promise.rounding

    def mean(self, tally: RootSums) -> float:
        """The mean of the root's samples; the center where there is none.

        Where a second moment is all that is known, it is the sum of psi instead.
        """
        total = tally.total
        if (
            tally.draws
            and self.promise is not None
            and self.promise.moment is not None
        ):
            total = float(tally.score[0]) / self.promise.moment.alpha
        return self.center + total / max(1, tally.draws)

    def enough(self, look: int, tally: RootSums) -> bool:
        """Whether an action may stop at this checkpoint."""
        if self.promise is None:
            return False
        lower_end, upper_end = self.interval(tally)
        half_width = (upper_end - lower_end) / 2.0 + self.promise.bias
        if self.wanted is not None:
            return half_width + self.rounding <= self.wanted
        return half_width <= self.schedule.epsilon

    def ball(self, tally: RootSums) -> tuple[float, float]:
        """(middle, half-width) of the interval that the sums certify for the truth.

        All of them hold at once with the schedule's confidence, at any count.
        """
        if self.promise is None:
            is_complete = tally.draws == self.schedule.root.samples
            return self.mean(tally), self.schedule.epsilon if is_complete else math.inf
        lower_end, upper_end = self.interval(tally)
        if math.isinf(upper_end - lower_end):
            return self.mean(tally), math.inf
        half_width = (upper_end - lower_end) / 2.0 + self.promise.bias + self.rounding
        return (lower_end + upper_end) / 2.0, half_width

    def interval(self, tally: RootSums) -> Ends:
        """The ends between which the expectation of a root sample lies.

        Bets and the fixed bound exclude each other only where one of them failed;
        then the fixed bound is taken.
        """
        fixed_ends, bet_ends = self._fixed_ends(tally), self._bet_ends(tally)
        lower_end, upper_end = (
            max(fixed_ends[0], bet_ends[0]),
            min(fixed_ends[1], bet_ends[1]),
        )
        return (lower_end, upper_end) if lower_end <= upper_end else fixed_ends

    def _fixed_ends(self, tally: RootSums) -> Ends:
        """The ends by the promise at the last count, and by its line before."""
        assert self.promise is not None
        radius = self.promise.radius
        if tally.draws != self.schedule.root.samples:
            radius = self._line_radius(tally.draws)
        mean = self.mean(tally)
        return mean - radius, mean + radius

    def _line_radius(self, draws: int) -> float:
        assert self.promise is not None
        promise = self.promise
        if draws == 0:
            return math.inf
        if promise.moment is not None:
            moment = promise.moment
            return catoni_radius(draws, moment.alpha, moment.second, promise.level)
        if math.isnan(self.slope):
            return math.inf
        return line_radius(
            draws, self.slope, promise.spread, promise.variance, promise.level
        )

    def _bet_ends(self, tally: RootSums) -> Ends:
        """The ends by bets on the samples, where these were scored for them."""
        assert self.promise is not None
        score = self.score
        if score.kind != BINNED or tally.draws == 0:
            return EVERYTHING
        first_point, last_point = self._grid_points(score)
        inside_weights = tally.score[first_point : last_point + 1]
        if sum(inside_weights) != tally.draws * WHOLE:
            return EVERYTHING  # a sample outside its proven range
        step_width = 1.0 / score.scale
        radius = (self.schedule.epsilon - self.promise.bias) * score.scale
        scaled_variance = self.promise.variance * score.scale**2
        poles = offsets(radius, float(last_point - first_point), scaled_variance)
        weights = tuple(int(weight) for weight in inside_weights)
        lower_end, upper_end = bet_interval(
            weights, WHOLE, poles, self.promise.bet_level
        )
        grid_start = self.center - score.half + first_point * step_width
        # a weight is rounded down by less than 1/WHOLE of a step, and t of ``bin_of``
        # by less than as much again
        rounding_loss = 2.0 * step_width / WHOLE
        return (
            grid_start + lower_end * step_width - rounding_loss,
            grid_start + upper_end * step_width + rounding_loss,
        )

    def _grid_points(self, score: Score) -> tuple[int, int]:
        """The first and last grid point for samples of the player to move."""
        assert self.promise is not None
        promise, grid_start = self.promise, self.center - score.half
        lower_ends, upper_ends = promise.low, promise.high
        if self.mover is not None and len(lower_ends) > 1:
            lower_ends, upper_ends = (
                lower_ends[self.mover - 1 :][:1],
                upper_ends[self.mover - 1 :][:1],
            )
        grid_slack = promise.rounding * score.scale + 1e-6
        first_point = math.floor(
            (min(lower_ends) - grid_start) * score.scale - grid_slack
        )
        last_point = math.ceil(
            (max(upper_ends) - grid_start) * score.scale + grid_slack
        )
        return max(0, first_point), min(BINS, last_point)

    def bound_name(self, outcome: Outcome) -> str:
        """The name of the inequality behind the reported interval."""
        if self.promise is None:
            return "paper: Hoeffding and a union over the tree"
        bound_names = {self._bound_of(tally) for tally in outcome.tallies.values()}
        order = (self.schedule.root.bound, LINE, MOMENT_LINE, BETS, RANGE)
        return " and ".join(name for name in order if name in bound_names)

    def _bound_of(self, tally: RootSums) -> str:
        assert self.promise is not None
        fixed_ends, interval_ends = self._fixed_ends(tally), self.interval(tally)
        if interval_ends != fixed_ends:
            return BETS
        if tally.draws == self.schedule.root.samples:
            return self.schedule.root.bound
        if not fixed_ends[1] - fixed_ends[0] < 2.0 * self.promise.spread:
            return RANGE
        return LINE if self.promise.moment is None else MOMENT_LINE


def stopping_rule(
    schedule: Schedule, shards: int | None = None, mover: int | None = None
) -> StoppingRule:
    """The stopping rule of a schedule, for a state where ``mover`` moves.

    A table written by hand (epsilon infinite) promises nothing and never stops
    early. An epsilon that floating point cannot tell from 0 at the size of the
    rewards is refused.
    """
    is_sharp = schedule.delta_prime is None and schedule.epsilon < math.inf
    if not is_sharp:
        return StoppingRule(schedule, None)
    promise = root_promise(schedule)
    all_shards = [
        shard for segment in cut_shards(schedule, shards=shards) for shard in segment
    ]
    # A shard is summed by itself, then the shards are.
    num_additions = max(shard.count for shard in all_shards) + len(all_shards)
    center = StoppingRule(schedule, promise, mover=mover).center
    farthest = max(abs(x - center) for x in (*promise.low, *promise.high))
    if promise.moment is not None:
        farthest = LARGEST_PSI / promise.moment.alpha
    rounding = promise.rounding + UNIT * num_additions * farthest
    if rounding > ROUNDING_SHARE * schedule.epsilon:
        lowest_reward, highest_reward = schedule.facts.reward_range
        is_single_precision = schedule.facts.reward_error > 0.0
        remedy = (
            "compute in float64 (x64)"
            if is_single_precision
            else "subtract what all rewards share"
        )
        raise InvalidInput(
            f"epsilon={schedule.epsilon:g} is too fine for rewards in "
            f"[{lowest_reward:.15g}, {highest_reward:.15g}]: rounding alone may move the "
            f"answer by {rounding:.2g}; {remedy}, or ask for a larger epsilon."
        )
    slope = math.nan if promise.moment is not None else _slope(schedule, promise)
    return StoppingRule(schedule, promise, rounding, slope, mover)


def _slope(schedule: Schedule, promise: RootPromise) -> float:
    """The theta of the line that ends at the promised radius.

    The promise at the last count and the line are then one event (docs/theory.md,
    section 5). Where rounding keeps them apart, at radii of almost the whole range,
    there is no line.
    """
    spread, variance, level = promise.spread, promise.variance, promise.level
    num_samples = schedule.root.samples
    slope = line_slope(num_samples, spread, variance, level)
    end_radius = line_radius(num_samples, slope, spread, variance, level)
    return (
        slope
        if end_radius <= promise.radius + TOLERANCE * schedule.epsilon
        else math.nan
    )
