"""The limits of a tree search in numbers: depth, number of nodes, value of the tail.

A simulation ends at ``depth``, at the horizon, or where the discount has made later
rewards worth less than ``REACH``. The tail then counts as the middle of the possible
values, and ``truncation`` bounds the error of that. Where bounds on V are functions
of the state and the search estimates that V, every leaf counts as the middle of its
own bounds, without a rollout.

One growth of a tree: its limits, and the reports on it.

The sentences about a tree that its estimate carries.

Which code grows a tree: compiled for compiled oracles, plain Python for any.

Both agree to the last bit. Compiling takes seconds, and is a phase that is reported: a
``Tree`` compiles when it is made, not when it grows, so that growth has its seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from smoothcruiser.engines.pools.base import Build, Pool, check_workers
from smoothcruiser.engines.registry import find_executor, machine_code, not_compiled
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.forms import PER_ELEMENT, KernelFamily
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import check_seconds, is_whole
from smoothcruiser.problem.bounds import bounds_slack
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Phases, finish, show_bar, time_left
from smoothcruiser.schedule.number_text import count_noun
from smoothcruiser.states.identity import by_identity
from smoothcruiser.tree.evaluators.evaluator_queue import (
    TreeEvaluators,
    evaluates_limit,
    evaluator_notes,
)
from smoothcruiser.tree.kernels.array_tree import TreeStart, needs_extras
from smoothcruiser.tree.node import SearchTree
from smoothcruiser.tree.proofs import note_of, rounding
from smoothcruiser.tree.search_numbers import NO_PRIOR, OWN_PICK, Setting
from smoothcruiser.tree.search_rules import Search
from smoothcruiser.tree.widening import limits_chance

# Without a horizon, the depth is such that gamma^d is a hundredth: the rewards
# beyond move a value by at most 0.5% of its span.
REACH = 0.01
MOST_NODES = 1_000_000
MOST_BYTES = 2**30  # for all nodes
# of actions, where they are sampled and the method says nothing: the defaults of MCTS.jl;
# all are open where a prior or evaluators at leaves decide
SAMPLED_WIDENING = (10.0, 0.5)


def setting_of(problem: Problem, search: Search, elapsed: int = 0) -> Setting:
    """The problem and the limits in numbers, ``elapsed`` moves after the start."""
    K, limit = problem.num_actions, depth_limit(problem, search, elapsed)
    steps_beyond = (
        None if problem.horizon is None else problem.horizon - elapsed - limit
    )
    tail_low, tail_high = _value_range(problem, search, steps_beyond)
    # bytes of two tables, the hash table and a state of one word
    keeps_entropy = search.rule(problem.operator).entropy > 0.0
    per_action = (4 if keeps_entropy else 3) + (
        3 if search.solve or search.bounds is not None else 0
    )
    bytes_per_node = 8 * (10 + per_action * K)
    k, alpha = search.widening or (0.0, 0.0)
    k_actions, alpha_actions = search.action_widening or (
        (0.0, 0.0)
        if problem.sample_action is None or search.asks
        else SAMPLED_WIDENING
    )
    if search.samples is not None or search.widening is not None:
        bytes_per_node += 8 * (3 + 5 * K)
    default_nodes = max(2, min(MOST_NODES, MOST_BYTES // bytes_per_node))
    return Setting(
        num_actions=K,
        fewest=problem.facts.min_actions,
        discount=float(problem.discount),
        low=float(problem.reward_range[0]),
        high=float(problem.reward_range[1]),
        varies=problem.legal is not None,
        ends=problem.facts.terminals,
        game=problem.is_game,
        limit=limit,
        tail=0.5 * (tail_low + tail_high),
        expansion=limit if search.expansion is None else search.expansion,
        most_nodes=max(2, (search.max_nodes or default_nodes) // search.trees),
        bounded=_is_bounded(problem, search),
        beyond=_is_bounded(problem, search) and steps_beyond != 0,
        gap=problem.facts.given_gap or 0.0,
        value_low=problem.facts.value_hull()[0],
        value_high=problem.facts.value_hull()[1],
        slack=max(
            bounds_slack(problem.facts),
            rounding(problem, limit) if search.solve else 0.0,
        ),
        samples=search.samples or 0,
        widening=float(k),
        growth=float(alpha),
        action_widening=float(k_actions),
        action_growth=float(alpha_actions),
        solves=search.solve,
        bounds=search.bounds is not None,
        closes=steps_beyond == 0,
        elapsed=elapsed,
    )


def depth_limit(problem: Problem, search: Search, elapsed: int = 0) -> int:
    """The most steps that a simulation may make from the root."""
    horizon = None if problem.horizon is None else problem.horizon - elapsed
    if search.depth is not None:
        return search.depth if horizon is None else min(search.depth, horizon)
    if horizon is not None:
        return horizon
    gamma = problem.discount
    if gamma == 0.0:
        return 1
    return max(1, math.ceil(math.log(REACH) / math.log(gamma)))


def truncation(
    problem: Problem, search: Search, elapsed: int = 0
) -> tuple[float, float]:
    """The span of values at the root, and how far the depth limit may move them."""
    steps_left = None if problem.horizon is None else problem.horizon - elapsed
    limit = depth_limit(problem, search, elapsed)
    root_low, root_high = _value_range(problem, search, steps_left)
    steps_beyond = None if steps_left is None else steps_left - limit
    tail_low, tail_high = _value_range(problem, search, steps_beyond)
    tail_width = tail_high - tail_low
    if _is_bounded(problem, search) and steps_beyond != 0:
        tail_width = min(tail_width, problem.facts.given_gap or 0.0)
    return root_high - root_low, 0.5 * tail_width * problem.discount**limit


def _is_bounded(problem: Problem, search: Search) -> bool:
    """Whether bounds at each state hold for the value that the search estimates."""
    return (
        problem.value_gap is not None
        and search.operator(problem.operator) == problem.operator
    )


def _value_range(
    problem: Problem, search: Search, steps: int | None
) -> tuple[float, float]:
    """The range of values of ``steps`` under the search's own operator."""
    operator = search.operator(problem.operator)
    return problem.facts.drop_bounds(operator).plain_range(steps)


