"""What a person sees in a terminal: problems, plans, answers and a progress
bar, at 80 columns and up, plain text when piped.

Answers go to standard output; progress and errors to standard error, so that a
pipe carries the answer alone. Nothing here computes: numbers come from the
Schedule, the Estimate and ``report.price``. Bars and stems are single
characters, never control codes, unless the stream is a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import ZOO
from smoothcruiser.report.price import Price, duration, rate
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.text import (
    BOUND_NAMES,
    KEY,
    compact,
    describe_facts,
    describe_price,
    describe_promise,
    describe_root,
    percent,
    picture,
    short,
)

LABEL = 9  # width of the names on the left: the longest is 'recommend'
BAR = 20  # characters of a policy bar that stand for probability 1
# begins a note of ``engines.answer`` that the line of the calls says already
EARLY = "The data allowed an early stop"
# lines longer than this are hard to read; a wide terminal does not change that
WIDEST = 110


def console(*, stderr: bool = False) -> Console:
    """A console that prints no colours into a pipe and leaves numbers and
    brackets alone.
    """
    made = Console(
        stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False
    )
    if made.width > WIDEST:
        made.width = WIDEST
    return made


def put(out: Console, block: RenderableType) -> None:
    """Print a block; into a pipe without the spaces that fill its lines."""
    if out.is_terminal:
        out.print(block)
        return
    with out.capture() as caught:
        out.print(block)
    for line in caught.get().splitlines():
        out.print(Text(line.rstrip()), soft_wrap=True)


def fields(pairs: Iterable[tuple[str, str | Text]]) -> Padding:
    """Names on the left, sentences on the right, wrapped under themselves."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=LABEL)
    grid.add_column()
    for name, text in pairs:
        grid.add_row(name, text)
    return Padding(grid, (0, 0, 0, 2))


def title(out: Console, *parts: str) -> None:
    """A heading: the command, then what it is about."""
    head = Text(parts[0], style="bold")
    for part in parts[1:]:
        head.append(" · ", style="dim").append(part)
    out.print(head, soft_wrap=True)
    out.print()


# --- problems -----------------------------------------------------------------


def show_problems(out: Console) -> None:
    """The built-in problems with their parameters, and how to name one's own."""
    title(out, "smoothcruiser problems")
    rows = [
        (name, f"{entry.summary}\n{_defaults(entry.defaults)}".rstrip())
        for name, entry in ZOO.items()
    ]
    own = (
        "module:attribute: a Problem, or a function that returns one, in a module of "
        "the current folder"
    )
    others = [
        (
            "gym:…",
            (
                "an environment of Gymnasium: gym:FrozenLake-v1,map_name=8x8 (pip "
                "install 'smoothcruiser[gymnasium]')"
            ),
        ),
        (
            "openspiel:…",
            (
                "a game of OpenSpiel: openspiel:tic_tac_toe (pip install "
                "'smoothcruiser[openspiel]')"
            ),
        ),
    ]
    put(out, fields([*rows, *others, ("your own", own)]))
    out.print("\nParameters follow the name: gridworld:n=10, garnet:states=50,seed=7")
    out.print(
        (
            "Try  smoothcruiser explain chain:n=5 --discount 0.2 --temperature 10 "
            "--epsilon 5% --delta 0.1"
        ),
        soft_wrap=True,
    )


def _defaults(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={str(value).lower()}" for name, value in parameters.items()
    )


# --- plans --------------------------------------------------------------------


def promise_fields(schedule: Schedule) -> list[tuple[str, str | Text]]:
    """Promise and price."""
    return [
        ("promise", describe_promise(schedule)),
        ("price", Text(describe_price(schedule), style="bold")),
    ]


def show_schedule(
    out: Console, problem: Problem, schedule: Schedule, *, time: str
) -> None:
    """The plan: what is promised, what it costs, level by level."""
    title(out, "smoothcruiser explain", problem.name, f"method {schedule.method}")
    rows: list[tuple[str, str | Text]] = [
        ("problem", describe_facts(schedule.facts)),
        *promise_fields(schedule),
    ]
    if problem.tables is not None:
        rows.append(
            (
                "exact",
                (
                    "the model is known: plan without --method solves this problem "
                    "exactly, 0 calls"
                ),
            )
        )
    put(out, fields([*rows, ("time", time), ("root", describe_root(schedule))]))
    out.print()
    head, *lines = picture(schedule)
    out.print(Text(head, style="dim"), soft_wrap=True)
    for line in lines:
        out.print(Text(line), soft_wrap=True)
    out.print()
    for line in KEY:
        out.print(Text(line, style="dim"), soft_wrap=True)


def show_forecast(
    out: Console, problem: Problem, forecast: Any, notes: tuple[str, ...] = ()
) -> None:
    """What is known before the run of a method that follows no schedule.

    Sentences are wrapped, a table is printed as it is.
    """
    title(out, "smoothcruiser explain", problem.name, f"method {forecast.method}")
    for note in notes:
        put(out, Text(note))
        out.print()
    for part in str(forecast).strip("\n").split("\n\n"):
        if part.startswith(" "):
            out.print(Text(part), soft_wrap=True)
        else:
            put(out, Text(" ".join(part.split())))
            out.print()


