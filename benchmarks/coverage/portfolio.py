"""``auto`` against the best single method chosen in hindsight.

  python -m benchmarks.coverage.portfolio [--only TEXT] [--seeds 3] [--cap 60] [--out FILE]

Every problem of ``portfolio_worlds`` is asked for its promise with ``auto`` and with
every method that can answer, by name. A row has the medians over the seeds: calls as
counted by the Estimate (inspection and pilots included), and seconds of the wall clock
without compiling (``Estimate.compile_seconds``). A method that does not keep the
promise within the cap of seconds counts as one that cannot pay: a schedule by its
price and the measured speed of the simulator, certified search by being stopped.

The best method is that of the fewest calls where a call is what costs (plain Python,
slow simulators), and of the fewest seconds where the simulator is compiled. Both
ratios to it are printed for every problem, and the one that counts is set in bold;
where the best method makes no call at all there is no ratio of calls. Times below
``FLOOR`` count as ``FLOOR``, so that noise decides nothing. The bars, for calls and
for seconds: a geometric mean of at most 1.5, and 3 at worst.

Every interval, of the value and of each action value, is compared with the exact
answer where there is one; where there is none, the intervals of all methods have to
meet.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.coverage.portfolio_worlds import World, worlds
from benchmarks.timing import publish, signed

import smoothcruiser as sc
from smoothcruiser.errors import SmoothcruiserError

METHODS = ("exact", "certified", "smoothcruiser", "sparse-sampling")
SCHEDULED = ("smoothcruiser", "sparse-sampling")
FLOOR = 0.05  # seconds: below them a user does not wait
MEAN_BAR, WORST_BAR = 1.5, 3.0
ROUNDING = 1e-9


@dataclass(frozen=True)
class Cost:
    """What a method took for the promise: medians, or why it has none."""

    method: str
    calls: float = math.nan
    seconds: float = math.nan
    why_not: str = ""
    misses: int = 0  # answers whose intervals exclude the exact answer
    chose: str = ""  # what auto chose
    intervals: tuple[tuple[float, float], ...] = ()

    @property
    def paid(self) -> bool:
        """Whether the promise was kept within the cap."""
        return not self.why_not


def misses(answer: sc.Estimate, world: World) -> bool:
    """Whether an interval of the answer excludes the exact value."""
    if world.reference is None:
        return False
    value, q_values = world.reference()
    assert answer.interval is not None
    assert answer.certificate is not None
    boxes = [(answer.interval, value)]
    boxes += zip(answer.certificate.q_intervals, q_values, strict=True)
    return any(
        not low - ROUNDING <= truth <= high + ROUNDING
        for (low, high), truth in boxes
        if not math.isnan(truth)
    )


def unpayable(world: World, method: str, cap: float, rate: float) -> str:
    """Why a schedule is not begun: its price at the measured speed; else empty."""
    try:
        price = sc.explain(
            world.problem, epsilon=world.epsilon, delta=world.delta, method=method
        ).num_calls
    except SmoothcruiserError as error:
        return str(error)
    return "" if price / rate <= cap else f"{price:.2g} calls"


def measure(
    world: World, method: str, *, delta: float, seeds: int, cap: float
) -> Cost:
    """The cost of one method on one problem."""
    limits = {"seconds": cap} if method == "certified" else {}
    calls, seconds, wrong, answers = [], [], 0, []
    for seed in range(seeds):
        begin = time.perf_counter()
        try:
            answer = sc.plan(
                world.problem,
                epsilon=world.epsilon,
                delta=delta,
                method=method,
                seed=seed,
                **limits,
            )
        except SmoothcruiserError as error:
            return Cost(method, why_not=str(error))
        seconds.append(time.perf_counter() - begin - answer.compile_seconds)
        calls.append(answer.num_calls)
        wrong += misses(answer, world)
        answers.append(answer.interval)
        if not kept(answer, world):
            return Cost(
                method,
                calls=answer.num_calls,
                seconds=seconds[-1],
                why_not=f"±{answer.epsilon:.2g} after {seconds[-1]:.0f} s",
                misses=wrong,
            )
    return Cost(
        method,
        calls=statistics.median(calls),
        seconds=statistics.median(seconds),
        misses=wrong,
        chose=answer.method,
        intervals=tuple(answers),
    )


def kept(answer: sc.Estimate, world: World) -> bool:
    """Whether the answer has the half-width that was asked for."""
    asked, _ = sc.query.read_epsilon(world.epsilon, world.problem.facts)
    assert asked is not None
    return answer.epsilon is not None and answer.epsilon <= asked * (1 + ROUNDING)


@dataclass(frozen=True)
class Row:
    """A problem, what every method took, and what auto took."""

    world: World
    singles: tuple[Cost, ...]
    auto: Cost

    @property
    def best(self) -> Cost:
        """The method that an expert would have taken, in hindsight."""
        paid = [cost for cost in self.singles if cost.paid]
        if not paid:
            raise SystemExit(f"{self.world.name}: no single method keeps the promise")
        return min(paid, key=lambda cost: self.price(cost))

    def price(self, cost: Cost) -> tuple[float, float]:
        """What costs first, what costs second."""
        if self.world.calls_cost:
            return cost.calls, cost.seconds
        return max(cost.seconds, FLOOR), cost.calls

    @property
    def by_calls(self) -> float:
        """Calls of auto over those of the best; NaN where the best makes none."""
        return self.auto.calls / self.best.calls if self.best.calls else math.nan

    @property
    def by_seconds(self) -> float:
        """Seconds of auto over those of the best."""
        return max(self.auto.seconds, FLOOR) / max(self.best.seconds, FLOOR)


def row_of(world: World, seeds: int, cap: float) -> Row:
    """Measure every method and auto on one problem."""
    rate = sc.calibrate(world.problem)
    singles = []
    for method in METHODS:
        why = unpayable(world, method, cap, rate) if method in SCHEDULED else ""
        cost = Cost(method, why_not=why)
        if not why:
            cost = measure(world, method, delta=world.delta, seeds=seeds, cap=cap)
        singles.append(cost)
        print(f"  {world.name}: {shown(cost)} by {method}", flush=True)
    auto = measure(world, "auto", delta=world.delta, seeds=seeds, cap=cap)
    print(f"  {world.name}: {shown(auto)} by auto ({auto.chose})", flush=True)
    if not auto.paid:
        raise SystemExit(f"{world.name}: auto does not keep the promise: {auto}")
    row = Row(world, tuple(singles), auto)
    check_agreement(row)
    return row


def check_agreement(row: Row) -> None:
    """Intervals of different methods contain one truth, so any two of them meet."""
    found = [box for cost in (*row.singles, row.auto) for box in cost.intervals]
    low, high = max(box[0] for box in found), min(box[1] for box in found)
    if low > high + ROUNDING:
        print(f"  {row.world.name}: intervals do not meet: {low} > {high}", flush=True)


def shown(cost: Cost) -> str:
    """Calls and seconds in a cell."""
    if not cost.paid:
        text = cost.why_not
        if " has no model" in text:
            return "no model"
        return f"no: {text}" if len(text) < 40 else f"no: {text[:37]}..."
    return f"{cost.calls:,.0f} / {cost.seconds:.2f} s"


def number(ratio: float) -> str:
    """A ratio, or a dash where there is none."""
    return "—" if math.isnan(ratio) else f"{ratio:.2f}"


def page(rows: Sequence[Row], options: argparse.Namespace) -> tuple[str, bool]:
    """The table as Markdown, and whether both bars are kept and nothing is false."""
    said, good = [], True
    for what in ("calls", "seconds"):
        ratios = {row.world.name: getattr(row, f"by_{what}") for row in rows}
        ratios = {name: x for name, x in ratios.items() if not math.isnan(x)}
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        worst = max(ratios, key=lambda name: ratios[name])
        fine = mean <= MEAN_BAR and ratios[worst] <= WORST_BAR
        good &= fine
        said.append(
            f"By {what}: geometric mean **{mean:.2f}** (bar {MEAN_BAR}), worst "
            f"**{ratios[worst]:.2f}** on {worst} (bar {WORST_BAR}): "
            f"{'kept' if fine else 'MISSED'}."
        )
    wrong = sum(cost.misses for row in rows for cost in (*row.singles, row.auto))
    asked = sum(
        options.seeds for row in rows for cost in (*row.singles, row.auto) if cost.paid
    )
    lines = [
        "# `auto` against the best single method in hindsight",
        "",
        f"`python {' '.join(sys.argv)}` (what is counted: the script's head)",
        "",
        signed(),
        "",
        f"{len(rows)} problems, {options.seeds} seeds each, medians: calls / seconds "
        "without compiling. The ratio that counts is set in bold: calls where a call "
        "costs, seconds where the simulator is compiled or the best method makes no "
        f"call (below {FLOOR} s counts as {FLOOR} s).",
        "",
        *said,
        f"{wrong} of {asked:,} answers exclude the exact value or that of an action "
        "(delta 0.1 allows a tenth of them).",
        "",
        "| problem | promise | " + " | ".join(METHODS) + " | best | auto | chose "
        "| by calls | by seconds |",
        "|---" * (len(METHODS) + 7) + "|",
    ]
    for row in rows:
        world = row.world
        calls, seconds = number(row.by_calls), number(row.by_seconds)
        if world.calls_cost and row.best.calls > 0:
            calls = f"**{calls}**"
        else:
            seconds = f"**{seconds}**"
        cells = [
            world.name,
            f"{world.epsilon}, {world.delta:g}",
            *(shown(cost) for cost in row.singles),
            row.best.method,
            shown(row.auto),
            row.auto.chose,
            calls,
            seconds,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n", good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="problems whose name has this text")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cap", type=float, default=60.0, help="seconds per answer")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chosen = [world for world in worlds() if options.only in world.name]
    rows = [row_of(world, options.seeds, options.cap) for world in chosen]
    text, good = page(rows, options)
    publish(text, options.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
