"""The memory of certified search: states seen, their pairs and the outcomes drawn there, as flat arrays that grow by doubling.

A node is a state (with the steps that remain, where there is a horizon); node 0 is the end, with value 0: every terminal state and
every state after the last step. A pair is a node with one legal action; the pairs of a node are neighbours. An entry is a distinct
outcome (next state, reward) of a pair with the number of times it came; the entries of a pair are neighbours in a pool and move to its
end when they need room, so that the pool is never more than about four times what was seen.

Entries are told apart by ``raw``, the next state as a whole number (the oracle's own number, or the node's where states are objects),
so that a draw costs a short scan and no look-up of nodes. Rewards are part of an outcome because the bounds are not linear in them.
A pair with more than ``MANY_OUTCOMES`` outcomes (continuous rewards, say) has its new rewards rounded at random to a grid of
``GRID_CELLS`` cells with the mean kept: r' takes the two neighbours of r with weights that make E[r' | r] = r. The draws of r' + gamma V(z)
then have the same mean Q and the same range, which is all that the radii ask for; the variance grows by (rho / (2 GRID_CELLS))**2 at most.

This file decides how data lie. It leaves out bounds (``certified_sweeps``) and where outcomes come from (``certified_sampling``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Floats, Ints

END = 0  # the node of every terminal state
END_RAW = -(2**63)  # what stands for the next state where the step said ``terminated``
UNRESOLVED = -1  # the node of an entry whose state was not looked up yet
MANY_OUTCOMES = 64
GRID_CELLS = 32
SHORT_SCAN = 16  # a scan of 16 entries costs as much as one look-up in the hash table (about 10 ns)
ENTRIES, HASHED, WAITING = 0, 1, 2  # places in ``sizes``


class Graph(NamedTuple):
    """The arrays that compiled code reads. N nodes, P pairs, E entries: the rest of each array is room."""

    # nodes (N,)
    lower: Floats  # L(s)
    upper: Floats  # U(s)
    q_low: Floats  # m: no Q of this node is below
    q_high: Floats  # M
    sign: Floats  # 1 where max moves, -1 where min does
    first: Ints  # the node's first pair
    size: Ints  # its number of pairs; 0 for the end
    mass: Floats  # how often the optimistic walk from the asked state comes by, discounted
    residual: Floats  # mass not yet passed on
    listed: NDArray[np.bool_]  # whether the asked query has met it
    # pairs (P,)
    node: Ints
    action: Ints
    prior: Floats
    total: Floats  # draws, or the sum of probabilities where the model is known
    cost: Floats  # log(2 / (delta p_k)); 0 where outcomes are exact
    pole_up: Ints
    pole_down: Ints
    q_lower: Floats
    q_upper: Floats
    reach_up: Floats  # |pole - bound|: the derivative of the bound by n is reach * cost / n**2
    reach_down: Floats
    policy: Floats
    flow: Floats  # mass * policy
    gain: Floats
    start: Ints  # the pair's entries are start .. start + length - 1 of the pool, with room for ``room``
    length: Ints
    room: Ints
    # entries (E,)
    raw: Ints
    target: Ints  # node
    reward: Floats
    weight: Floats  # times seen, or probability
    # hash table of the entries of pairs with more than SHORT_SCAN of them: pair (-1: free) and place within the pair
    hash_pair: Ints
    hash_place: Ints
    # entries without a node yet
    waiting_pair: Ints
    waiting_place: Ints
    sizes: Ints  # (3,): entries used, hash slots used, entries waiting


NODE_FIELDS = ("lower", "upper", "q_low", "q_high", "sign", "first", "size", "mass", "residual", "listed")
PAIR_FIELDS = (
    "node", "action", "prior", "total", "cost", "pole_up", "pole_down", "q_lower", "q_upper", "reach_up", "reach_down", "policy",
    "flow", "gain", "start", "length", "room",
)  # fmt: skip
ENTRY_FIELDS = ("raw", "target", "reward", "weight")
INTEGERS = {"first", "size", "node", "action", "pole_up", "pole_down", "start", "length", "room", "raw", "target"}


def mixed(x: Any) -> Any:
    """Stafford's mix 13 of a 64-bit word (the finalizer of SplitMix64), for hashing and for seeding streams by position."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hash_slot(pair: int, raw: int, reward: float, size: int) -> int:
    """The first slot to look at, in a table of ``size`` = 2**b slots."""
    word = mixed(np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(raw))
    word = mixed(word + np.uint64(np.int64(reward * 1048576.0)))  # equal rewards hash alike; near ones are told apart by comparison
    return np.int64(word & np.uint64(size - 1))  # type: ignore[return-value]


