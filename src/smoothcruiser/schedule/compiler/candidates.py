"""The levels of the frontier that a root may sample, and what each would cost.

For each level there is a price of closing epsilon at delta; the cheapest few
are kept.

The frontier is walked only as far as a cheaper level may still come. What this
file leaves out: the frontier (``frontier``, ``frontier_horizon``), and the table
that a candidate becomes (``optimizer``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from smoothcruiser.errors import Unpayable
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.draft import priced, root_log_draws
from smoothcruiser.schedule.compiler.frontier import SAMPLE_GRID, Frontier
from smoothcruiser.schedule.compiler.frontier_horizon import StagedFrontier
from smoothcruiser.schedule.compiler.level_table import LevelTable
from smoothcruiser.schedule.kinds import KINDS, Kinds
from smoothcruiser.schedule.reach import is_staged
from smoothcruiser.schedule.schedule import Target
from smoothcruiser.theory.ground import ground
from smoothcruiser.theory.leaves import constant
from smoothcruiser.theory.moments import backup
from smoothcruiser.theory.noise import plug_in_noise

POLISHED = 3  # candidates that become drafts, of which the cheapest is taken
# in log price: the range and the variance of a sample may still change along the walk
_MARGIN, _WIDE_MARGIN = 0.02, 0.1
# Of log price, before both are polished: a randomized table that is dearer by more
# than this will not become cheaper than the plain one.
PROMISING = 0.4
# of epsilon: there the bias takes 1% of epsilon, which costs 2% of the root's samples
_NARROWEST = 1.0 / 50.0


@dataclass(frozen=True)
class Candidate:
    """A level that a root can sample, with the log of the price."""

    log_price: float
    target: Target
    table: LevelTable
    index: int

    @property
    def bounded(self) -> bool:
        """Whether its samples have a range."""
        return bool(self.table.bounded[self.index])


@lru_cache(maxsize=8)
def frontier_of(facts: Facts, kinds: Kinds) -> Frontier | StagedFrontier:
    """Return the frontier of ``facts``.

    It is cached, because it does not depend on the promise.
    """
    # Without a choice F is the identity, and following the only action is enough.
    if facts.num_actions == 1:
        unasked = frozenset(kind for kind in kinds if not KINDS[kind].asks)
        kinds = unasked if any(KINDS[kind].goes_on for kind in unasked) else kinds
    if is_staged(facts):
        return StagedFrontier(ground(facts), kinds)
    # For a long horizon, levels are chosen as without one and laid out by stages later.
    return Frontier(ground(replace(facts, horizon=None)), kinds)


def _sources(
    front: Frontier | StagedFrontier, target: Target
) -> list[tuple[Target, LevelTable]]:
    """Return what a root may sample for ``target``, and the tables of those levels."""
    targets: tuple[Target, ...] = (
        ("q_values",) if target == "q_values" else ("value", "q_values")
    )
    return [(t, front.root_table(t)) for t in targets]


def level_of(facts: Facts, target: Target, delta: float) -> float:
    """Return log(2 K/delta), for a union bound over the means that the root takes."""
    return math.log(2.0 * (facts.num_actions if target == "q_values" else 1) / delta)


def _prices(
    facts: Facts,
    table: LevelTable,
    target: Target,
    epsilon: float,
    delta: float,
    levels: int,
) -> np.ndarray:
    """Return the log of the promise's price over the first ``levels`` of ``table``."""
    bias, spread, variance, price = table.root_draws(target, levels)
    log_price: np.ndarray = priced(
        root_log_draws(
            epsilon - bias, spread, variance, level_of(facts, target, delta)
        ),
        price,
    )
    return log_price


def _fewest(
    facts: Facts,
    table: LevelTable,
    target: Target,
    epsilon: float,
    delta: float,
    index: int,
) -> float:
    """Return the log of the root's samples of a level, if its bias were 0."""
    _, spread, variance, _ = (
        x[index : index + 1] for x in table.root_draws(target, index + 1)
    )
    level = level_of(facts, target, delta)
    return float(root_log_draws(np.array([epsilon]), spread, variance, level)[0])


