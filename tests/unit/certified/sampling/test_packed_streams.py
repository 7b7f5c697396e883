"""Whatever packs, saves, stops or reads rows in between: a pair's outcomes are the
beginning of its stream (docs/certified.md, Propositions 8 and 9), counted by hand.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified.sampling.sampler import first_words
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.jit.random.streams import from_words

pytestmark = pytest.mark.compiles
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


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("outcomes", [1, 9, 40])
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
