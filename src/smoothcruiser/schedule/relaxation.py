"""Regularization as a relaxation: the cheapest promise about the UNREGULARIZED value.

The temperature and the split of epsilon are chosen by price.

  V_lambda - V_0 lies in a known band [low, high], so the answer for V_0 is
  V-hat - (low + high)/2, and
  |answer - V_0| <= |V-hat - V_lambda| + (high - low)/2 <= epsilon
  if V-hat keeps epsilon - (high - low)/2 for V_lambda.

Proof of the band. F(Q) - max Q lies in [a, b]: F is monotone and F(Q + c) =
F(Q) + c, so F(Q) <= F(max Q, ..., max Q) = max Q + F(0) = max Q + b; and F(Q)
>= Q(i) - Omega(e_i) at the vertex e_i of the best action i, a = min
-Omega(e_i). For the min player the distance lies in [-b, -a]. Both Bellman
operators are monotone and V -> V + c moves them by gamma c, so by induction
over T_lambda^n V_0 the distances add up along the play with weights gamma^t,
and the sums below bound them; a play that ends stops adding (hull with 0).

legend   symbol   public name
  lambda          ``temperature``
  [a, b]          ``step_band``: [0, lambda log K] for entropy,
                  [lambda log min mu, 0] for KL, [0, F(0)] for sparsemax,
                  [lambda, lambda sqrt K] for the square root (only its width
                  lambda (sqrt K - 1) counts), [0, 0] for max
  [low, high]     ``value_band(facts, player)``; for entropy in an MDP
                  [0, lambda log K/(1-gamma)], the paper's bound; its middle is
                  known, so only half of it is an error
  share           (high - low)/2 over epsilon: the share of the promise spent on
                  the relaxation; 0 is plain max

This file decides the split of epsilon, by trying shares with the schedule
compiler. It leaves out running the plan (``methods.schedules.relaxing``). Proofs:
docs/theory.md, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.operators import OPERATORS, Entropy, Max, Operator, TemperedOperator
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.data import Data, check_head, head, schema_of
from smoothcruiser.records.json_shapes import DataclassShape
from smoothcruiser.records.shapes import Count, Schema
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.schedule import Schedule, Target

# of epsilon; in between the price changes by a factor of 2 at the most
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
# Halvings of the two intervals beside the best share. They find its place to within
# 1/16 of an interval.
_REFINEMENTS = 4


@dataclass(frozen=True)
class Tried:
    """A split that was priced; ``num_calls`` is None where no schedule was found."""

    share: float
    temperature: float
    num_calls: Count | None


@dataclass(frozen=True)
class Split:
    """How a relaxation divides its epsilon, as JSON has it."""

    family: str
    temperature: float
    sampling_epsilon: float
    tried: tuple[Tried, ...]
    operator: Operator


@dataclass(frozen=True)
class Promised:
    """The JSON data of a relaxation beside its schedule."""

    epsilon: float
    delta: float
    relaxation: Split


@dataclass(frozen=True)
class Relaxation(Shown, Data):
    """A plan for V_0 through V_lambda, with the promise (epsilon, delta).

    |unregularized(V-hat) - V_0| <= epsilon with probability 1 - delta.
    """

    json_kind: ClassVar[str] = "relaxation"

    epsilon: float  # promised for V_0
    delta: float
    operator: Operator  # Max() where relaxing does not pay
    schedule: Schedule  # keeps (sampling_epsilon, delta) for V_lambda
    tried: tuple[Tried, ...] = ()
    family: str = ""  # the operators that were tried beside plain max

    @property
    def method(self) -> str:
        """The name of the method that will run."""
        return self.schedule.method

    @property
    def temperature(self) -> float:
        """The temperature lambda, 0 for plain max."""
        return self.operator.strength

    @property
    def sampling_epsilon(self) -> float:
        """The share of epsilon that is left for the sampling."""
        return self.schedule.epsilon

    @property
    def num_calls(self) -> int:
        """The price in oracle calls."""
        return self.schedule.num_calls

    def unregularized(self, value: float, player: int = 1) -> float:
        """Return the estimate of V_0 from an estimate of V_lambda.

        ``player`` is the player to move at the state.
        """
        band_low, band_high = self.band(player)
        return value - 0.5 * (band_low + band_high)

    def band(self, player: int = 1) -> tuple[float, float]:
        """Return the interval that holds V_lambda - V_0 where ``player`` moves."""
        return value_band(self.schedule.facts, player)

    def q_band(self, player: int = 1) -> tuple[float, float]:
        """Return the interval that holds Q_lambda - Q_0 of all actions of ``player``."""
        return q_band(self.schedule.facts, player)

    def widened(self, epsilon: float | None) -> float | None:
        """Return the promise about V_0 that ``epsilon`` for V_lambda makes."""
        if epsilon is None or epsilon == self.sampling_epsilon:
            return None if epsilon is None else self.epsilon
        return epsilon + _half_width(self.schedule.facts)

    @property
    def verdict(self) -> str:
        """The choice and the price of the alternative, in one sentence."""
        plain_calls = [x.num_calls for x in self.tried if x.temperature == 0.0]
        soft_splits = [x for x in self.tried if x.temperature > 0.0 and x.num_calls]
        best_soft = min(soft_splits, key=lambda x: x.num_calls or 0, default=None)
        if self.temperature > 0.0:
            other_text = (
                f"{plain_calls[0]:,} calls with plain max, which is usually cheaper"
                if plain_calls and plain_calls[0] is not None
                else "no schedule with plain max"
            )
            return (
                f"The value is the unregularized one, through {self.operator.label}: "
                f"{self.num_calls:,} calls, against {other_text}."
            )
        other_text = (
            f"no schedule with {self.family}"
            if best_soft is None
            else f"{best_soft.num_calls:,} with {self.family} at its best temperature, "
            f"{best_soft.temperature:.3g}"
        )
        return (
            f"The value is the unregularized one, by plain max: {self.num_calls:,} "
            f"calls, against {other_text}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data: its schedule, the promise, and the splits tried."""
        split_data = DataclassShape(Split).data(
            Split(
                family=self.family,
                temperature=self.temperature,
                sampling_epsilon=self.sampling_epsilon,
                tried=self.tried,
                operator=self.operator,
            )
        )
        schedule_data = self.schedule.to_dict() | head(self.json_kind)
        return schedule_data | {"epsilon": self.epsilon, "relaxation": split_data}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The plan that ``to_dict`` wrote; its schedule is verified again.

        Args:
            data: the result of ``to_dict``, or the same after JSON.
        """
        check_head(data, cls.json_kind, "Relaxation.from_dict")
        kind = cls.json_kind
        promise_data = DataclassShape(Promised).value(data, kind)
        split = promise_data.relaxation
        schedule_data = {**data, **head("schedule"), "epsilon": split.sampling_epsilon}
        return cls(
            epsilon=promise_data.epsilon,
            delta=promise_data.delta,
            operator=split.operator,
            schedule=Schedule.from_dict(schedule_data),
            tried=split.tried,
            family=split.family,
        )

    @classmethod
    def json_schema(cls) -> Schema:
        """The JSON Schema: that of a schedule, with the fields of a relaxation."""
        return schema_of(cls.json_kind, cls.__doc__, Schedule, Promised)

    def __repr__(self) -> str:
        return brief(
            "Relaxation",
            method=self.method,
            epsilon=self.epsilon,
            temperature=self.temperature,
        )


def step_band(facts: Facts) -> tuple[float, float]:
    """Return [a, b], the interval that holds F(Q) - max Q.

    It holds for every Q and every number of legal actions.
    """
    operator = facts.operator
    if not operator.has_omega:
        raise InvalidInput(
            f"The distance of {operator.name} to plain max is not known; relax "
            f"with one of {_names()}."
        )
    omega_min, omega_max = operator.omega_range(facts.num_actions)
    return 0.0 - omega_max, 0.0 - omega_min


def value_band(facts: Facts, player: int = 1) -> tuple[float, float]:
    """Return [low, high], which holds V_lambda(s) - V_0(s) where ``player`` moves."""
    a, b = step_band(facts)
    # a play may stop before a step with a distance of the other sign
    if facts.terminals:
        a, b = min(a, 0.0), max(b, 0.0)
    if not facts.game:
        step_sum = facts.steps(facts.horizon)
        return a * step_sum, b * step_sum
    own_step, other_step = ((a, b), (-b, -a)) if player == 1 else ((-b, -a), (a, b))
    even_sum, odd_sum = _turns(facts)
    if facts.alternating and not facts.terminals:
        return own_step[0] * even_sum + other_step[0] * odd_sum, own_step[
            1
        ] * even_sum + other_step[1] * odd_sum
    # the players that move later are not known
    step_low, step_high = (
        min(own_step[0], other_step[0]),
        max(own_step[1], other_step[1]),
    )
    later_sum = even_sum + odd_sum - 1.0
    return own_step[0] + step_low * later_sum, own_step[1] + step_high * later_sum


def q_band(facts: Facts, player: int = 1) -> tuple[float, float]:
    """Return [low, high], which holds Q_lambda(s, a) - Q_0(s, a) for every action.

    It is gamma times the band of the next state, whoever moves there.
    """
    if facts.horizon == 1:
        return 0.0, 0.0
    next_facts = facts
    if facts.horizon is not None:
        next_facts = replace(facts, horizon=facts.horizon - 1)
    movers = (
        (1,) if not facts.game else ((3 - player,) if facts.alternating else (1, 2))
    )
    bands = [value_band(next_facts, mover) for mover in movers]
    band_low, band_high = (
        min(band[0] for band in bands),
        max(band[1] for band in bands),
    )
    if facts.terminals:
        band_low, band_high = min(band_low, 0.0), max(band_high, 0.0)
    return facts.discount * band_low, facts.discount * band_high


def _turns(facts: Facts) -> tuple[float, float]:
    """Return the sums of gamma^t over even and over odd t."""
    gamma = facts.discount
    if facts.horizon is None:
        return 1.0 / (1.0 - gamma * gamma), gamma / (1.0 - gamma * gamma)
    discount_powers = [gamma**t for t in range(facts.horizon)]
    return math.fsum(discount_powers[::2]), math.fsum(discount_powers[1::2])


def relax_through(
    facts: Facts,
    operator: Operator,
    *,
    epsilon: float,
    delta: float,
    target: Target = "value",
) -> Relaxation:
    """Return the plan for V_0 through ``operator``, whatever its price.

    A plan is refused if its band alone exceeds epsilon.
    """
    soft_facts = facts.under(operator)
    half_width = _half_width(soft_facts)
    if not half_width < epsilon:
        raise InvalidInput(
            f"{operator.name} at temperature {operator.strength:g} may move the value "
            f"by {half_width:g}, not less than epsilon = {epsilon:g}; "
            "lower the temperature or raise epsilon."
        )
    schedule = compile_schedule(
        soft_facts, epsilon=epsilon - half_width, delta=delta, target=target
    )
    return Relaxation(epsilon, delta, operator, schedule)


def relax(
    facts: Facts,
    *,
    epsilon: float,
    delta: float,
    family: type[TemperedOperator] = Entropy,
    target: Target = "value",
) -> Relaxation:
    """Return the cheapest plan found for the unregularized value.

    Temperature and split of epsilon are chosen by price, plain max included.
    ``facts`` are those of the problem; their own operator is replaced.
    ``tried`` lists every split that was priced.
    """
    if family not in _families():
        raise InvalidInput(
            "relax needs an operator with a known distance to max, one of "
            f"{_names()}; got {family!r}."
        )
    if not (isinstance(epsilon, int | float) and 0.0 < epsilon < math.inf):
        raise InvalidInput(
            f"epsilon must be a finite number above 0, got {epsilon!r}; it is the "
            "largest error you accept."
        )
    # bands are linear in the temperature
    unit_width = _half_width(facts.under(family(1.0)))
    plans: dict[float, Relaxation] = {}
    tried_splits: dict[float, Tried] = {}

    def price(share: float) -> float:
        operator = (
            Max()
            if share == 0.0 or unit_width == 0.0
            else family(share * epsilon / unit_width)
        )
        try:
            plans[share] = relax_through(
                facts, operator, epsilon=epsilon, delta=delta, target=target
            )
        except Unpayable:
            tried_splits[share] = Tried(share, operator.strength, None)
            return math.inf
        tried_splits[share] = Tried(share, operator.strength, plans[share].num_calls)
        return float(plans[share].num_calls)

    share_prices = {share: price(share) for share in SHARES}
    if not plans:
        raise Unpayable(
            f"No temperature makes epsilon={epsilon:g} payable for the "
            "unregularized value; ask for a larger epsilon."
        )
    best_share = min(plans, key=lambda share: share_prices[share])
    for _ in range(_REFINEMENTS):
        priced_shares = sorted(share_prices)
        best_index = priced_shares.index(best_share)
        for neighbour in priced_shares[max(best_index - 1, 0) : best_index + 2]:
            middle_share = 0.5 * (best_share + neighbour)
            if middle_share not in share_prices:
                share_prices[middle_share] = price(middle_share)
        best_share = min(plans, key=lambda share: share_prices[share])
        if best_share == 0.0:
            break  # shares still closer to 0 are plain max for every purpose
    return replace(
        plans[best_share],
        tried=tuple(tried_splits[share] for share in sorted(tried_splits)),
        family=str(family.name),
    )


def _half_width(facts: Facts) -> float:
    bands = [value_band(facts, player) for player in ((1, 2) if facts.game else (1,))]
    return max(0.5 * (band_high - band_low) for band_low, band_high in bands)


def family_of(name: Any) -> type[TemperedOperator]:
    """Return the operators called ``name``, with any temperature."""
    families = {str(family.name): family for family in _families()}
    if name not in families:
        raise InvalidInput(
            "relax must name operators with a known distance to max, one of "
            f"{', '.join(families)}, got {name!r}."
        )
    return families[name]


def _names() -> str:
    return ", ".join(family.__name__ for family in _families())


def _families() -> list[type[TemperedOperator]]:
    """The operators with a temperature and a known distance to max."""
    return [
        operator
        for operator in OPERATORS.values()
        if issubclass(operator, TemperedOperator) and operator.has_omega
    ]
