"""Calls of a problem's functions by address, for a machine that all users share.

The engine's machine with a user's step inlined takes seconds to compile, in every
process. Here the machine knows no step: it calls one compiled function by its address,
which serves all functions of a problem (``states.word_functions``). So one machine serves every
user, and comes ready from Numba's disk cache. States are words in memory, and to the
machine a state is an address:

  state    [W, w_1, ..., w_W]            words as in ``states.codec``
  buffer   [number, W, w_1, ..., w_W]    the result of a call: a reward or a bound, and
                                         the next state

The machine's ``data`` is (address of the function, address of the buffer). Errors that
the user's code raises come out of the machine as if the code stood in it.

``parts`` are those of the engine's machine (``engines.compiled.kernel``).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from smoothcruiser.jit.build import compile_function, source_fingerprint
from smoothcruiser.jit.primitives import address_of, float_at, int_at, invoke, put_int

# codes of the requests
STEP, LEGAL, TERMINAL, PLAYER, BELOW, ABOVE = range(6)
WORD = 8  # bytes
AFTER = 2 * WORD  # where the words of the next state lie in a buffer


def step(data: Any, state: int, action: int, rng: Any) -> Any:
    """One call of the user's step; its next state is in the buffer."""
    end_flag = invoke(data[0], STEP, state + WORD, action, address_of(rng), data[1])
    return float_at(data[1], 0), data[1] + WORD, end_flag != 0


def leaf(data: Any, state: int, action: int, rng: Any) -> Any:
    """``step`` without the next state."""
    end_flag = invoke(data[0], STEP, state + WORD, action, address_of(rng), data[1])
    return float_at(data[1], 0), end_flag != 0


def legal(data: Any, state: int, action: int) -> bool:
    """Whether an action is legal."""
    legal_flag = invoke(data[0], LEGAL, state + WORD, action, 0, data[1])
    return bool(legal_flag != 0)


def terminal(data: Any, state: int) -> bool:
    """Whether the episode is over."""
    terminal_flag = invoke(data[0], TERMINAL, state + WORD, 0, 0, data[1])
    return bool(terminal_flag != 0)


def player(data: Any, state: int) -> Any:
    """1 or 2; 0 stands for everything else."""
    return invoke(data[0], PLAYER, state + WORD, 0, 0, data[1])


def below(data: Any, state: int) -> Any:
    """The user's lower bound on V."""
    invoke(data[0], BELOW, state + WORD, 0, 0, data[1])
    return float_at(data[1], 0)


def above(data: Any, state: int) -> Any:
    """The user's upper bound on V."""
    invoke(data[0], ABOVE, state + WORD, 0, 0, data[1])
    return float_at(data[1], 0)


def load(address: int) -> int:
    """A state is its address."""
    return address


def store(address: int, state: int) -> None:
    """Copy a state to an address."""
    if address != state:
        for i in range(int_at(state, 0) + 1):
            put_int(address, i, int_at(state, i))


def keep(address: int, state: int) -> int:
    """Copy a next state out of the buffer, which the next call writes again."""
    for i in range(int_at(state, 0) + 1):
        put_int(address, i, int_at(state, i))
    return address


# --- samplers over rows of words, and over whole numbers --------------------------


def load_row(address: int) -> int:
    """The state with its words at an address; nobody reads the word before them."""
    return address - WORD


def store_row(address: int, state: int) -> None:
    """Copy the words of a state to an address."""
    for i in range(int_at(state, 0)):
        put_int(address, i, int_at(state, i + 1))


def number_step(data: Any, state: int, action: int, rng: Any) -> Any:
    """The user's step over whole numbers; ``data[2]`` is memory for the state."""
    put_int(data[2], 0, state)
    end_flag = invoke(data[0], STEP, data[2], action, address_of(rng), data[1])
    return float_at(data[1], 0), int_at(data[1], 2), end_flag != 0


def row_parts() -> dict[str, Any]:
    """The parts of a loop that samples rows of words."""
    row_functions = {"STEP": step, "LOAD": load_row, "STORE": store_row}
    return _compile_parts(row_functions)


def number_parts() -> dict[str, Any]:
    """The parts of a loop that samples whole numbers."""
    return _compile_parts({"STEP": number_step})


def _compile_parts(functions: dict[str, Any]) -> dict[str, Any]:
    compiled_parts = {
        name: compile_function(function) for name, function in functions.items()
    }
    return compiled_parts | {"salt": name_parts()}


@cache
def name_parts() -> str:
    """The salt of machines with these parts.

    Callers and functions have to come from one version of Numba, whose calls they are.
    """
    return f"by_address_{source_fingerprint(step)}_{version('numba')}"


# --- engines --------------------------------------------------------------------


def parts() -> dict[str, Any]:
    """The parts of the shared machine, and the salt of their cache."""
    functions = {
        "STEP": step,
        "LEAF": leaf,
        "LEGAL": legal,
        "TERMINAL": terminal,
        "PLAYER": player,
        "BELOW": below,
        "ABOVE": above,
        "LOAD": load,
        "STORE": store,
        "KEEP": keep,
    }
    # Every state lies in memory, so one machine can serve arrays and numbers, with
    # bounds on V or without.
    return _compile_parts(functions) | {"FRAGILE": True, "BOUNDED": True}
