"""Tabular problems: arrays in, a Problem out.

They are sampled by Walker's alias method, with one uniform number per step.

Row ``state * A + action`` of the tables holds the successors of that pair:
probability, next state, and the reward paid on arrival. Alias sampling: u
uniform on [0, n) picks slot i = floor(u); its fraction keeps the slot's own
successor with probability ``accept[i]`` and takes ``alias[i]`` otherwise. (n *
2**-53 is the resolution, far below any promise.) Rows with one successor sample
nothing. All tabular problems share one compiled step that takes the tables as
arguments, so that fifty of them compile once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput, choose_word
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.jit.primitives import tabular_step
from smoothcruiser.operators import Max, Operator
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.declaration_checks import check_range, read_operator
from smoothcruiser.problem.facts import AT_THE_END, EVERY_STEP
from smoothcruiser.problem.model.array_input import (
    ROW_SUM_TOLERANCE,
    Bools,
    CompressedRows,
    DiscreteDP,
    Floats,
    Ints,
    as_mask,
    entry_rewards,
    find_illegal,
    mark_illegal_costs,
    normalize_rows,
    players_of,
    read_discrete_dp,
    rows_of,
)
from smoothcruiser.problem.problem import MDP, Game, Problem

__all__ = [
    "ROW_SUM_TOLERANCE",
    "Bools",
    "CompressedRows",
    "Floats",
    "Ints",
    "Tables",
    "TabularOptions",
    "TabularOracle",
    "fill_alias",
    "tabular",
]


ALIAS = KernelFamily(compiling=1.0)  # the loop that builds alias tables


def fill_alias(
    start: Ints, prob: Floats, accept: Floats, alias: Ints, stack: Ints
) -> None:
    """Vose's construction of the alias tables of every row.

    ``stack`` has room for the longest row.
    """
    for row in range(len(start) - 1):
        row_start, row_end = start[row], start[row + 1]
        row_size = row_end - row_start
        # two stacks in one array: small slots grow from the left, large ones from
        # the right
        num_small, large_top = 0, row_size
        for slot in range(row_start, row_end):
            accept[slot] = prob[slot] * row_size
            alias[slot] = slot
            if accept[slot] < 1.0:
                stack[num_small] = slot
                num_small += 1
            else:
                large_top -= 1
                stack[large_top] = slot
        while num_small > 0 and large_top < row_size:
            num_small -= 1
            small_slot = stack[num_small]
            large_slot = stack[large_top]
            alias[small_slot] = large_slot
            accept[large_slot] = (accept[large_slot] + accept[small_slot]) - 1.0
            if accept[large_slot] < 1.0:
                large_top += 1
                stack[num_small] = large_slot
                num_small += 1
        while num_small > 0:
            num_small -= 1
            accept[stack[num_small]] = 1.0
        while large_top < row_size:
            accept[stack[large_top]] = 1.0
            large_top += 1


@dataclass(frozen=True, eq=False, repr=False)
class Tables:
    """The model of a tabular problem, one compressed row per (state, action) pair."""

    start: Ints  # (S*A + 1,)
    next_state: Ints  # (nnz,)
    prob: Floats  # (nnz,), rows sum to 1
    reward: Floats  # (nnz,), paid on arrival
    player: NDArray[np.int8]  # (S,) of 1 and 2
    terminal: Bools  # (S,)
    legal: Bools  # (S, A)

    @property
    def num_states(self) -> int:
        """S, the number of states."""
        return len(self.terminal)

    @property
    def num_actions(self) -> int:
        """A, the number of actions."""
        return int(self.legal.shape[1])

    def played_by(self, player: int) -> Tables:
        """The same model, in which ``player`` moves everywhere."""
        if bool(np.all(self.player == player)):
            return self
        return replace(self, player=np.full_like(self.player, player))

    def check_state(self, state: Any) -> None:
        """Refuse a state that does not exist."""
        is_whole_number = isinstance(state, int | np.integer) and not isinstance(
            state, bool
        )
        if not is_whole_number or not 0 <= state < len(self.terminal):
            raise InvalidInput(
                f"state must be a whole number from 0 to {self.num_states - 1}, "
                f"got {state!r}."
            )

    def __getstate__(self) -> dict[str, Any]:
        """The arrays alone: addresses mean nothing in another process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def alias_form(self) -> tuple[Floats, Ints]:
        """(accept, alias), built on first use."""
        accept = np.empty(len(self.prob))
        alias = np.empty(len(self.prob), dtype=np.int64)
        longest_row = int(np.max(np.diff(self.start), initial=1))
        ALIAS.kernel(fill_alias)(
            self.start, self.prob, accept, alias, np.empty(longest_row, dtype=np.int64)
        )
        return accept, alias

    @cached_property
    def sampling(self) -> tuple[int, ...]:
        """The tables in the form that compiled code reads (``memory``).

        They are addresses, valid as long as this object lives.
        """
        addresses = (int(array.ctypes.data) for array in self._sampled_arrays())
        return (*addresses, self.num_actions)

    @cached_property
    def views(self) -> tuple[Any, ...]:
        """The tables in the form that Python reads: as ``sampling``, without addresses."""
        return (*(array.data for array in self._sampled_arrays()), self.num_actions)

    def _sampled_arrays(self) -> tuple[NDArray[Any], ...]:
        tables = (self.start, self.next_state, self.reward, *self.alias_form)
        return (*tables, self.player, self.terminal, self.legal)

    def outcomes(self, state: int, action: int) -> list[tuple[float, float, int]]:
        """(probability, reward, next state) of each successor of a pair."""
        row = state * self.num_actions + action
        row_slice = slice(self.start[row], self.start[row + 1])
        return [
            (float(p), float(r), int(z))
            for p, r, z in zip(
                self.prob[row_slice],
                self.reward[row_slice],
                self.next_state[row_slice],
                strict=True,
            )
        ]


