"""A schedule as text, like a database's EXPLAIN: one line per level.

A line has the children of a level, its promise and its price.

  root      samples at the requested state, over level ``then``
  asks      ``draws`` samples for each action; the level named under ``asks``
            values their next states (plug-in, rollout)
  goes on   one path: the level named under ``then`` takes over where the sampled
            action leads (rollout, blind)

legend   column   meaning
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
Tables of more than ``MOST_LINES`` levels keep the lines that cost most. This
file leaves out other methods' prices and seconds (``display``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smoothcruiser.errors import choose_word
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.level_moments import LevelMoments, level_moments
from smoothcruiser.schedule.number_text import compact, percent, short
from smoothcruiser.schedule.prices import children
from smoothcruiser.schedule.schedule import own_calls, root_calls
from smoothcruiser.schedule.verify.sharp import root_promise

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import Facts
    from smoothcruiser.problem.problem import Problem
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
    moments, level_calls, level_visits = (
        level_moments(schedule),
        schedule.level_calls,
        schedule.visits(),
    )
    level_costs = own_calls(schedule.levels, schedule.root, schedule.facts.num_actions)
    mean_calls = max(1, schedule.mean_calls)
    lines = [_root_line(schedule, moments[schedule.root.child], mean_calls)]
    for stem, index in _walk(schedule):
        level = schedule.levels[index]
        cells = (
            _draws_text(level),
            str(level.query) if level.query >= 0 else "",
            str(level.continuation) if level.continuation >= 0 else "",
            f"{moments[index].bias:.3g}",
            _range_text(moments[index].spread),
            compact(level_calls[index]),
            compact(level_visits[index]),
            percent(level_costs[index] / mean_calls),
        )
        kind_word = estimator_of(level.kind).word
        lines.append(
            Line(f"{stem} {index} {kind_word}", index, cells, level_costs[index])
        )
    return lines


def _range_text(spread: float) -> str:
    return f"{spread:.3g}" if spread < math.inf else "none"


def _draws_text(level: Level) -> str:
    """Return the count of a level, and the count that its corrections stand for."""
    if level.query < 0:
        return ""
    last_samples = level.samples * 2 ** len(level.rungs)
    return compact(level.samples) + (
        f"→{compact(last_samples)}" if level.rungs else ""
    )


def _root_line(schedule: Schedule, child: LevelMoments, price: int) -> Line:
    """Return the line of the root.

    One of its samples is r + gamma X for action values, X itself for the value.
    """
    root, facts = schedule.root, schedule.facts
    root_cost = root_calls(root, facts.num_actions)
    per_draw = schedule.level_calls[root.child]
    bias, spread = child.bias, child.spread
    if root.target == "q_values":
        bias, per_draw = facts.discount * bias, 1 + per_draw
        spread = facts.reward_span + facts.discount * spread
    if schedule.delta_prime is None:
        promise = root_promise(schedule)
        bias = promise.bias
        spread = promise.spread if promise.moment is None else math.inf
    line_cells = (
        compact(root.samples),
        "",
        str(root.child),
        f"{bias:.3g}",
        _range_text(spread),
        compact(per_draw),
        "1",
        percent(root_cost / price),
    )
    return Line("root", -1, line_cells, root_cost)


def _walk(schedule: Schedule) -> list[tuple[str, int]]:
    """Return (stem, row) of each level, once.

    A path goes straight down, and the queries of its rollouts are indented
    beside it.
    """
    seen_rows: set[int] = set()
    indented_rows: list[tuple[int, int]] = []  # (depth of indentation, row)
    open_rows = [(0, schedule.root.child)]
    while open_rows:
        depth, index = open_rows.pop()
        if index in seen_rows:
            continue
        seen_rows.add(index)
        indented_rows.append((depth, index))
        level = schedule.levels[index]
        estimator = estimator_of(level.kind)
        if estimator.asks and estimator.goes_on:
            open_rows += [(depth, level.continuation), (depth + 1, level.query)]
        else:
            open_rows += [(depth, child) for child in children(level)]
    open_stems: set[int] = set()  # depths at which a later line follows
    reversed_stems: list[str] = []
    for depth, _ in reversed(indented_rows):
        open_stems = {d for d in open_stems if d <= depth}
        reversed_stems.append(
            "".join("│ " if d in open_stems else "  " for d in range(depth))
            + ("├" if depth in open_stems else "└")
        )
        open_stems.add(depth)
    return [
        (stem, index)
        for stem, (_, index) in zip(
            reversed(reversed_stems), indented_rows, strict=True
        )
    ]


def _shorten_lines(lines: list[Line]) -> list[Line | str]:
    """Return the lines, or for long tables the costliest ones.

    Each gap has a count of the lines that are left out.
    """
    if len(lines) <= MOST_LINES:
        return list(lines)
    kept_lines = {0, 1} | set(
        sorted(range(2, len(lines)), key=lambda i: (-lines[i].cost, i))[
            : MOST_LINES - 12
        ]
    )
    short_lines: list[Line | str] = []
    num_hidden = 0
    for i, line in enumerate([*lines, None]):
        if line is not None and i not in kept_lines:
            num_hidden += 1
            continue
        if num_hidden:
            short_lines.append(
                f"  … {num_hidden:,} more level{'s' if num_hidden > 1 else ''}"
            )
            num_hidden = 0
        if line is not None:
            short_lines.append(line)
    return short_lines


def picture(schedule: Schedule) -> list[str]:
    """Return the levels as aligned lines of text under a line of headings.

    They are about 78 characters wide.
    """
    visible_lines = _shorten_lines(plan_lines(schedule))
    table_lines = [line for line in visible_lines if isinstance(line, Line)]
    stem_width = max(len(HEADINGS[0]), *(len(line.stem) for line in table_lines))
    cell_widths = [
        max(len(HEADINGS[i + 1]), *(len(line.cells[i]) for line in table_lines))
        for i in range(len(HEADINGS) - 1)
    ]

    def format_row(name: str, cells: tuple[str, ...]) -> str:
        return "  ".join(
            [
                name.ljust(stem_width),
                *(
                    cell.rjust(width)
                    for cell, width in zip(cells, cell_widths, strict=True)
                ),
            ]
        ).rstrip()

    return [format_row(HEADINGS[0], HEADINGS[1:])] + [
        line if isinstance(line, str) else format_row(line.stem, line.cells)
        for line in visible_lines
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
    """The facts that the plan relies on, in one line."""
    operator = facts.operator
    temperature_text = (
        f" at temperature {operator.strength:g}" if operator.strength > 0.0 else ""
    )
    actions_text = (
        f"{facts.num_actions} actions" if facts.num_actions != 1 else "1 action"
    )
    if facts.min_actions != facts.num_actions:
        actions_text = f"{facts.min_actions} to {facts.num_actions} actions"
    phrases = [
        actions_text,
        f"discount {facts.discount:g}",
        f"{operator.name}{temperature_text}",
    ]
    paid = "costs" if facts.minimize else "rewards"
    phrases.append(f"{paid} {facts.reward_range[0]:g} to {facts.reward_range[1]:g}")
    if facts.sole_player is None:
        phrases.append(
            "two players, alternating" if facts.alternating else "two players"
        )
    if facts.terminals:
        phrases.append("terminal states")
    if facts.horizon is not None:
        phrases.append(f"horizon {facts.horizon}")
    return ", ".join(phrases)


def describe_problem(problem: Problem) -> str:
    """The facts that a plan relies on, in one line; rewards may have no range."""
    if None not in problem.reward_range:
        return describe_facts(problem.facts)
    ends = ["no end" if end is None else f"{end:g}" for end in problem.reward_range]
    p, bound = problem.reward_moment or (0.0, 0.0)
    text = describe_facts(
        replace(problem, reward_range=(0.0, 0.0), reward_moment=None).facts
    )
    word = choose_word("reward", problem.minimizes)
    moment_text = f"mean of |{word}|**{p:g} at most {bound:g}"
    return text.replace("s 0 to 0", f"s {ends[0]} to {ends[1]} ({moment_text})", 1)


def describe_half_width(what: str, facts: Facts, epsilon: float, delta: float) -> str:
    """The promise of a half-width epsilon for ``what``, in one sentence."""
    half_width = f"±{epsilon:.4g}{_share_text(facts, epsilon)}"
    return f"{what} within {half_width} with probability {1.0 - delta:g}"


def _share_text(facts: Facts, epsilon: float) -> str:
    value_span = facts.value_span()
    if not value_span > 0.0:
        return ""
    word = choose_word("value", facts.minimize)
    return (
        f" ({100.0 * epsilon / value_span:.3g}% of the {word} span {value_span:.4g})"
    )


def describe_promise(schedule: Schedule) -> str:
    """The promise in one sentence."""
    facts, epsilon = schedule.facts, schedule.epsilon
    quantity = choose_word(
        "the value"
        if schedule.root.target == "value"
        else "the value and every action value",
        facts.minimize,
    )
    if schedule.delta >= 1.0:
        return (
            f"none: delta' = {schedule.delta_prime:g} is too large for one; epsilon "
            f"is {epsilon:g}{_share_text(facts, epsilon)}"
        )
    return describe_half_width(quantity, facts, epsilon, schedule.delta)


def describe_price(schedule: Schedule) -> str:
    """The price in one sentence: exact or an upper bound, and why it may be less."""
    if schedule.randomized:
        return (
            f"about {short(schedule.mean_calls)} oracle calls on average, as "
            f"corrections are made by chance; more than {short(schedule.num_calls)} "
            "with a chance below 1e-9"
        )
    calls_beside = schedule.calls_beside
    beside_text = (
        f", {short(calls_beside)} of them to try the step" if calls_beside else ""
    )
    price_text = (
        f"{short(schedule.num_calls + calls_beside)} oracle calls{beside_text}"
    )
    if schedule.price_is_exact and not (schedule.root.looks or calls_beside):
        return f"exactly {price_text}"
    reason_text = ""
    if schedule.root.looks:
        low_calls, high_calls = (compact(calls) for calls in schedule.expected_range)
        expectation_text = (
            f"(between {low_calls} and {high_calls}), as the data may allow an early "
            "stop"
        )
        if schedule.piloted_calls is not None:
            expectation_text = "by its first samples, which allow an early stop"
        reason_text = (
            f"; about {compact(schedule.expected_calls)} expected {expectation_text}"
        )
    elif not schedule.price_is_exact:
        reason_text = "; less where actions are missing or states end"
    return f"at most {price_text}{reason_text}"


def describe_root(schedule: Schedule) -> str:
    """How the root closes the promise."""
    root = schedule.root
    per_action = (
        f"of each of {schedule.facts.num_actions} actions"
        if root.target == "q_values"
        else "of the state"
    )
    sentence = (
        f"{short(root.samples)} draws {per_action}; bound: "
        f"{BOUND_NAMES.get(root.bound, root.bound)}"
    )
    if root.looks:
        sentence += (
            f"; bets on the data may stop it early at {len(root.looks)} checkpoints "
            f"from draw {short(root.looks[0])} on"
        )
    return sentence
