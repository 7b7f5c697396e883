"""Problems that give outcomes instead of tables: explored from their initial
state, as far as the horizon, and refused with a remedy.
"""

import dataclasses
import math

import numpy as np
import pytest
from exact_worlds import mdp

import smoothcruiser as sc
from smoothcruiser import exact


def walk(state, action):
    """A walk on 0..4 with a turn marker; action 1 tends right, arrival at 4 pays 1."""
    place, turn = state
    following = "b" if turn == "a" else "a"
    right, left = min(place + 1, 4), max(place - 1, 0)
    p = 0.8 if action == 1 else 0.3
    on, back = (right, following), (left, following)
    return [(p, float(right == 4), on), (1.0 - p, 0.0, back)]


@pytest.mark.compiles
def test_outcomes_are_explored_from_the_initial_state():
    """The same game as arrays: equal values for every state that can be
    reached, terminals included.
    """
    known = {"discount": 0.8, "operator": sc.Entropy(0.2)}
    game = sc.Game(
        mdp().oracle,
        player=lambda s: 1 if s[1] == "a" else 2,
        terminal=lambda s: s[0] == 4,
        outcomes=walk,
        num_actions=2,
        initial_state=(0, "a"),
        **known,
    )
    found = sc.solve(game)
    assert found.states is not None
    assert found.states[0] == (0, "a")
    index = {state: i for i, state in enumerate(found.states)}
    P, R = np.zeros((2, len(index), 2, len(index)))
    for state, i in index.items():
        for action in (0, 1):
            ended = [(1.0, 0.0, state)]
            for p, r, z in walk(state, action) if state[0] != 4 else ended:
                P[i, action, index[z]] += p
                R[i, action, index[z]] = r
    players = [1 if s[1] == "a" else 2 for s in index]
    over = [s[0] == 4 for s in index]
    same = sc.solve(sc.tabular(P, R, players=players, terminal=over, **known))
    assert found.values == pytest.approx(same.values, abs=1e-9)
    assert found.values[found.index((4, "b"))] == 0.0
    words = r"not among the 10 states .* initial_state= set to it"
    with pytest.raises(sc.InvalidInput, match=words):
        found.index((9, "a"))


@pytest.mark.compiles
def test_the_exact_method_solves_from_the_asked_state():
    """Two rings that never meet (two opening rolls, say): a state of the other
    ring has its own value, 1/(1 - gamma).
    """
    apart = mdp(
        initial_state=("a", 0),
        outcomes=lambda s, a: [(1.0, float(s[0] == "b"), (s[0], 1 - s[1]))],
    )
    other = sc.plan(apart, ("b", 1), method="exact")
    assert other.value == pytest.approx(2.0, abs=1e-9)
    assert sc.plan(apart, method="exact").value == 0.0


