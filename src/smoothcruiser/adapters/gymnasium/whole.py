"""A key of everything that an environment holds, so that searches know it again.

The behaviour of a copy depends on its contents. Two environments with equal contents
are one state:

    key = BLAKE2b-256 of the walk through attributes and containers from the root

The walk writes every number, text and array, the type and the number of fields of
every object, and for an object that was met before which one it is: "the current
player is players[0]" and "… is players[1]" differ although each player does not. Two
walks that differ have one key with probability 2^-256. Generators are left out: the
planner's takes their place.

It is sound where all that steps depend on can be walked. So an object is refused
(``HiddenContents``) if its memory can hold more than its named fields: an emulator, a
physics engine, an iterator, a Python function with a closure that can be written into.
The contents of classes and modules are not walked: all copies share them, and ``trial``
refuses steps that change them. Out of scope: in which order a set lists its members,
which copies do not keep either.
"""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import logging
import struct
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.adapters.gymnasium.copies import GENERATORS, Path, format_path
from smoothcruiser.errors import InvalidInput

ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None), range))
LISTS = (list, tuple, collections.deque)
NAMED = (type, types.ModuleType, types.BuiltinFunctionType, logging.Logger)
# the seed of a generator that the planner's has replaced
SEEDS = frozenset(("_np_random_seed",))
POINTER = struct.calcsize("P")


# the assumption of a certificate where such keys merge states
ASSUMPTION = (
    "copies that hold the same in all their attributes are one state (their future "
    "depends on nothing else; tried when the problem was made)"
)


@dataclass(frozen=True)
class Contents:
    """The key of a problem with snapshots that have ``whole`` as theirs."""

    assumption: str = ASSUMPTION

    def __call__(self, state: Any) -> Any:
        """The key of a snapshot."""
        return state.key


class HiddenContents(InvalidInput):
    """An environment holds an object that cannot be inspected."""


def whole(env: Any, left_out: frozenset[str] = frozenset()) -> bytes:
    """The key of an environment.

    Args:
        env: an environment, or the simulator inside a view.
        left_out: attributes that no step changes, at any depth.
    """
    walk = _Walk(left_out | SEEDS)
    try:
        walk.write(env, ())
    except RecursionError as error:
        raise HiddenContents(
            f"{type(env).__name__} holds a chain of objects that is too long to follow."
        ) from error
    walk_text = "\x1f".join(walk.words).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(walk_text, digest_size=32).digest()


