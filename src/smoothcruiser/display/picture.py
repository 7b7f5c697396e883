"""Action values on one axis, as inline SVG.

  thin line    the interval of the certificate
  dot          the estimate
  hollow dot   the exact value, where the caller wants it
  box          the policy, as a share of a full box

Lines and letters have the colour of the text around them, and the marks colours that
can be read on white and on black, so that one picture serves light and dark pages.
"""

from __future__ import annotations

import math
from html import escape

from smoothcruiser.display.document import Actions, Choice
from smoothcruiser.errors import printable

# in pixels: the height of a row, the axis above the rows, the width of the axis
ROW, TOP, AXIS = 26, 26, 420
GAP, FULL = 20, 120  # between axis and policies; the box of a policy of 1
LETTER = 6.4  # a letter of a name, of the size 12
LONGEST = 24  # letters of a name
MARGIN = 0.06  # of the axis, free on either side, so that no dot sits on its end
BEST, OTHER, EXACT = "#1f9d6b", "#5b8fd0", "#d9772b"


def actions_svg(block: Actions) -> str:
    """The picture of the legal actions; empty where no value is known, or none fits."""
    legal_choices = [choice for choice in block.choices if math.isfinite(choice.value)]
    if not legal_choices:
        return ""
    axis_start, axis_end = _ends(legal_choices)
    if not math.isfinite(axis_end - axis_start):
        return ""  # no axis has that length
    action_names = [_short(choice.label) for choice in legal_choices]
    axis_left = round(max(60.0, 24.0 + LETTER * max(map(len, action_names))))
    width, height = axis_left + AXIS + GAP + FULL, TOP + ROW * len(legal_choices) + 8

    def x(value: float) -> str:
        return (
            f"{axis_left + AXIS * (value - axis_start) / (axis_end - axis_start):.1f}"
        )

    svg_parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="action values with intervals and policy">',
        '<g font-size="11" fill="currentColor" fill-opacity="0.65" '
        'text-anchor="middle">',
    ]
    for tick, label in _ticks(axis_start, axis_end):
        svg_parts.append(
            f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{TOP}" y2="{height - 6}" '
            'stroke="currentColor" stroke-opacity="0.15"/>'
            f'<text x="{x(tick)}" y="16">{label}</text>'
        )
    policy_left = axis_left + AXIS + GAP
    svg_parts.append(f'<text x="{policy_left + FULL / 2:.0f}" y="16">policy</text></g>')
    for i, (choice, name) in enumerate(zip(legal_choices, action_names, strict=True)):
        y = TOP + ROW * (i + 0.5)
        colour = BEST if choice.best else OTHER
        weight = ' font-weight="bold"' if choice.best else ""
        svg_parts.append(
            f'<text x="{axis_left - 12}" y="{y + 4:g}" font-size="12" '
            f'text-anchor="end" fill="currentColor"{weight}>{escape(name)}</text>'
        )
        if all(map(math.isfinite, choice.interval)):
            interval_left, interval_right = (
                x(interval_end) for interval_end in choice.interval
            )
            svg_parts.append(
                f'<line x1="{interval_left}" x2="{interval_right}" '
                f'y1="{y:g}" y2="{y:g}" stroke="{colour}" stroke-width="5" '
                'stroke-opacity="0.45"/>'
            )
        svg_parts.append(
            f'<circle cx="{x(choice.value)}" cy="{y:g}" r="4" fill="{colour}"/>'
        )
        if math.isfinite(choice.exact):
            svg_parts.append(
                f'<circle cx="{x(choice.exact)}" cy="{y:g}" r="5.5" fill="none" '
                f'stroke="{EXACT}" stroke-width="1.5"/>'
            )
        share = min(1.0, max(0.0, choice.policy))
        policy_box = f'<rect x="{policy_left}" y="{y - 7:g}" height="14"'
        svg_parts.append(
            f'{policy_box} width="{FULL}" fill="currentColor" fill-opacity="0.08"/>'
            f'{policy_box} width="{share * FULL:.1f}" fill="{colour}"/>'
        )
    return "\n".join([*svg_parts, "</svg>"])


def _short(label: str) -> str:
    text = printable(label, keep="")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _ends(choices: list[Choice]) -> tuple[float, float]:
    """The two ends of the axis."""
    all_numbers = [x for c in choices for x in (c.value, *c.interval, c.exact)]
    finite_numbers = [x for x in all_numbers if math.isfinite(x)]
    lowest_number, highest_number = min(finite_numbers), max(finite_numbers)
    # one value alone: an axis around it that its floating-point number can tell apart
    free_margin = MARGIN * (highest_number - lowest_number) or 0.5 * max(
        1.0, abs(highest_number)
    )
    return lowest_number - free_margin, highest_number + free_margin


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Three to eight round numbers of the axis with their labels.

    They are multiples of 1, 2 or 5 times a power of ten.
    """
    rough_step = (high - low) / 7.5  # a step is at most 2.5 times that
    power_of_ten = 10.0 ** math.floor(math.log10(rough_step))
    step = next(
        x * power_of_ten
        for x in (1.0, 2.0, 5.0, 10.0)
        if x * power_of_ten >= rough_step
    )
    # 1e-9: the logarithm of 0.1 or 0.01 may fall just below a whole number
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [
        (n * step, f"{n * step:.{decimals}f}")
        for n in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]
