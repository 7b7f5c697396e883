"""The levels that a run reaches, with the steps left before the horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcruiser.errors import BrokenPromise

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Level, Schedule

# (level, steps left) pairs; compiled tables have about as many as levels
MOST_NODES = 1_000_000

Node = tuple[int, int | None]  # a row, and the steps left there (None: no horizon)


def children(level: Level) -> list[int]:
    """The rows that ``level`` samples."""
    return [child for child in (level.query, level.continuation) if child >= 0]


def root_node(schedule: Schedule) -> Node:
    """The root's child, with the steps left there."""
    steps_left = schedule.facts.horizon
    if steps_left is not None and schedule.root.target == "q_values":
        steps_left -= 1
    return schedule.root.child, steps_left


def nodes(schedule: Schedule) -> list[Node]:
    """Return every row that the root reaches, with the steps left there.

    Children stand before their parents.
    """
    found_nodes: set[Node] = set()
    open_nodes = [root_node(schedule)]
    while open_nodes:
        node = open_nodes.pop()
        if node in found_nodes:
            continue
        found_nodes.add(node)
        if len(found_nodes) > MOST_NODES:
            raise BrokenPromise(
                f"More than {MOST_NODES} pairs of a level and its steps left: too "
                "many to verify."
            )
        steps_after = None if node[1] is None else node[1] - 1
        open_nodes += [
            (child, steps_after) for child in children(schedule.levels[node[0]])
        ]
    return sorted(found_nodes, key=lambda node: node[0])
