"""Limits of calls and seconds: schedules that fit into them, prices, and answers that they stop."""

import math
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.engines.stopping_rule import stopping_rule
from smoothcruiser.exact.model import Watch
from smoothcruiser.exact.reachable import known_model
from smoothcruiser.exact.solver import solve_model
from smoothcruiser.methods.advice import least_of_search, steps_that_matter
from smoothcruiser.methods.portfolio import _Judge
from smoothcruiser.methods.schedules import schedule_within_limits as fitting
from smoothcruiser.methods.schedules.schedule_run import combine_estimates, start_run
from smoothcruiser.methods.schedules.schedule_within_limits import (
    OVERFULL,
    FittedSchedule,
    fit_schedule,
)
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallRole
from smoothcruiser.schedule.alternatives import quick_schedule
from smoothcruiser.schedule.reach import OutOfTime, patience

pytestmark = pytest.mark.compiles


def step(state, action, rng):
    return rng.random(), (state + action) % 3


def problem(oracle=step, **more):
    facts = {"discount": 0.3, "operator": sc.Max(), "initial_state": 0}
    return sc.MDP(oracle, num_actions=2, **(facts | more))


@pytest.mark.parametrize(
    "method", [sc.SmoothCruiser(), sc.SparseSampling(), sc.Paper()]
)
def test_a_budget_alone_asks_for_the_best_promise(method):
    """Law: the schedule fits the budget, and that of a tenth less epsilon does not."""
    budget = 10**9 if isinstance(method, sc.Paper) else 5_000
    query = Query.of(problem(), delta=0.1, budget=budget)
    found = fit_schedule(method, query)
    room = budget - query.problem.inspection_calls
    assert found.schedule.num_calls <= room
    finer = replace(query.promise, epsilon=0.9 * found.schedule.epsilon)
    assert method.schedule(replace(query, promise=finer)).num_calls > room
    assert found.schedule.method == method.name
    assert f"fits the budget of {budget:,}" in found.notes[0]
    assert (query.ledger.total, found.shards) == (0, None)


def test_a_budget_for_nothing_has_an_answer():
    """Law: an interval for any budget, and never more calls than it."""
    asked = problem(discount=0.9)
    widths = []
    for budget in (1, 3, 10, 31):
        found = sc.plan(asked, delta=0.1, budget=budget, method="smoothcruiser")
        low, high = found.interval
        widths.append(high - low)
        assert found.calls_spent <= budget
        assert any("stopped at its budget" in note for note in found.notes)
        assert any("as far as that goes" in note for note in found.notes)
    assert widths[0] == pytest.approx(10.0)
    again = sc.plan(asked, delta=0.1, budget=31, method="smoothcruiser")
    assert again.value == found.value  # a budget does not depend on the machine


def test_seconds_choose_a_schedule_for_the_measured_speed():
    """Law: a simulator that waits gets a cheaper schedule, the calls that measure it
    are counted, and what was asked for is named with its price.
    """

    def slow(state, action, rng):
        time.sleep(2e-3)
        return step(state, action, rng)

    asked = {"delta": 0.1, "seconds": 2.0, "epsilon": 0.005}
    query = Query.of(problem(slow), **asked)
    found = fit_schedule(sc.SmoothCruiser(), query)
    promise = replace(query.promise, epsilon=found.schedule.epsilon)
    chosen = sc.SmoothCruiser().schedule(replace(query, promise=promise))
    assert chosen.num_calls < 1_000  # 2 s of 2 ms
    # it has more samples at the root, of the same levels, and the clock ends it
    assert found.schedule.levels == chosen.levels
    assert found.schedule.num_calls <= OVERFULL * 1_000
    assert found.wanted == 0.005
    assert 0 < query.ledger.total < 100
    assert "Epsilon 0.005 would cost" in found.notes[0]
    assert "the 2 s allowed" in found.notes[0]


def test_a_promise_that_fits_the_time_keeps_its_bits():
    """Law: seconds change nothing where the requested schedule fits."""
    asked = {"epsilon": 0.2, "delta": 0.1, "method": "smoothcruiser"}
    plain = sc.plan(problem(), **asked)
    timed = sc.plan(problem(), seconds=600.0, **asked)
    assert (timed.value, timed.interval) == (plain.value, plain.interval)
    assert timed.num_calls > plain.num_calls  # the calls that measured the speed
    assert timed.notes == plain.notes


