"""The memory of certified search: outcomes are counted exactly while arrays grow, move
and are hashed; one that meets more states than it may keep ends with intervals that hold.
"""

import math

import numba
import numpy as np
import pytest
from worlds import COMMON, mdp

import smoothcruiser as sc
from smoothcruiser.certified import query_limits as room
from smoothcruiser.certified.bounds.betting import BETTING
from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.query_limits import MemoryLimit, available_bytes, size_of
from smoothcruiser.certified.sampling.sampler import first_words
from smoothcruiser.certified.sampling.step_loops import advance_streams
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.compiled_loops import make_loops
from smoothcruiser.certified.sweeps.memory_kernel import GRID_CELLS, MANY_OUTCOMES
from smoothcruiser.jit.random.streams import from_words

pytestmark = pytest.mark.compiles


def a_memory(**rest):
    problem = mdp(lambda s, a, rng: (0.0, s), num_actions=3, **rest)
    return Memory(problem), make_loops(problem.operator, BETTING)


def record_all(memory, kernels, pairs, counts, targets, rewards):
    done, batch = 0, (pairs, counts, targets, rewards)
    while True:
        done = int(kernels.record(memory.graph, *batch, done, 0.0, 1.0, np.uint64(7)))
        if done == len(targets):
            return
        memory.make_room(kernels)


def entries_of(memory, p):
    pair = memory.graph.pairs[p]
    part = slice(pair["start"], pair["start"] + pair["length"])
    return memory.graph.entries.at(part).records()


def test_rewards_of_many_values_are_rounded_with_their_mean_kept():
    """200,000 continuous rewards: few entries, all in range, and the mean
    within five standard errors.
    """
    memory, kernels = a_memory()
    memory.node_of(0)
    n = 200_000
    rewards = np.random.default_rng(3).random(n) ** 2
    batch = np.array([0]), np.array([n]), np.zeros(n, dtype=np.int64), rewards
    record_all(memory, kernels, *batch)
    entries = entries_of(memory, 0)
    assert len(entries) <= MANY_OUTCOMES + GRID_CELLS + 1
    assert entries["weight"].sum() == n
    assert entries["reward"].min() >= 0.0
    assert entries["reward"].max() <= 1.0
    kept = float((entries["weight"] * entries["reward"]).sum() / n)
    assert abs(kept - rewards.mean()) <= 5 * (0.5 / GRID_CELLS) / np.sqrt(n)


def test_numbers_are_resolved_to_nodes_and_terminal_states_to_the_end():
    """Bare next states of a compiled oracle become nodes in the order of their
    numbers, each once; terminal ones, and END_RAW, become the end.
    """
    memory, _ = a_memory(terminal=lambda s: s == 9)
    memory.hold_numbers()
    memory.node_of(5)
    found = memory.target_nodes(np.array([8, 9, 7, 5, 8, END_RAW])).tolist()
    assert found == [3, END, 2, 1, 3, END]
    assert memory.states[:] == [None, 5, 7, 8]
    assert dict(memory.nodes.items()) == {5: 1, 7: 2, 8: 3, 9: END}
    assert (memory.num_nodes, memory.num_kept) == (4, 4)
    for state in (2**63, "a", 1.5):
        with pytest.raises(sc.InvalidInput, match="whole numbers of 64 bits"):
            memory.node_of(state)


def test_many_numbers_are_found_again():
    """50,000 numbers of 64 bits in random order, met in blocks: every one has the
    node of the first time, unknown ones have none, and the arrays take what is said.
    """
    memory, _ = a_memory(terminal=lambda s: s % 7 == 0)
    memory.hold_numbers()
    rng = np.random.default_rng(1)
    numbers = rng.integers(-(2**63) + 1, 2**63 - 1, size=50_000)
    first = np.concatenate(
        [memory.target_nodes(part) for part in np.split(numbers, 50)]
    )
    assert np.array_equal(memory.target_nodes(numbers), first)
    inside = first != END
    assert np.array_equal(numbers[~inside] % 7 == 0, np.ones((~inside).sum(), bool))
    assert np.array_equal(memory.states.numbers[first[inside] - 1], numbers[inside])
    assert int(numbers[0]) + 1 not in memory.nodes
    assert "a" not in memory.nodes
    assert memory.states.nbytes <= 30 * len(numbers)


