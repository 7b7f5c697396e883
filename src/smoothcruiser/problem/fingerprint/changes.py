"""Data that a problem's own code changes while it runs.

A counter, a memo, the current position of a simulator: such data is different
after a run from before it, though nobody edited anything. It cannot be part of a
fingerprint and is named instead. A first walk collects the targets of the code's
writes; if there are any, a second walk leaves them out.

Only code that runs when the problem is sampled counts (``Flow``): a method that
fills an object when it is built changes nothing later.

A slot is a place that has a value: ("global", id of the namespace, name),
("cell", id), ("field", id of the object, name), ("default", id of the function,
name), ("function", id), ("class", id).
"""

from __future__ import annotations

import array
import collections
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcruiser.problem.fingerprint.bytecode import ELEMENT
from smoothcruiser.problem.fingerprint.objects import (
    dictionary,
    is_a,
    read_fields,
    read_layout,
)

Slot = tuple[Any, ...]
Path = tuple[str, ...]
# methods that fill an object before a problem exists
_BUILDING = {
    *("__init__", "__new__", "__post_init__", "__setstate__"),
    *("__init_subclass__", "__set_name__", "__class_getitem__"),
}
_CONTAINERS = (
    dict,
    list,
    set,
    bytearray,
    collections.deque,
    array.array,
    np.ndarray,
)


def _object_fields(value: Any) -> dict[str, Any]:
    return read_fields(value, read_layout(type(value)).slots)


@dataclass
class Changes:
    """Data that, as a walk found, the code that it read changes."""

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
        last_index = len(path) - 1
        for index, step_name in enumerate(path):
            if step_name == ELEMENT:
                break
            if is_a(value, types.ModuleType):
                namespace = dictionary(value)
                slot = ("global", id(namespace), step_name)
            else:
                namespace = vars(value) if is_a(value, type) else _object_fields(value)
                slot = ("field", id(value), step_name)
            if attribute and index == last_index:
                break
            if step_name not in namespace:
                return
            value = namespace[step_name]
        else:
            if not is_a(value, _CONTAINERS):
                return
        if slot is not None:
            self.slots.add(slot)

    def by_function(
        self, function: types.FunctionType, name: str, path: Path, attribute: bool
    ) -> None:
        """A function writes to ``path`` from its argument ``name``."""
        if not path:
            self.slots.add(("default", id(function), name))
            return
        outer_name = function.__qualname__.rpartition(".")[0]
        is_method = bool(outer_name) and not outer_name.endswith("<locals>")
        if is_method and name == function.__code__.co_varnames[0]:
            self.methods.setdefault(id(function), set()).add((path, attribute))
        elif attribute:
            self.of_arguments.add(path[-1])

    def by_methods(self, value: Any, earlier: Changes) -> None:
        """Note the fields of an object that its own methods change.

        ``earlier`` holds the changes that the walk before this one found.
        """
        if not earlier.methods:
            return
        for cls in type(value).__mro__:
            for member in vars(cls).values():
                if is_a(member, (staticmethod, classmethod)):
                    member = member.__func__
                elif is_a(member, property):
                    member = member.fget
                for path, attribute in earlier.methods.get(id(member), ()):
                    self.wrote(None, value, path, attribute)


@dataclass
class Flow:
    """Which functions run when a problem is sampled."""

    roots: set[Slot] = field(default_factory=set)
    # which parts refer to which
    references: dict[Slot, set[Slot]] = field(default_factory=dict)
    # the name of each function, and the names that it mentions
    functions: dict[Slot, tuple[str, set[str]]] = field(default_factory=dict)

    def live(self) -> set[Slot]:
        """All that the roots reach.

        A class reaches those of its methods that live code mentions, and its
        special ones, but none that build objects.
        """
        reached_slots, mentioned_names, num_before = set(self.roots), set[str](), -1
        while len(reached_slots) > num_before:
            num_before = len(reached_slots)
            waiting_slots = list(reached_slots)
            while waiting_slots:
                slot = waiting_slots.pop()
                mentioned_names |= self.functions.get(slot, ("", set()))[1]
                for target_slot in self.references.get(slot, ()):
                    if target_slot not in reached_slots and self._runs(
                        slot, target_slot, mentioned_names
                    ):
                        reached_slots.add(target_slot)
                        waiting_slots.append(target_slot)
        return reached_slots

    def _runs(self, slot: Slot, target_slot: Slot, mentioned_names: set[str]) -> bool:
        if slot[0] != "class" or target_slot not in self.functions:
            return True
        function_name = self.functions[target_slot][0]
        is_special = function_name.startswith("__") and function_name.endswith("__")
        return function_name not in _BUILDING and (
            is_special or function_name in mentioned_names or "<" in function_name
        )
