"""Rules of tree searches against numbers computed by hand and the published formulas;
Alg. 4-5: the template computes discounted returns, and sampleV of the paper is one of its
instances, to the last bit.
"""

import math

import numpy as np
import pytest
from tree_worlds import mdp
from worlds import unverified_schedule

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.schedule.paper_schedule import paper_schedule
from smoothcruiser.tree import selection
from smoothcruiser.tree.kernels import rules_kernel as rules
from smoothcruiser.tree.kernels.evaluator_kernel import GumbelRoot
from smoothcruiser.tree.sample_v import SampleV
from smoothcruiser.tree.search_rules import TREE_SEARCHES, tree_search
from smoothcruiser.tree.template import Selection, generic_search, search


def rule(method, operator=None):
    return method.rule(operator or sc.Max())


def policy(method, x, visits, h=None, w=None):
    p, y = [0.0] * len(x), [0.0] * len(x)
    selection.descent_policy(
        rule(method), x, w or [1.0] * len(x), h or [0.0] * len(x), visits, y, p
    )
    return p


@pytest.mark.parametrize(
    ("c", "x", "visits", "slot"),
    [
        (1.0, [0.5, 0.4, 0.0], [3, 4, 0], 2),  # what was not tried
        (1.0, [0.5, 0.4], [90, 10], 1),  # 0.4 + sqrt(log 100 / 10), the rare one
        (0.1, [0.5, 0.4], [90, 10], 0),
    ],
)
def test_uct_takes_every_action_once_then_the_upper_bound(c, x, visits, slot):
    """argmax Q + c sqrt(log N / n) (Kocsis and Szepesvari)."""
    method, total = rule(sc.UCT(exploration=c)), sum(visits)
    pick = selection.upper_pick(method, x, visits, len(x), total, stream(0))
    assert pick == slot


def test_uct_without_a_constant_scales_with_the_values():
    """None is the largest |Q|: multiplying all values by 1000 changes no choice."""
    r = rule(sc.UCT())
    for n in ([90, 10], [60, 40], [99, 1]):
        small = selection.upper_pick(r, [0.5, 0.4], n, 2, 100, stream(0))
        assert small == selection.upper_pick(r, [500.0, 400.0], n, 2, 100, stream(0))


@pytest.mark.parametrize(
    ("method", "visits", "share"),
    [
        (sc.MENTS(exploration=0.1), 0, 1.0),
        (sc.MENTS(exploration=0.1), 999, pytest.approx(0.4 / math.log(1000))),
        (sc.BTS(exploration=0.1), 0, pytest.approx(0.1)),
        (sc.BTS(exploration=2.0), 0, 1.0),
        (sc.MENTS(exploration=0.0), 5, 0.0),
    ],
)
def test_e2w_share_counts_actions_and_decays_with_the_logarithm(method, visits, share):
    """l = e |A| / log(N + 1) for MENTS (Xiao et al.), e / log(N + e) for BTS
    (Painter et al.), at most 1.
    """
    assert selection.uniform_share(rule(method), 4, visits) == share


def test_ments_descends_by_softmax_and_uniform():
    share = 0.2 * 2 / math.log(101)
    odds = math.exp(1.0 / 0.5)
    p = policy(sc.MENTS(temperature=0.5, exploration=0.2), [1.0, 0.0], 100)
    assert p == pytest.approx(
        [
            (1 - share) * odds / (1 + odds) + share / 2,
            (1 - share) / (1 + odds) + share / 2,
        ]
    )


def test_tents_drops_a_bad_action():
    """sparsemax of (1, 0)/0.5 is (1, 0): only the uniform share is left for the
    second action.
    """
    assert policy(sc.TENTS(temperature=0.5, exploration=0.0), [1.0, 0.0], 10) == [
        1.0,
        0.0,
    ]
    assert policy(
        sc.TENTS(temperature=2.0, exploration=0.0), [1.0, 0.0], 10
    ) == pytest.approx([0.75, 0.25])


