"""The bounds and estimates of every state that a memory of certified search has seen.

All bounds of one memory hold together with probability 1 - delta (docs/certified.md,
section 3), whatever the queries were and wherever they stopped. So a table of them is
one promise about all states, not one per state. A state that was only met on the way
has the bounds that its samples allow, at worst those of the rewards.

This file decides how they are read. Reading changes nothing in the memory, and a table
keeps its own data when queries go on. It leaves out how bounds come about (``sweeps``)
and how a table is drawn (``smoothcruiser.plots``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, overload

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.query_limits import LARGEST, Target, make_limits
from smoothcruiser.certified.query_progress import QueryProgress
from smoothcruiser.certified.search_answer import (
    STATE_COLUMNS,
    describe,
    guess_at,
    promised_within,
    spread_guess,
)
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.search_state import SearchState
from smoothcruiser.certified.sweeps.counted_model import UNKNOWN, Guess
from smoothcruiser.certified.sweeps.layers import LayeredRegion
from smoothcruiser.certified.sweeps.table_rows import NodeRows, make_table_rows
from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate, Interval, best_action, bring_inside
from smoothcruiser.problem.problem import Problem
from smoothcruiser.records.data import Data, Framed, json_text
from smoothcruiser.records.data import json_data as read_json
from smoothcruiser.records.json_shapes import index_flaw, length_flaw
from smoothcruiser.states.identity import state_key


@dataclass(frozen=True)
class Row:
    """A state that was seen. Illegal actions have policy 0 and NaN elsewhere."""

    state: Any
    remaining: int | None  # steps left, where the problem has a horizon
    player: int  # the mover: 1 maximizes, 2 minimizes
    value: float  # the best estimate of V
    interval: Interval  # of V: the promise
    q_intervals: tuple[Interval, ...]
    policy: tuple[float, ...]  # at the best estimates of the action values
    action: int  # the recommended one
    samples: tuple[int, ...]  # of each action
    label: str = ""  # name of the recommended action, by default its number

    def json_flaw(self) -> str | None:
        """Lists that differ in length, or an action that there is not."""
        num_actions = len(self.q_intervals)
        flaws = [
            length_flaw("policy", len(self.policy), num_actions, "action"),
            length_flaw("samples", len(self.samples), num_actions, "action"),
            index_flaw("action", self.action, num_actions, "actions"),
        ]
        return next((flaw for flaw in flaws if flaw is not None), None)


class RowTable(Framed, Sequence[Row]):
    """Rows of states, as a table."""

    frame_columns: ClassVar[tuple[str, ...]] = STATE_COLUMNS

    def records(self) -> list[dict[str, Any]]:
        """One row per state: its bounds, the recommended action, samples taken there.

        ``policy`` is the share of that action.
        """
        return [
            {
                "state": row.state,
                "remaining": row.remaining,
                "player": row.player,
                "value": row.value,
                "low": row.interval[0],
                "high": row.interval[1],
                "action": row.action,
                "label": row.label or str(row.action),
                "policy": row.policy[row.action],
                "samples": sum(row.samples),
            }
            for row in self
        ]


@dataclass(frozen=True, repr=False)
class KeptTable(Shown, Data, RowTable):
    """A table apart from its memory: the form in JSON and of ``Table.from_dict``.

    All intervals of all rows hold together with probability at least ``confidence``.
    """

    json_kind: ClassVar[str] = "table"
    json_when_set: ClassVar[tuple[str, ...]] = ("minimize",)

    problem: str
    confidence: float
    num_calls: int
    rows: tuple[Row, ...]
    minimize: bool = False  # values are costs

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return brief(
            "KeptTable",
            problem=self.problem,
            states=len(self),
            confidence=self.confidence,
            calls=self.num_calls,
        )

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {
            (state_key(row.state), row.remaining): i for i, row in enumerate(self.rows)
        }

    def at(self, state: Any, remaining: int | None = None) -> Row:
        """The row of a state.

        Args:
            state: a state as JSON gave it back.
            remaining: steps left, where the problem has a horizon.
        """
        row_index = self._places.get((state_key(state), remaining))
        if row_index is None:
            raise InvalidInput(
                f"The state {state!r:.60} with remaining={remaining!r} is not in this "
                f"table of {len(self):,} rows; name one that is."
            )
        return self.rows[row_index]


@dataclass(frozen=True, repr=False)
class Table(Shown, RowTable):
    """The states that a memory has seen, in the order it met them.

    All intervals of all rows hold together with probability at least ``confidence``.
    Terminal states are left out: they are worth 0. Rows are made when they are
    read.
    """

    problem: Problem
    confidence: float
    num_calls: int  # of the memory so far
    _states: list[Any] = field(repr=False)  # of each node
    _numbers: dict[Any, int] = field(repr=False)  # the node of each key
    _seen: NodeRows = field(repr=False)

    @property
    def minimize(self) -> bool:
        """Whether values are costs, which one player minimizes."""
        return self.problem.minimizes

    def __len__(self) -> int:
        return len(self._seen)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        """The row at a place of the table; ``at`` finds that of a state."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        node_number, remaining = self._seen.place(range(len(self))[index])
        node, pairs, guess = self._seen.row(range(len(self))[index])
        problem = self.problem
        player = 1 if node["sign"] > 0.0 else 2
        actions = pairs["action"].tolist()
        interval = (float(node["lower"]), float(node["upper"]))
        spread, value = spread_guess(problem, pairs, player, guess)
        if not guess.q_values:
            middle = 0.5 * (interval[0] + interval[1])
            value = middle if guess.value is None else guess.value
        samples = [0] * problem.num_actions
        for action, total in zip(actions, pairs["total"].tolist(), strict=True):
            samples[action] = int(total)
        action = best_action(spread.policy, spread.q_values, player)
        return Row(
            state=self._states[node_number],
            remaining=remaining,
            player=player,
            value=bring_inside(value, interval),
            interval=interval,
            q_intervals=spread.q_intervals,
            policy=spread.policy,
            action=action,
            samples=tuple(samples),
            label=problem.label(self._states[node_number], action),
        )

    def at(self, state: Any, remaining: int | None = None) -> Row:
        """The row of a state; with a horizon, that with ``remaining`` steps left.

        Args:
            state: a state as the step returns it.
            remaining: steps left, by default all of the horizon; None without one.
        """
        problem = self.problem
        if problem.horizon is None and remaining is not None:
            raise InvalidInput(
                f"The problem has no horizon, so no steps are counted; drop remaining="
                f"{remaining!r}."
            )
        state = problem.start(state)
        row_index = self._place(state, remaining)
        if row_index is None:
            steps_text = (
                "" if problem.horizon is None else " with that many steps left"
            )
            raise InvalidInput(
                f"The state {state!r:.60} is terminal (worth 0) or was never seen{steps_text}; "
                "ask a query about it first."
            )
        return self[row_index]

    def __contains__(self, state: object) -> bool:
        """Whether a state was seen (with all steps of a horizon left)."""
        return self._place(self.problem.start(state), None) is not None

    def _place(self, state: Any, remaining: int | None) -> int | None:
        """The place of a state's row; None if it has none."""
        node = self._numbers.get(self.problem.key_of(state), END)
        return None if node == END else self._seen.find(node, remaining)

    def kept(self) -> KeptTable:
        """All rows, apart from the memory."""
        return KeptTable(
            problem=self.problem.name,
            confidence=self.confidence,
            num_calls=self.num_calls,
            rows=tuple(self),
            minimize=self.minimize,
        )

    def to_dict(self) -> dict[str, Any]:
        """The rows and their confidence as plain data; see ``Data.to_dict``."""
        return self.kept().to_dict()

    def to_json(self, **options: Any) -> str:
        """The rows and their confidence as JSON text."""
        return json_text(self.to_dict(), options)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> KeptTable:
        """The rows that ``to_dict`` wrote, apart from any memory: equal to ``kept()``."""
        return KeptTable.from_dict(data)

    @staticmethod
    def from_json(text: str | bytes) -> KeptTable:
        """The rows that ``to_json`` wrote: equal to ``kept()``."""
        return KeptTable.from_dict(read_json(text, "Table.from_json"))

    def __repr__(self) -> str:
        return brief(
            "Table",
            problem=self.problem.name,
            states=len(self),
            confidence=self.confidence,
            calls=self.num_calls,
        )


