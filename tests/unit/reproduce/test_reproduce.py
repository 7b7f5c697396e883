"""The paper's figures and tables, and the study of relaxation."""

import contextlib
import csv
import math
import re
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import smoothcruiser as sc
from smoothcruiser.cli.reproduce import QUICK, reproduce, reproduce_into
from smoothcruiser.reproduce import figures
from smoothcruiser.reproduce import full_algorithm as full
from smoothcruiser.reproduce.full_algorithm import (
    moving_temperature,
    printed_scheme,
    studies,
)
from smoothcruiser.reproduce.report import Results, write_csv
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.theory import paper_constants as paper
from smoothcruiser.theory.paper_constants import PaperSetting

pytestmark = pytest.mark.compiles

# --- figures: an independent second opinion in plain floats -------------------

GAMMA, K, DP = 0.2, 2, 0.1


def plain(temperature):
    """The published formulas as the appendix and its code have them, in plain
    floats: (sparse, simulated, lemma) of e.
    """
    L, M = 1.0 / temperature, temperature * math.log(K)
    root, ell = math.sqrt(GAMMA), math.log(2 * K / DP)
    kappa = (1 - root) / (K * L)
    alpha = 18 * (1 + M) ** 2 * K / ((1 - GAMMA) ** 4 * (1 - root) ** 2) * ell
    beta = 18 * (1 + M) ** 2 * K**2 * L / ((1 - GAMMA) ** 4 * (1 - root) ** 3) * ell

    def sparse(e):
        h = 2 * math.log(e * (1 - GAMMA) / (1 + M)) / math.log(GAMMA) + 1
        return GAMMA ** (h * (h - 1) / 2) * (2 * alpha / e**2) ** h

    def simulated(e):
        if e >= kappa:
            return sparse(e)
        query = simulated(math.sqrt(kappa * e / GAMMA))
        return 1 + simulated(e / root) + beta / e * query

    def lemma(e):
        if e >= kappa:
            return sparse(e)
        power = math.log2(GAMMA / (1 - GAMMA) * 2 * beta / kappa)
        steps = math.log(kappa / GAMMA / e) / math.log(1 / GAMMA)
        return kappa**2 * sparse(kappa) * steps**power / e**2

    return sparse, simulated, lemma


def same(log10, value):
    """Equal to 1e-9 relative, where the plain float is one."""
    return 10.0**log10 == pytest.approx(value, rel=1e-9)


def test_figure_1_equals_the_published_formulas():
    """Exact counts lie below the published curves; below kappa a run for delta costs
    more than one draw; sparse above smooth; the sharp schedule is cheaper by orders.
    """
    sparse, simulated, lemma = plain(0.1)
    # the sharp schedule at the largest accuracy alone
    rows = figures.figure_1(points=100, sharp_every=99)
    assert [rows[0].epsilon, rows[-1].epsilon] == pytest.approx([1e-9, 1e-1])
    compared = 0
    for row in rows:
        assert same(row.simulated, simulated(row.epsilon))
        assert same(row.lemma_1, lemma(row.epsilon))
        assert row.exact < row.simulated < row.lemma_1 + 1e-9
        assert row.exact <= row.exact_sparse + 1e-9
        assert row.run > row.exact
        with contextlib.suppress(OverflowError):  # (2 alpha/e^2)^H leaves the floats
            assert same(row.sparse, sparse(row.epsilon))
            compared += 1
    assert compared > 60
    assert rows[-1].sharp < rows[-1].run - 10.0


def test_figure_2_equals_the_published_formulas():
    for row in figures.figure_2(points=100, sharp_every=1000):
        sparse, simulated, lemma = plain(row.temperature)
        span = (1.0 + row.temperature * math.log(2.0)) / 0.8
        assert row.epsilon == pytest.approx(0.01 * span)
        assert same(row.simulated, simulated(row.epsilon))
        assert same(row.lemma_1, lemma(row.epsilon))
        assert same(row.sparse, sparse(row.epsilon))


