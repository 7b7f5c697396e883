"""A tree in plain Python, for any oracle and any hashable state.

It is the paper's template (Alg. 4-5) with a memory. ``PlainTree`` is an
instance of ``template.Rules``: selectAction is the method's descent,
evaluateLeaf a blind rollout, and backup is what Alg. 5 leaves to the planner.
It draws from the same stream in the same order and does the same scalar
arithmetic as ``tree.kernel``, so the two trees agree to the last bit on
problems that both can run. This one is the specification.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

from smoothcruiser.engines.watchdog import watched
from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.jit.keys import LEAVES, Key
from smoothcruiser.jit.streams import stream
from smoothcruiser.problem.answers import Answer, answered, at
from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.proof import broken_claim, two_outcomes
from smoothcruiser.tree.proof_kernel import is_exact
from smoothcruiser.tree.searches import (
    MEAN,
    PARENT_PRIOR,
    UPPER,
    VISITS_PRIOR,
    TreeRule,
)
from smoothcruiser.tree.selection import (
    descent_policy,
    drawn,
    entropy_below,
    passed_up,
    upper_pick,
    visit_shares,
)
from smoothcruiser.tree.setting import spans_of
from smoothcruiser.tree.template import Selection, Step, search
from smoothcruiser.tree.widening import (
    MoveAnswers,
    limits_chance,
    open_count,
    takes_stored,
)


class _Cut(Exception):
    """The calls were used up in the middle of a simulation, which waits for more."""


class PlainNode:
    """A decision of one player: mutable statistics over its legal actions."""

    __slots__ = (
        "actions",
        "children",
        "entropies",
        "entropy",
        "first",
        "highs",
        "lows",
        "n",
        "outcomes",
        "paid",
        "sign",
        "state",
        "totals",
        "value",
        "visits",
    )

    def __init__(self, state: Any, sign: float, actions: list[int]) -> None:
        self.state, self.sign, self.actions = state, sign, actions
        self.visits, self.value, self.first, self.entropy = 0, 0.0, 0.0, 0.0
        self.n, self.totals, self.entropies = (
            [0] * len(actions),
            [0.0] * len(actions),
            [0.0] * len(actions),
        )
        # (action, key of the next state) -> child, in the order they were met
        self.children: dict[tuple[int, Any], PlainNode] = {}
        # slot of an action -> what it was answered with; empty where moves always sample
        self.outcomes: dict[int, MoveAnswers] = {}
        # the box of each action and its reward, where the tree solves
        self.lows: list[float] = []
        self.highs: list[float] = []
        self.paid: list[float] = []

    def open(self, low: float, high: float) -> PlainNode:
        """This node with the box that the rewards allow for every action."""
        size = len(self.actions)
        self.lows, self.highs, self.paid = [low] * size, [high] * size, [0.0] * size
        return self

    def ends(self) -> list[tuple[float, float]]:
        """The boxes of the actions, from the mover's point of view."""
        if self.sign > 0.0:
            return list(zip(self.lows, self.highs, strict=True))
        boxes = zip(self.lows, self.highs, strict=True)
        return [(-high, -low) for low, high in boxes]

    def box(self) -> tuple[float, float]:
        """The two ends between which its value lies."""
        best = max if self.sign > 0.0 else min
        return best(self.lows), best(self.highs)

    def inside(self, j: int, value: float) -> float:
        """The nearest value that the box of an action holds."""
        return min(max(value, self.lows[j]), self.highs[j])

    def twin(self) -> PlainNode:
        """A copy with the same numbers, without children."""
        other = PlainNode(self.state, self.sign, self.actions)
        other.visits, other.value, other.first, other.entropy = (
            self.visits,
            self.value,
            self.first,
            self.entropy,
        )
        other.n, other.totals, other.entropies = (
            list(self.n),
            list(self.totals),
            list(self.entropies),
        )
        other.lows, other.highs, other.paid = (
            list(self.lows),
            list(self.highs),
            list(self.paid),
        )
        return other


