"""Sweeps from high values to low ones: their loops, when they are tried, and thousands
of small models in which every proposal is forced, against dense solves.
"""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import World, absorbing, ending, grid, line, ring, walk

import smoothcruiser as sc
from smoothcruiser.exact import elimination as flow
from smoothcruiser.exact import elimination_kernel as flow_kernel
from smoothcruiser.exact.loops import Packed
from smoothcruiser.exact.model import prepare, room_for_policy
from smoothcruiser.exact.solver_clock import Watch
from smoothcruiser.jit.build import compile_function

pytestmark = pytest.mark.compiles


def model_of(world):
    problem = world.problem()
    return prepare(problem, problem.tables)[0]


@pytest.fixture
def flows(monkeypatch):
    """Whether each run of steps succeeded; neither eliminations nor dense solves."""
    made = []
    plain = flow.FlowSteps.values

    def values(self, *args):
        found = plain(self, *args)
        made.append(found[0] is not None)
        return found

    monkeypatch.setattr(flow.FlowSteps, "values", values)
    for name in ("WORTH", "LARGEST_SOLVE"):
        monkeypatch.setattr(f"smoothcruiser.exact.solver.{name}", 0)
    return made


def goal(side, discount):
    """A cost per move until a corner is reached, where plays end."""
    made = grid(side, discount)
    terminal = np.arange(side * side) == side * side - 1
    return World(made.P, -np.ones(made.R.shape), discount, terminal=terminal)


@pytest.mark.parametrize(
    "world",
    [grid(12, 0.99), grid(12, 0.9999), goal(12, 0.99), ring(120, 0.999)],
    ids=["grid", "nearly undiscounted grid", "goal", "ring"],
)
def test_the_bound_holds_against_an_independent_solve(world, flows):
    truth = world.truth()
    found = sc.solve(world.problem())
    assert float(np.max(np.abs(found.values - truth))) <= found.residual_bound
    assert flows == [True]
    assert found.sweeps < 600, "the steps were in vain"


def test_wide_grids_are_solved_this_way_on_their_own(monkeypatch):
    problem = grid(40, 0.99).problem()
    found = sc.solve(problem, tolerance=1e-8)
    assert found.method == "modified-policy-iteration"
    monkeypatch.setattr(
        "smoothcruiser.exact.reachable.SweepSearch.flow", lambda self, _: None
    )
    plain = sc.solve(problem, tolerance=1e-8)
    assert np.max(np.abs(found.values - plain.values)) <= 2e-8
    assert found.policy == pytest.approx(plain.policy)


def test_games_and_several_places_to_stay_are_left_alone(flows):
    sc.solve(absorbing().problem())  # two ends that pay
    made = grid(12, 0.99)
    players = 1 + np.arange(144) % 2
    sc.solve(World(made.P, made.R, 0.99, players=players).problem(), tolerance=1e-6)
    assert flows == []


def test_random_walks_end_the_steps_at_once(flows):
    made = grid(12, 0.99)
    P = (made.P > 0) / (made.P > 0).sum(axis=2, keepdims=True)
    sc.solve(World(P, made.R, 0.99).problem())
    assert flows == [False]


def test_a_limit_of_passes_is_kept(flows):
    m = model_of(grid(12, 0.99))
    steps = flow.flow(m, np.arange(144))
    assert steps is not None
    assert steps.values(0.0, 3 * flow.PASSES - 1, Watch()) == (None, 2 * flow.PASSES)


@pytest.mark.parametrize("wrong", [1e150, 7.0])
def test_nonsense_from_the_steps_breaks_no_bound(wrong, flows, monkeypatch):
    world = ring(60, 0.9)
    monkeypatch.setattr("smoothcruiser.exact.solver.FIRST_SWEEPS", 1)

    def values(self, *_):
        flows.append(True)
        return np.where(np.arange(60) % 2, wrong, 0.0), 1

    monkeypatch.setattr(flow.FlowSteps, "values", values)
    found = sc.solve(world.problem(), tolerance=1e-8)
    assert flows == [True]
    assert float(np.max(np.abs(found.values - world.truth()))) <= 1e-8


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_steps_that_overflow_propose_nothing(wrong):
    m = model_of(grid(5, 0.9))
    steps = flow.FlowSteps(m, np.arange(25.0))
    steps.x[:] = wrong
    assert steps.values(math.inf, 10**9, Watch())[0] is None


# --- the loops ----------------------------------------------------------------


def test_the_potential_is_the_best_reward_discounted_by_its_distance():
    R = np.zeros((6, 2))
    R[2] = 1.0
    m = model_of(walk(line(6), R, 0.5))
    v = np.empty(6)
    assert compile_function(flow_kernel.potential)(m, np.arange(6), v, 3) == 1
    assert v == pytest.approx([0.5, 1.0, 2.0, 1.0, 0.5, 0.25])
    R[5] = 1.0
    m = model_of(walk(line(6), R, 0.5))
    assert compile_function(flow_kernel.potential)(m, np.arange(6), v, 3) == 2


