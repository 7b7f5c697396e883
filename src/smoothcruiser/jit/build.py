"""One definition for Python and compiled code.

Plain functions are rebuilt as Numba functions when they are first needed.
``compile_function(f)`` copies ``f`` with its globals rebound: every plain function of
this package that ``f`` calls is compiled first, and ``replace`` puts other
functions in the place of named ones (a user's step for the engine's ``STEP``,
say). A user's plain function is compiled in the same way, with the functions of
its own module that it calls. Numba is imported here at first use, so that
``import smoothcruiser`` and ``--help`` stay fast.

On disk a function has a name with a fingerprint of the sources and constants that it is
made of: an edit makes a new entry. A function with a foreign replacement is cached only
if the caller gives a ``salt`` that identifies the replacement. Users' functions are not
cached, since their sources are not followed.

Machine code from the disk (``jit.disk_cache``) needs none of the functions that it was
made of, so these are rebuilt only before something is compiled.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Collection
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from smoothcruiser.jit.disk_cache import CodeCache, code_prefix, count_coded
from smoothcruiser.jit.primitives import PRIMITIVES, Inlined
from smoothcruiser.run_control import signal_listener
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.run_control.stop_requests import unbroken

_PACKAGE = __name__.split(".", maxsplit=1)[0]
_built: dict[Any, Any] = {}


# Compiled code reaches these through intrinsics and methods, not by name.
_SHARED = (
    "jit/memory.py",
    "jit/random/stream_type.py",
    "jit/random/distributions.py",
    "jit/random/collection_samplers.py",
    "jit/disk_cache.py",  # the form of the files
)


@cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def _resolve_path(name: str) -> Path:
    return Path(name).resolve()


@cache
def source_fingerprint(function: types.FunctionType) -> str:
    """Twelve hex digits over the sources of a package function and of all it calls."""
    package_root = _resolve_path(__file__).parent.parent
    source_files = {package_root / name for name in _SHARED} | {
        _resolve_path(f.__code__.co_filename) for f in _reachable(function)
    }
    digest = hashlib.sha256()
    for path in sorted(source_files):
        digest.update(_digest(path))
    digest.update(repr(sorted(_constants(function))).encode())
    return digest.hexdigest()[:12]


def _constants(function: types.FunctionType) -> set[str]:
    """The constants in compiled code, which may stand in files without a function."""
    constants = set()
    for part in _reachable(function):
        for name in _global_names(part.__code__):
            value = part.__globals__.get(name)
            if isinstance(value, bool | int | float | str | tuple):
                constants.add(f"{name} = {value!r}")
    return {text for text in constants if " at 0x" not in text}


def is_compiled(function: object) -> bool:
    """Whether ``function`` is a Numba dispatcher (checked without importing Numba)."""
    return hasattr(function, "py_func") and hasattr(function, "nopython_signatures")


def compile_function(
    function: Any,
    *,
    nogil: bool = False,
    salt: str | None = None,
    inlined: bool = False,
    **replace: Any,
) -> Any:
    """The Numba form of a plain function; the same object for the same arguments.

    ``inlined``: machine code has it inside each of its callers.
    """
    return _compile_once(function, Options(nogil, salt, inlined=inlined), replace)


def hear_stops_in(*functions: Any) -> None:
    """Let a second Ctrl-C end these functions where they are machine code.

    Python calls them with its lock in its hand. Costs a compiled loop, kept on disk, when
    the next run begins, before any limit of it is set; in a run under way at once. There
    a stop waits until it is compiled.
    """
    if not any(map(is_compiled, functions)):
        return
    is_running = signal_listener.current_listener() is not None
    with unbroken() if is_running else nullcontext():
        signal_listener.use_unlocked_form(_unlocked_listen)


def _unlocked_listen(listener: signal_listener.SignalListener) -> Any:
    """``listen`` over the C library's functions, for a thread without Python's lock."""
    with pause_clock():
        import numpy as np
        from numba import typeof, types

        int32, int64 = types.int32, types.int64
        compiled = compile_function(
            signal_listener.listen,
            nogil=True,
            salt="libc",
            read=types.ExternalFunction("read", int64(int32, int64, int64)),
            write=types.ExternalFunction("write", int64(int32, int64, int64)),
            clock_gettime=types.ExternalFunction("clock_gettime", int32(int32, int64)),
            end_process=types.ExternalFunction("_exit", types.void(int32)),
        )
        number = np.ctypeslib.as_array(listener.number)
        words = np.ctypeslib.as_array(listener.words)
        compiled.compile(tuple(map(typeof, (0, number, 0, words))))
    return lambda descriptor, _, address, __: compiled(
        descriptor, number, address, words
    )


class Options(NamedTuple):
    """How a function is compiled."""

    nogil: bool = False
    salt: str | None = None
    inner: bool = False  # called by compiled code alone
    inlined: bool = False  # and put into it, where the compiler would not by itself


def _compile_once(function: Any, options: Options, replace: dict[str, Any]) -> Any:
    if is_compiled(function):
        return function
    if function in PRIMITIVES:
        from smoothcruiser.jit import memory

        return getattr(memory, function.__name__)
    build_key = (
        function,
        options,
        tuple(sorted((name, id(value)) for name, value in replace.items())),
    )
    if build_key not in _built:
        # The replacements are kept alive beside the result, because an id is
        # only unique among living objects.
        _built[build_key] = (
            _build(function, options, replace),
            tuple(replace.values()),
        )
    return _built[build_key][0]


@cache
def _inline(inlined: Inlined) -> Any:
    """The compiled form of a function that is put into its callers.

    The compiler does not do so by itself.
    """
    import numba

    return numba.njit(inlined.function, forceinline=True, error_model="numpy")


def _build(
    function: types.FunctionType, options: Options, replace: dict[str, Any]
) -> Any:
    import numba

    nogil, salt, inner, inlined = options

    global_scope = dict(function.__globals__)
    fresh_function = types.FunctionType(
        function.__code__,
        global_scope,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    fresh_function.__module__ = function.__module__
    if _is_ours(function):
        fresh_function.__qualname__ = name_on_disk(function, salt, inner)
    # Entries for Python and for C, where nobody uses them, are a fifth of the work.
    dispatcher = numba.njit(
        fresh_function,
        nogil=nogil,
        error_model="numpy",
        forceinline=inlined,
        no_cpython_wrapper=inner,
        no_cfunc_wrapper=True,
    )

    def fill_scope() -> None:
        for name in _global_names(function.__code__):
            inner_function: Any = function.__globals__.get(name)
            if name in replace:
                global_scope[name] = replace[name]
            elif isinstance(inner_function, Inlined):
                global_scope[name] = _inline(inner_function)
            elif _is_part(inner_function, function):
                used_replacements = {
                    k: v
                    for k, v in replace.items()
                    if k in _deep_names(inner_function)
                }
                # a function without replacements is the same under every salt
                inner_options = Options(
                    salt=salt if used_replacements else None, inner=True
                )
                global_scope[name] = _compile_once(
                    inner_function, inner_options, used_replacements
                )

    is_shared = _is_ours(function) and (not replace or salt is not None)
    prefix = code_prefix(function, fresh_function.__qualname__) if is_shared else None
    if prefix is None:
        fill_scope()
    else:
        dispatcher._cache = CodeCache(prefix, fill_scope)
    return dispatcher


def name_on_disk(
    function: types.FunctionType, salt: str | None, inner: bool = False
) -> str:
    """The name of a function of this package with the parts that ``salt`` identifies."""
    name_marks = [source_fingerprint(function), salt, "inner" if inner else None]
    return "_".join([function.__qualname__, *filter(None, name_marks)])


def _is_ours(function: types.FunctionType) -> bool:
    return function.__module__.split(".", maxsplit=1)[0] == _PACKAGE


def _is_part(inner: object, function: types.FunctionType) -> bool:
    """Whether ``inner``, which ``function`` calls, is to be compiled with it.

    That holds for plain functions of this package or of the same module.
    """
    return isinstance(inner, types.FunctionType) and (
        _is_ours(inner) or inner.__module__ == function.__module__
    )


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _reachable(function: types.FunctionType) -> list[types.FunctionType]:
    """A function and all functions compiled with it, called directly or not."""
    reachable: dict[int, types.FunctionType] = {}
    waiting = [function]
    while waiting:
        current = waiting.pop()
        if id(current) in reachable:
            continue
        reachable[id(current)] = current
        waiting.extend(called_functions(current).values())
    return list(reachable.values())


def called_functions(function: types.FunctionType) -> dict[str, types.FunctionType]:
    """The functions that are compiled with one, by the names it calls them by."""
    named = {
        name: function.__globals__.get(name)
        for name in _global_names(function.__code__)
    }
    return {name: f for name, f in named.items() if _is_part(f, function)}  # type: ignore[misc]


def count_on_disk(kernels: Collection[tuple[Any, str | None]]) -> int:
    """How many functions with their salts have machine code on disk.

    Numba is not imported.
    """
    return count_coded([_prefix_on_disk(*kernel) for kernel in kernels])


@cache
def _prefix_on_disk(function: types.FunctionType, salt: str | None) -> str | None:
    return code_prefix(function, name_on_disk(function, salt))


def _deep_names(function: types.FunctionType) -> set[str]:
    """Names used by a package function and by the package functions it calls."""
    return set().union(*(_global_names(f.__code__) for f in _reachable(function)))
