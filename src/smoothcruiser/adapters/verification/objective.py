"""The objective of a listed model: reachability or a total reward, as a problem.

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
pay nothing. V(s) is the probability, for every s that is in neither. A state in L
counts as reached, but the library's terminal states are worth 0, so a start in L is
refused.

*Totals.* A step pays the sum of its state's, choice's and branch's rewards. A play that
never ends counts with all it was paid, and V may be infinite: ``exact`` says so. With
``reach`` rewards stop at L. Model checkers then count a play that never gets to L as
infinite. That is the same as the total wherever no reward is negative and play cannot
circle forever unpaid outside L, or where every play gets to L; elsewhere the objective
is refused at discount 1.

*Players.* Player 2 minimizes. One player minimizes with ``opt=min``; in a game the
coalition does as ``opt`` says, and the others oppose it.

Computed from the model and declared: ``min_probability`` at discount 1, and for totals
without a discount or a horizon ``episodes_end`` where every play ends. Both are true of
the tables, and a certificate names them. Out of scope: formats.

Labels combined as property files write them: ``"finished"&!"agree"``.

    states   "label" | label | true | false | !states | states&states | states|states
             | (states)

``!`` binds closest, then ``&``, then ``|``, as in PRISM and Storm. A label without its
quotes, which shells take away, is a word of letters, digits and ``_``. Out of scope:
expressions over variables, which only Storm knows (``storm``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from smoothcruiser.adapters.verification.model_files import (
    ExplicitModel,
    circling,
    ends_within,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import (
    check_keywords,
    is_number,
    is_whole,
    shorten_value,
)
from smoothcruiser.problem.model.tabular import (
    Bools,
    CompressedRows,
    Ints,
    Tables,
    TabularOracle,
    tabular,
)
from smoothcruiser.problem.problem import Problem

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
        is_state = is_whole(state) and 0 <= state < self.tables.num_states
        if is_state and self.goal is not None and self.goal[int(state)]:
            raise _reached_error(int(state), self.goal_label)
        return state

    def label(self, state: int, action: int) -> str | None:
        """The model's name of a choice; with its number where another has that name."""
        num_actions = self.tables.num_actions
        if self.action is None or not self.tables.legal[state, action]:
            return None
        state_actions = self.action[state * num_actions : (state + 1) * num_actions]
        if state_actions[action] < 0:
            return None
        word = self.words[int(state_actions[action])]
        is_shared = np.count_nonzero(state_actions == state_actions[action]) > 1
        return f"{word} ({action})" if is_shared else word


def _reached_error(state: int, label: str) -> InvalidInput:
    return InvalidInput(
        f"State {state} has the label {label!r} itself, so the probability is 1 and "
        "nothing is left to plan; ask for another state (initial=, state=)."
    )


def problem_of(
    model: ExplicitModel,
    parameters: Mapping[str, Any],
    *,
    prefix: str,
    discount: float | None,
    operator: Operator,
) -> Problem:
    """The problem that an objective makes of a model.

    Args:
        model: the contents of a file.
        parameters: of the name, such as ``reach`` and ``opt``.
        prefix: the adapter's name, for sentences.
        discount: weight of the next step's value; None for 1, as model checkers mean
            it.
        operator: the smooth maximum; ``Max()`` for the questions of model checkers.
    """
    objective = _objective(model, parameters, prefix)
    start_state = _initial(model, objective)
    goal_states = (
        None if objective.reach is None else _states_with_label(model, objective.reach)
    )
    end_states = (
        np.zeros(model.num_states, dtype=np.bool_)
        if goal_states is None
        else goal_states.copy()
    )
    if objective.avoid is not None:
        end_states |= _states_with_label(model, objective.avoid)
    if objective.total is None:
        assert goal_states is not None
        if goal_states[start_state]:
            assert objective.reach is not None
            raise _reached_error(start_state, objective.reach)
        branch_rewards = goal_states[model.target].astype(float)
    else:
        branch_rewards = _reward(model, objective.total)
    if objective.total is None or objective.reach is None:
        # where nothing more is paid; up to a label it counts that it is never reached
        end_states |= model.deadlock & ~_paying_states(model, branch_rewards)
    extra_facts: dict[str, Any] = {}
    if objective.total is None:
        # an end is needed for one to pay
        end_declarations = {"payoffs": "end"}, {"total_reward_range": (0.0, 1.0)}
        extra_facts |= end_declarations[0] if end_states.any() else end_declarations[1]
    problem = tabular(
        CompressedRows(
            model.start, model.target, model.prob, (model.legal.size, model.num_states)
        ),
        branch_rewards,
        discount=1.0 if discount is None else discount,
        operator=operator,
        players=_players(model, objective),
        terminal=end_states,
        legal=model.legal,
        initial_state=start_state,
        horizon=objective.bounded,
        name=_name(model, objective, prefix),
        **extra_facts,
    )
    tables = problem.tables
    assert tables is not None
    oracle = ListedOracle(
        tables,
        goal_states if objective.total is None else None,
        objective.reach or "",
        model.action,
        model.words,
        model.sentences,
    )
    if objective.total is not None and objective.reach is not None:
        _check_total(model, objective, tables, problem)
    return replace(problem, oracle=oracle, **_compute_declarations(objective, problem))


