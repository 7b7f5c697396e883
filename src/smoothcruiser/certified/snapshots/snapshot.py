"""A certified search as bytes: everything that its continuation depends on.

    MAGIC, length of the header (8 bytes), header (JSON), sections one after another

The header names the sections and their sizes. Arrays are kept as they are, their types
known to the reader; of the pool of outcomes only the used entries. The places of
outcomes in the pool and the free room of arrays change no bit, so that they are laid
out anew. Hash tables are filled anew. Consequences of the problem (boxes, movers, legal
actions) are computed anew and compared.

Whoever wrote the bytes, a search can go on from a snapshot that is read here: no index
points outside an array, no bound is open or crossed, no sample without a share of delta
(``soundness``). Reading cannot tell whether the counts are those of samples that were
ever taken: docs/security.md.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from smoothcruiser.certified.graph import (
    END,
    ENTRIES,
    ENTRY,
    NODE,
    Graph,
    free_entries,
    free_slots,
)
from smoothcruiser.certified.query_limits import make_limits
from smoothcruiser.certified.query_progress import QueryProgress
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.sampling.sampler import Sampler
from smoothcruiser.certified.search_memory import KeyedState, Memory
from smoothcruiser.certified.search_state import SearchState
from smoothcruiser.certified.snapshots import snapshot_checks as soundness
from smoothcruiser.certified.snapshots.snapshot_checks import require
from smoothcruiser.certified.sweeps.memory_kernel import SHORT_SCAN
from smoothcruiser.engines.inspection import Look, Looks
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.states.identity import is_fixed
from smoothcruiser.states.state_copies import copy_state
from smoothcruiser.states.state_json import ExactJson
from smoothcruiser.states.table import NumberNodes, NumberStates

MAGIC = b"SCCERT3\n"
MOST_BYTES = 10**9  # the most that SQLite keeps in one place
# fields of the search and of the guard of its states in the header
COUNTS = ("num_calls", "num_rows", "_drawn_pairs", "_twice")
GUARD = {name: name for name in ("looks", "filled", "blind", "tried", "left")} | {
    "_word": "word"
}
SETS = (
    "States of this memory hold sets, and a store does not keep the order of their "
    "members: if a step depends on it, the answer is of two problems."
)
TEXT_ROWS = 65_536  # states that are spelled in one piece


# --- writing ------------------------------------------------------------------


def to_bytes(search: SearchState) -> bytes:
    """A snapshot of a search between two slices, or between two queries."""
    loop = search.loop
    assert loop is not None  # an empty search has no snapshot
    memory, sampler, batch = loop.memory, loop.sampler, loop.batches.batch
    graph, num_nodes, num_pairs = memory.graph, memory.num_nodes, memory.num_pairs
    if batch is not None:
        sampler.check_written(batch)
    state_json = search.state_json
    # a copy has anything between its fields
    pairs = np.zeros(num_pairs, graph.pairs.dtype)
    pairs[:] = graph.pairs[:num_pairs]
    live_places = _live(pairs["start"], pairs["length"])
    pairs["start"] = 0
    sampler.cover()
    sections: dict[str, Any] = {
        "nodes": graph.nodes[:num_nodes],
        "pairs": pairs,
        "entries": graph.entries.at(live_places).records(),
        "words": sampler.words[:num_pairs],
        "order": search.region.listed_nodes,
        **search.region.sections(),
        **search.region.counted.sections(),
        "arrivals": np.array(sorted(sampler.arrivals.items()), np.int64),
    }
    if search.helper is not None:
        sections |= search.helper.sections()
    state_numbers = _numbers(memory)
    texts = [] if state_numbers is not None else _state_pieces(search)
    if state_numbers is not None:
        sections["numbers"] = state_numbers
    sections["ends"] = _text(_ends(memory, state_json))
    header: dict[str, Any] = {
        "delta": search.delta,
        "seed": int(search.seed),
        "bound": search.bound.word,
        "resolved": sampler.gives_nodes,
        "num_steered": loop.steering.num_steered,
        "texts": [len(text) for text in texts],
        "guard": {
            field_name: getattr(sampler.guard, name)
            for field_name, name in GUARD.items()
        },
        "looked": _written_looks(search.inspections.looked, state_json),
        "asked": search.inspections.asked,
        "at": None,
        "batch": None,
        "num_calls": memory.num_calls,
        "num_rows": memory.num_rows,
        "_drawn_pairs": search.shares.num_pairs,
        "_twice": loop.steering.num_checked,
    }
    position = search.position
    if position is not None:
        header["at"] = {field_name: getattr(position, field_name) for field_name in AT}
        sections |= {"at_pairs": position.pairs, "at_counts": position.counts}
    if batch is not None:
        header["batch"] = {
            field_name: getattr(batch, field_name) for field_name in BATCH
        }
        sections |= {
            "batch_pairs": batch.pairs,
            "batch_counts": batch.counts,
            "raws": batch.raws[: batch.drawn],
            "rewards": batch.rewards[: batch.drawn],
        }
    arrays = {
        field_name: np.ascontiguousarray(array)
        for field_name, array in sections.items()
    }
    header["sections"] = [
        [field_name, array.nbytes] for field_name, array in arrays.items()
    ]
    header_bytes = json.dumps(header).encode()
    byte_views = [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    return b"".join(
        [
            MAGIC,
            len(header_bytes).to_bytes(8, "little"),
            header_bytes,
            *byte_views,
            *texts,
        ]
    )


AT = (
    *("root", "first_call", "first_row", "epsilon", "relative", "target"),
    *("swept", "ended", "sampling"),
)
BATCH = ("drawn", "entered", "watched")


def _live(starts: Any, lengths: Any) -> Any:
    """The places in the pool that are in use, pair after pair."""
    pair_ends = np.cumsum(lengths, dtype=np.int64)
    total_length = int(pair_ends[-1]) if len(pair_ends) else 0
    place_shift = np.repeat(starts - (pair_ends - lengths), lengths)
    return np.arange(total_length, dtype=np.int64) + place_shift


def _text(data: Any) -> Any:
    return np.frombuffer(json.dumps(data).encode(), np.uint8)


def _numbers(memory: Memory) -> Any:
    """The states as an array, if all are whole numbers of 64 bits; otherwise None."""
    if isinstance(memory.states, NumberStates):
        return memory.states.numbers
    if set(map(type, memory.states[1:])) - {int}:
        return None
    try:
        return np.array(memory.states[1:], np.int64)
    except OverflowError:
        return None


def _state_pieces(search: SearchState) -> list[bytes]:
    """The states as JSON, in pieces; full ones are kept, since states do not change."""
    states, full_pieces, write_state = (
        search.memory.states,
        search.spelled,
        search.state_json.write_state,
    )
    while len(states) - 1 >= (len(full_pieces) + 1) * TEXT_ROWS:
        first_state = 1 + len(full_pieces) * TEXT_ROWS
        state_texts = [
            write_state(state)
            for state in states[first_state : first_state + TEXT_ROWS]
        ]
        full_pieces.append(json.dumps(state_texts).encode())
    last_texts = [
        write_state(state) for state in states[1 + len(full_pieces) * TEXT_ROWS :]
    ]
    return [*full_pieces, json.dumps(last_texts).encode()]


def _ends(memory: Memory, state_json: ExactJson) -> list[Any]:
    """The states that are known to be over: [state, whether it is kept]."""
    end_states = []
    for key, node in memory.nodes.items():
        if node == END:
            is_kept = key in memory.terminal_values
            end_states.append(
                [state_json.write_state(memory.terminal_values.get(key, key)), is_kept]
            )
    end_states += [
        [state_json.write_state(seen_state.state), True]
        for seen_state in memory.others.values()
        if seen_state.node == END
    ]
    return end_states


def _written_looks(looks: Looks | None, state_json: ExactJson) -> Any:
    if looks is None:
        return None
    look_rows = []
    for look in looks:
        reward, next_state, ended = look.answer
        look_rows.append(
            {
                "state": state_json.write_state(look.state),
                "action": look.action,
                "place": look.place,
                "reward": reward,
                # a state after the end is never compared
                "after": None if ended else state_json.write_state(next_state),
                "ended": ended,
                "kept": look.kept is not None and not ended,
                "profile": look.profile,
                "taken": look.taken,
            }
        )
    return look_rows


# --- reading ------------------------------------------------------------------


def restore(search: SearchState, data: bytes) -> None:
    """Put a snapshot into a new search of the same problem."""
    try:
        _restore(search, data)
        if search.state_json.sets:
            search.notes += (SETS,)
    except SmoothcruiserError:
        raise
    except (Exception, MemoryError) as error:
        raise soundness.damage_error(f"{type(error).__name__}: {error}") from error


def read_header(data: bytes) -> dict[str, Any]:
    """The header of a snapshot."""
    try:
        require(data[: len(MAGIC)] == MAGIC, "it is no snapshot of this version")
        header_size = int.from_bytes(data[8:16], "little")
        header: dict[str, Any] = json.loads(data[16 : 16 + header_size])
        require(isinstance(header, dict), "its header holds no fields")
        header["start"] = 16 + header_size
        return header
    except (ValueError, RecursionError) as error:
        raise soundness.damage_error(str(error)) from error


def _sections(data: bytes, header: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The sections by name as bytes, and the pieces of text."""
    start_byte, section_bytes = header["start"], {}
    for section_name, size in header["sections"]:
        require(
            soundness.is_count(size) and section_name not in section_bytes,
            "its sections overlap",
        )
        section_bytes[section_name] = memoryview(data)[start_byte : start_byte + size]
        start_byte += size
    texts = []
    for size in header["texts"]:
        require(soundness.is_count(size), "its sections overlap")
        texts.append(memoryview(data)[start_byte : start_byte + size])
        start_byte += size
    require(start_byte == len(data), "it ends elsewhere")
    return section_bytes, texts


