"""The page of an answer: the value, the actions, the cost, and the assumptions."""

from __future__ import annotations

import math

from smoothcruiser.display.document import (
    Actions,
    Block,
    Choice,
    Fields,
    Labelled,
    Page,
    Paragraph,
    Phrase,
    Sentence,
    Styled,
)
from smoothcruiser.errors import printable, text_of
from smoothcruiser.estimate import (
    NOWHERE,
    UNSAMPLED_BOUND,
    Certificate,
    Estimate,
    likeliest,
)
from smoothcruiser.schedule.numbers import (
    bounds,
    distance,
    duration,
    fixed,
    percent,
    rate,
    up,
)
from smoothcruiser.schedule.text import BOUND_NAMES

# begins a note of ``engines.answer`` that the line of the calls says already
EARLY = "The data allowed an early stop"
MOST_ACTIONS = 60  # rows of a table of actions; a longer one is not read
LONGEST_STATE = 60  # characters of a state in a title


def estimate_page(estimate: Estimate, exact: Estimate | None = None) -> Page:
    """An answer; with ``exact`` the exact one beside it."""
    title = ["Estimate", *([estimate.problem] if estimate.problem else [])]
    title += [] if estimate.state is None else [f"state {state_text(estimate.state)}"]
    return Page(tuple(title), answer_blocks(estimate, exact))


def state_text(state: object, longest: int = LONGEST_STATE) -> str:
    """A state on one line, with an ellipsis where it is long."""
    text = printable(text_of(state), keep="")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def answer_blocks(
    estimate: Estimate,
    exact: Estimate | None = None,
    *,
    before: int = 0,
    store: str | None = None,
) -> tuple[Block, ...]:
    """Value, action values, policy, what the answer cost and on what it rests.

    ``before`` and ``store`` are those of ``cost_rows``.
    """
    digits = digits_of(estimate)
    blocks: list[Block] = [Fields(value_rows(estimate, exact, digits))]
    if estimate.q_values:
        blocks.append(action_block(estimate, exact, digits))
    cost = cost_rows(estimate, before=before, store=store)
    blocks.append(Fields(cost, heading="Run"))
    certificate = estimate.certificate
    if certificate is None:
        none = "None: this method promises nothing."
        return (*blocks, Paragraph(none, heading="Certificate", detail=True))
    blocks.append(
        Fields(promise_rows(certificate, estimate), heading="Certificate", detail=True)
    )
    return (*blocks, Fields(trust_rows(certificate), tight=True))


def certificate_page(certificate: Certificate) -> Page:
    """What is promised, and on what it rests."""
    rows = (*promise_rows(certificate), *trust_rows(certificate))
    return Page(("Certificate",), (Fields(rows),))


# --- value --------------------------------------------------------------------


def digits_of(estimate: Estimate) -> int:
    """Decimals worth printing: two digits of the half-width, from 2 to 6.

    Three where nothing is promised. Where all numbers are small there are more, so that
    they are not all printed as 0.
    """
    half, small = _half_width(estimate), _leading_zeros(estimate)
    if half is None or not math.isfinite(half):
        return 3 + small
    if half <= 0.0:
        return 6 + small
    return min(6 + small, max(2 + small, 1 - math.floor(math.log10(half))))


def _leading_zeros(estimate: Estimate) -> int:
    """Decimals that are 0 in every number of the answer."""
    numbers = [estimate.value, *(estimate.interval or ()), *estimate.q_values]
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    return 0 if largest == 0.0 else max(0, -math.floor(math.log10(largest)) - 1)


def _half_width(estimate: Estimate) -> float | None:
    if estimate.interval is None:
        return None
    low, high = estimate.interval
    return max(estimate.value - low, high - estimate.value)


def value_rows(
    estimate: Estimate, exact: Estimate | None, digits: int
) -> tuple[Labelled, ...]:
    """The value with its interval, and the exact one beside it."""
    rows: list[Labelled] = [("value", _value(estimate, digits))]
    if exact is not None:
        rows.append(("exact", _verdict(estimate, exact, digits)))
    return tuple(rows)


