"""Hash and equality of compiled states, built for their type.

What this file leaves out: how states are stored (``jit.state_columns``).
"""

from __future__ import annotations

from typing import Any

import numpy as np


def hashing(kind: Any) -> dict[str, Any]:
    """HASH and SAME for states of a Numba type.

    They are the language's own for numbers and tuples of them, and go element
    by element for arrays.
    """
    from numba import njit, types

    if isinstance(kind, types.Array):

        @njit
        def array_hash(state: Any) -> Any:
            mixed = 0
            for item in state.flat:
                mixed = 1000003 * mixed + hash(item)
            return mixed

        @njit
        def array_same(a: Any, b: Any) -> Any:
            return np.array_equal(a, b)

        return {"HASH": array_hash, "SAME": array_same}
    if isinstance(kind, types.BaseTuple) and any(
        isinstance(part, types.Array | types.BaseTuple) for part in kind.types
    ):
        return _tuple_hashing(kind)

    @njit(inline="always")
    def plain_hash(state: Any) -> Any:
        return hash(state)

    @njit(inline="always")
    def plain_same(a: Any, b: Any) -> Any:
        return a == b

    return {"HASH": plain_hash, "SAME": plain_same}


def _tuple_hashing(kind: Any) -> dict[str, Any]:
    """HASH and SAME for tuples that hold arrays or tuples, as generated code.

    Numba unrolls a tuple only where its length stands in the source.
    """
    from numba import njit

    scope: dict[str, Any] = {}
    for i, part in enumerate(kind.types):
        inner = hashing(part)
        scope |= {f"hash{i}": inner["HASH"], f"same{i}": inner["SAME"]}
    n = range(len(kind.types))
    mixed = "0"
    for i in n:
        mixed = f"1000003 * ({mixed}) + hash{i}(state[{i}])"
    exec(f"def tuple_hash(state): return {mixed}", scope)
    exec(
        "def tuple_same(a, b): return "
        + " and ".join(f"same{i}(a[{i}], b[{i}])" for i in n),
        scope,
    )
    return {"HASH": njit(scope["tuple_hash"]), "SAME": njit(scope["tuple_same"])}
