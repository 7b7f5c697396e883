"""Timing the step where it runs: a step that ends its process ends a worker."""

import os

import pytest

import smoothcruiser as sc


def aborts(state, action, rng):
    os.abort()


@pytest.mark.compiles
@pytest.mark.parametrize("method", ["smoothcruiser", "auto"])
def test_a_step_that_aborts_ends_a_worker_and_not_the_driver(method):
    problem = sc.MDP(
        aborts, num_actions=2, initial_state=0, discount=0.5, operator=sc.Max()
    )
    with pytest.raises(sc.OracleError, match="A worker process died"):
        sc.prepare(
            problem,
            method=method,
            epsilon=0.05,
            delta=0.1,
            executor="processes",
            workers=1,
            seconds=60.0,
        )
