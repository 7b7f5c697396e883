"""``smoothcruiser compare PROBLEM --budget CALLS``: all planners on one
problem; a table, a plot or JSON.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smoothcruiser.cli.exit import STOPPED, ctrl_c
from smoothcruiser.cli.options import (
    Calls,
    print_json,
    problem_options,
    state_of,
    state_option,
)
from smoothcruiser.errors import InvalidInput, MissingExtra, printable
from smoothcruiser.estimate import plain

if TYPE_CHECKING:
    from smoothcruiser.compare import PlannedRun, PlannerRun

COLUMNS = (
    ("value", "value"),
    ("error", "|value - V|"),
    ("action_regret", "action regret"),
    ("policy_regret", "policy regret"),
)


@click.command("compare")
@problem_options
@state_option
@click.option(
    "--budget",
    type=Calls(),
    metavar="CALLS",
    required=True,
    help="Oracle calls for each planner, such as 1e5.",
)
@click.option(
    "--methods", metavar="A,B,...", help="Only these planners.  [default: all]"
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Runs of each planner, seeds 0, 1, ...",
)
@click.option(
    "--points",
    type=click.IntRange(1),
    default=None,
    help="Budgets up to --budget, for a curve.  [default: 1; 6 with --plot]",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Draw error and regret against calls (svg, png or pdf).",
)
def compare(
    problem: Any,
    state: Any,
    budget: int,
    methods: str | None,
    repeats: int,
    points: int | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Run every planner with the same budget of oracle calls, and measure the
    answers against the exact ones.

    Ctrl-C ends it with the runs that are done, and names the others.

    PROBLEM is built in (chain:n=5) or your own (module:attribute). Errors and
    regrets need a known model.
    """
    from smoothcruiser import compare as comparing
    from smoothcruiser.progress.bar import Bar
    from smoothcruiser.report.console import console

    start = state_of(problem, state)
    if plot is not None:
        _check_plot(plot)  # refuse before the work, not after it
    chosen = _chosen(methods, comparing.planners())
    budgets = comparing.ladder(budget, points or (6 if plot else 1))
    truth = None if problem.is_terminal(start) else comparing.truth_of(problem, start)
    jobs = comparing.jobs_of(chosen, budgets, range(repeats))
    rows: list[PlannerRun] = []
    with Bar(lines=False) as bar, ctrl_c() as stopped, suppress(KeyboardInterrupt):
        for row in comparing.each_run(problem, start, jobs, truth=truth, progress=bar):
            if stopped:  # the planner answered with what it had: not its budget's worth
                break
            rows.append(row)
    cut = jobs[len(rows) :]
    if plot is not None and rows:
        draw(rows, problem.name, plot, exact=truth is not None)
    if as_json:
        exact = None if truth is None else truth.value
        means = list(comparing.summaries(rows))
        data = {
            "problem": problem.name,
            "state": plain(start),
            "exact": exact,
            "exact_bound": None if truth is None else truth.bound,
        }
        data |= {"means": means, "rows": [r.to_dict() for r in rows]}
        not_run = [{"method": j.name, "budget": j.budget, "seed": j.seed} for j in cut]
        print_json({**data, "stopped": bool(cut), "not_run": not_run})
    else:
        shown = [
            s for s in comparing.summaries(rows) if points or s["budget"] == budgets[-1]
        ]
        _show(problem, start, truth, shown, repeats, cut)
        if plot is not None and rows:
            console().print(f"Curves are in {plot}.", soft_wrap=True)
    if cut:
        sys.exit(STOPPED)


def _chosen(methods: str | None, usual: tuple[str, ...]) -> list[str]:
    from smoothcruiser.methods import METHODS

    if methods is None:
        return list(usual)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    wrong = [name for name in names if name not in METHODS]
    if wrong or not names:
        raise InvalidInput(
            f"Unknown planner {wrong[0] if wrong else ''!r}; compare knows "
            f"{', '.join(METHODS)}."
        )
    return names


def _number(value: float | None, least: float = 0.0) -> str:
    """A number; one that cannot be told from 0 because it is known up to
    ``least`` only is shown as that.
    """
    if value is None:
        return "-"
    return f"≤ {_up(least)}" if 0.0 < least >= abs(value) else f"{value:.4g}"


def _up(bound: float) -> str:
    """A bound with one digit, rounded up: what is printed holds too."""
    unit = 10.0 ** math.floor(math.log10(bound)) if bound > 0.0 else 1.0
    return f"{math.ceil(bound / unit) * unit:.1g}"


