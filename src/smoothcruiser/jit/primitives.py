"""The names by which kernels use memory, without Numba.

Compiled, each is the function of ``jit.memory`` of the same name (``jit.build``). Where
a kernel is interpreted, a block of words is a list, and these functions stand for
themselves. Those over addresses have no interpreted form: a kernel reaches them through
functions of its own, which its interpreter replaces (``jit.forms.bind_parts``).

The one step of all tabular problems, in both forms.

data = (start, next_state, reward, accept, alias, player, terminal, legal,
number of actions): addresses of tables for machine code, their memoryviews for Python
(``Tables``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn


class Inlined(NamedTuple):
    """A function that machine code has inside each of its callers."""

    function: Callable[..., Any]


def int_words(block: Any) -> Any:
    """The words of a block as whole numbers."""
    return block


def float_words(block: Any) -> Any:
    """The words of a block as floats."""
    return block


def hidden(number: int) -> int:
    """The number, of which a compiler knows nothing."""
    return number


def flag_at(stop: Any) -> int:
    """A number that another thread may write."""
    return stop[0]  # type: ignore[no-any-return]


def _compiled_alone(*_arguments: Any) -> NoReturn:
    raise NotImplementedError("addresses have no interpreted form")


def address_of_word(words: Any, index: int) -> int:
    """The address of a word."""
    _compiled_alone(words, index)


def int_at(address: int, index: int) -> int:
    """A whole number at an address."""
    _compiled_alone(address, index)


def float_at(address: int, index: int) -> float:
    """A float at an address."""
    _compiled_alone(address, index)


def byte_at(address: int, index: int) -> int:
    """A byte at an address."""
    _compiled_alone(address, index)


def put_int(address: int, index: int, value: int) -> None:
    """Write a whole number at an address."""
    _compiled_alone(address, index, value)


def floats_at(address: int, shape: tuple[int, ...]) -> Any:
    """An array of floats over the memory at an address."""
    _compiled_alone(address, shape)


def invoke(
    address: int, which: int, state: int, action: int, rng: int, buffer: int
) -> int:
    """The result of the compiled function at an address, of five whole numbers."""
    _compiled_alone(address, which, state, action, rng, buffer)


def address_of(stream: Any) -> int:
    """The address of the words of a stream."""
    _compiled_alone(stream)


def stream_at(address: int) -> Any:
    """The stream whose words are at an address."""
    _compiled_alone(address)


def start_stream(stream: Any, words: Any, row: int) -> None:
    """Let a mirrored stream begin anew with row ``row`` of a table of words."""
    stream.restart(words[row])


def bit_words(address: int) -> Any:
    """The words from an address on, without a sign."""
    _compiled_alone(address)


def call_back(address: int, question: int, first: int, second: int) -> int:
    """The answer of Python's function at an address."""
    _compiled_alone(address, question, first, second)


def put_value(address: int, value: Any) -> None:
    """Write a value of any type at an address."""
    _compiled_alone(address, value)


def mirrored_at(address: int) -> Any:
    """The mirrored stream whose words are at an address."""
    _compiled_alone(address)


# the names that stand for functions of ``jit.memory`` in compiled code
PRIMITIVES = frozenset(
    {
        int_words,
        float_words,
        hidden,
        flag_at,
        address_of_word,
        int_at,
        float_at,
        byte_at,
        put_int,
        floats_at,
        invoke,
        address_of,
        stream_at,
        start_stream,
        bit_words,
        call_back,
        put_value,
        mirrored_at,
    }
)


# --- tabular problems -------------------------------------------------------------

START, NEXT_STATE, REWARD, ACCEPT, ALIAS, PLAYER, TERMINAL, LEGAL, NUM_ACTIONS = range(
    9
)


def tabular_step(data: Any, state: int, action: int, rng: Any) -> Any:
    """One sample of (reward, next state).

    It consumes one uniform number, unless the pair has a single successor.
    """
    row = state * data[NUM_ACTIONS] + action
    starts = int_words(data[START])
    slot = starts[row]
    row_size = starts[row + 1] - slot
    if row_size > 1:
        u = rng.random() * row_size
        i = int(u)
        slot += i
        if u - i >= float_words(data[ACCEPT])[slot]:
            slot = int_words(data[ALIAS])[slot]
    return float_words(data[REWARD])[slot], int_words(data[NEXT_STATE])[slot]


def tabular_reward(data: Any, state: int, action: int, rng: Any) -> Any:
    """The reward of ``tabular_step`` alone, from the same use of the stream.

    Nothing waits for it, so a processor can work on several samples at once, as long as
    it need not guess: a branch on the alias is guessed wrong in a third of all samples.
    A step has the branch, because the rest of the run waits for the next state, and a
    guess is there earlier.
    """
    row = state * data[NUM_ACTIONS] + action
    starts = int_words(data[START])
    slot = starts[row]
    row_size = starts[row + 1] - slot
    if row_size > 1:
        u = rng.random() * row_size
        i = int(u)
        slot += i
        # all bits set, or none; a compiler that saw through it would branch
        alias_mask = hidden(-int(u - i >= float_words(data[ACCEPT])[slot]))
        slot += (int_words(data[ALIAS])[slot] - slot) & alias_mask
    return float_words(data[REWARD])[slot]


def tabular_legal(data: Any, state: int, action: int) -> Any:
    """Whether the action is allowed."""
    return byte_at(data[LEGAL], state * data[NUM_ACTIONS] + action) != 0


def tabular_terminal(data: Any, state: int) -> Any:
    """Whether the state is terminal."""
    return byte_at(data[TERMINAL], state) != 0


def tabular_player(data: Any, state: int) -> Any:
    """1 for max, 2 for min."""
    return byte_at(data[PLAYER], state)
