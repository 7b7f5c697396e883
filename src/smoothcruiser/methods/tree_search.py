"""Tree searches as methods: grow a tree within a budget, answer, and on request
certify its policy from below.

With ``certify`` half of the budget grows the tree and half rolls out its policy afresh
(``evaluate``): for an MDP the lower end is a lower bound on V with probability
1 - delta; the upper end is the most that the rewards allow, so the interval is valid
and one-sided. This file leaves out the searches themselves (``tree.search_rules``).

Thinking while the other moves: a thread that grows an agent's tree.

The thread ends when the next decision is due, and is waited for, so that a tree is
never grown by two; it ends with the agent too. How far it comes depends on the clock:
with pondering the same seed does not give the same play.
"""

from __future__ import annotations

import math
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from smoothcruiser.errors import InvalidInput, choose_word
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    best_action,
    estimate_subject,
    unsampled_estimate,
)
from smoothcruiser.methods.base import (
    BY_HAND,
    SAID_STOP,
    Forecast,
    Method,
    Prepared,
    Session,
)
from smoothcruiser.progress import Callback, Phases, add_earlier_work
from smoothcruiser.query import Compute, Query
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.clock import Clock, pause_clock
from smoothcruiser.run_control.control import Limits
from smoothcruiser.run_control.stop_requests import StopRequest, stoppable_run
from smoothcruiser.tree.proofs import check_solvable
from smoothcruiser.tree.search_rules import UCT, Search
from smoothcruiser.tree.search_setting import Growth, is_sooner_interpreted

if TYPE_CHECKING:
    from smoothcruiser.progress import Progress
    from smoothcruiser.tree.tree import Tree


LONGEST = 600.0  # seconds, for an agent that is never asked again