def test_the_simulated_curve_far_beyond_floats():
    """The memo and the logarithms: an accuracy of 1e-150 is finite, and the
    recurrence holds there.
    """
    setting, e = PaperSetting.entropy(0.2, 0.1, 2), 1e-150
    onward = figures.simulated_log10(setting, e / math.sqrt(0.2), DP)
    below = math.sqrt(paper.kappa(setting) * e / 0.2)
    query = math.log10(paper.beta(setting, DP) / e)
    query += figures.simulated_log10(setting, below, DP)
    expected = pytest.approx(figures.log10_sum((0.0, onward, query)), rel=1e-12)
    assert figures.simulated_log10(setting, e, DP) == expected


# --- Table 1 ------------------------------------------------------------------

# the theory note, section 2, item 7: V(s0), mean and standard deviation of the
# error
RERUN = {
    "5-Chain": (8.664929, -0.0121, 0.0165),
    "10-Chain": (8.664340, -0.0120, 0.0163),
    "5x5-GridWorld": (17.328680, -0.0071, 0.0204),
    "10x10-GridWorld": (17.328680, -0.0071, 0.0203),
}


def test_table_1_reproduces():
    """Means within 4 standard errors of the rerun, standard deviations within
    3%, with the paper's number of runs.
    """
    rows = figures.table_1()
    assert [r.environment for r in rows] == list(RERUN)
    for row, environment in zip(rows, figures.ENVIRONMENTS, strict=True):
        value, mean, std = RERUN[row.environment]
        exact = float(sc.solve(environment.problem()).values[0])
        assert exact == pytest.approx(value, abs=5e-7)
        assert row.runs == 32_723
        assert abs(row.mean - mean) <= 4.0 * row.std / math.sqrt(row.runs)
        assert row.std == pytest.approx(std, rel=0.03)


def test_without_noise_the_check_is_exact_in_the_mean():
    """Q-hat = Q makes sampleV_check unbiased: zeta = 0 is an accuracy so small
    that it never counts.
    """
    name = "garnet:states=6,actions=4,seed=1"
    problem = sc.make(name, discount=0.5, temperature=10.0)
    errors = figures.check_errors(problem, 1e-12, 4000, np.random.default_rng(1))
    assert errors.std() > 0.1
    assert abs(errors.mean()) <= 4.0 * errors.std() / math.sqrt(4000)


# --- the full algorithm -------------------------------------------------------


def test_repeats_are_plans():
    """The loop that reuses one engine returns the bits of ``plan``."""
    problem = figures.ENVIRONMENTS[0].problem()
    schedule = compile_schedule(problem.facts, epsilon=0.125, delta=0.1)
    found = full.repeat(problem, schedule, 0, 3)
    for seed in range(3):
        promise = {"epsilon": 0.125, "delta": 0.1, "method": "smoothcruiser"}
        estimate = sc.plan(problem, 0, seed=seed, **promise)
        assert estimate.value == found.values[seed]
        assert estimate.q_values == tuple(found.q_values[seed])
        assert estimate.num_calls == found.calls[seed]


def test_the_reward_sensitive_cases_are_sensitive():
    for case in full.cases():
        if case.group == "reward-sensitive":
            exact = float(sc.solve(case.problem).values[case.state])
            unpaid = full._without_rewards(case.problem, case.state)
            assert exact - unpaid > 0.8 * exact


def test_a_full_row_keeps_its_promise():
    """200 runs of the paper's 5-chain at 20%: with delta = 0.1 more than 40
    failures have probability below 1e-5 (binomial).
    """
    case = next(iter(full.quick_cases()))
    row = full.run_case(case, 200)
    assert row.q_failures <= 40
    assert row.failures <= row.q_failures
    assert 0 < row.mean_calls <= row.price
    assert row.paper_log10_calls > 15.0


# --- files and report ---------------------------------------------------------


