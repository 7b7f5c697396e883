"""Schedules from the disk: the same as a search finds, verified, and never trusted."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser import operators
from smoothcruiser.schedule import schedule_cache as kept
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, compile_schedule
from smoothcruiser.schedule.schedule_cache import ScheduleRequest, clear

FACTS = sc.make("chain:n=5", discount=0.4, temperature=0.2).facts
ASKED = ScheduleRequest(
    FACTS, frozenset(ALL_KINDS), 0.15, 0.1, "q_values", True, "smoothcruiser"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in which schedules are kept."""
    monkeypatch.setattr(kept, "is_on", lambda: True)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


def search(epsilon=0.15):
    return compile_schedule(FACTS, epsilon=epsilon, delta=0.1)


def nothing():
    raise AssertionError("it was kept, and need not be searched")


def is_searched(asked=ASKED):
    """Whether a request is searched for; what is found has to be right in any case."""
    searches = []

    def found():
        searches.append(1)
        return search()

    assert kept.load_or_search(asked, found) == search()
    return bool(searches)


def only(folder):
    (path,) = folder.glob("schedule-*.json")
    return path


def rewritten(path, data):
    """An edit by someone who knows how digests are made."""
    text = json.dumps(data)
    path.write_text(f"{kept._digest(text)}\n{text}")


def written(path):
    return json.loads(path.read_text().partition("\n")[2])


def test_what_was_found_once_is_read_and_equal_in_every_bit(folder):
    assert is_searched()
    again = kept.load_or_search(ASKED, nothing)
    assert again == search()
    assert again.to_json() == search().to_json()


def test_another_request_has_another_entry(folder):
    kept.load_or_search(ASKED, search)
    others = [
        ASKED._replace(epsilon=0.1500000001),
        ASKED._replace(delta=0.05),
        ASKED._replace(target="value"),
        ASKED._replace(adaptive=False),
        ASKED._replace(method="other"),
        ASKED._replace(kinds=frozenset(ALL_KINDS) - {sc.Kind.BLIND}),
        ASKED._replace(facts=replace(FACTS, discount=0.40000001)),
        ASKED._replace(facts=replace(FACTS, operator=sc.Entropy(0.20000001))),
        ASKED._replace(facts=replace(FACTS, reward_range=(0.0, 1.0000001))),
        ASKED._replace(facts=replace(FACTS, horizon=7)),
    ]
    places = {kept._entry_path(asked) for asked in [ASKED, *others]}
    assert len(places) == len(others) + 1


def test_a_long_prior_is_written_out(folder):
    """A shortened text of it would make two requests one."""
    prior = [1.0] * 400
    first = replace(FACTS, num_actions=400, operator=sc.KL(1.0, tuple(prior)))
    prior[200], prior[201] = 1.5, 0.5
    second = replace(first, operator=sc.KL(1.0, tuple(prior)))
    places = {
        kept._entry_path(ASKED._replace(facts=facts)) for facts in (first, second)
    }
    assert len(places) == 2


def test_a_change_of_the_search_makes_other_entries(folder, monkeypatch):
    before = kept._entry_path(ASKED)
    monkeypatch.setattr(kept, "_searchers", lambda: "another version")
    assert kept._entry_path(ASKED) != before


