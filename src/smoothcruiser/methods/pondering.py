"""Thinking while the other moves: a thread that grows an agent's tree.

The thread ends when the next decision is due, and is waited for, so that a tree is
never grown by two; it ends with the agent too. How far it comes depends on the clock:
with pondering the same seed does not give the same play.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from smoothcruiser.tree.growth import Growth

if TYPE_CHECKING:
    from smoothcruiser.progress import Progress
    from smoothcruiser.tree.tree import Tree

LONGEST = 600.0  # seconds, for an agent that is never asked again


class Pondering:
    """A tree that grows in a thread from now on, for as long as its owner is there."""

    def __init__(self, tree: Tree, owner: object, seconds: float = LONGEST) -> None:
        self._over = threading.Event()
        # an agent that nobody holds any more is never asked again
        weakref.finalize(owner, self._over.set).atexit = False
        self._error: BaseException | None = None
        self._growth = Growth(seconds=seconds, progress=self._goes_on)
        self._tree = tree
        self._thread = threading.Thread(
            target=self._grow_tree, name="smoothcruiser-ponder", daemon=True
        )
        self._thread.start()

    def _goes_on(self, news: Progress) -> bool:
        return not self._over.is_set()

    def _grow_tree(self) -> None:
        try:
            self._tree.grow_by(self._growth)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        """Stop, and wait until the tree has stopped; an error is raised here."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
