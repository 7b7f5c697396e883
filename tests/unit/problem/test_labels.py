"""Names of actions.

Laws: a problem's labels are in every answer about it, whatever the method; they change
no bit of it; what does not name every action by itself is refused in one sentence; a
spec rebuilds them, and a stored run takes those of the problem it is resumed with.
"""

import dataclasses
import json

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.make import from_spec, is_spec

pytestmark = pytest.mark.compiles


def step(state, action, rng):
    return float(rng.random() < 0.3 + 0.4 * action), 1 - state


def outcomes(state, action):
    p = 0.3 + 0.4 * action
    return [(p, 1.0, 1 - state), (1.0 - p, 0.0, 1 - state)]


def shop(**changes):
    return mdp(step, **({"num_actions": None, "actions": ["wait", "buy"]} | changes))


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


def test_an_oracle_may_name_actions_by_state():
    oracle = Speaking({0: ["go", None], 1: [None, None], 2: {}, 3: [5, ""]})
    problem = sc.MDP(oracle, num_actions=2, discount=0.5, operator=sc.Max())
    assert problem.labels(0) == ("go", "1")
    for unnamed in (1, 2, 3):  # none, an error, no words
        assert problem.labels(unnamed) is None
    assert dataclasses.replace(problem, actions=["a", "b"]).labels(0) == ("a", "b")
