"""Code of the user is read wherever it was run: in a library's names, or a copy of them.

Law: two programs that differ in a value that a step depends on have different
fingerprints, and if they are compiled with Numba, different machine code on disk.
"""

import math
import statistics
import sys
import types
from collections import namedtuple

import numba
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.fingerprint.encoding import USER, owner_of_function

pytestmark = pytest.mark.compiles
STEP = "def step(state, action, rng): return PRICE * state, state"
HELPER = "def paid(x): return PRICE * x"


def copied(library):
    """A step that was run in a copy of a library's names."""

    def make(price):
        names = {**vars(library), "PRICE": price}
        exec(STEP, names)
        return names["step"]

    return make


def planted(library):
    """A step whose helper was run in a library's own names, and is there to import."""

    def make(price):
        library.PRICE = price
        exec(HELPER, vars(library))
        paid = numba.njit(library.paid)

        def step(state, action, rng):
            return paid(state), state

        return step

    return make


def named(price):
    """A step of a namespace that has the name of a module of Python."""
    names = {"__name__": "queue", "PRICE": price}
    exec(STEP, names)
    return names["step"]


def module_by_hand(price):
    module = types.ModuleType("turtle")
    exec("import numba\n@numba.njit\n" + HELPER, vars(module))
    module.PRICE = price
    sys.modules["turtle"] = module

    def step(state, action, rng):
        return module.paid(state), state

    return step


def lent(price):
    """A step of the user that is given other names to look up."""
    names = {**vars(statistics), "PRICE": price}
    return types.FunctionType(other_step.__code__, names)


def other_step(state, action, rng):
    return PRICE * state, state  # noqa: F821


def class_in_library(price):
    """A class among a library's names, whose fields change their order."""
    fields = "x y" if price == 0.25 else "y x"
    statistics.Pair = namedtuple("Pair", fields, module="statistics")

    def step(state, action, rng):
        return statistics.Pair(0.25, 0.5).x, state

    return step


MAKERS = {
    "a copy of math": copied(math),
    "a copy of this package": copied(sc),
    "names of statistics": planted(statistics),
    "names of this package": planted(sc),
    "a name of Python": named,
    "a module by hand": module_by_hand,
    "lent names": lent,
    "a class in a library": class_in_library,
}


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Take back what a test puts into libraries."""
    for library in (statistics, sc):
        for name in ("PRICE", "paid", "Pair"):
            monkeypatch.setitem(vars(library), name, None)
    monkeypatch.setitem(sys.modules, "turtle", None)


@pytest.mark.parametrize("name", MAKERS)
def test_what_a_step_looks_up_is_read_wherever_it_was_run(name):
    def digests(price):
        step = MAKERS[name](price)
        assert owner_of_function(step) == USER
        return fingerprint(mdp(step)).digest

    first = digests(0.25)
    assert digests(0.25) == first
    assert digests(0.5) != first