def _value(estimate: Estimate, digits: int) -> Sentence:
    """The estimate, its usual error, and the interval that is promised."""
    value = Phrase(fixed(estimate.value, digits), "good")
    half = _half_width(estimate)
    usual = _usual_error(estimate)
    if half is None or estimate.interval is None:
        nothing = Phrase("  no promise comes with this number")
        return Styled((value, *usual, nothing))
    low, high = estimate.interval
    interval = bounds(low, high, digits)
    certificate = estimate.certificate
    if certificate is not None and certificate.confidence >= 1.0:
        if certificate.bound == UNSAMPLED_BOUND:
            words = f"  in {interval}, which is all that the rewards allow"
            return Styled((value, Phrase(words), Phrase("  not sampled", "dim")))
        proven = Phrase("  proven, not sampled", "dim")
        return Styled((value, Phrase(f" ± {up(half)}"), proven))
    # else one-sided: the ends say more than a half-width
    if estimate.epsilon is not None and half <= 1.01 * estimate.epsilon:
        value = Phrase(f"{value.text} ± {distance(half, digits)}", "good")
    confidence = 0.0 if estimate.delta is None else 1.0 - estimate.delta
    promise = Phrase(f"  in {interval} with probability {confidence:g}")
    return Styled((value, *usual, promise))


def _usual_error(estimate: Estimate) -> tuple[Phrase, ...]:
    """The usual standard error, if there is one above 0."""
    if not estimate.standard_error:
        return ()
    error = up(estimate.standard_error)
    return (Phrase(f"  (usual error {error}, not promised)", "dim"),)


def _verdict(estimate: Estimate, exact: Estimate, digits: int) -> str:
    """The exact value and how far the estimate is from it."""
    error = abs(estimate.value - exact.value)
    off = fixed(error, digits)
    text = f"{fixed(exact.value, digits)}; the answer is off by {off}"
    if estimate.interval is None:
        return text
    low, high = estimate.interval
    side = "inside" if low <= exact.value <= high else "outside"
    return f"{text}, {side} the interval"


# --- actions ------------------------------------------------------------------


def action_block(
    estimate: Estimate,
    exact: Estimate | None,
    digits: int,
    visits: dict[int, int] | None = None,
) -> Actions:
    """The actions with their values; of very many, those that the policy prefers."""
    boxes = estimate.certificate.q_intervals if estimate.certificate is not None else ()
    shown = likeliest(estimate, MOST_ACTIONS)
    choices = tuple(
        Choice(
            label=estimate.label(a),
            value=estimate.q_values[a],
            interval=boxes[a] if boxes else NOWHERE,
            exact=math.nan if exact is None else exact.q_values[a],
            policy=estimate.policy[a],
            best=a == estimate.action,
            visits=None if visits is None else visits.get(a),
        )
        for a in shown
    )
    left = len(estimate.q_values) - len(shown)
    return Actions(
        choices,
        digits=digits,
        bounded=bool(boxes) and estimate.method != "exact",
        compared=exact is not None,
        numbered=estimate.labels is None,
        more=f"… {left:,} more actions, illegal or less likely" if left else "",
        heading="Actions",
    )


# --- cost and trust -----------------------------------------------------------


def cost_rows(
    estimate: Estimate, *, before: int = 0, store: str | None = None
) -> tuple[Labelled, ...]:
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
    rows: list[Labelled] = [
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
    return (*rows, *(("note", note) for note in notes))


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


def promise_rows(
    certificate: Certificate, estimate: Estimate | None = None
) -> tuple[Labelled, ...]:
    """The promise in full; ``estimate`` has the names of actions."""
    low, high = certificate.interval
    rows: list[Labelled] = [
        ("kind", certificate.kind),
        ("interval", f"[{low!r}, {high!r}]"),
        ("holds", f"with probability {certificate.confidence:g}"),
    ]
    if certificate.policy_loss is not None:
        loss = f"{certificate.policy_loss:.3g}"
        rows.append(("policy", f"loses at most {loss} in one step, regularized"))
    if certificate.best_actions is not None:
        label = str if estimate is None else estimate.label
        names = [label(action) for action in certificate.best_actions[:MOST_ACTIONS]]
        left = len(certificate.best_actions) - len(names)
        names += [f"{left:,} more"] if left else []
        listed = ", ".join(names) or "none"
        rows.append(("best", f"actions not excluded as best: {listed}"))
    return tuple(rows)


def trust_rows(certificate: Certificate) -> tuple[Labelled, ...]:
    """What the promise rests on: the inequality behind it, and the assumptions."""
    first, space, rest = certificate.bound.partition(" ")
    return (
        ("closed by", BOUND_NAMES.get(first, first) + space + rest),
        *(
            ("assuming" if i == 0 else "", assumption)
            for i, assumption in enumerate(certificate.assumptions)
        ),
    )