def test_tents_ends_on_ties():
    """Values where an action lies at the threshold up to rounding: the
    projection is found, and found in finite time.
    """
    for x, t in (([0.98, 0.56, 0.64], 0.5), ([0.63, 0.54, 0.2, 0.65], 0.2)):
        p = policy(sc.TENTS(temperature=t, exploration=0.0), x, 10)
        assert sum(p) == pytest.approx(1.0)
        tau = (
            sum(v / t for v, share in zip(x, p, strict=True) if share > 1e-9) - 1.0
        ) / sum(share > 1e-9 for share in p)
        assert p == pytest.approx([max(v / t - tau, 0.0) for v in x], abs=1e-9)


def test_rents_leans_on_its_prior():
    p = policy(
        sc.RENTS(temperature=1.0, exploration=0.0), [0.0, 0.0], 10, w=[0.9, 0.1]
    )
    assert p == pytest.approx([0.9, 0.1])


def test_rents_forgets_what_was_never_tried():
    """An action of prior weight 0 counts for nothing, however high its value
    and however cold the search.
    """
    cold = sc.RENTS(temperature=1e-4, exploration=0.0)
    assert policy(cold, [0.2, 0.9, 0.1], 10, w=[0.5, 0.0, 0.5]) == [1.0, 0.0, 0.0]
    assert selection.passed_up(rule(cold), [0.2, 0.9], [3, 0], [1.0, 0.0]) == 0.2
    shares = [7.0, 7.0, 7.0]
    assert selection.visit_shares([3, 0, 1], 3, shares) == 4
    assert shares == [0.75, 0.0, 0.25]
    # nothing to say: the prior stays what it was
    assert selection.visit_shares([0, 0], 2, shares) == 0
    assert shares == [0.75, 0.0, 0.25]


def test_dents_values_entropy_less_and_less():
    """softmax((Q + b(N) H)/a) with b = b0 / log(N + e): with H = (1, 0) and
    equal Q the log-odds are b/a.
    """
    method = sc.DENTS(search_temperature=0.5, entropy_temperature=0.8, exploration=0.0)
    for visits in (0, 10, 1000):
        p = policy(method, [0.3, 0.3], visits, h=[1.0, 0.0])
        assert math.log(p[0] / p[1]) == pytest.approx(
            0.8 / math.log(visits + math.e) / 0.5
        )
    assert policy(
        sc.BTS(search_temperature=0.5, exploration=0.0), [0.3, 0.3], 10, h=[1.0, 0.0]
    ) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("method", "weights", "operator"),
    [
        (sc.MENTS(temperature=0.5), [1.0] * 3, sc.Entropy(0.5)),
        (sc.TENTS(temperature=0.5), [1.0] * 3, sc.Sparsemax(0.5)),
        (sc.RENTS(temperature=0.5), [1.0, 1.0, 2.0], sc.KL(0.5, (1.0, 1.0, 2.0))),
    ],
    ids=str,
)
def test_what_is_passed_up(method, weights, operator):
    x, n = [1.0, 0.5, 2.0], [1, 1, 0]
    # an untried action does not count for a maximum
    assert selection.passed_up(rule(sc.BTS()), x, n, [1.0] * 3) == 1.0
    passed = selection.passed_up(rule(method), x, n, weights)
    assert passed == pytest.approx(operator.value(x), rel=1e-15)


def test_entropy_below_adds_up():
    """Uniform over two actions with entropies 1 and 3 below: log 2 + 2."""
    assert selection.entropy_below([0.5, 0.5], [1.0, 3.0], 2) == pytest.approx(
        math.log(2.0) + 2.0
    )


