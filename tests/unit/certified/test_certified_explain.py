"""What explain says of certified search: bounds on the price, and that they
really suffice.
"""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

import smoothcruiser as sc


@pytest.mark.compiles
def test_the_bound_suffices() -> None:
    """A run that meets P pairs ends within most_calls(P) calls, usually far below."""
    problem = sc.make("garnet:states=6,actions=2", discount=0.6, temperature=0.5)
    outlook = sc.explain(problem, epsilon="10%", delta=0.1, method="certified")
    estimate = sc.plan(problem, epsilon="10%", delta=0.1, method="certified")
    assert estimate.epsilon <= outlook.epsilon
    assert estimate.num_calls <= outlook.most_calls(12)
    assert outlook.most_calls(100) > outlook.most_calls(10)
    assert "depends on the problem" in str(outlook)
    assert outlook.num_calls is None


def test_numbers_fit_json() -> None:
    """Beyond 2**53 a count is null and its logarithm stays; below, both are there."""
    problem = sc.make("garnet", discount=0.9, temperature=0.1)
    small, large = (
        sc.explain(problem, epsilon=epsilon, delta=0.1, method="certified").to_dict()[
            "bounds"
        ][-1]
        for epsilon in (1.0, 1e-3)
    )
    assert 10.0 ** small["log10_most_calls"] == pytest.approx(small["most_calls"])
    assert large["most_calls"] is None
    assert large["log10_most_calls"] > math.log10(2**53)


@pytest.mark.compiles
def test_it_answers_without_numba() -> None:
    code = (
        "import sys, smoothcruiser as sc; p = sc.make('garnet', discount=0.9, "
        "temperature=0.1);str(sc.explain(p, epsilon='5%', delta=0.1, "
        "method='certified')); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
