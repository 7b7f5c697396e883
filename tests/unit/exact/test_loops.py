"""Loops of the exact solver that have a twin."""

import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import random_arrays

import smoothcruiser as sc
from smoothcruiser.exact.model import prepare, room_for_policy

pytestmark = pytest.mark.compiles


def test_the_shortcut_for_max_packs_the_same_rows_to_the_last_bit():
    """Both players, an end, actions that are not legal, ties."""
    P, R = random_arrays(30, 3, 0)
    P[P < 0.05] = 0.0
    P /= P.sum(axis=2, keepdims=True)
    rng = np.random.default_rng(1)
    legal = rng.random((30, 3)) < 0.7
    legal[:, 2] = True
    P[3, 1], R[3, 1] = P[3, 2], R[3, 2]
    problem = sc.tabular(
        sp.csr_matrix(P.reshape(90, 30)),
        R,
        discount=0.9,
        operator=sc.Max(),
        players=rng.integers(1, 3, 30),
        terminal=np.arange(30) == 7,
        legal=legal,
    )
    m, kernels, _ = prepare(problem, problem.tables)
    value, policy = np.empty(30), np.empty((30, 3))
    kernels.q(m, rng.random(30))
    kernels.values(m, value)
    kernels.policy(m, policy)
    plain, short = room_for_policy(m), room_for_policy(m)
    kernels.pack(m, policy, value, plain)
    kernels.pack_greedy(m, value, short)
    used = int(plain.start[30])
    assert used > 0
    assert short.start.tolist() == plain.start.tolist()
    assert short.income.tolist() == plain.income.tolist()
    for one, other in ((plain.target, short.target), (plain.weight, short.weight)):
        assert one[:used].tolist() == other[:used].tolist()
