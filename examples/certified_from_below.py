"""CartPole at discount 0.99, where no two-sided promise can be paid.

Plan afresh in every state, and certify what that is worth.

The pole's states are continuous and never come back; a tenth of the pushes go
the wrong way. An agent that grows a small tree in every state is one fixed
policy, so fresh rollouts bound its value, and V(start) is at least that. Every
step pays 1, so no value exceeds 100.

    python examples/certified_from_below.py        (about 20 seconds)
"""

import math
from typing import NamedTuple

from numba import njit

import smoothcruiser as sc


class Pole(NamedTuple):
    x: float
    x_dot: float
    theta: float
    theta_dot: float


@njit
def step(s, action, rng):
    """CartPole (Barto, Sutton and Anderson 1983) as in Gymnasium.

    The episode ends when the pole falls or the cart leaves.
    """
    if rng.random() < 0.1:
        action = 1 - action
    cosine, sine = math.cos(s.theta), math.sin(s.theta)
    push = (20.0 * action - 10.0 + 0.05 * s.theta_dot * s.theta_dot * sine) / 1.1
    turn = (9.8 * sine - cosine * push) / (
        0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1)
    )
    after = Pole(
        s.x + 0.02 * s.x_dot,
        s.x_dot + 0.02 * (push - 0.05 * turn * cosine / 1.1),
        s.theta + 0.02 * s.theta_dot,
        s.theta_dot + 0.02 * turn,
    )
    return 1.0, after, abs(after.x) > 2.4 or abs(after.theta) > math.radians(12.0)


problem = sc.MDP(
    step,
    num_actions=2,
    discount=0.99,
    operator=sc.Max(),
    terminal=True,
    initial_state=Pole(0.0, 0.0, 0.0, 0.0),
)

if __name__ == "__main__":
    agent = sc.Agent(problem, sc.UCT(depth=60, exploration=20.0), simulations=64)
    blind = sc.evaluate(problem, lambda state: [0.5, 0.5], delta=0.05, budget=20_000)
    planned = sc.evaluate(problem, agent.policy, delta=0.05, budget=20_000)
    print(
        f"pushing at random   {blind.value:5.1f} in "
        f"[{blind.interval[0]:.1f}, {blind.interval[1]:.1f}]"
    )
    print(
        f"planning afresh     {planned.value:5.1f} in "
        f"[{planned.interval[0]:.1f}, {planned.interval[1]:.1f}]"
    )
    print(
        f"V(start) >= {planned.interval[0]:.1f} with probability "
        f"0.95, from {planned.num_calls:,} steps of fresh rollouts"
    )
