"""The machine of a compiled run, chosen before its first call.

Tabular problems are two machines with tables as arguments: one for plain
problems (``kernel.PLAIN``) and one for all. A user's oracle can run on two, which return
the same bits:

  by address   one machine for all users, from Numba's disk cache. It calls the user's
               functions by address, so only these have to be compiled.
  inlined      the user's functions compiled into a machine of their own: a few seconds,
               in every process, and the speed of C afterwards.

The price of a schedule is known, so it decides: the inlined machine is compiled before
a run whose calls by address would take longer than that, and for states that change
their type at the first step and operators of the user's own. The prices of all jobs of a
process count together. Searches have no price: they change over between two calls of a
kernel, once their calls have taken as long as compiling takes (``Handover``).

``SMOOTHCRUISER_TIER`` = ``address`` or ``inlined`` selects one kind of loop for all runs;
it is for tests and measurements.

This file loads no Numba.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcruiser.engines.compiled import kernel
from smoothcruiser.engines.compiled.schedule_table import (
    ONE_OPERATOR,
    is_plain,
    table_salt,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit import by_address
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.library import shared_machine
from smoothcruiser.jit.oracle import (
    bounds_parts,
    next_state_type,
    oracle_parts,
    state_type,
)
from smoothcruiser.operators import Operator
from smoothcruiser.operators.dispatch import is_inlined
from smoothcruiser.operators.operator_functions import parts_of
from smoothcruiser.problem.problem import Problem
from smoothcruiser.states.identity import is_fixed

if TYPE_CHECKING:
    from smoothcruiser.states.codec import StateCodec
    from smoothcruiser.states.word_functions import UserFunctions

VARIABLE = "SMOOTHCRUISER_TIER"
ADDRESS, INLINED, AUTO = "address", "inlined", ""
# Measured (benchmarks/engine/latency.py): the inlined machine takes about 5 s of a core, and
# a call by address about 8 ns more.
COMPILE_SECONDS, SAVED = 5.0, 10e-9
# Calls from which on it pays to compile.
PAYS = COMPILE_SECONDS / SAVED


class Handover:
    """The replacement of a loop by address, for searches: they know no price."""

    def __init__(self, build: Callable[[], Any]) -> None:
        """``build`` compiles the replacement, all of it."""
        self.build, self.calls = build, 0
        self.built: Any = None

    def after(self, calls: int) -> Any:
        """Count calls, and return the replacement, or None while it does not pay."""
        self.calls += calls
        if self.built is None and self.calls >= PAYS:
            self.built = self.build()
        return self.built


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
# for one set of functions and one type of state: the functions over words (None where
# they have no such form), and the calls that all jobs so far can take
_user_functions: dict[Any, UserFunctions | None] = {}
_prices: Counter[Any] = Counter()


@dataclass(frozen=True)
class Tier:
    """A machine at one state."""

    name: str  # ADDRESS or INLINED
    machine: Any
    words: int  # of a state in its frames
    state: Any  # the root's, in its form
    # The data argument, and the objects that keep its memory alive. Several threads
    # run at once, so each call gets its own.
    data: Callable[[], tuple[Any, Any]]


def choose_tier(problem: Problem, state: Any, price: int, choice: str = AUTO) -> Tier:
    """The machine for a job that takes ``price`` calls at most."""
    choice, key = choice or tier_choice(), _key(problem, state)
    if key is not None and choice != INLINED:
        _prices[key] += price
        if choice == ADDRESS or _prices[key] < PAYS:
            tier = _by_address_tier(problem, state, key)
            if tier is not None:
                return tier
    machine, data, root_state, state_words = _machine(problem, state)
    return Tier(INLINED, machine, state_words, root_state, lambda: (data, None))


def _by_address_tier(problem: Problem, state: Any, key: Any) -> Tier | None:
    """The shared machine with the user's functions; None where it cannot run them."""
    if key not in _user_functions:
        _user_functions[key] = compile_user_functions(problem, state)
    user_functions = _user_functions[key]
    if user_functions is None:
        return None
    salt = by_address.name_parts()
    if is_inlined(problem.operator.code):
        salt += f"_{ONE_OPERATOR}"

    def compile_machine() -> Any:
        parts = by_address.parts() | _operator_parts(problem.operator) | {"salt": salt}
        return compile_function(kernel.run_shard, nogil=True, **parts)

    machine = shared_machine(kernel.run_shard, salt, compile_machine)
    root_words = user_functions.words(state)

    def data() -> tuple[Any, Any]:
        call_buffer = user_functions.buffer()
        return (user_functions.address, int(call_buffer.ctypes.data)), (
            call_buffer,
            root_words,
        )

    state_address = int(root_words.ctypes.data)
    return Tier(ADDRESS, machine, 1 + user_functions.size, state_address, data)


