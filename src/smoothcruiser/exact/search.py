"""The state of a search for V = TV: the model, its passes, and the bound of a point.

Symbols and proofs are those of ``solver``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.exact import elimination, flow
from smoothcruiser.exact.loops import Model
from smoothcruiser.exact.model import Kernels, room_for_policy
from smoothcruiser.exact.stopped import SLACK, UNIT
from smoothcruiser.exact.watch import Watch
from smoothcruiser.operators import Operator
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.problem.tabular import Floats, Tables

UNLIMITED = 2**62


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Values with their bound, how they were computed, and why the bound is no smaller."""

    values: Floats
    bound: float
    method: str
    stages: Floats | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class SweptValues:
    """A value function with its sweep."""

    v: Floats
    w: Floats  # Tv
    width: float  # of w - v
    middle: float  # of w - v
    top: float  # no number of v, w or the answer computed from them is larger


class SweepSearch:
    """The model, its loops, and the count of passes, which alone changes."""

    def __init__(
        self,
        model: Model,
        kernels: Kernels,
        operator: Operator,
        max_sweeps: int | None,
        *,
        finite: bool,
    ) -> None:
        self.model, self.kernels, self.finite = model, kernels, finite
        self.max_sweeps, self.sweeps = max_sweeps, 0
        self.over = Watch()  # says when to stop with the best point so far
        self.tables: Tables | None = None  # the source of the model
        self.slow = False  # an evaluation has used up its sweeps
        self.compile_seconds = 0.0  # of loops that not every search needs
        self.room = room_for_policy(model)
        self.eliminated: Floats | None = None  # rows of the last elimination
        self.flowed = False  # whether ``flow`` was tried
        self.clamped = not operator.shift_invariant or bool(np.any(model.sign == 0.0))
        self.rounding_scale = operator.rounding_scale(model.live.shape[1])
        self.longest = int(np.max(np.diff(model.start), initial=1))
        live_rewards = model.reward[model.live.reshape(-1)]
        self.span = (
            float(np.max(live_rewards) - np.min(live_rewards))
            if len(live_rewards)
            else 0.0
        )

    def backup(self, v: Floats, *, zero: bool = False) -> SweptValues:
        """One sweep of T: the values, and how far they moved.

        At v = 0 action values are rewards, and the transitions need not be
        read.
        """
        m, find_difference = self.model, self.kernels.difference
        if zero:
            m.q[:] = m.reward
        else:
            self.kernels.q(m, v)
            self.sweeps += 1
            self.over.count_sweeps(1)
        w = np.empty(len(v))
        self.kernels.values(m, w)
        min_gap, max_gap, max_size = find_difference(v, w)
        if math.isnan(max_size):
            raise InvalidInput(
                "A value is NaN or infinite after one sweep: the operator must "
                "return finite numbers; see check_operator."
            )
        if self.clamped:
            min_gap, max_gap = min(min_gap, 0.0), max(max_gap, 0.0)
        middle = 0.5 * (min_gap + max_gap)
        return SweptValues(
            v,
            w,
            max_gap - min_gap,
            middle,
            max_size if self.finite else max_size + abs(middle) / (1.0 - m.discount),
        )

    def rounding(self, top: float) -> float:
        """Eta: how far a computed sweep may be from TV where no value exceeds ``top``.

        Derivation, in units of 2**-53. Action values, relative to Q = max |r| +
        gamma top, for n successors: n + 2 for the normalization of the stored
        rows (we solve the problem with rows that sum to 1), n + 1 for the mean
        reward, n + 1 for the mean of V (in any order), 2 for the last two
        operations.

        Operators, k actions (F is 1-Lipschitz): shifts and quotients by lambda
        4 span(q) <= 8 Q; sums of k exponentials and logarithms lambda (k + 8 +
        log k); sparsemax's threshold is k + 3 off and costs lambda k times
        that, its sums lambda (2k + 8); the square root's dual form is of second
        order in its level, its sum costs lambda k sqrt k. All are below lambda
        (2k^2 + 16). A user's operator is assumed to be computed as well as
        that, with |F(0)| in the place of lambda.
        """
        k = len(self.model.weights)
        q_size = self.model.reward_top + self.model.discount * top
        return UNIT * (
            q_size * (3.0 * self.longest + 14.0)
            + self.rounding_scale * (2.0 * k * k + 16.0)
        )

    def flow(self, enough: float) -> Floats | None:
        """Values that a sweep in place changes by at most ``enough``, or None.

        It is tried once, for Max without a min player and where an order of levels
        exists: later steps polish the result, or do without.
        """
        if self.flowed or not is_greedy(self.model.code):
            return None
        self.flowed, narrow = True, self.narrow()
        if narrow is None or float(np.min(self.model.sign)) < 0.0:
            return None
        compile_seconds = flow.warm()
        self.over.skip_compiling(compile_seconds)
        self.compile_seconds += compile_seconds
        flow_steps = flow.flow(self.model, narrow.order)
        if flow_steps is None:
            return None
        flow_values, passes = flow_steps.values(enough, self.remaining(), self.over)
        self.sweeps += passes
        return flow_values

    def narrow(self) -> elimination.NarrowOrder | None:
        """The order in which policies are cheap to eliminate, if there is one."""
        if self.tables is None:
            return None
        compile_seconds = elimination.warm()
        self.over.skip_compiling(compile_seconds)
        self.compile_seconds += compile_seconds
        return elimination.narrow(self.tables, self.model)

    def settle(self, narrow: elimination.NarrowOrder, x: Floats, sweeps: int) -> Floats:
        """``x`` after sweeps of T for Max in place."""
        sweeps = min(sweeps, self.remaining())
        narrow.settle(self.model, x, sweeps)
        self.sweeps += sweeps
        self.over.count_sweeps(sweeps)
        return x

    def remaining(self) -> int:
        """The number of passes that are still allowed."""
        return (
            max(1, self.max_sweeps - self.sweeps)
            if self.max_sweeps is not None
            else UNLIMITED
        )

    def check_budget(self, best: SweptValues | None, aim: float) -> None:
        """Refuse to continue once ``max_sweeps`` is used up."""
        if self.max_sweeps is None or self.sweeps < self.max_sweeps:
            return
        reached_text = (
            ""
            if best is None
            else (
                f"; they reached max |values - V*| <= {self.proven_bound(best):.3g}, not "
                f"{aim:.3g}"
            )
        )
        raise Unpayable(
            f"max_sweeps={self.max_sweeps} passes were not enough{reached_text}; raise "
            "max_sweeps, or tolerance."
        )

    def floor(self, top: float) -> float:
        """The part of the bound that rounding adds, summed over all later sweeps.

        It is eta and the last bit of the difference itself.
        """
        return SLACK * (
            (self.rounding(top) + 2.0 * UNIT * top) / (1.0 - self.model.discount)
            + 2.0 * UNIT * top
        )

    def proven_bound(self, point: SweptValues) -> float:
        """Return the proven distance of ``answer(point)`` from V*."""
        gamma = self.model.discount
        return SLACK * 0.5 * point.width * gamma / (1.0 - gamma) + self.floor(point.top)

    def is_rounded(self, point: SweptValues) -> bool:
        """Whether rounding may keep the width from shrinking."""
        return self.proven_bound(point) <= 8.0 * self.floor(point.top)

    def answer(
        self, point: SweptValues, bound: float, method: str, note: str
    ) -> SearchResult:
        """The middle of MacQueen's two lines.

        From v + lo/(1-gamma) <= V* <= v + hi/(1-gamma), action values shift by
        the same.
        """
        gamma = self.model.discount
        shift = point.middle * gamma / (1.0 - gamma)
        self.model.q[:] += shift
        return SearchResult(
            np.where(self.model.sign == 0.0, 0.0, point.w + shift),
            bound,
            method,
            note=note,
        )
