"""Facts about a problem that are known before the first oracle call.

Every promise rests on these facts.

legend   symbol     public name
  gamma             ``discount``
  K, K_min          ``num_actions``, ``min_actions``
  rho               ``reward_span``
  M                 ``regularizer_bound``: sup |F(0)| over the numbers of legal actions
  B                 ``value_span(remaining)``
  h                 ``remaining``: steps left before the horizon (None without one)

Bounds on V (theory, section 3). F is monotone and F(Q + c) = F(Q) + c, so V <=
r_hi + F(0) + gamma sup V: the regularizer moves the value and does not widen
it, unless states differ in F(0) (varying actions, terminals, two players). In
strictly alternating games V minus the offset of the player to move has span
rho/(1-gamma) again; ``player_offset`` is that offset, 0 elsewhere, and
``value_range`` bounds V - sign(player) * player_offset.

A declared range [l, u] of the total reward (``total_range``) puts V in [l, u]
plus the value bounds of the same problem with rewards 0 (Lemma T, theory,
section 2); that problem is ``unpaid``.

Where episodes end within m steps with probability q (``episodes_end``), the expected
number of steps is at most N = m/q, and V lies between N times the worst and N times
the best that one step adds, hulled with 0 (theory, section 13).

Bounds on V and Q are rounded outwards (``operators.outward``): they hold the exact numbers,
to the last bit (theory, section 8). A user's declarations are taken as they are.

``ProblemFields`` are these declarations. Checks of declarations, arguments and answers
are typed against them, so that ``problem.problem`` may import the checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from smoothcruiser.errors import describe_value
from smoothcruiser.operators import Operator
from smoothcruiser.operators.outward import (
    Interval,
    add_intervals,
    discounted_sum,
    enclose_quotient,
    scale_interval,
    widen_interval,
)

EVERY_STEP, AT_THE_END = PAYOFFS = ("every step", "end")
MOST_ACTIONS = 10**6  # of facts that are read: their constants are listed by number
BOUNDS_ROUNDING = 1e-12  # relative error of sums of discounted rewards
MOST_RECALLED = 4096  # answers that facts recall: one for each number of steps left

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def discounted_steps(discount: float, steps: int) -> float:
    """1 + gamma + … + gamma**(steps - 1), within three units in the last place.

    In 1 - gamma**steps almost all digits cancel where gamma is near 1, and bounds on
    V that are wrong in the ninth digit exclude the value of a state that is always
    paid the most. expm1 loses none: its relative error is at most that of its
    argument plus its own, and 1 - gamma is exact for gamma >= 1/2.
    """
    if discount == 1.0:
        return float(steps)
    lost_weight = 1.0 - discount**steps
    if lost_weight < 0.5 <= discount:
        lost_weight = -math.expm1(steps * math.log1p(discount - 1.0))
    return lost_weight / (1.0 - discount)


def times(step: float, steps: float) -> float:
    """The sum of ``steps`` steps, perhaps infinitely many: nothing stays nothing."""
    return 0.0 if step == 0.0 else step * steps


def expected_steps(end: tuple[int, float] | None) -> float:
    """The most steps that an episode has in the mean: m/q, rounded up; inf without q.

    m/q is off by half a unit in the last place, and so is a product with it: the
    second unit keeps the product above the exact one.
    """
    if end is None:
        return math.inf
    steps, probability = end
    mean_steps = steps / probability
    if probability == 1.0:
        return mean_steps
    return math.nextafter(math.nextafter(mean_steps, math.inf), math.inf)


def _end_bounds(end: tuple[int, float] | None) -> Interval:
    """The same, rounded outwards."""
    if end is None:
        return math.inf, math.inf
    numerator, denominator = end[1].as_integer_ratio()
    return enclose_quotient(end[0] * denominator, numerator)


@lru_cache(maxsize=256)
def _offset_bounds(operator: Operator, fewest: int, most: int) -> Interval:
    return operator.offset_range(fewest, most)


def largest(numbers: Iterable[float]) -> float:
    """The largest |x| of those that are finite, 0 if none is."""
    return max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)


def computed_once(
    method: Callable[Concatenate[Facts, Arguments], Answer],
) -> Callable[Concatenate[Facts, Arguments], Answer]:
    """Wrap a method of facts, which never change: each answer is computed once."""
    name = method.__name__

    @wraps(method)
    def recall(
        facts: Facts, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        answers: dict[Any, Answer] = facts.__dict__.setdefault("answers", {})
        question = (name, args, *kwargs.items())
        if question in answers:
            return answers[question]
        answer = method(facts, *args, **kwargs)
        if len(answers) < MOST_RECALLED:
            answers[question] = answer
        return answer

    return recall


@dataclass(frozen=True)
class Facts:
    """Everything that a schedule may rely on; hashable, no oracle inside."""

    num_actions: int
    min_actions: int
    discount: float
    operator: Operator
    reward_range: tuple[float, float]
    game: bool = False  # some states may belong to the min player
    alternating: bool = False  # turns alternate strictly
    terminals: bool = False  # some states may be terminal, with value 0
    horizon: int | None = None
    # declared bounds on V: they hold in every state that is not terminal, and with a
    # horizon for every number of steps left from 1 on; a terminal state is worth 0
    # whatever they say
    given_bounds: tuple[float, float] | None = None
    # declared range of the discounted sum of rewards from any state that is not
    # terminal, with any number of steps left from 1 on, to the end of the episode
    total_range: tuple[float, float] | None = None
    # the most that declared bounds are apart where they are functions of the state
    # (``problem.bounds``); they hold where ``given_bounds`` would
    given_gap: float | None = None
    # declared (steps, probability): from every state that is not terminal the episode
    # ends within so many steps with at least this probability, whatever is played
    episodes_end: tuple[int, float] | None = None
    # by how much a reward may differ between rows of a batch and a state by itself,
    # where the step computes in float32; added to every interval of a schedule
    reward_error: float = 0.0

    def json_flaw(self) -> str | None:
        """The first fact that no problem can have, in words; None if there is none."""
        if not 1 <= self.min_actions <= self.num_actions <= MOST_ACTIONS:
            return (
                "min_actions and num_actions must be whole numbers with 1 <= min_actions "
                f"<= num_actions <= {MOST_ACTIONS:,}, got {describe_value(self.min_actions)}"
                f" and {describe_value(self.num_actions)}"
            )
        if not 0.0 <= self.discount <= 1.0:
            return f"discount must lie in [0, 1], got {self.discount:g}"
        if not (math.isfinite(self.reward_span) and self.reward_span >= 0.0):
            return f"reward_range must be two finite numbers in order, got {self.reward_range}"
        if self.horizon is not None and not 1 <= self.horizon < 2**53:
            return f"horizon must be at least 1, or null, got {describe_value(self.horizon)}"
        return None

    @cached_property
    def players(self) -> tuple[int, ...]:
        """The players who may be to move: 1 maximizes, 2 minimizes."""
        return (1, 2) if self.game else (1,)

    @cached_property
    def reward_span(self) -> float:
        """Rho, the width of the range of rewards."""
        return self.reward_range[1] - self.reward_range[0]

    @cached_property
    def reward_bound(self) -> float:
        """The largest |reward|, which the paper scales to 1."""
        return max(abs(self.reward_range[0]), abs(self.reward_range[1]))

    @cached_property
    def offsets(self) -> tuple[float, float]:
        """Smallest and largest F(0) over the numbers of legal actions (max player)."""
        offset_values = [
            self.operator.offset(k)
            for k in range(self.min_actions, self.num_actions + 1)
        ]
        return min(offset_values), max(offset_values)

    @cached_property
    def offset_bounds(self) -> Interval:
        """The same, rounded outwards."""
        return _offset_bounds(self.operator, self.min_actions, self.num_actions)

    @cached_property
    def regularizer_bound(self) -> float:
        """M = sup |F(0)|."""
        min_offset, max_offset = self.offsets
        return max(abs(min_offset), abs(max_offset))

    @cached_property
    def smoothness(self) -> float:
        """The paper's L for up to K actions."""
        return self.operator.smoothness(self.num_actions)

    @cached_property
    def curvature(self) -> float:
        """The constant curv for up to K actions."""
        return self.operator.curvature(self.num_actions)

    @property
    def price_is_exact(self) -> bool:
        """Whether a schedule's price is the number of calls it makes.

        It is where every node has K actions and none ends early.
        """
        return not self.terminals and self.min_actions == self.num_actions

    @cached_property
    def unpaid(self) -> Facts:
        """The same problem with rewards 0: its values are the regularizer's part."""
        return replace(
            self,
            reward_range=(0.0, 0.0),
            reward_error=0.0,
            given_bounds=None,
            given_gap=None,
            total_range=None,
        )

    @cached_property
    def known_total(self) -> tuple[float, float] | None:
        """``total_range`` where Lemma T holds; it needs F(Q + c) = F(Q) + c."""
        return self.total_range if self.operator.shift_invariant else None

    @computed_once
    def steps(self, remaining: int | None) -> float:
        """Sum of gamma**i over the remaining steps: 1/(1-gamma) without a horizon.

        At discount 1 without a horizon it is the most steps that an episode has in
        the mean: infinite unless ``episodes_end`` bounds it.
        """
        if remaining is None:
            if self.discount == 1.0:
                return expected_steps(self.episodes_end)
            return 1.0 / (1.0 - self.discount)
        return discounted_steps(self.discount, remaining)

    def sum_bounds(self, step: Interval, remaining: int | None) -> Interval:
        """Bounds on the sum of the remaining steps, where each adds ``step``.

        They are rounded outwards. The steps are those of ``steps``.
        """
        return scale_interval(step, self._step_bounds(remaining))

    def _step_bounds(self, remaining: int | None) -> Interval:
        """``steps``, rounded outwards."""
        if remaining is None and self.discount == 1.0:
            return _end_bounds(self.episodes_end)
        return discounted_sum(self.discount, remaining)

    def _paid_steps(self, remaining: int | None) -> Interval:
        """The most steps that pay, discounted, in the mean: for bounds on V alone.

        Below discount 1 ``steps`` stays as it is: others add up errors over it that
        do not stop where an episode ends.
        """
        (low_steps, high_steps), end_bounds = (
            self._step_bounds(remaining),
            _end_bounds(self.episodes_end),
        )
        return min(low_steps, end_bounds[0]), min(high_steps, end_bounds[1])

    def _alternating_range(
        self, remaining: int | None
    ) -> tuple[float, float, float] | None:
        """(low, high, offset) of V minus the mover's offset.

        None unless strict alternation makes that tighter. The offset is a float within
        the bounds of the exact one; the range has room for the difference.
        """
        min_offset, max_offset = self.offsets
        if not (
            self.game
            and self.alternating
            and min_offset == max_offset
            and not self.terminals
            and self.operator.shift_invariant
        ):
            return None
        # F(0) (1 - (-gamma)**remaining)/(1 + gamma)
        offset_low, offset_high = scale_interval(
            self.offset_bounds, discounted_sum(self.discount, remaining, -1)
        )
        offset = offset_low + 0.5 * (offset_high - offset_low)
        value_range = self.sum_bounds(self.reward_range, remaining)
        if self.known_total is not None and remaining != 0:
            value_range = self._intersect(value_range, self.known_total)
        offset_error = max(
            add_intervals((offset_high, offset_high), (-offset, -offset))[1], 0.0
        )
        offset_error = max(
            add_intervals((offset, offset), (-offset_low, -offset_low))[1],
            offset_error,
        )
        return *widen_interval(value_range, offset_error), offset

    @computed_once
    def plain_range(self, remaining: int | None) -> tuple[float, float]:
        """Bounds on V with ``remaining`` steps left that know nothing of turns."""
        # the end: worth 0, whatever the user's bounds say of states before it
        if remaining == 0:
            return 0.0, 0.0
        offset_low, offset_high = self.offset_bounds
        if self.game:
            offset_low, offset_high = (
                min(offset_low, -offset_high),
                max(offset_high, -offset_low),
            )
        if self.operator.shift_invariant:
            step_range = add_intervals(self.reward_range, (offset_low, offset_high))
        else:  # monotone and 1-Lipschitz: |F(Q)| <= |Q| + M
            offset_size = max(abs(offset_low), abs(offset_high))
            step_range = widen_interval(
                (-self.reward_bound, self.reward_bound), offset_size
            )
        value_low, value_high = scale_interval(step_range, self._paid_steps(remaining))
        if self.terminals:
            value_low, value_high = min(value_low, 0.0), max(value_high, 0.0)
        value_range = value_low, value_high
        if self.known_total is not None:
            unpaid_range = self.unpaid.plain_range(remaining)
            value_range = self._intersect(
                value_range, add_intervals(self.known_total, unpaid_range)
            )
        if self.given_bounds is not None:
            value_range = self._intersect(value_range, self.given_bounds)
        return value_range

    @staticmethod
    def _intersect(
        bounds: tuple[float, float], declared: tuple[float, float]
    ) -> tuple[float, float]:
        """Both bounds together; those that are tight to the last digit may cross."""
        intersection = max(bounds[0], declared[0]), min(bounds[1], declared[1])
        scale = largest(bounds)
        if 0.0 < intersection[0] - intersection[1] <= BOUNDS_ROUNDING * scale:
            intersection = intersection[1], intersection[0]
        return intersection

    @computed_once
    def _range_and_offset(self, remaining: int | None) -> tuple[Interval, float]:
        """``value_range`` and ``player_offset``."""
        remaining = self.horizon if remaining is None else remaining
        plain_range = self.plain_range(remaining)
        alternating_range = self._alternating_range(remaining)
        if (
            alternating_range is not None
            and alternating_range[1] - alternating_range[0]
            < plain_range[1] - plain_range[0]
        ):
            return alternating_range[:2], alternating_range[2]
        return plain_range, 0.0

    def value_range(self, remaining: int | None = None) -> Interval:
        """Bounds on V - sign(player) * player_offset with ``remaining`` steps left.

        ``remaining`` is by default the horizon, if there is one.
        """
        return self._range_and_offset(remaining)[0]

    def player_offset(self, remaining: int | None = None) -> float:
        """The offset of the player to move; 0 where it does not help.

        It is added for the max player and subtracted for the min player.
        """
        return self._range_and_offset(remaining)[1]

    @computed_once
    def value_bounds(self, player: int = 1, remaining: int | None = None) -> Interval:
        """Bounds on V itself in a state where ``player`` moves."""
        value_range, offset = self._range_and_offset(remaining)
        offset *= 1.0 if player == 1 else -1.0
        return add_intervals(value_range, (offset, offset))

    @computed_once
    def value_hull(self) -> tuple[float, float]:
        """Bounds on V in every state that is not terminal, whoever moves there.

        With a horizon they hold for every number of steps left from 1 on. Each of
        the ranges that are intersected is monotone in it; their intersection need
        not be.
        """
        bare_facts = replace(self, given_bounds=None, total_range=None)
        hull = bare_facts.stage_hull()
        if self.known_total is not None:
            hull = self._intersect(
                hull, add_intervals(self.known_total, self.unpaid.stage_hull())
            )
        if self.given_bounds is not None:
            hull = self._intersect(hull, self.given_bounds)
        return hull

    @computed_once
    def stage_hull(self) -> tuple[float, float]:
        """The hull of ``plain_range`` over the first and the last stage."""
        stages = (None,) if self.horizon is None else (1, self.horizon)
        stage_ranges = [self.plain_range(steps_left) for steps_left in stages]
        return min(low for low, _ in stage_ranges), max(
            high for _, high in stage_ranges
        )

    def value_span(self, remaining: int | None = None) -> float:
        """B: the width of the bounds on V."""
        low, high = self.value_range(remaining)
        return high - low

    @computed_once
    def q_bounds(
        self, player: int = 1, remaining: int | None = None
    ) -> tuple[float, float]:
        """The box that holds every Q(s, a) where ``player`` moves.

        It is [r_lo + gamma V_lo, r_hi + gamma V_hi], with the bounds on V of
        the next state. Where that may be terminal, its value 0 is among them,
        whatever the user's bounds say of states with a step left (theory,
        section 2). A range of the total bounds r plus all later rewards at once.
        """
        remaining = self.horizon if remaining is None else remaining
        next_remaining = None if remaining is None else remaining - 1
        movers = (
            (1,) if not self.game else ((3 - player,) if self.alternating else (1, 2))
        )
        next_bounds = [self.value_bounds(mover, next_remaining) for mover in movers]
        next_low, next_high = (
            min(b[0] for b in next_bounds),
            max(b[1] for b in next_bounds),
        )
        if self.terminals:
            next_low, next_high = min(next_low, 0.0), max(next_high, 0.0)
        discounted_next = scale_interval(
            (next_low, next_high), (self.discount, self.discount)
        )
        q_range = add_intervals(self.reward_range, discounted_next)
        if self.known_total is None:
            return q_range
        unpaid_bounds = self.unpaid.q_bounds(player, remaining)
        return self._intersect(q_range, add_intervals(self.known_total, unpaid_bounds))

    @computed_once
    def under(self, operator: Operator) -> Facts:
        """The same problem with another operator.

        Declared bounds on V hold for the old operator only, and are dropped.
        """
        if operator == self.operator:
            return self
        return replace(self, operator=operator, given_bounds=None, given_gap=None)

    @computed_once
    def drop_bounds(self, operator: Operator) -> Facts:
        """The same rewards under ``operator``, without declared bounds on V."""
        return replace(self, operator=operator, given_bounds=None)

    def relaxation_bound(self) -> float:
        """|V_lambda - V_0| <= sup |F - max|/(1-gamma): the most that the
        regularizer may add to, or take from, the plain value.

        F - max lies between -sup Omega and -inf Omega. Nothing is known of a
        user's own operator.
        """
        omega_low, omega_high = self.operator.omega_range(self.num_actions)
        omega_bound = max(abs(omega_low), abs(omega_high))
        return times(omega_bound, self.steps(self.horizon))


