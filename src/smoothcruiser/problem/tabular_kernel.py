"""The one compiled step of all tabular problems.

Their tables come as a tuple of addresses (``Tables.sampling``).

data = (start, next_state, reward, accept, alias, player, terminal, legal,
number of actions)
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.jit.memory import byte_at, float_at, hidden, int_at

START, NEXT_STATE, REWARD, ACCEPT, ALIAS, PLAYER, TERMINAL, LEGAL, NUM_ACTIONS = range(
    9
)


def tabular_step(data: Any, state: int, action: int, rng: Any) -> Any:
    """One sample of (reward, next state).

    It consumes one uniform number, unless the pair has a single successor.
    """
    row = state * data[NUM_ACTIONS] + action
    row_start = int_at(data[START], row)
    row_size = int_at(data[START], row + 1) - row_start
    slot = row_start
    if row_size > 1:
        u = rng.random() * row_size
        i = int(u)
        slot = row_start + i
        if u - i >= float_at(data[ACCEPT], slot):
            slot = int_at(data[ALIAS], slot)
    return float_at(data[REWARD], slot), int_at(data[NEXT_STATE], slot)


def tabular_reward(data: Any, state: int, action: int, rng: Any) -> Any:
    """The reward of ``tabular_step`` alone, from the same use of the stream.

    Nothing waits for it, so a processor can work on several samples at once, as long as
    it need not guess: a branch on the alias is guessed wrong in a third of all samples.
    A step has the branch, because the rest of the run waits for the next state, and a
    guess is there earlier.
    """
    row = state * data[NUM_ACTIONS] + action
    row_start = int_at(data[START], row)
    row_size = int_at(data[START], row + 1) - row_start
    slot = row_start
    if row_size > 1:
        u = rng.random() * row_size
        i = int(u)
        slot = row_start + i
        # all bits set, or none; a compiler that saw through it would branch
        alias_mask = hidden(-int(u - i >= float_at(data[ACCEPT], slot)))
        slot += (int_at(data[ALIAS], slot) - slot) & alias_mask
    return float_at(data[REWARD], slot)


def tabular_legal(data: Any, state: int, action: int) -> Any:
    """Whether the action is allowed."""
    return byte_at(data[LEGAL], state * data[NUM_ACTIONS] + action) != 0


def tabular_terminal(data: Any, state: int) -> Any:
    """Whether the state is terminal."""
    return byte_at(data[TERMINAL], state) != 0


def tabular_player(data: Any, state: int) -> Any:
    """1 for max, 2 for min."""
    return byte_at(data[PLAYER], state)
