"""Whether a table keeps its promise by Lemma 2 with the printed constants.

Everything is recomputed from the table alone.

With C, t(N) and sup |V| as in ``theory.paper_ladder``, each level has an
accuracy, bottom up (``paper_accuracy`` of each kind):

  CONSTANT c   |c| + sup |V|                       sup |V| is 0 at the horizon
  PLUGIN       gamma e_q + t(N)                    (Lemma 2, i, case 1)
  ROLLOUT      gamma e_c + K L (gamma e_q + t(N))^2   (Lemma 2, i, case 2)
  root         gamma e + t(N) <= epsilon           for every action value, hence
                                                   for F of them

legend   symbol     public name
  e_q, e_c          accuracies of ``query`` and ``continuation``
  N, delta'         ``samples``, ``delta_prime``
  K, L              ``num_actions``, ``facts.smoothness``

Why that is a promise (a repaired proof, docs/errata.md, item 8). Let X~ be a
level's sample with every X~ below it in place of X, if |Q~ - Q| is within gamma
e_q + t, and V(s) otherwise. Then |X~| <= C, so by Hoeffding's inequality (range
2C) a Q~ misses with probability at most delta'. The bias of X~ is at most e,
without conditioning. And X~ = X unless one of the Q~ of its calls missed.

|X~| <= C needs the box: clipped values within (r_max+M)/(1-gamma), constants
within C. The box must hold the true Q, else clipping adds error. All misses
together: delta' (1 + num_calls) <= delta. ``delta = 1.0`` promises nothing and
skips only this last line.

This file decides alone: it shares no code with the compiler of these tables. It
leaves out the price (``Schedule.num_calls``).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.prices import Node, nodes, root_node
from smoothcruiser.theory.paper_ladder import PaperConstants

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import Facts
    from smoothcruiser.schedule.prices import PricedTable

# Relative: covers 10^4 levels, each a few operations of relative error 2^-53, and
# accuracies merged at 12 digits.
ROUNDING = 1e-9


def verify_paper(schedule: PricedTable) -> None:
    """Raise ``BrokenPromise`` unless the table keeps (epsilon, delta) by Lemma 2."""
    constants = PaperConstants.of(schedule.facts, schedule.delta_prime)
    _check_root(schedule)
    reached_nodes = nodes(schedule)
    _check_box(schedule, constants, reached_nodes)
    accuracies: dict[Node, float] = {}
    for node in reached_nodes:
        accuracies[node] = _accuracy(schedule, constants, node, accuracies)
    root = schedule.root
    child_accuracy = accuracies[root_node(schedule)]
    root_accuracy = constants.gamma * child_accuracy + constants.noise(root.samples)
    if not root_accuracy <= schedule.epsilon * (1.0 + ROUNDING):
        raise BrokenPromise(
            f"The root reaches accuracy {root_accuracy:.9g}, above the promised "
            f"epsilon {schedule.epsilon:.9g}: level {root.child} "
            f"({schedule.levels[root.child].kind.name}) below it has "
            f"{child_accuracy:.9g} and {root.samples} draws have "
            f"{constants.noise(root.samples):.9g}; raise the samples of the root or of "
            "the levels below."
        )
    _check_failure(schedule)


def _check_root(schedule: PricedTable) -> None:
    root = schedule.root
    if (
        root.target != "q_values"
        or root.bound != "paper"
        or root.looks
        or root.adaptive_delta
    ):
        raise BrokenPromise(
            "The root of a paper schedule draws action values a fixed number of "
            f"times (bound 'paper'), got {root}."
        )


def _accuracy(
    schedule: PricedTable,
    constants: PaperConstants,
    node: Node,
    accuracies: dict[Node, float],
) -> float:
    """The accuracy of one level with its steps left, from those of its children."""
    index, remaining = node
    level = schedule.levels[index]
    name = f"Level {index} ({level.kind.name})"
    estimator = estimator_of(level.kind)
    flaw = estimator.paper_flaw(constants, level)
    if flaw is not None:
        raise BrokenPromise(f"{name} {flaw}.")
    if remaining is not None and remaining < 1 and not estimator.is_leaf:
        raise BrokenPromise(
            f"{name} is reached with no steps left before the horizon; only the "
            "constant 0 is right there."
        )
    steps_after = None if remaining is None else remaining - 1
    return estimator.paper_accuracy(
        constants,
        level,
        accuracies.get((level.query, steps_after), math.nan),
        accuracies.get((level.continuation, steps_after), math.nan),
        remaining,
    )


def _check_box(
    schedule: PricedTable, constants: PaperConstants, reached_nodes: list[Node]
) -> None:
    """Check that Q-hat is clipped to a box that holds Q at every stage.

    The box must also lie within the range that C_gamma allows.
    """
    if schedule.clip is None:
        raise BrokenPromise(
            "A schedule of the paper clips every Q-hat, got no box; without one "
            "C_gamma does not bound the outputs."
        )
    clip_low, clip_high = schedule.clip
    value_cap = constants.sup_value(None)
    slack = ROUNDING * max(value_cap, 1e-300)
    if not max(abs(clip_low), abs(clip_high)) <= value_cap + slack:
        raise BrokenPromise(
            f"The clip box [{clip_low:.9g}, {clip_high:.9g}] is wider than "
            f"(r_max+M)/(1-gamma) = {value_cap:.9g} allows."
        )
    if clip_low <= -value_cap and clip_high >= value_cap:
        return  # |Q| <= top at every stage
    facts = schedule.facts
    stages = {facts.horizon: "the root"}
    for index, remaining in reached_nodes:
        if not estimator_of(schedule.levels[index].kind).is_leaf:
            stages.setdefault(remaining, f"level {index}")
    for remaining, name in stages.items():
        if remaining is None or remaining >= 1:
            _check_stage(facts, remaining, name, (clip_low - slack, clip_high + slack))


def _check_stage(
    facts: Facts, remaining: int | None, name: str, box: tuple[float, float]
) -> None:
    for player in facts.players:
        q_low, q_high = facts.q_bounds(player, remaining)
        if not (box[0] <= q_low and q_high <= box[1]):
            raise BrokenPromise(
                f"The clip box [{box[0]:.9g}, {box[1]:.9g}] cuts off action values "
                f"in [{q_low:.9g}, {q_high:.9g}] at {name}."
            )


def _check_failure(schedule: PricedTable) -> None:
    """Check delta' (1 + num_calls) <= delta, in exact arithmetic.

    The count may be far beyond the floats.
    """
    if schedule.delta == 1.0:
        return
    assert schedule.delta_prime is not None
    failure_bound = Fraction(schedule.delta_prime) * (1 + schedule.num_calls)
    if not (
        0.0 < schedule.delta < 1.0
        and failure_bound <= Fraction(schedule.delta) * (1 + Fraction(ROUNDING))
    ):
        top, bottom = failure_bound.numerator, failure_bound.denominator
        failure_text = (
            f"{float(failure_bound):.9g}"
            if failure_bound < 10**9
            else f"10^{math.log10(top) - math.log10(bottom):.1f}"
        )
        raise BrokenPromise(
            "The table may fail with probability delta' (1 + num_calls) = "
            f"{failure_text}, above the promised delta {schedule.delta:.9g}: "
            f"level {schedule.root.child} and those below make too many calls for "
            f"delta' = {schedule.delta_prime:.6g}."
        )
