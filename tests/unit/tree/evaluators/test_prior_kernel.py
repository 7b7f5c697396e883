"""The rules of searches by a prior, against numbers computed by hand and the published
formulas.
"""

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.tree.kernels import rules_kernel as rules
from smoothcruiser.tree.kernels.evaluator_kernel import GumbelRoot


def rule_of(method):
    return method.rule(sc.Max())


def test_puct_selects_by_the_published_formula():
    """Four actions, N = 1 + 10; c = 1.5 + log((11 + 19652) / 19652)."""
    x, n, w = [0.4, 0.1, -0.2, 0.0], [6, 3, 1, 0], [0.4, 0.3, 0.2, 0.1]
    rule = rule_of(sc.PUCT(exploration=1.5))
    c = 1.5 + math.log((11 + 19652) / 19652)
    scores = [
        q + c * p * math.sqrt(11) / (1 + m) for q, m, p in zip(x, n, w, strict=True)
    ]
    # 0.4 + 0.284, 0.1 + 0.373, -0.2 + 0.498, 0 + 0.498
    assert scores == pytest.approx([0.6844, 0.4733, 0.2978, 0.4978], abs=1e-3)
    assert rules.prior_pick(rule, x, n, w, 4) == int(np.argmax(scores)) == 0
    assert rules.prior_pick(rule_of(sc.PUCT(exploration=6.0)), x, n, w, 4) == 3


def test_puct_without_a_constant_does_not_depend_on_the_scale():
    rng = np.random.default_rng(1)
    rule = rule_of(sc.PUCT())
    for _ in range(50):
        x, n = rng.normal(size=5), rng.integers(0, 9, size=5)
        w = rng.dirichlet(np.ones(5))
        picked = {
            rules.prior_pick(rule, a * x + b, n, w, 5) for a, b in [(1, 0), (64, 7)]
        }
        assert len(picked) == 1


def test_at_first_the_prior_decides():
    x, n = [0.0] * 3, [0] * 3
    for method in (sc.PUCT(), sc.PUCT(exploration=1.0), sc.Gumbel()):
        rule, w = rule_of(method), [0.2, 0.5, 0.3]
        if method.name == "puct":
            assert rules.prior_pick(rule, x, n, w, 3) == 1
        else:
            assert (
                rules.improved_pick(rule, x, n, w, 0.0, 3, [0.0] * 3, [0.0] * 3) == 1
            )


def test_sequential_halving_gives_each_phase_its_share():
    """16 actions in 64 simulations: 4 phases of 16: 1, 2, 4 and 8 visits each."""
    plan = rules.considered_visits(16, 64)
    assert plan[:16] == [0] * 16
    assert plan[16:32] == [1] * 8 + [2] * 8
    assert plan[32:48] == [3] * 4 + [4] * 4 + [5] * 4 + [6] * 4
    assert plan[48:] == sorted(2 * list(range(7, 15)))
    assert rules.considered_visits(4, 8) == [0, 0, 0, 0, 1, 1, 2, 2]
    assert rules.considered_visits(1, 3) == [0, 1, 2]
    assert rules.considered_visits(5, 3) == [0, 0, 0]


def test_halving_visits_what_the_plan_says():
    """On a bandit whose values are known, visits fall by halves in their order."""
    values, K = np.linspace(1.0, 0.0, 8), 8
    rule, w = rule_of(sc.Gumbel(visit_offset=500.0, value_scale=1.0)), [1 / K] * K
    root = GumbelRoot(
        np.zeros(K), np.zeros(K, np.int64), np.array(rules.considered_visits(K, 48))
    )
    n = [0] * K
    for _ in range(48):
        n[
            rules.halving_pick(rule, values, n, w, 0.5, range(K), K, root, [0.0] * K)
        ] += 1
    # phases of 16 simulations: 2 each of 8, then 4 each of 4, then 8 each of 2
    assert n == [14, 14, 6, 6, 2, 2, 2, 2]
    assert (
        rules.halving_pick(rule, values, n, w, 0.5, range(K), K, root, [0.0] * K) == -1
    )


def test_completed_values_and_their_transform():
    """v_mix = (v + N <p, q> / sum p) / (1 + N) for what was not tried."""
    rule = rule_of(sc.Gumbel(value_scale=0.5, visit_offset=10.0))
    x, n, w, y = [1.0, 3.0, 9.9], [1, 2, 0], [0.2, 0.6, 0.2], [0.0] * 3
    rules.transform_values(rule, x, n, w, 2.0, 3, y)
    mixed = (2.0 + 3 * (0.2 * 1.0 + 0.6 * 3.0) / 0.8) / 4  # 2.375
    scale = (10 + 2) * 0.5
    assert y == pytest.approx([0.0, scale, scale * (mixed - 1.0) / 2.0])


def test_the_improved_policy_improves():
    """sum pi' q >= sum pi q for any values (Danihelka et al. 2022, section 4)."""
    rng = np.random.default_rng(2)
    rule = rule_of(sc.Gumbel())
    for _ in range(200):
        q, w = rng.normal(size=6), rng.dirichlet(np.ones(6))
        n, p, y = rng.integers(1, 5, size=6), np.zeros(6), np.zeros(6)
        rules.improved_policy(rule, q, n, w, 0.0, 6, y, p)
        assert p.sum() == pytest.approx(1.0)
        assert p @ q >= w @ q - 1e-12
        y = (q - q.min()) / (q.max() - q.min()) * (50 + n.max()) * 0.1
        assert p == pytest.approx(w * np.exp(y) / (w @ np.exp(y)))


def test_shares_of_a_prior():
    out = [0.0] * 2
    assert rules.shares_of([1.0, 5.0, 3.0], [0, 2], 2, out)
    assert out == [0.25, 0.75]
    for bad in ([0.0, 1.0, 0.0], [-1.0, 0.0, 2.0], [math.nan, 1.0, 1.0]):
        assert not rules.shares_of(bad, [0, 2], 2, out)
    assert rules.logit(0.0) == rules.LEAST_LOGIT
