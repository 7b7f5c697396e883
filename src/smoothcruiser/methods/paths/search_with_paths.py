"""Paths beside a certified search: one end of the interval from a policy's own value.

Certified search bounds every pair, and its radii add up along the way: at a discount
near 1, with rewards of a wide range, the end that a good policy reaches stays far off.
The value of one policy needs no union over pairs: the counted model's policy is played
by killed paths (``policy_paths``), with a part of the calls.

    interval = [max(L_search, L_paths), U_search]

delta is shared before the first call: two thirds for the search, both ends, and one
third for the paths. Proof: docs/certified.md, section 2c.

When paths are played (``take_turn``, between two rounds of the search): once the search
has had its first share of a budget, or its interval has not halved while its calls
doubled, the next quarter of the calls goes where the forecast gains most. Both forecasts
look at the past alone, and nothing here depends on the clock but a stop.

This file leaves out games (a policy bounds no end of theirs), horizons and discount 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcruiser.certified.query_limits import QueryLimits
from smoothcruiser.certified.query_progress import QueryProgress
from smoothcruiser.certified.sweeps.counted_model import Guess
from smoothcruiser.estimate import ADVICE, Estimate, bring_inside
from smoothcruiser.evaluation.evaluate import rollout_setting
from smoothcruiser.evaluation.path_rules import LONGEST
from smoothcruiser.evaluation.rollouts import RolloutTask
from smoothcruiser.methods.paths.counted_policy import CountedPolicy
from smoothcruiser.methods.paths.policy_paths import (
    PILOT_PATHS,
    PathBlock,
    PolicyPaths,
)
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.query import Query
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.schedule.number_text import count_noun

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified

# of a budget, before the first path: paths play the policy that the search has found,
# and the earlier ones count as much as the later ones
FIRST_SHARE = 2.0 / 3.0
TURN_SHARE = 0.25  # of the calls so far, for the next turn
LEAST_TURN = 0.02  # of the calls so far: less is not worth a new policy
MOST_SHARE = 1.0 / 3.0  # of all calls so far, for paths
PILOT_SHARE = 0.125  # of the calls so far, for a pilot at the least
NEAR_WEIGHT = 2.0  # of the near end's share, where no width is aimed at
FAR_SHARE = 0.95  # of the width that is aimed at: above it, paths cannot do the rest
MARK_RATIO = 1.2  # of the calls between two marks
MOST_RATE = 1.5  # widths fall no faster than calls**-1.5, as measured (portfolio.md)


class Mark(NamedTuple):
    """The interval of the search alone after so many calls of its own."""

    calls: int
    low: float
    high: float
    half_width: float  # of what it promises


class PathsBesideSearch:
    """The paths of one query of a certified search (``PathHelper``)."""

    def __init__(self, search: Certified, query: Query, alpha: float) -> None:
        self.search, self.query = search, query
        self.paths = PolicyPaths(search.problem, search.seed, alpha)
        self.policy = CountedPolicy(search)
        self.marks: list[Mark] = []
        self.guess: float | None = None  # of V, by the counted model at the last refit

    # --- turns ------------------------------------------------------------------

    def take_turn(
        self, position: QueryProgress, limits: QueryLimits, calls_left: int
    ) -> tuple[str | None, int]:
        """Play paths if that is worth more than the search; (why to stop, calls)."""
        memory, root = self.search.memory, position.root
        spent, turn_start = memory.num_calls - position.first_call, self.sections()
        is_new = self._mark(spent - self.paths.num_calls, root, limits)
        if self.paths.num_blocks:
            self._show_low(root)
        elif not (is_new or self._is_late(spent, limits)) or not self._is_due(
            spent, root, limits
        ):
            return None, 0
        turn_calls = self._turn_calls(spent, root, limits, calls_left)
        if turn_calls == 0:
            return None, 0
        reason, block = self._play(position, limits, turn_calls, calls_left)
        if reason is not None:  # a resumed run takes the whole turn again
            self._save_as(turn_start, position)
        self._take(block, root)
        return reason, block.num_calls

    def _save_as(self, turn_start: dict[str, Any], position: QueryProgress) -> None:
        """Save the search as it was when the turn began."""
        assert self.search.loop is not None
        self._saved_sections = turn_start
        self.search.loop.save(position)
        self._saved_sections = None

    def _turn_calls(
        self, spent: int, root: int, limits: QueryLimits, calls_left: int
    ) -> int:
        """The calls of a turn; 0: it is the search's turn."""
        paths, interval = self.paths, self.search.memory.interval(root)
        if self._search_will_do(root, limits):
            return 0
        allowed_calls = (MOST_SHARE * spent - paths.num_calls) / (1.0 - MOST_SHARE)
        most_calls = int(min(calls_left, TURN_SHARE * spent, allowed_calls))
        if most_calls < min(calls_left, LEAST_TURN * spent):
            return 0
        if paths.num_blocks == 0:
            return most_calls
        goal = self._goal(root, limits)
        if goal is not None and limits.target == "value":
            needed_low = interval[1] - 2.0 * goal
            needed_calls = paths.calls_needed(needed_low, most_calls)
            if needed_calls < most_calls:
                return needed_calls
        is_aiming = self.query.promise.asked
        return most_calls if self._is_worth(most_calls, root, is_aiming) else 0

    def _play(
        self, position: QueryProgress, limits: QueryLimits, calls: int, calls_left: int
    ) -> tuple[str | None, PathBlock]:
        """Play a block of paths; (why to stop, the block)."""
        loop, root = self.search.loop, position.root
        assert loop is not None
        self._refit(root)
        with pause_clock():
            rollouts = self.policy.rollouts_of(self._task(position, limits), calls)
        rollouts.deadline = limits.control.deadline - loop.ending_seconds(limits)

        def find_stop() -> str | None:
            stop = loop.report_to_callback(position, limits)
            return stop or limits.control.check(
                seconds_needed=loop.ending_seconds(limits)
            )

        worth = self.policy.worth_at(root)
        return self.paths.play_block(rollouts, worth, calls, calls_left, find_stop)

    def _take(self, block: PathBlock, root: int) -> None:
        """Count a block, and narrow the interval by it."""
        memory = self.search.memory
        self.paths.take_block(block)
        memory.num_calls += block.num_calls
        self._show_low(root)
        low, high = memory.interval(root)
        if low > high:
            raise self.search.crossing_error(root)

    def _refit(self, root: int) -> None:
        """Read policy and W from the samples of now."""
        self.policy.refit()
        self.guess = float(self.policy.critic.node_values[root])

    def _show_low(self, root: int) -> None:
        """Let the search know of the end that comes from paths.

        Where it is above the search's own, samples are steered to the other end. The
        wish is as far below as the interval is wide; it enters no bound.
        """
        search, low = self.search, self.paths.low
        search.memory.other_ends[root] = low, math.inf
        row = search.memory.graph.nodes[root]
        is_ahead = low > float(row["lower"])
        search.region.steer_far(2.0 * low - float(row["upper"]) if is_ahead else None)

    def _task(self, position: QueryProgress, limits: QueryLimits) -> RolloutTask:
        """What all paths share."""
        problem = self.search.problem
        return RolloutTask(
            problem,
            self.search.memory.states[position.root],
            rollout_setting(problem, LONGEST),
            self.search.seed,
            limits.control.hold,
            self.policy.critic,
        )

    # --- when it pays -----------------------------------------------------------

    def _mark(self, calls: int, root: int, limits: QueryLimits) -> bool:
        """Mark the search's own interval where its calls have grown; whether they have."""
        if self.marks and calls < MARK_RATIO * self.marks[-1].calls:
            return False
        memory = self.search.memory
        row, half_width = (
            memory.graph.nodes[root],
            memory.half_width(root, limits.target),
        )
        ends = float(row["lower"]), float(row["upper"])
        self.marks.append(Mark(calls, *ends, half_width))
        return True

    def most_calls(self, position: QueryProgress, limits: QueryLimits) -> int:
        """The calls of the search's next round at the most: up to the first path."""
        spent = self.search.memory.num_calls - position.first_call
        if self._is_late(spent, limits):
            return max(1, int(TURN_SHARE * spent))
        first_path = math.ceil(FIRST_SHARE * limits.budget)
        return max(1, first_path - spent)

    def _is_late(self, spent: int, limits: QueryLimits) -> bool:
        """Whether a budget leaves what is kept for paths."""
        has_budget = self.query.limits.calls is not None
        return has_budget and spent >= FIRST_SHARE * limits.budget

    def _is_due(self, spent: int, root: int, limits: QueryLimits) -> bool:
        """Whether the first path is due: a pilot is cheap, and the policy is good.

        The first paths count as much as the last ones, so they begin late: where a
        budget or a time limit is about to end the run, or the far end of the search is
        near enough for paths to do the rest.
        """
        path_steps = 1.0 / (1.0 - self.search.problem.discount)
        if PILOT_SHARE * spent < PILOT_PATHS * path_steps:
            return False
        has_budget = self.query.limits.calls is not None
        if self._is_late(spent, limits):
            return True
        clock = limits.control.clock
        if clock.is_limited and self.search.keeper is None:  # a store keeps its bits
            is_late = clock.left() <= (1.0 - FIRST_SHARE) * clock.limit
            if is_late:
                return True
        if limits.target != "value" or not self.query.promise.asked:
            has_end = has_budget or clock.is_limited
            return not has_end and not self._has_halved()
        self._refit(root)
        goal = self._goal(root, limits)
        if goal is None or self.guess is None:
            return False
        value = bring_inside(self.guess, self.search.memory.interval(root))
        return self.marks[-1].high - value <= FAR_SHARE * 2.0 * goal

    def _goal(self, root: int, limits: QueryLimits) -> float | None:
        """The half-width that is aimed at, about, where one is."""
        if self.guess is None:
            return None if limits.relative is not None else limits.goal
        value = bring_inside(self.guess, self.search.memory.interval(root))
        return limits.goal_at((value, value))

    def _search_will_do(self, root: int, limits: QueryLimits) -> bool:
        """Whether the search alone keeps a promise on all action values in time.

        Paths narrow the value alone.
        """
        if limits.target != "q_values":
            return False
        goal = limits.goal_at(self.search.memory.interval(root))
        search_calls = limits.budget - self.paths.num_calls
        return goal is not None and self._forecast_width(search_calls) <= goal

    def _mark_before(self) -> Mark | None:
        """The last mark with at most half of the search's calls."""
        calls = self.marks[-1].calls
        earlier = [mark for mark in self.marks if 2 * mark.calls <= calls]
        return earlier[-1] if earlier else None

    def _has_halved(self) -> bool:
        """Whether the search's interval has halved in the last doubling."""
        before, now = self._mark_before(), self.marks[-1]
        width_now = now.high - now.low
        return before is None or width_now <= 0.5 * (before.high - before.low)

    def _forecast_width(self, calls: int) -> float:
        """The half-width that the search promises after so many calls, about."""
        before, now = self._mark_before(), self.marks[-1]
        if before is None or calls <= now.calls:
            return now.half_width
        rate = _fall_rate(before.calls, now.calls, before.half_width, now.half_width)
        return now.half_width * math.exp(rate * math.log(now.calls / calls))

    def _is_worth(self, calls: int, root: int, is_aiming: bool) -> bool:
        """Whether so many calls narrow the interval more by paths than by search.

        Where nothing but a limit ends the run, each end is measured by its distance
        from the value: the nearer one is what the policy is worth for certain.
        """
        low, high = self.search.memory.interval(root)
        center = min(max(self.paths.likely_mean, low), high)
        below, above = center - low, high - center
        path_gain = self.paths.forecast_low(calls) - low
        low_gain, high_gain = self._search_gains(calls, low, high)
        if is_aiming:  # at a width: a unit of it counts the same at either end
            return path_gain > low_gain + high_gain
        path_share = path_gain / below if below > 0.0 else 0.0
        low_share = low_gain / below if below > 0.0 else 0.0
        return NEAR_WEIGHT * path_share > low_share + (
            high_gain / above if above > 0.0 else 0.0
        )

    def _search_gains(
        self, calls: int, low: float, high: float
    ) -> tuple[float, float]:
        """By how much so many calls of the search move either end, about."""
        before, now = self._mark_before(), self.marks[-1]
        if before is None:
            return 0.0, 0.0
        center = min(max(self.paths.likely_mean, low), high)
        shrink = math.log(now.calls / (now.calls + calls))

        def gain(gap_before: float, gap: float) -> float:
            rate = _fall_rate(before.calls, now.calls, gap_before, gap)
            return -gap * math.expm1(rate * shrink)

        low_gain = gain(center - before.low, center - now.low)
        high_gain = gain(before.high - center, now.high - center)
        return low_gain if now.low >= low else 0.0, high_gain

    # --- the answer -------------------------------------------------------------

    def improve(self, guess: Guess) -> Guess:
        """The estimate of V with the mean of the paths, where its error is smaller."""
        error, counted_error = self.paths.standard_error, guess.standard_error
        if error is None or (counted_error is not None and counted_error < error):
            return guess
        return guess._replace(mean=self.paths.mean, standard_error=error, unsolved=0.0)

    def annotate(self, estimate: Estimate, root: int) -> Estimate:
        """The answer with the promise of both, and notes on who gave which end."""
        certificate, paths = estimate.certificate, self.paths
        if certificate is None:
            return estimate
        delta = self.query.promise.failure()
        row = self.search.memory.graph.nodes[root]
        search_low, low = float(row["lower"]), paths.low
        best_actions = certificate.best_actions
        if is_greedy(self.search.problem.operator.code):
            best_actions = tuple(
                action
                for action in best_actions or ()
                if certificate.q_intervals[action][1] >= low
            )
        certificate = replace(
            certificate, confidence=1.0 - delta, best_actions=best_actions
        )
        estimate = replace(estimate, delta=delta)
        if paths.count:
            certificate = replace(
                certificate,
                bound=f"{certificate.bound}; a policy's value from below by a product "
                f"of bets over {count_noun(paths.count, 'path')}",
            )
        if low > search_low:
            notes = (*estimate.notes, *self._end_notes(estimate))
            estimate = replace(estimate, notes=notes)
        return replace(estimate, certificate=certificate)

    def _end_notes(self, estimate: Estimate) -> tuple[str, ...]:
        """Where either end comes from, and what would narrow the wider side."""
        paths = self.paths
        assert estimate.interval is not None
        search_calls = estimate.num_calls - paths.num_calls
        ends_note = (
            f"Lower end: {count_noun(paths.count, 'path')} of the counted model's "
            f"policy ({count_noun(paths.num_calls, 'call')}). Upper end: certified "
            f"search ({count_noun(search_calls, 'call')})."
        )
        low, high = estimate.interval
        if high - estimate.value <= estimate.value - low:
            return (ends_note,)
        share = 100.0 * search_calls / max(1, estimate.num_calls)
        return (
            ends_note,
            f"{ADVICE}the upper end is the farther one, and {share:.0f}% of the calls "
            "went there: value_bounds=, bounds on the value that you know, narrow it.",
        )

    # --- snapshots --------------------------------------------------------------

    _saved_sections: dict[str, Any] | None = None  # in the place of those of now

    def sections(self) -> dict[str, Any]:
        """The sections of a snapshot."""
        if self._saved_sections is not None:
            return self._saved_sections
        data = {"paths": self.paths.state(), "marks": self.marks, "guess": self.guess}
        text = json.dumps(data).encode()
        return {
            "paths": np.frombuffer(text, np.uint8),
            "path_values": self.policy.values,
        }

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Restore the sections."""
        require("paths" in sections and "path_values" in sections, "it has no paths")
        data = json.loads(bytes(sections["paths"]))
        self.paths.set_state(data["paths"])
        self.marks = [Mark(*mark) for mark in data["marks"]]
        self.guess = data["guess"]
        values = np.frombuffer(sections["path_values"], np.float64).copy()
        require(
            len(values) <= self.search.memory.num_nodes, "a value of a path is none"
        )
        self.policy.values = values
        position = self.search.position
        if position is not None and self.paths.num_blocks:
            self._show_low(position.root)

    def close(self) -> None:
        """Release threads."""
        self.policy.close()


def _fall_rate(calls_before: int, calls: int, gap_before: float, gap: float) -> float:
    """b where a gap falls like calls**-b."""
    if not gap_before > gap > 0.0 or calls <= calls_before:
        return 0.0
    rate = math.log(gap_before / gap) / math.log(calls / calls_before)
    return min(MOST_RATE, rate)