def _restore(search: SearchState, data: bytes) -> None:
    header = read_header(data)
    section_bytes, state_texts = _sections(data, header)
    memory, state_json = search.memory, search.state_json
    for field_name, own_value in (
        ("delta", search.delta),
        ("seed", search.seed),
        ("bound", search.bound.word),
    ):
        require(header[field_name] == own_value, f"it has another {field_name}")
    for field_name in COUNTS:
        require(soundness.is_count(header[field_name]), "a count is none")
    memory.num_calls, memory.num_rows = header["num_calls"], header["num_rows"]
    search.shares.num_pairs = header["_drawn_pairs"]
    pair_dtype = memory.graph.pairs.dtype
    node_rows, pair_rows = (
        np.frombuffer(section_bytes["nodes"], NODE),
        np.frombuffer(section_bytes["pairs"], pair_dtype),
    )
    entry_rows = np.frombuffer(section_bytes["entries"], ENTRY)
    order = np.frombuffer(section_bytes["order"], np.int64)
    if header["resolved"] is False:
        memory.hold_numbers()
    if "numbers" in section_bytes:
        stored_states = np.frombuffer(section_bytes["numbers"], np.int64).tolist()
    else:
        stored_states = [
            state_json.read_state(state_data)
            for state_text in state_texts
            for state_data in json.loads(bytes(state_text))
        ]
    _add_states(memory, stored_states)
    _add_ends(memory, state_json, json.loads(bytes(section_bytes["ends"])))
    soundness.check_graph(search, node_rows, pair_rows, entry_rows)
    _fill_graph(memory, node_rows, pair_rows, entry_rows)
    first_state = memory.states[1] if memory.num_nodes > 1 else search.problem.start()
    search.prepare(first_state, make_limits(None, 1, None, None, "value"))
    if search.loop is None:
        raise KeyboardInterrupt
    sampler, steering, region = (
        search.loop.sampler,
        search.loop.steering,
        search.region,
    )
    require(sampler.gives_nodes is header["resolved"], "its step was of another kind")
    memory.repack(2 * memory.graph.entries.size, region.loops)
    region.loops.rehash(memory.graph)
    soundness.check_order(memory, order)
    region.order, region.count = order.copy(), len(order)
    region.make_room()
    region.read_sections(section_bytes, require)
    region.counted.read_sections(section_bytes, require)
    stream_words = np.frombuffer(section_bytes["words"], np.uint64).reshape(-1, 4)
    sampler.cover()
    require(
        len(stream_words) == min(len(pair_rows), len(sampler.words))
        and bool(stream_words.any(axis=1).all()),
        "a stream is none",
    )
    sampler.words[: len(stream_words)] = stream_words
    _restore_watch(sampler, header, np.frombuffer(section_bytes["arrivals"], np.int64))
    search.inspections.looked = _read_looks(header["looked"], search)
    for field_name in ("num_steered", "asked"):
        require(soundness.is_count(header[field_name]), "a count is none")
    search.inspections.asked = header["asked"]
    steering.num_steered = header["num_steered"]
    steering.num_checked = header["_twice"]
    if header["at"] is not None:
        search.position = _read_position(header["at"], section_bytes, search)
    if header["batch"] is not None:
        batch = _read_batch(
            header["batch"], section_bytes, search, sampler.gives_nodes
        )
        search.loop.batches.batch = batch
        sampler.take_up(batch)
    if search.helper is not None:
        search.helper.read_sections(section_bytes, require)
    soundness.check_calls(memory, search.loop.batches.num_waiting)