@pytest.mark.parametrize("damage", ["", "x", "half", "digest", "directory", "binary"])
def test_a_damaged_file_is_searched_anew_and_mended(folder, damage):
    kept.load_or_search(ASKED, search)
    path = only(folder)
    text = path.read_text()
    if damage == "directory":
        path.unlink()
        path.mkdir()
    elif damage == "binary":
        path.write_bytes(b"\xff\xfe" + os.urandom(100))
    else:
        wrong = {"half": text[: len(text) // 2], "digest": text.replace("5", "6", 1)}
        path.write_text(wrong.get(damage, damage))
    assert is_searched()
    assert is_searched() is (damage == "directory")


def test_an_edit_that_breaks_the_promise_is_not_used(folder):
    """A root or a level with half of its samples, a false shift."""
    kept.load_or_search(ASKED, search)
    path = only(folder)
    for where, name, factor in (
        ("root", "samples", 0.5),
        ("level", "samples", 0.5),
        ("level", "shift", 2.0),
    ):
        data = written(path)
        levels = sorted(data["levels"], key=lambda row: row["samples"])
        row = data["root"] if where == "root" else levels[-1]
        row[name] = type(row[name])(row[name] * factor)
        rewritten(path, data)
        assert is_searched(), (where, name)


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 0.4), ("delta", 0.2), ("method", "sparse-sampling")],
)
def test_an_edit_to_another_promise_is_not_used(folder, name, value):
    """Each is a sound schedule, and not the one that was asked for."""
    kept.load_or_search(ASKED, search)
    path = only(folder)
    rewritten(path, written(path) | {name: value})
    assert is_searched()


def test_the_schedule_of_another_problem_is_not_used(folder):
    """It is built on the facts that were asked for, on which it does not hold."""
    wide = ASKED._replace(facts=replace(FACTS, reward_range=(0.0, 3.0)))
    kept.load_or_search(ASKED, search)
    text = only(folder).read_text()
    place = kept._entry_path(wide)
    assert place is not None
    place.write_text(text)
    found = kept.load_or_search(
        wide, lambda: compile_schedule(wide.facts, epsilon=0.2, delta=0.1)
    )
    assert found.facts == wide.facts
    assert found.num_calls > search().num_calls


def test_a_dearer_schedule_is_used_because_it_keeps_the_promise(folder):
    kept.load_or_search(ASKED, search)
    path = only(folder)
    data = written(path)
    data["root"]["samples"] *= 2
    rewritten(path, data)
    found = kept.load_or_search(ASKED, nothing)
    assert found.root.samples == 2 * search().root.samples


def test_operators_and_kinds_of_the_users_own_are_not_kept(folder):
    own = sc.CustomOperator(lambda q: float(max(q)), lambda q: q, 1.0)
    assert kept._entry_path(ASKED._replace(facts=replace(FACTS, operator=own))) is None
    foreign = frozenset([*ALL_KINDS, 100])
    assert kept._entry_path(ASKED._replace(kinds=foreign)) is None


def test_nothing_is_kept_where_it_is_switched_off(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setenv("SMOOTHCRUISER_KEEP", "0")
    assert is_searched()
    assert list(folder.iterdir()) == []


def test_the_oldest_entries_go_first(folder, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 3)
    places = []
    for number in range(5):
        asked = ASKED._replace(epsilon=0.15 + 0.01 * number)
        kept.load_or_search(asked, lambda epsilon=asked.epsilon: search(epsilon))
        place = kept._entry_path(asked)
        assert place is not None
        os.utime(place, (number, number))
        places.append(place)
    assert [place.exists() for place in places] == [False, False, True, True, True]
    assert clear() == 3
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    tmp_path, folder, monkeypatch
):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked))
    assert is_searched()
    assert is_searched()


def test_a_package_that_cannot_be_written_uses_the_cache_of_the_user(
    tmp_path, folder, monkeypatch
):
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert kept._cache_folder() == Path(kept.__file__).parent / "__pycache__"
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    assert is_searched()
    assert not is_searched()
    assert only(tmp_path / "users" / "smoothcruiser").exists()


@pytest.mark.parametrize("what", ["pipe", "device", "long", "deep"])
def test_what_never_ends_is_not_read(folder, what):
    """A pipe and a device in the place of an entry, a huge file, a tower of lists."""
    kept.load_or_search(ASKED, search)
    path = only(folder)
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "long":
        path.write_text("x" * (3 * kept.LONGEST))
    else:
        text = "[" * 100_000 + "]" * 100_000
        path.write_text(f"{kept._digest(text)}\n{text}")
    assert is_searched()
    assert not is_searched()


