"""When a run may end, and how wide its answer is: the root's promise applied to the sums that were drawn.

Paper mode has the printed promise only. Sharp schedules look at the data at fixed counts (theory.stopping): an action stops at the
first look where the empirical Bernstein radius plus the bias is at most epsilon, and at the end the smaller of the promised and the
empirical radius is reported; the schedule's delta pays for all of these at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothcruiser.execute.run import Outcome, Tally
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.verify_sharp import RootPromise, root_promise
from smoothcruiser.theory.stopping import may_stop, radius_at_look, sample_variance


@dataclass(frozen=True)
class Rule:
    """The stopping rule of one schedule; ``promise`` is None where only the printed epsilon holds."""

    schedule: Schedule
    promise: RootPromise | None

    @property
    def center(self) -> float:
        """Where squares are taken from: the middle of the root's range, so that they do not cancel."""
        if self.promise is None:
            return sum(self.schedule.facts.q_bounds()) / 2.0
        return (min(self.promise.low) + max(self.promise.high)) / 2.0

    def enough(self, look: int, tally: Tally) -> bool:
        """Whether an action may stop at this look."""
        return self.promise is not None and may_stop(self._empirical(tally), self.promise.bias, self.schedule.epsilon)

    def _empirical(self, tally: Tally) -> float:
        assert self.promise is not None
        if math.isnan(self.promise.look_level):
            return math.inf
        variance = sample_variance(tally.draws, tally.total - self.center * tally.draws, tally.square)
        return radius_at_look(tally.draws, variance, self.promise.spread, self.promise.look_level, self.promise.variance)

    def half_width(self, tally: Tally) -> float:
        """|mean - truth| is at most this for every action at once, with the schedule's confidence."""
        if self.promise is None:
            return self.schedule.epsilon
        empirical = self._empirical(tally)
        fixed = self.promise.radius if tally.draws == self.schedule.root.samples else math.inf
        return min(empirical, fixed) + self.promise.bias

    def bound(self, outcome: Outcome) -> str:
        """The inequality that closed the promise."""
        if self.promise is None:
            return "paper: Hoeffding and a union over the tree"
        full = self.schedule.root.samples
        by_data = [tally.draws < full or self._empirical(tally) < self.promise.radius for tally in outcome.tallies.values()]
        if all(by_data):
            return "empirical Bernstein"
        return f"{self.schedule.root.bound} and empirical Bernstein" if any(by_data) else self.schedule.root.bound


def stopping_rule(schedule: Schedule) -> Rule:
    """The rule of a schedule; a hand-made table (epsilon infinite) promises nothing and never stops early."""
    sharp = schedule.delta_prime is None and schedule.epsilon < math.inf
    return Rule(schedule, root_promise(schedule) if sharp else None)
