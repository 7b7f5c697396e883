"""Lower bounds on prices: below every compiled schedule, and known at once."""

import itertools
import math
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.methods.advice import least_of_search, seconds_of
from smoothcruiser.problem.facts import Facts
from smoothcruiser.query import Promise
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.number_text import format_log_count, power_of_ten
from smoothcruiser.schedule.reach import OutOfTime, patience
from smoothcruiser.theory.least_price import least_price

OPERATORS = (
    sc.Max(),
    sc.Entropy(1.0),
    sc.Entropy(50.0),
    sc.KL(0.5),
    sc.Sparsemax(1.0),
    sc.SquareRoot(1.0),
)


def facts_of(operator, discount, horizon):
    plain = Facts(2, 2, discount, operator, (0.0, 1.0), horizon=horizon)
    return [
        plain,
        replace(plain, num_actions=3, reward_range=(-1.0, 1.0), terminals=True),
        replace(plain, game=True),
        replace(plain, total_range=(0, 0.6)),
        replace(plain, given_gap=0.3 * plain.value_span()),
    ]


def small_grid(operator):
    staged = facts_of(operator, 1.0, 2)
    return [*facts_of(operator, 0.2, None)[1:3], *staged[3:]], [0.1]


def large_grid(operator):
    return [*facts_of(operator, 0.5, None), *facts_of(operator, 1.0, 3)], [0.02, 0.3]


GRIDS = [(operator, small_grid) for operator in OPERATORS[:2]]
GRIDS += [pytest.param(x, large_grid, marks=pytest.mark.slow) for x in OPERATORS]


def name_part(part):
    """A name for test ids that is the same in every process."""
    return getattr(part, "__name__", str(part))


@pytest.mark.parametrize("operator, grid", GRIDS, ids=name_part)
def test_no_compiled_schedule_is_cheaper_or_shorter(operator, grid):
    worlds, deltas = grid(operator)
    targets = ("q_values", "value")
    for facts, share, delta, target in itertools.product(
        worlds, (0.3, 0.1), deltas, targets
    ):
        epsilon = share * facts.value_span()
        least = least_price(facts, epsilon, delta, target)
        promise = {"epsilon": epsilon, "delta": delta, "target": target}
        schedule = compile_schedule(facts, **promise, adaptive=False)
        assert least.log_calls <= math.log(max(1, schedule.num_calls))
        assert least.depth <= len(schedule.levels)


def test_the_bound_says_something():
    """Sparse sampling at discount 0.9: at least 2^21 paths, 1e95 calls in fact."""
    facts = Facts(2, 2, 0.9, sc.Max(), (0.0, 1.0))
    least = least_price(facts, 0.5, 0.1)
    assert least.depth == 21
    assert least.log_calls == pytest.approx(math.log(0.8 * 2**21))
    coin = least_price(Facts(2, 2, 0.5, sc.Entropy(1e6), (0.0, 1.0)), 0.1, 0.01)
    assert coin.log_calls > math.log(300)


def test_prices_beyond_floats_have_words_and_no_seconds():
    problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
    assert seconds_of(problem, None, "certified", 10**8236) is None
    assert seconds_of(problem, None, "smoothcruiser", 2 * 10**7) == pytest.approx(1.0)
    assert least_of_search(problem, Promise(epsilon=1e-308, delta=0.1)) > 10**299
    assert power_of_ten(8236.2 * math.log(10.0)) == "10^8,236"
    assert format_log_count(8236.2 * math.log(10.0)) == "10^8,236"
    assert power_of_ten(math.log(46.0)) == "46"


def test_a_search_out_of_time_goes_on_to_the_same_table():
    facts = Facts(2, 2, 0.61, sc.Entropy(1.0), (0.0, 1.0))
    promise = {"epsilon": 0.2, "delta": 0.1}
    for ticks in (3, 30):
        clock = iter(range(ticks + 10**6))
        with pytest.raises(OutOfTime), patience(ticks, lambda c=clock: next(c)):
            compile_schedule(facts, **promise)
    schedule = compile_schedule(facts, **promise)
    from smoothcruiser.schedule.compiler.candidates import frontier_of

    frontier_of.cache_clear()
    from smoothcruiser.schedule.compiler import optimizer

    optimizer._compile_cached.cache_clear()
    assert compile_schedule(facts, **promise) == schedule
