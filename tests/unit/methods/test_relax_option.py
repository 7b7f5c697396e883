"""Promises in other words: relative to the value, or about the unregularized value."""

import json
from dataclasses import replace

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.methods.schedules.relaxing import PreparedRelaxation, with_operator
from smoothcruiser.query import Query, check_delta
from smoothcruiser.schedule.relaxation import q_band, relax_through, value_band

pytestmark = pytest.mark.compiles


RELAX = {"method": "smoothcruiser", "options": {"relax": "entropy"}}
WORLD = "garnet:states=6,actions=2,seed=3"


def forced(problem, operator, epsilon, *, target="q_values", delta=0.1, seed=0):
    """The answer about V_0 through ``operator``, which the price would not choose."""
    plain = with_operator(problem, sc.Max())
    plan = relax_through(
        plain.facts, operator, epsilon=epsilon, delta=delta, target=target
    )
    query = Query.of(plain, 0, epsilon=epsilon, delta=delta, target=target, seed=seed)
    method = sc.SmoothCruiser(relax=operator.name)
    return PreparedRelaxation(method=method, query=query, explanation=plan).run()


def small(*, game=False, **more):
    """Six states, two actions, a reward that the next state decides."""
    rng = np.random.default_rng(8)
    P = np.zeros((6, 2, 6))
    for s, a in np.ndindex(6, 2):
        P[s, a, [(s + 1) % 6, (s + 3) % 6]] = rng.dirichlet([1, 1])
    players = [1 + s % 2 for s in range(6)] if game else None
    R = rng.random((6, 2, 6))
    return sc.tabular(P, R, discount=0.6, operator=sc.Max(), players=players, **more)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"horizon": 2},
        {"terminal": [0, 0, 0, 0, 0, 1]},
        {"game": True},
        {"game": True, "alternating": True},
        {"game": True, "alternating": True, "terminal": [0, 0, 0, 0, 0, 1]},
        {"legal": [[1, s % 2] for s in range(6)]},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "operator", [sc.Entropy(0.3), sc.Sparsemax(0.5), sc.SquareRoot(0.2), sc.KL(0.4)]
)
def test_the_band_of_action_values_holds_what_a_temperature_adds(more, operator):
    """Q_lambda - Q_0 lies in gamma times the band of the next state, exactly, and is
    no wider than the band of the value.
    """
    plain = small(**more)
    soft = replace(plain, operator=operator)
    gap = np.asarray(sc.solve(soft).q_values) - np.asarray(sc.solve(plain).q_values)
    for state in range(5):
        low, high = q_band(soft.facts, soft.mover(state))
        assert low - 1e-9 <= np.nanmin(gap[state])
        assert np.nanmax(gap[state]) <= high + 1e-9
        own = value_band(soft.facts, soft.mover(state))
        assert high - low <= own[1] - own[0] + 1e-12


@pytest.mark.slow
def test_the_answer_is_that_of_plain_max_where_it_is_cheaper():
    """To the bit: the same schedule, seed and problem as without a regularizer."""
    problem = sc.make(WORLD, discount=0.3, temperature=1.0)
    plain = replace(problem, operator=sc.Max())
    asked = {"epsilon": "20%", "delta": 0.1, "seed": 4}
    found = sc.plan(problem, **asked, **RELAX)
    alone = sc.plan(plain, method="smoothcruiser", **asked)
    assert (found.value, found.q_values, found.num_calls) == (
        alone.value,
        alone.q_values,
        alone.num_calls,
    )
    assert found.interval == pytest.approx(alone.interval, abs=1e-12)
    assert "by plain max" in found.notes[0]
    assert "greedy" in found.notes[1]
    assert found.policy == alone.policy


def test_a_relaxed_answer_is_shifted_and_widened_by_its_band():
    problem = sc.make(WORLD, discount=0.3, operator=sc.Max())
    epsilon = 0.3 * problem.facts.value_span()
    found = forced(problem, sc.Entropy(0.2), epsilon)
    exact = sc.plan(problem, 0, method="exact")
    assert found.epsilon == epsilon
    assert found.interval[1] - found.interval[0] <= 2.0 * epsilon + 1e-9
    assert found.interval[0] <= exact.value <= found.interval[1]
    assert found.interval[0] <= found.value <= found.interval[1]
    for q, truth, (low, high) in zip(
        found.q_values, exact.q_values, found.certificate.q_intervals, strict=True
    ):
        assert low <= truth <= high
        assert low <= q <= high
    assert max(found.policy) == 1.0


def test_the_value_alone_can_be_relaxed():
    """A strong regularizer has no action values at its root; nothing is made up."""
    problem = sc.make(WORLD, discount=0.1, operator=sc.Max())
    found = forced(problem, sc.Sparsemax(0.2), 0.4, target="value")
    exact = sc.plan(problem, 0, method="exact")
    assert found.interval[0] <= exact.value <= found.interval[1]
    assert bool(found.q_values) == bool(found.policy)
    assert bool(found.q_values) == bool(found.certificate.q_intervals)


def test_explain_shows_the_split_and_all_prices():
    problem = sc.make(WORLD, discount=0.2, temperature=1.0)
    plan = sc.explain(problem, epsilon="30%", delta=0.1, **RELAX)
    assert plan.num_calls == min(x.num_calls for x in plan.tried if x.num_calls)
    assert "temperature" in str(plan)
    assert f"{plan.num_calls:,} calls" in str(plan)
    data = json.loads(plan.to_json())
    assert data["epsilon"] == pytest.approx(0.3 / 0.8)
    assert len(data["relaxation"]["tried"]) == len(plan.tried)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"options": {"relax": "max"}}, "one of entropy"),
        ({"options": {"relax": 3}}, "one of entropy"),
        ({"store": "runs.db"}, "drop store"),
        ({"epsilon": None}, "epsilon"),
    ],
)
def test_what_cannot_be_relaxed_gets_one_sentence(how, words):
    problem = sc.make(WORLD, discount=0.3, temperature=1.0)
    asked = {"epsilon": "20%", "delta": 0.1, **RELAX} | how
    with pytest.raises(sc.InvalidInput, match=words):
        sc.plan(problem, **asked)


# --- epsilon relative to the value --------------------------------------------


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
