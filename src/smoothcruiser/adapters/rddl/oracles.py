"""The step of an RDDL problem, and the names of its states and actions.

An oracle has a machine that runs the instance (``machines``), the list of joint actions
and, where the instance was translated, the law of its steps. States are tuples of plain
values, so nothing can be written into them, and equal ones are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from smoothcruiser.adapters.rddl.actions import MOST_ACTIONS, JointActions
from smoothcruiser.adapters.rddl.expressions import Value
from smoothcruiser.adapters.rddl.fluents import State, describe_state, read_state
from smoothcruiser.adapters.rddl.laws import Outcome, StepLaw
from smoothcruiser.adapters.rddl.machines import InstanceMachine
from smoothcruiser.adapters.rddl.operations import Interval
from smoothcruiser.adapters.rddl.reading import LIBRARY, Instance, flatten_values
from smoothcruiser.adapters.rddl.repository import Texts
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_whole, shorten_value
from smoothcruiser.problem.declared import check_range

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
    from smoothcruiser.adapters.rddl.access import oracle_of

    return oracle_of(texts, settings)
