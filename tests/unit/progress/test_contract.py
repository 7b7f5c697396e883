"""The contract of progress: every method and verb, one kind of report, one line of a bar."""

from __future__ import annotations

import io
import logging
import multiprocessing
import pickle
import re
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import smoothcruiser as sc
from fresh_process import run_python
from smoothcruiser.progress import (
    Progress,
    add_earlier_work,
    progress_callback,
    skip_last_report,
    time_left,
)
from smoothcruiser.progress.bar import Bar, describe

pytestmark = pytest.mark.compiles


def ring(state: int, action: int, rng) -> tuple[float, int]:
    return rng.random() * 0.5 + 0.1 * action, int(rng.integers(5))


def simulator(**how) -> sc.Problem:
    about = {"num_actions": 2, "discount": 0.5, "operator": sc.Entropy(0.5)}
    return sc.MDP(ring, initial_state=0, **about, **how)


def listed(state: int, action: int) -> list[tuple[float, float, int]]:
    return [(0.5, 0.1 * action + (state % 7) / 10, (state + k) % 50) for k in (1, 2)]


# V: rewards have mean 0.25 + 0.1 a wherever one is
Q = [0.25, 0.35]
VALUE = 2.0 * sc.Entropy(0.5).value(Q)
KNOWN = sc.make("chain:n=5", discount=0.5, temperature=1.0)
PROMISE = {"epsilon": 0.2, "delta": 0.1}
# name -> (what is called with progress=, the phases in order of their first report)
SAMPLING = ["preparing", "compiling", "inspecting", "sampling", "done"]
TREE = ["preparing", "compiling", "sampling", "done"]
PLANS: dict[str, tuple[Any, list[str]]] = {
    "smoothcruiser": ({"method": "smoothcruiser", **PROMISE}, SAMPLING),
    "sparse-sampling": (
        {"method": "sparse-sampling", "epsilon": 0.5, "delta": 0.1},
        SAMPLING,
    ),
    "certified": ({"method": "certified", **PROMISE}, SAMPLING),
    "auto": (PROMISE, SAMPLING),
    "uct": ({"method": "uct", "budget": 20_000}, TREE),
    "ments, certified from below": (
        {"method": "ments", "budget": 20_000, "certify": True, "delta": 0.1},
        ["preparing", "compiling", "sampling", "inspecting", "evaluating", "done"],
    ),
}


def phases(reports: list[sc.Progress]) -> list[str]:
    return list(dict.fromkeys(news.phase for news in reports))


def is_same(one: sc.Estimate, two: sc.Estimate) -> bool:
    def bits(x: sc.Estimate):
        counts = x.num_calls, x.calls_spent, x.price
        return x.value, x.interval, x.q_values, x.policy, x.notes, counts

    return bits(one) == bits(two)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_reports_its_phases_and_its_counts(name):
    """Phases in order, calls that never fall, the answer last; and the same bits."""
    asked, expected = PLANS[name]
    seen = []
    found = sc.plan(simulator(), progress=seen.append, **asked)
    assert phases(seen) == expected
    assert all(a.calls <= b.calls for a, b in pairwise(seen))
    assert all(isinstance(news, sc.Progress) for news in seen)
    last = seen[-1]
    spent = found.num_calls if found.calls_spent is None else found.calls_spent
    assert (last.calls, last.interval) == (spent, found.interval)
    assert last.seconds == found.seconds
    assert [news.phase for news in seen].count("done") == 1
    for news in seen[:-1]:
        if news.interval is not None:
            assert news.interval[0] <= VALUE <= news.interval[1]
    assert is_same(found, sc.plan(simulator(), **asked))


@pytest.mark.parametrize("name", PLANS)
def test_false_in_any_phase_ends_a_plan_with_an_interval_that_holds(name):
    """No report but the last one follows it."""
    asked, expected = PLANS[name]
    for phase in expected[:-1]:
        seen = []

        def stop(news, seen=seen, phase: str = phase) -> bool:
            seen.append(news)
            return news.phase != phase

        found = sc.plan(simulator(), progress=stop, **asked)
        assert [news.phase for news in seen[-2:]] == [phase, "done"]
        assert sum(news.phase == phase for news in seen) == 1
        if found.interval is not None:
            assert found.interval[0] <= VALUE <= found.interval[1]
        else:
            assert not found.certificate
        assert sum(found.policy) == pytest.approx(1.0)


