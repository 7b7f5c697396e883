"""Two machines that run one instance: our translation, and pyRDDLGym's interpreter.

Both answer the same three questions about states and the values of action fluents, and
take random numbers only from the ``rng`` of the call:

  step         (reward, next state)
  is_allowed   whether the action preconditions hold
  is_over      whether a termination condition holds, or a state invariant is broken
               (there pyRDDLGym's environment ends an episode too)

``TranslatedMachine`` runs the functions of ``code``, a few microseconds per step.
``InterpretedMachine`` puts a state into pyRDDLGym's simulator and lets it step, about a
millisecond; it runs instances without a translation, and the tests compare the two.

The step of an RDDL problem, and the names of its states and actions.

An oracle has a machine that runs the instance (``machines``), the list of joint actions
and, where the instance was translated, the law of its steps. States are tuples of plain
values, so nothing can be written into them, and equal ones are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from smoothcruiser.adapters.rddl.code import functions
from smoothcruiser.adapters.rddl.expressions import Interval, Value
from smoothcruiser.adapters.rddl.fluents import (
    MOST_ACTIONS,
    JointActions,
    State,
    describe_state,
    read_state,
)
from smoothcruiser.adapters.rddl.grounding import GroundInstance
from smoothcruiser.adapters.rddl.laws import Outcome, StepLaw
from smoothcruiser.adapters.rddl.reading import (
    LIBRARY,
    Instance,
    Texts,
    flatten_values,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_whole, shorten_value
from smoothcruiser.problem.declaration_checks import check_range

RANDOM_VARIABLE = "a random variable"


class InstanceMachine(Protocol):
    """A program that runs an instance."""

    def step(self, state: State, action: State, rng: Any) -> tuple[float, State]:
        """One sample of (reward, next state)."""

    def is_allowed(self, state: State, action: State) -> bool:
        """Whether the action preconditions hold."""

    def is_over(self, state: State) -> bool:
        """Whether an episode ends in this state."""


class TranslatedMachine:
    """Runs the functions that expressions were compiled to."""

    def __init__(self, ground: GroundInstance) -> None:
        compiled_functions = functions(ground)
        self._step, self.num_samples = (
            compiled_functions.step,
            compiled_functions.num_samples,
        )
        self.is_allowed, self.is_over = (
            compiled_functions.allowed,
            compiled_functions.over,
        )

    def step(self, state: State, action: State, rng: Any) -> tuple[float, State]:
        """One sample; all random numbers that it may need are taken at once."""
        if not self.num_samples:
            return self._step(state, action, _refuse_number)
        uniform_numbers = rng.numpy().random(self.num_samples).tolist()
        return self._step(state, action, iter(uniform_numbers).__next__)


def _refuse_number() -> float:
    raise AssertionError("a step without randomness took a random number")


class InterpretedMachine:
    """Runs pyRDDLGym's simulator from any state."""

    def __init__(self, instance: Instance) -> None:
        _check_conditions(instance)
        self.simulator = instance.simulator
        self.names = tuple(instance.model.state_fluents)
        self.after = tuple(instance.model.next_state[name] for name in self.names)
        self.states = _list_shapes(self.simulator.init_values, self.names)
        self.actions = _list_shapes(
            self.simulator.init_values, instance.model.action_fluents
        )
        self.fixed = dict(self.simulator.init_values)

    def _load_state(self, state: State, action: State | None = None) -> dict[str, Any]:
        """Put the simulator into a state; the values of an action's fluents."""
        self.simulator.subs = self.fixed | _shape_values(self.states, state)
        return {} if action is None else _shape_values(self.actions, action)

    def step(self, state: State, action: State, rng: Any) -> tuple[float, State]:
        """One sample, with a generator on the planner's stream."""
        simulator = self.simulator
        simulator.rng = rng.numpy()
        try:
            _, reward, _ = simulator.step(self._load_state(state, action))
            return float(reward), flatten_values(simulator.subs, self.names)
        finally:
            simulator.rng = None  # nothing else may be sampled from

    def is_allowed(self, state: State, action: State) -> bool:
        """Whether the action preconditions hold."""
        action_values = self._load_state(state, action)
        return bool(
            self.simulator.check_action_preconditions(action_values, silent=True)
        )

    def is_over(self, state: State) -> bool:
        """Whether an episode ends in this state."""
        self._load_state(state)
        return bool(
            self.simulator.check_terminal_states()
            or not self.simulator.check_state_invariants(silent=True)
        )


def _check_conditions(instance: Instance) -> None:
    """Refuse conditions that state and action do not decide.

    pyRDDLGym evaluates them with the values of other fluents one step before.
    """
    model = instance.model
    readable_kinds = {"non-fluent", "state-fluent"}
    for noun, condition_expressions, allowed_kinds in (
        ("A termination condition", model.terminations, readable_kinds),
        ("A state invariant", model.invariants, readable_kinds),
        (
            "An action precondition",
            model.preconditions,
            readable_kinds | {"action-fluent"},
        ),
    ):
        for fluent_name in _list_reads(condition_expressions):
            fluent_kind = (
                "random"
                if fluent_name == RANDOM_VARIABLE
                else model.variable_types.get(fluent_name)
            )
            if (
                fluent_kind is not None and fluent_kind not in allowed_kinds
            ):  # None: an object
                raise InvalidInput(
                    f"{noun} of {instance.name} reads {fluent_name}, which is no part "
                    "of the state; let it read state fluents alone."
                )


