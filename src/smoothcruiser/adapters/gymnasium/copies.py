"""Private copies of environments, and what an environment holds.

A planner steps copies, so a promise about an environment is one about its
copies. Two things make a copy another world: what it forgets, and what it
shares.

  forgotten   ``EzPickle`` copies an environment by calling its constructor
              again: the copy stands at the beginning. Here it is copied
              attribute by attribute instead.
  shared      a generator, a class attribute, a variable of the module: a step
              of one copy changes what another will do. Generators (NumPy's, and
              its older RandomStates) are replaced by the planner's, functions
              that close over the environment are made anew for each copy, and
              ``surroundings`` sees the rest.

A simulator of another library takes part as what a ``View`` has ``inside``: it is a
layer like any other. What this file leaves out: memory inside compiled objects (an emulator, a
physics engine). Nothing here can see it; ``trial`` compares what such
environments do.
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
from smoothcruiser.jit.generator import legacy
from smoothcruiser.problem.arguments import shortened

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
UNKNOWN = (np.random.BitGenerator, random.Random)
# generators that the planner's takes the place of
REPLACED = (np.random.Generator, np.random.RandomState)
# generators that are created when they are first used, and descriptions
UNREAD = ("_np_random", "_np_random_seed", "spec", "action_space", "observation_space")
# most things of a module that are read: a notebook may hold anything
MOST_PARTS = 50_000
MOST_BYTES = 10**6  # and the largest array of it that is read
Path = tuple[str, ...]


# --- layers -------------------------------------------------------------------


class View(gymnasium.Env):  # type: ignore[misc,unused-ignore]
    """A simulator of another library, seen as an environment of Gymnasium.

    Its ``step`` and ``reset`` are those of Gymnasium. Copies of the view hold copies
    of what is ``inside``.
    """

    inside: Any

    def like(self, other: Any) -> Any:
        """A view of another simulator of this kind; anything else as it is."""
        return other


def wrapped(env: Any) -> Any:
    """What a layer wraps; None where it is the innermost one."""
    if isinstance(env, View):
        return env.inside
    return env.env if isinstance(env, gymnasium.Wrapper) else None


def layers(env: Any) -> list[Any]:
    """The environment and what it wraps, outermost first."""
    found = [env]
    while (env := wrapped(env)) is not None:
        found.append(env)
    return found


def kinds(env: Any) -> list[type]:
    """The types of the layers that a step depends on."""
    return [type(layer) for layer in layers(env) if type(layer) not in WATCHERS]


def unwatched(env: Any) -> Any:
    """The environment without the outermost wrappers that only watch or count."""
    while type(env) in WATCHERS:
        env = env.env
    return env


def _unwatched_inside(twin: Any) -> Any:
    """A private copy without wrappers that only watch or count, at whatever depth."""
    for layer in layers(twin):
        while isinstance(layer, gymnasium.Wrapper) and type(layer.env) in WATCHERS:
            layer.env = layer.env.env
    return unwatched(twin)


def title(env: Any) -> str:
    """What an environment is called in sentences: its class, or that inside a view."""
    inner = env.unwrapped
    return type(inner.inside if isinstance(inner, View) else inner).__name__


def one_number(env: Any, reward: Any) -> float:
    """A reward as a number; several at once, as of many objectives, are refused."""
    try:
        return float(reward)
    except (TypeError, ValueError):
        pass
    found = np.asarray(reward)
    if found.size == 1 and found.dtype.kind in "fiub":
        return float(found.reshape(-1)[0])
    raise InvalidInput(
        f"{title(env)} pays {shortened(reward)} for one step, and a planner needs one "
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
        twin = private_copy(env, np.random.default_rng(0))
    except InvalidInput:
        return True
    try:
        twin.step(twin.action_space.sample())
    except Exception:
        return False
    return True


# --- what an environment holds ------------------------------------------------


def parts(
    root: Any, name: Path = (), inside: str | None = None
) -> Iterator[tuple[Path, Any]]:
    """Everything reachable through attributes and containers, with the path to it.

    ``inside`` names a module: only objects of its own classes are opened then.
    """
    waiting, seen, most = (
        [(name, root)],
        {id(root)},
        math.inf if inside is None else MOST_PARTS,
    )
    while waiting and len(seen) <= most:
        path, part = waiting.pop()
        yield path, part
        for step, child in _children(part, inside):
            child = unwatched(child)
            if isinstance(child, PLAIN) or id(child) not in seen:
                seen.add(id(child))
                waiting.append(((*path, step), child))


def _children(part: Any, inside: str | None) -> list[tuple[str, Any]]:
    if isinstance(part, dict):
        keys = (
            repr(key) if isinstance(key, (*PLAIN, tuple)) else f"#{i}"
            for i, key in enumerate(part)
        )
        return list(zip(keys, part.values(), strict=True))
    if isinstance(part, list | tuple | collections.deque):
        return [(str(i), value) for i, value in enumerate(part)]
    if isinstance(part, (*PLAIN, *OPAQUE, *CONTAINERS, *UNKNOWN, *REPLACED)):
        return []
    if isinstance(part, np.ndarray):
        return (
            [(str(i), v) for i, v in enumerate(part.flat)]
            if part.dtype == object
            else []
        )
    if inside is not None and type(part).__module__ != inside:
        return []
    slots = [
        name
        for cls in type(part).__mro__
        for name in getattr(cls, "__slots__", ())
        if hasattr(part, name)
    ]
    return [
        *getattr(part, "__dict__", {}).items(),
        *((name, getattr(part, name)) for name in slots),
    ]


def contents(env: Any) -> dict[Path, Any]:
    """The numbers, texts and arrays that an environment holds, by their paths."""
    return dict(_leaves(parts(env)))


def fixed(
    env: Any, harmless: tuple[str, ...] = ()
) -> list[tuple[type, dict[str, Any]]]:
    """The class and the fields of each layer, without descriptions and ``harmless``."""
    left_out = {"env", "inside", *UNREAD, *harmless}
    return [
        (type(layer), {k: v for k, v in vars(layer).items() if k not in left_out})
        for layer in layers(env)
    ]


def surroundings(env: Any) -> dict[Path, Any]:
    """What all copies share: the contents of its classes and of their modules."""
    found: dict[Path, Any] = {}
    for cls in {cls: None for layer in layers(env) for cls in type(layer).__mro__}:
        module = cls.__module__
        if module.partition(".")[0] in ("gymnasium", "builtins", "typing", "abc"):
            continue
        around = vars(sys.modules[module]) if module in sys.modules else {}
        for place, names in (
            (f"class {cls.__name__}", vars(cls)),
            (f"module {module}", around),
        ):
            own = {
                k: v
                for k, v in names.items()
                if not k.startswith("__") and not _is_large(v)
            }
            found |= _leaves(parts(own, (place,), module))
    return found


def _is_large(thing: Any) -> bool:
    """Whether this is an array that is too large to read at every look."""
    return isinstance(thing, np.ndarray) and thing.nbytes > MOST_BYTES


def _leaves(found: Iterator[tuple[Path, Any]]) -> Iterator[tuple[Path, Any]]:
    for path, part in found:
        if any(step in UNREAD for step in path):
            continue
        if isinstance(part, PLAIN):
            yield path, repr(part)
        elif isinstance(part, np.ndarray) and part.dtype != object:
            yield path, (part.dtype.str, part.shape, part.tobytes())
        elif isinstance(part, set | frozenset):
            yield (
                path,
                (
                    len(part),
                    *sorted(repr(x) for x in part if isinstance(x, (*PLAIN, tuple))),
                ),
            )
        elif isinstance(part, CONTAINERS):
            yield path, (type(part).__name__, len(part))
        elif isinstance(part, REPLACED) and path[0].startswith(("class ", "module ")):
            yield path, _seat(part)  # an environment's own are replaced in copies


def _seat(generator: Any) -> str:
    """Where a generator is in its sequence."""
    if isinstance(generator, np.random.RandomState):
        with np.printoptions(threshold=10_000):
            return repr(generator.get_state())
    return repr(generator.bit_generator.state)


def different(one: dict[Path, Any], other: dict[Path, Any]) -> Path | None:
    """Where two environments hold different things, or None."""
    for path in (*one, *other):
        if one.get(path) != other.get(path):
            return path
    return None


def spelled(path: Path) -> str:
    """A path as the user knows it: ``board.0``, ``class Lake.count``."""
    shown = [step.strip("'") for step in path if step not in ("env", "inside")]
    return ".".join(shown) or "itself"


# --- copies -------------------------------------------------------------------


def private_copy(env: Any, generator: np.random.Generator) -> Any:
    """A copy that shares nothing with ``env`` and samples from ``generator`` only."""
    env = unwatched(env)
    older = legacy(generator)
    memo: dict[int, Any] = {id(generator): generator, id(older): older}
    found = list(parts(env))
    memo |= modules_among(found)
    _refuse_closures(env, found)
    for path, part in found:
        if isinstance(part, REPLACED):
            memo[id(part)] = (
                generator if isinstance(part, np.random.Generator) else older
            )
        elif isinstance(part, UNKNOWN):
            raise InvalidInput(
                f"{title(env)} draws from {spelled(path)}, a "
                f"{type(part).__name__} that a planner cannot replace; let it draw "
                "from self.np_random."
            )
    twin = _unwatched_inside(remembering_copy(env, memo))
    adopt(twin, generator)
    return twin


def modules_among(found: Iterable[tuple[Path, Any]]) -> dict[int, Any]:
    """The modules that an environment keeps (``self._np = numpy``), by their ids.

    Copies share them, as they share what their code imports; ``deepcopy`` would fail.
    """
    return {id(part): part for _, part in found if isinstance(part, types.ModuleType)}


def adopt(twin: Any, generator: np.random.Generator) -> None:
    """Let a private copy and its spaces sample from ``generator``."""
    inner = twin.unwrapped
    inner.np_random = generator
    for name in ("action_space", "observation_space"):
        if name not in vars(inner) and isinstance(
            getattr(type(inner), name, None), gymnasium.Space
        ):
            # all copies share the class's
            setattr(inner, name, deepcopy(getattr(type(inner), name)))
    for _, part in parts(twin):
        if isinstance(part, gymnasium.Space):
            part._np_random = generator


def remembering_copy(env: Any, memo: dict[int, Any]) -> Any:
    """A deep copy that also keeps what a copy by constructor would lose."""
    forgetful = [x for x in layers(env) if is_forgetful(x) or _asks_itself(x)]
    for layer in forgetful:
        memo[id(layer)] = object.__new__(type(layer))
    closed = [f for layer in layers(env) for f in vars(layer).values() if _closes(f)]
    for f in closed:
        memo[id(f)] = _with_empty_cells(f)
    try:
        twin = deepcopy(env, memo)
        for layer in forgetful:
            vars(memo[id(layer)]).update(deepcopy(vars(layer), memo))
        for f in closed:
            for old, new in zip(f.__closure__, memo[id(f)].__closure__, strict=True):
                with suppress(ValueError):  # a cell that is not filled yet
                    new.cell_contents = deepcopy(old.cell_contents, memo)
    except Exception as error:
        raise InvalidInput(_not_copied(env, memo, error)) from error
    return twin


def _closes(thing: Any) -> bool:
    """Whether this is a function that holds more than numbers and texts."""
    return isinstance(thing, types.FunctionType) and any(
        not isinstance(held, (*PLAIN, *OPAQUE)) for held in cells(thing)
    )


def cells(f: Any) -> list[Any]:
    """What a function closes over."""
    found = []
    for cell in f.__closure__ or ():
        with suppress(ValueError):  # a cell that is not filled yet
            found.append(cell.cell_contents)
    return found


def _with_empty_cells(f: Any) -> Any:
    """A function like ``f``, to be given what a copy of its environment holds.

    ``deepcopy`` returns functions as they are: ``self.start = lambda:
    self.rng.random()`` would draw from the generator of the original.
    """
    empty = tuple(types.CellType() for _ in f.__closure__)
    twin = types.FunctionType(f.__code__, f.__globals__, f.__name__, None, empty)
    twin.__defaults__, twin.__kwdefaults__ = f.__defaults__, f.__kwdefaults__
    twin.__qualname__, twin.__module__ = f.__qualname__, f.__module__
    vars(twin).update(vars(f))
    return twin


def _refuse_closures(env: Any, found: list[tuple[Path, Any]]) -> None:
    """Refuse a function, not a layer's own attribute, that holds part of the whole."""
    own = {id(f) for layer in layers(env) for f in vars(layer).values()}
    ids = {id(part) for _, part in found if not isinstance(part, PLAIN)}
    for path, part in found:
        if id(part) in own or not _closes(part):
            continue
        for held in cells(part):
            if id(held) in ids or isinstance(held, (*REPLACED, *UNKNOWN)):
                raise InvalidInput(
                    f"{title(env)} keeps a function in "
                    f"{spelled(path)} that holds a {type(held).__name__}, which all "
                    "copies would share; let it be a method."
                )


