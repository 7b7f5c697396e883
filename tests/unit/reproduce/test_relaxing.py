"""The study of regularization as a relaxation stays below its bounds."""

import pytest

from smoothcruiser.reproduce.full_algorithm import (
    moving_temperature,
    printed_scheme,
    studies,
)


@pytest.mark.compiles
def test_the_study_stays_below_the_bounds():
    """0 <= V_lambda - V_0 <= bound and 0 <= policy loss <= bound on both
    problems, at every temperature drawn.
    """
    rows = moving_temperature(points=2)
    assert len(rows) == 2 * len(studies())
    for row in rows:
        assert -1e-9 <= row.distance <= row.bound + 1e-9
        assert -1e-9 <= row.policy_loss <= row.bound + 1e-9


def test_with_printed_constants_sparse_sampling_is_cheapest():
    rows = printed_scheme((1e-1, 1e-3))
    assert all(
        row.best_share == 0.0 and row.best_log10 == row.plain_log10 for row in rows
    )
