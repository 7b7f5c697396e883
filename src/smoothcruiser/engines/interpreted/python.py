"""Executor ``python``: the bits of ``reference``, faster, for plain Python oracles.

The schedule's table becomes functions, one per level, ``draw(state) -> float``.
The needs of a level are bound when its function is built (children, N, the
discount, which checks can apply at all), so as little as possible is left
between two calls. A query with samples that end in a constant is one tight loop
around the user's step. The order of calls, the order of sums and every check
are those of ``reference``; a test holds the two to the same bits.

This file decides nothing about values. It leaves out batches, processes, and
oracles that hang (``run_control.call_seconds``).
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable
from typing import Any

from smoothcruiser.engines.base import Job, not_run
from smoothcruiser.engines.interpreted.corrections import correction
from smoothcruiser.engines.root_scores import add_scores
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.errors import Hung, Interrupted, OracleError, SmoothcruiserError
from smoothcruiser.jit.random.streams import Stream, from_words, stream
from smoothcruiser.operators.sampling import proportional
from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.states import Guard, copy_state
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
from smoothcruiser.schedule.schedule import Kind, Level

STOPPED = "The run was stopped before this shard was finished."
# kinds that follow one action
CHAINED = (Kind.ROLLOUT, Kind.BLIND, Kind.RANDOM_ROLLOUT)
Draw = Callable[[Any], float]
Total = Callable[[Any, int, int], float]  # (state, action, samples): a sum of backups
Means = Callable[[Any, list[int], int], list[float]]  # the last: samples per action


class PythonEngine:
    """Runs shards of one (problem, schedule, state) in bound Python functions.

    It returns the same bits as ``ReferenceEngine``.
    """

    name = "python"
    kinds = frozenset(Kind)
    parallel = False
    python = True
    compile_seconds = 0.0

    def __init__(self, job: Job) -> None:
        self.job, self.state, self.center = job, job.state, job.center
        problem, schedule = self.problem, self.schedule = job.problem, job.schedule
        self.calls = 0
        self.guard = Guard()
        self.rng: Stream = stream(0)
        self.stopped = False
        self.lowest_reward, self.highest_reward = schedule.facts.reward_range
        self.pays_late = problem.payoffs == AT_THE_END
        self.weights = problem.operator.weights(problem.num_actions)
        self.all_actions = (
            list(range(problem.num_actions)) if problem.legal is None else None
        )
        self.level_samplers: list[Draw] = []
        for row, level in enumerate(schedule.levels):
            self.level_samplers.append(self._level_sampler(row, level))

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
        # One tuple, so that a Ctrl-C finds all three sums or none with the last sample.
        sums, calls_before = begun.part[:3], begun.part.calls
        distances = array("d")  # of the new samples, and after a Ctrl-C of one more
        self.calls = 0
        state, root = self.state, self.schedule.root
        state_copy = copy_state(state)
        sample_root = self._subtract_center(self.level_samplers[root.child])
        if root.target != "value":
            sample_root = self._backup(root.child, shard.action)
        end_time = time.perf_counter() + seconds
        try:
            with limit_call_seconds(self, self.problem.call_seconds):
                while sums[0] < shard.count:
                    if self.stopped:
                        raise Interrupted(STOPPED)
                    try:
                        distance = sample_root(state)
                    except Hung as error:
                        raise companion_hung(self.problem.call_seconds) from error
                    distances.append(distance)
                    num_samples, total, square = sums
                    sums = (
                        num_samples + 1,
                        total + distance,
                        square + distance * distance,
                    )
                    if time.perf_counter() >= end_time:
                        break
        except (Interrupted, KeyboardInterrupt) as stop:
            new_distances = distances[: sums[0] - begun.part.draws]
            score = add_scores(self.job.score, new_distances, begun.part.score)
            partial_sums = Partial(*sums, calls_before + self.calls, score)
            stop.piece = Piece(shard, partial_sums)  # type: ignore[union-attr]
            raise
        self.guard.compare(state_copy, state, shard.action)
        score = add_scores(self.job.score, distances, begun.part.score)
        partial_sums = Partial(*sums, calls_before + self.calls, score)
        return Piece(shard, partial_sums, tuple(int(word) for word in self.rng.words))

    # --- one call -------------------------------------------------------------

    def oracle(self, state: Any, action: int) -> tuple[float, Any, bool]:
        """(reward, next state, whether the episode is over) of one simulator call.

        The call is counted and its answer checked.
        """
        if self.stopped:
            raise Interrupted(STOPPED)
        self.calls += 1
        guard = self.guard
        state_copy = guard.copy_state(state) if guard.due() else None
        try:
            answer = self.problem.oracle(state, action, self.rng)
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
        if state_copy is not None:
            guard.compare(state_copy, state, action)
        if not self.lowest_reward <= reward <= self.highest_reward:
            raise reward_outside(
                reward, at_pair(state, action), self.lowest_reward, self.highest_reward
            )
        if is_over:
            if not self.schedule.facts.terminals:
                raise undeclared_end(at_pair(state, action))
            return reward, next_state, True
        is_over = self.problem.is_terminal(next_state)
        if self.pays_late and reward != 0.0 and not is_over:
            raise early_payoff(reward, at_pair(state, action))
        return reward, next_state, is_over

    def _oracle_error(
        self, error: BaseException, state: Any, action: int
    ) -> OracleError:
        if isinstance(error, Hung):
            return oracle_hung(self.problem.call_seconds, at_pair(state, action))
        return oracle_raised(error, at_pair(state, action))

    # --- levels as functions --------------------------------------------------

    def _level_sampler(self, row: int, level: Level) -> Draw:
        """A function that samples a level at a state that is not terminal (Alg. 2)."""
        if level.kind == Kind.CONSTANT:
            return self._constant(level)
        if level.kind == Kind.MIDDLE:
            problem = self.problem
            return lambda state: 0.0 + 1.0 * middle_at(problem, state)
        if level.kind in (Kind.PLUGIN, Kind.RANDOM_PLUGIN):
            return self._plugin(row, level)
        if level.kind in CHAINED:
            return self._rollout(row)
        raise not_run(self.name, level.kind)

    def _constant(self, level: Level) -> Draw:
        if level.shift == 0.0:
            # ``reference`` adds to an empty sum, which turns -0.0 into 0.0.
            value = 0.0 + 1.0 * level.constant
            return lambda state: value
        sign, constant, shift = self._sign, level.constant, level.shift
        return lambda state: 0.0 + 1.0 * (constant + sign(state) * shift)

    def _sign(self, state: Any) -> float:
        return 1.0 if self.problem.mover(state) == 1 else -1.0

    def _actions(self, state: Any) -> list[int]:
        return (
            self.problem.legal_actions(state)
            if self.all_actions is None
            else self.all_actions
        )

    def _subtract_center(self, draw: Draw) -> Draw:
        center = self.center
        return lambda state: draw(state) - center

    def _backup(self, child: int, action: int) -> Draw:
        """A function that samples r + gamma X(z) - centre (Alg. 3, lines 6-8)."""
        oracle, sample_child, discount = (
            self.oracle,
            self.level_samplers[child],
            self.problem.discount,
        )
        center = self.center

        def backup(state: Any) -> float:
            reward, next_state, is_over = oracle(state, action)
            return (
                reward - center
                if is_over
                else reward + (discount * sample_child(next_state) - center)
            )

        return backup

    def _query(self, row: int) -> Means:
        """A function that returns means of backups per legal action (Alg. 3).

        Means are clipped in paper mode only.
        """
        level, center = self.schedule.levels[row], self.schedule.centers[row]
        clip_range = self.schedule.clip
        child = self.schedule.levels[level.query]
        if child.kind == Kind.CONSTANT and child.shift == 0.0:
            total_of = self._leaf_total(child.constant, center)
        else:
            total_of = self._inner_total(self.level_samplers[level.query], center)

        def query(state: Any, actions: list[int], samples: int) -> list[float]:
            q_values = []
            for action in actions:
                mean = center + total_of(state, action, samples) / samples
                if clip_range is not None:
                    mean = min(max(mean, clip_range[0]), clip_range[1])
                q_values.append(mean)
            return q_values

        return query

    def _inner_total(self, below: Draw, center: float) -> Total:
        oracle, discount = self.oracle, self.problem.discount

        def inner_total(state: Any, action: int, samples: int) -> float:
            total = 0.0
            for _ in range(samples):
                reward, next_state, is_over = oracle(state, action)
                total += (
                    reward - center
                    if is_over
                    else reward + (discount * below(next_state) - center)
                )
            return total

        return inner_total

    def _is_over(self, terminal: Callable[[Any], bool], state: Any) -> bool:
        """Whether a state is terminal; faults of ``terminal`` become a sentence."""
        try:
            return terminal(state)
        except (Hung, KeyboardInterrupt):
            raise
        except BaseException:
            return self.problem.is_terminal(state)

    def _leaf_total(self, constant: float, center: float) -> Total:
        """A function that sums the backups of a leaf: the tight loop.

        All it needs to know of the next state is whether it is terminal.
        """
        user_step, problem, lowest_reward, highest_reward, has_terminals = (
            self.problem.oracle,
            self.problem,
            self.lowest_reward,
            self.highest_reward,
            self.schedule.facts.terminals,
        )
        later_value, pays_late = (
            problem.discount * (0.0 + 1.0 * constant) - center,
            self.pays_late,
        )
        is_terminal = problem.terminal if callable(problem.terminal) else None

        def leaf_total(state: Any, action: int, samples: int) -> float:
            rng, total, guard = self.rng, 0.0, self.guard
            state_copy = guard.copy_state(state) if guard.due(samples) else None
            for _ in range(samples):
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
                if not lowest_reward <= reward <= highest_reward:
                    raise reward_outside(
                        reward, at_pair(state, action), lowest_reward, highest_reward
                    )
                if is_over:
                    if not has_terminals:
                        raise undeclared_end(at_pair(state, action))
                elif is_terminal is not None:
                    is_over = self._is_over(is_terminal, next_state)
                if pays_late and reward != 0.0 and not is_over:
                    raise early_payoff(reward, at_pair(state, action))
                total += reward - center if is_over else reward + later_value
            if state_copy is not None:
                guard.compare(state_copy, state, action)
            return total

        return leaf_total

    def _plugin(self, row: int, level: Level) -> Draw:
        query, operator, shift = self._query(row), self.problem.operator, level.shift
        is_game, weights, all_actions = (
            self.problem.is_game,
            self.weights,
            self.all_actions,
        )
        value_of, strength, num_samples = (
            operator.scalar.value,
            operator.strength,
            level.samples,
        )
        sample_correction = (
            correction(self, level, query)
            if level.kind == Kind.RANDOM_PLUGIN
            else None
        )

        def plugin(state: Any) -> float:
            legal_actions = self._actions(state)
            mover_sign = self._sign(state) if is_game else 1.0
            q_values = query(state, legal_actions, num_samples)
            if is_game:
                q_values = [mover_sign * x for x in q_values]
            action_weights = (
                weights
                if legal_actions is all_actions
                else [weights[a] for a in legal_actions]
            )
            head = (
                mover_sign * value_of(q_values, action_weights, strength)
                + mover_sign * shift
            )
            if sample_correction is not None:
                head += sample_correction(
                    state, legal_actions, action_weights, mover_sign
                )
            return 0.0 + 1.0 * head

        return plugin

    def _rollout(self, row: int) -> Draw:
        """A chain of rollouts, sampled or blind, until a level that ends it.

        This is Alg. 2, lines 8-13, as a loop.
        """
        heads: list[Callable[[Any], tuple[float, int, float]]] = []
        level = self.schedule.levels[row]
        while level.kind in CHAINED:
            is_blind = level.kind == Kind.BLIND
            heads.append(
                self._blind_head(level) if is_blind else self._sampled_head(row, level)
            )
            row = level.continuation
            sample_end = self.level_samplers[row]
            level = self.schedule.levels[row]
        oracle, discount = self.oracle, self.problem.discount

        def rollout(state: Any) -> float:
            total, weight = 0.0, 1.0
            for choose_action in heads:
                head, action, gradient_norm = choose_action(state)
                reward, state, is_over = oracle(state, action)
                total += weight * (head + gradient_norm * reward)
                if is_over:
                    return total
                weight *= discount * gradient_norm
            return total + weight * sample_end(state)

        return rollout

    def _blind_head(self, level: Level) -> Callable[[Any], tuple[float, int, float]]:
        """A ~ grad F(0): (the head of the rollout, the action, |g|_1)."""
        operator, shift = self.problem.operator, level.shift
        blind_offsets = [0.0] + [
            operator.value([0.0] * k, weights=[1.0] * k)
            for k in range(1, self.problem.num_actions + 1)
        ]
        is_uniform, is_game = operator.uniform_at_zero, self.problem.is_game

        def blind_head(state: Any) -> tuple[float, int, float]:
            legal_actions = self._actions(state)
            mover_sign = self._sign(state) if is_game else 1.0
            head = mover_sign * blind_offsets[len(legal_actions)] + mover_sign * shift
            if is_uniform:
                return head, legal_actions[self.rng.integers(len(legal_actions))], 1.0
            gradient = operator.gradient(
                [0.0] * len(legal_actions),
                weights=[self.weights[a] for a in legal_actions],
            )
            return (head, *self._sample_action(legal_actions, gradient))

        return blind_head

    def _sampled_head(
        self, row: int, level: Level
    ) -> Callable[[Any], tuple[float, int, float]]:
        """A ~ grad F(Q-hat): (the head of the rollout, the action, |g|_1)."""
        query, operator, shift = self._query(row), self.problem.operator, level.shift
        is_game, weights, all_actions = (
            self.problem.is_game,
            self.weights,
            self.all_actions,
        )
        value_and_gradient, num_samples = operator.both, level.samples
        sample_correction = (
            correction(self, level, query)
            if level.kind == Kind.RANDOM_ROLLOUT
            else None
        )

        def sampled_head(state: Any) -> tuple[float, int, float]:
            legal_actions = self._actions(state)
            mover_sign = self._sign(state) if is_game else 1.0
            q_values = query(state, legal_actions, num_samples)
            if is_game:
                q_values = [mover_sign * x for x in q_values]
            action_weights = (
                weights
                if legal_actions is all_actions
                else [weights[a] for a in legal_actions]
            )
            value, gradient = value_and_gradient(q_values, action_weights)
            inner_product = 0.0
            for x, g in zip(q_values, gradient, strict=True):
                inner_product += x * g
            head = mover_sign * (value - inner_product) + mover_sign * shift
            action, gradient_norm = self._sample_action(legal_actions, gradient)
            if sample_correction is not None:
                head += sample_correction(
                    state, legal_actions, action_weights, mover_sign
                )
            return head, action, gradient_norm

        return sampled_head

    def _sample_action(
        self, actions: list[int], gradient: list[float]
    ) -> tuple[int, float]:
        """A ~ g / |g|_1 by one uniform and a running sum, and |g|_1.

        The norm is 1 where the operator is shift-invariant.
        """
        gradient_norm = 0.0
        for g in gradient:
            gradient_norm += g
        chosen_slot = proportional(
            gradient, len(gradient), self.rng.random() * gradient_norm
        )
        return actions[
            chosen_slot
        ], 1.0 if self.problem.operator.shift_invariant else gradient_norm