def is_forgetful(layer: Any) -> bool:
    """Whether ``deepcopy`` calls the constructor again, as EzPickle does."""
    kind = type(layer)
    restores = getattr(kind, "__setstate__", None)
    by_constructor = getattr(restores, "__qualname__", "") == "EzPickle.__setstate__"
    return by_constructor and not hasattr(kind, "__deepcopy__")


def _asks_itself(layer: Any) -> bool:
    """Whether ``deepcopy`` never ends, as with a ``__getattr__`` that asks a field.

    It asks the empty copy for ``__setstate__`` before the field is there. Such an
    object, with no copying of its own, is what its fields are.
    """
    kind: Any = type(layer)
    own = (
        "__deepcopy__",
        "__setstate__",
        "__reduce_ex__",
        "__reduce__",
        "__getstate__",
    )
    plain = all(getattr(kind, n, None) is getattr(object, n, None) for n in own)
    slots = any(vars(cls).get("__slots__") for cls in kind.__mro__)
    return plain and hasattr(kind, "__getattr__") and not slots


def _not_copied(env: Any, memo: dict[int, Any], error: Exception) -> str:
    name = title(env)
    # from the inside: a wrapper fails for what it wraps
    for layer in layers(env)[::-1]:
        for attribute, value in vars(layer).items():
            try:
                deepcopy(value, dict(memo))
            except Exception as reason:
                what = (
                    f"its attribute {attribute} ({type(value).__name__}) does not "
                    "allow it"
                )
                return f"{name} cannot be copied: {what} ({reason}); {REMEDY}"
    return f"{name} cannot be copied ({type(error).__name__}: {error}); {REMEDY}"


REMEDY = (
    "make it without render_mode, or give it __deepcopy__, clone_state and "
    "restore_state, or a state that can be set."
)


# --- generators of the whole program ------------------------------------------


@contextmanager
def global_generators_kept() -> Iterator[None]:
    """Leave global generators as they were: the user's own samples do not change."""
    plain, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(numpy)  # noqa: NPY002
