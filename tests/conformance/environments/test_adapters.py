"""Adapters against the protocol of a problem, and against the environments and
games they stand for.

Laws: a step of the adapter has the law of the environment's own step; the
planner's draws come from its own stream, so planning neither changes nor
foresees what the real environment does; certified intervals hold the exact
value of the environment's tables.
"""

import collections
import math
import pickle

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.generator import legacy, stream_generator
from smoothcruiser.jit.random.streams import stream

gym = pytest.importorskip("gymnasium")
from gymnasium_worlds import HERE, EzWalk, moved  # noqa: E402

from smoothcruiser.adapters.gymnasium.copies import contents  # noqa: E402

TABLES = {  # discount, temperature, epsilon
    "gym:FrozenLake-v1": (0.9, 0.1, 0.3),
    "gym:FrozenLake-v1,map_name=8x8": (0.9, 0.1, 0.5),
    "gym:Taxi-v4": (0.8, 0.5, 5.0),
    "gym:CliffWalking-v1": (0.8, 0.5, 12.0),
}


def live(env, **more):
    """An environment as a problem, with facts that most tests do not care about."""
    return sc.adapters.gymnasium.problem(
        env, **{"discount": 0.5, "operator": sc.Entropy(1.0)} | more
    )


def assert_within(count, n, p):
    """A frequency within 5 standard errors of its law."""
    assert abs(count / n - p) < 5 * math.sqrt(p * (1 - p) / n)


# --- the planner's stream inside a foreign simulator --------------------------


def test_a_kept_number_is_forgotten_when_a_stream_is_bound():
    generator, bits = stream_generator()
    older = legacy(generator)
    assert legacy(generator) is older
    bits.bind(stream(1))
    first = older.normal(), older.normal()
    bits.bind(stream(1))
    assert older.normal() == first[0]  # and keeps first[1]
    bits.bind(stream(2))
    second = older.normal()
    bits.bind(stream(2))
    assert older.normal() == second != first[1]


# --- tables -------------------------------------------------------------------


@pytest.mark.parametrize("name", list(TABLES))
def test_certified_intervals_hold_the_exact_value_of_the_tables(name):
    discount, temperature, epsilon = TABLES[name]
    problem = sc.make(name, discount=discount, temperature=temperature)
    exact = sc.plan(problem, method="exact")
    how = {"method": "certified", "delta": 0.05, "budget": 10**7, "seed": 2}
    found = sc.plan(problem, epsilon=epsilon, **how)
    assert found.interval[1] - found.interval[0] <= 2 * epsilon
    boxes = (found.interval, *found.certificate.q_intervals)
    for (low, high), truth in zip(boxes, (exact.value, *exact.q_values), strict=True):
        assert low <= truth <= high


@pytest.mark.parametrize("name", list(TABLES))
def test_the_tables_are_the_environments_own_steps(name):
    """Rewards, flags and next states of the environment appear in the tables,
    and its end is worth nothing more.
    """
    problem = sc.make(name, discount=0.9, temperature=0.1)
    terminal = problem.tables.terminal
    text, _, rest = name.removeprefix("gym:").partition(",")
    env = gym.make(text, **dict(part.split("=") for part in rest.split(",") if part))
    state, _ = env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(300):
        action = int(rng.integers(problem.num_actions))
        after, reward, terminated, truncated, _ = env.step(action)
        assert any(
            (r, bool(terminal[z])) == (reward, terminated)
            and (terminated or z == after)
            for p, r, z in problem.outcomes(int(state), action)
            if p > 0
        )
        state = env.reset()[0] if terminated or truncated else after
    for s in np.flatnonzero(~terminal[:-1]):
        assert abs(math.fsum(p for p, _, _ in problem.outcomes(s, 0)) - 1) < 1e-9


