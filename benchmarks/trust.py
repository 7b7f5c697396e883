"""Estimates and promises beside the truth: a table of requests, and their coverage.

  python benchmarks/trust.py [--runs 40] [--workers 2] [--out FILE]

The table has twenty problems, most of them with costs or a discount of at least 0.95.
Each row asks as a user would and shows the estimate (``value``), its usual standard
error, the promised interval and the exact value (``ordinary_worlds``). A row is good
where the estimate is within four standard errors of the truth, or, for certified search
and where there is no standard error, within 10% of |V|.

Coverage repeats every row with other seeds and a smaller budget. Counted are: intervals
(of the value and of every action value) that exclude the truth, against delta by the
exact binomial tail, a false alarm in any row having probability 1e-3 at most; estimates
outside of their own interval (none may be); estimates further than epsilon from the
truth where epsilon was requested and reached; and the share of estimates within two and
four standard errors, where there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ordinary_worlds as worlds
from sharp_coverage import binomial_tail
from timing import signed

import smoothcruiser as sc

FALSE_ALARM = 1e-3
ROUNDING = 1e-9
DELTA = 0.1


@dataclass(frozen=True)
class Row:
    """One request: a world, how it is asked, and a smaller budget for coverage."""

    world: worlds.World
    request: dict[str, Any]
    policy: Callable[[Any], int] | None = None  # evaluated where there is one
    small: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The verb or the method."""
        return "evaluate" if self.policy else str(self.request.get("method", "auto"))

    def answer(self, seed: int, **changed: Any) -> sc.Estimate:
        """The Estimate of the request."""
        asked = self.request | changed | {"delta": DELTA, "seed": seed}
        problem = self.world.problem()
        if self.policy is not None:
            return sc.evaluate(problem, self.policy, **asked)
        return sc.plan(problem, **asked)

    def truth(self) -> tuple[float, Any]:
        """The exact value, and the action values where they are answered."""
        if self.policy is not None:
            return self.world.policy_truth(self.policy), ()
        return self.world.truth()


def certified(calls: int) -> dict[str, Any]:
    """A budget for certified search."""
    return {"method": "certified", "budget": calls}


def order_up_to(state: Any) -> int:
    """A rule of thumb for the inventory."""
    return min(max(8 - state[0] - state[1], 0), 6)


def longest_queue(state: Any) -> int:
    """Serve the longer queue."""
    return 0 if state[0] >= state[1] else 1


def worst_machine(state: Any) -> int:
    """Repair the most worn machine once it is bad."""
    worst = max(range(3), key=lambda i: state[i])
    return worst if state[worst] >= 3 else 3


def turns(state: Any) -> int:
    """Players alternate by the number of the state."""
    return 1 + state % 2


def rows() -> list[Row]:
    """The twenty requests; fourteen have a discount of at least 0.95."""
    w = worlds
    cheap, small = {"budget": 20_000}, {"budget": 5_000}
    soft = {"temperature": 0.5}
    return [
        Row(w.inventory(0.95), certified(300_000), small=cheap),
        Row(w.inventory(0.97), certified(300_000), small=cheap),
        Row(w.queues(0.98), certified(300_000), small=cheap),
        Row(w.maintenance(0.95), certified(300_000), small=cheap),
        Row(w.garnet(50, 4, 0.99), {"budget": 200_000}, small=cheap),
        Row(w.garnet(30, 3, 0.95, player=turns), {"budget": 100_000}, small=cheap),
        Row(w.lake(8, 0.99), {"budget": 200_000}, small=cheap),
        Row(w.replacement(0.99), {"budget": 100_000}, small=cheap),
        Row(w.inventory(0.95), {"budget": 150_000}, order_up_to, small),
        Row(w.inventory(0.99), {"budget": 150_000}, order_up_to, small),
        Row(w.queues(0.98), {"budget": 150_000}, longest_queue, small),
        Row(w.maintenance(0.97), {"budget": 150_000}, worst_machine, small),
        Row(w.rare_breakdown(0.99), {"budget": 150_000}, lambda state: 1, small),
        Row(w.rare_breakdown(0.99), certified(150_000), small=cheap),
        Row(w.secretary(12), {"budget": 30_000}, small=small),
        Row(w.secretary(12), {"budget": 30_000}, lambda offer: int(offer >= 7), small),
        Row(
            w.garnet(8, 2, 0.3, **soft),
            {"method": "smoothcruiser", "epsilon": "5%"},
            small={"epsilon": "15%"},
        ),
        Row(
            w.garnet(12, 3, 0.4, player=turns),
            {"method": "sparse-sampling", "epsilon": "10%"},
            small={"epsilon": "25%"},
        ),
        Row(w.garnet(20, 3, 0.6, **soft), {"epsilon": "2%"}, small={"epsilon": "8%"}),
        Row(w.lake(4, 0.9), {"epsilon": 0.02}, small={"epsilon": 0.1}),
    ]


