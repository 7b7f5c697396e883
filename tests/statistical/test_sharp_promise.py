"""The sharp promise on problems made to break it, and proof that the tests
would notice a broken one.

Reduced form of benchmarks/coverage/sharp_coverage.py (the full table is
docs/evidence/coverage.md). Seeds are fixed; the false-alarm rate of each
binomial test, had the seeds been free, is 1e-4.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from benchmarks.coverage import adversarial
from benchmarks.coverage.sharp_coverage import binomial_tail, study

import smoothcruiser as sc
from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import backup, constant, plug_in

CASES = adversarial.cases()
CHOSEN = [CASES[i] for i in range(0, len(CASES), 17)]
SETTINGS = [("q_values", 0.1, True), ("value", 0.1, True), ("q_values", 0.2, False)]


@pytest.mark.parametrize("index", range(len(CHOSEN)))
def test_failures_stay_within_delta(index):
    """|Q-hat - Q| <= epsilon, |V-hat - V| <= epsilon and every printed
    interval, with frequency at least 1 - delta.
    """
    target, delta, adaptive = SETTINGS[index % len(SETTINGS)]
    result = study(
        CHOSEN[index],
        target=target,
        delta=delta,
        adaptive=adaptive,
        runs=40,
        budget=4000,
        first_seed=10_000 * index,
    )
    assert binomial_tail(result.failures, result.runs, delta) > 1e-4, result
    assert result.mean_calls <= result.price


def coin_then_nothing(
    *, game: bool = False, operator: sc.Operator | None = None
) -> sc.Problem:
    """One coin for each action, then nothing for ever: V of the next state is
    V_lo, so a guess in the middle errs upwards all it can.
    """
    P, R = np.zeros((3, 2, 3)), np.zeros((3, 2, 3))
    P[0, :, 1] = P[0, :, 2] = 0.5
    P[1, :, 1] = P[2, :, 2] = 1.0
    R[0, :, 2] = 1.0
    return sc.tabular(
        P,
        R,
        discount=0.3,
        operator=operator or sc.Entropy(0.2),
        players=[1, 1, 1] if game else None,
    )


def mean_of_level(
    problem: sc.Problem, levels: tuple[Level, ...], *, draws: int = 200_000, clip=None
) -> tuple[float, float]:
    """(mean, standard error) of draws of the last level at the initial state."""
    from smoothcruiser.engines.base import Job
    from smoothcruiser.engines.compiled.engine import CompiledEngine
    from smoothcruiser.engines.shards import Shard

    schedule = Schedule(
        "hand-made",
        problem.facts,
        levels,
        Root("value", draws, len(levels) - 1, "none"),
        math.inf,
        1.0,
        clip=clip,
    )
    part = CompiledEngine(Job(problem, schedule, problem.start())).run_shard(
        Shard(0, 0, 0, draws), 5
    )
    mean = part.total / part.draws
    return mean, math.sqrt(
        max(part.square / part.draws - mean * mean, 0.0) / part.draws
    )


def plug_in_over_guess(
    problem: sc.Problem, samples: int
) -> tuple[tuple[Level, ...], float]:
    """A plug-in over a guess in the middle, as the compiler makes it, and the
    bias it claims at most.
    """
    base = ground(problem.facts)
    guess = constant(base, None)
    top = plug_in(base, backup(base, guess, None), np.array([float(samples)]))
    value = float(np.mean(guess.low))
    levels = (
        Level(Kind.CONSTANT, constant=value, shift=float(guess.shift[0])),
        Level(Kind.PLUGIN, samples, 0, shift=float(top.shift[0])),
    )
    return levels, float(top.bias[0])


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_forgetting_the_recentring_is_noticed(samples):
    """Theory section 3: with its shift a plug-in's bias is within w/2; without,
    the noise of the maximum comes on top and shows.
    """
    problem = coin_then_nothing()
    value = float(sc.solve(problem).values[0])
    levels, claim = plug_in_over_guess(problem, samples)
    mean, error = mean_of_level(problem, levels)
    assert abs(mean - value) <= claim + 4 * error
    forgotten = (levels[0], dataclasses.replace(levels[1], shift=0.0))
    mean, error = mean_of_level(problem, forgotten)
    assert abs(mean - value) > claim + 4 * error


def test_the_printed_clipping_is_noticed():
    """Errata item 2: with zero rewards Q = -gamma M/(1+gamma) < 0 at a max
    state; the printed clip to 0 loses that, noise or not.
    """
    problem = dataclasses.replace(
        adversarial.silent_game(2, discount=0.9, operator=sc.Entropy(1.0)),
        initial_state=0,
    )
    values = sc.solve(problem).values
    M = problem.facts.regularizer_bound
    exact_guess = (
        Level(Kind.CONSTANT, constant=float(values[1])),
        Level(Kind.PLUGIN, 1, 0),
    )
    free, _ = mean_of_level(problem, exact_guess, draws=100)
    clipped, _ = mean_of_level(
        problem, exact_guess, draws=100, clip=(0.0, (1.0 + M) / 0.1)
    )
    assert free == pytest.approx(values[0], abs=1e-9)
    assert clipped - values[0] == pytest.approx(0.9 * M / 1.9, abs=1e-9)
