"""The schedule compiler: the cheapest table of levels that keeps a promise, and the best promise that a budget keeps.

  frontier   the cheapest estimator of every width, whatever epsilon is                                 (``frontier``, ``stages``)
  root       for each of them the draws that close epsilon at delta; the cheapest of all is the plan
  polish     counts moved together, then lowered until the promise holds with nothing to spare           (``plan``)
  looks      where an early stop can pay: counts at which the data are looked at, for at most 10% more in the worst case

legend   symbol           name
  epsilon, delta          the promise: |answer - truth| <= epsilon with probability 1 - delta, for every action value or the value
  target                  "q_values" or "value"; for "value" the root may draw either, whichever is cheaper
  K, C                    ``num_actions``, ``log_calls``

What this file leaves out: running the plan (``execute``), refusing a price (``api``), the proofs (docs/theory.md, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.frontier import Frontier, Kinds, Table
from smoothcruiser.schedule.plan import Plan, Row, polish, priced, root_log_draws, tighten
from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule, Target
from smoothcruiser.schedule.stages import StagedFrontier
from smoothcruiser.theory.sharp import constant, ground
from smoothcruiser.theory.stopping import choose_looks, root_radius

ALL_KINDS: Kinds = frozenset(Kind)
SPARSE_SAMPLING_KINDS: Kinds = frozenset({Kind.CONSTANT, Kind.PLUGIN})

_ADAPTIVE_SHARE = 0.1  # of delta: raises log(2K/delta) by log(1/0.9) = 0.105, some 2-3% of the price, within the 10% below
_ADAPTIVE_PRICE = 1.1  # the looks may raise the worst-case price by this factor
_OVERRUN = 1.0  # the walk goes on until one draw of a level costs e times the best plan
_NARROWEST = 1.0 / 50.0  # of epsilon: there the bias takes 1% of epsilon, 2% of the root's draws
_POLISHED = 3  # plans polished before the cheapest is taken
_LONG = 24  # rows beyond which only the cheapest plan is polished
_BATCH = 24  # cells finished between two looks at the root
_INVERSE_STEPS = 5  # halvings of the interval (0.8, 1) times the frontier's answer, in logarithms: to within 0.7%


@dataclass(frozen=True)
class Candidate:
    """A level that a root can draw from, with the log of the price."""

    log_price: float
    target: Target
    table: Table
    index: int


def compile_schedule(
    facts: Facts,
    *,
    epsilon: float,
    delta: float,
    target: Target = "q_values",
    kinds: Iterable[Kind] = ALL_KINDS,
    adaptive: bool = True,
    method: str = "smoothcruiser",
) -> Schedule:
    """The cheapest schedule found that keeps (epsilon, delta) on every problem with these facts; verified when it is made."""
    _check(facts, epsilon, delta, target)
    plan = _best_plan(facts, frozenset(kinds) | {Kind.CONSTANT}, float(epsilon), float(delta), target)
    fixed = _schedule(plan, float(delta), method, adaptive_delta=0.0)
    if not adaptive:
        return fixed
    looking = _schedule(plan, float(delta), method, adaptive_delta=_ADAPTIVE_SHARE * float(delta))
    return looking if looking.root.looks and looking.num_calls <= _ADAPTIVE_PRICE * fixed.num_calls else fixed


def sparse_sampling(
    facts: Facts, *, epsilon: float, delta: float, target: Target = "q_values", adaptive: bool = True, method: str = "sparse-sampling"
) -> Schedule:
    """The cheapest schedule of plug-ins and constants alone: Kearns, Mansour and Ng's sparse sampling in the same sharp form."""
    return compile_schedule(
        facts, epsilon=epsilon, delta=delta, target=target, kinds=SPARSE_SAMPLING_KINDS, adaptive=adaptive, method=method
    )


