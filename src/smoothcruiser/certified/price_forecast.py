"""The price of certified search, forecast before it runs, and the shares of delta.

The price depends on the problem: how many pairs of state and action matter, how noisy
they are, how early the bounds meet. For a number of pairs there is a number of calls
that certainly suffices. A bound knows n(N), the samples of each of N pairs that are
certainly enough under the worst law (``Bound.price``). The search steers its samples for
the first N n(N) calls of a query. Pairs that still have fewer than n(N) samples are then
brought there. So, whatever the steering did,

    2 N n(N) calls suffice,    3 N n(N) with a horizon,

where a third part allows for pairs that are sampled anew. Steered samples usually need
a small part of it.

legend   symbol      public name
  N                  ``num_pairs``: pairs of state and action in the memory when
                     the search ends
  n(N)               ``samples_per_pair``
  p_k                share of delta of the k-th pair that is ever sampled

Shares of delta: the number of pairs is usually not known before, so the k-th pair has
the share p_k that its bound gives it (``Bound.cost``). A table's number N is known: half
of delta is then shared evenly by its pairs, so that none pays more than log(2N), and
half in the order in which pairs are met. Either way the shares add up to at most 1.

This file decides when samples become equal, the promise of ``explain``, and the share of
each pair. The bounds hold for any shares that add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from smoothcruiser.certified.bounds import BOUNDS, DEFAULT, bound_of
from smoothcruiser.certified.bounds.base import Bound, shared_delta, value_rounding
from smoothcruiser.certified.graph import Graph
from smoothcruiser.certified.sweeps.ranges import largest_value, widest
from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.model.known_outcomes import has_rows
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.records.data import Data
from smoothcruiser.records.shapes import Count
from smoothcruiser.states.state_json import count_data

PAIRS = (10, 100, 1_000, 10_000, 100_000)


@dataclass(frozen=True)
class MostCalls:
    """Calls that certainly suffice for a number of pairs: a row in JSON."""

    pairs: int
    most_calls: Count


@dataclass(frozen=True)
class CertifiedForecast(Shown, Data):
    """The promise of a certified search and the most that it can cost.

    ``str()`` is a small table.
    """

    json_kind: ClassVar[str] = "certified-forecast"
    json_left_out: ClassVar[tuple[str, ...]] = ("num_calls", "levels")
    json_more: ClassVar[Mapping[str, Any]] = {
        "num_calls": Count | None,
        "bounds": tuple[MostCalls, ...],
    }

    facts: Facts
    epsilon: float | None  # None: the search stops at its budget or its seconds
    delta: float
    looks: int = 0  # calls that inspect the step before and after the search
    method: str = "certified"
    num_calls: None = None  # not known before the run
    levels: tuple[()] = ()  # it follows no schedule
    relative: float | None = None  # share of |V|, in place of epsilon
    bound: str = DEFAULT  # a word of ``certified.bounds.BOUNDS``
    priced: bool = True  # whether a bound on the price is known
    part: float = 1.0  # of delta, given out in the order in which pairs are met
    has_paths: bool = False  # beside it, which take a third of all calls at the most

    def most_calls(self, num_pairs: int) -> int | None:
        """Calls that certainly suffice if ``num_pairs`` pairs are met.

        None without an epsilon: the search then ends at its budget or its seconds. None
        too where no number is certain: at discount 1 without a horizon, and with
        ``min_probability``, because those bounds rest on the outcomes that are met.
        """
        if self.epsilon is None or not self.priced:
            return None
        search_calls = price_bound(
            self.facts,
            epsilon=self.epsilon,
            delta=self.part * self.delta,
            num_pairs=num_pairs,
            bound=bound_of(self.bound),
        )
        path_calls = -(-search_calls // 2) if self.has_paths else 0
        return self.looks + search_calls + path_calls

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Tuples (pairs, calls that certainly suffice); empty without an epsilon."""
        call_bounds = [(num_pairs, self.most_calls(num_pairs)) for num_pairs in PAIRS]
        return [
            (num_pairs, num_calls)
            for num_pairs, num_calls in call_bounds
            if num_calls is not None
        ]

    def json_flaw(self) -> str | None:
        """Why there is no price."""
        try:
            self.most_calls(1)
        except SmoothcruiserError as error:
            return str(error).rstrip(".")
        return None

    def more_data(self) -> dict[str, Any]:
        """Bounds on the price, by the number of pairs that are met."""
        bounds = [
            {"pairs": num_pairs, **count_data("most_calls", num_calls)}
            for num_pairs, num_calls in self.bounds
        ]
        return {"num_calls": None, "bounds": bounds}

    def __repr__(self) -> str:
        return brief("CertifiedForecast", epsilon=self.epsilon, delta=self.delta)

    @property
    def sentence(self) -> str:
        """The promise and the price in words; with an epsilon a table of bounds."""
        if self.relative is not None:
            return (
                "certified search: the value and every action value within "
                f"{100.0 * self.relative:g}% of the value with probability "
                f"{1 - self.delta:g}\n\nIts price depends on the problem and is not "
                "known before the run. It cannot end while the interval of\nthe value "
                "holds 0: it then runs to its budget or its seconds.\n"
            )
        if self.epsilon is None:
            return (
                "certified search: intervals that hold with probability "
                f"{1 - self.delta:g}, as narrow as the budget or the seconds allow\n"
            )
        if not self.priced:
            return (
                "certified search: the value and every action value within "
                f"±{self.epsilon:g} with probability {1 - self.delta:g}\n\n"
                "Its price depends on the problem, and no number of calls is certain to "
                "suffice: at discount 1 without a horizon,\n"
                "and with min_probability=, it depends on what the calls show. Give "
                "budget or seconds to end it.\n"
            )
        table_rows = "\n".join(
            f"  {num_pairs:>11,}  {num_calls:>22,}"
            for num_pairs, num_calls in self.bounds
        )
        return (
            "certified search: the value and every action value within "
            f"±{self.epsilon:g} with probability {1 - self.delta:g}\n\n"
            "Its price depends on the problem and is not known before the run: it "
            "draws where the bounds are wide and stops\n"
            "when they meet. States must come back and be told apart (by ==, or by "
            "key=). Calls that certainly suffice, by\n"
            "the number of state-action pairs that it meets; what is needed is usually "
            "a small part of that:\n\n"
            f"  {'pairs':>11}  {'calls at the most':>22}\n{table_rows}\n"
        )