@pytest.mark.compiles
def test_exploration_ends_at_the_horizon():
    """A walk without end, one place up or down a step, that pays the place it
    arrives at if that is above 0.
    """
    seen = []

    def line(place, action):
        seen.append(place)
        return [(0.5, max(0.0, z), z) for z in (place + 1, place - 1)]

    problem = mdp(discount=1.0, outcomes=line, horizon=3, reward_range=(0.0, 3.0))
    found = sc.solve(problem)
    assert found.states == (0, 1, -1, 2, -2, 3, -3)
    # states without a step left are not expanded
    assert sorted(set(seen)) == [-2, -1, 0, 1, 2]
    # E max(0, place) after 1, 2, 3 steps
    assert found.values[0] == pytest.approx(1 / 2 + 2 / 4 + (3 + 3 * 1) / 8)
    # with three steps left they lead beyond what was explored
    assert np.isnan(found.values[1:]).all()
    assert found.stages is not None
    assert found.stages[2, 1] == pytest.approx((2 + 0) / 2 + (3 + 1 + 1) / 4)
    assert np.isnan(found.stages[3, 1])
    assert exact.policy_value(problem, np.ones((7, 1)))[0] == pytest.approx(
        found.values[0]
    )
    words = r"does not know state 1 with 3 steps left.*initial_state="
    with pytest.raises(sc.InvalidInput, match=words):
        sc.evaluate(problem, found, 1, delta=0.1, budget=10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcomes": None}, "tabular"),
        ({"outcomes": lambda s, a: [(0.5, 0.0, s)]}, "sum to 1"),
        ({"outcomes": lambda s, a: [(1.5, 0.0, s), (-0.5, 0.0, s)]}, "sum to 1"),
        ({"outcomes": lambda s, a: [(1.0, math.nan, s)]}, "finite rewards"),
        ({"outcomes": lambda s, a: [(1.0, s)]}, "must list"),
        ({"outcomes": lambda s, a: [(1.0, 0.0, [1])]}, "hashable"),
        ({"outcomes": lambda s, a: [(1.0, 0.0, s + 1)]}, "More than 50 states"),
        ({"terminal": True}, "terminal="),
        ({"initial_state": None}, "initial_state"),
    ],
)
def test_models_that_cannot_be_solved_are_refused_with_a_remedy(
    changes, message, monkeypatch
):
    monkeypatch.setattr("smoothcruiser.exact.reachable.MOST_STATES", 50)
    base = mdp(outcomes=lambda s, a: [(1.0, 0.0, s)])
    with pytest.raises(sc.InvalidInput, match=message):
        sc.solve(dataclasses.replace(base, **changes))


class Fickle:
    """A function whose answers take turns."""

    def __init__(self, *answers):
        self.answers, self.asked = answers, 0

    def __call__(self, *_):
        self.asked += 1
        return self.answers[self.asked % len(self.answers)]


def _in_place(state, action):
    paid = float(state[0] == 2)
    state[0] = (state[0] + 1) % 3
    return [(1.0, paid, state)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # its answer was 3.69; the value is 2.99
        ({"outcomes": _in_place, "initial_state": np.array([0])}, "changed a state"),
        (
            {"outcomes": Fickle([(1.0, 0.0, 0)], *[[(1.0, 1.0, 0)]] * 2)},
            "outcomes answered differently",
        ),
        ({"legal": Fickle(True, True, True, False)}, "legal, terminal, player"),
        ({"terminal": Fickle(True, False, False)}, "legal, terminal, player"),
    ],
)
def test_models_that_change_have_no_values(changes, message):
    base = mdp(
        num_actions=2, discount=0.9, outcomes=lambda s, a: [(1.0, 0.5, (s + 1) % 3)]
    )
    assert len(exact.explore(base).states or ()) == 3
    with pytest.raises(sc.OracleError, match=message):
        exact.explore(dataclasses.replace(base, **changes))


def test_states_that_never_come_back_are_refused_at_once():
    model = mdp(discount=0.9, outcomes=lambda s, a: [(1.0, 0.5, object())])
    with pytest.raises(sc.InvalidInput, match="recognized"):
        exact.explore(model)


@pytest.mark.compiles
def test_an_answer_says_which_declarations_do_not_hold():
    """Each of four steps pays 1: V = 3.439, whatever is declared."""
    model = mdp(
        discount=0.9,
        terminal=lambda s: s > 3,
        outcomes=lambda s, a: [(1.0, 1.0, s + 1)],
    )
    for changes, note in (
        ({}, None),
        ({"total_reward_range": (0.0, 3.5)}, None),
        ({"total_reward_range": (0.0, 1.5)}, "total_reward_range or payoffs="),
        ({"payoffs": "end"}, "payoffs='end' is declared"),
        # the horizon cuts the episode off, which does not end it
        ({"payoffs": "end", "horizon": 1}, "payoffs='end' is declared"),
        ({"reward_range": (0.0, 0.5)}, "outside reward_range"),
    ):
        found = sc.plan(dataclasses.replace(model, **changes), method="exact")
        assert found.value == pytest.approx(1.0 if "horizon" in changes else 3.439)
        assert [note in x for x in found.notes] == ([] if note is None else [True])
