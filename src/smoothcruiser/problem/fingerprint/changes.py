"""Data that a problem's own code changes while it runs.

A counter, a memo, the current position of a simulator: such data is different
after a run from before it, though nobody edited anything. It cannot be part of a
fingerprint and is named instead. A first walk collects what the code writes to;
if there is anything, a second walk leaves it out.

A slot is a variable or a field: ("global", id of the namespace, name), ("cell", id),
("field", id of the object, name).
"""

from __future__ import annotations

import array
import collections
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcruiser.problem.fingerprint.bytecode import ELEMENT
from smoothcruiser.problem.fingerprint.objects import fields, is_a

Slot = tuple[Any, ...]
Path = tuple[str, ...]
# methods that fill an object before a problem exists
_BUILDING = frozenset(
    "__init__ __new__ __post_init__ __setstate__ __init_subclass__ "
    "__set_name__ __class_getitem__".split()
)
_CONTAINERS = (
    dict,
    list,
    set,
    bytearray,
    collections.deque,
    array.array,
    np.ndarray,
)


@dataclass
class Changes:
    """What a walk found to be changed by the code that it read."""

    slots: set[Slot] = field(default_factory=set)
    # (id of a method, path from its first argument, whether an attribute is set)
    methods: dict[int, set[tuple[Path, bool]]] = field(default_factory=dict)
    # fields that a function sets on an argument that is not its own object
    of_arguments: set[str] = field(default_factory=set)

    def wrote(self, slot: Slot | None, value: Any, path: Path, attribute: bool) -> None:
        """Code writes to ``path`` from ``value``, which the variable ``slot`` holds.

        ``attribute``: the last step of the path is set. Otherwise an element of
        the container at the path is.
        """
        last = len(path) - 1
        for index, name in enumerate(path):
            if name == ELEMENT:
                break
            if is_a(value, types.ModuleType):
                found, slot = vars(value), ("global", id(vars(value)), name)
            else:
                found = vars(value) if is_a(value, type) else fields(value)
                slot = ("field", id(value), name)
            if attribute and index == last:
                break
            if name not in found:
                return
            value = found[name]
        else:
            if not is_a(value, _CONTAINERS):
                return
        if slot is not None:
            self.slots.add(slot)

    def by_function(
        self, function: types.FunctionType, name: str, path: Path, attribute: bool
    ) -> None:
        """A function writes to ``path`` from its argument ``name``."""
        around = function.__qualname__.rpartition(".")[0]
        method = bool(around) and not around.endswith("<locals>")
        if method and name == function.__code__.co_varnames[0]:
            if function.__name__ not in _BUILDING:
                self.methods.setdefault(id(function), set()).add((path, attribute))
        elif attribute:
            self.of_arguments.add(path[-1])

    def by_methods(self, value: Any, earlier: Changes, live: set[str]) -> None:
        """Note the fields that an object's own methods change.

        ``earlier`` is what the walk before this one found, ``live`` the names that
        the code mentions: a method that nobody mentions does not run.
        """
        if not earlier.methods:
            return
        for cls in type(value).__mro__:
            for name, member in vars(cls).items():
                if is_a(member, (staticmethod, classmethod)):
                    member = member.__func__
                elif is_a(member, property):
                    member = member.fget
                special = name.startswith("__") and name.endswith("__")
                if special or name in live:
                    for path, attribute in earlier.methods.get(id(member), ()):
                        self.wrote(None, value, path, attribute)
