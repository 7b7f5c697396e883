"""Problems: MDPs and turn-based zero-sum games.

A problem is a simulator, a smooth operator, a discount and a range of rewards.

The oracle is ``step(state, action, rng) -> (reward, next_state)`` or ``(reward,
next_state, terminated)``, a plain Python function or a ``numba.njit`` one.
``legal(state, action)``, ``terminal(state)`` and ``player(state)`` come in the
same forms. A problem is frozen data: it owns no random stream and keeps no
state, so copies cannot foresee each other's samples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_error
from smoothcruiser.jit.build import hear_stops_in, is_compiled
from smoothcruiser.jit.oracle import constant
from smoothcruiser.problem.action_sampler import (
    DEFAULT_ACTIONS,
    Numbering,
    check_sampler,
    format_action,
    number_actions,
)
from smoothcruiser.problem.arguments import check_functions, shorten_value
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.declaration_checks import (
    Declared,
    action_labels,
    check_declared,
    plain_number,
    read_operator,
)
from smoothcruiser.problem.facts import Facts, ProblemFields
from smoothcruiser.problem.step_errors import (
    LabellingOracle,
    ParsingOracle,
    bad_player,
    failure,
    key_collision,
    name_action,
    too_few_legal,
    truth,
)
from smoothcruiser.problem.totals import total_range
from smoothcruiser.states.identity import identical, is_fixed, state_key

if TYPE_CHECKING:
    from smoothcruiser.problem.model.tabular import Tables

# most pairs that ``engines.inspection`` inspects: at the requested state, on a walk
LOOKED_ACTIONS, LOOKED_STEPS = 16, 8
CALLS_PER_LOOK = 3  # two before a run, one after it
LOOKED_BATCHES, LOOKED_ROWS = 4, 8  # of a step over arrays: are rows independent?
# fields that NumPy's scalars may stand in
PLAIN_NUMBERS = (
    "num_actions",
    "horizon",
    "min_actions",
    "discount",
    "value_gap",
    "min_probability",
)
# fields that Python calls, beside the step and the bounds
USER_FUNCTIONS = ("legal", "terminal", "player", "outcomes", "key", "sample_action")


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Declared, ProblemFields, Shown):
    """The common base of MDPs and games. Use ``MDP`` or ``Game``."""

    _: KW_ONLY
    # the model of a tabular problem, which is solved and sampled without the oracle
    tables: Tables | None = field(default=None, repr=False)
    # how sampled actions are numbered; set where there is a sampler
    numbering: Numbering | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        set_field = partial(object.__setattr__, self)
        for field_name in PLAIN_NUMBERS:
            set_field(field_name, plain_number(getattr(self, field_name)))
        if self.actions is not None:
            labels = action_labels(self.actions)
            set_field("actions", labels)
            if self.num_actions is None:
                set_field("num_actions", len(labels))
        if isinstance(self.episodes_end, tuple | list):
            set_field("episodes_end", tuple(map(plain_number, self.episodes_end)))
        if self.sample_action is not None and self.num_actions is None:
            set_field("num_actions", DEFAULT_ACTIONS)
        if isinstance(self.operator, str):
            set_field("operator", read_operator(self.operator))
        check_declared(self)
        check_functions(self)
        check_sampler(self)
        if self.tables is None:
            step = getattr(self.oracle, "function", self.oracle)  # of a batched one
            hear_stops_in(step, *map(vars(self).get, USER_FUNCTIONS))
            hear_stops_in(*(self.value_bounds or ()))
        number_actions(self)
        # legal, terminal and player of a batched step are functions of arrays too
        if isinstance(self.oracle, Batched):
            for name in ("legal", "terminal", "player"):
                if name in vars(self):
                    set_field(name, self.oracle.function_of(getattr(self, name)))
            if self.value_bounds is not None:
                row_bounds = tuple(map(self.oracle.function_of, self.value_bounds))
                set_field("value_bounds", row_bounds)

    def sampled_action(self, state: Any, number: int) -> Any:
        """The action that ``number`` stands for in ``state``: the number itself where
        actions are listed.
        """
        if self.numbering is None:
            return number
        return self.numbering.nth_action(state, number)

    def __repr__(self) -> str:
        return brief(
            type(self).__name__,
            name=self.name,
            num_actions=self.num_actions,
            discount=self.discount,
            operator=self.operator,
        )

    @property
    def is_game(self) -> bool:
        """Whether some states belong to the min player; all do in a minimizer."""
        return self.sole_player != 1

    @property
    def sole_player(self) -> int | None:
        """1 in an MDP, 2 where its costs are minimized, None in a game."""
        return 1

    @property
    def minimizes(self) -> bool:
        """Whether rewards are costs, which one player minimizes."""
        return self.sole_player == 2

    @property
    def player_function(self) -> Any:
        """The function that compiled machines ask for the mover; None: player 1."""
        return None

    @cached_property
    def facts(self) -> Facts:
        """The facts that a promise may rely on before the first call."""
        if None in self.reward_range:
            raise InvalidInput(
                f"This needs rewards with a range, and reward_range is {self.reward_range}; "
                "give both ends. plan, explain and evaluate take open ranges."
            )
        fewest = self.num_actions if self.legal is None else 1
        return Facts(
            num_actions=self.num_actions,
            min_actions=fewest if self.min_actions is None else self.min_actions,
            discount=float(self.discount),
            operator=self.operator,
            reward_range=(float(self.reward_range[0]), float(self.reward_range[1])),
            game=self.is_game,
            minimize=self.minimizes,
            alternating=bool(vars(self).get("alternating")),
            terminals=self.terminal is not None and self.terminal is not False,
            horizon=self.horizon,
            given_bounds=None
            if self.value_bounds is None or self.value_gap is not None
            else (float(self.value_bounds[0]), float(self.value_bounds[1])),
            total_range=total_range(self),
            given_gap=None if self.value_gap is None else float(self.value_gap),
            episodes_end=self.episodes_end,
            reward_error=self._reward_error(),
        )

    def _reward_error(self) -> float:
        """By how much a batch may round a reward otherwise than a single state."""
        if not isinstance(self.oracle, Batched):
            return 0.0
        return self.oracle.reward_rounding * max(map(abs, self.reward_range))

    @property
    def is_compiled(self) -> bool:
        """Whether every function of the problem can run inside compiled code."""
        functions = [self.oracle, self.legal, self.terminal, vars(self).get("player")]
        bound_functions = () if self.value_gap is None else self.value_bounds or ()
        return all(is_compiled(bound) for bound in bound_functions) and (
            self.tables is not None
            or all(
                function is None or isinstance(function, bool) or is_compiled(function)
                for function in functions
            )
        )

    @property
    def inspection_calls(self) -> int:
        """Oracle calls to inspect the step before and after a run.

        There are none for a model that is known as tables.
        """
        is_batched = isinstance(self.oracle, Batched)
        row_calls = LOOKED_BATCHES * LOOKED_ROWS if is_batched else 0
        return CALLS_PER_LOOK * self.inspected_pairs + row_calls

    @property
    def inspected_pairs(self) -> int:
        """Pairs (state, action) that are inspected."""
        return (
            0
            if self.tables is not None
            else min(self.num_actions, LOOKED_ACTIONS) + LOOKED_STEPS
        )

    def legal_actions(self, state: Any) -> list[int]:
        """The actions allowed in ``state``, in order: at least ``min_actions``."""
        if self.legal is None:
            return list(range(self.num_actions))
        try:
            answers = [self.legal(state, a) for a in range(self.num_actions)]
        except BaseException as error:
            raise failure("legal", error, state) from error
        actions = [
            a for a, x in enumerate(answers) if x is True or truth("legal", x, state)
        ]
        if len(actions) < self.facts.min_actions:
            raise too_few_legal(state, len(actions), self.facts.min_actions)
        return actions

    def labels(self, state: Any) -> tuple[str, ...] | None:
        """The names of the actions in ``state``; None where they have none.

        Labels that were declared hold everywhere. An adapter's oracle may know names
        that depend on the state; actions that it cannot name there have their numbers.
        """
        if self.actions is not None:
            return tuple(self.actions)
        numbers = range(self.num_actions)
        if self.sample_action is not None:
            return tuple(format_action(self.sampled_action(state, n)) for n in numbers)
        if not isinstance(self.oracle, LabellingOracle):
            return None
        action_names = tuple(name_action(self.oracle, state, a) for a in numbers)
        return None if action_names == tuple(map(str, numbers)) else action_names

    def label(self, state: Any, action: int) -> str:
        """The name of an action in ``state``: its number where it has no name."""
        state_labels = self.labels(state)
        return str(action) if state_labels is None else state_labels[action]

    def is_terminal(self, state: Any) -> bool:
        """Whether the episode is over in ``state``."""
        if not callable(self.terminal):
            return False
        try:
            is_over = self.terminal(state)
        except BaseException as error:
            raise failure("terminal", error, state) from error
        return is_over if type(is_over) is bool else truth("terminal", is_over, state)

    def mover(self, state: Any) -> int:
        """1 where the max player moves, 2 where the min player does."""
        return 1

    def key_of(self, state: Any) -> Hashable:
        """The key that distinguishes ``state`` from others; by default the state.

        Two states with one key must have the same mover, legal actions, end and
        future.
        """
        if self.key is None:
            return state_key(state)  # type: ignore[no-any-return]
        try:
            user_key = self.key(state)
            hash(user_key)
        except BaseException as error:
            raise failure("key", error, state) from error
        return user_key

    def profile(self, state: Any) -> tuple[int, ...] | None:
        """(mover, first legal action, second, ...); None where the episode is over."""
        if self.is_terminal(state):
            return None
        return (self.mover(state), *self.legal_actions(state))

    def check_alike(
        self, state: Any, known: Any, profile: tuple[int, ...] | None
    ) -> None:
        """Refuse a state that has the key of ``known`` but another profile.

        Plain values that are the same to the bit need no comparison (equal ones
        do: 1 and True, 0.0 and -0.0). Nor does a key that says itself that it
        ``holds_profile``.
        """
        if state is known or getattr(self.key, "holds_profile", False):
            return
        if self.key is None and is_fixed(state) and identical(state, known):
            return
        state_profile = self.profile(state)
        if state_profile != profile:
            raise key_collision(state, known, state_profile, profile)

    def start(self, state: Any = None) -> Any:
        """The requested state: ``state``, or by default the initial state."""
        if state is None:
            state = self.initial_state
        if state is None:
            raise InvalidInput(
                "No state was asked for and the problem has no initial_state; pass "
                "state= or initial_state=."
            )
        if isinstance(self.oracle, ParsingOracle):
            state = self._parse_state(self.oracle, state)
        if self.tables is not None:
            self.tables.check_state(state)
            return int(state)
        return state

    def _parse_state(self, oracle: ParsingOracle, state: Any) -> Any:
        """``state`` as the oracle reads it; an unreadable state is refused."""
        try:
            return oracle.parse(state)
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            # the text given to ``make`` begins with the adapter's name
            problem_name = self.name if self.spec is None else self.spec["problem"]
            raise InvalidInput(
                f"{problem_name} cannot read the state {state!r} ({describe_error(error)}); give "
                "a state as its step returns it."
            ) from error


@dataclass(frozen=True, eq=False, repr=False)
class MDP(Problem):
    """A Markov decision process: one player, who maximizes, or minimizes costs.

    Args:
        oracle: ``step(state, action, rng)``, which returns (reward, next_state)
            or (reward, next_state, terminated). Every random number comes from
            ``rng``.
        num_actions: actions are 0, 1, …, num_actions - 1. It may be left out where
            ``actions`` names them.
        discount: weight of the next step's value, in [0, 1), or in [0, 1] with
            a horizon. With ``Max()`` 1 needs none where ``outcomes`` are known or a
            declaration bounds the total: ``payoffs="end"``, ``total_reward_range``
            with rewards of one sign, or ``episodes_end``. Values are then expected
            totals.
        operator: the smooth maximum, such as ``Entropy(1.0)``, ``Max()`` or "max".
        reward_range: (low, high), which holds every reward; the default is (0,
            1). An end is None where rewards have no bound (a Poisson demand, a
            lognormal price); then ``reward_moment`` has to be declared.
        reward_moment: (p, M) with p > 1: the mean of |reward|**p is at most M for
            every state and action. The larger p, the narrower the answer.
        legal: ``legal(state, action)``; by default every action is legal
            everywhere.
        terminal: ``terminal(state)``, or True if only the step's ``terminated``
            ends an episode; by default nothing does. A terminal state is worth
            0.
        initial_state: where plans start by default.
        value_bounds: (low, high), known to hold V in every state that is not
            terminal: two numbers, or two functions of the state with
            ``value_gap``.
        value_gap: the most that the two functions are apart in any state.
        total_reward_range: (low, high), known to hold the sum of rewards, weighted
            1, discount, discount**2, …, from any state that is not terminal to the
            end of the episode, whatever is played and whatever happens. With a
            horizon it has to hold for every number of steps left, from 1 on; the
            end is then the horizon, and with discount 1 the sum is a plain one. An
            episode that never ends counts with all of its rewards.
        payoffs: "end" if only the step that ends an episode pays, so that the total
            is one reward; "every step", the default, claims nothing. A horizon that
            cuts an episode off does not end it: that step pays 0 too.
        min_probability: least probability, above 0, of any outcome (reward and next
            state) that a step can have from a state that is not terminal; None, the
            default, claims nothing. Rows of a known model are compared with it.
        episodes_end: (steps, probability) if from every state that is not terminal,
            whatever is played, the episode ends within ``steps`` steps with at least
            this probability; None, the default, claims nothing. Plays then have
            steps/probability steps in the mean at the most, which bounds V.
        horizon: steps until the end; None, the default, for no limit.
        deterministic: whether a pair (state, action) always has one outcome;
            searches then sample it once.
        outcomes: ``outcomes(state, action)`` lists (probability, reward,
            next_state), where the model is known: probabilities sum to 1, and a
            terminal state is one for which ``terminal`` says so. None in the place
            of a list says that it is not known there. ``solve`` needs all of it;
            certified search reads it instead of sampling (delta is 0 if that is
            everywhere); schedules and trees do not use it.
        key: ``key(state)``, a hashable value that distinguishes states; by
            default the state itself.
        minimize: whether the step returns costs, which are to be small; the default
            is False. ``reward_range`` is then the range of costs, and every number
            of every answer is a cost: V is the least one, -F(-Q) in place of F(Q).
        call_seconds: a call that takes longer counts as hanging; None, the
            default, for no limit.
        actions: the names of the actions in answers, such as ["buy", "wait"]:
            distinct words, in the order of their numbers; by default they have none.
        sample_action: ``sample_action(state, rng)``, one action, such as a number, a
            tuple or an array, where they are continuous or too many to list. The step
            gets such actions; everything else numbers them: action n of a state is its
            n-th sample, always the same one, and ``num_actions`` (64 by default) says how
            many there are (``sampled_action(state, n)``). With ``Max()``, for tree
            searches, agents and ``evaluate``.
        min_actions: fewest legal actions of any state; the default is 1 with
            ``legal``, and ``num_actions`` without.
        name: shown in answers.
        spec: how ``make`` rebuilds the problem; set by ``make``.
        tables: the model as arrays; set by ``tabular``.
        numbering: how sampled actions are numbered; set by ``sample_action``.

    Example:
        >>> import smoothcruiser as sc
        >>> def step(state, action, rng):
        ...     return float(rng.random() < 0.5 + 0.2 * action), state
        >>> coin = sc.MDP(
        ...     step, num_actions=2, discount=0.5, operator=sc.Max(), initial_state=0
        ... )
        >>> sc.plan(coin, epsilon=0.5, delta=0.1).action
        1
        >>> def outcomes(state, action):  # the same law, known
        ...     return [(0.5 + 0.2 * action, 1.0, state), (0.5 - 0.2 * action, 0.0, state)]
        >>> known = sc.MDP(
        ...     step, num_actions=2, discount=0.5, operator=sc.Max(), initial_state=0,
        ...     outcomes=outcomes,
        ... )
        >>> answer = sc.plan(known, epsilon=0.01, method="certified")
        >>> answer.num_calls, answer.delta, round(answer.value, 1)  # 0.7 + 0.35 + ...
        (0, 0.0, 1.4)
        >>> costly = sc.MDP(  # the same numbers as costs
        ...     step, num_actions=2, discount=0.5, operator=sc.Max(), initial_state=0,
        ...     outcomes=outcomes, minimize=True,
        ... )
        >>> answer = sc.plan(costly, epsilon=0.01, method="certified")
        >>> answer.action, round(answer.value, 1)  # 0.5 + 0.25 + ...
        (0, 1.0)
    """

    _: KW_ONLY
    minimize: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.minimize, bool):
            raise InvalidInput(
                "minimize must be True where the step returns costs, or False, got "
                f"{shorten_value(self.minimize)}."
            )
        if self.tables is not None:
            tables = self.tables.played_by(self.sole_player)
            object.__setattr__(self, "tables", tables)
        super().__post_init__()

    @property
    def sole_player(self) -> int:  # noqa: D102
        return 2 if self.minimize else 1

    @property
    def player_function(self) -> Any:  # noqa: D102
        return constant(2) if self.minimize else None

    def mover(self, state: Any) -> int:  # noqa: D102
        return 2 if self.minimize else 1


@dataclass(frozen=True, eq=False, repr=False)
class Game(Problem):
    """A turn-based zero-sum game; rewards are the max player's.

    Args:
        player: ``player(state)``, 1 where the max player moves and 2 where the
            min player does.
        alternating: whether turns alternate strictly, which tightens the bounds
            on V (theory, section 3); the default is False.

    All other arguments are those of ``MDP``.

    Example:
        >>> import smoothcruiser as sc
        >>> def step(state, action, rng):  # the last to move wants an odd sum
        ...     return (state[1] + action) % 2, (1 - state[0], (state[1] + action) % 2)
        >>> game = sc.Game(
        ...     step, player=lambda state: state[0] + 1, alternating=True,
        ...     num_actions=2, discount=0.5, operator=sc.Max(),
        ...     initial_state=(0, 0), deterministic=True,
        ... )
        >>> sc.plan(game, method="certified", epsilon=0.1, delta=0.1).action
        1
    """

    _: KW_ONLY
    player: Callable[[Any], int] = None  # type: ignore[assignment]
    alternating: bool = False

    def __post_init__(self) -> None:
        if not callable(self.player):
            raise InvalidInput(
                "A Game needs player=, a function player(state) that returns 1 (max) or "
                f"2 (min), got {self.player!r}; with one player it is an MDP."
            )
        super().__post_init__()

    @property
    def sole_player(self) -> None:  # noqa: D102
        return None

    @property
    def player_function(self) -> Any:  # noqa: D102
        return self.player

    def mover(self, state: Any) -> int:  # noqa: D102
        try:
            player = self.player(state)
            if player in (1, 2):
                return int(player)
        except BaseException as error:
            raise failure("player", error, state) from error
        raise bad_player(state, player)
