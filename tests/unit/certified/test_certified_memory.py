"""The memory of certified search: outcomes are counted exactly while arrays
grow, move and are hashed.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from smoothcruiser.certified.bounds.betting import BETTING
from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.sampling.number_states import advance_streams
from smoothcruiser.certified.sampling.sampler import first_words
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.compiled_loops import make_loops
from smoothcruiser.certified.sweeps.memory_kernel import (
    GRID_CELLS,
    MANY_OUTCOMES,
    rounded_reward,
)
from smoothcruiser.certified.sweeps.ranges import box
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.jit.random.streams import from_words
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.problem import MDP, Game

pytestmark = pytest.mark.compiles


def a_memory(**rest):
    problem = MDP(
        lambda s, a, rng: (0.0, s),
        num_actions=3,
        discount=0.5,
        operator=Entropy(1.0),
        **rest,
    )
    return Memory(problem), make_loops(problem.operator, BETTING)


def record_all(memory, kernels, pairs, counts, targets, rewards):
    done = 0
    while True:
        done = int(
            kernels.record(
                memory.graph,
                pairs,
                counts,
                targets,
                rewards,
                done,
                0.0,
                1.0,
                np.uint64(7),
            )
        )
        if done == len(targets):
            return
        memory.make_room(kernels)


def entries_of(memory, p):
    pair = memory.graph.pairs[p]
    part = slice(pair["start"], pair["start"] + pair["length"])
    return memory.graph.entries.at(part).records()


def test_counts_are_those_of_a_counter():
    """Interleaved batches over pairs with 1 to 3,000 outcomes: every (state,
    reward) has its count, totals are exact.
    """
    memory, kernels = a_memory()
    for state in range(4):
        memory.node_of(state)
    rng = np.random.default_rng(0)
    truth = [Counter() for _ in range(12)]
    for _ in range(6):
        pairs = rng.permutation(12)[:8].astype(np.int64)
        counts = rng.integers(1, 3_000, size=8)
        many = np.array([1, 3, 12, 40, 3_000])[pairs % 5]
        raws = np.concatenate(
            [rng.integers(m, size=c) for m, c in zip(many, counts, strict=True)]
        )
        # on the grid: rounding leaves them alone
        rewards = np.where(raws % 2 == 0, 0.0, 1.0)
        record_all(memory, kernels, pairs, counts, raws, rewards)
        for p, part in zip(
            pairs.tolist(),
            np.split(np.stack([raws, rewards], axis=1), np.cumsum(counts)[:-1]),
            strict=True,
        ):
            truth[p].update((int(raw), float(reward)) for raw, reward in part)
    for p in range(12):
        found = {
            (int(e["target"]), float(e["reward"])): int(e["weight"])
            for e in entries_of(memory, p)
        }
        assert found == dict(truth[p])
        assert memory.graph.pairs[p]["total"] == sum(truth[p].values())
    assert memory.num_entries == sum(len(t) for t in truth)


def test_rewards_of_many_values_are_rounded_with_their_mean_kept():
    """200,000 continuous rewards: few entries, all in range, and the mean
    within five standard errors.
    """
    memory, kernels = a_memory()
    memory.node_of(0)
    n = 200_000
    rewards = np.random.default_rng(3).random(n) ** 2
    record_all(
        memory,
        kernels,
        np.array([0]),
        np.array([n]),
        np.zeros(n, dtype=np.int64),
        rewards,
    )
    entries = entries_of(memory, 0)
    assert len(entries) <= MANY_OUTCOMES + GRID_CELLS + 1
    assert entries["weight"].sum() == n
    assert entries["reward"].min() >= 0.0
    assert entries["reward"].max() <= 1.0
    kept = float((entries["weight"] * entries["reward"]).sum() / n)
    assert abs(kept - rewards.mean()) <= 5 * (0.5 / GRID_CELLS) / np.sqrt(n)


def test_rounding_is_unbiased_in_closed_form():
    """With weight x - cell on the upper neighbour: the mean over a fine grid of
    u is the reward.
    """
    u = (np.arange(4_000) + 0.5) / 4_000
    for reward in (0.0, 0.013, 0.5, 0.987, 1.0):
        mean = np.mean([rounded_reward(reward, 0.0, 1.0, x) for x in u])
        assert mean == pytest.approx(reward, abs=1e-5)


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
    assert np.array_equal(memory.states.book.numbers[first[inside]], numbers[inside])
    assert int(numbers[0]) + 1 not in memory.nodes
    assert "a" not in memory.nodes
    assert memory.states.nbytes <= 30 * len(numbers)


def test_a_memory_of_numbers_refuses_other_states():
    """One sentence, instead of a number that stands for something else."""
    memory, _ = a_memory()
    memory.hold_numbers()
    for state in (2**63, "a", 1.5):
        with pytest.raises(InvalidInput, match="whole numbers of 64 bits"):
            memory.node_of(state)


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


def test_boxes_depend_on_the_steps_left():
    """A state is one node, whatever is left; with one step left only its reward counts."""
    memory, _ = a_memory(horizon=3)
    assert memory.node_of("s") == memory.node_of("s") != END
    facts = memory.problem.facts
    assert box(facts, 1, 1)[2:] == (0.0, 1.0)
    assert box(facts, 1, 3)[3] - box(facts, 1, 3)[2] == pytest.approx(1.75)


def test_states_without_a_hash_are_refused():
    """A list, or a tuple that holds one, cannot be recognized; the message says
    what to use.
    """
    memory, _ = a_memory()
    for state in ([1, 2], (1, [2])):
        with pytest.raises(InvalidInput, match="give key="):
            memory.node_of(state)


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
    """Objects without ==, alone or in a tuple, and NaN; with key= the first are
    fine.
    """
    memory, _ = a_memory()
    for state in (Bare(1), ("at", Bare(1)), math.nan):
        with pytest.raises(InvalidInput, match="give key="):
            memory.node_of(state)
    memory, _ = a_memory(key=lambda s: s.place)
    assert (
        memory.node_of(Bare(1)) == memory.node_of(Bare(1)) != memory.node_of(Bare(2))
    )


def test_looks_go_on_after_the_first_state():
    """A tuple that holds an object is met after tuples that hold none: found
    when the node's number is a power of two.
    """
    memory, _ = a_memory()
    memory.node_of((0,))
    memory.node_of((1,))
    memory.node_of((Bare(2),))  # node 3: not looked at
    with pytest.raises(InvalidInput, match="give key="):
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
        board = {
            "player": lambda s: s.player,
            "legal": lambda s, a: a in s.legal,
            "terminal": lambda s: s.over,
        }
        problem = Game(
            lambda s, a, rng: (0.0, s),
            num_actions=3,
            discount=0.5,
            operator=Entropy(1.0),
            key=key,
            horizon=horizon,
            **board,
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
            node = memory.node_of(known)
            assert (
                memory.node_of(Board("a", known.player, known.legal, known.over))
                == node
            )
            with pytest.raises(OracleError, match="same key"):
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
    with pytest.raises(OracleError, match="same key"):
        memory.target_nodes(np.array([27]))


def test_streams_of_pairs_are_positions():
    """The words of pair k do not depend on how many pairs there are, and differ
    from pair to pair and seed to seed.
    """
    words = first_words(1, np.arange(1_000))
    assert np.array_equal(words[[3, 700]], first_words(1, np.array([3, 700])))
    assert len({tuple(row) for row in words.tolist()}) == 1_000
    assert not np.any(words == first_words(2, np.arange(1_000)))


def test_a_stream_further_on_is_that_of_its_numbers():
    """Matrices give the words that taking the numbers one by one does, in one jump or
    in two.
    """
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
