"""Tests of the declarations about chance: the rarest outcome, the ends of episodes.

With outcomes of probability p at least, a pair has at most 1/p of them. Where
episodes end within m steps with probability q, from any state, a play that has not
ended after n times m steps has probability (1-q)**n at the most.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.checks.probe import ENOUGH_SECONDS, SAMPLES, Finding, Probe
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.jit.keys import CheckKey
from smoothcruiser.problem.facts import BOUNDS_ROUNDING
from smoothcruiser.problem.states import check_recognizable

FALSE_ALARM = 1e-9  # of the walk that does not end
LONGEST = 20_000  # steps of that walk


def check_rarity(probe: Probe) -> Finding:
    """No pair has more outcomes than ``min_probability`` leaves room for."""
    min_probability = probe.problem.min_probability
    if min_probability is None:
        return Finding("rarity", "ok", "no least probability is claimed.")
    max_outcomes = math.floor(1.0 / min_probability * (1.0 + BOUNDS_ROUNDING))
    for i, (state, action) in enumerate(probe.some_pairs(12)):
        outcomes_met: set[Any] = set()
        for k in range(4 * SAMPLES):
            rng = probe.stream(CheckKey.RARITY, i, k)
            reward, next_state, is_over = probe.sample(state, action, rng)
            outcomes_met.add(
                (reward, None if is_over else _state_key(probe, next_state))
            )
            if len(outcomes_met) > max_outcomes:
                raise OracleError(
                    f"min_probability={min_probability:g} leaves room for "
                    f"{max_outcomes} outcomes, but state {state!r}, action {action} "
                    f"had {len(outcomes_met)} in {k + 1} samples; declare the smallest "
                    "probability of all, or drop it."
                )
    return Finding(
        "rarity",
        "ok",
        f"no pair had more than the {max_outcomes} outcomes that min_probability "
        "allows; rarer ones cannot be excluded.",
    )


def _state_key(probe: Probe, state: Any) -> Any:
    """The key of a state; None, the same for all, where states cannot be told apart."""
    try:
        state_key = probe.problem.key_of(state)
        check_recognizable(state, state_key)
    except InvalidInput:
        return None
    return state_key


def check_lengths(probe: Probe) -> Finding:
    """A walk with random actions ends as soon as ``episodes_end`` says it must."""
    problem, claimed_end = probe.problem, probe.problem.episodes_end
    if claimed_end is None:
        return Finding("lengths", "ok", "no end of episodes is claimed.")
    num_blocks = walk_blocks(claimed_end[1])
    num_steps = num_blocks * claimed_end[0]
    if num_steps > LONGEST or (
        problem.horizon is not None and num_steps > problem.horizon
    ):
        return Finding(
            "lengths",
            "ok",
            f"episodes_end was not tested: that takes a walk of {num_steps:,} steps.",
        )
    state, rng = probe.pairs[0][0], probe.stream(CheckKey.LENGTHS)
    for steps_made in range(num_steps):
        if probe.seconds_spent > 2.0 * ENOUGH_SECONDS:
            sentence = (
                f"episodes_end was tested on {steps_made:,} of {num_steps:,} steps "
                "only."
            )
            return Finding("lengths", "ok", sentence)
        actions = problem.legal_actions(state)
        action = actions[int(rng.integers(len(actions)))]
        _, state, is_over = probe.sample(state, action, rng)
        if is_over:
            sentence = (
                f"a walk ended after {steps_made + 1:,} steps; only all prove "
                "episodes_end."
            )
            return Finding("lengths", "ok", sentence)
    raise OracleError(
        f"episodes_end={claimed_end!r} cannot hold: a walk of {num_steps:,} steps with "
        "random actions did not end, which would have a probability below "
        f"{FALSE_ALARM:g}; declare more steps or a smaller probability, or drop it."
    )


def walk_blocks(probability: float) -> int:
    """The blocks of steps that a walk survives with ``FALSE_ALARM`` at the most."""
    if probability == 1.0:
        return 1
    return math.ceil(math.log(FALSE_ALARM) / math.log1p(-probability))
