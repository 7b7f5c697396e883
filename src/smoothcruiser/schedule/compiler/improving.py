"""Which of many candidates become the cheapest ones of their cells."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def improving(cell: Array, price: Array, known: Array) -> tuple[Array, Array]:
    """Return (cells, candidates): the cells that get cheaper, and by which candidate.

    ``known`` has the price of every cell so far. Of equal candidates the first counts.
    """
    lower = np.flatnonzero(price < known[cell])
    if len(lower) == 0:
        return lower, lower
    order = np.lexsort((price[lower], cell[lower]))
    cells = cell[lower][order]
    first = np.ones(len(cells), dtype=np.bool_)
    np.not_equal(cells[1:], cells[:-1], out=first[1:])
    return cells[first], lower[order[first]]
