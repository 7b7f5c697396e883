"""A search that is saved and taken up: the same bits, or one sentence; states as plain
data are read back to the bit, or refused.
"""

import enum
import json
import math
import random
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from stored_worlds import bits, tuples, worlds
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified import query_progress, sample_batches, search_loop
from smoothcruiser.certified.snapshots.snapshot import (
    MAGIC,
    read_header,
    restore,
    to_bytes,
)
from smoothcruiser.states.state_json import ExactJson

WORLDS = worlds()


@pytest.fixture
def slices(monkeypatch):
    """Every slice is saved; the number of samples in one is given."""
    monkeypatch.setattr(query_progress, "LEAST_SAVE_SECONDS", 0.0)
    monkeypatch.setattr(query_progress, "RARELY", 0)

    def of(size):
        class Steady(sample_batches.SlicePace):
            def samples_within(self, seconds, more=0.0):
                """Ignore the clock."""
                return size

        monkeypatch.setattr(search_loop, "SlicePace", Steady)

    return of


def saved(name):
    problem, asked = WORLDS[name]
    found = []
    memory = sc.Certified(problem, delta=0.1, seed=5)
    memory.keep(lambda data, calls: found.append(data))
    return found, memory.query(**asked)


def is_early(data):
    """Whether a pair without a row was met and none was looked at by calls."""
    header = read_header(data)
    return header["looked"] is None and bool(header["_drawn_pairs"])


def taken_up(name, data):
    memory = sc.Certified(WORLDS[name][0], delta=0.1, seed=5)
    restore(memory, data)
    return memory


@pytest.mark.compiles
@pytest.mark.parametrize("name", WORLDS)
def test_a_search_taken_up_at_any_slice_ends_with_the_same_bits(name, slices):
    """Slices of 61 samples cut jobs, batches and rounds: the answer does not see
    them, a snapshot read and written again is the same, and what follows it too.
    """
    problem, asked = WORLDS[name]
    whole = sc.Certified(problem, delta=0.1, seed=5).query(**asked)
    slices(61)
    snapshots, sliced = saved(name)
    assert bits(sliced) == bits(whole)
    assert len(snapshots) > 10
    number = (
        2 if "compiled" in name or name == "horizon" else 6
    )  # each compiles the step anew
    places = np.linspace(0, len(snapshots) - 1, 2 + number).astype(int)[1:-1].tolist()
    if "partly" in name:  # between the first pair without a row and its first sample
        early = [i for i, data in enumerate(snapshots) if is_early(data)]
        assert early
        places += early[:2]
    for i in places:
        memory = taken_up(name, snapshots[i])
        assert to_bytes(memory) == snapshots[i]
        found = memory.go_on(budget=asked.get("budget"))
        assert bits(found) == bits(whole)


@pytest.mark.compiles
def test_a_query_on_a_memory_that_was_killed_enters_what_was_sampled(slices):
    """A new query on a search saved inside a batch uses the batch's samples."""
    slices(61)
    snapshots, _ = saved("tuples")
    inside = [data for data in snapshots if (read_header(data)["batch"] or {})]
    memory = taken_up("tuples", inside[0])
    waiting = read_header(inside[0])["batch"]["drawn"]
    before = memory.memory.graph.pairs["total"].sum()
    memory.query(budget=1)
    assert memory.memory.graph.pairs["total"].sum() >= before + waiting


# --- what is refused ----------------------------------------------------------


class Opaque:
    """A state of which nothing can be written down."""

    def __init__(self, x):
        self.x = x


@pytest.mark.compiles
def test_states_that_cannot_be_kept_are_refused_before_the_first_call(tmp_path):
    """One sentence, no call of the step."""
    calls = []

    def step(state, action, rng):
        calls.append(state)
        return 0.0, state

    problem = mdp(
        step, operator=sc.Max(), initial_state=Opaque(1), key=lambda state: state.x
    )
    with pytest.raises(sc.InvalidInput, match="cannot keep states of type Opaque"):
        sc.plan(
            problem,
            method="certified",
            epsilon=0.5,
            delta=0.1,
            store=tmp_path / "store.db",
        )
    assert calls == []


