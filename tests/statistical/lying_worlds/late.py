"""Surprises that come late: far from the asked state, or seldom.

A schedule looks a few steps ahead, so that it may never meet them. Then its
interval has to hold the value of the world as declared (something that the
declaration allows takes the place of the surprise), or name the declaration
that is false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import smoothcruiser as sc

from .cores import TEMPERATURE, game, mdp, true_value
from .law import BOTH, COVERED, EVALUATE, NAMED, REFUSED, Build, World
from .truth import Truth, entropy

KIND = "late surprise"
FAR = 4  # steps to the surprise
ENTROPY, SOFT = (
    sc.Entropy(TEMPERATURE),
    entropy(TEMPERATURE),
)  # numbers of actions and turns matter where F(0) is not 0
MAYBE = (REFUSED, COVERED)
ANY = (REFUSED, COVERED, NAMED)


def walk(state: int, action: int, rng: Any) -> tuple[float, int]:
    """0, 1, ... up to FAR, where it stays; action 0 goes back half of the time;
    pays a coin.
    """
    after = 0 if action == 0 and rng.random() < 0.5 else min(state + 1, FAR)
    return float(rng.random() < 0.5), after


def walk_outcomes(state: int, action: int) -> list[tuple[float, float, int]]:
    ahead = min(state + 1, FAR)
    return [(0.5, 0.5, 0), (0.5, 0.5, ahead)] if action == 0 else [(1.0, 0.5, ahead)]


def walking(surprise: Callable[[int, int, Any], Any], at: int = FAR) -> Any:
    """The walk, but for ``surprise(state, action, rng)`` at a state."""
    return lambda state, *rest: (
        surprise(state, *rest) if state == at else walk(state, *rest)
    )


def paying(paid: float) -> Truth:
    """The truth where the last state pays so much for ever."""
    return true_value(
        lambda s, a: [(1.0, paid, s)] if s == FAR else walk_outcomes(s, a), 0
    )


def raising(state: int, action: int, rng: Any) -> Any:
    raise ValueError("the simulator gives up")


def jackpot(state: int, action: int, rng: Any) -> tuple[float, int]:
    """2,000 in one call of a thousand: a mean of 2 where [0, 1] is declared."""
    return (2_000.0 if rng.random() < 0.001 else 0.0), state


def fewer_legal(state: int, action: int) -> bool:
    return state < 3 or action == 1


def player_three(state: int) -> int:
    return 3 if state == FAR else 1 + state % 2


def turns(state: int) -> int:
    """1, 2, 1, 2, and at the end 2 for ever."""
    return 2 if state == FAR else 1 + state % 2


def ahead(state: int, action: int, rng: Any) -> tuple[float, int]:
    """A walk that never goes back, so that turns alternate until the end."""
    return float(rng.random() < 0.5), min(state + 1, FAR)


def one_moves_always() -> sc.Problem:
    claims = {"player": lambda state: 1, "alternating": True}
    return game(ahead, initial_state=0, operator=ENTROPY, **claims)


def ahead_outcomes(state: int, action: int) -> list[tuple[float, float, int]]:
    return [(1.0, 0.5, min(state + 1, FAR))]


def world(
    name: str, lie: str, build: Build, truth: Truth, says: str, **more: Any
) -> World:
    usual = {"says": says, "asks": BOTH, "ends": MAYBE}
    return World(name, KIND, lie, build, truth, **{**usual, **more})


WORLDS = (
    world(
        "late reward, a little outside",
        "pays 1.5 of [0, 1] four steps away",
        lambda: mdp(walking(lambda s, a, rng: (1.5, s)), initial_state=0),
        paying(1.5),
        "reward_range",
        names="every reward",
        ends=ANY,
        check="reward_range",
        asks=(*BOTH, EVALUATE),
    ),
    world(
        "late reward, far outside",
        "pays 100 of [0, 1] four steps away",
        lambda: mdp(walking(lambda s, a, rng: (100.0, s)), initial_state=0),
        paying(100.0),
        "reward_range",
        names="every reward",
        ends=ANY,
        check="reward_range",
        asks=(*BOTH, EVALUATE),
    ),
    world(
        "a rare reward",
        "pays 2,000 of [0, 1] in one call of a thousand",
        lambda: mdp(jackpot, initial_state=0),
        true_value(lambda s, a: [(1.0, 2.0, s)], 0),
        "reward_range",
        names="every reward",
        ends=ANY,
        asks=(*BOTH, EVALUATE),
    ),
    world(
        "late NaN",
        "pays NaN four steps away",
        lambda: mdp(walking(lambda s, a, rng: (float("nan"), s)), initial_state=0),
        paying(0.0),
        "nan",
    ),
    world(
        "late, fewer actions",
        "min_actions=2, and one legal action three steps away",
        lambda: mdp(
            walk, initial_state=0, legal=fewer_legal, min_actions=2, operator=ENTROPY
        ),
        true_value(walk_outcomes, 0, legal=fewer_legal, smooth=SOFT),
        "min_actions|legal action",
        names="legal actions|min_actions",
        ends=ANY,
        check="min_actions|legal action",
    ),
    world(
        "late, nothing legal",
        "no legal action four steps away",
        lambda: mdp(walk, initial_state=0, legal=lambda s, a: s < FAR),
        paying(0.0),
        "no legal action",
    ),
    world(
        "late, a third player",
        "player is 3 four steps away",
        lambda: game(walk, initial_state=0, player=player_three),
        true_value(walk_outcomes, 0, player=lambda s: 1 + s % 2),
        "player",
    ),
    world(
        "late, an error",
        "the step raises four steps away",
        lambda: mdp(walking(raising), initial_state=0),
        paying(0.0),
        "gives up",
    ),
    world(
        "late, another form",
        "the step returns None four steps away",
        lambda: mdp(walking(lambda s, a, rng: None), initial_state=0),
        paying(0.0),
        "must return",
    ),
    world(
        "late, an undeclared end",
        "the step ends the episode four steps away",
        lambda: mdp(walking(lambda s, a, rng: (0.0, s, True)), initial_state=0),
        true_value(
            lambda s, a: [(1.0, 0.0, None)] if s == FAR else walk_outcomes(s, a), 0
        ),
        "terminal",
        names="end|terminal",
        ends=ANY,
        check="terminal",
    ),
    world(
        "late, no turns",
        "alternating=True, and one player moves for ever four steps away",
        lambda: game(
            ahead, initial_state=0, player=turns, alternating=True, operator=ENTROPY
        ),
        true_value(ahead_outcomes, 0, player=turns, smooth=SOFT),
        "alternat",
        names="alternat",
        ends=ANY,
        check="alternat",
    ),
    world(
        "early, no turns",
        "alternating=True, and one player moves always",
        one_moves_always,
        true_value(ahead_outcomes, 0, smooth=SOFT),
        "alternat",
        names="alternat",
        ends=ANY,
        check="alternat",
    ),
)
