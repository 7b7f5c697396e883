"""One reading of a policy, for ``evaluate``, agents and the command line.

  a function       of the state, or of (state, rng); ``policy_tables`` lists its answers
  a dict           from states or their keys to such answers
  a list, array    one entry per state (``policy_tables``)
  an object        with ``predict``, ``act`` or ``select_action``, the first that it has
  a Solution       the row of the state; an Agent: its ``policy``

``predict`` gets the observation where the adapter knows it (Gymnasium) and answers in the
environment's own actions; it is asked for its deterministic answer where it takes
``deterministic=``, as Stable-Baselines3's own evaluation does. ``act`` and
``select_action`` get the state and answer as a function does.

A value belongs to a fixed function of the state. So a function is asked twice in its first
states and ever more rarely later, and refused where the answers differ. A function of
(state, rng) may draw lots from ``rng``; then there is no distribution to regularize, so the
operator must be Max. This file leaves out policies that depend on the path
(``policies``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_error
from smoothcruiser.evaluation.policy_tables import (
    SUM_TOLERANCE,
    WAITING,
    PolicyAnswer,
    Rule,
    checked_table,
    is_table,
    read_array,
    read_dict,
)
from smoothcruiser.exact.solution import Solution
from smoothcruiser.jit.build import hear_stops_in
from smoothcruiser.operators import Max
from smoothcruiser.problem.arguments import shorten_value
from smoothcruiser.problem.model.tabular import Floats
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import LiveOracle, ObservingOracle
from smoothcruiser.states.state_copies import lend_copy

PREDICT, METHODS = "predict", ("predict", "act", "select_action")
ASKED_TWICE = 16  # states in which a function is surely asked twice
ONE_FUNCTION = (
    "the policy depends on the state alone (it was asked twice at its first "
    f"{ASKED_TWICE} states and more rarely later, and answered the same)"
)
FORMS = (
    "a function of the state that returns an action, a label or probabilities, a dict or "
    "an array by state, an object with predict, act or select_action, a Solution, a "
    "Tree, an Estimate or an Agent"
)


@dataclass(frozen=True)
class PolicyReading:
    """A policy as a function of the state."""

    # (state, rng) -> probabilities of all K actions, which sum to 1 up to rounding
    shares: Callable[[Any, Any], list[float]]
    table: Floats | None = (
        None  # (S, A), the same over all states of a tabular problem
    )
    draws_lots: bool = False  # whether the answers depend on rng
    notes: tuple[str, ...] = ()  # how it was read, where there was a choice
    assumed: tuple[str, ...] = ()


def read_policy(problem: Problem, policy: Any) -> PolicyReading:
    """The reading of ``policy``; anything else is refused in one sentence."""
    own_policy = getattr(policy, "policy", None)
    if getattr(own_policy, "over_numbers", False):  # an Agent
        policy = own_policy
    if isinstance(policy, Solution):
        return _of_solution(problem, policy)
    if hasattr(policy, "iloc"):  # of pandas: its index says which states these are
        policy = policy.to_dict(**({"orient": "index"} if policy.ndim == 2 else {}))
    if isinstance(policy, Mapping):
        table, rule, notes = read_dict(problem, policy)
        return PolicyReading(_of_state(rule), table, notes=notes)
    if is_table(policy) and _method_of(policy) is None:
        table, rule, notes = read_array(problem, policy)
        return PolicyReading(_of_state(rule), table, notes=notes)
    ask_policy, notes = find_rule(problem, policy)
    hear_stops_in(ask_policy)
    if takes_rng(ask_policy):
        _refuse_lots(problem)
        return PolicyReading(_random_shares(problem, ask_policy), draws_lots=True)
    rule = _answer_rule(problem, policy, ask_policy)
    if getattr(
        policy, "over_numbers", False
    ):  # it plans, and says the same every time
        return PolicyReading(_of_state(rule))
    return PolicyReading(
        _of_state(AskedTwice(rule)), notes=notes, assumed=(ONE_FUNCTION,)
    )


def find_rule(
    problem: Problem, policy: Any
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """(the function that is asked at a state, notes on how) of a function or an object."""
    if isinstance(policy, type):
        raise InvalidInput(
            f"A policy is an object and not a class; got the class {policy.__name__}: "
            "make one, or give a function of the state."
        )
    if inspect.ismethod(policy) and policy.__name__ == PREDICT:
        policy = policy.__self__  # model.predict, given as a function
    method_name = (
        None if getattr(policy, "over_numbers", False) else _method_of(policy)
    )
    if method_name is None and not callable(policy):
        raise InvalidInput(
            f"A policy is {FORMS}; got {type(policy).__name__} {shorten_value(policy)}."
        )
    if method_name is None:
        _check_parameters(policy)
        return policy, ()
    method = getattr(policy, method_name)
    if method_name != PREDICT:
        _check_parameters(method)
        return method, ()
    return _read_predict(problem, method)


# --- functions ----------------------------------------------------------------


class AskedTwice:
    """A rule that is asked again now and then, and has to say the same."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.num_states = rule, 0

    def __call__(self, state: Any) -> list[float]:
        """The probabilities at ``state``."""
        shares = self.rule(state)
        self.num_states += 1
        if self.num_states > ASKED_TWICE and self.num_states & (self.num_states - 1):
            return shares
        second_shares = self.rule(state)
        if any(
            abs(x - y) > SUM_TOLERANCE
            for x, y in zip(shares, second_shares, strict=True)
        ):
            raise InvalidInput(
                f"The policy answered {_describe_shares(shares)} and then "
                f"{_describe_shares(second_shares)} at state {state!r:.80}, so it draws "
                "lots of its own or remembers: return probabilities, or draw from rng in "
                "a function of (state, rng)."
            )
        return shares


