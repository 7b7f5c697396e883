"""A ``DiscreteDP`` of QuantEcon as arrays that ``tabular`` reads.

QuantEcon is not imported: an object is read that has R, Q and beta. It comes in two
forms:

  product       R (n, m), Q (n, m, n); -inf in R marks a pair that is not feasible
  pairs         R (L,), Q (L, n), dense or sparse; pair i is the state ``s_indices[i]``
                with the action ``a_indices[i]``, and pairs that are not listed are not
                feasible

Both become rows (s, a) of S*A; pairs that are not feasible are illegal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arrays import Bools, CompressedRows, Floats, as_floats


@runtime_checkable
class DiscreteDP(Protocol):
    """The fields of QuantEcon's ``DiscreteDP``, in both of its forms."""

    R: Any
    Q: Any
    beta: Any
    s_indices: Any
    a_indices: Any


@dataclass(frozen=True)
class TabularModel:
    """The arguments of ``tabular`` that a DiscreteDP stands for."""

    P: Any
    R: Any
    legal: Bools | None
    discount: float


def read_discrete_dp(ddp: DiscreteDP) -> TabularModel:
    """The model of a DiscreteDP; arrays that do not fit together are refused."""
    discount = float(ddp.beta)
    if ddp.s_indices is None:
        return TabularModel(ddp.Q, ddp.R, None, discount)
    pair_states, pair_actions = np.asarray(ddp.s_indices), np.asarray(ddp.a_indices)
    pair_rewards = as_floats("R", ddp.R)
    num_states = int(ddp.Q.shape[1])
    _check_pairs(pair_states, pair_actions, pair_rewards, ddp.Q.shape)
    num_actions = int(pair_actions.max()) + 1
    pair_rows = pair_states.astype(np.int64) * num_actions + pair_actions
    row_order = np.argsort(pair_rows, kind="stable")
    if np.any(np.diff(pair_rows[row_order]) == 0):
        raise InvalidInput(
            "A DiscreteDP must list each pair of s_indices and a_indices once, but one "
            "is there twice; drop one of the two."
        )
    feasible = np.zeros(num_states * num_actions, dtype=bool)
    feasible[pair_rows] = ~np.isneginf(pair_rewards)
    pair_sizes, next_states, probabilities = _row_entries(ddp.Q, row_order)
    row_sizes = np.zeros(num_states * num_actions, dtype=np.int64)
    row_sizes[pair_rows[row_order]] = pair_sizes
    P = CompressedRows(
        np.concatenate([[0], np.cumsum(row_sizes)]),
        next_states,
        probabilities,
        (num_states * num_actions, num_states),
    )
    # pairs that are not feasible pay nothing: nobody can take them
    finite_rewards = np.where(np.isneginf(pair_rewards), 0.0, pair_rewards)
    entry_rewards = np.repeat(finite_rewards[row_order], pair_sizes)
    return TabularModel(
        P, entry_rewards, feasible.reshape(num_states, num_actions), discount
    )


def _check_pairs(
    states: Any, actions: Any, paid: Floats, shape: tuple[int, ...]
) -> None:
    lengths = {len(states), len(actions), len(paid), shape[0]}
    are_whole = all(
        np.issubdtype(indices.dtype, np.integer) for indices in (states, actions)
    )
    if len(lengths) > 1 or 0 in lengths or not are_whole:
        raise InvalidInput(
            "A DiscreteDP of pairs must have as many s_indices, a_indices and R as Q "
            f"has rows, got {len(states)}, {len(actions)}, {len(paid)} and {shape[0]}."
        )
    if states.min() < 0 or states.max() >= shape[1] or actions.min() < 0:
        raise InvalidInput(
            f"A DiscreteDP of pairs must have s_indices from 0 to {shape[1] - 1} and "
            f"a_indices from 0, got {states.min()} to {states.max()} and "
            f"{actions.min()} to {actions.max()}."
        )


def _row_entries(Q: Any, order: Any) -> tuple[Any, Any, Any]:
    """Entries of the rows of Q in an order: how many, which columns, which values."""
    if hasattr(Q, "tocsr"):
        sparse_rows = Q.tocsr()[order]
        return np.diff(sparse_rows.indptr), sparse_rows.indices, sparse_rows.data
    dense_rows = as_floats("Q", Q)[order]
    row_index, column_index = np.nonzero(dense_rows)
    return (
        np.bincount(row_index, minlength=len(order)),
        column_index,
        dense_rows[row_index, column_index],
    )
