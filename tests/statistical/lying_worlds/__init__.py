"""A gallery of lying worlds: how a simulator can deceive a planner, with exact values.

``law`` says what has to happen, ``truth`` computes exact values without the
library, the other files hold the worlds.
"""

from . import declared, edges, identity, late, memory, mutation, randomness
from .law import Ask, Verdict, World, attempt
from .truth import Truth, entropy, solve

try:
    from .gymnasium_copies import WORLDS as COPIES
except ImportError:  # the extra is not installed
    COPIES = ()

WORLDS: tuple[World, ...] = (
    *mutation.WORLDS,
    *memory.WORLDS,
    *randomness.WORLDS,
    *identity.WORLDS,
    *late.WORLDS,
    *declared.WORLDS,
    *COPIES,
    *edges.WORLDS,
)

__all__ = ["WORLDS", "Ask", "Truth", "Verdict", "World", "attempt", "entropy", "solve"]