def test_blocks_are_used_again():
    """Pairs whose outcomes come one by one leave blocks behind: others take them, or
    they are packed. The pool holds little more than what was seen.
    """
    memory, kernels = a_memory()
    for state in range(400):
        memory.node_of(state)
    pairs = np.arange(memory.num_pairs)
    for outcome in range(30):
        targets = np.full(len(pairs), outcome)
        one = np.ones(len(pairs), dtype=np.int64)
        record_all(memory, kernels, pairs, one, targets, np.zeros(len(pairs)))
    for p in (0, 77, len(pairs) - 1):
        entries = entries_of(memory, p)
        assert entries["target"].tolist() == list(range(30))
        assert np.all(entries["weight"] == 1.0)
    assert memory.graph.entries.size <= 2 * memory.num_entries


class Bare:
    """A state without equality: every copy is another one."""

    def __init__(self, place):
        self.place = place


class Board:
    """A state whose equality leaves out who moves and what is allowed."""

    def __init__(self, name, player=1, legal=(0, 1, 2), over=False):
        self.name, self.player, self.legal, self.over = name, player, legal, over

    def __eq__(self, other):
        return isinstance(other, Board) and self.name == other.name

    def __hash__(self):
        return hash(self.name)


def test_states_that_never_come_back_are_refused():
    """NaN at once; a tuple that holds an object, met after tuples that hold none, when
    the node's number is a power of two.
    """
    memory, _ = a_memory()
    with pytest.raises(sc.InvalidInput, match="give key="):
        memory.node_of(math.nan)
    memory.node_of((0,))
    memory.node_of((1,))
    memory.node_of((Bare(2),))  # node 3: not looked at
    with pytest.raises(sc.InvalidInput, match="give key="):
        memory.node_of((Bare(3),))


def test_arrays_are_told_apart_by_their_numbers():
    """Equal arrays are one node, others are not."""
    memory, _ = a_memory()
    nodes = [memory.node_of(np.array(x)) for x in ([1, 2], [1, 2], [2, 1], [[1, 2]])]
    assert nodes == [1, 1, 2, 3]


@pytest.mark.parametrize("horizon", [None, 3])
def test_equal_keys_must_mean_equal_movers_moves_and_ends(horizon):
    """A key that comes back with another mover, other legal actions or an end
    (or without one) is refused.
    """

    def fresh(key):
        problem = sc.Game(
            lambda s, a, rng: (0.0, s),
            player=lambda s: s.player,
            legal=lambda s, a: a in s.legal,
            terminal=lambda s: s.over,
            **COMMON | {"num_actions": 3, "key": key, "horizon": horizon},
        )
        return Memory(problem)

    first, over = Board("a"), Board("a", over=True)
    for key in (None, lambda s: s.name):
        for known, other in (
            (first, Board("a", player=2)),
            (first, Board("a", legal=(0, 2))),
            (first, over),
            (over, first),
        ):
            memory = fresh(key)
            copy = Board("a", known.player, known.legal, known.over)
            assert memory.node_of(known) == memory.node_of(copy)
            with pytest.raises(sc.OracleError, match="same key"):
                memory.node_of(other)


def test_whole_numbers_with_a_key_share_their_nodes():
    """Bare numbers of a compiled oracle go by key= too: 7 and 17 are one node,
    and 27, which is over, contradicts them.
    """
    memory, _ = a_memory(key=lambda s: s % 10, terminal=lambda s: s == 27)
    memory.hold_numbers()
    memory.node_of(5)
    seven, seventeen, eight = memory.target_nodes(np.array([7, 17, 8])).tolist()
    assert seven == seventeen != eight
    assert memory.target_nodes(np.array([17])).tolist() == [seven]
    assert memory.num_kept == 3
    with pytest.raises(sc.OracleError, match="same key"):
        memory.target_nodes(np.array([27]))


