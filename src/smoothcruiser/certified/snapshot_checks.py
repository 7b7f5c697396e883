"""Checks of a snapshot of a search, which hold whoever wrote it, and the form of its states.

A seal tells damage from a whole snapshot (``store.store_file``), and can be computed by
anyone. So every number that compiled code relies on is checked: indices lie within
their arrays, counts are whole and add up, bounds lie within the boxes that the problem
gives and do not cross, every pair with samples has its own share of delta. One sentence
names the flaw.

States are plain JSON, exact to the bit and without pickle (``Spelling``): nothing that a
file says is imported or called. Numbers, words and containers are written with their
types. Named tuples, dataclasses and enumerations are written by their fields, and read
as the classes of the problem's own state. States of adapters are written by their oracle
(``WritingOracle``) and read by its ``parse``. Everything else is ``Unspelled``: a root
before anything is sampled; a search that meets such a state later goes on and is not
saved any more.

  as they are   None, bool, int of 64 bits, float, str, list
  tagged        {"t": [...]}: tuple       {"b": text}: bytes      {"i": text}: int
                {"s": [...]}: frozenset   {"S": [...]}: set       {"d": [[k, v]]}: dict
                {"x": text}: NaN          {"c": [x, y]}: complex
                {"g": [type, text]}: NumPy scalar
                {"a": [type, shape, order, fixed, text]}: NumPy array
                {"n": [name, ...]}: named tuple, dataclass        {"e": [name, member]}
                {"p": ...}: data for ``parse`` of the oracle

This file decides what is refused. It leaves out the layout of a snapshot (``snapshot``).
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import struct
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW, KEPT, MOVED, SAMPLED
from smoothcruiser.certified.price_forecast import pair_costs
from smoothcruiser.certified.query_limits import FULL
from smoothcruiser.certified.query_progress import CLOSING, SETTLED, QueryProgress
from smoothcruiser.certified.sample_batches import CHUNK, Batch
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import is_opaque
from smoothcruiser.problem.step_errors import ParsingOracle, WritingOracle

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified


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


def check_graph(search: Certified, nodes: Any, pairs: Any, entries: Any) -> None:
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


def _check_shares(search: Certified, pairs: Any) -> None:
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


def _are_rows(search: Certified, pairs: Any) -> Bools:
    """Which pairs hold a row of a known model, or nothing yet."""
    are_rows: Bools = (pairs["cost"] == 0.0) & search.known
    return are_rows


def _check_outcomes(search: Certified, nodes: Any, pairs: Any, entries: Any) -> None:
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


def check_position(search: Certified, position: QueryProgress) -> None:
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


def check_jobs(search: Certified, pairs: Ints, counts: Ints) -> None:
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


PLAIN_KINDS = "biufcSUmM"  # of NumPy's types: those with their value in their bytes


class Unspelled(InvalidInput):
    """A state that a store cannot keep."""


class Spelling:
    """Writes and reads the states of one problem."""

    def __init__(self, problem: Problem, *examples: Any) -> None:
        """``examples`` are states that add classes to those of the problem."""
        self.problem = problem
        self.kinds: dict[str, Any] = {}
        self.sets = False  # whether sets were read: no file keeps their order
        for example in (problem.initial_state, *examples):
            self._learn(example)

    def _learn(self, example: Any) -> None:
        kind = type(example)
        if _fields(kind) is not None or isinstance(example, Enum):
            known_class = self.kinds.setdefault(kind.__qualname__, kind)
            if known_class is not kind:
                raise InvalidInput(
                    f"The store cannot keep states made of two classes called "
                    f"{kind.__qualname__}; give one of them another name."
                )
        field_names = None if isinstance(example, Enum) else _fields(kind)
        if field_names is not None:
            for field_name in field_names:
                self._learn(getattr(example, field_name, None))
        elif isinstance(example, tuple | list | set | frozenset):
            for member in example:
                self._learn(member)
        elif isinstance(example, dict):
            for key, value in example.items():
                self._learn(key)
                self._learn(value)

    # --- writing --------------------------------------------------------------

    def write_state(self, state: Any) -> Any:
        """Plain data for a state."""
        oracle = self.problem.oracle
        if is_opaque(state) and isinstance(oracle, WritingOracle):
            return {"p": self._write_data(oracle.plain(state))}
        try:
            return self._write_data(state)
        except RecursionError:
            raise self._refusal(state) from None

    def _write_data(self, x: Any) -> Any:
        kind = type(x)
        if x is None or kind is bool or kind is str:
            return x
        if kind is int:
            return x if -(2**63) <= x < 2**63 else {"i": hex(x)}
        if kind is float:
            return {"x": struct.pack("<d", x).hex()} if math.isnan(x) else x
        writer = _WRITERS.get(kind)
        if writer is not None:
            return writer(self._write_data, x)
        if isinstance(x, np.generic) and x.dtype.kind in PLAIN_KINDS:
            return {"g": [x.dtype.str, _text(x.tobytes())]}
        class_name = kind.__qualname__
        if self.kinds.get(class_name) is not kind:
            raise self._refusal(x)
        if isinstance(x, Enum):
            return {"e": [class_name, x.name]}
        field_names = _fields(kind)
        if field_names is None or set(getattr(x, "__dict__", field_names)) - set(
            field_names
        ):
            raise self._refusal(x)
        return {
            "n": [
                class_name,
                *(
                    self._write_data(getattr(x, field_name))
                    for field_name in field_names
                ),
            ]
        }

    def _refusal(self, x: Any) -> Unspelled:
        return Unspelled(
            f"The store cannot keep states of type {type(x).__name__}; let states be "
            "numbers, words, arrays or tuples of them, or dataclasses like "
            "initial_state, or plan without a store."
        )

    def check(self, state: Any) -> None:
        """Refuse a state that would not come back from a store as the same one."""
        state_data = self.write_state(state)
        text = json.dumps(state_data)
        state_again = self.read_state(json.loads(text))
        if json.dumps(self.write_state(state_again)) != text or self.problem.key_of(
            state_again
        ) != self.problem.key_of(state):
            raise self._refusal(state)

    # --- reading --------------------------------------------------------------

    def read_state(self, data: Any) -> Any:
        """The state that ``write_state`` made plain data of; impossible data raise."""
        if isinstance(data, dict) and data.keys() == {"p"}:
            oracle = self.problem.oracle
            if not isinstance(oracle, ParsingOracle):
                raise ValueError("no oracle reads its states")
            return oracle.parse(self._read_data(data["p"]))
        return self._read_data(data)

    def _read_data(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self._read_data(field_data) for field_data in data]
        if not isinstance(data, dict):
            return data
        ((tag, content),) = data.items()
        if tag in ("s", "S") and len(content) > 1:
            self.sets = True
        if tag in _READERS:
            return _READERS[tag](self._read_data, content)
        kind = self.kinds[content[0]]
        if tag == "e" and issubclass(kind, Enum):
            return kind[content[1]]
        field_names = _fields(kind)
        if tag != "n" or field_names is None or len(field_names) != len(content) - 1:
            raise ValueError("its states have other fields")
        field_values = [self._read_data(field_data) for field_data in content[1:]]
        if issubclass(kind, tuple):
            return tuple.__new__(kind, field_values)
        instance = object.__new__(kind)
        for field_name, field_data in zip(field_names, field_values, strict=True):
            object.__setattr__(instance, field_name, field_data)
        return instance


def _fields(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a named tuple or a dataclass."""
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", None)
    if dataclasses.is_dataclass(kind):
        return tuple(entry.name for entry in dataclasses.fields(kind))
    return None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


