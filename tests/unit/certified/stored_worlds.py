"""Worlds of every kind that a certified search can be saved in the middle of."""

import numba

import smoothcruiser as sc

ENTROPY = sc.Entropy(0.2)


def tuples(state, action, rng):
    """Continuous rewards: outcomes are rounded once there are many."""
    u = rng.random()
    x, y = state
    after = ((x + action + int(3 * u)) % 5, (y + int(2 * rng.random())) % 4)
    return u * u if action else 0.3 * u, after


def lists(state, action, rng):
    """States that can be written into, told apart by a key."""
    u = rng.random()
    return float(u < 0.5), [(state[0] + action + int(3 * u)) % 7, state[1]]


def ending(state, action, rng):
    """Some states are terminal, and the step itself may end an episode."""
    after = state + 1 + int(2 * rng.random()) + action
    return 0.5 if after % 2 else 1.0, after, after > 12


def certain(state, action, rng):
    return ((state * 7 + action) % 5) / 5, (state * 3 + action + 1) % 50


@numba.njit
def jump(state, action, rng):
    """Some hundred next states of each pair: the hash table is in use."""
    u = rng.random()
    return u, (state * 5 + action + int(200 * u)) % 1000


def rows_of_tuples(state, action):
    """The law of some pairs of ``lists``' world, over tuples; None elsewhere."""
    if (state[0] + action) % 2:
        return None
    after = [((state[0] + action + i) % 7, state[1]) for i in (0, 1, 1, 2)]
    shares = (1 / 3, 1 / 6, 1 / 6, 1 / 3)
    return [
        (p, float(i < 2), z)
        for i, (p, z) in enumerate(zip(shares, after, strict=False))
    ]


def half_tuples(state, action, rng):
    reward, after = lists(state, action, rng)
    return reward, tuple(after)


def rows_of_jumps(state, action):
    """Rows of forty outcomes in every third state: too many for a short scan."""
    if state % 3:
        return None
    return [(1 / 40, i / 40, (state * 5 + action + 5 * i) % 1000) for i in range(40)]


def worlds():
    """Problems, and a query of each that takes a fraction of a second."""
    plain = {"num_actions": 2, "operator": ENTROPY, "discount": 0.7}
    garnet = "garnet:states=60,actions=3,branching=20"
    return {
        "tabular": (sc.make(garnet, discount=0.8, temperature=0.1), {"epsilon": 1.0}),
        "compiled": (
            sc.MDP(jump, initial_state=0, **plain),
            {"epsilon": 0.1, "budget": 6_000},
        ),
        "horizon": (
            sc.MDP(jump, initial_state=0, horizon=4, **plain | {"discount": 1.0}),
            {"epsilon": 0.5, "budget": 6_000},
        ),
        "tuples": (sc.MDP(tuples, initial_state=(0, 0), **plain), {"epsilon": 0.4}),
        "lists": (
            sc.MDP(lists, initial_state=[0, 1], key=tuple, **plain),
            {"epsilon": 0.4},
        ),
        "ending": (
            sc.MDP(ending, initial_state=0, terminal=lambda s: s >= 10, **plain),
            {"epsilon": 0.3, "target": "value"},
        ),
        "certain": (
            sc.MDP(certain, initial_state=0, deterministic=True, **plain),
            {"epsilon": 1e-3},
        ),
        "partly known": (
            sc.MDP(
                half_tuples, initial_state=(0, 1), outcomes=rows_of_tuples, **plain
            ),
            {"epsilon": 0.3},
        ),
        "partly known, compiled": (
            sc.MDP(jump, initial_state=0, outcomes=rows_of_jumps, **plain),
            {"epsilon": 0.1, "budget": 6_000},
        ),
    }


def bits(estimate):
    """All of an estimate but the time it took."""
    return (
        estimate.value,
        estimate.q_values,
        estimate.policy,
        estimate.num_calls,
        estimate.epsilon,
        estimate.certificate,
        tuple(note for note in estimate.notes if "resume(" not in note),
    )