def heads(operator: Operator, num_actions: int) -> list[float]:
    """F(0) over k actions, k = 0..K."""
    return [0.0] + [operator.offset(k) for k in range(1, num_actions + 1)]


UNLIMITED = 2**62


class Growth:
    """The checked limits of one growth, and its progress function.

    The limit that is reached first ends it. ``refused`` says whether the progress
    function ended it.
    """

    def __init__(
        self,
        *,
        simulations: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        progress: Callback | None = None,
    ) -> None:
        if simulations is None and calls is None and seconds is None:
            raise InvalidInput("grow needs a limit: simulations=, calls= or seconds=.")
        for name, value in (("simulations", simulations), ("calls", calls)):
            if value is not None and (not is_whole(value) or value < 0):
                raise InvalidInput(
                    f"{name} must be a whole number of at least 0, got {value!r}."
                )
        check_seconds(seconds)
        self.simulations, self.calls, self.seconds = simulations, calls, seconds
        self.progress, self.phases = progress, Phases(progress)
        self._before = (0, 0)  # simulations and calls of the tree when it began
        self._begin = 0.0

    @property
    def refused(self) -> bool:
        """Whether the progress function returned False."""
        return self.phases.refused

    def start(self, tree: SearchTree) -> tuple[int, int]:
        """(the last simulation, the last call) of a tree that begins to grow."""
        self._before = tree.simulations, tree.num_calls
        self._begin = time.perf_counter()
        most_allowed = self.simulations, self.calls
        if limits_chance(tree.setting) and self.simulations is None:
            # A simulation along stored next states may make no call at all: each
            # counts as one towards this limit, so that it is reached.
            most_allowed = self.calls, self.calls
        last_counts = (
            UNLIMITED if limit is None else before + int(limit)
            for before, limit in zip(self._before, most_allowed, strict=True)
        )
        return next(last_counts), next(last_counts)

    def begin(self, tree: SearchTree) -> bool:
        """Report that sampling begins; return whether to stop."""
        is_heard = self.progress is not None
        return self.phases.begin("sampling", **(self.facts(tree) if is_heard else {}))

    def tell(self, tree: SearchTree) -> bool:
        """Report how large the tree is; return whether to stop."""
        return self.progress is not None and self.phases.tell(**self.facts(tree))

    def facts(self, tree: SearchTree) -> dict[str, Any]:
        """The facts about a tree that reports contain."""
        simulations = tree.simulations - self._before[0]
        num_calls = tree.num_calls - self._before[1]
        seconds_spent = time.perf_counter() - self._begin
        share_done = max(
            simulations / self.simulations if self.simulations else 0.0,
            seconds_spent / self.seconds if self.seconds else 0.0,
            1e-9,
        )
        # the calls allowed, or as many as the limit will do for at this speed
        price = self.calls
        if price is None and num_calls > 0:
            price = max(num_calls, round(num_calls / min(1.0, share_done)))
        seconds_until = None if self.seconds is None else self.seconds - seconds_spent
        return {
            "calls": num_calls,
            "price": price,
            "seconds": seconds_spent,
            "seconds_left": time_left(num_calls, price, seconds_spent, seconds_until),
            "simulations": tree.simulations,
            "nodes": tree.num_nodes,
            "value": tree.node(0).value if tree.simulations else None,
        }


