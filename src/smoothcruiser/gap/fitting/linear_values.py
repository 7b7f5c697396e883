"""Values as sums of features, by least squares.

W_t(s) = sum_k theta_tk phi_k(s), with features of the user's (``features=``, a function
state -> row), or the default ones of the fields of a state: 1, z, and products of two,
each z centered and scaled. Fitted value iteration on nodes s_i that rollouts visited:

  theta_t = least squares of F([mean_j r_j + gamma phi(s'_j) theta_(t+1)]_a) on phi(s_i).

Samples are fixed, so mean_j phi(s'_j) is one number per node, action and feature. Backed
up values are clipped to the bounds on V: the iteration may not converge, yet W stays a
fixed function, and any W is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.critics import MOST_CELLS, Critic
from smoothcruiser.gap.fitting import fitting_kernel
from smoothcruiser.gap.fitting.model_samples import PairSamples, StepSampler
from smoothcruiser.gap.fitting.state_fields import (
    Floats,
    compiled_field,
    rows_of_numbers,
)
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.operators import Max
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.problem import Problem

FITTED = KernelFamily(compiling=2.0)  # loops over rows of fields
MOST_QUADRATIC = 12  # fields whose products are features
RIDGE = 1e-9  # of the largest singular value, below which directions are left out
NODES_PER_FEATURE = 8
MOST_NODES, MOST_SLOW_NODES = 2000, 400  # slow: an operator that is asked row by row
SAMPLES, FEWEST_SAMPLES = 48, 8  # per pair
MOST_SWEEPS, CONVERGED = 20_000, 1e-6


@dataclass(frozen=True)
class Basis:
    """The default features of fields: 1, z and products of two."""

    centers: Floats
    scales: Floats
    bounds: Floats  # (2,) of values

    @classmethod
    def of(cls, rows: Floats, bounds: Floats) -> Basis:
        """The features of states whose fields lie about these rows."""
        spreads = rows.std(axis=0)
        scales = 1.0 / np.where(spreads > 1e-12, spreads, 1.0)
        return cls(rows.mean(axis=0), scales, bounds)

    def features(self, rows: Floats) -> Floats:
        """(N, F), in the order of ``fitting_kernel.basis_value``."""
        z = (rows - self.centers) * self.scales
        columns = [np.ones(z.shape[:-1])]
        for i in range(z.shape[-1]):
            columns.append(z[..., i])
            columns += [z[..., i] * z[..., j] for j in range(i + 1)]
        return np.stack(columns, axis=-1)

    @property
    def is_used(self) -> Any:
        """(F,): features that are fitted; of many fields no products, but squares."""
        num_fields, used = len(self.centers), [True]
        for i in range(num_fields):
            few = num_fields <= MOST_QUADRATIC
            used += [True, *(few or j == i for j in range(i + 1))]
        return np.array(used)

    def used_features(self, rows: Floats) -> Floats:
        """(N, U): the features that are fitted."""
        used: Floats = self.features(rows)[..., self.is_used]
        return used

    def fit(self, rows: Floats, values: Floats) -> Floats:
        """The coefficients of values at rows, by least squares."""
        used = self.is_used
        features = self.features(rows)[:, used]
        coefficients = np.zeros(len(used))
        coefficients[used] = np.linalg.lstsq(features, values, rcond=RIDGE)[0]
        return coefficients


def bind_fields(function: Any, state_type: Any, template: Any) -> Any:
    """The compiled form of a value over fields, for states of one Numba type."""
    from numba import typeof

    from smoothcruiser.states.codec import state_shapes

    try:
        if typeof(template) != state_type:
            return None
    except ValueError:
        return None
    field_of = compiled_field(state_type, state_shapes(template))
    return compile_function(function, field_of=field_of)


def thin_stages(stages: Floats) -> tuple[Floats, int]:
    """(stages, k): every k-th of them, so that memory stays small; the last is exact.

    Between two that are stored values are interpolated, so that a last stage is set
    which makes the value with all steps left the one that was computed.
    """
    horizon = len(stages) - 1
    every = max(1, -(-stages.size // MOST_CELLS))
    if every == 1:
        return np.ascontiguousarray(stages), 1
    kept_stages = stages[::every]
    extra = horizon % every
    if extra:
        last = kept_stages[-1]
        beyond = last + (stages[-1] - last) * (every / extra)
        kept_stages = np.concatenate([kept_stages, beyond[None]])
    return np.ascontiguousarray(kept_stages), every


class LinearCritic(Critic):
    """Fitted values by default features."""

    def __init__(self, basis: Basis, stages: Floats, template: Any) -> None:
        stages, every = thin_stages(stages)
        self.template, self.uses_steps = template, len(stages) > 1
        self.data = stages, every, basis.centers, basis.scales, basis.bounds

    def raw_values(self, states: Any, steps_left: int | None) -> Floats:
        """Values by the same loop as in machine code."""
        rows = rows_of_numbers([*states])
        values = np.empty(len(rows))
        evaluate = FITTED.kernel(fitting_kernel.evaluate_linear, views=False)
        steps = -1 if steps_left is None else steps_left
        evaluate(self.data, steps, rows, values, work=rows.size * rows.shape[1])
        return values

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """The sum, for states of one form."""
        value = bind_fields(fitting_kernel.linear_value, state_type, self.template)
        return None if value is None else (value, self.data)


class FeatureCritic(Critic):
    """Fitted values by the user's features."""

    def __init__(self, source: Any, stages: Floats, bounds: Floats) -> None:
        stages, every = thin_stages(stages)
        self.source, self.read = source, read_features(source)
        self.uses_steps = len(stages) > 1
        self.data = stages, every, bounds

    def raw_values(self, states: Any, steps_left: int | None) -> Floats:
        """Sums of features, in the order of machine code."""
        stages, every, bounds = self.data
        steps = -1 if steps_left is None else steps_left
        stage, share = fitting_kernel.stage_value(every, len(stages), steps)
        features = self.read([*states])
        values = np.zeros(len(features))
        for k in range(features.shape[1]):
            values += stages[stage, k] * features[:, k]
        if share > 0.0:
            next_values = np.zeros(len(features))
            for k in range(features.shape[1]):
                next_values += stages[stage + 1, k] * features[:, k]
            values += share * (next_values - values)
        return np.clip(values, bounds[0], bounds[1])

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """The sum, where the features are compiled."""
        if not is_compiled(self.source):
            return None
        value = compile_function(
            fitting_kernel.feature_value, call_features=self.source
        )
        return value, self.data


