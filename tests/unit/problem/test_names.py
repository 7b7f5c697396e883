"""Names of problems, specs, labels of actions, and the built-in problems."""

import dataclasses
import json
import re
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.adapter_protocol import ADAPTERS
from smoothcruiser.problem.arguments import read_parameters, split_name, split_pieces
from smoothcruiser.problem.make import from_spec, is_spec
from smoothcruiser.problem.zoo import ZOO


@pytest.mark.compiles
@pytest.mark.parametrize(
    "text, what, found",
    [
        ("FrozenLake-v1,map_name=8x8", "FrozenLake-v1", {"map_name": "8x8"}),
        ("Pendulum-v1,actions=[-2,0,2]", "Pendulum-v1", {"actions": [-2, 0, 2]}),
        ("x,a=[[1,2],[3]],b=(1,2)", "x", {"a": [[1, 2], [3]], "b": (1, 2)}),
        ('x,desc=["S,F"],seed=3', "x", {"desc": ["S,F"], "seed": 3}),
        ("x,text='a,b=c'", "x", {"text": "a,b=c"}),
        ("x,name=it's", "x", {"name": "it's"}),
        ("x,a=True, b = false ,c=null", "x", {"a": True, "b": False, "c": None}),
        ('x,m={"a":[1,2]}', "x", {"m": {"a": [1, 2]}}),
        ("x,m=[a,b]", "x", {"m": "[a,b]"}),  # no literal: a word
        ("breakthrough(rows=4,columns=4)", "breakthrough(rows=4,columns=4)", {}),
        ("go(size=5),merge=history", "go(size=5)", {"merge": "history"}),
        ("module:Class,n=2", "module:Class", {"n": 2}),
        ("x,", "x", {}),
    ],
)
def test_what_a_name_says(text, what, found):
    assert split_name(text) == (what, found)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "text, said",
    [
        ("x,a=(1]", "must match"),
        ("x,a='b", "must match"),
        ("go(size=5", "must match"),
        ("x,=5", "written name=value"),
        ("x,n=", "written name=value"),
        ("x,n=1,n=2", "given twice"),
    ],
)
def test_what_cannot_be_read(text, said):
    with pytest.raises(sc.InvalidInput) as caught:
        split_name(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.compiles
@given(st.text(alphabet="ab=,[](){}'\" ", max_size=12))
def test_no_text_is_lost(text):
    try:
        found = split_pieces(text)
    except sc.InvalidInput:
        return
    assert ",".join(found) == text


VALUES = st.recursive(
    st.integers() | st.booleans() | st.text(alphabet="ab,=[ '", min_size=1),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.compiles
@given(st.dictionaries(st.sampled_from(["n", "seed", "map"]), VALUES))
def test_python_values_survive(values):
    text = ",".join(f"{name}={value!r}" for name, value in values.items())
    assert read_parameters(text) == values


class TestGymnasium:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("gymnasium")

    @pytest.mark.compiles
    def test_a_map(self):
        text = 'gym:FrozenLake-v1,desc=["SF","FG"],is_slippery=false'
        lake = sc.make(text, discount=0.5, operator="max")
        assert sc.plan(lake).value == 0.5

    @pytest.mark.parametrize(
        "text",
        [
            "gym:gymnasium.envs.classic_control.cartpole:CartPoleEnv",
            "gym:gymnasium.envs.classic_control:CartPole-v1",
        ],
    )
    def test_a_class_of_a_module_and_an_id_of_one(self, text):
        assert sc.make(text, discount=0.5, operator="max").num_actions == 2

    @pytest.mark.parametrize(
        "text, said",
        [
            ("gym:no_such_module:Env", "ModuleNotFoundError"),
            ("gym:math:sqrt", "TypeError"),
            ("gym:collections:OrderedDict", "got OrderedDict"),
            ("gym:gymnasium:NoSuchEnv-v0", "NoSuchEnv"),
        ],
    )
    def test_what_is_no_environment(self, text, said):
        with pytest.raises(sc.InvalidInput) as caught:
            sc.make(text, discount=0.5, operator="max")
        assert said in str(caught.value)


# --- what messages propose ----------------------------------------------------


class NoEnvironment:
    pass


def refusals():
    """Requests that are refused, each with a proposal in its message."""
    options = {"discount": 0.9, "temperature": 0.1}
    yield lambda: sc.make("")
    yield lambda: sc.make("chian", **options)
    yield lambda: sc.make("chain", temperature=0.1)
    for name in ZOO:
        yield lambda name=name: sc.make(f"{name}:wrong=1", **options)
    for name in ADAPTERS:
        yield lambda name=name: sc.make(f"{name}:", **options)
        yield lambda name=name: sc.make(f"{name}:x")
        yield lambda name=name: sc.make(f"{name}:no_such_thing,a=[1", **options)
    gymnasium = pytest.importorskip("gymnasium")
    yield lambda: sc.adapters.gymnasium.problem(
        NoEnvironment(), discount=0.9, operator=sc.Max()
    )
    yield lambda: sc.make("gym:Pendulum-v1", **options)
    yield lambda: sc.make("gym:CartPole-v1,access=wrong", **options)
    yield lambda: sc.make("gym:CartPole-v1,access=tables", **options)
    yield lambda: sc.make("gym:CartPole-v1,reward_low=0", **options)
    env, usual = gymnasium.make("CartPole-v1"), {"discount": 0.9, "operator": sc.Max()}
    yield lambda: sc.adapters.gymnasium.problem(env, reward=lambda x: x, **usual)
    pytest.importorskip("pyspiel")
    yield lambda: sc.make("openspiel:quoridor,merge=observation", **options)


def messages():
    found = []
    for request in refusals():
        with pytest.raises(sc.SmoothcruiserError) as caught:  # or a missing extra
            request()
        # what was given is repeated, not proposed
        found.append(str(caught.value).replace("'no_such_thing,a=[1'", ""))
    return found


CALL = re.compile(r"\bmake\(('[^']*'(?:, \w+=[^,)]+)*)\)")
PARAMETER = re.compile(r"\b(\w+)=(\[[^]]*\]|\([^)]*\)|'[^']*'|[\w.-]+)")
NAME = re.compile(rf"\b(?:{'|'.join([*ZOO, *ADAPTERS])}):[^\s'\"`;]+[^\s'\"`;.,)]")


@pytest.mark.compiles
def test_whatever_is_proposed_can_be_read():
    texts = messages()
    calls = [call for text in texts for call in CALL.findall(text)]
    assert len(calls) >= 3
    for call in calls:
        if "my_module" in call:
            continue  # stands for what the reader fills in
        try:
            made = eval(f"make({call})", {"make": sc.make})
        except sc.MissingExtra:
            continue  # a library that is not installed here
        assert isinstance(made, sc.Problem), call
    found = [pair for text in texts for pair in PARAMETER.findall(text)]
    assert len(found) >= 15
    for name, value in found:
        if "…" in value or value.startswith("(low"):
            continue  # stands for what the reader fills in
        (read,) = read_parameters(f"{name}={value}").items()
        assert read[0] == name
        assert read[1] != value or value[0] not in "[('", (name, value)
    for text in texts:
        for name in NAME.findall(text.partition("got")[0]):
            prefix, _, rest = name.partition(":")
            split_name(rest, getattr(ADAPTERS.get(prefix), "positional", ()))


@pytest.mark.compiles
def test_parameters_of_the_zoo_are_proposed_as_they_are_read():
    for name, entry in ZOO.items():
        if not entry.defaults:
            continue
        with pytest.raises(sc.InvalidInput) as caught:
            sc.make(f"{name}:wrong=1", discount=0.9, temperature=0.1)
        text = re.search(r"defaults are (.*)\.$", str(caught.value)).group(1)
        assert read_parameters(text) == entry.defaults
        sc.make(f"{name}:{text}", discount=0.9, temperature=0.1)


# --- specs --------------------------------------------------------------------


MODEL = sc.tabular(
    [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]],
    [[0.0, 1.0], [0.5, 0.25]],
    discount=0.5,
    operator=sc.Max(),
)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "text, options",
    [
        ("chain:n=4", {"discount": 0.3, "temperature": 2.0, "operator": None}),
        ("garnet:seed=3", {"discount": 0.9, "operator": "max"}),
        (f"{__name__}:MODEL", {}),
        (f"{__name__}:MODEL", {"temperature": 0.5, "operator": "sparsemax"}),
    ],
)
def test_a_problem_is_rebuilt_from_its_spec(text, options):
    problem = sc.make(text, **options)
    again = from_spec(json.loads(json.dumps(problem.spec)))
    usual = dict.fromkeys(("discount", "temperature", "operator"))
    assert again.spec == problem.spec == {"problem": text, **usual, **options}
    assert again.facts == problem.facts
    assert again.name == problem.name
    for action in range(problem.num_actions):
        samples = [p.oracle(0, action, stream(1, action)) for p in (problem, again)]
        assert samples[0] == samples[1]


