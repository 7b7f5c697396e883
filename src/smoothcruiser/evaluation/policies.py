"""The rollouts of a policy: how ``evaluate`` plays each form of it.

  a Tree                  the policy of the node reached, blind once the tree is left
  an Estimate             its policy at its own state, blind elsewhere
  a Solution, horizon     grad F(Q) with the Q of the steps that are left
  sampled actions         a function or an object that names actions (``policies``)
  anything else           a function of the state, as ``reading`` reads it

Blind means grad F(0) over the legal actions. Trees of compiled problems, and policies
that have a row for every state of a table, run in compiled code unless the executor is
"reference"; the others run in Python.

Rollouts of a policy that names actions themselves: state -> action.

``evaluate`` plays a function in this way on a problem with sampled actions
(``problem.action_sampler``): the user's own step gets the function's action, be it among the
sampled ones or not. A function of (state, rng) may draw lots. There is no regularizer,
since such a problem has the operator Max; so a path adds up rewards alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.evaluation.critics import MOST_CELLS
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts, Walk
from smoothcruiser.evaluation.policy_reading import (
    PolicyReading,
    ask_safely,
    find_rule,
    read_policy,
    takes_rng,
)
from smoothcruiser.evaluation.policy_tables import is_table
from smoothcruiser.evaluation.rollouts import (
    CompiledRollouts,
    Rollouts,
    RolloutTask,
    critic_parts,
)
from smoothcruiser.exact.reachable import known_model
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.model.tabular import Tables
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.kernels.compiled_tree import CompiledTree
from smoothcruiser.tree.tree import Tree


def rollouts_of(task: RolloutTask, policy: Any, compiled: bool | None) -> Rollouts:
    """The rollouts of ``policy``, in machine code or not; None: where that can be."""
    problem = task.problem
    in_python = compiled is False
    if isinstance(policy, Tree):
        return _of_tree(task, policy, plain=in_python)
    if isinstance(policy, Estimate):
        return PlainRollouts(task, lambda: _follow_estimate(problem, policy))
    # a Solution with a horizon: another policy at every step
    if getattr(policy, "stages", None) is not None:
        model_tables, num_steps = known_model(problem).tables, task.setting.limit
        return PlainRollouts(
            task, lambda: _follow_stages(problem, policy, model_tables, num_steps)
        )
    own_policy = getattr(
        policy, "policy", policy
    )  # an Agent's plays numbers of actions
    if problem.sample_action is not None and not hasattr(own_policy, "over_numbers"):
        return _of_actions(task, policy, compiled)
    reading = read_policy(problem, policy)
    if (
        reading.table is not None
        and problem.is_compiled
        and not in_python
        and is_critic_compiled(task)
    ):
        table_rollouts = CompiledRollouts.of_table(task, reading.table)
        table_rollouts.notes = reading.notes
        return table_rollouts
    if compiled:
        raise InvalidInput(
            "A policy or a value that is a function runs in Python; drop "
            "executor='compiled', or give an array (S, A) or a Tree."
        )
    return _of_function(task, reading)


def _of_function(task: RolloutTask, reading: PolicyReading) -> Rollouts:
    """The rollouts of a function of the state, which may draw from their stream."""

    def walk(state: Any, action: int | None) -> list[float]:
        return reading.shares(state, rollouts.rng)

    rollouts = PlainRollouts(task, lambda: walk)
    rollouts.lots[0] = float(reading.draws_lots)
    rollouts.notes, rollouts.assumed = reading.notes, reading.assumed
    return rollouts


def _of_actions(task: RolloutTask, policy: Any, compiled: bool | None) -> Rollouts:
    """The rollouts of a function that names actions themselves."""
    if isinstance(policy, Mapping) or is_table(policy):
        raise InvalidInput(
            "The actions of this problem are sampled (sample_action=), so its policy is a "
            "function state -> action or (state, rng) -> action, an object with predict, "
            "act or select_action, a Tree, an Estimate or agent.policy, got "
            f"{type(policy).__name__}."
        )
    if compiled:
        raise InvalidInput(
            "A policy that is a function runs in Python; drop executor='compiled', or "
            "give a Tree."
        )
    return ActionRollouts(task, policy)


def _of_tree(task: RolloutTask, tree: Tree, *, plain: bool) -> Rollouts:
    if tree.problem is not task.problem:
        raise InvalidInput(
            "The tree was grown on another problem object; "
            "evaluate it with the problem that it was grown on."
        )
    if task.problem.key_of(tree.state) != task.problem.key_of(task.state):
        raise InvalidInput(
            f"The tree is rooted at {tree.state!r}, but {task.state!r} "
            "was requested; advance the tree, or drop state=."
        )
    is_compiled = isinstance(tree.backend, CompiledTree) and is_critic_compiled(task)
    if is_compiled and not plain:
        return CompiledRollouts.of_tree(task, tree)
    return PlainRollouts(task, lambda: _follow_tree(tree))


def is_critic_compiled(task: RolloutTask) -> bool:
    """Whether machine code can read the critic, or there is none."""
    critic, tables = task.critic, task.problem.tables
    if critic is None or not task.problem.is_compiled:
        return critic is None
    if tables is None:
        return critic_parts(critic, task.state) is not None
    num_stages = (task.problem.horizon or 0) + 1 if critic.uses_steps else 1
    return num_stages * tables.num_states <= MOST_CELLS


def _follow_tree(tree: Tree) -> Walk:
    """The policy of the node reached, None (blind) once the tree is left."""
    node: int | None = 0

    def walk(state: Any, action: int | None) -> Any:
        nonlocal node
        if action is not None and node is not None:
            node = tree.child(node, action, state)
            if node is not None and not any(tree.node(node).edge_visits):
                node = None
        return None if node is None else tree.policy(node)

    return walk


def _follow_stages(problem: Problem, solution: Any, model: Tables, steps: int) -> Walk:
    """The policy grad F(Q) of an exact solution, with Q for the steps that are left."""
    steps_left, K = steps, problem.num_actions

    def walk(state: Any, action: int | None) -> Any:
        nonlocal steps_left
        steps_left -= 1
        next_values = solution.stages[steps_left]
        state_row = solution.index(state)
        if np.isnan(solution.stages[steps_left + 1][state_row]):
            raise InvalidInput(
                f"The solution does not know state {state!r} with {steps_left + 1} steps "
                f"left: it explored from {solution.states[0]!r} up to the horizon; "
                "solve the problem with initial_state= set to the requested state."
            )
        legal_actions = problem.legal_actions(state)
        q = []
        for a in legal_actions:
            row_slice = slice(
                model.start[state_row * K + a], model.start[state_row * K + a + 1]
            )
            future_value = problem.discount * next_values[model.next_state[row_slice]]
            q.append(
                float(
                    np.sum(
                        model.prob[row_slice]
                        * (model.reward[row_slice] + future_value)
                    )
                )
            )
        weights = problem.operator.weights(K)
        legal_shares = problem.operator.gradient(
            q, player=problem.mover(state), weights=[weights[a] for a in legal_actions]
        )
        all_shares = [0.0] * K
        for a, share in zip(legal_actions, legal_shares, strict=True):
            all_shares[a] = share / sum_in_order(legal_shares)
        return all_shares

    return walk


def _follow_estimate(problem: Problem, estimate: Estimate) -> Walk:
    """The estimate's policy at its own state, blind elsewhere."""
    if len(estimate.policy) != problem.num_actions:
        raise InvalidInput(
            "The estimate has no policy to evaluate; plan with target='q_values'."
        )
    own_key = problem.key_of(estimate.state)
    return lambda state, action: (
        estimate.policy if problem.key_of(state) == own_key else None
    )


