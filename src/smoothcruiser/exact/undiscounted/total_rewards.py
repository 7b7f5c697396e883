"""Exact values at discount 1 without a horizon: expected totals over the whole play.

The value of a pair of policies is the expectation of r_0 + r_1 + r_2 + ... until the
play ends, or for ever. It is defined, perhaps as an infinity, where

  (a) no reward is negative: V is the least fixed point of V = TV, V >= 0;
  (b) no reward is positive (costs): the same with signs and players exchanged;
  (c) rewards of both signs, and every play ends whatever is played: V is the one
      fixed point of T.

Other models are refused. A play that never ends counts with its payments, so a loop
that costs nothing is worth 0: it is no failure to reach a goal. Only plain
maxima (``Max``) are solved: a regularizer pays in every step.

Steps: the graph says where V is 0 and where it is infinite (``strategy``); for
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
from smoothcruiser.exact.proof import Arena, lower, upper, zero_bound
from smoothcruiser.exact.reachable import KnownModel
from smoothcruiser.exact.solution import SLACK, UNIT, Solution, names_of
from smoothcruiser.exact.undiscounted.chains import Rows, SweepBudget, row_sums
from smoothcruiser.exact.undiscounted.strategy import (
    best_play,
    infinite_states,
    never_ending,
    touches,
    zero_states,
)
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints, Tables
from smoothcruiser.problem.problem import Problem

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
    state: Ints  # (n,): the state of the tables
    sign: float  # -1 if signs and players were exchanged
    unit: float  # a power of two: the reward that is scaled to 1
    signed: bool  # rewards of both signs


def solve_totals(
    problem: Problem,
    known: KnownModel,
    work: SweepBudget,
    tolerance: float | None,
    method: str,
) -> Solution:
    """The Solution of a problem with discount 1 and no horizon.

    Args:
        problem: the problem; its operator is ``Max``.
        known: its model.
        work: the limits of the search.
        tolerance: the bound that has to be proven; None for the floor of rounding.
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
    start_time = time.perf_counter()
    totals = _totals(known)
    enclosure = (
        _enclose_signed(totals, known, work)
        if totals.signed
        else _enclose_unsigned(totals, work)
    )
    solution = _assemble_solution(problem, known, totals, enclosure, work)
    bound = solution.residual_bound
    if tolerance is not None and bound > tolerance:
        raise InvalidInput(
            f"tolerance={tolerance!r} cannot be proven here: rounding of float64 over "
            f"whole plays allows {bound:.3g}; ask for at least {2.0 * bound:.2g}."
        )
    compile_seconds = work.over.clock.compile_seconds()
    elapsed = time.perf_counter() - start_time - compile_seconds
    return replace(solution, seconds=elapsed, compile_seconds=compile_seconds)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Bounds on V of the n states, a value between them, and the chosen rows."""

    low: Floats
    value: Floats
    high: Floats
    choice: Ints  # -1 where there is none


# --- the two kinds of models --------------------------------------------------


def _enclose_unsigned(totals: Totals, work: SweepBudget) -> Enclosure:
    """Rewards of at least 0: zeros and infinities by the graph, the rest by proof."""
    rows, is_max = totals.rows, totals.is_max
    is_zero, towards = zero_states(rows, is_max)
    is_infinite = infinite_states(rows, is_max, is_zero)
    is_open = ~is_zero & ~is_infinite
    lower_values, state_values, upper_values = (
        np.where(is_infinite, np.inf, 0.0) for _ in range(3)
    )
    enclosure = Enclosure(
        lower_values, state_values, upper_values, _staying_rows(rows, is_zero)
    )
    return _prove_bounds(
        totals, enclosure, is_open, ~touches(rows, is_infinite), towards, work
    )


def _enclose_signed(totals: Totals, known: KnownModel, work: SweepBudget) -> Enclosure:
    """Rewards of both signs, where every play ends."""
    rows, num_states = totals.rows, totals.rows.size
    is_lasting = never_ending(rows)
    if is_lasting.any():
        state = _state_name(known, int(totals.state[np.flatnonzero(is_lasting)[0]]))
        raise InvalidInput(
            "discount=1 without a horizon and rewards of both signs need every play to "
            f"end, but from state {state!r} one may go on for ever; give horizon=, a "
            "discount below 1, or rewards of one sign."
        )
    lower_values, state_values, upper_values = np.zeros((3, num_states))
    enclosure = Enclosure(
        lower_values,
        state_values,
        upper_values,
        np.full(num_states, -1, dtype=np.int64),
    )
    all_rows = np.ones(len(rows.owner), dtype=np.bool_)
    is_open = np.ones(num_states, dtype=np.bool_)
    return _prove_bounds(
        totals, enclosure, is_open, all_rows, np.full(num_states, -1), work
    )


def _prove_bounds(
    totals: Totals,
    enclosure: Enclosure,
    is_open: Bools,
    allowed: Bools,
    towards: Ints,
    work: SweepBudget,
) -> Enclosure:
    """``enclosure``, with bounds and rows written to the states of ``is_open``.

    ``towards`` are rows with which the max player makes progress, -1 where any does.
    """
    if not is_open.any():
        return enclosure
    keep_row = allowed & is_open[totals.rows.owner]
    num_open = int(is_open.sum())
    label = np.where(is_open, np.cumsum(is_open) - 1, num_open)
    raw = totals.rows.select_rows(keep_row).renumber_states(label, num_open)
    numbered_rows = replace(raw, row=np.arange(len(raw.owner)))
    rows = numbered_rows.merge_classes(np.arange(num_open), num_open)
    arena = Arena(
        raw,
        rows,
        totals.paid[keep_row[totals.rows.entry_row]],
        totals.is_max[is_open],
        totals.signed,
    )
    row_place = np.full(len(keep_row) + 1, -1, dtype=np.int64)  # the last is for "any"
    row_place[np.flatnonzero(keep_row)[rows.row]] = np.arange(len(rows.owner))
    first_choice = row_place[towards[is_open]]
    first_choice = np.where(first_choice < 0, rows.first_rows[:-1], first_choice)
    play = best_play(rows, arena.is_max, first_choice, work)
    upper_proof = None if play is None else upper(arena, play, work)
    if play is None or upper_proof is None:
        raise InvalidInput(
            "No bound can be proven at discount 1: plays are too long for float64; give "
            "horizon= or a discount below 1."
        )
    lower_proof = lower(arena, play, work)
    if lower_proof is None:
        if totals.signed:
            raise InvalidInput(
                "No lower bound can be proven at discount 1: plays are too long for "
                "float64; give horizon= or a discount below 1."
            )
        lower_proof = zero_bound(arena, play)
    chosen_rows = np.flatnonzero(keep_row)[rows.row[play.choice]]
    lower_values, upper_values = (
        lower_proof.x.sum(axis=0)[:-1],
        upper_proof.x.sum(axis=0)[:-1],
    )
    enclosure.low[is_open], enclosure.high[is_open] = lower_values, upper_values
    enclosure.value[is_open] = np.clip(
        lower_proof.near[:-1], lower_values, upper_values
    )
    enclosure.choice[is_open] = chosen_rows
    return enclosure


def _staying_rows(rows: Rows, zero: Bools) -> Ints:
    """(n,): a row that keeps the value 0, in the states of ``zero``; elsewhere -1."""
    keeps_zero = zero[rows.owner] & ~rows.pays & ~touches(rows, ~zero)
    choice = np.full(rows.size, -1, dtype=np.int64)
    staying_rows = np.flatnonzero(keeps_zero)[::-1]
    choice[rows.owner[staying_rows]] = (
        staying_rows  # the first of each state is written last
    )
    return choice


# --- from tables and back -----------------------------------------------------


def _totals(known: KnownModel) -> Totals:
    """The rows of the tables, with the reward's sign and unit taken out."""
    tables = known.tables
    num_states, num_actions = tables.legal.shape
    is_live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    entry_pair = np.repeat(np.arange(len(is_live)), np.diff(tables.start))
    is_used = is_live[entry_pair] & (tables.prob > 0.0)
    rewards = tables.reward[is_used]
    max_size = float(np.max(np.abs(rewards), initial=0.0))
    unit = 2.0 ** math.floor(math.log2(max_size)) if max_size > 0.0 else 1.0
    min_reward, max_reward = (
        float(np.min(rewards, initial=0.0)),
        float(np.max(rewards, initial=0.0)),
    )
    sign = -1.0 if max_reward <= 0.0 and min_reward < 0.0 else 1.0
    inner_states = np.flatnonzero(~tables.terminal)
    label = np.full(num_states, len(inner_states), dtype=np.int64)
    label[inner_states] = np.arange(len(inner_states))
    live_pairs = np.flatnonzero(is_live)
    row_lengths = np.bincount(entry_pair[is_used], minlength=len(is_live))[live_pairs]
    prob, scaled_rewards = tables.prob[is_used], (sign / unit) * rewards
    entry_row = np.repeat(np.arange(len(live_pairs)), row_lengths)
    rows = Rows(
        len(inner_states),
        label[live_pairs // num_actions],
        np.concatenate([[0], np.cumsum(row_lengths)]).astype(np.int64),
        label[tables.next_state[is_used]],
        prob,
        row_sums(entry_row, prob * scaled_rewards, len(live_pairs)),
        row_sums(entry_row, rewards != 0.0, len(live_pairs)) > 0,
        live_pairs,
    )
    is_max = tables.player[inner_states] == (1 if sign > 0.0 else 2)
    return Totals(
        rows,
        scaled_rewards,
        is_max,
        inner_states,
        sign,
        unit,
        min_reward < 0.0 < max_reward,
    )


def _assemble_solution(
    problem: Problem,
    known: KnownModel,
    totals: Totals,
    enclosure: Enclosure,
    work: SweepBudget,
) -> Solution:
    """The Solution, in the model's own units."""
    tables, reward_scale = known.tables, totals.sign * totals.unit
    shape = tables.legal.shape
    is_finite = np.isfinite(enclosure.high)
    lower_values, state_values, upper_values = (
        np.where(is_finite, bound_values, 0.0)
        for bound_values in (enclosure.low, enclosure.value, enclosure.high)
    )
    max_gap = float(
        np.max(
            np.maximum(upper_values - state_values, state_values - lower_values),
            initial=0.0,
        )
    )
    max_size = float(
        np.max(np.maximum(np.abs(lower_values), np.abs(upper_values)), initial=0.0)
    )
    longest_row = float(np.max(np.diff(totals.rows.start), initial=1))
    # bounds are sums of two numbers; action values are sums of (probability times) a
    # reward and a value
    rounding = UNIT * (2.0 * longest_row + 12.0) * (max_size + 2.0)
    bound = SLACK * (max_gap + rounding)
    bound *= totals.unit
    values = np.zeros(shape[0])
    values[totals.state] = reward_scale * state_values
    q_values = _action_values(tables, totals, values, is_finite)
    values[totals.state[~is_finite]] = totals.sign * np.inf
    policy = np.zeros(shape)
    chosen_rows = np.where(
        enclosure.choice >= 0, enclosure.choice, totals.rows.first_rows[:-1]
    )
    policy.reshape(-1)[totals.rows.row[chosen_rows]] = 1.0
    policy[totals.state[~is_finite]] = np.nan
    return Solution(
        values=values,
        q_values=q_values,
        policy=policy,
        residual_bound=bound,
        method=NAME,
        sweeps=work.sweeps,
        seconds=0.0,
        **names_of(problem, known.states),
        note=_note(bound, totals.unit * max(1.0, max_size), work),
    )


def _action_values(
    tables: Tables, totals: Totals, values: Floats, finite: Bools
) -> Floats:
    """(S, A): r + E V of every live pair; ``values`` hold 0 where V is infinite."""
    rows, num_rows = totals.rows, len(totals.rows.owner)
    next_values = np.append(values[totals.state], 0.0)[rows.target]
    rewards = totals.sign * totals.unit * totals.paid
    mean_values = row_sums(
        rows.entry_row, rows.weight * (rewards + next_values), num_rows
    )
    mean_values[touches(rows, ~finite)] = totals.sign * np.inf
    q_values = np.full(tables.legal.size, np.nan)
    q_values[rows.row] = mean_values
    return q_values.reshape(tables.legal.shape)


def _note(bound: float, size: float, work: SweepBudget) -> str:
    if bound <= DEFAULT_TOLERANCE * size:
        return ""
    if work.over() is not None:
        return f"The search was stopped early, and its policies prove {bound:.3g}."
    return (
        f"the aim of {DEFAULT_TOLERANCE * size:.3g} (1e-10 of the largest reward or "
        "value) is below what the rounding of float64 proves for plays as long as here "
        f"({bound:.3g})"
    )


def _state_name(known: KnownModel, state: int) -> Any:
    return state if known.states is None else known.states[state]
