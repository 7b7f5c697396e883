"""A problem's functions in compiled form, and the Numba types of its states.

Compiled engines call every problem alike: ``STEP(data, state, action, rng)``
returns (reward, next state, whether the episode is over), and ``LEGAL``,
``TERMINAL`` and ``PLAYER`` take ``data`` first. ``oracle_parts`` wraps a user's
``numba.njit`` functions so. Types of states are inferred by compiling the step,
never by calling it.

Left out: problems. This file takes functions and states, so that its layer does not
depend on them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.random.streams import METHODS, missing_method


def oracle_parts(
    oracle: Any, legal: Any, terminal: Any, player: Any, kind: Any
) -> dict[str, Any]:
    """The user's functions in the form that compiled engines call.

    They take the data argument first, and steps return an end flag.
    """
    from numba import njit

    step = step_part(oracle, kind)

    @njit(inline="always")
    def leaf(data: Any, state: Any, action: Any, rng: Any) -> Any:
        reward, _next_state, is_over = step(data, state, action, rng)
        return reward, is_over

    legal_function = legal if legal is not None else constant(True)
    terminal_function = terminal if terminal is not None else constant(False)
    player_function = player if player is not None else constant(1)

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
    }


def step_part(oracle: Any, kind: Any) -> Any:
    """The user's step as compiled loops call it: (reward, next state, end flag)."""
    from numba import njit

    if len(returned_type(oracle, kind)) == 2:

        @njit(inline="always")
        def step(data: Any, state: Any, action: Any, rng: Any) -> Any:
            reward, next_state = oracle(state, action, rng)
            return float(reward), next_state, False

    else:

        @njit(inline="always")
        def step(data: Any, state: Any, action: Any, rng: Any) -> Any:
            reward, next_state, is_over = oracle(state, action, rng)
            return float(reward), next_state, bool(is_over)

    return step


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

    from smoothcruiser.jit.random.stream_type import STREAM

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
def constant(result: Any) -> Any:
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
