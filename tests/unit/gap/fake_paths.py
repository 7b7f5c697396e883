"""A path machine that plays no steps: rows of a law, for tests of what reads them."""

import time

import numpy as np

from smoothcruiser.duality.machines.gap_rules import (
    DEEPEST,
    FIRST_ACTION,
    INNER_CALLS,
    LOWER,
    NODES,
    NOISE_CALLS,
    POLICY_UPPER,
    SCORE_HIGH,
    SCORE_LOW,
    STEPS,
    UPPER,
    W_HIGH,
    W_LOW,
    WALK_SCORE_HIGH,
    WALK_SCORE_LOW,
    count_columns,
)


class FakeCritic:
    """A constant W."""

    def __init__(self, value=0.0):
        self.value = value

    def values(self, states, steps_left):
        return np.full(len(states), self.value)


class FakeMachine:
    """Rows whose U is ``law(rng)``, of a path's own numbers.

    A path costs ``cost(upper)`` calls, and sleeps ``sleep(upper)`` seconds.
    """

    name = "reference"
    deadline = np.inf
    looks, doubts, notes, assumed = 0, "", (), ()

    def __init__(self, law, num_actions=1, cost=lambda u: 10, sleep=None, loss=0.0):
        self.law, self.num_actions, self.cost = law, num_actions, cost
        self.sleep, self.loss, self.calls = sleep, loss, 0
        self.asked, self.critics = [], []
        self.value_spans = np.zeros((1, 2))

    def play_paths(self, first, count, rule, times, most_calls, *, pilot=False):
        self.asked.append((first, count, pilot))
        self.value_spans = np.zeros((len(times), 2))
        calls_before, rows = self.calls, []
        for path in range(first, first + count):
            row = np.zeros(count_columns(self.num_actions))
            upper = self.law(np.random.default_rng((path, pilot)))
            lower = upper - self.loss
            cost = self.cost(upper)
            if cost > most_calls - (self.calls - calls_before):
                self.calls = calls_before + most_calls
                break
            self.calls += cost
            if self.sleep is not None:
                time.sleep(self.sleep(upper))
            if time.perf_counter() > self.deadline:
                break
            row[[UPPER, LOWER, POLICY_UPPER]] = upper, lower, lower
            row[FIRST_ACTION : FIRST_ACTION + self.num_actions] = upper
            row[FIRST_ACTION + self.num_actions :] = lower
            row[NOISE_CALLS], row[INNER_CALLS], row[NODES] = 1, cost - 1, 1
            row[[DEEPEST, STEPS]] = 1
            row[[SCORE_HIGH, WALK_SCORE_HIGH]] = 0.1
            row[[SCORE_LOW, WALK_SCORE_LOW]] = -0.1
            row[[W_LOW, W_HIGH]] = 0.0, 0.0
            rows.append(row)
        return np.array(rows).reshape(len(rows), count_columns(self.num_actions))

    def twin(self):
        twin = type(self)(self.law, self.num_actions, self.cost, self.sleep, self.loss)
        twin.name, twin.deadline = self.name, self.deadline
        return twin

    def replace_critic(self, critic):
        self.critics.append(critic)

    def close(self):
        pass
