"""Evaluators by form: the ``value=``, ``prior=``, ``network=`` and ``initial_q=`` that
a user gives to a tree search become one of these.

A value is V of the state, **from the max player's point of view**, as everywhere in this
library: in a game a win of the min player is a small number at every state. A prior has
one weight per action of the player to move. To add a form, write a class derived from
``LeafEvaluator`` and name it in ``evaluator_of``.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.batched import Batched
from smoothcruiser.tree.evaluators.base import LeafEvaluator, Leaves

__all__ = ["LeafEvaluator", "Leaves", "evaluator_of", "is_memory", "named_object"]


def evaluator_of(method: str, name: str, given: Any) -> LeafEvaluator | None:
    """The evaluator that a user gave as the parameter ``name`` of ``method``."""
    if given is None or isinstance(given, LeafEvaluator):
        return given
    source = named_object(method, name, given) if isinstance(given, str) else given
    if isinstance(source, Batched):
        from smoothcruiser.tree.evaluators.functions import OverArrays

        return OverArrays(source)
    if isinstance(source, np.ndarray | list):
        from smoothcruiser.tree.evaluators.known_evaluators import StateTable

        return StateTable(source)
    from smoothcruiser.exact.solution import Solution

    if isinstance(source, Solution):
        from smoothcruiser.tree.evaluators.known_evaluators import Solved

        return Solved(source)
    if is_memory(source):
        from smoothcruiser.tree.evaluators.known_evaluators import CertifiedValues

        return CertifiedValues(source)
    if callable(source):
        from smoothcruiser.tree.evaluators.functions import Function

        return Function(source)
    raise InvalidInput(
        f"{method}: {name} must be a function of the state, sc.batched(function), an "
        f"array over states, a Solution or a Certified, got {given!r:.60}."
    )


def is_memory(given: Any) -> bool:
    """Whether ``given`` is a ``Certified``, which is defined in a later layer."""
    return hasattr(given, "table") and hasattr(given, "query")


def named_object(method: str, name: str, text: str) -> Any:
    """The object that ``module:attribute`` names."""
    module_name, colon, attribute = text.partition(":")
    try:
        if not colon:
            raise ValueError("no colon")
        return getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"{method}: {name}={text!r:.60} could not be found ({error}); name it as "
            "module:attribute."
        ) from error
