"""The data of the paper's two figures, with exact counts and sharp prices beside them.

  Figure 1   n_sampleV(e) against 1/e: gamma = 0.2, delta' = 0.1, K = 2,
             lambda = 0.1, 100 accuracies from 1e-9 to 1e-1
  Figure 2   the same against 100 temperatures lambda from 1e-4 to 1e4, at
             e = 1% of V_max = (1 + lambda log K)/(1-gamma)

legend   column              meaning
  simulated, lemma_1, sparse log10 of the curves of the published code
                             (``published``)
  exact, exact_sparse        log10 n_sampleV, counted
                             (``theory.paper.sample_v_calls``), the same with
                             kappa = 0
  run                        log10 K N(e) n(e/sqrt(gamma)) with the delta' that
                             keeps delta = 0.1 for the whole run
  sharp                      log10 of the mean calls of the sharp schedule for a whole
                             run: |V-hat - V| <= e with probability 0.9
  plain                      the same without randomized levels (docs/randomized.md)

A curve of the paper is the cost of ONE sample if every Q-hat may fail with
probability 0.1. There are 10^9 of them and more, so it promises nothing yet;
``run`` is the price of a promise. Numbers are log10 because the curves leave
the range of floats. Blank is "no schedule within the compiler's reach". This
file leaves out drawing (``plots``) and prose (``report``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.facts import Facts
from smoothcruiser.reproduce import published
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, compile_schedule
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.theory import paper
from smoothcruiser.theory.paper import PaperSetting

GAMMA, K, DELTA_PRIME, DELTA = 0.2, 2, 0.1, 0.1
FIGURE_1_TEMPERATURE = 0.1
RELATIVE_ERROR = 0.01
LOG10 = math.log(10.0)
PLAIN = frozenset(kind for kind in ALL_KINDS if not estimator_of(kind).randomized)
# exponents of 1/e that were published for discounted regularized planning
PUBLISHED = (
    ("SmoothCruiser, 2019", 4.0),
    ("second-order SmoothCruiser (Dam, 2026), another regularizer", 3.0),
)

Tick = Callable[[], object]


@dataclass(frozen=True)
class Figure1Row:
    """One accuracy of Figure 1; all counts in log10, NaN where there is none."""

    epsilon: float
    simulated: float
    lemma_1: float
    sparse: float
    exact: float
    exact_sparse: float
    run: float
    sharp: float
    plain: float


@dataclass(frozen=True)
class Figure2Row:
    """One temperature of Figure 2; all counts in log10, NaN where there is none."""

    temperature: float
    epsilon: float
    simulated: float
    lemma_1: float
    sparse: float
    exact: float
    exact_sparse: float
    run: float
    sharp: float
    # sharp at 1% of the value's own span 1/(1-gamma), which lambda does not change
    sharp_span: float


def figure_1(
    points: int = 100, sharp_every: int = 3, tick: Tick = lambda: None
) -> list[Figure1Row]:
    """The rows of Figure 1.

    The sharp schedule is compiled at every ``sharp_every``-th accuracy from the
    largest down.
    """
    setting = PaperSetting.entropy(GAMMA, FIGURE_1_TEMPERATURE, K)
    facts = Facts(K, K, GAMMA, Entropy(FIGURE_1_TEMPERATURE), (0.0, 1.0))
    figure_rows = []
    for i, e in enumerate(float(x) for x in np.logspace(-1, -9, points)):
        sharp_log10 = plain_log10 = math.nan
        if i % sharp_every == 0:
            sharp_log10, plain_log10 = _sharp(facts, e), _sharp(facts, e, PLAIN)
        figure_rows.append(
            Figure1Row(e, *_paper_curves(setting, e), sharp_log10, plain_log10)
        )
        tick()
    return figure_rows[::-1]


def figure_2(
    points: int = 100, sharp_every: int = 3, tick: Tick = lambda: None
) -> list[Figure2Row]:
    """The rows of Figure 2."""
    figure_rows = []
    for i, temperature in enumerate(float(x) for x in np.logspace(-4, 4, points)):
        setting = PaperSetting.entropy(GAMMA, temperature, K)
        facts = Facts(K, K, GAMMA, Entropy(temperature), (0.0, 1.0))
        e = RELATIVE_ERROR * paper.value_bound(setting)
        sharp_log10 = span_log10 = math.nan
        if i % sharp_every == 0:
            sharp_log10 = _sharp(facts, e)
            span_log10 = _sharp(facts, RELATIVE_ERROR * facts.value_span())
        figure_rows.append(
            Figure2Row(
                temperature, e, *_paper_curves(setting, e), sharp_log10, span_log10
            )
        )
        tick()
    return figure_rows


def _paper_curves(
    setting: PaperSetting, e: float
) -> tuple[float, float, float, float, float, float]:
    """(simulated, lemma_1, sparse, exact, exact_sparse, run) at accuracy e."""
    return (
        published.simulated_log10(setting, e, DELTA_PRIME),
        published.lemma_1_log10(setting, e, DELTA_PRIME),
        published.sparse_sampling_log10(setting, e, DELTA_PRIME),
        paper.sample_v_calls(setting, e, DELTA_PRIME).log10,
        paper.sample_v_calls(paper.sparse_sampling(setting), e, DELTA_PRIME).log10,
        paper.log_delta_prime(setting, e, DELTA)[1] / LOG10,
    )


def _sharp(facts: Facts, epsilon: float, kinds: Iterable[IntEnum] = ALL_KINDS) -> float:
    try:
        schedule = compile_schedule(
            facts, epsilon=epsilon, delta=DELTA, kinds=kinds, adaptive=False
        )
    except SmoothcruiserError:
        return math.nan  # beyond the compiler's reach: a gap, never a number
    return math.log10(schedule.mean_calls)


# --- slopes -------------------------------------------------------------------


@dataclass(frozen=True)
class Slope:
    """Exponent p of calls ~ (1/e)^p over [low, high], by least squares in log-log."""

    curve: str
    low: float
    high: float
    slope: float


def slopes(
    rows: list[Figure1Row],
    ranges: tuple[tuple[float, float], ...] = (
        (1e-9, 1e-7),
        (1e-7, 1e-5),
        (1e-4, 1e-2),
    ),
) -> list[Slope]:
    """Fitted exponents of every curve of Figure 1 over each range of accuracies.

    Curves with fewer than 3 points in a range are left out there.
    """
    return list(_slopes(rows, ranges))


def _slopes(
    rows: list[Figure1Row], ranges: tuple[tuple[float, float], ...]
) -> Iterator[Slope]:
    for curve_field in fields(Figure1Row)[1:]:
        for lowest_epsilon, highest_epsilon in ranges:
            points = [
                (-math.log10(r.epsilon), getattr(r, curve_field.name))
                for r in rows
                if lowest_epsilon * 0.999 <= r.epsilon <= highest_epsilon * 1.001
            ]
            points = [(x, y) for x, y in points if not math.isnan(y)]
            if len(points) >= 3:
                x, y = np.array(points).T
                yield Slope(
                    curve_field.name,
                    lowest_epsilon,
                    highest_epsilon,
                    float(np.polyfit(x, y, 1)[0]),
                )
