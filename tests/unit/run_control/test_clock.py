"""One clock and one stop: seconds that count, calls that hang, Ctrl-C."""

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import pytest
from numba.core import event
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.errors import Hung
from smoothcruiser.evaluation.policy_reading import read_policy
from smoothcruiser.jit import build
from smoothcruiser.run_control import call_seconds, stop_requests
from smoothcruiser.run_control import clock as stopwatch
from smoothcruiser.run_control.call_seconds import Breaker, limit_call_seconds
from smoothcruiser.run_control.clock import LOCK, Clock, pause_clock
from smoothcruiser.run_control.signal_listener import SAME_SECONDS
from smoothcruiser.run_control.stop_requests import (
    TimeIsUp,
    stoppable,
    stoppable_run,
    tell_at_the_end,
    unbroken,
)
from smoothcruiser.tree.evaluators.functions import Function

pytestmark = pytest.mark.compiles

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
JUMP = 1000.0  # seconds, far above any limit below


class MovedTime:
    def __init__(self, monkeypatch):
        self.now, self.jumps = 0.0, 0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(stopwatch, "_threads", threading.local())
    return MovedTime(monkeypatch)


def test_it_stands_still_where_it_is_told_to(clock):
    watch = Clock()
    clock.now = 2.0
    assert (watch.elapsed(), watch.compile_seconds()) == (2.0, 0.0)
    with pause_clock():
        clock.now = 5.0
        with pause_clock():
            clock.now = 6.0
            assert watch.elapsed() == 2.0
        clock.now = 7.0
        inside = Clock()
        clock.now = 9.0
        assert (watch.elapsed(), inside.elapsed()) == (2.0, 0.0)
    clock.now = 10.0
    assert (watch.elapsed(), watch.compile_seconds()) == (3.0, 7.0)
    assert inside.elapsed() == 1.0
    with pytest.raises(KeyError), pause_clock():
        raise KeyError
    clock.now = 11.0
    assert watch.elapsed() == 4.0


def test_it_hears_of_compiling_in_its_own_thread_alone(clock):
    watch = Clock()
    with numba.core.compiler_lock.global_compiler_lock:
        clock.now = 3.0
        with pause_clock():
            clock.now = 4.0
    assert (watch.elapsed(), watch.compile_seconds()) == (0.0, 4.0)

    def compiles():
        with numba.core.compiler_lock.global_compiler_lock:
            clock.now = 6.0

    thread = threading.Thread(target=compiles)
    thread.start()
    thread.join()
    assert (watch.elapsed(), watch.compile_seconds()) == (2.0, 4.0)


def test_it_goes_on_where_an_exception_took_the_end_of_compiling(clock):
    """Ctrl-C between Numba's event and its lock: a limit must not stand still for ever."""
    watch = Clock()
    event.start_event(LOCK)
    clock.now = 2.0
    assert watch.elapsed() == 0.0  # nobody has the lock: it is over
    clock.now = 5.0
    assert watch.elapsed() == 3.0
    event.end_event(LOCK)  # one that comes late takes nothing off
    assert watch.elapsed() == 3.0


def test_another_thread_reads_a_clock_as_its_own_does(clock):
    watch = Clock()
    with ThreadPoolExecutor(1) as pool, pause_clock():
        clock.now = 2.0
        assert (watch.is_paused(), pool.submit(watch.is_paused).result()) == (
            True,
            True,
        )
        assert pool.submit(watch.elapsed).result() == 0.0
        assert not pool.submit(lambda: Clock().is_paused()).result()
    clock.now = 5.0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(watch.elapsed).result() == watch.elapsed() == 3.0


def break_off(clock):
    """A limit of 2 s, 50 s of compiling in it: raised after the 2 s, in neither part."""
    with Breaker(may_raise=lambda frame: True) as breaker:
        breaker.arm(2.0)
        clock.now += 1.0
        with numba.core.compiler_lock.global_compiler_lock:
            clock.now += 50.0
            breaker.send()
        breaker.send()
        assert not breaker.fired
        clock.now += 1.0
        try:
            breaker.send()
            time.sleep(0)
        except TimeIsUp:
            return breaker.fired
    return False


