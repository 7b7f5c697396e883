"""gymnax and Pgx by name against the libraries themselves.

Laws: 1,000 random steps reach the states and rewards of the environment's own jitted
step under the same keys, to the last bit (Pendulum within one unit of float32); resets
too; equal streams give equal steps, and planning leaves the real environment alone;
ranges and lengths of the tables hold along the way; rows of a batch are paid what a state
by itself is paid, within what epsilon allows for, and both are near what float64 yields;
tic-tac-toe is a draw by every method, and in each of 300 positions worth what OpenSpiel says.
"""

import math
import random

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.fingerprint import fingerprint

pytestmark = pytest.mark.slow


jax = pytest.importorskip("jax")
gymnax = pytest.importorskip("gymnax")
pgx = pytest.importorskip("pgx")
import jax_fakes as fakes  # noqa: E402

from smoothcruiser.adapters.gymnax.tasks import problem as gymnax_problem  # noqa: E402
from smoothcruiser.adapters.pgx.boards import problem as pgx_problem  # noqa: E402

GYMNAX = [
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "Breakout-MinAtar",
    "SpaceInvaders-MinAtar",
    "Catch-bsuite",
    "DeepSea-bsuite",
    "UmbrellaChain-bsuite",
    "DiscountingChain-bsuite",
    "FourRooms-misc",
    "FrozenLake-misc",
    "Reacher-misc,actions=3",
    "Pendulum-v1,actions=5",
]
PGX = [
    "tic_tac_toe",
    "connect_four",
    "othello",
    "hex",
    "2048",
    "backgammon",
    "minatar-breakout",
]
ROUNDED = ("Pendulum-v1,actions=5",)  # compiled otherwise than jit(step_env): 1 unit


class Gymnax:
    """The environment as a user of gymnax runs it."""

    def __init__(self, name, problem):
        self.env, self.params = gymnax.make(name.split(",")[0])
        self.step_env = jax.jit(self.env.step_env)
        self.reset_env = jax.jit(self.env.reset_env)
        self.late = jax.jit(self.env.is_truncated)
        n = int(name[-1]) if "actions=" in name else None
        self.moves = None
        if n is not None:
            space = self.env.action_space(self.params)
            low, high = (
                np.broadcast_to(np.asarray(x), space.shape).reshape(-1)
                for x in (space.low, space.high)
            )
            axes = [
                np.linspace(a, b, n, dtype=np.float32)
                for a, b in zip(low, high, strict=True)
            ]
            grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
            self.moves = grid.reshape(-1, *space.shape)

    def reset(self, key):
        return self.reset_env(key, self.params)[1]

    def step(self, state, action, key):
        move = np.int32(action) if self.moves is None else self.moves[action]
        _, after, paid, over, _ = self.step_env(key, state, move, self.params)
        return float(paid), after, bool(over) | bool(self.late(after, self.params))


class Pgx:
    """The game as a user of Pgx runs it; rewards of the player who began."""

    def __init__(self, name, problem):
        self.env = pgx.make(name)
        self.init, self.play = jax.jit(self.env.init), jax.jit(self.env.step)
        self.first = problem.oracle.first or 0

    def reset(self, key):
        return self.init(key)

    def step(self, state, action, key):
        after = self.play(state, np.int32(action), key)
        over = bool(after.terminated) | bool(after.truncated)
        return float(after.rewards[self.first]), after, over


def begun(problem, real, seed):
    """Our start and the real one, from equal streams."""
    ours, rng = problem.oracle.reset(stream(seed)), stream(seed)
    while True:
        theirs = real.reset(jax.random.wrap_key_data(problem.oracle.key(rng)))
        if problem.oracle.first is None or (
            int(theirs.current_player) == problem.oracle.first
        ):
            return ours, theirs


def same(problem, ours, theirs, over, close):
    found, wanted = ours.leaves, problem.oracle.parse(theirs).leaves
    for name, array in found.items():
        if name == "ended":
            assert bool(array) is over
        elif close and array.dtype.kind == "f":
            np.testing.assert_allclose(array, wanted[name], rtol=2e-6, atol=1e-6)
        else:
            assert array.tobytes() == wanted[name].tobytes(), name


