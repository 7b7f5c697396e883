"""Which OpenSpiel positions are one state: values against plain recursion on
the real game, and keys that tell apart.

The law under test: positions with one key have the same mover, legal moves, end
and future. Each of the games here hides something from its string: a die, a
move limit, passes, earlier positions.
"""

import dataclasses
import pickle
import random

import pytest

import smoothcruiser as sc

spiel = pytest.importorskip("pyspiel")

GAMMA, OPERATOR = 0.9, sc.Entropy(0.1)
HERE = {"discount": GAMMA, "operator": OPERATOR}


def value(state, memo=None, told_by=None):
    """The regularized value of the real game, played out to its end;
    ``told_by(state)`` is a key known to be right.
    """
    if state.is_terminal():
        return 0.0
    key = None if told_by is None else told_by(state)
    if key is not None and key in memo:
        return memo[key]
    q = [
        sum(
            p * (r + GAMMA * value(z, memo, told_by))
            for p, r, z in after(state.child(a))
        )
        for a in state.legal_actions()
    ]
    found = OPERATOR.value(q, player=1 if state.current_player() == 0 else 2)
    if key is not None:
        memo[key] = found
    return found


def after(state):
    """(probability, payoff, position) once chance has had its turns."""
    if state.is_chance_node():
        return [
            (p * q, r, z)
            for o, p in state.chance_outcomes()
            for q, r, z in after(state.child(o))
        ]
    return [(1.0, state.returns()[0] if state.is_terminal() else 0.0, state)]


def solved(problem, history):
    """The exact value of a late position, with the states that can be reached
    from it.
    """
    late = dataclasses.replace(problem, initial_state=problem.start(history))
    solution = sc.solve(late)
    return float(solution.values[solution.index(late.start(history))])


def played(game, seed, stop):
    """A random history without an end that can be helped, up to where
    ``stop(state)`` holds and a player moves; or None.
    """
    rng, state = random.Random(seed), game.new_initial_state()
    while not state.is_terminal():
        if not state.is_chance_node() and stop(state):
            return list(state.history())
        moves = state.legal_actions()
        state.apply_action(
            rng.choice([m for m in moves if not state.child(m).is_terminal()] or moves)
        )
    return None


def at(game, history):
    state = game.new_initial_state()
    for move in history:
        state.apply_action(move)
    return state


# --- values -------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_the_die_of_einstein_wurfelt_nicht_is_part_of_the_state(seed):
    name = "einstein_wurfelt_nicht"
    game = spiel.load_game(name)
    few = lambda state: str(state).count("__") >= 22  # noqa: E731 - at most three cubes are left
    seeds = range(100 * seed, 100 * seed + 100)
    history = next(h for s in seeds if (h := played(game, s, few)))
    # the die is rolled last
    truth = value(
        at(game, history), {}, lambda s: (s.current_player(), str(s), s.history()[-1])
    )
    problem = sc.make(f"openspiel:{name}", **HERE)
    assert solved(problem, history) == pytest.approx(truth, abs=1e-9)
    how = {"epsilon": 0.05, "delta": 0.1, "budget": 2_000}
    found = sc.plan(problem, history, method="certified", **how)
    assert found.interval[0] - 1e-9 <= truth <= found.interval[1] + 1e-9


def test_the_move_limit_of_quoridor_is_part_of_the_state():
    game = spiel.load_game("quoridor", {"board_size": 3, "wall_count": 0})
    near = lambda state: state.move_number() == game.max_game_length() - 8  # noqa: E731
    histories = [h for s in range(40) if (h := played(game, s, near))][:3]
    assert histories
    problem = sc.make("openspiel:quoridor,board_size=3,wall_count=0", **HERE)
    for history in histories:
        truth = value(at(game, history))
        assert solved(problem, history) == pytest.approx(truth, abs=1e-9)


def test_the_move_limit_of_pig_is_felt_near_it_and_far_from_it_positions_are_merged():
    game = spiel.load_game("pig", {"winscore": 8, "horizon": 1000})
    problem = sc.adapters.openspiel.problem(game, **HERE)
    late = [1] * 997  # nobody rolls: three moves are left
    assert solved(problem, late) == pytest.approx(value(at(game, late)), abs=1e-12)
    begin, later, end, before = (
        problem.key_of(problem.start(moves)) for moves in ([], [1, 1], late, late[:-2])
    )
    assert begin == later
    assert end != before
    assert solved(problem, []) == pytest.approx(solved(problem, [1, 1]), abs=1e-9)


def test_passes_are_part_of_the_state_in_go():
    game = spiel.load_game("go", {"board_size": 2, "max_game_length": 6})
    problem = sc.make("openspiel:go,board_size=2,max_game_length=6", **HERE)
    truth = value(game.new_initial_state())
    assert solved(problem, []) == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        # the second to pass ends the game
        ("go,board_size=2", [3, 0, 2, 4], [2, 4, 3, 0]),
        ("cursor_go,board_size=3,max_cursor_moves=5", [1, 5], [3, 5]),
        (
            "oware,num_houses_per_player=2,num_seeds_per_house=2",
            [1, 0, 1, 1, 1, 0, 1, 1, 0, 1],
            [1, 1, 1, 0, 1, 1, 1, 0, 0, 1],
        ),
    ],
)
def test_histories_with_one_string_and_different_futures_have_different_keys(
    name, one, two
):
    problem = sc.make(f"openspiel:{name}", **HERE)
    first, second = problem.start(one), problem.start(two)
    assert str(first.state) == str(second.state)
    assert problem.key_of(first) != problem.key_of(second)


