"""The figures of the report as SVG and PNG.

This is the only module of ``reproduce`` that needs matplotlib (extra
``report``). Counts are plotted by their log10, since curves of the paper leave
the range of floats; tick labels are powers of ten. Colours are Okabe and Ito's,
which colour-blind readers can tell apart; every curve also has its own dash.
SVG text is outlined and ids are salted with the figure's name, so that several
figures can be inlined in one page. No date is written, so that the same data
give the same file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothcruiser.errors import MissingExtra
from smoothcruiser.reproduce.figures import (
    FIGURE_1_TEMPERATURE,
    GAMMA,
    PUBLISHED,
    Figure1Row,
    Figure2Row,
    K,
)
from smoothcruiser.reproduce.full_algorithm import RelaxationRow
from smoothcruiser.theory.paper_constants import PaperSetting, kappa

BLUE, ORANGE, GREEN, RED, PURPLE, GREY, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#666666",
    "#56B4E9",
)
# log10: sparse sampling goes on to 10^332 and would flatten all the rest
HIGHEST = 110.0

CURVES = (  # column, label, colour, dash
    ("sparse", "sparse sampling, as published", GREY, (0, (5, 2))),
    ("lemma_1", "Lemma 1, as published", ORANGE, "-"),
    ("simulated", "n_sampleV simulated, as published", BLUE, "-."),
    ("exact_sparse", "sparse sampling, exact count", GREY, ":"),
    ("exact", "n_sampleV, exact count", SKY, "-"),
    ("run", "the paper's run for δ = 0.1, exact count", PURPLE, (0, (3, 1, 1, 1))),
    ("sharp", "sharp schedule, a run for δ = 0.1", GREEN, "-"),
)
# of Figure 1 alone
PLAIN_CURVE = ("plain", "the same without randomized levels", GREEN, (0, (1, 1)))


def save(figure: Any, directory: Path, name: str) -> str:
    """The SVG element alone, to be inlined; NAME.svg and NAME.png are written."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        svg_buffer = io.StringIO()
        figure.savefig(
            svg_buffer, format="svg", metadata={"Date": None, "Creator": None}
        )
    figure.savefig(
        directory / f"{name}.png", format="png", dpi=110, metadata={"Software": None}
    )
    svg_text = svg_buffer.getvalue()
    (directory / f"{name}.svg").write_text(svg_text, encoding="utf-8")
    element = svg_text[svg_text.index("<svg") :]
    metadata_start, metadata_end = (
        element.find("<metadata>"),
        element.find("</metadata>"),
    )
    if metadata_start >= 0:  # names of licences and formats, of no use in a page
        element = (
            element[:metadata_start] + element[metadata_end + len("</metadata>") :]
        )
    # Glyphs and clips are addressed by id: one page holds several figures.
    for id_mark in (' id="', 'xlink:href="#', "url(#"):
        element = element.replace(id_mark, f"{id_mark}{name}-")
    return element


