"""The answer of an evaluation that was stopped before its first rollout."""

from __future__ import annotations

from smoothcruiser.estimate import Certificate, Estimate, Interval
from smoothcruiser.problem.assumptions import assumptions
from smoothcruiser.query import Query


def unevaluated_estimate(query: Query, interval: Interval, refused: bool) -> Estimate:
    """The answer that holds for any policy: its value lies in ``interval``.

    ``refused`` says that the progress function returned False; else it was Ctrl-C.
    """
    certificate = Certificate(
        kind="policy",
        interval=interval,
        q_intervals=(),
        confidence=1.0,
        bound="what the rewards allow: the policy was not rolled out",
        assumptions=assumptions(query.problem, "what was declared is true", ""),
    )
    stop_reason = (
        "The progress function returned False" if refused else "Stopped by hand"
    )
    return Estimate(
        value=0.5 * (interval[0] + interval[1]),
        interval=interval,
        q_values=(),
        policy=(),
        action=None,
        num_calls=0,
        epsilon=0.5 * (interval[1] - interval[0]),
        delta=0.0,
        method="evaluate",
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        problem=query.problem.name,
        state=query.place,
        seed=query.seed,
        notes=(
            f"{stop_reason} before the first rollout: the interval holds for any policy.",
        ),
    )
