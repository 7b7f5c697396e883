"""Each backup converges to its exact regularized value, and the published
behaviour on the d-chain is there.
"""

import numpy as np
import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

# as in Painter et al.: whole paths are added, untried actions are worth 0
WHOLE = {"expansion": None, "initial_q": 0.0}


def grown(problem, method, simulations, seed=0):
    return sc.Tree(problem, method=method, seed=seed).grow(simulations=simulations)


@pytest.mark.parametrize(
    "method, operator",
    [
        (sc.MENTS(temperature=0.1), sc.Entropy(0.1)),
        (sc.MENTS(temperature=0.5, expansion=None), sc.Entropy(0.5)),
        (sc.TENTS(temperature=0.2, exploration=0.5), sc.Sparsemax(0.2)),
        (sc.BTS(search_temperature=0.1), sc.Max()),
        (sc.DENTS(search_temperature=0.1), sc.Max()),
    ],
    ids=str,
)
def test_backups_converge_to_the_exact_value(method, operator):
    """A fixed tree, 27 noisy leaves: after 60,000 simulations every root value
    is within 0.01 of backward induction.
    """
    problem = sc.make("synthetic-tree:k=3,d=3,seed=4", discount=1.0, operator=operator)
    exact = sc.solve(problem)
    tree = grown(problem, method, 60_000)
    assert tree.estimate().value == pytest.approx(exact.values[0], abs=0.01)
    if operator.strength:
        assert tree.q_values() == pytest.approx(list(exact.q_values[0]), abs=0.03)


CHANCE = sc.make(
    "garnet:states=4,actions=2,branching=2,seed=3", discount=0.3, temperature=0.5
)
GAME = sc.make(
    "random-game:states=6,actions=2,branching=2,seed=5", discount=0.3, temperature=0.4
)
BANDIT = sc.make("synthetic-tree:k=4,d=1,seed=1", discount=1.0, operator=sc.KL(0.2))
EASY = sc.make("synthetic-tree:k=2,d=2,seed=1", discount=1.0, operator="max")
# at the root the prior is uniform: with one decision RENTS is mellowmax
MELLOW = sc.RENTS(temperature=0.2, exploration=0.5, prior="parent")


@pytest.mark.parametrize(
    ("problem", "method", "states", "close"),
    [
        (CHANCE, sc.MENTS(depth=6), 1, 0.01),
        (GAME, sc.MENTS(depth=6), 4, 0.01),  # states of both players
        (BANDIT, MELLOW, 1, 0.005),
        (EASY, sc.UCT(exploration=0.5), 1, 0.02),
    ],
    ids=["chance", "game", "mellowmax", "uct"],
)
def test_values_of_small_worlds(problem, method, states, close):
    for state, exact in enumerate(sc.solve(problem).values[:states]):
        tree = sc.Tree(problem, state, method=method, seed=1).grow(simulations=50_000)
        assert tree.estimate().value == pytest.approx(exact, abs=close)


def test_rents_of_visits_settles_on_the_maximum():
    """Visits feed the prior and the prior feeds the visits: the shares settle
    on the best action, and t log sum pi_0 exp(Q/t) on max Q.
    """
    problem = sc.make("synthetic-tree:k=4,d=2,seed=1", discount=1.0, operator="max")
    errors = []
    for simulations in (1_000, 10_000, 100_000):
        tree = grown(problem, sc.RENTS(temperature=0.1, exploration=0.02), simulations)
        errors.append(1.0 - tree.estimate().value)
    assert tree.operator == sc.Max()
    assert errors[0] > errors[1] > errors[2] > 0.0
    assert errors[2] < 0.01
    assert tree.action() == int(np.argmax(sc.solve(problem).q_values[0]))


def test_rents_comes_between_tents_and_ments():
    """Dam et al. 2021 on their tree: TENTS lies closest to the maximum, then
    RENTS, then MENTS, whose entropy adds up.
    """
    problem = sc.make("synthetic-tree:k=8,d=3,seed=0", discount=1.0, operator="max")
    methods = (
        kind(temperature=0.1, exploration=0.1)
        for kind in (sc.TENTS, sc.RENTS, sc.MENTS)
    )
    trees = [grown(problem, method, 10_000) for method in methods]
    found = [abs(tree.estimate().value - 1.0) for tree in trees]
    assert found == sorted(found)
    assert found[2] > 2.0 * found[1]


# --- the d-chain of Coquelin and Munos, as in Painter et al. 2023 -------------


def test_ments_shows_it_and_bts_and_dents_do_not_fail():
    """MENTS at 0.12 and 0.16 falls on both sides, with the exact soft values;
    BTS and DENTS recommend the best action at both.
    """
    problem = sc.make("d-chain:final=0.5", discount=1.0, operator="max")
    for temperature, action in ((0.12, 1), (0.16, 0)):
        chain = sc.make("d-chain:final=0.5", discount=1.0, temperature=temperature)
        soft = sc.solve(chain).q_values[0]
        for seed in range(3):
            method = sc.MENTS(temperature=temperature, **WHOLE)
            tree = grown(problem, method, 10_000, seed)
            assert tree.action() == action
            assert tree.q_values() == pytest.approx(list(soft), abs=1e-6)
            for kind in (sc.BTS, sc.DENTS):
                other = kind(search_temperature=temperature, **WHOLE)
                assert grown(problem, other, 10_000, seed).action() == 1


def test_bts_and_dents_find_the_end_of_the_chain_and_uct_does_not():
    """R_f = 1: the optimum is 1.0; UCT stays at 0.9 after 10,000 trials (its
    known failure), BTS and DENTS at temperature 1 do not.
    """
    problem = sc.make("d-chain", discount=1.0, operator="max")
    for seed in range(3):
        assert grown(problem, sc.UCT(**WHOLE), 10_000, seed).action() == 1
        for kind in (sc.BTS, sc.DENTS):
            method = kind(search_temperature=1.0, **WHOLE)
            tree = grown(problem, method, 10_000, seed)
            assert tree.estimate().value == pytest.approx(1.0)
        low = grown(problem, sc.MENTS(temperature=0.01, **WHOLE), 10_000, seed)
        # too cold to look past the first rewards, as published
        assert low.action() == 1


@pytest.mark.parametrize(
    ("name", "state", "value"),
    [
        ("sailing", 3, pytest.approx(-15.0, abs=0.05)),
        ("d-chain", 0, 1.0),
        ("d-chain:final=0.5", 0, 0.9),
        ("frozen-lake", 0, pytest.approx(0.99**14)),  # moves to the corner of the lake
    ],
)
def test_the_published_optima(name, state, value):
    """Painter et al.: sailing -15.0, the chains 1.0 and 0.9."""
    solution = sc.solve(sc.make(name, discount=1.0, operator="max"))
    assert solution.values[state] == value
