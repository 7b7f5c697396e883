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
from smoothcruiser.errors import InvalidInput, OracleError, choose_word
from smoothcruiser.jit.random import CheckKey, Key
from smoothcruiser.problem.batched import Batched, rows_apart
from smoothcruiser.problem.step_errors import (
    answers_changed,
    dependent_rows,
    oracle_remembers,
    same_mover,
)
from smoothcruiser.problem.wary_actions import (
    InsistsOnInt,
    is_wary,
    make_wary,
    refuse_named_legal,
)
from smoothcruiser.states.identity import is_unchanged


def check_walks(probe: Probe, start: Any) -> Finding:
    """Every action at the requested state and random walks are accepted."""
    problem = probe.problem
    if problem.is_terminal(start):
        raise InvalidInput(
            f"The asked state {start!r} is terminal; pass a state where something "
            "can be done."
        )
    refuse_named_legal(problem, start)
    for action in problem.legal_actions(start):
        probe.sample_walk(start, action, probe.stream(CheckKey.ACTIONS, action))
    start_time, longest_walk = time.perf_counter(), 0
    for walk_number in range(WALKS):
        state, rng = start, probe.stream(CheckKey.WALKS, walk_number)
        for step in range(
            STEPS if problem.horizon is None else min(STEPS, problem.horizon)
        ):
            actions = problem.legal_actions(state)
            if problem.profile(state) != problem.profile(state):
                raise answers_changed(state)
            action = actions[int(rng.integers(len(actions)))]
            _, next_state, has_ended = probe.sample_walk(state, action, rng)
            if (
                not has_ended
                and getattr(problem, "alternating", False)
                and problem.mover(next_state) == problem.mover(state)
            ):
                raise same_mover(state)
            longest_walk = max(longest_walk, step + 1)
            if has_ended or time.perf_counter() - start_time > ENOUGH_SECONDS:
                break
            state = next_state
    ends_text = (
        f", {probe.ends} of {probe.calls} draws ended the episode"
        if problem.facts.terminals
        else ""
    )
    return Finding(
        "walks",
        "ok",
        (
            f"all {len(problem.legal_actions(start))} actions and walks of up to "
            f"{longest_walk} steps were accepted{ends_text}."
        ),
    )


def _wary_action(probe: Probe, action: int) -> int:
    """The action, made to refuse a reading by its name where the step allows it."""
    return make_wary(probe.problem, action) if is_wary(probe.problem) else action


def check_randomness(probe: Probe) -> Finding:
    """Equal streams give equal answers.

    So do different streams where a call takes nothing from its stream.
    """
    for i, pair_index in enumerate(probe.pair_indices(40)):
        state, action = probe.pairs[pair_index]
        rng = probe.stream(CheckKey.EQUAL_STREAMS, i)
        words_before = rng.words.copy()
        first_answer = probe.sample(state, action, rng)
        words_after = rng.words.tolist()
        stream_moved = words_after != words_before.tolist()
        # in the same object, since a cache may depend on its identity
        rng.words[:] = (
            words_before
            if stream_moved
            else probe.stream(CheckKey.OTHER_STREAMS, i).words
        )
        try:
            second_answer = probe.sample(state, _wary_action(probe, action), rng)
        except InsistsOnInt:  # the call before succeeded: nothing to compare here
            continue
        if not probe.is_same_answer(
            first_answer, second_answer, CheckKey.EQUAL_STREAMS, i
        ):
            reason_text = (
                (
                    "The oracle takes randomness from elsewhere (a global generator, "
                    "the clock) or remembers earlier calls; "
                )
                if stream_moved
                else (
                    "The oracle takes randomness from elsewhere, or from a copy of "
                    "rng; "
                )
            )
            raise OracleError(
                f"Two draws at state {state!r}, action {action} from "
                f"{'equal' if stream_moved else 'different'} streams differ: "
                f"{first_answer[:2]!r} and {second_answer[:2]!r}. {reason_text}draw "
                "every number from the rng that step is given."
            )
        if (stream_moved and rng.words.tolist() != words_after) or (
            probe.used_stream[pair_index] and not stream_moved
        ):
            raise oracle_remembers(state, action)
    return Finding(
        "randomness",
        "ok",
        "equal streams gave equal answers: all randomness comes from rng.",
    )


