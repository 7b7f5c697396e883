"""Several trees of one search, grown at once and read as one: root parallelism.

``trees=n`` grows n independent trees (Chaslot et al. 2008, "root parallelization"), each
from a stream of its own, and adds up what they know. The number of trees changes the
answer; who grows them does not:

  budget    calls and simulations are dealt out: tree i of n gets x // n of x, and one
            more where i < x % n; where trees have made different numbers of them (one
            was proven, or the other limit came first), those with the fewest come first.
            A tree depends on its own counts alone, however these are sliced, so the
            forest depends on the totals alone
  workers   threads for compiled trees, whose machine code runs without the
            interpreter's lock; processes or Dask for plain ones, which travel there and
            back (``tree.travel``); this thread otherwise
  proofs    a tree stops where its own root is proven, not where another's is: that
            would depend on who is faster
  merging   a node of the forest is the nodes of the same path (actions, states) in all
            trees that have it; visits and totals are added in the order of the trees,
            and boxes (``proof_kernel``) are intersected: each of them holds

A forest has the interface of one tree (``plain.PlainTree``, ``compiled.CompiledTree``),
so ``Tree`` reads, follows and draws it like any other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from smoothcruiser.engines.pools.base import Pool
from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.searches import MEAN, PARENT_PRIOR, VISITS_PRIOR
from smoothcruiser.tree.selection import passed_up, visit_shares

Place = tuple[int, int]  # a tree, and the number of a node in it

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


def dealt(total: int, counts: list[int]) -> list[int]:
    """How far each tree is to come from its count, so that the sum is ``total``.

    The lowest are raised first, as water finds its level, so that two growths come to
    the same as one; of what cannot be divided the first trees get one more.
    """
    order = sorted(range(len(counts)), key=lambda i: (counts[i], i))
    goals, left = list(counts), total - sum(counts)
    for size in range(1, len(order) + 1):
        lowest = order[:size]
        level = goals[lowest[0]]
        higher = goals[order[size]] if size < len(order) else level + max(0, left) + 1
        each = min(higher - level, max(0, left) // size)
        for i in lowest:
            goals[i] += each
        left -= each * size
        if each < higher - level:
            for i in sorted(lowest)[: max(0, left)]:
                goals[i] += 1
            break
    return goals


def grow_here(built: Any, part: Slice) -> tuple[int, bool, Any]:
    """(the tree's number, whether all simulations were made, None)."""
    return part.number, part.tree.go(part.simulations, part.calls), None


def grow_there(problem: Any, part: Slice) -> tuple[int, bool, Any]:
    """The same in a worker, which returns the tree, packed."""
    from smoothcruiser.tree.travel import packed, unpacked

    tree = unpacked(problem, part.tree)
    end = math.inf if part.seconds is None else time.perf_counter() + part.seconds
    size, done = 1, False
    while not done and tree.calls < part.calls and time.perf_counter() < end:
        step = (
            part.calls if part.seconds is None else min(part.calls, tree.calls + size)
        )
        done = tree.go(part.simulations, step)
        size *= 2
    return part.number, done, packed(tree)


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
        self.until: float | None = None  # when growth has to end, of perf_counter
        self.slice_seconds = LEAST_SECONDS if travels else 0.0
        self.least_slice = len(trees)  # calls: fewer would leave trees out
        self._extra = 0  # calls that were made elsewhere
        self._hold = Hold()
        self._renew()

    # --- growing --------------------------------------------------------------

    def run(self, simulations: int, calls: int) -> bool:
        """Grow until the counts reach these totals.

        It returns False where the calls were used up first.
        """
        from smoothcruiser.tree.travel import packed, take

        seconds = None
        if self.until is not None:
            seconds = max(1e-3, self.until - time.perf_counter())
        made, called = zip(*(tree.counts[1:3] for tree in self.trees), strict=True)
        goals = zip(
            dealt(simulations, list(made)),
            dealt(calls - self._extra, list(called)),
            strict=True,
        )
        parts = []
        for number, (tree, goal) in enumerate(zip(self.trees, goals, strict=True)):
            tree.prepare()
            if made[number] < goal[0] and called[number] < goal[1]:
                parts.append(Slice(number, tree, *goal, seconds))
        finished = [True] * len(self.trees)

        def report(part: Slice, found: tuple[int, bool, Any]) -> bool:
            number, finished[number], form = found
            if form is not None:
                take(self.trees[number], form)
            return False

        if self.pool is None:
            self.pool = self.opener()
        self._renew()
        if not self.travels:
            self.pool.map(grow_here, iter(parts), report)
            return all(finished)
        begin = time.perf_counter()
        sent = [replace(part, tree=packed(part.tree)) for part in parts]
        # slices last as long as is worth the journey
        travel = 4.0 * (time.perf_counter() - begin)
        self.slice_seconds = max(LEAST_SECONDS, TRAVEL * travel)
        with self._hold.opened():  # a wait, which a stop may break off
            self.pool.map(grow_there, iter(sent), report)
        return all(finished)

    @property
    def over(self) -> bool:
        """Whether every tree is proven."""
        return all(tree.over for tree in self.trees)

    def _renew(self) -> None:
        """Forget which nodes belong together: the trees have changed."""
        self._places: list[list[Place]] = [[(t, 0) for t in range(len(self.trees))]]
        self._below: dict[int, list[tuple[int, int]]] = {}

    def listen(self, hold: Hold) -> None:
        """Let a stop break off what may be broken off."""
        self._hold = hold
        for tree in self.trees:
            tree.listen(hold)

    def warm(self) -> None:
        """Compile what a move needs."""
        for tree in self.trees:
            tree.warm()

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self._extra += calls

    def flush(self) -> None:
        """Do nothing: no leaf waits."""

    def rest(self) -> None:
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
        here = lambda: ThisThread(None, lambda: None)  # noqa: E731
        other = Forest(twins, here, travels=False)
        other._extra = self._extra
        return other

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
        found = [tree.counts for tree in self.trees]
        nodes, simulations, calls = (sum(c[i] for c in found) for i in range(3))
        return nodes, simulations, calls + self._extra, max(c[3] for c in found)

    def node(self, i: int) -> Node:
        """Node ``i``: what all trees know of it; 0 is the root."""
        parts = [self.trees[t].node(number) for t, number in self._places[i]]
        return merged(parts, i, self.trees[0])

    def children(self, i: int) -> Iterator[tuple[int, int]]:
        """(action, node) of the children of node ``i``, in the order of the trees."""
        if i not in self._below:
            problem = self.trees[0].problem
            groups: dict[tuple[int, Any], list[Place]] = {}
            for t, number in self._places[i]:
                tree = self.trees[t]
                for action, child in tree.children(number):
                    key = action, problem.key_of(tree.node(child).state)
                    groups.setdefault(key, []).append((t, child))
            first = len(self._places)
            self._places += groups.values()
            pairs = [(action, first + j) for j, (action, _) in enumerate(groups)]
            self._below[i] = pairs
        yield from self._below[i]

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if a tree has it."""
        known = {
            (t, child)
            for t, number in self._places[i]
            if (child := self.trees[t].child(number, action, after)) is not None
        }
        for _, number in self.children(i):
            if known & set(self._places[number]):
                return number
        return None

    def advance(self, child: int) -> None:
        """Make ``child`` the root of all trees; those that lack it begin anew there."""
        places = dict(self._places[child])
        state = self.node(child).state
        for t, tree in enumerate(self.trees):
            if t in places:
                tree.advance(places[t])
            else:
                tree.restart(state)
        self._renew()

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later: no tree has met it."""
        for tree in self.trees:
            tree.restart(state)
        self._renew()


def merged(parts: list[Node], number: int, tree: Any) -> Node:
    """One node of the same state in several trees: sums in their order.

    Its value is that of the merged actions, or the mean over visits where nodes pass up
    mean returns or weigh by what is above them.
    """
    first, rule = parts[0], tree.rule
    visits = sum(part.visits for part in parts)
    # trees that have made more decisions have opened more actions (``tree.widening``)
    actions = max((part.actions for part in parts), key=len)
    slots = range(len(actions))
    n = [sum(part.edge_visits[j] for part in parts if j < part.size) for j in slots]
    totals = [
        sum((part.edge_totals[j] for part in parts if j < part.size), 0.0)
        for j in slots
    ]
    boxes: tuple[tuple[float, float], ...] = ()
    if first.boxes:
        boxes = tuple(
            (max(p.boxes[j][0] for p in parts), min(p.boxes[j][1] for p in parts))
            for j in slots
        )
    value, weight = 0.0, max(1, visits)
    for part in parts:
        value += part.visits * part.value / weight
    found = Node(
        number=number,
        state=first.state,
        player=first.player,
        visits=visits,
        value=value,
        first=first.first,
        actions=actions,
        edge_visits=tuple(n),
        edge_totals=tuple(totals),
        boxes=boxes,
        bounds=max((part.bounds for part in parts), key=len),
    )
    if rule.up == MEAN or rule.prior == PARENT_PRIOR or not any(n):
        return found
    weights = [float(tree.weights[a]) for a in actions]
    if rule.prior == VISITS_PRIOR:
        visit_shares(n, len(n), weights)
    q = found.q_values(rule, float(tree.head[len(n)]))
    best = first.sign * passed_up(rule, [first.sign * x for x in q], n, weights)
    return Node(**found.__dict__ | {"value": best})
