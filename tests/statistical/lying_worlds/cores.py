"""The honest worlds that most lies are told about.

ladder   rung 0..8 pays rung/8; an action climbs one rung with chance 1/4 or 1/2. At rung 0, the
         asked state, little is paid: whatever moves the state behind the planner's back shows.
coin     one state; every step pays 0 or 1 with equal chance. Whatever fixes the coin moves the
         value by half its span.
fate     a first step into luck or misfortune, which pay 1 or 0 for ever: whatever confuses the
         two moves the value by a quarter of its span.
"""

from __future__ import annotations

from typing import Any

import smoothcruiser as sc

from .truth import Truth, mellowmax, solve

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
}


def mdp(step: Any, **more: Any) -> sc.Problem:
    """An MDP with the gallery's usual facts."""
    return sc.MDP(step, **{**USUAL, **more})


def game(step: Any, **more: Any) -> sc.Problem:
    """A game with the gallery's usual facts."""
    return sc.Game(step, **{**USUAL, **more})


def true_value(outcomes: Any, start: Any, **more: Any) -> Truth:
    """The truth under the gallery's usual facts."""
    return solve(outcomes, start, **{"discount": DISCOUNT, "smooth": SMOOTH, **more})


def chance(action: int) -> float:
    """How likely an action climbs."""
    return 0.5 if action else 0.25


def climb(rung: int, action: int, rng: Any) -> int:
    """The next rung."""
    return min(rung + 1, TOP) if rng.random() < chance(action) else rung


def ladder_outcomes(rung: int, action: int) -> list[tuple[float, float, int]]:
    """The ladder's law."""
    up = chance(action)
    return [(up, rung / TOP, min(rung + 1, TOP)), (1.0 - up, rung / TOP, rung)]


def coin_outcomes(state: Any, action: int) -> list[tuple[float, float, Any]]:
    """The coin's law."""
    return [(0.5, 0.0, state), (0.5, 1.0, state)]


def fate_outcomes(state: Any, action: int) -> list[tuple[float, float, Any]]:
    """(0, None) leads to (1, True) or (1, False), which stay and pay."""
    rung, lucky = state
    if rung == 0:
        return [(0.5, 0.0, (1, True)), (0.5, 0.0, (1, False))]
    return [(1.0, float(lucky), state)]


LADDER = true_value(ladder_outcomes, 0)
COIN = true_value(coin_outcomes, 0)
FATE = true_value(fate_outcomes, (0, None))
