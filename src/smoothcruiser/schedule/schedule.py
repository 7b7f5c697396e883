"""A sampling plan as a frozen table of levels.

Its promise and its price are properties of the data.

legend   symbol   public name
  N               ``samples``: per legal action, for the query Q-hat
  X'              ``query``: the level that values next states inside Q-hat
  X''             ``continuation``: the level that values the next state of the
                  sampled action
  c               ``constant``

One sample of a level, in a state s where the mover has sign +1 (max) or -1 (min);
F, Omega are the mover's (each kind's file has the details):

  CONSTANT   c
  PLUGIN     F(Q-hat), Q-hat(a) = mean of N samples of r + gamma X'(z)
  ROLLOUT    F(Q-hat) - <Q-hat, g> + |g|_1 (r(s,A) + gamma X''(z)),
             g = grad F(Q-hat), A ~ g/|g|_1                  (Alg. 2, line 13)
  BLIND      the same with Q-hat = 0, unsampled

  RANDOM_*   one of both with corrections of its mean, by chance (``rungs``)

each plus sign * ``shift``. Terminal states are worth 0 before any of this.
Children stand before their parents in the table, so the recursion ends. The
root takes ``samples`` values of r + gamma X(z) per action (target "q_values"),
or of X itself (target "value").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import BrokenPromise, InvalidInput, describe_error
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.data import Data, check_head, draw_object
from smoothcruiser.records.json_shapes import DataclassShape
from smoothcruiser.records.shapes import Count
from smoothcruiser.schedule.kinds import Kind, estimator_of
from smoothcruiser.schedule.kinds.base import rung_flaw
from smoothcruiser.schedule.prices import (
    Level,
    Root,
    Target,
    level_calls,
    level_visits,
    most_calls,
    own_calls,
    price,
    root_calls,
    root_visits,
)
from smoothcruiser.states.state_json import LARGEST_COUNT, count_data
from smoothcruiser.theory.bets import (
    DEVIATION,
    checkpoints,
    likely_calls,
    likely_samples,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "LARGEST_COUNT",
    "Kind",
    "Level",
    "Root",
    "Schedule",
    "Target",
    "count_data",
    "level_calls",
    "level_visits",
    "most_calls",
    "own_calls",
    "price",
    "root_calls",
]


@dataclass(frozen=True)
class Schedule(Shown, Data):
    """A plan that keeps |answer - truth| <= epsilon with probability 1 - delta.

    It is verified when it is built.
    """

    json_kind: ClassVar[str] = "schedule"
    json_more: ClassVar[Mapping[str, Any]] = {
        "num_calls": Count,
        "mean_calls": Count,
        "expected_calls": Count,
        "price_is_exact": bool,
    }

    method: str
    facts: Facts
    levels: tuple[Level, ...]
    root: Root
    epsilon: float
    delta: float
    # box for every Q-hat inside the tree (method "paper" only; the sharp analysis
    # forbids clipping)
    clip: tuple[float, float] | None = None
    # the paper's confidence of one node (method "paper" only)
    delta_prime: float | None = None
    # calls beside its samples that inspect or time the step of a problem, at the most
    calls_beside: int = field(default=0, compare=False)
    # forecast by the run's first samples (``Prepared.with_pilot``); None: none taken
    piloted_calls: Count | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._check_shape()
        from smoothcruiser.schedule.verify import verify

        verify(self)

    def _check_shape(self) -> None:
        for i, level in enumerate(self.levels):
            estimator = estimator_of(level.kind)
            missing_fact = estimator.missing(self.facts)
            if missing_fact is not None:
                raise BrokenPromise(
                    f"Level {i} ({level.kind.name}) needs {missing_fact}."
                )
            if estimator.asks and not (level.samples >= 1 and 0 <= level.query < i):
                raise BrokenPromise(
                    f"Level {i} ({level.kind.name}) needs samples >= 1 and a query "
                    f"child before it, got {level}."
                )
            if estimator.goes_on and not 0 <= level.continuation < i:
                raise BrokenPromise(
                    f"Level {i} ({level.kind.name}) needs a continuation before "
                    f"it, got {level}."
                )
            if max(level.query, level.continuation) >= i:  # also of kinds without them
                raise BrokenPromise(
                    f"Level {i} ({level.kind.name}) names a level that does not stand "
                    f"before it, got {level}."
                )
            if level.rungs and not estimator.randomized:
                raise BrokenPromise(
                    f"Level {i} ({level.kind.name}) makes no corrections, got {level}."
                )
            rung_fault = rung_flaw(level)
            if rung_fault is not None:
                raise BrokenPromise(f"Level {i} ({level.kind.name}) {rung_fault}.")
            if not (math.isfinite(level.constant) and math.isfinite(level.shift)):
                raise BrokenPromise(
                    f"Level {i} has a constant or shift that is not finite: {level}."
                )
        if not (self.root.samples >= 1 and 0 <= self.root.child < len(self.levels)):
            raise BrokenPromise(
                "The root needs samples >= 1 and a child in the table, got "
                f"{self.root}."
            )

    @cached_property
    def level_calls(self) -> tuple[int, ...]:
        """Oracle calls of one sample of each level, as whole numbers.

        They are upper bounds where actions vary or states end, and averages, rounded
        up, where corrections are made by chance.
        """
        return level_calls(self.levels, self.facts.num_actions)

    @cached_property
    def num_calls(self) -> int:
        """The price: oracle calls of the whole run.

        It is exact when ``price_is_exact``, and an upper bound otherwise. Where
        corrections are made by chance, a run exceeds it with a chance below 1e-9.
        """
        return most_calls(self.levels, self.root, self.facts.num_actions)

    @cached_property
    def mean_calls(self) -> int:
        """The calls of a run without an early stop, on average over the rungs.

        It is ``num_calls`` where there are none.
        """
        return price(self.levels, self.root, self.facts.num_actions)

    @property
    def randomized(self) -> bool:
        """Whether some level makes corrections by chance."""
        return any(level.rungs for level in self.levels)

    @cached_property
    def expected_calls(self) -> int:
        """The likely calls of a run, at most ``num_calls``.

        It is a forecast by the run's first samples where they were taken. Otherwise
        samples at the root are assumed to deviate by a third of their bound
        (``theory.bets.DEVIATION``). No promise rests on it.
        """
        if self.piloted_calls is not None:
            return min(self.piloted_calls, self.num_calls)
        return self._calls_at(DEVIATION)

    @cached_property
    def expected_range(self) -> tuple[int, int]:
        """The likely calls where samples do not vary, and where they vary fully.

        No run is needed for it: it holds whatever the problem is.
        """
        return self._calls_at(0.0), self._calls_at(1.0)

    def _calls_at(self, deviation: float) -> int:
        """The likely calls where samples deviate by this share of their bound."""
        root = self.root
        if root.adaptive_delta == 0.0:
            return self.mean_calls
        from smoothcruiser.schedule.verify.sharp import root_promise

        promise = root_promise(self)
        num_likely = likely_samples(
            self.epsilon - promise.bias,
            promise.spread,
            deviation**2 * promise.variance,
            promise.bet_level,
        )
        return likely_calls(self.num_calls, root.samples, num_likely)

    @cached_property
    def centers(self) -> tuple[float, ...]:
        """For each level, the number around which the backups of its query lie.

        Engines sum distances to it. It is the middle of the rewards, discounted
        over the levels below. Any number would leave the law unchanged. One
        near the backups keeps a long sum from losing digits to a large common
        offset.
        """
        facts = self.facts
        middle_reward = 0.5 * facts.reward_range[0] + 0.5 * facts.reward_range[1]
        offset = 0.0 if facts.game else facts.operator.offset(facts.num_actions)
        if facts.minimize:
            offset = -facts.operator.offset(facts.num_actions)
        sample_centers: list[float] = []  # of the samples of each level
        query_centers: list[float] = []
        for level in self.levels:
            estimator = estimator_of(level.kind)
            if estimator.is_leaf:
                sample_centers.append(level.constant)
                query_centers.append(0.0)
                continue
            query_center, onward_center = (
                middle_reward + facts.discount * sample_centers[child]
                if child >= 0
                else 0.0
                for child in (level.query, level.continuation)
            )
            sample_centers.append(
                (onward_center if estimator.goes_on else query_center) + offset
            )
            query_centers.append(query_center)
        return tuple(query_centers)

    def stretch_root(self, calls: float) -> Schedule:
        """The same levels with more samples at the root, for about ``calls`` calls.

        The promise is the same, and the samples reach narrower bounds. Paper mode
        promises at its last sample alone and stays as it is.
        """
        root, call_factor = self.root, calls / self.num_calls
        if self.delta_prime is not None or call_factor <= 1.0:
            return self
        samples, checkpoint_counts = int(call_factor * root.samples), list(root.looks)
        if checkpoint_counts:
            checkpoint_counts += checkpoints(checkpoint_counts[-1], samples)[1:]
        root = replace(root, samples=samples, looks=tuple(checkpoint_counts))
        return replace(self, root=root)

    @property
    def price_is_exact(self) -> bool:
        """Whether a run makes exactly ``num_calls`` calls, whatever happens in it."""
        return self.facts.price_is_exact and not self.randomized

    @cached_property
    def depth(self) -> int:
        """The length of the longest chain of levels below the root."""
        level_depths: list[int] = []
        for level in self.levels:
            child_depths = [
                level_depths[child]
                for child in (level.query, level.continuation)
                if child >= 0
            ]
            level_depths.append(1 + max(child_depths, default=0))
        return level_depths[self.root.child]

    def visits(self) -> tuple[int, ...]:
        """How often each level is sampled in a run.

        These are upper bounds where the price is one.
        """
        num_actions = self.facts.num_actions
        return level_visits(
            self.levels,
            self.root.child,
            root_visits(self.root, num_actions),
            num_actions,
        )

    def __repr__(self) -> str:
        return brief(
            "Schedule",
            method=self.method,
            epsilon=self.epsilon,
            delta=self.delta,
            levels=len(self.levels),
            calls=self.num_calls,
        )

    def plot(
        self, ax: Axes | None = None, *, against: Literal["level", "epsilon"] = "level"
    ) -> Axes:
        """Draw the price of the plan, and return the Axes.

        It needs matplotlib (extra ``report``).

        Args:
            ax: where to draw; by default a figure of its own.
            against: "level" shows the oracle calls of each level; "epsilon" shows the
                price of the same method at other accuracies, for which it is compiled
                again (a second or so).
        """
        return draw_object("schedule", self, ax, against=against)

    def more_data(self) -> dict[str, Any]:
        """The price, which follows from the table."""
        return {
            **count_data("num_calls", self.num_calls),
            **count_data("mean_calls", self.mean_calls),
            **count_data("expected_calls", self.expected_calls),
            "price_is_exact": self.price_is_exact,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the table, its facts and its promise as plain data.

        Counts beyond 2**53 are None, and every count has its log10 beside it; those
        that are no consequence of others have their digits too (``samples_hex``).
        """
        schedule_data = super().to_dict()
        for row, num_calls, num_visits in zip(
            schedule_data["levels"], self.level_calls, self.visits(), strict=True
        ):
            row |= count_data("calls", num_calls) | count_data("visits", num_visits)
        return schedule_data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], facts: Facts | None = None) -> Self:
        """The schedule that ``to_dict`` wrote, verified again.

        Prices, calls and visits follow from the table and are computed anew.

        Args:
            data: the result of ``to_dict``, or the same after JSON.
            facts: of the problem; by default those that were written. They have to be
                given where the operator is the user's own.
        """
        check_head(data, cls.json_kind, "Schedule.from_dict")
        known_fields = {} if facts is None else {"facts": facts}
        try:
            return cls(
                **DataclassShape(cls).arguments(data, cls.json_kind, **known_fields)
            )
        except (ArithmeticError, TypeError, IndexError, RecursionError) as error:
            raise InvalidInput(
                f"Schedule.from_dict needs levels that keep a promise ({describe_error(error)})."
            ) from error
