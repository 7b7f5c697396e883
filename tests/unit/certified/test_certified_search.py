"""Certified search end to end: intervals against exact values, every kind of
problem, stops, warm starts, errors.
"""

import dataclasses
import gc
import json
import math
import subprocess
import sys
import tracemalloc
from itertools import pairwise, product

import numba
import numpy as np
import pytest
from worlds import COMMON, mdp

import smoothcruiser as sc
from smoothcruiser.certified.sampling.step_loops import TABLE_LOOPS
from smoothcruiser.certified.search_answer import policy_loss
from smoothcruiser.certified.state_table import queried_estimates
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED

pytestmark = pytest.mark.compiles


OPERATORS = [
    sc.Entropy(0.2),
    sc.KL(0.2, prior=(0.5, 0.3, 0.2)),
    sc.Sparsemax(0.5),
    sc.SquareRoot(0.3),
    sc.Max(),
]


def check(estimate, value, q=None, slack=1e-9):
    """The exact value and action values lie in the certified intervals."""
    assert estimate.interval[0] - slack <= value <= estimate.interval[1] + slack
    for (low, high), exact in zip(
        estimate.certificate.q_intervals, () if q is None else q, strict=False
    ):
        assert math.isnan(exact) == math.isnan(low)
        assert math.isnan(exact) or low - slack <= exact <= high + slack


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
@pytest.mark.parametrize("name", ["garnet", "random-game"])
def test_promise_is_reached_and_kept(name, operator):
    """Half-widths of all intervals are at most epsilon, exact values lie
    inside, policy and certificate fit together.
    """
    problem = sc.make(f"{name}:states=8,seed=3", discount=0.7, operator=operator)
    solution = sc.solve(problem)
    found = sc.Certified(problem, delta=0.01, seed=1).query(epsilon=0.25)
    check(found, solution.values[0], solution.q_values[0])
    assert all(
        high - low <= 0.5 + 1e-12 for low, high in found.certificate.q_intervals
    )
    assert found.interval[1] - found.interval[0] <= 0.5 + 1e-12
    assert abs(found.value - solution.values[0]) <= 0.25
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.epsilon == 0.25
    assert found.certificate.confidence == 0.99
    assert found.certificate.kind == "search"
    assert sum(found.policy) == pytest.approx(1.0)
    player, q = problem.mover(0), solution.q_values[0]
    sign = 1 if player == 1 else -1
    assert int(np.argmax(sign * q)) in found.certificate.best_actions
    loss = operator.value(q, player=player) - np.dot(found.policy, q)
    regularizer = operator.value(found.q_values, player=player)
    regularizer -= np.dot(found.policy, found.q_values)
    assert -1e-9 <= sign * (loss - regularizer) <= found.certificate.policy_loss


def test_terminated_and_terminal_are_the_same_thing():
    """An end told by the step's third value, by a function, or in tables: the
    same value, and 0 calls in a terminal state.
    """
    P = np.zeros((3, 2, 3))
    P[:, 0, 1], P[:, 0, 0], P[:, 1, 2], P[:, 1, 0] = 0.5, 0.5, 0.3, 0.7
    R = np.zeros((3, 2, 3))
    R[:, :, 2] = 1.0
    table = sc.tabular(
        P, R, discount=0.9, operator=sc.Entropy(0.1), terminal=[False, False, True]
    )
    exact = float(sc.solve(table).values[0])

    def flagged(state, action, rng):
        u = rng.random()
        after = (1 if u < 0.5 else 0) if action == 0 else (2 if u < 0.3 else 0)
        return (1.0 if after == 2 else 0.0), after, after == 2

    def silent(state, action, rng):
        return flagged(state, action, rng)[:2]

    common = {"discount": 0.9, "operator": sc.Entropy(0.1)}
    problems = [
        table,
        mdp(flagged, terminal=True, **common),
        mdp(silent, terminal=lambda s: s == 2, **common),
        mdp(numba.njit(flagged), terminal=True, **common),
    ]
    for problem in problems:
        check(sc.Certified(problem, delta=0.01).query(epsilon=0.5), exact)
    over = sc.Certified(problems[2], delta=0.01).query(2, epsilon=0.5)
    assert (over.value, over.num_calls, over.action) == (0.0, 0, None)
    for oracle in (flagged, numba.njit(flagged)):
        with pytest.raises(sc.OracleError, match="terminal=True"):
            sc.Certified(mdp(oracle, **common), delta=0.01).query(budget=1_000)


