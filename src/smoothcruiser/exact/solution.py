"""``Solution``: the values of all states that the exact solver found."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.states import state_key
from smoothcruiser.problem.tabular import Floats
from smoothcruiser.shown import Shown, brief


@dataclass(frozen=True, eq=False)
class Solution(Shown):
    """Exact values with a proven bound on their error; S states, A actions."""

    # (S,), with all steps left where there is a horizon; 0 in terminal states, NaN
    # where unknown (``stages``), infinite where totals are (discount 1)
    values: Floats
    q_values: Floats  # (S, A), NaN where illegal and in terminal states
    # (S, A), the gradient of F at q_values; 0 where illegal and in terminal states, NaN
    # where the value is unknown or infinite. At discount 1 without a horizon it is one
    # best action that makes progress: others of equal value may stall for ever
    policy: Floats
    # max |values - V*| is at most this where they are finite, rounding included; so are
    # errors of q_values
    residual_bound: float
    method: str
    # passes over the transitions, with those of policy evaluation, without linear
    # solves
    sweeps: int
    seconds: float
    compile_seconds: float = 0.0
    # (horizon + 1, S): row h is the value with h steps left, NaN where it depends on
    # states that were not explored
    stages: Floats | None = None
    # what row i stands for, where the states were explored from ``outcomes``
    states: tuple[Any, ...] | None = None
    # what distinguishes states
    key_of: Callable[[Any], Hashable] = field(default=state_key, repr=False)
    note: str = ""  # why residual_bound is larger than the default aim, if it is

    def __repr__(self) -> str:
        return brief(
            "Solution",
            states=self.q_values.shape[0],
            actions=self.q_values.shape[1],
            residual_bound=float(self.residual_bound),
            method=self.method,
        )

    @cached_property
    def _rows(self) -> dict[Any, int]:
        return {self.key_of(state): i for i, state in enumerate(self.states or ())}

    def index(self, state: Any) -> int:
        """The row of ``state`` in the arrays."""
        if self.states is None:
            whole = isinstance(state, int | np.integer) and not isinstance(state, bool)
            if not whole or not 0 <= state < len(self.values):
                raise InvalidInput(
                    "state must be a whole number from 0 to "
                    f"{len(self.values) - 1}, got {state!r}."
                )
            return int(state)
        row = self._rows.get(self.key_of(state))
        if row is None:
            raise InvalidInput(
                f"State {state!r} is not among the {len(self.states):,} states that "
                "this solution explored, those that can follow "
                f"{self.states[0]!r}; solve the problem with initial_state= set to it, "
                "or plan there with method 'exact'."
            )
        return row
