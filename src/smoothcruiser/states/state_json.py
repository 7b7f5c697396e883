"""JSON of states: one form for readers of results, one that is exact for stores.

A state is anything: a number, a tuple, an array, an object of the user's own. Nothing is
imported or called to read one, and nothing is a pickle.

For readers (``state_data``, ``state_from``), data are plain, and missing information is
written beside them, only where there is some:

  null, true, 3, 0.5, "text"       themselves
  [1, 2]                           the tuple (1, 2): states are mostly tuples
  [1, 2] with {"list": …}          the list
  [[0, 1]] with {"array": "<i8"}   the array, of this type and ``shape``
  {"x": 1}                         the dict (names are texts)
  null or "Infinity" with "number" NaN or infinity
  anything with {"text": "…"}      that text: the ``repr`` of an object that JSON
                                   cannot hold

A NamedTuple comes back as the tuple that equals it, a NumPy scalar as the Python number
that equals it (``match_form`` gives both their form back).

For stores (``ExactJson``), data are exact to the bit. Named tuples, dataclasses and
enumerations are written by their fields, and read as the classes of the problem's own
state; states of adapters are written by ``plain`` of their oracle and read by its
``parse``. Everything else is ``UnwritableState``: a root before anything is sampled; a
search that meets such a state later goes on and is not saved any more.

  as they are   None, bool, int of 64 bits, float, str, list
  tagged        {"t": [...]}: tuple       {"b": text}: bytes      {"i": text}: int
                {"s": [...]}: frozenset   {"S": [...]}: set       {"d": [[k, v]]}: dict
                {"x": text}: NaN          {"c": [x, y]}: complex
                {"g": [type, text]}: NumPy scalar
                {"a": [type, shape, order, fixed, text]}: NumPy array
                {"n": [name, ...]}: named tuple, dataclass        {"e": [name, member]}
                {"p": ...}: data for ``parse`` of the oracle

JSON has no NaN, no infinity, and most of its readers hold numbers as float64, in which
whole numbers beyond 2**53 are no longer distinct. For readers of results:

  NaN                    null (an illegal action); "NaN" where null means "none"
  infinity               "Infinity", "-Infinity": ``float`` of Python and ``Number`` of
                         JavaScript read them
  a count beyond 2**53   null, with its log10 beside it and its digits in ``…_hex``
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Integral
from typing import Any, Final, NamedTuple

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_value, text_of
from smoothcruiser.states.identity import is_opaque

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


def state_data(state: Any) -> tuple[Any, Form]:
    """A state as JSON data, and its form where the data do not tell it, else None."""
    if isinstance(state, bool | np.bool_):
        return bool(state), None
    if state is None or isinstance(state, str):
        # not str(): an Enum that is a text has a name of its own
        return None if state is None else str.__str__(state), None
    if isinstance(state, Integral):
        number = int(state)
        return (number, None) if abs(number) < LONGEST_WHOLE else (hex(number), "hex")
    if isinstance(state, float | np.floating):
        value = float(state)
        return number_data(value), None if math.isfinite(value) else "number"
    if isinstance(state, tuple | list):
        element_data = list(map(state_data, state))
        data, forms = ([element[i] for element in element_data] for i in (0, 1))
        has_forms = any(form is not None for form in forms)
        if isinstance(state, list):
            return data, {"list": forms if has_forms else None}
        return data, {"tuple": forms} if has_forms else None
    if isinstance(state, dict) and all(isinstance(name, str) for name in state):
        members = {str.__str__(name): state_data(x) for name, x in state.items()}
        named_forms = {name: x[1] for name, x in members.items() if x[1] is not None}
        named_data = {name: x[0] for name, x in members.items()}
        return named_data, {"dict": named_forms} if named_forms else None
    return _object_data(state)


def _object_data(state: Any) -> tuple[Any, Form]:
    """An array with its type; anything else as it is printed, a dataclass by fields."""
    array_form = _array_form(state)
    if array_form is not None:
        return state_data(np.asarray(state).tolist())[0], array_form
    text = text_of(state)
    data: Any = text
    if is_dataclass(state) and not isinstance(state, type):
        data = {
            field.name: state_data(getattr(state, field.name))[0]
            for field in fields(state)
        }
    elif hasattr(state, "tolist"):
        data = state_data(state.tolist())[0]
    return data, {"text": text}


def _array_form(state: Any) -> dict[str, Any] | None:
    """The type of an array; None for anything but arrays of numbers or texts."""
    if not (hasattr(state, "tolist") and hasattr(state, "shape")):
        return None
    try:
        array = np.asarray(state)
    except Exception:  # an object of the user's own that only looks like an array
        return None
    if not STORED_DTYPES.fullmatch(array.dtype.str):
        return None
    return {"array": array.dtype.str, "shape": list(array.shape)}


def state_from(data: Any, form: Any, where: str) -> Any:
    """The state that ``state_data`` wrote."""
    if form is None:
        if not isinstance(data, list | tuple | dict):
            return data
        form = {"dict": {}} if isinstance(data, dict) else {"tuple": None}
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
    "tuple": lambda data, form, where: tuple(
        _element_states(data, form["tuple"], where)
    ),
    "list": lambda data, form, where: _element_states(data, form["list"], where),
    "dict": _read_dict,
    "array": _read_array,
    "text": _read_text,
}


def _read_value(make: Callable[[], Any], where: str) -> Any:
    try:
        return make()
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidInput(f"{where} must be what its form says: {error}.") from error


def as_tuples(value: Any) -> Any:
    """Plain data with tuples in place of lists, as states have them."""
    if isinstance(value, list | tuple):
        return tuple(as_tuples(element) for element in value)
    return value


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


# --- exact, for stores --------------------------------------------------------


class UnwritableState(InvalidInput):
    """A state that a store cannot keep."""


class ExactJson:
    """Writes and reads the states of one problem, exact to the bit."""

    def __init__(self, problem: Any) -> None:
        """``problem`` gives ``initial_state``, ``oracle`` and ``key_of``."""
        self.problem = problem
        self.kinds: dict[str, Any] = {}  # classes that the initial state is made of
        self.sets = False  # whether sets were read: no file keeps their order
        self._learn(problem.initial_state)

    def _learn(self, example: Any) -> None:
        kind = type(example)
        is_enum, field_names = isinstance(example, Enum), _field_names(kind)
        if is_enum or field_names is not None:
            if self.kinds.setdefault(kind.__qualname__, kind) is not kind:
                raise InvalidInput(
                    f"The store cannot keep states made of two classes called "
                    f"{kind.__qualname__}; give one of them another name."
                )
            names = () if is_enum else field_names or ()
            members = [getattr(example, name, None) for name in names]
        elif isinstance(example, dict):
            members = [*example, *example.values()]
        else:
            is_container = isinstance(example, tuple | list | set | frozenset)
            members = list(example) if is_container else []
        for member in members:
            self._learn(member)

    def write_state(self, state: Any) -> Any:
        """Plain data for a state."""
        oracle = self.problem.oracle
        if is_opaque(state) and hasattr(oracle, "plain"):
            return {"p": self._write_data(oracle.plain(state))}
        try:
            return self._write_data(state)
        except RecursionError:
            raise self._refusal(state) from None

    def _write_data(self, x: Any) -> Any:
        kind = type(x)
        if x is None or kind is bool or kind is str:
            return x
        if kind is int:
            return x if -(2**63) <= x < 2**63 else {"i": hex(x)}
        if kind is float:
            return {"x": struct.pack("<d", x).hex()} if math.isnan(x) else x
        if kind is list:
            return list(map(self._write_data, x))
        case = EXACT_CASES.get(kind)
        if case is not None:
            return {case.tag: case.write(self._write_data, x)}
        if isinstance(x, np.generic) and x.dtype.kind in EXACT_KINDS:
            return {"g": [x.dtype.str, _text(x.tobytes())]}
        class_name, names = kind.__qualname__, _field_names(kind)
        if self.kinds.get(class_name) is not kind:
            raise self._refusal(x)
        if isinstance(x, Enum):
            return {"e": [class_name, x.name]}
        if names is None or set(getattr(x, "__dict__", names)) - set(names):
            raise self._refusal(x)
        members = (getattr(x, name) for name in names)
        return {"n": [class_name, *map(self._write_data, members)]}

    def _refusal(self, x: Any) -> UnwritableState:
        return UnwritableState(
            f"The store cannot keep states of type {type(x).__name__}; let states be "
            "numbers, words, arrays or tuples of them, or dataclasses like "
            "initial_state, or plan without a store."
        )

    def check(self, state: Any) -> None:
        """Refuse a state that would not come back from a store as the same one."""
        text, key_of = json.dumps(self.write_state(state)), self.problem.key_of
        state_again = self.read_state(json.loads(text))
        is_same_text = json.dumps(self.write_state(state_again)) == text
        if not is_same_text or key_of(state_again) != key_of(state):
            raise self._refusal(state)

    def read_state(self, data: Any) -> Any:
        """The state that ``write_state`` made plain data of; impossible data raise."""
        if isinstance(data, dict) and data.keys() == {"p"}:
            if not hasattr(self.problem.oracle, "parse"):
                raise ValueError("no oracle reads its states")
            return self.problem.oracle.parse(self._read_data(data["p"]))
        return self._read_data(data)

    def _read_data(self, data: Any) -> Any:
        if isinstance(data, list):
            return list(map(self._read_data, data))
        if not isinstance(data, dict):
            return data
        ((tag, content),) = data.items()
        if tag in ("s", "S") and len(content) > 1:
            self.sets = True
        if tag in EXACT_READERS:
            return EXACT_READERS[tag](self._read_data, content)
        kind = self.kinds[content[0]]
        if tag == "e" and issubclass(kind, Enum):
            return kind[content[1]]
        names = _field_names(kind)
        if tag != "n" or names is None or len(names) != len(content) - 1:
            raise ValueError("its states have other fields")
        members = list(map(self._read_data, content[1:]))
        if issubclass(kind, tuple):
            return tuple.__new__(kind, members)
        instance = object.__new__(kind)
        for name, member in zip(names, members, strict=True):
            object.__setattr__(instance, name, member)
        return instance


def _field_names(kind: Any) -> tuple[str, ...] | None:
    """The names of the fields of a named tuple or a dataclass."""
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", None)
    is_data = is_dataclass(kind)
    return tuple(field.name for field in fields(kind)) if is_data else None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _array_of(kind: Any, text: str) -> Any:
    """The flat array of a type that has its bytes in a text."""
    array_type = np.dtype(kind)
    if not isinstance(kind, str) or array_type.kind not in EXACT_KINDS:
        raise ValueError("its arrays hold no plain values")
    return np.frombuffer(base64.b64decode(text, validate=True), array_type)


def _read_scalar(kind: Any, text: str) -> Any:
    (scalar,) = _array_of(kind, text)
    return scalar


Part = Callable[[Any], Any]  # writes or reads a part of a state


def _write_exact_array(part: Part, x: Any) -> Any:
    if x.dtype.kind not in EXACT_KINDS:
        raise UnwritableState(
            f"The store cannot keep arrays of type {x.dtype}; let states be arrays of "
            "numbers, or plan without a store."
        )
    memory_order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
    array_content = [x.dtype.str, list(x.shape), memory_order, not x.flags.writeable]
    return [*array_content, _text(x.tobytes(memory_order))]


def _read_exact_array(part: Part, content: Any) -> Any:
    kind, shape, memory_order, is_fixed, text = content
    array = _array_of(kind, text).reshape(shape, order=memory_order)
    array = array.copy(order=memory_order)
    array.flags.writeable = not is_fixed
    return array


def _sort_members(part: Part, x: Any) -> list[Any]:
    """The members of a set, in an order of their own."""
    return sorted(map(part, x), key=json.dumps)


class ExactCase(NamedTuple):
    """The tag of a type, and how its content is written and read."""

    tag: str
    write: Callable[[Part, Any], Any]
    read: Callable[[Part, Any], Any]


EXACT_KINDS = "biufcSUmM"  # of NumPy's types: those with their value in their bytes
EXACT_CASES = {
    tuple: ExactCase(
        "t", lambda part, x: list(map(part, x)), lambda part, x: tuple(map(part, x))
    ),
    bytes: ExactCase(
        "b", lambda _, x: _text(x), lambda _, x: base64.b64decode(x, validate=True)
    ),
    frozenset: ExactCase("s", _sort_members, lambda part, x: frozenset(map(part, x))),
    set: ExactCase("S", _sort_members, lambda part, x: set(map(part, x))),
    dict: ExactCase(
        "d",
        lambda part, x: [[part(k), part(v)] for k, v in x.items()],
        lambda part, x: {part(k): part(v) for k, v in x},
    ),
    complex: ExactCase(
        "c",
        lambda part, x: [part(x.real), part(x.imag)],
        lambda part, x: complex(part(x[0]), part(x[1])),
    ),
    np.ndarray: ExactCase("a", _write_exact_array, _read_exact_array),
}
EXACT_READERS: dict[str, Callable[[Part, Any], Any]] = {
    **{case.tag: case.read for case in EXACT_CASES.values()},
    "i": lambda _, x: int(x, 16),
    "x": lambda _, x: struct.unpack("<d", bytes.fromhex(x))[0],
    "g": lambda _, x: _read_scalar(*x),
}
