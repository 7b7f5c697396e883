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
from smoothcruiser.errors import choose_word, printable, text_of
from smoothcruiser.estimate import (
    NOWHERE,
    UNSAMPLED_BOUND,
    Certificate,
    Estimate,
    likeliest,
)
from smoothcruiser.schedule.number_text import (
    bounds,
    distance,
    duration,
    format_bound,
    format_decimals,
    percent,
    rate,
)
from smoothcruiser.schedule.text import BOUND_NAMES

# begins a note of ``engines.root_answer`` that the line of the calls says already
EARLY = "The data allowed an early stop"
MOST_ACTIONS = 60  # rows of a table of actions; a longer one is not read
LONGEST_STATE = 60  # characters of a state in a title


def estimate_page(estimate: Estimate, exact: Estimate | None = None) -> Page:
    """An answer; with ``exact`` the exact one beside it."""
    title_parts = ["Estimate", *([estimate.problem] if estimate.problem else [])]
    title_parts += (
        [] if estimate.state is None else [f"state {state_text(estimate.state)}"]
    )
    return Page(tuple(title_parts), answer_blocks(estimate, exact))


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
    """Value, action values, policy, cost and assumptions of an answer.

    ``before`` and ``store`` are those of ``cost_rows``.
    """
    digits = digits_of(estimate)
    blocks: list[Block] = [Fields(value_rows(estimate, exact, digits))]
    if estimate.q_values:
        blocks.append(action_block(estimate, exact, digits))
    run_rows = cost_rows(estimate, before=before, store=store)
    blocks.append(Fields(run_rows, heading="Run"))
    certificate = estimate.certificate
    if certificate is None:
        no_promise = "None: this method promises nothing."
        return (*blocks, Paragraph(no_promise, heading="Certificate", detail=True))
    blocks.append(
        Fields(promise_rows(certificate, estimate), heading="Certificate", detail=True)
    )
    return (*blocks, Fields(trust_rows(certificate), tight=True))


def certificate_page(certificate: Certificate) -> Page:
    """The promise, and the assumptions that it rests on."""
    rows = (*promise_rows(certificate), *trust_rows(certificate))
    return Page(("Certificate",), (Fields(rows),))


# --- value --------------------------------------------------------------------


def digits_of(estimate: Estimate) -> int:
    """Decimals worth printing: two digits of the half-width, from 2 to 6.

    Three where nothing is promised. Where all numbers are small there are more, so that
    they are not all printed as 0.
    """
    half_width, leading_zeros = _half_width(estimate), _leading_zeros(estimate)
    if half_width is None or not math.isfinite(half_width):
        return 3 + leading_zeros
    if half_width <= 0.0:
        return 6 + leading_zeros
    return min(
        6 + leading_zeros,
        max(2 + leading_zeros, 1 - math.floor(math.log10(half_width))),
    )


def _leading_zeros(estimate: Estimate) -> int:
    """Decimals that are 0 in every number of the answer."""
    numbers = [estimate.value, *(estimate.interval or ()), *estimate.q_values]
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    return 0 if largest == 0.0 else max(0, -math.floor(math.log10(largest)) - 1)


def _half_width(estimate: Estimate) -> float | None:
    if estimate.interval is None:
        return None
    lower_bound, upper_bound = estimate.interval
    return max(estimate.value - lower_bound, upper_bound - estimate.value)


def value_rows(
    estimate: Estimate, exact: Estimate | None, digits: int
) -> tuple[Labelled, ...]:
    """The value with its interval, and the exact one beside it."""
    word = choose_word("value", estimate.minimize)
    field_rows: list[Labelled] = [(word, _value(estimate, digits))]
    if exact is not None:
        field_rows.append(("exact", _verdict(estimate, exact, digits)))
    return tuple(field_rows)


def _value(estimate: Estimate, digits: int) -> Sentence:
    """The estimate, its usual error, and the interval that is promised."""
    value = Phrase(format_decimals(estimate.value, digits), "good")
    half_width = _half_width(estimate)
    usual_error = _usual_error(estimate)
    if half_width is None or estimate.interval is None:
        no_promise = Phrase("  no promise comes with this number")
        return Styled((value, *usual_error, no_promise))
    lower_bound, upper_bound = estimate.interval
    interval = bounds(lower_bound, upper_bound, digits)
    certificate = estimate.certificate
    if certificate is not None and certificate.confidence >= 1.0:
        if certificate.bound == UNSAMPLED_BOUND:
            paid = choose_word("reward", estimate.minimize)
            interval_note = f"  in {interval}, which is all that the {paid}s allow"
            return Styled(
                (value, Phrase(interval_note), Phrase("  not sampled", "dim"))
            )
        proven_note = Phrase("  proven, not sampled", "dim")
        return Styled((value, Phrase(f" ± {format_bound(half_width)}"), proven_note))
    # else one-sided: the ends say more than a half-width
    if estimate.epsilon is not None and half_width <= 1.01 * estimate.epsilon:
        value = Phrase(f"{value.text} ± {distance(half_width, digits)}", "good")
    confidence = 0.0 if estimate.delta is None else 1.0 - estimate.delta
    promise = Phrase(f"  in {interval} with probability {confidence:g}")
    return Styled((value, *usual_error, promise))


