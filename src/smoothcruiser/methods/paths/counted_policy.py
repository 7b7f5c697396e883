"""The policy of a search's counted model, and its rollouts.

    pi(s) = grad F(q(s, .)),    q the counted model's action values (``counted_model``)

in the states of which the search has samples; elsewhere the blind policy, grad F(0).
Any policy that is chosen from the past serves the bound of ``policy_paths``; this one is
worth more than that of the middles of intervals that are still wide.

Where states are those of tables, rollouts run in compiled code, once the search does.
Elsewhere they are interpreted; the samples are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts
from smoothcruiser.evaluation.rollouts import CompiledRollouts, RolloutTask
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.problem.model.tabular import Floats

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified


class CountedPolicy:
    """The policy of a search at its last refit."""

    def __init__(self, search: Certified) -> None:
        self.search, self.problem = search, search.problem
        self.rows: Floats = np.zeros((0, search.problem.num_actions))  # by node
        self.rollouts: Any = None

    def refit(self) -> None:
        """Read the policy from the samples of now."""
        memory, region = self.search.memory, self.search.region
        _, q_values, num_sampled = region.counted.solve_all(memory.num_calls)
        num_nodes, num_actions = memory.num_nodes, self.problem.num_actions
        pairs = memory.graph.pairs[: memory.num_pairs]
        nodes = memory.graph.nodes[:num_nodes]
        is_known = num_sampled[pairs["node"]] > 0
        owners, actions = pairs["node"][is_known], pairs["action"][is_known]
        values = np.full((num_nodes, num_actions), -np.inf)
        values[owners, actions] = q_values[is_known] * nodes["sign"][owners]
        self.rows = np.zeros((num_nodes, num_actions))
        known_nodes = np.flatnonzero(num_sampled > 0)
        if is_greedy(self.problem.operator.code):
            best_actions = values[known_nodes].argmax(axis=1)
            self.rows[known_nodes, best_actions] = 1.0
        else:
            self._fill_rows(known_nodes, values)

    def _fill_rows(self, known_nodes: Any, values: Floats) -> None:
        """Write grad F for each of the nodes."""
        operator = self.problem.operator
        weights = operator.weights(self.problem.num_actions)
        for node in known_nodes.tolist():
            actions = np.flatnonzero(values[node] > -np.inf)
            shares = operator.gradient(
                values[node, actions].tolist(), weights=[weights[a] for a in actions]
            )
            self.rows[node, actions] = shares
            self.rows[node] /= self.rows[node].sum()

    def rollouts_of(self, task: RolloutTask) -> Any:
        """The rollouts of the policy of now; they are made once."""
        is_compiled = self.search.region.loops.is_compiled
        if self.problem.tables is not None and is_compiled:
            table = self._state_table()
            if not isinstance(self.rollouts, CompiledRollouts):
                self._replace(CompiledRollouts.of_table(task, table))
            self.rollouts.replace_table(table)
        elif self.rollouts is None:
            self._replace(PlainRollouts(task, lambda: self._follow))
        self.rollouts.hold = task.hold
        return self.rollouts

    def _replace(self, rollouts: Any) -> None:
        """Go on with other rollouts, which count on."""
        if self.rollouts is not None:
            rollouts.spend(self.rollouts.calls)
            self.close()
        self.rollouts = rollouts

    def _follow(self, state: Any, action: int | None) -> Any:
        """The policy at a state; None (blind) where it is not known."""
        node = self.search.memory.find_node(state)
        if node is None or node == END or node >= len(self.rows):
            return None
        row = self.rows[node]
        return row.tolist() if row.any() else None

    def _state_table(self) -> Floats:
        """The policy by states of a table, blind where it is not known."""
        tables, operator = self.problem.tables, self.problem.operator
        assert tables is not None
        legal = tables.legal & ~tables.terminal[:, None]
        weights = np.array(operator.weights(self.problem.num_actions))
        table = np.zeros(legal.shape)
        if operator.uniform_at_zero:
            table[:] = legal / np.maximum(1, legal.sum(axis=1))[:, None]
        else:
            for state in np.flatnonzero(legal.any(axis=1)).tolist():
                actions = np.flatnonzero(legal[state])
                table[state, actions] = operator.blind(weights[actions].tolist())
        known_nodes = np.flatnonzero(self.rows.any(axis=1))
        states = np.array([self.search.memory.states[n] for n in known_nodes.tolist()])
        if len(states):
            table[states.astype(np.int64)] = self.rows[known_nodes]
        return table

    def close(self) -> None:
        """Release threads."""
        if self.rollouts is not None:
            self.rollouts.close()