def _list_reads(expressions: Any) -> Iterator[str]:
    """The fluents that expressions read, and the distributions that they sample."""
    for expression in expressions:
        if isinstance(expression, list | tuple):
            yield from _list_reads(expression)
        elif hasattr(expression, "etype"):
            kind, _ = expression.etype
            if kind == "pvar":
                yield expression.args[0]
            if kind in ("randomvar", "randomvector"):
                yield RANDOM_VARIABLE
            if isinstance(expression.args, list | tuple):
                yield from _list_reads(expression.args)


Shapes = tuple[tuple[str, Any, Any, int], ...]  # name, shape, dtype, size


def _list_shapes(arrays: Any, names: Any) -> Shapes:
    return tuple(
        (
            fluent_name,
            np.shape(arrays[fluent_name]),
            np.asarray(arrays[fluent_name]).dtype,
            np.size(arrays[fluent_name]),
        )
        for fluent_name in names
    )


def _shape_values(shapes: Shapes, values: Sequence[Any]) -> dict[str, Any]:
    """Values one after the other as the arrays of fluents."""
    fluent_arrays, start_index = {}, 0
    for fluent_name, shape, dtype, num_values in shapes:
        flat_values = np.array(
            values[start_index : start_index + num_values], dtype=dtype
        )
        fluent_arrays[fluent_name] = (
            flat_values.reshape(shape) if shape else flat_values[0]
        )
        start_index += num_values
    return fluent_arrays


def conditions_of(instance: Instance) -> tuple[bool, bool]:
    """Whether there are preconditions, and whether there are ends."""
    model = instance.model
    return bool(model.preconditions), bool(model.terminations or model.invariants)


ACCESS = ("auto", "translate", "interpret")
KEPT_STATES = 100_000  # with remembered legal actions


@dataclass(frozen=True)
class Settings:
    """How an instance is run; with its texts it determines the oracle.

    Args:
        access: "translate" (to Python functions), "interpret" (by pyRDDLGym), or
            "auto": translated where that is possible.
        max_actions: the most joint actions that are listed.
        max_outcomes: the most outcomes that are listed of one step; 0 for none.
        reward_range: (low, high), which holds every reward; by default it is derived.
    """

    access: str = "auto"
    max_actions: int = MOST_ACTIONS
    max_outcomes: int = 1024
    reward_range: Interval | None = None

    def __post_init__(self) -> None:
        if self.access not in ACCESS:
            raise InvalidInput(
                f"access must be one of {', '.join(ACCESS)}, got "
                f"{shorten_value(self.access)}."
            )
        for setting_name, smallest_count in (("max_actions", 1), ("max_outcomes", 0)):
            count = getattr(self, setting_name)
            if not is_whole(count) or count < smallest_count:
                raise InvalidInput(
                    f"{setting_name} must be a whole number of at least "
                    f"{smallest_count}, got {shorten_value(count)}."
                )
        if self.reward_range is not None:
            check_range("reward_range", self.reward_range)
            lower_bound, upper_bound = self.reward_range
            object.__setattr__(
                self, "reward_range", (float(lower_bound), float(upper_bound))
            )


class RDDLOracle:
    """The step of an instance: (reward, next state)."""

    def __init__(
        self,
        instance: Instance,
        settings: Settings,
        machine: InstanceMachine,
        joint: JointActions,
        ranges: Sequence[Interval],
        reward_range: Interval,
        law: StepLaw | None,
    ) -> None:
        self.instance, self.settings = instance, settings
        self.machine, self.joint = machine, joint
        self.ranges, self.reward_range = ranges, reward_range
        self.law = law
        # whether a step has one outcome: nothing in it samples
        self.deterministic = law is not None and not law.samples
        self.actions = tuple(joint.ground_action(a) for a in range(len(joint.values)))
        self._legal = lru_cache(KEPT_STATES)(self._compute_legal)

    def __fingerprint__(self) -> Any:
        texts = self.instance.texts
        return texts.domain, texts.instance, repr(self.settings), LIBRARY

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_oracle, (self.instance.texts, self.settings)

    def __call__(self, state: State, action: int, rng: Any) -> tuple[float, State]:
        """One sample of (reward, next state)."""
        return self.machine.step(state, self.joint.values[action], rng)

    def outcomes(self, state: State, action: int) -> list[Outcome] | None:
        """The law of a step; None where it has too many outcomes."""
        assert self.law is not None
        return self.law.outcomes(state, self.joint.values[action])

    def legal(self, state: State, action: int) -> bool:
        """Whether the action preconditions allow an action."""
        return action in self._legal(state)

    def _compute_legal(self, state: State) -> frozenset[int]:
        joint_values = self.joint.values
        is_allowed = self.machine.is_allowed
        return frozenset(
            a for a in range(len(joint_values)) if is_allowed(state, joint_values[a])
        )

    def terminal(self, state: State) -> bool:
        """Whether an episode ends in this state."""
        return self.machine.is_over(state)

    def parse(self, state: Any) -> State:
        """The state that a list of values, or a dict of them, stands for."""
        return read_state(self.instance.states, state, self.ranges)

    def plain(self, state: State) -> dict[str, Value]:
        """The values that differ from the fluents' defaults, by their names."""
        return describe_state(self.instance.states, state)

    def read(self, simulator: Any) -> State:
        """The state that a running environment of pyRDDLGym is in."""
        try:
            fluent_values = simulator.unwrapped.sampler.subs
            return flatten_values(fluent_values, self.instance.model.state_fluents)
        except (AttributeError, KeyError) as error:
            raise InvalidInput(
                f"{type(simulator).__name__} is no environment of pyRDDLGym for "
                f"{self.instance.name}."
            ) from error


def rebuild_oracle(texts: Texts, settings: Settings) -> RDDLOracle:
    """The oracle of an instance, built anew: in another process, say."""
    from smoothcruiser.adapters.rddl.domains import oracle_of

    return oracle_of(texts, settings)
