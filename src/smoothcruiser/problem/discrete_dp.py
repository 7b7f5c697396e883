"""A ``DiscreteDP`` of QuantEcon as arrays that ``tabular`` reads.

QuantEcon is not imported: an object is read that has R, Q and beta. It comes in two
forms:

  product       R (n, m), Q (n, m, n); -inf in R marks a pair that is not feasible
  pairs         R (L,), Q (L, n), dense or sparse; pair i is the state ``s_indices[i]``
                with the action ``a_indices[i]``, and pairs that are not listed are not
                feasible

Both become rows (s, a) of S*A; what is not feasible is illegal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arrays import Bools, CompressedRows, Floats, numbers


@runtime_checkable
class DiscreteDP(Protocol):
    """What QuantEcon's ``DiscreteDP`` holds, in both of its forms."""

    R: Any
    Q: Any
    beta: Any
    s_indices: Any
    a_indices: Any


@dataclass(frozen=True)
class Read:
    """The arguments of ``tabular`` that a DiscreteDP stands for."""

    P: Any
    R: Any
    legal: Bools | None
    discount: float


def read(ddp: DiscreteDP) -> Read:
    """The model of a DiscreteDP; what does not fit together is refused."""
    discount = float(ddp.beta)
    if ddp.s_indices is None:
        return Read(ddp.Q, ddp.R, None, discount)
    states, actions = np.asarray(ddp.s_indices), np.asarray(ddp.a_indices)
    paid = numbers("R", ddp.R)
    num_states = int(ddp.Q.shape[1])
    _check_pairs(states, actions, paid, ddp.Q.shape)
    num_actions = int(actions.max()) + 1
    row = states.astype(np.int64) * num_actions + actions
    order = np.argsort(row, kind="stable")
    if np.any(np.diff(row[order]) == 0):
        raise InvalidInput(
            "A DiscreteDP must list each pair of s_indices and a_indices once, but one "
            "is there twice; drop one of the two."
        )
    feasible = np.zeros(num_states * num_actions, dtype=bool)
    feasible[row] = ~np.isneginf(paid)
    sizes, targets, chances = _entries(ddp.Q, order)
    counts = np.zeros(num_states * num_actions, dtype=np.int64)
    counts[row[order]] = sizes
    P = CompressedRows(
        np.concatenate([[0], np.cumsum(counts)]),
        targets,
        chances,
        (num_states * num_actions, num_states),
    )
    # what is not feasible pays nothing: nobody can do it
    finite = np.where(np.isneginf(paid), 0.0, paid)
    rewards = np.repeat(finite[order], sizes)
    return Read(P, rewards, feasible.reshape(num_states, num_actions), discount)


def _check_pairs(
    states: Any, actions: Any, paid: Floats, shape: tuple[int, ...]
) -> None:
    sizes = {len(states), len(actions), len(paid), shape[0]}
    whole = all(np.issubdtype(x.dtype, np.integer) for x in (states, actions))
    if len(sizes) > 1 or 0 in sizes or not whole:
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


def _entries(Q: Any, order: Any) -> tuple[Any, Any, Any]:
    """Entries of the rows of Q in an order: how many, which columns, which values."""
    if hasattr(Q, "tocsr"):
        rows = Q.tocsr()[order]
        return np.diff(rows.indptr), rows.indices, rows.data
    dense = numbers("Q", Q)[order]
    row, column = np.nonzero(dense)
    return np.bincount(row, minlength=len(order)), column, dense[row, column]
