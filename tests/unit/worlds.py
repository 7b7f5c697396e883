"""What several test files share: a walk on five places, and tables that nobody verified."""

import copy

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


def unverified_schedule(facts, levels, clip):
    """A schedule without its verifier, which would refuse a table that promises nothing:
    for showing what such tables do.
    """
    schedule = object.__new__(sc.Schedule)
    root = sc.Root("value", 1, len(levels) - 1, "paper")
    promise = {"epsilon": 1.0, "delta": 1.0, "delta_prime": 0.1, "method": "paper"}
    fields = {"facts": facts, "levels": tuple(levels), "root": root, "clip": clip}
    for name, value in (promise | fields).items():
        object.__setattr__(schedule, name, value)
    return schedule


def given_streams(count):
    """Streams as a step is given them, one per call, each with memory of its own."""
    streams = []

    def step(state, action, rng):
        streams.append(copy.deepcopy(rng))
        return walk(state, action, rng)

    sc.plan(mdp(step), method="uct", budget=count)
    return streams
