"""The picture of a plan, and what is offered beside it: numbers add up to the price,
levels are shown once, lines fit a terminal; other promises that can be paid; the band
between regularized and plain values.
"""

import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule import alternatives, relaxation
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.number_text import bounds, compact, percent, short
from smoothcruiser.schedule.paper_schedule import paper_schedule
from smoothcruiser.schedule.schedule import own_calls, root_calls
from smoothcruiser.schedule.text import picture, plan_lines

CHAIN, GRID, GAME = (
    "chain:n=5",
    "gridworld:n=5",
    "random-game:states=6,alternating=true",
)
NO_PROMISE = {"delta": None, "delta_prime": 0.05, "method": "paper"}
ROWS = {  # problem, discount, temperature, epsilon, and what else is requested
    "rollouts": (GRID, 0.5, 0.5, "5%", {}),
    "long": (GRID, 0.7, 0.5, "5%", {}),
    "plug-ins": (CHAIN, 0.5, 0.0, "10%", {}),
    "blind": (CHAIN, 0.2, 10.0, "5%", {}),
    "value": (CHAIN, 0.2, 10.0, "5%", {"target": "value"}),
    "game": (GAME, 0.5, 0.5, "10%", {}),
    "horizon": (f"{CHAIN},horizon=4", 0.9, 1.0, "10%", {}),
    "sparse sampling": (CHAIN, 0.5, 1.0, "10%", {"method": "sparse-sampling"}),
    "paper": (CHAIN, 0.2, 10.0, "5%", {"method": "paper"}),
    "paper, no promise": (CHAIN, 0.2, 0.5, 0.8, NO_PROMISE),
}


@cache
def schedule_of(row):
    name, discount, temperature, epsilon, more = ROWS[row]
    problem = sc.make(name, discount=discount, temperature=temperature)
    return sc.explain(problem, epsilon=epsilon, **({"delta": 0.1} | more))


@pytest.fixture(params=ROWS)
def schedule(request):
    return schedule_of(request.param)


def test_the_calls_of_the_levels_and_of_the_root_add_up_to_the_price(schedule):
    k, root = schedule.facts.num_actions, schedule.root
    calls = own_calls(schedule.levels, root, k)
    assert root_calls(root, k) + sum(calls) == schedule.num_calls


def test_every_reached_level_is_shown_once_and_every_reference_is_to_a_shown_level(
    schedule,
):
    lines = plan_lines(schedule)
    shown = [line.index for line in lines]
    assert shown[0] == -1
    assert len(set(shown)) == len(shown)
    reached = {i for i, visits in enumerate(schedule.visits()) if visits > 0}
    assert set(shown[1:]) == reached
    for line in lines[1:]:
        level = schedule.levels[line.index]
        assert {level.query, level.continuation} - {-1} <= reached


def test_the_picture_fits_a_terminal(schedule):
    assert all(len(line) <= 80 for line in picture(schedule))
    assert len(picture(schedule)) <= 60
    text = str(schedule)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.isprintable() or all(line.isprintable() for line in text.splitlines())


def test_the_text_names_promise_price_and_why_it_may_be_less():
    text = " ".join(str(schedule_of("rollouts")).split())
    assert "within ±0.1 (5% of the value span 2) with probability 0.9" in text
    number = r"[\d.,e]+"
    forecast = (
        rf"about {number} expected \(between {number} and {number}\), as the data"
    )
    assert re.search(forecast, text)
    assert "exactly 3,572 oracle calls" in str(schedule_of("paper, no promise"))
    assert "promise none" in " ".join(str(schedule_of("paper, no promise")).split())


def test_a_price_that_is_only_a_bound_says_so():
    facts = Facts(3, 1, 0.2, sc.Entropy(1.0), (0.0, 1.0))
    text = " ".join(str(paper_schedule(facts, epsilon=1.5, delta_prime=0.1)).split())
    assert "at most" in text
    assert "less where actions are missing or states end" in text


def test_counts_are_short_and_right():
    assert short(999_999_999_999) == "999,999,999,999"
    assert short(10**12) == "1.00e12"
    assert short(746 * 10**86) == "7.46e88"
    assert short(9_999 * 10**20) == "1.00e24"
    assert short(10**5000) == "1.00e5000"  # too long for str()
    assert compact(99_999) == "99,999"
    assert compact(132_542_540) == "1.33e8"
    shares = [percent(x) for x in (1.0, 0.123, 0.0123, 0.0001, 0.0)]
    assert shares == ["100%", "12%", "1.2%", "<0.1%", "0"]