def _add_states(memory: Memory, states: list[Any]) -> None:
    """Make the nodes anew, as when the states were met."""
    problem = memory.problem
    if problem.tables is not None:
        for state in states:
            problem.tables.check_state(state)
    keys: list[Any] = [problem.key_of(state) for state in states]
    require(len(set(keys)) == len(keys), "a state is double")
    new_nodes = memory.add_nodes(states)
    require(
        new_nodes == list(range(1, len(states) + 1)), "a state has become terminal"
    )
    for node, (state, key) in enumerate(zip(states, keys, strict=True), 1):
        if isinstance(memory.nodes, NumberNodes):
            break  # they are known by their numbers
        if problem.key is None and is_fixed(state):
            memory.nodes[key] = node
        else:
            memory.others[key] = KeyedState(node, state, memory.profile_of(node))


def _add_ends(memory: Memory, state_json: ExactJson, end_rows: list[Any]) -> None:
    problem = memory.problem
    for state_data, is_kept in end_rows:
        state = state_json.read_state(state_data)
        require(problem.is_terminal(state), "a terminal state is not over")
        key: Any = problem.key_of(state)
        require(
            key not in memory.nodes and key not in memory.others, "a state is double"
        )
        if problem.key is None and is_fixed(state):
            memory.nodes[key] = END
            if is_kept:
                memory.terminal_values[key] = state
        else:
            memory.others[key] = KeyedState(END, state, None)


