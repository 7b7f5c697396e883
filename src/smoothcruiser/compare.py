"""Every planner on one problem with the same budget of oracle calls: what each
answer is worth, and what it took.

The yardstick is the exact solution of the problem itself (its operator, its
discount), where the model is known:

  error            |value - V(state)|
  action regret    max Q(state, .) - Q(state, recommended action)                    (signed for the min player)
  policy regret    V(state) - (<pi, Q(state, .)> - Omega(pi)): the one-step loss of the recommended policy

The yardstick has a proven error of its own, ``truth_bound``: an error is known
up to it and a regret, a difference of two exact values, up to twice that.
Smaller ones are indistinguishable from 0.

Methods of another objective (UCT on a regularized problem, say) are measured by
the same yardstick: it is what the user asked for. Their rows say whose value
they estimate (``estimates``). The sharp schedule spends the budget on the
smallest epsilon that it can pay; where even half of the value span is out of
reach it says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from smoothcruiser import api
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.estimate import Estimate
from smoothcruiser.methods import resolve
from smoothcruiser.methods.tree import TreeSearch
from smoothcruiser.operators.base import has_prior
from smoothcruiser.operators.functions import CUSTOM
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.searches import TREE_SEARCHES, Search

PLANNERS = ("smoothcruiser", "certified", *TREE_SEARCHES)
DELTA = 0.1  # of the planners that promise
COARSEST = 0.5  # of the value span: a wider promise says nothing


@dataclass(frozen=True)
class Row:
    """One planner's run; regrets and errors are None without an exact solution."""

    method: str
    budget: int
    seed: int
    value: float | None
    interval: tuple[float, float] | None
    action: int | None
    error: float | None
    action_regret: float | None
    policy_regret: float | None
    num_calls: int
    seconds: float
    compile_seconds: float
    note: str = ""
    estimates: str = ""  # the operator whose value it estimates
    # the exact values are known up to this: ``error`` too, regrets up to twice this
    truth_bound: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = asdict(self)
        return {
            key: None if isinstance(item, float) and not math.isfinite(item) else item
            for key, item in plain.items()
        }


@dataclass(frozen=True)
class Truth:
    """The exact solution at the asked state."""

    value: float
    q_values: dict[int, float]  # of the legal actions
    player: int
    problem: Problem
    bound: float = 0.0  # value and q_values are known up to this

    def action_regret(self, action: int) -> float | None:
        """What the action loses, by the mover's lights; None where a prior has
        its say beside the values.
        """
        if has_prior(self.problem.operator):
            return None
        sign = 1.0 if self.player == 1 else -1.0
        return (
            max(sign * q for q in self.q_values.values()) - sign * self.q_values[action]
        )

    def policy_regret(self, policy: Sequence[float]) -> float | None:
        """What one step of the policy loses; None for operators without Omega."""
        from smoothcruiser.evaluation.kernel import omega

        operator = self.problem.operator
        if operator.code == CUSTOM:
            return None
        sign = 1.0 if self.player == 1 else -1.0
        actions = sorted(self.q_values)
        weights = operator.weights(self.problem.num_actions)
        p, w = [policy[a] for a in actions], [weights[a] for a in actions]
        worth = sum(
            share * sign * self.q_values[a] for share, a in zip(p, actions, strict=True)
        )
        return sign * self.value - (
            worth - omega(operator.code, p, w, len(p), operator.strength)
        )


def truth_of(problem: Problem, state: Any) -> Truth | None:
    """The exact solution, None where the model is not known."""
    if problem.tables is None and problem.outcomes is None:
        return None
    try:
        estimate = api.plan(problem, state, method="exact")
    except InvalidInput:
        return None
    q = {a: q for a, q in enumerate(estimate.q_values) if not math.isnan(q)}
    assert estimate.epsilon is not None
    return Truth(
        estimate.value, q, problem.mover(estimate.state), problem, estimate.epsilon
    )


