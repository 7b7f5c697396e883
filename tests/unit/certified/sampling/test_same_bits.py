"""Nothing that makes a search faster changes a bit: whatever packs, saves, stops or reads
rows in between, a pair's outcomes are the beginning of its stream (docs/certified.md,
Propositions 8 and 9), counted by hand; several workers have the bits of one; sweeps that
compute what can have changed, and interpreted loops, those of whole and compiled ones.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from benchmarks.scale import slow_oracle
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.bounds import counts
from smoothcruiser.certified.bounds.base import KEEP
from smoothcruiser.certified.graph import MOVED, SAMPLED
from smoothcruiser.certified.sampling import compiled_sampler as certified_sampling
from smoothcruiser.certified.sampling.sampler import first_words
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.snapshots.snapshot import to_bytes
from smoothcruiser.certified.sweeps import memory_kernel as memory
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.jit.random.streams import from_words

SEED = 5


def world(outcomes: int, known: bool) -> sc.MDP:
    """Each pair has that many outcomes; with ``known`` every other pair has its row."""

    def ahead(s: int, a: int, k: int) -> tuple[float, tuple[int]]:
        return k % 5 / 4, ((7 * s + k * k + 3 * a) % 83,)

    def step(state: Any, action: int, rng: Any) -> Any:
        return ahead(state[0], action, int(rng.random() * outcomes))

    def rows(state: Any, action: int) -> Any:
        if (state[0] + action) % 2 or not known:
            return None
        return [(1 / outcomes, *ahead(state[0], action, k)) for k in range(outcomes)]

    more: dict[str, Any] = {"outcomes": rows} if known else {}
    facts: dict[str, Any] = {"discount": 0.9, "operator": sc.Max()}
    return sc.MDP(step, num_actions=2, initial_state=(0,), **facts, **more)


def stop_at_the_third():
    reports = iter(range(2))
    return lambda report: next(reports, None) is not None


@pytest.mark.compiles
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("outcomes", [1, 9, 40, 400])
def test_what_is_kept_of_a_pair_is_the_beginning_of_its_stream(
    outcomes, known, tmp_path, monkeypatch
) -> None:
    packed, pack = [], Memory.repack
    monkeypatch.setattr(
        Memory, "repack", lambda self, *a: (packed.append(1), pack(self, *a))[1]
    )
    problem = world(outcomes, known)
    search = sc.Certified(problem, delta=0.3, seed=SEED)
    search.query(budget=1_500)
    search.query((3,), budget=3_000, progress=stop_at_the_third())
    search.save(tmp_path / "runs.db")
    search = sc.Certified.load(tmp_path / "runs.db", problem)
    search.query((4,), budget=1_500)
    memory, compared = search.memory, 0
    for number, pair in enumerate(memory.graph.pairs[: memory.num_pairs]):
        if pair["cost"] == 0.0:  # a row, or no sample
            continue
        state, rng = (
            memory.states[pair["node"]],
            from_words(first_words(SEED, np.array([number]))[0]),
        )
        wanted: Counter[Any] = Counter()
        for _ in range(int(pair["total"])):
            reward, after = problem.oracle(state, int(pair["action"]), rng)
            wanted[reward, memory.nodes[after]] += 1
        part = slice(pair["start"], pair["start"] + pair["length"])
        kept = memory.graph.entries.at(part).records()
        found = {(e["reward"], e["target"]): e["weight"] for e in kept}
        assert found == wanted
        compared += 1
    assert compared > 20
    assert packed or outcomes == 1


PROMISE = {"delta": 0.1, "method": "certified", "seed": 3}


def bits(estimate: sc.Estimate) -> tuple:
    return estimate.value, estimate.q_values, estimate.interval, estimate.num_calls


@pytest.mark.compiles
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled oracle: rounds cut into parts for two and three threads."""
    monkeypatch.setattr(certified_sampling, "LEAST_SHARED", 10)
    problem = sc.make("garnet:states=12,actions=3", discount=0.8, temperature=0.2)
    one, two, three = (
        sc.plan(problem, epsilon="5%", workers=workers, **PROMISE)
        for workers in (1, 2, 3)
    )
    assert bits(one) == bits(two) == bits(three)


