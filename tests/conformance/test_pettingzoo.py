"""PettingZoo games are the games they say they are.

Laws: the value of tic-tac-toe is 0, that of Nim known; connect four and tic-tac-toe
agree with OpenSpiel's in legal moves, ends and payoffs; a running game is read and
left as it is; what cannot be planned in is refused in one sentence, with the name.
"""

import random
import re
from pathlib import Path

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream

pytest.importorskip("pettingzoo")
pytest.importorskip("pygame")
import pettingzoo_worlds as worlds
from pettingzoo.classic import connect_four_v3, tictactoe_v3

from smoothcruiser.adapters import pettingzoo as adapter
from smoothcruiser.adapters.gymnasium.copies import contents
from smoothcruiser.problem.fingerprint import contents as state_print
from smoothcruiser.problem.fingerprint import fingerprint

TOLD = worlds.TOLD


def begun(game):
    game.reset(seed=3)
    return game


def nim(game, **more):
    options = {"discount": 1.0, "operator": sc.Max(), "horizon": 30, "seed": 0}
    return adapter.problem(game, **(options | TOLD | more))


# --- values -------------------------------------------------------------------


def test_tic_tac_toe_is_a_draw():
    board = sc.make("pettingzoo:tictactoe_v3", discount=1, operator="max")
    found = sc.plan(board, [0, 4], method="exact")  # a corner, then the middle
    assert found.value == 0.0
    assert sc.plan(board, [0, 1], method="exact").value == 1.0
    assert found.label(8) == "row 2, column 2"


@pytest.mark.parametrize("stones", [5, 7, 8])
def test_nim_is_lost_at_multiples_of_four(stones):
    problem = nim(worlds.Nim(stones), deterministic=True, payoffs="end")
    found = sc.plan(problem, method="exact")
    assert found.value == (-1.0 if stones % 4 == 0 else 1.0)
    if stones % 4:
        assert found.action + 1 == stones % 4


def value_of_dice(pile):
    """The mover's value of ``Dice``, independent of the library."""
    value = {0: -1.0}
    for n in range(1, pile + 1):
        after = [
            [max(0, n - max(1, k + 1)), max(0, n - max(1, k))]
            for k in range(3)
            if k + 1 <= n
        ]
        value[n] = max(np.mean([-value[m] for m in pair]) for pair in after)
    return value[pile]


def test_an_interval_covers_the_value_of_a_game_with_dice():
    problem = nim(worlds.Dice(5), payoffs="end", horizon=5)
    how = {"method": "certified", "epsilon": 0.4, "delta": 0.1, "budget": 6000}
    for seed in range(3):
        found = sc.plan(problem, seed=seed, **how)
        assert found.interval[0] <= value_of_dice(5) <= found.interval[1]
    assert problem.key.assumption in found.certificate.assumptions


# --- agreement with OpenSpiel -------------------------------------------------


