"""What an environment shows in a state, and a key of all that it holds.

Laws: what its own step showed there, or a refusal. Equal contents have equal keys, in
whatever process; anything that a step could depend on makes another key: a number, its
type, an array's shape, the order of a dict, which of two equal objects is pointed at.
What cannot be looked into is refused.
"""

import collections
import enum
import itertools
from copy import deepcopy

import numpy as np
import pytest

import smoothcruiser as sc
from fresh_process import run_python

pytest.importorskip("gymnasium")
import gymnasium

from smoothcruiser.adapters.gymnasium.whole import HiddenContents, shows_all, whole

ENVIRONMENTS = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Blackjack-v1"]


class Doubled(gymnasium.ObservationWrapper):
    def observation(self, observation):
        return 2 * observation


class Tripled(gymnasium.Wrapper):
    """Changes what a step shows, where only its step can tell."""

    def step(self, action):
        shown, *more = self.env.step(action)
        return (3 * shown, *more)


class Model:
    """Keeps what it was shown and acts by the sign of its second number."""

    def __init__(self):
        self.seen = []

    def predict(self, observation):
        self.seen.append(observation)
        return int(np.ravel(observation)[1] > 0)


def problem_of(env, **more):
    usual = {"discount": 0.9, "operator": sc.Max()}
    return sc.adapters.gymnasium.problem(env, **usual, **more)


@pytest.mark.compiles
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_predict_gets_the_observation_of_the_environment(name):
    env, model = gymnasium.make(name), Model()
    problem = problem_of(env)
    answer = sc.evaluate(problem, model, budget=120)
    assert answer.interval[0] <= answer.value <= answer.interval[1]
    assert all(env.observation_space.contains(shown) for shown in model.seen)


@pytest.mark.compiles
def test_an_observation_is_what_the_step_showed():
    for env in (gymnasium.make("Acrobot-v1"), Doubled(gymnasium.make("CartPole-v1"))):
        problem = problem_of(env)
        rng = sc.jit.random.streams.stream(1)
        _, state, _ = problem.oracle(problem.initial_state, 1, rng)
        after, shown = problem.oracle.shown_last
        assert after is state
        assert np.array_equal(problem.oracle.observe(state), shown)


@pytest.mark.compiles
def test_an_observation_that_cannot_be_computed_is_refused():
    env = Tripled(gymnasium.make("CartPole-v1"))
    problem = problem_of(env, reward_range=(0.0, 1.0))
    with pytest.raises(sc.InvalidInput, match="shows in a state is not known to the"):
        sc.evaluate(problem, Model(), budget=120)
    assert sc.plan(problem, method="uct", budget=40).num_calls > 0


@pytest.mark.compiles
def test_predict_answers_in_the_actions_of_the_environment():
    pushes = [np.array([-2.0], np.float32), np.array([2.0], np.float32)]
    problem = problem_of(gymnasium.make("Pendulum-v1"), actions=pushes)

    class Push:
        strength = 2.0

        def predict(self, observation):
            push = self.strength if observation[1] > 0 else -2.0
            return np.array([push], np.float32)

    agent, model = sc.Agent(problem, Push()), Push()
    up, down = (0.5, 0.0), (-0.5, 0.0)  # angle, speed; the sine is the second number
    assert [agent.act(up), agent.act(down)] == [1, 0]
    model.strength = 0.3
    with pytest.raises(sc.InvalidInput, match="which is none of the 2 actions"):
        sc.Agent(problem, model).act(up)


@pytest.mark.compiles
def test_a_table_of_a_toy_text_needs_no_row_for_the_end_that_was_added():
    name = "gym:FrozenLake-v1,is_slippery=False"
    problem = sc.make(name, discount=0.5, operator="max")
    # right, right, down, down, down, right
    path = {0: 2, 1: 2, 2: 1, 6: 1, 10: 1, 14: 2}
    actions = np.array([path.get(s, 0) for s in range(16)])
    values = np.eye(4)[actions] * 0.7

    class Walker:
        def predict(self, observation, deterministic=False):
            return path[observation], None

    for policy in (actions, values, np.eye(4)[actions], path, Walker()):
        answer = sc.evaluate(problem, policy, budget=4000)
        assert answer.interval[0] <= 0.5**5 <= answer.interval[1]
        assert answer.value == pytest.approx(0.5**5, abs=0.01)
        assert sc.play(sc.Agent(problem, policy), episodes=2).mean_return == 1.0


