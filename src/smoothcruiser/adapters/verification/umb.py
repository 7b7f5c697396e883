"""UMB files, the *unified Markov binary* format, read by umbi.

A UMB file is a tar archive: ``index.json`` has the numbers and types of states, choices
and branches, and one file for each list holds them. ``umbi`` (MIT) reads it; sizes are
compared with the archive's contents before it does.

Rational probabilities have to sum to 1 exactly. Each becomes the nearest double, with a
relative error of at most u = 2**-53; ``tabular`` divides a row of k branches by its
sum, and so do proofs of ``exact``. All in all probabilities have relative errors of at
most eta = (2k + 6) u, and supports are as they were. A probability of reaching, or a
total of rewards of one sign, is a ratio of two sums of products of one probability per
state (docs/worlds/verification.md). So it moves by at most ((1 + eta)/(1 - eta))**S - 1
of itself, and the certificate says how much that is. A reward is the sum of three
doubles.

Refused by name: time that is not discrete, observations (POMDPs), intervals,
annotations with random values. Out of scope: valuations of variables.
"""

from __future__ import annotations

import json
import logging
import math
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.adapters.verification.model_files import (
    DAMAGED,
    Choices,
    ExplicitModel,
    Rewards,
    build_explicit,
    check_size,
    damage_error,
)
from smoothcruiser.errors import InvalidInput, MissingExtra
from smoothcruiser.problem.model.array_input import Bools, Floats, Ints

try:
    import umbi.umb as library
except ImportError as error:
    raise MissingExtra(
        "UMB files need umbi: pip install 'smoothcruiser[umb]'."
    ) from error

COUNT_FIELDS = ("#states", "#choices", "#branches", "#choice-actions", "#players")
# a list of umbi's takes about 40 bytes for each entry, and reading it 10 microseconds
MAX_ENTRIES = 20_000_000
UNIT = 2.0**-53  # of rounding to the nearest double
SMALLEST = 2.0**-1022
INTERVAL_TYPES = ("double-interval", "rational-interval")
REFUSED_TIMES = {
    "stochastic": "time is continuous (a CTMC or CTMDP)",
    "urgent-stochastic": "time is continuous (a Markov automaton)",
}


