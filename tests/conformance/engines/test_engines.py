"""``reference`` and ``compiled`` agree to the last bit on 66 tabular problems, with
plain and with randomized levels on each, for one thread and two.

The law: an engine is a way to run a schedule, never a part of the answer. Same
seed, same bits; counts are those of the schedule.
"""

import math

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
from scipy import sparse

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
    P, R = random_model(
        seed, states, K, movers=turns if family == "alternating" else None
    )
    common = {"discount": 0.4, "operator": operator}
    if family == "game":
        return sc.tabular(P, R, players=players, **common)
    if family == "alternating":
        return sc.tabular(P, R, players=turns, alternating=True, **common)
    if family == "myopic":
        return sc.tabular(P, R.mean(axis=2), **(common | {"discount": 0.0}))
    if family == "horizon":
        return sc.tabular(P, R, horizon=3, **(common | {"discount": 1.0}))
    if family == "terminals":
        return sc.tabular(P, R, terminal=dead, **common)
    if family == "varying":
        return sc.tabular(P, R, legal=legal, **common)
    if family == "everything":
        return sc.tabular(
            P,
            3.0 * R - 2.0,
            players=players,
            terminal=dead,
            legal=legal,
            horizon=4,
            **(common | {"discount": 0.9}),
        )
    if family == "ending game":
        return sc.tabular(
            P,
            R - 0.5,
            players=3 - turns,
            terminal=dead,
            **(common | {"discount": 0.7}),
        )
    if family == "long horizon":
        ways = {"legal": legal, "horizon": 12}
        return sc.tabular(P, R, **ways, **(common | {"discount": 0.8}))
    return sc.tabular(P, R, **common)


def grid():
    """60 problems: every operator in every family, K from 1 to 6 in turn."""
    for i, family in enumerate(FAMILIES):
        for j, name in enumerate(OPERATORS):
            K = 1 + (i + j) % 6
            yield pytest.param(family, name, K, 10 * i + j, id=f"{family}-{name}-K{K}")


def test_randomized_levels_are_run_on_more_than_sixty_problems():
    """What the tests below run of them; with one action there is nothing to correct."""
    grids = [point.values for point in grid()]
    problems = [build(f, OPERATORS[o](K), K, seed) for f, o, K, seed in grids]
    problems += special_problems().values()
    tables = [randomized_table(problem.facts, 1) for problem in problems]
    assert len(tables) == 66
    assert all(table.randomized for table in tables)
    assert sum(problem.num_actions > 1 for problem in problems) == 56


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


def special_problems():
    """Zoo problems and a sparse model."""
    P, R = random_model(5, 6, 3)
    rows = sparse.csr_matrix(P.reshape(18, 6))
    return {
        "chain": sc.make("chain:n=4", discount=0.2, temperature=10),
        "gridworld": sc.make(
            "gridworld:n=3", discount=0.3, temperature=1.0, operator="sparsemax"
        ),
        "garnet": sc.make("garnet:states=8,actions=4", discount=0.5, temperature=0.2),
        "random-game": sc.make(
            "random-game:states=6,actions=2,alternating=true",
            discount=0.5,
            temperature=1.0,
        ),
        "sparse": sc.tabular(rows, R, discount=0.5, operator=sc.SquareRoot(1.0)),
        "costs": sc.tabular(
            P,
            -2.0 * R,
            discount=0.5,
            operator=sc.Entropy(0.1),
            reward_range=(-2.0, 0.5),
        ),
    }


@pytest.mark.parametrize("name", list(special_problems()))
def test_agreement_on_special_problems(name):
    problem = special_problems()[name]
    for schedule in (
        hand_made(problem.facts),
        random_table(problem.facts, 4),
        randomized_table(problem.facts, 4),
        *paper_tables(problem.facts),
        *sharp_tables(problem.facts),
    ):
        assert_engines_agree(problem, schedule, 0)
        assert_workers_do_not_matter(problem, schedule, 1)


@njit
def halved_value(q):
    total = 0.0
    for x in q:
        total += math.exp(x)
    return 0.5 * math.log(total)


@njit
def halved_gradient(q):
    total = 0.0
    for x in q:
        total += math.exp(x)
    out = np.empty(len(q))
    for a in range(len(q)):
        out[a] = 0.5 * math.exp(q[a]) / total
    return out


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
    answers = [
        sc.plan(
            problem,
            2,
            method=method,
            seed=11,
            shards=shards,
            executor=executor,
            workers=workers,
            **options,
        )
        for executor, workers in (("reference", 1), ("compiled", 1), ("compiled", 2))
    ]
    facts = [
        (
            a.value,
            a.interval,
            a.q_values,
            a.policy,
            a.action,
            a.num_calls,
            a.epsilon,
            a.delta,
            # one engine says that it has no use for workers
            [note for note in a.notes if not note.startswith("workers=")],
        )
        for a in answers
    ]
    assert facts[0] == facts[1] == facts[2]
    schedule = sc.explain(problem, method=method, **options)
    assert answers[0].num_calls == schedule.num_calls or schedule.root.looks
    different = sc.plan(problem, 2, method=method, seed=12, shards=shards, **options)
    assert different.value != answers[0].value
