"""The n-th sampled action of a state, in compiled code and in plain Python.

A user's ``sample_action(state, rng)`` becomes a list of actions at every state: number n
is its result with a stream of its own, which the state and n seed,

    words = splitmix64(mix(hash(state)) + n)     (Steele, Lea, Flood 2014)

so that the list of a state is always the same one, whoever asks and however often, and no
action has to be stored. Left out: the uses of a problem with sampled actions
(``problem.action_sampler``). This file imports Numba, so it is itself imported late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core.extending import overload

from smoothcruiser.jit.random.stream_type import stream_at
from smoothcruiser.states.codec import hashing
from smoothcruiser.states.table_kernel import GOLDEN, MASK, mix_number, mix_word

WORDS = 4
OWN = 0xD1B54A32D192ED03  # keeps this use of a state's hash apart from others
_GOLDEN, _OWN = np.uint64(GOLDEN), np.uint64(OWN)
_mix: Any = njit(inline="always")(mix_word)


def seed_words(number: int, nth: int) -> list[int]:
    """The words of the stream for action ``nth`` of a state with this hash."""
    x = (mix_number((number ^ OWN) & MASK) + nth * GOLDEN) & MASK
    stream_words = []
    for _ in range(WORDS):
        x = (mix_number(x) + GOLDEN) & MASK
        stream_words.append(mix_number(x))
    return stream_words


@njit
def _write_seed_words(words: Any, number: Any, nth: Any) -> None:
    x = _mix(np.uint64(number) ^ _OWN) + np.uint64(nth) * _GOLDEN
    for i in range(WORDS):
        x = _mix(x) + _GOLDEN
        words[i] = _mix(x)


def _state_number(state: Any) -> int:
    """The hash of a state; compiled code alone calls it."""
    raise NotImplementedError


@overload(_state_number)
def _compiled_number(state: Any) -> Any:
    hash_state = hashing(state)["HASH"]

    def number(state: Any) -> Any:
        return hash_state(state)

    return number


def compiled_list(step: Any, sample_action: Any) -> tuple[Any, Any]:
    """(a step that takes numbers of actions, the function (state, number) -> action)."""

    @njit
    def nth_action(state: Any, number: Any) -> Any:
        stream_words = np.empty(WORDS, np.uint64)
        _write_seed_words(stream_words, _state_number(state), number)
        action = sample_action(state, stream_at(stream_words.ctypes.data))
        stream_words[0] = np.uint64(
            0
        )  # so that they live until the sampler has returned
        return action

    @njit
    def numbered_step(state: Any, action: Any, rng: Any) -> Any:
        return step(state, nth_action(state, action), rng)

    return numbered_step, nth_action
