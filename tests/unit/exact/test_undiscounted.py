"""Totals at discount 1 without a horizon: hand-computed numbers, published ones, refusals."""

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import mdp
from scipy.sparse.linalg import spsolve

import smoothcruiser as sc
from smoothcruiser import exact, methods

pytestmark = pytest.mark.compiles

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "qvbs"


def model(rows, *, ends, **more):
    """A tabular problem at discount 1; ``rows[s][a]`` lists (probability, next, reward)."""
    S, A = len(rows) + len(ends), max(len(row) for row in rows)
    P, R = np.zeros((S, A, S)), np.zeros((S, A, S))
    legal = np.zeros((S, A), dtype=bool)
    for s, row in enumerate(rows):
        for a, outcomes in enumerate(row):
            legal[s, a] = True
            for p, z, r in outcomes:
                P[s, a, z] += p
                R[s, a, z] = r
    terminal = np.isin(np.arange(S), ends)
    return sc.tabular(
        P, R, discount=1, operator=sc.Max(), terminal=terminal, legal=legal, **more
    )


def check(problem, expected, close=1e-12):
    """The solution, whose bound is small and holds, and whose policy earns the value."""
    found = sc.solve(problem)
    truth = np.array(expected)
    finite = np.isfinite(truth)
    assert np.array_equal(found.values[~finite], truth[~finite])
    error = np.abs(found.values[finite] - truth[finite])
    assert np.all(error <= found.residual_bound)
    assert found.residual_bound <= close
    if finite.all():
        earned = exact.policy_value(problem, found.policy)
        assert earned == pytest.approx(truth, abs=close)
    return found


# --- by hand ------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.5, 0.4, 0.7])
def test_gamblers_ruin(p):
    """From s of 10: (1 - q^s)/(1 - q^10) with q = (1-p)/p, and s/10 for p = 1/2.

    The expected length for p = 1/2 is s (10 - s), here as costs.
    """
    n, q = 10, (1 - p) / p
    rows = [
        [[(1 - p, s - 1 if s > 0 else 10, 0.0), (p, s + 1, float(s + 1 == 9))]]
        for s in range(9)
    ]
    # states 0..8 stand for capital 1..9; 9 is rich, 10 is ruin
    truth = [
        (s + 1) / n if p == 0.5 else (1 - q ** (s + 1)) / (1 - q**n) for s in range(9)
    ]
    check(model(rows, ends=[9, 10]), [*truth, 0.0, 0.0])
    if p == 0.5:
        costs = [[[(w, z, -1.0) for w, z, _ in row[0]]] for row in rows]
        lengths = [-float((s + 1) * (n - s - 1)) for s in range(9)]
        check(model(costs, ends=[9, 10]), [*lengths, 0.0, 0.0], close=1e-11)


# 0 and 1 lead to each other for free: V = 1 solves V = TV, and 0.6 is the value
CIRCLE = [
    [[(1.0, 1, 0.0)], [(0.3, 2, 1.0), (0.7, 3, 0.0)]],
    [[(1.0, 0, 0.0)], [(0.6, 2, 1.0), (0.4, 3, 0.0)]],
]


