"""Policies as arrays and dicts: one entry for each state.

  (S,)      numbers or labels of actions, one per state
  (S, A)    probabilities or action values, one row per state
  a dict    from states (or their keys) to actions, labels, probabilities or values

Rows of A numbers are probabilities or action values, and nothing says which. A row that
is 1 at one action and 0 elsewhere plays this action either way. Of the others:

  all sum to 1, none is negative            probabilities
  none does                                 action values: the best action is played, the
                                            least where the min player moves, the first of
                                            equal ones
  some do; or all do up to 5%; or no row    refused: a row is wrong, or the table has
  prefers any action                        another meaning

Rows of terminal states do not count, and the row of an end state that an adapter added
behind all others may be missing. Where the states are not known as tables, rows of zeros
do not count either: they may be those of terminal states.

The answer of a policy at one state, as probabilities of the K actions.

  a whole number           that action; 1.0, NumPy's numbers and arrays of one whole
                           number too
  a text                   the action with this label
  K numbers                probabilities, which sum to 1; never action values
  a dict                   from actions or labels to probabilities; others have 0
  (any of these, None)     as ``predict`` of Stable-Baselines3 returns it

K numbers that are [0, 1] for K = 2 are probabilities too: action 1. True and False are
refused, since they may be an action or the answer to a question. Anything else is
refused in a sentence that names the answer and the accepted forms.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import shorten_value
from smoothcruiser.problem.model.tabular import Bools, Floats
from smoothcruiser.problem.problem import Problem

# how far probabilities may be from summing to 1, as printed decimals are
SUM_TOLERANCE = 1e-6

WAITING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class PolicyAnswer:
    """The answer of a policy at ``state``; ``source`` is its name in sentences."""

    def __init__(self, problem: Problem, state: Any, source: str) -> None:
        self.problem, self.state, self.source = problem, state, source

    def shares(self, answer: Any) -> list[float]:
        """The probabilities of all K actions, checked and not yet scaled."""
        if isinstance(answer, tuple) and len(answer) == 2 and answer[1] is None:
            answer = answer[0]
        if isinstance(answer, str):
            return self.only_action(self.find_labelled(answer))
        if isinstance(answer, Mapping):
            return self._check_shares(self._list_shares(answer), answer)
        number_array = self._numbers(answer)
        K = self.problem.num_actions
        if number_array.ndim == 0 or (
            number_array.shape == (1,)
            and K > 1
            and not isinstance(answer, list | tuple)
        ):
            return self.only_action(self._action_number(number_array.item(), answer))
        if number_array.shape != (K,):
            raise self.refusal(answer, f"it has shape {number_array.shape}")
        return self._check_shares([float(share) for share in number_array], answer)

    def only_action(self, action: int) -> list[float]:
        """All probability on one action, which must be legal."""
        self._require_legal(action)
        shares = [0.0] * self.problem.num_actions
        shares[action] = 1.0
        return shares

    def find_labelled(self, label: str) -> int:
        """The number of the action with this label."""
        labels = self.problem.labels(self.state)
        if labels is None:
            raise self.refusal(
                label,
                "the actions of this problem have no labels; give actions= to the "
                "problem, or return numbers",
            )
        if label not in labels:
            label_text = ", ".join(repr(name) for name in labels[:12])
            raise self.refusal(label, f"the labels are {label_text}")
        if labels.count(label) > 1:
            raise self.refusal(label, "more than one action has this label there")
        return labels.index(label)

    def refusal(self, answer: Any, why: str) -> InvalidInput:
        """The sentence for an answer that cannot be read."""
        K = self.problem.num_actions
        label_hint = "" if self.problem.labels(self.state) is None else " or its label"
        return InvalidInput(
            f"{self.source} must be an action (0 to {K - 1}{label_hint}), {K} probabilities "
            f"or a dict from actions to probabilities, got {shorten_value(answer)}: {why}"
            f"{'' if why.endswith('?') else '.'}"
        )

    def _numbers(self, answer: Any) -> Any:
        """An array of numbers, as NumPy sees it."""
        if answer is None:
            raise self.refusal(answer, "is a return missing?")
        if isinstance(answer, bool | np.bool_):
            raise self.refusal(answer, "write int(…) if it is the number of an action")
        if isinstance(answer, WAITING):
            type_name = type(answer).__name__
            if isinstance(answer, types.CoroutineType):
                answer.close()
            raise self.refusal(
                answer, f"a {type_name} is no answer; drop yield or async"
            )
        plain_answer = answer.detach().cpu() if hasattr(answer, "detach") else answer
        try:
            number_array = np.asarray(plain_answer)
        except Exception:
            number_array = np.asarray(None)
        if number_array.dtype.kind not in "iufb" or (
            number_array.dtype.kind == "b" and number_array.ndim == 0
        ):
            type_name = type(answer).__name__
            raise self.refusal(
                answer, f"it is of type {type_name}, which is none of these"
            )
        return number_array

    def _action_number(self, number: Any, answer: Any) -> int:
        """The number of an action."""
        K = self.problem.num_actions
        if isinstance(number, float) and not number.is_integer():
            reason = "it is NaN" if math.isnan(number) else "it is not a whole number"
            raise self.refusal(answer, reason)
        if not 0 <= number < K:
            raise self.refusal(answer, "there is no such action")
        return int(number)

    def _list_shares(self, answer: Mapping[Any, Any]) -> list[float]:
        """The probabilities of a dict, in the order of the actions."""
        shares = [0.0] * self.problem.num_actions
        key_of_action: dict[int, Any] = {}
        for key, share in answer.items():
            if isinstance(key, str):
                action = self.find_labelled(key)
            elif isinstance(key, int | float | np.generic) and not isinstance(
                key, bool | np.bool_
            ):
                action = self._action_number(np.asarray(key).item(), answer)
            else:
                raise self.refusal(answer, f"{key!r} is no action")
            if action in key_of_action:
                raise self.refusal(
                    answer, f"{key_of_action[action]!r} and {key!r} are one action"
                )
            key_of_action[action] = key
            try:
                shares[action] = float(share)
            except (TypeError, ValueError):
                raise self.refusal(answer, f"{share!r} is no probability") from None
        return shares

    def _check_shares(self, shares: list[float], answer: Any) -> list[float]:
        """Probabilities, which must be those of legal actions."""
        if any(math.isnan(share) for share in shares):
            raise self.refusal(answer, "it holds NaN")
        if any(not 0.0 <= share < math.inf for share in shares):
            raise self.refusal(
                answer,
                "probabilities are not negative; of action values return the best one's "
                "number",
            )
        share_sum = math.fsum(shares)
        if abs(share_sum - 1.0) > SUM_TOLERANCE:
            raise self.refusal(
                answer,
                f"it sums to {share_sum:.6g} and not to 1; of action values return the best "
                "one's number",
            )
        if self.problem.legal is not None:
            legal_actions = set(self.problem.legal_actions(self.state))
            for action, share in enumerate(shares):
                if share > SUM_TOLERANCE and action not in legal_actions:
                    self._require_legal(action)
        return shares

    def _require_legal(self, action: int) -> None:
        if self.problem.legal is None:
            return
        legal_actions = self.problem.legal_actions(self.state)
        if action not in legal_actions:
            label_names = self.problem.labels(self.state)
            label_text = "" if label_names is None else f" ({label_names[action]!r})"
            raise InvalidInput(
                f"{self.source} plays action {action}{label_text}, which is not legal at state "
                f"{self.state!r}; legal are {legal_actions}."
            )


NEAR = 0.05  # probabilities that were rounded or mistyped sum to 1 up to this
BY_VALUES = (
    "The policy was read as action values, since its rows do not sum to 1: in each state "
    "the best action is played (the least where the min player moves), the first of "
    "equal ones."
)
BY_SHARES = "The policy was read as probabilities, since every row of it sums to 1."

Rule = Callable[[Any], list[float]]  # state -> probabilities of all K actions


def is_table(policy: Any) -> bool:
    """Whether a policy is a list or an array, of NumPy or another library."""
    if isinstance(policy, str | bytes | Mapping) or callable(policy):
        return False
    return isinstance(policy, list | tuple | range) or hasattr(policy, "__array__")


# --- arrays -------------------------------------------------------------------


def read_array(
    problem: Problem, policy: Any
) -> tuple[Floats | None, Rule, tuple[str, ...]]:
    """(the table (S, A) where states are those of tables, the rule, notes)."""
    plain_policy = policy.detach().cpu() if hasattr(policy, "detach") else policy
    try:
        policy_array = np.asarray(plain_policy)
    except ValueError:  # entries of different forms
        policy_array = np.asarray(None)
    if policy_array.dtype.kind not in "iufb" or policy_array.ndim != 2:
        if policy_array.ndim == 1 or isinstance(plain_policy, list | tuple):
            return _read_entries(problem, list(plain_policy))
        raise _shape_error(problem, policy_array)
    K = problem.num_actions
    if policy_array.shape[1] != K:
        raise _shape_error(problem, policy_array)
    table_rows = _whole_table(problem, policy_array.astype(float))
    live_pairs = None
    if problem.tables is not None:
        live_pairs = problem.tables.legal & ~problem.tables.terminal[:, None]
    state_names = range(len(table_rows))
    if by_values(table_rows, live_pairs, state_names):
        if problem.tables is not None:
            table = greedy_table(problem, table_rows)
            return table, lambda state: table[state].tolist(), (BY_VALUES,)
        return (
            None,
            lambda s: greedy(problem, s, table_rows[_row_of(s, table_rows)]),
            (BY_VALUES,),
        )
    notes = () if _one_hot(table_rows, live_pairs).all() else (BY_SHARES,)
    if problem.tables is not None:
        table = checked_table(problem, table_rows)
        return table, lambda state: table[state].tolist(), notes
    return (
        None,
        lambda s: PolicyAnswer(problem, s, f"policy[{s!r}]").shares(
            table_rows[_row_of(s, table_rows)]
        ),
        notes,
    )


def checked_table(problem: Problem, rows: Any) -> Floats:
    """The probabilities (S, A) of a tabular problem, scaled to sum to 1."""
    from smoothcruiser.exact.policy_value import check_policy

    assert problem.tables is not None
    live_pairs = problem.tables.legal & ~problem.tables.terminal[:, None]
    return np.ascontiguousarray(check_policy(rows, live_pairs))


def greedy_table(problem: Problem, rows: Floats) -> Floats:
    """All probability on the best action of each state of a tabular problem."""
    tables = problem.tables
    assert tables is not None
    live_pairs = tables.legal & ~tables.terminal[:, None]
    sign = np.where(tables.player == 1, 1.0, -1.0)[:, None]
    _refuse_undefined(np.where(live_pairs, rows, 0.0), range(len(rows)))
    ranked_values = np.where(live_pairs, sign * rows, -np.inf)
    table = np.zeros_like(rows)
    table[np.arange(len(rows)), ranked_values.argmax(axis=1)] = 1.0
    return np.where(live_pairs, table, 0.0)


def greedy(problem: Problem, state: Any, row: Any) -> list[float]:
    """All probability on the best legal action of ``state`` by its action values."""
    legal_actions = problem.legal_actions(state)
    _refuse_undefined(np.asarray(row, dtype=float)[legal_actions][None], (state,))
    sign = 1.0 if problem.mover(state) == 1 else -1.0
    best_action = max(legal_actions, key=lambda action: sign * float(row[action]))
    return PolicyAnswer(problem, state, f"policy[{state!r}]").only_action(best_action)


def by_values(rows: Floats, live: Bools | None, names: Sequence[Any]) -> bool:
    """Whether rows (n, A) are action values and not probabilities.

    Args:
        rows: one row per state.
        live: (n, A), the legal actions of states that are not terminal; None where
            that is not known.
        names: the names of the rows in sentences.
    """
    defined_rows = np.where(
        np.isnan(rows), 0.0, rows
    )  # NaN where an action is illegal
    is_allowed = np.ones(rows.shape, bool) if live is None else live
    is_acting: Any = (is_allowed if live is not None else defined_rows != 0.0).any(
        axis=1
    )
    is_counted = is_acting & ~_one_hot(defined_rows, live)
    row_sums = np.where(is_allowed, defined_rows, 0.0).sum(axis=1)
    are_shares = is_counted & (np.where(is_allowed, defined_rows, 0.0) >= 0.0).all(
        axis=1
    )
    with np.errstate(invalid="ignore"):  # an illegal action may be worth -inf
        illegal_sums = np.where(is_allowed, 0.0, np.abs(defined_rows)).sum(axis=1)
        is_exact = (
            are_shares
            & (np.abs(row_sums - 1.0) <= SUM_TOLERANCE)
            & (illegal_sums == 0.0)
        )
        is_near = np.abs(row_sums - 1.0) <= NEAR
        is_near = are_shares & (
            is_near | (np.abs(row_sums + illegal_sums - 1.0) <= NEAR)
        )
    if is_exact[is_counted].all():
        return False
    if not is_exact.any() and not is_near[is_counted].all():
        _refuse_indifferent(rows, is_allowed, is_acting)
        return True
    odd_row = int(np.flatnonzero(is_counted & ~is_exact)[0])
    raise InvalidInput(
        f"{int(is_exact.sum()):,} rows of the policy are probabilities, and others are almost "
        f"or not: that of state {names[odd_row]!r} is "
        f"{shorten_value(rows[odd_row].tolist())}, which "
        f"sums to {row_sums[odd_row]:.6g} over legal actions; let every row sum to 1, or, if they "
        "are action values, give the best actions: policy.argmax(axis=1)."
    )


def _refuse_indifferent(rows: Floats, allowed: Bools, acting: Bools) -> None:
    """Refuse action values that are the same for all actions of every state."""
    highest_values = np.where(allowed, rows, -np.inf).max(axis=1)
    lowest_values = np.where(allowed, rows, np.inf).min(axis=1)
    if rows.shape[1] > 1 and not (highest_values > lowest_values)[acting].any():
        raise InvalidInput(
            "The rows of the policy prefer no action to any other and do not sum to 1, so "
            "they are neither action values nor probabilities; give probabilities, or "
            "one action per state."
        )


def _one_hot(rows: Floats, live: Bools | None) -> Bools:
    """(n,): rows that play one action however they are read, and rows that play none."""
    is_one = (rows == 1.0) if live is None else (rows == 1.0) & live
    is_nonzero = rows != 0.0 if live is None else (rows != 0.0) & live
    one_action: Bools = (is_one.sum(axis=1) == 1) & (is_nonzero.sum(axis=1) == 1)
    return one_action | ~(rows.any(axis=1) if live is None else live.any(axis=1))


def _whole_table(problem: Problem, array: Floats) -> Floats:
    """The rows of all states; that of an end state behind all others may be missing."""
    if problem.tables is None:
        return array
    num_states = problem.tables.num_states
    if len(array) == num_states - 1 and problem.tables.terminal[-1]:
        return np.concatenate([array, np.zeros_like(array[:1])])
    if len(array) != num_states:
        raise _shape_error(problem, array)
    return array


def _refuse_undefined(rows: Floats, names: Sequence[Any]) -> None:
    is_undefined = np.isnan(rows).any(axis=1) | (rows == np.inf).any(axis=1)
    if is_undefined.any():
        odd_row = int(np.flatnonzero(is_undefined)[0])
        raise InvalidInput(
            f"The action values of state {names[odd_row]!r} must be numbers for every legal "
            f"action, got {shorten_value(rows[odd_row].tolist())}."
        )


def _row_of(state: Any, rows: Any) -> int:
    """The row of a state that is a whole number."""
    is_whole = isinstance(state, int | np.integer) and not isinstance(state, bool)
    if not is_whole or not 0 <= state < len(rows):
        raise InvalidInput(
            f"The policy has {len(rows):,} entries, for the states 0, 1, …, and state "
            f"{state!r:.80} has none; give a dict from states to actions, or a "
            "function of the state."
        )
    return int(state)


def _shape_error(problem: Problem, array: Any) -> InvalidInput:
    K, tables = problem.num_actions, problem.tables
    size_text = "S" if tables is None else f"{tables.num_states:,}"
    is_transposed = array.ndim == 2 and array.shape[0] == K and array.shape[1] != K
    hint = "; transpose it" if is_transposed else ""
    return InvalidInput(
        f"An array as a policy has one action per state, shape ({size_text},), or one row of "
        f"{K} probabilities or action values per state, shape ({size_text}, {K}); got shape "
        f"{array.shape}{hint}."
    )


def _read_entries(
    problem: Problem, entries: list[Any]
) -> tuple[Floats | None, Rule, tuple[str, ...]]:
    """A list with one entry per state, each of any form."""
    tables = problem.tables
    if tables is not None and len(entries) not in (
        tables.num_states,
        tables.num_states - int(tables.terminal[-1]),
    ):
        raise InvalidInput(
            "A list as a policy has one entry per state, "
            f"{tables.num_states:,}, got {len(entries):,}: {shorten_value(entries)}."
        )

    def rule(state: Any) -> list[float]:
        entry = entries[_row_of(state, entries)]
        return PolicyAnswer(problem, state, f"policy[{state!r}]").shares(entry)

    return tabulate_rule(problem, rule), rule, ()


def tabulate_rule(problem: Problem, rule: Rule) -> Floats | None:
    """The table (S, A) of a rule over the states of a tabular problem."""
    if problem.tables is None:
        return None
    table = np.zeros((problem.tables.num_states, problem.num_actions))
    for state in np.flatnonzero(~problem.tables.terminal).tolist():
        table[state] = rule(state)
    return checked_table(problem, table)


# --- dicts --------------------------------------------------------------------


def read_dict(
    problem: Problem, policy: Mapping[Any, Any]
) -> tuple[Floats | None, Rule, tuple[str, ...]]:
    """(the table (S, A) where the dict has all states of tables, the rule, notes)."""
    as_values = False
    notes: tuple[str, ...] = ()
    stacked_rows = _stack_rows(problem, policy)
    if stacked_rows is not None:
        table_rows, live_pairs = stacked_rows
        as_values = by_values(table_rows, live_pairs, list(policy))
        if as_values:
            notes = (BY_VALUES,)
        elif not _one_hot(table_rows, live_pairs).all():
            notes = (BY_SHARES,)

    def rule(state: Any) -> list[float]:
        entry = entry_of(problem, policy, state)
        if as_values:
            return greedy(problem, state, entry)
        return PolicyAnswer(problem, state, f"policy[{state!r}]").shares(entry)

    tables = problem.tables
    is_complete = tables is not None and all(
        state in policy for state in np.flatnonzero(~tables.terminal).tolist()
    )
    return (tabulate_rule(problem, rule) if is_complete else None), rule, notes


def entry_of(problem: Problem, policy: Mapping[Any, Any], state: Any) -> Any:
    """The entry of a state, under itself or its key; the two must not differ."""
    matching_keys = []
    for candidate_key in (problem.key_of(state), state):
        try:
            if candidate_key in policy:
                matching_keys.append(candidate_key)
        except TypeError:  # an array is no key of a dict
            continue
    if (
        len(matching_keys) == 2
        and problem.key is not None
        and matching_keys[0] != matching_keys[1]
    ):
        raise InvalidInput(
            f"The policy has an entry for state {state!r} and one for its key "
            f"{matching_keys[0]!r}; let all of its entries be states, or all keys."
        )
    if matching_keys:
        return policy[matching_keys[0]]
    default_factory = getattr(policy, "default_factory", None)
    if default_factory is not None:  # a defaultdict, which is left as it is
        return default_factory()
    if hasattr(policy, "__missing__"):
        return policy[problem.key_of(state)]
    key_text = ", ".join(repr(key) for key in list(policy)[:3])
    hint = f" (it has {key_text}, …)" if policy else " (it is empty)"
    raise InvalidInput(
        f"The policy has no entry for state {state!r:.80}{hint}; add one, or give a "
        "function of the state."
    )


def _stack_rows(
    problem: Problem, policy: Mapping[Any, Any]
) -> tuple[Floats, Bools | None] | None:
    """The entries as rows of A numbers with their live actions; None if they are not."""
    K, entries = problem.num_actions, list(policy.values())
    all_sized = all(
        hasattr(x, "__len__") and not isinstance(x, Mapping) for x in entries
    )
    if not entries or not all_sized or any(len(entry) != K for entry in entries):
        return None
    try:
        table_rows = np.array([np.asarray(entry) for entry in entries], dtype=float)
    except (TypeError, ValueError):
        return None
    if table_rows.shape != (len(entries), K):
        return None
    if problem.tables is None:
        return table_rows, None
    live_pairs = problem.tables.legal & ~problem.tables.terminal[:, None]
    live_rows = [
        live_pairs[key] if _is_state(key, len(live_pairs)) else np.zeros(K, bool)
        for key in policy
    ]
    return table_rows, np.array(live_rows)


def _is_state(key: Any, size: int) -> bool:
    is_whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
    return is_whole and 0 <= key < size
