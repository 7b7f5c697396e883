"""The results of a reproduction, and their CSV files.

Plain rows go in and plain text comes out, numbers with every digit they have.
``table1.csv`` has exactly the columns environment, mean, std, runs, paper_mean,
paper_std. Counts in ``figure1.csv`` and ``figure2.csv`` are log10 of calls (the
columns are described in ``figures``); blank is "there is none".
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from smoothcruiser.reproduce.figures import Figure1Row, Figure2Row
from smoothcruiser.reproduce.full import FullRow
from smoothcruiser.reproduce.relaxing import PrintedRow, RelaxationRow, SchemeRow
from smoothcruiser.reproduce.table1 import CheckRow


@dataclass(frozen=True)
class Results:
    """The parts that were run; the others are empty.

    ``facts`` has the date, the versions and the duration, in sentences.
    """

    figure_1: tuple[Figure1Row, ...] = ()
    figure_2: tuple[Figure2Row, ...] = ()
    table_1: tuple[CheckRow, ...] = ()
    full: tuple[FullRow, ...] = ()
    relaxation: tuple[RelaxationRow, ...] = ()
    scheme: tuple[SchemeRow, ...] = ()
    printed: tuple[PrintedRow, ...] = ()
    facts: tuple[str, ...] = ()

    def save(self, directory: Path) -> list[Path]:
        """Write one CSV file for each part that was run."""
        file_rows: dict[str, tuple[Sequence[Any], str]] = {
            "figure1.csv": (self.figure_1, "log10_"),
            "figure2.csv": (self.figure_2, "log10_"),
            "table1.csv": (self.table_1, ""),
            "full.csv": (self.full, ""),
            "relaxation.csv": (self.relaxation, ""),
            "scheme.csv": (self.scheme, ""),
            "scheme_printed.csv": (self.printed, ""),
        }
        written_paths = []
        for name, (rows, prefix) in file_rows.items():
            if rows:
                write_csv(directory / name, rows, prefix)
                written_paths.append(directory / name)
        return written_paths


def write_csv(path: Path, rows: Sequence[Any], prefix: str = "") -> None:
    """Write rows of one dataclass as CSV.

    Columns other than epsilon and temperature get ``prefix``.
    """
    column_names = [
        f.name if f.name in ("epsilon", "temperature") else prefix + f.name
        for f in fields(rows[0])
    ]
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(column_names)
        for row in rows:
            writer.writerow([_cell(x) for x in astuple(row)])


def _cell(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value
