"""Executor ``compiled``: Numba over the schedule table.

It runs tabular problems and users' ``numba.njit`` oracles, on the machine that ``tiers``
chooses. Kernels release the GIL, so shards run in a pool
of threads. Errors inside a kernel come back as a code, and the shard is
replayed in ``reference`` to name the state and action at fault.
"""

from __future__ import annotations

import time

import numpy as np

from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled import kernel
from smoothcruiser.engines.compiled.schedule_table import (
    WHOLE_NUMBERS,
    schedule_columns,
    schedule_table,
)
from smoothcruiser.engines.compiled.tiers import choose_tier
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.engines.root_scores import LOGGED, Sums
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
)
from smoothcruiser.jit.oracle import first_line
from smoothcruiser.jit.random.streams import Stream, from_words, stream
from smoothcruiser.schedule.schedule import Kind
from smoothcruiser.states.identity import is_fixed
from smoothcruiser.states.state_copies import Guard

# About half a second in plain Python. A single root sample that costs more is
# replayed whole.
REPLAYED_CALLS = 20_000

RAISED = -1  # how a shard ended, beside the kernel's own codes


class CompiledEngine:
    """Runs shards of one (problem, schedule, state) as machine code."""

    name = "compiled"
    kinds = frozenset(Kind)
    parallel = True
    python = False
    guard = None  # machine code is not watched while it runs
    calls = 0  # several shards run at once: their errors carry their own counts

    def __init__(self, job: Job, tier: str = "") -> None:
        """An engine for a job; ``tier`` names its machine (``tiers``), for tests."""
        self.job, self.center = job, job.center
        problem, self.schedule, state = job.problem, job.schedule, job.state
        self.stop_flag = np.zeros(1, np.int64)
        self._replaying: list[ReferenceEngine] = []
        start_time = time.perf_counter()
        # the arrays live as long as the table, which has their addresses
        self.columns = {
            name: np.array(
                column, dtype=np.int64 if name in WHOLE_NUMBERS else np.float64
            )
            for name, column in schedule_columns(problem, job.schedule).items()
        }
        table = schedule_table(
            problem,
            job.schedule,
            job.score,
            {name: array.ctypes.data for name, array in self.columns.items()},
        )
        self.schedule_table = table._replace(fragile=not is_fixed(state))
        self.tier = choose_tier(problem, state, job.schedule.num_calls, tier)
        self._warm_up()
        self.compile_seconds = time.perf_counter() - start_time

    def _warm_up(self) -> None:
        """Compile (or load) the machine: a shard of no samples makes no oracle call."""
        try:
            self._run_samples(0, 0, stream(0))
        except SmoothcruiserError:
            raise
        except Exception as error:
            raise InvalidInput(
                "The oracle could not be compiled into the engine: "
                f"{first_line(error)} Check that step, legal, terminal, player and "
                "value_bounds take the states that step returns, or use "
                "executor='reference'."
            ) from error

    def stop(self) -> None:
        """Ask running shards to end."""
        self.stop_flag[0] = 1
        for reference_engine in self._replaying:
            reference_engine.stop()

    def _run_samples(
        self, action: int, count: int, rng: Stream
    ) -> tuple[int, Partial]:
        """The status of the run, and the sums of the root's samples.

        They are ``count`` samples, and after a stop those that were completed.
        """
        tier = self.tier
        # Own arrays per call, because several threads run this engine at once.
        num_actions, depth = self.schedule.facts.num_actions, self.schedule.depth
        scratch = np.empty(
            kernel.scratch_words(num_actions, tier.words, depth), np.int64
        )
        score_words = np.zeros(len(self.job.score.none), np.int64)
        data, _arrays_alive = tier.data()
        if self.schedule.root.target == "value":
            action = -1
        status, num_calls, total, square = tier.machine(
            self.schedule_table._replace(state_words=tier.words),
            data,
            tier.state,
            action,
            count,
            self.center,
            rng,
            self.stop_flag.ctypes.data,
            scratch.ctypes.data,
            score_words.ctypes.data,
        )
        if status == kernel.STOPPED:
            vector_words = kernel.VECTORS * self.schedule.facts.num_actions
            samples_left = int(scratch[vector_words + kernel.LEFT])
            count -= samples_left + 1
        score_type = np.float64 if self.job.score.kind == LOGGED else np.int64
        scores: Sums = tuple(score_words.view(score_type).tolist())
        return int(status), Partial(count, total, square, int(num_calls), scores)

    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard."""
        try:
            status, partial_sums = self._run_samples(
                shard.action, shard.count, stream(seed, shard.action, shard.index)
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._replay(shard, seed)
            raise OracleError(
                f"The oracle raised {type(error).__name__}: {error}; fix the simulator."
            ) from error
        if status == kernel.STOPPED:
            raise Interrupted(
                "The run was stopped before this shard was finished.",
                calls=partial_sums.calls,
                piece=Piece(shard, partial_sums),
            )
        if status != kernel.DONE:
            self._replay(shard, seed)
            raise OracleError(
                "The oracle returned something it must not, and did not do so "
                "again when replayed; is it deterministic?"
            )
        return partial_sums

    def _replay(self, shard: Shard, seed: int) -> None:
        """Raise an error that names the state and action at fault.

        The failed samples are found at full speed, and only those run in plain
        Python.
        """
        reference_engine = ReferenceEngine(self.job)
        reference_engine.guard = Guard(always=True)
        rng = stream(seed, shard.action, shard.index)
        block_samples = max(
            1,
            REPLAYED_CALLS
            // (1 + self.schedule.level_calls[self.schedule.root.child]),
        )
        for first_sample in range(0, shard.count, block_samples):
            count = min(block_samples, shard.count - first_sample)
            start_stream = from_words(rng.words)
            try:
                status = self._run_samples(shard.action, count, rng)[0]
            except KeyboardInterrupt:
                raise
            except BaseException:
                status = RAISED
            if status == kernel.STOPPED:
                raise Interrupted(
                    "The run was stopped before this shard was finished."
                )
            if status != kernel.DONE:
                self._replaying.append(reference_engine)
                if self.stop_flag[0] != 0:
                    reference_engine.stop()
                reference_engine.run_draws(shard.action, count, start_stream)
                return
