"""The compiler and its verifier: prices at most at the bar, tight tables, no altered table
gets through; schedules from the disk are those that a search finds, verified and never
trusted.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache

import pytest

import smoothcruiser as sc
from smoothcruiser import operators
from smoothcruiser.jit import disk_cache
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule import schedule_cache as cache
from smoothcruiser.schedule.compiler import optimizer
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, compile_schedule
from smoothcruiser.schedule.kinds import KINDS

E1 = sc.Entropy(1.0)
FACTS = {
    "plain": (Facts(2, 2, 0.5, E1, (0.0, 1.0)), 0.1),
    "strong": (Facts(4, 4, 0.5, sc.Entropy(10.0), (0.0, 1.0)), 0.1),
    "weak": (Facts(2, 2, 0.2, sc.Entropy(0.1), (0.0, 1.0)), 0.05),
    "max": (Facts(3, 3, 0.3, sc.Max(), (0.0, 1.0)), 0.1),
    "sparsemax": (Facts(3, 3, 0.4, sc.Sparsemax(1.0), (0.0, 1.0)), 0.1),
    "game": (Facts(2, 2, 0.5, E1, (0.0, 1.0), game=True), 0.04),
    "alternating": (
        Facts(2, 2, 0.5, E1, (0.0, 1.0), game=True, alternating=True),
        0.1,
    ),
    "ragged": (Facts(3, 1, 0.5, E1, (-1.0, 1.0), terminals=True), 0.08),
    "horizon": (Facts(2, 2, 1.0, E1, (0.0, 1.0), horizon=4), 0.1),
}


PLAIN = frozenset(kind for kind in sc.Kind if not KINDS[kind].randomized)


@lru_cache(maxsize=64)
def compiled(name, **options):
    facts, share = FACTS[name]
    return optimizer.compile_schedule(
        facts, epsilon=share * facts.value_span(), delta=0.1, **options
    )


@pytest.mark.compiles
@pytest.mark.parametrize(
    "gamma, temperature, k, share, q_values, value",
    [
        (0.2, 10.0, 2, 0.20, 216, 96),
        (0.2, 10.0, 4, 0.05, 1.33e4, 3.39e3),
        (0.2, 1.0, 2, 0.01, 3.06e6, 3.06e6),
        (0.2, 0.1, 2, 0.02, 9.89e6, 9.89e6),
        (0.5, 1.0, 2, 0.05, 1.87e6, 1.87e6),
        (0.5, 10.0, 4, 0.10, 7.9e3, 1.96e3),
        (0.5, 1.0, 10, 0.05, 2.82e8, 1.52e8),
        (0.7, 1.0, 2, 0.10, 1.08e8, 1.08e8),
        (0.9, 50.0, 4, 0.20, 6.08e4, 1.59e4),
    ],
)
def test_prices_are_at_most_at_the_bar(gamma, temperature, k, share, q_values, value):
    """One entry of every row of the table; benchmarks/engine/price_table.py prints all
    of them.
    """
    facts = Facts(k, k, gamma, sc.Entropy(temperature), (0.0, 1.0))
    promise = {"epsilon": share / (1 - gamma), "delta": 0.1, "adaptive": False}
    assert (
        optimizer.compile_schedule(facts, target="q_values", **promise).num_calls
        <= q_values
    )
    assert (
        optimizer.compile_schedule(facts, target="value", **promise).num_calls <= value
    )


@pytest.mark.compiles
@pytest.mark.parametrize("name", FACTS)
def test_halved_counts_are_refused(name):
    """Every count is as low as the promise allows: half of it, at any level or
    at the root, breaks it; even one less does.
    """
    schedule = compiled(name, adaptive=False)
    for fewer in (schedule.root.samples // 2, schedule.root.samples - 1):
        with pytest.raises(sc.BrokenPromise):
            replace(schedule, root=replace(schedule.root, samples=fewer))
    for i, level in enumerate(schedule.levels):
        for fewer in (
            {level.samples // 2, level.samples - 1} if level.samples > 1 else ()
        ):
            with pytest.raises(sc.BrokenPromise):
                with_level(schedule, i, samples=fewer)


@pytest.mark.compiles
@pytest.mark.parametrize("name", FACTS)
def test_altered_rows_and_promises_are_refused(name):
    """A smaller epsilon or delta, a clip, a shift zeroed or turned, a constant moved:
    all break the promise.
    """
    schedule = compiled(name)
    for changes in (
        {"epsilon": 0.97 * schedule.epsilon},
        {"delta": 0.5 * schedule.delta},
        {"clip": (0.0, 1.0)},
    ):
        with pytest.raises(sc.BrokenPromise):
            replace(schedule, **changes)
    for i, level in enumerate(schedule.levels):
        if level.kind is sc.Kind.CONSTANT:
            for move in (-0.05, 0.1):
                with pytest.raises(sc.BrokenPromise):
                    with_level(schedule, i, constant=level.constant + move)
            continue
        for shift in (0.0, -level.shift, 2.0 * level.shift):
            with pytest.raises(sc.BrokenPromise):
                with_level(schedule, i, shift=shift)


@pytest.mark.compiles
@pytest.mark.parametrize("name", FACTS)
def test_swapped_children_are_refused(name):
    """Another child below a level is refused, unless it is a narrower
    continuation, which keeps more and costs more.
    """
    schedule = compiled(name, adaptive=False)
    refused = 0
    for i, level in enumerate(schedule.levels):
        for field in ("query", "continuation"):
            now = getattr(level, field)
            for other in range(i):
                if (
                    now < 0
                    or other == now
                    or schedule.levels[other] == schedule.levels[now]
                ):
                    continue
                try:
                    dearer = with_level(schedule, i, **{field: other})
                except sc.BrokenPromise:
                    refused += 1
                    continue
                assert field == "continuation"
                assert dearer.num_calls >= schedule.num_calls
    for other in range(len(schedule.levels) - 1):
        with pytest.raises(sc.BrokenPromise):
            replace(schedule, root=replace(schedule.root, child=other))
        refused += 1
    assert refused > 0 or len(schedule.levels) == 1


def with_level(schedule, index, **changes):
    levels = list(schedule.levels)
    levels[index] = replace(levels[index], **changes)
    return replace(schedule, levels=tuple(levels))


@pytest.mark.compiles
def test_looks_are_checked():
    """Looks rise, stay below the root's draws and have a share of delta; that
    share is not also the fixed promise's.
    """
    facts = Facts(2, 2, 0.5, E1, (0.0, 1.0))
    schedule = optimizer.compile_schedule(facts, epsilon=0.05, delta=0.1)
    root = schedule.root
    assert root.looks
    assert 0.0 < root.adaptive_delta < 0.1
    for broken in (
        {"looks": root.looks[::-1]},
        {"looks": (*root.looks, root.samples)},
        {"adaptive_delta": 0.0},
        {"adaptive_delta": 0.1},
        {"adaptive_delta": 0.06},
    ):
        with pytest.raises(sc.BrokenPromise):
            replace(schedule, root=replace(root, **broken))


@pytest.mark.compiles
@pytest.mark.parametrize("name", FACTS)
def test_bets_cost_at_most_a_quarter(name):
    """Law: the possibility to stop early at most doubles the worst-case price (here: a
    quarter more), and less is expected; a table of which that holds is taken.
    """
    betting, fixed = (compiled(name, adaptive=x, kinds=PLAIN) for x in (True, False))
    assert betting.num_calls <= 1.25 * fixed.num_calls
    assert fixed.expected_calls == fixed.num_calls
    if betting.root.looks:
        assert betting.expected_calls < 0.5 * fixed.num_calls
        assert betting.to_dict()["expected_calls"] == betting.expected_calls


@pytest.mark.compiles
@pytest.mark.parametrize("name", ["plain", "strong", "alternating", "horizon"])
@pytest.mark.parametrize("budget", [2_000, 300_000])
def test_smallest_epsilon_inverts_the_price(name, budget):
    """The schedule at that epsilon is within the budget; 3% below it no longer is."""
    facts, _ = FACTS[name]
    epsilon = optimizer.smallest_epsilon(facts, budget=budget, delta=0.1)
    promise = {"delta": 0.1, "adaptive": False}
    paid = optimizer.compile_schedule(facts, epsilon=epsilon, **promise)
    finer = optimizer.compile_schedule(facts, epsilon=0.97 * epsilon, **promise)
    assert paid.num_calls <= budget < finer.num_calls


@pytest.mark.compiles
def test_sparse_sampling_is_the_same_without_rollouts():
    """Plug-ins and constants only, never cheaper than the full choice, and the
    same for plain max.
    """
    facts, share = FACTS["plain"]
    plain = optimizer.sparse_sampling(facts, epsilon=share * 2.0, delta=0.1)
    assert plain.method == "sparse-sampling"
    assert {level.kind for level in plain.levels} <= {sc.Kind.CONSTANT, sc.Kind.PLUGIN}
    assert plain.num_calls >= compiled("plain").num_calls


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("facts", "levels", "most"),
    [
        (Facts(1, 1, 0.9, E1, (0.0, 1.0)), None, 9_999),
        (Facts(3, 3, 0.0, E1, (0.0, 1.0)), 1, None),
        (Facts(3, 3, 0.9, E1, (2.0, 2.0)), None, 3),
        (Facts(2, 2, 1.0, E1, (0.0, 1.0), horizon=1), 1, None),
    ],
)
def test_degenerate_problems(facts, levels, most):
    """K = 1, gamma = 0, rho = 0, one step: plans of one or two levels."""
    epsilon = 1.0 if facts.num_actions == 1 else 0.1
    schedule = optimizer.compile_schedule(facts, epsilon=epsilon, delta=0.1)
    assert levels is None or len(schedule.levels) == levels
    assert most is None or schedule.num_calls <= most


@pytest.mark.compiles
def test_lists_in_the_place_of_tuples_are_verified_too():
    """Tables by hand: what the verifier remembers by their hash is only for speed."""
    facts = Facts(2, 2, 0.4, sc.Entropy(1.0), (0.0, 1.0))
    schedule = optimizer.compile_schedule(facts, epsilon=0.3, delta=0.1)
    listed = replace(schedule, levels=list(schedule.levels))
    assert listed.num_calls == schedule.num_calls
    root = replace(schedule.root, samples=1, looks=[], adaptive_delta=0.0)
    with pytest.raises(sc.BrokenPromise, match="do not keep"):
        replace(listed, root=root)


# --- schedules from the disk --------------------------------------------------


DISK_FACTS = sc.make("chain:n=5", discount=0.4, temperature=0.2).facts
REQUEST = cache.ScheduleRequest(
    DISK_FACTS, frozenset(ALL_KINDS), 0.15, 0.1, "q_values", True, "smoothcruiser"
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
    return compile_schedule(DISK_FACTS, epsilon=epsilon, delta=0.1)


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
        replace(DISK_FACTS, discount=0.40000001),
        replace(DISK_FACTS, operator=sc.Entropy(0.20000001)),
        replace(DISK_FACTS, reward_range=(0.0, 1.0000001)),
        replace(DISK_FACTS, horizon=7),
        replace(DISK_FACTS, num_actions=400, operator=sc.KL(1.0, tuple(prior))),
        replace(DISK_FACTS, num_actions=400, operator=sc.KL(1.0, tuple(other))),
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
    wide = REQUEST._replace(facts=replace(DISK_FACTS, reward_range=(0.0, 3.0)))
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
    fixed = compile_schedule(DISK_FACTS, epsilon=0.15, delta=0.1, adaptive=False)
    root = replace(fixed.root, samples=2 * fixed.root.samples, adaptive_delta=0.01)
    assert REQUEST._replace(adaptive=False).fits(fixed)
    assert not REQUEST._replace(adaptive=False).fits(replace(fixed, root=root))


def test_what_is_the_users_own_is_not_kept(folder, monkeypatch):
    """Of operators that are not listed only the name is written, not the numbers."""
    own = sc.CustomOperator(lambda q: float(max(q)), lambda q: q, 1.0)
    foreign = frozenset([*ALL_KINDS, 100])
    for changes in ({"facts": replace(DISK_FACTS, operator=own)}, {"kinds": foreign}):
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
