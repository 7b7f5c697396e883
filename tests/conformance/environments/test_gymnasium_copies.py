"""Copies of Gymnasium environments: none that forgets or shares gets a certificate.

Laws: a certificate covers the value of the environment that was given, whatever
``deepcopy`` makes of it; an environment that no access can put back is refused
in one sentence that names the cause.
"""

import math
import pickle
import random

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream

gym = pytest.importorskip("gymnasium")
from gymnasium_worlds import HERE, EzWalk, Walk, moved, value_of_walk  # noqa: E402

adapter = sc.adapters.gymnasium


def here(env, steps=2, **more):
    """The problem of an environment after some steps."""
    return adapter.problem(moved(env, steps), **HERE | more)


def step_of(problem, action=0, key=0):
    return problem.oracle(problem.initial_state, action, stream(key))


# --- copies that forget -------------------------------------------------------


def test_a_certificate_covers_the_value_of_an_environment_that_copies_would_forget():
    env = EzWalk()
    how = {"epsilon": 0.4, "delta": 0.1, "method": "smoothcruiser"}
    found = sc.plan(here(env, 3), **how)
    assert env.place >= 2
    assert found.interval[0] <= value_of_walk(env.place) <= found.interval[1]
    assert found.interval[0] > value_of_walk(0)  # what a forgetful copy is worth


def test_the_whole_of_a_wrapped_environment_is_remembered():
    # a wrapper with a memory of its own: the third reward is doubled
    class Bonus(gym.RewardWrapper):
        given = 0

        def reward(self, reward):
            self.given += 1
            return 2.0 * reward if self.given == 3 else reward

    env = Bonus(gym.wrappers.TimeLimit(EzWalk(), 4))
    problem = here(env, reward_range=(0.0, 2.0))
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

    assert step_of(here(TimeLimit(Walk()), 0))[0] == 1.0


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
    """Pays by what was done last, under a name that is harmless in Gymnasium's
    own environments.
    """

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
    [
        (Settable, "State"),
        (Hiding, "Snapshot"),
        (Penalized, "Snapshot"),
        (Goal, "Snapshot"),
    ],
)
def test_setting_the_state_is_judged_by_an_environment_that_was_never_copied(
    world, access
):
    assert type(here(world()).oracle).__name__ == f"{access}Oracle"


def test_a_step_may_write_into_what_the_environment_holds():
    class Thaw(Walk):
        kind = np.ndarray  # a class among its values has no size

        def reset(self, *, seed=None, options=None):
            self.desc = np.ones(6)
            return super().reset(seed=seed)

        def pay(self):
            self.desc[self.place] *= 0.5
            return self.desc[self.place]

    problem = here(Thaw(), 0)
    assert [step_of(problem, 0, i)[0] for i in range(3)] == [0.5, 0.5, 0.5]


def test_certified_search_refuses_snapshots_without_a_key():
    with pytest.raises(sc.InvalidInput, match="key="):
        sc.plan(here(Walk()), epsilon=0.5, delta=0.1, method="certified", budget=1000)


def test_an_environment_may_keep_a_module():
    """As those of gymnasium-robotics do: ``self._mujoco = mujoco``."""

    class Keeping(Walk):
        def __init__(self):
            super().__init__()
            self.libraries = {"math": math}

        def pay(self):
            return self.libraries["math"].sqrt(super().pay())

    assert step_of(here(Keeping(), 0), 1, 1)[0] in (0.0, math.sqrt(0.2))


# --- emulators: clone_state and restore_state ---------------------------------


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
        held["place"] = min(
            5, held["place"] + int(action == 1 and held["rng"].random() < 0.8)
        )
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
    moves, again = (
        [step_of(problem, 1, k)[0] * 5 - place for k in range(400)] for _ in range(2)
    )
    assert abs(np.mean(moves) - 0.8) < 5 * np.sqrt(0.16 / 400)
    assert moves == again
    # clones are recognized
    found = sc.plan(problem, method="certified", epsilon=0.2, delta=0.1, budget=20_000)
    assert found.interval[0] <= value_of_walk(place) <= found.interval[1]
    assert env.clone_state(include_rng=True) == before


