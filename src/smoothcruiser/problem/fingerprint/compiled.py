"""What the machine code of a user's functions depends on.

Numba freezes globals and closures when it compiles: a function that was compiled
before a global was changed goes on with the old value. So the fingerprint of a function
does not tell what its machine code was made of, unless it was taken when the code was
made. ``watch`` notes the fingerprints of all functions at the time that Numba compiles
them, and ``is_fresh`` says whether machine code is what a new process would make now.
"""

from __future__ import annotations

import gc
import weakref
from functools import cache
from typing import Any

from smoothcruiser.problem.fingerprint import Fingerprint, read_all
from smoothcruiser.problem.fingerprint.walk import Walker

# What is made anew in every process from sources whose digests are known.
OURS = ("numba", "smoothcruiser", "llvmlite")
MIXED = ""  # compiled more than once, from different sources

_noted: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def of_functions(functions: dict[str, Any]) -> Fingerprint:
    """The fingerprint of functions under names."""

    def read(walk: Walker) -> None:
        for name, function in functions.items():
            walk.start(name, function)

    return read_all(read)


@cache
def watch() -> None:
    """Note from now on what users' functions were compiled from."""
    from numba.core import event

    class Noting(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            """Note a function before it is compiled."""
            dispatcher = event.data["dispatcher"]
            if _is_users(dispatcher):
                now = _digest(dispatcher)
                before = _noted.get(dispatcher)
                first = before is None and not dispatcher.overloads
                _noted[dispatcher] = now if first or before == now else MIXED

        def on_end(self, event: Any) -> None:
            """Do nothing."""

    event.register("numba:compile", Noting())


def is_fresh(library: Any) -> bool:
    """Whether machine code was made of what users' functions are now.

    It is not, as far as anybody knows, if a function in it was compiled before
    ``watch``, or came from Numba's own cache.
    """
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    linked: set[int] = set()
    waiting = [library]
    while waiting:
        found = waiting.pop()
        if id(found) not in linked:
            linked.add(id(found))
            waiting += getattr(found, "_linking_libraries", ())
    for each in gc.get_objects():
        if not issubclass(type(each), Dispatcher) or not _is_users(each):
            continue
        if any(id(result.library) in linked for result in each.overloads.values()):
            noted = _noted.get(each, MIXED)
            own_cache = not isinstance(each._cache, NullCache)
            if own_cache or noted == MIXED or noted != _digest(each):
                return False
    return True


def _is_users(dispatcher: Any) -> bool:
    module = str(getattr(dispatcher.py_func, "__module__", ""))
    return module.split(".", maxsplit=1)[0] not in OURS


def _digest(dispatcher: Any) -> str:
    """What a function is now; ``MIXED`` if nobody can tell."""
    try:
        found = of_functions({"step": dispatcher})
    except Exception:  # never in the way of the user's own compiling
        return MIXED
    return MIXED if found.unseen else found.digest
