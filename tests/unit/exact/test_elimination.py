"""Policies by elimination: the bound holds on worlds made to break it, and even where
the elimination returns nonsense; models without a narrow order are told apart early.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import OPERATORS

import smoothcruiser as sc
from smoothcruiser.exact import elimination, elimination_kernel, solve
from smoothcruiser.exact.elimination import NarrowOrder
from smoothcruiser.exact.loops import Packed
from smoothcruiser.exact.model import prepare
from smoothcruiser.jit.build import compile_function

pytestmark = pytest.mark.compiles


@dataclass(frozen=True)
class World:
    """A model as dense arrays, beside the problem that has it sparse."""

    P: np.ndarray  # (S, A, S)
    R: np.ndarray  # (S, A)
    discount: float
    players = None
    terminal = None
    legal = None

    def problem(self, operator=None):
        size, actions = self.R.shape
        return sc.tabular(
            sp.csr_matrix(self.P.reshape(size * actions, size)),
            self.R,
            discount=self.discount,
            operator=sc.Max() if operator is None else operator,
            players=self.players,
            terminal=self.terminal,
            legal=self.legal,
        )

    def truth(self):
        """V* of the normalized rows: strategy iteration with dense solves, refined.

        The min player replies to each policy of the max player (Hoffman and Karp).
        """
        size = len(self.R)
        rows = self.P.astype(np.longdouble)
        rows /= rows.sum(axis=2, keepdims=True)
        ends = np.zeros(size, bool) if self.terminal is None else self.terminal
        legal = np.ones(self.R.shape, bool) if self.legal is None else self.legal
        mine = np.ones(size, bool) if self.players is None else self.players == 1
        at = np.arange(size)

        def value(policy):
            part = np.where(ends[:, None], 0.0, self.discount * rows[at, policy])
            income = np.where(ends, 0.0, self.R[at, policy]).astype(np.longdouble)
            matrix = np.eye(size) - part
            x = np.zeros(size, np.longdouble)
            for _ in range(4):  # refined to the last digits of float64
                left = income - matrix @ x
                x = x + np.linalg.solve(matrix.astype(float), left.astype(float))
            return x

        def better(x, policy, who, sign):
            q = sign * (self.R + self.discount * rows @ x)
            q = np.where(legal, q, -np.inf)
            best = q.argmax(axis=1)
            least = 1e-16 * (1.0 + np.abs(x))
            return np.where(who & (q[at, best] > q[at, policy] + least), best, policy)

        policy = legal.argmax(axis=1)
        for _ in range(1000):
            for _ in range(1000):
                x = value(policy)
                reply = better(x, policy, ~mine & ~ends, -1.0)
                if np.array_equal(reply, policy):
                    break
                policy = reply
            improved = better(x, policy, mine & ~ends, 1.0)
            if np.array_equal(improved, policy):
                return x
            policy = improved
        raise AssertionError("strategy iteration did not end")


def ring(size, discount, seed=0, **other):
    """Moves of at most 3 to either side, rewards in one place, shuffled numbers."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(size)
    P, R = np.zeros((size, 3, size)), np.zeros((size, 3))
    for s in range(size):
        for a in range(3):
            after = name[(s + rng.integers(-3, 4, 4)) % size]
            np.add.at(P, (name[s], a, after), rng.dirichlet(np.ones(4)))
    R[name[:5]] = rng.random((5, 3))
    return World(P / P.sum(axis=2, keepdims=True), R, discount, **other)


