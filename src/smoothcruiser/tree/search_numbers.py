"""A search in the numbers that the kernels read: its rule, its limits, its leaves.

Codes of the closed sets stand here, and the check of a rule's numbers. Not in this file:
the formulas (``selection``, ``kernels.rules_kernel``), and the searches with their
parameters (``search_rules``, ``prior_rules``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import OPERATORS
from smoothcruiser.operators.base import OWN
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.problem.arguments import is_number, is_whole

# how a node descends; PRIOR_UPPER and IMPROVED by a prior (``rules_kernel``), OWN_PICK by
# the function of the search itself (``Search.pick``)
UPPER, BOLTZMANN, PRIOR_UPPER, IMPROVED, OWN_PICK = range(5)
MEAN, SMOOTH, BEST = range(3)  # the value that a node passes up
NO_PRIOR, VISITS_PRIOR, PARENT_PRIOR = range(3)
PRIORS = {"visits": VISITS_PRIOR, "parent": PARENT_PRIOR}
SMALLEST_TEMPERATURE = 1e-300  # as of ``TemperedOperator``


class TreeRule(NamedTuple):
    """A method in the engine's numbers; one compiled engine runs them all."""

    descent: int  # UPPER, BOLTZMANN, PRIOR_UPPER, IMPROVED or OWN_PICK
    up: int  # MEAN, SMOOTH or BEST
    code: int  # the operator of the descent and of SMOOTH
    exploration: float  # c or e; NaN: c is the largest |Q| of the node
    initial: float  # Q of an untried action; NaN: from the node's first estimate
    most_visited: bool  # whether visits decide the recommendation
    temperature: float = 0.0
    cools: bool = False  # whether the temperature is divided by log(N + exp 1)
    counts_actions: bool = False  # whether l = e |A| / log(N + shift)
    shift: float = 1.0
    entropy: float = 0.0  # b(0); 0 where no entropy is kept
    prior: int = NO_PRIOR  # or where the pi_0 of RENTS comes from
    base: float = 1.0  # of PUCT's log((1 + N + base) / base)
    value_scale: float = 0.0  # of Gumbel MuZero's transform of values
    visit_offset: float = 0.0
    warm: bool = False  # whether nodes keep first values of their actions


def check_rule(name: str, rule: Any, pick: Any = None) -> TreeRule:
    """``rule`` of the search ``name``, checked: the engine can run its numbers.

    Other numbers would select another method, or divide by zero.
    """
    if not isinstance(rule, TreeRule):
        raise InvalidInput(
            f"{name}: rule must return a TreeRule, got {type(rule).__name__}."
        )
    operator_codes = sorted({operator.code for operator in OPERATORS.values()} - {OWN})
    allowed_codes = {
        "descent": (UPPER, BOLTZMANN, PRIOR_UPPER, IMPROVED, OWN_PICK),
        "up": (MEAN, SMOOTH, BEST),
        "code": tuple(operator_codes),
        "prior": (NO_PRIOR, VISITS_PRIOR, PARENT_PRIOR),
    }
    for field, allowed in allowed_codes.items():
        value = getattr(rule, field)
        if not is_whole(value) or value not in allowed:
            raise InvalidInput(
                f"{name}: {field} of its TreeRule must be one of "
                f"{', '.join(map(str, allowed))}, got {value!r}."
            )
    is_regularized = not is_greedy(rule.code)
    if rule.descent == OWN_PICK and not callable(pick):
        raise InvalidInput(
            f"{name}: a rule with the descent OWN_PICK needs a function "
            "pick(rule, x, n, size, visits, rng) in its class, got "
            f"{pick!r}; write it as a staticmethod."
        )
    needs_temperature = is_regularized and (
        rule.descent == BOLTZMANN or rule.up == SMOOTH
    )
    # log(N + shift) is at least 0 for all N
    lower_bounds = {"exploration": 0.0, "shift": 1.0, "entropy": 0.0, "base": 1.0}
    lower_bounds |= {"value_scale": 0.0, "visit_offset": 0.0}
    lower_bounds["temperature"] = SMALLEST_TEMPERATURE if needs_temperature else 0.0
    for field, lower_bound in lower_bounds.items():
        value = getattr(rule, field)
        is_adaptive = field == "exploration" and rule.descent in (
            UPPER,
            PRIOR_UPPER,
            OWN_PICK,
        )
        if is_adaptive and is_number(value) and math.isnan(value):
            continue
        if not is_number(value) or not lower_bound <= value < math.inf:
            raise InvalidInput(
                f"{name}: {field} of its TreeRule must be a finite number of at least "
                f"{lower_bound:g}, got {value!r}."
            )
    if not is_number(rule.initial) or math.isinf(rule.initial):
        raise InvalidInput(
            f"{name}: initial of its TreeRule must be a finite number or NaN, got "
            f"{rule.initial!r}."
        )
    for field in ("cools", "counts_actions", "most_visited", "warm"):
        if not isinstance(getattr(rule, field), bool):
            raise InvalidInput(
                f"{name}: {field} of its TreeRule must be True or False, got "
                f"{getattr(rule, field)!r}."
            )
    return rule


class Setting(NamedTuple):
    """The problem and the limits in numbers."""

    num_actions: int
    fewest: int  # the least number of legal actions in any state
    discount: float
    low: float  # reward range
    high: float
    varies: bool  # whether legal actions vary
    ends: bool  # whether there are terminal states
    game: bool
    limit: int  # most steps from the root
    tail: float  # the estimate beyond the limit; 0 at a horizon
    expansion: int  # nodes added per simulation
    most_nodes: int
    # whether a leaf is worth the middle of bounds on V at its state
    bounded: bool = False
    beyond: bool = False  # the same at the limit, where steps may be left
    # of those bounds, as in ``engines.compiled.kernel.ScheduleTable``
    gap: float = 0.0
    value_low: float = 0.0
    value_high: float = 0.0
    slack: float = 0.0
    # when a move takes a stored next state (``tree.widening``)
    samples: int = 0
    widening: float = 0.0
    growth: float = 0.0
    # whether there are boxes (``rules_kernel``); whether a play ends at the limit; and
    # how many moves were made before the root
    solves: bool = False
    closes: bool = False
    elapsed: int = 0
    # whether boxes are bounds that are known (``rules_kernel``)
    bounds: bool = False
    # how many actions are open
    action_widening: float = 0.0
    action_growth: float = 0.0


class LeafSetting(NamedTuple):
    """The valuation of leaves, in the engine's numbers."""

    batch: int  # leaves that wait at most
    collisions: int  # arrivals at leaves that wait already, before the batch closes
    mix: float  # the weight of a rollout
    loss: float  # virtual loss
    low: float  # bounds on values
    high: float
    values: bool  # whether values are asked for; else leaves are rolled out
    priors: bool
    firsts: bool  # whether first values of actions are
    by_prior: bool  # whether nodes keep priors
    deep: bool  # whether a leaf at the depth limit is asked about too
    inside: bool  # whether compiled code answers by itself
