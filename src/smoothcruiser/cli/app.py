"""The command line: ``problems``, ``explain``, ``plan``, ``exact``, ``runs``.
One function a command, options shared by decorators (``cli_options``).

Answers go to standard output (``--json``: exactly one object), everything else
to standard error. Exit codes: 0 an answer, 1 an error that is ours
(``SMOOTHCRUISER_TRACEBACK=1`` shows where), 2 a request that cannot be met as
it stands (one sentence says why and what to change), 130 stopped by Ctrl-C with
what is known.

Nothing heavy is imported before a command needs it: ``--help`` and ``explain``
never load Numba. To add a command, write a ``click.command`` in a module of its
own and name it in ``ELSEWHERE``, or decorate a function here with
``@app.command()``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import click

from smoothcruiser.cli.options import (
    find_modules_here,
    problem_of,
    problem_options,
    promise_options,
    run_options,
    state_of,
    state_option,
    tree_options,
)
from smoothcruiser.errors import Interrupted, SmoothcruiserError

# 130 = 128 + SIGINT, the shell's convention
OK, UNEXPECTED, REFUSED, STOPPED = 0, 1, 2, 130

ELSEWHERE = {  # command: module:attribute, shown where the module exists
    "compare": "smoothcruiser.cli.compare:compare",
    "play": "smoothcruiser.cli.play:play",
    "check": "smoothcruiser.cli.check:check",
    "reproduce": "smoothcruiser.cli.reproduce:reproduce",
}


class Commands(click.Group):
    """A group whose further commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands of this file in their order, then those of others."""
        return [
            *self.commands,
            *(
                name
                for name, where in ELSEWHERE.items()
                if _exists(where.partition(":")[0])
            ),
        ]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command called ``name``."""
        if name in self.commands or name not in ELSEWHERE:
            return self.commands.get(name)
        module, _, attribute = ELSEWHERE[name].partition(":")
        return (
            getattr(importlib.import_module(module), attribute)
            if _exists(module)
            else None
        )


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="smoothcruiser")
def app() -> None:
    """Planning with a promise.

    Give a simulator and a promise (epsilon, delta); get the value of a state
    and of its actions, with the price known before the run and a certificate
    after it. Start with: smoothcruiser problems
    """


# --- commands -----------------------------------------------------------------


def _print_json(data: dict[str, Any]) -> None:
    click.echo(json.dumps(data))


@app.command()
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."
)
def problems(as_json: bool) -> None:
    """List the built-in problems and their parameters."""
    if as_json:
        from smoothcruiser.problem.zoo import ZOO

        _print_json(
            {
                name: {"parameters": entry.defaults, "summary": entry.summary}
                for name, entry in ZOO.items()
            }
        )
        return
    from smoothcruiser.report.console import console
    from smoothcruiser.report.problems import show_problems

    show_problems(console())


@app.command()
@click.argument("problem")
@problem_options
@promise_options
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure the simulator for about 0.3 s to estimate the time.",
)
def explain(
    problem: str,
    discount: float | None,
    temperature: float | None,
    operator: str | None,
    as_json: bool,
    calibrate: bool,
    **promise: Any,
) -> None:
    """Show the cheapest plan that keeps a promise, and its price; nothing is run.

    PROBLEM is built in (chain:n=5) or your own (module:attribute).
    """
    from smoothcruiser import api
    from smoothcruiser.report import price

    made = problem_of(problem, discount, temperature, operator)
    if promise["method"] == "exact":
        _explain_exact(made, as_json)
        return
    budget, chosen = promise["budget"] or price.ALTERNATIVES_ABOVE, promise["method"]
    # what plan would run at the initial state; it refuses a schedule only where
    # there is nothing else
    if chosen == "auto":
        named = {name: promise[name] for name in ("epsilon", "delta", "target")}
        chosen, _ = api.choose(made, "auto", made.initial_state, budget=budget, **named)
        promise["budget"] = (
            None if chosen in ("exact", "certified") else promise["budget"]
        )
    schedule = api.explain(made, **promise)
    # certified search: no schedule, no price before the run
    if schedule.num_calls is None:
        from smoothcruiser.report.console import console
        from smoothcruiser.report.plans import show_forecast

        _print_json(
            {**schedule.to_dict(), "problem": made.name}
        ) if as_json else show_forecast(console(), made, schedule)
        return
    speed = (
        api.calibrate(made)
        if calibrate
        else price.COMPILED_SPEED
        if made.is_compiled
        else None
    )
    if as_json:
        told = price.explain_dict(
            schedule, problem=made.name, speed=speed, measured=calibrate, budget=budget
        )
        _print_json({**told, "plan_method": chosen})
        return
    from smoothcruiser.report.console import console
    from smoothcruiser.report.plans import show_alternatives, show_rivals, show_schedule

    out = console()
    show_schedule(
        out,
        made,
        schedule,
        time=price.time_sentence(schedule.num_calls, speed, measured=calibrate),
    )
    show_rivals(out, schedule, price.rivals(schedule))
    show_alternatives(out, price.alternatives_for(schedule, budget), budget, chosen)


