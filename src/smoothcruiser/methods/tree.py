"""Tree searches as methods: grow a tree within a budget, answer, and on request
certify its policy from below.

With ``certify`` half of the budget grows the tree and half rolls out its policy afresh
(``evaluate``): for an MDP the lower end is a lower bound on V with probability
1 - delta; the upper end is what the rewards allow, so the interval is valid and
one-sided. What this file leaves out: the searches themselves (``tree.searches``).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    about,
    best_action,
    unsampled_estimate,
)
from smoothcruiser.jit.interrupts import Hold, held
from smoothcruiser.jit.stopwatch import Stopwatch, uncounted
from smoothcruiser.methods.base import (
    BY_HAND,
    SAID_STOP,
    Forecast,
    Method,
    Prepared,
    Session,
)
from smoothcruiser.methods.pondering import Pondering
from smoothcruiser.progress import Callback, Phases, added
from smoothcruiser.query import Limits, Query
from smoothcruiser.tree.growth import Growth
from smoothcruiser.tree.proof import check_solvable
from smoothcruiser.tree.searches import UCT, Search

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree

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
        """Only what it certifies from below, or proves."""
        return self.certify or self.search.solve

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        limits = {"budget", "seconds", "simulations", "seed", "executor", "progress"}
        if self.search.trees > 1 or self.search.leaf_rollouts > 1:
            limits |= {"workers", "scheduler", "tls"}
        return frozenset(limits | ({"delta"} if self.certify else set()))

    @property
    def parameters(self) -> tuple[str, ...]:  # noqa: D102
        return (*(entry.name for entry in fields(self.search)), "certify")

    def with_options(self, options: dict[str, Any]) -> Self:  # noqa: D102
        own = dict(options)
        certify = own.pop("certify", self.certify)
        return replace(self, search=self.search.with_options(own), certify=certify)

    def prepare(self, query: Query) -> Growing:  # noqa: D102
        limits = query.limits
        if query.compute.executor is not None:
            from smoothcruiser.tree.backends import is_machine_code

            is_machine_code(query.problem, self.search, query.compute.executor)
        if self.certify and self.search.trees > 1:
            raise InvalidInput(
                "certify=True rolls out the policy of one tree; drop trees= or certify."
            )
        check_solvable(query.problem, self.search)
        if self.certify and self.search.solve:
            raise InvalidInput(
                "solve=True has a certificate of its own, from above and from below; "
                "drop certify."
            )
        if self.certify and query.problem.is_game:
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
        calls = query.limits.calls
        spends = [
            f"at most {calls:,} calls" if calls is not None else "",
            f"{limits.seconds:g} s" if limits.seconds is not None else "",
            f"{limits.simulations:,} simulations" if limits.simulations else "",
        ]
        promise = (
            "a lower bound on the value, from rollouts of its policy"
            if self.certify
            else "bounds that hold, and the value once it is proven"
            if self.search.solve
            else "no promise"
        )
        forecast = Forecast(
            self.name,
            calls,
            f"{self.search}: spends {', '.join(filter(None, spends))}; {promise}.",
            delta=query.promise.delta,
        )
        return Growing(method=self, query=query, explanation=forecast)

    def session(self, query: Query) -> Session:
        """The tree below the moves made; a certified one is grown anew each time."""
        return super().session(query) if self.certify else Keeping(self, query)

    def together(self, query: Query, ready: Prepared) -> Session:
        """One tree for each state."""
        return Session(self, query)

    def __str__(self) -> str:
        return str(self.search)


class Growing(Prepared):
    """A tree about to be grown."""

    method: TreeSearch

    def answer(self) -> Estimate:
        """The Estimate: without a certificate, or with that of the tree's policy."""
        with held() as hold:
            return self.annotated(self._run(hold))

    def _run(self, hold: Hold) -> Estimate:
        query = self.query
        phases, watch = Phases(query.progress, hold), Stopwatch()
        if phases.begin("compiling"):
            why = SAID_STOP if phases.refused else BY_HAND
            return _unplanted(self.method, query, why)
        tree = _planted(self.method, query)
        try:
            found = self._grown(tree, hold, watch)
            return replace(found, compile_seconds=watch.stood_still())
        finally:
            tree.close()

    def _grown(self, tree: Tree, hold: Hold, watch: Stopwatch) -> Estimate:
        """The answer of a tree that was planted and is grown now."""
        query, certify = self.query, self.method.certify
        budget, simulations = query.limits.calls, query.limits.simulations
        seconds = query.limits.seconds
        calls = budget if budget is None or not certify else budget // 2
        looks = _Looks(tree)
        try:
            with hold.opened():
                calls = looks.before(calls, seconds)
        except KeyboardInterrupt as stop:
            found = _unplanted(self.method, query, BY_HAND)
            return replace(found, num_calls=getattr(stop, "calls", 0))
        left = None if seconds is None else max(1e-3, seconds - watch.elapsed())
        if left is not None and certify:
            left /= 2.0
        growth = Growth(
            simulations=simulations,
            calls=calls,
            seconds=left,
            progress=query.progress,
        )
        with suppress(KeyboardInterrupt):  # a tree answers at any time
            tree.grow_by(growth)
        stopped = hold.came or growth.refused
        grown = tree.proven or any(tree.node(0).edge_visits)
        answer = _blind(tree)
        if grown:
            answer = tree.estimate(looked=looks.after(stopped))
            answer = replace(answer, num_calls=tree.num_calls)
        if certify and (hold.came or growth.refused):
            answer = _boxed(tree, answer)
        elif certify:
            paid = tree.num_calls if budget is None and seconds is None else None
            paid = paid if budget is None else budget - tree.num_calls
            if seconds is not None:
                left = max(1e-3, seconds - watch.elapsed())
            answer = certified(
                tree,
                answer,
                budget=paid,
                seconds=left,
                delta=query.promise.delta,
                progress=added(query.progress, tree.num_calls, tree.seconds),
            )
        if not hold.came and not growth.refused:
            return answer
        note = (
            f"Stopped by {'hand' if hold.came else 'the callback'} after "
            f"{answer.num_calls:,} calls: the answer of what was grown."
        )
        return replace(answer, notes=(*answer.notes, note))


