"""Agents and episodes: sessions, clocks, decisions within little time."""

import copy
import gc
import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from worlds import COMMON, mdp

import smoothcruiser as sc
from smoothcruiser.exact import policy_value
from smoothcruiser.methods import auto, scheduled
from smoothcruiser.methods.schedules.scheduled import ScheduleSession
from smoothcruiser.playing import agent as clock
from smoothcruiser.playing.episodes import mean_interval, student_95, wilson


def chain():
    return sc.make("chain:n=5", discount=0.9, operator="max")


@pytest.mark.compiles
def test_an_agent_may_draw_from_its_policy():
    problem = sc.make("chain:n=3", discount=0.2, temperature=10.0)
    agent = sc.Agent(problem, "exact", sample=True)
    drawn = [agent.act(0) for _ in range(400)]
    share = agent.estimate.policy[1]
    assert abs(np.mean(drawn) - share) < 5 * math.sqrt(share * (1 - share) / 400)


@pytest.mark.compiles
def test_the_horizon_shrinks_as_an_agent_plays():
    """One step before the end only the immediate reward counts."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 0], P[0, 1, 1], P[1, :, 2], P[2, :, 2] = 1.0, 1.0, 1.0, 1.0
    R = np.zeros((3, 2))
    R[0, 0], R[1, :] = 0.3, 1.0
    problem = sc.tabular(P, R, discount=1.0, operator=sc.Max(), horizon=3)
    agent = sc.Agent(problem, "exact")
    assert agent.act(0, remaining=2) == 1
    assert agent.act(0, remaining=1) == 0
    summary = sc.play(agent, episodes=1)
    assert summary.mean_return == pytest.approx(1.3)
    assert summary.mean_steps == 3


@pytest.mark.compiles
def test_play_repeats_itself_and_streams_are_apart():
    """Same seed, same episodes; the world draws the same whatever the agent's
    planning does.
    """
    problem = sc.make("garnet:states=6,actions=2", discount=0.8, temperature=0.5)
    one = sc.play(sc.Agent(problem, "exact"), episodes=5, seed=4)
    two = sc.play(sc.Agent(problem, "exact", seed=99), episodes=5, seed=4)
    other = sc.play(sc.Agent(problem, "exact"), episodes=5, seed=5)
    assert one.mean_return == two.mean_return != other.mean_return
    assert one.mean_steps == math.ceil(math.log(0.01) / math.log(0.8))


def nim(state, action, rng):
    """Take 1 or 2 from a heap of 7; who takes the last wins."""
    heap, mover = state
    left = heap - 1 - action
    return (1.0 if mover == 1 else -1.0) if left == 0 else 0.0, (left, 3 - mover)


def nim_game(**changes):
    settings = {
        "player": lambda s: s[1],
        "num_actions": 2,
        "discount": 0.9,
        "operator": sc.Max(),
        "reward_range": (-1.0, 1.0),
        "legal": lambda s, a: a + 1 <= s[0],
        "terminal": lambda s: s[0] == 0,
        "initial_state": (7, 1),
        "deterministic": True,
        "outcomes": lambda s, a: [(1.0, *nim(s, a, None))],
    }
    return sc.Game(nim, **(settings | changes))


def exact_nim():
    return sc.Agent(nim_game(), "exact")


@pytest.mark.compiles
def test_an_agent_wins_a_won_game_on_either_side():
    """From 7 the first player wins by leaving multiples of 3; a random second
    player loses its share when it starts.
    """
    first = sc.play(exact_nim(), episodes=30, side=1)
    assert (first.wins, first.draws, first.losses) == (30, 0, 0)
    turns = sc.play(exact_nim(), episodes=40, seed=2)
    assert turns.wins > 30
    assert turns.win_rate_interval[0] < turns.win_rate < turns.win_rate_interval[1]
    assert "win rate" in str(turns)


@pytest.mark.compiles
def test_two_agents_and_a_players_own_function():
    lost = sc.play(exact_nim(), episodes=2, side=2, opponent=exact_nim())
    assert (lost.losses, lost.opponent) == (2, "exact")

    def greedy(state, problem, rng):
        return problem.legal_actions(state)[-1]

    played = sc.play(exact_nim(), episodes=2, side=1, opponent=greedy)
    assert played.opponent == "greedy"
    few = sc.play(sc.Agent(chain()), episodes=1).to_dict()
    assert few["return_interval"] == ["-Infinity", "Infinity"]


@pytest.mark.compiles
def test_intervals():
    """Wilson's interval by hand for 8 of 10; the normal one for two numbers."""
    low, high = wilson(8, 10)
    assert (low, high) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert wilson(0, 5)[0] == 0.0
    assert wilson(5, 5)[1] == 1.0
    assert mean_interval([0.0, 1.0, 2.0]) == pytest.approx(
        (1 - 4.3027 / 3**0.5, 1 + 4.3027 / 3**0.5)
    )
    assert mean_interval([60.0] * 10) == (60.0, 60.0)
    for few in ([60.0, 60.0], [0.0, 2.0], [60.0] * 9):
        assert mean_interval(few) == (-math.inf, math.inf)
    known = {2: 4.3027, 5: 2.5706, 6: 2.4469, 9: 2.2622, 29: 2.0452, 10**6: 1.95996}
    for freedom, quantile in known.items():
        assert student_95(freedom) == pytest.approx(quantile, abs=2e-3)
    assert mean_interval([1.0]) == (-math.inf, math.inf)


