"""Actions that refuse to be compared with a name are numbers in all else."""

from __future__ import annotations

import copy
import pickle
from enum import IntEnum

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.wary_actions import (
    InsistsOnInt,
    NamedAction,
    WaryAction,
    call_warily,
    wary,
)

Side = IntEnum("Side", ["LEFT", "RIGHT"], start=0)


def world(step, **changes):
    usual = {"num_actions": 2, "discount": 0.5, "operator": "max", "initial_state": 0}
    return sc.MDP(step, **(usual | changes))


def called(function):
    problem = world(lambda s, a, rng: (0.0, s), num_actions=None, actions=["up", "go"])
    return call_warily(function, 0, wary(problem, 1))


@pytest.mark.parametrize(
    "holds",
    [
        lambda s, a: a == 1 and a != 0 and a == 1.0 and a == Side.RIGHT,
        lambda s, a: isinstance(a, int) and {1: True}[a] and a in {1} and a in (0, 1),
        lambda s, a: np.arange(3)[a] == 1 and np.array([a]).dtype == np.int64,
        lambda s, a: f"{a}{a!r}" == "11" and str(a) == "1" and hash(a) == hash(1),
        lambda s, a: a is not None and a + 1 == 2 and type(a + 0) is int and bool(a),
    ],
)
def test_it_is_a_number(holds):
    assert called(holds)


@pytest.mark.parametrize(
    "compares",
    [
        lambda s, a: a == "go",
        lambda s, a: a != "go",
        lambda s, a: a in ["up", "go"],
        lambda s, a: a == b"go",
        lambda s, a: a == (0, 1),
    ],
)
def test_a_comparison_with_a_name_is_refused(compares):
    with pytest.raises(NamedAction, match=r"problem\.actions\[action\]"):
        called(compares)


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
    made = []
    counted = world(lambda s, a, rng: made.append(a) or step(s, a, rng))
    answer = sc.plan(counted, method="uct", budget=200)
    assert len(made) == answer.num_calls == 200
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
    for module in ("engines.inspection", "tree.plain"):
        monkeypatch.setattr(f"smoothcruiser.{module}.is_wary", lambda problem: False)
    assert facts() == with_wary
