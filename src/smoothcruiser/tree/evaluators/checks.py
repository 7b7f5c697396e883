"""Which parameters of a tree search go together at leaves."""

from __future__ import annotations

from typing import Any

from smoothcruiser.errors import InvalidInput


def check_leaves(search: Any) -> None:
    """Refuse parameters that do not go together at leaves."""
    given = search.evaluators
    values = {"value", "network"} & set(given)
    if search.mix > 1.0 or (search.mix > 0.0 and not values):
        raise InvalidInput(
            f"{search.name}: mix is the weight of a rollout beside value=, from 0 to "
            f"1, got {search.mix!r}{'' if values else ' without value='}."
        )
    if given and search.expansion != 1:
        raise InvalidInput(
            f"{search.name}: {next(iter(given))} needs expansion=1, one new leaf per "
            f"simulation, got {search.expansion!r}."
        )
    # the one value of each that goes with evaluators
    alone: dict[str, Any] = {"widening": None, "samples": None, "action_widening": None}
    alone |= {"solve": False, "trees": 1, "leaf_rollouts": 1}
    for name, only in alone.items():
        if search.asks and getattr(search, name) != only:
            raise InvalidInput(
                f"{search.name}: {name}= is not for trees with a prior or with "
                "evaluators at their leaves; give one or the other."
            )
    if search.leaf_batch > 1 and not given:
        raise InvalidInput(
            f"{search.name}: leaf_batch={search.leaf_batch} needs something to ask at "
            "leaves; give value=, prior= or initial_q=."
        )
    if search.leaf_batch > 1 and getattr(search, "prior", None) == "parent":
        raise InvalidInput(
            f"{search.name}: prior='parent' follows one path at a time; drop "
            "leaf_batch."
        )