def test_terminated_is_honoured_where_the_row_behind_it_is_not_absorbing():
    """CliffWalking's goal row leads on in its tables; the value of the step
    into it is its reward alone.
    """
    problem = sc.make("gym:CliffWalking-v1", discount=0.9, operator="max")
    solution = sc.solve(problem)
    above_goal = 35
    assert solution.values[above_goal] == pytest.approx(-1.0)
    # up, eleven right, down
    assert solution.values[36] == pytest.approx(-sum(0.9**i for i in range(13)))


@pytest.mark.slow
def test_a_fickle_passenger_is_not_in_the_tables():
    name = "gym:Taxi-v4,fickle_passenger=true,reward_low=-10,reward_high=20"
    problem = sc.make(name, discount=0.5, temperature=1.0)
    assert problem.tables is None
    assert type(problem.oracle).__name__ == "SnapshotOracle"


# --- setting the state and snapshots ------------------------------------------


@pytest.mark.parametrize("access", ["state", "snapshot"])
def test_access_by_state_and_by_copies_has_the_law_of_the_tables(access):
    how = {"discount": 0.9, "temperature": 0.1}
    tables = sc.make("gym:FrozenLake-v1", **how)
    name = f"gym:FrozenLake-v1,access={access},reward_low=0,reward_high=1"
    problem = sc.make(name, **how)
    n, rng = (3000, stream(4)) if access == "state" else (600, stream(4))
    counts = dict.fromkeys(range(16), 0)
    for _ in range(n):
        _, after, _ = problem.oracle(problem.initial_state, 2, rng)
        counts[after if access == "state" else after.env.unwrapped.s] += 1
    for p, _, z in tables.outcomes(0, 2):
        assert_within(counts[z], n, p)


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1"]
)
def test_set_state_follows_the_environment(name):
    """From the real environment's state the adapter's step gives the real next
    state (these are deterministic).
    """
    env = gym.make(name)
    actions = 3 if name == "Pendulum-v1" else None
    problem = live(env, actions=actions)
    assert type(problem.oracle).__name__ == "StateOracle"
    env.reset(seed=5)
    for i in range(15):
        action = i % problem.num_actions
        reward, after, ended = problem.oracle(
            problem.oracle.read(env), action, stream(i)
        )
        _, paid, terminated, _, _ = env.step(problem.oracle.actions[action])
        assert reward == pytest.approx(paid, rel=1e-5)
        assert after == pytest.approx(problem.oracle.read(env), abs=1e-5)
        assert ended == terminated
        if terminated:
            break


