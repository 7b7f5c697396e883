"""Functions, classes and modules: text, and the values of every name that it reaches.

The user's functions are followed into the globals, builtins and imports that their
text names. Functions and classes that can be imported from a library are known
by their name and the library's version; those that a library made for the user (a
decorator's inner function) are read, but their globals are not followed.

Modules that code imports when it runs may not have been loaded yet, and are not
loaded for this: the text of a user's module is read as a whole with all that it
imports in turn. So a fingerprint is the same before the first step and after it.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcruiser.problem.fingerprint import objects
from smoothcruiser.problem.fingerprint.encoding import (
    ATOMS,
    PYTHON,
    USER,
    encode_text,
    importable,
    join_parts,
    owner_of_file,
    owner_of_function,
    owner_of_globals,
    owner_of_module,
    owner_of_names,
)
from smoothcruiser.problem.fingerprint.objects import dictionary
from smoothcruiser.problem.fingerprint.source_text import (
    Place,
    Reading,
    read_function,
    read_text,
)

if TYPE_CHECKING:
    from smoothcruiser.problem.fingerprint.changed_data import Slot
    from smoothcruiser.problem.fingerprint.walk import Walker

MISSING = object()
CHANGED = b"!changed by the code itself"
# builtins that reach data which no reading of the code can find
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
CODE = (types.FunctionType, types.ModuleType, type)


# --- functions ----------------------------------------------------------------


def function_reference(walk: Walker, function: types.FunctionType) -> bytes:
    """A function: a part of its own, or inside its holder if a library made it."""
    import_path = importable(function)
    if import_path is not None:
        return walk.library_member(*import_path)
    if owner_of_function(function) != USER:
        return encode_function(walk, function)
    noun = "the function " + function.__qualname__.replace("<locals>.", "")
    return walk.part(
        ("function", id(function)), noun, partial(encode_function, walk, function)
    )


def encode_function(walk: Walker, function: types.FunctionType) -> bytes:
    """The text of a function and all that it reaches."""
    reading = read_function(function)
    walk.version(PYTHON, PYTHON)  # decides what the text means
    encoded_parts = [walk.encode(reading.form)]
    for slot, noun, value in _list_variables(function):
        encoded_parts.append(encode_text(noun))
        encoded_parts.append(encode_variable(walk, slot, noun, value))
    if owner_of_function(function) == USER:
        encoded_parts += _encode_reached(walk, function, reading)
    return join_parts(b"function", encoded_parts)


def cell_value(cell: types.CellType) -> Any:
    """The value of a variable of a closure."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _list_variables(function: types.FunctionType) -> Iterator[tuple[Slot, str, Any]]:
    """(slot, noun, value) of closures, defaults and fields of a function."""
    code, defaults = function.__code__, function.__defaults__ or ()
    cells = function.__closure__ or ()
    for name, cell in zip(code.co_freevars, cells, strict=True):
        yield ("cell", id(cell)), f"the closure variable {name}", cell_value(cell)
    argument_names = code.co_varnames[: code.co_argcount]
    values = dict(zip(argument_names[::-1], defaults[::-1], strict=False))
    for name, value in sorted((values | (function.__kwdefaults__ or {})).items()):
        noun = f"the default of {name} in {function.__name__}"
        yield ("default", id(function), name), noun, value
    for name, value in sorted(function.__dict__.items()):
        yield ("field", id(function), name), f"{function.__name__}.{name}", value


def encode_variable(walk: Walker, slot: Slot, noun: str, value: Any) -> bytes:
    """The value of a variable: code by reference, data as a part of its own."""
    if slot in walk.changes.slots:
        walk.mark_unseen(f"{noun}, which {walk.root} changes")
        return CHANGED
    if value is MISSING:
        return b"!missing"
    if objects.is_a(value, CODE) or import_path_of(value) is not None:
        return walk.encode(value)
    return walk.part(slot, noun, partial(walk.spread, noun, value))


