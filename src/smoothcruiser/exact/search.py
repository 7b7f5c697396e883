"""What a search for V = TV keeps: the model, its passes, and the bound of a point.

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
class Found:
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


class Sweeping:
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
        self.over = Watch()  # says when to stop with what was reached
        self.tables: Tables | None = None  # what the model was made of
        self.slow = False  # an evaluation has used up its sweeps
        self.compile_seconds = 0.0  # of loops that not every search needs
        self.room = room_for_policy(model)
        self.eliminated: Floats | None = None  # rows of the last elimination
        self.flowed = False  # whether ``flow`` was tried
        self.clamped = not operator.shift_invariant or bool(np.any(model.sign == 0.0))
        self.rounding_scale = operator.rounding_scale(model.live.shape[1])
        self.longest = int(np.max(np.diff(model.start), initial=1))
        rewards = model.reward[model.live.reshape(-1)]
        self.span = float(np.max(rewards) - np.min(rewards)) if len(rewards) else 0.0

    def backup(self, v: Floats, *, zero: bool = False) -> SweptValues:
        """One sweep of T: the values, and how far they moved.

        At v = 0 action values are rewards, and the transitions need not be
        read.
        """
        m, low_high = self.model, self.kernels.difference
        if zero:
            m.q[:] = m.reward
        else:
            self.kernels.q(m, v)
            self.sweeps += 1
            self.over.swept(1)
        w = np.empty(len(v))
        self.kernels.values(m, w)
        low, high, top = low_high(v, w)
        if math.isnan(top):
            raise InvalidInput(
                "A value is NaN or infinite after one sweep: the operator must "
                "return finite numbers; see check_operator."
            )
        if self.clamped:
            low, high = min(low, 0.0), max(high, 0.0)
        middle = 0.5 * (low + high)
        return SweptValues(
            v,
            w,
            high - low,
            middle,
            top if self.finite else top + abs(middle) / (1.0 - m.discount),
        )

    def rounding(self, top: float) -> float:
        """Eta: how far a computed sweep may be from TV where no value exceeds ``top``.

        Derivation, in units of 2**-53. Action values, relative to Q = max |r| +
        gamma top, for n successors: n + 2 for the normalization of the stored
        rows (we solve the problem whose rows sum to 1), n + 1 for the mean
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
        size = self.model.reward_top + self.model.discount * top
        return UNIT * (
            size * (3.0 * self.longest + 14.0)
            + self.rounding_scale * (2.0 * k * k + 16.0)
        )

    def flow(self, enough: float) -> Floats | None:
        """Values that a sweep in place changes by at most ``enough``, or None.

        It is tried once, for Max without a min player and where an order of levels
        exists: later steps polish what came out, or do without.
        """
        if self.flowed or not is_greedy(self.model.code):
            return None
        self.flowed, narrow = True, self.narrow()
        if narrow is None or float(np.min(self.model.sign)) < 0.0:
            return None
        seconds = flow.warm()
        self.over.compiled(seconds)
        self.compile_seconds += seconds
        steps = flow.flow(self.model, narrow.order)
        if steps is None:
            return None
        found, passes = steps.values(enough, self.remaining(), self.over)
        self.sweeps += passes
        return found

    def narrow(self) -> elimination.Narrow | None:
        """The order in which policies are cheap to eliminate, if there is one."""
        if self.tables is None:
            return None
        seconds = elimination.warm()
        self.over.compiled(seconds)
        self.compile_seconds += seconds
        return elimination.narrow(self.tables, self.model)

    def settle(self, narrow: elimination.Narrow, x: Floats, sweeps: int) -> Floats:
        """``x`` after sweeps of T for Max in place."""
        sweeps = min(sweeps, self.remaining())
        narrow.settle(self.model, x, sweeps)
        self.sweeps += sweeps
        self.over.swept(sweeps)
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
        reached = (
            ""
            if best is None
            else (
                f"; they reached max |values - V*| <= {self.bound(best):.3g}, not "
                f"{aim:.3g}"
            )
        )
        raise Unpayable(
            f"max_sweeps={self.max_sweeps} passes were not enough{reached}; raise "
            "max_sweeps, or tolerance."
        )

    def floor(self, top: float) -> float:
        """What rounding adds to the bound, summed over all later sweeps.

        It is eta and the last bit of the difference itself.
        """
        return SLACK * (
            (self.rounding(top) + 2.0 * UNIT * top) / (1.0 - self.model.discount)
            + 2.0 * UNIT * top
        )

    def bound(self, point: SweptValues) -> float:
        """Return the proven distance of ``answer(point)`` from V*."""
        gamma = self.model.discount
        return SLACK * 0.5 * point.width * gamma / (1.0 - gamma) + self.floor(point.top)

    def is_rounded(self, point: SweptValues) -> bool:
        """Whether rounding may be what keeps the width from shrinking."""
        return self.bound(point) <= 8.0 * self.floor(point.top)

    def answer(self, point: SweptValues, bound: float, method: str, note: str) -> Found:
        """The middle of MacQueen's two lines.

        From v + lo/(1-gamma) <= V* <= v + hi/(1-gamma), action values shift by
        the same.
        """
        gamma = self.model.discount
        shift = point.middle * gamma / (1.0 - gamma)
        self.model.q[:] += shift
        return Found(
            np.where(self.model.sign == 0.0, 0.0, point.w + shift),
            bound,
            method,
            note=note,
        )