@pytest.mark.parametrize(
    ("method", "x", "n", "action"),
    [
        # visits first: ties by value, then the first
        (sc.UCT(), [0.5, 0.9, 0.1], [7, 7, 7], 1),
        (sc.UCT(), [0.9, 0.5, 0.9], [7, 7, 7], 0),
        (sc.UCT(), [0.9, 0.5], [6, 7], 1),
        # value first: ties by visits, then the first
        (sc.MENTS(), [0.9, 0.9, 0.9], [3, 7, 5], 1),
        (sc.MENTS(), [0.9, 0.9, 0.9], [7, 3, 7], 0),
        (sc.MENTS(), [0.8, 0.9], [70, 3], 1),
        # an action that was not tried never wins, wherever it stands
        (sc.MENTS(), [5.0, 0.1], [0, 1], 1),
        (sc.MENTS(), [0.1, 5.0], [1, 0], 0),
        (sc.UCT(), [5.0, -1.0, -2.0], [0, 0, 1], 2),
        # none was tried: by value, then the first
        (sc.MENTS(), [0.1, 0.2, 0.2], [0, 0, 0], 1),
    ],
)
def test_ties_between_recommendations(method, x, n, action):
    assert selection.recommended_slot(rule(method), x, n, len(x)) == action


@pytest.mark.parametrize(
    "make",
    [
        lambda: sc.UCT(exploration=-1.0),
        lambda: sc.MENTS(temperature=0.0),
        lambda: sc.MENTS(exploration=math.nan),
        lambda: sc.BTS(search_temperature=-1),
        lambda: sc.DENTS(entropy_temperature=math.inf),
        lambda: sc.UCT(depth=0),
        lambda: sc.UCT(max_nodes=True),
        lambda: sc.TENTS(initial_q=math.nan),
        lambda: sc.BTS(average_returns=1),
        lambda: tree_search("ments", {"heat": 1.0}),
        lambda: tree_search("alpha"),
    ],
)
def test_methods_refuse_bad_parameters(make):
    with pytest.raises(sc.InvalidInput):
        make()


def test_methods_are_data():
    six = {"uct", "ments", "rents", "tents", "bts", "dents"}
    assert set(TREE_SEARCHES) == six | {"puct", "gumbel"}
    assert tree_search("ments", {"temperature": 0.5}) == sc.MENTS(temperature=0.5)
    assert str(sc.MENTS(temperature=0.5)) == "ments(temperature=0.5)"
    assert hash(sc.DENTS()) == hash(sc.DENTS())


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


class Line:
    """A walk 0, 1, 2, ... with reward s + 1: every number below is computed by hand."""

    def __init__(self, leaf_depth, end=None, head=0.0, norm=1.0):
        self.leaf_depth, self.end, self.head, self.norm, self.seen = (
            leaf_depth,
            end,
            head,
            norm,
            [],
        )

    def oracle(self, state, action):
        return float(state + action), state + 1, state + 1 == self.end

    def is_leaf(self, state, depth):
        return depth >= self.leaf_depth

    def select_action(self, state, depth):
        return Selection(1, self.head, self.norm)

    def evaluate_leaf(self, state, depth):
        return 100.0 * state

    def backup(self, path, leaf_value):
        self.seen.append(([(s.state, s.reward, s.ended) for s in path], leaf_value))


def test_alg_5_to_the_letter():
    """1 + 2/2 + 3/4 + 300/8, with head 0 and norm 1."""
    rules = Line(3)
    assert search(rules, 0, 0.5) == 1.0 + 1.0 + 0.75 + 300.0 / 8.0
    assert rules.seen == [([(0, 1.0, False), (1, 2.0, False), (2, 3.0, False)], 300.0)]


def test_an_ended_episode_has_no_leaf():
    rules = Line(3, end=2)
    assert search(rules, 0, 0.5) == 1.0 + 1.0
    assert rules.seen == [([(0, 1.0, False), (1, 2.0, True)], 0.0)]


def test_heads_and_norms_multiply_down():
    """h + w (R + gamma (h + w (R + gamma leaf))) with h = 10, w = 1/2."""
    inner = 10.0 + 0.5 * (2.0 + 0.5 * 200.0)
    assert search(Line(2, head=10.0, norm=0.5), 0, 0.5) == 10.0 + 0.5 * (
        1.0 + 0.5 * inner
    )