def _explain_exact(problem: Any, as_json: bool) -> None:
    """Say what the exact solution costs: no call, or that there is no model to
    solve.
    """
    if problem.tables is None and problem.outcomes is None:
        raise SmoothcruiserError(
            f"{problem.name} has no model (tables or outcomes=), so exact cannot "
            "solve it; explain another --method."
        )
    known = (
        "as tables"
        if problem.tables is not None
        else "by outcomes=, if its states can be listed"
    )
    if as_json:
        _print_json(
            {
                "problem": problem.name,
                "method": "exact",
                "num_calls": 0,
                "log10_calls": 0.0,
                "delta": 0.0,
                "levels": [],
            }
        )
        return
    from smoothcruiser.report.console import console, put

    put(
        console(),
        (
            f"0 calls: the model is known {known}; the answer has a proven bound and "
            "no chance in it (delta 0)."
        ),
    )


@app.command()
@click.argument("problem", required=False)
@problem_options
@promise_options
@state_option
@run_options
@tree_options
@click.option(
    "--resume",
    type=int,
    metavar="RUN",
    help="Go on with this run of --store; nothing else is needed.",
)
@click.option(
    "--compare-exact",
    is_flag=True,
    help="Solve the problem exactly too, where its model is known, and show both.",
)
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the answer as one HTML page too.",
)
def plan(
    problem: str | None,
    discount: float | None,
    temperature: float | None,
    operator: str | None,
    as_json: bool,
    state: Any,
    resume: int | None,
    compare_exact: bool,
    page: str | None,
    **asked: Any,
) -> None:
    """Answer: the value of a state and of its actions, as promised.

    PROBLEM is built in (chain:n=5) or your own (module:attribute). A plan above
    --budget is refused before it starts.
    """
    from smoothcruiser import api
    from smoothcruiser.report.answers import show_estimate
    from smoothcruiser.report.bar import Bar
    from smoothcruiser.report.console import console

    if page is not None:
        from smoothcruiser.report.page import check_page

        check_page(page)
    bar = Bar(console(stderr=True))
    head = _Head(None if as_json else console(), bar)
    truth = None
    with _ctrl_c() as stopped:
        try:
            with bar:
                if resume is not None:
                    estimate = _resumed(resume, problem, asked, head)
                elif problem is None:
                    raise click.UsageError(
                        "Missing argument 'PROBLEM': chain:n=5, say, or your own "
                        "as module:attribute."
                    )
                else:
                    made = problem_of(problem, discount, temperature, operator)
                    start = state_of(made, state)
                    truth, note = _truth(made, start) if compare_exact else (None, ())
                    head.about(made, start)
                    estimate = api.plan(
                        made,
                        start,
                        announce=head.announce,
                        progress=bar.report,
                        **asked,
                    )
                    estimate = replace(estimate, notes=(*estimate.notes, *note))
        except (Interrupted, KeyboardInterrupt) as error:
            _stopped_early(error, bar, asked, by_hand=bool(stopped))
    if as_json:
        _print_json(
            estimate.to_dict() | ({} if truth is None else {"exact": truth.to_dict()})
        )
    else:
        head.show()
        show_estimate(
            console(), estimate, truth, before=head.before, store=asked["store"]
        )
    if page is not None:
        from smoothcruiser.report.page import write_page

        write_page(
            page,
            estimate,
            problem=head.problem,
            schedule=head.schedule,
            exact=truth,
            before=head.before,
            store=asked["store"],
        )
    if stopped:
        sys.exit(STOPPED)


