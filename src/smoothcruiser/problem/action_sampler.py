"""Actions from a sampler: continuous ones, or too many to list.

A problem with ``sample_action(state, rng)`` has at every state a list of ``num_actions``
sampled actions, and its action n is the n-th of them (``numbered_actions``). The list of a state
never changes, so trees, agents and rollouts need not know: they see numbers. The step
gets the action itself. The best of the sampled actions is worth at most
as much as the best of all, so any lower bound on the value of a policy over numbers is
one on V; two-sided promises about V cannot be had this way, and are refused.

Only ``Max()`` has a meaning here: a regularizer would weigh the sampled list, not the actions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.operators import Max
from smoothcruiser.problem.batched import Batched
from smoothcruiser.states.identity import state_key

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import ProblemFields

# Actions that are sampled at a state where ``num_actions`` says nothing: with ten times
# the square root of the visits (``tree.search_setting``), 41 decisions open so many.
DEFAULT_ACTIONS = 64
SHOWN_ITEMS = 8  # of an action that is an array


class SampledStep:
    """A plain step over numbers of actions."""

    def __init__(
        self,
        step: Callable[..., Any],
        sample_action: Callable[..., Any],
        key: Callable[[Any], Any] | None,
    ) -> None:
        self.step, self.sample_action, self.key = step, sample_action, key

    def __call__(self, state: Any, action: int, rng: Any) -> Any:
        """The answer of the step to the action with this number."""
        return self.step(state, self.nth_action(state, action), rng)

    def nth_action(self, state: Any, number: int) -> Any:
        """The action with this number."""
        from smoothcruiser.jit.random.streams import from_words
        from smoothcruiser.problem.numbered_actions import seed_words

        list_key = state_key(state) if self.key is None else self.key(state)
        stream_words = seed_words(_stable_hash(list_key), int(number))
        return self.sample_action(state, from_words(stream_words))


def _stable_hash(key: Any) -> int:
    """A hash that is equal for equal keys, in every process.

    Python's own is, for numbers; for text it differs between processes.
    """
    if isinstance(key, str | bytes):
        raw_bytes = key.encode() if isinstance(key, str) else key
        digest = hashlib.blake2b(raw_bytes, digest_size=8).digest()
        return int.from_bytes(digest, "little")
    if isinstance(key, tuple):
        combined_hash = len(key)
        for element in key:
            combined_hash = (combined_hash * 1000003 ^ _stable_hash(element)) % 2**64
        return combined_hash
    return hash(key) % 2**64


def check_sampler(problem: ProblemFields) -> None:
    """Refuse arguments that do not go with a sampler."""
    if problem.sample_action is None:
        return
    if not callable(problem.sample_action):
        raise InvalidInput(
            "sample_action must be a function sample_action(state, rng), got "
            f"{problem.sample_action!r}."
        )
    for field_name in ("legal", "outcomes", "actions", "tables"):
        if getattr(problem, field_name) is not None:
            raise InvalidInput(
                f"{field_name}= belongs to actions that are listed, and sample_action= "
                "samples them; drop one of the two."
            )
    if isinstance(problem.oracle, Batched):
        raise InvalidInput(
            "sample_action= goes with a step of one state and one action, not with a "
            "batched one."
        )
    if not isinstance(problem.operator, Max):
        raise InvalidInput(
            "sample_action= goes with operator=Max() alone: a regularizer would weigh the "
            f"sampled list of actions, not the actions; got {problem.operator!r}."
        )


@dataclass(frozen=True)
class Numbering:
    """How the sampled actions of a problem are numbered."""

    step: Callable[..., Any]  # over numbers of actions
    user_step: Callable[..., Any]  # over actions
    sampler: Callable[..., Any]
    key: Callable[..., Any] | None  # the problem's
    nth_action: Callable[[Any, int], Any]  # (state, number) -> action


def make_numbering(problem: ProblemFields) -> Numbering:
    """The numbering of a problem that still has the user's step as its oracle."""
    step, sampler, key = problem.oracle, problem.sample_action, problem.key
    assert sampler is not None
    if is_compiled(step) and is_compiled(sampler) and key is None:
        from smoothcruiser.problem.numbered_actions import compiled_list

        over_numbers, nth_action = compiled_list(step, sampler)
        return Numbering(over_numbers, step, sampler, key, nth_action)
    sampled_step = SampledStep(step, sampler, key)
    return Numbering(sampled_step, step, sampler, key, sampled_step.nth_action)


def number_actions(problem: ProblemFields) -> None:
    """Put a step over numbers in the place of one over sampled actions."""
    if problem.sample_action is None:
        return
    old_numbering = (
        problem.numbering
    )  # that of a problem of which ``replace`` makes a copy
    if old_numbering is not None and old_numbering.step is problem.oracle:
        if (
            old_numbering.sampler is problem.sample_action
            and old_numbering.key is problem.key
        ):
            return
        object.__setattr__(problem, "oracle", old_numbering.user_step)
    new_numbering = make_numbering(problem)
    object.__setattr__(problem, "numbering", new_numbering)
    object.__setattr__(problem, "oracle", new_numbering.step)


def refuse_sampled(problem: ProblemFields, what: str) -> None:
    """Refuse a problem with sampled actions, for a method that needs all of them."""
    if problem.sample_action is not None:
        raise InvalidInput(
            f"{what} needs a list of all actions, and this problem samples them "
            "(sample_action=); use a tree search such as method='uct', or evaluate a "
            "policy."
        )


def format_action(action: Any) -> str:
    """An action as text."""
    if isinstance(action, bool | np.bool_ | str):
        return str(action)
    if isinstance(action, int | float | np.number):
        return f"{action:.6g}"
    elements = list(np.ravel(action)) if isinstance(action, np.ndarray) else None
    if elements is None and isinstance(action, tuple | list):
        elements = list(action)
    if elements is None:
        return str(action)
    elements_text = ", ".join(
        format_action(element) for element in elements[:SHOWN_ITEMS]
    )
    return f"({elements_text}{', …' if len(elements) > SHOWN_ITEMS else ''})"
