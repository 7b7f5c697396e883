"""Policies by elimination: the bound holds on worlds made to break it, and even where
the elimination returns nonsense; models without a narrow order are told apart early.
"""

import subprocess
import sys

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
from smoothcruiser.exact import elimination
from smoothcruiser.exact.elimination import NarrowOrder
from smoothcruiser.exact.model import EXACT  # forces a form
from smoothcruiser.exact.proof import Arena, is_above, is_below
from smoothcruiser.exact.undiscounted.chains import Rows


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


@pytest.mark.compiles
@pytest.mark.parametrize("name", WORLDS)
def test_the_bound_holds_against_an_independent_solve(name, solves):
    world = WORLDS[name]
    truth = world.truth()
    for method in ("auto", "policy-iteration"):
        found = sc.solve(world.problem(), method=method)
        assert float(np.max(np.abs(found.values - truth))) <= found.residual_bound
        assert found.residual_bound <= 1e-6 * (1.0 + float(np.max(np.abs(truth))))
    assert solves, "no policy was eliminated"


@pytest.mark.compiles
@pytest.mark.parametrize("operator", OPERATORS, ids=str)
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


@pytest.mark.compiles
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


@pytest.mark.compiles
def test_slow_models_take_few_passes():
    """Sweeps would need about a thousand of them at this discount."""
    problem = WORLDS["periodic"].problem()
    found = sc.solve(problem, tolerance=1e-8)
    assert found.method == "policy-iteration"
    assert found.sweeps < 60
    slow = sc.solve(problem, tolerance=1e-8, method="modified-policy-iteration")
    assert slow.sweeps > 10 * found.sweeps


@pytest.mark.compiles
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


# --- sweeps from high values to low ones -------------------------------------------


@pytest.fixture
def flows(monkeypatch):
    """Whether each run of steps succeeded; neither eliminations nor dense solves."""
    made = []
    plain = elimination.FlowSteps.values

    def values(self, *args):
        found = plain(self, *args)
        made.append(found[0] is not None)
        return found

    monkeypatch.setattr(elimination.FlowSteps, "values", values)
    for name in ("WORTH", "LARGEST_SOLVE"):
        monkeypatch.setattr(f"smoothcruiser.exact.solver.{name}", 0)
    return made


@pytest.mark.compiles
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


@pytest.mark.compiles
@pytest.mark.parametrize("wrong", [1e150, 7.0])
def test_nonsense_from_the_steps_breaks_no_bound(wrong, flows, monkeypatch):
    world = ring(60, 0.9)
    monkeypatch.setattr("smoothcruiser.exact.solver.FIRST_SWEEPS", 1)

    def values(self, *_):
        flows.append(True)
        return np.where(np.arange(60) % 2, wrong, 0.0), 1

    monkeypatch.setattr(elimination.FlowSteps, "values", values)
    found = sc.solve(world.problem(), tolerance=1e-8)
    assert flows == [True]
    assert float(np.max(np.abs(found.values - world.truth()))) <= 1e-8


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


@pytest.mark.compiles
@pytest.mark.parametrize("forced", ["flow", "elimination"])
def test_a_thousand_small_models_against_dense_solves(forced, monkeypatch):
    worth = 0.0 if forced == "flow" else 1e9
    for name, value in (("WORTH", worth), ("LARGEST_SOLVE", 0), ("FIRST_SWEEPS", 1)):
        monkeypatch.setattr(f"smoothcruiser.exact.solver.{name}", value)
    monkeypatch.setattr(elimination, "MOST_AGAINST", 1.0)
    rng = np.random.default_rng(20)
    for case in range(500):
        world = drawn(rng)
        truth, found = world.truth(), sc.solve(world.problem())
        apart = float(np.max(np.abs(found.values - truth)))
        scale = (1.0 + float(np.max(np.abs(truth)))) / (1.0 - world.discount)
        assert apart <= found.residual_bound + 1e-11 * scale, case
        assert found.residual_bound <= 1e-8 * scale, case


OUT = 2  # the number of the outside, of two states


def rows_of(listed):
    """Rows (state, [(probability, target)], reward), the outside being ``OUT``."""
    targets = [z for _, outcomes, _ in listed for _, z in outcomes]
    weights = [p for _, outcomes, _ in listed for p, _ in outcomes]
    lengths = [len(outcomes) for _, outcomes, _ in listed]
    reward = np.array([r for _, _, r in listed])
    return Rows(
        size=2,
        owner=np.array([s for s, _, _ in listed]),
        start=np.concatenate([[0], np.cumsum(lengths)]),
        target=np.array(targets),
        weight=np.array(weights),
        reward=reward,
        pays=reward != 0.0,
        row=np.arange(len(listed)),
    )


# 0 and 1 lead to each other for free; from 1 one may leave for 0.6 in the mean
CIRCLE = rows_of([(0, [(1.0, 1)], 0.0), (1, [(1.0, 0)], 0.0), (1, [(1.0, OUT)], 0.6)])
STALL, LEAVE = np.array([0, 1]), np.array([0, 2])


def arena(rows, is_max, *, signed=False):
    paid = rows.reward[rows.entry_row]
    return Arena(rows, rows, paid, np.array(is_max), signed)


def at(*values):
    return np.array([[*values, 0.0], [0.0] * (len(values) + 1)])


