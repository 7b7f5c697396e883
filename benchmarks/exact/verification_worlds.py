"""Worlds at discount 1 or with a horizon, and what is true of every state in them.

Three sources, all as ``sc.tabular`` problems, which certified search samples (only
problems with ``outcomes=`` and without tables are read, ``problem.model.known_outcomes.has_rows``):

- ``published``: thirteen models of the Quantitative Verification Benchmark Set (see the
  README beside the files). Reward 1 on entering a goal, which ends the episode; nothing
  else pays, so the value is the probability of reaching a goal.
- ``random_undiscounted``: 2 to 12 states at discount 1 without a horizon. Either a goal
  pays 1, and play may go round for ever (end components that can be left, dead ends that
  are not terminal), or every step pays in [0, 1] and every policy ends.
- ``random_horizon``: 2 to 12 states, up to 40 steps, any discount, rewards of both signs.

Some of the random worlds are a few *coins*: with one or two pairs on the way no bound is
loose, so that radii which are too small show.

The exact values come from this file alone: backward induction, or value iteration from
below, which climbs to the least solution of V = TV. That is the value: who goes round
for ever is paid nothing. The file shares no code with the package's solvers; the tests
compare the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import smoothcruiser as sc

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data" / "qvbs"

# value iteration from below: a world whose sweeps still move after so many is redrawn.
# A loop that is left once in a thousand steps needs 30,000 to move by less than 1e-16,
# and is then within 1e-16 / 1e-3 of its limit.
MOST_SWEEPS = 50_000
STILL = 1e-16


# --- published models ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """A published model: the best (or worst) probability of reaching a goal."""

    name: str
    P: Any  # CSR of shape (S*A, S); row s*A + a
    legal: Any  # (S, A)
    goal: Any  # (S,)
    initial: int
    maximize: bool
    reference: float  # published, undiscounted, without a horizon

    def problem(
        self,
        *,
        horizon: int | None = None,
        min_probability: float | None = None,
        dead_ends: bool = False,
    ) -> sc.Problem:
        """The model as a sampled problem at discount 1.

        Args:
            horizon: steps until the end; None for no limit.
            min_probability: declared to hold for every outcome; None declares nothing.
            dead_ends: whether states that cannot reach a goal are terminal.
        """
        terminal = self.goal | ~can_reach_goal(self) if dead_ends else self.goal
        more: dict[str, Any] = {}
        if min_probability is not None:
            more["min_probability"] = min_probability
        if not self.maximize:
            more["players"] = np.full(len(self.goal), 2)
        return sc.tabular(
            self.P,
            self.goal[self.P.indices].astype(float),
            discount=1,
            operator=sc.Max(),
            terminal=terminal,
            legal=self.legal,
            payoffs="end",
            initial_state=self.initial,
            horizon=horizon,
            name=self.name,
            **more,
        )


def names() -> list[str]:
    """The names of the published models that are there."""
    found = sorted(path.stem for path in PUBLISHED.glob("*.npz"))
    if not found:
        raise SystemExit(
            "The published models are missing: shared/data/qvbs, a folder beside this "
            "repository's, has to hold their .npz files."
        )
    return found


@cache
def load(name: str) -> Model:
    """The published model called ``name``."""
    if name not in names():
        raise SystemExit(
            f"There is no published model {name!r}; there are {', '.join(names())}."
        )
    data = np.load(PUBLISHED / f"{name}.npz")
    S, A = data["legal"].shape
    return Model(
        name=name,
        P=sp.csr_matrix((data["data"], data["indices"], data["indptr"]), (S * A, S)),
        legal=data["legal"],
        goal=data["goal"].astype(bool),
        initial=int(data["initial"]),
        maximize=bool(data["maximize"]),
        reference=float(data["reference"]),
    )


def published(name: str, **options: Any) -> sc.Problem:
    """The published model ``name`` as a sampled problem; options: ``Model.problem``."""
    return load(name).problem(**options)


def published_all(**options: Any) -> dict[str, sc.Problem]:
    """All published models by name, with the same options."""
    return {name: published(name, **options) for name in names()}


def true_minimum(model: Model) -> float:
    """The smallest probability of any outcome, as it is sampled (rows sum to 1)."""
    tables = model.problem().tables
    assert tables is not None
    return smallest(tables)


def smallest(tables: Any) -> float:
    """The smallest positive probability in the rows that can be sampled."""
    live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    used = np.repeat(live, np.diff(tables.start)) & (tables.prob > 0.0)
    return float(tables.prob[used].min(initial=1.0))


def can_reach_goal(model: Model) -> Any:
    """(S,): from where some sequence of legal actions may lead to a goal."""
    S, A = model.legal.shape
    rows = np.repeat(model.legal.reshape(-1), np.diff(model.P.indptr))
    pair = np.repeat(np.arange(S * A), np.diff(model.P.indptr))
    used = rows & (model.P.data > 0.0)
    edges = sp.csr_matrix(
        (np.ones(used.sum()), (pair[used] // A, model.P.indices[used])), (S, S)
    )
    reaches = model.goal.copy()
    while True:
        more = reaches | (edges @ reaches > 0.0)
        if np.array_equal(more, reaches):
            return reaches
        reaches = more


def value_with_horizon(model: Model, horizon: int) -> tuple[float, Any]:
    """V_H of the initial state, and (H + 1, S) with V_h of every state in row h."""
    S, A = model.legal.shape
    best, none = (np.max, -np.inf) if model.maximize else (np.min, np.inf)
    stages = np.zeros((horizon + 1, S))
    sums = np.asarray(model.P.sum(axis=1)).reshape(-1)
    sums[sums == 0.0] = 1.0
    for h in range(1, horizon + 1):
        after = np.where(model.goal, 1.0, stages[h - 1])
        q = np.where(model.legal, (model.P @ after / sums).reshape(S, A), none)
        stages[h] = np.where(model.goal, 0.0, best(q, axis=1))
    return float(stages[horizon, model.initial]), stages


# --- random worlds ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class World:
    """A small random world, and the exact value of every state and action in it."""

    family: str
    P: Any  # (S, A, S)
    R: Any  # (S, A, S), paid on arrival
    legal: Any  # (S, A)
    terminal: Any  # (S,)
    players: Any  # (S,) of 1 and 2; None for an MDP
    operator: sc.Operator
    discount: float
    horizon: int | None
    values: Any  # (H + 1, S) by steps left, or (1, S) without a horizon
    q_values: Any  # the same, then A; NaN where illegal or terminal
    declared: dict[str, Any] = field(default_factory=dict)  # true keywords

    @property
    def min_probability(self) -> float:
        """The smallest probability of any outcome."""
        used = self.P[~self.terminal][self.legal[~self.terminal]]
        return float(used[used > 0.0].min())

    @property
    def scale(self) -> float:
        """The largest number that takes part: what rounding is measured by."""
        return max(1.0, float(np.abs(self.values).max()), float(np.abs(self.R).max()))

    def exact(self, state: int, remaining: int | None) -> tuple[float, Any]:
        """V(state) and Q(state, .), with so many steps left."""
        row = 0 if self.horizon is None else remaining
        row = self.horizon if row is None else row
        assert row is not None
        return float(self.values[row, state]), self.q_values[row, state]

    def row(self, state: int, action: int) -> list[tuple[float, float, int]]:
        """Probabilities, rewards and next states of a pair."""
        shares, paid = self.P[state, action], self.R[state, action]
        return [
            (float(shares[z]), float(paid[z]), int(z)) for z in np.flatnonzero(shares)
        ]

    def problem(
        self,
        *,
        min_probability: float | None = None,
        hidden: bool = False,
        told: Any = None,
    ) -> sc.Problem:
        """The world as a problem with tables, or as a plain simulator (``hidden``).

        ``told`` (S, A) says which rows a simulator lists (``outcomes=``); None: none.
        """
        more = dict(self.declared)
        if min_probability is not None:
            more["min_probability"] = min_probability
        common: dict[str, Any] = {
            "discount": self.discount,
            "operator": self.operator,
            "horizon": self.horizon,
            "initial_state": 0,
            **more,
        }
        if not hidden:
            return sc.tabular(
                self.P,
                self.R,
                terminal=self.terminal if self.terminal.any() else None,
                legal=self.legal,
                players=self.players,
                **common,
            )
        legal, terminal, players = self.legal, self.terminal, self.players
        paid = self.R[(self.P > 0) & legal[:, :, None] & ~terminal[:, None, None]]
        common["reward_range"] = (min(0.0, paid.min()), max(1.0, paid.max()))
        common["num_actions"] = legal.shape[1]
        if not legal.all():
            common["legal"] = lambda s, a: bool(legal[s, a])
        if terminal.any():
            common["terminal"] = lambda s: bool(terminal[s])
        if told is not None:
            common["outcomes"] = lambda s, a: self.row(s, a) if told[s, a] else None
        step = stepper(self.P, self.R)
        if players is None:
            return sc.MDP(step, **common)
        return sc.Game(step, player=lambda s: int(players[s]), **common)


def stepper(P: Any, R: Any) -> Callable[..., tuple[float, int]]:
    """A plain Python step over the tables."""
    tops = np.cumsum(P, axis=2)
    last = [[int(np.flatnonzero(row)[-1]) for row in rows] for rows in P]

    def step(state: int, action: int, rng: Any) -> tuple[float, int]:
        row = tops[state, action]
        after = int(np.searchsorted(row, rng.random(), side="right"))
        after = min(after, last[state][action])  # a row may sum to 1 - 1e-16
        return float(R[state, action, after]), after

    return step


def random_undiscounted(seed: int) -> World:
    """World ``seed`` at discount 1 without a horizon: a goal pays, or every step."""
    rng = np.random.default_rng([17, seed])
    game, kind = bool(seed % 2), ("goal", "goal", "every step", "coins")[seed // 2 % 4]
    running = kind == "every step"
    make = {"goal": _goals, "every step": _running, "coins": _coins}[kind]
    while True:
        P, R, legal, terminal = make(rng)
        players = rng.integers(1, 3, len(P)) if game else None
        values = least(P, R, legal, terminal, players)
        if values is not None:
            break
    q = _q_values(P, R, 1.0, values, legal, terminal)
    declared: dict[str, Any] = {}
    if running and seed // 8 % 2:
        declared["episodes_end"] = ends_within(P, legal, terminal, len(P))
    elif running:  # no total is bounded; the value is, with some room
        top = float(values.max())
        declared["value_bounds"] = (0.0, max(1.0, top * rng.uniform(1.0, 3.0)))
    elif rng.random() < 0.75:
        declared["payoffs"] = "end"
    else:
        declared["total_reward_range"] = (0.0, 1.0)
    return World(
        family=f"{kind}, {'game' if game else 'MDP'}",
        P=P,
        R=R,
        legal=legal,
        terminal=terminal,
        players=players,
        operator=sc.Max(),
        discount=1.0,
        horizon=None,
        values=values[None],
        q_values=q[None],
        declared=declared,
    )


def random_horizon(seed: int) -> World:
    """World ``seed`` with a horizon of 1 to 40 steps; every third has coins, 1 to 3."""
    rng = np.random.default_rng([18, seed])
    game, smooth, coins = bool(seed % 2), bool(seed // 2 % 2), seed // 4 % 3 == 2
    S, A = int(rng.integers(2, 13)), int(rng.integers(1, 4))
    if coins:
        S, A = 2, int(rng.integers(1, 3))
    terminal = np.zeros(S, dtype=bool)
    if S > 2 and rng.random() < 0.6:
        terminal[rng.integers(1, S, size=int(rng.integers(1, 3)))] = True
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            P[s, a] = _row(rng, S, np.arange(S))
            if coins:
                P[s, a, 1] = rng.uniform(0.05, 0.95)
                P[s, a, 0] = 1.0 - P[s, a, 1]
    legal = _legal(rng, S, A)
    low, high = [(-1.0, 1.0), (0.0, 1.0), (-3.0, 0.5)][int(rng.integers(3))]
    R = rng.uniform(low, high, (S, A, S))
    if rng.random() < 0.4:  # rewards at the edges of their range
        R = np.where(rng.random(R.shape) < 0.5, low, high)
    if rng.random() < 0.3:  # most steps pay nothing
        R = np.where(rng.random(R.shape) < 0.8, 0.0, R)
    if coins:
        R[:, :, 0], R[:, :, 1] = low, high
    discount = 1.0 if rng.random() < 0.5 else float(rng.choice([0.5, 0.9, 0.99]))
    temperature = float(10.0 ** rng.uniform(-1.3, 0.3))
    operator = sc.Entropy(temperature) if smooth else sc.Max()
    horizon = int(rng.integers(1, 4 if coins else 41))
    players = rng.integers(1, 3, S) if game else None
    values, q_values = induction(
        P,
        R,
        legal,
        terminal,
        players,
        discount=discount,
        horizon=horizon,
        temperature=temperature if smooth else 0.0,
    )
    kind = f"{'coins, ' if coins else ''}{'game' if game else 'MDP'}"
    return World(
        family=f"horizon, {kind}, {'Entropy' if smooth else 'Max'}",
        P=P,
        R=R,
        legal=legal,
        terminal=terminal,
        players=players,
        operator=operator,
        discount=discount,
        horizon=horizon,
        values=values,
        q_values=q_values,
    )


def _row(rng: np.random.Generator, S: int, targets: Any) -> Any:
    """Probabilities of next states: one, a few, or one and a rare one beside it."""
    row = np.zeros(S)
    kind = rng.random()
    if kind < 0.35:
        row[rng.choice(targets)] = 1.0
    elif kind < 0.55:
        rare = float(10.0 ** rng.uniform(-3.0, -1.0))
        row[rng.choice(targets)] += 1.0 - rare
        row[rng.integers(S)] += rare
    else:
        size = int(rng.integers(2, 4))
        for z, p in zip(
            rng.choice(targets, size), rng.dirichlet(np.ones(size)), strict=True
        ):
            row[z] += p
        row[row < 1e-3] = 0.0  # no outcome is rarer
    return row / row.sum()


def _legal(rng: np.random.Generator, S: int, A: int) -> Any:
    legal = rng.random((S, A)) < 0.8
    legal[np.arange(S), rng.integers(A, size=S)] = True
    return legal


def _goals(rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Reward 1 on entering a goal; loops, traps, and dead ends that are no ends."""
    S, A = int(rng.integers(2, 13)), int(rng.integers(1, 4))
    goal = np.zeros(S, dtype=bool)
    goal[-1] = True
    terminal = goal.copy()
    if S > 4 and rng.random() < 0.4:
        terminal[-2] = True  # a trap that says so
    live = np.flatnonzero(~terminal)
    dead = live[1:][rng.random(len(live) - 1) < 0.2]  # traps that do not
    # a group of states that like to stay among themselves: an end component, where
    # every state has an action that does
    group = live[rng.random(len(live)) < 0.5]
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            targets = np.arange(S)
            if s in group and rng.random() < 0.6:
                targets = group
            P[s, a] = _row(rng, S, targets)
            if s in dead:
                P[s, a] = _row(rng, len(dead), np.arange(len(dead))) @ np.eye(S)[dead]
            elif rng.random() < 0.1:
                P[s, a] = np.eye(S)[s]  # waiting
    R = np.zeros((S, A, S))
    R[:, :, goal] = 1.0
    return P, R, _legal(rng, S, A), terminal