@pytest.mark.compiles
def test_an_operator_object_is_kept_by_name_only():
    """Whoever rebuilds such a problem has to compare its facts."""
    problem = sc.make("chain:n=5", discount=0.2, operator=sc.Sparsemax(3.0))
    assert problem.spec["operator"] == "sparsemax"
    with pytest.raises(sc.InvalidInput, match="needs a temperature"):
        from_spec(problem.spec)


# --- labels of actions --------------------------------------------------------


def step(state, action, rng):
    return float(rng.random() < 0.3 + 0.4 * action), 1 - state


def outcomes(state, action):
    p = 0.3 + 0.4 * action
    return [(p, 1.0, 1 - state), (1.0 - p, 0.0, 1 - state)]


def shop(**changes):
    return mdp(step, **({"num_actions": None, "actions": ["wait", "buy"]} | changes))


@pytest.mark.compiles
def test_labels_count_the_actions():
    assert shop().num_actions == 2
    assert shop().actions == ("wait", "buy")
    assert shop(num_actions=2).actions == ("wait", "buy")
    usual = {"discount": 0.5, "operator": sc.Max()}
    moves = ("up", "down", "stay")
    assert sc.Game(step, player=len, actions=moves, **usual).num_actions == 3
    rows = [[[1.0], [1.0]]], [[0.0, 1.0]]
    assert (
        sc.plan(sc.tabular(*rows, actions=["no", "yes"], **usual)).action_label
        == "yes"
    )
    with pytest.raises(sc.InvalidInput, match="all 3 actions, got 2 names"):
        shop(num_actions=3)
    with pytest.raises(sc.InvalidInput, match="num_actions must be a whole number"):
        shop(actions=None)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "wrong, said",
    [
        ("ab", "with a printable word"),
        ([], "with a printable word"),
        (["wait", " "], "with a printable word"),
        (["wait", "\x1b[31m"], "with a printable word"),
        ([0, 1], "with a printable word"),
        (["buy", "buy"], "'buy' is there more than once"),
    ],
)
def test_what_names_nothing_is_refused(wrong, said):
    for make in (
        lambda: shop(actions=wrong),
        lambda: sc.make("chain:n=3", discount=0.5, temperature=1, actions=wrong),
    ):
        with pytest.raises(sc.InvalidInput, match="actions must") as caught:
            make()
        assert said in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


