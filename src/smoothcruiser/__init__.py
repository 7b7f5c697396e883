"""Planning with a promise: certified values and policies for regularized MDPs
and games.

>>> import smoothcruiser as sc
>>> problem = sc.make("chain:n=5", discount=0.2, temperature=10)
>>> sc.explain(problem, epsilon="20%", delta=0.1, method="paper").num_calls > 10**9
True
"""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if (
    sys.argv[:1] == ["-m"]
    and not sys.flags.safe_path
    and ("-m", "smoothcruiser") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
):
    # `python -m smoothcruiser` puts the current folder before everything installed: a
    # file numpy.py there would run as NumPy. It stays, at the end, only if this
    # package lies in it. A program of the user's own (`python -m my_package`) keeps it.
    sys.path[:1] = []
    if (home := Path(__file__).parent.parent) == Path.cwd():
        sys.path.append(str(home))

if TYPE_CHECKING:
    from smoothcruiser import adapters
    from smoothcruiser.api import (
        calibrate,
        evaluate,
        explain,
        plan,
        plan_many,
        prepare,
        solve,
    )
    from smoothcruiser.certified.search import Certified
    from smoothcruiser.checks import Check, check
    from smoothcruiser.comparison import Comparison, compare
    from smoothcruiser.display.page import report
    from smoothcruiser.display.result_pages import view
    from smoothcruiser.errors import (
        BrokenPromise,
        InvalidInput,
        MissingExtra,
        OracleError,
        SmoothcruiserError,
        StoreError,
        Unpayable,
        WorkersLost,
    )
    from smoothcruiser.estimate import Certificate, Estimate, Estimates
    from smoothcruiser.exact.solution import Solution
    from smoothcruiser.methods.auto import Auto
    from smoothcruiser.methods.base import Prepared
    from smoothcruiser.methods.certified_search import CertifiedSearch
    from smoothcruiser.methods.exact_method import Exact
    from smoothcruiser.methods.schedules.scheduled import (
        Paper,
        SmoothCruiser,
        SparseSampling,
        run,
    )
    from smoothcruiser.methods.stored_sessions import resume
    from smoothcruiser.operators import (
        KL,
        CustomOperator,
        Entropy,
        Max,
        Operator,
        Sparsemax,
        SquareRoot,
    )
    from smoothcruiser.operators.check import check_operator
    from smoothcruiser.playing.agent import Agent
    from smoothcruiser.playing.episodes import Summary, play
    from smoothcruiser.problem.batched import batched
    from smoothcruiser.problem.make import make
    from smoothcruiser.problem.model.tabular import tabular
    from smoothcruiser.problem.problem import MDP, Game, Problem
    from smoothcruiser.progress import Progress
    from smoothcruiser.records.data import schema
    from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule
    from smoothcruiser.tree.prior_rules import PUCT, Gumbel
    from smoothcruiser.tree.search_rules import BTS, DENTS, MENTS, RENTS, TENTS, UCT
    from smoothcruiser.tree.tree import Tree

    __version__: str

# Silent unless a program asks to hear (docs/progress.md).
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "BTS",
    "DENTS",
    "KL",
    "MDP",
    "MENTS",
    "PUCT",
    "RENTS",
    "TENTS",
    "UCT",
    "Agent",
    "Auto",
    "BrokenPromise",
    "Certificate",
    "Certified",
    "CertifiedSearch",
    "Check",
    "Comparison",
    "CustomOperator",
    "Entropy",
    "Estimate",
    "Estimates",
    "Exact",
    "Game",
    "Gumbel",
    "InvalidInput",
    "Kind",
    "Level",
    "Max",
    "MissingExtra",
    "Operator",
    "OracleError",
    "Paper",
    "Prepared",
    "Problem",
    "Progress",
    "Root",
    "Schedule",
    "SmoothCruiser",
    "SmoothcruiserError",
    "Solution",
    "SparseSampling",
    "Sparsemax",
    "SquareRoot",
    "StoreError",
    "Summary",
    "Tree",
    "Unpayable",
    "WorkersLost",
    "adapters",
    "batched",
    "calibrate",
    "check",
    "check_operator",
    "compare",
    "evaluate",
    "explain",
    "make",
    "plan",
    "plan_many",
    "play",
    "prepare",
    "report",
    "resume",
    "run",
    "schema",
    "solve",
    "tabular",
    "view",
]

