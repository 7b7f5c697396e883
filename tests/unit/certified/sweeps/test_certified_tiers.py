"""Certified search by address, with the step in the loop, and from one to the other."""

import dataclasses
from typing import NamedTuple

import pytest
from numba import njit
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.sampling import step_loops
from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.snapshots.snapshot import restore, to_bytes
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


def run_search(problem, state, monkeypatch, tier="", forms=(None, None)):
    """A search in two queries, in a process that has compiled nothing for this step."""
    monkeypatch.setattr(step_loops, "_loops", {})
    monkeypatch.setenv(handover.VARIABLE, tier)
    search = Certified(problem, delta=0.1, seed=3)
    for form, budget in zip(forms, (3_000, 30_000), strict=True):
        with (
            step_loops.STEP_LOOPS.use_form(compiled=form),
            step_loops.TABLE_LOOPS.use_form(compiled=form),
        ):
            search.query(state, budget=budget)
    return search


@pytest.mark.parametrize("step", STARTS, ids=lambda step: step.__name__)
def test_bits_do_not_depend_on_the_loop(step, monkeypatch):
    problem, state = problem_of(step), STARTS[step]
    snapshots = set()
    for tier in ("inlined", "address"):
        search = run_search(problem, state, monkeypatch, tier)
        snapshots.add(to_bytes(search))
    for forms in ((False, False), (False, True)):
        search = run_search(problem, state, monkeypatch, forms=forms)
        assert (search.loop.sampler.loop is not None) == forms[1]
        snapshots.add(to_bytes(search))
    monkeypatch.setattr(handover, "PAYS", 1_000)
    search = run_search(problem, state, monkeypatch, forms=(True, True))
    assert search.loop.sampler.loop.later is None  # the loop that was built is in use
    snapshots.add(to_bytes(search))
    assert len(snapshots) == 1


@pytest.mark.parametrize("horizon", [None, 4])
def test_bits_of_a_table_do_not_depend_on_the_loop(horizon, monkeypatch):
    """With and without kept streams; forgotten places and snapshots change nothing."""
    facts = {"discount": 0.7, "temperature": 0.5}
    problem = sc.make("garnet:states=9,actions=3", **facts)
    if horizon is not None:
        problem = dataclasses.replace(problem, horizon=horizon)
    snapshots = set()
    for forms in ((True, True), (False, False), (False, True), (True, False)):
        search = run_search(problem, 0, monkeypatch, forms=forms)
        snapshots.add(to_bytes(search))
    first, again = (Certified(problem, delta=0.1, seed=3) for _ in range(2))
    with step_loops.TABLE_LOOPS.use_form(compiled=False):
        first.query(0, budget=3_000)
        restore(again, to_bytes(first))
        again.query(0, budget=30_000)
    assert again.loop.sampler.loop is None
    snapshots.add(to_bytes(again))
    assert len(snapshots) == 1


def test_errors_of_the_step_come_by_address(monkeypatch):
    said = []
    for tier in ("inlined", "address"):
        monkeypatch.setenv(handover.VARIABLE, tier)
        with pytest.raises(sc.OracleError, match="state seven") as error:
            sc.plan(problem_of(ring), 7, method="certified", epsilon=0.1, delta=0.1)
        said.append(str(error.value))
    assert said[0] == said[1]
