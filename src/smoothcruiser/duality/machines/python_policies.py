"""Policies in Python on the walks of a path: their probabilities, checked.

A policy is a function that starts a walk: a function of the state and of the action that
led to it, with a memory of its own if it likes. Every walk of every path starts anew, so
that the policy is the same one on all paths. Between the walks, while the layers of a
path grow, the nodes of the player who does not know the noise ask it too (games): each
node starts a walk of its own there, since many ways lead to it.

This file leaves out tables and the policy that is greedy on W (``path_kernel``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothcruiser.duality.machines.path_kernel import NO_WALK
from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.policy_tables import SUM_TOLERANCE
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.states.state_copies import lend_copy

if TYPE_CHECKING:
    from smoothcruiser.duality.machines.path_tasks import PathTask, Walk


class PythonWalks:
    """The walks of a policy, one after the other.

    A node of the player who does not know the noise asks a walk of its own: there the
    policy is a function of the state.
    """

    def __init__(self, task: PathTask) -> None:
        assert task.start_walk is not None
        self.problem, self.start_walk = task.problem, task.start_walk
        self.weights = task.problem.operator.weights(task.problem.num_actions)
        self.walk: Walk | None = None
        self.last_action: int | None = None

    def begin(self, world: Any, critic: Any, path: int, first_action: int) -> None:
        """Begin a walk, or with NO_WALK the layers of a path."""
        is_walk = first_action != NO_WALK
        self.walk, self.last_action = self.start_walk() if is_walk else None, None

    def note(self, world: Any, critic: Any, action: int) -> None:
        """The walk takes an action."""
        self.last_action = int(action)

    def shares(self, state: Any) -> list[float]:
        """The probabilities of all actions at a state."""
        walk, last_action = self.walk, self.last_action
        if walk is None:
            walk, last_action = self.start_walk(), None
        return self._check_answer(walk(lend_copy(state), last_action), state)

    def _check_answer(self, answer: Any, state: Any) -> list[float]:
        K = self.problem.num_actions
        legal_actions = self.problem.legal_actions(state)
        shares = [0.0] * K
        if answer is None:
            weights = [self.weights[a] for a in legal_actions]
            blind_shares = self.problem.operator.blind(weights)
            for a, share in zip(legal_actions, blind_shares, strict=True):
                shares[a] = share
            return shares
        try:
            all_shares = [float(share) for share in answer]
        except (TypeError, ValueError):
            all_shares = []
        is_valid = len(all_shares) == K and all(
            0.0 <= share < math.inf for share in all_shares
        )
        legal_sum = sum_in_order([all_shares[a] for a in legal_actions if is_valid])
        if not is_valid or not abs(legal_sum - 1.0) <= SUM_TOLERANCE:
            raise InvalidInput(
                f"policy({state!r:.80}) must give {K} probabilities of legal actions "
                f"that sum to 1, got {answer!r:.80}."
            )
        for a in legal_actions:
            shares[a] = all_shares[a] / legal_sum
        return shares
