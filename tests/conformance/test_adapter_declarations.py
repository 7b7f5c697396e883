"""Every declaration through every door: it takes effect, or is refused by its name.

Laws: ``make(text, word=value)``, the parameter ``word=value`` of a name and the keyword of
an adapter's ``problem`` declare the same; what a problem cannot have is refused in a
sentence that has the word; ``"none"`` takes back; what was declared is rebuilt from the
spec. What adapters declare by themselves follows the environment's own parameters.
"""

import importlib.util
import json
import random
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.adapter_protocol import load_adapters
from smoothcruiser.problem.declarations import DECLARATIONS, declare
from smoothcruiser.problem.make import from_spec, is_spec

pytestmark = pytest.mark.compiles


def step(state, action, rng):
    return 1.0 if state == 3 else 0.0, state + 1, state == 3


FACTS = {"num_actions": 2, "operator": sc.Max(), "terminal": True, "initial_state": 0}
OWN = sc.MDP(step, discount=0.9, **FACTS)


def own(discount=0.9):
    return sc.MDP(step, discount=discount, **FACTS)


def parity(state):
    return hash(state) % 2


def low(state):
    return -50.0


def high(state):
    return 50.0


HERE = __name__
# by word: the keyword's value, and how a name writes it
VALUES = {
    "payoffs": ("end", "end"),
    "total_reward_range": ((-40.0, 40.0), "[-40.0,40.0]"),
    "episodes_end": ((90, 0.5), "[90,0.5]"),
    "value_bounds": ((-30.0, 30.0), "[-30.0,30.0]"),
    "min_probability": (1e-9, "1e-9"),
    "key": (parity, f"{HERE}:parity"),
    "horizon": (12, "12"),
    "deterministic": (True, "true"),
    "minimize": (True, "true"),
}
TWO_PLAYERS = {"minimize": "two, one of whom minimizes"}
NUMBERED = {"key": "tell themselves apart; drop key="}
CHANCE = {"deterministic": "deterministic=True needs one|has chance nodes"}
ENDLESS = {"payoffs": "never end; drop it", "episodes_end": "never end; drop it"}
# doors: why a word is refused there, the library, and the number of actions
DOORS = {
    "chain": (NUMBERED | ENDLESS, None, 2),
    "garnet": (NUMBERED | CHANCE | ENDLESS, None, 3),
    f"{HERE}:OWN": ({}, None, 2),
    f"{HERE}:own": ({}, None, 2),
    "gym:FrozenLake-v1": (NUMBERED | CHANCE, "gymnasium", 4),
    "gym:CliffWalking-v1": (NUMBERED | {"payoffs": "drop payoffs="}, "gymnasium", 4),
    "gym:CartPole-v1": ({}, "gymnasium", 2),
    "gym:Blackjack-v1": ({}, "gymnasium", 2),
    "openspiel:tic_tac_toe": (TWO_PLAYERS, "pyspiel", 9),
    "openspiel:pig": (CHANCE | TWO_PLAYERS, "pyspiel", 2),
    "pettingzoo:tictactoe_v3": (TWO_PLAYERS, "pettingzoo", 9),
    "rddl:SysAdmin_MDP_ippc2011,1": (ENDLESS, "rddlrepository", 11),
}


def built(door, more=(), **words):
    library = DOORS[door][1]
    if library is not None and importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    comma = "," if ":" in door else ":"
    text = f"{door}{comma}{','.join(more)}" if more else door
    operator = None if door.startswith(HERE) else "max"
    return sc.make(text, discount=0.9, operator=operator, **words)


def written(words):
    return [
        f"{word}={VALUES[word][1] if word in VALUES else json.dumps(value)}"
        for word, value in words.items()
    ]


@pytest.mark.parametrize("door", DOORS)
def test_each_declaration_takes_effect_or_is_refused_by_name(door):
    refused = DOORS[door][0]
    words = {k: value for k, (value, _) in VALUES.items() if k not in refused}
    assert words.keys() | refused.keys() | {"actions", "value_gap"} == set(
        DECLARATIONS
    )
    words["actions"] = [f"a{i}" for i in range(DOORS[door][2])]
    problem = built(door, **words)
    spec = json.loads(json.dumps(problem.spec))
    assert is_spec(spec)
    if door == "garnet":  # has a number of that name
        del words["actions"]
    again = from_spec(spec) if DOORS[door][1] in (None, "pyspiel") else problem
    for each in (problem, again, built(door, written(words))):
        for word, value in words.items():
            has = each.oracle.key if word == "key" and "Blackjack" in door else None
            expected = tuple(value) if word == "actions" else value
            assert (has or getattr(each, word)) == expected, word


@pytest.mark.parametrize(
    "door, word", [(door, word) for door in DOORS for word in DOORS[door][0]]
)
def test_what_makes_no_sense_is_refused_in_its_word(door, word):
    value, text = VALUES[word]
    for more, words in (((), {word: value}), ((f"{word}={text}",), {})):
        with pytest.raises(sc.InvalidInput, match=DOORS[door][0][word]) as caught:
            built(door, more, **words)
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [{"payoffs": "end"}, {"episodes_end": (7, 0.5)}, {"horizon": 5}, {"key": parity}],
)
def test_objects_take_the_same_words(words):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1")
    facts = {"discount": 0.9, "operator": sc.Max()}
    problem = sc.adapters.gymnasium.problem(env, **facts, **words)
    agent = sc.Agent(env, "uct", budget=50, **facts, **words)
    for name, value in words.items():
        for each in (problem, agent.problem):
            assert name == "key" or getattr(each, name) == value
    with pytest.raises(sc.InvalidInput, match="has no option 'payofs'"):
        sc.adapters.gymnasium.problem(env, **facts, payofs="end")


