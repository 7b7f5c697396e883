"""A policy as people write it: every form through every door plays the same, and what is
none is told in one sentence what came and what is accepted.

The world is a ring of five places: "go" leads on and pays nothing, "stay" pays place/4.
With six steps, going to place 4 and staying there is worth 2.
"""

import collections
import random
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser import exact

pytestmark = pytest.mark.compiles

STAY, GO = 0, 1
BY_SHARES = "The policy was read as probabilities, since every row of it sums to 1."
BY_VALUES = (
    "The policy was read as action values, since its rows do not sum to 1: in each state "
    "the best action is played (the least where the min player moves), the first of "
    "equal ones."
)
BEST = [GO, GO, GO, GO, STAY]


def move(place, action, rng):
    return (0.0, (place + 1) % 5) if action == GO else (place / 4, place)


def ring(**more):
    facts = {
        **{"actions": ["stay", "go"], "horizon": 6, "discount": 1.0},
        **{"operator": sc.Max(), "initial_state": 0, "deterministic": True},
    }
    return sc.MDP(move, **(facts | more))


def ring_tables(**more):
    """The same ring as tables, with an end state behind it, as an adapter adds it."""
    P, R = np.zeros((6, 2, 6)), np.zeros((6, 2))
    for place in range(5):
        P[place, STAY, place] = P[place, GO, (place + 1) % 5] = 1.0
        R[place, STAY] = place / 4
    P[5, :, 5] = 1.0
    facts = {
        "horizon": 6,
        "discount": 1.0,
        "operator": sc.Max(),
        "terminal": [0] * 5 + [1],
    }
    return sc.tabular(P, R, actions=["stay", "go"], **(facts | more))


def named(method):
    """An object that acts by a method of this name."""
    return type("Model", (), {method: lambda self, state: BEST[state]})()


class Baselines:
    """Like a model of Stable-Baselines3: an array and no memory."""

    def predict(self, observation, state=None, deterministic=False):
        assert deterministic
        return np.array(BEST[observation]), None


SURE = np.eye(2)[BEST]  # (5, 2)
VALUES = np.where(SURE == 1.0, 3.0, -1.0)  # action values whose best are BEST
TENSOR = SimpleNamespace  # what torch's tensors have: detach().cpu(), then an array


def tensor(values):
    array = np.asarray(values)
    return TENSOR(detach=lambda: TENSOR(cpu=lambda: array))


