"""The choice of auto, and the advice it gives."""

import math
from dataclasses import replace

import pytest
from worlds import mdp as walk_world

import smoothcruiser as sc
from smoothcruiser.estimate import ADVICE
from smoothcruiser.methods import advice as sentences
from smoothcruiser.methods.portfolio import ChosenMethod, Decision, Option, Race
from smoothcruiser.methods.schedules.schedule_run import combine_estimates
from smoothcruiser.query import Query

PROMISE = {"epsilon": "5%", "delta": 0.1}


def mdp(step, **more):
    facts = {"num_actions": 2, "discount": 0.3, "operator": sc.Entropy(0.5)}
    return sc.MDP(step, **(facts | {"initial_state": 0} | more))


def ring(state, action, rng):
    return 0.5 * rng.integers(2) + 0.25 * action, (state + action) % 3


def waiting(queue, fast, rng):
    served = rng.random() < (0.6 if fast else 0.4)
    arrives = rng.random() < 0.45
    left = min(20, max(0, queue - served) + arrives)
    return -(0.1 * queue + 0.5 * fast), left


def lottery(state, action, rng):
    return rng.random(), int(rng.integers(200))


def continuum(state, action, rng):
    return rng.random(), rng.random()


@pytest.mark.parametrize(
    ("problem", "asked", "methods"),
    [
        (mdp(ring), {}, ("certified", "smoothcruiser")),
        (mdp(continuum), {}, ("smoothcruiser",)),
        (mdp(ring, discount=0.95), {}, ("certified",)),
        (mdp(ring, discount=0.95), {"budget": 20_000}, ("certified",)),
        (mdp(ring, discount=0.1), {"epsilon": "45%"}, ("smoothcruiser",)),
        (mdp(ring), {"store": "runs.db"}, ("certified",)),
        (mdp(continuum), {"store": "runs.db"}, ("smoothcruiser",)),
        (mdp(ring), {"shards": 4}, ("smoothcruiser",)),
        (mdp(ring, initial_state=None), {}, ("smoothcruiser",)),
    ],
)
def test_what_is_known_decides(problem, asked, methods):
    """Law: one row of the table of docs/auto.md each."""
    shown = sc.explain(problem, method="auto", **(PROMISE | asked))
    assert isinstance(shown, Decision)
    assert shown.methods == methods
    assert shown.reason.startswith("auto ")
    assert all(option.method in str(shown) for option in shown.options)
    assert shown.to_dict()["runs"][0]["method"] == methods[0]


def test_a_race_has_half_of_delta_for_each():
    """Law: the shares of delta of what is run are delta together."""
    ready = sc.prepare(mdp(ring), **PROMISE)
    assert isinstance(ready, Race)
    parts = (ready.search.query, ready.schedule.query)
    assert [part.promise.delta for part in parts] == [0.05, 0.05]
    assert ready.schedule.explanation.delta == 0.05


@pytest.mark.compiles
def test_a_search_that_wins_answers_alone():
    answer = sc.plan(mdp(ring), **PROMISE)
    shown = sc.explain(mdp(ring), method="auto", **PROMISE)
    assert answer.method == "certified"
    assert (answer.delta, answer.certificate.confidence) == (0.1, 0.9)
    assert answer.num_calls < 0.2 * shown.num_calls
    assert sc.plan(mdp(ring), **PROMISE).to_dict() | _clock() == (
        answer.to_dict() | _clock()
    )


def _clock():
    return dict.fromkeys(("seconds", "compile_seconds", "notes"))


@pytest.mark.compiles
def test_a_search_that_falls_behind_is_left_for_the_schedule():
    """Law: calls of both are counted, and the intervals hold together."""
    problem = mdp(lottery, discount=0.2, operator=sc.Entropy(2.0))
    asked = {"epsilon": "8%", "delta": 0.2}
    answer = sc.plan(problem, **asked)
    shown = sc.explain(problem, method="auto", **asked)
    assert shown.methods == ("certified", "smoothcruiser")
    assert answer.method == "smoothcruiser"
    first, second = shown.options
    assert second.num_calls is not None
    searched = answer.price - second.num_calls - shown.pilot.calls
    assert 0 < searched < 0.5 * first.num_calls  # it was not left at the end
    assert answer.certificate.confidence == pytest.approx(0.8)
    assert any("hold together" in note for note in answer.notes)


