"""The bound of the law against brute force: on its event it holds for every function.

Laws P are chosen so that the event's inequality holds, up to its edge; then no
function may have P f above the bound. Compiled code and a few lines of NumPy
compute the same numbers.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.bounds import BOUNDS, DEFAULT, law
from smoothcruiser.certified.bounds import counts as law_counts
from smoothcruiser.certified.bounds.base import (
    EVERY,
    KEEP,
    SCAN,
    WALK,
    BoundRules,
    Outcomes,
    pair_cost,
)
from smoothcruiser.certified.graph import NODE, PAIR, free_entries, pair_type
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps import layers_kernel as inductive_kernel
from smoothcruiser.certified.sweeps.memory_kernel import MANY_OUTCOMES
from smoothcruiser.jit.build import compile_function

COST = 6.0
RULES = BoundRules(discount=1.0, scale=1.0, min_probability=0.0, union=0.0)


def pair_of(counts, values, *, rewards=0.0, cost=COST, high=1.0):
    """One pair, at node 1 with box [0, high]; outcome i leads to node 2 + i."""
    size = len(counts)
    nodes = np.zeros(size + 2, NODE)
    nodes["q_high"] = high
    nodes["upper"][2:] = nodes["lower"][2:] = values
    entries = free_entries(size)
    entries.weight[:], entries.reward[:] = counts, rewards
    entries.target[:] = 2 + np.arange(size)
    pairs = np.zeros(1, pair_type(law.LAW.fields))
    pairs["total"], pairs["length"], pairs["node"] = np.sum(counts), size, 1
    pairs["cost"] = cost
    return Outcomes(nodes, pairs, entries), pairs


@pytest.fixture(scope="module")
def bound():
    """(graph, pairs, upper, tune, rules) -> the bound of the law alone, compiled."""
    refresh, side = (
        compile_function(law_counts.refresh),
        compile_function(law.law_side),
    )

    @numba.njit
    def call(g, pairs, upper, tune, rules):
        refresh(g, 0, rules)
        return side(g, 0, upper, tune, rules)

    return call


@pytest.fixture(scope="module")
def whole():
    """The same for ``side``, with bets."""
    side = compile_function(law.side)

    @numba.njit
    def call(g, pairs, upper, tune, rules):
        return side(g, 0, upper, tune, rules)

    return call


def log_mixture(counts):
    """log Q_n with every number of labels, by SciPy."""
    c = np.asarray(counts, float)
    n, size = c.sum(), len(c)
    terms = [law_counts.RESTAURANT_LOG + gammaln(c).sum() - gammaln(n + 1.0)]
    for m, weight in enumerate(law_counts.LABEL_WEIGHTS, start=1):
        if m >= size:
            ways = gammaln(m + 1) - gammaln(m - size + 1)
            start = gammaln(0.5 * m) - gammaln(0.5 * m + n)
            labels = gammaln(c + 0.5).sum() - size * gammaln(0.5)
            terms.append(math.log(weight) + ways + start + labels)
    return float(logsumexp(terms))


def log_share(cost=COST):
    """log(1/alpha) of the law."""
    return cost - math.log(2.0) + math.log(4.0 / 3.0)


def laws_on_the_event(rng, counts, number):
    """Laws on the seen outcomes and one unseen, as far from the counts as E allows."""
    again = np.asarray(counts) - 1.0
    limit = log_mixture(counts) - log_share()
    seed = np.append(again + 0.3, 0.3)
    seed /= seed.sum()
    far = rng.dirichlet(np.full(len(seed), 0.4), number)
    low, high = np.zeros(number), np.ones(number)
    for _ in range(50):
        middle = 0.5 * (low + high)
        tried = (1.0 - middle[:, None]) * seed + middle[:, None] * far
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(again > 0.0, again * np.log(tried[:, :-1]), 0.0)
        inside = logs.sum(axis=1) >= limit
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    found = (1.0 - low[:, None]) * seed + low[:, None] * far
    return found[low > 0.0]


def test_the_mixture_is_a_law_of_the_next_event():
    """Q_n is the sum of Q_(n+1) over what may come next, and Q_1 = 1."""
    assert log_mixture([1]) == pytest.approx(0.0, abs=1e-12)
    assert law_counts.LABEL_WEIGHTS.sum() + math.exp(
        law_counts.RESTAURANT_LOG
    ) == pytest.approx(1.0)
    for counts in ([3], [1, 4], [2, 2, 7], [1] * 8, [5] * 9):
        after = [log_mixture([*counts, 1])]
        for i in range(len(counts)):
            after.append(log_mixture([c + (j == i) for j, c in enumerate(counts)]))
        assert logsumexp(after) == pytest.approx(log_mixture(counts), abs=1e-10)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "counts", [[2], [40], [9, 1], [300, 20, 3], [7] * 6, [1] * 12]
)
def test_beta_is_that_of_the_mixture(bound, counts):
    """The code adds an allowance for rounding: a little more, never less."""
    g, pairs = pair_of(counts, np.linspace(0.0, 1.0, len(counts)))
    bound(g, pairs, True, KEEP, RULES)
    again = np.asarray(counts) - 1.0
    if again.sum() == 0.0:
        assert pairs["law_share"][0] == 0.0
        return
    kept = again[again > 0.0]
    entropy = float((kept * np.log(kept / kept.sum())).sum())
    exact = log_share() + entropy - log_mixture(counts)
    assert exact <= pairs["law_beta"][0] <= exact + 1e-9
    share = math.exp(-pairs["law_beta"][0] / again.sum())
    assert share * (1.0 - 1e-13) <= pairs["law_share"][0] <= share


@pytest.mark.compiles
@pytest.mark.parametrize("upper", [True, False])
def test_on_its_event_the_bound_holds_for_every_function(bound, upper):
    """60,000 laws on the event's edge, each with many functions; unseen f is worst."""
    rng = np.random.default_rng(1)
    checked, closest = 0, math.inf
    for _ in range(300):
        size = int(rng.integers(1, 7))
        counts = 1 + rng.multinomial(
            int(rng.integers(0, 400)), rng.dirichlet(np.ones(size))
        )
        laws = laws_on_the_event(rng, counts, 200)
        for _ in range(5):
            f = rng.random(size) if rng.random() < 0.5 else rng.integers(0, 2, size)
            values = np.append(f, 1.0 if upper else 0.0)
            g, pairs = pair_of(counts, f)
            for tune in (SCAN, WALK, KEEP):
                found = bound(g, pairs, upper, tune, RULES)
                gaps = found - laws @ values if upper else laws @ values - found
                assert np.all(gaps >= -1e-13)
                if tune == SCAN and counts.sum() > 100 and size > 1:
                    closest = min(closest, gaps.min(initial=math.inf))
        checked += len(laws)
    assert checked > 40_000
    assert (
        closest < 0.01
    )  # some law comes near: the bound is no larger than it must be