MOST_SHOWN = 10  # actions: a note lists their visits


def notes_of(tree: SearchTree) -> tuple[str, ...]:
    """Sentences on the growth of a tree, and on the limits of its values."""
    visits = tree.node(0).edge_visits
    visits_text = (
        f" (visits {', '.join(f'{n:,}' for n in visits)})"
        if len(visits) <= MOST_SHOWN
        else ""
    )
    sentences = [
        f"{tree.method}: {count_noun(tree.simulations, 'simulation')}{visits_text}, "
        f"{count_noun(tree.num_nodes, 'node')}, "
        f"at most {tree.deepest} deep."
    ]
    estimated_operator = tree.method.estimates(tree.problem.operator)
    if estimated_operator != tree.problem.operator.label:
        sentences.append(
            f"Its values are those of {estimated_operator}, not of the problem's "
            f"{tree.problem.operator.label}."
        )
    if by_identity(tree.state):
        type_name = type(tree.state).__name__
        sentences.append(
            f"States of type {type_name} have no equality, so none is ever met "
            "twice: give them __eq__ and __hash__."
        )
    if tree.method.asks:
        sentences += evaluator_notes(tree.backend)
    if tree.method.bounds is not None:
        sentences.append(tree.bounds.sentence)
    span, cut_error = truncation(tree.problem, tree.method, tree.elapsed)
    if cut_error > REACH * span and not evaluates_limit(tree.backend):
        steps_text = count_noun(tree.setting.limit, "step")
        sentences.append(
            f"Beyond {steps_text} values count as the middle of what is possible: "
            f"up to {cut_error:.3g} off."
        )
    if tree.method.trees > 1:
        sentences.append(
            f"{tree.method.trees:,} independent trees were added up; their number "
            "is part of the answer, who grew them is not."
        )
    max_nodes = tree.setting.most_nodes * tree.method.trees
    if tree.num_nodes >= max_nodes:
        sentences.append(
            f"The tree is full ({max_nodes:,} nodes); it refines "
            "what it has (max_nodes= makes room)."
        )
    return tuple(sentences)