def smallest_epsilon(
    facts: Facts, *, budget: int, delta: float, target: Target = "q_values", kinds: Iterable[Kind] = ALL_KINDS, adaptive: bool = False
) -> float:
    """The smallest epsilon found whose schedule costs at most ``budget`` oracle calls."""
    _check(facts, 1.0, delta, target)
    if budget < facts.num_actions:
        raise InvalidInput(f"A budget must allow one call an action, {facts.num_actions} here, got {budget}; raise the budget.")
    chosen = frozenset(kinds) | {Kind.CONSTANT}
    high = _affordable(facts, chosen, math.log(budget), float(delta), target)
    if high <= 0.0:
        return 0.0

    def price(epsilon: float) -> int:
        return compile_schedule(facts, epsilon=epsilon, delta=delta, target=target, kinds=chosen, adaptive=adaptive).num_calls

    high *= 1.0 + 1e-9
    while price(high) > budget:  # the adaptive share of delta, or a rounding at the root
        high *= 1.02
    low = 0.8 * high
    for _ in range(_INVERSE_STEPS):  # polishing makes a plan cheaper than its place on the frontier: take what that leaves
        middle = math.sqrt(low * high)
        low, high = (low, middle) if price(middle) <= budget else (middle, high)
    return high


# --- which level the root draws from -----------------------------------------------------------------------------------------


def _check(facts: Facts, epsilon: float, delta: float, target: Target) -> None:
    if not (isinstance(epsilon, int | float) and 0.0 < epsilon < math.inf):
        raise InvalidInput(f"epsilon must be a finite number above 0, got {epsilon!r}; it is the largest error you accept.")
    if not (isinstance(delta, int | float) and 0.0 < delta < 1.0):
        raise InvalidInput(f"delta must lie strictly between 0 and 1, got {delta!r}; it is the probability that the promise may fail.")
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    ground(facts)  # refuses operators and discounts that the analysis does not cover


@lru_cache(maxsize=8)
def _frontier(facts: Facts, kinds: Kinds) -> Frontier | StagedFrontier:
    """The frontier of ``facts``, kept between calls: it does not depend on the promise."""
    return Frontier(ground(facts), kinds) if facts.horizon is None else StagedFrontier(ground(facts), kinds)


def _sources(front: Frontier | StagedFrontier, target: Target) -> list[tuple[Target, Table]]:
    """The draws a root may make for ``target``, and the tables their levels stand in."""
    targets: tuple[Target, ...] = ("q_values",) if target == "q_values" else ("value", "q_values")
    return [(t, front.root_table(t)) for t in targets]


def _level_of(facts: Facts, target: Target, delta: float) -> float:
    return math.log(2.0 * (facts.num_actions if target == "q_values" else 1) / delta)


def _prices(facts: Facts, table: Table, target: Target, epsilon: float, delta: float) -> np.ndarray:
    """Log of the price of the promise over every level of ``table``."""
    bias, spread, variance, price = table.root_draws(target)
    log_price: np.ndarray = priced(root_log_draws(epsilon - bias, spread, variance, _level_of(facts, target, delta)), price)
    return log_price


def _candidates(facts: Facts, kinds: Kinds, epsilon: float, delta: float, target: Target) -> list[Candidate]:
    """The cheapest few levels to draw from, cheapest first."""
    front = _frontier(facts, kinds)
    while True:
        found: list[Candidate] = []
        for draw, table in _sources(front, target):
            prices = _prices(facts, table, draw, epsilon, delta)
            order = np.argsort(prices, kind="stable")[: 4 * _POLISHED : 4]
            found += [Candidate(float(prices[i]), draw, table, int(i)) for i in order if prices[i] < math.inf]
        found.sort(key=lambda c: c.log_price)
        last = front.root_table("q_values")
        done = found and (last.log_calls[len(last) - 1] > found[0].log_price + _OVERRUN or last.tilt[len(last) - 1] < _NARROWEST * epsilon)
        if done or not front.advance(_BATCH):
            break
    if not found:
        cheapest = float(last.log_calls[len(last) - 1]) / math.log(10.0)
        raise Unpayable(
            f"No schedule for epsilon={epsilon:g} within reach: already the narrowest level found, with a bias of "
            f"{float(last.tilt[len(last) - 1]) / 2.0:g}, costs 10^{cheapest:.0f} calls a draw; ask for a larger epsilon or temperature, "
            "or use a method without a worst-case promise."
        )
    return found[:_POLISHED]


