"""The actions of an agent in one step: joint values of all action fluents.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from smoothcruiser.adapters.rddl.expressions import Value
from smoothcruiser.adapters.rddl.fluents import Fluent, State
from smoothcruiser.errors import InvalidInput

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
