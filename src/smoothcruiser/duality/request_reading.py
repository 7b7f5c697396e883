"""The request of a gap: its keywords read and checked, and what cannot be bounded.

``read_request`` is the one place that checks the arguments of ``sc.gap``; a fault is
refused in one sentence. The proofs of docs/gap.md need

  a convex and monotone operator   else E F(X) >= F(E X) fails
  all actions listed               the maximum over a sample of them bounds nothing
  a step for one state             each call begins anew from the stream of its time
  finite bounds on values          a path beyond its range would be a false promise

This file leaves out the readings of ``policy=`` and ``value=`` themselves
(``evaluation.policy_reading``, ``evaluation.critics``).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.action_sampler import refuse_sampled
from smoothcruiser.problem.arguments import check_keywords, is_whole, shorten_value
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.declaration_checks import refuse_undiscounted
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Progress
from smoothcruiser.query import DEFAULT_DELTA, Query

if TYPE_CHECKING:
    from smoothcruiser.duality.gap_result import Gap
else:  # imported by whoever needs it; so ``typing.get_type_hints`` finds a name
    Gap = Any

UPPER_ENDS = ("auto", "exact", "certified", "paths")
SEED_BITS = 53  # of a fresh seed: every reader of JSON keeps it
MOST_INNER = 10_000  # inner samples per state and action
# keywords of ``gap`` that are those of ``plan``
SHARED_KEYWORDS = (
    *("epsilon", "delta", "budget", "seconds", "seed"),
    *("executor", "workers", "progress"),
)


class GapKeywords(TypedDict, total=False):
    """The keywords of ``gap``."""

    epsilon: float | str | None
    delta: float | str | None
    upper: str
    inner: int | str | None
    policies: tuple[Any, Any] | None
    features: Callable[..., Any] | None
    budget: float | None
    seconds: float | None
    seed: int | None
    executor: str | None
    workers: int | None
    progress: bool | Callable[[Progress], object] | None


@dataclass(frozen=True, kw_only=True)
class GapRequest:
    """A checked request for a Gap."""

    query: Query
    # the policies of players 1 and 2; None: greedy on the value. In an MDP the second
    # is None
    policies: tuple[Any, Any]
    value: Any = None  # as the caller gave it; None: it is fitted
    upper: str = "auto"
    inner: int | None = None  # None: chosen by the pilot
    features: Callable[..., Any] | None = None
    wants_actions: bool = True  # whether values of actions are stated too

    @property
    def has_own_policy(self) -> bool:
        """Whether a policy of the caller's is in question."""
        return any(policy is not None for policy in self.policies)

    @property
    def delta(self) -> float:
        """The allowed probability that anything of the answer fails."""
        return self.query.promise.failure()


def read_request(
    problem: Problem, policy: Any, value: Any, state: Any, keywords: GapKeywords
) -> GapRequest:
    """The request that the arguments of ``gap`` describe, or an error with a remedy."""
    check_keywords("gap", keywords, GapKeywords.__annotations__)
    plan_keywords: Any = {
        name: keyword_value
        for name, keyword_value in keywords.items()
        if name in SHARED_KEYWORDS and keyword_value is not None
    }
    plan_keywords.setdefault("delta", DEFAULT_DELTA)
    plan_keywords.setdefault("seed", secrets.randbits(SEED_BITS))
    # epsilon is about V; the values of actions come with it
    query = Query.of(problem, state, target="value", **plan_keywords)
    problem.start(state)  # refuses where no state is known
    upper = keywords.get("upper", "auto")
    if upper not in UPPER_ENDS:
        raise InvalidInput(
            f"upper must be one of {', '.join(UPPER_ENDS)}, got {upper!r}: it names the "
            "source of the upper end."
        )
    refuse_problem(problem)
    features = keywords.get("features")
    if features is not None and (value is not None or not callable(features)):
        raise InvalidInput(
            "features= is a function of the state for the fit of value=; drop it "
            "where value= is given."
            if value is not None
            else "features must be a function of the state that returns numbers, got "
            f"{shorten_value(features)}."
        )
    return GapRequest(
        query=query,
        policies=read_policies(problem, policy, keywords.get("policies")),
        value=value,
        upper=upper,
        inner=read_inner(keywords.get("inner")),
        features=features,
    )


