"""Tests of what a problem declares of chance: its rarest outcome, its ends.

With outcomes of probability p at least, a pair has at most 1/p of them. Where
episodes end within m steps with probability q, whatever came before, a play that has
not ended after n times m steps has probability (1-q)**n at the most.
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


def rarity(probe: Probe) -> Finding:
    """No pair has more outcomes than ``min_probability`` leaves room for."""
    least = probe.problem.min_probability
    if least is None:
        return Finding("rarity", "ok", "no least probability is claimed.")
    most = math.floor(1.0 / least * (1.0 + BOUNDS_ROUNDING))
    for i, (state, action) in enumerate(probe.some(12)):
        met: set[Any] = set()
        for k in range(4 * SAMPLES):
            rng = probe.stream(CheckKey.RARITY, i, k)
            reward, after, over = probe.sample(state, action, rng)
            met.add((reward, None if over else _key(probe, after)))
            if len(met) > most:
                raise OracleError(
                    f"min_probability={least:g} leaves room for {most} outcomes, but "
                    f"state {state!r}, action {action} had {len(met)} in {k + 1} "
                    "samples; declare the smallest probability of all, or drop it."
                )
    return Finding(
        "rarity",
        "ok",
        f"no pair had more than the {most} outcomes that min_probability allows; rarer "
        "ones cannot be excluded.",
    )


def _key(probe: Probe, state: Any) -> Any:
    """What distinguishes a state; None, as for all others, where nothing does."""
    try:
        key = probe.problem.key_of(state)
        check_recognizable(state, key)
    except InvalidInput:
        return None
    return key


def lengths(probe: Probe) -> Finding:
    """A walk with random actions ends as soon as ``episodes_end`` says it must."""
    problem, end = probe.problem, probe.problem.episodes_end
    if end is None:
        return Finding("lengths", "ok", "no end of episodes is claimed.")
    blocks = walk_blocks(end[1])
    steps = blocks * end[0]
    if steps > LONGEST or (problem.horizon is not None and steps > problem.horizon):
        return Finding(
            "lengths",
            "ok",
            f"episodes_end was not tested: that takes a walk of {steps:,} steps.",
        )
    state, rng = probe.pairs[0][0], probe.stream(CheckKey.LENGTHS)
    for made in range(steps):
        if probe.spent > 2.0 * ENOUGH_SECONDS:
            told = f"episodes_end was tested on {made:,} of {steps:,} steps only."
            return Finding("lengths", "ok", told)
        actions = problem.legal_actions(state)
        action = actions[int(rng.integers(len(actions)))]
        _, state, over = probe.sample(state, action, rng)
        if over:
            told = (
                f"a walk ended after {made + 1:,} steps; only all prove episodes_end."
            )
            return Finding("lengths", "ok", told)
    raise OracleError(
        f"episodes_end={end!r} cannot hold: a walk of {steps:,} steps with random "
        f"actions did not end, which would have a probability below {FALSE_ALARM:g}; "
        "declare more steps or a smaller probability, or drop it."
    )


def walk_blocks(probability: float) -> int:
    """The blocks of steps that a walk survives with ``FALSE_ALARM`` at the most."""
    if probability == 1.0:
        return 1
    return math.ceil(math.log(FALSE_ALARM) / math.log1p(-probability))
