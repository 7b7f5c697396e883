"""Products of bets: two samples by hand, valid at every count at once, narrow for steady
samples, and one pole after another.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

from smoothcruiser.evaluation import path_fitting


def test_two_samples_by_hand():
    """alpha = 1/4, pole -1: (v + 1)^2 >= 2 * 1.5/4 wherever (1 - (-1))(0.5 - (-1)) = 3."""
    bound = path_fitting.MeanBound(0.25, -0.5, 10.0)
    bound.begin_era(-1.0)
    bound.take(np.array([1.0, 0.5]))
    assert bound.raise_low() == pytest.approx(math.sqrt(3.0 / 4.0) - 1.0, abs=1e-9)


def test_eras_multiply():
    """A second pole: (v + 1)(v + 2) = 2 * 3/alpha^-1 with samples 1 and 1."""
    bound = path_fitting.MeanBound(0.5, -0.9, 10.0)
    for pole in (-1.0, -2.0):
        bound.begin_era(pole)
        bound.take(np.array([1.0]))
    low = bound.raise_low()
    assert (low + 1.0) * (low + 2.0) == pytest.approx(2.0 * 3.0 * 0.5, abs=1e-9)


def test_it_holds_at_every_count_at_once():
    """400 sequences of 400 skewed samples at alpha = 0.1, poles from the past: more than
    60 that ever miss would have probability below 1e-3. Of bets on twice the sample more
    than half miss.
    """
    assert binom.sf(60, 400, 0.1) < 1e-3
    rng = np.random.default_rng(3)
    for scale, allowed in ((1.0, range(61)), (2.0, range(200, 401))):
        missed = 0
        for _ in range(400):
            samples = scale * (rng.random(400) < 0.1)
            bound = path_fitting.MeanBound(0.1, 0.0, 2.0)
            for begin, end in ((0, 20), (20, 100), (100, 400)):
                before = samples[:begin] if begin else np.array([0.5, 0.1])
                sd, mean = float(before.std()), float(before.mean())
                distance = path_fitting.pole_distance(mean, sd, 400.0, bound.level)
                bound.begin_era(min(0.0, mean - distance) - 1e-9)
                for first in range(begin, end, 100):
                    bound.take(samples[first : min(end, first + 100)])
                    bound.raise_low()
            missed += bound.low > 0.1
        assert missed in allowed


def test_constant_samples_are_soon_believed():
    """The width falls like 1/n without variance, and as the forecast says."""
    widths = []
    for n in (100, 1000):
        bound = path_fitting.MeanBound(0.05, 0.0, 1.0)
        bound.begin_era(0.3 - path_fitting.pole_distance(0.3, 0.0, n, bound.level))
        bound.take(np.full(n, 0.3))
        widths.append(0.3 - bound.raise_low())
        assert widths[-1] == pytest.approx(
            path_fitting.forecast_width(0.3, 0.0, n, bound.level), rel=0.05
        )
    assert widths[1] < widths[0] / 9.0


def test_a_sample_at_its_pole_ends_the_bets_and_no_bound():
    bound = path_fitting.MeanBound(0.05, 0.0, 1.0)
    bound.begin_era(0.0)
    bound.take(np.array([0.9, 0.0, 0.9]))
    assert bound.raise_low() == 0.0
