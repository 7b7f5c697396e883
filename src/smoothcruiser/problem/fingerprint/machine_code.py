"""A walk over all that Numba makes the machine code of a function of.

A wrong guess here is machine code from the disk that differs from the user's source, so
this walk knows little, and names everything else as unseen:

  code         functions of the user and of the libraries in ``KNOWN``, their versions
               compared; any other library may be installed anew under its version
  dispatchers  ``numba.njit`` with options, but without types of local variables, without
               signatures, without Numba's own cache, with Numba's own compiler, and with
               the default arguments that Numba has noted
  data         numbers, strings, tuples, enumerations, arrays with their layout
  types        those of numbers

Code may also extend Numba itself: a new method of a type, another meaning of a library's
function. No function names such additions, so nothing is known once anybody
but Numba and this package has done it (``extensions``).

The dependencies of the machine code of a user's functions.

Numba freezes globals and closures when it compiles: a function that was compiled
before a global was changed goes on with the old value. So the fingerprint of a function
does not tell the sources of its machine code, unless it was taken when the code was
made. ``watch`` notes the fingerprints of all functions at the time that Numba compiles
them, and ``is_fresh`` says whether a new process would make the same machine code
now. ``machine_code`` finds the dependencies of a function.
"""

from __future__ import annotations

import enum
import gc
import sys
import types
import weakref
from functools import cache
from itertools import chain
from typing import Any

from smoothcruiser.problem.fingerprint import Fingerprint, objects, read_all
from smoothcruiser.problem.fingerprint import function_code as functions
from smoothcruiser.problem.fingerprint.bytecode import Changes
from smoothcruiser.problem.fingerprint.encoding import (
    OURS,
    PYTHON,
    USER,
    encode_text,
    join_parts,
    owner_of_function,
    owner_of_module,
)
from smoothcruiser.problem.fingerprint.walk import Walker

KNOWN = (PYTHON, OURS, "numpy", "numba", "llvmlite")
# They may extend Numba. ``abc`` makes Numba's classes for ``overload``, which name the
# function that they are for.
TRUSTED = ("numba", "llvmlite", "abc", OURS)
TYPING = ("functions", "attributes", "globals")
LOWERING = ("functions", "getattrs", "setattrs", "casts", "constants")
METACLASSES = (type, enum.EnumMeta)  # of the user's classes; not of ``jitclass``


class CodeWalker(Walker):
    """A walk for which everything is unseen that is not known."""

    def __init__(self, changes: Changes, arrays: dict[int, Any]) -> None:
        super().__init__(changes, arrays)
        self.dispatchers: list[Any] = []  # that were met, and are not a library's

    def library(self, owner: str, name: str) -> bytes:
        """A reference to something of a library."""
        if owner not in KNOWN:
            self.mark_unseen(f"the code of {name}")
        return super().library(owner, name)

    def read_value(self, value: Any) -> bytes:
        """A value that is met for the first time."""
        cls = type(value)
        if cls is types.FunctionType:
            if owner_of_function(value) not in (USER, *KNOWN):
                self.mark_unseen(f"the code of {value.__qualname__}")
        elif (
            issubclass(cls, type)
            and cls not in METACLASSES
            and owner_of_module(value.__module__) == USER
        ):
            self.mark_unseen(f"the class {value.__qualname__}")
        return super().read_value(value)

    def read_array(self, value: Any) -> bytes:
        """An array; code can tell its layout."""
        layout_text = f"{value.dtype!r} {value.strides} {value.flags.aligned}"
        return join_parts(
            b"layout", [super().read_array(value), encode_text(layout_text)]
        )

    def read_object(self, value: Any) -> bytes:
        """A value of no built-in type."""
        from numba.core import types as kinds
        from numba.core.registry import CPUDispatcher

        cls = type(value)
        if functions.importable_name(value) is not None:
            return super().read_object(value)
        if cls is CPUDispatcher:
            self.dispatchers.append(value)
            if not _is_plain(value):
                self.mark_unseen(f"how {value.py_func.__qualname__} is compiled")
        elif issubclass(cls, kinds.Number | kinds.Boolean):
            return join_parts(b"type", [encode_text(str(value))])
        elif not (
            issubclass(cls, tuple | enum.Enum)
            or value is functions.MOVED
            or value is functions.MISSING
            or objects.state_of(value) is not None
        ):
            self.mark_unseen(f"a {cls.__module__}.{cls.__qualname__} ({self.label})")
        return super().read_object(value)