@pytest.mark.compiles
@pytest.mark.parametrize("step", [ring, continuum])
def test_the_time_of_choosing_counts_once(step, monkeypatch):
    """Law: what is left of seconds= after the choice is spent on the answer."""
    from smoothcruiser.methods.auto_choice import AutoChoice

    spent = property(lambda self: 0.6)
    monkeypatch.setattr(AutoChoice, "_elapsed_seconds", spent)
    problem = mdp(step, discount=0.95)
    ready = sc.prepare(problem, epsilon="1%", delta=0.1, seconds=1.0)
    assert isinstance(ready, ChosenMethod)
    limits = []

    def run(inner):
        limits.append(inner.query.limits.seconds)
        raise KeyError

    monkeypatch.setattr(type(ready.inner), "answer", run)
    with pytest.raises(KeyError):
        ready.run()
    assert limits == [pytest.approx(0.4)]


@pytest.mark.compiles
@pytest.mark.parametrize("method", ["auto", "certified"])
def test_without_a_delta_one_is_taken_and_named(method):
    answer = sc.plan(mdp(ring), budget=200, method=method)
    assert answer.delta == 0.05
    assert any("No delta was named: 0.05" in note for note in answer.notes)
    many = sc.plan_many(mdp(ring), [0, 1], budget=400, method=method)
    assert many.delta == 0.05  # of all states together
    named = sc.plan_many(mdp(ring), [0, 1], budget=400, method=method, delta=0.05)
    assert [x.interval for x in many] == [x.interval for x in named]


def test_a_model_that_is_none_is_refused_where_a_schedule_would_do():
    """Law: a false declaration is an error, whoever would have used it."""

    def outcomes(state, action):
        return [(0.5, 0.0, 0), (0.4, 1.0, 0)]

    problem = mdp(ring, discount=0.1, outcomes=outcomes)
    with pytest.raises(sc.InvalidInput, match="sum to 1"):
        sc.plan(problem, epsilon="45%", delta=0.1)


@pytest.mark.slow
def test_what_nobody_can_pay_is_refused_with_offers():
    """Law: without a limit, a price above 10^9 calls is told before it is paid."""
    with pytest.raises(sc.Unpayable, match="What can be paid"):  # paths have no shards
        sc.plan(mdp(continuum, discount=0.7), epsilon="1%", delta=0.1, shards=2)


# --- two answers as one -------------------------------------------------------


@pytest.fixture(scope="module")
def answers():
    problem = mdp(ring, legal=lambda s, a: a < 2, num_actions=3)
    query = Query.of(problem, 0, **PROMISE)
    first = sc.plan(problem, method="certified", epsilon="20%", delta=0.05)
    second = sc.plan(problem, method="smoothcruiser", epsilon="20%", delta=0.05)
    return query, first, second


def boxed(answer, box, value, error):
    """The answer with one box for all intervals, a value and its usual error."""
    none = (math.nan, math.nan)
    sure = replace(answer.certificate, interval=box, q_intervals=(box, box, none))
    known = {"q_values": (value, value - 0.05, math.nan), "epsilon": 1.0}
    return replace(
        answer,
        value=value,
        interval=box,
        certificate=sure,
        standard_error=error,
        **known,
    )


