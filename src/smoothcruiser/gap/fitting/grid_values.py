"""Values on a grid of up to three continuous fields times a table of discrete ones.

A node is a combination of discrete fields with a grid point of continuous ones. With
samples (r_j, s'_j) of each node and action, fixed once, fitted value iteration is

  V_t(node) = F_node([mean_j r_j + gamma sum_c w_jc V_(t+1)(node_jc)]_a),

w_jc the weights of multilinear interpolation at s'_j, which is clamped at the edges.
Weights are at least 0 and sum to 1: this is the Bellman equation of a finite problem
(Gordon 1995), which the exact solver solves, for any operator, games and horizons.

The table holds the combinations that rollouts met and those that samples lead to.
Beyond it a quadratic function that is fitted to the nodes answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.critics import Critic
from smoothcruiser.exact.solver import solve
from smoothcruiser.gap.fitting import fitting_kernel
from smoothcruiser.gap.fitting.linear_values import (
    FITTED,
    Basis,
    bind_fields,
    thin_stages,
)
from smoothcruiser.gap.fitting.model_samples import PairSamples, StepSampler
from smoothcruiser.gap.fitting.state_fields import (
    Floats,
    Ints,
    StateForm,
    rows_of_numbers,
)
from smoothcruiser.problem.model.array_input import CompressedRows
from smoothcruiser.problem.model.tabular import tabular

MOST_AXES = 3  # continuous fields of a grid
# points of an axis to choose from, by the number of axes
POINTS = {0: (1,), 1: (33, 21, 15, 11, 7, 5), 2: (15, 11, 7, 5), 3: (9, 7, 5, 4)}
MOST_NODES = 30_000  # that the solver goes through in a second or two per 100 sweeps
SCOUTS = 4  # samples per pair that look for further combinations
SAMPLES, FEWEST_SAMPLES = (
    400,
    24,
)  # per pair: as many as are paid for, and as are worth it
COARSE_SAMPLES = 48  # per pair, before an axis gets more points
BLOCK = 2_000_000  # samples that are held at once
ACCURACY = 1e-6  # of the solution, as a share of the span of values


class TooManyNodes(InvalidInput):
    """The combinations of discrete fields are more than the calls pay for."""


class GridCritic(Critic):
    """Fitted values on a grid."""

    def __init__(self, grid: Grid, stages: Floats, every: int, basis: Basis) -> None:
        self.grid, self.uses_steps = grid, len(stages) > 1
        self.slots = make_combination_slots(grid.combinations)
        coefficients = np.array([basis.fit(grid.rows, stage) for stage in stages])
        off_table = coefficients, basis.centers, basis.scales, basis.bounds
        places = grid.form.discrete, grid.form.continuous
        self.data = (
            np.ascontiguousarray(stages),
            every,
            (self.slots, grid.combinations),
            places,
            (grid.lows, grid.inverse_steps, grid.sizes),
            off_table,
        )

    def raw_values(self, states: Any, steps_left: int | None) -> Floats:
        """Interpolated values, by the same loop as in machine code."""
        rows = rows_of_numbers([*states])
        values = np.empty(len(rows))
        evaluate = FITTED.kernel(fitting_kernel.evaluate_grid, views=False)
        with np.errstate(over="ignore"):
            evaluate(
                self.data,
                -1 if steps_left is None else steps_left,
                rows,
                values,
                work=50.0 * rows.size,
            )
        return values

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """The interpolation, for states of one form."""
        value = bind_fields(
            fitting_kernel.grid_value, state_type, self.grid.form.template
        )
        return None if value is None else (value, self.data)

    def __str__(self) -> str:
        return f"grid of {len(self.grid.rows):,} nodes"


def make_combination_slots(combinations: Ints) -> Ints:
    """The hash table of combinations, at most half full."""
    num_slots = 2
    while num_slots < 2 * len(combinations):
        num_slots *= 2
    slots = np.full(num_slots, fitting_kernel.FREE, np.int64)
    enter = FITTED.kernel(fitting_kernel.enter_combinations, views=False)
    with np.errstate(over="ignore"):
        enter(slots, combinations, work=20.0 * combinations.size)
    return slots


class Grid(NamedTuple):
    """The nodes: combinations (C, D) times the points of the axes."""

    form: StateForm
    combinations: Ints
    lows: Floats
    highs: Floats
    sizes: Ints

    @property
    def num_points(self) -> int:
        """The grid points of one combination."""
        return int(np.prod(self.sizes))

    @property
    def inverse_steps(self) -> Floats:
        """Grid steps per unit of each axis; 0 where an axis has one point or no length."""
        lengths = self.highs - self.lows
        is_flat = (lengths <= 0.0) | (self.sizes < 2)
        steps: Floats = (self.sizes - 1) / np.where(is_flat, 1.0, lengths)
        return np.where(is_flat, 0.0, steps)

    @property
    def rows(self) -> Floats:
        """(C M, d) The fields of all nodes, combination by combination."""
        axes = [
            np.linspace(low, high, size)
            for low, high, size in zip(self.lows, self.highs, self.sizes, strict=True)
        ]
        points = np.zeros((1, 0))
        if axes:
            points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
            points = points.reshape(-1, len(axes))
        num_fields = len(self.form.is_discrete)
        rows = np.zeros((len(self.combinations), len(points), num_fields))
        rows[:, :, self.form.discrete] = self.combinations[:, None, :]
        rows[:, :, self.form.continuous] = points[None, :, :]
        return rows.reshape(-1, num_fields)

    def states(self, first: int = 0) -> list[Any]:
        """The states of the nodes of combinations ``first``, ``first`` + 1, ..."""
        rows = self.rows[first * self.num_points :]
        return [self.form.rebuild(row) for row in rows.tolist()]

    def locate(self, rows: Floats) -> tuple[Ints, Floats]:
        """(M, 2^axes): the nodes around rows of fields, and their weights."""
        combination = find_rows(self.combinations, rows[:, self.form.discrete])
        position = (rows[:, self.form.continuous] - self.lows) * self.inverse_steps
        position = np.clip(position, 0.0, self.sizes - 1.0)
        lower = np.minimum(position.astype(np.int64), np.maximum(self.sizes - 2, 0))
        share = position - lower
        num_axes = len(self.sizes)
        nodes = np.zeros((len(rows), 1 << num_axes), np.int64)
        weights = np.ones((len(rows), 1 << num_axes))
        for corner in range(1 << num_axes):
            index = np.zeros(len(rows), np.int64)
            for d in range(num_axes):
                is_upper = (corner >> d) & 1
                weights[:, corner] *= share[:, d] if is_upper else 1.0 - share[:, d]
                place = np.minimum(lower[:, d] + is_upper, self.sizes[d] - 1)
                index = index * self.sizes[d] + place
            nodes[:, corner] = combination * self.num_points + index
        return nodes, weights


def find_rows(table: Ints, rows: Floats) -> Ints:
    """The place of each row in a table of rows; of those not there the nearest one."""
    if table.shape[1] == 0:
        return np.zeros(len(rows), np.int64)
    unique_rows, inverse = np.unique(rows, axis=0, return_inverse=True)
    place_of = {tuple(row): i for i, row in enumerate(table.tolist())}
    places = np.empty(len(unique_rows), np.int64)
    spread = np.maximum(table.max(axis=0) - table.min(axis=0), 1)
    for i, row in enumerate(unique_rows.tolist()):
        place = place_of.get(tuple(row))
        if place is None:
            distance = (np.abs(table - np.array(row)) / spread).sum(axis=1)
            place = int(distance.argmin())
        places[i] = place
    found_places: Ints = places[inverse.reshape(-1)]
    return found_places


def fit_grid(
    sampler: StepSampler, form: StateForm, rows: Floats, bounds: Floats
) -> GridCritic:
    """The values of a grid over the states of ``rows``; refused where it is too large."""
    problem = sampler.problem
    grid = close_combinations(sampler, first_grid(sampler, form, rows))
    num_pairs = max(1, len(grid.rows) * problem.num_actions)
    num_samples = min(SAMPLES, sampler.calls_left // num_pairs)
    if problem.deterministic:
        num_samples = 1
    elif num_samples < FEWEST_SAMPLES:
        raise TooManyNodes(
            f"A grid of {len(grid.rows):,} nodes would need {num_pairs * FEWEST_SAMPLES:,}"
            f" calls, and {sampler.calls_left:,} are left."
        )
    values = solve_grid(sampler, grid, num_samples)
    stages, every = thin_stages(values)
    critic = GridCritic(grid, stages, every, Basis.of(rows, bounds))
    axes = " x ".join(map(str, grid.sizes.tolist()))
    points = f" times {axes} points" if len(grid.sizes) else ""
    critic.notes = (
        f"value: fitted by value iteration on {len(grid.combinations):,} combinations of "
        f"discrete fields{points}, {num_samples} samples per action "
        f"({sampler.calls:,} calls).",
    )
    return critic


def first_grid(sampler: StepSampler, form: StateForm, rows: Floats) -> Grid:
    """The combinations that rollouts met, with as many grid points as calls pay for."""
    num_axes = len(form.continuous)
    if num_axes > MOST_AXES:
        raise TooManyNodes(
            f"States have {num_axes} continuous fields; a grid takes {MOST_AXES}."
        )
    combinations = np.unique(rows[:, form.discrete], axis=0).astype(np.int64)
    axes = rows[:, form.continuous]
    fewest = 1 if sampler.problem.deterministic else FEWEST_SAMPLES
    wanted = 1 if sampler.problem.deterministic else COARSE_SAMPLES
    num_pairs = len(combinations) * sampler.problem.num_actions
    sizes = POINTS[num_axes]
    for num_points in sizes:
        num_nodes = len(combinations) * num_points**num_axes
        cost = num_pairs * num_points**num_axes
        cost *= fewest if num_points == sizes[-1] else wanted
        if num_nodes <= MOST_NODES and 2 * cost <= sampler.calls_left:
            break
    else:
        raise TooManyNodes("The states that rollouts met are too many for a table.")
    return Grid(
        form,
        combinations,
        axes.min(axis=0) if num_axes else np.zeros(0),
        axes.max(axis=0) if num_axes else np.zeros(0),
        np.full(num_axes, num_points, np.int64),
    )


def close_combinations(sampler: StepSampler, grid: Grid) -> Grid:
    """The grid with the combinations that its samples lead to, and theirs."""
    K, place = sampler.problem.num_actions, 0
    most_nodes = MOST_NODES
    if not sampler.problem.deterministic:
        most_nodes = min(most_nodes, sampler.calls_left // (K * FEWEST_SAMPLES))
    if not len(grid.form.discrete):
        return grid
    while place < len(grid.combinations):
        num_nodes = len(grid.combinations) * grid.num_points
        if num_nodes > most_nodes:
            raise TooManyNodes(
                f"The discrete fields of states have more than {len(grid.combinations):,} "
                "combinations, too many for a table."
            )
        samples = sampler.sample_states(grid.states(place), SCOUTS)
        reached = samples.rows[samples.is_alive][:, grid.form.discrete]
        known = {tuple(row) for row in grid.combinations.tolist()}
        new_rows = [
            row
            for row in np.unique(reached, axis=0).astype(np.int64).tolist()
            if tuple(row) not in known
        ]
        place = len(grid.combinations)
        if new_rows:
            table = np.concatenate([grid.combinations, np.array(new_rows, np.int64)])
            grid = grid._replace(combinations=table)
    return grid


def solve_grid(sampler: StepSampler, grid: Grid, num_samples: int) -> Floats:
    """(T, N): the values of all nodes, by steps left; without a horizon one row."""
    problem, states = sampler.problem, grid.states()
    K, num_nodes = problem.num_actions, len(states)
    block = max(1, BLOCK // (K * num_samples))
    parts = [
        mean_rows(grid, sampler.sample_states(states[i : i + block], num_samples), i)
        for i in range(0, num_nodes, block)
    ]
    sizes = np.concatenate([part.sizes for part in parts] + [np.ones(K, np.int64)])
    end_rows = np.full(K, num_nodes)
    indices = np.concatenate([part.indices for part in parts] + [end_rows])
    shares = np.concatenate([part.shares for part in parts] + [np.ones(K)])
    rewards = np.concatenate([part.rewards for part in parts] + [np.zeros(K)])
    legal = np.concatenate(
        [part.legal for part in parts] + [np.ones((1, K), np.bool_)]
    )
    terminal = np.concatenate([part.is_terminal for part in parts] + [[True]])
    players = np.concatenate([part.players for part in parts] + [[1]])
    shape = ((num_nodes + 1) * K, num_nodes + 1)
    start = np.concatenate([[0], np.cumsum(sizes)])
    model = tabular(
        CompressedRows(start, indices, shares, shape),
        np.repeat(rewards, sizes),
        discount=problem.discount,
        operator=problem.operator,
        players=players if problem.is_game else None,
        terminal=terminal,
        legal=legal | terminal[:, None],
        horizon=problem.horizon,
    )
    spread = max(float(np.ptp(rewards)), 1e-12)
    steps = problem.horizon or 1.0 / (1.0 - problem.discount)
    solution = solve(model, tolerance=ACCURACY * spread * steps)
    values = solution.values[None] if solution.stages is None else solution.stages
    return np.nan_to_num(values[:, :num_nodes])


class MeanRows(NamedTuple):
    """Rows of the finite problem for a block of nodes."""

    sizes: Ints  # entries of each (node, action)
    indices: Ints
    shares: Floats
    rewards: Floats  # means, one per (node, action)
    legal: NDArray[np.bool_]
    is_terminal: NDArray[np.bool_]
    players: Ints


def mean_rows(grid: Grid, samples: PairSamples, first: int) -> MeanRows:
    """The interpolated transitions of a block of nodes; the last column is the end."""
    num_block, K, n = samples.rewards.shape
    num_columns = len(grid.combinations) * grid.num_points + 1
    pair = np.repeat(np.arange(num_block * K), n).reshape(num_block, K, n)
    alive = samples.is_alive
    nodes, weights = grid.locate(samples.rows[alive])
    row_numbers = np.repeat(pair[alive], nodes.shape[1])
    ended = pair[~alive]  # pairs that nobody can take lead to the end, too
    keys = np.concatenate(
        [
            row_numbers * num_columns + nodes.ravel(),
            ended * num_columns + num_columns - 1,
        ]
    )
    masses = np.concatenate([weights.ravel(), np.ones(len(ended))]) / n
    unique_keys, inverse = np.unique(keys[masses > 0.0], return_inverse=True)
    shares = np.bincount(inverse.reshape(-1), masses[masses > 0.0])
    return MeanRows(
        np.bincount(unique_keys // num_columns, minlength=num_block * K),
        unique_keys % num_columns,
        shares.astype(np.float64),
        samples.rewards.mean(axis=2).ravel(),
        samples.legal,
        samples.is_terminal,
        samples.players,
    )
