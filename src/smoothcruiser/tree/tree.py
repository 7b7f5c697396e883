"""A tree that grows by simulations, answers at any time, and is kept after a move.

``grow`` spends simulations, calls or seconds. ``estimate`` returns an Estimate, as a
planner does, without a certificate: a tree search promises nothing (``evaluate`` can
certify its policy from below). ``advance`` keeps the part of the tree below a move.
Memory is bounded by ``max_nodes``: a full tree continues to refine its nodes. This
file decides limits, the stream, and how a node's numbers become a policy. The search
itself is ``tree.kernels.kernel``, interpreted for any oracle and compiled for compiled
ones, with the same bits.

The policy of a node is that of the problem's operator at the node's values,
grad F(Q), as everywhere in this library; where the operator is Max it is the
recommended action. Off the tree it is blind, grad F(0).
"""

from __future__ import annotations

import copy
import math
import time
from typing import Any, Unpack

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.engines.inspection import look_once
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.estimate import Estimate, best_action, estimate_subject
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.arguments import check_seed, is_whole
from smoothcruiser.problem.declaration_checks import refuse_undiscounted
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, finish, show_bar
from smoothcruiser.progress import progress_callback as read_progress
from smoothcruiser.query import Compute, ComputeKeywords, check_problem
from smoothcruiser.run_control.call_seconds import warn_if_overdue
from smoothcruiser.run_control.control import Control, Limits, StopReason
from smoothcruiser.run_control.stop_requests import stoppable_run
from smoothcruiser.tree import proofs as proof
from smoothcruiser.tree.forest import Forest
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.prior_rules import (
    Gumbel,
    gumbel_action,
    plan_root,
    search_policy,
)
from smoothcruiser.tree.pruning import KnownBounds, bounds_of
from smoothcruiser.tree.search_numbers import IMPROVED, MEAN, Setting, check_rule
from smoothcruiser.tree.search_rules import Search, tree_search
from smoothcruiser.tree.search_setting import (
    Growth,
    backend_of,
    heads,
    notes_of,
    promise_of,
    setting_of,
)
from smoothcruiser.tree.selection import recommended_slot

MOST_TRIED = 1000  # states after our move in which the other player's move is sought
FULL_SLICE = 4096  # calls: smaller slices only find out how long a call takes
SLICE_SECONDS = 0.025  # at the least: about 20 to 40 checks per second


