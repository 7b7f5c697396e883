"""Options that commands share, and the conversion of their text: problems, states,
numbers of calls.

A state is JSON; lists become tuples, and take the form of the problem's own
initial state where it has one (a NamedTuple, an array, floats written as whole
numbers), because compiled simulators tell those apart.

Shell completion on Tab: names of problems, methods, operators, executors. The shell asks
by running the program with ``_SMOOTHCRUISER_COMPLETE`` set (click's protocol). Names come
from the tables; nothing is computed and no adapter's library is imported.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_error

Function = Callable[..., Any]

# characters of a value that an error repeats; the rest of it is left out
LONGEST = 100
ARRAY, DATA = ".npy", ".json"  # files that hold a policy or values


class Calls(click.ParamType):  # type: ignore[type-arg]
    """A number of oracle calls: 1000000, 1_000_000 or 1e6."""

    name = "calls"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The whole number."""
        if isinstance(value, int):
            return value
        try:
            num_calls = (
                int(value)
                if str(value).replace("_", "").lstrip("+-").isdigit()
                else float(value)
            )
            if not 1 <= num_calls < math.inf:
                raise ValueError
        except ValueError:
            self.fail(
                (
                    f"{value!r} is not a number of calls of at least 1; write 1000000 "
                    "or 1e6."
                ),
                param,
                ctx,
            )
        return int(num_calls)


class ListingOption(click.Option):
    """An option with the names that its completion knows in its help.

    They are looked up when the help is printed: a table of names loads much else.
    """

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option's line in the help."""
        known_names = ", ".join(
            str(completion.value) for completion in self.shell_complete(ctx, "")
        )
        self.help = (self.help or "").replace("{names}", known_names)
        return super().get_help_record(ctx)


class Probability(click.ParamType):  # type: ignore[type-arg]
    """A probability of failure: 0.1 or 10%."""

    name = "probability"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | None:
        """The number."""
        from smoothcruiser.query import check_delta

        try:
            return check_delta(value)
        except SmoothcruiserError as error:
            self.fail(str(error), param, ctx)


class State(click.ParamType):  # type: ignore[type-arg]
    """A state as JSON; lists become tuples."""

    name = "json"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """The state."""
        from smoothcruiser.states.state_json import as_tuples

        try:
            return as_tuples(_read_json(value))
        except ValueError:
            self.fail(
                f"{_shorten_text(value)!r} is not JSON; write 3, 0.5, [1, 2] or "
                """'"text"'.""",
                param,
                ctx,
            )
        except RecursionError:
            self.fail(
                f"{_shorten_text(value)!r} is nested too deeply for a state.",
                param,
                ctx,
            )


