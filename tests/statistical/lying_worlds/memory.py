"""Oracles that remember: answers depend on what they were asked before; and clocks."""

import time
from collections import Counter
from itertools import count

from .cores import COIN, LADDER, TOP, climb, game, mdp, true_value
from .law import ALL_WAYS, MAYBE, NAMED, REFUSED, SCHEDULE, named, worlds_of

KIND = "memory"
SAYS = r"differ|remember|memory|earlier|depend|another answer|other answer|changed"
NAMES = r"independent|one law"


def paying(paid):
    """One state that pays a function of the number of calls so far."""

    def build():
        calls = count()
        return mdp(
            lambda state, action, rng: (paid(next(calls)), state), initial_state=0
        )

    return build


def constant(paid):
    return true_value(lambda state, action: [(1.0, paid, state)], 0)


def first_draw_kept():
    """``cache`` around a random function: the first draw of a pair is the only one."""
    drawn: dict[tuple[int, int], int] = {}

    def step(state, action, rng):
        if (state, action) not in drawn:
            drawn[state, action] = int(rng.random() < 0.5)
        return float(drawn[state, action]), state

    return mdp(step)


def by_state():
    visits: Counter[int] = Counter()

    def step(state, action, rng):
        visits[state] += 1
        return min(visits[state] / 200, 1.0), climb(state, action, rng)

    return mdp(step)


def last_action():
    """Pays 1 if the call before was made under the other action."""
    last = [0]

    def step(state, action, rng):
        paid, last[0] = float(action != last[0]), action
        return paid, state

    return mdp(step)


def hidden_position():
    """A simulator that goes on from where it is, whatever state it is asked about."""
    here = [0]

    def step(state, action, rng):
        paid, here[0] = here[0] / TOP, climb(here[0], action, rng)
        return paid, here[0]

    return mdp(step)


def hidden_time_limit():
    """Every tenth call ends the episode, as a time limit inside a simulator does."""
    calls = count(1)

    def step(state, action, rng):
        return 1.0, state, next(calls) % 10 == 0

    return mdp(step, terminal=True)


def changing_legal():
    calls = count()
    return mdp(
        lambda state, action, rng: (1.0, state),
        legal=lambda state, action: action == 0 or next(calls) % 3 > 0,
    )


def changing_player():
    calls = count()
    step = lambda state, action, rng: (float(action), state)  # noqa: E731
    return game(step, player=lambda state: 1 + next(calls) % 2)


def changing_terminal():
    calls = count()
    return mdp(
        lambda state, action, rng: (1.0, state),
        terminal=lambda state: next(calls) % 7 == 3,
    )


world = worlds_of(KIND, says=SAYS)
_clock = worlds_of("clock", says=SAYS)


def clock(about, paid, **more):
    build = lambda: mdp(lambda state, action, rng: (paid(), state))  # noqa: E731
    return _clock(about, build, None, **more)


WORLDS = (
    world(
        "call counter: pays more with every call",
        paying(lambda n: min(n / 2_000, 1.0)),
        None,
        asks=ALL_WAYS,
    ),
    world("every other call: 0 and 1 in turn", paying(lambda n: float(n % 2)), COIN),
    world(
        "two and two: 0, 0, 1, 1 in turn: equal in pairs",
        paying(lambda n: float(n // 2 % 2)),
        COIN,
        **named(NAMES),
    ),
    world(
        "after 200 calls: pays 0 for 200 calls, then 1",
        paying(lambda n: float(n >= 200)),
        constant(0.0),
    ),
    world(
        "calls 300 to 2,000: pays 0, and 1 in between: as it was before and after",
        paying(lambda n: float(300 <= n < 2_000)),
        constant(0.0),
        asks=(SCHEDULE,),
        **named(NAMES),
    ),
    world("visits of a state: pays for the visits that a state had", by_state, None),
    world(
        "the action before: pays if the last call had the other action",
        last_action,
        None,
    ),
    world(
        "a position of its own: goes on from where it is, whatever it is asked",
        hidden_position,
        LADDER,
    ),
    world(
        "a time limit of its own: every tenth call ends the episode",
        hidden_time_limit,
        constant(1.0),
        ends=MAYBE,
        says=SAYS + "|end",
    ),
    world(
        "legal changes: legal() forgets an action now and then",
        changing_legal,
        None,
        says=SAYS + "|legal",
    ),
    world(
        "player changes: player() takes turns by itself",
        changing_player,
        None,
        says=SAYS + "|player",
    ),
    world(
        "terminal changes: terminal() ends a state now and then",
        changing_terminal,
        constant(1.0),
        ends=MAYBE,
        says=SAYS + "|terminal|end",
    ),
    world(
        "first draw kept: a cache around the coin",
        first_draw_kept,
        COIN,
        **named(NAMES, r"chance|random|determin"),
    ),
    clock(
        "milliseconds: pays in every other millisecond",
        lambda: float(time.perf_counter_ns() // 1_000_000 % 2),
        ends=(REFUSED, NAMED),
        names=NAMES,
    ),
)
