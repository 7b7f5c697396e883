"""The planning methods by name: ``METHODS`` is the one table, in the order of the help.

A method of this package is imported when it is first looked up, so that a program waits
only for those that it uses. ``resolve`` turns what a caller wrote (a name, a method, a
tree search, with options) into a method. To add one, see docs/extending.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.methods.base import Method
from smoothcruiser.query import KEYWORDS

if TYPE_CHECKING:
    from smoothcruiser.tree.searches import Search


class Methods(MutableMapping[str, Method]):
    """Methods by name; where only the place of a class is known, it is imported."""

    def __init__(self, places: dict[str, str]) -> None:
        self._rows: dict[str, Method | str] = dict(places)

    def __getitem__(self, name: str) -> Method:
        found = self._rows[name]
        if isinstance(found, str):
            module, _, class_name = found.partition(":")
            made = getattr(import_module(f"smoothcruiser.{module}"), class_name)()
            found = self._rows[name] = _as_method(made)
        return found

    def __setitem__(self, name: str, method: Method) -> None:
        self._rows[name] = method

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __contains__(self, name: object) -> bool:  # imports nothing
        return name in self._rows

    def __copy__(self) -> Methods:
        made = Methods({})
        made._rows = dict(self._rows)
        return made

    def __repr__(self) -> str:
        return f"Methods({', '.join(self._rows)})"

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


METHODS = Methods(
    {
        "auto": "methods.auto:Auto",
        "smoothcruiser": "methods.scheduled:SmoothCruiser",
        "paper": "methods.scheduled:Paper",
        "sparse-sampling": "methods.scheduled:SparseSampling",
        "certified": "methods.certified:CertifiedSearch",
        "exact": "methods.exact:Exact",
        "uct": "tree.searches:UCT",
        "ments": "tree.searches:MENTS",
        "rents": "tree.searches:RENTS",
        "tents": "tree.searches:TENTS",
        "bts": "tree.searches:BTS",
        "dents": "tree.searches:DENTS",
        "puct": "tree.prior_searches:PUCT",
        "gumbel": "tree.prior_searches:Gumbel",
    }
)


_SOLVES = ("exact", "solving a known model")
_GROWS = ("uct", "Monte Carlo tree search")
# what methods are called elsewhere: the method here, and what it is
ELSEWHERE = {
    **dict.fromkeys(("mcts", "monte-carlo-tree-search", "monte-carlo", "ucb"), _GROWS),
    **dict.fromkeys(("value-iteration", "vi", "policy-iteration", "pi"), _SOLVES),
    **dict.fromkeys(("dp", "dynamic-programming", "lp", "solve"), _SOLVES),
    **dict.fromkeys(
        ("alphazero", "alpha-zero", "az"), ("puct", "the search of AlphaZero")
    ),
    **dict.fromkeys(
        ("muzero", "gumbel-muzero", "mctx"), ("gumbel", "the search of Gumbel MuZero")
    ),
    **dict.fromkeys(
        ("minimax", "alpha-beta", "alphabeta", "expectimax", "lrtdp", "ao*", "brtdp"),
        ("certified", "a search with bounds"),
    ),
    **dict.fromkeys(
        ("kearns", "ksg", "rollout", "rollouts"),
        ("sparse-sampling", "planning by samples without a tree"),
    ),
}


def register(method: Method | Search) -> None:
    """Let ``method`` be planned with by its name; a tree search by ``Tree`` too.

    Args:
        method: an object with its default parameters; another one of the same name is
            refused.
    """
    found = _as_method(method)
    if not isinstance(found, Method):
        raise InvalidInput(
            "A method is an object of a class derived from Method (or of a tree search "
            f"derived from Search), got {found!r}; make one and register that."
        )
    name = getattr(found, "name", None)
    if not isinstance(name, str) or not name:
        raise InvalidInput(
            f"{type(found).__name__} needs a name, a word of its own, got {name!r}."
        )
    takes = found.takes
    if not isinstance(takes, frozenset) or not takes <= set(KEYWORDS):
        raise InvalidInput(
            f"{name}.takes must be a frozenset of keywords of plan "
            f"({', '.join(KEYWORDS)}), got {takes!r}."
        )
    if name in METHODS:
        raise InvalidInput(f"There is a method {name!r} already; choose another name.")
    from smoothcruiser.methods.tree import TreeSearch
    from smoothcruiser.tree.searches import TREE_SEARCHES

    METHODS[name] = found
    if isinstance(found, TreeSearch):
        TREE_SEARCHES[name] = found.search


def resolve(
    method: str | Method | Search,
    options: dict[str, Any] | None = None,
    *,
    delta_prime: float | None = None,
    certify: bool = False,
) -> Method:
    """The method that was asked for, with its parameters."""
    found = _found(method)
    if delta_prime is not None and "delta_prime" not in found.parameters:
        raise InvalidInput(
            "delta_prime= belongs to method 'paper'; for others give delta=."
        )
    if certify and "certify" not in found.parameters:
        raise InvalidInput(
            "certify= belongs to tree searches (uct, ments, ...); the others "
            "have promises of their own. evaluate(problem, policy) certifies any policy "
            "from below."
        )
    own = dict(options or {})
    own |= {} if delta_prime is None else {"delta_prime": delta_prime}
    own |= {"certify": True} if certify else {}
    return found.with_options(own) if own else found


def _found(method: str | Method | Search) -> Method:
    if not isinstance(method, str):
        method = _as_method(method)
    if isinstance(method, Method):
        return method
    if isinstance(method, type) and _is_kind_of_method(method):
        raise InvalidInput(
            "method is a class; give an object with its parameters, "
            f"{method.__name__}(), or its name."
        )
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    meant = method.lower().replace("_", "-") if isinstance(method, str) else ""
    if meant in METHODS:
        raise InvalidInput(f"Unknown method {method!r}; did you mean {meant!r}?")
    if meant in ELSEWHERE:
        name, what = ELSEWHERE[meant]
        raise InvalidInput(
            f"Unknown method {method!r}; {what} is called {name!r} here."
        )
    near = difflib.get_close_matches(meant, METHODS, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise InvalidInput(
        f"Unknown method {method!r}{hint}; choose one of {', '.join(METHODS)}."
    )


def _as_method(found: Any) -> Any:
    """A tree search as the method that runs it; anything else as it is."""
    if isinstance(found, Method):
        return found
    from smoothcruiser.methods.tree import TreeSearch
    from smoothcruiser.tree.searches import Search

    return TreeSearch(search=found) if isinstance(found, Search) else found


def _is_kind_of_method(found: type) -> bool:
    from smoothcruiser.tree.searches import Search

    return issubclass(found, Method | Search)