def test_a_call_that_never_returns_does_not_hold_the_answer():
    """Law: the answer of a run whose only call sleeps for ever is what is certain."""

    def stuck(state, action, rng):
        time.sleep(3600.0)
        return 0.0, state

    asked = problem(stuck)
    found = sc.plan(asked, delta=0.1, seconds=0.2, method="smoothcruiser")
    assert found.interval == asked.facts.value_bounds()
    assert any("by its time limit" in note for note in found.notes)


def test_quick_search_ends_with_its_time_and_its_best_schedule():
    """Law: the best table so far, or ``OutOfTime`` where there is none."""
    facts = problem(discount=0.97, operator=sc.Entropy(0.3)).facts
    looks = iter(range(10**6))

    def clock():
        return float(next(looks))

    with patience(0.0, clock), pytest.raises(OutOfTime):
        quick_schedule(facts, 0.05, "q_values", 10**7)
    best = quick_schedule(facts, 0.05, "q_values", 10**7)
    assert 0.5e7 <= best.num_calls <= 1e7


@pytest.mark.parametrize("limit", [{"seconds": 60.0}, {"budget": 5e9}])
def test_a_limit_buys_no_promise_that_rounding_breaks(limit):
    """Law: who names no epsilon is never told that it is too fine.

    5e9 calls would pay for 0.00017, and sums of randomized levels are exact to 1e-5.
    """
    table = sc.make("chain:n=5", discount=0.2, temperature=10)
    fit = fit_schedule(sc.SmoothCruiser(), Query.of(table, delta=0.1, **limit))
    stopping_rule(fit.schedule, fit.shards)
    assert 1e-4 < fit.schedule.epsilon < 1e-2


def test_more_samples_at_the_root_keep_levels_and_promise():
    """Law: the price grows to what was asked, checkpoints go on, paper mode stays."""
    query = Query.of(problem(), delta=0.1, epsilon=0.2)
    schedule = sc.SmoothCruiser().schedule(query)
    more = schedule.stretch_root(7.3 * schedule.num_calls)
    assert (more.levels, more.epsilon) == (schedule.levels, schedule.epsilon)
    assert 7.2 < more.num_calls / schedule.num_calls <= 7.3
    kept = len(schedule.root.looks)
    assert more.root.looks[:kept] == schedule.root.looks
    assert schedule.root.samples < more.root.looks[-1] < more.root.samples
    assert list(more.root.looks) == sorted(set(more.root.looks))
    assert schedule.stretch_root(0.5 * schedule.num_calls) is schedule
    printed = sc.Paper().schedule(query)
    assert printed.stretch_root(2.0 * printed.num_calls) is printed


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_a_schedule_for_a_time_limit_goes_on_below_its_epsilon(factor):
    """Law: it samples to its end, promises what it has reached, and fails no oftener.

    Whether it was stretched or not.
    """
    asked = problem(lambda state, action, rng: (float(rng.random() < 0.2), state))
    truth = sc.plan(
        problem(
            lambda *_: (0.0, 0), outcomes=lambda s, a: [(0.2, 1.0, s), (0.8, 0.0, s)]
        ),
        method="exact",
    ).value
    query = Query.of(asked, delta=0.3, epsilon=0.2)
    schedule = sc.SmoothCruiser().schedule(query)
    early, missed = start_run(query, FittedSchedule(schedule=schedule)), 0
    schedule = schedule.stretch_root(factor * schedule.num_calls)
    assert any("early stop" in note for note in early.notes)
    for seed in range(20):
        to_the_end = FittedSchedule(schedule=schedule, wanted=0.0, inspects=False)
        found = start_run(replace(query, seed=seed), to_the_end)
        assert found.num_calls == schedule.num_calls > early.num_calls
        assert found.epsilon < 0.2
        low, high = found.interval
        missed += not low <= truth <= high
        assert high - low < early.interval[1] - early.interval[0]
    assert missed <= 6  # of 20, with delta 0.3


# --- prices -------------------------------------------------------------------