def _figure(
    width: float, height: float, rows: int = 1, columns: int = 1
) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra(
            "Figures need matplotlib; install it with: "
            "pip install 'smoothcruiser[report]'."
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def figure_1(rows: Sequence[Figure1Row]) -> Any:
    """Calls against 1/epsilon."""
    figure, axes = _figure(9.0, 5.6)
    axis = axes[0][0]
    x = [1.0 / r.epsilon for r in rows]
    for column, label, colour, dash in (*CURVES, PLAIN_CURVE):
        _curve(axis, x, [getattr(r, column) for r in rows], label, colour, dash)
    sharp_rows = [r for r in rows if not math.isnan(r.sharp)]
    if sharp_rows:  # published rates, from where the sharp curve begins
        first_row = max(sharp_rows, key=lambda r: r.epsilon)
        for _, rate in PUBLISHED:
            y = [
                first_row.sharp
                + rate * math.log10(first_row.epsilon * inverse_epsilon)
                for inverse_epsilon in x
            ]
            _curve(axis, x, y, f"growth as (1/ε)^{rate:g}", RED, (0, (rate, 2)))
    threshold = kappa(PaperSetting.entropy(GAMMA, FIGURE_1_TEMPERATURE, K))
    axis.axvline(
        1.0 / threshold, color=RED, linestyle=":", linewidth=1.2, label="ε = κ"
    )
    axis.set_ylim(0.0, HIGHEST)
    _finish(
        axis,
        "inverse accuracy 1/ε",
        "oracle calls",
        f"γ = {GAMMA}, K = {K}, λ = {FIGURE_1_TEMPERATURE}, δ′ = 0.1",
    )
    figure.legend(fontsize=8, loc="outside lower center", ncols=3)
    return figure


def figure_2(rows: Sequence[Figure2Row]) -> Any:
    """Calls against lambda at 1% relative error, and their ratio to sparse sampling."""
    figure, axes = _figure(11.0, 5.4, 1, 2)
    left_axis, right_axis = axes[0]
    x = [r.temperature for r in rows]
    for column, label, colour, dash in CURVES:
        _curve(left_axis, x, [getattr(r, column) for r in rows], label, colour, dash)
    _curve(
        left_axis,
        x,
        [r.sharp_span for r in rows],
        "sharp schedule at 1% of the span 1/(1−γ)",
        RED,
        (0, (1, 1)),
    )
    _finish(
        left_axis,
        "regularization λ",
        "oracle calls",
        "calls for 1% relative error (ε = 1% of V_max)",
    )
    left_axis.set_ylim(0.0, 42.0)
    figure.legend(
        *left_axis.get_legend_handles_labels(),
        fontsize=8,
        loc="outside lower center",
        ncols=3,
    )
    for column, base_column, label, colour, dash in (
        ("lemma_1", "sparse", "Lemma 1, as published", ORANGE, "-"),
        ("simulated", "sparse", "simulated, as published", BLUE, "-."),
        ("exact", "exact_sparse", "exact counts", SKY, "-"),
    ):
        _curve(
            right_axis,
            x,
            [getattr(r, column) - getattr(r, base_column) for r in rows],
            label,
            colour,
            dash,
        )
    _finish(
        right_axis,
        "regularization λ",
        "ratio to sparse sampling",
        "ratio of n_sampleV to sparse sampling",
    )
    right_axis.legend(fontsize=8, loc="lower left")
    return figure


def relaxation(rows: Sequence[RelaxationRow]) -> Any:
    """Distance and policy loss against lambda, and prices, one column per problem."""
    problem_names = list(dict.fromkeys(r.problem for r in rows))
    figure, axes = _figure(5.2 * len(problem_names), 7.0, 2, len(problem_names))
    for column, name in enumerate(problem_names):
        problem_rows = [r for r in rows if r.problem == name]
        x = [r.temperature for r in problem_rows]
        value_axis, price_axis = axes[0][column], axes[1][column]
        for axis, field, label, colour, dash in (
            (value_axis, "bound", "bound λ log K/(1−γ)", GREY, (0, (5, 2))),
            (value_axis, "distance", "V_λ − V_0", BLUE, "-"),
            (
                value_axis,
                "policy_loss",
                "loss of the softmax policy in V_0",
                ORANGE,
                "-.",
            ),
            (price_axis, "price", "calls for V_λ within ε", GREEN, "-"),
            (
                price_axis,
                "price_unregularized",
                "calls for V_0 within ε, through λ",
                PURPLE,
                "--",
            ),
        ):
            y = [_log10(getattr(r, field)) for r in problem_rows]
            _curve(axis, x, y, label, colour, dash)
        _curve(value_axis, x, [_log10(r.epsilon) for r in problem_rows], "ε", RED, ":")
        value_axis.set_ylim(-6.0, 2.0)
        _finish(value_axis, "temperature λ", "value", name)
        _finish(
            price_axis,
            "temperature λ",
            "oracle calls",
            f"prices, ε = {problem_rows[0].epsilon:.3g}, δ = 0.1",
        )
        value_axis.legend(fontsize=8)
        price_axis.legend(fontsize=8)
    return figure


def _log10(value: float) -> float:
    return math.log10(value) if value > 0.0 else math.nan


def _curve(
    axis: Any,
    x: Sequence[float],
    y: Sequence[float],
    label: str,
    colour: str,
    dash: Any,
) -> None:
    """A curve through the points that exist."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(b)]
    if points:
        axis.plot(
            *zip(*points, strict=True),
            color=colour,
            linestyle=dash,
            linewidth=1.6,
            label=label,
        )


def _finish(axis: Any, across: str, up: str, title: str) -> None:
    axis.set_xscale("log")
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.set_title(title, fontsize=10)
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.yaxis.set_major_formatter(lambda exponent, _: f"$10^{{{exponent:.0f}}}$")
    axis.grid(alpha=0.25)
