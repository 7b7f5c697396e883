"""Widening: next states that a move returns to, and actions that open one by one.

Where chance makes every next state new, a tree that always samples stays two moves
deep. Two rules let a move return to its next states, so that they are searched:

  widening = (k, alpha): on its n-th visit a move with at least k n^alpha different
      next states takes a stored one (double progressive widening: Couetoux et al. 2011,
      "Continuous upper confidence trees"), so that it has at most ceil(k n^alpha);
  samples = c: the first c visits sample, later ones take a stored one (sparse UCT:
      Bjarnason, Fern, Tadepalli 2009; the c samples of Kearns, Mansour, Ng 1999).

A stored next state z is taken in proportion to m(z), how often the oracle has returned it
here: each sample is as likely as any other, as in MCTS.jl of POMDPs.jl. That leaves the
weights of chance to the samples. In proportion to visits instead, early states would be
taken ever more often: a Polya urn, with shares that settle at random. With the state
comes the mean of the m(z) rewards. All ends count as one next state, since all are
worth 0. The move before the depth limit always samples: nothing is kept beyond it.

Actions open in the order of their numbers (progressive widening over actions: Couetoux et
al. 2011; Chaslot et al. 2008 call it unpruning): with ``action_widening`` = (k, alpha) the
first ceil(k n^alpha) legal ones are open at the n-th decision of a node.

legend   symbol   name here
  n               ``visits`` of the move, the present one included
  k, alpha, c     ``Setting.widening``, ``.growth``, ``.samples``; 0 where not in use;
                  of actions: ``.action_widening``, ``.action_growth``
  m(z)            ``SAMPLED`` of a node; ``ENDS`` of a move
The costs are in docs/tree-search.md. Not in this file: the descent.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.tree.search_numbers import Setting

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Columns of the tables, one row per node. 0 is no node, since the root is
# nobody's child. How often its parent's move was answered with this node; the next older
# node of the same move; then for K actions: the newest node, different next states,
# samples, ends.
SAMPLED, OLDER, PER_ACTION = range(3)
NEWEST, DIFFERENT, SAMPLES, ENDS = range(4)
# Of the floats: the sum of the rewards that came with this node; then, for K actions, of
# those that came with ends.
REWARDS, END_REWARDS = range(2)


def limits_chance(setting: Setting) -> bool:
    """Whether moves return to stored next states at all."""
    return setting.samples > 0 or setting.widening > 0.0


def takes_stored(setting: Setting, different: int, samples: int, visits: int) -> bool:
    """Whether the ``visits``-th visit of a move takes a stored next state."""
    if setting.samples > 0:
        return samples >= setting.samples
    if different < setting.widening:  # n^alpha is at least 1
        return False
    return different >= setting.widening * math.pow(float(visits), setting.growth)


def open_count(setting: Setting, legal: int, decisions: int) -> int:
    """How many of ``legal`` actions are open at a node's ``decisions``-th decision."""
    if setting.action_widening <= 0.0:
        return legal
    n = float(max(1, decisions))
    num_wanted = setting.action_widening * math.pow(n, setting.action_growth)
    return legal if num_wanted >= legal else math.ceil(num_wanted)


def outcome_tables(room: int, num_actions: int) -> tuple[Ints, Floats]:
    """Empty tables for ``room`` nodes."""
    return (
        np.zeros((room, PER_ACTION + 4 * num_actions), np.int64),
        np.zeros((room, END_REWARDS + num_actions)),
    )


def must_sample(
    setting: Setting, outcomes: Ints, node: int, action: int, visits: int
) -> bool:
    """Whether the next visit of a move calls the oracle; ``visits`` were made."""
    if not limits_chance(setting):
        return True
    move_column = PER_ACTION + 4 * action
    return not takes_stored(
        setting,
        outcomes[node, move_column + DIFFERENT],
        outcomes[node, move_column + SAMPLES],
        visits + 1,
    )


def stored_outcome(
    outcomes: Ints, paid: Floats, node: int, action: int, rng: Any
) -> tuple[int, float]:
    """(a stored child of the move or -1 for an end, its mean reward)."""
    move_column = PER_ACTION + 4 * action
    samples_left = rng.integers(outcomes[node, move_column + SAMPLES])
    child = outcomes[node, move_column + NEWEST]
    while child > 0:
        child_samples = outcomes[child, SAMPLED]
        if samples_left < child_samples:
            return child, paid[child, REWARDS] / child_samples
        samples_left -= child_samples
        child = outcomes[child, OLDER]
    return -1, paid[node, END_REWARDS + action] / outcomes[node, move_column + ENDS]


def note_child(
    outcomes: Ints, paid: Floats, node: int, action: int, child: int, reward: float
) -> None:
    """Count one sample of a child."""
    move_column = PER_ACTION + 4 * action
    if outcomes[child, SAMPLED] == 0:
        outcomes[child, OLDER] = outcomes[node, move_column + NEWEST]
        outcomes[node, move_column + NEWEST] = child
        outcomes[node, move_column + DIFFERENT] += 1
    outcomes[child, SAMPLED] += 1
    outcomes[node, move_column + SAMPLES] += 1
    paid[child, REWARDS] += reward


def note_end(
    outcomes: Ints, paid: Floats, node: int, action: int, reward: float
) -> None:
    """Count one sample of an end."""
    move_column = PER_ACTION + 4 * action
    if outcomes[node, move_column + ENDS] == 0:
        outcomes[node, move_column + DIFFERENT] += 1
    outcomes[node, move_column + ENDS] += 1
    outcomes[node, move_column + SAMPLES] += 1
    paid[node, END_REWARDS + action] += reward


def renumber(outcomes: Ints, paid: Floats, number: Ints, root: int, kept: int) -> None:
    """Move the rows of kept nodes to their new numbers (-1: dropped)."""
    for i in range(root, len(number)):
        j = number[i]
        if j >= 0:
            outcomes[j] = outcomes[i]
            paid[j] = paid[i]
            outcomes[j, OLDER] = max(0, number[outcomes[j, OLDER]]) if j > 0 else 0
            for move_column in range(PER_ACTION, outcomes.shape[1], 4):
                outcomes[j, move_column + NEWEST] = max(
                    0, number[outcomes[j, move_column + NEWEST]]
                )
    outcomes[kept:] = 0
    paid[kept:] = 0.0
