"""The tools of ``check``: checked calls, random walks, comparisons of answers.

Tests of the declarations about chance: the rarest outcome, the ends of episodes.

With outcomes of probability p at least, a pair has at most 1/p of them. Where
episodes end within m steps with probability q, from any state, a play that has not
ended after n times m steps has probability (1-q)**n at the most.

The test of bounds on V that are functions of the state, by one backup.

If lower <= V <= upper everywhere, then with z the next state

    F(E[r + gamma lower(z)]) <= V(s) <= upper(s)   and
    F(E[r + gamma upper(z)]) >= V(s) >= lower(s),

since F is monotone. The means are those of a known model, of one sample where the
step is declared deterministic, and otherwise of samples, with a radius by
Hoeffding's inequality. A backup that lies on the wrong side proves the claim false.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from smoothcruiser.errors import Hung, InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.jit.random import CheckKey, Key
from smoothcruiser.problem.assumptions import same_future
from smoothcruiser.problem.bounds import bounds_at, bounds_slack
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, largest
from smoothcruiser.problem.model.known_outcomes import known_row
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import (
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
from smoothcruiser.problem.totals import pays_early
from smoothcruiser.problem.wary_actions import InsistsOnInt, WaryAction, call_warily
from smoothcruiser.states.identity import check_recognizable, same_state

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
    end_states: list[Any] = field(
        default_factory=list
    )  # states where an episode ended
    seconds_spent: float = 0.0

    def stream(self, use: CheckKey, *key: int) -> Any:
        """A separate stream for every use."""
        from smoothcruiser.jit.random.streams import stream

        return stream(self.seed, Key.CHECK, use, *key)

    def sample(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One checked call; of a ``WaryAction`` as in ``problem.step_errors.answered``."""
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
            raise reward_outside(
                reward, at_pair(state, action), low, high, self.problem.minimizes
            )
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

    def sample_walk(
        self, state: Any, action: int, rng: Any
    ) -> tuple[float, Any, bool]:
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


FALSE_ALARM_OF_WALK = 1e-9  # of the walk that does not end
LONGEST = 20_000  # steps of that walk


def check_rarity(probe: Probe) -> Finding:
    """No pair has more outcomes than ``min_probability`` leaves room for."""
    min_probability = probe.problem.min_probability
    if min_probability is None:
        return Finding("rarity", "ok", "no least probability is claimed.")
    max_outcomes = math.floor(1.0 / min_probability * (1.0 + BOUNDS_ROUNDING))
    for i, (state, action) in enumerate(probe.some_pairs(12)):
        outcomes_met: set[Any] = set()
        for k in range(4 * SAMPLES):
            rng = probe.stream(CheckKey.RARITY, i, k)
            reward, next_state, is_over = probe.sample(state, action, rng)
            outcomes_met.add(
                (reward, None if is_over else _state_key(probe, next_state))
            )
            if len(outcomes_met) > max_outcomes:
                raise OracleError(
                    f"min_probability={min_probability:g} leaves room for "
                    f"{max_outcomes} outcomes, but state {state!r}, action {action} "
                    f"had {len(outcomes_met)} in {k + 1} samples; declare the smallest "
                    "probability of all, or drop it."
                )
    return Finding(
        "rarity",
        "ok",
        f"no pair had more than the {max_outcomes} outcomes that min_probability "
        "allows; rarer ones cannot be excluded.",
    )


def _state_key(probe: Probe, state: Any) -> Any:
    """The key of a state; None, the same for all, where states cannot be told apart."""
    try:
        state_key = probe.problem.key_of(state)
        check_recognizable(state, state_key)
    except InvalidInput:
        return None
    return state_key


def check_lengths(probe: Probe) -> Finding:
    """A walk with random actions ends as soon as ``episodes_end`` says it must."""
    problem, claimed_end = probe.problem, probe.problem.episodes_end
    if claimed_end is None:
        return Finding("lengths", "ok", "no end of episodes is claimed.")
    num_blocks = walk_blocks(claimed_end[1])
    num_steps = num_blocks * claimed_end[0]
    if num_steps > LONGEST or (
        problem.horizon is not None and num_steps > problem.horizon
    ):
        return Finding(
            "lengths",
            "ok",
            f"episodes_end was not tested: that takes a walk of {num_steps:,} steps.",
        )
    state, rng = probe.pairs[0][0], probe.stream(CheckKey.LENGTHS)
    for steps_made in range(num_steps):
        if probe.seconds_spent > 2.0 * ENOUGH_SECONDS:
            sentence = (
                f"episodes_end was tested on {steps_made:,} of {num_steps:,} steps "
                "only."
            )
            return Finding("lengths", "ok", sentence)
        actions = problem.legal_actions(state)
        action = actions[int(rng.integers(len(actions)))]
        _, state, is_over = probe.sample(state, action, rng)
        if is_over:
            sentence = (
                f"a walk ended after {steps_made + 1:,} steps; only all prove "
                "episodes_end."
            )
            return Finding("lengths", "ok", sentence)
    raise OracleError(
        f"episodes_end={claimed_end!r} cannot hold: a walk of {num_steps:,} steps with "
        "random actions did not end, which would have a probability below "
        f"{FALSE_ALARM_OF_WALK:g}; declare more steps or a smaller probability, or drop it."
    )


