"""Paper mode run to its end where its printed constants can be paid: it costs
what it says and keeps what it promises.

The runs have fixed seeds. Where a promise (epsilon, delta) is tested, an exact
binomial test must not reject "fails with probability at most delta" at level
FALSE_ALARM: a correct engine would have failed it with at most that probability
when the seeds were chosen.
"""

import numpy as np
import pytest
from scipy import stats

import smoothcruiser as sc

FALSE_ALARM = 1e-3
RUNS = 200
OPERATORS = {
    "entropy": sc.Entropy(0.5),
    "kl": sc.KL(0.5, prior=(1.0, 3.0)),
    "mellowmax": sc.KL(0.5),
    "sparsemax": sc.Sparsemax(0.5),
    "square-root": sc.SquareRoot(0.5),
    "max": sc.Max(),
}


def coins(operator, discount=0.2, players=None):
    """Every reward is a fair coin, so that draws vary as much as rewards in [0,
    1] can: the widest spread there is.
    """
    P = np.full((2, 2, 2), 0.5)
    P[1, 1] = (0.1, 0.9)
    R = np.zeros((2, 2, 2))
    R[:, :, 1] = 1.0
    return sc.tabular(P, R, discount=discount, operator=operator, players=players)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("players", [None, [1, 2]], ids=["mdp", "game"])
def test_the_promise_is_kept(name, players):
    """|V-hat - V| and every |Q-hat - Q| at most epsilon in at least 1 - delta
    of the runs, in MDPs and games; and the calls counted are the price.
    """
    problem = coins(OPERATORS[name], players=players)
    truth = sc.solve(problem)
    epsilon = 1.1 if name == "square-root" else 0.8
    schedule = sc.explain(problem, method="paper", epsilon=epsilon, delta=0.1)
    assert schedule.delta == 0.1
    failures = 0
    for seed in range(RUNS):
        answer = sc.run(problem, schedule, seed=seed, workers=1)
        assert answer.num_calls == schedule.num_calls
        errors = np.abs(np.array(answer.q_values) - truth.q_values[0])
        error = max(abs(answer.value - truth.values[0]), float(np.max(errors)))
        failures += error > schedule.epsilon
    test = stats.binomtest(failures, RUNS, schedule.delta, alternative="greater")
    assert test.pvalue > FALSE_ALARM


def test_two_levels_deep():
    """2,828,268 calls (gamma = 0.2, lambda = 1, K = 2, epsilon = 0.9, delta' =
    0.1), counted to the last; errors within epsilon.
    """
    problem = coins(sc.Entropy(1.0))
    truth = sc.solve(problem).values[0]
    errors = []
    for seed in range(10):
        promise = {"epsilon": 0.9, "delta_prime": 0.1}
        answer = sc.plan(problem, method="paper", seed=seed, **promise)
        assert answer.num_calls == 2_828_268
        errors.append(abs(answer.value - truth))
    assert max(errors) <= 0.9
    assert len(set(errors)) == 10
