"""Certified search end to end: intervals against exact values, every kind of
problem, stops, warm starts, errors.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import tracemalloc
from itertools import pairwise

import numba
import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
from smoothcruiser.errors import OracleError
from smoothcruiser.exact import solve
from smoothcruiser.operators import (
    KL,
    CustomOperator,
    Entropy,
    Max,
    Sparsemax,
    SquareRoot,
)
from smoothcruiser.problem.model.tabular import tabular
from smoothcruiser.problem.problem import MDP
from smoothcruiser.problem.zoo import chain, garnet, random_game

pytestmark = pytest.mark.compiles

OPERATORS = [
    Entropy(0.2),
    KL(0.2, prior=(0.5, 0.3, 0.2)),
    Sparsemax(0.5),
    SquareRoot(0.3),
    Max(),
]


def ring(size=6, slip=0.2):
    """A plain Python simulator over tuples: two moves around a ring, with
    slips, and a reward at one place.
    """

    def step(state, action, rng):
        if rng.random() < slip:
            action = 1 - action
        place = (state[1] + (1 if action else -1)) % size
        return float(place == 2), ("at", place)

    return step


def ring_model(size=6, slip=0.2):
    def outcomes(state, action):
        found = []
        for chance, move in ((1.0 - slip, action), (slip, 1 - action)):
            place = (state[1] + (1 if move else -1)) % size
            found.append((chance, float(place == 2), ("at", place)))
        return found

    return outcomes


def check(estimate, value, q=None, slack=1e-9):
    """The exact value and action values lie in the certified intervals."""
    assert estimate.interval[0] - slack <= value <= estimate.interval[1] + slack
    for (low, high), exact in zip(
        estimate.certificate.q_intervals, () if q is None else q, strict=False
    ):
        assert math.isnan(exact) == math.isnan(low)
        assert math.isnan(exact) or low - slack <= exact <= high + slack


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
@pytest.mark.parametrize("make", [garnet, random_game], ids=["mdp", "game"])
def test_promise_is_reached_and_kept(make, operator):
    """Half-widths of all intervals are at most epsilon, exact values lie
    inside, policy and certificate fit together.
    """
    problem = make(states=8, discount=0.7, operator=operator, seed=3)
    solution = solve(problem)
    found = Certified(problem, delta=0.01, seed=1).query(epsilon=0.25)
    check(found, solution.values[0], solution.q_values[0])
    assert all(
        high - low <= 0.5 + 1e-12 for low, high in found.certificate.q_intervals
    )
    assert found.interval[1] - found.interval[0] <= 0.5 + 1e-12
    assert abs(found.value - solution.values[0]) <= 0.25
    assert found.interval[1] - 0.25 <= found.value <= found.interval[0] + 0.25
    assert found.epsilon == 0.25
    assert found.certificate.confidence == 0.99
    assert found.certificate.kind == "search"
    assert sum(found.policy) == pytest.approx(1.0)
    player = problem.mover(0)
    best = int(
        np.argmax(solution.q_values[0])
        if player == 1
        else np.argmin(solution.q_values[0])
    )
    assert best in found.certificate.best_actions
    loss = operator.value(solution.q_values[0], player=player) - sum(
        np.array(found.policy) * solution.q_values[0]
    )
    regularizer = operator.value(found.q_values, player=player) - sum(
        np.array(found.policy) * np.array(found.q_values)
    )
    assert (
        -1e-9
        <= (1 if player == 1 else -1) * (loss - regularizer)
        <= found.certificate.policy_loss
    )


def test_value_target_needs_no_more_than_action_values():
    """A narrow value does not need narrow intervals for bad actions."""
    problem = garnet(states=12, actions=4, discount=0.8, operator=Max(), seed=5)
    calls = {
        t: Certified(problem, delta=0.1).query(epsilon=0.3, target=t).num_calls
        for t in ("value", "q_values")
    }
    assert calls["value"] < calls["q_values"]


def test_a_python_simulator_is_certified_from_hashes():
    """Tuple states, plain Python step: every seen state's bounds hold, and
    calls are counted as they happen.
    """
    calls = []
    inner = ring()

    def step(state, action, rng):
        calls.append(action)
        return inner(state, action, rng)

    problem = MDP(
        step,
        num_actions=2,
        discount=0.9,
        operator=Entropy(0.1),
        initial_state=("at", 0),
    )
    memory = Certified(problem, delta=0.01)
    found = memory.query(epsilon=0.5)
    exact = sc.plan(
        MDP(
            inner,
            num_actions=2,
            discount=0.9,
            operator=Entropy(0.1),
            outcomes=ring_model(),
        ),
        ("at", 0),
        method="exact",
    )
    check(found, exact.value, exact.q_values, slack=1e-6)
    assert found.num_calls == len(calls) == memory.num_calls


def test_warm_start_reuses_draws_and_keeps_delta():
    """A second query on the memory is cheaper than a fresh one, and a repeated
    one is free.
    """
    problem = garnet(states=10, discount=0.8, operator=Entropy(0.2), seed=1)
    solution = solve(problem)
    memory = Certified(problem, delta=0.05)
    memory.query(0, epsilon=0.3)
    second = memory.query(4, epsilon=0.3)
    fresh = Certified(problem, delta=0.05).query(4, epsilon=0.3)
    check(second, solution.values[4], solution.q_values[4])
    assert second.num_calls < 0.5 * fresh.num_calls
    assert memory.query(4, epsilon=0.3).num_calls == 0


def test_same_seed_same_bits_other_seed_other_draws():
    """Nothing depends on the clock; intermediate stops do not change what is
    drawn from a pair's stream.
    """
    problem = garnet(states=10, discount=0.8, operator=Entropy(0.2), seed=1)
    runs = [
        Certified(problem, delta=0.1, seed=s).query(budget=20_000) for s in (3, 3, 4)
    ]
    assert runs[0].interval == runs[1].interval
    assert runs[0].q_values == runs[1].q_values
    assert runs[0].interval != runs[2].interval


def test_compiled_and_python_oracles_agree_to_the_bit():
    """One step as njit over numbers and as plain Python over the same numbers:
    the same draws, bounds and calls.
    """

    def step(state, action, rng):
        shift = 1 if rng.random() < 0.7 else 2
        after = (state + shift * (action + 1)) % 9
        return (1.0 if after == 4 else 0.25), after

    results = []
    for oracle in (step, numba.njit(step)):
        problem = MDP(
            oracle, num_actions=2, discount=0.8, operator=Entropy(0.1), initial_state=0
        )
        results.append(Certified(problem, delta=0.1, seed=5).query(budget=5_000))
    assert results[0].num_calls == results[1].num_calls == 5_000
    # order of discovery may differ, the draws do not
    assert results[0].interval == pytest.approx(results[1].interval, abs=1e-9)


def test_terminated_and_terminal_are_the_same_thing():
    """An end told by the step's third value, by a function, or in tables: the
    same value, and 0 calls in a terminal state.
    """
    P = np.zeros((3, 2, 3))
    P[:, 0, 1], P[:, 0, 0], P[:, 1, 2], P[:, 1, 0] = 0.5, 0.5, 0.3, 0.7
    R = np.zeros((3, 2, 3))
    R[:, :, 2] = 1.0
    table = tabular(
        P, R, discount=0.9, operator=Entropy(0.1), terminal=[False, False, True]
    )
    exact = float(solve(table).values[0])

    def flagged(state, action, rng):
        u = rng.random()
        after = (1 if u < 0.5 else 0) if action == 0 else (2 if u < 0.3 else 0)
        return (1.0 if after == 2 else 0.0), after, after == 2

    def silent(state, action, rng):
        return flagged(state, action, rng)[:2]

    common = {
        "num_actions": 2,
        "discount": 0.9,
        "operator": Entropy(0.1),
        "initial_state": 0,
    }
    problems = [
        table,
        MDP(flagged, terminal=True, **common),
        MDP(silent, terminal=lambda s: s == 2, **common),
        MDP(numba.njit(flagged), terminal=True, **common),
    ]
    for problem in problems:
        check(Certified(problem, delta=0.01).query(epsilon=0.5), exact)
    over = Certified(problems[2], delta=0.01).query(2, epsilon=0.5)
    assert (over.value, over.num_calls, over.action) == (0.0, 0, None)
    for oracle in (flagged, numba.njit(flagged)):
        with pytest.raises(OracleError, match="terminal=True"):
            Certified(MDP(oracle, **common), delta=0.01).query(budget=1_000)


def test_horizon_is_backward_induction():
    """discount 1 and five steps: stages of the exact solver; bounds of every
    (state, steps left) hold.
    """
    problem = garnet(
        states=5, actions=2, discount=1.0, operator=Entropy(0.3), seed=2, horizon=4
    )
    solution = solve(problem)
    memory = Certified(problem, delta=0.01)
    found = memory.query(epsilon=0.3)
    check(found, solution.stages[4][0])
    for row in memory.table():
        exact = solution.stages[row.remaining][row.state]
        assert row.interval[0] - 1e-9 <= exact <= row.interval[1] + 1e-9


def test_legal_actions_vary():
    """Illegal actions are never drawn: policy 0, q NaN, and the value is that
    of the legal ones.
    """
    rng = np.random.default_rng(0)
    legal = np.array([[True, False, True], [True, True, True], [False, True, False]])
    P = rng.dirichlet(np.ones(3), size=(3, 3))
    problem = tabular(
        P, rng.random((3, 3)), discount=0.6, operator=Entropy(0.2), legal=legal
    )
    found = Certified(problem, delta=0.01).query(epsilon=0.2)
    check(found, float(solve(problem).values[0]), solve(problem).q_values[0])
    assert math.isnan(found.q_values[1])
    assert found.policy[1] == 0.0


@pytest.mark.slow
def test_custom_operators_plain_and_compiled():
    """A user's log-sum-exp gives what the built-in gives, as plain Python and
    as njit.
    """

    def value(q):
        return np.log(np.sum(np.exp(q)))

    def gradient(q):
        return np.exp(q) / np.sum(np.exp(q))

    results = []
    for operator in (
        Entropy(1.0),
        CustomOperator(value, gradient, smooth=1.0, sums_to_one=True),
        CustomOperator(
            numba.njit(value), numba.njit(gradient), smooth=1.0, sums_to_one=True
        ),
    ):
        problem = garnet(states=4, actions=2, discount=0.6, operator=operator, seed=1)
        # the default pools unseen outcomes for built-in operators alone
        search = Certified(problem, delta=0.1, bound="betting")
        results.append(search.query(budget=2_000))
    for other in results[1:]:
        assert other.interval == pytest.approx(results[0].interval, abs=1e-9)
        assert other.num_calls == results[0].num_calls
        assert other.standard_error == pytest.approx(results[0].standard_error)


def test_deterministic_problems_cost_one_call_a_pair():
    """Intervals close to rounding, confidence 1 under an assumption that is
    named; checks are the only second draws.
    """
    problem = chain(n=9, discount=0.9, operator=Entropy(0.3))
    exact = float(solve(problem).values[0])
    sure = dataclasses.replace(problem, deterministic=True)
    found = Certified(sure, delta=0.1).query(epsilon=1e-6)
    check(found, exact)
    # 9 states of 2 actions, the first 8 pairs and the 16th twice
    assert found.num_calls <= 18 + 8 + 1
    assert found.certificate.confidence == 1.0
    assert any("deterministic=True" in line for line in found.certificate.assumptions)


def test_sampling_never_reads_the_model():
    """With tables and outcomes poisoned, the search still runs: it only calls
    the oracle.
    """

    def poison(state, action):
        raise AssertionError("the model was read")

    problem = dataclasses.replace(
        garnet(states=6, discount=0.5, operator=Entropy(0.1)), outcomes=poison
    )
    assert Certified(problem, delta=0.1).query(epsilon=0.3).num_calls > 0


def test_budget_seconds_and_callback_stop_with_a_valid_interval():
    """The budget is never exceeded, stops are told in a note, epsilon is then
    what was reached, and bounds are nested.
    """
    problem = garnet(states=10, discount=0.9, operator=Entropy(0.1), seed=4)
    exact = float(solve(problem).values[0])
    for budget in (1, 7, 1_000):
        found = Certified(problem, delta=0.05).query(epsilon=1e-3, budget=budget)
        assert found.num_calls == budget
        assert "budget" in found.notes[0]
        assert found.epsilon == pytest.approx(
            max(high - low for low, high in found.certificate.q_intervals) / 2
        )
        check(found, exact)
    assert (
        "time was up"
        in Certified(problem, delta=0.05).query(epsilon=1e-4, seconds=0.2).notes[0]
    )
    told = []
    stopped = Certified(problem, delta=0.05).query(
        epsilon=1e-4, progress=lambda p: (told.append(p), len(told) < 5)[1]
    )
    assert [news.phase for news in told[:2]] == ["compiling", "inspecting"]
    assert told[2].interval is None  # sampling begins
    assert len(told) == 6
    assert told[-1].phase == "done"
    assert "callback" in stopped.notes[0]
    assert all(
        a.interval[0] <= b.interval[0] and b.interval[1] <= a.interval[1]
        for a, b in pairwise(told[3:])
    )


def test_memory_is_linear_in_what_was_seen():
    """Bytes a pair and outcome stay below a constant while ten thousand states
    are met out of a million.
    """
    problem = MDP(
        numba.njit(lambda s, a, rng: (0.5, rng.integers(1_000_000))),
        num_actions=2,
        discount=0.9,
        operator=Max(),
        initial_state=0,
    )
    memory = Certified(problem, delta=0.1)
    for budget in (500, 3_000, 15_000):
        memory.query(budget=budget)
        seen = (
            memory.memory.num_nodes
            + memory.memory.num_pairs
            + memory.memory.num_entries
        )
        assert memory.memory.num_bytes <= 64 * 1024 + 400 * seen


def test_a_pair_of_a_table_takes_at_most_200_bytes():
    """Nodes, pairs, outcomes, hash tables, streams, the list of states, and every
    Python object that is kept, for a table with three successors per pair.
    """
    rng = np.random.default_rng(4)
    size = 1_500
    P = np.zeros((size, 2, size))
    for row in P.reshape(-1, size):
        row[rng.permutation(size)[:3]] = rng.dirichlet(np.ones(3))
    problem = tabular(P, rng.random((size, 2)), discount=0.9, operator=Max())
    with CERTIFIED.use_form(compiled=True):
        Certified(problem, delta=0.1).query(budget=1_000)  # compiles, and fills caches
        gc.collect()
        tracemalloc.start()
        memory = Certified(problem, delta=0.1)
        found = memory.query(budget=200_000)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found.num_calls == 200_000
    pairs = memory.memory.num_pairs
    assert pairs > 1.9 * size
    # what does not grow with the pairs: the first room of the pool, classes of Python
    # what ran before in the process moves the fixed part by some 20,000 bytes
    assert held <= 200 * pairs + 90_000


def test_a_caller_may_write_into_its_own_array_between_queries():
    def step(state, action, rng):
        return float(rng.random() < 0.5), (state + 1) % 4

    problem = sc.MDP(
        step, num_actions=1, discount=0.5, operator=sc.Max(), initial_state=np.zeros(1)
    )
    memory, here = sc.Certified(problem, delta=0.05), np.zeros(1)
    memory.query(here, epsilon=0.2)
    here[0] = 2.0
    assert memory.query(here, epsilon=0.2).interval[1] >= 1.0