class ActionRollouts(PlainRollouts):
    """Rollouts in Python of a function state -> action, or (state, rng) -> action.

    An object's ``predict``, ``act`` or ``select_action`` is such a function.
    """

    assumed: tuple[str, ...] = (
        "what the policy returns is an action of the problem, one that sample_action may "
        "sample or the limit of such (not checked)",
    )

    def __init__(self, task: RolloutTask, policy: Any) -> None:
        super().__init__(task, lambda: lambda state, action: None)
        problem = task.problem
        self.stepped = replace(
            problem, oracle=problem.given_step, sample_action=None, numbering=None
        )
        self.policy, self.notes = find_rule(problem, policy)
        self.takes_rng = takes_rng(self.policy)
        self.lots[0] = float(self.takes_rng)

    def kernel_parts(self) -> dict[str, Any]:
        """The policy's own action in the place of a sampled one."""
        return super().kernel_parts() | {
            "OMEGA": lambda code, p, w, t: 0.0,
            "sample_slot": lambda p, size, rng: 0,
        }

    def _list_actions(self, *numbers: Any) -> int:
        _, _, state, _, action_ids, _ = numbers
        action_ids[0] = self._action(state)
        return self.setting.fewest  # of which none but the first is looked at

    def _fill_policy(self, *numbers: Any) -> None:
        p = numbers[-1]
        p[0] = 1.0

    def _action(self, state: Any) -> Any:
        extra_arguments = (self.rng,) if self.takes_rng else ()
        chosen_action = ask_safely(self.policy, state, *extra_arguments)
        if chosen_action is None:
            raise InvalidInput(
                f"policy({state!r}) must give an action that the step takes, got None; "
                "is a return missing?"
            )
        return chosen_action
