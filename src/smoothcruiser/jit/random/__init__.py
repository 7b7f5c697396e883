"""The registry of spawn keys: one key per use of random streams.

A stream is named by a seed and a key, a tuple of whole numbers
(``jit.random.streams.stream``). Shards of a schedule have the keys (action, shard).
Everybody else begins its keys with a number of this file, so that no two users
share a stream:

  (CERTIFIED,)              the tapes of all pairs of a certified search
  (CERTIFIED, SALT)         which of their samples are kept
  (TREE,)                   a tree search, from its beginning to its end
  (TREE, tree)              the second tree of a forest, and those after it
  (TREE, tree, LEAVES, simulation, rollout)   rollouts from one leaf at once
  (TREE, moves, GUMBEL)     the root of a Gumbel search, after so many moves
  (ROLLOUTS,)               the rollouts of ``evaluate``
  (COINS,)                  how many steps each of them lives
  (GAP, part)               the first words of the paths of ``gap``; part 0 is their
                            pilot, part 1 the paths that count
  (SEARCH_PATHS, block)     the paths that bound a search's value, block by block
  (SEARCH_PATHS, block, COIN)   how many steps each of them lives
  (WORLD, episode)          samples of an agent's environment
  (OTHER_PLAYER, episode)   samples of the other player
  (OTHER_PLAYER,)           the seed of an opponent that plans
  (PLANS, decision)         the seed of an agent's planning
  (PLANS, decision, LOTS)   the action of a policy that draws lots
  (CHECK, CheckKey, ...)    the tests of ``check``
  (INSPECTION, place, ...)  the inspections of the step before and after a run
  (PILOT, 0, ...)           the walks of ``auto`` before it chooses

A key of one part or of three and more is never a shard's, and INSPECTION is above
every action. The other keys of two parts could be those of an action with that
number, so they are for runs that have no shards under the same seed: a certified
search has none, and an agent plans under the seeds that PLANS gives it.

This file imports nothing: ``--help`` loads it without Numba.
"""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Key(IntEnum):
    """The first part of a key."""

    CERTIFIED = 6
    TREE = 9
    ROLLOUTS = 10
    COINS = 11
    GAP = 12
    FITTING = 13
    SEARCH_PATHS = 14
    WORLD = 101
    OTHER_PLAYER = 102
    PLANS = 103
    CHECK = 104
    PILOT = 105
    INSPECTION = 2**31


SALT = 1  # after CERTIFIED
GUMBEL = 1  # after (TREE, moves)
COIN = 1  # after (SEARCH_PATHS, block)
LEAVES = 1  # after (TREE, tree)
LOTS = 1  # after (PLANS, decision)


@unique
class CheckKey(IntEnum):
    """The second part of a key of ``check``: the test that samples."""

    ACTIONS = 0  # every action of the requested state
    WALKS = 1
    EQUAL_STREAMS = 2
    ORDER = 3
    UNTOUCHED = 4
    DETERMINISM = 5
    OUTCOMES = 6
    KEYS = 7
    VALUE_BOUNDS = 8
    ENDS = 9
    OTHER_STREAMS = 10
    ROWS = 11
    TOTALS = 12
    RARITY = 13
    LENGTHS = 14
