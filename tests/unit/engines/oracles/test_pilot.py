"""The look before a choice: what it sees, that it is counted, and that it is honest."""

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.pilot import run_pilot
from smoothcruiser.query import Query


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