def read_features(features: Any) -> Callable[[Sequence[Any]], Floats]:
    """A function of a list of states, (N, F), from the user's ``features=``."""

    def read_rows(states: Sequence[Any]) -> Floats:
        if isinstance(features, Batched):
            from smoothcruiser.tree.evaluators.base import stack_states

            rows = np.asarray(features.function(stack_states(states)), np.float64)
        else:
            rows = np.array([features(state) for state in states], np.float64)
        if rows.ndim != 2 or len(rows) != len(states) or not np.isfinite(rows).all():
            raise InvalidInput(
                "features must give one row of finite numbers per state, got shape "
                f"{rows.shape} for {len(states)} states, at {states[0]!r:.60}."
            )
        return rows

    if not callable(features) and not isinstance(features, Batched):
        raise InvalidInput(
            "features must be a function state -> row of numbers, or sc.batched of a "
            f"function of many, got {features!r:.60}."
        )
    return read_rows


def fit_linear(
    sampler: StepSampler, states: Sequence[Any], bounds: Floats, features: Any = None
) -> Critic:
    """The values of visited states by least squares."""
    if features is None:
        basis = Basis.of(rows_of_numbers(states), bounds)
        num_features = int(basis.is_used.sum())
    else:
        read = read_features(features)
        num_features = read(states[:1]).shape[1]
    states, num_samples = choose_nodes(sampler, states, num_features)
    if features is None:
        samples = sampler.sample_states(states, num_samples)
        node_features = basis.features(rows_of_numbers(states))[:, basis.is_used]
        following = mean_following(samples, basis.used_features)
    else:
        samples = sampler.sample_states(states, num_samples, read)
        node_features = read(states)
        following = mean_following(samples, lambda rows: rows)
    stages = iterate_values(sampler.problem, node_features, following, samples, bounds)
    if features is None:
        all_stages = np.zeros((len(stages), len(basis.is_used)))
        all_stages[:, basis.is_used] = stages
        critic: Critic = LinearCritic(basis, all_stages, states[0])
    else:
        critic = FeatureCritic(features, stages, bounds)
    critic.notes = (
        f"value: least squares on {stages.shape[1]} "
        f"{'default ' if features is None else ''}features at {len(states):,} visited "
        f"states, {num_samples} samples per action ({sampler.calls:,} calls).",
    )
    return critic


