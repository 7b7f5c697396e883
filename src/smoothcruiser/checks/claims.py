"""Tests of a problem's declarations, from ``deterministic`` to the operator."""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.checks.probe import (
    ENOUGH_SECONDS,
    FALSE_ALARM,
    SAMPLES,
    WALKS,
    Finding,
    Probe,
    check_state_bounds,
)
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.jit.random import CheckKey
from smoothcruiser.operators.check import check_operator
from smoothcruiser.problem.model.known_outcomes import check_rewards, known_row
from smoothcruiser.problem.step_errors import key_collision
from smoothcruiser.states.identity import check_recognizable, identical, same_state

ROWS = 12  # pairs: their rows of outcomes= are compared with samples
EPISODE_STEPS = 200  # of an episode, at most; its total is compared
TOTAL_ROUNDING = 1e-14  # of a sum of rewards, per term


def check_determinism(probe: Probe) -> Finding:
    """``deterministic=True`` holds, or could be declared."""
    for i, (state, action) in enumerate(probe.some_pairs(20)):
        first_answer, second_answer = (
            probe.sample(state, action, probe.stream(CheckKey.DETERMINISM, i, k))
            for k in range(2)
        )
        if not probe.is_same_answer(
            first_answer, second_answer, CheckKey.DETERMINISM, i, 2
        ):
            if probe.problem.deterministic:
                raise OracleError(
                    f"deterministic=True, but state {state!r}, action {action} "
                    f"gave {first_answer[:2]!r} and {second_answer[:2]!r}; drop "
                    "deterministic=."
                )
            return Finding("chance", "ok", "the oracle is random.")
    if probe.problem.deterministic:
        return Finding("chance", "ok", "deterministic=True holds on the states met.")
    return Finding(
        "chance",
        "warning",
        (
            "no chance was seen: if the oracle is deterministic, say "
            "deterministic=True and searches need one draw a pair."
        ),
    )


def is_model_known(probe: Probe) -> bool:
    """Whether the model is known at all pairs that were tried."""
    problem = probe.problem
    if problem.tables is not None or problem.outcomes is None:
        return problem.tables is not None
    return all(
        known_row(problem, *pair) is not None for pair in probe.some_pairs(ROWS)
    )


def check_outcomes(probe: Probe) -> Finding:
    """The frequencies of samples are those of ``outcomes=``."""
    if probe.problem.outcomes is None:
        return Finding("outcomes", "ok", "no known model is claimed.")
    pairs, num_unknown = probe.some_pairs(ROWS), 0
    num_samples = (
        20 * SAMPLES if probe.seconds_spent / max(1, probe.calls) < 1e-3 else SAMPLES
    )
    for i, (state, action) in enumerate(pairs):
        model_row = known_row(probe.problem, state, action)
        if model_row is None:
            num_unknown += 1
            continue
        check_rewards(probe.problem, model_row, state, action)
        outcome_counts = [0] * len(model_row)
        for k in range(num_samples):
            reward, next_state, _ = probe.sample(
                state, action, probe.stream(CheckKey.OUTCOMES, i, k)
            )
            matching_outcomes = [
                j
                for j, (_, r, z) in enumerate(model_row)
                if math.isclose(r, reward, abs_tol=1e-12)
                and same_state(z, next_state) is not False
            ]
            if not matching_outcomes:
                raise OracleError(
                    f"The oracle gave ({reward!r}, {next_state!r}) at state {state!r}, "
                    f"action {action}, which outcomes= does not list."
                )
            outcome_counts[matching_outcomes[0]] += 1
        confidence_radius = math.sqrt(
            math.log(2 * len(model_row) * len(pairs) / FALSE_ALARM) / (2 * num_samples)
        )
        for (p, r, z), count in zip(model_row, outcome_counts, strict=True):
            if (
                abs(count / num_samples - p) > confidence_radius
                and len(
                    {
                        j
                        for j, model_outcome in enumerate(model_row)
                        if model_outcome[1] == r
                        and same_state(model_outcome[2], z) is not False
                    }
                )
                == 1
            ):
                raise OracleError(
                    f"At state {state!r}, action {action} the outcome ({r!r}, {z!r}) "
                    f"has probability {p:g} in outcomes= but came "
                    f"{count} times in {num_samples} draws; the model and the oracle "
                    "differ."
                )
    num_known = len(pairs) - num_unknown
    agreement_text = f"outcomes= agrees with {num_samples} draws of {num_known} pairs"
    if num_unknown:
        agreement_text += f"; {num_unknown} of the {len(pairs)} looked at have no row "
        agreement_text += "and are sampled"
    return Finding("outcomes", "ok", f"{agreement_text}.")


