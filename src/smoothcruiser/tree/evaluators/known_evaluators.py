"""Known values as evaluators: arrays over states, exact solutions, certified memories.

an array (S,) or (S, K)   of a problem with the states 0 to S - 1
a ``Solution``            its values (of the steps left, at a horizon); as a prior its
                          policy, as first values of actions its q_values
a ``Certified``           the middle of the bounds that its memory has, and the middle
                          of the possible values where it has none; read when the
                          tree is made
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.exact.solution import Solution
from smoothcruiser.tree.evaluators.base import Floats, LeafEvaluator, Leaves


class StateTable(LeafEvaluator):
    """An array over states."""

    def __init__(self, source: Any) -> None:
        self.source = np.array(source, dtype=np.float64)
        self.source.flags.writeable = False

    def table(self, width: int, name: str) -> Floats | None:
        """The array itself."""
        table: Floats = self.source
        if table.ndim == 1 and width == 1:
            table = table[:, None]
        if table.ndim != 2 or table.shape[1] != width:
            expected_shape = "(S,)" if width == 1 else f"(S, {width})"
            raise InvalidInput(
                f"{name} as an array must have the shape {expected_shape}, one row per "
                f"state, got {self.source.shape}."
            )
        return table

    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """Rows of the array."""
        table = self.table(width, name)
        assert table is not None
        answer_rows = []
        for state in leaves.states:
            is_number = isinstance(state, int | np.integer)
            if not is_number or not 0 <= state < len(table):
                raise InvalidInput(
                    f"{name} is an array of {len(table)} states, numbered from 0, and "
                    f"has no row for {state!r:.60}; give a function of the state."
                )
            answer_rows.append(table[int(state)])
        return np.array(answer_rows).reshape(leaves.count, width)

    def __str__(self) -> str:
        return f"array {self.source.shape}"


class Solved(LeafEvaluator):
    """Exact values."""

    def __init__(self, source: Solution) -> None:
        self.source = source

    def _columns(self, name: str) -> Floats:
        columns: Floats = self.source.values[:, None]
        if name != "value":
            columns = self.source.policy if name == "prior" else self.source.q_values
        return columns

    def table(self, width: int, name: str) -> Floats | None:
        """The arrays of a tabular problem without a horizon."""
        if self.source.states is not None or self.source.stages is not None:
            return None
        columns: Floats = np.nan_to_num(self._columns(name), nan=0.0)
        return columns

    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """Rows of the solution, those of the steps left where it has stages."""
        state_rows = [self.source.index(state) for state in leaves.states]
        stages = self.source.stages
        if stages is not None:
            if name != "value" or leaves.remaining is None:
                raise InvalidInput(
                    f"{name} cannot be a Solution with a horizon: only its values are "
                    "known for every number of steps left; give a function."
                )
            steps_and_rows = zip(leaves.remaining, state_rows, strict=True)
            return np.array(
                [
                    [stages[steps_left, state_row]]
                    for steps_left, state_row in steps_and_rows
                ]
            )
        answer_rows: Floats = np.nan_to_num(self._columns(name)[state_rows], nan=0.0)
        return answer_rows

    def __str__(self) -> str:
        return "Solution"


class CertifiedValues(LeafEvaluator):
    """Bounds of a certified memory."""

    partial = True

    def __init__(self, source: Any) -> None:
        self.source = source
        self._table = source.table() if hasattr(source, "table") else source

    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """Middles of bounds, NaN where a state was never met."""
        if name != "value":
            raise InvalidInput(f"{name} cannot be a certified memory; only value can.")
        remaining_steps: Any = leaves.remaining
        remaining_steps = (
            [None] * leaves.count if remaining_steps is None else remaining_steps
        )
        middles = np.full((leaves.count, 1), math.nan)
        for i, (state, steps_left) in enumerate(
            zip(leaves.states, remaining_steps, strict=True)
        ):
            try:
                middles[i, 0] = self._table.at(state, steps_left).value
            except InvalidInput:
                continue
        return middles

    def __str__(self) -> str:
        return type(self.source).__name__
