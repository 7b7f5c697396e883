"""The compiled loop that samples batches.

It has a file of its own because the functions it calls import Numba.
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.certified.graph import END_RAW, STREAM_BYTES
from smoothcruiser.jit.streams import stream_at
from smoothcruiser.problem.tabular import Floats, Ints
from smoothcruiser.problem.tabular_kernel import tabular_step

FINE, BAD_REWARD, ENDED, RESERVED = 0, 1, 2, 3  # results of a batch


def step_tabular(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run the step of a tabular problem, with the flag of a step inside the engine."""
    reward, next_state = tabular_step(data, state, action, rng)
    return reward, next_state, False


def step_two(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run a user's step that returns two values."""
    reward, next_state = USER_STEP(state, action, rng)
    return reward, next_state, False


def step_three(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run a user's step that returns three values."""
    reward, next_state, ended = USER_STEP(state, action, rng)
    return reward, next_state, bool(ended)


def USER_STEP(state: int, action: int, rng: Any) -> Any:
    """Stand for the user's step, which replaces it when the loop is compiled."""
    raise NotImplementedError


STEP: Any = step_tabular


def draw_jobs(
    data: Any,
    states: Ints,
    actions: Ints,
    counts: Ints,
    streams: int,
    raws: Ints,
    rewards: Floats,
    low: float,
    high: float,
    ends: bool,
    fault: Ints,
) -> int:
    """Fill the buffers with ``counts[i]`` samples of each job.

    Returns FINE, or the code of the fault of sample ``fault[1]`` of job ``fault[0]``.
    ``streams`` is the address of four words per job. They are left where the next batch
    continues.
    """
    sample_index = 0
    for job in range(len(states)):
        fault[0] = job
        rng: Any = stream_at(streams + STREAM_BYTES * job)  # type: ignore[call-arg]
        state, action = states[job], actions[job]
        for _ in range(counts[job]):
            reward, next_state, ended = STEP(data, state, action, rng)
            rewards[sample_index] = reward
            raws[sample_index] = END_RAW if ended else next_state
            if not low <= reward <= high:
                fault[1] = sample_index
                return BAD_REWARD
            if ended and not ends:
                return ENDED
            if next_state == END_RAW and not ended:
                return RESERVED
            sample_index += 1
    return FINE
