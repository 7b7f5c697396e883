"""One definition for Python and compiled code.

Plain functions are rebuilt as Numba functions when they are first needed.
``compiled(f)`` copies ``f`` with its globals rebound: every plain function of
this package that ``f`` calls is compiled first, and ``replace`` puts other
functions in the place of named ones (a user's step for the engine's ``STEP``,
say). A user's plain function is compiled in the same way, with the functions of
its own module that it calls. Numba is imported here at first use, so that
``import smoothcruiser`` and ``--help`` stay fast.

The on-disk cache of Numba keys on a function's name, place and bytecode, not on
what its globals mean. Hence two rules: the name carries a fingerprint of the
sources it is made of (an edit makes a new entry), and a function with a foreign
replacement is cached only if the caller gives a ``salt`` that identifies the
replacement. Users' functions are not cached here, since their sources are not
followed (``jit.kept`` keeps them by a fingerprint).

Machine code that is found on disk (``jit.disk``) needs none of the functions that it was
made of, so these are rebuilt only before something is compiled.
"""

from __future__ import annotations

import hashlib
import types
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_PACKAGE = __name__.split(".", maxsplit=1)[0]
_built: dict[Any, Any] = {}


# Compiled code reaches these through intrinsics and methods, not by name.
_SHARED = (
    "jit/memory.py",
    "jit/stream_type.py",
    "jit/distributions.py",
    "jit/elements.py",
    "jit/disk.py",  # the form of the files
)


@cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def _resolved(name: str) -> Path:
    return Path(name).resolve()


@cache
def source_fingerprint(function: types.FunctionType) -> str:
    """Twelve hex digits over the sources of a package function and of all it calls."""
    root = _resolved(__file__).parent.parent
    files = {root / name for name in _SHARED} | {
        _resolved(f.__code__.co_filename) for f in _reachable(function)
    }
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(_digest(path))
    return digest.hexdigest()[:12]


def is_compiled(function: object) -> bool:
    """Whether ``function`` is a Numba dispatcher (checked without importing Numba)."""
    return hasattr(function, "py_func") and hasattr(function, "nopython_signatures")


def compiled(
    function: Any, *, nogil: bool = False, salt: str | None = None, **replace: Any
) -> Any:
    """The Numba form of a plain function; the same object for the same arguments."""
    return _compiled(function, Options(nogil, salt), replace)


class Options(NamedTuple):
    """How a function is compiled."""

    nogil: bool = False
    salt: str | None = None
    inner: bool = False  # called by compiled code alone


def _compiled(function: Any, options: Options, replace: dict[str, Any]) -> Any:
    if is_compiled(function):
        return function
    key = (
        function,
        options,
        tuple(sorted((name, id(value)) for name, value in replace.items())),
    )
    if key not in _built:
        # The replacements are kept alive beside the result, because an id is
        # only unique among living objects.
        _built[key] = (_build(function, options, replace), tuple(replace.values()))
    return _built[key][0]


def _build(
    function: types.FunctionType, options: Options, replace: dict[str, Any]
) -> Any:
    import numba

    from smoothcruiser.jit import libm

    libm.bind()
    nogil, salt, inner = options

    scope = dict(function.__globals__)
    fresh = types.FunctionType(
        function.__code__,
        scope,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    fresh.__module__ = function.__module__
    if _is_ours(function):
        marks = [source_fingerprint(function), salt, "inner" if inner else None]
        fresh.__qualname__ = "_".join([function.__qualname__, *filter(None, marks)])
    # Entries for Python and for C, where nobody uses them, are a fifth of the work.
    made = numba.njit(
        fresh,
        nogil=nogil,
        error_model="numpy",
        no_cpython_wrapper=inner,
        no_cfunc_wrapper=True,
    )

    def complete() -> None:
        for name in _names(function.__code__):
            part: Any = function.__globals__.get(name)
            if name in replace:
                scope[name] = replace[name]
            elif _is_part(part, function):
                used = {k: v for k, v in replace.items() if k in _deep_names(part)}
                # what holds no replacement is the same under every salt
                below = Options(salt=salt if used else None, inner=True)
                scope[name] = _compiled(part, below, used)

    if _is_ours(function) and (not replace or salt is not None):
        from smoothcruiser.jit.disk import OnDisk

        try:
            made._cache = OnDisk(fresh, complete)
        except Exception:  # no folder can be written: nothing is kept
            complete()
    else:
        complete()
    return made


def _is_ours(function: types.FunctionType) -> bool:
    return function.__module__.split(".", maxsplit=1)[0] == _PACKAGE


def _is_part(inner: object, function: types.FunctionType) -> bool:
    """Whether ``inner``, which ``function`` calls, is to be compiled with it.

    That holds for plain functions of this package or of the same module.
    """
    return isinstance(inner, types.FunctionType) and (
        _is_ours(inner) or inner.__module__ == function.__module__
    )


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _reachable(function: types.FunctionType) -> list[types.FunctionType]:
    """A function and all functions compiled with it, called directly or not."""
    found: dict[int, types.FunctionType] = {}
    waiting = [function]
    while waiting:
        current = waiting.pop()
        if id(current) in found:
            continue
        found[id(current)] = current
        for name in _names(current.__code__):
            inner: Any = current.__globals__.get(name)
            if _is_part(inner, current):
                waiting.append(inner)
    return list(found.values())


def _deep_names(function: types.FunctionType) -> set[str]:
    """Names used by a package function and by the package functions it calls."""
    return set().union(*(_names(f.__code__) for f in _reachable(function)))
