"""Declared ends, totals and bounds: what they promise and what refutes them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.checks.probe import walk_blocks
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.bounds import bounds_at, middle_at
from smoothcruiser.problem.facts import expected_steps
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.schedule.alternatives import payable_temperature
from smoothcruiser.schedule.relaxation import relax
from smoothcruiser.theory.analysis import ground


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


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
def test_tables_are_compared_with_the_least_probability():
    """Rounding is forgiven, a rarer outcome is not, nor a change afterwards."""
    assert table([0.1] * 10, min_probability=0.1).min_probability == 0.1
    with pytest.raises(sc.InvalidInput, match=r"needs .* state 0, action 0 .* 0\.2"):
        table([0.8, 0.2], min_probability=0.3)
    with pytest.raises(sc.InvalidInput, match="drop min_probability="):
        replace(table([0.8, 0.2]), min_probability=0.3)


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
def test_auto_says_why_no_search_can_be():
    """There is no schedule to take its place."""
    with pytest.raises(sc.InvalidInput, match=r"certified search alone, and .*'batch"):
        sc.plan(walker(payoffs="end"), epsilon=0.1, delta=0.1, executor="batched")


@pytest.mark.compiles
def test_a_known_model_is_solved():
    """Both ways out are named where both are open."""
    rows = {-1: [(0.5, 0.0, 0), (0.5, -1.0, -2)], 1: [(0.5, 0.0, 0), (0.5, 1.0, 2)]}
    rows[0] = [(0.5, 0.0, -1), (0.5, 0.0, 1)]
    known = walker(outcomes=lambda s, a: rows[s], payoffs="end", min_probability=0.5)
    assert sc.plan(known).value == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(sc.InvalidInput, match=r"method='exact'.*or method='certified"):
        sc.plan(known, method="uct", budget=9)


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
def test_check_counts_outcomes():
    """Two outcomes per pair: none can have more than 1/2 if all have the same."""
    assert sc.check(walker(payoffs="end", min_probability=0.4)).ok
    report = sc.check(walker(payoffs="end", min_probability=0.6))
    assert not report.ok
    assert "min_probability=0.6 leaves room for 1 outcomes" in flat(report)


@pytest.mark.compiles
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


@pytest.mark.compiles
def test_one_step_at_least_is_made_before_an_end():
    """So the theory has log 2 at the lower end."""
    rewards = {"reward_range": (0.0, 1.0), "total_reward_range": (0.0, 1.0)}
    entropic = discounted(discount=0.5, operator=sc.Entropy(1.0), **rewards).facts
    ends = [float(x[0, 0]) for x in ground(entropic).values(None)]
    assert ends == pytest.approx([math.log(2.0), 1.0 + 2.0 * math.log(2.0)])


@pytest.mark.compiles
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


@pytest.mark.compiles
def test_tables_are_compared_with_payoffs():
    """Rewards on the way are found before anything runs."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1.0
    R = np.array([[0.0], [1.0], [0.0]])
    common = {"discount": 0.5, "operator": sc.Max(), "terminal": [False, False, True]}
    assert sc.tabular(P, R, payoffs="end", **common).facts.total_range == (0.0, 1.0)
    with pytest.raises(sc.InvalidInput, match="R pays 2 at state 0, action 0"):
        sc.tabular(P, R + 2.0 * (R == 0.0), payoffs="end", **common)


@pytest.mark.compiles
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


@pytest.mark.compiles
def test_check_plays_episodes_for_the_total():
    """A total that is too narrow is found; one that holds is not."""
    assert sc.check(discounted(total_reward_range=(-1.0, 1.0))).ok
    report = sc.check(discounted(leaky, total_reward_range=(-1.0, 1.0)))
    found = {f.name: f for f in report.findings}["totals"]
    assert found.verdict == "wrong"
    assert "total_reward_range" in found.sentence
    assert not sc.check(discounted(leaky, payoffs="end")).ok


