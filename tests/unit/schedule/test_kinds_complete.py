"""Every kind of estimator is known to every table that has a row per kind."""

import math
from enum import IntEnum

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.engines.compiled import kernel
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule import kinds
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS
from smoothcruiser.schedule.paper_schedule import CASES
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import backup, constant
from smoothcruiser.theory.paper_ladder import PaperConstants

FACTS = Facts(2, 2, 0.5, sc.Entropy(1.0), (0.0, 1.0), given_gap=0.5)


class Stranger(IntEnum):
    UNKNOWN = 99


def level_of(kind):
    """A level of ``kind`` over level 0, as its estimator says that it is made."""
    estimator = kinds.estimator_of(kind)
    return sc.Level(
        kind,
        samples=3 if estimator.asks else 0,
        query=0 if estimator.asks else -1,
        continuation=0 if estimator.goes_on else -1,
    )


def test_the_table_has_every_kind_once_under_its_own_number():
    assert list(kinds.KINDS) == list(sc.Kind)
    assert all(estimator.kind == number for number, estimator in kinds.KINDS.items())
    assert frozenset(sc.Kind) == ALL_KINDS
    assert len({estimator.word for estimator in kinds.KINDS.values()}) == len(sc.Kind)
    assert all(kinds.kind_named(kind.name.lower()) is kind for kind in sc.Kind)


def test_numbers_are_those_of_the_kernel_and_without_gaps():
    assert [kind.value for kind in sc.Kind] == list(range(len(sc.Kind)))
    assert len(sc.Kind) <= kinds.FIRST_FOREIGN
    assert all(getattr(kernel, kind.name) == kind for kind in sc.Kind)


@pytest.mark.parametrize("kind", sc.Kind)
def test_every_kind_has_moments_and_a_price_and_is_printed(kind):
    base = ground(FACTS)
    below = backup(base, constant(base, None), None)
    level, estimator = level_of(kind), kinds.estimator_of(kind)
    query = below if estimator.asks else None
    onward = below if estimator.goes_on else None
    samples = np.array([float(level.samples)])
    made = kinds.moments_of(base, kind, samples, query, onward, None)
    start = kinds.KINDS[sc.Kind.CONSTANT].finish_row(
        sc.Level(sc.Kind.CONSTANT), constant(base, None)
    )
    levels = (start, estimator.finish_row(level, made))
    schedule = sc.Schedule(
        "", FACTS, levels, sc.Root("value", 1, 1, ""), math.inf, 0.1
    )
    # the logarithm of the analysis and the count of the table are one price
    assert math.exp(float(made.log_calls[0])) == pytest.approx(schedule.num_calls)
    assert f" 1 {estimator.word}" in str(schedule)
    assert schedule.to_dict()["levels"][1]["kind"] == kind.name.lower()


@pytest.mark.parametrize("kind", sc.Kind)
def test_the_paper_has_an_accuracy_for_a_kind_or_refuses_it(kind):
    c, level, estimator = (
        PaperConstants.of(FACTS, 0.1),
        level_of(kind),
        kinds.KINDS[kind],
    )
    if estimator.in_paper:
        assert kind in CASES.values()
        assert estimator.paper_flaw(c, level) is None
        assert math.isfinite(estimator.paper_accuracy(c, level, 0.5, 0.5, None))
    else:
        flaw = estimator.paper_flaw(c, level)
        assert f"no {estimator.word} levels" in str(flaw)
        with pytest.raises(sc.BrokenPromise, match="not part of the paper"):
            estimator.paper_accuracy(c, level, 0.5, 0.5, None)


def test_a_kind_outside_the_table_is_refused_everywhere():
    levels = (sc.Level(sc.Kind.CONSTANT), sc.Level(Stranger.UNKNOWN, 3, 0))
    with pytest.raises(sc.InvalidInput, match=r"no estimator of the kind .*UNKNOWN"):
        sc.Schedule("", FACTS, levels, sc.Root("value", 1, 1, ""), math.inf, 0.1)
    with pytest.raises(sc.InvalidInput, match="no estimator of the kind"):
        kinds.moments_of(ground(FACTS), Stranger.UNKNOWN, np.ones(1), None, None, None)
