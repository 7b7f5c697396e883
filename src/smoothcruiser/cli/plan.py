"""The command ``plan``: the answer, as promised; and the resumption of stored runs."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from typing import Any, NoReturn

import click

from smoothcruiser.cli.completion import method_names
from smoothcruiser.cli.exit_codes import SIGNALLED, complain, ctrl_c
from smoothcruiser.cli.options import (
    ListingOption,
    State,
    find_modules_here,
    make_problem,
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
    **request: Any,
) -> None:
    """Answer: the value of a state and of its actions, as promised.

    PROBLEM is built in (chain:n=5) or your own (module:attribute). Where --budget or
    --seconds do not pay for the promise, the answer is the best that they do.
    """
    from smoothcruiser.display.answer_pages import answer_blocks
    from smoothcruiser.display.result_pages import planned_page
    from smoothcruiser.display.terminal import console, print_blocks, show
    from smoothcruiser.progress.bar import Bar

    if states is not None:
        single_state_options = {
            "--state": request["state"],
            "--resume": resume,
            "--report": page,
        }
        _refuse_beside_states(
            single_state_options | {"--compare-exact": compare_exact}
        )
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
                    estimate = _plan_many(states, request, head)
                elif resume is not None:
                    estimate = _resume_run(resume, trust, request, head)
                else:
                    estimate, truth = _plan_one(request, compare_exact, head)
        except (Interrupted, KeyboardInterrupt) as error:
            _stopped_early(error, bar, request, stopped)
        except InvalidInput as error:
            if not stopped:
                raise
            # a signal inside a compiler comes out as an error of another kind
            _stopped_early(KeyboardInterrupt(str(error)), bar, request, stopped)
    run_facts = {"before": head.before, "store": request["store"]}
    try:
        if as_json:
            exact_data = {} if truth is None else {"exact": truth.to_dict()}
            print_json(estimate.to_dict() | exact_data)
        elif states is not None:
            show(planned_page(head.problem, estimate))
        else:
            head.show()
            print_blocks(
                console(), answer_blocks(estimate, truth, **run_facts), begun=True
            )
    finally:  # the page, even where standard output takes no more
        if page is not None:
            from smoothcruiser.display.page import answer_page, write_page

            page_parts = {"problem": head.problem, "schedule": head.schedule}
            write_page(
                page, answer_page(estimate, exact=truth, **page_parts, **run_facts)
            )
    if stopped:
        signal_text = _signal_name(stopped[0])
        complain(f"Stopped by {signal_text}; the answer is what was known by then.")
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
        """Show the promise and the price of the run that is about to start."""
        from smoothcruiser.schedule.schedule import Schedule

        explanation = ready.explanation
        has_schedule = isinstance(explanation, Schedule)
        self.schedule = explanation if has_schedule else None
        if self.out is not None and (has_schedule or "delta" in ready.method.takes):
            from smoothcruiser.display.document import Fields
            from smoothcruiser.display.plans import promise_rows, request_rows
            from smoothcruiser.display.terminal import print_blocks

            field_rows = (
                promise_rows(explanation) if has_schedule else request_rows(ready)
            )
            if field_rows:
                with self.bar.hidden():
                    self.show()
                    print_blocks(self.out, [Fields(field_rows)])

    def show(self) -> None:
        """Print the lines that were not printed so far."""
        if self.out is not None and self._waiting:
            from smoothcruiser.display.listing_pages import request_page
            from smoothcruiser.display.terminal import print_page

            print_page(self.out, request_page("plan", *self._waiting))
        self._waiting = ()


def _refuse_beside_states(option_values: dict[str, Any]) -> None:
    """Refuse options that are about one state."""
    for option, value in option_values.items():
        if value is not None and value is not False:
            raise click.UsageError(
                f"--states answers for many states, and {option} is about one; drop one "
                "of the two."
            )


def _plan_many(states: Any, request: dict[str, Any], head: Head) -> Any:
    """The estimates at all states."""
    from smoothcruiser import api
    from smoothcruiser.states.state_json import match_form

    if not isinstance(states, tuple):
        raise click.UsageError(
            f"--states is a JSON list, [0, 1, 2], got {states!r:.60}."
        )
    problem, method, keywords = _method_of(request, head)
    del keywords["state"]
    head.problem = problem
    shaped_states = [match_form(state, problem.initial_state) for state in states]
    return api.plan_many(problem, shaped_states, method=method, **keywords)


def _method_of(request: dict[str, Any], head: Head) -> tuple[Any, Any, dict[str, Any]]:
    """The problem, the method with its parameters, and the keywords of ``plan``."""
    from smoothcruiser.methods import resolve

    keywords = dict(request)
    problem = make_problem(keywords)
    if problem is None:
        raise click.UsageError(
            "Missing argument 'PROBLEM': chain:n=5, say, or your own as "
            "module:attribute."
        )
    method_options = {
        name: keywords.pop(name) for name in ("options", "delta_prime", "certify")
    }
    method = resolve(keywords.pop("method"), **method_options)
    if "progress" in method.takes:  # the bar is ours: nobody asked for it by name
        keywords["progress"] = head.bar
    return problem, method, keywords


def _plan_one(
    request: dict[str, Any], compare_exact: bool, head: Head
) -> tuple[Any, Any]:
    """The estimate, and the exact one where it was requested and exists."""
    from smoothcruiser import api
    from smoothcruiser.methods.base import prepare_answer, unstarted_estimate
    from smoothcruiser.progress import show_bar

    problem, method, keywords = _method_of(request, head)
    start_state = state_of(problem, keywords.pop("state"))
    truth, notes = _truth(problem, start_state) if compare_exact else (None, ())
    head.about(problem, start_state)
    query, widen = api.checked_query(problem, start_state, keywords)
    try:
        with show_bar(query.progress):
            ready = prepare_answer(method, query)
        ready.check()
        ready = ready.with_pilot()
        head.announce(ready)
        estimate = ready.run()
    except KeyboardInterrupt as interrupt:
        estimate = unstarted_estimate(method, query, interrupt)
    estimate = widen(estimate)
    return replace(estimate, notes=(*estimate.notes, *notes)), truth


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


def _resume_run(run: int, trust: bool, request: dict[str, Any], head: Head) -> Any:
    """The estimate of a stored run that is resumed."""
    from smoothcruiser.methods.stored_sessions import pick_up, stored_run
    from smoothcruiser.query import KEYWORDS

    store = request["store"]
    if store is None:
        raise click.UsageError(
            "--resume needs --store, the file that the run was started with."
        )
    changed_options = {
        name: value for name, value in request.items() if _was_given(name, value)
    }
    fixed_options = [
        name for name in changed_options if name not in (*KEYWORDS, "state")
    ]
    if fixed_options:
        option_text = (
            changed_options["problem"]
            if fixed_options[0] == "problem"
            else f"--{fixed_options[0]}"
        )
        raise click.UsageError(
            f"--resume {run} takes its problem and method from the store; drop "
            f"{option_text.replace('_', '-')!r}."
        )
    del changed_options["store"]
    stored_record = stored_run(run, store)
    find_modules_here()
    is_trusted = trust or _is_import_allowed(stored_record, head.bar)
    ready = pick_up(
        stored_record, store, trust=is_trusted, progress=head.bar, **changed_options
    )
    head.before = stored_record.calls_done
    head.about(ready.query.problem, ready.query.state, f"run {run}, resumed")
    head.announce(ready)
    return ready.run()


def _was_given(name: str, value: Any) -> bool:
    """Whether an option of ``plan`` is not at its default."""
    from smoothcruiser.query import DEFAULTS

    return bool(value) and value != {"method": "auto", **DEFAULTS}.get(name)


def _is_import_allowed(stored: Any, bar: Any) -> bool:
    """Whether the user at the terminal lets a store import its problem's modules."""
    from smoothcruiser.problem.make import imports_of

    imports = None if stored.spec is None else imports_of(stored.spec)
    if imports is None or not sys.stdin.isatty():
        return False  # nothing is imported, or ``pick_up`` names the modules
    import_names = printable(imports, keep="")
    with bar.hidden():
        return click.confirm(
            f"Run {stored.id} would import and run {import_names}. Go on?", err=True
        )


