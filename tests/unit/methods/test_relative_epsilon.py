"""``epsilon="2% of value"``: who keeps it, who refuses it, what is kept of it."""

import json

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.query import Query, check_delta

pytestmark = pytest.mark.compiles

SHARE = 0.1


def coin(state, action, rng):
    return float(rng.random() < 0.5 + 0.2 * action), state


def problem(**more):
    return mdp(coin, **({"operator": sc.Max()} | more))


@pytest.mark.parametrize(
    "words", ["10% of value", "10 % of the value", " 10%  OF VALUE "]
)
def test_the_words_are_read(words):
    """A share of |V|; no number where the bounds on V hold 0."""
    promise = Query.of(problem(), epsilon=words).promise
    assert (promise.relative, promise.epsilon) == (SHARE, None)
    sure = Query.of(problem(reward_range=(-4.0, -1.0)), epsilon=words).promise
    assert (sure.relative, sure.epsilon) == pytest.approx((SHARE, 2.0 * SHARE))


@pytest.mark.parametrize(
    "words", ["0% of value", "-2% of value", "x% of value", "2%v"]
)
def test_words_that_are_no_share_are_refused(words):
    with pytest.raises(sc.InvalidInput, match="epsilon must be"):
        Query.of(problem(), epsilon=words)


@pytest.mark.parametrize(("target", "value"), [("value", 1.4), ("q_values", 1.4)])
def test_certified_search_keeps_a_share_of_the_value(target, value):
    """V = 0.7 / (1 - 0.5): half-widths of at most a tenth of it, and not far less."""
    answer = sc.plan(
        problem(), epsilon="10% of value", delta=0.1, method="certified", target=target
    )
    low, high = answer.interval
    assert low <= value <= high
    assert 0.5 * (high - low) <= SHARE * value
    if target == "q_values":
        widths = [(b - a) / 2 for a, b in answer.certificate.q_intervals]
        assert 0.05 * value <= max(widths) <= SHARE * value
        assert json.loads(answer.to_json())["epsilon"] == max(widths)


def test_an_interval_that_holds_0_goes_to_the_limit_and_says_so():
    """V = 0: no share of it is ever reached."""
    fair = mdp(
        lambda s, a, rng: (2.0 * rng.integers(2) - 1.0, s),
        num_actions=1,
        operator=sc.Max(),
        reward_range=(-1.0, 1.0),
    )
    answer = sc.plan(
        fair, epsilon="5% of value", delta=0.1, method="certified", budget=3_000
    )
    assert any("5% of the value was not reached" in note for note in answer.notes)


def test_a_schedule_takes_it_where_bounds_exclude_0():
    """Rewards in [1, 2]: V is at least 2, and a tenth of that is enough."""
    sure = problem(reward_range=(1.0, 2.0))
    assert sc.explain(sure, epsilon="10% of value", delta=0.1).epsilon == 0.2
    with pytest.raises(sc.InvalidInput, match="use certified search"):
        sc.explain(problem(), epsilon="10% of value", delta=0.1)
    with pytest.raises(sc.InvalidInput, match="evaluate cannot aim at"):
        sc.evaluate(sure, lambda state: [0.5, 0.5], epsilon="10% of value")


def test_a_store_keeps_the_words(tmp_path):
    """A run that stopped at its budget is resumed at the same share."""
    store = tmp_path / "runs"
    asked = {
        "epsilon": "10% of value", "delta": 0.1, "method": "certified"
    }  # fmt: skip
    first = sc.plan(problem(), budget=300, store=store, **asked)
    rest = sc.resume(first.run, store, problem=problem(), budget=10**6)
    widths = [(b - a) / 2 for a, b in rest.certificate.q_intervals]
    assert rest.num_calls > 300
    assert 0.05 * 1.4 <= max(widths) <= SHARE * rest.interval[0]


@pytest.mark.parametrize(
    ("words", "found"), [("10%", 0.1), ("0.25", 0.25), (" 5 % ", 0.05)]
)
def test_delta_in_percent(words, found):
    assert check_delta(words) == pytest.approx(found)


@pytest.mark.parametrize("words", ["110%", "0%", "ten", "", "-1%"])
def test_delta_that_is_none_is_refused(words):
    with pytest.raises(sc.InvalidInput, match="delta must be a probability"):
        check_delta(words)


@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
def test_a_share_of_no_span_says_why(method):
    """The total is known to be 1, so there is nothing of which 5% could be asked."""
    known = mdp(
        lambda state, action, rng: (1.0, state, True),
        operator=sc.Max(),
        terminal=True,
        total_reward_range=(1.0, 1.0),
    )
    with pytest.raises(sc.InvalidInput, match="5% is a share of the value span"):
        sc.plan(known, epsilon="5%", delta=0.1, method=method)
