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
        rows, num_states = P.shape
        if num_states < 1 or rows % num_states:
            raise InvalidInput(
                f"A sparse P must have shape (S*A, S), got {P.shape}; row s*A + a "
                "holds the successors of (s, a)."
            )
        parts = (np.asarray(P.indptr), np.asarray(P.indices), np.asarray(P.data))
        return (
            parts[0].astype(np.int64),
            parts[1].astype(np.int64),
            parts[2].astype(float),
            num_states,
            rows // num_states,
        )
    dense = numbers("P", P)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise InvalidInput(
            "P must have shape (S, A, S) or be sparse of shape (S*A, S), got "
            f"{dense.shape}."
        )
    num_states, num_actions, _ = dense.shape
    flat = dense.reshape(num_states * num_actions, num_states)
    row, column = np.nonzero(flat)
    start = np.concatenate(
        [[0], np.cumsum(np.bincount(row, minlength=num_states * num_actions))]
    )
    return (
        start.astype(np.int64),
        column.astype(np.int64),
        flat[row, column],
        num_states,
        num_actions,
    )


def rewards(
    R: Any, P: Any, start: Ints, next_state: Ints, num_states: int, num_actions: int
) -> Floats:
    """One reward per nonzero of P."""
    if hasattr(R, "tocsr"):
        sparse = R.tocsr()
        if sparse.shape != (num_states * num_actions, num_states):
            raise InvalidInput(
                "A sparse R must have the shape (S*A, S) = "
                f"({num_states * num_actions}, {num_states}), got {sparse.shape}."
            )
        row = np.repeat(np.arange(num_states * num_actions), np.diff(start))
        return np.asarray(sparse[row, next_state], dtype=float).reshape(-1)
    table = numbers("R", R)
    row = np.repeat(np.arange(num_states * num_actions), np.diff(start))
    if table.shape == (num_states, num_actions):
        return np.ascontiguousarray(table.reshape(-1)[row])
    if table.shape == (num_states, num_actions, num_states):
        return np.ascontiguousarray(
            table.reshape(num_states * num_actions, num_states)[row, next_state]
        )
    # other formats have another order of nonzeros
    if getattr(P, "format", None) == "csr" and table.shape == (len(next_state),):
        return table.copy()  # the user's array may change, a problem may not
    raise InvalidInput(
        f"R must have shape (S, A) = ({num_states}, {num_actions}) or (S, A, S), "
        f"got {table.shape}."
    )


def barred(R: Any, start: Ints, reward: Floats, allowed: Bools) -> Bools:
    """(S, A): the pairs that a reward of -inf marks as illegal (QuantEcon's convention).

    Args:
        R: the rewards as they were given.
        start: where the row of each pair begins.
        reward: one per entry of the rows.
        allowed: (S, A), the pairs that matter.
    """
    if not hasattr(R, "tocsr") and np.shape(R) == allowed.shape:
        return np.isneginf(numbers("R", R)) & allowed
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    size = len(start) - 1
    marked = np.bincount(row, weights=np.isneginf(reward), minlength=size)
    found = marked.reshape(allowed.shape) > 0
    partly = found & (marked < np.diff(start)).reshape(allowed.shape) & allowed
    if np.any(partly):
        state, action = (int(x[0]) for x in np.nonzero(partly))
        raise InvalidInput(
            "R of -inf marks an illegal action, so it must be -inf for every next state "
            f"of it, but at state {state}, action {action} some rewards are finite."
        )
    return found & allowed


def numbers(name: str, array: Any) -> Floats:
    """An array of floats; ``name`` is what an error calls it."""
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be an array of numbers: {error}.") from error


def normalized(start: Ints, prob: Floats, live: Bools, num_actions: int) -> Floats:
    """Rows divided by their sums; rows of usable pairs must be distributions."""
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    if not np.all(np.isfinite(prob)) or np.any(prob < 0):
        bad = int(row[np.flatnonzero(~np.isfinite(prob) | (prob < 0))[0]])
        raise InvalidInput(
            f"P must hold probabilities, but state {bad // num_actions}, action "
            f"{bad % num_actions} has a negative or undefined entry; "
            "P[state, action] holds the probabilities of next states."
        )
    sums = np.bincount(row, weights=prob, minlength=len(start) - 1)
    wrong = np.flatnonzero(live & (np.abs(sums - 1.0) > ROW_SUM_TOLERANCE))
    if len(wrong):
        bad = int(wrong[0])
        raise InvalidInput(
            f"P must sum to 1 over next states, but state {bad // num_actions}, "
            f"action {bad % num_actions} sums to {sums[bad]:.6g}."
        )
    return np.ascontiguousarray(prob / np.where(sums > 0, sums, 1.0)[row])


def mask(given: Any, shape: tuple[int, ...], name: str, *, default: bool) -> Bools:
    """A mask of this shape, full of ``default`` where none is given."""
    if given is None:
        return np.full(shape, default)
    array = np.asarray(given)
    if array.shape != shape:
        raise InvalidInput(
            f"{name} must be a mask of shape {shape}, got {array.shape}."
        )
    return np.ascontiguousarray(array.astype(bool))


def players_of(players: Any, num_states: int) -> NDArray[np.int8]:
    """(S,) of 1 (max) and 2 (min); all 1 where no players are given."""
    if players is None:
        return np.ones(num_states, dtype=np.int8)
    array = np.asarray(players)
    if array.shape != (num_states,) or not np.all((array == 1) | (array == 2)):
        raise InvalidInput(
            f"players must be an array of shape ({num_states},) that holds 1 (max) "
            "and 2 (min)."
        )
    return array.astype(np.int8)