@pytest.mark.parametrize(
    ("players", "values", "policy"),
    [
        # on to state 1 and out: going back would stall, with the same value
        (None, [0.6, 0.6, 0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]),
        # the min player walks in circles, and pays nothing
        ([2, 2, 1, 1], [0.0] * 4, None),
        # only state 0 is its own: it leaves at once, or hands the token to max
        ([2, 1, 1, 1], [0.3, 0.6, 0.0, 0.0], [[0.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_an_end_component_fools_nobody(players, values, policy):
    found = check(model(CIRCLE, ends=[2, 3], players=players), values)
    assert policy is None or found.policy[:2].tolist() == policy


def test_a_dead_end_costs_infinitely_much_and_hides_nobody():
    """State 1 pays for ever; state 0 can avoid it, and its other action is -inf."""
    rows = [[[(1.0, 1, -1.0)], [(1.0, 2, -4.0)]], [[(1.0, 1, -1.0)]]]
    problem = model(rows, ends=[2])
    found = check(problem, [-4.0, -math.inf, 0.0], close=1e-11)
    assert found.q_values[0].tolist() == [-math.inf, pytest.approx(-4.0)]
    assert np.isnan(found.policy[1]).all()
    assert sc.plan(problem, 0).action == 1
    with pytest.raises(sc.InvalidInput, match="State 1 is worth -inf"):
        sc.plan(problem, 1)


@pytest.mark.parametrize("rare", [1e-12, 1e-100])
def test_a_rare_exit_of_one_state_keeps_its_digits(rare):
    """1/4 of all exits lead to the goal, however rare they are."""
    rows = [[[(1.0 - 4 * rare, 0, 0.0), (rare, 1, 1.0), (3 * rare, 2, 0.0)]]]
    check(model(rows, ends=[1, 2]), [0.25, 0.0, 0.0])


def test_a_rare_exit_of_a_cycle_has_a_bound_that_holds():
    """Two states in turn, one way to the goal, one to the trap, 1e-9 each: 1/2."""
    rare = 1e-9
    exits = ((1, 2, 1.0), (0, 3, 0.0))
    rows = [[[(1.0 - rare, to, 0.0), (rare, out, paid)]] for to, out, paid in exits]
    found = sc.solve(model(rows, ends=[2, 3]))
    value = 1.0 / (2.0 - rare)
    assert abs(found.values[0] - value) <= found.residual_bound <= 1e-10


@pytest.mark.parametrize("unit", [2.0**-80, 3.0, 1e90])
def test_the_unit_of_rewards_does_not_matter(unit):
    rows = [[[(0.5, 0, unit), (0.5, 1, unit)]]]
    found = sc.solve(model(rows, ends=[1]))
    assert found.values[0] == pytest.approx(2 * unit, abs=found.residual_bound)
    assert found.residual_bound <= 1e-13 * unit


@pytest.mark.parametrize("size", [600, 3200])
def test_large_components_are_swept_or_solved(size):
    """A walk towards 0 with 4/5, away from it with 1/5; each step costs 1."""
    s = np.arange(1, size)
    back, on = np.append(s[:-1] + 1, size - 1), s - 1
    rows, cols = np.concatenate([s, s]), np.concatenate([on, back])
    data = np.repeat([0.8, 0.2], size - 1)
    P = sp.csr_matrix((data, (rows, cols)), shape=(size, size))
    terminal = np.arange(size) == 0
    costs = np.full(P.nnz, -1.0)
    found = sc.solve(
        sc.tabular(P, costs, discount=1, operator=sc.Max(), terminal=terminal)
    )
    inner = sp.eye(size - 1, format="csc") - P[1:, 1:].tocsc()
    truth = np.append(0.0, spsolve(inner, -np.ones(size - 1)))
    assert np.max(np.abs(found.values - truth)) <= found.residual_bound
    assert found.residual_bound <= 1e-10 * size


# --- published values ---------------------------------------------------------


@pytest.mark.skipif(not PUBLISHED.exists(), reason="shared/data/qvbs is not there")
@pytest.mark.parametrize("model", sorted(p.stem for p in PUBLISHED.glob("*.npz")))
def test_the_verification_benchmarks(model):
    """Thirteen models of QVBS: the published value lies within a bound below 1e-9."""
    path = PUBLISHED / f"{model}.npz"
    problem, reference = sc.make(f"npz:{path}"), float(np.load(path)["reference"])
    found = sc.solve(problem)
    assert found.residual_bound <= 1e-9
    assert found.values[problem.start()] == pytest.approx(reference, abs=1e-9)
    earned = exact.policy_value(problem, found.policy)
    assert np.max(np.abs(earned - found.values)) <= found.residual_bound + 1e-12


# --- refusals -----------------------------------------------------------------


@pytest.fixture
def coin():
    return model([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]]], ends=[1])


@pytest.mark.parametrize("name", sorted(set(methods.METHODS) - {"exact", "auto"}))
def test_every_other_method_refuses_in_one_sentence(coin, name):
    takes = methods.METHODS[name].takes
    asked = {"epsilon": 0.1, "delta": 0.1} if "epsilon" in takes else {"budget": 9}
    needs = f"^{name} needs a horizon or a discount b"
    with pytest.raises(sc.InvalidInput, match=needs):
        sc.plan(coin, method=name, **asked)


def test_verbs_that_sample_refuse_too(coin):
    for call in (
        lambda: sc.evaluate(coin, np.ones((2, 1))),
        lambda: sc.Tree(coin),
        lambda: sc.Certified(coin, delta=0.1),
        lambda: sc.Agent(coin, "uct").act(0),
        lambda: sc.explain(coin, epsilon=0.1, delta=0.1),
    ):
        with pytest.raises(sc.InvalidInput, match="needs a horizon or a discount b"):
            call()
    assert sc.check(coin).ok


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mdp(discount=1.0), r"without a horizon.*known model"),
        (lambda: one_state(1, sc.Entropy(1.0)), r"without a horizon.*Max"),
        (lambda: one_state(1.01, sc.Max()), "discount must be in"),
        (
            lambda: sc.solve(model([[[(1, 0, 1.0)], [(1, 1, -1.0)]]], ends=[1])),
            r"both signs.*state 0 one may go on for ever",
        ),
    ],
)
def test_what_has_no_total_is_refused(make, words):
    with pytest.raises(sc.InvalidInput, match=words):
        make()


