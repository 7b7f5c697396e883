"""The test of bounds on V that are functions of the state, by one backup.

If lower <= V <= upper everywhere, then with z the next state

    F(E[r + gamma lower(z)]) <= V(s) <= upper(s)   and
    F(E[r + gamma upper(z)]) >= V(s) >= lower(s),

since F is monotone. The means are those of a known model, of one sample where the
step is declared deterministic, and otherwise of samples, with a radius by
Hoeffding's inequality. A backup that lies on the wrong side proves the claim false.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.checks.probe import FALSE_ALARM, SAMPLES, Finding, Probe
from smoothcruiser.errors import OracleError
from smoothcruiser.jit.keys import CheckKey
from smoothcruiser.problem.bounds import bounds_at, bounds_slack
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, largest
from smoothcruiser.problem.rows import known_row

STATES = 6  # their backups are sampled
COMPARED_STATES = 200  # at most: their bounds are only compared with each other

Ends = tuple[float, float]  # of the bounds on V(z), or of one backup


def check_state_bounds(probe: Probe) -> Finding:
    """``value_bounds`` as functions: each other, the gap, the rewards, one backup."""
    problem, facts = probe.problem, probe.problem.facts
    compared_pairs = probe.pairs[:COMPARED_STATES]
    for state, _ in compared_pairs:
        if not problem.is_terminal(state):
            bounds_at(problem, state)  # raises an error that names their fault
    pairs = [
        pair for pair in probe.some_pairs(STATES) if not problem.is_terminal(pair[0])
    ]
    num_tests = max(1, 2 * len(pairs) * facts.num_actions)
    for state_index, (state, _) in enumerate(pairs):
        actions = problem.legal_actions(state)
        action_ends = [
            _backup_ends(probe, state_index, state, a, num_tests) for a in actions
        ]
        prior_weights = [
            problem.operator.weights(facts.num_actions)[a] for a in actions
        ]
        smallest_value, largest_value = (
            problem.operator.value(
                [ends[side] for ends in action_ends],
                player=problem.mover(state),
                weights=prior_weights,
            )
            for side in (0, 1)
        )
        lower, upper = bounds_at(problem, state)
        tolerance = bounds_slack(facts)
        if smallest_value > upper + tolerance or largest_value < lower - tolerance:
            raise OracleError(
                f"value_bounds ({lower:.6g}, {upper:.6g}) at state {state!r} cannot "
                "hold: with the bounds of its next states it is worth between "
                f"{smallest_value:.6g} and {largest_value:.6g}; widen them."
            )
    return Finding(
        "bounds",
        "ok",
        (
            f"value_bounds are in order at {len(compared_pairs)} states and fit one "
            f"backup at {len(pairs)}; only a solution proves them."
        ),
    )


def _backup_ends(
    probe: Probe, state_index: int, state: Any, action: int, num_tests: int
) -> Ends:
    """Bounds on Q(state, action) that hold if those of the next states do."""
    problem, facts = probe.problem, probe.problem.facts
    value_low, value_high = facts.value_hull()
    backup_span = facts.reward_span + facts.discount * (
        max(value_high, 0.0) - min(value_low, 0.0)
    )
    rounding = BOUNDS_ROUNDING * (
        2.0 * largest((value_low, value_high)) + facts.reward_bound
    )
    model_row = None
    if problem.outcomes is not None:
        model_row = known_row(problem, state, action)
    if model_row is not None:
        outcome_shares = [p for p, _, _ in model_row]
        outcome_ends = [
            _outcome_ends(probe, r, z, problem.is_terminal(z)) for _, r, z in model_row
        ]
        radius = rounding
    else:
        num_samples = SAMPLES
        if problem.deterministic:
            num_samples = 1
        elif probe.seconds_spent / max(1, probe.calls) < 1e-3:
            num_samples = 20 * SAMPLES
        outcome_shares = [1.0 / num_samples] * num_samples
        outcome_ends = [
            _outcome_ends(
                probe,
                *probe.sample(
                    state,
                    action,
                    probe.stream(CheckKey.VALUE_BOUNDS, state_index, action, k),
                ),
            )
            for k in range(num_samples)
        ]
        radius = rounding
        if not problem.deterministic:
            radius += backup_span * math.sqrt(
                math.log(num_tests / FALSE_ALARM) / (2 * num_samples)
            )
    lower_mean, upper_mean = (
        math.fsum(
            p * ends[side] for p, ends in zip(outcome_shares, outcome_ends, strict=True)
        )
        for side in (0, 1)
    )
    return lower_mean - radius, upper_mean + radius


def _outcome_ends(
    probe: Probe, reward: float, next_state: Any, has_ended: bool
) -> Ends:
    """The least and largest value of one outcome, by the bounds of its next state."""
    problem, facts = probe.problem, probe.problem.facts
    next_low = next_high = 0.0
    if not has_ended and facts.horizon != 1:
        next_low, next_high = bounds_at(problem, next_state)
        if facts.horizon is not None:  # no step may be left there
            next_low, next_high = min(next_low, 0.0), max(next_high, 0.0)
    return reward + facts.discount * next_low, reward + facts.discount * next_high
