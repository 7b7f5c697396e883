"""Environments with the protocols of gymnax and Pgx, made to deceive an adapter.

They need JAX and neither library's own classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def tree(cls):
    """A frozen dataclass that JAX takes for a tree, as flax's are."""
    made = dataclass(frozen=True)(cls)
    names = list(made.__dataclass_fields__)
    jax.tree_util.register_dataclass(made, data_fields=names, meta_fields=[])
    return made


# --- Pgx ----------------------------------------------------------------------


@tree
class Board:
    """A state of Pgx's form: three heaps of matches."""

    current_player: Any
    rewards: Any
    terminated: Any
    truncated: Any
    legal_action_mask: Any
    heap: Any
    shown: Any  # what nothing depends on


class Nim:
    """One heap of 7, take 1, 2 or 3; who takes the last match wins. Zero-sum, honest."""

    id = "nim"
    num_players = 2
    size = 7

    def init(self, key):
        first = jnp.int32(jax.random.bernoulli(key))
        return self.at(
            jnp.int32(self.size), first, jnp.float32([0, 0]), jnp.bool_(False)
        )

    def at(self, heap, player, rewards, over):
        mask = jnp.arange(1, 4) <= heap
        shown = heap * jnp.float32(0.1)
        return Board(player, rewards, over, jnp.bool_(False), mask, heap, shown)

    def paid(self, winner, over):
        return jnp.where(over, jnp.float32([-1, -1]).at[winner].set(1.0), 0.0)

    def step(self, state, action, key=None):
        heap = state.heap - (action + 1)
        over = heap <= 0
        return self.at(
            heap, 1 - state.current_player, self.paid(state.current_player, over), over
        )


class NotZeroSum(Nim):
    """Both players are paid for a heap of 2."""

    def step(self, state, action, key=None):
        after = super().step(state, action, key)
        both = jnp.where(after.heap == 2, jnp.float32([0.5, 0.5]), after.rewards)
        return replace(after, rewards=both)


class PaysNaN(Nim):
    """NaN for a heap of 2."""

    def step(self, state, action, key=None):
        after = super().step(state, action, key)
        return replace(
            after, rewards=jnp.where(after.heap == 2, jnp.nan, after.rewards)
        )


class Restarts(Nim):
    """Starts again where it should end, as Pgx's auto_reset does, and never says so."""

    def step(self, state, action, key=None):
        after = super().step(state, action, key)
        again = self.at(
            jnp.int32(7), after.current_player, after.rewards, jnp.bool_(False)
        )
        return jax.tree.map(
            lambda x, y: jnp.where(after.terminated, x, y), again, after
        )


class FickleMask(Nim):
    """What may be taken is drawn with every move: it belongs to the state."""

    def step(self, state, action, key=None):
        after = super().step(state, action, key)
        mask = after.legal_action_mask & jax.random.bernoulli(key, 0.5, (3,))
        return replace(after, legal_action_mask=mask.at[0].set(True))


class Stuck(Nim):
    """A heap of 3 has no legal move, and the game is not over."""

    def step(self, state, action, key=None):
        after = super().step(state, action, key)
        mask = after.legal_action_mask & (after.heap != 3)
        return replace(after, legal_action_mask=mask)


class ThreePlayers(Nim):
    num_players = 3


class CallsBack(Nim):
    """Asks Python how often it was called."""

    calls = 0

    def step(self, state, action, key=None):
        def count(heap):
            type(self).calls += 1
            return np.int32(heap + type(self).calls % 2 * 0)

        form = jax.ShapeDtypeStruct((), np.int32)
        heap = jax.pure_callback(count, form, state.heap)
        return super().step(replace(state, heap=heap), action, key)


@tree
class KeyedBoard:
    """A state that holds its own random key, as Pgx's did before version 2."""

    current_player: Any
    rewards: Any
    terminated: Any
    truncated: Any
    legal_action_mask: Any
    heap: Any
    rng_key: Any


class OwnKey:
    """Draws from a key in its state: whoever sees the state foresees chance."""

    id = "own key"
    num_players = 1

    def init(self, key):
        words = jax.random.key_data(key).astype(jnp.uint32)
        mask = jnp.ones(2, bool)
        no, zero = jnp.bool_(False), jnp.zeros(1)
        return KeyedBoard(jnp.int32(0), zero, no, no, mask, jnp.int32(0), words)

    def step(self, state, action, key=None):
        now, later = jax.random.split(jax.random.wrap_key_data(state.rng_key))
        paid = jax.random.uniform(now, (1,))
        words = jax.random.key_data(later).astype(jnp.uint32)
        return replace(state, rewards=paid, rng_key=words)


# --- gymnax -------------------------------------------------------------------


@tree
class Place:
    """A state of gymnax's form."""

    x: Any
    time: Any
    score: Any  # what nothing depends on


@tree
class Knobs:
    """Parameters of gymnax's form."""

    step: Any = 0.1
    max_steps_in_episode: Any = 30


class Ladder:
    """Action 1 adds a tenth, action 0 nothing; 1 is paid where x reaches 1.

    In float32 ten tenths make 1.0000001, in float64 0.9999999999999999: the end comes
    after 10 steps or after 11. Whatever an interval says, it says of one of the two.
    """

    name = "ladder"
    default_params = Knobs()

    def action_space(self, params):
        return SimpleNamespace(n=2)

    def reset_env(self, key, params):
        zero = jnp.zeros(())
        return zero, Place(zero, 0, 0.0)

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode

    def step_env(self, key, state, action, params):
        x = state.x + action * params.step
        over = x >= 1.0
        after = Place(x, state.time + 1, state.score + over)
        return x, after, jnp.where(over, 1.0, 0.0), over, {}


class AutoReset(Ladder):
    """Says that it is over, and is back at the start."""

    def step_env(self, key, state, action, params):
        x, after, paid, over, info = super().step_env(key, state, action, params)
        start = Place(jnp.zeros(()), jnp.asarray(0), after.score)
        back = jax.tree.map(
            lambda a, b: jnp.where(over, a, b), start, jax.tree.map(jnp.asarray, after)
        )
        return x, back, paid, over, info


class NaNLadder(Ladder):
    """Pays NaN at the top."""

    def step_env(self, key, state, action, params):
        x, after, paid, over, info = super().step_env(key, state, action, params)
        return x, after, jnp.where(over, jnp.nan, paid), over, info


class Noisy(Ladder):
    """Climbs with chance 0.7."""

    def step_env(self, key, state, action, params):
        up = action * jax.random.bernoulli(key, 0.7)
        return super().step_env(key, state, up, params)


class Growing(Ladder):
    """Its state grows."""

    def step_env(self, key, state, action, params):
        x, after, *rest = super().step_env(key, state, action, params)
        return (x, replace(after, x=jnp.stack([after.x, after.x])), *rest)
