"""Inspections of the step before and after a run: do its arguments decide its answer?

A promise rests on assumptions that no planner can prove. The step must take all its
randomness from ``rng``, remember nothing between calls, leave the state it
receives alone, and return states that nobody changes later. Here each of these
is tested at a few pairs (state, action): every action of the requested state,
then pairs met by a random walk.

  before the run   each pair is called twice from equal streams (from different ones
                   if the first call took nothing from its stream, or
                   ``deterministic`` is declared): the answers must agree, and neither
                   the state nor an earlier answer may have changed. The second
                   call of a plain Python step gets an action that refuses to be
                   compared with a name (``problem.wary_actions``)
  after the run    each pair is called once more from the same stream and must answer
                   as it did

Answers agree if reward and end are equal and the next states hold equal values.
Where they do not, or show nothing to compare, their futures decide: both are
stepped on from equal streams and must pay the same.

The streams have a key of their own, so a run's bits do not depend on the inspected
pairs. The calls are counted. ``check`` tests more, and at more pairs; ``plan`` does
this much on its own.

States from a compiled step, as the types that the user wrote.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

import numpy as np

from smoothcruiser.errors import Hung, OracleError
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import Stream, stream
from smoothcruiser.problem.assumptions import same_future
from smoothcruiser.problem.batched import Batched, rows_apart
from smoothcruiser.problem.bounds import bounds_at
from smoothcruiser.problem.problem import (
    CALLS_PER_LOOK,
    LOOKED_ACTIONS,
    LOOKED_BATCHES,
    LOOKED_ROWS,
    Problem,
)
from smoothcruiser.problem.step_errors import (
    Answer,
    answers_changed,
    call_oracle,
    companion_hung,
    dependent_rows,
    oracle_remembers,
    same_mover,
)
from smoothcruiser.problem.wary_actions import (
    InsistsOnInt,
    is_wary,
    make_wary,
    refuse_named_legal,
)
from smoothcruiser.run_control.call_ledger import CallLedger, CallRole
from smoothcruiser.run_control.call_seconds import calls_the_oracle, limit_call_seconds
from smoothcruiser.run_control.clock import Clock
from smoothcruiser.run_control.stop_requests import stoppable
from smoothcruiser.states.identity import is_unchanged, same_state
from smoothcruiser.states.state_copies import copy_state, written_into

# After this time no further pair is inspected: some simulators take seconds per
# call. The time is that of calls as long as the middle one, lest a busy machine, which
# delays a few, changes what is inspected, and with it what a budget leaves to sample.
LOOK_SECONDS = 2.0
DELAYED_SECONDS = 30.0  # after which the machine's delays count too
WALK = 0  # place of streams that belong to no single pair; pairs count from 1
OTHER = 2**20  # added to a stream's place, it gives the place of another one


class SecondCall(Enum):
    """How a pair was called for the second time; the value begins a sentence."""

    TWICE = "Two calls from equal"
    ELSEWHERE = "Calls from different"
    AGAIN = "Calls before and after the run from equal"


@dataclass(frozen=True)
class Look:
    """The inspection of one pair: the place of its stream, and the call's answer."""

    state: Any
    action: int
    place: int
    answer: Answer
    kept: Any  # a copy of the next state; None where it cannot change or be copied
    profile: tuple[int, ...] | None  # the mover, and the legal actions
    taken: tuple[int, ...]  # the stream's words after the call

    @property
    def where(self) -> str:
        """The pair in words, for a refusal."""
        return f"at state {self.state!r}, action {self.action}"


Looks = tuple[Look, ...]


