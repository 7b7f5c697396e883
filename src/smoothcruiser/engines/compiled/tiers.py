"""The choice of the machine for a shard: one that is ready, or one that is fast.

All tabular problems share two machines, with their tables as arguments: one for plain
problems (``kernel.PLAIN``) and one for all. A user's oracle can run on two, which return
the same bits:

  by address   one machine for all users, from Numba's disk cache. It calls the user's
               functions by address, so only these have to be compiled.
  inlined      the user's functions compiled into a machine of their own: a few seconds,
               in every process, and the speed of C afterwards.

A run begins by address. The inlined machine is compiled beside it, in a thread, once
that pays (``tiers``), and takes over at the next shard.

States that change their type at the first step, and operators of the user's own, are
inlined at once.

Replacement of a loop that calls the user's step by address, once that pays.

A call by address costs ``SAVED`` more than an inlined one, whatever the step does. So
compiling pays after a number of calls: those made, and those that may follow. A
thread compiles then.

``SMOOTHCRUISER_TIER`` = ``address`` or ``inlined`` selects one kind of loop for all runs;
it is for tests and measurements.

This file loads no Numba.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smoothcruiser.engines.compiled import kernel
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.oracle import (
    bounds_parts,
    next_state_type,
    oracle_parts,
    state_type,
)
from smoothcruiser.operators import Operator
from smoothcruiser.operators.dispatch import is_inlined
from smoothcruiser.operators.operator_functions import parts_of
from smoothcruiser.problem.problem import Game, Problem
from smoothcruiser.states.codec import StateCodec, codec_of, state_shapes
from smoothcruiser.states.identity import is_fixed
from smoothcruiser.states.word_functions import UserFunctions, compile_functions

VARIABLE = "SMOOTHCRUISER_TIER"
PASSES = "numba:run_pass"  # Numba's event for each pass of its compiler
ADDRESS, INLINED, AUTO = "address", "inlined", ""
# the mark, in names on the disk, of machines for the inlined operator alone
ONE_OPERATOR = "one_operator"
# Measured (benchmarks/engine/latency.py): the inlined machine takes about 5 s of a core, and
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


_machines: dict[Any, Any] = {}
_entries: dict[Any, Readiness] = {}


@dataclass(frozen=True)
class Tier:
    """A machine at one state."""

    machine: Any
    words: int  # of a state in its frames
    state: Any  # the root's, in its form
    # The data argument, and the objects that keep its memory alive. Several threads
    # run at once, so each call gets its own.
    data: Callable[[], tuple[Any, Any]]


class Readiness:
    """The state of compilation for one set of functions and one type of state."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.user_functions: Any = None
        self.calls = 0  # made by address
        self.is_building = False
        self.is_built = False  # whether the inlined machine is ready


class Tiers:
    """The machines of one job."""

    def __init__(
        self,
        problem: Problem,
        state: Any,
        price: int,
        warm_up: Callable[[Tier], None],
        choice: str = AUTO,
        *,
        plain: bool = False,
    ) -> None:
        """Get the first machine ready; ``price`` is the most calls the job can take.

        ``plain`` says that the job needs no more than ``kernel.PLAIN`` (the machine by
        address is never so: all users share it).
        """
        self.problem, self.price, self.calls_made = problem, price, 0
        self.plain = plain
        self.warm_up, self._state = warm_up, state
        self.inlined: Tier | None = None
        self.by_address: Tier | None = None
        self.choice = choice or tier_choice()
        machine_key = _key(problem, state, plain)
        self.entry = (
            _entries.setdefault(machine_key, Readiness())
            if machine_key is not None
            else Readiness()
        )
        is_ready = self.entry.is_built and self.choice == AUTO
        if machine_key is not None and self.choice != INLINED and not is_ready:
            self.by_address = self._ready_by_address()
        if self.by_address is not None:
            warm_up(self.by_address)
        else:
            self._inline()

    def best(self) -> Tier:
        """The machine for the next shard."""
        if self.by_address is None or self.choice == ADDRESS:
            tier = self.inlined or self.by_address
            assert tier is not None
            return tier
        if self.inlined is None and self.entry.is_built:
            self._inline()
        elif self.inlined is None:
            self._build_if_it_pays()
        return self.inlined or self.by_address

    def count(self, calls: int) -> None:
        """Note the calls of a shard."""
        self.calls_made += calls
        if self.inlined is None:
            self.entry.calls += calls

    def _inline(self) -> None:
        self.inlined = self._make_inlined()
        self.entry.is_built = True

    def _make_inlined(self) -> Tier:
        machine, data, state, state_words = _machine(
            self.problem, self._state, self.plain
        )
        tier = Tier(machine, state_words, state, lambda: (data, None))
        self.warm_up(tier)
        return tier

    # --- by address -----------------------------------------------------------

    def _ready_by_address(self) -> Tier | None:
        """The shared machine with the user's functions; None where it cannot run them."""
        from smoothcruiser.jit import by_address

        with self.entry.lock:
            if self.entry.user_functions is None:
                self.entry.user_functions = (
                    compile_user_functions(self.problem, self._state) or False
                )
        user_functions = self.entry.user_functions
        if user_functions is False:
            return None
        shared_parts = by_address.parts() | _operator_parts(self.problem.operator)
        if is_inlined(self.problem.operator.code):
            shared_parts["salt"] += f"_{ONE_OPERATOR}"
        machine = compile_function(kernel.run_shard, nogil=True, **shared_parts)
        root_words = user_functions.words(self._state)

        def data() -> tuple[Any, Any]:
            call_buffer = user_functions.buffer()
            return (user_functions.address, int(call_buffer.ctypes.data)), (
                call_buffer,
                root_words,
            )

        return Tier(
            machine, 1 + user_functions.size, int(root_words.ctypes.data), data
        )

    # --- the inlined machine, beside a run ------------------------------------

    def _build_if_it_pays(self) -> None:
        if pays(self.entry.calls, self.price - self.calls_made):
            self.build()

    def build(self) -> None:
        """Compile the inlined machine in a thread, unless one does already."""
        with self.entry.lock:
            if self.entry.is_building:
                return
            self.entry.is_building = True
        Builder(self._build).start()

    def _build(self) -> None:
        self.inlined = self._make_inlined()
        self.entry.is_built = True


