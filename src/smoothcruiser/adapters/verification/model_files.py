"""Models that a file lists in full: states, choices, branches, labels and rewards.

Model checkers write a state's *choices* (the actions of that state alone), and for each
choice its *branches*: a probability and a next state each. Every reader of this folder
returns that as one ``ExplicitModel``, in the rows that ``tabular`` takes: action a of
state s is its choice number a, row s*A + a, where A is the largest number of choices.

A step from s by choice c along branch b pays state[s] + choice[c] + branch[b], the sum
that PRISM and Storm use. A state without choices is a *deadlock*: play stays there, as
PRISM and Storm have it, so it gets one choice that leads back to itself.

Out of scope: objectives of a model (``objective``), and the formats.

The ends of plays, by the graph and the probabilities of tables.

``circling``   states where some choice of rows keeps play inside forever
``ends_within``  (m, q): under every policy, play ends within m steps with probability q

Both are for tables that a file lists; neither is used by a search. The first reads only
which probabilities are above 0, so there is no rounding in it. The second is backward
induction, x_0 = [terminal], x_{n+1}(s) = min over a of the sum of p x_n: all terms are
nonnegative, so that after m sweeps of rows with k entries the relative error is below
m (k + 2) 2**-53, and q is lowered by ``ROUNDING``, which is more.

Files that may come from anywhere: found, and measured before they are unpacked.

A missing file gets one sentence, and so does one that is larger than ``MOST_BYTES``, as
it is or unpacked: a few kilobytes can unpack to any size. Out of scope: the contents.

Models as NumPy arrays: a sparse matrix, legal actions, the goal, the objective.

    data, indices, indptr   CSR of shape (S*A, S); row s*A + a belongs to the pair (s,
                            a)
    legal                   (S, A): the allowed actions
    goal                    (S,): states; the probability of reaching them is the value
    initial                 a state
    maximize                whether the best policy is meant, or the worst
    reference               optional: the published value; it is not used

An ``.npz`` file is a zip archive of arrays. Nothing is unpickled, and the size of every
array is compared with its header before it is read. Out of scope: rewards, players,
other labels (UMB has them).
"""

from __future__ import annotations

import math
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from lzma import LZMAError
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_error
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints, Tables

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
    num_states, num_choices = (
        len(listed.first_choice) - 1,
        len(listed.first_branch) - 1,
    )
    check_starts(file, "choices of its states", listed.first_choice, num_choices)
    check_starts(
        file, "branches of its choices", listed.first_branch, len(listed.prob)
    )
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


MAX_SWEEPS = 2000
MAX_ENTRIES_READ = 2e8  # entries that sweeps may read
ENOUGH_CHANCE = (
    0.5  # a larger q would bound the number of steps by less than half as many
)
# of q: 2000 sweeps over rows of 4,000 entries have a relative error below 9e-10
ROUNDING = 1e-9
LONGEST_ROW = 4000


