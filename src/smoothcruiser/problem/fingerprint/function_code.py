"""Functions, classes and modules: code, and every name that it reaches.

The user's functions are followed into the globals, builtins and imports that their
bytecode names. Functions and classes that can be imported from a library are known
by their name and the library's version; those that a library made for the user (a
decorator's inner function) are read, but their globals are not followed.

Modules that code imports when it runs.

They may not have been loaded yet, and are not loaded for this: the source of a
user's module is compiled, and read as a whole with all that it imports in turn. So a
fingerprint is the same before the first step and after it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcruiser.problem.fingerprint import objects
from smoothcruiser.problem.fingerprint.bytecode import (
    Place,
    Reading,
    decode_all,
    decode_code,
)
from smoothcruiser.problem.fingerprint.encoding import (
    ATOMS,
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

if TYPE_CHECKING:
    from smoothcruiser.problem.fingerprint.walk import Walker


class _Moved:
    """Stands for data that the code itself changes."""


MOVED = _Moved()
MISSING = object()
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


# --- code ---------------------------------------------------------------------


def encode_code(walk: Walker, value: types.CodeType) -> bytes:
    """The form of code and its constants."""
    reading = decode_code(value)
    walk.library("python", "code")
    return join_parts(
        b"code",
        [
            reading.form,
            walk.encode(reading.signature),
            *(
                walk.members(value)
                if type(value) is frozenset and position not in reading.used
                else walk.encode(value)
                for position, value in enumerate(reading.constants)
            ),
        ],
    )


def cell_value(cell: types.CellType) -> Any:
    """The value of a variable of a closure."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def function_reference(walk: Walker, function: types.FunctionType) -> bytes:
    """A function: a part of its own, or inside its holder if a library made it."""
    import_path = importable(function)
    if import_path is not None:
        return walk.library(owner_of_module(import_path[0]), ".".join(import_path))
    if owner_of_function(function) != USER:
        return encode_function(walk, function)
    noun = "the function " + function.__qualname__.replace("<locals>.", "")
    return walk.part(
        ("function", id(function)), noun, partial(encode_function, walk, function)
    )


def encode_function(walk: Walker, function: types.FunctionType) -> bytes:
    """The code of a function and all that it reaches."""
    encoded_parts = [
        walk.encode(function.__code__),
        *_encode_defaults(walk, function),
        *_encode_closure(walk, function),
    ]
    for name, value in sorted(function.__dict__.items()):
        is_moved = ("field", id(function), name) in walk.changes.slots
        if is_moved:
            walk.mark_unseen(f"{function.__name__}.{name}, which {walk.root} changes")
        encoded_parts += [encode_text(name), walk.encode(MOVED if is_moved else value)]
    if owner_of_function(function) == USER:
        encoded_parts += _encode_reached(walk, function)
        encoded_parts += [walk.encode(inner) for inner in _overloads(function)]
    return join_parts(b"function", encoded_parts)


def _encode_defaults(walk: Walker, function: types.FunctionType) -> list[bytes]:
    code, default_values = function.__code__, function.__defaults__ or ()
    argument_names = code.co_varnames[
        code.co_argcount - len(default_values) : code.co_argcount
    ]
    values = dict(zip(argument_names, default_values, strict=True)) | (
        function.__kwdefaults__ or {}
    )
    encoded_parts = []
    for name, value in sorted(values.items()):
        is_moved = ("default", id(function), name) in walk.changes.slots
        if is_moved:
            default_text = f"the default of {name} in {function.__name__}"
            walk.mark_unseen(f"{default_text}, which {walk.root} changes")
        encoded_parts += [encode_text(name), walk.encode(MOVED if is_moved else value)]
    return [walk.encode(len(encoded_parts)), *encoded_parts]


def _encode_closure(walk: Walker, function: types.FunctionType) -> list[bytes]:
    variable_names, cells = function.__code__.co_freevars, function.__closure__ or ()
    is_users = owner_of_function(function) == USER
    encoded_parts = []
    for name, cell in zip(variable_names, cells, strict=True):
        noun = f"the closure variable {name}"
        value = cell_value(cell)
        encoded_parts.append(encode_text(name))
        encoded_parts.append(
            _encode_variable(walk, ("cell", id(cell)), noun, value)
            if is_users
            else walk.encode(value)
        )
    return encoded_parts


