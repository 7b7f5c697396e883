"""Copies of Gymnasium environments, and where a problem made of a live one starts.

Laws: a certificate covers the value of the environment that was given, whatever ``deepcopy`` makes
of it; an environment that no access can put back is refused in one sentence that names the cause; the
problem starts where the environment is; the environment itself is never stepped, reset or reseeded.
"""

import pickle
import random

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.execute.streams import stream

gym = pytest.importorskip("gymnasium")
from smoothcruiser.adapters import gymnasium as adapter  # noqa: E402
from smoothcruiser.adapters.gymnasium.copies import contents, has_reset  # noqa: E402

HERE = {"discount": 0.5, "operator": sc.Entropy(0.1), "reward_range": (0.0, 1.0)}


class Walk(gym.Env):
    """Six places in a row: action 1 moves on with probability 0.8, and place n pays n/5."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(6)

    def __init__(self):
        self.place = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place = min(5, self.place + int(action == 1 and self.chance() < 0.8))
        return self.place, self.pay(), False, False, {}

    def chance(self):
        return self.np_random.random()

    def pay(self):
        return self.place / 5


def value_of_walk(place, steps=60):
    """V by value iteration, independent of the library."""
    value = np.zeros(6)
    for _ in range(steps):
        ahead = [min(5, n + 1) for n in range(6)]
        stay = np.arange(6) / 5 + 0.5 * value
        move = 0.8 * stay[ahead] + 0.2 * stay
        value = 0.1 * np.logaddexp(stay / 0.1, move / 0.1)
    return value[place]


class EzWalk(Walk, gym.utils.EzPickle):
    """``deepcopy`` builds it anew, at place 0."""

    def __init__(self):
        gym.utils.EzPickle.__init__(self)
        super().__init__()


def moved(env, steps):
    """The environment after a reset and some steps forward."""
    env.reset(seed=3)
    for _ in range(steps):
        env.step(1)
    return env


# --- copies that forget --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_certificate_covers_the_value_of_an_environment_that_copies_would_forget(seed):
    env = moved(EzWalk(), 3)
    problem = adapter.problem(env, **HERE)
    found = sc.plan(problem, epsilon=0.3, delta=0.1, method="smoothcruiser", seed=seed)
    assert env.place >= 2
    assert found.interval[0] <= value_of_walk(env.place) <= found.interval[1]
    assert found.interval[0] > value_of_walk(0)  # what a forgetful copy is worth


def test_the_whole_of_a_wrapped_environment_is_remembered():
    class Bonus(gym.RewardWrapper):  # a wrapper with a memory of its own: the third reward is doubled
        given = 0

        def reward(self, reward):
            self.given += 1
            return 2.0 * reward if self.given == 3 else reward

    env = Bonus(gym.wrappers.TimeLimit(EzWalk(), 4))
    problem = adapter.problem(moved(env, 2), **HERE | {"reward_range": (0.0, 2.0)})
    state, rewards = problem.initial_state, []
    for i in range(6):
        reward, state, ended = problem.oracle(state, 0, stream(i))
        rewards.append(reward * 5 / env.unwrapped.place)
        assert not ended  # a time limit is not part of the state, at whatever depth
    assert rewards == pytest.approx([2.0, 1.0, 1.0, 1.0, 1.0, 1.0])


def test_a_wrapper_that_only_shares_its_name_with_a_time_limit_is_kept():
    class TimeLimit(gym.RewardWrapper):
        def reward(self, reward):
            return 1.0

    problem = adapter.problem(moved(TimeLimit(Walk()), 0), **HERE)
    assert problem.oracle(problem.initial_state, 0, stream(0))[0] == 1.0


class Settable(EzWalk):
    """All of it is in ``state``, but a copy is built anew."""

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed)
        self.state = 0
        return found

    def step(self, action):
        self.place = self.state
        found = super().step(action)
        self.state, self.place = self.place, 0
        return found


class Hiding(Settable):
    """Keeps a count beside its state, in a place of its own."""

    def reset(self, *, seed=None, options=None):
        self.memory = {"count": 0}
        return super().reset(seed=seed)

    def pay(self):
        self.memory["count"] += 1
        return float(self.memory["count"] == 400)


class Penalized(Settable):
    """Pays by what was done last, under a name that is harmless in Gymnasium's own environments."""

    lastaction = 0

    def step(self, action):
        found = super().step(action)
        paid, self.lastaction = float(self.lastaction == action), action
        return found[0], paid, *found[2:]