def circling(tables: Tables, *, unpaid: bool) -> Bools:
    """(S,): states from which play can continue forever, if all players want it to.

    With ``unpaid`` rows that pay are left out: play can continue without a payment.
    """
    num_states, num_actions = tables.legal.shape
    entry_rows, entry_targets = _entries(tables)
    live_rows = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    if unpaid:
        live_rows = live_rows.copy()
        live_rows[entry_rows[tables.reward[tables.prob > 0.0] != 0.0]] = False
    inside = ~tables.terminal
    rows_left = np.where(
        inside, live_rows.reshape(num_states, num_actions).sum(axis=1), 0
    )
    by_target = np.argsort(entry_targets, kind="stable")
    first_entry = np.concatenate(
        [[0], np.cumsum(np.bincount(entry_targets, minlength=num_states))]
    )
    removed_states = np.flatnonzero(tables.terminal | (rows_left == 0))
    inside[removed_states] = False
    while len(removed_states):
        # rows that lead to a state that is gone go too, and states without rows
        entry_spans = [
            by_target[first_entry[s] : first_entry[s + 1]]
            for s in removed_states.tolist()
        ]
        lost_rows = np.unique(entry_rows[np.concatenate(entry_spans)])
        lost_rows = lost_rows[live_rows[lost_rows]]
        live_rows[lost_rows] = False
        np.subtract.at(rows_left, lost_rows // num_actions, 1)
        touched_states = np.unique(lost_rows // num_actions)
        removed_states = touched_states[
            (rows_left[touched_states] == 0) & inside[touched_states]
        ]
        inside[removed_states] = False
    return inside


def ends_within(tables: Tables) -> tuple[int, float] | None:
    """(m, q), or None where play may continue forever or no useful q is found soon."""
    if circling(tables, unpaid=False).any():
        return None
    num_states, num_actions = tables.legal.shape
    row_lengths = np.diff(tables.start)
    if row_lengths.max(initial=0) > LONGEST_ROW:
        return None
    usable_rows = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    entry_rows = np.repeat(np.arange(len(row_lengths)), row_lengths)
    end_chances = tables.terminal.astype(float)
    max_sweeps = int(min(MAX_SWEEPS, MAX_ENTRIES_READ // max(1, len(entry_rows))))
    for steps in range(1, max_sweeps + 1):
        row_means = np.bincount(
            entry_rows,
            weights=tables.prob * end_chances[tables.next_state],
            minlength=len(row_lengths),
        )
        worst_chances = (
            np.where(usable_rows, row_means, np.inf)
            .reshape(num_states, num_actions)
            .min(axis=1)
        )
        end_chances = np.where(tables.terminal, 1.0, np.minimum(worst_chances, 1.0))
        if end_chances.min() >= ENOUGH_CHANCE or steps == max_sweeps:
            q = float(end_chances.min()) * (1.0 - ROUNDING)
            return (steps, q) if q > 1e-6 else None
    return None


def _entries(tables: Tables) -> tuple[Ints, Ints]:
    """(row, next state) of every outcome that can happen."""
    entry_rows = np.repeat(np.arange(len(tables.start) - 1), np.diff(tables.start))
    is_used = tables.prob > 0.0
    return entry_rows[is_used], tables.next_state[is_used]


# of a file, packed or unpacked: twenty million branches of a UMB file, and below the
# memory of a user's machine
MOST_BYTES = 2**30
# errors of unpackers where bytes are missing or wrong
DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    LZMAError,
    NotImplementedError,
    RuntimeError,
)


def find_file(text: str, prefix: str) -> Path:
    """The file that a name gives, relative to the current folder."""
    try:
        file_path = Path(text).expanduser()
        is_file, num_bytes = file_path.is_file(), file_path.stat().st_size
    except (OSError, ValueError, RuntimeError) as error:  # also a null byte, ~nobody
        raise InvalidInput(
            f"{prefix}: cannot open {text!r} ({describe_error(error)}); a path is relative to "
            "the current folder and holds no comma."
        ) from error
    if not is_file:
        raise InvalidInput(
            f"{prefix}: needs a file, and {text!r} is a folder or a device."
        )
    check_size(text, num_bytes)
    return file_path


def check_size(file: str, num_bytes: int) -> None:
    """Refuse a file that is larger than it may be."""
    if num_bytes > MOST_BYTES:
        raise InvalidInput(
            f"{file} holds {num_bytes:,} bytes, and at most {MOST_BYTES:,} are read; a "
            "smaller instance of the model fits."
        )


def damage_error(file: str, error: BaseException) -> InvalidInput:
    """The error of a file that cannot be read to its end."""
    return InvalidInput(
        f"{file} is damaged, or no file of this format: {describe_error(error)}; write it again."
    )


NEEDED_ARRAYS = ("data", "indices", "indptr", "legal", "goal", "initial", "maximize")
OPTIONAL_ARRAYS = ("reference",)


def read_model(path: Path, file: str) -> tuple[ExplicitModel, dict[str, Any]]:
    """The model of an ``.npz`` file, and the objective that it names.

    Args:
        path: where it is.
        file: its name in sentences.
    """
    arrays = _read_arrays(path, file)
    missing_names = [
        array_name for array_name in NEEDED_ARRAYS if array_name not in arrays
    ]
    extra_names = sorted(set(arrays) - {*NEEDED_ARRAYS, *OPTIONAL_ARRAYS})
    if missing_names or extra_names:
        fault = (
            f"has no {missing_names[0]!r}"
            if missing_names
            else f"has {extra_names[0]!r} too"
        )
        raise InvalidInput(
            f"{file} must hold the arrays {', '.join(NEEDED_ARRAYS)} and nothing else "
            f"(but {OPTIONAL_ARRAYS[0]}), and it {fault}."
        )
    legal = arrays["legal"]
    if legal.ndim != 2 or 0 in legal.shape or legal.size > MAX_PAIRS:
        raise InvalidInput(
            f"legal of {file} must have shape (S, A) with at most {MAX_PAIRS:,} "
            f"entries, got {legal.shape}."
        )
    num_states = legal.shape[0]
    expected_shapes = {"goal": (num_states,), "initial": (), "maximize": ()}
    for array_name, shape in expected_shapes.items():
        if arrays[array_name].shape != shape:
            raise InvalidInput(
                f"{array_name} of {file} must have shape {shape}, got "
                f"{arrays[array_name].shape}."
            )
    row_starts, next_states = (
        _whole_numbers(file, array_name, arrays)
        for array_name in ("indptr", "indices")
    )
    probabilities = arrays["data"]
    if (
        len(row_starts) != legal.size + 1
        or probabilities.shape != next_states.shape
        or probabilities.ndim != 1
    ):
        raise InvalidInput(
            f"{file} is damaged: {legal.size:,} pairs need an indptr of one more, and "
            f"data as long as indices; got {len(row_starts):,}, {probabilities.shape} "
            f"and {next_states.shape}."
        )
    check_starts(file, "entries of its rows", row_starts, len(probabilities))
    check_targets(file, next_states, num_states)
    initial_state = _whole_numbers(file, "initial", arrays)
    goal = arrays["goal"].astype(np.bool_)
    model = ExplicitModel(
        file=file,
        start=row_starts,
        target=next_states,
        prob=probabilities.astype(np.float64),
        legal=legal.astype(np.bool_),
        initial=(int(initial_state),),
        labels={"goal": goal},
        rewards={},
        deadlock=~legal.astype(np.bool_).any(axis=1),
    )
    objective = {"reach": "goal", "opt": "max" if bool(arrays["maximize"]) else "min"}
    return model, objective | {"initial": int(initial_state)}


def _whole_numbers(file: str, name: str, arrays: dict[str, Any]) -> Any:
    if arrays[name].dtype.kind not in "iu":
        raise InvalidInput(
            f"{name} of {file} must hold whole numbers, got {arrays[name].dtype}."
        )
    return arrays[name].astype(np.int64)


def _read_arrays(path: Path, file: str) -> dict[str, Any]:
    """The arrays by name; none is larger than it says, and none is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_size(
                f"{file}, unpacked,", sum(member.file_size for member in members)
            )
            return {
                member.filename.removesuffix(".npy"): _read_array(
                    archive, member, file
                )
                for member in members
            }
    except InvalidInput:
        raise
    except DAMAGED as error:
        raise damage_error(file, error) from error


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: str) -> Any:
    """One array; its header is read first."""
    npy_format = np.lib.format
    with archive.open(member) as stream:
        version = npy_format.read_magic(stream)
        header_readers = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }
        if version not in header_readers:
            raise ValueError(f"{member.filename} has version {version}")
        shape, columns_first, dtype = header_readers[version](stream)
        if dtype.kind not in "biuf":
            raise InvalidInput(
                f"{member.filename} of {file} holds {dtype}, and only plain numbers "
                "are read: nothing is unpickled."
            )
        array_bytes = stream.read()
        if len(array_bytes) != math.prod(shape) * dtype.itemsize:
            raise ValueError(
                f"{member.filename} has {len(array_bytes)} bytes for {shape}"
            )
        flat_array = np.frombuffer(array_bytes, dtype=dtype)
        return flat_array.reshape(shape, order="F" if columns_first else "C")
