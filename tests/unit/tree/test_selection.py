"""The six methods' rules on one node, against numbers computed by hand from
their papers' formulas.
"""

import math

import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.tree import selection
from smoothcruiser.tree.search_rules import TREE_SEARCHES, tree_search


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