def test_a_printed_interval_holds_the_interval():
    """Rounded outwards, at any size; no minus before a zero."""
    assert bounds(-5.7048, -4.7708, 2) == "[-5.71, -4.77]"
    assert bounds(2.1701, 2.3709, 2) == "[2.17, 2.38]"
    assert bounds(-0.0, -1e-9, 2) == "[0.00, 0.00]"
    assert bounds(1e300, math.inf, 1) == "[1e+300, inf]"
    assert bounds(1.23456e300, 1.23456e300, 1) == "[1.234e+300, 1.235e+300]"
    assert bounds(-1.23456e-20, 1.23456e-20, 21) == "[-1.235e-20, 1.235e-20]"
    assert bounds(-0.0, 0.0, 30) == "[0, 0]"
    rng = np.random.default_rng(3)
    for low, high, digits in zip(
        rng.normal(0, 10, 300),
        rng.normal(0, 10, 300),
        rng.integers(0, 9, 300),
        strict=True,
    ):
        ends = [float(x) for x in bounds(low, high, int(digits))[1:-1].split(", ")]
        assert low - 10.0**-digits <= ends[0] <= low
        assert high <= ends[1] <= high + 10.0**-digits


# --- what is offered where a promise cannot be paid ---------------------------


def stays(state, action, rng):
    return rng.random(), state


def problem(discount, operator, num_actions=2):
    return mdp(stays, num_actions=num_actions, discount=discount, operator=operator)


def refusal(asked, budget, **promise):
    """What is offered for the calls of a budget that remain beside the inspections."""
    schedule = sc.explain(asked, **promise)
    return "\n".join(
        alternatives.list_alternatives(
            asked.facts, schedule, budget - asked.inspection_calls
        )
    )


PROMISE = {"epsilon": 0.01, "delta": 0.1, "method": "smoothcruiser"}


@pytest.mark.parametrize("budget", range(500, 1_000, 50))
def test_the_offered_epsilon_is_payable_as_it_is_printed(budget):
    """The printed digits, given back, are accepted within the same budget, the
    calls that inspect the step included.
    """
    asked = problem(0.2, sc.Max())
    offered = re.search(r"epsilon (\S+) \(", refusal(asked, budget, **PROMISE))
    assert offered is not None
    promise = PROMISE | {"epsilon": float(offered[1])}
    accepted = sc.explain(asked, budget=budget, **promise)
    assert accepted.num_calls + asked.inspection_calls <= budget


@pytest.mark.compiles
def test_the_offered_temperature_is_the_first_whose_price_fits():
    """Temperatures 4, 16, ...: the price of 4 is enough for it, and one call less
    takes 16.
    """
    facts = problem(0.3, sc.Entropy(1.0)).facts
    prices = {
        t: compile_schedule(
            facts.under(sc.Entropy(t)), epsilon=0.2, delta=0.1
        ).num_calls
        for t in (4.0, 16.0)
    }
    assert prices[16.0] < prices[4.0]
    for budget, step in ((prices[4.0], 4.0), (prices[4.0] - 1, 16.0)):
        found = alternatives.payable_temperature(facts, 0.2, 0.1, "q_values", budget)
        assert found is not None
        temperature, calls, distance = found
        assert (temperature, calls) == (step, prices[step])
        # |V_lambda - V_0| <= lambda log 2 / (1 - gamma)
        assert distance == pytest.approx(step * math.log(2.0) / (1.0 - 0.3))


@pytest.mark.compiles
def test_a_dearer_method_is_told_that_the_sharp_one_keeps_its_promise():
    """Within the budget it is offered at its price; below its price it is not."""
    asked = problem(0.3, sc.Entropy(1.0))
    promise = {"epsilon": 0.2, "delta": 0.1}
    price = sc.explain(asked, method="smoothcruiser", **promise).num_calls
    paid = price + asked.inspection_calls
    sentence = f"keeps this very promise for {price:,} calls"
    assert sentence in refusal(asked, paid, method="paper", **promise)
    assert "this very promise" not in refusal(
        asked, paid - 1, method="paper", **promise
    )


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [(0.12301, 0.124), (0.1230, 0.123), (0.9991, 1.0), (0.0, 0.0), (1234.5, 1240.0)],
)
def test_epsilon_is_rounded_up_to_three_digits(epsilon, printed):
    assert alternatives._round_up(epsilon) == printed