# --- declarations ----------------------------------------------------------------

# (state, action, rng) -> (reward, next_state) or (reward, next_state, terminated)
Step = Callable[[Any, int, Any], tuple[Any, ...]]
# (state, action) -> [(probability, reward, next_state), …]
Outcomes = Callable[[Any, int], Sequence[tuple[float, float, Any]] | None]


@dataclass(frozen=True, eq=False, repr=False)
class ProblemFields:
    """The declarations of a problem; the docstring of ``MDP`` explains each."""

    oracle: Step
    _: KW_ONLY
    num_actions: int = None  # type: ignore[assignment]  # that of ``actions``
    discount: float
    operator: Operator
    reward_range: tuple[float, float] = (0.0, 1.0)
    # (p, M): E|reward|**p <= M, where an end of the range is None
    reward_moment: tuple[float, float] | None = None
    legal: Callable[[Any, int], bool] | None = None
    # True: only the step's own terminated flag ends an episode
    terminal: Callable[[Any], bool] | bool | None = None
    initial_state: Any = None
    # of the discounted sum of rewards from any state that is not terminal
    total_reward_range: tuple[float, float] | None = None
    payoffs: str = EVERY_STEP  # one of ``PAYOFFS``
    # least probability of any outcome of a step
    min_probability: float | None = None
    # (steps, probability): episodes end within so many steps at least so often
    episodes_end: tuple[int, float] | None = None
    value_bounds: tuple[Any, Any] | None = None  # two numbers, or two functions
    value_gap: float | None = None  # the most that two functions are apart
    horizon: int | None = None
    deterministic: bool = False
    outcomes: Outcomes | None = None
    # the key that distinguishes states; None: the state itself
    key: Callable[[Any], Hashable] | None = None
    # a plain Python oracle that takes longer for one call counts as hanging
    call_seconds: float | None = None
    # the names of the actions, in the order of their numbers
    actions: Sequence[str] | None = None
    # (state, rng) -> an action; the actions of a state are then samples
    sample_action: Callable[[Any, Any], Any] | None = None
    # fewest legal actions of any state; by default 1 with ``legal``
    min_actions: int | None = None
    name: str = "problem"
    # how ``make`` built it (``problem.make``), for stores and worker processes
    spec: dict[str, Any] | None = field(default=None, repr=False)
    # ``Problem`` has the types of these two
    tables: Any = field(default=None, repr=False)
    numbering: Any = field(default=None, repr=False)

    @property
    def given_step(self) -> Step:
        """The step as it was given, which takes the actions themselves."""
        return self.oracle if self.numbering is None else self.numbering.user_step

    @property
    def facts(self) -> Facts:
        """The facts that a promise may rely on before the first call."""
        raise NotImplementedError

    def is_terminal(self, state: Any) -> bool:
        """Whether the episode is over in ``state``."""
        raise NotImplementedError
