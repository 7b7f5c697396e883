"""``smoothcruiser compare PROBLEM --budget CALLS``: all planners on one
problem; a table, a plot or JSON.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smoothcruiser.cli.completion import methods_listed
from smoothcruiser.cli.exit import STOPPED, ctrl_c
from smoothcruiser.cli.options import (
    Calls,
    print_json,
    problem_options,
    state_of,
    state_option,
)
from smoothcruiser.errors import Interrupted, InvalidInput, MissingExtra

if TYPE_CHECKING:
    from smoothcruiser.comparison import Comparison, PlannerRun


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
    "--methods",
    metavar="A,B,...",
    shell_complete=methods_listed,
    help="Only these planners.  [default: all]",
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
    from smoothcruiser import comparison as comparing
    from smoothcruiser.display.console import console
    from smoothcruiser.progress.bar import Bar

    start = state_of(problem, state)
    if plot is not None:
        _check_plot(plot)  # refuse before the work, not after it
    chosen = _chosen(methods, comparing.planners())
    budgets = comparing.ladder(budget, points or (6 if plot else 1))
    jobs = comparing.jobs_of(chosen, budgets, range(repeats))
    rows: list[PlannerRun] = []
    truth = None
    over = suppress(KeyboardInterrupt, Interrupted)
    with Bar(lines=False) as bar, ctrl_c() as stopped, over:
        if not problem.is_terminal(start):
            truth = comparing.truth_of(problem, start, bar)
        for row in comparing.each_run(problem, start, jobs, truth=truth, progress=bar):
            if stopped:  # the planner answered with what it had: not its budget's worth
                break
            rows.append(row)
    cut = jobs[len(rows) :]
    made = comparing.Comparison.of(problem, start, truth, rows, cut)
    if plot is not None and rows:
        draw(made, plot)
    if as_json:
        print_json(made.to_dict())
    else:
        from smoothcruiser.display.comparisons import comparison_page
        from smoothcruiser.display.terminal import show

        show(comparison_page(made, None if points else budgets[-1]))
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


def draw(comparison: Comparison, path: str) -> None:
    """Error and policy regret against calls (``Comparison.plot``), written to ``path``."""
    plt = _pyplot()
    exact = comparison.truth is not None
    panels = ("error", "policy_regret") if exact else ("value",)
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(5.2 * len(panels), 4.2),
        squeeze=False,
        layout="constrained",
    )
    for axis, name in zip(axes[0], panels, strict=True):
        comparison.plot(axis, of=name)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The plot could not be written to {path}: {error}"
        ) from error
    finally:
        plt.close(figure)
