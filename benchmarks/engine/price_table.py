"""The price of a promise: oracle calls of the sharp schedule.

Beside it stand the target and the paper's own price.

For delta = 0.1, rewards in [0, 1], epsilon as a share of the value span B =
1/(1 - gamma), without looks (``adaptive=False``), for action values and for the
value alone. The bar is the table of a prototype with the lemmas S1, S2, S3 and
S6; where it has one number, that number is for action values, and the value
alone must not cost more. The paper's price has its delta' chosen for the same
delta.

Levels may be randomized: then a price is the mean over their corrections, ``most`` the
number exceeded with a chance below 1e-9, and ``plain`` the price without such levels,
which no entry exceeds. Some finer promises have bars of their own.

  python -m benchmarks.engine.price_table [--json] [--out docs/evidence/prices.md]

Exits with 1 if a price is above the bar.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.kinds import KINDS, Kind
from smoothcruiser.schedule.schedule import Target

SHARES = (0.20, 0.10, 0.05, 0.02, 0.01)

# action values, the value alone (None: not above the first)
Price = tuple[float, float | None]

BAR: dict[tuple[float, float, int], tuple[Price, ...]] = {
    (0.2, 10.0, 2): (
        (216, 96),
        (1.11e3, 562),
        (5.62e3, 3.39e3),
        (4.95e4, None),
        (2.81e5, None),
    ),
    (0.2, 10.0, 4): (
        (512, 96),
        (2.64e3, 562),
        (1.33e4, 3.39e3),
        (1.18e5, 6.92e4),
        (6.69e5, None),
    ),
    (0.2, 1.0, 2): (
        (238, None),
        (1.62e3, None),
        (1.37e4, None),
        (2.81e5, None),
        (3.06e6, None),
    ),
    (0.2, 0.1, 2): (
        (238, None),
        (3.9e3, None),
        (9.62e4, None),
        (9.89e6, None),
        (2.27e8, None),
    ),
    (0.5, 1.0, 2): (
        (1.44e3, None),
        (4.63e4, None),
        (1.87e6, None),
        (1.09e8, None),
        (2.88e9, None),
    ),
    (0.5, 10.0, 4): (
        (1.25e3, 256),
        (7.9e3, 1.96e3),
        (5.48e4, 2.4e4),
        (1.89e6, None),
        (4.3e7, 2.32e7),
    ),
    (0.5, 1.0, 10): (
        (2.28e4, None),
        (5.83e6, 4.4e6),
        (2.82e8, 1.52e8),
        (3.59e10, None),
        (2.85e12, 1.32e12),
    ),
    (0.7, 1.0, 2): (
        (3.01e4, None),
        (1.08e8, None),
        (5.01e10, None),
        (9.61e13, None),
        (6.71e15, None),
    ),
    (0.9, 50.0, 4): (
        (6.08e4, 1.59e4),
        (4.53e7, 1.16e7),
        (1.43e9, 3.34e8),
        (1.88e11, 5.3e10),
        (3.88e13, 1.01e13),
    ),
}

# finer promises and lower bars, for the mean price of action values: setting, share
FINER: dict[tuple[float, float, int], dict[float, float]] = {
    (0.5, 1.0, 2): {0.02: 1.25e7, 0.01: 8e7, 0.001: 1.5e11},
    (0.2, 1.0, 2): {0.001: 7e8},
    (0.5, 10.0, 4): {0.001: 4e9},
    (0.7, 1.0, 2): {0.05: 1e9, 0.02: 1e11},
    (0.9, 50.0, 4): {0.05: 5e7, 0.01: 2e10},
    (0.5, 1.0, 10): {0.01: 1.2e11},
}
PLAIN = frozenset(kind for kind in Kind if not KINDS[kind].randomized)


def paper_price(facts: Facts, epsilon: float, delta: float) -> float | None:
    """Log10 of the paper's own price with the repaired union bound.

    None where its table would be too long.
    """
    from smoothcruiser.schedule.paper_schedule import paper_schedule

    try:
        digits = str(paper_schedule(facts, epsilon=epsilon, delta=delta).num_calls)
    except SmoothcruiserError:
        return None
    return len(digits) - 1 + math.log10(float(f"{digits[0]}.{digits[1:16] or '0'}"))


Row = dict[str, float | int | str | None]


def entry(
    setting: tuple[float, float, int], share: float, target: Target, limit: float
) -> Row:
    """One entry of the table."""
    gamma, temperature, k = setting
    facts = Facts(k, k, gamma, Entropy(temperature), (0.0, 1.0))
    epsilon = share / (1.0 - gamma)
    os.environ["SMOOTHCRUISER_KEEP"] = "0"  # the search is timed
    start = time.perf_counter()
    schedule = compile_schedule(
        facts, epsilon=epsilon, delta=0.1, target=target, adaptive=False
    )
    seconds = time.perf_counter() - start
    plain = compile_schedule(
        facts, epsilon=epsilon, delta=0.1, target=target, adaptive=False, kinds=PLAIN
    )
    return {
        "discount": gamma,
        "temperature": temperature,
        "num_actions": k,
        "share": share,
        "target": target,
        "calls": schedule.mean_calls,
        "most": schedule.num_calls,
        "plain": plain.num_calls,
        "bar": limit,
        "ratio": schedule.mean_calls / limit,
        "levels": len(schedule.levels),
        "seconds": seconds,
        "paper_log10": paper_price(facts, epsilon, 0.1)
        if share == 0.05 and target == "q_values"
        else None,
    }


def rows() -> list[Row]:
    """One entry for each setting, share and target, and one for each finer bar."""
    table = []
    for setting, bars in BAR.items():
        for share, (calls, value) in zip(SHARES, bars, strict=True):
            calls = min(calls, FINER.get(setting, {}).get(share, math.inf))
            table.append(entry(setting, share, "q_values", calls))
            table.append(
                entry(setting, share, "value", calls if value is None else value)
            )
        for share, limit in FINER.get(setting, {}).items():
            if share not in SHARES:
                table.append(entry(setting, share, "q_values", limit))
    return table


def slope(table: list[Row], setting: tuple[float, float, int]) -> float:
    """How the mean price grows between 1% and 0.1%: the exponent of 1/epsilon."""
    coarse, fine = (
        next(
            float(row["calls"] or 0.0)
            for row in table
            if (row["discount"], row["temperature"], row["num_actions"]) == setting
            and (row["share"], row["target"]) == (share, "q_values")
        )
        for share in (0.01, 0.001)
    )
    return math.log10(fine / coarse)


def text(table: list[Row]) -> str:
    """The table, one line per entry, the slopes and the worst ratios."""
    lines = [
        f"{'gamma, lambda, K':>16} {'epsilon':>8} {'target':>9} {'calls':>11} {'most':>11} "
        f"{'plain':>11} {'bar':>10} {'ratio':>7} {'levels':>6} {'s':>5}  paper's"
    ]
    for row in table:
        setting = f"{row['discount']}, {row['temperature']:g}, {row['num_actions']}"
        paper = "" if row["paper_log10"] is None else f"10^{row['paper_log10']:.2f}"
        lines.append(
            f"{setting:>16} {row['share']:>8.1%} {row['target']:>9} "
            f"{row['calls']:>11.4g} {row['most']:>11.4g} {row['plain']:>11.4g} "
            f"{row['bar']:>10.3g} {row['ratio']:>7.3f} "
            f"{row['levels']:>6} {row['seconds']:>5.2f}  {paper}".rstrip()
        )
    for setting in ((0.5, 1.0, 2), (0.5, 10.0, 4)):
        lines.append(
            f"slope from 1% to 0.1% at {setting}: {slope(table, setting):.2f}"
        )
    dearer = max(float(r["calls"] or 0) / float(r["plain"] or 1) for r in table)
    lines += [
        f"worst ratio to the price without randomized levels: {dearer:.4f}",
        f"worst ratio to the bar: {worst_ratio(table):.4f}",
    ]
    return "\n".join(lines) + "\n"


def worst_ratio(table: list[Row]) -> float:
    """The largest ratio of a price to its bar."""
    return max(float(row["ratio"] or 0.0) for row in table)


def report(table: list[Row]) -> str:
    """The text with what was run, as evidence."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    return (
        "# Prices of promises, with and without randomized levels\n\n"
        f"`python {' '.join(sys.argv)}` at commit {commit.strip()}, "
        f"{time.strftime('%Y-%m-%d')}: mean calls (`calls`), the number exceeded with a\n"
        "chance below 1e-9 (`most`), the price without randomized levels (`plain`), the "
        "bar, and seconds to compile.\n\n"
        f"```text\n{text(table)}```\n"
    )


def main() -> int:
    """Print the table; 1 if a price is above the bar."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true", help="rows for programs")
    parser.add_argument("--out", type=Path, help="also write the table here")
    options = parser.parse_args()
    table = rows()
    print(json.dumps(table, indent=1) if options.json else text(table))
    if options.out:
        options.out.write_text(report(table))
    return int(worst_ratio(table) > 1.0)


if __name__ == "__main__":
    raise SystemExit(main())
