"""A trial: does an environment put into a state continue as one never touched?

One environment walks without interruption. At some steps its state is marked.
Then the oracle goes back to each mark and takes the same steps under equal
streams, after a detour that leaves traces if traces can be left. Compared are
rewards, ends, observations, and everything that the environment holds. So a
copy that forgets, a state attribute that is only part of the state, a counter
shared by all copies, and numbers from elsewhere than the planner's stream are
found where they show in these steps, or in the attributes that they change.

The walking environment is never restored: a broken way into it cannot pass by
being compared with itself. A trial finds faults and proves nothing: what hides
in compiled memory for longer than ``WALK`` steps goes unseen.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from smoothcruiser.adapters.gymnasium.copies import (
    contents,
    different,
    one_number,
    spelled,
    surroundings,
    title,
)
from smoothcruiser.adapters.gymnasium.oracles import EnvOracle
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.jit.streams import stream
from smoothcruiser.problem.states import is_opaque, same_state

# steps walked, those marked, steps compared after each
WALK, MARKS, AHEAD = 12, (0, 1, 3, 7), 4
# the second begins with a reset, whose samples may be hidden beside the state
EPISODES = 2
# some environments keep their first state in float32 and all later ones in float64
CLOSE = 1e-5
TRIAL = 105  # spawn key of the streams used here

Taken = tuple[Any, float, bool, bool]  # observation, reward, terminated, truncated


def trial(oracle: EnvOracle) -> None:
    """Refuse an oracle whose environments do not go on as the one they stand for."""
    name = title(oracle.env)
    try:
        for episode in range(EPISODES):
            _walk(oracle, name, episode)
        _equal_streams(oracle, name)
    except (SmoothcruiserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        first = str(error).split("\n")[0]
        raise InvalidInput(
            f"A copy of {name} raised {type(error).__name__} in its first steps: "
            f"{first}; it needs something that a copy does not have, or does not take "
            "these actions."
        ) from error


def _walk(oracle: EnvOracle, name: str, episode: int) -> None:
    walker = oracle.twin(oracle.env)
    oracle.bits.bind(stream(TRIAL, episode))
    if episode:
        walker = oracle.begun(walker)
    before, marks, taken = _global_state(), {}, []
    for i in range(WALK):
        if i in MARKS:
            marks[i] = oracle.mark(walker), contents(walker)
        taken.append(_step(oracle, walker, episode, i))
        if taken[-1][2] or taken[-1][3]:
            break
    if _global_state() != before:
        raise InvalidInput(
            f"A step of {name} draws from the global generator of random or "
            "numpy.random; let it draw from self.np_random."
        )
    strange = oracle.strange_generator(walker)
    if strange is not None:
        raise InvalidInput(
            f"A step of {name} makes a generator of its own ({spelled(strange)}); "
            "let it draw from self.np_random."
        )
    after, around = contents(walker), surroundings(walker)
    for i, (mark, held) in marks.items():
        _go_back(oracle, name, episode, i, mark, held, taken)
    shared = different(after, contents(walker)) or different(
        around, surroundings(walker)
    )
    if shared is not None:
        raise InvalidInput(
            f"Copies of {name} share {spelled(shared)}: a step of one changes it for "
            "all; keep it in the environment itself, so that a copy has its own."
        )


def _go_back(
    oracle: EnvOracle,
    name: str,
    episode: int,
    i: int,
    mark: Any,
    held: Any,
    taken: list[Taken],
) -> None:
    """Take the steps after a mark again, and compare."""
    _step(oracle, oracle.rewound(mark), EPISODES + episode, i + 1)  # a detour
    env = oracle.rewound(mark)
    where = oracle.different(held, contents(env))
    if where is not None:
        raise oracle.forgets(spelled(where))
    for j in range(i, min(i + AHEAD, len(taken))):
        found = _step(oracle, env, episode, j)
        what = _difference(taken[j], found)
        if what:
            raise InvalidInput(
                f"{name}, put back to where it was {i} steps into an episode, {what} "
                f"{j - i + 1} steps later: it keeps "
                f"something that {oracle.what} does not hold, or draws from elsewhere "
                "than self.np_random."
            )


def _equal_streams(oracle: EnvOracle, name: str) -> None:
    """A call is a function of the state, the action and the stream."""
    state = oracle.here()
    action = oracle.attempt(oracle.env, 0)
    one, other = (oracle(state, action, stream(TRIAL, EPISODES)) for _ in range(2))
    if one[0::2] != other[0::2] or not (
        same_state(one[1], other[1]) or is_opaque(one[1])
    ):
        raise InvalidInput(
            f"Two steps of {name} from one state under equal streams differ; let "
            "it draw from self.np_random."
        )


def _step(oracle: EnvOracle, env: Any, episode: int, i: int) -> Taken:
    oracle.bits.bind(stream(TRIAL, episode, i))
    action = oracle.actions[oracle.attempt(env, 7 * i + episode)]
    observation, reward, terminated, truncated, _ = env.step(action)
    seen = _kept(oracle.shown(env, observation))
    return seen, one_number(env, reward), bool(terminated), bool(truncated)


def _kept(observation: Any) -> Any:
    """An observation that later steps cannot change."""
    if isinstance(observation, dict):
        return {name: _kept(part) for name, part in observation.items()}
    if isinstance(observation, tuple | list):
        return [_kept(part) for part in observation]
    return np.array(observation)


def _difference(one: Taken, other: Taken) -> str:
    if not np.isclose(one[1], other[1], rtol=CLOSE, atol=CLOSE, equal_nan=True):
        return f"pays {other[1]!r} in place of {one[1]!r}"
    if one[2:] != other[2:]:
        return "ends in one case and not in the other"
    return "" if _close(one[0], other[0]) else "shows another observation"


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _close(part, other[name]) for name, part in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(
            _close(x, y) for x, y in zip(one, other, strict=True)
        )
    if one.shape != other.shape:
        return False
    if one.dtype.kind not in "fc":
        return bool(np.all(one == other))
    return bool(np.allclose(one, other, rtol=CLOSE, atol=CLOSE, equal_nan=True))


def _global_state() -> tuple[Any, str]:
    with np.printoptions(threshold=10_000):
        return random.getstate(), repr(np.random.get_state())  # noqa: NPY002