def _fill_graph(memory: Memory, nodes: Any, pairs: Any, entries: Any) -> None:
    """Copy checked rows into the arrays of the memory; outcomes are laid out anew."""
    graph = memory.graph
    graph.nodes[: len(nodes)], graph.pairs[: len(pairs)] = nodes, pairs
    lengths = pairs["length"].astype(np.int64)
    graph.pairs["start"][: len(pairs)] = np.cumsum(lengths) - lengths
    entry_pool = free_entries(max(len(entries), 1024))
    for name in ENTRY.names or ():
        getattr(entry_pool, name)[: len(entries)] = entries[name]
    # rows of a known model have the total 1 and are never looked up
    num_hashed = int(lengths[(lengths > SHORT_SCAN) & (pairs["total"] > 1.0)].sum())
    num_slots = 1024
    while num_slots < 4 * (num_hashed + SHORT_SCAN):
        num_slots *= 2
    slots = free_slots(num_slots)
    memory.graph = Graph(graph.nodes, graph.pairs, entry_pool, slots, graph.sizes)
    memory.graph.sizes[:] = 0
    memory.graph.sizes[ENTRIES] = len(entries)


def _restore_watch(sampler: Sampler, header: dict[str, Any], arrivals: Any) -> None:
    guard = sampler.guard
    for field_name, name in GUARD.items():
        value, example = header["guard"][field_name], getattr(guard, name)
        require(type(value) is type(example), "its guard is none")
        setattr(guard, name, value)
    arrival_rows = arrivals.reshape(-1, 2)
    are_known = (arrival_rows[:, 0] >= 0) & (
        arrival_rows[:, 0] < sampler.memory.num_nodes
    )
    require(bool(are_known.all()), "a state arrived that is none")
    sampler.arrivals = dict(arrival_rows.tolist())