class TestWords:
    def test_none_takes_back(self):
        pytest.importorskip("gymnasium")
        assert built("gym:FrozenLake-v1").payoffs == "end"
        assert built("gym:FrozenLake-v1", ["payoffs=none"]).payoffs == "every step"
        assert built("gym:Blackjack-v1", episodes_end="none").episodes_end is None

    def test_functions_bound_values_by_name(self):
        bounds = f'value_bounds=["{HERE}:low","{HERE}:high"]'
        problem = built(f"{HERE}:OWN", [bounds, "value_gap=100"])
        assert problem.value_bounds == (low, high)
        with pytest.raises(sc.InvalidInput, match="names no function"):
            built(f"{HERE}:OWN", ["key=no_such_module:f"])
        assert built(f"{HERE}:OWN", key=lambda s: s).spec is None

    def test_one_word_is_given_once(self):
        with pytest.raises(sc.InvalidInput, match=r"horizon is declared in .* drop o"):
            built("chain", ["horizon=3"], horizon=4)

    def test_another_horizon_drops_what_held_for_the_old_one(self):
        # 1, -1: no total of whole plays leaves 0; cut after one step it is 1
        problem = sc.MDP(step, discount=0.9, total_reward_range=(0.0, 0.5), **FACTS)

        assert declare(problem, {"horizon": 3}).total_reward_range is None
        kept = declare(problem, {"min_probability": 0.5})
        assert kept.total_reward_range == (0.0, 0.5)

    def test_discount_one_with_a_declaration(self):
        problem = sc.make(f"{HERE}:OWN", discount=1, payoffs="end")
        assert problem.facts.value_bounds() == (0.0, 1.0)
        with pytest.raises(sc.InvalidInput, match="takes no 'size'"):
            sc.make(f"{HERE}:OWN,size=3")

    def test_a_problem_of_other_words_names_them(self):
        with pytest.raises(sc.InvalidInput, match="did you mean payoffs="):
            sc.make("chain", discount=0.5, operator="max", payoff="end")


class TestKnown:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("gymnasium")

    @pytest.mark.parametrize(
        "text, bounds",
        [
            ("gym:FrozenLake-v1", (0.0, 1.0)),
            ("gym:FrozenLake-v1,access=state", (0.0, 1.0)),
            ("gym:FrozenLake-v1,reward_schedule=[10,-1,0]", (-1.0, 10.0)),
            ("gym:Blackjack-v1", (-1.0, 1.0)),
            ("gym:Blackjack-v1,natural=true,sab=false", (-1.0, 1.5)),
            ("gym:CartPole-v1,sutton_barto_reward=true", (-1.0, 0.0)),
        ],
    )
    def test_only_ends_pay(self, text, bounds):
        problem = sc.make(text, discount=0.95, operator="max")
        assert problem.payoffs == "end"
        assert problem.facts.value_bounds() == bounds

    def test_parameters_that_pay_on_the_way_declare_nothing_false(self):
        way = "gym:FrozenLake-v1,reward_schedule=[10,-1,-0.5]"
        for text in (way, f"{way},access=state", "gym:CartPole-v1"):
            assert sc.make(text, discount=0.9, operator="max").payoffs == "every step"

    def test_taxi_wins_twenty_at_the_most(self):
        taxi = sc.make("gym:Taxi-v4", discount=0.95, operator="max")
        assert taxi.facts.value_bounds()[1] == 20.0
        cliff = sc.make("gym:CliffWalking-v1", discount=0.95, operator="max")
        low, high = cliff.facts.value_bounds()
        assert high == -1.0
        assert low < -100.0

    def test_wrappers_and_subclasses_are_other_worlds(self):
        import gymnasium
        from gymnasium.envs.toy_text.blackjack import BlackjackEnv

        env = gymnasium.make("Blackjack-v1")
        wrapper = gymnasium.wrappers
        mine = type("Mine", (BlackjackEnv,), {})
        for world, payoffs in (
            (env, "end"),
            (wrapper.TransformObservation(env, lambda x: x, None), "end"),
            (wrapper.TransformReward(env, lambda r: r + 1), "every step"),
            (mine(), "every step"),
        ):
            problem = sc.adapters.gymnasium.problem(
                world, discount=0.9, operator=sc.Max(), reward_range=(0.0, 2.5)
            )
            assert problem.payoffs == payoffs

    def test_no_hand_of_blackjack_lasts_longer(self):
        """The longest hand: twenty aces after two make 22."""
        from gymnasium.envs.toy_text import blackjack

        hand, hits = [1, 1], 0
        while not blackjack.is_bust(hand):
            hand, hits = [*hand, 1], hits + 1
        hand_problem = sc.make("gym:Blackjack-v1", discount=0.9, operator="max")
        assert hand_problem.episodes_end == (hits, 1.0)


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

    page = Path(__file__).resolve().parents[2] / "docs" / "worlds.md"
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
