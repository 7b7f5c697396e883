"""Private copies of environments, and the contents of an environment.

A planner steps copies, so a promise about an environment is one about its copies. Two
things make a copy another world: forgotten and shared state.

  forgotten   ``EzPickle`` copies an environment by calling its constructor
              again: the copy stands at the beginning. Here it is copied
              attribute by attribute instead.
  shared      a generator, a class attribute, a variable of the module: a step of one
              copy changes the behaviour of another. Generators (NumPy's, and its older
              RandomStates) are replaced by the planner's, functions that close over the
              environment are rebuilt for each copy, and ``surroundings`` sees
              everything else.

A simulator of another library takes part ``inside`` a ``View``: it is a layer like any
other. Out of scope: memory inside compiled objects (an emulator, a physics engine).
Nothing here can see it; ``whole`` compares the behaviour of such environments.
"""

from __future__ import annotations

import collections
import enum
import logging
import math
import random
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.random.generator import legacy
from smoothcruiser.problem.arguments import shorten_value

# Gymnasium's own wrappers that change neither step nor reward; a time limit is not
# part of a state
WATCHERS = (
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
)
PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, enum.Enum)
CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)
OPAQUE = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    logging.Logger,
)
FOREIGN_GENERATORS = (np.random.BitGenerator, random.Random)
# generators that the planner's replaces
GENERATORS = (np.random.Generator, np.random.RandomState)
# generators that are created when they are first used, and descriptions
UNREAD_FIELDS = (
    "_np_random",
    "_np_random_seed",
    "spec",
    "action_space",
    "observation_space",
)
# most things of a module that are read: a notebook may hold anything
MAX_PARTS = 50_000
MAX_BYTES = 10**6  # and the largest array of it that is read
Path = tuple[str, ...]


# --- layers -------------------------------------------------------------------


class View(gymnasium.Env):  # type: ignore[misc,unused-ignore]
    """A simulator of another library as an environment of Gymnasium.

    Its ``step`` and ``reset`` are those of Gymnasium. Copies of the view hold copies of
    ``inside``.
    """

    inside: Any

    def like(self, other: Any) -> Any:
        """A view of another simulator of this kind; anything else as it is."""
        return other


def wrapped_layer(env: Any) -> Any:
    """The layer inside a layer; None for the innermost one."""
    if isinstance(env, View):
        return env.inside
    return env.env if isinstance(env, gymnasium.Wrapper) else None


def layers(env: Any) -> list[Any]:
    """The environment and its wrapped layers, outermost first."""
    env_layers = [env]
    while (env := wrapped_layer(env)) is not None:
        env_layers.append(env)
    return env_layers


def kinds(env: Any) -> list[type]:
    """The types of the layers that a step depends on."""
    return [type(layer) for layer in layers(env) if type(layer) not in WATCHERS]


def strip_watchers(env: Any) -> Any:
    """The environment without the outermost wrappers that only watch or count."""
    while type(env) in WATCHERS:
        env = env.env
    return env


def _strip_inner_watchers(env_copy: Any) -> Any:
    """A private copy without wrappers that only watch or count, at any depth."""
    for layer in layers(env_copy):
        while isinstance(layer, gymnasium.Wrapper) and type(layer.env) in WATCHERS:
            layer.env = layer.env.env
    return strip_watchers(env_copy)


def title(env: Any) -> str:
    """The name of an environment in sentences: its class, or that inside a view."""
    inner_env = env.unwrapped
    return type(
        inner_env.inside if isinstance(inner_env, View) else inner_env
    ).__name__


def reward_number(env: Any, reward: Any) -> float:
    """A reward as a number; several at once, as of many objectives, are refused."""
    try:
        return float(reward)
    except (TypeError, ValueError):
        pass
    reward_array = np.asarray(reward)
    if reward_array.size == 1 and reward_array.dtype.kind in "fiub":
        return float(reward_array.reshape(-1)[0])
    raise InvalidInput(
        f"{title(env)} pays {shorten_value(reward)} for one step, and a planner needs one "
        "number; wrap it in an environment that adds up what counts."
    )


