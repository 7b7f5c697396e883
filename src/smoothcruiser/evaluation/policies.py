"""The readings of a policy: how ``evaluate`` plays what it is handed.

  a Tree                  the policy of the node reached, blind once the tree is left
  an Estimate             its policy at its own state, blind elsewhere
  a Solution, horizon     grad F(Q) with the Q of the steps that are left
  a Solution, explored    the row of the state among the explored ones
  a function              state -> probabilities; state -> action where actions are
                          sampled (``actions``)
  an array (S, A)         the row of the state

Blind means grad F(0) over the legal actions. Trees of compiled problems and
arrays over tables run in compiled code unless the executor is "reference"; the
rest runs in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.estimate import Estimate
from smoothcruiser.evaluation.actions import ActionRollouts
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts, Walk
from smoothcruiser.evaluation.rollouts import CompiledRollouts, Rollouts, RolloutTask
from smoothcruiser.exact.reachable import known_model
from smoothcruiser.operators.adding import added
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import lent
from smoothcruiser.problem.tabular import Tables
from smoothcruiser.tree.compiled import CompiledTree
from smoothcruiser.tree.tree import Tree


def rollouts_of(task: RolloutTask, policy: Any, compiled: bool | None) -> Rollouts:
    """The rollouts of ``policy``, read as what it is, in machine code or not; None:
    where that can be.
    """
    problem = task.problem
    plain = compiled is False
    if isinstance(policy, Tree):
        return _of_tree(task, policy, plain=plain)
    if isinstance(policy, Estimate):
        return PlainRollouts(task, lambda: _one_state(problem, policy))
    # a Solution with a horizon: another policy at every step
    if getattr(policy, "stages", None) is not None:
        model, steps = known_model(problem).tables, task.setting.limit
        return PlainRollouts(task, lambda: _staged(problem, policy, model, steps))
    if problem.sample_action is not None and not hasattr(policy, "over_numbers"):
        return _of_actions(task, policy, compiled)
    table = getattr(policy, "policy", policy)
    if getattr(policy, "states", None) is not None:  # a Solution over explored states
        rows = np.asarray(table, dtype=float)
        return PlainRollouts(task, lambda: _stationary(lambda s: rows[policy.index(s)]))
    if callable(policy) and compiled:
        raise InvalidInput(
            "A policy that is a function runs in Python; drop "
            "executor='compiled', or give an array (S, A) or a Tree."
        )
    if callable(policy):
        return PlainRollouts(task, lambda: _stationary(policy))
    array = _table(problem, table)
    if problem.is_compiled and problem.tables is not None and not plain:
        return CompiledRollouts.of_table(task, array)
    return PlainRollouts(task, lambda: _stationary(lambda s: array[s]))


def _of_actions(task: RolloutTask, policy: Any, compiled: bool | None) -> Rollouts:
    """The rollouts of a function that names actions themselves."""
    if not callable(policy):
        raise InvalidInput(
            "The actions of this problem are sampled (sample_action=), so its policy is a "
            "function state -> action or (state, rng) -> action, a Tree, an Estimate or "
            f"agent.policy, got {type(policy).__name__}."
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
    if isinstance(tree._backend, CompiledTree) and not plain:
        return CompiledRollouts.of_tree(task, tree)
    return PlainRollouts(task, lambda: _follow(tree))


def _follow(tree: Tree) -> Walk:
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


def _stationary(policy: Callable[[Any], Any]) -> Walk:
    """The same function of the state at every step."""

    def walk(state: Any, action: int | None) -> Any:
        try:
            found = policy(lent(state))
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise InvalidInput(
                f"The policy raised {type(error).__name__}: "
                f"{error} at state {state!r}; fix it there."
            ) from error
        if found is None:
            raise InvalidInput(
                f"policy({state!r}) must give probabilities, "
                "one per action, got None; is a return missing?"
            )
        return found

    return walk


def _staged(problem: Problem, solution: Any, model: Tables, steps: int) -> Walk:
    """The policy grad F(Q) of an exact solution, with Q for the steps that are left."""
    left, K = steps, problem.num_actions

    def walk(state: Any, action: int | None) -> Any:
        nonlocal left
        left -= 1
        after = solution.stages[left]
        row = solution.index(state)
        if np.isnan(solution.stages[left + 1][row]):
            raise InvalidInput(
                f"The solution does not know state {state!r} with {left + 1} steps "
                f"left: it explored from {solution.states[0]!r} up to the horizon; "
                "solve the problem with initial_state= set to the requested state."
            )
        actions = problem.legal_actions(state)
        q = []
        for a in actions:
            part = slice(model.start[row * K + a], model.start[row * K + a + 1])
            onward = problem.discount * after[model.next_state[part]]
            q.append(float(model.prob[part] @ (model.reward[part] + onward)))
        weights = problem.operator.weights(K)
        shares = problem.operator.gradient(
            q, player=problem.mover(state), weights=[weights[a] for a in actions]
        )
        out = [0.0] * K
        for a, share in zip(actions, shares, strict=True):
            out[a] = share / added(shares)
        return out

    return walk


def _one_state(problem: Problem, estimate: Estimate) -> Walk:
    """The estimate's policy at its own state, blind elsewhere."""
    if len(estimate.policy) != problem.num_actions:
        raise InvalidInput(
            "The estimate has no policy to evaluate; plan with target='q_values'."
        )
    own = problem.key_of(estimate.state)
    return lambda state, action: (
        estimate.policy if problem.key_of(state) == own else None
    )


def _table(problem: Problem, table: Any) -> Any:
    """The array (S, A) of a policy, checked."""
    try:
        array = np.array(table, dtype=float)
    except (TypeError, ValueError):
        array = np.array(math.nan)
    if array.ndim == 0:
        raise InvalidInput(
            "A policy is a function state -> probabilities, "
            "agent.policy, an array (S, A), a Solution, a Tree or "
            f"an Estimate, got {type(table).__name__} {table!r:.60}."
        )
    if array.ndim != 2 or array.shape[1] != problem.num_actions:
        raise InvalidInput(
            "A policy array must have shape (S, A) with A "
            f"= {problem.num_actions}, got {array.shape}."
        )
    if problem.tables is not None:
        from smoothcruiser.exact.policy_value import _checked

        live = problem.tables.legal & ~problem.tables.terminal[:, None]
        return np.ascontiguousarray(_checked(array, live))
    return array
