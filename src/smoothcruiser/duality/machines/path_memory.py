"""The memory of a path: arrays for machine code, lists for interpreted paths.

A graph grows by doubling. Growth keeps what is there, so that a path goes on where it
had no room; it never begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.duality.machines import path_kernel
from smoothcruiser.duality.machines.gap_rules import GapRule
from smoothcruiser.duality.machines.path_kernel import PathGraph, PathNotes, StepBatch

Allocate = Callable[[int], Any]  # memory for so many states
FIRST_NODES = 1024
MOST_SLOTS = 2**60
LUCK_BITS = 53  # of the coin that decides a path's length


def longest_path(rule: GapRule) -> int:
    """The most steps that a path can have (``evaluation.path_rules.path_length``)."""
    if rule.fixed or rule.discount == 0.0:
        return rule.head + 1
    return (
        rule.head + 3 + math.floor(-LUCK_BITS * math.log(2) / math.log(rule.discount))
    )


def batch_rows(rule: GapRule, num_actions: int, chunk: int) -> int:
    """The rows of a batch that has room for ``chunk`` nodes, and for a lookahead."""
    rows = max(chunk * (1 + rule.num_inner), rule.num_lookahead)
    return num_actions * rows


class PathArrays:
    """Arrays; ``allocate`` reserves states."""

    def __init__(self, num_actions: int, weights: Any, allocate: Allocate) -> None:
        self.num_actions, self.allocate = num_actions, allocate
        self.weights = weights
        self.graph = self.make_graph(FIRST_NODES)
        self.batch = self.make_batch(1)
        self.paper = self.make_paper()
        self.spans = np.zeros((0, 2))

    def numbers(self, size: int, fill: float = 0.0) -> Any:
        """So many floats."""
        return np.full(size, fill)

    def integers(self, size: int) -> Any:
        """So many whole numbers, which are 0."""
        return np.zeros(size, np.int64)

    def make_words(self, rows: int) -> Any:
        """A table of words of streams."""
        return np.zeros((rows, 5), np.uint64)

    def make_graph(self, nodes: int) -> PathGraph:
        """An empty graph."""
        pairs = nodes * self.num_actions
        return PathGraph(
            states=self.allocate(nodes),
            children=self.integers(pairs),
            edges=self.numbers(pairs),
            q=self.numbers(pairs),
            shares=self.numbers(pairs),
            scores=self.numbers(nodes),
            offsets=self.numbers(nodes),
            values=self.numbers(nodes),
            w=self.numbers(nodes),
            signs=self.numbers(nodes),
            layers=self.integers(2),
            slots=self.integers(64),
            serials=self.integers(64),
        )

    def make_batch(self, rows: int) -> StepBatch:
        """A batch of so many rows."""
        return StepBatch(
            self.numbers(rows),
            self.integers(rows),
            self.numbers(rows),
            self.allocate(rows),
        )

    def make_paper(self) -> PathNotes:
        """Tables and vectors."""
        K = self.num_actions
        return PathNotes(
            words=self.make_words(1),
            look_words=self.make_words(1),
            spot=self.make_words(1),
            first=None,
            meta=self.integers(path_kernel.META),
            extremes=self.numbers(path_kernel.EXTREMES),
            spans=None,
            fault=self.numbers(1),
            weight=self.numbers(1),
            x=self.numbers(K),
            y=self.numbers(K),
            p=self.numbers(K),
            weights=self.weights,
            w=self.numbers(K),
            ids=self.integers(K),
            walk=self.numbers(3),
        )

    def prepare(self, rule: GapRule, num_times: int, chunk: int) -> None:
        """Make room for a rule, and forget the path under way."""
        rows = batch_rows(rule, self.num_actions, chunk)
        if len(self.batch.rewards) < rows:
            self.batch = self.make_batch(rows)
        longest = longest_path(rule)
        if len(self.graph.layers) < longest + 2:
            self.graph = self.graph._replace(layers=self.integers(longest + 2))
        if len(self.paper.words) < 1 + rule.num_inner:
            self.paper = self.paper._replace(words=self.make_words(1 + rule.num_inner))
        if len(self.paper.look_words) < rule.num_lookahead:
            table = self.make_words(rule.num_lookahead)
            self.paper = self.paper._replace(look_words=table)
        if len(self.spans) != num_times:
            self.spans = np.tile([math.inf, -math.inf], (num_times, 1))
            self.paper = self.paper._replace(spans=self.view_spans())
        self.note_lengths()
        meta = self.paper.meta
        meta[path_kernel.NUM_TIMES] = num_times
        meta[path_kernel.UNDERWAY] = meta[path_kernel.ROW_NUMBER] = 0
        meta[path_kernel.CALLS] = 0

    def note_lengths(self) -> None:
        """Write the lengths of the arrays where the kernel reads them."""
        meta = self.paper.meta
        meta[path_kernel.CAPACITY] = len(self.graph.scores)
        meta[path_kernel.NUM_SLOTS] = min(len(self.graph.slots), MOST_SLOTS)

    def view_spans(self) -> Any:
        """The spans in the form that the kernel writes."""
        return self.spans

    def extend(self, old: Any, size: int) -> Any:
        """An array with more elements that begins as ``old``."""
        longer = np.zeros((size, *old.shape[1:]), old.dtype)
        longer[: len(old)] = old
        return longer

    def extend_states(self, old: Any, size: int) -> Any:
        """Memory for more states that begins as ``old``."""
        longer = self.allocate(size)
        longer[: len(old)] = old
        return longer

    def grow(self) -> None:
        """Make room for the layer under way, or for twice as many nodes."""
        graph, meta, K = self.graph, self.paper.meta, self.num_actions
        time = int(meta[path_kernel.TIME])
        width = int(graph.layers[time + 1] - graph.layers[time])
        if 2 * K * width > len(graph.slots):
            size = 2 ** math.ceil(math.log2(4 * K * width))
            self.graph = graph._replace(
                slots=self.extend(graph.slots, size),
                serials=self.extend(graph.serials, size),
            )
            self.note_lengths()
            return
        nodes = 2 * len(graph.scores)
        by_action = ("children", "edges", "q", "shares")
        by_node = ("scores", "offsets", "values", "w", "signs")
        arrays = {n: self.extend(getattr(graph, n), nodes * K) for n in by_action}
        arrays |= {n: self.extend(getattr(graph, n), nodes) for n in by_node}
        arrays["states"] = self.extend_states(graph.states, nodes)
        self.graph = graph._replace(**arrays)
        self.note_lengths()


class PathLists(PathArrays):
    """Lists, whose elements are Python's numbers and any states."""

    def numbers(self, size: int, fill: float = 0.0) -> Any:
        """So many floats."""
        return [fill] * size

    def integers(self, size: int) -> Any:
        """So many whole numbers, which are 0."""
        return [0] * size

    def make_words(self, rows: int) -> Any:
        """A table of words of streams."""
        return [None] * rows

    def make_graph(self, nodes: int) -> PathGraph:
        """An empty graph; its nodes are found by a dictionary."""
        graph = super().make_graph(nodes)
        no_table: Any = range(MOST_SLOTS)
        return graph._replace(slots=no_table, serials=no_table)

    def view_spans(self) -> Any:
        """The spans in the form that the kernel writes."""
        return self.spans.reshape(-1).data

    def extend(self, old: Any, size: int) -> Any:
        """The same list, with more elements."""
        old.extend([0.0] * (size - len(old)))
        return old

    extend_states = extend