def _read_json(text: str) -> Any:
    """The value that JSON text stands for; ValueError for NaN and names given twice."""

    def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            raise ValueError("a name is given twice")
        return members

    def no_number(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(
        text, object_pairs_hook=reject_duplicates, parse_constant=no_number
    )


def _shorten_text(text: str) -> str:
    """The text, or the beginning of a long one."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def print_json(data: dict[str, Any]) -> None:
    """Print the one JSON object of a command."""
    click.echo(json.dumps(data, allow_nan=False))


def json_option(function: Function) -> Function:
    """The flag --json."""
    help_text = "Print one JSON object and nothing else."
    return click.option("--json", "as_json", is_flag=True, help=help_text)(function)


def _problem_words(function: Function) -> Function:
    for option in (
        json_option,
        click.option(
            "--minimize",
            is_flag=True,
            help="Rewards are costs: find the lowest, and print costs.",
        ),
        click.option(
            "--operator",
            cls=ListingOption,
            metavar="NAME",
            shell_complete=operator_names,
            help="One of {names} (default: entropy).",
        ),
        click.option(
            "--temperature",
            type=float,
            help="Strength of the regularizer; 0 is plain max.",
        ),
        click.option(
            "--discount",
            type=float,
            help="Weight of the next step's value, in [0, 1); 1 with a horizon, or for totals.",
        ),
    ):
        function = option(function)
    return function


def problem_options(function: Function) -> Function:
    """PROBLEM and its parameters; the command gets the Problem, and ``as_json``."""

    @wraps(function)
    def command(**request: Any) -> Any:
        return function(problem=make_problem(request), **request)

    return _problem_argument(required=True)(_problem_words(command))


def optional_problem_options(function: Function) -> Function:
    """The same for a command that can do without a problem: it calls ``made_from``."""
    return _problem_argument(required=False)(_problem_words(function))


def _problem_argument(*, required: bool) -> Callable[[Function], Function]:
    return click.argument("problem", required=required, shell_complete=problem_names)


def make_problem(request: dict[str, Any]) -> Any:
    """The Problem of PROBLEM and its options, or None; ``request`` loses them."""
    text = request.pop("problem")
    problem_words = {
        name: request.pop(name) for name in ("discount", "temperature", "operator")
    }
    if request.pop("minimize", False):
        problem_words["minimize"] = True
    if text is None:
        return None
    from smoothcruiser.problem.make import is_built_in, make

    if not is_built_in(text):
        find_modules_here()
    try:
        return make(text, **problem_words)
    except SmoothcruiserError:
        raise
    except (Exception, SystemExit) as error:
        raise SmoothcruiserError(
            f"The problem {text!r} could not be made: {describe_error(error)}."
        ) from error


def promise_options(function: Function) -> Function:
    """The promise and the budget."""
    for option in (
        click.option(
            "--budget",
            type=Calls(),
            metavar="CALLS",
            help=(
                "Most oracle calls to pay, such as 1e6.  [default for plan: 1e9; 1e6 "
                "for tree searches]"
            ),
        ),
        click.option(
            "--delta-prime",
            type=float,
            metavar="D",
            help="The paper's per-node confidence, in place of --delta (method paper).",
        ),
        click.option(
            "--target",
            default="q_values",
            show_default=True,
            metavar="WHAT",
            shell_complete=target_names,
            help="Promise all q_values, or the value alone.",
        ),
        click.option(
            "--delta",
            type=Probability(),
            metavar="D",
            help="Allowed probability of failure: 0.1, or 10%.",
        ),
        click.option(
            "--epsilon",
            metavar="E",
            help=(
                "Half-width of the promise: 0.1, 5% (of the value span), or "
                '"2% of value" (certified search).'
            ),
        ),
    ):
        function = option(function)
    return function


def state_option(function: Function) -> Function:
    """The option of the queried state."""
    return click.option(
        "--state",
        type=State(),
        help="The state asked about, as JSON.  [default: the problem's initial state]",
    )(function)


def _named_values(
    ctx: click.Context, param: click.Parameter, pair_texts: tuple[str, ...]
) -> dict[str, Any] | None:
    """``name=value`` pairs as a dict; values are JSON or words."""
    option_values: dict[str, Any] = {}
    for pair_text in pair_texts:
        name, equals, value = pair_text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise click.BadParameter(
                f"{pair_text!r} is not NAME=VALUE; write temperature=0.5."
            )
        if ":" in value:  # value=module:attribute may name a module of this folder
            find_modules_here()
        # Python's spelling is JSON's
        json_text = {"None": "null", "True": "true", "False": "false"}.get(
            value, value
        )
        try:
            option_values[name.strip().replace("-", "_")] = _read_json(json_text)
        except (ValueError, RecursionError):
            # a word, such as prior=parent
            option_values[name.strip().replace("-", "_")] = value
    return option_values or None


def tree_options(function: Function) -> Function:
    """Options of tree searches alone."""
    for option in (
        click.option(
            "--simulations",
            type=int,
            metavar="N",
            help="Tree searches: stop after this many simulations.",
        ),
        method_option,
    ):
        function = option(function)
    return function


def method_option(function: Function) -> Function:
    """A parameter of the method, such as relax=entropy or exploration=2."""
    return click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_named_values,
        help="Set a parameter of the method.",
    )(function)


def run_options(function: Function) -> Function:
    """How a run is done; none of it changes the answer but the seed and the
    number of shards.
    """
    for option in (
        click.option(
            "--certify",
            is_flag=True,
            help=(
                "Tree searches: spend half of the budget on a lower bound on the "
                "value (MDPs)."
            ),
        ),
        click.option(
            "--store",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Keep finished parts of the run here, for --resume.",
        ),
        click.option(
            "--max-states",
            type=int,
            metavar="N",
            help=(
                "Certified search: keep at most this many states.  [default: what fits "
                "in half of the free memory]"
            ),
        ),
        click.option(
            "--seconds",
            type=float,
            metavar="T",
            help="Stop after this long with what is known.",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Of a Dask cluster (executor dask)."
        ),
        click.option(
            "--tls",
            nargs=3,
            metavar="CA CERT KEY",
            help="PEM files for a scheduler that asks for certificates (tls://).",
        ),
        click.option(
            "--shards",
            type=int,
            metavar="N",
            help="Cut an action's draws into this many parts, for slow simulators.",
        ),
        click.option(
            "--workers",
            type=int,
            metavar="W",
            help="Threads, processes or Dask workers.  [default: all cores]",
        ),
        click.option(
            "--executor",
            metavar="NAME",
            shell_complete=executor_names,
            help=(
                "compiled, python, batched, processes, dask or reference.  [default: "
                "the fastest that can]"
            ),
        ),
        click.option(
            "--seed",
            type=int,
            default=0,
            show_default=True,
            help="Of the random numbers; the same seed, the same answer.",
        ),
    ):
        function = option(function)
    return function


def load_player(text: str, role: str) -> Any:
    """A policy, a player or a value: module:name, or what a file holds."""
    module_name, colon, attribute = text.partition(":")
    try:
        if text.endswith((ARRAY, DATA)):
            return _load_file(text)
        if not colon:
            raise ImportError("it names no module")
        find_modules_here()
        loaded_object = importlib.import_module(module_name)
        for name in attribute.split("."):
            loaded_object = getattr(loaded_object, name)
        return loaded_object
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"The {role} {text!r} could not be found ({describe_error(error)}); name what is in "
            "a "
            f"module, module:name, or a file {ARRAY} that numpy.save wrote."
        ) from error


def _load_file(text: str) -> Any:
    """An array, or what JSON holds: a Solution, a list by state, an object by state."""
    import numpy as np

    if text.endswith(ARRAY):
        return np.load(text, allow_pickle=False)
    with open(text, encoding="utf-8") as file:
        data = json.load(file)
    if isinstance(data, list):
        return np.asarray(data, dtype=np.float64)
    if isinstance(data, dict) and data.get("kind") == "solution":
        from smoothcruiser.exact.solution import Solution

        return Solution.from_dict(data)
    return {State().convert(key, None, None): entry for key, entry in data.items()}


def find_modules_here() -> None:
    """Let ``module:attribute`` name a module of the current folder.

    The folder comes last: a file that is called like an installed module, such as
    numpy.py, is not taken for it.
    """
    try:
        current_folder = os.getcwd()
    except OSError:  # a folder that was removed holds no module
        return
    if current_folder not in sys.path:
        sys.path.append(current_folder)


def state_of(problem: Any, state: Any) -> Any:
    """The queried state, in the form of the problem's own."""
    from smoothcruiser.states.state_json import match_form

    return problem.start(
        None if state is None else match_form(state, problem.initial_state)
    )


# --- completion -----------------------------------------------------------------

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _matching_items(
    names: Iterable[tuple[str, str | None]], incomplete: str
) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=text)
        for name, text in names
        if name.startswith(incomplete)
    ]


