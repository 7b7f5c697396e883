"""The best estimate of certified search: the solution of the counted model.

The bounds are certain. They are wide long before the samples are few: at gamma
= 0.97 the middle of an interval can be three times the value. The counted
model, the frequencies and mean rewards of the samples in memory, gives the
likely value (``counted_kernel``), and the delta method its usual error
(``counted_kernel``). Neither is promised.

It is solved at the end of a query over the nodes that the query has listed,
from the values of the query before, in at most ``MOST_WORK`` steps and
``CALL_WORK`` more for each call of the memory. So it costs a few percent of the
query, and is a function of the memory alone: a search that is saved keeps the
values (``snapshot``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified.graph import Graph, Steps, empty_layers
from smoothcruiser.certified.sweeps.counted_kernel import Guesses, Influence, annuity
from smoothcruiser.problem.model.tabular import Floats, Ints

# updates of an outcome, at about 10 nanoseconds each: whatever the query took, and for
# each call of the memory
MOST_WORK, CALL_WORK = 1e6, 1.0
FEWEST_PASSES = 4
STILL = 1e-3  # of the answer's half-width: the part that solving may leave out
LEAST_STILL = 1e-12  # of the largest value in sight
# of all visits: where more are of nodes with an action without samples, no error is usual
LOST = 0.01


class Guess(NamedTuple):
    """The counted model's estimate of a node; no value where nothing was sampled."""

    value: float | None
    # of its pairs; empty where none of them was sampled, and the value is a frontier's
    q_values: tuple[float, ...] = ()
    standard_error: float | None = None
    unsolved: float = 0.0  # the part of the error that no sample can lessen
    # how far the value, and the action values, may be from either end of their intervals
    within: tuple[float | None, float | None] = (None, None)
    mean: float | None = None  # of V by other samples, where it is the better estimate


UNKNOWN = Guess(None)


