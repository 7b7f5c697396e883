"""States as JSON data, and back.

A state is anything: a number, a tuple, an array, an object of the user's own. JSON data
are written for a reader (``state``). Missing information is written beside them
(``state_form``), only where there is some:

  null, true, 3, 0.5, "text"       themselves
  [1, 2]                           the tuple (1, 2): states are mostly tuples
  [1, 2] with {"list": …}          the list
  [[0, 1]] with {"array": "<i8"}   the array, of this type and ``shape``
  {"x": 1}                         the dict (names are texts)
  null or "Infinity" with "number" NaN or infinity
  anything with {"text": "…"}      that text: the ``repr`` of an object that JSON
                                   cannot hold

A NamedTuple comes back as the tuple that equals it, a NumPy scalar as the Python number
that equals it. Nothing is imported or called to read a state.

Numbers that JSON cannot hold, as data that it can.

JSON has no NaN, no infinity, and most of its readers hold numbers as float64, in which
whole numbers beyond 2**53 are no longer distinct:

  NaN                    null (an illegal action); "NaN" where null means "none"
  infinity               "Infinity", "-Infinity": ``float`` of Python and ``Number`` of
                         JavaScript read them
  a count beyond 2**53   null, with its log10 beside it and its digits in ``…_hex``
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from numbers import Integral
from typing import Any, Final

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_value, text_of

LARGEST_COUNT: Final = 2**53
NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def number_data(value: float) -> float | str | None:
    """A float as JSON holds it; NaN is None."""
    number = float(value)
    if math.isfinite(number):
        return number
    if number != number:
        return None
    return "Infinity" if number > 0.0 else "-Infinity"


def count_data(name: str, count: int) -> dict[str, Any]:
    """Return a count as plain data that every reader of JSON can hold.

    ``name`` holds the count, None beyond 2**53. Its log10 stands beside it (0
    where nothing is counted), and beyond 2**53 its digits do, in base 16: there is no
    limit to the length of such a text.
    """
    count = int(count)
    count_fields: dict[str, Any] = {
        name: count if count <= LARGEST_COUNT else None,
        log_name(name): math.log10(max(1, count)),
    }
    return (
        count_fields
        if count <= LARGEST_COUNT
        else count_fields | {hex_name(name): hex(count)}
    )


def log_name(name: str) -> str:
    """Where the log10 of a count stands: beside ``price`` it is ``log10_price``."""
    return f"log10_{name.removeprefix('num_')}"


def hex_name(name: str) -> str:
    """Where the digits of a count beyond 2**53 stand."""
    return f"{name.removeprefix('num_')}_hex"


Form = str | dict[str, Any] | None
# types of arrays that are kept: truth values, whole numbers, floats, texts
STORED_DTYPES = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|U[0-9]{1,6})")
# Python prints whole numbers of up to 4,300 digits and no longer ones.
LONGEST_WHOLE = 10**4000


def plain(value: Any) -> Any:
    """Data that JSON can hold: numbers, words, lists; anything else as it is printed.

    NaN is None, and details that a reader can do without are lost: see ``state_data``.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return text_of(value)
        return {str(key): plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return number_data(value)
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < LONGEST_WHOLE else hex(value)
    return text_of(value)


def state_data(state: Any) -> tuple[Any, Form]:
    """A state as JSON data, and its form where the data do not tell it, else None."""
    if state is None or isinstance(state, bool | str | np.bool_ | Integral):
        return _simple_data(state)
    if isinstance(state, float | np.floating):
        value = float(state)
        return number_data(value), None if math.isfinite(value) else "number"
    if isinstance(state, tuple | list):
        element_data = [state_data(element) for element in state]
        data, forms = (
            [element[0] for element in element_data],
            [element[1] for element in element_data],
        )
        has_forms = any(form is not None for form in forms)
        if isinstance(state, list):
            return data, {"list": forms if has_forms else None}
        return data, {"tuple": forms} if has_forms else None
    if isinstance(state, dict) and all(isinstance(name, str) for name in state):
        member_data = {
            str.__str__(name): state_data(element) for name, element in state.items()
        }
        member_forms = {
            name: form for name, (_, form) in member_data.items() if form is not None
        }
        member_values = {name: data for name, (data, _) in member_data.items()}
        return member_values, {"dict": member_forms} if member_forms else None
    return _array_data(state) or (plain(state), {"text": text_of(state)})


def _simple_data(state: Any) -> tuple[Any, Form]:
    if isinstance(state, bool | np.bool_):
        return bool(state), None
    if state is None or isinstance(state, str):
        # not str(): an Enum that is a text has a name of its own
        return None if state is None else str.__str__(state), None
    whole_number = int(state)
    return (
        (whole_number, None)
        if abs(whole_number) < LONGEST_WHOLE
        else (hex(whole_number), "hex")
    )


def _array_data(state: Any) -> tuple[Any, Form] | None:
    """An array with its type; None for anything but arrays of numbers or texts."""
    if not (hasattr(state, "tolist") and hasattr(state, "shape")):
        return None
    try:
        array = np.asarray(state)
    except Exception:  # an object of the user's own that only looks like an array
        return None
    if not STORED_DTYPES.fullmatch(array.dtype.str):
        return None
    form = {"array": array.dtype.str, "shape": list(array.shape)}
    return plain(array.tolist()), form


def state_from(data: Any, form: Any, where: str) -> Any:
    """The state that ``state_data`` wrote."""
    if form is None:
        return _natural_value(data)
    if form == "number":
        return _not_finite(data, where)
    if form == "hex":
        return _read_value(lambda: int(data, 16), where)
    if isinstance(form, dict) and len(form) <= 2:
        for name, reader in READERS.items():
            if name in form:
                return reader(data, form, where)
    raise InvalidInput(
        f"{where}_form must be null, 'number', 'hex' or an object with one of "
        f"{', '.join(READERS)}, got {describe_value(form)}."
    )


def _natural_value(data: Any) -> Any:
    """The value of data without a form: lists are tuples."""
    if isinstance(data, list | tuple):
        return tuple(_natural_value(element) for element in data)
    if isinstance(data, dict):
        return {name: _natural_value(element) for name, element in data.items()}
    return data


def _not_finite(data: Any, where: str) -> float:
    if data is None:
        return math.nan
    if data not in NOT_FINITE:
        raise InvalidInput(
            f"{where} must be null, 'Infinity' or '-Infinity', as its form says, got "
            f"{describe_value(data)}."
        )
    return NOT_FINITE[data]


def _element_states(data: Any, forms: Any, where: str) -> list[Any]:
    if not isinstance(data, list | tuple):
        raise InvalidInput(f"{where} must be a list, got {describe_value(data)}.")
    forms = [None] * len(data) if forms is None else forms
    if not isinstance(forms, list) or len(forms) != len(data):
        raise InvalidInput(
            f"{where}_form must list {len(data)} forms, one per item, got "
            f"{describe_value(forms)}."
        )
    return [
        state_from(element, form, where)
        for element, form in zip(data, forms, strict=True)
    ]


def _read_list(data: Any, form: dict[str, Any], where: str) -> Any:
    return _element_states(data, form["list"], where)


def _read_tuple(data: Any, form: dict[str, Any], where: str) -> Any:
    return tuple(_element_states(data, form["tuple"], where))


def _read_dict(data: Any, form: dict[str, Any], where: str) -> Any:
    member_forms = form["dict"]
    if not isinstance(data, dict) or not isinstance(member_forms, dict):
        raise InvalidInput(f"{where} must be an object, got {describe_value(data)}.")
    return {
        name: state_from(member, member_forms.get(name), where)
        for name, member in data.items()
    }


def _read_array(data: Any, form: dict[str, Any], where: str) -> Any:
    array_type, shape = form["array"], form.get("shape")
    if not isinstance(array_type, str) or not STORED_DTYPES.fullmatch(array_type):
        raise InvalidInput(
            f"{where}_form must name a type of array such as '<f8', got "
            f"{describe_value(array_type)}."
        )
    flat_values: list[Any] = []
    _flatten(data, flat_values, array_type, where)
    return _read_value(
        lambda: np.array(flat_values, dtype=array_type).reshape(shape), where
    )


def _flatten(data: Any, flat: list[Any], kind: str, where: str) -> None:
    if isinstance(data, list | tuple):
        for element in data:
            _flatten(element, flat, kind, where)
    elif "f" in kind and not isinstance(data, int | float):
        flat.append(_not_finite(data, where))
    else:
        flat.append(data)


def _read_text(data: Any, form: dict[str, Any], where: str) -> Any:
    text = form["text"]
    if not isinstance(text, str):
        raise InvalidInput(
            f"{where}_form must hold a text, got {describe_value(text)}."
        )
    return text


READERS: dict[str, Callable[[Any, dict[str, Any], str], Any]] = {
    "tuple": _read_tuple,
    "list": _read_list,
    "dict": _read_dict,
    "array": _read_array,
    "text": _read_text,
}


def _read_value(make: Callable[[], Any], where: str) -> Any:
    try:
        return make()
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidInput(f"{where} must be what its form says: {error}.") from error


def match_form(state: Any, example: Any) -> Any:
    """``state`` in the form of the problem's own initial state.

    It becomes the same NamedTuple, array or float.
    """
    field_names = getattr(example, "_fields", None)
    if field_names and isinstance(state, dict) and set(state) == set(field_names):
        state = tuple(state[field_name] for field_name in field_names)
    if (
        isinstance(example, tuple)
        and isinstance(state, tuple)
        and len(state) == len(example)
    ):
        elements = [
            match_form(element, example_part)
            for element, example_part in zip(state, example, strict=True)
        ]
        return type(example)(*elements) if field_names else tuple(elements)
    if (
        type(example).__module__ == "numpy"
        and hasattr(example, "dtype")
        and isinstance(state, tuple | int | float)
    ):
        return np.array(state, dtype=example.dtype)
    if (
        isinstance(example, float)
        and isinstance(state, int)
        and not isinstance(state, bool)
    ):
        return float(state)
    return state
