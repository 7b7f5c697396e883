"""Where a stream is after a number of samples that take one number each.

So the stream of a table's pair needs no memory: it is found from its first words and
the samples that the pair has (``jumps_kernel``).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from smoothcruiser.certified import jumps_kernel
from smoothcruiser.jit.build import compile_function
from smoothcruiser.problem.tabular import Ints


@cache
def _tools() -> tuple[Any, Any]:
    """The compiled loop, and its matrices."""
    matrices = np.zeros((jumps_kernel.STEPS, jumps_kernel.BITS, 4), np.uint64)
    compile_function(jumps_kernel.fill)(matrices)
    return compile_function(jumps_kernel.advance, nogil=True), matrices


def advance_streams(words: Any, counts: Ints) -> None:
    """Advance streams, rows of four words, by ``counts`` numbers each, in place."""
    advance, matrices = _tools()
    advance(words, counts, matrices)
