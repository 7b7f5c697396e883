"""The values of the problems that ``gap`` is shown on, by solvers that share nothing with it.

``python -m benchmarks.gap.truths`` prints them in about two minutes. Every solver is a
backward induction in NumPy over a grid of the continuous fields. Nothing of the planner is
imported, and each law is written again from its description.

  interpolation   Between grid points a value is linear, and E[value(next)] of that
                  interpolant is exact: the mean of a hat function under a law is a second
                  difference of g(c) = E(c - X)+, which is known for normal and exponential
                  laws. What remains is the error of interpolation, O(h²).
  error           Every value is computed on a grid and on one with half the step. The
                  error of the finer one is a third of the difference if it falls as h²;
                  what is printed is the whole difference.
  max-call        A product of one-dimensional transition densities (trapezoidal rule) on a
                  grid of log prices that has the strike among its points. The last step is
                  taken from the very prices at the root, so nothing is interpolated.
                  Five assets are out of reach: the published interval (Andersen and Broadie
                  2004, 95%) stands for them.

Published numbers: two assets 8.075, 13.902, 21.345 and three 11.29, 18.69, 27.58 (binomial
lattices in Andersen and Broadie 2004), met within 0.003 and 0.015; lost sales 4.04, 4.40,
4.60 per period for lead times 1 to 3 (Zipkin 2008) and the American put with 50 dates
4.478 (Longstaff and Schwartz 2001), met in every digit.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Truth = tuple[float, float]  # value, error

# (assets, spot) -> the published value, or the interval of 95%
PUBLISHED_CALLS = {
    (2, 90): (8.075, 8.075),
    (2, 100): (13.902, 13.902),
    (2, 110): (21.345, 21.345),
    (3, 90): (11.29, 11.29),
    (3, 100): (18.69, 18.69),
    (3, 110): (27.58, 27.58),
    (5, 90): (16.602, 16.655),
    (5, 100): (26.109, 26.292),
    (5, 110): (36.704, 36.832),
}
PUBLISHED_COSTS = {1: 4.04, 2: 4.40, 3: 4.60}  # lead time -> long-run cost per period
PUBLISHED_PUT = 4.478

_erf = np.vectorize(math.erf, otypes=[float])


def _normal_below(limits: Array, means: Array, deviation: float) -> Array:
    """g(c) = E(c - X)+ for X normal: rows are means, columns limits."""
    z = (limits[None, :] - means[:, None]) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.asarray(
        deviation * (z * 0.5 * (1.0 + _erf(z / math.sqrt(2.0))) + density)
    )


def _exponential_below(limits: Array, starts: Array, mean: float) -> Array:
    """g(c) = E(c - s - Y)+ for Y exponential."""
    room = np.maximum(limits[None, :] - starts[:, None], 0.0)
    return np.asarray(room - mean * -np.expm1(-room / mean))


def _hat_means(points: Array, below: Array) -> Array:
    """E hat_j(clip(X)) from g at equally spaced points; X is clipped at both ends."""
    step = points[1] - points[0]
    slopes = np.diff(below, axis=1) / step
    left = slopes[:, :1]
    right = 1.0 - slopes[:, -1:]
    return np.hstack([left, np.diff(slopes, axis=1), right])


def _reverting(points: Array, keep: float, noise: float) -> Array:
    """The matrix of x' = clip(keep x + noise N)."""
    return _hat_means(points, _normal_below(points, keep * points, noise))


def _soft_max(q: Array, temperature: float) -> Array:
    top = q.max(axis=0)
    if temperature == 0.0:
        return np.asarray(top)
    return np.asarray(
        top + temperature * np.log(np.exp((q - top) / temperature).sum(axis=0))
    )


