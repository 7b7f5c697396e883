"""Episodes: ``play`` lets an agent act in its problem, or against another player.

``play`` reports the return of the agent's side: discounted as in the problem,
and plain. Intervals are 95%. For means they are normal, so they are approximate
and say nothing for a handful of episodes; for win rates they are Wilson's. The
world's randomness (WORLD, episode) and the other player's (OTHER_PLAYER,
episode) come from streams apart from the agent's own.

Progress reports of ``play``, and how a stop ends its episodes.
"""

from __future__ import annotations

import inspect
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.jit.random import Key
from smoothcruiser.playing.agent import Agent, as_player, is_policy
from smoothcruiser.problem.arguments import check_seed
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import ResettingOracle, call_in_episode
from smoothcruiser.progress import (
    Callback,
    Phases,
    finish,
    progress_callback,
    show_bar,
)
from smoothcruiser.query import named_keywords
from smoothcruiser.records.data import Data
from smoothcruiser.run_control.stop_requests import current_stops, stoppable

NORMAL_95 = 1.959964  # the 97.5% quantile of the normal distribution
MOST_STEPS = 1000  # limit of an episode that only a terminal state ends
# Without terminal states, an episode ends when later rewards weigh less than
# this share.
NEGLIGIBLE_WEIGHT = 0.01

Player = Callable[[Any, Problem, Any], int]  # (state, problem, rng) -> action


def _stream(seed: int, *key: int) -> Any:
    from smoothcruiser.jit.random.streams import stream

    return stream(seed, *key)


@dataclass(frozen=True)
class Episode:
    """One episode in numbers, from the agent's side."""

    plain_return: float
    discounted_return: float
    steps: int
    decisions: int
    calls: int
    seconds: float  # spent on decisions, without compiling
    ended: bool  # whether a terminal state ended it, not the limit of steps
    side: int  # 1 where the agent was the max player
    actions: tuple[str, ...] = ()  # of the agent, by name or by number


@dataclass(frozen=True)
class Summary(Shown, Data):
    """Many episodes in a few numbers. Intervals are 95%."""

    json_kind: ClassVar[str] = "play"
    json_when_set: ClassVar[tuple[str, ...]] = ("minimize",)

    problem: str
    method: str
    opponent: str | None
    episodes: int
    mean_return: float
    return_interval: tuple[float, float]
    mean_discounted_return: float
    discounted_return_interval: tuple[float, float]
    wins: int | None  # games only: episodes with a positive return of the agent's side
    draws: int | None
    losses: int | None
    win_rate: float | None
    win_rate_interval: tuple[float, float] | None
    mean_steps: float
    ended: int
    decisions: int
    seconds_per_decision: float
    slowest_episode_seconds: float
    calls_per_decision: float
    # how often the agent took each action, by name or by number, most frequent first
    actions: dict[str, int] = field(default_factory=dict)
    minimize: bool = False  # returns are costs

    def __repr__(self) -> str:
        return brief(
            "Summary",
            problem=self.problem,
            method=self.method,
            episodes=self.episodes,
            mean_return=self.mean_return,
        )


def random_player(state: Any, problem: Problem, rng: Any) -> int:
    """A legal action, sampled uniformly."""
    actions = problem.legal_actions(state)
    return actions[int(rng.integers(len(actions)))]