@pytest.mark.compiles
def test_above_needs_no_assumption_on_end_components():
    circle = arena(CIRCLE, [True, True])
    assert is_above(circle, at(0.61, 0.61), LEAVE)
    assert is_above(circle, at(7.0, 7.0), STALL)
    assert not is_above(circle, at(0.59, 0.59), LEAVE)
    assert not is_above(circle, at(0.5, 0.5), STALL)  # what the max player leaves out
    assert not is_above(circle, at(0.61, 0.62), LEAVE)  # not constant in the circle
    assert not is_above(circle, at(np.inf, np.inf), LEAVE)
    assert not is_above(circle, at(-1.0, -1.0), LEAVE)


@pytest.mark.compiles
def test_below_refuses_a_policy_that_stalls():
    """1 = max(1, 0.6) in the circle, a fixed point of T that nobody ever earns."""
    circle = arena(CIRCLE, [True, True])
    assert not is_below(circle, at(1.0, 1.0), STALL)
    assert not is_below(circle, at(0.5, 0.5), STALL)
    assert is_below(circle, at(0.59, 0.59), LEAVE)
    assert not is_below(circle, at(0.61, 0.61), LEAVE)
    assert is_below(circle, at(0.0, 0.0), STALL)


@pytest.mark.compiles
def test_below_counts_every_reply_of_the_min_player():
    """The min player, who moves at 1, goes back for ever: nothing is earned."""
    circle = arena(CIRCLE, [True, False])
    assert not is_below(circle, at(0.5, 0.5), LEAVE)
    assert is_above(circle, at(0.0, 0.0), STALL)


@pytest.mark.compiles
def test_rounding_counts_against_a_bound():
    """A bound that is right to the last digit leaves no room for roundings."""
    third = arena(rows_of([(0, [(1.0, 1)], 0.1), (1, [(1.0, OUT)], 0.2)]), [True] * 2)
    exact = 0.1 + 0.2
    assert not is_above(third, at(exact, 0.2), STALL)
    assert not is_below(third, at(exact, 0.2), STALL)
    assert not is_above(third, at(exact + 2e-16, 0.2 + 6e-17), STALL)
    assert not is_below(third, at(exact - 2e-16, 0.2 - 6e-17), STALL)
    assert is_above(third, at(exact + 1e-14, 0.2 + 5e-15), STALL)
    assert is_below(third, at(exact - 1e-14, 0.2 - 5e-15), STALL)


@pytest.mark.compiles
def test_signed_bounds_may_be_negative():
    line = arena(rows_of([(0, [(1.0, 1)], 1.0), (1, [(1.0, OUT)], -3.0)]), [True] * 2)
    signed = arena(line.raw, [True, True], signed=True)
    assert is_above(signed, at(-1.9, -2.95), STALL)
    assert not is_above(signed, at(-2.1, -3.05), STALL)
    assert is_below(signed, at(-2.1, -3.05), STALL)
    assert not is_below(signed, at(-1.9, -2.95), STALL)


def worlds():
    moves, rewards = random_arrays(12, 3, seed=5)
    sparse = np.where(moves > np.median(moves), moves, 0.0)
    sparse += np.eye(12)[:, None, :] * 0.1
    sparse /= sparse.sum(axis=2, keepdims=True)
    end, players = np.arange(12) == 7, np.arange(12) % 2 + 1
    problems = {
        f"{operator}, {kind}": sc.tabular(
            table, rewards, discount=0.97, operator=operator, terminal=end
        )
        for operator in OPERATORS
        for kind, table in (("dense", moves), ("sparse", sparse))
    }
    options = {"operator": sc.Max(), "terminal": end}
    problems["game"] = sc.tabular(
        sparse, rewards, discount=0.9, operator=sc.Entropy(0.2), players=players
    )
    problems["horizon"] = sc.tabular(sparse, rewards, discount=1, horizon=9, **options)
    problems["discount 1"] = sc.tabular(sparse, -rewards, discount=1.0, **options)
    for size in (40, 2200):  # a dense solve; too large for one
        problems[f"ring of {size}"] = slow_ring(size).problem()
    return problems


def slow_ring(size):
    """Moves around a ring, and one state that pays: eliminations, flow."""
    at = np.arange(size)
    rewards = np.repeat((at == 0.0)[:, None], 2, 1)
    return walk(np.stack([(at - 1) % size, (at + 1) % size], axis=1), rewards, 0.999)


TWICE_SOLVED = worlds()


@pytest.mark.compiles
@pytest.mark.parametrize("name", TWICE_SOLVED)
def test_a_solution_has_the_same_bits_in_both_forms(name):
    answers = []
    for compiled in (False, True):
        with EXACT.use_form(compiled=compiled):
            answers.append(sc.solve(TWICE_SOLVED[name]))
    interpreted, compiled = answers
    for part in ("values", "q_values", "policy"):
        first, second = getattr(interpreted, part), getattr(compiled, part)
        assert first.tobytes() == second.tobytes(), part
    assert interpreted.residual_bound == compiled.residual_bound
    assert interpreted.sweeps == compiled.sweeps
    assert interpreted.compile_seconds == 0.0


@pytest.mark.compiles  # it starts a process
def test_a_small_table_is_solved_without_numba():
    program = (
        "import sys, smoothcruiser as sc\n"
        "p = sc.tabular([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[-1, 0], [0, -2]],"
        " discount=0.97, operator=sc.Max())\n"
        "assert abs(sc.solve(p).values[0]) < 1e-9\n"
        "assert sc.plan(p, epsilon=0.1, delta=0.1).num_calls == 0\n"
        "assert 'numba' not in sys.modules, 'Numba was imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
