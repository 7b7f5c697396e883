"""Environments in JAX as oracles: trees of arrays in, planners' states out.

A library of JAX environments keeps states in trees of arrays and steps them by a pure
function of (state, action, key). ``JaxWorld`` is that function and the facts about it;
``WorldRows`` makes it an oracle for every method:

  many rows    executor ``batched``: a row is a tuple of the leaves that matter
               (``trees``), stepped by ``vmap``
  one state    everything else: a ``RowState`` (``layout``), stepped by the jitted
               function of one state, without padding

  key          64 bits of the planner's stream; none are taken where the data flow shows
               that chance has no part. Nothing else is random.
  floats       float32, as the library's users run it, unless ``x64``. The world is then
               the environment as the step of one state rounds it. Rewards become float64
               without rounding and are summed there. A batch is compiled otherwise and
               may round a reward otherwise: ``reward_rounding`` of the largest reward is
               added to epsilon of runs in batches (``schedule.verify.sharp``).

This file decides how trees become rows, and when an answer is refused. It leaves
out the names that the libraries use (``adapters.gymnax``, ``adapters.pgx``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import (
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    describe_error,
)
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.batched import Answer, Backend, Batched, BatchedFunction
from smoothcruiser.problem.batched.jax import JaxBackend, jax, jnp, precise
from smoothcruiser.problem.batched.layout import RowLayout, RowState
from smoothcruiser.problem.batched.trees import (
    Form,
    JaxWorld,
    form_of,
    from_bytes,
    to_bytes,
)
from smoothcruiser.problem.step_errors import at_pair

# leaves that count steps: declared lengths of episodes hold from 0 on
COUNTERS = ("time", "step_count", "_step_count")
MOST_STARTS = 256  # resets until the max player begins: 2**-256 of a fair coin


# --- many rows ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WorldBackend(JaxBackend):
    """Rows as tuples of columns, one for each leaf that matters."""

    form: Form = field(kw_only=True)

    def __fingerprint__(self) -> Any:
        return self.form.world.stands_for, self.max_batch, self.x64, jax

    def one(self, state: Any) -> Any:
        """A batch of one row (padded)."""
        if not isinstance(state, RowState):
            raise InvalidInput(f"not a state of {self.form.world.title}")
        return super().one(tuple(self.form.layout.unpack(state)))

    def row(self, states: Any, i: int) -> RowState:
        """The state in row ``i``."""
        return self.form.layout.pack([np.asarray(column[i]) for column in states])

    def step(
        self, function: Any, states: Any, actions: NDArray[np.int64], rng: Any
    ) -> Answer:
        """(rewards, next states, None) of the rows; a NaN is refused in its own words."""
        answer = super().step(function, states, actions, rng)
        if np.isnan(answer[0]).any():
            bad_row = int(np.flatnonzero(np.isnan(answer[0]))[0])
            raise not_a_number(
                self.form.world, self.row(states, bad_row), int(actions[bad_row])
            )
        return answer


def not_a_number(world: JaxWorld, state: RowState, action: int) -> OracleError:
    """A step paid NaN."""
    return OracleError(
        f"{world.title} paid NaN {at_pair(state, action)}: {world.nan_means}."
    )


@dataclass(frozen=True, eq=False)
class RowFunction(BatchedFunction):
    """A function of rows that reads a single state's bytes where it has one."""

    single: Callable[..., Any]

    def __call__(self, state: Any, *arguments: Any) -> Any:
        """The answer for one state."""
        return self.single(state, *arguments)

    def __fingerprint__(self) -> Any:
        return self.function.__name__, self.backend


# --- one state ----------------------------------------------------------------


@dataclass(frozen=True)
class WorldKey:
    """The key that tells states apart: their bytes, to the last bit."""

    # movers, legal actions and ends are read from these bytes
    holds_profile: ClassVar[bool] = True

    title: str
    rounding: str  # of its numbers, such as "float32"; empty if all are whole

    def __call__(self, state: RowState) -> bytes:
        """The bytes of the leaves that matter."""
        return state.words

    @property
    def assumption(self) -> str:
        """A certificate's assumption about rounding."""
        if not self.rounding:
            return ""
        return (
            f"the world is {self.title} as JAX computes it here in {self.rounding}: its "
            "rounding belongs to the world. Steps in batches may round otherwise than "
            "steps one by one; what the last bits of a state lead to is taken to "
            "be worth the same"
        )


