"""The best estimate of certified search: hand-computed counted models, guesses of what
was never sampled, and estimates near the truth where intervals are wide.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


def coin(state, action, rng):
    """State 0 pays 1 and leads to 1 or ends; state 1 pays 2 or 4 and ends."""
    if state == 0:
        return 1.0, (1 if rng.random() < 0.5 else 2)
    return (2.0 if rng.random() < 0.5 else 4.0), 2


def counted_by_hand(memory, discount):
    """The value of ``coin`` from the frequencies in a memory."""
    graph, known = memory.graph, {}
    for p in range(memory.num_pairs):
        pair = graph.pairs[p]
        part = slice(pair["start"], pair["start"] + pair["length"])
        rows = graph.entries.at(part).records()
        state = memory.states[pair["node"]]
        known[state] = [
            (row["weight"] / pair["total"], row["reward"], row["target"])
            for row in rows
        ]
    later = sum(share * reward for share, reward, _ in known[1])
    return sum(
        share * (reward + (discount * later if target else 0.0))
        for share, reward, target in known[0]
    )


@pytest.mark.parametrize("discount", [0.5, 0.99])
def test_the_value_is_that_of_the_frequencies(discount):
    problem = mdp(
        coin,
        num_actions=1,
        discount=discount,
        operator=sc.Max(),
        reward_range=(0.0, 4.0),
        terminal=lambda state: state == 2,
    )
    search = sc.Certified(problem, delta=0.1)
    answer = search.query(budget=200)
    by_hand = counted_by_hand(search.memory, discount)
    assert answer.value == pytest.approx(by_hand, rel=1e-6)
    assert answer.q_values == pytest.approx((by_hand,), rel=1e-6)
    middle = sum(answer.interval) / 2
    assert abs(answer.value - middle) > 0.04 * middle
    # sigma of 1 + gamma v over n(0), and gamma P(1) sigma of the reward over n(1)
    assert 0.0 < answer.standard_error < 0.5
    (row,) = [row for row in search.table() if row.state == 1]
    assert 2.0 <= row.value <= 4.0


def pays_nothing(state, action, rng):
    """A walk without an end on which nothing is ever paid."""
    return 0.0, state + 1 + rng.integers(3)


def test_nothing_paid_is_worth_nothing():
    """States never sampled are worth the mean of the sampled ones, no middle."""
    problem = mdp(pays_nothing, discount=0.99, operator=sc.Max())
    answer = sc.Certified(problem, delta=0.1).query(budget=500)
    assert answer.interval[1] > 40.0
    assert answer.value == 0.0


def test_a_constant_reward_has_its_exact_value():
    """Frontier states are worth what the others are: -1/(1 - gamma) everywhere."""

    def step(state, action, rng):
        return -1.0, state + 1 + rng.integers(3)

    problem = mdp(step, discount=0.99, operator=sc.Max(), reward_range=(-100.0, 0.0))
    answer = sc.Certified(problem, delta=0.1).query(budget=500)
    assert answer.value == pytest.approx(-100.0, rel=0.01)
    assert answer.interval[0] < -1000.0


def random_world(seed, states, discount, operator, *, costs=False, players=None):
    """A tabular problem with sparse random transitions."""
    rng = np.random.default_rng(seed)
    P = np.zeros((states, 3, states))
    for s in range(states):
        for a in range(3):
            P[s, a, rng.integers(0, states, 3)] += rng.dirichlet(np.ones(3))
    P /= P.sum(axis=2, keepdims=True)
    R = rng.random((states, 3))
    R = -10.0 * R if costs else R
    return sc.tabular(P, R, discount=discount, operator=operator, players=players)


GAME = np.array([1, 2] * 5)
WORLDS = [
    ("costs", lambda: random_world(1, 20, 0.97, sc.Max(), costs=True), 20_000),
    ("garnet", lambda: random_world(2, 20, 0.99, sc.Max()), 20_000),
    ("entropy", lambda: random_world(3, 10, 0.95, sc.Entropy(0.5)), 10_000),
    ("game", lambda: random_world(4, 10, 0.95, sc.Max(), players=GAME), 10_000),
    ("near one", lambda: random_world(5, 8, 0.995, sc.Sparsemax(0.3)), 20_000),
    ("lake", lambda: sc.make("gridworld", discount=0.9, operator="max"), 20_000),
]


@pytest.mark.parametrize(("make", "budget"), [w[1:] for w in WORLDS], ids=lambda x: "")
def test_estimates_are_near_where_intervals_are_wide(make, budget):
    problem = make()
    exact = sc.solve(problem)
    root = problem.start()
    answer = sc.Certified(problem, delta=0.1, seed=7).query(budget=budget)
    truth = exact.values[root]
    assert abs(answer.value - truth) <= 0.1 * abs(truth) + 1e-9
    if answer.standard_error is not None:
        assert abs(answer.value - truth) <= 6.0 * answer.standard_error + 1e-3
    low, high = answer.interval
    assert low <= answer.value <= high
    for q, (q_low, q_high) in zip(
        answer.q_values, answer.certificate.q_intervals, strict=True
    ):
        assert q_low <= q <= q_high
    applied = problem.operator.value(answer.q_values, player=problem.mover(root))
    assert answer.value == pytest.approx(applied, rel=1e-6)


def test_a_horizon_is_solved_layer_by_layer():
    """Two steps of a fair coin: 0.5 + 0.5, and the frequencies say so."""

    def step(state, action, rng):
        return float(rng.integers(2)), state

    problem = mdp(step, num_actions=1, discount=1.0, horizon=30, operator=sc.Max())
    search = sc.Certified(problem, delta=0.1)
    answer = search.query(budget=2000)
    pair = search.memory.graph.pairs[0]
    part = slice(pair["start"], pair["start"] + pair["length"])
    rows = search.memory.graph.entries.at(part).records()
    mean = sum(row["weight"] * row["reward"] for row in rows) / pair["total"]
    assert answer.value == pytest.approx(30.0 * mean, rel=1e-9)
    usual = 30.0 * math.sqrt(mean * (1.0 - mean) / (pair["total"] - 1.0))
    assert answer.standard_error == pytest.approx(usual, rel=1e-6)
    table = search.table()
    assert table.at(0, remaining=3).value == pytest.approx(3.0 * mean, rel=1e-9)


def test_a_promise_that_is_kept_binds_the_interval_and_not_the_estimate():
    """Its half-width is at most epsilon; the value is moved by noise at most."""
    problem = random_world(6, 6, 0.8, sc.Max())
    answer = sc.Certified(problem, delta=0.1).query(epsilon=0.3)
    low, high = answer.interval
    assert low <= answer.value <= high <= low + 0.6
    assert abs(answer.value - sc.solve(problem).values[0]) <= 0.3


def test_a_refused_first_report_leaves_a_memory_that_can_be_looked_at(tmp_path):
    """Saving says what is missing, and rows have all steps of the horizon left."""
    problem = mdp(
        lambda state, action, rng: (0.0, state),
        num_actions=1,
        discount=1.0,
        horizon=5,
        operator=sc.Max(),
    )
    search = sc.Certified(problem, delta=0.1)
    answer = search.query(budget=100, progress=lambda news: False)
    assert answer.num_calls == 0
    assert any("not sampled" in note for note in answer.notes)
    (row,) = search.table()
    assert row.remaining == 5
    assert search.table().at(0) == row
    with pytest.raises(sc.InvalidInput, match="empty"):
        search.save(tmp_path / "runs.db")


def test_no_error_is_usual_where_the_play_meets_actions_without_samples():
    """An unsampled action is a guess, no mean: it was off by eight errors at 100 calls."""
    problem = sc.make("garnet:states=8,actions=3,seed=2", discount=0.5, operator="max")
    truth = sc.solve(problem).values[0]
    for budget in (100, 300):
        answer = sc.Certified(problem, delta=0.2).query(budget=budget)
        assert answer.standard_error is None
        assert abs(answer.value - truth) > 0.03
    near = 0
    for seed in range(20):
        answer = sc.Certified(problem, delta=0.2, seed=seed).query(budget=1000)
        near += abs(answer.value - truth) <= 2.0 * answer.standard_error
    assert near >= 16


def test_the_error_holds_what_solving_leaves_out():
    """Without chance no sample deviates; the model is solved to a share of the width."""
    problem = sc.make("chain:n=5", discount=0.9, temperature=0.1)
    truth = sc.solve(problem).values[0]
    assert sc.Certified(problem, delta=0.2).query(budget=100).standard_error is None
    for budget in (300, 3000):
        answer = sc.Certified(problem, delta=0.2).query(budget=budget)
        assert 1e-5 < abs(answer.value - truth) <= 2.0 * answer.standard_error


def test_shifts_that_lead_in_a_circle_end():
    """Law: a machine is kept or replaced at discount .99; the estimate is that of the
    counted model although the best action changes from pass to pass.
    """

    def step(age, action, rng):
        if action == 1:
            return -30.0, 0
        if rng.random() < 0.02 * age:
            return -60.0, 0
        return -1.0 * age, min(age + 1, 12)

    values = np.zeros(13)
    for _ in range(3_000):
        ages = np.arange(13)
        fails = 0.02 * ages
        after = np.minimum(ages + 1, 12)
        kept_on = fails * (-60.0 + 0.99 * values[0]) + (1.0 - fails) * (
            0.99 * values[after] - ages
        )
        values = np.maximum(kept_on, -30.0 + 0.99 * values[0])
    problem = mdp(step, discount=0.99, operator=sc.Max(), reward_range=(-60.0, 0.0))
    answer = sc.plan(problem, method="certified", budget=60_000, delta=0.1)
    assert answer.value == pytest.approx(values[0], rel=0.05)
    assert answer.standard_error is not None
