"""An agent: plans at every state it meets and acts; and ``play``, which lets it
act in a problem or against another player.

The agent is told what it costs (``budget``, ``seconds``) or what it must keep
(``epsilon``, ``delta``), as in ``plan``. Where planning can remember it
remembers: a memory of certified search is one for the agent's life, and so is
its delta; a tree is kept below the moves made.

Three families of random streams, all under one seed and none derived from
another, so that an agent cannot foresee its world:

  (WORLD, episode)          what the environment samples
  (OTHER_PLAYER, episode)   what the other player samples
  (PLANS, decision)         the seed of the agent's planning

``play`` reports the return of the agent's side: discounted as in the problem,
and plain. Intervals are 95%: normal for means (so they are approximate, and say
nothing for a handful of episodes), Wilson's for win rates. What this file
leaves out: learning.
"""

from __future__ import annotations

import difflib
import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.api import (
    check_budget,
    check_delta,
    check_method,
    exact_answer,
    parse_epsilon,
    plan,
    solve,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate, plain
from smoothcruiser.jit.keys import LOTS, Key
from smoothcruiser.problem.answers import answered
from smoothcruiser.problem.arguments import check_seconds, check_seed
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.searches import is_tree_search, tree_search

NORMAL_95 = 1.959964  # the 97.5% quantile of the normal distribution
MOST_STEPS = 1000  # of an episode that only a terminal state ends
# of plan's parameters: the agent gives them itself
OWN = ("problem", "state", "method", "epsilon", "delta", "budget", "seconds", "seed")
# without terminal states an episode ends when later rewards weigh less than this
# share
FORGOTTEN = 0.01

Player = Callable[[Any, Problem, Any], int]  # (state, problem, rng) -> action


class Agent:
    """Plans and acts in a Problem, or in a Gymnasium environment (then
    ``discount`` and ``operator`` are needed, as for its adapter).
    """

    def __init__(
        self,
        problem: Any,
        method: Any = "auto",
        *,
        epsilon: float | str | None = None,
        delta: float | None = None,
        budget: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
        sample: bool = False,
        **options: Any,
    ) -> None:
        """``sample`` draws actions from the policy instead of taking its best;
        ``options`` go to ``plan`` (or to the adapter).
        """
        self.env: Any = None
        if not isinstance(problem, Problem):
            self.env = problem
            problem, options = _adapted(problem, options)
        self.problem: Problem = problem
        _known(options, method)
        check_seed(seed)
        check_seconds(seconds)
        self.method, self.sample, self.seed = method, sample, seed
        self.epsilon, self.delta, self.options = epsilon, delta, options
        self.limits: dict[str, Any] = {
            "budget": None if budget is None else check_budget(budget),
            "seconds": seconds,
        }
        self.decisions = 0
        self.estimate: Estimate | None = None  # of the last decision
        self._memory: Any = None
        self._solution: Any = None
        self._tree: Any = None
        # the last action, which leads to the part of the tree that is kept
        self._moved: int | None = None

    def act(self, state: Any = None, *, remaining: int | None = None) -> Any:
        """The action to take in ``state`` (in the environment's own state and
        terms, if the agent was made from one).

        ``remaining`` steps are left, where the problem has a horizon.
        """
        if self.env is not None and state is None:
            state = self.problem.oracle.read(self.env)  # type: ignore[attr-defined]
        action = self.decide(state, remaining=remaining)
        return (
            action
            if self.env is None
            else getattr(
                self.problem.oracle, "actions", range(self.problem.num_actions)
            )[action]
        )

    def decide(self, state: Any = None, *, remaining: int | None = None) -> int:
        """``act`` in the problem's own terms: a state of the problem, the
        number of an action.
        """
        problem = self.problem
        if remaining is not None and problem.horizon is not None:
            problem = replace(problem, horizon=remaining)
        state = problem.start(state)
        if problem.is_terminal(state):
            raise InvalidInput(
                f"The episode is over at state {state!r}: there is nothing to do."
            )
        self.estimate = self._planned(problem, state)
        self.decisions += 1
        if self.sample:
            weights = np.array(self.estimate.policy)
            action = int(
                _stream(self.seed, Key.PLANS, self.decisions, LOTS).categorical(weights)
            )
        elif self.estimate.action is None:
            raise InvalidInput(
                "The method promised a value alone and recommends no action; drop "
                "target='value'."
            )
        else:
            action = self.estimate.action
        self._moved = action
        return action

    def __getstate__(self) -> dict[str, Any]:
        # a tree stays where it was grown
        return self.__dict__ | {"_tree": None, "_moved": None}

    def policy(self, state: Any) -> tuple[float, ...]:
        """Probabilities of the actions in ``state``, planned afresh with the
        agent's own seed.

        Unlike ``act`` it remembers nothing and always answers the same: one
        fixed function of the state, whose value ``evaluate(problem,
        agent.policy)`` can certify.
        """
        if self.limits["seconds"] is not None:
            raise InvalidInput(
                "A policy that depends on the clock is no fixed function of the "
                "state; give budget= in place of seconds=."
            )
        problem = self.problem
        state = problem.start(state)
        found = self._looked_up(problem, state) if self._knows(problem) else None
        return (found or self._fresh(problem, state, self.seed)).policy

    def _fresh(self, problem: Problem, state: Any, seed: int) -> Estimate:
        return plan(
            problem,
            state,
            method=self.method,
            epsilon=self.epsilon,
            delta=self.delta,
            seed=seed,
            **self.limits,
            **self.options,
        )

    def _knows(self, problem: Problem) -> bool:
        return self.method == "exact" or (
            self.method == "auto" and problem.tables is not None
        )

    def _planned(self, problem: Problem, state: Any) -> Estimate:
        if self.method == "certified" and problem is self.problem:
            return self._remembered(state)
        if self._knows(problem):
            found = self._looked_up(problem, state)
            if found is not None:
                return found
        seed = int(
            np.random.SeedSequence(
                self.seed, spawn_key=(Key.PLANS, self.decisions)
            ).generate_state(1)[0]
        )
        if (is_tree_search(self.method)) and not self.options.get("certify"):
            return self._grown(problem, state, seed)
        return self._fresh(problem, state, seed)

    def _grown(self, problem: Problem, state: Any, seed: int) -> Estimate:
        """Tree search that goes on below the moves made since the last
        decision, where the tree knows them.
        """
        from smoothcruiser.methods.tree import DEFAULT_CALLS
        from smoothcruiser.tree.tree import Tree

        begin = time.perf_counter()
        tree, fresh = self._tree, False
        if (
            tree is None
            or self._moved is None
            or not tree.follow(self._moved, state, problem.horizon)
        ):
            method = tree_search(self.method, self.options.get("options"))
            tree, fresh = (
                Tree(
                    problem,
                    state,
                    method=method,
                    seed=seed,
                    executor=self.options.get("executor"),
                ),
                True,
            )
            tree._backend.warm()
        self._tree, self._moved = tree, None
        before, spent = 0 if fresh else tree.num_calls, time.perf_counter() - begin
        limits = {
            "calls": self.limits["budget"],
            "seconds": self.limits["seconds"],
            "simulations": self.options.get("simulations"),
        }
        if all(limit is None for limit in limits.values()):
            limits["calls"] = DEFAULT_CALLS
        if limits["seconds"] is not None:
            limits["seconds"] = max(1e-3, limits["seconds"] - spent)
        estimate: Estimate = tree.grow(**limits).estimate()
        compiling = estimate.compile_seconds if fresh else 0.0
        return replace(
            estimate,
            num_calls=tree.num_calls - before,
            seconds=time.perf_counter() - begin - compiling,
            compile_seconds=compiling,
        )

    def _remembered(self, state: Any) -> Estimate:
        """Certified search with one memory for all decisions."""
        from smoothcruiser.certified.search import Certified

        if self._memory is None:
            self._memory = Certified(
                self.problem, delta=check_delta(self.delta), seed=self.seed
            )
        width = (
            None
            if self.epsilon is None
            else parse_epsilon(self.epsilon, self.problem.facts)
        )
        found: Estimate = self._memory.query(state, epsilon=width, **self.limits)
        return found

    def _looked_up(self, problem: Problem, state: Any) -> Estimate | None:
        """A row of the exact solution; None at a state that it does not reach,
        or with a horizon (values then depend on the time).
        """
        if problem.horizon is not None:
            return None
        begin = time.perf_counter()
        if self._solution is None:
            self._solution = solve(problem)
        solution = self._solution
        try:
            answer = exact_answer(problem, solution, state)
        except InvalidInput:
            return None
        return replace(answer, seconds=time.perf_counter() - begin)


def _known(options: dict[str, Any], method: Any) -> None:
    """Refuse a misspelled option when the agent is made, not at its first decision."""
    known = [name for name in inspect.signature(plan).parameters if name not in OWN]
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, [*known, *OWN], 1)
            hint = (
                f"did you mean {close[0]}=?"
                if close
                else f"plan takes {', '.join(known)}."
            )
            raise InvalidInput(f"An Agent has no option {name!r}; {hint}")
    check_method(method)
    if is_tree_search(method):
        tree_search(method, options.get("options"))
    elif any(options.get(name) for name in ("options", "simulations", "certify")):
        raise InvalidInput(
            "options=, simulations= and certify= belong to tree searches (uct, "
            f"ments, ...), and the method is {method}."
        )


