"""Reads of arrays by address inside compiled code: no reference counts, no wrap-around checks.

Numba counts a reference for every array it takes out of a tuple, atomically; in a loop that draws a hundred million successors a
second that is most of the time (measured: 4 M calls/s with counted arrays, 100 M with addresses). The owner of the arrays must keep
them alive while an address is in use: ``problem.tabular.Tables`` does. This module imports Numba, so it is itself imported late.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic


def _reader(kind: Any) -> Any:
    def typed(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, offset = arguments
            base = builder.inttoptr(place, context.get_value_type(kind).as_pointer())
            return builder.load(cgutils.gep_inbounds(builder, base, offset))

        return kind(types.intp, types.intp), generate

    return intrinsic(typed)


int_at = _reader(types.int64)
float_at = _reader(types.float64)
byte_at = _reader(types.uint8)
