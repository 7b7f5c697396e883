"""Upper limits on several means at once, by mixtures of bets over poles.

Let E[X_i | past] >= v and X_i <= nu_i, with nu_i fixed before sample i. For poles
nu_ij >= nu_i fixed as early, and weights w_j of sum 1, let

  K_n(v) = sum over j of w_j prod over i <= n of (nu_ij - X_i)/(nu_ij - v).

Every factor is nonnegative and has conditional mean 1 at most at the true v, so K_n is
a nonnegative supermartingale, and by Ville's inequality it ever reaches 1/alpha with
probability alpha at most. K_n rises with v: with probability 1 - alpha, for all n at
once, v lies below the point where K_n reaches 1/alpha. Nothing else is assumed of the
law, which may change from sample to sample. Limits of all n may be intersected.

The pole at the edge, nu_i itself, is the best one as long as the range costs more than
the noise (nu - v > s sqrt(n/(2 log(1/alpha)))), and no limit from the X alone can
do better there. Farther poles serve large n. So the edge gets .9 of the weight, which
costs log(1/.9), and nu_i + .02 2^j (nu_i - center), j < 14, share the rest; where a
pilot says that noise dominates, all get the same.

An *era* is a time during which nu_i stays the same. It leaves its count and its sums
of logarithms behind, one per pole: new eras begin where W is fitted anew.

A lower limit is the upper limit of -X. Each column has its own alpha and range; all
columns take the same samples.

Rounding: each sum is off by a share of the sizes of its terms, as in
``evaluation.path_fitting``; a point counts as rejected where it is with that loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.evaluation.path_fitting import UNIT

Floats = NDArray[np.float64]

EDGE_WEIGHT = 0.9
FAR_POLES = 14  # poles beyond the edge
FIRST_REACH = 0.02  # of the first of them, in units of the range; each doubles it
HALVINGS = 34  # of the interval in which a limit lies: to 1e-10 of it
BATCH_ROWS = 4096  # samples whose logarithms are taken at once


def pole_weights(*, is_noisy: bool = False) -> Floats:
    """The weights of the poles, the edge first."""
    num_poles = FAR_POLES + 1
    if is_noisy:
        return np.full(num_poles, 1.0 / num_poles)
    weights = np.full(num_poles, (1.0 - EDGE_WEIGHT) / FAR_POLES)
    weights[0] = EDGE_WEIGHT
    return weights


def pole_reaches() -> Floats:
    """The distances of the poles from the edge, in units of the range."""
    return np.concatenate(([0.0], FIRST_REACH * 2.0 ** np.arange(FAR_POLES)))


class MixtureBounds:
    """Upper limits on the means of several columns of samples."""

    def __init__(
        self, alphas: Sequence[float], most: Sequence[float], weights: Floats
    ) -> None:
        """Limits that fail with probability ``alphas``, one for each column.

        ``most`` are bounds that hold before any sample; ``weights`` are those of the
        poles (``pole_weights``).
        """
        self.levels = np.log(1.0 / np.array(alphas, float))
        self.highs = np.array(most, float)
        self.log_weights = np.log(np.array(weights, float))
        num_columns, num_poles = len(self.highs), len(self.log_weights)
        self.poles: list[Floats] = []  # by era, (columns, poles)
        self.counts: list[int] = []
        self.sums: list[Floats] = []  # of the samples, by era
        self.logs = np.zeros((num_columns, num_poles))  # sums of log(nu_j - X)
        self.sizes = np.zeros((num_columns, num_poles))  # of their absolute values
        self.num_batches = 0

    @property
    def count(self) -> int:
        """The number of samples so far."""
        return sum(self.counts)

    def begin_era(self, edges: Sequence[float], centers: Sequence[float]) -> None:
        """Bet with these ranges from the next sample on.

        ``edges`` are the nu, one for each column; ``centers`` lie where the samples do,
        about, and choose how far the poles are apart.
        """
        edge_array = np.array(edges, float)
        reach = np.maximum(edge_array - np.array(centers, float), 0.0)
        reach = np.maximum(reach, 1e-9 * np.abs(edge_array) + 1e-300)
        self.poles.append(edge_array[:, None] + reach[:, None] * pole_reaches())
        self.counts.append(0)
        self.sums.append(np.zeros(len(edge_array)))
        # no mean is above the edge
        self.highs = np.minimum(self.highs, edge_array)

    def take_samples(self, samples: Floats) -> None:
        """Bet on samples (n, columns), none above the edge of its column.

        The bits of the sums depend on how samples are split into calls.
        """
        for begin in range(0, len(samples), BATCH_ROWS):
            batch = samples[begin : begin + BATCH_ROWS]
            with np.errstate(divide="ignore"):
                log_margins = np.log(self.poles[-1][None] - batch[:, :, None])
            self.logs += log_margins.sum(axis=0)
            self.sizes += np.abs(log_margins).sum(axis=0)
            self.sums[-1] += batch.sum(axis=0)
            self.counts[-1] += len(batch)
            self.num_batches += 1

    def lower_highs(self) -> Floats:
        """The limits with all samples so far; those of all counts hold together."""
        if self.count == 0:
            return self.highs
        eras = [era for era, count in enumerate(self.counts) if count]
        means = np.array([self.sums[era] / self.counts[era] for era in eras])
        # at the least of the means every factor is at most 1, in the geometric mean
        low, high = np.minimum(means.min(axis=0), self.highs), self.highs.copy()
        for _ in range(HALVINGS):
            middle = low + 0.5 * (high - low)
            is_inside = (middle > low) & (middle < high)
            is_rejected = self._rejects(middle, eras) & is_inside
            high = np.where(is_rejected, middle, high)
            low = np.where(is_rejected, low, middle)
            if not is_inside.any():
                break
        self.highs = high
        return self.highs

    def _rejects(self, candidates: Floats, eras: list[int]) -> NDArray[np.bool_]:
        """Whether K_n reaches 1/alpha, for the candidate v of each column."""
        total = self.count
        log_products, sizes = self.logs + self.log_weights, self.sizes.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            for era in eras:
                logs = self.counts[era] * np.log(self.poles[era] - candidates[:, None])
                log_products = log_products - logs
                sizes += np.abs(logs)
            sizes += 2.0 * total + self.levels[:, None]
            share = (64.0 + self.num_batches + len(eras)) * UNIT
            log_products = log_products - share * sizes
        # a sample at the pole makes its product 0; a candidate there proves nothing
        usable = np.isfinite(log_products)
        log_products = np.where(usable, log_products, -math.inf)
        largest = log_products.max(axis=1)
        offset = np.where(np.isfinite(largest), largest, 0.0)
        mixture = np.exp(log_products - offset[:, None]).sum(axis=1)
        with np.errstate(divide="ignore"):
            log_mixture = offset + np.log(mixture)
        slack = 256.0 * UNIT * (1.0 + np.abs(offset))
        rejected: NDArray[np.bool_] = log_mixture - slack >= self.levels
        return rejected


def share_delta(
    delta: float,
    *,
    has_policy: bool,
    num_actions: int,
    is_game: bool = False,
    value_share: float | None = None,
) -> dict[str, float]:
    """The failure probabilities of the statements of one answer; they sum to delta.

    ``upper`` and ``lower`` are those of the interval, ``upper_action`` and
    ``lower_action`` of each action's value, where they are stated (``num_actions``
    above 0). ``gap`` is for upper - lower on the same paths, ``policy`` for the far end
    of the policy's own interval. In a game its two ends are ``policy`` and
    ``policy_low``: no end of the interval is an end of it. ``value_share`` is the
    interval's part of each side, by default that of one statement among all.
    """
    side = (0.35 if has_policy else 0.5) * delta
    own_share = 1.0
    shares = {}
    if num_actions:
        own_share = 1.0 / (num_actions + 1) if value_share is None else value_share
        each = (1.0 - own_share) * side / num_actions
        shares = {"upper_action": each, "lower_action": each}
    shares |= {"upper": own_share * side, "lower": own_share * side}
    if not has_policy:
        return shares
    shares["gap"] = 0.2 * delta
    if is_game:
        return {**shares, "policy": 0.05 * delta, "policy_low": 0.05 * delta}
    return {**shares, "policy": 0.1 * delta}
