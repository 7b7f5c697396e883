"""Problems built to break a promise.

Coins, hidden rewards, good against bad, all actions equal, games with negative
values, terminals.

Each is tabular, so that the exact value is known. Used by the coverage study
and by the statistical tests.
"""

from __future__ import annotations

import numpy as np

import smoothcruiser as sc


def coin(actions: int, *, discount: float, operator: sc.Operator) -> sc.Problem:
    """Every action pays 0 or 1 by a fair coin.

    The variance is the largest possible and there is nothing to choose: the
    noise of a maximum is all bias.
    """
    P = np.full((2, actions, 2), 0.5)
    R = np.zeros((2, actions, 2))
    R[:, :, 1] = 1.0
    return sc.tabular(
        P, R, discount=discount, operator=operator, name=f"coin K={actions}"
    )


def rare(
    actions: int, *, discount: float, operator: sc.Operator, chance: float = 0.02
) -> sc.Problem:
    """One action pays 1 with a small chance, the others nothing.

    A normal approximation gets this skewed law wrong.
    """
    P = np.zeros((2, actions, 2))
    P[:, :, 0] = 1.0
    P[:, 0, 0], P[:, 0, 1] = 1.0 - chance, chance
    R = np.zeros((2, actions, 2))
    R[:, :, 1] = 1.0
    return sc.tabular(
        P, R, discount=discount, operator=operator, name=f"rare K={actions}"
    )


def hidden(
    actions: int, *, discount: float, operator: sc.Operator, length: int = 4
) -> sc.Problem:
    """A chain whose only reward, paid forever, lies behind ``length`` right moves.

    Every other action returns to the start.
    """
    states = length + 1
    P, R = np.zeros((states, actions, states)), np.zeros((states, actions))
    P[:, :, 0] = 1.0
    for s in range(length):
        P[s, 0] = 0.0
        P[s, 0, s + 1] = 1.0
    P[length], P[length, :, length], R[length] = 0.0, 1.0, 1.0
    return sc.tabular(
        P,
        R,
        discount=discount,
        operator=operator,
        initial_state=length - 1,
        name=f"hidden K={actions}",
    )


def good_bad(actions: int, *, discount: float, operator: sc.Operator) -> sc.Problem:
    """A coin decides for good between a state that always pays and one that never does.

    Values are as far apart as they can be.
    """
    P, R = np.zeros((3, actions, 3)), np.zeros((3, actions))
    P[0, :, 1] = P[0, :, 2] = 0.5
    P[1, :, 1] = P[2, :, 2] = 1.0
    R[1] = 1.0
    return sc.tabular(
        P, R, discount=discount, operator=operator, name=f"good/bad K={actions}"
    )


def equal(
    reward: float, actions: int, *, discount: float, operator: sc.Operator
) -> sc.Problem:
    """All rewards alike: any error is the estimator's own bias."""
    P = np.full((2, actions, 2), 0.5)
    return sc.tabular(
        P,
        np.full((2, actions), reward),
        discount=discount,
        operator=operator,
        name=f"all {reward:g} K={actions}",
    )


def deterministic(
    actions: int, *, discount: float, operator: sc.Operator
) -> sc.Problem:
    """A ring with one paying state and no randomness at all."""
    states = 5
    P, R = np.zeros((states, actions, states)), np.zeros((states, actions))
    for s in range(states):
        for a in range(actions):
            P[s, a, (s + a) % states] = 1.0
    R[0] = 1.0
    return sc.tabular(
        P,
        R,
        discount=discount,
        operator=operator,
        initial_state=1,
        name=f"deterministic K={actions}",
    )


def coin_game(
    actions: int, *, discount: float, operator: sc.Operator, alternating: bool
) -> sc.Problem:
    """Coins for two players, strictly alternating or in random order.

    With low rewards its values are negative for the min player.
    """
    players = np.array([1, 2, 1, 2])
    P, R = np.zeros((4, actions, 4)), np.zeros((4, actions, 4))
    for s in range(4):
        targets = (
            np.flatnonzero(players != players[s]) if alternating else np.arange(4)
        )
        P[s, :, targets] = 1.0 / len(targets)
    R[:, :, 3] = 1.0
    name = f"coin game K={actions}{' alternating' if alternating else ''}"
    return sc.tabular(
        P,
        R,
        players=players,
        alternating=alternating,
        discount=discount,
        operator=operator,
        name=name,
    )


