"""A certified search as bytes: everything that its continuation depends on.

    MAGIC, length of the header (8 bytes), header (JSON), sections one after another

The header names the sections and their sizes. Arrays are kept as they are, their
types known to the reader; of the pool of outcomes only what is in use. Where outcomes
lie in the pool and how much room arrays have changes no bit, so that they are laid out
anew. Hash tables are filled anew, and what follows from the problem (boxes, movers,
legal actions) is computed anew and compared.

Whoever wrote the bytes, what is read here can be searched on: no index points
outside an array, no bound is open or crossed, no sample without a share of delta
(``soundness``). What cannot be seen is whether the counts are those of samples
that were ever taken: docs/security.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified import soundness
from smoothcruiser.certified.graph import END, ENTRIES, ENTRY, NODE, free_slots
from smoothcruiser.certified.intake import Batch
from smoothcruiser.certified.limits import make_limits
from smoothcruiser.certified.memory import Memory, Seen
from smoothcruiser.certified.memory_kernel import SHORT_SCAN
from smoothcruiser.certified.numbers import NumberNodes, NumberStates
from smoothcruiser.certified.position import Position
from smoothcruiser.certified.soundness import require
from smoothcruiser.certified.spelling import Spelling
from smoothcruiser.engines.inspection import Look, Looks
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.problem.states import copied, is_fixed

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified

MAGIC = b"SCCERT3\n"
MOST_BYTES = 10**9  # what SQLite keeps in one place
# what the header keeps of the search and of the guard of its states
COUNTS = ("num_calls", "num_rows", "_drawn_pairs", "_twice")
GUARD = ("looks", "filled", "blind", "tried", "left", "_word")
SETS = (
    "States of this memory hold sets, and a store does not keep the order of their "
    "members: if a step depends on it, the answer is of two problems."
)
TEXT_ROWS = 65_536  # states that are spelled in one piece


# --- writing ------------------------------------------------------------------


def to_bytes(search: Certified) -> bytes:
    """A snapshot of a search between two slices, or between two queries."""
    memory, sampler, intake = search.memory, search._sampler, search._intake
    graph, n, p = memory.graph, memory.num_nodes, memory.num_pairs
    if intake.batch is not None:
        sampler.check_written(intake.batch)
    spelling = search.spelling
    pairs = np.zeros(p, graph.pairs.dtype)  # a copy has anything between its fields
    pairs[:] = graph.pairs[:p]
    live = _live(pairs["start"], pairs["length"])
    pairs["start"] = 0
    sampler.cover()
    sections: dict[str, Any] = {
        "nodes": graph.nodes[:n],
        "pairs": pairs,
        "entries": graph.entries[live],
        "words": sampler.words[:p],
        "order": search._region.listed,
        **search._region.sections(),
        **search._region.counted.sections(),
        "arrivals": np.array(sorted(sampler.arrivals.items()), np.int64),
    }
    numbers = _numbers(memory)
    texts = [] if numbers is not None else _spelled(search)
    if numbers is not None:
        sections["numbers"] = numbers
    sections["ends"] = _text(_ends(memory, spelling))
    header: dict[str, Any] = {
        "delta": search.delta,
        "seed": int(search.seed),
        "bound": search.bound.word,
        "resolved": sampler.resolved,
        "num_steered": search._steering.num_steered,
        "texts": [len(text) for text in texts],
        "guard": {name: getattr(sampler.guard, name) for name in GUARD},
        "looked": _written_looks(search._inspected.looked, spelling),
        "asked": search._inspected.asked,
        "at": None,
        "batch": None,
    } | {name: getattr(search, name) for name in COUNTS}
    at, batch = search._at, intake.batch
    if at is not None:
        header["at"] = {name: getattr(at, name) for name in AT}
        sections |= {"at_pairs": at.pairs, "at_counts": at.counts}
    if batch is not None:
        header["batch"] = {name: getattr(batch, name) for name in BATCH}
        sections |= {
            "batch_pairs": batch.pairs,
            "batch_counts": batch.counts,
            "raws": batch.raws[: batch.drawn],
            "rewards": batch.rewards[: batch.drawn],
        }
    parts = {name: np.ascontiguousarray(part) for name, part in sections.items()}
    header["sections"] = [[name, part.nbytes] for name, part in parts.items()]
    top = json.dumps(header).encode()
    views = [part.reshape(-1).view(np.uint8).data for part in parts.values()]
    return b"".join([MAGIC, len(top).to_bytes(8, "little"), top, *views, *texts])


AT = (
    *("root", "first_call", "first_row", "epsilon", "relative", "target"),
    *("swept", "ended", "sampling"),
)
BATCH = ("drawn", "entered", "watched")


def _live(starts: Any, lengths: Any) -> Any:
    """The places in the pool that are in use, pair after pair."""
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total, dtype=np.int64) + shift


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


def _spelled(search: Certified) -> list[bytes]:
    """The states as JSON, in pieces; full ones are kept, since states do not change."""
    states, kept, write = search.memory.states, search.spelled, search.spelling.write
    while len(states) - 1 >= (len(kept) + 1) * TEXT_ROWS:
        first = 1 + len(kept) * TEXT_ROWS
        piece = [write(state) for state in states[first : first + TEXT_ROWS]]
        kept.append(json.dumps(piece).encode())
    rest = [write(state) for state in states[1 + len(kept) * TEXT_ROWS :]]
    return [*kept, json.dumps(rest).encode()]


def _ends(memory: Memory, spelling: Spelling) -> list[Any]:
    """The states that are known to be over: [state, whether it is kept]."""
    found = []
    for key, node in memory.nodes.items():
        if node == END:
            kept = key in memory.over
            found.append([spelling.write(memory.over.get(key, key)), kept])
    found += [
        [spelling.write(seen.state), True]
        for seen in memory.others.values()
        if seen.node == END
    ]
    return found


def _written_looks(looked: Looks | None, spelling: Spelling) -> Any:
    if looked is None:
        return None
    rows = []
    for look in looked:
        reward, after, ended = look.answer
        rows.append(
            {
                "state": spelling.write(look.state),
                "action": look.action,
                "place": look.place,
                "reward": reward,
                # nobody compares what comes after the end
                "after": None if ended else spelling.write(after),
                "ended": ended,
                "kept": look.kept is not None and not ended,
                "profile": look.profile,
                "taken": look.taken,
            }
        )
    return rows


# --- reading ------------------------------------------------------------------


def restore(search: Certified, data: bytes) -> None:
    """Put a snapshot into a new search of the same problem."""
    try:
        _restore(search, data)
        if search.spelling.sets:
            search.notes += (SETS,)
    except SmoothcruiserError:
        raise
    except (Exception, MemoryError) as error:
        raise soundness.damaged(f"{type(error).__name__}: {error}") from error


def read_header(data: bytes) -> dict[str, Any]:
    """The header of a snapshot."""
    try:
        require(data[: len(MAGIC)] == MAGIC, "it is no snapshot of this version")
        size = int.from_bytes(data[8:16], "little")
        header: dict[str, Any] = json.loads(data[16 : 16 + size])
        require(isinstance(header, dict), "its header holds no fields")
        header["start"] = 16 + size
        return header
    except (ValueError, RecursionError) as error:
        raise soundness.damaged(str(error)) from error


def _sections(data: bytes, header: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The sections by name as bytes, and the pieces of text."""
    at, found = header["start"], {}
    for name, size in header["sections"]:
        require(soundness.whole(size) and name not in found, "its sections overlap")
        found[name] = memoryview(data)[at : at + size]
        at += size
    texts = []
    for size in header["texts"]:
        require(soundness.whole(size), "its sections overlap")
        texts.append(memoryview(data)[at : at + size])
        at += size
    require(at == len(data), "it ends elsewhere")
    return found, texts