def compare(
    problem: Problem,
    state: Any = None,
    *,
    budgets: Sequence[int],
    methods: Sequence[str | Search] = PLANNERS,
    seeds: Sequence[int] = (0,),
    truth: Truth | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> list[Row]:
    """A row for each method, budget (in oracle calls) and seed; ``truth`` is
    what ``truth_of`` found, and is found if it is not given.

    ``progress`` is told (method, runs done, runs in all).
    """
    state = problem.start(state)
    if problem.is_terminal(state):
        raise InvalidInput(
            f"State {state!r} is terminal: its value is 0 and there is nothing to "
            "compare."
        )
    truth = truth or truth_of(problem, state)
    jobs = [
        (method, calls, seed)
        for method in methods
        for calls in budgets
        for seed in seeds
    ]
    rows = []
    for done, (method, calls, seed) in enumerate(jobs):
        name = method if isinstance(method, str) else str(method)
        if progress is not None:
            progress(name, done, len(jobs))
        rows.append(_run(problem, state, method, name, calls, seed, truth))
    return rows


def _run(
    problem: Problem,
    state: Any,
    method: str | Search,
    name: str,
    budget: int,
    seed: int,
    truth: Truth | None,
) -> Row:
    try:
        estimate = _planned(problem, state, method, budget, seed)
    except SmoothcruiserError as error:
        reason = str(error).split("\n")[0]
        return Row(
            name, budget, seed, None, None, None, None, None, None, 0, 0.0, 0.0, reason
        )
    row = measured(name, budget, seed, estimate, truth)
    return replace(row, estimates=objective(problem, method))


def objective(problem: Problem, method: str | Search) -> str:
    """The operator whose value a planner estimates: the problem's own, or a
    tree search's.
    """
    found = resolve(method)
    if isinstance(found, TreeSearch):
        return found.search.estimates(problem.operator)
    return problem.operator.label


def measured(
    name: str, budget: int, seed: int, estimate: Estimate, truth: Truth | None
) -> Row:
    """The row of one answer."""
    error = action = policy = None
    if truth is not None:
        error = abs(estimate.value - truth.value)
        action = (
            None if estimate.action is None else truth.action_regret(estimate.action)
        )
        policy = truth.policy_regret(estimate.policy) if estimate.policy else None
    return Row(
        name,
        budget,
        seed,
        estimate.value,
        estimate.interval,
        estimate.action,
        error,
        action,
        policy,
        estimate.num_calls,
        estimate.seconds,
        estimate.compile_seconds,
        estimate.notes[0] if estimate.notes else "",
        truth_bound=None if truth is None else truth.bound,
    )


def _planned(
    problem: Problem, state: Any, method: str | Search, budget: int, seed: int
) -> Estimate:
    if method == "smoothcruiser":
        return api.plan(
            problem,
            state,
            method=method,
            epsilon=affordable(problem, budget),
            delta=DELTA,
            budget=budget,
            seed=seed,
        )
    if method == "certified":
        return api.plan(
            problem, state, method=method, delta=DELTA, budget=budget, seed=seed
        )
    return api.plan(problem, state, method=method, budget=budget, seed=seed)


def affordable(problem: Problem, budget: int) -> float:
    """The smallest epsilon whose sharp schedule costs at most ``budget``, within 2%."""
    return _affordable(problem.facts, budget)


@cache
def _affordable(facts: Facts, budget: int) -> float:
    from smoothcruiser.schedule.compiler.optimizer import compile_schedule

    span = facts.value_span()

    def price(epsilon: float) -> int:
        return compile_schedule(facts, epsilon=epsilon, delta=DELTA).num_calls

    if span <= 0.0 or price(COARSEST * span) > budget:
        raise InvalidInput(
            f"no promise below half of the value span ({COARSEST * span:.3g}) can "
            f"be paid with {budget:,} calls"
        )
    low, high = 1e-4 * span, COARSEST * span
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        if price(middle) <= budget:
            high = middle
        else:
            low = middle
    return high


def ladder(budget: int, points: int) -> tuple[int, ...]:
    """``points`` budgets from a thousandth of ``budget`` up to it, evenly on a
    logarithmic scale.
    """
    if points == 1:
        return (budget,)
    return tuple(
        sorted(
            {
                max(1, round(budget * 1000.0 ** (i / (points - 1) - 1.0)))
                for i in range(points)
            }
        )
    )


def summaries(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Means and ranges over seeds, one for each method and budget, in the order
    of the rows.
    """
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.budget), []).append(row)
    for (method, budget), group in groups.items():
        ran = [row for row in group if row.value is not None]
        failed = [row for row in group if row.value is None]
        note, estimates = (
            failed[0].note if failed else "",
            ran[0].estimates if ran else "",
        )
        summary: dict[str, Any] = {
            "method": method,
            "budget": budget,
            "runs": len(ran),
            "note": note,
            "estimates": estimates,
        }
        for name in (
            "value",
            "error",
            "action_regret",
            "policy_regret",
            "num_calls",
            "seconds",
            "compile_seconds",
        ):
            found = [
                getattr(row, name) for row in ran if getattr(row, name) is not None
            ]
            summary[name] = sum(found) / len(found) if found else None
            if name in ("value", "error", "action_regret", "policy_regret"):
                summary[f"{name}_range"] = (min(found), max(found)) if found else None
        yield summary
