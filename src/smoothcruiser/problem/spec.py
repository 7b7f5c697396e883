"""Problems as text, from which run stores and worker processes rebuild them.

A spec is a dict of plain values, and ``make`` puts it into every problem that
it builds: the text, and the options beside it (names of actions and declarations,
if any). It names the operator and holds its temperature, but no prior and nothing
that was changed with ``dataclasses.replace``; whoever rebuilds a problem compares
its facts or its fingerprint with the original's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smoothcruiser.operators import Operator

if TYPE_CHECKING:
    from smoothcruiser.problem.problem import Problem

Spec = dict[str, Any]


def spec_of(
    text: str,
    *,
    discount: float | None,
    temperature: float | None,
    operator: str | Operator | None,
    actions: Sequence[str] | None = None,
    declared: Mapping[str, Any] | None = None,
) -> Spec:
    """The spec of the problem that ``make`` builds from these arguments.

    It holds names of actions if ``make`` was given any (most problems have their own),
    and declarations by keyword, as plain values.
    """
    optional_entries: Spec = {} if actions is None else {"actions": list(actions)}
    if declared:
        optional_entries["declared"] = dict(declared)
    return {
        "problem": text,
        "discount": discount,
        "temperature": temperature,
        "operator": operator.name if isinstance(operator, Operator) else operator,
        **optional_entries,
    }


def is_spec(value: Any) -> bool:
    """Whether plain data from elsewhere has the form of a spec."""

    from smoothcruiser.problem.declarations import DECLARATIONS

    def is_option(x: Any) -> bool:
        return x is None or (isinstance(x, int | float) and not isinstance(x, bool))

    def is_labels(x: Any) -> bool:
        return x is None or (isinstance(x, list) and all(isinstance(y, str) for y in x))

    def is_declared(x: Any) -> bool:
        return isinstance(x, dict) and x.keys() <= set(DECLARATIONS) - {"actions"}

    return (
        isinstance(value, dict)
        and value.keys() - {"actions", "declared"}
        == {"problem", "discount", "temperature", "operator"}
        and isinstance(value["problem"], str)
        and is_option(value["discount"])
        and is_option(value["temperature"])
        and isinstance(value["operator"], str | None)
        and is_labels(value.get("actions"))
        and is_declared(value.get("declared", {}))
    )


def imports_of(spec: Spec) -> str | None:
    """The module or adapter that rebuilding a problem imports; None if it is built in.

    Nothing is imported to find that out.
    """
    from importlib.machinery import PathFinder

    from smoothcruiser.problem.adapter import prefixes
    from smoothcruiser.problem.zoo import ZOO

    prefix, _, after_colon = spec["problem"].partition(":")
    if prefix in ZOO:
        return None
    if prefix in prefixes():
        return f"the adapter {prefix!r}, with {after_colon!r}"
    module_spec = PathFinder.find_spec(prefix.partition(".")[0])
    origin_text = (
        "not found here" if module_spec is None else f"found at {module_spec.origin}"
    )
    return f"the module {prefix!r} ({origin_text}), for its {after_colon!r}"


def from_spec(spec: Spec) -> Problem:
    """The problem that ``spec`` describes, built anew by ``make``."""
    from smoothcruiser.problem.make import make

    return make(
        spec["problem"],
        discount=spec["discount"],
        temperature=spec["temperature"],
        operator=spec["operator"],
        actions=spec.get("actions"),
        **spec.get("declared", {}),
    )
