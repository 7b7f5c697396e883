"""Pages of checks: the tests of a simulator or an operator, and their findings.

The page of played episodes: returns, wins, and the cost of a decision.

The page of a store: its runs, one line each.

Pages of problems: the built-in ones, one of them, and the one that is planned.
"""

from __future__ import annotations

import math
import shlex
from typing import Any

from smoothcruiser.checks import Check
from smoothcruiser.display.answer_pages import MOST_ACTIONS, state_text
from smoothcruiser.display.document import (
    Block,
    Column,
    Fields,
    Grid,
    Labelled,
    Page,
    Sentence,
    Verbatim,
    style_sentence,
)
from smoothcruiser.errors import choose_word
from smoothcruiser.operators.check.check_report import OperatorReport
from smoothcruiser.playing.episodes import Summary
from smoothcruiser.problem.adapter_protocol import descriptions
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.facts import EVERY_STEP
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import ZOO
from smoothcruiser.schedule.number_text import compact, count_noun
from smoothcruiser.schedule.text import describe_problem

MARKS = {"wrong": "WRONG"}


def check_page(check: Check) -> Page:
    """The findings about a simulator."""
    verdict = "usable" if check.ok else "not usable as it is"
    caption_text = f"{check.problem}: {verdict} ({check.calls:,} calls)"
    field_rows = tuple(
        (MARKS.get(f.verdict, f.verdict), _tone(f"{f.name}: {f.sentence}", f.verdict))
        for f in check.findings
    )
    return Page(
        (), (Fields(field_rows, caption=style_sentence(caption_text, "strong")),)
    )


def _tone(text: str, verdict: str) -> Sentence:
    return text if verdict == "ok" else style_sentence(text, "warning")


def operator_page(report: OperatorReport) -> Page:
    """The conditions on an operator, and the points at which some fail."""
    caption_text = (
        f"{report.operator} over {report.num_actions} actions, {report.points} points: "
        f"{'all hold' if report.ok else 'FAILS'}"
    )
    field_rows = tuple(
        (
            f"{'ok' if condition.holds else 'FAIL':<4}  {condition.name}",
            condition.requirement
            if condition.holds
            else style_sentence(condition.sentence, "warning"),
        )
        for condition in report.conditions
    )
    return Page(
        (), (Fields(field_rows, caption=style_sentence(caption_text, "strong")),)
    )


def summary_page(summary: Summary) -> Page:
    """The result of ``play``, in a few lines."""
    opponent_text = f" against {summary.opponent}" if summary.opponent else ""
    caption_text = (
        f"{summary.problem}: {summary.episodes} episodes, method "
        f"{summary.method}{opponent_text}"
    )
    word = choose_word("return", summary.minimize)
    field_rows: list[Labelled] = [
        (word, _interval(summary.mean_return, summary.return_interval)),
        (
            f"discounted {word}",
            _interval(
                summary.mean_discounted_return, summary.discounted_return_interval
            ),
        ),
    ]
    if summary.win_rate is not None and summary.win_rate_interval is not None:
        lower_rate, upper_rate = summary.win_rate_interval
        games_text = (
            f"won {summary.wins}, drawn {summary.draws}, lost {summary.losses}"
        )
        rate_text = f"win rate {summary.win_rate:.1%}  95% [{lower_rate:.1%}, {upper_rate:.1%}]"
        field_rows.append(("games", f"{games_text}: {rate_text}"))
    field_rows += [
        (
            "steps per episode",
            f"{summary.mean_steps:.1f} ({summary.ended} of {summary.episodes} reached "
            "an end)",
        ),
        ("time per decision", f"{1e3 * summary.seconds_per_decision:.3g} ms"),
        ("calls per decision", f"{summary.calls_per_decision:,.0f}"),
    ]
    return Page(
        (),
        (Fields(tuple(field_rows), caption=style_sentence(caption_text, "strong")),),
    )


def _interval(mean: float, interval: tuple[float, float]) -> str:
    if math.isinf(interval[0]):  # too few episodes, or no spread among few
        return f"{mean:.4g}"
    return f"{mean:.4g}  95% [{interval[0]:.4g}, {interval[1]:.4g}]"


COLUMNS = (
    Column("run", right=True),
    Column("problem", fit="below"),  # the user chose its name, and may need all of it
    Column("method"),
    Column("epsilon", right=True),
    Column("delta", right=True),
    Column("calls", right=True),
    Column("price", right=True),
    Column("status"),
)


def runs_page(store: str, runs: list[Any]) -> Page:
    """The runs of a store."""
    title = ("smoothcruiser runs", store)
    if not runs:
        no_runs = "  none yet: smoothcruiser plan … --store FILE keeps one"
        return Page(title, (Verbatim((no_runs,)),))
    run_rows = [run.to_dict() for run in runs]
    readable_rows = [row for row in run_rows if row["status"] != "damaged"]
    blocks: list[Block] = [Grid(COLUMNS, tuple(_cells(row) for row in readable_rows))]
    damage_lines = [
        f"  {row['why']}" for row in run_rows if row["status"] == "damaged"
    ]
    if damage_lines:
        blocks.append(Verbatim(tuple(damage_lines), tight=True))
    unfinished_runs = [
        row["run"] for row in readable_rows if row["status"] == "unfinished"
    ]
    if unfinished_runs:
        resume_hint = (
            "Resume an unfinished run: smoothcruiser plan --resume "
            f"{unfinished_runs[-1]} --store {shlex.quote(store)}"
        )
        blocks.append(Verbatim((resume_hint,)))
    return Page(title, tuple(blocks))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["run"]),
        row["problem"],
        row["method"],
        _number(row["epsilon"], ".3g"),
        _number(row["delta"], "g"),
        compact(row["calls_done"]),
        _price(row),
        row["status"],
    )