@pytest.mark.parametrize(
    "name, other, moves",
    [("tictactoe_v3", "tic_tac_toe", 9), ("connect_four_v3", "connect_four", 42)],
)
def test_positions_agree_with_openspiel(name, other, moves):
    pyspiel = pytest.importorskip("pyspiel")
    mine = sc.make(f"pettingzoo:{name}", discount=1, operator="max")
    # PettingZoo numbers the squares of tic-tac-toe by columns, OpenSpiel by rows
    turned = (lambda a: 3 * (a % 3) + a // 3) if moves == 9 else (lambda a: a)
    rng, compared, ends = random.Random(1), 0, 0
    while compared < 150:
        theirs = pyspiel.load_game(other).new_initial_state()
        state = mine.initial_state
        while not theirs.is_terminal():
            assert sorted(map(turned, mine.legal_actions(state))) == sorted(
                theirs.legal_actions()
            )
            assert mine.mover(state) == theirs.current_player() + 1
            action = rng.choice(mine.legal_actions(state))
            reward, state, over = mine.oracle(state, action, stream(0))
            theirs.apply_action(turned(action))
            assert over == theirs.is_terminal() == mine.is_terminal(state)
            assert reward == (theirs.returns()[0] if over else 0.0)
            compared += 1
        ends += 1
    assert ends >= 3


def test_the_example_of_the_page_of_worlds():
    page = (Path(__file__).parents[2] / "docs" / "worlds.md").read_text()
    (block,) = (
        b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "game" in b
    )
    scope = {}
    exec(compile(block, "worlds.md", "exec"), scope)
    assert scope["game"].unwrapped.board.squares[2] == 1  # a third corner


# --- a running game -----------------------------------------------------------


def test_a_running_game_is_planned_in_and_left_as_it_is():
    game = begun(tictactoe_v3.env())
    for move in (0, 4):
        game.step(move)
    before = contents(game.unwrapped)
    problem = adapter.problem(game, discount=1, operator=sc.Max())
    assert problem.initial_state.moves == []
    assert sc.plan(problem, game, method="exact").value == 0.0
    game.step(1)
    game.step(3)  # and now the first player has two in a row
    agent = sc.Agent(game, "exact", discount=1, operator=sc.Max())
    assert agent.act() == 2
    assert agent.estimate.value == 1.0
    game.unwrapped.board.squares[1] = game.unwrapped.board.squares[3] = 0
    assert contents(game.unwrapped) == before


def test_a_position_is_told_by_its_moves_and_stored_so():
    board = sc.make("pettingzoo:tictactoe_v3", discount=1, operator="max")
    one, two = board.start([0, 4, 8]), board.start([8, 4, 0])
    assert board.key_of(one) == board.key_of(two)
    assert board.key_of(one) != board.key_of(board.start([4, 0, 8]))
    assert board.oracle.plain(one) == [0, 4, 8]
    with pytest.raises(sc.InvalidInput, match=r"Move 4 of \[4, 4\] is not legal"):
        board.start([4, 4])
    with pytest.raises(sc.InvalidInput, match=r"Move 4 is not legal at GamePosition"):
        board.oracle(one, 4, stream(0))
    dice = nim(worlds.Dice(5))
    with pytest.raises(sc.InvalidInput, match="Chance plays after move 2"):
        dice.start([2])


def test_another_game_is_another_problem():
    board = sc.make("pettingzoo:tictactoe_v3", discount=1, operator="max")
    again = sc.make("pettingzoo:tictactoe_v3", discount=1, operator="max")
    assert [fingerprint(board).parts, state_print(board.initial_state)] == [
        fingerprint(again).parts,
        state_print(again.initial_state),
    ]
    seven, eight = (nim(worlds.Nim(n), merge="none") for n in (7, 8))
    assert state_print(seven.initial_state) != state_print(eight.initial_state)
    other = begun(worlds.Nim(7))
    other.action_space = lambda agent: worlds.spaces.Discrete(5)
    with pytest.raises(sc.InvalidInput, match="has 5 actions and the problem was mad"):
        seven.start(other)


def test_positions_that_point_elsewhere_are_two_states():
    problem = nim(worlds.Pointing(9), deterministic=True)
    assert problem.key_of(problem.start([0, 1])) != problem.key_of(
        problem.start([0, 0])
    )


def test_a_cut_off_game_ends():
    problem = nim(worlds.CutOff(9), deterministic=True)
    state = problem.start([0, 0])
    reward, after, over = problem.oracle(state, 0, stream(0))
    assert (reward, over, problem.is_terminal(after)) == (0.0, True, True)


# --- what is refused ----------------------------------------------------------


@pytest.mark.parametrize(
    "world, sentence",
    [
        (worlds.Generous, r"nim_v0 is not zero-sum: move .* paid one . and two ."),
        (worlds.ByModule, r"Copies of ByModule share module .*TAKEN\.stones"),
        (worlds.ClassStream, r"share class ClassStream\.dice|differ|put back"),
        (worlds.OwnRandom, r"OwnRandom draws from dice, a Random that a planner"),
        (worlds.ChangingOrder, r"lets 'three' move after \[.*\], who is not one"),
        (worlds.ChangingMask, r"Looking at nim_v0 changes looks"),
        (worlds.HiddenMask, r"action_mask of nim_v0 changes from one|share module"),
        (worlds.LongMask, r"action_mask of nim_v0 has the shape \(5,\)"),
        (worlds.PaysTwice, r"pays one .* by rewards and .* by _cumulative_rewards"),
        (worlds.OneLeaves, r"one player is out after .* and the other plays on"),
        (worlds.ThreePlayers, r"nim_v0 cannot be planned in: it has 3 players; two-"),
        (worlds.AtOnce, r"at_once_v0 cannot be planned in: players move at the same"),
    ],
)
def test_a_game_that_breaks_a_rule_is_refused(world, sentence):
    with pytest.raises(sc.SmoothcruiserError, match=sentence):
        nim(world())


@pytest.mark.parametrize("world", [worlds.ReusedMask, worlds.ClosedStream])
def test_what_looks_bad_and_is_not(world):
    game = begun(world(6))
    problem = nim(game, seed=None)
    game.np_random = None  # the copies have generators of their own
    found = [problem.oracle(problem.start(), 2, stream(k))[1] for k in range(40)]
    again = [problem.oracle(problem.start(), 2, stream(k))[1] for k in range(40)]
    piles = [state.env.inside.pile for state in found]
    assert piles == [state.env.inside.pile for state in again]
    assert set(piles) == ({3, 4} if world is worlds.ClosedStream else {3})


def test_a_lie_that_no_trial_meets_is_found_where_it_shows():
    problem = nim(worlds.LateGenerous(60), deterministic=True, horizon=70)
    checked = sc.check(problem, problem.start([2] * 19), epsilon="50%")
    assert not checked.ok
    assert "is not zero-sum" in str(checked.findings)


def test_declared_determinism_is_watched():
    problem = nim(worlds.Dice(5), deterministic=True)
    with pytest.raises(sc.OracleError, match="was declared deterministic, but move"):
        problem.outcomes(problem.initial_state, 1)


def test_what_is_not_said_has_to_be():
    bare = {"discount": 0.9, "operator": sc.Max(), "seed": 0}
    for words, sentence in (
        ({}, "give perfect_information=True"),
        ({"perfect_information": True}, r"give reward_range=\(low, high\)"),
        (TOLD | {"merge": "some"}, "merge must be one of 'auto'"),
    ):
        with pytest.raises(sc.InvalidInput, match=sentence):
            adapter.problem(worlds.Nim(), **bare, **words)
    with pytest.raises(sc.InvalidInput, match="was not reset; reset it"):
        adapter.problem(begun(worlds.Nim()), **bare | TOLD).start(worlds.Nim())


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("texas_holdem_v4", "cannot be planned in: information is hidden; two-player"),
        ("hanabi_v5", "information is hidden"),
        ("rps_v2", "players move at the same time"),
        ("pistonball_v6", "players move at the same time"),
        ("conect_four_v3", "did you mean connect_four_v3?"),
        ("checkers_v9", "to plan in; there are "),
        ("no_such_module:env", "has no game 'no_such_module:env'"),
    ],
)
def test_names_that_cannot_be_planned_in(name, sentence):
    with pytest.raises(sc.InvalidInput, match=re.escape(sentence)) as found:
        sc.make(f"pettingzoo:{name}", discount=1, operator="max")
    assert name.partition(":")[0] in str(found.value)