def takes_rng(policy: Callable[..., Any]) -> bool:
    """Whether a function wants a stream beside the state."""
    return _count_arguments(policy) == 2


def ask_safely(ask: Callable[..., Any], state: Any, *more: Any) -> Any:
    """The answer of a user's function at a state; its errors name the state."""
    try:
        return ask(lend_copy(state), *more)
    except (SmoothcruiserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InvalidInput(
            f"The policy raised {describe_error(error)} at state {state!r:.80}; fix it there."
        ) from error


def _count_arguments(policy: Callable[..., Any]) -> int | None:
    """The number of positional arguments of a function; None where it is unknown."""
    try:
        parameters = inspect.signature(getattr(policy, "py_func", policy)).parameters
    except (TypeError, ValueError):
        return None
    return sum(
        entry.default is entry.empty
        and entry.kind in (entry.POSITIONAL_ONLY, entry.POSITIONAL_OR_KEYWORD)
        for entry in parameters.values()
    )


def _check_parameters(policy: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(getattr(policy, "py_func", policy))
    except (TypeError, ValueError):
        return
    for num_arguments in (1, 2):
        try:
            signature.bind(*[None] * num_arguments)
        except TypeError:
            continue
        return
    raise InvalidInput(
        "A policy is a function of the state, or of (state, rng) where it draws lots; got "
        f"one with the arguments {signature}."
    )


def _answer_rule(problem: Problem, policy: Any, ask: Callable[..., Any]) -> Rule:
    """The rule of a function of the state."""
    if isinstance(ask, _Prediction):
        return ask.shares

    def rule(state: Any) -> list[float]:
        return PolicyAnswer(problem, state, f"policy({state!r:.80})").shares(
            ask_safely(ask, state)
        )

    return rule


def _random_shares(
    problem: Problem, ask: Callable[..., Any]
) -> Callable[[Any, Any], list[float]]:
    def shares(state: Any, rng: Any) -> list[float]:
        answer = ask_safely(ask, state, rng)
        return PolicyAnswer(problem, state, f"policy({state!r:.80}, rng)").shares(
            answer
        )

    return shares


def _refuse_lots(problem: Problem) -> None:
    if not isinstance(problem.operator, Max):
        raise InvalidInput(
            "A policy of (state, rng) draws lots, and the operator "
            f"{problem.operator.label} regularizes probabilities; return the "
            "probabilities from a function of the state, or let operator be Max()."
        )


def _of_state(rule: Rule) -> Callable[[Any, Any], list[float]]:
    return lambda state, rng: rule(state)


def _describe_shares(shares: list[float]) -> str:
    if max(shares) == 1.0:
        return f"action {shares.index(1.0)}"
    return str([round(share, 6) for share in shares])


# --- objects ------------------------------------------------------------------


def _method_of(policy: Any) -> str | None:
    """The name of the method that an object acts by; None for functions and arrays."""
    if inspect.isroutine(policy):
        return None
    method_names = (name for name in METHODS if callable(getattr(policy, name, None)))
    return next(method_names, None)


def _read_predict(
    problem: Problem, predict: Callable[..., Any]
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The function that asks ``predict``, and the notes on it."""
    try:
        takes_deterministic = "deterministic" in inspect.signature(predict).parameters
    except (TypeError, ValueError):
        takes_deterministic = False
    note = (
        "predict was called with deterministic=True; for its random actions give a function "
        "that returns their probabilities."
    )
    return _Prediction(problem, predict, takes_deterministic), (
        note,
    ) if takes_deterministic else ()


class _Prediction:
    """``predict`` as a function of the state: its actions are the environment's."""

    def __init__(
        self, problem: Problem, predict: Callable[..., Any], surely: bool
    ) -> None:
        self.problem, self.predict = problem, predict
        self.options = {"deterministic": True} if surely else {}

    def __call__(self, state: Any) -> Any:
        """The answer of ``predict`` at ``state``, without its memory."""
        oracle = self.problem.oracle
        observation = lend_copy(state)
        if isinstance(oracle, ObservingOracle):
            observation = oracle.observe(state)
        answer = ask_safely(lambda _: self.predict(observation, **self.options), state)
        if isinstance(answer, tuple) and len(answer) == 2:
            if answer[1] is not None:
                raise InvalidInput(
                    "predict must return an action or (action, None), got a memory as "
                    f"well, {shorten_value(answer[1])}: a recurrent policy is no function of "
                    "the state; put its memory into the state of the problem."
                )
            answer = answer[0]
        return answer

    def shares(self, state: Any) -> list[float]:
        """Probabilities of the problem's actions."""
        answer = self(state)
        problem, oracle = self.problem, self.problem.oracle
        choice = PolicyAnswer(problem, state, f"predict at state {state!r:.80}")
        is_odd = answer is None or isinstance(answer, (str, Mapping, *WAITING))
        if is_odd or not isinstance(oracle, LiveOracle):
            return choice.shares(answer)
        actions = oracle.actions
        answer_array = np.asarray(answer)
        for action_number, action in enumerate(actions):
            if answer_array.size == np.size(action) and np.array_equal(
                answer_array.reshape(-1), np.asarray(action).reshape(-1)
            ):
                return choice.only_action(action_number)
        if answer_array.ndim == 1 and answer_array.size == problem.num_actions > 1:
            return choice.shares(answer_array)
        raise InvalidInput(
            f"predict at state {state!r:.80} returned {shorten_value(answer)}, which is none of "
            f"the {problem.num_actions} actions of the environment that the problem has, "
            f"{shorten_value(list(actions))}; give actions= to the adapter."
        )


# --- solutions ----------------------------------------------------------------


def _of_solution(problem: Problem, solution: Solution) -> PolicyReading:
    """The rows of an exact solution, which are probabilities without a doubt."""
    if solution.stages is not None:
        raise InvalidInput(
            "A Solution with a horizon is another policy at every step; plan with "
            "method='exact' in its place."
        )
    policy_rows = np.asarray(solution.policy, dtype=float)
    if solution.states is None and problem.tables is not None:
        table = checked_table(problem, policy_rows)
        return PolicyReading(_of_state(lambda s: table[s].tolist()), table)

    def rule(state: Any) -> list[float]:
        policy_row = policy_rows[solution.index(state)]
        return PolicyAnswer(
            problem, state, f"The policy at state {state!r:.80}"
        ).shares(policy_row)

    return PolicyReading(_of_state(rule))
