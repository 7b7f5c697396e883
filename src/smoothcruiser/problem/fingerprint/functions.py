"""Functions, classes and modules: code, and every name that it reaches.

The user's functions are followed into the globals, builtins and imports that their
bytecode names. Functions and classes that can be imported from a library are known
by their name and the library's version; those that a library made for the user (a
decorator's inner function) are read, but their globals are not followed.
"""

from __future__ import annotations

import sys
import types
from functools import partial
from typing import TYPE_CHECKING, Any

from smoothcruiser.problem.fingerprint import objects, sources
from smoothcruiser.problem.fingerprint.bytecode import Place, Reading, read, readings
from smoothcruiser.problem.fingerprint.encoding import ATOMS, joined, text
from smoothcruiser.problem.fingerprint.owners import (
    USER,
    importable,
    owner_of_function,
    owner_of_globals,
    owner_of_module,
    owner_of_names,
)

if TYPE_CHECKING:
    from smoothcruiser.problem.fingerprint.walk import Walker


class _Moved:
    """Stands for data that the code itself changes."""


MOVED = _Moved()
MISSING = object()
# builtins that reach what no reading of the code can find
HIDDEN = {
    "open": "files that are opened",
    "input": "what is typed in",
    "eval": "code that eval runs",
    "exec": "code that exec runs",
    "compile": "code that compile makes",
    "__import__": "modules that __import__ loads",
    "globals": "names that are looked up in globals()",
    "vars": "names that are looked up in vars()",
    "hash": "hash(), which differs between processes for strings",
    "id": "id(), which differs between processes",
}


# --- code ---------------------------------------------------------------------


def code(walk: Walker, value: types.CodeType) -> bytes:
    """The form of code and its constants."""
    reading = read(value)
    walk.library("python", "code")
    return joined(
        b"code",
        [
            reading.form,
            walk.encode(reading.signature),
            *(
                walk.members(value)
                if type(value) is frozenset and place not in reading.used
                else walk.encode(value)
                for place, value in enumerate(reading.constants)
            ),
        ],
    )


def cell_value(cell: types.CellType) -> Any:
    """What a variable of a closure holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def reference(walk: Walker, function: types.FunctionType) -> bytes:
    """A function: a part of its own, or inside its holder if a library made it."""
    place = importable(function)
    if place is not None:
        return walk.library(owner_of_module(place[0]), ".".join(place))
    if owner_of_function(function) != USER:
        return content(walk, function)
    noun = "the function " + function.__qualname__.replace("<locals>.", "")
    return walk.part(("function", id(function)), noun, partial(content, walk, function))


def content(walk: Walker, function: types.FunctionType) -> bytes:
    """The code of a function and all that it reaches."""
    held = [
        walk.encode(function.__code__),
        *_defaults(walk, function),
        *_closure(walk, function),
    ]
    for name, value in sorted(function.__dict__.items()):
        moved = ("field", id(function), name) in walk.changes.slots
        if moved:
            walk.cannot(f"{function.__name__}.{name}, which {walk.root} changes")
        held += [text(name), walk.encode(MOVED if moved else value)]
    if owner_of_function(function) == USER:
        held += _reached(walk, function)
        held += [walk.encode(inner) for inner in _overloads(function)]
    return joined(b"function", held)


def _defaults(walk: Walker, function: types.FunctionType) -> list[bytes]:
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    values = dict(zip(names, given, strict=True)) | (function.__kwdefaults__ or {})
    held = []
    for name, value in sorted(values.items()):
        moved = ("default", id(function), name) in walk.changes.slots
        if moved:
            what = f"the default of {name} in {function.__name__}"
            walk.cannot(f"{what}, which {walk.root} changes")
        held += [text(name), walk.encode(MOVED if moved else value)]
    return [walk.encode(len(held)), *held]


def _closure(walk: Walker, function: types.FunctionType) -> list[bytes]:
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    own = owner_of_function(function) == USER
    held = []
    for name, cell in zip(names, cells, strict=True):
        noun = f"the closure variable {name}"
        value = cell_value(cell)
        held.append(text(name))
        held.append(
            _variable(walk, ("cell", id(cell)), noun, value)
            if own
            else walk.encode(value)
        )
    return held


def _variable(walk: Walker, slot: tuple[Any, ...], noun: str, value: Any) -> bytes:
    """The value of a variable: code by reference, data as a part of its own."""
    if slot in walk.changes.slots:
        walk.cannot(f"{noun}, which {walk.root} changes")
        return walk.encode(MOVED)
    code = (types.FunctionType, types.ModuleType, type)
    if objects.is_a(value, code) or importable_name(value) is not None:
        return walk.encode(value)
    return walk.part(slot, noun, partial(walk.spread, noun, value))


def importable_name(value: Any) -> str | None:
    """The full name of a library's callable object, such as ``numpy.sin``."""
    cls = type(value)
    if cls in ATOMS or not callable(value) or owner_of_module(cls.__module__) == USER:
        return None
    place = importable(value)
    return None if place is None else ".".join(place)


