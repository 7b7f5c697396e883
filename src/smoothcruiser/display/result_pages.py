"""The page of an exact solution: values and best actions, and how exact they are.

The page of answers about many states: one row for each, and their joint promise.

Pages of a memory of certified search: its queries, and a table of its states.

The page of a comparison: planners with the same budget, beside the exact answer.

The page of a search tree: the root's actions and visits, the line that it expects,
and its most visited part. ``view`` writes the tree alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.state_table import (
    KeptTable,
    Row,
    Table,
    queried_estimates,
)
from smoothcruiser.comparison import Comparison, NotRun
from smoothcruiser.display.answer_pages import action_block, digits_of, state_text
from smoothcruiser.display.document import (
    Block,
    Column,
    Drawing,
    Fields,
    Grid,
    Labelled,
    Page,
    Paragraph,
    Verbatim,
    style_sentence,
)
from smoothcruiser.errors import InvalidInput, choose_word, printable
from smoothcruiser.estimate import Estimate, Estimates
from smoothcruiser.exact.solution import Solution
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.number_text import (
    bounds,
    count_noun,
    duration,
    format_bound,
    format_decimals,
)
from smoothcruiser.schedule.text import BOUND_NAMES, describe_facts
from smoothcruiser.tree import view as views
from smoothcruiser.tree.tree import Tree
from smoothcruiser.tree.view import principal_line

MOST_STATES = 20  # rows; ``values`` and ``policy`` have all of them
LEAST, MOST = 3, 6  # decimals


def solution_page(solution: Solution) -> Page:
    """The first states with their values and most likely actions."""
    num_states, num_actions = solution.q_values.shape
    field_rows: list[Labelled] = [
        (
            "exact",
            f"every {choose_word('value', solution.minimize)} up to "
            f"{format_bound(solution.residual_bound)}, proven",
        ),
        (
            "run",
            f"{solution.method}, {count_noun(solution.sweeps, 'sweep')}, "
            f"{duration(solution.seconds)} running, "
            f"{duration(solution.compile_seconds)} compiling",
        ),
    ]
    if solution.stages is not None:
        field_rows.insert(
            0,
            (
                "horizon",
                f"{choose_word('value', solution.minimize)}s with all "
                f"{len(solution.stages) - 1} steps",
            ),
        )
    if solution.note:
        field_rows.append(("note", solution.note))
    problem_names = [solution.problem] if solution.problem else []
    title = (
        "Solution",
        *problem_names,
        count_noun(num_states, "state"),
        count_noun(num_actions, "action"),
    )
    return Page(title, (_states(solution), Fields(tuple(field_rows), heading="Run")))


def _states(solution: Solution) -> Grid:
    num_states = len(solution.values)
    has_numbered_states = solution.states is None
    columns = (
        Column("state", right=has_numbered_states, fit="cut"),
        Column(choose_word("value", solution.minimize), right=True),
        Column("action", right=True, fit="cut"),
        Column("policy", right=True),
    )
    digits = _digits(solution.residual_bound)
    listed_states = range(min(num_states, MOST_STATES))
    num_omitted = num_states - len(listed_states)
    omission_text = f"… {count_noun(num_omitted, 'more state')}" if num_omitted else ""
    return Grid(
        columns,
        tuple(_row(solution, i, digits) for i in listed_states),
        more=omission_text,
    )


def _digits(bound: float) -> int:
    """Decimals that the bound leaves certain, of those worth reading."""
    if not 0.0 < bound < 1.0:
        return LEAST if bound > 0.0 else MOST
    return min(MOST, max(LEAST, -math.floor(math.log10(bound)) - 1))


def _row(solution: Solution, row: int, digits: int) -> tuple[str, ...]:
    state = row if solution.states is None else solution.states[row]
    value, policy = float(solution.values[row]), solution.policy[row]
    cells = (
        state_text(state),
        "unknown" if math.isnan(value) else format_decimals(value, digits),
    )
    if np.isnan(policy).any():
        return (*cells, "", "")
    if not policy.any():  # no action is legal
        return (*cells, "", "terminal")
    best_action = int(np.argmax(policy))
    return (
        *cells,
        solution.label(best_action),
        f"{100.0 * float(policy[best_action]):.1f}%",
    )


USUAL_ERROR = "usual error"  # the title of the column of standard errors
MOST_ROWS = 60  # of a table in a notebook or a string; the command line shows all


def estimates_page(answers: Estimates) -> Page:
    """The answers of ``plan_many``, the first ``MOST_ROWS`` of them."""
    problem_names = {answer.problem for answer in answers if answer.problem}
    title = ("Estimates", *sorted(problem_names), count_noun(len(answers), "state"))
    return Page(title, _blocks(answers, MOST_ROWS))


def planned_page(problem: Problem, answers: Estimates) -> Page:
    """The same on the command line: all answers, and the problem."""
    title = ("smoothcruiser plan", problem.name, count_noun(len(answers), "state"))
    problem_block = Fields((("problem", describe_facts(problem.facts)),))
    return Page(title, (problem_block, *_blocks(answers, len(answers))))


def _blocks(answers: Estimates, max_rows: int) -> tuple[Block, ...]:
    field_rows: list[Labelled] = [
        ("calls", f"{answers.num_calls:,} oracle calls, counted"),
        ("time", duration(answers.seconds)),
        ("run", f"method {answers.method}"),
    ]
    if answers.delta is not None:
        field_rows.insert(0, ("promise", joint_promise(answers, answers.delta)))
    all_notes = {note: None for answer in answers for note in answer.notes}
    shared_notes = [
        note for note in all_notes if all(note in x.notes for x in answers)
    ]
    field_rows += [("note", note) for note in (*answers.notes, *shared_notes)]
    table = (answers_grid(answers, max_rows),) if len(answers) else ()
    return (*table, Fields(tuple(field_rows), heading="Run"))


def joint_promise(answers: Sequence[Estimate], delta: float) -> str:
    """The joint promise of all answers, and the numbers outside it."""
    promise_text = f"all intervals hold together with probability {1.0 - delta:g}"
    has_usual_errors = any(answer.standard_error for answer in answers)
    return (
        f"{promise_text}; a {USUAL_ERROR} is not promised"
        if has_usual_errors
        else promise_text
    )


def answers_grid(answers: Sequence[Estimate], max_rows: int) -> Grid:
    """Rows of the first ``max_rows`` answers: estimate, usual error, promise."""
    has_usual_errors = any(answer.standard_error for answer in answers[:max_rows])
    has_numbered_actions = all(answer.labels is None for answer in answers[:max_rows])
    has_integer_states = all(
        isinstance(answer.state, int) for answer in answers[:max_rows]
    )
    columns = (
        Column("state", right=has_integer_states, fit="cut"),
        Column(choose_word("value", any(x.minimize for x in answers)), right=True),
        *([Column(USUAL_ERROR, right=True)] if has_usual_errors else []),
        Column("interval", right=True),
        Column("action", right=has_numbered_actions, fit="cut"),
        Column("calls", right=True),
    )
    num_omitted = max(0, len(answers) - max_rows)
    omission_text = f"… {count_noun(num_omitted, 'more state')}" if num_omitted else ""
    grid_rows = tuple(
        _estimate_row(answer, has_usual_errors) for answer in answers[:max_rows]
    )
    return Grid(columns, grid_rows, more=omission_text)


def _estimate_row(answer: Estimate, usual: bool) -> tuple[str, ...]:
    digits, interval = digits_of(answer), answer.interval
    error_text = (
        "" if not answer.standard_error else format_bound(answer.standard_error)
    )
    return (
        state_text(answer.state),
        format_decimals(answer.value, digits),
        *([error_text] if usual else []),
        "" if interval is None else bounds(*interval, digits),
        answer.action_label or "",
        f"{answer.num_calls:,}",
    )


DIGITS = 3  # decimals of the bounds in a table of states


def certified_page(search: Certified) -> Page:
    """The states seen, the calls, and the answers at the queried states."""
    memory, delta = search.memory, 0.0 if search.exact else search.delta
    queried_answers = queried_estimates(search)
    num_pairs = int((memory.graph.pairs["total"][: memory.num_pairs] > 0).sum())
    memory_text = (
        f"{count_noun(max(0, memory.num_nodes - 1), 'state')}, {count_noun(num_pairs, 'pair')} "
        f"(state, action) and {count_noun(memory.num_entries, 'outcome')} seen"
    )
    calls_text = f"{search.num_calls - search.num_rows:,} oracle calls, counted"
    if search.num_rows:
        calls_text += f"; {count_noun(search.num_rows, 'row')} of outcomes= read"
    bound_word = search.bound.word
    field_rows: list[Labelled] = [
        ("promise", joint_promise(queried_answers, delta)),
        ("memory", memory_text),
        ("calls", calls_text),
        (
            "run",
            f"bound {BOUND_NAMES.get(bound_word, bound_word)}, seed {search.seed}",
        ),
    ]
    if search.fault is not None:
        field_rows.append(("fault", f"left unfinished by an error: {search.fault}"))
    field_rows += [("note", note) for note in search.notes]
    if not queried_answers and search.fault is None:
        field_rows.append(("note", "No query so far: ask query(state, epsilon=…)."))
    answer_blocks: tuple[Block, ...] = ()
    if queried_answers:
        answer_blocks = (answers_grid(queried_answers, MOST_ROWS),)
    title = (
        "Certified",
        search.problem.name,
        f"{len(queried_answers):,} states asked about",
    )
    if len(queried_answers) == 1:
        title = (*title[:2], "1 state asked about")
    return Page(title, (*answer_blocks, Fields(tuple(field_rows), heading="Run")))


def table_page(table: Table | KeptTable) -> Page:
    """The first states of a table, in the order in which they were met."""
    listed_rows = table[:MOST_ROWS]
    has_horizon = any(row.remaining is not None for row in listed_rows)
    has_integer_states = all(isinstance(row.state, int) for row in listed_rows)
    columns = [Column("state", right=has_integer_states, fit="cut")]
    columns += [Column("steps left", right=True)] if has_horizon else []
    word = choose_word("value", table.minimize)
    number_columns = (word, "interval", "action", "samples")
    columns += [
        Column(name, right=True, fit="cut" if name == "action" else "whole")
        for name in number_columns
    ]
    num_omitted = len(table) - len(listed_rows)
    grid = Grid(
        tuple(columns),
        tuple(_cells(row, has_horizon) for row in listed_rows),
        more=f"… {count_noun(num_omitted, 'more state')}" if num_omitted else "",
    )
    promise_text = f"all intervals hold together with probability {table.confidence:g}"
    field_rows = (
        ("promise", promise_text),
        ("calls", f"{table.num_calls:,} oracle calls and rows read, counted"),
    )
    problem_name = (
        table.problem if isinstance(table, KeptTable) else table.problem.name
    )
    title = ("Table", problem_name, count_noun(len(table), "state"))
    return Page(title, (grid, Fields(field_rows)))


def _cells(row: Row, horizon: bool) -> tuple[str, ...]:
    return (
        state_text(row.state),
        *([str(row.remaining)] if horizon else []),
        f"{row.value:.{DIGITS}f}",
        bounds(*row.interval, DIGITS),
        row.label or str(row.action),
        f"{sum(row.samples):,}",
    )


COLUMNS = (
    ("value", "value"),
    ("standard_error", USUAL_ERROR),
    ("error", "error"),
    ("action_regret", "action regret"),
    ("policy_regret", "policy regret"),
)


def comparison_page(comparison: Comparison, only: int | None = None) -> Page:
    """A row for each planner and budget, means over seeds.

    ``only`` is the budget that is shown, by default every one.
    """
    truth = comparison.truth
    bound = 0.0 if truth is None else truth.bound
    error_floors = {
        "error": bound,
        "action_regret": 2.0 * bound,
        "policy_regret": 2.0 * bound,
    }
    means = [m for m in comparison.means() if only is None or m["budget"] == only]
    has_usual_errors = any(row["standard_error"] for row in means)
    shown_columns = [
        x for x in COLUMNS if has_usual_errors or x[0] != "standard_error"
    ]
    table_rows = tuple(
        (
            row["method"],
            *(
                number(row[field], error_floors.get(field, 0.0))
                for field, _ in shown_columns
            ),
            f"{row['num_calls']:,.0f}",
            f"{row['seconds']:.3f}",
        )
        for row in means
        if row["runs"]
    )
    titles = {"value": choose_word("value", comparison.minimize)}
    number_titles = (
        *(titles.get(title, title) for _, title in shown_columns),
        *("calls", "seconds"),
    )
    columns = (Column(title, right=True) for title in number_titles)
    table = Grid((Column("planner", fit="cut"), *columns), table_rows, indent=0)
    problem_name = printable(comparison.problem, keep="")
    head_line = f"{problem_name}, state {state_text(comparison.state)}"
    repeats = comparison.repeats
    repeats_text = f"means of {repeats} run{'s' if repeats > 1 else ''}"
    repeats_text += (
        f"; the {USUAL_ERROR} is that of one run, and not promised"
        if has_usual_errors
        else ""
    )
    blocks: list[Block] = [
        Paragraph(style_sentence(head_line, "strong")),
        Paragraph(f"{_exact_value_text(comparison)}; {repeats_text}", tight=True),
        table,
        *_notes(comparison, means),
    ]
    if comparison.not_run:
        blocks.append(Paragraph(_interruption_text(comparison.not_run)))
    return Page((), tuple(blocks))


def _exact_value_text(comparison: Comparison) -> str:
    truth = comparison.truth
    word = choose_word("value", comparison.minimize)
    if truth is None:
        return f"no exact {word} is known"
    exact = f"exact {word} {truth.value:.6g} ± {format_bound(truth.bound, 1)}"
    return f"{exact}; error is the distance to it"


def _notes(comparison: Comparison, means: list[dict[str, Any]]) -> list[Block]:
    """Planners that estimate another value, and the reasons of missing rows."""
    operator_label = comparison.operator
    planners_by_operator: dict[str, dict[str, None]] = {}
    notes: list[str] = []
    for row in means:
        if row["note"]:
            runs_text = f" in {row['failed']} of {comparison.repeats} runs"
            notes.append(
                f"{row['method']}{runs_text if row['runs'] else ''}: "
                f"{row['note'].rstrip('.')}."
            )
        if row["runs"] and row["estimates"] != operator_label:
            planners_by_operator.setdefault(row["estimates"], {})[row["method"]] = None
    if planners_by_operator:
        other_values = "; ".join(
            f"{', '.join(planner_names)} that of {other_operator}"
            for other_operator, planner_names in planners_by_operator.items()
        )
        notes.insert(
            0,
            f"Not all estimate V, the {choose_word('value', comparison.minimize)} of "
            f"{operator_label}: {other_values}. "
            "Their error has that difference in it; regrets compare.",
        )
    return [Paragraph(note, tight=i > 0) for i, note in enumerate(notes)]


def number(value: float | None, error_floor: float = 0.0) -> str:
    """A number as text, or ``≤ error_floor`` where the error cannot tell it from 0."""
    if value is None:
        return "-"
    return (
        f"≤ {format_bound(error_floor, 1)}"
        if 0.0 < error_floor >= abs(value)
        else f"{value:.4g}"
    )


def _interruption_text(cut: Sequence[NotRun]) -> str:
    """Runs that Ctrl-C left out of the table, by planner."""
    runs_by_planner = Counter(job.method for job in cut)
    planner_list = ", ".join(
        f"{name} ({count})" for name, count in runs_by_planner.items()
    )
    return f"Stopped by hand; runs that were cut, by planner: {planner_list}."


def tree_page(tree: Tree) -> Page:
    """The tree's answer, which carries no promise."""
    title = ("Tree", tree.problem.name, f"state {state_text(tree.state)}")
    size_text = (
        f"{count_noun(tree.simulations, 'simulation')}, {count_noun(tree.num_nodes, 'node')}, "
        f"at most {tree.deepest} deep"
    )
    run_rows: list[Labelled] = [
        ("tree", size_text),
        ("calls", f"{tree.num_calls:,} oracle calls, counted"),
        ("time", f"{duration(tree.seconds)} growing"),
        ("run", f"method {tree.method}, seed {tree.seed}"),
    ]
    if not any(tree.node(0).edge_visits):
        run_rows.append(("note", "No simulation was finished: grow it first."))
        return Page(title, (Fields(tuple(run_rows)),))
    estimate = tree.estimate()
    root = tree.node(0)
    visits = dict(zip(root.actions, root.edge_visits, strict=True))
    value_text = style_sentence(f"{estimate.value:.3f}", "good")
    word = choose_word("value", tree.problem.minimizes)
    head_rows: tuple[Labelled, ...] = ((word, value_text), ("line", _line(tree)))
    # the first note counts simulations and nodes, which are above
    run_rows += [("note", note) for note in estimate.notes[1:]]
    blocks: list[Block] = [
        Fields(head_rows),
        action_block(estimate, None, digits_of(estimate), visits),
        Fields(tuple(run_rows), heading="Run"),
        Drawing(
            views.svg(tree, width=3, ink=views.AROUND),
            heading="Most visited",
            detail=True,
        ),
        Verbatim(tuple(views.text(tree, depth=2, width=3).splitlines()[1:])),
    ]
    return Page(title, tuple(blocks))


