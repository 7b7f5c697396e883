"""Many states in one call: one promise, one memory, one schedule, one solution."""

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
import smoothcruiser.exact as solver
from smoothcruiser.jit.random import Key

pytestmark = pytest.mark.compiles


def ring(state, action, rng):
    """A coin for a reward, and a walk around twelve places; 11 is the end."""
    return float(rng.random() < 0.2 + 0.05 * state), (state + 1 + action) % 12


def ended(state):
    return state == 11


def outcomes(state, action):
    p, after = 0.2 + 0.05 * state, (state + 1 + action) % 12
    return [(p, 1.0, after), (1.0 - p, 0.0, after)]


@pytest.fixture(scope="module")
def world():
    return mdp(ring, reward_range=(0, 1), terminal=ended, initial_state=None)


@pytest.fixture(scope="module")
def truth():
    facts = {"reward_range": (0, 1), "terminal": ended}
    solution = sc.solve(mdp(ring, outcomes=outcomes, **facts))
    return {s: float(solution.values[solution.index(s)]) for s in range(11)}


def holds(answers, truth):
    return all(
        x.interval[0] <= truth[x.state] <= x.interval[1]
        for x in answers
        if x.state != 11
    )


def test_a_schedule_answers_each_state_with_its_share_of_delta(world):
    """Each answer is that of ``plan`` at delta/n under the seed of decision i."""
    how = {"epsilon": "15%", "method": "smoothcruiser", "executor": "python"}
    answers = sc.plan_many(world, [3, 11, 5], delta=0.1, seed=7, **how)
    for i, (state, place) in enumerate([(3, 0), (5, 2)]):
        found = np.random.SeedSequence(7, spawn_key=(Key.PLANS, i)).generate_state(1)
        alone = sc.plan(world, state, delta=0.05, seed=int(found[0]), **how)
        assert answers[place].value == alone.value
        assert answers[place].certificate.confidence == 0.95
    assert answers[1].value == 0.0
    assert answers.delta == 0.1


def test_the_workers_change_no_bit(world):
    how = {"epsilon": "15%", "delta": 0.1, "method": "smoothcruiser"}
    one, two = (
        sc.plan_many(world, [0, 4, 0], executor=executor, workers=workers, **how)
        for executor, workers in (("reference", None), ("processes", 1))
    )
    assert [(x.value, x.interval, x.num_calls) for x in one] == [
        (x.value, x.interval, x.num_calls) for x in two
    ]


def test_a_state_that_is_listed_twice_is_paid_for_once(world):
    how = {"epsilon": "15%", "delta": 0.1, "method": "certified"}
    answers = sc.plan_many(world, [2, 2, 2], **how)
    assert answers[0] is answers[1] is answers[2]
    assert answers.num_calls == answers[0].num_calls


def test_the_price_of_all_states_covers_what_choosing_took(world):
    """Law: calls that time the simulator belong to no state, and to the price."""
    promise = {"epsilon": "20%", "delta": 0.1, "method": "smoothcruiser"}
    paid = sc.plan_many(world, [0, 3, 0], **promise)
    assert paid.price == paid[0].price + paid[1].price
    timed = sc.plan_many(world, [0, 3], seconds=600.0, **promise)
    states = timed[0].num_calls + timed[1].num_calls
    assert states < timed.num_calls <= timed.price
    assert timed.price - timed[0].price - timed[1].price == timed.num_calls - states


def test_equal_states_of_other_types_are_two(world):
    """True == 1, and a step may still tell them apart."""
    answers = sc.plan_many(world, [1, True], method="uct", simulations=10)
    assert answers[0] is not answers[1]


def test_certified_search_samples_common_successors_once(world, truth):
    """One memory: later states cost a fraction of what they cost alone, and all
    intervals hold.
    """
    how = {"epsilon": 0.3, "delta": 0.1, "method": "certified"}
    answers = sc.plan_many(world, range(6), **how)
    alone = sum(sc.plan(world, s, **how).num_calls for s in range(6))
    assert answers.num_calls < 0.6 * alone
    assert holds(answers, truth)
    assert {x.certificate.confidence for x in answers} == {0.9}
    assert all(x.epsilon <= 0.3 for x in answers)


@pytest.mark.parametrize("epsilon", [0.05, None])
def test_a_budget_is_for_all_states(world, truth, epsilon):
    answers = sc.plan_many(
        world, range(8), epsilon=epsilon, delta=0.1, budget=900, method="certified"
    )
    assert 700 < answers.num_calls <= 900
    assert holds(answers, truth)


def test_what_one_state_leaves_goes_to_those_that_missed(world):
    """The first state needs more than its share, and the others leave it theirs."""
    how = {"epsilon": 0.3, "delta": 0.1, "method": "certified"}
    price = sc.plan_many(world, [0, 9, 10], **how).num_calls
    answers = sc.plan_many(world, [0, 9, 10], budget=1.2 * price, **how)
    assert answers[0].num_calls > 0.4 * price
    assert all(x.epsilon <= 0.3 for x in answers)