class _Walk:
    """One walk: the words so far, and the number of every object that was met."""

    def __init__(self, left_out: frozenset[str]) -> None:
        self.left_out = left_out
        self.words: list[str] = []
        self.met: dict[int, int] = {}

    def write(self, component: Any, path: Path) -> None:
        value_type = type(component)
        if value_type in ATOMS or (
            value_type is tuple and all(type(element) in ATOMS for element in component)
        ):
            self.words.append(repr(component))
            return
        if isinstance(component, np.generic):
            if component.dtype.hasobject:
                raise _hidden(component, path)
            self.words.append(f"{component.dtype.str}{component.tobytes().hex()}")
            return
        if isinstance(component, enum.Enum):
            self.words.append(f"{_name(value_type)}.{component.name}")
            return
        object_number = self.met.get(id(component))
        if object_number is not None:
            self.words.append(f"@{object_number}")
            return
        self.met[id(component)] = len(self.met)
        self.open(component, path)

    def open(self, component: Any, path: Path) -> None:
        """Write an object that is met for the first time."""
        value_type: Any = type(component)
        if isinstance(component, GENERATORS):
            self.words.append("generator")
        elif isinstance(component, NAMED):
            self.words.append(f"{_name(value_type)} {_name(component)}")
        elif isinstance(component, np.dtype) and not component.hasobject:
            self.words.append(f"dtype {component.str} {component.descr}")
        elif value_type is np.ndarray:
            self.array(component, path)
        elif isinstance(component, types.FunctionType):
            self.function(component, path)
        elif isinstance(component, types.MethodType):
            self.words.append(f"method {_name(component.__func__)}")
            self.write(component.__self__, (*path, "self"))
        elif isinstance(component, set | frozenset):
            self.members(component, path)
        elif isinstance(component, (dict, *LISTS)):
            self.container(component, path)
        elif shows_all(value_type):
            self.fields(_fields(component), _name(value_type), path)
        else:
            raise _hidden(component, path)

    def array(self, component: Any, path: Path) -> None:
        self.words.append(f"{component.dtype.str}{component.shape}")
        if component.dtype == object:
            for index, element in enumerate(component.flat):
                self.write(element, (*path, str(index)))
        elif component.dtype.hasobject:
            raise _hidden(component, path)
        else:
            self.words.append(component.tobytes().hex())

    def function(self, component: Any, path: Path) -> None:
        """A function by its place, with the values that it closes over."""
        cell_values = [cell.cell_contents for cell in component.__closure__ or ()]
        bound_values = [
            *cell_values,
            *(component.__defaults__ or ()),
            *(component.__kwdefaults__ or {}).values(),
        ]
        if vars(component) or any(
            type(bound_value) not in ATOMS for bound_value in bound_values
        ):
            raise _hidden(component, path)
        self.words.append(
            f"{_name(component)} {component.__code__.co_firstlineno} {bound_values!r}"
        )

    def members(self, component: Any, path: Path) -> None:
        """A set of plain values, in sorted order."""
        member_words = []
        for member in component:
            member_walk = _Walk(self.left_out)
            member_walk.write(member, path)
            if not _is_plain(member):
                raise _hidden(member, path)
            member_words.append(" ".join(member_walk.words))
        self.words.append(f"{_name(type(component))} {sorted(member_words)!r}")

    def container(self, component: Any, path: Path) -> None:
        """A list or a dict in its order; with its fields, where its class has some."""
        self.words.append(f"{_name(type(component))} {len(component)}")
        if isinstance(component, dict):
            for key, value in component.items():
                if not _is_plain(key):
                    raise _hidden(key, path)
                self.write(key, path)
                self.write(value, (*path, str(key)))
        else:
            for index, value in enumerate(component):
                self.write(value, (*path, str(index)))
        extra_fields = _fields(component)
        if extra_fields:
            self.fields(extra_fields, "and", path)

    def fields(self, field_values: dict[str, Any], word: str, path: Path) -> None:
        field_names = sorted(
            field_name for field_name in field_values if field_name not in self.left_out
        )
        self.words.append(f"{word} {len(field_names)}")
        for field_name in field_names:
            self.words.append(field_name)
            self.write(field_values[field_name], (*path, field_name))


@functools.cache
def shows_all(value_type: Any) -> bool:
    """Whether an object's memory holds its named fields and nothing else."""
    num_offsets = bool(value_type.__dictoffset__ > 0) + bool(
        value_type.__weakrefoffset__ > 0
    )
    largest_size = object.__basicsize__ + POINTER * (
        len(_slots(value_type)) + num_offsets
    )
    return bool(
        value_type.__itemsize__ == 0 and value_type.__basicsize__ <= largest_size
    )


@functools.cache
def _slots(value_type: Any) -> tuple[str, ...]:
    """The names of a class's slots, as they are stored."""
    slot_names = []
    for cls in value_type.__mro__:
        slots = vars(cls).get("__slots__", ())
        for slot_name in (slots,) if isinstance(slots, str) else slots:
            if slot_name not in ("__dict__", "__weakref__"):
                is_private = slot_name.startswith("__") and not slot_name.endswith("__")
                slot_names.append(
                    f"_{cls.__name__.lstrip('_')}{slot_name}"
                    if is_private
                    else slot_name
                )
    return tuple(slot_names)


def _fields(component: Any) -> dict[str, Any]:
    value_type: Any = type(component)
    slot_values = {
        slot_name: getattr(component, slot_name)
        for slot_name in _slots(value_type)
        if hasattr(component, slot_name)
    }
    return slot_values | getattr(component, "__dict__", {})


def _is_plain(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return all(_is_plain(component) for component in key)
    return type(key) in ATOMS or isinstance(key, np.generic | enum.Enum)


def _name(definition: Any) -> str:
    name = getattr(definition, "__qualname__", None)
    name = name or getattr(definition, "__name__", None)
    name = name or getattr(definition, "name", "")
    return f"{getattr(definition, '__module__', '')}.{name}"


def _hidden(component: Any, path: Path) -> HiddenContents:
    return HiddenContents(
        f"{format_path(path)} holds a {type(component).__name__}, which does not show "
        "what is in it; let it be numbers, texts, lists and dicts."
    )