METHODS = {
    "auto": {"epsilon": 0.5, "delta": 0.1},
    "smoothcruiser": {"epsilon": 0.5, "delta": 0.1},
    "certified": {"epsilon": 0.5, "delta": 0.1},
    "exact": {},
    "uct": {"budget": 300},
}


@pytest.mark.compiles
@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers_with_them(method):
    named = shop(outcomes=outcomes if method == "exact" else None)
    plain = dataclasses.replace(named, actions=None)
    answers = [sc.plan(p, method=method, **METHODS[method]) for p in (named, plain)]
    assert answers[0].labels == ("wait", "buy")
    assert answers[0].action_label == "buy"
    assert answers[0].to_dict()["labels"] == ["wait", "buy"]
    assert answers[0].to_dict()["action_label"] == "buy"
    assert answers[1].labels is None
    assert answers[1].action_label == "1"
    timing = {"seconds": 0.0, "compile_seconds": 0.0, "labels": None}
    same = [dataclasses.replace(answer, **timing) for answer in answers]
    assert same[0] == same[1]


@pytest.mark.compiles
def test_other_ways_to_an_answer_have_them_too():
    problem = shop()
    many = sc.plan_many(problem, [0, 1], epsilon=0.5, delta=0.1, method="certified")
    assert [answer.action_label for answer in many] == ["buy", "buy"]
    ready = sc.prepare(problem, epsilon=0.5, delta=0.1, method="smoothcruiser")
    assert ready.run().labels == ("wait", "buy")
    assert sc.Certified(problem, delta=0.1).query(0, epsilon=0.5).action_label == "buy"
    value = sc.evaluate(problem, lambda state: (0.0, 1.0), budget=1000)
    assert value.labels == ("wait", "buy")
    ended = dataclasses.replace(problem, terminal=lambda state: state == 0)
    assert sc.plan(ended, method="uct").labels == ("wait", "buy")
    assert sc.plan(ended, method="uct").action_label is None


