"""Interval iteration over a known model, explored lazily from the asked state:
no samples, delta = 0.

``outcomes(state, action) -> [(probability, reward, next_state)]`` gives the
sums that certified search otherwise estimates, so all radii are 0 and L <= V <=
U hold for sure. States are expanded where the width of the answer comes from,
so a graph too large for ``exact`` (or infinite) may still close around the
asked state. What this file leaves out: everything that it shares with
``Certified``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.certified.limits import Ends as Limits
from smoothcruiser.certified.limits import Target
from smoothcruiser.certified.memory import ENTRIES, ENTRY
from smoothcruiser.certified.search import Certified
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import ROW_SUM_TOLERANCE, Ints

# about a minute of Python and a few hundred bytes a state and action
MAX_STATES = 1_000_000


def known_model(
    problem: Problem,
    state: Any = None,
    *,
    epsilon: float,
    max_states: int = MAX_STATES,
    seconds: float | None = None,
    target: Target = "q_values",
) -> Estimate:
    """The Estimate at ``state`` from ``outcomes`` alone, to half-width
    ``epsilon`` or as far as ``max_states`` (or seconds) go.
    """
    if problem.outcomes is None:
        raise InvalidInput(
            "A known model needs outcomes=, a function of (state, action) that "
            "lists (probability, reward, next_state)."
        )
    if problem.terminal is True:
        raise InvalidInput(
            "outcomes= cannot say where an episode ends; give terminal= as a "
            "function of the state instead of True."
        )
    return KnownModel(problem, max_states=max_states).query(
        state, epsilon=epsilon, seconds=seconds, target=target
    )


class KnownModel(Certified):
    """Certified search whose pairs are told, not drawn."""

    sampled = False

    def __init__(self, problem: Problem, *, max_states: int) -> None:
        # no share of it is ever used: nothing is random
        super().__init__(problem, delta=0.5)
        self.exact = True
        self.max_states = max_states

    def _round(self, root: int, limits: Limits, left: int) -> str | None:
        return (
            "states"
            if self.memory.num_nodes > self.max_states
            else super()._round(root, limits, left)
        )

    def _look(self, state: Any, left: int) -> int:
        return 0

    def _with_checks(self, counts: Ints, left: int) -> Ints:
        return counts

    def _draw(self, pairs: Ints, counts: Ints) -> None:
        """Write the outcomes of the pairs as entries."""
        memory = self.memory
        for p in pairs.tolist():
            i, action = (
                int(memory.graph.pairs[p]["node"]),
                int(memory.graph.pairs[p]["action"]),
            )
            found = checked_outcomes(self.problem, memory.states[i], action)
            targets = [
                memory.node_of(after, memory.remaining[i] - 1) for _, _, after in found
            ]
            start = int(memory.graph.sizes[ENTRIES])
            memory._grow("entries", start + len(found))
            memory.graph.entries[start : start + len(found)] = np.array(
                [
                    (0, reward, chance, node)
                    for (chance, reward, _), node in zip(found, targets, strict=True)
                ],
                dtype=ENTRY,
            )
            memory.graph.sizes[ENTRIES] += len(found)
            pair = memory.graph.pairs[p]
            pair["start"], pair["length"], pair["room"] = start, len(found), len(found)
            pair["total"] = math.fsum(chance for chance, _, _ in found)
            memory.check_turns(
                np.full(len(found), p), np.array(targets, dtype=np.int64)
            )


def checked_outcomes(
    problem: Problem, state: Any, action: int
) -> list[tuple[float, float, Any]]:
    """The possible outcomes of one pair: probabilities that sum to 1, rewards
    in their range.
    """
    assert problem.outcomes is not None
    where = f"outcomes({state!r}, {action})"
    try:
        found = [
            (float(chance), float(reward), after)
            for chance, reward, after in problem.outcomes(state, action)
        ]
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{where} must list (probability, reward, next_state): {error}."
        ) from error
    total = math.fsum(chance for chance, _, _ in found)
    if (
        not all(chance >= 0.0 for chance, _, _ in found)
        or not abs(total - 1.0) <= ROW_SUM_TOLERANCE
    ):
        raise InvalidInput(
            f"{where} must hold probabilities that sum to 1, got "
            f"{[chance for chance, _, _ in found]}."
        )
    low, high = problem.facts.reward_range
    outside = [reward for _, reward, _ in found if not low <= reward <= high]
    if outside:
        raise InvalidInput(
            f"{where} pays {outside[0]!r}, outside reward_range ({low:g}, "
            f"{high:g}); declare the range that holds all."
        )
    return [outcome for outcome in found if outcome[0] > 0.0]
