"""The machines of paths with a learned value: same bits, limits, growth, faults."""

import time

import numba
import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.duality.machines import path_kernel, path_memory
from smoothcruiser.duality.machines.gap_rules import INNER_CALLS, NODES, UPPER, GapRule
from smoothcruiser.duality.machines.path_machines import LOOKAHEAD, build_machine

NO_LIMIT = 10**9
TIMES = np.array([[-50.0, 50.0, -20.0, 20.0, -20.0, 20.0]])
RULES = {
    "horizon": GapRule(0.9, 3, num_inner=4, num_lookahead=2),
    "mirrored": GapRule(0.9, 3, num_inner=4, mirrored=True, walks_every_action=True),
    "killed": GapRule(0.9, 1, fixed=False, num_inner=2, num_lookahead=2),
    "cuts": GapRule(
        0.9, 4, True, False, 2, upper_cut=0.2, lower_cut=0.2, most_nodes=3
    ),
}


class TableCritic:
    """W in an array, for machine code where it may be."""

    def __init__(self, table, *, is_compiled=True):
        self.table, self.is_compiled = table, is_compiled

    def values(self, states, steps_left):
        return self.table[-1][np.array(states)]

    def compiled_parts(self, state_type):
        return (path_kernel.table_value, self.table) if self.is_compiled else None


def make_problem(horizon=None, **more):
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(5, 0.3), size=(5, 3))
    R = rng.normal(size=(5, 3, 5))
    legal = rng.random((5, 3)) < 0.8
    legal[:, 0] = True
    keywords = {"discount": 0.9, "operator": sc.Entropy(0.3), "legal": legal}
    return sc.tabular(P, R, horizon=horizon, **(keywords | more)), legal


def play(compiled, rule, policy=LOOKAHEAD, count=6, **critic):
    problem, _ = make_problem(terminal=[False] * 4 + [True])
    W = np.random.default_rng(4).normal(size=(1, 5))
    machine = build_machine(
        problem, 0, TableCritic(W, **critic), policy, 7, compiled=compiled
    )
    samples = machine.play_paths(0, count, rule, TIMES, NO_LIMIT)
    return machine, samples


def table_policy(legal):
    return legal / legal.sum(axis=1, keepdims=True)


@pytest.mark.compiles
@pytest.mark.parametrize("name", RULES)
def test_three_forms_give_the_same_bits(name):
    _, legal = make_problem()
    rule, table = RULES[name], table_policy(legal)
    policy = LOOKAHEAD if rule.num_lookahead else table
    _, plain = play(False, rule, policy)
    _, compiled = play(True, rule, policy)
    _, mixed = play(True, rule, policy, is_compiled=False)
    assert np.array_equal(plain, compiled, equal_nan=True)
    assert np.array_equal(plain, mixed, equal_nan=True)
    if policy is table:
        _, walks = play(False, rule, lambda: lambda state, action: table[state])
        assert np.array_equal(plain, walks, equal_nan=True)


class WordCritic:
    """W of a user, with an array and a number as its data."""

    def __init__(self, *, is_compiled=True):
        self.data = (np.array([0.3, -0.2, 0.7]), 0.5)
        self.is_compiled = is_compiled

    def values(self, states, steps_left):
        return [worth.py_func(self.data, steps_left, s) for s in states]

    def compiled_parts(self, state_type):
        return (worth, self.data) if self.is_compiled else None


@numba.njit
def worth(data, steps_left, state):
    table, scale = data
    return table[state[0] % 3] + scale * state[1]


@numba.njit
def drift(state, action, rng):
    if action == 7:
        raise ValueError("no such action")
    n, x = state
    return 0.1 * action * x, ((n + action) % 5, 0.5 * x + rng.normal()), x > 2.0


@numba.njit
def mover(state):
    return 1 + state[0] % 2


@numba.njit
def is_allowed(state, action):
    return action < 2 or state[0] > 1


