"""Boxes of trees without chance: they hold the minimax value at every node and at any
time, close where it is proven, and agree between the two trees to the last bit.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numba import njit

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

METHODS = [
    sc.UCT(solve=True),
    sc.UCT(solve=True, exploration=0.5, expansion=None),
    sc.BTS(solve=True, expansion=3, max_nodes=30),
    sc.BTS(solve=True, average_returns=True, initial_q=0.0),
    sc.DENTS(solve=True),
]


def world(seed, *, game=True, discount=1.0, horizon=5, ends=True, whole=False):
    """A random table without chance, and its minimax value with steps left."""
    rng = np.random.default_rng(seed)
    S, A = 12, 3
    after = rng.integers(S, size=(S, A))
    reward = rng.uniform(-1.0, 1.0, size=(S, A))
    if whole:
        reward = np.round(reward)
    players = rng.integers(1, 3, size=S) if game else None
    over = (rng.random(S) < 0.2) & (np.arange(S) > 0) if ends else np.zeros(S, bool)
    P = np.zeros((S, A, S))
    for s in range(S):
        P[s, np.arange(A), after[s]] = 1.0
    problem = sc.tabular(
        P,
        reward,
        discount=discount if horizon is None else min(discount, 0.99),
        operator=sc.Max(),
        players=players,
        terminal=over if ends else None,
    )
    problem = replace(
        problem,
        discount=discount,
        horizon=horizon,
        deterministic=True,
        reward_range=(-1.0, 1.0),
    )

    @cache
    def value(state, left):
        if over[state] or left == 0:
            return 0.0
        best = max if players is None or players[state] == 1 else min
        return best(
            reward[state, a] + discount * value(after[state, a], left - 1)
            for a in range(A)
        )

    return problem, value


def below(tree):
    """(node, its depth) of every node."""
    found = [(0, 0)]
    for number, depth in found:
        found += [(child, depth + 1) for _, child in tree.children(number)]
    return found


def agree(problem, method, **limit):
    trees = [
        sc.Tree(problem, method=method, seed=3, executor=e).grow(**limit)
        for e in ("compiled", "reference")
    ]
    assert trees[0]._backend.counts == trees[1]._backend.counts
    assert trees[0].inexact == trees[1].inexact
    waiting = [(0, 0)]
    while waiting:
        i, j = waiting.pop()
        left, right = trees[0].node(i), trees[1].node(j)
        assert replace(left, number=0) == replace(right, number=0)
        twins = dict(trees[1].children(j))
        pairs = trees[0].children(i)
        assert len(pairs) == len(twins)
        waiting += [(child, twins[action]) for action, child in pairs]
    return trees[0]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("game", [True, False])
def test_boxes_hold_the_minimax_value_everywhere(method, game):
    """At 5 and 50 simulations, and in the end: every node of both trees."""
    for seed in range(2):
        problem, value = world(
            seed, game=game, discount=(1.0, 0.9)[seed % 2], horizon=4
        )
        for simulations in (5, 50):
            tree = agree(problem, method, simulations=simulations)
            for number, depth in below(tree):
                node = tree.node(number)
                low, high = node.box
                true = value(node.state, 4 - depth)
                assert low - 1e-12 <= true <= high + 1e-12
        tree = agree(problem, method, simulations=600)
        if method.max_nodes is None:
            assert tree.proven
            assert tree.simulations < 600  # 3**4 plays, and it stops
            assert tree.estimate().value == pytest.approx(value(0, 4), abs=1e-12)
            q = tree.estimate().q_values[tree.action()]
            assert q == pytest.approx(value(0, 4), abs=1e-12)


def test_whole_rewards_are_exact_and_others_have_room():
    exact, value = world(1, whole=True)
    certificate = sc.plan(exact, method=METHODS[0], budget=5000).certificate
    assert certificate.kind == "proof"
    assert certificate.interval == (value(0, 5), value(0, 5))
    assert certificate.confidence == 1.0
    assert any("deterministic=True" in said for said in certificate.assumptions)
    rounded, value = world(1, discount=0.9)
    low, high = sc.plan(rounded, method=METHODS[0], budget=5000).interval
    assert low < value(0, 5) < high
    assert high - low < 1e-13


def test_the_answer_before_the_end_holds_too():
    for seed in range(10):
        problem, value = world(seed, horizon=8)
        few = sc.plan(problem, method=METHODS[0], budget=300, seed=seed)
        assert few.num_calls <= 300
        assert few.interval[0] <= value(0, 8) <= few.interval[1]
        assert few.interval[0] <= few.value <= few.interval[1]
        assert few.delta == 0.0


def test_nothing_is_recommended_that_is_surely_worse():
    """Action 0 is met most often by far before 1 is proven better: visits do not
    decide against a proof.
    """
    for seed in range(8):
        problem, _ = world(seed, horizon=3)
        tree = sc.Tree(problem, method=METHODS[0], seed=seed)
        while not tree.proven:
            tree.grow(simulations=1)
            root = tree.node(0)
            ends = {
                a: (low, high) if root.player == 1 else (-high, -low)
                for a, (low, high) in zip(root.actions, root.boxes, strict=True)
            }
            low, high = ends[tree.action()]
            floor = max(end[0] for end in ends.values())
            assert high > floor or low == floor


def test_slices_and_moves_keep_the_boxes():
    problem, value = world(2, horizon=6)
    whole = sc.Tree(problem, method=METHODS[0], seed=5).grow(calls=400)
    for executor in ("compiled", "reference"):
        sliced = sc.Tree(problem, method=METHODS[0], seed=5, executor=executor)
        while sliced.num_calls < whole.num_calls:
            sliced.grow(calls=min(7, whole.num_calls - sliced.num_calls))
        assert sliced.node(0) == whole.node(0)
        action, child = whole.children(0)[0]
        state = whole.node(child).state
        sliced.advance(action, state)
        assert sliced.node(0).boxes == whole.node(child).boxes
        sliced.grow(simulations=5000)
        assert sliced.proven
        assert sliced.estimate().value == pytest.approx(value(state, 5), abs=1e-12)


# --- games in plain Python, by their rules -----------------------------------


def nim_step(state, action, rng):
    """Heaps and the player to move; who takes the last piece wins."""
    *heaps, turn = state
    heaps[action // 3] -= action % 3 + 1
    after = (*heaps, 3 - turn)
    return (1.0 if turn == 1 else -1.0) if sum(heaps) == 0 else 0.0, after


def nim(*heaps, **more):
    return sc.Game(
        nim_step,
        player=lambda state: state[-1],
        num_actions=3 * len(heaps),
        legal=lambda state, action: state[action // 3] > action % 3,
        terminal=lambda state: sum(state[:-1]) == 0,
        initial_state=(*heaps, 1),
        discount=1.0,
        horizon=sum(heaps),
        operator=sc.Max(),
        reward_range=(-1.0, 1.0),
        payoffs="end",
        deterministic=True,
        **more,
    )


@pytest.mark.parametrize("heaps", [(1,), (3, 3), (3, 2, 1), (3, 3, 1), (2, 2, 3)])
def test_nim_is_won_unless_the_sum_is_zero(heaps):
    """Bouton's theorem: with heaps of at most three, as many as a move may take, the
    player to move wins unless the heaps' exclusive or is 0.
    """
    xor = 0
    for heap in heaps:
        xor ^= heap
    estimate = sc.plan(nim(*heaps), method=METHODS[0], budget=200_000)
    assert estimate.interval == ((1.0, 1.0) if xor else (-1.0, -1.0))
    if xor:  # the recommended move leaves a sum of zero
        after = list(heaps)
        after[estimate.action // 3] -= estimate.action % 3 + 1
        left = 0
        for heap in after:
            left ^= heap
        assert left == 0
    assert estimate.notes[-1].startswith("Proven: the value is")


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8),
         (2, 4, 6))  # fmt: skip


def tic_step(board, action, rng):
    mark = "xo"[board.count(".") % 2 == 0]
    board = board[:action] + mark + board[action + 1 :]
    if any(all(board[i] == mark for i in line) for line in LINES):
        return (1.0 if mark == "x" else -1.0), board, True
    return 0.0, board, "." not in board


@cache
def tic_value(board):
    found = []
    for a in range(9):
        if board[a] == ".":
            reward, after, over = tic_step(board, a, None)
            found.append(reward if over else tic_value(after))
    return max(found) if board.count(".") % 2 == 1 else min(found)


TIC = sc.Game(
    tic_step,
    player=lambda board: 1 if board.count(".") % 2 == 1 else 2,
    num_actions=9,
    legal=lambda board, action: board[action] == ".",
    terminal=True,
    initial_state="." * 9,
    discount=1.0,
    horizon=9,
    operator=sc.Max(),
    reward_range=(-1.0, 1.0),
    payoffs="end",
    deterministic=True,
)


def test_tic_tac_toe_positions_against_minimax():
    rng = np.random.default_rng(0)
    for _ in range(8):
        board = "." * 9
        for _ in range(rng.integers(3, 6)):
            free = [a for a in range(9) if board[a] == "."]
            _, after, over = tic_step(board, int(rng.choice(free)), None)
            if over:
                break
            board = after
        left = replace(TIC, horizon=board.count("."), initial_state=board)
        tree = sc.Tree(left, method=METHODS[0]).grow(simulations=20_000)
        assert tree.proven
        assert tree.estimate().value == tic_value(board)
        reward, after, over = tic_step(board, tree.action(), None)
        assert (reward if over else tic_value(after)) == tic_value(board)


WIDE, TALL = 4, 3  # a board of connect three: stones fall into columns


def drop(state, action, rng):
    board, turn = state
    column = len(board[action])
    board = (*board[:action], board[action] + str(turn), *board[action + 1 :])
    for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
        for k in range(3):
            x, y = action - k * dx, column - k * dy
            cells = [(x + i * dx, y + i * dy) for i in range(3)]
            if all(
                0 <= i < WIDE and 0 <= j < len(board[i]) and board[i][j] == str(turn)
                for i, j in cells
            ):
                return (1.0 if turn == 1 else -1.0), (board, 3 - turn), True
    full = all(len(column) == TALL for column in board)
    return 0.0, (board, 3 - turn), full


@cache
def drop_value(state):
    found = []
    for a in range(WIDE):
        if len(state[0][a]) < TALL:
            reward, after, over = drop(state, a, None)
            found.append(reward if over else drop_value(after))
    return max(found) if state[1] == 1 else min(found)


def test_small_boards_of_connected_stones_against_minimax():
    rng = np.random.default_rng(2)
    values = set()
    for moves in (2, 3, 4, 5):
        state = (("",) * WIDE, 1)
        for _ in range(moves):
            free = [a for a in range(WIDE) if len(state[0][a]) < TALL]
            _, after, over = drop(state, int(rng.choice(free)), None)
            state = state if over else after
        board = sc.Game(
            drop,
            player=lambda state: state[1],
            num_actions=WIDE,
            legal=lambda state, action: len(state[0][action]) < TALL,
            terminal=True,
            initial_state=state,
            discount=1.0,
            horizon=WIDE * TALL,
            operator=sc.Max(),
            reward_range=(-1.0, 1.0),
            payoffs="end",
            deterministic=True,
        )
        tree = sc.Tree(board, method=METHODS[0]).grow(simulations=20_000)
        assert tree.proven
        assert tree.estimate().value == drop_value(state)
        values.add(drop_value(state))
    assert len(values) > 1


def test_room_for_rounding_is_that_of_the_largest_sums():
    """Rewards of 0.1 and -0.1 in turns: sums below the root are larger than its value."""
    steps = 200

    def step(state, action, rng):
        return (0.1 if state < steps // 2 else -0.1), state + 1

    walk = sc.MDP(
        step,
        num_actions=1,
        discount=1.0,
        horizon=steps,
        operator=sc.Max(),
        reward_range=(-1.0, 1.0),
        initial_state=0,
        deterministic=True,
    )
    low, high = sc.plan(
        walk, method=sc.UCT(solve=True, expansion=None), budget=900
    ).interval
    assert low <= 0.0 <= high
    assert 0.0 < high - low < 1e-9


# --- what is refused ----------------------------------------------------------


def test_what_cannot_be_proven_is_refused():
    problem, _ = world(0)
    chance = replace(problem, deterministic=False)
    with pytest.raises(sc.InvalidInput, match="declare deterministic=True"):
        sc.Tree(chance, method=METHODS[0])
    with pytest.raises(sc.InvalidInput, match=r"operator Max\(\)"):
        sc.Tree(replace(problem, operator=sc.Entropy(0.1)), method=METHODS[0])
    with pytest.raises(sc.InvalidInput, match="use uct, bts or dents"):
        sc.Tree(problem, method=sc.MENTS(solve=True))
    endless = replace(world(0, ends=False)[0], horizon=None, discount=0.9)
    with pytest.raises(sc.InvalidInput, match="plays that end"):
        sc.Tree(endless, method=METHODS[0])
    with pytest.raises(sc.InvalidInput, match="drop certify"):
        sc.plan(problem, method=METHODS[0], certify=True, budget=100)
    with pytest.raises(sc.InvalidInput, match="solve must be True or False"):
        sc.UCT(solve=1)


@pytest.mark.parametrize("kind", ["state", "reward", "end"])
def test_a_second_outcome_is_an_error(kind):
    def step(state, action, rng):
        lucky = state == 1 and rng.random() < 0.5
        reward = 0.5 if kind == "reward" and lucky else 0.0
        after = 3 if kind == "state" and lucky else state + 1
        return reward, after, kind == "end" and lucky and action == 1

    liar = sc.MDP(
        step,
        num_actions=2,
        discount=1.0,
        horizon=6,
        operator=sc.Max(),
        terminal=True,
        initial_state=0,
        deterministic=True,
    )

    def searched(seed):
        return sc.Tree(liar, method=METHODS[0], seed=seed).grow(simulations=200)

    # of the seeds some meet the end first, which is proven at once and not tried again
    with pytest.raises(
        sc.OracleError, match=r"deterministic=True is declared, but .* two"
    ):
        list(map(searched, range(8)))


@pytest.mark.parametrize("executor", ["reference", "compiled"])
def test_an_end_after_none_is_an_error_in_a_full_tree_too(executor):
    """A full tree keeps no child that would tell; the open box of the action does."""

    @njit
    def step(state, action, rng):
        over = state == 1 and rng.random() < 0.5
        return (1.0 if state == 2 else 0.0), state + 1, over

    liar = sc.MDP(
        step,
        num_actions=1,
        discount=1.0,
        horizon=4,
        operator=sc.Max(),
        terminal=True,
        initial_state=0,
        deterministic=True,
    )
    method = sc.UCT(solve=True, max_nodes=2)
    refuted = []
    for seed in range(8):
        tree = sc.Tree(liar, method=method, seed=seed, executor=executor)
        try:
            tree.grow(simulations=60)
        except sc.OracleError:
            refuted.append(seed)
    assert refuted == [0, 1, 5, 7]  # the others met the end first


def test_a_play_that_breaks_a_claim_is_an_error():
    """Two steps that pay 1 each, and a declared total of at most 1."""
    liar = sc.MDP(
        lambda s, a, rng: (1.0, s + 1, s == 1),
        num_actions=2,
        discount=1.0,
        horizon=2,
        operator=sc.Max(),
        terminal=True,
        initial_state=0,
        deterministic=True,
        total_reward_range=(0.0, 1.0),
    )
    with pytest.raises(sc.OracleError, match="declarations exclude"):
        sc.Tree(liar, method=METHODS[0]).grow(simulations=50)


def test_no_boxes_where_nobody_asked():
    problem, _ = world(0)
    tree = sc.Tree(problem, method="uct").grow(simulations=50)
    assert tree.node(0).boxes == ()
    assert tree.node(0).box is None
    assert not tree.proven
    assert tree.estimate().certificate is None
    assert math.isfinite(tree.estimate().value)
