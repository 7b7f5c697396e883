"""CartPole with a value network of your own, and how far its number is from the truth.

    python examples/cartpole_network.py

The system is uncertain: one push in ten slips. A network of one hidden layer is trained
in NumPy on the returns of a tree search that plays; UCT then asks it at its leaves. The
network says what the state is worth; ``sc.evaluate`` rolls the searching policy out
afresh and puts an interval beside that number: V is at least its lower end, whatever
the network believes. The interval narrows with the steps (``budget``): after 200 it is
still all that the rewards allow.
"""

import math

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


def main(episodes=8, budget=4000):
    problem = cart_pole()
    network = trained(problem, episodes)
    start = tuple(np.array([part]) for part in problem.initial_state)
    print(f"The network says {network(start)[0]:.2f} (no value exceeds 20).")
    method = sc.UCT(value=sc.batched(network), leaf_batch=8)
    agent = sc.Agent(problem, method, simulations=16, seed=0)
    found = sc.evaluate(problem, agent.policy, budget=budget, delta=0.05)
    low, high = found.interval
    print(
        f"Searching with it is worth {found.value:.2f}, in [{low:.2f}, {high:.2f}] with "
        f"probability 0.95 ({found.num_calls:,} steps): so V is at least {low:.2f}."
    )
    blind = sc.evaluate(problem, lambda state: [0.5, 0.5], budget=budget, delta=0.05)
    print(f"Pushing at random is worth {blind.value:.2f}.")


if __name__ == "__main__":
    main()
