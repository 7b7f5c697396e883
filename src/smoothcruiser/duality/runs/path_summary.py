"""What a run of paths knows: limits of all statements, estimates, and its numbers.

Statements of one answer hold together: each has its share of delta (``share_delta``).
With relaxed player 1 the mean of U - L bounds V - V_pi from above, for player 2
that of L - U bounds V_pi - V; in a game the difference of the two U bounds NashConv.
The regret is the smaller of this limit and the distance of the two ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.duality.runs.mixture_bounds import MixtureBounds
from smoothcruiser.duality.runs.path_pilot import GapForecast, PathPlan
from smoothcruiser.duality.runs.path_ranges import PathRanges
from smoothcruiser.duality.runs.path_samples import (
    PathRequest,
    PathSamples,
    RunningMoments,
)
from smoothcruiser.estimate import Interval
from smoothcruiser.evaluation.path_rules import earned_range, value_range
from smoothcruiser.run_control.control import StopReason

Floats = NDArray[np.float64]


# columns of the moments: the two ends, their difference, the policy, their middle, then
# q_upper and q_lower
GAP_COLUMN, POLICY_COLUMN, MIDDLE, FIRST_MOMENT = 2, 3, 4, 5


@dataclass(frozen=True)
class PathRefit:
    """The ranges from one path on: a new W has others."""

    path: int  # the first path that they are for
    ranges: PathRanges
    clip: Interval
    root_value: float


@dataclass(frozen=True)
class PathSummary:
    """The answer of a run of paths."""

    interval: Interval  # of V(state); empty (low > high) where a declaration is false
    policy_interval: Interval  # NaN where no statement on the policy is wanted
    regret: float  # at least V - V_pi (a minimizer: V_pi - V); NashConv in a game
    q_intervals: tuple[Interval, ...]  # NaN at actions that are not legal
    value: float  # an estimate, and its usual standard error
    standard_error: float | None
    policy_value: float
    policy_error: float | None
    gap: float  # the mean of upper - lower
    gap_error: float | None
    q_values: tuple[float, ...]  # the middle of the two means
    q_errors: tuple[float, ...]
    # means of q_upper and of q_lower by legal action, and the covariances of both
    # lists of single paths: for differences between actions
    action_means: Floats
    action_covariances: Floats | None  # None where there are too many actions
    num_paths: int
    cut_paths: int
    nodes_per_path: float
    calls: dict[str, int]  # by role; they add up to num_calls
    shares: dict[str, float]
    plan: PathPlan | None  # None where no path was affordable
    refits: tuple[PathRefit, ...]
    stop: StopReason | None  # None where the accuracy is reached
    forecast: GapForecast
    executor: str
    inspection: str  # what is known of the step
    seconds: float

    @property
    def num_calls(self) -> int:
        """All calls of the step, whatever for."""
        return sum(self.calls.values())

    @property
    def ranges(self) -> PathRanges | None:
        """The ranges of the last paths."""
        return None if self.plan is None else self.plan.ranges


class PathStatements:
    """The limits of all statements of one answer, and the estimates beside them."""

    def __init__(self, task: PathRequest, plan: PathPlan) -> None:
        self.task, self.legal, self.shares = task, list(task.legal), task.shares
        self.names = ["upper", "lower"]
        if task.has_policy:
            self.names += ["gap"]
            self.names += ["policy_upper"] if task.players != (2,) else []
            self.names += ["policy_lower"] if task.players != (1,) else []
        num_legal = len(self.legal)
        alphas = [self._share(name) for name in self.names]
        alphas += [self.shares.get("upper_action", 0.0)] * num_legal
        alphas += [self.shares.get("lower_action", 0.0)] * num_legal
        self.bounds = MixtureBounds(alphas, self._first_highs(), plan.weights)
        self.moments = RunningMoments(FIRST_MOMENT + 2 * num_legal)
        self.last_interval = first_interval(task)
        self.begin_era(plan)

    def _share(self, name: str) -> float:
        if name == "policy_lower" and self.task.is_game:
            return self.shares["policy_low"]
        return self.shares[name.split("_")[0]]

    def _first_highs(self) -> list[float]:
        """Limits that hold before any path, from declared bounds."""
        low, high = first_interval(self.task)
        policy_low, policy_high = policy_bounds(self.task)
        if self.task.is_game:
            gap = policy_high - policy_low
        else:
            gap = max(high - policy_low, policy_high - low)
        highs = {
            "upper": high,
            "lower": -low,
            "gap": math.nextafter(gap, math.inf),
            "policy_upper": policy_high,
            "policy_lower": -policy_low,
        }
        if self.task.has_policy and not self.task.is_game:
            # the walk's end is one of the policy's value too: V's bounds are not its
            walk_name = "lower" if self.task.players == (1,) else "upper"
            highs[walk_name] = highs[f"policy_{walk_name}"]
        q_low, q_high = self._q_bounds()
        num_legal = len(self.legal)
        first_highs = [highs[name] for name in self.names]
        return first_highs + [q_high] * num_legal + [-q_low] * num_legal

    def _q_bounds(self) -> Interval:
        problem = self.task.problem
        mover = problem.mover(self.task.state)
        q_low, q_high = problem.facts.q_bounds(mover, self.task.steps_left)
        if not self.task.is_game:
            return q_low, q_high
        # the ends of a game bound values against a fixed opponent
        return -math.inf, math.inf

    def begin_era(self, plan: PathPlan) -> None:
        """Bet with the ranges of a plan from now on."""
        ranges, stats = plan.ranges, plan.stats
        edges = {
            "upper": ranges.upper,
            "lower": -ranges.lower,
            "gap": ranges.gap,
            "policy_upper": ranges.walk_upper,
            "policy_lower": -ranges.walk_lower,
        }
        centers = {
            "upper": stats.upper,
            "lower": -stats.lower,
            "gap": stats.gap,
            "policy_upper": stats.upper,
            "policy_lower": -stats.lower,
        }
        num_legal = len(self.legal)
        self.edges = np.array(
            [edges[name] for name in self.names]
            + [ranges.upper] * num_legal
            + [-ranges.lower] * num_legal
        )
        self.bounds.begin_era(
            self.edges.tolist(),
            [centers[name] for name in self.names]
            + [stats.upper] * num_legal
            + [-stats.lower] * num_legal,
        )

    def take_samples(self, samples: PathSamples, losses: Floats) -> None:
        """Bet on samples, each moved to the safe side by its loss of rounding.

        No exact number lies beyond its edge, so that nothing is lost by that end.
        """
        columns = {
            "upper": samples.upper + losses,
            "lower": losses - samples.lower,
            "gap": samples.upper - samples.lower + 2.0 * losses,
            "policy_upper": samples.policy_upper + losses,
            "policy_lower": losses - samples.policy_lower,
        }
        bets = np.column_stack(
            [
                *(columns[name] for name in self.names),
                samples.q_upper + losses[:, None],
                losses[:, None] - samples.q_lower,
            ]
        )
        self.bounds.take_samples(np.minimum(bets, self.edges))
        self.moments.add(
            np.column_stack(
                [
                    samples.upper,
                    samples.lower,
                    samples.upper - samples.lower,
                    0.5 * (samples.policy_upper + samples.policy_lower),
                    0.5 * (samples.upper + samples.lower),
                    samples.q_upper,
                    samples.q_lower,
                ]
            )
        )

    def narrow(self) -> bool:
        """Bring all limits up to date; whether the interval's ends cross.

        Crossed ends are a failure that delta allows: the last interval that was not
        empty stands. An end beyond a declared bound leaves an empty interval.
        """
        self.bounds.lower_highs()
        low, high = self._interval_now()
        first_low, first_high = first_interval(self.task)
        if low <= high or low > first_high or high < first_low:
            self.last_interval = low, high
        return low > high

    def _high(self, name: str) -> float:
        return float(self.bounds.highs[self.names.index(name)])

    def _interval_now(self) -> Interval:
        """The ends from samples of V, and from the actions' limits together."""
        task, legal = self.task, self.legal
        first_low, first_high = first_interval(task)
        low = max(first_low, -self._high("lower"))
        high = min(first_high, self._high("upper"))
        if legal and not task.is_game:
            operator = task.problem.operator
            weights = operator.weights(task.problem.num_actions)
            q_lows, q_highs = self._q_limits()
            if np.isfinite(q_lows).all() and np.isfinite(q_highs).all():
                q_range = operator.value_bounds(
                    q_lows.tolist(),
                    q_highs.tolist(),
                    player=task.problem.mover(task.state),
                    weights=[weights[a] for a in legal],
                )
                low, high = max(low, q_range[0]), min(high, q_range[1])
        return low, high

    def _q_limits(self) -> tuple[Floats, Floats]:
        begin, num_legal = len(self.names), len(self.legal)
        highs = self.bounds.highs[begin:]
        return -highs[num_legal:], highs[:num_legal]

    def policy_interval(self) -> Interval:
        """The limits of the policy's value."""
        if not self.task.has_policy:
            return math.nan, math.nan
        low = -self._high("policy_lower" if self.task.players != (1,) else "lower")
        high = self._high("policy_upper" if self.task.players != (2,) else "upper")
        return low, high

    def regret(self) -> float:
        """At least the regret of the policy, or NashConv in a game."""
        if not self.task.has_policy:
            return math.nan
        low, high = self.last_interval
        policy_low, policy_high = self.policy_interval()
        if self.task.is_game:
            difference = high - low
        elif self.task.players == (1,):
            difference = high - policy_low
        else:
            difference = policy_high - low
        difference = math.nextafter(difference, math.inf)
        return max(0.0, min(self._high("gap"), difference))

    def action_half_width(self) -> float:
        """The largest half-width of an action's limits; 0 where there are none."""
        lows, highs = self._q_limits()
        return 0.5 * float(np.max(highs - lows, initial=0.0))

    def q_intervals(self) -> tuple[Interval, ...]:
        """The limits of each action's value."""
        lows, highs = self._q_limits()
        intervals = [(math.nan, math.nan)] * self.task.problem.num_actions
        for number, action in enumerate(self.legal):
            intervals[action] = float(lows[number]), float(highs[number])
        return tuple(intervals)

    def q_estimates(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Estimates of the actions' values, and their standard errors."""
        num_legal = len(self.legal)
        values = [math.nan] * self.task.problem.num_actions
        errors = values.copy()
        begin = FIRST_MOMENT + num_legal
        uppers = self.moments.means[FIRST_MOMENT:begin]
        lowers = self.moments.means[begin:]
        errors_of = self.moments.standard_errors()[FIRST_MOMENT:]
        pair = 0.5 * (errors_of[:num_legal] + errors_of[num_legal:])
        for number, action in enumerate(self.legal):
            if self.moments.count:
                values[action] = float(0.5 * (uppers[number] + lowers[number]))
                errors[action] = float(pair[number])
        return tuple(values), tuple(errors)

    def estimate(self) -> tuple[float, float | None]:
        """The middle of the two means, within the interval, and its standard error."""
        low, high = self.last_interval
        if self.moments.count == 0:
            return 0.5 * (low + high), None
        middle, error = self.column_estimate(MIDDLE)
        return min(max(middle, low), max(low, high)), error

    def column_estimate(self, column: int) -> tuple[float, float | None]:
        """The mean of a column of the moments, and its standard error."""
        count = self.moments.count
        if count == 0:
            return math.nan, None
        error = float(self.moments.standard_errors()[column])
        return float(self.moments.means[column]), error if count > 1 else None


def first_interval(task: PathRequest) -> Interval:
    """Bounds on V at the start, before any path."""
    problem = task.problem
    if task.is_game:
        # the ends of a game hold V against a fixed opponent
        return earned_range(problem, task.steps_left)
    return problem.facts.value_bounds(problem.mover(task.state), task.steps_left)


def policy_bounds(task: PathRequest) -> Interval:
    """Bounds on the value of every policy, before any path."""
    if task.problem.is_game:
        return earned_range(task.problem, task.steps_left)
    return value_range(task.problem, task.steps_left)


def sum_calls_by_role(
    roles: Sequence[str], role_calls: Floats, **calls: int
) -> dict[str, int]:
    """Calls by role: those of the paths that count, and ``calls`` for all else."""
    counts = {role: int(count) for role, count in zip(roles, role_calls, strict=True)}
    return {name: count for name, count in {**calls, **counts}.items() if count}
