"""A walk over everything that a value depends on.

What can be named is a part of its own, so that a refusal can say what changed:
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

from smoothcruiser.problem.fingerprint import functions, objects
from smoothcruiser.problem.fingerprint.changes import Changes, Flow, Slot
from smoothcruiser.problem.fingerprint.encoding import (
    ATOMS,
    flat,
    joined,
    numbers,
    text,
)
from smoothcruiser.problem.fingerprint.owners import (
    OURS,
    USER,
    importable,
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
_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
)
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


class Walker:
    """Collects the parts and what cannot be seen."""

    def __init__(self, changes: Changes, arrays: dict[int, Any]) -> None:
        self.changes = changes  # what an earlier walk found
        self.found = Changes()  # what this one finds
        self.flow = Flow()
        # what each function writes to, noted in the end if it is live
        self.writes: list[tuple[Slot, Callable[[], None]]] = []
        self.parts: dict[str, bytes] = {}
        self.unseen: dict[str, None] = {}
        self.names: set[str] = set()  # that the user's code mentions
        self.modules: dict[int, dict[str, Any]] = {}  # the user's, met as values
        self.root, self.label, self.slot = "", "", Slot()  # what is being read
        self.known: dict[int, str] = {}  # objects that are parts by their identity
        self._labels: dict[Slot, str] = {}
        self._taken: set[str] = set()
        self._uses: dict[str, int] = {}  # how many slots wanted a label
        self._waiting: deque[tuple[str, str, Slot, Callable[[], bytes]]] = deque()
        self._resolved: set[Slot] = set()
        self._layouts: dict[type, objects.Layout] = {}
        self._done: dict[int, bytes] = {}
        self._open: list[int] = []
        self._alive: list[Any] = []  # an id means nothing once its object is gone
        self._arrays = arrays  # digests of arrays, kept between walks

    # --- parts ----------------------------------------------------------------

    def start(self, root: str, value: Any) -> None:
        """Read a field of the problem, and all that it depends on."""
        self.root = root
        self.slot = ("root", root)
        self.flow.roots.add(self.slot)
        if type(value) is types.FunctionType and importable(value) is None:
            produce = functools.partial(functions.content, self, value)
            self._part(("function", id(value)), root, produce)
        else:
            self._part(self.slot, root, lambda: self.spread("", value))
        self._work()

    def finish(self) -> Changes:
        """What the code that this walk has read changes when it runs."""
        live = self.flow.live()
        for slot, note in self.writes:
            if slot in live:
                with contextlib.suppress(Exception):  # an object that lies
                    note()
        return self.found

    def part(self, slot: Slot, noun: str, produce: Callable[[], bytes]) -> bytes:
        """A reference to the part of ``slot``, which is read later."""
        self.flow.references.setdefault(self.slot, set()).add(slot)
        if slot not in self._labels:
            self._part(slot, f"{self.root}: {noun}", produce)
        return b"R" + text(self._labels[slot])

    def _part(self, slot: Slot, label: str, produce: Callable[[], bytes]) -> None:
        self.flow.references.setdefault(self.slot, set()).add(slot)
        if slot in self._labels:  # two fields of the problem are one function
            self.parts[label] = b"R" + text(self._labels[slot])
            return
        number = self._uses[label] = self._uses.get(label, 0) + 1
        name = label if number == 1 else f"{label} ({number})"
        while name in self._taken:  # by a function that calls itself so
            name += "'"
        self._taken.add(name)
        self._labels[slot] = name
        self._waiting.append((self.root, name, slot, produce))

    def _work(self) -> None:
        while self._waiting or self._resolve():
            while self._waiting:
                self.root, self.label, self.slot, produce = self._waiting.popleft()
                self._open.clear()
                try:
                    self.parts[self.label] = produce()
                except Exception:  # as in ``_encoded``
                    self.parts[self.label] = b"!"
                    self.cannot(f"{self.label}, which cannot be read")

    def _resolve(self) -> bool:
        """Read what the code may take from the user's modules by name."""
        pairs = [
            (module, name)
            for module in self.modules.values()
            for name in sorted((self.names | {"__getattr__"}).intersection(module))
            if ("module", id(module), name) not in self._resolved
        ]
        self.slot = ("root", self.root)
        for module, name in pairs:
            self._resolved.add(("module", id(module), name))
            slot = ("attribute", id(module), name)
            noun = f"the name {name} of the module {module.get('__name__')}"
            produce = functools.partial(functions.variable, self, module, name)
            self.part(slot, noun, produce)
        return bool(self._waiting)

    def cannot(self, what: str) -> None:
        """Name something that cannot be seen."""
        self.unseen.setdefault(what)

    def library(self, owner: str, name: str) -> bytes:
        """A reference to something of a library, whose version becomes a part."""
        module = name.rpartition(".")[0]
        if module in WORLD or name in READERS:
            self.cannot(f"what {name} returns ({self.root})")
        self.version(owner, name)
        return b"L" + text(name)

    def version(self, owner: str, name: str) -> None:
        """The version of the library that ``name`` belongs to, as a part."""
        if owner == USER:
            self.cannot(f"the compiled code of {name}")
        elif owner != OURS:
            label = f"the version of {owner}"
            version = version_of(owner)
            if version is None:
                self.cannot(label)
            self.parts[label] = text(version or "unknown")

    # --- values ---------------------------------------------------------------

    def spread(self, noun: str, value: Any) -> bytes:
        """A value that has a name: each field of an object is a part of its own."""
        bound = value.__self__ if type(value) is types.MethodType else value
        if not self._has_fields(bound):
            return self.encode(value)
        owner = f" of {noun}" if noun else ""
        self._alive.append(bound)
        held = [
            part
            for name, inner in self._fields(bound)
            for part in (
                text(name),
                self.part(
                    ("field", id(bound), name),
                    f"the field {name}{owner}",
                    functools.partial(self.spread, f"{name}{owner}", inner),
                ),
            )
        ]
        head = [functions.class_reference(self, type(bound))]
        if bound is not value:
            head.append(self.encode(value.__func__))
        return joined(b"fields", [*head, *held])

    def _has_fields(self, value: Any) -> bool:
        cls = type(value)
        if cls in ATOMS or id(value) in self.known or issubclass(cls, _CODE):
            return False
        layout = self.layout(cls)
        plain = not (layout.base or layout.moving or layout.opaque or layout.described)
        return (
            plain
            and owner_of_module(cls.__module__) in (USER, OURS)
            and objects.state_of(value) is None
        )

    def layout(self, cls: type) -> objects.Layout:
        """Where objects of a class keep what they hold; read once in a walk."""
        if cls not in self._layouts:
            self._layouts[cls] = objects.layout(cls)
        return self._layouts[cls]

    def encode(self, value: Any) -> bytes:
        """A value as bytes."""
        cls = type(value)
        atom = ATOMS.get(cls)
        if atom is not None:
            return atom(value)
        key = id(value)
        if key in self.known:
            return b"R" + text(self.known[key])
        if key in self._done:
            return self._done[key]
        if key in self._open:
            return b"@" + text(str(len(self._open) - self._open.index(key)))
        self._alive.append(value)
        if len(self._open) >= DEEPEST:
            return self.part(
                ("deep", key), "deeply nested data", lambda: self._encoded(value)
            )
        return self._encoded(value)

    def _encoded(self, value: Any) -> bytes:
        key = id(value)
        self._open.append(key)
        try:
            found = self.read_value(value)
        except Exception:  # an object that lies about itself
            self.cannot(f"a {type(value).__name__} that cannot be read ({self.label})")
            found = b"!"
        finally:
            self._open.pop()
        self._done[key] = found
        return found

    def read_value(self, value: Any) -> bytes:
        """A value that is met for the first time."""
        cls = type(value)
        if cls is tuple or cls is list:
            return self._sequence(cls.__name__.encode(), value)
        if cls is dict:
            return joined(
                b"dict",
                [
                    self._sequence(b"keys", list(value)),
                    self._sequence(b"values", list(value.values())),
                ],
            )
        if cls is set or cls is frozenset:
            if len(value) > 1 and not all(map(objects.is_number, value)):
                self.cannot(f"the order of a {cls.__name__} ({self.label})")
            return self.members(value)
        if cls is np.ndarray:
            return self.read_array(value)
        if issubclass(cls, np.generic):
            if cls is np.object_ or issubclass(cls, np.void):
                return self.read_array(np.asarray(value))
            return joined(b"scalar", [text(value.dtype.str), value.tobytes()])
        if cls is types.FunctionType:
            return functions.reference(self, value)
        if issubclass(cls, type):
            return functions.class_reference(self, value)
        if issubclass(cls, types.ModuleType):
            return functions.module_reference(self, value)
        if cls is types.MethodType:
            return joined(b"method", map(self.encode, (value.__func__, value.__self__)))
        if cls is types.CodeType:
            return functions.code(self, value)
        if cls is types.CellType:
            return joined(b"cell", [self.encode(functions.cell_value(value))])
        if cls in _FUNCTIONS or cls in _DESCRIPTORS:
            return self._compiled(value)
        return self.read_object(value)

    def _sequence(self, tag: bytes, values: Any) -> bytes:
        run = flat(values) if len(values) > 8 else None
        if run is not None:
            return joined(tag + b"*", [run])
        return joined(tag, map(self.encode, values))

    def members(self, values: set[Any] | frozenset[Any]) -> bytes:
        """The members of a set; their order differs between processes."""
        ordered = sorted(values, key=functions.sorting_key)
        tag = type(values).__name__.encode()
        return joined(tag, sorted(map(self.encode, ordered)))

    def read_array(self, value: Any) -> bytes:
        """An array."""
        if value.dtype.hasobject or value.dtype.kind == "T":  # strings elsewhere
            held = value.reshape(-1).tolist()
            head = f"{value.dtype} {value.shape}"
            return joined(b"objects", [text(head), *map(self.encode, held)])
        if id(value) not in self._arrays:
            self._arrays[id(value)] = (numbers(value), value)
        found: bytes = self._arrays[id(value)][0]
        return found

    def _compiled(self, value: Any) -> bytes:
        """A function of C code: its name, and the object that it is bound to."""
        bound = getattr(value, "__self__", None)
        holder = getattr(value, "__objclass__", None)
        name = value.__name__
        if holder is not None:
            return joined(b"descriptor", [self.encode(holder), text(name)])
        if bound is None or objects.is_a(bound, types.ModuleType):
            module = value.__module__ or getattr(bound, "__name__", "builtins")
            return self.library(owner_of_module(module), f"{module}.{name}")
        return joined(b"bound", [text(name), self.encode(bound)])

    # --- objects --------------------------------------------------------------

    def read_object(self, value: Any) -> bytes:
        """A value of no built-in type."""
        cls = type(value)
        head = functions.class_reference(self, cls)
        known = objects.state_of(value)
        if known is not None:
            return joined(b"state", [head, self.encode(known[1])])
        name = functions.importable_name(value)
        if name is not None:
            module = getattr(value, "__module__", None) or cls.__module__
            return self.library(owner_of_module(module), name)
        layout = self.layout(cls)
        if layout.moving is not None:
            self.cannot(f"{layout.moving} ({self.label})")
            return joined(b"moving", [head])
        if layout.described:
            return joined(b"described", [head, self.encode(value.__fingerprint__())])
        foreign = callable(value) and owner_of_module(cls.__module__) != USER
        inside = objects.wrapped(value) if foreign else None
        if inside is not None:
            options = objects.dictionary(value).get("targetoptions")  # of Numba
            return joined(b"wrapper", [head, *map(self.encode, (inside, options))])
        base = layout.base
        held = [] if base is None else [self.encode(objects.BASES[base](value))]
        if layout.opaque:
            self.cannot(f"a {cls.__module__}.{cls.__qualname__} ({self.label})")
            return joined(b"opaque", [head, *held])
        for name, inner in self._fields(value):
            changed = inner is functions.MOVED
            held += [text(name), CHANGED if changed else self.encode(inner)]
        return joined(b"object", [head, *held])

    def _fields(self, value: Any) -> list[tuple[str, Any]]:
        """The fields of an object; what runs change is ``MOVED``."""
        cls = type(value)
        own = owner_of_module(cls.__module__) == USER
        layout = self.layout(cls)
        self.found.by_methods(value, self.changes)
        found = []
        for name, inner in objects.fields(value, layout.slots).items():
            if name in layout.cached:
                if own:
                    self.cannot(f"the cached value of {cls.__name__}.{name}")
                continue
            moved = self.root != INITIAL and (
                ("field", id(value), name) in self.changes.slots
                or (own and name in self.changes.of_arguments)
            )
            if moved:
                self.cannot(f"the field {name} of {cls.__name__}, which steps change")
            found.append((name, functions.MOVED if moved else inner))
        return found
