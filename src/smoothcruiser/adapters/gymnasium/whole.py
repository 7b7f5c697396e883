"""A key of everything that an environment holds, so that searches know it again.

A copy behaves by what it holds. Two environments that hold the same are one state:

    key = BLAKE2b-256 of the walk through attributes and containers from the root

The walk writes every number, text and array, the type and the number of fields of
every object, and for an object that was met before which one it is: "the current
player is players[0]" and "… is players[1]" differ although each player does not. Two
walks that differ have one key with probability 2^-256. Generators are left out: the
planner's takes their place.

It is sound where all that steps depend on can be walked. So an object whose memory
has room for more than its named fields is refused (``Hidden``): an emulator, a
physics engine, an iterator, a Python function whose closure can be written into.
What classes and modules hold is not walked: all copies share it, and ``trial``
refuses steps that change it. What this file leaves out: in which order a set lists
its members, which copies do not keep either.
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

from smoothcruiser.adapters.gymnasium.copies import REPLACED, Path, spelled
from smoothcruiser.errors import InvalidInput

ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None), range))
LISTS = (list, tuple, collections.deque)
NAMED = (type, types.ModuleType, types.BuiltinFunctionType, logging.Logger)
# which seed a generator was made with, where the planner's has taken its place
SEEDS = frozenset(("_np_random_seed",))
POINTER = struct.calcsize("P")


# what a certificate takes on trust where such keys merge states
ASSUMED = (
    "copies that hold the same in all their attributes are one state (their future "
    "depends on nothing else; tried when the problem was made)"
)


@dataclass(frozen=True)
class Contents:
    """The key of a problem whose snapshots have ``whole`` as theirs."""

    assumption: str = ASSUMED

    def __call__(self, state: Any) -> Any:
        """The key of a snapshot."""
        return state.key


class Hidden(InvalidInput):
    """An environment holds something that cannot be looked into."""


def whole(env: Any, left_out: frozenset[str] = frozenset()) -> bytes:
    """The key of an environment.

    Args:
        env: an environment, or what a view has inside.
        left_out: attributes that no step changes, at whatever depth.
    """
    walk = _Walk(left_out | SEEDS)
    try:
        walk.write(env, ())
    except RecursionError as error:
        raise Hidden(
            f"{type(env).__name__} holds a chain of objects that is too long to follow."
        ) from error
    text = "\x1f".join(walk.words).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=32).digest()


class _Walk:
    """One walk: the words so far, and the number of every object that was met."""

    def __init__(self, left_out: frozenset[str]) -> None:
        self.left_out = left_out
        self.words: list[str] = []
        self.met: dict[int, int] = {}

    def write(self, part: Any, path: Path) -> None:
        kind = type(part)
        if kind in ATOMS or (kind is tuple and all(type(x) in ATOMS for x in part)):
            self.words.append(repr(part))
            return
        if isinstance(part, np.generic):
            if part.dtype.hasobject:
                raise _hidden(part, path)
            self.words.append(f"{part.dtype.str}{part.tobytes().hex()}")
            return
        if isinstance(part, enum.Enum):
            self.words.append(f"{_name(kind)}.{part.name}")
            return
        number = self.met.get(id(part))
        if number is not None:
            self.words.append(f"@{number}")
            return
        self.met[id(part)] = len(self.met)
        self.open(part, path)

    def open(self, part: Any, path: Path) -> None:
        """Write an object that is met for the first time."""
        kind: Any = type(part)
        if isinstance(part, REPLACED):
            self.words.append("generator")
        elif isinstance(part, NAMED):
            self.words.append(f"{_name(kind)} {_name(part)}")
        elif isinstance(part, np.dtype) and not part.hasobject:
            self.words.append(f"dtype {part.str} {part.descr}")
        elif kind is np.ndarray:
            self.array(part, path)
        elif isinstance(part, types.FunctionType):
            self.function(part, path)
        elif isinstance(part, types.MethodType):
            self.words.append(f"method {_name(part.__func__)}")
            self.write(part.__self__, (*path, "self"))
        elif isinstance(part, set | frozenset):
            self.members(part, path)
        elif isinstance(part, (dict, *LISTS)):
            self.container(part, path)
        elif shows_all(kind):
            self.fields(_fields(part), _name(kind), path)
        else:
            raise _hidden(part, path)

    def array(self, part: Any, path: Path) -> None:
        self.words.append(f"{part.dtype.str}{part.shape}")
        if part.dtype == object:
            for i, value in enumerate(part.flat):
                self.write(value, (*path, str(i)))
        elif part.dtype.hasobject:
            raise _hidden(part, path)
        else:
            self.words.append(part.tobytes().hex())

    def function(self, part: Any, path: Path) -> None:
        """A function by its place, with what it closes over."""
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        held = [
            *cells,
            *(part.__defaults__ or ()),
            *(part.__kwdefaults__ or {}).values(),
        ]
        if vars(part) or any(type(x) not in ATOMS for x in held):
            raise _hidden(part, path)
        self.words.append(f"{_name(part)} {part.__code__.co_firstlineno} {held!r}")

    def members(self, part: Any, path: Path) -> None:
        """A set of plain things, in an order of its own."""
        found = []
        for member in part:
            one = _Walk(self.left_out)
            one.write(member, path)
            if not _is_plain(member):
                raise _hidden(member, path)
            found.append(" ".join(one.words))
        self.words.append(f"{_name(type(part))} {sorted(found)!r}")

    def container(self, part: Any, path: Path) -> None:
        """A list or a dict in its order; with its fields, where its class has some."""
        self.words.append(f"{_name(type(part))} {len(part)}")
        if isinstance(part, dict):
            for key, value in part.items():
                if not _is_plain(key):
                    raise _hidden(key, path)
                self.write(key, path)
                self.write(value, (*path, str(key)))
        else:
            for i, value in enumerate(part):
                self.write(value, (*path, str(i)))
        more = _fields(part)
        if more:
            self.fields(more, "and", path)

    def fields(self, found: dict[str, Any], word: str, path: Path) -> None:
        names = sorted(name for name in found if name not in self.left_out)
        self.words.append(f"{word} {len(names)}")
        for name in names:
            self.words.append(name)
            self.write(found[name], (*path, name))


@functools.cache
def shows_all(kind: Any) -> bool:
    """Whether an object's memory holds its named fields and nothing else."""
    named = bool(kind.__dictoffset__ > 0) + bool(kind.__weakrefoffset__ > 0)
    room = object.__basicsize__ + POINTER * (len(_slots(kind)) + named)
    return bool(kind.__itemsize__ == 0 and kind.__basicsize__ <= room)


@functools.cache
def _slots(kind: Any) -> tuple[str, ...]:
    """The names of a class's slots, as they are stored."""
    found = []
    for cls in kind.__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                private = name.startswith("__") and not name.endswith("__")
                found.append(f"_{cls.__name__.lstrip('_')}{name}" if private else name)
    return tuple(found)


def _fields(part: Any) -> dict[str, Any]:
    kind: Any = type(part)
    slots = {n: getattr(part, n) for n in _slots(kind) if hasattr(part, n)}
    return slots | getattr(part, "__dict__", {})


def _is_plain(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return all(_is_plain(part) for part in key)
    return type(key) in ATOMS or isinstance(key, np.generic | enum.Enum)


def _name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    return f"{getattr(thing, '__module__', '')}.{name or getattr(thing, 'name', '')}"


def _hidden(part: Any, path: Path) -> Hidden:
    return Hidden(
        f"{spelled(path)} holds a {type(part).__name__}, which does not show what is in "
        "it; let it be numbers, texts, lists and dicts."
    )
