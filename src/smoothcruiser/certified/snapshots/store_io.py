"""Memories of certified search in a run store.

A store keeps one memory for each run, sealed with it. ``plan`` with a store
writes it while it searches (``methods.certified_search``); ``Certified.save`` writes one
between two queries. Either can be loaded to answer further queries.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.search_state import SearchState
from smoothcruiser.certified.snapshots.snapshot import (
    check_size,
    read_header,
    restore,
    to_bytes,
)
from smoothcruiser.certified.snapshots.snapshot_checks import require
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Promise

if TYPE_CHECKING:
    from smoothcruiser.store import StoredRun

Search = TypeVar("Search", bound=SearchState)


def save_memory(search: SearchState, path: str | Path) -> int:
    """Keep a memory as a run of its own, and return its number."""
    from smoothcruiser.store import Record, Store

    if search.memory.num_nodes == 1 or search.loop is None:
        raise InvalidInput(
            "This memory is empty; ask it something before it is saved."
        )
    root_state = search.memory.states[1]
    search.state_json.check(root_state)
    data = check_size(to_bytes(search))
    record = Record(
        problem=search.problem,
        method="certified",
        plan={"saved": True, "delta": search.delta, "bound": search.bound.word},
        state=root_state,
        seed=int(search.seed),
        executor=search.compute.executor or "python",
    )
    with Store(path) as store:
        run_number = store.begin(record)
        store.keep_memory(run_number, data, search.memory.num_calls)
    return run_number


def find_memory(
    path: str | Path, problem: Problem | None, run: int | None, trust: bool
) -> tuple[StoredRun, bytes, Problem, tuple[str, ...]]:
    """A run that has a memory, the memory, its problem, and notes on its limits."""
    from smoothcruiser.store import Store, StoredRun
    from smoothcruiser.store.record_checks import same_problem
    from smoothcruiser.store.store_file import check_versions

    with Store(path, write=False) as store:
        if run is None:
            runs = [
                stored_row
                for stored_row in store.runs()
                if isinstance(stored_row, StoredRun)
            ]
            memory_runs = [
                stored_row.id
                for stored_row in runs
                if stored_row.method == "certified"
            ]
            memory_runs = [
                run_number
                for run_number in memory_runs
                if store.memory(run_number) is not None
            ]
            if not memory_runs:
                raise InvalidInput(
                    f"The store {path} has no memory of certified search; give a file "
                    "that Certified.save wrote, or a plan with method certified."
                )
            run = memory_runs[-1]
        stored_run, data = store.get(run), store.memory(run)
    if stored_run.method != "certified" or data is None:
        raise InvalidInput(
            f"Run {run} of {path} is of method {stored_run.method!r} and has no memory; "
            "give the number of a certified search."
        )
    check_versions(stored_run.id, stored_run.versions)
    problem, notes = same_problem(stored_run, problem, trust)
    return stored_run, data, problem, notes


def load_memory(
    search_class: type[Search],
    stored: StoredRun,
    data: bytes,
    problem: Problem,
    notes: tuple[str, ...],
    **options: Any,
) -> Search:
    """A new search with the memory of ``find_memory``, and with ``options``."""
    header = read_header(data)
    search = search_class(
        problem,
        delta=header["delta"] or None,  # 0 where no delta was needed
        seed=stored.seed,
        bound=header["bound"],
        **options,
    )
    search.notes = notes
    restore(search, data)
    return search


def take_up(search: SearchState, data: bytes, state: Any, promise: Promise) -> None:
    """Put a stored memory into a new search, in the middle of its query."""
    restore(search, data)
    position, key_of = search.position, search.problem.key_of
    require(position is not None, "no query is under way")
    assert position is not None
    epsilon = None if promise.relative is not None else promise.epsilon
    requested_promise = (epsilon, promise.relative, promise.target)
    stored_promise = (position.epsilon, position.relative, position.target)
    require(stored_promise == requested_promise, "it is of another promise")
    stored_key = key_of(search.memory.states[position.root])
    require(stored_key == key_of(state), "it is of another state")


def has_same_samples(stored: SearchState, replayed: SearchState, state: Any) -> bool:
    """Whether the pairs of a state have the same samples in two memories of one seed.

    The samples of a pair are the beginning of its stream: the outcomes of the memory
    that has fewer must be among those of the other, as often at least.
    """
    nodes = stored.memory.find_node(state), replayed.memory.find_node(state)
    if None in nodes:
        return True  # nothing was sampled there
    stored_pairs, replayed_pairs = (
        search.memory.pairs_of(node or 0)
        for search, node in zip((stored, replayed), nodes, strict=True)
    )
    for stored_pair, replayed_pair in zip(stored_pairs, replayed_pairs, strict=True):
        fewer, more = (
            _count_outcomes(stored, stored_pair),
            _count_outcomes(replayed, replayed_pair),
        )
        if stored_pair["total"] > replayed_pair["total"]:
            fewer, more = more, fewer
        if any(more.get(outcome, 0.0) < count for outcome, count in fewer.items()):
            return False
    return len(stored_pairs) == len(replayed_pairs)


def _count_outcomes(search: SearchState, pair: Any) -> dict[tuple[Any, float], float]:
    """How often each outcome of a pair came: (key of the next state, reward)."""
    memory, key_of = search.memory, search.problem.key_of
    first_entry = int(pair["start"])
    entries = memory.graph.entries.at(
        slice(first_entry, first_entry + int(pair["length"]))
    )
    counts: dict[tuple[Any, float], float] = {}
    for reward, weight, target in zip(*entries, strict=True):
        next_key = None if target == END else key_of(memory.states[int(target)])
        outcome = next_key, float(reward)
        counts[outcome] = counts.get(outcome, 0.0) + float(weight)
    return counts