def import_path_of(value: Any) -> tuple[str, str] | None:
    """(module, name) of a library's callable object, such as ``numpy.sin``."""
    is_candidate = type(value) not in ATOMS and callable(value)
    is_users = owner_of_module(type(value).__module__) == USER
    return importable(value) if is_candidate and not is_users else None


def encode_global(walk: Walker, names: dict[str, Any], name: str) -> bytes:
    """The global ``name`` of a namespace."""
    slot = ("global", id(names), name)
    return encode_variable(walk, slot, f"the global {name}", names[name])


def _encode_reached(
    walk: Walker, function: types.FunctionType, reading: Reading
) -> list[bytes]:
    """References to all that a user's function names."""
    global_names: dict[str, Any] = function.__globals__
    built_in: dict[str, Any] = function.__builtins__  # type: ignore[attr-defined,unused-ignore]
    walk.flow.functions[walk.slot] = (function.__name__, reading.mentioned)
    walk.names |= reading.mentioned
    encoded_parts: list[bytes] = []
    for name in reading.names:
        if name in global_names:
            encoded_parts.append(encode_global(walk, global_names, name))
        elif name in HIDDEN and importable(built_in.get(name)) is not None:
            walk.mark_unseen(f"{HIDDEN[name]} ({walk.root})")
        elif name in built_in:
            encoded_parts.append(walk.encode(built_in[name]))
    for place in reading.chains:
        encoded_parts += _encode_chain(walk, _locate(function, place)[1], place.path)
    package = global_names.get("__package__") or global_names.get("__name__")
    encoded_parts += _encode_imports(walk, reading, str(package))
    walk.writes.append((walk.slot, partial(_note_writes, walk, function, reading)))
    return encoded_parts


def _locate(function: types.FunctionType, place: Place) -> tuple[Slot, Any]:
    """(slot, value) of the variable that a place begins at; () if it is local."""
    code, global_names = function.__code__, function.__globals__
    if place.name in code.co_freevars and function.__closure__:
        cell = function.__closure__[code.co_freevars.index(place.name)]
        return ("cell", id(cell)), cell_value(cell)
    if place.name in (*code.co_varnames, *code.co_cellvars):
        return (), MISSING
    slot = ("global", id(global_names), place.name)
    return slot, global_names.get(place.name, MISSING)


def _encode_chain(walk: Walker, value: Any, path: tuple[str, ...]) -> list[bytes]:
    """Attributes of a library's module, encoded: math.pi, numpy.random.rand."""
    for step in path[:-1]:
        value = dictionary(value).get(step) if _is_module(value) else None
    if not _is_module(value):
        return []
    owner = owner_of_names(dictionary(value))
    full_name = f"{dictionary(value).get('__name__')}.{path[-1]}"
    member = dictionary(value).get(path[-1], MISSING)
    if owner == USER or member is MISSING:
        return []
    walk.version(owner, full_name)
    if objects.is_a(member, (*ATOMS, tuple, types.ModuleType)) or callable(member):
        return [encode_text(full_name), walk.encode(member)]
    walk.mark_unseen(f"{full_name} ({walk.root})")
    return [encode_text(full_name)]


def _is_module(value: Any) -> bool:
    return objects.is_a(value, types.ModuleType)


def _note_writes(walk: Walker, function: types.FunctionType, reading: Reading) -> None:
    argument_names = function.__code__.co_varnames[: function.__code__.co_argcount]
    walk.new_changes.slots |= {_locate(function, place)[0] for place in reading.stored}
    for place, is_attribute in reading.writes:
        slot, value = _locate(function, place)
        if value is not MISSING:
            walk.new_changes.add_write(slot, value, place.path, is_attribute)
        elif place.name in argument_names:
            walk.new_changes.add_argument_write(function, place, is_attribute)


# --- classes and modules ------------------------------------------------------


def module_reference(walk: Walker, module: types.ModuleType) -> bytes:
    """A module as a value: its names are read when the code mentions them."""
    module_names = dictionary(module)
    owner = owner_of_names(module_names)
    if owner == USER:
        walk.modules[id(module_names)] = module_names
        return b"!module"
    return walk.library(owner, str(module_names.get("__name__")))


