"""The root that needs a second moment only (docs/randomized.md, R8)."""

import math

import numpy as np
import pytest

from smoothcruiser.theory import stopping


def test_psi_is_odd_and_between_the_two_logarithms():
    for x in (1e-300, 1e-9, 0.3, 1.0, 7.0, 1e9, 1e160):
        assert stopping.psi(-x) == -stopping.psi(x)
        assert math.exp(
            min(stopping.psi(x), 700.0)
        ) <= 1.0 + x + x * x / 2.0 + 1e-9 * (1 + x * x)
        if x < 1e8:
            assert math.exp(-stopping.psi(x)) <= 1.0 - x + x * x / 2.0 + 1e-12


def test_the_line_ends_at_the_radius_and_is_no_narrower_before():
    n, second, level = 1000, 3.0, 4.0
    slope = stopping.catoni_slope(n, second, level)
    radius = math.sqrt(2.0 * second * level / n)
    assert stopping.catoni_radius(n, slope, second, level) == pytest.approx(radius)
    assert n * stopping.catoni_rate(radius, second) == pytest.approx(level)
    for fewer in (1, 10, 500):
        best = math.sqrt(2.0 * second * level / fewer)
        assert stopping.catoni_radius(fewer, slope, second, level) >= best
    assert stopping.catoni_radius(0, slope, second, level) == math.inf


def test_samples_without_a_range_are_its_case_alone():
    assert stopping.best_rate(0.1, math.inf, 2.0) == (
        stopping.catoni_rate(0.1, 2.0),
        "catoni",
    )
    samples, name = stopping.root_samples(0.1, math.inf, 2.0, 3.0)
    assert (samples, name) == (1200, "catoni")
    assert stopping.root_radius(samples, math.inf, 2.0, 3.0) == pytest.approx(0.1)
    assert stopping.best_rate(0.1, 5.0, 2.0)[1] != "catoni"


@pytest.mark.parametrize("jump", [1.0, 55.0, 1000.0])
def test_it_covers_samples_with_rare_jumps(jump):
    """Jumps of ``jump`` deviations, off centre; each side may miss in e^-level."""
    rng = np.random.default_rng(int(jump))
    n, runs, level = 400, 2000, math.log(2.0 / 0.2)
    chance = 1.0 / jump**2
    center, mean = 0.0, 0.4
    law = mean + math.sqrt(0.5) * jump * np.where(
        rng.random((runs, n)) < chance, rng.choice([-1.0, 1.0], (runs, n)), 0.0
    )
    law += math.sqrt(0.5) * rng.choice([-1.0, 1.0], (runs, n))
    second = 1.0 + mean**2
    slope = stopping.catoni_slope(n, second, level)
    x = slope * (law - center)
    scores = np.sign(x) * np.log1p(np.abs(x) + x * x / 2.0)
    line = np.arange(1, n + 1)
    estimates = center + np.cumsum(scores, axis=1) / (line * slope)
    radius = 0.5 * slope * second + level / (line * slope)
    missed = np.any(np.abs(estimates - mean) > radius, axis=1)  # at any count
    assert missed.mean() <= 0.2 + 4.0 * math.sqrt(0.16 / runs)
    assert np.abs(estimates[:, -1] - mean).max() > 0.2 * radius[-1]