@pytest.mark.compiles
def test_an_agent_is_pickled_without_its_tree():
    agent = sc.Agent(nim_game(), "uct", simulations=50)
    first = agent.act(nim_game().initial_state)
    twin = copy.deepcopy(agent)
    assert twin.session.tree is None
    assert first in (0, 1)
    assert twin.act(nim_game().initial_state) in (0, 1)


@pytest.mark.compiles
def test_an_agent_keeps_its_tree_below_the_moves_made():
    """What was found about the next states is not forgotten: the second
    decision starts with visits.
    """
    agent = sc.Agent(chain(), sc.UCT(depth=6), simulations=200)
    assert agent.act(0) == 1
    tree = agent.session.tree
    node = next(tree.node(i) for move, i in tree.children(0) if move == 1)
    after, visits = node.state, node.visits
    agent.act(after)
    assert agent.session.tree is tree
    assert tree.node(0).visits == visits + 200
    assert agent.estimate.num_calls < tree.num_calls  # of this decision alone
    agent.act(0 if after else 3)  # a jump that no move explains: a new tree
    assert agent.session.tree is not tree


@pytest.mark.compiles
def test_a_tree_is_kept_over_the_other_players_move():
    game = nim_game()
    agent = sc.Agent(game, "uct", simulations=300)
    start = game.initial_state
    action = agent.act(start)
    _, middle, *_ = game.oracle(start, action, None)
    for reply in game.legal_actions(middle):
        _, state, *over = game.oracle(middle, reply, None)
        if not (over and over[0]) and not game.is_terminal(state):
            break
    tree = agent.session.tree
    agent.act(state)
    assert agent.session.tree is tree
    assert tree.elapsed == 2
    assert tree.node(0).visits > 300


@pytest.mark.compiles
@pytest.mark.slow
def test_an_agents_policy_is_one_function_that_can_be_certified():
    """act learns and draws new seeds; policy answers the same every time, so
    its value exists, and evaluate finds it.
    """
    problem = chain()
    agent = sc.Agent(problem, sc.MENTS(temperature=0.5), simulations=50, seed=3)
    table = [agent.policy(s) for s in range(5)]
    agent.act(0)
    assert [agent.policy(s) for s in range(5)] == table
    answer = sc.evaluate(problem, agent.policy, budget=4_000)
    exact = policy_value(problem, np.array(table))[answer.state]
    assert answer.interval[0] <= exact <= answer.interval[1]
    assert answer.interval[0] <= sc.solve(problem).values[answer.state]
    assert sc.Agent(problem).policy(0) == tuple(sc.solve(problem).policy[0])
    with pytest.raises(sc.InvalidInput, match="depends on the clock"):
        sc.Agent(problem, "uct", seconds=1.0).policy(0)