@pytest.mark.compiles
def test_a_step_that_writes_into_its_state_is_not_saved(slices):
    """A job that is cut is looked at before it is saved: what was written into is
    refused, as it would have been at the job's end.
    """
    slices(3)

    def step(state, action, rng):
        state[1] += len(written) > 60
        written.append(0)
        return rng.random(), [int(3 * rng.random()), 0]

    written = []
    problem = mdp(
        step, operator=sc.Max(), initial_state=[0, 0], key=lambda state: state[0]
    )
    memory = sc.Certified(problem, delta=0.1)
    memory.keep(lambda data, calls: None)
    with pytest.raises(sc.OracleError, match="changed the state"):
        memory.query(epsilon=0.01, budget=5_000)


def changed(data, **fields):
    header = read_header(data)
    start = header.pop("start")
    top = json.dumps(header | fields).encode()
    return MAGIC + len(top).to_bytes(8, "little") + top + data[start:]


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"delta": 0.2}, "another delta"),
        ({"seed": 6}, "another seed"),
        ({"num_calls": 3}, "more samples than calls"),
        ({"_drawn_pairs": 1}, "shares of delta"),
        ({"resolved": True}, "of another kind"),
        ({"guard": {}}, "KeyError"),
        ({"sections": [["nodes", 8]]}, "ends elsewhere"),
        ({"at": None, "batch": {"drawn": 1}}, ""),
    ],
)
def test_an_edited_header_is_refused(fields, why):
    """Numbers that no search has, under whatever seal."""
    problem, asked = WORLDS["tabular"]
    memory = sc.Certified(problem, delta=0.1, seed=5)
    memory.query(**asked)
    with pytest.raises(sc.InvalidInput, match=f"cannot be used .*{why}"):
        taken_up("tabular", changed(to_bytes(memory), **fields))


def put(array, field, place, value):
    """Write one number into an array of the graph."""

    def edit(memory):
        graph = memory.memory.graph
        first = graph.pairs["start"][0] if array == "entries" else 0
        columns = getattr(graph, array)
        column = getattr(columns, field) if array == "entries" else columns[field]
        column[first + place] = value

    return edit


EDITS = {
    "a target that is no state": put("entries", "target", 0, 10**6),
    "a negative target": put("entries", "target", 0, -1),
    "half a sample": put("entries", "weight", 0, 0.5),
    "a reward out of range": put("entries", "reward", 0, 7.0),
    "more samples than outcomes": put("pairs", "total", 0, 10**9),
    "no share of delta": put("pairs", "cost", 0, 0.0),
    "a cheap share of delta": put("pairs", "cost", 0, 1e-3),
    "a pole that is none": put("pairs", "pole_up", 0, 99),
    "a negative pole": put("pairs", "pole_down", 0, -1),
    "a bound that is open": put("pairs", "q_upper", 0, np.nan),
    "outcomes of another pair": put("pairs", "length", 0, 2),
    "a mark that is none": put("nodes", "stale", 1, 64),
    "another action": put("pairs", "action", 0, 1),
    "bounds that cross": put("nodes", "lower", 1, 1e9),
    "bounds wider than the problem's": put("nodes", "upper", 1, 1e9),
    "a value of the end": put("nodes", "upper", 0, 1.0),
    "a mass without limit": put("nodes", "mass", 1, np.inf),
    "pairs of another state": put("nodes", "first", 1, 5),
    "a list with another state": lambda m: m.region.order.__setitem__(0, 2),
    "a state that is none": lambda m: numbers_of(m).__setitem__(1, -1),
    "a state out of the tables": lambda m: numbers_of(m).__setitem__(1, 10**12),
    "one state twice": lambda m: numbers_of(m).__setitem__(1, numbers_of(m)[0]),
}


