"""What an oracle may answer, and one sentence for each thing that it may not.

``where`` is "at state s, action a" (``at``), composed only when something is
wrong. ``answered`` is a call with every check, for engines that are written to
be read. The fast engines make the same checks in their own loops and raise the
same sentences.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import (
    Hung,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    said,
)
from smoothcruiser.problem.totals import pays_early

if TYPE_CHECKING:
    from smoothcruiser.problem.problem import Problem
    from smoothcruiser.problem.states import Guard

Answer = tuple[float, Any, bool]  # reward, next state, whether the episode is over


def at(state: Any, action: int) -> str:
    """Where a call was made, for a sentence."""
    return f"at state {state!r}, action {action}"


def raised(error: BaseException | str, where: str) -> OracleError:
    """The oracle raised ``error``, which may be text in the form "Type: message"."""
    shown = error if isinstance(error, str) else said(error)
    return OracleError(
        f"The oracle raised {shown} {where}; fix the simulator there, if that is a "
        "state of the problem."
    )


def hung(call_seconds: float | None, where: str) -> OracleError:
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
    """What to raise for an error in one of a problem's functions of the state.

    Our own errors, an engine's signal (``Hung``) and Ctrl-C are raised as they are.
    """
    if isinstance(error, SmoothcruiserError | Hung | KeyboardInterrupt):
        return error
    first = str(error).split("\n")[0]  # Numba's messages fill pages
    return OracleError(
        f"{name} raised {type(error).__name__}: {first} at state {state!r}; fix it "
        "there."
    )


def outside(reward: Any, where: str, low: float, high: float) -> OracleError:
    """A reward lies outside the declared range."""
    return OracleError(
        f"The oracle returned reward {reward!r} {where}, outside reward_range "
        f"({low:g}, {high:g}); declare the range that holds every reward, or fix the "
        "simulator."
    )


def early_payoff(reward: Any, where: str) -> OracleError:
    """A step paid although it does not end the episode."""
    return OracleError(
        f"The oracle paid {reward!r} {where} and the episode went on, but payoffs='end' "
        "is declared; drop payoffs= (total_reward_range= may hold), or let only the "
        "step that ends the episode pay."
    )


def beyond_total(found: float, low: float, high: float) -> OracleError:
    """An episode added up to what the declared total excludes."""
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


def flickering(state: Any) -> OracleError:
    """A function of the state does not depend on the state alone."""
    return OracleError(
        "legal, terminal, player or value_bounds answered differently when asked "
        f"about state {state!r} again; let them depend on the state alone."
    )


def rows_together(state: Any, action: int) -> OracleError:
    """A batched step samples once for all its rows."""
    return OracleError(
        f"All rows of a batch get the same outcome {at(state, action)}, and another "
        "batch gets another: draws are not "
        "independent. Draw one number per row, such as rng.random(len(states))."
    )


def remembered(state: Any, action: int) -> OracleError:
    """A call took other numbers from an equal stream than the call before it."""
    return OracleError(
        f"Two calls {at(state, action)} took different numbers from equal streams: the "
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
    return InvalidInput(f"player({state!r}) must be 1 (max) or 2 (min), got {player}.")


def two_in_one(
    state: Any,
    known: Any,
    found: tuple[int, ...] | None,
    expected: tuple[int, ...] | None,
) -> OracleError:
    """Two states have one key but cannot be the same state."""

    def shown(profile: tuple[int, ...] | None) -> str:
        if profile is None:
            return "is over"
        return f"has player {profile[0]} to move and legal actions {list(profile[1:])}"

    return OracleError(
        f"Two different states have the same key: {known!r} {shown(expected)}, "
        f"{state!r} {shown(found)}; let key= (or the state's own == and hash) tell "
        "apart all that the future depends on."
    )


def contradiction(state: Any, delta: float, assumed: tuple[str, ...]) -> OracleError:
    """An interval is empty."""
    chance = (
        f". With probability at most {delta:g} this is chance (try another seed); "
        "otherwise something that was assumed is false"
        if delta
        else ", so something that was assumed is false"
    )
    return OracleError(
        f"The bounds at state {state!r} exclude each other{chance}: "
        f"{'; '.join(assumed)}."
    )


def unpacked(answer: Any, state: Any, action: int) -> Answer:
    """(reward, next state, terminated) of an answer with two or three parts."""
    try:
        reward, after, *rest = answer
        ended = bool(rest[0]) if rest else False
        if len(rest) > 1:
            raise ValueError("too many values")
        value = float(reward)
        return math.nan if math.isnan(value) else value, after, ended
    except (TypeError, ValueError) as error:
        raise OracleError(
            "The oracle must return (reward, next_state) or (reward, next_state, "
            f"terminated), got {answer!r} {at(state, action)}."
        ) from error


def answered(
    problem: Problem,
    state: Any,
    action: int,
    rng: Any,
    low: float,
    high: float,
    ends: bool,
    guard: Guard | None = None,
) -> Answer:
    """One call of the user's simulator, checked.

    The reward has to lie in [low, high]; the episode may end only if ``ends``.
    """
    before = guard.copied(state) if guard is not None and guard.due() else None
    try:
        answer = problem.oracle(state, action, rng)
    except (SmoothcruiserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit() too
        if isinstance(error, Hung):
            raise hung(problem.call_seconds, at(state, action)) from error
        raise raised(error, at(state, action)) from error
    if before is not None and guard is not None:
        guard.compare(before, state, action)
    reward, after, ended = unpacked(answer, state, action)
    if not low <= reward <= high:
        raise outside(reward, at(state, action), low, high)
    if ended and not ends:
        raise undeclared_end(at(state, action))
    if pays_early(problem, reward, after, ended):
        raise early_payoff(reward, at(state, action))
    return reward, after, ended