Part = Callable[[Any], Any]


def _write_array(part: Part, x: Any) -> Any:
    if x.dtype.kind not in PLAIN_KINDS:
        raise Unspelled(
            f"The store cannot keep arrays of type {x.dtype}; let states be arrays of "
            "numbers, or plan without a store."
        )
    memory_order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
    array_content = [x.dtype.str, list(x.shape), memory_order, not x.flags.writeable]
    return {"a": [*array_content, _text(x.tobytes(memory_order))]}


def _plain_type(text: Any) -> Any:
    array_type = np.dtype(text)
    if not isinstance(text, str) or array_type.kind not in PLAIN_KINDS:
        raise ValueError("its arrays hold no plain values")
    return array_type


def _read_array(part: Part, content: Any) -> Any:
    kind, shape, memory_order, is_fixed, text = content
    flat_array = np.frombuffer(_bytes(text), _plain_type(kind))
    array = flat_array.reshape(shape, order=memory_order).copy(order=memory_order)
    array.flags.writeable = not is_fixed
    return array


def _read_scalar(part: Part, content: Any) -> Any:
    kind, text = content
    (scalar,) = np.frombuffer(_bytes(text), _plain_type(kind))
    return scalar


def _sort_members(part: Part, x: Any) -> list[Any]:
    """The members of a set, in an order of their own."""
    return sorted((part(member) for member in x), key=json.dumps)


_WRITERS: dict[type, Callable[[Part, Any], Any]] = {
    tuple: lambda part, x: {"t": [part(y) for y in x]},
    list: lambda part, x: [part(y) for y in x],
    bytes: lambda part, x: {"b": _text(x)},
    frozenset: lambda part, x: {"s": _sort_members(part, x)},
    set: lambda part, x: {"S": _sort_members(part, x)},
    dict: lambda part, x: {"d": [[part(k), part(v)] for k, v in x.items()]},
    complex: lambda part, x: {"c": [part(x.real), part(x.imag)]},
    np.ndarray: _write_array,
}
_READERS: dict[str, Callable[[Part, Any], Any]] = {
    "t": lambda part, x: tuple(part(y) for y in x),
    "b": lambda part, x: _bytes(x),
    "i": lambda part, x: int(x, 16),
    "s": lambda part, x: frozenset(part(y) for y in x),
    "S": lambda part, x: {part(y) for y in x},
    "d": lambda part, x: {part(k): part(v) for k, v in x},
    "x": lambda part, x: struct.unpack("<d", bytes.fromhex(x))[0],
    "c": lambda part, x: complex(part(x[0]), part(x[1])),
    "a": _read_array,
    "g": _read_scalar,
}
