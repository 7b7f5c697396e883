"""Answers on a terminal: the value, the actions, the cost, and the assumptions."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from smoothcruiser.estimate import Estimate
from smoothcruiser.display.console import Fields, fields, indented, put
from smoothcruiser.schedule.numbers import duration, percent, rate
from smoothcruiser.schedule.text import BOUND_NAMES

BAR = 20  # characters of a policy bar that stand for probability 1
# begins a note of ``engines.answer`` that the line of the calls says already
EARLY = "The data allowed an early stop"


def show_estimate(
    out: Console,
    estimate: Estimate,
    exact: Estimate | None = None,
    *,
    before: int = 0,
    store: str | None = None,
) -> None:
    """The answer: value, action values, policy, what it cost and on what it rests.

    ``before`` and ``store`` are those of ``cost_fields``.
    """
    digits = digits_of(estimate)
    out.print()
    put(out, fields(value_fields(estimate, exact, digits)))
    if estimate.q_values:
        out.print()
        put(out, indented(_actions(estimate, exact, digits)))
    out.print()
    cost = cost_fields(estimate, before=before, store=store)
    put(out, fields([*cost, *trust_fields(estimate)]))


def digits_of(estimate: Estimate) -> int:
    """Decimals worth printing: two digits of the half-width, from 2 to 6.

    Three where nothing is promised.
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


def value_fields(estimate: Estimate, exact: Estimate | None, digits: int) -> Fields:
    """The value with its interval, and the exact one beside it."""
    half = _half_width(estimate)
    value = Text(f"{estimate.value:.{digits}f}", style="bold green")
    if half is None or estimate.interval is None:
        value.append("  no promise comes with this number", style="default")
    elif estimate.certificate is not None and estimate.certificate.confidence >= 1.0:
        value.append(f" ± {half:.2g}", style="default")
        value.append("  proven, not sampled", style="dim")
    else:
        low, high = estimate.interval
        # else one-sided: the ends say more than a half-width
        if estimate.epsilon is not None and half <= 1.01 * estimate.epsilon:
            value.append(f" ± {half:.{digits}f}")
        confidence = 0.0 if estimate.delta is None else 1.0 - estimate.delta
        interval = f"[{low:.{digits}f}, {high:.{digits}f}]"
        value.append(
            f"  in {interval} with probability {confidence:g}", style="default"
        )
    rows: Fields = [("value", value)]
    if exact is not None:
        rows.append(("exact", _verdict(estimate, exact, digits)))
    return rows


def _verdict(estimate: Estimate, exact: Estimate, digits: int) -> str:
    """The exact value and how far the estimate is from it."""
    error = abs(estimate.value - exact.value)
    text = f"{exact.value:.{digits}f}  the answer is off by {error:.{digits}f}"
    if estimate.interval is None:
        return text
    low, high = estimate.interval
    side = "inside" if low <= exact.value <= high else "outside"
    return f"{text}, {side} the interval"


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
    pairs = zip(estimate.q_values, estimate.policy, strict=True)
    for action, (q, p) in enumerate(pairs):
        best = action == estimate.action
        cells = [str(action), "illegal" if math.isnan(q) else f"{q:.{digits}f}"]
        if shows_boxes:
            low, high = boxes[action]
            box = f"[{low:.{digits}f}, {high:.{digits}f}]"
            cells.append("" if math.isnan(low) else box)
        if exact is not None:
            truth = f"{exact.q_values[action]:.{digits}f}"
            cells.append("" if math.isnan(q) else truth)
        bar = "█" * round(BAR * p) or "▏"
        cells += [f"{100.0 * p:.1f}%", f"{bar}{'  recommended' if best else ''}"]
        table.add_row(*cells, style="bold" if best else None)
    return table


def cost_fields(
    estimate: Estimate, *, before: int = 0, store: str | None = None
) -> Fields:
    """What the answer cost and how it was obtained.

    ``before`` calls were made by an earlier session of a resumed run and do not
    count for the speed. ``store`` is the file that keeps the run.
    """
    spent = estimate.num_calls if estimate.calls_spent is None else estimate.calls_spent
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
    rows: Fields = [
        ("calls", _calls(estimate, spent)),
        ("time", took),
        ("run", ", ".join(how)),
    ]
    if store is not None:
        kept = f"nothing: method {estimate.method} has no parts to keep"
        if estimate.run is not None:
            kept = f"run {estimate.run} in {store}"
        rows.append(("stored", kept))
    notes = [note for note in estimate.notes if not note.startswith(EARLY)]
    return rows + [("note", note) for note in notes]


def _calls(estimate: Estimate, spent: int) -> str:
    """The calls that count, as a share of the price, and those beside them."""
    text = "none: the model is known"
    if estimate.method != "exact":
        text = f"{estimate.num_calls:,} oracle calls, counted"
    if estimate.price is not None and estimate.price > 0:
        text += f"; {percent(estimate.num_calls / estimate.price)} of the price"
        if any(note.startswith(EARLY) for note in estimate.notes):
            text += ": the data allowed an early stop"
    if spent > estimate.num_calls:
        text += f" ({spent - estimate.num_calls:,} more were made ahead and not used)"
    return text


def trust_fields(estimate: Estimate) -> Fields:
    """What the promise rests on: the inequality behind it, and the assumptions."""
    if estimate.certificate is None:
        return []
    first, space, rest = estimate.certificate.bound.partition(" ")
    rows: Fields = [("closed by", BOUND_NAMES.get(first, first) + space + rest)]
    return rows + [
        ("assuming" if i == 0 else "", assumption)
        for i, assumption in enumerate(estimate.certificate.assumptions)
    ]
