"""Data that a problem's own code changes while it runs.

A counter, a memo, the current position of a simulator: such data is different after a
run from before it, though nobody edited anything. It cannot be part of a fingerprint
and is named instead. A first walk collects the targets of the code's writes; if there
are any, a second walk leaves them out.

Only code that runs when the problem is sampled counts (``Flow``): a method that fills
an object when it is built changes nothing later.

A slot is a place that has a value: ("global", id of the namespace, name),
("cell", id), ("field", id of the object, name), ("default", id of the function,
name), ("function", id), ("class", id). A field of an argument is known by its name: the
methods of a class change fields of its own objects, other functions those of any.
"""

from __future__ import annotations

import array
import collections
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcruiser.problem.fingerprint.objects import (
    dictionary,
    is_a,
    read_fields,
    read_layout,
)
from smoothcruiser.problem.fingerprint.source_text import ELEMENT, Place

Slot = tuple[Any, ...]
ANY_CLASS = ""
# methods that fill an object before a problem exists
_BUILDING = {
    *("__init__", "__new__", "__post_init__", "__setstate__"),
    *("__init_subclass__", "__set_name__", "__class_getitem__"),
}
_CONTAINERS = (dict, list, set, bytearray, collections.deque, array.array, np.ndarray)


@dataclass
class Changes:
    """Data that, as a walk found, the code that it read changes."""

    slots: set[Slot] = field(default_factory=set)
    # (qualified name of a class, a field that code changes in its objects)
    fields: set[tuple[str, str]] = field(default_factory=set)

    def add_write(
        self, slot: Slot, value: Any, path: tuple[str, ...], is_attribute: bool
    ) -> None:
        """Code writes to ``path`` from ``value``, which the variable ``slot`` holds.

        ``is_attribute``: the last step of the path is set. Otherwise an element of
        the container at the path is.
        """
        for index, step in enumerate(path):
            if step == ELEMENT:
                break
            if is_a(value, types.ModuleType):
                namespace = dictionary(value)
                slot = ("global", id(namespace), step)
            else:
                namespace = (
                    dict(vars(value))
                    if is_a(value, type)
                    else read_fields(value, read_layout(type(value)).slots)
                )
                slot = ("field", id(value), step)
            if is_attribute and index == len(path) - 1:
                break
            if step not in namespace:
                return
            value = namespace[step]
        else:
            if not is_a(value, _CONTAINERS):
                return
        self.slots.add(slot)

    def add_argument_write(
        self, function: types.FunctionType, place: Place, is_attribute: bool
    ) -> None:
        """A function writes to ``place``, which begins at an argument of its own."""
        steps = [step for step in place.path if step != ELEMENT]
        if not steps:
            self.slots.add(("default", id(function), place.name))
            return
        class_name, _, _ = function.__qualname__.rpartition(".")
        is_method = bool(class_name) and not class_name.endswith("<locals>")
        is_own = is_method and place.name == function.__code__.co_varnames[0]
        if is_own and len(steps) == 1:
            self.fields.add((class_name, steps[0]))
        elif is_own or is_attribute:
            self.fields.add((ANY_CLASS, steps[-1]))

    def is_changed(self, value: Any, name: str, is_users: bool) -> bool:
        """Whether code changes a field of an object, of a user's class or another."""
        classes = [cls.__qualname__ for cls in type(value).__mro__]
        classes += [ANY_CLASS] if is_users else []
        return ("field", id(value), name) in self.slots or any(
            (class_name, name) in self.fields for class_name in classes
        )


@dataclass
class Flow:
    """Which functions run when a problem is sampled."""

    roots: set[Slot] = field(default_factory=set)
    # which parts refer to which
    references: dict[Slot, set[Slot]] = field(default_factory=dict)
    # the name of each function, and the names that it mentions
    functions: dict[Slot, tuple[str, frozenset[str]]] = field(default_factory=dict)

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
                if slot in self.functions:
                    mentioned_names |= self.functions[slot][1]
                for target_slot in self.references.get(slot, set()) - reached_slots:
                    if self._runs(slot, target_slot, mentioned_names):
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
