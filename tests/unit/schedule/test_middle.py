"""The level that returns the middle of bounds which depend on the state."""

from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule

FACTS = Facts(2, 2, 0.5, sc.Max(), (0.0, 1.0), given_gap=0.2)  # V in [0, 2]


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
