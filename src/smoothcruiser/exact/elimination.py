"""Linear systems of policies, x = income + W x, by elimination in a narrow order.

Where moves are local (a chain, a ring, a queue, a grid of few columns) the states can be
put in an order in which every edge is short. With edges of at most b places, elimination
costs S b^2 multiplications instead of S^3/3, and its result is the policy's value to
rounding, however slowly the model mixes. Sweeps need about 1/(1 - discount) passes for
that.

The order is that of levels of the model's graph (``level_order``), so it does not depend
on how the states are numbered, and it serves all policies. ``settle`` uses it once more:
one sweep of T in place carries news along the whole order, where a sweep of T carries
them by one move. Nothing here is trusted: ``solver`` bounds the error of whatever comes
out by a sweep of its own.

Values of Max where rewards are far away and no elimination is cheap: wide grids.

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

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from smoothcruiser.exact import elimination_kernel as kernel
from smoothcruiser.exact.loops import Model, Packed
from smoothcruiser.exact.model import EXACT, Watch, room_for_policy
from smoothcruiser.problem.model.tabular import Floats, Ints, Tables

# Multiplications of an elimination in the time in which a sweep reads one number: its
# inner loop has no indices.
FASTER = 4.0
MOST_ENTRIES = 2**24  # of the eliminated rows, 128 MB
LANES = 8  # numbers in the widest registers: loops without a rest are faster
WIDEST = 256  # half bandwidth; with all those entries it takes a second or two


@dataclass(frozen=True, eq=False)
class NarrowOrder:
    """An order of the S states in which no edge is longer than ``half``."""

    order: Ints  # (S,): the state at each place
    place: Ints  # (S,): the place of each state
    half: int

    @property
    def cost(self) -> float:
        """The cost of one elimination, in numbers that a sweep would read."""
        return len(self.order) * (self.half + 1.0) ** 2 / FASTER

    def allocate_rows(self) -> Floats:
        """Memory for the eliminated rows, which every policy of a search uses again.

        Their length is a multiple of ``LANES``, and three zeros end each.
        """
        row_width = -(-max(self.half, 1) // LANES) * LANES
        return np.empty((len(self.order), row_width + 4))

    def solve(self, packed: Packed, room: Floats) -> Floats | None:
        """The fixed point of a policy's sweep; None where it is not finite."""
        x = np.empty(len(self.order))
        EXACT.kernel(kernel.eliminate, views=False)(
            packed, self.order, self.place, room, x, work=FASTER * self.cost
        )
        return x if bool(np.all(np.isfinite(x))) else None

    def settle(self, m: Model, v: Floats, sweeps: int) -> None:
        """Sweep T for Max in place, back and forth along the order."""
        EXACT.kernel(kernel.settle)(m, self.order, v, sweeps)


_orders: WeakKeyDictionary[Tables, NarrowOrder | None] = WeakKeyDictionary()


def narrow(tables: Tables, m: Model) -> NarrowOrder | None:
    """The narrow order of a model, found once; None where there is none."""
    if tables not in _orders:
        _orders[tables] = None if m.full else _find_narrow(m)
    return _orders[tables]


def _find_narrow(m: Model) -> NarrowOrder | None:
    num_states, num_actions = m.live.shape
    start, target = m.start.astype(np.int64), m.next_state
    if not m.live.all():  # rows that are not live may lead anywhere
        row_lengths = np.where(m.live.reshape(-1), np.diff(start), 0)
        target = target[np.repeat(m.live.reshape(-1), np.diff(start))]
        start = np.concatenate([[0], np.cumsum(row_lengths)]).astype(np.int64)
    start = start[::num_actions].copy()
    max_width = min(WIDEST, MOST_ENTRIES // num_states)
    if EXACT.kernel(kernel.widest_level)(start, target, max_width) > max_width:
        return None
    state_order, state_place = (
        np.empty(num_states, dtype=np.int64),
        np.empty(num_states, dtype=np.int64),
    )
    half_width = int(
        EXACT.kernel(kernel.level_order, views=False)(
            start, target, state_order, state_place
        )
    )
    return (
        NarrowOrder(state_order, state_place, half_width)
        if half_width <= max_width
        else None
    )


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
        EXACT.kernel(kernel.renumber)(m, self.order, state_place, self.model)
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
            EXACT.kernel(kernel.improve),
            EXACT.kernel(kernel.follow),
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
            EXACT.kernel(kernel.relax)(self.room, self.visits, self.x, ROUNDS, SWEEPS)
        return None, passes_done

    def _wanders(self) -> bool:
        """Whether the packed policy often moves against the order."""
        return bool(EXACT.kernel(kernel.against)(self.room) > MOST_AGAINST)


def flow(m: Model, order: Ints) -> FlowSteps | None:
    """The steps of a model for Max; None where a constant would not fit all states.

    Sweeps in ``order`` reach all states soon.
    """
    guess = np.empty(len(m.sign))
    num_peaks = EXACT.kernel(kernel.potential)(m, order, guess, GUESSING)
    return FlowSteps(m, guess) if num_peaks <= 1 else None
