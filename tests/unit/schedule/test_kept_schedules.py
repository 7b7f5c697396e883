"""Schedules from the disk: the same as a search finds, verified, and never trusted."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser import operators
from smoothcruiser.jit import disk_cache
from smoothcruiser.schedule import schedule_cache as cache
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, compile_schedule

FACTS = sc.make("chain:n=5", discount=0.4, temperature=0.2).facts
REQUEST = cache.ScheduleRequest(
    FACTS, frozenset(ALL_KINDS), 0.15, 0.1, "q_values", True, "smoothcruiser"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in which schedules are kept."""
    monkeypatch.setattr(cache, "is_on", lambda: True)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def entry(folder):
    """The file of one schedule that was searched for."""
    cache.load_or_search(REQUEST, search)
    return only(folder)


def search(epsilon=0.15):
    return compile_schedule(FACTS, epsilon=epsilon, delta=0.1)


def nothing():
    raise AssertionError("it was kept, and need not be searched")


def is_searched(request=REQUEST):
    """Whether a request is searched for; what is found has to be right in any case."""
    searches = []
    found = cache.load_or_search(request, lambda: searches.append(1) or search())
    assert found == search()
    return bool(searches)


def only(folder):
    (path,) = folder.rglob("schedule-*")
    return path


def write(path, text):
    """An edit by someone who knows how entries are sealed."""
    disk_cache.write_entry(path.name, text.encode())


def read(path):
    return json.loads(disk_cache.read_entry(path.name))


def test_what_was_found_once_is_read_and_equal_in_every_bit(folder):
    assert is_searched()
    again = cache.load_or_search(REQUEST, nothing)
    assert again == search()
    assert again.to_json() == search().to_json()


def test_another_request_has_another_entry(folder, monkeypatch):
    """Long priors included: a shortened text of them would make two requests one."""
    prior, other = [1.0] * 400, [1.0] * 400
    other[200], other[201] = 1.5, 0.5
    facts = [
        replace(FACTS, discount=0.40000001),
        replace(FACTS, operator=sc.Entropy(0.20000001)),
        replace(FACTS, reward_range=(0.0, 1.0000001)),
        replace(FACTS, horizon=7),
        replace(FACTS, num_actions=400, operator=sc.KL(1.0, tuple(prior))),
        replace(FACTS, num_actions=400, operator=sc.KL(1.0, tuple(other))),
    ]
    requests = [
        REQUEST,
        REQUEST._replace(epsilon=0.1500000001),
        REQUEST._replace(delta=0.05),
        REQUEST._replace(target="value"),
        REQUEST._replace(adaptive=False),
        REQUEST._replace(method="other"),
        REQUEST._replace(kinds=frozenset(ALL_KINDS) - {sc.Kind.BLIND}),
        *(REQUEST._replace(facts=known) for known in facts),
    ]
    places = {cache.entry_name(request) for request in requests}
    assert len(places) == len(requests)
    monkeypatch.setattr(cache, "_searchers", lambda: "another version")
    assert cache.entry_name(REQUEST) not in places


@pytest.mark.parametrize("text", ["", "x", "[" * 100_000 + "]" * 100_000])
def test_a_text_that_is_no_schedule_is_searched_anew_and_mended(entry, text):
    write(entry, text)
    assert is_searched()
    assert not is_searched()


def largest(data):
    return max(data["levels"], key=lambda row: row["samples"])


def halve_samples(row):
    row["samples"] //= 2


def append_unused_level(data):
    row = data["levels"][data["root"]["child"]]
    data["levels"].append(row | {"samples": 2**70})


@pytest.mark.parametrize(
    "edit",
    [
        # what breaks the promise
        lambda data: halve_samples(data["root"]),
        lambda data: halve_samples(largest(data)),
        lambda data: largest(data).update(shift=2.0 * largest(data)["shift"]),
        # a sound schedule, and not the one that was requested
        lambda data: data.update(epsilon=0.4),
        lambda data: data.update(delta=0.2),
        lambda data: data.update(method="sparse-sampling"),
        # counts that nobody uses: compiled code cannot hold them
        lambda data: data["levels"][0].update(samples=2**70),
        append_unused_level,
    ],
)
def test_an_edited_entry_is_not_used(entry, edit):
    data = read(entry)
    edit(data)
    write(entry, json.dumps(data))
    assert is_searched()


def test_a_dearer_schedule_is_used_because_it_keeps_the_promise(entry):
    data = read(entry)
    data["root"]["samples"] *= 2
    write(entry, json.dumps(data))
    found = cache.load_or_search(REQUEST, nothing)
    assert found.root.samples == 2 * search().root.samples


def test_the_schedule_of_another_problem_is_not_used(entry):
    """It is built on the facts that were requested, on which it does not hold."""
    wide = REQUEST._replace(facts=replace(FACTS, reward_range=(0.0, 3.0)))
    disk_cache.write_entry(
        cache.entry_name(wide), disk_cache.read_entry(entry.name) or b""
    )
    found = cache.load_or_search(
        wide, lambda: compile_schedule(wide.facts, epsilon=0.2, delta=0.1)
    )
    assert found.facts == wide.facts
    assert found.num_calls > search().num_calls


def test_a_schedule_of_other_kinds_or_with_bets_does_not_fit():
    kinds = frozenset({sc.Kind.CONSTANT, sc.Kind.PLUGIN})
    assert not REQUEST._replace(kinds=kinds, adaptive=False).fits(search())
    fixed = compile_schedule(FACTS, epsilon=0.15, delta=0.1, adaptive=False)
    root = replace(fixed.root, samples=2 * fixed.root.samples, adaptive_delta=0.01)
    assert REQUEST._replace(adaptive=False).fits(fixed)
    assert not REQUEST._replace(adaptive=False).fits(replace(fixed, root=root))


def test_what_is_the_users_own_is_not_kept(folder, monkeypatch):
    """Of operators that are not listed only the name is written, not the numbers."""
    own = sc.CustomOperator(lambda q: float(max(q)), lambda q: q, 1.0)
    foreign = frozenset([*ALL_KINDS, 100])
    for changes in ({"facts": replace(FACTS, operator=own)}, {"kinds": foreign}):
        assert cache.entry_name(REQUEST._replace(**changes)) is None
    monkeypatch.setitem(operators.OPERATORS, "entropy", sc.KL)  # under a name of ours
    assert cache.entry_name(REQUEST) is None


# --- the folder ------------------------------------------------------------------


def test_nothing_is_kept_where_it_is_switched_off(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setenv("SMOOTHCRUISER_KEEP", "0")
    assert is_searched()
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(folder, monkeypatch):
    (folder / "file").write_text("no folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder / "file"))
    assert is_searched()
    assert is_searched()


@pytest.mark.compiles
def test_a_second_process_reads_and_a_command_removes(tmp_path):
    """What is printed is the same, and the second process searches nothing."""
    program = (
        "import sys, smoothcruiser as sc\n"
        "problem = sc.make('chain:n=5', discount=0.3, temperature=2.0)\n"
        "print(sc.explain(problem, epsilon=0.2, delta=0.1).to_json())\n"
        "from smoothcruiser.schedule.compiler.candidates import frontier_of\n"
        "print(frontier_of.cache_info().misses)\n"
    )
    around = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.check_output(command, env=around, text=True).splitlines()

    (first, searched), (second, read_again) = (run("-c", program) for _ in range(2))
    assert first == second
    assert (searched, read_again) == ("1", "0")
    removed = run("-m", "smoothcruiser", "cache", "clear", "--json")
    assert json.loads(removed[0])["removed"] == 1
