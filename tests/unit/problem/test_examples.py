"""The public verbs of problems explain themselves.

Laws: every one of them documents each of its arguments, and has an example whose output
is what the docstring shows.
"""

import doctest
import inspect
from typing import get_args, get_type_hints

import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

VERBS = (
    "MDP",
    "Game",
    "tabular",
    "make",
    "batched",
    "solve",
    "check",
    "check_operator",
)
ADAPTERS = {"gymnasium": "gymnasium", "openspiel": "pyspiel"}


def verb(name):
    if name not in ADAPTERS:
        return getattr(sc, name)
    pytest.importorskip(ADAPTERS[name])
    return getattr(sc.adapters, name).problem


@pytest.mark.parametrize("name", [*VERBS, *ADAPTERS])
def test_the_example_prints_what_it_shows(name):
    found = doctest.DocTestFinder(recurse=False).find(verb(name), name, globs={})
    examples = [test for test in found if test.examples]
    assert examples
    said = []
    for test in examples:
        failed, _ = doctest.DocTestRunner().run(test, out=said.append)
        assert failed == 0, "".join(said)


@pytest.mark.parametrize("name", [*VERBS, *ADAPTERS])
def test_every_argument_is_documented(name):
    text = inspect.getdoc(verb(name))
    if name == "Game":
        text += inspect.getdoc(sc.MDP)  # its docstring says so
    if "declarations, as for ``make``" in text:
        text += inspect.getdoc(sc.make)
    for argument, parameter in inspect.signature(verb(name)).parameters.items():
        names = [argument]
        if parameter.kind is parameter.VAR_KEYWORD:  # the keys of its TypedDict
            (options,) = get_args(get_type_hints(verb(name))[argument])
            names = list(options.__annotations__)
        for each in names:
            assert f"\n    {each}: " in text, each
