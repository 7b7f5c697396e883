"""What an agent may do in one step: joint values of all action fluents.

RDDL lets several action fluents differ from their defaults at once, at most
``max-nondef-actions`` of them. An action of the problem is one such choice: all of them
are listed, those with fewest changes first, and action 0 changes nothing ("noop"). The
number of choices of at most m of n bools is

    C(n, 0) + C(n, 1) + … + C(n, m),

which is counted before anything is listed: more than ``most`` are refused.

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

MOST_ACTIONS = 1024  # listed without being asked to
NOOP = "noop"


@dataclass(frozen=True)
class JointActions:
    """All joint actions: the values of the fluents, and what they are called."""

    fluents: tuple[Fluent, ...]
    values: tuple[State, ...]
    labels: tuple[str, ...]

    def grounded(self, action: int) -> dict[str, Value | str]:
        """What pyRDDLGym's environment takes for an action: what is not default."""
        return {
            fluent.grounded: value
            for fluent, value in zip(self.fluents, self.values[action], strict=True)
            if value != fluent.default
        }


def listed(fluents: Sequence[Fluent], at_once: int, most: int) -> JointActions:
    """All actions that change at most ``at_once`` fluents.

    Args:
        fluents: the action fluents.
        at_once: ``max-nondef-actions``.
        most: how many actions there may be.
    """
    others = [_others(fluent) for fluent in fluents]
    at_once = min(at_once, len(fluents))
    count = _count([len(values) for values in others], at_once)
    if count > most:
        raise InvalidInput(
            f"There are {count:,} joint actions ({len(fluents)} action fluents, up to "
            f"{at_once} at once), more than {most:,}; choose a smaller instance or an "
            f"instance with fewer max-nondef-actions, or raise max_actions={most} in "
            "the name."
        )
    defaults = tuple(fluent.default for fluent in fluents)
    values, labels = [], []
    for changes in _changes(others, at_once):
        row, words = list(defaults), []
        for place, value in changes:
            row[place] = value
            words.append(_word(fluents[place], value))
        values.append(tuple(row))
        labels.append(" ".join(words) or NOOP)
    return JointActions(tuple(fluents), tuple(values), tuple(labels))


def _others(fluent: Fluent) -> list[Value]:
    """The values of an action fluent that are not its default."""
    if fluent.limits is not None:
        low, high = fluent.limits
        return [value for value in range(low, high + 1) if value != fluent.default]
    if fluent.range in ("int", "real"):
        kind = "continuous" if fluent.range == "real" else "any whole number"
        raise InvalidInput(
            f"The action fluent {fluent.label} is {kind}, and only finitely many "
            "actions can be planned with; choose a domain whose action fluents are "
            "bools, objects, or whole numbers that preconditions limit."
        )
    values: list[Value] = list(range(len(fluent.values))) or [False, True]
    return [value for value in values if value != fluent.default]


def _count(sizes: Sequence[int], at_once: int) -> int:
    """Choices of at most ``at_once`` fluents and of another value for each."""
    ways = [1] + [0] * at_once  # by the number of fluents that change
    for size in sizes:
        for k in range(at_once, 0, -1):
            ways[k] += ways[k - 1] * size
    return sum(ways)


def _changes(
    others: Sequence[Sequence[Value]], at_once: int
) -> Iterator[tuple[tuple[int, Value], ...]]:
    for size in range(at_once + 1):
        for chosen in combinations(range(len(others)), size):
            for values in product(*(others[place] for place in chosen)):
                yield tuple(zip(chosen, values, strict=True))


def _word(fluent: Fluent, value: Value) -> str:
    """``reboot(c1)``, ``move=north``, or ``~open(v1)`` where a bool is on by default."""
    if fluent.range != "bool":
        return f"{fluent.label}={fluent.shown(value)}"
    return fluent.label if value else f"~{fluent.label}"