@pytest.mark.slow
def test_reproduce_all_quickly(tmp_path):
    """Every file is there, the page is whole and asks nothing of the network,
    both reports carry every section.
    """
    paths = {p.name for p in reproduce_into(tmp_path, "all", QUICK)}
    data = ["figure1", "figure2", "table1", "full", "relaxation", "scheme"]
    data = {f"{name}.csv" for name in (*data, "scheme_printed")}
    assert paths == data | {"report.html", "report.md"}
    for name in ("figure1", "figure2", "relaxation"):
        assert (tmp_path / f"{name}.svg").read_text().count("<svg") == 1
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    page, text = ((tmp_path / f"report.{x}").read_text() for x in ("html", "md"))
    assert page.count("<svg") == 3
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    # names of formats, never fetched
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<script|<link|<img|<iframe|@import|\bsrc=", page)
    assert all(
        target.startswith("#")
        for target in re.findall(r"(?:href=\"|url\()([^\")]+)", page)
    )
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for title in ("Figure 1", "Figure 2", "stubbed Q", "full algorithm", "relaxation"):
        assert title in page
        assert title in text


def test_the_command_runs_one_part(tmp_path):
    folder = tmp_path / "new"
    outcome = CliRunner().invoke(
        reproduce, ["table1", "--quick", "--out", str(folder)]
    )
    assert outcome.exit_code == 0, outcome.output
    names = {path.name for path in folder.iterdir()}
    assert names == {"table1.csv", "report.html", "report.md"}
    head = next(csv.reader((folder / "table1.csv").open()))
    assert head == ["environment", "mean", "std", "runs", "paper_mean", "paper_std"]
    write_csv(folder / "gap.csv", [figures.CheckRow("x", math.nan, 0.5, 3, 1.0, 2.0)])
    rows = list(csv.reader((folder / "gap.csv").open()))
    assert rows[1] == ["x", "", "0.5", "3", "1.0", "2.0"]


@pytest.mark.parametrize("module", ["jinja2", "matplotlib.figure"])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, module):
    from smoothcruiser.reproduce.report import write_report

    monkeypatch.setitem(sys.modules, module, None)
    row = figures.Figure1Row(0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, math.nan, math.nan)
    with pytest.raises(
        sc.MissingExtra, match=r"pip install 'smoothcruiser\[report\]'"
    ):
        write_report(Results(figure_1=(row,)), tmp_path)


def test_slopes_of_known_powers():
    rows = [
        figures.Figure1Row(
            e, *(-p * math.log10(e) for p in (2, 3, 4, 5, 6, 7)), math.nan, math.nan
        )
        for e in np.logspace(-9, -1, 41)
    ]
    found = {(s.curve, s.low): s.slope for s in figures.slopes(rows)}
    assert found["simulated", 1e-9] == pytest.approx(2.0)
    assert found["run", 1e-4] == pytest.approx(7.0)
    assert not any(curve == "sharp" for curve, _ in found)


def test_the_game_takes_turns():
    """By hand on the 5-chain before the reward, without regularization: max
    steps into the last state for 100 at once.
    """
    problem = full.variant(figures.ENVIRONMENTS[0], sc.Max(), scale=100.0, game=True)
    values = np.asarray(sc.solve(problem).values)
    assert problem.mover(3) == 1
    assert problem.mover(8) == 2
    assert values[3] == pytest.approx(100.0)
    # min steps left from 3, and max moves in 2
    assert values[8] == pytest.approx(0.2 * values[2])


# --- the study of relaxation --------------------------------------------------


def test_the_study_stays_below_the_bounds():
    """0 <= V_lambda - V_0 <= bound and 0 <= policy loss <= bound on both
    problems, at every temperature drawn.
    """
    rows = moving_temperature(points=2)
    assert len(rows) == 2 * len(studies())
    for row in rows:
        assert -1e-9 <= row.distance <= row.bound + 1e-9
        assert -1e-9 <= row.policy_loss <= row.bound + 1e-9


def test_with_printed_constants_sparse_sampling_is_cheapest():
    rows = printed_scheme((1e-1, 1e-3))
    assert all(
        row.best_share == 0.0 and row.best_log10 == row.plain_log10 for row in rows
    )
