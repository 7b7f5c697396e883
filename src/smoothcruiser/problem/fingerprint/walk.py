"""A walk over everything that a value depends on.

Everything with a name is a part of its own, so that a refusal can name the change:
a function, a class, a global variable, a variable of a closure, a field. Parts
refer to each other by name and are worked off one after another, which also ends
cycles of functions. Inside a part, data is the digest of its contents
(``encoding``). A container that holds itself is closed by the distance to itself.

The order of a dict is part of it, since a step may loop over it; the order of a
set, of fields and of a namespace is not. Two equal lists and one list twice are
the same.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.problem.fingerprint import function_code as functions
from smoothcruiser.problem.fingerprint import objects
from smoothcruiser.problem.fingerprint.bytecode import Changes, Flow, Slot
from smoothcruiser.problem.fingerprint.encoding import (
    ATOMS,
    OURS,
    USER,
    encode_array,
    encode_run,
    encode_text,
    importable,
    join_parts,
    owner_of_module,
    version_of,
)

# nested data below this depth becomes a part of its own: Python's stack is finite
DEEPEST = 40
INITIAL = "initial_state"  # a state, which no step changes
CHANGED = b"!changed by the code itself"
# modules of the standard library that read the world outside the program
WORLD = {
    *("_io", "_pickle", "_socket", "_sqlite3", "_thread", "ctypes", "io", "nt", "os"),
    *("pathlib", "pickle", "posix", "secrets", "shelve", "socket", "sqlite3"),
    *("subprocess", "tempfile", "threading", "time", "urllib.request", "uuid"),
}
READERS = {
    *("importlib.import_module", "importlib.reload", "runpy.run_path"),
    *("runpy.run_module", "pkgutil.get_data", "pkgutil.resolve_name"),
    *("numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile"),
    "numpy.memmap",
}

_CODE = (type, types.ModuleType, types.FunctionType)
_FUNCTIONS = (types.BuiltinFunctionType, types.MethodWrapperType)
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


class Walker:
    """A collector of the parts and of everything that cannot be seen."""

    def __init__(self, changes: Changes, arrays: dict[int, Any]) -> None:
        self.changes = changes  # changes that an earlier walk found
        self.new_changes = Changes()  # changes that this walk finds
        self.flow = Flow()
        # writes of each function, noted in the end if it is live
        self.writes: list[tuple[Slot, Callable[[], None]]] = []
        self.parts: dict[str, bytes] = {}
        self.unseen: dict[str, None] = {}
        self.names: set[str] = set()  # that the user's code mentions
        self.modules: dict[int, dict[str, Any]] = {}  # the user's, met as values
        self.root, self.label, self.slot = "", "", Slot()  # of the part being read
        self.known_parts: dict[
            int, str
        ] = {}  # objects that are parts by their identity
        self._labels: dict[Slot, str] = {}
        self._used_names: set[str] = set()
        self._uses: dict[str, int] = {}  # how many slots wanted a label
        self._waiting: deque[tuple[str, str, Slot, Callable[[], bytes]]] = deque()
        self._resolved: set[Slot] = set()
        self._layouts: dict[type, objects.Layout] = {}
        self._encoded_values: dict[int, bytes] = {}
        self._open_ids: list[int] = []
        self._alive: list[Any] = []  # an id means nothing once its object is gone
        self._arrays = arrays  # digests of arrays, kept between walks

    # --- parts ----------------------------------------------------------------

    def start(self, root: str, value: Any) -> None:
        """Read a field of the problem, and all that it depends on."""
        self.root = root
        self.slot = ("root", root)
        self.flow.roots.add(self.slot)
        if type(value) is types.FunctionType and importable(value) is None:
            produce = functools.partial(functions.encode_function, self, value)
            self._add_part(("function", id(value)), root, produce)
        else:
            self._add_part(self.slot, root, lambda: self.spread("", value))
        self._read_waiting()

    def finish(self) -> Changes:
        """The changes that the code read by this walk makes when it runs."""
        live = self.flow.live()
        for slot, note in self.writes:
            if slot in live:
                with contextlib.suppress(Exception):  # an object that lies
                    note()
        return self.new_changes

    def part(self, slot: Slot, noun: str, produce: Callable[[], bytes]) -> bytes:
        """A reference to the part of ``slot``, which is read later."""
        self.flow.references.setdefault(self.slot, set()).add(slot)
        if slot not in self._labels:
            self._add_part(slot, f"{self.root}: {noun}", produce)
        return b"R" + encode_text(self._labels[slot])

    def _add_part(self, slot: Slot, label: str, produce: Callable[[], bytes]) -> None:
        self.flow.references.setdefault(self.slot, set()).add(slot)
        if slot in self._labels:  # two fields of the problem are one function
            self.parts[label] = b"R" + encode_text(self._labels[slot])
            return
        num_uses = self._uses[label] = self._uses.get(label, 0) + 1
        part_name = label if num_uses == 1 else f"{label} ({num_uses})"
        while part_name in self._used_names:  # by a function that calls itself so
            part_name += "'"
        self._used_names.add(part_name)
        self._labels[slot] = part_name
        self._waiting.append((self.root, part_name, slot, produce))

    def _read_waiting(self) -> None:
        while self._waiting or self._resolve():
            while self._waiting:
                self.root, self.label, self.slot, produce = self._waiting.popleft()
                self._open_ids.clear()
                try:
                    self.parts[self.label] = produce()
                except Exception:  # as in ``_encode_new``
                    self.parts[self.label] = b"!"
                    self.mark_unseen(f"{self.label}, which cannot be read")

    def _resolve(self) -> bool:
        """Read the names that the code may look up in the user's modules."""
        open_names = [
            (module, global_name)
            for module in self.modules.values()
            for global_name in sorted(
                (self.names | {"__getattr__"}).intersection(module)
            )
            if ("module", id(module), global_name) not in self._resolved
        ]
        self.slot = ("root", self.root)
        for module, global_name in open_names:
            self._resolved.add(("module", id(module), global_name))
            slot = ("attribute", id(module), global_name)
            noun = f"the name {global_name} of the module {module.get('__name__')}"
            produce = functools.partial(
                functions.encode_global, self, module, global_name
            )
            self.part(slot, noun, produce)
        return bool(self._waiting)

    def mark_unseen(self, what: str) -> None:
        """Name something that cannot be seen."""
        self.unseen.setdefault(what)

    def library(self, owner: str, name: str) -> bytes:
        """A reference to an object of a library; its version becomes a part."""
        module_name = name.rpartition(".")[0]
        if module_name in WORLD or name in READERS:
            self.mark_unseen(f"what {name} returns ({self.root})")
        self.version(owner, name)
        return b"L" + encode_text(name)

    def version(self, owner: str, name: str) -> None:
        """The version of the library that ``name`` belongs to, as a part."""
        if owner == USER:
            self.mark_unseen(f"the compiled code of {name}")
        elif owner != OURS:
            label = f"the version of {owner}"
            library_version = version_of(owner)
            if library_version is None:
                self.mark_unseen(label)
            self.parts[label] = encode_text(library_version or "unknown")

    # --- values ---------------------------------------------------------------

    def spread(self, noun: str, value: Any) -> bytes:
        """A value that has a name: each field of an object is a part of its own."""
        bound = value.__self__ if type(value) is types.MethodType else value
        if not self._has_fields(bound):
            return self.encode(value)
        owner = f" of {noun}" if noun else ""
        self._alive.append(bound)
        encoded_fields = [
            encoded_part
            for field_name, field_value in self._fields(bound)
            for encoded_part in (
                encode_text(field_name),
                self.part(
                    ("field", id(bound), field_name),
                    f"the field {field_name}{owner}",
                    functools.partial(
                        self.spread, f"{field_name}{owner}", field_value
                    ),
                ),
            )
        ]
        head_parts = [functions.class_reference(self, type(bound))]
        if bound is not value:
            head_parts.append(self.encode(value.__func__))
        return join_parts(b"fields", [*head_parts, *encoded_fields])

    def _has_fields(self, value: Any) -> bool:
        cls = type(value)
        if cls in ATOMS or id(value) in self.known_parts or issubclass(cls, _CODE):
            return False
        layout = self.layout(cls)
        is_plain = not (
            layout.base or layout.moving or layout.opaque or layout.described
        )
        return (
            is_plain
            and owner_of_module(cls.__module__) in (USER, OURS)
            and objects.state_of(value) is None
        )

    def layout(self, cls: type) -> objects.Layout:
        """Where objects of a class keep their contents; read once in a walk."""
        if cls not in self._layouts:
            self._layouts[cls] = objects.read_layout(cls)
        return self._layouts[cls]

    def encode(self, value: Any) -> bytes:
        """A value as bytes."""
        cls = type(value)
        atom = ATOMS.get(cls)
        if atom is not None:
            return atom(value)
        key = id(value)
        if key in self.known_parts:
            return b"R" + encode_text(self.known_parts[key])
        if key in self._encoded_values:
            return self._encoded_values[key]
        if key in self._open_ids:
            return b"@" + encode_text(
                str(len(self._open_ids) - self._open_ids.index(key))
            )
        self._alive.append(value)
        if len(self._open_ids) >= DEEPEST:
            return self.part(
                ("deep", key), "deeply nested data", lambda: self._encode_new(value)
            )
        return self._encode_new(value)

    def _encode_new(self, value: Any) -> bytes:
        key = id(value)
        self._open_ids.append(key)
        try:
            encoded_value = self.read_value(value)
        except Exception:  # an object that lies about itself
            self.mark_unseen(
                f"a {type(value).__name__} that cannot be read ({self.label})"
            )
            encoded_value = b"!"
        finally:
            self._open_ids.pop()
        self._encoded_values[key] = encoded_value
        return encoded_value

    def read_value(self, value: Any) -> bytes:
        """A value that is met for the first time."""
        cls = type(value)
        if cls is tuple or cls is list:
            return self._encode_sequence(cls.__name__.encode(), value)
        if cls is dict:
            return join_parts(
                b"dict",
                [
                    self._encode_sequence(b"keys", list(value)),
                    self._encode_sequence(b"values", list(value.values())),
                ],
            )
        if cls is set or cls is frozenset:
            if len(value) > 1 and not all(map(objects.is_number, value)):
                self.mark_unseen(f"the order of a {cls.__name__} ({self.label})")
            return self.members(value)
        if cls is np.ndarray:
            return self.read_array(value)
        if issubclass(cls, np.generic):
            if cls is np.object_ or issubclass(cls, np.void):
                return self.read_array(np.asarray(value))
            return join_parts(
                b"scalar", [encode_text(value.dtype.str), value.tobytes()]
            )
        if cls is types.FunctionType:
            return functions.function_reference(self, value)
        if issubclass(cls, type):
            return functions.class_reference(self, value)
        if issubclass(cls, types.ModuleType):
            return functions.module_reference(self, value)
        if cls is types.MethodType:
            return join_parts(
                b"method", map(self.encode, (value.__func__, value.__self__))
            )
        if cls is types.CodeType:
            return functions.encode_code(self, value)
        if cls is types.CellType:
            return join_parts(b"cell", [self.encode(functions.cell_value(value))])
        if cls in _FUNCTIONS or cls in _DESCRIPTORS:
            return self._encode_compiled(value)
        return self.read_object(value)

    def _encode_sequence(self, tag: bytes, values: Any) -> bytes:
        number_run = encode_run(values) if len(values) > 8 else None
        if number_run is not None:
            return join_parts(tag + b"*", [number_run])
        return join_parts(tag, map(self.encode, values))

    def members(self, values: set[Any] | frozenset[Any]) -> bytes:
        """The members of a set; their order differs between processes."""
        ordered_members = sorted(values, key=functions.sorting_key)
        tag = type(values).__name__.encode()
        return join_parts(tag, sorted(map(self.encode, ordered_members)))

    def read_array(self, value: Any) -> bytes:
        """An array."""
        if value.dtype.hasobject or value.dtype.kind == "T":  # strings elsewhere
            elements = value.reshape(-1).tolist()
            header_text = f"{value.dtype} {value.shape}"
            return join_parts(
                b"objects", [encode_text(header_text), *map(self.encode, elements)]
            )
        if id(value) not in self._arrays:
            self._arrays[id(value)] = (encode_array(value), value)
        array_digest: bytes = self._arrays[id(value)][0]
        return array_digest

    def _encode_compiled(self, value: Any) -> bytes:
        """A function of C code: its name, and the object that it is bound to."""
        bound = getattr(value, "__self__", None)
        holder = getattr(value, "__objclass__", None)
        function_name = value.__name__
        if holder is not None:
            return join_parts(
                b"descriptor", [self.encode(holder), encode_text(function_name)]
            )
        if bound is None or objects.is_a(bound, types.ModuleType):
            module_name = value.__module__ or getattr(bound, "__name__", "builtins")
            return self.library(
                owner_of_module(module_name), f"{module_name}.{function_name}"
            )
        return join_parts(b"bound", [encode_text(function_name), self.encode(bound)])

    # --- objects --------------------------------------------------------------

    def read_object(self, value: Any) -> bytes:
        """A value of no built-in type."""
        cls = type(value)
        class_part = functions.class_reference(self, cls)
        public_form = objects.state_of(value)
        if public_form is not None:
            return join_parts(b"state", [class_part, self.encode(public_form[1])])
        field_name = functions.importable_name(value)
        if field_name is not None:
            module_name = getattr(value, "__module__", None) or cls.__module__
            return self.library(owner_of_module(module_name), field_name)
        layout = self.layout(cls)
        if layout.moving is not None:
            self.mark_unseen(f"{layout.moving} ({self.label})")
            return join_parts(b"moving", [class_part])
        if layout.described:
            return join_parts(
                b"described", [class_part, self.encode(value.__fingerprint__())]
            )
        is_foreign = callable(value) and owner_of_module(cls.__module__) != USER
        inner_function = objects.wrapped_function(value) if is_foreign else None
        if inner_function is not None:
            options = objects.dictionary(value).get("targetoptions")  # of Numba
            return join_parts(
                b"wrapper", [class_part, *map(self.encode, (inner_function, options))]
            )
        base_type = layout.base
        encoded_parts = (
            [] if base_type is None else [self.encode(objects.BASES[base_type](value))]
        )
        if layout.opaque:
            self.mark_unseen(f"a {cls.__module__}.{cls.__qualname__} ({self.label})")
            return join_parts(b"opaque", [class_part, *encoded_parts])
        for field_name, field_value in self._fields(value):
            is_changed = field_value is functions.MOVED
            encoded_parts += [
                encode_text(field_name),
                CHANGED if is_changed else self.encode(field_value),
            ]
        return join_parts(b"object", [class_part, *encoded_parts])

    def _fields(self, value: Any) -> list[tuple[str, Any]]:
        """The fields of an object, ``MOVED`` in the place of those that runs change."""
        cls = type(value)
        is_users = owner_of_module(cls.__module__) == USER
        layout = self.layout(cls)
        self.new_changes.by_methods(value, self.changes)
        fields = []
        for field_name, field_value in objects.read_fields(
            value, layout.slots
        ).items():
            if field_name in layout.cached:
                if is_users:
                    self.mark_unseen(
                        f"the cached value of {cls.__name__}.{field_name}"
                    )
                continue
            is_moved = self.root != INITIAL and (
                ("field", id(value), field_name) in self.changes.slots
                or (is_users and field_name in self.changes.of_arguments)
            )
            if is_moved:
                self.mark_unseen(
                    f"the field {field_name} of {cls.__name__}, which steps change"
                )
            fields.append((field_name, functions.MOVED if is_moved else field_value))
        return fields