# --- parameters ---------------------------------------------------------------


def _objective(
    model: ExplicitModel, parameters: Mapping[str, Any], prefix: str
) -> Objective:
    """The parameters, checked against each other."""
    check_keywords(f"{prefix}:", parameters, WORDS)
    label_words = {"reach", "avoid", "total"}
    objective_values: dict[str, Any] = {
        k: word(v) if k in label_words else v for k, v in parameters.items()
    }
    objective = Objective(**objective_values)
    if objective.reach is None and objective.total is None:
        hint = ""
        if objective.avoid is not None:
            hint = (
                " The best chance to avoid a label for ever is 1 less the least chance "
                "to reach it: reach=LABEL,opt=min."
            )
        raise InvalidInput(
            f"{prefix}: needs an objective, reach=LABEL or total=REWARD; {model.file} "
            f"has {_list_names('the labels', model.labels)} and "
            f"{_list_names('the rewards', model.rewards)}.{hint}"
        )
    if objective.avoid is not None and objective.total is not None:
        raise InvalidInput(
            "avoid= belongs to a probability, reach=LABEL,avoid=LABEL; a total has "
            "none, so drop avoid= or total=."
        )
    if objective.opt not in OPTS:
        raise InvalidInput(
            f"opt must be max or min, got {shorten_value(objective.opt)}."
        )
    if objective.bounded is not None and not (
        is_whole(objective.bounded) and objective.bounded > 0
    ):
        raise InvalidInput(
            "bounded must be a number of steps of at least 1, got "
            f"{shorten_value(objective.bounded)}."
        )
    min_probability: Any = objective.min_probability
    if not (
        min_probability in (MODEL, NONE)
        or (is_number(min_probability) and 0.0 < min_probability <= 1.0)
    ):
        raise InvalidInput(
            "min_probability must be a number above 0 and at most 1, none, or model "
            "(the default: the smallest of the file), got "
            f"{shorten_value(min_probability)}."
        )
    return objective


