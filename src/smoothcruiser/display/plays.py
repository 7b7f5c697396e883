"""The page of played episodes: returns, wins, and what a decision costs."""

from __future__ import annotations

import math

from smoothcruiser.display.document import Fields, Labelled, Page, styled
from smoothcruiser.playing.episodes import Summary


def summary_page(summary: Summary) -> Page:
    """What ``play`` returns, in a few lines."""
    against = f" against {summary.opponent}" if summary.opponent else ""
    head = (
        f"{summary.problem}: {summary.episodes} episodes, method "
        f"{summary.method}{against}"
    )
    rows: list[Labelled] = [
        ("return", _interval(summary.mean_return, summary.return_interval)),
        (
            "discounted return",
            _interval(
                summary.mean_discounted_return, summary.discounted_return_interval
            ),
        ),
    ]
    if summary.win_rate is not None and summary.win_rate_interval is not None:
        low, high = summary.win_rate_interval
        counted = f"won {summary.wins}, drawn {summary.draws}, lost {summary.losses}"
        rate = f"win rate {summary.win_rate:.1%}  95% [{low:.1%}, {high:.1%}]"
        rows.append(("games", f"{counted}: {rate}"))
    rows += [
        (
            "steps per episode",
            f"{summary.mean_steps:.1f} ({summary.ended} of {summary.episodes} reached "
            "an end)",
        ),
        ("time per decision", f"{1e3 * summary.seconds_per_decision:.3g} ms"),
        ("calls per decision", f"{summary.calls_per_decision:,.0f}"),
    ]
    return Page((), (Fields(tuple(rows), caption=styled(head, "strong")),))


def _interval(mean: float, interval: tuple[float, float]) -> str:
    if math.isinf(interval[0]):  # too few episodes, or no spread among few
        return f"{mean:.4g}"
    return f"{mean:.4g}  95% [{interval[0]:.4g}, {interval[1]:.4g}]"