def has_reset(env: Any) -> bool:
    """Whether the environment is in a state, so that a plan can start there.

    ``gymnasium.make`` adds a wrapper that knows. Without it, a state attribute
    that is set, or a copy that accepts a step, says so. An environment that
    cannot be copied is assumed to be in a state.
    """
    for layer in layers(env):
        if isinstance(layer, wrappers.OrderEnforcing):
            return bool(layer.has_reset)
    if any(getattr(env.unwrapped, name, None) is not None for name in ("s", "state")):
        return True
    try:
        env_copy = private_copy(env, np.random.default_rng(0))
    except InvalidInput:
        return True
    try:
        env_copy.step(env_copy.action_space.sample())
    except Exception:
        return False
    return True


# --- contents of an environment -----------------------------------------------


def parts(
    root: Any, name: Path = (), inside: str | None = None
) -> Iterator[tuple[Path, Any]]:
    """Everything reachable through attributes and containers, with the path to it.

    ``inside`` names a module: only objects of its own classes are opened then.
    """
    pending_parts, seen_ids, max_parts = (
        [(name, root)],
        {id(root)},
        math.inf if inside is None else MAX_PARTS,
    )
    while pending_parts and len(seen_ids) <= max_parts:
        path, component = pending_parts.pop()
        yield path, component
        for step_name, child in _children(component, inside):
            child = strip_watchers(child)
            if isinstance(child, PLAIN) or id(child) not in seen_ids:
                seen_ids.add(id(child))
                pending_parts.append(((*path, step_name), child))


def _children(component: Any, inside: str | None) -> list[tuple[str, Any]]:
    if isinstance(component, dict):
        key_texts = (
            repr(key) if isinstance(key, (*PLAIN, tuple)) else f"#{index}"
            for index, key in enumerate(component)
        )
        return list(zip(key_texts, component.values(), strict=True))
    if isinstance(component, list | tuple | collections.deque):
        return [(str(index), value) for index, value in enumerate(component)]
    if isinstance(
        component, (*PLAIN, *OPAQUE, *CONTAINERS, *FOREIGN_GENERATORS, *GENERATORS)
    ):
        return []
    if isinstance(component, np.ndarray):
        return (
            [(str(index), element) for index, element in enumerate(component.flat)]
            if component.dtype == object
            else []
        )
    if inside is not None and type(component).__module__ != inside:
        return []
    slot_names = [
        slot_name
        for cls in type(component).__mro__
        for slot_name in getattr(cls, "__slots__", ())
        if hasattr(component, slot_name)
    ]
    return [
        *getattr(component, "__dict__", {}).items(),
        *((slot_name, getattr(component, slot_name)) for slot_name in slot_names),
    ]


def contents(env: Any) -> dict[Path, Any]:
    """The numbers, texts and arrays that an environment holds, by their paths."""
    return dict(_leaves(parts(env)))


def layer_fields(
    env: Any, harmless: tuple[str, ...] = ()
) -> list[tuple[type, dict[str, Any]]]:
    """The class and the fields of each layer, without descriptions and ``harmless``."""
    left_out = {"env", "inside", *UNREAD_FIELDS, *harmless}
    return [
        (type(layer), {k: v for k, v in vars(layer).items() if k not in left_out})
        for layer in layers(env)
    ]


def surroundings(env: Any) -> dict[Path, Any]:
    """The state that all copies share: contents of its classes and their modules."""
    shared_contents: dict[Path, Any] = {}
    for cls in {cls: None for layer in layers(env) for cls in type(layer).__mro__}:
        module_name = cls.__module__
        if module_name.partition(".")[0] in ("gymnasium", "builtins", "typing", "abc"):
            continue
        module_variables = (
            vars(sys.modules[module_name]) if module_name in sys.modules else {}
        )
        for owner_label, variables in (
            (f"class {cls.__name__}", vars(cls)),
            (f"module {module_name}", module_variables),
        ):
            readable_variables = {
                k: v
                for k, v in variables.items()
                if not k.startswith("__") and not _is_large(v)
            }
            shared_contents |= _leaves(
                parts(readable_variables, (owner_label,), module_name)
            )
    return shared_contents


def _is_large(candidate: Any) -> bool:
    """Whether this is an array that is too large to read at every check."""
    return isinstance(candidate, np.ndarray) and candidate.nbytes > MAX_BYTES


