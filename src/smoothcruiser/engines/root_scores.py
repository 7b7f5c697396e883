"""Scores of root samples, which are added up beside their sum.

A root's bound may need more of the samples than their mean. These quantities have
to add over shards, whatever runs them, so they are a vector of numbers per sample:

  BINNED   betting: a histogram by linear binning. With t = (d + half) scale, d the
           sample's distance to the centre, the grid points k = floor(t) and k + 1
           get the weights WHOLE - w and w, w = floor((t - k) WHOLE): whole numbers,
           so that sums are exact in any order. Docs/theory.md, section 5, says why
           the logarithms at grid points bound those at the samples.
  LOGGED   the root that needs a second moment only: psi(scale d), with
           psi(x) = sgn(x) log(1 + |x| + x^2/2), added in the order of the samples

Left out: the bounds that the sums prove (``engines.stopping_rule``), and their place in
the memory of the compiled engine (``compiled.kernel``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.theory.stopping import psi

UNSCORED, BINNED, LOGGED = range(3)
# 256 bins cost 2e-6 of the range, measured (docs/theory.md, section 5)
BINS = 256
# of a sample's weight: at most 2^-24 of a bin is lost, and 2^39 samples fit an int64
WHOLE = 1 << 24

Sums = tuple[int, ...] | tuple[float, ...]


class Score(NamedTuple):
    """Which scores a root adds up, and their constants."""

    kind: int = UNSCORED
    half: float = 0.0  # of the range that the bins cover, around the centre
    scale: float = 0.0  # bins per unit, or the alpha of psi

    @property
    def none(self) -> Sums:
        """The sums over no samples."""
        return ((), (0,) * (BINS + 1), (0.0,))[self.kind]


NO_SCORE = Score()


def bin_of(distance: float, half: float, scale: float) -> tuple[int, int]:
    """(grid point below a sample, weight of the one above it)."""
    t = (distance + half) * scale
    if not t > 0.0:
        return 0, 0
    if t >= BINS:
        return BINS - 1, WHOLE
    k = int(t)
    return k, int((t - k) * WHOLE)


def add_scores(
    score: Score, distances: Iterable[float], earlier_sums: Sums = ()
) -> Sums:
    """The sums of the scores of samples, added to those of the samples before."""
    earlier_sums = earlier_sums or score.none
    if score.kind == BINNED:
        bin_weights = _bin_samples(score, np.fromiter(distances, np.float64)).tolist()
        return tuple(a + b for a, b in zip(earlier_sums, bin_weights, strict=True))
    if score.kind == LOGGED:
        psi_sum = float(earlier_sums[0])
        for distance in distances:
            psi_sum += psi(score.scale * distance)
        return (psi_sum,)
    return ()


def _bin_samples(score: Score, distances: NDArray[np.float64]) -> NDArray[np.int64]:
    """``bin_of`` of many samples, added up."""
    t = np.clip((distances + score.half) * score.scale, 0.0, float(BINS))
    k = np.minimum(t.astype(np.int64), BINS - 1)
    upper_weights = ((t - k) * WHOLE).astype(np.int64)
    bin_weights = np.zeros(BINS + 1, np.int64)
    np.add.at(bin_weights, k, WHOLE - upper_weights)
    np.add.at(bin_weights, k + 1, upper_weights)
    return bin_weights


def add_sums(x: Sums, y: Sums) -> Sums:
    """The sums over two sets of samples, one of which may be empty."""
    if not x or not y:
        return x or y
    return tuple(a + b for a, b in zip(x, y, strict=True))
