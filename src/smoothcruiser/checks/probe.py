"""The tools of ``check``: checked calls, random walks, comparisons of answers."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from smoothcruiser.errors import Hung, SmoothcruiserError
from smoothcruiser.jit.keys import CheckKey, Key
from smoothcruiser.problem.answers import (
    Answer,
    at_pair,
    check_order,
    early_payoff,
    oracle_hung,
    oracle_raised,
    reward_outside,
    undeclared_end,
    unpack_answer,
)
from smoothcruiser.problem.futures import same_future
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import same_state
from smoothcruiser.problem.totals import pays_early
from smoothcruiser.problem.wary_actions import InsistsOnInt, WaryAction, call_warily

# random walks, steps of each, samples of a pair: some 700 calls in all, fewer for
# slow oracles
WALKS, STEPS, SAMPLES = 8, 10, 16
FALSE_ALARM = 1e-6  # of each statistical test
ENOUGH_SECONDS = 5.0  # after which no further state is inspected

Verdict = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One question and its answer."""

    name: str
    verdict: Verdict
    sentence: str


@dataclass
class Probe:
    """Samples of a problem, checked for faults, and a record of what they met."""

    problem: Problem
    seed: int
    call_seconds: float
    calls: int = 0
    rewards: tuple[float, float] = (math.inf, -math.inf)
    ends: int = 0
    # (state, action) met by the walks
    pairs: list[tuple[Any, int]] = field(default_factory=list)
    # whether the call at that pair took numbers from its stream
    used_stream: list[bool] = field(default_factory=list)
    end_states: list[Any] = field(default_factory=list)  # states where an episode ended
    seconds_spent: float = 0.0

    def stream(self, use: CheckKey, *key: int) -> Any:
        """A separate stream for every use."""
        from smoothcruiser.jit.streams import stream

        return stream(self.seed, Key.CHECK, use, *key)

    def sample(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One checked call; of a ``WaryAction`` as in ``problem.answers.answered``."""
        self.calls += 1
        start_time = time.perf_counter()
        try:
            if isinstance(action, WaryAction):
                answer = call_warily(self.problem.oracle, state, action, rng)
            else:
                answer = self.problem.oracle(state, action, rng)
        except (SmoothcruiserError, KeyboardInterrupt, InsistsOnInt):
            raise
        except BaseException as error:
            if isinstance(error, Hung):
                raise oracle_hung(self.call_seconds, at_pair(state, action)) from error
            raise oracle_raised(error, at_pair(state, action)) from error
        finally:
            self.seconds_spent += time.perf_counter() - start_time
        reward, next_state, has_ended = unpack_answer(answer, state, action)
        if isinstance(action, WaryAction):
            check_order(answer, state, action)
        if not math.isnan(reward):
            self.rewards = (min(self.rewards[0], reward), max(self.rewards[1], reward))
        low, high = self.problem.facts.reward_range
        if not low <= reward <= high:
            raise reward_outside(reward, at_pair(state, action), low, high)
        if has_ended and not self.problem.facts.terminals:
            raise undeclared_end(at_pair(state, action))
        if pays_early(self.problem, reward, next_state, has_ended):
            raise early_payoff(reward, at_pair(state, action))
        has_ended = has_ended or self.problem.is_terminal(next_state)
        self.ends += has_ended
        if has_ended and len(self.end_states) < WALKS:
            self.end_states.append(next_state)
        return reward, next_state, has_ended

    def is_same_answer(
        self, left: Answer, right: Answer, use: CheckKey, *key: int
    ) -> bool:
        """Whether two answers have equal rewards, ends, and next states or futures."""
        if left[0] != right[0] or left[2] != right[2]:
            return False
        return (
            left[2]
            or same_state(left[1], right[1]) is True
            or self.same_future(left[1], right[1], use, *key)
        )

    def same_future(
        self, first_state: Any, second_state: Any, use: CheckKey, *key: int
    ) -> bool:
        """Whether two states pay the same under equal streams."""
        return same_future(
            self.problem,
            first_state,
            second_state,
            lambda state, action, i: self.sample(
                state, action, self.stream(use, *key, i)
            ),
        )

    def sample_walk(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One checked call of a walk.

        Its pair is recorded, with whether the call took anything from its stream.
        """
        words_before = rng.words.tolist()
        answer = self.sample(state, action, rng)
        self.pairs.append((state, action))
        self.used_stream.append(rng.words.tolist() != words_before)
        return answer

    def pair_indices(self, most: int) -> list[int]:
        """Indices of ``pairs`` to inspect, spread over all; fewer if calls are slow."""
        per_call = self.seconds_spent / max(1, self.calls)
        affordable = max(2, int(ENOUGH_SECONDS / max(per_call * SAMPLES * 2, 1e-9)))
        num_pairs = min(most, affordable, len(self.pairs))
        return [i * len(self.pairs) // num_pairs for i in range(num_pairs)]

    def some_pairs(self, most: int) -> list[tuple[Any, int]]:
        """Some of the ``pairs``, to inspect."""
        return [self.pairs[i] for i in self.pair_indices(most)]
