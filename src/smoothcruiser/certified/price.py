"""The price of certified search as a function of the number of pairs it meets.

Equal numbers of samples certainly reach it.

A bound knows n(N), the samples of each of N pairs that are certainly enough
(``Bound.price``). The search steers its samples for the first N n(N) calls of a
query. Pairs that still have fewer than n(N) samples are then brought there. So
2 N n(N) calls suffice, whatever the steering did.

legend   symbol      public name
  N                  ``num_pairs``: pairs of state and action in the memory when
                     the search ends
  n(N)               ``samples_per_pair``

This file decides when samples become equal, and the promise of ``explain``. No bound
depends on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothcruiser.certified.bounds import BOUNDS, DEFAULT
from smoothcruiser.certified.bounds.base import Bound, shared_delta, value_rounding
from smoothcruiser.certified.ranges import largest_value, widest
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.facts import Facts

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
