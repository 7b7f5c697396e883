"""Executor ``reference``: the paper's pseudocode over a schedule table.

It follows the paper line by line and is slow on purpose. Alg. 1 is the root,
Alg. 2 (sampleV) is ``sample_v``, Alg. 3 (estimateQ) is ``estimate_q``. It calls
the user's own step with the same stream as the compiled engine and does the
same scalar arithmetic in the same order, so the two agree to the last bit.
Lines 11-13 of Alg. 2, the recursion along a rollout, are a loop here as there:
rewards and heads are collected on the way down with the weight gamma**t they
will have.
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.engines.base import Job, not_run
from smoothcruiser.engines.inspection import retyped_by
from smoothcruiser.engines.root_scores import BINNED, LOGGED, WHOLE, Sums, bin_of
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.errors import Interrupted
from smoothcruiser.jit.random.streams import Stream, stream
from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.step_errors import call_oracle
from smoothcruiser.run_control.call_seconds import calls_the_oracle
from smoothcruiser.schedule.schedule import Kind, Level
from smoothcruiser.states.state_copies import Guard, copy_state
from smoothcruiser.theory.stopping import psi

# kinds with a query
QUERYING = (Kind.PLUGIN, Kind.ROLLOUT, Kind.RANDOM_PLUGIN, Kind.RANDOM_ROLLOUT)


class ReferenceEngine:
    """Runs shards of one (problem, schedule, state) in plain Python."""

    name = "reference"
    kinds = frozenset(Kind)
    parallel = False
    python = True
    compile_seconds = 0.0

    def __init__(self, job: Job) -> None:
        self.job = job
        self.problem, self.schedule, self.center = (
            job.problem,
            job.schedule,
            job.center,
        )
        problem = job.problem
        self.retype = retyped_by(problem, job.state)
        self.state = job.state if self.retype is None else self.retype(job.state)
        self.weights = problem.operator.weights(problem.num_actions)
        self.is_shift_invariant = problem.operator.shift_invariant
        self.blind_head = [0.0] + [
            problem.operator.value([0.0] * k, weights=[1.0] * k)
            for k in range(1, problem.num_actions + 1)
        ]
        self.calls = 0
        self.guard = Guard()
        self.rng: Stream
        self.sums: Partial  # of the samples that are completed
        self.distances: list[float]  # of these samples, and perhaps of one more
        self.stopped = False

    def stop(self) -> None:
        """Ask a running shard to end."""
        self.stopped = True

    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard (Alg. 1, over its part of the samples)."""
        try:
            return self.run_draws(
                shard.action, shard.count, stream(seed, shard.action, shard.index)
            )
        except (Interrupted, KeyboardInterrupt) as stop:
            score = self.scores(self.distances[: self.sums.draws])
            partial_sums = self.sums._replace(calls=self.calls, score=score)
            stop.piece = Piece(shard, partial_sums)  # type: ignore[union-attr]
            raise

    @calls_the_oracle
    def run_draws(self, action: int, count: int, rng: Stream) -> Partial:
        """The sums of ``count`` root samples that take their numbers from ``rng``."""
        self.rng = rng
        self.calls = 0
        state_copy = copy_state(self.state)
        total = 0.0
        square = 0.0
        self.distances = []
        root = self.schedule.root
        for num_done in range(count):
            self.sums = Partial(num_done, total, square, 0)
            if root.target == "value":
                distance = self.sample_v(root.child, self.state) - self.center
            else:
                distance = self.backup(self.state, action, root.child, self.center)
            self.distances.append(distance)
            total += distance
            square += distance * distance
        self.guard.compare(state_copy, self.state, action)
        return Partial(count, total, square, self.calls, self.scores(self.distances))

    def scores(self, distances: list[float]) -> Sums:
        """The sums that the root's bound needs, sample by sample."""
        score = self.job.score
        if score.kind == BINNED:
            bin_weights = [0] * len(score.none)
            for distance in distances:
                bin_index, upper_weight = bin_of(distance, score.half, score.scale)
                bin_weights[bin_index] += WHOLE - upper_weight
                bin_weights[bin_index + 1] += upper_weight
            return tuple(bin_weights)
        if score.kind == LOGGED:
            psi_sum = 0.0
            for distance in distances:
                psi_sum += psi(score.scale * distance)
            return (psi_sum,)
        return ()

    def oracle(self, state: Any, action: int) -> tuple[float, Any, bool]:
        """(reward, next state, whether the episode is over) of one simulator call.

        The call is counted and its answer checked. A stop is noticed here,
        since one root sample can take millions of calls.
        """
        if self.stopped:
            raise Interrupted("The run was stopped before this shard was finished.")
        self.calls += 1
        facts = self.schedule.facts
        lowest_reward, highest_reward = facts.reward_range
        reward, next_state, is_over = call_oracle(
            self.problem,
            state,
            action,
            self.rng,
            lowest_reward,
            highest_reward,
            facts.terminals,
            self.guard,
        )
        if self.retype is not None:
            next_state = self.retype(next_state)
        return reward, next_state, is_over or self.problem.is_terminal(next_state)

    def backup(self, state: Any, action: int, child: int, center: float) -> float:
        """One sample of r + gamma X(z), less ``center`` (Alg. 3, lines 6-8)."""
        reward, next_state, is_over = self.oracle(state, action)
        if is_over:
            return reward - center
        return reward + (
            self.problem.discount * self.sample_v(child, next_state) - center
        )

    def estimate_q(
        self, state: Any, actions: list[int], row: int, samples: int
    ) -> list[float]:
        """The mean of ``samples`` backups for each legal action (Alg. 3).

        Means are clipped in paper mode only.
        """
        level, center = self.schedule.levels[row], self.schedule.centers[row]
        q_values = []
        for action in actions:
            total = 0.0
            for _ in range(samples):
                total += self.backup(state, action, level.query, center)
            mean = center + total / samples
            if self.schedule.clip is not None:
                mean = min(max(mean, self.schedule.clip[0]), self.schedule.clip[1])
            q_values.append(mean)
        return q_values

    def sample_v(self, row: int, state: Any) -> float:
        """One sample of level ``row`` at a state that is not terminal (Alg. 2)."""
        total = 0.0
        weight = 1.0
        while True:
            level = self.schedule.levels[row]
            if level.kind == Kind.CONSTANT:
                value = level.constant
                if level.shift != 0.0:
                    value += self.sign(state) * level.shift
                return total + weight * value
            if level.kind == Kind.MIDDLE:
                return total + weight * middle_at(self.problem, state)
            actions = self.problem.legal_actions(state)
            sign = self.sign(state)
            if level.kind == Kind.BLIND:
                head = sign * self.blind_head[len(actions)] + sign * level.shift
                action, gradient_norm = self.blind_action(actions)
            elif level.kind not in QUERYING:
                raise not_run(self.name, level.kind)
            else:
                q_values = self.estimate_q(state, actions, row, level.samples)
                y, action_weights = (
                    [sign * x for x in q_values],
                    [self.weights[a] for a in actions],
                )
                if level.kind in (Kind.PLUGIN, Kind.RANDOM_PLUGIN):
                    value = self.problem.operator.value(y, weights=action_weights)
                    head = sign * value + sign * level.shift
                    if level.kind == Kind.RANDOM_PLUGIN:
                        head += self.correction(row, state, actions, sign)
                    return total + weight * head
                linear_remainder, gradient = self.linearize(y, action_weights)
                head = sign * linear_remainder + sign * level.shift
                action, gradient_norm = self.sample_action(actions, gradient)
                if level.kind == Kind.RANDOM_ROLLOUT:
                    head += self.correction(row, state, actions, sign)
            reward, state, is_over = self.oracle(state, action)
            total += weight * (head + gradient_norm * reward)
            if is_over:
                return total
            weight *= self.problem.discount * gradient_norm
            row = level.continuation

    def linearize(
        self, y: list[float], action_weights: list[float]
    ) -> tuple[float, list[float]]:
        """F(y) - <y, g> and g = grad F(y); ``w`` are the prior weights."""
        value = self.problem.operator.value(y, weights=action_weights)
        gradient = self.problem.operator.gradient(y, weights=action_weights)
        inner_product = 0.0
        for x, g in zip(y, gradient, strict=True):
            inner_product += x * g
        return value - inner_product, gradient

    def correction(
        self, row: int, state: Any, actions: list[int], sign: float
    ) -> float:
        """One sample of the correction that a randomized level adds to its base.

        With the chance p_j of rung j it is 1/p_j times the difference between the
        whole and its two halves: y' and y'' are means of m = 2**(j-1) N samples, and
        their average is one of 2m. Over all rungs, its mean is the change by 2**J N
        samples in the place of N.
        """
        level = self.schedule.levels[row]
        j, chance = self.rung(level.rungs)
        if j == 0:
            return 0.0
        half_samples = 2 ** (j - 1) * level.samples
        first_half = [
            sign * x for x in self.estimate_q(state, actions, row, half_samples)
        ]
        second_half = [
            sign * x for x in self.estimate_q(state, actions, row, half_samples)
        ]
        full_means = [
            0.5 * (x + y) for x, y in zip(first_half, second_half, strict=True)
        ]
        weighted_means = ((1.0, full_means), (-0.5, first_half), (-0.5, second_half))
        action_weights = [self.weights[a] for a in actions]
        lacking = 0.0
        if level.kind == Kind.RANDOM_PLUGIN:
            for share, y in weighted_means:
                lacking += share * self.problem.operator.value(
                    y, weights=action_weights
                )
            return sign * lacking / chance
        delta = [0.0] * len(actions)
        for share, y in weighted_means:
            linear_remainder, gradient = self.linearize(y, action_weights)
            lacking += share * linear_remainder
            delta = [d + share * g for d, g in zip(delta, gradient, strict=True)]
        bracket = self.add_followed_sample(
            level, state, actions, delta, sign * lacking
        )
        return bracket / chance

    def add_followed_sample(
        self,
        level: Level,
        state: Any,
        actions: list[int],
        delta: list[float],
        bracket: float,
    ) -> float:
        """``bracket`` plus a sample of <delta, r + gamma X''(z)> from one action.

        The action is A' ~ |delta| / |delta|_1. Its sample is taken about the
        baseline b of the level, and b times the sum of delta is added exactly.
        """
        baseline = level.constant
        delta_sizes = [abs(d) for d in delta]
        if all(size == 0.0 for size in delta_sizes):
            return bracket
        if not self.is_shift_invariant:
            drift = 0.0
            for d in delta:
                drift += d
            bracket += baseline * drift
        chosen_slot, delta_norm = self.pick_slot(delta_sizes)
        xi = self.backup(state, actions[chosen_slot], level.continuation, baseline)
        return bracket + (delta_norm if delta[chosen_slot] > 0.0 else -delta_norm) * xi

    def rung(self, rungs: tuple[float, ...]) -> tuple[int, float]:
        """A rung j with its chance by one uniform; j = 0 where there is none."""
        u = self.rng.random()
        running_sum = 0.0
        for j, chance in enumerate(rungs, 1):
            running_sum += chance
            if u < running_sum:
                return j, chance
        return 0, 1.0

    def sign(self, state: Any) -> float:
        """+1 where max moves, -1 where min does."""
        return 1.0 if self.problem.mover(state) == 1 else -1.0

    def blind_action(self, actions: list[int]) -> tuple[int, float]:
        """A ~ grad F(0), and its norm."""
        if self.problem.operator.uniform_at_zero:
            return actions[self.rng.integers(len(actions))], 1.0
        gradient = self.problem.operator.gradient(
            [0.0] * len(actions), weights=[self.weights[a] for a in actions]
        )
        return self.sample_action(actions, gradient)

    def sample_action(
        self, actions: list[int], gradient: list[float]
    ) -> tuple[int, float]:
        """A ~ g / |g|_1 by one uniform and a running sum, and |g|_1.

        The norm is 1 where the operator is shift-invariant.
        """
        chosen_slot, gradient_norm = self.pick_slot(gradient)
        return actions[chosen_slot], 1.0 if self.is_shift_invariant else gradient_norm

    def pick_slot(self, weights: list[float]) -> tuple[int, float]:
        """An index in proportion to ``weights`` by one uniform, and their sum."""
        weight_sum = 0.0
        for g in weights:
            weight_sum += g
        u = self.rng.random() * weight_sum
        running_sum = 0.0
        chosen_slot = 0
        for i, g in enumerate(weights):
            if g > 0.0:
                chosen_slot = i
                running_sum += g
                if u < running_sum:
                    break
        return chosen_slot, weight_sum
