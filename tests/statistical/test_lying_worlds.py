"""No world that lies gets a certificate without a word, and no true world gets
a false one.

The law (``lying_worlds.law``): ``plan`` refuses with a sentence that names the
fault, or its intervals hold the exact value; where a lie cannot be seen in
principle, the certificate names the assumption. Seeds are fixed. With delta =
1e-4 a run, the runs below would meet an honest exclusion with probability below
0.05 if every bound were exact; the bounds are conservative.

The long tier, a page: ``benchmarks/coverage/lying_worlds.py``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lying_worlds import WORLDS, Truth, attempt, entropy, solve

SEEDS = (0, 1)
KINDS = {"mutation", "memory", "clock", "randomness", "late surprise", "honest"}
KINDS |= {"equal but different", "different but equal", "false declaration"}
PAIRS = [(world, ask) for world in WORLDS for ask in world.asks]
CASES = [pytest.param(w, a, id=f"{w.kind}: {w.name}: {a.label}") for w, a in PAIRS]


@pytest.mark.parametrize("world, ask", CASES)
def test_a_lie_is_refused_named_or_harmless(world, ask):
    for seed in SEEDS if ask.executor is None else SEEDS[:1]:
        verdict = attempt(world, ask, seed)
        told = f"{verdict.ending}, not {world.ends}: {verdict.told} ({verdict.where})"
        assert verdict.ending in world.ends, told


def test_the_gallery_is_whole():
    assert len({(world.kind, world.name) for world in WORLDS}) == len(WORLDS)
    assert sum(world.kind != "honest" for world in WORLDS) >= 45
    assert {world.kind for world in WORLDS} >= KINDS


def test_the_law_can_be_broken():
    """Break each part of the law on purpose: every wrong ending is seen."""
    honest = next(world for world in WORLDS if world.name == "tuple")
    ask = honest.asks[0]
    moved = Truth(honest.truth.value + 1.0, honest.truth.q_values)
    assert attempt(replace(honest, truth=moved), ask, 0).ending == "EXCLUDED"
    first, second = honest.truth.q_values
    one_q = Truth(honest.truth.value, (first + 1.0, second))
    assert attempt(replace(honest, truth=one_q), ask, 0).ending == "EXCLUDED"
    blank = replace(honest, truth=None, ends=("named",))
    unnamed = replace(blank, names="no such assumption")
    assert attempt(unnamed, ask, 0).ending == "unnamed"
    unfound = replace(blank, names="one law", check="no such finding")
    assert attempt(unfound, ask, 0).ending == "unfound"
    refused = next(world for world in WORLDS if world.name == "reward_range")
    misspoken = replace(refused, says="something else")
    assert attempt(misspoken, refused.asks[0], 0).ending == "misspoken"


def test_the_truth_is_true():
    """Closed forms: a constant reward, a game that two players share, a horizon."""
    plain = solve(lambda s, a: [(1.0, 1.0, s)], 0, discount=0.5, smooth=max)
    assert plain.value == pytest.approx(2.0, abs=1e-14)
    soft = solve(lambda s, a: [(1.0, 0.0, s)], 0, discount=0.5, smooth=entropy(1.0))
    assert soft.value == pytest.approx(2.0 * 0.6931471805599453, abs=1e-14)
    in_turn = {"discount": 0.5, "smooth": max, "player": lambda s: 1 + s}
    turns = solve(lambda s, a: [(1.0, float(a), 1 - s)], 0, **in_turn)
    # max takes 1, min takes 0, in turn
    assert turns.value == pytest.approx(4.0 / 3.0, abs=1e-14)
    short = solve(lambda s, a: [(1.0, 1.0, s)], 0, discount=1.0, smooth=max, horizon=3)
    assert short.value == 3.0
