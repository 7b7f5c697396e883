"""The planning methods by name: ``METHODS`` is the one table, in the order of the help.

``resolve`` turns what a caller wrote (a name, a method, a tree search, with options)
into a method. To add one, see docs/extending.md.
"""

from __future__ import annotations

import difflib
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.methods.auto import Auto
from smoothcruiser.methods.base import Method
from smoothcruiser.methods.certified import CertifiedSearch
from smoothcruiser.methods.exact import Exact
from smoothcruiser.methods.scheduled import Paper, SmoothCruiser, SparseSampling
from smoothcruiser.methods.tree import TreeSearch
from smoothcruiser.query import KEYWORDS
from smoothcruiser.tree import prior_searches  # noqa: F401 - adds PUCT and Gumbel
from smoothcruiser.tree.searches import TREE_SEARCHES, Search

METHODS: dict[str, Method] = {}


def register(method: Method | Search) -> None:
    """Let ``method`` be planned with by its name; a tree search by ``Tree`` too.

    Args:
        method: an object with its default parameters; another one of the same name is
            refused.
    """
    found = TreeSearch(search=method) if isinstance(method, Search) else method
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
    METHODS[name] = found
    if isinstance(found, TreeSearch):
        TREE_SEARCHES[name] = found.search


for _method in (
    Auto(),
    SmoothCruiser(),
    Paper(),
    SparseSampling(),
    CertifiedSearch(),
    Exact(),
):
    register(_method)
for _search in tuple(TREE_SEARCHES.values()):
    register(_search)


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
            "delta_prime (--delta-prime) belongs to method 'paper'; for others give "
            "delta (--delta)."
        )
    if certify and "certify" not in found.parameters:
        raise InvalidInput(
            "certify= (--certify) belongs to tree searches (uct, ments, ...); the others "
            "have promises of their own. evaluate(problem, policy) certifies any policy "
            "from below."
        )
    own = dict(options or {})
    own |= {} if delta_prime is None else {"delta_prime": delta_prime}
    own |= {"certify": True} if certify else {}
    return found.with_options(own) if own else found


def _found(method: str | Method | Search) -> Method:
    if isinstance(method, Method):
        return method
    if isinstance(method, Search):
        return TreeSearch(search=method)
    if isinstance(method, type) and issubclass(method, Method | Search):
        raise InvalidInput(
            "method is a class; give an object with its parameters, "
            f"{method.__name__}(), or its name."
        )
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    meant = method.lower().replace("_", "-") if isinstance(method, str) else ""
    if meant in METHODS:
        raise InvalidInput(f"Unknown method {method!r}; did you mean {meant!r}?")
    near = difflib.get_close_matches(meant, METHODS, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise InvalidInput(
        f"Unknown method {method!r}{hint}; choose one of {', '.join(METHODS)}."
    )
