"""Checks of declared facts: one sentence for each that cannot hold.

Bounds on V, totals and chances have checks of their own (``problem.bounds``,
``problem.totals``, ``problem.declaration_checks``), which are called here.

Declarations about chance: how rare an outcome may be, how soon episodes end.

``min_probability=p`` claims that every outcome (reward and next state) that a step
can have from a state that is not terminal has at least probability p. It bounds no
value; a method that samples may conclude from it that it has seen every outcome.

``episodes_end=(m, q)`` claims that from every state that is not terminal, whatever
is played, the episode ends within m steps with probability at least q. The expected
number of steps is then at most m/q (docs/theory.md, section 13), which is finite
without a discount. A horizon that cuts an episode off does not end it.

This file leaves out bounds on V by m/q (``problem.facts``), rows that
``outcomes=`` lists (``problem.model.known_outcomes``), walks that test the claims
(``checks.probe``).

Totals without a discount and without a horizon, and the methods that can bound them.

A problem may have discount 1 and no horizon where its operator is ``Max`` and either
its model is known or a declaration bounds its total (``problem.declaration_checks``). Its values
are expected totals over the whole play. The exact solver bounds them for known models,
certified search where a declaration does (docs/theory.md, section 13). Everything else
is built on a finite sum 1 + gamma + gamma**2 + ... and refuses, in the sentence made
here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import OPERATORS, Max, Operator
from smoothcruiser.problem.arguments import (
    check_call_seconds,
    check_keywords,
    is_number,
    is_whole,
    shorten_value,
)
from smoothcruiser.problem.bounds import check_bounds
from smoothcruiser.problem.facts import AT_THE_END, BOUNDS_ROUNDING, expected_steps
from smoothcruiser.problem.totals import check_totals

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import Facts, ProblemFields


# of the expected number of steps: sums over longer plays have no digit left
MOST_EXPECTED = 1e15


def check_chances(p: ProblemFields) -> None:
    """Refuse claims about chance that cannot hold, and tables that disprove them."""
    min_probability: Any = p.min_probability
    if min_probability is not None:
        if not (is_number(min_probability) and 0.0 < min_probability <= 1.0):
            raise InvalidInput(
                "min_probability must be a number above 0 and at most 1, or None, got "
                f"{shorten_value(min_probability)}."
            )
        if p.tables is not None:
            _check_tables(p)
    if p.episodes_end is not None:
        _check_end(p)


def _check_end(p: ProblemFields) -> None:
    episodes_end: Any = p.episodes_end
    is_valid = (
        isinstance(episodes_end, tuple)
        and len(episodes_end) == 2
        and is_whole(episodes_end[0])
        and episodes_end[0] >= 1
        and is_number(episodes_end[1])
        and 0.0 < episodes_end[1] <= 1.0
    )
    if not is_valid:
        raise InvalidInput(
            "episodes_end must be (steps, probability), a whole number of at least 1 "
            f"and a number above 0 and at most 1, got {shorten_value(episodes_end)}."
        )
    if episodes_end[0] > MOST_EXPECTED or expected_steps(episodes_end) > MOST_EXPECTED:
        raise InvalidInput(
            f"episodes_end must have steps/probability of at most {MOST_EXPECTED:g}, "
            f"got {shorten_value(episodes_end)}; declare a sooner end, or drop it."
        )
    if p.terminal is None or p.terminal is False:
        raise InvalidInput(
            "episodes_end needs ends: pass terminal= (a function, or True if the "
            "step's own flag ends an episode)."
        )


def _check_tables(p: ProblemFields) -> None:
    """Refuse tables with a rarer outcome than ``min_probability``."""
    tables, min_probability = p.tables, p.min_probability
    assert tables is not None
    assert min_probability is not None
    usable_pairs = (~tables.terminal[:, None] & tables.legal).reshape(-1)
    is_used = np.repeat(usable_pairs, np.diff(tables.start))
    is_rare = (tables.prob > 0.0) & (tables.prob < min_probability)
    for entry in np.flatnonzero(is_used & is_rare).tolist():
        row_index = int(np.searchsorted(tables.start, entry, side="right")) - 1
        state, action = divmod(row_index, tables.num_actions)
        row_slice = slice(
            int(tables.start[row_index]), int(tables.start[row_index + 1])
        )
        outcomes = zip(
            tables.reward[row_slice].tolist(),
            tables.next_state[row_slice].tolist(),
            strict=True,
        )
        smallest = rarest(min_probability, tables.prob[row_slice].tolist(), outcomes)
        if smallest is not None:
            raise InvalidInput(
                too_rare(p, f"state {state}, action {action}", smallest)
            )


def rarest(
    least: float, shares: Iterable[float], outcomes: Iterable[Hashable]
) -> float | None:
    """The smallest probability of an outcome where it is below ``least``, else None.

    An outcome that is listed twice has the sum of both. Rounding is forgiven.
    """
    shares_by_outcome: dict[Hashable, list[float]] = {}
    for share, outcome in zip(shares, outcomes, strict=True):
        if share > 0.0:
            shares_by_outcome.setdefault(outcome, []).append(share)
    smallest = min(
        (math.fsum(outcome_shares) for outcome_shares in shares_by_outcome.values()),
        default=1.0,
    )
    return smallest if smallest < least * (1.0 - BOUNDS_ROUNDING) else None


def too_rare(p: ProblemFields, where: str, found: float) -> str:
    """The sentence on an outcome that ``min_probability`` excludes."""
    return (
        f"min_probability={p.min_probability:g} needs every outcome to have at least "
        f"that probability, but {where} has one with {found:g}; declare the smallest "
        "of all, or drop min_probability=."
    )


def is_undiscounted(problem: ProblemFields | Facts) -> bool:
    """Whether rewards are summed without a discount and without a horizon."""
    return problem.horizon is None and problem.discount == 1.0


def has_bounded_total(problem: ProblemFields) -> bool:
    """Whether a declaration bounds the expected total, whatever the discount.

    One reward at the end does; so do an end that comes with some probability within
    some steps, and a range of the total, or two numbers that bound V, where partial sums
    have one direction.
    """
    if None in problem.reward_range:
        return False
    reward_low, reward_high = problem.reward_range
    one_sign = reward_low >= 0.0 or reward_high <= 0.0
    return (
        problem.payoffs == AT_THE_END
        or problem.episodes_end is not None
        or (problem.total_reward_range is not None and one_sign)
        or (problem.facts.given_bounds is not None and one_sign)
    )


def refuse_unbounded(problem: ProblemFields, who: str) -> None:
    """Refuse such a problem unless a declaration bounds its total."""
    if not has_bounded_total(problem):
        refuse_undiscounted(problem, who)


def refuse_undiscounted(problem: ProblemFields, who: str) -> None:
    """Refuse such a problem; ``who``, the method or the verb, begins the sentence."""
    if not is_undiscounted(problem):
        return
    remedies = ["horizon=", "a smaller discount"]
    if problem.tables is not None or problem.outcomes is not None:
        remedies.append("method='exact', which solves known models at discount 1")
    if has_bounded_total(problem):
        remedies.append(
            "method='certified', which searches where the total is bounded"
        )
    raise InvalidInput(
        f"{who} needs a horizon or a discount below 1, got discount=1 without a "
        f"horizon; give {', '.join(remedies[:-1])}, or {remedies[-1]}."
    )


# of a horizon: planners keep bounds for each number of steps left
MOST_STEPS = 1_000_000
# of rewards and temperature: values are squared and summed, and must stay finite
LARGEST_UNIT = 1e100


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise InvalidInput(sentence)


def plain_number(value: Any) -> Any:
    """A NumPy scalar as the Python number it stands for; anything else as it is."""
    return (
        value.item()
        if hasattr(value, "item") and getattr(value, "shape", None) == ()
        else value
    )


def _is_number(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_label(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def action_labels(actions: Any) -> tuple[str, ...]:
    """The names of the actions, refused unless each action has a name of its own."""
    is_list = isinstance(actions, Iterable) and not isinstance(actions, str | Mapping)
    labels = tuple(actions) if is_list else ()
    _require(
        len(labels) > 0 and all(map(_is_label, labels)),
        (
            "actions must name every action with a printable word, as in actions=['buy', 'wait'], "
            f"got {shorten_value(actions)}."
        ),
    )
    repeated_labels = [label for label, count in Counter(labels).items() if count > 1]
    _require(
        not repeated_labels,
        (
            "actions must be distinct, but "
            f"{shorten_value(repeated_labels[0] if repeated_labels else '')} is there more "
            "than once; give each action a name of its own."
        ),
    )
    return tuple(str(label) for label in labels)


def check_range(name: str, bounds: object) -> None:
    """Refuse anything but a pair of finite numbers in order."""
    is_range = (
        isinstance(bounds, tuple | list)
        and len(bounds) == 2
        and all(_is_number(bound) for bound in bounds)
        and bounds[0] <= bounds[1]
    )
    _require(
        is_range,
        (
            f"{name} must be two finite numbers (low, high) with low <= high, got "
            f"{bounds!r}."
        ),
    )


def _count_hint(came: object) -> str:
    """A guess at the intended number of actions, for one that is no number."""
    if isinstance(came, list | tuple) and came and all(map(_is_label, came)):
        return f"actions={shorten_value(list(came))} would name and count them"
    num_actions = plain_number(getattr(came, "n", None))  # of a space of Gymnasium
    if _is_count(num_actions):
        return f"write num_actions={num_actions}"
    if isinstance(came, float) and came.is_integer() and came >= 1:
        return f"write num_actions={int(came)}"
    return "actions=['buy', 'wait'] would name and count them"


def read_operator(name: str) -> Operator:
    """The operator of a name; those that have a temperature are refused."""
    operator_name = name.strip().lower()
    if operator_name == Max.name:
        return Max()
    if operator_name in OPERATORS:
        class_name = OPERATORS[operator_name].__name__
        raise InvalidInput(
            f"operator={name!r} needs a temperature, in units of reward; write "
            f"operator={class_name}(1.0), or operator=Max() for plain maximum."
        )
    raise InvalidInput(_no_operator(name))


def _no_operator(came: object) -> str:
    """The sentence on a value that is no operator."""
    if isinstance(came, str):
        known_operators = f"choose one of {', '.join(OPERATORS)}"
        hint = {"softmax": "entropy", "logsumexp": "entropy", "greedy": "max"}.get(
            came
        )
        known_operators += "" if hint is None else f" (did you mean {hint!r}?)"
        return (
            f"Unknown operator {came!r}; {known_operators}, as in Entropy(1.0) or "
            "Max()."
        )
    hint = "; write Max() for plain maximum" if came is max else ""
    if isinstance(came, type) and issubclass(came, Operator):
        hint = f"; {came.__name__} is a class: write {came.__name__}(…)"
    return (
        "operator must be an operator such as Entropy(1.0) or Max(), got "
        f"{shorten_value(came)}{hint}."
    )


class Declared:
    """A base of problems that refuses unknown keywords before all else."""

    def __new__(cls, *oracle: Any, **declared: Any) -> Self:
        """An empty problem, which ``__init__`` fills in."""
        if oracle or declared:  # neither where it is copied
            known_fields = cls.__dataclass_fields__  # type: ignore[attr-defined]
            check_keywords(cls.__name__, declared, known_fields)
            check_needed(cls.__name__, declared, oracle)
        return super().__new__(cls)


def check_needed(
    verb: str, declared: Mapping[str, Any], oracle: tuple[Any, ...]
) -> None:
    """Refuse a problem without a step, a discount or an operator."""
    example_call = "MDP(step, num_actions=2, discount=0.9, operator=Max())"
    if len(oracle) > 1:
        raise InvalidInput(
            f"{verb} takes one argument without a name, the step, got {len(oracle)}; "
            f"name the others, as in {example_call}."
        )
    if not oracle and "oracle" not in declared:
        raise InvalidInput(f"{verb} needs a step, as in {example_call}.")
    for field_name in ("discount", "operator"):
        if field_name not in declared:
            raise InvalidInput(f"{verb} needs {field_name}=, as in {example_call}.")


def check_declared(p: ProblemFields) -> None:
    """Refuse a problem with impossible or contradictory declarations."""
    _require(
        callable(p.oracle),
        (
            "oracle must be a function step(state, action, rng), got "
            f"{shorten_value(p.oracle)}."
        ),
    )
    _require(
        _is_count(p.num_actions),
        (
            "num_actions must be a whole number of at least 1, got "
            f"{shorten_value(p.num_actions)}; {_count_hint(p.num_actions)}."
        ),
    )
    num_labels = p.num_actions if p.actions is None else len(p.actions)
    _require(
        num_labels == p.num_actions,
        (
            f"actions must name all {p.num_actions} actions, got {num_labels} names; "
            "name each of them, or drop num_actions=."
        ),
    )
    _require(isinstance(p.operator, Operator), _no_operator(p.operator))
    _require(
        p.horizon is None or (_is_count(p.horizon) and p.horizon <= MOST_STEPS),
        (
            f"horizon must be a whole number of at least 1 and at most {MOST_STEPS:,}, "
            f"or None, got {shorten_value(p.horizon)}."
        ),
    )
    _check_rewards(p)
    _check_discount(p)
    largest_unit = max(
        p.operator.strength,
        0.0,
        *(abs(bound) for bound in p.reward_range if bound is not None),
    )
    _require(
        largest_unit <= LARGEST_UNIT,
        (
            f"Rewards and temperature must be at most {LARGEST_UNIT:g}, got "
            f"{largest_unit:g}; measure them in a larger unit."
        ),
    )
    _require(
        p.legal is None or callable(p.legal),
        f"legal must be a function legal(state, action) or None, got {p.legal!r}.",
    )
    _require(
        p.terminal is None or isinstance(p.terminal, bool) or callable(p.terminal),
        (
            "terminal must be a function terminal(state), True, or None, got "
            f"{shorten_value(p.terminal)}; of a set of states it is terminal=lambda state: "
            "state in ends."
        ),
    )
    _require(
        p.outcomes is None or callable(p.outcomes),
        (
            "outcomes must be a function outcomes(state, action) or None, got "
            f"{shorten_value(p.outcomes)}."
        ),
    )
    if p.min_actions is not None:
        is_valid = _is_count(p.min_actions) and p.min_actions <= p.num_actions
        _require(
            is_valid,
            (
                "min_actions must be a whole number from 1 to num_actions = "
                f"{p.num_actions}, got {p.min_actions!r}."
            ),
        )
    _require(
        p.key is None or callable(p.key),
        f"key must be a function key(state) or None, got {p.key!r}.",
    )
    check_call_seconds(p.call_seconds)
    p.operator.weights(p.num_actions)  # refuses a prior of another length
    check_chances(p)
    check_totals(p)
    check_bounds(p)


def _check_rewards(p: ProblemFields) -> None:
    """Refuse a range that is none, and an open one without a moment."""
    reward_range: Any = p.reward_range
    is_pair = isinstance(reward_range, tuple | list) and len(reward_range) == 2
    if not is_pair or None not in reward_range:
        check_range("reward_range", reward_range)
        _require(
            p.reward_moment is None,
            (
                "reward_moment is for rewards without a range; drop it, or leave an end "
                f"of reward_range={tuple(reward_range)} open with None."
            ),
        )
        return
    _require(
        all(bound is None or _is_number(bound) for bound in reward_range),
        (
            "reward_range must be (low, high), numbers or None for an open end, got "
            f"{shorten_value(reward_range)}."
        ),
    )
    moment: Any = p.reward_moment
    _require(
        isinstance(moment, tuple | list)
        and len(moment) == 2
        and all(_is_number(number) for number in moment)
        and moment[0] > 1
        and moment[1] > 0,
        (
            f"reward_range={tuple(reward_range)} has an open end: declare reward_moment="
            "(p, M), the mean of |reward|**p is at most M for every state and action "
            f"(p > 1, such as (4, 2000.0)), got {shorten_value(moment)}."
        ),
    )


def _check_discount(p: ProblemFields) -> None:
    _require(
        _is_number(p.discount) and p.discount >= 0,
        f"discount must be a number of at least 0, got {shorten_value(p.discount)}.",
    )
    _require(
        not 2 < p.discount <= 100,
        (
            f"discount must be at most 1, got {p.discount!r}; did you mean "
            f"discount={p.discount / 100:g}?"
        ),
    )
    if p.horizon is not None:
        _require(
            p.discount <= 1,
            f"discount must be in [0, 1] with a horizon, got {p.discount!r}.",
        )
    elif not (p.discount == 1 and _may_sum_totals(p)):
        _require(
            p.discount < 1,
            (
                f"discount must be in [0, 1) without a horizon, got {p.discount!r}; "
                "give horizon= to use 1, or operator=Max() with a known model (tabular, "
                "outcomes=) or a bounded total: payoffs='end', total_reward_range= or "
                "value_bounds= with rewards of one sign, or episodes_end=."
            ),
        )


def _may_sum_totals(p: ProblemFields) -> bool:
    """Whether rewards may be added up without a discount and without a horizon."""
    has_model = p.tables is not None or p.outcomes is not None
    return isinstance(p.operator, Max) and (has_model or has_bounded_total(p))
