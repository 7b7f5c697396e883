"""Exact values at discount 1 without a horizon: expected totals over the whole play.

The value of a pair of policies is the expectation of r_0 + r_1 + r_2 + ... until the
play ends, or for ever. It is defined, perhaps as an infinity, where

  (a) no reward is negative: V is the least fixed point of V = TV, V >= 0;
  (b) no reward is positive (costs): the same with signs and players exchanged;
  (c) rewards of both signs, and every play ends whatever is played: V is the one
      fixed point of T.

Other models are refused. A play that never ends counts with what it was paid, so a
loop that costs nothing is worth 0: it is no failure to reach a goal. Only plain
maxima (``Max``) are solved: a regularizer pays in every step.

Steps: the graph says where V is 0 and where it is infinite (``qualitative``); for
the rest ``strategy`` finds policies and their values, and ``proof`` proves two bounds
around V, the rounding of float64 included. Rewards are scaled by a power of two, which
is exact.

An infinite value is written as +-inf in ``values`` (so one dead end of a large model
does not hide all others) and has no policy (NaN); ``plan`` refuses such a state. The
bound holds for all others.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.exact import graph_kernel
from smoothcruiser.exact.chains import Rows, Work, sums
from smoothcruiser.exact.proof import Arena, lower, nothing, upper
from smoothcruiser.exact.qualitative import (
    infinite_states,
    never_ending,
    touches,
    zero_states,
)
from smoothcruiser.exact.reachable import Known
from smoothcruiser.exact.solution import Solution, names_of
from smoothcruiser.exact.stopped import SLACK, UNIT
from smoothcruiser.exact.strategy import best_play
from smoothcruiser.jit.build import compiled
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Bools, Floats, Ints, Tables

NAME = "strategy-iteration"
METHODS = ("auto", "policy-iteration")  # of ``solve`` that mean it
# of the largest reward or value: a larger bound gets a note
DEFAULT_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Totals:
    """A model in the form (a) or (c): rows of the n states that are not terminal."""

    rows: Rows  # ``rows.row`` numbers the pairs s*A + a
    paid: Floats  # (nnz,), scaled
    is_max: Bools  # (n,)
    state: Ints  # (n,): which state of the tables
    sign: float  # -1 if signs and players were exchanged
    unit: float  # a power of two: what a scaled reward of 1 stands for
    signed: bool  # rewards of both signs


def solve_totals(
    problem: Problem, known: Known, work: Work, tolerance: float | None, method: str
) -> Solution:
    """The Solution of a problem with discount 1 and no horizon.

    Args:
        problem: what is solved; its operator is ``Max``.
        known: its model.
        work: the limits of the search.
        tolerance: the bound that has to be proven; None for what rounding allows.
        method: of ``solve``, "auto" or "policy-iteration".
    """
    if method not in METHODS:
        raise InvalidInput(
            f"method must be one of {', '.join(METHODS)} at discount 1 without a "
            f"horizon, got {method!r}; {method} needs a discount below 1."
        )
    if problem.operator.strength > 0.0 or not problem.operator.built_in:
        raise InvalidInput(
            "discount=1 without a horizon needs operator=Max(), got "
            f"{problem.operator.label}, which pays in every step; give horizon=, a "
            "discount below 1, or Max()."
        )
    compile_seconds = _warm()
    work.over.compiled(compile_seconds)
    work.over.begin("solving", known.tables.num_states)
    begin = time.perf_counter()
    totals = _totals(known)
    found = _signed(totals, known, work) if totals.signed else _unsigned(totals, work)
    solution = _assembled(problem, known, totals, found, work)
    bound = solution.residual_bound
    if tolerance is not None and bound > tolerance:
        raise InvalidInput(
            f"tolerance={tolerance!r} cannot be proven here: rounding of float64 over "
            f"whole plays allows {bound:.3g}; ask for at least {2.0 * bound:.2g}."
        )
    elapsed = time.perf_counter() - begin
    return replace(solution, seconds=elapsed, compile_seconds=compile_seconds)


@dataclass(frozen=True, eq=False)
class Enclosed:
    """Bounds on V of the n states, a value between them, and the chosen rows."""

    low: Floats
    value: Floats
    high: Floats
    choice: Ints  # -1 where there is none


# --- the two kinds of models --------------------------------------------------


def _unsigned(totals: Totals, work: Work) -> Enclosed:
    """Rewards of at least 0: zeros and infinities by the graph, the rest by proof."""
    rows, is_max = totals.rows, totals.is_max
    zero, towards = zero_states(rows, is_max)
    infinite = infinite_states(rows, is_max, zero)
    rest = ~zero & ~infinite
    low, value, high = (np.where(infinite, np.inf, 0.0) for _ in range(3))
    found = Enclosed(low, value, high, _staying(rows, zero))
    return _proven(totals, found, rest, ~touches(rows, infinite), towards, work)


def _signed(totals: Totals, known: Known, work: Work) -> Enclosed:
    """Rewards of both signs, where every play ends."""
    rows, size = totals.rows, totals.rows.size
    lasting = never_ending(rows)
    if lasting.any():
        state = _named(known, int(totals.state[np.flatnonzero(lasting)[0]]))
        raise InvalidInput(
            "discount=1 without a horizon and rewards of both signs need every play to "
            f"end, but from state {state!r} one may go on for ever; give horizon=, a "
            "discount below 1, or rewards of one sign."
        )
    low, value, high = np.zeros((3, size))
    found = Enclosed(low, value, high, np.full(size, -1, dtype=np.int64))
    every = np.ones(len(rows.owner), dtype=np.bool_)
    rest = np.ones(size, dtype=np.bool_)
    return _proven(totals, found, rest, every, np.full(size, -1), work)


def _proven(
    totals: Totals,
    found: Enclosed,
    rest: Bools,
    allowed: Bools,
    towards: Ints,
    work: Work,
) -> Enclosed:
    """``found``, with bounds and rows written to the states of ``rest``.

    ``towards`` are rows with which the max player makes progress, -1 where any does.
    """
    if not rest.any():
        return found
    keep = allowed & rest[totals.rows.owner]
    size = int(rest.sum())
    label = np.where(rest, np.cumsum(rest) - 1, size)
    raw = totals.rows.only(keep).renamed(label, size)
    numbered = replace(raw, row=np.arange(len(raw.owner)))
    rows = numbered.merged(np.arange(size), size)
    arena = Arena(
        raw,
        rows,
        totals.paid[keep[totals.rows.entry_row]],
        totals.is_max[rest],
        totals.signed,
    )
    place = np.full(len(keep) + 1, -1, dtype=np.int64)  # the last is for "any"
    place[np.flatnonzero(keep)[rows.row]] = np.arange(len(rows.owner))
    begin = place[towards[rest]]
    begin = np.where(begin < 0, rows.first[:-1], begin)
    play = best_play(rows, arena.is_max, begin, work)
    above = None if play is None else upper(arena, play, work)
    if play is None or above is None:
        raise InvalidInput(
            "No bound can be proven at discount 1: plays are too long for float64; give "
            "horizon= or a discount below 1."
        )
    below = lower(arena, play, work)
    if below is None:
        if totals.signed:
            raise InvalidInput(
                "No lower bound can be proven at discount 1: plays are too long for "
                "float64; give horizon= or a discount below 1."
            )
        below = nothing(arena, play)
    chosen = np.flatnonzero(keep)[rows.row[play.choice]]
    low, high = below.x.sum(axis=0)[:-1], above.x.sum(axis=0)[:-1]
    found.low[rest], found.high[rest] = low, high
    found.value[rest] = np.clip(below.near[:-1], low, high)
    found.choice[rest] = chosen
    return found


def _staying(rows: Rows, zero: Bools) -> Ints:
    """(n,): a row that keeps the value 0, in the states of ``zero``; elsewhere -1."""
    keeps = zero[rows.owner] & ~rows.pays & ~touches(rows, ~zero)
    choice = np.full(rows.size, -1, dtype=np.int64)
    found = np.flatnonzero(keeps)[::-1]
    choice[rows.owner[found]] = found  # the first of each state is written last
    return choice


# --- from tables and back -----------------------------------------------------


def _totals(known: Known) -> Totals:
    """The rows of the tables, with the reward's sign and unit taken out."""
    tables = known.tables
    num_states, num_actions = tables.legal.shape
    live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    pair = np.repeat(np.arange(len(live)), np.diff(tables.start))
    used = live[pair] & (tables.prob > 0.0)
    paid = tables.reward[used]
    top = float(np.max(np.abs(paid), initial=0.0))
    unit = 2.0 ** math.floor(math.log2(top)) if top > 0.0 else 1.0
    low, high = float(np.min(paid, initial=0.0)), float(np.max(paid, initial=0.0))
    sign = -1.0 if high <= 0.0 and low < 0.0 else 1.0
    inner = np.flatnonzero(~tables.terminal)
    label = np.full(num_states, len(inner), dtype=np.int64)
    label[inner] = np.arange(len(inner))
    ids = np.flatnonzero(live)
    counts = np.bincount(pair[used], minlength=len(live))[ids]
    prob, scaled = tables.prob[used], (sign / unit) * paid
    entry = np.repeat(np.arange(len(ids)), counts)
    rows = Rows(
        len(inner),
        label[ids // num_actions],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        label[tables.next_state[used]],
        prob,
        sums(entry, prob * scaled, len(ids)),
        sums(entry, paid != 0.0, len(ids)) > 0,
        ids,
    )
    is_max = tables.player[inner] == (1 if sign > 0.0 else 2)
    return Totals(rows, scaled, is_max, inner, sign, unit, low < 0.0 < high)


def _assembled(
    problem: Problem, known: Known, totals: Totals, found: Enclosed, work: Work
) -> Solution:
    """The Solution, in the model's own units."""
    tables, scale = known.tables, totals.sign * totals.unit
    shape = tables.legal.shape
    finite = np.isfinite(found.high)
    low, value, high = (
        np.where(finite, part, 0.0) for part in (found.low, found.value, found.high)
    )
    gap = float(np.max(np.maximum(high - value, value - low), initial=0.0))
    top = float(np.max(np.maximum(np.abs(low), np.abs(high)), initial=0.0))
    longest = float(np.max(np.diff(totals.rows.start), initial=1))
    # bounds are sums of two numbers; action values are sums of (probability times) a
    # reward and a value
    rounding = UNIT * (2.0 * longest + 12.0) * (top + 2.0)
    bound = SLACK * (gap + rounding)
    bound *= totals.unit
    values = np.zeros(shape[0])
    values[totals.state] = scale * value
    q_values = _action_values(tables, totals, values, finite)
    values[totals.state[~finite]] = totals.sign * np.inf
    policy = np.zeros(shape)
    chosen = np.where(found.choice >= 0, found.choice, totals.rows.first[:-1])
    policy.reshape(-1)[totals.rows.row[chosen]] = 1.0
    policy[totals.state[~finite]] = np.nan
    return Solution(
        values=values,
        q_values=q_values,
        policy=policy,
        residual_bound=bound,
        method=NAME,
        sweeps=work.sweeps,
        seconds=0.0,
        **names_of(problem, known.states),
        note=_note(bound, totals.unit * max(1.0, top), work),
    )


def _action_values(
    tables: Tables, totals: Totals, values: Floats, finite: Bools
) -> Floats:
    """(S, A): r + E V of every live pair; ``values`` hold 0 where V is infinite."""
    rows, count = totals.rows, len(totals.rows.owner)
    known = np.append(values[totals.state], 0.0)[rows.target]
    paid = totals.sign * totals.unit * totals.paid
    mean = sums(rows.entry_row, rows.weight * (paid + known), count)
    mean[touches(rows, ~finite)] = totals.sign * np.inf
    found = np.full(tables.legal.size, np.nan)
    found[rows.row] = mean
    return found.reshape(tables.legal.shape)


def _note(bound: float, size: float, work: Work) -> str:
    if bound <= DEFAULT_TOLERANCE * size:
        return ""
    if work.over() is not None:
        return f"The search was stopped early, and its policies prove {bound:.3g}."
    return (
        f"the aim of {DEFAULT_TOLERANCE * size:.3g} (1e-10 of the largest reward or "
        "value) is below what the rounding of float64 proves for plays as long as here "
        f"({bound:.3g})"
    )


def _named(known: Known, state: int) -> Any:
    return state if known.states is None else known.states[state]


# --- compiling ----------------------------------------------------------------


def _warm() -> float:
    """The seconds spent on compiling; 0 after the first call."""
    begin = time.perf_counter()
    return 0.0 if _warmed() is None else time.perf_counter() - begin


_ready: list[bool] = []


def _warmed() -> bool | None:
    """Run every compiled loop once on a state that leads out; None if that was done."""
    if _ready:
        return None
    zero, one, two = (np.array(x, dtype=np.int64) for x in ([0], [1], [0, 1]))
    no, yes, x = np.zeros(1, dtype=np.bool_), np.ones(1, dtype=np.bool_), np.zeros(2)
    part, each = (two, one, np.ones(1), np.ones(1)), zero.copy()
    compiled(graph_kernel.attract)(
        np.zeros(2, dtype=np.int64), zero, zero, yes, no, no.copy(), yes.copy(), each
    )
    compiled(graph_kernel.components)(two, one, each)
    compiled(graph_kernel.substitute)(zero, two, 0, 1, *part, x, zero.copy())
    compiled(graph_kernel.relax)(zero, *part, x, 1)
    _ready.append(True)
    return True
