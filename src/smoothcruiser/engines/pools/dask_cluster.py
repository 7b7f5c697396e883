"""A connection to a Dask cluster: the user's own, or one that is started here.

A local cluster is for this process alone. Everything listens on loopback and
asks for a certificate that exists only in the memory of this run's processes
(Dask's ``Security.temporary``), so no other user of the machine can connect to
it; whoever can, can run code. No HTTP server is started: Dask's own classes
start one even without a dashboard. At the end the worker processes are killed,
since nobody waits for their results.

A cluster of the user's own is secured by its owner; ``tls`` are the three files
that it asks for. Left out: the messages (``pools.dask``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from smoothcruiser.engines.pools.base import check_workers
from smoothcruiser.engines.pools.processes import (
    end_with_parent,
    forget_safe_path,
    is_safe_path_set,
    outside_folder,
)
from smoothcruiser.errors import (
    InvalidInput,
    MissingExtra,
    WorkersLost,
    describe_error,
)
from smoothcruiser.query import Compute

EXTRA = "The dask executor needs {}: pip install 'smoothcruiser[dask]'."

try:
    import distributed
    from distributed.scheduler import KilledWorker
except (
    ImportError
) as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtra(EXTRA.format("Dask distributed")) from error

__all__ = ["SILENT", "Connection", "KilledWorker"]

LOOPBACK = "127.0.0.1"
START_SECONDS = 10  # to reach a scheduler
LEAVE_SECONDS = 1  # to say goodbye to a scheduler, which may be gone
# Dask prints the log of these, each by a handler of its own.
LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application")
SILENT = logging.CRITICAL + 1


class Unserved:
    """A Dask server without its HTTP server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start nothing."""


class LocalScheduler(Unserved, distributed.Scheduler):  # type: ignore[misc]
    """The scheduler of a local cluster, in this process."""


class LocalWorker(Unserved, distributed.Worker):  # type: ignore[misc]
    """A worker of a local cluster, in a process of its own."""

    def __init__(self, *arguments: Any, asked: bool, **options: Any) -> None:
        for handler in _handlers():
            handler.setLevel(SILENT)  # the driver reports errors
        end_with_parent()
        # Ctrl-C reaches the whole group of processes; this one's driver ends it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        forget_safe_path(asked)
        super().__init__(*arguments, **options)


class LocalNanny(distributed.Nanny):  # type: ignore[misc]
    """The nanny of a worker's process: starts it, restarts it if it dies, and ends it."""

    async def instantiate(self, *arguments: Any, **options: Any) -> Any:
        """Start the process; Dask would leave its variables in this one."""
        with outside_folder(*self.pre_spawn_env):
            return await super().instantiate(*arguments, **options)

    async def kill(self, *arguments: Any, **options: Any) -> None:
        """End the process at once, whatever it is doing."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        await super().kill(*arguments, **options)


def local_cluster(workers: int) -> Any:
    """A running cluster of ``workers`` processes on this machine, for us alone."""
    try:
        security = distributed.Security.temporary()
    except ImportError as error:
        raise MissingExtra(EXTRA.format("cryptography")) from error
    common_options = {"host": LOOPBACK, "protocol": "tls://", "security": security}
    worker_options = common_options | {"nthreads": 1, "worker_class": LocalWorker}
    worker_options |= {"asked": is_safe_path_set()}
    worker_spec = {
        "cls": LocalNanny,
        "options": worker_options | {"silence_logs": SILENT},
    }
    scheduler_options = common_options | {
        "port": 0,
        "dashboard": False,
        "dashboard_address": None,
    }
    return distributed.SpecCluster(
        workers=dict.fromkeys(range(workers), worker_spec),
        scheduler={"cls": LocalScheduler, "options": scheduler_options},
        security=security,
        silence_logs=SILENT,
        shutdown_on_close=False,  # at the end of Python: ``Connection`` closes it
    )


def _security(compute: Compute) -> Any:
    """The security of the connection to the user's scheduler.

    Without files, Dask's own configuration decides.
    """
    tls_files: dict[str, Any] = {}
    if compute.tls is not None:
        option_names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
        tls_files = dict(zip(option_names, compute.tls, strict=True))
    security = distributed.Security(**tls_files)
    try:
        ssl_context = security.get_connection_args("client")["ssl_context"]
    except OSError as error:  # an SSLError is one
        raise InvalidInput(
            "The certificates for the scheduler cannot be read "
            f"({describe_error(error)}); give the PEM files of the CA, of a certificate and of "
            "its key: tls=(ca, cert, key)."
        ) from error
    if ssl_context is None and (compute.scheduler or "").startswith("tls://"):
        raise InvalidInput(
            f"The scheduler at {compute.scheduler} asks for certificates; give their "
            "files: tls=(ca, cert, key)."
        )
    return security


def _address(compute: Compute) -> Any:
    """The address of the user's scheduler, with its protocol."""
    address = compute.scheduler
    if address is None:
        return None
    # A client that fails for such an address is not closed before Python ends.
    if not address.strip() or address.startswith("inproc:"):
        raise InvalidInput(
            f"A scheduler at {address!r} cannot be reached from here; write its "
            "address as tcp://HOST:PORT or tls://HOST:PORT."
        )
    if compute.tls is None:
        return address
    protocol, separator, _ = address.rpartition("://")
    if separator and protocol != "tls":
        raise InvalidInput(
            f"The address {address!r} is not of a secured scheduler; write tls:// "
            "before it, or drop tls=."
        )
    return address if separator else f"tls://{address}"


