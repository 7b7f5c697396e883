"""``evaluate`` against exact values: half-widths at equal calls, coverage, and bias.

    python -m benchmarks.certified.evaluate_paths [--runs 200] [--before FILE]
        [--figures FILE] [--out docs/evidence/evaluate-paths.md]

The first table has one run of each world (``known_worlds``) and budget, delta = .1.
``--figures FILE`` writes its numbers and stops; run with an older version of the package
on the path it makes the file that ``--before`` sets beside those of today.

The second has ``--runs`` runs of each table and of three budgets: how often the interval
missed the exact value (at most a share delta may; the exact binomial tail is tested, any
false alarm at 1e-3 over all rows), how often an interval a quarter as wide would have,
the error of ``value`` in standard errors (of the runs in which two paths differed at
all; "no spread" counts the others: nothing rare was met, or no two paths finished), and
the error of the mean of all values in its own standard error, which a bias would show.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.coverage.known_worlds import (
    Known,
    evaluated_simulators,
    evaluated_tables,
)
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.timing import commit, signed

import smoothcruiser as sc

DELTA, FALSE_ALARM = 0.1, 1e-3
COMPARED, COVERED = (15_000, 150_000), (1_000, 5_000, 20_000)


def worlds() -> list[Known]:
    """All of them, simulators first."""
    return [*map(with_shares, evaluated_simulators()), *evaluated_tables()]


def with_shares(known: Known) -> Known:
    """The policy as probabilities, which older versions of the package need."""
    rows = np.eye(known.problem.num_actions).tolist()
    return replace(known, policy=lambda state: rows[known.policy(state)])


def figures() -> list[dict[str, Any]]:
    """One run of each world and budget."""
    rows = []
    for world in worlds():
        for budget in COMPARED:
            sc.evaluate(world.problem, world.policy, budget=100)  # compiles
            begin = time.process_time()
            answer = sc.evaluate(
                world.problem, world.policy, budget=budget, delta=DELTA, seed=1
            )
            rows.append(
                {
                    "world": world.name,
                    "truth": float(world.truth),
                    "calls": budget,
                    "value": answer.value,
                    "error": getattr(answer, "standard_error", None),
                    "low": answer.interval[0],
                    "high": answer.interval[1],
                    "seconds": time.process_time() - begin,
                }
            )
    return rows


def half(row: dict[str, Any]) -> float:
    """The half-width of a row."""
    return 0.5 * float(row["high"] - row["low"])


def compared(now: list[dict[str, Any]], before: dict[str, Any] | None) -> list[str]:
    """The first table."""
    old = {}
    if before is not None:
        old = {(row["world"], row["calls"]): row for row in before["rows"]}
    lines = [
        "| world | V_pi | calls | before: value ± half-width | now: value ± half-width | "
        "narrower | standard error | off by | CPU |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in now:
        then = old.get((row["world"], row["calls"]))
        shown, ratio = "", ""
        if then is not None:
            shown = f"{then['value']:.5g} ± {half(then):.3g}"
            ratio = f"{half(then) / half(row):.1f}"
        off = abs(row["value"] - row["truth"]) / max(row["error"], 1e-300)
        lines.append(
            f"| {row['world']} | {row['truth']:.5g} | {row['calls']:,} | {shown} | "
            f"{row['value']:.5g} ± {half(row):.3g} | {ratio} | {row['error']:.3g} | "
            f"{off:.1f} | {row['seconds']:.2f} s |"
        )
    return lines


def covered(runs: int) -> tuple[list[str], bool]:
    """(the second table, whether a row is beyond its delta)."""
    lines = [
        "| world | calls | runs | misses | a quarter as wide | off by, in standard "
        "errors: median | 95% | largest | no spread | mean of all values, in its standard errors |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    failed, total, missed = False, 0, 0
    places = list(evaluated_tables())
    for world in places:
        for budget in COVERED:
            values, errors, misses, narrow, alike = [], [], 0, 0, 0
            for seed in range(runs):
                answer = sc.evaluate(
                    world.problem, world.policy, budget=budget, delta=DELTA, seed=seed
                )
                low, high = answer.interval
                misses += not low <= world.truth <= high
                off = answer.value - world.truth
                narrow += abs(off) > (high - low) / 8.0
                values.append(off)
                error = answer.standard_error
                # where no path differed from another it is rounding alone
                if error is not None and error > 1e-6 * answer.epsilon:
                    errors.append(abs(off) / error)
                else:
                    alike += 1
            level = FALSE_ALARM / (len(places) * len(COVERED))
            failed = failed or binomial_tail(misses, runs, DELTA) < level
            total, missed = total + runs, missed + misses
            scale = float(np.std(values, ddof=1)) / math.sqrt(runs)
            mean = float(np.mean(values)) / scale
            quantiles = ["", "", ""]
            if errors:
                quantiles = [f"{q:.2f}" for q in np.quantile(errors, (0.5, 0.95, 1.0))]
            lines.append(
                f"| {world.name} | {budget:,} | {runs} | {misses} | {narrow} | "
                f"{' | '.join(quantiles)} | {alike} | {mean:+.1f} |"
            )
            print(lines[-1], flush=True)
    lines += [
        "",
        f"{total:,} runs, {missed} misses where {DELTA * total:,.0f} may be.",
    ]
    return lines, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    now = figures()
    if asked.figures is not None:
        package = f"the package of commit {commit(Path(sc.__file__).parent)}; "
        signature = {"rows": now, "by": package + signed()}
        asked.figures.write_text(json.dumps(signature, indent=1) + "\n")
        return 0
    before = None if asked.before is None else json.loads(asked.before.read_text())
    first = compared(now, before)
    print("\n".join(first), flush=True)
    second, failed = covered(asked.runs)
    page = [
        "# `evaluate` by killed paths",
        "",
        f"`python -m benchmarks.certified.evaluate_paths --runs {asked.runs}`; {signed()}",
        "",
        (__doc__ or "").split("\n\n")[2].replace("\n", " "),
        "",
        *first,
        "",
        *([] if before is None else [f"Before: {before['by']}", ""]),
        "## Coverage and bias",
        "",
        (__doc__ or "").split("\n\n")[3].replace("\n", " "),
        "",
        *second,
        "",
        "At 1,000 calls of a world with discount .999 one path in all finishes, or none: "
        "`value` is then a guess from the first steps (`standard_error` None), which the "
        "last column shows; a note says that no rollout finished.",
    ]
    if asked.out is not None:
        asked.out.write_text("\n".join(page) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
