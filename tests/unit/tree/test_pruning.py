"""``bounds=``: what a memory excludes is never tried, nothing else changes, and the two
trees agree to the last bit.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from tree_worlds import everything, mdp, nodes_below, same

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

GARNET = sc.make("garnet:states=12,actions=4,seed=1", discount=0.8, operator="max")
GAME = sc.make("random-game:states=9,actions=3,seed=2", discount=0.7, operator="max")
SAIL = sc.make("sailing:n=4", discount=1.0, operator="max")


class BoundsRow(NamedTuple):
    state: Any
    remaining: int | None
    player: int
    q_intervals: Any


class BoundsTable(list):
    confidence = 0.9


class Known:
    """A memory with the bounds that a test gives it."""

    def __init__(self, problem, rows):
        self.problem, self.rows = problem, rows

    def table(self):
        return BoundsTable(self.rows)

    def query(self):
        raise AssertionError("a tree asks nothing new")


def some_bounds(problem, seed=0):
    """Any bounds at most states (and steps left), with NaN where illegal."""
    rng = np.random.default_rng(seed)
    rows = []
    lefts = [None] if problem.horizon is None else range(1, problem.horizon + 1)
    for state in range(len(problem.tables.terminal)):
        if problem.is_terminal(state) or rng.random() < 0.2:
            continue
        for left in lefts:
            ends = np.sort(rng.random((problem.num_actions, 2)), axis=1)
            ends[:, 0] += 0.3
            ends.sort(axis=1)
            illegal = set(range(problem.num_actions)) - set(
                problem.legal_actions(state)
            )
            ends[list(illegal)] = math.nan
            rows.append(BoundsRow(state, left, problem.mover(state), ends))
    return Known(problem, rows)


MEMORIES = {
    name: some_bounds(problem)
    for name, problem in (("garnet", GARNET), ("game", GAME), ("sailing", SAIL))
}


def bounds_of(problem, memory):
    """The bounds that a tree of a problem takes from a memory."""
    return sc.Tree(problem, method=sc.UCT(bounds=memory), executor="reference").bounds


def excluded_at(bounds, state, problem, depth):
    """What is excluded at a state; at a depth where steps are counted."""
    time = -1 if problem.horizon is None else depth
    return bounds.excluded_actions.get((state, time), frozenset())


def one_state(intervals, player=1):
    """What bounds exclude at one state."""
    problem = GARNET if player == 1 else GAME
    found = bounds_of(problem, Known(problem, [BoundsRow(0, None, player, intervals)]))
    return set(excluded_at(found, 0, problem, 0))


def test_what_is_not_best_is_excluded():
    nan = (math.nan, math.nan)
    assert one_state([(0, 1), (2, 3), (0.5, 2.5), nan]) == {0}
    assert one_state([(0, 2), (2, 3), (0, 9), nan]) == set()  # a tie may be best
    assert one_state([(0, 1), (2, 3), (5, 6), (5.5, 6.5)]) == {0, 1}
    assert one_state([nan] * 4) == set()
    assert one_state([(0, 1), (2, 3), (0.5, 2.5)], player=2) == {1}
    assert one_state([(0, 1), (1, 3), (-5, -4)], player=2) == {0, 1}


@pytest.mark.parametrize("problem", [GARNET, GAME], ids=["garnet", "game"])
def test_bounds_that_hold_never_exclude_a_best_action(problem):
    """V is the same without what is excluded, in games too."""
    solution, rng = sc.solve(problem), np.random.default_rng(5)
    q, counted = solution.q_values, 0
    for _ in range(40):
        width = 10.0 ** rng.uniform(-3, 0)
        ends = np.stack([q - rng.random(q.shape) * width, q + width / 2], axis=2)
        rows = [
            BoundsRow(s, None, problem.mover(s), ends[s])
            for s in range(len(q))
            if np.isfinite(q[s]).any()
        ]
        found = bounds_of(problem, Known(problem, rows))
        for (state, _), out in found.excluded_actions.items():
            best = np.argmax if problem.mover(state) == 1 else np.argmin
            assert best(q[state]) not in out
            counted += len(out)
    assert counted > 200


METHODS = [
    sc.UCT(),
    sc.UCT(expansion=None, depth=6, action_widening=(1.0, 0.4)),
    sc.BTS(widening=(1.0, 0.4)),
    sc.DENTS(expansion=3, max_nodes=25),
    sc.RENTS(temperature=0.3),
    sc.PUCT(),
    sc.Gumbel(considered=3),
    sc.UCT(value=lambda state: 0.1 * state, leaf_batch=4, virtual_loss=0.1),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", MEMORIES)
def test_an_excluded_action_gets_no_visit_and_the_trees_agree(name, method):
    memory = MEMORIES[name]
    problem = memory.problem
    tree = same(problem, replace(method, bounds=memory), simulations=60)
    met = 0
    for node, depth in nodes_below(tree):
        out = excluded_at(tree.bounds, node.state, problem, depth)
        legal = set(problem.legal_actions(node.state))
        assert set(node.actions) <= legal - out
        if method.action_widening is None:
            assert set(node.actions) == legal - out
        assert node.size > 0
        for q, (low, high) in zip(
            tree.q_values(node.number), node.bounds, strict=False
        ):
            assert low <= q <= high
        time = -1 if problem.horizon is None else depth
        assert bool(node.bounds) == ((node.state, time) in tree.bounds.rows)
        assert not node.is_proven
        met += len(legal & out)
    assert met > 5


@pytest.mark.parametrize("search", [sc.UCT, sc.BTS, sc.PUCT])
def test_first_values_of_actions_lie_inside_the_bounds(search):
    firsts = lambda state: np.array([0.3, 2.0, -1.0])  # noqa: E731
    same(GAME, search(initial_q=firsts, bounds=MEMORIES["game"]), simulations=60)


@pytest.mark.parametrize("method", [sc.UCT(), sc.PUCT(), sc.DENTS()], ids=str)
def test_a_memory_that_knows_nothing_changes_no_bit(method):
    for problem in (GARNET, SAIL):
        empty = sc.Certified(problem, delta=0.1)
        for executor in ("compiled", "reference"):
            trees = [
                sc.Tree(problem, method=search, seed=4, executor=executor)
                for search in (method, replace(method, bounds=empty))
            ]
            with_none, with_empty = (tree.grow(simulations=50) for tree in trees)
            assert everything(with_empty) == everything(with_none)


def test_several_trees_and_moves():
    memory = MEMORIES["garnet"]
    method = sc.UCT(trees=2, bounds=memory)
    found = []
    for executor in ("compiled", "reference"):
        tree = sc.Tree(GARNET, method=method, seed=1, executor=executor)
        tree.grow(simulations=60)
        action, child = tree.children(0)[0]
        tree.advance(action, tree.node(child).state).grow(simulations=20)
        found.append(everything(tree))
    assert found[0] == found[1]


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_a_move_that_was_excluded_may_be_made(executor):
    """The other player may err; time goes on counting."""
    memory = MEMORIES["sailing"]
    tree = sc.Tree(SAIL, method=sc.UCT(bounds=memory), seed=1, executor=executor)
    tree.grow(simulations=20)
    root = tree.node(0)
    legal = SAIL.legal_actions(root.state)
    action = next(a for a in legal if a not in root.actions)
    after = next(
        row.state
        for row in memory.rows
        if (row.state, 1) in tree.bounds.excluded_actions
    )
    tree.advance(action, after).grow(simulations=20)
    out = tree.bounds.excluded_actions[after, 1]
    assert set(tree.node(0).actions) == set(SAIL.legal_actions(after)) - out
    illegal = next(iter(set(range(SAIL.num_actions)) - set(legal)), 99)
    with pytest.raises(sc.InvalidInput, match="not legal"):
        sc.Tree(SAIL, method="uct").advance(illegal, after)


def test_a_memory_that_learns_changes_the_next_tree():
    memory = sc.Certified(GARNET, delta=0.1)
    method = sc.UCT(bounds=memory)
    before = sc.Tree(GARNET, method=method, seed=1, executor="reference")
    memory.query(budget=60_000)
    after = sc.Tree(GARNET, method=method, seed=1, executor="reference")
    assert before.bounds.excluded_actions == {}
    found = after.grow(simulations=30).bounds.excluded_actions
    q = sc.solve(GARNET).q_values
    assert all(q[state].argmax() not in out for (state, _), out in found.items())
    out = excluded_at(after.bounds, GARNET.initial_state, GARNET, 0)
    assert out
    estimate = after.estimate()
    assert estimate.certificate is None
    assert estimate.interval is None
    row = memory.table().at(GARNET.initial_state)
    for action, (low, high) in enumerate(row.q_intervals):
        q = estimate.q_values[action]
        assert low <= q <= high
        assert (q == 0.5 * (low + high)) == (action in out)
    assert any(
        "with probability at least 0.9 none of these is best" in n
        for n in estimate.notes
    )


@pytest.mark.parametrize("player", [1, 2])
def test_estimates_lie_inside_the_bounds(player):
    problem = next(
        replace(GAME, initial_state=s) for s in range(9) if GAME.mover(s) == player
    )
    state = problem.initial_state
    ends = [(-3.0, -2.0), (4.0, 5.0), (4.5, 6.0)]
    memory = Known(GAME, [BoundsRow(state, None, player, ends)])
    trees = [
        sc.Tree(problem, method=sc.UCT(bounds=b), executor="reference")
        for b in (memory, None)
    ]
    found, plain = (tree.grow(simulations=30).estimate() for tree in trees)
    assert -2.0 < plain.value < 4.0
    assert found.q_values == ((-2.5, 4.0, 4.5) if player == 1 else (-2.0, 4.5, 5.25))
    assert found.value == found.q_values[found.action]
    assert found.action in ((1, 2) if player == 1 else (0,))


def test_an_exact_solution_leaves_best_actions():
    solution = sc.solve(GARNET)
    tree = sc.Tree(
        GARNET, method=sc.UCT(bounds=solution), seed=1, executor="reference"
    )
    estimate = tree.grow(simulations=5).estimate()
    assert tree.node(0).actions == (int(solution.q_values[0].argmax()),)
    assert any(note.endswith("; none of these is best.") for note in estimate.notes)


@numba.njit
def walk(state, action, rng):
    return 0.5 * action, min(5, state + 1 + action)


WALK = mdp(walk, discount=0.9)


def test_states_of_any_kind_are_known_by_their_keys():
    problem = mdp(
        lambda s, a, rng: (0.5 * a, [s[0] + 1, a]),
        discount=0.9,
        initial_state=[0, 0],
        key=lambda s: s[0] % 3,
    )
    rows = [BoundsRow([4, 7], None, 1, [(0.0, 0.1), (0.5, 0.9)])]
    tree = sc.Tree(problem, method=sc.UCT(bounds=Known(problem, rows)), seed=1)
    tree.grow(simulations=40)
    shapes = {node.state[0] % 3: node.actions for node, _ in nodes_below(tree)}
    assert shapes == {0: (0, 1), 1: (1,), 2: (0, 1)}


def known_nothing(problem=GARNET, **more):
    return sc.UCT(bounds=Known(problem, []), **more)


@pytest.mark.parametrize(
    ("problem", "method", "why"),
    [
        (GARNET, lambda: sc.UCT(bounds=3), "must be a Certified or a Solution"),
        (GARNET, lambda: sc.UCT(bounds="nowhere:memory"), "could not be found"),
        (GARNET, lambda: known_nothing(solve=True), "drop one of them"),
        (
            replace(GARNET, operator=sc.Entropy(0.1)),
            known_nothing,
            "all actions count",
        ),
        (replace(GARNET, discount=0.7), known_nothing, "another problem .discount d"),
        (GARNET, lambda: sc.MENTS(bounds=Known(GARNET, [])), "for the plain maximum"),
        (GARNET, lambda: sc.UCT(bounds=sc.solve(GAME)), "9 states"),
        (SAIL, lambda: sc.UCT(bounds=sc.solve(SAIL)), "a horizon"),
        (WALK, lambda: known_nothing(WALK), "no table of states"),
    ],
)
def test_memories_of_no_use_are_refused(problem, method, why):
    executor = "compiled" if problem is WALK else None
    with pytest.raises(sc.InvalidInput, match=why):
        sc.Tree(problem, method=method(), executor=executor)


def test_compiled_steps_without_a_table_grow_plain_trees():
    rows = [BoundsRow(0, None, 1, [(0.0, 0.1), (0.5, 0.9)])]
    tree = sc.Tree(WALK, method=sc.UCT(bounds=Known(WALK, rows)), seed=1)
    assert tree.grow(simulations=5).backend.name == "reference"
    assert tree.node(0).actions == (1,)


def test_where_a_memory_began_makes_no_difference():
    other = replace(GARNET, initial_state=3)
    memory = Known(GARNET, MEMORIES["garnet"].rows)
    found = bounds_of(other, memory)
    assert found.excluded_actions == bounds_of(GARNET, memory).excluded_actions
