"""A key of everything that an environment holds, so that searches know it again.

The behaviour of a copy depends on its contents. Two environments with equal contents
are one state:

    key = BLAKE2b-256 of the walk through attributes and containers from the root

The walk writes every number, text and array, the type and the number of fields of
every object, and for an object that was met before which one it is: "the current
player is players[0]" and "… is players[1]" differ although each player does not. Two
walks that differ have one key with probability 2^-256. Generators are left out: the
planner's takes their place.

It is sound where all that steps depend on can be walked. So an object is refused
(``HiddenContents``) if its memory can hold more than its named fields: an emulator, a
physics engine, an iterator, a Python function with a closure that can be written into.
The contents of classes and modules are not walked: all copies share them, and ``trial``
refuses steps that change them. Out of scope: in which order a set lists its members,
which copies do not keep either.

A trial: does an environment put into a state continue as one never touched?

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

import collections
import enum
import functools
import hashlib
import logging
import random
import struct
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.adapters.gymnasium.copies import (
    GENERATORS,
    Path,
    contents,
    first_difference,
    format_path,
    reward_number,
    surroundings,
    title,
)
from smoothcruiser.adapters.gymnasium.oracles import EnvOracle
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.states.identity import is_opaque, same_state

ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None), range))
LISTS = (list, tuple, collections.deque)
NAMED = (type, types.ModuleType, types.BuiltinFunctionType, logging.Logger)
# the seed of a generator that the planner's has replaced
SEEDS = frozenset(("_np_random_seed",))
POINTER = struct.calcsize("P")


# the assumption of a certificate where such keys merge states
ASSUMPTION = (
    "copies that hold the same in all their attributes are one state (their future "
    "depends on nothing else; tried when the problem was made)"
)


@dataclass(frozen=True)
class Contents:
    """The key of a problem with snapshots that have ``whole`` as theirs."""

    assumption: str = ASSUMPTION

    def __call__(self, state: Any) -> Any:
        """The key of a snapshot."""
        return state.key


class HiddenContents(InvalidInput):
    """An environment holds an object that cannot be inspected."""


def whole(env: Any, left_out: frozenset[str] = frozenset()) -> bytes:
    """The key of an environment.

    Args:
        env: an environment, or the simulator inside a view.
        left_out: attributes that no step changes, at any depth.
    """
    walk = _Walk(left_out | SEEDS)
    try:
        walk.write(env, ())
    except RecursionError as error:
        raise HiddenContents(
            f"{type(env).__name__} holds a chain of objects that is too long to follow."
        ) from error
    walk_text = "\x1f".join(walk.words).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(walk_text, digest_size=32).digest()


class _Walk:
    """One walk: the words so far, and the number of every object that was met."""

    def __init__(self, left_out: frozenset[str]) -> None:
        self.left_out = left_out
        self.words: list[str] = []
        self.met: dict[int, int] = {}

    def write(self, component: Any, path: Path) -> None:
        value_type = type(component)
        if value_type in ATOMS or (
            value_type is tuple
            and all(type(element) in ATOMS for element in component)
        ):
            self.words.append(repr(component))
            return
        if isinstance(component, np.generic):
            if component.dtype.hasobject:
                raise _hidden(component, path)
            self.words.append(f"{component.dtype.str}{component.tobytes().hex()}")
            return
        if isinstance(component, enum.Enum):
            self.words.append(f"{_name(value_type)}.{component.name}")
            return
        object_number = self.met.get(id(component))
        if object_number is not None:
            self.words.append(f"@{object_number}")
            return
        self.met[id(component)] = len(self.met)
        self.open(component, path)

    def open(self, component: Any, path: Path) -> None:
        """Write an object that is met for the first time."""
        value_type: Any = type(component)
        if isinstance(component, GENERATORS):
            self.words.append("generator")
        elif isinstance(component, NAMED):
            self.words.append(f"{_name(value_type)} {_name(component)}")
        elif isinstance(component, np.dtype) and not component.hasobject:
            self.words.append(f"dtype {component.str} {component.descr}")
        elif value_type is np.ndarray:
            self.array(component, path)
        elif isinstance(component, types.FunctionType):
            self.function(component, path)
        elif isinstance(component, types.MethodType):
            self.words.append(f"method {_name(component.__func__)}")
            self.write(component.__self__, (*path, "self"))
        elif isinstance(component, set | frozenset):
            self.members(component, path)
        elif isinstance(component, (dict, *LISTS)):
            self.container(component, path)
        elif shows_all(value_type):
            self.fields(_fields(component), _name(value_type), path)
        else:
            raise _hidden(component, path)

    def array(self, component: Any, path: Path) -> None:
        self.words.append(f"{component.dtype.str}{component.shape}")
        if component.dtype == object:
            for index, element in enumerate(component.flat):
                self.write(element, (*path, str(index)))
        elif component.dtype.hasobject:
            raise _hidden(component, path)
        else:
            self.words.append(component.tobytes().hex())

    def function(self, component: Any, path: Path) -> None:
        """A function by its place, with the values that it closes over."""
        cell_values = [cell.cell_contents for cell in component.__closure__ or ()]
        bound_values = [
            *cell_values,
            *(component.__defaults__ or ()),
            *(component.__kwdefaults__ or {}).values(),
        ]
        if vars(component) or any(
            type(bound_value) not in ATOMS for bound_value in bound_values
        ):
            raise _hidden(component, path)
        self.words.append(
            f"{_name(component)} {component.__code__.co_firstlineno} {bound_values!r}"
        )

    def members(self, component: Any, path: Path) -> None:
        """A set of plain values, in sorted order."""
        member_words = []
        for member in component:
            member_walk = _Walk(self.left_out)
            member_walk.write(member, path)
            if not _is_plain(member):
                raise _hidden(member, path)
            member_words.append(" ".join(member_walk.words))
        self.words.append(f"{_name(type(component))} {sorted(member_words)!r}")

    def container(self, component: Any, path: Path) -> None:
        """A list or a dict in its order; with its fields, where its class has some."""
        self.words.append(f"{_name(type(component))} {len(component)}")
        if isinstance(component, dict):
            for key, value in component.items():
                if not _is_plain(key):
                    raise _hidden(key, path)
                self.write(key, path)
                self.write(value, (*path, str(key)))
        else:
            for index, value in enumerate(component):
                self.write(value, (*path, str(index)))
        extra_fields = _fields(component)
        if extra_fields:
            self.fields(extra_fields, "and", path)

    def fields(self, field_values: dict[str, Any], word: str, path: Path) -> None:
        field_names = sorted(
            field_name
            for field_name in field_values
            if field_name not in self.left_out
        )
        self.words.append(f"{word} {len(field_names)}")
        for field_name in field_names:
            self.words.append(field_name)
            self.write(field_values[field_name], (*path, field_name))


@functools.cache
def shows_all(value_type: Any) -> bool:
    """Whether an object's memory holds its named fields and nothing else."""
    num_offsets = bool(value_type.__dictoffset__ > 0) + bool(
        value_type.__weakrefoffset__ > 0
    )
    largest_size = object.__basicsize__ + POINTER * (
        len(_slots(value_type)) + num_offsets
    )
    return bool(
        value_type.__itemsize__ == 0 and value_type.__basicsize__ <= largest_size
    )


