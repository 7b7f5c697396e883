"""Which code grows a tree: compiled for compiled oracles, plain Python for any.

Both agree to the last bit. Compiling takes seconds, and is a phase that is reported: a
``Tree`` compiles when it is made, not when it grows, so that growth has its seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from smoothcruiser.engines.registry import machine_code, not_compiled
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.keys import Key
from smoothcruiser.jit.streams import stream
from smoothcruiser.progress import Callback, Phases, finish, shown
from smoothcruiser.tree.searches import NO_PRIOR
from smoothcruiser.tree.setting import setting_of

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree


def backend_of(
    tree: Tree, executor: str | None, callback: Callback | None = None
) -> Any:
    """What grows the tree; ``callback`` hears that code is compiled for it."""
    begin = time.perf_counter()
    with shown(callback):
        Phases(callback).begin("compiling")
        found = _made(tree, executor)
        finish(callback, calls=0, seconds=time.perf_counter() - begin)
    return found


def _made(tree: Tree, executor: str | None) -> Any:
    problem, plain = tree.problem, tree.rule.prior == NO_PRIOR
    count = problem.num_actions
    weights = [1.0] * count if plain else problem.operator.weights(count)
    arguments = (
        problem,
        tree.rule,
        setting_of(problem, tree.method, tree.elapsed),
        tree.head,
        weights,
        tree.state,
        stream(tree.seed, Key.TREE),
    )
    machine = machine_code(executor, "Tree search")
    if machine is None:
        machine = problem.is_compiled
    if not machine:
        from smoothcruiser.tree.plain import PlainTree

        return PlainTree(*arguments)
    why = not_compiled(problem)
    if why is not None:
        raise InvalidInput(why)
    from smoothcruiser.tree.compiled import CompiledTree

    return CompiledTree(*arguments)