def read_model(path: Path, file: str) -> ExplicitModel:
    """The model of a UMB file.

    Args:
        path: where it is.
        file: its name in sentences.
    """
    _check_kind(file, _read_index(path, file))
    try:
        with _quiet():
            umb_file = library.read(path)
        return _model(file, umb_file)
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # umbi asserts, and its parts have errors of their own
        raise damage_error(file, error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without umbi's own lines in the log: its exceptions say the same."""
    logger = logging.getLogger("umbi")
    log_level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(log_level)


# --- before anything is unpacked ----------------------------------------------


def _read_index(path: Path, file: str) -> dict[str, Any]:
    """``index.json`` as it stands; an archive too large for memory is refused."""
    index, total_bytes = None, 0
    try:
        with tarfile.open(path, mode="r:*") as archive:
            for member in archive:
                total_bytes += tarfile.BLOCKSIZE + max(0, member.size)
                check_size(f"{file}, unpacked,", total_bytes)
                if member.name == "index.json" and member.isfile():
                    stream = archive.extractfile(member)
                    assert stream is not None
                    index = json.loads(stream.read())
    except InvalidInput:
        raise
    except (*DAMAGED, RecursionError) as error:
        raise damage_error(file, error) from error
    if not isinstance(index, dict) or not isinstance(
        index.get("transition-system"), dict
    ):
        raise InvalidInput(
            f"{file} is no UMB file: it has no index.json with a transition-system; "
            "write it with umbi, Storm or PRISM."
        )
    return index


def _check_kind(file: str, index: dict[str, Any]) -> None:
    """Refuse everything but Markov chains, MDPs and games in discrete time."""
    system = index["transition-system"]
    for name in COUNT_FIELDS:
        num_entries = system.get(name, 0)
        if isinstance(num_entries, int) and num_entries > MAX_ENTRIES:
            raise InvalidInput(
                f"{file} has {num_entries:,} {name[1:]}, and at most {MAX_ENTRIES:,} "
                "are read; a smaller instance of the model fits."
            )
    reasons = [
        REFUSED_TIMES[time] for time in [system.get("time")] if time in REFUSED_TIMES
    ]
    if system.get("#observations", 0):
        reasons.append("states are observed in part (a POMDP)")
    if _type(system, "branch-probability-type") in INTERVAL_TYPES:
        reasons.append("probabilities are intervals")
    annotation_groups = index.get("annotations")
    for group in (
        annotation_groups.values() if isinstance(annotation_groups, dict) else ()
    ):
        for name, annotation in group.items() if isinstance(group, dict) else ():
            if isinstance(annotation, dict) and "probability-type" in annotation:
                reasons.append(f"the values of {name!r} are random")
    if reasons:
        raise InvalidInput(
            f"{file} cannot be planned in: {' and '.join(reasons)}; Markov chains, "
            "MDPs and turn-based games in discrete time can."
        )


def _type(owner: dict[str, Any], name: str) -> Any:
    type_entry = owner.get(name)
    return type_entry.get("type") if isinstance(type_entry, dict) else type_entry


# --- from lists to arrays -----------------------------------------------------


def _model(file: str, umb_file: Any) -> ExplicitModel:
    system = umb_file.index.transition_system
    first_choice = _starts(umb_file.state_to_choices, system.num_states)
    first_branch = _starts(umb_file.choice_to_branches, system.num_choices)
    next_states = _whole_numbers(umb_file.branch_to_target, system.num_branches)
    _check_counts(file, system, first_choice, first_branch, next_states)
    probabilities, sentences = _probabilities(
        file, system, first_branch, umb_file.branch_to_probability
    )
    if system.num_players == 0 and np.any(np.diff(first_choice) > 1):
        raise InvalidInput(
            f"{file} has no players, but a state with several choices; say who makes "
            "them (#players)."
        )
    choice_actions = umb_file.choice_to_choice_action
    action_words = umb_file.choice_action_to_string
    return build_explicit(
        file,
        Choices(
            first_choice,
            first_branch,
            next_states,
            probabilities,
            None
            if choice_actions is None or action_words is None
            else _actions(choice_actions, action_words),
        ),
        _rewards(file, umb_file),
        initial=tuple(int(s) for s in np.flatnonzero(umb_file.state_is_initial)),
        labels=_labels(file, umb_file),
        num_players=int(system.num_players),
        player=_players(file, system, umb_file.state_to_player),
        player_names=tuple(system.player_to_name or ()),
        words=tuple(action_words or ()),
        sentences=sentences,
    )


def _starts(listed_starts: Sequence[int] | None, count: int) -> Ints:
    """Where the entries of each begin; by default each has one."""
    return (
        np.arange(count + 1)
        if listed_starts is None
        else _whole_numbers(listed_starts, count + 1)
    )


def _whole_numbers(numbers: Sequence[int] | None, count: int) -> Ints:
    """Whole numbers; 0 where the list is missing."""
    if numbers is None:
        return np.zeros(count, dtype=np.int64)
    large_numbers = np.asarray(numbers, dtype=np.uint64)
    # a number beyond all states and entries stays wrong
    return np.minimum(large_numbers, np.uint64(2**62)).astype(np.int64)


def _check_counts(
    file: str, system: Any, first_choice: Ints, first_branch: Ints, target: Ints
) -> None:
    """Refuse lists of another length than the index says."""
    lengths = (
        ("states", system.num_states, len(first_choice) - 1),
        ("choices", system.num_choices, len(first_branch) - 1),
        ("branches", system.num_branches, len(target)),
    )
    for name, stated_count, listed_count in lengths:
        if stated_count != listed_count:
            raise InvalidInput(
                f"{file} is damaged: its index says {stated_count:,} {name}, and its "
                f"lists hold {listed_count:,}; write it again."
            )


def _probabilities(
    file: str, system: Any, first_branch: Ints, listed_values: Sequence[Any] | None
) -> tuple[Floats, tuple[str, ...]]:
    """(B,) doubles, and a certificate's sentence on their rounding."""
    num_branches = system.num_branches
    if listed_values is None:  # a transition system without chance
        if np.any(np.diff(first_branch) != 1):
            raise InvalidInput(
                f"{file} has no probabilities, but a choice with several branches; "
                "they are needed to plan."
            )
        return np.ones(num_branches), ()
    if len(listed_values) != num_branches:
        raise InvalidInput(
            f"{file} is damaged: it has {len(listed_values):,} probabilities for "
            f"{num_branches:,} branches; write it again."
        )
    probabilities = _as_doubles(file, "probability", listed_values)
    rationals = [x for x in listed_values if isinstance(x, Fraction)]
    if not rationals:
        return probabilities, ()
    for choice, (begin, end) in enumerate(pairwise(first_branch.tolist())):
        row_total = sum(listed_values[begin:end], Fraction(0))
        if row_total != 1:
            raise InvalidInput(
                f"The probabilities of choice {choice} of {file} are rationals and sum "
                f"to {row_total}, not to 1; write it again."
            )
    if any(
        x > 0 and p < SMALLEST
        for p, x in zip(probabilities.tolist(), listed_values, strict=True)
    ):
        raise InvalidInput(
            f"A probability of {file} is above 0 and below {SMALLEST:.3g}, the "
            "smallest double with all its digits; leave such a branch out."
        )
    if all(
        Fraction(p) == x
        for p, x in zip(probabilities.tolist(), listed_values, strict=True)
    ):
        return probabilities, ()
    return probabilities, (
        _rounding_sentence(system.num_states, int(np.diff(first_branch).max())),
    )


def _rounding_sentence(states: int, longest: int) -> str:
    """The sentence on rationals that no double equals."""
    eta = (2 * longest + 6) * UNIT
    largest_shift = math.expm1(states * (math.log1p(eta) - math.log1p(-eta)))
    return (
        "probabilities of the file are rationals, each rounded to a double and its row "
        f"divided by its sum: relative errors of at most {eta:.2g}, which move a "
        "probability of reaching, or a total of rewards of one sign, by at most "
        f"{largest_shift:.2g} of itself"
    )


def _as_doubles(file: str, noun: str, numbers: Sequence[Any]) -> Floats:
    """Numbers as doubles; anything else is refused."""
    try:
        doubles = np.array([float(x) for x in numbers])
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"A {noun} of {file} is no number that a double can hold: {error}; write "
            "plain numbers."
        ) from error
    return doubles


