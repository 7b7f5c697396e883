"""Pools in this process: this thread, or threads for machine code.

Threads help only machine code, which releases the interpreter's lock.

Machine code runs in a pool even where it has one thread: it cannot be interrupted,
so the main thread has to be free to take a Ctrl-C and to set the stop flag. A call
of the user's that never returns does not see the flag, and no thread can be ended
from outside. Such a thread is left behind: the run ends without it, and as a daemon
it does not keep the process from ending either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from queue import SimpleQueue
from typing import Any

from smoothcruiser.engines.pools.base import POLL_SECONDS, Futures, Item, Result, Task
from smoothcruiser.errors import Interrupted

Interrupt = Callable[[], object]  # asks running items to end
GRACE_SECONDS = 1.0  # for running items to end; machine code takes milliseconds


class ThisThread:
    """A pool without workers: items run one by one in this thread."""

    stopped: bool = False
    abandoned_results: Sequence[Any] = ()
    reachable: bool = True
    stuck: int = 0

    def __init__(self, built: Any, interrupt: Interrupt) -> None:
        self.built, self.interrupt = built, interrupt

    def map(
        self,
        task: Task[Item, Result],
        items: Iterator[Item],
        report: Callable[[Item, Result], bool],
    ) -> None:
        """As in ``Pool``."""
        while (next_item := next(items, None)) is not None:
            if self.stopped:
                raise Interrupted(
                    "The run was stopped before all shards were finished."
                )
            if report(next_item, task(self.built, next_item)):
                return

    def ask(self, task: Task[Item, Result], item: Item) -> Result:
        """As in ``Pool``."""
        return task(self.built, item)

    def stop(self) -> None:
        """As in ``Pool``."""
        self.stopped = True
        self.interrupt()

    def restart(self) -> None:
        """As in ``Pool``."""
        self.stopped = False

    def close(self) -> None:
        """Do nothing: nothing is held."""


class Threads(Futures):
    """Threads that share one build."""

    def __init__(self, size: int, built: Any, interrupt: Interrupt) -> None:
        self.size, self.built, self.interrupt = size, built, interrupt
        self.abandoned_results: list[Any] = []
        self.orders: SimpleQueue[Any] = SimpleQueue()
        self.threads = [
            threading.Thread(
                target=_serve,
                args=(self.orders, built),
                name=f"smoothcruiser_{number}",
                daemon=True,
            )
            for number in range(size)
        ]
        for thread in self.threads:
            thread.start()

    @property
    def reachable(self) -> bool:  # type: ignore[override]
        """False once a call has not returned: the next one may not either."""
        return not self.stuck

    def ask(self, task: Task[Item, Result], item: Item) -> Result:
        """The result of one item, computed in this thread.

        Signals, which end a call that hangs, arrive only here.
        """
        return task(self.built, item)

    def window(self) -> int:  # noqa: D102
        return self.size

    def submit(self, task: Task[Item, Result], item: Item) -> Future[Result]:  # noqa: D102
        future: Future[Result] = Future()
        self.orders.put((future, task, item))
        return future

    def poll_finished(self, futures: list[Future[Any]]) -> Iterable[Future[Any]]:  # noqa: D102
        return wait(futures, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done

    def result(self, future: Future[Any]) -> Any:  # noqa: D102
        return future.result()

    def abandon(self, futures: list[Future[Any]]) -> None:
        """Wait for items that cannot be cancelled, and leave those that do not end.

        The wait is short: machine code checks the stop flag every few milliseconds.
        """
        self.interrupt()
        under_way = [future for future in futures if not future.cancel()]
        finished_futures, stuck_futures = wait(under_way, timeout=GRACE_SECONDS)
        self.stuck += len(stuck_futures)
        for future in finished_futures:
            error = future.exception()
            self.abandoned_results.append(future.result() if error is None else error)

    def stop(self) -> None:  # noqa: D102
        self.stopped = True
        self.interrupt()

    def close(self) -> None:
        """End the threads, but for those in a call that does not return."""
        for _ in self.threads:
            self.orders.put(None)
        for thread in self.threads:
            thread.join(0.0 if self.stuck else None)


def _serve(orders: SimpleQueue[Any], built: Any) -> None:
    """Run the ordered items one after the other, until an order is None."""
    while (order := orders.get()) is not None:
        future, task, item = order
        if future.set_running_or_notify_cancel():
            try:
                result = task(built, item)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        del order, future, item
