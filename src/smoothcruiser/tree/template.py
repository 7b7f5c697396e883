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
  (not in Alg. 5)           ``Rules.backup``: updates a tree after a finished descent;
                            nothing to do for SmoothCruiser
  h, w                      ``Selection.head``, ``Selection.norm``:
                            search(s, d) = h + w (R + gamma search(Z, d+1))

The paper calls sampleV an instance of Alg. 5. It is one after an addition that
the paper does not spell out: below kappa sampleV adds F(Q-hat) - <Q-hat, g> on
the way and, for general operators, multiplies by |g|_1 (Alg. 2, line 13). With
h = 0 and w = 1 the template is Alg. 5 to the letter; ``sample_v.SampleV`` is
the instance.

Alg. 5's recursion is a loop here: rewards and heads are collected going down
with the weight gamma^d prod w that they will have, as in the engines
(``engines.interpreted.reference``), so that ``SampleV`` returns their bits. Not in this file:
trees and their statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from smoothcruiser.problem.step_errors import Answer


@dataclass(frozen=True)
class Selection:
    """The decision of selectAction: an action, a number to add, and a factor.

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
    total_return = 0.0
    weight = 1.0
    path: list[Step] = []
    while not rules.is_leaf(state, depth):
        selection = rules.select_action(state, depth)
        reward, next_state, has_ended = rules.oracle(state, selection.action)
        path.append(Step(state, selection, reward, next_state, has_ended))
        total_return += weight * (selection.head + selection.norm * reward)
        if has_ended:
            rules.backup(path, 0.0)
            return total_return
        weight *= discount * selection.norm
        state = next_state
        depth += 1
    leaf_value = rules.evaluate_leaf(state, depth)
    rules.backup(path, leaf_value)
    return total_return + weight * leaf_value


@dataclass(frozen=True)
class Tally:
    """The output of Alg. 4 by itself: the number of descents, and their sum."""

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
    num_descents = 0
    total_return = 0.0
    while num_descents == 0 or not until(num_descents):
        total_return += search(rules, state, discount)
        num_descents += 1
    return Tally(num_descents, total_return)
