"""The levels of the frontier that a root may sample, with their prices.

For each level there is a price of closing epsilon at delta; the cheapest few
are kept.

The frontier is walked only as far as a cheaper level may still come. This file
leaves out the frontier (``frontier``, ``frontier_horizon``), and the table that
a candidate becomes (``optimizer``).
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
from smoothcruiser.schedule.compiler.draft import (
    LevelTable,
    root_log_draws,
    total_log_price,
)
from smoothcruiser.schedule.compiler.frontier import SAMPLE_GRID, Frontier
from smoothcruiser.schedule.compiler.frontier_horizon import StagedFrontier
from smoothcruiser.schedule.kinds import KINDS, Kinds
from smoothcruiser.schedule.reach import is_staged
from smoothcruiser.schedule.schedule import Target
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import backup, constant
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
    def has_range(self) -> bool:
        """Whether its samples have a range."""
        return bool(self.table.has_range[self.index])


@lru_cache(maxsize=8)
def frontier_of(facts: Facts, kinds: Kinds) -> Frontier | StagedFrontier:
    """Return the frontier of ``facts``.

    It is cached, because it does not depend on the promise.
    """
    # Without a choice F is the identity, and following the only action is enough.
    if facts.num_actions == 1:
        unasked_kinds = frozenset(kind for kind in kinds if not KINDS[kind].asks)
        kinds = (
            unasked_kinds
            if any(KINDS[kind].goes_on for kind in unasked_kinds)
            else kinds
        )
    if is_staged(facts):
        return StagedFrontier(ground(facts), kinds)
    # For a long horizon, levels are chosen as without one and laid out by stages later.
    return Frontier(ground(replace(facts, horizon=None)), kinds)


def _root_sources(
    front: Frontier | StagedFrontier, target: Target
) -> list[tuple[Target, LevelTable]]:
    """Return the targets a root may sample for ``target``, with their tables."""
    root_targets: tuple[Target, ...] = (
        ("q_values",) if target == "q_values" else ("value", "q_values")
    )
    return [
        (root_target, front.root_table(root_target)) for root_target in root_targets
    ]


def level_of(facts: Facts, target: Target, delta: float) -> float:
    """Return log(2 K/delta), for a union bound over the means that the root takes."""
    return math.log(2.0 * (facts.num_actions if target == "q_values" else 1) / delta)


def _root_prices(
    facts: Facts,
    table: LevelTable,
    target: Target,
    epsilon: float,
    delta: float,
    levels: int,
) -> np.ndarray:
    """Return the log of the promise's price over the first ``levels`` of ``table``."""
    bias, spread, variance, log_cost = table.root_draws(target, levels)
    log_price: np.ndarray = total_log_price(
        root_log_draws(
            epsilon - bias, spread, variance, level_of(facts, target, delta)
        ),
        log_cost,
    )
    return log_price


