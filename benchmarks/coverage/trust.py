"""Estimates and promises beside the truth: a table of requests, and their coverage.

  python -m benchmarks.coverage.trust [--runs 500] [--workers 2] [--out FILE]

The table has twenty problems, most of them with costs or a discount of at least 0.95.
Each row asks as a user would and shows the estimate (``value``), its usual standard
error, the promised interval and the exact value (``known_worlds``). A row is good
where the estimate is within four standard errors of the truth, or, for certified search
and where there is no standard error, within 10% of |V|.

Coverage repeats every row with other seeds and a smaller budget, and adds worlds made
to break a promise: rare events, heavy tails, rewards at the ends of their range,
continuous states, and constant rewards whose exact value is a fraction, with no
rounding forgiven; 500 runs of each are more than 20,000. A run fails where an interval
(of the value or of an action value) excludes the truth, or where the estimate is
further from it than the epsilon that was requested and reached. Failures stand against
delta by the exact binomial tail; a tail below 1e-4 in any row ends the script with 1,
and so does any estimate outside of its own interval. Nothing is promised of the other
columns: the mean of estimate - truth in units of the pooled standard error (the root of
its mean square), and the share of runs within two and four of their own standard errors.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.coverage import known_worlds as worlds
from benchmarks.coverage.known_worlds import (
    longest_queue,
    order_up_to,
    turns,
    worst_machine,
)
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.timing import publish, signed

import smoothcruiser as sc

FALSE_ALARM = 1e-4  # of one row
ROUNDING = 1e-9
DELTA = 0.1


@dataclass
class Row:
    """One request: a world, how it is asked, and a smaller budget for coverage."""

    build: Callable[[], worlds.Known]
    request: dict[str, Any] = field(default_factory=dict)  # empty: coverage alone
    small: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def known(self) -> worlds.Known:
        """The problem and its exact value."""
        return self.build()

    @property
    def name(self) -> str:
        """The verb or the method."""
        if self.known.policy is not None:
            return "evaluate"
        return str((self.request | self.small).get("method", "auto"))

    def answer(self, seed: int, request: dict[str, Any]) -> sc.Estimate:
        """The Estimate of a request."""
        request = request | {"delta": DELTA, "seed": seed}
        if self.known.policy is not None:
            return sc.evaluate(self.known.problem, self.known.policy, **request)
        return sc.plan(self.known.problem, **request)


def certified(calls: int) -> dict[str, Any]:
    """A budget for certified search."""
    return {"method": "certified", "budget": calls}


def calls(budget: int) -> dict[str, Any]:
    """A budget."""
    return {"budget": budget}


@cache
def rows() -> list[Row]:
    """Twenty requests of the table, fourteen with a discount of at least 0.95; then
    those of coverage alone.
    """
    w, soft = worlds, {"temperature": 0.5}
    game = w.garnet(30, 3, 0.95, player=turns)
    little_game = w.garnet(12, 3, 0.4, player=turns)
    stuck, offers = w.rare_breakdown(0.99), w.secretary(12)
    stock, stock_99 = w.inventory(0.95), w.inventory(0.99)
    wear, fair_offer = w.maintenance(0.97), lambda offer: int(offer >= 7)
    small, tiny = calls(2_000), calls(1_000)
    cruise = {"method": "smoothcruiser"}
    sparse = {"method": "sparse-sampling"}
    return [
        Row(stock.planned, certified(300_000), small),
        Row(w.inventory(0.97).planned, certified(300_000), small),
        Row(w.queues(0.98).planned, certified(300_000), small),
        Row(w.maintenance(0.95).planned, certified(300_000), small),
        Row(w.garnet(50, 4, 0.99).planned, calls(200_000), small),
        Row(game.planned, calls(100_000), tiny),
        Row(w.lake(8, 0.99).planned, calls(200_000), small),
        Row(w.replacement(0.99).planned, calls(100_000), small),
        Row(lambda: stock.evaluated(order_up_to), calls(150_000), tiny),
        Row(lambda: stock_99.evaluated(order_up_to), calls(150_000), tiny),
        Row(lambda: w.queues(0.98).evaluated(longest_queue), calls(150_000), tiny),
        Row(lambda: wear.evaluated(worst_machine), calls(150_000), tiny),
        Row(lambda: stuck.evaluated(lambda state: 1), calls(150_000), tiny),
        Row(stuck.planned, certified(150_000), small),
        Row(offers.planned, calls(30_000), tiny),
        Row(lambda: offers.evaluated(fair_offer), calls(30_000), tiny),
        Row(
            w.garnet(8, 2, 0.3, **soft).planned,
            cruise | {"epsilon": "5%"},
            {"epsilon": "15%"},
        ),
        Row(little_game.planned, sparse | {"epsilon": "10%"}, {"epsilon": "25%"}),
        Row(
            w.garnet(20, 3, 0.6, **soft).planned, {"epsilon": "2%"}, {"epsilon": "15%"}
        ),
        Row(w.lake(4, 0.9).planned, {"epsilon": 0.02}, {"epsilon": 0.5}),
        *(Row(lambda k=k: k, small=calls(5_000)) for k in w.evaluated_tables()),
        *broken_rows(),
    ]


def broken_rows() -> list[Row]:
    """Worlds made to break a promise, for coverage alone."""
    w, small = worlds, certified(3_000)
    some, any_policy = {"epsilon": "25%"}, lambda state: 0
    sparse = some | {"method": "sparse-sampling"}
    return [
        Row(lambda: w.lottery(0.95).planned(compiled=True), small=small),
        Row(lambda: w.fines(0.9).planned(compiled=True), small=small),
        Row(lambda: w.range_ends(0.9).planned(compiled=True), small=small),
        Row(lambda: w.secretary(12).planned(compiled=True), small=small),
        Row(lambda: w.range_ends(0.4).planned(compiled=True), small=sparse),
        Row(w.lottery(0.5).planned, small=some),
        Row(lambda: w.constant(0.1, 0.99, (0.0, 0.1)), small=certified(300)),
        Row(lambda: w.constant(-0.7, 0.3, (-0.7, 0.0)), small=sparse),
        Row(lambda: w.constant(0.1, 0.99, (0.0, 0.1), any_policy), small=calls(1_000)),
        Row(lambda: w.selling(0.9), small=calls(1_000)),
        Row(lambda: w.selling(0.95, 0.6), small=calls(1_000)),
        Row(lambda: w.drift(0.5), small=sparse),
        Row(lambda: w.drift(0.95, any_policy), small=calls(1_000)),
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


def excludes(estimate: sc.Estimate, known: worlds.Known) -> bool:
    """Whether an interval excludes the truth, up to the rounding of sweeps."""
    assert estimate.certificate is not None
    assert estimate.interval is not None
    boxes = [(estimate.interval, known.truth)]
    boxes += zip(estimate.certificate.q_intervals, known.q_values, strict=False)
    slack = 0.0 if isinstance(known.truth, Fraction) else ROUNDING
    slack *= max(1.0, abs(known.truth))
    if not slack:  # floats and fractions are compared exactly
        return any(not low <= x <= high for (low, high), x in boxes)
    return any(not low - slack <= x <= high + slack for (low, high), x in boxes)


@dataclass
class Tally:
    """One row's runs."""

    runs: int = 0
    failures: int = 0  # an interval excludes the truth, or epsilon is exceeded
    outside: int = 0  # an estimate outside of its own interval
    two: int = 0  # within two standard errors
    four: int = 0
    errors: int = 0  # runs with a standard error
    bias: float = 0.0  # sum of their estimate - truth
    squares: float = 0.0  # sum of their squared standard errors
    off: float = 0.0  # sum of |estimate - truth|
    middle: float = 0.0  # sum of |middle of the interval - truth|

    def take(self, estimate: sc.Estimate, known: worlds.Known, aims: bool) -> None:
        """Count one answer; ``aims`` says that an epsilon was requested."""
        assert estimate.interval is not None
        low, high = estimate.interval
        truth = float(known.truth)
        slack, off = ROUNDING * max(1.0, abs(truth)), abs(estimate.value - truth)
        beyond = aims and off > (estimate.epsilon or 0.0) + slack
        self.runs += 1
        self.failures += beyond or excludes(estimate, known)
        self.outside += not low <= estimate.value <= high
        self.off += off
        self.middle += abs(0.5 * (low + high) - truth)
        if estimate.standard_error is not None:
            self.errors += 1
            self.two += off <= 2.0 * estimate.standard_error + slack
            self.four += off <= 4.0 * estimate.standard_error + slack
            self.bias += estimate.value - truth
            self.squares += estimate.standard_error**2

    def usual(self) -> str:
        """The columns on standard errors."""
        if not self.errors:
            return "0 | none | none"
        pooled, bias = math.sqrt(self.squares / self.errors), self.bias / self.errors
        shown = "0" if abs(bias) <= ROUNDING else f"{bias / pooled:+.2f}"
        shares = f"{self.two / self.errors:.3f}, {self.four / self.errors:.3f}"
        return f"{self.errors} | {shown} | {shares}"


