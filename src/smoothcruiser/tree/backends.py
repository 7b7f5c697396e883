"""Which code grows a tree: compiled for compiled oracles, plain Python for any.

Both agree to the last bit. Compiling takes seconds, and is a phase that is reported: a
``Tree`` compiles when it is made, not when it grows, so that growth has its seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smoothcruiser.engines.pools.base import Build, Pool, check_workers
from smoothcruiser.engines.registry import find_executor, machine_code, not_compiled
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.keys import Key
from smoothcruiser.jit.streams import stream
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Phases, finish, show_bar
from smoothcruiser.tree.asks import evaluators_for
from smoothcruiser.tree.searches import NO_PRIOR, Search
from smoothcruiser.tree.setting import setting_of
from smoothcruiser.tree.start import TreeStart

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree


def backend_of(
    tree: Tree, executor: str | None, callback: Callback | None = None
) -> Any:
    """The code that grows the tree; ``callback`` hears that it is compiled."""
    start_time = time.perf_counter()
    with show_bar(callback):
        Phases(callback).begin("compiling")
        backend = _build_backend(tree, executor)
        finish(callback, calls=0, seconds=time.perf_counter() - start_time)
    return backend


def _build_backend(tree: Tree, executor: str | None) -> Any:
    is_compiled = is_machine_code(tree.problem, tree.method, executor)
    trees = [
        _build_tree(tree, is_compiled, tree_number)
        for tree_number in range(tree.method.trees)
    ]
    pool_opener = _pool_opener(tree, executor, is_compiled)
    if _is_pool(executor):
        for single_tree in trees:
            single_tree.name = executor
    if tree.method.leaf_rollouts > 1:
        for single_tree in trees:
            single_tree.spread = (
                pool_opener if len(trees) == 1 and _is_pool(executor) else None
            )
    if len(trees) == 1:
        return trees[0]
    from smoothcruiser.tree.forest import Forest

    return Forest(trees, pool_opener, travels=_is_pool(executor))


def is_machine_code(problem: Problem, search: Search, executor: str | None) -> bool:
    """Whether compiled code grows the trees; impossible requests are refused."""
    is_spread = search.trees > 1 or search.leaf_rollouts > 1
    if _is_pool(executor):
        if not is_spread:
            raise InvalidInput(
                f"Executor {executor!r} spreads trees or rollouts over workers, and "
                f"this search grows one tree; give {search.name} trees= (or "
                "leaf_rollouts= for a slow simulator), or drop executor."
            )
        return False
    uses_machine = machine_code(executor, "Tree search")
    if uses_machine and search.leaf_rollouts > 1:
        raise InvalidInput(
            "leaf_rollouts spreads the rollouts of a slow simulator over processes, "
            "and compiled code runs them in this one; use trees=, or "
            "executor='processes'."
        )
    bounds_readable = search.bounds is None or problem.tables is not None
    if uses_machine and not bounds_readable:
        raise InvalidInput(
            f"{search.name}: a compiled tree reads bounds= by the number of a state, "
            "and this problem has no table of states; drop executor, or bounds."
        )
    if uses_machine is None:
        uses_machine = (
            problem.is_compiled and search.leaf_rollouts == 1 and bounds_readable
        )
    refusal = not_compiled(problem) if uses_machine else None
    if refusal is not None:
        raise InvalidInput(refusal)
    return uses_machine


def _is_pool(executor: str | None) -> bool:
    return executor is not None and find_executor(executor).pool is not None


def _build_tree(tree: Tree, is_compiled: bool, tree_number: int) -> Any:
    """One tree; the first has the stream of a tree alone."""
    problem, without_prior = tree.problem, tree.rule.prior == NO_PRIOR
    num_actions = problem.num_actions
    weights = (
        [1.0] * num_actions if without_prior else problem.operator.weights(num_actions)
    )
    stream_key = (Key.TREE, tree_number) if tree_number else (Key.TREE,)
    start = TreeStart(
        problem=problem,
        rule=tree.rule,
        setting=setting_of(problem, tree.method, tree.elapsed),
        head=tree.head,
        weights=weights,
        state=tree.state,
        rng=stream(tree.seed, *stream_key),
        bounds=tree.bounds,
    )
    evaluators = evaluators_for(problem, tree.method, tree.elapsed)
    if is_compiled and evaluators is not None:
        from smoothcruiser.tree.asking_compiled import CompiledEvaluatorTree

        return CompiledEvaluatorTree(evaluators, start)
    if evaluators is not None:
        from smoothcruiser.tree.asking_plain import PlainEvaluatorTree

        return PlainEvaluatorTree(evaluators, start)
    if is_compiled:
        from smoothcruiser.tree.compiled import CompiledTree

        return CompiledTree(start)
    from smoothcruiser.tree.plain import PlainTree

    plain_tree = PlainTree(start)
    plain_tree.leaves = tree.method.leaf_rollouts, tree.seed, tree_number
    return plain_tree


def _pool_opener(
    tree: Tree, executor: str | None, is_compiled: bool
) -> Callable[[], Pool]:
    """A function that opens workers, which grow trees or run rollouts from leaves."""
    compute = tree.compute

    def open_pool() -> Pool:
        from smoothcruiser.engines.pools.threads import ThisThread, Threads

        if _is_pool(executor):
            executor_row = find_executor(str(executor))
            assert executor_row.pool is not None
            return executor_row.pool(Build(tree.problem, same_problem), compute)
        if is_compiled:
            num_threads = min(check_workers(compute.workers), tree.method.trees)
            return Threads(num_threads, None, do_nothing)
        return ThisThread(None, do_nothing)

    return open_pool


def same_problem(problem: Problem) -> Problem:
    """The problem itself: a worker builds nothing else."""
    return problem


def do_nothing() -> None:
    """Machine code grows in short slices: there is nothing to interrupt."""
