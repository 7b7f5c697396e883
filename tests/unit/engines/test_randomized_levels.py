"""A randomized level has the mean of a plain one with 2**J times its samples.

By exact enumeration of a tiny world, for both players: two actions, of which one
or both are a coin; next states that differ in mover, value and end.

The exact mean of a level: all outcomes of the reference engine, each with its chance.

The engine's own code runs with uniforms that are not yet known. Comparing one
with a number asks on which side it lies: both answers are followed, each with
the chance that it has given the answers before. So nothing of the engine is
replaced, and what is averaged is what a run would sample.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser import Kind, Level, Root, Schedule
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.interpreted import reference
from smoothcruiser.engines.interpreted.batched import BatchedEngine
from smoothcruiser.engines.interpreted.python import PythonEngine
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.engines.shards import Shard
from smoothcruiser.errors import Interrupted
from smoothcruiser.schedule.kinds import estimator_of


class Paths:
    """All sequences of answers, one after the other, depth first."""

    def __init__(self):
        self.answers: list[bool] = []  # those to give again, then the first new one
        self.given = 0
        self.chance = 1.0

    def ask(self, chance):
        """Whether an event of this chance happens on the path under way."""
        if chance >= 1.0 or chance <= 0.0:
            return chance >= 1.0
        if self.given == len(self.answers):
            self.answers.append(True)
        answer = self.answers[self.given]
        self.given += 1
        self.chance *= chance if answer else 1.0 - chance
        return answer

    def advance(self):
        """Turn to the next path; False after the last."""
        while self.answers and not self.answers[-1]:
            self.answers.pop()
        if self.answers:
            self.answers[-1] = False
        self.given, self.chance = 0, 1.0
        return bool(self.answers)

    def random(self):
        """A new uniform, as a stream has them."""
        return Uniform(self)


class Uniform:
    """A number in [0, scale) of which the answers so far are known."""

    def __init__(self, paths, scale=1.0):
        self.paths, self.scale = paths, scale
        self.low, self.high = 0.0, 1.0

    def __mul__(self, scale):
        return Uniform(self.paths, self.scale * scale)

    def __lt__(self, bound):
        cut = min(max(bound / self.scale, self.low), self.high)
        below = self.paths.ask((cut - self.low) / (self.high - self.low))
        if below:
            self.high = cut
        else:
            self.low = cut
        return below


def exact_mean(problem, levels, state, engine=ReferenceEngine):
    """The mean of the last level of a table at ``state``."""
    root = Root("value", 1, len(levels) - 1, "none")
    plan = Schedule("enumerated", problem.facts, levels, root, math.inf, 1.0)
    machine = engine(Job(problem, plan, state))
    paths = Paths()
    terms, chances = [], []
    more = True
    while more:
        machine.rng = paths
        value = machine.sample_v(root.child, state)
        terms.append(paths.chance * value)
        chances.append(paths.chance)
        more = paths.advance()
    assert math.isclose(math.fsum(chances), 1.0, rel_tol=1e-12)
    return math.fsum(terms)


OPERATORS = {
    "entropy": sc.Entropy(0.3),
    "kl": sc.KL(0.2, prior=(1, 3)),
    "square-root": sc.SquareRoot(0.4),
    "sparsemax": sc.Sparsemax(0.5),
}
RANDOMIZED = (Kind.RANDOM_PLUGIN, Kind.RANDOM_ROLLOUT)
LEAVES = (
    Level(Kind.CONSTANT, constant=0.2, shift=0.1),
    Level(Kind.CONSTANT, constant=0.5, shift=-0.3),
)


def coin(state, action, rng):
    """Action 0 tosses a coin, action 1 pays 0.4; states 0 and 2 are max's."""
    if action == 1:
        return 0.4, 2
    return (1.0, 1) if rng.random() < 0.3 else (0.0, 2)


def coins(state, action, rng):
    """Both actions toss coins."""
    heads = rng.random() < (0.3 if action == 0 else 0.6)
    return (1.0 if heads else 0.1 * action), 1 if heads else 2


def world(step, operator, **more):
    return sc.Game(
        step,
        player=lambda state: 1 + state % 2,
        num_actions=2,
        discount=0.8,
        operator=operator,
        reward_range=(0.0, 1.0),
        **more,
    )


def run_alone(engine, problem, levels, state, count):
    """A shard of ``count`` samples of the last level, centred at 0."""
    root = Root("value", max(1, count), len(levels) - 1, "none")
    plan = Schedule("alone", problem.facts, levels, root, math.inf, 1.0)
    return engine(Job(problem, plan, state)).run_shard(Shard(0, 0, 0, count), 1)


def randomized(kind, rungs):
    onward = 1 if kind == Kind.RANDOM_ROLLOUT else -1
    return (*LEAVES, Level(kind, 1, 0, onward, 0.6, 0.05, rungs))


def plain(kind, samples):
    """The plain level beside it, with as many samples as it is told."""
    if kind == Kind.RANDOM_ROLLOUT:
        return (*LEAVES, Level(Kind.ROLLOUT, samples, 0, 1, 0.0, 0.05))
    return (*LEAVES, Level(Kind.PLUGIN, samples, 0, -1, 0.0, 0.05))


