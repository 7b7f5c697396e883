"""The numbers of Lemma 2, from which the accuracy of a level follows.

  C      3 (r_max + M)/(1 - gamma)^2, which bounds every output       ``ceiling``
  t(N)   C sqrt(2 log(2K/delta')/N), the noise of one Q-hat           ``noise``
  K L    the factor of the squared error of a linearization           ``curve``
  V_h    (r_max + M)(1 - gamma^h)/(1 - gamma) >= |V|, h steps left    ``sup_value``

Written from the printed lemma and nothing else, so that a check by these
numbers does not rest on the ladder behind the table (``theory.paper_ladder``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.problem.facts import Facts


@dataclass(frozen=True)
class PaperConstants:
    """The numbers of Lemma 2, from the facts and delta'."""

    gamma: float
    size: float  # r_max + M
    log_scale: float  # log of 2 log(2K/delta')
    curve: float  # K L
    ceiling: float  # C
    operator: str  # its name, for sentences

    @classmethod
    def of(cls, facts: Facts, delta_prime: float | None) -> PaperConstants:
        """Return the constants of a problem.

        ``delta_prime`` is the failure probability of one Q-hat.
        """
        if delta_prime is None or not 0.0 < delta_prime <= 1.0:
            raise BrokenPromise(
                "A schedule of the paper needs delta_prime in (0, 1], got "
                f"{delta_prime!r}."
            )
        gamma = facts.discount
        if not 0.0 <= gamma < 1.0:
            raise BrokenPromise(
                f"The paper's analysis needs a discount in [0, 1), got {gamma!r}."
            )
        value_scale = facts.reward_bound + facts.regularizer_bound
        return cls(
            gamma=gamma,
            size=value_scale,
            log_scale=math.log(
                2.0 * (math.log(2.0 * facts.num_actions) - math.log(delta_prime))
            ),
            curve=facts.num_actions * facts.smoothness,
            ceiling=3.0 * value_scale / (1.0 - gamma) ** 2,
            operator=facts.operator.name,
        )

    def noise(self, samples: int) -> float:
        """Return t(N), also for an N beyond the floats."""
        return self.ceiling * math.exp(0.5 * (self.log_scale - math.log(samples)))

    def sup_value(self, remaining: int | None) -> float:
        """Return a bound on |V| with ``remaining`` steps left."""
        discounted_share = 1.0 if remaining is None else 1.0 - self.gamma**remaining
        return self.size / (1.0 - self.gamma) * discounted_share