def test_alg_4_repeats_until_told():
    tally = generic_search(Line(1), 0, 0.5, until=lambda done: done >= 5)
    assert (tally.simulations, tally.mean) == (5, 1.0 + 50.0)
    assert generic_search(Line(1), 0, 0.5, until=lambda done: True).simulations == 1


def tiny_paper_schedule(facts, rollouts=3, samples=2):
    """A table of the paper's shape, rollouts over a plug-in over the constant,
    cut down to a few draws a level.

    The paper's own counts start at 10^6; what is tested is the mapping, which
    does not depend on them. The schedule is built without the verifier, which
    would rightly refuse it: it promises nothing.
    """
    full = paper_schedule(facts, epsilon=0.3, delta_prime=0.1)
    levels = [
        sc.Level(sc.Kind.CONSTANT),
        sc.Level(sc.Kind.PLUGIN, samples, 0),
        sc.Level(sc.Kind.PLUGIN, samples, 1),
    ]
    for _ in range(rollouts):
        levels.append(sc.Level(sc.Kind.ROLLOUT, samples, 1, len(levels) - 1))
    return unverified_schedule(facts, levels, full.clip)


GARNET, GAME = (
    "garnet:states=6,actions=3,seed=4",
    "random-game:states=6,actions=2,seed=1",
)
PROBLEMS = [
    sc.make(GARNET, discount=0.5, temperature=0.7),
    sc.make(GARNET, discount=0.5, temperature=0.7, operator="square-root"),
    sc.make(GARNET, discount=0.5, operator=sc.KL(0.3, (0.2, 0.3, 0.5))),
    sc.make(GAME, discount=0.4, temperature=0.5),
]


def both_ways(problem, schedule, seed, count):
    """Samples and calls of Alg. 2 (the reference engine) and of Alg. 5, on one stream."""
    row = schedule.root.child
    direct, host = (ReferenceEngine(Job(problem, schedule, 0)) for _ in range(2))
    direct.rng, host.rng = stream(seed, 0, 0), stream(seed, 0, 0)
    expected = [direct.sample_v(row, 0) for _ in range(count)]
    # lends its checked, counted oracle and its stream
    rules = SampleV(problem, schedule, row, host.oracle, host.rng.random)
    samples = [search(rules, 0, problem.discount) for _ in range(count)]
    assert host.calls == direct.calls
    return samples, expected, host.calls


@pytest.mark.compiles
@pytest.mark.parametrize(
    "problem", PROBLEMS, ids=lambda p: f"{p.name}-{p.operator.name}"
)
def test_sample_v_is_an_instance(problem):
    """The engine sums around a centre and the template does not, so the last digits of
    the same samples may differ.
    """
    schedule = tiny_paper_schedule(problem.facts)
    samples, expected, calls = both_ways(problem, schedule, 11, 20)
    assert samples == pytest.approx(expected, rel=1e-14)
    assert calls > 20
    assert len(set(expected)) > 1


def test_a_terminal_state_ends_the_descent():
    """Two steps of reward 1/2 and two of entropy log 2, since both actions look alike."""
    known = {"operator": sc.Entropy(1.0), "terminal": True}
    problem = mdp(lambda s, a, rng: (0.5, s + 1, s + 1 == 2), **known)
    samples, expected, _ = both_ways(problem, tiny_paper_schedule(problem.facts), 0, 1)
    assert samples == expected
    assert expected == [pytest.approx(1.5 * (0.5 + math.log(2.0)))]


def test_blind_levels_are_no_part_of_sample_v():
    levels = (sc.Level(sc.Kind.CONSTANT), sc.Level(sc.Kind.BLIND, continuation=0))
    schedule = unverified_schedule(PROBLEMS[0].facts, levels, (0.0, 1.0))
    with pytest.raises(sc.InvalidInput, match="blind"):
        SampleV(PROBLEMS[0], schedule, 1, lambda s, a: (0.0, s, False), lambda: 0.5)
