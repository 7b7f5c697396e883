"""The public names: what ``import smoothcruiser as sc`` offers.

Laws: every name of ``__all__`` is there, in ``dir(sc)``, and explains itself; names that
are imported late stay what they are, whatever module is imported beside them; main
verbs and classes document every argument, with an example that prints what it shows.
"""

import doctest
import inspect
from typing import get_args, get_type_hints

import pytest

import smoothcruiser as sc
from fresh_process import run_python

pytestmark = pytest.mark.compiles


def test_every_public_name_is_there_listed_and_explains_itself():
    for name in sc.__all__:
        assert inspect.getdoc(getattr(sc, name)), name
        assert name in dir(sc), name
    assert len(set(sc.__all__)) == len(sc.__all__)
    assert set(sc._LATE) <= set(sc.__all__)


def test_a_star_import_has_all_of_them_and_no_other_name_is_there():
    names = {}
    exec("from smoothcruiser import *", names)
    assert set(sc.__all__) <= names.keys()
    with pytest.raises(AttributeError, match="no attribute 'compere'"):
        sc.compere  # noqa: B018


SCRIPT = """
import sys
import smoothcruiser as sc
loaded = [name for name in ("numba", "matplotlib", "pandas", "jinja2") if name in sys.modules]
assert not loaded, loaded
assert {"compare", "Tree", "Certified", "Solution"} <= set(dir(sc))
import smoothcruiser.comparison, smoothcruiser.cli.compare, smoothcruiser.tree.tree
import smoothcruiser.checks, smoothcruiser.playing.episodes
for name in ("compare", "check", "play"):
    assert callable(getattr(sc, name)), name
assert sc.compare is smoothcruiser.comparison.compare
assert sc.Tree is smoothcruiser.tree.tree.Tree
"""


def test_no_module_takes_the_place_of_a_function():
    """In a process of its own: what is imported when decides."""
    run_python(SCRIPT)


NAMES = "MDP Game tabular make plan plan_many prepare explain solve evaluate compare "
NAMES += "gap Certified Tree Agent check check_operator batched report view schema"
VERBS = NAMES.split()
# these explain every keyword themselves; the others name where they are explained
PROBLEM_VERBS = [*VERBS[:4], "batched", "solve", "check", "check_operator"]
ADAPTERS = {"gymnasium": "gymnasium", "openspiel": "pyspiel"}


def verb_of(name):
    if name not in ADAPTERS:
        return getattr(sc, name)
    pytest.importorskip(ADAPTERS[name])
    return getattr(sc.adapters, name).problem


@pytest.mark.parametrize("name", [*VERBS, *ADAPTERS])
def test_help_explains_every_argument(name):
    verb = verb_of(name)
    text = inspect.getdoc(verb)
    if name == "Game":
        text += inspect.getdoc(sc.MDP)  # its docstring says so
    if "declarations, as for ``make``" in text:
        text += inspect.getdoc(sc.make)
    for argument, parameter in inspect.signature(verb).parameters.items():
        is_whole = name in PROBLEM_VERBS or name in ADAPTERS
        if f"\n    {argument}: " in text:
            continue
        if f"\n    **{argument}: " in text and not is_whole:
            continue
        assert parameter.kind is parameter.VAR_KEYWORD, argument
        # the keys of a TypedDict are explained one by one, where they are used
        function = verb.__init__ if inspect.isclass(verb) else verb
        (options,) = get_args(get_type_hints(function)[argument])
        keys = list(options.__annotations__)
        used = keys if is_whole else [key for key in keys if key in text]
        assert len(used) >= (1 if is_whole else 4)
        for key in used:
            is_named = f"``{key}``" in text and not is_whole
            assert is_named or f"\n    {key}: " in text, key


@pytest.mark.parametrize("name", [*VERBS, *ADAPTERS])
def test_the_example_of_help_prints_what_it_shows(name):
    found = doctest.DocTestFinder(recurse=False).find(verb_of(name), name, globs={})
    examples = [test for test in found if test.examples]
    assert examples
    said = []
    for test in examples:
        failed, _ = doctest.DocTestRunner().run(test, out=said.append)
        assert failed == 0, "".join(said)


def test_solve_takes_what_it_says():
    chain = sc.make("chain:n=5", discount=0.9, operator="max")
    options = {"tolerance": 1e-6, "method": "policy-iteration", "max_sweeps": 10**6}
    assert isinstance(sc.solve(chain, **options), sc.Solution)
    with pytest.raises(sc.InvalidInput, match="did you mean tolerance="):
        sc.solve(chain, tolerence=1e-6)
