"""Oracles: the answers that a simulator must give, and its optional abilities.

A step is any function of (state, action, rng). An adapter's oracle may know
more about its simulator. Each of these is a protocol of its own, and an oracle
that has its methods offers it:

  ``ParsingOracle``     reads a state from plain data (JSON) or from a running
                        simulator
  ``WritingOracle``     writes its states as plain data, which ``parse`` reads
  ``ResettingOracle``   samples initial states
  ``LiveOracle``        reads the state of a running simulator, and knows the
                        names of the problem's actions there
  ``ObservingOracle``   knows a simulator's observation of a state
  ``LabellingOracle``   names the actions of a state, for readers of answers

Any object may also have a method ``__fingerprint__``, which returns plain data that
stands for it where its fields cannot (``fingerprint``).

The answers that a step may give, and the errors for all others, are in ``answers``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

# (state, action, rng) -> (reward, next_state) or (reward, next_state, terminated)
Step = Callable[[Any, int, Any], tuple[Any, ...]]
# (state, action) -> [(probability, reward, next_state), …]
Outcomes = Callable[[Any, int], Sequence[tuple[float, float, Any]] | None]


@runtime_checkable
class ParsingOracle(Protocol):
    """An oracle that understands other forms of its states."""

    def parse(self, state: Any) -> Any:
        """The state that ``state`` stands for; states as they are."""


@runtime_checkable
class WritingOracle(Protocol):
    """An oracle that can write its states as plain data."""

    def plain(self, state: Any) -> Any:
        """Plain data that ``parse`` turns into ``state``: numbers, words, lists."""


@runtime_checkable
class ResettingOracle(Protocol):
    """An oracle with a distribution of initial states."""

    def reset(self, rng: Any) -> Any:
        """An initial state, sampled from the stream ``rng``."""


@runtime_checkable
class LiveOracle(Protocol):
    """An oracle of simulators that also run on their own."""

    actions: Sequence[Any]  # the problem's actions 0, 1, … in the simulator's own form

    def read(self, simulator: Any) -> Any:
        """The state that a running simulator is in, which is left as it is."""


@runtime_checkable
class ObservingOracle(Protocol):
    """An oracle that knows its simulator's observation of a state."""

    def observe(self, state: Any) -> Any:
        """A policy's observation of ``state``, which is left as it is."""


@runtime_checkable
class LabellingOracle(Protocol):
    """An oracle with names of actions that depend on the state."""

    def label(self, state: Any, action: int) -> str | None:
        """The name of ``action`` in ``state``; None where it has no name there."""


def name_action(oracle: LabellingOracle, state: Any, action: int) -> str:
    """The name of an action, or its number where the oracle gives no name."""
    try:
        label = oracle.label(state, action)
    except Exception:
        return str(action)
    return label if isinstance(label, str) and label else str(action)
