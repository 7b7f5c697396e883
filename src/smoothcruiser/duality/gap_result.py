"""A Gap: the distance of a policy from optimal, with two-sided bounds on V.

``interval`` holds V(state), ``policy_interval`` the value of the policy, ``q_intervals``
the values of the actions, and ``regret`` is at least V - V_policy (for a minimizer
V_policy - V). All of them hold together with probability 1 - ``delta``. ``value`` and
``policy_value`` are estimates, and ``standard_error`` is the usual one, not promised.

In a game the two policies bracket V: ``interval`` runs from the value of the first
policy against its best reply to that of the second one against its own, and
``nash_conv`` is at least the distance of these two values.

This file leaves out how the numbers come about (``gap_request``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.estimate import NOWHERE, Interval
from smoothcruiser.query import nearest_to_zero
from smoothcruiser.records.data import Data, Framed, draw_object, same_fields
from smoothcruiser.records.json_shapes import calls_flaw, index_flaw, length_flaw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# the sentence on ``value=`` in every certificate
FIXED_VALUE = (
    "value= and policy= are fixed functions of the state; they were not fitted on, or "
    "chosen by, the streams of these paths"
)


ROUNDED_SHARE = 1e-8  # of |V|: a smaller regret is that of rounding


@dataclass(frozen=True)
class Refit:
    """A refit of the fitted value between two blocks of paths."""

    path: int  # the first path that used it
    range_upper: float  # the largest upper sample that was possible from then on


@dataclass(frozen=True)
class GapCertificate(Shown):
    """The promise of a Gap, the numbers behind it and its assumptions."""

    kind: str
    interval: Interval
    policy_interval: Interval
    regret: float
    q_intervals: tuple[Interval, ...]
    confidence: float  # of all of them together
    upper: str  # the source of the upper end: "exact", "certified" or "paths"
    reason: str  # of that choice
    bound: str  # the inequality behind the limits
    assumptions: tuple[str, ...] = ()
    best_actions: tuple[int, ...] | None = None
    shares: dict[str, float] | None = None  # parts of delta, by statement
    # the largest upper, smallest lower and largest difference that a path can have
    range_upper: float | None = None
    range_lower: float | None = None
    range_gap: float | None = None
    upper_cut: float | None = None  # scores at which nodes are cut
    lower_cut: float | None = None
    clip: Interval | None = None  # the range to which value= is clipped
    path_length: str = ""  # the horizon, a truncation, or where killing begins
    num_inner: int | None = None  # inner samples per state and action
    coupling: str = ""  # "mirrored", "plain" or "exact"
    num_paths: int = 0
    cut_paths: int = 0  # paths with a node that was cut
    nodes_per_path: float = 0.0
    refits: tuple[Refit, ...] = ()
    seed: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GapCertificate):
            return NotImplemented
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.kind, self.upper, self.num_paths))

    def __repr__(self) -> str:
        return brief(
            "GapCertificate",
            upper=self.upper,
            confidence=self.confidence,
            paths=self.num_paths,
        )


def _percentage(share: float) -> str:
    """A share in percent, rounded up so that it holds as printed."""
    from smoothcruiser.schedule.number_text import format_bound

    percentage = 100.0 * share
    if percentage >= 10.0:
        return f"{math.ceil(percentage)}%"
    return f"{format_bound(percentage)}%"


@dataclass(frozen=True)
class Gap(Shown, Data, Framed):
    """The distance of a policy from optimal, with intervals of V and of its value."""

    json_kind: ClassVar[str] = "gap"
    json_more: ClassVar[Mapping[str, Any]] = {"sentence": str}
    json_when_set: ClassVar[tuple[str, ...]] = ("minimize",)
    frame_columns: ClassVar[tuple[str, ...]] = (
        *("action", "label", "value", "low", "high", "policy", "excluded"),
    )

    value: float  # the estimate of V
    interval: Interval
    policy_value: float  # the estimate of V_policy; NaN in a game
    policy_interval: Interval
    regret: float  # V - V_policy is at most this
    standard_error: float | None  # the usual one of ``value``, not promised
    q_values: tuple[float, ...]  # estimates; NaN of illegal actions
    q_intervals: tuple[Interval, ...]
    policy: tuple[float, ...]  # the policy at the state; empty where it is not known
    best_actions: tuple[int, ...]  # actions not excluded as best
    num_calls: int
    calls: dict[str, int]  # by role; they add up to ``num_calls``
    epsilon: float  # half of the width of ``interval``
    delta: float
    upper: str  # the source of the upper end: "exact", "certified" or "paths"
    certificate: GapCertificate
    seconds: float
    compile_seconds: float
    problem: str = ""
    state: Any = None
    seed: int | None = None
    executor: str | None = None
    is_own_policy: bool = True  # whether the policy is the caller's
    nash_conv: float | None = None  # of two policies in a game
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    minimize: bool = False  # every number is a cost, which the policy keeps low

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gap):
            return NotImplemented
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.problem, self.upper, self.num_calls, self.seed))

    def __repr__(self) -> str:
        return brief(
            "Gap",
            regret=self.regret,
            interval=self.interval,
            policy_interval=self.policy_interval,
            calls=self.num_calls,
        )

    def label(self, action: int) -> str:
        """The name of an action: its label, or its number where it has none."""
        return str(action) if self.labels is None else self.labels[action]

    @property
    def relative_regret(self) -> float:
        """The regret as a share of |V|; infinite where V may be 0."""
        smallest_value = nearest_to_zero(self.interval)
        return self.regret / smallest_value if smallest_value > 0.0 else math.inf

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        from smoothcruiser.schedule.number_text import format_bound

        holds = (
            "for sure"
            if self.certificate.confidence >= 1.0
            else f"with probability {self.certificate.confidence:g}"
        )
        if self.nash_conv is not None:
            return (
                f"the two policies are within {format_bound(self.nash_conv)} of an "
                f"equilibrium (NashConv) {holds}"
            )
        subject = (
            "your policy" if self.is_own_policy else "the policy greedy on the value"
        )
        if not math.isfinite(self.regret):
            return f"nothing is known of the distance of {subject} from optimal"
        regret_text = format_bound(self.regret)
        share = self.relative_regret
        if share < ROUNDED_SHARE:
            return f"{subject} is optimal {holds}, up to {regret_text}"
        if not share < 10.0:
            return f"{subject} is within {regret_text} of optimal {holds}"
        return (
            f"{subject} is within {_percentage(share)} of optimal "
            f"({regret_text} of {self.value:.4g}) {holds}"
        )

    def more_data(self) -> dict[str, Any]:
        """The answer in one sentence."""
        return {"sentence": self.sentence}

    def json_flaw(self) -> str | None:
        """Lists that differ in length, or an action that there is not."""
        num_actions = len(self.q_values)
        num_labels = num_actions if self.labels is None else len(self.labels)
        flaws = [
            length_flaw("q_intervals", len(self.q_intervals), num_actions, "action"),
            length_flaw(
                "policy", len(self.policy), num_actions if self.policy else 0, "action"
            ),
            length_flaw("labels", num_labels, num_actions or num_labels, "action"),
            *(
                index_flaw("best_actions", a, num_actions, "actions")
                for a in self.best_actions
            ),
            calls_flaw("num_calls", self.num_calls),
            *(
                calls_flaw(f"calls[{role!r}]", count)
                for role, count in self.calls.items()
            ),
        ]
        return next((flaw for flaw in flaws if flaw is not None), None)

    def records(self) -> list[dict[str, Any]]:
        """One row per action: its value, interval and share of the policy.

        ``excluded`` says whether the intervals rule the action out as the best one.
        """
        action_rows = []
        for a, q in enumerate(self.q_values):
            low, high = self.q_intervals[a] if self.q_intervals else NOWHERE
            action_rows.append(
                {
                    "action": a,
                    "label": self.label(a),
                    "value": q,
                    "low": low,
                    "high": high,
                    "policy": self.policy[a] if self.policy else math.nan,
                    "excluded": a not in self.best_actions,
                }
            )
        return action_rows

    def frame_attrs(self) -> dict[str, Any]:
        """The estimates and the promises about V and the policy."""
        return {
            "value": self.value,
            "interval": self.interval,
            "policy_value": self.policy_value,
            "policy_interval": self.policy_interval,
            "regret": self.regret,
            "delta": self.delta,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw V, the policy's value and the actions with intervals; return the Axes.

        It needs matplotlib (extra ``report``).

        Args:
            ax: where to draw; by default a figure of its own.
        """
        return draw_object("gap", self, ax)