def _usual_error(estimate: Estimate) -> tuple[Phrase, ...]:
    """The usual standard error, if there is one above 0."""
    if not estimate.standard_error:
        return ()
    error = format_bound(estimate.standard_error)
    return (Phrase(f"  (usual error {error}, not promised)", "dim"),)


def _verdict(estimate: Estimate, exact: Estimate, digits: int) -> str:
    """The exact value and how far the estimate is from it."""
    error = abs(estimate.value - exact.value)
    error_text = format_decimals(error, digits)
    text = f"{format_decimals(exact.value, digits)}; the answer is off by {error_text}"
    if estimate.interval is None:
        return text
    lower_bound, upper_bound = estimate.interval
    side = "inside" if lower_bound <= exact.value <= upper_bound else "outside"
    return f"{text}, {side} the interval"


# --- actions ------------------------------------------------------------------


def action_block(
    estimate: Estimate,
    exact: Estimate | None,
    digits: int,
    visits: dict[int, int] | None = None,
) -> Actions:
    """The actions with their values; of very many, those that the policy prefers."""
    q_intervals = (
        estimate.certificate.q_intervals if estimate.certificate is not None else ()
    )
    listed_actions = likeliest(estimate, MOST_ACTIONS)
    choices = tuple(
        Choice(
            label=estimate.label(a),
            value=estimate.q_values[a],
            interval=q_intervals[a] if q_intervals else NOWHERE,
            exact=math.nan if exact is None else exact.q_values[a],
            policy=estimate.policy[a],
            best=a == estimate.action,
            visits=None if visits is None else visits.get(a),
        )
        for a in listed_actions
    )
    num_omitted = len(estimate.q_values) - len(listed_actions)
    return Actions(
        choices,
        digits=digits,
        bounded=bool(q_intervals) and estimate.method != "exact",
        compared=exact is not None,
        numbered=estimate.labels is None,
        word=choose_word("value", estimate.minimize),
        more=f"… {num_omitted:,} more actions, illegal or less likely"
        if num_omitted
        else "",
        heading="Actions",
    )


# --- cost and trust -----------------------------------------------------------


def cost_rows(
    estimate: Estimate, *, before: int = 0, store: str | None = None
) -> tuple[Labelled, ...]:
    """The cost of the answer and the way it was obtained.

    ``before`` calls were made by an earlier session of a resumed run and do not
    count for the speed. ``store`` is the file that keeps the run.
    """
    calls_spent = estimate.calls_spent or estimate.num_calls
    time_text = (
        f"{duration(estimate.seconds)} running, "
        f"{duration(estimate.compile_seconds)} compiling"
    )
    if before:
        time_text += f"; {max(0, calls_spent - before):,} calls in this session"
    if calls_spent > before and estimate.seconds > 0.0:
        time_text += f"; {rate((calls_spent - before) / estimate.seconds)}"
    run_words = [f"method {estimate.method}"]
    run_words += [f"executor {estimate.executor}"] if estimate.executor else []
    run_words += [f"seed {estimate.seed}"] if estimate.seed is not None else []
    field_rows: list[Labelled] = [
        ("calls", _calls(estimate, calls_spent)),
        ("time", time_text),
        ("run", ", ".join(run_words)),
    ]
    if store is not None:
        stored_text = f"nothing: method {estimate.method} has no parts to keep"
        if estimate.run is not None:
            stored_text = f"run {estimate.run} in {store}"
        field_rows.append(("stored", stored_text))
    notes = [note for note in estimate.notes if not note.startswith(EARLY)]
    return (*field_rows, *(("note", note) for note in notes))


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
    lower_bound, upper_bound = certificate.interval
    field_rows: list[Labelled] = [
        ("kind", certificate.kind),
        ("interval", f"[{lower_bound!r}, {upper_bound!r}]"),
        ("holds", f"with probability {certificate.confidence:g}"),
    ]
    if estimate is not None and estimate.minimize:
        # a policy's interval bounds what it costs, and V from above
        field_rows.insert(
            2, ("claims", f"V, the lowest cost, is at most {upper_bound:g}")
        )
    if certificate.policy_loss is not None:
        loss_text = f"{certificate.policy_loss:.3g}"
        loses = "loses"
        if estimate is not None and estimate.minimize:
            loses = "costs more than needed by"
        field_rows.append(
            ("policy", f"{loses} at most {loss_text} in one step, regularized")
        )
    if certificate.best_actions is not None:
        label = str if estimate is None else estimate.label
        action_names = [
            label(action) for action in certificate.best_actions[:MOST_ACTIONS]
        ]
        num_omitted = len(certificate.best_actions) - len(action_names)
        action_names += [f"{num_omitted:,} more"] if num_omitted else []
        action_list = ", ".join(action_names) or "none"
        field_rows.append(("best", f"actions not excluded as best: {action_list}"))
    return tuple(field_rows)


def trust_rows(certificate: Certificate) -> tuple[Labelled, ...]:
    """Grounds of the promise: the inequality behind it, and the assumptions."""
    bound_word, space, bound_details = certificate.bound.partition(" ")
    return (
        ("closed by", BOUND_NAMES.get(bound_word, bound_word) + space + bound_details),
        *(
            ("assuming" if i == 0 else "", assumption)
            for i, assumption in enumerate(certificate.assumptions)
        ),
    )
