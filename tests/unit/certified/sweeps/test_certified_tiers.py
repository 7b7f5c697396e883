"""Certified search by address, with the step in the loop, and from one to the other."""

from typing import NamedTuple

import pytest
from numba import njit
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.sampling import step_loops
from smoothcruiser.certified.snapshots.snapshot import to_bytes
from smoothcruiser.engines.compiled import tiers as handover

pytestmark = pytest.mark.compiles


class Place(NamedTuple):
    x: int
    height: float


@njit
def named(state, action, rng):
    x = (state.x + action + rng.integers(3)) % 5
    height = 0.5 * rng.integers(3)
    return height, Place(x, height), x == 4 and height == 1.0


@njit
def ring(state, action, rng):
    if state == 7:
        raise ValueError("state seven")
    return rng.random(), (state + action + rng.integers(2)) % 6


STARTS = {named: Place(0, 0.0), ring: 0}


def problem_of(step):
    return mdp(step, terminal=step is named, initial_state=STARTS[step])


def searched(step, monkeypatch, tier):
    """What a search keeps, in a process that has compiled nothing for this step."""
    monkeypatch.setattr(step_loops, "_loops", {})
    monkeypatch.setenv(handover.VARIABLE, tier)
    search = sc.Certified(problem_of(step), delta=0.1, seed=3)
    search.query(STARTS[step], budget=3_000)
    yield
    search.query(STARTS[step], budget=30_000)
    yield search


@pytest.mark.parametrize("step", STARTS, ids=lambda step: step.__name__)
def test_bits_do_not_depend_on_the_loop(step, monkeypatch):
    found = []
    for tier in ("inlined", "address"):
        _, search = searched(step, monkeypatch, tier)
        found.append(to_bytes(search))
    monkeypatch.setattr(handover, "PAYS", 1_000)
    _, search = searched(step, monkeypatch, "")
    assert search.loop.sampler.loop.later is None  # the loop that was built is in use
    found.append(to_bytes(search))
    assert found[0] == found[1] == found[2]


def test_errors_of_the_step_come_by_address(monkeypatch):
    said = []
    for tier in ("inlined", "address"):
        monkeypatch.setenv(handover.VARIABLE, tier)
        with pytest.raises(sc.OracleError, match="state seven") as error:
            sc.plan(problem_of(ring), 7, method="certified", epsilon=0.1, delta=0.1)
        said.append(str(error.value))
    assert said[0] == said[1]
