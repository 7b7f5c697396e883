"""The protocol of a pool: workers here, in other processes or on a cluster.

Every worker builds one thing once (``Build``), such as an engine or a problem.
A task is a function of that thing and of an item: a shard to run, pairs to
sample, an inspection of the step. So one pool serves schedules and certified
search alike.

``Futures`` has the loop that pools of threads, of processes and on clusters
share. An item is pulled when a worker is free, results are returned as they
come, and nothing is left running at the end. Left out: the place of the workers
(``threads``, ``processes``, ``dask``).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.problem.problem import Problem

MOST_WORKERS = 4096
POLL_SECONDS = 0.1  # a bounded wait, so that Ctrl-C reaches the main thread at once

Item = TypeVar("Item")
Result = TypeVar("Result")
# (the worker's build, item) -> result. It stands at the top of a module, so
# that it can be sent to another process by its name.
Task = Callable[[Any, Item], Result]


@dataclass(frozen=True)
class Build:
    """The recipe that each worker builds from once: ``make(problem, **arguments)``.

    The problem stands apart because pools differ in how they can send it.
    """

    problem: Problem
    make: Callable[..., Any]  # defined at the top of a module
    arguments: dict[str, Any] = field(default_factory=dict)


class Pool(Protocol):
    """Workers that run tasks."""

    def map(
        self,
        task: Task[Item, Result],
        items: Iterator[Item],
        report: Callable[[Item, Result], bool],
    ) -> None:
        """Run the task on every item until they end or ``report`` is True.

        Items are pulled when a worker is free, and reported from this thread in
        any order. A report may bring further items. The first error ends the
        rest and is raised; after ``stop`` that is ``Interrupted``.
        """

    def ask(self, task: Task[Item, Result], item: Item) -> Result:
        """The result of one item."""

    @property
    def reachable(self) -> bool:
        """Whether ``ask`` would get an answer now."""

    @property
    def abandoned_results(self) -> Sequence[Any]:
        """The results or errors of abandoned items, as far as they are known."""

    @property
    def stuck(self) -> int:
        """Items that did not end when they were asked to, and were left behind."""

    def stop(self) -> None:
        """Ask running items to end. May be called from another thread."""

    def restart(self) -> None:
        """Take tasks again after ``stop``."""

    def close(self) -> None:
        """Release threads, processes and connections."""


def check_workers(workers: int | None) -> int:
    """The number of workers: the requested one, or one per core."""
    if workers is None:
        return os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InvalidInput(
            f"workers must be a whole number of at least 1, got {workers!r}."
        )
    if workers > MOST_WORKERS:
        raise InvalidInput(
            f"workers must be at most {MOST_WORKERS:,}, the number of shards that a run "
            f"can have, got {workers!r}."
        )
    return workers


class Futures(ABC):
    """A pool with its running items as futures."""

    stopped: bool = False
    abandoned_results: Sequence[Any] = ()
    reachable: bool = True
    stuck: int = 0
    # for items that are not needed any more, where workers are to serve another run
    patience: float = 0.0

    @abstractmethod
    def window(self) -> int:
        """How many items may be under way at once."""

    @abstractmethod
    def submit(self, task: Task[Item, Result], item: Item) -> Any:
        """The future of an item, which is now under way."""

    @abstractmethod
    def poll_finished(self, futures: list[Any]) -> Iterable[Any]:
        """Those of ``futures`` that are done.

        It waits for at most ``POLL_SECONDS`` until there is one.
        """

    @abstractmethod
    def result(self, future: Any) -> Any:
        """The result that a finished future holds; its error is raised."""

    @abstractmethod
    def abandon(self, futures: list[Any]) -> None:
        """Forget items under way: they are no longer needed."""

    def leave(self, futures: list[Any]) -> None:
        """Forget items under way at the end of a run; its workers may be used again."""
        if futures:
            self.abandon(futures)

    def map(
        self,
        task: Task[Item, Result],
        items: Iterator[Item],
        report: Callable[[Item, Result], bool],
    ) -> None:
        """As in ``Pool``."""
        items_by_future: dict[Any, Item] = {}
        try:
            while True:
                while len(items_by_future) < self.window():
                    next_item = next(items, None)
                    if next_item is None:
                        break
                    items_by_future[self.submit(task, next_item)] = next_item
                if not items_by_future:
                    return
                if self.stopped:
                    raise Interrupted(
                        "The run was stopped before all shards were finished."
                    )
                for future in self.poll_finished(list(items_by_future)):
                    if report(items_by_future.pop(future), self.result(future)):
                        self.leave(list(items_by_future))
                        items_by_future.clear()
                        return
        finally:
            if items_by_future:
                self.abandon(list(items_by_future))

    def stop(self) -> None:
        """As in ``Pool``."""
        self.stopped = True

    def restart(self) -> None:
        """As in ``Pool``."""
        self.stopped = False