class _Looks:
    """The inspections of the step before and after a search whose answer is certified."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.looked: Any = ()

    def before(self, calls: int | None, seconds: float | None) -> int | None:
        """The calls that are left for the search after both inspections."""
        tree = self.tree
        if not tree.method.solve:
            return calls
        from smoothcruiser.engines.inspection import look

        # at most a tenth of what may be spent
        most = None if calls is None else calls // 10
        part = None if seconds is None else seconds / 10.0
        asked = tree.problem, tree.state, tree.seed
        made, self.looked = look(*asked, None, most, part)
        tree.spend(made)
        if calls is None or most is None:
            return None
        return calls - (min(most, tree.problem.inspection_calls) if made else 0)

    def after(self, stopped: bool) -> str:
        """What was seen of the step, after pairs were called again."""
        tree = self.tree
        if not tree.method.solve:
            return ""
        from smoothcruiser.engines.inspection import look, seen

        made = 0
        if not stopped and self.looked:
            made, _ = look(tree.problem, tree.state, tree.seed, self.looked)
            tree.spend(made)
        return seen(len(self.looked), made, 0)


def _unplanted(method: TreeSearch, query: Query, why: str) -> Estimate:
    """What is known without a tree, where it was not wanted any more."""
    why = f"{why} before the first simulation"
    return unsampled_estimate(query.problem, query.place, method.name, why, query.seed)


def _blind(tree: Tree) -> Estimate:
    """The answer of a tree without one simulation: it prefers nothing."""
    problem, root = tree.problem, tree.node(0)
    left = None if problem.horizon is None else problem.horizon - tree.elapsed
    middle = sum(problem.facts.value_bounds(root.player, left)) / 2.0
    weights = problem.operator.weights(problem.num_actions)
    blind = problem.operator.blind([weights[a] for a in root.actions])
    policy = dict(zip(root.actions, blind, strict=True))
    values = dict.fromkeys(root.actions, middle)
    shares = tuple(policy.get(a, 0.0) for a in range(problem.num_actions))
    q_values = tuple(values.get(a, math.nan) for a in range(problem.num_actions))
    note = (
        f"{NOTHING_GROWN}: one may take {tree.setting.limit:,} oracle calls. "
        "The value is the middle of what is possible and the policy knows "
        "nothing; give it more calls (budget=) or seconds=, or a smaller depth=."
    )
    return Estimate(
        value=middle,
        interval=None,
        q_values=q_values,
        policy=shares,
        action=best_action(shares, q_values, root.player),
        num_calls=tree.num_calls,
        epsilon=None,
        delta=None,
        method=tree.method.name,
        certificate=None,
        seconds=tree.seconds,
        compile_seconds=tree._backend.compile_seconds,
        **about(problem, tree.state),
        seed=tree.seed,
        executor=tree._backend.name,
        notes=(note,),
    )


def _boxed(tree: Tree, answer: Estimate) -> Estimate:
    """``answer`` with what is certain before the first rollout of its policy."""
    left = None if tree.problem.horizon is None else tree.problem.horizon - tree.elapsed
    interval = tree.problem.facts.value_bounds(tree.node(0).player, left)
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


def _planted(method: TreeSearch, query: Query) -> Tree:
    """A tree with its root; compiling what grows it, and loading that, is not counted."""
    with uncounted():
        from smoothcruiser.tree.tree import Tree

        compute = query.compute
        return Tree(
            query.problem,
            query.place,
            method=method.search,
            seed=query.seed,
            executor=compute.executor,
            workers=compute.workers,
            scheduler=compute.scheduler,
            tls=compute.tls,
        )


class Keeping(Session):
    """A tree that is kept below the moves made since the last decision."""

    tree: Tree | None = None
    ponders = True
    _move: int | None = None  # the last action, which leads to the part that is kept
    _pondering: Pondering | None = None
    _counted = 0  # calls of the tree that earlier decisions have counted

    def moved(self, action: int) -> None:  # noqa: D102
        self._move = action

    def ponder(self) -> None:
        """Grow the tree in a thread; most of it lies below the action that was taken."""
        if self.tree is not None and not self.tree.proven:
            self._pondering = Pondering(self.tree, self)

    def wake(self) -> None:  # noqa: D102
        pondering, self._pondering = self._pondering, None
        if pondering is not None:
            pondering.end()

    def _decide(self, query: Query) -> Estimate:
        watch = Stopwatch()
        self.wake()
        tree, fresh = self.tree, False
        thought = 0 if tree is None else tree.num_calls - self._counted
        horizon = query.problem.horizon
        if (
            tree is None
            or self._move is None
            or not tree.follow(self._move, query.state, horizon)
        ):
            if Phases(query.progress).begin("compiling"):
                self._move = None
                return _unplanted(self.method, query, SAID_STOP)
            if tree is not None:
                tree.close()
            tree, fresh = _planted(self.method, query), True
            with uncounted():
                tree.warm()
        self.tree, self._move = tree, None
        before = 0 if fresh else self._counted
        limits = query.limits
        if limits == Limits():
            limits = Limits(calls=DEFAULT_CALLS)
        if limits.seconds is not None:
            left = max(1e-3, limits.seconds - watch.elapsed())
            limits = replace(limits, seconds=left)
        growth = Growth(
            simulations=limits.simulations,
            calls=limits.calls,
            seconds=limits.seconds,
            progress=query.progress,
        )
        tree.grow_by(growth)
        grown = any(tree.node(0).edge_visits) or tree.proven
        # too few calls are an error, too little time happens
        grown = grown or not (growth.refused or limits.seconds is not None)
        estimate = tree.estimate() if grown else _blind(tree)
        self._counted = tree.num_calls
        if thought and not fresh:
            note = f"{thought:,} of the calls were made while the other moved."
            estimate = replace(estimate, notes=(*estimate.notes, note))
        return replace(
            estimate,
            num_calls=tree.num_calls - before,
            seconds=watch.elapsed(),
            compile_seconds=watch.stood_still(),
        )

    def close(self) -> None:  # noqa: D102
        self.wake()
        if self.tree is not None:
            self.tree.close()

    def __getstate__(self) -> dict[str, Any]:
        # a tree stays in the process that grew it
        return self.__dict__ | {"tree": None, "_move": None, "_pondering": None}


def certified(
    tree: Tree,
    answer: Estimate,
    *,
    budget: int | None,
    seconds: float | None = None,
    delta: float | None = None,
    progress: Callback | None = None,
) -> Estimate:
    """``answer`` with the certificate of the tree's policy, a lower bound on V."""
    from smoothcruiser.evaluation.evaluate import evaluate

    paid = None if budget is None else max(1, budget)
    query = Query.of(
        tree.problem,
        tree.state,
        budget=paid,
        seconds=seconds,
        delta=delta,
        seed=tree.seed,
        progress=progress,
    )
    below = evaluate(query, tree)
    assert below.certificate is not None
    assert below.interval is not None
    left = None if tree.problem.horizon is None else tree.problem.horizon - tree.elapsed
    top = tree.problem.facts.value_bounds(tree.node(0).player, left)[1]
    interval = (below.interval[0], max(top, below.interval[0]))
    certificate = replace(below.certificate, interval=interval)
    usual = below.standard_error
    spread = f" (usual error {usual:.2g}, not promised)" if usual else ""
    note = (
        f"Its policy (blind off the tree) is worth {below.value:.6g}{spread}, in "
        f"[{below.interval[0]:.6g}, {below.interval[1]:.6g}] with "
        f"probability {certificate.confidence:g}: V(state) is at least "
        f"{interval[0]:.6g}. The upper end is only what the rewards allow."
    )
    value = min(max(answer.value, interval[0]), interval[1])
    error = None  # of the tree's own number none is known
    if tree.method.estimates(tree.problem.operator) != tree.problem.operator.label:
        # the tree's own number is of another operator, and the interval is not
        value, error = below.value, below.standard_error
    return replace(
        answer,
        value=value,
        standard_error=error,
        interval=interval,
        certificate=certificate,
        delta=below.delta,
        num_calls=answer.num_calls + below.num_calls,
        seconds=answer.seconds + below.seconds,
        compile_seconds=answer.compile_seconds + below.compile_seconds,
        notes=(*tree.notes(), note),
    )
