"""``check`` finds each fault it claims to find, says how to fix it, and passes
what is sound.
"""

import random
import re
import time

import numpy as np
import pytest
from worlds import COMMON, mdp

import smoothcruiser as sc


def walk(state, action, rng):
    return rng.random(), (state + action + rng.integers(3)) % 7


def fault_of(problem, **options):
    """The one finding that is wrong."""
    report = sc.check(problem, **options)
    wrong = [finding for finding in report.findings if finding.verdict == "wrong"]
    assert len(wrong) == 1, str(report)
    assert not report.ok
    assert "".join(wrong[0].sentence.split()) in "".join(str(report).split())
    return wrong[0]


@pytest.mark.compiles
def test_a_sound_oracle_passes_with_speed_and_price():
    report = sc.check(mdp(walk), epsilon="20%", delta=0.1)
    assert report.ok
    expected = {"walks", "states", "randomness", "independence", "rewards", "chance"}
    assert {f.name for f in report.findings} >= expected | {"speed", "price"}
    assert all(f.verdict == "ok" for f in report.findings)
    assert report.price == sc.explain(mdp(walk), epsilon="20%", delta=0.1).num_calls
    seconds = report.price / report.calls_per_second
    assert report.price_seconds == pytest.approx(seconds)
    assert report.to_dict()["ok"] is True


def test_randomness_from_elsewhere():
    source = random.Random(0)
    found = fault_of(mdp(lambda s, a, rng: (source.random(), s)))
    assert found.name == "randomness"
    assert "draw every number from the rng" in found.sentence


def test_memory_between_draws():
    """Every third draw of a pair pays less: equal streams in another order give
    other answers.
    """

    class Tired:
        calls = 0

        def __call__(self, state, action, rng):
            self.calls += 1
            bonus = 0.1 if self.calls // 2 % 3 == 0 else 0.0
            return 0.5 * rng.random() + bonus, (state + 1) % 5

    found = fault_of(mdp(Tired()))
    assert found.name in ("randomness", "independence")
    words = r"remembers earlier calls|keeps something between calls"
    assert re.search(words, found.sentence)


def test_a_state_that_is_changed():
    def step(state, action, rng):
        state[0] += action + 1
        return rng.random(), np.array(state)

    found = fault_of(mdp(step, initial_state=np.zeros(2)))
    assert found.name == "states"
    assert "copy the state before changing it" in found.sentence


def test_a_state_that_is_shared_between_draws():
    buffer = np.zeros(2)

    def step(state, action, rng):
        buffer[0] = state[0] + 1
        buffer[1] = rng.random()
        return rng.random(), buffer

    start = np.zeros(2)
    found = fault_of(mdp(step, initial_state=start))
    assert found.name == "states"
    assert re.search("fresh state from every call|copy the state", found.sentence)


@pytest.mark.compiles
def test_objects_without_equality_are_compared_by_what_they_hold():
    class Car:
        def __init__(self, place):
            self.place = place

    def good(state, action, rng):
        return rng.random(), Car(state.place + rng.integers(2))

    def bad(state, action, rng):
        state.place += 1
        return rng.random(), Car(state.place)

    report = sc.check(mdp(good, initial_state=Car(0)))
    assert report.ok, str(report)
    assert any(
        f.name == "memory" and "give key=" in f.sentence for f in report.findings
    )
    assert fault_of(mdp(bad, initial_state=Car(0))).name == "states"


@pytest.mark.compiles
@pytest.mark.parametrize(
    "step, words",
    [
        (lambda s, a, rng: (2.0, s), "outside reward_range"),
        (lambda s, a, rng: (float("nan"), s), "reward nan"),
        (lambda s, a, rng: (0.5, s, True), "pass terminal=True"),
        (lambda s, a, rng: 0.5, "must return (reward, next_state)"),
        # fewer actions than claimed
        (lambda s, a, rng: ([0.1][a], s), "raised IndexError"),
        # accepts the first state and not the states it returns
        (lambda s, a, rng: (0.5, "x" if s == 0 else 1 / (s != "x")), "ZeroDivision"),
    ],
)
def test_faults_of_a_single_answer(step, words):
    found = fault_of(mdp(step))
    assert found.name == "walks"
    assert words in found.sentence