def promise_of(tree: SearchTree) -> str:
    """The promise of a tree: none, or its proof."""
    if tree.method.solve:
        return note_of(tree)
    hint = (
        "."
        if tree.problem.sole_player is None or tree.method.trees > 1
        else "; certify=True bounds its policy from above."
        if tree.problem.minimizes
        else "; certify=True bounds its policy from below."
    )
    return f"A tree search promises nothing{hint}"


def backend_of(
    tree: SearchTree, executor: str | None, callback: Callback | None = None
) -> Any:
    """The code that grows the tree; ``callback`` hears that it is compiled."""
    if callback is None:
        return _build_backend(tree, executor)
    start_time = time.perf_counter()
    with show_bar(callback):
        Phases(callback).begin("compiling")
        backend = _build_backend(tree, executor)
        finish(callback, calls=0, seconds=time.perf_counter() - start_time)
    return backend


def _build_backend(tree: SearchTree, executor: str | None) -> Any:
    is_compiled = is_machine_code(tree.problem, tree.method, executor)
    if tree.method.trees == tree.method.leaf_rollouts == 1:
        return _build_tree(tree, is_compiled, 0)
    trees = [
        _build_tree(tree, is_compiled, tree_number)
        for tree_number in range(tree.method.trees)
    ]
    pool_opener = _pool_opener(tree, executor, is_compiled)
    if _is_pool(executor):
        for single_tree in trees:
            single_tree.name = executor
    if tree.method.leaf_rollouts > 1 and len(trees) == 1 and _is_pool(executor):
        trees[0].leaves.spread = pool_opener
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


# the machine over tables, and Numba's own helpers
TREES = KernelFamily(compiling=8.0)
INTERPRETED_CALL = 6e-6  # seconds of a call of a table, interpreted


def is_sooner_interpreted(problem: Problem, search: Search, num_calls: int) -> bool:
    """Whether a table's tree is grown before its machine would be ready.

    The trees that this process has interpreted so count, too.
    """
    is_simple = (
        problem.tables is not None
        and problem.operator.built_in
        and problem.value_gap is None
        and search.trees == search.leaf_rollouts == 1
        and not search.asks
    )
    rule = search.rule(problem.operator)
    if not is_simple or rule.descent == OWN_PICK:
        return False
    from smoothcruiser.tree.kernels import kernel
    from smoothcruiser.tree.kernels.parts_kernel import table_salt

    seconds = num_calls * INTERPRETED_CALL
    salt = table_salt(extras=needs_extras(rule, setting_of(problem, search)))
    if TREES.must_compile(kernel.grow, (), seconds / PER_ELEMENT, salt):
        return False
    TREES.interpreted_seconds += seconds
    return True


def _is_pool(executor: str | None) -> bool:
    return executor is not None and find_executor(executor).pool is not None


def _build_tree(tree: SearchTree, is_compiled: bool, tree_number: int) -> Any:
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
        pick=tree.method.pick if tree.rule.descent == OWN_PICK else None,
    )
    if tree.method.asks:
        evaluators = TreeEvaluators(problem, tree.method, tree.elapsed)
        if is_compiled:
            from smoothcruiser.tree.kernels.compiled_evaluation import (
                CompiledEvaluatorTree,
            )

            return CompiledEvaluatorTree(evaluators, start)
        from smoothcruiser.tree.kernels.plain_evaluation import PlainEvaluatorTree

        return PlainEvaluatorTree(evaluators, start)
    if is_compiled:
        from smoothcruiser.tree.kernels.compiled_tree import CompiledTree

        return CompiledTree(start)
    from smoothcruiser.tree.kernels.leaf_values import LeafRollouts
    from smoothcruiser.tree.kernels.plain_tree import PlainTree

    num_rollouts = tree.method.leaf_rollouts
    return PlainTree(start, LeafRollouts(num_rollouts, tree.seed, tree_number))


def _pool_opener(
    tree: SearchTree, executor: str | None, is_compiled: bool
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
