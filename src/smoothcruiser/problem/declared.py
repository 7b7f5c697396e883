"""Checks of declared facts: one sentence for each that cannot hold.

Bounds on V, totals and chances have checks of their own (``problem.bounds``,
``problem.totals``, ``problem.chances``), which are called here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import OPERATORS, Max, Operator
from smoothcruiser.problem.arguments import (
    check_call_seconds,
    check_keywords,
    shorten_value,
)
from smoothcruiser.problem.bounds import check_bounds
from smoothcruiser.problem.chances import check_chances
from smoothcruiser.problem.totals import check_totals
from smoothcruiser.problem.undiscounted import has_bounded_total

if TYPE_CHECKING:
    from smoothcruiser.problem.problem import Problem

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
        hint = {"softmax": "entropy", "logsumexp": "entropy", "greedy": "max"}.get(came)
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


def check_declared(p: Problem) -> None:
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
    check_range("reward_range", p.reward_range)
    _check_discount(p)
    largest_unit = max(p.operator.strength, *(abs(bound) for bound in p.reward_range))
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


def _check_discount(p: Problem) -> None:
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


def _may_sum_totals(p: Problem) -> bool:
    """Whether rewards may be added up without a discount and without a horizon."""
    has_model = p.tables is not None or p.outcomes is not None
    return isinstance(p.operator, Max) and (has_model or has_bounded_total(p))