def find_entry(g: Graph, pair: int, raw: int, reward: float) -> int:
    """The place of an outcome within its pair, -1 where it is new."""
    start, length = g.start[pair], g.length[pair]
    if length <= SHORT_SCAN:
        for place in range(length):
            if g.raw[start + place] == raw and g.reward[start + place] == reward:
                return place
        return -1
    size = len(g.hash_pair)
    slot = hash_slot(pair, raw, reward, size)
    while g.hash_pair[slot] >= 0:
        place = g.hash_place[slot]
        if g.hash_pair[slot] == pair and g.raw[start + place] == raw and g.reward[start + place] == reward:
            return int(place)
        slot = (slot + 1) & (size - 1)
    return -1


def insert_hash(g: Graph, pair: int, place: int) -> None:
    """Enter one entry in the hash table, which has a free slot."""
    size = len(g.hash_pair)
    e = g.start[pair] + place
    slot = hash_slot(pair, g.raw[e], g.reward[e], size)
    while g.hash_pair[slot] >= 0:
        slot = (slot + 1) & (size - 1)
    g.hash_pair[slot] = pair
    g.hash_place[slot] = place
    g.sizes[HASHED] += 1


def add_entry(g: Graph, pair: int, raw: int, target: int, reward: float) -> int:
    """The place of a new outcome of weight 0, the pair's entries moved if they have no room; ``has_room`` was asked before."""
    length = g.length[pair]
    if length == g.room[pair]:
        old, fresh = g.start[pair], g.sizes[ENTRIES]
        for i in range(length):
            g.raw[fresh + i], g.target[fresh + i] = g.raw[old + i], g.target[old + i]
            g.reward[fresh + i], g.weight[fresh + i] = g.reward[old + i], g.weight[old + i]
        g.room[pair] = max(2, 2 * length)
        g.start[pair] = fresh
        g.sizes[ENTRIES] += g.room[pair]
    e = g.start[pair] + length
    g.raw[e], g.target[e], g.reward[e], g.weight[e] = raw, target, reward, 0.0
    g.length[pair] = length + 1
    if length == SHORT_SCAN:
        for place in range(length + 1):
            insert_hash(g, pair, place)
    elif length > SHORT_SCAN:
        insert_hash(g, pair, length)
    if target == UNRESOLVED:
        g.waiting_pair[g.sizes[WAITING]], g.waiting_place[g.sizes[WAITING]] = pair, length
        g.sizes[WAITING] += 1
    return int(length)


def has_room(g: Graph, pair: int) -> bool:
    """Whether one more entry of ``pair`` fits everywhere."""
    return bool(
        g.sizes[ENTRIES] + max(2, 2 * g.length[pair]) <= len(g.raw)
        and 2 * (g.sizes[HASHED] + SHORT_SCAN + 2) <= len(g.hash_pair)
        and g.sizes[WAITING] < len(g.waiting_pair)
    )


def rounded_reward(reward: float, low: float, high: float, u: float) -> float:
    """A neighbour of ``reward`` on the grid, with mean ``reward`` for u uniform on [0, 1); always within [low, high]."""
    width = high - low
    x = (reward - low) / width * GRID_CELLS
    cell = int(x)
    if u < x - cell:
        cell += 1
    return high if cell >= GRID_CELLS else low + width * (cell / GRID_CELLS)