def _affordable(facts: Facts, kinds: Kinds, log_budget: float, delta: float, target: Target) -> float:
    """The smallest epsilon that some level of the frontier keeps within the budget, unpolished."""
    front = _frontier(facts, kinds)
    while float(front.root_table("q_values").log_calls[len(front.root_table("q_values")) - 1]) < log_budget and front.advance(_BATCH):
        pass
    best = math.inf
    for draw, table in _sources(front, target):
        level = _level_of(facts, draw, delta)
        bias, spread, variance, price = table.root_draws(draw)
        for i in np.argsort(bias, kind="stable"):
            if bias[i] >= best:
                break
            if price[i] <= log_budget:
                n = math.floor(math.exp(min(log_budget - price[i], 60.0)) + 1e-6)
                best = min(best, float(bias[i]) + root_radius(max(1, n), float(spread[i]), float(variance[i]), level))
    return best


# --- from a level to a table -------------------------------------------------------------------------------------------------


def _best_plan(facts: Facts, kinds: Kinds, epsilon: float, delta: float, target: Target) -> Plan:
    front = _frontier(facts, kinds)
    plans = [_plan(front, c, epsilon, delta) for c in _candidates(facts, kinds, epsilon, delta, target)]
    if len(plans[0].rows) > _LONG:
        plans = plans[:1]
    plans = [polish(plan) for plan in plans]
    return min(plans, key=lambda plan: float(plan.log_price()[0]))


def _plan(front: Frontier | StagedFrontier, candidate: Candidate, epsilon: float, delta: float) -> Plan:
    """The rows under ``candidate``, each once, in the frontier's order: children first, wide before narrow."""
    needed: set[tuple[int, int]] = set()
    tables = {_stage(candidate.table): candidate.table}
    stack = [(candidate.table, candidate.index)]
    while stack:
        table, index = stack.pop()
        if (_stage(table), index) in needed:
            continue
        needed.add((_stage(table), index))
        choice = table.choices[index]
        for child in (choice.query, choice.continuation):
            if child >= 0:
                under = front.child_table(table)
                tables[_stage(under)] = under
                stack.append((under, child))
    place = {key: i for i, key in enumerate(sorted(needed))}
    rows: list[Row] = []
    for stage, index in sorted(needed):
        table, choice = tables[stage], tables[stage].choices[index]
        under_stage = stage if table.remaining is None else stage - 1
        query, continuation = (place[under_stage, i] if i >= 0 else -1 for i in (choice.query, choice.continuation))
        rows.append(Row(choice.kind, choice.samples, query, continuation, table.remaining))
    base = front.base
    return Plan(base, tuple(rows), candidate.target, epsilon, _level_of(base.facts, candidate.target, delta))


def _stage(table: Table) -> int:
    return 0 if table.remaining is None else table.remaining


def _schedule(plan: Plan, delta: float, method: str, *, adaptive_delta: float) -> Schedule:
    """The table of ``plan``, tight, with the fewest root draws and, for a share of delta, looks."""
    facts = plan.base.facts
    plan = replace(plan, level=_level_of(facts, plan.target, delta - adaptive_delta))
    closed = plan.root()
    assert closed is not None  # polishing only accepts finite prices
    samples, bound = closed
    looks: tuple[int, ...] = ()
    if adaptive_delta > 0.0:
        bias, spread = (float(x[0]) for x in plan.draws()[:2])
        means = facts.num_actions if plan.target == "q_values" else 1
        looks = choose_looks(plan.epsilon - bias, spread, means, samples, adaptive_delta)
    plan = tighten(plan, samples)
    levels = [_level(plan, row, float(m.shift[0])) for row, m in zip(plan.rows, plan.moments(), strict=True)]
    root = Root(plan.target, samples, len(levels) - 1, bound, looks, adaptive_delta if looks else 0.0)
    return Schedule(method=method, facts=facts, levels=tuple(levels), root=root, epsilon=plan.epsilon, delta=delta)


def _level(plan: Plan, row: Row, shift: float) -> Level:
    if row.kind is Kind.CONSTANT:
        guess = constant(plan.base, row.remaining)
        return Level(row.kind, constant=float(np.mean(guess.low)), shift=shift)
    return Level(row.kind, row.samples, row.query, row.continuation, shift=shift)
