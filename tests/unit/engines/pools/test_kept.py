"""Users' compiled functions on disk: served if nothing has changed, and never else."""

import importlib
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.compiled import user_functions as speaking
from smoothcruiser.engines.compiled.tiers import Tiers
from smoothcruiser.jit import private_folder as private
from smoothcruiser.jit import user_cache as kept
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.fingerprint import Fingerprint, machine_code

pytestmark = pytest.mark.compiles

HELPER = """
import numba

@numba.njit
def paid(x):
    return x / {divisor}
"""
WORLD = """
from typing import NamedTuple
import numba
import kept_helper

SCALE = {scale}


class Place(NamedTuple):
    {first}: int
    {second}: int


def made(bonus):
    @numba.njit{options}
    def step(state, action, rng):
        reward = kept_helper.paid(SCALE * state.x + bonus)
        return reward, Place(state.{first} + action, state.{second})

    return step


step = made({bonus})


@numba.njit
def terminal(state):
    return state.x > {last}
"""
PLAIN = {
    **{"scale": 1.0, "bonus": 0.25, "divisor": 8.0, "last": 3, "options": ""},
    **{"first": "x", "second": "y"},
}
EDITS = {
    "constant": {"scale": 2.0},
    "closure": {"bonus": 0.5},
    "helper": {"divisor": 16.0},
    "field": {"first": "y", "second": "x"},
    "other function": {"last": 4},
    "option": {"options": "(error_model='numpy')"},
}
# What a fingerprint of bytecode and values alone would not tell apart.
OTHERS = """
import numba
import numpy as np
from numba import types

TABLE = np.array([[1e16, 1.0, -1e16], [1.0, 3.0, 5.0]], order="{order}")


@numba.njit{helper}
def paid(x):
    return 0.1 * x


@numba.njit{options}
def step(state, action, rng):
    {local} = paid(state + 0.1) * 1.0
    return {local} + TABLE.strides[0], state
"""
OTHER = {"order": "C", "helper": "", "options": "", "local": "y"}
FLOAT32 = "(locals={'y': types.float32})"


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A function that imports an edited world anew, and asks for its functions.

    What other tests of this process have added to Numba (QuantEcon does at import) is
    left out: it would keep everything off the disk.
    """
    extensions = machine_code.extensions
    before = extensions()
    monkeypatch.setattr(machine_code, "extensions", lambda: extensions() - before)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "cache"))

    def load(text=WORLD, **edits):
        values = PLAIN | edits
        (tmp_path / "kept_helper.py").write_text(HELPER.format(**values))
        (tmp_path / "kept_world.py").write_text(text.format(**values))
        for name in ("kept_helper", "kept_world"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("kept_world")

    yield load
    for name in ("kept_helper", "kept_world"):
        sys.modules.pop(name, None)


def problem_of(module):
    facts = {"num_actions": 2, "discount": 0.5, "operator": sc.Entropy(1.0)}
    return sc.MDP(module.step, terminal=getattr(module, "terminal", None), **facts)


def spoken(module):
    return speaking.compile_user_functions(problem_of(module), module.Place(1, 2))


def is_as_written(module, found):
    """Whether the step as it was compiled or kept is the step in Python."""
    state = module.Place(1, 2)
    reward, after, _ = found.call(state, 1, stream(0))
    return (reward, after) == module.step.py_func(state, 1, stream(0))


def test_the_same_functions_are_served_and_changed_ones_are_not(world):
    assert not spoken(world()).kept
    for edit, values in {"none": {}, **EDITS, "back": {}}.items():
        module = world(**values)
        found = spoken(module)
        assert found.kept is (not values), edit
        assert values or len(module.step.overloads) == 0  # nothing was compiled
        assert is_as_written(module, found), edit


@pytest.mark.parametrize(
    "edit",
    [
        {"order": "F"},
        {"helper": "('float32(float32)')"},
        {"helper": "(locals={'x': types.float32})"},
        {"options": FLOAT32},
    ],
    ids=str,
)
def test_what_bytecode_does_not_tell_is_seen(world, monkeypatch, edit):
    def answer(**values):
        module = world(OTHERS, **OTHER | values)
        found = speaking.compile_user_functions(problem_of(module), 1)
        return found.kept, found.call(1, 1, stream(0))[0]

    before = answer()[1]
    assert answer() == (True, before)
    kept_now, reward = answer(**edit)
    assert not kept_now
    monkeypatch.setenv(private.VARIABLE, "0")
    assert reward == answer(**edit)[1] != before


PROGRAM = """
import math
from typing import NamedTuple
import numba
{extension}

class Place(NamedTuple):
    x: int


@numba.njit
def step(state, action, rng):
    return {reward}, Place(state.x + 1)


import smoothcruiser as sc
from smoothcruiser.engines.compiled.user_functions import compile_user_functions
from smoothcruiser.jit.random.streams import stream

problem = sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0))
found = compile_user_functions(problem, Place(1))
reward, after, _ = found.call(Place(1), 1, stream(0))
print(found.kept, reward, after == Place(2) and type(after) is Place)
"""
REGISTRY = """
from numba.cpython import mathimpl

@mathimpl.registry.lower(math.erf, numba.types.Float)
def _other(context, builder, signature, given):
    return context.get_constant(numba.types.float64, 0.25)
"""
METHOD = """
from numba.extending import overload_method

@overload_method(numba.types.Float, "paid")
def _paid(self):
    return lambda self: 0.5 * self
