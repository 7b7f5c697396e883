"""Declared chances (``min_probability``, ``episodes_end``), discount 1 by them, and totals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.checks.probe import walk_blocks
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.facts import expected_steps
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.theory.analysis import ground

pytestmark = pytest.mark.compiles


def walk(state, action, rng):
    """A walk between -2 and 2 that pays 1 or -1 where it ends."""
    after = state + (1 if rng.random() < 0.4 + 0.2 * action else -1)
    return float(after // 2) if abs(after) == 2 else 0.0, after


def leaky(state, action, rng):
    """The same, but every arrival at 1 pays."""
    reward, after = walk(state, action, rng)
    return reward + 0.5 * (after == 1), after


def stay(state, action, rng):
    """It never ends."""
    return 0.0, state


def walker(step=walk, **more):
    common = {"discount": 1, "operator": sc.Max(), "reward_range": (-1.0, 1.0)}
    over = lambda state: abs(state) == 2  # noqa: E731
    return mdp(step, **(common | {"terminal": over} | more))


def discounted(step=walk, **more):
    return walker(step, **({"discount": 0.95} | more))


def table(probabilities, **more):
    """One state whose one action leads to ends 1, 2, ... with these probabilities."""
    size = len(probabilities) + 1
    P = np.zeros((size, 1, size))
    P[0, 0, 1:] = probabilities
    P[1:, 0, 1] = 1.0
    over = np.arange(size) > 0
    return sc.tabular(
        P, np.zeros((size, 1)), discount=0.5, operator=sc.Max(), terminal=over, **more
    )


# --- bounds, by hand ----------------------------------------------------------


def test_the_expected_number_of_steps_is_rounded_up():
    """3 steps with probability 1/4: 12 in the mean at most; a sure end is exact."""
    assert expected_steps(None) == math.inf
    assert expected_steps((3, 1.0)) == 3.0
    assert 12.0 < expected_steps((3, 0.25)) <= 12.0 * (1.0 + 1e-15)
    assert walker(episodes_end=(3, 0.25)).facts.steps(None) == expected_steps(
        (3, 0.25)
    )
    assert walker(episodes_end=(3, 0.25), horizon=40).facts.steps(40) == 40.0


ENTROPIC = {"episodes_end": (2, 0.5), "discount": 0.99, "operator": sc.Entropy(1.0)}


@pytest.mark.parametrize(
    ("more", "bounds"),
    [
        (ENTROPIC, (4.0 * (math.log(2.0) - 1.0), 4.0 * (math.log(2.0) + 1.0))),
        ({"episodes_end": (3, 0.25)}, (-12.0, 12.0)),
        ({"episodes_end": (3, 0.25), "reward_range": (1.0, 2.0)}, (0.0, 24.0)),
        ({"episodes_end": (3, 0.25), "reward_range": (-2.0, -1.0)}, (-24.0, 0.0)),
        ({"episodes_end": (3, 0.25), "horizon": 5}, (-5.0, 5.0)),
        ({"episodes_end": (3, 0.25), "horizon": 50}, (-12.0, 12.0)),
        ({"episodes_end": (3, 0.25), "discount": 0.5}, (-2.0, 2.0)),
        ({"episodes_end": (3, 0.25), "discount": 0.99}, (-12.0, 12.0)),
        ({"episodes_end": (3, 0.25), "payoffs": "end"}, (-1.0, 1.0)),
        ({"payoffs": "end", "reward_range": (0.5, 2.0)}, (0.0, 2.0)),
        ({"total_reward_range": (1, 3), "reward_range": (0.0, 2.0)}, (1.0, 3.0)),
        ({"total_reward_range": (-3, 0), "reward_range": (-1.0, 0.0)}, (-3.0, 0.0)),
    ],
)
def test_bounds_of_declared_totals(more, bounds):
    """m/q steps of the best and of the worst reward, hulled with 0; or the total."""
    facts = walker(**more).facts
    assert facts.value_bounds() == pytest.approx(bounds)
    assert facts.value_hull() == pytest.approx(bounds)
    assert facts.value_span() == pytest.approx(bounds[1] - bounds[0])
    assert all(map(math.isfinite, facts.q_bounds()))


# --- what is refused ----------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"min_probability": 0}, "min_probability must be a number above 0"),
        ({"min_probability": math.nan}, "min_probability must be a number above 0"),
        ({"episodes_end": 5}, r"episodes_end must be \(steps, probability\)"),
        ({"episodes_end": (0, 0.5)}, "whole number of at least 1"),
        ({"episodes_end": (2.5, 0.5)}, "whole number of at least 1"),
        ({"episodes_end": (2, 0.0)}, "above 0 and at most 1"),
        ({"episodes_end": (2, 1.1)}, "above 0 and at most 1"),
        ({"episodes_end": (10**400, 1.0)}, r"steps/probability of at most 1e\+15"),
        ({"episodes_end": (2, 0.5), "terminal": None}, "episodes_end needs ends"),
        ({"episodes_end": (2, 0.5), "value_bounds": (5, 6)}, "exclude every value"),
    ],
)
def test_what_cannot_hold_is_refused(more, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence):
        walker(**({"discount": 0.9} | more))


def test_tables_are_compared_with_the_least_probability():
    """Rounding is forgiven, a rarer outcome is not, nor a change afterwards."""
    assert table([0.1] * 10, min_probability=0.1).min_probability == 0.1
    with pytest.raises(sc.InvalidInput, match=r"needs .* state 0, action 0 .* 0\.2"):
        table([0.8, 0.2], min_probability=0.3)
    with pytest.raises(sc.InvalidInput, match="drop min_probability="):
        replace(table([0.8, 0.2]), min_probability=0.3)


def test_rows_are_compared_with_the_least_probability():
    """An outcome that is listed twice has both its probabilities."""
    lists = {
        0: [(0.2, 0.0, 2), (0.2, 0.0, 2), (0.6, 0.0, -2)],
        1: [(0.2, 0.0, 2), (0.2, 1.0, 2), (0.6, 0.0, -2)],
    }
    model = walker(
        outcomes=lambda s, a: lists[a], min_probability=0.4, episodes_end=(1, 1.0)
    )
    with pytest.raises(sc.InvalidInput, match=r"=0\.4 needs .* state 0, action 1 has"):
        sc.plan(model)


# --- discount 1 without a horizon ---------------------------------------------

BOUNDED = [
    {"payoffs": "end"},
    {"episodes_end": (2, 0.4)},
    {"total_reward_range": (0, 3), "reward_range": (0.0, 1.0)},
    {"total_reward_range": (-3, 0), "reward_range": (-1.0, 0.0)},
]


@pytest.mark.parametrize("more", BOUNDED)
def test_a_bounded_total_needs_no_horizon(more):
    """A step alone will do; auto leaves it to certified search, others refuse."""
    problem = walker(**more)
    asked = {"epsilon": 0.1, "delta": 0.1}
    ready = sc.prepare(problem, **asked)
    assert ready.method.name == "certified"
    assert "discount 1 without a horizon" in ready.notes[0]
    with pytest.raises(sc.InvalidInput, match=r"^uct needs .*method='certified'"):
        sc.plan(problem, method="uct", budget=9)
    with pytest.raises(sc.InvalidInput, match=r"^smoothcruiser needs .*='certified'"):
        sc.plan(problem, method="smoothcruiser", **asked)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"total_reward_range": (-1, 1)},
        {"value_bounds": (-1, 1)},
        {"payoffs": "end", "operator": sc.Entropy(1.0)},
        {"episodes_end": (2, 0.4), "discount": 1.01},
    ],
)
def test_other_totals_are_refused(more):
    """The sentence names the three declarations."""
    sentence = r"without a horizon.*payoffs='end'.*total_reward_range=.*episodes_end="
    with pytest.raises(sc.InvalidInput, match=sentence):
        walker(**more)


def test_auto_says_why_no_search_can_be():
    """There is no schedule to take its place."""
    with pytest.raises(sc.InvalidInput, match=r"certified search alone, and .*'batch"):
        sc.plan(walker(payoffs="end"), epsilon=0.1, delta=0.1, executor="batched")


def test_a_known_model_is_solved():
    """Both ways out are named where both are open."""
    rows = {-1: [(0.5, 0.0, 0), (0.5, -1.0, -2)], 1: [(0.5, 0.0, 0), (0.5, 1.0, 2)]}
    rows[0] = [(0.5, 0.0, -1), (0.5, 0.0, 1)]
    known = walker(outcomes=lambda s, a: rows[s], payoffs="end", min_probability=0.5)
    assert sc.plan(known).value == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(sc.InvalidInput, match=r"method='exact'.*or method='certified"):
        sc.plan(known, method="uct", budget=9)


def test_exact_notes_an_end_that_does_not_come():
    """A walk of 4 steps in the mean that pays 1 each is worth more than 2 steps."""
    P, R = np.zeros((2, 1, 2)), np.ones((2, 1))
    P[0, 0] = [0.75, 0.25]
    P[1, 0, 1] = 1.0
    make = {"discount": 1, "operator": sc.Max(), "terminal": [False, True]}
    false = sc.plan(sc.tabular(P, R, episodes_end=(1, 0.5), **make))
    assert any("episodes_end= do not hold" in note for note in false.notes)
    true = sc.plan(sc.tabular(P, R, episodes_end=(1, 0.25), **make))
    assert not any("do not hold" in note for note in true.notes)


# --- what is found out, and what is said --------------------------------------


def flat(report):
    return " ".join(str(report).split())


def test_check_finds_an_episode_that_does_not_end():
    """(1 - q)**blocks <= 1e-9 for a walk of so many blocks."""
    assert walk_blocks(1.0) == 1
    assert walk_blocks(0.5) == 30
    assert sc.check(walker(episodes_end=(2, 0.4))).ok
    report = sc.check(walker(stay, episodes_end=(2, 0.5)))
    assert not report.ok
    assert "a walk of 60 steps with random actions did not end" in flat(report)
    skipped = sc.check(walker(stay, episodes_end=(1000, 0.5)))
    assert skipped.ok
    assert "was not tested: that takes a walk of 30,000 steps" in flat(skipped)


def test_check_counts_outcomes():
    """Two outcomes per pair: none can have more than 1/2 if all have the same."""
    assert sc.check(walker(payoffs="end", min_probability=0.4)).ok
    report = sc.check(walker(payoffs="end", min_probability=0.6))
    assert not report.ok
    assert "min_probability=0.6 leaves room for 1 outcomes" in flat(report)


def test_the_certificate_and_the_fingerprint_tell():
    declared = walker(discount=0.9, min_probability=0.25, episodes_end=(2000, 0.5))
    words = " ".join(assumptions(declared, ONE_LAW, ""))
    assert "at least 0.25, as declared in min_probability" in words
    assert (
        "within 2,000 steps with a probability of at least 0.5, as declared" in words
    )
    changes = [{}, {"min_probability": None}]
    changes += [{"episodes_end": ends} for ends in (None, (2000, 0.25))]
    assert len({fingerprint(replace(declared, **x)).digest for x in changes}) == 4


# --- totals -------------------------------------------------------------------


def test_one_step_at_least_is_made_before_an_end():
    """So the theory has log 2 at the lower end."""
    rewards = {"reward_range": (0.0, 1.0), "total_reward_range": (0.0, 1.0)}
    entropic = discounted(discount=0.5, operator=sc.Entropy(1.0), **rewards).facts
    ends = [float(x[0, 0]) for x in ground(entropic).values(None)]
    assert ends == pytest.approx([math.log(2.0), 1.0 + 2.0 * math.log(2.0)])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"payoffs": "later"}, "payoffs must be one of 'every step', 'end', got 'la"),
        ({"payoffs": "end", "terminal": None}, "payoffs='end' needs ends"),
        ({"total_reward_range": (1, 0)}, "must be two finite numbers"),
        ({"total_reward_range": (0, math.inf)}, "must be two finite numbers"),
        ({"total_reward_range": 3}, "must be two finite numbers"),
        ({"total_reward_range": (21, 30)}, "excludes every total of rewards"),
        ({"total_reward_range": (2, 3), "horizon": 5}, "with 1 of 5 steps left"),
    ],
)
def test_totals_that_cannot_hold_are_refused(more, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence):
        discounted(**more)


def test_tables_are_compared_with_payoffs():
    """Rewards on the way are found before anything runs."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1.0
    R = np.array([[0.0], [1.0], [0.0]])
    common = {"discount": 0.5, "operator": sc.Max(), "terminal": [False, False, True]}
    assert sc.tabular(P, R, payoffs="end", **common).facts.total_range == (0.0, 1.0)
    with pytest.raises(sc.InvalidInput, match="R pays 2 at state 0, action 0"):
        sc.tabular(P, R + 2.0 * (R == 0.0), payoffs="end", **common)


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("certified", {"budget": 5_000, "delta": 0.1}),
        ("smoothcruiser", {"epsilon": 0.9, "delta": 0.1, "target": "value"}),
        ("uct", {"budget": 5_000}),
    ],
)
def test_an_early_payment_is_an_error(method, asked):
    """The first call that pays on the way ends the run with its place."""
    problem = discounted(leaky, payoffs="end", discount=0.3)
    with pytest.raises(sc.OracleError, match=r"paid 0\.5 at state .* payoffs='end'"):
        sc.plan(problem, method=method, **asked)


