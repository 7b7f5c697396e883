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
from smoothcruiser.problem.bounds import bounds_at, slack
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, largest
from smoothcruiser.problem.rows import known_row

STATES = 6  # whose backups are sampled
ASKED = 200  # most states whose bounds are only compared with each other

Ends = tuple[float, float]  # of the bounds on V(z), or of one backup


def state_bounds(probe: Probe) -> Finding:
    """``value_bounds`` as functions: each other, the gap, the rewards, one backup."""
    problem, facts = probe.problem, probe.problem.facts
    asked = probe.pairs[:ASKED]
    for state, _ in asked:
        if not problem.is_terminal(state):
            bounds_at(problem, state)  # raises what is wrong with them
    pairs = [pair for pair in probe.some(STATES) if not problem.is_terminal(pair[0])]
    tests = max(1, 2 * len(pairs) * facts.num_actions)
    for place, (state, _) in enumerate(pairs):
        actions = problem.legal_actions(state)
        found = [_backup(probe, place, state, a, tests) for a in actions]
        weights = [problem.operator.weights(facts.num_actions)[a] for a in actions]
        least, most = (
            problem.operator.value(
                [ends[side] for ends in found],
                player=problem.mover(state),
                weights=weights,
            )
            for side in (0, 1)
        )
        lower, upper = bounds_at(problem, state)
        room = slack(facts)
        if least > upper + room or most < lower - room:
            raise OracleError(
                f"value_bounds ({lower:.6g}, {upper:.6g}) at state {state!r} cannot "
                "hold: with the bounds of its next states it is worth between "
                f"{least:.6g} and {most:.6g}; widen them."
            )
    return Finding(
        "bounds",
        "ok",
        (
            f"value_bounds are in order at {len(asked)} states and fit one backup at "
            f"{len(pairs)}; only a solution proves them."
        ),
    )


def _backup(probe: Probe, place: int, state: Any, action: int, tests: int) -> Ends:
    """Bounds on Q(state, action) that hold if those of the next states do."""
    problem, facts = probe.problem, probe.problem.facts
    low, high = facts.value_hull()
    span = facts.reward_span + facts.discount * (max(high, 0.0) - min(low, 0.0))
    rounding = BOUNDS_ROUNDING * (2.0 * largest((low, high)) + facts.reward_bound)
    model = None
    if problem.outcomes is not None:
        model = known_row(problem, state, action)
    if model is not None:
        shares = [p for p, _, _ in model]
        backups = [_ends(probe, r, z, problem.is_terminal(z)) for _, r, z in model]
        radius = rounding
    else:
        count = SAMPLES
        if problem.deterministic:
            count = 1
        elif probe.spent / max(1, probe.calls) < 1e-3:
            count = 20 * SAMPLES
        shares = [1.0 / count] * count
        backups = [
            _ends(
                probe,
                *probe.sample(
                    state,
                    action,
                    probe.stream(CheckKey.VALUE_BOUNDS, place, action, k),
                ),
            )
            for k in range(count)
        ]
        radius = rounding
        if not problem.deterministic:
            radius += span * math.sqrt(math.log(tests / FALSE_ALARM) / (2 * count))
    least, most = (
        math.fsum(p * ends[side] for p, ends in zip(shares, backups, strict=True))
        for side in (0, 1)
    )
    return least - radius, most + radius


def _ends(probe: Probe, reward: float, after: Any, ended: bool) -> Ends:
    """What one outcome is worth at least and at most, by the bounds of ``after``."""
    problem, facts = probe.problem, probe.problem.facts
    low = high = 0.0
    if not ended and facts.horizon != 1:
        low, high = bounds_at(problem, after)
        if facts.horizon is not None:  # no step may be left there
            low, high = min(low, 0.0), max(high, 0.0)
    return reward + facts.discount * low, reward + facts.discount * high
