"""A world in JAX: an environment as pure functions, and its states as trees and bytes.

``JaxWorld`` is what an adapter knows of an environment. ``form_of`` looks at one initial
state and at the equations of the step, and finds the form of the states: the structure of
the tree, the types that a step takes and returns alike, the names of the leaves, and which
of them matter (``dataflow``). Leaves that do not matter keep the values of that initial
state: nothing that is asked depends on them.

What this file decides: what is a leaf, what it is called, and how leaves become bytes inside
compiled code. It leaves out stepping (``worlds``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.batched.dataflow import Relevance, relevance
from smoothcruiser.problem.batched.jax import jax, jnp, precise
from smoothcruiser.problem.batched.layout import Leaf, RowLayout

ROUNDS = 4  # of steps until the types of a state's leaves must have settled
HOLDS_KEY = re.compile(r"(^|[._])(p?rng|key|rng_key|prng_key)$")
_ACTION = jax.ShapeDtypeStruct((), np.dtype("int32"))


@dataclass(frozen=True, eq=False)
class JaxWorld:
    """An environment as pure functions of one state, a tree of arrays."""

    title: str
    step: Callable[[Any, Any, Any], tuple[Any, Any, Any]]  # reward, next state, end
    init: Callable[[Any], Any]  # an initial state, from a key
    num_actions: int
    ends: tuple[str, ...]  # the leaves, any of which says that the episode is over
    stands_for: Any  # plain data for fingerprints: name, parameters, modules
    # the same as ``step``, in the form that is compiled; ``step`` is read for data flow
    run: Callable[[Any, Any, Any], tuple[Any, Any, Any]] | None = None
    legal: str | None = None  # the leaf that marks legal actions
    mover: str | None = None  # the leaf with the number of the player to move
    x64: bool = False
    read: Callable[[Any], Any] | None = None  # the tree of a state of the library's own
    whole_rewards: bool = False  # whether rewards are whole numbers below 2**24
    inside: str = ""  # the field of the tree whose leaves need no prefix
    nan_means: str = "fix the environment there"


# --- trees --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Form:
    """How a world's states are trees, and which leaves matter."""

    world: JaxWorld
    tree: Any  # JAX's description of the tree
    names: tuple[str, ...]  # of all leaves
    example: tuple[NDArray[Any], ...]  # all leaves of one initial state
    matter: Relevance

    @cached_property
    def layout(self) -> RowLayout:
        """The leaves that matter, as bytes."""
        kept = [(self.names[i], self.example[i]) for i in self.matter.leaves]
        return RowLayout(
            self.world.title,
            tuple(Leaf(name, x.shape, x.dtype.name) for name, x in kept),
        )

    def whole(self, leaves: Any) -> Any:
        """The tree with these leaves; those that do not matter are the example's."""
        every = [jnp.asarray(x) for x in self.example]
        for i, leaf in zip(self.matter.leaves, leaves, strict=True):
            every[i] = leaf
        return jax.tree.unflatten(self.tree, every)

    def kept(self, state: Any) -> tuple[Any, ...]:
        """The leaves of a tree that matter."""
        every = jax.tree.leaves(state)
        return tuple(
            jnp.asarray(every[i]).astype(self.example[i].dtype)
            for i in self.matter.leaves
        )

    def step(self, leaves: Any, action: Any, key: Any) -> tuple[Any, Any]:
        """(reward, next leaves) of one state."""
        run = self.world.run or self.world.step
        paid, after, _ = run(self.whole(leaves), action, key)
        return jnp.reshape(paid, ()), self.kept(after)


def form_of(world: JaxWorld, key: Any) -> Form:
    """The form of a world's states, from an initial one and the step's equations."""
    with precise(world.x64):
        start = jax.tree.map(jnp.asarray, jax.jit(world.init)(key))
        paths, tree = jax.tree_util.tree_flatten_with_path(start)
        names = _names(start, [path for path, _ in paths], world.inside)
        shapes = _settled(world, tree, [leaf for _, leaf in paths], names, key)
        example = tuple(
            np.asarray(leaf).astype(shape.dtype)
            for (_, leaf), shape in zip(paths, shapes, strict=True)
        )
        read = (*world.ends, world.legal, world.mover)
        observed = {names.index(name) for name in read if name is not None}

        def flat(*arguments: Any) -> list[Any]:
            *leaves, action, word = arguments
            state = jax.tree.unflatten(tree, leaves)
            paid, after, ended = world.step(state, action, word)
            return [paid, ended, *jax.tree.leaves(after)]

        forms = (*shapes, _ACTION, jax.eval_shape(lambda: jax.random.key(0)))
        matter = relevance(flat, forms, observed, world.title)
    for i in matter.leaves:
        if HOLDS_KEY.search(names[i]) and example[i].dtype == np.uint32:
            raise InvalidInput(
                f"{world.title} keeps its random key in its state ({names[i]}), so a "
                "planner would foresee what is random; take the key as an argument of "
                "the step."
            )
    return Form(world, tree, names, example, matter)


