"""Tree search: a tree that grows by simulations, answers at any time, and is kept after a move.

>>> import smoothcruiser as sc
>>> from smoothcruiser.search.tree import Tree
>>> tree = Tree(sc.make("chain:n=3", discount=0.5, operator="max"), method="uct", seed=1)
>>> tree.grow(simulations=200).estimate().action
1

``grow`` spends simulations, calls or seconds; ``estimate`` is what a planner returns, without a certificate: a tree search promises
nothing (``evaluate`` can certify its policy from below). ``advance`` keeps the part of the tree below a move. Memory is bounded by
``max_nodes``: a full tree goes on refining what it has. What this file decides: limits, the stream, and how a node's numbers become
a policy; the search itself is ``tree_plain`` (any oracle) or ``tree_kernel`` (compiled ones), which agree to the last bit.

The policy of a node is that of the problem's operator at the node's values, grad F(Q), as everywhere in this library; where the
operator is Max it is the recommended action. Off the tree it is blind, grad F(0).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.execute.streams import stream
from smoothcruiser.problem.operator_functions import MAX
from smoothcruiser.problem.operators import Operator
from smoothcruiser.problem.problem import Problem
from smoothcruiser.search.methods import NO_PRIOR, Search, tree_search
from smoothcruiser.search.selection import recommended
from smoothcruiser.search.tree_kernel import Setting
from smoothcruiser.search.tree_node import Node

REACH = 0.01  # without a horizon, steps until gamma^d is a hundredth: what lies beyond moves a value by 0.5% of its span at the most
MOST_NODES = 1_000_000
MOST_BYTES = 2**30  # of nodes
STREAM_KEY = 9  # spawn key of tree searches, apart from the shards' (action, shard)
UNLIMITED = 2**62


class Tree:
    """A search tree over a problem, rooted at a state that is not terminal."""

    def __init__(
        self, problem: Problem, state: Any = None, *, method: str | Search = "uct", seed: int = 0, executor: str | None = None
    ) -> None:
        self.problem, self.method, self.seed = problem, tree_search(method), seed
        self.state = problem.start(state)
        if problem.is_terminal(self.state):
            raise InvalidInput(f"State {self.state!r} is terminal: there is nothing to search; its value is 0.")
        self.operator = self.method.operator(problem.operator)
        self.rule = self.method.rule(problem.operator)
        self.elapsed = 0  # moves made since the tree was planted
        self.seconds = 0.0
        self.head = _heads(self.operator, problem.num_actions)
        self._backend = self._make(executor)

    def _make(self, executor: str | None) -> Any:
        weights = (
            self.problem.operator.weights(self.problem.num_actions) if self.rule.prior != NO_PRIOR else [1.0] * self.problem.num_actions
        )
        arguments = (self.problem, self.rule, self._setting(), self.head, weights, self.state, stream(self.seed, STREAM_KEY))
        chosen = executor or ("compiled" if self.problem.is_compiled else "reference")
        if chosen not in ("compiled", "reference"):
            raise InvalidInput(f"Tree search runs on executor 'compiled' or 'reference', got {executor!r}.")
        if chosen == "reference":
            from smoothcruiser.search.tree_plain import PlainTree

            return PlainTree(*arguments)
        if not self.problem.is_compiled:
            raise InvalidInput(
                "The compiled executor needs a tabular problem, or step, legal, terminal and player that are numba.njit functions; "
                "decorate them, or use executor='reference'."
            )
        from smoothcruiser.search.tree_compiled import CompiledTree

        return CompiledTree(*arguments)

    def _limit(self) -> int:
        """Steps that a simulation may make from the root."""
        horizon = None if self.problem.horizon is None else self.problem.horizon - self.elapsed
        if horizon is not None and horizon < 1:
            raise InvalidInput(f"The horizon of {self.problem.horizon} steps is over; there is nothing left to search.")
        if self.method.depth is not None:
            return self.method.depth if horizon is None else min(self.method.depth, horizon)
        if horizon is not None:
            return horizon
        gamma = self.problem.discount
        return 1 if gamma == 0.0 else max(1, math.ceil(math.log(REACH) / math.log(gamma)))

    def _setting(self) -> Setting:
        problem, K = self.problem, self.problem.num_actions
        facts = replace(problem.facts, operator=self.operator, given_bounds=None)
        limit = self._limit()
        left = None if problem.horizon is None else problem.horizon - self.elapsed - limit
        low, high = facts._plain_range(left)
        bytes_a_node = 8 * (10 + (4 if self.rule.entropy > 0.0 else 3) * K)  # two tables, the hash table and a state of one word
        room = max(2, min(MOST_NODES, MOST_BYTES // bytes_a_node))
        return Setting(
            num_actions=K,
            discount=float(problem.discount),
            low=float(problem.reward_range[0]),
            high=float(problem.reward_range[1]),
            varies=problem.legal is not None,
            ends=problem.facts.terminals,
            game=problem.is_game,
            limit=limit,
            tail=0.5 * (low + high),
            expansion=limit if self.method.expansion is None else self.method.expansion,
            most_nodes=room if self.method.max_nodes is None else max(2, self.method.max_nodes),
        )

    # --- growing -------------------------------------------------------------------------------------------------------------

    def grow(
        self,
        *,
        simulations: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        progress: Callable[[Tree], object] | None = None,
    ) -> Tree:
        """This tree after so many more simulations or oracle calls, or after so long; whichever ends first.

        With simulations or calls the tree depends on the seed alone; with seconds, on the machine. Never more calls than asked for:
        a simulation that would need more is dropped. ``progress`` is told a few times a second.
        """
        if simulations is None and calls is None and seconds is None:
            raise InvalidInput("grow needs a limit: simulations=, calls= or seconds=.")
        begin = time.perf_counter()
        done = self.simulations
        last_simulation = UNLIMITED if simulations is None else done + simulations
        last_call = UNLIMITED if calls is None else self.num_calls + calls
        size = 16 if seconds is not None or progress is not None else UNLIMITED  # simulations between two looks at the clock
        while True:
            before = time.perf_counter()
            finished = self._backend.run(min(last_simulation, self.simulations + size), last_call)
            now = time.perf_counter()
            if not finished or self.simulations >= last_simulation or (seconds is not None and now - begin >= seconds):
                break
            if progress is not None:
                progress(self)
            if now - before < 0.05:  # looks about 10 to 20 times a second
                size = min(2 * size, UNLIMITED)
        self.seconds += time.perf_counter() - begin
        return self

    def advance(self, action: int, next_state: Any) -> Tree:
        """This tree rooted at ``next_state`` after ``action``: statistics below are kept, the rest is forgotten."""
        if action not in self.node(0).actions:
            raise InvalidInput(f"Action {action!r} is not legal in state {self.state!r}.")
        if self.problem.is_terminal(next_state):
            raise InvalidInput(f"State {next_state!r} is terminal: there is nothing left to search.")
        child = self._backend.child(0, action, next_state)
        old = self._backend
        self.elapsed += 1
        self.state = next_state
        if child is None:
            kept = old.rng
            self._backend = self._make(old.name)
            self._backend.rng = kept  # the stream goes on: a new tree must not replay the old one's draws
            return self
        old.advance(child, self._limit())
        old.setting = self._setting()
        return self

    # --- reading -------------------------------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """Nodes in memory."""
        return int(self._backend.counts[0])

    @property
    def simulations(self) -> int:
        """Simulations made since the tree was planted."""
        return int(self._backend.counts[1])

    @property
    def num_calls(self) -> int:
        """Oracle calls made, dropped simulations included."""
        return int(self._backend.counts[2])

    @property
    def deepest(self) -> int:
        """Depth of the deepest node that was added."""
        return int(self._backend.counts[3])

    @property
    def setting(self) -> Setting:
        """The problem and the limits in numbers."""
        setting: Setting = self._backend.setting
        return setting

    def node(self, number: int) -> Node:
        """A node's statistics; 0 is the root."""
        found: Node = self._backend.node(number)
        return found

    def children(self, number: int) -> list[tuple[int, int]]:
        """(action, node) of a node's children, in the order they were met."""
        return list(self._backend.children(number))

    def child(self, number: int, action: int, next_state: Any) -> int | None:
        """The child of a node at ``next_state``, None where the tree has none."""
        found: int | None = self._backend.child(number, action, next_state)
        return found

    def q_values(self, number: int = 0) -> list[float]:
        """Values of a node's legal actions, untried ones as the search sees them."""
        node = self.node(number)
        return node.q_values(self.rule, self.head[len(node.actions)])

    def action(self, number: int = 0) -> int:
        """The recommended action of a node."""
        node = self.node(number)
        x = [node.sign * q for q in self.q_values(number)]
        return node.actions[recommended(self.rule, x, node.edge_visits, len(x))]

    def policy(self, number: int = 0) -> list[float]:
        """Probabilities of all K actions at a node: grad F(Q) of the problem's operator, or the recommended action under Max."""
        node = self.node(number)
        out = [0.0] * self.problem.num_actions
        if self.problem.operator.code == MAX:
            out[self.action(number)] = 1.0
            return out
        weights = self.problem.operator.weights(self.problem.num_actions)
        gradient = self.problem.operator.gradient(self.q_values(number), player=node.player, weights=[weights[a] for a in node.actions])
        total = sum(gradient)
        for a, g in zip(node.actions, gradient, strict=True):
            out[a] = g / total
        return out

    def estimate(self) -> Estimate:
        """What the tree says about its root, without a promise."""
        if self.simulations == 0:
            raise InvalidInput(
                f"Not one simulation was finished: one may take {self.setting.limit:,} oracle calls; raise the budget (--budget), "
                "or give depth=."
            )
        root = self.node(0)
        q = dict(zip(root.actions, self.q_values(0), strict=True))
        action = self.action(0)
        value = q[action] if self.rule.most_visited else root.value
        return Estimate(
            value=value, interval=None, q_values=tuple(q.get(a, math.nan) for a in range(self.problem.num_actions)),
            policy=tuple(self.policy(0)), action=action, num_calls=self.num_calls, epsilon=None, delta=None, method=self.method.name,
            certificate=None, seconds=self.seconds, compile_seconds=self._backend.compile_seconds, problem=self.problem.name,
            state=self.state, seed=self.seed, executor=self._backend.name, notes=self._notes(),
        )  # fmt: skip

    def _notes(self) -> tuple[str, ...]:
        hint = "" if self.problem.is_game else " (certify=True, or --certify, bounds its policy from below)"
        said = [
            f"{self.method}: {self.simulations:,} simulations, {self.num_nodes:,} nodes, at most {self.deepest} deep; "
            f"a tree search promises nothing{hint}."
        ]
        if self.operator != self.problem.operator:
            said.append(f"Its values are those of {self.operator.label}, not of the problem's {self.problem.operator.label}.")
        if self.num_nodes >= self.setting.most_nodes:
            said.append(f"The tree is full ({self.setting.most_nodes:,} nodes); it refines what it has (max_nodes= makes room).")
        return tuple(said)


def _heads(operator: Operator, num_actions: int) -> list[float]:
    """F(0) over k actions, k = 0..K."""
    return [0.0] + [operator.offset(k) for k in range(1, num_actions + 1)]