# N n(N) calls that are steered, and as many that bring the other pairs to n(N); with a
# horizon N n(N) more, for pairs that are sampled anew
STEERED_AND_EQUAL = 2


@dataclass
class EqualSamples:
    """A promise, and the samples of each pair that certainly keep it."""

    bound: Bound
    facts: Facts
    epsilon: float
    delta: float
    last_computed: tuple[int, float] = (0, 0)  # (N, n(N)) computed last

    def samples_per_pair(self, num_pairs: int) -> float:
        """Return n(N), the least number of samples of each pair that is enough.

        It is infinite where none is certain to be.
        """
        if self.last_computed[0] != num_pairs:
            try:
                pair_samples: float = enough_each(
                    self.bound, self.facts, self.epsilon, self.delta, num_pairs
                )
            except InvalidInput:
                pair_samples = math.inf
            self.last_computed = (num_pairs, pair_samples)
        return self.last_computed[1]

    def steerable(self, calls_before: int, calls: int, num_pairs: int) -> int:
        """Return how many of the ``calls`` may be steered.

        With the ``calls_before`` they are at most N n(N). n(N) does not decrease with
        N, and pairs are never forgotten, so the number for fewer pairs usually settles
        the question.
        """
        if calls_before + calls < num_pairs * self.last_computed[1]:
            return calls
        return int(
            min(calls, num_pairs * self.samples_per_pair(num_pairs) - calls_before)
        )