def numbers_of(memory):
    """The numbers of the states, as they are kept."""
    return memory.memory.states.numbers


@pytest.mark.compiles
def test_a_stream_of_zeros_is_refused():
    """It would give the same number for ever."""
    problem, asked = WORLDS["compiled"]
    memory = sc.Certified(problem, delta=0.1, seed=5)
    memory.query(**asked)
    memory.loop.sampler.words[0] = 0
    with pytest.raises(sc.InvalidInput, match="a stream is none"):
        taken_up("compiled", to_bytes(memory))


@pytest.mark.compiles
@pytest.mark.parametrize("name", EDITS)
def test_an_edited_memory_is_refused(name):
    """Compiled loops trust what they read, so it is checked before: one sentence."""
    problem, asked = WORLDS["tabular"]
    memory = sc.Certified(problem, delta=0.1, seed=5)
    memory.query(**asked)
    EDITS[name](memory)
    with pytest.raises(sc.InvalidInput):
        taken_up("tabular", to_bytes(memory))


@pytest.mark.compiles
@pytest.mark.parametrize("name", ["tabular", "tuples", "ending"])
def test_random_damage_is_refused_or_leaves_a_search_that_runs(name, slices):
    """60 snapshots with flipped bits or missing bytes, under a seal that fits: no
    exception but ours, and what is accepted can be searched.
    """
    slices(200)
    rng = random.Random(name)
    snapshots, _ = saved(name)
    refused = 0
    for _ in range(20):
        data = bytearray(rng.choice(snapshots))
        for _ in range(rng.choice((1, 2, 8))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            memory = taken_up(name, bytes(data))
            memory.go_on(budget=memory.num_calls + 500)
        except sc.SmoothcruiserError:
            refused += 1
    assert refused >= 10


@pytest.mark.compiles
def test_a_changed_problem_does_not_fit_a_snapshot():
    """Facts that follow from the problem are compared, not believed."""
    problem, asked = WORLDS["tuples"]
    memory = sc.Certified(problem, delta=0.1, seed=5)
    memory.query(**asked)
    other = mdp(tuples, operator=sc.Entropy(0.2), discount=0.6, initial_state=(0, 0))
    again = sc.Certified(other, delta=0.1, seed=5)
    with pytest.raises(sc.InvalidInput, match="not those of the problem"):
        restore(again, to_bytes(memory))


class Late(NamedTuple):
    """A state of a kind that the initial state does not show."""

    number: int


@pytest.mark.compiles
def test_a_state_that_no_store_keeps_costs_no_answer(slices, tmp_path):
    """A search that meets one late goes on, and says that not all is kept."""

    def step(state, action, rng):
        number = int(rng.integers(40))
        return number / 40.0, Late(number) if number > 35 else number

    problem = mdp(step)
    slices(61)
    asked = {"method": "certified", "delta": 0.1, "budget": 2000, "seed": 5}
    alone = sc.plan(problem, **asked)
    kept = sc.plan(problem, store=tmp_path / "runs.db", **asked)
    again = sc.resume(1, tmp_path / "runs.db", problem)
    for found in (kept, again):
        assert (found.value, found.certificate) == (alone.value, alone.certificate)
        assert "Not all that was sampled is kept" in found.notes[-1]
        assert "go on with" not in " ".join(found.notes)


@pytest.mark.compiles
def test_what_a_loaded_memory_cannot_compare_is_named(tmp_path):
    """The order of sets in states, and what no fingerprint sees."""

    def step(state, action, rng):
        return 0.5 * (hash(1) == 1), state ^ {int(rng.integers(4))}

    problem = mdp(step, initial_state=frozenset([8, 0]))
    memory = sc.Certified(problem, delta=0.1, seed=5)
    memory.query(budget=200)
    memory.save(tmp_path / "runs.db")
    notes = " ".join(
        sc.Certified.load(tmp_path / "runs.db", problem).query(budget=9).notes
    )
    assert "States of this memory hold sets" in notes
    assert "Resumed without being able to compare hash()" in notes


@pytest.mark.compiles
@pytest.mark.parametrize("value", [10**400, math.inf, math.nan, -1])
def test_a_budget_beyond_all_numbers_is_refused(value):
    with pytest.raises(sc.InvalidInput, match="budget must be"):
        sc.Certified(WORLDS[next(iter(WORLDS))][0], delta=0.1).query(budget=value)


class Light(enum.Enum):
    RED = 1
    GREEN = 2


class Cell(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Crossing:
    cell: Cell
    light: Light
    cars: frozenset[int]


START = Crossing(Cell(1, 2.0), Light.RED, frozenset({1, 2}))
CROSSING = mdp(
    lambda state, action, rng: (0.0, state), operator=sc.Max(), initial_state=START
)
NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]


def read_again(state):
    exact_json = ExactJson(CROSSING)
    return exact_json.read_state(json.loads(json.dumps(exact_json.write_state(state))))


@pytest.mark.parametrize(
    "state",
    [
        0,
        -(2**63),
        2**5000,
        True,
        None,
        "a\ud800\0",
        b"\x00\xff",
        -0.0,
        5e-324,
        math.inf,
        1 - 2j,
        (1, True, 1.0),
        ((), ([], {"a": (1,), 2: {3}}), frozenset({(1, 2)})),
        np.int8(-3),
        np.float32(0.1),
        np.str_("x"),
        np.bool_(True),
        Cell(3, -0.0),
        Crossing(Cell(0, 0.5), Light.GREEN, frozenset()),
    ],
    ids=lambda state: f"{type(state).__name__} {state!r:.20}",
)
def test_a_state_comes_back_with_its_types(state):
    """Equal, of the same type, and printed alike down to the sign of a zero."""
    found = read_again(state)
    assert type(found) is type(state)
    assert found == state
    assert repr(found) == repr(state)


def test_the_bits_of_nan_come_back():
    """A payload is part of a state."""
    assert struct.pack("<d", read_again(NAN)) == struct.pack("<d", NAN)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back_with_type_shape_order_and_lock(order):
    """Sums over an array depend on its order, so that is kept too."""
    state = np.array([[1.5, np.nan, -0.0], [4.0, 5.0, 6.0]], order=order)
    state.flags.writeable = False
    found = read_again(state)
    assert found.tobytes() == state.tobytes()
    assert found.shape == (2, 3)
    assert found.dtype == state.dtype
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE"):
        assert found.flags[flag] == state.flags[flag]


class Stranger(NamedTuple):
    x: int


@pytest.mark.parametrize(
    "state",
    [object(), (1, [lambda: 0]), Stranger(1), np.array([1, None]), np.void(b"ab")],
    ids=lambda state: type(state).__name__,
)
def test_what_cannot_come_back_is_refused(state):
    """Objects, functions, classes that the problem's own state does not have."""
    with pytest.raises(sc.InvalidInput, match="The store cannot keep"):
        ExactJson(CROSSING).write_state(state)


def test_a_ring_is_refused():
    """It has no end."""
    ring = []
    ring.append(ring)
    with pytest.raises(sc.InvalidInput, match="The store cannot keep"):
        ExactJson(CROSSING).write_state(ring)


@pytest.mark.parametrize(
    "data",
    [
        {"n": ["Stranger", 1]},
        {"n": ["Cell", 1]},
        {"e": ["Light", "BLUE"]},
        {"n": ["Light", 1]},
        {"a": ["|O", [1], "C", False, "AAAAAAAAAAA="]},
        {"q": 1},
        {"t": 1, "s": 2},
        {"p": [1]},
    ],
    ids=json.dumps,
)
def test_data_that_nobody_wrote_is_no_state(data):
    """Names that the problem does not have are not looked for anywhere else."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        ExactJson(CROSSING).read_state(data)
