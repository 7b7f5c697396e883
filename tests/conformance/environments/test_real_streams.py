"""Planning does not change what the real world draws, for each adapter.

Laws: an episode with a plan before every step is the episode without them, to the last
bit; the generators that a process shares (``random``, ``np.random``) are left as they
were, also when a problem is built by name; every adapter is in the table below.

What is read of a real world here is what it shows to its user. Other files look at what
adapters hold (``test_gymnasium_live``, ``test_pettingzoo``, ``test_rddl``).
"""

import random
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.adapter_protocol import load_adapters

pytestmark = pytest.mark.compiles
STEPS = 8
ANY = {"discount": 0.5, "operator": sc.Max()}


def shared():
    """The state of the generators that all of a process shares."""
    words = np.random.get_state()  # noqa: NPY002
    return random.getstate(), words[1].tolist(), words[2:]


# --- one real world for each adapter: its episodes, with or without plans ---------------


def gymnasium_episodes(plans, name, reward_range=None, **made):
    import gymnasium

    from smoothcruiser.adapters.gymnasium.tables import register_family

    register_family(name)
    env = gymnasium.make(name, **made)
    env.reset(seed=3)
    env.action_space.seed(4)
    agent = None
    for k in range(STEPS):
        if plans:
            agent = agent or sc.Agent(
                env, "uct", budget=20, reward_range=reward_range, **ANY
            )
            agent.act()
        seen, reward, ended, cut, _ = env.step(k % env.action_space.n)
        yield repr(seen), reward, ended, cut
        if ended or cut:
            yield repr(env.reset()[0])  # the next episode: more is drawn
    yield repr(env.action_space.sample())


def pettingzoo_episodes(plans, _):
    import pettingzoo_worlds

    game = pettingzoo_worlds.Dice(30)
    game.reset(seed=3)
    told = {"reward_range": (-1.0, 1.0), "perfect_information": True}
    for _ in range(STEPS):
        if plans:
            sc.Agent(game, "uct", budget=20, **told, **ANY).act()
        game.step(2)
        yield game.pile
        if game.pile <= 0:
            break


def dm_env_episodes(plans, _):
    from dm_env import TimeStep

    page = Path(__file__).resolve().parents[3] / "docs" / "worlds.md"
    code = (
        page.read_text().split("```python\nimport dm_env")[1].split("env = Slope")[0]
    )
    space = {}
    exec(f"import dm_env{code}", space)
    yield from _time_steps(plans, space["Slope"](), TimeStep)


def bsuite_episodes(plans, _):
    from bsuite.environments.catch import Catch  # what catch/0 loads, with a seed
    from dm_env import TimeStep

    yield from _time_steps(plans, Catch(seed=3), TimeStep, reward_range=(-1.0, 1.0))


def _time_steps(plans, env, kind, **told):
    step = env.reset()
    for k in range(3 * STEPS):
        assert isinstance(step, kind)
        yield repr(step)
        if step.last():
            step = env.reset()
            continue
        if plans and k % 3 == 0:
            sc.Agent(env, "uct", budget=20, **told, **ANY).act()
        step = env.step(k % env.action_spec().num_values)


def openspiel_episodes(plans, name):
    import pyspiel

    from smoothcruiser.adapters import openspiel

    game, chance = pyspiel.load_game(name), np.random.RandomState(3)
    problem = openspiel.problem(game, horizon=30, **ANY)
    state = game.new_initial_state()
    for k in range(5 * STEPS):
        if state.is_terminal():
            break
        if state.is_chance_node():
            moves, shares = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(chance.choice(moves, p=shares)))
            continue
        if plans:
            sc.plan(problem, state, method="uct", budget=20)
        legal = state.legal_actions()
        state.apply_action(legal[k % len(legal)])
        yield str(state), state.history()