def _adapted(env: Any, options: dict[str, Any]) -> tuple[Problem, dict[str, Any]]:
    """The problem of an environment; the options that were the adapter's are
    taken out.
    """
    if not (
        hasattr(env, "step")
        and hasattr(env, "action_space")
        and hasattr(env, "unwrapped")
    ):
        raise InvalidInput(
            "An Agent acts in a Problem or a Gymnasium environment, got "
            f"{type(env).__name__}."
        )
    from smoothcruiser.adapters import gymnasium

    own = (
        "discount",
        "operator",
        "reward_range",
        "reward",
        "actions",
        "horizon",
        "access",
        "deterministic",
        "key",
        "call_seconds",
    )
    given = {key: options.pop(key) for key in own if key in options}
    if "discount" not in given or "operator" not in given:
        raise InvalidInput(
            "An Agent made from an environment needs discount= and operator=, "
            "such as discount=0.9, operator=Entropy(0.1)."
        )
    return gymnasium.problem(env, **given), options


def _stream(seed: int, *key: int) -> Any:
    from smoothcruiser.jit.streams import stream

    return stream(seed, *key)


# --- playing ------------------------------------------------------------------


@dataclass(frozen=True)
class Episode:
    """What happened in one episode, seen from the agent's side."""

    plain_return: float
    discounted_return: float
    steps: int
    decisions: int
    calls: int
    seconds: float  # spent on deciding, compiling not counted
    ended: bool  # by a terminal state, not by the limit of steps
    side: int  # 1 where the agent was the max player


