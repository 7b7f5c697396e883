"""Bounds with a horizon and at discount 1, against exact values of every state.

The worlds and their exact values come from ``benchmarks/exact/verification_worlds.py``, the
runs from ``benchmarks/coverage/horizon_coverage.py``. Fixed seeds, so the outcome is fixed too.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.coverage.declared_worlds import random_at_least
from benchmarks.coverage.horizon_coverage import (
    FAILED,
    QUARTER,
    WORD,
    carry_out,
    holds,
    plans,
)
from benchmarks.exact.verification_worlds import (
    PUBLISHED,
    World,
    can_reach_goal,
    ends_within,
    load,
    names,
    random_horizon,
    random_undiscounted,
    true_minimum,
    value_with_horizon,
)
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.certified.state_table import Row
from smoothcruiser.exact import solve
from smoothcruiser.problem.model.known_outcomes import has_rows

FALSE_ALARM = 1e-3
RUNS = range(0, 120, 2)  # even numbers have a horizon

published = pytest.mark.skipif(
    not PUBLISHED.exists(), reason="shared/data/qvbs is not there"
)


# --- the worlds ---------------------------------------------------------------


@pytest.mark.compiles
def test_exact_values_at_discount_1_agree_with_the_solver():
    for seed in range(48):
        world = random_undiscounted(seed)
        if "episodes_end" in world.declared:  # says nothing to the solver
            del world.declared["episodes_end"]
        found = solve(world.problem())
        error = np.abs(found.values - world.values[0]).max()
        assert error <= found.residual_bound + 1e-12 * world.scale, seed


@pytest.mark.compiles
def test_worlds_at_the_minimum_are_there_and_have_exact_values():
    tight = 0
    for seed in range(24):
        world = random_at_least(seed)
        found = solve(world.problem())
        error = np.abs(found.values - world.values[0]).max()
        assert error <= found.residual_bound + 1e-12, seed
        rows = world.P[~world.terminal].reshape(-1, len(world.terminal))
        sizes, p = np.count_nonzero(rows, axis=1), world.min_probability
        at_p = (np.abs(rows - p) < 1e-12).sum(axis=1)
        tight += bool(np.any((sizes > 1) & (at_p >= sizes - 1)))
    assert tight > 12


@pytest.mark.compiles
def test_exact_values_with_a_horizon_agree_with_the_solver():
    for seed in range(48):
        world = random_horizon(seed)
        error = np.abs(np.array(solve(world.problem()).stages) - world.values).max()
        assert error <= 1e-13 * world.scale, seed


def from_above(world):
    """Where sweeps from 1 come to rest; NaN if they do not within 2,000."""
    live = ~world.terminal
    signs = np.where(world.players == 2, -1.0, 1.0) * np.ones(len(live))
    values = live.astype(float)
    for _ in range(2_000):
        before = values
        q = np.einsum("saz,saz->sa", world.P, world.R + before)
        gain = np.where(world.legal, signs[:, None] * q, -np.inf)
        values = np.where(live, signs * gain.max(axis=1), 0.0)
        if np.abs(values - before).max() <= 1e-15:
            return values
    return np.full(len(live), np.nan)


def test_the_worlds_have_what_fools_a_search():
    """Values that a sweep from above never finds, rare outcomes, dead ends."""
    fooled = rare = dead = 0
    for seed in range(64):
        world = random_undiscounted(seed)
        rare += world.min_probability < 0.005
        if world.family.startswith("goal"):
            live = ~world.terminal
            dead += bool((world.values[0][live] == 0.0).any())
            fooled += bool((from_above(world) > world.values[0] + 1e-6).any())
    assert min(fooled, rare, dead) >= 10


def test_the_chance_to_end_by_hand():
    """Stay with 3/4 or with 1/2: within two steps the worse ends with 7/16."""
    P = np.zeros((2, 2, 2))
    P[0] = [[0.75, 0.25], [0.5, 0.5]]
    P[1, :, 1] = 1.0
    legal, terminal = np.ones((2, 2), dtype=bool), np.array([False, True])
    steps, share = ends_within(P, legal, terminal, 2)
    assert steps == 2
    assert share == pytest.approx(7 / 16, abs=1e-8)


@published
def test_the_published_models_are_sampled_and_their_values_are_right():
    assert len(names()) == 13
    for name in names():
        model = load(name)
        problem = model.problem(horizon=100)
        assert not has_rows(problem)
        value, stages = value_with_horizon(model, 100)
        assert stages.shape == (101, len(model.goal))
        assert abs(value - solve(problem).values[model.initial]) <= 1e-12
        assert 0.0 < true_minimum(model) <= 0.5
        assert can_reach_goal(model)[model.initial]
        flagged = model.problem(dead_ends=True)
        assert solve(flagged).values[model.initial] == pytest.approx(
            model.reference, abs=1e-9
        )


# --- coverage -----------------------------------------------------------------


def failures(scale, coins):
    """(failing runs, all runs, the largest delta)."""
    found = [
        carry_out(plan, scale)
        for number in RUNS
        for plan in plans(number)
        if coins <= ("coins" in plan.family)
    ]
    assert {run.kind for run in found} <= {"held", *FAILED}
    assert sum(run.rows for run in found) >= len(found)
    missed = sum(run.kind in FAILED for run in found)
    return missed, len(found), max(run.delta for run in found)


@pytest.mark.compiles
def test_every_row_with_a_horizon_holds():
    missed, runs, delta = failures(1.0, coins=False)
    assert binom.sf(missed - 1, runs, delta) >= FALSE_ALARM


@pytest.mark.compiles
def test_quarter_radii_are_found_out():
    missed, runs, delta = failures(QUARTER, coins=True)
    assert binom.sf(missed - 1, runs, delta) < FALSE_ALARM


@pytest.mark.compiles
def test_every_row_at_discount_1_holds():
    found = [carry_out(next(plans(number))) for number in range(1, 80, 2)]
    searched = [run for run in found if run.kind != "unavailable"]
    if not searched:
        pytest.skip("this version does not search at discount 1 without a horizon")
    assert {run.kind for run in searched} <= {"held", *FAILED}
    missed = sum(run.kind in FAILED for run in searched)
    assert binom.sf(missed - 1, len(searched), 0.2) >= FALSE_ALARM


class Scripted:
    """A search that returns one row, or raises."""

    num_calls = 7

    def __init__(self, row):
        self.row = row

    def query(self, *_, **__):
        if isinstance(self.row, Exception):
            raise self.row
        return SimpleNamespace(notes=("min_probability=0.5 was taken as true.",))

    def table(self):
        return [self.row]


def test_every_outcome_is_told_apart(monkeypatch):
    plan = next(plans(1))  # at discount 1
    chain = sc.make("chain:n=3", discount=0.9, operator="max")  # stands in for it
    value, q = plan.world.exact(0, None)
    held = Row(
        state=0,
        remaining=None,
        player=1,
        value=value,
        interval=(value, value),
        q_intervals=tuple((x, x) for x in q),
        policy=(),
        action=0,
        samples=(),
    )
    some = int(np.flatnonzero(~np.isnan(q))[0])
    shifted = tuple((x + (a == some), x + 1.0) for a, x in enumerate(q))
    contradiction, refusal = (
        sc.OracleError("Bounds cross."),
        sc.InvalidInput(f"{WORD}=0.5"),
    )
    for row, declared, false, kind in (
        (held, None, False, "held"),
        (replace(held, interval=(value + 1e-9, value + 1)), None, False, "missed"),
        (replace(held, q_intervals=shifted), None, False, "missed"),
        (contradiction, None, False, "contradiction"),
        (contradiction, 0.5, True, "refused"),
        (refusal, 0.5, True, "refused"),
        (refusal, 0.5, False, "contradiction"),
        (sc.InvalidInput("Something else."), 0.5, True, "raised"),
    ):
        scripted = Scripted(row)
        monkeypatch.setattr(sc, "Certified", lambda *_, s=scripted, **__: s)
        monkeypatch.setattr(World, "problem", lambda *_, **__: chain)
        run = carry_out(plan._replace(declared=declared, false=false))
        assert run.kind == kind
        monkeypatch.undo()


@pytest.mark.compiles
def test_a_bound_that_misses_by_little_is_seen():
    """Every V and every Q counts, and nothing beyond rounding is forgiven."""
    world = random_horizon(0)
    search = sc.Certified(world.problem(), delta=0.1, seed=0)
    search.query(budget=500)
    row = search.table()[0]
    assert holds(row, world)
    for table in (world.values, world.q_values):
        kept = table[row.remaining, row.state].copy()
        table[row.remaining, row.state] = row.interval[1] + 1e-9 * world.scale + 9.0
        assert not holds(row, world)
        table[row.remaining, row.state] = kept
    world.values[row.remaining, row.state] = row.interval[1] + 1e-9 * world.scale
    assert not holds(row, world)
