"""Who draws the rollouts of ``evaluate``: compiled code for tables and trees of
compiled problems, Python for everything else.

Both keep one stream for the life of an evaluation, under a spawn key of their
own: fresh draws, whatever stream made the policy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.kernel import allocate
from smoothcruiser.engines.python import watched
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.evaluation import kernel as evaluate_kernel
from smoothcruiser.evaluation.confidence import take
from smoothcruiser.jit.build import compiled
from smoothcruiser.jit.streams import stream
from smoothcruiser.problem.answers import answered
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard, copied
from smoothcruiser.tree import kernel
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.searches import TreeRule
from smoothcruiser.tree.selection import drawn
from smoothcruiser.tree.tree import Tree

STREAM_KEY = 10  # apart from the trees' 9 and from the shards' (action, shard)
# how far probabilities may be from summing to 1, as printed decimals are
SUM_TOLERANCE = 1e-6

_rollouts: dict[Any, Any] = {}


def _no_row(state: Any) -> int:
    """States that are no rows of a table."""
    return 0


class CompiledRollouts:
    """Rollouts in compiled code."""

    name = "compiled"
    looks, doubts = 0, ""  # machine code is not looked at while it runs

    def __init__(
        self,
        problem: Problem,
        setting: Setting,
        machine: Any,
        data: Any,
        state: Any,
        table: Any,
        follows: bool,
        nodes: Any,
        states: Any,
        seed: int,
    ) -> None:
        self.problem, self.setting, self.data, self.state = (
            problem,
            setting,
            data,
            state,
        )
        self.table, self.follows, self.nodes, self.states = (
            table,
            follows,
            nodes,
            states,
        )
        self.weights = np.array(problem.operator.weights(problem.num_actions))
        self.meta, self.fault = np.zeros(5, np.int64), np.zeros(1)
        self.scratch = (
            machine.allocate(2) if machine is not None else compiled(allocate)(2)
        )
        self.machine = machine
        self.rng = stream(seed, STREAM_KEY)
        self.lots = np.zeros(2)  # whether the policy ever drew lots, and the last X
        begin = time.perf_counter()
        parts = (
            {}
            if machine is None or not machine.parts
            else machine.parts | {"ROW": compiled(_no_row)}
        )
        key = id(machine) if parts else 0
        if key not in _rollouts:
            used = {name: part for name, part in parts.items() if name != "ALLOCATE"}
            _rollouts[key] = (
                compiled(evaluate_kernel.policy_rollouts, nogil=True, **used),
                machine,
            )
        self.kernel = _rollouts[key][0]
        self._run(0, 0, 0.0, 1.0, np.zeros(10))
        self.compile_seconds = time.perf_counter() - begin

    @classmethod
    def of_table(
        cls, problem: Problem, table: Any, state: Any, setting: Setting, seed: int
    ) -> CompiledRollouts:
        """Rollouts of an array (S, A) on a tabular problem."""
        assert problem.tables is not None
        nothing = (np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
        return cls(
            problem,
            setting,
            None,
            problem.tables.sampling,
            int(state),
            table,
            False,
            nothing,
            np.zeros(1, np.int64),
            seed,
        )

    @classmethod
    def of_tree(
        cls, problem: Problem, tree: Tree, state: Any, setting: Setting, seed: int
    ) -> CompiledRollouts:
        """Rollouts of a compiled tree's policy from its root."""
        inner = tree._backend
        count, K = tree.num_nodes, problem.num_actions
        table = np.empty((count, K))
        operator = problem.operator
        rule: TreeRule = tree.rule
        compiled(evaluate_kernel.node_policies)(
            rule,
            inner.nodes.ints,
            inner.nodes.floats,
            count,
            K,
            inner.head,
            operator.code,
            np.array(operator.weights(K)),
            operator.strength,
            table,
        )
        nodes = (inner.nodes.ints, inner.nodes.table)
        return cls(
            problem,
            setting,
            inner.machine,
            inner.data,
            inner.node(0).state,
            table,
            True,
            nodes,
            inner.states,
            seed,
        )

    @property
    def calls(self) -> int:
        """Oracle calls made."""
        return int(self.meta[kernel.CALLS])

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.meta[kernel.CALLS] += calls

    @property
    def random(self) -> bool:
        """Whether the policy drew lots so far."""
        return bool(self.lots[0])

    @property
    def last(self) -> float:
        """X of the last rollout."""
        return float(self.lots[1])

    def _run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> tuple[int, int]:
        operator = self.problem.operator
        status, made = self.kernel(
            self.setting,
            operator.code,
            operator.strength,
            self.weights,
            self.data,
            self.table,
            self.follows,
            self.nodes[0],
            self.nodes[1],
            self.states,
            self.scratch,
            self.state,
            self.meta,
            self.fault,
            count,
            most_calls,
            low,
            spread,
            sequence,
            self.lots,
            self.rng,
        )
        return int(status), int(made)

    def run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        """Rollouts made, each taken into ``sequence``; fewer than ``count``
        where the calls were used up.
        """
        try:
            status, made = self._run(count, most_calls, low, spread, sequence)
        except SmoothcruiserError:
            raise
        except Exception as error:
            raise OracleError(
                f"The oracle raised {type(error).__name__}: {error}; mend the "
                "simulator (executor='reference' says where)."
            ) from error
        if status not in (kernel.DONE, kernel.CUT):
            from smoothcruiser.tree.compiled import complain

            where = (
                self.machine.load(self.scratch, 1)
                if self.machine is not None
                else int(self.scratch[1])
            )
            complain(
                self.problem,
                self.setting,
                status,
                where,
                int(self.meta[kernel.FAULT]),
                float(self.fault[0]),
            )
        return made


