"""RDDL: joint actions, fluents, expressions and intervals, without pyRDDLGym.

Laws: joint actions are counted before they are listed; simplified expressions are the
ones a reader would write; ranges of growing fluents are found, or put at infinity.
"""

import math

import pytest

import smoothcruiser as sc
from smoothcruiser.adapters.rddl.code import pick
from smoothcruiser.adapters.rddl.expressions import (
    ChoiceNode,
    ConstantNode,
    FlipNode,
    PickNode,
    SlotNode,
    Untranslatable,
    apply,
    choice,
)
from smoothcruiser.adapters.rddl.fluents import Fluent, list_actions
from smoothcruiser.adapters.rddl.grounding import Assignment, GroundInstance
from smoothcruiser.adapters.rddl.laws import StepLaw, interval, law
from smoothcruiser.problem.arguments import split_name


def bools(*names):
    return [Fluent(name, (), "bool", (), False) for name in names]


MOVE = Fluent("move", ("r1",), "way", ("stay", "left", "right"), 0)


# --- actions ------------------------------------------------------------------


def test_several_at_once_are_counted_by_binomials():
    for n, m in ((5, 2), (6, 6), (4, 0), (3, 9)):
        found = list_actions(bools(*(f"a{i}" for i in range(n))), m, 10**6)
        assert len(found.values) == sum(math.comb(n, k) for k in range(min(n, m) + 1))
        assert len(set(found.values)) == len(found.values)
    assert list_actions(bools("a", "b"), 2, 10).labels[-1] == "a b"


def test_other_values_than_bools():
    found = list_actions([MOVE, *bools("push")], 2, 100)
    assert found.labels == (
        *("noop", "move(r1)=left", "move(r1)=right", "push"),
        *("move(r1)=left push", "move(r1)=right push"),
    )
    whole = Fluent("force", (), "int", (), 0, limits=(-1, 1))
    assert list_actions([whole], 1, 10).labels == ("noop", "force=-1", "force=1")
    on = Fluent("valve", (), "bool", (), True)
    assert list_actions([on], 1, 10).labels == ("noop", "~valve")


@pytest.mark.parametrize("kind, word", [("real", "continuous"), ("int", "any whole")])
def test_actions_without_a_list_are_refused(kind, word):
    with pytest.raises(sc.InvalidInput, match=rf"action fluent heat is {word}"):
        list_actions([Fluent("heat", (), kind, (), 0)], 1, 10)


# --- expressions --------------------------------------------------------------

X, Y, N = SlotNode(0, "bool"), SlotNode(1, "bool"), SlotNode(2, "int")


def test_kinds_are_kept_apart():
    with pytest.raises(Untranslatable, match="no truth value"):
        apply("and", X, N)
    with pytest.raises(Untranslatable, match="no truth value"):
        choice(N, X, Y)
    with pytest.raises(Untranslatable, match="no whole number"):
        apply("mod", ConstantNode(1.5), N)
    assert apply("/", N, N).kind == "real"
    assert apply("+", X, Y).kind == "int"


def test_discrete_takes_places_in_proportion():
    for u, place in ((0.0, 0), (0.24, 0), (0.25, 2), (0.99, 2)):
        assert pick((0.25, 0.0, 0.75), False, lambda u=u: u) == place
    assert pick((1, 3), True, lambda: 0.3) == 1
    with pytest.raises(ValueError, match="sum to"):
        pick((0.5, 0.2), False, lambda: 0.1)
    thirds = law(PickNode((ConstantNode(1), N), True))([0, 0, 3])
    assert thirds == [(0.25, 0), (0.75, 1)]


# --- ranges -------------------------------------------------------------------


def test_a_law_that_reads_what_was_sampled_is_summed_over_it():
    """A coin decides which of two coins is the next state: 1/2 1/4 + 1/2 3/4."""
    state = (Fluent("on", (), "bool", (), False),)
    coin, after = SlotNode(2, "bool"), SlotNode(3, "bool")
    biased = [FlipNode(ConstantNode(share)) for share in (0.25, 0.75)]
    ground = GroundInstance(
        states=state,
        actions=tuple(bools("a")),
        assignments=(
            Assignment(2, FlipNode(ConstantNode(0.5)), "bool"),
            Assignment(3, ChoiceNode(coin, *biased, "bool"), "bool"),
        ),
        after=(3,),
        reward=apply("+", after, ConstantNode(1)),
        preconditions=(),
        ends=(),
    )
    found = StepLaw(ground, 100).outcomes((False,), (False,))
    assert sorted(found) == [(0.5, 1.0, (False,)), (0.5, 2.0, (True,))]
    assert StepLaw(ground, 1).outcomes((False,), (False,)) is None


@pytest.mark.parametrize(
    "name, at_one, apart",
    [
        ("<", (0, 1), (1, 1)),
        ("<=", (1, 1), (1, 1)),
        (">=", (0, 1), (0, 0)),
        ("==", (0, 1), (0, 0)),
        ("~=", (0, 1), (1, 1)),
    ],
)
def test_intervals_that_touch_decide_what_they_can(name, at_one, apart):
    """x in [0, 1] against y in [1, 2], and against y in [1.5, 2]."""
    node = apply(name, SlotNode(0, "real"), SlotNode(1, "real"))
    assert interval(node, [(0.0, 1.0), (1.0, 2.0)]) == at_one
    assert interval(node, [(0.0, 1.0), (1.5, 2.0)]) == apart


# --- names --------------------------------------------------------------------


def test_first_parameters_may_do_without_their_words():
    for text, parameters in (
        ("SysAdmin,1,horizon=5", {"instance": 1, "horizon": 5}),
        ("SysAdmin,b.rddl", {"instance": "b.rddl"}),
        ("SysAdmin,instance=2", {"instance": 2}),
        ("SysAdmin", {}),
    ):
        assert split_name(text, ("instance",)) == ("SysAdmin", parameters)
    with pytest.raises(sc.InvalidInput, match="name=value"):
        split_name("SysAdmin,1,2", ("instance",))
    with pytest.raises(sc.InvalidInput, match="name=value"):
        split_name("FrozenLake-v1,1")
