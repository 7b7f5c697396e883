"""Models that a file lists in full: states, choices, branches, labels and rewards.

Model checkers write a state's *choices* (the actions of that state alone), and for each
choice its *branches*: a probability and a next state each. Every reader of this folder
returns that as one ``Explicit``, in the rows that ``tabular`` takes: action a of state s
is its choice number a, row s*A + a, where A is the largest number of choices.

A step from s by choice c along branch b pays state[s] + choice[c] + branch[b], which is
what PRISM and Storm add up. A state without choices is a *deadlock*: play stays there, as
PRISM and Storm have it, so it gets one choice that leads back to itself.

What this file leaves out: what is asked of a model (``objective``), and the formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.tabular import Bools, Floats, Ints

# of pairs (state, action), legal or not: their rows alone take 8 bytes each
MOST_PAIRS = 50_000_000


@dataclass(frozen=True, eq=False)
class Explicit:
    """A model with S states and at most A choices in each."""

    file: str  # what sentences call it
    start: Ints  # (S*A + 1,): where the branches of row s*A + a begin
    target: Ints  # (B,)
    prob: Floats  # (B,)
    legal: Bools  # (S, A)
    initial: tuple[int, ...]
    labels: Mapping[str, Bools]  # (S,) each
    rewards: Mapping[str, Floats]  # (B,) each: what the step along a branch pays
    deadlock: Bools  # (S,): states to which a way back to themselves was added
    num_players: int = 1  # 0 for a Markov chain
    player: Ints | None = None  # (S,): who moves, from 0 on; None where 0 does
    player_names: tuple[str, ...] = ()
    action: Ints | None = None  # (S*A,): the number of a row's word, -1 for none
    words: tuple[str, ...] = ()  # what actions are called
    constants: Mapping[str, Any] = field(default_factory=dict)  # for the shown name
    sentences: tuple[str, ...] = field(default=())  # for every certificate

    @property
    def num_states(self) -> int:
        """S, the number of states."""
        return int(self.legal.shape[0])


@dataclass(frozen=True, eq=False)
class Choices:
    """A model as files list it: choices by state, branches by choice."""

    first_choice: Ints  # (S + 1,)
    first_branch: Ints  # (C + 1,)
    target: Ints  # (B,)
    prob: Floats  # (B,)
    action: Ints | None = None  # (C,): the number of a choice's word


@dataclass(frozen=True, eq=False)
class Rewards:
    """What states, choices and branches pay; None where they pay nothing."""

    state: Floats | None = None  # (S,)
    choice: Floats | None = None  # (C,)
    branch: Floats | None = None  # (B,)


def explicit(
    file: str, listed: Choices, rewards: Mapping[str, Rewards], **more: Any
) -> Explicit:
    """The model of listed choices; what does not fit together is refused.

    Args:
        file: what sentences call it.
        listed: choices and branches.
        rewards: by name.
        more: further fields of ``Explicit``.
    """
    _check(file, listed)
    size = len(listed.first_choice) - 1
    counts, lengths = np.diff(listed.first_choice), np.diff(listed.first_branch)
    deadlock = counts == 0
    states = np.flatnonzero(deadlock)
    choice_at = listed.first_choice[states]
    branch_at = listed.first_branch[choice_at]
    counts = np.where(deadlock, 1, counts)
    width = int(counts.max())
    if size * width > MOST_PAIRS:
        raise InvalidInput(
            f"{file} has {size:,} states with up to {width:,} choices, and tables hold "
            f"{MOST_PAIRS:,} pairs of a state and an action at the most; a smaller "
            "instance of the model fits."
        )
    owner = np.repeat(np.arange(size), counts)
    row = owner * width + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    legal = np.zeros(size * width, dtype=np.bool_)
    legal[row] = True
    per_row = np.zeros(size * width, dtype=np.int64)
    per_row[row] = np.insert(lengths, choice_at, 1)
    action = None
    if listed.action is not None:
        action = np.full(size * width, -1, dtype=np.int64)
        action[row] = np.insert(listed.action, choice_at, -1)
    choice_of = np.repeat(np.arange(len(owner)), per_row[row])

    def paid(each: Rewards) -> Floats:
        total = np.zeros(len(choice_of))
        if each.state is not None:
            total += each.state[owner[choice_of]]
        if each.choice is not None:
            total += np.insert(each.choice, choice_at, 0.0)[choice_of]
        if each.branch is not None:
            total += np.insert(each.branch, branch_at, 0.0)
        return total

    return Explicit(
        file=file,
        start=np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64),
        target=np.insert(listed.target, branch_at, states).astype(np.int64),
        prob=np.insert(listed.prob, branch_at, 1.0),
        legal=legal.reshape(size, width),
        rewards={name: paid(each) for name, each in rewards.items()},
        deadlock=deadlock,
        action=action,
        **more,
    )


def _check(file: str, listed: Choices) -> None:
    """Refuse lists that contradict each other."""
    size, count = len(listed.first_choice) - 1, len(listed.first_branch) - 1
    check_starts(file, "choices of its states", listed.first_choice, count)
    check_starts(file, "branches of its choices", listed.first_branch, len(listed.prob))
    if size < 1:
        raise InvalidInput(f"{file} has no state; a model needs one at least.")
    if len(listed.target) != len(listed.prob):
        raise InvalidInput(
            f"{file} has {len(listed.target):,} targets for {len(listed.prob):,} "
            "branches; write it again."
        )
    if np.any(np.diff(listed.first_branch) == 0):
        choice = int(np.flatnonzero(np.diff(listed.first_branch) == 0)[0])
        raise InvalidInput(
            f"Choice {choice} of {file} has no branches; give it one, or drop it."
        )
    check_targets(file, listed.target, size)


def check_starts(file: str, what: str, start: Ints, end: int) -> None:
    """Refuse places that do not ascend from 0 to ``end``."""
    if (
        start.ndim != 1
        or len(start) < 1
        or start[0] != 0
        or start[-1] != end
        or np.any(np.diff(start) < 0)
    ):
        raise InvalidInput(
            f"{file} is damaged: the list of the {what} must ascend from 0 to {end:,}; "
            "write it again."
        )


def check_targets(file: str, target: Ints, size: int) -> None:
    """Refuse next states that do not exist."""
    wrong = (target < 0) | (target >= size)
    if np.any(wrong):
        raise InvalidInput(
            f"{file} is damaged: a branch leads to state "
            f"{int(target[np.flatnonzero(wrong)[0]])}, and states go from 0 to "
            f"{size - 1}; write it again."
        )