def variable(walk: Walker, names: dict[str, Any], name: str) -> bytes:
    """The global ``name`` of a namespace."""
    value = names[name]
    return _variable(walk, ("global", id(names), name), f"the global {name}", value)


# --- what code reaches --------------------------------------------------------


def _reached(walk: Walker, function: types.FunctionType) -> list[bytes]:
    """References to all that a user's function names."""
    names: dict[str, Any] = function.__globals__
    built_in: dict[str, Any] = function.__builtins__  # type: ignore[attr-defined,unused-ignore]
    held: list[bytes] = []
    mentioned: set[str] = set()
    walk.flow.functions[walk.slot] = (function.__name__, mentioned)
    for reading in readings(function.__code__):
        mentioned.update(reading.signature[5])
        walk.names.update(reading.signature[5])
        if "getattr" in reading.globals:
            walk.names.update(c for c in reading.constants if isinstance(c, str))
        for name in reading.globals:
            held.append(text(name))
            if name in names:
                held.append(variable(walk, names, name))
            elif name in built_in:
                held.append(_builtin(walk, name, built_in[name]))
            else:
                held.append(b"!missing")
        for place in reading.chains:
            held += _chain(walk, function, place)
        held += sources.imports(walk, reading, names)
        note = partial(_note_writes, walk, function, reading)
        walk.writes.append((walk.slot, note))
    return held


def _builtin(walk: Walker, name: str, value: Any) -> bytes:
    if name in HIDDEN and type(value) in (types.BuiltinFunctionType, type):
        walk.cannot(f"{HIDDEN[name]} ({walk.root})")
        return text(name)
    return walk.encode(value)


def _value_at(function: types.FunctionType, place: Place) -> tuple[Any, Any]:
    """(slot, value) of the variable that a place begins at."""
    if place.kind == "global":
        names = function.__globals__
        return ("global", id(names), place.name), names.get(place.name, MISSING)
    free = function.__code__.co_freevars
    if place.kind == "free" and place.name in free and function.__closure__:
        cell = function.__closure__[free.index(place.name)]
        return ("cell", id(cell)), cell_value(cell)
    return None, MISSING


def _chain(walk: Walker, function: types.FunctionType, place: Place) -> list[bytes]:
    """What attributes of a library's module are: math.pi, numpy.random.rand."""
    _, value = _value_at(function, place)
    for index, name in enumerate(place.path):
        if not objects.is_a(value, types.ModuleType):
            return []
        names = objects.dictionary(value)
        owner = owner_of_names(names)
        if owner == USER:
            return []
        full = f"{names.get('__name__')}.{name}"
        value = names.get(name, MISSING)
        if index == len(place.path) - 1:
            return [text(full), _of_library(walk, owner, full, value)]
    return []


def _of_library(walk: Walker, owner: str, name: str, value: Any) -> bytes:
    """An attribute of a library's module: read if it is code or cannot change."""
    walk.version(owner, name)
    if objects.is_a(value, (*ATOMS, tuple, types.ModuleType)) or callable(value):
        return walk.encode(value)
    if value is not MISSING:
        walk.cannot(f"{name} ({walk.root})")
    return text(name)


