"""A critic of the max-call as its owner would bring it: a regression on simulated paths.

Longstaff and Schwartz's: backwards over the dates, the discounted payment of the rule so
far is regressed on functions of the sorted prices, and the option is exercised where that
pays more. The functions are powers of the two largest prices, the payoff, and European
calls on the two (three) largest prices, as in Andersen and Broadie 2004. W of a date is the
larger one of the payoff and the regression; at the last date it is the payoff.

The fit is NumPy over 100,000 paths of the known law; the answer is one compiled function
of (state, steps left), which is what ``value=`` takes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

RATE, DIVIDEND, VOLATILITY, STRIKE, YEARS, PERIODS = 0.05, 0.1, 0.2, 100.0, 3.0, 9
PERIOD = YEARS / PERIODS
WEIGHT = math.exp(-RATE * PERIOD)
DRIFT = (RATE - DIVIDEND - VOLATILITY**2 / 2.0) * PERIOD
NOISE = VOLATILITY * math.sqrt(PERIOD)
MOST_TERMS = 28


@njit(cache=False)
def european_call(price: float, years: float) -> float:
    """Black and Scholes's, in units of the strike."""
    if years <= 0.0:
        return max(price - 1.0, 0.0)
    spread = VOLATILITY * math.sqrt(years)
    near = (math.log(price) + (RATE - DIVIDEND) * years) / spread + 0.5 * spread
    below_1 = 0.5 * math.erfc(-near / math.sqrt(2.0))
    below_2 = 0.5 * math.erfc(-(near - spread) / math.sqrt(2.0))
    return price * math.exp(-DIVIDEND * years) * below_1 - (
        math.exp(-RATE * years) * below_2
    )


@njit
def write_terms(prices: Any, years: float, out: Any) -> int:
    """Write the functions of the prices into ``out``; their number is returned."""
    x1 = x2 = x3 = 0.0
    log_sum = 0.0
    total = 0.0
    for price in prices:
        x = price / STRIKE
        log_sum += math.log(x)
        total += x
        if x > x1:
            x1, x2, x3 = x, x1, x2
        elif x > x2:
            x2, x3 = x, x2
        elif x > x3:
            x3 = x
    pay = max(x1 - 1.0, 0.0)
    call_1, call_2 = european_call(x1, years), european_call(x2, years)
    out[0], out[1], out[2], out[3] = 1.0, pay, x1, x2
    out[4], out[5], out[6] = x1 * x1, x1 * x2, x2 * x2
    out[7], out[8] = x1 * x1 * x1, x1 * x1 * x2
    out[9], out[10] = x1 * x2 * x2, x2 * x2 * x2
    out[11], out[12], out[13], out[14] = pay * pay, pay * x2, call_1, call_2
    out[15], out[16], out[17] = call_1 * call_2, call_1 * call_1, call_2 * call_2
    out[18] = european_call(x1, PERIOD)
    if len(prices) == 2:
        return 19
    out[19], out[20], out[21], out[22] = x3, x3 * x3, x1 * x3, x2 * x3
    out[23] = european_call(x3, years)
    if len(prices) == 3:
        return 24
    out[24], out[25], out[26] = total - x1 - x2 - x3, log_sum, log_sum * log_sum
    return 27


@njit
def fill_terms(paths: Any, years: float, out: Any) -> int:
    """The same for many rows of prices."""
    count = 0
    for i in range(len(paths)):
        count = write_terms(paths[i], years, out[i])
    return count


def fit_critic(assets: int, spot: float, num_paths: int = 100_000) -> Any:
    """W of (prices, steps left), compiled. The last date has one step left."""
    rng = np.random.default_rng(11)
    noise = rng.standard_normal((num_paths // 2, PERIODS, assets))
    noise = np.concatenate([noise, -noise])
    prices = spot * np.exp(np.cumsum(DRIFT + NOISE * noise, axis=1))
    payoff = np.maximum(prices.max(axis=2) - STRIKE, 0.0)
    payment = payoff[:, -1].copy()
    rows = np.zeros((PERIODS, MOST_TERMS))
    terms = np.zeros((len(prices), MOST_TERMS))
    for date in range(PERIODS - 1, 0, -1):
        payment *= WEIGHT
        count = fill_terms(prices[:, date - 1], YEARS - date * PERIOD, terms)
        basis = terms[:, :count]
        rows[date, :count] = np.linalg.lstsq(basis, payment, rcond=None)[0]
        ahead, now = basis @ rows[date, :count], payoff[:, date - 1]
        payment = np.where((now > 0.0) & (now >= ahead), now, payment)
    start = WEIGHT * float(payment.mean())

    @njit
    def critic(state: Any, steps_left: int) -> float:
        date = PERIODS + 1 - steps_left
        now = max(max(state) - STRIKE, 0.0)
        if date >= PERIODS:
            return now
        if date <= 0:
            return max(now, start)
        out = np.empty(MOST_TERMS)
        count = write_terms(state, YEARS - date * PERIOD, out)
        ahead = 0.0
        for k in range(count):
            ahead += rows[date, k] * out[k]
        return max(now, ahead, 0.0)

    return critic
