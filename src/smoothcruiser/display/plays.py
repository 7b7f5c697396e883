"""The page of played episodes: returns, wins, and the cost of a decision."""

from __future__ import annotations

import math

from smoothcruiser.display.document import Fields, Labelled, Page, style_sentence
from smoothcruiser.playing.episodes import Summary


def summary_page(summary: Summary) -> Page:
    """The result of ``play``, in a few lines."""
    opponent_text = f" against {summary.opponent}" if summary.opponent else ""
    caption_text = (
        f"{summary.problem}: {summary.episodes} episodes, method "
        f"{summary.method}{opponent_text}"
    )
    field_rows: list[Labelled] = [
        ("return", _interval(summary.mean_return, summary.return_interval)),
        (
            "discounted return",
            _interval(
                summary.mean_discounted_return, summary.discounted_return_interval
            ),
        ),
    ]
    if summary.win_rate is not None and summary.win_rate_interval is not None:
        lower_rate, upper_rate = summary.win_rate_interval
        games_text = f"won {summary.wins}, drawn {summary.draws}, lost {summary.losses}"
        rate_text = (
            f"win rate {summary.win_rate:.1%}  95% [{lower_rate:.1%}, {upper_rate:.1%}]"
        )
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
        (), (Fields(tuple(field_rows), caption=style_sentence(caption_text, "strong")),)
    )


def _interval(mean: float, interval: tuple[float, float]) -> str:
    if math.isinf(interval[0]):  # too few episodes, or no spread among few
        return f"{mean:.4g}"
    return f"{mean:.4g}  95% [{interval[0]:.4g}, {interval[1]:.4g}]"
