"""A world in JAX: an environment as pure functions, and its states as trees and bytes.

``JaxWorld`` holds an adapter's knowledge of an environment. ``form_of`` looks at one
initial state and at the equations of the step, and finds the form of the states: the
structure of the tree, the types that a step takes and returns alike, the names of the
leaves, and which of them matter (``find_relevance``). Leaves that do not matter keep the
values of that initial state: no question of a planner depends on them.

This file decides which arrays are leaves, their names, and how leaves become bytes in
compiled code. It leaves out stepping (``worlds``).

The parts of a state that matter to a planner, read off the step itself.

The state of an environment holds more than its future depends on: the last observation,
the last rewards, counters for statistics. Kept in a state, they keep equal futures
apart. JAX traces a step into a list of equations (a jaxpr), so the inputs of an output
are visible there and need not be guessed. Let D(x) be the inputs on which the output x
depends. The leaves that matter are the smallest set S with

    S  contains  the leaves that legal moves, mover and end are read from
    S  contains  D(reward), D(end), and D(next value of l) for every l in S

By induction over the steps, states that agree in S have the same future under the same
actions and keys. If no key is in these D, nothing is left to chance: the step is
deterministic. D comes from dead-code elimination, which may call an input needed that is
not, and never the other way.

A traced step also remembers nothing, since equations have no memory. Only calls back
into Python have (``pure_callback`` and its kin): such a step is refused. This file
leaves out values of leaves that differ and have equal futures all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.batched.jax import jax, jnp, precise
from smoothcruiser.problem.batched.layout import Leaf, RowLayout

CALLS_BACK = "callback"  # part of the names of all primitives that call Python


@dataclass(frozen=True)
class Relevance:
    """The leaves that matter, in order, and whether chance has a part."""

    leaves: tuple[int, ...]
    chance: bool


def find_relevance(
    step: Callable[..., Any], forms: Sequence[Any], observed: set[int], title: str
) -> Relevance:
    """The leaves that matter to a step, and whether chance does.

    Args:
        step: ``step(*leaves, action, key) -> (reward, end, *next_leaves)``.
        forms: shapes and types of its arguments.
        observed: the leaves that legal moves, mover and end are read from.
        title: of the environment, for messages.
    """
    traced_step = jax.make_jaxpr(step)(*forms)
    for primitive_name in _primitives(traced_step.jaxpr):
        if CALLS_BACK in primitive_name:
            raise InvalidInput(
                f"{title} calls Python from inside its step ({primitive_name}), which "
                "may remember what no state holds; write the step in JAX alone."
            )
    num_leaves = len(forms) - 2
    relevant_leaves, uses_chance = set(observed), True
    eliminate_code = getattr(jax.interpreters.partial_eval, "dce_jaxpr", None)
    if eliminate_code is None:  # a JAX without it: everything may matter
        return Relevance(tuple(range(num_leaves)), True)
    while True:
        wanted_outputs = [
            True,
            True,
            *(i in relevant_leaves for i in range(num_leaves)),
        ]
        _, used_inputs = eliminate_code(traced_step.jaxpr, wanted_outputs)
        uses_chance = bool(used_inputs[num_leaves + 1])
        enlarged_leaves = relevant_leaves | {
            i for i in range(num_leaves) if used_inputs[i]
        }
        if enlarged_leaves == relevant_leaves:
            return Relevance(tuple(sorted(relevant_leaves)), uses_chance)
        relevant_leaves = enlarged_leaves


def _primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all primitives of a program, those inside others too."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner_program in _programs(list(equation.params.values())):
            yield from _primitives(inner_program)


def _programs(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _programs(value)
        elif hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr"):
            yield value.jaxpr


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
    read: Callable[[Any], Any] | None = (
        None  # the tree of a state of the library's own
    )
    whole_rewards: bool = False  # whether rewards are whole numbers below 2**24
    inside: str = ""  # the field of the tree with leaves that need no prefix
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
        relevant_leaves = [
            (self.names[i], self.example[i]) for i in self.matter.leaves
        ]
        return RowLayout(
            self.world.title,
            tuple(
                Leaf(name, example.shape, example.dtype.name)
                for name, example in relevant_leaves
            ),
        )

    def fill_tree(self, leaves: Any) -> Any:
        """The tree with these leaves; those that do not matter are the example's."""
        all_leaves = [jnp.asarray(example) for example in self.example]
        for i, leaf in zip(self.matter.leaves, leaves, strict=True):
            all_leaves[i] = leaf
        return jax.tree.unflatten(self.tree, all_leaves)

    def relevant_leaves(self, state: Any) -> tuple[Any, ...]:
        """The leaves of a tree that matter."""
        all_leaves = jax.tree.leaves(state)
        return tuple(
            jnp.asarray(all_leaves[i]).astype(self.example[i].dtype)
            for i in self.matter.leaves
        )

    def step(self, leaves: Any, action: Any, key: Any) -> tuple[Any, Any]:
        """(reward, next leaves) of one state."""
        run_step = self.world.run or self.world.step
        reward, next_state, _ = run_step(self.fill_tree(leaves), action, key)
        return jnp.reshape(reward, ()), self.relevant_leaves(next_state)