@dataclass(frozen=True, eq=False)
class WorldRows(Batched):
    """The oracle of a world."""

    form: Form = field(kw_only=True)
    first: int | None = None  # the player that begins, and maximizes
    origin: RowState | None = None  # the problem's initial state, where moves begin

    @property
    def world(self) -> JaxWorld:
        """The environment."""
        return self.form.world

    @property
    def layout(self) -> RowLayout:
        """The leaves of a state that matter."""
        return self.form.layout

    def __fingerprint__(self) -> Any:
        leaves = [(leaf.name, leaf.shape, leaf.dtype) for leaf in self.layout.leaves]
        return self.world.stands_for, self.x64, self.first, self.max_batch, leaves, jax

    @property
    def reward_rounding(self) -> float:
        """How far rows may round a reward; nothing where rewards are whole numbers."""
        return 0.0 if self.world.whole_rewards else super().reward_rounding

    @cached_property
    def backend(self) -> Backend:
        """How the rows of a batch are held."""
        return WorldBackend(True, self.max_batch, self.x64, form=self.form)

    @cached_property
    def _stepper(self) -> Any:
        """The jitted step from bytes to bytes."""

        def step(words: Any, action: Any, key: Any) -> Any:
            leaves = from_bytes(self.layout, words)
            reward, next_leaves = self.form.step(
                leaves, action, jax.random.wrap_key_data(key)
            )
            return reward, to_bytes(next_leaves)

        return jax.jit(step)

    @cached_property
    def _starter(self) -> Any:
        def start(key: Any) -> Any:
            state = self.world.init(jax.random.wrap_key_data(key))
            return to_bytes(self.form.relevant_leaves(state))

        return jax.jit(start)

    def key(self, rng: Any) -> NDArray[np.uint32]:
        """The two words of the key that the next call takes from its stream."""
        return _key_words(rng)

    def __call__(self, state: Any, action: int, rng: Any) -> tuple[float, RowState]:
        """One sample: (reward, next state)."""
        step_key = self.key(rng) if self.form.matter.chance else NO_KEY
        return self._step_once(state, action, step_key)

    def _step_once(
        self, state: RowState, action: int, key: NDArray[np.uint32]
    ) -> tuple[float, RowState]:
        with precise(self.x64):
            raw_reward, next_words = self._stepper(
                np.frombuffer(state.words, np.uint8), np.int32(action), key
            )
            reward = float(raw_reward)
        if math.isnan(reward):
            raise not_a_number(self.world, state, action)
        return reward, RowState(self.layout, np.asarray(next_words).tobytes())

    def warm(self) -> None:
        """Compile the step of one state: clocks are for simulators, not for compilers."""
        assert self.origin is not None
        with precise(self.x64):
            words = np.frombuffer(self.origin.words, np.uint8)
            self._stepper(words, np.int32(0), NO_KEY)

    def outcomes(
        self, state: RowState, action: int
    ) -> list[tuple[float, float, RowState]]:
        """The one outcome of a step in which chance has no part, or is said to have none."""
        return [(1.0, *self._step_once(state, action, NO_KEY))]

    def reset(self, rng: Any) -> RowState:
        """An initial state, sampled from ``rng``; the max player begins, if there is one.

        Where chance chooses the first player, starts of the other one are passed over.
        """
        for _ in range(MOST_STARTS):
            with precise(self.x64):
                words = np.asarray(self._starter(self.key(rng))).tobytes()
            initial_state = RowState(self.layout, words)
            if self.first is None or self.mover(initial_state) == self.first:
                return initial_state
        raise InvalidInput(
            f"Player {self.first} of {self.world.title} was never the one to begin in "
            f"{MOST_STARTS} resets; use seed= to start where another player begins."
        )

    # --- facts about a state ---

    def mover(self, state: RowState) -> int:
        """The number of the player to move."""
        assert self.world.mover is not None
        leaf_index = self.layout.leaf_index(self.world.mover)
        return int(self.layout.array(state, leaf_index))

    def is_over(self, state: RowState) -> bool:
        """Whether the episode is over."""
        starts = self.layout.starts
        return any(
            state.words[starts[self.layout.leaf_index(name)]]
            for name in self.world.ends
        )

    # --- other forms of states ---

    def parse(self, state: Any) -> Any:
        """A state from its leaves by name, from moves, or from the library's own state."""
        if isinstance(state, RowState):
            if state.layout != self.layout:
                raise InvalidInput(
                    f"{state!r} is no state of this {self.world.title}: it was made "
                    "with other parameters; make it with these."
                )
            return state
        if isinstance(state, Mapping):
            return self._check_counters(self.layout.parse(state))
        if isinstance(state, list | tuple):
            return self._state_after(list(state))
        if self.world.read is None:
            return state
        return self._check_counters(self._pack_tree(self.world.read(state)))

    def _check_counters(self, state: RowState) -> RowState:
        """The state, unless it has made fewer than no steps."""
        for leaf_name, leaf in state.leaves.items():
            if leaf_name.split(".")[-1] in COUNTERS and np.any(leaf < 0):
                raise InvalidInput(
                    f"{leaf_name} of {self.world.title} counts steps and must not be "
                    f"negative, got {leaf.tolist()}."
                )
        return state

    def _pack_tree(self, tree: Any) -> RowState:
        """A tree of the library's own as a state; numbers keep their values."""
        all_leaves, structure = jax.tree.flatten(tree)
        if structure != self.form.tree:
            raise InvalidInput(
                f"The state is not one of {self.world.title}: {structure} in place of "
                f"{self.form.tree}."
            )
        arrays = []
        for i in self.form.matter.leaves:
            leaf, leaf_type = np.asarray(all_leaves[i]), self.form.example[i].dtype
            if not np.array_equal(leaf.astype(leaf_type), leaf, equal_nan=True):
                raise InvalidInput(
                    f"{self.form.names[i]} of {self.world.title} does not fit into "
                    f"{leaf_type.name}, as the environment computes "
                    f"here{'' if self.x64 else '; give x64=true'}."
                )
            arrays.append(leaf.astype(leaf_type))
        return self.layout.pack(arrays)

    def _state_after(self, moves: list[Any]) -> RowState:
        """The state after these moves from the initial one, where chance has no part."""
        if self.form.matter.chance:
            raise InvalidInput(
                f"Moves alone do not tell a state of {self.world.title}, where chance "
                "has a part; give "
                f"{', '.join(leaf.name for leaf in self.layout.leaves)}."
            )
        assert self.origin is not None
        state = self.origin
        for move_index, move in enumerate(moves):
            is_whole = isinstance(move, int) and not isinstance(move, bool)
            is_action = is_whole and 0 <= move < self.world.num_actions
            if not is_action or self.is_over(state) or not self.is_legal(state, move):
                raise InvalidInput(
                    f"Move {move!r} of {moves} is not legal after {moves[:move_index]}."
                )
            _, state = self(state, move, None)
        return state

    def is_legal(self, state: RowState, action: int) -> bool:
        """Whether an action is legal."""
        if self.world.legal is None:
            return True
        first_byte = self.layout.starts[self.layout.leaf_index(self.world.legal)]
        return bool(state.words[first_byte + action])

    def plain(self, state: RowState) -> dict[str, Any]:
        """The leaves by name, which ``parse`` reads."""
        return self.layout.plain(state)

    # --- companions of the step ---

    def companions(self) -> dict[str, Any]:
        """``terminal``, and ``legal`` and ``player`` where the world has them."""
        layout, world, first_player = self.layout, self.world, self.first
        end_leaves = [layout.leaf_index(name) for name in world.ends]

        def terminal(leaves: Any) -> Any:
            is_over = leaves[end_leaves[0]]
            for leaf_index in end_leaves[1:]:
                is_over = is_over | leaves[leaf_index]
            return is_over

        functions: dict[str, Any] = {
            "terminal": RowFunction(terminal, self.backend, self.is_over)
        }
        if world.legal is not None:
            legal_leaf = layout.leaf_index(world.legal)

            def legal(leaves: Any, action: Any) -> Any:
                return leaves[legal_leaf][action]

            functions["legal"] = RowFunction(legal, self.backend, self.is_legal)
        if world.mover is not None and first_player is not None:
            mover_leaf = layout.leaf_index(world.mover)

            def player(leaves: Any) -> Any:
                return jnp.where(leaves[mover_leaf] == first_player, 1, 2)

            def plays(state: RowState) -> int:
                return 1 if self.mover(state) == first_player else 2

            functions["player"] = RowFunction(player, self.backend, plays)
        return functions

    def identity(self) -> WorldKey:
        """The key of this world's states."""
        has_floats = any(
            np.dtype(leaf.dtype).kind == "f" for leaf in self.layout.leaves
        )
        float_type = "float64" if self.x64 else "float32"
        rounding_type = float_type if has_floats or self.reward_rounding else ""
        return WorldKey(self.world.title, rounding_type)


NO_KEY = np.zeros(2, dtype=np.uint32)


def _key_words(rng: Any) -> NDArray[np.uint32]:
    """The next 64 bits of a stream, as the words of a key."""
    word = int(rng.raw())
    return np.array([word >> 32, word & 0xFFFFFFFF], dtype=np.uint32)


def rows_of(world: JaxWorld, seed: int, *, two_players: bool = False) -> WorldRows:
    """The oracle of a world, with an initial state from the stream of ``seed``.

    Of two players the one that begins there maximizes.
    """
    key = jax.random.wrap_key_data(_key_words(stream(seed)))
    try:
        form = form_of(world, key)
        draft_oracle = WorldRows(form.step, "jax", each=True, x64=world.x64, form=form)
        origin = draft_oracle.reset(stream(seed))
        first_player = draft_oracle.mover(origin) if two_players else None
        oracle = replace(draft_oracle, first=first_player, origin=origin)
        oracle.warm()
    except SmoothcruiserError:
        raise
    except Exception as error:
        remedy = "drop x64=" if world.x64 else "fix it"
        raise InvalidInput(
            f"{world.title} cannot be stepped in {64 if world.x64 else 32} bits "
            f"({describe_error(error):.200}); {remedy}."
        ) from error
    return oracle
