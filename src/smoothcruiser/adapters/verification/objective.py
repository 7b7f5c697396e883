"""What is asked of a listed model: reachability or a total reward, as a problem.

    name                            in PRISM's and Storm's words
    reach=L                         Pmax=? [ F "L" ]
    reach=L,avoid=B                 Pmax=? [ !"B" U "L" ]
    reach=L,bounded=20              Pmax=? [ F<=20 "L" ]
    total=R                         R{"R"}max=? [ C ]
    total=R,bounded=20              R{"R"}max=? [ C<=20 ]
    total=R,reach=L                 R{"R"}max=? [ F "L" ]
    …,opt=min                       the same with min
    …,coalition=p                   <<p>> P…: player p against all others

L and B are labels, or several combined as property files write it: ``"L"&!"M"``
(``labels``). ``horizon=`` is another word for ``bounded=``.

*Reachability.* Entering a state of L pays 1 and ends the play; states of B end it and
pay nothing. V(s) is the probability, for every s that is in neither. A state in L counts
as reached, but the library's terminal states are worth 0, so L itself is refused where it
is asked for.

*Totals.* A step pays what its state, choice and branch pay. A play that never ends counts
with all it was paid, and V may be infinite: ``exact`` says so. With ``reach`` rewards stop
at L. Model checkers then count a play that never gets to L as infinite. That is the same
as the total wherever no reward is negative and one cannot go round for ever unpaid outside
L, or where every play gets to L; elsewhere the objective is refused at discount 1.

*Players.* Who minimizes is player 2. One player minimizes with ``opt=min``; in a game the
coalition does as ``opt`` says, and the others oppose it.

What is computed from the model and declared: ``min_probability`` at discount 1, and for
totals without a discount or a horizon ``episodes_end`` where every play ends. Both are
true of the tables, and a certificate names them. What this file leaves out: formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from smoothcruiser.adapters.verification.ends import circling, ends_within
from smoothcruiser.adapters.verification.labels import (
    NoCombination,
    combined,
    is_combination,
)
from smoothcruiser.adapters.verification.model import Explicit
from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import (
    check_keywords,
    is_number,
    is_whole,
    shortened,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import (
    Bools,
    CompressedRows,
    Ints,
    Tables,
    TabularOracle,
    tabular,
)

OPTS = ("max", "min")
MODEL, NONE = "model", "none"  # of min_probability: the model's own, or undeclared


@dataclass(frozen=True)
class Objective:
    """The parameters of a name."""

    reach: str | None = None  # a label
    avoid: str | None = None  # a label
    total: str | None = None  # the name of a reward
    opt: str = "max"
    bounded: int | None = None  # steps
    coalition: Any = None  # a player, by name or number, or a list of them
    initial: int | None = None  # a state; None for the model's own
    min_probability: Any = MODEL


WORDS = tuple(part.name for part in fields(Objective))


@dataclass(frozen=True, eq=False, repr=False)
class ListedOracle(TabularOracle):
    """The tabular step of a listed model, with the names of its choices."""

    goal: Bools | None  # (S,): where the probability is 1 and nothing is planned
    goal_label: str
    action: Ints | None  # (S*A,): the number of a row's word, -1 for none
    words: tuple[str, ...]
    assumptions: tuple[str, ...]  # for every certificate

    def parse(self, state: Any) -> Any:
        """``state`` as it is; a goal is refused, where the probability is 1."""
        whole = is_whole(state) and 0 <= state < self.tables.num_states
        if whole and self.goal is not None and self.goal[int(state)]:
            raise _reached(int(state), self.goal_label)
        return state

    def label(self, state: int, action: int) -> str | None:
        """What the model calls a choice; its number too where another has that name."""
        width = self.tables.num_actions
        if self.action is None or not self.tables.legal[state, action]:
            return None
        here = self.action[state * width : (state + 1) * width]
        if here[action] < 0:
            return None
        word = self.words[int(here[action])]
        shared = np.count_nonzero(here == here[action]) > 1
        return f"{word} ({action})" if shared else word


def _reached(state: int, label: str) -> InvalidInput:
    return InvalidInput(
        f"State {state} has the label {label!r} itself, so the probability is 1 and "
        "nothing is left to plan; ask for another state (initial=, state=)."
    )


def problem_of(
    model: Explicit,
    parameters: Mapping[str, Any],
    *,
    prefix: str,
    discount: float | None,
    operator: Operator,
) -> Problem:
    """The problem that an objective makes of a model.

    Args:
        model: what a file lists.
        parameters: of the name, such as ``reach`` and ``opt``.
        prefix: the adapter's name, for sentences.
        discount: weight of the next step's value; None for 1, what model checkers mean.
        operator: the smooth maximum; ``Max()`` for what model checkers ask.
    """
    asked = _objective(model, parameters, prefix)
    start = _initial(model, asked)
    goal = None if asked.reach is None else _labelled(model, asked.reach)
    over = np.zeros(model.num_states, dtype=np.bool_) if goal is None else goal.copy()
    if asked.avoid is not None:
        over |= _labelled(model, asked.avoid)
    if asked.total is None:
        assert goal is not None
        if goal[start]:
            assert asked.reach is not None
            raise _reached(start, asked.reach)
        paid = goal[model.target].astype(float)
    else:
        paid = _reward(model, asked.total)
    if asked.total is None or asked.reach is None:
        # where nothing more is paid; up to a label it counts that it is never reached
        over |= model.deadlock & ~_pays(model, paid)
    more: dict[str, Any] = {}
    if asked.total is None:
        # an end is needed for one to pay
        ends = {"payoffs": "end"}, {"total_reward_range": (0.0, 1.0)}
        more |= ends[0] if over.any() else ends[1]
    built = tabular(
        CompressedRows(
            model.start, model.target, model.prob, (model.legal.size, model.num_states)
        ),
        paid,
        discount=1.0 if discount is None else discount,
        operator=operator,
        players=_players(model, asked),
        terminal=over,
        legal=model.legal,
        initial_state=start,
        horizon=asked.bounded,
        name=_name(model, asked, prefix),
        **more,
    )
    tables = built.tables
    assert tables is not None
    oracle = ListedOracle(
        tables,
        goal if asked.total is None else None,
        asked.reach or "",
        model.action,
        model.words,
        model.sentences,
    )
    if asked.total is not None and asked.reach is not None:
        _check_total(model, asked, tables, built)
    return replace(built, oracle=oracle, **_computed(asked, built))


# --- parameters ---------------------------------------------------------------


def _objective(model: Explicit, given: Mapping[str, Any], prefix: str) -> Objective:
    """The parameters, checked against each other."""
    check_keywords(f"{prefix}:", given, WORDS)
    words = {"reach", "avoid", "total"}
    values: dict[str, Any] = {k: word(v) if k in words else v for k, v in given.items()}
    asked = Objective(**values)
    if asked.reach is None and asked.total is None:
        hint = ""
        if asked.avoid is not None:
            hint = (
                " The best chance to avoid a label for ever is 1 less the least chance "
                "to reach it: reach=LABEL,opt=min."
            )
        raise InvalidInput(
            f"{prefix}: needs an objective, reach=LABEL or total=REWARD; {model.file} "
            f"has {_listed('the labels', model.labels)} and "
            f"{_listed('the rewards', model.rewards)}.{hint}"
        )
    if asked.avoid is not None and asked.total is not None:
        raise InvalidInput(
            "avoid= belongs to a probability, reach=LABEL,avoid=LABEL; a total has "
            "none, so drop avoid= or total=."
        )
    if asked.opt not in OPTS:
        raise InvalidInput(f"opt must be max or min, got {shortened(asked.opt)}.")
    if asked.bounded is not None and not (
        is_whole(asked.bounded) and asked.bounded > 0
    ):
        raise InvalidInput(
            "bounded must be a number of steps of at least 1, got "
            f"{shortened(asked.bounded)}."
        )
    least: Any = asked.min_probability
    if not (least in (MODEL, NONE) or (is_number(least) and 0.0 < least <= 1.0)):
        raise InvalidInput(
            "min_probability must be a number above 0 and at most 1, none, or model "
            f"(the default: the smallest of the file), got {shortened(least)}."
        )
    return asked


def word(value: Any) -> str:
    """A label as it was written: names are read as JSON, where 1 is no text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(what: str, names: Mapping[str, Any]) -> str:
    if not names:
        return f"none of {what}"
    shown = list(names)[:20]
    more = "" if len(names) <= 20 else f" and {len(names) - 20} more"
    return f"{what} {', '.join(map(repr, shown))}{more}"


