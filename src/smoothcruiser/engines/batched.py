"""Executor ``batched``: whole levels of a schedule as array operations.

It is for simulators that step many states at once. The recursion tree of a
schedule is the same for every sample, so the samples of a level are rows of a
batch. A query of m states is m*K*N rows, which are stepped together and valued
together by the query's own level. Rows are taken in slices of at most
``max_batch`` at every level, depth first. So memory is about depth * max_batch
rows, whatever the price of the plan. Rows whose episode is over drop out.

The simulator may live anywhere (NumPy, JAX on an accelerator): states stay with
it, actions go in, rewards and flags come out, and the sums, operators and
checks are done here in float64.

  stream   SeedSequence(seed, spawn_key=(action, shard)) for the whole shard, shared
           by the simulator and by the sampling of actions

The schedule, the shards and the counts are those of the other executors. The
estimates agree in law, not in bits: the streams and the order of sums are
different. A run's bits depend on ``max_batch``, which belongs to the oracle.
What this file decides: slices and the order of calls.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.engines.base import Job, not_run
from smoothcruiser.engines.correction_rows import correction_rows, in_movers_terms, rest
from smoothcruiser.engines.rows import Bools, Floats, Ints, parts_of
from smoothcruiser.engines.scores import scored
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.engines.watchdog import calls_the_oracle
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    said,
)
from smoothcruiser.operators.sampling import sampled_columns
from smoothcruiser.problem.answers import (
    at,
    early_payoff,
    outside,
    raised,
    too_few_legal,
    undeclared_end,
)
from smoothcruiser.problem.batched import (
    WrongShape,
)
from smoothcruiser.problem.bounds import bad_bounds, slack
from smoothcruiser.problem.totals import AT_THE_END
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
        self.parts = parts_of(problem, max_batch)
        self.backend = self.parts.backend
        try:
            self.root = self.backend.one(state)
        except Exception as error:
            raise InvalidInput(
                f"The asked state {state!r} is not a row of numbers ({error}); "
                "give one row of what step takes."
            ) from error
        self._warm_up()
        self.rows = max(
            1,
            min(
                self.parts.max_batch,
                MOST_BYTES // max(1, self.backend.bytes_per_row(self.root)),
            ),
        )
        self.weights = np.array(problem.operator.weights(problem.num_actions))
        K = problem.num_actions
        self.offsets = np.array(
            [0.0]
            + [
                problem.operator.value([0.0] * k, weights=[1.0] * k)
                for k in range(1, K + 1)
            ]
        )
        self.unit = problem.operator.shift_invariant
        self.calls = 0
        self.rng: Any = None
        self.own: np.random.Generator
        self.stopped = False

    def _warm_up(self) -> None:
        """Compile what the backend compiles.

        Errors are ignored here: they come again in the first batch, where the
        row at fault is named.
        """
        begin, parts = time.perf_counter(), self.parts
        companions = [
            (f, extra)
            for f, extra in (
                (parts.legal, 1),
                (parts.terminal, 0),
                (parts.player, 0),
                (parts.lower, 0),
                (parts.upper, 0),
            )
            if f is not None
        ]
        with contextlib.suppress(Exception):
            self.backend.warm(parts.step, companions, self.root)
        self.compile_seconds = time.perf_counter() - begin

    def stop(self) -> None:
        """Ask a running shard to end."""
        self.stopped = True

    @calls_the_oracle
    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard (Alg. 1, over its part of the samples)."""
        sequence = np.random.SeedSequence(seed, spawn_key=(shard.action, shard.index))
        self.rng = self.backend.random(sequence)
        self.own = (
            self.rng
            if isinstance(self.rng, np.random.Generator)
            else np.random.default_rng(sequence.spawn(1)[0])
        )
        self.calls = 0
        total, square, score = 0.0, 0.0, self.job.score.none
        root = self.schedule.root
        for first in range(0, shard.count, self.rows):
            n = min(self.rows, shard.count - first)
            states = self.backend.take(self.root, np.zeros(n, dtype=np.int64))
            try:
                if root.target == "value":
                    x = self.draw(root.child, states, n)
                else:
                    x = self.backup(
                        states, np.full(n, shard.action, dtype=np.int64), root.child
                    )
            except (Interrupted, KeyboardInterrupt) as stop:
                part = Partial(first, total, square, self.calls, score)
                stop.piece = Piece(shard, part)  # type: ignore[union-attr]
                raise
            distance = x - self.center
            total += float(distance.sum())
            square += float((distance * distance).sum())
            score = scored(self.job.score, distance, score)
        return Partial(shard.count, total, square, self.calls, score)

    # --- one batch ------------------------------------------------------------

    def step(self, states: Any, actions: Ints) -> tuple[Floats, Any, Ints | None]:
        """(rewards, next states of the rows that continue, the numbers of those rows).

        The calls are counted and the answers checked. The numbers are None
        where all rows continue.
        """
        if self.stopped:
            raise Interrupted("The run was stopped before this shard was finished.")
        n = len(actions)
        self.calls += n
        try:
            rewards, after, ended = self.backend.step(
                self.parts.step, states, actions, self.rng
            )
        except WrongShape as error:
            raise OracleError(
                f"The batched oracle must return {error}, at {n} rows of which the "
                f"first is {self._at(states, actions, 0)}."
            ) from error
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise self._raised(error, states, actions) from error
        low, high = self.schedule.facts.reward_range
        if not (low <= rewards.min() and rewards.max() <= high):
            bad = int(np.flatnonzero(~((rewards >= low) & (rewards <= high)))[0])
            raise outside(
                float(rewards[bad]), self._at(states, actions, bad), low, high
            )
        if ended is not None and not self.schedule.facts.terminals and ended.any():
            bad = int(np.flatnonzero(ended)[0])
            raise undeclared_end(self._at(states, actions, bad))
        going, alive = self._going_on(after, ended, n)
        if self.problem.payoffs == AT_THE_END:
            paid = np.flatnonzero(rewards if alive is None else rewards[alive])
            if len(paid):
                bad = int(paid[0] if alive is None else alive[paid[0]])
                raise early_payoff(float(rewards[bad]), self._at(states, actions, bad))
        return rewards, going, alive

    def _going_on(
        self, after: Any, ended: Bools | None, n: int
    ) -> tuple[Any, Ints | None]:
        """The rows that are not over, and their numbers (None: all of them)."""
        if self.parts.terminal is not None:
            over = self._ask("terminal", after, n).astype(bool)
            ended = over if ended is None else ended | over
        if ended is None or not ended.any():
            return after, None
        alive = np.flatnonzero(~ended)
        return self.backend.take(after, alive), alive

    def _ask(self, name: str, states: Any, n: int, *arguments: Any) -> NDArray[Any]:
        try:
            return self.backend.ask(getattr(self.parts, name), states, n, *arguments)
        except WrongShape as error:
            raise OracleError(f"The batched {name} must return {error}.") from error
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise OracleError(
                f"The batched {name} raised {said(error)} at {n} rows of which the "
                f"first is {self.backend.row(states, 0)!r}; fix it there."
            ) from error

    def backup(self, states: Any, actions: Ints, child: int) -> Floats:
        """One sample of r + gamma X(z) for every row (Alg. 3, lines 6-8)."""
        x, after, alive = self.step(states, actions)
        level = self.schedule.levels[child]
        gamma = self.problem.discount
        if level.kind == Kind.CONSTANT and level.shift == 0.0:
            if alive is None:
                return x + gamma * level.constant
            x = x.copy()
            x[alive] += gamma * level.constant
            return x
        if alive is None:
            return x + gamma * self.draw(child, after, len(x))
        x = x.copy()
        if len(alive):
            x[alive] += gamma * self.draw(child, after, len(alive))
        return x

    def estimate_q(
        self, states: Any, n: int, legal: Bools | None, row: int, samples: int
    ) -> Floats:
        """The means (K, n) of backups for n states, -inf where illegal (Alg. 3).

        Pairs (state, action) are taken in slices of ``rows``.
        """
        level, center = self.schedule.levels[row], self.schedule.centers[row]
        K, N = self.problem.num_actions, samples
        pairs = np.arange(K * n) if legal is None else np.flatnonzero(legal.reshape(-1))
        q = np.full(K * n, -np.inf)
        together = max(1, self.rows // N)
        for first in range(0, len(pairs), together):
            part = pairs[first : first + together]
            index, action = part % n, part // n
            total = np.zeros(len(part))
            most = max(1, self.rows // len(part))
            for done in range(0, N, most):
                times = min(most, N - done)
                x = self.backup(
                    self.backend.take(states, np.tile(index, times)),
                    np.tile(action, times),
                    level.query,
                )
                total += (x - center).reshape(times, len(part)).sum(axis=0)
            q[part] = center + total / N
        if self.schedule.clip is not None:
            q[pairs] = np.clip(q[pairs], *self.schedule.clip)
        return q.reshape(K, n)

    def draw(self, row: int, states: Any, n: int) -> Floats:
        """One sample of level ``row`` for every row of ``states`` (Alg. 2).

        None of the states may be terminal.
        """
        out = np.zeros(n)
        # The rows of ``out`` that ``states`` stand for; None: all of them.
        where: Ints | None = None
        weight: Any = 1.0
        while True:
            level = self.schedule.levels[row]
            if level.kind == Kind.MIDDLE:
                return _added(out, where, weight * self._middle(states, n))
            sign = (
                self._signs(states, n)
                if level.kind != Kind.CONSTANT or level.shift != 0.0
                else 1.0
            )
            if level.kind == Kind.CONSTANT:
                return _added(
                    out,
                    where,
                    weight
                    * (
                        level.constant
                        + (sign * level.shift if level.shift != 0.0 else 0.0)
                    ),
                )
            legal = self._legal(states, n)
            if level.kind == Kind.BLIND:
                head, action, norm = self._blind(n, legal)
            elif level.kind not in (Kind.PLUGIN, Kind.ROLLOUT, *RANDOMIZED):
                raise not_run(self.name, level.kind)
            else:
                q = self.estimate_q(states, n, legal, row, level.samples)
                if isinstance(sign, np.ndarray):
                    q = in_movers_terms(q, sign)
                value, g = self.problem.operator.batch(q, self.weights)
                if level.kind in RANDOMIZED:
                    signs = np.broadcast_to(sign, n)
                    extra = correction_rows(self, row, states, legal, signs)
                    out = _added(out, where, weight * extra)
                if level.kind in (Kind.PLUGIN, Kind.RANDOM_PLUGIN):
                    return _added(out, where, weight * (sign * (value + level.shift)))
                head = rest(value, q, g)
                action, norm = sampled_columns(g, self.own)
            rewards, states, alive = self.step(states, action)
            scale = 1.0 if self.unit else norm
            out = _added(
                out, where, weight * (sign * (head + level.shift) + scale * rewards)
            )
            weight = weight * (self.problem.discount * scale)
            if alive is not None:
                if len(alive) == 0:
                    return out
                where = alive if where is None else where[alive]
                weight = weight[alive] if isinstance(weight, np.ndarray) else weight
                n = len(alive)
            row = level.continuation

    def _blind(self, n: int, legal: Bools | None) -> tuple[Any, Ints, Any]:
        """A ~ grad F(0) for n states: (F(0), actions, |g|_1)."""
        K, operator = self.problem.num_actions, self.problem.operator
        if legal is None and operator.uniform_at_zero:
            return self.offsets[K], self.own.integers(K, size=n), 1.0
        g = np.ones((K, n)) if legal is None else legal.astype(np.float64)
        head = (
            self.offsets[K] if legal is None else self.offsets.take(legal.sum(axis=0))
        )
        if not operator.uniform_at_zero:
            _, g = operator.batch(np.where(g > 0.0, 0.0, -np.inf), self.weights)
        action, norm = sampled_columns(g, self.own)
        return head, action, norm

    def _legal(self, states: Any, n: int) -> Bools | None:
        """The mask (K, n) of legal actions; None where all are."""
        if self.parts.legal is None:
            return None
        K = self.problem.num_actions
        mask = np.array(
            [
                self._ask("legal", states, n, np.full(n, a, dtype=np.int64))
                for a in range(K)
            ],
            dtype=bool,
        )
        number = mask.sum(axis=0)
        stuck = np.flatnonzero(number < self.schedule.facts.min_actions)
        if len(stuck):
            first = int(stuck[0])
            state = self.backend.row(states, first)
            raise too_few_legal(
                state, int(number[first]), self.schedule.facts.min_actions
            )
        return mask

    def _signs(self, states: Any, n: int) -> Any:
        """+1 where max moves, -1 where min does."""
        if self.parts.player is None:
            return 1.0
        player = self._ask("player", states, n)
        if not np.all((player == 1) | (player == 2)):
            bad = int(np.flatnonzero((player != 1) & (player != 2))[0])
            raise InvalidInput(
                f"player({self.backend.row(states, bad)!r}) must be 1 (max) or 2 "
                f"(min), got {player[bad]}."
            )
        return np.where(player == 1, 1.0, -1.0)

    def _middle(self, states: Any, n: int) -> Floats:
        """The middle of the bounds on V for every row."""
        facts = self.schedule.facts
        (low, high), room = facts.value_hull(), slack(facts)
        lower, upper = (
            np.asarray(self._ask(side, states, n), dtype=np.float64)
            for side in ("lower", "upper")
        )
        gap = (facts.given_gap or 0.0) + room
        kept = (upper - lower >= -room) & (upper - lower <= gap)  # false for NaN
        kept &= (lower <= high + room) & (upper >= low - room)
        if not kept.all():
            bad = int(np.flatnonzero(~kept)[0])
            state = self.backend.row(states, bad)
            raise bad_bounds(state, float(lower[bad]), float(upper[bad]), facts)
        return 0.5 * (np.maximum(lower, low) + np.minimum(upper, high))

    # --- naming the row at fault ----------------------------------------------

    def _at(self, states: Any, actions: Ints, i: int) -> str:
        return at(self.backend.row(states, i), int(actions[i]))

    def _raised(self, error: BaseException, states: Any, actions: Ints) -> OracleError:
        """The error with the row that causes it.

        The row is found by halving the batch, with log2(rows) more calls.
        """
        low, high = 0, len(actions)
        while high - low > 1:
            middle = (low + high) // 2
            if self._fails(states, actions, low, middle):
                high = middle
            elif self._fails(states, actions, middle, high):
                low = middle
            else:
                break
        rows = (
            ""
            if high - low == 1
            else f" (one of {high - low} rows; none of them fails alone)"
        )
        return raised(error, self._at(states, actions, low) + rows)

    def _fails(self, states: Any, actions: Ints, low: int, high: int) -> bool:
        try:
            self.backend.step(
                self.parts.step,
                self.backend.take(states, np.arange(low, high)),
                actions[low:high],
                self.rng,
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            return True
        return False


def _added(out: Floats, where: Ints | None, x: Any) -> Floats:
    """``out`` with ``x`` added to the rows ``where``."""
    if where is None:
        out += x
    else:
        out[where] += x
    return out
