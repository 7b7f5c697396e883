"""Kernels in two forms: which functions a compiled form has in it."""

import numba
import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.exact import model
from smoothcruiser.jit import library


@numba.njit
def middle_value(q):
    return q.mean()


@numba.njit
def middle_weights(q):
    return np.full(len(q), 1.0 / len(q))


@pytest.mark.compiles
def test_a_users_operator_never_stands_in_for_ours(monkeypatch):
    """Exact values of our entropy are the same after a solution by an operator of the
    user's, whose compiled functions take places in the same kernels.
    """
    ours = sc.make("garnet:states=6,actions=3", discount=0.5, temperature=0.4)
    mean = sc.CustomOperator(middle_value, middle_weights, 0.0, sums_to_one=True)
    own = sc.make("garnet:states=6,actions=3", discount=0.5, operator=mean)
    with model.EXACT.use_form(compiled=False):
        expected = sc.solve(ours).values
    monkeypatch.setattr(library, "_machines", {})
    model._built_in_kernels.cache_clear()
    with model.EXACT.use_form(compiled=True):
        assert np.all(sc.solve(own).values < expected)
        np.testing.assert_array_equal(sc.solve(ours).values, expected)
