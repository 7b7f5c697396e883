"""Pictures say the right numbers: read back from the artists."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from results import a_comparison, an_estimate
from worlds import mdp

import smoothcruiser as sc

matplotlib = pytest.importorskip("matplotlib")


def schedule_of(epsilon, method="smoothcruiser"):
    return sc.explain(mdp(), epsilon=epsilon, delta=0.1, method=method)


@pytest.fixture(autouse=True)
def closed_figures():
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def dots(ax) -> dict[str, Any]:
    """The artists that name their action."""
    return {x.get_gid(): x for x in ax.lines if x.get_gid()}


def lines(ax) -> dict[str, Any]:
    """The curves that are named in a legend."""
    return {x.get_label(): x for x in ax.lines if not x.get_label().startswith("_")}


# --- estimates ----------------------------------------------------------------


def test_an_estimate_has_its_values_and_intervals():
    ax = an_estimate().plot()
    found = dots(ax)
    assert set(found) == {"action 0", "action 1", "action 3"}  # 2 is illegal
    assert [found[f"action {a}"].get_xydata().tolist() for a in (0, 1, 3)] == [
        *([[0.5, 0.0]], [[2.5, 1.0]], [[2.0, 3.0]])
    ]
    spans = [x.get_xdata() for x in ax.lines if len(x.get_xdata()) == 2]
    wide = [tuple(map(float, span)) for span in spans if span[0] != span[1]]
    assert wide == [(0.0, 1.0), (2.0, 3.0), (1.5, 2.5)]
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["wait", "buy ◂ best", "sell (illegal)", "ask"]
    assert "shop, state (3, 'open')" in ax.get_title(loc="left")
    assert "1,234 calls, intervals hold with probability 0.9" in ax.get_title(
        loc="left"
    )


def test_the_best_action_is_marked_and_the_excluded_ones_are_grey():
    found = dots(an_estimate().plot())
    assert found["action 1"].get_marker() == "D"
    assert {found[f"action {a}"].get_marker() for a in (0, 3)} == {"o"}
    colours = [found[f"action {a}"].get_color() for a in (0, 1, 3)]
    assert len(set(colours)) == 3


def test_the_policy_is_on_an_axis_above():
    ax = an_estimate().plot()
    (above,) = [x for x in ax.figure.axes if x is not ax]
    assert [bar.get_width() for bar in above.patches] == [0.1, 0.6, 0.0, 0.3]
    assert above.get_xlim() == (0.0, 1.0)
    assert above.get_ylim() == ax.get_ylim()


def test_the_interval_of_the_value_is_behind():
    ax = an_estimate().plot()
    (band,) = ax.patches
    corners = band.get_extents().transformed(ax.transData.inverted())
    assert (corners.x0, corners.x1) == pytest.approx((2.2, 3.4))
    (value,) = [x for x in ax.lines if x.get_linestyle() == "--"]
    assert list(value.get_xdata()) == [2.8, 2.8]


def test_the_usual_error_of_the_value_is_a_thin_bar():
    def bars(ax) -> list[Any]:
        return [x.get_segments() for x in ax.collections]

    assert bars(an_estimate().plot()) == []
    for more in ({}, {"q_values": (), "policy": (), "action": None}):
        ax = an_estimate(standard_error=0.9, **more).plot()
        ((bar,),) = bars(ax)
        assert [x for x, _ in bar] == pytest.approx([2.8 - 0.9, 2.8 + 0.9])
        assert ax.get_xlim()[1] > 3.7  # inside the picture
        named = [text.get_text() for text in ax.get_legend().get_texts()]
        assert "usual error of V, not promised" in named
        assert "interval of V, the promise" in named


def test_ends_at_infinity_are_arrows_inside_the_picture():
    sure = an_estimate().certificate
    assert sure is not None
    boxes = ((-math.inf, 1.0), *sure.q_intervals[1:])
    odd = an_estimate(
        certificate=replace(sure, q_intervals=boxes), interval=(1.0, math.inf)
    )
    ax = odd.plot()
    arrows = [x for x in ax.lines if x.get_marker() == "<"]
    assert [float(x.get_xdata()[0]) for x in arrows] == [ax.get_xlim()[0]]
    assert all(map(math.isfinite, ax.get_xlim()))


def test_what_has_no_actions_or_promise_is_drawn_too():
    ax = an_estimate(q_values=(), policy=(), action=None).plot()
    assert dots(ax) == {}
    ax = an_estimate(certificate=None, interval=None).plot()
    assert "no promise" in ax.get_title(loc="left")
    assert not ax.patches
    ended = an_estimate(q_values=(math.nan,) * 4, policy=(0.0,) * 4, action=None)
    assert dots(ended.plot()) == {}


def test_of_very_many_actions_the_likeliest_are_drawn():
    count = 500
    policy = tuple(2.0 * a / count / (count - 1) for a in range(count))
    values = tuple(float(a % 7) for a in range(count))
    many = an_estimate(
        q_values=values, policy=policy, action=3, labels=None, certificate=None
    )
    ax = many.plot()
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["3 ◂ best", *map(str, range(count - 39, count))]
    assert ax.get_ylabel() == "action; 460 more are illegal or less likely"


def test_it_is_drawn_on_the_axes_that_are_given():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert an_estimate().plot(ax) is ax
    assert schedule_of(0.4).plot(ax=ax) is ax


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        sc.MissingExtra, match=r"pip install 'smoothcruiser\[report\]'"
    ):
        an_estimate().plot()


# --- schedules ----------------------------------------------------------------


def test_the_bars_of_a_schedule_are_the_shares_of_its_price():
    schedule = schedule_of(0.3)
    ax = schedule.plot()
    own = [
        visits * (2 * level.samples + (level.continuation >= 0))
        for level, visits in zip(schedule.levels, schedule.visits(), strict=True)
    ]
    calls = [2 * schedule.root.samples, *(x for x in reversed(own) if x)]
    assert sum(calls) == schedule.num_calls
    shares = [bar.get_width() for bar in ax.patches]
    assert shares == pytest.approx([100.0 * x / sum(calls) for x in calls])
    assert sum(shares) == pytest.approx(100.0)
    assert ax.get_yticklabels()[0].get_text().startswith("root ×")
    assert [t.get_text() for t in ax.texts][-1] == f"{calls[-1]:,}"


def test_many_levels_are_added_up(monkeypatch):
    schedule = schedule_of(0.1)
    all_bars = [bar.get_width() for bar in schedule.plot().patches]
    assert len(all_bars) > 4
    monkeypatch.setattr("smoothcruiser.plots.schedule_plot.MOST_ROWS", 4)
    ax = schedule.plot()
    *shown, others = [bar.get_width() for bar in ax.patches]
    dearest = sorted(all_bars[1:])[-2:]
    assert shown[0] == all_bars[0]  # the root
    assert sorted(shown[1:]) == pytest.approx(dearest)
    assert others == pytest.approx(100.0 - all_bars[0] - sum(dearest))
    label = ax.get_yticklabels()[-1].get_text()
    assert label == f"{len(all_bars) - 3} others"


@pytest.mark.parametrize("method", ["smoothcruiser", "paper"])
def test_prices_against_epsilon_are_those_of_other_schedules(method):
    schedule = schedule_of(0.4, method)
    ax = schedule.plot(against="epsilon")
    curve = lines(ax)[schedule.method].get_xydata()
    epsilons = [x for x, _ in curve]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == pytest.approx(0.1)
    for epsilon, log in (curve[0], curve[len(curve) // 2]):
        found = schedule_of(epsilon, method)
        assert log == pytest.approx(math.log10(found.num_calls))
    (mark,) = [x for x in ax.lines if x.get_marker() == "D"]
    assert mark.get_xydata().tolist() == [[0.4, math.log10(schedule.num_calls)]]


def test_what_cannot_be_drawn_says_why():
    schedule = schedule_of(0.4)
    with pytest.raises(sc.InvalidInput, match="against is 'level' or 'epsilon'"):
        schedule.plot(against="delta")  # type: ignore[arg-type]
    with pytest.raises(sc.InvalidInput, match="of is one of error"):
        a_comparison().plot(of="luck")


# --- comparisons --------------------------------------------------------------


def test_a_comparison_has_a_curve_of_means_per_planner():
    ax = a_comparison().plot()
    found = lines(ax)
    assert set(found) == {"certified", "uct"}  # the one that refused has no point
    assert found["certified"].get_xdata().tolist() == [100.0, 1000.0]
    assert found["certified"].get_ydata().tolist() == pytest.approx([0.15, 0.015])
    assert found["uct"].get_xydata()[0].tolist() == pytest.approx([100.0, 0.6])
    low, high = np.sort(ax.collections[0].get_paths()[0].vertices[:, 1])[[0, -1]]
    assert (low, high) == pytest.approx((0.01, 0.2))
    styles = {(x.get_color(), x.get_marker()) for x in found.values()}
    assert len(styles) == 2
    assert ax.get_yscale() == "log"


def test_a_comparison_without_a_truth_shows_values():
    known = a_comparison()
    ax = replace(known, truth=None).plot()
    assert ax.get_ylabel().startswith("value")
    assert lines(ax)["uct"].get_ydata()[0] == pytest.approx(1.6)
    ax = known.plot(of="value")
    assert list(lines(ax)["exact value"].get_ydata()) == [1.0, 1.0]


# --- solutions ----------------------------------------------------------------


def a_grid(**more) -> sc.Solution:
    values = np.arange(6.0)
    policy = np.zeros((6, 2))
    policy[np.arange(5), [0, 1, 0, 1, 0]] = 1.0
    return sc.Solution(values, policy, policy, 0.0, "by hand", 1, 0.0, **more)


def test_a_grid_has_each_value_at_its_place():
    for solution, shape in ((a_grid(grid=(2, 3)), None), (a_grid(), (2, 3))):
        ax = solution.plot(shape=shape)
        (picture,) = ax.images
        assert picture.get_array().tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        texts = {t.get_position(): t.get_text() for t in ax.texts}
        assert texts[(1, 0)] == "1\n1"
        assert texts[(2, 1)] == "5"  # terminal: no action


def test_states_that_are_pairs_are_a_grid():
    places = ((5, 1), (5, 2), (6, 1), (6, 2), (7, 1), (7, 3))
    ax = a_grid(states=places).plot()
    shown = ax.images[0].get_array()
    assert shown.shape == (3, 3)
    assert (shown[0, 0], shown[2, 2]) == (0.0, 5.0)
    assert shown.mask.sum() == 3
    scattered = a_grid(states=tuple((i, 1000 * i) for i in range(6))).plot()
    assert not scattered.images


def test_other_solutions_are_drawn_by_state():
    values = np.array([1.0, np.inf, -2.0, np.nan, 0.5, 0.0])
    ax = replace(a_grid(), values=values).plot()
    (curve,) = ax.lines
    assert curve.get_xydata().tolist() == [[0, 1.0], [2, -2.0], [4, 0.5], [5, 0.0]]
    assert [t.get_text() for t in ax.texts] == ["∞", "?"]


@pytest.mark.parametrize("shape", [(3, 3), (0, 2), "x", (1, 2, 3)])
def test_a_shape_that_does_not_fit_is_refused(shape):
    with pytest.raises(sc.InvalidInput, match=r"shape is \(rows, columns\)"):
        a_grid().plot(shape=shape)


@pytest.mark.compiles
def test_the_grids_of_the_zoo():
    world = sc.make("gridworld:n=4", discount=0.5, temperature=1.0)
    solution = sc.solve(world)
    shown = solution.plot().images[0].get_array()
    assert np.array_equal(shown, solution.values.reshape(4, 4))
    lake = sc.solve(sc.make("frozen-lake:horizon=16", discount=1, operator="max"))
    shown = lake.plot().images[0].get_array()
    assert np.array_equal(shown, lake.values[:64].reshape(8, 8))
    assert shown[7, 6] == pytest.approx(0.99)
    assert sc.solve(sc.make("chain:n=9", discount=0.5, temperature=1.0)).grid is None


def test_a_dollar_sign_in_a_name_is_no_formula():
    labels = ("$x^2_{$", "buy", "sell", "ask")
    an_estimate(labels=labels).plot().figure.canvas.draw()
    values = np.zeros((1, 1))
    by_name = sc.Solution(
        np.zeros(1), values, values, 0.0, "by hand", 0, 0.0, states=("$x_{$",)
    )
    by_name.plot().figure.canvas.draw()