def table_of(search: SearchState) -> Table:
    """The table of a memory as it is now."""
    memory = search.memory
    return Table(
        problem=search.problem,
        confidence=1.0 if search.shares.exact else 1.0 - search.delta,
        num_calls=search.memory.num_calls,
        _states=list(memory.states),
        _numbers={key: node for key, node in memory.list_nodes() if node != END},
        _seen=make_table_rows(
            memory, search.region if search.loop else None, search.memory.num_calls
        ),
    )


def review_estimate(
    search: SearchState, estimate: Estimate, deadline: float
) -> Estimate:
    """An earlier estimate of a memory, with the bounds that it has by now.

    Until ``deadline`` they are swept first. The estimate is returned as it is where
    they have not moved, or the state is unknown. No query goes on after that.
    """
    if search.fault is not None or search.loop is None:
        return estimate
    memory = search.memory
    node = memory.find_node(estimate.state)
    if node is None or node == END:
        return estimate
    position = search.position
    target: Target = "q_values" if position is None else position.target
    now = time.perf_counter()
    if now < deadline:
        limits = make_limits(None, 1, min(deadline - now, LARGEST), None, target)
        search.region.start(node)
        search.loop.sweeps.settle(QueryProgress(node, 0, None, target), limits)
    elif not search.region.show_whole(node):
        return estimate
    if memory.interval(node) == estimate.interval:
        return estimate
    calls_and_seconds = estimate.num_calls, estimate.seconds, estimate.compile_seconds
    guess = guess_at(search, node)._replace(standard_error=estimate.standard_error)
    new_estimate = _known_at(
        search, memory, node, estimate.state, guess, calls_and_seconds
    )
    narrowing_note = (
        "Samples for other states narrowed it to half-width "
        f"{new_estimate.epsilon:.4g}."
    )
    return replace(new_estimate, notes=(*estimate.notes, narrowing_note))