def study(job: tuple[int, int]) -> tuple[int, sc.Estimate | None, Tally, float]:
    """One row: the answer of the table, the runs of coverage, CPU seconds."""
    number, runs = job
    row, begin = rows()[number], time.process_time()
    shown = row.answer(0, row.request) if row.request else None
    tally, request = Tally(), row.request | row.small
    for seed in range(1, runs + 1):
        tally.take(row.answer(seed, request), row.known, "epsilon" in request)
    return number, shown, tally, time.process_time() - begin


def shown_line(row: Row, shown: sc.Estimate) -> tuple[str, bool]:
    """A line of the first table, and whether it is good."""
    truth, error = float(row.known.truth), shown.standard_error
    fine, near = verdict(shown, truth)
    assert shown.interval is not None
    low, high = shown.interval
    line = (
        f"| {row.known.name} | {row.name} | {shown.num_calls:,} | {shown.value:.4g} "
        f"| {'none' if error is None else f'{error:.2g}'} | [{low:.4g}, {high:.4g}] "
        f"| {truth:.4g} | {near}{'' if fine else ' **too far**'} |"
    )
    return line, fine and not excludes(shown, row.known)


def request_words(row: Row) -> str:
    """The request of coverage: verb or method, and its limit."""
    request = row.request | row.small
    if "epsilon" in request:
        return f"{row.name}, epsilon {request['epsilon']}"
    return f"{row.name}, {request['budget']:,} calls"


