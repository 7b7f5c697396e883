"""Laws of totals at discount 1 on random models, against solvers that share no code.

Tiny games: all pairs of positional policies, in rational arithmetic. MDPs with end
components: a linear program. Bounds hold, infinities are found, policies earn their
value against every reply.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.exact.verification_worlds import solve_rationally
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

LAWS = settings(derandomize=True, deadline=None, max_examples=300)
MOST_PAIRS = 300  # of policies that are enumerated
Exact = Fraction | float  # a float only where it is infinite


@dataclass(frozen=True)
class Tiny:
    """A game in rational numbers: P[s][a][z], R[s][a][z]."""

    P: list[list[list[Fraction]]]
    R: list[list[list[Fraction]]]
    players: np.ndarray
    terminal: np.ndarray
    legal: np.ndarray

    @property
    def problem(self) -> sc.Problem:
        P, R = (np.array(x, dtype=float) for x in (self.P, self.R))
        ways = {"players": self.players, "terminal": self.terminal}
        facts = {"discount": 1, "operator": sc.Max(), "legal": self.legal}
        return sc.tabular(P, R, **ways, **facts)

    def values(self, legal: np.ndarray) -> list[Exact]:
        """max over policies of min over replies of the total, with these actions."""
        S = len(self.P)
        options = [
            [int(a) for a in np.flatnonzero(legal[s])] if not self.terminal[s] else [0]
            for s in range(S)
        ]
        mine = [s for s in range(S) if self.players[s] == 1]
        theirs = [s for s in range(S) if self.players[s] == 2]
        best: list[Exact] = [-math.inf] * S
        for policy in itertools.product(*(options[s] for s in mine)):
            worst: list[Exact] = [math.inf] * S
            for reply in itertools.product(*(options[s] for s in theirs)):
                chosen = dict(zip((*mine, *theirs), (*policy, *reply), strict=True))
                found = self.chain(chosen)
                worst = [min(x, y) for x, y in zip(worst, found, strict=True)]
            best = [max(x, y) for x, y in zip(best, worst, strict=True)]
        return best

    def chain(self, chosen: dict[int, int]) -> list[Exact]:
        """Totals of one chain: what pays for ever is infinite, what never pays is 0."""
        S = len(self.P)
        P = [
            [Fraction(0)] * S if self.terminal[s] else self.P[s][chosen[s]]
            for s in range(S)
        ]
        r = [
            sum(
                (p * x for p, x in zip(P[s], self.R[s][chosen[s]], strict=True)),
                Fraction(0),
            )
            for s in range(S)
        ]

        def reaching(goal: set[int]) -> set[int]:
            found = set(goal)
            for _ in range(S):
                found |= {
                    s
                    for s in range(S)
                    if any(P[s][z] and z in found for z in range(S))
                }
            return found

        pays = reaching({s for s in range(S) if r[s]})
        endless = reaching(pays - reaching(set(range(S)) - pays))
        rest = sorted(pays - endless)
        sign = 1 if any(x > 0 for x in r) else -1
        solved = solve_rationally(
            [[(s == z) - P[s][z] for z in rest] for s in rest], [r[s] for s in rest]
        )
        known = dict(zip(rest, solved, strict=True))
        return [
            sign * math.inf if s in endless else known.get(s, Fraction(0))
            for s in range(S)
        ]


@st.composite
def tiny_games(draw: st.DrawFn, *, signed: bool = False) -> Tiny:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    S, A = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    parts = int(draw(st.sampled_from([1, 2, 8, 2**30])))
    goal, share = draw(st.booleans()), draw(st.sampled_from([0.1, 0.3, 0.8]))
    sign = draw(st.sampled_from([-1, 1]))

    def row() -> list[Fraction]:
        targets = rng.choice(S, int(rng.integers(1, min(S, 3) + 1)), replace=False)
        cuts = np.sort(rng.integers(0, parts + 1, len(targets) - 1))
        if parts > 8:  # rare outcomes
            cuts = np.arange(1, len(targets))
        ends = [0, *(int(c) for c in cuts), parts]
        found = [Fraction(0)] * S
        for k, z in enumerate(targets):
            found[z] = Fraction(ends[k + 1] - ends[k], parts)
        return found

    def paid() -> list[Fraction]:
        drawn = rng.integers(1, 9, S) * (rng.random(S) < share)
        signs = rng.choice([-1, 1], S) if signed else np.full(S, sign)
        if goal and not signed:
            drawn = 2 * (np.arange(S) == S - 1)
        return [Fraction(int(x), 2) for x in drawn * signs]

    terminal = rng.random(S) < 0.3
    terminal[S - 1] |= goal
    legal = rng.random((S, A)) < 0.8
    legal[np.arange(S), rng.integers(0, A, S)] = True
    one = int(rng.integers(1, 3))
    return Tiny(
        [[row() for _ in range(A)] for _ in range(S)],
        [[paid() for _ in range(A)] for _ in range(S)],
        rng.integers(1, 3, S) if draw(st.booleans()) else np.full(S, one),
        terminal,
        legal,
    )


def check(tiny: Tiny, found: sc.Solution):
    """The bound holds, for the values and for either policy against every reply."""
    room = Fraction(found.residual_bound)
    for value, truth in zip(found.values, tiny.values(tiny.legal), strict=True):
        if math.isinf(truth):
            assert value == truth
        else:
            assert abs(Fraction(float(value)) - truth) <= room
    for player, sign in ((1, 1), (2, -1)):
        legal = tiny.legal.copy()
        fixed = (tiny.players == player) & np.isfinite(found.values) & ~tiny.terminal
        legal[fixed] &= found.policy[fixed] > 0.5
        for s, kept in enumerate(tiny.values(legal)):
            if math.isfinite(found.values[s]):
                assert sign * (kept - Fraction(float(found.values[s]))) >= -2 * room


@LAWS
@given(tiny_games() | tiny_games(signed=True))
def test_totals_of_one_sign_and_of_both(tiny):
    if math.prod(tiny.legal[~tiny.terminal].sum(axis=1).tolist()) > MOST_PAIRS:
        return
    try:
        found = sc.solve(tiny.problem)
    except sc.InvalidInput as refusal:
        signs = {np.sign(float(x)) for state in tiny.R for row in state for x in row}
        if "both signs" not in str(refusal) or not {-1.0, 1.0} <= signs:
            raise
    else:
        check(tiny, found)


@settings(LAWS, max_examples=60)
@given(st.integers(0, 2**32), st.booleans())
def test_an_mdp_with_end_components_against_a_linear_program(seed, sure):
    """max: the least v >= r + P v, v >= 0, for every action (Puterman 1994, 7.2)."""
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(5, 40)), 3
    P = np.zeros((S, A, S))
    for s, a in itertools.product(range(S), range(A)):
        some = rng.choice(S, 1 if sure and a < 2 else 3, replace=False)
        P[s, a, some] = rng.dirichlet(np.ones(len(some)))
    terminal = np.arange(S) < 2
    R = np.zeros((S, A, S))
    R[:, :, 0] = 1.0
    problem = sc.tabular(P, R, discount=1, operator=sc.Max(), terminal=terminal)
    found = sc.solve(problem)
    inner = ~terminal
    flow = P[inner][:, :, inner]
    count = int(inner.sum())
    rows = (np.eye(count)[:, None, :] - flow).reshape(-1, count)
    paid = P[inner][:, :, 0].reshape(-1)
    truth = linprog(np.ones(count), A_ub=-rows, b_ub=-paid, bounds=(0, None))
    assert truth.status == 0
    assert found.values[inner] == pytest.approx(truth.x, abs=1e-6)
    assert found.residual_bound <= 1e-9
