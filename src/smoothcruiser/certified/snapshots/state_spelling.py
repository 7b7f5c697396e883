"""States of a problem as JSON, in snapshots.

States are plain JSON, exact to the bit and without pickle: nothing that a
file says is imported or called. Numbers, words and containers are written with their
types. Named tuples, dataclasses and enumerations are written by their fields, and read
as the classes of the problem's own state. States of adapters are written by their oracle
(``WritingOracle``) and read by its ``parse``. Everything else is ``Unspelled``: a root
before anything is sampled; a search that meets such a state later goes on and is not
saved any more.

  as they are   None, bool, int of 64 bits, float, str, list
  tagged        {"t": [...]}: tuple       {"b": text}: bytes      {"i": text}: int
                {"s": [...]}: frozenset   {"S": [...]}: set       {"d": [[k, v]]}: dict
                {"x": text}: NaN          {"c": [x, y]}: complex
                {"g": [type, text]}: NumPy scalar
                {"a": [type, shape, order, fixed, text]}: NumPy array
                {"n": [name, ...]}: named tuple, dataclass        {"e": [name, member]}
                {"p": ...}: data for ``parse`` of the oracle
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import struct
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import ParsingOracle, WritingOracle
from smoothcruiser.states.identity import is_opaque

PLAIN_KINDS = "biufcSUmM"  # of NumPy's types: those with their value in their bytes


class Unspelled(InvalidInput):
    """A state that a store cannot keep."""


class Spelling:
    """Writes and reads the states of one problem."""

    def __init__(self, problem: Problem, *examples: Any) -> None:
        """``examples`` are states that add classes to those of the problem."""
        self.problem = problem
        self.kinds: dict[str, Any] = {}
        self.sets = False  # whether sets were read: no file keeps their order
        for example in (problem.initial_state, *examples):
            self._learn(example)

    def _learn(self, example: Any) -> None:
        kind = type(example)
        if _fields(kind) is not None or isinstance(example, Enum):
            known_class = self.kinds.setdefault(kind.__qualname__, kind)
            if known_class is not kind:
                raise InvalidInput(
                    f"The store cannot keep states made of two classes called "
                    f"{kind.__qualname__}; give one of them another name."
                )
        field_names = None if isinstance(example, Enum) else _fields(kind)
        if field_names is not None:
            for field_name in field_names:
                self._learn(getattr(example, field_name, None))
        elif isinstance(example, tuple | list | set | frozenset):
            for member in example:
                self._learn(member)
        elif isinstance(example, dict):
            for key, value in example.items():
                self._learn(key)
                self._learn(value)

    # --- writing --------------------------------------------------------------

    def write_state(self, state: Any) -> Any:
        """Plain data for a state."""
        oracle = self.problem.oracle
        if is_opaque(state) and isinstance(oracle, WritingOracle):
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
        writer = _WRITERS.get(kind)
        if writer is not None:
            return writer(self._write_data, x)
        if isinstance(x, np.generic) and x.dtype.kind in PLAIN_KINDS:
            return {"g": [x.dtype.str, _text(x.tobytes())]}
        class_name = kind.__qualname__
        if self.kinds.get(class_name) is not kind:
            raise self._refusal(x)
        if isinstance(x, Enum):
            return {"e": [class_name, x.name]}
        field_names = _fields(kind)
        if field_names is None or set(getattr(x, "__dict__", field_names)) - set(
            field_names
        ):
            raise self._refusal(x)
        return {
            "n": [
                class_name,
                *(
                    self._write_data(getattr(x, field_name))
                    for field_name in field_names
                ),
            ]
        }

    def _refusal(self, x: Any) -> Unspelled:
        return Unspelled(
            f"The store cannot keep states of type {type(x).__name__}; let states be "
            "numbers, words, arrays or tuples of them, or dataclasses like "
            "initial_state, or plan without a store."
        )

    def check(self, state: Any) -> None:
        """Refuse a state that would not come back from a store as the same one."""
        state_data = self.write_state(state)
        text = json.dumps(state_data)
        state_again = self.read_state(json.loads(text))
        if json.dumps(self.write_state(state_again)) != text or self.problem.key_of(
            state_again
        ) != self.problem.key_of(state):
            raise self._refusal(state)

    # --- reading --------------------------------------------------------------

    def read_state(self, data: Any) -> Any:
        """The state that ``write_state`` made plain data of; impossible data raise."""
        if isinstance(data, dict) and data.keys() == {"p"}:
            oracle = self.problem.oracle
            if not isinstance(oracle, ParsingOracle):
                raise ValueError("no oracle reads its states")
            return oracle.parse(self._read_data(data["p"]))
        return self._read_data(data)

    def _read_data(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self._read_data(field_data) for field_data in data]
        if not isinstance(data, dict):
            return data
        ((tag, content),) = data.items()
        if tag in ("s", "S") and len(content) > 1:
            self.sets = True
        if tag in _READERS:
            return _READERS[tag](self._read_data, content)
        kind = self.kinds[content[0]]
        if tag == "e" and issubclass(kind, Enum):
            return kind[content[1]]
        field_names = _fields(kind)
        if tag != "n" or field_names is None or len(field_names) != len(content) - 1:
            raise ValueError("its states have other fields")
        field_values = [self._read_data(field_data) for field_data in content[1:]]
        if issubclass(kind, tuple):
            return tuple.__new__(kind, field_values)
        instance = object.__new__(kind)
        for field_name, field_data in zip(field_names, field_values, strict=True):
            object.__setattr__(instance, field_name, field_data)
        return instance


def _fields(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a named tuple or a dataclass."""
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", None)
    if dataclasses.is_dataclass(kind):
        return tuple(entry.name for entry in dataclasses.fields(kind))
    return None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


