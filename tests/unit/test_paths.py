"""How far a reader travels: the folders that one ``plan`` passes.

Reading of the measure: the files of the package are listed in the order in which
one ``plan`` first runs a function of theirs (problem made before, modules imported
before; compiled functions count where they are entered from Python). Whoever reads
the code of a call opens the files in that order; a change of folder is a file that
does not lie in the folder of the one before. A folder is a product or a layer, that
is a folder directly below the package: ``certified/bounds`` belongs to ``certified``.
Files at the top of the package (``api.py``, ``query.py``) share one folder. The layers
of ``SHARED`` are the words in which all methods are written; they are counted apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

ROOT = Path(sc.__file__).parent
# The vocabulary that every method speaks: a reader knows it after the first.
SHARED = {"problem", "operators", "jit", "progress"}
MOST_CHANGES = 12  # between the other folders
# All folders counted, what was reached: a change that needs more has to say why.
# (18 and 14 before runs could be stopped inside machine code: ``jit.interrupts`` stands
# between the method and its search, and ``engines.watchdog`` behind it; 19 and 16
# before outcomes= were read, by ``problem.rows``, and bounds asked of each state; 20 before
# a search could end a call that outlasts its seconds, by ``engines.watchdog``;
# 17 before a tree refused discount 1 without an end, by ``problem.undiscounted``; 23
# before certified search knew the number of pairs of a table, by ``certified.shares``; 24
# and 18 before every method reported its phases, through ``progress``; 23 before a tree
# could prove, be one of several and ask evaluators, which ``tree.backends`` decides; 28 and 27
# before sums were rounded alike by every Python, in ``operators.adding``, and compiling
# stood outside of seconds=, by ``jit.stopwatch``.)
MOST_WITH_SHARED = {"certified": 30, "uct": 29}
ASKED: dict[str, dict[str, Any]] = {
    "certified": {"epsilon": 0.5, "delta": 0.1},
    "uct": {"budget": 200},
}


def files_passed(call: Callable[[], object]) -> list[Path]:
    """The package's files in the order in which ``call`` first enters them."""
    found: dict[Path, None] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT):
                found.setdefault(path.relative_to(ROOT))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(found)


def changes_of_folder(files: list[Path], without: set[str] | None = None) -> int:
    """How often the next file lies in another folder, some folders left out."""
    folders = [path.parts[0] if len(path.parts) > 1 else "" for path in files]
    folders = [folder for folder in folders if folder not in (without or set())]
    return sum(a != b for a, b in pairwise(folders))


def path_of(method: str) -> list[Path]:
    """The files of one ``plan`` on a chain of four states, the second time."""
    problem = sc.make("chain:n=4", discount=0.5, temperature=1.0)

    def call() -> object:
        return sc.plan(problem, method=method, seed=1, **ASKED[method])

    call()  # imports and compiles
    return files_passed(call)


@pytest.mark.parametrize("method", list(ASKED))
def test_a_plan_stays_in_its_folders(method: str) -> None:
    """At most so many changes of folder along the files that a plan passes."""
    files = path_of(method)
    where = " -> ".join(str(path) for path in files)
    assert changes_of_folder(files, SHARED) <= MOST_CHANGES, where
    assert changes_of_folder(files) <= MOST_WITH_SHARED[method], where


def test_the_measure_counts_folders() -> None:
    """By hand: top, tree, tree, top, problem are three changes."""
    files = ["api.py", "tree/tree.py", "tree/node.py", "query.py", "problem/facts.py"]
    assert changes_of_folder([Path(name) for name in files]) == 3
    assert changes_of_folder([Path(name) for name in files], {"problem"}) == 2
