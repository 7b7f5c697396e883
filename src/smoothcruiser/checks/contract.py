"""Tests of the contract of every step.

A step answers by its arguments alone and leaves states as they are.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np

from smoothcruiser.checks.probe import (
    ENOUGH_SECONDS,
    SAMPLES,
    STEPS,
    WALKS,
    Finding,
    Probe,
)
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.jit.keys import CheckKey, Key
from smoothcruiser.problem.answers import (
    flickering,
    remembered,
    rows_together,
    same_mover,
)
from smoothcruiser.problem.batched import Batched, rows_apart
from smoothcruiser.problem.states import unchanged
from smoothcruiser.problem.wary_actions import (
    InsistsOnInt,
    is_wary,
    refuse_named_legal,
    wary,
)


def walks(probe: Probe, start: Any) -> Finding:
    """Every action at the requested state and random walks are accepted."""
    problem = probe.problem
    if problem.is_terminal(start):
        raise InvalidInput(
            f"The asked state {start!r} is terminal; pass a state where something "
            "can be done."
        )
    refuse_named_legal(problem, start)
    for action in problem.legal_actions(start):
        probe.met(start, action, probe.stream(CheckKey.ACTIONS, action))
    begin, longest = time.perf_counter(), 0
    for walk in range(WALKS):
        state, rng = start, probe.stream(CheckKey.WALKS, walk)
        for step in range(
            STEPS if problem.horizon is None else min(STEPS, problem.horizon)
        ):
            actions = problem.legal_actions(state)
            if problem.profile(state) != problem.profile(state):
                raise flickering(state)
            action = actions[int(rng.integers(len(actions)))]
            _, after, ended = probe.met(state, action, rng)
            if (
                not ended
                and getattr(problem, "alternating", False)
                and problem.mover(after) == problem.mover(state)
            ):
                raise same_mover(state)
            longest = max(longest, step + 1)
            if ended or time.perf_counter() - begin > ENOUGH_SECONDS:
                break
            state = after
    ends = (
        f", {probe.ends} of {probe.calls} draws ended the episode"
        if problem.facts.terminals
        else ""
    )
    return Finding(
        "walks",
        "ok",
        (
            f"all {len(problem.legal_actions(start))} actions and walks of up to "
            f"{longest} steps were accepted{ends}."
        ),
    )


def _wary(probe: Probe, action: int) -> int:
    """The action, which refuses to be taken for its name where the step allows it."""
    return wary(probe.problem, action) if is_wary(probe.problem) else action


def deterministic_stream(probe: Probe) -> Finding:
    """Equal streams give equal answers.

    So do different streams where a call takes nothing from its stream.
    """
    for i, place in enumerate(probe.places(40)):
        state, action = probe.pairs[place]
        rng = probe.stream(CheckKey.EQUAL_STREAMS, i)
        begun = rng.words.copy()
        first = probe.sample(state, action, rng)
        taken = rng.words.tolist()
        moved = taken != begun.tolist()
        # in the same object, since a cache may depend on its identity
        rng.words[:] = begun if moved else probe.stream(CheckKey.OTHER_STREAMS, i).words
        try:
            second = probe.sample(state, _wary(probe, action), rng)
        except InsistsOnInt:  # the call before succeeded: nothing to compare here
            continue
        if not probe.alike(first, second, CheckKey.EQUAL_STREAMS, i):
            why = (
                (
                    "The oracle takes randomness from elsewhere (a global generator, "
                    "the clock) or remembers earlier calls; "
                )
                if moved
                else (
                    "The oracle takes randomness from elsewhere, or from a copy of "
                    "rng; "
                )
            )
            raise OracleError(
                f"Two draws at state {state!r}, action {action} from "
                f"{'equal' if moved else 'different'} streams differ: "
                f"{first[:2]!r} and {second[:2]!r}. {why}draw every number from the "
                "rng that step is given."
            )
        if (moved and rng.words.tolist() != taken) or (probe.took[place] and not moved):
            raise remembered(state, action)
    return Finding(
        "randomness",
        "ok",
        "equal streams gave equal answers: all randomness comes from rng.",
    )


def separate_rows(probe: Probe) -> Finding:
    """Rows of one batch are sampled independently.

    Where batches differ, the rows of some batch must differ too.
    """
    oracle = probe.problem.oracle
    if not isinstance(oracle, Batched):
        return Finding("rows", "ok", "the step takes one state at a time.")
    for i, (state, action) in enumerate(probe.some(6)):
        seeds = [
            np.random.SeedSequence(
                probe.seed, spawn_key=(Key.CHECK, CheckKey.ROWS, i, k)
            )
            for k in range(SAMPLES)
        ]
        probe.calls += SAMPLES * SAMPLES
        if not rows_apart(oracle, state, action, seeds, SAMPLES):
            raise rows_together(state, action)
    return Finding("rows", "ok", "rows of one batch are drawn apart.")


def independent(probe: Probe) -> Finding:
    """The same samples in another order give the same answers."""
    for i, (state, action) in enumerate(probe.some(12)):
        order = list(range(SAMPLES))
        there = [
            probe.sample(state, action, probe.stream(CheckKey.ORDER, i, k))
            for k in order
        ]
        back = [
            probe.sample(state, action, probe.stream(CheckKey.ORDER, i, k))
            for k in reversed(order)
        ][::-1]
        for k, (one, other) in enumerate(zip(there, back, strict=True)):
            if not probe.alike(one, other, CheckKey.ORDER, i, k):
                raise OracleError(
                    f"Draws at state {state!r}, action {action} depend on the draws "
                    f"before them: {one[:2]!r} became {other[:2]!r} "
                    "in another order. The oracle keeps something between calls; make "
                    "each call start from its state alone."
                )
    return Finding("independence", "ok", "draws do not depend on earlier draws.")


def untouched(probe: Probe) -> Finding:
    """A step changes neither its state nor a state that it returned earlier."""
    for i, (state, action) in enumerate(probe.some(20)):
        try:
            before = copy.deepcopy(state)
        except Exception:
            return Finding(
                "states",
                "warning",
                (
                    f"states of type {type(state).__name__} cannot be copied, so "
                    "changes to them go unseen."
                ),
            )
        _, first, _ = probe.sample(
            state, action, probe.stream(CheckKey.UNTOUCHED, i, 0)
        )
        if unchanged(before, state) is False:
            raise OracleError(
                f"The oracle changed the state it was given: {before!r} became "
                f"{state!r} under action {action}. "
                "A planner asks about one state many times; copy the state before "
                "changing it."
            )
        kept = copy.deepcopy(first)
        probe.sample(state, action, probe.stream(CheckKey.UNTOUCHED, i, 1))
        if unchanged(kept, first) is False:
            raise OracleError(
                f"A next state changed when the oracle was called again: {kept!r} "
                f"became {first!r} at state {state!r}, action {action}. "
                "Draws share one object; return a fresh state from every call."
            )
    return Finding(
        "states", "ok", "states are neither changed by a step nor shared between draws."
    )


def reward_range(probe: Probe) -> Finding:
    """Rewards lie in their range, which is not much wider than needed."""
    low, high = probe.problem.facts.reward_range
    seen = (
        f"rewards seen in [{probe.rewards[0]:g}, {probe.rewards[1]:g}], declared "
        f"[{low:g}, {high:g}]"
    )
    width = probe.rewards[1] - probe.rewards[0]
    if high > low and width < 0.25 * (high - low):
        return Finding(
            "rewards",
            "warning",
            (
                f"{seen}: if no state pays more, declare a narrower range; the price "
                "grows with its square."
            ),
        )
    return Finding("rewards", "ok", f"{seen}.")
