"""Rows of paths as numbers about V, the policy and the actions, whoever is relaxed.

A pass is a run of paths with one relaxed player. Player 1's U bounds V from above and
the walk of the policy from below; for player 2 it is the other way round. A game has
both passes over the same noise: U of one bounds V from above, U of the other from below.

  ``upper``, ``lower``      means at least, at most, V(state)
  ``policy_upper, _lower``  means at least, at most, the value of the policy
  ``q_upper, q_lower``      the same for each legal action
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.duality.machines.gap_rules import (
    CUT_NODES,
    INNER_CALLS,
    LOOKAHEAD_CALLS,
    LOWER,
    NODES,
    NOISE_CALLS,
    POLICY_UPPER,
    UPPER,
    WALK_CALLS,
    GapRule,
    upper_columns,
    walk_columns,
)
from smoothcruiser.duality.machines.path_machines import PathCritic, PathMachine
from smoothcruiser.duality.runs.mixture_bounds import share_delta
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Promise

Floats = NDArray[np.float64]

MOST_PAIRED = 128  # columns whose covariances are kept
CALL_COLUMNS = {
    "noise": NOISE_CALLS,
    "inner": INNER_CALLS,
    "walk": WALK_CALLS,
    "lookahead": LOOKAHEAD_CALLS,
}


# the interval's part of each side of delta, where epsilon is about V alone
VALUE_SHARE = 0.8


@dataclass(frozen=True)
class PathRequest:
    """A request for paths; ``critic`` changes where W is fitted anew."""

    problem: Problem
    state: Any
    steps_left: int | None  # None: no horizon
    critic: PathCritic
    delta: float
    promise: Promise
    players: tuple[int, ...] = (1,)  # relaxed: (1,), (2,) or (1, 2)
    has_policy: bool = True  # statements about the policy are wanted
    wants_actions: bool = True
    has_outcomes: bool = False  # exact means over known outcomes are possible
    num_lookahead: int = 0  # of a policy that is greedy on W
    num_inner: int | None = None  # m; None: the pilot chooses it
    seed: int = 0

    @property
    def legal(self) -> tuple[int, ...]:
        """The legal actions of the state, if statements about them are wanted."""
        if not self.wants_actions:
            return ()
        return tuple(self.problem.legal_actions(self.state))

    @property
    def is_game(self) -> bool:
        """Whether both players are relaxed, one after the other."""
        return len(self.players) > 1

    @property
    def shares(self) -> dict[str, float]:
        """The failure probabilities of the statements (``share_delta``)."""
        return share_delta(
            self.delta,
            has_policy=self.has_policy,
            num_actions=len(self.legal),
            is_game=self.is_game,
            value_share=VALUE_SHARE if self.promise.target == "value" else None,
        )


def play_tables(
    machine: PathMachine,
    first: int,
    count: int,
    rules: Sequence[GapRule],
    times: Floats,
    calls: int,
    *,
    pilot: bool = False,
) -> list[Floats]:
    """The rows of the same paths under each rule, with ``calls`` calls at the most.

    Paths that a limit ended under any of the rules are in none of the tables.
    """
    last_call, tables = machine.calls + calls, []
    for rule in rules:
        left = last_call - machine.calls
        rows = machine.play_paths(first, count, rule, times, left, pilot=pilot)
        tables.append(rows)
        count = len(rows)
    return [table[:count] for table in tables]


class PathSamples(NamedTuple):
    """Numbers of n paths."""

    upper: Floats
    lower: Floats
    policy_upper: Floats
    policy_lower: Floats
    q_upper: Floats  # (n, legal actions)
    q_lower: Floats
    calls: Floats  # (n,), all passes and roles
    role_calls: Floats  # (roles,)
    nodes: Floats
    is_cut: NDArray[np.bool_]


def read_samples(task: PathRequest, tables: Sequence[Floats]) -> PathSamples:
    """The numbers of the same paths in ``tables``, one for each relaxed player."""
    num_actions, legal = task.problem.num_actions, list(task.legal)
    first = tables[0]
    above = first[:, upper_columns(num_actions)][:, legal]
    walks = first[:, walk_columns(num_actions)][:, legal]
    walk_low, walk_high = first[:, LOWER], first[:, POLICY_UPPER]
    if task.is_game:
        second = tables[1]
        below = second[:, upper_columns(num_actions)][:, legal]
        ends = (first[:, UPPER], second[:, UPPER])
        q_ends = (above, below)
    elif task.players == (1,):
        ends, q_ends = (first[:, UPPER], walk_low), (above, walks)
    else:
        ends, q_ends = (walk_high, first[:, UPPER]), (walks, above)
    role_calls = [
        sum(float(table[:, column].sum()) for table in tables)
        for column in CALL_COLUMNS.values()
    ]
    return PathSamples(
        *ends,
        walk_high,
        walk_low,
        *q_ends,
        sum_calls(tables),
        np.array(role_calls),
        np.sum([table[:, NODES] for table in tables], axis=0),
        np.any([table[:, CUT_NODES] > 0 for table in tables], axis=0),
    )


def sum_calls(tables: Sequence[Floats]) -> Floats:
    """The calls of each path, over all passes and roles."""
    columns = list(CALL_COLUMNS.values())
    total: Floats = np.sum([table[:, columns].sum(axis=1) for table in tables], axis=0)
    return total


class RunningMoments:
    """Means and covariances of columns, batch by batch.

    Beyond ``MOST_PAIRED`` columns only variances are kept.
    """

    def __init__(self, num_columns: int) -> None:
        self.count = 0
        self.means = np.zeros(num_columns)
        self.squares = np.zeros(num_columns)
        is_paired = num_columns <= MOST_PAIRED
        self.products = np.zeros((num_columns, num_columns)) if is_paired else None

    def add(self, samples: Floats) -> None:
        """Take the rows of ``samples`` in; sums of products, without BLAS."""
        if not len(samples):
            return
        count, before = len(samples), self.count
        self.count += count
        means = samples.mean(axis=0)
        deviations, shift = samples - means, means - self.means
        weight = before * count / self.count
        self.squares += (deviations * deviations).sum(axis=0) + weight * shift * shift
        if self.products is not None:
            for column in range(len(means)):
                self.products[column] += (
                    deviations[:, column, None] * deviations
                ).sum(0)
            self.products += weight * np.multiply.outer(shift, shift)
        self.means = self.means + shift * (count / self.count)

    def covariances(self) -> Floats | None:
        """The usual estimates, 0 below two samples; None where there are too many."""
        if self.products is None:
            return None
        return self.products / max(1, self.count - 1)

    def standard_errors(self) -> Floats:
        """The standard errors of the means."""
        variances = self.squares / max(1, self.count - 1)
        errors: Floats = np.sqrt(variances / max(1, self.count))
        return errors
