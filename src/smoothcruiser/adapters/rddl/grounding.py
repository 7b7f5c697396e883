"""From pyRDDLGym's tree of a domain to expressions of one instance.

pyRDDLGym parses a domain and an instance into a *lifted* model, with expressions over
variables ("?c"). Here every variable is replaced by each of its objects, every
quantifier by a list, every non-fluent by its value.

pyRDDLGym has its own grounder. It does not know Discrete, switch and nested fluents,
and it leaves non-fluents in place, so that expressions stay large.

Everything that cannot be expressed (``Untranslatable``) is left to pyRDDLGym's own
interpreter (``machines``): continuous distributions, vectors, matrices, argmin, Python
functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from smoothcruiser.adapters.rddl.expressions import (
    FALSE,
    KINDS,
    OPERATIONS,
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

Bindings = dict[str, str]  # the object that each variable stands for

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
    """One instance as expressions over slots: state, action, then computed ones."""

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
    return Grounder(model, simulator, tuple(states), tuple(actions)).ground_instance()


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
        self.translators: dict[str, Callable[[Any, Bindings], Node]] = {
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
        declared_range = self.model.variable_ranges[name]
        kind = declared_range if declared_range in KINDS else "int"
        slot = SlotNode(len(self.slots), kind)
        self.slots[name, objects] = slot
        return slot

    def ground_instance(self) -> GroundInstance:
        """All expressions of the instance."""
        model, assignments = self.model, []
        wanted_groundings = {
            fluent_name: self._groundings(model.variable_params[fluent_name])
            for fluent_name, _, _ in self.simulator.cpfs
            if model.variable_types[fluent_name] != "observ-fluent"
        }
        for fluent_name, groundings in wanted_groundings.items():
            for objects in groundings:
                self._slot(fluent_name, objects)
        for fluent_name, groundings in wanted_groundings.items():
            variables, expression = model.cpfs[fluent_name]
            for objects in groundings:
                names = {
                    variable: object_name
                    for (variable, _), object_name in zip(
                        variables, objects, strict=True
                    )
                }
                slot = self.slots[fluent_name, objects]
                node = self.translate(expression, names)
                if KINDS.index(node.kind) > KINDS.index(slot.kind):
                    raise Untranslatable(
                        f"{fluent_name}, which is {node.kind}, not {slot.kind}"
                    )
                assignments.append(Assignment(slot.place, node, slot.kind))
        end_conditions = (
            *(self.translate(condition, {}) for condition in model.terminations),
            *(
                apply("not", self.translate(condition, {}))
                for condition in model.invariants
            ),
        )
        return GroundInstance(
            states=self.states,
            actions=self.actions,
            assignments=tuple(assignments),
            after=tuple(
                self.slots[model.next_state[fluent.name], fluent.objects].place
                for fluent in self.states
            ),
            reward=self.translate(model.reward, {}),
            preconditions=self._conditions(
                "an action precondition",
                (self.translate(condition, {}) for condition in model.preconditions),
                len(self.states) + len(self.actions),
            ),
            ends=self._conditions(
                "an end or invariant", end_conditions, len(self.states)
            ),
        )

    def _conditions(
        self, noun: str, nodes: Iterable[Node], num_known: int
    ) -> tuple[Node, ...]:
        conditions = tuple(nodes)
        for node in conditions:
            if is_random(node) or node.kind != "bool":
                raise Untranslatable(f"{noun} that is random or no truth value")
            if any(place >= num_known for place in places(node)):
                raise Untranslatable(f"{noun} that reads more than it may")
        return conditions

    def _groundings(self, types: Iterable[str]) -> list[tuple[str, ...]]:
        return list(
            product(*(self.model.type_to_objects[type_name] for type_name in types))
        )

    def translate(self, expression: Any, names: Bindings) -> Node:
        """The node of one of pyRDDLGym's expressions."""
        kind, detail = expression.etype
        if kind not in self.translators:
            raise Untranslatable(f"an expression of the kind {kind} {detail}")
        return self.translators[kind](expression, names)

    def _translate_all(
        self, expressions: Iterable[Any], names: Bindings
    ) -> tuple[Node, ...]:
        return tuple(self.translate(expression, names) for expression in expressions)

    def _translate_chain(self, name: str, nodes: Iterator[Node]) -> Node:
        """A long operation; arguments after a deciding one are not translated."""
        deciding_value, arguments = OPERATIONS[name].zero, []
        for node in nodes:
            if deciding_value is not None and node == ConstantNode(deciding_value):
                return ConstantNode(deciding_value)
            arguments.append(node)
        if not arguments:
            raise Untranslatable(f"{name} of nothing")
        return apply(name, *arguments)

    # --- leaves ---------------------------------------------------------------

    def _constant(self, expression: Any, names: Bindings) -> Node:
        return _number(expression.args)

    def _fluent(self, expression: Any, names: Bindings) -> Node:
        fluent_name, arguments = expression.args
        model = self.model
        if fluent_name.startswith("?"):
            return ConstantNode(model.object_to_index[names[fluent_name]])
        if not arguments and model.is_object(fluent_name):
            return ConstantNode(model.object_to_index[fluent_name.removeprefix("@")])
        argument_types = model.variable_params.get(fluent_name)
        if argument_types is None or len(argument_types) != len(arguments or ()):
            raise Untranslatable(
                f"the fluent {fluent_name} with {len(arguments or ())} objects"
            )
        return self._resolve_fluent(
            fluent_name,
            list(zip(arguments or (), argument_types, strict=True)),
            (),
            names,
        )

    def _resolve_fluent(
        self,
        fluent_name: str,
        arguments: list[Any],
        objects: tuple[str, ...],
        names: Bindings,
    ) -> Node:
        """The fluent at ``objects``, followed by the objects of ``arguments``."""
        if not arguments:
            return self._value(fluent_name, objects)
        (argument, type_name), *later_arguments = arguments
        if isinstance(argument, str):
            if argument == "_":
                raise Untranslatable("a vector (_)")
            object_name = names.get(argument, argument.removeprefix("@"))
            return self._resolve_fluent(
                fluent_name, later_arguments, (*objects, object_name), names
            )
        # a fluent with an object as value
        chosen_node = self.translate(argument, names)
        type_objects = self.model.type_to_objects[type_name]
        if isinstance(chosen_node, ConstantNode):
            object_name = type_objects[int(chosen_node.value)]
            return self._resolve_fluent(
                fluent_name, later_arguments, (*objects, object_name), names
            )
        if is_random(chosen_node):
            raise Untranslatable("a random object as the argument of a fluent")
        node = self._resolve_fluent(
            fluent_name, later_arguments, (*objects, type_objects[-1]), names
        )
        for object_number in reversed(range(len(type_objects) - 1)):
            node_here = self._resolve_fluent(
                fluent_name,
                later_arguments,
                (*objects, type_objects[object_number]),
                names,
            )
            node = choice(
                apply("==", chosen_node, ConstantNode(object_number)), node_here, node
            )
        return node

    def _value(self, fluent_name: str, objects: tuple[str, ...]) -> Node:
        model = self.model
        if model.variable_types[fluent_name] == "non-fluent":
            constant_value = self.simulator.init_values[fluent_name]
            if objects:
                constant_value = constant_value[
                    tuple(
                        model.object_to_index[object_name] for object_name in objects
                    )
                ]
            return _number(constant_value)
        slot = self.slots.get((fluent_name, objects))
        if slot is None:
            raise Untranslatable(f"the fluent {fluent_name} of {', '.join(objects)}")
        return slot

    # --- operations -----------------------------------------------------------

    def _arithmetic(self, expression: Any, names: Bindings) -> Node:
        sign, arguments = expression.etype[1], expression.args
        if sign == "-" and len(arguments) == 1:
            return apply("negative", self.translate(arguments[0], names))
        if sign in "+*":
            return self._translate_chain(
                sign, (self.translate(argument, names) for argument in arguments)
            )
        return apply(sign, *self._pair(sign, arguments, names))

    def _pair(self, sign: str, arguments: Any, names: Bindings) -> tuple[Node, ...]:
        if len(arguments) != 2:
            raise Untranslatable(f"{sign} of {len(arguments)} expressions")
        return self._translate_all(arguments, names)

    def _relational(self, expression: Any, names: Bindings) -> Node:
        sign = expression.etype[1]
        return apply(sign, *self._pair(sign, expression.args, names))

    def _logical(self, expression: Any, names: Bindings) -> Node:
        sign, arguments = expression.etype[1], expression.args
        if sign == "~":
            operation_name = "not" if len(arguments) == 1 else "xor"
            return apply(operation_name, *self._translate_all(arguments, names))
        operation_name = LOGIC[sign]
        if operation_name in ("and", "or"):
            return self._translate_chain(
                operation_name,
                (self.translate(argument, names) for argument in arguments),
            )
        return apply(operation_name, *self._pair(sign, arguments, names))

    def _aggregate(self, expression: Any, names: Bindings) -> Node:
        name = expression.etype[1]
        *variables, body = expression.args
        variable_names = [variable for _, (variable, _) in variables]
        variable_types = [type_name for _, (_, type_name) in variables]
        groundings = self._groundings(variable_types)
        terms = (
            self.translate(
                body, names | dict(zip(variable_names, objects, strict=True))
            )
            for objects in groundings
        )
        if name == "avg":
            return apply(
                "/", self._translate_chain("+", terms), ConstantNode(len(groundings))
            )
        if name not in AGGREGATES:
            raise Untranslatable(f"the aggregation {name}")
        return self._translate_chain(AGGREGATES[name], terms)

    def _function(self, expression: Any, names: Bindings) -> Node:
        function_name = expression.etype[1]
        if function_name not in FUNCTIONS:
            raise Untranslatable(f"the function {function_name}")
        return apply(function_name, *self._translate_all(expression.args, names))

    def _control(self, expression: Any, names: Bindings) -> Node:
        if expression.etype[1] == "if":
            condition, then_expression, else_expression = expression.args
            condition_node = self.translate(condition, names)
            if condition_node == TRUE:
                return self.translate(then_expression, names)
            if condition_node == FALSE:
                return self.translate(else_expression, names)
            return choice(
                condition_node,
                *self._translate_all((then_expression, else_expression), names),
            )
        switch, *cases = expression.args
        switch_node = self.translate(switch, names)
        if is_random(switch_node):
            raise Untranslatable("a switch over something random")
        node = None  # the default, at first
        for case_word, case in cases:
            if case_word != "case":
                node = self.translate(case, names)
        for case_word, case in reversed(cases):
            if case_word == "case":
                literal, body = case
                object_number = self.model.object_to_index[literal.removeprefix("@")]
                case_node = self.translate(body, names)
                node = (
                    case_node
                    if node is None
                    else choice(
                        apply("==", switch_node, ConstantNode(object_number)),
                        case_node,
                        node,
                    )
                )
        if node is None:
            raise Untranslatable("a switch without cases")
        return node

    def _random(self, expression: Any, names: Bindings) -> Node:
        law_name = expression.etype[1]
        if law_name in ("KronDelta", "DiracDelta"):
            (inner_node,) = self._translate_all(expression.args, names)
            if law_name == "KronDelta" and inner_node.kind == "real":
                raise Untranslatable("KronDelta of a real number")
            return inner_node
        if law_name == "Bernoulli":
            (chance,) = self._translate_all(expression.args, names)
            if isinstance(chance, ConstantNode) and chance.value in (0, 1):
                return ConstantNode(bool(chance.value))
            return FlipNode(chance)
        if law_name in ("Discrete", "UnnormDiscrete"):
            (_, type_name), *cases = expression.args
            weights = {
                literal.removeprefix("@"): self.translate(body, names)
                for _, (literal, body) in cases
            }
            type_objects = self.model.type_to_objects[type_name]
            if set(weights) != set(type_objects):
                raise Untranslatable(
                    f"{law_name} that does not list every value of {type_name}"
                )
            return PickNode(
                tuple(weights[object_name] for object_name in type_objects),
                law_name != "Discrete",
            )
        if law_name in ("Discrete(p)", "UnnormDiscrete(p)"):
            (_, (variable, type_name)), (body,) = expression.args
            return PickNode(
                tuple(
                    self.translate(body, names | {variable: object_name})
                    for object_name in self.model.type_to_objects[type_name]
                ),
                law_name != "Discrete(p)",
            )
        raise Untranslatable(f"the distribution {law_name}")


def _number(value: Any) -> ConstantNode:
    """A constant; only numbers and truth values get into compiled code."""
    plain_value = value.item() if hasattr(value, "item") else value
    if not isinstance(plain_value, bool | int | float):
        raise Untranslatable(f"the constant {plain_value!r}")
    return ConstantNode(plain_value)