# --- the band between V_lambda and V_0 ----------------------------------------


OPERATORS = [
    sc.Entropy(0.4),
    sc.KL(0.4),
    sc.KL(0.4, (0.5, 0.3, 0.2)),
    sc.Sparsemax(0.4),
    sc.SquareRoot(0.4),
    sc.Max(),
]
PROBLEMS = [
    "garnet:states=8,actions=3,seed=5",
    "random-game:states=8,actions=3,seed=2",
    "random-game:states=8,actions=3,seed=2,alternating=true",
]


@pytest.mark.parametrize("operator", OPERATORS, ids=repr)
def test_the_step_band_holds_and_is_attained(operator):
    """F(Q) - max Q over random Q lies in the band; equal actions and a clear
    winner reach its ends.
    """
    low, high = relaxation.step_band(Facts(3, 3, 0.5, operator, (0.0, 1.0)))
    rng = np.random.default_rng(0)
    gaps = [
        operator.value(q) - max(q)
        for q in rng.normal(size=(300, 3))
        * rng.choice([0.1, 1.0, 10.0], size=(300, 1))
    ]
    assert min(gaps) >= low - 1e-12
    assert max(gaps) <= high + 1e-12
    ends = [operator.value([0.0] * 3)] + [
        operator.value([1e6 * (i == a) for i in range(3)]) - 1e6 for a in range(3)
    ]
    assert [min(ends), max(ends)] == pytest.approx([low, high], abs=1e-6)


@pytest.mark.compiles
@pytest.mark.parametrize("text", PROBLEMS)
@pytest.mark.parametrize("operator", OPERATORS, ids=repr)
@pytest.mark.parametrize("horizon", [None, 3])
def test_the_value_band_holds(text, operator, horizon):
    """V_lambda - V_0 of exact solutions, in every state, lies in the band of
    the player to move.
    """
    soft = replace(sc.make(text, discount=0.7, operator=operator), horizon=horizon)
    plain = replace(soft, operator=sc.Max())
    gap = np.asarray(sc.solve(soft).values) - np.asarray(sc.solve(plain).values)
    for state, distance in enumerate(gap):
        low, high = relaxation.value_band(soft.facts, soft.mover(state))
        assert low - 1e-9 <= distance <= high + 1e-9
        assert abs(distance) <= soft.facts.relaxation_bound() + 1e-9


def test_what_cannot_be_relaxed_is_refused():
    facts = Facts(2, 2, 0.2, sc.Max(), (0.0, 1.0))
    with pytest.raises(sc.InvalidInput, match="may move the value"):
        relaxation.relax_through(facts, sc.Entropy(1.0), epsilon=0.1, delta=0.1)
    with pytest.raises(sc.InvalidInput, match="one of Entropy"):
        relaxation.relax(facts, epsilon=0.1, delta=0.1, family=sc.Max)
    with pytest.raises(sc.InvalidInput, match="epsilon"):
        relaxation.relax(facts, epsilon=0.0, delta=0.1)
    custom = sc.CustomOperator(
        lambda q: float(np.mean(q)),
        lambda q: np.full(len(q), 1.0 / len(q)),
        smooth=0.0,
        sums_to_one=True,
    )
    with pytest.raises(sc.InvalidInput, match="not known"):
        relaxation.step_band(replace(facts, operator=custom))


def test_alternation_narrows_the_band():
    """One player's pull partly undoes the other's: around the known middle the
    width is that of an MDP.
    """
    facts = Facts(3, 3, 0.5, sc.Entropy(0.4), (0.0, 1.0), game=True)
    alternating = replace(facts, alternating=True)
    width, narrow = (
        high - low
        for low, high in (
            relaxation.value_band(facts),
            relaxation.value_band(alternating),
        )
    )
    assert narrow == pytest.approx(0.4 * math.log(3.0) / 0.5)
    assert narrow < width


def test_an_early_end_stops_the_band():
    """Square root: with terminal states the known offset lambda a step may be
    cut short, so 0 is back in the band.
    """
    facts = Facts(2, 2, 0.5, sc.SquareRoot(1.0), (0.0, 1.0))
    assert relaxation.value_band(facts)[0] == pytest.approx(2.0)
    assert relaxation.value_band(replace(facts, terminals=True))[0] == 0.0
