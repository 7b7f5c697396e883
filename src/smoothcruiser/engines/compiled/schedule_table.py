"""A schedule and the facts it needs, in the form that the machine reads (``kernel``).

The same columns serve both forms of the machine: lists where it is interpreted, arrays
by address where it is compiled.
"""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcruiser.engines.root_scores import Score
from smoothcruiser.operators.dispatch import is_inlined
from smoothcruiser.problem.bounds import bounds_slack
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Schedule


class ScheduleTable(NamedTuple):
    """A schedule and the facts it needs: columns and numbers.

    A column is the address of its numbers in machine code, and a list otherwise.
    """

    kind: Any  # one number per level, down to ``center``
    samples: Any
    query: Any
    continuation: Any
    constant: Any
    shift: Any
    center: Any
    # the chances of all rungs, level after level, and where a level's begin
    rungs: Any
    first_rung: Any
    # the prior weights of the K actions, and F(0) over k actions, k = 0..K
    weights: Any
    blind_head: Any
    num_actions: int
    fewest: int  # the least number of legal actions in any state
    root_row: int
    state_words: int
    discount: float
    low: float  # reward range
    high: float
    clips: bool
    clip_low: float
    clip_high: float
    operator: int
    weighted: bool  # whether the operator reads the prior weights
    uniform_at_zero: bool  # whether its blind policy is uniform
    temperature: float
    unit: bool  # whether gradients sum to one
    varies: bool  # whether legal actions vary
    ends: bool  # whether there are terminal states
    game: bool
    # of bounds on V that are functions: their largest distance, the range to which they
    # are clipped, and the error that rounding may add
    gap: float
    value_low: float
    value_high: float
    slack: float
    # the sums that the root's bound needs (``engines.root_scores``)
    score: int
    score_half: float
    score_scale: float
    fragile: bool  # whether a step could write into a state, where FRAGILE


# of a level
LEVEL_FIELDS = ("kind", "samples", "query", "continuation", "constant", "shift")
WHOLE_NUMBERS = ("kind", "samples", "query", "continuation", "first_rung")


def schedule_columns(problem: Problem, schedule: Schedule) -> dict[str, list[Any]]:
    """The columns of the table of a schedule."""
    operator, num_actions = problem.operator, schedule.facts.num_actions
    columns = {
        name: [getattr(level, name) for level in schedule.levels]
        for name in LEVEL_FIELDS
    }
    columns["kind"] = [int(kind) for kind in columns["kind"]]
    level_rungs = [level.rungs for level in schedule.levels]
    return columns | {
        "center": list(schedule.centers),
        "rungs": [*chain(*level_rungs), 0.0],
        "first_rung": [0, *accumulate(map(len, level_rungs))],
        "weights": list(operator.weights(num_actions)),
        "blind_head": [
            0.0,
            *(
                operator.value([0.0] * k, weights=[1.0] * k)
                for k in range(1, num_actions + 1)
            ),
        ],
    }


def schedule_table(
    problem: Problem, schedule: Schedule, score: Score, columns: dict[str, Any]
) -> ScheduleTable:
    """The schedule and its facts, over columns in the form of the machine."""
    facts, operator = schedule.facts, problem.operator
    clip_range = schedule.clip or (0.0, 0.0)
    return ScheduleTable(
        **columns,
        num_actions=facts.num_actions,
        fewest=facts.min_actions,
        root_row=schedule.root.child,
        state_words=1,
        discount=facts.discount,
        low=facts.reward_range[0],
        high=facts.reward_range[1],
        clips=schedule.clip is not None,
        clip_low=clip_range[0],
        clip_high=clip_range[1],
        operator=operator.code,
        weighted=operator.weighted,
        uniform_at_zero=operator.uniform_at_zero,
        temperature=operator.strength,
        unit=operator.shift_invariant,
        varies=problem.legal is not None,
        ends=facts.terminals,
        game=problem.is_game,
        gap=facts.given_gap or 0.0,
        value_low=facts.value_hull()[0],
        value_high=facts.value_hull()[1],
        slack=bounds_slack(facts),
        score=score.kind,
        score_half=score.half,
        score_scale=score.scale,
        fragile=False,
    )


# marks, in names on the disk, of machines for the inlined operator alone and for problems
# where every action is legal, nothing ends and one player moves
ONE_OPERATOR, PLAIN = "one_operator", "plain"


def is_plain(problem: Problem) -> bool:
    """Whether a problem needs no more than ``kernel.PLAIN``."""
    return not (problem.legal or problem.facts.terminals or problem.is_game)


def table_salt(problem: Problem) -> str | None:
    """The name on the disk of the machine over tables; None for the general one."""
    one_operator = is_inlined(problem.operator.code)
    marks = [ONE_OPERATOR] * one_operator + [PLAIN] * is_plain(problem)
    return "_".join(marks) or None