@pytest.mark.parametrize(
    "adapter, name", [("gymnax", x) for x in GYMNAX] + [("pgx", x) for x in PGX]
)
def test_a_thousand_steps_are_the_environments_own(adapter, name):
    problem = sc.make(f"{adapter}:{name}", discount=0.9, operator="max")
    real = (Gymnax if adapter == "gymnax" else Pgx)(name, problem)
    close, choice = name in ROUNDED, random.Random(1)
    low, high = problem.reward_range
    ours, theirs = begun(problem, real, 7)
    same(problem, ours, theirs, False, False)
    steps = 0
    for i in range(1000):
        legal = problem.legal_actions(ours)
        if hasattr(theirs, "legal_action_mask"):
            mask = np.flatnonzero(np.asarray(theirs.legal_action_mask)).tolist()
            assert legal == mask
        action = choice.choice(legal)
        key = jax.random.wrap_key_data(problem.oracle.key(stream(1000 + i)))
        paid, after = problem.oracle(ours, action, stream(1000 + i))
        again = problem.oracle(ours, action, stream(1000 + i))
        assert again == (paid, after)
        wanted, theirs, over = real.step(theirs, action, key)
        assert low <= paid <= high
        assert paid == pytest.approx(wanted, rel=2e-6 if close else 0, abs=0)
        assert problem.is_terminal(after) is over
        same(problem, after, theirs, over, close)
        steps += 1
        if problem.episodes_end is not None:
            assert steps <= problem.episodes_end[0]
        if over:
            steps, (ours, theirs) = 0, begun(problem, real, 20_000 + i)
        else:
            ours = problem.oracle.parse(theirs) if close else after


@pytest.mark.parametrize(
    "name", sorted(set(gymnax.registered_envs) - {"MNISTBandit-bsuite"})
)
def test_time_counts_steps_and_its_limit_ends_them(name):
    """What ``episodes_end`` of every environment of gymnax rests on."""
    env, params = gymnax.make(name)
    key, space = jax.random.key(0), env.action_space(params)
    _, state = env.reset_env(key, params)
    for step in range(3):
        assert float(state.time) == step
        state = env.step_env(key, state, space.sample(key), params)[1]
    most = params.max_steps_in_episode
    for time, over in ((most - 1, False), (most, True)):
        assert bool(env.is_truncated(state.replace(time=time), params)) is over


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Reacher-misc,actions=3", "Pong-misc"]
)
def test_rows_are_paid_what_single_states_are(name):
    problem = sc.make(f"gymnax:{name}", discount=0.9, operator="max")
    oracle, choice = problem.oracle, random.Random(0)
    state, found = problem.initial_state, []
    for i in range(200):
        action = choice.randrange(problem.num_actions)
        paid, after = oracle(state, action, stream(i))
        found.append((state, action, paid, after))
        over = problem.is_terminal(after)
        state = oracle.reset(stream(9000 + i)) if over else after
    backend = oracle.backend
    for rows in (200, 3000):
        index = np.arange(rows) % 200
        states = tuple(
            np.stack([oracle.layout.array(s, j) for s, *_ in found])[index]
            for j in range(len(oracle.layout.leaves))
        )
        actions = np.array([a for _, a, *_ in found])[index]
        states = backend.take(states, np.arange(rows))
        keys = backend.random(np.random.SeedSequence(0))
        paid, after, _ = backend.step(oracle.function, states, actions, keys)
        alone = np.array([p for _, _, p, _ in found])[index]
        assert np.abs(paid - alone).max() <= problem.facts.reward_error
        for i in range(0, rows, 17):
            assert backend.row(after, i) == found[index[i]][3]


@pytest.mark.parametrize(
    "name",
    [
        "Pendulum-v1,actions=5",
        "MountainCarContinuous-v0,actions=3",
        "Reacher-misc,actions=3",
        "Swimmer-misc,actions=3",
    ],
)
def test_rewards_in_float32_are_near_those_of_float64(name):
    """Within 4 units of 2**-24, by itself and in rows: two of them are within 8."""
    problem = sc.make(f"gymnax:{name}", discount=0.9, operator="max")
    exact = sc.make(f"gymnax:{name},x64=true", discount=0.9, operator="max").oracle
    oracle, choice, found = problem.oracle, random.Random(0), []
    state = problem.initial_state
    for i in range(300):
        action = choice.randrange(problem.num_actions)
        paid, after = oracle(state, action, stream(i))
        leaves = {name: array.tolist() for name, array in state.leaves.items()}
        wanted = exact(exact.parse(leaves), action, stream(i))[0]
        found.append((state, action, paid, wanted))
        over = problem.is_terminal(after) or i % 50 == 49
        state = oracle.reset(stream(9000 + i)) if over else after
    near = problem.facts.reward_error / 2  # 4 of the 8 units of the allowance
    wanted = np.array([each[3] for each in found])
    assert np.ptp(wanted) > 0 or "MountainCar" in name
    assert np.abs(np.array([each[2] for each in found]) - wanted).max() <= near
    rows = tuple(
        np.stack([oracle.layout.array(each[0], j) for each in found])
        for j in range(len(oracle.layout.leaves))
    )
    keys = oracle.backend.random(np.random.SeedSequence(0))
    states = oracle.backend.take(rows, np.arange(300))
    actions = np.array([each[1] for each in found])
    paid, _, _ = oracle.backend.step(oracle.function, states, actions, keys)
    assert np.abs(paid - wanted).max() <= near


