"""The rows of a table: which states a memory has seen, and with which bounds.

Without a horizon a row is a node. With one it is a stage: a node with a number
of steps left. The bounds of a stage's actions are computed when its row is
read.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.counted_model import UNKNOWN, Guess
from smoothcruiser.certified.sweeps.layers import LayeredRegion
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.problem.model.tabular import Ints


class NodeRows:
    """The nodes of a memory as they were when a table was made."""

    def __init__(self, memory: Memory, guesses: list[Guess]) -> None:
        self._nodes = memory.graph.nodes[: memory.num_nodes].copy()
        self._pairs = memory.graph.pairs[: memory.num_pairs].copy()
        # before the first query is prepared, all of a horizon's steps are left
        self._left = memory.problem.horizon
        self._guesses = guesses

    def __len__(self) -> int:
        return len(self._nodes) - 1

    def place(self, index: int) -> tuple[int, int | None]:
        """The node of a row, and its steps left."""
        return index + 1, self._left

    def row(self, index: int) -> tuple[Any, Any, Guess]:
        """The node of a row and its pairs, with their bounds, and its likely value."""
        node = self._nodes[index + 1]
        pairs = self._pairs[node["first"] : node["first"] + node["size"]]
        return node, pairs, self._guesses[index + 1]

    def find(self, node: int, remaining: int | None) -> int | None:
        """The row of a node; None where it has none."""
        return node - 1 if remaining in (None, self._left) else None


class StageRows(NodeRows):
    """The stages of a memory as they were when a table was made."""

    def __init__(self, region: LayeredRegion) -> None:
        self._region = region.copy_layers()
        self._layers = self._region.layers
        self._region.counted.settle(0)

    def __len__(self) -> int:
        return int(self._layers.starts[-1])

    def _layer(self, index: int) -> int:
        return int(np.searchsorted(self._layers.starts, index, side="right")) - 1

    def place(self, index: int) -> tuple[int, int | None]:
        """The node of a row, and its steps left."""
        steps_left = self._region.horizon - self._layer(index)
        return int(self._layers.stages["node"][index]), steps_left

    def row(self, index: int) -> tuple[Any, Any, Guess]:
        """The node of a row and its pairs, with their bounds, and its likely value."""
        layer = self._layer(index)
        self._region.show(layer, index)
        node_number, _ = self.place(index)
        graph = self._region.memory.graph
        pairs = self._region.memory.pairs_of(node_number)
        guess = self._region.counted.at_stage(layer, index)
        return graph.nodes[node_number].copy(), pairs.copy(), guess

    @cached_property
    def _rows(self) -> dict[tuple[int, int], int]:
        """The row of each node in each layer."""
        layer_sizes: Ints = np.diff(self._layers.starts)
        depths = np.repeat(np.arange(len(layer_sizes)), layer_sizes).tolist()
        nodes = self._layers.stages["node"][: len(self)].tolist()
        return {
            stage_key: row_index
            for row_index, stage_key in enumerate(zip(nodes, depths, strict=True))
        }

    def find(self, node: int, remaining: int | None) -> int | None:
        """The row of a node with so many steps left, by default all of them."""
        horizon = self._region.horizon
        steps_left = horizon if remaining is None else remaining
        return self._rows.get((node, horizon - steps_left))


def make_table_rows(memory: Memory, region: Region | None, num_calls: int) -> NodeRows:
    """The states that a memory has seen; ``region`` is None before the first query."""
    if isinstance(region, LayeredRegion):
        return StageRows(region)
    if region is None:
        return NodeRows(memory, [UNKNOWN] * memory.num_nodes)
    return NodeRows(memory, region.counted.guess_all(num_calls))
