"""Candidates that become the cheapest ones of their cells."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def find_improvements(
    cell: Array, price: Array, cell_prices: Array
) -> tuple[Array, Array]:
    """Return (cells, candidates): the cells that get cheaper, and by which candidate.

    ``cell_prices`` has the price of every cell so far. Of equal candidates the first
    counts.
    """
    cheaper = np.flatnonzero(price < cell_prices[cell])
    if len(cheaper) == 0:
        return cheaper, cheaper
    price_order = np.lexsort((price[cheaper], cell[cheaper]))
    cells = cell[cheaper][price_order]
    is_first = np.ones(len(cells), dtype=np.bool_)
    np.not_equal(cells[1:], cells[:-1], out=is_first[1:])
    return cells[is_first], cheaper[price_order[is_first]]
