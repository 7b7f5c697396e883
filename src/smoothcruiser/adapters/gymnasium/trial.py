"""A trial: does an environment put into a state continue as one never touched?

One environment walks without interruption. At some steps its state is marked. Then the
oracle returns to each mark and repeats the same steps under equal streams, after a
detour that leaves traces if traces can be left. Compared are rewards, ends,
observations, and everything that the environment holds. So a copy that forgets, a state
attribute that is only part of the state, a counter shared by all copies, and numbers
from elsewhere than the planner's stream are found where they show in these steps, or in
the attributes that they change.

The walking environment is never restored: a broken way into it cannot pass by being
compared with itself. A trial finds faults and proves nothing: state that hides in
compiled memory for longer than ``NUM_STEPS`` steps goes unnoticed.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from smoothcruiser.adapters.gymnasium.copies import (
    contents,
    first_difference,
    format_path,
    reward_number,
    surroundings,
    title,
)
from smoothcruiser.adapters.gymnasium.oracles import EnvOracle
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.jit.streams import stream
from smoothcruiser.problem.states import is_opaque, same_state

# steps walked, those marked, steps compared after each
NUM_STEPS, MARKED_STEPS, STEPS_AHEAD = 12, (0, 1, 3, 7), 4
# the second begins with a reset: its samples may be hidden beside the state
EPISODES = 2
# some environments keep their first state in float32 and all later ones in float64
TOLERANCE = 1e-5
TRIAL_KEY = 105  # spawn key of the streams used here

TrialStep = tuple[Any, float, bool, bool]  # observation, reward, terminated, truncated


def trial(oracle: EnvOracle) -> None:
    """Refuse an oracle if its environments do not continue as the original does."""
    env_title = title(oracle.env)
    try:
        for episode in range(EPISODES):
            _check_episode(oracle, env_title, episode)
        _check_equal_streams(oracle, env_title)
    except (SmoothcruiserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        first_line = str(error).split("\n")[0]
        raise InvalidInput(
            f"A copy of {env_title} raised {type(error).__name__} in its first steps: "
            f"{first_line}; it needs something that a copy does not have, or does not "
            "take these actions."
        ) from error


def _check_episode(oracle: EnvOracle, env_title: str, episode: int) -> None:
    walker = oracle.twin(oracle.env)
    oracle.bits.bind(stream(TRIAL_KEY, episode))
    if episode:
        walker = oracle.begin_episode(walker)
    global_before, marks, steps_taken = _global_state(), {}, []
    for step_number in range(NUM_STEPS):
        if step_number in MARKED_STEPS:
            marks[step_number] = oracle.mark(walker), contents(walker)
        steps_taken.append(_take_step(oracle, walker, episode, step_number))
        if steps_taken[-1][2] or steps_taken[-1][3]:
            break
    if _global_state() != global_before:
        raise InvalidInput(
            f"A step of {env_title} draws from the global generator of random or "
            "numpy.random; let it draw from self.np_random."
        )
    strange_path = oracle.strange_generator(walker)
    if strange_path is not None:
        raise InvalidInput(
            f"A step of {env_title} makes a generator of its own "
            f"({format_path(strange_path)}); let it draw from self.np_random."
        )
    final_contents, final_surroundings = contents(walker), surroundings(walker)
    for step_number, (mark, marked_contents) in marks.items():
        _check_mark(
            oracle, env_title, episode, step_number, mark, marked_contents, steps_taken
        )
    shared_path = first_difference(
        final_contents, contents(walker)
    ) or first_difference(final_surroundings, surroundings(walker))
    if shared_path is not None:
        raise InvalidInput(
            f"Copies of {env_title} share {format_path(shared_path)}: a step of one "
            "changes it for all; keep it in the environment itself, so that a copy has "
            "its own."
        )


def _check_mark(
    oracle: EnvOracle,
    env_title: str,
    episode: int,
    mark_number: int,
    mark: Any,
    marked_contents: Any,
    steps_taken: list[TrialStep],
) -> None:
    """Take the steps after a mark again, and compare."""
    # a detour
    _take_step(oracle, oracle.rewind(mark), EPISODES + episode, mark_number + 1)
    env = oracle.rewind(mark)
    differing_path = oracle.difference_outside(marked_contents, contents(env))
    if differing_path is not None:
        raise oracle.forgetting_error(format_path(differing_path))
    for step_number in range(
        mark_number, min(mark_number + STEPS_AHEAD, len(steps_taken))
    ):
        repeated_step = _take_step(oracle, env, episode, step_number)
        difference = _difference(steps_taken[step_number], repeated_step)
        if difference:
            raise InvalidInput(
                f"{env_title}, put back to where it was {mark_number} steps into an "
                f"episode, {difference} {step_number - mark_number + 1} steps later: "
                f"it keeps something that {oracle.state_holder} does not hold, or "
                "draws from elsewhere than self.np_random."
            )


def _check_equal_streams(oracle: EnvOracle, env_title: str) -> None:
    """A call is a function of the state, the action and the stream."""
    state = oracle.current_state()
    action = oracle.attempt(oracle.env, 0)
    first_answer, second_answer = (
        oracle(state, action, stream(TRIAL_KEY, EPISODES)) for _ in range(2)
    )
    if first_answer[0::2] != second_answer[0::2] or not (
        same_state(first_answer[1], second_answer[1]) or is_opaque(first_answer[1])
    ):
        raise InvalidInput(
            f"Two steps of {env_title} from one state under equal streams differ; let "
            "it draw from self.np_random."
        )


def _take_step(
    oracle: EnvOracle, env: Any, episode: int, step_number: int
) -> TrialStep:
    oracle.bits.bind(stream(TRIAL_KEY, episode, step_number))
    action = oracle.actions[oracle.attempt(env, 7 * step_number + episode)]
    observation, reward, terminated, truncated, _ = env.step(action)
    frozen_view = _freeze_observation(oracle.trial_view(env, observation))
    return frozen_view, reward_number(env, reward), bool(terminated), bool(truncated)


def _freeze_observation(observation: Any) -> Any:
    """An observation that later steps cannot change."""
    if isinstance(observation, dict):
        return {
            entry_name: _freeze_observation(entry)
            for entry_name, entry in observation.items()
        }
    if isinstance(observation, tuple | list):
        return [_freeze_observation(entry) for entry in observation]
    return np.array(observation)


def _difference(expected: TrialStep, repeated: TrialStep) -> str:
    if not np.isclose(
        expected[1], repeated[1], rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True
    ):
        return f"pays {repeated[1]!r} in place of {expected[1]!r}"
    if expected[2:] != repeated[2:]:
        return "ends in one case and not in the other"
    return "" if _is_close(expected[0], repeated[0]) else "shows another observation"


def _is_close(expected: Any, repeated: Any) -> bool:
    if isinstance(expected, dict):
        return expected.keys() == repeated.keys() and all(
            _is_close(expected_entry, repeated[entry_name])
            for entry_name, expected_entry in expected.items()
        )
    if isinstance(expected, list):
        return len(expected) == len(repeated) and all(
            _is_close(expected_item, repeated_item)
            for expected_item, repeated_item in zip(expected, repeated, strict=True)
        )
    if expected.shape != repeated.shape:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.all(expected == repeated))
    return bool(
        np.allclose(expected, repeated, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    )


def _global_state() -> tuple[Any, str]:
    with np.printoptions(threshold=10_000):
        return random.getstate(), repr(np.random.get_state())  # noqa: NPY002
