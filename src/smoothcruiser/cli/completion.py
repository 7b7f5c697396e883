"""Shell completion on Tab: names of problems, methods, operators, executors.

The shell asks by running the program with ``_SMOOTHCRUISER_COMPLETE`` set (click's
protocol; docs/terminal.md says how to switch it on). Names come from the tables, so
everything registered is offered. Nothing is computed and no adapter's library is
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

import click
from click.shell_completion import CompletionItem

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