def _labelled(model: Explicit, label: str) -> Bools:
    if label in model.labels:
        return model.labels[label]
    why = ""
    if is_combination(label):
        try:
            return combined(label, model.labels)
        except NoCombination as error:
            why = f" ({error})"
    raise InvalidInput(
        f"No state of {model.file} has the label {label!r}{why}; it has "
        f"{_listed('the labels', model.labels)}."
    )


def _reward(model: Explicit, name: str) -> Any:
    if name not in model.rewards:
        raise InvalidInput(
            f"{model.file} has no reward {name!r}; it has "
            f"{_listed('the rewards', model.rewards)}."
        )
    return model.rewards[name]


def _initial(model: Explicit, asked: Objective) -> int:
    """Where plans begin."""
    if asked.initial is not None:
        if not (is_whole(asked.initial) and 0 <= asked.initial < model.num_states):
            raise InvalidInput(
                f"initial must be a state from 0 to {model.num_states - 1}, got "
                f"{shortened(asked.initial)}."
            )
        return int(asked.initial)
    if len(model.initial) != 1:
        some = ", ".join(map(str, model.initial[:10]))
        has = (
            f"has {len(model.initial)} initial states ({some})" if some else "has none"
        )
        raise InvalidInput(
            f"A plan begins in one initial state, and {model.file} {has}; give "
            "initial=STATE."
        )
    return model.initial[0]