@functools.cache
def _slots(value_type: Any) -> tuple[str, ...]:
    """The names of a class's slots, as they are stored."""
    slot_names = []
    for cls in value_type.__mro__:
        slots = vars(cls).get("__slots__", ())
        for slot_name in (slots,) if isinstance(slots, str) else slots:
            if slot_name not in ("__dict__", "__weakref__"):
                is_private = slot_name.startswith("__") and not slot_name.endswith(
                    "__"
                )
                slot_names.append(
                    f"_{cls.__name__.lstrip('_')}{slot_name}"
                    if is_private
                    else slot_name
                )
    return tuple(slot_names)


def _fields(component: Any) -> dict[str, Any]:
    value_type: Any = type(component)
    slot_values = {
        slot_name: getattr(component, slot_name)
        for slot_name in _slots(value_type)
        if hasattr(component, slot_name)
    }
    return slot_values | getattr(component, "__dict__", {})


def _is_plain(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return all(_is_plain(component) for component in key)
    return type(key) in ATOMS or isinstance(key, np.generic | enum.Enum)


def _name(definition: Any) -> str:
    name = getattr(definition, "__qualname__", None)
    name = name or getattr(definition, "__name__", None)
    name = name or getattr(definition, "name", "")
    return f"{getattr(definition, '__module__', '')}.{name}"


def _hidden(component: Any, path: Path) -> HiddenContents:
    return HiddenContents(
        f"{format_path(path)} holds a {type(component).__name__}, which does not show "
        "what is in it; let it be numbers, texts, lists and dicts."
    )


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