@pytest.mark.compiles
def test_evaluate_refuses_an_episode_beyond_the_total():
    """Rollouts are compared with what the total allows."""
    policy = lambda state: [0.0, 1.0]  # noqa: E731
    fine = sc.evaluate(discounted(payoffs="end"), policy, budget=2_000)
    assert -1.0 <= fine.interval[0] <= fine.interval[1] <= 1.0
    with pytest.raises(sc.OracleError, match="An episode was worth"):
        sc.evaluate(
            discounted(leaky, total_reward_range=(-1, 1)), policy, budget=5_000
        )


@pytest.mark.compiles
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


# --- bounds on values ---------------------------------------------------------


def ends_at_once(state, action, rng):
    """Pays 0.9 and is over: V = 0.9, and r + gamma V of a state with bounds
    [1.9, 2] would be above.
    """
    return 0.9, state, True


ONE = {"num_actions": 1, "operator": sc.Max()}
COLD = {"operator": sc.Entropy(0.1), "terminal": True, "value_bounds": (0.9, 2.1)}
FACTS = mdp(ends_at_once, **COLD).facts


@pytest.mark.compiles
@pytest.mark.parametrize("method", ["smoothcruiser", "sparse-sampling", "certified"])
@pytest.mark.parametrize("seed", range(2))
def test_an_end_is_inside_the_interval(method, seed):
    """Every state that goes on is worth 1.9 to 2; the clip at r + gamma 1.9 =
    0.95 shut out the truth, 0.9.
    """
    problem = mdp(ends_at_once, **ONE, terminal=True, value_bounds=(0.85, 2.0))
    estimate = sc.plan(problem, epsilon=0.05, delta=0.1, method=method, seed=seed)
    low, high = estimate.interval
    assert low <= 0.9 <= high
    for q_low, q_high in estimate.certificate.q_intervals:
        assert q_low <= 0.9 <= q_high
    assert any(
        "value_bounds" in sentence or "as given" in sentence
        for sentence in estimate.certificate.assumptions
    )


@pytest.mark.compiles
def test_bounds_given_for_one_operator_are_dropped_for_another():
    """V of Entropy(0.1) may lie in [0.9, 2.1] and V of another operator outside."""
    assert FACTS.under(FACTS.operator).given_bounds == (0.9, 2.1)
    assert FACTS.under(sc.Max()).given_bounds is None
    plan = relax(FACTS, epsilon=0.5, delta=0.1)
    assert plan.operator == FACTS.operator or plan.schedule.facts.given_bounds is None
    warmer = payable_temperature(FACTS, 0.2, 0.1, "q_values", 10**12)
    assert warmer is not None
    temperature, calls, _ = warmer
    plain = mdp(ends_at_once, operator=sc.Entropy(temperature), terminal=True)
    explained = sc.explain(plain, epsilon=0.2, delta=0.1, method="smoothcruiser")
    assert calls == explained.num_calls


@pytest.mark.parametrize(("discount", "value"), [(0.7, 1.0), (0.99, 30.0)])
def test_tight_bounds_survive_rounding(discount, value):
    """0.3 / (1 - 0.7) = 1 is what the rewards allow, whichever way the last bit
    falls.
    """
    allowed = {"reward_range": (0.1, 0.3), "value_bounds": (value, value)}
    assert mdp(**ONE, **allowed, discount=discount).value_bounds == (value, value)


# --- bounds that depend on the state ------------------------------------------


def step(state, action, rng):
    return 0.5, (state + 1) % 4


def world(lower, upper, gap=1.0, **more):
    """V = 1 everywhere without a regularizer; rewards allow values from 0 to 2."""
    given = {"value_bounds": (lower, upper), "value_gap": gap}
    return mdp(step, operator=sc.Max(), **given, **more)


def bounds_finding(problem):
    (finding,) = [f for f in sc.check(problem).findings if f.name == "bounds"]
    return finding.verdict, finding.sentence


