"""The policy and the values of a search's counted model, for paths beside the search.

    pi(s) = grad F(q(s, .)),    W(s) = v(s)

with q and v the counted model's values (``certified.sweeps.counted_model``), in the
states of which the search has samples. Elsewhere the policy is blind, grad F(0), and W
is the mean. Any policy and any W that are chosen from the past serve the bound of
``policy_paths``; these cost no further calls.

Rollouts run in compiled code where that pays: at once where states are those of tables
and the search is compiled, and after ``MOST_PLAIN`` calls where the step is compiled
and a state is known by its words. Elsewhere they are interpreted. Samples are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.evaluation import critic_kernel
from smoothcruiser.evaluation.critics import Critic
from smoothcruiser.evaluation.path_fitting import Worth
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts
from smoothcruiser.evaluation.rollouts import (
    CompiledPolicy,
    CompiledRollouts,
    RolloutTask,
)
from smoothcruiser.methods.paths.policy_kernel import keyed_policy_for, write_policies
from smoothcruiser.problem.model.tabular import Floats
from smoothcruiser.states.table import NumberStates

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified

# interpreted calls of a compiled step, 15 microseconds each, before its rollouts are
# compiled, which takes some seconds in every process
MOST_PLAIN = 200_000


class CountedPolicy:
    """The policy and W of a search at its last refit."""

    def __init__(self, search: Certified) -> None:
        self.search, self.problem = search, search.problem
        self.rows: Floats = np.zeros((0, search.problem.num_actions))  # by node
        self.critic = NodeCritic(search)
        self.values: Floats = np.zeros(0)  # by node, where the next refit starts
        self.num_calls = -1  # of the memory, at the last refit
        self.rollouts: Any = None

    def refit(self) -> None:
        """Read the policy and W from the samples of now."""
        memory, region = self.search.memory, self.search.region
        if memory.num_calls == self.num_calls:
            return
        self.num_calls = memory.num_calls
        values, q_values, num_sampled = region.counted.solve_all(
            memory.num_calls, self.values
        )
        self.values = values[: memory.num_nodes]
        num_nodes, operator = memory.num_nodes, self.problem.operator
        pairs = memory.graph.pairs[: memory.num_pairs]
        nodes = memory.graph.nodes[:num_nodes]
        self.rows = np.zeros((num_nodes, self.problem.num_actions))
        write_policies(
            nodes["first"],
            nodes["size"],
            pairs["action"],
            q_values,
            memory.weights,
            operator.code,
            operator.strength,
            num_sampled,
            self.rows,
        )
        self.critic.set_values(values[:num_nodes], np.flatnonzero(num_sampled > 0))

    def worth_at(self, node: int) -> Worth:
        """The facts of W, where paths start at ``node``."""
        return Worth(float(self.critic.node_values[node]))

    # --- rollouts ---------------------------------------------------------------

    def rollouts_of(self, task: RolloutTask, calls: int) -> Any:
        """The rollouts of the policy of now, for about so many calls."""
        if self.problem.tables is not None:
            if self.search.region.loops.is_compiled:
                self._play_table(task)
        elif self._is_worth_compiling(calls):
            self._play_words(task)
        if self.rollouts is None:
            self.rollouts = PlainRollouts(task, lambda: self._follow)
        self.rollouts.hold = task.hold
        return self.rollouts

    def _is_worth_compiling(self, calls: int) -> bool:
        """Whether the step's rollouts run in machine code from now on."""
        if isinstance(self.rollouts, CompiledRollouts):
            return True
        num_calls = calls + (0 if self.rollouts is None else self.rollouts.calls)
        is_plain_key = self.problem.key is None and self.problem.value_gap is None
        return num_calls > MOST_PLAIN and is_plain_key and self.problem.is_compiled

    def _play_table(self, task: RolloutTask) -> None:
        """Rollouts over the states of a table."""
        table, worth = self._state_table(), self._state_worth()
        if not isinstance(self.rollouts, CompiledRollouts):
            assert self.problem.tables is not None
            state, data = int(task.state), self.problem.tables.sampling
            policy = CompiledPolicy(None, data, state, table, critic_data=worth)
            self._replace(CompiledRollouts(task, policy))
        self.rollouts.replace_table(table, worth)

    def _play_words(self, task: RolloutTask) -> None:
        """Rollouts over states that are known by their words."""
        from numba import typeof

        from smoothcruiser.tree.kernels.compiled_tree import machine_for

        machine, data, state = machine_for(self.problem, task.state)
        parts = self.critic.compiled_parts(typeof(state))
        if parts is None:
            return
        value_function, (slots, rows, worth) = parts
        table = slots, rows, np.ascontiguousarray(self.rows[1:])
        critic_data = slots, rows, worth
        if not isinstance(self.rollouts, CompiledRollouts):
            policy = CompiledPolicy(
                machine,
                data,
                state,
                table,
                critic=value_function,
                critic_data=critic_data,
                parts={"fill_policy": keyed_policy_for(self.critic.codec)},
            )
            self._replace(CompiledRollouts(task, policy))
        self.rollouts.replace_table(table, critic_data)

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

    def _states_of(self, nodes: Any) -> Any:
        """The numbers of the states of nodes, for tables."""
        states = self.search.memory.states
        return np.array([states[node] for node in nodes.tolist()], dtype=np.int64)

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
        table[self._states_of(known_nodes)] = self.rows[known_nodes]
        return table

    def _state_worth(self) -> Floats:
        """(1, S): W by states of a table."""
        assert self.problem.tables is not None
        worth = np.full((1, self.problem.tables.num_states), self.critic.mean)
        known_nodes = np.arange(1, len(self.critic.node_values))
        worth[0, self._states_of(known_nodes)] = self.critic.node_values[1:]
        return worth

    def close(self) -> None:
        """Release threads."""
        if self.rollouts is not None:
            self.rollouts.close()


class NodeCritic(Critic):
    """W by the nodes of a search; states without one have the mean."""

    def __init__(self, search: Certified) -> None:
        self.search, self.mean = search, 0.0
        self.node_values: Floats = np.zeros(1)
        self.codec: Any = None

    def set_values(self, values: Floats, known_nodes: Any) -> None:
        """Have other values from now on; those of other nodes are the mean."""
        known_values = values[known_nodes]
        self.mean = float(known_values.mean()) if len(known_nodes) else 0.0
        self.node_values = np.full(len(values), self.mean)
        self.node_values[known_nodes] = known_values
        node_values = self.node_values[1:]
        self.bounds = float(node_values.min()), float(node_values.max())

    def value_at(self, state: Any, steps_left: int | None = None) -> float:
        """The value of one state."""
        node = self.search.memory.find_node(state)
        if node is None or node == END or node >= len(self.node_values):
            return self.mean
        return float(self.node_values[node])

    def raw_values(self, states: Sequence[Any], steps_left: int | None) -> Floats:
        """The values of states, one by one."""
        return np.array([self.value_at(state) for state in states])

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """A hash table of the words of the states; None where words do not tell them."""
        from smoothcruiser.states.codec import codec_of

        states = self.search.memory.states
        if self.codec is None:
            codec = codec_of(state_type, states[1])
            if not codec.is_plain:
                return None
            self.codec = codec
        if isinstance(states, NumberStates):
            rows = np.ascontiguousarray(states.keys[1 : states.size])
        else:
            rows = self.codec.encode(list(states[1:]))
        slots = critic_kernel.make_slots(self.codec, rows)
        worth = np.append(self.node_values[1:], self.mean)[None, :]
        functions = critic_kernel.keyed_functions(self.codec)
        return functions.value, (slots, rows, worth)