@pytest.mark.compiles
def test_two_answers_leave_what_both_allow(answers):
    query, first, second = answers
    both = combine_estimates(query, first, second, 0.1)
    lows, highs = zip(first.interval, second.interval, strict=True)
    assert both.interval == (max(lows), min(highs))
    assert all(map(math.isnan, both.certificate.q_intervals[2]))  # illegal
    assert both.num_calls == first.num_calls + second.num_calls
    assert both.interval[0] <= both.value <= both.interval[1]


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("errors", "widths", "better"),
    [
        ((0.1, 0.2), (0.9, 0.3), "first"),  # the smaller usual error
        ((0.2, 0.1), (0.3, 0.9), "second"),
        ((None, 0.1), (0.3, 0.9), "first"),  # one has none: the narrower interval
        ((0.1, None), (0.9, 0.3), "second"),
    ],
)
def test_of_two_estimates_the_better_one_is_taken(answers, errors, widths, better):
    query, *both = answers
    changed = [
        boxed(answer, (0.5, 0.5 + width), value, error)
        for answer, error, width, value in zip(
            both, errors, widths, (0.6, 0.62), strict=True
        )
    ]
    found = combine_estimates(query, *changed, 0.1)
    taken = changed[better == "second"]
    assert found.value == taken.value
    assert found.q_values[:2] == taken.q_values[:2]
    assert found.standard_error == taken.standard_error
    assert found.interval == (0.5, 0.5 + min(widths))


@pytest.mark.compiles
def test_a_value_that_is_moved_has_no_usual_error(answers):
    """Law: a usual error is that of the number beside it."""
    query, first, second = answers
    for value, error in ((0.82, 0.05), (0.9, None)):
        guess = boxed(second, (0.5, 0.8), value, 0.05)
        found = combine_estimates(
            query, boxed(first, (0.0, 3.0), 1.0, 1.0), guess, 0.1
        )
        assert found.value == 0.8
        assert found.standard_error == error


@pytest.mark.compiles
def test_an_epsilon_that_was_reached_leaves_the_estimate_where_it_is():
    """A search for epsilon = 5 ends with the estimate far from one of its ends."""
    problem = mdp(waiting, discount=0.97, operator=sc.Max(), reward_range=(-2.5, 0.0))
    answer = sc.plan(problem, epsilon=5.0, delta=0.05, method="certified")
    low, high = answer.interval
    exact = -11.469292764701848  # by value iteration over the 21 states
    assert high - low <= 10.0
    assert low <= exact <= high
    assert abs(answer.value - exact) <= 4.0 * answer.standard_error


@pytest.mark.compiles
def test_two_answers_that_exclude_each_other_are_an_error(answers):
    query, first, second = answers
    far = replace(first.certificate, interval=(7.0, 8.0))
    with pytest.raises(sc.OracleError):
        combine_estimates(query, replace(first, certificate=far), second, 0.1)


@pytest.mark.compiles
@pytest.mark.parametrize("more", [{}, {"delta": 0.1}, {"epsilon": 0.3, "delta": 0.1}])
def test_a_search_answers_where_rounding_leaves_no_schedule(more):
    """A budget is a request for the best there is, and rewards of 1e12 have one."""

    def step(state, action, rng):
        return 1e12 + rng.integers(2), rng.random()

    problem = mdp(step, reward_range=(1e12, 1e12 + 1.0), initial_state=0.0)
    with pytest.raises(
        sc.InvalidInput, match=r"too fine for .*\[1000000000000, 100000"
    ):
        sc.plan(
            problem, budget=3000, method="smoothcruiser", **({"delta": 0.1} | more)
        )
    found = sc.plan(problem, budget=3000, **more)
    assert found.method == "certified"
    assert "is too fine" in found.notes[0]
    low, high = found.interval
    truth = (1e12 + 0.5 + 0.5 * math.log(2.0)) / 0.7
    assert low <= truth <= high < low + 1.0 / 0.7
    assert found.num_calls <= 3000


def test_what_is_not_run_is_told_in_a_sentence():
    """A row without calls or a time said "certified  it depends  instead"."""
    shown = str(sc.explain(mdp(continuum), method="auto", **PROMISE))
    assert "  smoothcruiser " in shown
    end = "Weighed against it: certified, whose price is not known before the run."
    assert shown.rstrip().endswith(end)
    assert "it depends" not in shown
    priced = replace(Option(method="smoothcruiser", num_calls=12_345), seconds=3.0)
    words = "Weighed against it: smoothcruiser, for at most 12,345 calls (3.0 s)."
    assert priced.alternative_sentence() == words