@pytest.mark.compiles
def test_the_moves_of_the_zoo_go_where_their_names_say():
    grid = sc.make("gridworld:n=7", discount=0.5, operator="max")
    ahead = {"left": -1, "right": 1, "up": -7, "down": 7}
    for action, label in enumerate(grid.actions):
        likely = max(grid.outcomes(8, action))[2]  # far from the wall
        assert likely == 8 + ahead[label]
    lake = sc.make("frozen-lake", discount=1.0, operator="max")
    ahead = {"left": -1, "right": 1, "up": -8, "down": 8}
    for action, label in enumerate(lake.actions):
        assert lake.outcomes(9, action)[0][2] == 64 + 9 + ahead[label]
    sail = sc.make("sailing:n=4", discount=1.0, operator="max")
    ahead = {"north": (0, 1), "south-east": (1, -1), "west": (-1, 0)}
    for label, (dx, dy) in ahead.items():
        there = sail.outcomes((1 * 4 + 1) * 8, sail.actions.index(label))[0][2] // 8
        assert divmod(there, 4) == (1 + dx, 1 + dy)


@pytest.mark.compiles
def test_a_spec_rebuilds_them():
    problem = sc.make(
        "garnet:actions=2", discount=0.5, temperature=1, actions=["a", "b"]
    )
    assert problem.actions == ("a", "b")
    spec = json.loads(json.dumps(problem.spec))
    assert is_spec(spec)
    assert from_spec(spec).actions == ("a", "b")
    assert not is_spec({**spec, "actions": "ab"})
    assert not is_spec({**spec, "actions": [1, 2]})
    assert "actions" not in sc.make("chain", discount=0.5, temperature=1).spec


@pytest.mark.compiles
def test_a_resumed_run_has_the_present_labels(tmp_path):
    store = tmp_path / "runs.db"
    options = {"epsilon": 0.4, "delta": 0.1, "method": "smoothcruiser"}
    first = sc.plan(shop(), store=store, **options)
    again = sc.resume(first.run, store, shop(actions=["hold", "order"]))
    assert again.labels == ("hold", "order")
    assert again.value == first.value


class Speaking:
    """A step whose actions have names that depend on the state."""

    def __init__(self, labels):
        self.labels = labels

    def __call__(self, state, action, rng):
        return 0.5, 1 - state

    def label(self, state, action):
        return self.labels[state][action]


