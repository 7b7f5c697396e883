"""Executor ``batched``: whole levels of a schedule as array operations.

It is for simulators that step many states at once. The recursion tree of a
schedule is the same for every sample, so the samples of a level are rows of a
batch. A query of m states is m*K*N rows, which are stepped together and valued
together by the query's own level. Rows are taken in slices of at most
``max_batch`` at every level, depth first. So memory is about depth * max_batch
rows, whatever the price of the plan. A row drops out when its episode is over.

The simulator may live anywhere (NumPy, JAX on an accelerator): states stay with
it, actions go in, rewards and flags come out, and the sums, operators and
checks are done here in float64.

  stream   SeedSequence(seed, spawn_key=(action, shard)) for the whole shard, shared
           by the simulator and by the sampling of actions

The schedule, the shards and the counts are those of the other executors. The
estimates agree in law, not in bits: the streams and the order of sums are
different. A run's bits depend on ``max_batch``, which belongs to the oracle.
This file decides the slices and the order of calls.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.engines.base import Job, not_run
from smoothcruiser.engines.interpreted.array_functions import (
    Bools,
    Floats,
    Ints,
    correction_rows,
    in_movers_terms,
    linear_remainder,
    row_functions_of,
)
from smoothcruiser.engines.root_scores import add_scores
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    describe_error,
)
from smoothcruiser.operators.sampling import sampled_columns
from smoothcruiser.problem.batched import WrongShape
from smoothcruiser.problem.bounds import bad_bounds, bounds_slack
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.step_errors import (
    at_pair,
    early_payoff,
    oracle_raised,
    reward_outside,
    too_few_legal,
    undeclared_end,
)
from smoothcruiser.run_control.call_seconds import calls_the_oracle
from smoothcruiser.schedule.schedule import Kind

RANDOMIZED = (Kind.RANDOM_PLUGIN, Kind.RANDOM_ROLLOUT)
# Bytes of one batch of states. Where a row takes a kilobyte or more, batches
# are smaller than ``max_batch``.
MOST_BYTES = 1 << 26


class BatchedEngine:
    """Runs shards of one (problem, schedule, state) in batches."""

    name = "batched"
    kinds = frozenset(Kind)
    parallel = False
    python = False
    guard = None  # a step gets rows of its own, which it may write into

    def __init__(self, job: Job, *, max_batch: int | None = None) -> None:
        self.job, self.center = job, job.center
        problem, self.schedule, state = job.problem, job.schedule, job.state
        self.problem = problem
        self.row_functions = row_functions_of(problem, max_batch)
        self.backend = self.row_functions.backend
        try:
            self.root = self.backend.one(state)
        except Exception as error:
            raise InvalidInput(
                f"The asked state {state!r} is not a row of numbers ({error}); "
                "give one row of what step takes."
            ) from error
        self._warm_up()
        self.max_rows = max(
            1,
            min(
                self.row_functions.max_batch,
                MOST_BYTES // max(1, self.backend.bytes_per_row(self.root)),
            ),
        )
        self.weights = np.array(problem.operator.weights(problem.num_actions))
        num_actions = problem.num_actions
        self.blind_offsets = np.array(
            [0.0]
            + [
                problem.operator.value([0.0] * k, weights=[1.0] * k)
                for k in range(1, num_actions + 1)
            ]
        )
        self.is_shift_invariant = problem.operator.shift_invariant
        self.calls = 0
        self.rng: Any = None
        self.action_rng: np.random.Generator
        self.stopped = False

    def _warm_up(self) -> None:
        """Let the backend compile its functions.

        Errors are ignored here: they come again in the first batch, where the
        row at fault is named.
        """
        start_time, row_functions = time.perf_counter(), self.row_functions
        companions = [
            (function, extra_arguments)
            for function, extra_arguments in (
                (row_functions.legal, 1),
                (row_functions.terminal, 0),
                (row_functions.player, 0),
                (row_functions.lower, 0),
                (row_functions.upper, 0),
            )
            if function is not None
        ]
        with contextlib.suppress(Exception):
            self.backend.warm(row_functions.step, companions, self.root)
        self.compile_seconds = time.perf_counter() - start_time

    def stop(self) -> None:
        """Ask a running shard to end."""
        self.stopped = True

    @calls_the_oracle
    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard (Alg. 1, over its part of the samples)."""
        seed_sequence = np.random.SeedSequence(
            seed, spawn_key=(shard.action, shard.index)
        )
        self.rng = self.backend.random(seed_sequence)
        self.action_rng = (
            self.rng
            if isinstance(self.rng, np.random.Generator)
            else np.random.default_rng(seed_sequence.spawn(1)[0])
        )
        self.calls = 0
        total, square, score = 0.0, 0.0, self.job.score.none
        root = self.schedule.root
        for first_sample in range(0, shard.count, self.max_rows):
            num_rows = min(self.max_rows, shard.count - first_sample)
            states = self.backend.take(self.root, np.zeros(num_rows, dtype=np.int64))
            try:
                if root.target == "value":
                    root_samples = self.draw(root.child, states, num_rows)
                else:
                    root_samples = self.backup(
                        states,
                        np.full(num_rows, shard.action, dtype=np.int64),
                        root.child,
                    )
            except (Interrupted, KeyboardInterrupt) as stop:
                partial_sums = Partial(first_sample, total, square, self.calls, score)
                stop.piece = Piece(shard, partial_sums)  # type: ignore[union-attr]
                raise
            distance = root_samples - self.center
            total += float(distance.sum())
            square += float((distance * distance).sum())
            score = add_scores(self.job.score, distance, score)
        return Partial(shard.count, total, square, self.calls, score)

    # --- one batch ------------------------------------------------------------

    def step(self, states: Any, actions: Ints) -> tuple[Floats, Any, Ints | None]:
        """(rewards, next states of the rows that continue, the numbers of those rows).

        The calls are counted and the answers checked. The numbers are None
        where all rows continue.
        """
        if self.stopped:
            raise Interrupted("The run was stopped before this shard was finished.")
        num_rows = len(actions)
        self.calls += num_rows
        try:
            rewards, next_states, end_flags = self.backend.step(
                self.row_functions.step, states, actions, self.rng
            )
        except WrongShape as error:
            raise OracleError(
                f"The batched oracle must return {error}, at {num_rows} rows of which the "
                f"first is {self._describe_row(states, actions, 0)}."
            ) from error
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise self._error_with_row(error, states, actions) from error
        lowest_reward, highest_reward = self.schedule.facts.reward_range
        if not (lowest_reward <= rewards.min() and rewards.max() <= highest_reward):
            bad_row = int(
                np.flatnonzero(
                    ~((rewards >= lowest_reward) & (rewards <= highest_reward))
                )[0]
            )
            raise reward_outside(
                float(rewards[bad_row]),
                self._describe_row(states, actions, bad_row),
                lowest_reward,
                highest_reward,
                self.problem.minimizes,
            )
        if (
            end_flags is not None
            and not self.schedule.facts.terminals
            and end_flags.any()
        ):
            bad_row = int(np.flatnonzero(end_flags)[0])
            raise undeclared_end(self._describe_row(states, actions, bad_row))
        continuing_states, alive_rows = self._continuing_rows(
            next_states, end_flags, num_rows
        )
        if self.problem.payoffs == AT_THE_END:
            paid_rows = np.flatnonzero(
                rewards if alive_rows is None else rewards[alive_rows]
            )
            if len(paid_rows):
                bad_row = int(
                    paid_rows[0] if alive_rows is None else alive_rows[paid_rows[0]]
                )
                raise early_payoff(
                    float(rewards[bad_row]),
                    self._describe_row(states, actions, bad_row),
                )
        return rewards, continuing_states, alive_rows

    def _continuing_rows(
        self, next_states: Any, end_flags: Bools | None, n: int
    ) -> tuple[Any, Ints | None]:
        """The rows that are not over, and their numbers (None: all of them)."""
        if self.row_functions.terminal is not None:
            is_terminal = self._ask("terminal", next_states, n).astype(bool)
            end_flags = is_terminal if end_flags is None else end_flags | is_terminal
        if end_flags is None or not end_flags.any():
            return next_states, None
        alive_rows = np.flatnonzero(~end_flags)
        return self.backend.take(next_states, alive_rows), alive_rows

    def _ask(self, name: str, states: Any, n: int, *arguments: Any) -> NDArray[Any]:
        try:
            return self.backend.ask(
                getattr(self.row_functions, name), states, n, *arguments
            )
        except WrongShape as error:
            raise OracleError(f"The batched {name} must return {error}.") from error
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise OracleError(
                f"The batched {name} raised {describe_error(error)} at {n} rows of which the "
                f"first is {self.backend.row(states, 0)!r}; fix it there."
            ) from error

    def backup(self, states: Any, actions: Ints, child: int) -> Floats:
        """One sample of r + gamma X(z) for every row (Alg. 3, lines 6-8)."""
        backups, next_states, alive_rows = self.step(states, actions)
        level = self.schedule.levels[child]
        gamma = self.problem.discount
        if level.kind == Kind.CONSTANT and level.shift == 0.0:
            if alive_rows is None:
                return backups + gamma * level.constant
            backups = backups.copy()
            backups[alive_rows] += gamma * level.constant
            return backups
        if alive_rows is None:
            return backups + gamma * self.draw(child, next_states, len(backups))
        backups = backups.copy()
        if len(alive_rows):
            backups[alive_rows] += gamma * self.draw(
                child, next_states, len(alive_rows)
            )
        return backups

    def estimate_q(
        self, states: Any, n: int, legal: Bools | None, row: int, samples: int
    ) -> Floats:
        """The means (K, n) of backups for n states, -inf where illegal (Alg. 3).

        Pairs (state, action) are taken in slices of ``rows``.
        """
        level, center = self.schedule.levels[row], self.schedule.centers[row]
        num_actions, N = self.problem.num_actions, samples
        pairs = (
            np.arange(num_actions * n)
            if legal is None
            else np.flatnonzero(legal.reshape(-1))
        )
        q_values = np.full(num_actions * n, -np.inf)
        pairs_per_slice = max(1, self.max_rows // N)
        for first_pair in range(0, len(pairs), pairs_per_slice):
            pair_slice = pairs[first_pair : first_pair + pairs_per_slice]
            pair_states, pair_actions = pair_slice % n, pair_slice // n
            total = np.zeros(len(pair_slice))
            max_repeats = max(1, self.max_rows // len(pair_slice))
            for num_done in range(0, N, max_repeats):
                num_repeats = min(max_repeats, N - num_done)
                backups = self.backup(
                    self.backend.take(states, np.tile(pair_states, num_repeats)),
                    np.tile(pair_actions, num_repeats),
                    level.query,
                )
                total += (
                    (backups - center)
                    .reshape(num_repeats, len(pair_slice))
                    .sum(axis=0)
                )
            q_values[pair_slice] = center + total / N
        if self.schedule.clip is not None:
            q_values[pairs] = np.clip(q_values[pairs], *self.schedule.clip)
        return q_values.reshape(num_actions, n)

    def draw(self, row: int, states: Any, n: int) -> Floats:
        """One sample of level ``row`` for every row of ``states`` (Alg. 2).

        None of the states may be terminal.
        """
        out = np.zeros(n)
        # The rows of ``out`` that ``states`` stand for; None: all of them.
        target_rows: Ints | None = None
        weight: Any = 1.0
        while True:
            level = self.schedule.levels[row]
            if level.kind == Kind.MIDDLE:
                return _add_to_rows(out, target_rows, weight * self._middle(states, n))
            sign = (
                self._signs(states, n)
                if level.kind != Kind.CONSTANT or level.shift != 0.0
                else 1.0
            )
            if level.kind == Kind.CONSTANT:
                return _add_to_rows(
                    out,
                    target_rows,
                    weight
                    * (
                        level.constant
                        + (sign * level.shift if level.shift != 0.0 else 0.0)
                    ),
                )
            legal_mask = self._legal(states, n)
            if level.kind == Kind.BLIND:
                head, row_actions, gradient_norm = self._blind(n, legal_mask)
            elif level.kind not in (Kind.PLUGIN, Kind.ROLLOUT, *RANDOMIZED):
                raise not_run(self.name, level.kind)
            else:
                q_values = self.estimate_q(states, n, legal_mask, row, level.samples)
                if isinstance(sign, np.ndarray) or sign < 0.0:
                    q_values = in_movers_terms(q_values, sign)
                value, gradients = self.problem.operator.batch(q_values, self.weights)
                if level.kind in RANDOMIZED:
                    signs = np.broadcast_to(sign, n)
                    corrections = correction_rows(self, row, states, legal_mask, signs)
                    out = _add_to_rows(out, target_rows, weight * corrections)
                if level.kind in (Kind.PLUGIN, Kind.RANDOM_PLUGIN):
                    return _add_to_rows(
                        out, target_rows, weight * (sign * (value + level.shift))
                    )
                head = linear_remainder(value, q_values, gradients)
                row_actions, gradient_norm = sampled_columns(
                    gradients, self.action_rng
                )
            rewards, states, alive_rows = self.step(states, row_actions)
            scale = 1.0 if self.is_shift_invariant else gradient_norm
            out = _add_to_rows(
                out,
                target_rows,
                weight * (sign * (head + level.shift) + scale * rewards),
            )
            weight = weight * (self.problem.discount * scale)
            if alive_rows is not None:
                if len(alive_rows) == 0:
                    return out
                target_rows = (
                    alive_rows if target_rows is None else target_rows[alive_rows]
                )
                weight = (
                    weight[alive_rows] if isinstance(weight, np.ndarray) else weight
                )
                n = len(alive_rows)
            row = level.continuation

    def _blind(self, n: int, legal: Bools | None) -> tuple[Any, Ints, Any]:
        """A ~ grad F(0) for n states: (F(0), actions, |g|_1)."""
        num_actions, operator = self.problem.num_actions, self.problem.operator
        if legal is None and operator.uniform_at_zero:
            return (
                self.blind_offsets[num_actions],
                self.action_rng.integers(num_actions, size=n),
                1.0,
            )
        gradients = (
            np.ones((num_actions, n)) if legal is None else legal.astype(np.float64)
        )
        head = (
            self.blind_offsets[num_actions]
            if legal is None
            else self.blind_offsets.take(legal.sum(axis=0))
        )
        if not operator.uniform_at_zero:
            _, gradients = operator.batch(
                np.where(gradients > 0.0, 0.0, -np.inf), self.weights
            )
        row_actions, gradient_norm = sampled_columns(gradients, self.action_rng)
        return head, row_actions, gradient_norm

    def _legal(self, states: Any, n: int) -> Bools | None:
        """The mask (K, n) of legal actions; None where all are."""
        if self.row_functions.legal is None:
            return None
        num_actions = self.problem.num_actions
        legal_mask = np.array(
            [
                self._ask("legal", states, n, np.full(n, a, dtype=np.int64))
                for a in range(num_actions)
            ],
            dtype=bool,
        )
        num_legal = legal_mask.sum(axis=0)
        stuck_rows = np.flatnonzero(num_legal < self.schedule.facts.min_actions)
        if len(stuck_rows):
            first_stuck = int(stuck_rows[0])
            state = self.backend.row(states, first_stuck)
            raise too_few_legal(
                state, int(num_legal[first_stuck]), self.schedule.facts.min_actions
            )
        return legal_mask

    def _signs(self, states: Any, n: int) -> Any:
        """+1 where max moves, -1 where min does."""
        if self.row_functions.player is None:
            return -1.0 if self.problem.minimizes else 1.0
        movers = self._ask("player", states, n)
        if not np.all((movers == 1) | (movers == 2)):
            bad_row = int(np.flatnonzero((movers != 1) & (movers != 2))[0])
            raise InvalidInput(
                f"player({self.backend.row(states, bad_row)!r}) must be 1 (max) or 2 "
                f"(min), got {movers[bad_row]}."
            )
        return np.where(movers == 1, 1.0, -1.0)

    def _middle(self, states: Any, n: int) -> Floats:
        """The middle of the bounds on V for every row."""
        facts = self.schedule.facts
        (value_low, value_high), tolerance = facts.value_hull(), bounds_slack(facts)
        lower_bounds, upper_bounds = (
            np.asarray(self._ask(side, states, n), dtype=np.float64)
            for side in ("lower", "upper")
        )
        max_gap = (facts.given_gap or 0.0) + tolerance
        is_consistent = (upper_bounds - lower_bounds >= -tolerance) & (
            upper_bounds - lower_bounds <= max_gap
        )  # false for NaN
        is_consistent &= (lower_bounds <= value_high + tolerance) & (
            upper_bounds >= value_low - tolerance
        )
        if not is_consistent.all():
            bad_row = int(np.flatnonzero(~is_consistent)[0])
            state = self.backend.row(states, bad_row)
            raise bad_bounds(
                state,
                float(lower_bounds[bad_row]),
                float(upper_bounds[bad_row]),
                facts,
            )
        return 0.5 * (
            np.maximum(lower_bounds, value_low) + np.minimum(upper_bounds, value_high)
        )

    # --- naming the row at fault ----------------------------------------------

    def _describe_row(self, states: Any, actions: Ints, i: int) -> str:
        return at_pair(self.backend.row(states, i), int(actions[i]))

    def _error_with_row(
        self, error: BaseException, states: Any, actions: Ints
    ) -> OracleError:
        """The error with the row that causes it.

        The row is found by halving the batch, with log2(rows) more calls.
        """
        first_row, end_row = 0, len(actions)
        while end_row - first_row > 1:
            middle_row = (first_row + end_row) // 2
            if self._fails(states, actions, first_row, middle_row):
                end_row = middle_row
            elif self._fails(states, actions, middle_row, end_row):
                first_row = middle_row
            else:
                break
        row_note = (
            ""
            if end_row - first_row == 1
            else f" (one of {end_row - first_row} rows; none of them fails alone)"
        )
        return oracle_raised(
            error, self._describe_row(states, actions, first_row) + row_note
        )

    def _fails(self, states: Any, actions: Ints, low: int, high: int) -> bool:
        try:
            self.backend.step(
                self.row_functions.step,
                self.backend.take(states, np.arange(low, high)),
                actions[low:high],
                self.rng,
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            return True
        return False


def _add_to_rows(out: Floats, where: Ints | None, x: Any) -> Floats:
    """``out`` with ``x`` added to the rows ``where``."""
    if where is None:
        out += x
    else:
        out[where] += x
    return out
