"""Requests at the edge of what numbers hold: one sentence or an answer, never a crash.

Discounts to 1 - 1e-9, 200 actions, horizons of 10^6: no OverflowError, no infinity and
no nan in words or JSON, and no warning. A hang ends with the suite's own limit.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import warnings

import pytest

import smoothcruiser as sc

NO_NUMBER = re.compile(r"\b(inf|infinity|nan)\b", re.IGNORECASE)
FAR = 1 - 1e-9
WORLDS = [
    (discount, actions, horizon)
    for discount, actions, horizon in itertools.product(
        (0.97, 0.99, FAR, 1.0), (2, 200), (None, 10**6)
    )
    if discount < 1.0 or horizon is not None
]
# whose tables are looked for, in seconds, before they are refused
LONG = [each for each in WORLDS if each[0] < FAR and each[1] == 2]


def drifting(state: float, action: int, rng: sc.Stream) -> tuple[float, float]:
    return float(rng.random() < 0.5), 0.7 * state + rng.random()


def world(discount, actions=2, horizon=None, **more):
    facts = {"num_actions": actions, "discount": discount, "horizon": horizon}
    return sc.MDP(
        drifting, **(facts | {"operator": sc.Max(), "initial_state": 0.0} | more)
    )


def words_of(request) -> str:
    """What a request says: its text and its JSON, or the sentence that refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            answer = request()
        except sc.SmoothcruiserError as error:
            return str(error)
        data = answer.to_json()
    json.loads(data, parse_constant=pytest.fail)
    return f"{answer}\n{answer!r}\n{data}"


@pytest.mark.parametrize(
    ("discount", "actions", "horizon"),
    [
        pytest.param(*each, marks=pytest.mark.slow if each in LONG else ())
        for each in WORLDS
    ],
)
def test_every_method_refuses_or_answers_in_numbers(discount, actions, horizon):
    problem = world(discount, actions, horizon)
    for method in ("auto", "smoothcruiser", "sparse-sampling", "paper"):
        asked = {"epsilon": "5%", "delta": 0.1, "method": method}
        for verb in (sc.explain, sc.plan):
            words = words_of(lambda v=verb, a=asked: v(problem, **a))
            assert not NO_NUMBER.search(words), words


@pytest.mark.parametrize(("discount", "horizon"), [(FAR, None), (1.0, 10**6)])
def test_a_budget_is_answered_at_the_edge(discount, horizon):
    problem = world(discount, 200, horizon)
    low, high = problem.facts.value_bounds()
    asked = {"epsilon": "5%", "delta": 0.1, "budget": 500}
    answer = sc.plan(problem, **asked)
    assert low <= answer.interval[0] <= answer.value <= answer.interval[1] <= high
    assert all(map(math.isfinite, answer.q_values))
    assert max(answer.num_calls, answer.calls_spent or 0) <= 500
    assert not NO_NUMBER.search(words_of(lambda: sc.explain(problem, **asked)))
    assert not NO_NUMBER.search(words_of(lambda: answer))


def test_a_price_beyond_floats_is_refused_in_words():
    """Its table is written down, and its calls are no double: 10^501 of them."""
    for verb in (sc.explain, sc.plan):
        with pytest.raises(
            sc.Unpayable, match=r"about [\d.]+e\d{3} oracle calls, more"
        ):
            verb(world(0.8), epsilon=1e-5, delta=0.1, method="smoothcruiser")