def _leaves(components: Iterator[tuple[Path, Any]]) -> Iterator[tuple[Path, Any]]:
    for path, component in components:
        if any(step_name in UNREAD_FIELDS for step_name in path):
            continue
        if isinstance(component, PLAIN):
            yield path, repr(component)
        elif isinstance(component, np.ndarray) and component.dtype != object:
            yield path, (component.dtype.str, component.shape, component.tobytes())
        elif isinstance(component, set | frozenset):
            yield (
                path,
                (
                    len(component),
                    *sorted(
                        repr(member)
                        for member in component
                        if isinstance(member, (*PLAIN, tuple))
                    ),
                ),
            )
        elif isinstance(component, CONTAINERS):
            yield path, (type(component).__name__, len(component))
        elif isinstance(component, GENERATORS) and path[0].startswith(
            ("class ", "module ")
        ):
            # an environment's own are replaced in copies
            yield path, _generator_position(component)


def _generator_position(generator: Any) -> str:
    """Where a generator is in its sequence."""
    if isinstance(generator, np.random.RandomState):
        with np.printoptions(threshold=10_000):
            return repr(generator.get_state())
    return repr(generator.bit_generator.state)


def first_difference(
    first_contents: dict[Path, Any], second_contents: dict[Path, Any]
) -> Path | None:
    """The path at which two environments hold different values, or None."""
    for path in (*first_contents, *second_contents):
        if first_contents.get(path) != second_contents.get(path):
            return path
    return None


def format_path(path: Path) -> str:
    """A path as the user writes it: ``board.0``, ``class Lake.count``."""
    shown_steps = [step.strip("'") for step in path if step not in ("env", "inside")]
    return ".".join(shown_steps) or "itself"


# --- copies -------------------------------------------------------------------


def private_copy(env: Any, generator: np.random.Generator) -> Any:
    """A copy that shares nothing with ``env`` and samples from ``generator`` only."""
    env = strip_watchers(env)
    legacy_generator = legacy(generator)
    memo: dict[int, Any] = {
        id(generator): generator,
        id(legacy_generator): legacy_generator,
    }
    components = list(parts(env))
    memo |= modules_among(components)
    _refuse_closures(env, components)
    for path, component in components:
        if isinstance(component, GENERATORS):
            memo[id(component)] = (
                generator
                if isinstance(component, np.random.Generator)
                else legacy_generator
            )
        elif isinstance(component, FOREIGN_GENERATORS):
            raise InvalidInput(
                f"{title(env)} draws from {format_path(path)}, a "
                f"{type(component).__name__} that a planner cannot replace; let it "
                "draw from self.np_random."
            )
    env_copy = _strip_inner_watchers(remembering_copy(env, memo))
    adopt(env_copy, generator)
    return env_copy


def modules_among(components: Iterable[tuple[Path, Any]]) -> dict[int, Any]:
    """The modules that an environment keeps (``self._np = numpy``), by their ids.

    Copies share them, as they share the imports of their code; ``deepcopy`` would fail.
    """
    return {
        id(component): component
        for _, component in components
        if isinstance(component, types.ModuleType)
    }


def adopt(env_copy: Any, generator: np.random.Generator) -> None:
    """Let a private copy and its spaces sample from ``generator``."""
    inner_env = env_copy.unwrapped
    inner_env.np_random = generator
    for space_name in ("action_space", "observation_space"):
        if space_name not in vars(inner_env) and isinstance(
            getattr(type(inner_env), space_name, None), gymnasium.Space
        ):
            # all copies share the class's
            setattr(
                inner_env, space_name, deepcopy(getattr(type(inner_env), space_name))
            )
    for _, component in parts(env_copy):
        if isinstance(component, gymnasium.Space):
            component._np_random = generator


def remembering_copy(env: Any, memo: dict[int, Any]) -> Any:
    """A deep copy that also keeps the state that a copy by constructor would lose."""
    forgetful_layers = [x for x in layers(env) if is_forgetful(x) or _asks_itself(x)]
    for layer in forgetful_layers:
        memo[id(layer)] = object.__new__(type(layer))
    closures = [
        function
        for layer in layers(env)
        for function in vars(layer).values()
        if _is_closure(function)
    ]
    for function in closures:
        memo[id(function)] = _with_empty_cells(function)
    try:
        env_copy = deepcopy(env, memo)
        for layer in forgetful_layers:
            vars(memo[id(layer)]).update(deepcopy(vars(layer), memo))
        for function in closures:
            for old_cell, new_cell in zip(
                function.__closure__, memo[id(function)].__closure__, strict=True
            ):
                with suppress(ValueError):  # a cell that is not filled yet
                    new_cell.cell_contents = deepcopy(old_cell.cell_contents, memo)
    except Exception as error:
        raise InvalidInput(_explain_copy_failure(env, memo, error)) from error
    return env_copy


