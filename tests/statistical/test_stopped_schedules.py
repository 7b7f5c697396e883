"""Intervals of runs that are stopped at the worst moment, against exact values.

The chance that a line is ever crossed is computed exactly for the laws that S4 calls
the worst: two points at the ends of the range. Then whole runs are stopped as soon as
their interval excludes the truth. False alarms: one in 10^4 runs of this file.
"""

from __future__ import annotations

import math

import pytest

import smoothcruiser as sc
from smoothcruiser.theory.stopping import line_radius, line_slope, root_radius


def ever_crossed(p: float, radii: list[float]) -> float:
    """P(|mean_n - p| > radius_n for some n) of Bernoulli(p) samples, exactly."""
    alive, crossed = {0: 1.0}, 0.0  # successes -> chance that no line was crossed yet
    for n, radius in enumerate(radii, start=1):
        after: dict[int, float] = {}
        for k, chance in alive.items():
            for step, share in ((1, p), (0, 1.0 - p)):
                if abs((k + step) / n - p) > radius * (1.0 + 1e-12):
                    crossed += chance * share
                else:
                    after[k + step] = after.get(k + step, 0.0) + chance * share
        alive = after
    return crossed


@pytest.mark.parametrize("variance", [0.25, 0.16, 0.04, 0.004])
@pytest.mark.parametrize(("count", "delta"), [(40, 0.3), (150, 0.05)])
def test_the_chance_that_a_line_is_ever_crossed(variance, count, delta):
    """Law: at most delta for every two-point law with this range and variance, skewed
    to either side; and lines of half the height are crossed too often by one of them.
    """
    level = math.log(2.0 / delta)
    theta = line_slope(count, 1.0, variance, level)
    radii = [line_radius(n, theta, 1.0, variance, level) for n in range(1, count + 1)]
    assert radii[-1] == pytest.approx(root_radius(count, 1.0, variance, level))
    top = (1.0 - math.sqrt(1.0 - 4.0 * variance)) / 2.0
    laws = [
        q for share in (1.0, 0.7, 0.3, 0.05) for q in (share * top, 1 - share * top)
    ]
    worst = max(ever_crossed(p, radii) for p in laws)
    assert worst <= delta
    lower = [0.5 * radius for radius in radii]
    assert max(ever_crossed(p, lower) for p in laws) > (delta if top > 0.01 else worst)


def coin(p: float) -> sc.MDP:
    """Two actions that pay 1 with probability p, for one step."""
    return sc.MDP(
        lambda state, action, rng: (float(rng.random() < p), state),
        num_actions=2,
        discount=0.5,
        horizon=1,
        operator=sc.Max(),
        initial_state=0,
    )


@pytest.mark.parametrize("p", [0.5, 0.03])
def test_a_run_that_is_stopped_where_it_looks_most_wrong(p):
    """Law: the callback sees every interval and stops at the first that excludes the
    truth; at most a share delta of the runs has one.
    """
    delta, runs, problem = 0.4, 60, coin(p)
    schedule = sc.explain(problem, epsilon=0.12, delta=delta)
    failures, stopped = 0, 0
    for seed in range(runs):

        def wrong(progress: sc.Progress) -> bool:
            if progress.interval is None:  # before the first shard
                return True
            return progress.interval[0] <= p <= progress.interval[1]

        found = sc.run(problem, schedule, seed=seed, shards=40, progress=wrong)
        low, high = found.interval
        failures += not low <= p <= high
        stopped += any("progress function" in note for note in found.notes)
    assert stopped <= failures
    # binomial(60, 0.4) exceeds 38 with a chance of 1 in 10^4
    assert failures <= 38
