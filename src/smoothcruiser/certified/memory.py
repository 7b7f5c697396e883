"""The memory of certified search: states seen, their pairs and the outcomes
drawn there, as flat arrays that grow by doubling.

A node is a state (with the steps that remain, where there is a horizon); node 0
is the end, with value 0: every terminal state and every state after the last
step. A pair is a node with one legal action; the pairs of a node are
neighbours. An entry is a distinct outcome (next state, reward) of a pair with
the number of times it came; the entries of a pair are neighbours in a pool and
move to its end when they need room, so that the pool is never more than about
four times what was seen.

Entries are told apart by ``raw``, the next state as a whole number (the
oracle's own number, or the node's where states are objects), so that a draw
costs a short scan and no look-up of nodes. Rewards are part of an outcome
because the bounds are not linear in them. A pair with more than
``MANY_OUTCOMES`` outcomes (continuous rewards, say) has its new rewards rounded
at random to a grid of ``GRID_CELLS`` cells with the mean kept: r' takes the two
neighbours of r with weights that make E[r' | r] = r. The draws of r' + gamma
V(z) then have the same mean Q and the same range, which is all that the radii
ask for; the variance grows by (rho / (2 GRID_CELLS))**2 at most.

This file decides how data lie. It leaves out bounds (``certified_sweeps``) and
where outcomes come from (``certified_sampling``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified.price import box
from smoothcruiser.errors import OracleError
from smoothcruiser.problem.answers import flickering
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import check_recognizable, identical, is_fixed
from smoothcruiser.problem.tabular import Floats, Ints

END = 0  # the node of every terminal state
END_RAW = -(2**63)  # what stands for the next state where the step said ``terminated``
UNRESOLVED = -1  # the node of an entry whose state was not looked up yet
MANY_OUTCOMES = 64
# states whose mover and legal actions are asked for again after a query
ASKED_AGAIN = 512
GRID_CELLS = 32
# a scan of 16 entries costs as much as one look-up in the hash table (about 10 ns)
SHORT_SCAN = 16
ENTRIES, HASHED, WAITING = 0, 1, 2  # places in ``sizes``


NODE = np.dtype(
    [
        ("lower", "f8"),  # L(s)
        ("upper", "f8"),  # U(s)
        ("q_low", "f8"),  # m: no Q of this node is below
        ("q_high", "f8"),  # M
        ("sign", "f8"),  # 1 where max moves, -1 where min does
        # how often the optimistic walk from the asked state comes by, discounted
        ("mass", "f8"),
        ("residual", "f8"),  # mass not yet passed on
        ("first", "i8"),  # the node's first pair
        ("size", "i4"),  # its number of pairs; 0 for the end
        ("listed", "i4"),  # whether the query at hand has met it
    ],
    align=True,
)
PAIR = np.dtype(
    [
        ("total", "f8"),  # draws, or the sum of probabilities where the model is known
        ("cost", "f8"),  # log(2 / (delta p_k)); 0 where outcomes are exact
        ("q_lower", "f8"),
        ("q_upper", "f8"),
        ("slope_up", "f8"),  # minus the derivative of the upper radius by n, times n**2
        ("slope_down", "f8"),
        ("policy", "f8"),  # of the optimistic walk
        ("gain", "f8"),  # by how much one more draw narrows the answer
        ("prior", "f8"),
        # entries start .. start + length - 1 of the pool are its own, with room for
        # ``room``
        ("start", "i8"),
        ("length", "i4"),
        ("room", "i4"),
        ("node", "i4"),
        ("action", "i4"),
        ("pole_up", "i4"),
        ("pole_down", "i4"),
    ],
    align=True,
)
ENTRY = np.dtype(
    [
        ("raw", "i8"),  # the next state as the oracle's number
        ("reward", "f8"),
        ("weight", "f8"),  # times seen, or probability
        ("target", "i8"),  # the next state's node
    ],
    align=True,
)
# an entry, by its pair and its place there
PLACE = np.dtype([("pair", "i4"), ("place", "i4")], align=True)


class Graph(NamedTuple):
    """The arrays that compiled code reads: nodes in use, and room behind them."""

    nodes: Any  # (N,) of NODE
    pairs: Any  # (P,) of PAIR
    entries: Any  # (E,) of ENTRY
    # (2**b,) of PLACE: hash table of the entries of pairs with more than SHORT_SCAN
    # of them; pair -1 is a free slot
    slots: Any
    waiting: Any  # (W,) of PLACE: entries without a node yet
    sizes: Ints  # (3,): entries used, hash slots used, entries waiting


class Seen(NamedTuple):
    """A node whose state is no plain value, with what its like is compared with."""

    node: int
    state: Any
    profile: tuple[int, ...] | None


def mixed(x: Any) -> Any:
    """Stafford's mix 13 of a 64-bit word (the finalizer of SplitMix64), for
    hashing and for seeding streams by position.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hash_slot(pair: int, raw: int, reward: float, size: int) -> int:
    """The first slot to look at, in a table of ``size`` = 2**b slots."""
    word = mixed(np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(raw))
    # equal rewards hash alike; near ones are told apart by comparison
    word = mixed(word + np.uint64(np.int64(reward * 1048576.0)))
    return np.int64(word & np.uint64(size - 1))  # type: ignore[return-value]