def _running(rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Every step pays in [0, 1]; every pair may lead on, so every policy ends."""
    S, A = int(rng.integers(2, 13)), int(rng.integers(1, 4))
    P = np.zeros((S, A, S))
    for s in range(S - 1):
        for a in range(A):
            row = _row(rng, S, np.arange(S))
            ahead = int(rng.integers(s + 1, S))
            share = 0.02 if rng.random() < 0.1 else float(rng.uniform(0.2, 1.0))
            if row[s + 1 :].sum() < share:
                row = (1.0 - share) * row + share * np.eye(S)[ahead]
            row[row < 1e-3] = 0.0
            P[s, a] = row / row.sum()
    P[S - 1, :, S - 1] = 1.0
    R = rng.random((S, A, S))
    if rng.random() < 0.4:
        R = (rng.random(R.shape) < 0.5).astype(float)
    terminal = np.arange(S) == S - 1
    return P, R, _legal(rng, S, A), terminal


def _coins(rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """One or two throws to a goal or a trap: no radius has slack to hide behind."""
    throws, A = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    S = throws + 2
    P, R = np.zeros((S, A, S)), np.zeros((S, A, S))
    for s in range(throws):
        P[s, :, s + 1] = rng.uniform(0.05, 0.95, size=A)
        P[s, :, S - 1] = 1.0 - P[s, :, s + 1]
    P[-2:, :, 0] = 1.0
    R[:, :, S - 2] = 1.0
    return P, R, np.ones((S, A), dtype=bool), np.arange(S) >= throws


# --- exact values -------------------------------------------------------------


def _q_values(
    P: Any, R: Any, discount: float, after: Any, legal: Any, terminal: Any
) -> Any:
    """(S, A) from the values one step later; NaN where nothing can be done."""
    q = np.einsum("saz,saz->sa", P, R + discount * np.where(terminal, 0.0, after))
    return np.where(legal & ~terminal[:, None], q, np.nan)


def _best(q: Any, players: Any, terminal: Any, temperature: float = 0.0) -> Any:
    """(S,): the (smooth) maximum of each row, for player 2 the (smooth) minimum."""
    signs = np.ones(len(q)) if players is None else np.where(players == 1, 1.0, -1.0)
    gain = np.where(np.isnan(q), -np.inf, signs[:, None] * q)
    gain[terminal] = 0.0
    top = gain.max(axis=1)
    if temperature > 0.0:
        weights = np.exp((gain - top[:, None]) / temperature)
        top = top + temperature * np.log(weights.sum(axis=1))
    return np.where(terminal, 0.0, signs * top)


def induction(
    P: Any,
    R: Any,
    legal: Any,
    terminal: Any,
    players: Any,
    *,
    discount: float,
    horizon: int,
    temperature: float,
) -> tuple[Any, Any]:
    """Values (H + 1, S) and action values (H + 1, S, A), by steps left."""
    values, boxes = [np.zeros(len(P))], [np.full(legal.shape, np.nan)]
    for _ in range(horizon):
        boxes.append(_q_values(P, R, discount, values[-1], legal, terminal))
        values.append(_best(boxes[-1], players, terminal, temperature))
    return np.array(values), np.array(boxes)


def ends_within(P: Any, legal: Any, terminal: Any, steps: int) -> tuple[int, float]:
    """(steps, q): every episode ends within so many steps with probability q or more."""
    over = terminal.astype(float)
    for _ in range(steps):
        each = np.where(legal, P @ over, np.inf).min(axis=1)
        over = np.where(terminal, 1.0, each)
    return steps, min(1.0, float(over.min()) * (1.0 - 1e-9))


def least(P: Any, R: Any, legal: Any, terminal: Any, players: Any) -> Any | None:
    """(S,): the least solution of V = TV at discount 1, by value iteration from 0.

    None where it has not come to rest after ``MOST_SWEEPS``.
    """
    S, A = legal.shape
    flat = (P * ~terminal).reshape(S * A, S)
    mean = np.einsum("saz,saz->sa", P, R).reshape(-1)
    signs = np.ones(S) if players is None else np.where(players == 1, 1.0, -1.0)
    closed = np.where(legal, 0.0, np.inf).reshape(-1)
    stretched = np.repeat(signs, A)
    values = np.zeros(S)
    for _ in range(MOST_SWEEPS // 100):
        for _ in range(100):
            before = values
            gain = stretched * (mean + flat @ values) - closed
            values = signs * gain.reshape(S, A).max(axis=1)
            values[terminal] = 0.0
        if float(np.abs(values - before).max()) <= STILL * max(1.0, values.max()):
            return values
        if not math.isfinite(float(values.max())):
            return None
    return None


def solve_rationally(
    matrix: list[list[Fraction]], right: list[Fraction]
) -> list[Fraction]:
    """The solution of a linear system with one, by elimination."""
    rows = [[*row, x] for row, x in zip(matrix, right, strict=True)]
    for c in range(len(rows)):
        pivot = next(k for k in range(c, len(rows)) if rows[k][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for k in range(len(rows)):
            if k != c and rows[k][c]:
                rows[k] = [
                    x - rows[k][c] * y for x, y in zip(rows[k], rows[c], strict=True)
                ]
    return [row[-1] for row in rows]