def show_rivals(out: Console, schedule: Schedule, prices: list[Price]) -> None:
    """What the same promise costs elsewhere."""
    if not prices:
        return
    out.print("\nThe same promise by other methods, in oracle calls:")
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column(style="dim")
    grid.add_row("this plan", short(schedule.num_calls), "")
    for price in prices:
        grid.add_row(
            price.name,
            str(price) if price.log10 is not None else "—",
            _ratio(price, schedule.num_calls),
        )
    put(out, Padding(grid, (0, 0, 0, 2)))


def _ratio(price: Price, calls: int) -> str:
    if price.log10 is None:
        return price.note
    if price.num_calls == calls:
        return "the same"
    log10 = price.log10 - math.log10(max(1, calls))
    if abs(log10) < 5:
        return f"{10.0**log10:,.3g} times" if log10 < 3 else f"{10.0**log10:,.0f} times"
    return f"10^{log10:,.0f} times"


def show_offers(out: Console, listed: list[str], budget: int, chosen: str) -> None:
    """What can be paid instead; ``chosen`` is the method that plan would run,
    which refuses unless it is another one.
    """
    if not listed:
        return
    told = {
        "exact": "would solve the model instead, 0 calls",
        "certified": "would answer by certified search instead",
    }
    out.print()
    does = told.get(chosen, "would refuse it")
    put(
        out,
        Text(
            f"Above the budget of {short(budget)} calls: plan {does}. What can be paid:",
            style="yellow",
        ),
    )
    grid = Table.grid(padding=(0, 1))
    for offer in listed:
        grid.add_row("•", offer)
    put(out, Padding(grid, (0, 0, 0, 2)))


# --- answers ------------------------------------------------------------------


def show_problem(
    out: Console, command: str, problem: Problem, state: Any, *more: str
) -> None:
    """What is asked."""
    title(out, f"smoothcruiser {command}", problem.name, f"state {state!r}", *more)
    put(out, fields([("problem", describe_facts(problem.facts))]))


def show_estimate(
    out: Console,
    estimate: Estimate,
    exact: Estimate | None = None,
    *,
    before: int = 0,
    store: str | None = None,
) -> None:
    """The answer: value, action values, policy, what it cost and on what it
    rests; ``before``, ``store`` as for ``cost_fields``.
    """
    digits = digits_of(estimate)
    out.print()
    put(out, fields(value_fields(estimate, exact, digits)))
    if estimate.q_values:
        out.print()
        put(out, Padding(_actions(estimate, exact, digits), (0, 0, 0, 2)))
    out.print()
    put(
        out,
        fields(
            [
                *cost_fields(estimate, before=before, store=store),
                *trust_fields(estimate),
            ]
        ),
    )


def show_runs(out: Console, store: str, runs: list[Any]) -> None:
    """The runs of a store, one line each."""
    title(out, "smoothcruiser runs", store)
    if not runs:
        out.print("  none yet: smoothcruiser plan … --store FILE keeps one")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    numbers = ("run", "epsilon", "delta", "calls", "price")
    for heading in (
        "run",
        "problem",
        "method",
        "epsilon",
        "delta",
        "calls",
        "price",
        "status",
    ):
        # the one column whose text the user chose; numbers and method names stay
        # whole
        folds = heading == "problem"
        table.add_column(
            heading,
            justify="right" if heading in numbers else "left",
            no_wrap=not folds,
            overflow="fold",
        )
    open_runs = []
    for run in runs:
        row = run.to_dict()
        open_runs += [row["run"]] if row["status"] != "finished" else []
        promise = (f"{row['epsilon']:.3g}", f"{row['delta']:g}")
        price = (
            f"10^{row['log10_calls']:.0f}"
            if row["num_calls"] is None
            else compact(row["num_calls"])
        )
        table.add_row(
            str(row["run"]),
            row["problem"],
            row["method"],
            *promise,
            compact(row["calls_done"]),
            price,
            row["status"],
        )
    put(out, Padding(table, (0, 0, 0, 2)))
    if open_runs:
        out.print(
            (
                "\nGo on with an unfinished run: smoothcruiser plan --resume "
                f"{open_runs[-1]} --store {store}"
            ),
            soft_wrap=True,
        )


def digits_of(estimate: Estimate) -> int:
    """Decimals worth printing: two digits of the half-width, from 2 to 6; three
    where nothing is promised.
    """
    half = _half_width(estimate)
    if half is None:
        return 3
    if half <= 0.0:
        return 6
    return min(6, max(2, 1 - math.floor(math.log10(half))))


def _half_width(estimate: Estimate) -> float | None:
    if estimate.interval is None:
        return None
    low, high = estimate.interval
    return max(estimate.value - low, high - estimate.value)