def _actions(action: Sequence[int], words: Sequence[str]) -> Ints | None:
    """(C,): the number of each choice's word; -1 for none, or for an empty one."""
    word_numbers = _whole_numbers(action, len(action))
    has_word = np.array([bool(word.strip()) for word in words] + [False])
    return np.where(has_word[np.minimum(word_numbers, len(words))], word_numbers, -1)


def _players(
    file: str, system: Any, listed_players: Sequence[int] | None
) -> Ints | None:
    if listed_players is None:
        return None
    state_players = _whole_numbers(listed_players, len(listed_players))
    if len(state_players) != system.num_states or np.any(
        state_players >= system.num_players
    ):
        raise InvalidInput(
            f"{file} is damaged: it must name one of {system.num_players} players for "
            f"each of {system.num_states:,} states; write it again."
        )
    return state_players


def _labels(file: str, umb_file: Any) -> dict[str, Bools]:
    """Atomic propositions by their identifiers and their aliases."""
    num_states = umb_file.index.transition_system.num_states
    labels: dict[str, Bools] = {}
    for name, values in _list_annotations(umb_file, "aps"):
        label_values = values.get("states")
        if label_values is not None and len(label_values) == num_states:
            labels[name] = np.array(label_values, dtype=np.bool_)
        else:
            raise InvalidInput(
                f"{file} is damaged: the label {name!r} must have a value for each of "
                f"{num_states:,} states; write it again."
            )
    return labels


def _rewards(file: str, umb_file: Any) -> dict[str, Rewards]:
    system = umb_file.index.transition_system
    counts = {
        "states": system.num_states,
        "choices": system.num_choices,
        "branches": system.num_branches,
    }
    rewards: dict[str, Rewards] = {}
    for name, values in _list_annotations(umb_file, "rewards"):
        reward_parts: dict[str, Floats] = {}
        for owner_kind, listed_values in values.items():
            if len(listed_values) != counts.get(owner_kind, -1):
                raise InvalidInput(
                    f"{file} is damaged: the reward {name!r} has "
                    f"{len(listed_values):,} values for its {owner_kind}; write it "
                    "again."
                )
            reward_parts[owner_kind] = _as_doubles(
                file, f"reward {name!r}", listed_values
            )
        rewards[name] = Rewards(
            reward_parts.get("states"),
            reward_parts.get("choices"),
            reward_parts.get("branches"),
        )
    return rewards


def _list_annotations(umb_file: Any, group: str) -> list[tuple[str, dict[str, Any]]]:
    """(name, values) of a group: under its alias, if any, and its identifier."""
    value_lists = (umb_file.annotations or {}).get(group, {})
    descriptions = (umb_file.index.annotations or {}).get(group, {})
    values_by_name: dict[str, dict[str, Any]] = {}
    for name, values in value_lists.items():
        values_by_name.setdefault(descriptions[name].alias or name, values)
    for name, values in value_lists.items():
        values_by_name.setdefault(name, values)
    return list(values_by_name.items())
