"""What is looked at before a run: steps and states of a problem, and a few paid samples."""

import itertools
import random

import pytest

import smoothcruiser as sc
from smoothcruiser.engines import inspection
from smoothcruiser.engines.inspection import look
from smoothcruiser.engines.pilot import run_pilot
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.states.state_copies import Guard

COMMON = {"num_actions": 2, "discount": 0.3}
COMMON["operator"] = sc.Entropy(1.0)
PROMISE = {"epsilon": "20%", "delta": 0.1, "method": "smoothcruiser"}


class Cell:
    """An object without ``==``."""

    def __init__(self, place):
        self.place = place


class Slotted:
    __slots__ = ("place",)

    def __init__(self, place):
        self.place = place


@pytest.mark.parametrize("make", [Cell, Slotted])
def test_objects_are_compared_by_what_they_hold(make):
    def good(state, action, rng):
        return rng.random(), make(state.place + rng.integers(2))

    def bad(state, action, rng):
        state.place += 1
        return rng.random(), make(state.place)

    assert plan_from(good, make(0)).interval is not None
    with pytest.raises(sc.OracleError, match="changed the state it was given"):
        plan_from(bad, make(0))


def plan_from(step, state=0, **more):
    return sc.plan(sc.MDP(step, initial_state=state, **COMMON), **PROMISE | more)


def test_a_write_by_one_action_or_in_one_of_fifty_calls_is_seen():
    """The first before the run, the second while it lasts."""

    def second(state, action, rng):
        state[0] += action
        return 0.5, [state[0]]

    def rare(state, action, rng):
        after = [state[0] + 1]
        if rng.random() < 0.02:
            state[0] = 0
        return rng.random(), after

    for step in (second, rare):
        with pytest.raises(sc.OracleError, match="changed the state it was given"):
            plan_from(step, [0])


def test_calls_that_share_one_next_state_are_refused():
    shared = [0]

    def step(state, action, rng):
        shared[0] = state[0] + rng.integers(5)
        return 0.5, shared

    with pytest.raises(sc.OracleError, match=r"a fresh state|changed the state"):
        plan_from(step, [0])


def test_randomness_from_elsewhere_is_refused():
    source = random.Random(3)
    with pytest.raises(sc.OracleError, match="draw every number from the rng"):
        plan_from(lambda s, a, rng: (source.random(), s))


def test_a_law_that_changes_late_is_seen_after_the_run():
    """The first thousand calls pay one half, all later ones nothing: only
    asking again can tell.
    """
    calls = itertools.count()

    def step(state, action, rng):
        return (0.5 if next(calls) < 1000 else 0.0), state

    with pytest.raises(sc.OracleError, match="before and after the run"):
        plan_from(step, epsilon="5%")


@pytest.mark.parametrize("name", ["legal", "player"])
def test_companions_that_change_their_mind_are_refused(name):
    calls = itertools.count()
    turns = {
        "legal": lambda s, a: a == 0 or next(calls) % 3 != 0,
        "player": lambda s: 1 + next(calls) % 2,
    }
    problem = sc.Game(
        lambda s, a, rng: (0.5, s),
        initial_state=0,
        **({"player": lambda s: 1} | {name: turns[name]}),
        **COMMON,
    )
    with pytest.raises(sc.OracleError, match="answered differently"):
        sc.plan(problem, **PROMISE)


@pytest.mark.compiles
def test_states_that_carry_a_stamp_are_no_fault():
    """A fresh number in every state changes no future: next states that differ
    are followed.
    """
    stamps = itertools.count()

    def step(state, action, rng):
        return 0.5 * rng.random() + 0.1 * (state[0] % 2), (state[0] + 1, next(stamps))

    problem = sc.MDP(step, initial_state=(0, -1), **COMMON)
    assert sc.plan(problem, **PROMISE).interval is not None
    assert sc.check(problem).ok


def test_what_is_looked_at_is_counted_and_named():
    problem = sc.MDP(
        lambda s, a, rng: (rng.random(), [s[0] + 1]), initial_state=[0], **COMMON
    )
    before, after = CallLedger(), CallLedger()
    looked = look(problem, [0], 0, before)
    assert (before.total, len(looked)) == (20, 10)
    look(problem, [0], 0, after, looked)
    assert after.total == 10
    estimate = sc.plan(problem, **PROMISE)
    assert any(
        "10 calls were repeated" in s and "looked at while it ran" in s
        for s in estimate.certificate.assumptions
    )
    price = sc.explain(problem, epsilon="20%", delta=0.1).num_calls
    assert estimate.price == price + problem.inspection_calls == price + 30
    assert sc.plan(problem, budget=price + 29, **PROMISE).num_calls <= price + 29
    assert sc.plan(problem, budget=price + 30, **PROMISE).num_calls <= price + 30