def test_an_oracle_that_hangs():
    returned = []

    def step(state, action, rng):
        time.sleep(30)
        returned.append(state)

    sentence = fault_of(mdp(step), call_seconds=0.3).sentence
    assert "did not return within 0.3 s at state 0, action 0" in sentence
    assert not returned
    with pytest.raises(sc.InvalidInput, match=r"A problem .* was expected"):
        sc.check(walk)


def test_false_claims():
    chance = mdp(walk, deterministic=True)
    assert "drop deterministic=" in fault_of(chance).sentence
    turns = sc.Game(walk, player=lambda s: 1 + s % 2, alternating=True, **COMMON)
    assert "drop alternating=" in fault_of(turns).sentence
    third = sc.Game(walk, player=lambda s: s, **(COMMON | {"initial_state": 1}))
    assert "must be 1 (max) or 2 (min)" in fault_of(third).sentence
    stuck = mdp(walk, legal=lambda s, a: s == 0)
    assert "no legal action" in fault_of(stuck).sentence


def coin(state, action, rng):
    return 0.5, int(rng.random() < 0.5)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "model, words",
    [
        ([(0.5, 0.5, 0), (0.5, 0.5, 1)], None),
        ([(0.9, 0.5, 0), (0.1, 0.5, 1)], "has probability 0.9 in outcomes="),
        ([(1.0, 0.5, 0)], "which outcomes= does not list"),
        ([(0.5, 0.4, 0), (0.5, 0.5, 1)], "which outcomes= does not list"),
        ([(0.5, 0.5, 0), (0.4, 0.5, 1)], "sum to 1"),
    ],
)
def test_claims_of_a_model(model, words):
    problem = sc.MDP(coin, outcomes=lambda s, a: model, **COMMON)
    if words is None:
        assert sc.check(problem).ok
    else:
        assert words in fault_of(problem).sentence


@pytest.mark.compiles
def test_warnings_say_what_would_be_cheaper():
    wide = sc.check(sc.MDP(lambda s, a, rng: (0.01 * rng.random(), s), **COMMON))
    assert wide.ok
    sentences = {f.name: f.sentence for f in wide.findings if f.verdict == "warning"}
    assert "narrower range" in sentences["rewards"]
    still = sc.check(mdp(lambda s, a, rng: (0.5, s)))
    warnings = [f.sentence for f in still.findings if f.verdict == "warning"]
    assert any("deterministic=True" in sentence for sentence in warnings)


@pytest.mark.compiles
def test_compiled_tabular_and_batched_problems_are_checked_too():
    def rows(states, actions, rng):
        return rng.random(len(states)), (states + actions) % 5

    assert sc.check(sc.make("garnet:states=8", discount=0.3, temperature=1.0)).ok
    report = sc.check(mdp(sc.batched(rows)))
    assert report.ok, str(report)
    assert report.calls_per_second > 10_000


@pytest.mark.compiles
@pytest.mark.parametrize("name", ["chain", "frozen-lake"])
def test_check_survives_an_astronomic_price(name):
    assert sc.check(sc.make(name, discount=0.99, operator="max"))


@pytest.mark.compiles
def test_check_does_not_read_past_a_terminal_row():
    """State 1 is an end with an empty row; a step from it reads the row of state 2."""
    chances = np.zeros((3, 1, 3))
    chances[0, 0, 1], chances[0, 0, 2], chances[2, 0, 2] = 0.5, 0.5, 1.0
    rewards = np.array([[0.1], [0.0], [0.7]])
    usual = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    made = sc.tabular(chances, rewards, terminal=[False, True, False], **usual)
    assert {f.verdict for f in sc.check(made).findings if f.name == "ends"} <= {"ok"}


def test_a_price_that_is_too_high_comes_with_a_way_out():
    def sentence(step, start):
        usual = {"discount": 0.95, "operator": sc.Max(), "initial_state": start}
        report = sc.check(mdp(step, **usual))
        (found,) = (x for x in report.findings if x.name == "price")
        assert found.verdict == "warning"
        return found.sentence

    def number(state, action, rng):
        return rng.random(), (state + action) % 3

    def unhashable(state, action, rng):
        return rng.random(), {"at": (state["at"] + action) % 3}

    assert "certified search needs far fewer" in sentence(number, 0)
    assert "key= for certified" in sentence(unhashable, {"at": 0})
