"""Exact values: V = TV by value, policy or modified policy iteration.

A proven bound says how far the answer may be from V*.

The problem: (TV)(s) = F_s(Q_V(s, .)), Q_V(s, a) = E[r + gamma V(z)], V = 0 in
terminal states; F_s is F where the max player moves and -F(-Q) where the min
player does. T is monotone and T(V + c) = TV + gamma c, so from d = TV - V, lo =
min d, hi = max d:

    TV + gamma lo/(1-gamma)  <=  V*  <=  TV + gamma hi/(1-gamma)  (MacQueen 1966)

Proof: TV <= V + hi. Apply T repeatedly; each time the term gains a factor
gamma. Sum up. Where T(V + c) = TV + gamma c fails (terminal states, gradients
that do not sum to one) 0 <= T(V + c) - TV <= gamma c still holds for c >= 0,
and the lines above hold with lo = min(d, 0), hi = max(d, 0). The answer is the
middle of the two lines, the bound half their distance, wherever V came from.

legend   symbol      public name
  gamma              ``discount``
  T_pi               one sweep of a fixed policy pi = grad F(Q_V):
                     T_pi X = F(Q_V) + <pi, Q_X - Q_V>
  width              hi - lo; one sweep of T makes it at most gamma times as
                     large (same proof)
  eta                ``rounding``: how far one computed sweep is from TV

Methods. Value iteration: V <- TV. Policy iteration: V <- the fixed point of T_pi
(Newton's step), by LAPACK or ``elimination``. Modified: V <- T_pi^m V, or ``flow``.
For MDPs with the built-in operators the last two are known to converge (Puterman 1994,
Geist et al. 2019); in games, where both players' policies change at once, they may
cycle. So steps are tested: where a few of them do not shrink the width by gamma
they are undone and replaced by TV, which does. How many is ``FIRST_WINDOW`` at
first, and half as many each time that they were in vain. So all of them converge
at least as fast as value iteration, up to a factor of two in sweeps of T and the
first 2 ``FIRST_WINDOW`` steps.

The solver never stops silently: a requested ``tolerance`` is met, or the call
raises and says which bound was reached. Without one the solver aims at 1e-10 of the
span of the expected rewards, or at twice the floor of rounding where that is
more. So the relative accuracy is the same in any unit, and an offset of all
rewards does not loosen it. ``residual_bound`` is the proven bound; ``note`` says why
if it is larger than the aim. This file leaves out sampling. It reads ``tables`` or
``outcomes`` and never calls the oracle.

``solve``: the request for an exact solution, checked and watched.

This file leaves out the iterations (``solver``, ``total_rewards``).
"""

from __future__ import annotations

import math
import time

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.exact.model import Evaluator, Watch, evaluator, prepare
from smoothcruiser.exact.reachable import (
    KnownModel,
    SearchResult,
    SweepSearch,
    SweptValues,
    known_model,
)
from smoothcruiser.exact.solution import (
    SLACK,
    Solution,
    last_stage,
    left_early,
    names_of,
)
from smoothcruiser.exact.undiscounted.chains import SweepBudget
from smoothcruiser.exact.undiscounted.total_rewards import solve_totals
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.model.tabular import Floats
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, finish, progress_callback, show_bar
from smoothcruiser.run_control.stop_requests import stoppable_run

DEFAULT_TOLERANCE = 1e-10  # of the span of the expected rewards
# States of a dense linear solve: 32 MB and about 0.3 s. Larger problems evaluate
# policies by sweeps.
LARGEST_SOLVE = 2_000
# An elimination may cost so many times the sweeps that were used up in vain: it gives
# the policy's value, and they did not.
WORTH = 4.0
SETTLING = 2  # sweeps in place after an elimination: back and forth
# Sweeps in place before the first elimination. The policy of the first steps knows the
# rewards that are a few moves away, and nothing of the others. The order of a ring is
# folded, so that news need three sweeps to go all the way round.
FIRST_SETTLING = 4
# Steps without a smaller width. In exact arithmetic every step shrinks it, so ten in
# a row are rounding.
PATIENCE = 10
# Sweeps of the first modified evaluation. A step that uses all of them doubles their
# number, a refused one halves it.
FIRST_SWEEPS = 16
# An evaluation stops at this share of the step's width. More sweeps would polish a
# policy that is about to change.
FORCING = 0.1
# Steps until the width has to be smaller by gamma. Policies improve for a while before
# it shows: the width is that of the worst state. Steps that were in vain halve it.
FIRST_WINDOW = 64
MOST_STAGE_VALUES = 250_000_000  # 2 GB of float64


