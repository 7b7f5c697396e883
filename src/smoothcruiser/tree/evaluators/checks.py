"""Which parameters of a tree search go together at leaves."""

from __future__ import annotations

from typing import Any

from smoothcruiser.errors import InvalidInput


def check_leaves(search: Any) -> None:
    """Refuse parameters that do not go together at leaves."""
    evaluators = search.evaluators
    value_parameters = {"value", "network"} & set(evaluators)
    if search.mix > 1.0 or (search.mix > 0.0 and not value_parameters):
        raise InvalidInput(
            f"{search.name}: mix is the weight of a rollout beside value=, from 0 to "
            f"1, got {search.mix!r}{'' if value_parameters else ' without value='}."
        )
    if evaluators and search.expansion != 1:
        raise InvalidInput(
            f"{search.name}: {next(iter(evaluators))} needs expansion=1, one new leaf "
            f"per simulation, got {search.expansion!r}."
        )
    # the one value of each that goes with evaluators
    allowed_values: dict[str, Any] = {
        "widening": None,
        "samples": None,
        "action_widening": None,
    }
    allowed_values |= {"solve": False, "trees": 1, "leaf_rollouts": 1}
    for name, allowed_value in allowed_values.items():
        if search.asks and getattr(search, name) != allowed_value:
            raise InvalidInput(
                f"{search.name}: {name}= is not for trees with a prior or with "
                "evaluators at their leaves; give one or the other."
            )
    if search.leaf_batch > 1 and not evaluators:
        raise InvalidInput(
            f"{search.name}: leaf_batch={search.leaf_batch} needs something to ask at "
            "leaves; give value=, prior= or initial_q=."
        )
    if search.leaf_batch > 1 and getattr(search, "prior", None) == "parent":
        raise InvalidInput(
            f"{search.name}: prior='parent' follows one path at a time; drop "
            "leaf_batch."
        )