def _encode_variable(
    walk: Walker, slot: tuple[Any, ...], noun: str, value: Any
) -> bytes:
    """The value of a variable: code by reference, data as a part of its own."""
    if slot in walk.changes.slots:
        walk.mark_unseen(f"{noun}, which {walk.root} changes")
        return walk.encode(MOVED)
    code_types = (types.FunctionType, types.ModuleType, type)
    if objects.is_a(value, code_types) or importable_name(value) is not None:
        return walk.encode(value)
    return walk.part(slot, noun, partial(walk.spread, noun, value))


def importable_name(value: Any) -> str | None:
    """The full name of a library's callable object, such as ``numpy.sin``."""
    cls = type(value)
    if cls in ATOMS or not callable(value) or owner_of_module(cls.__module__) == USER:
        return None
    import_path = importable(value)
    return None if import_path is None else ".".join(import_path)


def encode_global(walk: Walker, names: dict[str, Any], name: str) -> bytes:
    """The global ``name`` of a namespace."""
    value = names[name]
    return _encode_variable(
        walk, ("global", id(names), name), f"the global {name}", value
    )


# --- names that code reaches --------------------------------------------------


def _encode_reached(walk: Walker, function: types.FunctionType) -> list[bytes]:
    """References to all that a user's function names."""
    global_names: dict[str, Any] = function.__globals__
    built_in: dict[str, Any] = function.__builtins__  # type: ignore[attr-defined,unused-ignore]
    encoded_parts: list[bytes] = []
    mentioned: set[str] = set()
    walk.flow.functions[walk.slot] = (function.__name__, mentioned)
    for reading in decode_all(function.__code__):
        mentioned.update(reading.signature[5])
        walk.names.update(reading.signature[5])
        if "getattr" in reading.globals:
            walk.names.update(
                constant for constant in reading.constants if isinstance(constant, str)
            )
        for name in reading.globals:
            encoded_parts.append(encode_text(name))
            if name in global_names:
                encoded_parts.append(encode_global(walk, global_names, name))
            elif name in built_in:
                encoded_parts.append(_encode_builtin(walk, name, built_in[name]))
            else:
                encoded_parts.append(b"!missing")
        for value_place in reading.chains:
            encoded_parts += _encode_chain(walk, function, value_place)
        encoded_parts += encode_imports(walk, reading, global_names)
        note_writes = partial(_note_writes, walk, function, reading)
        walk.writes.append((walk.slot, note_writes))
    return encoded_parts


def _encode_builtin(walk: Walker, name: str, value: Any) -> bytes:
    if name in HIDDEN and type(value) in (types.BuiltinFunctionType, type):
        walk.mark_unseen(f"{HIDDEN[name]} ({walk.root})")
        return encode_text(name)
    return walk.encode(value)


def _value_at_place(
    function: types.FunctionType, value_place: Place
) -> tuple[Any, Any]:
    """(slot, value) of the variable that a place begins at."""
    if value_place.kind == "global":
        global_names = function.__globals__
        return ("global", id(global_names), value_place.name), global_names.get(
            value_place.name, MISSING
        )
    free_names = function.__code__.co_freevars
    if (
        value_place.kind == "free"
        and value_place.name in free_names
        and function.__closure__
    ):
        cell = function.__closure__[free_names.index(value_place.name)]
        return ("cell", id(cell)), cell_value(cell)
    return None, MISSING


def _encode_chain(
    walk: Walker, function: types.FunctionType, value_place: Place
) -> list[bytes]:
    """Attributes of a library's module, encoded: math.pi, numpy.random.rand."""
    _, value = _value_at_place(function, value_place)
    for index, attribute_name in enumerate(value_place.path):
        if not objects.is_a(value, types.ModuleType):
            return []
        module_names = objects.dictionary(value)
        owner = owner_of_names(module_names)
        if owner == USER:
            return []
        full_name = f"{module_names.get('__name__')}.{attribute_name}"
        value = module_names.get(attribute_name, MISSING)
        if index == len(value_place.path) - 1:
            return [encode_text(full_name), _of_library(walk, owner, full_name, value)]
    return []