def _restore(search: Certified, data: bytes) -> None:
    header = read_header(data)
    parts, texts = _sections(data, header)
    memory, spelling = search.memory, search.spelling
    for name, mine in (
        ("delta", search.delta),
        ("seed", search.seed),
        ("bound", search.bound.word),
    ):
        require(header[name] == mine, f"it has another {name}")
    for name in COUNTS:
        require(soundness.whole(header[name]), "a count is none")
        setattr(search, name, header[name])
    kind = memory.graph.pairs.dtype
    nodes, pairs = (
        np.frombuffer(parts["nodes"], NODE),
        np.frombuffer(parts["pairs"], kind),
    )
    entries = np.frombuffer(parts["entries"], ENTRY)
    order = np.frombuffer(parts["order"], np.int64)
    if header["resolved"] is False:
        memory.hold_numbers()
    if "numbers" in parts:
        states = np.frombuffer(parts["numbers"], np.int64).tolist()
    else:
        states = [spelling.read(x) for text in texts for x in json.loads(bytes(text))]
    _add_states(memory, states)
    _add_ends(memory, spelling, json.loads(bytes(parts["ends"])))
    soundness.check_graph(search, nodes, pairs, entries)
    _fill_graph(memory, nodes, pairs, entries)
    first = memory.states[1] if memory.num_nodes > 1 else search.problem.start()
    search._prepare(first, make_limits(None, 1, None, None, "value", 0.0))
    if not search._prepared:
        raise KeyboardInterrupt
    sampler, region = search._sampler, search._region
    require(sampler.resolved is header["resolved"], "its step was of another kind")
    memory.repack(2 * len(memory.graph.entries), region.loops)
    region.loops.rehash(memory.graph)
    soundness.check_order(memory, order)
    region.order, region.count = order.copy(), len(order)
    region.make_room()
    region.read(parts, require)
    region.counted.read(parts, require)
    words = np.frombuffer(parts["words"], np.uint64).reshape(-1, 4)
    sampler.cover()
    require(
        len(words) == min(len(pairs), len(sampler.words))
        and bool(words.any(axis=1).all()),
        "a stream is none",
    )
    sampler.words[: len(words)] = words
    _restore_watch(search, header, np.frombuffer(parts["arrivals"], np.int64))
    search._inspected.looked = _read_looks(header["looked"], search)
    for name in ("num_steered", "asked"):
        require(soundness.whole(header[name]), "a count is none")
    search._inspected.asked = header["asked"]
    search._steering.num_steered = header["num_steered"]
    if header["at"] is not None:
        search._at = _read_position(header["at"], parts, search)
    if header["batch"] is not None:
        search._intake.batch = _read_batch(header["batch"], parts, search)
        sampler.take_up(search._intake.batch)
    soundness.check_calls(search)


