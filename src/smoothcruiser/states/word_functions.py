"""A problem's functions as one compiled function over words.

``compile_functions`` compiles all functions of a problem into one, which takes five
whole numbers: the code of the request, the address of the state's words, the action,
the address of the stream, and the address of a buffer (``jit.by_address``). Nothing
else has to be compiled for a user's own step before a run can begin. It is compiled once
per process: machine code of users' functions is not stored, since nobody can list all
that it depends on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.jit.by_address import AFTER, BELOW, LEGAL, PLAYER, STEP, TERMINAL
from smoothcruiser.jit.memory import put_float
from smoothcruiser.jit.oracle import next_state_type, step_part
from smoothcruiser.jit.random.stream_type import stream_at
from smoothcruiser.states.codec import StateCodec

NUMBERS = 5  # arguments of the function
# Arithmetic that the compiler may reorder (fastmath): its bits would depend on the code
# around it.
FAST = re.compile(
    r"= (?:tail )?(?:fadd|fsub|fmul|fdiv|frem|fneg|fcmp|call) "
    r"(?:fast|reassoc|nnan|ninf|nsz|arcp|contract|afn) "
)


class UserFunctions(NamedTuple):
    """The compiled function of one problem and one type of state."""

    function: Any  # a Numba dispatcher
    address: int  # of its machine code
    codec: StateCodec

    @property
    def size(self) -> int:
        """The words of a state."""
        return self.codec.size

    def words(self, state: Any) -> Any:
        """A state in the form of ``jit.by_address``, as an array of whole numbers."""
        return np.insert(self.codec.encode([state])[0], 0, self.size)

    def buffer(self) -> Any:
        """Memory for the results of a call."""
        call_buffer = np.zeros(2 + self.size, dtype=np.int64)
        call_buffer[1] = self.size
        return call_buffer


def compile_functions(
    functions: dict[str, Any], codec: StateCodec
) -> UserFunctions | None:
    """The functions of a problem over words; None where states have no such form.

    ``functions`` has "oracle", and of "legal", "terminal", "player", "below", "above"
    those that there are.
    """
    from numba import njit, types
    from numba.core.errors import NumbaError

    signature = (types.int64,) * NUMBERS
    if next_state_type(functions["oracle"], codec.kind) != codec.kind:
        return None
    user_function = _one_function(functions, codec)
    function = njit(
        user_function,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    try:
        function.compile(signature)
    except NumbaError:  # the machine with the functions inside names the fault
        return None
    compile_result = function.overloads[signature]
    if FAST.search(compile_result.library.get_llvm_str()):
        return None
    address = compile_result.library.get_pointer_to_function(
        compile_result.fndesc.llvm_func_name
    )
    return UserFunctions(function, address, codec)


def _one_function(
    functions: dict[str, Any], codec: StateCodec
) -> Callable[[int, int, int, int, int], int]:
    """The functions as one, by the codes of requests.

    Of absent ones nothing is compiled: everything is legal, nothing is terminal, and
    player 1 moves.
    """
    step = step_part(functions["oracle"], codec.kind)
    load, store = codec.words.load, codec.words.store
    legal, terminal = functions.get("legal"), functions.get("terminal")
    player, below = functions.get("player"), functions.get("below")
    above = functions.get("above")

    def user(which: int, state: int, action: int, rng: Any, out: int) -> int:
        if which == STEP:
            reward, after, over = step((), load(state), action, stream_at(rng))
            put_float(out, 0, reward)
            store(out + AFTER, after)
            return 1 if over else 0
        if which == LEGAL:
            if legal is not None:
                return 1 if legal(load(state), action) else 0
            return 1
        if which == TERMINAL:
            if terminal is not None:
                return 1 if terminal(load(state)) else 0
            return 0
        if which == PLAYER:
            if player is not None:
                mover = player(load(state))
                return 1 if mover == 1 else (2 if mover == 2 else 0)
            return 1
        # two branches: a common one would hold ``out`` in a register through all requests
        if which == BELOW:
            if below is not None:
                put_float(out, 0, float(below(load(state))))
            return 0
        if above is not None:
            put_float(out, 0, float(above(load(state))))
        return 0

    return user
