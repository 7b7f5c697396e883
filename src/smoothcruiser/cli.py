"""The command line: ``problems``, ``explain``, ``plan``, ``exact``. One function a command, options shared by decorators.

Answers go to standard output (``--json``: exactly one object), everything else to standard error. Exit codes: 0 an answer, 2 a request
that cannot be met as it stands (one sentence says why and what to change), 130 stopped by Ctrl-C with what is known.

Nothing heavy is imported before a command needs it: ``--help`` and ``explain`` never load Numba. To add a command, write a
``click.command`` in a module of its own and name it in ``ELSEWHERE``, or decorate a function here with ``@app.command()``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import click

from smoothcruiser.errors import Interrupted, SmoothcruiserError

OK, REFUSED, STOPPED = 0, 2, 130  # 130 = 128 + SIGINT, the shell's convention

ELSEWHERE = {"reproduce": "smoothcruiser.reproduce.command:reproduce"}  # command: module:attribute, shown where the module exists

Function = Callable[..., Any]


class Commands(click.Group):
    """A group whose further commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands of this file in their order, then those of others."""
        return [*self.commands, *(name for name, where in ELSEWHERE.items() if _exists(where.partition(":")[0]))]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command called ``name``."""
        if name in self.commands or name not in ELSEWHERE:
            return self.commands.get(name)
        module, _, attribute = ELSEWHERE[name].partition(":")
        return getattr(importlib.import_module(module), attribute) if _exists(module) else None


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="smoothcruiser")
def app() -> None:
    """Planning with a promise.

    Give a simulator and a promise (epsilon, delta); get the value of a state and of its actions, with the price known before the run
    and a certificate after it. Start with: smoothcruiser problems
    """


# --- parameters --------------------------------------------------------------------------------------------------------------


class Calls(click.ParamType):  # type: ignore[type-arg]
    """A number of oracle calls: 1000000, 1_000_000 or 1e6."""

    name = "calls"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The whole number."""
        if isinstance(value, int):
            return value
        try:
            number = int(value) if str(value).replace("_", "").lstrip("+-").isdigit() else float(value)
            if not 1 <= number < math.inf:
                raise ValueError
        except ValueError:
            self.fail(f"{value!r} is not a number of calls of at least 1; write 1000000 or 1e6.", param, ctx)
        return int(number)


class State(click.ParamType):  # type: ignore[type-arg]
    """A state as JSON; lists become tuples."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The state."""
        try:
            return _tuples(json.loads(value))
        except json.JSONDecodeError:
            self.fail(f"""{value!r} is not JSON; write 3, 0.5, [1, 2] or '"text"'.""", param, ctx)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _shaped(state: Any, example: Any) -> Any:
    """``state`` in the form of the problem's own initial state: its NamedTuple, its array, its floats."""
    fields = getattr(example, "_fields", None)
    if fields and isinstance(state, dict) and set(state) == set(fields):
        state = tuple(state[name] for name in fields)
    if isinstance(example, tuple) and isinstance(state, tuple) and len(state) == len(example):
        parts = [_shaped(part, like) for part, like in zip(state, example, strict=True)]
        return type(example)(*parts) if fields else tuple(parts)
    if type(example).__module__ == "numpy" and hasattr(example, "dtype") and isinstance(state, tuple | int | float):
        import numpy as np

        return np.array(state, dtype=example.dtype)
    if isinstance(example, float) and isinstance(state, int) and not isinstance(state, bool):
        return float(state)
    return state