def test_a_clone_that_leaves_something_out_is_refused():
    class Leaky(Emulator):
        hidden = True

    sentence = r"Leaky, put back to where it was .* clone_state does not hold"
    with pytest.raises(sc.InvalidInput, match=sentence):
        here(Leaky(), 3)


def test_what_cannot_be_copied_is_refused_by_name():
    class Body(EzWalk):
        def reset(self, *, seed=None, options=None):
            self.world = Core()
            return super().reset(seed=seed)

    sentence = r"Body cannot be copied: its attribute world \(Core\)"
    with pytest.raises(sc.InvalidInput, match=sentence):
        here(Body())


# --- what lies outside every copy ---------------------------------------------

ARRAYS = np.ndarray  # a class among a module's values has no size
LARGE = np.zeros(300_000)  # and one that is too large to be read


def test_many_objectives_are_refused_and_ragged_states_are_copied():
    class Paid(Walk):
        more = (1.0,)

        def pay(self):
            return np.array([super().pay(), *self.more])

    with pytest.raises(sc.InvalidInput, match=r"Paid pays array.* needs one number"):
        here(Paid())

    class One(Paid):
        state = ([0, 1], [2])
        more = ()

    assert type(here(One()).oracle).__name__ == "SnapshotOracle"


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


class ByEntropy(Walk):
    def chance(self):
        self.fresh = np.random.default_rng()
        return self.fresh.random()


class Deep(Walk):
    """Draws through a function that lies deeper, where no copy of it is made."""

    def reset(self, *, seed=None, options=None):
        self.rolls = [lambda: self.np_random.random()]
        return super().reset(seed=seed)

    def chance(self):
        return self.rolls[0]()


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
        (ByEntropy, r"ByEntropy makes a generator of its own \(fresh\)"),
        (Forgetting, r"A copy of Forgetting forgets age"),
        (Deep, r"keeps a function in rolls\.0 that holds a Deep, which all copies"),
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


class OlderGenerator(Walk):
    """Draws from NumPy's RandomState."""

    def reset(self, *, seed=None, options=None):
        self.older = np.random.RandomState(seed)
        return super().reset(seed=seed)

    def chance(self):
        return self.older.random_sample()


class Sampling(Walk):
    """Draws from its action space."""

    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Discrete(2)

    def chance(self):
        return 0.0 if self.action_space.sample() else 1.0


@pytest.mark.parametrize(
    "world, chance", [*((OwnGenerator, 0.8), (Sampling, 0.5), (OlderGenerator, 0.8))]
)
def test_whatever_generator_an_environment_holds_its_copies_draw_from_the_planner(
    world, chance
):
    env, twin = world(), world()
    for each in (env, twin):
        each.action_space.seed(5)
        moved(each, 1)
    problem = adapter.problem(env, **HERE)
    steps, again = (
        [step_of(problem, 1, k)[1].env.place - env.place for k in range(300)]
        for _ in range(2)
    )
    assert steps == again
    assert abs(np.mean(steps) - chance) < 5 * np.sqrt(0.25 / 300)
    assert [env.step(1)[0] for _ in range(20)] == [twin.step(1)[0] for _ in range(20)]


# --- tables that are not the environment's ------------------------------------


def test_tables_that_the_steps_contradict_are_not_used():
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    class Drier(FrozenLakeEnv):
        """Its tables are slippery, its steps go where they are told two times
        in three.
        """

        def step(self, action):
            choices = self.P[self.s][action]
            _, place, reward, ended = choices[
                1 if self.np_random.random() < 0.67 else 0
            ]
            self.s = place
            return place, reward, ended, False, {}

    problem = adapter.problem(Drier(), **HERE)
    assert problem.tables is None
    with pytest.raises(sc.InvalidInput, match=r"tables of Drier give .* they are not"):
        adapter.problem(Drier(), **HERE, access="tables")


def test_actions_of_a_tabular_problem_are_those_asked_for():
    facts = {"discount": 0.9, "operator": sc.Max()}
    some, whole = (
        adapter.problem(gym.make("FrozenLake-v1"), actions=actions, **facts)
        for actions in ([2, 1], None)
    )
    assert some.num_actions == 2
    assert list(some.outcomes(0, 0)) == list(whole.outcomes(0, 2))
