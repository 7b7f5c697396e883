"""A live environment is somewhere, and planning leaves it there.

Laws: the problem starts where the environment is; the environment itself is
never stepped, reset or reseeded; where MuJoCo and ALE are installed, the
adapter's steps are the environment's own.
"""

import pickle

import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream

gym = pytest.importorskip("gymnasium")
from gymnasium_worlds import HERE, EzWalk, moved  # noqa: E402

from smoothcruiser.adapters.gymnasium.copies import contents  # noqa: E402

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