def record(
    g: Graph, pairs: Ints, counts: Ints, raws: Ints, rewards: Floats, done: int, resolved: bool, low: float, high: float, salt: Any
) -> int:
    """The number of draws entered (those before ``done`` were entered earlier); less than all where arrays have to grow first."""
    at = 0
    for job in range(len(pairs)):
        pair = pairs[job]
        if at + counts[job] <= done:
            at += counts[job]
            continue
        for i in range(max(at, done), at + counts[job]):
            raw, reward = raws[i], rewards[i]
            place = find_entry(g, pair, raw, reward)
            if place < 0:
                if not has_room(g, pair):
                    return i
                if g.length[pair] >= MANY_OUTCOMES and high > low:
                    word = mixed(mixed(np.uint64(pair) + salt) + np.uint64(g.total[pair]))
                    reward = rounded_reward(reward, low, high, np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53)
                    place = find_entry(g, pair, raw, reward)
                if place < 0:
                    place = add_entry(g, pair, raw, raw if resolved else UNRESOLVED, reward)
            g.weight[g.start[pair] + place] += 1.0
            g.total[pair] += 1.0
        at += counts[job]
    return int(at)


def rehash(g: Graph) -> None:
    """Fill an empty hash table from the pairs."""
    g.sizes[HASHED] = 0
    for pair in range(len(g.length)):
        if g.length[pair] > SHORT_SCAN:
            for place in range(g.length[pair]):
                insert_hash(g, pair, place)


