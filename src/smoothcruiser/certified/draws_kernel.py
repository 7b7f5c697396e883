"""The compiled loop that samples batches.

It has a file of its own because what it calls imports Numba.
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.certified.graph import END_RAW, STREAM_BYTES
from smoothcruiser.jit.streams import stream_at
from smoothcruiser.problem.tabular import Floats, Ints
from smoothcruiser.problem.tabular_kernel import tabular_step

FINE, BAD_REWARD, ENDED, RESERVED = 0, 1, 2, 3  # what a batch reports


def step_tabular(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run the step of a tabular problem, with the flag of a step inside the engine."""
    reward, after = tabular_step(data, state, action, rng)
    return reward, after, False


def step_two(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run a user's step that returns two values."""
    reward, after = USER_STEP(state, action, rng)
    return reward, after, False


def step_three(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run a user's step that returns three values."""
    reward, after, ended = USER_STEP(state, action, rng)
    return reward, after, bool(ended)


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

    Returns FINE, or what was wrong with sample ``fault[1]`` of job
    ``fault[0]``. ``streams`` is the address of four words per job. They are
    left where the next batch continues.
    """
    at = 0
    for job in range(len(states)):
        fault[0] = job
        rng: Any = stream_at(streams + STREAM_BYTES * job)  # type: ignore[call-arg]
        state, action = states[job], actions[job]
        for _ in range(counts[job]):
            reward, after, ended = STEP(data, state, action, rng)
            rewards[at] = reward
            raws[at] = END_RAW if ended else after
            if not low <= reward <= high:
                fault[1] = at
                return BAD_REWARD
            if ended and not ends:
                return ENDED
            if after == END_RAW and not ended:
                return RESERVED
            at += 1
    return FINE
