"""A tree in plain Python, for any oracle and any hashable state.

It is the paper's template (Alg. 4-5) with a memory. ``PlainTree`` is an
instance of ``template.Rules``: selectAction is the method's descent,
evaluateLeaf a blind rollout, and backup is the part that Alg. 5 leaves to the
planner. It samples from the same stream in the same order and does the same
scalar arithmetic as ``tree.kernels.kernel``, so the two trees agree to the last bit on
problems that both can run. This one is the specification.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from smoothcruiser.engines.watchdog import limit_call_seconds
from smoothcruiser.jit.interrupts import StopRequest
from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.states import Guard
from smoothcruiser.problem.step_errors import Answer, call_oracle
from smoothcruiser.problem.wary_actions import (
    WARY_CALLS,
    InsistsOnInt,
    is_wary,
    make_wary,
)
from smoothcruiser.tree.kernels.kernel import TreeStart
from smoothcruiser.tree.plain.plain_nodes import (
    PlainNode,
    PlainNodes,
    prove,
    undecided_slots,
)
from smoothcruiser.tree.proofs import spans_of
from smoothcruiser.tree.search_rules import MEAN, PARENT_PRIOR, UPPER, VISITS_PRIOR
from smoothcruiser.tree.selection import (
    descent_policy,
    entropy_below,
    passed_up,
    sample_slot,
    upper_pick,
    visit_shares,
)
from smoothcruiser.tree.template import Selection, Step, search
from smoothcruiser.tree.widening import (
    limits_chance,
    note_path,
    open_count,
    takes_stored,
)


class _Cut(Exception):
    """The calls were used up in the middle of a simulation, which waits for more."""


class PlainTree(PlainNodes):
    """The tree of a problem with a Python function as its oracle."""

    name = "reference"
    node_class: type[PlainNode] = PlainNode
    compile_seconds = 0.0
    slice_seconds = 0.0  # the least duration of a slice of growth
    # rollouts per leaf, and the seed and the tree's number, which name their streams
    leaves: tuple[int, int, int] = (1, 0, 0)
    # opens workers that run these rollouts at once; None: one after the other, here
    spread: Any = None
    pool: Any = None  # those workers

    def __init__(self, start: TreeStart) -> None:
        problem, setting = start.problem, start.setting
        self.problem, self.rule, self.setting = problem, start.rule, setting
        self.rng, self.bounds = start.rng, start.bounds
        self.head = [float(offset) for offset in start.head]
        self.weights = [float(weight) for weight in start.weights]
        self.num_nodes, self.simulations, self.calls, self.deepest, self.most_calls = (
            0,
            0,
            0,
            0,
            0,
        )
        self.guard = Guard()
        self.hold = StopRequest()
        self.inexact = False  # whether a number in a box was rounded
        self.spans = spans_of(problem, setting).tolist()
        self.root = self._new_node(start.state, 0)
        # A simulation that ran out of calls: the stream when it began, the
        # oracle's answers so far with the stream after each, how many of them
        # were used again, and the nodes that it added.
        self.start_words: Any = None
        self.answers: list[tuple[Answer, Any]] = []
        self.answers_used = 0
        self.pending_nodes: set[int] = set()
        self.remembers = limits_chance(setting)

    # --- Alg. 4 ---------------------------------------------------------------

    @property
    def least_slice(self) -> int:
        """Calls of a slice at the least: rollouts at once must not be cut short."""
        return 1 if self.spread is None else self._most_needed()

    def _most_needed(self) -> int:
        """Calls that a simulation may need."""
        return self.leaves[0] * self.setting.limit

    def prepare(self) -> None:
        """Do nothing: there is nothing to compile."""

    @property
    def is_solved(self) -> bool:
        """Whether the root is proven, so that nothing is left to search."""
        return self._is_proven()

    def grow_slice(self, simulations: int, calls: int) -> bool:
        """The same as ``grow_to``."""
        return self.grow_to(simulations, calls)

    def grow_to(self, simulations: int, calls: int) -> bool:
        """Grow until the counts reach these totals.

        It returns False where the calls were used up first.
        """
        self.most_calls = calls
        self._order = None
        with limit_call_seconds(self, self.problem.call_seconds):
            return self._simulate(simulations, calls)

    def _simulate(self, simulations: int, calls: int) -> bool:
        while self.simulations < simulations and not self._is_proven():
            if self.answers:
                # Resume the simulation that ran out of calls: its answers are
                # known.
                self.rng.words[:] = self.start_words
            elif calls - self.calls < self._most_needed():  # it may run out of calls
                self.start_words = self.rng.words.copy()
            self.answers_used = 0
            try:
                search(self, self.root.state, self.setting.discount)
            except _Cut:
                return False
            except BaseException:
                self._forget()
                raise
            self._forget()
            self.simulations += 1
        return True

    def _forget(self) -> None:
        """Drop the record of a simulation that waits."""
        self.start_words, self.answers, self.answers_used, self.pending_nodes = (
            None,
            [],
            0,
            set(),
        )

    # --- Alg. 5: the rules of the template ------------------------------------

    def oracle(self, state: Any, action: int) -> Answer:
        """The answer to a move of the descent: a call's, or a stored next state."""
        node, self.stored_child = self.nodes[-1], None
        outcomes = node.outcomes.get(self.slot)
        is_last = len(self.nodes) == self.setting.limit  # nothing is kept beyond
        takes_old = (
            self.remembers
            and not is_last
            and outcomes is not None
            and takes_stored(
                self.setting,
                outcomes.num_different,
                outcomes.samples,
                node.n[self.slot] + 1,
            )
        )
        self.sampled.append(not takes_old and not is_last)
        if not takes_old or outcomes is None:
            return self._call(state, action)
        self.stored_child, reward = outcomes.sample_stored(self.rng)
        return (
            (reward, state, True)
            if self.stored_child is None
            else (reward, self.stored_child.state, False)
        )

    def _call(self, state: Any, action: int) -> Answer:
        """The simulator's answer, counted and checked, or a remembered one.

        A simulation that is resumed gets the answers that it had before it ran
        out of calls.
        """
        if self.answers_used < len(self.answers):
            answer, self.rng.words[:] = self.answers[self.answers_used]
            self.answers_used += 1
            return answer
        self.calls += 1
        try:
            self.hold.begin()  # a stop may break off the step, and nothing else
            reward, next_state, is_over = self._checked_call(state, action)
            self.hold.open = False
        except BaseException as error:
            if self.hold.broke(error):
                raise KeyboardInterrupt from error
            raise
        answer = (
            reward,
            next_state,
            is_over or (self.setting.ends and self.problem.is_terminal(next_state)),
        )
        if self.start_words is not None:
            self.answers.append((answer, self.rng.words.copy()))
            self.answers_used += 1
        return answer

    def _checked_call(self, state: Any, action: int) -> Answer:
        """The answer of a checked call; early ones notice actions read by name."""
        problem, rng, setting = self.problem, self.rng, self.setting
        checks = (setting.low, setting.high, setting.ends, self.guard)
        # with room for a second call, where a step insists on an int
        if self.calls <= min(WARY_CALLS, self.most_calls - 1) and is_wary(problem):
            words_before = rng.words.copy()
            try:
                return call_oracle(
                    problem, state, make_wary(problem, action), rng, *checks
                )
            except InsistsOnInt:
                rng.words[:], self.calls = words_before, self.calls + 1
        return call_oracle(problem, state, action, rng, *checks)

    def _check_calls_left(self) -> None:
        if self.calls >= self.most_calls and self.answers_used == len(self.answers):
            raise _Cut

    def is_leaf(self, state: Any, depth: int) -> bool:
        """Whether the descent ends at this state."""
        if depth == 0:
            self.nodes = [self.root]  # the path so far
            self.sampled: list[bool] = []  # of each step: whether its answer is kept
            self.policies: list[list[float]] = []
            self.added = 0
        elif depth == self.setting.limit or self._enter(state, depth):
            return True
        self._check_calls_left()
        return False

    def _enter(self, state: Any, depth: int) -> bool:
        """Whether the descent ends with the child of the last action.

        The child is created if there is room. It becomes the current node where
        the descent continues.
        """
        if self.stored_child is not None:
            self.nodes.append(self.stored_child)
            return False
        parent, child_key = self.nodes[-1], (self.action, self.problem.key_of(state))
        child = parent.children.get(child_key)
        if child is not None:
            known_profile: tuple[int, ...] | None
            known_profile = (1 if child.sign > 0 else 2, *child.actions)
            if self.setting.bounds:  # a node leaves out the actions that they exclude
                known_profile = self.problem.profile(child.state)
            self.problem.check_alike(state, child.state, known_profile)
        if child is not None and id(child) not in self.pending_nodes:
            self.nodes.append(child)
            return False
        self.new_leaf: PlainNode | None = None
        if child is None:
            if (
                self.added >= self.setting.expansion
                or self.num_nodes >= self.setting.most_nodes
            ):
                return True
            child = parent.children[child_key] = self._new_node(state, depth)
            self.pending_nodes.add(id(child))
        self.added += 1
        self.deepest = max(self.deepest, depth)
        # The number of nodes at the time when this child was created.
        nodes_before = self.num_nodes - len(self.pending_nodes) + self.added
        if (
            self.added < self.setting.expansion
            and nodes_before < self.setting.most_nodes
        ):
            self.nodes.append(child)
            return False
        self.new_leaf = child
        return True

    def select_action(self, state: Any, depth: int) -> Selection:
        """The action that the method's tree policy selects."""
        node, rule = self.nodes[-1], self.rule
        max_open = self._count_open(node, 1)
        x, h = self._gather_values(node, max_open)
        # with boxes all actions are open
        open_slots = (
            undecided_slots(node) if self.setting.solves else list(range(max_open))
        )
        if len(open_slots) < len(x):
            x, h = [x[j] for j in open_slots], [h[j] for j in open_slots]
        if rule.descent == UPPER:
            n = [node.n[j] for j in open_slots]
            j = upper_pick(rule, x, n, len(x), node.visits, self.rng)
        else:
            p, w = [0.0] * len(x), self._prior(node, depth, max_open)
            w = [w[j] for j in open_slots]
            descent_policy(rule, x, w, h, node.visits, [0.0] * len(x), p)
            j = sample_slot(p, len(x), self.rng)
            if rule.prior == PARENT_PRIOR:
                policy_row = [1.0 / len(x)] * self.setting.num_actions
                for a, share in zip(node.actions, p, strict=False):  # the open ones
                    policy_row[a] = share
                self.policies.append(policy_row)
        self.slot = open_slots[j]
        self.action = node.actions[self.slot]
        return Selection(self.action)

    def evaluate_leaf(self, state: Any, depth: int) -> float:
        """The return of a blind rollout with F(0) per step.

        At the depth limit it is the tail. Where the state has bounds of its own,
        it is their middle.
        """
        if depth == self.setting.limit:
            beyond = self.setting.beyond
            return middle_at(self.problem, state) if beyond else self.setting.tail
        if self.setting.bounded:
            return self._first_estimate(middle_at(self.problem, state))
        if self.leaves[0] > 1:
            from smoothcruiser.tree.plain.leaf_values import mean_rollout

            return self._first_estimate(mean_rollout(self, state, depth))
        return self._first_estimate(self._blind_rollout(state, depth))

    def _blind_rollout(self, state: Any, depth: int) -> float:
        """The return of a blind rollout from a leaf."""
        rollout_return, weight = 0.0, 1.0
        while depth < self.setting.limit:
            self._check_calls_left()
            actions = self.problem.legal_actions(state)
            action = actions[self.rng.integers(len(actions))]
            sign = self._sign(state)
            reward, state, has_ended = self._call(state, action)
            rollout_return += weight * (sign * self.head[len(actions)] + reward)
            if has_ended:
                break
            weight *= self.setting.discount
            depth += 1
        else:
            rollout_return += weight * self.setting.tail
        return rollout_return

    def _first_estimate(self, leaf_estimate: float) -> float:
        """The estimate itself, which becomes the first one of a new node."""
        if self.new_leaf is not None:
            self.new_leaf.visits, self.new_leaf.value, self.new_leaf.first = (
                1,
                leaf_estimate,
                leaf_estimate,
            )
        return leaf_estimate

    def backup(self, path: Sequence[Step], leaf_value: float) -> None:
        """Pass the end of a path up to the root.

        It follows ``tree.kernels.kernel.backup`` line by line.
        """
        if self.remembers:
            note_path(self, path)
        rule, discount = self.rule, self.setting.discount
        path_return = leaf_value
        child_below: PlainNode | None = None
        old_visits, old_value, old_entropy = 0, 0.0, 0.0
        if self.setting.solves:
            prove(self, path)
        for i in range(len(path) - 1, -1, -1):
            node, reward = self.nodes[i], path[i].reward
            j = node.actions.index(path[i].selection.action)
            path_return = reward + discount * path_return
            if self.setting.solves:
                path_return = node.clip_to_box(j, path_return)
            if rule.up == MEAN:
                node.totals[j] += path_return
            elif child_below is None:
                node.totals[j] += reward + discount * leaf_value
            else:
                node.totals[j] += reward + discount * (
                    child_below.visits * child_below.value - old_visits * old_value
                )
            if rule.entropy > 0.0 and child_below is not None:
                node.entropies[j] += discount * (
                    child_below.visits * child_below.entropy - old_visits * old_entropy
                )
            node.n[j] += 1
            old_visits, old_value, old_entropy = node.visits, node.value, node.entropy
            node.visits += 1
            child_below = node
            if old_visits == 0 and rule.up == MEAN:
                node.first = path_return
            if rule.up == MEAN:
                node.value += (path_return - node.value) / node.visits
                if rule.entropy <= 0.0:
                    continue
            if old_visits == 0 and rule.up != MEAN:
                path_return += node.sign * self.head[self._count_open(node, 0)]
                node.first = path_return
            x, h = self._gather_values(node, self._count_open(node, 0))
            w = self._prior(node, i, len(x))
            if rule.up != MEAN:
                node.value = node.sign * passed_up(rule, x, node.n, w)
            if rule.entropy > 0.0:
                p = [0.0] * len(x)
                descent_policy(rule, x, w, h, node.visits, [0.0] * len(x), p)
                node.entropy = node.sign * entropy_below(p, h, len(x))

    # --- parts ----------------------------------------------------------------

    def _sign(self, state: Any) -> float:
        return 1.0 if self.problem.mover(state) == 1 else -1.0

    def _new_node(self, state: Any, depth: int) -> PlainNode:
        self.num_nodes += 1
        num_moves, actions = (
            self.setting.elapsed + depth,
            self.problem.legal_actions(state),
        )
        known_bounds = None
        if self.setting.bounds:
            known_bounds = self.bounds.row_at(self.problem.key_of(state), num_moves)
        if known_bounds is not None:
            actions = [a for a in actions if a not in known_bounds.excluded]
        node = self.node_class(state, self._sign(state), actions)
        if known_bounds is not None:
            node.lows = [known_bounds.lows[a] for a in actions]
            node.highs = [known_bounds.highs[a] for a in actions]
        elif self.setting.bounds:
            node.open(-math.inf, math.inf)
        elif self.setting.solves:
            node.open(*self.spans[min(num_moves, len(self.spans) - 1)])
        return node

    def _is_proven(self) -> bool:
        if not self.setting.solves:
            return False
        low, high = self.root.box()
        return low == high

    def _count_open(self, node: PlainNode, decisions_begun: int) -> int:
        """The number of open actions; ``decisions_begun`` are not counted yet."""
        return open_count(self.setting, len(node.n), decisions_begun + sum(node.n))

    def _gather_values(
        self, node: PlainNode, max_actions: int
    ) -> tuple[list[float], list[float]]:
        """Signed values, and signed entropies below, of the first legal actions."""
        rule, sign = self.rule, node.sign
        untried_value = (
            sign * node.first - self.head[max_actions]
            if math.isnan(rule.initial)
            else sign * rule.initial
        )
        x = [
            sign * (total / n) if n > 0 else untried_value
            for total, n in zip(
                node.totals[:max_actions], node.n[:max_actions], strict=True
            )
        ]
        if self.setting.solves or self.setting.bounds:
            x = node.clip_values(x)
        if rule.entropy <= 0.0:
            return x, [0.0] * len(x)
        return x, [
            sign * (total / n) if n > 0 else 0.0
            for total, n in zip(
                node.entropies[:max_actions], node.n[:max_actions], strict=True
            )
        ]

    def _prior(self, node: PlainNode, depth: int, max_actions: int) -> list[float]:
        action_shares = [0.0] * max_actions
        if (
            self.rule.prior == VISITS_PRIOR
            and visit_shares(node.n, max_actions, action_shares) > 0
        ):
            return action_shares
        prior_weights = (
            self.policies[depth - 1]
            if self.rule.prior == PARENT_PRIOR and depth > 0
            else self.weights
        )
        return [prior_weights[a] for a in node.actions[:max_actions]]

    def listen(self, hold: StopRequest) -> None:
        """Let a stop break off a call of the step."""
        self.hold = hold

    def warm(self) -> None:
        """Do nothing: there is nothing to compile."""

    def flush(self) -> None:
        """Do nothing: no leaf waits."""

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.calls += calls

    def take_over(self, counts: tuple[int, int, int, int]) -> None:
        """Continue the counts of another tree."""
        self.simulations, self.calls = counts[1], counts[2]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """(nodes, simulations, calls, deepest node)."""
        return self.num_nodes, self.simulations, self.calls, self.deepest

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later, with the same stream and counts."""
        self._forget()
        self.num_nodes, self.deepest, self._order = 0, 0, None
        self.root = self._new_node(state, 1)

    def pause_workers(self) -> None:
        """Do nothing: workers of leaves are kept until the end."""

    def close(self) -> None:
        """End the workers, if there are any."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None
