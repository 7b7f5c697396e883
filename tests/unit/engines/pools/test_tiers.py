"""The shared machine, which calls a user's functions by address, and the inlined one.

What a user sees does not depend on the machine: errors, stops and bits are the same.
(tests/conformance compares bits on every kind of state and schedule.)
"""

import math
import threading
from collections import Counter

import numpy as np
import pytest
from numba import njit

import smoothcruiser as sc
from smoothcruiser import Kind, Level, Root, Schedule
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled import tiers
from smoothcruiser.engines.compiled.engine import CompiledEngine
from smoothcruiser.engines.compiled.tiers import ADDRESS, INLINED
from smoothcruiser.engines.shards import Shard
from smoothcruiser.errors import Interrupted

pytestmark = pytest.mark.compiles


@njit
def wander(state, action, rng):
    """Does what it must not in states 3 to 6, each of them rare."""
    if state == 3:
        raise ValueError("state three")
    reward = 2.0 if state == 4 else rng.random()
    return reward, state + (rng.random() < 0.01), state == 5


@njit
def scribble(state, action, rng):
    if rng.random() < 0.001:
        state[0] += 1.0
    return rng.random(), np.zeros(2)


def table(problem, samples=400):
    levels = (
        Level(Kind.CONSTANT, constant=0.5),
        Level(Kind.PLUGIN, samples=4, query=0),
        Level(Kind.ROLLOUT, samples=2, query=1, continuation=1),
    )
    root = Root("q_values", samples, 2, "none")
    return Schedule("tiers", problem.facts, levels, root, math.inf, 1.0)


def mdp(step):
    return sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0))


def raised(problem, state, tier):
    engine = CompiledEngine(Job(problem, table(problem), state), tier)
    with pytest.raises(sc.SmoothcruiserError) as error:
        engine.run_shard(Shard(0, 0, 0, 400), 1)
    return type(error.value), str(error.value)


@pytest.mark.parametrize(
    ("step", "state", "says"),
    [
        pytest.param(wander, 2, "state three", marks=pytest.mark.slow),
        pytest.param(wander, 4, "reward 2.0", marks=pytest.mark.slow),
        pytest.param(wander, 5, "terminal=True", marks=pytest.mark.slow),
        (scribble, np.zeros(2), "array"),  # a step that writes into its state
    ],
)
def test_errors_of_the_step_are_those_of_the_inlined_machine(step, state, says):
    found = raised(mdp(step), state, ADDRESS)
    assert says in found[1]
    assert found == raised(mdp(step), state, INLINED)


@njit
def yes(state, action, rng):
    return rng.random() < 0.5, (state[0], 1 - state[1])


@pytest.mark.slow
def test_functions_that_cannot_be_called_by_address_are_left_to_the_other_machine():
    problem = mdp(yes)  # Numba has no float(bool)
    for tier in (ADDRESS, INLINED):
        with pytest.raises(sc.InvalidInput, match="could not be compiled"):
            CompiledEngine(Job(problem, table(problem), (0, 1)), tier)
    asked = {"epsilon": "20%", "delta": 0.1, "seed": 0}
    assert sc.plan(problem, (0, 1), method="certified", **asked).value > 0


def test_a_stop_ends_a_shard_on_the_shared_machine():
    problem = mdp(wander)
    schedule = table(problem, 1_000_000_000)
    engine = CompiledEngine(Job(problem, schedule, 7), ADDRESS)
    threading.Timer(0.3, engine.stop).start()
    with pytest.raises(Interrupted) as stop:
        engine.run_shard(Shard(0, 0, 0, 1_000_000_000), 1)
    part = stop.value.piece.part
    again = CompiledEngine(Job(problem, schedule, 7), INLINED)
    assert 0 < part.draws < 1_000_000_000
    whole = again.run_shard(Shard(0, 0, 0, part.draws), 1)
    assert (whole.total, whole.square) == (part.total, part.square)


@njit
def jump(state, action, rng):
    return rng.random(), state + 1


def test_the_prices_of_jobs_choose_the_machine_before_the_run(monkeypatch):
    problem = mdp(jump)
    price = table(problem).num_calls
    monkeypatch.setattr(tiers, "_prices", Counter())
    monkeypatch.setattr(tiers, "PAYS", 2 * price)
    job = Job(problem, table(problem), 0)
    engines = [CompiledEngine(job) for _ in range(2)]
    assert [engine.tier.name for engine in engines] == [ADDRESS, INLINED]
    first, second = (engine.run_shard(Shard(0, 0, 0, 50), 3) for engine in engines)
    assert first == second


@njit
def widen(state, action, rng):
    return rng.random(), 0.5 * state


@njit(fastmath=True)
def hurried(x):
    return x * x + 0.25 * x


@njit
def careless(state, action, rng):
    return 0.5 * hurried(rng.random()), state


@pytest.mark.slow
@pytest.mark.parametrize("step", [careless, widen])
def test_reordered_arithmetic_and_states_of_another_type_are_inlined_at_once(step):
    problem = mdp(step)
    engine = CompiledEngine(Job(problem, table(problem), 1), ADDRESS)
    assert engine.tier.name == INLINED
    assert engine.run_shard(Shard(0, 0, 0, 4), 1).draws == 4


def test_the_variable_names_a_machine(monkeypatch):
    problem = mdp(jump)
    monkeypatch.setenv(tiers.VARIABLE, ADDRESS)
    engine = CompiledEngine(Job(problem, table(problem), 0))
    assert engine.tier.name == ADDRESS
    monkeypatch.setenv(tiers.VARIABLE, "quick")
    with pytest.raises(sc.InvalidInput, match=r"SMOOTHCRUISER_TIER.*'quick'"):
        CompiledEngine(Job(problem, table(problem), 0))