def silent_game(actions: int, *, discount: float, operator: sc.Operator) -> sc.Problem:
    """No rewards, alternating turns, min to move: V = -F(0)/(1+gamma).

    The printed clipping cannot represent this value.
    """
    P = np.zeros((2, actions, 2))
    P[0, :, 1] = P[1, :, 0] = 1.0
    options = {"players": [1, 2], "alternating": True, "initial_state": 1}
    return sc.tabular(
        P,
        np.zeros((2, actions)),
        discount=discount,
        operator=operator,
        name=f"silent game K={actions}",
        **options,
    )


def ending(actions: int, *, discount: float, operator: sc.Operator) -> sc.Problem:
    """Every move may end the episode; actions vary between states."""
    P, R = np.zeros((3, actions, 3)), np.zeros((3, actions))
    P[0, :, 1], P[0, :, 2] = 0.6, 0.4
    P[1, :, 0], P[1, :, 2] = 0.7, 0.3
    P[2, :, 2] = 1.0
    R[0], R[1] = 1.0, np.linspace(0.0, 1.0, actions)
    legal = np.ones((3, actions), bool)
    legal[1, : actions // 2] = False
    options = {"terminal": [False, False, True], "legal": legal}
    return sc.tabular(
        P,
        R,
        discount=discount,
        operator=operator,
        name=f"ending K={actions}",
        **options,
    )


def operators(temperature: float) -> list[sc.Operator]:
    return [
        sc.Entropy(temperature),
        sc.KL(temperature),
        sc.Sparsemax(temperature),
        sc.SquareRoot(temperature),
        sc.Max(),
    ]


def cases() -> list[sc.Problem]:
    """The study's problems.

    Every family, operator and number of actions appears at least once, with
    gammas from 0 to 0.9 and lambdas from 1e-3 to 1e3.
    """
    found: list[sc.Problem] = []
    for K, discount, temperature in [
        (2, 0.2, 1.0),
        (3, 0.5, 1.0),
        (10, 0.2, 10.0),
        (2, 0.5, 0.05),
    ]:
        for operator in operators(temperature):
            options = {"discount": discount, "operator": operator}
            found += [
                coin(K, **options),
                rare(K, **options),
                hidden(K, **options),
                good_bad(K, **options),
            ]
            found += [
                equal(0.0, K, **options),
                equal(1.0, K, **options),
                deterministic(K, **options),
                ending(K, **options),
            ]
            found += [
                coin_game(K, alternating=turns, **options) for turns in (False, True)
            ] + [silent_game(K, **options)]
            for text in ("garnet", "random-game", "random-game"):
                alternating = (
                    ",alternating=true" if len(found) % 2 and text != "garnet" else ""
                )
                found.append(
                    sc.make(
                        f"{text}:states=8,actions={K},seed={len(found)}{alternating}",
                        **options,
                    )
                )
    for discount, temperature, K in [
        (0.0, 1.0, 3),
        (0.9, 50.0, 4),
        (0.7, 1e3, 2),
        (0.2, 1e-3, 2),
        (0.5, 1.0, 1),
    ]:
        for operator in (sc.Entropy(temperature), sc.Sparsemax(temperature)):
            options = {"discount": discount, "operator": operator}
            found += [
                coin(K, **options),
                good_bad(K, **options),
                coin_game(K, alternating=True, **options),
            ]
            found.append(sc.make(f"garnet:states=8,actions={K},seed=7", **options))
    prior = sc.KL(0.5, (0.7, 0.2, 0.1))
    found += [
        coin(3, discount=0.4, operator=prior),
        ending(3, discount=0.4, operator=prior),
    ]
    return found
