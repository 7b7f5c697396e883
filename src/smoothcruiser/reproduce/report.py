"""The report: one self-contained HTML page with inline SVG, and the same in Markdown.

Nothing in it needs the network. The prose is here, the numbers come from
``Results``. A sentence with a number in it is computed from the rows it speaks
of, so that it cannot go stale. Sections of parts that were not run are left out.
The layouts are ``report.html.jinja`` and ``report.md.jinja``; they need Jinja2
(extra ``report``).

The results of a reproduction, and their CSV files.

Plain rows go in and plain text comes out, numbers with every digit they have.
``table1.csv`` has exactly the columns environment, mean, std, runs, paper_mean,
paper_std. Counts in ``figure1.csv`` and ``figure2.csv`` are log10 of calls (the
columns are described in ``figures``); blank is "there is none".
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from smoothcruiser.errors import MissingExtra
from smoothcruiser.reproduce import plots
from smoothcruiser.reproduce.figures import (
    EPSILON,
    PUBLISHED,
    CheckRow,
    Figure1Row,
    Figure2Row,
    slopes,
)
from smoothcruiser.reproduce.full_algorithm import (
    FullRow,
    PrintedRow,
    RelaxationRow,
    SchemeRow,
)


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


TITLE = "SmoothCruiser, reproduced"


@dataclass(frozen=True)
class ReportTable:
    """Header and rows of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1  # leading columns that hold words; the others are right-aligned


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, a figure, tables, and paragraphs after them."""

    title: str
    text: tuple[str, ...]
    svg: str = ""
    png: str = ""
    tables: tuple[tuple[str, ReportTable], ...] = ()  # (caption, table)
    after: tuple[str, ...] = ()


def write_report(results: Results, directory: Path) -> list[Path]:
    """The paths of report.html and report.md, written into ``directory``.

    Figures are written beside them, as SVG and PNG.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtra(
            "The report needs Jinja2; install it with: "
            "pip install 'smoothcruiser[report]'."
        ) from error
    sections = [make(results, directory) for make in SECTIONS]
    shown_sections = [section for section in sections if section is not None]
    paths = []
    for name in ("report.html", "report.md"):
        environment = jinja2.Environment(
            autoescape=name.endswith("html"), trim_blocks=True, lstrip_blocks=True
        )
        package_folder = files("smoothcruiser.reproduce")
        layout_text = package_folder.joinpath(f"{name}.jinja").read_text("utf-8")
        text = environment.from_string(layout_text).render(
            title=TITLE, sections=shown_sections, facts=results.facts
        )
        (directory / name).write_text(text, encoding="utf-8")
        paths.append(directory / name)
    return paths


# --- sections -----------------------------------------------------------------