def _add_states(memory: Memory, states: list[Any]) -> None:
    """Make the nodes anew, as when the states were met."""
    problem = memory.problem
    if problem.tables is not None:
        for state in states:
            problem.tables.check_state(state)
    keys: list[Any] = [problem.key_of(state) for state in states]
    require(len(set(keys)) == len(keys), "a state is double")
    made = memory._add_nodes(states)
    require(made == list(range(1, len(states) + 1)), "a state has become terminal")
    for node, (state, key) in enumerate(zip(states, keys, strict=True), 1):
        if isinstance(memory.nodes, NumberNodes):
            break  # they are known by their numbers
        if problem.key is None and is_fixed(state):
            memory.nodes[key] = node
        else:
            memory.others[key] = Seen(node, state, memory._profile(node))


def _add_ends(memory: Memory, spelling: Spelling, rows: list[Any]) -> None:
    problem = memory.problem
    for written, kept in rows:
        state = spelling.read(written)
        require(problem.is_terminal(state), "a terminal state is not over")
        key: Any = problem.key_of(state)
        require(
            key not in memory.nodes and key not in memory.others, "a state is double"
        )
        if problem.key is None and is_fixed(state):
            memory.nodes[key] = END
            if kept:
                memory.over[key] = state
        else:
            memory.others[key] = Seen(END, state, None)