@dataclass(frozen=True, eq=False, repr=False)
class TabularOracle:
    """The step of a tabular problem as a Python function.

    It is the source of the step inside the engine, interpreted, with the same bits.
    """

    tables: Tables

    def __call__(self, state: int, action: int, rng: Any) -> tuple[float, int]:
        """One sample of (reward, next state)."""
        result: tuple[float, int] = tabular_step(self.tables.views, state, action, rng)
        return result


class TabularOptions(TypedDict, total=False):
    """The keywords of ``tabular`` that most problems do without."""

    initial_state: int
    alternating: bool
    minimize: bool
    reward_range: tuple[float, float] | None
    horizon: int | None
    value_bounds: tuple[Any, Any] | None
    value_gap: float | None
    total_reward_range: tuple[float, float] | None
    payoffs: str
    min_probability: float | None
    episodes_end: tuple[int, float] | None
    actions: Sequence[str] | None
    name: str
    spec: dict[str, Any] | None


# the parameters of ``tabular`` that stand outside ``TabularOptions``
NAMED = ("P", "R", "discount", "operator", "players", "terminal", "legal")


@overload
def tabular(
    P: Any,
    R: Any,
    *,
    discount: float,
    operator: Operator,
    players: Any = None,
    terminal: Any = None,
    legal: Any = None,
    **more: Unpack[TabularOptions],
) -> Problem: ...


@overload
def tabular(
    P: DiscreteDP,
    R: None = None,
    *,
    discount: float | None = None,
    operator: Operator | None = None,
    players: Any = None,
    terminal: Any = None,
    legal: Any = None,
    **more: Unpack[TabularOptions],
) -> Problem: ...