def solve_model(
    problem: Problem,
    known: KnownModel,
    *,
    tolerance: float | None = None,
    method: str = "auto",
    max_sweeps: int | None = None,
    watch: Watch | None = None,
) -> Solution:
    """The Solution of a problem with listed states, as in ``solve``.

    Where ``watch`` gives a reason to stop, it is the Solution of the sweeps so far,
    with the bound that these have proven.
    """
    watch = Watch() if watch is None else watch
    watch.begin("solving", known.tables.num_states)
    if is_undiscounted(problem):
        return solve_totals(
            problem, known, SweepBudget(max_sweeps, watch), tolerance, method
        )
    start_time = time.perf_counter()
    model, kernels = prepare(problem, known.tables)
    search = SweepSearch(
        model,
        kernels,
        problem.operator,
        max_sweeps,
        finite=problem.horizon is not None,
    )
    search.over, search.tables = watch, known.tables
    if problem.horizon is not None:
        result = _backward_induction(search, problem.horizon, tolerance, known)
    else:
        result = _fixed_point(search, tolerance, method)
    if not math.isfinite(result.bound):
        raise InvalidInput(
            "The values are too large to bound the error of float64; take a smaller "
            "temperature, discount or horizon, or measure rewards in a larger unit."
        )
    policy = np.empty(model.live.shape)
    kernels.policy(model, policy)
    is_unknown = np.isnan(result.values)
    policy[is_unknown] = np.nan
    compile_seconds = watch.clock.compile_seconds()
    return Solution(
        values=result.values,
        q_values=np.where(
            model.live & ~is_unknown[:, None],
            model.q.reshape(model.live.shape),
            np.nan,
        ),
        policy=policy,
        residual_bound=result.bound,
        method=result.method,
        sweeps=search.sweeps,
        seconds=time.perf_counter() - start_time - compile_seconds,
        compile_seconds=compile_seconds,
        stages=result.stages,
        **names_of(problem, known.states),
        note=result.note,
    )


# --- fixed point --------------------------------------------------------------


