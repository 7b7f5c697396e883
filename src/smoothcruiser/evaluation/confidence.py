"""A confidence sequence for the mean of bounded samples, valid at every count at once.

Samples are taken in one by one, and any stopping rule is allowed. This is the
predictable plug-in empirical Bernstein sequence of Waudby-Smith and Ramdas
(2023), Theorem 2. For samples y_1, y_2, ... in [0, 1] with E[y_i | past] = m
and any l_i in (0, 1) that depends on the past alone, with probability
1 - delta, for all t,

  |sum l_i y_i / sum l_i - m| <= (log(2/delta) + sum v_i psi(l_i)) / sum l_i
  v_i = 4 (y_i - m_{i-1})^2
  psi(l) = (-log(1-l) - l)/4

(a supermartingale for each side, Ville's inequality, two sides). The plug-ins:

  m_t   = (1/2 + sum y)/(t + 1)
  s_t^2 = (1/4 + sum (y_i - m_i)^2)/(t + 1)
  l_t   = min(c, sqrt(2 log(2/delta) / (s_{t-1}^2 k)))

with k = t log(1 + t) where the final count is not known, and that count where
it is. c = 3/4: a larger c would help constant samples a little and cost others
more. The intervals of all counts hold together, so their intersection does.

legend   symbol      name
  t, y               ``state[T]``, ``y``
  delta              enters as ``state[LEVEL]`` = log(2/delta)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

T, TOTAL, SPREAD, WEIGHT, WEIGHTED, COST, LOW, HIGH, LEVEL, AIM = range(10)
LARGEST_BET = 0.75


def begin(delta: float, aim: float) -> NDArray[np.float64]:
    """The state before the first sample.

    ``aim`` is the count that the bets are made for, 0 where it is not known.
    """
    state = np.zeros(10)
    state[HIGH], state[LEVEL], state[AIM] = 1.0, math.log(2.0 / delta), aim
    return state


def take(state: Any, y: float) -> None:
    """Take one sample y in [0, 1] into the state."""
    t = state[T] + 1.0
    guess = (0.5 + state[TOTAL]) / t  # from the samples before this one
    variance = (0.25 + state[SPREAD]) / t
    count = state[AIM] if state[AIM] > 0.0 else t * math.log(1.0 + t)
    bet = min(LARGEST_BET, math.sqrt(2.0 * state[LEVEL] / (variance * count)))
    state[T] = t
    state[TOTAL] += y
    after = (0.5 + state[TOTAL]) / (t + 1.0)
    state[SPREAD] += (y - after) * (y - after)
    state[WEIGHT] += bet
    state[WEIGHTED] += bet * y
    state[COST] += (y - guess) * (y - guess) * (-math.log(1.0 - bet) - bet)
    middle = state[WEIGHTED] / state[WEIGHT]
    radius = (state[LEVEL] + state[COST]) / state[WEIGHT]
    state[LOW] = max(state[LOW], middle - radius)
    state[HIGH] = min(state[HIGH], middle + radius)