def test_deterministic_problems_cost_one_call_a_pair():
    """Intervals close to rounding, confidence 1 under an assumption that is
    named; checks are the only second draws.
    """
    problem = sc.make("chain:n=9", discount=0.9, temperature=0.3)
    exact = float(sc.solve(problem).values[0])
    sure = dataclasses.replace(problem, deterministic=True)
    found = sc.Certified(sure, delta=0.1).query(epsilon=1e-6)
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
        sc.make("garnet:states=6", discount=0.5, temperature=0.1), outcomes=poison
    )
    assert sc.Certified(problem, delta=0.1).query(epsilon=0.3).num_calls > 0


def test_budget_seconds_and_callback_stop_with_a_valid_interval():
    """The budget is never exceeded, stops are told in a note, epsilon is then
    what was reached, and bounds are nested.
    """
    problem = sc.make("garnet:states=10,seed=4", discount=0.9, temperature=0.1)
    exact = float(sc.solve(problem).values[0])
    for budget in (1, 7, 1_000):
        found = sc.Certified(problem, delta=0.05).query(epsilon=1e-3, budget=budget)
        assert found.num_calls == budget
        assert "budget" in found.notes[0]
        assert found.epsilon == pytest.approx(
            max(high - low for low, high in found.certificate.q_intervals) / 2
        )
        check(found, exact)
    late = sc.Certified(problem, delta=0.05).query(epsilon=1e-4, seconds=0.2)
    assert "time was up" in late.notes[0]
    told = []
    stopped = sc.Certified(problem, delta=0.05).query(
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


def test_a_pair_of_a_table_takes_at_most_200_bytes():
    """Nodes, pairs, outcomes, hash tables, streams, the list of states, and every
    Python object that is kept, for a table with three successors per pair.
    """
    rng = np.random.default_rng(4)
    size = 1_500
    P = np.zeros((size, 2, size))
    for row in P.reshape(-1, size):
        row[rng.permutation(size)[:3]] = rng.dirichlet(np.ones(3))
    problem = sc.tabular(P, rng.random((size, 2)), discount=0.9, operator=sc.Max())
    with (
        CERTIFIED.use_form(compiled=True),
        TABLE_LOOPS.use_form(
            compiled=True
        ),  # the other keeps some streams, 350 bytes each
    ):
        sc.Certified(problem, delta=0.1).query(budget=200_000)  # compiles all of it
        gc.collect()
        tracemalloc.start()
        memory = sc.Certified(problem, delta=0.1)
        found = memory.query(budget=200_000)
        gc.collect()
        # what Numba's entries allocate for calls of code compiled in this very process
        entries = [
            tracemalloc.Filter(False, f"*/jit/{n}.py") for n in ("forms", "library")
        ]
        traces = tracemalloc.take_snapshot().filter_traces(entries)
        held = sum(trace.size for trace in traces.traces)
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

    problem = mdp(step, num_actions=1, operator=sc.Max(), initial_state=np.zeros(1))
    memory, here = sc.Certified(problem, delta=0.05), np.zeros(1)
    memory.query(here, epsilon=0.2)
    here[0] = 2.0
    assert memory.query(here, epsilon=0.2).interval[1] >= 1.0


def test_policy_loss_bounds_every_point_of_the_box():
    """The loss at 300 random points of a box, for all operators and both
    players, stays below the bound, which a corner attains.
    """
    rng = np.random.default_rng(0)
    for operator, player in product(OPERATORS, (1, 2)):
        weights = operator.weights(3)
        low, width = rng.normal(size=3), rng.random(3)
        middle = (
            low + rng.random(3) * width
        )  # the estimate may lie anywhere in the box
        boxes = list(zip(low, low + width, strict=True))
        bound = policy_loss(operator, boxes, list(middle), player, weights)
        how = {"player": player, "weights": weights}
        policy, value = operator.gradient(middle, **how), operator.value(middle, **how)
        losses = []
        for _ in range(300):
            corner, inside = rng.integers(2, size=3), rng.random(3)
            q = low + width * np.where(rng.random(3) < 0.5, corner, inside)
            loss = operator.value(q, **how) - value - np.dot(policy, q - middle)
            losses.append(loss if player == 1 else -loss)
        assert min(losses) >= -1e-9
        assert max(losses) <= bound
        assert max(losses) >= 0.5 * bound - 1e-12
    assert policy_loss(sc.Max(), [(0.0, 1.0)], [0.5], 1, [1.0]) == 0.0


@pytest.mark.parametrize(("player", "best"), [(1, (3, 4)), (2, (1,))])
def test_actions_that_may_be_best_are_named_by_their_numbers(player, best):
    """Action 0 is illegal, so places and numbers differ; rewards are sure, and
    two actions tie for player 1.
    """
    rewards = (9.0, 0.1, 0.5, 0.9, 0.9)
    facts = COMMON | {"num_actions": 5, "operator": sc.Max(), "horizon": 1}
    problem = sc.Game(
        lambda state, action, rng: (rewards[action], state),
        deterministic=True,
        legal=lambda state, action: action > 0,
        player=lambda state: player,
        **facts,
    )
    found = sc.plan(problem, method="certified", epsilon=0.05, delta=0.1)
    assert found.certificate.best_actions == best
    assert found.action == best[0]
    assert found.q_values[1:] == pytest.approx(rewards[1:], abs=1e-9)


def test_numbers_fit_json():
    """Beyond 2**53 a count is null and its logarithm stays; below, both are there."""
    problem = sc.make("garnet", discount=0.9, temperature=0.1)
    asked = {"delta": 0.1, "method": "certified"}
    outlooks = [sc.explain(problem, epsilon=e, **asked) for e in (1.0, 1e-3)]
    small, large = (outlook.to_dict()["bounds"][-1] for outlook in outlooks)
    assert 10.0 ** small["log10_most_calls"] == pytest.approx(small["most_calls"])
    assert large["most_calls"] is None
    assert large["log10_most_calls"] > math.log10(2**53)


def test_it_answers_without_numba():
    code = (
        "import sys, smoothcruiser as sc; p = sc.make('garnet', discount=0.9, "
        "temperature=0.1);str(sc.explain(p, epsilon='5%', delta=0.1, "
        "method='certified')); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def asked():
    problem = sc.make("garnet:states=8,actions=3,seed=2", discount=0.5, temperature=1)
    memory = sc.Certified(problem, delta=0.1)
    estimate = memory.query(0, epsilon=0.3)
    return problem, memory, estimate


def assert_holds(rows, exact):
    """All intervals of (state, interval, boxes) have the exact values in them."""
    for state, (low, high), boxes in rows:
        assert low <= exact.values[state] <= high
        for q, (low, high) in zip(exact.q_values[state], boxes, strict=True):
            assert low <= q <= high


def holding(answers):
    return [(x.state, x.interval, x.certificate.q_intervals) for x in answers]


def test_rows_have_the_bounds_of_the_queries_and_hold(asked):
    problem, memory, estimate = asked
    table, exact = memory.table(), sc.solve(problem)
    assert sum(sum(row.samples) for row in table) == table.num_calls
    assert len(table) == memory.memory.num_nodes - 1
    row = table.at(0)
    assert row == table[0]
    assert row.interval == estimate.interval
    assert row.q_intervals == estimate.certificate.q_intervals
    assert row.policy == pytest.approx(estimate.policy, abs=0.02)
    # the query's own value was brought within epsilon of both ends
    assert row.value == pytest.approx(estimate.value, abs=0.05)
    assert row.action == estimate.action
    assert table.confidence == 0.9
    assert_holds([(row.state, row.interval, row.q_intervals) for row in table], exact)


def test_a_table_keeps_what_it_was_made_of(asked):
    problem, _, _ = asked
    memory = sc.Certified(problem, delta=0.1)
    memory.query(0, budget=200)
    table = memory.table()
    before = table.at(0)
    memory.query(0, budget=2000)
    assert table.at(0) == before
    now = memory.table().at(0)
    assert now.interval[1] - now.interval[0] < before.interval[1] - before.interval[0]


def test_a_horizon_counts_the_steps_left():
    """A state stands in the table once for every number of steps it was met with."""

    def step(state, action, rng):
        return float(rng.random() < 0.5), (state + action) % 2

    problem = mdp(
        step, discount=1.0, operator=sc.Max(), reward_range=(0, 1), horizon=3
    )
    memory = sc.Certified(problem, delta=0.1)
    memory.query(0, epsilon=0.5)
    table = memory.table()
    assert {row.remaining for row in table} == {1, 2, 3}
    assert table.at(0).remaining == 3
    for left in (1, 2, 3):
        low, high = table.at(0, left).interval
        assert low <= 0.5 * left <= high
    with pytest.raises(sc.InvalidInput, match="never seen"):
        table.at(1, 3)


def test_movers_and_illegal_actions_are_shown():
    """A game of arrays: player 2 may only pass, and states are found by value."""

    def step(state, action, rng):
        return float(rng.random() < 0.3 + 0.4 * action), np.array([1 - state[0]])

    problem = sc.Game(
        step,
        reward_range=(0, 1),
        legal=lambda state, action: action == 0 or state[0] == 0,
        player=lambda state: 2 if state[0] else 1,
        **COMMON | {"initial_state": np.array([0])},
    )
    memory = sc.Certified(problem, delta=0.1)
    memory.query(epsilon=0.4)
    table = memory.table()
    second = table.at(np.array([1]))
    assert (table.at(np.array([0])).player, second.player) == (1, 2)
    assert second.policy == (1.0, 0.0)
    assert math.isnan(second.q_intervals[1][0])
    assert second.samples[1] == 0
    assert np.array([1]) in table
    assert np.array([7]) not in table


def test_a_table_is_data_and_says_what_is_wrong(asked):
    _, memory, _ = asked
    table = memory.table()
    data = json.loads(table.to_json())
    assert data["confidence"] == 0.9
    assert data["rows"][0]["state"] == 0
    assert "states=8" in repr(table)
    assert "8 states" in str(table)
    with pytest.raises(sc.InvalidInput, match="no horizon"):
        table.at(0, 2)
    with pytest.raises(IndexError):
        table[8]
    assert table[-1] == table[7]
    assert [row.state for row in table[:2]] == [table[0].state, table[1].state]


@pytest.fixture(scope="module")
def three_steps():
    rng = np.random.default_rng(5)
    moves = rng.dirichlet([0.5] * 5, size=(5, 3))
    rewards = 3.0 * rng.random((5, 3)) - 4.0
    problem = sc.tabular(moves, rewards, discount=1.0, operator=sc.Max(), horizon=3)
    return problem, sc.solve(problem)


def test_with_a_horizon_the_page_has_action_values_with_all_steps_left(three_steps):
    """Sweeps of later queries leave those with fewer steps left in the memory."""
    problem, exact = three_steps
    memory = sc.Certified(problem, delta=0.001)
    last = [memory.query(state, epsilon=0.3) for state in range(4)][-1]
    answers = queried_estimates(memory)
    assert_holds(holding(answers), exact)
    assert answers[-1].certificate.q_intervals == last.certificate.q_intervals
    assert answers[-1].interval == last.interval


@pytest.mark.parametrize("reports", range(3, 12, 2))
def test_with_a_horizon_many_states_hold_wherever_they_are_stopped(
    three_steps, reports
):
    problem, exact = three_steps
    left = iter(range(reports))
    asked = {"method": "certified", "epsilon": 0.1, "delta": 0.001}
    stop = lambda news: next(left, None) is not None  # noqa: E731
    answers = sc.plan_many(problem, range(4), progress=stop, **asked)
    assert_holds(holding(answers), exact)
