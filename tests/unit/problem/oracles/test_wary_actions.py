"""Actions that refuse to be compared with a name are numbers in all else."""

import copy
import functools
import json
import pickle
import struct
from enum import Enum, IntEnum

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.wary_actions import (
    InsistsOnInt,
    NamedAction,
    WaryAction,
    call_warily,
    make_wary,
    takes_wary,
)

Side = IntEnum("Side", ["LEFT", "RIGHT"], start=0)
Move = Enum("Move", ["UP", "GO"], start=0)
Spelled = Enum("Spelled", {"UP": "up", "GO": "go"}, type=str)
RIGHT = 1


class Loose(Enum):
    """A member that equals its number, since its class says so."""

    UP = 0
    GO = 1

    def __eq__(self, other):
        return self.value == getattr(other, "value", other)

    __hash__ = object.__hash__


def matched(s, a):
    match a:
        case 0:
            return False
        case Side.RIGHT:
            return True


def named_match(s, a):
    match a:
        case "go":
            return True


def catching(s, a):
    try:
        return a == "go"
    except Exception:
        return False


def helper(a):
    return a is RIGHT


def world(step, **changes):
    return mdp(step, **({"operator": sc.Max()} | changes))


def called(function):
    problem = world(lambda s, a, rng: (0.0, s), num_actions=None, actions=["up", "go"])
    return call_warily(function, 0, make_wary(problem, 1))


@pytest.mark.parametrize(
    "holds",
    [
        lambda s, a: a == 1 and a != 0 and a == 1.0 and a == Side.RIGHT,
        lambda s, a: isinstance(a, int) and {1: True}[a] and a in {1} and a in (0, 1),
        lambda s, a: np.arange(3)[a] == 1 and np.array([a]).dtype == np.int64,
        lambda s, a: f"{a}{a!r}" == "11" and str(a) == "1" and hash(a) == hash(1),
        lambda s, a: a is not None and a + 1 == 2 and type(a + 0) is int and bool(a),
        lambda s, a: a == np.int64(1) and np.int64(1) == a and "ab"[a] == "b",
        lambda s, a: f"{a:02d}" == "01" and f"{a}" in ("1", "left"),
        lambda s, a: json.dumps([a]) == "[1]" and struct.pack("b", a) == b"\x01",
        lambda s, a: Side(a) is Side.RIGHT and Move(a) is Move.GO and a in (0, 1),
        lambda s, a: a == Loose.GO and Loose(a) == a and a != Loose.UP,
        lambda s, a: {Side.RIGHT: 1}[a],
        matched,
    ],
)
def test_it_is_a_number(holds):
    assert called(holds)


@pytest.mark.parametrize(
    "compares",
    [
        lambda s, a: a == "go",
        lambda s, a: a != "go",
        lambda s, a: a == b"go",
        lambda s, a: a == (0, 1),
        lambda s, a: ["up", "go"].count(a),
        lambda s, a: a == Move.GO,
        lambda s, a: a == Spelled.GO,
        named_match,
        catching,
    ],
)
def test_a_comparison_with_a_name_is_refused(compares):
    with pytest.raises(NamedAction, match=r"problem\.actions\[action\]"):
        called(compares)


@pytest.mark.parametrize("state", ["start", ("start", 3), {"last": ["start"]}])
def test_a_name_from_the_state_is_no_mistake(state):
    """``action == state.last`` may meet a sign that there was no action yet."""

    def first(state):
        while not isinstance(state, str):
            state = state["last"] if isinstance(state, dict) else state[0]
        return state

    action = make_wary(world(lambda s, a, rng: (0.0, s)), 1)
    assert call_warily(lambda s, a: a == first(s), state, action) is False
    with pytest.raises(NamedAction):  # written in the code, whatever the state holds
        call_warily(lambda s, a: a == "start", state, action)


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (lambda s, a: a is RIGHT, False),
        (lambda s, a: type(a) is int, False),
        (lambda s, a: a.__class__ is int, False),
        (lambda s, a: helper(a), False),
        (functools.partial(lambda x, s, a: a is x, 1), False),
        (lambda s, a: a is None or s is None or a is ..., True),
        (lambda s, a: isinstance(a, int) and Side(a) is Side.LEFT, True),
    ],
)
def test_functions_that_tell_an_int_from_its_like_get_one(function, takes):
    """Their first calls would take another branch, and be answers or accusations."""
    assert takes_wary(function) is takes


@pytest.mark.compiles
def test_a_step_that_tests_identity_is_played_as_it_is():
    problem = world(lambda s, a, rng: (float(a is RIGHT), s))
    assert sc.play(problem, [1], episodes=1, steps=3).mean_return == 3.0
    assert sc.check(problem).ok


def test_it_leaves_no_trace_in_what_is_returned():
    kept = called(lambda s, a: (0.0, (s, [a])))
    assert type(kept[1][1][0]) is int
    for plain in (copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))):
        assert type(plain(WaryAction(3))) is int


@pytest.mark.compiles
def test_a_step_may_insist_on_an_int():
    def step(s, a, rng):
        if type(a) is not int:
            raise TypeError("not a valid JAX type")
        return float(rng.random() < 0.5), s

    with pytest.raises(InsistsOnInt):
        called(lambda s, a: step(s, a, None))
    problem = world(step)
    assert sc.plan(problem, epsilon=0.5, delta=0.1, method="certified").num_calls > 0
    actions = []
    counted = world(lambda s, a, rng: actions.append(a) or step(s, a, rng))
    answer = sc.plan(counted, method="uct", budget=200)
    assert len(actions) == answer.num_calls == 200
    assert sc.check(problem).ok


@pytest.mark.compiles
def test_an_answer_has_the_bits_of_plain_actions(monkeypatch):
    def step(s, a, rng):  # states that hold the action
        return rng.random(), (a, int(3 * rng.random()))

    def answers():
        problem = world(step, initial_state=(0, 0))
        limits = {"epsilon": 0.7, "delta": 0.1, "budget": 3000}
        for method in ("certified", "sparse-sampling"):
            yield sc.plan(problem, method=method, **limits)
        yield sc.plan(problem, method="uct", budget=500)

    def facts():
        return [(x.value, x.interval, x.q_values, x.num_calls) for x in answers()]

    with_wary = facts()
    for module in ("engines.inspection", "tree.kernels.simulator"):
        monkeypatch.setattr(f"smoothcruiser.{module}.is_wary", lambda problem: False)
    assert facts() == with_wary