def _settled(
    world: JaxWorld, tree: Any, leaves: list[Any], names: tuple[str, ...], key: Any
) -> list[Any]:
    """Shapes and types of the leaves that a step takes and returns alike."""
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
    for _ in range(ROUNDS):
        state = jax.tree.unflatten(tree, shapes)
        _, after, _ = jax.eval_shape(world.step, state, _ACTION, key)
        found, others = jax.tree.flatten(after)
        if others != tree:
            raise InvalidInput(
                f"The step of {world.title} returns a state of another structure than "
                "it takes; let every state have the same fields."
            )
        for name, one, other in zip(names, shapes, found, strict=True):
            typed = jnp.issubdtype(other.dtype, jax.dtypes.prng_key)
            if one.shape != other.shape or typed:
                what = "holds a random key" if typed else f"has shape {other.shape}"
                raise InvalidInput(
                    f"{name} of {world.title} {what} after a step, {one.shape} before; "
                    "let states be numbers of fixed shapes."
                )
        after_types = [
            jnp.promote_types(one.dtype, other.dtype)
            for one, other in zip(shapes, found, strict=True)
        ]
        if after_types == [x.dtype for x in shapes]:
            return shapes
        shapes = [
            jax.ShapeDtypeStruct(x.shape, kind)
            for x, kind in zip(shapes, after_types, strict=True)
        ]
    raise InvalidInput(
        f"The step of {world.title} changes the types of its state again and again; let "
        "it return the types that it takes."
    )


def _names(state: Any, paths: list[Any], inside: str) -> tuple[str, ...]:
    """The names of a tree's leaves: attributes and positions, joined by dots.

    Dataclasses that give JAX no names of their fields are read by their order.
    """
    long = [".".join(_steps(state, list(path))) for path in paths]
    short = tuple(name.removeprefix(f"{inside}.") for name in long)
    return short if len(set(short)) == len(short) else tuple(long)


def _steps(node: Any, path: list[Any]) -> list[str]:
    if not path:
        return []
    step, rest = path[0], path[1:]
    word = getattr(step, "name", getattr(step, "key", getattr(step, "idx", None)))
    if isinstance(word, int) and hasattr(node, "__dataclass_fields__"):
        fields = node.__dataclass_fields__
        held = [n for n, f in fields.items() if f.metadata.get("pytree_node", True)]
        word = held[word]
    below = getattr(node, str(word), None)
    if below is None:
        try:
            below = node[word]
        except (TypeError, KeyError, IndexError):
            return [str(word), *(str(x).strip(".[]'") for x in rest)]
    return [str(word), *_steps(below, rest)]


def held(env: Any) -> dict[str, Any]:
    """What an environment was made with, as plain data for a fingerprint.

    Arrays are read, and of other objects the type: two environments that differ deeper
    inside are told apart by their names alone.
    """

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return np.asarray(value)
        if isinstance(value, tuple | list):
            return tuple(plain(part) for part in value)
        return type(value).__qualname__

    return {
        name: plain(value)
        for name, value in sorted(getattr(env, "__dict__", {}).items())
    }


# --- bytes --------------------------------------------------------------------


def to_bytes(leaves: Any) -> Any:
    """The bytes of arrays, one after the other, in JAX."""
    parts = [jnp.zeros(0, jnp.uint8)]
    for leaf in leaves:
        plain = leaf.astype(jnp.uint8) if leaf.dtype == jnp.bool_ else leaf
        parts.append(jax.lax.bitcast_convert_type(plain, jnp.uint8).reshape(-1))
    return jnp.concatenate(parts)


def from_bytes(layout: RowLayout, words: Any) -> list[Any]:
    """The arrays of a row of bytes, in JAX."""
    found = []
    for i, leaf in enumerate(layout.leaves):
        part, kind = (
            words[layout.starts[i] : layout.starts[i + 1]],
            np.dtype(leaf.dtype),
        )
        if kind == np.bool_:
            found.append((part != 0).reshape(leaf.shape))
            continue
        shape = leaf.shape if kind.itemsize == 1 else (*leaf.shape, kind.itemsize)
        found.append(jax.lax.bitcast_convert_type(part.reshape(shape), kind))
    return found
