"""UMB files for tests and benchmarks: a model's arrays, written by umbi."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from umbi.ats import ExplicitAts, write


def written(model: Any, path: Path) -> None:
    """A published model (``verification_worlds.Model``) as a UMB file.

    Illegal pairs have no choice; the label is ``goal``.
    """
    size, width = model.legal.shape
    rows = []
    for state in range(size):
        here = []
        for action in np.flatnonzero(model.legal[state]).tolist():
            pair = state * width + action
            part = slice(model.P.indptr[pair], model.P.indptr[pair + 1])
            targets, shares = model.P.indices[part], model.P.data[part]
            branches = list(zip(targets.tolist(), shares.tolist(), strict=True))
            if branches:
                here.append(branches)
        rows.append(here)
    labels = {"goal": [bool(x) for x in model.goal]}
    save(path, rows, labels=labels, initial=model.initial)


def save(
    path: Path,
    choices: list[list[list[tuple[int, Any]]]],
    *,
    labels: dict[str, list[bool]] | None = None,
    rewards: dict[str, dict[str, list[Any]]] | None = None,
    initial: int | list[int] = 0,
    players: list[int] | None = None,
    player_names: list[str] | None = None,
    num_players: int = 1,
    actions: list[list[str]] | None = None,
    change: Any = None,
) -> Path:
    """Write a UMB file: ``choices[state][choice]`` lists (target, probability).

    Args:
        path: where.
        choices: the model; an empty list is a deadlock.
        labels: by name, a truth value for each state.
        rewards: by name, values for "state", "choice" and "branch".
        initial: a state, or a list of them.
        players: who moves in each state, from 0 on.
        player_names: of all players.
        num_players: 0 for a Markov chain.
        actions: the name of each choice.
        change: a function that changes the ``ExplicitAts`` before it is written.
    """
    ats = ExplicitAts()
    for _ in choices:
        ats.add_state()
    ats.num_players = num_players
    if num_players:
        ats.state_to_player = players or [0] * len(choices)
    if player_names:
        ats.player_to_name = player_names
    ats.set_initial_states([initial] if isinstance(initial, int) else initial)
    exact = any(
        isinstance(share, Fraction) for row in choices for c in row for _, share in c
    )
    kind = Fraction if exact else float
    words = sorted({word for row in actions or [] for word in row})
    if words:
        ats.num_choice_actions, ats.choice_action_to_name = len(words), words
    for state, listed in enumerate(choices):
        for number, branches in enumerate(listed):
            choice = ats.add_state_choice(state)
            if actions:
                choice.action = words.index(actions[state][number])
            for target, share in branches:
                choice.add_branch(target, kind(share))
    for name, values in (labels or {}).items():
        ats.add_ap_annotation(name).set_state_values(values)
    for name, parts in (rewards or {}).items():
        reward = ats.add_reward_annotation(name)
        for where, values in parts.items():
            getattr(reward, f"set_{where}_values")(values)
    if change is not None:
        change(ats)
    write(ats, path)
    return path
