"""The gallery of lying worlds as a table: how every world ended, what caught it, and where.

  python -m benchmarks.coverage.lying_worlds --runs 20 --out docs/evidence/lying-worlds.md

The worlds and the law are those of ``tests/statistical/lying_worlds``, asked with as many
seeds as ``--runs`` says; the exit code is 1 if a run ended as it must not.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.statistical.lying_worlds import WORLDS, law
from tests.statistical.lying_worlds.law import Ask, Verdict, World

COLUMNS = [
    "world",
    "kind",
    "what lies",
    "asked by",
    "runs",
    law.REFUSED,
    law.COVERED,
    law.NAMED,
    "wrong",
]
COLUMNS += ["what catches it (where)"]
MOST_LETTERS = 110  # of a sentence in a cell


@dataclass
class Row:
    """The runs of one world under one way of asking."""

    world: World
    ask: Ask
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def counts(self) -> Counter[str]:
        """How often each ending came."""
        return Counter(verdict.ending for verdict in self.verdicts)

    @property
    def wrong(self) -> list[Verdict]:
        """Runs that ended as they must not."""
        return [
            verdict
            for verdict in self.verdicts
            if verdict.ending not in self.world.ends
        ]

    @property
    def caught(self) -> str:
        """What catches the lie, and where: the sentence of the first run that
        is worth telling.
        """
        telling = self.wrong or [v for v in self.verdicts if v.ending != law.COVERED]
        if not telling:
            return "the intervals hold the truth"
        where = f" ({short(telling[0].where)})" if telling[0].where else ""
        return f"{short(telling[0].told)}{where}"


def rows_of(worlds: Iterable[World], runs: int) -> list[Row]:
    """Every world, asked in each of its ways ``runs`` times; slow processes get
    a tenth.
    """
    rows = []
    for world in worlds:
        for ask in world.asks:
            row, begin = Row(world, ask), time.perf_counter()
            for seed in range(runs if ask.executor is None else max(2, runs // 10)):
                row.verdicts.append(law.attempt(world, ask, seed))
            row.seconds = time.perf_counter() - begin
            rows.append(row)
            show(row)
    return rows


def short(text: str) -> str:
    """A sentence that fits into a cell."""
    line = re.sub(r"\s+", " ", text).replace("|", "/")
    return line if len(line) <= MOST_LETTERS else line[: MOST_LETTERS - 1] + "…"


def table(rows: list[Row], runs: int) -> str:
    """The Markdown page."""
    total = sum(len(row.verdicts) for row in rows)
    wrong = sum(len(row.wrong) for row in rows)
    lying = {row.world.name for row in rows if row.world.kind != "honest"}
    honest = {row.world.name for row in rows} - lying
    today, load = datetime.date.today(), os.getloadavg()[0]
    machine = (
        f"{today:%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, load "
        f"{load:.1f}"
    )
    summary = (
        f"{len(lying)} worlds that lie and {len(honest)} that do not, {total:,} runs; "
    )
    summary += f"{wrong} ended as they must not."
    lines = [
        "# Lying worlds",
        "",
        f"`python -m benchmarks.coverage.lying_worlds --runs {runs}`, {machine}",
        "",
        summary,
        "",
        (
            "Refused: `plan` raised a sentence that names the fault. Covered: every "
            "interval held the"
        ),
        (
            "exact value of the world as it is honestly meant. Named: the certificate "
            "names the"
        ),
        "assumption that is false, and `check` finds it where that is possible.",
        (
            "Wrong: a false certificate without a word, a sentence about something "
            "else, or a crash."
        ),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        counts = row.counts
        endings = ", ".join(sorted({verdict.ending for verdict in row.wrong}))
        bad = f"**{len(row.wrong)}** {endings}" if row.wrong else "0"
        cells = [
            row.world.name,
            row.world.kind,
            row.world.lie,
            row.ask.label,
            str(len(row.verdicts)),
        ]
        cells += [
            str(counts[ending]) for ending in (law.REFUSED, law.COVERED, law.NAMED)
        ]
        lines.append("| " + " | ".join([*cells, bad, row.caught]) + " |")
    return "\n".join(lines) + "\n"


def show(row: Row):
    """One line on the terminal."""
    mark = "WRONG" if row.wrong else "ok"
    name = f"{row.world.kind}: {row.world.name}: {row.ask.label}"
    line = f"{mark:5} {row.seconds:6.2f} s  {name}: {dict(row.counts)}: {row.caught}"
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the gallery, print its table.")
    parser.add_argument("--runs", type=int, default=20, help="seeds for each ask")
    parser.add_argument("--only", default="", help="a part of the kind or name")
    parser.add_argument("--out", type=Path, help="the page (default: the terminal)")
    given = parser.parse_args()
    worlds = [world for world in WORLDS if given.only in f"{world.kind}: {world.name}"]
    rows = rows_of(worlds, given.runs)
    page = table(rows, given.runs)
    if given.out is None:
        print(page)
    else:
        given.out.write_text(page)
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