@named_keywords
def play(
    agent: Agent | Problem,
    policy: Any = None,
    *,
    episodes: int,
    steps: int | None = None,
    seed: int = 0,
    opponent: Player | Agent | Any = random_player,
    side: int | None = None,
    progress: bool | Callback | None = None,
) -> Summary:
    """The Summary of ``episodes`` episodes of the agent's problem.

    ``play(problem, policy)`` is ``play(Agent(problem, policy))``.
    In games the agent is the max player in even episodes and the min player in
    odd ones, or always ``side``; ``opponent`` moves for the other one: an Agent, a
    function (state, problem, rng) -> action, or a policy as in ``evaluate``.
    ``steps`` ends an episode that has no end of its own. ``progress`` is True for a
    bar, or a function that gets a ``Progress`` after each decision (``done`` of
    ``total`` episodes have ended); where it returns False, and at Ctrl-C, the Summary
    is that of the episodes that have ended.
    """
    callback = progress_callback(progress)
    agent = _playing_agent(agent, policy)
    check_seed(seed)
    problem = agent.problem
    for name, number in (
        ("episodes", episodes),
        ("steps", 1 if steps is None else steps),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InvalidInput(
                f"{name} must be a whole number of at least 1, got {number!r}."
            )
    opponent_name = _opponent_name(opponent)
    if not isinstance(opponent, Agent) and not _is_player(opponent):
        if not is_policy(opponent):
            raise InvalidInput(
                "opponent must be an Agent or a function (state, problem, rng) -> "
                f"action, or a policy as in evaluate, got {opponent!r}."
            )
        opponent = as_player(problem, opponent)
    if opponent is not random_player and problem.sole_player is not None:
        raise InvalidInput(
            "opponent= moves for the other player; this problem has one player: drop "
            "it."
        )
    if side is not None and problem.sole_player is not None:
        raise InvalidInput(
            "side= says which player the agent is; this problem has one player: "
            "drop it."
        )
    if side not in (None, 1, 2):
        raise InvalidInput(
            f"side must be 1 (max), 2 (min), or None for turns, got {side!r}."
        )
    if problem.initial_state is None and not isinstance(
        problem.oracle, ResettingOracle
    ):
        raise InvalidInput(
            "Episodes begin at the problem's initial_state and it has none; give "
            "initial_state= where the problem is made."
        )
    max_steps = _most_steps(problem) if steps is None else steps
    if problem.horizon is not None:  # a play ends there
        max_steps = min(max_steps, problem.horizon)
    played_episodes: list[Episode] = []
    with show_bar(callback):
        reports = Reports(callback, episodes)
        try:
            with stoppable(), reports.keep_finished():
                while len(played_episodes) < episodes and not reports.is_stopped:
                    episode_number = len(played_episodes)
                    agent_side = side or problem.sole_player or 1 + episode_number % 2
                    episode = _play_episode(
                        agent,
                        opponent,
                        agent_side,
                        max_steps,
                        seed,
                        episode_number,
                        reports,
                    )
                    if not reports.is_stopped:
                        played_episodes.append(episode)
                        reports.report_episode(episode.plain_return)
        finally:
            for side_player in (agent, opponent):
                if isinstance(side_player, Agent):
                    side_player.session.wake()  # nobody thinks on after the end
        reports.finish()
    return summarize_episodes(
        agent, played_episodes, opponent_name if problem.sole_player is None else None
    )


def _playing_agent(agent: Any, policy: Any) -> Agent:
    """The agent that plays; a problem and a policy make one."""
    if policy is not None and isinstance(agent, Problem):
        agent = Agent(agent, policy)
    elif policy is not None:
        raise InvalidInput(
            "play takes an Agent, or a Problem and a policy; got "
            f"{type(agent).__name__} and a policy: drop one of the two."
        )
    if not isinstance(agent, Agent):
        raise InvalidInput(
            f"play lets an Agent act, got {type(agent).__name__}; make one: "
            "Agent(problem, 'uct', budget=10_000), or Agent(problem, policy)."
        )
    return agent


def _most_steps(problem: Problem) -> int:
    if problem.horizon is not None:
        return problem.horizon
    if problem.facts.terminals or problem.discount == 1.0:
        return MOST_STEPS
    return (
        max(1, math.ceil(math.log(NEGLIGIBLE_WEIGHT) / math.log(problem.discount)))
        if problem.discount > 0.0
        else 1
    )


def _play_episode(
    agent: Agent,
    opponent: Player | Agent,
    agent_side: int,
    max_steps: int,
    seed: int,
    episode_number: int,
    reports: Reports,
) -> Episode:
    """One episode, or the beginning of one where ``reports`` says stop."""
    problem = agent.problem
    world_stream = _stream(seed, Key.WORLD, episode_number)
    opponent_stream = _stream(seed, Key.OTHER_PLAYER, episode_number)
    # An adapter has a distribution of initial states of its own.
    oracle = problem.oracle
    if isinstance(oracle, ResettingOracle):
        state = oracle.reset(world_stream)
    else:
        state = problem.start()
    for player in (agent, opponent):
        if isinstance(player, Agent):
            player.begin()
    # costs stay costs: only in a game is a reward of the other side a loss
    sign = -1.0 if problem.sole_player is None and agent_side == 2 else 1.0
    plain_return, discounted_return, reward_weight = 0.0, 0.0, 1.0
    num_steps, num_decisions, num_calls, decision_seconds, has_ended = (
        0,
        0,
        0,
        0.0,
        problem.is_terminal(state),
    )
    agent_actions: list[str] = []
    while num_steps < max_steps and not has_ended:
        steps_left = None if problem.horizon is None else problem.horizon - num_steps
        if problem.mover(state) == agent_side:
            start_time = time.perf_counter()
            action = agent.decide(state, remaining=steps_left)
            compile_seconds = (
                0.0 if agent.estimate is None else agent.estimate.compile_seconds
            )
            decision_seconds += max(
                0.0, time.perf_counter() - start_time - compile_seconds
            )
            num_decisions += 1
            agent_actions.append(agent.action_label or str(action))
            calls_made = 0 if agent.estimate is None else agent.estimate.num_calls
            num_calls += calls_made
            if reports.report_decision(calls_made):
                break
        elif isinstance(opponent, Agent):
            action = opponent.decide(state, remaining=steps_left)
        else:
            action = _opponent_action(opponent, state, problem, opponent_stream)
        reward, state, is_over = call_in_episode(problem, state, action, world_stream)
        plain_return += sign * reward
        discounted_return += sign * reward_weight * reward
        reward_weight *= problem.discount
        num_steps += 1
        has_ended = is_over or problem.is_terminal(state)
    return Episode(
        plain_return,
        discounted_return,
        num_steps,
        num_decisions,
        num_calls,
        decision_seconds,
        has_ended,
        agent_side,
        tuple(agent_actions),
    )


def _is_player(opponent: Any) -> bool:
    """Whether ``opponent`` is a function of (state, problem, rng)."""
    if not callable(opponent) or isinstance(opponent, type):
        return False
    try:
        inspect.signature(opponent).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def _opponent_action(opponent: Player, state: Any, problem: Problem, rng: Any) -> int:
    """The other player's action, which must be legal."""
    action = opponent(state, problem, rng)
    if action not in problem.legal_actions(state):
        raise InvalidInput(
            f"The opponent chose action {action!r} at state {state!r}, where "
            f"{problem.legal_actions(state)} are legal."
        )
    return int(action)


def _opponent_name(opponent: Player | Agent) -> str:
    if isinstance(opponent, Agent):
        return str(getattr(opponent.method, "name", opponent.method))
    return (
        "random"
        if opponent is random_player
        else getattr(opponent, "__name__", type(opponent).__name__)
    )


def summarize_episodes(
    agent: Agent, played_episodes: list[Episode], opponent: str | None
) -> Summary:
    """The Summary of played episodes."""
    num_decisions = sum(episode.decisions for episode in played_episodes)
    plain_returns, discounted_returns = (
        [episode.plain_return for episode in played_episodes],
        [episode.discounted_return for episode in played_episodes],
    )
    num_wins, num_draws = (
        sum(plain_return > 0 for plain_return in plain_returns),
        sum(plain_return == 0 for plain_return in plain_returns),
    )
    is_game = agent.problem.sole_player is None
    return Summary(
        problem=agent.problem.name,
        method=str(getattr(agent.method, "name", agent.method)),
        opponent=opponent,
        episodes=len(played_episodes),
        mean_return=_mean(plain_returns),
        return_interval=mean_interval(plain_returns),
        mean_discounted_return=_mean(discounted_returns),
        discounted_return_interval=mean_interval(discounted_returns),
        wins=num_wins if is_game else None,
        draws=num_draws if is_game else None,
        losses=len(played_episodes) - num_wins - num_draws if is_game else None,
        win_rate=num_wins / len(played_episodes) if is_game else None,
        win_rate_interval=wilson(num_wins, len(played_episodes)) if is_game else None,
        mean_steps=_mean([float(episode.steps) for episode in played_episodes]),
        ended=sum(episode.ended for episode in played_episodes),
        decisions=num_decisions,
        seconds_per_decision=sum(episode.seconds for episode in played_episodes)
        / max(1, num_decisions),
        slowest_episode_seconds=max(episode.seconds for episode in played_episodes),
        calls_per_decision=sum(episode.calls for episode in played_episodes)
        / max(1, num_decisions),
        actions=dict(
            Counter(
                label for episode in played_episodes for label in episode.actions
            ).most_common()
        ),
        minimize=agent.problem.minimizes,
    )


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def mean_interval(values: list[float]) -> tuple[float, float]:
    """Student's 95% interval of a mean.

    It is without ends where the values say nothing of their spread: fewer than three,
    or fewer than ten that are all equal.
    """
    mean, num_values = _mean(values), len(values)
    if num_values < 3 or (num_values < 10 and min(values) == max(values)):
        return -math.inf, math.inf
    standard_error = math.sqrt(
        math.fsum((value - mean) ** 2 for value in values)
        / (num_values - 1)
        / num_values
    )
    return mean - student_95(num_values - 1) * standard_error, mean + student_95(
        num_values - 1
    ) * standard_error


def student_95(freedom: int) -> float:
    """The 97.5% quantile of Student's t with 2 or more degrees of freedom.

    From 6 on by the expansion in 1/freedom around the normal one (error below 0.002).
    """
    if freedom < 6:
        return (4.3027, 3.1825, 2.7765, 2.5706)[freedom - 2]
    z, f = NORMAL_95, float(freedom)
    first_term = (z**3 + z) / (4.0 * f)
    second_term = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * f * f)
    third_term = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / (384.0 * f**3)
    return z + first_term + second_term + third_term


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a proportion.

    It holds every p with |p-hat - p| <= z sqrt(p (1 - p) / n).
    """
    p, z2 = successes / n, NORMAL_95 * NORMAL_95
    center = (p + z2 / (2 * n)) / (1 + z2 / n)
    half_width = (
        NORMAL_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    )
    return max(0.0, center - half_width), min(1.0, center + half_width)


class Reports:
    """Progress reports on the episodes of one ``play``."""

    def __init__(self, callback: Callback | None, total: int) -> None:
        self.phases, self.total, self.done = Phases(callback), total, 0
        self.calls = 0
        self._last = ""
        self._begin, self._stops = time.perf_counter(), current_stops()
        self.phases.begin("playing", **self._facts())

    @property
    def is_stopped(self) -> bool:
        """Whether the progress function, or Ctrl-C in a decision, has ended it."""
        return self.phases.refused or current_stops() > self._stops

    def report_decision(self, calls: int) -> bool:
        """Report a decision; return whether to stop."""
        self.calls += calls
        self.phases.tell(**self._facts())
        return self.is_stopped

    def report_episode(self, plain_return: float) -> None:
        """Report the end of an episode with this return."""
        self.done += 1
        self._last = f", last return {plain_return:.4g}"
        self.phases.tell(**self._facts())

    @contextmanager
    def keep_finished(self) -> Iterator[None]:
        """Keep the finished episodes at a stop; without any, the stop is raised."""
        try:
            yield
        except KeyboardInterrupt:
            if self.done == 0:
                raise
        if self.done == 0 and current_stops() > self._stops:
            raise KeyboardInterrupt
        if self.done == 0:
            raise Interrupted(
                "The progress function returned False before an episode had ended."
            )

    def finish(self) -> None:
        """Send the last report."""
        finish(self.phases.callback, **self._facts() | {"label": ""})

    def _facts(self) -> dict[str, Any]:
        episode_number = min(self.done + 1, self.total)
        return {
            "calls": self.calls,
            "seconds": time.perf_counter() - self._begin,
            "done": self.done,
            "total": self.total,
            "label": f"episode {episode_number:,} of {self.total:,}{self._last}",
        }
