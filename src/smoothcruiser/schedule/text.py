"""A schedule as text, like a database's EXPLAIN: one line per level.

A line says what the level uses, what it promises and what it costs.

  root      samples at the requested state, over level ``then``
  asks      ``draws`` samples for each action, whose next states are valued by
            the level named under ``asks`` (plug-in, rollout)
  goes on   one path: the level named under ``then`` takes over where the sampled
            action leads (rollout, blind)

legend   column   what it is
  bias            half-width: |E X - V| is at most this in every state (paper
                  mode: the accuracy of Lemma 2)
  range           length of the interval that holds one sample X of the level
  calls/draw      oracle calls of one sample, its children's included
  visits          how often the level is sampled in the whole run
  share           of all oracle calls, those that this level itself makes; the
                  column adds up to 100%

Levels form a graph without cycles, not a tree: each is printed once, under its
first parent, and named by its number elsewhere. The path of a rollout may be
long, so it keeps one depth of indentation; only its queries are indented.
Tables of more than ``MOST_LINES`` levels keep the lines that cost most. What
this file leaves out: other methods' prices and seconds (``display``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.level_moments import LevelMoments, level_moments
from smoothcruiser.schedule.nodes import children
from smoothcruiser.schedule.numbers import compact, percent, short
from smoothcruiser.schedule.schedule import own_calls, root_calls
from smoothcruiser.schedule.verify.sharp import root_promise

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import Facts
    from smoothcruiser.schedule.schedule import Level, Schedule

# A terminal page. Longer tables are reduced to the lines that cost most; to_dict()
# has all of them.
MOST_LINES = 48
BOUND_NAMES = {
    "hoeffding": "Hoeffding",
    "bernstein": "Bernstein",
    "bennett": "Bennett",
    "catoni": "Catoni, by a second moment",
    "paper": "Hoeffding, as printed in the paper",
}
HEADINGS = (
    "level",
    "draws",
    "asks",
    "then",
    "bias ±",
    "range",
    "calls/draw",
    "visits",
    "share",
)


# --- the picture --------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of the picture: its stem, its row (-1 for the root) and its cells."""

    stem: str
    index: int
    cells: tuple[str, ...]  # as HEADINGS, without the first
    cost: int


def plan_lines(schedule: Schedule) -> list[Line]:
    """Return the root and every level that it reaches, in the order of the picture."""
    moments, calls, visits = (
        level_moments(schedule),
        schedule.level_calls,
        schedule.visits(),
    )
    own = own_calls(schedule.levels, schedule.root, schedule.facts.num_actions)
    price = max(1, schedule.mean_calls)
    lines = [_root_line(schedule, moments[schedule.root.child], price)]
    for stem, index in _walk(schedule):
        level = schedule.levels[index]
        cells = (
            _draws(level),
            str(level.query) if level.query >= 0 else "",
            str(level.continuation) if level.continuation >= 0 else "",
            f"{moments[index].bias:.3g}",
            _range(moments[index].spread),
            compact(calls[index]),
            compact(visits[index]),
            percent(own[index] / price),
        )
        word = estimator_of(level.kind).word
        lines.append(Line(f"{stem} {index} {word}", index, cells, own[index]))
    return lines


def _range(spread: float) -> str:
    return f"{spread:.3g}" if spread < math.inf else "none"


def _draws(level: Level) -> str:
    """Return the count of a level, and the count whose mean its corrections reach."""
    if level.query < 0:
        return ""
    last = level.samples * 2 ** len(level.rungs)
    return compact(level.samples) + (f"→{compact(last)}" if level.rungs else "")


def _root_line(schedule: Schedule, child: LevelMoments, price: int) -> Line:
    """Return the line of the root.

    One of its samples is r + gamma X for action values, X itself for the value.
    """
    root, facts = schedule.root, schedule.facts
    mine = root_calls(root, facts.num_actions)
    per_draw = schedule.level_calls[root.child]
    bias, spread = child.bias, child.spread
    if root.target == "q_values":
        bias, per_draw = facts.discount * bias, 1 + per_draw
        spread = facts.reward_span + facts.discount * spread
    if schedule.delta_prime is None:
        promise = root_promise(schedule)
        bias = promise.bias
        spread = promise.spread if promise.moment is None else math.inf
    cells = (
        compact(root.samples),
        "",
        str(root.child),
        f"{bias:.3g}",
        _range(spread),
        compact(per_draw),
        "1",
        percent(mine / price),
    )
    return Line("root", -1, cells, mine)


def _walk(schedule: Schedule) -> list[tuple[str, int]]:
    """Return (stem, row) of each level, once.

    A path goes straight down, and the queries of its rollouts are indented
    beside it.
    """
    seen: set[int] = set()
    rows: list[tuple[int, int]] = []  # (depth of indentation, row)
    todo = [(0, schedule.root.child)]
    while todo:
        depth, index = todo.pop()
        if index in seen:
            continue
        seen.add(index)
        rows.append((depth, index))
        level = schedule.levels[index]
        estimator = estimator_of(level.kind)
        if estimator.asks and estimator.goes_on:
            todo += [(depth, level.continuation), (depth + 1, level.query)]
        else:
            todo += [(depth, child) for child in children(level)]
    open_stems: set[int] = set()  # depths at which a later line follows
    stems: list[str] = []
    for depth, _ in reversed(rows):
        open_stems = {d for d in open_stems if d <= depth}
        stems.append(
            "".join("│ " if d in open_stems else "  " for d in range(depth))
            + ("├" if depth in open_stems else "└")
        )
        open_stems.add(depth)
    return [
        (stem, index) for stem, (_, index) in zip(reversed(stems), rows, strict=True)
    ]