def check_keys(probe: Probe) -> Finding:
    """States that a search would take for one have the same profile and future.

    A profile is the mover, the legal actions and whether the episode is over.
    """
    problem = probe.problem
    state_by_key: dict[Any, Any] = {}
    num_compared = 0
    try:
        for state, _ in probe.pairs:
            state_key = problem.key_of(state)
            check_recognizable(state, state_key)
            earlier_state = state_by_key.setdefault(state_key, state)
            if identical(earlier_state, state):
                continue
            num_compared += 1
            if problem.profile(earlier_state) != problem.profile(state):
                raise key_collision(
                    state,
                    earlier_state,
                    problem.profile(state),
                    problem.profile(earlier_state),
                )
            if num_compared <= SAMPLES and not probe.same_future(
                earlier_state, state, CheckKey.KEYS, num_compared
            ):
                raise OracleError(
                    "Two states with one key have different futures: "
                    f"{earlier_state!r} and {state!r}; let key= (or the state's own == "
                    "and hash) tell apart all that the future depends on."
                )
    # nothing is wrong with the step, but no search can remember its states
    except InvalidInput as error:
        return Finding(
            "memory",
            "warning",
            f"certified search and trees cannot use these states: {error}",
        )
    shared_text = (
        f"; {num_compared} pairs of different objects with one key behave alike"
        if num_compared
        else ""
    )
    return Finding(
        "memory", "ok", f"states can be recognized when they come back{shared_text}."
    )


def check_value_bounds(probe: Probe) -> Finding:
    """The declared bounds fit one backup (Hoeffding).

    If V lies inside them, then r + gamma V cannot lead outside.
    """
    problem, facts = probe.problem, probe.problem.facts
    if facts.given_gap is not None:
        return check_state_bounds(probe)
    if facts.given_bounds is None:
        return Finding("bounds", "ok", "no bounds on the value are claimed.")
    lower_bound, upper_bound = facts.given_bounds
    next_low, next_high = (
        (min(lower_bound, 0.0), max(upper_bound, 0.0))
        if facts.terminals or facts.horizon == 1
        else (lower_bound, upper_bound)
    )
    num_samples = (
        20 * SAMPLES if probe.seconds_spent / max(1, probe.calls) < 1e-3 else SAMPLES
    )
    pairs = probe.some_pairs(6)
    num_tests = 2 * len(pairs) * facts.num_actions
    confidence_radius = facts.reward_span * math.sqrt(
        math.log(num_tests / FALSE_ALARM) / (2 * num_samples)
    )
    for i, (state, _) in enumerate(pairs):
        if problem.is_terminal(state):
            continue
        actions = problem.legal_actions(state)
        mean_rewards = [
            math.fsum(
                probe.sample(state, a, probe.stream(CheckKey.VALUE_BOUNDS, i, a, k))[0]
                for k in range(num_samples)
            )
            / num_samples
            for a in actions
        ]
        prior_weights = [
            problem.operator.weights(facts.num_actions)[a] for a in actions
        ]
        backup_ends = [
            problem.operator.value(
                [
                    mean_reward
                    + sign * confidence_radius
                    + facts.discount * next_value
                    for mean_reward in mean_rewards
                ],
                player=problem.mover(state),
                weights=prior_weights,
            )
            for sign, next_value in ((-1.0, next_low), (1.0, next_high))
        ]
        if backup_ends[0] > upper_bound or backup_ends[1] < lower_bound:
            raise OracleError(
                f"value_bounds=({lower_bound:g}, {upper_bound:g}) cannot hold: with "
                f"them, state {state!r} is worth between {backup_ends[0]:.4g} and "
                f"{backup_ends[1]:.4g}; widen them."
            )
    return Finding(
        "bounds",
        "ok",
        (
            f"value_bounds fit one backup at {len(pairs)} states; only a solution "
            "proves them."
        ),
    )