def word(value: Any) -> str:
    """A label as it was written: names are read as JSON, where 1 is no text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list_names(noun: str, names: Mapping[str, Any]) -> str:
    if not names:
        return f"none of {noun}"
    shown_names = list(names)[:20]
    more_text = "" if len(names) <= 20 else f" and {len(names) - 20} more"
    return f"{noun} {', '.join(map(repr, shown_names))}{more_text}"


def _states_with_label(model: ExplicitModel, label: str) -> Bools:
    if label in model.labels:
        return model.labels[label]
    reason = ""
    if is_combination(label):
        try:
            return combine_labels(label, model.labels)
        except NoCombination as error:
            reason = f" ({error})"
    raise InvalidInput(
        f"No state of {model.file} has the label {label!r}{reason}; it has "
        f"{_list_names('the labels', model.labels)}."
    )


def _reward(model: ExplicitModel, name: str) -> Any:
    if name not in model.rewards:
        raise InvalidInput(
            f"{model.file} has no reward {name!r}; it has "
            f"{_list_names('the rewards', model.rewards)}."
        )
    return model.rewards[name]


def _initial(model: ExplicitModel, objective: Objective) -> int:
    """Where plans begin."""
    if objective.initial is not None:
        if not (
            is_whole(objective.initial) and 0 <= objective.initial < model.num_states
        ):
            raise InvalidInput(
                f"initial must be a state from 0 to {model.num_states - 1}, got "
                f"{shorten_value(objective.initial)}."
            )
        return int(objective.initial)
    if len(model.initial) != 1:
        first_states = ", ".join(map(str, model.initial[:10]))
        count_text = (
            f"has {len(model.initial)} initial states ({first_states})"
            if first_states
            else "has none"
        )
        raise InvalidInput(
            f"A plan begins in one initial state, and {model.file} {count_text}; give "
            "initial=STATE."
        )
    return model.initial[0]


def _name(model: ExplicitModel, objective: Objective, prefix: str) -> str:
    default_objective = Objective()
    name_parts = [f"{name}={value}" for name, value in model.constants.items()] + [
        f"{field.name}={getattr(objective, field.name)}"
        for field in fields(objective)
        if getattr(objective, field.name) != getattr(default_objective, field.name)
    ]
    return ",".join([f"{prefix}:{model.file}", *name_parts])


# --- players ------------------------------------------------------------------


def _players(model: ExplicitModel, objective: Objective) -> Any:
    """(S,) of 1 (max) and 2 (min); None if one player maximizes, or only chance."""
    if model.num_players < 2:
        if objective.coalition is not None:
            raise InvalidInput(
                f"coalition= belongs to games, and {model.file} has "
                f"{'one player' if model.num_players else 'no player'}; drop it."
            )
        maximizes_alone = objective.opt == "max" or model.num_players == 0
        return None if maximizes_alone else np.full(model.num_states, 2)
    members = _coalition(model, objective)
    mover = (
        np.zeros(model.num_states, np.int64) if model.player is None else model.player
    )
    is_member = np.isin(mover, sorted(members))
    return np.where(is_member == (objective.opt == "max"), 1, 2)


def _choosing_players(model: ExplicitModel) -> set[int]:
    """The players with a state of theirs where there is a choice.

    Storm writes deadlocks of a game as states of one more player, which has no choice.
    """
    has_choice = model.legal.sum(axis=1) > 1
    if model.player is None:
        return {0}
    return set(np.unique(model.player[has_choice]).tolist())


def _coalition(model: ExplicitModel, objective: Objective) -> set[int]:
    """The numbers of the players that do as ``opt`` says."""
    player_names = model.player_names
    if objective.coalition is None:
        if not _choosing_players(model) <= {0, 1}:
            shown_names = f" ({', '.join(player_names[:10])})" if player_names else ""
            raise InvalidInput(
                f"{model.file} has {model.num_players} players{shown_names}, and plans "
                "are made for one side against one other; name the side that opt= is "
                'for as coalition=A or coalition=["A","B"].'
            )
        return {0}
    named_players = (
        objective.coalition
        if isinstance(objective.coalition, list)
        else [objective.coalition]
    )
    members = set()
    for named_player in named_players:
        player_number = (
            player_names.index(str(named_player))
            if str(named_player) in player_names
            else named_player
        )
        if not (is_whole(player_number) and 0 <= player_number < model.num_players):
            name_list = (
                f", or by name: {', '.join(player_names)}" if player_names else ""
            )
            raise InvalidInput(
                f"coalition must name players of {model.file} by their numbers, 0 to "
                f"{model.num_players - 1}{name_list}; got {shorten_value(named_player)}."
            )
        members.add(int(player_number))
    return members


# --- facts of the tables ------------------------------------------------------


def _paying_states(model: ExplicitModel, branch_rewards: Any) -> Bools:
    """(S,): whether some branch of the state pays."""
    branch_rows = np.repeat(np.arange(model.legal.size), np.diff(model.start))
    state_pays = np.zeros(model.num_states, dtype=np.bool_)
    state_pays[branch_rows[branch_rewards != 0.0] // model.legal.shape[1]] = True
    return state_pays


def _check_total(
    model: ExplicitModel, objective: Objective, tables: Tables, problem: Problem
) -> None:
    """Refuse a total up to a label where model checkers mean another number by it."""
    if problem.horizon is not None or problem.discount < 1.0:
        return
    # a circle that costs is no way to plus infinity
    never_costs = not np.any(tables.reward < 0.0)
    endless_states = np.flatnonzero(circling(tables, unpaid=never_costs))
    if len(endless_states):
        raise InvalidInput(
            f"From state {int(endless_states[0])} of {model.file} play can go on for "
            f"ever{' unpaid' if never_costs else ''} and never reach "
            f"{objective.reach!r}. Model checkers count that as infinite, a total here "
            "as what was paid. Give bounded=STEPS, a discount below 1, or total= "
            "without reach=."
        )


def _compute_declarations(objective: Objective, problem: Problem) -> dict[str, Any]:
    """Declarations that are computed from the tables, or the user's."""
    tables, min_probability = problem.tables, objective.min_probability
    assert tables is not None
    declarations: dict[str, Any] = {}
    if is_number(min_probability):
        declarations["min_probability"] = float(min_probability)
    elif min_probability == MODEL and problem.discount == 1.0:
        live_rows = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
        used_entries = np.repeat(live_rows, np.diff(tables.start)) & (
            tables.prob > 0.0
        )
        if used_entries.any():
            declarations["min_probability"] = float(tables.prob[used_entries].min())
    is_plain_total = (
        objective.total is not None
        and problem.horizon is None
        and problem.discount == 1.0
    )
    if is_plain_total and tables.terminal.any():
        end_bound = ends_within(tables)
        if end_bound is not None:
            declarations["episodes_end"] = end_bound
    return declarations