def _signal_name(number: int) -> str:
    """A signal as its user knows it."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def _stopped_early(
    error: BaseException,
    bar: Any,
    request: dict[str, Any],
    signals_received: list[int],
) -> NoReturn:
    """Report the state of a run that ended before it had an answer, and exit."""
    from smoothcruiser.progress.bar import describe

    last_report = bar.last
    known_text = "before it reported anything"
    if last_report is not None and last_report.calls > 0:
        known_text = f"at {describe(last_report)}"
    interval = None if last_report is None else last_report.interval
    if interval is not None and request["delta"] is not None:
        known_text += (
            f"; the value lies in [{interval[0]:.6g}, {interval[1]:.6g}] with "
            f"probability {1.0 - request['delta']:g}"
        )
    sentence = (
        str(error)
        if isinstance(error, Interrupted)
        else f"The run was stopped {known_text}."
    )
    if signals_received or request["seconds"] is None:
        signal_number = signals_received[0] if signals_received else signal.SIGINT
        complain(f"Stopped by {_signal_name(signal_number)}. {sentence}")
        sys.exit(SIGNALLED + signal_number)
    raise SmoothcruiserError(
        f"--seconds {request['seconds']:g} ended the run; give more seconds, or a "
        f"larger --epsilon. {sentence}"
    )