def follow(tree: Tree) -> Callable[[Any, int | None], Any]:
    """A walk along a tree: the policy of the node reached, None (blind) once
    the tree is left.
    """
    here: list[int | None] = [0]

    def walk(state: Any, action: int | None) -> Any:
        if action is not None and here[0] is not None:
            here[0] = tree.child(here[0], action, state)
            if here[0] is not None and not any(tree.node(here[0]).edge_visits):
                here[0] = None
        return None if here[0] is None else tree.policy(here[0])

    return walk


class PlainRollouts:
    """Rollouts in Python; ``walk()`` starts a rollout and returns its policy:
    (state, last action) -> probabilities or None (blind).
    """

    name = "reference"
    compile_seconds = 0.0

    def __init__(
        self,
        problem: Problem,
        walk: Callable[[], Any],
        state: Any,
        setting: Setting,
        seed: int,
    ) -> None:
        self.problem, self.walk, self.state, self.setting = (
            problem,
            walk,
            state,
            setting,
        )
        self.weights = problem.operator.weights(problem.num_actions)
        self.rng = stream(seed, STREAM_KEY)
        self.random, self.last = False, 0.0
        self.calls = 0
        self.guard = Guard()

    @property
    def looks(self) -> int:
        """How often it was looked whether the step leaves its state alone."""
        return self.guard.looks

    @property
    def doubts(self) -> str:
        """What these looks could not tell."""
        return self.guard.doubts

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.calls += calls

    def run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        """Rollouts made, each taken into ``sequence``; fewer than ``count``
        where the calls were used up.
        """
        before = copied(self.state)
        with watched(self, self.problem.call_seconds):
            made = self._run(count, most_calls, low, spread, sequence)
        self.guard.compare(before, self.state, 0)
        return made

    def _run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        for made in range(count):
            x = self._rollout(most_calls)
            if x is None:
                return made
            self.last = x
            take(
                sequence,
                min(max((x - low) / spread, 0.0), 1.0) if spread > 0.0 else 0.0,
            )
        return count

    def _rollout(self, most_calls: int) -> float | None:
        operator, problem = self.problem.operator, self.problem
        policy = self.walk()
        state, action = self.state, None
        total, weight = 0.0, 1.0
        for _ in range(self.setting.limit):
            if self.calls >= most_calls:
                return None
            actions = problem.legal_actions(state)
            w = [self.weights[a] for a in actions]
            p = self._probabilities(policy(state, action), state, actions, w)
            j = drawn(p, len(p), self.rng)
            self.random = self.random or p[j] < 1.0
            action = actions[j]
            sign = 1.0 if problem.mover(state) == 1 else -1.0
            self.calls += 1
            low, high, ends = self.setting.low, self.setting.high, self.setting.ends
            reward, state, over = answered(
                problem, state, action, self.rng, low, high, ends, self.guard
            )
            total += weight * (
                reward
                - sign
                * evaluate_kernel.omega(operator.code, p, w, len(p), operator.strength)
            )
            if over or (self.setting.ends and problem.is_terminal(state)):
                return total
            weight *= self.setting.discount
        return total + weight * self.setting.tail

    def _probabilities(
        self, given: Any, state: Any, actions: list[int], w: list[float]
    ) -> list[float]:
        """Checked probabilities of the legal actions; None is the blind policy."""
        if given is None:
            p = [0.0] * len(actions)
            evaluate_kernel.blind(
                self.problem.operator.code,
                w,
                len(actions),
                self.problem.operator.strength,
                [0.0] * len(actions),
                p,
            )
            return p
        K = self.problem.num_actions
        try:
            values = [float(share) for share in given]
        except (TypeError, ValueError):
            raise InvalidInput(
                f"policy({state!r}) must give {K} probabilities, one an action, "
                f"got {given!r}."
            ) from None
        if len(values) != K:
            raise InvalidInput(
                f"policy({state!r}) must give {K} probabilities, one an action, "
                f"got {len(values)}: {values}."
            )
        p = [values[a] for a in actions]
        off = abs(sum(p) - 1.0)
        if (
            not all(0.0 <= share < math.inf for share in values)
            or not off <= SUM_TOLERANCE
        ):
            raise InvalidInput(
                f"policy({state!r}) must give probabilities of legal actions that "
                f"sum to 1, got {values}."
            )
        return [share / sum(p) for share in p]