def asked(discount, epsilon, **more):
    """A coin in one state, and what is asked of it."""

    def step(state, action, rng):
        return rng.integers(2), state

    about = {"num_actions": 2, "operator": sc.Max(), "initial_state": 0}
    problem = sc.MDP(step, discount=discount, **about, **more)
    return problem, Query.of(problem, epsilon=epsilon, delta=0.1).promise


@pytest.mark.parametrize(
    ("discount", "epsilon", "steps"),
    [
        (0.3, "5%", 2),  # 0.3 is above a tenth of the span, 0.09 below it
        (0.5, "5%", 4),
        (0.05, "5%", 1),
        (0.0, "5%", 1),
        (0.9, "5%", 8),  # 22, and at the most 8
        (0.5, None, 8),
        (0.5, "60%", 1),
    ],
)
def test_steps_after_which_nothing_matters(discount, epsilon, steps):
    assert steps_that_matter(*asked(discount, epsilon), 8) == steps


def test_the_least_of_a_search():
    """log(4 * 2/0.1) * 0.5 * 2/(2 * 0.1) = 21.9 for each of two actions."""
    assert least_of_search(*asked(0.5, 0.1)) == 44
    assert least_of_search(*asked(0.5, 0.1, deterministic=True)) == 2


# --- auto is stopped ----------------------------------------------------------


class Counted:
    """A ring that counts its calls, may be stopped in one, and be slow from one on."""

    def __init__(self, stop=0, slow=10**9, seconds=3.0):
        self.calls, self.stop, self.slow, self.seconds = 0, stop, slow, seconds

    def __call__(self, state, action, rng):
        self.calls += 1
        if self.calls == self.stop:
            raise KeyboardInterrupt
        if self.calls >= self.slow:
            time.sleep(self.seconds)
        return 0.5 * rng.integers(2) + 0.25 * action, (state + rng.integers(2)) % 3

    def problem(self, **more):
        facts = {"num_actions": 2, "discount": 0.3, "operator": sc.Entropy(0.5)}
        return sc.MDP(self, **(facts | {"initial_state": 0} | more))


def spent(answer):
    return answer.num_calls if answer.calls_spent is None else answer.calls_spent


@pytest.mark.parametrize("number", [1, 2, 31, 45, 60])
@pytest.mark.parametrize(
    "limit", [{"epsilon": "5%"}, {"budget": 5000}, {"seconds": 1}]
)
def test_ctrl_c_in_the_look_counts_its_calls(number, limit):
    """Law: what was made is counted, also where nothing came of it."""
    step = Counted(stop=number)
    answer = sc.plan(step.problem(), delta=0.1, **limit)
    assert answer.num_calls == step.calls == number
    assert answer.interval == pytest.approx(step.problem().facts.value_bounds())
    assert "Stopped by hand before the first sample" in " ".join(answer.notes)


def test_ctrl_c_while_the_speed_is_measured_ends_it_all(monkeypatch):
    """Law: it is not forgotten because a search is chosen then."""

    def measure(query, most_calls):
        query.ledger.spend(CallRole.TIMING, 5)
        return fitting._Pace(rate=0.0, pressed=True)

    monkeypatch.setattr(fitting, "_measure_pace", measure)
    step = Counted()
    answer = sc.plan(step.problem(), delta=0.1, epsilon="1%", seconds=60.0)
    assert "Stopped by hand" in " ".join(answer.notes)
    assert answer.num_calls == step.calls + 5


@pytest.mark.parametrize("slow", [1, 60])
@pytest.mark.parametrize("method", ["auto", "certified"])
def test_a_step_that_is_slow_or_becomes_so_is_not_waited_for(method, slow):
    """Law: a call that lasts beyond the time limit is ended, in every part."""
    sc.plan(Counted().problem(), delta=0.1, epsilon="20%", method=method)  # compiles
    step, begin = Counted(slow=slow), time.perf_counter()
    answer = sc.plan(step.problem(), delta=0.1, seconds=0.4, method=method)
    assert time.perf_counter() - begin < 2.0
    assert spent(answer) == step.calls
    assert answer.interval is not None