@pytest.mark.parametrize("problem", [KNOWN, simulator(outcomes=listed)])
def test_exact_plans_report_and_stop(problem):
    seen = []
    whole = sc.plan(problem, method="exact", progress=seen.append)
    exploring = ["exploring"] if problem.tables is None else []
    assert phases(seen) == ["preparing", *exploring, "solving", "done"]
    assert is_same(whole, sc.plan(problem, method="exact"))
    for phase in phases(seen)[:-1]:
        part = sc.plan(
            problem, method="exact", progress=lambda x, p=phase: x.phase != p
        )
        assert part.interval[0] <= whole.value <= part.interval[1]
        assert part.epsilon > whole.epsilon


def test_a_solver_reports_its_sweeps_and_may_be_stopped():
    slow = sc.make("chain:n=60", discount=0.9999, operator="max")
    seen = []

    def enough(news) -> bool:
        seen.append(news)
        return not news.done

    part = sc.solve(slow, method="value-iteration", progress=enough)
    whole = sc.solve(slow)
    assert phases(seen) == ["solving", "done"]
    assert seen[-1].done == part.sweeps
    assert seen[-1].half_width == part.residual_bound
    assert abs(part.values - whole.values).max() <= part.residual_bound + 1e-9
    assert sc.solve(slow, progress=seen.append).sweeps == whole.sweeps
    with pytest.raises(
        sc.SmoothcruiserError, match="states had been met, and not all"
    ):
        sc.solve(simulator(outcomes=listed), progress=lambda news: False)


def test_many_states_count_together():
    seen = []
    how = {"method": "smoothcruiser", **PROMISE}
    found = sc.plan_many(simulator(), [0, 1, 2], progress=seen.append, **how)
    assert all(a.calls <= b.calls for a, b in pairwise(seen))
    assert seen[-1].phase == "done"
    assert (seen[-1].done, seen[-1].total) == (3, 3)
    assert next(news.done for news in seen if news.phase == "sampling") == 0
    assert {news.label for news in seen if news.label} == {
        f"state {i} of 3" for i in (1, 2, 3)
    }
    plain = sc.plan_many(simulator(), [0, 1, 2], **how)
    assert all(map(is_same, found.estimates, plain.estimates))
    stopped = sc.plan_many(simulator(), [0, 1], progress=lambda news: False, **how)
    assert stopped.num_calls == 0
    assert all(x.interval[0] <= VALUE <= x.interval[1] for x in stopped)


def test_an_evaluation_reports_and_stops_in_any_phase():
    seen = []
    how = {"budget": 5_000, "delta": 0.1}
    policy = [0.5, 0.5]
    found = sc.evaluate(simulator(), lambda s: policy, progress=seen.append, **how)
    assert phases(seen) == ["compiling", "inspecting", "evaluating", "done"]
    assert all(a.calls <= b.calls for a, b in pairwise(seen))
    assert (seen[-1].calls, seen[-1].interval) == (found.num_calls, found.interval)
    assert is_same(found, sc.evaluate(simulator(), lambda s: policy, **how))
    for phase in phases(seen)[:-1]:
        stop = {"progress": lambda news, phase=phase: news.phase != phase}
        part = sc.evaluate(simulator(), lambda s: policy, **how, **stop)
        assert part.num_calls < found.num_calls
        assert part.interval[0] <= found.value <= part.interval[1]


def test_a_memory_and_a_tree_report_as_plans_do():
    seen = []
    memory = sc.Certified(simulator(), delta=0.1)
    answer = memory.query(epsilon=0.3, progress=seen.append)
    assert phases(seen) == ["compiling", "inspecting", "sampling", "done"]
    assert seen[-1].calls == answer.num_calls
    seen.clear()
    memory.query(1, epsilon=0.3, progress=seen.append)
    assert phases(seen) == ["sampling", "done"]  # nothing is compiled twice
    with pytest.raises(sc.InvalidInput, match="has to know when to stop"):
        memory.query(progress=True)  # a bar never says stop
    seen.clear()
    tree = sc.Tree(simulator(), progress=seen.append).grow(calls=500)
    assert phases(seen) == ["compiling", "done"]
    seen.clear()
    tree.grow(calls=3_000, progress=seen.append)
    assert phases(seen) == ["sampling", "done"]
    assert (seen[-1].calls, seen[-1].nodes) == (3_000, tree.num_nodes)