def _fill_graph(memory: Memory, nodes: Any, pairs: Any, entries: Any) -> None:
    """Copy what was checked into the arrays of the memory; outcomes are laid out anew."""
    graph = memory.graph
    graph.nodes[: len(nodes)], graph.pairs[: len(pairs)] = nodes, pairs
    lengths = pairs["length"].astype(np.int64)
    graph.pairs["start"][: len(pairs)] = np.cumsum(lengths) - lengths
    pool = np.zeros(max(len(entries), 1024), ENTRY)
    pool[: len(entries)] = entries
    # rows of a known model, whose total is 1, are never looked up
    hashed = int(lengths[(lengths > SHORT_SCAN) & (pairs["total"] > 1.0)].sum())
    slots = 1024
    while slots < 4 * (hashed + SHORT_SCAN):
        slots *= 2
    memory.graph = graph._replace(entries=pool, slots=free_slots(slots))
    memory.graph.sizes[:] = 0
    memory.graph.sizes[ENTRIES] = len(entries)


def _restore_watch(search: Certified, header: dict[str, Any], arrivals: Any) -> None:
    guard, sampler = search._sampler.guard, search._sampler
    for name in GUARD:
        value, example = header["guard"][name], getattr(guard, name)
        require(type(value) is type(example), "its guard is none")
        setattr(guard, name, value)
    rows = arrivals.reshape(-1, 2)
    known = (rows[:, 0] >= 0) & (rows[:, 0] < search.memory.num_nodes)
    require(bool(known.all()), "a state arrived that is none")
    sampler.arrivals = dict(rows.tolist())


def _read_looks(rows: Any, search: Certified) -> Looks | None:
    if rows is None:
        return None
    found, problem, read = [], search.problem, search.spelling.read
    for row in rows:
        after = None if row["ended"] else read(row["after"])
        action, place, taken = row["action"], row["place"], row["taken"]
        require(
            soundness.whole(action)
            and action < problem.num_actions
            and soundness.whole(place)
            and all(map(soundness.whole, taken))
            and isinstance(row["ended"], bool)
            and isinstance(row["reward"], float | int),
            "an inspection is none",
        )
        profile = None if row["profile"] is None else tuple(row["profile"])
        kept = copied(after) if row["kept"] else None
        state, answer = read(row["state"]), (row["reward"], after, row["ended"])
        found.append(Look(state, action, place, answer, kept, profile, tuple(taken)))
    return tuple(found)


def _read_position(row: Any, parts: dict[str, Any], search: Certified) -> Position:
    at = Position(**{name: row[name] for name in AT})
    at.pairs = np.frombuffer(parts["at_pairs"], np.int64).copy()
    at.counts = np.frombuffer(parts["at_counts"], np.int64).copy()
    soundness.check_position(search, at)
    return at


def _read_batch(row: Any, parts: dict[str, Any], search: Certified) -> Batch:
    pairs = np.frombuffer(parts["batch_pairs"], np.int64).copy()
    counts = np.frombuffer(parts["batch_counts"], np.int64).copy()
    soundness.check_jobs(search, pairs, counts)
    raws, rewards = (
        np.frombuffer(parts["raws"], np.int64),
        np.frombuffer(parts["rewards"], np.float64),
    )
    batch = soundness.batch_of(pairs, counts, **{name: row[name] for name in BATCH})
    require(len(raws) == len(rewards) == batch.drawn, "samples are missing")
    batch.raws[: batch.drawn], batch.rewards[: batch.drawn] = raws, rewards
    soundness.check_samples(search, raws, rewards)
    return batch


def check_size(data: bytes) -> bytes:
    """A snapshot, if a store can keep it."""
    if len(data) >= MOST_BYTES:
        raise InvalidInput(
            f"This memory takes {len(data) / 1e9:.2f} GB, and a store keeps at most "
            f"{MOST_BYTES / 1e9:g} GB of one run; keep fewer states (max_states)."
        )
    return data