def _iterate(
    backup: Callable[[Array], Array], start: Array, discount: float, steps: int | None
) -> Array:
    """The value after ``steps`` backups, or of infinitely many within 1e-9."""
    value = start
    if steps is not None:
        for _ in range(steps):
            value = backup(value)
        return value
    while True:
        new_value = backup(value)
        change = new_value - value
        if np.ptp(change) * discount < 1e-9 * (1.0 - discount):
            # the rest of a constant change (MacQueen)
            return np.asarray(
                new_value
                + discount / (1.0 - discount) * 0.5 * (change.max() + change.min())
            )
        value = new_value


def _two_grids(solve: Callable[[int], float], points: int) -> Truth:
    """The value on the grid with half the step, and the change."""
    coarse, fine = solve(points), solve(2 * points - 1)
    return fine, abs(fine - coarse)


# --- the zoo ------------------------------------------------------------------


def max_call_values(assets: int, points: int) -> list[float]:
    """The values at 90, 100 and 110 on a lattice of ``points`` log prices per asset."""
    rate, dividend, volatility, years, periods = 0.05, 0.1, 0.2, 3.0, 9
    period = years / periods
    weight = math.exp(-rate * period)
    drift = (rate - dividend - volatility**2 / 2.0) * period
    deviation = volatility * math.sqrt(period)
    x = np.linspace(-1.9, 1.7, points)
    x -= x[np.argmin(np.abs(x))]  # the strike is a point
    h = x[1] - x[0]

    def density(sources: Array) -> Array:
        z = (x[None, :] - sources[:, None] - drift) / deviation
        return np.asarray(
            np.exp(-0.5 * z * z) * h / (deviation * math.sqrt(2.0 * math.pi))
        )

    moves = density(x)
    best = x
    for _ in range(assets - 1):
        best = np.maximum(best[..., None], x)
    payoff = np.maximum(100.0 * np.exp(best) - 100.0, 0.0)
    value = payoff
    for _ in range(periods - 1):
        for axis in range(assets):
            value = np.moveaxis(np.tensordot(moves, value, (1, axis)), 0, axis)
        value = np.maximum(payoff, weight * value)
    answers = []
    for spot in (90.0, 100.0, 110.0):
        row = density(np.array([math.log(spot / 100.0)]))[0]
        hold = value
        for _ in range(assets):
            hold = np.tensordot(row, hold, (0, 0))
        answers.append(max(max(spot - 100.0, 0.0), weight * float(hold)))
    return answers


def clip_loss(assets: int, spot: float) -> float:
    """The bound of ``problem.zoo.max_call`` on what its cap takes from the value."""
    rate, dividend, volatility, years, periods = 0.05, 0.1, 0.2, 3.0, 9
    growth = rate - dividend - volatility**2 / 2.0
    cap = spot * math.exp(growth * years + 5.5 * volatility * math.sqrt(years))
    total = 0.0
    for date in range(1, periods + 1):
        t = date * years / periods
        spread = volatility * math.sqrt(t)
        low = (math.log(cap / spot) - growth * t) / spread
        above, shares = (
            0.5 * math.erfc(z / math.sqrt(2.0)) for z in (low, low - spread)
        )
        total += (
            spot * math.exp(-dividend * t) * shares - cap * math.exp(-rate * t) * above
        )
    return assets * total