FORMS = {
    "probabilities": lambda s: SURE[s],
    "action": lambda s: BEST[s],
    "whole float": lambda s: float(BEST[s]),
    "array of no dimension": lambda s: np.array(BEST[s]),
    "tensor": lambda s: tensor(BEST[s]),
    "label": lambda s: ["stay", "go"][BEST[s]],
    "list": lambda s: SURE[s].tolist(),
    "dict of labels": lambda s: {["stay", "go"][BEST[s]]: 1},
    "pair": lambda s: (BEST[s], None),
    "with a stream": lambda s, rng: BEST[s],
    "dict of all forms": {0: "go", 1: [0, 1], 2: {"go": 1}, 3: np.int8(1), 4: 0.0},
    "dict of values": dict(enumerate(VALUES)),
    "defaultdict": collections.defaultdict(lambda: "go", {4: "stay"}),
    "series": pd.Series(BEST[::-1], index=[4, 3, 2, 1, 0]),
    "frame": pd.DataFrame(SURE[:, ::-1], columns=["go", "stay"]),
    "list by state": BEST,
    "forms by state": ["go", 1, [0, 1], {"go": 1.0}, 0],
    "array by state": np.array(BEST),
    "table": SURE,
    "action values": VALUES,
    "predict": named("predict"),
    "act": named("act"),
    "select_action": named("select_action"),
    "Stable-Baselines3": Baselines(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_policy_through_every_door(form):
    policy = FORMS[form]
    for problem in (ring(), ring_tables()):
        answer = sc.evaluate(problem, policy, budget=600, executor="reference")
        assert answer.value == pytest.approx(2.0)
        assert answer.interval[0] <= 2.0 <= answer.interval[1]
        agent = sc.Agent(problem, policy)
        assert [agent.act(place) for place in range(5)] == BEST
        assert agent.action_label == "stay"
        summary = sc.play(agent, episodes=2)
        assert summary.mean_return == 2.0
        assert (summary.calls_per_decision, summary.method) == (0.0, "policy")


def test_compiled_rollouts_of_actions_and_of_values_are_those_of_probabilities():
    problem = sc.make(
        "garnet:states=8,actions=3,seed=1", discount=0.5, temperature=0.4
    )
    values = sc.solve(problem).q_values
    best = np.argmax(values, axis=1)
    truth = exact.policy_value(problem, np.eye(3)[best])[0]
    asked = {"budget": 3000, "seed": 7}
    answers = [
        sc.evaluate(problem, policy, **asked)
        for policy in (np.eye(3)[best], best, best.tolist(), values)
    ]
    assert {answer.executor for answer in answers} == {"compiled"}
    assert len({answer.interval for answer in answers}) == 1
    assert answers[0].interval[0] <= truth <= answers[0].interval[1]
    assert BY_VALUES in answers[3].notes
    assert BY_VALUES not in answers[0].notes


@pytest.mark.parametrize(
    "operator",
    [
        *(sc.Max(), sc.Entropy(0.5), sc.KL(0.5, prior=(0.2, 0.8)), sc.Sparsemax(0.5)),
        *(sc.KL(0.5), sc.SquareRoot(0.5)),
    ],
)
def test_one_sure_action_is_regularized_as_the_vertex_it_is(operator):
    """Omega of one action: 0 for entropy and sparsemax, log(1/mu) for KL, -1 for the
    square root, times the temperature; by hand over six steps.
    """
    omega = {
        "max": lambda a: 0.0,
        "entropy": lambda a: 0.0,
        "sparsemax": lambda a: 0.0,
        "square-root": lambda a: -0.5,
        "kl": lambda a: (
            -0.5 * np.log(operator.weights(2)[a] / sum(operator.weights(2)))
        ),
    }[operator.name]
    truth = 2.0 - 4 * omega(GO) - 2 * omega(STAY)
    for policy in (BEST, lambda s: BEST[s], SURE):
        answer = sc.evaluate(ring(operator=operator), policy, budget=600)
        assert answer.value == pytest.approx(truth, abs=1e-12)
    tables = ring_tables(operator=operator)
    whole = np.vstack([SURE, [0.0, 0.0]])
    assert exact.policy_value(tables, whole)[0] == pytest.approx(truth, abs=1e-12)


# --- what is none ---------------------------------------------------------------


def generator(state):
    yield 1


class Recurrent:
    def predict(self, observation):
        return 1, np.zeros(3)


class Counter:
    count = 0

    def act(self, state):
        self.count += 1
        return self.count % 2


WRONG = [
    (lambda s: None, r"policy\(0\) must be an action \(0 to 1 or its label\), 2 prob"),
    (lambda s: float("nan"), "got nan: it is NaN"),
    (lambda s: 2, "got 2: there is no such action"),
    (lambda s: True, r"got True: write int\(…\)"),
    (lambda s: 0.5, "got 0.5: it is not a whole number"),
    (lambda s: [0.2, 0.2], "it sums to 0.4 and not to 1; of action values"),
    (lambda s: [0.2, 0.3, 0.5], r"it has shape \(3,\)"),
    (lambda s: [1.5, -0.5], "probabilities are not negative"),
    (lambda s: [np.nan, 1.0], "it holds NaN"),
    (lambda s: "left", "got 'left': the labels are 'stay', 'go'"),
    (lambda s: {0: 0.5, "stay": 0.5}, "0 and 'stay' are one action"),
    (lambda s: {True: 1.0}, "True is no action"),
    (generator, "a generator is no answer; drop yield or async"),
    (lambda s: object(), "it is of type object, which is none of these"),
    (
        lambda s: 1 / 0,
        "The policy raised ZeroDivisionError: division by zero at state 0",
    ),
    (lambda: 1, r"a function of the state, or of \(state, rng\).* arguments \(\)"),
    (Counter, "not a class; got the class Counter"),
    (Counter(), "answered action 1 and then action 0 at state 0"),
    (Recurrent(), "a recurrent policy is no function of the state"),
    (generator(0), "A policy is a function of the state.* got generator"),
    ("greedy", "A policy is a function of the state that .* got str 'greedy'"),
    (None, "got NoneType None"),
    ({0: 1}, "no entry for state 1 .it has 0"),
    ({0: 1, 1: None}, r"policy\[1\] must be an action .* got None"),
    ([1, 1], "has 2 entries, for the states 0, 1, …, and state 2 has none"),
    (np.ones((5, 2)), "prefer no action to any other and do not sum to 1"),
    (np.ones((2, 5)), r"got shape \(2, 5\); transpose it"),
    (
        np.array([[0.5, 0.5]] * 4 + [[0.5, 0.4]]),
        "4 rows .* that of state 4 is .* 0.9 over",
    ),
    (
        np.full((5, 2), 0.495),
        "0 rows .* almost or not: that of state 0 .* sums to 0.99",
    ),
]


@pytest.mark.parametrize(("policy", "words"), WRONG)
def test_what_is_no_policy_is_told_what_came_and_what_is_accepted(policy, words):
    with pytest.raises(sc.InvalidInput, match=words) as told:
        sc.evaluate(ring(), policy, budget=200)
    assert "\n" not in str(told.value)
    if policy is None or isinstance(policy, str | type | int):
        return  # in the place of a method these are none
    if not hasattr(policy, "gi_frame"):
        with pytest.raises(sc.InvalidInput):
            sc.play(sc.Agent(ring(), policy), episodes=2)


def test_an_illegal_action_is_named():
    problem = ring(legal=lambda s, a: a == GO or s > 0)
    for policy in (lambda s: 0, lambda s: "stay", lambda s: [0.5, 0.5], [0] * 5):
        with pytest.raises(
            sc.InvalidInput, match=r"action 0 \('stay'\), which is not legal at"
        ):
            sc.evaluate(problem, policy, budget=200)


def test_a_table_without_the_end_state_is_accepted_and_any_other_size_is_not():
    problem = ring_tables()
    whole = np.vstack([SURE, [0.3, 0.3]])  # the row of an end is not read
    answers = [sc.evaluate(problem, rows, budget=200) for rows in (whole, SURE)]
    assert answers[0].interval == answers[1].interval
    for size in (4, 7):
        with pytest.raises(sc.InvalidInput, match=r"shape \(6, 2\); got shape"):
            sc.evaluate(problem, np.full((size, 2), 0.5), budget=200)
        with pytest.raises(
            sc.InvalidInput, match=f"one entry per state, 6, got {size}"
        ):
            sc.evaluate(problem, [0] * size, budget=200)


def test_rows_that_may_be_two_things_are_decided_and_the_reading_is_told():
    problem = ring_tables()
    halves = np.full((5, 2), 0.5)
    for rows, told in (
        (halves, {BY_SHARES}),
        (SURE, set()),  # the same either way
        (2.0 * SURE, {BY_VALUES}),
    ):
        notes = sc.evaluate(problem, rows, budget=200).notes
        assert {BY_SHARES, BY_VALUES} & set(notes) == told
    known = np.array([[np.nan, 2.0]] + [[1.0, 3.0]] * 4)  # NaN where it is illegal
    barred = ring(legal=lambda s, a: a == GO or s > 0)
    assert sc.Agent(barred, known).act(0) == GO
    with pytest.raises(
        sc.InvalidInput, match="action values of state 0 must be numbers"
    ):
        sc.evaluate(problem, known, budget=200)


def test_probabilities_of_illegal_actions_are_never_taken_for_values():
    """Every row sums to 1, but over legal actions to less: not action values."""
    problem = ring_tables(legal=np.array([[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]]).T)
    with pytest.raises(sc.InvalidInput, match=r"state 0 is .*sums to 0.5 over legal"):
        sc.evaluate(problem, np.full((5, 2), 0.5), budget=200)
    one = sc.tabular(
        np.ones((1, 3, 1)), np.zeros((1, 3)), discount=0.5, operator=sc.Max(),
        legal=[[1, 1, 0]],
    )  # fmt: skip
    with pytest.raises(
        sc.InvalidInput, match="0 rows of the policy are probabilities"
    ):
        sc.evaluate(one, [[0.2, 0.3, 0.5]], budget=200)


def test_the_min_player_takes_the_least_action_value():
    game = sc.Game(
        move, player=lambda s: 1 + s % 2, num_actions=2, discount=0.5, operator=sc.Max(),
        initial_state=0,
    )  # fmt: skip
    agent = sc.Agent(game, np.tile([1.0, 5.0], (5, 1)))
    assert [agent.act(s) for s in (0, 1)] == [1, 0]


def test_array_states_are_looked_up_by_their_keys():
    def step(place, action, rng):
        paid, after = move(int(place[0]), action, rng)
        return paid, np.array([after])

    problem = mdp(
        step,
        horizon=6,
        discount=1.0,
        operator=sc.Max(),
        initial_state=np.array([0]),
        deterministic=True,
        key=lambda x: int(x[0]),
    )
    answer = sc.evaluate(problem, dict(enumerate(BEST)), budget=600)
    assert answer.value == pytest.approx(2.0)
    with pytest.raises(sc.InvalidInput, match=r"no entry for state array\(\[1\]\)"):
        sc.evaluate(problem, {0: GO}, budget=600)


def test_states_and_keys_in_one_dict_are_refused():
    problem = ring(key=lambda s: (s + 1) % 5)
    with pytest.raises(
        sc.InvalidInput, match="entry for state 0 and one for its key 1"
    ):
        sc.evaluate(problem, dict(enumerate(BEST)), budget=200)
    named = ring(key=lambda s: f"place {s}")
    for policy in (
        dict(enumerate(BEST)),
        {f"place {s}": a for s, a in enumerate(BEST)},
    ):
        assert sc.evaluate(named, policy, budget=600).value == pytest.approx(2.0)


def test_a_policy_that_draws_lots_of_its_own_is_refused_and_one_with_rng_is_not():
    dice = random.Random(3)
    with pytest.raises(sc.InvalidInput, match="draws lots of its own or remembers"):
        sc.evaluate(ring(), lambda s: int(dice.random() < 0.5), budget=2000)
    answer = sc.evaluate(ring(), lambda s, rng: int(rng.random() < 0.5), budget=9000)
    truth = exact.policy_value(ring_tables(), np.full((6, 2), 0.5))[0]
    assert answer.delta == 0.05  # not taken for certain although the world is
    assert answer.interval[0] <= truth <= answer.interval[1]
    assert answer.interval[1] - answer.interval[0] < 3.0
    again = sc.evaluate(ring(), lambda s, rng: int(rng.random() < 0.5), budget=9000)
    assert again.interval == answer.interval
    with pytest.raises(
        sc.InvalidInput, match=r"entropy\(0.5\) regularizes probabilities"
    ):
        sc.evaluate(ring(operator=sc.Entropy(0.5)), lambda s, rng: 1, budget=200)


def test_a_function_is_asked_twice_and_the_certificate_says_so():
    asked = []
    policy = lambda s: asked.append(s) or BEST[s]  # noqa: E731
    answer = sc.evaluate(ring(), policy, budget=120)
    told = "the policy depends on the state alone (it was asked twice at its first "
    assert any(line.startswith(told) for line in answer.certificate.assumptions)
    assert asked[:4] == [0, 0, 1, 1]
    assert len(asked) > answer.num_calls // 2
    sure = sc.evaluate(ring(), BEST, budget=120)
    assert told not in " ".join(sure.certificate.assumptions)