def test_improving_is_a_sweep_in_place_in_the_new_order():
    made = ending()
    world = World(made.P, made.R, 0.9, None, made.terminal, made.legal)
    m = model_of(world)
    guess = np.random.default_rng(1).random(80)
    steps = flow.FlowSteps(m, guess)
    order = np.argsort(-guess)
    change = compile_function(flow_kernel.improve)(steps.model, steps.x, steps.room)
    truth, choice = guess.copy(), np.zeros(80, int)
    for s in order[~world.terminal[order]]:
        q = np.where(world.legal[s], world.R[s] + 0.9 * world.P[s] @ truth, -np.inf)
        truth[s], choice[s] = q.max(), q.argmax()
    assert steps.x == pytest.approx(truth[order], abs=1e-14)
    live = ~world.terminal
    assert change == pytest.approx(np.max(np.abs(truth - guess)[live]))
    rows = np.where(live[:, None], 0.9 * world.P[np.arange(80), choice], 0.0)
    size = int(steps.room.start[80])
    packed = sp.csr_matrix(
        (steps.room.weight[:size], steps.room.target[:size], steps.room.start),
        (80, 80),
    )
    assert packed.toarray() == pytest.approx(rows[order][:, order])
    later = np.triu(packed.toarray(), 1).sum() / packed.sum()
    assert compile_function(flow_kernel.against)(steps.room) == pytest.approx(later)


def test_mass_settles_and_one_constant_finds_a_recurrent_value():
    """A cycle of three states with a tail: the mean reward is found by one round."""
    P = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0.5, 0.5, 0, 0], [1.0, 0, 0, 0]])
    found, gamma = sp.csr_matrix(0.999 * P), 0.999
    packed = Packed(
        found.indptr.astype(np.uint64),
        found.indices.astype(np.uint32),
        found.data,
        np.array([3.0, 0.0, 1.0, 5.0]),
    )
    mass, visits = np.full(4, 0.25), np.empty(4)
    compile_function(flow_kernel.follow)(packed, mass, visits, 60)
    assert visits / visits.sum() == pytest.approx([0.2, 0.4, 0.4, 0.0], abs=1e-3)
    truth = np.linalg.solve(np.eye(4) - gamma * P, packed.income)
    x = np.zeros(4)
    compile_function(flow_kernel.relax)(packed, visits, x, 1, 30)
    assert x == pytest.approx(truth, rel=1e-3)
    compile_function(flow_kernel.relax)(packed, visits, x, 10, 30)
    assert x == pytest.approx(truth, rel=1e-9)


# --- thousands of models --------------------------------------------------------


def drawn(rng):
    """A small model that mixes slowly, in one of many ways, with shuffled states."""
    size, actions = int(rng.integers(2, 11)), int(rng.integers(1, 4))
    P = np.zeros((size, actions, size))
    near = np.array([-1, 0, 1]) if rng.random() < 0.7 else np.arange(size)
    for s in range(size):
        for a in range(actions):
            after = s + rng.choice(near, 2)
            wrap = after % size if rng.random() < 0.5 else np.clip(after, 0, size - 1)
            share = rng.choice([0.0, 1e-9, 0.1, 0.5, rng.random()])
            np.add.at(P[s, a], wrap, [1.0 - share, share])
    stays = rng.random(size) < rng.choice([0.0, 0.3])
    P[stays] = np.eye(size)[stays][:, None, :]
    name = rng.permutation(size)
    P = P[name][:, :, name]
    R = rng.normal(size=(size, actions)) * (rng.random((size, 1)) < rng.random())
    discount = float(rng.choice([0.9, 0.99, 0.999]))
    players = rng.integers(1, 3, size) if rng.random() < 0.3 else None
    terminal = rng.random(size) < 0.3 if rng.random() < 0.3 else None
    legal = rng.random((size, actions)) < 0.7
    legal[np.arange(size), rng.integers(0, actions, size)] = True
    return World(P, R, discount, players, terminal, legal)


@pytest.mark.parametrize("forced", ["flow", "elimination"])
def test_a_thousand_small_models_against_dense_solves(forced, monkeypatch):
    worth = 0.0 if forced == "flow" else 1e9
    for name, value in (("WORTH", worth), ("LARGEST_SOLVE", 0), ("FIRST_SWEEPS", 1)):
        monkeypatch.setattr(f"smoothcruiser.exact.solver.{name}", value)
    monkeypatch.setattr(flow, "MOST_AGAINST", 1.0)
    rng = np.random.default_rng(20)
    for case in range(500):
        world = drawn(rng)
        truth, found = world.truth(), sc.solve(world.problem())
        apart = float(np.max(np.abs(found.values - truth)))
        scale = (1.0 + float(np.max(np.abs(truth)))) / (1.0 - world.discount)
        assert apart <= found.residual_bound + 1e-11 * scale, case
        assert found.residual_bound <= 1e-8 * scale, case


def test_the_memory_of_a_policy_is_the_steps_own():
    m = model_of(grid(5, 0.9))
    steps = flow.FlowSteps(m, np.arange(25.0))
    assert steps.room.weight is not room_for_policy(m).weight
    assert not np.shares_memory(steps.model.prob, m.prob)