class Pondering:
    """A tree that grows in a thread from now on, for as long as its owner is there."""

    def __init__(self, tree: Tree, owner: object, seconds: float = LONGEST) -> None:
        self._over = threading.Event()
        # an agent that nobody holds any more is never asked again
        weakref.finalize(owner, self._over.set).atexit = False
        self._error: BaseException | None = None
        self._growth = Growth(seconds=seconds, progress=self._goes_on)
        self._tree = tree
        self._thread = threading.Thread(
            target=self._grow_tree, name="smoothcruiser-ponder", daemon=True
        )
        self._thread.start()

    def _goes_on(self, news: Progress) -> bool:
        return not self._over.is_set()

    def _grow_tree(self) -> None:
        try:
            self._tree.grow_by(self._growth)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        """Stop, and wait until the tree has stopped; an error is raised here."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


DEFAULT_CALLS = 1_000_000  # where no limit is given: about a second compiled
NOTHING_GROWN = "Not one simulation was finished"  # begins the note of such a tree


@dataclass(frozen=True, kw_only=True)
class TreeSearch(Method):
    """One of the tree searches, and whether its policy is certified from below."""

    search: Search = field(default_factory=UCT)
    certify: bool = False
    samples_actions = True
    because = (
        ": a tree search promises nothing, and grows one tree on one thread unless "
        "trees= or leaf_rollouts= say more"
    )

    def __post_init__(self) -> None:
        if not isinstance(self.certify, bool):
            raise InvalidInput(
                f"{self.name}: certify must be True or False, got {self.certify!r}."
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The search's own name."""
        return self.search.name

    @property
    def promises(self) -> bool:  # type: ignore[override]
        """Whether the policy is certified from below, or the value proven."""
        return self.certify or self.search.solve

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        taken_keywords = {"budget", "seconds", "simulations"}
        taken_keywords |= {"seed", "executor", "progress"}
        if self.search.trees > 1 or self.search.leaf_rollouts > 1:
            taken_keywords |= {"workers", "scheduler", "tls"}
        return frozenset(taken_keywords | ({"delta"} if self.certify else set()))

    @property
    def parameters(self) -> tuple[str, ...]:  # noqa: D102
        return (*(entry.name for entry in fields(self.search)), "certify")

    def with_options(self, options: dict[str, Any]) -> Self:  # noqa: D102
        own_options = dict(options)
        certify = own_options.pop("certify", self.certify)
        return replace(
            self, search=self.search.with_options(own_options), certify=certify
        )

    def prepare(self, query: Query) -> PreparedTree:  # noqa: D102
        limits = query.limits
        if query.compute.executor is not None:
            from smoothcruiser.tree.search_setting import is_machine_code

            is_machine_code(query.problem, self.search, query.compute.executor)
        if self.certify and self.search.trees > 1:
            raise InvalidInput(
                "certify=True rolls out the policy of one tree; drop trees= or certify."
            )
        if self.search.solve:
            check_solvable(query.problem, self.search)
        if self.certify and self.search.solve:
            raise InvalidInput(
                "solve=True has a certificate of its own, from above and from below; "
                "drop certify."
            )
        if self.certify and query.problem.sole_player is None:
            raise InvalidInput(
                "certify=True bounds the value of an MDP from below; in a game the "
                "opponent's best reply is not known."
            )
        if self.certify and limits.calls is not None and limits.calls < 2:
            raise InvalidInput(
                "certify=True needs a budget of at least 2 calls, one for the tree "
                f"and one for its policy, got {limits.calls}."
            )
        if limits == Limits():
            query = replace(query, limits=Limits(calls=DEFAULT_CALLS))
        call_limit = query.limits.calls
        spending_texts = [
            f"at most {call_limit:,} calls" if call_limit is not None else "",
            f"{limits.seconds:g} s" if limits.seconds is not None else "",
            f"{limits.simulations:,} simulations" if limits.simulations else "",
        ]
        promise_text = (
            "an upper bound on the cost, from rollouts of its policy"
            if self.certify and query.problem.minimizes
            else "a lower bound on the value, from rollouts of its policy"
            if self.certify
            else "bounds that hold, and the value once it is proven"
            if self.search.solve
            else "no promise"
        )
        forecast = Forecast(
            self.name,
            call_limit,
            f"{self.search}: spends {', '.join(filter(None, spending_texts))}; "
            f"{promise_text}.",
            delta=query.promise.delta,
        )
        return PreparedTree(method=self, query=query, explanation=forecast)

    def session(self, query: Query) -> Session:
        """The tree below the moves made; a certified one is grown anew each time."""
        return super().session(query) if self.certify else TreeSession(self, query)

    def together(self, query: Query, ready: Prepared) -> Session:
        """One tree for each state."""
        return Session(self, query)

    def __str__(self) -> str:
        return str(self.search)