class Connection:
    """A client, and the cluster behind it where that was started here."""

    def __init__(self, compute: Compute) -> None:
        self.quiet = contextlib.ExitStack()
        self.quiet.enter_context(_silence_logs())
        self.client: Any = None
        self.cluster: Any = None
        self.address = ""  # of the scheduler
        try:
            self._open(compute)
        except BaseException:
            self.close()
            raise

    def _open(self, compute: Compute) -> None:
        security, address = None, _address(compute)
        if address is None:
            self._start(check_workers(compute.workers))
        else:
            security = _security(compute)
        try:
            self.client = distributed.Client(
                self.cluster or address,
                timeout=START_SECONDS,
                set_as_default=False,
                security=security,
            )
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise WorkersLost(
                f"No Dask scheduler answers at {address!r} ({describe_error(error)}); check the "
                "address given to scheduler=, and tls= if it asks for certificates."
            ) from error
        self.address = str(self.client.scheduler.address)

    def _start(self, workers: int) -> None:
        """Start a local cluster, in a thread of its own.

        Dask cannot close a cluster that is only half started. After a Ctrl-C the thread
        ends the cluster when it has started, unless Python ends before, and its
        processes with it.
        """
        started_cluster: Future[Any] = Future()

        def start() -> None:
            try:
                started_cluster.set_result(local_cluster(workers))
            except BaseException as error:
                started_cluster.set_exception(error)

        threading.Thread(target=start, daemon=True).start()
        try:
            self.cluster = started_cluster.result()
        except KeyboardInterrupt:
            log_silence = self.quiet.pop_all()
            started_cluster.add_done_callback(
                lambda _: _close(log_silence, _result(started_cluster))
            )
            raise

    @property
    def alive(self) -> bool:
        """Whether the scheduler is still there."""
        return bool(self.client.status == "running")

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        _close(self.quiet, self.client, self.cluster)


def _close(quiet: contextlib.ExitStack, *ends: Any) -> None:
    with quiet:
        for connection in ends:
            if connection is not None:
                # A scheduler that is gone, or a loop that has ended.
                with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                    connection.close(timeout=LEAVE_SECONDS)


def _result(future: Future[Any]) -> Any:
    """The result of a finished future; None if it failed."""
    return None if future.exception() is not None else future.result()


def _handlers() -> Iterator[logging.Handler]:
    for name in LOGGERS:
        yield from logging.getLogger(name).handlers


@contextlib.contextmanager
def _silence_logs() -> Iterator[None]:
    """Keep Dask's log off the screen: its troubles are reported as one sentence."""
    earlier_levels = [(x, x.level) for x in _handlers() if x.level != SILENT]
    for handler, _ in earlier_levels:
        handler.setLevel(SILENT)
    try:
        yield
    finally:
        for handler, level in earlier_levels:
            handler.setLevel(level)
