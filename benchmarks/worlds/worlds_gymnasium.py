"""Gymnasium's sets by name: exact values, certified intervals, agents against chance.

    python -m benchmarks.worlds.worlds_gymnasium [--out docs/evidence/worlds-gymnasium.md]

*Known models.* FrozenLake, Taxi and CliffWalking have tables, and Blackjack has rules
short enough to write down. Their values are computed here by plain recursions that
share nothing with the library. ``exact`` has to agree to 1e-9, and an interval of
certified search, which samples, has to hold them.

*Worlds without a model.* CartPole and MiniGrid: what random play is worth, with an
interval, and what the planner proves: of CartPole a lower bound by planning afresh in
every state, of MiniGrid's empty room an interval around the known value.

The exit code is 1 if a value is missed, or if a bound does not exceed random play's. A
set whose package is missing is left out with a line.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.timing import signed

import smoothcruiser as sc

CLOSE = 1e-9
DELTA = 0.1
TABLES = (  # name, discount, epsilon of the certified interval
    ("FrozenLake-v1", 0.95, 0.05),
    ("FrozenLake-v1,map_name=8x8", 0.95, 0.05),
    ("Taxi-v4", 0.8, 1.0),
    ("CliffWalking-v1", 0.9, 0.5),
)
HANDS = ((13, 10, 4), (16, 10, 6), (12, 2, 10))  # player's sum, dealer's two cards


@dataclass(frozen=True)
class Row:
    """One world: what is known, what was found, and whether that fits."""

    world: str
    known: str
    found: str
    fits: bool

    def line(self) -> str:
        """The row in Markdown."""
        return f"| {self.world} | {self.known} | {self.found} | {_word(self.fits)} |"


def _word(fits: bool) -> str:
    return "yes" if fits else "NO"


def _shown(interval: tuple[float, float]) -> str:
    """An interval to five digits after the point, rounded outwards."""
    low, high = math.floor(interval[0] * 1e5) / 1e5, math.ceil(interval[1] * 1e5) / 1e5
    return f"[{low:g}, {high:g}]"


# --- known models -------------------------------------------------------------


def table_value(P: dict[int, Any], start: int, discount: float) -> float:
    """V(start) of an environment's own table, by value iteration in plain Python."""
    value = dict.fromkeys(P, 0.0)
    for _ in range(100_000):
        after = {
            s: max(
                sum(
                    p * (r + (0.0 if end else discount * value[z]))
                    for p, z, r, end in row
                )
                for row in rows.values()
            )
            for s, rows in P.items()
        }
        step = max(abs(after[s] - value[s]) for s in P)
        value = after
        if step < 1e-14 * (1.0 - discount):
            break
    return value[start]


def table_rows() -> list[Row]:
    """FrozenLake, Taxi and CliffWalking."""
    import gymnasium

    found = []
    for name, discount, epsilon in TABLES:
        problem = sc.make(f"gym:{name}", discount=discount, operator="max")
        text, _, rest = name.partition(",")
        options = dict(part.split("=") for part in rest.split(",") if part)
        env = gymnasium.make(text, **options).unwrapped
        true = table_value(env.P, problem.initial_state, discount)
        exact = sc.plan(problem, method="exact").value
        looked = sc.plan(problem, method="certified", epsilon=epsilon, delta=DELTA)
        low, high = looked.interval
        fits = abs(exact - true) <= CLOSE and low <= true <= high
        said = (
            f"exact differs by {abs(exact - true):.1e}; certified {_shown((low, high))} "
            f"after {looked.num_calls:,} calls"
        )
        found.append(Row(f"`gym:{name}`, γ = {discount}", f"{true:.9g}", said, fits))
    return found


# --- Blackjack ----------------------------------------------------------------

CARDS = [*range(1, 10), *[10] * 4]  # of an endless deck


def _score(total: int, aces: int) -> int:
    return total + 10 if aces and total + 10 <= 21 else total


@functools.cache
def dealer_ends(total: int, aces: int) -> dict[int, float]:
    """The law of the dealer's final score, who draws below 17."""
    if _score(total, aces) >= 17:
        return {_score(total, aces): 1.0}
    law: dict[int, float] = {}
    for card in CARDS:
        for score, p in dealer_ends(total + card, aces + (card == 1)).items():
            law[score] = law.get(score, 0.0) + p / len(CARDS)
    return law


def stick(mine: int, dealer: tuple[int, int]) -> float:
    """What the first player is paid in the mean if it draws no more."""
    law = dealer_ends(sum(dealer), dealer.count(1))
    return sum(
        p * ((theirs > 21 or mine > theirs) - (theirs <= 21 and mine < theirs))
        for theirs, p in law.items()
    )


def blackjack_value(total: int, aces: int, dealer: tuple[int, int]) -> float:
    """V of a hand without discount, for a player who sees both of the dealer's cards."""

    @functools.cache
    def value(total: int, aces: int) -> float:
        if total > 21:
            return -1.0
        hit = np.mean([value(total + c, aces + (c == 1)) for c in CARDS])
        return float(max(stick(_score(total, aces), dealer), hit))

    return value(total, aces)


