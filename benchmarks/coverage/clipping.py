"""What clipped queries would gain: prices of the walk with and without them.

A randomized level has no range, so it answers no query (docs/randomized.md, R5). Clipped
at a distance T beyond the interval of its part Y it would have one:

  bias     v_r/(4 T) more on either side, since E (|Z| - T)+ <= E Z^2/(4 T)
  range    2 T longer
  variance not larger, because clipping is 1-Lipschitz

Here every randomized level of the compiler's walk is offered as a query in that form:
for each of six T, and for its own chances and for larger ones, which make v_r smaller.
Prices are those of the walk, before polishing (delta = 0.1, action values, epsilon as a
share of the value span). Such a kind is not built: this says what it is worth.

  python -m benchmarks.coverage.clipping [--out docs/evidence/clipping.md]
  python -m benchmarks.coverage.clipping --counts    what plain queries cost (R5a): their samples
                                            per action, their own and those below them

What this file leaves out: clipped levels as continuations or under the root, where no
range is needed.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum
from itertools import count
from pathlib import Path

import numpy as np
from benchmarks.timing import publish

from smoothcruiser.operators import Entropy
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler import candidates
from smoothcruiser.schedule.compiler.frontier import Frontier
from smoothcruiser.schedule.compiler.ladders import Ladders
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, compile_schedule
from smoothcruiser.schedule.kinds import Kinds, estimator_of
from smoothcruiser.schedule.schedule import Level
from smoothcruiser.theory.analysis import Ground, ground
from smoothcruiser.theory.moments import Backup, Moments

SETTINGS = (
    (0.5, 1.0, 2, (0.01, 0.001, 0.0001)),
    (0.2, 1.0, 2, (0.001, 0.0001)),
    (0.2, 0.1, 2, (0.01, 0.001, 0.0001)),
    (0.5, 10.0, 4, (0.001, 0.0001)),
    (0.7, 1.0, 2, (0.05, 0.02)),
    (0.9, 50.0, 4, (0.05, 0.01)),
    (0.5, 1.0, 10, (0.01,)),
)
COUNTED = (
    (0.5, 1.0, 2, 0.01),
    (0.2, 1.0, 2, 0.001),
    (0.2, 0.1, 2, 0.01),
    (0.9, 50.0, 4, 0.05),
    (0.7, 1.0, 2, 0.05),
    (0.2, 0.1, 2, 0.001),
)
DELTA = 0.1
ADDED = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # of the width, by clipping
LARGER = (1.0, 2.0, 5.0, 20.0)  # factors on the chances of corrections
# A table treats a level with a rest of this size as one without a range: a clipped level
# then answers queries alone, and the choice among plain levels is what it was.
MARK = 1e-300


class FairLadders(Ladders):
    """Ladders whose merit does not take a query's range for that of the path.

    The compiler's own does: for plain levels both are alike, and clipped ones are long.
    """

    def add(self, kind: IntEnum, query: int, back: Backup) -> None:
        box = float(np.max(self.base.q_box(None))) + float(np.max(back.bias_span))
        self.longest = box * box / 4.0
        super().add(kind, query, back)

    def _keep_best(self, table, query, width, second, still, asked, guess):  # type: ignore[no-untyped-def]
        still = np.minimum(still, self.longest + 0.0 * still)
        super()._keep_best(table, query, width, second, still, asked, guess)


class Clipping(Frontier):
    """The compiler's walk, with clipped levels as queries if ``clips`` is set."""

    def __init__(self, base: Ground, kinds: Kinds, clips: bool) -> None:
        super().__init__(base, kinds)
        randomized = {e.kind for e in self.estimators if e.randomized}
        self.clips = clips
        self.ladders = FairLadders(base, randomized, self.top, self.step)
        self._offer(0)

    def _offer(self, index: int) -> None:
        """Propose randomized levels that ask level ``index``."""
        before, self.newest = self.newest, index
        for estimator in self.estimators:
            if estimator.randomized:
                estimator.offer(self)
        self.newest = before

    def _advance(self, cells: int) -> bool:
        known = len(self.table)
        going = True
        for _ in range(cells):  # one by one, so that a cell sees those before it
            going = super()._advance(1)
            for level in self.table.levels[known:] if self.clips else ():
                for moments in self._clipped(level) if level.rungs else ():
                    self._offer(self.table.add(level, moments))
            known = len(self.table)
        return going

    def _clipped(self, level: Level) -> Iterator[Moments]:
        for factor in LARGER:
            p = np.minimum(factor * np.array(level.rungs), 1.0)
            p = p / max(1.0, (1.0 + 1e-9) * float(np.sum(p)))
            row = replace(level, rungs=tuple(float(x) for x in p))
            made = self.table.moments_over(self.table, row)
            rest, width = float(np.max(made.rare)), float(made.width[0])
            for share in ADDED:
                far = rest / (2.0 * share * width)
                yield replace(
                    made,
                    bias_low=made.bias_low - rest / (4.0 * far),
                    bias_high=made.bias_high + rest / (4.0 * far),
                    low=made.low - far,
                    high=made.high + far,
                    rare=MARK + 0.0 * made.rare,
                )