def storage_value(
    discount: float, steps: int | None, temperature: float, points: int = 401
) -> Truth:
    """The store of the zoo, half full at the mean price."""
    return _two_grids(
        lambda n: float(storage_table(discount, steps, temperature, n)[5, n // 2]),
        points,
    )


def storage_table(
    discount: float, steps: int | None, temperature: float, points: int
) -> Array:
    """Values by level and log price."""
    x = np.linspace(-1.2, 1.2, points)
    moves, price = _reverting(x, 0.9, 0.2).T, np.exp(x)

    def backup(value: Array) -> Array:
        keep = discount * value @ moves
        sell = np.vstack([keep[:1], keep[:-1] + 0.95 * price])
        buy = np.vstack([keep[1:] - price, keep[-1:]])
        return _soft_max(np.stack([sell, keep, buy]), temperature)

    return _iterate(backup, np.zeros((11, points)), discount, steps)


def demand_law() -> Array:
    """Poisson with mean 5, cut at 17."""
    law = np.array([math.exp(-5.0) * 5.0**k / math.factorial(k) for k in range(18)])
    law[17] = 1.0 - law[:17].sum()
    return law


def _lost_sales_backup(lead: int) -> Callable[[Array, float], Array]:
    """One exact backup of values over (stock, orders under way)."""
    law, capacity, orders = demand_law(), 20, 9
    demand = np.arange(18)

    def backup(value: Array, discount: float) -> Array:
        shape = (capacity + 1, *(orders + 1,) * (lead - 1))
        result = np.empty(shape)
        for stock in range(capacity + 1):
            left = np.maximum(stock - demand, 0)
            cost = law @ (left + 4.0 * np.maximum(demand - stock, 0))
            for arriving in range(orders + 1):
                next_stock = np.minimum(left + arriving, capacity)
                mean = np.tensordot(law, value[next_stock], (0, 0))
                if lead == 1:  # the order of this period arrives
                    best = -math.inf if arriving == 0 else float(result[stock])
                    result[stock] = max(best, -cost + discount * float(mean))
                else:  # the last axis is the order of this period
                    result[stock, arriving] = -cost + discount * mean.max(axis=-1)
        return result

    return backup


def lost_sales_table(lead: int, discount: float, steps: int | None) -> Array:
    """Values by stock and orders under way: exact but for rounding."""
    backup = _lost_sales_backup(lead)
    start = np.zeros((21, *(10,) * (lead - 1)))
    return _iterate(lambda v: backup(v, discount), start, discount, steps)


def lost_sales_value(lead: int, discount: float, steps: int | None) -> float:
    """The shop of the zoo with five units everywhere."""
    return float(lost_sales_table(lead, discount, steps)[(5,) * lead])


def long_run_cost(lead: int) -> tuple[float, float]:
    """Bounds on the cost per period in the long run, from one more backup."""
    backup = _lost_sales_backup(lead)
    value = np.zeros((21, *(10,) * (lead - 1)))
    for _ in range(300):
        new_value = backup(value, 1.0)
        change, value = new_value - value, new_value
    return float(-change.max()), float(-change.min())


def two_queues_value() -> float:
    """The empty queues of the zoo."""
    return float(two_queues_table()[0, 0, 0])


def two_queues_table(discount: float = 0.99) -> Array:
    """Values by server and both queues: exact but for rounding."""
    most, arrival_1, arrival_2, work = 15, 0.3, 0.25, 0.8
    jobs = np.arange(most + 1)
    waiting = jobs[:, None] + 2.0 * jobs[None, :]

    def moves(arrival: float, served: float) -> tuple[Array, Array]:
        """The matrix of one queue, and its mean number of lost jobs."""
        matrix, lost = np.zeros((most + 1, most + 1)), np.zeros(most + 1)
        for n in jobs:
            for ends, chance in ((1, served), (0, 1.0 - served)):
                stays = max(n - ends, 0)
                matrix[n, stays] += chance * (1.0 - arrival)
                matrix[n, min(stays + 1, most)] += chance * arrival
                lost[n] += chance * arrival * (stays + 1 > most)
        return matrix, lost

    idle = moves(arrival_1, 0.0), moves(arrival_2, 0.0)
    busy = moves(arrival_1, work), moves(arrival_2, work)

    def backup(value: Array) -> Array:
        result = np.empty_like(value)
        for server in (0, 1):
            both = [(idle[0], idle[1], 1 - server)]
            both.append(
                (busy[0], idle[1], 0) if server == 0 else (idle[0], busy[1], 1)
            )
            q = [
                -waiting
                - 10.0 * (lost_1[:, None] + lost_2[None, :])
                + discount * m1 @ value[target] @ m2.T
                for (m1, lost_1), (m2, lost_2), target in both
            ]
            result[server] = np.maximum(*q)
        return result

    return _iterate(backup, np.zeros((2, most + 1, most + 1)), discount, None)


# --- our own (``benchmarks.gap.worlds``) ----------------------------------------


def battery_value(points: int = 91) -> Truth:
    """A battery for a house: a price and a load, both mean-reverting; discount 0.97."""
    return _two_grids(lambda n: float(battery_table(n)[3, n // 2, n // 2]), points)


def battery_table(n: int) -> Array:
    """Values by level, log price and log load."""
    x, y = np.linspace(-1.2, 1.2, n), np.linspace(-1.5, 1.5, n)
    price_moves, load_moves = _reverting(x, 0.9, 0.2), _reverting(y, 0.8, 0.3)
    price, load = np.exp(x)[:, None], 0.6 * np.exp(y)[None, :]

    def backup(value: Array) -> Array:
        hold = 0.97 * np.stack([price_moves @ v @ load_moves.T for v in value])
        keep = hold - price * load
        give = np.concatenate(
            [keep[:1], hold[:-1] - price * np.maximum(load - 1.0, 0.0)]
        )
        take = np.concatenate([hold[1:] - price * (load + 1.1), keep[-1:]])
        return np.maximum(np.maximum(give, keep), take)

    return _iterate(backup, np.zeros((7, n, n)), 0.97, None)


def wear_value(points: int = 1001) -> Truth:
    """A machine that wears: run or replace; discount 0.95."""
    return _two_grids(lambda n: float(wear_table(n)[0]), points)


def wear_table(n: int) -> Array:
    """Values by wear."""
    wear = np.linspace(0.0, 3.0, n)
    moves = _hat_means(wear, _exponential_below(wear, wear, 0.15))
    moves[:, 0] = 0.0  # no wear falls; g is 0 up to the start itself
    moves[0, 0] = 1.0 - moves[0, 1:].sum()
    breaks = 1.0 - np.exp(-0.15 * wear**2)

    def backup(value: Array) -> Array:
        run = 1.0 - 0.2 * wear
        run = run + breaks * (-4.0 + 0.95 * value[0])
        run = run + (1.0 - breaks) * 0.95 * (moves @ value)
        return np.maximum(run, -1.5 + 0.95 * value[0])

    return _iterate(backup, np.zeros(n), 0.95, None)


def selling_value(points: int = 401) -> Truth:
    """Eight units to sell at one of four prices in a moving market; discount 0.97."""
    return _two_grids(lambda n: float(selling_table(n)[8, n // 2]), points)


def selling_table(n: int) -> Array:
    """Values by units left and market."""
    prices = np.array([1.0, 1.5, 2.0, 2.5])
    x = np.linspace(-1.5, 1.5, n)
    moves = _reverting(x, 0.9, 0.25)
    sold = 1.0 / (1.0 + np.exp(2.0 * prices[:, None] - 3.0 - 1.5 * x[None, :]))

    def backup(value: Array) -> Array:
        ahead = 0.97 * value @ moves.T  # row u: u units left; row 0 is over
        result = np.zeros_like(value)
        for units in range(1, 9):
            q = (
                sold * (prices[:, None] + ahead[units - 1])
                + (1.0 - sold) * ahead[units]
            )
            result[units] = q.max(axis=0)
        return result

    return _iterate(backup, np.zeros((9, n)), 0.97, None)


def put_value(points: int = 1601) -> Truth:
    """The American put of Longstaff and Schwartz: 50 dates in a year after the start."""
    rate, volatility, spot, strike, dates = 0.06, 0.2, 36.0, 40.0, 50
    period = 1.0 / dates
    drift, deviation = (
        (rate - volatility**2 / 2.0) * period,
        volatility * math.sqrt(period),
    )

    def solve(n: int) -> float:
        x = np.linspace(
            -1.6, 1.6, n
        )  # log of price over strike: the strike is a point
        moves = _hat_means(x, _normal_below(x, x + drift, deviation))
        payoff = np.maximum(strike - strike * np.exp(x), 0.0)
        value = payoff
        for _ in range(dates - 1):
            value = np.maximum(payoff, math.exp(-rate * period) * (moves @ value))
        root = np.array([math.log(spot / strike) + drift])
        last = _hat_means(x, _normal_below(x, root, deviation))[0]
        return max(strike - spot, math.exp(-rate * period) * float(last @ value))

    return _two_grids(solve, points)


def blackjack_value(total: int, dealer: int, ace: bool) -> float:
    """The best chance to win minus that to lose, cards from an infinite deck."""
    cards = [(card, 4.0 / 13.0 if card == 10 else 1.0 / 13.0) for card in range(1, 11)]

    def after(points: int, soft: bool, card: int) -> tuple[int, bool]:
        hard = points - 10 * soft + card
        soft = (soft or card == 1) and hard + 10 <= 21
        return hard + 10 * soft, soft

    def dealer_ends(
        points: int, soft: bool, chance: float, ends: dict[int, float]
    ) -> None:
        if points >= 17:
            key = points if points <= 21 else 0
            ends[key] = ends.get(key, 0.0) + chance
            return
        for card, share in cards:
            dealer_ends(*after(points, soft, card), chance * share, ends)

    ends: dict[int, float] = {}
    dealer_ends(*after(0, False, dealer), 1.0, ends)

    def value(points: int, soft: bool) -> float:
        if points > 21:
            return -1.0
        stand = sum(p * ((points > end) - (points < end)) for end, p in ends.items())
        hit = sum(p * value(*after(points, soft, card)) for card, p in cards)
        return max(stand, hit)

    return value(total, ace)


# --- all of them --------------------------------------------------------------


def call_truths() -> dict[tuple[int, int], Truth]:
    """(assets, spot) -> value and error, for two and three assets."""
    truths = {}
    for assets, sizes in ((2, (721, 1441)), (3, (145, 217))):
        coarse, fine = (max_call_values(assets, n) for n in sizes)
        for spot, low, high in zip((90, 100, 110), coarse, fine, strict=True):
            truths[assets, spot] = high, abs(high - low)
    return truths


def main() -> None:
    """Print the values, their errors and the seconds."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    clock = [time.perf_counter()]

    def report(name: str, *numbers: Any) -> None:
        now = time.perf_counter()
        shown = " ± ".join(
            f"{x:.6g}" if i else f"{x:.6f}" for i, x in enumerate(numbers)
        )
        print(f"{name:38s} {shown:28s} {now - clock[0]:6.1f} s", flush=True)
        clock[0] = now

    for (assets, spot), (value, error) in call_truths().items():
        report(f"max-call, {assets} assets, {spot}", value, error)
    for assets, spot in PUBLISHED_CALLS:
        middle = sum(PUBLISHED_CALLS[assets, spot]) / 2.0
        report(
            f"  loss by the cap, {assets}, {spot}",
            0.0,
            clip_loss(assets, spot) / middle,
        )
    report("storage, H = 100, max", *storage_value(1.0, 100, 0.0))
    report("storage, H = 100, entropy 0.1", *storage_value(1.0, 100, 0.1))
    report("storage, 0.99, max", *storage_value(0.99, None, 0.0))
    report("storage, 0.99, entropy 0.1", *storage_value(0.99, None, 0.1))
    for lead in (1, 2, 3):
        report(f"lost sales, lead {lead}, H = 50", lost_sales_value(lead, 1.0, 50))
        report(f"lost sales, lead {lead}, 0.97", lost_sales_value(lead, 0.97, None))
        low, high = long_run_cost(lead)
        report(
            f"  cost per period, lead {lead}", (low + high) / 2.0, (high - low) / 2.0
        )
    report("two queues, 0.99", two_queues_value())
    report("battery of a house, 0.97", *battery_value())
    report("machine that wears, 0.95", *wear_value())
    report("selling in a market, 0.97", *selling_value())
    report("American put, 50 dates", *put_value())
    report("blackjack, 12 against 3", blackjack_value(12, 3, False))


if __name__ == "__main__":
    main()