def price_bound(
    facts: Facts,
    *,
    epsilon: float,
    delta: float,
    num_pairs: int,
    bound: Bound = BOUNDS[DEFAULT],
) -> int:
    """Return the calls that certainly suffice for half-width ``epsilon``.

    They suffice for a new memory that ends with ``num_pairs`` pairs. Steered
    samples and the actual variance usually need far less. The number of pairs
    is not known before a run, so this is a function of it.
    """
    if num_pairs < 1 or not epsilon > 0.0 or not 0.0 < delta < 1.0:
        raise InvalidInput(
            "A price needs num_pairs >= 1, epsilon > 0 and 0 < delta < 1, got "
            f"{num_pairs!r}, {epsilon!r}, {delta!r}."
        )
    backup_rounding = value_rounding(
        facts.num_actions, largest_value(facts), facts.operator.strength
    )
    # the bounds may be narrow enough before the first call
    if widest(facts, facts.horizon) + 2.0 * backup_rounding <= 2.0 * epsilon:
        return 0
    pair_samples = enough_each(bound, facts, epsilon, delta, num_pairs)
    num_parts = STEERED_AND_EQUAL if facts.horizon is None else STEERED_AND_EQUAL + 1
    return num_parts * num_pairs * pair_samples


def enough_each(
    bound: Bound, facts: Facts, epsilon: float, delta: float, num_pairs: int
) -> int:
    """Return n(N), the samples of each of ``num_pairs`` pairs that are enough.

    With a horizon a pair may be sampled anew once, with another share of delta
    (``layers.LayeredRegion.mark_last``), so there are at most twice as many shares,
    and one more part of the price.
    """
    num_shares = num_pairs if facts.horizon is None else 2 * num_pairs
    return bound.price(facts, epsilon, shared_delta(bound, facts, delta), num_shares)


# of a table's delta, in the order in which pairs are met; the other part is shared evenly
IN_ORDER_SHARE = 0.5


def known_pairs(problem: Problem) -> int | None:
    """The number of pairs that can be sampled, where it is known."""
    if problem.tables is None:
        return None
    return int(problem.tables.legal[~problem.tables.terminal].sum())


def delta_in_order(problem: Problem, delta: float) -> float:
    """The part of delta that is shared in the order in which pairs are met."""
    return delta if known_pairs(problem) is None else IN_ORDER_SHARE * delta


def pair_costs(bound: Bound, problem: Problem, k: Ints, delta: float) -> Floats:
    """Return log(1/alpha) of either side of the k-th pair, k = 1, 2, ..."""
    in_order = delta_in_order(problem, delta)
    cost: Floats = bound.cost(k, shared_delta(bound, problem.facts, in_order))
    num_pairs = known_pairs(problem)
    if num_pairs is None:
        return cost
    even_share = shared_delta(bound, problem.facts, delta - in_order)
    even_cost = math.log(2.0 * max(num_pairs, 1) / even_share)
    shared_cost = -np.logaddexp(-cost, -even_cost)
    return np.where(np.asarray(k) <= num_pairs, shared_cost, cost)


class DeltaShares:
    """The shares of one memory: the k-th pair that is sampled has the k-th share."""

    def __init__(self, problem: Problem, bound: Bound, delta: float) -> None:
        self.problem, self.bound, self.delta = problem, bound, delta
        self.has_rows = has_rows(problem)  # rows are read, where there are any
        self.num_pairs = 0  # k: pairs that have a share

    @property
    def exact(self) -> bool:
        """Whether nothing is estimated: one sample of any pair met so far suffices."""
        only_rows = self.has_rows and self.num_pairs == 0
        return self.problem.deterministic or only_rows

    def assign(self, g: Graph, pairs: Ints) -> None:
        """Assign the next k to every new one of the pairs, before its first sample."""
        new_pairs = pairs[g.pairs["total"][pairs] == 0.0]
        if len(new_pairs) and not self.problem.deterministic:
            # a round that was left may have given one to a pair that it did not sample
            new_pairs = new_pairs[g.pairs["cost"][new_pairs] == 0.0]
            k = self.num_pairs + 1 + np.arange(len(new_pairs))
            g.pairs["cost"][new_pairs] = pair_costs(
                self.bound, self.problem, k, self.delta
            )
        self.num_pairs += len(new_pairs)