def rddl_episodes(plans, name):
    from pyRDDLGym.core.env import RDDLEnv

    from smoothcruiser.adapters.rddl.reading import domains

    folder = domains()[name]
    env = RDDLEnv(str(folder / "domain.rddl"), str(folder / "instance1.rddl"))
    env.reset(seed=3)
    problem = sc.make(f"rddl:{name},1")
    for k in range(STEPS):
        if plans:
            sc.plan(problem, problem.oracle.read(env), method="uct", budget=20)
        _, reward, *_ = env.step(problem.oracle.actions[k % 3])
        yield reward, problem.oracle.read(env)


def jax_episodes(plans, name):
    import jax

    problem, library = sc.make(name, **ANY), name.partition(":")[2]
    if name.startswith("pgx"):
        import pgx

        env = pgx.make(library)
        state, step = env.init(jax.random.key(3)), env.step
    else:
        import gymnax

        env, params = gymnax.make(library)
        state = env.reset_env(jax.random.key(3), params)[1]

        def step(state, action, key):
            return env.step_env(key, state, action, params)[1]

    for k in range(STEPS):
        if plans:
            sc.plan(problem, state, method="uct", budget=20)
        legal = problem.legal_actions(problem.start(state))
        state = step(state, legal[k % len(legal)], jax.random.key(k))
        yield problem.start(state).words


ALE = {"repeat_action_probability": 0.0, "reward_range": (-1.0, 1.0)}
NATURAL = {"reward_range": (-1.0, 1.5)}
OBSTACLES = "MiniGrid-Dynamic-Obstacles-5x5-v0"
# the adapter, its modules, its world's episodes, their arguments
WORLDS = [
    ("gym", "gymnasium", gymnasium_episodes, ("FrozenLake-v1",), {}),
    ("gym", "gymnasium", gymnasium_episodes, ("Blackjack-v1",), NATURAL),
    ("gym", "minigrid", gymnasium_episodes, (OBSTACLES,), {}),
    ("gym", "ale_py", gymnasium_episodes, ("ALE/Pong-v5",), ALE),
    ("pettingzoo", "pettingzoo", pettingzoo_episodes, ("Dice",), {}),
    ("dm_env", "dm_env", dm_env_episodes, ("Slope",), {}),
    ("bsuite", "bsuite", bsuite_episodes, ("catch/0",), {}),
    ("openspiel", "pyspiel", openspiel_episodes, ("pig",), {}),
    ("rddl", "pyRDDLGym", rddl_episodes, ("SysAdmin_MDP_ippc2011",), {}),
    ("gymnax", "gymnax", jax_episodes, ("gymnax:FourRooms-misc",), {}),
    ("pgx", "pgx", jax_episodes, ("pgx:2048",), {}),
]
# files of tables: there is no simulator that draws
TABLES = {"umb", "npz", "prism", "jani"}


@pytest.mark.parametrize(
    "module, episodes, named, told",
    [each[1:] for each in WORLDS],
    ids=[f"{each[0]}-{each[3][0]}" for each in WORLDS],
)
def test_the_real_world_draws_the_same_with_plans_and_without(
    module, episodes, named, told
):
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    lives, left = [], []
    for plans in (False, True):
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        lives.append(list(episodes(plans, *named, **told)))
        left.append(shared())
    assert len(lives[0]) > 2
    assert lives[0] == lives[1]
    assert left[0] == left[1]


def test_a_table_draws_nothing_from_generators_that_are_shared(tmp_path):
    np.savez(
        tmp_path / "coin.npz",
        indptr=[0, 2, 3, 4],
        indices=[1, 2, 1, 2],
        data=[0.5, 0.5, 1.0, 1.0],
        legal=np.ones((3, 1), dtype=bool),
        goal=np.array([False, True, False]),
        initial=0,
        maximize=True,
    )
    before = shared()
    problem = sc.make(f"npz:{tmp_path / 'coin.npz'}", discount=0.9)
    sc.plan(problem, method="uct", budget=50)
    assert shared() == before


def test_every_adapter_is_in_the_table():
    ours = {
        name
        for name, adapter in load_adapters().items()
        if type(adapter).__module__.startswith("smoothcruiser.adapters.")
    }
    assert {each[0] for each in WORLDS} | TABLES == ours
