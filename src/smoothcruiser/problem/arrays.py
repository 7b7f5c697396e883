"""Arrays as ``tabular`` takes them: read, checked, and brought into one form.

P is dense, of shape (S, A, S), or sparse, of shape (S*A, S); both become compressed
rows, one per pair (state, action), in the order of row s*A + a. Rewards become one
number per entry of those rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    if getattr(P, "format", None) == "csr" and reward_table.shape == (len(next_state),):
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
    num_marked = np.bincount(row_index, weights=np.isneginf(reward), minlength=num_rows)
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
    return np.ascontiguousarray(prob / np.where(row_sums > 0, row_sums, 1.0)[row_index])


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