@pytest.mark.compiles
def test_an_oracle_may_name_actions_by_state():
    oracle = Speaking({0: ["go", None], 1: [None, None], 2: {}, 3: [5, ""]})
    problem = sc.MDP(oracle, num_actions=2, discount=0.5, operator=sc.Max())
    assert problem.labels(0) == ("go", "1")
    for unnamed in (1, 2, 3):  # none, an error, no words
        assert problem.labels(unnamed) is None
    assert dataclasses.replace(problem, actions=["a", "b"]).labels(0) == ("a", "b")


# --- built-in problems, by theory, section 2, item 7 --------------------------


def zoo_outcomes(problem, state, action):
    """Next state -> (probability, reward)."""
    return {z: (p, r) for p, r, z in problem.tables.outcomes(state, action)}


def grid(n):
    problem = sc.make(f"gridworld:n={n}", discount=0.2, temperature=10)
    return problem, lambda row, column: row * n + column


# --- definitions --------------------------------------------------------------


def test_chain():
    """Action 0 left (stays at 0), 1 right, reward 1 on n-2 -> n-1 only, the
    last state loops.
    """
    problem = sc.make("chain:n=4", discount=0.2, temperature=10)
    assert problem.start() == 0
    assert zoo_outcomes(problem, 0, 0) == {0: (1.0, 0.0)}
    assert zoo_outcomes(problem, 2, 0) == {1: (1.0, 0.0)}
    assert zoo_outcomes(problem, 1, 1) == {2: (1.0, 0.0)}
    assert zoo_outcomes(problem, 2, 1) == {3: (1.0, 1.0)}
    assert (
        zoo_outcomes(problem, 3, 0) == zoo_outcomes(problem, 3, 1) == {3: (1.0, 0.0)}
    )
    assert not problem.facts.terminals


def test_grid_moves():
    """A valid move succeeds with 0.75, the rest is split over the other valid
    neighbours; an invalid move stays.
    """
    problem, at = grid(5)
    left, right, up, down = range(4)
    # The corner (0, 0) has two neighbours.
    assert zoo_outcomes(problem, at(0, 0), right) == {
        at(0, 1): (0.75, 0.0),
        at(1, 0): (0.25, 0.0),
    }
    assert zoo_outcomes(problem, at(0, 0), left) == {at(0, 0): (1.0, 0.0)}
    assert zoo_outcomes(problem, at(0, 0), up) == {at(0, 0): (1.0, 0.0)}
    # The wall is column 2, open at row 2.
    assert zoo_outcomes(problem, at(1, 1), right) == {at(1, 1): (1.0, 0.0)}
    through = zoo_outcomes(problem, at(2, 1), right)
    assert through[at(2, 2)] == (0.75, 0.0)
    assert sorted(through) == sorted([at(2, 2), at(1, 1), at(3, 1), at(2, 0)])
    assert through[at(2, 0)][0] == pytest.approx(0.25 / 3.0)
    # In the gap only left and right are valid.
    assert zoo_outcomes(problem, at(2, 2), left) == {
        at(2, 1): (0.75, 0.0),
        at(2, 3): (0.25, 0.0),
    }
    assert zoo_outcomes(problem, at(2, 2), down) == {at(2, 2): (1.0, 0.0)}


def test_grid_rewards_every_arrival_in_the_far_corner():
    problem, at = grid(5)
    corner = at(4, 4)
    assert zoo_outcomes(problem, at(3, 4), 3)[corner] == (0.75, 1.0)
    # an invalid move there stays, and arrives
    assert zoo_outcomes(problem, corner, 1) == {corner: (1.0, 1.0)}
    assert zoo_outcomes(problem, corner, 0) == {
        at(4, 3): (0.75, 0.0),
        at(3, 4): (0.25, 0.0),
    }
    assert not problem.facts.terminals
    assert problem.start() == 0


