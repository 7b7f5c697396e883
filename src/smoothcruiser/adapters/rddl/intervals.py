"""Where the rewards of an instance lie: interval analysis.

Each expression gets an interval that holds its value for every value of the slots in
*their* intervals (``operations`` says how, rounding included). The fluents of the state
come first:

  bool, objects   all their values: no state is assumed to be unreachable
  int, real       the least interval that holds the initial value and is mapped into
                  itself by a step, for every action. It is found by iteration; an end
                  that still moves after ``STEPS`` steps is put at infinity, so that the
                  iteration stops, and its result is checked to be closed.

The range of rewards is the hull over all actions of the interval of the reward, with
the action's fluents as constants and those of the next state as the step bounds them.
It holds for every state with fluents in their intervals, reachable or not.

pyRDDLGym has an interval analysis (``pyRDDLGym.core.intervals``). It is not used: by
default it keeps actions at their defaults, its bounds are those of the last epoch alone
unless ``per_epoch`` is given, it does not know nested fluents, and it says nothing of
rounding (docs/worlds/rddl.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from smoothcruiser.adapters.rddl.expressions import (
    ApplyNode,
    ChoiceNode,
    ConstantNode,
    FlipNode,
    Node,
    PickNode,
    SlotNode,
    Value,
)
from smoothcruiser.adapters.rddl.fluents import Fluent, State
from smoothcruiser.adapters.rddl.grounding import GroundInstance
from smoothcruiser.adapters.rddl.operations import OPERATIONS, Interval

STEPS = 100  # before an end that still moves is put at infinity


def interval(node: Node, slots: Sequence[Interval]) -> Interval:
    """An interval that holds the value of a node where slots lie in theirs."""
    match node:
        case ConstantNode(value=value):
            return float(value), float(value)
        case SlotNode(place=place):
            return slots[place]
        case ApplyNode(operation=operation, parts=parts):
            bounds = OPERATIONS[operation].bounds
            return bounds(*(interval(child, slots) for child in parts))
        case ChoiceNode(condition=condition, first=first, second=second):
            lower_bound, upper_bound = interval(condition, slots)
            if lower_bound == 1.0:
                return interval(first, slots)
            if upper_bound == 0.0:
                return interval(second, slots)
            return hull(interval(first, slots), interval(second, slots))
        case FlipNode(chance=chance):
            lower_bound, upper_bound = interval(chance, slots)
            return float(lower_bound >= 1.0), float(upper_bound > 0.0)
        case PickNode(weights=weights):
            return 0.0, len(weights) - 1.0
    raise AssertionError(node)


def hull(*parts: Interval) -> Interval:
    """The least interval that holds these."""
    return min(low for low, _ in parts), max(high for _, high in parts)


def _step_intervals(
    ground: GroundInstance, slots: Sequence[Interval]
) -> list[Interval]:
    """All slots after a step from intervals of the state and the action."""
    slot_intervals = [*slots, *[(0.0, 0.0)] * len(ground.assignments)]
    for assignment in ground.assignments:
        slot_intervals[assignment.place] = interval(assignment.node, slot_intervals)
    return slot_intervals


def own_range(fluent: Fluent) -> Interval | None:
    """All values of a fluent; None where its declaration does not bound them."""
    if fluent.values:
        return 0.0, len(fluent.values) - 1.0
    return (0.0, 1.0) if fluent.range == "bool" else None


def state_ranges(
    ground: GroundInstance, initial: State, actions: Sequence[State]
) -> list[Interval]:
    """Intervals of the state's fluents that a step does not leave."""
    known_ranges = [own_range(fluent) for fluent in ground.states]
    fluent_ranges = [
        (float(value), float(value)) if bounds is None else bounds
        for value, bounds in zip(initial, known_ranges, strict=True)
    ]
    if None not in known_ranges:
        return fluent_ranges
    value_columns = zip(*actions, strict=True)
    action_ranges = [
        hull(*((float(x), float(x)) for x in column)) for column in value_columns
    ]
    num_sweeps = 0
    while True:
        slots = _step_intervals(ground, [*fluent_ranges, *action_ranges])
        wider_ranges = [
            hull(old_range, slots[slot_index]) if bounds is None else bounds
            for old_range, bounds, slot_index in zip(
                fluent_ranges, known_ranges, ground.after, strict=True
            )
        ]
        if wider_ranges == fluent_ranges:
            return fluent_ranges
        num_sweeps += 1
        if num_sweeps > STEPS:  # each end moves here at most once
            wider_ranges = [
                (
                    -math.inf if new_range[0] < old_range[0] else old_range[0],
                    math.inf if new_range[1] > old_range[1] else old_range[1],
                )
                for old_range, new_range in zip(
                    fluent_ranges, wider_ranges, strict=True
                )
            ]
        fluent_ranges = wider_ranges


def reward_range(
    ground: GroundInstance,
    ranges: Sequence[Interval],
    actions: Iterable[Sequence[Value]],
) -> Interval:
    """An interval that holds every reward from states in ``ranges``."""
    action_bounds = []
    for values in actions:
        slots = [*ranges, *((float(value), float(value)) for value in values)]
        action_bounds.append(interval(ground.reward, _step_intervals(ground, slots)))
    lower_bound, upper_bound = hull(*action_bounds)
    return lower_bound + 0.0, upper_bound + 0.0  # -0.0 is 0
