"""Laws of the plan's picture: numbers add up to the price, every level is shown
once, moments are the verifier's, lines fit a terminal.
"""

import math
import re
from functools import cache

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
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
