"""A problem's functions in compiled form, and the Numba types of its states.

Compiled engines call every problem alike: ``STEP(data, state, action, rng)``
returns (reward, next state, whether the episode is over), and ``LEGAL``,
``TERMINAL`` and ``PLAYER`` take ``data`` first. ``oracle_parts`` wraps a user's
``numba.njit`` functions so. Types of states are inferred by compiling the step,
never by calling it.

Left out: problems. This file takes functions and states, so that its layer does not
depend on them.

The n-th sampled action of a state, in compiled code and in plain Python.

A user's ``sample_action(state, rng)`` becomes a list of actions at every state: number n
is its result with a stream of its own, which the state and n seed,

    words = splitmix64(mix(hash(state)) + n)     (Steele, Lea, Flood 2014)

so that the list of a state is always the same one, whoever asks and however often, and no
action has to be stored. Left out: the uses of a problem with sampled actions
(``problem.action_sampler``).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import njit, typeof, types
from numba.core.extending import overload

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.random.stream_type import STREAM, stream_at
from smoothcruiser.jit.random.streams import METHODS, missing_method
from smoothcruiser.jit.state_words import hashing
from smoothcruiser.run_control import signal_listener
from smoothcruiser.run_control.clock import pause_clock


def oracle_parts(
    oracle: Any, legal: Any, terminal: Any, player: Any, kind: Any, state: Any
) -> dict[str, Any]:
    """The user's functions in the form that compiled engines call.

    They take the data argument first, steps return an end flag, and states are
    stored by type.
    """
    from numba import njit

    from smoothcruiser.jit.state_words import storage

    returned_types = returned_type(oracle, kind)
    next_type = returned_types[1]
    state_storage = storage(next_type, state)
    if len(returned_types) == 2:

        @njit(inline="always")
        def step(data: Any, state: Any, action: Any, rng: Any) -> Any:
            reward, next_state = oracle(state, action, rng)
            return float(reward), next_state, False

    else:

        @njit(inline="always")
        def step(data: Any, state: Any, action: Any, rng: Any) -> Any:
            reward, next_state, is_over = oracle(state, action, rng)
            return float(reward), next_state, bool(is_over)

    @njit(inline="always")
    def leaf(data: Any, state: Any, action: Any, rng: Any) -> Any:
        reward, _next_state, is_over = step(data, state, action, rng)
        return reward, is_over

    legal_function = legal if legal is not None else _constant(True)
    terminal_function = terminal if terminal is not None else _constant(False)
    player_function = player if player is not None else _constant(1)

    @njit(inline="always")
    def is_legal(data: Any, state: Any, action: Any) -> Any:
        return legal_function(state, action)

    @njit(inline="always")
    def is_terminal(data: Any, state: Any) -> Any:
        return terminal_function(state)

    @njit(inline="always")
    def mover(data: Any, state: Any) -> Any:
        return player_function(state)

    return {
        "STEP": step,
        "LEAF": leaf,
        "LEGAL": is_legal,
        "TERMINAL": is_terminal,
        "PLAYER": mover,
        "ALLOCATE": state_storage.allocate,
        "LOAD": state_storage.load,
        "STORE": state_storage.store,
        "KEEP": state_storage.keep,
    }


@lru_cache(maxsize=64)  # a machine is known by the functions in it
def bounds_parts(lower: Any, upper: Any) -> dict[str, Any]:
    """The user's bounds on V in the form that compiled engines call."""
    from numba import njit

    @njit(inline="always")
    def below(data: Any, state: Any) -> Any:
        return float(lower(state))

    @njit(inline="always")
    def above(data: Any, state: Any) -> Any:
        return float(upper(state))

    return {"BELOW": below, "ABOVE": above}


def state_type(state: Any) -> Any:
    """The Numba type of a state."""
    import numba

    try:
        return numba.typeof(state)
    except ValueError as error:
        raise InvalidInput(
            "Compiled oracles take states of numbers, tuples, NamedTuples and arrays "
            f"of fixed shape, got {type(state).__name__}; "
            "use one of these, or drop numba.njit from the step to run it in plain "
            "Python."
        ) from error


def next_state_type(oracle: Any, kind: Any) -> Any:
    """The Numba type of the states that the step returns for a state of ``kind``."""
    return returned_type(oracle, kind)[1]


