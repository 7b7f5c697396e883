"""Every kind of estimator is known to every table that has a row per kind."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
import pytest

from smoothcruiser.engines.compiled import kernel
from smoothcruiser.errors import BrokenPromise, InvalidInput
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS
from smoothcruiser.schedule.kinds import (
    FIRST_FOREIGN,
    KINDS,
    Kind,
    estimator_of,
    kind_named,
    moments_of,
)
from smoothcruiser.schedule.paper_schedule import CASES
from smoothcruiser.schedule.schedule import Level, Root, Schedule
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import backup, constant
from smoothcruiser.theory.paper_ladder import PaperConstants

FACTS = Facts(2, 2, 0.5, Entropy(1.0), (0.0, 1.0), given_gap=0.5)


class Stranger(IntEnum):
    UNKNOWN = 99


def level_of(kind: Kind) -> Level:
    """A level of ``kind`` over level 0, as its estimator says that it is made."""
    estimator = estimator_of(kind)
    return Level(
        kind,
        samples=3 if estimator.asks else 0,
        query=0 if estimator.asks else -1,
        continuation=0 if estimator.goes_on else -1,
    )


def test_the_table_has_every_kind_once_under_its_own_number() -> None:
    assert list(KINDS) == list(Kind)
    assert all(estimator.kind == number for number, estimator in KINDS.items())
    assert frozenset(Kind) == ALL_KINDS
    assert len({estimator.word for estimator in KINDS.values()}) == len(Kind)
    assert all(kind_named(kind.name.lower()) is kind for kind in Kind)


def test_numbers_are_those_of_the_kernel_and_without_gaps() -> None:
    assert [kind.value for kind in Kind] == list(range(len(Kind)))
    assert len(Kind) <= FIRST_FOREIGN
    assert all(getattr(kernel, kind.name) == kind for kind in Kind)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_moments_and_a_price_and_is_printed(kind: Kind) -> None:
    base = ground(FACTS)
    below = backup(base, constant(base, None), None)
    level, estimator = level_of(kind), estimator_of(kind)
    query = below if estimator.asks else None
    onward = below if estimator.goes_on else None
    samples = np.array([float(level.samples)])
    made = moments_of(base, kind, samples, query, onward, None)
    start = KINDS[Kind.CONSTANT].finish_row(Level(Kind.CONSTANT), constant(base, None))
    levels = (start, estimator.finish_row(level, made))
    schedule = Schedule("", FACTS, levels, Root("value", 1, 1, ""), math.inf, 0.1)
    # the logarithm of the analysis and the count of the table are one price
    assert math.exp(float(made.log_calls[0])) == pytest.approx(schedule.num_calls)
    assert f" 1 {estimator.word}" in str(schedule)
    assert schedule.to_dict()["levels"][1]["kind"] == kind.name.lower()


@pytest.mark.parametrize("kind", Kind)
def test_the_paper_has_an_accuracy_for_a_kind_or_refuses_it(kind: Kind) -> None:
    c, level, estimator = PaperConstants.of(FACTS, 0.1), level_of(kind), KINDS[kind]
    if estimator.in_paper:
        assert kind in CASES.values()
        assert estimator.paper_flaw(c, level) is None
        assert math.isfinite(estimator.paper_accuracy(c, level, 0.5, 0.5, None))
    else:
        flaw = estimator.paper_flaw(c, level)
        assert f"no {estimator.word} levels" in str(flaw)
        with pytest.raises(BrokenPromise, match="not part of the paper"):
            estimator.paper_accuracy(c, level, 0.5, 0.5, None)


def test_a_kind_outside_the_table_is_refused_everywhere() -> None:
    levels = (Level(Kind.CONSTANT), Level(Stranger.UNKNOWN, 3, 0))
    with pytest.raises(InvalidInput, match=r"no estimator of the kind .*UNKNOWN"):
        Schedule("", FACTS, levels, Root("value", 1, 1, ""), math.inf, 0.1)
    with pytest.raises(InvalidInput, match="no estimator of the kind"):
        moments_of(ground(FACTS), Stranger.UNKNOWN, np.ones(1), None, None, None)
