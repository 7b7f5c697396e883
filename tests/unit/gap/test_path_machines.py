"""The machines of paths with a learned value: same bits, limits, growth, faults."""

import time

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