# --- a key of all that an environment holds -----------------------------------


Pair = collections.namedtuple("Pair", "one two")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Held:
    def __init__(self, **fields):
        vars(self).update(fields)


class Slotted:
    __slots__ = ("__hidden", "shown")

    def __init__(self, shown, hidden):
        self.shown, self.__hidden = shown, hidden


class Named(dict):
    pass


def named(**fields):
    found = Named(a=1)
    vars(found).update(fields)
    return found


def pointing(which):
    players = [Held(score=0), Held(score=0)]
    return Held(players=players, turn=players[which])  # met before it is pointed at


def loop(turns):
    first = Held(turns=turns)
    first.back = first
    return first


DIFFERENT = [
    (1, 2),
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    ("1", 1),
    (np.int8(1), np.int64(1)),
    (np.zeros(4), np.zeros((2, 2))),
    (np.zeros(2, "i4"), np.zeros(2, "f4")),
    (np.array([1, None]), np.array([2, None])),
    ([1, 2], [2, 1]),
    ([1, 2], (1, 2)),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1: 0}, {"1": 0}),
    ({1, 2}, {1, 3}),
    (Colour.RED, Colour.BLUE),
    (Pair(1, 2), Pair(1, 3)),
    (Pair(1, 2), (1, 2)),
    (Slotted(1, 2), Slotted(1, 3)),
    (named(x=1), named(x=2)),
    (collections.deque([1]), [1]),
    (pointing(0), pointing(1)),
    (loop(1), loop(2)),
    (len, max),
    (int, float),
]


@pytest.mark.parametrize("one, other", DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_differs_has_another_key(one, other):
    assert whole(Held(x=one)) != whole(Held(x=other))
    assert whole(Held(x=one)) == whole(Held(x=deepcopy(one)))


def test_generators_and_left_out_names_are_no_part_of_the_key():
    rng = np.random.default_rng
    assert whole(Held(a=1, rng=rng(1))) == whole(Held(a=1, rng=rng(2)))
    out = frozenset(("b",))
    assert whole(Held(a=Held(b=1)), out) == whole(Held(a=Held(b=2)), out)


def test_methods_and_functions_are_told_apart():
    def adder(n):
        return lambda x: x + n

    one, two = Held(score=1), Held(score=2)
    one.call, two.call = one.__init__, two.__init__
    assert whole(one) != whole(two)
    assert whole(Held(f=adder(1))) != whole(Held(f=adder(2)))
    assert whole(Held(f=adder(1))) == whole(Held(f=adder(1)))


def chain(length):
    found = None
    for _ in range(length):
        found = Held(next=found)
    return found


@pytest.mark.parametrize(
    "value",
    [
        iter([1, 2]),
        itertools.count(),
        (n for n in range(3)),
        memoryview(b"ab"),
        np.ma.masked_array([1, 2], [True, False]),
        np.array([(1, None)], dtype=[("a", "i4"), ("b", object)]),
        {Held(): 1},
        {Held()},
        (lambda box: lambda: box)([1]),
        chain(5000),
    ],
    ids=range(10),
)
def test_what_cannot_be_looked_into_is_refused(value):
    with pytest.raises(HiddenContents, match=r"inner\.x holds a|too long to follow"):
        whole(Held(inner=Held(x=value)))


def test_memory_beside_the_fields_is_seen():
    assert shows_all(Held)
    assert shows_all(Slotted)
    assert not shows_all(type(iter([])))
    assert not shows_all(np.random.PCG64)


@pytest.mark.compiles
def test_a_key_is_the_same_in_another_process():
    held = [{"x", "y", "z"}, {"a": (1, 2.5)}, np.arange(3)]
    program = (
        "import numpy as np\n"
        "from smoothcruiser.adapters.gymnasium.whole import whole\n"
        "held = [{'x', 'y', 'z'}, {'a': (1, 2.5)}, np.arange(3)]\n"
        "print(whole(held).hex())"
    )
    there = run_python(program, PYTHONHASHSEED="1").stdout
    assert there.strip() == whole(held).hex()
