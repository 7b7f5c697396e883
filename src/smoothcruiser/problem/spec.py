"""Problems as text: what run stores and worker processes rebuild them from.

A spec is a dict of plain values, and ``make`` puts it into every problem that
it builds: the text, and the options beside it. It names the operator and holds
its temperature, but no prior and nothing that was changed with
``dataclasses.replace``; whoever rebuilds a problem compares its facts or its
fingerprint with the original's.
"""

from __future__ import annotations

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
) -> Spec:
    """The spec of what ``make`` builds from these arguments."""
    return {
        "problem": text,
        "discount": discount,
        "temperature": temperature,
        "operator": operator.name if isinstance(operator, Operator) else operator,
    }


def from_spec(spec: Spec) -> Problem:
    """The problem that ``spec`` describes, built anew by ``make``."""
    from smoothcruiser.problem.make import make

    return make(
        spec["problem"],
        discount=spec["discount"],
        temperature=spec["temperature"],
        operator=spec["operator"],
    )