def _number(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def _price(row: dict[str, Any]) -> str:
    if row["log10_calls"] is None:
        return ""
    if row["num_calls"] is None:
        return f"10^{row['log10_calls']:.0f}"
    return compact(row["num_calls"])


OWN_PROBLEM = (
    "module:attribute: a Problem, or a function that returns one, in a module of the "
    "current folder"
)
PARAMETERS = (
    "Parameters follow the name: gridworld:n=10, garnet:states=50,seed=7",
    "Try  smoothcruiser explain chain:n=5 --discount "
    "0.2 --temperature 10 --epsilon 5% --delta 0.1",
)


def zoo_page() -> Page:
    """The built-in problems with their parameters, and how to name one's own."""
    zoo_rows = [
        (name, f"{entry.summary}\n{_defaults(entry.defaults)}".rstrip())
        for name, entry in ZOO.items()
    ]
    adapter_rows = [(f"{name}:…", text) for name, text in descriptions().items()]
    problem_fields = Fields((*zoo_rows, *adapter_rows, ("your own", OWN_PROBLEM)))
    return Page(("smoothcruiser problems",), (problem_fields, Verbatim(PARAMETERS)))


def _defaults(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={str(value).lower()}" for name, value in parameters.items()
    )


def request_page(command: str, problem: Problem, state: Any, *more: str) -> Page:
    """The problem and the state that an answer of a command is about."""
    title = (
        f"smoothcruiser {command}",
        problem.name,
        f"state {state_text(state)}",
        *more,
    )
    return Page(title, (Fields((("problem", describe_problem(problem)),)),))


# --- a problem as an object ---------------------------------------------------


def problem_page(problem: Problem) -> Page:
    """The facts that a promise relies on, the initial state, and the declarations."""
    field_rows: list[Labelled] = [
        ("problem", describe_problem(problem)),
        ("V" if problem.minimizes else "values", _values(problem)),
    ]
    if problem.actions is not None:
        num_omitted = len(problem.actions) - MOST_ACTIONS
        omission_text = [f"{num_omitted:,} more"] if num_omitted > 0 else []
        action_names = [*problem.actions[:MOST_ACTIONS], *omission_text]
        field_rows.append(("actions", ", ".join(action_names)))
    if problem.sample_action is not None:
        field_rows.append(
            ("actions", f"sampled: {problem.num_actions:,} at each state")
        )
    if problem.initial_state is not None:
        field_rows.append(("start", state_text(problem.initial_state)))
    field_rows.append(("model", _model(problem)))
    declared = _declaration_texts(problem)
    field_rows += [("declared", text) if not i else ("", text) for i, text in declared]
    title = (type(problem).__name__, problem.name)
    return Page(title, (Fields(tuple(field_rows)),))


def _values(problem: Problem) -> str:
    """The range that holds every value before anything is sampled."""
    if None in problem.reward_range:
        return "no bounds are known before sampling"
    lowest_value, highest_value = problem.facts.value_hull()
    if not (math.isfinite(lowest_value) and math.isfinite(highest_value)):
        return "no bounds are known before sampling"
    return f"between {lowest_value:.4g} and {highest_value:.4g} in every state"


def _model(problem: Problem) -> str:
    if problem.tables is not None:
        return f"known as tables, {count_noun(problem.tables.num_states, 'state')}"
    simulator_kind = "a plain Python function"
    if isinstance(problem.oracle, Batched):
        simulator_kind = "a function over arrays"
    elif problem.is_compiled:
        simulator_kind = "a compiled function"
    known_text = ", and known by outcomes=" if problem.outcomes is not None else ""
    return f"a simulator, {simulator_kind}{known_text}"


def _declaration_texts(problem: Problem) -> list[tuple[int, str]]:
    """The user's claims beyond the facts, numbered; ``check`` tests them."""
    declarations = []
    if problem.deterministic:
        declarations.append("deterministic: one outcome for each state and action")
    if problem.payoffs != EVERY_STEP:
        declarations.append(f"payoffs {problem.payoffs}")
    if problem.total_reward_range is not None:
        lower_bound, upper_bound = problem.total_reward_range
        paid = choose_word("reward", problem.minimizes)
        declarations.append(f"total {paid}s {lower_bound:g} to {upper_bound:g}")
    if problem.min_probability is not None:
        declarations.append(f"no outcome is rarer than {problem.min_probability:g}")
    if problem.episodes_end is not None:
        num_steps, chance = problem.episodes_end
        declarations.append(
            f"episodes end within {num_steps:,} steps with probability {chance:g}"
        )
    if problem.value_gap is not None:
        declarations.append(
            f"bounds on V by state, at most {problem.value_gap:g} apart"
        )
    elif problem.value_bounds is not None:
        lower_bound, upper_bound = problem.value_bounds
        declarations.append(f"V between {lower_bound:g} and {upper_bound:g}")
    return list(enumerate(declarations))