def test_ctrl_c_in_the_look_ends_all_states():
    step = Counted(stop=40)
    found = sc.plan_many(step.problem(), [0, 1, 2], delta=0.1, epsilon="5%")
    assert found.num_calls == step.calls == 40
    assert all("Stopped by hand" in answer.notes[0] for answer in found)
    assert found[2].state == 2


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_an_answer_of_two_agrees_with_its_own_certificate(epsilon):
    """Law: action values lie in their intervals, which are as wide as epsilon says where
    it was stopped, and the action is none that the intervals exclude.
    """
    problem = Counted().problem()
    query = Query.of(problem, 0, epsilon=0.1, delta=0.1)
    one = sc.plan(problem, delta=0.05, budget=500, method="certified")
    two = sc.plan(problem, delta=0.05, epsilon=0.3, method="smoothcruiser")
    boxes = ((0.6, 0.9), (1.0, 1.4))
    first = replace(one, certificate=replace(one.certificate, q_intervals=boxes))
    wide = replace(two.certificate, q_intervals=((0.5, 1.5), (0.5, 1.5)))
    second = replace(
        two, q_values=(1.1, 1.05), action=0, epsilon=epsilon, certificate=wide
    )
    found = combine_estimates(query, first, second, 0.1)
    assert found.certificate.best_actions == (1,)
    assert found.action == 1
    assert found.policy[1] > found.policy[0]
    for q, (low, high) in zip(found.q_values, boxes, strict=True):
        assert low <= q <= high
    if epsilon != query.promise.epsilon:
        assert found.epsilon == pytest.approx(0.2)


@pytest.mark.parametrize("discount", [0.3, 0.1])
def test_ctrl_c_before_a_schedule_is_ready_gives_what_is_known(discount, monkeypatch):
    """Law: no exception, whether a search ran before (a race) or nothing did."""

    def pressed(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("smoothcruiser.engines.stopping_rule.stopping_rule", pressed)
    behind = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(_Judge, "behind", behind, raising=False)
    step = Counted()
    asked = {"epsilon": "5%" if discount == 0.3 else "45%", "delta": 0.1}
    answer = sc.plan(step.problem(discount=discount), **asked)
    assert answer.interval is not None
    assert answer.num_calls == step.calls


# --- answers that were stopped ------------------------------------------------


class Broken:
    """A coin whose call of the given number is broken off."""

    def __init__(self, number):
        self.left = number

    def __call__(self, state, action, rng):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return float(rng.random() < 0.5), 0


def coin(number):
    """V = 1: a mean reward of 1/2 at discount 1/2."""
    return mdp(Broken(number), operator=sc.Max())


@pytest.mark.parametrize("number", [1, 3, 60, 400])
@pytest.mark.parametrize("certify", [False, True])
def test_a_tree_answers_whenever_it_is_stopped(number, certify):
    """Before the first simulation, while it grows, and while it is rolled out."""
    asked = {"method": "uct", "budget": 700, "certify": certify}
    answer = sc.plan(coin(number), **asked, **({"delta": 0.01} if certify else {}))
    assert "Stopped by hand after" in " ".join(answer.notes)
    assert sum(answer.policy) == pytest.approx(1.0)
    assert math.isfinite(answer.value)
    if certify:
        assert answer.interval[0] <= 1.0 <= answer.interval[1]


def test_a_tree_that_a_callback_stops_is_certified_by_what_the_rewards_allow():
    problem = sc.make("chain:n=5", discount=0.5, temperature=0.1)
    stop = {"progress": lambda news: not news.calls, "certify": True, "budget": 10**8}
    answer = sc.plan(problem, method="ments", **stop)
    assert "Stopped by the callback" in " ".join(answer.notes)
    assert answer.interval == pytest.approx(problem.facts.value_bounds())


@pytest.mark.parametrize("number", [1, 20, 100, 900])
def test_an_evaluation_answers_whenever_it_is_stopped(number):
    found = sc.evaluate(coin(number), lambda s: [0.5, 0.5], delta=0.01)
    assert "Stopped by hand after" in found.notes[-1]
    assert found.interval[0] <= 1.0 <= found.interval[1]
    assert found.epsilon == 0.5 * (found.interval[1] - found.interval[0])


def test_an_evaluation_in_machine_code_is_stopped_from_its_callback():
    problem = sc.make("chain:n=5", discount=0.5, temperature=0.1)
    solution = sc.solve(problem)

    def press(report):
        if report.phase == "evaluating":
            signal.raise_signal(signal.SIGINT)

    found = sc.evaluate(problem, solution, delta=0.01, budget=10**9, progress=press)
    assert "Stopped by hand after" in found.notes[-1]
    assert found.interval[0] <= solution.values[0] <= found.interval[1]
    enough = lambda news: not news.calls  # noqa: E731
    found = sc.evaluate(problem, solution, delta=0.01, budget=10**9, progress=enough)
    assert "by the callback" in found.notes[-1]


def garnet(**about):
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(6), (30, 3))
    wide = np.zeros((30, 3, 30))
    for s, a in np.ndindex(30, 3):
        wide[s, a, rng.choice(30, 6, replace=False)] = P[s, a]
    return sc.tabular(wide, rng.random((30, 3)) - 0.4, **about)