def test_check_plays_episodes_for_the_total():
    """A total that is too narrow is found; one that holds is not."""
    assert sc.check(discounted(total_reward_range=(-1.0, 1.0))).ok
    report = sc.check(discounted(leaky, total_reward_range=(-1.0, 1.0)))
    found = {f.name: f for f in report.findings}["totals"]
    assert found.verdict == "wrong"
    assert "total_reward_range" in found.sentence
    assert not sc.check(discounted(leaky, payoffs="end")).ok


def test_evaluate_refuses_an_episode_beyond_the_total():
    """Rollouts are compared with what the total allows."""
    policy = lambda state: [0.0, 1.0]  # noqa: E731
    fine = sc.evaluate(discounted(payoffs="end"), policy, budget=2_000)
    assert -1.0 <= fine.interval[0] <= fine.interval[1] <= 1.0
    with pytest.raises(sc.OracleError, match="An episode was worth"):
        sc.evaluate(
            discounted(leaky, total_reward_range=(-1, 1)), policy, budget=5_000
        )


def test_certificates_and_fingerprints_name_declared_totals():
    """Both declarations are assumptions, and change the fingerprint."""
    declared = discounted(payoffs="end", total_reward_range=(-1.0, 0.5))
    answer = sc.plan(declared, method="certified", delta=0.1, budget=200)
    words = " ".join(answer.certificate.assumptions)
    assert "payoffs='end'" in words
    assert "total in [-1, 0.5]" in words
    declarations = [{}, {"payoffs": "end"}]
    declarations += [{"total_reward_range": (-1.0, high)} for high in (1.0, 0.5)]
    assert len({fingerprint(discounted(**more)).digest for more in declarations}) == 4
