"""Replacement of a loop that calls the user's step by address, once that pays.

A call by address costs ``SAVED`` more than an inlined one, whatever the step does. So
compiling pays after a number of calls: those made, and those that may follow. A
thread compiles then.

``SMOOTHCRUISER_TIER`` = ``address`` or ``inlined`` selects one kind of loop for all runs;
it is for tests and measurements.

This file loads no Numba.
"""

from __future__ import annotations

import atexit
import copy
import os
import threading
from collections.abc import Callable
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.problem import Problem

VARIABLE = "SMOOTHCRUISER_TIER"
PASSES = "numba:run_pass"  # Numba's event for each pass of its compiler
ADDRESS, INLINED, AUTO = "address", "inlined", ""
# Measured (benchmarks/latency.py): the inlined machine takes about 5 s of a core, and
# a call by address about 8 ns more.
COMPILE_SECONDS, SAVED = 5.0, 10e-9
# Calls after which it would have paid to compile: whoever waits for as many loses at
# most as much again.
PAYS = COMPILE_SECONDS / SAVED
# A run that may go on for twice as many is not waited for, after a tenth of them.
EARLY, LEFT = 0.1, 2.0


def pays(calls: int, left: float = 0) -> bool:
    """Whether to compile after so many calls, if so many may follow."""
    return calls >= PAYS or (calls >= EARLY * PAYS and left >= LEFT * PAYS)


class Handover:
    """The replacement of a loop by address, for searches: they know no price."""

    def __init__(self, build: Callable[[], Any]) -> None:
        """``build`` compiles the replacement, all of it."""
        self.build, self.calls = build, 0
        self.has_begun, self.built = False, None

    def after(self, calls: int) -> Any:
        """Count calls, and return the replacement, or None until it is ready."""
        self.calls += calls
        if not self.has_begun and pays(self.calls):
            self.has_begun = True
            Builder(self._build_replacement).start()
        return self.built

    def _build_replacement(self) -> None:
        self.built = self.build()


def build_if_current(build: Callable[[], Any], spoken: Any) -> Callable[[], Any]:
    """``build``, or None if the user's functions have changed since ``spoken``.

    Machine code from the disk was not compiled in this process, so Numba would compile
    the functions in their present form: a global may have another value.
    """

    def build_current() -> Any:
        replacement = build() if spoken.is_current() else None
        return replacement if spoken.is_current() else None

    return build_current


class Builder(threading.Thread):
    """A thread that compiles; the end of the process ends it first.

    LLVM must not be at work when its library is taken down. Compiling is given up
    between two passes of the compiler.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="smoothcruiser-compile", daemon=True)
        self.work, self.over = work, False

    def run(self) -> None:
        """Compile, and give up without a word: the run goes on by address."""
        from numba.core import event

        builder = self

        class Ending(event.Listener):  # type: ignore[misc]
            def on_start(self, event: Any) -> None:
                """End this thread if the process ends."""
                if builder.over and threading.current_thread() is builder:
                    raise SystemExit

            def on_end(self, event: Any) -> None:
                """Do nothing."""

        ending = Ending()
        event.register(PASSES, ending)
        atexit.register(self._end)
        try:
            self.work()
        except BaseException:
            pass
        finally:
            event.unregister(PASSES, ending)
            atexit.unregister(self._end)

    def _end(self) -> None:
        self.over = True
        self.join()


def tier_choice() -> str:
    """The machine that ``SMOOTHCRUISER_TIER`` names; AUTO if it names none."""
    tier_name = os.environ.get(VARIABLE, AUTO)
    if tier_name not in (ADDRESS, INLINED, AUTO):
        raise InvalidInput(
            f"{VARIABLE} must be {ADDRESS!r} or {INLINED!r}, got {tier_name!r}; unset it to "
            "use both."
        )
    return tier_name


def with_compiled_step(spoken: Any, problem: Problem) -> Problem:
    """The problem with a step that calls the function that came from the disk."""
    import numba

    def step(state: Any, action: int, rng: Any) -> Any:
        if numba.typeof(state) != spoken.kind:
            return problem.oracle(state, action, rng)
        return spoken.call(state, action, rng)

    wrapped_problem = copy.copy(problem)
    object.__setattr__(wrapped_problem, "oracle", step)
    return wrapped_problem