@pytest.mark.compiles
def test_a_users_step_gives_the_same_bits_in_three_forms():
    """A game, with ends, legal actions, a policy in Python and W with data."""
    game = sc.Game(
        drift, player=mover, num_actions=3, discount=0.9, operator=sc.Entropy(0.3),
        initial_state=(2, 0.0), reward_range=(-9.0, 9.0), legal=is_allowed,
        terminal=numba.njit(lambda state: state[1] < -2.0),
    )  # fmt: skip
    rule = GapRule(0.9, 3, True, False, 2, lower_cut=0.5, walks_every_action=True)

    def start_walk():
        return lambda state, action: None if action == 1 else [0.5, 0.5, 0.0]

    forms = []
    for policy in (LOOKAHEAD, start_walk):
        own_rule = rule._replace(num_lookahead=2 if policy is LOOKAHEAD else 0)
        for compiled, is_compiled in ((False, False), (True, True), (True, False)):
            critic = WordCritic(is_compiled=is_compiled)
            machine = build_machine(
                game, (2, 0.0), critic, policy, 7, compiled=compiled
            )
            forms.append(machine.play_paths(0, 5, own_rule, TIMES, NO_LIMIT))
            machine.close()
    for plain, *others in (forms[:3], forms[3:]):
        for samples in others:
            assert np.array_equal(plain, samples, equal_nan=True)


def fail(state, action):
    raise RuntimeError("a policy's own error")


@pytest.mark.compiles
def test_errors_in_python_and_in_machine_code_arrive():
    with pytest.raises(RuntimeError, match="own error"):
        play(True, RULES["horizon"]._replace(num_lookahead=0), lambda: fail)
    problem, _ = make_problem()
    critic = TableCritic(np.array([[0.0, 0.0, np.nan, np.inf, 0.0]]))
    machine = build_machine(problem, 0, critic, None, 7, compiled=True)
    with pytest.raises(sc.InvalidInput, match="finite number"):
        machine.play_paths(0, 20, RULES["horizon"], TIMES, NO_LIMIT)
    bad = sc.MDP(
        drift, num_actions=8, discount=0.9, operator=sc.Max(), horizon=3,
        initial_state=(2, 0.0), reward_range=(-9.0, 9.0), terminal=numba.njit(lambda state: False),
    )  # fmt: skip
    machine = build_machine(bad, (2, 0.0), WordCritic(), None, 7, compiled=True)
    with pytest.raises(sc.OracleError, match="no such action"):
        machine.play_paths(0, 1, RULES["horizon"], TIMES, NO_LIMIT)


def test_a_path_is_known_by_its_number(monkeypatch):
    """Blocks, twins and small memory change nothing; pilot paths are others."""
    rule = RULES["horizon"]
    machine, samples = play(False, rule)
    twin = machine.twin()
    later = twin.play_paths(2, 3, rule, TIMES, NO_LIMIT)
    assert np.array_equal(later, samples[2:5], equal_nan=True)
    assert not np.array_equal(
        twin.play_paths(0, 6, rule, TIMES, NO_LIMIT, pilot=True), samples
    )
    monkeypatch.setattr(path_memory, "FIRST_NODES", 4)
    small, same = play(False, rule)
    assert np.array_equal(same, samples, equal_nan=True)
    assert len(small.memory.graph.scores) > 4


def test_a_path_that_a_limit_ends_is_dropped_and_none_follows():
    rule = RULES["horizon"]
    machine, samples = play(False, rule)
    calls = samples[:, 3:7].sum(axis=1)
    assert machine.calls == calls.sum()
    budget = int(calls[:2].sum() + calls[2] // 2)
    short = machine.twin().play_paths(0, 6, rule, TIMES, budget)
    assert np.array_equal(short, samples[:2], equal_nan=True)
    late = machine.twin()
    late.deadline = time.perf_counter() - 1.0
    assert len(late.play_paths(0, 6, rule, TIMES, NO_LIMIT)) == 0


def test_a_value_that_is_not_finite_is_refused_with_its_state():
    problem, _ = make_problem()
    critic = TableCritic(np.array([[0.0, 0.0, np.nan, np.inf, 0.0]]))
    machine = build_machine(problem, 0, critic, None, 7, compiled=False)
    with pytest.raises(sc.InvalidInput, match="finite number"):
        machine.play_paths(0, 20, RULES["horizon"], TIMES, NO_LIMIT)


def test_layers_of_equal_states_are_merged():
    _, samples = play(False, RULES["horizon"])
    assert samples[:, NODES].max() <= 1 + 4 * 2  # four states that are no ends
    assert np.isfinite(samples[:, UPPER]).all()
    assert (samples[:, INNER_CALLS] > 0).all()
