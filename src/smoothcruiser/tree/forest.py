"""Several trees of one search, grown at once and read as one: root parallelism.

``trees=n`` grows n independent trees (Chaslot et al. 2008, "root parallelization"),
each from a stream of its own, and adds up their statistics. The number of trees
changes the answer; the workers that grow them do not:

  budget    calls and simulations are divided: tree i of n gets x // n of x, and one
            more where i < x % n. Where trees have made different numbers of them (one
            was proven, or the other limit came first), those with the fewest come
            first. A tree depends on its own counts alone, however these are sliced,
            so the forest depends on the totals alone
  workers   threads for compiled trees, since machine code runs without the
            interpreter's lock; processes or Dask for plain ones, which travel there and
            back (``PlainTree.pack``); this thread otherwise
  proofs    a tree stops where its own root is proven, not where another's is: that
            would depend on the speed of the workers
  merging   a node of the forest is the nodes of the same path (actions, states) in all
            trees that have it; visits and totals are added in the order of the trees,
            and boxes (``rules_kernel``) are intersected: each of them holds

A forest has the interface of one tree (``tree.kernels.array_tree``),
so ``Tree`` reads, follows and draws it like any other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from smoothcruiser.engines.pools.base import Pool
from smoothcruiser.run_control.clock import Clock
from smoothcruiser.run_control.stop_requests import StopRequest
from smoothcruiser.tree.kernels.plain_tree import PlainTree
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.search_numbers import MEAN, PARENT_PRIOR, VISITS_PRIOR
from smoothcruiser.tree.selection import passed_up, visit_shares

TreeNode = tuple[int, int]  # a tree, and the number of a node in it

# A slice of growth elsewhere takes as long at the least, and so many times as long as
# sending the trees there and back.
LEAST_SECONDS, TRAVEL = 0.5, 8.0


@dataclass(frozen=True)
class Slice:
    """How far one tree is to grow now; ``seconds`` is a time limit, if there is one."""

    number: int
    tree: Any  # a tree, or its packed form
    simulations: int
    calls: int
    seconds: float | None = None


def divide_total(total: int, counts: list[int]) -> list[int]:
    """The goal of each tree, starting from its count, so that the sum is ``total``.

    The lowest are raised first, as water finds its level, so that two growths come to
    the same as one; of a remainder the first trees get one more.
    """
    tree_order = sorted(range(len(counts)), key=lambda i: (counts[i], i))
    goals, amount_left = list(counts), total - sum(counts)
    for num_lowest in range(1, len(tree_order) + 1):
        lowest_trees = tree_order[:num_lowest]
        lowest_goal = goals[lowest_trees[0]]
        next_goal = (
            goals[tree_order[num_lowest]]
            if num_lowest < len(tree_order)
            else lowest_goal + max(0, amount_left) + 1
        )
        raise_by = min(next_goal - lowest_goal, max(0, amount_left) // num_lowest)
        for i in lowest_trees:
            goals[i] += raise_by
        amount_left -= raise_by * num_lowest
        if raise_by < next_goal - lowest_goal:
            for i in sorted(lowest_trees)[: max(0, amount_left)]:
                goals[i] += 1
            break
    return goals


def grow_here(built: Any, tree_slice: Slice) -> tuple[int, bool, Any]:
    """(the tree's number, whether all simulations were made, None)."""
    return (
        tree_slice.number,
        tree_slice.tree.grow_slice(tree_slice.simulations, tree_slice.calls),
        None,
    )


def grow_there(problem: Any, tree_slice: Slice) -> tuple[int, bool, Any]:
    """The same as ``grow_here`` in a worker, which returns the packed tree."""

    tree = PlainTree.from_packed(problem, tree_slice.tree)
    end_time = (
        math.inf
        if tree_slice.seconds is None
        else time.perf_counter() + tree_slice.seconds
    )
    slice_calls, is_done = 1, False
    while (
        not is_done
        and tree.calls < tree_slice.calls
        and time.perf_counter() < end_time
    ):
        call_goal = (
            tree_slice.calls
            if tree_slice.seconds is None
            else min(tree_slice.calls, tree.calls + slice_calls)
        )
        is_done = tree.grow_slice(tree_slice.simulations, call_goal)
        slice_calls *= 2
    return tree_slice.number, is_done, tree.pack()


class Forest:
    """Trees that are grown by a pool of workers and read as one."""

    def __init__(
        self, trees: list[Any], opener: Callable[[], Pool], *, travels: bool
    ) -> None:
        """``opener`` opens the workers.

        ``travels`` says that they are elsewhere, and trees are sent to them.
        """
        self.trees, self.opener, self.travels = trees, opener, travels
        self.pool: Pool | None = None
        self.name = trees[0].name
        self.compile_seconds = sum(tree.compile_seconds for tree in trees)
        self.clock = Clock()  # of the growth under way
        self.slice_seconds = LEAST_SECONDS if travels else 0.0
        self.least_slice = len(trees)  # calls: fewer would leave trees out
        self.extra_calls = 0  # calls that were made elsewhere
        self._hold = StopRequest()
        self._forget_merged()

    # --- growing --------------------------------------------------------------

    def grow_to(self, simulations: int, calls: int) -> bool:
        """Grow until the counts reach these totals.

        It returns False where the calls were used up first.
        """

        seconds = self.clock.remaining()
        simulations_made, calls_made = zip(
            *(tree.counts[1:3] for tree in self.trees), strict=True
        )
        goals = zip(
            divide_total(simulations, list(simulations_made)),
            divide_total(calls - self.extra_calls, list(calls_made)),
            strict=True,
        )
        tree_slices = []
        for tree_number, (tree, goal) in enumerate(
            zip(self.trees, goals, strict=True)
        ):
            tree.prepare()
            if (
                simulations_made[tree_number] < goal[0]
                and calls_made[tree_number] < goal[1]
            ):
                tree_slices.append(Slice(tree_number, tree, *goal, seconds))
        is_finished = [True] * len(self.trees)

        def report(tree_slice: Slice, slice_result: tuple[int, bool, Any]) -> bool:
            tree_number, is_finished[tree_number], packed_tree = slice_result
            if packed_tree is not None:
                self.trees[tree_number].unpack(packed_tree)
            return False

        if self.pool is None:
            self.pool = self.opener()
        self._forget_merged()
        if not self.travels:
            self.pool.map(grow_here, iter(tree_slices), report)
            return all(is_finished)
        start_time = time.perf_counter()
        packed_slices = [
            replace(tree_slice, tree=tree_slice.tree.pack())
            for tree_slice in tree_slices
        ]
        # slices last as long as is worth the journey
        travel_seconds = 4.0 * (time.perf_counter() - start_time)
        self.slice_seconds = max(LEAST_SECONDS, TRAVEL * travel_seconds)
        with self._hold.opened():  # a wait, which a stop may break off
            self.pool.map(grow_there, iter(packed_slices), report)
        return all(is_finished)

    @property
    def is_solved(self) -> bool:
        """Whether every tree is proven."""
        return all(tree.is_solved for tree in self.trees)

    def _forget_merged(self) -> None:
        """Forget which nodes belong together: the trees have changed."""
        self._places: list[list[TreeNode]] = [
            [(tree_number, 0) for tree_number in range(len(self.trees))]
        ]
        self._below: dict[int, list[tuple[int, int]]] = {}

    def listen(self, hold: StopRequest) -> None:
        """Let a stop break off calls and waits of the trees."""
        self._hold = hold
        for tree in self.trees:
            tree.listen(hold)

    def warm(self) -> None:
        """Compile the functions of a move."""
        for tree in self.trees:
            tree.warm()

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.extra_calls += calls

    def flush(self) -> None:
        """Do nothing: no leaf waits."""

    def pause_workers(self) -> None:
        """End threads, which are quick to start again; processes are kept."""
        if not self.travels:
            self.close()

    def close(self) -> None:
        """End the workers."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    def twin(self) -> Forest:
        """A copy that grows by itself, in this thread."""
        from smoothcruiser.engines.pools.threads import ThisThread

        twins = [tree.twin() for tree in self.trees]
        open_here = lambda: ThisThread(None, lambda: None)  # noqa: E731
        forest_copy = Forest(twins, open_here, travels=False)
        forest_copy.extra_calls = self.extra_calls
        return forest_copy

    # --- reading --------------------------------------------------------------

    @property
    def setting(self) -> Any:
        """The problem and the limits in numbers, of each tree."""
        return self.trees[0].setting

    @setting.setter
    def setting(self, setting: Any) -> None:
        for tree in self.trees:
            tree.setting = setting

    @property
    def rng(self) -> list[Any]:
        """The streams of the trees."""
        return [tree.rng for tree in self.trees]

    @rng.setter
    def rng(self, streams: list[Any]) -> None:
        for tree, stream in zip(self.trees, streams, strict=True):
            tree.rng = stream

    @property
    def inexact(self) -> bool:
        """Whether a number in a box was rounded."""
        return any(tree.inexact for tree in self.trees)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """(nodes, simulations, calls, deepest node) of all trees."""
        tree_counts = [tree.counts for tree in self.trees]
        nodes, simulations, calls = (
            sum(counts[i] for counts in tree_counts) for i in range(3)
        )
        return (
            nodes,
            simulations,
            calls + self.extra_calls,
            max(counts[3] for counts in tree_counts),
        )

    def node(self, i: int) -> Node:
        """Node ``i`` with the statistics of all trees; 0 is the root."""
        tree_nodes = [
            self.trees[tree_number].node(node_number)
            for tree_number, node_number in self._places[i]
        ]
        return merge_nodes(tree_nodes, i, self.trees[0])

    def children(self, i: int) -> Iterator[tuple[int, int]]:
        """(action, node) of the children of node ``i``, in the order of the trees."""
        if i not in self._below:
            problem = self.trees[0].problem
            nodes_by_key: dict[tuple[int, Any], list[TreeNode]] = {}
            for tree_number, node_number in self._places[i]:
                tree = self.trees[tree_number]
                for action, child in tree.children(node_number):
                    child_key = action, problem.key_of(tree.node(child).state)
                    nodes_by_key.setdefault(child_key, []).append((tree_number, child))
            first_number = len(self._places)
            self._places += nodes_by_key.values()
            child_numbers = [
                (action, first_number + j)
                for j, (action, _) in enumerate(nodes_by_key)
            ]
            self._below[i] = child_numbers
        yield from self._below[i]

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if a tree has it."""
        tree_children = {
            (tree_number, child)
            for tree_number, node_number in self._places[i]
            if (child := self.trees[tree_number].child(node_number, action, after))
            is not None
        }
        for _, node_number in self.children(i):
            if tree_children & set(self._places[node_number]):
                return node_number
        return None

    def advance(self, child: int) -> None:
        """Make ``child`` the root of all trees; those that lack it begin anew there."""
        node_by_tree = dict(self._places[child])
        state = self.node(child).state
        for tree_number, tree in enumerate(self.trees):
            if tree_number in node_by_tree:
                tree.advance(node_by_tree[tree_number])
            else:
                tree.restart(state)
        self._forget_merged()

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later: no tree has met it."""
        for tree in self.trees:
            tree.restart(state)
        self._forget_merged()


def merge_nodes(tree_nodes: list[Node], number: int, tree: Any) -> Node:
    """One node of the same state in several trees: sums in their order.

    Its value is that of the merged actions, or the mean over visits where nodes pass up
    mean returns or weigh by the policy of the node above.
    """
    first_node, rule = tree_nodes[0], tree.rule
    total_visits = sum(tree_node.visits for tree_node in tree_nodes)
    # trees that have made more decisions have opened more actions (``tree.widening``)
    actions = max((tree_node.actions for tree_node in tree_nodes), key=len)
    slots = range(len(actions))
    edge_visits = [
        sum(tree_node.edge_visits[j] for tree_node in tree_nodes if j < tree_node.size)
        for j in slots
    ]
    edge_totals = [
        sum(
            (
                tree_node.edge_totals[j]
                for tree_node in tree_nodes
                if j < tree_node.size
            ),
            0.0,
        )
        for j in slots
    ]
    boxes: tuple[tuple[float, float], ...] = ()
    if first_node.boxes:
        boxes = tuple(
            (
                max(tree_node.boxes[j][0] for tree_node in tree_nodes),
                min(tree_node.boxes[j][1] for tree_node in tree_nodes),
            )
            for j in slots
        )
    value, total_weight = 0.0, max(1, total_visits)
    for tree_node in tree_nodes:
        value += tree_node.visits * tree_node.value / total_weight
    merged_node = Node(
        number=number,
        state=first_node.state,
        player=first_node.player,
        visits=total_visits,
        value=value,
        first=first_node.first,
        actions=actions,
        edge_visits=tuple(edge_visits),
        edge_totals=tuple(edge_totals),
        boxes=boxes,
        bounds=max((tree_node.bounds for tree_node in tree_nodes), key=len),
    )
    if rule.up == MEAN or rule.prior == PARENT_PRIOR or not any(edge_visits):
        return merged_node
    weights = [float(tree.weights[a]) for a in actions]
    if rule.prior == VISITS_PRIOR:
        visit_shares(edge_visits, len(edge_visits), weights)
    q_values = merged_node.q_values(rule, float(tree.head[len(edge_visits)]))
    merged_value = first_node.sign * passed_up(
        rule, [first_node.sign * q_value for q_value in q_values], edge_visits, weights
    )
    return Node(**merged_node.__dict__ | {"value": merged_value})