def tabular(
    P: Any = None,
    R: Any = None,
    *,
    discount: float | None = None,
    operator: Operator | None = None,
    players: Any = None,
    terminal: Any = None,
    legal: Any = None,
    **more: Unpack[TabularOptions],
) -> Problem:
    """A Problem from arrays; S states and A actions, all numbered from 0.

    Args:
        P: probabilities of next states, of shape (S, A, S), or a sparse matrix
            of shape (S*A, S) whose row s*A + a belongs to the pair (s, a). A
            ``DiscreteDP`` of QuantEcon takes the place of P, R and discount.
        R: rewards, of shape (S, A) or (S, A, S); for a CSR P also one per
            nonzero of it. -inf marks an illegal action.
        discount: weight of the next step's value, in [0, 1), or in [0, 1] with
            a horizon. With ``Max()`` 1 needs none: exact solves such a problem. The
            default is the beta of a DiscreteDP.
        operator: the smooth maximum, such as ``Entropy(1.0)`` or ``Max()``, which is
            the default for a DiscreteDP.
        players: (S,) of 1 (max) and 2 (min), which makes a game; the default is
            an MDP.
        terminal: (S,) mask of states where the episode is over; the default is
            none.
        legal: (S, A) mask of allowed actions; the default is all actions with a reward
            above -inf.
        initial_state: where plans start by default; 0.
        alternating: whether turns alternate strictly; the default is False.
        minimize: whether R are costs, as in ``MDP``; inf marks an illegal action then.
            The default is False.
        reward_range: (low, high), which holds every reward. The default is (0,
            1) if that does, and otherwise the smallest and the largest reward.
        horizon: steps until the end; None, the default, for no limit.
        value_bounds: (low, high), known to hold V in every state that is not
            terminal: two numbers, or two functions of the state with
            ``value_gap``.
        value_gap: the most that the two functions are apart in any state.
        total_reward_range: (low, high), known to hold the discounted sum of rewards
            from any state that is not terminal to the end, as in ``MDP``.
        payoffs: "end" if only transitions into terminal states pay; "every step",
            the default, claims nothing.
        min_probability: least probability, above 0, of any outcome from a state that
            is not terminal; None, the default, claims nothing. P is compared with it.
        episodes_end: (steps, probability) if every episode ends within so many steps
            with at least this probability, as in ``MDP``.
        actions: the names of the actions in answers, such as ["buy", "wait"]; by
            default they have no names.
        name: shown in answers.
        spec: how ``make`` rebuilds the problem; set by ``make``.

    Example:
        >>> import numpy as np, smoothcruiser as sc
        >>> P = np.full((2, 2, 2), 0.5)  # both actions lead anywhere
        >>> R = [[0.0, 1.0], [0.5, 0.0]]
        >>> problem = sc.tabular(P, R, discount=0.5, operator=sc.Max())
        >>> sc.plan(problem).action
        1
        >>> R[0][1] = -np.inf  # not allowed
        >>> sc.plan(sc.tabular(P, R, discount=0.5, operator=sc.Max())).policy
        (1.0, 0.0)
    """
    check_keywords("tabular", more, (*NAMED, *TabularOptions.__annotations__))
    if R is None and isinstance(P, DiscreteDP):
        ddp_model = read_discrete_dp(P)
        P, R, discount = (
            ddp_model.P,
            ddp_model.R,
            ddp_model.discount if discount is None else discount,
        )
        operator = Max() if operator is None else operator
    else:
        ddp_model = None
        _check_given(P, R, discount, operator)
        if isinstance(operator, str):
            operator = read_operator(operator)
        if more.get("minimize"):
            R = mark_illegal_costs(R)
    initial_state, alternating = more.get("initial_state", 0), more.get("alternating")
    row_start, next_state, prob, num_states, num_actions = rows_of(P, R)
    dead = as_mask(terminal, (num_states,), "terminal", default=False)
    allowed = as_mask(legal, (num_states, num_actions), "legal", default=True)
    if ddp_model is not None and ddp_model.legal is not None:
        allowed = allowed & ddp_model.legal
    reward = entry_rewards(R, P, row_start, next_state, num_states, num_actions)
    allowed = allowed & ~find_illegal(R, row_start, reward, allowed & ~dead[:, None])
    live_pairs = (~dead[:, None] & allowed).reshape(-1)
    prob = normalize_rows(row_start, prob, live_pairs, num_actions)
    used_entries = np.repeat(live_pairs, np.diff(row_start))
    # pairs that nobody can take pay nothing: sums over whole tables stay finite
    reward = np.where(np.isneginf(reward) & ~used_entries, 0.0, reward)
    if not np.all(np.isfinite(reward[used_entries])):
        raise InvalidInput(
            "R must be finite, but holds NaN or infinity; every reward needs a number, "
            f"and {'inf' if more.get('minimize') else '-inf'} in R of shape (S, A) marks "
            "an illegal action."
        )
    if not np.all(dead | allowed.any(axis=1)):
        lost_state = int(np.flatnonzero(~(dead | allowed.any(axis=1)))[0])
        raise InvalidInput(
            f"State {lost_state} has no legal action; allow one, or mark the state "
            "terminal."
        )
    movers = players_of(players, num_states)
    tables = Tables(row_start, next_state, prob, reward, movers, dead, allowed)
    tables.check_state(initial_state)
    paid = choose_word("reward", bool(more.get("minimize"))) + "s"
    reward_range = _reward_range(more.get("reward_range"), reward[used_entries], paid)
    payoffs = more.get("payoffs", EVERY_STEP)
    if payoffs == AT_THE_END:
        check_payoffs(tables, used_entries)
    action_counts = allowed.sum(axis=1)[~dead]
    shared_fields: dict[str, Any] = {
        "num_actions": num_actions,
        "discount": discount,
        "operator": operator,
        "reward_range": reward_range,
        "legal": None if bool(allowed.all()) else lambda s, a: bool(allowed[s, a]),
        "terminal": (lambda s: bool(dead[s])) if dead.any() else None,
        "initial_state": initial_state,
        "value_bounds": more.get("value_bounds"),
        "value_gap": more.get("value_gap"),
        "total_reward_range": more.get("total_reward_range"),
        "payoffs": payoffs,
        "min_probability": more.get("min_probability"),
        "episodes_end": more.get("episodes_end"),
        "horizon": more.get("horizon"),
        "min_actions": int(action_counts.min()) if len(action_counts) else num_actions,
        "outcomes": tables.outcomes,
        "actions": more.get("actions"),
        "name": more.get("name", "tabular"),
        "spec": more.get("spec"),
        "tables": tables,
    }
    oracle = TabularOracle(tables)
    if players is None:
        if alternating:
            raise InvalidInput(
                "alternating=True needs players=, an array of 1 (max) and 2 (min)."
            )
        return MDP(oracle, minimize=more.get("minimize", False), **shared_fields)
    if more.get("minimize"):
        raise InvalidInput(
            "minimize=True is for one player, and players= says who minimizes; drop one "
            "of both."
        )
    if alternating:
        _check_alternation(tables, live_pairs)
    return Game(
        oracle,
        player=lambda s: int(movers[s]),
        alternating=bool(alternating),
        **shared_fields,
    )