def check_rows(probe: Probe) -> Finding:
    """Rows of one batch are sampled independently.

    Where batches differ, the rows of some batch must differ too.
    """
    oracle = probe.problem.oracle
    if not isinstance(oracle, Batched):
        return Finding("rows", "ok", "the step takes one state at a time.")
    for i, (state, action) in enumerate(probe.some_pairs(6)):
        seeds = [
            np.random.SeedSequence(
                probe.seed, spawn_key=(Key.CHECK, CheckKey.ROWS, i, k)
            )
            for k in range(SAMPLES)
        ]
        probe.calls += SAMPLES * SAMPLES
        if not rows_apart(oracle, state, action, seeds, SAMPLES):
            raise dependent_rows(state, action)
    return Finding("rows", "ok", "rows of one batch are drawn apart.")


def check_independence(probe: Probe) -> Finding:
    """The same samples in another order give the same answers."""
    for i, (state, action) in enumerate(probe.some_pairs(12)):
        sample_order = list(range(SAMPLES))
        forward_answers = [
            probe.sample(state, action, probe.stream(CheckKey.ORDER, i, k))
            for k in sample_order
        ]
        backward_answers = [
            probe.sample(state, action, probe.stream(CheckKey.ORDER, i, k))
            for k in reversed(sample_order)
        ][::-1]
        for k, (forward_answer, backward_answer) in enumerate(
            zip(forward_answers, backward_answers, strict=True)
        ):
            if not probe.is_same_answer(
                forward_answer, backward_answer, CheckKey.ORDER, i, k
            ):
                raise OracleError(
                    f"Draws at state {state!r}, action {action} depend on the draws "
                    f"before them: {forward_answer[:2]!r} became "
                    f"{backward_answer[:2]!r} in another order. The oracle keeps "
                    "something between calls; make each call start from its state "
                    "alone."
                )
    return Finding("independence", "ok", "draws do not depend on earlier draws.")


def check_states(probe: Probe) -> Finding:
    """A step changes neither its state nor a state that it returned earlier."""
    for i, (state, action) in enumerate(probe.some_pairs(20)):
        try:
            state_before = copy.deepcopy(state)
        except Exception:
            return Finding(
                "states",
                "warning",
                (
                    f"states of type {type(state).__name__} cannot be copied, so "
                    "changes to them go unseen."
                ),
            )
        _, next_state, _ = probe.sample(
            state, action, probe.stream(CheckKey.UNTOUCHED, i, 0)
        )
        if is_unchanged(state_before, state) is False:
            raise OracleError(
                f"The oracle changed the state it was given: {state_before!r} became "
                f"{state!r} under action {action}. "
                "A planner asks about one state many times; copy the state before "
                "changing it."
            )
        next_before = copy.deepcopy(next_state)
        probe.sample(state, action, probe.stream(CheckKey.UNTOUCHED, i, 1))
        if is_unchanged(next_before, next_state) is False:
            raise OracleError(
                "A next state changed when the oracle was called again: "
                f"{next_before!r} became {next_state!r} at state {state!r}, action "
                f"{action}. Draws share one object; return a fresh state from every "
                "call."
            )
    return Finding(
        "states",
        "ok",
        "states are neither changed by a step nor shared between draws.",
    )


def check_reward_range(probe: Probe) -> Finding:
    """Rewards lie in their range, which is not much wider than needed."""
    declared_low, declared_high = probe.problem.facts.reward_range
    paid = choose_word("reward", probe.problem.minimizes)
    range_text = (
        f"{paid}s seen in [{probe.rewards[0]:g}, {probe.rewards[1]:g}], declared "
        f"[{declared_low:g}, {declared_high:g}]"
    )
    observed_width = probe.rewards[1] - probe.rewards[0]
    if declared_high > declared_low and observed_width < 0.25 * (
        declared_high - declared_low
    ):
        return Finding(
            "rewards",
            "warning",
            (
                f"{range_text}: if no state {'costs' if paid == 'cost' else 'pays'} "
                "more, declare a narrower range; the "
                "price grows with its square."
            ),
        )
    return Finding("rewards", "ok", f"{range_text}.")
