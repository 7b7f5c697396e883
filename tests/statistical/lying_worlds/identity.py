"""States that are equal and are not the same, and states that are the same and
are not equal.

Certified search, exact and trees recognize a state when it comes back.
Schedules do not, and have to cover here.
"""

import itertools
import math
from dataclasses import dataclass, field

from .cores import FATE, LADDER, TOP, climb, fate_outcomes, game, mdp, true_value
from .law import CERTIFIED, EXACT, GROWN, named, worlds_of

EQUAL, DIFFERENT = "equal but different", "different but equal"
SAYS = r"key|told apart|recogni|equal"
NAMES = r"key|hash|told apart|recogni|=="
CHECK = r"key|equal|told apart|recogni"


class Twin:
    """A state whose equality hides its luck."""

    def __init__(self, rung, lucky):
        self.rung, self.lucky = rung, lucky

    def __eq__(self, other):
        return isinstance(other, Twin) and self.rung == other.rung

    def __hash__(self):
        return hash(self.rung)

    def __repr__(self):
        return f"Twin({self.rung})"


def twin_step(state, action, rng):
    if state.rung == 0:
        return 0.0, Twin(1, rng.random() < 0.5)
    return float(state.lucky), Twin(1, state.lucky)


def twin_outcomes(state, action):
    found = fate_outcomes((state.rung, state.lucky), action)
    return [(p, paid, Twin(*after)) for p, paid, after in found]


def fate_step(state, action, rng):
    rung, lucky = state
    return (0.0, (1, rng.random() < 0.5)) if rung == 0 else (float(lucky), state)


def rung_of(state):
    return state[0]


def lucky_moves_alone(state, action):
    """In luck only action 1 is legal."""
    return state[1] is not True or action == 1


def lucky_is_min(state):
    return 2 if state[1] is True else 1


def unlucky_is_over(state):
    return state[1] is False


def fate(**more):
    return lambda: mdp(fate_step, **{"initial_state": (0, None), **more})


def fate_game():
    return game(fate_step, initial_state=(0, None), key=rung_of, player=lucky_is_min)


def ended_outcomes(state, action):
    found = fate_outcomes(state, action)
    return [
        (p, paid, None if after[1] is False else after) for p, paid, after in found
    ]


def zero_step(state, action, rng):
    """1.0 leads to 0.0, which pays, or to -0.0, which does not."""
    if state == 1.0:
        return 0.0, 0.0 if rng.random() < 0.5 else -0.0
    return float(math.copysign(1.0, state) > 0.0), state


def type_step(state, action, rng):
    """0 leads to 1, which pays, or to True, which does not."""
    if state == 0:
        return 0.0, 1 if rng.random() < 0.5 else True
    return float(state is not True), state


def type_legal(state, action):
    """True has one legal action, 1 has both."""
    return state is not True or action == 1


def type_outcomes(state, action):
    """The same with "one" and "true" in the places of 1 and True."""
    if state == 0:
        return [(0.5, 0.0, "one"), (0.5, 0.0, "true")]
    return [(1.0, float(state == "one"), state)]


class Plain:
    """A state without equality."""

    def __init__(self, rung):
        self.rung = rung


@dataclass(frozen=True)
class Holder:
    """A frozen dataclass with a part that has no equality."""

    rung: int
    part: Plain = field(default_factory=lambda: Plain(0))


def plain_ladder(fresh, read):
    """The honest ladder over states made afresh by every step."""

    def step(state, action, rng):
        rung = read(state)
        return rung / TOP, fresh(climb(rung, action, rng))

    return lambda: mdp(step, initial_state=fresh(0))


def numbered():
    """Every state carries the number of its making."""
    numbers = itertools.count(1)

    def step(state, action, rng):
        return state[0] / TOP, (climb(state[0], action, rng), next(numbers))

    return mdp(step, initial_state=(0, 0))


def dated():
    """Every state carries a number drawn for it, as a uuid is: honest, and
    never met again.
    """

    def step(state, action, rng):
        return state[0] / TOP, (climb(state[0], action, rng), rng.random())

    return mdp(step, initial_state=(0, 0.0))


def historic():
    """A key that tells apart what is the same: the whole path."""

    def step(state, action, rng):
        return state[-1] / TOP, (*state, climb(state[-1], action, rng))

    return mdp(step, initial_state=(0,))


equal = worlds_of(EQUAL, FATE, says=SAYS)
# worlds that only their future gives away
unseen = worlds_of(EQUAL, FATE, says=SAYS, **named(NAMES, CHECK))
different = worlds_of(DIFFERENT, LADDER, says=SAYS)
WORLDS = (
    unseen(
        "== hides the future: == and hash leave out a field",
        lambda: mdp(twin_step, initial_state=Twin(0, None)),
    ),
    unseen(
        "== hides the future, outcomes: == leaves out a field of a known model",
        lambda: mdp(twin_step, outcomes=twin_outcomes, initial_state=Twin(0, None)),
        asks=(CERTIFIED, EXACT),
        names=NAMES + "|model",
    ),
    unseen(
        "key hides the future: key= leaves out what pays",
        fate(key=rung_of),
        asks=GROWN,
    ),
    equal(
        "key hides legal: key= leaves out what is legal",
        fate(key=rung_of, legal=lucky_moves_alone),
        true_value(fate_outcomes, (0, None), legal=lucky_moves_alone),
        asks=GROWN,
    ),
    equal(
        "key hides the player: key= leaves out who moves",
        fate_game,
        true_value(fate_outcomes, (0, None), player=lucky_is_min),
    ),
    equal(
        "key hides the end: key= leaves out whether it is over",
        fate(key=rung_of, terminal=unlucky_is_over),
        true_value(ended_outcomes, (0, None)),
    ),
    unseen(
        "0.0 and -0.0: the step looks at the sign of zero",
        lambda: mdp(zero_step, initial_state=1.0),
    ),
    unseen(
        "1 and True: the step looks at the type",
        lambda: mdp(type_step),
        true_value(type_outcomes, 0),
    ),
    equal(
        "1 and True, legal: legal looks at the type",
        lambda: mdp(type_step, legal=type_legal),
        true_value(
            type_outcomes,
            0,
            legal=lambda state, action: state != "true" or action == 1,
        ),
    ),
    different(
        "no ==: objects without ==",
        plain_ladder(Plain, lambda state: state.rung),
        asks=GROWN,
    ),
    different(
        "a part without ==: a frozen dataclass that holds one",
        plain_ladder(Holder, lambda state: state.rung),
    ),
    different(
        "NaN in the state: NaN is not equal to itself",
        plain_ladder(lambda rung: (rung, math.nan), lambda state: state[0]),
    ),
    different(
        "a serial number: states carry the number of their making",
        numbered,
        says=SAYS + "|differ",
    ),
    different("a random number: states carry a number drawn for them", dated),
    different("the whole path: states carry their history", historic),
)
