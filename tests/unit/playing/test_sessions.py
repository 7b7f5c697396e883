"""Time for an episode, and thinking while the other moves."""

import gc
import threading
import time
from dataclasses import replace

import pytest
from worlds import COMMON, mdp

import smoothcruiser as sc
from smoothcruiser.playing import agent as clock


def step(state, action, rng):
    """A walk of seven moves; pays at the end."""
    after = (state[0] + action, state[1] + 1)
    return (float(after[0] % 3 - 1) if after[1] == 7 else 0.0), after


WALK = mdp(
    step,
    discount=1.0,
    horizon=7,
    operator=sc.Max(),
    reward_range=(-1.0, 1.0),
    terminal=lambda state: state[1] == 7,
    initial_state=(0, 0),
)
GAME = sc.Game(
    step,
    player=lambda state: 1 + state[1] % 2,
    alternating=True,
    horizon=7,
    reward_range=(-1.0, 1.0),
    terminal=lambda state: state[1] == 7,
    **COMMON | {"discount": 1.0, "operator": sc.Max(), "initial_state": (0, 0)},
)


def pondering():
    return [t for t in threading.enumerate() if t.name == "smoothcruiser-ponder"]


def test_time_is_dealt_out_over_the_moves_that_are_left():
    watch = clock.EpisodeClock(WALK, 70.0, None)
    assert watch.share(0, None) == 10.0
    assert watch.share(0, 7) == 10.0
    watch.spend(10.0)
    assert watch.share(1, None) == 10.0
    watch.spend(30.0)  # a slow decision: less for the others
    assert watch.share(2, 5) == 6.0
    watch.spend(100.0)
    assert (
        watch.share(3, 4) == clock.LEAST
    )  # over, and a decision is made all the same
    watch.begin()
    assert watch.share(0, None) == 10.0
    assert (
        clock.EpisodeClock(WALK, 70.0, 2.5).share(0, None) == 2.5
    )  # seconds= is the most
    turns = clock.EpisodeClock(GAME, 70.0, None)
    assert turns.share(0, None) == 70.0 / 4  # four of seven moves
    assert turns.share(1, 5) == 70.0 / 3
    endless = replace(WALK, horizon=None, discount=0.9)
    assert (
        clock.EpisodeClock(endless, 60.0, None).share(9, None) == 60.0 / clock.EXPECTED
    )


def test_an_agent_keeps_the_time_of_an_episode(monkeypatch):
    """What decisions are given, seen where they are made."""
    agent = sc.Agent(WALK, "uct", seconds_total=0.07)
    given = []
    decide = type(agent.session).answer_query

    def noted(session, query):
        given.append(query.limits.seconds)
        return decide(session, query)

    monkeypatch.setattr(type(agent.session), "answer_query", noted)
    played = sc.play(agent, episodes=2, seed=1)
    assert played.decisions == 14
    assert len(given) == 14
    assert all(0.0 < seconds <= 0.07 for seconds in given)
    assert given[0] == pytest.approx(0.07 / 7)
    assert given[7] == pytest.approx(0.07 / 7)  # a new episode, a new clock
    with pytest.raises(sc.InvalidInput, match="depends on the clock"):
        agent.policy((0, 0))


def test_an_agent_thinks_while_the_other_moves():
    agent = sc.Agent(GAME, "uct", simulations=20, ponder=True)
    first = agent.act((0, 0), remaining=7)
    tree = agent.session.tree
    assert len(pondering()) == 1
    deadline = time.perf_counter() + 20.0
    while tree.simulations < 200 and time.perf_counter() < deadline:
        time.sleep(0.01)
    # the other has moved: thinking ends, and is kept
    agent.act((first + 1, 2), remaining=5)
    assert agent.session.tree is tree
    assert tree.node(0).visits > 20
    assert "while the other moved" in agent.estimate.notes[-1]
    calls = tree.num_calls
    agent.close()
    assert pondering() == []
    assert tree.num_calls >= calls
    before = tree.num_calls
    time.sleep(0.05)
    assert tree.num_calls == before  # nobody grows it any more


def test_nobody_thinks_on_after_a_play():
    agent = sc.Agent(GAME, "uct", simulations=20, ponder=True)
    assert sc.play(agent, episodes=2, seed=3).episodes == 2
    assert pondering() == []


def test_errors_of_pondering_are_not_lost():
    def breaks(state, action, rng):
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("out of reach")
        return step(state, action, rng)

    agent = sc.Agent(replace(GAME, oracle=breaks), "uct", simulations=5, ponder=True)
    action = agent.act((0, 0))
    agent.session._pondering._thread.join()
    with pytest.raises(sc.OracleError, match="out of reach"):
        agent.act((action + 1, 2))


def test_what_keeps_no_tree_does_not_ponder():
    with pytest.raises(sc.InvalidInput, match="keeps none"):
        sc.Agent(WALK, "certified", delta=0.1, budget=100, ponder=True)


def test_a_forgotten_agent_stops_thinking():
    agent = sc.Agent(GAME, "uct", simulations=5, ponder=True)
    agent.act((0, 0))
    (thread,) = pondering()
    del agent
    gc.collect()
    thread.join(20.0)
    assert not thread.is_alive()


def test_flags_are_true_or_false():
    for flags in ({"ponder": "no"}, {"sample": 1}):
        with pytest.raises(sc.InvalidInput, match="must be True or False"):
            sc.Agent(WALK, "uct", budget=10, **flags)
    with pytest.raises(sc.InvalidInput, match="seconds_total must be a number"):
        sc.Agent(WALK, "uct", seconds_total=0)
