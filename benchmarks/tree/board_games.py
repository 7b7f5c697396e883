"""Tic-tac-toe, connect four and CartPole as compiled oracles.

The two games serve comparisons with OpenSpiel; CartPole is the one of Barto et
al.

A state of tic-tac-toe is a whole number (nine bits of X, nine of O, one for the
turn), of connect four three of them: the stones of X and of O as bitboards
(seven columns of six cells and an empty one, so that lines do not wrap around),
and the turn. X maximizes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from numba import njit

import smoothcruiser as sc

LINES = (7, 56, 448, 73, 146, 292, 273, 84)


@njit(inline="always")
def _three(stones):
    found = False
    for line in LINES:
        found |= stones & line == line
    return found


@njit
def tic_step(state, action, rng):
    turn = state >> 18
    state ^= 1 << (action + 9 * turn)
    state ^= 1 << 18
    mine = (state >> (9 * turn)) & 511
    if _three(mine):
        return 1.0 - 2.0 * turn, state, True
    full = ((state | (state >> 9)) & 511) == 511
    return 0.0, state, full


@njit
def tic_legal(state, action):
    return ((state | (state >> 9)) >> action) & 1 == 0


@njit
def tic_player(state):
    return 1 + (state >> 18)


def tic_tac_toe(operator=None):
    return sc.Game(
        tic_step,
        player=tic_player,
        alternating=True,
        num_actions=9,
        discount=1.0,
        horizon=9,
        operator=operator or sc.Max(),
        reward_range=(-1.0, 1.0),
        legal=tic_legal,
        terminal=True,
        initial_state=0,
        deterministic=True,
        name="tic-tac-toe",
    )


class Four(NamedTuple):
    x: int
    o: int
    turn: int


COLUMN = 0b111111
BOARD = sum(COLUMN << (7 * c) for c in range(7))


@njit(inline="always")
def _four(stones):
    for shift in (1, 6, 7, 8):
        pairs = stones & (stones >> shift)
        if pairs & (pairs >> (2 * shift)):
            return True
    return False


@njit
def four_step(state, action, rng):
    taken = state.x | state.o
    stone = ((taken >> (7 * action)) & 63) + 1 << (7 * action)
    if state.turn == 0:
        x = state.x | stone
        if _four(x):
            return 1.0, Four(x, state.o, 1), True
        return 0.0, Four(x, state.o, 1), (taken | stone) == BOARD
    o = state.o | stone
    if _four(o):
        return -1.0, Four(state.x, o, 0), True
    return 0.0, Four(state.x, o, 0), (taken | stone) == BOARD


@njit
def four_legal(state, action):
    return ((state.x | state.o) >> (7 * action + 5)) & 1 == 0


@njit
def four_player(state):
    return 1 + state.turn


def connect_four(operator=None):
    return sc.Game(
        four_step,
        player=four_player,
        alternating=True,
        num_actions=7,
        discount=1.0,
        horizon=42,
        operator=operator or sc.Max(),
        reward_range=(-1.0, 1.0),
        legal=four_legal,
        terminal=True,
        initial_state=Four(0, 0, 0),
        deterministic=True,
        name="connect-four",
    )


class Pole(NamedTuple):
    x: float
    x_dot: float
    theta: float
    theta_dot: float


@njit
def cart_pole_step(s, action, rng):
    """CartPole (Barto, Sutton and Anderson 1983) as in Gymnasium.

    Each step pays 1 until the pole falls or the cart leaves.
    """
    force = 10.0 if action == 1 else -10.0
    cosine, sine = math.cos(s.theta), math.sin(s.theta)
    push = (force + 0.05 * s.theta_dot * s.theta_dot * sine) / 1.1
    turn = (9.8 * sine - cosine * push) / (
        0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1)
    )
    after = Pole(
        s.x + 0.02 * s.x_dot,
        s.x_dot + 0.02 * (push - 0.05 * turn * cosine / 1.1),
        s.theta + 0.02 * s.theta_dot,
        s.theta_dot + 0.02 * turn,
    )
    over = abs(after.x) > 2.4 or abs(after.theta) > 12 * 2 * math.pi / 360
    return 1.0, after, over


def cart_pole(discount=0.99, operator=None):
    return sc.MDP(
        cart_pole_step,
        num_actions=2,
        discount=discount,
        operator=operator or sc.Max(),
        terminal=True,
        initial_state=Pole(0.01, -0.02, 0.03, 0.02),
        deterministic=True,
        name="cart-pole",
    )