def test_what_the_rewards_exclude_is_cut_off():
    problem = world(lambda s: -0.4, lambda s: 0.6)
    assert bounds_at(problem, 0) == (0.0, 0.6)
    assert middle_at(problem, 0) == 0.3


@pytest.mark.parametrize(
    ("bounds", "gap", "said"),
    [
        ((lambda s: 0.0, lambda s: 1.0), None, "need value_gap="),
        ((0.0, 1.0), 0.5, "value_gap= belongs to value_bounds that are two functions"),
        (None, 0.5, "value_gap= belongs to"),
        ((0.0, lambda s: 1.0), 0.5, "two finite numbers .* or two functions"),
        ((lambda s: 0.0, lambda s: 1.0), -0.1, "value_gap must be a finite number"),
        ((lambda s: 0.0, lambda s: 1.0), "1", "value_gap must be a finite number"),
        ((1.0, 0.0), None, "two finite numbers"),
    ],
)
def test_what_is_no_pair_of_bounds_is_refused(bounds, gap, said):
    with pytest.raises(sc.InvalidInput, match=said):
        mdp(step, operator=sc.Max(), value_bounds=bounds, value_gap=gap)


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (lambda s: 1.0, lambda s: 0.5, "1 and 0.5 at state 0, and the lower bound"),
        (lambda s: 0.0, lambda s: 1.5, "1.5 apart, more than value_gap=1;"),
        (lambda s: float("nan"), lambda s: 1.0, "finite numbers"),
        (lambda s: 0.0, lambda s: float("inf"), "finite numbers"),
        (lambda s: 2.5, lambda s: 3.0, "the rewards allow values from 0 to 2;"),
        (lambda s: "a", lambda s: 3.0, r"value_bounds\[0\] must return a number"),
        (lambda s: 1 / s, lambda s: 3.0, r"value_bounds\[0\] raised ZeroDivision"),
    ],
)
@pytest.mark.compiles
@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
def test_an_answer_that_proves_them_false_is_named_with_its_state(
    lower, upper, said, method
):
    problem = world(lower, upper)
    with pytest.raises(sc.OracleError, match=said):
        sc.plan(problem, method=method, epsilon=0.3, delta=0.1, executor="python")


def test_the_rounding_of_a_critic_is_forgiven():
    """(1 + 0.1) - (1 - 0.1) is above 0.2 in double precision."""
    problem = world(lambda s: 1 - 0.1, lambda s: 1 + 0.1, gap=0.2)
    assert (1 + 0.1) - (1 - 0.1) > 0.2
    assert middle_at(problem, 0) == pytest.approx(1.0)
    exact = world(lambda s: 2.0 + 1e-13, lambda s: 2.0 + 1e-13, gap=0.0)
    assert bounds_at(exact, 0) == pytest.approx((2.0, 2.0))


@pytest.mark.compiles
def test_bounds_that_do_not_depend_on_the_state_alone_are_seen():
    moods = iter(np.linspace(0.5, 0.9, 10_000))
    problem = world(lambda s: next(moods), lambda s: 1.0)
    with pytest.raises(sc.OracleError, match="value_bounds answered differently"):
        sc.plan(problem, method="smoothcruiser", epsilon=0.4, delta=0.1)

    moods = iter([0.5, 0.75] * 10_000)  # seen where nothing is sampled, too
    rows = {"outcomes": lambda s, a: [(1.0, 0.5, s)]}
    known = world(lambda s: next(moods), lambda s: 1.0, **rows)
    with pytest.raises(sc.OracleError, match="value_bounds answered differently"):
        sc.plan(known, method="certified", epsilon=0.01)