class CountedNodes:
    """The counted model of a memory without a horizon."""

    def __init__(self, region: Any) -> None:
        self.region, self.memory = region, region.memory
        self.loops = region.loops
        # by node, as the last query left them; NaN where none has solved it
        self.values: Floats = np.zeros(0)
        self.listed_nodes: Ints = np.zeros(0, dtype=np.int64)
        self.unsolved = math.inf  # the error that solving may have left in a value

    def warm(self, g: Graph) -> None:
        """Compile the loops, or load them, by calls on an empty graph."""
        end_node, rules = np.zeros(1, dtype=np.int64), self.region.rules
        guesses, influence = self.view_guesses(np.zeros(1)), _influence(1, 0, 1)
        self.loops.solve_nodes(g, end_node, 0, 0, 0.0, guesses, rules)
        self.loops.node_means(g, 0, guesses, rules)
        self.loops.spread_nodes(g, end_node, 0, 0, guesses, influence, rules)

    def settle(self, num_calls: int, listed: Ints | None = None) -> None:
        """Solve the model over the nodes of the query, or over those ``listed``."""
        region, memory = self.region, self.memory
        is_undiscounted = region.rules.bound.discount == 1.0
        self.listed_nodes = (region.listed_nodes if listed is None else listed).copy()
        self.values = _fit_values(self.values, memory.num_nodes)
        if is_undiscounted:  # from 0 on, the solution is the least one
            self.values[1:] = math.nan
        root_node = memory.graph.nodes[self.listed_nodes[0]]
        still_width = 0.5 * STILL * float(root_node["upper"] - root_node["lower"])
        still_width = max(still_width, LEAST_STILL * region.rules.bound.scale)
        guesses = self.view_guesses(self.values)
        allowed_work = (MOST_WORK + CALL_WORK * num_calls) / self.loops.price
        self.passes = FEWEST_PASSES + int(
            allowed_work / (memory.num_entries + 4 * memory.num_pairs)
        )
        solve = self.loops.solve_nodes
        solve_arguments = (memory.graph, self.listed_nodes, len(self.listed_nodes))
        num_passes = solve(
            *solve_arguments, self.passes, still_width, guesses, region.rules
        )
        if is_undiscounted and region.problem.value_gap is None:
            is_sampled = self._is_sampled()
            # now with a frontier that is worth it
            if 0 < is_sampled.sum() < len(is_sampled):
                guesses.frontier[0] = self.values[self.listed_nodes[is_sampled]].mean()
                num_passes = solve(
                    *solve_arguments, self.passes, still_width, guesses, region.rules
                )
        self.unsolved = still_width if num_passes < self.passes else math.inf

    def at(self, node: int, *, with_error: bool = False) -> Guess:
        """The values of a node and its pairs, as the bounds and the model are now."""
        if node >= len(self.values):
            return UNKNOWN
        rules, g = self.region.rules, self.memory.graph
        num_sampled = self.loops.node_means(
            g, node, self.view_guesses(self.values), rules
        )
        if num_sampled == 0:
            has_samples = self.memory.num_entries > 0
            is_known = has_samples and not math.isnan(self.values[node])
            return Guess(float(self.values[node])) if is_known else UNKNOWN
        num_actions = int(g.nodes[node]["size"])
        q_values = tuple(rules.q[:num_actions].tolist())
        value = float(self.loops.close_node(g, node, rules))
        if not with_error or self.listed_nodes[0] != node:
            return Guess(value, q_values)
        return Guess(value, q_values, self._error(), self.unsolved)

    def solve_all(
        self, num_calls: int, start_values: Floats | None = None
    ) -> tuple[Floats, Floats, Ints]:
        """(values by node, action values by pair, sampled pairs by node) of all nodes.

        The values of the query are left as they are, and ``start_values`` too: where
        they are not given, it starts from those of the query.
        """
        memory, model_copy = self.memory, copy(self)
        start_values = self.values if start_values is None else start_values
        model_copy.values, num_nodes = start_values.copy(), memory.num_nodes
        model_copy.settle(num_calls, np.arange(1, num_nodes, dtype=np.int64))
        q_values = np.zeros(memory.num_pairs)
        num_sampled = np.zeros(num_nodes, np.int64)
        guesses, rules = model_copy.view_guesses(model_copy.values), self.region.rules
        self.loops.show_nodes(
            memory.graph, num_nodes, guesses, q_values, num_sampled, rules
        )
        return model_copy.values, q_values, num_sampled

    def guess_all(self, num_calls: int) -> list[Guess]:
        """The model's estimates of every node."""
        memory, num_nodes = self.memory, self.memory.num_nodes
        if num_nodes == 1 or not memory.num_entries:
            return [UNKNOWN] * num_nodes
        values, q_values, num_sampled = self.solve_all(num_calls)
        nodes, q_list = memory.graph.nodes[:num_nodes], q_values.tolist()
        pair_ends = nodes["first"] + nodes["size"] * (num_sampled > 0)
        pair_ranges = zip(nodes["first"].tolist(), pair_ends.tolist(), strict=True)
        return [
            Guess(value, tuple(q_list[first_pair:end_pair]))
            for value, (first_pair, end_pair) in zip(
                values.tolist(), pair_ranges, strict=True
            )
        ]

    def sections(self) -> dict[str, Any]:
        """The section of a snapshot: the values at which the next query starts."""
        return {"estimates": self.values}

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Restore the section that ``sections`` had written, if there is one."""
        values = np.frombuffer(sections.get("estimates", b""), np.float64).copy()
        values_fit = len(values) <= self.memory.num_nodes
        require(values_fit and not np.isinf(values).any(), "an estimate is none")
        self.values = values

    def view_guesses(self, values: Floats) -> Guesses:
        """The values in the form that compiled loops read."""
        has_claims = self.region.problem.value_gap is not None
        solved_values = values[1:][~np.isnan(values[1:])]
        frontier_start = solved_values.mean() if len(solved_values) else 0.0
        return Guesses(
            values, np.zeros(len(values)), np.array([frontier_start]), has_claims
        )

    def _is_sampled(self) -> Any:
        """Whether each listed node has a sample."""
        g, num_pairs = self.memory.graph, self.memory.num_pairs
        pairs = g.pairs[:num_pairs]
        is_sampled = np.zeros(len(g.nodes), dtype=bool)
        is_sampled[pairs["node"][pairs["total"] > 0.0]] = True
        return is_sampled[self.listed_nodes]

    def _error(self) -> float | None:
        """The usual standard error of the first listed node's value."""
        memory = self.memory
        num_actions = len(self.region.rules.q)
        influence = _influence(memory.num_nodes, memory.num_pairs, num_actions)
        spread_arguments = (
            memory.graph,
            self.listed_nodes,
            len(self.listed_nodes),
            self.passes,
        )
        guesses = self.view_guesses(self.values)
        self.loops.spread_nodes(
            *spread_arguments, guesses, influence, self.region.rules
        )
        pairs = memory.graph.pairs[: memory.num_pairs]
        error = usual_error(influence, pairs)
        if error is None or not math.isfinite(self.unsolved):
            return None
        return error + self.unsolved


