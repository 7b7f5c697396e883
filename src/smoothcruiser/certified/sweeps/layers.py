"""The part of the memory that matters for one query where there is a horizon.

Samples belong to a state and an action; bounds belong to a state with a number
of steps left. They are kept in layers, one for each number of steps from the
requested state (``layers_kernel``), as many of them as matter: the deepest
layer that is listed has the bounds of the facts, and where these leave much of
the answer's width open, deeper ones are listed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import SCAN, WALK, Bound
from smoothcruiser.certified.graph import (
    STAGE,
    Entries,
    Graph,
    Layers,
    Steps,
    empty_layers,
    free_slots,
)
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.counted_model import CountedLayers
from smoothcruiser.certified.sweeps.layers_kernel import (
    CROWDED,
    Q_HIGH,
    Q_LOW,
    V_HIGH,
    V_LOW,
)
from smoothcruiser.certified.sweeps.ranges import box
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.problem.bounds import bad_bounds
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem

FIRST_DEPTH = 8
# of the answer's width: the part that the deepest layer may leave open
RIM_SHARE = 0.1
# Stages that cost less to sweep than the rest of a query, and more for each sample: some
# microseconds of sweeps for each call. Without it 1,000 calls at a horizon of 10^5 sweep
# a million stages in each round.
FREE_STAGES, STAGES_PER_SAMPLE = 20_000, 20.0
# the discounted weight of a layer below which no deeper one is ever listed
NO_WEIGHT = 1e-12


class LayeredRegion(Region):
    """The states that a query leads to, layer by layer."""

    def __init__(
        self, problem: Problem, memory: Memory, bound: Bound, radius_scale: float
    ) -> None:
        super().__init__(problem, memory, bound, radius_scale)
        assert problem.horizon is not None
        self.horizon = problem.horizon
        self.layers = no_layers()
        self.deepest = deepest_layer(problem)
        self.depth = min(FIRST_DEPTH, self.deepest)
        self._boxes: Any = np.zeros((0, 2, 4))
        self.stage_places: Ints = np.zeros(0, dtype=np.int64)
        self.counted: CountedLayers = CountedLayers(self)

    def warm_sweeps(self, g: Graph) -> None:  # noqa: D102
        order, loops, rules = np.zeros(1, dtype=np.int64), self.loops, self.rules
        layers, steps = empty_layers(g)
        loops.list_layers(g, layers, layers, order, steps)
        layers.counts[0] = 0
        loops.sweep_layers(g, layers, WALK, steps, rules)
        loops.flow_layers(g, layers, np.zeros(1), 0.0, WALK, steps, rules)

    @property
    def widths(self) -> Floats:
        """U - L of the stages in reach, none of which is listed without its layer."""
        stages, starts = self.layers.stages, self.layers.starts
        root_width: Floats = stages["upper"][:1] - stages["lower"][:1]
        return root_width if starts[-1] else np.zeros(0)

    @property
    def steps(self) -> Steps:
        """Boxes, horizon, places and claims for the loops over layers."""
        num_nodes, num_layers = len(self.memory.graph.nodes), self.depth + 1
        if len(self.stage_places) < num_nodes:
            self.stage_places = np.zeros(num_nodes, dtype=np.int64)
        num_known, facts = len(self._boxes), self.problem.facts
        if num_known < num_layers:
            players = (1, 2) if self.problem.is_game else (1, 1)
            new_boxes = [
                [box(facts, player, self.horizon - d) for player in players]
                for d in range(num_known, num_layers)
            ]
            self._boxes = np.concatenate([self._boxes, np.array(new_boxes)])
        return Steps(self._boxes, self.horizon, self.stage_places, self.memory.claims)

    def sections(self) -> dict[str, Any]:
        """The stages, and the layers that they are in."""
        stages_used = int(self.layers.starts[-1])
        return {
            "stages": self.layers.stages[:stages_used],
            "starts": self.layers.starts,
            "counts": self.layers.counts,
        }

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Take up the stages of a snapshot; their bounds lie within those of the facts.

        They are listed anew before they are swept, so it does not matter which of them
        are in reach.
        """
        stages = np.frombuffer(sections["stages"], STAGE).copy()
        starts = np.frombuffer(sections["starts"], np.int64).copy()
        counts = np.frombuffer(sections["counts"], np.int64).copy()
        depth, memory = len(counts) - 1, self.memory
        require(
            len(starts) == len(counts) + 1
            and depth <= self.deepest
            and starts[0] == 0
            and starts[-1] == len(stages)
            and bool(np.all(np.diff(starts) >= counts) and np.all(counts >= 0)),
            "its layers are none",
        )
        if depth < 0:
            return
        self.depth = max(depth, self.depth)
        nodes = stages["node"].astype(np.int64)
        require(
            bool(np.all((nodes > 0) & (nodes < memory.num_nodes))), "a stage is none"
        )
        stage_layers = np.repeat(np.arange(depth + 1), np.diff(starts))
        require(
            len(np.unique(stage_layers * memory.num_nodes + nodes)) == len(nodes),
            "a stage is double",
        )
        node_rows = memory.graph.nodes[nodes]
        box = self.steps.boxes[stage_layers, np.where(node_rows["sign"] > 0.0, 0, 1)]
        lower_limit, upper_limit = box[:, V_LOW], box[:, V_HIGH]
        if len(memory.claims):
            lower_limit = np.maximum(lower_limit, memory.claims[nodes, 0])
            upper_limit = np.minimum(upper_limit, memory.claims[nodes, 1])
        lower_limit, upper_limit = (
            np.minimum(lower_limit, upper_limit),
            np.maximum(lower_limit, upper_limit),
        )
        require(
            bool(
                np.all(lower_limit <= stages["lower"])
                and np.all(stages["lower"] <= stages["upper"])
                and np.all(stages["upper"] <= upper_limit)
            ),
            "the bounds of a state cannot be",
        )
        require(bool(np.isfinite(stages["mass"]).all()), "a mass is not finite")
        self.layers = Layers(stages, starts, counts)
        if self.count:
            self._check_root(require)

    def _check_root(self, require: Callable[[bool, str], None]) -> None:
        """Refuse a requested node if its bounds are not those of its stage."""
        root, root_stage = int(self.order[0]), self.layers.stages[0]
        node, pairs = self.memory.graph.nodes[root], self.memory.pairs_of(root)
        box = self.steps.boxes[0, 0 if node["sign"] > 0.0 else 1]
        require(
            root_stage["node"] == root
            and bool(
                root_stage["lower"] == node["lower"]
                and root_stage["upper"] == node["upper"]
            )
            and bool(np.all(box[Q_LOW] <= pairs["q_lower"]))
            and bool(np.all(pairs["q_lower"] <= pairs["q_upper"]))
            and bool(np.all(pairs["q_upper"] <= box[Q_HIGH])),
            "the bounds of the requested state cannot be",
        )

    def list_reach(self) -> None:
        """List all layers that can matter, or as many as there is time for."""
        while True:
            start_time, wanted_depth = time.perf_counter(), self.depth
            self._list()
            seconds_spent = time.perf_counter() - start_time
            is_ended = self.layers.counts[-1] == 0  # no play goes on as long as that
            if is_ended or not wanted_depth == self.depth < self.deepest:
                return
            if (
                self._has_enough_stages()
                or self.stop_reason(seconds_needed=4.0 * seconds_spent) is not None
            ):
                return
            self.depth = min(self.deepest, 2 * self.depth)

    def mark_last(self) -> None:
        """Say which states are sampled for the last step alone.

        Their outcomes are rewards. A state that turns out to be met earlier is sampled
        anew, as a new pair with a share of its own: none of the earlier samples counts
        any more. It is called while no sample waits to be entered.
        """
        memory, nodes = self.memory, self.memory.graph.nodes[: self.memory.num_nodes]
        pairs = memory.graph.pairs[: memory.num_pairs]
        # sampled with next states, for good
        has_next_states = np.zeros(len(nodes), dtype=bool)
        has_next_states[pairs["node"][pairs["total"] > 0.0]] = True
        has_next_states &= nodes["last"] == 0
        is_last = (nodes["depth"] == self.horizon - 1) & ~has_next_states
        early_nodes = np.flatnonzero((nodes["last"] == 1) & ~is_last)
        nodes["last"] = is_last
        if len(early_nodes) == 0:
            return
        sampled_anew = np.isin(pairs["node"], early_nodes)
        for field_name in ("total", "cost", "slope_up", "slope_down", "gain"):
            pairs[field_name][sampled_anew] = 0.0
        for field_name in ("start", "length"):
            pairs[field_name][sampled_anew] = 0
        # the bound's own fields belong to the earlier outcomes
        for field_name, _ in self.bound.fields:
            pairs[field_name][sampled_anew] = 0
        memory.graph = memory.graph._replace(slots=free_slots(len(memory.graph.slots)))
        self.loops.rehash(memory.graph)

    def sweep(self, tune: int) -> float:
        """List the stages in reach and sweep them; 0, or -1 minus a crossed node."""
        self._list()
        return self._pass(tune)

    def spread(self, source: Floats, least_width: float, passes: int) -> None:
        """Write the gains of all pairs; list deeper layers where they matter.

        It is ``unfinished`` where there is no time for them.
        """
        self.unfinished = False
        while True:
            start_time = time.perf_counter()
            g, loops = self.memory.graph, self.loops
            g.pairs["gain"][: self.memory.num_pairs] = 0.0
            self.layers.stages["mass"] = 0.0
            width_left = loops.flow_layers(
                g, self.layers, source, least_width, WALK, self.steps, self.rules
            )
            width = float(self.widths[0])
            has_gains = g.pairs["gain"][: self.memory.num_pairs].any()
            if self.depth == self.deepest or (
                width_left <= RIM_SHARE * width and has_gains
            ):
                return
            if width_left == 0.0 or self._has_enough_stages():
                return
            depth_before = self.depth
            self.unfinished = (
                self.stop_reason(
                    seconds_needed=4.0 * (time.perf_counter() - start_time)
                )
                is not None
            )
            if self.unfinished:
                return
            self.depth = min(
                self.deepest, max(depth_before + FIRST_DEPTH, 3 * depth_before // 2)
            )
            self._list()
            if self.depth <= depth_before or self._pass(WALK) < 0.0:
                return

    def _has_enough_stages(self) -> bool:
        """Whether more layers are not worth their sweeps, by the samples that there are.

        There is no limit where every pair is known: no further sample narrows it.
        """
        pairs = self.memory.graph.pairs[: self.memory.num_pairs]
        by_chance = pairs["cost"] > 0.0
        num_samples = float(pairs["total"][by_chance].sum())
        max_stages = FREE_STAGES + STAGES_PER_SAMPLE * num_samples
        return bool(by_chance.any()) and int(self.layers.starts[-1]) > max_stages

    def copy_layers(self) -> LayeredRegion:
        """The same layers over a copy of the graph."""
        region_copy = copy(self)
        g = self.memory.graph
        # a memory of its own, of which only the arrays are read
        region_copy.memory = copy(self.memory)
        region_copy.memory.graph = g._replace(
            nodes=g.nodes.copy(),
            pairs=g.pairs.copy(),
            entries=Entries(*(column.copy() for column in g.entries)),
        )
        region_copy.layers = Layers(*(array.copy() for array in self.layers))
        region_copy.stage_places = np.zeros_like(self.stage_places)
        region_copy.counted = CountedLayers(region_copy)
        return region_copy

    def show(self, layer: int, stage_index: int) -> None:
        """Make the node of a stage and its pairs hold the bounds of the stage."""
        self.loops.show_stage(
            self.memory.graph,
            self.layers,
            layer,
            stage_index,
            SCAN,
            self.steps,
            self.rules,
        )

    def show_whole(self, node: int) -> bool:
        """Make a node and its pairs hold their bounds with all steps left.

        A node that is not the requested one may hold bounds from the last sweep, with
        fewer steps left. One that was never queried has only the bounds of the facts
        with all steps left: then it returns False.
        """
        root_layer = self.layers.stages["node"][: self.layers.starts[:2][-1]]
        places = np.flatnonzero(root_layer == node)
        if len(places):
            self.show(0, int(places[0]))
            return True
        node_row, pairs = self.memory.graph.nodes[node], self.memory.pairs_of(node)
        box = self.steps.boxes[0, 0 if node_row["sign"] > 0.0 else 1]
        node_row["lower"], node_row["upper"] = box[V_LOW], box[V_HIGH]
        pairs["q_lower"], pairs["q_upper"] = box[Q_LOW], box[Q_HIGH]
        return False

    def _pass(self, tune: int) -> float:
        sweep_code = int(
            self.loops.sweep_layers(
                self.memory.graph, self.layers, tune, self.steps, self.rules
            )
        )
        return 0.0 if sweep_code == 0 else float(sweep_code + 1)

    def _list(self) -> None:
        """List the layers anew, from the samples so far."""
        self.make_room()
        memory, old_layers = self.memory, self.layers
        num_stages = max(1024, len(old_layers.stages))
        nodes = memory.graph.nodes
        while True:
            # a layer of the old ones that is left out keeps no bounds
            starts = np.full(self.depth + 2, old_layers.starts[-1], dtype=np.int64)
            num_known = min(len(old_layers.starts), len(starts))
            starts[:num_known] = old_layers.starts[:num_known]
            nodes["listed"][: memory.num_nodes] = 0
            nodes["listed"][self.order[0]] = 1
            new_layers = Layers(
                np.zeros(num_stages, STAGE),
                np.zeros(self.depth + 2, dtype=np.int64),
                np.zeros(self.depth + 1, dtype=np.int64),
            )
            num_listed = self.loops.list_layers(
                memory.graph,
                Layers(old_layers.stages, starts, old_layers.counts),
                new_layers,
                self.order,
                self.steps,
            )
            if num_listed != CROWDED:
                break
            # two layers are the least: the requested state, and its next states
            if self.depth <= 1 or memory.has_bytes(3 * num_stages * STAGE.itemsize):
                num_stages *= 2
            else:
                self.depth = max(1, 3 * self.depth // 4)
        self.count, self.layers = int(num_listed), new_layers
        self._check_claims()
        memory.layer_bytes = new_layers.stages.nbytes

    def _check_claims(self) -> None:
        """Refuse bounds on V of the user that exclude all that the facts allow."""
        stages = self.layers.stages[: self.layers.starts[-1]]
        if self.problem.value_gap is None or np.all(
            stages["lower"] <= stages["upper"]
        ):
            return
        stage_index = int(np.flatnonzero(stages["lower"] > stages["upper"])[0])
        layer = int(np.searchsorted(self.layers.starts, stage_index, side="right")) - 1
        node = self.memory.graph.nodes[stages["node"][stage_index]]
        low, high = self._boxes[layer, 0 if node["sign"] > 0.0 else 1][[V_LOW, V_HIGH]]
        claim_low, claim_high = self.memory.claims[
            int(stages["node"][stage_index])
        ].tolist()
        if claim_low <= high and low <= claim_high:
            return  # bounds from samples have crossed, which the next pass tells
        raise bad_bounds(
            self.memory.states[int(stages["node"][stage_index])],
            claim_low,
            claim_high,
            self.problem.facts,
            (float(low), float(high)),
        )


def no_layers() -> Layers:
    """No stages in no layer."""
    return Layers(
        np.zeros(0, STAGE), np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    )


def deepest_layer(problem: Problem) -> int:
    """The deepest layer that can matter: the last step, or none of any weight."""
    assert problem.horizon is not None
    last_layer, discount = problem.horizon - 1, problem.discount
    if discount == 1.0 or last_layer == 0:
        return last_layer
    if discount == 0.0:
        return min(1, last_layer)
    return min(last_layer, math.ceil(math.log(NO_WEIGHT) / math.log(discount)))