def test_nothing_is_raised_in_the_compiler_nor_before_the_time_that_counts(clock):
    assert break_off(clock)


def test_nothing_is_raised_in_the_compiler_of_another_thread(clock):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(break_off, clock).result()


class Quiet:
    """An engine whose call compiles, then never returns; its watcher's looks count."""

    def __init__(self):
        self.looks, self.compiled = 0, False

    @property
    def calls(self):
        self.looks += 1
        return 0

    def call(self):
        with pause_clock():
            while self.looks < 20:  # a call is overlong after four
                time.sleep(0.001)
        self.compiled = True
        while True:
            time.sleep(0.001)


def test_a_call_is_not_overlong_while_it_compiles():
    engine = Quiet()
    with pytest.raises(Hung), limit_call_seconds(engine, 0.01):
        engine.call()
    assert engine.compiled


# --- the rule, in every method ------------------------------------------------


class Slow(event.Listener):
    """Lets compiling take ``JUMP`` seconds more of a clock that is real otherwise."""

    def __init__(self, monkeypatch):
        self.depth, self.jumps, self.thread = 0, 0, threading.get_ident()
        real = time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda: real() + JUMP * self.jumps)

    def on_start(self, _):
        if threading.get_ident() == self.thread:
            self.jumps += self.depth == 0
            self.depth += 1

    def on_end(self, _):
        if threading.get_ident() == self.thread:
            self.depth -= 1


@pytest.fixture
def slow(monkeypatch):
    Clock()  # it hears of compiling before the clock moves
    listener = Slow(monkeypatch)
    event.register(LOCK, listener)
    yield listener
    event.unregister(LOCK, listener)


class Cell(NamedTuple):
    x: int
    y: int


def fresh():
    """A problem that nobody has compiled."""

    @numba.njit
    def step(state, action, rng):
        moved = action if rng.random() < 0.8 else 1 - action
        x = (state.x + 1 + moved) % 5
        return x / 4.0, Cell(x, (state.y + moved) % 3)

    return sc.MDP(
        step,
        num_actions=2,
        discount=0.5,
        operator=sc.Entropy(0.2),
        initial_state=Cell(0, 0),
    )


TIME = re.compile("time (was|limit)|before the first")
CALLS, FEWEST = 3_000, 300  # a schedule may end early
ASKED = {"seconds": 0.8 * JUMP, "budget": CALLS}
SURE = ASKED | {"delta": 0.1}


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("certified", SURE),
        ("smoothcruiser", SURE),
        ("auto", SURE),
        ("uct", ASKED),
        ("uct", SURE | {"certify": True}),
        ("evaluate", SURE),
    ],
)
def test_compiling_takes_no_time_from_any_method(slow, method, asked):
    """Law: whatever compiling takes, samples have all of ``seconds=``."""
    problem = fresh()
    if method == "evaluate":
        answer = sc.evaluate(problem, lambda state: (0.5, 0.5), **asked)
    else:
        answer = sc.plan(problem, method=method, **asked)
    assert slow.jumps >= 1
    assert answer.num_calls > FEWEST
    assert not any(TIME.search(note) for note in answer.notes), answer.notes
    assert answer.compile_seconds >= 0.99 * JUMP
    assert answer.seconds < JUMP
    low, high = problem.facts.value_bounds(1)
    if answer.interval is not None:
        assert low < answer.interval[0] or answer.interval[1] < high


def test_compiling_takes_no_time_from_many_states(slow):
    problem = fresh()
    states = [Cell(0, 0), Cell(1, 1)]
    answers = sc.plan_many(problem, states, method="smoothcruiser", **SURE)
    assert slow.jumps >= 1
    assert all(answer.num_calls > 0 for answer in answers.estimates)
    assert not any(TIME.search(note) for x in answers.estimates for note in x.notes)


