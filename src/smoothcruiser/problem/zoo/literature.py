"""The problems on which tree searches are compared in the literature.

They have the published parameters, discount 1 and a horizon.

  d-chain         Coquelin and Munos 2007, as in Painter et al. 2023: right or
                  down; down at i pays (D-1-i)/D and ends, the last right pays
                  R_f. Small rewards come first, so a search has to see past
                  them.
  frozen-lake     Painter et al. 2023: deterministic 8 x 8 lake, holes end, the
                  goal pays 0.99^t at time t; time is part of the state.
  sailing         Peret and Garcia 2004, as in Painter et al.: 6 x 6, eight
                  directions, never against the wind; a move costs 1 + tack
                  (45-degree turns from the wind); the wind then changes at
                  random; start in a corner with the wind south-east.
  synthetic-tree  Xiao et al. 2019, Dam et al. 2021: a k-ary tree of depth d,
                  edge weights uniform on (0, 1); a leaf's mean is the sum of
                  the weights on its path, scaled to [0, 1] over all leaves.
                  They add Gaussian noise of deviation 0.05 to a leaf. Rewards
                  here are bounded by contract, so the noise is +-0.05 with
                  equal chances: the same mean and deviation.

All are tabular, so that ``exact`` solves them and one compiled step runs them.
Rows are written sparsely (``CompressedRows``).

Parameters of built-in problems: whole numbers, and sizes that fit in memory.

A problem is priced before anything is allocated: the bytes of its arrays and of the
Python objects that they are built from. Above ``MOST_BYTES`` it is refused, on every
machine alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number, is_whole, shorten_value
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.model.tabular import CompressedRows, tabular
from smoothcruiser.problem.problem import Problem

# The lake of the published experiments (Painter et al. 2023, appendix): S start, F
# frozen, H hole, G goal.
LAKE = (
    "SFFFFFHF",
    "FFFFFFFF",
    "FHFHFFFF",
    "FFFFFFHH",
    "FFFHFFFF",
    "FHHHFFFF",
    "FFFFFHFF",
    "FFFFFFFG",
)

# Row w: chances of the next wind among N, NE, E, SE, S, SW, W, NW after wind w, in
# tenths (Peret and Garcia's table).
WIND = (
    "43000003",
    "43300000",
    "04330000",
    "00433000",
    "00042400",
    "00003340",
    "00000334",
    "40000033",
)
# the eight directions, N first, clockwise
MOVES = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
DIRECTIONS = (
    "north",
    "north-east",
    "east",
    "south-east",
    "south",
    "south-west",
    "west",
    "north-west",
)
SOUTH_EAST = 3

# most leaves of a synthetic tree; the largest published (16-ary, depth 5) has a
# million
LARGEST_TREE = 4_000_000
NOISE = 0.05


def _steps(horizon: Any, published: int) -> int:
    return published if horizon is None else check_whole("horizon", horizon, 1)


def _problem_from_rows(
    rows: list[list[tuple[float, float, int]]], num_states: int, **rest: Any
) -> Problem:
    """The problem of these rows: row s*A + a lists (probability, reward, next state).

    A row is empty where the action is illegal or the state terminal.
    """
    row_sizes = [len(row) for row in rows]
    all_entries = [entry for row in rows for entry in row]
    P = CompressedRows(
        np.concatenate([[0], np.cumsum(row_sizes)]),
        np.array([z for _, _, z in all_entries], dtype=np.int64),
        np.array([p for p, _, _ in all_entries]),
        (len(rows), num_states),
    )
    return tabular(P, np.array([r for _, r, _ in all_entries]), **rest)


def d_chain(
    *, d: int = 10, final: float = 1.0, horizon: int | None = None, **rest: Any
) -> Problem:
    """D-chain: states 0..d-1 and the end; actions right, down."""
    d, final = check_whole("d", d, 1), check_real("final", final)
    check_memory(f"d={shorten_value(d)}", 2 * d * (LIST_ROW + LIST_ITEM))
    end_state = d
    rows: list[list[tuple[float, float, int]]] = []
    for i in range(d):
        rows.append(
            [(1.0, final if i == d - 1 else 0.0, i + 1 if i < d - 1 else end_state)]
        )
        rows.append([(1.0, (d - 1 - i) / d, end_state)])
    rows += [[], []]
    terminal = np.arange(d + 1) == end_state
    reward_low, reward_high = min(0.0, final), max(1.0, final)
    return _problem_from_rows(
        rows,
        d + 1,
        terminal=terminal,
        horizon=_steps(horizon, d),
        reward_range=(reward_low, reward_high),
        payoffs=AT_THE_END,
        actions=("right", "down"),
        **rest,
    )


def frozen_lake(*, horizon: int | None = None, **rest: Any) -> Problem:
    """The deterministic 8 x 8 lake.

    State t * 64 + row * 8 + column; actions right, down, left, up.
    """
    horizon = _steps(horizon, 100)
    lake_size = len(LAKE)
    num_cells = lake_size * lake_size
    check_memory(
        f"horizon={shorten_value(horizon)}",
        4 * horizon * num_cells * (LIST_ROW + LIST_ITEM),
    )
    cell_kinds = "".join(LAKE)
    rows: list[list[tuple[float, float, int]]] = []
    terminal = []
    for t in range(horizon + 1):
        for c in range(num_cells):
            is_over = cell_kinds[c] in "HG" or t == horizon
            terminal.append(is_over)
            for column_step, row_step in ((1, 0), (0, 1), (-1, 0), (0, -1)):
                if is_over:
                    rows.append([])
                    continue
                row = min(max(c // lake_size + row_step, 0), lake_size - 1)
                column = min(max(c % lake_size + column_step, 0), lake_size - 1)
                next_cell = row * lake_size + column
                rows.append(
                    [
                        (
                            1.0,
                            0.99 ** (t + 1) if cell_kinds[next_cell] == "G" else 0.0,
                            (t + 1) * num_cells + next_cell,
                        )
                    ]
                )
    return _problem_from_rows(
        rows,
        (horizon + 1) * num_cells,
        terminal=np.array(terminal),
        horizon=horizon,
        payoffs=AT_THE_END,
        actions=("right", "down", "left", "up"),
        **rest,
    )


def sailing(
    *, n: int = 6, wind: int = SOUTH_EAST, horizon: int | None = None, **rest: Any
) -> Problem:
    """Sailing on n x n points.

    State (x * n + y) * 8 + wind; the eight directions are the actions.
    """
    n = check_whole("n", n, 2)
    if check_whole("wind", wind, 0) > 7:
        raise InvalidInput(
            "wind must be a direction from 0 (north) to 7 (north-west), got "
            f"{shorten_value(wind)}."
        )
    num_states = n * n * 8
    # at most four winds follow each of the eight moves
    check_memory(f"n={shorten_value(n)}", 8 * num_states * (LIST_ROW + 4 * LIST_ITEM))
    rows: list[list[tuple[float, float, int]]] = []
    legal = np.zeros((num_states, 8), dtype=bool)
    terminal = np.zeros(num_states, dtype=bool)
    for s in range(num_states):
        x, y, w = s // 8 // n, s // 8 % n, s % 8
        terminal[s] = x == n - 1 and y == n - 1
        for a, (dx, dy) in enumerate(MOVES):
            is_inside = 0 <= x + dx < n and 0 <= y + dy < n
            legal[s, a] = is_inside and a != (w + 4) % 8
            if terminal[s] or not legal[s, a]:
                rows.append([])
                continue
            tack = min((a - w) % 8, (w - a) % 8)
            next_point = ((x + dx) * n + y + dy) * 8
            rows.append(
                [
                    (int(p) / 10.0, -1.0 - tack, next_point + z)
                    for z, p in enumerate(WIND[w])
                    if p != "0"
                ]
            )
    return _problem_from_rows(
        rows,
        num_states,
        terminal=terminal,
        legal=legal,
        horizon=_steps(horizon, 50),
        initial_state=wind,
        reward_range=(-4.0, -1.0),
        actions=DIRECTIONS,
        **rest,
    )


def synthetic_tree(
    *, k: int = 4, d: int = 3, seed: int = 0, horizon: int | None = None, **rest: Any
) -> Problem:
    """The k-ary tree of depth d.

    Inner nodes are numbered level by level, then come two ends (noise up, noise
    down).
    """
    k, d = check_whole("k", k, 2), check_whole("d", d, 1)
    num_leaves = min(k, LARGEST_TREE + 1) ** min(d, LARGEST_TREE.bit_length())
    if num_leaves > LARGEST_TREE:
        raise InvalidInput(
            f"A tree with k={shorten_value(k)}, d={shorten_value(d)} has more than "
            f"{LARGEST_TREE:,} leaves, k to the power of d; take smaller k or d."
        )
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    path_sums = np.zeros(1)
    for _ in range(d):
        path_sums = np.repeat(path_sums, k) + rng.random(len(path_sums) * k)
    leaf_means = (path_sums - path_sums.min()) / (path_sums.max() - path_sums.min())
    num_inner = (k**d - 1) // (k - 1)
    num_above = num_inner - k ** (d - 1)  # nodes of all levels but the last inner one
    up_end, down_end = num_inner, num_inner + 1
    upper_nodes = np.arange(num_above)
    child_nodes = (upper_nodes[:, None] * k + 1 + np.arange(k)[None, :]).reshape(-1)
    next_states = np.concatenate([child_nodes, np.tile([up_end, down_end], k**d)])
    probabilities = np.concatenate([np.ones(len(child_nodes)), np.full(2 * k**d, 0.5)])
    reward = np.concatenate(
        [
            np.zeros(len(child_nodes)),
            np.repeat(leaf_means, 2) + np.tile([NOISE, -NOISE], k**d),
        ]
    )
    row_sizes = np.concatenate(
        [np.ones(len(child_nodes)), np.full(k**d, 2), np.zeros(2 * k)]
    ).astype(np.int64)
    P = CompressedRows(
        np.concatenate([[0], np.cumsum(row_sizes)]),
        next_states,
        probabilities,
        ((num_inner + 2) * k, num_inner + 2),
    )
    terminal = np.arange(num_inner + 2) >= num_inner
    return tabular(
        P,
        reward,
        terminal=terminal,
        horizon=_steps(horizon, d),
        reward_range=(-NOISE, 1.0 + NOISE),
        payoffs=AT_THE_END,
        **rest,
    )


MOST_BYTES = 2 * 10**9
NUMBER = 8  # bytes of a float64 or an int64
# Bytes of a row that begins as a list of (probability, reward, next state), the arrays
# made of it included: tracemalloc counts 280 for rows with one successor (d-chain) and
# 660 for rows with up to four (sailing).
LIST_ROW, LIST_ITEM = 150, 130


def check_whole(name: str, value: Any, low: int, high: float = math.inf) -> int:
    """The parameter as a whole number from ``low`` to ``high``."""
    if not is_whole(value) or not low <= value <= high:
        limit_text = "" if high == math.inf else f" and at most {high}"
        raise InvalidInput(
            f"{name} must be a whole number of at least {low}{limit_text}, got "
            f"{shorten_value(value)}."
        )
    return int(value)


def check_real(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf
) -> float:
    """The parameter as a finite number from ``low`` to ``high``."""
    is_finite = is_number(value) and math.isfinite(_float(value))
    if not is_finite or not low <= float(value) <= high:
        low_text = "" if low == -math.inf else f" of at least {low:g}"
        high_text = "" if high == math.inf else f" and at most {high:g}"
        raise InvalidInput(
            f"{name} must be a finite number{low_text}{high_text}, got "
            f"{shorten_value(value)}."
        )
    return float(value)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_memory(sizes: str, num_bytes: int) -> None:
    """Refuse a problem that takes too much memory; ``sizes`` are its parameters."""
    if num_bytes > MOST_BYTES:
        # logarithms: the number may have more digits than Python prints
        log_bytes = math.log10(num_bytes)
        size_text = (
            f"{num_bytes / 1e9:,.1f} GB"
            if log_bytes < 15
            else f"10^{log_bytes:.0f} bytes"
        )
        raise InvalidInput(
            f"A problem with {sizes} would take {size_text} of memory, more than the "
            f"{MOST_BYTES / 1e9:g} GB that a built-in problem may; take smaller "
            "numbers."
        )
