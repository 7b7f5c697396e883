"""The page of a Gap: its sentence, the intervals, the actions, the cost, the grounds."""

from __future__ import annotations

import math

from smoothcruiser.display.answer_pages import MOST_ACTIONS, state_text
from smoothcruiser.display.document import (
    Actions,
    Block,
    Choice,
    Fields,
    Labelled,
    Page,
    Paragraph,
    Phrase,
    Styled,
    style_sentence,
)
from smoothcruiser.duality.gap_result import Gap, GapCertificate
from smoothcruiser.estimate import NOWHERE, Interval
from smoothcruiser.schedule.number_text import (
    bounds,
    count_noun,
    duration,
    format_bound,
    format_decimals,
    percent,
    rate,
)

# by the source of the upper end
UPPER_NAMES = {
    "exact": "the exact solution of the known model",
    "certified": "certified search",
    "paths": "paths (information relaxation)",
}


def gap_page(gap: Gap) -> Page:
    """The distance of a policy from optimal; the sentence comes first."""
    title = ["Gap", *([gap.problem] if gap.problem else [])]
    title += [] if gap.state is None else [f"state {state_text(gap.state)}"]
    return Page(tuple(title), (sentence_block(gap), *gap_blocks(gap)))


def sentence_block(gap: Gap) -> Paragraph:
    """The answer in one sentence."""
    sentence = gap.sentence
    return Paragraph(style_sentence(sentence[:1].upper() + sentence[1:] + ".", "good"))


def gap_blocks(gap: Gap) -> tuple[Block, ...]:
    """The numbers of a gap, its cost and its certificate."""
    digits = decimals_of(gap)
    blocks: list[Block] = [Fields(_value_rows(gap, digits))]
    if gap.q_values:
        blocks.append(_action_block(gap, digits))
    blocks.append(Fields(_cost_rows(gap), heading="Run"))
    rows = certificate_rows(gap.certificate)
    return (*blocks, Fields(rows, heading="Certificate", detail=True))


def certificate_page(certificate: GapCertificate) -> Page:
    """The promise, the numbers behind it, and its assumptions."""
    return Page(("Certificate",), (Fields(certificate_rows(certificate)),))


def decimals_of(gap: Gap) -> int:
    """Decimals worth printing: two digits of the half-width, from 2 to 6."""
    if not 0.0 < gap.epsilon < math.inf:
        return 6 if gap.epsilon == 0.0 else 3
    return min(6, max(2, 1 - math.floor(math.log10(gap.epsilon))))


def _value_rows(gap: Gap, digits: int) -> tuple[Labelled, ...]:
    confidence = gap.certificate.confidence
    holds = "for sure" if confidence >= 1.0 else f"with probability {confidence:g}"
    rows: list[Labelled] = [
        ("optimal", _number_text(gap.value, gap.interval, gap.standard_error, digits))
    ]
    if not math.isnan(gap.policy_value):
        rows.append(
            (
                "policy",
                _number_text(gap.policy_value, gap.policy_interval, None, digits),
            )
        )
    regret_name = "NashConv" if gap.nash_conv is not None else "regret"
    distance = gap.regret if gap.nash_conv is None else gap.nash_conv
    rows.append((regret_name, f"at most {format_bound(distance, 3)}"))
    rows.append(("holds", f"all of it together, {holds}"))
    return tuple(rows)


def _number_text(
    value: float, interval: Interval, error: float | None, digits: int
) -> Styled:
    parts = [
        Phrase(format_decimals(value, digits), "good"),
        Phrase(f"  in {bounds(*interval, digits)}"),
    ]
    if error:
        error_text = f"  (usual error {format_bound(error)}, not promised)"
        parts.insert(1, Phrase(error_text, "dim"))
    return Styled(tuple(parts))