def _fixed_point(
    search: SweepSearch, tolerance: float | None, method: str
) -> SearchResult:
    """The solution once the bound is at the aim.

    It ends: every step shrinks the width by gamma, or rounding stops it and
    PATIENCE runs out.
    """
    point = best_point = search.backup(np.zeros(len(search.model.sign)), zero=True)
    anchor_point, num_tries, window = point, 0, FIRST_WINDOW
    sweep_budget, used_up, steps_stalled, method_used = (
        FIRST_SWEEPS,
        False,
        0,
        "value-iteration",
    )
    while (
        search.proven_bound(best_point) > (aim := _aim(search, best_point, tolerance))
        and steps_stalled < PATIENCE
        and search.over() is None
    ):
        search.check_budget(best_point, aim)
        proposal = point.w
        if method != "value-iteration":
            proposal, method_used, used_up = _improve_values(
                search, point, method, sweep_budget, aim
            )
            search.slow = search.slow or used_up
        point = search.backup(proposal)
        num_tries += 1
        if point.width <= search.model.discount * anchor_point.width:
            anchor_point, num_tries = point, 0
            sweep_budget = 2 * sweep_budget if used_up else sweep_budget
        elif num_tries >= (1 if search.is_rounded(best_point) else window):
            # undone: one sweep of T shrinks the width for sure
            point = anchor_point = search.backup(anchor_point.w)
            num_tries, window, sweep_budget = (
                0,
                max(1, window // 2),
                max(1, sweep_budget // 2),
            )
            steps_stalled += 1
        if point.width < best_point.width:
            best_point, steps_stalled = point, 0
        search.over.note_bound(search.proven_bound(best_point))
    bound, rounding_floor = (
        search.proven_bound(best_point),
        search.floor(best_point.top),
    )
    note = ""
    if bound > aim and steps_stalled < PATIENCE:
        note = left_early(search.sweeps, bound)
    elif bound > aim:
        note = (
            f"rounding of float64 stops at {bound:.3g}, of which {rounding_floor:.3g} is the "
            "proven worst case of one answer's rounding"
        )
        if tolerance is not None:
            raise InvalidInput(
                f"tolerance={tolerance!r} cannot be proven here: {note}; ask for "
                f"at least {2.0 * bound:.2g}."
            )
    elif tolerance is None and bound > DEFAULT_TOLERANCE * search.span > 0.0:
        note = (
            f"the aim of {DEFAULT_TOLERANCE * search.span:.3g} (1e-10 of the span of "
            "rewards) is below what rounding of float64 can "
            f"prove here ({rounding_floor:.3g})"
        )
    if best_point is not point:
        search.kernels.q(search.model, best_point.v)
    return search.answer(best_point, bound, method_used, note)


def _aim(search: SweepSearch, point: SweptValues, tolerance: float | None) -> float:
    """The bound that has to be reached."""
    return (
        tolerance
        if tolerance is not None
        else max(DEFAULT_TOLERANCE * search.span, 2.0 * search.floor(point.top))
    )


def _improve_values(
    search: SweepSearch, point: SweptValues, method: str, budget: int, aim: float
) -> tuple[Floats, str, bool]:
    """An improved value function, how it was computed, and whether the budget ran out.

    It is the policy's own value where a direct solve is worth it. Else T_pi is
    applied to ``point`` until it is near that value, or ``budget`` times.
    """
    m = search.model
    policy = evaluator(search.kernels, m, point.w, search.room)
    solved_values = _solve_policy(search, point, policy, method, budget)
    if solved_values is not None:
        return solved_values, "policy-iteration", False
    # the width at which the bound is at the aim
    target_width = 2.0 * aim * (1.0 - m.discount) / max(m.discount, 0.5)
    if method == "auto" and search.slow:
        flow_values = search.flow(0.5 * target_width)
        if flow_values is not None:
            return flow_values, "modified-policy-iteration", False
    if method == "policy-iteration":
        max_sweeps, enough_width = search.remaining(), 0.25 * target_width
    else:
        max_sweeps, enough_width = (
            min(budget, search.remaining()),
            max(0.25 * target_width, FORCING * point.width),
        )
    x = point.w.copy()
    num_done = policy.sweep(x, max_sweeps, enough_width, search.over)
    search.sweeps += num_done
    return (
        x,
        "policy-iteration"
        if method == "policy-iteration"
        else "modified-policy-iteration",
        num_done == max_sweeps,
    )


def _solve_policy(
    search: SweepSearch,
    point: SweptValues,
    policy: Evaluator,
    method: str,
    budget: int,
) -> Floats | None:
    """The fixed point of T_pi, or better; None where sweeps are cheaper.

    A dense solve makes S**3/3 multiplications, which LAPACK makes about five times as
    fast as a sweep makes its own. An elimination in a narrow order is tried once a
    policy has used up its sweeps. For Max, sweeps of T in place precede the first one and
    follow all: they move a value towards V*, and far along the order.
    """
    if method not in ("auto", "policy-iteration"):
        return None
    always, num_states = method == "policy-iteration", len(policy.income)
    sweep_cost = math.inf if always else float(budget * policy.reads)
    dense_cost = num_states**3 / 15 if num_states <= LARGEST_SOLVE else math.inf
    narrow_order = search.narrow() if always or search.slow else None
    if (
        narrow_order is not None
        and policy.packed is not None
        and narrow_order.cost <= min(dense_cost, WORTH * sweep_cost)
    ):
        for_max = is_greedy(search.model.code)
        if search.eliminated is None:
            search.eliminated = narrow_order.allocate_rows()
            if for_max:
                return search.settle(narrow_order, point.w.copy(), FIRST_SETTLING)
        x = narrow_order.solve(policy.packed, search.eliminated)
        if x is not None:
            return search.settle(narrow_order, x, SETTLING) if for_max else x
    return policy.solve() if dense_cost < sweep_cost else None


# --- horizon ------------------------------------------------------------------


def _backward_induction(
    search: SweepSearch, horizon: int, tolerance: float | None, known: KnownModel
) -> SearchResult:
    """V_h = T V_{h-1} from V_0 = 0, for h up to the horizon.

    There is no iteration error: the bound is the rounding of each stage, passed
    on with factor gamma.
    """
    num_values = (horizon + 1) * len(search.model.sign)
    if num_values > MOST_STAGE_VALUES:
        raise InvalidInput(
            f"The exact solution keeps a value for each of the {len(search.model.sign):,} "
            f"states and each step of the horizon, at most {MOST_STAGE_VALUES:,} of them; "
            "take a smaller horizon, or none with a discount below 1."
        )
    stages = np.zeros((horizon + 1, len(search.model.sign)))
    bound = 0.0
    for h in range(1, horizon + 1):
        search.check_budget(None, 0.0)
        point = search.backup(stages[h - 1], zero=h == 1)
        stages[h] = point.w
        bound = SLACK * (search.model.discount * bound + search.rounding(point.top))
        if h < horizon and search.over() is not None:
            bound = last_stage(search.model, stages[: h + 1], horizon, bound)
            stages[h, known.unknown(horizon, horizon)] = np.nan
            note = left_early(search.sweeps, bound)
            return SearchResult(stages[h], bound, "backward-induction", note=note)
    if tolerance is not None and bound > tolerance:
        raise InvalidInput(
            f"tolerance={tolerance!r} cannot be proven: rounding of float64 over "
            f"{horizon} stages allows {bound:.3g}; ask for that."
        )
    for h in range(1, horizon + 1):
        # only after the last sweep, since known values never depend on unknown ones
        stages[h, known.unknown(horizon, h)] = np.nan
    return SearchResult(
        stages[horizon].copy(), bound, "backward-induction", stages=stages
    )


METHODS = ("auto", "value-iteration", "policy-iteration", "modified-policy-iteration")


def solve(
    problem: Problem,
    *,
    tolerance: float | None = None,
    method: str = "auto",
    max_sweeps: int | None = None,
    progress: bool | Callback | None = None,
) -> Solution:
    """The Solution of a problem with a known model.

    The problem has ``tables``, or ``outcomes`` and hashable states; then the
    states reachable from ``initial_state`` are solved. With a horizon the
    method is backward induction, and ``discount`` may be 1. At discount 1 without a
    horizon it is strategy iteration (``total_rewards``).

    Args:
        problem: the problem to solve.
        tolerance: bound on max |values - V*|, in units of reward. It is met, or
            the call raises InvalidInput (rounding forbids it) or Unpayable
            (``max_sweeps`` ended first). None, the default, aims at 1e-10 of
            the span of rewards.
        method: "auto" (the default), "value-iteration", "policy-iteration" or
            "modified-policy-iteration".
        max_sweeps: most passes over the transitions; None, the default, sets no
            limit: every step shrinks the bound.
        progress: True for a bar, or a function that gets a ``Progress``. Where it
            returns False, and at Ctrl-C, the Solution is that of the sweeps so far,
            with the bound that they prove. Before all states are listed there is
            none: the call raises ``Interrupted``, or KeyboardInterrupt.

    Example:
        >>> import smoothcruiser as sc
        >>> chain = sc.make("chain:n=5", discount=0.9, operator="max")
        >>> round(float(sc.solve(chain).values[0]), 4)  # one reward, after three steps
        0.729
    """
    _check_request(tolerance, method, max_sweeps)
    callback = progress_callback(progress)
    with show_bar(callback), stoppable_run() as hold:
        watch = Watch(callback, hold)
        with hold.opened():
            model = known_model(problem, watch=watch)
        solution = solve_model(
            problem,
            model,
            tolerance=tolerance,
            method=method,
            max_sweeps=max_sweeps,
            watch=watch,
        )
        finish(
            callback,
            calls=0,
            seconds=solution.seconds,
            states=model.tables.num_states,
            done=solution.sweeps,
            half_width=solution.residual_bound,
        )
        return solution


def _check_request(tolerance: object, method: object, max_sweeps: object) -> None:
    if tolerance is not None:
        is_number = isinstance(tolerance, int | float) and not isinstance(
            tolerance, bool
        )
        if not is_number or not 0.0 < float(tolerance) < math.inf:  # type: ignore[arg-type]
            raise InvalidInput(
                f"tolerance must be a finite number above 0 or None, got {tolerance!r}."
            )
    if method not in METHODS:
        raise InvalidInput(
            f"method must be one of {', '.join(METHODS)}, got {method!r}."
        )
    if max_sweeps is not None and (
        isinstance(max_sweeps, bool)
        or not isinstance(max_sweeps, int)
        or max_sweeps < 1
    ):
        raise InvalidInput(
            "max_sweeps must be a whole number of at least 1 or None, got "
            f"{max_sweeps!r}."
        )
