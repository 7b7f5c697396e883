"""One row of an exact solution as an Estimate.

It makes no calls and has confidence 1; the solver's proven bound is half the
width of every interval.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Certificate, Estimate, best_action, estimate_subject
from smoothcruiser.exact.solution import Solution
from smoothcruiser.problem.assumptions import adapter_assumptions
from smoothcruiser.problem.problem import Problem


def exact_estimate(
    problem: Problem, solution: Solution, state: Any, notes: tuple[str, ...] = ()
) -> Estimate:
    """The Estimate of ``state`` that an exact solution holds.

    Args:
        problem: the problem that was solved.
        solution: the result of ``solve(problem)``.
        state: a state of the solution; another one is refused.
        notes: sentences for the reader, such as why this method was chosen.
    """
    state_row = solution.index(state)
    value, bound = float(solution.values[state_row]), float(solution.residual_bound)
    if math.isinf(value):
        raise InvalidInput(
            f"State {state!r} is worth {value:+} at discount 1: rewards go on for ever "
            "with positive probability; give horizon=, a discount below 1, or terminal=."
        )
    q_values = tuple(float(q) for q in solution.q_values[state_row])
    policy = tuple(float(p) for p in solution.policy[state_row])
    certificate = Certificate(
        kind="exact",
        interval=(value - bound, value + bound),
        q_intervals=tuple((q - bound, q + bound) for q in q_values),
        confidence=1.0,
        bound=f"residual of {solution.method}",
        assumptions=(
            "the tables are the model"
            if problem.tables is not None
            else "outcomes= is the model",
            *adapter_assumptions(problem),
        ),
        best_actions=None,
    )
    return Estimate(
        value=value,
        interval=certificate.interval,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, problem.mover(state)),
        num_calls=0,
        epsilon=bound,
        delta=0.0,
        method="exact",
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        **estimate_subject(problem, state),
        notes=notes,
    )
