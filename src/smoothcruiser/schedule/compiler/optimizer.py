"""The schedule compiler: the cheapest table of levels that keeps a promise, and
the best promise that a budget keeps.

  frontier   the cheapest estimator of every width, whatever epsilon is                                 (``frontier``, ``stages``)
  root       for each of them the draws that close epsilon at delta; the cheapest of all is the plan
  polish     counts moved together, then lowered until the promise holds with nothing to spare           (``plan``)
  looks      where an early stop can pay: counts at which the data are looked at, for at most 10% more in the worst case

legend   symbol           name
  epsilon, delta          the promise: |answer - truth| <= epsilon with probability 1 - delta, for every action value or the value
  target                  "q_values" or "value"; for "value" the root may draw either, whichever is cheaper
  K, C                    ``num_actions``, ``log_calls``

What this file leaves out: running the plan (``execute``), refusing a price
(``api``), the proofs (docs/theory.md, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count

import numpy as np

from smoothcruiser.errors import BrokenPromise, InvalidInput, Unpayable
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.draft import (
    Plan,
    Row,
    polish,
    priced,
    root_log_draws,
    tighten,
)
from smoothcruiser.schedule.compiler.frontier import (
    LOG_HOPELESS,
    SAMPLE_GRID,
    Choice,
    Frontier,
    Kinds,
    Table,
)
from smoothcruiser.schedule.compiler.frontier_horizon import StagedFrontier
from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule, Target
from smoothcruiser.theory.moments import backup, constant, ground
from smoothcruiser.theory.noise import plug_in_noise
from smoothcruiser.theory.stopping import choose_looks

ALL_KINDS: Kinds = frozenset(Kind)
SPARSE_SAMPLING_KINDS: Kinds = frozenset({Kind.CONSTANT, Kind.PLUGIN})

# of delta: raises log(2K/delta) by log(1/0.9) = 0.105, some 2-3% of the price,
# within the 10% below
_ADAPTIVE_SHARE = 0.1
# beyond, a count is no longer a float, and rounding alone may break a promise by a
# draw
LARGEST_EXACT = 2**53
# the worst-case price with looks, at the most, in percent of that without (prices
# are integers beyond 10^1000)
_ADAPTIVE_PERCENT = 110
# in log price: the range of a draw may still grow or shrink a little along the walk
_MARGIN = 0.02
# of epsilon: there the bias takes 1% of epsilon, 2% of the root's draws
_NARROWEST = 1.0 / 50.0
_POLISHED = 3  # plans polished before the cheapest is taken
_LONG = 24  # rows beyond which only the cheapest plan is polished
# in units of 1/(1 - gamma): there the value bounds are within e^-3 = 5% of those
# without a horizon
_LONG_HORIZON = 3.0
_MOST_ROWS = 5000  # of a table; a longer one is refused with its price
# halvings of the interval (0.85, 1) times the frontier's answer, in logarithms: to
# within 1%
_INVERSE_STEPS = 4


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
    """The cheapest schedule found that keeps (epsilon, delta) on every problem
    with these facts; verified when it is made.
    """
    _check(facts, epsilon, delta, target)
    plan = _best_plan(
        facts, frozenset(kinds) | {Kind.CONSTANT}, float(epsilon), float(delta), target
    )
    fixed = _close(plan, float(delta), 0.0)
    if adaptive:
        looking = _close(plan, float(delta), _ADAPTIVE_SHARE * float(delta))
        if (
            looking.root.looks
            and 100 * looking.num_calls <= _ADAPTIVE_PERCENT * fixed.num_calls
        ):
            return _schedule(looking, float(delta), method)
    return _schedule(fixed, float(delta), method)


def sparse_sampling(
    facts: Facts,
    *,
    epsilon: float,
    delta: float,
    target: Target = "q_values",
    adaptive: bool = True,
    method: str = "sparse-sampling",
) -> Schedule:
    """The cheapest schedule of plug-ins and constants alone: Kearns, Mansour
    and Ng's sparse sampling in the same sharp form.
    """
    return compile_schedule(
        facts,
        epsilon=epsilon,
        delta=delta,
        target=target,
        kinds=SPARSE_SAMPLING_KINDS,
        adaptive=adaptive,
        method=method,
    )


def smallest_epsilon(
    facts: Facts,
    *,
    budget: int,
    delta: float,
    target: Target = "q_values",
    kinds: Iterable[Kind] = ALL_KINDS,
    adaptive: bool = False,
) -> float:
    """The smallest epsilon found whose schedule costs at most ``budget`` oracle
    calls.
    """
    _check(facts, 1.0, delta, target)
    if budget < facts.num_actions:
        raise InvalidInput(
            f"A budget must allow one call an action, {facts.num_actions} here, "
            f"got {budget}; raise the budget."
        )
    chosen = frozenset(kinds) | {Kind.CONSTANT}
    high = _affordable(facts, chosen, math.log(budget), float(delta), target)
    if high <= 0.0:
        return 0.0

    def payable(epsilon: float) -> bool:
        plan = _best_plan(facts, chosen, epsilon, float(delta), target)
        closed = _close(
            plan, float(delta), _ADAPTIVE_SHARE * float(delta) if adaptive else 0.0
        )
        return closed.num_calls <= budget

    # the frontier's answer ignores the rounding at the root and the looks
    while not payable(high):
        high *= 1.02
    low = 0.85 * high
    # polishing makes a plan cheaper than its place on the frontier: take what that
    # leaves
    for _ in range(_INVERSE_STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if payable(middle) else (middle, high)
    return high


# --- which level the root draws from ------------------------------------------


def _check(facts: Facts, epsilon: float, delta: float, target: Target) -> None:
    if not (isinstance(epsilon, int | float) and 0.0 < epsilon < math.inf):
        raise InvalidInput(
            f"epsilon must be a finite number above 0, got {epsilon!r}; it is the "
            "largest error you accept."
        )
    if not (isinstance(delta, int | float) and 0.0 < delta < 1.0):
        raise InvalidInput(
            f"delta must lie strictly between 0 and 1, got {delta!r}; it is the "
            "probability that the promise may fail."
        )
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    ground(facts)  # refuses operators and discounts that the analysis does not cover


@lru_cache(maxsize=8)
def _frontier(facts: Facts, kinds: Kinds) -> Frontier | StagedFrontier:
    """The frontier of ``facts``, kept between calls: it does not depend on the
    promise.
    """
    # without a choice F is the identity: one draw along the only action is all
    # there is
    if facts.num_actions == 1:
        kinds = kinds & {Kind.CONSTANT, Kind.BLIND} if Kind.BLIND in kinds else kinds
    if (
        facts.horizon is not None
        and facts.horizon * (1.0 - facts.discount) < _LONG_HORIZON
    ):
        return StagedFrontier(ground(facts), kinds)
    # a long horizon: levels as without one, laid out by stages afterwards
    return Frontier(ground(replace(facts, horizon=None)), kinds)


def _sources(
    front: Frontier | StagedFrontier, target: Target
) -> list[tuple[Target, Table]]:
    """The draws a root may make for ``target``, and the tables their levels
    stand in.
    """
    targets: tuple[Target, ...] = (
        ("q_values",) if target == "q_values" else ("value", "q_values")
    )
    return [(t, front.root_table(t)) for t in targets]


def _level_of(facts: Facts, target: Target, delta: float) -> float:
    return math.log(2.0 * (facts.num_actions if target == "q_values" else 1) / delta)


def _prices(
    facts: Facts,
    table: Table,
    target: Target,
    epsilon: float,
    delta: float,
    levels: int,
) -> np.ndarray:
    """Log of the price of the promise over each of the first ``levels`` of
    ``table``.
    """
    bias, spread, variance, price = table.root_draws(target, levels)
    log_price: np.ndarray = priced(
        root_log_draws(
            epsilon - bias, spread, variance, _level_of(facts, target, delta)
        ),
        price,
    )
    return log_price


def _candidates(
    facts: Facts, kinds: Kinds, epsilon: float, delta: float, target: Target
) -> list[Candidate]:
    """The cheapest few levels to draw from, cheapest first."""
    front = _frontier(facts, kinds)
    found: list[Candidate] = []
    for number in count():
        stop = front.stop(number)
        if stop is None:
            break
        # what the levels to come cost at least: a bias of 0 is the best they can
        # have
        found, still = [], math.inf
        for draw, table in _sources(front, target):
            prices = _prices(facts, table, draw, epsilon, delta, stop.levels)
            order = np.argsort(prices, kind="stable")[: 4 * _POLISHED : 4]
            found += [
                Candidate(float(prices[i]), draw, table, int(i))
                for i in order
                if prices[i] < math.inf
            ]
            _, spread, variance, _ = (
                x[-1:] for x in table.root_draws(draw, stop.levels)
            )
            draws = float(
                root_log_draws(
                    np.array([epsilon]), spread, variance, _level_of(facts, draw, delta)
                )[0]
            )
            each = (
                stop.floor
                if draw == "value"
                else float(np.logaddexp(0.0, stop.floor)) + math.log(facts.num_actions)
            )
            still = min(still, draws + each)
        found.sort(key=lambda c: c.log_price)
        if found and still > found[0].log_price + _MARGIN:
            break
    if not found:
        levels, digits = _chain(facts, epsilon)
        raise Unpayable(
            f"No schedule for epsilon={epsilon:g} at discount {facts.discount:g} that "
            "could be paid or even written down: a chain of about "
            f"{levels} levels would take some 10^{digits:.0f} oracle calls; ask for a "
            "larger epsilon or temperature, or use a method "
            "without a worst-case promise."
        )
    return found[:_POLISHED]


def _chain(facts: Facts, epsilon: float) -> tuple[int, float]:
    """(levels, log10 of the price) of equal plug-ins that end at width epsilon:
    each may add (1 - gamma) epsilon.
    """
    base = ground(facts)
    draw = backup(base, constant(base, facts.horizon), facts.horizon)
    levels = facts.horizon or math.ceil(
        math.log(max(2.0, float(np.max(draw.tilt)) / epsilon))
        / -math.log(facts.discount)
    )
    room = (
        epsilon / levels if facts.discount == 1.0 else epsilon * (1.0 - facts.discount)
    )
    spread = float(np.max(base.q_box(facts.horizon)))
    noise = plug_in_noise(base.rule, SAMPLE_GRID, spread, spread * spread / 4.0)
    samples = float(
        SAMPLE_GRID[
            min(
                int(np.argmax(noise <= room)) if np.any(noise <= room) else -1,
                len(SAMPLE_GRID) - 1,
            )
        ]
    )
    return levels, (levels + 1) * math.log10(facts.num_actions * samples)


def _affordable(
    facts: Facts, kinds: Kinds, log_budget: float, delta: float, target: Target
) -> float:
    """The smallest epsilon that some level of the frontier keeps within the
    budget, unpolished.
    """
    front = _frontier(facts, kinds)
    best = math.inf
    for number in count():
        stop = front.stop(number)
        if stop is None:
            break
        for draw, table in _sources(front, target):
            level = _level_of(facts, draw, delta)
            bias, spread, variance, price = table.root_draws(draw, stop.levels)
            # below 0 unpayable; after e^80 draws the radius is 0 in double
            # precision
            log_draws = np.clip(log_budget - price, -1.0, 80.0)
            each = level * np.exp(-log_draws)
            radius = np.minimum(
                spread * np.sqrt(each / 2.0),
                np.sqrt(2.0 * variance * each) + spread * each / 3.0,
            )
            best = min(
                best,
                float(
                    np.min(
                        np.where(
                            log_draws >= 0.0,
                            bias + np.minimum(radius, spread),
                            math.inf,
                        )
                    )
                ),
            )
        narrowest = float(np.min(front.root_table("q_values").tilt[: stop.levels]))
        if stop.floor > log_budget or narrowest < _NARROWEST * best:
            break
    return best


# --- from a level to a table --------------------------------------------------


def _best_plan(
    facts: Facts, kinds: Kinds, epsilon: float, delta: float, target: Target
) -> Plan:
    front = _frontier(facts, kinds)
    plans = [
        _plan(facts, front, c, epsilon, delta)
        for c in _candidates(facts, kinds, epsilon, delta, target)
    ]
    if _hopeless(plans[0]):
        return plans[0]
    plans = [
        polish(plan) for plan in plans[: 1 if len(plans[0].rows) > _LONG else _POLISHED]
    ]
    return min(plans, key=lambda plan: float(plan.log_price()[0]))


def _plan(
    facts: Facts,
    front: Frontier | StagedFrontier,
    candidate: Candidate,
    epsilon: float,
    delta: float,
) -> Plan:
    """The rows under ``candidate``, each once for every number of remaining
    steps, children first, wide before narrow.
    """
    needed: dict[tuple[int, int], Choice] = {}
    horizon = (
        facts.horizon
        if candidate.target == "value" or facts.horizon is None
        else facts.horizon - 1
    )
    stack = [(candidate.table, candidate.index, horizon or 0)]
    down = 0 if horizon is None else 1
    while stack:
        table, index, stage = stack.pop()
        # no steps left: the exact constant
        index = 0 if horizon is not None and stage == 0 else index
        if (stage, index) in needed:
            continue
        choice = Choice(Kind.CONSTANT) if index == 0 else table.choices[index]
        needed[stage, index] = choice
        if len(needed) > _MOST_ROWS:
            raise Unpayable(
                f"The schedule for epsilon={epsilon:g} needs a table of more than "
                f"{_MOST_ROWS} levels and "
                f"10^{candidate.log_price / math.log(10.0):.1f} oracle calls; ask for "
                "a larger epsilon or temperature, or a shorter horizon."
            )
        stack.extend(
            (front.child_table(table), child, stage - down)
            for child in (choice.query, choice.continuation)
            if child >= 0
        )
    place = {key: i for i, key in enumerate(sorted(needed))}
    rows: list[Row] = []
    for stage, index in sorted(needed):
        choice = needed[stage, index]
        below = stage - down
        under = [
            i if i < 0 else place[below, 0 if down and below == 0 else i]
            for i in (choice.query, choice.continuation)
        ]
        rows.append(
            Row(
                choice.kind,
                choice.samples,
                under[0],
                under[1],
                None if horizon is None else stage,
            )
        )
    return Plan(
        ground(facts),
        tuple(rows),
        candidate.target,
        epsilon,
        _level_of(facts, candidate.target, delta),
    )


@dataclass(frozen=True)
class Closed:
    """A plan with its root: what a schedule is made of."""

    plan: Plan
    root: Root

    @property
    def num_calls(self) -> int:
        """The price, exactly."""
        k = self.plan.base.facts.num_actions
        calls: list[int] = []
        for row in self.plan.rows:
            query = k * row.samples * (1 + calls[row.query]) if row.query >= 0 else 0
            calls.append(
                query + (1 + calls[row.continuation] if row.continuation >= 0 else 0)
            )
        return self.root.samples * (
            calls[-1] if self.root.target == "value" else k * (1 + calls[-1])
        )


def _close(plan: Plan, delta: float, adaptive_delta: float) -> Closed:
    """``plan`` with the fewest root draws, then tight; and looks, for a share
    of delta.
    """
    facts = plan.base.facts
    plan = plan.at_level(_level_of(facts, plan.target, delta - adaptive_delta))
    closed = plan.root()
    assert closed is not None  # only plans with a finite price come here
    samples, bound = closed
    looks: tuple[int, ...] = ()
    if adaptive_delta > 0.0:
        bias, spread = (float(x[0]) for x in plan.draws()[:2])
        means = facts.num_actions if plan.target == "q_values" else 1
        looks = choose_looks(
            plan.epsilon - bias, spread, means, samples, adaptive_delta
        )
    if not _hopeless(plan):
        plan = tighten(plan, samples)
    return Closed(
        plan,
        Root(
            plan.target,
            samples,
            len(plan.rows) - 1,
            bound,
            looks,
            adaptive_delta if looks else 0.0,
        ),
    )


def _hopeless(plan: Plan) -> bool:
    """Whether nobody will run it: then its counts may stay a few percent off."""
    return float(plan.log_price()[0]) > LOG_HOPELESS


def _schedule(closed: Closed, delta: float, method: str) -> Schedule:
    plan = closed.plan
    levels = [
        _level(plan, row, float(m.shift[0]))
        for row, m in zip(plan.rows, plan.made, strict=True)
    ]
    facts = plan.base.facts
    try:
        return Schedule(
            method=method,
            facts=facts,
            levels=tuple(levels),
            root=closed.root,
            epsilon=plan.epsilon,
            delta=delta,
        )
    except BrokenPromise as error:
        if closed.num_calls <= LARGEST_EXACT:
            raise
        raise Unpayable(
            f"epsilon={plan.epsilon:g} asks for about {closed.num_calls:.2e} oracle "
            "calls, more than can be counted "
            "exactly; ask for a larger epsilon."
        ) from error


def _level(plan: Plan, row: Row, shift: float) -> Level:
    if row.kind is Kind.CONSTANT:
        guess = constant(plan.base, row.remaining)
        return Level(row.kind, constant=float(np.mean(guess.low)), shift=shift)
    return Level(row.kind, row.samples, row.query, row.continuation, shift=shift)