@calls_the_oracle
def look(
    problem: Problem,
    state: Any,
    seed: int,
    ledger: CallLedger,
    looked: Looks | None = None,
    seconds: float | None = None,
) -> Looks:
    """The pairs inspected, before a run or after it; ``ledger`` gets the calls.

    After a run, ``looked`` are the pairs that were inspected before it.
    The price of ``ledger`` bounds the calls of both inspections together. After ``seconds`` no
    further pair is inspected; there is always one.

    Raises ``OracleError`` for a step that breaks its contract.
    """
    if problem.tables is not None or problem.is_terminal(state):
        return ()
    max_pairs = problem.inspected_pairs
    if ledger.left is not None:
        max_pairs = min(max_pairs, ledger.left // CALLS_PER_LOOK)
    inspector = _Inspector(problem, state, seed, max_pairs)
    if seconds is not None:
        inspector.seconds = min(seconds, LOOK_SECONDS)
    try:
        with limit_call_seconds(inspector, problem.call_seconds):
            if looked is None:
                with suppress(_NoCallsLeft):
                    inspector.inspect_pairs(state, max_pairs)
            else:
                inspector.repeat_calls(looked)
    except Hung as error:
        raise companion_hung(problem.call_seconds) from error
    finally:
        ledger.spend(CallRole.INSPECTION, inspector.calls)
    return tuple(inspector.looked) if looked is None else looked


class _NoCallsLeft(Exception):
    """A pair would take more calls than are left: it is not inspected to its end."""


class _Inspector:
    """Calls a problem's step, compares its answers, and counts the calls."""

    def __init__(
        self, problem: Problem, state: Any, seed: int, max_pairs: int
    ) -> None:
        self.problem, self.seed = problem, seed
        self.retype = retyped_by(problem, state)
        self.calls = 0
        # calls for the inspections before and after the run together
        self.calls_left = CALLS_PER_LOOK * max_pairs
        self.last_pair_calls = CALLS_PER_LOOK  # the last pair's share of it
        self.calls_before_pair: int | None = None  # calls before the pair at hand
        self.looked: list[Look] = []
        self.stopwatch, self.seconds = Clock(), LOOK_SECONDS
        self.call_seconds: list[float] = []

    def _in_time(self) -> bool:
        elapsed = self.stopwatch.elapsed()
        if self.calls == 0 or elapsed < self.seconds:
            return True
        is_limited = (
            self.seconds < LOOK_SECONDS
        )  # by the run, whose answer depends on it
        if is_limited or elapsed > DELAYED_SECONDS or not self.call_seconds:
            return False
        return len(self.call_seconds) * median(self.call_seconds) < self.seconds

    def inspect_pairs(self, start: Any, max_pairs: int) -> None:
        """Inspect every action of the requested state, then pairs met by a walk."""
        problem = self.problem
        actions = problem.legal_actions(start)
        refuse_named_legal(problem, start)
        num_shown = min(len(actions), LOOKED_ACTIONS)
        if isinstance(problem.oracle, Batched) and max_pairs > 0:
            self._check_rows(problem.oracle, start, actions[0])
        for i in range(min(num_shown, max_pairs)):
            if self._in_time() and self.last_pair_calls <= self.calls_left:
                self._inspect_pair(start, actions[i * len(actions) // num_shown])
        state, steps, walk_stream = start, 0, stream(self.seed, Key.INSPECTION, WALK)
        while (
            len(self.looked) < max_pairs
            and self._in_time()
            and self.last_pair_calls <= self.calls_left
        ):
            actions = problem.legal_actions(state)
            _, next_state, has_ended = self._inspect_pair(
                state, actions[walk_stream.integers(len(actions))], steps
            ).answer
            steps += 1
            is_over = (
                has_ended
                or problem.is_terminal(next_state)
                or steps == problem.horizon
            )
            if (
                not is_over
                and problem.facts.alternating
                and problem.mover(next_state) == problem.mover(state)
            ):
                raise same_mover(state)
            state, steps = (start, 0) if is_over else (next_state, steps)

    def _check_rows(self, oracle: Batched, state: Any, action: int) -> None:
        """Refuse a batched step that does not sample its rows independently."""
        seed_sequences = [
            np.random.SeedSequence(self.seed, spawn_key=(Key.INSPECTION, WALK, k))
            for k in range(LOOKED_BATCHES)
        ]
        try:
            are_independent = rows_apart(
                oracle, state, action, seed_sequences, LOOKED_ROWS
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            return  # the engine reports the fault
        self.calls += LOOKED_BATCHES * LOOKED_ROWS
        if not are_independent:
            raise dependent_rows(state, action)

    def repeat_calls(self, looked: Looks) -> None:
        """Call the pairs once more; they must give the same answers."""
        for earlier_look in looked:
            if not self._in_time():
                return
            rng = self._stream(earlier_look.place)
            self._compare(
                earlier_look,
                self._call(earlier_look.state, earlier_look.action, rng),
                SecondCall.AGAIN,
            )
            self._check_taken(earlier_look, rng)

    def _inspect_pair(self, state: Any, action: int, steps: int = 0) -> Look:
        """The inspection of one pair, called twice from equal streams.

        The walk has come to its state in so many ``steps``.
        """
        stream_place = len(self.looked) + 1
        self.calls_before_pair = calls_before = self.calls
        profile = self.problem.profile(state)
        self._check_bounds(state)
        self._check_left(state, steps)
        state_copy = copy_state(state)
        # The step gets a copy, so that the caller's own state stays as it is.
        step_state = state if state_copy is None else copy.deepcopy(state_copy)
        rng = self._stream(stream_place)
        words_before = rng.words.copy()
        first_answer = self._call(step_state, action, rng)
        words_after = tuple(rng.words.tolist())
        next_state_copy = copy_state(first_answer[1])
        self._check_untouched(state_copy, step_state, action)
        pair_look = Look(
            step_state,
            action,
            stream_place,
            first_answer,
            next_state_copy,
            profile,
            words_after,
        )
        # A step that took nothing from its stream, or is declared to take
        # nothing, must give the same answer from any other stream.
        is_certain = self.problem.deterministic or words_after == tuple(
            words_before.tolist()
        )
        # The same object is used again, since a cache may go by its identity.
        rng.words[:] = (
            self._stream(OTHER + stream_place).words if is_certain else words_before
        )
        try:
            second_action = (
                make_wary(self.problem, action) if is_wary(self.problem) else action
            )
            second_answer = self._call(step_state, second_action, rng)
        except InsistsOnInt:  # the first call succeeded: nothing to compare here
            second_answer = None
        self._check_untouched(state_copy, step_state, action)
        if second_answer is not None:
            self._compare(
                pair_look,
                second_answer,
                SecondCall.ELSEWHERE if is_certain else SecondCall.TWICE,
            )
        if second_answer is not None and not is_certain:
            self._check_taken(pair_look, rng)
        # After the run the pair takes one call less. Pairs whose states cannot
        # be compared took more calls, and will again.
        self.last_pair_calls = 2 * (self.calls - calls_before) - 1
        self.calls_left -= self.last_pair_calls
        self.looked.append(pair_look)
        return pair_look

    def _check_taken(self, earlier_look: Look, rng: Stream) -> None:
        """Refuse a call that left its stream elsewhere than the first one did.

        Equal streams must end at the same place. A call that takes less than
        before returns a remembered answer.
        """
        if tuple(rng.words.tolist()) != earlier_look.taken:
            raise oracle_remembers(earlier_look.state, earlier_look.action)

    def _check_untouched(self, state_copy: Any, state: Any, action: int) -> None:
        """Refuse a state that was written into.

        A part that was only filled in counts as a cache, if futures stay equal.
        """
        is_same = True if state_copy is None else is_unchanged(state_copy, state)
        if is_same is None:
            is_same = self._same_future(
                copy.deepcopy(state_copy), state, OTHER + len(self.looked)
            )
        if not is_same:
            raise written_into(state_copy, state, action)

    def _check_bounds(self, state: Any) -> None:
        """Refuse bounds on V that depend on more than the state."""
        problem = self.problem
        if problem.value_gap is None or problem.is_terminal(state):
            return
        first_bounds, second_bounds = (bounds_at(problem, state) for _ in range(2))
        if first_bounds != second_bounds:
            raise answers_changed(state)

    def _check_left(self, state: Any, steps: int) -> None:
        """Refuse bounds on V that the steps left of a horizon do not allow.

        A search that believes them may never meet a state with fewer steps left.
        """
        problem = self.problem
        if problem.value_gap is None or problem.horizon is None:
            return
        steps_left = problem.horizon - steps
        value_range = problem.facts.value_bounds(problem.mover(state), steps_left)
        bounds_at(problem, state, value_range)

    def _stream(self, stream_place: int) -> Stream:
        return stream(self.seed, Key.INSPECTION, stream_place)

    def _call(self, state: Any, action: int, rng: Stream) -> Answer:
        # after the run the pair takes one call less than before it
        if (
            self.calls_before_pair is not None
            and 2 * (self.calls - self.calls_before_pair) + 1 > self.calls_left
        ):
            raise _NoCallsLeft
        self.calls += 1
        facts, start_time = self.problem.facts, self.stopwatch.elapsed()
        reward, next_state, has_ended = call_oracle(
            self.problem, state, action, rng, *facts.reward_range, facts.terminals
        )
        self.call_seconds.append(self.stopwatch.elapsed() - start_time)
        return (
            reward,
            next_state if self.retype is None else self.retype(next_state),
            has_ended,
        )

    def _compare(
        self, earlier_look: Look, second_answer: Answer, second_call: SecondCall
    ) -> None:
        reward, next_state, has_ended = earlier_look.answer
        if self.problem.profile(earlier_look.state) != earlier_look.profile:
            raise answers_changed(earlier_look.state)
        self._check_bounds(earlier_look.state)
        if (
            earlier_look.kept is not None
            and is_unchanged(earlier_look.kept, next_state) is False
        ):
            raise OracleError(
                "A next state changed when the oracle was called again: "
                f"{earlier_look.kept!r} became {next_state!r} {earlier_look.where}. "
                "Calls share one object; return a fresh state from every call."
            )
        is_alike = reward == second_answer[0] and has_ended == second_answer[2]
        if (
            is_alike
            and not has_ended
            and same_state(next_state, second_answer[1]) is not True
        ):
            is_alike = self._same_future(
                next_state, second_answer[1], earlier_look.place
            )
        if not is_alike:
            both_answers = f"{earlier_look.answer[:2]!r} and {second_answer[:2]!r}"
            raise OracleError(
                f"{second_call.value} streams differ {earlier_look.where}: {both_answers}. "
                f"{self._remedy(second_call)}"
            )

    def _remedy(self, second_call: SecondCall) -> str:
        if second_call is SecondCall.ELSEWHERE and self.problem.deterministic:
            return (
                "deterministic=True is declared, so one call should tell all; drop "
                "deterministic=."
            )
        if second_call is SecondCall.ELSEWHERE:
            return (
                "The oracle uses rng without moving it on (a copy of it?) or takes "
                "randomness from elsewhere; draw every number from the rng that step "
                "is given."
            )
        return (
            "The oracle takes randomness from elsewhere (a global generator, the "
            "clock) or remembers earlier calls; draw every number from the rng that "
            "step is given, and keep nothing between calls."
        )

    def _same_future(self, x: Any, y: Any, stream_place: int) -> bool:
        return same_future(
            self.problem,
            x,
            y,
            lambda state, action, i: self._call(
                state, action, stream(self.seed, Key.INSPECTION, stream_place, i)
            ),
        )


def describe_inspections(
    pairs: int, asked: int, looks: int | None, doubts: str = ""
) -> str:
    """The findings about the step, as a sentence for a certificate.

    ``pairs`` were inspected before the run, ``asked`` calls were made after it,
    and ``looks`` calls were watched while it ran (None: by workers, which do
    not count). ``doubts`` names the limits of that watch.
    """
    if pairs == 0:
        return f"not looked at{doubts}"
    after_text = (
        "again after it" if asked >= pairs else f"{asked} of them again after it"
    )
    repeated_text = f"{pairs} calls were repeated before the run, {after_text}"
    if looks is None:
        return (
            f"{repeated_text}; workers, which import the problem's module anew, looked at "
            "random calls"
        )
    return (
        f"{repeated_text}, and {looks:,} were looked at while it ran"
        if looks
        else repeated_text
    ) + doubts


def sendable(looked: Looks) -> Looks:
    """The inspections if they can be sent between processes, otherwise none.

    Without them nothing is called again after the run.
    """
    try:
        pickle.dumps(looked)
    except Exception:
        return ()
    return looked


@stoppable()
def look_once(problem: Problem, state: Any, seed: int) -> int:
    """The oracle calls of one inspection of one action, 0 where a state cannot change.

    It is for searches that promise nothing.
    """
    state_copy, step_state = copy_state(state), copy_state(state)
    if problem.tables is not None or state_copy is None:
        return 0
    action, facts = problem.legal_actions(state)[0], problem.facts
    call_oracle(
        problem,
        step_state,
        action,
        stream(seed, Key.INSPECTION, WALK),
        *facts.reward_range,
        facts.terminals,
    )
    if is_unchanged(state_copy, step_state) is False:
        raise written_into(state_copy, step_state, action)
    return 1


def retyped_by(problem: Problem, state: Any) -> Callable[[Any], Any] | None:
    """A function that gives a state from a compiled step its type back.

    It is ``states.codec.make_retype``; None for plain Python and tables.
    """
    if not is_compiled(problem.oracle):
        return None
    from smoothcruiser.jit.oracle import next_state_type, state_type
    from smoothcruiser.states.codec import make_retype

    return make_retype(next_state_type(problem.oracle, state_type(state)))
