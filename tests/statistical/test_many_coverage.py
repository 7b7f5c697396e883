"""Joint promises under repetition: many states in one call, and relaxed temperatures.

Fixed seeds, so the outcome is fixed too. Were every run to miss with probability
exactly delta, a test below would raise a false alarm with probability at most 1e-3.
The large version is ``benchmarks/coverage/many_coverage.py``.
"""

from __future__ import annotations

import pytest
from benchmarks.coverage import many_coverage as benchmark
from scipy.stats import binom

import smoothcruiser as sc


def too_many(failures: list[bool]) -> bool:
    """Whether so many failures have a probability below 1e-3 at failure rate delta."""
    tail = binom.sf(sum(failures) - 1, len(failures), benchmark.DELTA)
    return bool(tail < 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("how", list(benchmark.ASKED))
def test_all_states_of_one_call_hold_together(how):
    """Seven kinds of worlds, every interval of every state."""
    failures = [
        benchmark.many_fails(kind, how, seed)
        for seed in range(2)
        for kind in benchmark.KINDS
    ]
    assert not too_many(failures)


def test_every_row_of_the_table_holds():
    failures = [
        benchmark.table_fails(kind, seed)
        for seed in range(8)
        for kind in benchmark.KINDS
    ]
    assert not too_many(failures)


def test_relaxed_answers_hold_for_the_unregularized_value():
    """Half of epsilon is spent on the temperature, in every kind of world."""
    failures = [
        bad
        for k, kind in enumerate(benchmark.KINDS)
        for bad in benchmark.relaxed_runs(
            kind, benchmark.FAMILIES[k % 4], 0.5, range(12)
        )
    ]
    assert not too_many(failures)


def test_a_forgotten_band_is_found_out():
    """The same test fails where V_lambda is taken for V_0."""
    failures = [
        bad
        for kind in ("mdp", "illegal", "horizon")
        for bad in benchmark.relaxed_runs(
            kind, sc.SquareRoot, 0.5, range(6), shifted=False
        )
    ]
    assert too_many(failures)
