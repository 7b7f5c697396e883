"""QuantEcon's models: a ``DiscreteDP`` in both forms, and -inf for what is not feasible.

Laws: the solution is QuantEcon's own; what is not feasible is illegal; -inf in R of
``tabular`` means the same; what cannot be read is refused in one sentence.
"""

import numpy as np
import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

INFINITE = -np.inf
MAX = {"discount": 0.5, "operator": sc.Max()}


class Plain:
    """What QuantEcon's class holds, without the library."""

    def __init__(self, R, Q, beta, s_indices=None, a_indices=None):
        self.R, self.Q, self.beta = np.asarray(R, dtype=float), np.asarray(Q), beta
        self.s_indices, self.a_indices = s_indices, a_indices


def random_model(seed, states=7, actions=4):
    """R and Q with some pairs that are not feasible; each state keeps one."""
    rng = np.random.default_rng(seed)
    Q = rng.random((states, actions, states)) ** 3
    Q /= Q.sum(axis=2, keepdims=True)
    R = rng.normal(size=(states, actions))
    off = rng.random((states, actions)) < 0.4
    off[np.arange(states), rng.integers(actions, size=states)] = False
    R[off], Q[off] = INFINITE, 0.0
    return R, Q


@pytest.mark.parametrize(
    "form", ["product", "pairs", "sparse pairs", "shuffled pairs"]
)
def test_the_solution_is_quantecons(form):
    markov = pytest.importorskip("quantecon.markov")
    sparse = pytest.importorskip("scipy.sparse")
    R, Q = random_model(0)
    if form == "product":
        ddp = markov.DiscreteDP(R, Q, 0.9)
    else:
        s, a = np.nonzero(np.isfinite(R))
        if form == "shuffled pairs":
            order = np.random.default_rng(0).permutation(len(s))
            s, a = s[order], a[order]
        rows = Q[s, a]
        rows = sparse.csr_matrix(rows) if form == "sparse pairs" else rows
        ddp = markov.DiscreteDP(R[s, a], rows, 0.9, s, a)
    theirs = ddp.solve(method="policy_iteration")
    problem = sc.tabular(ddp)
    assert problem.operator == sc.Max()
    assert problem.discount == 0.9
    ours = sc.solve(problem)
    np.testing.assert_allclose(ours.values, theirs.v, atol=1e-9)
    assert [row.argmax() for row in ours.policy] == theirs.sigma.tolist()
    for state, feasible in enumerate(np.isfinite(R)):
        assert problem.legal_actions(state) == np.flatnonzero(feasible).tolist()


def test_options_take_the_place_of_its_own():
    R, Q = random_model(0)
    problem = sc.tabular(
        Plain(R, Q, 0.9), discount=0.5, operator=sc.Entropy(1.0), actions=list("abcd")
    )
    assert (problem.discount, problem.operator) == (0.5, sc.Entropy(1.0))
    assert problem.actions == ("a", "b", "c", "d")
    forbidden = np.isfinite(R)
    forbidden[0, np.flatnonzero(forbidden[0])[0]] = False
    narrower = sc.tabular(Plain(R, Q, 0.9), legal=forbidden)
    assert not narrower.legal(0, int(np.flatnonzero(np.isfinite(R[0]))[0]))


def test_minus_infinity_is_an_illegal_action():
    P = np.full((2, 2, 2), 0.5)
    R = np.array([[0.0, INFINITE], [0.25, 0.5]])
    usual = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    by_reward = sc.tabular(P, R, **usual)
    finite = np.where(np.isfinite(R), R, 0.0)
    by_mask = sc.tabular(P, finite, legal=np.isfinite(R), **usual)
    for name in ("start", "next_state", "prob", "reward", "legal"):
        there = [getattr(x.tables, name) for x in (by_reward, by_mask)]
        assert np.array_equal(*there), name
    assert by_reward.facts == by_mask.facts
    answer = sc.plan(by_reward)
    assert answer.policy == (1.0, 0.0)
    assert np.isnan(answer.q_values[1])
    sampled = sc.plan(by_reward, method="certified", epsilon=0.3, delta=0.1)
    assert sampled.interval[0] <= answer.value <= sampled.interval[1]


def test_minus_infinity_by_next_state():
    P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]])
    R = np.zeros((2, 2, 2))
    R[0, 0] = INFINITE
    R[0, 1, 0] = INFINITE  # never reached: it says nothing
    problem = sc.tabular(P, R, **MAX)
    assert [problem.legal_actions(s) for s in (0, 1)] == [[1], [0, 1]]
    R[1, 1, 0] = INFINITE
    with pytest.raises(sc.InvalidInput, match="state 1, action 1 some rewards are fi"):
        sc.tabular(P, R, **MAX)


def test_a_state_without_an_action_is_refused():
    P, R = np.ones((1, 2, 1)), np.full((1, 2), INFINITE)
    with pytest.raises(sc.InvalidInput, match="State 0 has no legal action"):
        sc.tabular(P, R, **MAX)
    for end in (np.inf, np.nan):
        with pytest.raises(sc.InvalidInput, match="R must be finite"):
            sc.tabular(P, np.array([[end, 0.0]]), **MAX)
    rows = np.array([[[0.0, 1.0]], [[0.0, 0.0]]])
    ended = sc.tabular(rows, [[1.0], [INFINITE]], terminal=[False, True], **MAX)
    assert sc.plan(ended).value == 1.0


def test_what_is_missing_is_named():
    P, R = np.ones((1, 1, 1)), [[0.0]]
    for options, missing in (
        ({"discount": 0.5, "operator": sc.Max()}, "needs R, the rewards"),
        ({"R": R, "operator": sc.Max()}, "needs discount="),
        ({"R": R, "discount": 0.5}, "needs operator="),
    ):
        with pytest.raises(sc.InvalidInput, match=missing):
            sc.tabular(P, **options)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"s_indices": [0, 0, 2]}, "s_indices from 0 to 1"),
        ({"s_indices": [0, -1, 1]}, "s_indices from 0 to 1"),
        ({"a_indices": [0, 1]}, "got 3, 2, 3 and 3"),
        ({"s_indices": [0, 0, 1], "a_indices": [0, 0, 0]}, "one is there twice"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(changes, said):
    given = {
        "R": [0.0, 1.0, 2.0],
        "Q": [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]],
        "beta": 0.5,
        "s_indices": [0, 0, 1],
        "a_indices": [0, 1, 0],
    }
    assert sc.tabular(Plain(**given)).num_actions == 2
    with pytest.raises(sc.InvalidInput) as caught:
        sc.tabular(Plain(**{**given, **changes}))
    assert said in str(caught.value)