def test_check_divides_a_row_by_its_sum():
    """Shares that sum to 1 + 9e-7 are allowed: V = 100 is inside its bounds."""
    share = 0.5 * (1.0 + 9e-7)
    known = mdp(
        lambda s, a, rng: (1.0, int(rng.integers(2))),
        **{"num_actions": 1, "discount": 0.99, "operator": sc.Max()},
        outcomes=lambda s, a: [(share, 1.0, 0), (share, 1.0, 1)],
        value_bounds=(lambda s: 100.0 - 1e-9, lambda s: 100.0),
        value_gap=1e-8,
    )
    assert bounds_finding(known)[0] == "ok"


def test_the_fingerprint_has_the_functions_and_the_gap():
    problem = world(lambda s: 0.5, lambda s: 1.0)
    same, stored = fingerprint(problem), fingerprint(problem).parts
    assert same.changes(stored) == ()
    wider = replace(problem, value_gap=0.75)
    assert fingerprint(wider).changes(stored) == ("value_gap",)
    other = replace(problem, value_bounds=(lambda s: 0.6, lambda s: 1.0))
    assert fingerprint(other).changes(stored) != ()


def test_another_operator_drops_them():
    facts = world(lambda s: 0.5, lambda s: 1.0).facts
    assert facts.given_gap == 1.0
    assert facts.under(sc.Entropy(1.0)).given_gap is None
    assert facts.under(sc.Max()) == facts


@pytest.mark.compiles
def test_the_certificate_names_the_claim():
    problem = world(lambda s: 0.75, lambda s: 1.25, gap=0.5)
    for method in ("smoothcruiser", "certified"):
        found = sc.plan(problem, method=method, epsilon=0.4, delta=0.1)
        (claim,) = [x for x in found.certificate.assumptions if "lower(state)" in x]
        assert claim.startswith("lower(state) <= V(state) <= upper(state)")
        assert "at most 0.5 apart" in claim
        assert any("value_bounds answer by the state" in x
                   for x in found.certificate.assumptions)  # fmt: skip
        assert 0.75 <= found.interval[0] <= 1.0 <= found.interval[1] <= 1.25


@pytest.mark.compiles
def test_a_contradiction_names_the_bounds():
    """V = 1, and both bounds say at most 0.7: one backup excludes that."""
    problem = world(lambda s: 0.6, lambda s: 0.7, gap=0.1, deterministic=True)
    with pytest.raises(sc.OracleError, match=r"exclude each other.*lower\(state\) <="):
        sc.plan(problem, method="certified", epsilon=0.01, delta=0.1)


@pytest.mark.compiles
def test_an_exact_answer_says_where_they_fail_and_stays_right():
    P, R = np.eye(3)[[[1], [2], [0]]], np.full((3, 1), 0.5)
    problem = sc.tabular(P, R, discount=0.5, operator=sc.Max())
    wrong = replace(
        problem,
        value_bounds=(lambda s: 0.9 + 0.2 * (s == 2), lambda s: 1.3),
        value_gap=0.4,
    )
    found = sc.plan(wrong, method="exact")
    assert found.value == pytest.approx(1.0)
    (note,) = [n for n in found.notes if "value_bounds" in n]
    assert "state 2 is worth 1, and they say 1.1 to 1.3" in note
    right = replace(wrong, value_bounds=(lambda s: 0.9, lambda s: 1.3))
    assert not any("value_bounds" in n for n in sc.plan(right, method="exact").notes)


@pytest.mark.compiles
def test_check_finds_bounds_that_one_backup_excludes():
    """With upper = 0.6 at 1 and the rest right, state 0 is worth 0.8 at most; 0.9
    is its lower bound.
    """
    wrong = world(
        lambda s: 0.9 if s != 1 else 0.5,
        lambda s: 1.1 if s != 1 else 0.6,
        gap=0.2,
        deterministic=True,
    )
    verdict, sentence = bounds_finding(wrong)
    assert (verdict, "cannot hold" in sentence) == ("wrong", True)
    right = replace(wrong, value_bounds=(lambda s: 0.9, lambda s: 1.1))
    verdict, sentence = bounds_finding(right)
    assert (verdict, "fit one backup" in sentence) == ("ok", True)