def _line(tree: Tree) -> str:
    moves = [f"{move} ({visits:,})" for move, visits in principal_line(tree)]
    return f"{' → '.join(moves)}: actions recommended one after the other (visits)"


@overload
def view(tree: Tree, path: None = None, *, depth: int = 2, width: int = 4) -> str: ...


@overload
def view(tree: Tree, path: str | Path, *, depth: int = 2, width: int = 4) -> Path: ...


def view(
    tree: Tree, path: str | Path | None = None, *, depth: int = 2, width: int = 4
) -> str | Path:
    """The most visited part of a search tree as an HTML page, or the file it is in.

    It shows the root's actions, the principal line, a picture, and the tree to fold and
    unfold, with proven values where the tree solves. The page is self-contained: no
    script, and no request to anywhere.

    Args:
        tree: a ``Tree`` that has grown.
        path: the file to write, which ends in .html, .svg or .txt; by default none
            is written, and the HTML is returned.
        depth: levels below the root that are shown.
        width: most children of a node that are shown.

    Example:
        >>> import smoothcruiser as sc
        >>> problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
        >>> tree = sc.Tree(problem, method="uct").grow(simulations=100)
        >>> sc.view(tree).startswith("<!doctype html>")
        True
    """
    if not isinstance(tree, Tree):
        raise InvalidInput(
            f"view shows a search Tree, got {type(tree).__name__}; grow one: "
            "sc.Tree(problem).grow(simulations=1000)."
        )
    if path is None:
        return views.html(tree, depth=depth, width=width)
    return views.save(tree, path, depth=depth, width=width)