def problem_options(function: Function) -> Function:
    """PROBLEM and what makes it a problem: discount, temperature, operator; and --json."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."),
        click.option("--operator", metavar="NAME", help="entropy (default), kl, sparsemax, square-root or max."),
        click.option("--temperature", type=float, help="Strength of the regularizer; 0 is plain max."),
        click.option("--discount", type=float, help="Weight of the next step's value, in [0, 1)."),
        click.argument("problem"),
    ):
        function = option(function)
    return function


def promise_options(function: Function) -> Function:
    """The promise, the method that keeps it, and what may be paid."""
    for option in (
        click.option("--budget", type=Calls(), metavar="CALLS", help="Most oracle calls to pay, such as 1e6.  [default for plan: 1e9]"),
        click.option("--delta-prime", type=float, metavar="D", help="The paper's per-node confidence, in place of --delta (method paper)."),
        click.option(
            "--method", default="auto", show_default=True, metavar="NAME", help="smoothcruiser, sparse-sampling, paper, certified or exact."
        ),
        click.option("--target", default="q_values", show_default=True, metavar="WHAT", help="Promise all q_values, or the value alone."),
        click.option("--delta", type=float, metavar="D", help="Allowed probability of failure, such as 0.1."),
        click.option("--epsilon", metavar="E", help="Half-width of the promise: 0.1, or 5% of the value span."),
    ):
        function = option(function)
    return function


def state_option(function: Function) -> Function:
    """The state that is asked about."""
    return click.option("--state", type=State(), help="The state asked about, as JSON.  [default: the problem's initial state]")(function)


def _problem(text: str, discount: float | None, temperature: float | None, operator: str | None) -> Any:
    """The Problem that the options describe; modules are found in the current folder."""
    from smoothcruiser.problem.make import make

    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return make(text, discount=discount, temperature=temperature, operator=operator)
    except SmoothcruiserError:
        raise
    except Exception as error:
        raise SmoothcruiserError(f"The problem {text!r} could not be made: {type(error).__name__}: {error}.") from error


def _state(problem: Any, given: Any) -> Any:
    return problem.start(None if given is None else _shaped(given, problem.initial_state))


def _print_json(data: dict[str, Any]) -> None:
    click.echo(json.dumps(data))


# --- commands ----------------------------------------------------------------------------------------------------------------


@app.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def problems(as_json: bool) -> None:
    """List the built-in problems and their parameters."""
    if as_json:
        from smoothcruiser.problem.zoo import ZOO

        _print_json({name: {"parameters": entry.defaults, "summary": entry.summary} for name, entry in ZOO.items()})
        return
    from smoothcruiser.report.console import console, show_problems

    show_problems(console())


@app.command()
@problem_options
@promise_options
@click.option("--calibrate", is_flag=True, help="Measure the simulator for about 0.3 s to estimate the time.")
def explain(
    problem: str, discount: float | None, temperature: float | None, operator: str | None, as_json: bool, calibrate: bool, **promise: Any
) -> None:
    """Show the cheapest plan that keeps a promise, and its price; nothing is run.

    PROBLEM is built in (chain:n=5) or your own (module:attribute).
    """
    from smoothcruiser import api
    from smoothcruiser.report import price

    made = _problem(problem, discount, temperature, operator)
    schedule = api.explain(made, **promise)
    speed = api.calibrate(made) if calibrate else price.COMPILED_SPEED if made.is_compiled else None
    budget = promise["budget"]
    if as_json:
        _print_json(price.explain_dict(schedule, problem=made.name, speed=speed, measured=calibrate, budget=budget))
        return
    from smoothcruiser.report.console import console, show_offers, show_rivals, show_schedule

    out = console()
    show_schedule(out, made, schedule, time=price.time_sentence(schedule.num_calls, speed, measured=calibrate))
    show_rivals(out, schedule, price.rivals(schedule))
    show_offers(out, price.offers_for(schedule, budget), budget or price.OFFERS_ABOVE)


@app.command()
@problem_options
@promise_options
@state_option
@click.option("--seed", type=int, default=0, show_default=True, help="Stream of random numbers; the same seed gives the same answer.")
@click.option("--executor", metavar="NAME", help="compiled or reference.  [default: compiled where the simulator is]")
@click.option("--workers", type=int, metavar="W", help="Threads; the answer does not depend on them.  [default: all cores]")
@click.option("--seconds", type=float, metavar="T", help="Stop after this long with what is known.")
@click.option("--compare-exact", is_flag=True, help="Solve the problem exactly too, where its model is known, and show both.")
def plan(
    problem: str,
    discount: float | None,
    temperature: float | None,
    operator: str | None,
    as_json: bool,
    state: Any,
    compare_exact: bool,
    **asked: Any,
) -> None:
    """Answer: the value of a state and of its actions, as promised.

    PROBLEM is built in (chain:n=5) or your own (module:attribute). A plan above --budget is refused before it starts.
    """
    from smoothcruiser import api
    from smoothcruiser.report.console import console, fields, promise_fields, put, show_estimate, show_problem
    from smoothcruiser.report.progress import Bar

    made = _problem(problem, discount, temperature, operator)
    start = _state(made, state)
    exact = api.plan(made, start, method="exact") if compare_exact else None
    out = console()
    bar = Bar(console(stderr=True))
    announced: list[Any] = []

    def announce(schedule: Any) -> None:
        announced.append(schedule)
        if not as_json:
            show_problem(out, "plan", made, start)
            put(out, fields(promise_fields(schedule)))
        bar.announce(schedule)

    with _ctrl_c() as stopped:
        try:
            with bar:
                estimate = api.plan(made, start, announce=announce, progress=bar.report, **asked)
        except (Interrupted, KeyboardInterrupt) as error:
            _stopped_early(bar.last, asked, by_hand=isinstance(error, KeyboardInterrupt) or bool(stopped))
    if as_json:
        _print_json(estimate.to_dict() | ({} if exact is None else {"exact": exact.to_dict()}))
    else:
        if not announced:
            show_problem(out, "plan", made, start)
        show_estimate(out, estimate, exact)
    if stopped:
        sys.exit(STOPPED)


@app.command()
@problem_options
@state_option
def exact(problem: str, discount: float | None, temperature: float | None, operator: str | None, as_json: bool, state: Any) -> None:
    """Solve a problem whose model is known: no sampling, no doubt.

    PROBLEM is built in (chain:n=5), or your own with tables or outcomes (module:attribute).
    """
    from smoothcruiser import api

    made = _problem(problem, discount, temperature, operator)
    start = _state(made, state)
    estimate = api.plan(made, start, method="exact")
    if as_json:
        _print_json(estimate.to_dict())
        return
    from smoothcruiser.report.console import console, show_estimate, show_problem

    out = console()
    show_problem(out, "exact", made, start)
    show_estimate(out, estimate)


# --- stops and errors --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """A list that is not empty once Ctrl-C was pressed, also where the run could still answer from what it had."""
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


def _stopped_early(last: Any, asked: dict[str, Any], *, by_hand: bool) -> NoReturn:
    """Say what is known of a run that ended before it had an answer, and leave."""
    from smoothcruiser.report.progress import describe

    known = "before the first oracle call" if last is None else f"at {describe(last)}"
    interval = getattr(last, "interval", None)
    if interval is not None and asked["delta"] is not None:
        known += f"; the value lies in [{interval[0]:.6g}, {interval[1]:.6g}] with probability {1.0 - asked['delta']:g}"
    else:
        known += "; nothing can be promised yet"
    if by_hand:
        _complain(f"Stopped by Ctrl-C {known}.")
        sys.exit(STOPPED)
    raise SmoothcruiserError(f"--seconds {asked['seconds']:g} ended the run {known}; give more seconds, or a larger --epsilon.")


def _complain(sentence: str) -> None:
    from rich.console import Console
    from rich.text import Text

    out = Console(stderr=True, highlight=False)
    first, *rest = sentence.split("\n")
    out.print(Text("Error: ", style="bold red").append(first, style="default"), soft_wrap=True)
    for line in rest:
        out.print(Text(line), soft_wrap=True)


def main() -> NoReturn:
    """The entry point: runs a command and turns errors into one sentence and an exit code."""
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
    sys.exit(OK)


if __name__ == "__main__":
    main()