def test_states_beyond_the_budget_have_what_rewards_allow(world, truth):
    """Forty calls for eleven states: every one is answered, most without a sample."""
    answers = sc.plan_many(world, range(11), delta=0.1, budget=40, method="certified")
    assert len(answers) == 11
    assert answers.num_calls <= 40
    assert holds(answers, truth)
    assert answers[10].notes[0].startswith("The budget was spent")


def test_states_that_have_no_room_have_what_rewards_allow(world, truth):
    how = {"epsilon": 0.3, "delta": 0.1, "method": "certified", "max_states": 3}
    answers = sc.plan_many(world, range(8), **how)
    assert holds(answers, truth)
    assert "no room" in answers[7].notes[0]


def test_auto_races_with_one_memory_for_all(world, truth):
    """The search has half of delta for all states; the answers say which method."""
    answers = sc.plan_many(world, range(6), epsilon="5%", delta=0.1)
    assert answers.method == "auto"
    assert answers.delta == 0.1
    assert {x.certificate.confidence for x in answers} == {0.95}
    assert answers.num_calls > sum(x.num_calls for x in answers)  # a look was made
    assert holds(answers, truth)
    assert all(x.epsilon <= 0.05 * world.facts.value_span() for x in answers)


def test_a_stop_by_hand_ends_the_call_and_keeps_what_there_is(world, truth):
    """Ctrl-C in the third state: two answers, and the rest is what rewards allow."""
    seen = []

    def progress(report):
        seen.append(report.calls)
        if report.calls > price:
            raise KeyboardInterrupt

    how = {"epsilon": "15%", "method": "smoothcruiser", "executor": "python"}
    price = sc.plan_many(world, [0, 1], delta=0.05, **how).num_calls
    answers = sc.plan_many(world, [0, 1, 2, 3], delta=0.1, progress=progress, **how)
    assert seen == sorted(seen)
    assert answers[1].epsilon == answers[0].epsilon
    assert answers[3].interval == world.facts.value_bounds()
    assert "by hand" in answers[3].notes[0]
    assert holds(answers, truth)


def test_a_known_model_is_solved_once(monkeypatch):
    problem = sc.make("garnet:states=12,actions=2,seed=1", discount=0.5, temperature=1)
    solved, solve = [], solver.solve
    monkeypatch.setattr(solver, "solve", lambda p, **how: solved.append(p) or solve(p))
    answers = sc.plan_many(problem, range(12))
    assert len(solved) == 1
    assert answers.method == sc.Exact.name
    assert answers.delta == 0.0
    assert [x.state for x in answers] == list(range(12))


@pytest.mark.parametrize(
    ("states", "how", "words"),
    [
        ("abc", {}, "takes a list of states"),
        ({1, 2}, {}, "takes a list of states"),
        (3, {}, "takes a list of states"),
        ([0, None], {}, "State 1 of the list"),
        ([0], {"store": "runs.db"}, "keeps nothing in a store"),
        ([0], {"simulations": 5}, "does not use simulations"),
        ([0], {"delta": None}, "needs delta"),
    ],
)
def test_bad_input_gets_one_sentence(world, states, how, words):
    asked = {"epsilon": 0.3, "delta": 0.1, "method": "smoothcruiser"} | how
    with pytest.raises(sc.InvalidInput, match=words):
        sc.plan_many(world, states, **asked)


def test_a_budget_that_is_too_small_chooses_a_wider_promise():
    """One schedule for all, the best that a share of the budget pays."""
    problem = sc.make("chain:n=5", discount=0.2, temperature=1.0)
    how = {"epsilon": "10%", "delta": 0.1, "method": "smoothcruiser"}
    wide = sc.plan_many(problem, range(4), budget=400, **how)
    assert wide.num_calls <= 400
    assert all(x.epsilon > 0.1 * problem.facts.value_span() for x in wide)
    truth = sc.solve(problem).values
    assert all(x.interval[0] <= truth[x.state] <= x.interval[1] for x in wide)


def test_a_price_above_the_default_budget_is_refused(world):
    states = [i / 10_000 for i in range(10_000)]
    with pytest.raises(sc.Unpayable, match="name a budget"):
        sc.plan_many(world, states, epsilon="8%", delta=0.1, method="smoothcruiser")


def test_a_race_above_the_default_budget_is_a_search(world, truth, monkeypatch):
    """Law: many states are not refused for the price of schedules that need not run."""
    from smoothcruiser.methods import many

    asked = {"epsilon": "10%", "delta": 0.1}
    one = sc.explain(world, 0, method="auto", **asked)
    assert one.methods == ("certified", "smoothcruiser")
    monkeypatch.setattr(many, "DEFAULT_BUDGET", one.num_calls + 1)
    answers = sc.plan_many(world, range(4), **asked)
    assert answers.method == "certified"
    assert "the schedules of 4 states" in answers.notes[0]
    assert (answers.delta, answers.num_calls < one.num_calls) == (0.1, True)
    assert holds(answers, truth)