def check_totals(probe: Probe) -> Finding:
    """Every part of a random episode to its end adds up to the declared total.

    A truncated episode may add anything in the range to its sum.
    """
    problem, facts = probe.problem, probe.problem.facts
    if facts.total_range is None:
        return Finding("totals", "ok", "no range of the total reward is claimed.")
    lower_bound, upper_bound = facts.total_range
    num_finished = 0
    for i, (state, _) in enumerate(probe.some_pairs(WALKS)):
        if problem.is_terminal(state):
            continue
        path, is_over = _random_episode(probe, state, i)
        num_finished += is_over
        smallest_total, largest_total = (
            (0.0, 0.0) if is_over else (lower_bound, upper_bound)
        )
        for reward, path_state in reversed(path):
            smallest_total, largest_total = (
                reward + facts.discount * total
                for total in (smallest_total, largest_total)
            )
            total_slack = TOTAL_ROUNDING * len(path) * max(1.0, facts.reward_bound)
            too_large = smallest_total > upper_bound
            if (
                smallest_total > upper_bound + total_slack
                or largest_total < lower_bound - total_slack
            ):
                raise OracleError(
                    f"The rewards from state {path_state!r} on add up to "
                    f"{smallest_total if too_large else largest_total:.6g} or "
                    f"{'more' if too_large else 'less'} in one "
                    f"episode, outside [{lower_bound:g}, {upper_bound:g}], which "
                    "total_reward_range or payoffs= declare; widen the range, or drop "
                    "it."
                )
            smallest_total, largest_total = (
                max(smallest_total, lower_bound),
                min(largest_total, upper_bound),
            )
    return Finding(
        "totals",
        "ok",
        f"{num_finished} random episodes to their end fit the declared total; only all "
        "episodes prove it.",
    )


def _random_episode(
    probe: Probe, state: Any, episode_number: int
) -> tuple[list[Any], bool]:
    """(reward, state) of each step of random play, and whether it came to an end."""
    problem, path = probe.problem, []
    rng = probe.stream(CheckKey.TOTALS, episode_number)
    for _ in range(min(EPISODE_STEPS, problem.horizon or EPISODE_STEPS)):
        actions = problem.legal_actions(state)
        reward, next_state, is_over = probe.sample(
            state, actions[rng.integers(len(actions))], rng
        )
        path.append((reward, state))
        if is_over or len(path) == problem.horizon:
            return path, True
        state = next_state
        if probe.seconds_spent > ENOUGH_SECONDS:
            break
    return path, False


def check_ends(probe: Probe) -> Finding:
    """A terminal state is worth 0.

    A step from it that pays suggests that it was not meant as an end.
    """
    problem = probe.problem
    if not callable(problem.terminal) or problem.tables is not None:
        return Finding(
            "ends", "ok", "no state is declared terminal by a function of the user's."
        )
    for i, state in enumerate(probe.end_states):
        try:
            reward = float(
                problem.oracle(
                    state,
                    problem.legal_actions(state)[0],
                    probe.stream(CheckKey.ENDS, i),
                )[0]
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            continue  # no action is legal there, as it should be
        probe.calls += 1
        if reward != 0.0:
            return Finding(
                "ends",
                "warning",
                f"a step from terminal state {state!r} pays {reward:g}, but its value "
                "counts as 0; if play goes on there, it is not terminal.",
            )
    return Finding(
        "ends",
        "ok",
        f"{len(probe.end_states)} ends were met, and no step from them pays.",
    )


def check_own_operator(probe: Probe) -> Finding:
    """A user's own operator keeps the conditions of the promises."""
    problem_operator = probe.problem.operator
    if problem_operator.built_in:
        return Finding("operator", "ok", f"{problem_operator.label} is built in.")
    report = check_operator(problem_operator, probe.problem.num_actions)
    for condition in report.conditions:
        if not condition.holds:
            raise OracleError(
                f"The operator fails {condition.name}: {condition.sentence}."
            )
    return Finding("operator", "ok", f"its conditions hold at {report.points} points.")