class Goal(Settable):
    """A reset draws what the episode is about, and the state does not tell."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = int(self.np_random.integers(10**6))
        return 0, {}


@pytest.mark.parametrize(
    "world, access",
    [(Settable, "State"), (Hiding, "Snapshot"), (Penalized, "Snapshot"), (Goal, "Snapshot")],
)
def test_setting_the_state_is_judged_by_an_environment_that_was_never_copied(world, access):
    problem = adapter.problem(moved(world(), 2), **HERE)
    assert type(problem.oracle).__name__ == f"{access}Oracle"


def test_a_step_may_write_into_what_the_environment_holds():
    class Thaw(Walk):
        def reset(self, *, seed=None, options=None):
            self.desc = np.ones(6)
            return super().reset(seed=seed)

        def pay(self):
            self.desc[self.place] *= 0.5
            return self.desc[self.place]

    problem = adapter.problem(moved(Thaw(), 0), **HERE)
    assert [problem.oracle(problem.initial_state, 0, stream(i))[0] for i in range(3)] == [
        0.5,
        0.5,
        0.5,
    ]


# --- emulators: clone_state and restore_state ----------------------------------------------------


class Core:
    """Compiled memory: it cannot be copied, and shows nothing."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle 'Core' object")


class Emulator(EzWalk):
    """Like ALE: all is inside the core, chance too."""

    hidden = False  # whether clones leave out the place

    def __init__(self):
        held = {"place": 0, "rng": np.random.default_rng(0)}
        self.engine, self.core = (
            Core(),
            lambda: held,
        )  # a closure is out of sight, as compiled memory is
        super().__init__()

    def reset(self, *, seed=None, options=None):
        gym.Env.reset(self, seed=seed)
        if seed is not None:
            self.core()["rng"] = np.random.default_rng(seed)
        self.core()["place"] = 0
        return 0, {}

    def step(self, action):
        held = self.core()
        held["place"] = min(5, held["place"] + int(action == 1 and held["rng"].random() < 0.8))
        return held["place"], held["place"] / 5, False, False, {}

    def clone_state(self, include_rng=False):
        held = self.core()
        rng = held["rng"].bit_generator.state if include_rng else None
        return pickle.dumps((0 if self.hidden else held["place"], rng))

    def restore_state(self, state):
        place, rng = pickle.loads(state)
        self.core()["place"] = place
        if rng is not None:
            self.core()["rng"].bit_generator.state = rng


def test_an_emulator_is_cloned_without_its_generator_and_its_chance_is_the_planners():
    env = moved(Emulator(), 3)
    before = env.clone_state(include_rng=True)
    problem = adapter.problem(env, **HERE)
    assert type(problem.oracle).__name__ == "CloneOracle"
    place = env.core()["place"]
    assert place >= 2
    moves = [problem.oracle(problem.initial_state, 1, stream(k))[0] * 5 - place for k in range(400)]
    assert abs(np.mean(moves) - 0.8) < 5 * np.sqrt(0.16 / 400)
    assert moves == [problem.oracle(problem.initial_state, 1, stream(k))[0] * 5 - place for k in range(400)]
    found = sc.plan(problem, method="certified", epsilon=0.2, delta=0.1, budget=20_000)  # clones are recognized
    assert found.interval[0] <= value_of_walk(place) <= found.interval[1]
    assert env.clone_state(include_rng=True) == before


def test_a_clone_that_leaves_something_out_is_refused():
    class Leaky(Emulator):
        hidden = True

    with pytest.raises(sc.InvalidInput, match=r"Leaky, put back to where it was .* clone_state does not hold"):
        adapter.problem(moved(Leaky(), 3), **HERE)


