"""Killed paths: unbiased samples of the value of a policy, without a truncation.

A path is played from the start under the policy. Its first h steps (the head) are
all played and weigh gamma^t. From then on each further step is played with
probability gamma, by a coin of its own, and keeps the weight gamma^h. With a
constant control variate w, worth 0 at ends, and D_t = gamma^min(t, h),

  X = w + sum over the steps played of D_t (r_t - sign Omega + gamma w(z_t) - w)

has mean V_pi exactly, whatever h and w are (docs/tree-search.md). h = 0 is the
killed path, h beyond every episode the discounted return. X = R + w B, where B
(``BALANCE``) has mean 0: w is the slope that a regression finds on earlier paths.

X is not bounded, since a path may be long. Where it is alive after its head at x,

  x < floor:    ``LOWER`` = x + D (lo - w)     E LOWER <= V_pi
  x > ceiling:  ``UPPER`` = x + D (hi - w)     E UPPER >= V_pi

with [lo, hi] bounds on the value of the policy in every state that is no end; else
both are X. The path goes on to its end all the same, for X.

legend   symbol      name
  h, w               ``head``, ``control``
  lo, hi             ``value_low``, ``value_high``
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

# columns of samples: X, B, the two that are cut, the discounted income, the steps
X, BALANCE, LOWER, UPPER, TOTAL, STEPS = range(6)
COLUMNS = 6
LONGEST = 2**62  # steps: more than any run makes


class PathRule(NamedTuple):
    """The rule by which a path is played and counted; fixed before it begins."""

    head: int = 0
    fixed: bool = True  # a path ends with its head: no coins
    discount: float = 0.0
    control: float = 0.0
    floor: float = -math.inf
    ceiling: float = math.inf
    value_low: float = -math.inf
    value_high: float = math.inf


def path_length(rule: PathRule, coins: Any) -> int:
    """The most steps of the next path.

    After its head a path has k further steps or more with probability gamma^(k - 1),
    k >= 1: the first needs no coin.
    """
    if rule.fixed:
        return rule.head
    if rule.discount == 0.0:
        return 1
    # in (0, 1], in multiples of 2^-53: at most 37/(1 - gamma) steps
    luck = 1.0 - coins.random()
    coin_steps = math.floor(math.log(luck) / math.log(rule.discount))
    return rule.head + 1 + int(coin_steps)


class Path:
    """One path in Python, step by step as ``kernel.policy_rollouts`` counts it."""

    def __init__(self, rule: PathRule, discount: float, length: int) -> None:
        self.rule, self.discount, self.length = rule, discount, length
        self.fee = 1.0 - discount
        self.x, self.balance, self.weight = rule.control, 1.0, 1.0
        self.total, self.discounted = 0.0, 1.0
        self.lower, self.upper = math.inf, -math.inf
        self.depth, self.goes_on = 0, length > 0

    def take(self, income: float, ended: bool) -> None:
        """Count the income of one step; ``ended`` says that it was the last."""
        rule = self.rule
        self.total += self.discounted * income
        self.depth += 1
        if ended:
            self.x += self.weight * (income - rule.control)
            self.balance -= self.weight
            self.goes_on = False
            return
        self.x += self.weight * (income - self.fee * rule.control)
        self.balance -= self.weight * self.fee
        self.discounted *= self.discount
        if self.depth <= rule.head:
            self.weight *= self.discount
        self.goes_on = self.depth < self.length
        if self.depth >= rule.head and self.goes_on:
            if self.x < rule.floor and self.lower == math.inf:
                self.lower = self.x + self.weight * (rule.value_low - rule.control)
            if self.x > rule.ceiling and self.upper == -math.inf:
                self.upper = self.x + self.weight * (rule.value_high - rule.control)

    def sample(self) -> tuple[float, ...]:
        """The row of this path, in the order of the columns."""
        return (
            self.x,
            self.balance,
            self.x if self.lower == math.inf else self.lower,
            self.x if self.upper == -math.inf else self.upper,
            self.total,
            float(self.depth),
        )
