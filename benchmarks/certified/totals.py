"""Coverage where totals are declared: random worlds, made to break Lemma T.

    python -m benchmarks.certified.totals [--runs N] [--out FILE]

Every world is a small random graph with rewards of either sign, ends that come late
or never, one player or two (one of whom may never move, or who take turns strictly),
legal actions that vary, an operator with or without a regularizer, with or without a
horizon that cuts episodes off. Values, and the smallest and the largest total of any
play, come from a solver of its own in NumPy. The problem declares the tightest total
that is true (``total_reward_range``, or ``payoffs="end"``). Two things are counted:
bounds before the first call that exclude a true value (there may be none), and
certificates (certified search and sharp schedules) that do (at most a share delta
of them).
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.timing import signed

import smoothcruiser as sc
from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.theory.analysis import ground

ROUNDING = 1e-9
DELTA = 0.2
SWEEPS = 700  # 0.95 ** 700 is 3e-16


class World(NamedTuple):
    """A problem, and what is true of it: all by stage (0 steps left comes first)."""

    problem: Any
    values: Any  # (H + 1, S), or (1, S) without a horizon
    q: Any  # the same, then A; NaN where illegal
    live: Any  # (S,): not terminal
    players: Any  # (S,)


def world(number: int) -> World:
    """World ``number``: its shape follows from the number, its numbers from a seed."""
    rng = np.random.default_rng(number)
    ends_pay, horizon = bool(number % 2), (None, 4)[number // 2 % 2]
    kind = ("mdp", "game", "turns", "min alone")[number // 4 % 4]
    ends = ends_pay or kind != "turns" or bool(number // 16 % 2)
    discount = float(rng.choice([0.5, 0.8, 0.95]))
    if horizon is not None and rng.random() < 0.5:
        discount = 1.0
    operator = (sc.Max(), sc.Entropy(0.7), sc.Sparsemax(0.5))[number // 8 % 3]
    S, A = 6, int(rng.integers(1, 4))
    dead = np.zeros(S, dtype=bool)
    dead[-2:] = ends
    players = np.ones(S, dtype=int)
    if kind == "game":
        players = rng.integers(1, 3, S)
    elif kind == "turns":
        players = 1 + np.arange(S) % 2
    elif kind == "min alone":
        players[:] = 2
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            allowed = np.arange(S)
            if kind == "turns":
                allowed = allowed[dead | (players != players[s])]
            targets = rng.choice(allowed, size=min(3, len(allowed)), replace=False)
            weights = rng.random(len(targets)) ** 3 + 1e-3
            if ends and rng.random() < 0.7:  # an end that comes late
                weights[dead[targets]] *= 0.05
            P[s, a, targets] = weights / weights.sum()
    R = rng.uniform(-1.0, 1.0, (S, A, S)) + float(rng.choice([-1.0, 0.0, 1.0]))
    if ends_pay:
        R[:, :, ~dead] = 0.0
    legal = rng.random((S, A)) < 0.8
    legal[:, 0] = True
    common = {"discount": discount, "operator": operator, "legal": legal}
    more: dict[str, Any] = {"terminal": dead if ends else None, "horizon": horizon}
    if kind != "mdp":
        more |= {"players": players, "alternating": kind == "turns"}
    paid = R[(P > 0) & (~dead & np.ones(S, bool))[:, None, None] & legal[:, :, None]]
    low, high = float(paid.min()), float(paid.max())
    problem = sc.tabular(P, R, reward_range=(low, high), **common, **more)
    least, most = totals(P, R, legal, dead, discount, horizon)
    if ends_pay:
        problem = replace(problem, payoffs="end")
    else:
        problem = replace(problem, total_reward_range=(least, most))
    values, q = solved(problem, P, R, legal, dead, players)
    # sampled, not solved: the tables go
    sampled = replace(problem, tables=None, outcomes=None, oracle=stepper(P, R))
    return World(sampled, values, q, ~dead, players)


def stepper(P: Any, R: Any) -> Any:
    """A plain Python step over the tables."""
    tops = np.cumsum(P, axis=2)

    def step(state: int, action: int, rng: Any) -> tuple[float, int]:
        row = tops[state, action]
        after = int(np.searchsorted(row, rng.random() * row[-1], side="right"))
        return float(R[state, action, after]), after

    return step


def totals(
    P: Any, R: Any, legal: Any, dead: Any, discount: float, horizon: int | None
) -> tuple[float, float]:
    """The smallest and the largest total of any play from any state and stage."""
    seen = (P > 0) & legal[:, :, None]
    found = []
    for side, nothing in ((np.min, np.inf), (np.max, -np.inf)):
        best, all_stages = np.zeros(len(dead)), []
        for _ in range(SWEEPS if horizon is None else horizon):
            after = np.where(dead, 0.0, best)
            each = np.where(seen, R + discount * after, nothing)
            best = side(each, axis=(1, 2))
            all_stages.append(float(side(best[~dead])))
        stages = all_stages[-1:] if horizon is None else all_stages
        found.append(float(side(np.array(stages))))
    return found[0] - 1e-12, found[1] + 1e-12


def solved(
    problem: Any, P: Any, R: Any, legal: Any, dead: Any, players: Any
) -> tuple[Any, Any]:
    """Values and action values by stage, by backward induction."""
    signs = np.where(players == 1, 1.0, -1.0)
    V = np.zeros(len(dead))
    stages, boxes = [V], [np.full(legal.shape, np.nan)]
    for _ in range(SWEEPS if problem.horizon is None else problem.horizon):
        Q = np.einsum("saz,saz->sa", P, R + problem.discount * V)
        Q = np.where(legal, Q, np.nan)
        V = np.array(
            [
                0.0
                if dead[s]
                else signs[s] * smooth(problem.operator, signs[s] * Q[s])
                for s in range(len(dead))
            ]
        )
        stages, boxes = [*stages, V], [*boxes, Q]
        if problem.horizon is None:
            stages, boxes = stages[-1:], boxes[-1:]
    return np.array(stages), np.array(boxes)


def smooth(operator: Any, q: Any) -> float:
    """The smooth maximum of the legal entries, written down once more."""
    q = q[~np.isnan(q)]
    t = operator.strength
    if isinstance(operator, sc.Max):
        return float(q.max())
    if isinstance(operator, sc.Entropy):
        top = q.max()
        return float(top + t * math.log(np.exp((q - top) / t).sum()))
    z = np.sort(q / t)[::-1]  # sparsemax: <p, q> + t/2 (1 - |p|^2)
    sums = np.cumsum(z)
    size = int(np.flatnonzero(1 + np.arange(1, len(z) + 1) * z > sums)[-1]) + 1
    p = np.maximum(q / t - (sums[size - 1] - 1) / size, 0.0)
    return float(p @ q + 0.5 * t * (1.0 - p @ p))


def excluded(w: World) -> int:
    """How many true values the bounds before the first call exclude."""
    facts, wrong = w.problem.facts, 0
    base = ground(facts) if facts.operator.shift_invariant else None
    stages = [None] if facts.horizon is None else list(range(1, facts.horizon + 1))
    for stage in stages:
        row = -1 if stage is None else stage
        for s in np.flatnonzero(w.live):
            player = int(w.players[s]) if facts.game else 1
            for found, (low, high) in (
                ([w.values[row, s]], facts.value_bounds(player, stage)),
                (w.q[row, s], facts.q_bounds(player, stage)),
            ):
                q = np.asarray(found)[~np.isnan(found)]
                wrong += int(q.min() < low - ROUNDING) + int(q.max() > high + ROUNDING)
            if base is not None:
                lower, upper = (float(x[player - 1, 0]) for x in base.values(stage))
                v = w.values[row, s]
                wrong += int(not lower - ROUNDING <= v <= upper + ROUNDING)
                q = w.q[row, s][~np.isnan(w.q[row, s])]
                box = float(base.q_box(stage)[player - 1, 0])
                wrong += int(q.max() - q.min() > box + ROUNDING)
    return wrong


def misses(
    w: World,
    seed: int,
    most_calls: int = 3_000,
    methods: tuple[str, ...] = ("certified", "smoothcruiser"),
) -> dict[str, bool]:
    """By method: whether its certificate excludes a true value."""
    start = int(np.flatnonzero(w.live)[0])
    true, q = w.values[-1, start], w.q[-1, start]
    found = {}
    span = w.problem.facts.value_span()
    for method, asked in (
        ("certified", {"budget": most_calls}),
        ("smoothcruiser", {"epsilon": 0.3 * span, "budget": 20_000}),
    ):
        if span <= 0.0 or method not in methods:
            continue
        try:
            e = sc.plan(
                w.problem, start, method=method, delta=DELTA, seed=seed, **asked
            )
        except sc.errors.Unpayable:
            continue
        pairs = [(true, e.interval), *zip(q, e.certificate.q_intervals, strict=True)]
        found[method] = any(
            not low - ROUNDING <= x <= high + ROUNDING
            for x, (low, high) in pairs
            if not np.isnan(x)
        )
    return found


def main() -> int:
    """Print the counts; the exit code says whether a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    wrong = 0
    counts: dict[str, list[int]] = {}
    for number in range(asked.runs):
        w = world(number)
        wrong += excluded(w)
        try:
            for method, missed in misses(w, seed=number).items():
                counts.setdefault(method, [0, 0])
                counts[method][0] += missed
                counts[method][1] += 1
        except SmoothcruiserError as error:
            print(f"world {number}: {error}")
            wrong += 1
    lines = [
        f"{asked.runs:,} worlds; true values that bounds exclude, and errors: {wrong}",
        *(
            f"{method}: {bad} of {all_runs:,} certificates exclude a true value"
            for method, (bad, all_runs) in counts.items()
        ),
        f"promised: at most {DELTA:.0%}",
    ]
    print("\n".join(lines))
    if asked.out is not None:
        head = [
            "# Coverage where totals are declared",
            "",
            f"`python {' '.join(sys.argv)}` (the worlds: the script's head)",
            "",
            signed(),
            "",
        ]
        asked.out.write_text(
            "\n".join([*head, *(f"- {line}" for line in lines)]) + "\n"
        )
    return int(wrong > 0 or any(bad > DELTA * n for bad, n in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