def _truth(problem: Any, state: Any) -> tuple[Any, tuple[str, ...]]:
    """The exact answer, or None and a note on why there is none: a comparison
    must not cost the plan.
    """
    from smoothcruiser import api

    if problem.tables is None and problem.outcomes is None:
        return None, (
            (
                "There is no model to compare with: the problem has neither tables nor "
                "outcomes=."
            ),
        )
    try:
        return api.plan(problem, state, method="exact"), ()
    except SmoothcruiserError as error:
        return None, (f"There is no exact answer to compare with: {error}",)


class _Head:
    """The lines above an answer: printed with the price as soon as it is known,
    else with the answer.
    """

    def __init__(self, out: Any, bar: Any) -> None:
        self.out, self.bar = out, bar
        self.problem: Any = None
        self.schedule: Any = None
        self.before = 0  # calls of earlier sessions of a resumed run
        self._waiting: tuple[Any, ...] = ()

    def about(self, problem: Any, state: Any, *more: str) -> None:
        self.problem, self._waiting = problem, (problem, state, *more)

    def announce(self, schedule: Any) -> None:
        self.schedule = schedule
        if self.out is not None:
            from smoothcruiser.report.console import fields, put
            from smoothcruiser.report.plans import promise_fields

            with self.bar.hidden():
                self.show()
                put(self.out, fields(promise_fields(schedule)))
        self.bar.announce(schedule)

    def show(self) -> None:
        if self.out is not None and self._waiting:
            from smoothcruiser.report.problems import show_problem

            show_problem(self.out, "plan", *self._waiting)
        self._waiting = ()


def _resumed(run: int, problem: str | None, asked: dict[str, Any], head: _Head) -> Any:
    """The estimate of a stored run, gone on with."""
    from smoothcruiser.engines.store import Store, fingerprint, schedule_from
    from smoothcruiser.methods.scheduled import resume
    from smoothcruiser.problem.make import make

    store = asked["store"]
    if store is None:
        raise click.UsageError(
            "--resume needs --store, the file that the run was started with."
        )
    if problem is not None:
        raise click.UsageError(
            f"--resume {run} takes its problem from the store; drop {problem!r}."
        )
    find_modules_here()
    made, state = None, None
    # resume() says what is wrong with a store or a run that is not there, or a
    # problem that has changed
    if os.path.exists(store):
        with Store(store) as opened:
            stored = opened.get(run)
        if stored.spec is not None:
            spec = stored.spec
            made = make(
                spec["problem"],
                discount=spec["discount"],
                temperature=spec["temperature"],
                operator=spec["operator"],
            )
            if fingerprint(made) == stored.fingerprint:
                # plain data in the store: a NamedTuple or an array again
                state = state_of(made, stored.state)
                head.before = head.bar.before = stored.calls_done
                head.about(made, state, f"run {run}, resumed")
                head.announce(schedule_from(stored.schedule, made))
    names = ("executor", "workers", "seconds", "scheduler")
    return resume(
        run,
        store,
        made,
        state=state,
        progress=head.bar.report,
        **{name: asked[name] for name in names},
    )


