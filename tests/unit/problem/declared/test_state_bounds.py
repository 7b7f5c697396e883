"""Bounds on V that are functions of the state: what is accepted, and what is said
where an answer proves them false.
"""

from dataclasses import replace

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.bounds import bounds_at, middle_at
from smoothcruiser.problem.fingerprint import fingerprint


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