def _is_closure(candidate: Any) -> bool:
    """Whether this is a function that holds more than numbers and texts."""
    return isinstance(candidate, types.FunctionType) and any(
        not isinstance(cell_value, (*PLAIN, *OPAQUE))
        for cell_value in cells(candidate)
    )


def cells(function: Any) -> list[Any]:
    """The values that a function closes over."""
    cell_values = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a cell that is not filled yet
            cell_values.append(cell.cell_contents)
    return cell_values


def _with_empty_cells(f: Any) -> Any:
    """A function like ``f`` with empty cells, which a copy fills with its own values.

    ``deepcopy`` returns functions as they are: ``self.start = lambda:
    self.rng.random()`` would sample from the generator of the original.
    """
    empty_cells = tuple(types.CellType() for _ in f.__closure__)
    function_copy = types.FunctionType(
        f.__code__, f.__globals__, f.__name__, None, empty_cells
    )
    function_copy.__defaults__, function_copy.__kwdefaults__ = (
        f.__defaults__,
        f.__kwdefaults__,
    )
    function_copy.__qualname__, function_copy.__module__ = f.__qualname__, f.__module__
    vars(function_copy).update(vars(f))
    return function_copy


def _refuse_closures(env: Any, components: list[tuple[Path, Any]]) -> None:
    """Refuse a function, other than a layer's attribute, that holds a component."""
    attribute_ids = {
        id(attribute) for layer in layers(env) for attribute in vars(layer).values()
    }
    component_ids = {
        id(component)
        for _, component in components
        if not isinstance(component, PLAIN)
    }
    for path, component in components:
        if id(component) in attribute_ids or not _is_closure(component):
            continue
        for cell_value in cells(component):
            if id(cell_value) in component_ids or isinstance(
                cell_value, (*GENERATORS, *FOREIGN_GENERATORS)
            ):
                raise InvalidInput(
                    f"{title(env)} keeps a function in "
                    f"{format_path(path)} that holds a {type(cell_value).__name__}, "
                    "which all copies would share; let it be a method."
                )


def is_forgetful(layer: Any) -> bool:
    """Whether ``deepcopy`` calls the constructor again, as EzPickle does."""
    layer_type = type(layer)
    restore_method = getattr(layer_type, "__setstate__", None)
    by_constructor = (
        getattr(restore_method, "__qualname__", "") == "EzPickle.__setstate__"
    )
    return by_constructor and not hasattr(layer_type, "__deepcopy__")


def _asks_itself(layer: Any) -> bool:
    """Whether ``deepcopy`` never ends, as with a ``__getattr__`` that asks a field.

    It asks the empty copy for ``__setstate__`` before the field is there. Such an
    object, with no copying of its own, is determined by its fields.
    """
    layer_type: Any = type(layer)
    copy_methods = (
        "__deepcopy__",
        "__setstate__",
        "__reduce_ex__",
        "__reduce__",
        "__getstate__",
    )
    has_default_copy = all(
        getattr(layer_type, name, None) is getattr(object, name, None)
        for name in copy_methods
    )
    has_slots = any(vars(cls).get("__slots__") for cls in layer_type.__mro__)
    return has_default_copy and hasattr(layer_type, "__getattr__") and not has_slots


def _explain_copy_failure(env: Any, memo: dict[int, Any], error: Exception) -> str:
    env_title = title(env)
    # from the inside: a wrapper fails because of the layer inside it
    for layer in layers(env)[::-1]:
        for attribute_name, attribute_value in vars(layer).items():
            try:
                deepcopy(attribute_value, dict(memo))
            except Exception as reason:
                cause = (
                    f"its attribute {attribute_name} "
                    f"({type(attribute_value).__name__}) does not allow it"
                )
                return f"{env_title} cannot be copied: {cause} ({reason}); {REMEDY}"
    return f"{env_title} cannot be copied ({type(error).__name__}: {error}); {REMEDY}"


REMEDY = (
    "make it without render_mode, or give it __deepcopy__, clone_state and "
    "restore_state, or a state that can be set."
)


# --- generators of the whole program ------------------------------------------


@contextmanager
def keep_global_generators() -> Iterator[None]:
    """Leave global generators as they were: the user's own samples do not change."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
