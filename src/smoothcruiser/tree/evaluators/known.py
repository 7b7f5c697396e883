"""Known values as evaluators: arrays over states, exact solutions, certified memories.

an array (S,) or (S, K)   of a problem whose states are 0 to S - 1
a ``Solution``            its values (of the steps left, at a horizon); as a prior its
                          policy, as first values of actions its q_values
a ``Certified``           the middle of the bounds that its memory has, and the middle
                          of what is possible where it has none; read when the tree is
                          made
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
        found: Floats = self.source
        if found.ndim == 1 and width == 1:
            found = found[:, None]
        if found.ndim != 2 or found.shape[1] != width:
            shape = "(S,)" if width == 1 else f"(S, {width})"
            raise InvalidInput(
                f"{name} as an array must have the shape {shape}, one row per state, "
                f"got {self.source.shape}."
            )
        return found

    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """Rows of the array."""
        table = self.table(width, name)
        assert table is not None
        rows = []
        for state in leaves.states:
            whole = isinstance(state, int | np.integer)
            if not whole or not 0 <= state < len(table):
                raise InvalidInput(
                    f"{name} is an array of {len(table)} states, numbered from 0, and "
                    f"has no row for {state!r:.60}; give a function of the state."
                )
            rows.append(table[int(state)])
        return np.array(rows).reshape(leaves.count, width)

    def __str__(self) -> str:
        return f"array {self.source.shape}"


class Solved(LeafEvaluator):
    """Exact values."""

    def __init__(self, source: Solution) -> None:
        self.source = source

    def _columns(self, name: str) -> Floats:
        found: Floats = self.source.values[:, None]
        if name != "value":
            found = self.source.policy if name == "prior" else self.source.q_values
        return found

    def table(self, width: int, name: str) -> Floats | None:
        """The arrays of a tabular problem without a horizon."""
        if self.source.states is not None or self.source.stages is not None:
            return None
        found: Floats = np.nan_to_num(self._columns(name), nan=0.0)
        return found

    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """Rows of the solution, those of the steps left where it has stages."""
        rows = [self.source.index(state) for state in leaves.states]
        stages = self.source.stages
        if stages is not None:
            if name != "value" or leaves.remaining is None:
                raise InvalidInput(
                    f"{name} cannot be a Solution with a horizon: only its values are "
                    "known for every number of steps left; give a function."
                )
            left = zip(leaves.remaining, rows, strict=True)
            return np.array([[stages[steps, row]] for steps, row in left])
        found: Floats = np.nan_to_num(self._columns(name)[rows], nan=0.0)
        return found

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
        left: Any = leaves.remaining
        left = [None] * leaves.count if left is None else left
        found = np.full((leaves.count, 1), math.nan)
        for i, (state, steps) in enumerate(zip(leaves.states, left, strict=True)):
            try:
                found[i, 0] = self._table.at(state, steps).value
            except InvalidInput:
                continue
        return found

    def __str__(self) -> str:
        return type(self.source).__name__
