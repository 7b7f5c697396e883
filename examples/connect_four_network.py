"""Connect four with a network of your own: trained here in NumPy, plugged into PUCT.

    python examples/connect_four_network.py

A tree search plays against itself, and proves what it can (solve=True). A network of one
hidden layer learns its visits and what its positions were worth. It sees the stones and
what a player would look for: the empty cells that complete four.

PUCT then asks the network at its leaves, where it counts for 0.7 and a rollout for 0.3
(``mix``). ``compiled`` makes machine code of it, which answers inside the compiled tree;
a network that stays in Python is ``sc.batched(network)``, with ``leaf_batch=16``.

How far the network's number is from the truth is seen where the truth can be proven:
late positions, by a tree that solves. How strong the search with it plays is in
docs/evidence/strength.md. It takes under a minute of one core, beside compiling.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

import smoothcruiser as sc


class Four(NamedTuple):
    """Stones of the two players as bits, column by column, and who moves."""

    x: int
    o: int
    turn: int


BOARD = sum(0b111111 << (7 * c) for c in range(7))
BOTTOM = sum(1 << (7 * c) for c in range(7))
CELLS = np.array([7 * c + r for c in range(7) for r in range(6)])
MIRROR = np.array([6 * (6 - c) + r for c in range(7) for r in range(6)])


@njit
def four_in_a_row(stones):
    for shift in (1, 6, 7, 8):
        pairs = stones & (stones >> shift)
        if pairs & (pairs >> (2 * shift)):
            return True
    return False


@njit
def step(state, action, rng):
    taken = state.x | state.o
    stone = ((taken >> (7 * action)) & 63) + 1 << (7 * action)
    full = (taken | stone) == BOARD
    if state.turn == 0:
        won = four_in_a_row(state.x | stone)
        return 1.0 if won else 0.0, Four(state.x | stone, state.o, 1), won or full
    won = four_in_a_row(state.o | stone)
    return -1.0 if won else 0.0, Four(state.x, state.o | stone, 0), won or full


@njit
def legal(state, action):
    return ((state.x | state.o) >> (7 * action + 5)) & 1 == 0


@njit
def player(state):
    return state.turn + 1


def connect_four():
    return sc.Game(
        step,
        num_actions=7,
        player=player,
        alternating=True,
        discount=1.0,
        horizon=42,
        operator=sc.Max(),
        reward_range=(-1.0, 1.0),
        payoffs="end",
        legal=legal,
        terminal=True,
        initial_state=Four(0, 0, 0),
        deterministic=True,
        name="connect four",
    )


def completing(stones):
    """The cells that would complete four of these stones, as bits."""
    found = (stones << 1) & (stones << 2) & (stones << 3)
    for shift in (6, 7, 8):
        near = (stones << shift) & (stones << 2 * shift)
        found |= near & ((stones << 3 * shift) | (stones >> shift))
        near = (stones >> shift) & (stones >> 2 * shift)
        found |= near & ((stones >> 3 * shift) | (stones << shift))
    return found


completing_bits = njit(completing)  # of one board; of arrays as it is


class Network:
    """One hidden layer: six planes of a board in, a prior and a value out.

    The planes are, of the mover and of the other: stones, empty cells that complete
    four, and those of them that a stone can be put into now.
    """

    def __init__(self, hidden=64, seed=0):
        rng = np.random.default_rng(seed)
        shapes = (6 * 42 + 1, hidden), (hidden + 1, 8)
        self.weights = [
            (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
            for shape in shapes
        ]

    def inputs(self, states):
        x, o, turn = (np.asarray(part, dtype=np.int64) for part in states)
        stones = np.stack([np.where(turn == 0, x, o), np.where(turn == 0, o, x)])
        empty = BOARD & ~(x | o)
        wins = completing(stones) & empty
        planes = np.concatenate([stones, wins, wins & ((x | o) + BOTTOM)])
        bits = (planes.T[:, :, None] >> CELLS) & 1
        rows = np.ones((len(x), 6 * 42 + 1), dtype=np.float32)
        rows[:, :-1] = bits.reshape(len(x), 6 * 42)
        return rows

    def forward(self, inputs):
        hidden = np.ones((len(inputs), len(self.weights[1])), dtype=np.float32)
        np.tanh(inputs @ self.weights[0], out=hidden[:, :-1])
        out = hidden @ self.weights[1]
        prior = np.exp(out[:, :7] - out[:, :7].max(axis=1, keepdims=True))
        return hidden, prior / prior.sum(axis=1, keepdims=True), np.tanh(out[:, 7])

    def __call__(self, states):
        """(priors, values): the value is the max player's, whoever moves."""
        _, priors, values = self.forward(self.inputs(states))
        return priors, np.where(np.asarray(states.turn) == 0, values, -values)

    def train(self, inputs, policies, values, epochs=12, rate=0.003, seed=0):
        """Adam on cross entropy and squared error; the rate falls to 0."""
        rng, moments = np.random.default_rng(seed), [[0.0, 0.0], [0.0, 0.0]]
        batches, count = max(1, len(inputs) // 128), 0
        for _ in range(epochs):
            for rows in np.array_split(rng.permutation(len(inputs)), batches):
                hidden, priors, guess = self.forward(inputs[rows])
                slope = np.empty((len(rows), 8), dtype=np.float32)
                slope[:, :7] = priors - policies[rows]
                slope[:, 7] = 2.0 * (guess - values[rows]) * (1.0 - guess**2)
                back = slope @ self.weights[1][:-1].T * (1.0 - hidden[:, :-1] ** 2)
                count += 1
                now = rate * (1.0 - count / (epochs * batches + 1))
                for i, g in enumerate([inputs[rows].T @ back, hidden.T @ slope]):
                    g = g / len(rows) + 1e-4 * self.weights[i]
                    m, v = moments[i]
                    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                    moments[i] = [m, v]
                    scaled = m / (1 - 0.9**count)
                    size = np.sqrt(v / (1 - 0.999**count)) + 1e-8
                    self.weights[i] -= now * scaled / size
        return self


def compiled(network):
    """The network as machine code, which answers inside the compiled tree.

    Most inputs are 0, so it adds up the rows of the others.
    """
    (first, last), cells = network.weights, CELLS
    hidden = first.shape[1]

    @njit
    def answer(state):
        mine, other = state.x, state.o
        if state.turn == 1:
            mine, other = other, mine
        taken = mine | other
        wins = completing_bits(mine) & ~taken, completing_bits(other) & ~taken
        free = taken + BOTTOM
        planes = (mine, other, wins[0], wins[1], wins[0] & free, wins[1] & free)
        layer = first[-1].copy()
        for plane in range(6):
            bits = planes[plane]
            for cell in range(42):
                if (bits >> cells[cell]) & 1:
                    row = first[42 * plane + cell]
                    for h in range(hidden):
                        layer[h] += row[h]
        out = last[-1].copy()
        for h in range(hidden):
            value = math.tanh(layer[h])
            for k in range(8):
                out[k] += value * last[h, k]
        prior = np.exp(out[:7] - out[:7].max())
        value = math.tanh(out[7])
        return prior, value if state.turn == 0 else -value

    return answer


def columns(states):
    """States as one array per field, the form in which a network gets them."""
    return Four(*(np.array(part) for part in zip(*states, strict=True)))


def self_play(problem, method, games, simulations, seed=0):
    """(positions, policies, values for the mover) of games of a search with itself."""
    rng = np.random.default_rng(seed)
    states, policies, values = [], [], []
    for game in range(games):
        state, over, reward, first = problem.initial_state, False, 0.0, len(states)
        blind = int(rng.integers(7))  # moves at random, so that games differ
        ply = 0
        while not over:
            if ply < blind:
                action = int(rng.choice(problem.legal_actions(state)))
            else:
                tree = sc.Tree(problem, state, method=method, seed=1000 * game + ply)
                policy = np.array(tree.grow(simulations=simulations).search_policy())
                if tree.proven:  # visits say little where a proof ended the search
                    policy = np.eye(7)[tree.action()]
                states.append(state)
                policies.append(policy)
                values.append(tree.estimate().value)
                shares = policy if ply < 12 else policy**8
                action = int(rng.choice(7, p=shares / shares.sum()))
            reward, state, over = problem.oracle(state, action, None)
            ply += 1
        for i in range(first, len(states)):
            sign = 1.0 if states[i].turn == 0 else -1.0
            values[i] = sign * 0.5 * (values[i] + reward)
    return states, np.array(policies), np.array(values)


def trained(problem, games=400, simulations=800, seed=0):
    """A network that has seen a tree search play against itself."""
    method = sc.UCT(exploration=1.4, solve=True)
    states, policies, values = self_play(problem, method, games, simulations, seed)
    network = Network(seed=seed)
    inputs = network.inputs(columns(states))
    planes = inputs[:, :-1].reshape(-1, 6, 42)[:, :, MIRROR]  # mirrored boards
    mirrored = np.hstack([planes.reshape(-1, 6 * 42), inputs[:, -1:]])
    return network.train(
        np.vstack([inputs, mirrored]),
        np.vstack([policies, policies[:, ::-1]]).astype(np.float32),
        np.hstack([values, values]).astype(np.float32),
    )


def late_positions(problem, count, stones=30, seed=1):
    """Positions of random games with so many stones."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < count:
        state, over = problem.initial_state, False
        for _ in range(stones):
            moves = problem.legal_actions(state)
            _, state, over = problem.oracle(
                state, moves[rng.integers(len(moves))], None
            )
            if over:
                break
        if not over:
            found.append(state)
    return found


def main(games=400, simulations=800, positions=20):
    problem = connect_four()
    network = trained(problem, games, simulations)
    method = sc.PUCT(network=compiled(network), exploration=1.5, mix=0.3)
    tree = sc.Tree(problem, method=method, seed=0).grow(simulations=400)
    priors, _ = network(columns([problem.initial_state]))
    print("The empty board: the network's prior", np.round(priors[0], 2))
    print("PUCT with it, 400 simulations:     ", np.round(tree.search_policy(), 2))
    errors, searched = [], []
    for state in late_positions(problem, positions):
        proof = sc.Tree(problem, state, method=sc.UCT(solve=True), seed=0)
        proof.grow(simulations=200_000)
        if not proof.proven:
            continue
        truth = proof.estimate().value
        errors.append(abs(float(network(columns([state]))[1][0]) - truth))
        found = sc.Tree(problem, state, method=method, seed=0).grow(simulations=200)
        searched.append(abs(found.estimate().value - truth))
    print(
        f"{len(errors)} late positions with a proven value: the network is off by "
        f"{np.mean(errors):.2f} on average, 200 simulations of PUCT by "
        f"{np.mean(searched):.2f}."
    )


if __name__ == "__main__":
    main()