def _of_library(walk: Walker, owner: str, name: str, value: Any) -> bytes:
    """An attribute of a library's module: read if it is code or cannot change."""
    walk.version(owner, name)
    if objects.is_a(value, (*ATOMS, tuple, types.ModuleType)) or callable(value):
        return walk.encode(value)
    if value is not MISSING:
        walk.mark_unseen(f"{name} ({walk.root})")
    return encode_text(name)


def _note_writes(walk: Walker, function: types.FunctionType, reading: Reading) -> None:
    changes, local_names = walk.new_changes, function.__code__.co_varnames
    argument_names = local_names[: function.__code__.co_argcount]
    for value_place in reading.stored:
        slot, _ = _value_at_place(function, value_place)
        if slot is not None:
            changes.slots.add(slot)
    for value_place, attribute in reading.writes:
        slot, value = _value_at_place(function, value_place)
        if slot is not None:
            if value is not MISSING:
                changes.wrote(slot, value, value_place.path, attribute)
        elif value_place.name in argument_names:
            changes.by_function(
                function, value_place.name, value_place.path, attribute
            )


# --- modules ------------------------------------------------------------------


def module_reference(walk: Walker, module: types.ModuleType) -> bytes:
    """A module as a value: its names are read when the code mentions them."""
    module_names = objects.dictionary(module)
    owner = owner_of_names(module_names)
    if owner == USER:
        walk.modules[id(module_names)] = module_names
        return b"!module"
    return walk.library(owner, str(module_names.get("__name__")))


# --- classes ------------------------------------------------------------------


def class_reference(walk: Walker, cls: type) -> bytes:
    """A reference to a class, a part of its own if it is not a library's."""
    import_path = importable(cls)
    if import_path is None:
        noun = "the class " + cls.__qualname__.replace("<locals>.", "")
        return walk.part(("class", id(cls)), noun, lambda: _encode_class(walk, cls))
    encoded_parts = [
        walk.library(owner_of_module(import_path[0]), ".".join(import_path))
    ]
    for base in cls.__mro__:
        for name, value in _patched_methods(base):
            encoded_parts += [encode_text(name), walk.encode(value)]
    return join_parts(b"class", encoded_parts)


def _patched_methods(cls: type) -> list[tuple[str, Any]]:
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


def _encode_class(walk: Walker, cls: type) -> bytes:
    encoded_parts = [walk.encode(type(cls)), *map(walk.encode, cls.__bases__)]
    for name, value in sorted(_namespace(cls).items()):
        if name in objects.SKIPPED:
            continue
        if name == "__dataclass_fields__":
            value = tuple(value)
        if ("field", id(cls), name) in walk.changes.slots:
            walk.mark_unseen(f"{cls.__name__}.{name}, which {walk.root} changes")
            value = MOVED
        encoded_parts += [encode_text(name), walk.encode(value)]
    return join_parts(b"class", encoded_parts)


def _namespace(cls: type) -> dict[str, Any]:
    """The members of a class; of one that Numba compiled, the members in its source."""
    class_members = dict(vars(cls))
    compiled = class_members.get("class_type")
    if compiled is None:  # the class of its objects
        compiled = getattr(class_members.get("_numba_type_"), "class_type", None)
    if compiled is None or owner_of_module(type(compiled).__module__) == USER:
        return class_members
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
        inner_keys = map(sorting_key, value)
        return join_parts(
            b"t", inner_keys if type(value) is tuple else sorted(inner_keys)
        )
    if type(value) is types.FunctionType:
        reading = decode_code(value.__code__)
        constants = (sorting_key(constant) for constant in reading.constants)
        return join_parts(
            b"o", [encode_text(value.__qualname__), reading.form, *constants]
        )
    named_class = value if objects.is_a(value, type) else type(value)
    return join_parts(b"o", [encode_text(named_class.__qualname__)])