def walk_blocks(probability: float) -> int:
    """The blocks of steps that a walk survives with ``FALSE_ALARM`` at the most."""
    if probability == 1.0:
        return 1
    return math.ceil(math.log(FALSE_ALARM_OF_WALK) / math.log1p(-probability))


STATES = 6  # their backups are sampled
COMPARED_STATES = 200  # at most: their bounds are only compared with each other

Ends = tuple[float, float]  # of the bounds on V(z), or of one backup


def check_state_bounds(probe: Probe) -> Finding:
    """``value_bounds`` as functions: each other, the gap, the rewards, one backup."""
    problem, facts = probe.problem, probe.problem.facts
    compared_pairs = probe.pairs[:COMPARED_STATES]
    for state, _ in compared_pairs:
        if not problem.is_terminal(state):
            bounds_at(problem, state)  # raises an error that names their fault
    pairs = [
        pair for pair in probe.some_pairs(STATES) if not problem.is_terminal(pair[0])
    ]
    num_tests = max(1, 2 * len(pairs) * facts.num_actions)
    for state_index, (state, _) in enumerate(pairs):
        actions = problem.legal_actions(state)
        action_ends = [
            _backup_ends(probe, state_index, state, a, num_tests) for a in actions
        ]
        prior_weights = [
            problem.operator.weights(facts.num_actions)[a] for a in actions
        ]
        smallest_value, largest_value = (
            problem.operator.value(
                [ends[side] for ends in action_ends],
                player=problem.mover(state),
                weights=prior_weights,
            )
            for side in (0, 1)
        )
        lower, upper = bounds_at(problem, state)
        tolerance = bounds_slack(facts)
        if smallest_value > upper + tolerance or largest_value < lower - tolerance:
            raise OracleError(
                f"value_bounds ({lower:.6g}, {upper:.6g}) at state {state!r} cannot "
                "hold: with the bounds of its next states it is worth between "
                f"{smallest_value:.6g} and {largest_value:.6g}; widen them."
            )
    return Finding(
        "bounds",
        "ok",
        (
            f"value_bounds are in order at {len(compared_pairs)} states and fit one "
            f"backup at {len(pairs)}; only a solution proves them."
        ),
    )


def _backup_ends(
    probe: Probe, state_index: int, state: Any, action: int, num_tests: int
) -> Ends:
    """Bounds on Q(state, action) that hold if those of the next states do."""
    problem, facts = probe.problem, probe.problem.facts
    value_low, value_high = facts.value_hull()
    backup_span = facts.reward_span + facts.discount * (
        max(value_high, 0.0) - min(value_low, 0.0)
    )
    rounding = BOUNDS_ROUNDING * (
        2.0 * largest((value_low, value_high)) + facts.reward_bound
    )
    model_row = None
    if problem.outcomes is not None:
        model_row = known_row(problem, state, action)
    if model_row is not None:
        outcome_shares = [p for p, _, _ in model_row]
        outcome_ends = [
            _outcome_ends(probe, r, z, problem.is_terminal(z)) for _, r, z in model_row
        ]
        radius = rounding
    else:
        num_samples = SAMPLES
        if problem.deterministic:
            num_samples = 1
        elif probe.seconds_spent / max(1, probe.calls) < 1e-3:
            num_samples = 20 * SAMPLES
        outcome_shares = [1.0 / num_samples] * num_samples
        outcome_ends = [
            _outcome_ends(
                probe,
                *probe.sample(
                    state,
                    action,
                    probe.stream(CheckKey.VALUE_BOUNDS, state_index, action, k),
                ),
            )
            for k in range(num_samples)
        ]
        radius = rounding
        if not problem.deterministic:
            radius += backup_span * math.sqrt(
                math.log(num_tests / FALSE_ALARM) / (2 * num_samples)
            )
    lower_mean, upper_mean = (
        math.fsum(
            p * ends[side]
            for p, ends in zip(outcome_shares, outcome_ends, strict=True)
        )
        for side in (0, 1)
    )
    return lower_mean - radius, upper_mean + radius


def _outcome_ends(
    probe: Probe, reward: float, next_state: Any, has_ended: bool
) -> Ends:
    """The least and largest value of one outcome, by the bounds of its next state."""
    problem, facts = probe.problem, probe.problem.facts
    next_low = next_high = 0.0
    if not has_ended and facts.horizon != 1:
        next_low, next_high = bounds_at(problem, next_state)
        if facts.horizon is not None:  # no step may be left there
            next_low, next_high = min(next_low, 0.0), max(next_high, 0.0)
    return reward + facts.discount * next_low, reward + facts.discount * next_high
