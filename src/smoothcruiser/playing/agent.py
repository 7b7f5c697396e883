"""An agent: plans at every state it meets, and acts.

The agent receives the limits of a decision (``budget``, ``seconds``) or the promise
that it keeps (``epsilon``, ``delta``), as in ``plan``. The method's ``Session``
remembers between decisions: one memory of certified search, and so one delta for
the agent's life; a tree below the moves made; one exact solution; a schedule, and
under a time limit the choice of "auto". The seeds of its decisions come from the
stream (PLANS, decision), apart from the world's, so that an agent cannot foresee
its world. Not in this file: learning, and episodes (``playing.episodes``).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.jit.keys import LOTS, Key
from smoothcruiser.jit.stopwatch import Stopwatch
from smoothcruiser.methods import resolve
from smoothcruiser.methods.base import Method, Session, last_report, refuse_unused
from smoothcruiser.playing.clock import Clock
from smoothcruiser.playing.followed import follow_policy, is_policy
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.live import live_problem
from smoothcruiser.problem.oracle import LiveOracle
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import finish, show_bar
from smoothcruiser.query import KEYWORDS, Query

if TYPE_CHECKING:
    from smoothcruiser.tree.searches import Search
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
            that are left (``playing.clock``); ``begin`` starts an episode.
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
            self.clock = Clock(problem, seconds_total, self.query.limits.seconds)
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
            return self.problem.sampled_action(self.problem.start(state), action_number)
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
        decision_watch = Stopwatch()
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
            from smoothcruiser.jit.streams import stream

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