@dataclass(frozen=True)
class Summary:
    """Many episodes in a few numbers. Intervals are 95%."""

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

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data: NaN and infinity become None."""
        found: dict[str, Any] = plain(self)
        return found

    def __str__(self) -> str:
        rows = [
            f"{self.problem}: {self.episodes} episodes, method {self.method}"
            + (f" against {self.opponent}" if self.opponent else ""),
            (
                f"  return              {self.mean_return:.4g}  95% "
                f"[{self.return_interval[0]:.4g}, {self.return_interval[1]:.4g}]"
            ),
            f"  discounted return   {self.mean_discounted_return:.4g}  "
            f"95% [{self.discounted_return_interval[0]:.4g}, "
            f"{self.discounted_return_interval[1]:.4g}]",
        ]
        if self.win_rate is not None and self.win_rate_interval is not None:
            low, high = self.win_rate_interval
            rows.append(
                f"  won {self.wins}, drawn {self.draws}, lost {self.losses}: win "
                f"rate {self.win_rate:.1%}  95% [{low:.1%}, {high:.1%}]"
            )
        rows += [
            (
                f"  steps an episode    {self.mean_steps:.1f} ({self.ended} of "
                f"{self.episodes} reached an end)"
            ),
            f"  time a decision     {1e3 * self.seconds_per_decision:.3g} ms",
            f"  calls a decision    {self.calls_per_decision:,.0f}",
        ]
        return "\n".join(rows)


def random_player(state: Any, problem: Problem, rng: Any) -> int:
    """A legal action, uniformly."""
    actions = problem.legal_actions(state)
    return actions[int(rng.integers(len(actions)))]


def play(
    agent: Agent,
    *,
    episodes: int,
    steps: int | None = None,
    seed: int = 0,
    opponent: Player | Agent = random_player,
    side: int | None = None,
    progress: Callable[[int, Episode], object] | None = None,
) -> Summary:
    """The Summary of ``episodes`` episodes of the agent's problem.

    In games the agent is the max player in even episodes and the min player in
    odd ones, or always ``side``; ``opponent`` moves for the other one.
    ``steps`` ends an episode that has no end of its own.
    """
    if not isinstance(agent, Agent):
        raise InvalidInput(
            f"play lets an Agent act, got {type(agent).__name__}; make one: "
            "Agent(problem, 'uct', budget=10_000)."
        )
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
    if not isinstance(opponent, Agent) and not callable(opponent):
        raise InvalidInput(
            "opponent must be an Agent or a function (state, problem, rng) -> "
            f"action, got {opponent!r}."
        )
    if side is not None and not problem.is_game:
        raise InvalidInput(
            "side= says which player the agent is; this problem has one player: "
            "drop it."
        )
    if side not in (None, 1, 2):
        raise InvalidInput(
            f"side must be 1 (max), 2 (min), or None for turns, got {side!r}."
        )
    if problem.initial_state is None and getattr(problem.oracle, "reset", None) is None:
        raise InvalidInput(
            "Episodes begin at the problem's initial_state and it has none; give "
            "initial_state= where the problem is made."
        )
    most = _most_steps(problem) if steps is None else steps
    played = []
    for number in range(episodes):
        mine = side or (1 + number % 2 if problem.is_game else 1)
        episode = _episode(agent, opponent, mine, most, seed, number)
        played.append(episode)
        if progress is not None:
            progress(number + 1, episode)
    return summarized(agent, played, _name(opponent) if problem.is_game else None)


def _most_steps(problem: Problem) -> int:
    if problem.horizon is not None:
        return problem.horizon
    if problem.facts.terminals:
        return MOST_STEPS
    return (
        max(1, math.ceil(math.log(FORGOTTEN) / math.log(problem.discount)))
        if problem.discount > 0.0
        else 1
    )


def _episode(
    agent: Agent, opponent: Player | Agent, mine: int, most: int, seed: int, number: int
) -> Episode:
    problem = agent.problem
    world = _stream(seed, Key.WORLD, number)
    other = _stream(seed, Key.OTHER_PLAYER, number)
    # an adapter's own distribution of beginnings
    reset = getattr(problem.oracle, "reset", None)
    state = problem.start() if reset is None else reset(world)
    sign = 1.0 if mine == 1 else -1.0
    total, discounted, weight = 0.0, 0.0, 1.0
    steps, decisions, calls, seconds, ended = 0, 0, 0, 0.0, problem.is_terminal(state)
    while steps < most and not ended:
        left = None if problem.horizon is None else problem.horizon - steps
        if problem.mover(state) == mine:
            begin = time.perf_counter()
            action = agent.decide(state, remaining=left)
            compiling = (
                0.0 if agent.estimate is None else agent.estimate.compile_seconds
            )
            seconds += max(0.0, time.perf_counter() - begin - compiling)
            decisions += 1
            calls += 0 if agent.estimate is None else agent.estimate.num_calls
        elif isinstance(opponent, Agent):
            action = opponent.decide(state, remaining=left)
        else:
            action = _moved(opponent, state, problem, other)
        reward, state, over = answered(
            problem,
            state,
            action,
            world,
            *problem.reward_range,
            problem.facts.terminals,
        )
        total += sign * reward
        discounted += sign * weight * reward
        weight *= problem.discount
        steps += 1
        ended = over or problem.is_terminal(state)
    return Episode(total, discounted, steps, decisions, calls, seconds, ended, mine)


def _moved(opponent: Player, state: Any, problem: Problem, rng: Any) -> int:
    """The other player's action, which must be legal."""
    action = opponent(state, problem, rng)
    if action not in problem.legal_actions(state):
        raise InvalidInput(
            f"The opponent chose action {action!r} at state {state!r}, where "
            f"{problem.legal_actions(state)} are legal."
        )
    return int(action)


