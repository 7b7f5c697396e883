"""When a run may end, and how wide its answer is.

The root's promise is applied to the sums of the samples. Paper mode has the
printed promise only. Sharp schedules examine the data at fixed counts, the
checkpoints (``theory.stopping``). An action stops at the first checkpoint where
the empirical Bernstein radius plus the bias is at most epsilon. At the end the
smaller of the promised and the empirical radius is reported. A run that is
stopped has a line instead of the promised radius, which holds at every count. The
schedule's delta pays for all of these at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from smoothcruiser.engines.run import Outcome, RootSums
from smoothcruiser.engines.scores import BINNED, BINS, NO_SCORE, Score
from smoothcruiser.engines.shards import cut
from smoothcruiser.errors import InvalidInput
from smoothcruiser.schedule.kinds.base import TOLERANCE
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.verify.sharp import UNIT, RootPromise, root_promise
from smoothcruiser.theory.stopping import (
    line_radius,
    line_slope,
    may_stop,
    radius_at_look,
    sample_variance,
)

# A share of epsilon. Intervals are widened by the rounding error, so that they
# stay true. An epsilon of which it may be a larger share is refused.
ROUNDING_SHARE = 1e-2

# the inequalities behind an interval, beside the one that the schedule names
DATA, LINE, RANGE = "empirical Bernstein", "Bennett at every count", "range of values"


@dataclass(frozen=True)
class StoppingRule:
    """The stopping rule of one schedule.

    ``promise`` is None where only the printed epsilon holds.
    """

    schedule: Schedule
    promise: RootPromise | None
    # What floating point may add to the error of a mean. It is 0 in paper mode,
    # whose bounds are loose enough to cover it.
    rounding: float = 0.0
    slope: float = math.nan  # theta of the line; nan where there is none

    @property
    def center(self) -> float:
        """The middle of the root's range.

        Sums are of distances to it, so that no digits cancel.
        """
        if self.promise is None:
            return sum(self.schedule.facts.q_bounds()) / 2.0
        return (min(self.promise.low) + max(self.promise.high)) / 2.0

    @property
    def score(self) -> Score:
        """What is added up of the root's samples beside their sums.

        It is a histogram over the range of a sample, of whichever player moves.
        """
        if self.promise is None or self.schedule.root.adaptive_delta == 0.0:
            return NO_SCORE
        half = (max(self.promise.high) - min(self.promise.low)) / 2.0
        return Score(BINNED, half, BINS / (2.0 * half)) if half > 0.0 else NO_SCORE

    @property
    def farthest(self) -> float:
        """The farthest that a sample at the root can be from the center."""
        if self.promise is None:
            return math.inf
        center, ends = self.center, (*self.promise.low, *self.promise.high)
        return max(abs(end - center) for end in ends) + self.promise.rounding

    def mean(self, tally: RootSums) -> float:
        """The mean of the root's samples; the center where there is none."""
        return self.center + tally.total / max(1, tally.draws)

    def enough(self, look: int, tally: RootSums) -> bool:
        """Whether an action may stop at this checkpoint."""
        return self.promise is not None and may_stop(
            self._empirical(tally), self.promise.bias, self.schedule.epsilon
        )

    def _empirical(self, tally: RootSums) -> float:
        assert self.promise is not None
        if math.isnan(self.promise.look_level):
            return math.inf
        variance = sample_variance(tally.draws, tally.total, tally.square)
        return radius_at_look(
            tally.draws,
            variance,
            self.promise.spread,
            self.promise.look_level,
            self.promise.variance,
        )

    def half_width(self, tally: RootSums) -> float:
        """The bound on |mean - truth|, for every action at once.

        It holds with the schedule's confidence. It is for sums at the last count, at
        the checkpoint where an action stopped, and of a prefix of the samples.
        """
        full = tally.draws == self.schedule.root.samples
        if self.promise is None:
            return self.schedule.epsilon if full else math.inf
        if full:
            radius = min(self._empirical(tally), self.promise.radius)
        elif tally.look is not None:
            radius = self._empirical(tally)
        else:
            radius = self._line(tally.draws)
        return radius + self.promise.bias + self.rounding

    def _line(self, draws: int) -> float:
        assert self.promise is not None
        if math.isnan(self.slope):
            return math.inf
        known = self.promise
        return line_radius(draws, self.slope, known.spread, known.variance, known.level)

    def ball(self, tally: RootSums) -> tuple[float, float]:
        """(mean, half-width) of the narrowest interval that the sums certify.

        The radius of the last checkpoint and the line hold at once, so either may be
        taken.
        """
        known = [tally]
        if tally.look is None and tally.last is not None:
            known.append(replace(tally.last, look=0))
        best = min(known, key=self.half_width)
        return self.mean(best), self.half_width(best)

    def bound(self, outcome: Outcome) -> str:
        """The name of the inequality behind the reported interval."""
        if self.promise is None:
            return "paper: Hoeffding and a union over the tree"
        found = {self._bound_of(tally) for tally in outcome.tallies.values()}
        order = (self.schedule.root.bound, LINE, DATA, RANGE)
        return " and ".join(name for name in order if name in found)

    def _bound_of(self, tally: RootSums) -> str:
        assert self.promise is not None
        if tally.draws == self.schedule.root.samples:
            by_data = self._empirical(tally) < self.promise.radius
            return DATA if by_data else self.schedule.root.bound
        if tally.look is not None:
            return DATA
        last = -1.0 if tally.last is None else self._empirical(tally.last)
        radius = self._line(tally.draws)
        if 0.0 <= last < radius:
            return DATA
        return LINE if radius < self.promise.spread else RANGE


def stopping_rule(schedule: Schedule, shards: int | None = None) -> StoppingRule:
    """The stopping rule of a schedule.

    A table written by hand (epsilon infinite) promises nothing and never stops
    early. An epsilon that floating point cannot tell from 0 at the size of the
    rewards is refused.
    """
    sharp = schedule.delta_prime is None and schedule.epsilon < math.inf
    if not sharp:
        return StoppingRule(schedule, None)
    promise = root_promise(schedule)
    parts = [shard for segment in cut(schedule, shards=shards) for shard in segment]
    # A shard is summed by itself, then the shards are.
    sums = max(shard.count for shard in parts) + len(parts)
    center = StoppingRule(schedule, promise).center
    farthest = max(abs(x - center) for x in (*promise.low, *promise.high))
    rounding = promise.rounding + UNIT * sums * farthest
    if rounding > ROUNDING_SHARE * schedule.epsilon:
        low, high = schedule.facts.reward_range
        raise InvalidInput(
            f"epsilon={schedule.epsilon:g} is too fine for rewards in [{low:g}, "
            f"{high:g}]: rounding alone may move the "
            f"answer by {rounding:.2g}; subtract what all rewards share, or ask for a "
            "larger epsilon."
        )
    return StoppingRule(schedule, promise, rounding, _slope(schedule, promise))


def _slope(schedule: Schedule, promise: RootPromise) -> float:
    """The theta whose line ends at the promised radius.

    The promise at the last count and the line are then one event (docs/theory.md,
    section 5). Where rounding keeps them apart, at radii of almost the whole range,
    there is no line.
    """
    spread, variance, level = promise.spread, promise.variance, promise.level
    count = schedule.root.samples
    slope = line_slope(count, spread, variance, level)
    end = line_radius(count, slope, spread, variance, level)
    return slope if end <= promise.radius + TOLERANCE * schedule.epsilon else math.nan
