"""A pool on a Dask cluster, the user's own (``scheduler=``) or a local one.

The recipe for workers is sent once, and each thread builds from it once. An item is
a few numbers there and back, so the driver's memory stays flat. Dask moves the
items of a dead worker to living ones (an oracle's own error is not retried). A
task is a pure function of its item, so running one twice gives the same bits,
and it is counted once.

Workers prove that they run the same code as this process (``dask_worker``). One that
does not is refused with a warning and gets no items; the others go on. If none
is left the run ends, and finished items are kept.

This file decides which workers get items, and how long to wait for them.
It leaves out the connection (``dask_cluster``).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import threading
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import CancelledError
from typing import Any

from smoothcruiser.engines.first_shard import FirstShard
from smoothcruiser.engines.pools.base import (
    POLL_SECONDS,
    Build,
    Futures,
    Item,
    Result,
    Task,
)
from smoothcruiser.engines.pools.dask_cluster import Connection, KilledWorker
from smoothcruiser.engines.pools.dask_worker import (
    Evidence,
    Reply,
    missing_module,
    other_library,
    pack_build,
    prove,
    run_item,
)
from smoothcruiser.errors import Interrupted, InvalidInput, WorkersLost, describe_error
from smoothcruiser.query import Compute

COUNT_SECONDS = 1.0  # between two counts of the cluster's workers
WAIT_SECONDS = 60.0  # for a first worker, and for another where all have gone
WAIT_VARIABLE = "SMOOTHCRUISER_WORKER_SECONDS"  # sets another limit
READY_SECONDS = 5.0  # of silence while workers find their evidence
LOG = logging.getLogger(__name__)


class Errand:
    """An item under way: the future that will hold its reply."""

    def __init__(self, task: Any, item: Any) -> None:
        self.task, self.item = task, item
        self.future: Any = None
        self.among: frozenset[str] | None = None  # the only workers that may run it
        self.reply: Reply | None = None

    @property
    def is_done(self) -> bool:
        """Whether a worker has sent something back."""
        return self.future is not None and bool(self.future.done())


class Dask(Futures):
    """A connection to a cluster, its workers, and the items under way."""

    def __init__(
        self, compute: Compute, build: Build, first_shard: FirstShard
    ) -> None:
        self.wait_limit = _wait_seconds()
        payload = pack_build(build, first_shard)
        self.connection = Connection(compute)
        try:
            self.key = f"smoothcruiser-{time.time_ns()}-{os.getpid()}"
            self.task_numbers = itertools.count()
            self.wake_event = threading.Event()
            self.threads: dict[str, int] = {}  # of the workers that are there
            self.proofs: dict[str, Any] = {}  # the futures of evidence
            self.proven: set[str] = set()
            self.had_worker = False  # whether a worker has proved itself so far
            self.refused: dict[str, str] = {}
            self.unreported: list[str] = []  # refusals that were not reported yet
            self.errands: set[Errand] = set()
            self.last_count = self.lonely_since = -math.inf
            # A task and not scattered data, which would be lost with its workers.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its size: it is sent once
                self.payload = self._submit(bytes, payload)
            self.own_evidence: Evidence | None = None
            self._count()
            self.own_evidence = Evidence.here(payload)  # while the workers find theirs
            self._check_own()
            self._await_worker()
        except BaseException:
            self.connection.close()
            raise

    @property
    def reachable(self) -> bool:  # type: ignore[override]
        """False once the run was stopped: it does not wait for workers again."""
        return not self.stopped

    # --- workers --------------------------------------------------------------

    def _count(self) -> None:
        """Take notice of workers that came, went, or have given their evidence."""
        current_time = time.monotonic()
        if current_time - self.last_count < (
            COUNT_SECONDS if self.proven else POLL_SECONDS
        ):
            return
        self.last_count = current_time
        earlier_threads, self.threads = (
            self.threads,
            self._call_dask(self.connection.client.nthreads),
        )
        present_workers = self.threads.keys()
        for address in earlier_threads.keys() - present_workers:
            LOG.warning("The Dask worker at %s is gone.", address)
        for address in present_workers - earlier_threads.keys():
            LOG.info("The Dask worker at %s has joined.", address)
        self.proven &= present_workers
        self.proofs = {
            name: x for name, x in self.proofs.items() if name in present_workers
        }
        self.refused = {
            name: x for name, x in self.refused.items() if name in present_workers
        }
        for address in present_workers - self.proofs.keys():
            self.proofs[address] = self._submit(
                prove, self.key, self.payload, workers=[address]
            )
        if self.own_evidence is not None:
            for address in present_workers - self.proven - self.refused.keys():
                if self.proofs[address].done():
                    self._judge(address, self._reply(self.proofs[address]))
        if self.proven or self.had_worker:
            for sentence in self.unreported:
                LOG.warning("%s It gets no work.", sentence)
            self.unreported.clear()
        self._move_errands()
        self._check_company(current_time)

    def _judge(self, address: str, reply: Reply | str) -> None:
        """Accept a worker, or refuse it with a warning that says why."""
        assert self.own_evidence is not None
        refusal: str | None
        if isinstance(reply, str):
            refusal = reply
        elif reply.digest == self.own_evidence.digest:
            refusal = None
        else:
            assert reply.evidence is not None
            refusal = (
                reply.evidence.against(self.own_evidence) or "gives other evidence"
            )
        if refusal is None:
            self.proven.add(address)
            return
        self.proven.discard(address)
        self.refused[address] = f"The Dask worker at {address} {refusal}."
        self.unreported.append(self.refused[address])

    def _check_company(self, now: float) -> None:
        """Log a wait where no worker can be used, and raise when it lasts too long."""
        if self.threads.keys() - self.refused.keys():
            self.lonely_since = -math.inf
            return
        if self.refused and not self.had_worker:
            raise self._all_refused()
        if self.lonely_since == -math.inf:
            self.lonely_since = now
            LOG.warning(
                "Waiting for workers at %s (%d so far%s; for %g s at most).",
                self.connection.address,
                len(self.threads),
                ", all refused" if self.threads else "",
                self.wait_limit,
            )
        if now - self.lonely_since > self.wait_limit:
            if self.refused:
                raise self._all_refused()
            raise WorkersLost(
                "No worker that can be used was at the Dask scheduler "
                f"{self.connection.address} for {self.wait_limit:g} s; start workers there (dask "
                f"worker {self.connection.address}), or set {WAIT_VARIABLE} to wait longer."
            )

    def _all_refused(self) -> WorkersLost:
        first_refusal, *other_refusals = self.refused.values()
        if not other_refusals:
            return WorkersLost(first_refusal)
        verb = "is" if len(other_refusals) == 1 else "are"
        return WorkersLost(
            f"{first_refusal} {len(other_refusals)} more {verb} refused too."
        )

    def _await_worker(self) -> None:
        """Return when one worker has proved itself."""
        start_time, was_reported = time.monotonic(), False
        while not self.proven:
            self._count()
            if (
                not was_reported
                and time.monotonic() - start_time > READY_SECONDS
                and self.threads
            ):
                was_reported = True
                LOG.warning(
                    "Waiting for a worker at %s to be ready (%d there); it may be "
                    "compiling, or busy with other work.",
                    self.connection.address,
                    len(self.threads),
                )
            self._pause()
        self.had_worker = True

    def _check_own(self) -> None:
        """Refuse to vouch for others where this process is not sound itself."""
        assert self.own_evidence is not None
        if self.own_evidence.edited:
            raise WorkersLost(
                "The files of smoothcruiser were changed after this process had "
                "imported them, so workers cannot be compared with it; start again."
            )
        if self.own_evidence.failure is not None:
            raise InvalidInput(
                f"The problem cannot be sent to a cluster: this process "
                f"{self.own_evidence.failure}."
            )

    # --- items ----------------------------------------------------------------

    def window(self) -> int:
        """Two items per thread of the cluster, so that none waits for the driver.

        Workers that join are noticed within a second.
        """
        self._count()
        total_threads = sum(
            num_threads
            for name, num_threads in self.threads.items()
            if name in self.proven
        )
        return max(1, 2 * total_threads)

    def ask(self, task: Task[Item, Result], item: Item) -> Result:
        """As in ``Pool``."""
        errand = self.submit(task, item)
        try:
            while not self.poll_finished([errand]):
                if self.stopped:
                    raise Interrupted(
                        "The run was stopped before its first shard was finished."
                    )
        except BaseException:
            self.abandon([errand])
            raise
        answer: Result = self.result(errand)
        return answer

    def submit(self, task: Task[Item, Result], item: Item) -> Errand:  # noqa: D102
        errand = Errand(task, item)
        self.errands.add(errand)
        self._send(errand)
        return errand

    def _send(self, errand: Errand, *, picky: bool = False) -> None:
        """Submit an errand: to any worker, or only to proven ones where some are not.

        A worker that has not proved itself runs nothing (``run_item``), so this
        only saves the way there and back.
        """
        assert self.own_evidence is not None
        picky = picky or bool(self.refused)
        errand.among = frozenset(self.proven) if picky else None
        errand.future = None
        if picky and not self.proven:
            return  # until there is one (``_move_errands``)
        errand.future = self._submit(
            run_item,
            self.key,
            self.payload,
            self.own_evidence.digest,
            errand.task,
            errand.item,
            workers=None if errand.among is None else sorted(errand.among),
        )

    def _move_errands(self) -> None:
        """Send errands again if all of their workers have gone."""
        if self.proven:
            for errand in self.errands:
                if errand.among is not None and not errand.among & self.threads.keys():
                    self._send(errand)

    def poll_finished(self, futures: list[Errand]) -> Iterable[Errand]:  # noqa: D102
        self._count()
        if not any(errand.is_done for errand in futures):
            self._pause()
        return [errand for errand in futures if self._is_settled(errand)]

    def _is_settled(self, errand: Errand) -> bool:
        """Whether the errand has a reply that can be used; if not, it goes elsewhere."""
        if errand.reply is None and errand.is_done:
            reply = self._reply(errand.future)
            assert self.own_evidence is not None
            if isinstance(reply, str):
                # It joined a moment ago; its own evidence is still to come.
                if errand.among is not None:
                    raise WorkersLost(
                        f"A Dask worker at {self.connection.address} {reply}."
                    )
                self._send(errand, picky=True)
            elif reply.digest != self.own_evidence.digest:
                # It joined a moment ago, or another process has its address now.
                self._judge(reply.address, reply)
                self._send(errand, picky=True)
            else:
                errand.reply = reply
        return errand.reply is not None

    def result(self, future: Errand) -> Any:  # noqa: D102
        self.errands.discard(future)
        future.future.release()
        assert future.reply is not None
        if future.reply.error is not None:
            raise future.reply.error
        return future.reply.result

    def abandon(self, futures: list[Errand]) -> None:
        """Forget items; those that run on a cluster of the user's own end by themselves."""
        self.errands.difference_update(futures)
        if self.connection.alive:
            sent_futures = [
                errand.future for errand in futures if errand.future is not None
            ]
            with contextlib.suppress(WorkersLost):  # reported already
                self._call_dask(self.connection.client.cancel, sent_futures)

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self.connection.close()

    # --- Dask -----------------------------------------------------------------

    def _submit(self, *call: Any, **options: Any) -> Any:
        """The future of a call on a worker."""
        task_key = f"{self.key}-{next(self.task_numbers)}"
        future = self._call_dask(
            self.connection.client.submit, *call, key=task_key, pure=False, **options
        )
        future.add_done_callback(lambda _: self.wake_event.set())
        return future

    def _reply(self, future: Any) -> Reply | str:
        """The reply in a finished future, or the fault of the worker that ran it.

        Workers report errors in their replies, so those of a future are Dask's.
        """
        try:
            reply: Reply = self._call_dask(future.result)
            return reply
        except WorkersLost:
            raise
        except KilledWorker as error:
            raise WorkersLost(
                "One worker after the other died while it ran the same item (killed, "
                "out of memory, or a crash in native code); check the simulator with "
                "executor='reference', or give the workers more memory."
            ) from error
        except ModuleNotFoundError as error:
            return missing_module(error.name)
        except Exception as error:
            return other_library(
                f"a task cannot begin there ({describe_error(error)})"
            )

    def _call_dask(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """The result of a function of Dask; a lost scheduler raises one sentence."""
        try:
            if self.connection.alive:
                return function(*arguments, **options)
        except (OSError, CancelledError) as error:  # a TimeoutError is an OSError
            raise self._lost() from error
        raise self._lost()

    def _lost(self) -> WorkersLost:
        return WorkersLost(
            f"The Dask scheduler at {self.connection.address} is gone, or has forgotten this "
            "run."
        )

    def _pause(self) -> None:
        """Wait for a reply, for at most ``POLL_SECONDS``."""
        self.wake_event.wait(POLL_SECONDS)
        self.wake_event.clear()


def _wait_seconds() -> float:
    """How long to wait for workers."""
    variable_text = os.environ.get(WAIT_VARIABLE, "")
    try:
        seconds = float(variable_text) if variable_text else WAIT_SECONDS
        if not 0.0 <= seconds < math.inf:
            raise ValueError
    except ValueError:
        raise InvalidInput(
            f"{WAIT_VARIABLE} must be a number of seconds of at least 0, got {variable_text!r}."
        ) from None
    return seconds
