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
import struct
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.jit import by_address
from smoothcruiser.jit.memory import put_float
from smoothcruiser.jit.oracle import returned_type
from smoothcruiser.jit.random.stream_type import stream_at
from smoothcruiser.jit.state_words import words

NUMBERS = 5  # arguments of the function
MASK = 2**64 - 1
# Arithmetic that the compiler may reorder (fastmath): its bits would depend on the code
# around it.
FAST = re.compile(
    r"= (?:tail )?(?:fadd|fsub|fmul|fdiv|frem|fneg|fcmp|call) "
    r"(?:fast|reassoc|nnan|ninf|nsz|arcp|contract|afn) "
)

STEP_TWO = """\
    if which == 0:
        reward, after = oracle(load(state), action, stream_at(rng))
        put_float(out, 0, float(reward))
        store(out + AFTER, after)
        return 0
"""
STEP_THREE = """\
    if which == 0:
        reward, after, over = oracle(load(state), action, stream_at(rng))
        put_float(out, 0, float(reward))
        store(out + AFTER, after)
        return 1 if over else 0
"""
HEAD = "def user(which, state, action, rng, out):\n"
OTHERS = {
    "legal": """\
    if which == 1:
        return 1 if legal(load(state), action) else 0
""",
    "terminal": """\
    if which == 2:
        return 1 if terminal(load(state)) else 0
""",
    "player": """\
    if which == 3:
        mover = player(load(state))
        return 1 if mover == 1 else (2 if mover == 2 else 0)
""",
    "below": """\
    if which == 4:
        put_float(out, 0, float(below(load(state))))
        return 0
""",
    "above": """\
    if which == 5:
        put_float(out, 0, float(above(load(state))))
        return 0
""",
}
# answers for functions that a problem does not have
TAIL = "    return 0 if which == 2 else 1\n"


class UserFunctions(NamedTuple):
    """The compiled function of one problem and one type of state."""

    function: Any  # a Numba dispatcher
    address: int  # of its machine code
    kind: Any  # the Numba type of a state
    size: int  # its words
    shown: bool  # whether Python can make a state of its words: it holds no array

    def words(self, state: Any) -> Any:
        """A state in the form of ``jit.by_address``, as an array of whole numbers."""
        return np.array([self.size, *_encode_words(self.kind, state)], dtype=np.int64)

    def buffer(self) -> Any:
        """Memory for the results of a call."""
        call_buffer = np.zeros(2 + self.size, dtype=np.int64)
        call_buffer[1] = self.size
        return call_buffer

    def floats(self) -> list[bool]:
        """Which words are floats, of a state that holds no array."""
        return _float_words(self.kind)

    def state(self, words: Any) -> Any:
        """The state of these words; it holds no array."""
        return _decode_words(self.kind, words.tolist(), 0)[0]


def compile_functions(
    functions: dict[str, Any], kind: Any, state: Any
) -> UserFunctions | None:
    """The functions of a problem over words; None where states have no such form.

    ``functions`` has "oracle", and of "legal", "terminal", "player", "below", "above"
    those that there are.
    """
    from numba import njit, types
    from numba.core.errors import NumbaError

    state_form = words(kind, state)
    signature = (types.int64,) * NUMBERS
    returned_types = returned_type(functions["oracle"], kind)
    if returned_types[1] != kind:
        return None
    code_scope: dict[str, Any] = dict(functions)
    code_scope |= {
        "load": state_form.load,
        "store": state_form.store,
        "put_float": put_float,
        "stream_at": stream_at,
        "AFTER": by_address.AFTER,
    }
    present_branches = [text for name, text in OTHERS.items() if name in functions]
    step_branch = STEP_THREE if len(returned_types) == 3 else STEP_TWO
    exec(
        compile(
            "".join([HEAD, step_branch, *present_branches, TAIL]), __file__, "exec"
        ),
        code_scope,
    )
    user_function = code_scope["user"]
    user_function.__module__ = __name__
    function = njit(
        user_function, nogil=True, error_model="numpy", no_cfunc_wrapper=True
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
    return UserFunctions(function, address, kind, state_form.size, is_shown(kind))


def is_shown(kind: Any) -> bool:
    """Whether Python gets states of this type from their words without a loss."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        return all(map(is_shown, kind.types))
    return kind in (types.int64, types.float64, types.boolean)


def _float_words(kind: Any) -> list[bool]:
    from numba import types

    if isinstance(kind, types.BaseTuple):
        return [
            is_float
            for field_type in kind.types
            for is_float in _float_words(field_type)
        ]
    return [isinstance(kind, types.Float)]


def _encode_words(kind: Any, state: Any) -> list[int]:
    """The words of a state, as whole numbers with a sign."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        return [
            word
            for field_type, field_value in zip(kind.types, state, strict=True)
            for word in _encode_words(field_type, field_value)
        ]
    if isinstance(kind, types.Float):
        return list(struct.unpack("<q", struct.pack("<d", state)))
    if isinstance(kind, types.Array):
        array_bytes = np.ascontiguousarray(state).tobytes()
        padded_bytes = array_bytes + b"\0" * (-len(array_bytes) % by_address.WORD)
        return list(np.frombuffer(padded_bytes, dtype=np.int64).tolist())
    return list(struct.unpack("<q", struct.pack("<Q", int(state) & MASK)))


def _decode_words(kind: Any, words: list[int], at: int) -> tuple[Any, int]:
    """(the state with its first word at ``at``, the index after its last word)."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        field_values = []
        for field_type in kind.types:
            field_value, at = _decode_words(field_type, words, at)
            field_values.append(field_value)
        if isinstance(kind, types.BaseNamedTuple):
            return kind.instance_class(*field_values), at
        return tuple(field_values), at
    word = words[at]
    if kind == types.float64:
        return struct.unpack("<d", struct.pack("<q", word))[0], at + 1
    return bool(word) if kind == types.boolean else word, at + 1
