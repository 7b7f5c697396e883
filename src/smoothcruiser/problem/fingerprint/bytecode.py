"""A code object decoded: its form, the names that it uses, and its writes.

``decode_code`` decodes the bytecode once. Its ``form`` does not contain line numbers,
file names, names of local variables or constants that no instruction loads
(docstrings). A symbolic run of the stack, instruction by instruction, finds where
values come from: a global, a variable of the closure, an argument or an import,
and the attributes on the way (``Place``). It knows a few instructions by name and
takes the effect of all others on the stack from ``dis``. Where it loses track, a
place is unknown: then nothing is reported as written, and data that the code
changes counts as data that was edited.

Data that a problem's own code changes while it runs.

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
import dis
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.problem.fingerprint.objects import (
    dictionary,
    is_a,
    read_fields,
    read_layout,
)

# arguments, generators and coroutines; not whether there is a docstring or a future
_FLAGS = 0x3EF
# names that the compiler writes into a class to describe its source
_ABOUT_SOURCE = {"__doc__", "__firstlineno__", "__static_attributes__"}
ELEMENT = "[]"  # a step of a path: an element of a container
# methods that change a built-in container
_CHANGING = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft"),
    *("fill", "insert", "pop", "popitem", "popleft", "put", "remove", "reverse"),
    *("rotate", "setdefault", "sort", "update"),
}
_ATTRIBUTE_SHIFT = 1 if sys.version_info >= (3, 12) else 0


class Place(NamedTuple):
    """Where a value comes from."""

    kind: str  # "global", "free" (the closure), "argument", "import" or "constant"
    name: Any  # of the variable or module; the value of a constant
    path: tuple[str, ...] = ()  # attributes, ELEMENT for elements


@dataclass(frozen=True, eq=False)
class Reading:
    """A code object, decoded."""

    form: bytes  # instructions, with constants numbered by their first use
    constants: list[Any]  # in that order; code objects are among them
    signature: tuple[Any, ...]  # arguments, flags, names and exception table
    globals: list[str] = field(default_factory=list)  # names that are loaded
    stored: set[Place] = field(default_factory=set)  # variables that are rebound
    chains: list[Place] = field(default_factory=list)  # attributes that are read
    # (place, whether an attribute is set there; otherwise a container is changed)
    writes: set[tuple[Place, bool]] = field(default_factory=set)
    imports: list[str] = field(default_factory=list)  # relative ones begin with dots
    # places of constants that are used for more than ``x in {...}``
    used: set[int] = field(default_factory=set)


def _instructions(code: CodeType) -> Iterator[tuple[int, int, int]]:
    """(offset, operation, argument) without caches and prefixes."""
    raw_code, extended_bits = code.co_code, 0
    for offset in range(0, len(raw_code), 2):
        operation, argument = raw_code[offset], raw_code[offset + 1] | extended_bits
        operation_name = dis.opname[operation]
        extended_bits = argument << 8 if operation_name == "EXTENDED_ARG" else 0
        if operation_name not in ("CACHE", "EXTENDED_ARG"):
            yield offset, operation, argument


@lru_cache(maxsize=4096)
def decode_code(code: CodeType) -> Reading:
    """The decoded form of one code object; those inside it are constants."""
    instructions = list(_instructions(code))
    code_form = bytearray()
    constants: list[Any] = []
    constant_numbers: dict[int, int] = {}
    used_constants: set[int] = set()
    for (_, operation, argument), next_instruction in zip(
        instructions, [*instructions[1:], None], strict=True
    ):
        if operation in dis.hasconst and not _describes_source(code, next_instruction):
            if argument not in constant_numbers:
                constant_numbers[argument] = len(constants)
                constants.append(code.co_consts[argument])
            argument = constant_numbers[argument]
            if (
                next_instruction is None
                or dis.opname[next_instruction[1]] != "CONTAINS_OP"
            ):
                used_constants.add(argument)
        elif _describes_source(code, next_instruction):
            argument = 0
        code_form += operation.to_bytes(2, "little") + argument.to_bytes(4, "little")
    num_arguments = code.co_argcount + code.co_kwonlyargcount
    num_arguments += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    signature = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags & _FLAGS,
        code.co_varnames[:num_arguments],
        code.co_names,
        code.co_cellvars,
        code.co_freevars,
        code.co_exceptiontable,
    )
    reading = Reading(bytes(code_form), constants, signature, used=used_constants)
    _Run(code, reading, code.co_varnames[:num_arguments]).run_all(instructions)
    return reading


def decode_all(code: CodeType) -> Iterator[Reading]:
    """The decoded code and all code inside it."""
    reading = decode_code(code)
    yield reading
    for constant in reading.constants:
        if isinstance(constant, CodeType):
            yield from decode_all(constant)


def _describes_source(
    code: CodeType, next_instruction: tuple[int, int, int] | None
) -> bool:
    return (
        next_instruction is not None
        and dis.opname[next_instruction[1]] == "STORE_NAME"
        and code.co_names[next_instruction[2]] in _ABOUT_SOURCE
    )


class _Run:
    """A symbolic run through a code object, in the order of its instructions.

    ``stack`` is the known top of the stack: below it everything is unknown (None).
    """

    def __init__(
        self, code: CodeType, reading: Reading, arguments: tuple[str, ...]
    ) -> None:
        self.code, self.reading = code, reading
        self.stack: list[Place | None] = []
        self.locals: dict[str, Place | None] = {
            name: Place("argument", name) for name in arguments
        }

    def run_all(self, instructions: list[tuple[int, int, int]]) -> None:
        """Run every instruction once; where paths join, nothing is known."""
        jump_targets = set(dis.findlabels(self.code.co_code))  # type: ignore[arg-type]
        for offset, operation, argument in instructions:
            if offset in jump_targets:
                self.stack.clear()
            operation_name = dis.opname[operation]
            handler = getattr(self, "do_" + operation_name.lower(), None)
            if handler is not None:
                handler(argument)
            elif operation_name.startswith("LOAD_FAST"):
                self._load_fast(operation_name, argument)
            else:
                self._run_unknown(operation, argument)

    def _run_unknown(self, operation: int, argument: int) -> None:
        """An instruction that is not known: only its effect on the height is."""
        operation_name = dis.opname[operation]
        if operation_name.startswith("STORE_FAST_"):  # two in one: forget both
            for index in (argument >> 4, argument & 15):
                self.locals[self._variable(index)] = None
        stack_argument = argument if operation >= dis.HAVE_ARGUMENT else None
        try:
            stack_effect = dis.stack_effect(operation, stack_argument, jump=False)
        except ValueError:
            self.stack.clear()
            return
        for _ in range(-stack_effect):
            self._pop()
        self.stack.extend([None] * stack_effect)
        if self.stack:
            self.stack[-1] = None
        if operation_name.startswith(("RETURN", "RAISE", "RERAISE", "JUMP")):
            self.stack.clear()

    def _pop(self) -> Place | None:
        return self.stack.pop() if self.stack else None

    def _variable(self, index: int) -> str:
        name: str = self.code._varname_from_oparg(index)  # type: ignore[attr-defined]
        return name

    def _note_write(self, place: Place | None, *, attribute: bool) -> None:
        if place is not None:
            self.reading.writes.add((place, attribute))

    # --- variables ------------------------------------------------------------

    def _load_fast(self, operation_name: str, argument: int) -> None:
        loads_two = operation_name.count("LOAD_FAST") > 1
        for index in (argument >> 4, argument & 15) if loads_two else (argument,):
            self.stack.append(self.locals.get(self._variable(index)))

    def do_store_fast(self, argument: int) -> None:
        self.locals[self._variable(argument)] = self._pop()

    def do_load_global(self, argument: int) -> None:
        if argument & 1:
            self.stack.append(None)
        self._global(self.code.co_names[argument >> 1])

    def do_load_name(self, argument: int) -> None:
        self._global(self.code.co_names[argument])

    def _global(self, name: str) -> None:
        if name not in self.reading.globals:
            self.reading.globals.append(name)
        self.stack.append(Place("global", name))

    def do_store_global(self, argument: int) -> None:
        self._pop()
        self.reading.stored.add(Place("global", self.code.co_names[argument]))

    def do_delete_global(self, argument: int) -> None:
        self.reading.stored.add(Place("global", self.code.co_names[argument]))

    def do_load_deref(self, argument: int) -> None:
        variable_name = self._variable(argument)
        is_free = variable_name in self.code.co_freevars
        self.stack.append(
            Place("free", variable_name) if is_free else self.locals.get(variable_name)
        )

    def do_load_classderef(self, argument: int) -> None:
        self.do_load_deref(argument)

    def do_store_deref(self, argument: int) -> None:
        value, variable_name = self._pop(), self._variable(argument)
        if variable_name in self.code.co_freevars:
            self.reading.stored.add(Place("free", variable_name))
        else:
            self.locals[variable_name] = value

    def do_load_const(self, argument: int) -> None:
        self.stack.append(Place("constant", self.code.co_consts[argument]))

    def do_load_small_int(self, argument: int) -> None:
        self.stack.append(Place("constant", argument))

    # --- attributes, elements, imports ----------------------------------------

    def do_load_attr(self, argument: int) -> None:
        self._attribute(self.code.co_names[argument >> _ATTRIBUTE_SHIFT])
        if _ATTRIBUTE_SHIFT and argument & 1:
            self.stack.append(None)

    def do_load_method(self, argument: int) -> None:
        self._attribute(self.code.co_names[argument])
        self.stack.append(None)

    def _attribute(self, name: str) -> None:
        holder = self._pop()
        if holder is None or holder.kind == "constant":
            self.stack.append(None)
            return
        if name in _CHANGING:
            self._note_write(holder, attribute=False)
        attribute_place = Place(holder.kind, holder.name, (*holder.path, name))
        if attribute_place not in self.reading.chains:
            self.reading.chains.append(attribute_place)
        self.stack.append(attribute_place)

    def do_store_attr(self, argument: int) -> None:
        self.do_delete_attr(argument)
        self._pop()

    def do_delete_attr(self, argument: int) -> None:
        holder = self._pop()
        if holder is not None:
            attribute_path = (*holder.path, self.code.co_names[argument])
            self._note_write(
                Place(holder.kind, holder.name, attribute_path), attribute=True
            )

    def do_binary_subscr(self, argument: int) -> None:
        self._pop()
        holder = self._pop()
        if holder is not None:
            holder = Place(holder.kind, holder.name, (*holder.path, ELEMENT))
        self.stack.append(holder)

    def do_store_subscr(self, argument: int) -> None:
        self._pop()
        self._note_write(self._pop(), attribute=False)
        self._pop()

    def do_delete_subscr(self, argument: int) -> None:
        self._pop()
        self._note_write(self._pop(), attribute=False)

    def do_store_slice(self, argument: int) -> None:
        self._pop()
        self.do_store_subscr(argument)

    def do_copy(self, argument: int) -> None:
        is_known = argument <= len(self.stack)
        self.stack.append(self.stack[-argument] if is_known else None)

    def do_swap(self, argument: int) -> None:
        num_missing = argument - len(self.stack)
        self.stack[:0] = [None] * num_missing
        stack = self.stack
        stack[-1], stack[-argument] = stack[-argument], stack[-1]

    def do_pop_top(self, argument: int) -> None:
        self._pop()

    def do_import_name(self, argument: int) -> None:
        self._pop()
        level = self._pop()
        depth = level.name if level is not None and level.kind == "constant" else 0
        dots = "." * depth if isinstance(depth, int) else ""
        module_name = dots + self.code.co_names[argument]
        self.reading.imports.append(module_name)
        self.stack.append(Place("import", module_name))

    def do_import_from(self, argument: int) -> None:
        holder = self.stack[-1] if self.stack else None
        self.stack.append(holder)
        self._attribute(self.code.co_names[argument])


Slot = tuple[Any, ...]
SlotPath = tuple[str, ...]
# methods that fill an object before a problem exists
_BUILDING = {
    *("__init__", "__new__", "__post_init__", "__setstate__"),
    *("__init_subclass__", "__set_name__", "__class_getitem__"),
}
_CONTAINERS = (dict, list, set, bytearray, collections.deque, array.array, np.ndarray)


def _object_fields(value: Any) -> dict[str, Any]:
    return read_fields(value, read_layout(type(value)).slots)


@dataclass
class Changes:
    """Data that, as a walk found, the code that it read changes."""

    slots: set[Slot] = field(default_factory=set)
    # (id of a method, path from its first argument, whether an attribute is set)
    methods: dict[int, set[tuple[SlotPath, bool]]] = field(default_factory=dict)
    # fields that a function sets on an argument that is not its own object
    of_arguments: set[str] = field(default_factory=set)

    def wrote(
        self, slot: Slot | None, value: Any, path: SlotPath, attribute: bool
    ) -> None:
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
        self, function: types.FunctionType, name: str, path: SlotPath, attribute: bool
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