def _action_block(gap: Gap, digits: int) -> Actions:
    """The legal actions with their intervals; of very many, the first."""
    legal_actions = [a for a, q in enumerate(gap.q_values) if not math.isnan(q)]
    shown = legal_actions[:MOST_ACTIONS]
    best = max(
        legal_actions,
        key=lambda a: (a in gap.best_actions, gap.policy[a : a + 1]),
        default=None,
    )
    choices = tuple(
        Choice(
            label=gap.label(a),
            value=gap.q_values[a],
            interval=gap.q_intervals[a] if gap.q_intervals else NOWHERE,
            exact=math.nan,
            policy=gap.policy[a] if gap.policy else 0.0,
            best=a == best and len(gap.best_actions) == 1,
        )
        for a in shown
    )
    num_omitted = len(gap.q_values) - len(shown)
    return Actions(
        choices,
        digits=digits,
        bounded=bool(gap.q_intervals),
        compared=False,
        numbered=gap.labels is None,
        more=f"… {count_noun(num_omitted, 'more action')}" if num_omitted else "",
        heading="Actions",
    )


def _cost_rows(gap: Gap) -> tuple[Labelled, ...]:
    roles = ", ".join(
        f"{count:,} {role}" for role, count in gap.calls.items() if count
    )
    calls_text = f"{gap.num_calls:,} oracle calls, counted"
    calls_text += f" ({roles})" if roles else ""
    time_text = (
        f"{duration(gap.seconds)} running, {duration(gap.compile_seconds)} compiling"
    )
    if gap.num_calls and gap.seconds > 0.0:
        time_text += f"; {rate(gap.num_calls / gap.seconds)}"
    run_words = [f"upper end by {UPPER_NAMES.get(gap.upper, gap.upper)}"]
    run_words += [f"executor {gap.executor}"] if gap.executor else []
    run_words += [f"seed {gap.seed}"] if gap.seed is not None else []
    rows: list[Labelled] = [
        ("calls", calls_text),
        ("time", time_text),
        ("run", ", ".join(run_words)),
    ]
    certificate = gap.certificate
    if certificate.num_paths:
        cut_share = certificate.cut_paths / certificate.num_paths
        cut_text = f", {percent(cut_share)} of them cut" if cut_share else ""
        rows.append(
            (
                "paths",
                f"{certificate.num_paths:,}{cut_text}; "
                f"{certificate.nodes_per_path:,.0f} states each, "
                f"{certificate.num_inner or 0} inner samples "
                f"({certificate.coupling}), {certificate.path_length}",
            )
        )
    return (*rows, *(("note", note) for note in gap.notes))


def certificate_rows(certificate: GapCertificate) -> tuple[Labelled, ...]:
    """The promise in full, the ranges behind it and the assumptions."""
    low, high = certificate.interval
    policy_low, policy_high = certificate.policy_interval
    rows: list[Labelled] = [
        ("kind", certificate.kind),
        ("interval", f"[{low!r}, {high!r}]"),
        ("policy", f"[{policy_low!r}, {policy_high!r}]"),
        ("regret", f"at most {certificate.regret!r}"),
        ("holds", f"with probability {certificate.confidence:g}"),
        ("upper end", f"{certificate.upper}: {certificate.reason}"),
        ("closed by", certificate.bound),
    ]
    if certificate.shares:
        shares = ", ".join(
            f"{name} {share:g}" for name, share in certificate.shares.items()
        )
        rows.append(("shares", f"of delta: {shares}"))
    ranges = (
        ("upper at most", certificate.range_upper),
        ("lower at least", certificate.range_lower),
        ("difference at most", certificate.range_gap),
        ("cut above", certificate.upper_cut),
        ("cut below", certificate.lower_cut),
    )
    range_text = ", ".join(
        f"{name} {number:.6g}" for name, number in ranges if number is not None
    )
    if range_text:
        rows.append(("a path", range_text))
    if certificate.clip is not None:
        rows.append(("value=", f"clipped to {bounds(*certificate.clip, 4)}"))
    if certificate.refits:
        rows.append(("refits", f"before paths {_refit_text(certificate)}"))
    rows += [
        ("assuming" if i == 0 else "", assumption)
        for i, assumption in enumerate(certificate.assumptions)
    ]
    return tuple(rows)


def _refit_text(certificate: GapCertificate) -> str:
    return ", ".join(f"{refit.path:,}" for refit in certificate.refits)