def find_entry(g: Graph, p: int, raw: int, reward: float) -> int:
    """The place of an outcome within pair ``p``, -1 where it is new."""
    start, length = g.pairs[p]["start"], g.pairs[p]["length"]
    if length <= SHORT_SCAN:
        for place in range(length):
            if (
                g.entries[start + place]["raw"] == raw
                and g.entries[start + place]["reward"] == reward
            ):
                return place
        return -1
    size = len(g.slots)
    slot = hash_slot(p, raw, reward, size)
    while g.slots[slot]["pair"] >= 0:
        if g.slots[slot]["pair"] == p:
            place = g.slots[slot]["place"]
            if (
                g.entries[start + place]["raw"] == raw
                and g.entries[start + place]["reward"] == reward
            ):
                return int(place)
        slot = (slot + 1) & (size - 1)
    return -1


def insert_hash(g: Graph, p: int, place: int) -> None:
    """Enter one entry in the hash table, which has a free slot."""
    size = len(g.slots)
    entry = g.entries[g.pairs[p]["start"] + place]
    slot = hash_slot(p, entry["raw"], entry["reward"], size)
    while g.slots[slot]["pair"] >= 0:
        slot = (slot + 1) & (size - 1)
    g.slots[slot]["pair"] = p
    g.slots[slot]["place"] = place
    g.sizes[HASHED] += 1


def add_entry(g: Graph, p: int, raw: int, target: int, reward: float) -> int:
    """The place of a new outcome of weight 0, the pair's entries moved if they
    have no room; ``has_room`` was asked before.
    """
    pair = g.pairs[p]
    length = pair["length"]
    if length == pair["room"]:
        old, fresh = pair["start"], g.sizes[ENTRIES]
        for i in range(length):
            g.entries[fresh + i]["raw"] = g.entries[old + i]["raw"]
            g.entries[fresh + i]["reward"] = g.entries[old + i]["reward"]
            g.entries[fresh + i]["weight"] = g.entries[old + i]["weight"]
            g.entries[fresh + i]["target"] = g.entries[old + i]["target"]
        pair["room"] = max(2, 2 * length)
        pair["start"] = fresh
        g.sizes[ENTRIES] += pair["room"]
    entry = g.entries[pair["start"] + length]
    entry["raw"], entry["reward"], entry["weight"], entry["target"] = (
        raw,
        reward,
        0.0,
        target,
    )
    pair["length"] = length + 1
    if length >= SHORT_SCAN:
        for place in range(0 if length == SHORT_SCAN else length, length + 1):
            insert_hash(g, p, place)
    if target == UNRESOLVED:
        g.waiting[g.sizes[WAITING]]["pair"] = p
        g.waiting[g.sizes[WAITING]]["place"] = length
        g.sizes[WAITING] += 1
    return int(length)