def always_5(state, problem, rng):
    return 5


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sc.play(sc.Agent(chain()), episodes=0), "episodes must be"),
        (lambda: sc.play(exact_nim(), episodes=1, side=3), "side must be"),
        (lambda: sc.play(sc.Agent(chain()), episodes=1, side=2), "one player"),
        (lambda: sc.play(chain(), episodes=1), "play lets an Agent act, got MDP"),
        (
            lambda: sc.play(sc.Agent(chain()), episodes=1, opponent="bts"),
            "opponent must be an Agent or a function",
        ),
        (
            lambda: sc.play(exact_nim(), episodes=1, side=1, opponent=always_5),
            r"opponent chose action 5 at state",
        ),
        (lambda: sc.Agent(42), r"Problem .* or a .*gym:, .*openspiel:"),
        (lambda: exact_nim().act((0, 1)), "The episode is over"),
        (lambda: sc.Agent(chain(), "uct", budgte=1), "'budgte'; did you mean budget="),
        (lambda: sc.Agent(chain(), "uct", options={"c": 1}), "no parameter 'c'"),
        (lambda: sc.Agent(chain(), "uct", seconds=0), "must be a"),
    ],
)
def test_bad_requests(call, words):
    with pytest.raises(sc.InvalidInput, match=words):
        call()


def bandit(state, action, rng):
    return float(rng.random() < 0.2 + 0.3 * action), state


@pytest.mark.compiles
@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
def test_a_share_of_the_span_is_of_the_steps_that_are_left(method):
    """Law: "30%" of a shorter future is less, as if ``plan`` were asked there."""
    problem = mdp(bandit, num_actions=3, discount=1.0, horizon=4, operator=sc.Max())
    agent = sc.Agent(problem, method, epsilon="30%", delta=0.1, seed=1)
    for left in (4, 2, 1):
        assert agent.act(0, remaining=left) == 2
        assert agent.estimate.epsilon == pytest.approx(0.3 * left)


@pytest.mark.compiles
def test_a_value_alone_recommends_no_action_to_sample():
    problem = sc.make("chain:n=3", discount=0.3, temperature=1.0)
    asked = {"epsilon": "50%", "delta": 0.1, "target": "value"}
    for sample in (True, False):
        agent = sc.Agent(problem, "smoothcruiser", sample=sample, **asked)
        with pytest.raises(sc.InvalidInput, match="recommends no action"):
            agent.act(0)


@pytest.mark.compiles
def test_what_was_done_has_names():
    problem = sc.make("chain:n=4", discount=0.9, operator="max")
    agent = sc.Agent(problem)
    assert agent.action_label is None
    agent.act(0)
    assert agent.action_label == "right"
    summary = sc.play(agent, episodes=2, steps=3)
    assert summary.actions == {"right": 6}
    assert summary.to_dict()["actions"] == {"right": 6}


# --- sessions -----------------------------------------------------------------


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


# --- decisions within little time ---------------------------------------------


TINY = 1e-3


def short_step(state, action, rng):
    after = (state + 1 + action) % 9 if rng.random() < 0.7 else (2 * state) % 9
    return (1.0 if after == 3 else 0.0), after


def world(**more):
    about = {"discount": 0.8, "operator": sc.Entropy(0.2)} | more
    return sc.MDP(short_step, num_actions=2, initial_state=0, **about)


