"""Executor ``python``: the machine of ``engines.compiled.kernel``, interpreted.

It has the bits of ``reference`` and of machine code, since it is the same source. Its
parts call the user's plain functions and check their answers, with the sentences of
``problem.step_errors``. States are words of its block as they are. Samples that end in a
constant are one tight loop around the user's step, which stands here for the sake of the
checks.

This file decides nothing about values. It leaves out batches, processes, and
oracles that hang (``run_control.call_seconds``).
"""

from __future__ import annotations

import math
import operator
import time
from array import array
from collections.abc import Callable
from typing import Any

from smoothcruiser.engines.base import Job, not_run
from smoothcruiser.engines.compiled import kernel
from smoothcruiser.engines.compiled.schedule_table import (
    schedule_columns,
    schedule_table,
)
from smoothcruiser.engines.inspection import retyped_by
from smoothcruiser.engines.root_scores import add_scores
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.errors import Hung, Interrupted, OracleError, SmoothcruiserError
from smoothcruiser.jit.forms import bind_parts
from smoothcruiser.jit.random.streams import Stream, from_words, stream
from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.step_errors import (
    at_pair,
    companion_hung,
    early_payoff,
    oracle_hung,
    oracle_raised,
    reward_outside,
    undeclared_end,
    unpack_answer,
)
from smoothcruiser.run_control.call_seconds import calls_the_oracle, limit_call_seconds
from smoothcruiser.schedule.schedule import Kind
from smoothcruiser.states.state_copies import Guard, copy_state

STOPPED = "The run was stopped before this shard was finished."