def test_what_cannot_be_copied_is_refused_by_name():
    class Body(EzWalk):
        def reset(self, *, seed=None, options=None):
            self.world = Core()
            return super().reset(seed=seed)

    with pytest.raises(sc.InvalidInput, match=r"Body cannot be copied: its attribute world \(Core\)"):
        adapter.problem(moved(Body(), 1), **HERE)


# --- what lies outside every copy ----------------------------------------------------------------

STEPS_OF_ALL = 0
SHARED = {"steps": 0}
ANY = np.random.default_rng(0)


class ByModule(Walk):
    def pay(self):
        global STEPS_OF_ALL
        STEPS_OF_ALL += 1
        return float(STEPS_OF_ALL > 10_000)


class ByClass(Walk):
    steps = 0

    def pay(self):
        ByClass.steps += 1
        return float(ByClass.steps > 10_000)


class ByModuleObject(Walk):
    def pay(self):
        SHARED["steps"] += 1
        return float(SHARED["steps"] > 10_000)


class BySharedGenerator(Walk):
    def chance(self):
        return ANY.random()


class ByNumpy(Walk):
    def chance(self):
        return np.random.random()  # noqa: NPY002


class ByRandom(Walk):
    def chance(self):
        return random.random()


class ByOwnRandom(Walk):
    def reset(self, *, seed=None, options=None):
        self.dice = random.Random(seed)
        return super().reset(seed=seed)

    def chance(self):
        return self.dice.random()


class ByEntropy(Walk):
    def chance(self):
        self.fresh = np.random.default_rng()
        return self.fresh.random()


class Forgetting(Walk):
    """A pickling of its own that leaves something out."""

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return super().reset(seed=seed)

    def pay(self):
        self.age += 1
        return float(self.age > 10_000)

    def __getstate__(self):
        return vars(self) | {"age": 0}


@pytest.mark.parametrize(
    "world, sentence",
    [
        (ByModule, r"Copies of ByModule share module .*STEPS_OF_ALL"),
        (ByClass, r"Copies of ByClass share class ByClass\.steps"),
        (ByModuleObject, r"Copies of ByModuleObject share module .*SHARED\.steps"),
        (BySharedGenerator, r"share module .*ANY|differ|put back"),
        (ByNumpy, r"ByNumpy draws from the global generator"),
        (ByRandom, r"ByRandom draws from the global generator"),
        (ByOwnRandom, r"ByOwnRandom draws from dice, a Random that a planner cannot replace"),
        (ByEntropy, r"ByEntropy makes a generator of its own \(fresh\)"),
        (Forgetting, r"A copy of Forgetting forgets age"),
    ],
)
def test_what_no_copy_holds_is_refused_in_one_sentence(world, sentence):
    env = moved(world(), 2)
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    with pytest.raises(sc.InvalidInput, match=sentence):
        adapter.problem(env, **HERE)
    assert before == (random.getstate(), repr(np.random.get_state()))  # noqa: NPY002


class Captured(Walk):
    """Keeps the generator that a reset left, under a name of its own."""

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed)
        self.rng = self.np_random
        return found

    def chance(self):
        return self.rng.random()


class OwnGenerator(Captured):
    """Makes a generator of its own at every reset."""

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed)
        self.rng = np.random.default_rng(seed)
        return found


class Sampling(Walk):
    """Draws from its action space."""

    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Discrete(2)

    def chance(self):
        return 0.0 if self.action_space.sample() else 1.0


