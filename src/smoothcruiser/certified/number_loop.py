"""The loop that samples a compiled step over whole numbers.

Tables have one loop, with the tables as its data. For a user's step there are two,
which return the same bits: one for all users, from the disk, which calls the step by
address, and one with the step in it, which replaces it in a search of many calls
(``engines.compiled.handover``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.handover import (
    ADDRESS,
    INLINED,
    Handover,
    build_if_current,
    tier_choice,
    with_compiled_step,
)
from smoothcruiser.jit.build import compile_function
from smoothcruiser.problem.problem import Problem

_steps: dict[Any, Any] = {}  # steps by address; False where that cannot be


@dataclass(frozen=True)
class NumberLoop:
    """A loop and its data."""

    kernel: Any  # ``draws_kernel.draw_jobs``
    problem: Problem  # as Python calls it
    fixed: Any = ()  # the data of a loop that calls nothing by address
    spoken: Any = None  # the user's functions that it calls by address
    later: Handover | None = None

    def data(self) -> tuple[Any, Any]:
        """(data of its step, objects to keep alive as long); threads share nothing."""
        if self.spoken is None:
            return self.fixed, None
        buffer, state = self.spoken.buffer(), np.zeros(1, dtype=np.int64)
        buffer_addresses = int(buffer.ctypes.data), int(state.ctypes.data)
        return (self.spoken.address, *buffer_addresses), (buffer, state)

    def after(self, calls: int) -> NumberLoop:
        """The loop to continue with, after so many more calls."""
        inlined_kernel = None if self.later is None else self.later.after(calls)
        return (
            self if inlined_kernel is None else NumberLoop(inlined_kernel, self.problem)
        )


def number_loop(problem: Problem) -> NumberLoop:
    """The loop of a problem over whole numbers."""
    from smoothcruiser.certified import draws_kernel

    if problem.tables is not None:
        kernel = compile_function(draws_kernel.draw_jobs, nogil=True)
        return NumberLoop(kernel, problem, problem.tables.sampling)
    tier = tier_choice()
    user_step = None if tier == INLINED else _step_by_address(problem)
    if user_step is None:
        return NumberLoop(_inlined_loop(problem), problem)
    from smoothcruiser.jit import by_address

    kernel = compile_function(
        draws_kernel.draw_jobs, nogil=True, **by_address.number_parts()
    )
    handover = (
        None
        if tier == ADDRESS
        else Handover(build_if_current(lambda: _compile_inlined(problem), user_step))
    )
    # a step from the disk is not compiled for Python either
    python_problem = (
        with_compiled_step(user_step, problem) if user_step.kept else problem
    )
    return NumberLoop(kernel, python_problem, spoken=user_step, later=handover)


def _step_by_address(problem: Problem) -> Any:
    """The step as it is called by address, or None."""
    from smoothcruiser.engines.compiled.speaking import compile_user_step

    known_step = _steps.get(problem.oracle)
    if problem.oracle not in _steps or (known_step and not known_step.is_current()):
        _steps[problem.oracle] = compile_user_step(problem, 0)
    return _steps[problem.oracle]


def _inlined_loop(problem: Problem) -> Any:
    """The loop with the step in it."""
    from numba import types

    from smoothcruiser.certified import draws_kernel as draws
    from smoothcruiser.jit.oracle import returned_type

    returned_types = returned_type(problem.oracle, types.int64)
    adapter = draws.step_three if len(returned_types) == 3 else draws.step_two
    step = compile_function(adapter, USER_STEP=problem.oracle)
    return compile_function(draws.draw_jobs, nogil=True, STEP=step)


def _compile_inlined(problem: Problem) -> Any:
    """The same, compiled."""
    kernel, no_jobs = _inlined_loop(problem), np.zeros(0, dtype=np.int64)
    low, high = problem.facts.reward_range
    has_terminals, fault = problem.facts.terminals, np.zeros(2, dtype=np.int64)
    kernel(
        (),
        no_jobs,
        no_jobs,
        no_jobs,
        0,
        no_jobs,
        np.zeros(0),
        low,
        high,
        has_terminals,
        fault,
    )
    return kernel