def _read_looks(look_rows: Any, search: SearchState) -> Looks | None:
    if look_rows is None:
        return None
    inspected_looks, problem, read_state = (
        [],
        search.problem,
        search.state_json.read_state,
    )
    for row in look_rows:
        next_state = None if row["ended"] else read_state(row["after"])
        action, look_place, taken_counts = row["action"], row["place"], row["taken"]
        require(
            soundness.is_count(action)
            and action < problem.num_actions
            and soundness.is_count(look_place)
            and all(map(soundness.is_count, taken_counts))
            and isinstance(row["ended"], bool)
            and isinstance(row["reward"], float | int),
            "an inspection is none",
        )
        profile = None if row["profile"] is None else tuple(row["profile"])
        kept_state = copy_state(next_state) if row["kept"] else None
        state, answer = (
            read_state(row["state"]),
            (row["reward"], next_state, row["ended"]),
        )
        inspected_looks.append(
            Look(
                state,
                action,
                look_place,
                answer,
                kept_state,
                profile,
                tuple(taken_counts),
            )
        )
    return tuple(inspected_looks)


def _read_position(
    row: Any, section_bytes: dict[str, Any], search: SearchState
) -> QueryProgress:
    position = QueryProgress(**{field_name: row[field_name] for field_name in AT})
    position.pairs = np.frombuffer(section_bytes["at_pairs"], np.int64).copy()
    position.counts = np.frombuffer(section_bytes["at_counts"], np.int64).copy()
    soundness.check_position(search, position)
    return position


def _read_batch(
    row: Any, section_bytes: dict[str, Any], search: SearchState, gives_nodes: bool
) -> Batch:
    pairs = np.frombuffer(section_bytes["batch_pairs"], np.int64).copy()
    counts = np.frombuffer(section_bytes["batch_counts"], np.int64).copy()
    soundness.check_jobs(search, pairs, counts)
    raws, rewards = (
        np.frombuffer(section_bytes["raws"], np.int64),
        np.frombuffer(section_bytes["rewards"], np.float64),
    )
    batch = soundness.batch_of(
        pairs, counts, **{field_name: row[field_name] for field_name in BATCH}
    )
    require(len(raws) == len(rewards) == batch.drawn, "samples are missing")
    batch.raws[: batch.drawn], batch.rewards[: batch.drawn] = raws, rewards
    soundness.check_samples(search.memory, raws, rewards, gives_nodes)
    return batch


def check_size(data: bytes) -> bytes:
    """A snapshot, if a store can keep it."""
    if len(data) >= MOST_BYTES:
        raise InvalidInput(
            f"This memory takes {len(data) / 1e9:.2f} GB, and a store keeps at most "
            f"{MOST_BYTES / 1e9:g} GB of one run; keep fewer states (max_states)."
        )
    return data