@app.command()
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    required=True,
    help="The file that runs are kept in.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."
)
def runs(store: str, as_json: bool) -> None:
    """List the runs of a store, finished and unfinished."""
    from smoothcruiser.engines.store import Store
    from smoothcruiser.errors import InvalidInput

    if not os.path.exists(store):
        raise InvalidInput(
            f"The store {store} does not exist; give the file of a plan that ran "
            "with --store."
        )
    with Store(store) as opened:
        listed = opened.runs()
    if as_json:
        _print_json({"runs": [run.to_dict() for run in listed]})
        return
    from smoothcruiser.report.console import console
    from smoothcruiser.report.runs import show_runs

    show_runs(console(), store, listed)


@app.command()
@click.argument("problem")
@problem_options
@state_option
def exact(
    problem: str,
    discount: float | None,
    temperature: float | None,
    operator: str | None,
    as_json: bool,
    state: Any,
) -> None:
    """Solve a problem whose model is known: no sampling, no doubt.

    PROBLEM is built in (chain:n=5), or your own with tables or outcomes
    (module:attribute).
    """
    from smoothcruiser import api

    made = problem_of(problem, discount, temperature, operator)
    start = state_of(made, state)
    estimate = api.plan(made, start, method="exact")
    if as_json:
        _print_json(estimate.to_dict())
        return
    from smoothcruiser.report.answers import show_estimate
    from smoothcruiser.report.console import console
    from smoothcruiser.report.problems import show_problem

    out = console()
    show_problem(out, "exact", made, start)
    show_estimate(out, estimate)


# --- stops and errors ---------------------------------------------------------


@contextlib.contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """A list that is not empty once Ctrl-C was pressed, also where the run
    could still answer from what it had.
    """
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def handler(number: int, frame: Any) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _stopped_early(
    error: BaseException, bar: Any, asked: dict[str, Any], *, by_hand: bool
) -> NoReturn:
    """Say what is known of a run that ended before it had an answer, and leave."""
    from smoothcruiser.report.bar import describe

    last = bar.last
    known = (
        "before it reported anything"
        if last is None
        else f"at {describe(last, bar.before)}"
    )
    interval = getattr(last, "interval", None)
    if interval is not None and asked["delta"] is not None:
        known += (
            f"; the value lies in [{interval[0]:.6g}, {interval[1]:.6g}] with "
            f"probability {1.0 - asked['delta']:g}"
        )
    known = (
        str(error)
        if isinstance(error, Interrupted)
        else f"The run was stopped {known}."
    )
    if by_hand or asked["seconds"] is None:
        _complain(f"Stopped by Ctrl-C. {known}")
        sys.exit(STOPPED)
    raise SmoothcruiserError(
        f"--seconds {asked['seconds']:g} ended the run; give more seconds, or a "
        f"larger --epsilon. {known}"
    )


def _complain(sentence: str) -> None:
    from rich.console import Console
    from rich.text import Text

    out = Console(stderr=True, highlight=False)
    first, *rest = sentence.split("\n")
    out.print(
        Text("Error: ", style="bold red").append(first, style="default"), soft_wrap=True
    )
    for line in rest:
        out.print(Text(line), soft_wrap=True)


def main() -> NoReturn:
    """The entry point: runs a command and turns errors into one sentence and an
    exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app(prog_name="smoothcruiser", standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" See {context.command_path} --help." if context is not None else ""
        _complain(f"{error.format_message()}{hint}")
        sys.exit(REFUSED)
    except SmoothcruiserError as error:
        _complain(str(error))
        sys.exit(REFUSED)
    except (KeyboardInterrupt, click.Abort):
        _complain("Stopped by Ctrl-C.")
        sys.exit(STOPPED)
    except BrokenPipeError:  # the reader of a pipe has left: not our error
        sys.stdout = None
    except Exception as error:
        if os.environ.get("SMOOTHCRUISER_TRACEBACK") == "1":
            traceback.print_exc()
        told = " ".join(str(error).split())
        _complain(
            f"unexpected {type(error).__name__}{': ' if told else ''}{told}; please "
            "report it, with the command and what it prints with "
            "SMOOTHCRUISER_TRACEBACK=1 set."
        )
        sys.exit(UNEXPECTED)
    sys.exit(OK)


if __name__ == "__main__":
    main()
