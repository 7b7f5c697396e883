"""Steps that write into the state they are given, or hand out one that they
write into later.
"""

from typing import Any

import numba
import numpy as np

import smoothcruiser as sc

from . import law
from .cores import LADDER, TOP, climb, ladder_outcomes, mdp, true_value
from .truth import mellowmax

KIND = "mutation"
# A milder operator makes schedules query the states after the first, so that writes
# there count.
DEEP: dict[str, Any] = {"discount": 0.4, "operator": sc.KL(1.0)}
DEEP_LADDER = true_value(ladder_outcomes, 0, discount=0.4, smooth=mellowmax(1.0))
DEEPER = (law.Ask(epsilon=0.15), law.CERTIFIED)
SAYS = r"chang|wr(i|o)te|touch|same object|share"


# when a step writes into its state
def always(rung, action, rng):
    return True


def under_action_1(rung, action, rng):
    return action == 1


def above(least):
    return lambda rung, action, rng: rung >= least


def sometimes(rung, action, rng):
    return rng.random() < 0.02


class Climber:
    """A state with a field and no equality."""

    def __init__(self, rung):
        self.rung = rung


class SlottedClimber:
    """The same without a dictionary."""

    __slots__ = ("rung",)

    def __init__(self, rung):
        self.rung = rung


def set_rung(state, rung):
    state.rung = rung


def set_first(state, rung):
    state[0] = rung


def set_set(state, rung):
    state.clear()
    state.add(rung)


def writing(fresh, read, write, when=always, **more):
    """A ladder whose step writes into its state ``when`` it should not, and
    returns a fresh one.
    """

    def step(state, action, rng):
        rung = read(state)
        after = climb(rung, action, rng)
        if when(rung, action, rng):
            write(state, after if when in (always, under_action_1) else TOP)
        return rung / TOP, fresh(after)

    return lambda: mdp(step, initial_state=fresh(0), key=read, **more)


def as_list(when, **more):
    return writing(
        lambda rung: [rung], lambda state: int(state[0]), set_first, when, **more
    )


def step_returns_its_state(state, action, rng):
    """At the top of a module, so that worker processes can import it."""
    rung = state[0]
    state[0] = climb(rung, action, rng)
    return rung / TOP, state


def step_writes_under_action_1(state, action, rng):
    rung = state[0]
    after = climb(rung, action, rng)
    if action == 1:
        state[0] = after
    return rung / TOP, [after]


def first(state):
    return int(state[0])


def returns_its_state():
    return mdp(step_returns_its_state, initial_state=[0], key=first)


def writes_under_action_1():
    return mdp(step_writes_under_action_1, initial_state=[0], key=first)


def sprint(place):
    """0, 1, 2, where it stays and pays: (reward, next place)."""
    return float(place == 2), min(place + 1, 2)


SPRINT = true_value(
    lambda place, action: [(1.0, *sprint(place))],
    0,
    discount=DEEP["discount"],
    smooth=mellowmax(1.0),
)


def shared_scratch():
    scratch = [0]

    def step(state, action, rng):
        paid, scratch[0] = sprint(state[0])
        return paid, scratch

    return mdp(step, initial_state=[0], key=first, **DEEP)


def array_view():
    """Next states are two rows of one buffer in turn: a draw writes over the
    last but one.
    """
    rows = np.zeros((2, 1))
    turn = [0]

    def step(state, action, rng):
        turn[0] = 1 - turn[0]
        paid, rows[turn[0], 0] = sprint(int(state[0]))
        return paid, rows[turn[0]]

    return mdp(step, initial_state=np.zeros(1), **DEEP)


@numba.njit
def compiled_climb(rung, action, rng):
    up = rng.random() < (0.5 if action == 1 else 0.25)
    return min(rung + 1.0, 8.0) if up else rung


@numba.njit
def compiled_write_later(state, action, rng):
    rung = state[0]
    fresh = state.copy()
    fresh[0] = compiled_climb(rung, action, rng)
    if action == 1 and rung >= 1.0:
        state[0] = 8.0
    return rung / 8.0, fresh


def batched_write():
    def step(states, actions, rng):
        paid = states / TOP
        states += rng.random(len(states)) < np.where(actions == 1, 0.5, 0.25)
        np.minimum(states, TOP, out=states)
        return paid, states

    return mdp(sc.batched(step), initial_state=0.0)


LADDERS = {"truth": DEEP_LADDER, "asks": DEEPER}
SPRINTING = {"truth": SPRINT, "asks": DEEPER, "ends": law.MAYBE}
world = law.worlds_of(KIND, LADDER, says=SAYS, ends=(law.REFUSED,))
WORLDS = (
    world("list: step writes into its list", as_list(always), asks=law.ALL_WAYS),
    world(
        "list, action 1: writes under action 1 only",
        writes_under_action_1,
        asks=(*law.BOTH, law.PROCESSES),
    ),
    world(
        "list, later states: writes at rung 1 and above only",
        as_list(above(1), **DEEP),
        **LADDERS,
    ),
    world(
        "list, 1 call in 50: writes in one call of fifty",
        as_list(sometimes),
        asks=law.EVALUATED,
        ends=law.MAYBE,
    ),
    world(
        "returns its state: writes, and returns the object it was given",
        returns_its_state,
        asks=(*law.BOTH, law.PROCESSES),
    ),
    world(
        "array: writes into its NumPy array",
        writing(lambda rung: np.array([rung]), first, set_first, under_action_1),
        asks=law.GROWN,
    ),
    world(
        "fields: writes a field of an object",
        writing(Climber, lambda state: state.rung, set_rung, under_action_1),
    ),
    world(
        "slots: writes a slot of an object",
        writing(SlottedClimber, lambda state: state.rung, set_rung, under_action_1),
    ),
    world(
        "nested: writes three containers deep",
        writing(
            lambda rung: [{"at": [rung]}],
            lambda state: state[0]["at"][0],
            lambda state, rung: set_first(state[0]["at"], rung),
        ),
    ),
    world(
        "set: writes into its set",
        writing(
            lambda rung: {rung}, lambda state: max(state), set_set, under_action_1
        ),
    ),
    world(
        "shared next state: every draw returns one list", shared_scratch, **SPRINTING
    ),
    world("views of a buffer: two rows of one array in turn", array_view, **SPRINTING),
    world(
        "njit array, later: compiled step writes under action 1 at later states",
        lambda: mdp(compiled_write_later, initial_state=np.zeros(1), **DEEP),
        **LADDERS,
        ends=law.MAYBE,
    ),
    world(
        "batched rows: step over arrays writes into its batch",
        batched_write,
        ends=law.MAYBE,
    ),
)
