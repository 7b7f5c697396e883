"""``solve``: the request for an exact solution, checked and watched.

This file leaves out the iterations (``solver``, ``undiscounted``).
"""

from __future__ import annotations

import math

from smoothcruiser.errors import InvalidInput
from smoothcruiser.exact.reachable import known_model
from smoothcruiser.exact.solution import Solution
from smoothcruiser.exact.solver import solve_model
from smoothcruiser.exact.watch import Watch
from smoothcruiser.jit.interrupts import stoppable_run
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, finish, progress_callback, show_bar

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
    horizon it is strategy iteration (``undiscounted``).

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
