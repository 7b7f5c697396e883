"""``make``: a problem from a line of text, for the command line and for runs
that have to be rebuilt elsewhere.

``chain:n=5`` is a zoo problem with parameters; ``gym:…`` and ``openspiel:…``
are simulators of other libraries; ``package.module:attribute`` is the user's
own: a Problem, or a function that returns one and may take ``discount``,
``temperature`` and ``operator``.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Operator, make_operator
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import ZOO, build

# prefix: module, example
ADAPTERS = {
    "gym": ("gymnasium", "FrozenLake-v1,map_name=8x8"),
    "openspiel": ("openspiel", "tic_tac_toe"),
}


def make(
    text: str,
    *,
    discount: float | None = None,
    temperature: float | None = None,
    operator: str | Operator | None = None,
) -> Problem:
    """The problem that ``text`` names."""
    if not isinstance(text, str) or not text:
        raise InvalidInput(
            f"A problem is named by text such as 'chain:n=5', got {text!r}; "
            "`smoothcruiser problems` lists them."
        )
    name, _, rest = text.partition(":")
    spec = {
        "problem": text,
        "discount": discount,
        "temperature": temperature,
        "operator": _operator_name(operator),
    }
    if name in ZOO:
        if discount is None:
            raise InvalidInput(
                f"{name} needs a discount in [0, 1); give --discount (discount=)."
            )
        chosen = (
            operator
            if isinstance(operator, Operator)
            else make_operator(operator or "entropy", temperature)
        )
        return build(
            name, _parameters(rest), discount=discount, operator=chosen, spec=spec
        )
    if name in ADAPTERS:
        return _adapted(name, rest, discount, temperature, operator, spec)
    if rest:
        return _imported(name, rest, discount, temperature, operator, spec)
    raise InvalidInput(
        f"Unknown problem {text!r}; choose one of {', '.join(ZOO)}, or name your "
        "own as module:attribute."
    )


def _adapted(
    name: str,
    rest: str,
    discount: float | None,
    temperature: float | None,
    operator: str | Operator | None,
    spec: dict[str, Any],
) -> Problem:
    """A simulator of another library: its adapter is found by name, since this
    layer knows nothing of those above it.
    """
    what, _, parameters = rest.partition(",")
    if not what or discount is None:
        raise InvalidInput(
            f"{name}: needs the name of a simulator and a discount, as in "
            f"make('{name}:{ADAPTERS[name][1]}', discount=0.9)."
        )
    chosen = (
        operator
        if isinstance(operator, Operator)
        else make_operator(operator or "entropy", temperature)
    )
    adapter = importlib.import_module(f"smoothcruiser.adapters.{ADAPTERS[name][0]}")
    made: Problem = adapter.named(
        what, _parameters(parameters), discount=discount, operator=chosen, spec=spec
    )
    return made


def _operator_name(operator: str | Operator | None) -> str | None:
    return operator.name if isinstance(operator, Operator) else operator


def _parameters(text: str) -> dict[str, Any]:
    """``n=5,seed=1`` as a dict; values are JSON where they parse, text elsewhere."""
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise InvalidInput(
                f"Parameters are written name=value,name=value; got {part!r}."
            )
        try:
            found[key.strip()] = json.loads(
                value.strip().lower()
                if value.strip().lower() in ("true", "false")
                else value.strip()
            )
        except json.JSONDecodeError:
            found[key.strip()] = value.strip()
    return found


def _imported(
    module_name: str,
    attribute: str,
    discount: float | None,
    temperature: float | None,
    operator: str | Operator | None,
    spec: dict[str, Any],
) -> Problem:
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        known = ", ".join(ZOO)
        raise InvalidInput(
            f"No problem and no module is called {module_name!r} ({error}); "
            f"built-in problems: {known}."
        ) from error
    except AttributeError as error:
        raise InvalidInput(
            f"Module {module_name!r} has no attribute {attribute!r}; name a "
            "Problem or a function that returns one."
        ) from error
    given = {"discount": discount, "temperature": temperature, "operator": operator}
    given = {key: value for key, value in given.items() if value is not None}
    if isinstance(found, Problem):
        changes: dict[str, Any] = {"spec": spec, "name": f"{module_name}:{attribute}"}
        if discount is not None:
            changes["discount"] = discount
        if operator is not None or temperature is not None:
            base = operator if operator is not None else found.operator.name
            changes["operator"] = (
                base if isinstance(base, Operator) else make_operator(base, temperature)
            )
        return dataclasses.replace(found, **changes)
    if not callable(found):
        raise InvalidInput(
            f"{module_name}:{attribute} must be a Problem or a function that "
            f"returns one, got {type(found).__name__}."
        )
    accepted = inspect.signature(found).parameters
    unused = [key for key in given if key not in accepted]
    if unused:
        raise InvalidInput(
            f"{module_name}:{attribute} takes no {unused[0]!r}; drop the option or "
            "add the parameter to the function."
        )
    made = found(**given)
    if not isinstance(made, Problem):
        raise InvalidInput(
            f"{module_name}:{attribute} must return a Problem (MDP, Game or "
            f"tabular), got {type(made).__name__}."
        )
    return dataclasses.replace(made, spec=spec, name=f"{module_name}:{attribute}")
