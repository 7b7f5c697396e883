"""Hash and equality of compiled states, built for their type.

Left out: the storage of states (``jit.state_columns``).
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
            mixed_hash = 0
            for element in state.flat:
                mixed_hash = 1000003 * mixed_hash + hash(element)
            return mixed_hash

        @njit
        def array_same(a: Any, b: Any) -> Any:
            return np.array_equal(a, b)

        return {"HASH": array_hash, "SAME": array_same}
    if isinstance(kind, types.BaseTuple) and any(
        isinstance(field_type, types.Array | types.BaseTuple)
        for field_type in kind.types
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

    code_scope: dict[str, Any] = {}
    for i, field_type in enumerate(kind.types):
        field_functions = hashing(field_type)
        code_scope |= {
            f"hash{i}": field_functions["HASH"],
            f"same{i}": field_functions["SAME"],
        }
    field_range = range(len(kind.types))
    hash_source = "0"
    for i in field_range:
        hash_source = f"1000003 * ({hash_source}) + hash{i}(state[{i}])"
    exec(f"def tuple_hash(state): return {hash_source}", code_scope)
    exec(
        "def tuple_same(a, b): return "
        + " and ".join(f"same{i}(a[{i}], b[{i}])" for i in field_range),
        code_scope,
    )
    return {
        "HASH": njit(code_scope["tuple_hash"]),
        "SAME": njit(code_scope["tuple_same"]),
    }
