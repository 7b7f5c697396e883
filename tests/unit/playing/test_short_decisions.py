"""Agents with very little time per decision: what is set up once is not paid again."""

from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.methods import auto, scheduled
from smoothcruiser.methods.scheduled import ScheduleSession

pytestmark = pytest.mark.compiles
TINY = 1e-3


def step(state, action, rng):
    after = (state + 1 + action) % 9 if rng.random() < 0.7 else (2 * state) % 9
    return (1.0 if after == 3 else 0.0), after


def world(**more):
    about = {"discount": 0.8, "operator": sc.Entropy(0.2)} | more
    return sc.MDP(step, num_actions=2, initial_state=0, **about)


@pytest.fixture
def prepared(monkeypatch):
    """How often a schedule was chosen for limits, and how often ``auto`` chose."""
    counts = {"schedules": 0, "choices": 0}
    fitted, choose = scheduled.fit_schedule, auto.AutoChoice.choose

    def counted_fitted(*given):
        counts["schedules"] += 1
        return fitted(*given)

    def counted_choice(self):
        counts["choices"] += 1
        return choose(self)

    monkeypatch.setattr(scheduled, "fit_schedule", counted_fitted)
    monkeypatch.setattr(auto.AutoChoice, "choose", counted_choice)
    return counts


@pytest.mark.parametrize(
    "method", ["uct", "ments", "certified", "smoothcruiser", "auto"]
)
@pytest.mark.parametrize("more", [{}, {"horizon": 6}])
def test_every_decision_is_made(method, more):
    """Law: however little time there is, a decision is legal and has what holds."""
    problem = world(**more)
    sure = {} if method in ("uct", "ments") else {"delta": 0.1}
    agent = sc.Agent(problem, method, seconds=TINY, **sure)
    for i, state in enumerate((0, 3, 6, 3)):
        left = {"remaining": 6 - i} if more else {}
        assert agent.act(state, **left) in (0, 1)
        if sure:
            low, high = agent.estimate.interval
            assert low <= high
    agent.close()
    again = sc.Agent(problem, method, seconds=TINY, **sure)
    assert sc.play(again, episodes=1, steps=3).decisions == 3


def test_a_schedule_is_chosen_once(prepared):
    agent = sc.Agent(world(), "smoothcruiser", seconds=0.05, delta=0.1)
    for state in (0, 3, 6):
        agent.act(state)
    assert prepared["schedules"] == 1
    notes = agent.estimate.notes
    # how much fits depends on the machine; that the limit decided does not
    assert any("fits the 0.05 s allowed" in x for x in notes)


def test_a_kept_schedule_gives_the_answers_of_one_that_is_chosen_anew(prepared):
    asked = {"epsilon": "30%", "delta": 0.1, "budget": 10**6}
    agent = sc.Agent(world(), "smoothcruiser", seed=4, **asked)
    for i, state in enumerate((0, 3, 6)):
        agent.act(state)
        alone = sc.Agent(world(), "smoothcruiser", seed=4, **asked)
        alone.session.decisions = i
        alone.act(state)
        assert agent.estimate.value == alone.estimate.value
        assert agent.estimate.interval == alone.estimate.interval
        assert agent.estimate.num_calls == alone.estimate.num_calls
    assert prepared["schedules"] == 1 + 3


def test_other_limits_choose_another_schedule(prepared):
    """``seconds_total`` deals out other seconds each time; similar ones share one."""
    agent = sc.Agent(world(), "smoothcruiser", seconds=0.05, delta=0.1)
    session = agent.session
    assert isinstance(session, ScheduleSession)
    for seconds, chosen in ((0.05, 1), (0.09, 1), (0.026, 1), (0.11, 2), (0.06, 2)):
        limits = replace(agent.query.limits, seconds=seconds)
        session.query = replace(agent.query, limits=limits)
        session.decide(0)
        assert prepared["schedules"] == chosen


def test_auto_chooses_once_where_time_is_limited(prepared):
    agent = sc.Agent(world(), "auto", seconds=0.05, delta=0.1)
    for state in (0, 3, 6):
        agent.act(state)
        assert agent.estimate.method == "certified"
        assert agent.estimate.notes[0].startswith("auto chose certified search")
    assert prepared["choices"] == 1
    looked = [note for note in agent.estimate.notes if "Of the calls" in note]
    assert looked == []  # those were the first decision's
    memory = agent.session._inner._memory
    assert memory.num_calls > 0  # one for all decisions
    agent.close()


def test_auto_chooses_at_every_state_where_calls_are_limited(prepared):
    agent = sc.Agent(world(), "auto", budget=400, delta=0.1)
    for state in (0, 3):
        agent.act(state)
    assert prepared["choices"] == 2
