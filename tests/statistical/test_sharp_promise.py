"""The sharp promise on problems made to break it.

Reduced form of benchmarks/coverage/sharp_coverage.py (the full table is
docs/evidence/coverage.md). Seeds are fixed; the false-alarm rate of each
binomial test, had the seeds been free, is 1e-4.
"""

from __future__ import annotations

import pytest
from benchmarks.coverage import adversarial
from benchmarks.coverage.sharp_coverage import binomial_tail, study

CASES = adversarial.cases()
CHOSEN = [CASES[i] for i in range(0, len(CASES), 17)]
SETTINGS = [("q_values", 0.1, True), ("value", 0.1, True), ("q_values", 0.2, False)]


@pytest.mark.parametrize("index", range(len(CHOSEN)))
def test_failures_stay_within_delta(index):
    """|Q-hat - Q| <= epsilon, |V-hat - V| <= epsilon and every printed
    interval, with frequency at least 1 - delta.
    """
    target, delta, adaptive = SETTINGS[index % len(SETTINGS)]
    promise = {"target": target, "delta": delta, "adaptive": adaptive}
    runs = {"runs": 40, "budget": 4000, "first_seed": 10_000 * index}
    result = study(CHOSEN[index], **promise, **runs)
    assert binomial_tail(result.failures, result.runs, delta) > 1e-4, result
    assert result.mean_calls <= result.price
