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

from smoothcruiser.problem.fingerprint import function_values as functions
from smoothcruiser.problem.fingerprint import objects
from smoothcruiser.problem.fingerprint.changed_data import Changes, Flow, Slot
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


class Walker:
    """A collector of the parts and of everything that cannot be seen."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes  # changes that an earlier walk found
        self.new_changes = Changes()  # changes that this walk finds
        self.flow = Flow()
        # writes of each function, noted in the end if it is live
        self.writes: list[tuple[Slot, Callable[[], None]]] = []
        self.parts: dict[str, bytes] = {}
        self.unseen: dict[str, None] = {}
        self.names: set[str] = {"__getattr__"}  # that the user's code mentions
        self.modules: dict[int, dict[str, Any]] = {}  # the user's, met as values
        self.root, self.label, self.slot = "", "", Slot()  # of the part being read
        self._labels: dict[Slot, str] = {}
        self._waiting: deque[tuple[str, str, Slot, Callable[[], bytes]]] = deque()
        self._encoded_values: dict[int, bytes] = {}
        self._open_ids: list[int] = []
        self._read_layout: Callable[[type], objects.Layout] = functools.lru_cache(
            None
        )(objects.read_layout)
        self._alive: list[Any] = []  # an id means nothing once its object is gone

    # --- parts ----------------------------------------------------------------

    def start(self, root: str, value: Any) -> None:
        """Read a field of the problem, and all that it depends on."""
        slot: Slot = ("root", root)
        self.root, self.slot = root, slot
        self.flow.roots.add(slot)
        produce = functools.partial(self.spread, "", value)
        if type(value) is types.FunctionType and importable(value) is None:
            slot = ("function", id(value))
            produce = functools.partial(functions.encode_function, self, value)
        if slot in self._labels:  # two fields of the problem are one function
            self.parts[root] = self.part(slot, root, produce)
        else:
            self._add_part(slot, root, produce)
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
        if slot not in self._labels:
            self._add_part(slot, f"{self.root}: {noun}", produce)
        self.flow.references.setdefault(self.slot, set()).add(slot)
        return b"R" + encode_text(self._labels[slot])

    def _add_part(self, slot: Slot, label: str, produce: Callable[[], bytes]) -> None:
        self.flow.references.setdefault(self.slot, set()).add(slot)
        part_name, num_uses = label, 1
        while part_name in self.parts:
            num_uses += 1
            part_name = f"{label} ({num_uses})"
        self._labels[slot] = part_name
        self.parts[part_name] = b""
        self._waiting.append((self.root, part_name, slot, produce))

    def _read_waiting(self) -> None:
        while self._waiting or self._list_module_names():
            while self._waiting:
                self.root, self.label, self.slot, produce = self._waiting.popleft()
                self._open_ids.clear()
                try:
                    self.parts[self.label] = produce()
                except Exception:  # as in ``encode``
                    self.parts[self.label] = b"!"
                    self.mark_unseen(f"{self.label}, which cannot be read")

    def _list_module_names(self) -> bool:
        """Read the names that the code may look up in the user's modules."""
        self.slot = ("root", self.root)
        for module in list(self.modules.values()):
            for name in sorted(self.names.intersection(module)):
                noun = f"the name {name} of the module {module.get('__name__')}"
                produce = functools.partial(
                    functions.encode_global, self, module, name
                )
                self.part(("attribute", id(module), name), noun, produce)
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

    def library_member(self, module_name: str, name: str) -> bytes:
        """A reference to a member of a module that is loaded."""
        return self.library(owner_of_module(module_name), f"{module_name}.{name}")

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
        encoded_parts = [functions.class_reference(self, type(bound))]
        if bound is not value:
            encoded_parts.append(self.encode(value.__func__))
        for name, member in self._fields(bound):
            noun = f"{name}{owner}"
            produce = functools.partial(self.spread, noun, member)
            slot = ("field", id(bound), name)
            encoded_parts.append(self.part(slot, f"the field {noun}", produce))
        return join_parts(b"fields", encoded_parts)

    def _has_fields(self, value: Any) -> bool:
        cls = type(value)
        layout = self._read_layout(cls)
        return (
            layout.is_plain
            and not layout.described
            and cls not in ATOMS
            and not issubclass(cls, functions.CODE)
            and owner_of_module(cls.__module__) in (USER, OURS)
        )

    def encode(self, value: Any) -> bytes:
        """A value as bytes."""
        atom = ATOMS.get(type(value))
        if atom is not None:
            return atom(value)
        key = id(value)
        if key in self._encoded_values:
            return self._encoded_values[key]
        if key in self._open_ids:
            distance = len(self._open_ids) - self._open_ids.index(key)
            return b"@" + encode_text(str(distance))
        self._alive.append(value)
        if len(self._open_ids) >= DEEPEST:
            return self.part(
                ("deep", key), "deeply nested data", lambda: self._encode_new(value)
            )
        return self._encode_new(value)

    def _encode_new(self, value: Any) -> bytes:
        self._open_ids.append(id(value))
        try:
            encoded_value = self._read_value(value)
        except Exception:  # an object that lies about itself
            self.mark_unseen(
                f"a {type(value).__name__} that cannot be read ({self.label})"
            )
            encoded_value = b"!"
        finally:
            self._open_ids.pop()
        self._encoded_values[id(value)] = encoded_value
        return encoded_value

    def _read_value(self, value: Any) -> bytes:
        """A value that is met for the first time."""
        cls = type(value)
        if cls is tuple or cls is list:
            return self._encode_sequence(cls.__name__.encode(), value)
        if cls is dict:
            keys = self._encode_sequence(b"keys", list(value))
            values = self._encode_sequence(b"values", list(value.values()))
            return join_parts(b"dict", [keys, values])
        if cls is set or cls is frozenset:
            if len(value) > 1 and not all(map(objects.is_number, value)):
                self.mark_unseen(f"the order of a {cls.__name__} ({self.label})")
            return join_parts(cls.__name__.encode(), sorted(map(self.encode, value)))
        if cls is np.ndarray or issubclass(cls, np.generic):
            return self._encode_array(cls.__name__, np.asarray(value))
        if cls is types.FunctionType:
            return functions.function_reference(self, value)
        if issubclass(cls, type):
            return functions.class_reference(self, value)
        if issubclass(cls, types.ModuleType):
            return functions.module_reference(self, value)
        if cls is types.MethodType:
            bound_parts = map(self.encode, (value.__func__, value.__self__))
            return join_parts(b"method", bound_parts)
        if cls is types.CellType:
            return join_parts(b"cell", [self.encode(functions.cell_value(value))])
        if cls in objects.COMPILED:
            return self._encode_compiled(value)
        return self._read_object(value)

    def _encode_sequence(self, tag: bytes, values: Any) -> bytes:
        number_run = encode_run(values) if len(values) > 8 else None
        if number_run is not None:
            return join_parts(tag + b"*", [number_run])
        return join_parts(tag, map(self.encode, values))

    def _encode_array(self, kind: str, values: Any) -> bytes:
        """An array; one of objects, records or long strings by its elements."""
        header = encode_text(f"{kind} {values.dtype} {values.shape}")
        if values.dtype.hasobject or values.dtype.names or values.dtype.kind == "T":
            return join_parts(
                b"objects", [header, *map(self.encode, values.reshape(-1).tolist())]
            )
        return join_parts(b"array", [header, encode_array(values)])

    def _encode_compiled(self, value: Any) -> bytes:
        """A function of C code: its name, and the object that it is bound to."""
        bound = getattr(value, "__self__", None)
        holder = getattr(value, "__objclass__", None)
        if holder is None and (bound is None or objects.is_a(bound, types.ModuleType)):
            module_name = value.__module__ or getattr(bound, "__name__", "builtins")
            return self.library_member(module_name, value.__name__)
        return join_parts(
            b"compiled", map(self.encode, (value.__name__, holder, bound))
        )

    # --- objects --------------------------------------------------------------

    def _read_object(self, value: Any) -> bytes:
        """A value of no built-in type."""
        cls = type(value)
        import_path = functions.import_path_of(value)
        if import_path is not None:
            return self.library_member(*import_path)
        layout = self._read_layout(cls)
        encoded_parts = [functions.class_reference(self, cls)]
        is_foreign = owner_of_module(cls.__module__) != USER
        inner_function = objects.wrapped_function(value) if is_foreign else None
        if layout.moving is not None:
            self.mark_unseen(f"{layout.moving} ({self.label})")
        elif layout.public_form is not None:
            encoded_parts.append(self.encode(layout.public_form(value)))
        elif layout.described:
            encoded_parts.append(self.encode(value.__fingerprint__()))
        elif inner_function is not None:
            options = objects.dictionary(value).get("targetoptions")  # of Numba
            encoded_parts += map(self.encode, (inner_function, options))
        else:
            if layout.base is not None:
                encoded_parts.append(self.encode(objects.BASES[layout.base](value)))
            if layout.opaque and is_foreign:
                encoded_parts.append(self._encode_reduced(value))
            elif layout.opaque:
                self._mark_opaque(value)
            else:
                for name, member in self._fields(value):
                    encoded_parts += [encode_text(name), self.encode(member)]
        return join_parts(b"object", encoded_parts)

    def _encode_reduced(self, value: Any) -> bytes:
        """A library's object of C code, by what its class would pickle."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            self._mark_opaque(value)
            return b"!"
        if type(reduced) is tuple:
            reduced = [*reduced[:3], *(list(items or ()) for items in reduced[3:5])]
        return self.encode(reduced)

    def _mark_opaque(self, value: Any) -> None:
        cls = type(value)
        self.mark_unseen(f"a {cls.__module__}.{cls.__qualname__} ({self.label})")

    def _fields(self, value: Any) -> list[tuple[str, Any]]:
        """The fields of an object, ``CHANGED`` in the place of those that runs change."""
        cls = type(value)
        is_users = owner_of_module(cls.__module__) == USER
        layout = self._read_layout(cls)
        fields = []
        for name, member in objects.read_fields(value, layout.slots).items():
            if name in layout.cached:
                if is_users:
                    self.mark_unseen(f"the cached value of {cls.__name__}.{name}")
                continue
            if self.root != INITIAL and self.changes.is_changed(value, name, is_users):
                self.mark_unseen(
                    f"the field {name} of {cls.__name__}, which steps change"
                )
                member = functions.CHANGED
            fields.append((name, member))
        return fields
