"""The grammar of names: what ``make`` reads, and every message may propose.

    name        built-in[:parameters]   prefix:what[,parameters]   module:attribute
                (an adapter may let its first parameters do without their words)
    parameters  word=value,word=value,…
    value       JSON, a Python literal in brackets or quotes, or a word

Commas inside brackets and quotes do not separate: ``actions=[-2,0,2]`` is one
parameter, ``breakthrough(rows=4,columns=4)`` one name. What this file leaves out: what
the names mean (``make``, the adapters).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import shortened

CLOSING = {"(": ")", "[": "]", "{": "}"}
QUOTES = "\"'"


def pieces(text: str) -> list[str]:
    """``text`` cut at its commas, but not at those inside brackets or quotes."""
    found, begin = [], 0
    expected: list[str] = []  # closing brackets, and the quote that is open
    for place, sign in enumerate(text):
        if expected and expected[-1] in QUOTES:
            if sign == expected[-1]:
                expected.pop()
        elif sign in CLOSING:
            expected.append(CLOSING[sign])
        elif sign in QUOTES and _begins_value(text, place):
            expected.append(sign)
        elif sign in ")]}":
            if not expected or expected.pop() != sign:
                raise _unmatched(text)
        elif sign == "," and not expected:
            found.append(text[begin:place])
            begin = place + 1
    if expected:
        raise _unmatched(text)
    return [*found, text[begin:]]


def _begins_value(text: str, place: int) -> bool:
    """Whether a quote is one, and no apostrophe inside a word."""
    return place > 0 and text[:place].rstrip()[-1:] in ("=", ",", ":", *CLOSING)


def _unmatched(text: str) -> InvalidInput:
    return InvalidInput(
        f"The brackets and quotes of {shortened(text)} must match, as in "
        "actions=[-2,0,2]; close what is open."
    )


def named(text: str, words: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """What stands before the first comma, and the parameters after it.

    ``words`` name parameters that may be written without them, in this order and
    before all others: ``SysAdmin,1`` is ``SysAdmin,instance=1`` for ("instance",).
    """
    what, *rest = pieces(text)
    for place, word in enumerate(words[: len(rest)]):
        if "=" in rest[place] or not rest[place].strip():
            break
        rest[place] = f"{word}={rest[place].strip()}"
    return what.strip(), parameters(",".join(rest))


def parameters(text: str) -> dict[str, Any]:
    """``n=5,seed=1`` as a dict of values."""
    found: dict[str, Any] = {}
    for part in pieces(text):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        name = key.strip()
        if not equals or not name or not value.strip():
            raise InvalidInput(
                f"Parameters are written name=value,name=value; got {part!r}."
            )
        if name in found:
            raise InvalidInput(f"The parameter {name!r} is given twice; drop one.")
        found[name] = _value(value.strip())
    return found


def own_options(parameters: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The options of an adapter among the parameters of a name, which lose them.

    ``reward_low=`` and ``reward_high=`` are another way to write ``reward_range=``.
    """
    found = {name: parameters.pop(name) for name in names if name in parameters}
    low, high = (parameters.pop(name, None) for name in ("reward_low", "reward_high"))
    if (low is None) != (high is None):
        raise InvalidInput("Give reward_low= and reward_high= together.")
    if low is not None:
        found["reward_range"] = (float(low), float(high))
    elif isinstance(found.get("reward_range"), list):
        found["reward_range"] = tuple(found["reward_range"])
    return found


def _value(text: str) -> Any:
    """A value as it is meant: JSON, Python, or a word."""
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