# --- declarations about the tables ----------------------------------------------


def check_payoffs(tables: Tables, used: Any) -> None:
    """Refuse rewards on the way where ``payoffs="end"`` is declared."""
    is_paid = used & (tables.reward != 0.0) & (tables.prob > 0.0)
    early_entries = np.flatnonzero(is_paid & ~tables.terminal[tables.next_state])
    if len(early_entries):
        row_index = (
            int(np.searchsorted(tables.start, early_entries[0], side="right")) - 1
        )
        state, action = divmod(row_index, tables.legal.shape[1])
        raise InvalidInput(
            f"R pays {tables.reward[early_entries[0]]:g} at state {state}, action "
            f"{action} on the way to a state that is not terminal, but payoffs='end' "
            "is declared; drop payoffs=."
        )


def _check_given(P: Any, R: Any, discount: Any, operator: Any) -> None:
    """Refuse arrays without the arguments that belong to them."""
    needed_arguments = {
        "P, the probabilities of next states": P,
        "R, the rewards": R,
        "discount=": discount,
        "operator=": operator,
    }
    missing_names = [
        argument_name
        for argument_name, value in needed_arguments.items()
        if value is None
    ]
    if missing_names:
        raise InvalidInput(
            "tabular(P, R, discount=0.9, operator=Entropy(1.0)) needs "
            f"{missing_names[0]}, got None; only a DiscreteDP of QuantEcon has its own."
        )


def _reward_range(
    bounds: Any, reward: Floats, paid: str = "rewards"
) -> tuple[float, float]:
    """(low, high): as declared, (0, 1) where that holds them, or as they are."""
    if bounds is None:
        reward_low = float(np.min(reward, initial=0.0))
        reward_high = float(np.max(reward, initial=0.0))
        if reward_low >= 0.0 and reward_high <= 1.0:
            return 0.0, 1.0
        return float(np.min(reward)), float(np.max(reward))
    check_range("reward_range", bounds)
    if len(reward) and not (
        bounds[0] <= float(reward.min()) and float(reward.max()) <= bounds[1]
    ):
        raise InvalidInput(
            f"reward_range {bounds!r} does not hold the {paid}, which go from "
            f"{reward.min():.6g} to {reward.max():.6g}; widen or drop it."
        )
    declared_range: tuple[float, float] = bounds
    return declared_range


def _check_alternation(tables: Tables, live: Bools) -> None:
    row_index = np.repeat(np.arange(len(tables.start) - 1), np.diff(tables.start))
    entry_movers = tables.player[row_index // tables.num_actions]
    # nobody moves in a terminal state
    is_move = live[row_index] & (tables.prob > 0) & ~tables.terminal[tables.next_state]
    same_mover = is_move & (entry_movers == tables.player[tables.next_state])
    if np.any(same_mover):
        bad_row = int(row_index[np.flatnonzero(same_mover)[0]])
        raise InvalidInput(
            f"alternating=True, but state {bad_row // tables.num_actions} can lead to "
            "a state of the same player; drop alternating=."
        )