def _name(opponent: Player | Agent) -> str:
    if isinstance(opponent, Agent):
        return str(getattr(opponent.method, "name", opponent.method))
    return (
        "random"
        if opponent is random_player
        else getattr(opponent, "__name__", type(opponent).__name__)
    )


def summarized(agent: Agent, played: list[Episode], opponent: str | None) -> Summary:
    """The Summary of played episodes."""
    decisions = sum(e.decisions for e in played)
    returns, discounted = (
        [e.plain_return for e in played],
        [e.discounted_return for e in played],
    )
    wins, draws = sum(x > 0 for x in returns), sum(x == 0 for x in returns)
    game = agent.problem.is_game
    return Summary(
        problem=agent.problem.name,
        method=str(getattr(agent.method, "name", agent.method)),
        opponent=opponent,
        episodes=len(played),
        mean_return=_mean(returns),
        return_interval=_normal(returns),
        mean_discounted_return=_mean(discounted),
        discounted_return_interval=_normal(discounted),
        wins=wins if game else None,
        draws=draws if game else None,
        losses=len(played) - wins - draws if game else None,
        win_rate=wins / len(played) if game else None,
        win_rate_interval=wilson(wins, len(played)) if game else None,
        mean_steps=_mean([float(e.steps) for e in played]),
        ended=sum(e.ended for e in played),
        decisions=decisions,
        seconds_per_decision=sum(e.seconds for e in played) / max(1, decisions),
        slowest_episode_seconds=max(e.seconds for e in played),
        calls_per_decision=sum(e.calls for e in played) / max(1, decisions),
    )


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _normal(values: list[float]) -> tuple[float, float]:
    """Mean plus and minus 1.96 standard errors."""
    mean, n = _mean(values), len(values)
    if n < 2:
        return -math.inf, math.inf
    error = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (n - 1) / n)
    return mean - NORMAL_95 * error, mean + NORMAL_95 * error


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a proportion: where |p-hat - p| <= z sqrt(p (1 -
    p) / n).
    """
    p, z2 = successes / n, NORMAL_95 * NORMAL_95
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)