def blackjack_rows() -> list[Row]:
    """Hands of Blackjack, which has no tables: certified search on copies."""
    import gymnasium

    from smoothcruiser.adapters import gymnasium as adapter

    found = []
    for mine, up, down in HANDS:
        env = gymnasium.make("Blackjack-v1")
        env.reset(seed=0)
        inner: Any = env.unwrapped
        inner.player, inner.dealer = [10, mine - 10], [up, down]
        problem = adapter.problem(
            env,
            discount=1.0,
            operator=sc.Max(),
            horizon=12,  # 12 and ten more cards are above 21
            reward_range=(-1.0, 1.0),
            key=lambda e: (tuple(e.unwrapped.player), tuple(e.unwrapped.dealer)),
        )
        true = blackjack_value(mine, 0, (up, down))
        looked = sc.plan(
            problem, method="certified", epsilon=0.15, delta=DELTA, budget=20_000
        )
        low, high = looked.interval
        said = f"certified {_shown((low, high))} after {looked.num_calls:,} calls"
        world = f"Blackjack-v1, {mine} against {up} and {down}"
        found.append(Row(world, f"{true:.9g}", said, low <= true <= high))
    return found


# --- worlds without a model ---------------------------------------------------


def random_play(problem: sc.Problem, budget: int) -> tuple[float, float]:
    """An interval for the value of random play."""
    even = [1.0 / problem.num_actions] * problem.num_actions
    found = sc.evaluate(problem, lambda state: even, delta=DELTA, budget=budget)
    assert found.interval is not None
    return found.interval


def cartpole_rows() -> list[Row]:
    """CartPole: planning afresh in every state, certified from below."""
    problem = sc.make(
        "gym:CartPole-v1,deterministic=true", discount=0.9, operator="max"
    )
    chance = random_play(problem, 40_000)
    agent = sc.Agent(problem, sc.UCT(depth=15, exploration=4.0), simulations=12)
    found = sc.evaluate(problem, agent.policy, delta=DELTA, budget=4000)
    assert found.interval is not None
    low = found.interval[0]
    known = f"random play {_shown(chance)}; at most 10"
    said = f"V ≥ {math.floor(low * 1e3) / 1e3:g} by a policy with 12 simulations in every state"
    return [Row("`gym:CartPole-v1`, γ = 0.9", known, said, low > chance[1])]


def minigrid_rows() -> list[Row]:
    """MiniGrid's empty rooms: the shortest way to the goal is known."""
    found = []
    for size in (5, 6):
        name = f"gym:MiniGrid-Empty-{size}x{size}-v0,deterministic=true"
        problem = sc.make(name, discount=0.9, operator="max")
        steps = 2 * (size - 3) + 1  # along the wall, a turn, along the other
        most = 4 * size * size
        true = 0.9 ** (steps - 1) * (1.0 - 0.9 * steps / most)
        looked = sc.plan(problem, method="certified", epsilon=0.05, delta=DELTA)
        chance = random_play(problem, 20_000)
        low, high = looked.interval
        said = (
            f"certified {_shown((low, high))} after {looked.num_calls:,} calls; random "
            f"play {_shown(chance)}"
        )
        fits = low <= true <= high and low > chance[1]
        found.append(Row(f"`{name}`, γ = 0.9", f"{true:.9g}", said, fits))
    return found


PARTS = (  # what is measured, and the package that it needs
    (table_rows, "gymnasium"),
    (blackjack_rows, "gymnasium"),
    (cartpole_rows, "gymnasium"),
    (minigrid_rows, "minigrid"),
)


def measured() -> tuple[list[Row], list[str]]:
    """All rows, and the packages that are missing."""
    rows: list[Row] = []
    missing: list[str] = []
    for part, package in PARTS:
        if importlib.util.find_spec(package) is None:
            missing.append(package)
            continue
        for row in part():
            print(row.line(), flush=True)
            rows.append(row)
    return rows, missing


def table(rows: list[Row], missing: list[str]) -> list[str]:
    """The lines of the table, in Markdown."""
    lines = ["| world | known | found | fits |", "|---|---|---|---|"]
    lines += [row.line() for row in rows]
    lines += [f"| (left out) | needs the package {name} | | |" for name in missing]
    fit = sum(row.fits for row in rows)
    return [*lines, "", f"{fit} of {len(rows)} worlds fit."]


def main() -> int:
    """Print the table, and write it where requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sign = signed()  # with the load before it began
    rows, missing = measured()
    lines = table(rows, missing)
    print(lines[-1])
    if options.out is not None:
        head = ["# Gymnasium's sets by name", ""]
        told = f"`python -m benchmarks.worlds.worlds_gymnasium`, {sign}"
        options.out.write_text("\n".join([*head, told, "", *lines, ""]))
    return 0 if all(row.fits for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
