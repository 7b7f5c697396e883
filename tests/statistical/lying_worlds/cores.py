"""The honest worlds that most lies are told about.

ladder   rung 0..8 pays rung/8; an action climbs one rung with chance 1/4 or 1/2. At rung 0, the
         asked state, little is paid: whatever moves the state behind the planner's back shows.
coin     one state; every step pays 0 or 1 with equal chance. Whatever fixes the coin moves the
         value by half its span.
fate     a first step into luck or misfortune, which pay 1 or 0 for ever: whatever confuses the
         two moves the value by a quarter of its span.
"""

from typing import Any

import smoothcruiser as sc

from .truth import mellowmax, solve

TOP = 8
DISCOUNT = 0.5
# KL, so that F(0) = 0; strong, so that a schedule of a few thousand calls keeps
# epsilon = 0.25.
TEMPERATURE = 5.0
SMOOTH = mellowmax(TEMPERATURE)


USUAL: dict[str, Any] = {
    "num_actions": 2,
    "discount": DISCOUNT,
    "operator": sc.KL(TEMPERATURE),
    "initial_state": 0,
}


def mdp(step, **more):
    """An MDP with the gallery's usual facts."""
    return sc.MDP(step, **{**USUAL, **more})


def game(step, **more):
    """A game with the gallery's usual facts."""
    return sc.Game(step, **{**USUAL, **more})


def true_value(outcomes, start, **more):
    """The truth under the gallery's usual facts."""
    return solve(outcomes, start, **{"discount": DISCOUNT, "smooth": SMOOTH, **more})


def chance(action):
    """How likely an action climbs."""
    return 0.5 if action else 0.25


def climb(rung, action, rng):
    """The next rung."""
    return min(rung + 1, TOP) if rng.random() < chance(action) else rung


def ladder_outcomes(rung, action):
    """The ladder's law."""
    up = chance(action)
    return [(up, rung / TOP, min(rung + 1, TOP)), (1.0 - up, rung / TOP, rung)]


def coin_outcomes(state, action):
    """The coin's law."""
    return [(0.5, 0.0, state), (0.5, 1.0, state)]


def fate_outcomes(state, action):
    """(0, None) leads to (1, True) or (1, False), which stay and pay."""
    rung, lucky = state
    if rung == 0:
        return [(0.5, 0.0, (1, True)), (0.5, 0.0, (1, False))]
    return [(1.0, float(lucky), state)]


LADDER = true_value(ladder_outcomes, 0)
COIN = true_value(coin_outcomes, 0)
FATE = true_value(fate_outcomes, (0, None))