def problem_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Built-in problems, with their parameters after the colon; prefixes of adapters."""
    from smoothcruiser.problem.adapter_protocol import find_adapter, prefixes
    from smoothcruiser.problem.zoo import ZOO

    name, colon, _ = incomplete.partition(":")
    if colon and name in ZOO:
        default_values = ",".join(f"{k}={v}" for k, v in ZOO[name].defaults.items())
        return _matching_items(
            [(f"{name}:{default_values}", ZOO[name].summary)], incomplete
        )
    adapter = find_adapter(name) if colon and name in prefixes() else None
    if adapter is not None:
        return _matching_items(
            [(f"{name}:{adapter.example}", adapter.summary)], incomplete
        )
    zoo_items = [(name, entry.summary) for name, entry in ZOO.items()]
    adapter_items = [
        (f"{prefix}:", "simulators of another library") for prefix in prefixes()
    ]
    return _matching_items([*zoo_items, *adapter_items], incomplete)


def _names_of(module_name: str, table_name: str) -> Completion:
    """The completion of the names in a table, whose module is imported late."""

    def table_names(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        table = getattr(import_module(module_name), table_name)
        return _matching_items([(name, None) for name in table], incomplete)

    return table_names


method_names = _names_of("smoothcruiser.methods", "METHODS")
operator_names = _names_of("smoothcruiser.operators", "OPERATORS")
executor_names = _names_of("smoothcruiser.engines.registry", "EXECUTORS")


def complete_methods(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Methods in a list with commas: the last one is completed."""
    earlier_text, comma, last_word = incomplete.rpartition(",")
    chosen_methods = earlier_text.split(",")
    return [
        CompletionItem(f"{earlier_text}{comma}{completion.value}")
        for completion in method_names(ctx, param, last_word)
        if completion.value not in chosen_methods
    ]


def opponent_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Players of the other side."""
    return [
        *_matching_items([("random", "legal moves, all alike")], incomplete),
        *method_names(ctx, param, incomplete),
    ]


def target_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Targets of a promise."""
    target_items = [("q_values", "all action values"), ("value", "the value alone")]
    return _matching_items(target_items, incomplete)
