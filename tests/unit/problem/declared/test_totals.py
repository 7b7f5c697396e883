"""Declared totals: bounds by hand, what is refused, and what is found out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.theory.analysis import ground

pytestmark = pytest.mark.compiles

LOG2 = math.log(2.0)


def walk(state: int, action: int, rng: Any) -> tuple[float, int]:
    """A walk between -2 and 2 that pays 1 or -1 where it ends."""
    after = state + (1 if rng.random() < 0.4 + 0.2 * action else -1)
    return float(after // 2) if abs(after) == 2 else 0.0, after


def leaky(state: int, action: int, rng: Any) -> tuple[float, int]:
    """The same, but every arrival at 1 pays."""
    reward, after = walk(state, action, rng)
    return reward + 0.5 * (after == 1), after


def walker(step: Any = walk, **more: Any) -> sc.MDP:
    common: dict[str, Any] = {
        "num_actions": 2,
        "discount": 0.95,
        "operator": sc.Max(),
        "reward_range": (-1.0, 1.0),
        "terminal": lambda state: abs(state) == 2,
        "initial_state": 0,
    }
    return sc.MDP(step, **(common | more))


def facts(**more: Any) -> Facts:
    common = {"operator": sc.Max(), "reward_range": (-1.0, 1.0), "terminals": True}
    return Facts(2, 2, 0.5, **(common | more))


# --- bounds, by hand ----------------------------------------------------------


def test_one_reward_at_the_end_bounds_value_and_action_values() -> None:
    """Plain rewards allow 20 in 1/(1 - 0.95) steps, one reward at the end 1."""
    assert walker().facts.value_bounds() == pytest.approx((-20.0, 20.0))
    paid = walker(payoffs="end").facts
    assert paid.value_bounds() == (-1.0, 1.0)
    assert paid.q_bounds() == (-1.0, 1.0)
    assert walker(payoffs="end", reward_range=(0.25, 1.0)).facts.total_range == (0, 1)


def test_the_regularizer_is_added_for_every_step() -> None:
    """Total in [0, 1], F(0) = log 2 in each of up to 2 discounted steps."""
    entropic = facts(operator=sc.Entropy(1.0), total_range=(0.0, 1.0))
    assert entropic.value_bounds() == pytest.approx((0.0, 1.0 + 2.0 * LOG2))
    assert entropic.q_bounds() == pytest.approx((0.0, 1.0 + LOG2))
    # one step at least is made, so the theory has log 2 at the lower end
    low, high = ground(entropic).values(None)
    assert (low[0, 0], high[0, 0]) == pytest.approx((LOG2, 1.0 + 2.0 * LOG2))


def test_with_one_step_left_both_ranges_count() -> None:
    """Rewards in [-1, 1], total in [-3, 0.5]: one step pays -1 to 0.5."""
    cut = facts(horizon=4, total_range=(-3.0, 0.5))
    assert cut.value_bounds(remaining=1) == pytest.approx((-1.0, 0.5))
    assert cut.q_bounds(remaining=1) == pytest.approx((-1.0, 0.5))
    assert cut.value_bounds(remaining=0) == (0.0, 0.0)


def test_an_end_is_worth_0_whatever_the_total() -> None:
    """A total of 1 from everywhere: a move into an end is worth its reward alone."""
    sure = facts(total_range=(1.0, 1.0), reward_range=(0.0, 1.0))
    assert sure.value_bounds() == (1.0, 1.0)
    assert sure.q_bounds() == (1.0, 1.0)
    assert facts(total_range=(0.5, 1.0)).q_bounds() == pytest.approx((0.5, 1.0))


def test_strict_turns_keep_the_offset_of_the_mover() -> None:
    """Total in [0, 1] around +-log(2)/1.5; with no step left it is 0."""
    turns = facts(
        operator=sc.Entropy(1.0), terminals=False, game=True, alternating=True,
        total_range=(0.5, 1.0), horizon=3,
    )  # fmt: skip
    offset = LOG2 * (1.0 + 0.5**3) / 1.5
    assert turns.value_bounds(1) == pytest.approx((0.5 + offset, 1.0 + offset))
    assert turns.value_bounds(2) == pytest.approx((0.5 - offset, 1.0 - offset))
    assert turns.value_bounds(1, 0) == (0.0, 0.0)


def test_a_total_makes_a_schedule_cheaper() -> None:
    """The same epsilon costs less where values are known to be closer together."""
    plain = walker(discount=0.5, operator=sc.Entropy(2.0))
    paid = walker(discount=0.5, operator=sc.Entropy(2.0), payoffs="end")
    prices = [sc.explain(p, epsilon=0.6, delta=0.1).num_calls for p in (plain, paid)]
    assert prices[1] < 0.6 * prices[0]


# --- what is refused ----------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"payoffs": "later"}, "payoffs must be one of 'every step', 'end', got 'la"),
        ({"payoffs": None}, "payoffs must be one of"),
        ({"payoffs": "end", "terminal": None}, "payoffs='end' needs ends"),
        ({"payoffs": "end", "terminal": False}, "payoffs='end' needs ends"),
        ({"total_reward_range": (1, 0)}, "must be two finite numbers"),
        ({"total_reward_range": (0, math.inf)}, "must be two finite numbers"),
        ({"total_reward_range": 3}, "must be two finite numbers"),
        ({"total_reward_range": (21, 30)}, "excludes every total of rewards"),
        ({"total_reward_range": (2, 3), "horizon": 5}, "with 1 of 5 steps left"),
    ],
)
def test_what_cannot_hold_is_refused(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        walker(**more)


def test_tables_are_compared_with_payoffs() -> None:
    """Rewards on the way are found before anything runs."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1.0
    R = np.array([[0.0], [1.0], [0.0]])
    common = {"discount": 0.5, "operator": sc.Max(), "terminal": [False, False, True]}
    assert sc.tabular(P, R, payoffs="end", **common).facts.total_range == (0.0, 1.0)
    with pytest.raises(InvalidInput, match="R pays 2 at state 0, action 0"):
        sc.tabular(P, R + 2.0 * (R == 0.0), payoffs="end", **common)


