"""``smoothcruiser reproduce [figure1|figure2|table1|all] --out DIR``: runs the
parts, shows progress, writes data, figures and report.

``all`` is the two figures, the table, and everything beyond the paper.
``--quick`` cuts points and runs to the needs of a test: its numbers are real, its
statistics are not. Heavy imports wait until the command runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.progress import (
    Callback,
    Phases,
    finish,
    progress_callback,
    show_bar,
)

PARTS = ("figure1", "figure2", "table1", "all")


@dataclass(frozen=True)
class Effort:
    """Numbers of points and runs of every part."""

    points: int = 100
    sharp_every: int = 3
    check_runs: int = 32_723
    full_runs: int = 1_000
    temperatures: int = 25
    scheme_runs: int = 200  # of up to 3 million calls each
    factors: tuple[float, ...] = (2.0, 1.0)
    quick: bool = False


QUICK = Effort(
    points=5,
    sharp_every=4,
    check_runs=2_000,
    full_runs=50,
    temperatures=2,
    scheme_runs=20,
    factors=(3.0,),
    quick=True,
)


@click.command("reproduce")
@click.argument("what", type=click.Choice(PARTS), default="all")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    help="Where files go.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Few points and runs: to see it work, not to compare numbers.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the streams of Table 1.",
)
def reproduce(what: str, out: Path, quick: bool, seed: int) -> None:
    """The paper's figures and table, redone; with "all", the experiments beyond
    it too.
    """
    from smoothcruiser.display.terminal import console

    effort = QUICK if quick else Effort()
    for path in reproduce_into(out, what, effort, seed, progress=True):
        console().print(str(path), soft_wrap=True)


def reproduce_into(
    out: Path,
    what: str = "all",
    effort: Effort | None = None,
    seed: int = 0,
    *,
    progress: bool | Callback | None = None,
) -> list[Path]:
    """Run a part, by default all, and return the paths of its files in ``out``.

    ``progress`` is as in ``plan``; False from it ends the work, and nothing is written.
    """
    from smoothcruiser.reproduce.report import write_report

    chosen_effort = Effort() if effort is None else effort
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"The folder {out} cannot be made ({error.strerror}); give another to --out."
        ) from error
    callback = progress_callback(progress)
    start_time = time.perf_counter()
    with show_bar(callback):
        results = _run_parts(what, chosen_effort, seed, Phases(callback))
        finish(callback, calls=0, seconds=time.perf_counter() - start_time)
    return [*results.save(out), *write_report(results, out)]


def _run_parts(what: str, effort: Effort, seed: int, phases: Phases) -> Any:
    from smoothcruiser.reproduce import figures, full_algorithm
    from smoothcruiser.reproduce.report import Results

    start_time = time.perf_counter()

    def bar(title: str, total: int) -> Callable[[], None]:
        num_done = -1

        def tick() -> None:
            nonlocal num_done
            num_done += 1
            stop_requested = phases.tell(
                phase="reproducing",
                label=f"{title}: {num_done:,} of {total:,}",
                seconds=time.perf_counter() - start_time,
                done=num_done,
                total=total,
            )
            if stop_requested:
                raise Interrupted("The progress function returned False.")

        tick()
        return tick

    part_results: dict[str, Any] = {}
    wanted_parts = set(PARTS[:-1]) if what == "all" else {what}
    if "figure1" in wanted_parts:
        part_results["figure_1"] = tuple(
            figures.figure_1(
                effort.points, effort.sharp_every, bar("Figure 1", effort.points)
            )
        )
    if "figure2" in wanted_parts:
        part_results["figure_2"] = tuple(
            figures.figure_2(
                effort.points, effort.sharp_every, bar("Figure 2", effort.points)
            )
        )
    if "table1" in wanted_parts:
        part_results["table_1"] = tuple(
            figures.table_1(
                effort.check_runs, seed, bar("Table 1", len(figures.ENVIRONMENTS))
            )
        )
    if what == "all":
        cases = list(
            full_algorithm.quick_cases() if effort.quick else full_algorithm.cases()
        )
        part_results["full"] = tuple(
            full_algorithm.full_table(
                iter(cases),
                effort.full_runs,
                bar("Table 1, the full algorithm", len(cases)),
            )
        )
        chosen_studies = full_algorithm.studies()[: 1 if effort.quick else None]
        num_moves, num_promises = (
            len(chosen_studies) * effort.temperatures,
            len(chosen_studies) * len(effort.factors),
        )
        part_results["relaxation"] = tuple(
            full_algorithm.moving_temperature(
                effort.temperatures,
                bar("Regularization as a relaxation", num_moves),
                chosen_studies,
            )
        )
        part_results["scheme"] = tuple(
            full_algorithm.scheme(
                effort.scheme_runs,
                effort.factors,
                bar("The adaptive scheme", num_promises),
                chosen_studies,
            )
        )
        part_results["printed"] = tuple(full_algorithm.printed_scheme())
    return Results(
        **part_results,
        facts=_facts(what, effort, seed, time.perf_counter() - start_time),
    )


def _facts(what: str, effort: Effort, seed: int, seconds: float) -> tuple[str, ...]:
    """Date, command, versions and machine: enough for a reader to repeat it."""
    import os
    import platform

    import numba
    import numpy

    load_text = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"Made by smoothcruiser reproduce {what}{' --quick' if effort.quick else ''} "
        f"--seed {seed} in {seconds:.0f} s on "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}.",
        f"Python {platform.python_version()}, NumPy {numpy.__version__}, Numba "
        f"{numba.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores at a load of {load_text}.",
    )