def test_agents_and_episodes_report():
    seen = []
    agent = sc.Agent(simulator(), "uct", budget=300, progress=seen.append)
    agent.act(0)
    assert seen[-1].phase == "done"
    assert agent.estimate is not None
    assert seen[-1].calls == agent.estimate.num_calls
    quiet = sc.Agent(simulator(), "uct", budget=300)
    seen.clear()
    summary = sc.play(quiet, episodes=3, steps=2, progress=seen.append)
    assert [news.done for news in seen] == sorted(news.done for news in seen)
    assert (seen[-1].done, seen[-1].total, seen[-1].phase) == (3, 3, "done")
    assert summary.episodes == 3
    again = sc.Agent(simulator(), "uct", budget=300)
    part = sc.play(again, episodes=3, steps=2, progress=lambda news: news.done < 1)
    assert part.episodes == 1
    with pytest.raises(sc.SmoothcruiserError, match="before an episode had ended"):
        sc.play(again, episodes=3, steps=2, progress=lambda news: False)


def test_a_comparison_reports_runs_and_what_happens_in_them():
    seen = []
    how = {"budgets": [200, 400], "methods": ["certified", "uct"]}
    rows = sc.compare(simulator(), progress=seen.append, **how)
    assert [(r.method, r.num_calls) for r in rows] == [
        (r.method, r.num_calls) for r in sc.compare(simulator(), **how)
    ]
    assert {"comparing", "compiling", "sampling", "done"} <= set(phases(seen))
    assert all(a.calls <= b.calls for a, b in pairwise(seen))
    assert seen[-1].calls == sum(row.num_calls for row in rows)
    assert seen[0].label == "run 1 of 4: certified"
    part = sc.compare(simulator(), progress=lambda news: news.done < 2, **how)
    assert [row.method for row in part] == ["certified", "certified"]


def test_a_comparison_tells_of_the_exact_solution_before_its_runs():
    """It may take long. Stopped, it is no truth: there are no runs then."""
    seen = []
    how = {"budgets": [200], "methods": ["uct"]}
    whole = sc.compare(simulator(outcomes=listed), progress=seen.append, **how)
    assert whole.truth is not None
    first = [news.phase for news in seen if news.label == "the exact solution"]
    assert {"exploring", "solving"} <= set(first)
    assert seen[len(first)].label == "run 1 of 1: uct"
    for stop in ("exploring", "solving"):
        part = sc.compare(
            simulator(outcomes=listed), progress=lambda x, p=stop: x.phase != p, **how
        )
        assert (len(part), part.truth, len(part.not_run)) == (0, None, 1)
        assert "Stopped by hand" in str(part)
    with pytest.raises(Broken):
        sc.compare(simulator(outcomes=listed), progress=fail, **how)


@pytest.mark.parametrize("name", ["smoothcruiser", "certified", "auto", "uct"])
def test_numpys_false_stops_too_and_other_answers_do_not(name):
    """A comparison of NumPy's numbers is no ``False`` itself."""
    asked = PLANS[name][0]
    whole = sc.plan(simulator(), **asked)
    for said in (None, 0, "", np.True_):
        found = sc.plan(simulator(), progress=lambda news, x=said: x, **asked)
        assert found.num_calls == whole.num_calls
    part = sc.plan(simulator(), progress=lambda news: np.False_, **asked)
    assert part.num_calls == 0
    many = sc.plan_many(simulator(), [0, 1], progress=lambda news: np.False_, **asked)
    assert many.num_calls == 0


class Broken(Exception):
    """An error of the callback's own."""


@pytest.mark.parametrize("phase", ["preparing", "compiling", "sampling"])
@pytest.mark.parametrize("name", ["smoothcruiser", "certified", "uct"])
def test_errors_of_a_callback_arrive_as_they_are(name, phase):
    def fails(news):
        if news.phase == phase:
            raise Broken

    with pytest.raises(Broken):
        sc.plan(simulator(), progress=fails, **PLANS[name][0])
    with pytest.raises(Broken):
        sc.compare(simulator(), progress=fail, methods=["uct"], budgets=[10])


def fail(news):
    raise Broken


def test_an_error_of_a_callback_ends_worker_processes():
    def fails(news):
        if news.calls:
            raise Broken

    asked = {**PLANS["smoothcruiser"][0], "executor": "processes", "workers": 1}
    before = set(multiprocessing.active_children())  # of other tests
    with pytest.raises(Broken):
        sc.plan(simulator(), progress=fails, **asked)
    own = set(multiprocessing.active_children()) - before
    for process in own:
        process.join(10.0)
    assert not own & set(multiprocessing.active_children())


@pytest.mark.parametrize("wrong", [1, 0, "bar", object()])
def test_what_is_no_progress_is_refused(wrong):
    with pytest.raises(sc.InvalidInput, match=r"^progress must be True \(a bar\)"):
        sc.plan(KNOWN, progress=wrong)
    with pytest.raises(sc.InvalidInput, match="progress must be True"):
        sc.solve(KNOWN, progress=wrong)


