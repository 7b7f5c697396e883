"""What a shell offers when Tab is pressed: problems, methods, operators, executors.

The shell asks by running the program with ``_SMOOTHCRUISER_COMPLETE`` set (click's
protocol; docs/terminal.md says how to switch it on). Names come from the tables, so what is
registered is offered. Nothing is computed and no adapter's library is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _matching(
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
    from smoothcruiser.problem.adapter import find_adapter, prefixes
    from smoothcruiser.problem.zoo import ZOO

    name, colon, _ = incomplete.partition(":")
    if colon and name in ZOO:
        given = ",".join(f"{k}={v}" for k, v in ZOO[name].defaults.items())
        return _matching([(f"{name}:{given}", ZOO[name].summary)], incomplete)
    found = find_adapter(name) if colon and name in prefixes() else None
    if found is not None:
        return _matching([(f"{name}:{found.example}", found.summary)], incomplete)
    known = [(name, entry.summary) for name, entry in ZOO.items()]
    others = [(f"{prefix}:", "simulators of another library") for prefix in prefixes()]
    return _matching([*known, *others], incomplete)


def method_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Methods of ``plan``."""
    from smoothcruiser.methods import METHODS

    return _matching([(name, None) for name in METHODS], incomplete)


def methods_listed(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Methods in a list with commas: the last one is completed."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{item.value}")
        for item in method_names(ctx, param, last)
        if item.value not in taken
    ]


def opponent_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Who can play the other side."""
    return [
        *_matching([("random", "legal moves, all alike")], incomplete),
        *method_names(ctx, param, incomplete),
    ]


def operator_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Smooth maxima."""
    from smoothcruiser.operators import OPERATORS

    return _matching([(name, None) for name in OPERATORS], incomplete)


def executor_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Engines."""
    from smoothcruiser.engines.registry import EXECUTORS

    return _matching([(name, None) for name in EXECUTORS], incomplete)


def target_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """What is promised."""
    known = [("q_values", "all action values"), ("value", "the value alone")]
    return _matching(known, incomplete)
