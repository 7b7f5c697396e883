"""``reference`` and ``compiled`` agree to the last bit on 60 tabular problems, with
plain and with randomized levels on each, for one thread and two.

The law: an engine is a way to run a schedule, never a part of the answer. Same
seed, same bits; counts are those of the schedule.
"""

import numpy as np
import pytest
from engine_agreement import (
    assert_engines_agree,
    assert_workers_do_not_matter,
    hand_made,
    paper_tables,
    random_table,
    randomized_table,
    sharp_tables,
)
from numba import njit

import smoothcruiser as sc

OPERATORS = {
    "entropy": lambda K: sc.Entropy(0.5),
    "kl": lambda K: sc.KL(0.7, prior=tuple(range(1, K + 1))),
    "mellowmax": lambda K: sc.KL(0.3),
    "sparsemax": lambda K: sc.Sparsemax(0.4),
    "square-root": lambda K: sc.SquareRoot(0.6),
    "max": lambda K: sc.Max(),
}
FAMILIES = (
    "plain",
    "game",
    "alternating",
    "myopic",
    "horizon",
    "terminals",
    "varying",
    "everything",
    "ending game",
    "long horizon",
)


def random_model(seed, states, actions, *, movers=None):
    """P and R of a random model; with ``movers``, each move passes the turn."""
    rng = np.random.default_rng(seed)
    P = rng.random((states, actions, states)) * (
        rng.random((states, actions, states)) < 0.5
    )
    P[..., 0] += 1e-3
    P[:, :, 1] += 1e-3
    if movers is not None:
        P[
            movers[:, None, None] == movers[None, None, :] + np.zeros((1, actions, 1))
        ] = 0.0
    P[0, 0] = 0.0
    P[0, 0, 1] = 1.0  # a pair with one successor draws no number
    # rewards are paid on arrival
    return P / P.sum(axis=2, keepdims=True), rng.random((states, actions, states))


def build(family, operator, K, seed):
    """One problem of a family."""
    states = 5
    rng = np.random.default_rng(1000 + seed)
    players = rng.integers(1, 3, states)
    turns = np.arange(states) % 2 + 1
    dead = np.array([False, False, True, False, True])
    legal = rng.random((states, K)) < 0.6
    legal[:, seed % K] = True
    legal[0] = True
    ways = {
        "game": {"players": players},
        "alternating": {"players": turns, "alternating": True},
        "myopic": {"discount": 0.0},
        "horizon": {"horizon": 3, "discount": 1.0},
        "terminals": {"terminal": dead},
        "varying": {"legal": legal},
        "everything": {
            **{"players": players, "terminal": dead, "legal": legal},
            **{"horizon": 4, "discount": 0.9},
        },
        "ending game": {"players": 3 - turns, "terminal": dead, "discount": 0.7},
        "long horizon": {"legal": legal, "horizon": 12, "discount": 0.8},
    }
    movers = turns if family == "alternating" else None
    P, R = random_model(seed, states, K, movers=movers)
    paid = {"myopic": R.mean(axis=2), "everything": 3.0 * R - 2.0}
    paid["ending game"] = R - 0.5
    how = {"discount": 0.4, "operator": operator} | ways.get(family, {})
    return sc.tabular(P, paid.get(family, R), **how)


def grid():
    """60 problems: every operator in every family, K from 1 to 6 in turn."""
    for i, family in enumerate(FAMILIES):
        for j, name in enumerate(OPERATORS):
            K = 1 + (i + j) % 6
            yield pytest.param(family, name, K, 10 * i + j, id=f"{family}-{name}-K{K}")


@pytest.mark.parametrize("family, operator, K, seed", list(grid()))
def test_agreement_in_every_family(family, operator, K, seed):
    problem = build(family, OPERATORS[operator](K), K, seed)
    facts = problem.facts
    clip = (-0.05, 0.8)
    schedules = [
        hand_made(facts),
        hand_made(facts, target="value", clip=clip),
        random_table(facts, seed),
        random_table(facts, seed + 1, target="value"),
        randomized_table(
            facts, seed, target="value" if seed % 2 else "q_values", samples=2
        ),
        *paper_tables(facts),
    ]
    for schedule in schedules:
        for state in (0, 3):
            assert_engines_agree(problem, schedule, state)
    assert_workers_do_not_matter(problem, schedules[0], 1)
    if seed % 5 == 0:  # the optimizer takes half a second a problem
        for schedule in sharp_tables(facts):
            assert_engines_agree(problem, schedule, 0)
            assert_workers_do_not_matter(problem, schedule, 3)


@njit
def halved_value(q):
    return 0.5 * np.log(np.sum(np.exp(q)))


@njit
def halved_gradient(q):
    return 0.5 * np.exp(q) / np.sum(np.exp(q))


@pytest.mark.slow
def test_agreement_with_an_operator_whose_gradient_does_not_sum_to_one():
    """The paper's general form: A ~ g/|g|_1 and rewards weighted by |g|_1 = 1/2."""
    operator = sc.CustomOperator(halved_value, halved_gradient, smooth=0.25)
    for i, family in enumerate(
        ("plain", "game", "terminals", "varying", "everything")
    ):
        problem = build(family, operator, 1 + i, i)
        for schedule in (
            hand_made(problem.facts),
            hand_made(problem.facts, target="value"),
            randomized_table(problem.facts, i),
            *paper_tables(problem.facts),
        ):
            assert_engines_agree(problem, schedule, 0)
        assert_workers_do_not_matter(problem, hand_made(problem.facts), 3)


@pytest.mark.parametrize(
    "method, options",
    [
        ("smoothcruiser", {"epsilon": "8%", "delta": 0.1}),
        ("smoothcruiser", {"epsilon": "8%", "delta": 0.1, "target": "value"}),
        ("sparse-sampling", {"epsilon": "10%", "delta": 0.1}),
        ("paper", {"epsilon": 0.8, "delta_prime": 0.05}),
    ],
)
@pytest.mark.parametrize("shards", [None, 4])
def test_plans_do_not_depend_on_executor_or_workers(method, options, shards):
    """The same Estimate to the last bit from ``sc.plan``, early stops included."""
    P, R = random_model(3, 5, 2)
    problem = sc.tabular(P, R, discount=0.2, operator=sc.Entropy(0.5))
    how = {"method": method, "shards": shards, **options}
    answers = [
        sc.plan(problem, 2, seed=11, executor=executor, workers=workers, **how)
        for executor, workers in (("reference", 1), ("compiled", 1), ("compiled", 2))
    ]
    facts = []
    for answer in answers:
        data = answer.to_dict()
        # one engine says that it has no use for workers
        notes = [x for x in data["notes"] if not x.startswith("workers=")]
        same = ("value", "interval", "q_values", "policy", "action", "num_calls")
        facts.append(([data[name] for name in same], notes))
    assert facts[0] == facts[1] == facts[2]
    schedule = sc.explain(problem, method=method, **options)
    assert answers[0].num_calls == schedule.num_calls or schedule.root.looks
    assert sc.plan(problem, 2, seed=12, **how).value != answers[0].value
