"""Values of Max where rewards are far away and no elimination is cheap: wide grids.

A sweep in place carries news as far as the order of the states follows the play. Good
play climbs from low values to high ones, so the states are numbered by a first guess of
their values (``potential``), high ones first, and swept in that order. One step is

    improve   a sweep of T in place, which also packs the policy that it chose;
    follow    where that policy ends up: about its stationary distribution, mu;
    relax     sweeps of the policy in place, with a constant c added before each round
              so that mu (T_pi (x + c) - (x + c)) = 0.

Sweeps of T_pi need 1/(1 - gamma) passes to find that constant, and mu gives it at once:
the error that is left decays with the moves that go against the order. Where there are
several places to stay, one constant does not fit all. So nothing is tried with two
peaks of the potential or with a policy that moves at random, and steps that do not
converge end early. Nothing here is trusted: ``solver`` bounds the error of every
result.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from smoothcruiser.exact import flow_kernel as kernel
from smoothcruiser.exact.loops import Model
from smoothcruiser.exact.model import room_for_policy
from smoothcruiser.exact.watch import Watch
from smoothcruiser.jit.build import compile_function
from smoothcruiser.problem.tabular import Floats, Ints

GUESSING = 3  # sweeps of the potential: back, forth and back
FOLLOWING = 8  # sweeps of mass per step
ROUNDS, SWEEPS = 1, 16  # of a policy per step
PASSES = 1 + FOLLOWING + ROUNDS * (1 + SWEEPS)  # over the transitions, per step
# Every move against the order costs a sweep. With more of them in the first policy, which
# still knows little at its far ends, elimination and plain sweeps are faster (measured on
# grids of 40 x 40 to 100 x 100 with moves that slip with probabilities of 0.15 to 0.75).
MOST_AGAINST = 0.4
# Steps in which the change has to halve. The first steps move many policies at once.
PATIENCE = 4


class FlowSteps:
    """A model numbered from high values to low ones, and the memory of its steps."""

    def __init__(self, m: Model, guess: Floats) -> None:
        """Number the states of ``m`` by a guess of their values."""
        num_states = len(m.sign)
        self.order = np.argsort(-guess)
        state_place = np.empty(num_states, dtype=np.uint32)
        state_place[self.order] = np.arange(num_states, dtype=np.uint32)
        field_names = ("start", "next_state", "prob", "reward", "live", "sign")
        self.model = m._replace(
            **{x: np.empty_like(getattr(m, x)) for x in field_names}
        )
        compile_function(kernel.renumber)(m, self.order, state_place, self.model)
        self.x, self.room = guess[self.order], room_for_policy(m)
        self.mass, self.visits = (
            np.full(num_states, 1.0 / num_states),
            np.empty(num_states),
        )

    def values(
        self, enough: float, max_passes: int, watch: Watch
    ) -> tuple[Floats | None, int]:
        """Values that a sweep changes by at most ``enough``, and the passes made.

        None where ``max_passes`` or the steps' own progress do not suffice.
        """
        least_change, steps_since, passes_done = np.inf, 0, 0
        improve_values, follow_policy = (
            compile_function(kernel.improve),
            compile_function(kernel.follow),
        )
        while (
            passes_done + PASSES <= max_passes
            and steps_since < PATIENCE
            and watch() is None
        ):
            max_change = float(improve_values(self.model, self.x, self.room))
            passes_done += PASSES
            watch.count_sweeps(PASSES)
            if max_change <= enough:
                state_values = np.empty(len(self.x))
                state_values[self.order] = self.x
                return state_values if bool(
                    np.all(np.isfinite(state_values))
                ) else None, passes_done
            if passes_done == PASSES and self._wanders():
                break
            least_change, steps_since = (
                (max_change, 0)
                if max_change <= 0.5 * least_change
                else (least_change, steps_since + 1)
            )
            follow_policy(self.room, self.mass, self.visits, FOLLOWING)
            compile_function(kernel.relax)(
                self.room, self.visits, self.x, ROUNDS, SWEEPS
            )
        return None, passes_done

    def _wanders(self) -> bool:
        """Whether the packed policy often moves against the order."""
        return bool(compile_function(kernel.against)(self.room) > MOST_AGAINST)


def flow(m: Model, order: Ints) -> FlowSteps | None:
    """The steps of a model for Max; None where a constant would not fit all states.

    Sweeps in ``order`` reach all states soon.
    """
    guess = np.empty(len(m.sign))
    num_peaks = compile_function(kernel.potential)(m, order, guess, GUESSING)
    return FlowSteps(m, guess) if num_peaks <= 1 else None


@cache
def _compile_seconds() -> list[float]:
    """The seconds of compiling, until they are taken."""
    start_time = time.perf_counter()
    one_value, live_pairs = np.ones(1), np.ones((1, 1), dtype=np.bool_)
    row_start, next_index = np.arange(2, dtype=np.uint64), np.zeros(1, dtype=np.uint32)
    m = Model(
        row_start,
        next_index,
        one_value,
        one_value,
        live_pairs,
        one_value,
        one_value,
        one_value.copy(),
        False,
        0,
        0.0,
        0.5,
    )
    flow_steps = flow(m, np.zeros(1, dtype=np.int64))
    assert flow_steps is not None
    flow_steps.values(-1.0, PASSES, Watch())
    return [time.perf_counter() - start_time]


def warm() -> float:
    """The seconds that compiling took; 0 after the first call."""
    pending_seconds = _compile_seconds()
    return pending_seconds.pop() if pending_seconds else 0.0
