"""The policy of action values by node, and its look-up by the words of a state.

``write_rows`` makes the policy: grad F at the action values of each node. Where F is the
maximum it plays the first of the best actions. (``write_policy`` of a search's sweeps
is the same gradient, one node at a time.)

``keyed_policy`` reads it. Rollouts in machine code (``evaluation.kernel``) ask for the
policy of a state by the function ``fill_policy``; this one stands in its place where
states are rows of words in a hash table (``evaluation.critic_kernel``):

  table = (slots, rows, shares)     shares[i] are the probabilities of the state in rows[i]

States that are not there, and states with a row of zeros, are played blindly.

legend   symbol      name
  grad F             ``GRADIENT``; blind is grad F(0), ``UNINFORMED``
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from smoothcruiser.evaluation import critic_kernel
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.operators.dispatch import builtin_blind, builtin_gradient, is_greedy

FREE, find_place = critic_kernel.FREE, critic_kernel.find_place
GRADIENT, UNINFORMED = builtin_gradient, builtin_blind


def write_rows(
    first: Any, size: Any, actions: Any, q: Any, weights: Any,
    code: int, t: float, num_sampled: Any, rows: Any,
) -> None:  # fmt: skip
    """Write the policy of every node with samples to its row; others stay as they are.

    Node i has the pairs first[i] .. first[i] + size[i] - 1, of which ``actions`` has
    the actions and ``q`` the values.
    """
    K = rows.shape[1]
    node_q: Any = np.zeros(K)
    w: Any = np.zeros(K)
    out: Any = np.zeros(K)
    for i in range(1, len(rows)):
        if num_sampled[i] == 0:
            continue
        best = 0
        for a in range(size[i]):
            node_q[a] = q[first[i] + a]
            w[a] = weights[actions[first[i] + a]]
            if node_q[a] > node_q[best]:
                best = a
        if is_greedy(code):
            rows[i, actions[first[i] + best]] = 1.0
            continue
        GRADIENT(code, node_q[: size[i]], w[: size[i]], t, out)
        total = 0.0
        for a in range(size[i]):
            total += out[a]
        for a in range(size[i]):
            rows[i, actions[first[i] + a]] = out[a] / total


# about the CPU seconds of compiling it
POLICIES = KernelFamily(compiling=1.0)
write_policies = POLICIES.kernel(write_rows)


def keyed_policy(
    code: int, t: float, table: Any, follows: bool, tree_node: int, state: Any,
    action_ids: Any, num_legal: int, zeros: Any, w: Any, p: Any,
) -> None:  # fmt: skip
    """Write the probabilities of the legal actions to ``p`` (``fill_policy``)."""
    slots, rows, shares = table
    row, total = slots[find_place(slots, rows, state)], 0.0
    if row != FREE:
        for j in range(num_legal):
            p[j] = shares[row, action_ids[j]]
            total += p[j]
    if total == 0.0:
        UNINFORMED(code, zeros[:num_legal], w[:num_legal], t, p[:num_legal])


@cache
def keyed_policy_for(codec: Any) -> Any:
    """The compiled ``keyed_policy`` for one form of state."""
    from smoothcruiser.jit.build import compile_function

    functions = critic_kernel.keyed_functions(codec)
    return compile_function(keyed_policy, find_place=functions.find_place)