"""
EXTENDED = {
    "registry": (REGISTRY, "math.erf(1.0)"),
    "method": (METHOD, "(0.5 * state.x).paid()"),
}


@pytest.mark.parametrize("name", EXTENDED)
def test_what_was_kept_is_not_served_to_who_extends_numba_later(tmp_path, name):
    """A program finds what its last run has kept; one that has added a meaning to Numba
    (in a registry that Numba has not read yet, or by a method) neither finds nor keeps.
    """
    plain, extended = ("", "math.erf(1.0)"), EXTENDED[name]
    kept_first = str(math.erf(1.0))
    for (extension, reward), said in (
        *((plain, ["False", kept_first]), (plain, ["True", kept_first])),
        *((extended, ["False", "0.25"]), (extended, ["False", "0.25"])),
    ):
        done = run(tmp_path, PROGRAM.format(extension=extension, reward=reward))
        assert done.stdout.split() == [*said, "True"], done.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("LLVM_REFPRUNE_FLAGS", "per_bb"), ("BOUNDSCHECK", 1)]
)
def test_settings_of_numba_count(monkeypatch, name, value):
    before = kept.surroundings()
    assert kept.surroundings() == before
    monkeypatch.setattr(kept.config, name, value)
    assert kept.surroundings() != before


def test_what_this_process_has_compiled_already_is_not_replaced(world):
    assert not spoken(world(scale=4.0)).kept
    module = world()
    before = module.step(module.Place(1, 2), 1, stream(0))[0]
    module.SCALE = 4.0  # as what is on the disk; Numba goes on with the old value
    found = spoken(module)
    assert not found.kept
    assert found.call(module.Place(1, 2), 1, stream(0))[0] == before


@pytest.mark.slow
def test_no_loop_replaces_another_after_a_global_has_changed(world):
    assert not spoken(world()).kept
    module = world()
    problem, state = problem_of(module), module.Place(1, 2)
    tiers = Tiers(problem, state, 10**12, lambda tier: None)
    assert tiers.entry.user_functions.kept
    module.SCALE = 2.0
    tiers._build()  # compiles what the step is by now
    assert tiers.inlined is None
    assert not tiers.entry.is_built
    # the next run uses the new value
    tiers = Tiers(problem, state, 10**12, lambda tier: None)
    now = tiers.entry.user_functions
    assert (
        now.call(state, 1, stream(0))[0] == module.step.py_func(state, 1, stream(0))[0]
    )
    tiers._build()
    assert tiers.entry.is_built


def test_code_that_was_frozen_before_a_change_is_not_kept(world):
    module = world()
    state = module.Place(1, 2)
    module.step(state, 1, stream(0))  # Numba freezes SCALE
    module.SCALE = 4.0
    assert not spoken(module).kept
    found = spoken(world(scale=4.0))
    assert not found.kept
    assert found.call(state, 1, stream(0))[0] == (4.0 + 0.25) / 8.0


def test_what_numba_cached_itself_is_not_kept(world):
    # Numba does not see that the helper changes
    assert not spoken(world(options="(cache=True)")).kept
    assert not spoken(world(options="(cache=True)")).kept


def test_a_step_that_depends_on_what_nobody_sees_is_not_kept(world, monkeypatch):
    unseen = Fingerprint({}, ("a file",))
    monkeypatch.setattr(speaking, "of_functions", lambda functions: unseen)
    assert not spoken(world()).kept
    assert not spoken(world()).kept


@pytest.mark.slow
def test_entries_are_limited_and_can_be_cleared(world, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 2)
    for bonus in (1.0, 2.0, 3.0):
        assert not spoken(world(bonus=bonus)).kept
    folder = kept.DiskEntry("none").index.parent
    assert len(kept._entries(folder)) == 2
    assert len(list(folder.glob("kept.*.nbc"))) == 2
    assert spoken(world(bonus=3.0)).kept
    monkeypatch.setenv(private.VARIABLE, "0")
    assert not spoken(world(bonus=3.0)).kept
    monkeypatch.delenv(private.VARIABLE)
    monkeypatch.setattr(kept, "MOST_BYTES", 1)
    kept._trim(folder)
    assert len(kept._entries(folder)) == 1
    assert spoken(world(bonus=3.0)).kept  # the one used last
    assert kept.clear() == 1
    assert not spoken(world(bonus=3.0)).kept


def turned(path):
    """Turn one bit of machine code."""
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(held)


@pytest.mark.slow
@pytest.mark.parametrize("files", ["kept.*.nbc", "kept.*.nbi"])
@pytest.mark.parametrize(
    "damage", [turned, lambda path: path.write_bytes(b"")], ids=["bit", "empty"]
)
def test_a_damaged_entry_is_compiled_again(world, files, damage):
    assert not spoken(world()).kept
    folder = kept.DiskEntry("none").index.parent
    (path,) = folder.glob(files)
    damage(path)
    module = world()
    found = spoken(module)
    assert not found.kept
    assert is_as_written(module, found)
    assert spoken(world()).kept


def run(folder, program):
    """Run a program in a process of its own, with a cache in ``folder``."""
    path = folder / "program.py"
    path.write_text(program)
    source = str(Path(sc.__file__).parent.parent)
    cache = str(folder / "cache")
    env = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": source}
    return subprocess.run(
        [sys.executable, str(path)], env=env, capture_output=True, text=True
    )
