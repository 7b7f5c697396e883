"""The sampler that fits a problem: rows, machine code, workers, or plain Python.

Rows of a known model are read (``model_rows``); the others are sampled. All samplers of
one problem return the same bits, so that this file decides speed alone.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from smoothcruiser.certified.sampling.compiled_sampler import (
    CompiledSampler,
    row_sampler,
)
from smoothcruiser.certified.sampling.model_rows import RowReader
from smoothcruiser.certified.sampling.sampler import PythonSampler, Sampler
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.engines.registry import choose
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.model.known_outcomes import check_ends, has_rows
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Compute
from smoothcruiser.run_control.call_seconds import end_calls_at
from smoothcruiser.run_control.stop_requests import StopRequest


def make_sampler(
    problem: Problem,
    memory: Memory,
    state: Any,
    seed: int,
    compute: Compute,
    hold: StopRequest,
    deadline: float = math.inf,
) -> Sampler:
    """Return the sampler that fits the problem; rows of a known model are read.

    A stop, or the deadline, ends the wait for workers with KeyboardInterrupt.
    """
    if has_rows(problem):
        check_ends(problem)
        make_step_sampler = partial(
            step_sampler, problem, memory, state, seed, compute
        )
        return RowReader(problem, memory, seed, make_step_sampler)
    return step_sampler(problem, memory, state, seed, compute, hold, deadline)


def step_sampler(
    problem: Problem,
    memory: Memory,
    state: Any,
    seed: int,
    compute: Compute,
    hold: StopRequest,
    deadline: float = math.inf,
) -> Sampler:
    """Return the sampler that calls the step.

    It is compiled where the step is and states are made of numbers, Python elsewhere
    (or if requested), and on workers if requested.
    """
    is_whole_number = (
        isinstance(state, int | np.integer)
        and not isinstance(state, bool)
        and -(2**63) < int(state) < 2**63
    )
    if problem.tables is not None or (
        is_whole_number
        and is_compiled(problem.oracle)
        and _whole_states(problem.oracle)
    ):
        return CompiledSampler(problem, memory, seed, workers=compute.workers or 1)
    executor = choose(problem, compute)
    if executor.pool is not None:
        from smoothcruiser.certified.sampling.parallel import ParallelSampler

        with hold.opened(), end_calls_at(deadline):
            return ParallelSampler(problem, memory, seed, executor, compute)
    fast_sampler = None
    if compute.executor in (None, "compiled"):
        fast_sampler = row_sampler(problem, memory, state, seed)
    return (
        PythonSampler(problem, memory, seed) if fast_sampler is None else fast_sampler
    )


def _whole_states(oracle: Any) -> bool:
    """Return whether the step maps whole numbers to whole numbers."""
    from numba import types

    from smoothcruiser.jit.oracle import next_state_type

    next_type = next_state_type(oracle, types.int64)
    return isinstance(next_type, types.Integer) and next_type.signed
