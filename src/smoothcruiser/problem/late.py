"""Adapters with a library that is imported when a first problem is built.

Such an adapter is a package. Its ``__init__`` has the class, which is cheap to import;
one module of it imports the library, and has two functions:

  build_by_name(text, parameters, *, discount, operator)   the problem of a name
  problem(simulator, …)                            that of a simulator at hand

The class names that module, and holds the peculiarities of the library. A package ends
with ``__getattr__ = late_problem(register(MyAdapter()))``, so that
``smoothcruiser.adapters.my_package.problem`` is the second function.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from smoothcruiser.operators import Operator
from smoothcruiser.problem.declarations import DECLARATIONS
from smoothcruiser.problem.problem import Problem

# keywords of ``problem`` that every running simulator has
LIVE_OPTIONS = ("discount", "operator", "reward_range", "call_seconds", *DECLARATIONS)


class LateAdapter:
    """The common part of this project's adapters; ``Adapter`` lists the rest."""

    module = "access"  # that which imports the library
    declares = True  # ``problem`` takes declarations (``problem.declarations``)

    @property
    def library(self) -> Any:
        """The module; its import names the extra where its library is missing."""
        return import_module(f"{type(self).__module__}.{self.module}")

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float | None,
        operator: Operator,
    ) -> Problem:
        """The problem of a name; parameters that are not the adapter's own go on."""
        problem: Problem = self.library.build_by_name(
            text, parameters, discount=discount, operator=operator
        )
        return problem

    def problem(self, simulator: Any, **options: Any) -> Problem:
        """The problem of a simulator, starting where it is."""
        problem: Problem = self.library.problem(simulator, **options)
        return problem


def late_problem(adapter: LateAdapter) -> Callable[[str], Any]:
    """The ``__getattr__`` of an adapter's package, which imports ``problem`` late."""

    def attribute(name: str) -> Any:
        if name != "problem":
            package_name = type(adapter).__module__
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        return adapter.library.problem

    return attribute
