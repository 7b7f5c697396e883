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
  some do; or all do up to 5%; or no row    refused: a row is wrong, or the table is not
  prefers any action                        what it seems

Rows of terminal states do not count, and the row of an end state that an adapter added
behind all others may be missing. Where the states are not known as tables, rows of zeros
do not count either: they may be those of terminal states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.choices import SUM_TOLERANCE, PolicyAnswer
from smoothcruiser.problem.arguments import shortened
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Bools, Floats

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
    plain = policy.detach().cpu() if hasattr(policy, "detach") else policy
    try:
        array = np.asarray(plain)
    except ValueError:  # entries of different forms
        array = np.asarray(None)
    if array.dtype.kind not in "iufb" or array.ndim != 2:
        if array.ndim == 1 or isinstance(plain, list | tuple):
            return _read_entries(problem, list(plain))
        raise _misshaped(problem, array)
    K = problem.num_actions
    if array.shape[1] != K:
        raise _misshaped(problem, array)
    rows = _whole_table(problem, array.astype(float))
    live = None
    if problem.tables is not None:
        live = problem.tables.legal & ~problem.tables.terminal[:, None]
    names = range(len(rows))
    if by_values(rows, live, names):
        if problem.tables is not None:
            table = greedy_table(problem, rows)
            return table, lambda state: table[state].tolist(), (BY_VALUES,)
        return None, lambda s: greedy(problem, s, rows[_row(s, rows)]), (BY_VALUES,)
    notes = () if _one_hot(rows, live).all() else (BY_SHARES,)
    if problem.tables is not None:
        table = checked_table(problem, rows)
        return table, lambda state: table[state].tolist(), notes
    return (
        None,
        lambda s: PolicyAnswer(problem, s, f"policy[{s!r}]").shares(
            rows[_row(s, rows)]
        ),
        notes,
    )


def checked_table(problem: Problem, rows: Any) -> Floats:
    """The probabilities (S, A) of a tabular problem, scaled to sum to 1."""
    from smoothcruiser.exact.policy_value import check_policy

    assert problem.tables is not None
    live = problem.tables.legal & ~problem.tables.terminal[:, None]
    return np.ascontiguousarray(check_policy(rows, live))


def greedy_table(problem: Problem, rows: Floats) -> Floats:
    """All probability on the best action of each state of a tabular problem."""
    tables = problem.tables
    assert tables is not None
    live = tables.legal & ~tables.terminal[:, None]
    sign = np.where(tables.player == 1, 1.0, -1.0)[:, None]
    _refuse_undefined(np.where(live, rows, 0.0), range(len(rows)))
    ranked = np.where(live, sign * rows, -np.inf)
    table = np.zeros_like(rows)
    table[np.arange(len(rows)), ranked.argmax(axis=1)] = 1.0
    return np.where(live, table, 0.0)


def greedy(problem: Problem, state: Any, row: Any) -> list[float]:
    """All probability on the best legal action of ``state`` by its action values."""
    legal = problem.legal_actions(state)
    _refuse_undefined(np.asarray(row, dtype=float)[legal][None], (state,))
    sign = 1.0 if problem.mover(state) == 1 else -1.0
    best = max(legal, key=lambda action: sign * float(row[action]))
    return PolicyAnswer(problem, state, f"policy[{state!r}]").only(best)


def by_values(rows: Floats, live: Bools | None, names: Sequence[Any]) -> bool:
    """Whether rows (n, A) are action values and not probabilities.

    Args:
        rows: one row per state.
        live: (n, A), the legal actions of states that are not terminal; None where
            that is not known.
        names: what the rows are called in sentences.
    """
    defined = np.where(np.isnan(rows), 0.0, rows)  # NaN where an action is illegal
    allowed = np.ones(rows.shape, bool) if live is None else live
    acting: Any = (allowed if live is not None else defined != 0.0).any(axis=1)
    counted = acting & ~_one_hot(defined, live)
    sums = np.where(allowed, defined, 0.0).sum(axis=1)
    shares = counted & (np.where(allowed, defined, 0.0) >= 0.0).all(axis=1)
    with np.errstate(invalid="ignore"):  # an illegal action may be worth -inf
        illegal = np.where(allowed, 0.0, np.abs(defined)).sum(axis=1)
        exact = shares & (np.abs(sums - 1.0) <= SUM_TOLERANCE) & (illegal == 0.0)
        near = np.abs(sums - 1.0) <= NEAR
        near = shares & (near | (np.abs(sums + illegal - 1.0) <= NEAR))
    if exact[counted].all():
        return False
    if not exact.any() and not near[counted].all():
        _refuse_indifferent(rows, allowed, acting)
        return True
    odd = int(np.flatnonzero(counted & ~exact)[0])
    raise InvalidInput(
        f"{int(exact.sum()):,} rows of the policy are probabilities, and others are almost "
        f"or not: that of state {names[odd]!r} is {shortened(rows[odd].tolist())}, which "
        f"sums to {sums[odd]:.6g} over legal actions; let every row sum to 1, or, if they "
        "are action values, give the best actions: policy.argmax(axis=1)."
    )


def _refuse_indifferent(rows: Floats, allowed: Bools, acting: Bools) -> None:
    """Refuse action values that are the same for all actions of every state."""
    top = np.where(allowed, rows, -np.inf).max(axis=1)
    low = np.where(allowed, rows, np.inf).min(axis=1)
    if rows.shape[1] > 1 and not (top > low)[acting].any():
        raise InvalidInput(
            "The rows of the policy prefer no action to any other and do not sum to 1, so "
            "they are neither action values nor probabilities; give probabilities, or "
            "one action per state."
        )