def form_of(world: JaxWorld, key: Any) -> Form:
    """The form of a world's states, from an initial one and the step's equations."""
    with precise(world.x64):
        initial_state = jax.tree.map(jnp.asarray, jax.jit(world.init)(key))
        leaf_paths, tree = jax.tree_util.tree_flatten_with_path(initial_state)
        leaf_names = _leaf_names(
            initial_state, [path for path, _ in leaf_paths], world.inside
        )
        leaf_shapes = _settle_types(
            world, tree, [leaf for _, leaf in leaf_paths], leaf_names, key
        )
        example = tuple(
            np.asarray(leaf).astype(shape.dtype)
            for (_, leaf), shape in zip(leaf_paths, leaf_shapes, strict=True)
        )
        read_names = (*world.ends, world.legal, world.mover)
        observed_leaves = {
            leaf_names.index(leaf_name)
            for leaf_name in read_names
            if leaf_name is not None
        }

        def flat(*arguments: Any) -> list[Any]:
            *leaves, action, step_key = arguments
            state = jax.tree.unflatten(tree, leaves)
            reward, next_state, ended = world.step(state, action, step_key)
            return [reward, ended, *jax.tree.leaves(next_state)]

        argument_forms = (
            *leaf_shapes,
            _ACTION,
            jax.eval_shape(lambda: jax.random.key(0)),
        )
        matter = find_relevance(flat, argument_forms, observed_leaves, world.title)
    for i in matter.leaves:
        if HOLDS_KEY.search(leaf_names[i]) and example[i].dtype == np.uint32:
            raise InvalidInput(
                f"{world.title} keeps its random key in its state ({leaf_names[i]}), "
                "so a planner would foresee what is random; take the key as an "
                "argument of the step."
            )
    return Form(world, tree, leaf_names, example, matter)


def _settle_types(
    world: JaxWorld, tree: Any, leaves: list[Any], names: tuple[str, ...], key: Any
) -> list[Any]:
    """Shapes and types of the leaves that a step takes and returns alike."""
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
    for _ in range(ROUNDS):
        state = jax.tree.unflatten(tree, shapes)
        _, next_state, _ = jax.eval_shape(world.step, state, _ACTION, key)
        next_shapes, next_tree = jax.tree.flatten(next_state)
        if next_tree != tree:
            raise InvalidInput(
                f"The step of {world.title} returns a state of another structure than "
                "it takes; let every state have the same fields."
            )
        for leaf_name, old_shape, new_shape in zip(
            names, shapes, next_shapes, strict=True
        ):
            is_key = jnp.issubdtype(new_shape.dtype, jax.dtypes.prng_key)
            if old_shape.shape != new_shape.shape or is_key:
                change_text = (
                    "holds a random key" if is_key else f"has shape {new_shape.shape}"
                )
                raise InvalidInput(
                    f"{leaf_name} of {world.title} {change_text} after a step, "
                    f"{old_shape.shape} before; let states be numbers of fixed shapes."
                )
        settled_types = [
            jnp.promote_types(old_shape.dtype, new_shape.dtype)
            for old_shape, new_shape in zip(shapes, next_shapes, strict=True)
        ]
        if settled_types == [x.dtype for x in shapes]:
            return shapes
        shapes = [
            jax.ShapeDtypeStruct(x.shape, settled_type)
            for x, settled_type in zip(shapes, settled_types, strict=True)
        ]
    raise InvalidInput(
        f"The step of {world.title} changes the types of its state again and again; let "
        "it return the types that it takes."
    )


