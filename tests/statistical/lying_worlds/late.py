"""Surprises that come late: far from the asked state, or seldom.

A schedule looks a few steps ahead, so that it may never meet them. Then its
interval has to hold the value of the world as declared (something that the
declaration allows takes the place of the surprise), or name the declaration
that is false.
"""

import smoothcruiser as sc

from .cores import TEMPERATURE, game, mdp, true_value
from .law import EVALUATED, named, worlds_of
from .truth import entropy

KIND = "late surprise"
FAR = 4  # steps to the surprise
ENTROPY, SOFT = (
    sc.Entropy(TEMPERATURE),
    entropy(TEMPERATURE),
)  # numbers of actions and turns matter where F(0) is not 0


def walk(state, action, rng):
    """0, 1, ... up to FAR, where it stays; action 0 goes back half of the time;
    pays a coin.
    """
    after = 0 if action == 0 and rng.random() < 0.5 else min(state + 1, FAR)
    return float(rng.random() < 0.5), after


def walk_outcomes(state, action):
    ahead = min(state + 1, FAR)
    return [(0.5, 0.5, 0), (0.5, 0.5, ahead)] if action == 0 else [(1.0, 0.5, ahead)]


def walking(surprise, at=FAR):
    """The walk, but for ``surprise(state, action, rng)`` at a state."""
    return lambda state, *rest: (
        surprise(state, *rest) if state == at else walk(state, *rest)
    )


def paying(paid):
    """The truth where the last state pays so much for ever."""
    return true_value(
        lambda s, a: [(1.0, paid, s)] if s == FAR else walk_outcomes(s, a), 0
    )


def raising(state, action, rng):
    raise ValueError("the simulator gives up")


def jackpot(state, action, rng):
    """2,000 in one call of a thousand: a mean of 2 where [0, 1] is declared."""
    return (2_000.0 if rng.random() < 0.001 else 0.0), state


def fewer_legal(state, action):
    return state < 3 or action == 1


def player_three(state):
    return 3 if state == FAR else 1 + state % 2


def turns(state):
    """1, 2, 1, 2, and at the end 2 for ever."""
    return 2 if state == FAR else 1 + state % 2


def ahead(state, action, rng):
    """A walk that never goes back, so that turns alternate until the end."""
    return float(rng.random() < 0.5), min(state + 1, FAR)


def one_moves_always():
    claims = {"player": lambda state: 1, "alternating": True}
    return game(ahead, operator=ENTROPY, **claims)


def ahead_outcomes(state, action):
    return [(1.0, 0.5, min(state + 1, FAR))]


world = worlds_of(KIND)


WORLDS = (
    world(
        "late reward, a little outside: pays 1.5 of [0, 1] four steps away",
        lambda: mdp(walking(lambda s, a, rng: (1.5, s))),
        paying(1.5),
        "reward_range",
        asks=EVALUATED,
        **named("every reward", "reward_range"),
    ),
    world(
        "a rare reward: pays 2,000 of [0, 1] in one call of a thousand",
        lambda: mdp(jackpot),
        true_value(lambda s, a: [(1.0, 2.0, s)], 0),
        "reward_range",
        asks=EVALUATED,
        **named("every reward"),
    ),
    world(
        "late NaN: pays NaN four steps away",
        lambda: mdp(walking(lambda s, a, rng: (float("nan"), s))),
        paying(0.0),
        "nan",
    ),
    world(
        "late, fewer actions: min_actions=2, and one legal action three steps away",
        lambda: mdp(walk, legal=fewer_legal, min_actions=2, operator=ENTROPY),
        true_value(walk_outcomes, 0, legal=fewer_legal, smooth=SOFT),
        "min_actions|legal action",
        **named("legal actions|min_actions", "min_actions|legal action"),
    ),
    world(
        "late, nothing legal: no legal action four steps away",
        lambda: mdp(walk, legal=lambda s, a: s < FAR),
        paying(0.0),
        "no legal action",
    ),
    world(
        "late, a third player: player is 3 four steps away",
        lambda: game(walk, player=player_three),
        true_value(walk_outcomes, 0, player=lambda s: 1 + s % 2),
        "player",
    ),
    world(
        "late, an error: the step raises four steps away",
        lambda: mdp(walking(raising)),
        paying(0.0),
        "gives up",
    ),
    world(
        "late, another form: the step returns None four steps away",
        lambda: mdp(walking(lambda s, a, rng: None)),
        paying(0.0),
        "must return",
    ),
    world(
        "late, an undeclared end: the step ends the episode four steps away",
        lambda: mdp(walking(lambda s, a, rng: (0.0, s, True))),
        true_value(
            lambda s, a: [(1.0, 0.0, None)] if s == FAR else walk_outcomes(s, a), 0
        ),
        "terminal",
        **named("end|terminal", "terminal"),
    ),
    world(
        "late, no turns: alternating=True, and one player moves for ever four steps away",
        lambda: game(ahead, player=turns, alternating=True, operator=ENTROPY),
        true_value(ahead_outcomes, 0, player=turns, smooth=SOFT),
        "alternat",
        **named("alternat", "alternat"),
    ),
    world(
        "early, no turns: alternating=True, and one player moves always",
        one_moves_always,
        true_value(ahead_outcomes, 0, smooth=SOFT),
        "alternat",
        **named("alternat", "alternat"),
    ),
)
