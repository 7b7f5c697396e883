"""The level that returns the middle of bounds which depend on the state."""

import math
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.kinds import free_kinds
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import backup, middle

FACTS = Facts(2, 2, 0.5, sc.Max(), (0.0, 1.0), given_gap=0.2)  # V in [0, 2]
KINDS = frozenset(sc.Kind)


def test_the_moments_are_those_of_lemma_m():
    base = ground(FACTS)
    made = middle(base, None)
    assert made.bias_low[0, 0] == pytest.approx(-0.1)
    assert made.bias_high[0, 0] == pytest.approx(0.1)
    assert (made.low[0, 0], made.high[0, 0]) == pytest.approx((0.0, 2.0), abs=1e-9)
    assert made.variance[0, 0] == 0.0
    assert made.log_calls[0] == -math.inf
    over = backup(base, made, None)
    assert over.bias_span[0, 0] == pytest.approx(0.1)  # gamma G
    assert over.spread[0, 0] == pytest.approx(2.0)  # the range of r + gamma V
    assert over.variance[0, 0] == pytest.approx(1.0)  # Popoviciu


def test_a_table_may_end_in_it_where_it_is_narrower_than_the_constant():
    assert free_kinds(ground(FACTS), KINDS, None) == [sc.Kind.MIDDLE]
    assert free_kinds(ground(replace(FACTS, given_gap=2.5)), KINDS, None) == []
    assert free_kinds(ground(FACTS), frozenset({sc.Kind.CONSTANT}), None) == []
    staged = ground(replace(FACTS, horizon=3))
    assert free_kinds(staged, KINDS, 0) == []
    assert free_kinds(staged, KINDS, 1) == [sc.Kind.MIDDLE]


@pytest.mark.parametrize(
    ("horizon", "game"), [(None, False), (3, False), (None, True)]
)
def test_to_know_more_costs_less(horizon, game):
    """Where the middle's range costs more than its bias saves, it is not used."""
    facts = replace(FACTS, horizon=horizon, game=game, operator=sc.Entropy(0.5))
    span = replace(facts, given_gap=None).value_span()
    none, wide, narrow = (
        compile_schedule(
            replace(facts, given_gap=gap), epsilon=0.1 * span, delta=0.1
        ).num_calls
        for gap in (None, 0.4 * span, 0.1 * span)
    )
    assert narrow < wide <= none


def altered(schedule, **changes):
    levels = list(schedule.levels)
    row = [level.kind for level in levels].index(sc.Kind.MIDDLE)
    levels[row] = replace(levels[row], **changes)
    return replace(schedule, levels=tuple(levels))


def test_the_verifier_refuses_what_the_bounds_do_not_cover():
    made = compile_schedule(FACTS, epsilon=0.1, delta=0.1)
    assert sc.Kind.MIDDLE in {level.kind for level in made.levels}
    with pytest.raises(
        sc.BrokenPromise, match="needs value_bounds that are functions"
    ):
        replace(made, facts=replace(FACTS, given_gap=None))
    with pytest.raises(sc.BrokenPromise, match="do not keep"):
        replace(made, facts=replace(FACTS, given_gap=0.4))
    with pytest.raises(sc.BrokenPromise, match="the middle of bounds has none"):
        altered(made, shift=0.01)
    with pytest.raises(sc.BrokenPromise, match="lies around 1"):
        altered(made, constant=0.5)
    staged = replace(FACTS, horizon=1)
    levels = (sc.Level(sc.Kind.MIDDLE, constant=0.5),)
    with pytest.raises(sc.BrokenPromise, match="no steps remain"):
        sc.Schedule("", staged, levels, sc.Root("q_values", 9, 0, "bennett"), 0.9, 0.1)