class PreparedTree(Prepared):
    """A tree about to be grown."""

    method: TreeSearch

    def answer(self) -> Estimate:
        """The Estimate: without a certificate, or with that of the tree's policy."""
        with stoppable_run() as hold:
            return self.annotated(self._run_search(hold))

    def _run_search(self, hold: StopRequest) -> Estimate:
        query = self.query
        phases = Phases(query.progress, hold)
        watch = Clock(query.limits.seconds)
        if phases.begin("compiling"):
            stop_reason = SAID_STOP if phases.refused else BY_HAND
            return _answer_without_tree(self.method, query, stop_reason)
        tree = _plant_tree(self.method, query, by_work=True)
        try:
            estimate = self._grow_and_answer(tree, hold, watch)
            return replace(estimate, compile_seconds=watch.compile_seconds())
        finally:
            tree.close()

    def _grow_and_answer(
        self, tree: Tree, hold: StopRequest, watch: Clock
    ) -> Estimate:
        """The answer of a tree that was planted and is grown now."""
        query, certify = self.query, self.method.certify
        budget, simulations = query.limits.calls, query.limits.simulations
        time_limit = query.limits.seconds
        tree_calls = budget if budget is None or not certify else budget // 2
        inspections = _Inspections(tree) if tree.method.solve else None
        try:
            with hold.opened():
                if inspections is not None:
                    tree_calls = inspections.before(tree_calls, time_limit)
        except KeyboardInterrupt:
            estimate = _answer_without_tree(self.method, query, BY_HAND)
            return replace(estimate, num_calls=tree.num_calls)
        seconds_left = watch.remaining()
        if seconds_left is not None and certify:
            seconds_left /= 2.0
        growth = Growth(
            simulations=simulations,
            calls=tree_calls,
            seconds=seconds_left,
            progress=query.progress,
        )
        with suppress(KeyboardInterrupt):  # a tree answers at any time
            tree.grow_by(growth)
        is_stopped = hold.came or growth.refused
        has_grown = any(tree.node(0).edge_visits) or tree.proven
        if has_grown:
            step_text = "" if inspections is None else inspections.after(is_stopped)
            answer = tree.estimate(looked=step_text)
            answer = replace(answer, num_calls=tree.num_calls)
        else:
            answer = _blind_answer(tree)
        if certify and (hold.came or growth.refused):
            answer = _with_reward_bounds(tree, answer)
        elif certify:
            rollout_calls = (
                tree.num_calls if budget is None and time_limit is None else None
            )
            rollout_calls = (
                rollout_calls if budget is None else budget - tree.num_calls
            )
            answer = certify_policy(
                tree,
                answer,
                budget=rollout_calls,
                seconds=watch.remaining(),
                delta=query.promise.delta,
                progress=add_earlier_work(
                    query.progress, tree.num_calls, tree.seconds
                ),
            )
        if not hold.came and not growth.refused:
            return answer
        note = (
            f"Stopped by {'hand' if hold.came else 'the callback'} after "
            f"{answer.num_calls:,} calls: the answer of what was grown."
        )
        return replace(answer, notes=(*answer.notes, note))