def grid(side, discount):
    at = np.arange(side * side)
    P = np.zeros((side * side, 4, side * side))
    for way, (dy, dx) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
        y, x = np.clip([at // side + dy, at % side + dx], 0, side - 1)
        for a in range(4):
            P[at, a, y * side + x] += 0.85 if a == way else 0.05
    R = 0.01 * np.random.default_rng(0).random((side * side, 4))
    R[-1] += 1.0
    return World(P, R, discount)


def walk(targets, R, discount, **other):
    """Sure moves: ``targets`` of shape (S, A)."""
    size, actions = targets.shape
    P = np.zeros((size, actions, size))
    P[np.arange(size)[:, None], np.arange(actions), targets] = 1.0
    return World(P, np.asarray(R, float), discount, **other)


def line(size):
    """Where the two moves of a line lead, whose ends stay."""
    at = np.arange(size)
    return np.stack([np.maximum(at - 1, 0), np.minimum(at + 1, size - 1)], axis=1)


def absorbing():
    """A line whose ends stay for ever, one paying 1 and the other 1 less 1e-9."""
    R = np.zeros((80, 2))
    R[0], R[-1] = 1.0, 1.0 - 1e-9
    return walk(line(80), R, 0.999)


def periodic(discount):
    """A cycle in both directions: no policy ever mixes."""
    at = np.arange(90)
    moves = np.stack([(at - 1) % 90, (at + 1) % 90], axis=1)
    return walk(moves, np.cos(at)[:, None] * [[1.0, 0.5]], discount)


def near_ties():
    made = ring(80, 0.99, seed=3)
    noise = 1e-13 * np.random.default_rng(4).random((80, 3))
    P, R = made.P.copy(), made.R.copy()
    P[:, 1], R[:, 1] = P[:, 0], R[:, 0]
    return World(P, R + noise, 0.99)


def badly_scaled():
    made = ring(80, 0.99, seed=5)
    rng = np.random.default_rng(6)
    return World(made.P, 10.0 ** rng.uniform(-9.0, 9.0, (80, 3)), 0.99)


def cycling_games():
    """Twenty copies of a game in which policies of both players cycle."""
    targets = np.array([[0, 1], [0, 2], [2, 0]])
    R = np.array([[0.7, 0.8], [0.0, 1.0], [0.6, 0.8]])
    copies = np.concatenate([targets + 3 * i for i in range(20)])
    players = np.tile([1, 2, 1], 20)
    return walk(copies, np.tile(R, (20, 1)), 0.95, players=players)


def ending():
    """Ends, whose rows lead far away, and actions that are not legal."""
    made = ring(80, 0.999, seed=7)
    rng = np.random.default_rng(8)
    terminal, legal = rng.random(80) < 0.05, rng.random((80, 3)) < 0.7
    legal[:, 1] = True
    P, R = made.P.copy(), made.R.copy() - 0.1
    P[terminal] = 1.0 / 80.0
    return World(P, R, 0.999, terminal=terminal, legal=legal)


def played(size):
    return np.random.default_rng(9).integers(1, 3, size)


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
    made = []
    plain = NarrowOrder.solve
    monkeypatch.setattr(
        NarrowOrder,
        "solve",
        lambda self, x, room: made.append(self.half) or plain(self, x, room),
    )
    return made


@pytest.mark.parametrize("name", WORLDS)
def test_the_bound_holds_against_an_independent_solve(name, solves):
    world = WORLDS[name]
    truth = world.truth()
    for method in ("auto", "policy-iteration"):
        found = solve(world.problem(), method=method)
        assert float(np.max(np.abs(found.values - truth))) <= found.residual_bound
        assert found.residual_bound <= 1e-6 * (1.0 + float(np.max(np.abs(truth))))
    assert solves, "no policy was eliminated"


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@pytest.mark.parametrize("game", [False, True])
def test_every_operator_agrees_with_value_iteration(operator, game, solves):
    world = ring(60, 0.95, players=played(60) if game else None)
    problem = world.problem(operator)
    swept = solve(problem, method="value-iteration")
    assert not solves
    for method in ("auto", "policy-iteration"):
        found = solve(problem, method=method)
        apart = np.max(np.abs(found.values - swept.values))
        assert apart <= found.residual_bound + swept.residual_bound
    assert solves


def test_a_users_operator_is_eliminated_too(solves):
    half = sc.CustomOperator(  # mellow, with gradients that sum to 1/2
        lambda q: 0.5 * math.log(float(np.exp(q).sum())),
        lambda q: 0.5 * np.exp(q) / np.exp(q).sum(),
        smooth=0.125,
    )
    problem = ring(40, 0.99).problem(half)
    swept = solve(problem, method="value-iteration")
    found = solve(problem, method="policy-iteration")
    assert solves
    assert np.max(np.abs(found.values - swept.values)) <= (
        found.residual_bound + swept.residual_bound
    )


@pytest.mark.parametrize("wrong", ["noise", "huge", "nothing", "constant"])
def test_nonsense_from_the_elimination_breaks_no_bound(wrong, monkeypatch):
    """Steps that do not help are undone, and the bound comes from a sweep alone."""
    world, rng = ring(60, 0.9), np.random.default_rng(0)
    made = {
        "noise": lambda self, packed, room: rng.normal(size=60),
        "huge": lambda self, packed, room: np.full(60, 1e150) * (1.0 + np.arange(60)),
        "nothing": lambda self, packed, room: None,
        "constant": lambda self, packed, room: np.full(60, 3.0),
    }
    monkeypatch.setattr(NarrowOrder, "solve", made[wrong])
    for name in ("SETTLING", "FIRST_SETTLING"):
        monkeypatch.setattr(f"smoothcruiser.exact.solver.{name}", 0)
    found = solve(world.problem(), method="policy-iteration", tolerance=1e-8)
    assert found.residual_bound <= 1e-8
    assert float(np.max(np.abs(found.values - world.truth()))) <= 1e-8


def test_slow_models_take_few_passes(solves):
    """Sweeps would need about a thousand of them at this discount."""
    problem = WORLDS["periodic"].problem()
    found = solve(problem, tolerance=1e-8)
    assert found.method == "policy-iteration"
    assert found.sweeps < 60
    slow = solve(problem, tolerance=1e-8, method="modified-policy-iteration")
    assert slow.sweeps > 10 * found.sweeps


def test_models_that_mix_are_swept_and_their_order_is_not_even_sought(monkeypatch):
    """Random successors: sweeps end before an order would be found."""
    rng = np.random.default_rng(0)
    index, prob = rng.integers(0, 2500, (10_000, 5)), rng.dirichlet(np.ones(5), 10_000)
    P = sp.csr_matrix((prob.ravel(), index.ravel(), np.arange(0, 50_001, 5)))
    problem = sc.tabular(P, rng.random((2500, 4)), discount=0.95, operator=sc.Max())
    asked = []
    find = elimination.narrow
    monkeypatch.setattr(
        elimination, "narrow", lambda t, m: asked.append(1) or find(t, m)
    )
    assert solve(problem, tolerance=1e-8).method == "modified-policy-iteration"
    assert not asked
    solve(problem, tolerance=1e-8, method="policy-iteration")
    assert asked
    assert find(problem.tables, None) is None


# --- the loops ----------------------------------------------------------------


def edges(matrix):
    found = sp.csr_matrix(matrix)
    return found.indptr.astype(np.int64), found.indices.astype(np.uint32)


def test_the_order_does_not_depend_on_how_states_are_numbered():
    """A ring of moves by at most 3: levels of 6 states, edges within two of them."""
    matrix = ring(200, 0.9).P.sum(axis=1) > 0
    order, place = np.empty(200, np.int64), np.empty(200, np.int64)
    half = compile_function(elimination_kernel.level_order)(
        *edges(matrix), order, place
    )
    assert np.array_equal(np.sort(order), np.arange(200))
    assert np.array_equal(place[order], np.arange(200))
    row, column = np.nonzero(matrix)
    assert half == np.max(np.abs(place[row] - place[column]))
    assert half <= 12


def test_parts_that_are_not_joined_have_an_order_too():
    matrix = np.kron(np.eye(5), np.ones((2, 2))) > 0
    order, place = np.empty(10, np.int64), np.empty(10, np.int64)
    assert (
        compile_function(elimination_kernel.level_order)(*edges(matrix), order, place)
        == 1
    )
    assert np.array_equal(np.sort(order), np.arange(10))


def test_wide_levels_end_the_search():
    star = np.zeros((50, 50), bool)
    star[0, :], star[:, 0] = True, True
    widest = compile_function(elimination_kernel.widest_level)
    assert widest(*edges(star), 10) == 49
    assert widest(*edges(np.eye(50, k=1) + np.eye(50, k=-1) > 0), 10) == 1


def banded(size, half, seed):
    rng = np.random.default_rng(seed)
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    matrix = np.where(apart <= half, rng.random((size, size)), 0.0)
    matrix *= 0.9999 / matrix.sum(axis=1, keepdims=True)
    start, target = edges(matrix)
    weight = sp.csr_matrix(matrix).data
    return matrix, Packed(
        start.astype(np.uint64), target, weight, rng.normal(size=size)
    )


@pytest.mark.parametrize(
    ("size", "half"), [(1, 0), (2, 1), (40, 1), (60, 7), (9, 8), (70, 17)]
)
def test_elimination_is_a_linear_solve(size, half):
    matrix, packed = banded(size, half, seed=size)
    at = np.arange(size)
    for order in (at, at[::-1].copy()):
        narrow = NarrowOrder(order, np.argsort(order), half)
        found = narrow.solve(packed, narrow.allocate_rows())
        truth = np.linalg.solve(np.eye(size) - matrix, packed.income)
        assert found == pytest.approx(truth, rel=1e-9)


def test_settling_is_a_sweep_in_place_for_both_players():
    made = ending()
    world = World(made.P, made.R, 0.9, played(80), made.terminal, made.legal)
    m, _, _ = prepare(world.problem(), world.problem().tables)
    order = np.random.default_rng(1).permutation(80)
    found, truth = np.linspace(0.0, 1.0, 80), np.linspace(0.0, 1.0, 80)
    compile_function(elimination_kernel.settle)(m, order[::-1].copy(), found, 1)
    for s in order[~world.terminal[order]]:
        q = (world.R[s] + 0.9 * world.P[s] @ truth)[world.legal[s]]
        truth[s] = q.max() if world.players[s] == 1 else q.min()
    assert found == pytest.approx(truth, abs=1e-14)


def test_a_system_without_a_solution_gives_none():
    one, place = np.ones(1), np.zeros(1, np.int64)
    start, target = np.array([0, 1], np.uint64), np.zeros(1, np.uint32)
    narrow = NarrowOrder(place, place, 0)
    assert (
        narrow.solve(Packed(start, target, one, one), narrow.allocate_rows()) is None
    )