def test_tic_tac_toe_is_a_draw():
    board = sc.make("pgx:tic_tac_toe", discount=1.0, operator="max")
    assert sc.plan(board, method="exact").value == 0.0
    low, high = sc.plan(board, method="certified", epsilon=0.01).interval
    assert low <= 0.0 <= high
    assert high - low <= 0.02


def test_a_tree_grows_as_in_openspiels_game():
    """The same search in both games: equal to the last bit, and towards 0."""
    pytest.importorskip("pyspiel")
    boards = [
        sc.make(f"{name}:tic_tac_toe", discount=1.0, operator="max")
        for name in ("pgx", "openspiel")
    ]
    for budget in (1000, 5000):
        ours, theirs = (sc.plan(b, method="uct", budget=budget) for b in boards)
        assert ours.q_values == theirs.q_values
        assert ours.policy == theirs.policy
    sure = sc.plan(boards[1], method=sc.UCT(exploration=0.1), budget=200_000)
    assert abs(sure.value) < 0.02  # what the search in the equal game tends to


def test_openspiel_agrees_in_300_positions():
    pytest.importorskip("pyspiel")
    ours = sc.make("pgx:tic_tac_toe", discount=1.0, operator="max")
    theirs = sc.make("openspiel:tic_tac_toe", discount=1.0, operator="max")
    choice, checked = random.Random(5), set()
    mine_known, theirs_known = {}, {}
    while len(checked) < 300:
        moves, state = [], theirs.initial_state
        while not theirs.is_terminal(state):
            legal = theirs.legal_actions(state)
            mine = ours.start(list(moves))
            assert ours.legal_actions(mine) == legal
            assert ours.mover(mine) == theirs.mover(state)
            if tuple(moves) not in checked:
                checked.add(tuple(moves))
                values = [
                    minimax(problem, place, known)
                    for problem, place, known in (
                        (ours, mine, mine_known),
                        (theirs, state, theirs_known),
                    )
                ]
                assert values[0] == values[1]
            moves.append(choice.choice(legal))
            state = theirs.start(list(moves))
        assert ours.is_terminal(ours.start(list(moves)))


def minimax(problem, state, known):
    """The value of a position by plain minimax over the problem's own outcomes."""
    if problem.is_terminal(state):
        return 0.0
    key = problem.key_of(state)
    if key not in known:
        found = []
        for action in problem.legal_actions(state):
            ((_, paid, after),) = problem.outcomes(state, action)
            found.append(paid + minimax(problem, after, known))
        known[key] = max(found) if problem.mover(state) == 1 else min(found)
    return known[key]


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_schedules_run_in_batches(name):
    game = sc.make(f"pgx:{name}", discount=0.5, temperature=1.0)
    answer = sc.plan(game, method="smoothcruiser", epsilon="30%", delta=0.1)
    assert answer.executor == "batched"
    if name == "tic_tac_toe":
        exact = sc.plan(game, method="exact").value
        assert answer.interval[0] <= exact <= answer.interval[1]


def test_a_refusal_lists_what_there_is():
    with pytest.raises(sc.InvalidInput, match=r"no game called 'ludo'.*tic_tac_toe"):
        sc.make("pgx:ludo", discount=0.9, operator="max")
    with pytest.raises(sc.InvalidInput, match=r"'Nothing-v0'.*CartPole-v1"):
        sc.make("gymnax:Nothing-v0", discount=0.9, operator="max")
    with pytest.raises(sc.InvalidInput, match=r"reward_range=\[-1,1\]"):
        sc.make("gymnax:GaussianBandit-misc", discount=0.9, operator="max")
    with pytest.raises(sc.InvalidInput, match="takes no 'size'"):
        sc.make("pgx:tic_tac_toe,size=4", discount=0.9, operator="max")