# --- what is found out --------------------------------------------------------


@pytest.mark.parametrize("method", ["certified", "smoothcruiser", "uct"])
def test_an_early_payment_is_an_error(method: str) -> None:
    """The first call that pays on the way ends the run with its place."""
    asked: dict[str, Any] = {"budget": 5_000}
    if method != "uct":
        asked |= {"delta": 0.1}
    if method == "smoothcruiser":
        asked = {"epsilon": 0.9, "delta": 0.1, "target": "value"}
    problem = walker(leaky, payoffs="end", discount=0.3)
    with pytest.raises(OracleError, match=r"paid 0\.5 at state .* payoffs='end'"):
        sc.plan(problem, method=method, **asked)


def test_check_plays_episodes_for_the_total() -> None:
    """A total that is too narrow is found; one that holds is not."""
    assert sc.check(walker(total_reward_range=(-1.0, 1.0))).ok
    report = sc.check(walker(leaky, total_reward_range=(-1.0, 1.0)))
    found = {f.name: f for f in report.findings}["totals"]
    assert found.verdict == "wrong"
    assert "total_reward_range" in found.sentence
    assert not sc.check(walker(leaky, payoffs="end")).ok


def test_evaluate_refuses_an_episode_beyond_the_total() -> None:
    """Rollouts are compared with what the total allows."""
    policy = lambda state: [0.0, 1.0]  # noqa: E731
    fine = sc.evaluate(walker(payoffs="end"), policy, budget=2_000)
    assert -1.0 <= fine.interval[0] <= fine.interval[1] <= 1.0
    with pytest.raises(OracleError, match="An episode was worth"):
        sc.evaluate(walker(leaky, total_reward_range=(-1, 1)), policy, budget=5_000)


def test_certificates_and_fingerprints_name_what_is_declared() -> None:
    """Both declarations are assumptions, and change the fingerprint."""
    declared = walker(payoffs="end", total_reward_range=(-1.0, 0.5))
    answer = sc.plan(declared, method="certified", delta=0.1, budget=200)
    words = " ".join(answer.certificate.assumptions)
    assert "payoffs='end'" in words
    assert "total in [-1, 0.5]" in words
    digests = {
        fingerprint(p).digest
        for p in (
            walker(),
            walker(payoffs="end"),
            walker(total_reward_range=(-1.0, 1.0)),
            walker(total_reward_range=(-1.0, 0.5)),
        )
    }
    assert len(digests) == 4


def test_another_operator_keeps_the_total() -> None:
    """The total is one of rewards: no operator changes it."""
    declared = walker(payoffs="end").facts
    assert declared.under(sc.Entropy(1.0)).total_range == declared.total_range


def test_an_operator_of_unknown_shift_leaves_it_aside() -> None:
    """Lemma T needs F(Q + c) = F(Q) + c."""

    class Own(type(sc.Max())):  # type: ignore[misc]
        shift_invariant = False

    plain = facts(operator=Own())
    assert replace(plain, total_range=(-1.0, 1.0)).value_bounds() == (
        plain.value_bounds()
    )
