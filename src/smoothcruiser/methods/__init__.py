"""The planning methods by name: ``METHODS`` is the one table, in the order of the help.

A method of this package is imported when it is first looked up, so that a program waits
only for those that it uses. ``resolve`` turns the argument of a caller (a name, a
method, a tree search, with options) into a method. To add one, see docs/extending.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.methods.base import Method
from smoothcruiser.query import KEYWORDS

if TYPE_CHECKING:
    from smoothcruiser.tree.search_rules import Search


class Methods(MutableMapping[str, Method]):
    """Methods by name; a class known only by its module is imported on first use."""

    def __init__(self, rows: Mapping[str, Method | str]) -> None:
        self._rows: dict[str, Method | str] = dict(rows)

    def __getitem__(self, name: str) -> Method:
        table_entry = self._rows[name]
        if isinstance(table_entry, str):
            module_name, _, class_name = table_entry.partition(":")
            new_method = getattr(
                import_module(f"smoothcruiser.{module_name}"), class_name
            )()
            table_entry = self._rows[name] = _as_method(new_method)
        return table_entry

    def __setitem__(self, name: str, method: Method) -> None:
        self._rows[name] = method

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __contains__(self, name: object) -> bool:  # imports nothing
        return name in self._rows

    def __copy__(self) -> Methods:
        return Methods(self._rows)

    def __repr__(self) -> str:
        return f"Methods({', '.join(self._rows)})"

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


METHODS = Methods(
    {
        "auto": "methods.auto:Auto",
        "smoothcruiser": "methods.schedules.scheduled:SmoothCruiser",
        "paper": "methods.schedules.scheduled:Paper",
        "sparse-sampling": "methods.schedules.scheduled:SparseSampling",
        "certified": "methods.certified_search:CertifiedSearch",
        "exact": "methods.exact_method:Exact",
        "uct": "tree.search_rules:UCT",
        "ments": "tree.search_rules:MENTS",
        "rents": "tree.search_rules:RENTS",
        "tents": "tree.search_rules:TENTS",
        "bts": "tree.search_rules:BTS",
        "dents": "tree.search_rules:DENTS",
        "puct": "tree.prior_rules:PUCT",
        "gumbel": "tree.prior_rules:Gumbel",
    }
)


_SOLVES = ("exact", "solving a known model")
_GROWS = ("uct", "Monte Carlo tree search")
# names of methods elsewhere: the name of the method here, and its description
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
        method: an object with its default parameters; a name that is
            taken is refused.
    """
    new_method = _as_method(method)
    if not isinstance(new_method, Method):
        raise InvalidInput(
            "A method is an object of a class derived from Method (or of a tree search "
            f"derived from Search), got {new_method!r}; make one and register that."
        )
    method_name = getattr(new_method, "name", None)
    if not isinstance(method_name, str) or not method_name:
        raise InvalidInput(
            f"{type(new_method).__name__} needs a name, a word of its own, got "
            f"{method_name!r}."
        )
    taken_keywords = new_method.takes
    if not isinstance(taken_keywords, frozenset) or not taken_keywords <= set(
        KEYWORDS
    ):
        raise InvalidInput(
            f"{method_name}.takes must be a frozenset of keywords of plan "
            f"({', '.join(KEYWORDS)}), got {taken_keywords!r}."
        )
    if method_name in METHODS:
        raise InvalidInput(
            f"There is a method {method_name!r} already; choose another name."
        )
    from smoothcruiser.methods.tree_search import TreeSearch
    from smoothcruiser.tree.search_rules import TREE_SEARCHES

    METHODS[method_name] = new_method
    if isinstance(new_method, TreeSearch):
        TREE_SEARCHES[method_name] = new_method.search


def resolve(
    method: str | Method | Search,
    options: dict[str, Any] | None = None,
    *,
    delta_prime: float | None = None,
    certify: bool = False,
) -> Method:
    """The requested method, with its parameters."""
    chosen_method = _find_method(method)
    if delta_prime is not None and "delta_prime" not in chosen_method.parameters:
        raise InvalidInput(
            "delta_prime= belongs to method 'paper'; for others give delta=."
        )
    if certify and "certify" not in chosen_method.parameters:
        raise InvalidInput(
            "certify= belongs to tree searches (uct, ments, ...); the others "
            "have promises of their own. evaluate(problem, policy) certifies any policy "
            "from below."
        )
    own_options = dict(options or {})
    own_options |= {} if delta_prime is None else {"delta_prime": delta_prime}
    own_options |= {"certify": True} if certify else {}
    return chosen_method.with_options(own_options) if own_options else chosen_method


def _find_method(method: str | Method | Search) -> Method:
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
    meant_name = method.lower().replace("_", "-") if isinstance(method, str) else ""
    if meant_name in METHODS:
        raise InvalidInput(f"Unknown method {method!r}; did you mean {meant_name!r}?")
    if meant_name in ELSEWHERE:
        name, description = ELSEWHERE[meant_name]
        raise InvalidInput(
            f"Unknown method {method!r}; {description} is called {name!r} here."
        )
    close_names = difflib.get_close_matches(meant_name, METHODS, 1)
    hint = f" (did you mean {close_names[0]!r}?)" if close_names else ""
    raise InvalidInput(
        f"Unknown method {method!r}{hint}; choose one of {', '.join(METHODS)}."
    )


def _as_method(candidate: Any) -> Any:
    """A tree search as the method that runs it; anything else as it is."""
    if isinstance(candidate, Method):
        return candidate
    from smoothcruiser.methods.tree_search import TreeSearch
    from smoothcruiser.tree.search_rules import Search

    return TreeSearch(search=candidate) if isinstance(candidate, Search) else candidate


def _is_kind_of_method(candidate: type) -> bool:
    from smoothcruiser.tree.search_rules import Search

    return issubclass(candidate, Method | Search)
