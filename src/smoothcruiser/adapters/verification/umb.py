"""UMB files, the *unified Markov binary* format, read by umbi.

A UMB file is a tar archive: ``index.json`` says how many states, choices and branches
there are and of what type, and one file for each list holds them. ``umbi`` (MIT) reads
it; sizes are compared with what the archive holds before it does.

Rational probabilities have to sum to 1 exactly. Each becomes the nearest double, with a
relative error of at most u = 2**-53; ``tabular`` divides a row of k branches by its sum,
and so do proofs of ``exact``. All in all probabilities have relative errors of at most
eta = (2k + 6) u, and supports are as they were. A probability of reaching, or a total of
rewards of one sign, is a ratio of two sums of products of one probability per state
(docs/worlds/verification.md). So it moves by at most ((1 + eta)/(1 - eta))**S - 1 of
itself, and the certificate says how much that is. A reward is the sum of three doubles.

Refused by name: time that is not discrete, observations (POMDPs), intervals, annotations
whose values are random. What this file leaves out: valuations of variables.
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

from smoothcruiser.adapters.verification.files import DAMAGED, check_size, damaged
from smoothcruiser.adapters.verification.model import (
    Choices,
    Explicit,
    Rewards,
    explicit,
)
from smoothcruiser.errors import InvalidInput, MissingExtra
from smoothcruiser.problem.arrays import Bools, Floats, Ints

try:
    import umbi.umb as library
except ImportError as error:
    raise MissingExtra(
        "UMB files need umbi: pip install 'smoothcruiser[umb]'."
    ) from error

COUNTED = ("#states", "#choices", "#branches", "#choice-actions", "#players")
# a list of umbi's takes about 40 bytes for each entry, and reading it 10 microseconds
MOST_ENTRIES = 20_000_000
UNIT = 2.0**-53  # of rounding to the nearest double
SMALLEST = 2.0**-1022
INTERVALS = ("double-interval", "rational-interval")
TIMES = {
    "stochastic": "time is continuous (a CTMC or CTMDP)",
    "urgent-stochastic": "time is continuous (a Markov automaton)",
}


def read(path: Path, file: str) -> Explicit:
    """The model of a UMB file.

    Args:
        path: where it is.
        file: what sentences call it.
    """
    _check_kind(file, _index(path, file))
    try:
        with _quiet():
            found = library.read(path)
        return _model(file, found)
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # umbi asserts, and its parts have errors of their own
        raise damaged(file, error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without umbi's own lines in the log: its exceptions say the same."""
    logger = logging.getLogger("umbi")
    kept = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(kept)


# --- before anything is unpacked ----------------------------------------------


def _index(path: Path, file: str) -> dict[str, Any]:
    """``index.json`` as it stands; an archive that would not fit in memory is refused."""
    index, total = None, 0
    try:
        with tarfile.open(path, mode="r:*") as archive:
            for member in archive:
                total += tarfile.BLOCKSIZE + max(0, member.size)
                check_size(f"{file}, unpacked,", total)
                if member.name == "index.json" and member.isfile():
                    stream = archive.extractfile(member)
                    assert stream is not None
                    index = json.loads(stream.read())
    except InvalidInput:
        raise
    except (*DAMAGED, RecursionError) as error:
        raise damaged(file, error) from error
    if not isinstance(index, dict) or not isinstance(
        index.get("transition-system"), dict
    ):
        raise InvalidInput(
            f"{file} is no UMB file: it has no index.json with a transition-system; "
            "write it with umbi, Storm or PRISM."
        )
    return index


