"""Paths of changing policies, and the lower bound on V that they give together.

    E[X_i | past] <= V_{pi_i}(s0) <= V(s0)

for a killed path X_i (``evaluation.path_rules``) of a policy pi_i that is chosen from
the past. So the product of bets (``evaluation.path_fitting.MeanBound``) bounds V at
every count at once, though policy, rule and pole change from block to block. Proof:
docs/certified.md, section 2c.

A block has a number of paths that is fixed before it begins, and a stream of its own. A
limit that interrupts a path ends its *generation*: the path is long more often than not,
so that nothing may follow it. A longer run begins a new generation, with a share of
alpha of its own; V is above all of their bounds.

legend   symbol      name
  alpha              of all generations: 0.9, 0.09, ... of it for each

This file leaves out when a block is played, and by which policy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.evaluation.path_fitting import (
    Fit,
    MeanBound,
    Stakes,
    Worth,
    forecast_width,
)
from smoothcruiser.evaluation.path_rules import (
    COLUMNS,
    LOWER,
    PathRule,
    X,
    check_totals,
)
from smoothcruiser.evaluation.rollouts import Rollouts
from smoothcruiser.jit.random import COIN, Key
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.problem import Problem

GENERATION_SHARE = 0.9  # of alpha that is left, for each generation
PILOT_PATHS, FEWEST_PILOTS = 24, 8  # of each head that a pilot compares
PILOT_SHARE = 0.1  # of the first block, for a pilot of further heads
FEWEST_PATHS = 8  # below which no error is usual
FEW_PATHS = 64  # below which their mean is no forecast
FIRST_BATCH, MOST_BATCH = 16, 2**18  # paths between two looks at the limits
LEAST_PATHS, NEEDED_RATIO = 16, 1.05  # of a block, and from one forecast to the next
AIMED_RATIO = 2.0  # paths in the end by those of now, where no budget tells

# the numbers that a snapshot keeps, beside those of the bound and of the fit
SUMS = (
    *("num_blocks", "num_calls", "generation", "is_closed", "best_low"),
    *("count", "mean", "squares", "lost", "head"),
)
BOUND = ("low", "poles", "counts", "logs", "size", "batches")


class PolicyPaths:
    """The paths of one start, by policies that change from block to block."""

    def __init__(self, problem: Problem, seed: int, alpha: float) -> None:
        self.problem, self.seed, self.alpha = problem, seed, alpha
        self.stakes = Stakes(problem, None)  # of the block under way, with its W
        self.worth_seen = math.inf, -math.inf  # W on the last paths
        self.num_blocks, self.num_calls = 0, 0
        self.generation, self.is_closed = 0, False
        self.best_low = self.stakes.values[0]  # of the generations that are over
        self.count, self.mean, self.squares = 0, 0.0, 0.0  # of X
        self.lost = 0.0  # sum of its possible rounding errors
        self.head, self.fit = 0, self.stakes.first_fit(0)
        self.bound = self._new_bound()

    def _new_bound(self) -> MeanBound:
        """The bound of a generation, with its share of alpha."""
        share = GENERATION_SHARE * (1.0 - GENERATION_SHARE) ** self.generation
        return MeanBound(share * self.alpha, *self.stakes.values)

    @property
    def low(self) -> float:
        """The lower bound on V by all paths so far."""
        return max(self.best_low, self.bound.low)

    @property
    def standard_error(self) -> float | None:
        """The usual error of the mean; None where too few paths are known."""
        if self.count < FEWEST_PATHS:
            return None
        variance = self.squares / (self.count - 1)
        return math.sqrt(variance / self.count) + self.lost / self.count

    @property
    def likely_mean(self) -> float:
        """The mean of the paths; of few paths W at the start."""
        return self._fit_of_all().mean

    def forecast_low(self, more_calls: float) -> float:
        """The bound after ``more_calls`` calls, about."""
        fit, level = self._fit_of_all(), self.bound.level
        num_paths = max(1.0, sum(self.bound.counts) + more_calls / fit.steps)
        rule = self.stakes.rule(self.head, fit, num_paths, level)
        reach = fit.mean - self.stakes.range_of(rule)[0]
        return fit.mean - forecast_width(reach, fit.sd, num_paths, level)

    def _fit_of_all(self) -> Fit:
        """The last fit, with the mean and the deviation of all paths.

        The mean of few paths is worse a guess than W at the start.
        """
        if self.count < FEW_PATHS:
            worth = self.stakes.worth
            start = self.fit.mean if worth is None else worth.start
            return self.fit._replace(mean=self.stakes.clip_value(start))
        sd = math.sqrt(self.squares / (self.count - 1))
        return self.fit._replace(mean=self.mean, sd=max(sd, self.fit.sd))

    def calls_needed(self, low: float, most_calls: int) -> int:
        """The calls that bring the bound to ``low``, about; at most ``most_calls``."""
        calls = LEAST_PATHS * max(1.0, self.fit.steps)
        while calls < most_calls and self.forecast_low(calls) < low:
            calls *= NEEDED_RATIO
        return min(most_calls, math.ceil(calls))

    # --- blocks -----------------------------------------------------------------

    def play_block(
        self,
        rollouts: Any,
        worth: Worth,
        calls: int,
        calls_left: int,
        find_stop: Callable[[], str | None],
    ) -> tuple[str | None, PathBlock]:
        """Play a block of about ``calls`` calls; (why it was stopped, the block).

        The first one is a pilot, which chooses the rule and is not bet on.
        ``worth`` is that of the control variate, which ``rollouts`` carry.
        Nothing counts before ``take_block``. ``calls_left`` is a limit.
        ``find_stop`` is called from time to time.
        """
        if self.is_closed:
            self._begin_generation()
        self.stakes = Stakes(self.problem, None, worth)
        self.stakes.worth_seen = self.worth_seen
        keys = Key.SEARCH_PATHS, self.num_blocks
        rollouts.rng = stream(self.seed, *keys)
        rollouts.coins = stream(self.seed, *keys, COIN)
        block = PathBlock(self.problem, rollouts, rollouts.calls + calls_left)
        if self.num_blocks == 0:
            self.fit = self.stakes.first_fit(0)
            self._pilot(block, calls)
            return find_stop(), block
        num_paths = int(calls / max(1.0, self.fit.steps))
        path_calls = self.num_calls + calls_left
        most_paths = self.count + path_calls / max(1.0, self.fit.steps)
        aimed_paths = min(AIMED_RATIO * (self.count + num_paths), most_paths)
        block.begin(self._begin_era(max(1.0, aimed_paths)))
        reason, size = None, FIRST_BATCH
        num_paths = max(1, num_paths)
        while num_paths > 0 and not block.is_over and reason is None:
            num_paths -= block.play(min(size, num_paths))
            size = min(2 * size, MOST_BATCH)
            reason = find_stop()
        return reason, block

    def take_block(self, block: PathBlock) -> None:
        """Count the paths of a block, and bet on them."""
        self.num_blocks += 1
        self.num_calls += block.num_calls
        self.is_closed = block.is_over
        samples, rule = block.samples, block.rule
        if not len(samples):
            return
        self._see_worth(samples)
        errors = self.stakes.errors(rule, samples)
        self.bound.take(samples[:, LOWER] - errors)
        self.bound.raise_low()
        self.lost += float(np.sum(errors))
        x, count_before = samples[:, X], self.count
        self.count += len(x)
        mean, deviations = float(x.mean()), x - x.mean()
        mean_shift = mean - self.mean
        self.mean += mean_shift * len(x) / self.count
        self.squares += float(np.sum(deviations * deviations))
        self.squares += mean_shift * mean_shift * count_before * len(x) / self.count
        if len(x) >= FEWEST_PATHS:
            self.fit = self.stakes.fit(rule, samples)

    def _see_worth(self, samples: Any) -> None:
        """Remember where W lay on these paths."""
        self.stakes.worth_seen = math.inf, -math.inf
        self.stakes.note_worth(samples)
        self.worth_seen = self.stakes.worth_seen

    def _begin_era(self, aimed_paths: float) -> PathRule:
        """Fix rule and pole of the next paths, ``aimed_paths`` of them in the end."""
        fit, level = self._fit_of_all(), self.bound.level
        rule = self.stakes.rule(self.head, fit, aimed_paths, level)
        self.bound.begin_era(self.stakes.poles(rule, fit, aimed_paths, level)[0])
        return rule

    def _begin_generation(self) -> None:
        """Leave the paths so far to their bound, and begin anew."""
        self.best_low = self.low
        self.generation += 1
        self.bound, self.is_closed = self._new_bound(), False

    def _pilot(self, block: PathBlock, calls: int) -> None:
        """Choose the head by a few paths of each, which are counted as calls alone."""
        best_width = math.inf
        first_fit, level = self.fit, self.bound.level
        for head in self.stakes.heads():
            batch_calls = FEWEST_PILOTS * (head + 1.0 / (1.0 - self.problem.discount))
            most_calls = PILOT_SHARE * calls if best_width < math.inf else math.inf
            rule = self.stakes.rule(head, first_fit, 1.0, level)
            block.begin(rule)
            while len(block.samples) < PILOT_PATHS and not block.is_over:
                if block.num_calls + batch_calls > most_calls:
                    break
                block.play(FEWEST_PILOTS)
            if len(block.samples) < FEWEST_PILOTS:
                break
            if head == 0:
                self._see_worth(block.samples)
            fit = self.stakes.fit(rule, block.samples)
            num_paths = max(1.0, calls / max(1.0, fit.steps))
            width = self.stakes.forecast(head, fit, num_paths, level)
            if width < best_width:
                best_width, self.head, self.fit = width, head, fit
        block.begin(PathRule())

    # --- snapshots --------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the next blocks depend on, as plain data."""
        data: dict[str, Any] = {name: getattr(self, name) for name in SUMS}
        data["fit"], data["worth_seen"] = list(self.fit), list(self.worth_seen)
        data["bound"] = {name: getattr(self.bound, name) for name in BOUND}
        copied_data: dict[str, Any] = json.loads(json.dumps(data))
        return copied_data

    def set_state(self, data: dict[str, Any]) -> None:
        """Go back to what ``state`` returned."""
        for name in SUMS:
            setattr(self, name, data[name])
        self.fit, self.bound = Fit(*data["fit"]), self._new_bound()
        lowest, highest = data["worth_seen"]
        self.worth_seen = lowest, highest
        for name in BOUND:
            setattr(self.bound, name, data["bound"][name])


class PathBlock:
    """The paths of one block, under one rule at a time."""

    def __init__(self, problem: Problem, rollouts: Rollouts, most_calls: int) -> None:
        self.problem, self.rollouts = problem, rollouts
        self.most_calls = most_calls
        self.first_call, self.rule = rollouts.calls, PathRule()
        self._parts: list[Any] = []
        self.is_over = False  # whether a path was interrupted

    def begin(self, rule: PathRule) -> None:
        """Forget the paths so far, and play by ``rule``."""
        self.rule, self._parts = rule, []

    def play(self, num_paths: int) -> int:
        """Play so many paths, or fewer; return how many were finished."""
        samples = self.rollouts.run_paths(num_paths, self.most_calls, self.rule)
        self.is_over = len(samples) < num_paths
        check_totals(self.problem, samples)
        self._parts.append(samples)
        return len(samples)

    @property
    def num_calls(self) -> int:
        """The calls of the block."""
        return self.rollouts.calls - self.first_call

    @property
    def samples(self) -> Any:
        """The samples under the rule of now, one row each."""
        return np.concatenate([np.empty((0, COLUMNS)), *self._parts])
