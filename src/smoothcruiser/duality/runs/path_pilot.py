"""Pilot paths: the choices before the paths that count, and the price.

Everything here is a choice; the promise holds whatever is chosen, as long as it is
chosen before the paths that it is for. Pilot paths have streams of their own, count as
calls, and are used for nothing else.

Compared, eight paths each, on the same noise: the length of a path without a horizon (a
head of 1 or of 4 times 1/(1 - gamma) steps and then a coin, or a truncation), then
m = 2, 8, 32, 128 inner samples, mirrored, then plain ones. What counts is the predicted
number of calls until the interval is narrow enough, or else its width when the limit
comes. With N = nu - v the distance to the range and l = log(1/alpha), n samples with
standard deviation s leave about

  D l/n + s^2/(2 D),    D = max(N, s sqrt(n/(2 l)))

on either side, beside the mean of U - L, which no number of paths reduces. The range
does not depend on m: small m and many paths are often the best.

The clip of W is the range seen at its time, a quarter wider on either side (a bound on V
is used where it is narrower), W_0 alone at the root. The cut c is three times the
largest score, or 2% of the range of values after a cut.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.duality.machines.gap_rules import (
    CLIP_HIGH,
    CLIP_LOW,
    SCORE_HIGH,
    VALUE_HIGH,
    VALUE_LOW,
    W_HIGH,
    W_LOW,
    WALK_SCORE_HIGH,
    WALK_SCORE_LOW,
    GapRule,
)
from smoothcruiser.duality.machines.path_machines import PathMachine
from smoothcruiser.duality.runs.mixture_bounds import EDGE_WEIGHT, pole_weights
from smoothcruiser.duality.runs.path_ranges import PathRanges, path_ranges, value_rows
from smoothcruiser.duality.runs.path_samples import (
    PathRequest,
    PathSamples,
    play_tables,
    read_samples,
)
from smoothcruiser.query import nearest_to_zero

Floats = NDArray[np.float64]

PILOT_PATHS = 8  # of each rule that is compared
INNER_COUNTS = (2, 8, 32, 128)  # m
# lookahead samples of the greedy policy per inner sample: its decisions are taken at one
# state of a layer, and they are as noisy as Qhat
LOOK_FACTOR = 2
HEADS = (1.0, 4.0)  # of killed paths, in units of 1/(1 - gamma)
TAIL_SHARE = 0.05  # of the wanted width, that a truncation may add
DEFAULT_WIDTH = 0.01  # of the value span, where no accuracy is wanted
CLIP_MARGIN = 0.25  # of the range of W that was seen
WHOLE_MARGIN = 0.05  # of the range at all times: few values are seen at one time
CUT_FACTOR, CUT_SHARE = 3.0, 0.02
MOST_NODES = 2**20  # states of a layer: what fits into memory
NODE_CAPS = (MOST_NODES, 2**13, 2**8, 2**4, 1)  # tried where a path costs too much
MOST_PATHS = 1e15  # that a forecast looks ahead


@dataclass(frozen=True)
class GapForecast:
    """The price of an answer, predicted."""

    source: str  # "declared facts" or "pilot paths"
    width: float | None  # of the interval that is wanted
    paths: float  # until it is that narrow; inf where no number of paths is enough
    calls: float | None  # None where no path was played
    range_upper: float
    range_lower: float
    gap: float | None = None  # the mean of U - L, which remains
    calls_per_path: float | None = None
    nodes_per_path: float | None = None
    pilot_calls: int = 0


class PilotStats(NamedTuple):
    """A rule on its pilot paths."""

    upper: float
    lower: float
    upper_sd: float
    lower_sd: float
    gap: float
    calls: float  # per path
    nodes: float
    spans: Floats  # (T, 2) the range of W that was seen, by row of ``times``
    scores: tuple[float, ...]  # the largest of each pass
    walk_score: float  # the largest absolute value


@dataclass(frozen=True)
class PathPlan:
    """Everything that is fixed before the paths that count."""

    rules: tuple[GapRule, ...]  # one for each relaxed player
    times: Floats
    passes: tuple[PathRanges, ...]
    ranges: PathRanges  # of all passes together
    root_value: float
    clip: tuple[float, float]
    weights: Floats  # of the poles
    levels: tuple[float, float]  # log(1/alpha) of the two ends
    stats: PilotStats
    forecast: GapForecast

    @property
    def rule(self) -> GapRule:
        """The rule of the first pass."""
        return self.rules[0]


def predict_width(
    ranges: PathRanges, stats: PilotStats, levels: tuple[float, float], paths: float
) -> float:
    """The width of the interval after so many paths, about."""
    sides = (
        (ranges.upper - stats.upper, stats.upper_sd, levels[0]),
        (stats.lower - ranges.lower, stats.lower_sd, levels[1]),
    )
    width = max(0.0, stats.gap)
    for reach, sd, level in sides:
        distance = max(reach, sd * math.sqrt(paths / (2.0 * level)), 1e-300)
        width += distance * level / paths + sd * sd / (2.0 * distance)
    return width


def predict_paths(
    ranges: PathRanges, stats: PilotStats, levels: tuple[float, float], width: float
) -> float:
    """The number of paths until the interval is so narrow; inf if it never is."""
    if predict_width(ranges, stats, levels, MOST_PATHS) > width:
        return math.inf
    few, many = 1.0, MOST_PATHS
    while many / few > 1.01:
        middle = math.sqrt(few * many)
        is_enough = predict_width(ranges, stats, levels, middle) <= width
        few, many = (few, middle) if is_enough else (middle, many)
    return many


def forecast_from_facts(task: PathRequest) -> GapForecast:
    """The part of the price that the ranges cost, before any path.

    W is taken to span all bounds on V, and to be right: the paths needed are those
    of a gap of 0 without noise. A pilot narrows the clip, and adds the gap.
    """
    rule = replace_players(_path_forms(task)[0], task, 0)
    times = value_rows(task.problem, task.steps_left, _count_rows(task))
    times[:, CLIP_LOW], times[:, CLIP_HIGH] = times[:, VALUE_LOW], times[:, VALUE_HIGH]
    low, high = (float(x) for x in times[0, [VALUE_LOW, VALUE_HIGH]])
    root = 0.5 * (low + high)
    rule = rule._replace(
        upper_cut=CUT_SHARE * (high - low), lower_cut=CUT_SHARE * (high - low)
    )
    ranges = path_ranges(task.problem, rule, times, root)
    spans = times[:, [CLIP_LOW, CLIP_HIGH]]
    stats = PilotStats(root, root, 0.0, 0.0, 0.0, 0.0, 0.0, spans, (0.0,), 0.0)
    width = wanted_width(task, root)
    paths = math.inf
    if width is not None:
        paths = predict_paths(ranges, stats, bound_levels(task), width)
    return GapForecast(
        "declared facts", width, paths, None, ranges.upper, ranges.lower
    )


def bound_levels(task: PathRequest) -> tuple[float, float]:
    """log(1/alpha) of the upper and the lower end, the weight of the edge included."""
    shares, extra = task.shares, -math.log(EDGE_WEIGHT)
    return math.log(1.0 / shares["upper"]) + extra, math.log(
        1.0 / shares["lower"]
    ) + extra


def wanted_width(task: PathRequest, value: float) -> float | None:
    """The width of the requested interval, where the value is about ``value``."""
    promise = task.promise
    if promise.relative is not None:
        return 2.0 * promise.relative * nearest_to_zero((value, value))
    return None if promise.epsilon is None else 2.0 * promise.epsilon


def replace_players(rule: GapRule, task: PathRequest, number: int) -> GapRule:
    """The rule of one pass; the walk is the same in all."""
    looks = max(task.num_lookahead, LOOK_FACTOR * rule.num_inner)
    return rule._replace(
        relaxed=task.players[number],
        walks=number == 0,
        num_lookahead=looks if task.num_lookahead > 0 else 0,
        walks_every_action=task.wants_actions and not task.is_game,
    )


def _count_rows(task: PathRequest) -> int:
    """Rows of ``times``: one for each time, or the root and all others."""
    return 2 if task.steps_left is None else task.steps_left + 1


def pilot_rules(task: PathRequest) -> list[GapRule]:
    """The rules that are compared first, each with the fewest inner samples."""
    num_inner = 0 if task.has_outcomes else INNER_COUNTS[0]
    if task.num_inner is not None:
        num_inner = task.num_inner
    is_mirrored = num_inner > 0 and num_inner % 2 == 0
    forms = [
        form._replace(num_inner=num_inner, mirrored=is_mirrored)
        for form in _path_forms(task)
    ]
    return [replace_players(form, task, 0) for form in forms]


def _path_forms(task: PathRequest) -> list[GapRule]:
    """The rules to choose from by the length of a path, the shortest first."""
    discount = float(task.problem.discount)
    if task.steps_left is not None:
        return [GapRule(discount, task.steps_left)]
    if discount == 0.0:
        return [GapRule(discount, 1, True, False)]
    low, high = task.problem.facts.value_hull()
    span = max(high - low, 1e-300)
    width = wanted_width(task, 0.5 * (low + high)) or DEFAULT_WIDTH * span
    if discount == 1.0:  # paths end by themselves; the truncation is far away
        return [GapRule(discount, 10**4, True, False)]
    tail = min(TAIL_SHARE * width / span, 0.5)
    forms = [
        GapRule(discount, math.ceil(units / (1.0 - discount)), False, False)
        for units in HEADS
    ]
    steps = math.ceil(math.log(tail) / math.log(discount))
    return [*forms, GapRule(discount, max(1, steps), True, False)]


class PathPilot:
    """The pilot of one run, and those of its refits."""

    def __init__(self, machine: PathMachine, task: PathRequest) -> None:
        self.machine, self.task = machine, task
        self.num_paths = 0  # pilot paths so far: refits take fresh ones
        self.calls = 0

    def choose_plan(
        self,
        most_calls: int,
        deadline: float,
        calls_left: float,
        seconds_left: float = math.inf,
    ) -> PathPlan | None:
        """The plan that is cheapest on pilot paths; None if no path was affordable.

        Args:
            most_calls: Calls of the pilot at the most.
            deadline: When it has to be over, by ``perf_counter``.
            calls_left: Calls that the run may make afterwards, about.
            seconds_left: The same in seconds; the pilot learns the speed.
        """
        self._open(most_calls, deadline, calls_left, seconds_left)
        forms, best = pilot_rules(self.task), None
        for cap in NODE_CAPS:
            best = self._compare([forms[0]._replace(most_nodes=cap)], None)
            if best is not None:
                break
        if best is not None:
            cap = best.rule.most_nodes
            forms = [form._replace(most_nodes=cap) for form in forms[1:]]
            best = self._compare(forms, best)
        if best is not None:
            best = self._compare(list(_couplings(self.task, best.rule)), best)
        return self._close(best)

    def refit_plan(self, plan: PathPlan, most_calls: int) -> PathPlan | None:
        """The same rule with the ranges of a new W, from fresh pilot paths."""
        self._open(most_calls, self.machine.deadline, math.inf, math.inf)
        open_rule = plan.rule._replace(upper_cut=math.inf, lower_cut=math.inf)
        return self._close(self._compare([open_rule], None))

    def _open(
        self, most_calls: int, deadline: float, calls_left: float, seconds_left: float
    ) -> None:
        """Begin a pilot with its limits, and those of the run after it."""
        self.began, self.calls_before = time.perf_counter(), self.machine.calls
        self.last_call, self.late = self.machine.calls + most_calls, deadline
        self.run_calls, self.run_seconds = calls_left, seconds_left

    def _close(self, plan: PathPlan | None) -> PathPlan | None:
        """Count the calls of a pilot, in its plan too."""
        self.num_paths += PILOT_PATHS
        self.calls += self.machine.calls - self.calls_before
        if plan is None:
            return None
        return replace(plan, forecast=replace(plan.forecast, pilot_calls=self.calls))

    def _calls_left(self) -> float:
        """The calls that the run may make afterwards, at the speed so far."""
        seconds = max(time.perf_counter() - self.began, 1e-9)
        speed = max(1.0, (self.machine.calls - self.calls_before) / seconds)
        return min(self.run_calls, self.run_seconds * speed)

    def _compare(self, rules: list[GapRule], best: PathPlan | None) -> PathPlan | None:
        """The best plan of these rules and the one so far."""
        for rule in rules:
            calls_allowed = self.last_call - self.machine.calls
            if best is None:  # smaller caps need their share too
                calls_allowed //= 2
            elif _pilot_calls(rule, best) > calls_allowed:
                continue
            stats = self._measure(rule, calls_allowed)
            if stats is None:
                continue
            plan = make_plan(self.task, rule, stats, self.root_value())
            calls_left = self._calls_left()
            if best is None or _cost(plan, calls_left) < _cost(best, calls_left):
                best = plan
        return best

    def root_value(self) -> float:
        """W at the root."""
        task = self.task
        return float(task.critic.values((task.state,), task.steps_left)[0])

    def _measure(self, rule: GapRule, calls_allowed: int) -> PilotStats | None:
        """Eight paths of a rule; None if they cost too much."""
        if calls_allowed <= 0 or time.perf_counter() >= self.late:
            return None
        task = self.task
        rules = [replace_players(rule, task, i) for i in range(len(task.players))]
        times = value_rows(task.problem, task.steps_left, _count_rows(task))
        tables = play_tables(
            self.machine,
            self.num_paths,
            PILOT_PATHS,
            rules,
            times,
            calls_allowed,
            pilot=True,
        )
        if len(tables[0]) < PILOT_PATHS:
            return None
        return summarize(read_samples(task, tables), tables, self.machine.value_spans)


def narrow_spans(spans: Floats, tables: list[Floats]) -> Floats:
    """The range of W by time, within that of these paths."""
    low = min(float(table[:, W_LOW].min()) for table in tables)
    high = max(float(table[:, W_HIGH].max()) for table in tables)
    lows, highs = np.maximum(spans[:, 0], low), np.minimum(spans[:, 1], high)
    # where nothing was seen (an empty range), and where a former W was
    is_empty = ~(lows <= highs)
    return np.column_stack(
        [np.where(is_empty, low, lows), np.where(is_empty, high, highs)]
    )


def summarize(samples: PathSamples, tables: list[Floats], spans: Floats) -> PilotStats:
    """The numbers of pilot paths that choices depend on."""
    walk_scores = tables[0][:, [WALK_SCORE_HIGH, WALK_SCORE_LOW]]
    walk_scores = walk_scores[np.isfinite(walk_scores)]  # no score in a single layer
    return PilotStats(
        float(samples.upper.mean()),
        float(samples.lower.mean()),
        float(samples.upper.std(ddof=1)),
        float(samples.lower.std(ddof=1)),
        float((samples.upper - samples.lower).mean()),
        float(samples.calls.mean()),
        float(samples.nodes.mean()),
        narrow_spans(spans, tables),
        tuple(max(0.0, float(table[:, SCORE_HIGH].max())) for table in tables),
        float(np.abs(walk_scores).max(initial=0.0)),
    )


def _couplings(task: PathRequest, rule: GapRule) -> Iterator[GapRule]:
    """Further numbers of inner samples, mirrored, and plain ones."""
    counts = INNER_COUNTS if task.num_inner is None else (task.num_inner,)
    for is_mirrored in (True, False):
        for num_inner in counts:
            new_rule = rule._replace(num_inner=num_inner, mirrored=is_mirrored)
            new_rule = replace_players(new_rule, task, 0)
            is_possible = num_inner > 0 and (num_inner % 2 == 0 or not is_mirrored)
            if is_possible and new_rule != rule:
                yield new_rule


def _pilot_calls(rule: GapRule, plan: PathPlan) -> float:
    """The calls of the pilot paths of another coupling, about."""
    if (rule.head, rule.fixed) != (plan.rule.head, plan.rule.fixed):
        return 0.0
    more = (1.0 + rule.num_inner) / (1.0 + plan.rule.num_inner)
    return PILOT_PATHS * plan.stats.calls * more


def make_plan(
    task: PathRequest, rule: GapRule, stats: PilotStats, root_value: float
) -> PathPlan:
    """The plan of a rule: clip, cuts, ranges, poles, forecast."""
    times = clipped_times(task, stats, root_value)
    later = times[1:] if len(times) > 1 else times
    upper_span = float((later[:, VALUE_HIGH] - later[:, CLIP_LOW]).max())
    lower_span = float((later[:, CLIP_HIGH] - later[:, VALUE_LOW]).max())
    span = max(upper_span, lower_span, 0.0)
    rules, passes = [], []
    for number in range(len(task.players)):
        pass_rule = replace_players(rule, task, number)._replace(
            upper_cut=max(CUT_FACTOR * stats.scores[number], CUT_SHARE * span),
            lower_cut=max(CUT_FACTOR * stats.walk_score, CUT_SHARE * span),
        )
        ranges = path_ranges(task.problem, pass_rule, times, root_value)
        if not ranges.is_cut:  # the range without it is no larger
            pass_rule = pass_rule._replace(upper_cut=math.inf)
        rules.append(pass_rule)
        passes.append(ranges)
    ranges = passes[0]
    if task.is_game:
        ends = passes[0].upper, passes[1].lower
        gap = math.nextafter(ends[0] - ends[1], math.inf)
        ranges = ranges._replace(upper=ends[0], lower=ends[1], gap=gap)
    levels = bound_levels(task)
    width = wanted_width(task, 0.5 * (stats.upper + stats.lower))
    paths = math.inf
    if width is not None:
        paths = predict_paths(ranges, stats, levels, width)
    forecast = GapForecast(
        "pilot paths",
        width,
        paths,
        paths * stats.calls,
        ranges.upper,
        ranges.lower,
        stats.gap,
        stats.calls,
        stats.nodes,
    )
    clip = float(later[:, CLIP_LOW].min()), float(later[:, CLIP_HIGH].max())
    is_noisy = math.isfinite(paths) and all(
        sd * math.sqrt(paths / (2.0 * level)) > reach
        for sd, level, reach in (
            (stats.upper_sd, levels[0], ranges.upper - stats.upper),
            (stats.lower_sd, levels[1], stats.lower - ranges.lower),
        )
    )
    return PathPlan(
        tuple(rules),
        times,
        tuple(passes),
        ranges,
        root_value,
        clip,
        pole_weights(is_noisy=is_noisy),
        levels,
        stats,
        forecast,
    )


def clipped_times(task: PathRequest, stats: PilotStats, root_value: float) -> Floats:
    """``times`` with the clip of W: the range seen, a quarter wider on either side."""
    times = value_rows(task.problem, task.steps_left, _count_rows(task))
    lows, highs = stats.spans[:, 0], stats.spans[:, 1]
    margins = CLIP_MARGIN * (highs - lows)
    margins += WHOLE_MARGIN * float(highs.max() - lows.min())
    low, high = lows - margins, highs + margins
    # V lies within its bounds, so that clipping to them brings W nearer to it
    times[:, CLIP_LOW] = np.clip(times[:, VALUE_LOW], low, high)
    times[:, CLIP_HIGH] = np.clip(times[:, VALUE_HIGH], low, high)
    times[0, CLIP_LOW] = times[0, CLIP_HIGH] = root_value
    if task.steps_left is not None:
        times[-1] = 0.0
    return times


def _cost(plan: PathPlan, calls_left: float) -> tuple[float, float]:
    """What is compared: calls where they suffice, else the width at the limit."""
    forecast = plan.forecast
    calls = math.inf if forecast.calls is None else forecast.calls
    if calls <= calls_left and math.isfinite(calls):
        return 0.0, calls
    return 1.0, _width_at(plan, calls_left)


def _width_at(plan: PathPlan, calls_left: float) -> float:
    """The width when the limit comes, about; without one what no path reduces."""
    if not math.isfinite(calls_left):
        return max(0.0, plan.stats.gap)
    paths = max(1.0, calls_left / max(1.0, plan.stats.calls))
    return predict_width(plan.ranges, plan.stats, plan.levels, paths)