def test_a_progress_object_may_have_any_attributes():
    """Any attribute of a user's progress function is its own, ``watch`` too."""

    class Meter:
        watch = 3.5  # a stopwatch, say
        reports = 0

        def __call__(self, news):
            self.reports += 1

    meter = Meter()
    sc.plan(simulator(), method="uct", budget=2000, progress=meter)
    assert meter.reports > 0


def test_silence():
    assert progress_callback(None) is progress_callback(False) is None
    assert sc.plan(KNOWN, progress=False).value == sc.plan(KNOWN).value


def test_a_bar_writes_lines_to_standard_error_alone():
    program = (
        "import smoothcruiser as sc; p = sc.make('chain:n=5', discount=0.5, "
        "temperature=1.0); print(sc.plan(p, epsilon='5%', delta=0.1, "
        "method='smoothcruiser', progress=True).num_calls)"
    )
    ran = run_python(program)
    assert ran.stdout == "19272\n"
    lines = ran.stderr.splitlines()
    assert lines[0] == "smoothcruiser: preparing"
    # calls that were made ahead are in it, and their number depends on the threads
    assert re.match(r"smoothcruiser: done: (19|2\d)\.\d k calls in ", lines[-1])
    assert len(lines) < 8
    assert "\x1b" not in ran.stderr


def test_a_bar_within_a_bar_is_silent_and_bars_travel(capsys):
    with Bar(), Bar() as inner:
        inner(sc.Progress(phase="solving", calls=0, seconds=0.0))
    assert capsys.readouterr().err == ""
    agent = sc.Agent(simulator(), "uct", budget=100, progress=True)
    assert isinstance(pickle.loads(pickle.dumps(agent)).query.progress, Bar)


def test_the_log_says_what_was_chosen_and_when_phases_began(caplog):
    with caplog.at_level(logging.DEBUG, logger="smoothcruiser"):
        sc.plan(simulator(), **PROMISE)
    chosen = [r for r in caplog.records if r.levelno == logging.INFO]
    assert chosen[0].getMessage().startswith("auto ")
    told = [r.getMessage() for r in caplog.records]
    assert told.index("compiling begins") < told.index("sampling begins")
    # apart: the command line, which other tests run in this process, takes it away
    program = "import logging, smoothcruiser as sc; print(logging.getLogger(sc.__name__).handlers)"
    assert "NullHandler" in run_python(program).stdout


def test_stores_are_logged(caplog, tmp_path):
    store = tmp_path / "runs.db"
    asked = {"method": "smoothcruiser", **PROMISE, "store": store}
    with caplog.at_level(logging.INFO, logger="smoothcruiser"):
        run = sc.plan(simulator(), progress=lambda news: not news.calls, **asked).run
        seen = []
        sc.resume(run, store, simulator(), progress=seen.append)
    told = " ".join(r.getMessage() for r in caplog.records)
    assert f"store {store} is opened to write" in told
    assert f"run {run} of {store} goes on with smoothcruiser" in told
    assert phases(seen)[-1] == "done"
    assert seen[-1].resumed == 0 or seen[-1].resumed < seen[-1].calls


def test_reports_of_parts():
    seen = []
    one = sc.Progress(calls=5, seconds=1.0, price=10, interval=(0.0, 1.0))
    told = add_earlier_work(skip_last_report(seen.append), 3, 2.0)
    told(one)
    told(sc.Progress(phase="done", calls=9, seconds=1.0))
    assert [(x.calls, x.seconds, x.price) for x in seen] == [(8, 3.0, 13)]
    assert time_left(5, 10, 1.0) == 1.0
    assert time_left(5, 10, 1.0, until=0.5) == 0.5
    assert time_left(0, 10, 1.0) is None
    assert time_left(5, None, 1.0) is None


# --- the line of the bar ------------------------------------------------------


class Full(io.StringIO):
    """A log on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("closed", [False, True])
def test_a_log_that_takes_nothing_does_not_end_the_run(closed, monkeypatch):
    stream = io.StringIO() if closed else Full()
    monkeypatch.setattr(sys, "stderr", stream)
    if closed:
        stream.close()
    with Bar() as bar:
        bar(Progress(phase="solving", calls=0, seconds=0.0))
    assert bar.last is not None


def test_a_line_of_numbers_holds_what_it_says():
    """Half-widths are rounded up."""
    one = Progress(calls=5, seconds=1.0, price=10, interval=(0.0, 0.4682))
    assert "value 0.2341 ± 0.24" in describe(one)
    known = Progress(phase="solving", calls=0, seconds=0.0, done=3, half_width=0.00101)
    assert "error at most 0.0011" in describe(known)
