"""Ctrl-C while machine code runs: the first asks, the second ends the process."""

import contextlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from smoothcruiser.run_control import stop_requests
from smoothcruiser.run_control.signal_listener import SAME_SECONDS
from smoothcruiser.run_control.stop_requests import (
    stoppable,
    stoppable_run,
    tell_at_the_end,
    unbroken,
)

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]

LOOPS = """
import numba
import smoothcruiser as sc
from smoothcruiser.run_control.stop_requests import stoppable, tell_at_the_end

def spin(x):  # never returns
    while x > 0:
        x += 2
    return x

{before}
with stoppable():
    tell_at_the_end("It is kept in a file.")
    try:
        print("looping", flush=True)
        spin(1)
    except KeyboardInterrupt:  # it came in Python code
        spin(1)
"""
# statements before the loop: it is machine code with the lock, without it, or Python
FORMS = {
    "locked": """
spin = numba.njit('i8(i8)')(spin)
sc.MDP(numba.njit(lambda state, action, rng: (0.0, 0)), num_actions=2, discount=0.5,
       legal=numba.njit(lambda state, action: spin(1) == 0), operator=sc.Max())""",
    "nogil": "spin = numba.njit('i8(i8)', nogil=True)(spin)",
    "python": "",
}

SLEEPS = """
import time
from smoothcruiser.run_control.stop_requests import stoppable

with stoppable():
    try:
        print("sleeping", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        print("stopping", flush=True)
"""


def started(code):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-c", code], **pipes)
    child.stdout.readline()
    return child


@pytest.mark.parametrize("form", FORMS)
def test_the_second_ctrl_c_ends_a_loop_that_nothing_else_can_end(form):
    """At once, with the code of the shell's convention and what is kept."""
    child = started(LOOPS.format(before=FORMS[form]))
    child.send_signal(signal.SIGINT)
    first = child.stderr.readline()
    assert first == "Stopping; press Ctrl-C again to end now.\n"
    while child.poll() is None:  # presses that follow too fast count as the same one
        child.send_signal(signal.SIGINT)
        try:
            child.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    assert child.returncode == 130
    assert child.communicate()[1] == "Ended at once. It is kept in a file.\n"


def test_the_listener_is_unlocked_before_the_run_goes_on():
    """Law: machine code that takes the lock at once and never gives it is ended, too.

    Threads that want the lock make the listener late.
    """
    crowd = "".join(
        "threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\n"
        for _ in range(3)
    )
    child = started(
        LOOPS.format(before=f"import threading\n{FORMS['locked']}\n{crowd}")
    )
    child.send_signal(signal.SIGINT)
    deadline = time.monotonic() + 60.0
    while child.poll() is None and time.monotonic() < deadline:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.4)
    if child.poll() is None:
        child.kill()
    assert child.returncode == 130


def test_the_first_ctrl_c_stops_python_as_it_always_did():
    child = started(SLEEPS)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate()
    assert (out, child.returncode) == ("stopping\n", 0)


@pytest.mark.parametrize("name", ["start_listening", "stop_listening"])
def test_ctrl_c_while_a_run_opens_or_closes_leaves_no_handler(name, monkeypatch):
    """Law: it is raised after all is as before; a handler that stayed would end the
    process at the next Ctrl-C.
    """
    before = signal.getsignal(signal.SIGINT)
    real = getattr(stop_requests, name)

    def pressed(*arguments):
        signal.raise_signal(signal.SIGINT)
        real(*arguments)

    monkeypatch.setattr(stop_requests, name, pressed)
    with pytest.raises(KeyboardInterrupt), stoppable():
        pass
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1


@contextlib.contextmanager
def handled_by(handler):
    """A handler of the user's own."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_users_own_hears_every_signal():
    """Its owner decides what a signal means: a second one must not end the process."""
    came = []

    def handler(number, frame):
        came.append(number)

    with handled_by(handler):
        with stoppable():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
                time.sleep(1.1 * SAME_SECONDS)
        with stoppable(handler), stoppable():
            tell_at_the_end("nothing")
            signal.raise_signal(signal.SIGINT)
        for _ in range(3):  # no longer counted
            signal.raise_signal(signal.SIGINT)
        with ThreadPoolExecutor(1) as pool:  # other threads are left alone
            pool.submit(run_stoppable).result()
    assert came == [signal.SIGINT] * 7


def run_stoppable():
    with stoppable():
        tell_at_the_end("nothing")


def test_a_held_run_reads_a_stop_and_is_broken_off_only_where_it_is_open():
    with stoppable_run() as hold:
        signal.raise_signal(signal.SIGINT)
        assert hold.came
        with pytest.raises(KeyboardInterrupt), hold.opened():
            raise AssertionError("what follows a stop does not begin")
    with stoppable_run() as hold:
        with pytest.raises(KeyboardInterrupt), hold.opened():
            signal.raise_signal(signal.SIGINT)
        assert hold.came
        with stoppable_run() as inner:  # one run: the inner one has been stopped too
            assert inner is hold


def test_the_second_stop_of_a_notebook_ends_a_run_that_is_not_open(monkeypatch):
    """A kernel must not end, so it is an exception, wherever the run is."""
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with stoppable_run() as hold:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # at once: the same press
        hold.when -= 2.0 * SAME_SECONDS
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_users_handler_that_raises_asks_a_held_run_to_stop():
    def handler(number, frame):
        raise KeyboardInterrupt

    with handled_by(handler), stoppable_run() as hold:
        signal.raise_signal(signal.SIGINT)
        assert hold.came


def _broken_by(hold):
    with hold.opened():
        hold.came = True
        raise OSError("broken pipe")


def test_what_a_stop_breaks_in_the_users_code_is_a_stop():
    """Ctrl-C reaches a simulator's own processes too, and its step fails."""
    with stoppable_run() as hold:
        with pytest.raises(KeyboardInterrupt):
            _broken_by(hold)
        hold.came = False
        with pytest.raises(OSError, match="an error as always"), hold.opened():
            raise OSError("an error as always")


def _pressed_in_an_import(done):
    with unbroken():
        signal.raise_signal(signal.SIGINT)
        done.append("whole")


def test_an_import_is_not_broken_off():
    """A stop in the middle is raised after it; in a held run, only where it is open."""
    done = []
    with pytest.raises(KeyboardInterrupt):
        _pressed_in_an_import(done)
    with stoppable_run() as hold:
        _pressed_in_an_import(done)
        assert hold.came
    with stoppable_run() as hold, pytest.raises(KeyboardInterrupt), hold.opened():
        _pressed_in_an_import(done)
    assert done == ["whole"] * 3
