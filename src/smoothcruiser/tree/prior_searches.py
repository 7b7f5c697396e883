"""Searches that descend by a prior over actions: PUCT and Gumbel MuZero.

  method  descends by                                     passes up        recommends
  PUCT    argmax Q + c(N) p sqrt(N) / (1 + n)             the mean return  most visited
  Gumbel  at the root sequential halving of g + log p +   the mean return  the last one
          s(Q); below argmax pi' - n / (1 + sum n)                         left

The rules, with their symbols, are in ``tree.prior_kernel``. ``prior`` has one weight per
action of the player to move, and ``network`` returns (prior, value) at once. Without
either the prior is uniform; without a value a leaf is worth a rollout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Max, Operator
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.tree.parameters import check_finite
from smoothcruiser.tree.searches import (
    IMPROVED,
    MEAN,
    PRIOR_UPPER,
    TREE_SEARCHES,
    Search,
    TreeRule,
)

PLANNED = 64  # simulations of sequential halving where no number was given


@dataclass(frozen=True, kw_only=True)
class _Prior(Search):
    """The shared parameters of searches by a prior."""

    prior: Any = None  # one weight per action; None: equal ones
    network: Any = None  # (prior, value) from one function, instead of the two

    def __post_init__(self) -> None:
        self._read_evaluator("prior")
        self._read_evaluator("network")
        super().__post_init__()
        if self.network is not None and (self.prior or self.value) is not None:
            raise InvalidInput(
                f"{self.name}: network returns a prior and a value; give either it or "
                "prior= and value=."
            )
        if self.expansion != 1:
            raise InvalidInput(
                f"{self.name}: a node needs its prior before the descent goes on; "
                f"expansion must be 1, got {self.expansion!r}."
            )

    @property
    def asks(self) -> bool:
        return True

    def operator(self, problem_operator: Operator) -> Operator:
        return Max()

    def _rule(self, descent: int, exploration: float, **numbers: float) -> TreeRule:
        shared_numbers = {"up": MEAN, "code": Max.code, "most_visited": True}
        return self._rule_of(
            descent=descent, exploration=exploration, **shared_numbers, **numbers
        )


@dataclass(frozen=True, kw_only=True)
class PUCT(_Prior):
    """AlphaZero's rule (Silver et al. 2018): a prior steers the upper bounds."""

    # None: values are scaled to [0, 1] at each node, with c_0 = 1.25
    exploration: float | None = None
    base: float = 19_652.0  # as published: c grows once N is of this order
    name: ClassVar[str] = "puct"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(self, "exploration", optional=True, least=0.0)
        check_finite(self, "base", least=1.0)

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        c = math.nan if self.exploration is None else float(self.exploration)
        return self._rule(PRIOR_UPPER, c, base=float(self.base))


@dataclass(frozen=True, kw_only=True)
class Gumbel(_Prior):
    """Gumbel MuZero (Danihelka et al. 2022): good with very few simulations.

    Its root tries ``considered`` actions sampled without replacement from the prior and
    halves them; its recommendation is better than the prior in expectation.
    """

    considered: int = 16
    # None: those of the first growth, where it is limited by them, else 64
    planned: int | None = None
    noise: float = 1.0  # of the Gumbel numbers; 0: the best by prior and value
    value_scale: float = 0.1  # as published, for values scaled to [0, 1]
    visit_offset: float = 50.0
    name: ClassVar[str] = "gumbel"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("considered", "planned"):
            value = getattr(self, name)
            is_default = value is None and name == "planned"
            if not is_default and (not is_whole(value) or value < 1):
                raise InvalidInput(
                    f"{self.name}: {name} must be a whole number of at least 1, got "
                    f"{value!r}."
                )
        for name in ("noise", "value_scale", "visit_offset"):
            check_finite(self, name, least=0.0)

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        value_scale, visit_offset = float(self.value_scale), float(self.visit_offset)
        return self._rule(
            IMPROVED, 0.0, value_scale=value_scale, visit_offset=visit_offset
        )


for _search in (PUCT(), Gumbel()):
    TREE_SEARCHES[_search.name] = _search