def _note_writes(walk: Walker, function: types.FunctionType, reading: Reading) -> None:
    found, names = walk.found, function.__code__.co_varnames
    arguments = names[: function.__code__.co_argcount]
    for place in reading.stored:
        slot, _ = _value_at(function, place)
        if slot is not None:
            found.slots.add(slot)
    for place, attribute in reading.writes:
        slot, value = _value_at(function, place)
        if slot is not None:
            if value is not MISSING:
                found.wrote(slot, value, place.path, attribute)
        elif place.name in arguments:
            found.by_function(function, place.name, place.path, attribute)


# --- modules ------------------------------------------------------------------


def module_reference(walk: Walker, module: types.ModuleType) -> bytes:
    """A module as a value: its names are read when the code mentions them."""
    names = objects.dictionary(module)
    owner = owner_of_names(names)
    if owner == USER:
        walk.modules[id(names)] = names
        return b"!module"
    return walk.library(owner, str(names.get("__name__")))


# --- classes ------------------------------------------------------------------


def class_reference(walk: Walker, cls: type) -> bytes:
    """A reference to a class, a part of its own if it is not a library's."""
    place = importable(cls)
    if place is None:
        noun = "the class " + cls.__qualname__.replace("<locals>.", "")
        return walk.part(("class", id(cls)), noun, lambda: _class(walk, cls))
    held = [walk.library(owner_of_module(place[0]), ".".join(place))]
    for base in cls.__mro__:
        for name, value in _patched(base):
            held += [text(name), walk.encode(value)]
    return joined(b"class", held)


def _patched(cls: type) -> list[tuple[str, Any]]:
    """Methods that a user has put into a library's class."""
    if owner_of_module(cls.__module__) == USER:
        return []
    members = {
        name: value.__func__ if type(value) in (staticmethod, classmethod) else value
        for name, value in vars(cls).items()
    }
    return sorted(
        (name, value)
        for name, value in members.items()
        if type(value) is types.FunctionType
        and owner_of_globals(value.__globals__) == USER
    )


def _class(walk: Walker, cls: type) -> bytes:
    held = [walk.encode(type(cls)), *map(walk.encode, cls.__bases__)]
    for name, value in sorted(_namespace(cls).items()):
        if name in objects.SKIPPED:
            continue
        if name == "__dataclass_fields__":
            value = tuple(value)
        if ("field", id(cls), name) in walk.changes.slots:
            walk.cannot(f"{cls.__name__}.{name}, which {walk.root} changes")
            value = MOVED
        held += [text(name), walk.encode(value)]
    return joined(b"class", held)


def _namespace(cls: type) -> dict[str, Any]:
    """What a class holds; of one that Numba compiled, what it was compiled from."""
    names = dict(vars(cls))
    compiled = names.get("class_type")
    if compiled is None:  # the class of its objects
        compiled = getattr(names.get("_numba_type_"), "class_type", None)
    if compiled is None or owner_of_module(type(compiled).__module__) == USER:
        return names
    return {
        "struct": {name: str(kind) for name, kind in compiled.struct.items()},
        "properties": compiled.jit_props,
        **compiled.methods,
        **compiled.static_methods,
    }


# --- others -------------------------------------------------------------------


def sorting_key(value: Any) -> bytes:
    """An order of a set's elements that does not depend on their hashes."""
    atom = ATOMS.get(type(value))
    if atom is not None:
        return atom(value)
    if type(value) in (tuple, frozenset):
        inner = map(sorting_key, value)
        return joined(b"t", inner if type(value) is tuple else sorted(inner))
    if type(value) is types.FunctionType:
        reading = read(value.__code__)
        constants = (sorting_key(each) for each in reading.constants)
        return joined(b"o", [text(value.__qualname__), reading.form, *constants])
    named = value if objects.is_a(value, type) else type(value)
    return joined(b"o", [text(named.__qualname__)])


def _overloads(function: types.FunctionType) -> list[Any]:
    """The implementations that ``numba.extending.overload`` gave a function."""
    templates = sys.modules.get("numba.core.typing.templates")
    if templates is None:
        return []
    found = []
    for value, kind in templates.builtin_registry.globals:
        if value is function:
            for template in getattr(kind, "templates", ()):
                inner = getattr(template, "_overload_func", None)
                found += [] if inner is None else [inner]
    return found