# --- the inlined machine ------------------------------------------------------


def _key(problem: Problem, state: Any) -> Any:
    """The key of a user's machines; None where there is only one."""
    if problem.tables is not None or parts_of(problem.operator) is not None:
        return None
    from smoothcruiser.states.codec import state_shapes

    numba_type = state_type(state)
    inlines_operator = is_inlined(problem.operator.code)
    return functions_of(problem), numba_type, state_shapes(state), inlines_operator


# names of a problem's functions, in the order of ``functions_of``
FUNCTION_NAMES = ("oracle", "legal", "terminal", "player", "below", "above")


def functions_of(problem: Problem) -> tuple[Any, ...]:
    """(step, legal, terminal, player, lower bound, upper bound), or None for each."""
    player = problem.player_function
    terminal = problem.terminal if callable(problem.terminal) else None
    bounds = (None, None) if problem.value_gap is None else problem.value_bounds
    return problem.oracle, problem.legal, terminal, player, *(bounds or (None, None))


def compile_user_functions(problem: Problem, state: Any) -> UserFunctions | None:
    """All functions as one compiled function; None where there is no such form."""
    from smoothcruiser.states.codec import codec_of
    from smoothcruiser.states.word_functions import compile_functions

    named_functions = zip(FUNCTION_NAMES, functions_of(problem), strict=True)
    functions = {name: value for name, value in named_functions if value is not None}
    return compile_functions(functions, codec_of(state_type(state), state))


def compile_user_step(problem: Problem, codec: StateCodec) -> UserFunctions | None:
    """The step alone; None where it has no such form."""
    from smoothcruiser.states.word_functions import compile_functions

    return compile_functions({"oracle": problem.oracle}, codec)


def _machine(problem: Problem, state: Any) -> tuple[Any, Any, Any, int]:
    """(machine, its data argument, the root state in its form, its words).

    Tabular problems share four machines: for plain problems or for all, and for the
    inlined operator or for all of ours; each user oracle has its own.
    """
    oracle, legal, terminal, player, *bounds = functions_of(problem)

    def parts() -> dict[str, Any]:
        machine_parts = _operator_parts(problem.operator)
        if bounds[0] is not None:
            machine_parts |= {"BOUNDED": True} | bounds_parts(*bounds)
        return machine_parts | ({"PLAIN": True} if is_plain(problem) else {})

    if problem.tables is not None:
        # such a machine can be kept on the disk
        is_ours = problem.operator.built_in and bounds[0] is None
        cache_salt = table_salt(problem) if is_ours else None

        def compile_machine() -> Any:
            return compile_function(
                kernel.run_shard, nogil=True, salt=cache_salt, **parts()
            )

        machine = (
            shared_machine(kernel.run_shard, cache_salt, compile_machine)
            if is_ours
            else compile_machine()
        )
        return machine, problem.tables.sampling, int(state), 1
    from smoothcruiser.states.codec import codec_of, state_shapes

    numba_type, machine_parts = state_type(state), parts()
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
