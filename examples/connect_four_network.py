"""Connect four with a network of your own: trained here in NumPy, plugged into PUCT.

    python examples/connect_four_network.py

A tree search plays against itself; a network of one hidden layer learns its visits and
what its positions were worth. PUCT then asks the network at its leaves, 16 at a time.
How far the network's number is from the truth is seen where the truth can be proven:
late positions, by a tree that solves (solve=True). It takes under a minute of one core,
beside compiling.
"""

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
CELLS = np.array([7 * c + r for c in range(7) for r in range(6)])


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


class Network:
    """One hidden layer: the mover's stones and the other's in, a prior and a value out."""

    def __init__(self, hidden=64, seed=0):
        rng = np.random.default_rng(seed)
        self.weights = [
            rng.normal(size=(85, hidden)) / 9.0,
            rng.normal(size=(hidden + 1, 8)) / 8.0,
        ]

    def inputs(self, states):
        bits = [(np.asarray(s)[:, None] >> CELLS) & 1 for s in (states.x, states.o)]
        first = np.asarray(states.turn)[:, None] == 0
        mine, other = np.where(first, *bits), np.where(first, *bits[::-1])
        return np.hstack([mine, other, np.ones((len(mine), 1))]).astype(float)

    def forward(self, inputs):
        hidden = np.tanh(inputs @ self.weights[0])
        hidden = np.hstack([hidden, np.ones((len(hidden), 1))])
        out = hidden @ self.weights[1]
        prior = np.exp(out[:, :7] - out[:, :7].max(axis=1, keepdims=True))
        return hidden, prior / prior.sum(axis=1, keepdims=True), np.tanh(out[:, 7])

    def __call__(self, states):
        """(priors, values): the value is the max player's, whoever moves."""
        _, priors, values = self.forward(self.inputs(states))
        return priors, np.where(np.asarray(states.turn) == 0, values, -values)

    def train(self, inputs, policies, values, epochs=30, rate=0.003, seed=0):
        """Adam on cross entropy and squared error."""
        rng, moments = np.random.default_rng(seed), [[0.0, 0.0], [0.0, 0.0]]
        count = 0
        for _ in range(epochs):
            order = rng.permutation(len(inputs))
            for rows in np.array_split(order, max(1, len(order) // 128)):
                hidden, priors, guess = self.forward(inputs[rows])
                slope = np.empty((len(rows), 8))
                slope[:, :7] = priors - policies[rows]
                slope[:, 7] = 2.0 * (guess - values[rows]) * (1.0 - guess**2)
                back = slope @ self.weights[1][:-1].T * (1.0 - hidden[:, :-1] ** 2)
                count += 1
                for i, g in enumerate([inputs[rows].T @ back, hidden.T @ slope]):
                    g = g / len(rows) + 1e-4 * self.weights[i]
                    m, v = moments[i]
                    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                    moments[i] = [m, v]
                    scaled = m / (1 - 0.9**count)
                    size = np.sqrt(v / (1 - 0.999**count)) + 1e-8
                    self.weights[i] = self.weights[i] - rate * scaled / size
        return self


def trained(problem, games=150, simulations=400, seed=0):
    """A network that has seen a tree search play against itself."""
    rng, rows = np.random.default_rng(seed), []
    method = sc.UCT(exploration=1.4)
    for game in range(games):
        state, over, seen, reward = problem.initial_state, False, [], 0.0
        while not over:
            tree = sc.Tree(problem, state, method=method, seed=1000 * game + len(seen))
            policy = np.array(tree.grow(simulations=simulations).search_policy())
            seen.append((state, policy, tree.estimate().value))
            shares = policy if len(seen) < 12 else policy**8
            action = int(rng.choice(7, p=shares / shares.sum()))
            reward, state, over = problem.oracle(state, action, None)
        for position, policy, value in seen:
            sign = 1.0 if position.turn == 0 else -1.0
            rows.append((position, policy, sign * 0.5 * (value + reward)))
    states = Four(
        *(np.array(column) for column in zip(*(r[0] for r in rows), strict=True))
    )
    network = Network(seed=seed)
    policies, values = np.array([r[1] for r in rows]), np.array([r[2] for r in rows])
    return network.train(network.inputs(states), policies, values)


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


def main(games=150, simulations=400, positions=20):
    problem = connect_four()
    network = trained(problem, games, simulations)
    method = sc.PUCT(network=sc.batched(network), exploration=1.5, leaf_batch=16)
    tree = sc.Tree(problem, method=method, seed=0).grow(simulations=400)
    priors, _ = network(Four(*(np.array([part]) for part in problem.initial_state)))
    print("The empty board: the network's prior", np.round(priors[0], 2))
    print("PUCT with it, 400 simulations:     ", np.round(tree.search_policy(), 2))
    errors, searched = [], []
    for state in late_positions(problem, positions):
        proof = sc.Tree(problem, state, method=sc.UCT(solve=True), seed=0)
        proof.grow(simulations=200_000)
        if not proof.proven:
            continue
        truth = proof.estimate().value
        columns = Four(*(np.array([part]) for part in state))
        errors.append(abs(float(network(columns)[1][0]) - truth))
        found = sc.Tree(problem, state, method=method, seed=0).grow(simulations=200)
        searched.append(abs(found.estimate().value - truth))
    print(
        f"{len(errors)} late positions with a proven value: the network is off by "
        f"{np.mean(errors):.2f} on average, 200 simulations of PUCT by "
        f"{np.mean(searched):.2f}."
    )


if __name__ == "__main__":
    main()
