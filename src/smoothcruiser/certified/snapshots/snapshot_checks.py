"""Checks of a snapshot of a search, which hold whoever wrote it.

A seal tells damage from a whole snapshot (``store.store_file``), and can be computed by
anyone. So every number that compiled code relies on is checked: indices lie within
their arrays, counts are whole and add up, bounds lie within the boxes that the problem
gives and do not cross, every pair with samples has its own share of delta. One sentence
names the flaw.

This file decides what is refused. It leaves out the layout of a snapshot
(``snapshot``) and the form of its states (``states.state_json``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW, KEPT, MOVED, SAMPLED
from smoothcruiser.certified.price_forecast import pair_costs
from smoothcruiser.certified.query_limits import FULL
from smoothcruiser.certified.query_progress import CLOSING, SETTLED, QueryProgress
from smoothcruiser.certified.sample_batches import CHUNK, Batch
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.search_state import SearchState
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints

MOST = 2**53  # whole numbers below it are exact as floats
ROW_ROUNDING = 2.0**-50  # of a probability that was normalized
# fields of nodes and pairs that follow from the problem and the order of its states
NODE_FACTS = ("sign", "first", "size")
PAIR_FACTS = ("node", "action")
ENDS = (None, "budget", "exhausted", *FULL)


def damage_error(why: str) -> InvalidInput:
    """The refusal of a snapshot."""
    return InvalidInput(
        f"The memory of the stored search cannot be used ({why.rstrip('.')}); it was "
        "left untouched: start the run anew."
    )


def require(condition: bool, why: str) -> None:
    """Refuse a snapshot for which a condition fails."""
    if not condition:
        raise damage_error(why)


def is_count(value: Any) -> bool:
    """Whether a value is a count."""
    return type(value) is int and 0 <= value < 2**64


def check_graph(search: SearchState, nodes: Any, pairs: Any, entries: Any) -> None:
    """Refuse nodes, pairs and outcomes that no search of this problem has."""
    memory = search.memory
    own_nodes, own_pairs = memory.graph.nodes, memory.graph.pairs
    require(len(nodes) == memory.num_nodes, "it has another number of states")
    require(len(pairs) == memory.num_pairs, "its states have other legal actions")
    box_fields = ("q_low", "q_high") if memory.problem.horizon is None else ()
    for field_name in (*NODE_FACTS, *box_fields):
        are_equal = np.array_equal(
            nodes[field_name], own_nodes[field_name][: len(nodes)]
        )
        require(are_equal, "its states are not those of the problem")
    for field_name in PAIR_FACTS:
        are_equal = np.array_equal(
            pairs[field_name], own_pairs[field_name][: len(pairs)]
        )
        require(are_equal, "its actions are not those of the problem")
    _check_bounds(memory, nodes, pairs)
    _check_shares(search, pairs)
    _check_outcomes(search, nodes, pairs, entries)


def _check_bounds(memory: Memory, nodes: Any, pairs: Any) -> None:
    own_nodes = memory.graph.nodes[: len(nodes)]
    pair_nodes = nodes[pairs["node"]]
    # with a horizon these are computed anew from the stages (``layers``)
    if memory.problem.horizon is None:
        require(
            bool(
                np.all(own_nodes["lower"] <= nodes["lower"])
                and np.all(nodes["lower"] <= nodes["upper"])
                and np.all(nodes["upper"] <= own_nodes["upper"])
            ),
            "the bounds of a state cannot be",
        )
        require(
            bool(
                np.all(pair_nodes["q_low"] <= pairs["q_lower"])
                and np.all(pairs["q_lower"] <= pairs["q_upper"])
                and np.all(pairs["q_upper"] <= pair_nodes["q_high"])
            ),
            "the bounds of an action cannot be",
        )
    for array, field_names in (
        (nodes, ("mass", "residual")),
        (pairs, ("slope_up", "slope_down", "policy", "gain", "cost")),
    ):
        for field_name in field_names:
            require(
                bool(np.isfinite(array[field_name]).all()),
                f"a {field_name} is not finite",
            )
    for mark_field in ("listed", "last"):
        require(bool(np.isin(nodes[mark_field], (0, 1)).all()), "a mark is none")
    all_marks = MOVED | SAMPLED | KEPT
    require(bool(np.all((nodes["stale"] & ~all_marks) == 0)), "a mark is none")
    horizon = memory.problem.horizon
    require(
        bool(np.all(nodes["depth"] >= 0))
        and (horizon is not None or not nodes["last"].any()),
        "a depth is none",
    )


def _check_shares(search: SearchState, pairs: Any) -> None:
    """Refuse pairs that have not all their own share of delta."""
    k, total = search.shares.num_pairs, pairs["total"]
    # with a horizon a pair may be sampled anew once (``layers``)
    max_pairs = len(pairs) if search.problem.horizon is None else 2 * len(pairs)
    require(
        search.shares.exact or k <= max_pairs, "more pairs have samples than there are"
    )
    require(bool(np.all(total >= 0.0) and np.all(total < MOST)), "a count is none")
    require(bool(np.all(total == np.floor(total))), "a count is no whole number")
    are_rows = _are_rows(search, pairs)
    require(bool(np.all(total[are_rows] <= 1.0)), "a row was read twice")
    if search.shares.exact:
        require(not pairs["cost"].any(), "a share of delta was not given")
        return
    require(search.delta > 0.0, "samples have no delta")
    given_costs = np.sort(pairs["cost"][pairs["cost"] != 0.0])
    problem = search.problem
    due_costs = np.sort(
        pair_costs(search.bound, problem, 1 + np.arange(k), search.delta)
    )
    if problem.horizon is not None and 0 < len(given_costs) < k:
        # shares of pairs that were sampled anew are lost; those left are all different
        nearest_due = np.minimum(
            np.searchsorted(due_costs, given_costs * (1.0 - 1e-9)), k - 1
        )
        require(
            len(np.unique(nearest_due)) == len(given_costs),
            "a share of delta was given twice",
        )
        due_costs = due_costs[nearest_due]
    require(
        len(given_costs) == len(due_costs)
        and np.allclose(given_costs, due_costs, rtol=1e-9, atol=0.0),
        "the shares of delta are not those it gave",
    )
    is_sampled = (total > 0.0) & ~are_rows
    require(bool(np.all(pairs["cost"][is_sampled] > 0.0)), "samples have no share")
    require(search.bound.readable(pairs), "its bound has remembered something else")


def _are_rows(search: SearchState, pairs: Any) -> Bools:
    """Which pairs hold a row of a known model, or nothing yet."""
    are_rows: Bools = (pairs["cost"] == 0.0) & search.known
    return are_rows


def _check_outcomes(search: SearchState, nodes: Any, pairs: Any, entries: Any) -> None:
    length = pairs["length"].astype(np.int64)
    require(
        bool((length >= 0).all()) and int(length.sum()) == len(entries),
        "outcomes miss",
    )
    low, high = search.problem.facts.reward_range
    weight, reward, target = entries["weight"], entries["reward"], entries["target"]
    owner_pairs, are_rows = (
        np.repeat(np.arange(len(pairs)), length),
        _are_rows(search, pairs),
    )
    are_counts = (weight >= 1.0) & (weight == np.floor(weight))
    are_shares = (weight > 0.0) & (weight <= 1.0 + ROW_ROUNDING)
    has_count = np.where(are_rows[owner_pairs], are_shares, are_counts)
    require(bool(has_count.all()), "an outcome has no count")
    require(
        bool(np.all((low <= reward) & (reward <= high))), "a reward is out of range"
    )
    require(
        bool(np.all((target >= 0) & (target < len(nodes)))), "an outcome leads nowhere"
    )
    weight_sums = np.bincount(owner_pairs, weights=weight, minlength=len(pairs))
    allowed_gap = np.where(are_rows, ROW_ROUNDING * length, 0.0)
    require(
        bool(np.all(abs(weight_sums - pairs["total"]) <= allowed_gap)),
        "counts do not add up",
    )
    is_single = search.problem.deterministic and not search.known
    require(not is_single or bool((length <= 1).all()), "outcomes differ")
    is_last = nodes["last"][pairs["node"]][owner_pairs] == 1
    require(bool(np.all(target[is_last] == END)), "a last step leads on")


def check_order(memory: Memory, order: Ints) -> None:
    """Refuse a list of nodes that is not that of the nodes with a mark."""
    marked_nodes = np.flatnonzero(memory.graph.nodes["listed"][: memory.num_nodes])
    require(
        np.array_equal(np.sort(order), marked_nodes) and END not in order,
        "its list of states is another one",
    )


def check_position(search: SearchState, position: QueryProgress) -> None:
    """Refuse a query that cannot be under way."""
    is_known = is_count(position.root) and 0 < position.root < search.memory.num_nodes
    require(is_known, "the requested state is none")
    region = search.region
    require(
        region.count > 0 and region.order[0] == position.root,
        "it lists another state first",
    )
    require(
        is_count(position.first_call)
        and position.first_call <= search.num_calls
        and is_count(position.first_row)
        and position.first_row <= search.num_rows <= search.num_calls,
        "its calls are none",
    )
    for epsilon in (position.epsilon, position.relative):
        require(
            epsilon is None or (is_number(epsilon) and 0.0 < epsilon < np.inf),
            "its epsilon is none",
        )
    require(position.target in ("q_values", "value"), "its target is none")
    require(
        position.ended in ENDS and isinstance(position.sampling, bool),
        "its end is none",
    )
    require(
        position.swept in (SETTLED, CLOSING)
        or (is_count(position.swept) and position.swept <= region.most_sweeps),
        "its sweeps are none",
    )
    require(len(position.pairs) == 0 or position.sampling, "its jobs are none")
    check_jobs(search, position.pairs, position.counts)


def check_jobs(search: SearchState, pairs: Ints, counts: Ints) -> None:
    """Refuse jobs of pairs that are not there, or that have no share of delta."""
    require(len(pairs) == len(counts), "its jobs are none")
    is_inside = (pairs >= 0) & (pairs < search.memory.num_pairs)
    require(bool(is_inside.all()), "a job is of no pair")
    are_rows = _are_rows(search, search.memory.graph.pairs[pairs])
    max_count = np.where(are_rows, 2, MOST)
    require(bool(np.all((counts >= 1) & (counts < max_count))), "a job has no samples")
    if not search.shares.exact:
        cost = search.memory.graph.pairs["cost"][pairs]
        require(bool((cost > 0.0)[~are_rows].all()), "a job has no share of delta")


def batch_of(
    pairs: Ints, counts: Ints, *, drawn: Any, entered: Any, watched: Any
) -> Batch:
    """A batch that is not larger than any can be."""
    require(len(pairs) > 0 and int(counts.sum()) <= CHUNK, "a batch is too large")
    batch = Batch(pairs, counts)
    require(
        is_count(drawn)
        and is_count(entered)
        and entered <= drawn <= batch.size
        and isinstance(watched, bool)
        and not (watched and drawn == batch.size),
        "a batch is none",
    )
    batch.drawn, batch.entered, batch.watched = drawn, entered, watched
    return batch


def check_samples(
    memory: Memory, raws: Ints, rewards: Floats, gives_nodes: bool
) -> None:
    """Refuse samples that no step can have returned."""
    low, high = memory.problem.facts.reward_range
    require(
        bool(np.all((low <= rewards) & (rewards <= high))), "a reward is out of range"
    )
    if gives_nodes:
        is_inside = (raws >= 0) & (raws < memory.num_nodes)
        require(bool(is_inside.all()), "a sample leads nowhere")
    elif memory.problem.tables is not None:
        num_states = len(memory.problem.tables.terminal)
        is_inside = (raws == END_RAW) | ((raws >= 0) & (raws < num_states))
        require(bool(is_inside.all()), "a sample leads nowhere")


def check_calls(memory: Memory, num_waiting: int) -> None:
    """Refuse a number of calls below that of the samples, entered or waiting."""
    num_samples = float(memory.graph.pairs["total"][: memory.num_pairs].sum())
    num_samples += num_waiting
    require(num_samples <= memory.num_calls, "it has more samples than calls")