@pytest.mark.parametrize("world, chance", [(Captured, 0.8), (OwnGenerator, 0.8), (Sampling, 0.5)])
def test_whatever_generator_an_environment_holds_its_copies_draw_from_the_planner(world, chance):
    env, twin = world(), world()
    for each in (env, twin):
        each.action_space.seed(5)
        moved(each, 1)
    problem = adapter.problem(env, **HERE)
    steps = [problem.oracle(problem.initial_state, 1, stream(k))[1].env.place - env.place for k in range(300)]
    assert steps == [problem.oracle(problem.initial_state, 1, stream(k))[1].env.place - env.place for k in range(300)]
    assert abs(np.mean(steps) - chance) < 5 * np.sqrt(0.25 / 300)
    assert [env.step(1)[0] for _ in range(20)] == [twin.step(1)[0] for _ in range(20)]


# --- tables that are not the environment's -------------------------------------------------------


def test_tables_that_the_steps_contradict_are_not_used():
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    class Drier(FrozenLakeEnv):
        """Its tables are slippery, its steps go where they are told two times in three."""

        def step(self, action):
            choices = self.P[self.s][action]
            _, place, reward, ended = choices[1 if self.np_random.random() < 0.67 else 0]
            self.s = place
            return place, reward, ended, False, {}

    problem = adapter.problem(Drier(), **HERE)
    assert problem.tables is None
    with pytest.raises(sc.InvalidInput, match=r"tables of Drier give .* they are not its own steps"):
        adapter.problem(Drier(), **HERE, access="tables")


def test_actions_of_a_tabular_problem_are_those_asked_for():
    problem = adapter.problem(gym.make("FrozenLake-v1"), discount=0.9, operator=sc.Max(), actions=[2, 1])
    whole = adapter.problem(gym.make("FrozenLake-v1"), discount=0.9, operator=sc.Max())
    assert problem.num_actions == 2
    assert list(problem.outcomes(0, 0)) == list(whole.outcomes(0, 2))


# --- a live environment is somewhere -------------------------------------------------------------


def everything(env):
    """All that an environment holds, its generators and wrappers included."""
    inner = env.unwrapped
    spaces = [space._np_random for space in (inner.action_space, inner.observation_space)]
    states = [None if g is None else repr(g.bit_generator.state) for g in (inner._np_random, *spaces)]
    counts = [getattr(env, name, None) for name in ("_elapsed_steps", "_has_reset")]
    return contents(env), states, counts


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "CartPole-v1", "Blackjack-v1", "walk"])
def test_a_problem_starts_where_the_environment_is_and_leaves_it_untouched(name):
    env = moved(EzWalk() if name == "walk" else gym.make(name), 2 if name == "walk" else 0)
    if name == "CliffWalking-v1":
        env.step(0)
    before = everything(env)
    problem = adapter.problem(env, discount=0.3, operator=sc.Entropy(1.0), reward_range=(-100.0, 1.5))
    state = problem.initial_state
    inner = env.unwrapped
    here = {
        "walk": lambda e: e.place,
        "CartPole-v1": lambda e: tuple(e.state.tolist()),
        "Blackjack-v1": lambda e: (e.player, e.dealer),
    }
    read = here.get(name, lambda e: e.s)
    assert read(inner) == (read(state.env.unwrapped) if hasattr(state, "env") else state)
    sc.plan(problem, epsilon="50%", delta=0.1, method="smoothcruiser")
    there = problem.start(env)
    assert read(inner) == (read(there.env.unwrapped) if hasattr(there, "env") else there)
    assert everything(env) == before


def test_a_live_environment_as_the_asked_state_means_here():
    env = moved(gym.make("FrozenLake-v1", is_slippery=False), 0)
    problem = adapter.problem(env, discount=0.9, operator=sc.Max())
    env.step(2)
    assert sc.plan(problem, env, method="exact").value == sc.plan(problem, 1, method="exact").value
    walk = moved(EzWalk(), 0)
    lived = adapter.problem(walk, **HERE)
    moved(walk, 4)
    found = sc.plan(lived, walk, epsilon=0.3, delta=0.1, method="smoothcruiser")
    assert found.interval[0] <= value_of_walk(walk.place) <= found.interval[1]


