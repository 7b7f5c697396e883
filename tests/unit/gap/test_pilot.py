"""PathPilot paths: what they choose, what they cost, and the price that follows.

``PathPilot`` is imported itself: its laws are rows of a fake machine.
"""

import math

import numpy as np
import pytest
from fake_paths import FakeCritic, FakeMachine

import smoothcruiser as sc
from smoothcruiser.duality.machines.gap_rules import (
    CLIP_HIGH,
    CLIP_LOW,
    UPPER,
    W_HIGH,
    W_LOW,
)
from smoothcruiser.duality.runs.path_pilot import (
    PILOT_PATHS,
    PathPilot,
    forecast_from_facts,
    predict_paths,
    predict_width,
)
from smoothcruiser.duality.runs.path_samples import PathRequest
from smoothcruiser.query import Promise


def problem_of(discount=1.0, horizon=4, **more):
    """Rewards between 0 and 1."""
    return sc.MDP(
        lambda s, a, rng: (0.5, s),
        num_actions=1,
        discount=discount,
        horizon=horizon,
        operator=sc.Max(),
        reward_range=(0.0, 1.0),
        initial_state=0,
        **more,
    )


def request_of(problem, epsilon=0.05, value=2.0, **more):
    """A request without statements about actions."""
    return PathRequest(
        problem,
        0,
        problem.horizon,
        FakeCritic(value),
        0.05,
        Promise(epsilon=epsilon, delta=0.05),
        wants_actions=False,
        **more,
    )


class RuleMachine(FakeMachine):
    """A machine whose gap and calls depend on the rule."""

    def __init__(self, gap_of, calls_of):
        super().__init__(lambda rng: 2.0 + 0.01 * rng.standard_normal())
        self.gap_of, self.calls_of, self.rules = gap_of, calls_of, []

    def play_paths(self, first, count, rule, times, most_calls, *, pilot=False):
        self.rules.append(rule)
        self.loss, cost = self.gap_of(rule), self.calls_of(rule)
        self.cost = lambda upper: cost
        rows = super().play_paths(first, count, rule, times, most_calls, pilot=pilot)
        if len(rows):
            rows[:, UPPER] = np.minimum(rows[:, UPPER], 2.5)
            rows[:, W_LOW], rows[:, W_HIGH] = 1.0, 3.0
            self.value_spans = np.tile([1.0, 3.0], (len(times), 1))
        return rows


def choose(machine, problem=None, most_calls=10**9, calls_left=math.inf, **more):
    """The plan of a pilot."""
    request = request_of(problem or problem_of(), **more)
    return PathPilot(machine, request).choose_plan(most_calls, math.inf, calls_left)


def test_small_m_and_many_paths_win_where_the_gap_allows_it():
    # the gap is .3/m: at a width of .1 m = 8 is the cheapest, m = 2 never narrow enough
    plan = choose(RuleMachine(lambda r: 0.3 / r.num_inner, lambda r: r.num_inner + 1))
    assert plan.rule.num_inner == 8
    plan = choose(
        RuleMachine(lambda r: 0.3 / r.num_inner, lambda r: r.num_inner + 1),
        epsilon=1.0,
    )
    assert plan.rule.num_inner == 2


@pytest.mark.parametrize("is_better", [False, True])
def test_mirrored_and_plain_samples_are_compared(is_better):
    def gap(rule):
        return 0.01 if rule.mirrored == is_better else 0.08

    plan = choose(RuleMachine(gap, lambda rule: 10))
    assert plan.rule.mirrored is is_better


def test_the_length_of_a_path_is_chosen_without_a_horizon():
    def calls_of(rule):
        return 10 if rule.fixed else 1000

    problem = problem_of(0.9, None)
    plan = choose(RuleMachine(lambda rule: 0.01, calls_of), problem, value=5.0)
    assert plan.rule.fixed
    assert not plan.rule.ends_at_horizon
    # what a truncation adds is a twentieth of the wanted width
    assert 0.9**plan.rule.head * 10.0 <= 0.05 * 0.1
    plan = choose(
        RuleMachine(lambda r: 0.01, lambda r: 1010 - calls_of(r)), problem, value=5.0
    )
    assert not plan.rule.fixed
    assert plan.rule.head >= 9


def test_the_clip_is_what_was_seen_and_a_margin_within_the_bounds():
    plan = choose(RuleMachine(lambda rule: 0.01, lambda rule: 10))
    # seen [1, 3]: .25 + .05 of 2 on either side; V lies in [0, 4 - t]
    assert plan.times[:, CLIP_LOW].tolist() == pytest.approx([2.0, 0.4, 0.4, 0.4, 0.0])
    assert plan.times[:, CLIP_HIGH].tolist() == pytest.approx(
        [2.0, 3.0, 2.0, 1.0, 0.0]
    )
    assert plan.rule.upper_cut == pytest.approx(max(3 * 0.1, 0.02 * (3.0 - 0.4)))


def test_pilot_paths_are_never_the_paths_that_count_and_are_all_counted():
    machine = RuleMachine(lambda rule: 0.01, lambda rule: 10)
    pilot = PathPilot(machine, request_of(problem_of()))
    plan = pilot.choose_plan(10**9, math.inf, math.inf)
    assert all(is_pilot for _, _, is_pilot in machine.asked)
    assert pilot.calls == machine.calls == plan.forecast.pilot_calls
    pilot.refit_plan(plan, 10**6)
    assert machine.asked[-1] == (PILOT_PATHS, PILOT_PATHS, True)


def test_a_layer_is_capped_where_a_path_costs_more_than_the_pilot_may():
    machine = RuleMachine(lambda rule: 0.01, lambda rule: 10 * rule.most_nodes)
    plan = choose(machine, most_calls=21_000)
    assert plan.rule.most_nodes == 2**4
    assert machine.calls <= 21_000
    assert choose(machine, most_calls=20) is None


def test_a_budget_chooses_by_the_width_when_it_is_used_up():
    # far too few calls for the width: noise and range count, not the gap
    plan = choose(
        RuleMachine(lambda r: 0.3 / r.num_inner, lambda r: r.num_inner + 1),
        epsilon=0.1,
        calls_left=500.0,
    )
    assert plan.rule.num_inner == 2
    assert plan.forecast.calls > 500.0


def test_the_forecast_is_the_width_that_it_predicts():
    plan = choose(RuleMachine(lambda rule: 0.01, lambda rule: 10))
    forecast = plan.forecast
    width = predict_width(plan.ranges, plan.stats, plan.levels, forecast.paths)
    assert width == pytest.approx(forecast.width, rel=0.02)
    assert forecast.calls == pytest.approx(forecast.paths * 10)
    too_narrow = predict_paths(plan.ranges, plan.stats, plan.levels, 0.005)
    assert too_narrow == math.inf


def test_the_ranges_have_a_price_before_any_path():
    machine = RuleMachine(lambda rule: 0.0, lambda rule: 10)
    forecast = forecast_from_facts(request_of(problem_of()))
    assert forecast.calls is None
    assert forecast.source == "declared facts"
    assert 1.0 < forecast.paths < math.inf
    # paths of a gap of 0 know the clip of W, and need fewer
    assert choose(machine).forecast.paths < forecast.paths
    assert (
        forecast_from_facts(request_of(problem_of(), epsilon=None)).paths == math.inf
    )
    wide = forecast_from_facts(request_of(problem_of(0.99, None), value=0.0))
    assert wide.range_upper > 100.0
