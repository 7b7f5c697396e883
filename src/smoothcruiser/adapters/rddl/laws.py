"""The law of a step, exactly: outcomes and their probabilities.

RDDL's discrete distributions have finitely many values, and fluents of the next state
are independent given the state, the action and the fluents that they read. So the law
of a step is a finite sum over the values of all random fluents, in the order in which
they are computed:

    P(s' | s, a) = sum over intermediate values x of prod over fluents i of
                   P(value of i | s, a, fluents before i)

An expression's law is a list of (probability, value). Where an expression does not
sample it has one value. An operation on samples has the product of its parts' laws, a
condition a mixture. Equal values are joined, and so are equal outcomes.

The number of outcomes doubles with each Bernoulli fluent. A step with more than
``most`` of them is not listed (None), and then sampled by its callers.

Rounding: a probability is a product of one factor for each random fluent, each within a
few units in the last place; they sum to 1 within the tolerance of ``problem.model.known_outcomes``.

Where the rewards of an instance lie: interval analysis.

Each expression gets an interval that holds its value for every value of the slots in
*their* intervals (``expressions`` says how, rounding included). The fluents of the state
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from smoothcruiser.adapters.rddl.code import checked_chance, checked_weights, value
from smoothcruiser.adapters.rddl.expressions import (
    OPERATIONS,
    ApplyNode,
    ChoiceNode,
    ConstantNode,
    FlipNode,
    Interval,
    Node,
    PickNode,
    SlotNode,
    Value,
    is_random,
    places,
)
from smoothcruiser.adapters.rddl.fluents import Fluent, State
from smoothcruiser.adapters.rddl.grounding import GroundInstance

Law = list[tuple[float, Value]]
LawFunction = Callable[[Sequence[Any]], Law]  # of the vector of slots
Outcome = tuple[float, float, State]  # probability, reward, next state


def law(node: Node) -> LawFunction:
    """A function from the vector of slots to the law of an expression."""
    if not is_random(node):
        evaluate_slots = value(node)
        return lambda v: [(1.0, evaluate_slots(v))]
    match node:
        case FlipNode(chance=chance):
            return _mix_laws(law(chance), _flip_law)
        case PickNode(weights=weights, free=free):
            return _mix_laws(
                _joint_law([law(child) for child in weights]),
                lambda w: _pick_law(w, free),
            )
        case ChoiceNode(condition=condition, first=first, second=second):
            return _choice_law(law(condition), law(first), law(second))
        case ApplyNode(operation=operation, parts=parts):
            evaluate = OPERATIONS[operation].evaluate
            return _mix_laws(
                _joint_law([law(child) for child in parts]),
                lambda values: [(1.0, evaluate(*values))],
            )
    raise AssertionError(node)


def _flip_law(p: Any) -> Law:
    checked_chance(p)
    return [(q, x) for q, x in ((float(p), True), (1.0 - p, False)) if q > 0.0]


def _pick_law(weights: Any, free: bool) -> Law:
    return [(p, i) for i, p in enumerate(checked_weights(weights, free)) if p > 0.0]


def _joint_law(
    laws: Sequence[LawFunction],
) -> Callable[[Sequence[Any]], list[tuple[float, Any]]]:
    """The law of independent values together."""

    def joint_law(v: Sequence[Any]) -> list[tuple[float, Any]]:
        return [
            (math.prod(p for p, _ in row), tuple(x for _, x in row))
            for row in product(*(child_law(v) for child_law in laws))
        ]

    return joint_law


def _mix_laws(first: Callable[..., Any], then: Callable[[Any], Law]) -> LawFunction:
    def mixed_law(v: Sequence[Any]) -> Law:
        return join_equal((p * q, y) for p, x in first(v) for q, y in then(x))

    return mixed_law


def _choice_law(
    condition: LawFunction, first: LawFunction, second: LawFunction
) -> LawFunction:
    def choice_law(v: Sequence[Any]) -> Law:
        return join_equal(
            (p * q, y) for p, x in condition(v) for q, y in (first if x else second)(v)
        )

    return choice_law


def join_equal(pairs: Any) -> Law:
    """Equal values once, with the sum of their probabilities."""
    sums: dict[Any, float] = {}
    for p, x in pairs:
        sums[x] = sums.get(x, 0.0) + p
    return [(p, x) for x, p in sums.items()]


@dataclass(frozen=True)
class SlotLaw:
    """An assignment with its law and its dependence on random slots."""

    place: int
    law: LawFunction
    kind: str
    early: bool  # it reads nothing that is random: one law for all outcomes
    random: bool


class StepLaw:
    """The law of the steps of one instance."""

    def __init__(self, ground: GroundInstance, most: int) -> None:
        self.ground, self.most = ground, most
        unsure_slots: set[int] = (
            set()
        )  # slots with values that differ between outcomes
        self.parts: list[SlotLaw] = []
        for assignment in ground.assignments:
            is_early = unsure_slots.isdisjoint(places(assignment.node))
            random = is_random(assignment.node)
            if random or not is_early:
                unsure_slots.add(assignment.place)
            self.parts.append(
                SlotLaw(
                    assignment.place,
                    law(assignment.node),
                    assignment.kind,
                    is_early,
                    random,
                )
            )
        self.reward = law(ground.reward)
        self.samples = any(p.random for p in self.parts) or is_random(ground.reward)

        # nothing reads random values: the next state's fluents are independent
        self.independent = (
            all(slot_law.early for slot_law in self.parts)
            and unsure_slots.isdisjoint(places(ground.reward))
            and not is_random(ground.reward)
        )

    def outcomes(self, state: State, action: State) -> list[Outcome] | None:
        """[(probability, reward, next state)]; None where there are too many."""
        slot_values = [*state, *action, *[0] * len(self.parts)]
        return (self._product if self.independent else self._worlds)(slot_values)

    def _product(self, v: list[Any]) -> list[Outcome] | None:
        """The product of the laws of all fluents: the common case, and a fast one."""
        laws_by_slot: dict[int, Law] = {}
        for slot_law in self.parts:
            laws_by_slot[slot_law.place] = value_law = self._values(slot_law, v)
            if len(value_law) == 1:
                v[slot_law.place] = value_law[0][1]
        next_laws = [laws_by_slot[slot_index] for slot_index in self.ground.after]
        if math.prod(map(len, next_laws)) > self.most:
            return None
        ((_, reward),) = self.reward(v)
        probabilities = [1.0]
        for next_law in next_laws:  # in the order of itertools.product
            if len(next_law) > 1:
                probabilities = [p * q for p in probabilities for q, _ in next_law]
        next_states = product(*([x for _, x in next_law] for next_law in next_laws))
        return [
            (p, float(reward), z)
            for p, z in zip(probabilities, next_states, strict=True)
        ]

    def _worlds(self, start: list[Any]) -> list[Outcome] | None:
        """Fluents one after the other, where some read the samples of others."""
        worlds: list[tuple[float, list[Any]]] = [(1.0, start)]
        for slot_law in self.parts:
            shared_law = (
                self._values(slot_law, worlds[0][1]) if slot_law.early else None
            )
            if shared_law is not None and len(shared_law) == 1:
                for _, v in worlds:
                    v[slot_law.place] = shared_law[0][1]
                continue
            next_worlds: list[tuple[float, list[Any]]] = []
            for p, v in worlds:
                for q, x in (
                    shared_law if shared_law is not None else self._values(slot_law, v)
                ):
                    next_slots = v.copy()
                    next_slots[slot_law.place] = x
                    next_worlds.append((p * q, next_slots))
                if len(next_worlds) > self.most:
                    return None
            worlds = next_worlds
        next_places = self.ground.after
        joint_outcomes = join_equal(
            (
                p * q,
                (float(reward), tuple(v[slot_index] for slot_index in next_places)),
            )
            for p, v in worlds
            for q, reward in self.reward(v)
        )
        return [(p, *outcome) for p, outcome in joint_outcomes]  # type: ignore[misc]

    def _values(self, slot_law: SlotLaw, v: Sequence[Any]) -> Law:
        convert_value = {"int": int, "real": float, "bool": bool}[slot_law.kind]
        return [(p, convert_value(x)) for p, x in slot_law.law(v)]


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