TOKEN = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<word>\w+)|(?P<sign>[!&|()]))')
DEEPEST = 100  # of brackets and negations


class NoCombination(Exception):
    """A text that is no combination of labels; its words say why."""


def combine_labels(text: str, labels: Mapping[str, Bools]) -> Bools:
    """(S,): where a combination of labels holds."""
    num_states = len(next(iter(labels.values()))) if labels else 0
    reader = _Reader(_tokens(text), labels, num_states)
    states = reader.read_alternatives(0)
    if reader.left:
        raise NoCombination(
            f"{reader.left[0][1]!r} comes where nothing more is expected"
        )
    return states


def is_combination(text: str) -> bool:
    """Whether a text is more than one label: it has a sign of the grammar."""
    return any(sign in text for sign in '!&|("')


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while text[position:].strip():
        match = TOKEN.match(text, position)
        if match is None:
            raise NoCombination(f"{text[position:].strip()[:20]!r} is no part of it")
        token_kind = str(match.lastgroup)
        tokens.append((token_kind, match[token_kind]))
        position = match.end()
    return tokens


class _Reader:
    """The unread tokens of a text, and the rules of the grammar that read them."""

    def __init__(
        self, tokens: list[tuple[str, str]], labels: Mapping[str, Bools], size: int
    ) -> None:
        self.left, self.labels, self.size = tokens, labels, size

    def _accept_sign(self, sign: str) -> bool:
        """Whether a sign comes next; if so it is consumed."""
        if self.left[:1] != [("sign", sign)]:
            return False
        self.left = self.left[1:]
        return True

    def read_alternatives(self, depth: int) -> Bools:
        states = self.read_conjunction(depth)
        while self._accept_sign("|"):
            states = states | self.read_conjunction(depth)
        return states

    def read_conjunction(self, depth: int) -> Bools:
        states = self.read_term(depth)
        while self._accept_sign("&"):
            states = states & self.read_term(depth)
        return states

    def read_term(self, depth: int) -> Bools:
        if depth > DEEPEST:
            raise NoCombination("its brackets are nested too deeply")
        if self._accept_sign("!"):
            return ~self.read_term(depth + 1)
        if self._accept_sign("("):
            states = self.read_alternatives(depth + 1)
            if not self._accept_sign(")"):
                raise NoCombination("a bracket is not closed")
            return states
        if not self.left or self.left[0][0] == "sign":
            raise NoCombination("a label is missing")
        (token_kind, word), *self.left = self.left
        if token_kind == "word" and word in ("true", "false"):
            return np.full(self.size, word == "true")
        if word not in self.labels:
            raise NoCombination(f"there is no label {word!r}")
        return self.labels[word]