def _show(
    problem: Any,
    state: Any,
    truth: Any,
    means: list[dict[str, Any]],
    repeats: int,
    cut: list[PlannedRun],
) -> None:
    from rich.table import Table

    from smoothcruiser.report.console import console, put

    out = console()
    known = (
        f"exact value {truth.value:.6g} ± {_up(truth.bound)}"
        if truth is not None
        else "no exact value: the model is not known"
    )
    bound = 0.0 if truth is None else truth.bound
    least = {"error": bound, "action_regret": 2.0 * bound, "policy_regret": 2.0 * bound}
    name = printable(problem.name, keep="")
    out.print(f"{name}, state {state!r}", soft_wrap=True)
    out.print(f"{known}; means of {repeats} run{'s' if repeats > 1 else ''}\n")
    table = Table(box=None, pad_edge=False)
    table.add_column("planner")
    for _, title in COLUMNS:
        table.add_column(title, justify="right")
    for title in ("calls", "seconds"):
        table.add_column(title, justify="right")
    notes: list[str] = []
    others: dict[str, list[str]] = {}
    for row in means:
        if row["note"]:
            some = "" if row["runs"] == 0 else f" in {row['failed']} of {repeats} runs"
            notes.append(f"{row['method']}{some}: {row['note'].rstrip('.')}.")
        if row["runs"] == 0:
            continue
        if row["estimates"] != problem.operator.label:
            names = others.setdefault(row["estimates"], [])
            names += [row["method"]] if row["method"] not in names else []
        cells = [_number(row[name], least.get(name, 0.0)) for name, _ in COLUMNS]
        table.add_row(
            row["method"], *cells, f"{row['num_calls']:,.0f}", f"{row['seconds']:.3f}"
        )
    put(out, table)
    if others:
        whose = "; ".join(
            f"{', '.join(names)} that of {label}" for label, names in others.items()
        )
        notes.insert(
            0,
            (
                f"Not all estimate V, the value of {problem.operator.label}: {whose}. "
                "Their error has that difference in it; regrets compare."
            ),
        )
    if notes:
        out.print()
    for note in notes:
        put(out, note)
    if cut:
        out.print()
        put(out, _stopped(cut))


def _stopped(cut: list[PlannedRun]) -> str:
    """What Ctrl-C left out of the table, by planner."""
    counts = Counter(job.name for job in cut)
    listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    return f"Stopped by Ctrl-C; runs that were cut, by planner: {listed}."


# --- the plot -----------------------------------------------------------------


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra(
            "--plot needs matplotlib; install it with: pip install "
            "'smoothcruiser[report]'."
        ) from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _check_plot(path: str) -> None:
    """Refuse what could not be written."""
    supported = _pyplot().figure().canvas.get_supported_filetypes()
    _pyplot().close("all")
    kind = Path(path).suffix.lstrip(".")
    if kind not in supported:
        raise InvalidInput(
            "--plot draws svg, png or pdf, by the file's ending, got "
            f"{Path(path).name!r}."
        )
    if not Path(path).resolve().parent.is_dir():
        raise InvalidInput(f"--plot: the folder of {path} does not exist.")


def draw(rows: list[PlannerRun], title: str, path: str, *, exact: bool) -> None:
    """Error and policy regret against calls, one line a planner with the range
    of its runs, written to ``path``.
    """
    from smoothcruiser.compare import summaries

    plt = _pyplot()
    means = [s for s in summaries(rows) if s["runs"]]
    names = list(dict.fromkeys(s["method"] for s in means))
    panels = (
        (("error", "|value - V|"), ("policy_regret", "regret of the policy"))
        if exact
        else (("value", "value"),)
    )
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 3.8), squeeze=False
    )
    for axis, (name, label) in zip(axes[0], panels, strict=True):
        for method in names:
            points = [
                (s["num_calls"], s[name], s[f"{name}_range"])
                for s in means
                if s["method"] == method and s[name] is not None
            ]
            if points:
                calls, middle, ranges = zip(*points, strict=True)
                drawn = axis.plot(calls, middle, marker="o", markersize=3, label=method)
                axis.fill_between(
                    calls,
                    *zip(*ranges, strict=True),
                    color=drawn[0].get_color(),
                    alpha=0.12,
                    linewidth=0,
                )
        axis.set_xscale("log")
        if exact:
            axis.set_ylim(bottom=0.0)
        axis.set_xlabel("oracle calls")
        axis.set_title(label)
    axes[0][0].legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The plot could not be written to {path}: {error}"
        ) from error
    finally:
        plt.close(figure)
