"""Advice in the notes: when it is given, when it is not, at most two of it."""

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.estimate import ADVICE
from smoothcruiser.methods import advice as sentences

pytestmark = pytest.mark.compiles


def walk(state, action, rng):
    after = state + (1 if rng.random() < 0.4 + 0.2 * action else -1)
    return float(after // 2) if abs(after) == 2 else 0.0, after


def walker(**more):
    facts = {"discount": 0.95, "operator": sc.Max(), "reward_range": (-1.0, 1.0)}
    return mdp(walk, terminal=lambda state: abs(state) == 2, **facts, **more)


def advice(problem, **asked):
    asked = {"delta": 0.1, "method": "certified", **asked}
    notes = sc.plan(problem, **asked).notes
    return [note for note in notes if note.startswith(ADVICE)]


def test_a_share_of_a_span_that_cannot_be_reached():
    """5% of 40 is 2, and the value is at most 1."""
    (note,) = advice(walker(), epsilon="5%")
    assert "span 40" in note
    assert "payoffs='end' makes it 2" in note
    assert advice(walker(payoffs="end"), epsilon="5%") == []
    assert advice(walker(), epsilon=0.5) == []


def test_rewards_that_are_never_0_are_not_paid_at_the_end_alone():
    """Every step pays at least 0.5 there, so there is nothing to declare."""
    paid = mdp(
        lambda s, a, rng: (0.5 + 0.5 * rng.random(), s, rng.random() < 0.1),
        num_actions=1,
        discount=0.9,
        operator=sc.Max(),
        reward_range=(0.5, 1.0),
        terminal=True,
    )
    assert advice(paid, epsilon="10%") == []


def test_a_coarse_promise_and_a_wide_interval():
    (coarse,) = advice(walker(payoffs="end"), epsilon=0.6)
    assert "epsilon = 0.6 is 30% of what is possible, from -1 to 1" in coarse
    (wide,) = advice(walker(payoffs="end"), budget=60)
    assert "of what is possible" in wide
    assert "the interval covers" in wide
    assert "give it more calls" in wide


def test_a_schedule_that_says_little_names_what_says_more():
    endless = mdp(
        lambda s, a, rng: (rng.random(), rng.random()),
        discount=0.95,
        operator=sc.Max(),
        initial_state=0.0,
    )
    (note,) = advice(endless, budget=300, method="smoothcruiser")
    assert "the value may be as far off; a tree search (method='uct')" in note
    assert "more calls" not in note


def test_no_chance_is_seen():
    """The price is the number of pairs; nothing is said where chance was seen."""
    sure = mdp(lambda s, a, rng: (float(a), 1 - s), operator=sc.Max())  # fmt: skip
    (note,) = advice(sure, epsilon="10%")
    assert "deterministic=True learns as much from 4 calls" in note


def test_a_dear_schedule_names_the_price_of_closer_bounds(monkeypatch):
    """Bounds half as wide save more than a factor 2, and the price holds."""
    problem = sc.make("chain:n=5", discount=0.5, temperature=2.0)
    asked = {"epsilon": 0.05, "method": "smoothcruiser"}
    assert advice(problem, **asked) == []  # machine code: it takes less than a price
    monkeypatch.setattr(sentences, "DEAR_COMPILED", sentences.DEAR)
    (note,) = advice(problem, **asked)
    assert note.startswith("Advice: value_bounds half as wide would cost about")
    cheap = advice(problem, **(asked | {"epsilon": 0.4}))
    assert cheap == []


def test_more_calls_are_not_advised_where_one_end_is_only_what_rewards_allow():
    """The upper end of a policy's certificate stays, whatever is spent."""
    problem = sc.make("chain:n=5", discount=0.9, temperature=0.5)
    answer = sc.plan(problem, method="uct", budget=2_000, certify=True)
    assert answer.certificate is not None
    assert answer.certificate.kind == "policy"
    assert not any("give it more calls" in note for note in answer.notes)