class CountedLayers(CountedNodes):
    """The counted model of a memory with a horizon: values by state and steps left."""

    def __init__(self, region: Any) -> None:
        super().__init__(region)
        self.guesses = Guesses(np.zeros(0), np.zeros(0), np.zeros(2), False)

    def warm(self, g: Graph) -> None:  # noqa: D102
        (layers, steps), rules = empty_layers(g), self.region.rules
        guesses = Guesses(np.zeros(1), np.zeros(0), np.zeros(2), False)
        influence = _influence(1, 0, 1)
        self.loops.solve_layers(g, layers, 0.0, guesses, steps, rules)
        self.loops.show_means(g, layers, 0, 0, guesses, steps, rules)
        self.loops.spread_layers(g, layers, 0, guesses, influence, steps, rules)

    def settle(self, num_calls: int, listed: Ints | None = None) -> None:
        """Solve the model over all layers."""
        region, layers = self.region, self.region.layers
        depth, stages_used = len(layers.counts) - 1, int(layers.starts[-1])
        has_claims = region.problem.value_gap is not None
        frontier = np.zeros(depth + 2)
        self.guesses = Guesses(
            np.zeros(stages_used), np.zeros(0), frontier, has_claims
        )
        if not stages_used:
            return
        reward_rate, discount = 0.0, region.rules.bound.discount
        for _ in range(2):  # then with the rate of the first layers
            self.loops.solve_layers(
                self.memory.graph,
                layers,
                reward_rate,
                self.guesses,
                self._steps(),
                region.rules,
            )
            reward_rate = self.guesses.value[0] / annuity(
                discount, float(max(depth, 1))
            )
            if depth + 1 >= region.horizon:
                return

    def at(self, node: int, *, with_error: bool = False) -> Guess:
        """The values of a node with all steps left."""
        layers = self.region.layers
        root_layer = layers.stages["node"][: layers.starts[:2][-1]]
        places = np.flatnonzero(root_layer == node)
        if not len(places):
            return UNKNOWN
        return self.at_stage(0, int(places[0]), with_error=with_error)

    def at_stage(
        self, layer: int, stage_index: int, *, with_error: bool = False
    ) -> Guess:
        """The values of a stage of ``layer``."""
        region, g = self.region, self.memory.graph
        if stage_index >= len(self.guesses.value) or not self.memory.num_entries:
            return UNKNOWN
        model_arguments = self.guesses, self._steps(), region.rules
        if (
            self.loops.show_means(
                g, region.layers, layer, stage_index, *model_arguments
            )
            == 0
        ):
            return Guess(float(self.guesses.value[stage_index]))
        node = int(region.layers.stages["node"][stage_index])
        q_values = tuple(region.rules.q[: int(g.nodes[node]["size"])].tolist())
        value = float(self.loops.close_node(g, node, region.rules))
        error = None
        if with_error:
            pairs = g.pairs[: self.memory.num_pairs]
            num_actions = len(region.rules.q)
            influence = _influence(len(self.guesses.value), len(pairs), num_actions)
            self.loops.spread_layers(
                g,
                region.layers,
                stage_index,
                self.guesses,
                influence,
                *model_arguments[1:],
            )
            error = usual_error(influence, pairs)
        return Guess(value, q_values, error)

    def sections(self) -> dict[str, Any]:
        """Nothing: one pass solves the model."""
        return {}

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Read nothing."""

    def _steps(self) -> Steps:
        steps: Steps = self.region.steps
        return steps


def usual_error(influence: Influence, pairs: Any) -> float | None:
    """The root mean square of deviation and excess; None where too much is unseen.

    The deviation is that of the delta method. The excess of choosing the best of noisy
    values (``counted_kernel``) is not subtracted from the value, so it is part of its
    error. An action without samples is guessed, and may be the best one: where the
    model's play meets such actions, the error of the guess is not that of any mean. A
    pair that was sampled once says nothing of its deviation: it is taken to have that
    of the others.
    """
    num_visits, sample_totals = float(influence.mass.sum()), pairs["total"]
    if float(influence.lost[0]) > LOST * num_visits:
        return None
    weight, spread = influence.weight, influence.spread
    by_chance = (weight > 0.0) & (pairs["cost"] > 0.0)
    sampled_often = by_chance & (sample_totals > 1.5)
    sampled_once = by_chance & ~sampled_often
    if sampled_once.any() and not sampled_often.any():
        return None
    squares = spread[sampled_often] ** 2
    variance = float((squares / sample_totals[sampled_often]).sum())
    if sampled_once.any():
        typical_variance = float(squares.sum() / (weight[sampled_often] ** 2).sum())
        variance += typical_variance * float((weight[sampled_once] ** 2).sum())
    return math.hypot(math.sqrt(variance), float(influence.excess[0]))


def _fit_values(values: Floats, num_nodes: int) -> Floats:
    """The values with room for ``num_nodes``."""
    if len(values) < num_nodes:
        new_values = np.full(num_nodes - len(values), math.nan)
        values = np.concatenate([values, new_values])
    values[0] = 0.0  # the end
    return values


def _influence(nodes: int, pairs: int, actions: int) -> Influence:
    return Influence(
        mass=np.zeros(nodes),
        residual=np.zeros(nodes),
        policy=np.zeros(pairs),
        weight=np.zeros(pairs),
        spread=np.zeros(pairs),
        lost=np.zeros(1),
        noise=np.zeros(actions),
        excess=np.zeros(1),
    )