class Counter(gym.Env):
    """Keeps something beside its state: the third step from the start pays."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.count = 0, 0
        return 0, {}

    def step(self, action):
        self.count += 1
        self.state = (self.state + action) % 5
        return self.state, float(self.count == 3), False, False, {}


def test_an_environment_with_hidden_state_is_copied():
    problem = live(Counter(), reward_range=(0.0, 1.0))
    assert type(problem.oracle).__name__ == "SnapshotOracle"
    state = problem.initial_state
    rewards = []
    for i in range(4):
        reward, state, _ = problem.oracle(state, 1, stream(i))
        rewards.append(reward)
    assert rewards == [0.0, 0.0, 1.0, 0.0]
    with pytest.raises(sc.InvalidInput, match=r"keeps more than its state.*snapshot"):
        live(Counter(), reward_range=(0.0, 1.0), access="state")
    with pytest.raises(sc.InvalidInput, match=r"not say in which range.*reward_range"):
        live(Counter())


def test_rewards_are_mapped_and_have_to_lie_in_their_range():
    env = gym.make("CartPole-v1")
    half = live(env, reward=lambda r: 0.5 * r, reward_range=(0.0, 0.5))
    assert half.oracle(half.initial_state, 0, stream(0))[0] == 0.5
    wrong = live(env, reward=lambda r: 3.0 * r, reward_range=(0.0, 1.0))
    sentence = r"reward 3\.0 at state .*action 0, outside reward_range \(0, 1\)"
    with pytest.raises(sc.OracleError, match=sentence):
        sc.plan(wrong, epsilon="20%", delta=0.1, method="smoothcruiser")


@pytest.mark.parametrize(
    "name, message",
    [
        ("gym:NoSuchEnv-v9", "cannot make 'NoSuchEnv-v9'"),
        ("gym:Pendulum-v1", r"not a short list; give actions="),
        ("gym:Taxi-v3", "cannot make 'Taxi-v3'"),
        ("gym:FrozenLake-v1,access=telepathy", "access must be auto"),
        ("gym:CartPole-v1,reward_low=0", "together"),
        ("gym:", "needs the name of a simulator"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_made_is_refused_in_one_sentence(name, message):
    with pytest.raises(sc.InvalidInput, match=message):
        sc.make(name, discount=0.5, temperature=1.0)


# --- planning does not touch, and cannot see, the real environment ------------


@pytest.mark.parametrize("access", ["state", "snapshot"])
def test_the_planner_cannot_see_what_the_real_environment_will_draw(access):
    """What the planner draws depends on its own seed alone, whatever generator
    the environment was given.
    """

    def places(env_seed, planner_seed):
        env = gym.make("FrozenLake-v1")
        env.reset(seed=env_seed)
        problem = live(env, access=access, reward_range=(0.0, 1.0))
        rng, state = stream(planner_seed), problem.oracle.read(env)
        states = [problem.oracle(state, 1, rng)[1] for _ in range(25)]
        return [z if access == "state" else z.env.unwrapped.s for z in states]

    assert places(1, 7) == places(2, 7)
    assert places(1, 7) != places(1, 8)


def test_a_step_from_mujocos_integration_state_is_the_real_one_to_the_last_bit():
    pytest.importorskip("mujoco")
    env = gym.make("Hopper-v5")
    problem = live(env, actions=2, reward_range=(-10.0, 10.0))
    assert type(problem.oracle).__name__ == "MujocoOracle"
    assert problem.num_actions == 8
    env.reset(seed=4)
    for i in range(100):
        action = int(stream(9, i).integers(8))
        reward, after, ended = problem.oracle(
            problem.oracle.read(env), action, stream(i)
        )
        _, paid, terminated, _, _ = env.step(problem.oracle.actions[action])
        assert (reward, after, ended) == (paid, problem.oracle.read(env), terminated)
        if terminated:
            env.reset()


adapter = sc.adapters.gymnasium

# --- a live environment is somewhere ------------------------------------------


def everything(env):
    """All that an environment holds, its generators and wrappers included."""
    inner = env.unwrapped
    spaces = [
        space._np_random for space in (inner.action_space, inner.observation_space)
    ]
    states = [
        None if g is None else repr(g.bit_generator.state)
        for g in (inner._np_random, *spaces)
    ]
    counts = [getattr(env, name, None) for name in ("_elapsed_steps", "_has_reset")]
    return contents(env), states, counts


@pytest.mark.parametrize(
    "name", ["FrozenLake-v1", "CliffWalking-v1", "CartPole-v1", "Blackjack-v1", "walk"]
)
def test_a_problem_starts_where_the_environment_is_and_leaves_it_untouched(name):
    env = moved(
        EzWalk() if name == "walk" else gym.make(name), 2 if name == "walk" else 0
    )
    if name == "CliffWalking-v1":
        env.step(0)
    before = everything(env)
    problem = adapter.problem(
        env, discount=0.3, operator=sc.Entropy(1.0), reward_range=(-100.0, 1.5)
    )
    readers = {
        "walk": lambda e: e.place,
        "CartPole-v1": lambda e: tuple(e.state.tolist()),
        "Blackjack-v1": lambda e: (e.player, e.dealer),
    }
    read = readers.get(name, lambda e: e.s)
    sc.plan(problem, epsilon="50%", delta=0.1, method="smoothcruiser")
    for state in (problem.initial_state, problem.start(env)):
        there = read(state.env.unwrapped) if hasattr(state, "env") else state
        assert there == read(env.unwrapped)
    assert everything(env) == before


def test_an_environment_that_was_never_reset_is_reset_in_a_copy():
    facts = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    env = gym.make("CartPole-v1")
    fresh = adapter.problem(env, **facts).initial_state
    assert fresh == sc.make("gym:CartPole-v1", **facts).initial_state
    assert env.unwrapped.state is None
    env.reset(seed=9)
    assert adapter.problem(env, **facts).initial_state != fresh
    assert adapter.problem(env, **facts, seed=0).initial_state == fresh


def test_another_environment_is_not_here():
    facts = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    env, heavy = (moved(gym.make("CartPole-v1"), 1) for _ in range(2))
    problem = adapter.problem(env, **facts)
    heavy.unwrapped.gravity = 20.0
    lake = adapter.problem(gym.make("FrozenLake-v1"), **facts)
    dry = moved(gym.make("FrozenLake-v1", is_slippery=False), 0)
    car = moved(gym.make("MountainCar-v0"), 1)
    while not env.step(0)[2]:
        pass
    for one, place, sentence in (
        (problem, heavy, r"CartPoleEnv differs in gravity"),
        (problem, car, r"made of CartPoleEnv, and .*MountainCar.* was given"),
        (lake, dry, r"made of other tables"),
        (lake, gym.make("FrozenLake-v1"), "reset"),
        (problem, env, r"episode of CartPoleEnv is over; reset it"),
    ):
        with pytest.raises(sc.InvalidInput, match=sentence):
            one.start(place)


def test_a_snapshot_does_not_leave_its_process():
    """A pickle of an EzPickle environment is a new environment."""
    problem = adapter.problem(moved(EzWalk(), 3), **HERE)
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(problem.initial_state)


# --- the real ones, where they are installed ----------------------------------


def followed(problem, env, steps):
    """Whether the adapter's steps from where the environment is are the
    environment's own.
    """
    for i in range(steps):
        action = int(stream(9, i).integers(problem.num_actions))
        reward, _, ended = problem.oracle(problem.oracle.read(env), action, stream(i))
        _, paid, terminated, truncated, _ = env.step(problem.oracle.actions[action])
        assert (reward, ended) == (pytest.approx(paid), terminated or truncated)
        if ended:
            env.reset()


@pytest.mark.parametrize("name", ["Ant-v5", "Reacher-v5", "HalfCheetah-v5"])
def test_mujoco_steps_are_the_environments_own(name):
    """Ant reads positions that its integration state does not determine, so it
    is copied.
    """
    pytest.importorskip("mujoco")
    env = gym.make(name)
    low, high = env.action_space.low, env.action_space.high
    corners = [low, high, 0.0 * low]
    env.reset(seed=1)
    for action in corners:
        env.step(action)
    followed(
        adapter.problem(
            env, **HERE | {"actions": corners, "reward_range": (-100.0, 100.0)}
        ),
        env,
        20,
    )


def test_ale_steps_are_the_environments_own_and_repeated_actions_are_refused():
    ale = pytest.importorskip("ale_py")
    gym.register_envs(ale)
    env = moved(gym.make("ALE/Breakout-v5", repeat_action_probability=0.0), 20)
    followed(adapter.problem(env, **HERE), env, 30)
    with pytest.raises(sc.InvalidInput, match=r"repeat_action_probability=0"):
        adapter.problem(moved(gym.make("ALE/Breakout-v5"), 1), **HERE)


# --- OpenSpiel ----------------------------------------------------------------

spiel = pytest.importorskip("pyspiel")


def test_plain_tic_tac_toe_is_a_draw_with_discount_one():
    problem = sc.make("openspiel:tic_tac_toe", discount=1, operator="max")
    assert problem.horizon == 9
    assert sc.plan(problem, [0, 4, 8], method="exact").value == 0.0
    # 6 completes the left column
    assert sc.plan(problem, [0, 1, 3, 4], method="exact").value == 1.0


def test_chance_is_drawn_from_the_planners_stream_with_its_law():
    problem = sc.make("openspiel:pig,winscore=20", discount=0.9, temperature=0.1)
    start = problem.initial_state
    steps = [problem.oracle(start, 0, stream(9, i)) for i in range(3000)]
    assert steps == [problem.oracle(start, 0, stream(9, i)) for i in range(3000)]
    counts = collections.Counter(after for _, after in steps)
    model = {z: p for p, _, z in problem.outcomes(start, 0)}
    assert counts.keys() == model.keys()
    for z, p in model.items():
        assert_within(counts[z], 3000, p)


def test_openspiels_own_position_is_read_and_left_as_it_is():
    problem = sc.make("openspiel:tic_tac_toe", discount=1, operator="max")
    running = spiel.load_game("tic_tac_toe").new_initial_state()
    for move in (0, 8):
        running.apply_action(move)
    found = sc.plan(problem, running, method="uct", budget=20)
    assert found.state == problem.start([0, 8])
    assert running.history() == [0, 8]
    other = spiel.load_game("connect_four").new_initial_state()
    with pytest.raises(sc.InvalidInput, match="is one of connect_four"):
        problem.start(other)
    with pytest.raises(sc.InvalidInput, match="is a list of all moves so far"):
        problem.start("0, 8")


def test_a_search_that_began_in_the_middle_of_a_game_is_resumed(tmp_path):
    problem = sc.make("openspiel:pig,horizon=6", discount=0.9, operator="max")
    store = tmp_path / "runs.db"
    asked = {"method": "certified", "delta": 0.1}
    first = sc.plan(problem, [1], budget=60, store=store, **asked)
    resumed = sc.resume(1, store, trust=True, budget=500)
    assert resumed.state == problem.start([1])
    assert first.interval[0] <= resumed.value <= first.interval[1]
    whole = sc.plan(problem, [1], budget=500, **asked)
    assert resumed.interval[1] - resumed.interval[0] < 0.9
    assert resumed.interval[0] <= whole.value <= resumed.interval[1]
    assert (
        sc.resume(1, store, trust=True, state=[1], budget=501).state == resumed.state
    )
    with pytest.raises(sc.InvalidInput, match="was started at state"):
        sc.resume(1, store, trust=True, state=[1, 1], budget=500)


def test_positions_recognize_each_other_and_travel():
    problem = sc.make("openspiel:tic_tac_toe", discount=0.9, temperature=0.1)
    one, two = problem.start([0, 4, 8]), problem.start([8, 4, 0])
    assert one != two
    assert problem.key_of(one) == problem.key_of(two)
    assert pickle.loads(pickle.dumps(one)) == one
    how = {"discount": 0.9, "operator": sc.Max(), "merge": "history"}
    by_history = sc.adapters.openspiel.problem("tic_tac_toe", **how)
    assert by_history.key_of(one) != by_history.key_of(two)
    with pytest.raises(sc.InvalidInput, match=r"Move 4 of \[4, 4\] is not legal"):
        problem.start([4, 4])


@pytest.mark.parametrize(
    "name, message",
    [
        ("kuhn_poker", "information is hidden"),
        ("matrix_rps", "at the same time"),
        ("nope", r"cannot load 'nope': Unknown game 'nope'; pyspiel.registered_names"),
        ("tictactoe", r"did you mean 'tic_tac_toe'\?"),
        ("breakthrough(nix=4)", "are: columns, rows; change its parameters"),
    ],
)
def test_games_of_another_kind_are_refused(name, message):
    with pytest.raises(sc.InvalidInput, match=message):
        sc.make(f"openspiel:{name}", discount=0.9, temperature=1.0)


@pytest.mark.parametrize(
    "name",
    [
        "gym:FrozenLake-v1",
        "gym:CartPole-v1",
        "openspiel:tic_tac_toe",
        "openspiel:pig,winscore=10",
        "openspiel:connect_four",
    ],
)
def test_every_adapter_passes_check(name):
    problem = sc.make(name, discount=0.5, temperature=0.5)
    report = sc.check(problem)
    assert report.ok, str(report)
    assert problem.spec["problem"] == name
