"""Oracles: what a simulator has to answer, and what it may offer besides.

A step is any function of (state, action, rng). An adapter's oracle may know
more about its simulator. Each of these is a protocol of its own, and an oracle
that has its methods offers it:

  ``ParsingOracle``     reads a state from plain data (JSON) or from a running
                        simulator
  ``WritingOracle``     writes its states as plain data, which ``parse`` reads
  ``ResettingOracle``   samples initial states
  ``LiveOracle``        reads the state of a running simulator, and knows what
                        the problem's actions are called there
  ``ObservingOracle``   knows what a simulator shows in a state
  ``LabellingOracle``   names the actions of a state, for people who read answers

Any object may also have a method ``__fingerprint__``, which returns plain data that
stands for it where its fields cannot (``fingerprint``).

What a step may answer, and what is said otherwise, is in ``answers``.
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
    """An oracle that can say in plain data what its states are."""

    def plain(self, state: Any) -> Any:
        """What ``parse`` makes ``state`` of: numbers, words, lists."""


@runtime_checkable
class ResettingOracle(Protocol):
    """An oracle with a distribution of initial states."""

    def reset(self, rng: Any) -> Any:
        """An initial state, sampled from the stream ``rng``."""


@runtime_checkable
class LiveOracle(Protocol):
    """An oracle of simulators that also run on their own."""

    actions: Sequence[Any]  # what the problem's actions 0, 1, … are in the simulator

    def read(self, simulator: Any) -> Any:
        """The state that a running simulator is in, which is left as it is."""


@runtime_checkable
class ObservingOracle(Protocol):
    """An oracle that knows what its simulator shows in a state."""

    def observe(self, state: Any) -> Any:
        """What a policy of the simulator sees in ``state``, which is left as it is."""


@runtime_checkable
class LabellingOracle(Protocol):
    """An oracle whose actions have names that depend on the state."""

    def label(self, state: Any, action: int) -> str | None:
        """What ``action`` is called in ``state``; None where it has no name there."""


def name_action(oracle: LabellingOracle, state: Any, action: int) -> str:
    """The name of an action, or its number: no answer is lost for want of a word."""
    try:
        label = oracle.label(state, action)
    except Exception:
        return str(action)
    return label if isinstance(label, str) and label else str(action)
