"""Tests of what a problem declares, from ``deterministic`` to the operator."""

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
)
from smoothcruiser.checks.state_bounds import state_bounds
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.jit.keys import CheckKey
from smoothcruiser.operators.check import check_operator
from smoothcruiser.problem.answers import two_in_one
from smoothcruiser.problem.rows import check_rewards, known_row
from smoothcruiser.problem.states import check_recognizable, identical, same_state

ROWS = 12  # pairs whose rows of outcomes= are compared with samples
EPISODE_STEPS = 200  # of an episode whose total is compared
TOTAL_ROUNDING = 1e-14  # of a sum of rewards, per term


def determinism(probe: Probe) -> Finding:
    """``deterministic=True`` holds, or could be declared."""
    for i, (state, action) in enumerate(probe.some(20)):
        first, second = (
            probe.sample(state, action, probe.stream(CheckKey.DETERMINISM, i, k))
            for k in range(2)
        )
        if not probe.alike(first, second, CheckKey.DETERMINISM, i, 2):
            if probe.problem.deterministic:
                raise OracleError(
                    f"deterministic=True, but state {state!r}, action {action} "
                    f"gave {first[:2]!r} and {second[:2]!r}; drop deterministic=."
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


def is_known(probe: Probe) -> bool:
    """Whether all that was met of the model is known."""
    problem = probe.problem
    if problem.tables is not None or problem.outcomes is None:
        return problem.tables is not None
    return all(known_row(problem, *pair) is not None for pair in probe.some(ROWS))


def outcomes(probe: Probe) -> Finding:
    """The frequencies of samples are those of ``outcomes=``."""
    if probe.problem.outcomes is None:
        return Finding("outcomes", "ok", "no known model is claimed.")
    pairs, unknown = probe.some(ROWS), 0
    samples = 20 * SAMPLES if probe.spent / max(1, probe.calls) < 1e-3 else SAMPLES
    for i, (state, action) in enumerate(pairs):
        model = known_row(probe.problem, state, action)
        if model is None:
            unknown += 1
            continue
        check_rewards(probe.problem, model, state, action)
        counts = [0] * len(model)
        for k in range(samples):
            reward, after, _ = probe.sample(
                state, action, probe.stream(CheckKey.OUTCOMES, i, k)
            )
            hits = [
                j
                for j, (_, r, z) in enumerate(model)
                if math.isclose(r, reward, abs_tol=1e-12)
                and same_state(z, after) is not False
            ]
            if not hits:
                raise OracleError(
                    f"The oracle gave ({reward!r}, {after!r}) at state {state!r}, "
                    f"action {action}, which outcomes= does not list."
                )
            counts[hits[0]] += 1
        radius = math.sqrt(
            math.log(2 * len(model) * len(pairs) / FALSE_ALARM) / (2 * samples)
        )
        for (p, r, z), count in zip(model, counts, strict=True):
            if (
                abs(count / samples - p) > radius
                and len(
                    {
                        j
                        for j, o in enumerate(model)
                        if o[1] == r and same_state(o[2], z) is not False
                    }
                )
                == 1
            ):
                raise OracleError(
                    f"At state {state!r}, action {action} the outcome ({r!r}, {z!r}) "
                    f"has probability {p:g} in outcomes= but came "
                    f"{count} times in {samples} draws; the model and the oracle differ."
                )
    agrees = f"outcomes= agrees with {samples} draws of {len(pairs) - unknown} pairs"
    if unknown:
        agrees += (
            f"; {unknown} of the {len(pairs)} looked at have no row and are sampled"
        )
    return Finding("outcomes", "ok", f"{agrees}.")


def keys(probe: Probe) -> Finding:
    """States that a search would take for one have the same profile and future.

    A profile is the mover, the legal actions and whether the episode is over.
    """
    problem = probe.problem
    known: dict[Any, Any] = {}
    compared = 0
    try:
        for state, _ in probe.pairs:
            key = problem.key_of(state)
            check_recognizable(state, key)
            other = known.setdefault(key, state)
            if identical(other, state):
                continue
            compared += 1
            if problem.profile(other) != problem.profile(state):
                raise two_in_one(
                    state, other, problem.profile(state), problem.profile(other)
                )
            if compared <= SAMPLES and not probe.same_future(
                other, state, CheckKey.KEYS, compared
            ):
                raise OracleError(
                    f"Two states with one key have different futures: {other!r} and "
                    f"{state!r}; let key= (or the state's own == and hash) tell apart "
                    "all that the future depends on."
                )
    # nothing is wrong with the step, but no search can remember its states
    except InvalidInput as error:
        return Finding(
            "memory",
            "warning",
            f"certified search and trees cannot use these states: {error}",
        )
    shared = (
        f"; {compared} pairs of different objects with one key behave alike"
        if compared
        else ""
    )
    return Finding(
        "memory", "ok", f"states can be recognized when they come back{shared}."
    )


def value_bounds(probe: Probe) -> Finding:
    """The declared bounds fit one backup (Hoeffding).

    If V lies inside them, then r + gamma V cannot lead outside.
    """
    problem, facts = probe.problem, probe.problem.facts
    if facts.given_gap is not None:
        return state_bounds(probe)
    if facts.given_bounds is None:
        return Finding("bounds", "ok", "no bounds on the value are claimed.")
    low, high = facts.given_bounds
    after_low, after_high = (
        (min(low, 0.0), max(high, 0.0))
        if facts.terminals or facts.horizon == 1
        else (low, high)
    )
    samples = 20 * SAMPLES if probe.spent / max(1, probe.calls) < 1e-3 else SAMPLES
    pairs = probe.some(6)
    tests = 2 * len(pairs) * facts.num_actions
    radius = facts.reward_span * math.sqrt(
        math.log(tests / FALSE_ALARM) / (2 * samples)
    )
    for i, (state, _) in enumerate(pairs):
        if problem.is_terminal(state):
            continue
        actions = problem.legal_actions(state)
        means = [
            math.fsum(
                probe.sample(state, a, probe.stream(CheckKey.VALUE_BOUNDS, i, a, k))[0]
                for k in range(samples)
            )
            / samples
            for a in actions
        ]
        weights = [problem.operator.weights(facts.num_actions)[a] for a in actions]
        ends = [
            problem.operator.value(
                [mean + side * radius + facts.discount * after for mean in means],
                player=problem.mover(state),
                weights=weights,
            )
            for side, after in ((-1.0, after_low), (1.0, after_high))
        ]
        if ends[0] > high or ends[1] < low:
            raise OracleError(
                f"value_bounds=({low:g}, {high:g}) cannot hold: with them, state "
                f"{state!r} is worth between {ends[0]:.4g} and {ends[1]:.4g}; widen "
                "them."
            )
    return Finding(
        "bounds",
        "ok",
        (
            f"value_bounds fit one backup at {len(pairs)} states; only a solution "
            "proves them."
        ),
    )


def totals(probe: Probe) -> Finding:
    """Every part of a random episode to its end adds up to the declared total.

    An episode that was cut off may add anything in the range to what it has.
    """
    problem, facts = probe.problem, probe.problem.facts
    if facts.total_range is None:
        return Finding("totals", "ok", "no range of the total reward is claimed.")
    low, high = facts.total_range
    finished = 0
    for i, (state, _) in enumerate(probe.some(WALKS)):
        if problem.is_terminal(state):
            continue
        path, over = _episode(probe, state, i)
        finished += over
        least, most = (0.0, 0.0) if over else (low, high)
        for reward, place in reversed(path):
            least, most = (reward + facts.discount * x for x in (least, most))
            slack = TOTAL_ROUNDING * len(path) * max(1.0, facts.reward_bound)
            if least > high + slack or most < low - slack:
                raise OracleError(
                    f"The rewards from state {place!r} on add up to "
                    f"{least if least > high else most:.6g} or "
                    f"{'more' if least > high else 'less'} in one episode, outside "
                    f"[{low:g}, {high:g}], which total_reward_range or payoffs= "
                    "declare; widen the range, or drop it."
                )
            least, most = max(least, low), min(most, high)
    return Finding(
        "totals",
        "ok",
        f"{finished} random episodes to their end fit the declared total; only all "
        "episodes prove it.",
    )


def _episode(probe: Probe, state: Any, number: int) -> tuple[list[Any], bool]:
    """(reward, state) of each step of random play, and whether it came to an end."""
    problem, path = probe.problem, []
    rng = probe.stream(CheckKey.TOTALS, number)
    for _ in range(min(EPISODE_STEPS, problem.horizon or EPISODE_STEPS)):
        actions = problem.legal_actions(state)
        reward, after, over = probe.sample(
            state, actions[rng.integers(len(actions))], rng
        )
        path.append((reward, state))
        if over or len(path) == problem.horizon:
            return path, True
        state = after
        if probe.spent > ENOUGH_SECONDS:
            break
    return path, False


def ends(probe: Probe) -> Finding:
    """A terminal state is worth 0.

    A step from it that pays suggests that it was not meant as an end.
    """
    problem = probe.problem
    if not callable(problem.terminal) or problem.tables is not None:
        return Finding(
            "ends", "ok", "no state is declared terminal by a function of the user's."
        )
    for i, state in enumerate(probe.over):
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
        "ends", "ok", f"{len(probe.over)} ends were met, and no step from them pays."
    )


def operator(probe: Probe) -> Finding:
    """A user's own operator keeps the conditions of the promises."""
    mine = probe.problem.operator
    if mine.built_in:
        return Finding("operator", "ok", f"{mine.label} is built in.")
    report = check_operator(mine, probe.problem.num_actions)
    for condition in report.conditions:
        if not condition.holds:
            raise OracleError(
                f"The operator fails {condition.name}: {condition.sentence}."
            )
    return Finding("operator", "ok", f"its conditions hold at {report.points} points.")