def test_a_file_that_may_only_be_read_is_read(folder, monkeypatch):
    """As in an image that somebody else has filled."""
    kept.load_or_search(ASKED, search)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    assert not is_searched()


def test_an_entry_has_the_rights_of_other_new_files(folder):
    kept.load_or_search(ASKED, search)
    other = folder / "other"
    other.touch()
    assert only(folder).stat().st_mode == other.stat().st_mode


def test_other_files_in_the_folder_are_left_alone(folder, monkeypatch):
    """The folder may be any that the user has named for Numba."""
    mine = [folder / name for name in ("schedule-2024.csv", "schedule-notes.json")]
    for path in mine:
        path.write_text("mine")
        os.utime(path, (1, 1))
    inner = folder / f"schedule-{'0' * 32}.json"
    inner.mkdir()
    monkeypatch.setattr(kept, "MOST", 1)
    for epsilon in (0.15, 0.16):
        kept.load_or_search(
            ASKED._replace(epsilon=epsilon), lambda e=epsilon: search(e)
        )
    assert [path.name for path in kept._entries()] == [
        kept._entry_path(ASKED._replace(epsilon=0.16)).name
    ]
    assert clear() == 1
    assert all(path.exists() for path in [*mine, inner])


def test_an_edit_to_other_kinds_or_to_bets_is_not_used(folder):
    """Sound schedules both, and what was asked for has neither."""
    plain = ASKED._replace(
        kinds=frozenset({sc.Kind.CONSTANT, sc.Kind.PLUGIN}), adaptive=False
    )
    assert {
        level.kind for level in search().levels
    } - plain.kinds or search().root.looks
    assert not plain.fits(search())
    fixed = compile_schedule(FACTS, epsilon=0.15, delta=0.1, adaptive=False)
    root = replace(fixed.root, samples=2 * fixed.root.samples, adaptive_delta=0.01)
    assert ASKED._replace(adaptive=False).fits(fixed)
    assert not ASKED._replace(adaptive=False).fits(replace(fixed, root=root))


@pytest.mark.parametrize("place", ["constant", "beyond"])
def test_a_count_that_nobody_uses_is_not_taken_over(folder, place):
    """No promise depends on it, and compiled code cannot hold it."""
    kept.load_or_search(ASKED, search)
    path = only(folder)
    data = written(path)
    if place == "constant":
        data["levels"][0]["samples"] = 2**70
    else:
        row = data["levels"][data["root"]["child"]]
        data["levels"].append(row | {"samples": 2**70})
    rewritten(path, data)
    assert is_searched()


def test_an_operator_under_a_name_of_ours_shares_no_entry(folder, monkeypatch):
    """Of operators that are not listed only the name is written, not the numbers."""
    monkeypatch.setitem(operators.OPERATORS, "entropy", sc.KL)
    assert kept._entry_path(ASKED) is None


def test_a_package_without_sources_keeps_nothing(folder, monkeypatch):
    """Its entries would outlive a change of the code."""
    monkeypatch.setattr(kept, "__file__", str(folder / "archive.zip" / "a" / "b.pyc"))
    monkeypatch.setattr(kept, "_searchers", kept._searchers.__wrapped__)
    assert is_searched()
    assert is_searched()


def test_a_user_without_a_home_keeps_nothing(folder, monkeypatch):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert kept._entry_path(ASKED) is None
    assert clear() == 0


def test_a_flag_of_numpy_is_a_flag(folder):
    flag = np.False_
    first = compile_schedule(FACTS, epsilon=0.3, delta=0.1, adaptive=flag)
    assert first == compile_schedule(FACTS, epsilon=0.3, delta=0.1, adaptive=False)


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

    def printed(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            env=around,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    (first, searched), (second, read) = (printed("-c", program) for _ in range(2))
    assert first == second
    assert (searched, read) == ("1", "0")
    removed = printed("-m", "smoothcruiser.schedule.schedule_cache")
    assert removed == ["1 kept schedules were removed."]