def _known_at(
    search: SearchState,
    memory: Memory,
    node: int,
    state: Any,
    guess: Guess,
    calls_and_seconds: tuple[int, float, float],
) -> Estimate:
    """The estimate of a node by a memory now, with the ``calls_and_seconds`` it took.

    ``memory`` is the search's own or a copy; with a horizon the node must be shown
    (``Region.show_whole``). Where the last query's promise is kept here too, the
    values keep it.
    """
    position = search.position
    target: Target = "q_values" if position is None else position.target
    half_width = memory.half_width(node, target)
    if position is not None:
        limits = make_limits(
            position.epsilon, 1, None, None, target, position.relative
        )
        interval = memory.interval(node)
        if limits.is_reached(half_width, interval):
            guess = guess._replace(within=promised_within(limits, interval))
    return describe(
        search.problem,
        memory,
        node,
        state,
        guess=guess,
        confidence=1.0 if search.shares.exact else 1.0 - search.delta,
        bound="interval iteration" if search.shares.exact else search.bound.word,
        assumptions=search.assumed,
        epsilon=half_width,
        delta=0.0 if search.shares.exact else search.delta,
        num_calls=calls_and_seconds[0],
        seconds=calls_and_seconds[1],
        compile_seconds=calls_and_seconds[2],
        seed=search.seed,
    )


def queried_estimates(search: SearchState) -> list[Estimate]:
    """The present estimates of the states of a memory's queries, in their order.

    Calls and the usual error are those of the last query there. A memory that was
    loaded knows of the queries since, and of the one that was under way. One that an
    error has left unfinished knows of none.
    """
    if search.fault is not None:
        return []
    position, memory = search.position, search.memory
    queried_nodes = dict(search.asked)
    if position is not None:
        queried_nodes.setdefault(position.root, (0, None))
    region = search.region if queried_nodes and search.loop else None
    guess_of: Callable[[int], Guess] | None = None
    if isinstance(region, LayeredRegion):
        region = region.copy_layers()  # reading changes nothing
        memory = region.memory
        region.counted.settle(search.memory.num_calls)
        guess_of = region.counted.at
    elif region is not None:
        guess_of = region.counted.guess_all(search.memory.num_calls).__getitem__
    estimates = []
    for node, (num_calls, usual_error) in queried_nodes.items():
        if region is not None:
            region.show_whole(node)
        state, calls_and_seconds = memory.states[node], (num_calls, 0.0, 0.0)
        guess = UNKNOWN if guess_of is None else guess_of(node)
        guess = guess._replace(standard_error=usual_error)
        estimates.append(
            _known_at(search, memory, node, state, guess, calls_and_seconds)
        )
    return estimates


def has_room(search: SearchState, state: Any) -> bool:
    """Whether a query about ``state`` has a place in the memory."""
    is_seen = search.memory.find_node(state) is not None
    return is_seen or not search.memory.is_crowded(1)
