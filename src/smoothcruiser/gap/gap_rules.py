"""Paths with a learned value W: their rule, their streams, the columns of a sample.

A path is one draw of the noise w_0, w_1, ... of all steps. Every call of the step at
time t takes the same numbers w_t, whatever its state and action, so that the states of
a path are a graph in layers. W is any function of (state, steps left), 0 after an end.

  Qhat_t(s, a)  mean over inner samples J_tj of r + gamma W(s'): its mean is Q^W
  x_t(s, a)     Qhat_t(s, a) + g_t (U_t+1(s') - W_t+1(s')), with s' by the noise w_t
  U_t(s)        F(x_t(s, .)) where the relaxed player moves; the mean of x under the
                policy of the other player, with its Omega, where that one moves
  L             W_0 + sum_t D_t (sum_a p_a Qhat_t(s_t, a) - sign Omega(p) - W_t(s_t))

E U_0 >= V (relaxed player 1) or <= V (player 2), and E L = V_pi, for any W
(docs/gap.md). g_t = gamma and D_t = gamma^t in the head of h steps. After it a path is
killed: step t >= h is followed by another with probability gamma, by one coin for the
whole layer; there D_t = gamma^h, and g_t is 1 or 0.

Where the score of a state, the largest p sum_u D_u (Qhat_u - W_u) over the ways to it
(p = +1 for player 1, -1 for player 2), is at least c, U is the a priori bound on V from
there on. Where the score of the policy's walk is at most -c, ``LOWER`` gets the bound
of every policy; where it is at least c, ``POLICY_UPPER`` does. Scores at time t are
functions of the draws before step t.

Nothing is drawn twice: the words of a stream are those of (first key, role, path,
time, index). The number of the path is always among them. Pilot paths have a first key
of their own.
"""

from __future__ import annotations

import math
from enum import IntEnum, unique
from typing import NamedTuple


@unique
class Role(IntEnum):
    """The use of a stream; part of its position."""

    NOISE = 0  # w_t: one for each time
    INNER = 1  # J_tj
    LOTS = 2  # the action that the policy takes
    LOOKAHEAD = 3  # inner samples of a policy that is greedy on W
    COIN = 4  # the length of a killed path


class GapRule(NamedTuple):
    """The rule by which a path is played; fixed before the path begins."""

    discount: float
    head: int  # steps that weigh gamma^t; all of a path that is ``fixed``
    fixed: bool = True  # a path ends with its head: no coins
    ends_at_horizon: bool = True  # nothing is earned after the head; else a bound is
    num_inner: int = 1  # m, at least 1
    mirrored: bool = False  # inner sample 2j + 1 is the mirror of 2j; m is even
    upper_cut: float = math.inf  # c >= 0 of U
    lower_cut: float = math.inf  # c >= 0 of the walks, in both directions
    most_nodes: int = 2**40  # states of a layer; U is the bound at all further ones
    relaxed: int = 1  # the player who knows the noise
    num_lookahead: int = 0  # inner samples of a policy that is greedy on W
    walks_every_action: bool = False  # one walk begins with each action of the root
    walks: bool = True  # whether the policy walks at all


# columns of ``times``, an array (T, 6): row min(t, T - 1) is about time t
CLIP_LOW, CLIP_HIGH = 0, 1  # W is clipped to these
VALUE_LOW, VALUE_HIGH = 2, 3  # of V: U is VALUE_HIGH (player 2: VALUE_LOW) after a cut
POLICY_LOW, POLICY_HIGH = 4, 5  # of every policy: after a cut of a walk
TIME_COLUMNS = 6

# columns of a sample
UPPER = 0  # U_0: for relaxed player 2 it is a sample from below
LOWER, POLICY_UPPER = 1, 2  # L with its cuts below, and with its cuts above
NOISE_CALLS, INNER_CALLS, WALK_CALLS, LOOKAHEAD_CALLS = 3, 4, 5, 6
NODES, CUT_NODES = 7, 8  # states of all layers; those that were cut or over the cap
DEEPEST, STEPS = 9, 10  # the last time with a state; the steps of the walk
SCORE_HIGH, SCORE_LOW = 11, 12  # of all states of the path, p in them
WALK_SCORE_HIGH, WALK_SCORE_LOW = 13, 14
W_LOW, W_HIGH = 15, 16  # of all values of W, before they are clipped
# K columns x_a at the root, K columns of the walk that begins with a
FIRST_ACTION = 17


def count_columns(num_actions: int) -> int:
    """The columns of a sample."""
    return FIRST_ACTION + 2 * num_actions


def upper_columns(num_actions: int) -> slice:
    """The columns of x_a at the root: E x_a >= Q(s_0, a); NaN where not legal.

    For relaxed player 2 it is E x_a <= Q(s_0, a).
    """
    return slice(FIRST_ACTION, FIRST_ACTION + num_actions)


def walk_columns(num_actions: int) -> slice:
    """The columns of the walks that begin with a: the mean of each is Q_pi(s_0, a).

    They are cut as ``LOWER`` is. NaN where no walk begins so.
    """
    return slice(FIRST_ACTION + num_actions, count_columns(num_actions))