def returned_type(oracle: Any, kind: Any) -> Any:
    """The two or three Numba types that the step returns for a state of ``kind``.

    They are found by compiling the step, without calling it.
    """
    from numba import types

    argument_types = (kind, types.int64, STREAM)
    try:
        oracle.compile(argument_types)
        returned_types = oracle.overloads[argument_types].signature.return_type
    except Exception as error:
        error_text = (
            "step(state, action, rng) could not be compiled for a state of type "
            f"{kind}: {first_line(error)}"
        )
        if _about_rng(error) is None:  # an error about rng names its own remedy
            error_text += (
                " Check the state that was asked for, or drop numba.njit to run the "
                "step in plain Python."
            )
        raise InvalidInput(error_text) from error
    if isinstance(returned_types, types.BaseTuple) and len(returned_types) in (2, 3):
        return returned_types
    raise InvalidInput(
        "step must return (reward, next_state) or (reward, next_state, "
        f"terminated), but it returns {returned_types}."
    )


@lru_cache(maxsize=None, typed=True)  # True and 1 are equal, but not the same type
def _constant(result: Any) -> Any:
    """A compiled function that returns ``result`` for any arguments."""
    from numba import njit

    @njit
    def constant(*_arguments: Any) -> Any:
        return result

    return constant


def _about_rng(error: Exception) -> str | None:
    """A compile error's sentence about ``rng``; None where ``rng`` is not at fault."""
    error_text = str(error)
    if missing_match := re.search(
        r"Unknown attribute '(\w+)' of type Stream", error_text
    ):
        return missing_method(missing_match[1])
    if own_match := re.search(r"TypingError: (rng\..*)", error_text):
        return own_match[1]
    if wrong_match := re.search(r">>> _(\w+)_method\(Stream(?:, )?(.*)\)", error_text):
        return (
            f"rng.{wrong_match[1]} does not take the arguments ({wrong_match[2]}); rng has "
            f"{METHODS}"
        )
    return None


def first_line(error: Exception) -> str:
    """The message of a compile error, as one sentence.

    It is the sentence about ``rng`` if that is at fault, otherwise the first line
    that is not about the compiler itself.
    """
    rng_sentence = _about_rng(error)
    if rng_sentence is not None:
        return rng_sentence.rstrip(".") + "."
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful_lines = [
        line
        for line in lines
        if "Failed in nopython" not in line and "During:" not in line
    ]
    return (useful_lines or lines or [type(error).__name__])[0].rstrip(".") + "."


WORDS = 4
# of splitmix64; the last one keeps this use of a state's hash apart from others
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
OWN = 0xD1B54A32D192ED03
_GOLDEN, _FIRST, _SECOND, _OWN = (np.uint64(k) for k in (GOLDEN, FIRST, SECOND, OWN))
_S27, _S30, _S31 = (np.uint64(k) for k in (27, 30, 31))
MASK = 2**64 - 1


def seed_words(number: int, nth: int) -> list[int]:
    """The words of the stream for action ``nth`` of a state with this hash."""
    x = (_mix_bits((number ^ OWN) & MASK) + nth * GOLDEN) & MASK
    stream_words = []
    for _ in range(WORDS):
        x = (_mix_bits(x) + GOLDEN) & MASK
        stream_words.append(_mix_bits(x))
    return stream_words


def _mix_bits(z: int) -> int:
    z = ((z ^ (z >> 30)) * FIRST) & MASK
    z = ((z ^ (z >> 27)) * SECOND) & MASK
    return z ^ (z >> 31)


@njit(inline="always")
def _mix(z: Any) -> Any:
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


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


@cache
def _compiled_listen() -> Any:
    """``listen`` over the C library's functions, for a thread without Python's lock."""
    int32, int64 = types.int32, types.int64
    return compile_function(
        signal_listener.listen,
        nogil=True,
        salt="libc",
        read=types.ExternalFunction("read", int64(int32, int64, int64)),
        write=types.ExternalFunction("write", int64(int32, int64, int64)),
        clock_gettime=types.ExternalFunction("clock_gettime", int32(int32, int64)),
        end_process=types.ExternalFunction("_exit", types.void(int32)),
    )


def listen_without_lock() -> None:
    """Let a second Ctrl-C end compiled code that runs with Python's lock.

    That is a compiled step which Python calls. Costs a compiled loop, kept on disk.
    """
    listener = signal_listener.current_listener()
    if listener is None or listener.form is not signal_listener.listen:
        return
    with pause_clock():
        compiled = _compiled_listen()
        number = np.ctypeslib.as_array(listener.number)
        words = np.ctypeslib.as_array(listener.words)
        compiled.compile(tuple(map(typeof, (0, number, 0, words))))
    listener.use_form(
        lambda descriptor, _, address, __: compiled(descriptor, number, address, words)
    )