def _check_kind(file: str, index: dict[str, Any]) -> None:
    """Refuse what is no Markov chain, MDP or game in discrete time, by its name."""
    system = index["transition-system"]
    for name in COUNTED:
        count = system.get(name, 0)
        if isinstance(count, int) and count > MOST_ENTRIES:
            raise InvalidInput(
                f"{file} has {count:,} {name[1:]}, and at most {MOST_ENTRIES:,} are "
                "read; a smaller instance of the model fits."
            )
    why = [TIMES[time] for time in [system.get("time")] if time in TIMES]
    if system.get("#observations", 0):
        why.append("states are observed in part (a POMDP)")
    if _type(system, "branch-probability-type") in INTERVALS:
        why.append("probabilities are intervals")
    groups = index.get("annotations")
    for group in groups.values() if isinstance(groups, dict) else ():
        for name, each in group.items() if isinstance(group, dict) else ():
            if isinstance(each, dict) and "probability-type" in each:
                why.append(f"the values of {name!r} are random")
    if why:
        raise InvalidInput(
            f"{file} cannot be planned in: {' and '.join(why)}; Markov chains, MDPs and "
            "turn-based games in discrete time can."
        )


def _type(owner: dict[str, Any], name: str) -> Any:
    given = owner.get(name)
    return given.get("type") if isinstance(given, dict) else given


# --- from lists to arrays -----------------------------------------------------


def _model(file: str, found: Any) -> Explicit:
    system = found.index.transition_system
    first_choice = _starts(found.state_to_choices, system.num_states)
    first_branch = _starts(found.choice_to_branches, system.num_choices)
    target = _whole(found.branch_to_target, system.num_branches)
    _check_counts(file, system, first_choice, first_branch, target)
    prob, sentences = _probabilities(
        file, system, first_branch, found.branch_to_probability
    )
    if system.num_players == 0 and np.any(np.diff(first_choice) > 1):
        raise InvalidInput(
            f"{file} has no players, but a state with several choices; say who makes "
            "them (#players)."
        )
    action = found.choice_to_choice_action
    words = found.choice_action_to_string
    return explicit(
        file,
        Choices(
            first_choice,
            first_branch,
            target,
            prob,
            None if action is None or words is None else _actions(action, words),
        ),
        _rewards(file, found),
        initial=tuple(int(s) for s in np.flatnonzero(found.state_is_initial)),
        labels=_labels(file, found),
        num_players=int(system.num_players),
        player=_players(file, system, found.state_to_player),
        player_names=tuple(system.player_to_name or ()),
        words=tuple(words or ()),
        sentences=sentences,
    )


def _starts(given: Sequence[int] | None, count: int) -> Ints:
    """Where the entries of each begin; by default each has one."""
    return np.arange(count + 1) if given is None else _whole(given, count + 1)


def _whole(given: Sequence[int] | None, count: int) -> Ints:
    """Whole numbers; 0 where none are given."""
    if given is None:
        return np.zeros(count, dtype=np.int64)
    large = np.asarray(given, dtype=np.uint64)
    # what is beyond every number of states and entries stays wrong
    return np.minimum(large, np.uint64(2**62)).astype(np.int64)


def _check_counts(
    file: str, system: Any, first_choice: Ints, first_branch: Ints, target: Ints
) -> None:
    """Refuse lists of another length than the index says."""
    lengths = (
        ("states", system.num_states, len(first_choice) - 1),
        ("choices", system.num_choices, len(first_branch) - 1),
        ("branches", system.num_branches, len(target)),
    )
    for name, said, came in lengths:
        if said != came:
            raise InvalidInput(
                f"{file} is damaged: its index says {said:,} {name}, and its lists hold "
                f"{came:,}; write it again."
            )


def _probabilities(
    file: str, system: Any, first: Ints, given: Sequence[Any] | None
) -> tuple[Floats, tuple[str, ...]]:
    """(B,) doubles, and what a certificate says of their rounding."""
    count = system.num_branches
    if given is None:  # a transition system without chance
        if np.any(np.diff(first) != 1):
            raise InvalidInput(
                f"{file} has no probabilities, but a choice with several branches; "
                "they are needed to plan."
            )
        return np.ones(count), ()
    if len(given) != count:
        raise InvalidInput(
            f"{file} is damaged: it has {len(given):,} probabilities for {count:,} "
            "branches; write it again."
        )
    prob = _doubles(file, "probability", given)
    exact = [x for x in given if isinstance(x, Fraction)]
    if not exact:
        return prob, ()
    for choice, (begin, end) in enumerate(pairwise(first.tolist())):
        total = sum(given[begin:end], Fraction(0))
        if total != 1:
            raise InvalidInput(
                f"The probabilities of choice {choice} of {file} are rationals and sum "
                f"to {total}, not to 1; write it again."
            )
    if any(x > 0 and p < SMALLEST for p, x in zip(prob.tolist(), given, strict=True)):
        raise InvalidInput(
            f"A probability of {file} is above 0 and below {SMALLEST:.3g}, the smallest "
            "double with all its digits; leave such a branch out."
        )
    if all(Fraction(p) == x for p, x in zip(prob.tolist(), given, strict=True)):
        return prob, ()
    return prob, (_rounded(system.num_states, int(np.diff(first).max())),)


