"""Policies by elimination: the bound holds on worlds made to break it, and even where
the elimination returns nonsense; models without a narrow order are told apart early.
"""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import (
    OPERATORS,
    World,
    absorbing,
    ending,
    grid,
    played,
    random_arrays,
    ring,
    walk,
)

import smoothcruiser as sc
from smoothcruiser.exact import elimination, elimination_kernel
from smoothcruiser.exact.elimination import NarrowOrder
from smoothcruiser.exact.loops import Packed
from smoothcruiser.exact.model import prepare, room_for_policy
from smoothcruiser.jit.build import compile_function

pytestmark = pytest.mark.compiles


def periodic(discount):
    """A cycle in both directions: no policy ever mixes."""
    at = np.arange(90)
    moves = np.stack([(at - 1) % 90, (at + 1) % 90], axis=1)
    return walk(moves, np.cos(at)[:, None] * [[1.0, 0.5]], discount)


def near_ties():
    world = ring(80, 0.99, seed=3)
    world.P[:, 1], world.R[:, 1] = world.P[:, 0], world.R[:, 0]
    noise = 1e-13 * np.random.default_rng(4).random((80, 3))
    return World(world.P, world.R + noise, 0.99)


def badly_scaled():
    rng = np.random.default_rng(6)
    return World(ring(80, 0.99, seed=5).P, 10.0 ** rng.uniform(-9, 9, (80, 3)), 0.99)


def cycling_games():
    """Twenty copies of a game in which policies of both players cycle."""
    targets = np.array([[0, 1], [0, 2], [2, 0]])
    R = np.array([[0.7, 0.8], [0.0, 1.0], [0.6, 0.8]])
    copies = np.concatenate([targets + 3 * i for i in range(20)])
    return walk(copies, np.tile(R, (20, 1)), 0.95, players=np.tile([1, 2, 1], 20))


WORLDS = {
    "ring": ring(120, 0.99),
    "grid": grid(9, 0.99),
    "nearly undiscounted ring": ring(80, 0.9999, seed=1),
    "nearly undiscounted grid": grid(8, 0.9999),
    "absorbing": absorbing(),
    "periodic": periodic(0.999),
    "periodic, nearly undiscounted": periodic(0.9999),
    "near ties": near_ties(),
    "badly scaled": badly_scaled(),
    "game on a ring": ring(80, 0.99, seed=2, players=played(80)),
    "games that cycle": cycling_games(),
    "ends": ending(),
}


@pytest.fixture
def solves(monkeypatch):
    """The half bandwidth of every elimination that is made."""
    halves, plain = [], NarrowOrder.solve
    monkeypatch.setattr(
        NarrowOrder,
        "solve",
        lambda self, x, room: halves.append(self.half) or plain(self, x, room),
    )
    return halves


@pytest.mark.parametrize("name", WORLDS)
def test_the_bound_holds_against_an_independent_solve(name, solves):
    world = WORLDS[name]
    truth = world.truth()
    for method in ("auto", "policy-iteration"):
        found = sc.solve(world.problem(), method=method)
        assert float(np.max(np.abs(found.values - truth))) <= found.residual_bound
        assert found.residual_bound <= 1e-6 * (1.0 + float(np.max(np.abs(truth))))
    assert solves, "no policy was eliminated"


HALF = sc.CustomOperator(  # mellow, with gradients that sum to 1/2
    lambda q: 0.5 * math.log(float(np.exp(q).sum())),
    lambda q: 0.5 * np.exp(q) / np.exp(q).sum(),
    smooth=0.125,
)


@pytest.mark.parametrize(
    "operator",
    [*OPERATORS, HALF],
    ids=lambda operator: str(operator).split("(value")[0],
)
@pytest.mark.parametrize("game", [False, True])
def test_every_operator_agrees_with_value_iteration(operator, game, solves):
    world = ring(60, 0.95, players=played(60) if game else None)
    problem = world.problem(operator)
    swept = sc.solve(problem, method="value-iteration")
    assert not solves
    for method in ("auto", "policy-iteration"):
        found = sc.solve(problem, method=method)
        apart = np.max(np.abs(found.values - swept.values))
        assert apart <= found.residual_bound + swept.residual_bound
    assert solves


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rng: rng.normal(size=60),
        lambda rng: np.full(60, 1e150) * (1.0 + np.arange(60)),
        lambda rng: None,
        lambda rng: np.full(60, 3.0),
    ],
    ids=["noise", "huge", "nothing", "constant"],
)
def test_nonsense_from_the_elimination_breaks_no_bound(wrong, monkeypatch):
    """Steps that do not help are undone, and the bound comes from a sweep alone."""
    world, rng = ring(60, 0.9), np.random.default_rng(0)
    monkeypatch.setattr(NarrowOrder, "solve", lambda *_: wrong(rng))
    for name in ("SETTLING", "FIRST_SETTLING"):
        monkeypatch.setattr(f"smoothcruiser.exact.solver.{name}", 0)
    found = sc.solve(world.problem(), method="policy-iteration", tolerance=1e-8)
    assert found.residual_bound <= 1e-8
    assert float(np.max(np.abs(found.values - world.truth()))) <= 1e-8


def test_slow_models_take_few_passes():
    """Sweeps would need about a thousand of them at this discount."""
    problem = WORLDS["periodic"].problem()
    found = sc.solve(problem, tolerance=1e-8)
    assert found.method == "policy-iteration"
    assert found.sweeps < 60
    slow = sc.solve(problem, tolerance=1e-8, method="modified-policy-iteration")
    assert slow.sweeps > 10 * found.sweeps