class _Inspections:
    """The inspections of the step before and after a search that solves."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.looked: Any = ()

    def before(self, calls: int | None, seconds: float | None) -> int | None:
        """The calls that are left for the search after both inspections."""
        from smoothcruiser.engines.inspection import look

        # at most a tenth of the limits
        max_calls = None if calls is None else calls // 10
        ledger = CallLedger(max_calls)
        max_seconds = None if seconds is None else seconds / 10.0
        tree = self.tree
        start_args = tree.problem, tree.state, tree.seed, ledger
        try:
            self.looked = look(*start_args, None, max_seconds)
        finally:
            tree.spend(ledger.total)
        if calls is None or max_calls is None:
            return None
        return calls - (
            min(max_calls, tree.problem.inspection_calls) if ledger.total else 0
        )

    def after(self, stopped: bool) -> str:
        """The observations of the step, after pairs were called again."""
        from smoothcruiser.engines.inspection import describe_inspections, look

        tree, ledger = self.tree, CallLedger()
        if not stopped and self.looked:
            look(tree.problem, tree.state, tree.seed, ledger, self.looked)
            tree.spend(ledger.total)
        return describe_inspections(len(self.looked), ledger.total, 0)


def _answer_without_tree(method: TreeSearch, query: Query, why: str) -> Estimate:
    """The answer without a tree, where a stop came before it was planted."""
    why = f"{why} before the first simulation"
    return unsampled_estimate(query.problem, query.place, method.name, why, query.seed)


def _possible_values(tree: Tree) -> tuple[float, float]:
    """The values that the rewards allow at the root, with the steps that are left."""
    horizon = tree.problem.horizon
    steps_left = None if horizon is None else horizon - tree.elapsed
    return tree.problem.facts.value_bounds(tree.node(0).player, steps_left)


def _blind_answer(tree: Tree) -> Estimate:
    """The answer of a tree without one simulation: it prefers nothing."""
    problem, root = tree.problem, tree.node(0)
    middle_value = sum(_possible_values(tree)) / 2.0
    weights = problem.operator.weights(problem.num_actions)
    blind_policy = problem.operator.blind([weights[a] for a in root.actions])
    policy_shares, q_values = (
        [0.0] * problem.num_actions,
        [math.nan] * problem.num_actions,
    )
    for action, share in zip(root.actions, blind_policy, strict=True):
        policy_shares[action], q_values[action] = share, middle_value
    note = (
        f"{NOTHING_GROWN}: one may take {tree.setting.limit:,} oracle calls. "
        "The value is the middle of what is possible and the policy knows "
        "nothing; give it more calls (budget=) or seconds=, or a smaller depth=."
    )
    return Estimate(
        value=middle_value,
        interval=None,
        q_values=tuple(q_values),
        policy=tuple(policy_shares),
        action=best_action(tuple(policy_shares), tuple(q_values), root.player),
        num_calls=tree.num_calls,
        epsilon=None,
        delta=None,
        method=tree.method.name,
        certificate=None,
        seconds=tree.seconds,
        compile_seconds=tree.backend.compile_seconds,
        **estimate_subject(problem, tree.state),
        seed=tree.seed,
        executor=tree.backend.name,
        notes=(note,),
    )


def _with_reward_bounds(tree: Tree, answer: Estimate) -> Estimate:
    """``answer`` with the interval that holds before the first rollout of its policy."""
    interval = _possible_values(tree)
    certificate = Certificate(
        kind="policy",
        interval=interval,
        q_intervals=(),
        confidence=1.0,
        bound="what the rewards allow: its policy was not rolled out",
    )
    return replace(
        answer,
        value=min(max(answer.value, interval[0]), interval[1]),
        interval=interval,
        certificate=certificate,
        epsilon=(interval[1] - interval[0]) / 2.0,
        delta=0.0,
    )


def _plant_tree(method: TreeSearch, query: Query, *, by_work: bool = False) -> Tree:
    """A tree with its root; loading and compiling its machine is not counted.

    ``by_work``: a tree whose calls are few and known is interpreted.
    """
    with pause_clock():
        from smoothcruiser.tree.tree import Tree

        compute, num_calls = query.compute, query.limits.calls
        executor = compute.executor
        if (
            by_work
            and compute == Compute()
            and num_calls is not None
            and is_sooner_interpreted(query.problem, method.search, num_calls)
        ):
            executor = "reference"
        return Tree(
            query.problem,
            query.place,
            method=method.search,
            seed=query.seed,
            executor=executor,
            workers=compute.workers,
            scheduler=compute.scheduler,
            tls=compute.tls,
        )


class TreeSession(Session):
    """A tree that is kept below the moves made since the last decision."""

    tree: Tree | None = None
    ponders = True
    _move: int | None = None  # the last action, which leads to the part that is kept
    _pondering: Pondering | None = None
    _counted = 0  # calls of the tree that earlier decisions have counted

    def note_action(self, action: int) -> None:  # noqa: D102
        self._move = action

    def ponder(self) -> None:
        """Grow the tree in a thread; most of it lies below the action that was taken."""
        if self.tree is not None and not self.tree.proven:
            self._pondering = Pondering(self.tree, self)

    def wake(self) -> None:  # noqa: D102
        pondering, self._pondering = self._pondering, None
        if pondering is not None:
            pondering.end()

    def answer_query(self, query: Query) -> Estimate:  # noqa: D102
        watch = Clock(query.limits.seconds)
        self.wake()
        tree, is_fresh = self.tree, False
        ponder_calls = 0 if tree is None else tree.num_calls - self._counted
        horizon = query.problem.horizon
        if (
            tree is None
            or self._move is None
            or not tree.follow(self._move, query.state, horizon)
        ):
            if Phases(query.progress).begin("compiling"):
                self._move = None
                return _answer_without_tree(self.method, query, SAID_STOP)
            if tree is not None:
                tree.close()
            tree, is_fresh = _plant_tree(self.method, query), True
            with pause_clock():
                tree.warm()
        self.tree, self._move = tree, None
        calls_before = 0 if is_fresh else self._counted
        limits = query.limits
        if limits == Limits():
            limits = Limits(calls=DEFAULT_CALLS)
        growth = Growth(
            simulations=limits.simulations,
            calls=limits.calls,
            seconds=watch.remaining(),
            progress=query.progress,
        )
        tree.grow_by(growth)
        has_grown = any(tree.node(0).edge_visits) or tree.proven
        # too few calls are an error, too little time happens
        has_grown = has_grown or not (growth.refused or limits.seconds is not None)
        estimate = tree.estimate() if has_grown else _blind_answer(tree)
        self._counted = tree.num_calls
        if ponder_calls and not is_fresh:
            note = f"{ponder_calls:,} of the calls were made while the other moved."
            estimate = replace(estimate, notes=(*estimate.notes, note))
        return replace(
            estimate,
            num_calls=tree.num_calls - calls_before,
            seconds=watch.elapsed(),
            compile_seconds=watch.compile_seconds(),
        )

    def close(self) -> None:  # noqa: D102
        self.wake()
        if self.tree is not None:
            self.tree.close()

    def __getstate__(self) -> dict[str, Any]:
        # a tree stays in the process that grew it
        return self.__dict__ | {"tree": None, "_move": None, "_pondering": None}


def certify_policy(
    tree: Tree,
    answer: Estimate,
    *,
    budget: int | None,
    seconds: float | None = None,
    delta: float | None = None,
    progress: Callback | None = None,
) -> Estimate:
    """``answer`` with the certificate of the tree's policy, a lower bound on V.

    It is an upper bound where costs are minimized.
    """
    from smoothcruiser.evaluation.evaluate import evaluate

    call_limit = None if budget is None else max(1, budget)
    query = Query.of(
        tree.problem,
        tree.state,
        budget=call_limit,
        seconds=seconds,
        delta=delta,
        seed=tree.seed,
        progress=progress,
    )
    policy_estimate = evaluate(query, tree)
    assert policy_estimate.certificate is not None
    assert policy_estimate.interval is not None
    policy_lower, policy_upper = policy_estimate.interval
    possible_low, possible_high = _possible_values(tree)
    interval = policy_lower, max(possible_high, policy_lower)
    claim_text, other_end = f"is at least {policy_lower:.6g}", "upper"
    if tree.problem.minimizes:
        interval = min(possible_low, policy_upper), policy_upper
        claim_text, other_end = f"is at most {policy_upper:.6g}", "lower"
    certificate = replace(policy_estimate.certificate, interval=interval)
    usual_error = policy_estimate.standard_error
    error_text = (
        f" (usual error {usual_error:.2g}, not promised)" if usual_error else ""
    )
    note = (
        f"Its policy (blind off the tree) {'costs' if tree.problem.minimizes else 'is worth'} "
        f"{policy_estimate.value:.6g}"
        f"{error_text}, in [{policy_lower:.6g}, {policy_upper:.6g}] with probability "
        f"{certificate.confidence:g}: V(state) {claim_text}. The "
        f"{other_end} end is only what the "
        f"{choose_word('reward', tree.problem.minimizes)}s allow."
    )
    value = min(max(answer.value, interval[0]), interval[1])
    standard_error = None  # of the tree's own number none is known
    if tree.method.estimates(tree.problem.operator) != tree.problem.operator.label:
        # the tree's own number is of another operator, and the interval is not
        value, standard_error = policy_estimate.value, policy_estimate.standard_error
    return replace(
        answer,
        value=value,
        standard_error=standard_error,
        interval=interval,
        certificate=certificate,
        delta=policy_estimate.delta,
        num_calls=answer.num_calls + policy_estimate.num_calls,
        seconds=answer.seconds + policy_estimate.seconds,
        compile_seconds=answer.compile_seconds + policy_estimate.compile_seconds,
        notes=(*tree.notes(), note),
    )
