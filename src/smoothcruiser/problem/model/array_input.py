"""Arrays as ``tabular`` takes them: read, checked, and brought into one form.

P is dense, of shape (S, A, S), or sparse, of shape (S*A, S); both become compressed
rows, one per pair (state, action), in the order of row s*A + a. Rewards become one
number per entry of those rows.

A ``DiscreteDP`` of QuantEcon as arrays that ``tabular`` reads.

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
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# float32 rows miss 1 by 6e-8, and more if they were summed in float32; rows are
# then normalized
ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class CompressedRows:
    """A sparse P in the form that ``tabular`` reads, of shape (S*A, S).

    SciPy's CSR has this form too, but would merge equal next states of unequal reward.
    """

    indptr: Any  # (S*A + 1,): where each row begins
    indices: Any  # (nnz,): next states
    data: Any  # (nnz,): probabilities
    shape: tuple[int, int]
    format: str = "csr"

    def tocsr(self) -> CompressedRows:
        """Itself: nothing has to be converted."""
        return self


def rows_of(P: Any, R: Any) -> tuple[Ints, Ints, Floats, int, int]:
    """Compressed rows of P (start, next state, probability), and (S, A)."""
    if hasattr(P, "tocsr"):
        P = P.tocsr()
        num_rows, num_states = P.shape
        if num_states < 1 or num_rows % num_states:
            raise InvalidInput(
                f"A sparse P must have shape (S*A, S), got {P.shape}; row s*A + a "
                "holds the successors of (s, a)."
            )
        csr_arrays = (np.asarray(P.indptr), np.asarray(P.indices), np.asarray(P.data))
        return (
            csr_arrays[0].astype(np.int64),
            csr_arrays[1].astype(np.int64),
            csr_arrays[2].astype(float),
            num_states,
            num_rows // num_states,
        )
    dense = as_floats("P", P)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise InvalidInput(
            "P must have shape (S, A, S) or be sparse of shape (S*A, S), got "
            f"{dense.shape}."
        )
    num_states, num_actions, _ = dense.shape
    dense_rows = dense.reshape(num_states * num_actions, num_states)
    row_index, column_index = np.nonzero(dense_rows)
    row_start = np.concatenate(
        [[0], np.cumsum(np.bincount(row_index, minlength=num_states * num_actions))]
    )
    return (
        row_start.astype(np.int64),
        column_index.astype(np.int64),
        dense_rows[row_index, column_index],
        num_states,
        num_actions,
    )


def entry_rewards(
    R: Any, P: Any, start: Ints, next_state: Ints, num_states: int, num_actions: int
) -> Floats:
    """One reward per nonzero of P."""
    if hasattr(R, "tocsr"):
        sparse_rewards = R.tocsr()
        if sparse_rewards.shape != (num_states * num_actions, num_states):
            raise InvalidInput(
                "A sparse R must have the shape (S*A, S) = "
                f"({num_states * num_actions}, {num_states}), got "
                f"{sparse_rewards.shape}."
            )
        row_index = np.repeat(np.arange(num_states * num_actions), np.diff(start))
        return np.asarray(sparse_rewards[row_index, next_state], dtype=float).reshape(
            -1
        )
    reward_table = as_floats("R", R)
    row_index = np.repeat(np.arange(num_states * num_actions), np.diff(start))
    if reward_table.shape == (num_states, num_actions):
        return np.ascontiguousarray(reward_table.reshape(-1)[row_index])
    if reward_table.shape == (num_states, num_actions, num_states):
        return np.ascontiguousarray(
            reward_table.reshape(num_states * num_actions, num_states)[
                row_index, next_state
            ]
        )
    # other formats have another order of nonzeros
    if getattr(P, "format", None) == "csr" and reward_table.shape == (
        len(next_state),
    ):
        return reward_table.copy()  # the user's array may change, a problem may not
    raise InvalidInput(
        f"R must have shape (S, A) = ({num_states}, {num_actions}) or (S, A, S), got "
        f"{reward_table.shape}."
    )


def find_illegal(R: Any, start: Ints, reward: Floats, allowed: Bools) -> Bools:
    """(S, A): the pairs that a reward of -inf marks as illegal (QuantEcon's convention).

    Args:
        R: the rewards as they were given.
        start: where the row of each pair begins.
        reward: one per entry of the rows.
        allowed: (S, A), the pairs that matter.
    """
    if not hasattr(R, "tocsr") and np.shape(R) == allowed.shape:
        return np.isneginf(as_floats("R", R)) & allowed
    row_index = np.repeat(np.arange(len(start) - 1), np.diff(start))
    num_rows = len(start) - 1
    num_marked = np.bincount(
        row_index, weights=np.isneginf(reward), minlength=num_rows
    )
    is_marked = num_marked.reshape(allowed.shape) > 0
    partly_marked = (
        is_marked & (num_marked < np.diff(start)).reshape(allowed.shape) & allowed
    )
    if np.any(partly_marked):
        state, action = (int(indices[0]) for indices in np.nonzero(partly_marked))
        raise InvalidInput(
            "R of -inf marks an illegal action, so it must be -inf for every next state "
            f"of it, but at state {state}, action {action} some rewards are finite."
        )
    return is_marked & allowed


def as_floats(name: str, array: Any) -> Floats:
    """An array of floats; ``name`` is its name in errors."""
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be an array of numbers: {error}.") from error


def normalize_rows(start: Ints, prob: Floats, live: Bools, num_actions: int) -> Floats:
    """Rows divided by their sums; rows of usable pairs must be distributions."""
    row_index = np.repeat(np.arange(len(start) - 1), np.diff(start))
    if not np.all(np.isfinite(prob)) or np.any(prob < 0):
        bad_row = int(row_index[np.flatnonzero(~np.isfinite(prob) | (prob < 0))[0]])
        raise InvalidInput(
            f"P must hold probabilities, but state {bad_row // num_actions}, action "
            f"{bad_row % num_actions} has a negative or undefined entry; P[state, "
            "action] holds the probabilities of next states."
        )
    row_sums = np.bincount(row_index, weights=prob, minlength=len(start) - 1)
    wrong_rows = np.flatnonzero(live & (np.abs(row_sums - 1.0) > ROW_SUM_TOLERANCE))
    if len(wrong_rows):
        bad_row = int(wrong_rows[0])
        raise InvalidInput(
            f"P must sum to 1 over next states, but state {bad_row // num_actions}, "
            f"action {bad_row % num_actions} sums to {row_sums[bad_row]:.6g}."
        )
    return np.ascontiguousarray(
        prob / np.where(row_sums > 0, row_sums, 1.0)[row_index]
    )


def as_mask(given: Any, shape: tuple[int, ...], name: str, *, default: bool) -> Bools:
    """A mask of this shape, full of ``default`` where none is given."""
    if given is None:
        return np.full(shape, default)
    mask_array = np.asarray(given)
    if mask_array.shape != shape:
        raise InvalidInput(
            f"{name} must be a mask of shape {shape}, got {mask_array.shape}."
        )
    return np.ascontiguousarray(mask_array.astype(bool))


def mark_illegal_costs(R: Any) -> Any:
    """Costs with infinity for illegal actions in the form of rewards, -infinity."""
    try:
        costs = np.asarray(R, dtype=np.float64)
    except (TypeError, ValueError):  # refused later, by its shape
        return R
    return np.where(np.isinf(costs), -costs, costs)


def players_of(players: Any, num_states: int) -> NDArray[np.int8]:
    """(S,) of 1 (max) and 2 (min); all 1 where no players are given."""
    if players is None:
        return np.ones(num_states, dtype=np.int8)
    player_array = np.asarray(players)
    if player_array.shape != (num_states,) or not np.all(
        (player_array == 1) | (player_array == 2)
    ):
        raise InvalidInput(
            f"players must be an array of shape ({num_states},) that holds 1 (max) "
            "and 2 (min)."
        )
    return player_array.astype(np.int8)


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
