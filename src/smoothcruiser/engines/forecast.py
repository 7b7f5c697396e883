"""What a run likely pays, by its first samples.

Every run draws its samples up to the first checkpoint. A pilot draws at least
``SAMPLES`` of them for each action, in whole shards, and the run goes on from there: no
call is made twice, and no bit of the answer changes. The stopping rule is then applied
to the samples of the pilot as if they came again and again; where it first holds is
where the action likely stops. No promise rests on it.

What this file leaves out: for which requests there is a pilot (``methods.scheduled``).
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
from smoothcruiser.engines.shards import Partial, Shard, cut
from smoothcruiser.engines.stopping import StoppingRule, stopping_rule
from smoothcruiser.jit.interrupts import stoppable

SAMPLES = 30  # of each action, or all up to the first checkpoint


@dataclass(frozen=True)
class FirstSamples:
    """The beginning of a run: its inspection of the step, and its first shards."""

    parts: dict[tuple[int, int], Partial]  # by action and shard
    looked: Looks  # what the inspection before the run saw
    look_calls: int
    expected_calls: int  # of the whole run, without inspections
    seconds: float  # of sampling
    compile_seconds: float


@stoppable()
def draw_first_samples(
    job: Job, executor: str, seed: int, shards: int | None, inspects: bool
) -> FirstSamples:
    """The first samples of a run, and what the run likely pays.

    A KeyboardInterrupt says how many calls were made.
    """
    problem, schedule, state = job.problem, job.schedule, job.state
    rule = stopping_rule(schedule, shards, problem.mover(state))
    job = replace(job, center=rule.center, score=rule.score)
    engine = make_engine(executor, job)
    whole = schedule.root.target == "value"
    actions = [0] if whole else problem.legal_actions(state)
    look_calls, looked = look(problem, state, seed) if inspects else (0, ())
    parts: dict[tuple[int, int], Partial] = {}
    likely, begin = 0.0, time.perf_counter()
    try:
        for action in actions:
            sums, calls = RootSums(), 0
            for shard in _first(cut(schedule, shards=shards)[0]):
                part = engine.run_shard(replace(shard, action=action), seed)
                parts[action, shard.index] = part
                sums.add(part)
                calls += part.calls
            likely += likely_stop(rule, sums) * (calls / sums.draws)
    except KeyboardInterrupt as stop:
        made = sum(part.calls for part in parts.values())
        stop.calls = look_calls + made  # type: ignore[attr-defined]
        raise
    return FirstSamples(
        parts,
        looked,
        look_calls,
        math.ceil(likely),
        time.perf_counter() - begin,
        engine.compile_seconds,
    )


def _first(segment: tuple[Shard, ...]) -> list[Shard]:
    """The shards before the first checkpoint that a pilot takes."""
    return [shard for shard in segment if shard.first < SAMPLES]


def likely_stop(rule: StoppingRule, sums: RootSums) -> int:
    """The count of samples at which an action stops if all are as those of ``sums``."""
    root = rule.schedule.root
    for number, count in enumerate(root.looks):
        if count >= sums.draws and rule.enough(number, _repeated(sums, count)):
            return count
    return root.samples


def _repeated(sums: RootSums, count: int) -> RootSums:
    """The sums of ``count`` samples that are distributed as those of ``sums``."""
    weights = [int(weight) * count // sums.draws for weight in sums.score]
    if weights:  # what was rounded off goes where most of it came from
        most = weights.index(max(weights))
        weights[most] += count * WHOLE - sum(weights)
    share = count / sums.draws
    return RootSums(count, share * sums.total, share * sums.square, tuple(weights))
