"""The fingerprint of a problem: everything its answer depends on that can be seen.

A run that is resumed has to go on with the problem that it was started with. The
spec of a problem says how to build it, and the code behind that may have been
edited. ``fingerprint`` reads all of it, without running any of its functions:

  declared     every field of the problem, its operator with temperature and prior
  tables       their contents
  functions    source text (``source_text``), defaults, closures, and transitively the
               globals, helper functions and classes that they name (``function_values``)
  objects      their fields and the code of their classes (``objects``)
  libraries    the versions of those that the code uses (``encoding``)

It is the same in every process, for every PYTHONHASHSEED, file, line and comment.
Dependencies that nobody can see (random generators, files, memory of C code, data
that the code itself changes) are named in ``unseen``. This package leaves out its
own version and sources, which the store compares.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.fingerprint.changed_data import Changes
from smoothcruiser.problem.fingerprint.encoding import (
    encode_text,
    hexadecimal,
    join_parts,
)
from smoothcruiser.problem.fingerprint.walk import INITIAL, Walker

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import ProblemFields

# fields of a Problem that change no answer
UNANSWERING = {
    "name": "is only shown",
    "actions": "are only shown; their number is num_actions",
    "spec": "says how the problem was built; what was built is read instead",
    "sample_action": "is part of the step, which takes numbers of actions",
    "numbering": "likewise",
    "call_seconds": "decides when to give up on a call, not what it returns",
}
# facts that follow from fields with other names
DERIVED = {
    "game": "the class of the problem, and the field minimize",
    "minimize": "likewise",
    "terminals": "the field terminal",
    "given_bounds": "the field value_bounds",
    "total_range": "the fields payoffs and total_reward_range",
    "given_gap": "the field value_gap",
    "reward_error": "the oracle, and the field reward_range",
}
# fields that are walked where they are true: without them it is as it was before them
WHERE_TRUE = ("minimize",)
LABELS = {"oracle": "step"}  # users' names of fields
MOST_WALKS = 5  # each finds changes that the one before it could not know yet


@dataclass(frozen=True)
class Fingerprint:
    """The visible parts of a problem, and the names of the invisible ones."""

    parts: dict[str, str]  # name of a visible part -> its digest, 32 hex digits
    unseen: tuple[str, ...]  # invisible things that the answer may depend on

    @property
    def digest(self) -> str:
        """One digest of all parts, 32 hex digits."""
        pairs = sorted(self.parts.items())
        return hexadecimal(
            join_parts(
                b"parts",
                (encode_text(part_text) for pair in pairs for part_text in pair),
            )
        )

    def changes(self, stored: Mapping[str, str]) -> tuple[str, ...]:
        """The names of the parts that differ from ``stored``, are new, or are gone."""
        part_names = [
            *self.parts,
            *(name for name in stored if name not in self.parts),
        ]
        return tuple(
            name for name in part_names if self.parts.get(name) != stored.get(name)
        )


def fingerprint(problem: ProblemFields) -> Fingerprint:
    """The fingerprint of a problem; it runs none of the problem's functions."""
    changes = Changes()
    walks: list[Walker] = []  # kept alive: slots hold ids of objects of earlier walks
    for _ in range(MOST_WALKS):
        walk = Walker(changes)
        walks.append(walk)
        _walk_problem(walk, problem)
        new_changes = walk.finish()
        if new_changes == changes:
            break
        changes = new_changes
    return _fingerprint_of(walk)


def contents(state: Any) -> str:
    """A digest of all that a state holds, 32 hex digits."""
    walk = Walker(Changes())
    walk.start(INITIAL, state)
    return _fingerprint_of(walk).digest


def _fingerprint_of(walk: Walker) -> Fingerprint:
    part_digests = {name: hexadecimal(encoded) for name, encoded in walk.parts.items()}
    return Fingerprint(part_digests, tuple(walk.unseen))


def _walk_problem(walk: Walker, problem: ProblemFields) -> None:
    if problem.tables is not None:
        walk.start("tables", problem.tables)
    field_names = [problem_field.name for problem_field in dataclasses.fields(problem)]
    # functions first: objects shared with the state are named after them
    field_names.sort(key=lambda field_name: field_name == INITIAL)
    for field_name in field_names:
        is_unset = field_name in WHERE_TRUE and not getattr(problem, field_name)
        if field_name != "tables" and field_name not in UNANSWERING and not is_unset:
            walk.start(
                LABELS.get(field_name, field_name), getattr(problem, field_name)
            )
    for problem_field in dataclasses.fields(Facts):
        if problem_field.name not in field_names and problem_field.name not in DERIVED:
            walk.start(problem_field.name, getattr(problem.facts, problem_field.name))
    walk.start("class", type(problem))