def verdict(estimate: sc.Estimate, truth: float) -> tuple[bool, str]:
    """Whether the estimate is near enough, and how near it is."""
    off = abs(estimate.value - truth)
    error = estimate.standard_error
    if error is not None and estimate.method != "certified":
        return (
            off <= 4.0 * error + ROUNDING,
            f"{off / error:.1f} errors" if error else "0",
        )
    return off <= 0.1 * abs(truth), f"{100.0 * off / abs(truth):.1f}% of abs(V)"


@dataclass
class Tally:
    """One row's runs."""

    runs: int = 0
    misses: int = 0  # an interval excludes the truth
    outside: int = 0  # an estimate outside of its own interval
    beyond: int = 0  # further than the epsilon that was requested and reached
    two: int = 0  # within two standard errors
    four: int = 0
    errors: int = 0  # runs with a standard error
    off: float = 0.0  # sum of |estimate - truth|
    middle: float = 0.0  # sum of |middle of the interval - truth|

    def take(
        self, estimate: sc.Estimate, truth: float, q_values: Any, aims: bool
    ) -> None:
        """Count one answer."""
        assert estimate.certificate is not None
        assert estimate.interval is not None
        low, high = estimate.interval
        boxes = [((low, high), truth)]
        boxes += zip(estimate.certificate.q_intervals, q_values, strict=False)
        slack = ROUNDING * max(1.0, abs(truth))
        off = abs(estimate.value - truth)
        self.runs += 1
        self.misses += any(not a - slack <= x <= b + slack for (a, b), x in boxes)
        self.outside += not low <= estimate.value <= high
        self.beyond += aims and off > (estimate.epsilon or 0.0) + slack
        self.off += off
        self.middle += abs(0.5 * (low + high) - truth)
        if estimate.standard_error is not None:
            self.errors += 1
            self.two += off <= 2.0 * estimate.standard_error + slack
            self.four += off <= 4.0 * estimate.standard_error + slack


def study(job: tuple[int, int]) -> tuple[int, sc.Estimate, float, Tally]:
    """One row: the answer of the table, the truth, and the runs of coverage."""
    number, runs = job
    row = rows()[number]
    truth, q_values = row.truth()
    shown = row.answer(0)
    tally = Tally()
    for seed in range(1, runs + 1):
        estimate = row.answer(seed, **row.small)
        tally.take(estimate, truth, q_values, "epsilon" in row.request)
    return number, shown, truth, tally


def page(studies: list[Any], seconds: float) -> tuple[str, bool]:
    """The two tables as Markdown, and whether everything held."""
    lines = [
        "# Estimates and promises beside the truth",
        "",
        f"`python {' '.join(sys.argv)}` (what is counted: the script's head)",
        "",
        signed(),
        "",
        "| problem | request | calls | estimate | standard error | interval (0.9) | truth "
        "| off by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    good, every, table = True, rows(), []
    for number, shown, truth, tally in studies:
        row, error = every[number], shown.standard_error
        fine, near = verdict(shown, truth)
        low, high = shown.interval
        good &= fine and low - ROUNDING <= truth <= high + ROUNDING
        lines.append(
            f"| {row.world.name} | {row.name} | {shown.num_calls:,} | {shown.value:.4g} "
            f"| {'none' if error is None else f'{error:.2g}'} | [{low:.4g}, {high:.4g}] "
            f"| {truth:.4g} | {near}{'' if fine else ' **too far**'} |"
        )
        tail = binomial_tail(tally.misses, tally.runs, DELTA)
        held = (
            tail >= FALSE_ALARM / len(every) and not tally.outside and not tally.beyond
        )
        good &= held
        share = "none"
        if tally.errors:
            share = f"{tally.two / tally.errors:.3f}, {tally.four / tally.errors:.4f}"
        table.append(
            f"| {row.world.name} | {row.name} | {tally.runs:,} | {tally.misses} "
            f"| {tally.outside} | {tally.beyond} | {share} "
            f"| {tally.off / max(1, tally.runs):.3g} "
            f"| {tally.middle / max(1, tally.runs):.3g} |{'' if held else ' **fails**'}"
        )
    runs = sum(tally.runs for *_, tally in studies)
    misses = sum(tally.misses for *_, tally in studies)
    lines += [
        "",
        f"{runs:,} runs of coverage in {seconds:.0f} s: {misses} intervals exclude the "
        f"truth where delta = {DELTA:g} allows {DELTA * runs:.0f}.",
        "",
        "| problem | request | runs | misses | estimate outside | beyond epsilon "
        "| within 2, 4 standard errors | mean error of the estimate | of the middle |",
        "|---|---|---|---|---|---|---|---|---|",
        *table,
    ]
    return "\n".join(lines) + "\n", good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40, help="of coverage, per row")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    jobs = [(number, options.runs) for number in range(len(rows()))]
    with get_context("spawn").Pool(options.workers) as pool:
        studies = sorted(pool.imap_unordered(study, jobs, 1), key=lambda s: s[0])
    text, good = page(studies, time.perf_counter() - begin)
    print(text)
    if options.out:
        options.out.write_text(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