def test_a_stream_further_on_is_that_of_its_numbers():
    """Matrices give the words that taking the numbers one by one does, in one jump or
    in two; streams of pairs and of seeds differ.
    """
    words = first_words(1, np.arange(1_000))
    assert len({tuple(row) for row in words.tolist()}) == 1_000
    assert not np.any(words == first_words(2, np.arange(1_000)))
    counts = np.array([0, 1, 31, 32, 1_000, 70_001])
    jumped = first_words(3, np.arange(6))
    advance_streams(jumped, counts)
    for pair, count in enumerate(counts.tolist()):
        rng = from_words(first_words(3, np.array([pair]))[0])
        for _ in range(count):
            rng.raw()
        assert np.array_equal(rng.words, jumped[pair])
    far, near = first_words(3, np.arange(2)), first_words(3, np.arange(2))
    advance_streams(far, np.array([2**52 + 12_345, 10**15]))
    advance_streams(near, np.array([12_345, 10**15 - 77]))
    advance_streams(near, np.array([2**52, 77]))
    assert np.array_equal(far, near)


def walk(state, action, rng):
    """Up or down from 0 to 60, with a reward for being high."""
    up = rng.random() < (0.4 if action == 0 else 0.7)
    after = min(60, state + 1) if up else max(0, state - 1)
    return after / 60.0, after


def problem(step, **rest):
    return sc.MDP(
        step,
        num_actions=2,
        discount=0.9,
        operator=sc.Entropy(0.1),
        initial_state=20,
        **rest,
    )


def law(state, action):
    up = 0.4 if action == 0 else 0.7
    high, low = min(60, state + 1), max(0, state - 1)
    return [(up, high / 60.0, high), (1.0 - up, low / 60.0, low)]


TRUTH = sc.plan(problem(walk, outcomes=law), method="exact")
STEPS = {"python": walk, "compiled": numba.njit(walk)}


@pytest.mark.parametrize(
    ("kind", "most"),
    [("python", 1), ("python", 5), ("python", 25), ("compiled", 2), ("compiled", 12)],
)
def test_intervals_hold_where_states_had_no_room(kind, most):
    """The law: max_states is never exceeded, the note says so, and the exact value
    and action values lie within the intervals, for several seeds.
    """
    for seed in range(3 if kind == "python" else 1):
        memory = sc.Certified(
            problem(STEPS[kind]), delta=0.01, seed=seed, max_states=most
        )
        found = memory.query(epsilon=0.05, budget=200_000)
        assert memory.memory.num_kept <= most
        assert memory.reason == "max_states"
        assert "max_states" in " ".join(found.notes)
        assert found.interval[0] <= TRUTH.value <= found.interval[1]
        for (low, high), q in zip(
            found.certificate.q_intervals, TRUTH.q_values, strict=True
        ):
            assert low <= q <= high


@pytest.mark.parametrize("kind", STEPS)
def test_samples_that_found_no_room_are_used_once_there_is_some(kind, tmp_path):
    """A run that ended at max_states goes on with more of them, from the calls that
    it had, and reaches its epsilon.
    """
    asked = {"epsilon": 0.3, "delta": 0.01, "seed": 1, "store": tmp_path / "store.db"}
    ready = problem(STEPS[kind])
    short = sc.plan(ready, method="certified", max_states=12, **asked)
    assert short.epsilon > 0.3
    whole = sc.resume(short.run, asked["store"], ready, max_states=100)
    assert whole.epsilon == 0.3
    assert whole.num_calls > short.num_calls
    assert whole.interval[0] <= TRUTH.value <= whole.interval[1]


@pytest.mark.parametrize("kind", STEPS)
def test_a_limit_that_is_not_met_changes_no_bit(kind):
    """With room for exactly the states it meets, the answer is that without limit."""
    memory = sc.Certified(problem(STEPS[kind]), delta=0.01)
    free = memory.query(epsilon=0.3)
    bound = sc.Certified(
        problem(STEPS[kind]), delta=0.01, max_states=memory.memory.num_kept
    )
    found = bound.query(epsilon=0.3)
    for part in ("interval", "q_values", "num_calls", "notes"):
        assert getattr(found, part) == getattr(free, part)


