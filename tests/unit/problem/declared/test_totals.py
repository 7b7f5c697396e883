"""Declared totals: bounds by hand, what is refused, and what is found out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.theory.analysis import ground

pytestmark = pytest.mark.compiles


def walk(state: int, action: int, rng: Any) -> tuple[float, int]:
    """A walk between -2 and 2 that pays 1 or -1 where it ends."""
    after = state + (1 if rng.random() < 0.4 + 0.2 * action else -1)
    return float(after // 2) if abs(after) == 2 else 0.0, after


def leaky(state: int, action: int, rng: Any) -> tuple[float, int]:
    """The same, but every arrival at 1 pays."""
    reward, after = walk(state, action, rng)
    return reward + 0.5 * (after == 1), after


def walker(step: Any = walk, **more: Any) -> sc.MDP:
    common = {"discount": 0.95, "operator": sc.Max(), "reward_range": (-1.0, 1.0)}
    over = lambda state: abs(state) == 2  # noqa: E731
    return mdp(step, **(common | {"terminal": over} | more))


def test_one_step_at_least_is_made_before_an_end() -> None:
    """So the theory has log 2 at the lower end."""
    rewards = {"reward_range": (0.0, 1.0), "total_reward_range": (0.0, 1.0)}
    entropic = walker(discount=0.5, operator=sc.Entropy(1.0), **rewards).facts
    ends = [float(x[0, 0]) for x in ground(entropic).values(None)]
    assert ends == pytest.approx([math.log(2.0), 1.0 + 2.0 * math.log(2.0)])


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
    with pytest.raises(sc.InvalidInput, match=sentence):
        walker(**more)


def test_tables_are_compared_with_payoffs() -> None:
    """Rewards on the way are found before anything runs."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1.0
    R = np.array([[0.0], [1.0], [0.0]])
    common = {"discount": 0.5, "operator": sc.Max(), "terminal": [False, False, True]}
    assert sc.tabular(P, R, payoffs="end", **common).facts.total_range == (0.0, 1.0)
    with pytest.raises(sc.InvalidInput, match="R pays 2 at state 0, action 0"):
        sc.tabular(P, R + 2.0 * (R == 0.0), payoffs="end", **common)


# --- what is found out --------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("certified", {"budget": 5_000, "delta": 0.1}),
        ("smoothcruiser", {"epsilon": 0.9, "delta": 0.1, "target": "value"}),
        ("uct", {"budget": 5_000}),
    ],
)
def test_an_early_payment_is_an_error(method: str, asked: dict[str, Any]) -> None:
    """The first call that pays on the way ends the run with its place."""
    problem = walker(leaky, payoffs="end", discount=0.3)
    with pytest.raises(sc.OracleError, match=r"paid 0\.5 at state .* payoffs='end'"):
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
    with pytest.raises(sc.OracleError, match="An episode was worth"):
        sc.evaluate(walker(leaky, total_reward_range=(-1, 1)), policy, budget=5_000)


def test_certificates_and_fingerprints_name_what_is_declared() -> None:
    """Both declarations are assumptions, and change the fingerprint."""
    declared = walker(payoffs="end", total_reward_range=(-1.0, 0.5))
    answer = sc.plan(declared, method="certified", delta=0.1, budget=200)
    words = " ".join(answer.certificate.assumptions)
    assert "payoffs='end'" in words
    assert "total in [-1, 0.5]" in words
    declarations = [{}, {"payoffs": "end"}]
    declarations += [{"total_reward_range": (-1.0, high)} for high in (1.0, 0.5)]
    assert len({fingerprint(walker(**more)).digest for more in declarations}) == 4


def test_another_operator_keeps_the_total() -> None:
    """The total is one of rewards: no operator changes it."""
    declared = walker(payoffs="end").facts
    assert declared.under(sc.Entropy(1.0)).total_range == declared.total_range