def has_room(g: Graph, p: int) -> bool:
    """Whether one more entry of pair ``p`` fits everywhere."""
    return bool(
        g.sizes[ENTRIES] + max(2, 2 * g.pairs[p]["length"]) <= len(g.entries)
        and 2 * (g.sizes[HASHED] + SHORT_SCAN + 2) <= len(g.slots)
        and g.sizes[WAITING] < len(g.waiting)
    )


def rounded_reward(reward: float, low: float, high: float, u: float) -> float:
    """A neighbour of ``reward`` on the grid, with mean ``reward`` for u uniform
    on [0, 1); always within [low, high].
    """
    width = high - low
    x = (reward - low) / width * GRID_CELLS
    cell = int(x)
    if u < x - cell:
        cell += 1
    return high if cell >= GRID_CELLS else low + width * (cell / GRID_CELLS)


def record(
    g: Graph,
    pairs: Ints,
    counts: Ints,
    raws: Ints,
    rewards: Floats,
    done: int,
    resolved: bool,
    low: float,
    high: float,
    salt: Any,
) -> int:
    """The number of draws entered (those before ``done`` were entered earlier);
    less than all where arrays have to grow first.
    """
    at = 0
    for job in range(len(pairs)):
        p, begin = pairs[job], max(at, done)
        at += counts[job]
        for i in range(begin, at):
            raw, reward = raws[i], rewards[i]
            place = find_entry(g, p, raw, reward)
            if place < 0:
                if not has_room(g, p):
                    return i
                if g.pairs[p]["length"] >= MANY_OUTCOMES and high > low:
                    word = mixed(
                        mixed(np.uint64(p) + salt) + np.uint64(g.pairs[p]["total"])
                    )
                    reward = rounded_reward(
                        reward,
                        low,
                        high,
                        np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53,
                    )
                    place = find_entry(g, p, raw, reward)
                if place < 0:
                    place = add_entry(
                        g, p, raw, raw if resolved else UNRESOLVED, reward
                    )
            g.entries[g.pairs[p]["start"] + place]["weight"] += 1.0
            g.pairs[p]["total"] += 1.0
    return int(at)


def rehash(g: Graph) -> None:
    """Fill an empty hash table from the pairs."""
    g.sizes[HASHED] = 0
    for p in range(len(g.pairs)):
        if g.pairs[p]["length"] > SHORT_SCAN:
            for place in range(g.pairs[p]["length"]):
                insert_hash(g, p, place)