def coverage_line(row: Row, tally: Tally) -> tuple[str, bool]:
    """A line of the second table, and whether the row is good."""
    tail = binomial_tail(tally.failures, tally.runs, DELTA)
    holds, runs = tail >= FALSE_ALARM and not tally.outside, max(1, tally.runs)
    line = (
        f"| {row.known.name} | {request_words(row)} | {tally.runs:,} "
        f"| {tally.failures} | {tail:.2g} | {tally.outside} | {tally.usual()} "
        f"| {tally.off / runs:.3g} | {tally.middle / runs:.3g} |"
    )
    return line if holds else f"{line} **fails**", holds


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
    good, table = True, []
    for number, shown, tally, _ in studies:
        row = rows()[number]
        if shown is not None:
            line, fine = shown_line(row, shown)
            lines.append(line)
            good &= fine
        line, fine = coverage_line(row, tally)
        table.append(line)
        good &= fine
    runs, failures = (
        sum(getattr(tally, name) for _, _, tally, _ in studies)
        for name in ("runs", "failures")
    )
    cpu = sum(spent for *_, spent in studies)
    lines += [
        "",
        f"{runs:,} runs of coverage in {seconds:.0f} s ({cpu:.0f} CPU seconds): "
        f"{failures} failed where delta = {DELTA:g} allows {DELTA * runs:,.0f}.",
        "",
        "| problem | request | runs | failures | tail | estimate outside | runs with a "
        "standard error | their mean of estimate - truth, in standard errors | within "
        "2, 4 standard errors "
        "| mean error of the estimate | of the middle |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *table,
    ]
    return "\n".join(lines) + "\n", good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500, help="of coverage, per row")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    jobs = [(number, options.runs) for number in range(len(rows()))]
    with get_context("spawn").Pool(options.workers) as pool:
        studies = sorted(pool.imap_unordered(study, jobs, 1), key=lambda s: s[0])
    text, good = page(studies, time.perf_counter() - begin)
    publish(text, options.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
