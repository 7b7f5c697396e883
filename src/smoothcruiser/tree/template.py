"""The paper's template of Monte-Carlo tree search (Alg. 4-5).

Everything that a planner decides is a parameter.

  Alg. 4 (``generic_search``)
    repeat search(s, 0) until timeout; output an estimate of the best action or value
  Alg. 5 (``search``)
    search(s, d) = evaluateLeaf(s)                      at a leaf
    search(s, d) = R + gamma search(Z, d+1)             otherwise, where
                   a = selectAction(s, d), (R, Z) = oracle(s, a)

legend   symbol, name here
  selectAction              ``Rules.select_action`` -> ``Selection``
  d > d_max, evaluateLeaf   ``Rules.is_leaf``, ``Rules.evaluate_leaf``
  oracle                    ``Rules.oracle``
  (not in Alg. 5)           ``Rules.backup``: what a tree keeps of a finished descent;
                            nothing to do for SmoothCruiser
  h, w                      ``Selection.head``, ``Selection.norm``:
                            search(s, d) = h + w (R + gamma search(Z, d+1))

The paper calls sampleV an instance of Alg. 5. It is one after an addition that
the paper does not spell out: below kappa sampleV adds F(Q-hat) - <Q-hat, g> on
the way and, for general operators, multiplies by |g|_1 (Alg. 2, line 13). With
h = 0 and w = 1 the template is Alg. 5 to the letter; ``SampleV`` is the
instance.

Alg. 5's recursion is a loop here: rewards and heads are collected going down
with the weight gamma^d prod w that they will have, as in the engines
(``engines.reference``), so that ``SampleV`` returns their bits. What this file
leaves out: trees and their statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.sampling import proportional
from smoothcruiser.problem.answers import Answer
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.schedule import Level, Schedule


@dataclass(frozen=True)
class Selection:
    """What selectAction decides: an action, a number to add, and a factor.

    The number is added here; the factor applies to everything after it.
    """

    action: int
    head: float = 0.0
    norm: float = 1.0


@dataclass(frozen=True)
class Step:
    """One step of a descent, as the backup sees it."""

    state: Any
    selection: Selection
    reward: float
    after: Any
    ended: bool


class Rules(Protocol):
    """The decisions that make a planner of the template.

    Rules are never called with a terminal state.
    """

    def oracle(self, state: Any, action: int) -> Answer:
        """The answer of one call of the simulator."""

    def is_leaf(self, state: Any, depth: int) -> bool:
        """Whether the descent ends here (Alg. 5: d > d_max)."""

    def select_action(self, state: Any, depth: int) -> Selection:
        """The choice of the tree policy at this state."""

    def evaluate_leaf(self, state: Any, depth: int) -> float:
        """The value of a leaf."""

    def backup(self, path: Sequence[Step], leaf_value: float) -> None:
        """Remember a finished descent; ``leaf_value`` is 0 where the episode ended."""


def search(rules: Rules, state: Any, discount: float, depth: int = 0) -> float:
    """The return of one descent from ``state``, which is not terminal (Alg. 5)."""
    total = 0.0
    weight = 1.0
    path: list[Step] = []
    while not rules.is_leaf(state, depth):
        chosen = rules.select_action(state, depth)
        reward, after, ended = rules.oracle(state, chosen.action)
        path.append(Step(state, chosen, reward, after, ended))
        total += weight * (chosen.head + chosen.norm * reward)
        if ended:
            rules.backup(path, 0.0)
            return total
        weight *= discount * chosen.norm
        state = after
        depth += 1
    value = rules.evaluate_leaf(state, depth)
    rules.backup(path, value)
    return total + weight * value


@dataclass(frozen=True)
class Tally:
    """What Alg. 4 outputs by itself: the number of descents, and their sum."""

    simulations: int
    total: float

    @property
    def mean(self) -> float:
        """The estimate of the value: the mean of the descents."""
        return self.total / self.simulations


def generic_search(
    rules: Rules, state: Any, discount: float, until: Callable[[int], bool]
) -> Tally:
    """The tally of descents from ``state`` until ``until`` says stop (Alg. 4).

    ``until(descents made)`` is called before each descent but the first.
    """
    done = 0
    total = 0.0
    while done == 0 or not until(done):
        total += search(rules, state, discount)
        done += 1
    return Tally(done, total)


# --- sampleV as an instance ---------------------------------------------------


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
        queries = {level.query for level in self.chain if level.query >= 0}
        self.below = {
            query: SampleV(problem, schedule, query, oracle, uniform)
            for query in queries
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
        inner, norm = 0.0, 0.0
        for x, g in zip(q, gradient, strict=True):
            inner += x * g
            norm += g
        head = sign * (value - inner) + sign * level.shift
        chosen = proportional(gradient, len(gradient), self.uniform() * norm)
        return Selection(
            actions[chosen],
            head,
            1.0 if self.problem.operator.shift_invariant else norm,
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
        rules = self.below[level.query]
        q: list[float] = []
        for action in actions:
            total = 0.0
            for _ in range(level.samples):
                reward, after, ended = self.oracle(state, action)
                total += (
                    reward
                    if ended
                    else reward
                    + self.problem.discount
                    * search(rules, after, self.problem.discount)
                )
            mean = total / level.samples
            if self.schedule.clip is not None:
                mean = min(max(mean, self.schedule.clip[0]), self.schedule.clip[1])
            q.append(sign * mean)
        return actions, q, [self.weights[a] for a in actions]