def game(env, **more):
    facts = {"discount": 1.0, "operator": sc.Max(), "reward_range": (-1.0, 1.0)}
    return pgx_problem(env, **facts | {"horizon": 20} | more)


def ladder(env, **more):
    facts = {"discount": 0.9, "operator": sc.Max(), "reward_range": (0.0, 1.0)}
    return gymnax_problem(env, **facts | more)


def test_an_honest_game_has_its_value():
    nim = game(fakes.Nim())
    assert {leaf.name for leaf in nim.oracle.layout.leaves} == {
        "current_player",
        "terminated",
        "truncated",
        "legal_action_mask",
        "heap",
    }
    assert nim.deterministic
    # 7 is no multiple of 4: the first player leaves 4 and wins
    answer = sc.plan(nim, method="exact")
    assert (answer.value, answer.action) == (1.0, 2)
    lost = sc.plan(nim, [2], method="exact")  # the second player's turn, at 4
    assert lost.value == 1.0
    assert nim.mover(nim.start([2])) == 2
    assert nim.mover(nim.initial_state) == 1


@pytest.mark.parametrize("seed", range(4))
def test_the_player_who_begins_maximizes(seed):
    nim = game(fakes.Nim(), seed=seed)
    assert nim.mover(nim.initial_state) == 1
    answer = sc.plan(nim, method="exact")
    # taking 2 would win for who wants the other one to take the last match
    assert (answer.value, answer.action) == (1.0, 2)
    rng = stream(seed + 100)
    starts = [nim.oracle.reset(rng) for _ in range(20)]
    assert {nim.mover(state) for state in starts} == {1}


def test_the_number_that_begins_differs():
    firsts = {game(fakes.Nim(), seed=seed).oracle.first for seed in range(8)}
    assert firsts == {0, 1}


@pytest.mark.parametrize("env", [fakes.NotZeroSum(), fakes.PaysNaN()])
def test_a_game_that_is_not_zero_sum_is_refused_where_it_shows(env):
    unfair = game(env)
    with pytest.raises(sc.OracleError, match="does not sum to 0"):
        sc.plan(unfair, method="exact")
    with pytest.raises(sc.OracleError, match="does not sum to 0"):
        sc.plan(unfair, method="uct", budget=2000)
    with pytest.raises(sc.OracleError, match="does not sum to 0"):
        sc.plan(game(env, horizon=4), method="smoothcruiser", epsilon="60%", delta=0.1)


def test_a_game_that_starts_again_is_another_world():
    # it pays and goes on: 7 matches, 7 again; the loser of the first begins the second
    endless = game(fakes.Restarts(), discount=0.5, horizon=None)
    one, _ = sc.plan(endless, method="certified", epsilon=0.01, delta=0.1), None
    exact = sc.plan(game(fakes.Restarts(), discount=0.5, horizon=12), method="exact")
    assert one.interval[0] - 1e-3 <= exact.value <= one.interval[1] + 1e-3
    told = game(fakes.Nim(), discount=0.5, horizon=None)
    assert sc.plan(told, method="exact").value == 0.25  # won with the third move


def test_a_mask_that_is_drawn_is_a_part_of_the_state():
    fickle = game(fakes.FickleMask())
    assert not fickle.deterministic
    after = {
        bytes(fickle.oracle(fickle.initial_state, 0, stream(i))[1].words)
        for i in range(40)
    }
    assert len(after) == 4  # of one heap: take 1, and 2 and 3 or not
    answer = sc.plan(fickle, method="certified", epsilon=0.6, delta=0.1)
    value = nim_value(7, (1, 2, 3), {})
    assert answer.interval[0] <= value <= answer.interval[1]


