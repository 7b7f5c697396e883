"""The dependencies of the machine code of a user's functions.

Numba freezes globals and closures when it compiles: a function that was compiled
before a global was changed goes on with the old value. So the fingerprint of a function
does not tell the sources of its machine code, unless it was taken when the code was
made. ``watch`` notes the fingerprints of all functions at the time that Numba compiles
them, and ``is_fresh`` says whether a new process would make the same machine code
now. ``machine_code`` finds the dependencies of a function.
"""

from __future__ import annotations

import gc
import weakref
from functools import cache
from typing import Any

from smoothcruiser.problem.fingerprint import Fingerprint, read_all
from smoothcruiser.problem.fingerprint.changes import Changes
from smoothcruiser.problem.fingerprint.machine_code import CodeWalker, extensions
from smoothcruiser.problem.fingerprint.walk import Walker

# Packages compiled anew in every process, from sources with known digests.
OURS = ("numba", "smoothcruiser", "llvmlite")
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
        f"what {module_name} has added to Numba" for module_name in sorted(extensions())
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
            if own_cache or noted_digest == MIXED or noted_digest != _digest(candidate):
                return False
    return True


def _is_users(dispatcher: Any) -> bool:
    module_name = str(getattr(dispatcher.py_func, "__module__", ""))
    return module_name.split(".", maxsplit=1)[0] not in OURS


def _digest(dispatcher: Any) -> str:
    """The digest of a function as it is now; ``MIXED`` if nobody can tell."""
    try:
        fingerprint, _ = _read_functions({"step": dispatcher})
    except Exception:  # never in the way of the user's own compiling
        return MIXED
    return MIXED if fingerprint.unseen else fingerprint.digest
