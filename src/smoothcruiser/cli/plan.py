"""The command ``plan``: the answer, as promised; and the taking up of stored runs."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from typing import Any, NoReturn

import click

from smoothcruiser.cli.completion import method_names
from smoothcruiser.cli.exit import SIGNALLED, complain, ctrl_c
from smoothcruiser.cli.options import (
    ListingOption,
    State,
    find_modules_here,
    made_from,
    optional_problem_options,
    print_json,
    promise_options,
    run_options,
    state_of,
    state_option,
    tree_options,
)
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    SmoothcruiserError,
    printable,
)


@click.command()
@optional_problem_options
@promise_options
@click.option(
    "--method",
    cls=ListingOption,
    default="auto",
    show_default=True,
    metavar="NAME",
    shell_complete=method_names,
    help="One of {names}.",
)
@state_option
@click.option(
    "--states",
    type=State(),
    help="Several states as a JSON list, which share --delta, --budget and --seconds.",
)
@run_options
@tree_options
@click.option(
    "--resume",
    type=int,
    metavar="RUN",
    help="Go on with this run of --store; nothing else is needed.",
)
@click.option(
    "--trust",
    is_flag=True,
    help="With --resume: import what the stored problem names, without asking.",
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
    resume: int | None,
    trust: bool,
    compare_exact: bool,
    page: str | None,
    as_json: bool,
    states: Any,
    **asked: Any,
) -> None:
    """Answer: the value of a state and of its actions, as promised.

    PROBLEM is built in (chain:n=5) or your own (module:attribute). Where --budget or
    --seconds do not pay for the promise, the answer is the best that they do.
    """
    from smoothcruiser.display.answers import answer_blocks
    from smoothcruiser.display.console import console
    from smoothcruiser.display.many import planned_page
    from smoothcruiser.display.terminal import print_blocks, show
    from smoothcruiser.progress.bar import Bar

    if states is not None:
        one = {"--state": asked["state"], "--resume": resume, "--report": page}
        _refuse_beside_states(one | {"--compare-exact": compare_exact})
    if page is not None:
        from smoothcruiser.display.page import check_page

        check_page(page)
    bar = Bar(lines=False)
    head = Head(None if as_json else console(), bar)
    truth = None
    with ctrl_c() as stopped:
        try:
            with bar:
                if states is not None:
                    estimate = _planned_many(states, asked, head)
                elif resume is not None:
                    estimate = _resumed(resume, trust, asked, head)
                else:
                    estimate, truth = _planned(asked, compare_exact, head)
        except (Interrupted, KeyboardInterrupt) as error:
            _stopped_early(error, bar, asked, stopped)
        except InvalidInput as error:
            if not stopped:
                raise
            # a signal inside a compiler comes out as an error of another kind
            _stopped_early(KeyboardInterrupt(str(error)), bar, asked, stopped)
    about = {"before": head.before, "store": asked["store"]}
    try:
        if as_json:
            beside = {} if truth is None else {"exact": truth.to_dict()}
            print_json(estimate.to_dict() | beside)
        elif states is not None:
            show(planned_page(head.problem, estimate))
        else:
            head.show()
            print_blocks(console(), answer_blocks(estimate, truth, **about), begun=True)
    finally:  # the page, even where standard output takes no more
        if page is not None:
            from smoothcruiser.display.page import answer_page, write_page

            parts = {"problem": head.problem, "schedule": head.schedule}
            write_page(page, answer_page(estimate, exact=truth, **parts, **about))
    if stopped:
        what = _signal_name(stopped[0])
        complain(f"Stopped by {what}; the answer is what was known by then.")
        sys.exit(SIGNALLED + stopped[0])


class Head:
    """The lines above an answer.

    They are printed with the price as soon as it is known, else with the answer.
    """

    def __init__(self, out: Any, bar: Any) -> None:
        self.out, self.bar = out, bar
        self.problem: Any = None
        self.schedule: Any = None
        self.before = 0  # calls of earlier sessions of a resumed run
        self._waiting: tuple[Any, ...] = ()

    def about(self, problem: Any, state: Any, *more: str) -> None:
        """Name the problem and the state in question."""
        self.problem, self._waiting = problem, (problem, state, *more)

    def announce(self, ready: Any) -> None:
        """Show the promise and the price of what is about to run."""
        from smoothcruiser.schedule.schedule import Schedule

        found = ready.explanation
        follows = isinstance(found, Schedule)
        self.schedule = found if follows else None
        if self.out is not None and (follows or "delta" in ready.method.takes):
            from smoothcruiser.display.document import Fields
            from smoothcruiser.display.plans import promise_rows, request_rows
            from smoothcruiser.display.terminal import print_blocks

            rows = promise_rows(found) if follows else request_rows(ready)
            if rows:
                with self.bar.hidden():
                    self.show()
                    print_blocks(self.out, [Fields(rows)])

    def show(self) -> None:
        """Print what was not printed so far."""
        if self.out is not None and self._waiting:
            from smoothcruiser.display.problems import request_page
            from smoothcruiser.display.terminal import print_page

            print_page(self.out, request_page("plan", *self._waiting))
        self._waiting = ()


def _refuse_beside_states(given: dict[str, Any]) -> None:
    """Refuse options that are about one state."""
    for option, value in given.items():
        if value is not None and value is not False:
            raise click.UsageError(
                f"--states answers for many states, and {option} is about one; drop one "
                "of the two."
            )


def _planned_many(states: Any, asked: dict[str, Any], head: Head) -> Any:
    """The estimates at all states."""
    from smoothcruiser import api
    from smoothcruiser.problem.states import shaped

    if not isinstance(states, tuple):
        raise click.UsageError(
            f"--states is a JSON list, [0, 1, 2], got {states!r:.60}."
        )
    problem, method, rest = _method_of(asked, head)
    del rest["state"]
    head.problem = problem
    shaped_states = [shaped(state, problem.initial_state) for state in states]
    return api.plan_many(problem, shaped_states, method=method, **rest)


def _method_of(asked: dict[str, Any], head: Head) -> tuple[Any, Any, dict[str, Any]]:
    """The problem, the method with its parameters, and the keywords of ``plan``."""
    from smoothcruiser.methods import resolve

    rest = dict(asked)
    problem = made_from(rest)
    if problem is None:
        raise click.UsageError(
            "Missing argument 'PROBLEM': chain:n=5, say, or your own as "
            "module:attribute."
        )
    own = {name: rest.pop(name) for name in ("options", "delta_prime", "certify")}
    method = resolve(rest.pop("method"), **own)
    if "progress" in method.takes:  # the bar is ours: nobody asked for it by name
        rest["progress"] = head.bar
    return problem, method, rest


def _planned(asked: dict[str, Any], compare_exact: bool, head: Head) -> tuple[Any, Any]:
    """The estimate, and the exact one beside it where it was wanted and can be had."""
    from smoothcruiser import api

    problem, method, rest = _method_of(asked, head)
    start = state_of(problem, rest.pop("state"))
    truth, note = _truth(problem, start) if compare_exact else (None, ())
    head.about(problem, start)
    try:
        ready = api.prepare(problem, start, method=method, **rest)
        ready.check()
        ready = ready.with_pilot()
        head.announce(ready)
        estimate = ready.run()
    except KeyboardInterrupt as stop:
        from smoothcruiser.methods.base import unbegun
        from smoothcruiser.query import Query

        estimate = unbegun(method, Query.of(problem, start, **rest), stop)
    return replace(estimate, notes=(*estimate.notes, *note)), truth


def _truth(problem: Any, state: Any) -> tuple[Any, tuple[str, ...]]:
    """The exact answer, or None and a note: a comparison must not cost the plan."""
    from smoothcruiser import api

    if problem.tables is None and problem.outcomes is None:
        note = (
            "There is no model to compare with: the problem has neither tables nor "
            "outcomes=."
        )
        return None, (note,)
    try:
        return api.plan(problem, state, method="exact"), ()
    except SmoothcruiserError as error:
        return None, (f"There is no exact answer to compare with: {error}",)


def _resumed(run: int, trust: bool, asked: dict[str, Any], head: Head) -> Any:
    """The estimate of a stored run that is taken up again."""
    from smoothcruiser.methods.resume import pick_up, stored_run
    from smoothcruiser.query import KEYWORDS

    store = asked["store"]
    if store is None:
        raise click.UsageError(
            "--resume needs --store, the file that the run was started with."
        )
    given = {name: value for name, value in asked.items() if _was_given(name, value)}
    fixed = [name for name in given if name not in (*KEYWORDS, "state")]
    if fixed:
        what = given["problem"] if fixed[0] == "problem" else f"--{fixed[0]}"
        raise click.UsageError(
            f"--resume {run} takes its problem and method from the store; drop "
            f"{what.replace('_', '-')!r}."
        )
    del given["store"]
    stored = stored_run(run, store)
    find_modules_here()
    trusted = trust or _allowed(stored, head.bar)
    ready = pick_up(stored, store, trust=trusted, progress=head.bar, **given)
    head.before = stored.calls_done
    head.about(ready.query.problem, ready.query.state, f"run {run}, resumed")
    head.announce(ready)
    return ready.run()


def _was_given(name: str, value: Any) -> bool:
    """Whether an option of ``plan`` is not at its default."""
    from smoothcruiser.query import DEFAULTS

    return bool(value) and value != {"method": "auto", **DEFAULTS}.get(name)


def _allowed(stored: Any, bar: Any) -> bool:
    """Whether the user at the terminal lets a store import what its problem needs."""
    from smoothcruiser.problem.spec import imports_of

    imports = None if stored.spec is None else imports_of(stored.spec)
    if imports is None or not sys.stdin.isatty():
        return False  # nothing is imported, or ``pick_up`` says what would be
    shown = printable(imports, keep="")
    with bar.hidden():
        return click.confirm(
            f"Run {stored.id} would import and run {shown}. Go on?", err=True
        )


def _signal_name(number: int) -> str:
    """A signal as its user knows it."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def _stopped_early(
    error: BaseException, bar: Any, asked: dict[str, Any], came: list[int]
) -> NoReturn:
    """Say what is known of a run that ended before it had an answer, and leave."""
    from smoothcruiser.progress.bar import describe

    last = bar.last
    known = "before it reported anything"
    if last is not None and last.calls > 0:
        known = f"at {describe(last)}"
    interval = None if last is None else last.interval
    if interval is not None and asked["delta"] is not None:
        known += (
            f"; the value lies in [{interval[0]:.6g}, {interval[1]:.6g}] with "
            f"probability {1.0 - asked['delta']:g}"
        )
    sentence = (
        str(error)
        if isinstance(error, Interrupted)
        else f"The run was stopped {known}."
    )
    if came or asked["seconds"] is None:
        number = came[0] if came else signal.SIGINT
        complain(f"Stopped by {_signal_name(number)}. {sentence}")
        sys.exit(SIGNALLED + number)
    raise SmoothcruiserError(
        f"--seconds {asked['seconds']:g} ended the run; give more seconds, or a larger "
        f"--epsilon. {sentence}"
    )