def test_compiling_takes_no_time_from_a_solution(monkeypatch):
    from smoothcruiser.exact import model
    from smoothcruiser.jit import forms, library

    real, later = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: real() + later[0])
    compile_function = forms.compile_function

    def slowly(*arguments, **replace):
        later[0] += JUMP if not later[0] else 0.0
        return compile_function(*arguments, **replace)

    monkeypatch.setattr(forms, "compile_function", slowly)
    monkeypatch.setattr(library, "_machines", {})  # what other tests compiled
    model._built_in_kernels.cache_clear()
    ring = sc.make("chain:n=40", discount=0.9, temperature=0.5)
    with model.EXACT.use_form(compiled=True):
        answer = sc.plan(ring, method="exact", seconds=0.8 * JUMP)
    assert answer.epsilon < 1e-9
    assert answer.compile_seconds >= JUMP


def test_a_search_that_runs_past_its_limit_says_so(monkeypatch):
    """Its machine code does not return, so the main thread cannot look at the clock."""
    monkeypatch.setattr(call_seconds, "LATE_SECONDS", 0.0)
    said, sentences = threading.Event(), []

    def heard(sentence, **_):
        sentences.append(sentence)
        said.set()

    monkeypatch.setattr("builtins.print", heard)
    with call_seconds.warn_if_overdue(0.01):
        assert said.wait(timeout=60)
    assert "has not returned 0 s after the time limit of 0.01 s" in sentences[0]
    assert "press Ctrl-C twice" in sentences[0]
    with call_seconds.warn_if_overdue(600.0):
        (late,) = (x for x in threading.enumerate() if isinstance(x, threading.Timer))
    late.join(timeout=60)
    assert not late.is_alive(), "what is over in time is left alone"


def test_a_step_is_compiled_before_its_calls_are_timed(monkeypatch):
    """On a busy machine that takes longer than a call may."""

    @numba.njit
    def step(state, action, rng):
        return rng.random(), (state + action + 1) % 3

    watched, compiled = call_seconds.limit_call_seconds, []

    def noting(*arguments):
        compiled.append(len(step.signatures))
        return watched(*arguments)

    monkeypatch.setattr(call_seconds, "limit_call_seconds", noting)
    assert sc.check(mdp(step)).ok
    assert compiled[0] == 1
    assert len(step.signatures) == 1  # and the calls use that one


# --- requests to stop ---------------------------------------------------------


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


@POSIX
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


@POSIX
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


@pytest.mark.parametrize(
    "facts",
    [
        {"oracle": numba.njit(lambda state, action, rng: (0.0, 0))},
        {"legal": numba.njit(lambda state, action: True)},
        {"terminal": numba.njit(lambda state: False)},
        {"outcomes": numba.njit(lambda state, action: ((1.0, 0.0, 0),))},
        {"key": numba.njit(lambda state: state)},
        {"sample_action": numba.njit(lambda state, rng: 0.5), "operator": sc.Max()},
        {
            "value_bounds": (lambda state: -1.0, numba.njit(lambda state: 1.0)),
            "value_gap": 2.0,
        },
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_every_compiled_function_of_a_problem_is_heard(facts, monkeypatch):
    """Law: Python calls each of them with its lock in its hand."""
    forms = []
    monkeypatch.setattr(build.signal_listener, "use_unlocked_form", forms.append)
    step = facts.pop("oracle", lambda state, action, rng: (0.0, 0))
    mdp(step, **facts)
    assert forms == [build._unlocked_listen]


def test_a_compiled_policy_and_a_compiled_value_are_heard(monkeypatch):
    forms = []
    monkeypatch.setattr(build.signal_listener, "use_unlocked_form", forms.append)
    function = numba.njit(lambda state: 0)
    read_policy(mdp(lambda state, action, rng: (0.0, 0)), function)
    Function(function)
    assert forms == 2 * [build._unlocked_listen]


def test_the_first_ctrl_c_stops_python_as_it_always_did():
    child = started(SLEEPS)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate()
    assert (out, child.returncode) == ("stopping\n", 0)


@POSIX
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


@POSIX
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


@POSIX
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


@POSIX
def test_the_second_stop_of_a_notebook_ends_a_run_that_is_not_open(monkeypatch):
    """A kernel must not end, so it is an exception, wherever the run is."""
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with stoppable_run() as hold:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # at once: the same press
        hold.when -= 2.0 * SAME_SECONDS
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@POSIX
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


@POSIX
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


@POSIX
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