def test_an_environment_that_was_never_reset_is_reset_in_a_copy():
    env = gym.make("CartPole-v1")
    assert not has_reset(env)
    assert not has_reset(env.unwrapped)
    fresh = adapter.problem(env, discount=0.5, operator=sc.Entropy(1.0))
    assert fresh.initial_state == sc.make("gym:CartPole-v1", discount=0.5, temperature=1.0).initial_state
    assert env.unwrapped.state is None
    env.reset(seed=9)
    assert has_reset(env)
    live = adapter.problem(env, discount=0.5, operator=sc.Entropy(1.0))
    asked = adapter.problem(env, discount=0.5, operator=sc.Entropy(1.0), seed=0)
    assert live.initial_state != fresh.initial_state
    assert asked.initial_state == fresh.initial_state


def test_another_environment_is_not_here():
    env = moved(gym.make("CartPole-v1"), 1)
    problem = adapter.problem(env, discount=0.5, operator=sc.Entropy(1.0))
    heavy = moved(gym.make("CartPole-v1"), 1)
    heavy.unwrapped.gravity = 20.0
    with pytest.raises(sc.InvalidInput, match=r"CartPoleEnv differs in gravity"):
        problem.start(heavy)
    with pytest.raises(sc.InvalidInput, match=r"made of CartPoleEnv, and .*MountainCar.* was given"):
        problem.start(moved(gym.make("MountainCar-v0"), 1))
    lake = adapter.problem(gym.make("FrozenLake-v1"), discount=0.5, operator=sc.Entropy(1.0))
    with pytest.raises(sc.InvalidInput, match=r"made of other tables"):
        lake.start(moved(gym.make("FrozenLake-v1", is_slippery=False), 0))
    while not env.step(0)[2]:
        pass
    with pytest.raises(sc.InvalidInput, match=r"episode of CartPoleEnv is over; reset it"):
        problem.start(env)


def test_a_snapshot_does_not_leave_its_process():
    """A pickle of an EzPickle environment is a new environment."""
    problem = adapter.problem(moved(EzWalk(), 3), **HERE)
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(problem.initial_state)


# --- the real ones, where they are installed -----------------------------------------------------


def followed(problem, env, steps):
    """Whether the adapter's steps from where the environment is are the environment's own."""
    for i in range(steps):
        action = int(stream(9, i).integers(problem.num_actions))
        reward, _, ended = problem.oracle(problem.oracle.read(env), action, stream(i))
        _, paid, terminated, truncated, _ = env.step(problem.oracle.actions[action])
        assert (reward, ended) == (pytest.approx(paid), terminated or truncated)
        if ended:
            env.reset()


@pytest.mark.parametrize("name", ["Ant-v5", "Reacher-v5", "HalfCheetah-v5"])
def test_mujoco_steps_are_the_environments_own(name):
    """Ant reads positions that its integration state does not determine, so it is copied."""
    pytest.importorskip("mujoco")
    env = moved_by(gym.make(name))
    problem = adapter.problem(
        env,
        discount=0.5,
        operator=sc.Entropy(1.0),
        actions=_corners(env),
        reward_range=(-100.0, 100.0),
    )
    followed(problem, env, 20)


def _corners(env):
    return [env.action_space.low, env.action_space.high, 0.0 * env.action_space.low]


def moved_by(env):
    env.reset(seed=1)
    for action in _corners(env):
        env.step(action)
    return env


def test_ale_steps_are_the_environments_own_and_repeated_actions_are_refused():
    ale = pytest.importorskip("ale_py")
    gym.register_envs(ale)
    env = moved(gym.make("ALE/Breakout-v5", repeat_action_probability=0.0), 20)
    followed(adapter.problem(env, **HERE), env, 30)
    with pytest.raises(sc.InvalidInput, match=r"repeat_action_probability=0"):
        adapter.problem(moved(gym.make("ALE/Breakout-v5"), 1), **HERE)


def test_box2d_is_refused_by_name():
    pytest.importorskip("Box2D")
    with pytest.raises(sc.InvalidInput, match=r"LunarLander cannot be copied: its attribute \w+ \(b2"):
        adapter.problem(moved(gym.make("LunarLander-v3"), 1), **HERE)