WORLDS = {
    "discount": {"discount": 0.99, "operator": sc.Entropy(0.1)},
    "terminal": {
        "discount": 0.9,
        "operator": sc.Max(),
        "terminal": np.arange(30) % 7 == 1,
    },
    "horizon": {"discount": 1.0, "operator": sc.Sparsemax(0.2), "horizon": 12},
    "short": {"discount": 0.7, "operator": sc.Max(), "horizon": 5},
}


class Counting(Watch):
    """A watch that is pressed after a number of looks."""

    def __init__(self, most):
        super().__init__()
        self.left = most

    def __call__(self):
        self.left -= 1
        return None if self.left >= 0 else "hand"


@pytest.mark.parametrize("name", WORLDS)
def test_every_sweep_of_an_exact_solution_has_a_bound_that_holds(name):
    """Stopped after each number of looks at the clock; values and action values."""
    problem = garnet(**WORLDS[name])
    whole = sc.solve(problem)
    bounds = []
    for most in range(40):
        how = {"method": "value-iteration", "watch": Counting(most)}
        part = solve_model(problem, known_model(problem), **how)
        slack = part.residual_bound + whole.residual_bound
        assert np.abs(part.values - whole.values).max() <= slack
        assert np.nanmax(np.abs(part.q_values - whole.q_values)) <= slack
        bounds.append(part.residual_bound)
    assert bounds[0] > bounds[-1]
    assert "stopped after" in part.note or part.residual_bound <= whole.residual_bound


def test_a_model_that_is_not_listed_in_time_has_what_the_rewards_allow():
    def endless(state, action):
        time.sleep(1e-3)
        return [(0.5, 0.2, state + 1), (0.5, 0.8, 2 * state + action)]

    problem = mdp(
        lambda state, action, rng: (0.5, state + 1),
        operator=sc.Max(),
        outcomes=endless,
    )
    answer = sc.plan(problem, method="exact", seconds=0.05)
    assert answer.interval == pytest.approx((0.0, 2.0))
    assert "The time was up" in answer.notes[-1]


@pytest.mark.parametrize("method", ["smoothcruiser", "sparse-sampling", "auto"])
def test_a_stop_before_the_first_sample_is_answered(method, monkeypatch):
    """The schedule takes seconds to compute, and Ctrl-C may come there too."""

    def pressed(*arguments, **asked):
        raise KeyboardInterrupt

    optimizer = "smoothcruiser.schedule.compiler.optimizer"
    monkeypatch.setattr(f"{optimizer}.compile_schedule", pressed)
    monkeypatch.setattr(f"{optimizer}.sparse_sampling", pressed)
    problem = coin(10**9)
    answer = sc.plan(problem, method=method, epsilon="10%", delta=0.1)
    assert answer.interval == problem.facts.value_bounds()
    assert (answer.num_calls, answer.delta, answer.epsilon) == (0, 0.0, 1.0)
    assert "Stopped by hand before the first sample" in answer.notes[0]


def test_a_tree_that_promises_nothing_passes_a_stop_on(monkeypatch):
    def pressed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "smoothcruiser.methods.tree_search.TreeSearch.prepare", pressed
    )
    with pytest.raises(KeyboardInterrupt):
        sc.plan(coin(10**9), method="uct", budget=100)
