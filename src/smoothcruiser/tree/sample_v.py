"""sampleV (Alg. 2) as an instance of the paper's template of tree search.

Not in this file: the template itself (``template``), and the engines that run
schedules fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.sampling import proportional
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import Answer
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.schedule import Level, Schedule
from smoothcruiser.tree.template import Selection, Step, search


class SampleV:
    """Alg. 2 in the template's terms, for a level ``row`` of a schedule.

    It is the paper's analogy with tree search, which can be checked line by
    line.

    selectAction is estimateQ followed by a sample from the gradient (Alg. 2,
    lines 8-9). A leaf is where the chain of rollouts ends, the paper's e >=
    kappa, and evaluateLeaf is sparse sampling there (lines 3 and 5-6).
    estimateQ is itself Alg. 4 with a fixed number of descents over another
    instance, one for each action. Nothing outside the template is run except
    the oracle and F.
    """

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        row: int,
        oracle: Callable[[Any, int], Answer],
        uniform: Callable[[], float],
    ) -> None:
        self.problem, self.schedule, self.oracle, self.uniform = (
            problem,
            schedule,
            oracle,
            uniform,
        )
        self.weights = problem.operator.weights(problem.num_actions)
        # entry d is the level that applies at depth d
        self.chain: list[Level] = [schedule.levels[row]]
        while self.chain[-1].continuation >= 0:
            self.chain.append(schedule.levels[self.chain[-1].continuation])
        for estimator in (estimator_of(level.kind) for level in self.chain):
            if not estimator.in_paper:
                raise InvalidInput(
                    f"sampleV has no {estimator.word} levels; give a schedule of "
                    "rollouts, plug-ins and constants (method 'paper')."
                )
        query_levels = {level.query for level in self.chain if level.query >= 0}
        self.below = {
            query: SampleV(problem, schedule, query, oracle, uniform)
            for query in query_levels
        }

    def is_leaf(self, state: Any, depth: int) -> bool:
        """Whether the accuracy has risen to kappa: no rollout from here on."""
        return not estimator_of(self.chain[depth].kind).goes_on

    def select_action(self, state: Any, depth: int) -> Selection:
        """A ~ grad F(Q-hat) (Alg. 2, line 9).

        The head is the constant part of line 13.
        """
        level = self.chain[depth]
        sign = self._sign(state)
        actions, q, w = self._estimate_q(state, level, sign)
        value = self.problem.operator.value(q, weights=w)
        gradient = self.problem.operator.gradient(q, weights=w)
        inner_product, gradient_norm = 0.0, 0.0
        for x, g in zip(q, gradient, strict=True):
            inner_product += x * g
            gradient_norm += g
        head_value = sign * (value - inner_product) + sign * level.shift
        action_slot = proportional(
            gradient, len(gradient), self.uniform() * gradient_norm
        )
        return Selection(
            actions[action_slot],
            head_value,
            1.0 if self.problem.operator.shift_invariant else gradient_norm,
        )

    def evaluate_leaf(self, state: Any, depth: int) -> float:
        """F(estimateQ) (Alg. 2, line 6), or the constant (line 3)."""
        level = self.chain[depth]
        if estimator_of(level.kind).is_leaf:
            return (
                level.constant + self._sign(state) * level.shift
                if level.shift != 0.0
                else level.constant
            )
        sign = self._sign(state)
        _, q, w = self._estimate_q(state, level, sign)
        return sign * self.problem.operator.value(q, weights=w) + sign * level.shift

    def backup(self, path: Sequence[Step], leaf_value: float) -> None:
        """Do nothing: SmoothCruiser keeps no tree.

        So its guarantee does not depend on states that come back.
        """

    def _sign(self, state: Any) -> float:
        return 1.0 if self.problem.mover(state) == 1 else -1.0

    def _estimate_q(
        self, state: Any, level: Level, sign: float
    ) -> tuple[list[int], list[float], list[float]]:
        """(legal actions, signed Q-hat, prior weights) of a state (Alg. 3).

        Q-hat is signed from the mover's point of view.
        """
        actions = self.problem.legal_actions(state)
        level_rules = self.below[level.query]
        q: list[float] = []
        for action in actions:
            sum_returns = 0.0
            for _ in range(level.samples):
                reward, next_state, has_ended = self.oracle(state, action)
                sum_returns += (
                    reward
                    if has_ended
                    else reward
                    + self.problem.discount
                    * search(level_rules, next_state, self.problem.discount)
                )
            mean_return = sum_returns / level.samples
            if self.schedule.clip is not None:
                mean_return = min(
                    max(mean_return, self.schedule.clip[0]), self.schedule.clip[1]
                )
            q.append(sign * mean_return)
        return actions, q, [self.weights[a] for a in actions]
