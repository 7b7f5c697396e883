"""A small world that several test files share: a walk on five places."""

import smoothcruiser as sc

COMMON = {
    "num_actions": 2,
    "discount": 0.5,
    "operator": sc.Entropy(1.0),
    "initial_state": 0,
}
PROMISE = {"epsilon": "15%", "delta": 0.1, "method": "smoothcruiser"}


def walk(state, action, rng):
    return rng.random(), (state + action) % 5


def mdp(step=walk, **changes):
    """The walk, or another step, with what is usual unless ``changes`` say more."""
    return sc.MDP(step, **(COMMON | changes))