def choose_nodes(
    sampler: StepSampler, states: Sequence[Any], num_features: int
) -> tuple[list[Any], int]:
    """(nodes among visited states, samples per pair) that the calls pay for."""
    problem = sampler.problem
    num_samples = 1 if problem.deterministic else FEWEST_SAMPLES
    most_nodes = MOST_NODES if isinstance(problem.operator, Max) else MOST_SLOW_NODES
    affordable = sampler.calls_left // (problem.num_actions * num_samples)
    num_nodes = min(len(states), most_nodes, affordable)
    wanted = max(NODES_PER_FEATURE * num_features, 100)
    if num_nodes < min(num_features, len(states)):
        raise InvalidInput(
            f"The fit of {num_features} features needs "
            f"{num_features * problem.num_actions * num_samples:,} calls at least, and "
            f"{sampler.calls_left:,} are left; raise budget=, or give value=."
        )
    if not problem.deterministic:
        nodes = max(min(wanted, num_nodes), num_nodes // 4)
        per_pair = sampler.calls_left // (problem.num_actions * nodes)
        num_samples = min(SAMPLES, max(FEWEST_SAMPLES, per_pair))
        affordable = sampler.calls_left // (problem.num_actions * num_samples)
        num_nodes = min(num_nodes, affordable)
    places = np.unique(np.linspace(0, len(states) - 1, num_nodes).astype(np.int64))
    return [states[i] for i in places.tolist()], num_samples


def mean_following(
    samples: PairSamples, features: Callable[[Floats], Floats]
) -> Floats:
    """(N, K, F): the mean features of next states, 0 where an episode ends."""
    means = []
    for rows, is_alive in zip(samples.rows, samples.is_alive, strict=True):
        node_features = np.where(is_alive[..., None], features(rows), 0.0)
        means.append(node_features.mean(axis=1))
    return np.array(means)


def iterate_values(
    problem: Problem,
    features: Floats,
    following: Floats,
    samples: PairSamples,
    bounds: Floats,
) -> Floats:
    """(T, F): the coefficients by steps left; without a horizon one row."""
    live = ~samples.is_terminal
    rewards = samples.rewards.mean(axis=2)[live]
    following = problem.discount * following[live]
    solver = np.linalg.pinv(features[live], rcond=RIDGE)
    legal, players = samples.legal[live], samples.players[live]

    def back_up(coefficients: Floats) -> Floats:
        """The coefficients with one step more."""
        q_values = rewards + following @ coefficients
        values = apply_operator(problem, q_values, legal, players)
        next_coefficients: Floats = solver @ np.clip(values, bounds[0], bounds[1])
        return next_coefficients

    coefficients: Floats = np.zeros(features.shape[1])
    if problem.horizon is not None:
        stages = [coefficients]
        for _ in range(problem.horizon):
            stages.append(back_up(stages[-1]))
        return np.array(stages)
    num_sweeps = min(MOST_SWEEPS, 50 + int(12.0 / (1.0 - problem.discount)))
    for _ in range(num_sweeps):
        next_coefficients = back_up(coefficients)
        change = float(np.abs(next_coefficients - coefficients).max())
        coefficients = next_coefficients
        if change <= CONVERGED * (1.0 - problem.discount) * np.abs(coefficients).max():
            break
    return coefficients[None]


def apply_operator(
    problem: Problem, q_values: Floats, legal: Any, players: Any
) -> Floats:
    """F of each row of action values, from the view of the one who moves."""
    if isinstance(problem.operator, Max):
        sign = np.where(players == 2, -1.0, 1.0)
        signed = np.where(legal, sign[:, None] * q_values, -np.inf)
        best: Floats = sign * signed.max(axis=1)
        return best
    weights = problem.operator.weights(problem.num_actions)
    values = np.empty(len(q_values))
    for i, row in enumerate(q_values.tolist()):
        actions = np.flatnonzero(legal[i]).tolist()
        values[i] = problem.operator.value(
            [row[a] for a in actions],
            player=int(players[i]),
            weights=[weights[a] for a in actions],
        )
    return values
