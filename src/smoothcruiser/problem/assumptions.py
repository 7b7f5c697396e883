"""The assumptions of a certificate, in sentences.

They name every declaration that an interval depends on. Those of a schedule or of paths
are ``assumptions`` with the law ``ONE_LAW``; those of a search over states that come back
are ``search_assumptions``.

``same_future`` says whether two states pay the same from equal streams: then they are the
same as far as a planner can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smoothcruiser.errors import choose_word
from smoothcruiser.problem.facts import AT_THE_END, Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import Answer

ONE_LAW = (
    "draws of the oracle are independent, and follow one law for each state and action"
)
SAME_LAW = f"{ONE_LAW}: a state's hash tells all that matters"
DECLARED = "what was declared is true"  # where nothing was sampled
KNOWN_LAW = (
    "outcomes= is the model: what it lists for a state and an action is their law"
)
PARTLY_KNOWN = (
    "outcomes= is the model where it lists one ({rows:,} rows read), and what it lists "
    "is the law there; elsewhere "
)
SAME_KEY = (
    "states with one key= have one future (mover, legal actions and end are "
    "compared when a key comes back)"
)


def assumptions(
    problem: Problem, law: str, looked: str, checked: str = "call"
) -> tuple[str, ...]:
    """The assumptions of a certificate, one sentence each.

    Args:
        problem: the problem with the trusted declarations.
        law: the sentence on the law of the outcomes, such as ``ONE_LAW``.
        looked: how often the step was inspected; empty if it was not.
        checked: how often rewards are compared with their range.
    """
    facts = problem.facts
    range_low, range_high = facts.reward_range
    paid, worth = (
        choose_word("reward", facts.minimize),
        choose_word("value", facts.minimize),
    )
    sentences = [
        law,
        f"every {paid} lies in [{range_low:g}, {range_high:g}] (checked on every "
        f"{checked})",
    ]
    if problem.tables is None and looked:
        sentences.append(
            "step returns a new state, leaves the one it was given as it was and "
            f"remembers nothing ({looked})"
        )
    state_functions = [
        function_name
        for function_name in ("legal", "terminal", "player")
        if callable(vars(problem).get(function_name))
    ]
    if problem.value_gap is not None:
        state_functions.append("value_bounds")
    if problem.tables is None and state_functions:
        sentences.append(
            f"{', '.join(state_functions)} answer by the state alone (asked twice of "
            "some)"
        )
    if facts.given_bounds is not None:
        bounds_text = f"[{facts.given_bounds[0]:g}, {facts.given_bounds[1]:g}]"
        sentences.append(
            f"the {worth} of every state that is not terminal lies in {bounds_text}, as "
            "given in value_bounds"
        )
    if problem.payoffs == AT_THE_END and problem.tables is None:  # tables show it
        sentences.append(
            "only the step that ends an episode pays, as declared in payoffs='end' "
            "(checked on every call of a plain Python step, and on the calls of a "
            "compiled one that were inspected)"
        )
    if problem.total_reward_range is not None:
        range_low, range_high = problem.total_reward_range
        sentences.append(
            f"the {paid}s from every state that is not terminal to the end add up, "
            f"discounted, to a total in [{range_low:g}, {range_high:g}], as declared "
            "in total_reward_range"
        )
    if problem.min_probability is not None:
        sentences.append(
            "every outcome that a step can have from a state that is not terminal has "
            f"a probability of at least {problem.min_probability:g}, as declared in "
            "min_probability (an outcome that proves it false is an error)"
        )
    if facts.episodes_end is not None:
        within_steps, end_probability = facts.episodes_end
        sentences.append(
            "from every state that is not terminal, whatever is played, the episode "
            f"ends within {within_steps:,} steps with a probability of at least "
            f"{end_probability:g}, as declared in episodes_end"
        )
    if facts.given_gap is not None:
        sentences.append(
            "lower(state) <= V(state) <= upper(state) for every state that is not "
            f"terminal, at most {facts.given_gap:g} apart, as given in value_bounds "
            "(checked against each other and the rewards where they were asked)"
        )
    if facts.alternating:
        sentences.append("turns alternate strictly, as declared")
    if facts.terminals:
        sentences.append(
            "a terminal state is worth 0, whatever a step from it would pay"
        )
    if problem.legal is not None and facts.min_actions > 1:
        sentences.append(
            f"every state has at least {facts.min_actions} legal actions, as "
            "declared (checked where it was met)"
        )
    sentences += _rounding_allowance(facts)
    sentences += adapter_assumptions(problem)
    # an adapter's own words on the keys it chose
    key_assumption = getattr(problem.key, "assumption", "")
    if key_assumption:
        sentences.append(key_assumption)
    if not problem.operator.built_in:
        sentences.append(
            "the operator is monotone, moves with its argument as declared, and its "
            "gradient and constants are its own, as those of a "
            f"{type(problem.operator).__name__} have to be (check tests it)"
        )
    return tuple(sentences)


def _one_outcome(num_checked: int) -> str:
    """Return the assumption behind a problem that is declared deterministic.

    ``num_checked`` counts the pairs that were sampled twice.
    """
    pairs_text = "pair was" if num_checked == 1 else "pairs were"
    check_text = (
        f"spot-checked: {num_checked} {pairs_text} drawn twice"
        if num_checked
        else "not checked"
    )
    return f"deterministic=True: every state and action has one outcome ({check_text})"


def search_assumptions(
    problem: Problem,
    num_rows: int | None,
    exact: bool,
    num_checked: int,
    inspection_text: str,
) -> tuple[str, ...]:
    """The assumptions of a search over rows, over samples, or over both.

    ``num_rows`` of a known model were read, None: there is none. ``exact`` says that
    nothing was estimated. ``num_checked`` and ``inspection_text`` describe the checks
    of the samples.
    """
    key_sentences = () if problem.key is None else (SAME_KEY,)
    if num_rows is not None and exact:
        return *assumptions(problem, KNOWN_LAW, "", "row"), *key_sentences
    law_text = _one_outcome(num_checked) if problem.deterministic else SAME_LAW
    if num_rows is not None:
        law_text = PARTLY_KNOWN.format(rows=num_rows) + law_text
    return *assumptions(problem, law_text, inspection_text), *key_sentences


def _rounding_allowance(facts: Facts) -> tuple[str, ...]:
    """The allowance for batches in float32 (``batched.FLOAT32_REWARDS``)."""
    if not facts.reward_error:
        return ()
    return (
        "steps in batches, which compute in float32, pay within "
        f"{facts.reward_error:.1g} of what a step by itself pays (an allowance that was "
        "measured, not proven; intervals of schedules are widened by it)",
    )


def adapter_assumptions(problem: Problem) -> tuple[str, ...]:
    """An adapter's sentences on its model: ``assumptions`` of its oracle."""
    return tuple(getattr(problem.oracle, "assumptions", ()))


# steps for which two states are followed where their values cannot be compared
FUTURE = 6


def same_future(
    problem: Problem, x: Any, y: Any, call: Callable[[Any, int, int], Answer]
) -> bool:
    """Whether two states pay the same under equal streams.

    Used where their values differ, or show nothing to compare. ``call(state,
    action, i)`` steps on from the i-th stream.
    """
    for i in range(
        FUTURE if problem.horizon is None else min(FUTURE, problem.horizon - 1)
    ):
        x_profile, y_profile = problem.profile(x), problem.profile(y)
        if x_profile is None or x_profile != y_profile:
            return x_profile == y_profile
        action = x_profile[1 + i % (len(x_profile) - 1)]
        x_answer, y_answer = call(x, action, i), call(y, action, i)
        if x_answer[0] != y_answer[0] or x_answer[2] != y_answer[2]:
            return False
        if x_answer[2]:
            return True
        x, y = x_answer[1], y_answer[1]
    return True