class Memory:
    """States, pairs and outcomes seen so far: the owner of the arrays."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.states: list[Any] = [None]  # what each node stands for; node 0 is the end
        # steps left, 0 throughout where there is no horizon
        self.remaining: list[int] = [0]
        self.nodes: dict[Any, int] = {}  # of plain values, which tell themselves apart
        self.others: dict[Any, Seen] = {}  # of all others, by their keys
        self.over: dict[Any, Any] = {}  # plain values that are terminal, by their keys
        self._types: set[type] = set()  # of the states looked at
        self.num_pairs = 0
        self._boxes: dict[tuple[int, int], tuple[float, float, float, float]] = {}
        self._weights = problem.operator.weights(problem.num_actions)
        self.graph = Graph(
            np.zeros(64, NODE),
            np.zeros(256, PAIR),
            np.zeros(1024, ENTRY),
            _free_slots(1024),
            np.zeros(1024, PLACE),
            np.zeros(3, np.int64),
        )

    @property
    def num_nodes(self) -> int:
        """Nodes, the end included."""
        return len(self.states)

    @property
    def num_entries(self) -> int:
        """Distinct outcomes seen."""
        return int(self.graph.pairs["length"][: self.num_pairs].sum())

    @property
    def num_bytes(self) -> int:
        """What the arrays take."""
        return sum(array.nbytes for array in self.graph)

    def node_of(self, state: Any, remaining: int) -> int:
        """The node of a state with ``remaining`` steps left, made where it is
        new; 0 where the episode is over.

        A state that is no plain value may have the key of another without being
        the same: mover, legal actions and end are compared whenever a key comes
        back.
        """
        problem = self.problem
        if problem.horizon is not None and remaining == 0:
            return END
        key: Any = problem.key_of(state)
        if problem.horizon is not None:
            key = (key, remaining)
        if problem.key is None and is_fixed(state):
            found = self.nodes.get(key)
            if found is None:
                (found,) = self._add_nodes([state], [remaining])
                self.nodes[key] = found
                if found == END:
                    self.over[key] = state
            else:
                known = (
                    self.over.get(key, state) if found == END else self.states[found]
                )
                if not identical(state, known):
                    problem.check_alike(state, known, self._profile(found))
            return found
        if key not in self.others:
            (node,) = self._add_nodes([state], [remaining])
            self.others[key] = Seen(node, state, self._profile(node))
            return node
        seen = self.others[key]
        problem.check_alike(state, seen.state, seen.profile)
        return seen.node

    def check_untouched(self) -> None:
        """Refuse a state whose key is another one now, since a step wrote into
        it; and companions that changed their mind.
        """
        problem = self.problem
        if problem.tables is None:
            for node in range(1, self.num_nodes, 1 + self.num_nodes // ASKED_AGAIN):
                if problem.profile(self.states[node]) != self._profile(node):
                    raise flickering(self.states[node])
        for key, seen in self.others.items():
            left = self.remaining[seen.node] if seen.node != END else None
            if left is None:
                continue
            now = problem.key_of(seen.state)
            if (
                self.others.get(now if problem.horizon is None else (now, left))
                is not seen
            ):
                old = key if problem.horizon is None else key[0]
                raise OracleError(
                    "The oracle changed the state it was given: a state with key "
                    f"{old!r} has become {seen.state!r}. "
                    "Copy the state in step, change the copy and return it: other "
                    "samples start from the same state."
                )

    def _profile(self, node: int) -> tuple[int, ...] | None:
        """What ``Problem.profile`` says of the node's state, from what is stored."""
        if node == END:
            return None
        first, size, sign = (
            self.graph.nodes[node][name] for name in ("first", "size", "sign")
        )
        return (
            1 if sign > 0.0 else 2,
            *self.graph.pairs["action"][first : first + size].tolist(),
        )

    def _check_recognizable(self, state: Any) -> None:
        """Refuse states that would not be recognized: a look at the first of
        each type, then at every power of two.
        """
        number = len(self.states)
        if type(state) not in self._types or number & (number - 1) == 0:
            self._types.add(type(state))
            check_recognizable(state, self.problem.key_of(state))

    def _add_nodes(self, states: list[Any], remaining: list[int]) -> list[int]:
        """The nodes of new states, the end for terminal ones; many at a time,
        because NumPy is slow one by one.
        """
        problem, facts = self.problem, self.problem.facts
        first_node, first_pair = len(self.states), self.num_pairs
        rows: list[tuple[Any, ...]] = []
        owner: list[int] = []
        acts: list[int] = []
        found: list[int] = []
        for state, left in zip(states, remaining, strict=True):
            self._check_recognizable(state)
            if problem.is_terminal(state):
                found.append(END)
                continue
            player, actions = problem.mover(state), problem.legal_actions(state)
            if (player, left) not in self._boxes:
                self._boxes[player, left] = box(
                    facts, player, None if problem.horizon is None else left
                )
            i = first_node + len(rows)
            rows.append(
                (
                    *self._boxes[player, left],
                    1.0 if player == 1 else -1.0,
                    0.0,
                    0.0,
                    first_pair + len(acts),
                    len(actions),
                    0,
                )
            )
            owner += [i] * len(actions)
            acts += actions
            self.states.append(state)
            self.remaining.append(left)
            found.append(i)
        self.num_pairs += len(acts)
        self._grow("nodes", first_node + len(rows))
        self._grow("pairs", self.num_pairs)
        nodes, pairs = self.graph.nodes, self.graph.pairs[first_pair : self.num_pairs]
        nodes[first_node : first_node + len(rows)] = np.array(rows, NODE)
        pairs["node"], pairs["action"], pairs["prior"] = (
            owner,
            acts,
            np.array(self._weights)[acts],
        )
        pairs["q_lower"], pairs["q_upper"] = (
            nodes["q_low"][owner],
            nodes["q_high"][owner],
        )
        return found

    def resolve(self) -> None:
        """Look up the nodes of entries that were drawn as bare numbers."""
        g = self.graph
        count = int(g.sizes[WAITING])
        g.sizes[WAITING] = 0
        pairs, places = (
            g.waiting["pair"][:count].astype(np.int64),
            g.waiting["place"][:count],
        )
        at = g.pairs["start"][pairs] + places
        raws = g.entries["raw"][at]
        # where there is no horizon all nodes have 0 steps left
        left = np.ones_like(raws)
        if self.problem.horizon is not None:
            left = np.asarray(self.remaining, dtype=np.int64)[g.pairs["node"][pairs]]
        found, which = np.unique(np.stack([raws, left]), axis=1, return_inverse=True)
        targets = np.array(
            self._nodes_of(found[0].tolist(), (found[1] - 1).tolist()), dtype=np.int64
        )[which.reshape(-1)]
        g.entries["target"][at] = targets
        self.check_turns(pairs, targets)

    def _nodes_of(self, states: list[int], remaining: list[int]) -> list[int]:
        """The nodes of distinct whole numbers that came as next states."""
        if self.problem.key is not None:
            jobs = zip(states, remaining, strict=True)
            return [
                END if state == END_RAW else self.node_of(state, left)
                for state, left in jobs
            ]
        horizon = self.problem.horizon is not None
        keys: list[Any] = (
            list(zip(states, remaining, strict=True)) if horizon else states
        )
        over = [
            state == END_RAW or (horizon and left == 0)
            for state, left in zip(states, remaining, strict=True)
        ]
        new = [i for i, key in enumerate(keys) if not over[i] and key not in self.nodes]
        made = self._add_nodes([states[i] for i in new], [remaining[i] for i in new])
        self.nodes.update((keys[i], node) for i, node in zip(new, made, strict=True))
        return [END if over[i] else self.nodes[key] for i, key in enumerate(keys)]

    def check_turns(self, pairs: Ints, targets: Ints) -> None:
        """Refuse a move that keeps the turn where turns were declared to
        alternate, since the bounds rely on it.
        """
        if not self.problem.facts.alternating:
            return
        g = self.graph
        kept = (targets != END) & (
            g.nodes["sign"][g.pairs["node"][pairs]] == g.nodes["sign"][targets]
        )
        if kept.any():
            bad = g.pairs[pairs[np.flatnonzero(kept)[0]]]
            raise OracleError(
                f"alternating=True, but action {bad['action']} in state "
                f"{self.states[bad['node']]!r} keeps the turn; drop alternating=."
            )

    def make_room(self, *, rehash_with: Any) -> None:
        """Let entries, hash table and waiting list grow to twice their size
        where they are nearly full.
        """
        if int(self.graph.sizes[WAITING]):
            self.resolve()
        g = self.graph
        longest = int(g.pairs["length"][: self.num_pairs].max(initial=1))
        self._grow("entries", int(g.sizes[ENTRIES]) + 4 * longest + 64)
        if 2 * (int(g.sizes[HASHED]) + 2 * SHORT_SCAN) > len(g.slots):
            self.graph = self.graph._replace(slots=_free_slots(2 * len(g.slots)))
            rehash_with(self.graph)

    def _grow(self, name: str, need: int) -> None:
        old = getattr(self.graph, name)
        if need > len(old):
            fresh = np.zeros(max(need, 2 * len(old)), old.dtype)
            fresh[: len(old)] = old
            self.graph = self.graph._replace(**{name: fresh})


def _free_slots(size: int) -> Any:
    slots = np.zeros(size, PLACE)
    slots["pair"] = -1
    return slots