class PlainTree:
    """The tree of a problem whose oracle is a Python function."""

    name = "reference"
    compile_seconds = 0.0
    slice_seconds = 0.0  # what a slice of growth lasts at the least
    # rollouts per leaf, and the seed and the tree's number, which name their streams
    leaves: tuple[int, int, int] = (1, 0, 0)
    # opens workers that run these rollouts at once; None: one after the other, here
    spread: Any = None
    pool: Any = None  # those workers

    def __init__(
        self,
        problem: Problem,
        rule: TreeRule,
        setting: Setting,
        head: Any,
        weights: Any,
        state: Any,
        rng: Any,
    ) -> None:
        self.problem, self.rule, self.setting, self.rng = problem, rule, setting, rng
        self.head, self.weights = [float(f) for f in head], [float(w) for w in weights]
        self.num_nodes, self.simulations, self.calls, self.deepest, self.most_calls = (
            0,
            0,
            0,
            0,
            0,
        )
        self.guard = Guard()
        self.hold = Hold()
        self.inexact = False  # whether a number in a box was rounded
        self.spans = spans_of(problem, setting).tolist()
        self.root = self._new(state, 0)
        self._order: list[PlainNode] | None = None
        # A simulation that ran out of calls: the stream when it began, the
        # oracle's answers so far with the stream after each, how many of them
        # were used again, and the nodes that it added.
        self.begun: Any = None
        self.answers: list[tuple[Answer, Any]] = []
        self.known = 0
        self.unborn: set[int] = set()
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
    def over(self) -> bool:
        """Whether the root is proven, so that nothing is left to search."""
        return self._is_proven()

    def go(self, simulations: int, calls: int) -> bool:
        """The same as ``run``."""
        return self.run(simulations, calls)

    def run(self, simulations: int, calls: int) -> bool:
        """Grow until the counts reach these totals.

        It returns False where the calls were used up first.
        """
        self.most_calls = calls
        self._order = None
        with watched(self, self.problem.call_seconds):
            return self._run(simulations, calls)

    def _run(self, simulations: int, calls: int) -> bool:
        while self.simulations < simulations and not self._is_proven():
            if self.answers:
                # Resume the simulation that ran out of calls: its answers are
                # known.
                self.rng.words[:] = self.begun
            elif calls - self.calls < self._most_needed():  # it may run out of calls
                self.begun = self.rng.words.copy()
            self.known = 0
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
        self.begun, self.answers, self.known, self.unborn = None, [], 0, set()

    # --- Alg. 5: the rules of the template ------------------------------------

    def oracle(self, state: Any, action: int) -> Answer:
        """The answer to a move of the descent: a call's, or a stored next state."""
        node, self.taken = self.nodes[-1], None
        outcomes = node.outcomes.get(self.slot)
        last = len(self.nodes) == self.setting.limit  # nothing is kept beyond
        stored = (
            self.remembers
            and not last
            and outcomes is not None
            and takes_stored(
                self.setting,
                outcomes.different,
                outcomes.samples,
                node.n[self.slot] + 1,
            )
        )
        self.sampled.append(not stored and not last)
        if not stored or outcomes is None:
            return self._call(state, action)
        self.taken, reward = outcomes.stored(self.rng)
        return (
            (reward, state, True)
            if self.taken is None
            else (reward, self.taken.state, False)
        )

    def _call(self, state: Any, action: int) -> Answer:
        """The simulator's answer, counted and checked, or a remembered one.

        A simulation that is resumed gets the answers that it had before it ran
        out of calls.
        """
        if self.known < len(self.answers):
            answer, self.rng.words[:] = self.answers[self.known]
            self.known += 1
            return answer
        self.calls += 1
        setting = self.setting
        try:
            self.hold.begin()  # a stop may break off the step, and nothing else
            reward, after, over = answered(
                self.problem,
                state,
                action,
                self.rng,
                setting.low,
                setting.high,
                setting.ends,
                self.guard,
            )
            self.hold.open = False
        except BaseException as error:
            if self.hold.broke(error):
                raise KeyboardInterrupt from error
            raise
        answer = (
            reward,
            after,
            over or (setting.ends and self.problem.is_terminal(after)),
        )
        if self.begun is not None:
            self.answers.append((answer, self.rng.words.copy()))
            self.known += 1
        return answer

    def _pause(self) -> None:
        if self.calls >= self.most_calls and self.known == len(self.answers):
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
        self._pause()
        return False

    def _enter(self, state: Any, depth: int) -> bool:
        """Whether the descent ends with the child of the last action.

        The child is created if there is room. It becomes the current node where
        the descent continues.
        """
        if self.taken is not None:
            self.nodes.append(self.taken)
            return False
        parent, key = self.nodes[-1], (self.action, self.problem.key_of(state))
        child = parent.children.get(key)
        if child is not None:
            known = (1 if child.sign > 0 else 2, *child.actions)
            self.problem.check_alike(state, child.state, known)
        if child is not None and id(child) not in self.unborn:
            self.nodes.append(child)
            return False
        self.fresh: PlainNode | None = None
        if child is None:
            if (
                self.added >= self.setting.expansion
                or self.num_nodes >= self.setting.most_nodes
            ):
                return True
            child = parent.children[key] = self._new(state, depth)
            self.unborn.add(id(child))
        self.added += 1
        self.deepest = max(self.deepest, depth)
        # The number of nodes at the time when this child was created.
        nodes = self.num_nodes - len(self.unborn) + self.added
        if self.added < self.setting.expansion and nodes < self.setting.most_nodes:
            self.nodes.append(child)
            return False
        self.fresh = child
        return True

    def select_action(self, state: Any, depth: int) -> Selection:
        """The action that the method's tree policy selects."""
        node, rule = self.nodes[-1], self.rule
        most = self._opened(node, 1)
        x, h = self._gathered(node, most)
        slots = self._narrowed(node, most)
        if len(slots) < len(x):
            x, h = [x[j] for j in slots], [h[j] for j in slots]
        if rule.descent == UPPER:
            n = [node.n[j] for j in slots]
            j = upper_pick(rule, x, n, len(x), node.visits, self.rng)
        else:
            p, w = [0.0] * len(x), self._prior(node, depth, most)
            w = [w[j] for j in slots]
            descent_policy(rule, x, w, h, node.visits, [0.0] * len(x), p)
            j = drawn(p, len(x), self.rng)
            if rule.prior == PARENT_PRIOR:
                row = [1.0 / len(x)] * self.setting.num_actions
                for a, share in zip(node.actions, p, strict=False):  # the open ones
                    row[a] = share
                self.policies.append(row)
        self.slot = slots[j]
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
            return self._first_estimate(self._mean_rollout(state, depth))
        return self._first_estimate(self._rollout(state, depth))

    def _mean_rollout(self, state: Any, depth: int) -> float:
        """The mean of several rollouts from streams of their own, summed in order."""
        count, seed, number = self.leaves
        key = Key.TREE, number, LEAVES, self.simulations
        streams = [stream(seed, *key, r).words for r in range(count)]
        if self.spread is not None and self.begun is None:
            found = self._at_once(state, depth, streams)
        else:
            found = []
            for words in streams:
                before = self.rng.words.copy()
                self.rng.words[:] = words
                found.append(self._rollout(state, depth))
                self.rng.words[:] = before
        total = 0.0
        for value in found:
            total += value
        return total / count

    def _at_once(self, state: Any, depth: int, streams: list[Any]) -> list[float]:
        """The same rollouts, run by workers."""
        from smoothcruiser.tree.leaves import Leaf, roll

        if self.pool is None:
            self.pool = self.spread()
        parts = self.rule, self.setting, self.head
        leaves = [
            Leaf(i, state, depth, tuple(words.tolist()), *parts)
            for i, words in enumerate(streams)
        ]
        found = [0.0] * len(leaves)

        def report(leaf: Leaf, back: tuple[float, int]) -> bool:
            found[leaf.number], calls = back
            self.calls += calls
            return False

        with self.hold.opened():  # a wait, which a stop may break off
            self.pool.map(roll, iter(leaves), report)
        return found

    def _rollout(self, state: Any, depth: int) -> float:
        """The return of a blind rollout from a leaf."""
        total, weight = 0.0, 1.0
        while depth < self.setting.limit:
            self._pause()
            actions = self.problem.legal_actions(state)
            action = actions[self.rng.integers(len(actions))]
            sign = self._sign(state)
            reward, state, ended = self._call(state, action)
            total += weight * (sign * self.head[len(actions)] + reward)
            if ended:
                break
            weight *= self.setting.discount
            depth += 1
        else:
            total += weight * self.setting.tail
        return total

    def _first_estimate(self, total: float) -> float:
        """``total``, which becomes the first estimate of a new node."""
        if self.fresh is not None:
            self.fresh.visits, self.fresh.value, self.fresh.first = 1, total, total
        return total

    def backup(self, path: Sequence[Step], leaf_value: float) -> None:
        """Pass the end of a path up to the root.

        It follows ``tree.kernel.backup`` line by line.
        """
        if self.remembers:
            self._note(path)
        rule, discount = self.rule, self.setting.discount
        back = leaf_value
        below: PlainNode | None = None
        old_visits, old_value, old_entropy = 0, 0.0, 0.0
        if self.setting.solves:
            self._prove(path)
        for i in range(len(path) - 1, -1, -1):
            node, reward = self.nodes[i], path[i].reward
            j = node.actions.index(path[i].selection.action)
            back = reward + discount * back
            if self.setting.solves:
                back = node.inside(j, back)
            if rule.up == MEAN:
                node.totals[j] += back
            elif below is None:
                node.totals[j] += reward + discount * leaf_value
            else:
                node.totals[j] += reward + discount * (
                    below.visits * below.value - old_visits * old_value
                )
            if rule.entropy > 0.0 and below is not None:
                node.entropies[j] += discount * (
                    below.visits * below.entropy - old_visits * old_entropy
                )
            node.n[j] += 1
            old_visits, old_value, old_entropy = node.visits, node.value, node.entropy
            node.visits += 1
            below = node
            if old_visits == 0 and rule.up == MEAN:
                node.first = back
            if rule.up == MEAN:
                node.value += (back - node.value) / node.visits
                if rule.entropy <= 0.0:
                    continue
            if old_visits == 0 and rule.up != MEAN:
                back += node.sign * self.head[self._opened(node, 0)]
                node.first = back
            x, h = self._gathered(node, self._opened(node, 0))
            w = self._prior(node, i, len(x))
            if rule.up != MEAN:
                node.value = node.sign * passed_up(rule, x, node.n, w)
            if rule.entropy > 0.0:
                p = [0.0] * len(x)
                descent_policy(rule, x, w, h, node.visits, [0.0] * len(x), p)
                node.entropy = node.sign * entropy_below(p, h, len(x))

    def _note(self, path: Sequence[Step]) -> None:
        """Count the samples of a path.

        That waits for its end, since a simulation that ran out of calls is repeated.
        """
        for i, step in enumerate(path):
            if not self.sampled[i]:
                continue
            node, child = self.nodes[i], None
            if not step.ended:
                child = self.nodes[i + 1] if i + 1 < len(self.nodes) else self.fresh
                if child is None:  # there was no room for it
                    continue
            slot = node.actions.index(step.selection.action)
            node.outcomes.setdefault(slot, MoveAnswers()).note(child, step.reward)

    # --- parts ----------------------------------------------------------------

    def _sign(self, state: Any) -> float:
        return 1.0 if self.problem.mover(state) == 1 else -1.0

    def _new(self, state: Any, depth: int) -> PlainNode:
        self.num_nodes += 1
        node = PlainNode(state, self._sign(state), self.problem.legal_actions(state))
        if not self.setting.solves:
            return node
        at = min(self.setting.elapsed + depth, len(self.spans) - 1)
        return node.open(*self.spans[at])

    # --- boxes: ``tree.proof_kernel`` over lists ------------------------------

    def _is_proven(self) -> bool:
        if not self.setting.solves:
            return False
        low, high = self.root.box()
        return low == high

    def _narrowed(self, node: PlainNode, most: int) -> list[int]:
        """The slots of the first ``most`` actions that are worth a descent."""
        if not self.setting.solves:  # with boxes all actions are open
            return list(range(most))
        ends = node.ends()
        floor = max(low for low, _ in ends)
        kept = [j for j, (low, high) in enumerate(ends) if high > low and high > floor]
        return kept or list(range(len(ends)))

    def _prove(self, path: Sequence[Step]) -> None:
        """Carry the end of a play up, if it ended, and refuse what chance would do."""
        setting, discount = self.setting, self.setting.discount
        for node, step in zip(self.nodes, path, strict=False):
            action = step.selection.action
            j = node.actions.index(action)
            known = [key for move, key in node.children if move == action]
            again = node.n[j] > 0 and node.paid[j] != step.reward
            if again or len(known) > 1 or (known and step.ended):
                raise two_outcomes(at(step.state, action))
            node.paid[j] = step.reward
        closed = len(path) == setting.limit and setting.closes
        if not path[-1].ended and not closed:
            return
        low, high = 0.0, 0.0
        for i in range(len(path) - 1, -1, -1):
            node, reward = self.nodes[i], path[i].reward
            j = node.actions.index(path[i].selection.action)
            least, most = reward + discount * low, reward + discount * high
            scaled = discount != 1.0 and (low != 0.0 or high != 0.0)
            exact = is_exact(reward, low, least) and is_exact(reward, high, most)
            if scaled or not exact:
                self.inexact = True
            slack = setting.slack
            if least > node.highs[j] + slack or most < node.lows[j] - slack:
                raise broken_claim(self.problem, self.root.state)
            if least <= node.lows[j] and most >= node.highs[j]:
                return
            node.lows[j] = max(node.lows[j], least)
            node.highs[j] = min(node.highs[j], most)
            if node.lows[j] > node.highs[j]:  # by rounding alone
                node.lows[j], node.highs[j] = least, most
            low, high = node.box()

    def _opened(self, node: PlainNode, begun: int) -> int:
        """How many actions of a node are open; ``begun`` decisions are not counted yet."""
        return open_count(self.setting, len(node.n), begun + sum(node.n))

    def _gathered(self, node: PlainNode, most: int) -> tuple[list[float], list[float]]:
        """Signed values and signed entropies below, of the first ``most`` legal actions."""
        rule, sign = self.rule, node.sign
        untried = (
            sign * node.first - self.head[most]
            if math.isnan(rule.initial)
            else sign * rule.initial
        )
        x = [
            sign * (total / n) if n > 0 else untried
            for total, n in zip(node.totals[:most], node.n[:most], strict=True)
        ]
        if self.setting.solves:
            x = [sign * node.inside(j, sign * value) for j, value in enumerate(x)]
        if rule.entropy <= 0.0:
            return x, [0.0] * len(x)
        return x, [
            sign * (total / n) if n > 0 else 0.0
            for total, n in zip(node.entropies[:most], node.n[:most], strict=True)
        ]

    def _prior(self, node: PlainNode, depth: int, most: int) -> list[float]:
        shares = [0.0] * most
        if self.rule.prior == VISITS_PRIOR and visit_shares(node.n, most, shares) > 0:
            return shares
        source = (
            self.policies[depth - 1]
            if self.rule.prior == PARENT_PRIOR and depth > 0
            else self.weights
        )
        return [source[a] for a in node.actions[:most]]

    def twin(self) -> PlainTree:
        """A copy that grows by itself.

        States are shared, since nobody writes into them.
        """
        other = copy.copy(self)
        other.spread = other.pool = None  # workers are the original's
        twins = {id(node): node.twin() for node in self._listed()}
        for node in self._listed():
            twins[id(node)].children = {
                key: twins[id(child)] for key, child in node.children.items()
            }
            twins[id(node)].outcomes = {
                slot: seen.twin(twins) for slot, seen in node.outcomes.items()
            }
        other.root = twins[id(self.root)]
        other.rng, other.answers, other._order = (
            copy.deepcopy(self.rng),
            list(self.answers),
            None,
        )
        other.unborn = {id(twins[number]) for number in self.unborn}
        return other

    def listen(self, hold: Hold) -> None:
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

    # --- reading --------------------------------------------------------------

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """(nodes, simulations, calls, deepest node)."""
        return self.num_nodes, self.simulations, self.calls, self.deepest

    def _listed(self) -> list[PlainNode]:
        """The nodes in breadth-first order, which numbers them."""
        if self._order is None:
            self._order = [self.root]
            for node in self._order:
                self._order.extend(node.children.values())
            self._numbers = {id(node): i for i, node in enumerate(self._order)}
        return self._order

    def node(self, i: int) -> Node:
        """Node ``i``; 0 is the root."""
        node = self._listed()[i]
        most = self._opened(node, 0)
        return Node(
            number=i,
            state=node.state,
            player=1 if node.sign > 0 else 2,
            visits=node.visits,
            value=node.value,
            first=node.first,
            actions=tuple(node.actions[:most]),
            edge_visits=tuple(node.n[:most]),
            edge_totals=tuple(node.totals[:most]),
            boxes=tuple(zip(node.lows, node.highs, strict=True)),
        )

    def children(self, i: int) -> Iterator[tuple[int, int]]:
        """(action, node) of the children of node ``i``, in the order they were met."""
        for (action, _), child in self._listed()[i].children.items():
            yield action, self._numbers[id(child)]

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""
        found = self._listed()[i].children.get((action, self.problem.key_of(after)))
        return None if found is None else self._numbers[id(found)]

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later, with the same stream and counts."""
        self._forget()
        self.num_nodes, self.deepest, self._order = 0, 0, None
        self.root = self._new(state, 1)

    def rest(self) -> None:
        """Do nothing: workers of leaves are kept until the end."""

    def close(self) -> None:
        """End the workers, if there are any."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    def advance(self, child: int) -> None:
        """Make ``child`` the root and forget what is not below it."""
        self.root = self._listed()[child]
        self._forget()
        self._order = None
        self.num_nodes, self.deepest = len(self._listed()), -1
        level = [self.root]
        while level:
            self.deepest += 1
            level = [below for node in level for below in node.children.values()]
