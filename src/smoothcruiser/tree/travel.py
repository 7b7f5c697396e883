"""Plain trees on their way to a worker and back: nodes as rows, by number.

A pickle of the nodes themselves would go as deep as the tree does, which Python refuses
for deep ones. A row has the numbers of a node; children and stored outcomes refer to
rows. The problem does not travel: every worker has its own.
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.jit.interrupts import StopRequest
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard
from smoothcruiser.tree.plain import PlainTree
from smoothcruiser.tree.plain_node import PlainNode
from smoothcruiser.tree.widening import MoveAnswers

REFERRING = ("children", "outcomes")  # slots that name other nodes
NUMBERS = tuple(name for name in PlainNode.__slots__ if name not in REFERRING)
# attributes that stay, are built anew, or have a meaning only within a simulation
STAYS = frozenset(
    (
        *(
            "problem",
            "guard",
            "hold",
            "pool",
            "root",
            "pending_nodes",
            "_order",
            "_numbers",
        ),
        *(
            "nodes",
            "policies",
            "new_leaf",
            "stored_child",
            "sampled",
            "action",
            "slot",
            "added",
        ),
    )
)

PackedTree = dict[str, Any]


def pack_tree(tree: PlainTree) -> PackedTree:
    """The tree as plain data, without its problem."""
    nodes = tree._ordered_nodes()
    node_index = {id(node): i for i, node in enumerate(nodes)}
    return {
        "rows": [tuple(getattr(node, name) for name in NUMBERS) for node in nodes],
        "children": [
            [(key, node_index[id(child)]) for key, child in node.children.items()]
            for node in nodes
        ],
        "outcomes": [
            {
                slot: (
                    *(move_answers.samples, move_answers.ends, move_answers.paid),
                    [
                        (node_index[id(c)], count, paid)
                        for c, count, paid in move_answers.by_child.values()
                    ],
                )
                for slot, move_answers in node.outcomes.items()
            }
            for node in nodes
        ],
        "pending_nodes": [node_index[node_id] for node_id in tree.pending_nodes],
        "rest": {
            name: value for name, value in tree.__dict__.items() if name not in STAYS
        },
    }


def restore_tree(tree: PlainTree, form: PackedTree) -> None:
    """Replace the contents of ``tree`` by a packed one; problem and hold stay."""
    nodes = []
    for row in form["rows"]:
        node: PlainNode = object.__new__(PlainNode)
        for name, value in zip(NUMBERS, row, strict=True):
            setattr(node, name, value)
        nodes.append(node)
    for node, child_indices, stored_outcomes in zip(
        nodes, form["children"], form["outcomes"], strict=True
    ):
        node.children = {key: nodes[i] for key, i in child_indices}
        node.outcomes = {}
        for slot, (num_samples, num_ends, paid, seen_rows) in stored_outcomes.items():
            move_answers = node.outcomes[slot] = MoveAnswers()
            move_answers.samples, move_answers.ends, move_answers.paid = (
                num_samples,
                num_ends,
                paid,
            )
            move_answers.by_child = {
                id(nodes[i]): (nodes[i], count, total) for i, count, total in seen_rows
            }
    tree.__dict__.update(form["rest"])
    tree.root, tree._order = nodes[0], None
    tree.pending_nodes = {id(nodes[i]) for i in form["pending_nodes"]}


def unpack_tree(problem: Problem, form: PackedTree) -> PlainTree:
    """The tree that was packed, for ``problem``."""
    tree: PlainTree = object.__new__(PlainTree)
    tree.problem, tree.guard, tree.hold = problem, Guard(), StopRequest()
    restore_tree(tree, form)
    return tree