class PythonEngine:
    """Runs shards of one (problem, schedule, state) on the interpreted machine.

    It returns the same bits as ``ReferenceEngine``.
    """

    name = "python"
    kinds = frozenset(Kind)
    parallel = False
    python = True
    compile_seconds = 0.0

    def __init__(self, job: Job) -> None:
        self.job, self.center = job, job.center
        problem, schedule = self.problem, self.schedule = job.problem, job.schedule
        self.retype = retyped_by(problem, job.state)
        self.state = job.state if self.retype is None else self.retype(job.state)
        self.calls = 0
        self.guard = Guard()
        self.rng: Stream = stream(0)
        self.stopped = False
        self.end_time = math.inf  # no sample begins after it, but the first of a piece
        # Of the samples of a piece. A Ctrl-C finds each one in it or not at all.
        self.distances = array("d")
        self.is_terminal = problem.terminal if callable(problem.terminal) else None
        for level in schedule.levels:
            if level.kind not in kernel.KINDS:
                raise not_run(self.name, level.kind)
        columns = schedule_columns(problem, schedule)
        self.table = schedule_table(problem, schedule, job.score, columns)
        num_words = kernel.scratch_words(problem.num_actions, 1, schedule.depth)
        self.block: list[Any] = [0] * num_words
        self.machine = bind_parts(kernel.run_shard, self._machine_parts())

    def stop(self) -> None:
        """Ask a running shard to end."""
        self.stopped = True

    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard (Alg. 1, over its part of the samples)."""
        return self.run_piece(shard, seed).part

    @calls_the_oracle
    def run_piece(
        self,
        shard: Shard,
        seed: int,
        begun: Piece | None = None,
        seconds: float = math.inf,
    ) -> Piece:
        """The sums of a shard, or of its first samples if it takes over ``seconds``.

        ``begun`` is the piece that was run of it before, by this engine or another;
        the bits are those of a shard that is run at once.
        """
        if begun is None:
            begun = Piece(shard, Partial(0, 0.0, 0.0, 0))
            self.rng = stream(seed, shard.action, shard.index)
        else:
            self.rng = from_words(begun.words)
        self.calls, self.distances = 0, array("d")
        state_copy = copy_state(self.state)
        action = -1 if self.schedule.root.target == "value" else shard.action
        num_samples = shard.count - begun.part.draws
        self.end_time = time.perf_counter() + seconds
        try:
            with limit_call_seconds(self, self.problem.call_seconds):
                try:
                    self.machine(
                        self.table,
                        None,
                        self.state,
                        action,
                        num_samples,
                        self.center,
                        self.rng,
                        None,
                        self.block,
                        None,
                    )
                except Hung as error:
                    raise companion_hung(self.problem.call_seconds) from error
        except (Interrupted, KeyboardInterrupt) as stop:
            stop.piece = Piece(shard, self._add_samples(begun.part))  # type: ignore[union-attr]
            raise
        self.guard.compare(state_copy, self.state, shard.action)
        partial_sums = self._add_samples(begun.part)
        return Piece(shard, partial_sums, tuple(int(word) for word in self.rng.words))

    def _add_samples(self, sums: Partial) -> Partial:
        """The sums of a piece that was begun, and of the samples that followed."""
        total, square = sums.total, sums.square
        for distance in self.distances:
            total += distance
            square += distance * distance
        return Partial(
            sums.draws + len(self.distances),
            total,
            square,
            sums.calls + self.calls,
            add_scores(self.job.score, self.distances, sums.score),
        )

    # --- the parts of the machine -----------------------------------------------

    def _machine_parts(self) -> dict[str, Any]:
        """The user's functions and Python's memory, by the names in the kernel."""
        problem = self.problem
        operator_value = problem.operator.scalar.value
        value_and_gradient = problem.operator.both
        legal_actions, mover = problem.legal_actions, problem.mover

        def value_at(
            code: int, words: Any, x_at: int, w_at: int, size: int, temperature: float
        ) -> float:
            x, w = words[x_at : x_at + size], words[w_at : w_at + size]
            return operator_value(x, w, temperature)

        def both_at(
            code: int,
            words: Any,
            x_at: int,
            w_at: int,
            g_at: int,
            size: int,
            temperature: float,
        ) -> float:
            x = words[x_at : x_at + size]
            value, gradient = value_and_gradient(x, words[w_at : w_at + size])
            words[g_at : g_at + size] = gradient
            inner_product = 0.0
            for j in range(size):
                inner_product += x[j] * gradient[j]
            return value - inner_product

        def list_actions(
            words: Any, at: int, data: Any, state: Any, num_actions: int
        ) -> int:
            actions = legal_actions(state)
            words[at : at + len(actions)] = actions
            return len(actions)

        leaf_total = self._leaf_loop()

        def careful_leaf_total(
            data: Any, state: Any, action: int, count: int, *rest: Any
        ) -> tuple[float, int]:
            constant, shift, center, discount, low, high, _, _, rng, stop = rest
            if shift != 0.0:
                shifted_sum: tuple[float, int] = shifted_leaf_total(
                    data, state, action, count, *rest
                )
                return shifted_sum
            tail = discount * constant - center
            return leaf_total(
                data, state, action, count, tail, low, high, rng, stop, center
            )

        parts: dict[str, Any] = {
            "STEP": self._checked_step(),
            "TERMINAL": lambda data, state: False,  # part of the step
            "PLAYER": lambda data, state: mover(state),
            "load_state": operator.getitem,
            "store_state": operator.setitem,
            "keep_state": lambda words, at, state: state,
            "list_actions": list_actions,
            "value_at": value_at,
            "both_at": both_at,
            "middle_of": lambda data, state, *_numbers: (
                middle_at(problem, state),
                True,
            ),
            "add_score": self._add_distance,
            "flag_at": self._is_piece_over,
            "PICK": kernel.pick,
            "BOUNDED": any(
                level.kind == Kind.MIDDLE for level in self.schedule.levels
            ),
            "COMPILED": False,
        }
        shifted_leaf_total = bind_parts(kernel.careful_leaf_total, parts)
        parts["leaf_total"] = leaf_total
        parts["careful_leaf_total"] = careful_leaf_total
        return parts

    def _add_distance(
        self, kind: int, half: float, scale: float, distance: float, score: Any
    ) -> None:
        self.distances.append(distance)

    def _is_piece_over(self, stop: Any) -> bool:
        """Whether to end the piece before the next sample of the root."""
        if self.stopped:
            raise Interrupted(STOPPED)
        return bool(self.distances) and time.perf_counter() >= self.end_time

    def _checked_sample(self) -> Callable[..., tuple[float, Any, bool]]:
        """A call of the user's step: counted, with its answer checked."""
        problem, user_step = self.problem, self.problem.oracle
        low, high = self.schedule.facts.reward_range
        has_terminals = self.schedule.facts.terminals
        is_terminal, pays_late = self.is_terminal, problem.payoffs == AT_THE_END
        retype = self.retype

        def sample(state: Any, action: int, rng: Any) -> Any:
            if self.stopped:
                raise Interrupted(STOPPED)
            self.calls += 1
            try:
                answer = user_step(state, action, rng)
            except (SmoothcruiserError, KeyboardInterrupt):
                raise
            except BaseException as error:
                raise self._oracle_error(error, state, action) from error
            try:
                if len(answer) == 2:
                    reward, next_state = answer
                    is_over = False
                else:
                    reward, next_state, is_over = answer
                reward = float(reward)
            except (TypeError, ValueError):
                reward, next_state, is_over = unpack_answer(answer, state, action)
            if retype is not None:
                next_state = retype(next_state)
            if not low <= reward <= high:
                raise reward_outside(
                    reward, at_pair(state, action), low, high, problem.minimizes
                )
            if is_over:
                if not has_terminals:
                    raise undeclared_end(at_pair(state, action))
            elif is_terminal is not None:
                is_over = problem.is_terminal(next_state)
            if pays_late and reward != 0.0 and not is_over:
                raise early_payoff(reward, at_pair(state, action))
            return reward, next_state, is_over

        return sample

    def _checked_step(self) -> Callable[..., tuple[float, Any, bool]]:
        """The step as the machine calls it: some states are watched for writes."""
        guard, sample = self.guard, self._checked_sample()

        def step(data: Any, state: Any, action: int, rng: Any) -> Any:
            if not guard.due():
                return sample(state, action, rng)
            state_copy = guard.copy_state(state)
            answer = sample(state, action, rng)
            guard.compare(state_copy, state, action)
            return answer

        return step

    def _leaf_loop(self) -> Callable[..., tuple[float, int]]:
        """``kernel.leaf_total``: the tight loop over one state."""
        guard, sample = self.guard, self._checked_sample()

        def leaf_total(
            data: Any,
            state: Any,
            action: int,
            count: int,
            tail: float,
            low: float,
            high: float,
            rng: Any,
            *rest: Any,  # the flag, and the center where episodes may end
        ) -> tuple[float, int]:
            total = 0.0
            state_copy = guard.copy_state(state) if guard.due(count) else None
            for _ in range(count):
                reward, _next_state, is_over = sample(state, action, rng)
                total += reward - rest[1] if is_over else reward + tail
            if state_copy is not None:
                guard.compare(state_copy, state, action)
            return total, kernel.DONE

        return leaf_total

    def _oracle_error(
        self, error: BaseException, state: Any, action: int
    ) -> OracleError:
        if isinstance(error, Hung):
            return oracle_hung(self.problem.call_seconds, at_pair(state, action))
        return oracle_raised(error, at_pair(state, action))