def class_reference(walk: Walker, cls: type) -> bytes:
    """A reference to a class, a part of its own if it is not a library's."""
    import_path = importable(cls)
    if import_path is None:
        noun = "the class " + cls.__qualname__.replace("<locals>.", "")
        return walk.part(("class", id(cls)), noun, lambda: _encode_class(walk, cls))
    encoded_parts = [walk.library_member(*import_path)]
    for base in cls.__mro__:  # methods that a user has put into a library's class
        for name, value in sorted(vars(base).items()):
            if type(value) in (staticmethod, classmethod):
                value = value.__func__
            if (
                type(value) is types.FunctionType
                and owner_of_globals(value.__globals__) == USER
            ):
                encoded_parts += [encode_text(name), walk.encode(value)]
    return join_parts(b"class", encoded_parts)


def _encode_class(walk: Walker, cls: type) -> bytes:
    encoded_parts = [walk.encode(type(cls)), *map(walk.encode, cls.__bases__)]
    for name, value in sorted(vars(cls).items()):
        if name in objects.SKIPPED:
            continue
        if name == "__dataclass_fields__":
            value = tuple(value)
        if ("field", id(cls), name) in walk.changes.slots:
            walk.mark_unseen(f"{cls.__name__}.{name}, which {walk.root} changes")
            value = CHANGED
        encoded_parts += [encode_text(name), walk.encode(value)]
    return join_parts(b"class", encoded_parts)


def _encode_imports(walk: Walker, reading: Reading, package: str) -> list[bytes]:
    """References to the modules that code of a package imports."""
    encoded_parts = []
    for relative_name, member, local_name in reading.imports:
        try:
            module_name = importlib.util.resolve_name(relative_name, package)
        except ImportError:
            module_name = relative_name
        steps = module_name.split(".")
        for end in range(1, len(steps) + 1):  # packages first
            encoded_parts.append(_encode_import(walk, ".".join(steps[:end])))
        base = steps[0] if local_name == steps[0] else module_name
        members = [
            ".".join((base, *place.path))
            for place in reading.chains
            if place.name == local_name
        ]
        for full_name in members if member is None else [f"{module_name}.{member}"]:
            owner, file = _find_module(full_name)
            if owner != USER or file is not None:
                encoded_parts.append(_encode_import(walk, full_name))
    return encoded_parts


def _encode_import(walk: Walker, name: str) -> bytes:
    return walk.part(
        ("source", name), f"the module {name}", lambda: _encode_source(walk, name)
    )


def _encode_source(walk: Walker, name: str) -> bytes:
    owner, file = _find_module(name)
    if owner != USER:
        return walk.library(owner, name)
    if file is None and name in sys.modules:  # made by hand
        return walk.encode(sys.modules[name])
    if file is None:
        walk.mark_unseen(f"the module {name}, which {walk.root} imports")
        return b"!missing"
    if not file.endswith(".py"):
        if not Path(file).is_dir():  # a package without a file of its own
            walk.mark_unseen(f"the compiled module {name}")
        return b"!"
    tree = ast.parse(Path(file).read_bytes())
    reading = read_text(tree.body)
    is_package = Path(file).name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    encoded_parts = [walk.encode(reading.form)]
    encoded_parts += _encode_imports(walk, reading, package)
    return join_parts(b"source", encoded_parts)


def _find_module(name: str) -> tuple[str, str | None]:
    """(owner, file) of a module, found without importing it or its packages."""
    steps = name.split(".")
    try:
        spec = importlib.util.find_spec(steps[0])
        for end in range(2, len(steps) + 1):
            folders = None if spec is None else spec.submodule_search_locations
            spec = (
                folders
                and importlib.machinery.PathFinder.find_spec(  # type: ignore[assignment]
                    ".".join(steps[:end]), folders
                )
            )
    except (ValueError, ImportError):
        spec = None
    if not spec:
        return owner_of_file(name, None), None
    if spec.has_location and spec.origin is not None:
        return owner_of_file(name, spec.origin), spec.origin
    folder = next(iter(spec.submodule_search_locations or ()), None)
    return owner_of_file(name, folder), folder