# Where the public names are. A module is imported when one of its names is first asked
# for, so that importing this package takes no time. Type checkers read the imports above.
_HOMES = {
    "adapters": (),
    "api": (
        "calibrate",
        "evaluate",
        "explain",
        "plan",
        "plan_many",
        "prepare",
        "solve",
    ),
    "certified.search": ("Certified",),
    "checks": ("Check", "check"),
    "comparison": ("Comparison", "compare"),
    "display.page": ("report",),
    "display.result_pages": ("view",),
    "errors": (
        "BrokenPromise",
        "InvalidInput",
        "MissingExtra",
        "OracleError",
        "SmoothcruiserError",
        "StoreError",
        "Unpayable",
        "WorkersLost",
    ),
    "estimate": ("Certificate", "Estimate", "Estimates"),
    "exact.solution": ("Solution",),
    "methods.auto": ("Auto",),
    "methods.base": ("Prepared",),
    "methods.certified_search": ("CertifiedSearch",),
    "methods.exact_method": ("Exact",),
    "methods.stored_sessions": ("resume",),
    "methods.schedules.scheduled": ("Paper", "SmoothCruiser", "SparseSampling", "run"),
    "operators": (
        "CustomOperator",
        "Entropy",
        "KL",
        "Max",
        "Operator",
        "Sparsemax",
        "SquareRoot",
    ),
    "operators.check": ("check_operator",),
    "playing.agent": ("Agent",),
    "playing.episodes": ("Summary", "play"),
    "problem.batched": ("batched",),
    "problem.make": ("make",),
    "problem.problem": ("Game", "MDP", "Problem"),
    "problem.model.tabular": ("tabular",),
    "progress": ("Progress",),
    "records.data": ("schema",),
    "schedule.schedule": ("Kind", "Level", "Root", "Schedule"),
    "tree.prior_rules": ("PUCT", "Gumbel"),
    "tree.search_rules": ("BTS", "DENTS", "MENTS", "RENTS", "TENTS", "UCT"),
    "tree.tree": ("Tree",),
}
_LATE = {name: home for home, names in _HOMES.items() for name in names or (home,)}


def _version() -> str:
    """The version that is installed; it is written in pyproject.toml and nowhere else."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("smoothcruiser")
    except PackageNotFoundError:
        raise AttributeError(
            "smoothcruiser has a version where it is installed, and here it is "
            "imported "
            "from its sources alone; install it with: pip install ."
        ) from None


def _suggest_name(name: str) -> str:
    """A question after the public name that ``name`` resembles."""
    import difflib

    bare_name = name.lower().replace("_", "")
    close_names = [
        public_name
        for public_name in _LATE
        if len(public_name) > 3 and public_name.lower() in bare_name
    ]
    if name.startswith("_") or "." in name:
        return ""
    close_names = close_names or difflib.get_close_matches(name, _LATE, 1)
    return f"; did you mean {close_names[0]}?" if close_names else ""


if not TYPE_CHECKING:  # else every name would be accepted

    def __getattr__(name: str) -> Any:
        """A public name, imported now."""
        if name == "__version__":
            return globals().setdefault(name, _version())
        if name not in _LATE:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}{_suggest_name(name)}"
            )
        from importlib import import_module

        home = import_module(f"{__name__}.{_LATE[name]}")
        return globals().setdefault(name, getattr(home, name, home))


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE, "__version__"})