def _is_plain(dispatcher: Any) -> bool:
    """Whether a dispatcher is known by its function and options alone."""
    from numba.core.caching import NullCache
    from numba.core.compiler import Compiler

    return (
        not dispatcher.locals
        and dispatcher._can_compile  # without signatures, which would convert numbers
        and dispatcher._compiler.pipeline_class is Compiler
        and isinstance(dispatcher._cache, NullCache)
        and _has_noted_defaults(dispatcher)
    )


def _has_noted_defaults(dispatcher: Any) -> bool:
    """Whether the defaults that Numba noted are still those of the function."""
    from numba.core.utils import pysignature

    noted_parameters = dispatcher._compiler.pysig.parameters.values()
    current_parameters = pysignature(dispatcher.py_func).parameters.values()
    return [id(parameter.default) for parameter in noted_parameters] == [
        id(parameter.default) for parameter in current_parameters
    ]


def extensions() -> set[str]:
    """The modules that have extended Numba, besides Numba and this package."""
    from numba.core import imputils, rewrites
    from numba.core.typing import templates

    typing_registries, lowering_registries = (
        _registries(templates.Registry),
        _registries(imputils.Registry),
    )
    function_lists, attribute_lists, value_lists = (
        [getattr(registry, list_name) for registry in typing_registries]
        for list_name in TYPING
    )
    other_lists = [
        getattr(registry, list_name)
        for registry in lowering_registries
        for list_name in LOWERING
    ]
    other_lists += rewrites.rewrite_registry.rewrites.values()
    return _extensions(function_lists, attribute_lists, value_lists, other_lists)


def _registries(kind: type) -> list[Any]:
    """The registries of Numba, those too that it has not read yet."""
    modules = [
        sys.modules[module_name]
        for module_name in sys.modules
        if module_name.startswith("numba.")
    ]
    registries_by_id = {
        id(candidate): candidate
        for module in modules
        for candidate in vars(module).values()
        if isinstance(candidate, kind)
    }
    return list(registries_by_id.values())


_extensions_by_size: dict[int, set[str]] = {}


def _extensions(
    function_lists: Any, attribute_lists: Any, value_lists: Any, other_lists: Any
) -> set[str]:
    """The same, looked for again when the lists of Numba have grown."""
    num_entries = sum(
        map(len, chain(function_lists, attribute_lists, value_lists, other_lists))
    )
    if num_entries not in _extensions_by_size:
        template_classes = [*chain(*function_lists, *attribute_lists)]
        module_names = set()
        for value, template_class in chain(*value_lists):
            template_classes += getattr(template_class, "templates", ())
            value_module = getattr(value, "__module__", None)
            if value_module and owner_of_module(value_module) not in KNOWN:
                module_names.add(
                    value_module
                )  # numba.extending.register_jitable, structref
        definitions: list[Any] = [*template_classes]
        for template_class in template_classes:
            definitions += [getattr(template_class, "_overload_func", None)]
            definitions += [getattr(template_class, "_definition_func", None)]
        for definition in other_lists:  # of functions, in tuples, or of classes
            definitions += [
                entry[0] if type(entry) is tuple else entry for entry in definition
            ]
        module_names |= {
            maker_name
            for definition in definitions
            for maker_name in _defining_modules(definition)
        }
        _extensions_by_size.clear()
        _extensions_by_size[num_entries] = {
            module_name
            for module_name in module_names
            if module_name.partition(".")[0] not in TRUSTED
        }
    return _extensions_by_size[num_entries]


