"""CartPole with a value network of your own, and how far its number is from the truth.

    python examples/cartpole_network.py

The system is uncertain: one push in ten slips. A network of one hidden layer is trained
in NumPy on the returns of a tree search that plays; UCT then asks it at its leaves. The
network says what the start is worth. How far is that from optimal? ``sc.evaluate`` rolls
policies out afresh: the optimal value is at least the lower end of each interval,
whatever the network believes, and at most what the rewards allow. Intervals narrow with
the steps (``budget``): after 200 they are still all that the rewards allow. It takes
under a minute of one core.
"""

import math
from types import SimpleNamespace

import numpy as np
from numba import njit

import smoothcruiser as sc

DISCOUNT = 0.95


@njit
def step(state, action, rng):
    x, v, angle, turn = state
    force = 10.0 if action == 1 else -10.0
    if rng.random() < 0.1:
        force = 0.0
    sine, cosine = math.sin(angle), math.cos(angle)
    push = (force + 0.05 * turn * turn * sine) / 1.1
    spin = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
    speed = push - 0.05 * spin * cosine / 1.1
    after = (x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * spin)
    fallen = abs(after[0]) > 2.4 or abs(after[2]) > 0.2095
    return 1.0, after, fallen


def cart_pole():
    return sc.MDP(
        step,
        num_actions=2,
        discount=DISCOUNT,
        operator=sc.Max(),
        terminal=True,
        initial_state=(0.0, 0.0, 0.05, 0.0),
        name="cart pole, pushes slip",
    )


class Network:
    """One hidden layer from four numbers to a value in [0, 1/(1 - discount)]."""

    def __init__(self, hidden=32, seed=0):
        rng = np.random.default_rng(seed)
        self.first = rng.normal(size=(5, hidden))
        self.last = rng.normal(size=hidden + 1) / 6.0

    def hidden(self, states):
        scaled = np.stack(states, axis=1) / np.array([2.4, 2.0, 0.2, 2.0])
        inputs = np.hstack([scaled, np.ones((len(scaled), 1))])
        layer = np.tanh(inputs @ self.first)
        return inputs, np.hstack([layer, np.ones((len(layer), 1))])

    def __call__(self, states):
        return self.hidden(states)[1] @ self.last / (1.0 - DISCOUNT)

    def train(self, states, values, epochs=400, rate=0.05):
        """Gradient descent with momentum on the squared error, all rows at once."""
        goal, speed = np.asarray(values) * (1.0 - DISCOUNT), [0.0, 0.0]
        for _ in range(epochs):
            inputs, layer = self.hidden(states)
            error = (layer @ self.last - goal) / len(goal)
            back = error[:, None] * self.last[:-1] * (1.0 - layer[:, :-1] ** 2)
            for i, slope in enumerate((inputs.T @ back, layer.T @ error)):
                speed[i] = 0.9 * speed[i] - rate * slope
            self.first, self.last = self.first + speed[0], self.last + speed[1]
        return self


def trained(problem, episodes=15, simulations=60, most_steps=120):
    """A network that has seen the discounted returns of a tree search."""
    states, values = [], []
    rng = np.random.default_rng(0)
    for episode in range(episodes):
        state, seen, fallen = problem.initial_state, [], False
        while not fallen and len(seen) < most_steps:
            seen.append(state)
            action = int(rng.integers(2))
            if rng.random() < 0.8:
                seed = 1000 * episode + len(seen)
                tree = sc.Tree(problem, state, method="uct", seed=seed)
                action = tree.grow(simulations=simulations).action()
            _, state, fallen = step.py_func(state, action, rng)
        back = 0.0 if fallen else 1.0 / (1.0 - DISCOUNT)
        for position in reversed(seen):  # every step pays 1
            back = 1.0 + DISCOUNT * back
            states.append(position)
            values.append(back)
    columns = tuple(np.array(column) for column in zip(*states, strict=True))
    return Network().train(columns, values)


def firm_push(state, action):
    """The state after a push that does not slip."""
    return step.py_func(state, action, SimpleNamespace(random=lambda: 1.0))[1]


def main(episodes=8, budget=40_000, searched=2_000):
    problem = cart_pole()
    network = trained(problem, episodes)

    def follow(state):
        """The network alone: push to the side whose next state it values more."""
        after = zip(firm_push(state, 0), firm_push(state, 1), strict=True)
        left, right = network(tuple(np.array(pair) for pair in after))
        return [1.0, 0.0] if left > right else [0.0, 1.0]

    method = sc.UCT(value=sc.batched(network), leaf_batch=8)
    agent = sc.Agent(problem, method, simulations=16, seed=0)
    policies = {
        "pushing at random": (lambda state: [0.5, 0.5], budget),
        "following the network": (follow, budget),
        "searching with it": (agent.policy, searched),
    }
    said = network(tuple(np.array([part]) for part in problem.initial_state))[0]
    most, least = 1.0 / (1.0 - DISCOUNT), 0.0  # every step pays 1 at the most
    print(f"The network says that the start is worth {said:.2f}; no value exceeds 20.")
    for name, (policy, steps) in policies.items():
        found = sc.evaluate(problem, policy, budget=steps, delta=0.05 / len(policies))
        low, high = found.interval
        least = max(least, low)
        print(
            f"  {name:21} earns {found.value:5.2f}, in [{low:.2f}, {high:.2f}], so it is "
            f"at most {most - low:.2f} from optimal ({found.num_calls:,} steps)"
        )
    print(
        f"With probability 0.95 all of this holds and the optimal value is in "
        f"[{least:.2f}, {most:.2f}]: the network's number is off by at most "
        f"{max(most - said, said - least):.2f}."
    )


if __name__ == "__main__":
    main()