Part = Callable[[Any], Any]


def _write_array(part: Part, x: Any) -> Any:
    if x.dtype.kind not in PLAIN_KINDS:
        raise Unspelled(
            f"The store cannot keep arrays of type {x.dtype}; let states be arrays of "
            "numbers, or plan without a store."
        )
    memory_order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
    array_content = [x.dtype.str, list(x.shape), memory_order, not x.flags.writeable]
    return {"a": [*array_content, _text(x.tobytes(memory_order))]}


def _plain_type(text: Any) -> Any:
    array_type = np.dtype(text)
    if not isinstance(text, str) or array_type.kind not in PLAIN_KINDS:
        raise ValueError("its arrays hold no plain values")
    return array_type


def _read_array(part: Part, content: Any) -> Any:
    kind, shape, memory_order, is_fixed, text = content
    flat_array = np.frombuffer(_bytes(text), _plain_type(kind))
    array = flat_array.reshape(shape, order=memory_order).copy(order=memory_order)
    array.flags.writeable = not is_fixed
    return array


def _read_scalar(part: Part, content: Any) -> Any:
    kind, text = content
    (scalar,) = np.frombuffer(_bytes(text), _plain_type(kind))
    return scalar


def _sort_members(part: Part, x: Any) -> list[Any]:
    """The members of a set, in an order of their own."""
    return sorted((part(member) for member in x), key=json.dumps)


_WRITERS: dict[type, Callable[[Part, Any], Any]] = {
    tuple: lambda part, x: {"t": [part(y) for y in x]},
    list: lambda part, x: [part(y) for y in x],
    bytes: lambda part, x: {"b": _text(x)},
    frozenset: lambda part, x: {"s": _sort_members(part, x)},
    set: lambda part, x: {"S": _sort_members(part, x)},
    dict: lambda part, x: {"d": [[part(k), part(v)] for k, v in x.items()]},
    complex: lambda part, x: {"c": [part(x.real), part(x.imag)]},
    np.ndarray: _write_array,
}
_READERS: dict[str, Callable[[Part, Any], Any]] = {
    "t": lambda part, x: tuple(part(y) for y in x),
    "b": lambda part, x: _bytes(x),
    "i": lambda part, x: int(x, 16),
    "s": lambda part, x: frozenset(part(y) for y in x),
    "S": lambda part, x: {part(y) for y in x},
    "d": lambda part, x: {part(k): part(v) for k, v in x},
    "x": lambda part, x: struct.unpack("<d", bytes.fromhex(x))[0],
    "c": lambda part, x: complex(part(x[0]), part(x[1])),
    "a": _read_array,
    "g": _read_scalar,
}
