"""Operators and models that the tests of exact solutions share."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import smoothcruiser as sc

METHODS = ("auto", "value-iteration", "policy-iteration", "modified-policy-iteration")
OPERATORS = [
    sc.Entropy(0.5),
    sc.KL(0.5),
    sc.KL(0.5, (0.2, 0.3, 0.5)),
    sc.Sparsemax(0.5),
    sc.SquareRoot(0.5),
    sc.Max(),
]


def random_arrays(states, actions, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), size=(states, actions))
    return P, rng.random((states, actions))


def _never(state, action, rng):
    raise AssertionError("exact must not call the oracle")


COMMON = {"num_actions": 1, "discount": 0.5, "operator": sc.Max(), "initial_state": 0}


def mdp(**changes):
    """A problem whose step is never called: it has ``outcomes=``."""
    return sc.MDP(_never, **(COMMON | changes))


@dataclass(frozen=True)
class World:
    """A model as dense arrays, beside the problem that has it sparse."""

    P: np.ndarray  # (S, A, S)
    R: np.ndarray  # (S, A)
    discount: float
    players: np.ndarray | None = None
    terminal: np.ndarray | None = None
    legal: np.ndarray | None = None

    def problem(self, operator=None):
        size, actions = self.R.shape
        return sc.tabular(
            sp.csr_matrix(self.P.reshape(size * actions, size)),
            self.R,
            discount=self.discount,
            operator=operator or sc.Max(),
            players=self.players,
            terminal=self.terminal,
            legal=self.legal,
        )

    def truth(self):
        """V* of the normalized rows: strategy iteration with dense solves, refined.

        The min player replies to each policy of the max player (Hoffman and Karp).
        """
        size = len(self.R)
        rows = self.P.astype(np.longdouble)
        rows /= rows.sum(axis=2, keepdims=True)
        ends = np.zeros(size, bool) if self.terminal is None else self.terminal
        legal = np.ones(self.R.shape, bool) if self.legal is None else self.legal
        mine = np.ones(size, bool) if self.players is None else self.players == 1
        at = np.arange(size)

        def value(policy):
            part = np.where(ends[:, None], 0.0, self.discount * rows[at, policy])
            income = np.where(ends, 0.0, self.R[at, policy]).astype(np.longdouble)
            matrix = np.eye(size) - part
            x = np.zeros(size, np.longdouble)
            for _ in range(4):  # refined to the last digits of float64
                left = income - matrix @ x
                x = x + np.linalg.solve(matrix.astype(float), left.astype(float))
            return x

        def better(x, policy, who, sign):
            q = np.where(legal, sign * (self.R + self.discount * rows @ x), -np.inf)
            best = q.argmax(axis=1)
            least = 1e-16 * (1.0 + np.abs(x))
            return np.where(who & (q[at, best] > q[at, policy] + least), best, policy)

        policy = legal.argmax(axis=1)
        for _ in range(1000):
            for _ in range(1000):
                x = value(policy)
                reply = better(x, policy, ~mine & ~ends, -1.0)
                if np.array_equal(reply, policy):
                    break
                policy = reply
            improved = better(x, policy, mine & ~ends, 1.0)
            if np.array_equal(improved, policy):
                return x
            policy = improved
        raise AssertionError("strategy iteration did not end")


def ring(size, discount, seed=0, **more):
    """Moves of at most 3 to either side, rewards in one place, shuffled numbers."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(size)
    P, R = np.zeros((size, 3, size)), np.zeros((size, 3))
    for s in range(size):
        for a in range(3):
            after = name[(s + rng.integers(-3, 4, 4)) % size]
            np.add.at(P, (name[s], a, after), rng.dirichlet(np.ones(4)))
    R[name[:5]] = rng.random((5, 3))
    return World(P / P.sum(axis=2, keepdims=True), R, discount, **more)


def grid(side, discount):
    at = np.arange(side * side)
    P = np.zeros((side * side, 4, side * side))
    for way, (dy, dx) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
        y, x = np.clip([at // side + dy, at % side + dx], 0, side - 1)
        for a in range(4):
            P[at, a, y * side + x] += 0.85 if a == way else 0.05
    R = 0.01 * np.random.default_rng(0).random((side * side, 4))
    R[-1] += 1.0
    return World(P, R, discount)


def walk(targets, R, discount, **more):
    """Sure moves: ``targets`` of shape (S, A)."""
    size, actions = targets.shape
    P = np.zeros((size, actions, size))
    P[np.arange(size)[:, None], np.arange(actions), targets] = 1.0
    return World(P, np.asarray(R, float), discount, **more)


def line(size):
    """Where the two moves of a line lead, whose ends stay."""
    at = np.arange(size)
    return np.stack([np.maximum(at - 1, 0), np.minimum(at + 1, size - 1)], axis=1)


def absorbing():
    """A line whose ends stay for ever, one paying 1 and the other 1 less 1e-9."""
    R = np.zeros((80, 2))
    R[0], R[-1] = 1.0, 1.0 - 1e-9
    return walk(line(80), R, 0.999)


def ending():
    """Ends, whose rows lead far away, and actions that are not legal."""
    world, rng = ring(80, 0.999, seed=7), np.random.default_rng(8)
    terminal, legal = rng.random(80) < 0.05, rng.random((80, 3)) < 0.7
    legal[:, 1] = True
    P = world.P.copy()
    P[terminal] = 1.0 / 80.0
    return World(P, world.R - 0.1, 0.999, terminal=terminal, legal=legal)


def played(size):
    return np.random.default_rng(9).integers(1, 3, size)
