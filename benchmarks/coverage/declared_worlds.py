"""Worlds for what is declared of single pairs: outcomes at the minimum, known rows.

``random_at_least``: discount 1, no horizon, a goal that pays 1. Every outcome of many
pairs has exactly the smallest probability p: the bound that p gives each seen outcome
is then the mean itself, and a support is complete with as few samples as it can be.
Loops, traps and dead ends are as in ``verification_worlds``, whose exact values serve.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.exact.verification_worlds import (
    World,
    _q_values,
    least,
    random_undiscounted,
)

SHARES = (2, 3, 4, 5, 8, 10, 20)  # 1/p


def random_at_least(seed: int) -> World:
    """World ``seed``: rows in which all outcomes, or all but one, have probability p."""
    for attempt in range(100):
        rng = np.random.default_rng([23, seed, attempt])
        whole = int(rng.choice(SHARES))
        # kinds 0 to 3 of eight have a goal that pays
        world = random_undiscounted(8 * (seed // 4 + 1_000 * attempt) + seed % 4)
        P = world.P.copy()
        for row in P.reshape(-1, P.shape[2]):
            if np.count_nonzero(row) > 1:
                row[:] = _at_least(rng, row, whole)
        values = least(P, world.R, world.legal, world.terminal, world.players)
        if values is None:  # loops that are hardly ever left
            continue
        q = _q_values(P, world.R, 1.0, values, world.legal, world.terminal)
        kind = "MDP" if world.players is None else "game"
        return replace(
            world,
            family=f"at the minimum, {kind}",
            P=P,
            values=values[None],
            q_values=q[None],
        )
    raise RuntimeError(f"no world {seed} has exact values")


def _at_least(rng: np.random.Generator, row: Any, whole: int) -> Any:
    """A row over as many next states as have room, each with 1/whole or more."""
    S = len(row)
    size = int(rng.integers(2, min(whole, S, 8) + 1))
    first = np.flatnonzero(row)
    others = np.setdiff1d(np.arange(S), first)
    targets = np.concatenate([rng.permutation(first), rng.permutation(others)])[:size]
    counts = np.ones(size)
    if rng.random() < 0.5:
        counts[0] = whole - size + 1  # the others are at the minimum
    else:  # all are, as nearly as they fit
        counts += rng.multinomial(whole - size, np.full(size, 1.0 / size))
    found = np.zeros(S)
    found[targets] = counts / whole
    return found


def half_known(world: World, seed: int) -> Any:
    """(S, A): a random part of the pairs, whose rows ``outcomes=`` lists."""
    rng = np.random.default_rng([29, seed])
    return rng.random(world.legal.shape) < rng.choice([0.2, 0.5, 0.8])
