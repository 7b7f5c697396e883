"""Worker processes that import nothing from the current folder.

A spawned process begins with ``python -c``, and Python then looks for modules in the
current folder first, before it has been told where its driver does: a file there that
is called like a module of the standard library (``pickle.py``) would be executed. The
variable PYTHONSAFEPATH keeps Python from that. It is set while processes are
started, and a worker forgets it as soon as it can: programs that a simulator starts
are to find their own files.

Left out: the lifetime of workers (``parent``).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "PYTHONSAFEPATH"
_lock = threading.Lock()
_under_way: list[None] = []  # one for each ``outside_folder`` that is open
_before: dict[str, str | None] = {}  # the variables as they were before the first


@contextmanager
def outside_folder(*other_variables: str) -> Iterator[None]:
    """Start processes in here that import nothing from the current folder.

    Afterwards that variable, and ``other_variables`` that were set meanwhile, are
    restored.
    Several may be open at once, in any order.
    """
    with _lock:
        _under_way.append(None)
        for name in (VARIABLE, *other_variables):
            _before.setdefault(name, os.environ.get(name))
        os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        with _lock:
            _under_way.pop()
            while _before and not _under_way:
                name, value = _before.popitem()
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def is_safe_path_set() -> bool:
    """Whether the user had set the variable for this process too."""
    return bool(sys.flags.safe_path and os.environ.get(VARIABLE))


def forget_safe_path(was_set: bool) -> None:
    """In a worker: let its programs search for modules as those of its driver do."""
    if not was_set:
        os.environ.pop(VARIABLE, None)
