"""Two ways to run one kernel: interpreted by CPython, or compiled by Numba.

A kernel is a plain function over arrays and numbers. Interpreted, it starts at once and
needs no Numba: it gets memoryviews of the arrays, whose elements are Python numbers (0.1
µs for a read and a write, where NumPy's elements take 0.2 to 1.6). Compiled, it is some
hundred times faster, after seconds of compiling. Both read and write the same memory and
give the same bits, so the change from one to the other, between two calls, changes no
answer.

Which one (``KernelFamily``): kernels that are compiled together are interpreted until
they have spent as long as compiling would take, and compiled from then on. The sum is at
most about twice that of the better choice in hindsight, whatever the work. A call that
would take so long by itself is compiled at once, and so is work that is known to
(``expect``). With a second core another process begins to compile after one second
(``jit.warm``); kernels change over once the cache on disk has their code.

Meanings that differ, which kernels therefore avoid: Python raises where a float is
divided by zero or overflows in ``exp``; a memoryview has no rows (``x[i]`` of two
dimensions), no ``copy`` and no assignment of one number to a slice. A kernel that needs
rows and slices is interpreted over the arrays themselves (``views=False``).
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from smoothcruiser.jit.build import called_functions, compile_function, count_on_disk
from smoothcruiser.jit.library import has_machine, load_library, shared_machine
from smoothcruiser.run_control.clock import pause_clock

# CPU seconds of loading a family that an earlier process kept, and of importing Numba
LOADING, IMPORTING = 0.2, 0.3
LIBRARY_LOADING = 0.02  # of a wheel's library
# seconds for one element of an array in one pass of an interpreted kernel
PER_ELEMENT = 2e-7
WARMING = 1.0  # interpreted seconds before another process compiles
PATIENCE = 1.1  # how much longer than compiling takes it is waited for
LOOKING = 0.2  # seconds between two looks at the cache on disk


class KernelFamily:
    """Kernels that are compiled together, interpreted until that pays."""

    first_form: bool | None = None  # of families that are made from now on

    def __init__(self, compiling: float) -> None:
        """``compiling``: about the CPU seconds of compiling all that most calls need."""
        self.compiling, self.interpreted_seconds = compiling, 0.0
        self.is_compiled = self.first_form  # None: chosen by the seconds
        self.called: set[tuple[Any, str | None]] = set()  # kernels, with their salts
        self.num_seen, self.on_disk, self.look_time = 0, 0, -math.inf
        self.child: Any = None  # the process that compiles
        self.may_warm = True

    def kernel(
        self,
        function: Any,
        *,
        views: bool = True,
        nogil: bool = False,
        salt: str | None = None,
        parts: dict[str, types.FunctionType] | None = None,
        **replace: Any,
    ) -> Callable[..., Any]:
        """The function as the family runs it; the form is chosen at every call.

        ``parts`` take the places of named functions in both forms; ``salt`` is their
        name on disk. With a user's compiled functions there (``replace``) it is always
        compiled. ``work``: elements that a call reads, where they are more than those of
        its arrays.
        """
        own_parts = {} if parts is None else parts
        interpreted = interpreted_form(function, own_parts) if views else function
        compiled: list[Any] = []
        is_shared = not replace and (not own_parts or salt is not None)

        def compile_parts() -> Any:
            with pause_clock():  # Numba may be imported here
                replaced = {n: compile_function(part) for n, part in own_parts.items()}
                return compile_function(
                    function, nogil=nogil, salt=salt, **replaced, **replace
                )

        def run(*arguments: Any, work: float = 0.0) -> Any:
            if is_shared and self.may_use_library(arguments, work):
                machine = shared_machine(function, salt, compile_parts)
                library_call = machine.find_call(arguments)
                if library_call is not None:
                    return library_call()
            if replace or self.must_compile(function, arguments, work, salt):
                if not compiled:
                    compiled.append(
                        shared_machine(function, salt, compile_parts)
                        if is_shared  # with a user's functions in it, it has no name
                        else compile_parts()
                    )
                return compiled[0](*arguments)
            start_time = time.perf_counter()
            try:
                if views:
                    return interpreted(*map(view_memory, arguments))
                with np.errstate(all="ignore"):  # as compiled code, which never warns
                    return function(*arguments)
            finally:
                self.interpreted_seconds += time.perf_counter() - start_time

        return run

    def may_use_library(self, arguments: tuple[Any, ...], work: float) -> bool:
        """Whether a kernel that the library has is run from there."""
        return (
            self.is_compiled is None
            and bool(load_library())
            and self._seconds_interpreted(arguments, work) > LIBRARY_LOADING
        )

    def _seconds_interpreted(self, arguments: tuple[Any, ...], work: float) -> float:
        """The seconds that were spent, and about those of the next call."""
        elements = max(work, count_elements(arguments))
        return self.interpreted_seconds + elements * PER_ELEMENT

    def must_compile(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        work: float = 0.0,
        salt: str | None = None,
    ) -> bool:
        """Whether a call is compiled; once one was chosen by its seconds, all are."""
        if self.is_compiled is None:
            self.called.add((function, salt))
            seconds = self._seconds_interpreted(arguments, work)
            if seconds <= LOADING or seconds <= self.seconds_until_ready():
                return False
            self.is_compiled = True
        return self.is_compiled

    def must_load(
        self, function: Any, seconds: float, salt: str | None = None
    ) -> bool:
        """Whether a loop that its caller interprets is machine code from now on.

        ``seconds``: about those of its next call, interpreted.
        """
        work = seconds / PER_ELEMENT
        in_library = (
            self.is_compiled is None
            and self.interpreted_seconds + seconds > LIBRARY_LOADING
            and has_machine(function, salt)
        )
        return in_library or self.must_compile(function, (), work, salt)

    def seconds_until_ready(self) -> float:
        """About the seconds until the compiled forms of the called kernels are ready."""
        importing = 0.0 if "numba" in sys.modules else IMPORTING
        now, num_called = time.perf_counter(), len(self.called)
        if num_called > self.num_seen or now > self.look_time + LOOKING:
            self.on_disk = count_on_disk(self.called)
            self.num_seen, self.look_time = num_called, now
        if num_called and self.on_disk == num_called:
            return importing + LOADING
        patience = PATIENCE if self._is_warming() else 1.0
        return importing + patience * self.compiling

    def _is_warming(self) -> bool:
        """Whether another process compiles; it is started where it may pay."""
        if self.may_warm and self.interpreted_seconds > WARMING:
            from smoothcruiser.jit.warm import start_warming

            self.may_warm, self.child = False, start_warming(self.called)
        return self.child is not None and self.child.poll() is None

    def expect(self, seconds: float) -> None:
        """Compile before the first call where so many interpreted seconds are known."""
        if self.is_compiled is None and seconds > self.seconds_until_ready():
            self.is_compiled = True

    @contextlib.contextmanager
    def use_form(self, *, compiled: bool | None) -> Iterator[None]:
        """One form for all calls inside, for tests and measurements."""
        before, self.is_compiled = self.is_compiled, compiled
        try:
            yield
        finally:
            self.is_compiled = before


def count_elements(arguments: tuple[Any, ...]) -> int:
    """The elements of all arrays among the arguments, those of tuples included."""
    sizes = (
        count_elements(argument)
        if isinstance(argument, tuple)
        else getattr(argument, "size", 0)
        for argument in arguments
    )
    return sum(sizes)


def view_memory(argument: Any) -> Any:
    """An argument with memoryviews in the place of arrays, by column for records."""
    if isinstance(argument, np.ndarray):
        names = argument.dtype.names
        return {n: argument[n].data for n in names} if names else argument.data
    if isinstance(argument, tuple):
        views = map(view_memory, argument)
        named = hasattr(argument, "_fields")
        return type(argument)(*views) if named else tuple(views)
    return argument


class _Buffers:
    """The functions of NumPy that kernels call: buffers whose elements are numbers."""

    bool_, int64 = np.bool_, np.int64

    @staticmethod
    def empty(shape: Any, dtype: Any = np.float64) -> memoryview:
        return np.empty(shape, dtype=dtype).data

    @staticmethod
    def zeros(shape: Any, dtype: Any = np.float64) -> memoryview:
        return np.zeros(shape, dtype=dtype).data

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any = np.float64) -> memoryview:
        return np.full(shape, value, dtype=dtype).data


_interpreted: dict[Any, types.FunctionType] = {}
_twins: dict[Any, Any] = {}


def interpret_as(function: Callable[..., Any], twin: Callable[..., Any]) -> None:
    """Let interpreted kernels call ``twin``, for arithmetic that Python has not."""
    _twins[function] = twin


def interpreted_form(
    function: Any, parts: dict[str, types.FunctionType] | None = None, **constants: Any
) -> Any:
    """A copy of a kernel and of all that it calls, with ``_Buffers`` for NumPy.

    ``parts`` take the places of the functions that have their names, ``constants`` those
    of named globals. Constants in arrays become lists, which have Python's numbers.
    Copies are stored for ever, so parts and constants must be few.
    """
    parts = {} if parts is None else parts
    key = (function, frozenset(parts.items()), frozenset(constants.items()))
    if key not in _interpreted:
        scope = dict(function.__globals__)
        if "np" in scope:
            scope["np"] = _Buffers
        copy = types.FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__
        )
        _interpreted[key] = copy
        for name, called in called_functions(function).items():
            own_part = parts.get(name, called)
            if own_part in _twins:
                scope[name] = _twins[own_part]
            else:
                own_parts = parts if own_part is called else {}
                scope[name] = interpreted_form(own_part, own_parts, **constants)
        for name in function.__code__.co_names:
            if isinstance(scope.get(name), np.ndarray):
                scope[name] = scope[name].tolist()
        scope.update(constants)
    return _interpreted[key]


def bind_parts(function: Any, parts: dict[str, Any]) -> Any:
    """A copy of a kernel, for one problem, in which ``parts`` stand for named globals.

    The kernels that it calls see the parts, too.
    """
    scope = function.__globals__ | parts
    for name, called in called_functions(function).items():
        if name not in parts:
            scope[name] = bind_parts(called, parts)
    return types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__
    )