def _figure_1(results: Results, directory: Path) -> Section | None:
    figure_rows = results.figure_1
    if not figure_rows:
        return None
    svg = plots.save(plots.figure_1(figure_rows), directory, "figure1")
    fitted_slopes = slopes(list(figure_rows))
    epsilon_ranges = sorted({(s.low, s.high) for s in fitted_slopes})
    curves = (*plots.CURVES, plots.PLAIN_CURVE)
    curve_names = {column: label for column, label, _, _ in curves}
    by_curve = {
        column: {(s.low, s.high): s.slope for s in fitted_slopes if s.curve == column}
        for column in curve_names
    }
    table = ReportTable(
        ("curve", *(f"ε from {low:g} to {high:g}" for low, high in epsilon_ranges)),
        tuple(
            (
                curve_names[c],
                *(number(by_curve[c].get(r, math.nan), ".2f") for r in epsilon_ranges),
            )
            for c in curve_names
            if by_curve[c]
        )
        + tuple(
            (f"published: {name}", *[f"{rate:g}"] * len(epsilon_ranges))
            for name, rate in PUBLISHED
        ),
    )
    finest_row = figure_rows[0]
    sharp_rows = [r for r in figure_rows if not math.isnan(r.sharp)]
    finest_sharp = min(sharp_rows, key=lambda r: r.epsilon) if sharp_rows else None
    text = (
        "The paper draws the cost of one sampleV call against 1/ε. Above κ its "
        "“simulated” curve is the bound of Proposition 1, with H neither rounded up "
        "nor starting at 0, and below κ a recurrence over that bound; the curves are "
        "redrawn here exactly so. Beside them stand the calls that the algorithm "
        "really makes, counted level by level, which are known before any run.",
        f"At ε = {finest_row.epsilon:g} the paper's simulated curve says "
        f"10^{finest_row.simulated:.1f} calls, the exact count is "
        f"10^{finest_row.exact:.1f}, and sparse sampling would take "
        f"10^{finest_row.exact_sparse:.0f}. None of these is the price of an answer: "
        "with δ′ = 0.1 a Q-hat may fail in every tenth call. A "
        f"run that keeps δ = 0.1 needs 10^{finest_row.run:.1f} calls with the printed "
        "constants.",
    )
    after: tuple[str, ...] = (
        "Slopes are exponents p of calls ~ (1/ε)^p, fitted over two "
        "decades. The theory says 2 for n_sampleV and 4 for a run, up to "
        "factors that fade slowly: at ε = 10⁻⁹ they have not faded yet.",
    )
    if finest_sharp is not None:
        after += (
            "The sharp schedule keeps the promise of a whole run at ε = "
            f"{finest_sharp.epsilon:.2g} for 10^{finest_sharp.sharp:.1f} calls, where "
            f"the printed constants need 10^{finest_sharp.run:.1f}. Its curve ends "
            "where the compiler's table does; a gap is not a number. Its corrections "
            "by chance take the place "
            "of many samples (docs/randomized.md): in the limit a price of this kind "
            "grows "
            "as (1/ε)² times less than any power of 1/ε, if randomized levels may "
            "answer "
            "queries. The compiler's queries are plain, so its own curve grows faster; "
            "the "
            "dotted curve is the price without any randomized level. Beyond 10^15 "
            "calls "
            "plans are not polished, and ladders end at 2^14 times their first count: "
            "that is why the curve steepens there. With 24 rungs and polishing, its "
            "slope "
            "stays between 3.0 and 3.2 down to ε = 2e-07.",
        )
    return Section(
        "Figure 1: calls against accuracy",
        text,
        svg,
        "figure1.png",
        (("Fitted slopes", table),),
        after,
    )


