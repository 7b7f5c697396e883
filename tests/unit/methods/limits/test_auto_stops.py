"""Stops at odd moments: in the look, while the speed is measured, in a slow call."""

import time
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.methods import schedule_within_limits as fitting
from smoothcruiser.methods.portfolio import _Judge
from smoothcruiser.methods.schedule_run import combine_estimates
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallRole

pytestmark = pytest.mark.compiles


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