def _name(model: Explicit, asked: Objective, prefix: str) -> str:
    default = Objective()
    said = [f"{name}={value}" for name, value in model.constants.items()] + [
        f"{part.name}={getattr(asked, part.name)}"
        for part in fields(asked)
        if getattr(asked, part.name) != getattr(default, part.name)
    ]
    return ",".join([f"{prefix}:{model.file}", *said])


# --- players ------------------------------------------------------------------


def _players(model: Explicit, asked: Objective) -> Any:
    """(S,) of 1 (max) and 2 (min); None if one player maximizes, or chance alone moves."""
    if model.num_players < 2:
        if asked.coalition is not None:
            raise InvalidInput(
                f"coalition= belongs to games, and {model.file} has "
                f"{'one player' if model.num_players else 'no player'}; drop it."
            )
        alone = asked.opt == "max" or model.num_players == 0
        return None if alone else np.full(model.num_states, 2)
    members = _coalition(model, asked)
    mover = (
        np.zeros(model.num_states, np.int64) if model.player is None else model.player
    )
    inside = np.isin(mover, sorted(members))
    return np.where(inside == (asked.opt == "max"), 1, 2)


def _choosing(model: Explicit) -> set[int]:
    """The players with a state of theirs where there is a choice.

    Storm writes deadlocks of a game as states of one more player, who has none.
    """
    several = model.legal.sum(axis=1) > 1
    if model.player is None:
        return {0}
    return set(np.unique(model.player[several]).tolist())


def _coalition(model: Explicit, asked: Objective) -> set[int]:
    """The numbers of the players who do as ``opt`` says."""
    names = model.player_names
    if asked.coalition is None:
        if not _choosing(model) <= {0, 1}:
            shown = f" ({', '.join(names[:10])})" if names else ""
            raise InvalidInput(
                f"{model.file} has {model.num_players} players{shown}, and plans are "
                "made for one side against one other; name the side that opt= is for "
                'as coalition=A or coalition=["A","B"].'
            )
        return {0}
    given = asked.coalition if isinstance(asked.coalition, list) else [asked.coalition]
    members = set()
    for who in given:
        number = names.index(str(who)) if str(who) in names else who
        if not (is_whole(number) and 0 <= number < model.num_players):
            listed = f", or by name: {', '.join(names)}" if names else ""
            raise InvalidInput(
                f"coalition must name players of {model.file} by their numbers, 0 to "
                f"{model.num_players - 1}{listed}; got {shortened(who)}."
            )
        members.add(int(number))
    return members


# --- what holds of the tables -------------------------------------------------


def _pays(model: Explicit, paid: Any) -> Bools:
    """(S,): whether some branch of the state pays."""
    row = np.repeat(np.arange(model.legal.size), np.diff(model.start))
    found = np.zeros(model.num_states, dtype=np.bool_)
    found[row[paid != 0.0] // model.legal.shape[1]] = True
    return found


def _check_total(
    model: Explicit, asked: Objective, tables: Tables, built: Problem
) -> None:
    """Refuse a total up to a label where it is not what model checkers mean by it."""
    if built.horizon is not None or built.discount < 1.0:
        return
    # a circle that costs is no way to plus infinity
    rising = not np.any(tables.reward < 0.0)
    found = np.flatnonzero(circling(tables, unpaid=rising))
    if len(found):
        raise InvalidInput(
            f"From state {int(found[0])} of {model.file} play can go on for ever"
            f"{' unpaid' if rising else ''} and never reach {asked.reach!r}. Model "
            "checkers count that as infinite, a total here as what was paid. Give "
            "bounded=STEPS, a discount below 1, or total= without reach=."
        )


def _computed(asked: Objective, built: Problem) -> dict[str, Any]:
    """Declarations that were computed from the tables, or given."""
    tables, least = built.tables, asked.min_probability
    assert tables is not None
    found: dict[str, Any] = {}
    if is_number(least):
        found["min_probability"] = float(least)
    elif least == MODEL and built.discount == 1.0:
        live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
        used = np.repeat(live, np.diff(tables.start)) & (tables.prob > 0.0)
        if used.any():
            found["min_probability"] = float(tables.prob[used].min())
    total = asked.total is not None and built.horizon is None and built.discount == 1.0
    if total and tables.terminal.any():
        ends = ends_within(tables)
        if ends is not None:
            found["episodes_end"] = ends
    return found