@pytest.mark.compiles
def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain Python oracle on two worker processes; an error arrives with its
    state and action.
    """
    problem = slow_oracle.quick()
    one = sc.plan(problem, epsilon="20%", executor="python", **PROMISE)
    two = sc.plan(problem, epsilon="20%", executor="processes", workers=2, **PROMISE)
    assert bits(one) == bits(two)
    with pytest.raises(
        sc.OracleError, match=r"ZeroDivisionError.*at state 0, action 1"
    ):
        sc.plan(
            slow_oracle.broken(),
            epsilon="20%",
            executor="processes",
            workers=2,
            **PROMISE,
        )


def ring(noise: float, seed: int) -> sc.MDP:
    """Places in a ring, in which news passes from neighbour to neighbour."""
    rng = np.random.default_rng(seed)
    size = 40
    P = np.zeros((size, 2, size))
    for s in range(size):
        for a in range(2):
            P[s, a, (s + 1 + a) % size] += 1.0 - noise
            P[s, a, int(rng.integers(size))] += noise
    return sc.tabular(P, rng.random((size, 2)), discount=0.9, operator=sc.Entropy(0.1))


def known(state: int, action: int) -> list[tuple[float, float, int]]:
    after = (state + 1 + action) % 50
    return [(0.5, float(state == 7), after), (0.5, 0.0, state)]


WORLDS = {
    "noisy": (ring(0.2, 1), {"epsilon": 0.4}),
    "certain": (ring(0.0, 2), {"budget": 20_000}),
    "known": (
        mdp(
            lambda s, a, rng: (0.0, s), discount=0.9, operator=sc.Max(), outcomes=known
        ),
        {"epsilon": 1e-6},
    ),
}


@pytest.mark.compiles
@pytest.mark.parametrize("name", WORLDS)
def test_what_is_left_out_would_not_have_moved(name, monkeypatch):
    """The bits of a search are those of one that computes every node in every sweep."""
    problem, asked = WORLDS[name]
    search = sc.Certified(problem, delta=0.1, seed=3)
    found = search.query(**asked)
    only_changed = Region.sweep

    def whole(self: Region, tune: int) -> float:
        self.memory.graph.nodes["stale"][self.listed_nodes] |= SAMPLED
        return only_changed(self, tune)

    monkeypatch.setattr(Region, "sweep", whole)
    other = sc.Certified(problem, delta=0.1, seed=3)
    again = other.query(**asked)
    assert (found.interval, found.num_calls) == (again.interval, again.num_calls)
    size = search.memory.num_pairs
    for side in ("q_lower", "q_upper"):
        mine, theirs = (m.memory.graph.pairs[side][:size] for m in (search, other))
        assert np.array_equal(mine, theirs)


@pytest.mark.compiles
def test_news_is_passed_on_and_comes_to_rest():
    """At rest nothing is marked as moved. Then what changes one node passes on to those
    that lead to it, sweep by sweep.
    """
    problem, asked = WORLDS["known"]
    search = sc.Certified(problem)
    search.query(**asked)
    region, g = search.region, search.memory.graph
    for _ in range(1_000):
        region.sweep(KEEP)
        if not (g.nodes["stale"] & MOVED).any():
            break
    assert not (g.nodes["stale"] & MOVED).any()
    g.nodes["lower"][:], g.pairs["q_lower"][:] = 0.0, 0.0
    for state in (30, 31):
        g.nodes["upper"][search.memory.nodes[state]] -= 0.02
    before = g.nodes["upper"].copy()
    region.sweep(KEEP)
    assert np.array_equal(g.nodes["upper"], before)  # nobody was told
    g.nodes["stale"][search.memory.nodes[29]] |= SAMPLED
    region.sweep(KEEP)
    states = np.array([-1, *search.memory.states[1:]])
    moved = set(states[(g.nodes["upper"] < before)[: len(states)]])
    assert 29 in moved
    assert not moved & {30, 31, 32}
    for _ in range(2):
        region.sweep(KEEP)
    moved = set(states[(g.nodes["upper"] < before)[: len(states)]])
    assert {27, 28, 29} <= moved


SALT = np.uint64(2**64 - 3)
TWINS = {
    "slots": (memory.hash_slot, memory.interpreted_hash),
    "numbers": (memory.rounding_number, memory.interpreted_number),
    "log gamma": (counts.log_gamma, counts.interpreted_log_gamma),
}


def arguments_of(name, rng):
    pair, n = int(rng.integers(2**31)), float(rng.integers(1, 2**40))
    reward = float(rng.normal() * 10.0 ** rng.integers(-3, 40))
    return {
        "slots": (pair, int(rng.integers(2**31)), reward, 2**12),
        "numbers": (pair, n, SALT),
        "log gamma": (0.5 * float(rng.integers(1, 2**20)),),
    }[name]


@pytest.mark.compiles
@pytest.mark.parametrize("name", TWINS)
def test_interpreted_arithmetic_is_that_of_compiled_code(name):
    function, interpreted = TWINS[name]
    compiled, rng = compile_function(function), np.random.default_rng(3)
    for _ in range(2_000):
        arguments = arguments_of(name, rng)
        assert compiled(*arguments) == interpreted(*arguments)


def step(state, action, rng):
    return 0.5 * rng.random(), int(state + action + rng.integers(3)) % 7


@pytest.mark.compiles
def test_a_search_that_is_compiled_in_the_middle_has_the_same_memory():
    """Continuous rewards fill the hash table, which both forms read and write."""
    problem = mdp(step, discount=0.6, operator=sc.Entropy(0.2))
    kept = []
    for forms in ((False, False), (True, True), (False, True), (True, False)):
        search = sc.Certified(problem, delta=0.1, seed=5)
        for compiled, budget in zip(forms, (1_500, 3_000), strict=True):
            with CERTIFIED.use_form(compiled=compiled):
                search.query(budget=budget)
        assert search.memory.graph.pairs["length"].max() > memory.MANY_OUTCOMES
        kept.append(to_bytes(search))
    assert len(set(kept)) == 1


def test_work_that_is_known_to_be_large_is_compiled_at_once():
    family = KernelFamily(compiling=5.0)
    family.expect(4.0)
    assert family.is_compiled is None
    family.expect(6.0)
    assert family.is_compiled