def test_wrappers_parallel_environments_and_other_things_are_refused():
    from pettingzoo import ParallelEnv
    from pettingzoo.utils.wrappers import BaseWrapper

    class Backwards(BaseWrapper):
        def step(self, action):
            super().step(8 - action)

    class Both(ParallelEnv):
        possible_agents = ("one", "two")

    for game, sentence in (
        (begun(Backwards(tictactoe_v3.env())), "is wrapped in Backwards"),
        (Both(), "Both cannot be planned in: players move"),
        (3, r"PettingZoo game \(AECEnv\) was expected"),
    ):
        with pytest.raises(sc.InvalidInput, match=sentence):
            adapter.problem(game, discount=1, operator=sc.Max())


def test_connect_four_is_the_game_itself_and_searched():
    game = begun(connect_four_v3.raw_env())
    board = sc.make("pettingzoo:connect_four_v3", discount=1, operator="max")
    assert board.horizon == 42
    mask = game.observe("player_0")["action_mask"]
    assert board.initial_state.legal == frozenset(np.flatnonzero(mask).tolist())
    assert board.facts.value_hull() == (-1.0, 1.0)
    assert board.labels(board.initial_state)[3] == "column 3"
    won = board.start([3, 0, 3, 0, 3, 0])
    assert sc.plan(board, won, method="uct", budget=300).action == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chess_v6", "go_v5,board_size=5"])
def test_large_games_are_usable(name):
    pytest.importorskip("chess")
    board = sc.make(f"pettingzoo:{name}", discount=0.9, operator="max")
    assert sc.check(board, epsilon="50%").ok
    legal = board.legal_actions(board.initial_state)
    labels = board.labels(board.initial_state)
    assert labels[legal[0]] in ("row 0, column 0", "a2a3", "a2a4", "b1a3")
    assert sc.plan(board, method="uct", budget=200).action in legal