def _fewest_log_draws(
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

    First come a few with samples that have a range, then a few randomized ones.
    """
    frontier = frontier_of(facts, kinds)
    found_candidates: list[Candidate] = []
    for stop_number in count():
        stop = frontier.stop(stop_number)
        if stop is None:
            break
        found_candidates, later_levels = [], []
        for root_target, table in _root_sources(frontier, target):
            num_levels = min(stop.levels, len(table))
            log_prices = _root_prices(
                facts, table, root_target, epsilon, delta, num_levels
            )
            has_range = table.has_range[:num_levels]
            for group_levels, is_plain in (
                (np.nonzero(has_range)[0], True),
                (np.nonzero(~has_range)[0], False),
            ):
                if len(group_levels) == 0:
                    continue
                price_order = np.argsort(log_prices[group_levels], kind="stable")[
                    : 4 * POLISHED : 4
                ]
                picked_candidates = [
                    Candidate(float(log_prices[index]), root_target, table, int(index))
                    for index in group_levels[price_order]
                    if log_prices[index] < math.inf
                ]
                found_candidates += picked_candidates
                # later levels cost at least their price with a bias of 0
                fewest_log_draws = _fewest_log_draws(
                    facts, table, root_target, epsilon, delta, int(group_levels[-1])
                )
                least_price, least_plain = (
                    fewest_log_draws + _root_log_cost(facts, root_target, floor)
                    for floor in (stop.floor, stop.plain_floor)
                )
                last_price = (
                    picked_candidates[-1].log_price
                    if len(picked_candidates) == POLISHED
                    else math.inf
                )
                later_levels.append(
                    _LaterLevels(is_plain, least_price, least_plain, last_price)
                )
        found_candidates.sort(key=lambda candidate: candidate.log_price)
        if found_candidates and _is_over(found_candidates, later_levels):
            break
    if not found_candidates:
        num_levels, num_digits = _chain_price(facts, epsilon)
        raise Unpayable(
            f"No schedule for epsilon={epsilon:g} at discount {facts.discount:g} that "
            "could be paid or even written down: a chain of about "
            f"{num_levels} levels would take some 10^{num_digits:.0f} oracle calls; "
            "ask for a larger epsilon or temperature, or use a method "
            "without a worst-case promise."
        )
    return [
        candidate
        for is_bounded in (True, False)
        for candidate in [
            candidate
            for candidate in found_candidates
            if candidate.has_range is is_bounded
        ][:POLISHED]
    ]


class _LaterLevels(NamedTuple):
    """Lower bounds on the log prices of levels that the walk has not reached.

    ``last`` is the price of the last candidate of the group, infinite if the group
    is not full.
    """

    plain: bool
    least: float
    least_plain: float
    last: float


def _root_log_cost(facts: Facts, root_target: Target, log_cost: float) -> float:
    """Return the log price of one root sample over levels of price ``log_cost``."""
    if root_target == "value":
        return log_cost
    return float(np.logaddexp(0.0, log_cost)) + math.log(facts.num_actions)


def _is_over(
    found_candidates: list[Candidate], later_levels: list[_LaterLevels]
) -> bool:
    """Whether no level to come can be among the candidates that count.

    These are the few of plain kinds, and the cheapest randomized one unless it is so
    dear that it cannot win.
    """
    plain_price, random_price = (
        min(
            (
                candidate.log_price
                for candidate in found_candidates
                if candidate.has_range is is_bounded
            ),
            default=-math.inf,
        )
        for is_bounded in (True, False)
    )
    if (
        min(group.least for group in later_levels)
        > max(plain_price, random_price) + _MARGIN
    ):
        return True
    no_price = -math.inf
    if plain_price == no_price or (
        random_price == no_price and not all(g.plain for g in later_levels)
    ):
        return False
    useful_price = min(random_price, plain_price + PROMISING)
    return all(
        group.least_plain > group.last + _WIDE_MARGIN
        if group.plain
        else group.least > useful_price + _WIDE_MARGIN
        for group in later_levels
    )


def _chain_price(facts: Facts, epsilon: float) -> tuple[int, float]:
    """Return (levels, log10 of the price) of equal plug-ins that end at width epsilon.

    Each level may add (1 - gamma) epsilon.
    """
    base = ground(facts)
    first_backup = backup(base, constant(base, facts.horizon), facts.horizon)
    num_levels = facts.horizon or math.ceil(
        math.log(max(2.0, float(np.max(first_backup.bias_span)) / epsilon))
        / -math.log(facts.discount)
    )
    loss_per_level = (
        epsilon / num_levels
        if facts.discount == 1.0
        else epsilon * (1.0 - facts.discount)
    )
    spread = float(np.max(base.q_box(facts.horizon)))
    grid_noise = plug_in_noise(base.rule, SAMPLE_GRID, spread, spread * spread / 4.0)
    samples = float(
        SAMPLE_GRID[
            min(
                int(np.argmax(grid_noise <= loss_per_level))
                if np.any(grid_noise <= loss_per_level)
                else -1,
                len(SAMPLE_GRID) - 1,
            )
        ]
    )
    return num_levels, (num_levels + 1) * math.log10(facts.num_actions * samples)


def affordable(
    facts: Facts, kinds: Kinds, log_budget: float, delta: float, target: Target
) -> float:
    """Return the smallest epsilon that a level keeps within the budget, unpolished."""
    frontier = frontier_of(facts, kinds)
    best_epsilon = math.inf
    for stop_number in count():
        stop = frontier.stop(stop_number)
        if stop is None:
            break
        for root_target, table in _root_sources(frontier, target):
            level = level_of(facts, root_target, delta)
            bias, spread, variance, log_cost = table.root_draws(
                root_target, stop.levels
            )
            # below 0: unpayable; after e^80 samples the radius is 0 in a double
            log_draws = np.clip(log_budget - log_cost, -1.0, 80.0)
            level_share = level * np.exp(-log_draws)
            second_radius = np.sqrt(2.0 * variance * level_share)
            finite_spread = np.where(np.isinf(spread), 0.0, spread)
            radius = np.where(
                np.isinf(spread),
                second_radius,
                np.minimum(
                    spread * np.sqrt(level_share / 2.0),
                    second_radius + finite_spread * level_share / 3.0,
                ),
            )
            best_epsilon = min(
                best_epsilon,
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
        narrowest_span = float(
            np.min(frontier.root_table("q_values").bias_span[: stop.levels])
        )
        if stop.floor > log_budget or narrowest_span < _NARROWEST * best_epsilon:
            break
    return best_epsilon
