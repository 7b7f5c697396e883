"""Certified search on several workers: the bits of one."""

from __future__ import annotations

import pytest
from benchmarks.scale import slow_oracle

import smoothcruiser as sc
from smoothcruiser.certified.sampling import compiled_sampler as certified_sampling

pytestmark = pytest.mark.compiles

PROMISE = {"delta": 0.1, "method": "certified", "seed": 3}


def bits(estimate: sc.Estimate) -> tuple:
    return estimate.value, estimate.q_values, estimate.interval, estimate.num_calls


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled oracle: rounds cut into parts for two and three threads."""
    monkeypatch.setattr(certified_sampling, "LEAST_SHARED", 10)
    problem = sc.make("garnet:states=12,actions=3", discount=0.8, temperature=0.2)
    one, two, three = (
        sc.plan(problem, epsilon="5%", workers=workers, **PROMISE)
        for workers in (1, 2, 3)
    )
    assert bits(one) == bits(two) == bits(three)


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain Python oracle on two worker processes; an error arrives with its
    state and action.
    """
    problem = slow_oracle.quick()
    one = sc.plan(problem, epsilon="20%", executor="python", **PROMISE)
    two = sc.plan(problem, epsilon="20%", executor="processes", workers=2, **PROMISE)
    assert bits(one) == bits(two)
    with pytest.raises(
        sc.OracleError, match=r"ZeroDivisionError.*at state 0, action 1"
    ):
        sc.plan(
            slow_oracle.broken(),
            epsilon="20%",
            executor="processes",
            workers=2,
            **PROMISE,
        )