# --- the inlined machine ------------------------------------------------------


def _key(problem: Problem, state: Any, plain: bool) -> Any:
    """The key of a user's machines; None where there is only one."""
    if problem.tables is not None or parts_of(problem.operator) is not None:
        return None
    numba_type = state_type(state)
    inlines_operator = is_inlined(problem.operator.code)
    return (
        functions_of(problem),
        numba_type,
        state_shapes(state),
        plain,
        inlines_operator,
    )


# names of a problem's functions, in the order of ``functions_of``
FUNCTION_NAMES = ("oracle", "legal", "terminal", "player", "below", "above")


def functions_of(problem: Problem) -> tuple[Any, ...]:
    """(step, legal, terminal, player, lower bound, upper bound), or None for each."""
    player = problem.player if isinstance(problem, Game) else None
    terminal = problem.terminal if callable(problem.terminal) else None
    bounds = (None, None) if problem.value_gap is None else problem.value_bounds
    return problem.oracle, problem.legal, terminal, player, *(bounds or (None, None))


def compile_user_functions(problem: Problem, state: Any) -> UserFunctions | None:
    """All functions as one compiled function; None where there is no such form."""
    named_functions = zip(FUNCTION_NAMES, functions_of(problem), strict=True)
    functions = {name: value for name, value in named_functions if value is not None}
    return compile_functions(functions, codec_of(state_type(state), state))


def compile_user_step(problem: Problem, codec: StateCodec) -> UserFunctions | None:
    """The step alone; None where it has no such form."""
    return compile_functions({"oracle": problem.oracle}, codec)


def _machine(problem: Problem, state: Any, plain: bool) -> tuple[Any, Any, Any, int]:
    """(machine, its data argument, the root state in its form, its words).

    Tabular problems share four machines: for plain problems or for all, and for the
    inlined operator or for all of ours; each user oracle has its own.
    """
    machine_parts = _operator_parts(problem.operator)
    is_ours = problem.operator.built_in  # such a machine can be kept on the disk
    oracle, legal, terminal, player, *bounds = functions_of(problem)
    if bounds[0] is not None:
        machine_parts |= {"BOUNDED": True} | bounds_parts(*bounds)
        is_ours = False
    salts = [ONE_OPERATOR] if is_inlined(problem.operator.code) else []
    if plain:
        salts.append("plain")
        machine_parts |= {"PLAIN": True}
    if problem.tables is not None:
        cache_salt = "_".join(salts) if salts and is_ours else None
        return (
            compile_function(
                kernel.run_shard, nogil=True, salt=cache_salt, **machine_parts
            ),
            problem.tables.sampling,
            int(state),
            1,
        )
    numba_type = state_type(state)
    part_values = tuple(machine_parts.values())
    machine_key = (
        oracle,
        legal,
        terminal,
        player,
        part_values,
        numba_type,
        state_shapes(state),
    )
    if machine_key not in _machines:
        codec = codec_of(next_state_type(oracle, numba_type), state)
        machine_parts |= oracle_parts(oracle, legal, terminal, player, numba_type)
        machine_parts |= {
            "FRAGILE": not is_fixed(state),
            "LOAD": codec.words.load,
            "STORE": codec.words.store,
            "KEEP": codec.words.keep,
        }
        _machines[machine_key] = (
            compile_function(kernel.run_shard, nogil=True, **machine_parts),
            codec.size,
        )
    machine, state_words = _machines[machine_key]
    return machine, (), state, state_words


def _operator_parts(operator: Operator) -> dict[str, Any]:
    custom_parts = parts_of(operator)
    if is_inlined(operator.code):
        return {
            "VALUE": compile_function(kernel.no_value),
            "BOTH": compile_function(kernel.no_both),
        }
    if custom_parts is None:
        return {}
    if not custom_parts.compiled:
        raise InvalidInput(
            "The compiled executor needs the custom operator's value and gradient "
            "as numba.njit functions; decorate them, or use executor='reference'."
        )
    return {"VALUE": custom_parts.value, "BOTH": custom_parts.both}
