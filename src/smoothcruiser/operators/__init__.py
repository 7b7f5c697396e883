"""The smooth operators, which replace the maximum over actions.

``OPERATORS`` is the table of those that have a name on the command line;
``register`` adds one to it (docs/extending.md).
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, TypeVar

from smoothcruiser.errors import InvalidInput, describe_value
from smoothcruiser.operators.base import Operator, TemperedOperator
from smoothcruiser.operators.custom import CustomOperator
from smoothcruiser.operators.entropy import Entropy
from smoothcruiser.operators.kl import KL
from smoothcruiser.operators.max import Max
from smoothcruiser.operators.operator_functions import (
    SCHEMA,
    operator_data,
    operator_from,
)
from smoothcruiser.operators.sparsemax import Sparsemax
from smoothcruiser.operators.square_root import SquareRoot
from smoothcruiser.records.json_shapes import hold

if TYPE_CHECKING:
    from smoothcruiser.operators.check import check_operator

__all__ = [
    "KL",
    "OPERATORS",
    "CustomOperator",
    "Entropy",
    "Max",
    "Operator",
    "Sparsemax",
    "SquareRoot",
    "TemperedOperator",
    "check_operator",
    "make_operator",
    "register",
]

OPERATORS: dict[str, type[Operator]] = {}
OperatorClass = TypeVar("OperatorClass", bound=type[Operator])


def register(operator: OperatorClass) -> OperatorClass:
    """Return the same class, listed in ``OPERATORS`` under its name.

    ``make``, the command line and ``relax`` then know it. Use it as a
    decorator.
    """
    if not isinstance(operator, type) or not issubclass(operator, Operator):
        given_name = (
            operator.__name__
            if isinstance(operator, type)
            else describe_value(operator)
        )
        raise InvalidInput(
            f"register takes a subclass of Operator (the class, not an object of it), "
            f"got {given_name}."
        )
    name: Any = operator.name
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise InvalidInput(
            f"{operator.__name__} needs a class attribute name, the operator's name "
            "on the command line, of letters, digits, - and _, got "
            f"{describe_value(name)}."
        )
    if inspect.isabstract(operator):
        missing_methods = ", ".join(sorted(operator.__abstractmethods__))
        raise InvalidInput(
            f"{operator.__name__} is not complete; define {missing_methods} as well."
        )
    if name in OPERATORS:
        raise InvalidInput(
            f"An operator called {name!r} is registered already "
            f"({OPERATORS[name].__name__}); choose another name."
        )
    OPERATORS[name] = operator
    return operator


for _operator in (Entropy, KL, Sparsemax, SquareRoot, Max):
    register(_operator)

hold(
    Operator,
    lambda operator: operator_data(operator, OPERATORS),
    lambda data, where: operator_from(data, where, OPERATORS),
    SCHEMA,
)


def make_operator(name: str, temperature: float | None) -> Operator:
    """Return the operator called ``name`` at ``temperature``.

    Temperature 0 is Max for every name.
    """
    if name not in OPERATORS:
        raise InvalidInput(
            f"Unknown operator {name!r}; choose one of {', '.join(OPERATORS)}."
        )
    return Max() if temperature == 0 else OPERATORS[name].at(temperature)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """``check_operator``, which planning does not need, imported now."""
        if name != "check_operator":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from smoothcruiser.operators.check import check_operator

        return check_operator
