"""Does a table keep its promise by the paper's analysis (Lemma 2 with the
printed constants)? Recomputed from the table alone.

With C = 3 (r_max+M)/(1-gamma)^2 and t(N) = C sqrt(2 log(2K/delta')/N), each
level has an accuracy, bottom up:

  CONSTANT c   |c| + sup |V|                                    (sup |V| <= (r_max+M)(1-gamma^h)/(1-gamma), h steps left: 0 at the end)
  PLUGIN       gamma e_q + t(N)                                 F is 1-Lipschitz in sup norm                 (Lemma 2, i, case 1)
  ROLLOUT      gamma e_c + K L (gamma e_q + t(N))^2             |D| <= L norm2^2 <= K L sup^2                (Lemma 2, i, case 2)
  root         gamma e + t(N) <= epsilon                        for every action value, hence for F of them

legend   symbol     public name
  e_q, e_c          accuracies of ``query`` and ``continuation``
  N, delta', K, L   ``samples``, ``delta_prime``, ``num_actions``, ``facts.smoothness``

Why that is a promise (the proof repaired: theory note, section 2, item 8). Let
X~ be a level's draw with every X~ below it in place of X, if |Q~ - Q| is within
gamma e_q + t, and V(s) otherwise. Then |X~| <= C, so Hoeffding's inequality
(range 2C) makes a Q~ miss with probability at most delta'; the bias of X~ is at
most e, without conditioning; and X~ = X unless one of the Q~ of its calls
missed.
|X~| <= C needs the box: clipped values within (r_max+M)/(1-gamma), constants within C. The box must hold the true Q, else clipping
adds error. All misses together: delta' (1 + num_calls) <= delta. ``delta =
1.0`` promises nothing and skips only this last line.

This file decides alone: it shares no code with the compiler of these tables. It
leaves out the price (``Schedule.num_calls``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.schedule.schedule import Kind, Level

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import Facts
    from smoothcruiser.schedule.schedule import Schedule

# relative: 10^4 levels, each a few operations of relative error 2^-53, and
# accuracies merged at 12 digits
ROUNDING = 1e-9
# (level, steps left) pairs; tables of ours have about as many as levels
MAX_NODES = 1_000_000

Node = tuple[int, int | None]


@dataclass(frozen=True)
class _Constants:
    """The numbers of Lemma 2, from the facts and delta'."""

    gamma: float
    size: float  # r_max + M
    scale: float  # C sqrt(2 log(2K/delta')): t(N) = scale/sqrt(N)
    curve: float  # K L
    ceiling: float  # C

    def noise(self, samples: int) -> float:
        """t(N), also for an N beyond the floats."""
        return (
            self.scale / math.sqrt(samples)
            if samples < 10**300
            else self.scale * math.exp(-0.5 * math.log(samples))
        )

    def sup_value(self, remaining: int | None) -> float:
        """A bound on |V| with ``remaining`` steps left."""
        share = 1.0 if remaining is None else 1.0 - self.gamma**remaining
        return self.size * share / (1.0 - self.gamma)


def verify_paper(schedule: Schedule) -> None:
    """Raise ``BrokenPromise`` unless the table keeps (epsilon, delta) by Lemma 2."""
    constants = _constants(schedule)
    _check_root(schedule)
    nodes = _nodes(schedule)
    _check_box(schedule, constants, nodes)
    reached: dict[Node, float] = {}
    # children stand before their parents
    for node in sorted(nodes, key=lambda node: node[0]):
        reached[node] = _accuracy(schedule, constants, node, reached)
    root = schedule.root
    below = reached[_root_node(schedule)]
    total = constants.gamma * below + constants.noise(root.samples)
    if not total <= schedule.epsilon * (1.0 + ROUNDING):
        raise BrokenPromise(
            f"The root reaches accuracy {total:.9g}, above the promised epsilon "
            f"{schedule.epsilon:.9g}: level {root.child} "
            f"({schedule.levels[root.child].kind.name}) below it has {below:.9g} and "
            f"{root.samples} draws have {constants.noise(root.samples):.9g}; raise the "
            "samples of the root or of the levels below."
        )
    _check_failure(schedule)


def _constants(schedule: Schedule) -> _Constants:
    facts, delta_prime = schedule.facts, schedule.delta_prime
    if delta_prime is None or not 0.0 < delta_prime <= 1.0:
        raise BrokenPromise(
            f"A schedule of the paper needs delta_prime in (0, 1], got {delta_prime!r}."
        )
    gamma = facts.discount
    if not 0.0 <= gamma < 1.0:
        raise BrokenPromise(
            f"The paper's analysis needs a discount in [0, 1), got {gamma!r}."
        )
    size = facts.reward_bound + facts.regularizer_bound
    ceiling = 3.0 * size / (1.0 - gamma) ** 2
    scale = ceiling * math.sqrt(
        2.0 * (math.log(2.0 * facts.num_actions) - math.log(delta_prime))
    )
    return _Constants(gamma, size, scale, facts.num_actions * facts.smoothness, ceiling)