@pytest.fixture
def prepared(monkeypatch):
    """How often a schedule was chosen for limits, and how often ``auto`` chose."""
    counts = {"schedules": 0, "choices": 0}
    fitted, choose = scheduled.fit_schedule, auto.AutoChoice.choose

    def counted_fitted(*given):
        counts["schedules"] += 1
        return fitted(*given)

    def counted_choice(self):
        counts["choices"] += 1
        return choose(self)

    monkeypatch.setattr(scheduled, "fit_schedule", counted_fitted)
    monkeypatch.setattr(auto.AutoChoice, "choose", counted_choice)
    return counts


@pytest.mark.compiles
@pytest.mark.parametrize(
    "method", ["uct", "ments", "certified", "smoothcruiser", "auto"]
)
@pytest.mark.parametrize("more", [{}, {"horizon": 6}])
def test_every_decision_is_made(method, more):
    """Law: however little time there is, a decision is legal and has what holds."""
    problem = world(**more)
    sure = {} if method in ("uct", "ments") else {"delta": 0.1}
    agent = sc.Agent(problem, method, seconds=TINY, **sure)
    for i, state in enumerate((0, 3, 6, 3)):
        left = {"remaining": 6 - i} if more else {}
        assert agent.act(state, **left) in (0, 1)
        if sure:
            low, high = agent.estimate.interval
            assert low <= high
    agent.close()
    again = sc.Agent(problem, method, seconds=TINY, **sure)
    assert sc.play(again, episodes=1, steps=3).decisions == 3


@pytest.mark.compiles
def test_a_schedule_is_chosen_once(prepared):
    agent = sc.Agent(world(), "smoothcruiser", seconds=0.05, delta=0.1)
    for state in (0, 3, 6):
        agent.act(state)
    assert prepared["schedules"] == 1
    notes = agent.estimate.notes
    # how much fits depends on the machine; that the limit decided does not
    assert any("fits the 0.05 s allowed" in x for x in notes)


@pytest.mark.compiles
def test_a_kept_schedule_gives_the_answers_of_one_that_is_chosen_anew(prepared):
    asked = {"epsilon": "30%", "delta": 0.1, "budget": 10**6}
    agent = sc.Agent(world(), "smoothcruiser", seed=4, **asked)
    for i, state in enumerate((0, 3, 6)):
        agent.act(state)
        alone = sc.Agent(world(), "smoothcruiser", seed=4, **asked)
        alone.session.decisions = i
        alone.act(state)
        assert agent.estimate.value == alone.estimate.value
        assert agent.estimate.interval == alone.estimate.interval
        assert agent.estimate.num_calls == alone.estimate.num_calls
    assert prepared["schedules"] == 1 + 3


@pytest.mark.compiles
def test_other_limits_choose_another_schedule(prepared):
    """``seconds_total`` deals out other seconds each time; similar ones share one."""
    agent = sc.Agent(world(), "smoothcruiser", seconds=0.05, delta=0.1)
    session = agent.session
    assert isinstance(session, ScheduleSession)
    for seconds, chosen in ((0.05, 1), (0.09, 1), (0.026, 1), (0.11, 2), (0.06, 2)):
        limits = replace(agent.query.limits, seconds=seconds)
        session.query = replace(agent.query, limits=limits)
        session.decide(0)
        assert prepared["schedules"] == chosen


@pytest.mark.compiles
def test_auto_chooses_once_where_time_is_limited(prepared):
    agent = sc.Agent(world(), "auto", seconds=0.05, delta=0.1)
    for state in (0, 3, 6):
        agent.act(state)
        assert agent.estimate.method == "certified"
        assert agent.estimate.notes[0].startswith("auto chose certified search")
    assert prepared["choices"] == 1
    looked = [note for note in agent.estimate.notes if "Of the calls" in note]
    assert looked == []  # those were the first decision's
    memory = agent.session._inner._memory
    assert memory.num_calls > 0  # one for all decisions
    agent.close()


@pytest.mark.compiles
def test_auto_chooses_at_every_state_where_calls_are_limited(prepared):
    agent = sc.Agent(world(), "auto", budget=400, delta=0.1)
    for state in (0, 3):
        agent.act(state)
    assert prepared["choices"] == 2
