"""The table of all kinds of estimators.

Only the engines, which run them, switch on its members. Everybody else uses the
table.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_value
from smoothcruiser.records.json_shapes import hold
from smoothcruiser.records.shapes import TEXT
from smoothcruiser.schedule.kinds.base import (
    FIRST_FOREIGN,
    Estimator,
    Kind,
    Pairs,
    Walk,
)
from smoothcruiser.schedule.kinds.blind import Blind
from smoothcruiser.schedule.kinds.constant import Constant
from smoothcruiser.schedule.kinds.middle import Middle
from smoothcruiser.schedule.kinds.plug_in import PlugIn
from smoothcruiser.schedule.kinds.random_plugin import RandomPlugIn
from smoothcruiser.schedule.kinds.random_rollout import RandomRollout
from smoothcruiser.schedule.kinds.rollout import Rollout
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments

__all__ = [
    "FIRST_FOREIGN",
    "KINDS",
    "Estimator",
    "Kind",
    "Kinds",
    "Pairs",
    "Walk",
    "estimator_of",
    "free_kinds",
    "kind_named",
    "moments_of",
    "register",
]

Kinds = frozenset[IntEnum]

# by number; ``register`` adds to it
KINDS: dict[int, Estimator] = {
    estimator.kind: estimator
    for estimator in (
        Constant(),
        PlugIn(),
        Rollout(),
        Blind(),
        Middle(),
        RandomPlugIn(),
        RandomRollout(),
    )
}


def estimator_of(kind: int) -> Estimator:
    """Return the estimator of ``kind``; unknown kinds are refused."""
    if kind not in KINDS:
        known_names = ", ".join(estimator.kind.name for estimator in KINDS.values())
        raise InvalidInput(
            f"There is no estimator of the kind {kind!r}; known are {known_names}, and "
            "schedule.kinds.register adds one."
        )
    return KINDS[kind]


def kind_named(name: str) -> IntEnum:
    """Return the kind called ``name`` in stores and JSON, in upper or lower case."""
    for estimator in KINDS.values():
        if estimator.kind.name == name.upper():
            return estimator.kind
    known_names = ", ".join(
        estimator.kind.name.lower() for estimator in KINDS.values()
    )
    raise InvalidInput(
        f"There is no estimator of the kind {name!r}; known are {known_names}. Import "
        "the module that registers it first."
    )


hold(
    IntEnum,
    lambda kind: kind.name.lower(),
    lambda data, where: kind_named(TEXT.value(data, where)),
    {"type": "string", "description": "a kind of estimator, such as rollout"},
)


def register(estimator: Estimator) -> None:
    """Add a kind from outside this package.

    Its number is ``FIRST_FOREIGN`` or more, and neither number nor name may be
    another kind's. The name is in capitals, because ``kind_named`` reads names
    from stores in any case.
    """
    kind = _check_declaration(estimator)
    if kind < FIRST_FOREIGN:
        raise InvalidInput(
            f"The kind {kind.name} has the number {int(kind)}; smaller numbers than "
            f"{FIRST_FOREIGN} are this package's own, so choose a larger one."
        )
    for registered in KINDS.values():
        if registered.kind == kind or registered.kind.name == kind.name:
            raise InvalidInput(
                f"The kind {kind.name} ({int(kind)}) is taken by {registered.kind!r}; "
                "choose another number and another name."
            )
    KINDS[kind] = estimator


def _check_declaration(estimator: Any) -> IntEnum:
    """The kind that an estimator declares, with everything that text needs of it."""
    if not isinstance(estimator, Estimator):
        given_class = estimator if isinstance(estimator, type) else type(estimator)
        article = "the class" if isinstance(estimator, type) else "an object of"
        raise InvalidInput(
            f"register takes an object of a subclass of Estimator, got {article} "
            f"{given_class.__name__}."
        )
    class_name = type(estimator).__name__
    kind: Any = getattr(estimator, "kind", None)
    if not isinstance(kind, IntEnum):
        raise InvalidInput(
            f"{class_name} needs a class attribute kind, a member of an IntEnum, got "
            f"{describe_value(kind)}."
        )
    if kind.name != kind.name.upper():
        raise InvalidInput(
            f"The name of the kind {kind.name} must be in capitals, as in "
            f"{kind.name.upper()}: stores could not read it back."
        )
    text_word: Any = getattr(estimator, "word", None)
    if not isinstance(text_word, str) or not text_word.strip():
        raise InvalidInput(
            f"{class_name} needs a class attribute word, its name in texts, got "
            f"{describe_value(text_word)}."
        )
    for name in ("asks", "goes_on"):
        flag: Any = getattr(estimator, name, None)
        if not isinstance(flag, bool):
            raise InvalidInput(
                f"{class_name} needs a class attribute {name}, True or False, got "
                f"{describe_value(flag)}."
            )
    return kind


def moments_of(
    base: Ground,
    kind: int,
    samples: Any,
    query: Backup | None,
    onward: Backup | None,
    remaining: int | None,
) -> Moments:
    """Return the moments of a level of ``kind`` over backups of its children.

    They include the shift that centres its bias.
    """
    return estimator_of(kind).moments(base, samples, query, onward, remaining)


def free_kinds(base: Ground, kinds: Kinds, remaining: int | None) -> list[IntEnum]:
    """Return those of ``kinds`` in which a table may end, besides the constant.

    They cost no calls. One that is not narrower than the constant is left out: the
    constant's samples have no range.
    """
    no_samples = np.array([0.0])

    def width(kind: IntEnum) -> float:
        leaf_moments = moments_of(base, kind, no_samples, None, None, remaining)
        return float(leaf_moments.width[0])

    return [
        kind
        for kind in sorted(kinds - {Kind.CONSTANT})
        if estimator_of(kind).ends_chain(base, remaining)
        and width(kind) < width(Kind.CONSTANT)
    ]