def _rounded(states: int, longest: int) -> str:
    """The sentence on rationals that no double equals."""
    eta = (2 * longest + 6) * UNIT
    moved = math.expm1(states * (math.log1p(eta) - math.log1p(-eta)))
    return (
        "probabilities of the file are rationals, each rounded to a double and its row "
        f"divided by its sum: relative errors of at most {eta:.2g}, which move a "
        "probability of reaching, or a total of rewards of one sign, by at most "
        f"{moved:.2g} of itself"
    )


def _doubles(file: str, what: str, given: Sequence[Any]) -> Floats:
    """Numbers as doubles; what is none is refused."""
    try:
        found = np.array([float(x) for x in given])
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"A {what} of {file} is no number that a double can hold: {error}; write "
            "plain numbers."
        ) from error
    return found


def _actions(action: Sequence[int], words: Sequence[str]) -> Ints | None:
    """(C,): the number of each choice's word; -1 for none, or for an empty one."""
    found = _whole(action, len(action))
    named = np.array([bool(word.strip()) for word in words] + [False])
    return np.where(named[np.minimum(found, len(words))], found, -1)


def _players(file: str, system: Any, given: Sequence[int] | None) -> Ints | None:
    if given is None:
        return None
    found = _whole(given, len(given))
    if len(found) != system.num_states or np.any(found >= system.num_players):
        raise InvalidInput(
            f"{file} is damaged: it must name one of {system.num_players} players for "
            f"each of {system.num_states:,} states; write it again."
        )
    return found


def _labels(file: str, found: Any) -> dict[str, Bools]:
    """Atomic propositions by their identifiers and their aliases."""
    states = found.index.transition_system.num_states
    labels: dict[str, Bools] = {}
    for name, values in _annotated(found, "aps"):
        given = values.get("states")
        if given is not None and len(given) == states:
            labels[name] = np.array(given, dtype=np.bool_)
        else:
            raise InvalidInput(
                f"{file} is damaged: the label {name!r} must have a value for each of "
                f"{states:,} states; write it again."
            )
    return labels


def _rewards(file: str, found: Any) -> dict[str, Rewards]:
    system = found.index.transition_system
    counts = {
        "states": system.num_states,
        "choices": system.num_choices,
        "branches": system.num_branches,
    }
    rewards: dict[str, Rewards] = {}
    for name, values in _annotated(found, "rewards"):
        parts: dict[str, Floats] = {}
        for where, given in values.items():
            if len(given) != counts.get(where, -1):
                raise InvalidInput(
                    f"{file} is damaged: the reward {name!r} has {len(given):,} values "
                    f"for its {where}; write it again."
                )
            parts[where] = _doubles(file, f"reward {name!r}", given)
        rewards[name] = Rewards(
            parts.get("states"), parts.get("choices"), parts.get("branches")
        )
    return rewards


def _annotated(found: Any, group: str) -> list[tuple[str, dict[str, Any]]]:
    """(name, values) of a group: under its alias where it has one, and its identifier."""
    listed = (found.annotations or {}).get(group, {})
    described = (found.index.annotations or {}).get(group, {})
    names: dict[str, dict[str, Any]] = {}
    for name, values in listed.items():
        names.setdefault(described[name].alias or name, values)
    for name, values in listed.items():
        names.setdefault(name, values)
    return list(names.items())