def _leaf_names(state: Any, paths: list[Any], inside: str) -> tuple[str, ...]:
    """The names of a tree's leaves: attributes and positions, joined by dots.

    Dataclasses that give JAX no names of their fields are read by their order.
    """
    full_names = [".".join(_path_words(state, list(path))) for path in paths]
    short_names = tuple(name.removeprefix(f"{inside}.") for name in full_names)
    return (
        short_names if len(set(short_names)) == len(short_names) else tuple(full_names)
    )


def _path_words(node: Any, path: list[Any]) -> list[str]:
    if not path:
        return []
    path_step, other_steps = path[0], path[1:]
    path_word = getattr(
        path_step, "name", getattr(path_step, "key", getattr(path_step, "idx", None))
    )
    if isinstance(path_word, int) and hasattr(node, "__dataclass_fields__"):
        dataclass_fields = node.__dataclass_fields__
        node_fields = [
            field_name
            for field_name, node_field in dataclass_fields.items()
            if node_field.metadata.get("pytree_node", True)
        ]
        path_word = node_fields[path_word]
    child = getattr(node, str(path_word), None)
    if child is None:
        try:
            child = node[path_word]
        except (TypeError, KeyError, IndexError):
            return [
                str(path_word),
                *(str(other_step).strip(".[]'") for other_step in other_steps),
            ]
    return [str(path_word), *_path_words(child, other_steps)]


def environment_parameters(env: Any) -> dict[str, Any]:
    """The parameters of an environment, as plain data for a fingerprint.

    Arrays are read, and of other objects the type: two environments that differ deeper
    inside are told apart by their names alone.
    """

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return np.asarray(value)
        if isinstance(value, tuple | list):
            return tuple(plain(element) for element in value)
        return type(value).__qualname__

    return {
        name: plain(value)
        for name, value in sorted(getattr(env, "__dict__", {}).items())
    }


# --- bytes --------------------------------------------------------------------


def to_bytes(leaves: Any) -> Any:
    """The bytes of arrays, one after the other, in JAX."""
    byte_parts = [jnp.zeros(0, jnp.uint8)]
    for leaf in leaves:
        numeric_leaf = leaf.astype(jnp.uint8) if leaf.dtype == jnp.bool_ else leaf
        byte_parts.append(
            jax.lax.bitcast_convert_type(numeric_leaf, jnp.uint8).reshape(-1)
        )
    return jnp.concatenate(byte_parts)


def from_bytes(layout: RowLayout, words: Any) -> list[Any]:
    """The arrays of a row of bytes, in JAX."""
    arrays = []
    for i, leaf in enumerate(layout.leaves):
        leaf_bytes, leaf_type = (
            words[layout.starts[i] : layout.starts[i + 1]],
            np.dtype(leaf.dtype),
        )
        if leaf_type == np.bool_:
            arrays.append((leaf_bytes != 0).reshape(leaf.shape))
            continue
        shape = (
            leaf.shape
            if leaf_type.itemsize == 1
            else (*leaf.shape, leaf_type.itemsize)
        )
        arrays.append(
            jax.lax.bitcast_convert_type(leaf_bytes.reshape(shape), leaf_type)
        )
    return arrays
