"""The choice of ``auto`` for a model that ``outcomes=`` gives.

States are listed from the requested one. A model that is listed within its limits is
solved; a larger one is searched, and read as far as the answer needs it. Neither
samples, so delta is 0.
"""

from __future__ import annotations

from dataclasses import replace

from smoothcruiser.errors import InvalidInput
from smoothcruiser.methods.base import Prepared
from smoothcruiser.methods.certified import CertifiedSearch
from smoothcruiser.methods.exact import Exact
from smoothcruiser.problem.rows import BadRow, NoRow
from smoothcruiser.problem.undiscounted import refuse_unbounded
from smoothcruiser.query import Query

LISTED = 20_000  # states of outcomes= that are solved: about a second of Python


def known_model_answer(
    query: Query, deadline: float, *, searched: bool
) -> Prepared | None:
    """The solution of ``outcomes``, or a search in it; None if neither can be.

    Raises ``NoRow`` where a pair has no row: then there is a simulator to sample.

    Args:
        query: about a problem with ``outcomes``, at a state.
        deadline: until when states are listed.
        searched: whether a search would know when to end.
    """
    from smoothcruiser.exact.reachable import TooLarge, explore

    rooted_problem = replace(query.problem, initial_state=query.state)
    try:
        listed_model = explore(rooted_problem, most_states=LISTED, deadline=deadline)
    except TooLarge:
        refuse_unbounded(
            query.problem, f"auto, beyond {LISTED:,} states or the time to list them,"
        )
        if not searched:
            return None
        return (
            CertifiedSearch()
            .prepare(query)
            .with_notes(
                "auto chose certified search: the model is known by outcomes=, with "
                f"more states than {LISTED:,} or than there is time to list, so it is "
                "read as far as the answer needs it; delta is 0."
            )
        )
    except (BadRow, NoRow):
        raise
    except InvalidInput:  # states that are not told apart, ends that only step knows
        return None
    return replace(Exact().prepare(query), listed_model=listed_model).with_notes(
        "auto chose exact: the model is known by outcomes=, so no sampling is needed "
        "and delta is 0."
    )