def candidates(
    facts: Facts, kinds: Kinds, epsilon: float, delta: float, target: Target
) -> list[Candidate]:
    """Return the cheapest few levels to sample at the root, cheapest first.

    There are few whose samples have a range, and then few of randomized ones.
    """
    front = frontier_of(facts, kinds)
    found: list[Candidate] = []
    for number in count():
        stop = front.stop(number)
        if stop is None:
            break
        found, later = [], []
        for draw, table in _sources(front, target):
            levels = min(stop.levels, len(table))
            prices = _prices(facts, table, draw, epsilon, delta, levels)
            bounded = table.bounded[:levels]
            for group, plain in (
                (np.nonzero(bounded)[0], True),
                (np.nonzero(~bounded)[0], False),
            ):
                if len(group) == 0:
                    continue
                order = np.argsort(prices[group], kind="stable")[: 4 * POLISHED : 4]
                picked = [
                    Candidate(float(prices[i]), draw, table, int(i))
                    for i in group[order]
                    if prices[i] < math.inf
                ]
                found += picked
                # later levels cost at least what they would with a bias of 0
                draws = _fewest(facts, table, draw, epsilon, delta, int(group[-1]))
                least, least_plain = (
                    draws + _of_root(facts, draw, each)
                    for each in (stop.floor, stop.plain_floor)
                )
                last = picked[-1].log_price if len(picked) == POLISHED else math.inf
                later.append(_Later(plain, least, least_plain, last))
        found.sort(key=lambda c: c.log_price)
        if found and _is_over(found, later):
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
    return [
        c
        for kind in (True, False)
        for c in [c for c in found if c.bounded is kind][:POLISHED]
    ]


class _Later(NamedTuple):
    """What levels that the walk has not come to cost at least: logs of prices.

    ``last`` is the price of the last candidate of the group, infinite if there is
    room for another.
    """

    plain: bool
    least: float
    least_plain: float
    last: float


def _of_root(facts: Facts, draw: Target, each: float) -> float:
    """Return the log of what a root pays for one sample over levels of price ``each``."""
    if draw == "value":
        return each
    return float(np.logaddexp(0.0, each)) + math.log(facts.num_actions)


def _is_over(found: list[Candidate], later: list[_Later]) -> bool:
    """Whether no level to come can be among the candidates that count.

    These are the few of plain kinds, and the cheapest randomized one unless it is so
    dear that nobody would take it.
    """
    plain, random = (
        min((c.log_price for c in found if c.bounded is kind), default=-math.inf)
        for kind in (True, False)
    )
    if min(group.least for group in later) > max(plain, random) + _MARGIN:
        return True
    missing = -math.inf
    if plain == missing or (random == missing and not all(g.plain for g in later)):
        return False
    counts = min(random, plain + PROMISING)
    return all(
        group.least_plain > group.last + _WIDE_MARGIN
        if group.plain
        else group.least > counts + _WIDE_MARGIN
        for group in later
    )


def _chain(facts: Facts, epsilon: float) -> tuple[int, float]:
    """Return (levels, log10 of the price) of equal plug-ins that end at width epsilon.

    Each level may add (1 - gamma) epsilon.
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


def affordable(
    facts: Facts, kinds: Kinds, log_budget: float, delta: float, target: Target
) -> float:
    """Return the smallest epsilon that a level keeps within the budget, unpolished."""
    front = frontier_of(facts, kinds)
    best = math.inf
    for number in count():
        stop = front.stop(number)
        if stop is None:
            break
        for draw, table in _sources(front, target):
            level = level_of(facts, draw, delta)
            bias, spread, variance, price = table.root_draws(draw, stop.levels)
            # below 0: unpayable; after e^80 samples the radius is 0 in a double
            log_draws = np.clip(log_budget - price, -1.0, 80.0)
            each = level * np.exp(-log_draws)
            second = np.sqrt(2.0 * variance * each)
            ranged = np.where(np.isinf(spread), 0.0, spread)
            radius = np.where(
                np.isinf(spread),
                second,
                np.minimum(spread * np.sqrt(each / 2.0), second + ranged * each / 3.0),
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
