"""Every declaration through every door: it takes effect, or is refused by its name.

Laws: ``make(text, word=value)``, the parameter ``word=value`` of a name and the keyword of
an adapter's ``problem`` declare the same; what a problem cannot have is refused in a
sentence that has the word; ``"none"`` takes back; what was declared is rebuilt from the
spec. What adapters declare by themselves follows the environment's own parameters.
"""

import importlib.util
import json

import pytest

import smoothcruiser as sc
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
}
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
    "openspiel:tic_tac_toe": ({}, "pyspiel", 9),
    "openspiel:pig": (CHANCE, "pyspiel", 2),
    "pettingzoo:tictactoe_v3": ({}, "pettingzoo", 9),
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