class Memory:
    """States, pairs and outcomes seen so far: the owner of the arrays."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.states: list[Any] = [None]  # what each node stands for; node 0 is the end
        self.remaining: list[int] = [0]  # steps left, 0 throughout where there is no horizon
        self.nodes: dict[Any, int] = {}
        self.num_pairs = 0
        self._boxes: dict[tuple[int, int], tuple[float, float, float, float]] = {}
        self._weights = problem.operator.weights(problem.num_actions)
        room: dict[str, Any] = {name: _blank(name, 64) for name in NODE_FIELDS}
        room |= {name: _blank(name, 256) for name in PAIR_FIELDS} | {name: _blank(name, 1024) for name in ENTRY_FIELDS}
        room |= {name: np.full(1024, -1, dtype=np.int64) for name in ("hash_pair", "hash_place")}
        room |= {name: np.zeros(1024, dtype=np.int64) for name in ("waiting_pair", "waiting_place")}
        self.graph = Graph(**room, sizes=np.zeros(3, dtype=np.int64))

    @property
    def num_nodes(self) -> int:
        """Nodes, the end included."""
        return len(self.states)

    @property
    def num_entries(self) -> int:
        """Distinct outcomes seen."""
        return int(self.graph.length[: self.num_pairs].sum())

    @property
    def num_bytes(self) -> int:
        """What the arrays take."""
        return sum(array.nbytes for array in self.graph)

    def key(self, state: Any, remaining: int) -> Any:
        """What a node is found by."""
        return state if self.problem.horizon is None else (state, remaining)

    def node_of(self, state: Any, remaining: int, *, check: bool = True) -> int:
        """The node of a state with ``remaining`` steps left, made where it is new; 0 where the episode is over."""
        if self.problem.horizon is not None and remaining == 0:
            return END
        key = self.key(state, remaining)
        if check and not isinstance(state, Hashable):
            raise _unhashable(state)
        try:
            found = self.nodes.get(key)
        except TypeError:  # a tuple that holds a list says it is hashable
            raise _unhashable(state) from None
        if found is None:
            found = END if self.problem.is_terminal(state) else self._add_node(state, remaining)
            self.nodes[key] = found
        return found

    def _add_node(self, state: Any, remaining: int) -> int:
        problem, facts = self.problem, self.problem.facts
        player, actions = problem.mover(state), problem.legal_actions(state)
        if len(actions) < facts.min_actions:
            raise InvalidInput(
                f"State {state!r} has {len(actions)} legal actions, fewer than min_actions={facts.min_actions}; declare the fewest."
            )
        node, first = len(self.states), self.num_pairs
        self._grow(NODE_FIELDS, node + 1)
        self._grow(PAIR_FIELDS, first + len(actions))
        g = self.graph
        if (player, remaining) not in self._boxes:
            steps = None if problem.horizon is None else remaining
            self._boxes[player, remaining] = (*facts.value_bounds(player, steps), *facts.q_bounds(player, steps))
        g.lower[node], g.upper[node], g.q_low[node], g.q_high[node] = self._boxes[player, remaining]
        g.sign[node], g.first[node], g.size[node] = (1.0 if player == 1 else -1.0), first, len(actions)
        for pair, action in enumerate(actions, start=first):
            g.node[pair], g.action[pair], g.prior[pair] = node, action, self._weights[action]
            g.q_lower[pair], g.q_upper[pair] = g.q_low[node], g.q_high[node]
        self.num_pairs += len(actions)
        self.states.append(state)
        self.remaining.append(remaining)
        return node

    def resolve(self) -> None:
        """Look up the nodes of entries that were drawn as bare numbers."""
        g = self.graph
        count = int(g.sizes[WAITING])
        pairs, places = g.waiting_pair[:count].copy(), g.waiting_place[:count].copy()
        g.sizes[WAITING] = 0
        at = g.start[pairs] + places
        raws = g.raw[at]
        left = np.asarray(self.remaining, dtype=np.int64)[g.node[pairs]] if self.problem.horizon is not None else np.zeros_like(raws)
        found, which = np.unique(np.stack([raws, left]), axis=1, return_inverse=True)
        nodes = [END if raw == END_RAW else self.node_of(raw, steps - 1, check=False) for raw, steps in found.T.tolist()]
        self.graph.target[at] = np.array(nodes, dtype=np.int64)[which.reshape(-1)]
        self.check_turns(pairs, self.graph.target[at])

    def check_turns(self, pairs: Ints, targets: Ints) -> None:
        """Refuse a move that keeps the turn where turns were declared to alternate, since the bounds rely on it."""
        if not self.problem.facts.alternating:
            return
        g = self.graph
        kept = (targets != END) & (g.sign[g.node[pairs]] == g.sign[targets])
        if kept.any():
            bad = int(pairs[np.flatnonzero(kept)[0]])
            raise OracleError(
                f"alternating=True, but action {int(g.action[bad])} in state {self.states[g.node[bad]]!r} keeps the turn; drop alternating=."
            )

    def make_room(self, *, rehash_with: Any) -> None:
        """Let entries, hash table and waiting list grow to twice their size where they are nearly full."""
        g = self.graph
        if int(g.sizes[WAITING]):
            self.resolve()
        longest = int(g.length[: self.num_pairs].max(initial=1))
        self._grow(ENTRY_FIELDS, int(g.sizes[ENTRIES]) + 4 * longest + 64)
        if 2 * (int(g.sizes[HASHED]) + 2 * SHORT_SCAN) > len(g.hash_pair):
            fresh = {name: np.full(2 * len(g.hash_pair), -1, dtype=np.int64) for name in ("hash_pair", "hash_place")}
            self.graph = self.graph._replace(**fresh)
            rehash_with(self.graph)

    def _grow(self, names: tuple[str, ...], need: int) -> None:
        have = len(getattr(self.graph, names[0]))
        if need <= have:
            return
        fresh = {}
        for name in names:
            fresh[name] = _blank(name, max(need, 2 * have))
            fresh[name][:have] = getattr(self.graph, name)
        self.graph = self.graph._replace(**fresh)


def _blank(name: str, size: int) -> Any:
    return np.zeros(size, dtype=np.bool_ if name == "listed" else np.int64 if name in INTEGERS else np.float64)


def _unhashable(state: Any) -> InvalidInput:
    return InvalidInput(
        f"Certified search recognizes states by their hash, but the oracle returned {type(state).__name__}; return a tuple or a number."
    )