def value_fields(
    estimate: Estimate, exact: Estimate | None, digits: int
) -> list[tuple[str, str | Text]]:
    """The value with its interval, and the exact one beside it."""
    half = _half_width(estimate)
    value = Text(f"{estimate.value:.{digits}f}", style="bold green")
    if half is None or estimate.interval is None:
        value.append("  no promise comes with this number", style="default")
    elif estimate.certificate is not None and estimate.certificate.confidence >= 1.0:
        value.append(f" ± {half:.2g}", style="default").append(
            "  proven, not sampled", style="dim"
        )
    else:
        low, high = estimate.interval
        # else one-sided: the ends say more than a half-width
        if estimate.epsilon is not None and half <= 1.01 * estimate.epsilon:
            value.append(f" ± {half:.{digits}f}")
        confidence = 0.0 if estimate.delta is None else 1.0 - estimate.delta
        value.append(
            (
                f"  in [{low:.{digits}f}, {high:.{digits}f}] with probability "
                f"{confidence:g}"
            ),
            style="default",
        )
    rows: list[tuple[str, str | Text]] = [("value", value)]
    if exact is not None:
        error = abs(estimate.value - exact.value)
        inside = (
            estimate.interval is not None
            and estimate.interval[0] <= exact.value <= estimate.interval[1]
        )
        verdict = (
            "inside the interval"
            if inside
            else "outside the interval"
            if estimate.interval is not None
            else ""
        )
        rows.append(
            (
                "exact",
                (
                    f"{exact.value:.{digits}f}  the answer is off by "
                    f"{error:.{digits}f}{', ' if verdict else ''}{verdict}"
                ),
            )
        )
    return rows


def _actions(estimate: Estimate, exact: Estimate | None, digits: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("action", justify="right")
    table.add_column("value", justify="right")
    boxes = estimate.certificate.q_intervals if estimate.certificate is not None else ()
    shows_boxes = bool(boxes) and estimate.method != "exact"
    if shows_boxes:
        table.add_column("interval", justify="right")
    if exact is not None:
        table.add_column("exact", justify="right")
    table.add_column("policy", justify="right")
    table.add_column("")
    for action, (q, p) in enumerate(
        zip(estimate.q_values, estimate.policy, strict=True)
    ):
        best = action == estimate.action
        cells = [str(action), "illegal" if math.isnan(q) else f"{q:.{digits}f}"]
        if shows_boxes:
            low, high = boxes[action]
            cells.append(
                "" if math.isnan(low) else f"[{low:.{digits}f}, {high:.{digits}f}]"
            )
        if exact is not None:
            cells.append(
                "" if math.isnan(q) else f"{exact.q_values[action]:.{digits}f}"
            )
        bar = "█" * round(BAR * p) or "▏"
        cells += [f"{100.0 * p:.1f}%", f"{bar}{'  recommended' if best else ''}"]
        table.add_row(*cells, style="bold" if best else None)
    return table


def cost_fields(
    estimate: Estimate, *, before: int = 0, store: str | None = None
) -> list[tuple[str, str | Text]]:
    """What the answer cost and how it was obtained.

    ``before`` calls were made by an earlier session of a resumed run: its speed
    is that of the others. ``store`` is the file it is kept in.
    """
    early = any(note.startswith(EARLY) for note in estimate.notes)
    calls = (
        f"{estimate.num_calls:,} oracle calls, counted"
        if estimate.method != "exact"
        else "none: the model is known"
    )
    if estimate.price is not None and estimate.price > 0:
        calls += (
            f"; {percent(estimate.num_calls / estimate.price)} of the "
            f"price{': the data allowed an early stop' if early else ''}"
        )
    spent = estimate.num_calls if estimate.calls_spent is None else estimate.calls_spent
    if spent > estimate.num_calls:
        calls += f" ({spent - estimate.num_calls:,} more were drawn ahead and not used)"
    took = (
        f"{duration(estimate.seconds)} running, "
        f"{duration(estimate.compile_seconds)} compiling"
    )
    if before:
        took += f"; {max(0, spent - before):,} calls in this session"
    if spent > before and estimate.seconds > 0.0:
        took += f"; {rate((spent - before) / estimate.seconds)}"
    how = [f"method {estimate.method}"]
    how += [f"executor {estimate.executor}"] if estimate.executor else []
    how += [f"seed {estimate.seed}"] if estimate.seed is not None else []
    rows: list[tuple[str, str | Text]] = [
        ("calls", calls),
        ("time", took),
        ("run", ", ".join(how)),
    ]
    if store is not None:
        kept = (
            f"run {estimate.run} in {store}"
            if estimate.run is not None
            else f"nothing: method {estimate.method} has no parts to keep"
        )
        rows.append(("stored", kept))
    return rows + [
        ("note", note) for note in estimate.notes if not note.startswith(EARLY)
    ]


def trust_fields(estimate: Estimate) -> list[tuple[str, str | Text]]:
    """What the promise rests on: the inequality that closed it, and what is
    taken on trust.
    """
    if estimate.certificate is None:
        return []
    first, space, rest = estimate.certificate.bound.partition(" ")
    rows: list[tuple[str, str | Text]] = [
        ("closed by", BOUND_NAMES.get(first, first) + space + rest)
    ]
    return rows + [
        ("assuming" if i == 0 else "", assumption)
        for i, assumption in enumerate(estimate.certificate.assumptions)
    ]
