"""Fluents of one instance: the parts of states and actions.

``running(c1)`` is a fluent. A state is a tuple of the values of all state fluents, in
the order of the domain and of its objects: bools, whole numbers and reals, and the
number of the object for a fluent with objects as values. As data for people a state
lists the values that differ from the fluents' defaults, ``{"running(c1)": true}``, like
the block ``init-state`` of an instance.

Out of scope: which fluents there are (``reading``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smoothcruiser.adapters.rddl.expressions import KINDS, Value
from smoothcruiser.adapters.rddl.operations import Interval
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
        return f"{self.name}___{'__'.join(self.objects)}" if self.objects else self.name

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
