"""A policy that an agent follows in the place of a method that plans.

``Agent(problem, policy)`` reads the policy as ``evaluate`` does (``evaluation.reading``)
and samples its actions. No call of the step is made for a decision, and the Estimate of a
decision holds the probabilities alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate, estimate_subject
from smoothcruiser.jit.keys import LOTS, Key
from smoothcruiser.methods.base import Forecast, Method, Prepared, Session
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Query

if TYPE_CHECKING:
    from smoothcruiser.evaluation.reading import PolicyReading


def is_policy(method: Any) -> bool:
    """Whether ``method`` is a policy to follow, not a method that plans."""
    from smoothcruiser.tree.searches import Search

    if method is None or isinstance(method, str | Method | Search | type):
        return False
    policy_methods = (
        "predict",
        "act",
        "select_action",
        "__getitem__",
        "__array__",
        "policy",
    )
    return callable(method) or any(
        hasattr(method, method_name) for method_name in policy_methods
    )


def follow_policy(
    problem: Problem, policy: Any, parameters: dict[str, Any] | None = None
) -> FollowedPolicy:
    """The method that follows ``policy`` in ``problem``, which has no ``parameters``."""
    from smoothcruiser.evaluation.reading import read_policy
    from smoothcruiser.tree.tree import Tree

    for name, value in (parameters or {}).items():
        if value:
            raise InvalidInput(
                f"{name}= belongs to a method that plans, and the agent was given a "
                "policy; drop it."
            )
    if isinstance(policy, Tree | Estimate):
        raise InvalidInput(
            f"An Agent follows a policy of every state, and a {type(policy).__name__} "
            "knows its own place alone; name the method that made it, or evaluate it."
        )
    if problem.sample_action is not None and not hasattr(policy, "over_numbers"):
        raise InvalidInput(
            "An Agent plays actions by their numbers, and this problem samples its "
            "actions (sample_action=); evaluate the policy in place of playing it."
        )
    policy_reading = read_policy(problem, policy)
    title = getattr(policy, "__name__", None) or type(policy).__name__
    return FollowedPolicy(reading=policy_reading, title=title)


def as_player(problem: Problem, policy: Any) -> Callable[[Any, Problem, Any], int]:
    """A policy as a player: (state, problem, rng) -> action."""
    import numpy as np

    policy_reading = follow_policy(problem, policy).reading

    def player(state: Any, problem: Problem, rng: Any) -> int:
        return int(rng.categorical(np.array(policy_reading.shares(state, rng))))

    return player


@dataclass(frozen=True, kw_only=True)
class FollowedPolicy(Method):
    """A given policy, as the method of an Agent."""

    name = "policy"
    because = " for a policy that is given"
    promises = False
    compared = False
    sums_totals = True
    samples_actions = True

    reading: PolicyReading
    title: str

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        return frozenset({"seed", "progress"})

    @property
    def parameters(self) -> tuple[str, ...]:
        """No parameters: a policy has none."""
        return ()

    def prepare(self, query: Query) -> Prepared:  # noqa: D102
        forecast = Forecast(self.name, 0, f"{self.title}: a policy that is given.")
        return PolicyDecision(method=self, query=query, explanation=forecast)

    def session(self, query: Query) -> Session:  # noqa: D102
        return PolicySession(self, query)

    def __str__(self) -> str:
        return self.title


class PolicyDecision(Prepared):
    """A decision of a given policy."""

    method: FollowedPolicy

    def answer(self) -> Estimate:
        """The probabilities at the state; nothing is known of values."""
        from smoothcruiser.jit.streams import stream
        from smoothcruiser.operators.adding import sum_in_order

        query, reading = self.query, self.method.reading
        rng = stream(query.seed, Key.PLANS, 0, LOTS)
        action_weights = reading.shares(query.place, rng)
        policy = tuple(
            weight / sum_in_order(action_weights) for weight in action_weights
        )
        return Estimate(
            value=math.nan,
            interval=None,
            q_values=(math.nan,) * len(policy),
            policy=policy,
            action=policy.index(max(policy)),
            num_calls=0,
            epsilon=None,
            delta=None,
            method=self.method.name,
            certificate=None,
            seconds=0.0,
            compile_seconds=0.0,
            **estimate_subject(query.problem, query.place),
            seed=query.seed,
            notes=(*self.notes, *reading.notes),
        )


class PolicySession(Session):
    """A policy depends on the state alone, so nothing is kept between decisions."""

    def decide_fresh(self, state: Any) -> Estimate:
        """The same as a decision, unless it draws lots."""
        if self.method.reading.draws_lots:
            raise InvalidInput(
                "A policy of (state, rng) has no fixed probabilities; give it to "
                "evaluate itself."
            )
        return super().decide_fresh(state)