def _cut(lines: list[Line]) -> list[Line | str]:
    """Return the lines, or for long tables the costliest ones.

    Each gap has a count of the lines that are left out.
    """
    if len(lines) <= MOST_LINES:
        return list(lines)
    kept = {0, 1} | set(
        sorted(range(2, len(lines)), key=lambda i: (-lines[i].cost, i))[
            : MOST_LINES - 12
        ]
    )
    found: list[Line | str] = []
    gap = 0
    for i, line in enumerate([*lines, None]):
        if line is not None and i not in kept:
            gap += 1
            continue
        if gap:
            found.append(f"  … {gap:,} more level{'s' if gap > 1 else ''}")
            gap = 0
        if line is not None:
            found.append(line)
    return found


def picture(schedule: Schedule) -> list[str]:
    """Return the levels as aligned lines of text under a line of headings.

    They are about 78 characters wide.
    """
    shown = _cut(plan_lines(schedule))
    rows = [line for line in shown if isinstance(line, Line)]
    first = max(len(HEADINGS[0]), *(len(line.stem) for line in rows))
    widths = [
        max(len(HEADINGS[i + 1]), *(len(line.cells[i]) for line in rows))
        for i in range(len(HEADINGS) - 1)
    ]

    def row(name: str, cells: tuple[str, ...]) -> str:
        return "  ".join(
            [
                name.ljust(first),
                *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)),
            ]
        ).rstrip()

    return [row(HEADINGS[0], HEADINGS[1:])] + [
        line if isinstance(line, str) else row(line.stem, line.cells) for line in shown
    ]


KEY = (
    "draws: samples for each action; level `asks` values the states they lead to,",
    "and the drawn action goes on at level `then`. bias: of the mean of one draw,",
    "at most. range: of one draw. visits: draws of the level in a whole run.",
    "share: of all oracle calls, those that the level itself makes.",
    "2→64: two samples, and by rare corrections the mean of 64; no range then.",
)


# --- sentences ----------------------------------------------------------------


def describe_facts(facts: Facts) -> str:
    """What the plan relies on, in one line."""
    operator = facts.operator
    strength = (
        f" at temperature {operator.strength:g}" if operator.strength > 0.0 else ""
    )
    actions = f"{facts.num_actions} actions" if facts.num_actions != 1 else "1 action"
    if facts.min_actions != facts.num_actions:
        actions = f"{facts.min_actions} to {facts.num_actions} actions"
    parts = [actions, f"discount {facts.discount:g}", f"{operator.name}{strength}"]
    parts.append(f"rewards {facts.reward_range[0]:g} to {facts.reward_range[1]:g}")
    if facts.game:
        parts.append("two players, alternating" if facts.alternating else "two players")
    if facts.terminals:
        parts.append("terminal states")
    if facts.horizon is not None:
        parts.append(f"horizon {facts.horizon}")
    return ", ".join(parts)


def describe_half_width(what: str, facts: Facts, epsilon: float, delta: float) -> str:
    """The promise that ``what`` is within epsilon, in one sentence."""
    return f"{what} within ±{epsilon:.4g}{_share(facts, epsilon)} with probability {1.0 - delta:g}"


def _share(facts: Facts, epsilon: float) -> str:
    span = facts.value_span()
    if not span > 0.0:
        return ""
    return f" ({100.0 * epsilon / span:.3g}% of the value span {span:.4g})"


def describe_promise(schedule: Schedule) -> str:
    """The promise in one sentence."""
    facts, epsilon = schedule.facts, schedule.epsilon
    what = (
        "the value"
        if schedule.root.target == "value"
        else "the value and every action value"
    )
    if schedule.delta >= 1.0:
        return (
            f"none: delta' = {schedule.delta_prime:g} is too large for one; epsilon "
            f"is {epsilon:g}{_share(facts, epsilon)}"
        )
    return describe_half_width(what, facts, epsilon, schedule.delta)


def describe_price(schedule: Schedule) -> str:
    """The price in one sentence: exact or an upper bound, and why it may be less."""
    if schedule.randomized:
        return (
            f"about {short(schedule.mean_calls)} oracle calls on average, as "
            f"corrections are made by chance; more than {short(schedule.num_calls)} "
            "with a chance below 1e-9"
        )
    beside = schedule.calls_beside
    looks = f", {short(beside)} of them to try the step" if beside else ""
    price = f"{short(schedule.num_calls + beside)} oracle calls{looks}"
    if schedule.price_is_exact and not (schedule.root.looks or beside):
        return f"exactly {price}"
    why = ""
    if schedule.root.looks:
        low, high = (compact(calls) for calls in schedule.expected_range)
        source = f"(between {low} and {high}), as the data may allow an early stop"
        if schedule.piloted_calls is not None:
            source = "by its first samples, which allow an early stop"
        why = f"; about {compact(schedule.expected_calls)} expected {source}"
    elif not schedule.price_is_exact:
        why = "; less where actions are missing or states end"
    return f"at most {price}{why}"


def describe_root(schedule: Schedule) -> str:
    """How the root closes the promise."""
    root = schedule.root
    each = (
        f"of each of {schedule.facts.num_actions} actions"
        if root.target == "q_values"
        else "of the state"
    )
    text = (
        f"{short(root.samples)} draws {each}; bound: "
        f"{BOUND_NAMES.get(root.bound, root.bound)}"
    )
    if root.looks:
        text += (
            f"; bets on the data may stop it early at {len(root.looks)} checkpoints "
            f"from draw {short(root.looks[0])} on"
        )
    return text