def one_state(discount, operator):
    return sc.tabular(
        np.ones((1, 1, 1)), [[0.0]], discount=discount, operator=operator
    )


def test_limits_of_the_search_are_kept(coin):
    with pytest.raises(sc.InvalidInput, match=r"tolerance=1e-30 cannot be proven"):
        sc.solve(coin, tolerance=1e-30)
    close = sc.solve(coin, tolerance=1e-9, method="policy-iteration")
    assert close.residual_bound < 1e-9
    with pytest.raises(
        sc.InvalidInput, match="value-iteration needs a discount below"
    ):
        sc.solve(coin, method="value-iteration")
    with pytest.raises(sc.Unpayable, match="max_sweeps=1 passes"):
        sc.solve(coin, max_sweeps=1)


def test_an_infinite_span_has_no_percentage(coin):
    assert coin.facts.value_bounds() == (0.0, math.inf)
    with pytest.raises(sc.InvalidInput, match="'5%' is a share of the value span"):
        sc.plan(coin, epsilon="5%", method="exact")
    ends = model([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]]], ends=[1], payoffs="end")
    assert ends.facts.value_bounds() == ends.facts.q_bounds() == (0.0, 1.0)
    assert sc.plan(ends, epsilon="5%", method="exact").value == pytest.approx(1.0)


def test_declared_bounds_are_compared(coin):
    false = model([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]]], ends=[1], value_bounds=(0, 0.5))
    assert any("value_bounds do not hold" in note for note in sc.plan(false).notes)
    with pytest.raises(sc.InvalidInput, match="exclude every value"):
        model([[[(1.0, 1, 1.0)]]], ends=[1], value_bounds=(-2, -1))


def test_too_many_states_are_refused_without_a_promise():
    endless = mdp(
        outcomes=lambda s, a: [(0.5, 0.0, s + 1), (0.5, 1.0, -1)],
        terminal=lambda s: s < 0,
        discount=1,
    )
    with pytest.raises(sc.InvalidInput, match="auto, beyond 20,000 states"):
        sc.plan(endless, epsilon=0.1)
    with pytest.raises(sc.InvalidInput, match=r"time was up.*give horizon= or a disc"):
        sc.plan(endless, method="exact", seconds=0.05)
