"""Prices in words: times, rates, and what other methods would charge."""

import smoothcruiser as sc
from smoothcruiser.display.price_text import rivals, time_sentence
from smoothcruiser.schedule.number_text import duration, rate


def test_times_are_said_as_a_person_would():
    cases = {
        0.01: "under 0.1 s",
        0.3: "0.3 s",
        61: "61 s",
        600: "10 min",
        10_000: "2.8 h",
        1e6: "12 days",
        1e10: "317 years",
    }
    assert {seconds: duration(seconds) for seconds in cases} == cases
    assert duration(1e60) == "3.2e52 years"
    assert rate(5e7) == "50 M calls/s"
    told = time_sentence(10**8, 5e7, measured=False)
    assert "about 2.0 s on one core at 50 M calls/s" in told
    assert "years" in time_sentence(10**400, 5e7, measured=True)
    assert "unknown" in time_sentence(10, None, measured=False)


def test_rivals_keep_the_same_promise_and_the_papers_count_is_its_schedules():
    problem = sc.make("chain:n=5", discount=0.2, temperature=10.0)
    schedule = sc.explain(problem, epsilon="5%", delta=0.1)
    prices = {price.name: price for price in rivals(schedule)}
    printed = sc.explain(problem, epsilon="5%", delta=0.1, method="paper").num_calls
    assert prices["SmoothCruiser, paper's constants"].num_calls == printed
    sparse = prices["sparse sampling, same sharp analysis"].num_calls
    assert sparse >= schedule.num_calls
    assert schedule.num_calls < 10**4 < 10**29 < printed


def test_rivals_say_why_they_have_no_price():
    """The paper's analysis needs a discount below 1: with a horizon and
    discount 1 it has no price, and the note says so.
    """
    facts = {"discount": 1.0, "operator": sc.Entropy(1.0), "horizon": 2}
    step = lambda s, a, r: (0.0, s)  # noqa: E731
    problem = sc.MDP(step, num_actions=2, initial_state=0, **facts)
    price = rivals(sc.explain(problem, epsilon="20%", delta=0.1))[-1]
    assert price.num_calls is None
    assert price.log10 is None
    assert "discount" in price.note