def gap(problem, kind, rungs, state):
    """How far its mean is from that of 2**J samples, which is not that of one."""
    expected = exact_mean(problem, plain(kind, 2 ** len(rungs)), state)
    assert abs(exact_mean(problem, plain(kind, 1), state) - expected) > 1e-4
    return abs(exact_mean(problem, randomized(kind, rungs), state) - expected)


@pytest.mark.parametrize("state", [0, 1], ids=["max", "min"])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kind", RANDOMIZED)
def test_the_mean_is_that_of_more_samples(kind, name, state):
    rungs = (0.3, 0.25, 0.05) if name == "entropy" else (0.3, 0.25)
    assert gap(world(coin, OPERATORS[name]), kind, rungs, state) < 1e-12


@pytest.mark.parametrize("kind", RANDOMIZED)
def test_it_is_with_two_coins_an_end_and_a_sure_correction(kind):
    problem = world(coins, sc.Entropy(0.3), terminal=lambda state: state == 2)
    assert gap(problem, kind, (1.0,), 1) < 1e-12


@pytest.mark.compiles
@pytest.mark.parametrize("state", [0, 1], ids=["max", "min"])
@pytest.mark.parametrize("kind", RANDOMIZED)
def test_batched_has_the_same_mean(kind, state):
    """Law: the mean of 60,000 samples over arrays is the exact one, within five errors.

    A sign that is dropped is 40 errors away, and what one sample has 15 or more.
    """
    operator = sc.KL(0.2, prior=(1, 3))
    P, R = np.zeros((2, 3, 2, 3))  # ``coin`` as a table
    P[:, 0, 1], P[:, 0, 2], P[:, 1, 2] = 0.3, 0.7, 1.0
    R[:, 0, 1], R[:, 1, 2] = 1.0, 0.4
    facts = {"discount": 0.8, "operator": operator, "reward_range": (0.0, 1.0)}
    twin = sc.tabular(P, R, players=[1, 2, 1], **facts)
    levels = randomized(kind, (0.5, 0.5))
    part = run_alone(BatchedEngine, twin, levels, state, 60_000)
    mean = part.total / part.draws
    error = math.sqrt((part.square / part.draws - mean * mean) / part.draws)
    four, one = (
        exact_mean(world(coin, operator), plain(kind, samples), state)
        for samples in (4, 1)
    )
    assert abs(mean - four) <= 5.0 * error
    assert abs(one - four) > 15.0 * error


def value_with_a_rest(q):
    return 0.5 * math.log(1.0 + sum(math.exp(2.0 * x) for x in q))


def gradient_with_a_rest(q):
    total = 1.0 + sum(math.exp(2.0 * x) for x in q)
    return [math.exp(2.0 * x) / total for x in q]


@pytest.mark.parametrize("kind", RANDOMIZED)
def test_it_is_where_the_policies_do_not_add_to_one(kind, monkeypatch):
    """The baseline does not cancel there, so it is added again.

    Schedules refuse such operators; engines need not know.
    """
    estimator = type(estimator_of(kind))
    monkeypatch.setattr(estimator, "missing", lambda self, facts: None)
    operator = sc.CustomOperator(value_with_a_rest, gradient_with_a_rest, smooth=1.0)
    for state in (0, 1):
        assert gap(world(coin, operator), kind, (0.3, 0.2), state) < 1e-12


@pytest.mark.parametrize("kind", RANDOMIZED)
def test_one_legal_action_has_nothing_to_correct(kind):
    """Its policy does not depend on samples: no continuation is followed."""
    problem = world(coin, sc.Entropy(0.3), legal=lambda state, action: action == 0)
    levels = randomized(kind, (1.0,))
    part = run_alone(reference.ReferenceEngine, problem, levels, 0, 40)
    # the base, its two halves and, of a rollout, the step
    assert part.calls == 40 * (3 + (kind == Kind.RANDOM_ROLLOUT))


# --- stops --------------------------------------------------------------------


@pytest.mark.parametrize("engine", [reference.ReferenceEngine, PythonEngine])
def test_a_stop_at_any_call_keeps_the_samples_before_it(engine):
    """Also at a call of a correction: its sample is dropped, and its calls count."""
    running = []
    last = [0]

    def counted(state, action, rng):
        if running[-1].calls == last[0]:
            running[-1].stop()
        return coins(state, action, rng)

    def noted(job):
        running.append(engine(job))
        return running[-1]

    problem = world(counted, sc.Entropy(0.3))
    levels = randomized(Kind.RANDOM_ROLLOUT, (0.5, 0.5))

    def run(count, calls):
        last[0] = calls
        return run_alone(noted, problem, levels, 1, count)

    ends = [run(count, -1) for count in range(7)]
    for calls in range(1, ends[-1].calls):
        with pytest.raises(Interrupted) as stop:
            run(6, calls)
        part = stop.value.piece.part
        done = max(i for i, end in enumerate(ends) if end.calls <= calls)
        assert part == ends[done]._replace(calls=calls)
