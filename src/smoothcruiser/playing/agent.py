"""An agent: plans at every state it meets, and acts.

The agent receives the limits of a decision (``budget``, ``seconds``) or the promise
that it keeps (``epsilon``, ``delta``), as in ``plan``. The method's ``Session``
remembers between decisions: one memory of certified search, and so one delta for
the agent's life; a tree below the moves made; one exact solution; a schedule, and
under a time limit the choice of "auto". The seeds of its decisions come from the
stream (PLANS, decision), apart from the world's, so that an agent cannot foresee
its world. Not in this file: learning, and episodes (``playing.episodes``).

Time for an episode, divided over its decisions.

A decision gets the remaining time, divided by the number of decisions left, itself
included. That number is the steps left of a horizon (half of them, rounded up, where
players take turns), or ``EXPECTED`` without a horizon. So the total is never exceeded
by more than the least time that the last decision needs. Early decisions get more
time than late ones in long episodes, as is usual in games.

A policy that an agent follows in the place of a method that plans.

``Agent(problem, policy)`` reads the policy as ``evaluate`` does (``evaluation.policy_reading``)
and samples its actions. No call of the step is made for a decision, and the Estimate of a
decision holds the probabilities alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate, estimate_subject
from smoothcruiser.jit.random import LOTS, Key
from smoothcruiser.methods import resolve
from smoothcruiser.methods.base import (
    Forecast,
    Method,
    Prepared,
    Session,
    last_report,
    refuse_unused,
)
from smoothcruiser.problem.adapter_protocol import live_problem
from smoothcruiser.problem.arguments import check_keywords, check_seconds
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import LiveOracle
from smoothcruiser.progress import finish, show_bar
from smoothcruiser.query import KEYWORDS, Query
from smoothcruiser.run_control.clock import Clock

if TYPE_CHECKING:
    from smoothcruiser.evaluation.policy_reading import PolicyReading


EXPECTED = 20  # decisions that may follow, where there is no horizon
LEAST = 1e-3  # seconds: a decision is made also when the time is over


class EpisodeClock:
    """The remaining part of ``seconds_total``, with a limit for each decision."""

    def __init__(
        self, problem: Problem, total: float, decision_limit: float | None
    ) -> None:
        check_seconds(total, "seconds_total")
        self.problem, self.total, self.most = problem, total, decision_limit
        self.left = total

    def begin(self) -> None:
        """Begin an episode: the whole time is available."""
        self.left = self.total

    def spend(self, seconds: float) -> None:
        """Subtract the seconds that a decision took."""
        self.left -= seconds

    def share(self, decided: int, remaining: int | None) -> float:
        """The seconds for a decision, after ``decided`` ones in this episode."""
        decisions_left, takes_turns = (
            remaining,
            bool(getattr(self.problem, "alternating", False)),
        )
        if decisions_left is None and self.problem.horizon is not None:
            decisions_left = self.problem.horizon - decided * (2 if takes_turns else 1)
        if decisions_left is None:
            decisions_left = EXPECTED
        elif takes_turns:
            decisions_left = -(-decisions_left // 2)
        seconds_share = max(LEAST, self.left / max(1, decisions_left))
        return seconds_share if self.most is None else min(seconds_share, self.most)


if TYPE_CHECKING:
    from smoothcruiser.tree.search_rules import Search
else:  # imported where it is needed; so ``typing.get_type_hints`` finds a name
    Search = Any

# A method's own parameters, which ``resolve`` takes beside the name.
PARAMETERS = ("options", "delta_prime", "certify")


class Agent:
    """Plans and acts in a Problem, or in a Gymnasium environment.

    Args:
        problem: a Problem, or a Gymnasium environment; then ``discount`` and
            ``operator`` are needed among the options, as for its adapter.
        method: a name or a method object, as in ``plan``; or a policy, as in
            ``evaluate``, which the agent follows.
        sample: take actions at random by the policy, not its best one; so it is with
            a policy that is given.
        seconds_total: of all decisions of an episode together, dealt out over the moves
            that are left (``playing.agent``); ``begin`` starts an episode.
        ponder: think on while the other moves, in a thread, where the method keeps a
            tree. How far it comes depends on the clock, and so do its decisions.
        **options: the keywords of ``plan`` (``epsilon``, ``delta``, ``budget``,
            ``seconds``, ``seed``, …), for every decision; ``options``,
            ``delta_prime`` and ``certify`` of the method; those of the adapter.

    Example:
        >>> import smoothcruiser as sc
        >>> chain = sc.make("chain:n=5", discount=0.9, operator="max")
        >>> agent = sc.Agent(chain, "uct", budget=1000)
        >>> agent.act(2), agent.action_label
        (1, 'right')
        >>> sc.play(agent, episodes=2, steps=10).decisions
        20
    """

    def __init__(
        self,
        problem: Any,
        method: str | Method | Search | Any = "auto",
        *,
        sample: bool = False,
        seconds_total: float | None = None,
        ponder: bool = False,
        **options: Any,
    ) -> None:
        self.env: Any = None
        if not isinstance(problem, Problem):
            self.env = problem
            problem, options = live_problem("An Agent acts in", problem, options)
        check_keywords("An Agent", options, (*KEYWORDS, *PARAMETERS))
        method_parameters = {
            option_name: options.pop(option_name)
            for option_name in PARAMETERS
            if option_name in options
        }
        self.problem: Problem = problem
        follows_policy = is_policy(method)
        self.method: Method = (
            follow_policy(problem, method, method_parameters)
            if follows_policy
            else resolve(method, **method_parameters)
        )
        self.sample = sample or follows_policy
        self.query = Query.of(problem, **options)
        refuse_unused(
            self.method.name, self.query, self.method.takes, self.method.because
        )
        self.estimate: Estimate | None = None  # of the last decision
        self.action: int | None = None  # the last decision, as a number
        self.decided = 0  # decisions of this episode
        self.session: Session = self.method.session(self.query)
        self.clock = None
        if seconds_total is not None:
            if "seconds" not in self.method.takes:
                raise InvalidInput(
                    f"{self.method.name} takes no time limit; drop seconds_total."
                )
            self.clock = EpisodeClock(
                problem, seconds_total, self.query.limits.seconds
            )
        for option_name, option_value in (("sample", sample), ("ponder", ponder)):
            if not isinstance(option_value, bool):
                raise InvalidInput(
                    f"{option_name} must be True or False, got {option_value!r}."
                )
        if ponder and not self.session.ponders:
            raise InvalidInput(
                "ponder=True grows a tree while the other moves, and "
                f"{self.method.name} keeps none; use uct or another tree search, "
                "without certify."
            )
        self.ponder = ponder

    @property
    def decisions(self) -> int:
        """Decisions made so far."""
        return self.session.decisions

    @property
    def action_label(self) -> str | None:
        """The name of the action that was decided on last; None before the first.

        With ``sample=True`` that need not be the estimate's best one.
        """
        if self.estimate is None or self.action is None:
            return None
        return self.estimate.label(self.action)

    def act(self, state: Any = None, *, remaining: int | None = None) -> Any:
        """The action to take in ``state``.

        State and action are in the environment's own terms, if the agent was built
        from one. Where the problem samples its actions, it is the action itself.

        Args:
            state: where the agent is; by default the problem's initial state, or the
                environment's present one.
            remaining: steps that are left, where the problem has a horizon.
        """
        if self.env is None:
            action_number = self.decide(state, remaining=remaining)
            return self.problem.sampled_action(
                self.problem.start(state), action_number
            )
        oracle = self.problem.oracle
        assert isinstance(oracle, LiveOracle)
        if state is None:
            state = oracle.read(self.env)
        return oracle.actions[self.decide(state, remaining=remaining)]

    def decide(self, state: Any = None, *, remaining: int | None = None) -> int:
        """The number of the action to take: ``act`` in the problem's own terms."""
        state = self.problem.start(state)
        if self.problem.is_terminal(state):
            raise InvalidInput(
                f"The episode is over at state {state!r}: there is nothing to do."
            )
        progress = self.query.progress
        decision_watch = Clock()
        self.session.wake()
        if self.clock is not None:
            decision_limits = replace(
                self.query.limits, seconds=self.clock.share(self.decided, remaining)
            )
            # the session's own query has the delta that the method sets by default
            self.session.query = replace(self.session.query, limits=decision_limits)
        with show_bar(progress):
            self.estimate = self.session.decide(state, remaining=remaining)
            finish(progress, **last_report(self.estimate))
        self.decided += 1
        if self.clock is not None:
            self.clock.spend(decision_watch.elapsed())
        if self.estimate.action is None:
            raise InvalidInput(
                "The method promised a value alone and recommends no action; drop "
                "target='value'."
            )
        if self.sample:
            from smoothcruiser.jit.random.streams import stream

            lot_stream = stream(self.query.seed, Key.PLANS, self.decisions, LOTS)
            action = int(lot_stream.categorical(np.array(self.estimate.policy)))
        else:
            action = self.estimate.action
        self.action = action
        self.session.note_action(action)
        if self.ponder:
            self.session.ponder()
        return action

    def begin(self) -> None:
        """Begin an episode: the clock of ``seconds_total`` starts anew.

        Memories of earlier episodes are kept.
        """
        self.session.wake()
        self.decided = 0
        if self.clock is not None:
            self.clock.begin()

    def close(self) -> None:
        """End pondering and workers, and release the agent's memories."""
        self.session.close()

    def policy(self, state: Any) -> tuple[float, ...]:
        """Probabilities of the actions in ``state``, always the same for one state.

        Unlike ``act`` it remembers nothing and plans with the agent's own seed, so its
        value can be certified: ``evaluate(problem, agent.policy)``.
        """
        if self.query.limits.seconds is not None or self.clock is not None:
            raise InvalidInput(
                "A policy that depends on the clock is no fixed function of the state; "
                "give budget= in place of seconds=."
            )
        return self.session.decide_fresh(self.problem.start(state)).policy

    policy.over_numbers = True  # type: ignore[attr-defined]  # for ``evaluate``

    def __getstate__(self) -> dict[str, Any]:
        # A session leaves out objects that cannot be moved or shared, such as a tree.
        return self.__dict__ | {"session": copy.copy(self.session)}


def is_policy(method: Any) -> bool:
    """Whether ``method`` is a policy to follow, not a method that plans."""
    from smoothcruiser.tree.search_rules import Search

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
    from smoothcruiser.evaluation.policy_reading import read_policy
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
        from smoothcruiser.jit.random.streams import stream
        from smoothcruiser.operators.outward import sum_in_order

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