@pytest.mark.parametrize("kind", STEPS)
def test_a_full_memory_answers_further_queries_from_what_it_has(kind):
    """Queries after the limit neither sample nor fail; an unknown state is refused."""
    memory = sc.Certified(problem(STEPS[kind]), delta=0.01, max_states=9)
    first = memory.query(epsilon=0.05)
    again = memory.query(epsilon=0.05)
    assert again.interval[0] >= first.interval[0]
    assert again.interval[1] <= first.interval[1]
    with pytest.raises(sc.InvalidInput, match="no room in this memory"):
        memory.query(60, epsilon=0.05)


@pytest.mark.parametrize("kind", STEPS)
def test_the_memory_at_hand_ends_a_search_too(kind, monkeypatch):
    """With few bytes available the search ends with the interval it has; its arrays
    stay below the share.
    """
    monkeypatch.setattr(room, "available_bytes", lambda: 115_000)
    memory = sc.Certified(problem(STEPS[kind]), delta=0.01)
    found = memory.query(epsilon=0.001, budget=10**5)
    assert memory.memory.num_bytes <= 57_500
    assert memory.reason == "memory"
    assert found.interval[0] <= TRUTH.value <= found.interval[1]


def test_many_outcomes_end_a_search_where_entries_have_no_room(monkeypatch):
    """Few states and many outcomes: entries are what does not fit."""

    @numba.njit
    def dense(state, action, rng):
        return 0.0, int(400 * rng.random())

    monkeypatch.setattr(room, "available_bytes", lambda: 1_000_000)
    memory = sc.Certified(problem(dense), delta=0.01)
    found = memory.query(epsilon=0.001, budget=200_000)
    assert memory.reason == "memory"
    assert memory.memory.num_bytes <= 500_000
    truth = math.log(2.0)  # ten steps' worth of 0.1 log(2)
    assert found.interval[0] - 1e-12 <= truth <= found.interval[1]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "many"])
def test_max_states_is_a_number_of_states(wrong):
    """Anything else is refused, in a plan and in a Certified."""
    with pytest.raises(sc.InvalidInput, match="max_states must be a whole number"):
        sc.Certified(problem(walk), delta=0.1, max_states=wrong)
    with pytest.raises(sc.InvalidInput, match="max_states must be a whole number"):
        sc.plan(
            problem(walk), method="certified", epsilon=1, delta=0.1, max_states=wrong
        )


def test_available_is_the_least_that_anyone_leaves(tmp_path, monkeypatch):
    """The system's free memory, and what a control group and its parents leave."""
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 100 kB\nMemAvailable:    50 kB\n")
    monkeypatch.setattr(room, "MEMINFO", info)
    own = tmp_path / "cgroup"
    own.write_text("0::/a/b\n")
    monkeypatch.setattr(room, "OWN_GROUP", own)
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    assert available_bytes() == 50 * 1024
    group = tmp_path / "a"
    (group / "b").mkdir(parents=True)
    (group / "memory.max").write_text("40000\n")
    (group / "memory.current").write_text("30000\n")
    (group / "memory.stat").write_text("anon 9000\ninactive_file 5000\n")
    (group / "b" / "memory.max").write_text("max\n")
    assert available_bytes() == 15_000
    assert MemoryLimit.at_hand(None).max_bytes == 7_500
    assert MemoryLimit.at_hand(3) == MemoryLimit(3, 13_500)


def test_the_size_of_a_state_counts_its_parts():
    """Tuples, dicts and fields; a ring ends."""
    ring = [1]
    ring.append(ring)
    assert size_of((1, (2, 3))) > size_of((1, 2))
    assert size_of({"a": [1, 2]}) > size_of({"a": 1})
    assert size_of(ring) > 0