# --- the choice ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "merge"),
    [
        ("tic_tac_toe", "numbered"),
        ("einstein_wurfelt_nicht", "observation"),
        ("quoridor", "numbered"),
        ("chess", "history"),
        ("misere(game=tic_tac_toe())", "numbered"),
        # unknown: what playouts show decides
        ("misere(game=pig(winscore=6,horizon=20))", "numbered"),
        ("misere(game=go(board_size=3))", "history"),  # as the game inside needs
    ],
)
def test_auto_takes_the_key_that_the_rules_need(name, merge):
    problem = sc.adapters.openspiel.problem(name, **HERE)
    assert problem.key.merge == merge
    assert pickle.loads(pickle.dumps(problem.key)) == problem.key
    assert (problem.key.assumption == "") == (merge == "history")


@pytest.mark.parametrize(
    ("name", "merge", "sentence"),
    [
        ("go", "observation", "cannot be trusted for go: it needs merge='history'"),
        ("quoridor", "observation", "'observation' cannot be trusted for quoridor"),
        (
            "misere(game=pig(winscore=6,horizon=20))",
            "observation",
            r"takes the positions of misere after moves \[",
        ),
        ("tic_tac_toe", "board", "merge must be 'auto', .* or 'history', got 'board'"),
    ],
)
def test_a_merge_that_is_wrong_is_refused(name, merge, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence):
        sc.adapters.openspiel.problem(name, merge=merge, **HERE)


def test_a_game_without_a_longest_one_needs_a_horizon_at_discount_one():
    """OpenSpiel says that maedn lasts 1,000 moves; whoever only rolls ones
    passes for ever.
    """
    with pytest.raises(sc.InvalidInput, match="maedn may go on for ever"):
        sc.make("openspiel:maedn", discount=1, operator="max")
    problem = sc.adapters.openspiel.problem("maedn", discount=0.999, operator=OPERATOR)
    low, high = problem.value_bounds
    assert high == pytest.approx(3.0 + OPERATOR.offset(45) / 0.001)
    assert low == -high


def test_twixt_boards_of_two_sizes_are_refused(monkeypatch):
    """They share one table of links inside OpenSpiel: after the second board,
    the first plays by other rules.
    """
    sizes = "smoothcruiser.adapters.openspiel.games._TWIXT_SIZES"
    monkeypatch.setattr(sizes, set())
    sc.adapters.openspiel.problem("twixt", **HERE)
    sentence = "boards of sizes 5 and 8 spoil each other"
    with pytest.raises(sc.InvalidInput, match=sentence):
        sc.make("openspiel:twixt,board_size=5", **HERE)


# --- keys of a user's own -----------------------------------------------------


class Counter:
    """A state that hides its number from its key every other time."""

    def __init__(self, n):
        self.n = n

    def __repr__(self):
        return f"Counter({self.n})"


def counting(key):
    """Count to 4 in steps of 1 or 2; odd numbers allow one action, even ones both."""

    def step(state, action, rng):
        return 0.5, Counter(min(4, state.n + 1 + (rng.random() < 0.5)))

    functions = {
        "outcomes": lambda s, a: [
            (0.5, 0.5, Counter(min(4, s.n + k))) for k in (1, 2)
        ],
        "legal": lambda s, a: a == 0 or s.n % 2 == 0,
        "terminal": lambda s: s.n == 4,
        "key": key,
    }
    facts = {"num_actions": 2, "discount": 0.5, "operator": sc.Max()}
    return sc.MDP(step, initial_state=Counter(0), **facts, **functions)


def test_the_exact_solver_numbers_states_by_key_and_looks_them_up_by_key():
    problem = counting(lambda s: s.n)
    solution = sc.solve(problem)
    assert len(solution.states) == 5
    # V(3) = 1/2, V(2) = 5/8, V(1) = 1/2 + (V(2) + V(3))/4, V(0) = 1/2 + (V(1) + V(2))/4
    assert solution.values[solution.index(Counter(0))] == pytest.approx(
        0.8515625, abs=1e-9
    )
    found = sc.evaluate(problem, solution, budget=20_000)
    assert found.interval[0] <= 0.8515625 <= found.interval[1]


@pytest.mark.parametrize(
    "how", [{"method": "exact"}, {"method": "uct", "budget": 200}]
)
@pytest.mark.parametrize(
    "key", [lambda s: s.n > 0, lambda s: max(s.n, 2)], ids=["all", "first"]
)
def test_a_key_that_two_different_states_share_is_refused(how, key):
    with pytest.raises(sc.OracleError, match="Two different states have the same key"):
        sc.plan(counting(key), **how)


def test_states_that_never_come_back_are_refused_by_the_exact_solver():
    with pytest.raises(sc.InvalidInput, match="give key="):
        sc.solve(counting(None))