def test_models_that_mix_are_swept_and_their_order_is_not_even_sought(monkeypatch):
    """Random successors: sweeps end before an order would be found."""
    rng = np.random.default_rng(0)
    index, prob = rng.integers(0, 2500, (10_000, 5)), rng.dirichlet(np.ones(5), 10_000)
    P = sp.csr_matrix((prob.ravel(), index.ravel(), np.arange(0, 50_001, 5)))
    problem = sc.tabular(P, rng.random((2500, 4)), discount=0.95, operator=sc.Max())
    calls, find = [], elimination.narrow
    monkeypatch.setattr(
        elimination, "narrow", lambda t, m: calls.append(1) or find(t, m)
    )
    assert sc.solve(problem, tolerance=1e-8).method == "modified-policy-iteration"
    assert not calls
    sc.solve(problem, tolerance=1e-8, method="policy-iteration")
    assert calls
    assert find(problem.tables, None) is None


# --- the loops ----------------------------------------------------------------


def edges(matrix):
    sparse = sp.csr_matrix(matrix)
    return sparse.indptr.astype(np.int64), sparse.indices.astype(np.uint32)


@pytest.mark.parametrize(
    ("matrix", "most"),
    [
        # moves by at most 3: levels of 6 states, edges within two of them
        (ring(200, 0.9).P.sum(axis=1) > 0, 12),
        (np.kron(np.eye(5), np.ones((2, 2))) > 0, 1),  # parts that are not joined
    ],
    ids=["ring", "parts"],
)
def test_the_order_does_not_depend_on_how_states_are_numbered(matrix, most):
    size = len(matrix)
    order, place = np.empty(size, np.int64), np.empty(size, np.int64)
    level_order = compile_function(elimination_kernel.level_order)
    half = level_order(*edges(matrix), order, place)
    assert np.array_equal(np.sort(order), np.arange(size))
    assert np.array_equal(place[order], np.arange(size))
    row, column = np.nonzero(matrix)
    assert half == np.max(np.abs(place[row] - place[column])) <= most


def test_wide_levels_end_the_search():
    star = np.zeros((50, 50), bool)
    star[0, :], star[:, 0] = True, True
    widest = compile_function(elimination_kernel.widest_level)
    assert widest(*edges(star), 10) == 49
    assert widest(*edges(np.eye(50, k=1) + np.eye(50, k=-1) > 0), 10) == 1


def pack(matrix, income):
    start, target = edges(matrix)
    return Packed(start.astype(np.uint64), target, sp.csr_matrix(matrix).data, income)


@pytest.mark.parametrize(
    ("size", "half"), [(1, 0), (2, 1), (40, 1), (60, 7), (9, 8), (70, 17)]
)
def test_elimination_is_a_linear_solve(size, half):
    rng, at = np.random.default_rng(size), np.arange(size)
    near = np.abs(np.subtract.outer(at, at)) <= half
    matrix = np.where(near, rng.random((size, size)), 0.0)
    matrix *= 0.9999 / matrix.sum(axis=1, keepdims=True)
    packed = pack(matrix, rng.normal(size=size))
    truth = np.linalg.solve(np.eye(size) - matrix, packed.income)
    for order in (at, at[::-1].copy()):
        narrow = NarrowOrder(order, np.argsort(order), half)
        found = narrow.solve(packed, narrow.allocate_rows())
        assert found == pytest.approx(truth, rel=1e-9)


def test_a_system_without_a_solution_gives_none():
    place = np.zeros(1, np.int64)
    narrow = NarrowOrder(place, place, 0)
    packed = pack(np.ones((1, 1)), np.ones(1))
    assert narrow.solve(packed, narrow.allocate_rows()) is None


def test_settling_is_a_sweep_in_place_for_both_players():
    ends = ending()
    world = World(ends.P, ends.R, 0.9, played(80), ends.terminal, ends.legal)
    m, _ = prepare(world.problem(), world.problem().tables)
    order = np.random.default_rng(1).permutation(80)
    found, truth = np.linspace(0.0, 1.0, 80), np.linspace(0.0, 1.0, 80)
    compile_function(elimination_kernel.settle)(m, order[::-1].copy(), found, 1)
    for s in order[~world.terminal[order]]:
        q = (world.R[s] + 0.9 * world.P[s] @ truth)[world.legal[s]]
        truth[s] = q.max() if world.players[s] == 1 else q.min()
    assert found == pytest.approx(truth, abs=1e-14)


def test_the_shortcut_for_max_packs_the_same_rows_to_the_last_bit():
    """Both players, an end, actions that are not legal, ties."""
    P, R = random_arrays(30, 3, 0)
    P[P < 0.05] = 0.0
    P /= P.sum(axis=2, keepdims=True)
    P[3, 1], R[3, 1] = P[3, 2], R[3, 2]
    rng = np.random.default_rng(1)
    legal = rng.random((30, 3)) < 0.7
    legal[:, 2] = True
    world = World(P, R, 0.9, rng.integers(1, 3, 30), np.arange(30) == 7, legal)
    m, kernels = prepare(world.problem(), world.problem().tables)
    value, policy = np.empty(30), np.empty((30, 3))
    kernels.q(m, rng.random(30))
    kernels.values(m, value)
    kernels.policy(m, policy)
    plain, short = room_for_policy(m), room_for_policy(m)
    kernels.pack(m, policy, value, plain)
    kernels.pack_greedy(m, value, short)
    used = int(plain.start[30])
    assert used > 0
    assert short.start.tolist() == plain.start.tolist()
    assert short.income.tolist() == plain.income.tolist()
    assert short.target[:used].tolist() == plain.target[:used].tolist()
    assert short.weight[:used].tolist() == plain.weight[:used].tolist()
