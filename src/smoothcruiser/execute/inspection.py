"""A look at the step before a run and after it: does it answer by its arguments alone?

A promise rests on what no planner can prove: the step draws all its randomness from ``rng``, remembers
nothing between calls, leaves the state it is given alone and hands out states that nobody changes later.
Here each of these is put to the test at a few pairs (state, action): every action of the asked state, then
pairs met by a random walk.

  before the run   each pair is called twice from equal streams: the answers must agree, and neither the
                   state nor an answer given earlier may have changed
  after the run    each pair is called once more from the same stream and must answer as it did

Answers agree if reward and end are equal and the next states hold equal values. Where they do not, or show
nothing to compare, their futures decide: both are stepped on from equal streams and must pay the same.

The streams have a key of their own, so a run's bits do not depend on what was looked at. The calls are
counted. ``check`` looks harder, and at more; this is what ``plan`` does unasked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcruiser.errors import OracleError
from smoothcruiser.execute.python_engine import watched
from smoothcruiser.execute.reference import retyped_by
from smoothcruiser.execute.streams import Stream, stream
from smoothcruiser.problem.answers import Answer, answered
from smoothcruiser.problem.problem import CALLS_PER_LOOK, LOOKED_ACTIONS, Problem
from smoothcruiser.problem.states import copied, same_state, unchanged, written_into

FUTURE = 6  # steps that two next states are followed for where they cannot be compared
STREAM_KEY = 2**31  # of the streams used here: above every action, so that no shard shares one


@dataclass(frozen=True)
class _Looked:
    """One pair, the stream it was called from and what came of it."""

    state: Any
    action: int
    place: int
    answer: Answer
    kept: Any  # a copy of the next state; None where it cannot change or be copied


class Inspection:
    """The pairs that were looked at. ``calls`` counts the oracle calls made so far."""

    def __init__(self, problem: Problem, state: Any, seed: int, most_calls: int | None = None) -> None:
        """Look before a run; raises ``OracleError`` for a step that breaks its contract."""
        self.problem, self.seed = problem, seed
        self.calls = 0
        self.looked: list[_Looked] = []
        if problem.tables is not None or problem.is_terminal(state):
            return
        self.retype = retyped_by(problem, state)
        self.most = (problem.inspection_calls if most_calls is None else most_calls) // CALLS_PER_LOOK
        with watched(self, problem.call_seconds):
            self._look(state)

    def _look(self, start: Any) -> None:
        actions = self.problem.legal_actions(start)
        shown = min(len(actions), LOOKED_ACTIONS)
        for i in range(min(shown, self.most)):
            self._pair(start, actions[i * len(actions) // shown])
        state, steps = start, 0
        walk = stream(self.seed, STREAM_KEY, 0)
        while len(self.looked) < self.most:
            actions = self.problem.legal_actions(state)
            found = self._pair(state, actions[walk.integers(len(actions))])
            _, after, ended = found.answer
            steps += 1
            over = ended or self.problem.is_terminal(after) or steps == self.problem.horizon
            if over:
                steps = 0
            elif self.problem.facts.alternating and self.problem.mover(after) == self.problem.mover(state):
                raise OracleError(f"alternating=True, but state {state!r} led to a state of the same player; drop alternating=.")
            state = start if over else after

    def _pair(self, state: Any, action: int) -> _Looked:
        """Call one pair twice from equal streams."""
        place = len(self.looked) + 1
        before = copied(state)
        first = self._call(state, action, self._stream(place))
        if before is not None and unchanged(before, state) is False:
            raise written_into(before, state, action)
        kept = copied(first[1])
        second = self._call(state, action, self._stream(place))
        if before is not None and unchanged(before, state) is False:
            raise written_into(before, state, action)
        found = _Looked(state, action, place, first, kept)
        self._compare(found, second, "Two calls")
        self.looked.append(found)
        return found

    def again(self) -> None:
        """Ask the same questions after the run; raises ``OracleError`` where an answer is another one now."""
        with watched(self, self.problem.call_seconds):
            for found in self.looked:
                answer = self._call(found.state, found.action, self._stream(found.place))
                self._compare(found, answer, "Calls before and after the run")

    def sentence(self, looks: int | None) -> str:
        """What was seen of the step, for a certificate; ``looks`` were made while it ran, None: by workers."""
        if not self.looked:
            return ""
        found = f"{len(self.looked)} calls were repeated before the run and asked again after it"
        if looks is None:
            return f"{found}, and workers looked at random calls"
        return f"{found}, and {looks:,} were looked at while it ran" if looks else found

    def _stream(self, place: int) -> Stream:
        return stream(self.seed, STREAM_KEY, place)

    def _call(self, state: Any, action: int, rng: Stream) -> Answer:
        self.calls += 1
        facts = self.problem.facts
        reward, after, ended = answered(self.problem, state, action, rng, *facts.reward_range, facts.terminals)
        return reward, after if self.retype is None else self.retype(after), ended

    def _compare(self, found: _Looked, other: Answer, when: str) -> None:
        reward, after, ended = found.answer
        where = f"at state {found.state!r}, action {found.action}"
        if found.kept is not None and unchanged(found.kept, after) is False:
            raise OracleError(
                f"A next state changed when the oracle was called again: {found.kept!r} became {after!r} {where}. "
                "Calls share one object; return a fresh state from every call."
            )
        alike = reward == other[0] and ended == other[2]
        if alike and not ended and same_state(after, other[1]) is not True:
            alike = self._same_future(after, other[1])
        if not alike:
            raise OracleError(
                f"{when} from equal streams differ {where}: {found.answer[:2]!r} and {other[:2]!r}. The oracle takes "
                "randomness from elsewhere (a global generator, the clock) or remembers earlier calls; draw every "
                "number from the rng that step is given, and keep nothing between calls."
            )

    def _same_future(self, x: Any, y: Any) -> bool:
        """Whether two next states that cannot be compared, or differ, pay the same under equal streams."""
        problem, key = self.problem, len(self.looked)
        left = FUTURE if problem.horizon is None else min(FUTURE, problem.horizon - 1)
        for i in range(left):
            if problem.is_terminal(x) or problem.is_terminal(y):
                return problem.is_terminal(x) and problem.is_terminal(y)
            actions = problem.legal_actions(x)
            if problem.mover(x) != problem.mover(y) or actions != problem.legal_actions(y):
                return False
            action = actions[i % len(actions)]
            one, other = (self._call(z, action, stream(self.seed, STREAM_KEY, key, i)) for z in (x, y))
            if one[0] != other[0] or one[2] != other[2]:
                return False
            if one[2]:
                return True
            x, y = one[1], other[1]
        return True


def look_once(problem: Problem, state: Any, seed: int) -> int:
    """One look at one action, for searches that promise nothing: oracle calls made, 0 where a state cannot change."""
    before = copied(state)
    if problem.tables is not None or before is None:
        return 0
    action, facts = problem.legal_actions(state)[0], problem.facts
    answered(problem, state, action, stream(seed, STREAM_KEY, 0), *facts.reward_range, facts.terminals)
    if unchanged(before, state) is False:
        raise written_into(before, state, action)
    return 1
