"""From pyRDDLGym's tree of a domain to expressions of one instance.

pyRDDLGym parses a domain and an instance into a *lifted* model, whose expressions speak
of variables ("?c"). Here every variable is replaced by each of its objects, every
quantifier by a list, every non-fluent by its value.

pyRDDLGym has a grounder of its own. It does not know Discrete, switch and nested
fluents, and it leaves non-fluents in place, so that expressions stay large.

What cannot be expressed (``Untranslatable``) is left to pyRDDLGym's own interpreter
(``machines``): continuous distributions, vectors, matrices, argmin, Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from smoothcruiser.adapters.rddl.expressions import (
    FALSE,
    KINDS,
    TRUE,
    ConstantNode,
    FlipNode,
    Node,
    PickNode,
    SlotNode,
    Untranslatable,
    apply,
    choice,
    is_random,
    places,
)
from smoothcruiser.adapters.rddl.fluents import Fluent
from smoothcruiser.adapters.rddl.operations import OPERATIONS

Names = dict[str, str]  # the object that each variable stands for

AGGREGATES = {
    "sum": "+",
    "prod": "*",
    "minimum": "min",
    "maximum": "max",
    "forall": "and",
    "exists": "or",
}
LOGIC = {"^": "and", "&": "and", "|": "or", "=>": "=>", "<=>": "<=>"}
FUNCTIONS = frozenset(
    [
        "abs",
        "sgn",
        "round",
        "floor",
        "ceil",
        "exp",
        "ln",
        "sqrt",
        "pow",
        "min",
        "max",
        "div",
        "mod",
        "fmod",
    ]
)


@dataclass(frozen=True)
class Assignment:
    """The value of one slot: an intermediate fluent, or a fluent of the next state."""

    place: int
    node: Node
    kind: str


@dataclass(frozen=True)
class GroundInstance:
    """One instance as expressions over slots: state, action, then the rest."""

    states: tuple[Fluent, ...]
    actions: tuple[Fluent, ...]
    assignments: tuple[Assignment, ...]  # in an order in which they can be computed
    after: tuple[int, ...]  # the slot of each state fluent's next value
    reward: Node
    preconditions: tuple[Node, ...]  # of the slots of state and action
    # of the slots of the state; one that is true ends an episode
    ends: tuple[Node, ...]

    @property
    def num_given(self) -> int:
        """Slots that are known before a step: those of the state and the action."""
        return len(self.states) + len(self.actions)


def ground(model: Any, simulator: Any, states: Any, actions: Any) -> GroundInstance:
    """The instance as expressions.

    Args:
        model: pyRDDLGym's lifted model.
        simulator: its simulator, for the order of assignments and the values of
            non-fluents.
        states: the state fluents, in the order of a state.
        actions: the action fluents.

    Raises ``Untranslatable`` where something has no form here.
    """
    return Grounder(model, simulator, tuple(states), tuple(actions)).grounded()


class Grounder:
    """Translates the expressions of one model."""

    def __init__(
        self,
        model: Any,
        simulator: Any,
        states: tuple[Fluent, ...],
        actions: tuple[Fluent, ...],
    ) -> None:
        self.model, self.simulator = model, simulator
        self.states, self.actions = states, actions
        self.slots: dict[tuple[str, tuple[str, ...]], SlotNode] = {}
        for fluent in (*states, *actions):
            self._slot(fluent.name, fluent.objects)
        self.translators: dict[str, Callable[[Any, Names], Node]] = {
            "constant": self._constant,
            "pvar": self._fluent,
            "arithmetic": self._arithmetic,
            "relational": self._relational,
            "boolean": self._logical,
            "aggregation": self._aggregate,
            "func": self._function,
            "control": self._control,
            "randomvar": self._random,
        }

    def _slot(self, name: str, objects: tuple[str, ...]) -> SlotNode:
        declared = self.model.variable_ranges[name]
        kind = declared if declared in KINDS else "int"
        found = SlotNode(len(self.slots), kind)
        self.slots[name, objects] = found
        return found

    def grounded(self) -> GroundInstance:
        """All expressions of the instance."""
        model, assignments = self.model, []
        wanted = {
            name: self._groundings(model.variable_params[name])
            for name, _, _ in self.simulator.cpfs
            if model.variable_types[name] != "observ-fluent"
        }
        for name, groundings in wanted.items():
            for objects in groundings:
                self._slot(name, objects)
        for name, groundings in wanted.items():
            variables, expression = model.cpfs[name]
            for objects in groundings:
                names = {v: o for (v, _), o in zip(variables, objects, strict=True)}
                slot = self.slots[name, objects]
                node = self.translate(expression, names)
                if KINDS.index(node.kind) > KINDS.index(slot.kind):
                    raise Untranslatable(
                        f"{name}, which is {node.kind}, not {slot.kind}"
                    )
                assignments.append(Assignment(slot.place, node, slot.kind))
        ends = (
            *(self.translate(each, {}) for each in model.terminations),
            *(apply("not", self.translate(each, {})) for each in model.invariants),
        )
        return GroundInstance(
            states=self.states,
            actions=self.actions,
            assignments=tuple(assignments),
            after=tuple(
                self.slots[model.next_state[f.name], f.objects].place
                for f in self.states
            ),
            reward=self.translate(model.reward, {}),
            preconditions=self._conditions(
                "an action precondition",
                (self.translate(each, {}) for each in model.preconditions),
                len(self.states) + len(self.actions),
            ),
            ends=self._conditions("an end or invariant", ends, len(self.states)),
        )

    def _conditions(
        self, what: str, nodes: Iterable[Node], known: int
    ) -> tuple[Node, ...]:
        found = tuple(nodes)
        for node in found:
            if is_random(node) or node.kind != "bool":
                raise Untranslatable(f"{what} that is random or no truth value")
            if any(place >= known for place in places(node)):
                raise Untranslatable(f"{what} that reads more than it may")
        return found

    def _groundings(self, types: Iterable[str]) -> list[tuple[str, ...]]:
        return list(product(*(self.model.type_to_objects[kind] for kind in types)))

    def translate(self, expression: Any, names: Names) -> Node:
        """The node of one of pyRDDLGym's expressions."""
        kind, detail = expression.etype
        if kind not in self.translators:
            raise Untranslatable(f"an expression of the kind {kind} {detail}")
        return self.translators[kind](expression, names)

    def _all(self, expressions: Iterable[Any], names: Names) -> tuple[Node, ...]:
        return tuple(self.translate(each, names) for each in expressions)

    def _chain(self, name: str, nodes: Iterator[Node]) -> Node:
        """A long operation; what follows a deciding argument is not looked at."""
        decides, kept = OPERATIONS[name].zero, []
        for node in nodes:
            if decides is not None and node == ConstantNode(decides):
                return ConstantNode(decides)
            kept.append(node)
        if not kept:
            raise Untranslatable(f"{name} of nothing")
        return apply(name, *kept)

    # --- leaves ---------------------------------------------------------------

    def _constant(self, expression: Any, names: Names) -> Node:
        return _number(expression.args)

    def _fluent(self, expression: Any, names: Names) -> Node:
        name, given = expression.args
        model = self.model
        if name.startswith("?"):
            return ConstantNode(model.object_to_index[names[name]])
        if not given and model.is_object(name):
            return ConstantNode(model.object_to_index[name.removeprefix("@")])
        types = model.variable_params.get(name)
        if types is None or len(types) != len(given or ()):
            raise Untranslatable(f"the fluent {name} with {len(given or ())} objects")
        return self._at(name, list(zip(given or (), types, strict=True)), (), names)

    def _at(
        self, name: str, given: list[Any], objects: tuple[str, ...], names: Names
    ) -> Node:
        """The fluent at ``objects`` and what ``given`` still stands for."""
        if not given:
            return self._value(name, objects)
        (argument, kind), *rest = given
        if isinstance(argument, str):
            if argument == "_":
                raise Untranslatable("a vector (_)")
            found = names.get(argument, argument.removeprefix("@"))
            return self._at(name, rest, (*objects, found), names)
        chosen = self.translate(argument, names)  # a fluent whose value is an object
        options = self.model.type_to_objects[kind]
        if isinstance(chosen, ConstantNode):
            found = options[int(chosen.value)]
            return self._at(name, rest, (*objects, found), names)
        if is_random(chosen):
            raise Untranslatable("a random object as the argument of a fluent")
        node = self._at(name, rest, (*objects, options[-1]), names)
        for number in reversed(range(len(options) - 1)):
            here = self._at(name, rest, (*objects, options[number]), names)
            node = choice(apply("==", chosen, ConstantNode(number)), here, node)
        return node

    def _value(self, name: str, objects: tuple[str, ...]) -> Node:
        model = self.model
        if model.variable_types[name] == "non-fluent":
            value = self.simulator.init_values[name]
            if objects:
                value = value[tuple(model.object_to_index[each] for each in objects)]
            return _number(value)
        slot = self.slots.get((name, objects))
        if slot is None:
            raise Untranslatable(f"the fluent {name} of {', '.join(objects)}")
        return slot

    # --- operations -----------------------------------------------------------

    def _arithmetic(self, expression: Any, names: Names) -> Node:
        sign, parts = expression.etype[1], expression.args
        if sign == "-" and len(parts) == 1:
            return apply("negative", self.translate(parts[0], names))
        if sign in "+*":
            return self._chain(sign, (self.translate(each, names) for each in parts))
        return apply(sign, *self._pair(sign, parts, names))

    def _pair(self, sign: str, parts: Any, names: Names) -> tuple[Node, ...]:
        if len(parts) != 2:
            raise Untranslatable(f"{sign} of {len(parts)} expressions")
        return self._all(parts, names)

    def _relational(self, expression: Any, names: Names) -> Node:
        sign = expression.etype[1]
        return apply(sign, *self._pair(sign, expression.args, names))

    def _logical(self, expression: Any, names: Names) -> Node:
        sign, parts = expression.etype[1], expression.args
        if sign == "~":
            name = "not" if len(parts) == 1 else "xor"
            return apply(name, *self._all(parts, names))
        name = LOGIC[sign]
        if name in ("and", "or"):
            return self._chain(name, (self.translate(each, names) for each in parts))
        return apply(name, *self._pair(sign, parts, names))

    def _aggregate(self, expression: Any, names: Names) -> Node:
        name = expression.etype[1]
        *variables, body = expression.args
        spoken = [variable for _, (variable, _) in variables]
        types = [kind for _, (_, kind) in variables]
        groundings = self._groundings(types)
        terms = (
            self.translate(body, names | dict(zip(spoken, objects, strict=True)))
            for objects in groundings
        )
        if name == "avg":
            return apply("/", self._chain("+", terms), ConstantNode(len(groundings)))
        if name not in AGGREGATES:
            raise Untranslatable(f"the aggregation {name}")
        return self._chain(AGGREGATES[name], terms)

    def _function(self, expression: Any, names: Names) -> Node:
        name = expression.etype[1]
        if name not in FUNCTIONS:
            raise Untranslatable(f"the function {name}")
        return apply(name, *self._all(expression.args, names))

    def _control(self, expression: Any, names: Names) -> Node:
        if expression.etype[1] == "if":
            condition, first, second = expression.args
            decided = self.translate(condition, names)
            if decided == TRUE:
                return self.translate(first, names)
            if decided == FALSE:
                return self.translate(second, names)
            return choice(decided, *self._all((first, second), names))
        switch, *cases = expression.args
        chosen = self.translate(switch, names)
        if is_random(chosen):
            raise Untranslatable("a switch over something random")
        node = None  # the default, at first
        for word, case in cases:
            if word != "case":
                node = self.translate(case, names)
        for word, case in reversed(cases):
            if word == "case":
                literal, body = case
                number = self.model.object_to_index[literal.removeprefix("@")]
                found = self.translate(body, names)
                node = (
                    found
                    if node is None
                    else choice(apply("==", chosen, ConstantNode(number)), found, node)
                )
        if node is None:
            raise Untranslatable("a switch without cases")
        return node

    def _random(self, expression: Any, names: Names) -> Node:
        name = expression.etype[1]
        if name in ("KronDelta", "DiracDelta"):
            (inner,) = self._all(expression.args, names)
            if name == "KronDelta" and inner.kind == "real":
                raise Untranslatable("KronDelta of a real number")
            return inner
        if name == "Bernoulli":
            (chance,) = self._all(expression.args, names)
            if isinstance(chance, ConstantNode) and chance.value in (0, 1):
                return ConstantNode(bool(chance.value))
            return FlipNode(chance)
        if name in ("Discrete", "UnnormDiscrete"):
            (_, kind), *cases = expression.args
            weights = {
                literal.removeprefix("@"): self.translate(body, names)
                for _, (literal, body) in cases
            }
            options = self.model.type_to_objects[kind]
            if set(weights) != set(options):
                raise Untranslatable(f"{name} that does not list every value of {kind}")
            return PickNode(
                tuple(weights[each] for each in options), name != "Discrete"
            )
        if name in ("Discrete(p)", "UnnormDiscrete(p)"):
            (_, (variable, kind)), (body,) = expression.args
            return PickNode(
                tuple(
                    self.translate(body, names | {variable: each})
                    for each in self.model.type_to_objects[kind]
                ),
                name != "Discrete(p)",
            )
        raise Untranslatable(f"the distribution {name}")


def _number(value: Any) -> ConstantNode:
    """A constant; only numbers and truth values get into what is compiled."""
    plain = value.item() if hasattr(value, "item") else value
    if not isinstance(plain, bool | int | float):
        raise Untranslatable(f"the constant {plain!r}")
    return ConstantNode(plain)
