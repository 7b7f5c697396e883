"""A worker process ends when the process that started it does.

A driver that is killed cannot end its workers, and a worker may be in the middle
of a call that never returns, perhaps in machine code that holds the interpreter's
lock. So no code of the worker takes part where the system can do it: multiprocessing
gives every child the reading end of a pipe, and only its parent holds the writing
end. When the parent is gone, for whatever reason, Linux signals the child that
the pipe has changed, and the signal asked for here is SIGKILL. (The other way,
``PR_SET_PDEATHSIG``, goes by the parent's thread, and a thread may end before its
process.) Elsewhere a thread waits for the same pipe; machine code that holds the
lock keeps that thread from running.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading

GONE = 1  # the exit code of a worker that ends itself


def end_with_parent() -> None:
    """From now on, end this process as soon as its parent is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process that multiprocessing started"
    if sys.platform == "linux":
        import fcntl

        pipe = parent.sentinel
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC)
        if multiprocessing.connection.wait([pipe], timeout=0):
            os._exit(GONE)  # it was gone before the signal was asked for
    else:
        threading.Thread(
            target=_wait_and_end, args=(parent.sentinel,), daemon=True
        ).start()


def _wait_and_end(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(GONE)
