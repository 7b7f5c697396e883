"""A first look at a simulator, before a method is chosen.

Three questions, answered by a few random walks from the requested state: do
states come back (then samples of one state serve many), how many seconds does a
call take, was any chance seen? The step is inspected first, as before every run: a
step that remembers its answers would look honest once its memory is filled.

The walks are a number of calls that the caller chooses, from streams of their own;
they are counted and thrown away. Their findings decide which method runs, never its
promise. Nothing but ``seconds`` depends on the clock, unless a limit of seconds
cuts the walks.

The likely cost of a run, estimated from its first samples.

Every run draws its samples up to the first checkpoint. A pilot draws at least
``SAMPLES`` of them for each action, in whole shards, and the run goes on from there: no
call is made twice, and no bit of the answer changes. The stopping rule is then applied
to the samples of the pilot as if they came again and again; where it first holds is
where the action likely stops. No promise rests on it.

Left out: the requests that have a pilot (``methods.schedules.scheduled``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from smoothcruiser.engines.base import Job
from smoothcruiser.engines.inspection import Looks, look, retyped_by
from smoothcruiser.engines.pools.base import Build, Pool
from smoothcruiser.engines.registry import COMPILED, make_engine
from smoothcruiser.engines.root_scores import WHOLE
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.shards import Partial, Shard, cut_shards
from smoothcruiser.engines.stopping_rule import StoppingRule, stopping_rule
from smoothcruiser.errors import Hung
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import call_oracle, companion_hung
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallLedger, CallRole
from smoothcruiser.run_control.call_seconds import (
    Breaker,
    calls_the_oracle,
    limit_call_seconds,
)
from smoothcruiser.run_control.stop_requests import stoppable
from smoothcruiser.states.state_copies import copy_state

STEPS = 8  # of one walk at the most: the states that matter are near its beginning
# of the steps that did not end an episode: fewer returns are chance
RETURNING = 0.1


@dataclass(frozen=True)
class Pilot:
    """The findings of a few calls."""

    calls: int  # all that were made, the inspection's too
    steps: int  # of the walks, those that ended an episode left out
    returned: int  # of these, to a state that was met before
    by_chance: bool  # whether a call took a random number
    # of one call, on average; None for machine code, which runs faster in an engine
    seconds: float | None = field(compare=False)
    # of ``returned``, to a state of the same walk, or of another one at another step
    around: int = 0

    @property
    def comes_back(self) -> bool:
        """Whether samples of one state are likely to serve again."""
        return self.returned >= RETURNING * self.steps

    @property
    def returning(self) -> str:
        """The findings about states that were met again, in words.

        Walks begin at one state. Where the same actions lead to the same states, walks
        meet again though no state ever comes back.
        """
        if self.around >= RETURNING * self.steps:
            return "states come back"
        if not self.by_chance:
            return "the same actions lead to the same states"
        return "walks from the start meet the same states"


def run_pilot(
    query: Query,
    *,
    calls: int,
    steps: int = STEPS,
    seconds: float = math.inf,
    patience: float = math.inf,
) -> Pilot:
    """Inspect the step, then walk for ``calls`` calls, both for ``seconds`` at the most.

    A walk takes legal actions at random, and begins anew after ``steps`` steps or at
    the end of an episode. Faults of the step are raised as in a run. There is at least
    one pair of calls; one that still lasts after ``patience`` seconds is broken off,
    and the look with it. The query's ledger gets the calls.

    Where ``query.compute`` has the step run by workers, one of them looks.
    """
    from smoothcruiser.engines.registry import choose

    problem, state, seed = query.problem, query.place, query.seed
    executor = choose(problem, query.compute)
    if executor.pool is not None:
        look_arguments = (state, seed, calls, steps, seconds, patience)
        pool = executor.pool(
            Build(problem, _same_problem), replace(query.compute, workers=1)
        )
        try:
            pilot = _ask_worker(pool, look_arguments, patience)
        finally:
            pool.close()
        query.ledger.spend(CallRole.PILOT, pilot.calls)
        return pilot
    return _look_here(
        problem, query.ledger, state, seed, calls, steps, seconds, patience
    )


def _same_problem(problem: Problem) -> Problem:
    return problem


@calls_the_oracle
def _ask_worker(pool: Pool, look_arguments: Any, patience: float) -> Pilot:
    """The findings of a worker; empty where it did not answer in time."""
    with Breaker() as breaker:
        breaker.arm(patience)
        try:
            pilot: Pilot = pool.ask(_look_elsewhere, look_arguments)
            return pilot
        except KeyboardInterrupt:
            if not breaker.fired:
                raise
            return Pilot(0, 0, 0, False, None)


def _look_elsewhere(problem: Problem, look_arguments: Any) -> Pilot:
    return _look_here(problem, CallLedger(), *look_arguments)


def _look_here(
    problem: Problem,
    ledger: CallLedger,
    state: Any,
    seed: int,
    calls: int,
    steps: int,
    seconds: float,
    patience: float,
) -> Pilot:
    walks = _Walks(problem, state, seed, min(steps, problem.horizon or steps))
    pilot_ledger = CallLedger()
    breaker, deadline = Breaker(), time.perf_counter() + seconds
    is_compiled = problem.is_compiled  # in its first call, which no limit cuts short
    try:
        with breaker:
            if patience < math.inf and not is_compiled:
                breaker.arm(patience)
            look_seconds = None if is_compiled else seconds
            look(problem, state, seed, pilot_ledger, seconds=look_seconds)
            if is_compiled:
                deadline = time.perf_counter() + seconds
            with limit_call_seconds(walks, problem.call_seconds):
                while walks.calls < calls and time.perf_counter() < deadline:
                    walks.step()
    except Hung as error:
        raise companion_hung(problem.call_seconds) from error
    except KeyboardInterrupt:
        if not breaker.fired:
            raise
    finally:
        pilot_ledger.spend(CallRole.PILOT, walks.calls)
        ledger.spend(CallRole.PILOT, pilot_ledger.total)
    return Pilot(
        calls=pilot_ledger.total,
        steps=walks.steps,
        returned=walks.returned,
        by_chance=walks.by_chance,
        around=walks.around,
        seconds=None if problem.is_compiled else walks.seconds / max(1, walks.calls),
    )


class _Walks:
    """Random walks that count returns to a state."""

    def __init__(self, problem: Problem, start: Any, seed: int, longest: int) -> None:
        self.problem, self.longest = problem, longest
        start_copy = copy_state(start)  # the caller's own state stays as it is
        self.start = start if start_copy is None else start_copy
        self.retype = retyped_by(problem, start)
        self.choices = stream(seed, Key.PILOT, 0, 0)
        self.rng = stream(seed, Key.PILOT, 0, 1)
        self.met: set[Hashable] = {(problem.key_of(start), 0)}
        # by state: after how many steps walks have met it
        self.lengths: dict[Hashable, set[int]] = {problem.key_of(start): {0}}
        self.calls = self.steps = self.returned = self.around = 0
        self.by_chance = False
        self.seconds = 0.0
        self._begin()

    def _begin(self) -> None:
        start_copy = copy_state(self.start)
        self.state, self.length = self.start if start_copy is None else start_copy, 0

    @calls_the_oracle
    def step(self) -> None:
        """One step of the walk at hand."""
        problem, facts = self.problem, self.problem.facts
        actions = problem.legal_actions(self.state)
        action = actions[self.choices.integers(len(actions))]
        words_before = self.rng.words.tolist()
        start_time = time.perf_counter()
        self.calls += 1
        _, next_state, has_ended = call_oracle(
            problem, self.state, action, self.rng, *facts.reward_range, facts.terminals
        )
        self.seconds += time.perf_counter() - start_time
        self.by_chance |= self.rng.words.tolist() != words_before
        next_state = next_state if self.retype is None else self.retype(next_state)
        self.length += 1
        if has_ended or problem.is_terminal(next_state):
            self._begin()
            return
        # with a horizon, searches keep bounds for each number of steps left
        state_key = problem.key_of(next_state)
        met_key = (state_key, 0 if problem.horizon is None else self.length)
        self.steps += 1
        self.returned += met_key in self.met
        self.met.add(met_key)
        state_lengths = self.lengths.setdefault(state_key, set())
        self.around += bool(state_lengths - {self.length})
        state_lengths.add(self.length)
        self.state = next_state
        if self.length == self.longest:
            self._begin()


SAMPLES = 30  # of each action, or all up to the first checkpoint


@dataclass(frozen=True)
class FirstSamples:
    """The beginning of a run: its inspection of the step, and its first shards."""

    parts: dict[tuple[int, int], Partial]  # by action and shard
    looked: Looks  # pairs inspected before the run
    ledger: CallLedger  # the calls of that
    expected_calls: int  # of the whole run, without inspections
    seconds: float  # of sampling
    compile_seconds: float


@stoppable()
def draw_first_samples(
    job: Job, seed: int, shards: int | None, ledger: CallLedger, *, inspects: bool
) -> FirstSamples:
    """The first samples of a run, and its likely cost.

    ``ledger`` gets their calls where a KeyboardInterrupt drops them.
    """
    problem, schedule, state = job.problem, job.schedule, job.state
    rule = stopping_rule(schedule, shards, problem.mover(state))
    job = replace(job, center=rule.center, score=rule.score)
    engine = make_engine(COMPILED.name, job)
    is_value_only = schedule.root.target == "value"
    actions = [0] if is_value_only else problem.legal_actions(state)
    inspected, inspected_pairs = CallLedger(), Looks()
    sums_by_shard: dict[tuple[int, int], Partial] = {}
    try:
        if inspects:
            inspected_pairs = look(problem, state, seed, inspected)
        expected_calls, start_time = 0.0, time.perf_counter()
        for action in actions:
            root_sums, num_calls = RootSums(), 0
            for shard in _pilot_shards(cut_shards(schedule, shards=shards)[0]):
                partial_sums = engine.run_shard(replace(shard, action=action), seed)
                sums_by_shard[action, shard.index] = partial_sums
                root_sums.add(partial_sums)
                num_calls += partial_sums.calls
            expected_calls += likely_stop(rule, root_sums) * (
                num_calls / root_sums.draws
            )
    except KeyboardInterrupt:
        ledger.add(inspected)
        calls_made = sum(partial_sums.calls for partial_sums in sums_by_shard.values())
        ledger.spend(CallRole.SAMPLES, calls_made)
        raise
    return FirstSamples(
        sums_by_shard,
        inspected_pairs,
        inspected,
        math.ceil(expected_calls),
        time.perf_counter() - start_time,
        engine.compile_seconds,
    )


def _pilot_shards(segment: tuple[Shard, ...]) -> list[Shard]:
    """The shards before the first checkpoint that a pilot takes."""
    return [shard for shard in segment if shard.first < SAMPLES]


def likely_stop(rule: StoppingRule, sums: RootSums) -> int:
    """The count of samples at which an action stops if all are as those of ``sums``."""
    root = rule.schedule.root
    for look_index, num_samples in enumerate(root.looks):
        if num_samples >= sums.draws and rule.enough(
            look_index, _scale_sums(sums, num_samples)
        ):
            return num_samples
    return root.samples


def _scale_sums(sums: RootSums, count: int) -> RootSums:
    """The sums of ``count`` samples that are distributed as those of ``sums``."""
    weights = [int(weight) * count // sums.draws for weight in sums.score]
    if weights:  # the largest bin takes the loss by rounding
        largest_bin = weights.index(max(weights))
        weights[largest_bin] += count * WHOLE - sum(weights)
    share = count / sums.draws
    return RootSums(count, share * sums.total, share * sums.square, tuple(weights))