# --- advice -------------------------------------------------------------------


def walk(state, action, rng):
    after = state + (1 if rng.random() < 0.4 + 0.2 * action else -1)
    return float(after // 2) if abs(after) == 2 else 0.0, after


def walker(**more):
    facts = {"discount": 0.95, "operator": sc.Max(), "reward_range": (-1.0, 1.0)}
    return walk_world(walk, terminal=lambda state: abs(state) == 2, **facts, **more)


def advice(problem, **asked):
    asked = {"delta": 0.1, "method": "certified", **asked}
    notes = sc.plan(problem, **asked).notes
    return [note for note in notes if note.startswith(ADVICE)]


@pytest.mark.compiles
def test_a_share_of_a_span_that_cannot_be_reached():
    """5% of 40 is 2, and the value is at most 1."""
    (note,) = advice(walker(), epsilon="5%")
    assert "span 40" in note
    assert "payoffs='end' makes it 2" in note
    assert advice(walker(payoffs="end"), epsilon="5%") == []
    assert advice(walker(), epsilon=0.5) == []


@pytest.mark.compiles
def test_rewards_that_are_never_0_are_not_paid_at_the_end_alone():
    """Every step pays at least 0.5 there, so there is nothing to declare."""
    paid = walk_world(
        lambda s, a, rng: (0.5 + 0.5 * rng.random(), s, rng.random() < 0.1),
        num_actions=1,
        discount=0.9,
        operator=sc.Max(),
        reward_range=(0.5, 1.0),
        terminal=True,
    )
    assert advice(paid, epsilon="10%") == []


@pytest.mark.compiles
def test_a_coarse_promise_and_a_wide_interval():
    (coarse,) = advice(walker(payoffs="end"), epsilon=0.6)
    assert "epsilon = 0.6 is 30% of what is possible, from -1 to 1" in coarse
    (wide,) = advice(walker(payoffs="end"), budget=60)
    assert "of what is possible" in wide
    assert "the interval covers" in wide
    assert "give it more calls" in wide


@pytest.mark.compiles
def test_a_schedule_that_says_little_names_what_says_more():
    endless = walk_world(
        lambda s, a, rng: (rng.random(), rng.random()),
        discount=0.95,
        operator=sc.Max(),
        initial_state=0.0,
    )
    (note,) = advice(endless, budget=300, method="smoothcruiser")
    assert "the value may be as far off; a tree search (method='uct')" in note
    assert "more calls" not in note


@pytest.mark.compiles
def test_no_chance_is_seen():
    """The price is the number of pairs; nothing is said where chance was seen."""
    sure = walk_world(lambda s, a, rng: (float(a), 1 - s), operator=sc.Max())  # fmt: skip
    (note,) = advice(sure, epsilon="10%")
    assert "deterministic=True learns as much from 4 calls" in note


@pytest.mark.compiles
def test_a_dear_schedule_names_the_price_of_closer_bounds(monkeypatch):
    """Bounds half as wide save more than a factor 2, and the price holds."""
    problem = sc.make("chain:n=5", discount=0.5, temperature=2.0)
    asked = {"epsilon": 0.05, "method": "smoothcruiser"}
    assert advice(problem, **asked) == []  # machine code: it takes less than a price
    monkeypatch.setattr(sentences, "DEAR_COMPILED", sentences.DEAR)
    (note,) = advice(problem, **asked)
    assert note.startswith("Advice: value_bounds half as wide would cost about")
    cheap = advice(problem, **(asked | {"epsilon": 0.4}))
    assert cheap == []


@pytest.mark.compiles
def test_more_calls_are_not_advised_where_one_end_is_only_what_rewards_allow():
    """The upper end of a policy's certificate stays, whatever is spent."""
    problem = sc.make("chain:n=5", discount=0.9, temperature=0.5)
    answer = sc.plan(problem, method="uct", budget=2_000, certify=True)
    assert answer.certificate is not None
    assert answer.certificate.kind == "policy"
    assert not any("give it more calls" in note for note in answer.notes)