@pytest.mark.parametrize(
    "name",
    [
        "garnet:states=12,actions=4,branching=5,seed=7",
        "random-game:states=12,actions=4,branching=5,seed=7",
    ],
)
def test_random_problems_have_the_branching_asked_for(name):
    tables = sc.make(name, discount=0.5, temperature=1.0).tables
    assert np.all(np.diff(tables.start) == 5)
    assert (tables.num_states, tables.num_actions) == (12, 4)
    for row in range(48):
        part = tables.next_state[tables.start[row] : tables.start[row + 1]]
        assert len(set(part.tolist())) == 5
    assert tables.prob.reshape(48, 5).sum(axis=1) == pytest.approx(1.0, abs=1e-15)
    assert np.all((tables.reward >= 0.0) & (tables.reward <= 1.0))
    few = sc.make("garnet:states=2,branching=9", discount=0.5, temperature=1.0).tables
    assert np.all(np.diff(few.start) == 2)  # no more than there are states


def test_alternating_games_pass_the_turn_with_every_move():
    game = sc.make(
        "random-game:states=9,seed=2,alternating=true", discount=0.5, temperature=1.0
    )
    assert isinstance(game, sc.Game)
    assert game.facts.alternating
    tables = game.tables
    row = np.repeat(np.arange(27), np.diff(tables.start))
    assert np.all(tables.player[row // 3] != tables.player[tables.next_state])
    assert set(tables.player.tolist()) == {1, 2}


@pytest.mark.parametrize("name", ["garnet", "random-game"])
def test_seeds_decide_everything(name):
    def arrays(seed):
        tables = sc.make(f"{name}:seed={seed}", discount=0.5, temperature=1.0).tables
        fields = (tables.prob, tables.reward, tables.next_state, tables.player)
        return [x for field in fields for x in field.tolist()]

    assert arrays(3) == arrays(3)
    assert arrays(3) != arrays(4)


# --- make ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
def test_every_entry_builds_with_its_defaults(name):
    problem = sc.make(name, discount=0.9, temperature=0.5)
    assert problem.operator == sc.Entropy(0.5)
    assert problem.discount == 0.9
    assert problem.name.startswith(name)
    assert ZOO[name].summary


def test_operators_and_horizons():
    for options, expected in (
        ({"temperature": 2.0, "operator": "sparsemax"}, sc.Sparsemax(2.0)),
        ({"operator": "max"}, sc.Max()),
        ({"temperature": 0}, sc.Max()),
        ({"operator": sc.Entropy(3.0)}, sc.Entropy(3.0)),
    ):
        assert sc.make("chain", discount=0.5, **options).operator == expected
    assert sc.make("chain:n=3,horizon=4", discount=1.0, temperature=1.0).horizon == 4


@pytest.mark.parametrize(
    "text, least", [("gridworld:n=2", 3), ("random-game:states=1", 2)]
)
def test_a_size_has_a_least_value(text, least):
    """tests/unit/test_api_bad_input.py has other names that are refused."""
    with pytest.raises(sc.InvalidInput, match=f"at least {least}"):
        sc.make(text, discount=0.5, temperature=1.0)


def test_a_module_of_ones_own(monkeypatch):
    """A Problem, a function with some of the parameters, a function that
    returns something else.
    """
    module = types.ModuleType("my_problems")
    module.ready = sc.make("chain", discount=0.5, temperature=1.0)
    module.build = lambda discount=0.3: sc.make(
        "chain:n=3", discount=discount, temperature=1.0
    )
    module.wrong = lambda: 5
    monkeypatch.setitem(sys.modules, "my_problems", module)
    ready = sc.make("my_problems:ready", discount=0.8, temperature=2.0)
    assert (ready.discount, ready.operator) == (0.8, sc.Entropy(2.0))
    assert ready.name == "my_problems:ready"
    built = sc.make("my_problems:build", discount=0.4)
    assert built.discount == 0.4
    spec = {"problem": "my_problems:build", "discount": 0.4}
    assert built.spec == spec | {"temperature": None, "operator": None}
    assert sc.make("my_problems:build").discount == 0.3
    with pytest.raises(sc.InvalidInput, match="takes no 'temperature'"):
        sc.make("my_problems:build", temperature=1.0)
    with pytest.raises(sc.InvalidInput, match="must return a Problem"):
        sc.make("my_problems:wrong")