def price(facts: Facts, epsilon: float, front: Frontier) -> float:
    """The least price that the walk finds."""
    for number in count():
        stop = front.stop(number)
        if stop is None or np.min(front.table.bias_span) < epsilon / 50.0:
            break
    size = len(front.table)
    prices = candidates._root_prices(
        facts, front.table, "q_values", epsilon, DELTA, size
    )
    return math.exp(float(np.min(prices)))


def counts() -> None:
    """Print the levels that randomized levels of compiled tables ask."""
    print("| γ, λ, K | ε | mean price | N of the levels asked | their calls |")
    print("|---|---|---|---|---|")
    for gamma, temperature, k, share in COUNTED:
        facts = Facts(k, k, gamma, Entropy(temperature), (0.0, 1.0))
        epsilon = share * facts.value_span()
        plan = compile_schedule(facts, epsilon=epsilon, delta=DELTA, adaptive=False)
        asked = {row.query for row in plan.levels if row.rungs}
        samples = sorted({n for i in asked for n in _counts_below(plan.levels, i)})
        calls = [plan.level_calls[i] for i in asked]
        told = ", ".join(map(str, samples)) or "none"
        print(
            f"| {gamma:g}, {temperature:g}, {k} | {share:.1%} | {plan.mean_calls:.3g} "
            f"| {told} | {min(calls):g} to {max(calls):g} |"
        )


def _counts_below(levels: tuple[Level, ...], index: int) -> set[int]:
    """The samples per action of a level and of all levels that it reaches."""
    level, found = levels[index], set()
    kind = estimator_of(level.kind)
    if kind.asks:
        found |= {level.samples} | _counts_below(levels, level.query)
    if kind.goes_on:
        found |= _counts_below(levels, level.continuation)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--counts", action="store_true")
    options = parser.parse_args()
    if options.counts:
        counts()
        return
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    lines = [
        "# What clipped queries would gain",
        "",
        f"`python {' '.join(sys.argv)}` at commit {commit.strip()}, "
        f"{time.strftime('%Y-%m-%d')} (what is compared: the script's head)",
        "",
        "| γ, λ, K | ε | without | with clipped queries | ratio |",
        "|---|---|---|---|---|",
    ]
    for gamma, temperature, k, shares in SETTINGS:
        facts = Facts(k, k, gamma, Entropy(temperature), (0.0, 1.0))
        fronts = [Clipping(ground(facts), ALL_KINDS, clips) for clips in (False, True)]
        for share in shares:
            epsilon = share * facts.value_span()
            without, clipped = (price(facts, epsilon, front) for front in fronts)
            lines.append(
                f"| {gamma:g}, {temperature:g}, {k} | {share:.2%} | {without:.3g} "
                f"| {clipped:.3g} | {clipped / without:.3f} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines) + "\n"
    publish(text, options.out)


if __name__ == "__main__":
    main()