def _defining_modules(definition: Any) -> list[str]:
    """The modules of a class, or of a function and the functions that it wraps."""
    if type(definition) is not types.FunctionType:
        return (
            []
            if definition is None
            else [str(getattr(definition, "__module__", "numba"))]
        )
    cell_values = [functions.cell_value(cell) for cell in definition.__closure__ or ()]
    inner_functions = [
        function for function in cell_values if type(function) is types.FunctionType
    ]
    return [
        str(function.__globals__.get("__name__"))
        for function in [definition, *inner_functions]
    ]


# Packages compiled anew in every process, from sources with known digests.
OUR_CODE = ("numba", "smoothcruiser", "llvmlite")
MIXED = ""  # compiled more than once, from different sources

_noted: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def of_functions(functions: dict[str, Any]) -> Fingerprint:
    """The fingerprint of compiled functions under names.

    If this process has compiled one of them before it was changed, Numba goes on with
    the old code, which is not the visible one.
    """
    fingerprint, dispatchers = _read_functions(functions)
    frozen_notes = tuple(
        f"what {dispatcher.py_func.__qualname__} was compiled from"
        for dispatcher in dispatchers
        if dispatcher.overloads
        and not _noted.get(dispatcher, MIXED) == _digest(dispatcher) != MIXED
    )
    return Fingerprint(fingerprint.parts, fingerprint.unseen + frozen_notes)


def _read_functions(functions: dict[str, Any]) -> tuple[Fingerprint, list[Any]]:
    """(the fingerprint, all dispatchers that are reached)."""
    walks: list[CodeWalker] = []

    def walker(changes: Changes, arrays: dict[int, Any]) -> Walker:
        walks.append(CodeWalker(changes, arrays))
        return walks[-1]

    def walk_functions(walk: Walker) -> None:
        for name, function in functions.items():
            walk.start(name, function)

    fingerprint = read_all(walk_functions, walker)
    extension_notes = tuple(
        f"what {module_name} has added to Numba"
        for module_name in sorted(extensions())
    )
    return Fingerprint(fingerprint.parts, fingerprint.unseen + extension_notes), walks[
        -1
    ].dispatchers


@cache
def watch() -> None:
    """Note from now on the sources that users' functions are compiled from."""
    from numba.core import event

    class Noting(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            """Note a function before it is compiled."""
            dispatcher = event.data["dispatcher"]
            if _is_users(dispatcher):
                digest_now = _digest(dispatcher)
                digest_before = _noted.get(dispatcher)
                is_first = digest_before is None and not dispatcher.overloads
                _noted[dispatcher] = (
                    digest_now if is_first or digest_before == digest_now else MIXED
                )

        def on_end(self, event: Any) -> None:
            """Do nothing."""

    event.register("numba:compile", Noting())


def is_fresh(library: Any) -> bool:
    """Whether machine code was made of users' functions as they are now.

    It is not, as far as anybody knows, if a function in it was compiled before
    ``watch``, or came from Numba's own cache.
    """
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    linked_ids: set[int] = set()
    waiting_libraries = [library]
    while waiting_libraries:
        linked_library = waiting_libraries.pop()
        if id(linked_library) not in linked_ids:
            linked_ids.add(id(linked_library))
            waiting_libraries += getattr(linked_library, "_linking_libraries", ())
    for candidate in gc.get_objects():
        if not issubclass(type(candidate), Dispatcher) or not _is_users(candidate):
            continue
        if any(
            id(result.library) in linked_ids for result in candidate.overloads.values()
        ):
            noted_digest = _noted.get(candidate, MIXED)
            own_cache = not isinstance(candidate._cache, NullCache)
            if (
                own_cache
                or noted_digest == MIXED
                or noted_digest != _digest(candidate)
            ):
                return False
    return True


def _is_users(dispatcher: Any) -> bool:
    module_name = str(getattr(dispatcher.py_func, "__module__", ""))
    return module_name.split(".", maxsplit=1)[0] not in OUR_CODE


def _digest(dispatcher: Any) -> str:
    """The digest of a function as it is now; ``MIXED`` if nobody can tell."""
    try:
        fingerprint, _ = _read_functions({"step": dispatcher})
    except Exception:  # never in the way of the user's own compiling
        return MIXED
    return MIXED if fingerprint.unseen else fingerprint.digest
