"""The command line: finds the commands, runs one, and turns errors into a sentence.

A command is a file of this folder: ``cli/plan.py`` defines the click command ``plan``,
``cli/my_cmd.py`` the command ``my_cmd``, which is called as ``my-cmd``. To add one, add a
file. Options that commands share are decorators (``cli.options``). A file that defines no
click command of its own name is a helper. A file that cannot be imported is listed with
the reason, and the other commands work.

Answers go to standard output (``--json``: exactly one object), everything else to
standard error. Exit codes: 0 an answer, 1 an error that is ours
(``SMOOTHCRUISER_TRACEBACK=1`` shows where), 2 a request that cannot be met as it stands
(one sentence gives the reason and the remedy), 130 stopped by Ctrl-C (the answer so far
is printed as any answer is, and its notes say so), 143 the same for SIGTERM, 141 the
reader of the output has left (``| head``). A second signal ends the process at once.

Nothing heavy is imported before a command needs it: ``--help`` and ``explain`` never
load Numba.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import pkgutil
import sys
import traceback
from typing import Any, NoReturn

import click

from smoothcruiser import cli
from smoothcruiser.cli.exit_codes import (
    OK,
    OPTIONS,
    REFUSED,
    STOPPED,
    UNEXPECTED,
    AnswerStream,
    LostOutput,
    complain,
    prepare_streams,
    register_options,
    report_lost_output,
    spell_options,
)
from smoothcruiser.errors import SmoothcruiserError, describe_error, spelling

# modules of this folder that are known to be no commands
HELPER_MODULES = ("app", "exit", "options")
# these lead the help, in the order in which a newcomer needs them
LEADING_COMMANDS = ("problems", "explain", "plan", "exact")


class Commands(click.Group):
    """A group with the files of the folder as commands, imported when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands: the first ones, then the others by name."""
        other_commands = sorted(set(_modules()).difference(LEADING_COMMANDS))
        command_names = [*LEADING_COMMANDS, *other_commands, *self.commands]
        return [
            name for name in command_names if self.get_command(ctx, name) is not None
        ]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command called ``name``; None if there is none."""
        if name in self.commands:
            return self.commands[name]
        module = _modules().get(name)
        return None if module is None else _command(name, module)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name; an error suggests similar names."""
        try:
            name, command, command_args = super().resolve_command(ctx, args)
            if command is not None:
                register_options(command)
            return name, command, command_args
        except click.UsageError as error:
            close_names = difflib.get_close_matches(
                args[0], self.list_commands(ctx), 2
            )
            if not close_names or "did you mean" in error.message.lower():
                raise
            message = f"{error.message} Did you mean {' or '.join(close_names)}?"
            raise click.UsageError(message, ctx) from None


class Unloadable(click.Command):
    """A command of a file that cannot be imported: any use of it reports the reason."""

    def __init__(self, name: str, module: str, error: BaseException) -> None:
        reason = describe_error(error)
        super().__init__(name, short_help=f"(cannot be loaded: {reason})")
        self.sentence = (
            f"The command {name!r} cannot be loaded: {reason}; fix or remove "
            f"smoothcruiser/cli/{module}.py."
        )

    def make_context(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse to start."""
        raise click.UsageError(self.sentence)


def _modules() -> dict[str, str]:
    """The modules that may be commands, by the command's name."""
    module_names = (module.name for module in pkgutil.iter_modules(cli.__path__))
    return {
        name.replace("_", "-"): name
        for name in module_names
        if name not in HELPER_MODULES and not name.startswith("_")
    }


def _command(name: str, module: str) -> click.Command | None:
    """The click command that a module defines under its own name; None: a helper."""
    try:
        loaded_module = importlib.import_module(f"smoothcruiser.cli.{module}")
        command = getattr(loaded_module, module, None)
    except (Exception, SystemExit) as error:
        return Unloadable(name, module, error)
    return command if isinstance(command, click.Command) else None


@click.group(
    cls=Commands,
    invoke_without_command=True,  # prints the help: nobody asked for anything wrong
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="smoothcruiser")
@click.pass_context
def app(context: click.Context) -> None:
    """Planning with a promise.

    Give a simulator and a promise (epsilon, delta); get the value of a state
    and of its actions, with the price known before the run and a certificate
    after it. Start with: smoothcruiser problems
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> NoReturn:
    """The entry point: runs a command and turns errors into one sentence and a code."""
    prepare_streams()
    # Warnings, as of workers that are awaited, go to standard error, unless a program
    # of the user's own has a handler.
    logging.getLogger("smoothcruiser").handlers.clear()
    output_stream = sys.stdout
    if output_stream is None:
        sys.exit(report_lost_output(None))
    sys.stdout = AnswerStream(output_stream)
    try:
        exit_code = _code()
        sys.stdout.flush()
    except LostOutput as lost:
        exit_code = report_lost_output(lost.__cause__)
    finally:
        sys.stdout = output_stream
    sys.exit(exit_code)


def _code() -> int:
    """Run the requested command and return its exit code."""
    with spelling(spell_options):
        return _spelled_code()


def _spelled_code() -> int:
    try:
        app(prog_name="smoothcruiser", standalone_mode=False)
    except SystemExit as exit_request:
        if isinstance(exit_request.code, str):
            complain(exit_request.code)
            return REFUSED
        return exit_request.code or OK
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.NoSuchOption as error:
        complain(_no_option(error))
        return REFUSED
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" See {context.command_path} --help." if context is not None else ""
        complain(f"{error.format_message()}{hint}")
        return REFUSED
    except SmoothcruiserError as error:
        complain(str(error), spell=not error.in_module)
        return REFUSED
    except (KeyboardInterrupt, click.Abort):
        complain("Stopped by Ctrl-C.")
        return STOPPED
    except LostOutput:
        raise
    except MemoryError as error:
        complain(
            f"There is not enough memory for this ({describe_error(error)}); ask for less, or "
            "take a smaller problem."
        )
        return REFUSED
    except Exception as error:
        return _report_unexpected(error)
    return OK


def _no_option(error: click.NoSuchOption) -> str:
    """The error about an option that does not exist, with its name here if known."""
    from smoothcruiser.problem.arguments import SYNONYMS

    name = error.option_name.lstrip("-").replace("-", "_")
    option_names = [
        OPTIONS[word] for word in SYNONYMS.get(name, ()) if word in OPTIONS
    ]
    command_path = "smoothcruiser" if error.ctx is None else error.ctx.command_path
    if option_names:
        sentence = (
            f"No such option '{error.option_name}'; "
            f"it is called {option_names[0]} here."
        )
        return f"{sentence} See {command_path} --help."
    return f"{error.format_message()} See {command_path} --help."


def _report_unexpected(error: Exception) -> int:
    """Report an error of our own, and return its exit code."""
    if os.environ.get("SMOOTHCRUISER_TRACEBACK") == "1":
        traceback.print_exception(error)
    message = " ".join(str(error).split())
    complain(
        f"unexpected {type(error).__name__}{': ' if message else ''}{message}; please "
        "report it, with the command and what it prints with "
        "SMOOTHCRUISER_TRACEBACK=1 set."
    )
    return UNEXPECTED


if __name__ == "__main__":
    main()
