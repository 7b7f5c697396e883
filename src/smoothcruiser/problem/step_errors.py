"""Answers that an oracle may give, and one sentence for each violation.

``where`` is "at state s, action a" (``at``), composed only when something is
wrong. ``call_oracle`` is a call with every check, for engines that are written to
be read. The fast engines make the same checks in their own loops and raise the
same sentences.

Oracles: the answers that a simulator must give, and its optional abilities.

A step is any function of (state, action, rng). An adapter's oracle may know
more about its simulator. Each of these is a protocol of its own, and an oracle
that has its methods offers it:

  ``ParsingOracle``     reads a state from plain data (JSON) or from a running
                        simulator
  ``WritingOracle``     writes its states as plain data, which ``parse`` reads
  ``ResettingOracle``   samples initial states
  ``LiveOracle``        reads the state of a running simulator, and knows the
                        names of the problem's actions there
  ``ObservingOracle``   knows a simulator's observation of a state
  ``LabellingOracle``   names the actions of a state, for readers of answers

Any object may also have a method ``__fingerprint__``, which returns plain data that
stands for it where its fields cannot (``fingerprint``).

The answers that a step may give, and the errors for all others, are in ``step_errors``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from smoothcruiser.errors import (
    Hung,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    describe_error,
    describe_value,
    text_of,
)
from smoothcruiser.problem.arguments import is_number, is_whole, shorten_value
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.totals import pays_early
from smoothcruiser.problem.wary_actions import (
    InsistsOnInt,
    WaryAction,
    call_warily,
    is_wary,
    make_wary,
)

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import ProblemFields
    from smoothcruiser.states.state_copies import Guard


Answer = tuple[float, Any, bool]  # reward, next state, whether the episode is over


def at_pair(state: Any, action: int) -> str:
    """Where a call was made, for a sentence."""
    return f"at state {text_of(state)}, action {action}"


def oracle_raised(error: BaseException | str, where: str) -> OracleError:
    """The oracle raised ``error``, which may be text in the form "Type: message"."""
    error_text = error if isinstance(error, str) else describe_error(error)
    remedy = "fix the simulator there, if that is a state of the problem"
    if error_text.startswith("TypeError: Stream."):
        remedy = (
            "rng draws one number per call; rng.numpy() draws arrays in plain Python"
        )
    elif error_text.startswith("KeyError: ") and where.endswith(
        f", action {error_text[10:]}"
    ):
        remedy = (
            "fix the simulator there; if the key is a name, that is "
            "problem.actions[action]: actions are numbers"
        )
    return OracleError(f"The oracle raised {error_text} {where}; {remedy}.")


def oracle_hung(call_seconds: float | None, where: str) -> OracleError:
    """A call took too long."""
    return OracleError(
        f"The oracle did not return within {call_seconds:g} s {where}; fix the "
        "simulator there, or raise call_seconds."
    )


def companion_hung(call_seconds: float | None) -> OracleError:
    """A call of legal, terminal, player or value_bounds took too long."""
    return OracleError(
        "legal, terminal, player or value_bounds did not return within "
        f"{call_seconds:g} s; fix it, or raise call_seconds."
    )


def failure(name: str, error: BaseException, state: Any) -> BaseException:
    """The error to raise where one of a problem's functions of the state raised one.

    Our own errors, an engine's signal (``Hung``) and Ctrl-C are raised as they are.
    """
    if isinstance(error, SmoothcruiserError | Hung | KeyboardInterrupt):
        return error
    first_line = str(error).split("\n")[0]  # Numba's messages fill pages
    return OracleError(
        f"{name} raised {type(error).__name__}: {first_line} at state {state!r}; fix "
        "it there."
    )


def reward_outside(
    reward: Any, where: str, low: float, high: float, costs: bool = False
) -> OracleError:
    """A reward lies outside the declared range, or outside the one that is usual.

    ``costs`` says that rewards are costs, which the player minimizes.
    """
    if costs:
        return _cost_outside(reward, where, low, high)
    is_cost = low == 0.0 and reward < low
    example = ", reward_range=(-10, 0) for costs up to 10, say," if is_cost else ","
    return OracleError(
        f"The oracle returned reward {reward!r} {where}, outside reward_range "
        f"({low:g}, {high:g}); declare the range that holds every reward{example} or fix "
        "the simulator."
    )


def _cost_outside(reward: Any, where: str, low: float, high: float) -> OracleError:
    """The same for a cost; one of the opposite sign was perhaps meant to be earned."""
    hint = "declare the range that holds every cost, or fix the simulator"
    if low <= -reward <= high and reward < low:
        hint = (
            f"with minimize=True the step returns what it costs, {-reward:g} and not "
            f"{reward:g}: change the sign there, or drop minimize= and declare the "
            "range of rewards"
        )
    elif low <= -reward <= high:
        hint = (
            "with minimize=True it is the range of costs as the step returns them: "
            f"declare reward_range=({0.0 - high:g}, {0.0 - low:g}), say"
        )
    return OracleError(
        f"The oracle returned cost {reward!r} {where}, outside reward_range "
        f"({low:g}, {high:g}); {hint}."
    )


def early_payoff(reward: Any, where: str) -> OracleError:
    """A step paid although it does not end the episode."""
    return OracleError(
        f"The oracle paid {reward!r} {where} and the episode went on, but payoffs='end' "
        "is declared; drop payoffs= (total_reward_range= may hold), or let only the "
        "step that ends the episode pay."
    )


def beyond_total(found: float, low: float, high: float) -> OracleError:
    """An episode added up to a total outside the declared range."""
    return OracleError(
        f"An episode was worth {found:.6g}, regularizer included, outside "
        f"[{low:.6g}, {high:.6g}], which total_reward_range or payoffs= allow; widen "
        "the declared range, or drop it."
    )


def undeclared_end(where: str) -> OracleError:
    """An episode ended although the problem declares no ends."""
    return OracleError(
        f"The oracle ended the episode {where}, but the problem declares no terminal "
        "states; pass terminal=True (or a function), since it changes the bounds on "
        "the value."
    )


def same_mover(state: Any) -> OracleError:
    """The turn was not passed on although ``alternating`` is declared."""
    return OracleError(
        f"alternating=True, but state {state!r} led to a state of the same player; "
        "drop alternating=."
    )


def answers_changed(state: Any) -> OracleError:
    """A function of the state does not depend on the state alone."""
    return OracleError(
        "legal, terminal, player or value_bounds answered differently when asked "
        f"about state {state!r} again; let them depend on the state alone."
    )


def dependent_rows(state: Any, action: int) -> OracleError:
    """A batched step samples once for all its rows."""
    return OracleError(
        f"All rows of a batch get the same outcome {at_pair(state, action)}, and another "
        "batch gets another: draws are not "
        "independent. Draw one number per row, such as rng.random(len(states))."
    )


def oracle_remembers(state: Any, action: int) -> OracleError:
    """A call took other numbers from an equal stream than the call before it."""
    return OracleError(
        f"Two calls {at_pair(state, action)} took different numbers from equal streams: the "
        "oracle remembers earlier answers "
        "(a cache of random outcomes?) or calls; let every call draw for itself."
    )


def too_few_legal(state: Any, found: int, declared: int) -> InvalidInput:
    """A state has no legal action, or fewer than ``min_actions`` declares."""
    if found == 0:
        return InvalidInput(
            f"State {state!r} has no legal action; a state where nothing can be "
            "done is terminal: say so with terminal=."
        )
    return InvalidInput(
        f"State {state!r} has {found} legal actions, fewer than "
        f"min_actions={declared}; declare the fewest that any state has."
    )


def bad_player(state: Any, player: Any) -> InvalidInput:
    """A mover is neither of the two players."""
    hint = "; return it on every path" if player is None else ""
    return InvalidInput(
        f"player({state!r}) must be 1 (max) or 2 (min), got {player}{hint}."
    )


def key_collision(
    state: Any,
    known: Any,
    found: tuple[int, ...] | None,
    expected: tuple[int, ...] | None,
) -> OracleError:
    """Two states have one key but cannot be the same state."""

    def describe_profile(profile: tuple[int, ...] | None) -> str:
        if profile is None:
            return "is over"
        return f"has player {profile[0]} to move and legal actions {list(profile[1:])}"

    return OracleError(
        f"Two different states have the same key: {known!r} "
        f"{describe_profile(expected)}, {state!r} {describe_profile(found)}; let key= "
        "(or the state's own == and hash) tell apart all that the future depends on."
    )


def contradiction(state: Any, delta: float, assumed: tuple[str, ...]) -> OracleError:
    """An interval is empty."""
    chance_note = (
        f". With probability at most {delta:g} this is chance (try another seed); "
        "otherwise something that was assumed is false"
        if delta
        else ", so something that was assumed is false"
    )
    return OracleError(
        f"The bounds at state {state!r} exclude each other{chance_note}: "
        f"{'; '.join(assumed)}."
    )


def unpack_answer(answer: Any, state: Any, action: int) -> Answer:
    """(reward, next state, terminated) of an answer with two or three parts."""
    try:
        reward, next_state, *end_flags = answer
        if len(end_flags) > 1 or isinstance(reward, str | bytes | bytearray):
            raise ValueError("no answer")
        reward_value = float(reward)
        ended = bool(end_flags[0]) if end_flags else False
    except (TypeError, ValueError) as error:
        raise no_answer(answer, at_pair(state, action)) from error
    if end_flags and not is_truth(end_flags[0]):
        raise no_answer(answer, at_pair(state, action))
    return math.nan if math.isnan(reward_value) else reward_value, next_state, ended


def no_answer(answer: Any, where: str) -> OracleError:
    """The error for a return value that is no answer; its text guesses the mistake."""
    got_text, remedy = f", got {shorten_value(answer)}", ""
    answer_parts = answer if isinstance(answer, tuple | list) else ()
    if answer is None:
        got_text, remedy = ", got None", "; end every branch of it with a return"
    elif inspect.isawaitable(answer) or hasattr(answer, "__anext__"):
        _close(answer)
        got_text = f", got {describe_value(answer)}"
        remedy = "; it is an async function: define it without async, or run it inside a plain one"
    elif isinstance(answer, Iterator):
        got_text = f", got {describe_value(answer)}"
        remedy = "; write return in place of yield"
    elif len(answer_parts) in (4, 5):
        num_parts = "four" if len(answer_parts) == 4 else "five"
        got_text = f", got {num_parts} parts, {shorten_value(answer)}"
        remedy = (
            "; from Gymnasium's (observation, reward, terminated, …) return reward, "
            "observation, terminated"
        )
    elif len(answer_parts) == 3 and isinstance(answer_parts[1], bool):
        remedy = "; return (reward, next_state, terminated), in this order"
    elif len(answer_parts) in (2, 3) and not _is_numeric(answer_parts[0]):
        got_text = (
            f"; the reward must be a number, got {_quote_value(answer_parts[0])}"
        )
        remedy = _reward_remedy(answer_parts[0], answer_parts[1])
    elif len(answer_parts) == 3:
        got_text = (
            f"; terminated must be True or False, got {shorten_value(answer_parts[2])}"
        )
    return OracleError(
        "The oracle must return (reward, next_state) or (reward, next_state, "
        f"terminated){got_text} {where}{remedy}."
    )


def _quote_value(value: object) -> str:
    return (
        f"the text {shorten_value(value)}"
        if isinstance(value, str)
        else shorten_value(value)
    )


def _reward_remedy(reward: object, after: object) -> str:
    """The remedy for a reward that is no number."""
    if reward is None:
        return "; return a number, 0.0 where nothing is paid"
    if isinstance(reward, str | bytes):
        with suppress(ValueError):
            float(reward)
            return "; convert it with float()"
    if is_number(after):
        return "; return (reward, next_state), in this order"
    return "; return one number"


def _is_numeric(value: object) -> bool:
    """Whether a value that is not text converts to ``float``."""
    try:
        return not isinstance(value, str | bytes | bytearray) and bool(
            [float(value)]  # type: ignore[arg-type]
        )
    except (TypeError, ValueError):
        return False


def _close(answer: Any) -> None:
    """Close a coroutine, so that Python does not warn that it was never awaited."""
    close_method = getattr(answer, "close", None)
    if callable(close_method):
        close_method()


def is_truth(value: object) -> bool:
    """Whether a value says yes or no: True, False, a number, an array of one."""
    return isinstance(value, bool | Number) or getattr(value, "shape", None) in (
        (),
        (1,),
    )


def truth(name: str, value: object, state: Any) -> bool:
    """The answer of ``legal`` or ``terminal``; anything but yes or no is refused."""
    if is_truth(value):
        return bool(value)
    if inspect.isawaitable(value):
        _close(value)
        got_text, remedy = describe_value(value), "define it without async"
    elif isinstance(value, list | tuple | set | dict) and name == "legal":
        got_text = f"the {type(value).__name__} {shorten_value(value)}"
        remedy = "it is asked about one action at a time: return action in that list"
    else:
        got_text = "None" if value is None else shorten_value(value)
        remedy = "return it on every path" if value is None else "wrap it in bool()"
    raise OracleError(
        f"{name} must return True or False, got {got_text} at state {state!r}; "
        f"{remedy}."
    )


def check_order(answer: Any, state: Any, action: int) -> None:
    """Refuse an answer with parts that seem to be swapped: (1, 0.5) at state 0.

    A state that is a whole number is followed by one; here the reward is one, and the
    next state is not.
    """
    if not isinstance(answer, tuple | list):
        return
    reward, next_state = answer[:2]
    if (
        is_whole(state)
        and is_whole(reward)
        and is_number(next_state)
        and not is_whole(next_state)
    ):
        raise OracleError(
            f"The oracle returned {shorten_value(answer)} {at_pair(state, action)}, a reward that "
            "is a whole number and a next state that is none, unlike the state; return "
            "(reward, next_state), in this order, or, if the order is right, begin with "
            f"initial_state={float(state)!r}."
        )


def call_oracle(
    problem: ProblemFields,
    state: Any,
    action: int,
    rng: Any,
    low: float,
    high: float,
    ends: bool,
    guard: Guard | None = None,
) -> Answer:
    """One call of the user's simulator, checked.

    The reward has to lie in [low, high]; the episode may end only if ``ends``. With a
    ``WaryAction`` an action that is taken for its name is noticed, and ``InsistsOnInt``
    is raised where the simulator fails.
    """
    state_copy = guard.copy_state(state) if guard is not None and guard.due() else None
    try:
        if isinstance(action, WaryAction):
            answer = call_warily(problem.oracle, state, action, rng)
        else:
            answer = problem.oracle(state, action, rng)
    except (SmoothcruiserError, KeyboardInterrupt, InsistsOnInt):
        raise
    except BaseException as error:  # sys.exit() too
        if isinstance(error, Hung):
            raise oracle_hung(problem.call_seconds, at_pair(state, action)) from error
        raise oracle_raised(error, at_pair(state, action)) from error
    if state_copy is not None and guard is not None:
        guard.compare(state_copy, state, action)
    # most answers are seen to be right at once: a float in its range, a truth value
    num_parts = len(answer) if type(answer) is tuple and type(action) is int else 0
    if num_parts in (2, 3) and type(answer[0]) is float and low <= answer[0] <= high:
        is_paid = answer[0] == 0.0 or problem.payoffs != AT_THE_END
        if is_paid and num_parts == 2:
            return answer[0], answer[1], False
        if is_paid and (answer[2] is False or (ends and answer[2] is True)):
            return answer  # type: ignore[no-any-return]
    reward, next_state, ended = unpack_answer(answer, state, action)
    if isinstance(action, WaryAction):
        check_order(answer, state, action)
    if not low <= reward <= high:
        check_order(answer, state, action)
        raise reward_outside(
            reward, at_pair(state, action), low, high, problem.minimizes
        )
    if ended and not ends:
        raise undeclared_end(at_pair(state, action))
    if pays_early(problem, reward, next_state, ended):
        raise early_payoff(reward, at_pair(state, action))
    return reward, next_state, ended


def call_in_episode(
    problem: ProblemFields, state: Any, action: int, rng: Any
) -> Answer:
    """One checked call of an episode that is played.

    A plain Python step that takes actions for their names is refused.
    """
    checks = (*problem.reward_range, problem.facts.terminals)
    if is_wary(problem):
        stream_words = rng.words.copy()
        try:
            return call_oracle(
                problem, state, make_wary(problem, action), rng, *checks
            )
        except InsistsOnInt:
            rng.words[:] = stream_words
    return call_oracle(problem, state, action, rng, *checks)


@runtime_checkable
class ParsingOracle(Protocol):
    """An oracle that understands other forms of its states."""

    def parse(self, state: Any) -> Any:
        """The state that ``state`` stands for; states as they are."""


@runtime_checkable
class WritingOracle(Protocol):
    """An oracle that can write its states as plain data."""

    def plain(self, state: Any) -> Any:
        """Plain data that ``parse`` turns into ``state``: numbers, words, lists."""


@runtime_checkable
class ResettingOracle(Protocol):
    """An oracle with a distribution of initial states."""

    def reset(self, rng: Any) -> Any:
        """An initial state, sampled from the stream ``rng``."""


@runtime_checkable
class LiveOracle(Protocol):
    """An oracle of simulators that also run on their own."""

    actions: Sequence[Any]  # the problem's actions 0, 1, … in the simulator's own form

    def read(self, simulator: Any) -> Any:
        """The state that a running simulator is in, which is left as it is."""


@runtime_checkable
class ObservingOracle(Protocol):
    """An oracle that knows its simulator's observation of a state."""

    def observe(self, state: Any) -> Any:
        """A policy's observation of ``state``, which is left as it is."""


@runtime_checkable
class LabellingOracle(Protocol):
    """An oracle with names of actions that depend on the state."""

    def label(self, state: Any, action: int) -> str | None:
        """The name of ``action`` in ``state``; None where it has no name there."""


def name_action(oracle: LabellingOracle, state: Any, action: int) -> str:
    """The name of an action, or its number where the oracle gives no name."""
    try:
        label = oracle.label(state, action)
    except Exception:
        return str(action)
    return label if isinstance(label, str) and label else str(action)