@pytest.mark.compiles
@pytest.mark.parametrize("upper", [True, False])
def test_the_search_for_nu_finds_the_best(bound, upper):
    """Against a fine grid of nu; a second walk ends near it as well."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        size = int(rng.integers(2, 7))
        counts = 2 + rng.multinomial(
            int(10 ** rng.uniform(1, 6)), rng.dirichlet(np.ones(size))
        )
        f = rng.random(size) if rng.random() < 0.5 else rng.integers(0, 2, size)
        g, pairs = pair_of(counts, f)
        found = bound(g, pairs, upper, SCAN, RULES)
        again = counts - 1.0
        p, share = again / again.sum(), pairs["law_share"][0]
        x = 1.0 - f if not upper else f.astype(float)
        nu = 1.0 + np.append(0.0, np.geomspace(1e-9, 1e6, 4000))
        with np.errstate(divide="ignore"):
            grid = nu - np.exp(np.log(nu[:, None] - x) @ p) * share
        best = grid.min() if upper else 1.0 - grid.min()
        radius = abs(best - float(p @ f))
        assert abs(found - best) <= 0.002 * radius + 1e-9
        for _ in range(3):
            walked = bound(g, pairs, upper, WALK, RULES)
        assert abs(walked - best) <= 0.002 * radius + 1e-9


@pytest.mark.compiles
def test_one_outcome_has_a_closed_form(bound):
    g, pairs = pair_of([50], [0.3], high=2.0)
    upper, lower = (bound(g, pairs, side, WALK, RULES) for side in (True, False))
    share = pairs["law_share"][0]
    assert upper == pytest.approx(2.0 - 1.7 * share, rel=1e-13)
    assert lower == pytest.approx(0.3 * share, rel=1e-13)
    assert pairs["slope_up"][0] > 0.0


@pytest.mark.compiles
def test_no_repeat_leaves_the_box(bound):
    for counts in ([1], [1, 1], [1, 1, 1]):
        g, pairs = pair_of(counts, [0.5] * len(counts))
        for tune in (KEEP, WALK, SCAN):
            assert bound(g, pairs, True, tune, RULES) >= 1.0
            assert bound(g, pairs, False, tune, RULES) <= 0.0


@pytest.mark.compiles
def test_larger_functions_have_larger_bounds(whole):
    """That is what lets U stand in for V; with bets and with a complete support."""
    rng = np.random.default_rng(3)
    for least in (0.0, 0.05):
        rules = RULES._replace(min_probability=least)
        for _ in range(300):
            size = int(rng.integers(1, 9))
            counts = 1 + rng.multinomial(300, rng.dirichlet(np.ones(size)))
            low = rng.random(size)
            high = np.minimum(1.0, low + 0.2 * rng.random(size))
            for upper in (True, False):
                found = [
                    whole(*pair_of(counts, f), upper, SCAN, rules) for f in (low, high)
                ]
                assert found[0] <= found[1] + 1e-3 * abs(found[0] - low.mean())


@pytest.mark.compiles
def test_a_complete_support_of_one_outcome_is_exact(whole):
    """1 - exp(-beta/n') < p, and then r + gamma U(z) is Q itself."""
    rules = RULES._replace(min_probability=0.1)
    g, pairs = pair_of([20], [0.3])
    assert whole(g, pairs, True, WALK, rules) > 0.31
    assert pairs["law_complete"][0] == 0
    g, pairs = pair_of([200], [0.3])
    for tune in (KEEP, WALK, SCAN):
        for upper in (True, False):
            assert whole(g, pairs, upper, tune, rules) == 0.3
    assert pairs["law_complete"][0] == 1
    assert pairs["slope_up"][0] == pairs["slope_down"][0] == 0.0
    g, pairs = pair_of([200], [0.3], rewards=0.1)
    upper, lower = (whole(g, pairs, side, KEEP, rules) for side in (True, False))
    assert lower < 0.4 < upper
    assert upper - lower < 1e-15 * 3.0


@pytest.mark.compiles
@pytest.mark.parametrize("size", [3, 8, 12, MANY_OUTCOMES])
def test_what_holds_for_every_function_makes_no_bets(bound, whole, size):
    """Bets are better here, but they are about V alone; from 64 on nothing is left."""
    counts, values = [1_000] * size, np.linspace(0.2, 0.6, size)
    for upper in (True, False):
        g, pairs = pair_of(counts, values)
        both = whole(g, pairs, upper, SCAN, RULES)
        alone = bound(g, pairs, upper, WALK, RULES)
        found = whole(g, pairs, upper, EVERY, RULES)
        if size == MANY_OUTCOMES:
            alone = 1.0 if upper else 0.0
        assert found == alone
        assert both < found - 1e-3 if upper else both > found + 1e-3


@pytest.mark.compiles
def test_so_many_outcomes_that_no_other_fits_are_complete(whole):
    """Three of at least 0.3: one sample of each will do; 0.1 is left for any of them."""
    g, pairs = pair_of([1, 1, 1], [0.2, 0.4, 0.6])
    rules = RULES._replace(min_probability=0.3)
    assert whole(g, pairs, True, WALK, rules) == pytest.approx(0.42, abs=1e-8)
    assert whole(g, pairs, False, WALK, rules) == pytest.approx(0.38, abs=1e-8)
    assert pairs["law_complete"][0] == 1
    g, pairs = pair_of([1, 1, 1], [0.2, 0.4, 0.6])
    rules = RULES._replace(min_probability=0.25)  # a fourth one may be worth 1
    assert whole(g, pairs, True, WALK, rules) == pytest.approx(0.55, abs=1e-8)
    assert pairs["law_complete"][0] == 0


@pytest.mark.compiles
@pytest.mark.parametrize("least", [0.5, 0.2, 0.05])
def test_every_seen_outcome_has_the_declared_probability(whole, least):
    """The largest P f over laws with P_i >= p is reached, and never exceeded."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        size = int(rng.integers(1, int(1.0 / least + 1e-9) + 1))
        f = rng.random(size)
        rules = RULES._replace(min_probability=least)
        for upper in (True, False):
            g, pairs = pair_of([1] * size, f)  # no repeat: the law says nothing
            found = whole(g, pairs, upper, WALK, rules)
            complete = (size + 1) * least > 1.0 + 1e-9
            end = 1.0 if upper else 0.0
            if complete:
                end = f.max() if upper else f.min()
            best = least * f.sum() + (1.0 - size * least) * end
            assert found == pytest.approx(best, abs=1e-8)
            assert found >= best if upper else found <= best


@pytest.mark.compiles
def test_a_long_run_without_a_new_outcome_completes_a_support(whole):
    """log(K(K + 1)/(alpha/4)) / -log(1 - p) samples in a row, and not one less."""
    least = 0.01
    rules = RULES._replace(min_probability=least)
    wanted = (math.log(6.0) + COST + math.log(2.0)) / -math.log1p(-least)
    for more, complete in ((math.ceil(wanted) + 1, 1), (math.floor(wanted) - 1, 0)):
        g, pairs = pair_of([30, 20], [0.2, 0.6])
        whole(g, pairs, True, WALK, rules)
        assert pairs["law_found"][0] == 50.0
        assert pairs["law_complete"][0] == 0
        g.entries.weight[0] += more
        pairs["total"] += more
        whole(g, pairs, True, WALK, rules)
        assert pairs["law_complete"][0] == complete
        assert (law_counts.missing(pairs, least)[0] == 0.0) == bool(complete)


def test_shares_of_a_declared_pair_add_up():
    """Three quarters for the law, one quarter for runs; there are no bets."""
    both = math.exp(-law_counts.LAW_COST) + math.exp(-law_counts.RUN_COST)
    assert both == pytest.approx(2.0, rel=1e-12)


@pytest.mark.compiles
def test_an_outcome_after_a_complete_support_is_marked(whole):
    rules = RULES._replace(min_probability=0.1)
    g, pairs = pair_of([200, 1], [0.3, 0.9])
    pairs["length"], pairs["total"] = 1, 200.0
    assert whole(g, pairs, True, WALK, rules) == 0.3
    pairs["length"], pairs["total"] = 2, 201.0
    assert whole(g, pairs, True, WALK, rules) > 0.3
    assert pairs["law_complete"][0] == -1
    pairs["total"] = g.entries.weight[0] = 10_000.0
    pairs["total"] += 1.0
    whole(g, pairs, True, WALK, rules)
    assert pairs["law_complete"][0] == -1


@pytest.mark.compiles
def test_many_entries_are_left_to_bets(whole):
    """Rewards may be rounded from 64 entries on: then beta is not even computed."""
    assert law.LAW_OUTCOMES < MANY_OUTCOMES
    for size, seen in ((8, True), (9, False), (MANY_OUTCOMES, False)):
        g, pairs = pair_of([5] * size, np.linspace(0.0, 1.0, size))
        assert whole(g, pairs, True, SCAN, RULES) < 1.0
        assert (pairs["law_beta"][0] > 0.0) == seen
        assert pairs["cost"][0] == COST


@pytest.mark.compiles
def test_bets_pay_for_the_functions_that_share_samples(whole):
    g, pairs = pair_of([50] * 12, np.linspace(0.0, 1.0, 12))
    alone = whole(g, pairs, True, SCAN, RULES)
    shared = whole(g, pairs, True, SCAN, RULES._replace(union=math.log(100.0)))
    g, pairs = pair_of([50] * 12, np.linspace(0.0, 1.0, 12), cost=COST + math.log(100))
    assert alone < shared == whole(g, pairs, True, SCAN, RULES)


def test_shares_add_up_to_that_of_the_pair():
    cost = float(pair_cost(3, 0.1))
    both = math.exp(-cost - law_counts.LAW_COST) + 2.0 * math.exp(
        -cost - law_counts.BETS_COST
    )
    assert both == pytest.approx(2.0 * math.exp(-cost), rel=1e-12)


def test_what_a_file_may_hold():
    readable = BOUNDS["law"].readable
    _, pairs = pair_of([5, 6], [0.1, 0.2])
    assert readable(pairs)
    for name, value in (
        ("law_beta", math.nan),
        ("law_share", 1.5),
        ("law_share", -0.5),
        ("nu_up", -1.0),
        ("nu_down", math.inf),
        ("law_total", 12.0),
        ("law_found", 1.0),
        ("law_length", 3),
        ("law_complete", 2),
        ("pole_up", 99),
    ):
        broken = pairs.copy()
        broken[name] = value
        assert not readable(broken)


DOCS = Path(__file__).resolve().parents[4] / "docs" / "certified.md"
PROBLEM = sc.make("chain:n=4", discount=0.9, operator=sc.Entropy(0.3))


def test_the_default_is_in_the_table() -> None:
    assert DEFAULT in BOUNDS


@pytest.mark.parametrize("word", list(BOUNDS))
def test_a_bound_is_whole(word: str) -> None:
    """Members are there and of their kind; the key of the table is the word."""
    bound = BOUNDS[word]
    assert bound.word == word
    for name in bound._fields:
        assert getattr(bound, name) is not None
    assert list(inspect.signature(bound.side).parameters) == [
        "g",
        "pair",
        "upper",
        "tune",
        "rules",
    ]


@pytest.mark.parametrize("word", list(BOUNDS))
def test_its_fields_are_those_of_the_pairs(word: str) -> None:
    """A memory of the bound has the common fields, then the bound's own."""
    bound = BOUNDS[word]
    names = Memory(PROBLEM, bound).graph.pairs.dtype.names
    assert names == tuple(name for name, _ in (*PAIR, *bound.fields))


@pytest.mark.parametrize("word", list(BOUNDS))
def test_its_shares_are_within_delta(word: str) -> None:
    """The sum of 2 alpha over the first million pairs is below delta, and costs
    never fall.
    """
    costs = BOUNDS[word].cost(np.arange(1, 1_000_001), 0.1)
    assert (2.0 * np.exp(-costs)).sum() <= 0.1
    assert (np.diff(costs) >= 0.0).all()


@pytest.mark.parametrize("word", list(BOUNDS))
def test_its_price_never_falls_with_the_number_of_pairs(word: str) -> None:
    """What the steering relies on; and rounding leaves an ordinary epsilon alone."""
    bound, facts = BOUNDS[word], PROBLEM.facts
    prices = [bound.price(facts, 0.5, 0.1, pairs) for pairs in (1, 2, 30, 400)]
    assert prices == sorted(prices)
    assert 0.0 < bound.floor(facts) < 1e-9


@pytest.mark.parametrize("word", list(BOUNDS))
def test_the_docs_know_its_word(word: str) -> None:
    assert f"`{word}`" in DOCS.read_text()


def ending_walk(state, action, rng):
    """A walk on 0..20 at discount 1: 20 pays 1 and ends, as 0 does."""
    up = rng.random() < (0.4 if action == 0 else 0.7)
    after = state + 1 if up else state - 1
    return float(after == 20), after


def half_the_rows(state, action):
    up = 0.4 if action == 0 else 0.7
    row = [(up, float(state == 19), state + 1), (1.0 - up, 0.0, state - 1)]
    return row if (state + action) % 2 else None


def searched_at_discount_one(budget, **more):
    problem = mdp(
        ending_walk,
        discount=1.0,
        operator=sc.Max(),
        initial_state=10,
        terminal=lambda s: s in (0, 20),
        payoffs="end",
        outcomes=half_the_rows,
    )
    memory = sc.Certified(problem, delta=0.1, **more)
    memory.query(budget=budget)
    return memory


@pytest.mark.slow
@pytest.mark.compiles
def test_induction_is_left_where_a_bound_is_for_one_function_only() -> None:
    """At discount 1, bets on V say nothing of the functions that induction tries."""
    for word, closes in (("betting", False), ("law", True)):
        memory = searched_at_discount_one(500, bound=word)
        assert not memory.exact
        assert memory.region.closes is closes


@pytest.mark.slow
@pytest.mark.compiles
def test_induction_makes_no_bets_beside_the_law(monkeypatch) -> None:
    """The law is not alone where nothing is declared: its bets are about V as well."""
    memory = searched_at_discount_one(5_000)
    assert memory.bound.word == "law"
    g, rules = memory.memory.graph, memory.region.rules
    bets = list[int]()
    monkeypatch.setattr(law, "betting_side", lambda *args: bets.append(1) or 0.0)
    monkeypatch.setattr(inductive_kernel, "BOUND", law.side)
    sampled = g.pairs["node"][(g.pairs["cost"] > 0.0) & (g.pairs["length"] > 1)]
    assert len(sampled) > 5
    for node in sampled.tolist():
        for upper in (True, False):
            inductive_kernel.backed_up(g, node, upper, rules)
    assert not bets
