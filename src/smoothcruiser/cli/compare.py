"""``smoothcruiser compare PROBLEM --budget CALLS``: all planners on one
problem; a table, a plot or JSON.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smoothcruiser.cli.exit_codes import STOPPED, ctrl_c
from smoothcruiser.cli.options import (
    Calls,
    complete_methods,
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
    shell_complete=complete_methods,
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
    from smoothcruiser.display.terminal import console
    from smoothcruiser.progress.bar import Bar

    start_state = state_of(problem, state)
    if plot is not None:
        _check_plot(plot)  # refuse before the work, not after it
    chosen_methods = _choose_methods(methods, comparing.planners())
    budgets = comparing.ladder(budget, points or (6 if plot else 1))
    jobs = comparing.jobs_of(chosen_methods, budgets, range(repeats))
    finished_runs: list[PlannerRun] = []
    truth = None
    stop_errors = suppress(KeyboardInterrupt, Interrupted)
    with Bar(lines=False) as bar, ctrl_c() as stopped, stop_errors:
        if not problem.is_terminal(start_state):
            truth = comparing.truth_of(problem, start_state, bar)
        for planner_run in comparing.each_run(
            problem, start_state, jobs, truth=truth, progress=bar
        ):
            if stopped:  # the planner answered early: not its budget's worth
                break
            finished_runs.append(planner_run)
    missing_jobs = jobs[len(finished_runs) :]
    comparison = comparing.Comparison.of(
        problem, start_state, truth, finished_runs, missing_jobs
    )
    if plot is not None and finished_runs:
        draw(comparison, plot)
    if as_json:
        print_json(comparison.to_dict())
    else:
        from smoothcruiser.display.result_pages import comparison_page
        from smoothcruiser.display.terminal import show

        show(comparison_page(comparison, None if points else budgets[-1]))
        if plot is not None and finished_runs:
            console().print(f"Curves are in {plot}.", soft_wrap=True)
    if missing_jobs:
        sys.exit(STOPPED)


def _choose_methods(methods: str | None, usual: tuple[str, ...]) -> list[str]:
    from smoothcruiser.methods import METHODS

    if methods is None:
        return list(usual)
    chosen_names = [name.strip() for name in methods.split(",") if name.strip()]
    unknown_names = [name for name in chosen_names if name not in METHODS]
    if unknown_names or not chosen_names:
        raise InvalidInput(
            f"Unknown planner {unknown_names[0] if unknown_names else ''!r}; compare "
            f"knows {', '.join(METHODS)}."
        )
    return chosen_names


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
    """Refuse a file that could not be written."""
    supported_types = _pyplot().figure().canvas.get_supported_filetypes()
    _pyplot().close("all")
    file_type = Path(path).suffix.lstrip(".")
    if file_type not in supported_types:
        raise InvalidInput(
            "--plot draws svg, png or pdf, by the file's ending, got "
            f"{Path(path).name!r}."
        )
    if not Path(path).resolve().parent.is_dir():
        raise InvalidInput(f"--plot: the folder of {path} does not exist.")


def draw(comparison: Comparison, path: str) -> None:
    """Error and policy regret against calls (``Comparison.plot``), written to ``path``."""
    plt = _pyplot()
    has_truth = comparison.truth is not None
    panels = ("error", "policy_regret") if has_truth else ("value",)
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(5.2 * len(panels), 4.2),
        squeeze=False,
        layout="constrained",
    )
    for axis, quantity in zip(axes[0], panels, strict=True):
        comparison.plot(axis, of=quantity)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The plot could not be written to {path}: {error}"
        ) from error
    finally:
        plt.close(figure)
