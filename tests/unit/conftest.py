"""Unit tests that run compiled code, start processes, or compute for seconds
carry the marker ``compiles``; the others run first, and fail if they do one of the
first two. ``pytest tests/unit -m "not compiles"`` answers in half a minute.

Whether a function is compiled or its compiled form is loaded from Numba's cache
on disk makes no difference here: both take the compiler's lock, which is what
is counted. So a test that is unmarked by mistake fails with a cold cache and
with a warm one. A function that an earlier test of this process compiled costs
nothing more and is not seen; hence the order.

A few compiled functions are allowed everywhere: those of the random stream that
every simulator in plain Python uses. They are compiled or loaded before the
counting begins (a second, once). So is the loop that hears a second Ctrl-C, in every run
once a module has declared a compiled problem. So is matplotlib's list of fonts, for
which it starts a process on a machine where it never ran, and NumPy's testing, which up to
NumPy 1.26 starts one (``lscpu``) when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import matplotlib.font_manager  # noqa: F401 (lists the fonts of a new machine)
import numpy.testing  # noqa: F401
import pytest
from numba import njit
from numba.core import event

from smoothcruiser.jit.build import hear_stops_in
from smoothcruiser.run_control.stop_requests import stoppable

HERE = Path(__file__).parent
REMEDY = "mark it: @pytest.mark.compiles, or pytestmark where most of its file does."


class Counts(event.Listener):
    """How often the compiler was entered and a process was started so far."""

    def __init__(self):
        self.compiler = 0
        self.processes = 0

    def on_start(self, event):
        self.compiler += 1

    def on_end(self, event):
        pass

    def audit(self, name: str, arguments):
        if name in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
            self.processes += 1


COUNTS = Counts()
BEFORE = pytest.StashKey[tuple[int, int]]()


def pytest_configure(config: pytest.Config):
    hear_stops_in(njit(lambda: None))
    with stoppable():  # compiles the loop
        pass
    event.register("numba:compiler_lock", COUNTS)
    sys.addaudithook(COUNTS.audit)
    start = BaseProcess.start

    def counted(self: BaseProcess):
        COUNTS.processes += 1
        start(self)

    BaseProcess.start = counted  # type: ignore[method-assign]


def is_quick(item: pytest.Item) -> bool:
    """Whether this is a unit test that neither compiles nor starts processes."""
    return HERE in item.path.parents and item.get_closest_marker("compiles") is None


def pytest_collection_modifyitems(items: list[pytest.Item]):
    items.sort(key=lambda item: not is_quick(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[BEFORE] = COUNTS.compiler, COUNTS.processes
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    result = yield
    compiler, processes = item.stash[BEFORE]
    if is_quick(item) and COUNTS.compiler > compiler:
        pytest.fail(f"{item.name} runs compiled code; {REMEDY}", pytrace=False)
    if is_quick(item) and COUNTS.processes > processes:
        pytest.fail(f"{item.name} starts a process; {REMEDY}", pytrace=False)
    return result