def nim_value(heap, takes, known):
    """The value for the mover by counting, where 2 and 3 are allowed at random after."""
    best = -1.0
    for take in takes:
        left = heap - take
        if left < 0:
            continue
        if left == 0:
            best = max(best, 1.0)
            continue
        if left not in known:
            options = [
                [
                    1,
                    *([2] if two and left >= 2 else []),
                    *([3] if three and left >= 3 else []),
                ]
                for two in (0, 1)
                for three in (0, 1)
            ]
            known[left] = sum(nim_value(left, o, known) for o in options) / 4
        best = max(best, -known[left])
    return best


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: game(fakes.ThreePlayers()), "3 players"),
        (lambda: game(fakes.CallsBack()), "calls Python from inside its step"),
        (lambda: game(fakes.OwnKey()), "keeps its random key in its state"),
        (lambda: game(fakes.Nim(), x64="yes"), "x64 must be true or false"),
        (lambda: game(fakes.Nim(), reward_range=None), "reward_range"),
        (lambda: game(object()), "has no init"),
        (lambda: ladder(fakes.Growing()), "x of ladder has shape"),
        (lambda: ladder(fakes.Ladder(), reward_range=None), "reward_range"),
        (lambda: ladder(fakes.Ladder(), actions=[0, 2]), "actions from 0 to 1"),
        (lambda: ladder(object()), "has no step_env"),
        (lambda: game(fakes.Nim()).start([9]), "Move 9 of"),
        (lambda: game(fakes.Nim()).start({"heap": 3}), "needs 'current_player'"),
        (lambda: game(fakes.FickleMask()).start([0]), "chance has a part"),
        (
            lambda: ladder(fakes.Ladder()).start({"x": 0, "time": -1, "ended": False}),
            "time of ladder counts steps",
        ),
    ],
)
def test_what_cannot_be_planned_in_is_refused_in_one_sentence(make, said):
    with pytest.raises(sc.InvalidInput, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_state_without_a_legal_move_is_an_error():
    with pytest.raises(sc.SmoothcruiserError, match="no legal action"):
        sc.plan(game(fakes.Stuck()), method="exact")


# --- rounding -----------------------------------------------------------------


@pytest.mark.parametrize("x64, steps", [(False, 10), (True, 11)])
@pytest.mark.parametrize("outside", [False, True])
def test_a_chain_that_rounding_decides_has_the_value_of_its_precision(
    x64, steps, outside
):
    was = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", outside)
    try:
        climb = ladder(fakes.Ladder(), x64=x64)
        assert climb.deterministic
        value = 0.9 ** (steps - 1)
        assert sc.plan(climb, method="exact").value == pytest.approx(value, abs=1e-9)
        answer = sc.plan(climb, method="certified", epsilon=0.01, delta=0.1)
        assert answer.interval[0] <= value <= answer.interval[1]
        assert any("float" in line for line in answer.certificate.assumptions)
        # rows of a batch go the same way
        backend, oracle = climb.oracle.backend, climb.oracle
        rows = backend.take(backend.one(climb.initial_state), np.zeros(100, np.int64))
        keys = backend.random(np.random.SeedSequence(0))
        for step in range(steps):
            paid, rows, _ = backend.step(
                oracle.function, rows, np.ones(100, int), keys
            )
            assert (paid == (step == steps - 1)).all()
        assert jax.config.jax_enable_x64 is outside
    finally:
        jax.config.update("jax_enable_x64", was)


def test_an_environment_that_resets_by_itself_ends_where_it_says():
    assert sc.plan(ladder(fakes.AutoReset()), method="exact").value == pytest.approx(
        0.9**9, abs=1e-9
    )


def test_fingerprints_tell_environments_apart():
    class Tall(fakes.Ladder):
        def __init__(self, height):
            self.height = np.array([height])

    prints = [fingerprint(ladder(Tall(h))).parts for h in (1, 1, 2)]
    assert prints[0] == prints[1] != prints[2]


def test_nan_is_named():
    with pytest.raises(sc.OracleError, match="ladder paid NaN at state ladder"):
        sc.plan(ladder(fakes.NaNLadder()), method="exact")


def test_a_counter_is_dropped_with_its_limit():
    limited = ladder(fakes.Ladder())
    free = ladder(fakes.Ladder(), time_limit=False)
    names = [[x.name for x in p.oracle.layout.leaves] for p in (limited, free)]
    assert names == [["x", "time", "ended"], ["x", "ended"]]
    short = fakes.Knobs(max_steps_in_episode=9)
    cut = gymnax_problem(
        fakes.Ladder(), short, discount=0.9, operator=sc.Max(), reward_range=(0, 1)
    )
    assert sc.plan(cut, method="exact").value == 0.0


def test_chance_has_its_law():
    noisy = ladder(fakes.Noisy(), time_limit=False)
    assert not noisy.deterministic
    answer = sc.plan(noisy, method="certified", epsilon=0.1, delta=0.1)
    # ten successes, each worth 0.9 p / (1 - 0.9 (1 - p)); the last one pays 1 at once
    each = 0.9 * 0.7 / (1 - 0.9 * 0.3)
    assert answer.interval[0] <= each**10 / 0.9 <= answer.interval[1]
    assert math.isfinite(answer.value)
