"""A small piece of a run, which every worker must reproduce to the last bit.

The levels of the run's own schedule are sampled by the run's own engine, in a
small built-in world with the run's operator and number of actions. So it costs
milliseconds and not one call of the user's simulator, and it goes through the
code, the machine code and the mathematical functions that the shards will use.

This file decides the world, and how much of the schedule is run (``MOST_CALLS``).
It leaves out the comparison of bits (``pools.dask``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smoothcruiser.engines.base import Engine, Job
from smoothcruiser.engines.shards import Shard
from smoothcruiser.operators import Operator
from smoothcruiser.problem.model.tabular import tabular
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.kinds import Kind
from smoothcruiser.schedule.schedule import Level, Root, Schedule, level_calls

STATES, DISCOUNT, SEED = 3, 0.7, 15
MOST_CALLS = 5_000  # about 50 ms in plain Python
MOST_SAMPLES = 64
# One level of each kind, for runs that follow no schedule (certified search).
EVERY_KIND = (
    Level(Kind.CONSTANT, constant=0.5),
    Level(Kind.PLUGIN, samples=2, query=0),
    Level(Kind.ROLLOUT, samples=2, query=0, continuation=1),
    Level(Kind.BLIND, continuation=2),
)


@dataclass(frozen=True)
class FirstShard:
    """The piece, as data that can be sent to a worker."""

    make_engine: Callable[[str, Job], Engine]  # of the registry
    executor: str  # its engine runs the piece
    operator: Operator
    num_actions: int
    game: bool
    levels: tuple[Level, ...]

    def job(self) -> Job:
        """The levels on the built-in world, from the highest within ``MOST_CALLS``."""
        world = self._world()
        calls_per_level = level_calls(self.levels, self.num_actions)
        child = max(
            i
            for i in range(len(calls_per_level))
            if calls_per_level[i] <= MOST_CALLS or i == 0
        )
        num_samples = max(
            1, min(MOST_SAMPLES, MOST_CALLS // (1 + calls_per_level[child]))
        )
        root = Root("q_values", num_samples, child, "")
        # an infinite epsilon: a table that promises nothing
        schedule = Schedule("proof", world.facts, self.levels, root, math.inf, 0.5)
        return Job(world, schedule, 0)

    def bits(self) -> str:
        """The sums of the piece, to the last bit."""
        job = self.job()
        shard = Shard(0, 0, 0, job.schedule.root.samples)
        partial_sums = self.make_engine(self.executor, job).run_shard(shard, SEED)
        return f"{partial_sums.total.hex()} {partial_sums.square.hex()} {partial_sums.calls}"

    def _world(self) -> Problem:
        """Three states, each reached from every state, with rewards that all differ."""
        num_pairs = STATES * self.num_actions
        weights = 1.0 + np.arange(num_pairs * STATES) % 7
        transition_weights = weights.reshape(STATES, self.num_actions, STATES)
        pair_rewards = np.sqrt(np.arange(1, num_pairs + 1) / num_pairs)
        return tabular(
            transition_weights / transition_weights.sum(axis=2, keepdims=True),
            pair_rewards.reshape(STATES, self.num_actions),
            discount=DISCOUNT,
            operator=self.operator,
            players=np.arange(STATES) % 2 + 1 if self.game else None,
        )