class Tree(Shown):
    """A search tree over a problem, rooted at a state that is not terminal.

    Args:
        problem: a Problem, from ``MDP``, ``Game``, ``tabular`` or ``make``.
        state: the root; by default the problem's initial state.
        method: "uct", "ments", "rents", "tents", "bts", "dents", "puct" or "gumbel", or
            such an object.
        options: parameters of the method, by name.
        seed: of the simulations; the same seed, the same tree.
        executor: "compiled" or "reference"; by default compiled code where it can.
            "processes" or "dask" grow several trees (``trees=``), or roll out from
            leaves (``leaf_rollouts=``), elsewhere.
        workers: threads, or processes, that grow several trees; by default one per
            core. They do not change the answer.
        scheduler: the address of a Dask cluster, for executor "dask".
        tls: the three PEM files that secure the connection to it.
        progress: as in ``plan``: hears that code is compiled, which may take seconds.

    Example:
        >>> import smoothcruiser as sc
        >>> chain = sc.make("chain:n=3", discount=0.5, operator="max")
        >>> sc.Tree(chain, method="uct", seed=1).grow(simulations=200).estimate().action
        1
    """

    def __init__(
        self,
        problem: Problem,
        state: Any = None,
        *,
        method: str | Search = "uct",
        options: dict[str, Any] | None = None,
        seed: int = 0,
        progress: bool | Callback | None = None,
        **where: Unpack[ComputeKeywords],
    ) -> None:
        check_problem(problem)
        self.compute = Compute.of("Tree", where)
        default_executor = "dask" if self.compute.scheduler is not None else None
        executor = self.compute.executor or default_executor
        refuse_undiscounted(problem, "A search tree")
        self.problem, self.seed = problem, check_seed(seed)
        self.method = tree_search(method, options)
        self.state = problem.start(state)
        if problem.is_terminal(self.state):
            raise InvalidInput(
                f"State {self.state!r} is terminal: there is nothing to search; "
                "its value is 0."
            )
        if self.method.solve:
            proof.check_solvable(problem, self.method)
        has_bounds = self.method.bounds is not None
        self.bounds = bounds_of(problem, self.method) if has_bounds else KnownBounds()
        self.operator = self.method.operator(problem.operator)
        method_rule = self.method.rule(problem.operator)
        self.rule = check_rule(self.method.name, method_rule, self.method.pick)
        self.elapsed = 0  # moves made since the tree was created
        self.seconds = 0.0
        self.head = heads(self.operator, problem.num_actions)
        self.backend = backend_of(self, executor, read_progress(progress))
        self._untouched = problem.tables is not None  # no step writes into its state
        self.refuted: proof.Refuted | None = (
            None  # the error that refuted a declaration
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Tree:
        return copy.copy(self)

    def __getstate__(self) -> Any:
        raise TypeError(
            "A Tree cannot be pickled; keep its estimate(), or grow it again: the "
            "same seed and calls give the same tree."
        )

    def __copy__(self) -> Tree:
        tree_copy = object.__new__(Tree)
        tree_copy.__dict__.update(self.__dict__ | {"backend": self.backend.twin()})
        return tree_copy

    def __repr__(self) -> str:
        return brief(
            "Tree",
            problem=self.problem.name,
            state=self.state,
            method=str(self.method),
            simulations=self.simulations,
            nodes=self.num_nodes,
        )

    def _setting(self) -> Setting:
        return setting_of(self.problem, self.method, self.elapsed)

    # --- growing --------------------------------------------------------------

    def warm(self) -> None:
        """Compile the code of growth, so that the first seconds are not spent on it."""
        self.backend.warm()

    def grow(
        self,
        *,
        simulations: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        progress: bool | Callback | None = None,
    ) -> Tree:
        """This tree after more simulations, oracle calls or seconds.

        The limit that is reached first ends it. With simulations or calls the
        tree depends on the seed alone, however they are sliced; with seconds,
        on the machine. There are never more calls than requested: a simulation
        that needs more waits, and is resumed next time. ``progress`` is True for
        a bar, or a function that gets a ``Progress`` with the calls of this growth a
        few times per second; it ends the growth by returning False. Ctrl-C raises
        KeyboardInterrupt and leaves a tree that answers and can grow on.
        """
        callback = read_progress(progress)
        growth = Growth(
            simulations=simulations, calls=calls, seconds=seconds, progress=callback
        )
        with show_bar(callback):
            self.grow_by(growth)
            finish(callback, **growth.facts(self))
        return self

    def grow_by(self, growth: Growth) -> None:
        """Grow within limits that were checked, and report."""
        last_simulation, last_call = growth.start(self)
        start_time = time.perf_counter()
        with stoppable_run() as hold, warn_if_overdue(growth.seconds):
            control = Control(Limits(seconds=growth.seconds), hold, growth.phases)
            try:
                with hold.opened():
                    if growth.begin(self):
                        return
                # This takes one call, and only where a state can be written into at
                # all.
                if not self._untouched and last_call > self.num_calls:
                    with hold.opened():
                        calls_made = look_once(self.problem, self.state, self.seed)
                    self.backend.spend(calls_made)
                    self._untouched = True
                self.backend.listen(hold)
                if isinstance(self.method, Gumbel):
                    plan_root(self, self.method, growth.simulations)
                if isinstance(self.backend, Forest):
                    self.backend.clock = control.clock
                # calls between two checks of the clock and of Ctrl-C
                slice_calls = self.backend.least_slice
                while True:
                    slice_start = time.perf_counter()
                    counts_before = self.simulations, self.num_calls
                    slice_goal = (
                        # a slice of simulations would close a batch of leaves
                        last_simulation
                        if self.method.asks
                        else min(last_simulation, self.simulations + slice_calls),
                        min(last_call, self.num_calls + slice_calls),
                    )
                    self.backend.grow_to(*slice_goal)
                    # of several trees some may have used up their simulations, and
                    # the others their calls
                    nothing_left = counts_before == (self.simulations, self.num_calls)
                    nothing_left = nothing_left and slice_goal == (
                        last_simulation,
                        last_call,
                    )
                    slice_end = time.perf_counter()
                    if (
                        self.simulations >= last_simulation
                        or self.num_calls >= last_call
                        or (self.method.solve and self.backend.is_solved)
                        or nothing_left
                    ):
                        break
                    reason = control.check()
                    if reason is StopReason.HAND:
                        raise KeyboardInterrupt
                    if reason is not None:
                        break
                    min_seconds = max(SLICE_SECONDS, self.backend.slice_seconds)
                    is_full = (
                        slice_calls >= FULL_SLICE
                        or slice_end - slice_start >= min_seconds
                    )
                    if is_full:
                        with hold.opened():
                            must_stop = growth.tell(self)
                        if must_stop:
                            break
                    if slice_end - slice_start < min_seconds:
                        slice_calls *= 2
                self.backend.flush()
            except proof.Refuted as error:
                self.refuted = error
                raise
            finally:  # Ctrl-C included
                self.backend.pause_workers()
                self.seconds += time.perf_counter() - start_time

    def close(self) -> None:
        """End the workers, if there are any; a tree without them can still be read."""
        self.backend.close()

    def spend(self, calls: int) -> None:
        """Count oracle calls that were made for this tree elsewhere."""
        self.backend.spend(calls)

    def advance(self, action: int, next_state: Any) -> Tree:
        """This tree rooted at ``next_state`` after ``action``.

        Statistics below are kept, the rest is forgotten.
        """
        if action not in self.problem.legal_actions(self.state):
            raise InvalidInput(
                f"Action {action!r} is not legal in state {self.state!r}."
            )
        if next_state is None:
            raise InvalidInput(
                "advance needs the state that the move led to, got None."
            )
        next_state = self.problem.start(next_state)
        if self.problem.is_terminal(next_state):
            raise InvalidInput(
                f"State {next_state!r} is terminal: there is nothing left to search."
            )
        if (
            self.problem.horizon is not None
            and self.problem.horizon - self.elapsed < 2
        ):
            raise InvalidInput(
                f"The horizon of {self.problem.horizon} steps is over; there is "
                "nothing left to search."
            )
        old_backend = self.backend
        try:
            child = old_backend.child(0, action, next_state)
        except SmoothcruiserError:
            raise
        except Exception:
            raise InvalidInput(
                f"{next_state!r} is no state like {self.state!r}; give the state "
                "that the oracle returned."
            ) from None
        self.elapsed += 1
        self.state = next_state
        if child is None and isinstance(old_backend, Forest):
            old_backend.restart(next_state)
            old_backend.setting = self._setting()
            return self
        if child is None:
            old_stream = old_backend.rng
            self.backend = backend_of(self, old_backend.name)
            # The stream continues: a new tree must not repeat the old one's
            # samples.
            self.backend.rng = old_stream
            self.backend.take_over(old_backend.counts)
            return self
        old_backend.advance(child)
        old_backend.setting = self._setting()
        return self

    def follow(self, action: int, state: Any, steps: int | None = None) -> bool:
        """Whether the tree could move to ``state``, which is then its root.

        The state was met after ``action`` and at most one move of the other
        player. ``steps`` are left there, where the problem has a horizon. A
        tree that would see another number of them stays where it is.
        """
        moves = self._moves_to(action, state)
        if moves is None or (
            self.problem.horizon is not None
            and steps != self.problem.horizon - self.elapsed - len(moves)
        ):
            return False
        for move, next_state in moves:
            self.advance(move, next_state)
        return True

    def _moves_to(self, action: int, state: Any) -> list[tuple[int, Any]] | None:
        """The moves (action, next state) from the root to a known node of ``state``.

        None if the tree has no such node.
        """
        if self.child(0, action, state) is not None:
            return [(action, state)]
        if self.problem.sole_player is not None:
            return None
        for child_number in [
            child_number for move, child_number in self.children(0) if move == action
        ][:MOST_TRIED]:
            middle_node = self.node(child_number)
            for move in middle_node.actions:
                if self.child(child_number, move, state) is not None:
                    return [(action, middle_node.state), (move, state)]
        return None

    # --- reading --------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """Nodes in memory."""
        return int(self.backend.counts[0])

    @property
    def simulations(self) -> int:
        """Simulations finished since the tree was created."""
        return int(self.backend.counts[1])

    @property
    def num_calls(self) -> int:
        """Oracle calls made, including those of a simulation that waits."""
        return int(self.backend.counts[2])

    @property
    def deepest(self) -> int:
        """Depth of the deepest node that was added."""
        return int(self.backend.counts[3])

    @property
    def setting(self) -> Setting:
        """The problem and the limits in numbers."""
        setting: Setting = self.backend.setting
        return setting

    def node(self, number: int) -> Node:
        """A node's statistics; 0 is the root."""
        if not is_whole(number) or not 0 <= number < self.num_nodes:
            raise InvalidInput(
                f"The tree has nodes 0 to {self.num_nodes - 1:,}, got {number!r}."
            )
        node: Node = self.backend.node(int(number))
        return node

    def children(self, number: int) -> list[tuple[int, int]]:
        """(action, node) of a node's children, in the order they were met."""
        return list(self.backend.children(self.node(number).number))

    def child(self, number: int, action: int, next_state: Any) -> int | None:
        """The child of a node at ``next_state``, None where the tree has none."""
        child_number: int | None = self.backend.child(number, action, next_state)
        return child_number

    def q_values(self, number: int = 0) -> list[float]:
        """Values of a node's legal actions; untried ones as the search assumes."""
        node = self.node(number)
        return node.q_values(self.rule, self.head[len(node.actions)])

    def action(self, number: int = 0) -> int:
        """The recommended action of a node.

        It is the method's, or the most likely one of the policy where the
        problem has a prior.
        """
        node = self.node(number)
        if self.problem.operator.has_prior:
            q_by_action = dict(zip(node.actions, self.q_values(number), strict=True))
            return best_action(
                self.policy(number),
                [
                    q_by_action.get(a, math.nan)
                    for a in range(self.problem.num_actions)
                ],
                node.player,
            )
        if number == 0 and self.rule.descent == IMPROVED:
            return gumbel_action(self, node)
        q_values, secure_slots = self.q_values(number), node.recommendable_slots()
        x = [node.sign * q_values[j] for j in secure_slots]
        n = [node.edge_visits[j] for j in secure_slots]
        return node.actions[secure_slots[recommended_slot(self.rule, x, n, len(x))]]

    def policy(self, number: int = 0) -> list[float]:
        """Probabilities of all K actions at a node.

        They are grad F(Q) of the problem's operator, or the recommended action
        under Max.
        """
        node = self.node(number)
        action_shares = [0.0] * self.problem.num_actions
        if is_greedy(self.problem.operator.code):
            action_shares[self.action(number)] = 1.0
            return action_shares
        prior_weights = self.problem.operator.weights(self.problem.num_actions)
        gradient = self.problem.operator.gradient(
            self.q_values(number),
            player=node.player,
            weights=[prior_weights[a] for a in node.actions],
        )
        gradient_sum = sum_in_order(gradient)
        for a, g in zip(node.actions, gradient, strict=True):
            action_shares[a] = g / gradient_sum
        return action_shares

    @property
    def proven(self) -> bool:
        """Whether the value of the root is proven; never without ``solve=True``."""
        return self.node(0).is_proven

    @property
    def inexact(self) -> bool:
        """Whether a number in a box of a tree that solves was rounded."""
        return proof.is_rounded(self)

    def search_policy(self, number: int = 0) -> list[float]:
        """The training target of a policy at a node, over all K actions.

        It is the shares of visits, or the improved policy of Gumbel MuZero.
        """
        return search_policy(self, number)

    def estimate(self, *, looked: str = proof.NOT_INSPECTED) -> Estimate:
        """The estimate at the root, without a promise.

        Where the tree solves, its certificate has the proof; ``looked`` names
        inspections of the step beside the search itself.
        """
        root = self.node(0)
        if not any(root.edge_visits) and not root.is_proven:
            raise InvalidInput(
                f"Not one simulation was finished: one may take {self.setting.limit:,} "
                "oracle calls; give it more calls "
                "(budget=) or seconds=, or a smaller depth=."
            )
        q_by_action: dict[int, float] = {}
        if self.bounds.rows:
            root_key = self.problem.key_of(self.state)
            q_by_action = self.bounds.middles(root_key, self.elapsed)
        q_by_action |= zip(root.actions, self.q_values(0), strict=True)
        action, policy = self.action(0), self.policy(0)
        # A mean over the descent is the return of exploring, not of the best action.
        value = q_by_action[action] if self.rule.up == MEAN else root.value
        certificate = proof.certificate_of(self, looked) if self.method.solve else None
        interval = None if certificate is None else certificate.interval
        if interval is not None:
            value = min(max(value, interval[0]), interval[1])
        return Estimate(
            value=value,
            interval=interval,
            q_values=tuple(
                q_by_action.get(a, math.nan) for a in range(self.problem.num_actions)
            ),
            policy=tuple(policy),
            action=action,
            num_calls=self.num_calls,
            epsilon=None if interval is None else 0.5 * (interval[1] - interval[0]),
            delta=None if interval is None else 0.0,
            method=self.method.name,
            certificate=certificate,
            seconds=self.seconds,
            compile_seconds=self.backend.compile_seconds,
            **estimate_subject(self.problem, self.state),
            seed=self.seed,
            executor=self.backend.name,
            notes=(*self.notes(), promise_of(self)),
        )

    def notes(self) -> tuple[str, ...]:
        """The notes about the tree that its estimate carries."""
        return notes_of(self)
