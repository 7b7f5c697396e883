"""What a certificate takes on trust, in sentences.

Every declaration that an interval depends on is named.
"""

from __future__ import annotations

from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.totals import AT_THE_END

ONE_LAW = (
    "draws of the oracle are independent, and follow one law for each state and action"
)


def assumptions(
    problem: Problem, law: str, looked: str, checked: str = "call"
) -> tuple[str, ...]:
    """The assumptions of a certificate, one sentence each.

    Args:
        problem: whose declarations are trusted.
        law: the sentence on what the outcomes follow, such as ``ONE_LAW``.
        looked: how often the step was inspected; empty if it was not.
        checked: how often rewards are compared with their range.
    """
    facts = problem.facts
    low, high = facts.reward_range
    found = [
        law,
        f"every reward lies in [{low:g}, {high:g}] (checked on every {checked})",
    ]
    if problem.tables is None and looked:
        found.append(
            "step returns a new state, leaves the one it was given as it was and "
            f"remembers nothing ({looked})"
        )
    named = [
        name
        for name in ("legal", "terminal", "player")
        if callable(getattr(problem, name, None))
    ]
    if problem.value_gap is not None:
        named.append("value_bounds")
    if problem.tables is None and named:
        found.append(
            f"{', '.join(named)} answer by the state alone (asked twice of some)"
        )
    if facts.given_bounds is not None:
        bounds = f"[{facts.given_bounds[0]:g}, {facts.given_bounds[1]:g}]"
        found.append(
            f"the value of every state that is not terminal lies in {bounds}, as "
            "given in value_bounds"
        )
    if problem.payoffs == AT_THE_END and problem.tables is None:  # tables show it
        found.append(
            "only the step that ends an episode pays, as declared in payoffs='end' "
            "(checked on every call of a plain Python step, and on the calls of a "
            "compiled one that were inspected)"
        )
    if problem.total_reward_range is not None:
        low, high = problem.total_reward_range
        found.append(
            f"the rewards from every state that is not terminal to the end add up, "
            f"discounted, to a total in [{low:g}, {high:g}], as declared in "
            "total_reward_range"
        )
    if problem.min_probability is not None:
        found.append(
            "every outcome that a step can have from a state that is not terminal has "
            f"a probability of at least {problem.min_probability:g}, as declared in "
            "min_probability (an outcome that proves it false is an error)"
        )
    if facts.episodes_end is not None:
        steps, probability = facts.episodes_end
        found.append(
            "from every state that is not terminal, whatever is played, the episode "
            f"ends within {steps:,} steps with a probability of at least "
            f"{probability:g}, as declared in episodes_end"
        )
    if facts.given_gap is not None:
        found.append(
            "lower(state) <= V(state) <= upper(state) for every state that is not "
            f"terminal, at most {facts.given_gap:g} apart, as given in value_bounds "
            "(checked against each other and the rewards where they were asked)"
        )
    if facts.alternating:
        found.append("turns alternate strictly, as declared")
    if facts.terminals:
        found.append("a terminal state is worth 0, whatever a step from it would pay")
    if problem.legal is not None and facts.min_actions > 1:
        found.append(
            f"every state has at least {facts.min_actions} legal actions, as "
            "declared (checked where it was met)"
        )
    found += _rounded(facts)
    found += own_words(problem)
    # an adapter's own words on the keys it chose
    merged = getattr(problem.key, "assumption", "")
    if merged:
        found.append(merged)
    if not problem.operator.built_in:
        found.append(
            "the operator is monotone, moves with its argument as declared, and its "
            "gradient and constants are its own, as those of a "
            f"{type(problem.operator).__name__} have to be (check tests it)"
        )
    return tuple(found)


def _rounded(facts: Facts) -> tuple[str, ...]:
    """What is allowed for batches in float32 (``batched.FLOAT32_REWARDS``)."""
    if not facts.reward_error:
        return ()
    return (
        "steps in batches, which compute in float32, pay within "
        f"{facts.reward_error:.1g} of what a step by itself pays (an allowance that was "
        "measured, not proven; intervals of schedules are widened by it)",
    )


def own_words(problem: Problem) -> tuple[str, ...]:
    """What an adapter says of the model that it read: ``assumptions`` of its oracle."""
    return tuple(getattr(problem.oracle, "assumptions", ()))