def _one_hot(rows: Floats, live: Bools | None) -> Bools:
    """(n,): rows that play one action however they are read, and rows that play none."""
    ones = (rows == 1.0) if live is None else (rows == 1.0) & live
    others = rows != 0.0 if live is None else (rows != 0.0) & live
    one_action: Bools = (ones.sum(axis=1) == 1) & (others.sum(axis=1) == 1)
    return one_action | ~(rows.any(axis=1) if live is None else live.any(axis=1))


def _whole_table(problem: Problem, array: Floats) -> Floats:
    """The rows of all states; that of an end state behind all others may be missing."""
    if problem.tables is None:
        return array
    size = problem.tables.num_states
    if len(array) == size - 1 and problem.tables.terminal[-1]:
        return np.concatenate([array, np.zeros_like(array[:1])])
    if len(array) != size:
        raise _misshaped(problem, array)
    return array


def _refuse_undefined(rows: Floats, names: Sequence[Any]) -> None:
    wrong = np.isnan(rows).any(axis=1) | (rows == np.inf).any(axis=1)
    if wrong.any():
        odd = int(np.flatnonzero(wrong)[0])
        raise InvalidInput(
            f"The action values of state {names[odd]!r} must be numbers for every legal "
            f"action, got {shortened(rows[odd].tolist())}."
        )


def _row(state: Any, rows: Any) -> int:
    """The row of a state that is a whole number."""
    whole = isinstance(state, int | np.integer) and not isinstance(state, bool)
    if not whole or not 0 <= state < len(rows):
        raise InvalidInput(
            f"The policy has {len(rows):,} entries, for the states 0, 1, …, and state "
            f"{state!r:.80} has none; give a dict from states to actions, or a "
            "function of the state."
        )
    return int(state)


def _misshaped(problem: Problem, array: Any) -> InvalidInput:
    K, tables = problem.num_actions, problem.tables
    size = "S" if tables is None else f"{tables.num_states:,}"
    turned = array.ndim == 2 and array.shape[0] == K and array.shape[1] != K
    hint = "; transpose it" if turned else ""
    return InvalidInput(
        f"An array as a policy has one action per state, shape ({size},), or one row of "
        f"{K} probabilities or action values per state, shape ({size}, {K}); got shape "
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
            f"{tables.num_states:,}, got {len(entries):,}: {shortened(entries)}."
        )

    def rule(state: Any) -> list[float]:
        entry = entries[_row(state, entries)]
        return PolicyAnswer(problem, state, f"policy[{state!r}]").shares(entry)

    return tabulated(problem, rule), rule, ()


def tabulated(problem: Problem, rule: Rule) -> Floats | None:
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
    values = False
    notes: tuple[str, ...] = ()
    stacked = _stacked(problem, policy)
    if stacked is not None:
        rows, live = stacked
        values = by_values(rows, live, list(policy))
        if values:
            notes = (BY_VALUES,)
        elif not _one_hot(rows, live).all():
            notes = (BY_SHARES,)

    def rule(state: Any) -> list[float]:
        entry = entry_of(problem, policy, state)
        if values:
            return greedy(problem, state, entry)
        return PolicyAnswer(problem, state, f"policy[{state!r}]").shares(entry)

    tables = problem.tables
    whole = tables is not None and all(
        state in policy for state in np.flatnonzero(~tables.terminal).tolist()
    )
    return (tabulated(problem, rule) if whole else None), rule, notes


def entry_of(problem: Problem, policy: Mapping[Any, Any], state: Any) -> Any:
    """The entry of a state, under itself or its key; the two must not differ."""
    places = []
    for place in (problem.key_of(state), state):
        try:
            if place in policy:
                places.append(place)
        except TypeError:  # an array is no key of a dict
            continue
    if len(places) == 2 and problem.key is not None and places[0] != places[1]:
        raise InvalidInput(
            f"The policy has an entry for state {state!r} and one for its key "
            f"{places[0]!r}; let all of its entries be states, or all keys."
        )
    if places:
        return policy[places[0]]
    factory = getattr(policy, "default_factory", None)
    if factory is not None:  # a defaultdict, which is left as it is
        return factory()
    if hasattr(policy, "__missing__"):
        return policy[problem.key_of(state)]
    some = ", ".join(repr(key) for key in list(policy)[:3])
    hint = f" (it has {some}, …)" if policy else " (it is empty)"
    raise InvalidInput(
        f"The policy has no entry for state {state!r:.80}{hint}; add one, or give a "
        "function of the state."
    )


def _stacked(
    problem: Problem, policy: Mapping[Any, Any]
) -> tuple[Floats, Bools | None] | None:
    """The entries as rows of A numbers with their live actions; None if they are not."""
    K, entries = problem.num_actions, list(policy.values())
    sized = all(hasattr(x, "__len__") and not isinstance(x, Mapping) for x in entries)
    if not entries or not sized or any(len(entry) != K for entry in entries):
        return None
    try:
        rows = np.array([np.asarray(entry) for entry in entries], dtype=float)
    except (TypeError, ValueError):
        return None
    if rows.shape != (len(entries), K):
        return None
    if problem.tables is None:
        return rows, None
    live = problem.tables.legal & ~problem.tables.terminal[:, None]
    known = [
        live[key] if _is_state(key, len(live)) else np.zeros(K, bool) for key in policy
    ]
    return rows, np.array(known)


def _is_state(key: Any, size: int) -> bool:
    whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
    return whole and 0 <= key < size
