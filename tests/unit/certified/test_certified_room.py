"""A search that meets more states than it may keep ends with intervals that hold."""

import math

import numba
import pytest

import smoothcruiser as sc
from smoothcruiser.certified import query_limits as room
from smoothcruiser.certified.query_limits import MemoryLimit, available_bytes, size_of

pytestmark = pytest.mark.compiles


def walk(state, action, rng):
    """Up or down from 0 to 60, with a reward for being high."""
    up = rng.random() < (0.4 if action == 0 else 0.7)
    after = min(60, state + 1) if up else max(0, state - 1)
    return after / 60.0, after


def problem(step, **rest):
    return sc.MDP(
        step,
        num_actions=2,
        discount=0.9,
        operator=sc.Entropy(0.1),
        initial_state=20,
        **rest,
    )


def law(state, action):
    up = 0.4 if action == 0 else 0.7
    high, low = min(60, state + 1), max(0, state - 1)
    return [(up, high / 60.0, high), (1.0 - up, low / 60.0, low)]


TRUTH = sc.plan(problem(walk, outcomes=law), method="exact")
STEPS = {"python": walk, "compiled": numba.njit(walk)}


@pytest.mark.parametrize(
    ("kind", "most"),
    [("python", 1), ("python", 5), ("python", 25), ("compiled", 2), ("compiled", 12)],
)
def test_intervals_hold_where_states_had_no_room(kind, most):
    """The law: max_states is never exceeded, the note says so, and the exact value
    and action values lie within the intervals, for several seeds.
    """
    for seed in range(3 if kind == "python" else 1):
        memory = sc.Certified(
            problem(STEPS[kind]), delta=0.01, seed=seed, max_states=most
        )
        found = memory.query(epsilon=0.05, budget=200_000)
        assert memory.memory.num_kept <= most
        assert memory.reason == "max_states"
        assert "max_states" in " ".join(found.notes)
        assert found.interval[0] <= TRUTH.value <= found.interval[1]
        for (low, high), q in zip(
            found.certificate.q_intervals, TRUTH.q_values, strict=True
        ):
            assert low <= q <= high


@pytest.mark.parametrize("kind", STEPS)
def test_samples_that_found_no_room_are_used_once_there_is_some(kind, tmp_path):
    """A run that ended at max_states goes on with more of them, from the calls that
    it had, and reaches its epsilon.
    """
    asked = {"epsilon": 0.3, "delta": 0.01, "seed": 1, "store": tmp_path / "store.db"}
    ready = problem(STEPS[kind])
    short = sc.plan(ready, method="certified", max_states=12, **asked)
    assert short.epsilon > 0.3
    whole = sc.resume(short.run, asked["store"], ready, max_states=100)
    assert whole.epsilon == 0.3
    assert whole.num_calls > short.num_calls
    assert whole.interval[0] <= TRUTH.value <= whole.interval[1]


@pytest.mark.parametrize("kind", STEPS)
def test_a_limit_that_is_not_met_changes_no_bit(kind):
    """With room for exactly the states it meets, the answer is that without limit."""
    memory = sc.Certified(problem(STEPS[kind]), delta=0.01)
    free = memory.query(epsilon=0.3)
    bound = sc.Certified(
        problem(STEPS[kind]), delta=0.01, max_states=memory.memory.num_kept
    )
    found = bound.query(epsilon=0.3)
    for part in ("interval", "q_values", "num_calls", "notes"):
        assert getattr(found, part) == getattr(free, part)


@pytest.mark.parametrize("kind", STEPS)
def test_a_full_memory_answers_further_queries_from_what_it_has(kind):
    """Queries after the limit neither sample nor fail; an unknown state is refused."""
    memory = sc.Certified(problem(STEPS[kind]), delta=0.01, max_states=9)
    first = memory.query(epsilon=0.05)
    again = memory.query(epsilon=0.05)
    assert again.interval[0] >= first.interval[0]
    assert again.interval[1] <= first.interval[1]
    with pytest.raises(sc.InvalidInput, match="no room in this memory"):
        memory.query(60, epsilon=0.05)


@pytest.mark.parametrize("kind", STEPS)
def test_the_memory_at_hand_ends_a_search_too(kind, monkeypatch):
    """With few bytes available the search ends with the interval it has; its arrays
    stay below the share.
    """
    monkeypatch.setattr(room, "available_bytes", lambda: 115_000)
    memory = sc.Certified(problem(STEPS[kind]), delta=0.01)
    found = memory.query(epsilon=0.001, budget=10**5)
    assert memory.memory.num_bytes <= 57_500
    assert memory.reason == "memory"
    assert found.interval[0] <= TRUTH.value <= found.interval[1]


def test_many_outcomes_end_a_search_where_entries_have_no_room(monkeypatch):
    """Few states and many outcomes: entries are what does not fit."""

    @numba.njit
    def dense(state, action, rng):
        return 0.0, int(400 * rng.random())

    monkeypatch.setattr(room, "available_bytes", lambda: 1_000_000)
    memory = sc.Certified(problem(dense), delta=0.01)
    found = memory.query(epsilon=0.001, budget=200_000)
    assert memory.reason == "memory"
    assert memory.memory.num_bytes <= 500_000
    truth = math.log(2.0)  # ten steps' worth of 0.1 log(2)
    assert found.interval[0] - 1e-12 <= truth <= found.interval[1]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "many"])
def test_max_states_is_a_number_of_states(wrong):
    """Anything else is refused, in a plan and in a Certified."""
    with pytest.raises(sc.InvalidInput, match="max_states must be a whole number"):
        sc.Certified(problem(walk), delta=0.1, max_states=wrong)
    with pytest.raises(sc.InvalidInput, match="max_states must be a whole number"):
        sc.plan(
            problem(walk), method="certified", epsilon=1, delta=0.1, max_states=wrong
        )


def test_available_is_the_least_that_anyone_leaves(tmp_path, monkeypatch):
    """The system's free memory, and what a control group and its parents leave."""
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 100 kB\nMemAvailable:    50 kB\n")
    monkeypatch.setattr(room, "MEMINFO", info)
    own = tmp_path / "cgroup"
    own.write_text("0::/a/b\n")
    monkeypatch.setattr(room, "OWN_GROUP", own)
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    assert available_bytes() == 50 * 1024
    group = tmp_path / "a"
    (group / "b").mkdir(parents=True)
    (group / "memory.max").write_text("40000\n")
    (group / "memory.current").write_text("30000\n")
    (group / "memory.stat").write_text("anon 9000\ninactive_file 5000\n")
    (group / "b" / "memory.max").write_text("max\n")
    assert available_bytes() == 15_000
    assert MemoryLimit.at_hand(None).max_bytes == 7_500
    assert MemoryLimit.at_hand(3) == MemoryLimit(3, 13_500)


def test_the_size_of_a_state_counts_its_parts():
    """Tuples, dicts and fields; a ring ends."""
    ring = [1]
    ring.append(ring)
    assert size_of((1, (2, 3))) > size_of((1, 2))
    assert size_of({"a": [1, 2]}) > size_of({"a": 1})
    assert size_of(ring) > 0