def has_two_players(problem: Problem) -> bool:
    """Whether this is a game; a problem of costs has one player, who minimizes."""
    return problem.sole_player is None


def read_policies(problem: Problem, policy: Any, policies: Any) -> tuple[Any, Any]:
    """The policies of both players; in a game ``policy`` is that of whoever moves."""
    if policies is None:
        refuse_learner(policy)
        return (policy, policy) if problem.is_game else (policy, None)
    if not has_two_players(problem):
        raise InvalidInput(
            "policies= is for games, and this problem has one player; give policy=."
        )
    if policy is not None:
        raise InvalidInput(
            "policy= and policies= are two ways to say one thing; drop one of them."
        )
    if not isinstance(policies, tuple | list) or len(policies) != 2:
        raise InvalidInput(
            "policies must be a pair, (policy of player 1, policy of player 2), got "
            f"{shorten_value(policies)}."
        )
    for player_policy in policies:
        refuse_learner(player_policy)
    return policies[0], policies[1]


def refuse_learner(policy: Any) -> None:
    """Refuse answers that know a policy at one state alone."""
    if isinstance(policy, Estimate):
        raise InvalidInput(
            "An Estimate knows its policy at one state alone; give gap a function of "
            "the state, a Solution, a dict or an array by state, or agent.policy."
        )


def read_inner(inner: Any) -> int | None:
    """The number of inner samples; None where the pilot chooses it."""
    if inner is None or inner == "auto":
        return None
    if inner == "mesh":
        raise InvalidInput(
            "inner='mesh' has weights without a bound, so that no interval can be "
            "promised; drop it."
        )
    if not is_whole(inner) or not 1 <= inner <= MOST_INNER:
        raise InvalidInput(
            "inner must be the number of inner samples per state and action, from 1 to "
            f"{MOST_INNER:,}, or 'auto', got {inner!r}."
        )
    return int(inner)


def refuse_problem(problem: Problem) -> None:
    """Refuse a problem for which the bounds do not hold or mean nothing."""
    refuse_sampled(problem, "gap")
    refuse_undiscounted(problem, "gap")
    operator = problem.operator
    if not operator.convex:
        raise InvalidInput(
            "gap needs a convex and monotone operator, and "
            f"{operator.label} is not declared convex; take a built-in one, or declare "
            "convex = True in its class, which check_operator tests."
        )
    if not operator.has_omega:
        raise InvalidInput(
            f"The operator {operator.name!r} gives no regularizer Omega; gap needs it "
            "for the value of a policy: take a built-in operator."
        )
    if isinstance(problem.oracle, Batched):
        raise InvalidInput(
            "gap replays the random numbers of each state's step, and a batched step "
            "has no stream for each row; give a step of one state (njit or plain "
            "Python)."
        )
    bounds = [bound for p in problem.facts.players for bound in _bounds(problem, p)]
    if not all(map(math.isfinite, bounds)):
        raise InvalidInput(
            "gap needs finite bounds on values, and what is declared allows any; give "
            "a finite reward_range, value_bounds or total_reward_range."
        )


def _bounds(problem: Problem, player: int) -> tuple[float, float]:
    return problem.facts.value_bounds(player)


def convexity_assumptions(problem: Problem) -> tuple[str, ...]:
    """The sentence on an operator of the user's, after it was tested.

    ``Operator.convex`` is True unless a class says otherwise, so it is not believed.
    """
    operator = problem.operator
    if operator.built_in:
        return ()
    from smoothcruiser.operators.check import check_operator

    report = check_operator(operator, problem.num_actions)
    if not report.ok:
        raise InvalidInput(
            "gap needs a convex and monotone operator, and check_operator found a "
            f"fault in {operator.label}; see print(check_operator(operator))."
        )
    return (
        f"the operator {operator.label} is convex and monotone (check_operator found "
        "no fault at random points)",
    )
