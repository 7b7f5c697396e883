"""Rewards without bounds: a declared moment pays for what a cap leaves out.

``reward_range=(low, None)`` with ``reward_moment=(p, M)`` claims E|r|^p <= M for every
state and action. A request is answered for the same problem with min(r, tau) in the
place of r, whose rewards have a range, so that every method serves. Since
(x - tau)^+ <= x^p (p - 1)^(p - 1) / (p^p tau^(p - 1)) for x >= 0 (equality at
x = p tau/(p - 1)),

  0 <= E r - E min(r, tau) <= b = M (p - 1)^(p - 1) / (p^p tau^(p - 1)).

Operators are monotone and move with a constant that is added to their argument. So
V, Q and the value of any policy, of games too, lie at most B = b sum gamma^t above
those of the capped problem, and not below them. An interval gets B added to its upper
end. A range without a lower end is the mirror image; without either, both ends move.

The cap is fixed before the first call of the step: B is a fifth of epsilon where that is
a number. Otherwise tau grows with the calls n that the limits allow, as
((p - 1) C n/500)^(1/p) with b = C/tau^(p - 1): there B falls as fast as the range part
of a bound, about 5 tau/n for a hundredth of the calls (a search deals them out to pairs).

legend   symbol   name
  tau             ``cap``
  B               ``bias``
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Certificate, Estimate, Interval, not_excluded
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.operators.outward import add_intervals
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Progress
from smoothcruiser.query import Query

EPSILON_SHARE = 0.2  # of epsilon, for the bias
# calls that a second pays for, and the seconds of a request without limits, about
CALLS_PER_SECOND, USUAL_SECONDS = 1e6, 1.0
LEVEL = 500.0  # log(1/delta) and what a mixture of bets adds, times a hundred pairs
ROUNDING = 1e-12  # relative, of the bias
PAYS_NO_BOUNDS = ("store", "scheduler", "tls")


@dataclass(frozen=True)
class CappedStep:
    """A plain step whose rewards are brought between two caps."""

    step: Callable[..., Any]
    caps: Interval

    def __call__(self, state: Any, action: Any, rng: Any) -> Any:  # noqa: D102
        reward, *future = self.step(state, action, rng)
        return (_cap_reward(reward, *self.caps), *future)


def _cap_reward(reward: Any, lower_cap: float, upper_cap: float) -> Any:
    """The reward between its caps; NaN and infinity stay, and are refused as such."""
    if reward - reward != 0.0:
        return reward
    return min(max(reward, lower_cap), upper_cap)


def compiled_cap(step: Any, caps: Interval) -> Any:
    """A compiled step whose rewards are brought between two caps."""
    from numba import njit

    lower_cap, upper_cap = caps
    cap_reward = njit(_cap_reward)

    @njit  # type: ignore[untyped-decorator,unused-ignore]
    def capped_step(state: Any, action: Any, rng: Any) -> Any:
        outcome = step(state, action, rng)
        reward = cap_reward(float(outcome[0]), lower_cap, upper_cap)
        return (reward, *outcome[1:])

    return capped_step


@dataclass(frozen=True)
class RewardCap:
    """A request whose rewards are capped, and by how much that may move its answer."""

    query: Query  # about the capped problem
    cap: float
    bias: Interval  # what may be missing: (at most below 0, at least 0)
    moment: tuple[float, float]

    def widen(self, estimate: Estimate) -> Estimate:
        """The answer about the problem without caps."""
        if estimate.interval is None:
            return replace(estimate, notes=(*estimate.notes, self._note()))
        certificate = estimate.certificate
        if certificate is not None:
            certificate = self._widen_certificate(certificate)
        interval = add_intervals(estimate.interval, self.bias)
        return replace(
            estimate,
            interval=interval,
            epsilon=None
            if estimate.epsilon is None
            else estimate.epsilon + 0.5 * (self.bias[1] - self.bias[0]),
            certificate=certificate,
            notes=(*estimate.notes, self._note()),
        )

    def _widen_certificate(self, certificate: Certificate) -> Certificate:
        q_intervals = tuple(
            interval if math.isnan(interval[0]) else add_intervals(interval, self.bias)
            for interval in certificate.q_intervals
        )
        p, M = self.moment
        problem = self.query.problem
        policy_loss = certificate.policy_loss
        return replace(
            certificate,
            interval=add_intervals(certificate.interval, self.bias),
            q_intervals=q_intervals,
            best_actions=None
            if certificate.best_actions is None
            else not_excluded(q_intervals, problem.mover(self.query.place)),
            policy_loss=None
            if policy_loss is None
            else policy_loss + self.bias[1] - self.bias[0],
            assumptions=(
                *certificate.assumptions,
                f"the mean of |reward|**{p:g} is at most {M:g} for every state and "
                "action, as declared in reward_moment (not checked); the range above "
                "is that of capped rewards",
            ),
        )

    def _note(self) -> str:
        return (
            f"Rewards beyond {self.cap:.4g} counted as {self.cap:.4g}; by reward_moment "
            f"that moves a value by {self.bias[1] - self.bias[0]:.3g} at most, and the "
            "interval has it."
        )


def capped_query(
    problem: Problem, state: Any, keywords: dict[str, Any]
) -> tuple[Query, Callable[[Estimate], Estimate]]:
    """The request about capped rewards, and the function that widens its answer."""
    reward_cap = cap_rewards(problem, state, keywords)
    return reward_cap.query, reward_cap.widen


def cap_rewards(problem: Problem, state: Any, keywords: dict[str, Any]) -> RewardCap:
    """The request with capped rewards; ``keywords`` are those of ``plan``."""
    for keyword in PAYS_NO_BOUNDS:
        if keywords.get(keyword) is not None:
            raise InvalidInput(
                f"{keyword}= needs rewards with a range, and reward_range is "
                f"{problem.reward_range}; give both ends, or drop {keyword}=."
            )
    if isinstance(problem.oracle, Batched) or problem.sample_action is not None:
        raise InvalidInput(
            "A batched step and sampled actions need rewards with a range, and "
            f"reward_range is {problem.reward_range}; give both ends."
        )
    p, M = problem.reward_moment or (2.0, 0.0)
    steps = _discounted_steps(problem)
    loss = M * (p - 1.0) ** (p - 1.0) / p**p  # b = loss / cap^(p - 1)
    epsilon = _epsilon_of(keywords)
    if epsilon is None:
        num_calls = keywords.get("budget") or (
            CALLS_PER_SECOND * float(keywords.get("seconds") or USUAL_SECONDS)
        )
        cap = max((p - 1.0) * loss * float(num_calls) / LEVEL, M) ** (1.0 / p)
    else:
        cap = (loss * steps / (EPSILON_SHARE * epsilon)) ** (1.0 / (p - 1.0))
    low, high = problem.reward_range
    cap = max(cap, *(2.0 * abs(end) for end in (low, high) if end is not None), 1e-9)
    bias = loss / cap ** (p - 1.0) * steps * (1.0 + ROUNDING)
    bias_range = (-bias if low is None else 0.0, bias if high is None else 0.0)
    capped = capped_problem(problem, cap)
    if epsilon is not None:
        half_bias = 0.5 * (bias_range[1] - bias_range[0])
        keywords = keywords | {"epsilon": epsilon - half_bias}
    query = Query.of(capped, state, **keywords)
    if query.progress is not None and callable(query.progress):
        query = replace(query, progress=_WidenedReports.of(query.progress, bias_range))
    return RewardCap(query, cap, bias_range, (p, M))


def _discounted_steps(problem: Problem) -> float:
    """The sum of all discounts, rounded up."""
    discount, horizon = float(problem.discount), problem.horizon
    if horizon is None:
        if discount == 1.0:
            raise InvalidInput(
                "Rewards without a range need a discount below 1 or a horizon; give "
                "one, or both ends of reward_range."
            )
        return (1.0 + ROUNDING) / (1.0 - discount)
    if discount == 1.0:
        return float(horizon)
    return (1.0 + ROUNDING) * (1.0 - discount**horizon) / (1.0 - discount)


def _epsilon_of(keywords: dict[str, Any]) -> float | None:
    """Epsilon where it is a number; a share of the span means nothing here."""
    epsilon = keywords.get("epsilon")
    if epsilon is None or (isinstance(epsilon, str) and "of value" in epsilon):
        return None
    try:
        number = float(epsilon)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"epsilon={epsilon!r} is a share of the value span, and values have none "
            "without a range of rewards; give a number, or a share of the value such "
            "as '5% of value'."
        ) from None
    if not 0.0 < number < math.inf:
        raise InvalidInput(f"epsilon must be a number above 0, got {epsilon!r}.")
    return number


def capped_problem(problem: Problem, cap: float) -> Problem:
    """The same problem, capped where its range is open; the other end stays checked."""
    step: Any = problem.oracle
    low, high = problem.reward_range
    caps = (-cap if low is None else -math.inf, cap if high is None else math.inf)
    known_rows = problem.outcomes
    changes: dict[str, Any] = {
        "oracle": compiled_cap(step, caps)
        if is_compiled(step)
        else CappedStep(step, caps)
    }
    if known_rows is not None:
        rows_of = known_rows

        def capped_rows(state: Any, action: Any) -> Any:
            rows = rows_of(state, action)
            if rows is None:
                return None
            return [(q, _cap_reward(r, *caps), z) for q, r, z in rows]

        changes["outcomes"] = capped_rows
    return replace(
        problem,
        **changes,
        reward_range=(-cap if low is None else low, cap if high is None else high),
        reward_moment=None,
        value_bounds=None,
        value_gap=None,
        total_reward_range=None,
        spec=None,
    )


class _WidenedReports:
    """Reports whose interval holds the bias of the caps."""

    @classmethod
    def of(cls, callback: Callback, bias: Interval) -> Any:
        """A callback; a bar stays what it is and shows the interval of the caps."""
        return callback if hasattr(callback, "__enter__") else cls(callback, bias)

    def __init__(self, callback: Callback, bias: Interval) -> None:
        self.callback, self.bias = callback, bias

    def __call__(self, report: Progress) -> object:
        if report.interval is not None:
            report = replace(
                report, interval=add_intervals(report.interval, self.bias)
            )
        return self.callback(report)
