"""Fluents of one instance: the parts of states and actions.

``running(c1)`` is a fluent. A state is a tuple of the values of all state fluents, in
the order of the domain and of its objects: bools, whole numbers and reals, and the
number of the object for a fluent with objects as values. As data for people a state
lists the values that differ from the fluents' defaults, ``{"running(c1)": true}``, like
the block ``init-state`` of an instance.

Out of scope: which fluents there are (``reading``).

The actions of an agent in one step: joint values of all action fluents.

RDDL lets several action fluents differ from their defaults at once, at most
``max-nondef-actions`` of them. An action of the problem is one such choice: all of them
are listed, those with fewest changes first, and action 0 changes nothing ("noop"). The
number of choices of at most m of n bools is

    C(n, 0) + C(n, 1) + … + C(n, m),

which is counted before anything is listed: more than ``max_actions`` are refused.

Whole numbers are listed between the limits that the action preconditions set. Real
action fluents, and whole ones without limits, have no list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from smoothcruiser.adapters.rddl.expressions import KINDS, Interval, Value
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import shorten_value

State = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Fluent:
    """A fluent with its objects."""

    name: str
    objects: tuple[str, ...]
    range: str  # "bool", "int", "real" or a type of objects
    values: tuple[str, ...]  # the objects of that type; none for numbers
    default: Value
    # the least and the largest value that preconditions allow a whole action fluent
    limits: tuple[int, int] | None = None

    @property
    def kind(self) -> str:
        """The kind of a stored value: objects are stored by their numbers."""
        return self.range if self.range in KINDS else "int"

    @property
    def label(self) -> str:
        """``running(c1)``."""
        return f"{self.name}({','.join(self.objects)})" if self.objects else self.name

    @property
    def ground_name(self) -> str:
        """``running___c1``, as pyRDDLGym spells it."""
        return (
            f"{self.name}___{'__'.join(self.objects)}" if self.objects else self.name
        )

    def show_value(self, value: Value) -> Any:
        """A value as data for people."""
        return self.values[int(value)] if self.values else value

    def parse_value(self, value: Any) -> Value:
        """The value that a user's data stands for."""
        if self.values:
            if isinstance(value, str) and value.removeprefix("@") in self.values:
                return self.values.index(value.removeprefix("@"))
            expected_text = f"one of {', '.join(self.values)}"
            if _is_whole(value) and 0 <= value < len(self.values):
                return int(value)
        elif self.range == "bool":
            expected_text = "true or false"
            if isinstance(value, bool) or (_is_whole(value) and value in (0, 1)):
                return bool(value)
        elif self.range == "int":
            expected_text = "a whole number"
            if _is_whole(value):
                return int(value)
        else:
            expected_text = "a finite number"
            if isinstance(value, int | float) and math.isfinite(value):
                return float(value)
        raise InvalidInput(
            f"{self.label} must be {expected_text}, got {shorten_value(value)}."
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def describe_state(fluents: Sequence[Fluent], state: State) -> dict[str, Any]:
    """A state as data for people: the values that differ from the defaults."""
    return {
        fluent.label: fluent.show_value(value)
        for fluent, value in zip(fluents, state, strict=True)
        if value != fluent.default
    }


def read_state(
    fluents: Sequence[Fluent], data: Any, ranges: Sequence[Interval]
) -> State:
    """The state that a user's data stands for: a dict, or a list of all values.

    ``ranges`` are those that the range of rewards was derived from; a value outside of
    them is refused, since it would void that.
    """
    if isinstance(data, dict):
        fluents_by_label = {fluent.label: fluent for fluent in fluents}
        unknown_labels = [
            unknown_label
            for unknown_label in data
            if unknown_label not in fluents_by_label
        ]
        if unknown_labels:
            first_labels = ", ".join(list(fluents_by_label)[:8])
            raise InvalidInput(
                f"No state fluent is called {shorten_value(unknown_labels[0])}; there are "
                f"{len(fluents_by_label)}: "
                f"{first_labels}{', …' if len(fluents_by_label) > 8 else ''}."
            )
        data = [data.get(f.label, f.show_value(f.default)) for f in fluents]
    if not isinstance(data, list | tuple) or len(data) != len(fluents):
        raise InvalidInput(
            f"A state is a list of {len(fluents)} values, or what differs from the "
            f'defaults, as in {{"{fluents[0].label}": …}}, got {shorten_value(data)}.'
        )
    state = tuple(f.parse_value(value) for f, value in zip(fluents, data, strict=True))
    for fluent, value, (lower_bound, upper_bound) in zip(
        fluents, state, ranges, strict=True
    ):
        if not lower_bound <= value <= upper_bound:
            raise InvalidInput(
                f"{fluent.label} must lie in [{lower_bound:g}, {upper_bound:g}], where "
                f"play from the instance's own state stays, got {value!r}; change the "
                "instance, or declare reward_range=[a,b] in the name."
            )
    return state


MOST_ACTIONS = 1024  # the default limit of a list
NOOP = "noop"


@dataclass(frozen=True)
class JointActions:
    """All joint actions: the values of the fluents, and their names."""

    fluents: tuple[Fluent, ...]
    values: tuple[State, ...]
    labels: tuple[str, ...]

    def ground_action(self, action: int) -> dict[str, Value | str]:
        """The action for pyRDDLGym's environment: all values that are not defaults."""
        return {
            fluent.ground_name: value
            for fluent, value in zip(self.fluents, self.values[action], strict=True)
            if value != fluent.default
        }


def list_actions(
    fluents: Sequence[Fluent], at_once: int, max_actions: int
) -> JointActions:
    """All actions that change at most ``at_once`` fluents.

    Args:
        fluents: the action fluents.
        at_once: ``max-nondef-actions``.
        max_actions: the largest number of actions.
    """
    other_values = [_other_values(fluent) for fluent in fluents]
    at_once = min(at_once, len(fluents))
    num_actions = _count_actions(
        [len(joint_values) for joint_values in other_values], at_once
    )
    if num_actions > max_actions:
        raise InvalidInput(
            f"There are {num_actions:,} joint actions ({len(fluents)} action fluents, "
            f"up to {at_once} at once), more than {max_actions:,}; choose a smaller "
            "instance or an instance with fewer max-nondef-actions, or raise "
            f"max_actions={max_actions} in the name."
        )
    defaults = tuple(fluent.default for fluent in fluents)
    joint_values, joint_labels = [], []
    for changes in _list_changes(other_values, at_once):
        action_values, change_words = list(defaults), []
        for fluent_index, new_value in changes:
            action_values[fluent_index] = new_value
            change_words.append(_change_word(fluents[fluent_index], new_value))
        joint_values.append(tuple(action_values))
        joint_labels.append(" ".join(change_words) or NOOP)
    return JointActions(tuple(fluents), tuple(joint_values), tuple(joint_labels))


def _other_values(fluent: Fluent) -> list[Value]:
    """The values of an action fluent that are not its default."""
    if fluent.limits is not None:
        lower_bound, upper_bound = fluent.limits
        return [
            value
            for value in range(lower_bound, upper_bound + 1)
            if value != fluent.default
        ]
    if fluent.range in ("int", "real"):
        kind = "continuous" if fluent.range == "real" else "any whole number"
        raise InvalidInput(
            f"The action fluent {fluent.label} is {kind}, and only finitely many "
            "actions can be planned with; choose a domain whose action fluents are "
            "bools, objects, or whole numbers that preconditions limit."
        )
    values: list[Value] = list(range(len(fluent.values))) or [False, True]
    return [value for value in values if value != fluent.default]


def _count_actions(value_counts: Sequence[int], at_once: int) -> int:
    """Choices of at most ``at_once`` fluents and of another value for each."""
    num_ways = [1] + [0] * at_once  # by the number of fluents that change
    for num_values in value_counts:
        for num_changes in range(at_once, 0, -1):
            num_ways[num_changes] += num_ways[num_changes - 1] * num_values
    return sum(num_ways)


def _list_changes(
    other_values: Sequence[Sequence[Value]], at_once: int
) -> Iterator[tuple[tuple[int, Value], ...]]:
    for num_changes in range(at_once + 1):
        for fluent_indices in combinations(range(len(other_values)), num_changes):
            for new_values in product(
                *(other_values[fluent_index] for fluent_index in fluent_indices)
            ):
                yield tuple(zip(fluent_indices, new_values, strict=True))


def _change_word(fluent: Fluent, value: Value) -> str:
    """``reboot(c1)``, ``move=north``, or ``~open(v1)`` for a bool on by default."""
    if fluent.range != "bool":
        return f"{fluent.label}={fluent.show_value(value)}"
    return fluent.label if value else f"~{fluent.label}"
