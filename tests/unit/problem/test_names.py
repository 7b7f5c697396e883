"""Names of problems, and what messages propose.

Laws: commas in brackets and quotes do not separate; a value is what it looks like;
what cannot be read is refused in one sentence; whatever a message proposes as a name,
as a parameter or as a call of ``make`` can be read, and makes what it says.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smoothcruiser as sc
from smoothcruiser.problem.adapter_protocol import ADAPTERS
from smoothcruiser.problem.arguments import read_parameters, split_name, split_pieces
from smoothcruiser.problem.zoo import ZOO

pytestmark = pytest.mark.compiles


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


@given(st.dictionaries(st.sampled_from(["n", "seed", "map"]), VALUES))
def test_python_values_survive(values):
    text = ",".join(f"{name}={value!r}" for name, value in values.items())
    assert read_parameters(text) == values


class TestGymnasium:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("gymnasium")

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


def test_parameters_of_the_zoo_are_proposed_as_they_are_read():
    for name, entry in ZOO.items():
        if not entry.defaults:
            continue
        with pytest.raises(sc.InvalidInput) as caught:
            sc.make(f"{name}:wrong=1", discount=0.9, temperature=0.1)
        text = re.search(r"defaults are (.*)\.$", str(caught.value)).group(1)
        assert read_parameters(text) == entry.defaults
        sc.make(f"{name}:{text}", discount=0.9, temperature=0.1)