def _overloads(function: types.FunctionType) -> list[Any]:
    """The implementations that ``numba.extending.overload`` gave a function."""
    templates = sys.modules.get("numba.core.typing.templates")
    if templates is None:
        return []
    implementations = []
    for value, kind in templates.builtin_registry.globals:
        if value is function:
            for template in getattr(kind, "templates", ()):
                implementation = getattr(template, "_overload_func", None)
                implementations += [] if implementation is None else [implementation]
    return implementations


_NAMESPACE = "a folder"  # the file of a package without one


def encode_imports(
    walk: Walker, reading: Reading, names: dict[str, Any]
) -> list[bytes]:
    """References to the modules that code imports; ``names`` are its globals."""
    encoded_parts = []
    for import_name in reading.imports:
        module_steps = _absolute_name(import_name, names).split(".")
        for end in range(1, len(module_steps) + 1):  # packages first
            encoded_parts.append(_encode_import(walk, ".".join(module_steps[:end])))
    for value_place in reading.chains:
        if value_place.kind == "import":
            module_name = _absolute_name(value_place.name, names)
            full_name = ".".join((module_name, *value_place.path))
            owner, _ = _locate_module(module_name)
            if owner != USER:
                encoded_parts.append(walk.library(owner, full_name))
            elif (
                len(value_place.path) == 1 and _locate_module(full_name)[1] is not None
            ):
                encoded_parts.append(_encode_import(walk, full_name))
    return encoded_parts


def _absolute_name(name: str, names: dict[str, Any]) -> str:
    bare_name = name.lstrip(".")
    level = len(name) - len(bare_name)
    if level == 0:
        return name
    package = names.get("__package__") or str(names.get("__name__"))
    outer_packages = package.split(".")
    outer_packages = outer_packages[: len(outer_packages) - level + 1]
    return ".".join([*outer_packages, bare_name] if bare_name else outer_packages)


def _encode_import(walk: Walker, name: str) -> bytes:
    return walk.part(
        ("source", name), f"the module {name}", lambda: _encode_source(walk, name)
    )


def _encode_source(walk: Walker, name: str) -> bytes:
    owner, file = _locate_module(name)
    if owner != USER:
        return walk.library(owner, name)
    if file is None:
        module = sys.modules.get(name)
        if module is None:
            walk.mark_unseen(f"the module {name}, which {walk.root} imports")
            return b"!missing"
        return walk.encode(module)
    if not file.endswith(".py"):
        if file != _NAMESPACE:
            walk.mark_unseen(f"the compiled module {name}")
        return encode_text(Path(file).suffix)
    module_code = compile(Path(file).read_bytes(), name, "exec", dont_inherit=True)
    package_name = (
        name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
    )
    module_globals = {"__package__": package_name, "__name__": name}
    encoded_parts = [walk.encode(module_code)]
    for reading in decode_all(module_code):
        encoded_parts += encode_imports(walk, reading, module_globals)
    return join_parts(b"source", encoded_parts)


def _locate_module(name: str) -> tuple[str, str | None]:
    """(owner, file) of a module, found without importing it or its packages.

    The answer is the same before and after the module is loaded.
    """
    spec, search_path = None, None
    module_steps = name.split(".")
    for end in range(1, len(module_steps) + 1):
        full_name = ".".join(module_steps[:end])
        loaded_module = sys.modules.get(full_name)
        spec = (
            None
            if loaded_module is None
            else dictionary(loaded_module).get("__spec__")
        )
        try:
            if spec is None and end == 1:
                spec = importlib.util.find_spec(full_name)
            elif spec is None:
                spec = importlib.machinery.PathFinder.find_spec(full_name, search_path)
        except (ValueError, ImportError):
            spec = None
        if spec is None:
            return owner_of_file(name, None), None
        search_path = list(spec.submodule_search_locations or ())
    assert spec is not None
    if spec.has_location and spec.origin is not None:
        return owner_of_file(name, spec.origin), spec.origin
    owner = owner_of_file(name, search_path[0] if search_path else None)
    return owner, _NAMESPACE if search_path else None
