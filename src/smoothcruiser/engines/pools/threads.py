"""Pools in this process: this thread, or threads for machine code.

Threads help only machine code, which releases the interpreter's lock.

Machine code runs in a pool even where it has one thread: it cannot be interrupted,
so the main thread has to be free to take a Ctrl-C and to set the stop flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from smoothcruiser.engines.pools.base import POLL_SECONDS, Futures, Item, Result, Task

Interrupt = Callable[[], object]  # asks what is under way to end


class ThisThread:
    """A pool without workers: items run one by one in this thread."""

    stopped: bool = False
    abandoned: Sequence[Any] = ()
    reachable: bool = True

    def __init__(self, built: Any, interrupt: Interrupt) -> None:
        self.built, self.interrupt = built, interrupt

    def map(
        self,
        task: Task[Item, Result],
        items: Iterator[Item],
        report: Callable[[Item, Result], bool],
    ) -> None:
        """As in ``Pool``."""
        for item in items:
            if report(item, task(self.built, item)):
                return

    def ask(self, task: Task[Item, Result], item: Item) -> Result:
        """As in ``Pool``."""
        return task(self.built, item)

    def stop(self) -> None:
        """As in ``Pool``."""
        self.stopped = True
        self.interrupt()

    def close(self) -> None:
        """Do nothing: nothing is held."""


class Threads(Futures):
    """Threads that share what was built."""

    def __init__(self, size: int, built: Any, interrupt: Interrupt) -> None:
        self.size, self.built, self.interrupt = size, built, interrupt
        self.threads = ThreadPoolExecutor(size, thread_name_prefix="smoothcruiser")
        self.abandoned: list[Any] = []

    def ask(self, task: Task[Item, Result], item: Item) -> Result:
        """The result of one item, computed in this thread.

        Signals, which end a call that hangs, arrive only here.
        """
        return task(self.built, item)

    def window(self) -> int:  # noqa: D102
        return self.size

    def submit(self, task: Task[Item, Result], item: Item) -> Future[Result]:  # noqa: D102
        return self.threads.submit(task, self.built, item)

    def finished(self, futures: list[Future[Any]]) -> Iterable[Future[Any]]:  # noqa: D102
        return wait(futures, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done

    def result(self, future: Future[Any]) -> Any:  # noqa: D102
        return future.result()

    def abandon(self, futures: list[Future[Any]]) -> None:
        """Wait for items that cannot be cancelled.

        That is soon: machine code checks the stop flag every few milliseconds.
        """
        self.interrupt()
        for future in futures:
            if not future.cancel():
                error = future.exception()
                self.abandoned.append(future.result() if error is None else error)

    def stop(self) -> None:  # noqa: D102
        self.stopped = True
        self.interrupt()

    def close(self) -> None:
        """End the threads."""
        self.threads.shutdown(wait=True, cancel_futures=True)