def _check_root(schedule: Schedule) -> None:
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


def _root_node(schedule: Schedule) -> Node:
    horizon = schedule.facts.horizon
    return schedule.root.child, None if horizon is None else horizon - 1


def _nodes(schedule: Schedule) -> set[Node]:
    """Every level that a run can reach, with the steps left there."""
    seen: set[Node] = set()
    todo = [_root_node(schedule)]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > MAX_NODES:
            raise BrokenPromise(
                f"More than {MAX_NODES} pairs of a level and its steps left: too "
                "many to verify."
            )
        todo += [
            child
            for child in _children(schedule.levels[node[0]], node[1])
            if child[0] >= 0
        ]
    return seen


def _children(level: Level, remaining: int | None) -> tuple[Node, Node]:
    after = None if remaining is None else remaining - 1
    return (level.query, after), (level.continuation, after)


def _accuracy(
    schedule: Schedule, constants: _Constants, node: Node, reached: dict[Node, float]
) -> float:
    """The accuracy of one level with its steps left, from those of its children."""
    index, remaining = node
    level = schedule.levels[index]
    name = f"Level {index} ({level.kind.name})"
    if level.kind == Kind.BLIND or level.shift != 0.0:
        raise BrokenPromise(
            f"{name} is not part of the paper's algorithm: no blind levels and no "
            f"shifts there, got {level}."
        )
    if level.kind == Kind.CONSTANT:
        if abs(level.constant) > constants.ceiling:
            raise BrokenPromise(
                f"{name} returns {level.constant:g}, beyond C_gamma = "
                f"{constants.ceiling:g}."
            )
        return abs(level.constant) + constants.sup_value(remaining)
    if remaining is not None and remaining < 1:
        raise BrokenPromise(
            f"{name} is reached with no steps left before the horizon; only the "
            "constant 0 is right there."
        )
    query, onward = _children(level, remaining)
    q_error = constants.gamma * reached[query] + constants.noise(level.samples)
    if level.kind == Kind.PLUGIN:
        return q_error
    if constants.curve == math.inf:
        raise BrokenPromise(
            f"{name} linearizes {schedule.facts.operator.name}, which is not "
            "smooth (L is infinite)."
        )
    return constants.gamma * reached[onward] + constants.curve * q_error * q_error


def _check_box(schedule: Schedule, constants: _Constants, nodes: set[Node]) -> None:
    """The range condition: Q-hat is clipped, to a box that holds Q at every
    stage, within what C_gamma allows.
    """
    if schedule.clip is None:
        raise BrokenPromise(
            "A schedule of the paper clips every Q-hat, got no box; without one "
            "C_gamma does not bound the outputs."
        )
    low, high = schedule.clip
    top = constants.sup_value(None)
    slack = ROUNDING * max(top, 1e-300)
    if not max(abs(low), abs(high)) <= top + slack:
        raise BrokenPromise(
            f"The clip box [{low:.9g}, {high:.9g}] is wider than "
            f"(r_max+M)/(1-gamma) = {top:.9g} allows."
        )
    if low <= -top and high >= top:
        return  # |Q| <= top at every stage
    facts = schedule.facts
    stages = {facts.horizon: "the root"}
    for index, remaining in sorted(nodes, key=lambda node: node[0]):
        if schedule.levels[index].kind != Kind.CONSTANT:
            stages.setdefault(remaining, f"level {index}")
    for remaining, name in stages.items():
        if remaining is None or remaining >= 1:
            _check_stage(facts, remaining, name, (low - slack, high + slack))


def _check_stage(
    facts: Facts, remaining: int | None, name: str, box: tuple[float, float]
) -> None:
    for player in (1, 2) if facts.game else (1,):
        low, high = facts.q_bounds(player, remaining)
        if not (box[0] <= low and high <= box[1]):
            raise BrokenPromise(
                f"The clip box [{box[0]:.9g}, {box[1]:.9g}] cuts off action values "
                f"in [{low:.9g}, {high:.9g}] at {name}."
            )


def _check_failure(schedule: Schedule) -> None:
    """Delta' (1 + num_calls) <= delta, in exact arithmetic: the count may be
    far beyond the floats.
    """
    if schedule.delta == 1.0:
        return
    assert schedule.delta_prime is not None
    failure = Fraction(schedule.delta_prime) * (1 + schedule.num_calls)
    if not (
        0.0 < schedule.delta < 1.0
        and failure <= Fraction(schedule.delta) * (1 + Fraction(ROUNDING))
    ):
        shown = (
            f"{float(failure):.9g}"
            if failure < 10**9
            else f"10^{math.log10(failure.numerator) - math.log10(failure.denominator):.1f}"
        )
        raise BrokenPromise(
            f"The table may fail with probability delta' (1 + num_calls) = {shown}, "
            f"above the promised delta {schedule.delta:.9g}: "
            f"level {schedule.root.child} and those below make too many calls for "
            f"delta' = {schedule.delta_prime:.6g}."
        )
