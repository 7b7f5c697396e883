"""Models that a file lists in full: states, choices, branches, labels and rewards.

Model checkers write a state's *choices* (the actions of that state alone), and for each
choice its *branches*: a probability and a next state each. Every reader of this folder
returns that as one ``ExplicitModel``, in the rows that ``tabular`` takes: action a of
state s is its choice number a, row s*A + a, where A is the largest number of choices.

A step from s by choice c along branch b pays state[s] + choice[c] + branch[b], the sum
that PRISM and Storm use. A state without choices is a *deadlock*: play stays there, as
PRISM and Storm have it, so it gets one choice that leads back to itself.

Out of scope: objectives of a model (``objective``), and the formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.tabular import Bools, Floats, Ints

# of pairs (state, action), legal or not: their rows alone take 8 bytes each
MAX_PAIRS = 50_000_000


@dataclass(frozen=True, eq=False)
class ExplicitModel:
    """A model with S states and at most A choices in each."""

    file: str  # its name in sentences
    start: Ints  # (S*A + 1,): where the branches of row s*A + a begin
    target: Ints  # (B,)
    prob: Floats  # (B,)
    legal: Bools  # (S, A)
    initial: tuple[int, ...]
    labels: Mapping[str, Bools]  # (S,) each
    rewards: Mapping[str, Floats]  # (B,) each: the reward of the step along a branch
    deadlock: Bools  # (S,): states to which a way back to themselves was added
    num_players: int = 1  # 0 for a Markov chain
    player: Ints | None = None  # (S,): the mover, from 0 on; None for 0 everywhere
    player_names: tuple[str, ...] = ()
    action: Ints | None = None  # (S*A,): the number of a row's word, -1 for none
    words: tuple[str, ...] = ()  # names of actions
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
    """Rewards of states, choices and branches; None where they pay nothing."""

    state: Floats | None = None  # (S,)
    choice: Floats | None = None  # (C,)
    branch: Floats | None = None  # (B,)


def build_explicit(
    file: str, listed: Choices, rewards: Mapping[str, Rewards], **more: Any
) -> ExplicitModel:
    """The model of listed choices; contradictory lists are refused.

    Args:
        file: its name in sentences.
        listed: choices and branches.
        rewards: by name.
        more: further fields of ``ExplicitModel``.
    """
    _check(file, listed)
    num_states = len(listed.first_choice) - 1
    choice_counts, branch_counts = (
        np.diff(listed.first_choice),
        np.diff(listed.first_branch),
    )
    deadlock = choice_counts == 0
    deadlock_states = np.flatnonzero(deadlock)
    choice_at = listed.first_choice[deadlock_states]
    branch_at = listed.first_branch[choice_at]
    choice_counts = np.where(deadlock, 1, choice_counts)
    max_choices = int(choice_counts.max())
    if num_states * max_choices > MAX_PAIRS:
        raise InvalidInput(
            f"{file} has {num_states:,} states with up to {max_choices:,} choices, and "
            f"tables hold {MAX_PAIRS:,} pairs of a state and an action at the most; a "
            "smaller instance of the model fits."
        )
    choice_states = np.repeat(np.arange(num_states), choice_counts)
    choice_rows = (
        choice_states * max_choices
        + np.arange(len(choice_states))
        - (np.cumsum(choice_counts) - choice_counts)[choice_states]
    )
    legal = np.zeros(num_states * max_choices, dtype=np.bool_)
    legal[choice_rows] = True
    per_row = np.zeros(num_states * max_choices, dtype=np.int64)
    per_row[choice_rows] = np.insert(branch_counts, choice_at, 1)
    row_words = None
    if listed.action is not None:
        row_words = np.full(num_states * max_choices, -1, dtype=np.int64)
        row_words[choice_rows] = np.insert(listed.action, choice_at, -1)
    choice_of = np.repeat(np.arange(len(choice_states)), per_row[choice_rows])

    def branch_rewards(reward: Rewards) -> Floats:
        step_rewards = np.zeros(len(choice_of))
        if reward.state is not None:
            step_rewards += reward.state[choice_states[choice_of]]
        if reward.choice is not None:
            step_rewards += np.insert(reward.choice, choice_at, 0.0)[choice_of]
        if reward.branch is not None:
            step_rewards += np.insert(reward.branch, branch_at, 0.0)
        return step_rewards

    return ExplicitModel(
        file=file,
        start=np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64),
        target=np.insert(listed.target, branch_at, deadlock_states).astype(np.int64),
        prob=np.insert(listed.prob, branch_at, 1.0),
        legal=legal.reshape(num_states, max_choices),
        rewards={
            reward_name: branch_rewards(reward_parts)
            for reward_name, reward_parts in rewards.items()
        },
        deadlock=deadlock,
        action=row_words,
        **more,
    )


def _check(file: str, listed: Choices) -> None:
    """Refuse lists that contradict each other."""
    num_states, num_choices = len(listed.first_choice) - 1, len(listed.first_branch) - 1
    check_starts(file, "choices of its states", listed.first_choice, num_choices)
    check_starts(file, "branches of its choices", listed.first_branch, len(listed.prob))
    if num_states < 1:
        raise InvalidInput(f"{file} has no state; a model needs one at least.")
    if len(listed.target) != len(listed.prob):
        raise InvalidInput(
            f"{file} has {len(listed.target):,} targets for {len(listed.prob):,} "
            "branches; write it again."
        )
    if np.any(np.diff(listed.first_branch) == 0):
        empty_choice = int(np.flatnonzero(np.diff(listed.first_branch) == 0)[0])
        raise InvalidInput(
            f"Choice {empty_choice} of {file} has no branches; give it one, or drop it."
        )
    check_targets(file, listed.target, num_states)


def check_starts(file: str, noun: str, start: Ints, end: int) -> None:
    """Refuse places that do not ascend from 0 to ``end``."""
    if (
        start.ndim != 1
        or len(start) < 1
        or start[0] != 0
        or start[-1] != end
        or np.any(np.diff(start) < 0)
    ):
        raise InvalidInput(
            f"{file} is damaged: the list of the {noun} must ascend from 0 to {end:,}; "
            "write it again."
        )


def check_targets(file: str, target: Ints, num_states: int) -> None:
    """Refuse next states that do not exist."""
    is_wrong = (target < 0) | (target >= num_states)
    if np.any(is_wrong):
        raise InvalidInput(
            f"{file} is damaged: a branch leads to state "
            f"{int(target[np.flatnonzero(is_wrong)[0]])}, and states go from 0 to "
            f"{num_states - 1}; write it again."
        )
