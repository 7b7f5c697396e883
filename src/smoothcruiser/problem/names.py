"""The grammar of names, which ``make`` reads and messages propose.

    name        built-in[:parameters]   prefix:text[,parameters]   module:attribute
                (an adapter may let its first parameters do without their words)
    parameters  word=value,word=value,…
    value       JSON, a Python literal in brackets or quotes, or a word

Commas inside brackets and quotes do not separate: ``actions=[-2,0,2]`` is one
parameter, ``breakthrough(rows=4,columns=4)`` one name. This file leaves out
the meaning of the names (``make``, the adapters).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import shorten_value

CLOSING = {"(": ")", "[": "]", "{": "}"}
QUOTES = "\"'"


def split_pieces(text: str) -> list[str]:
    """``text`` cut at its commas, but not at those inside brackets or quotes."""
    segments, segment_start = [], 0
    expected_closers: list[str] = []  # closing brackets, and the quote that is open
    for position, character in enumerate(text):
        if expected_closers and expected_closers[-1] in QUOTES:
            if character == expected_closers[-1]:
                expected_closers.pop()
        elif character in CLOSING:
            expected_closers.append(CLOSING[character])
        elif character in QUOTES and _begins_value(text, position):
            expected_closers.append(character)
        elif character in ")]}":
            if not expected_closers or expected_closers.pop() != character:
                raise _unmatched_error(text)
        elif character == "," and not expected_closers:
            segments.append(text[segment_start:position])
            segment_start = position + 1
    if expected_closers:
        raise _unmatched_error(text)
    return [*segments, text[segment_start:]]


def _begins_value(text: str, position: int) -> bool:
    """Whether a quote begins a value, and is no apostrophe inside a word."""
    return position > 0 and text[:position].rstrip()[-1:] in ("=", ",", ":", *CLOSING)


def _unmatched_error(text: str) -> InvalidInput:
    return InvalidInput(
        f"The brackets and quotes of {shorten_value(text)} must match, as in "
        "actions=[-2,0,2]; close what is open."
    )


def split_name(text: str, words: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """The text before the first comma, and the parameters after it.

    ``words`` name parameters that may be written without them, in this order and
    before all others: ``SysAdmin,1`` is ``SysAdmin,instance=1`` for ("instance",).
    """
    subject, *raw_parameters = split_pieces(text)
    for position, parameter_name in enumerate(words[: len(raw_parameters)]):
        if "=" in raw_parameters[position] or not raw_parameters[position].strip():
            break
        raw_parameters[position] = (
            f"{parameter_name}={raw_parameters[position].strip()}"
        )
    return subject.strip(), read_parameters(",".join(raw_parameters))


def read_parameters(text: str) -> dict[str, Any]:
    """``n=5,seed=1`` as a dict of values."""
    values_by_name: dict[str, Any] = {}
    for piece in split_pieces(text):
        if not piece.strip():
            continue
        key, equals, value = piece.partition("=")
        parameter_name = key.strip()
        if not equals or not parameter_name or not value.strip():
            raise InvalidInput(
                f"Parameters are written name=value,name=value; got {piece!r}."
            )
        if parameter_name in values_by_name:
            raise InvalidInput(
                f"The parameter {parameter_name!r} is given twice; drop one."
            )
        values_by_name[parameter_name] = _read_value(value.strip())
    return values_by_name


def pop_own_options(
    parameters: dict[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """The options of an adapter, removed from the parameters of a name.

    ``reward_low=`` and ``reward_high=`` are another way to write ``reward_range=``.
    """
    options = {
        option_name: parameters.pop(option_name)
        for option_name in names
        if option_name in parameters
    }
    reward_low, reward_high = (
        parameters.pop(option_name, None)
        for option_name in ("reward_low", "reward_high")
    )
    if (reward_low is None) != (reward_high is None):
        raise InvalidInput("Give reward_low= and reward_high= together.")
    if reward_low is not None:
        options["reward_range"] = (float(reward_low), float(reward_high))
    elif isinstance(options.get("reward_range"), list):
        options["reward_range"] = tuple(options["reward_range"])
    return options


def _read_value(text: str) -> Any:
    """The value of a parameter: JSON, a Python literal, or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # a word, or a number of 5,000 digits
        pass
    if text[0] in (*CLOSING, *QUOTES):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
    return text