def test_a_guard_gets_rarer_and_never_stops():
    guard = Guard()
    looks = []
    for call in range(200_000):
        if guard.due():
            looks.append(call)
            guard.compare(guard.copy_state([1]), [1], 0)
    assert looks[:31] == list(range(31))
    assert guard.looks == len(looks)
    assert 1000 < len(looks) < 1500
    assert looks[-1] > 195_000


# --- the pilot ----------------------------------------------------------------


def mdp(step, **more):
    facts = {"num_actions": 2, "discount": 0.5, "operator": sc.Max()}
    return sc.MDP(step, **(facts | {"initial_state": 0} | more))


def ring(state, action, rng):
    return rng.random(), (state + action + rng.integers(2)) % 5


def continuum(state, action, rng):
    return 0.5, rng.random()


def clockwork(state, action, rng):
    return 0.5, 2 * state + action


@pytest.mark.parametrize(
    ("step", "comes_back", "by_chance"),
    [(ring, True, True), (continuum, False, True), (clockwork, True, False)],
)
def test_it_sees_whether_states_return_and_chance_plays(step, comes_back, by_chance):
    """Law: a ring returns, a continuum never does, clockwork takes no random number.

    (Walks begin at the same state, so clockwork returns to its first states.)
    """
    found = run_pilot(Query.of(mdp(step), 0, seed=0), calls=64)
    assert (found.comes_back, found.by_chance) == (comes_back, by_chance)


def test_every_call_is_counted_and_one_seed_gives_one_look():
    """Law: the calls told are the calls made, the inspection's among them; the clock is
    not compared, and ends the walks.
    """
    made = []

    def step(state, action, rng):
        made.append(state)
        return ring(state, action, rng)

    one = run_pilot(Query.of(mdp(step), 0, seed=3), calls=40)
    assert one.calls == len(made) > 40
    assert one == run_pilot(Query.of(mdp(step), 0, seed=3), calls=40)
    assert one.seconds > 0.0
    assert run_pilot(Query.of(mdp(ring), 0, seed=0), calls=64, seconds=-1.0).steps == 0


def test_steps_left_tell_states_of_a_horizon_apart():
    """Law: with a horizon a state returns only with the same number of steps left."""

    def counter(state, action, rng):
        return 0.5, 1  # one and the same state from then on

    plain = run_pilot(Query.of(mdp(counter), 0, seed=0), calls=8)
    cut = run_pilot(Query.of(mdp(counter, horizon=8), 0, seed=0), calls=8)
    assert (plain.returned, cut.returned) == (7, 0)


def test_the_callers_state_is_left_alone_and_ends_begin_anew():
    start = [0, 1]

    def step(state, action, rng):
        return 0.5, [state[0] + 1, state[1]], state[0] == 2

    problem = mdp(step, terminal=True, initial_state=start, key=tuple)
    found = run_pilot(Query.of(problem, start, seed=0), calls=30)
    assert start == [0, 1]
    assert found.steps == 20  # of 30, every third ended an episode


def test_it_says_that_states_come_back_only_where_they_do():
    """Law: walks that meet at the same step show nothing that comes back."""

    def tree(state, action, rng):
        return 0.5, 2 * state + action + 1

    def fork(state, action, rng):
        return 0.5, 4 * state + 2 * action + rng.integers(2) + 1

    words = {
        ring: "states come back",
        tree: "the same actions lead to the same states",
        fork: "walks from the start meet the same states",
    }
    for step, expected in words.items():
        assert (
            run_pilot(Query.of(mdp(step), 0, seed=0), calls=64).returning == expected
        )


@pytest.mark.parametrize(
    "seconds, num_pairs",
    [({3: 9.0}, 10), ({3: 99.0}, 2), (dict.fromkeys(range(99), 0.5), 2)],
)
def test_a_busy_machine_does_not_change_what_is_inspected(
    seconds, num_pairs, monkeypatch
):
    """Law: a delay of one call changes no pair, and so no answer; a slow step is cut."""
    seconds_passed, calls = [0.0], itertools.count(1)

    class Watch:
        def elapsed(self):
            return seconds_passed[0]

    def step(state, action, rng):
        seconds_passed[0] += seconds.get(next(calls), 1e-6)
        return rng.random(), state + 1

    monkeypatch.setattr(inspection, "Clock", Watch)
    problem = sc.MDP(step, initial_state=0, **COMMON)
    assert len(look(problem, 0, 1, CallLedger())) == num_pairs
