"""Random numbers that are not the planner's, are always the same, or are not
what they seem.
"""

import copy
import random
from typing import Any

import numba
import numpy as np

import smoothcruiser as sc

from .cores import COIN, LADDER, TOP, chance, climb, ladder_outcomes, mdp, true_value
from .law import EVALUATED, Ask, named, worlds_of
from .truth import Truth

KIND = "randomness"
SAYS = r"integers|differ|rng|random|independent|depend"
NAMES = r"independent|one law"
CHECK = r"chance|rng|\brows?\b|independen"
NARROW = Ask(epsilon=0.015)  # narrow enough to tell a die from a weighted one
FACES = [1, 2, 3, 4, 5, 6]
DIE = Truth(7.0 / 12.0, (7.0 / 12.0,))  # one action, discount 0: the mean face over 6


def flipping(uniform):
    """A coin that lands by ``uniform(state, action, rng)``.

    The global generators are seeded, so that runs repeat.
    """

    def build():
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        return mdp(
            lambda state, action, rng: (
                float(uniform(state, action, rng) < 0.5),
                state,
            )
        )

    return build


def from_a_shared_generator():
    shared = np.random.default_rng(5)
    return mdp(
        lambda state, a, rng: (state / TOP, climb(state, a, shared)), initial_state=0
    )


def from_the_first_stream():
    """The first rng that comes is kept and used for ever."""
    kept: list[Any] = []

    def step(state, action, rng):
        kept.append(rng) if not kept else None
        return float(kept[0].random() < 0.5), state

    return mdp(step)


def rare_global():
    """The planner's rng decides, but for one call of fifty, which pays a global
    number.
    """
    random.seed(2)

    def step(state, action, rng):
        if rng.random() < 0.02:
            return random.random(), min(state + 1, TOP)
        return state / TOP, climb(state, action, rng)

    return mdp(step)


RARE = true_value(
    lambda rung, action: [
        (0.02, 0.5, min(rung + 1, TOP)),
        *((0.98 * p, paid, after) for p, paid, after in ladder_outcomes(rung, action)),
    ],
    0,
)


def never_the_same(state, action, rng):
    return np.random.default_rng(3).random()


def die(roll):
    """One roll, divided by 6."""
    step = lambda state, action, rng: (roll(rng) / 6.0, state)  # noqa: E731
    return lambda: sc.MDP(
        step, num_actions=1, discount=0.0, operator=sc.Max(), initial_state=0
    )


@numba.njit
def compiled_global(state, action, rng):
    up = np.random.random() < (0.5 if action == 1 else 0.25)  # noqa: NPY002
    return state / 8.0, min(state + 1, 8) if up else state


def one_number_for_all_rows():
    def step(states, actions, rng):
        return np.full(len(states), float(rng.random() < 0.5)), states.copy()

    return mdp(sc.batched(step))


def batched_ladder_from_outside():
    shared = np.random.default_rng(6)

    def step(states, actions, rng):
        up = shared.random(len(states)) < np.where(actions == 1, chance(1), chance(0))
        return states / TOP, np.minimum(states + up, TOP)

    return mdp(sc.batched(step))


world = worlds_of(KIND, says=SAYS)
# draws that are all the same: such a world passes for a sure one, and ``check`` asks
fixed = worlds_of(KIND, COIN, says=SAYS, **named(NAMES, CHECK))


WORLDS = (
    world(
        "random.random: flips Python's global coin",
        flipping(lambda s, a, rng: random.random()),
        COIN,
        asks=EVALUATED,
    ),
    world(
        "np.random: flips NumPy's global coin",
        flipping(lambda s, a, rng: np.random.random()),  # noqa: NPY002
        COIN,
    ),
    world(
        "shared generator: one generator for all calls",
        from_a_shared_generator,
        LADDER,
    ),
    world(
        "the first stream kept: keeps the first rng it is given",
        from_the_first_stream,
        COIN,
    ),
    world(
        "global, 1 call in 50: one call of fifty is decided elsewhere",
        rare_global,
        RARE,
    ),
    world(
        "njit np.random: compiled step with Numba's global numbers",
        lambda: mdp(compiled_global),
        LADDER,
    ),
    world(
        "batched, from outside: rows from a generator of its own",
        batched_ladder_from_outside,
        LADDER,
    ),
    fixed(
        "seeded in the step: default_rng(3) in every call", flipping(never_the_same)
    ),
    fixed(
        "seeded by the state: a generator seeded by state and action",
        flipping(lambda s, a, rng: random.Random(9 * s + a).random()),
    ),
    fixed(
        "a copy of rng: draws from a copy, so rng never moves",
        flipping(lambda s, a, rng: copy.copy(rng).random()),
    ),
    fixed(
        "one number for all rows: one number decides a whole batch",
        one_number_for_all_rows,
    ),
    world(
        "rng.choice die: rng.choice([1..6]) as a die",
        die(lambda rng: float(rng.choice(FACES))),
        DIE,
        asks=(NARROW,),
    ),
    world(
        "rng.integers die: rng.integers(1, 7) as a die",
        die(lambda rng: float(rng.integers(1, 7))),
        DIE,
        asks=(NARROW,),
    ),
)
