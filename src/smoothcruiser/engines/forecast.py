"""The likely cost of a run, estimated from its first samples.

Every run draws its samples up to the first checkpoint. A pilot draws at least
``SAMPLES`` of them for each action, in whole shards, and the run goes on from there: no
call is made twice, and no bit of the answer changes. The stopping rule is then applied
to the samples of the pilot as if they came again and again; where it first holds is
where the action likely stops. No promise rests on it.

Left out: the requests that have a pilot (``methods.scheduled``).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from smoothcruiser.engines.base import Job
from smoothcruiser.engines.inspection import Looks, look
from smoothcruiser.engines.registry import make_engine
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.scores import WHOLE
from smoothcruiser.engines.shards import Partial, Shard, cut_shards
from smoothcruiser.engines.stopping import StoppingRule, stopping_rule
from smoothcruiser.jit.interrupts import stoppable

SAMPLES = 30  # of each action, or all up to the first checkpoint


@dataclass(frozen=True)
class FirstSamples:
    """The beginning of a run: its inspection of the step, and its first shards."""

    parts: dict[tuple[int, int], Partial]  # by action and shard
    looked: Looks  # pairs inspected before the run
    look_calls: int
    expected_calls: int  # of the whole run, without inspections
    seconds: float  # of sampling
    compile_seconds: float


@stoppable()
def draw_first_samples(
    job: Job, executor: str, seed: int, shards: int | None, inspects: bool
) -> FirstSamples:
    """The first samples of a run, and its likely cost.

    A KeyboardInterrupt says how many calls were made.
    """
    problem, schedule, state = job.problem, job.schedule, job.state
    rule = stopping_rule(schedule, shards, problem.mover(state))
    job = replace(job, center=rule.center, score=rule.score)
    engine = make_engine(executor, job)
    is_value_only = schedule.root.target == "value"
    actions = [0] if is_value_only else problem.legal_actions(state)
    look_calls, inspected_pairs = look(problem, state, seed) if inspects else (0, ())
    sums_by_shard: dict[tuple[int, int], Partial] = {}
    expected_calls, start_time = 0.0, time.perf_counter()
    try:
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
    except KeyboardInterrupt as stop:
        calls_made = sum(partial_sums.calls for partial_sums in sums_by_shard.values())
        stop.calls = look_calls + calls_made  # type: ignore[attr-defined]
        raise
    return FirstSamples(
        sums_by_shard,
        inspected_pairs,
        look_calls,
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