def _figure_2(results: Results, directory: Path) -> Section | None:
    figure_rows = results.figure_2
    if not figure_rows:
        return None
    svg = plots.save(plots.figure_2(figure_rows), directory, "figure2")
    sharp_rows = [r for r in figure_rows if not math.isnan(r.sharp)]
    picked_rows = sharp_rows[:: max(1, len(sharp_rows) // 8)]
    table = ReportTable(
        (
            "λ",
            "ε = 1% of V_max",
            "simulated",
            "exact",
            "sparse, exact",
            "a run, printed",
            "sharp",
            "sharp, ε = 1% of span",
        ),
        tuple(
            (
                f"{r.temperature:.3g}",
                f"{r.epsilon:.3g}",
                power(r.simulated),
                power(r.exact),
                power(r.exact_sparse),
                power(r.run),
                power(r.sharp),
                power(r.sharp_span),
            )
            for r in picked_rows
        ),
        words=0,
    )
    text = (
        "Calls against the strength of the regularizer, at a relative error of "
        "1%. For small λ, κ lies below every accuracy visited and SmoothCruiser "
        "is sparse sampling; for large λ one trajectory per sample is enough.",
        "The paper's ε is 1% of V_max = (1 + λ log K)/(1−γ), which grows with λ: part "
        "of the drop to the right is the promise getting weaker. The value's own span "
        "is 1/(1−γ) whatever λ is, so the last curve, at 1% of it, shows what "
        "regularization itself does.",
    )
    return Section(
        "Figure 2: calls against regularization",
        text,
        svg,
        "figure2.png",
        (("log-spaced rows of figure2.csv", table),),
    )


def _table_1(results: Results, directory: Path) -> Section | None:
    check_rows = results.table_1
    if not check_rows:
        return None
    table = ReportTable(
        (
            "environment",
            "ours, mean ± std",
            "runs",
            "the paper, mean ± std",
            "difference in standard errors",
        ),
        tuple(
            (
                r.environment,
                f"({100 * r.mean:.3f} ± {100 * r.std:.3f})·10⁻²",
                f"{r.runs:,}",
                f"({100 * r.paper_mean:.2f} ± {100 * r.paper_std:.2f})·10⁻²",
                f"{(r.mean - r.paper_mean) / (r.std / math.sqrt(r.runs)):+.2f}",
            )
            for r in check_rows
        ),
    )
    text = (
        f"The paper's consistency check: sampleV at ε = {EPSILON:.4f} with estimateQ "
        "replaced by the true Q plus uniform noise of the size that estimateQ may "
        "have. Mean and standard deviation are of the error of one output.",
        "The table reproduces. It tests little: in these environments V(s₀) is almost "
        "pure entropy, λ log K/(1−γ), to which all rewards together add 6·10⁻⁴ at "
        "most, and estimateQ, where all the calls are, does not run. Hence the next "
        "section.",
    )
    return Section(
        "Table 1: consistency with a stubbed Q",
        text,
        tables=(("Table 1, redone with independent streams", table),),
    )


GROUPS = {
    "paper": "The paper's environments and parameters, γ = 0.2, λ = 10, initial state",
    "reward-sensitive": (
        "Rewards times 100 (the same as λ = 0.1 "
        "at reward 1), one step before the reward"
    ),
    "game": "The same as games: players take turns, one wants the reward, one does not",
    "operator": "The reward-sensitive MDPs under every other operator",
}


def _full(results: Results, directory: Path) -> Section | None:
    full_rows = results.full
    if not full_rows:
        return None
    headings = (
        "environment",
        "operator",
        "V(s)",
        "of it reward",
        "ε",
        "error, mean ± std",
        "largest",
        "failures",
        "for Q",
        "price",
        "calls, mean",
        "ms per run",
        "printed constants",
    )
    tables = []
    for group, caption in GROUPS.items():
        group_rows = [r for r in full_rows if r.group == group]
        table_rows = tuple(
            (
                r.environment,
                r.operator,
                f"{r.value:.4g}",
                f"{r.reward_part:.3g}",
                f"{r.epsilon:.3g}",
                f"{r.mean_error:.2g} ± {r.std_error:.2g}",
                f"{r.largest_error:.2g}",
                f"{r.failures} / {r.runs}",
                f"{r.q_failures} / {r.runs}",
                f"{r.price:,}",
                f"{r.mean_calls:,.0f}",
                f"{1000 * r.seconds_per_run:.1f}",
                power(r.paper_log10_calls),
            )
            for r in group_rows
        )
        if group_rows:
            tables.append((caption, ReportTable(headings, table_rows, words=2)))
    num_failures, num_runs = (
        sum(r.failures for r in full_rows),
        sum(r.runs for r in full_rows),
    )
    text = (
        "What the paper could not run: the full algorithm, estimateQ included, with "
        "the sharp schedule. Every row is one plan run many times against the exact "
        "value; the promise is |V̂ − V| ≤ ε (and |Q̂ − Q| ≤ ε for every action) with "
        "probability 0.9.",
        f"Over all rows {num_failures:,} of {num_runs:,} runs missed ε. The largest "
        "share of misses in any row is "
        f"{max(r.q_failures / r.runs for r in full_rows):.1%} for "
        "action values; 10% are allowed. The last column is what the printed "
        "constants would need for the same promise.",
        "The chains are deterministic, so their errors hardly vary (only the actions "
        "drawn along the way are random): what is left there is the plan's own bias, "
        "which the promise covers. The grids slip, and their errors spread.",
    )
    return Section("Table 1 with the full algorithm", text, tables=tuple(tables))


def _relaxation(results: Results, directory: Path) -> Section | None:
    if not (results.relaxation or results.scheme):
        return None
    svg = ""
    if results.relaxation:
        figure = plots.relaxation(results.relaxation)
        svg = plots.save(figure, directory, "relaxation")
    scheme_table = ReportTable(
        (
            "problem",
            "γ",
            "K",
            "ε for V_0",
            "chosen λ",
            "price",
            "price at λ = 0",
            "cheapest λ > 0",
            "its price",
            "failures",
            "with λ > 0",
        ),
        tuple(
            (
                r.problem,
                f"{r.discount:g}",
                str(r.num_actions),
                f"{r.epsilon:.3g}",
                f"{r.chosen_temperature:.3g}",
                f"{r.chosen_price:,}",
                f"{r.plain_price:,}",
                f"{r.softest_temperature:.3g}",
                f"{r.softest_price:,}",
                f"{r.failures} / {r.runs}",
                f"{r.softest_failures} / {r.runs}",
            )
            for r in results.scheme
        ),
    )
    printed_table = ReportTable(
        (
            "ε for V_0",
            "sparse sampling",
            "best share of ε for the relaxation",
            "its price",
        ),
        tuple(
            (
                f"{r.epsilon:g}",
                power(r.plain_log10),
                f"{r.best_share:g}",
                power(r.best_log10),
            )
            for r in results.printed
        ),
        words=0,
    )
    never_relaxes = all(r.chosen_temperature == 0.0 for r in results.scheme) and all(
        r.best_share == 0.0 for r in results.printed
    )
    text = (
        "V_λ lies above V_0 by at most λ log K/(1−γ), and the policy it recommends "
        "loses at most that much. The upper panels show how much of the bound is "
        "used, the lower ones what V_λ costs, and what V_0 costs through V_λ.",
        "The paper asks for a scheme that chooses λ for a desired accuracy of the "
        "unregularized value. Since V_λ − V_0 lies in a band whose middle is known, ε "
        "− λ log K/(2(1−γ)) is left for the sampling; the scheme prices every split "
        "with the schedule compiler and takes the cheapest (schedule/relaxation.py).",
    )
    closing_text = (
        "Where the chosen λ is above 0, relaxing pays; elsewhere plain max is cheaper."
    )
    if never_relaxes:
        closing_text = (
            "It chooses λ = 0 in every case tried, with the sharp schedule and with "
            "the printed constants: a worst-case plan for V_0 gains nothing from "
            "relaxing. The reason can be seen in the paper's own terms. A band "
            "narrower than 2ε forces λ ≤ 2ε(1−γ)/log K, hence κ = (1−√γ)λ/K is a "
            "fraction of ε, and the linearization, which only works below κ, comes too "
            "late to pay for the part of ε that the band has taken. Regularization "
            "buys speed for V_λ itself (Figure 2), and for V_0 only to within the "
            "bound."
        )
    tables: list[tuple[str, ReportTable]] = []
    if results.scheme:
        tables.append(("The adaptive scheme, run against the exact V_0", scheme_table))
    if results.printed:
        caption = "The same choice with the printed constants, γ = 0.2, K = 2, δ = 0.1"
        tables.append((caption, printed_table))
    return Section(
        "Regularization as a relaxation",
        text,
        svg,
        "relaxation.png" if svg else "",
        tuple(tables),
        (closing_text,),
    )


SECTIONS: Sequence[Callable[[Results, Path], Section | None]] = (
    _figure_1,
    _figure_2,
    _table_1,
    _full,
    _relaxation,
)


def number(value: float, form: str) -> str:
    """A number as text, a dash where there is none."""
    return "–" if math.isnan(value) else format(value, form)


def power(log10: float) -> str:
    """10 to a power as text: digits where it is small, 10^x beyond."""
    if math.isnan(log10):
        return "–"
    return f"{10.0**log10:,.0f}" if log10 < 7.0 else f"10^{log10:.1f}"
