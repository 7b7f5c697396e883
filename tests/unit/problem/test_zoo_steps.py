"""The built-in problems that are steps: what they pay, where they go, what they declare."""

import math

import pytest
from benchmarks.gap import truths

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream

pytestmark = pytest.mark.compiles
NAMES = (
    "max-call:assets=1",
    "max-call:assets=5,spot=90",
    "storage",
    "lost-sales:lead=1",
    "lost-sales:lead=3",
    "two-queues",
)


class Fixed:
    """A stream that always gives the same uniform number."""

    def __init__(self, sample):
        self.random = lambda: sample


@pytest.mark.parametrize("name", NAMES)
def test_python_and_machine_code_agree_within_the_range(name):
    problem = sc.make(name)
    assert problem.operator == sc.Max()
    assert problem.is_compiled
    state, (low, high) = problem.start(), problem.reward_range
    streams = stream(3), stream(3)
    for k in range(300):
        last = problem.num_actions - 1
        action = last if name.startswith("max") else k % problem.num_actions
        forms = problem.oracle, problem.oracle.py_func
        machine, plain = (
            f(state, action, r) for f, r in zip(forms, streams, strict=True)
        )
        assert machine[1] == plain[1]
        assert machine[0] == pytest.approx(plain[0], rel=1e-15)
        assert low <= machine[0] <= high
        state = machine[1]


def test_they_have_a_discount_of_their_own_which_words_replace():
    assert sc.make("storage").discount == 0.99
    assert sc.make("max-call").discount == math.exp(-0.05 / 3)
    assert sc.make("storage", discount=0.5, temperature=2).operator == sc.Entropy(2.0)
    finite = sc.make("storage", discount=1, horizon=30)
    assert (finite.discount, finite.horizon) == (1, 30)
    with pytest.raises(sc.InvalidInput, match="problem of 10 steps"):
        sc.make("max-call", horizon=5)
    with pytest.raises(sc.InvalidInput, match=r"loss must be .* at most 1, got 2"):
        sc.make("storage:loss=2")


def test_a_max_call_pays_the_largest_price_once():
    call = sc.make("max-call:assets=3,strike=90")
    assert call.horizon == 10
    step, prices = call.oracle, (80.0, 101.0, 95.0)
    assert step(prices, 0, stream(1)) == (11.0, prices, True)
    assert step((80.0,) * 3, 0, stream(1))[0] == 0.0
    reward, held, is_over = step(prices, 1, stream(1))
    assert (reward, is_over) == (0.0, False)
    assert all(price != later for price, later in zip(prices, held, strict=True))
    cap = call.reward_range[1] + 90.0
    high = step((cap, cap, 1.0), 1, stream(2))[1]
    assert max(high) <= cap  # clipped: the range is true for every state


def test_the_price_of_a_store_is_not_moved_by_the_action():
    step = sc.make("storage").oracle
    state = sc.make("storage").start()._replace(log_price=0.5)
    sold, kept, bought = (step(state, action, stream(4)) for action in range(3))
    assert len({outcome[1].log_price for outcome in (sold, kept, bought)}) == 1
    assert [outcome[1].level for outcome in (sold, kept, bought)] == [4, 5, 6]
    price = math.exp(0.5)
    assert sold[0] == pytest.approx(0.95 * price)
    assert (kept[0], bought[0]) == (0.0, pytest.approx(-price))
    for level, action in ((0, 0), (10, 2)):  # at the ends nothing happens
        outcome = step(state._replace(level=level), action, stream(4))
        assert (outcome[0], outcome[1].level) == (0.0, level)


def test_orders_arrive_after_their_lead_time_and_demand_is_poisson():
    step = sc.make("lost-sales:lead=3").oracle.py_func
    nobody, many = Fixed(0.0), Fixed(1.0 - 1e-15)
    assert step((4, 2, 7), 5, nobody) == (-4.0, (6, 7, 5))
    assert step((4, 2, 7), 5, many) == (-4.0 * 13, (2, 7, 5))  # 17 wanted
    assert step((19, 9, 0), 0, nobody)[1] == (20, 0, 0)
    share = math.exp(-5.0) * (1.0 + 5.0)
    at_once = sc.make("lost-sales:lead=1").oracle.py_func
    assert at_once((9,), 2, Fixed(share - 1e-9)) == (-8.0, (10,))
    assert at_once((9,), 2, Fixed(share + 1e-9)) == (-7.0, (9,))


def test_a_server_that_goes_over_ends_no_job():
    queues = sc.make("two-queues")
    step, state = queues.oracle.py_func, queues.start()._replace(first=3, second=15)
    assert step(state, 0, Fixed(0.5)) == (-33.0, (2, 15, 0))
    assert step(state, 1, Fixed(0.5)) == (-33.0, (3, 15, 1))
    assert step(state, 1, Fixed(0.2)) == (-33.0 - 10.0, (4, 15, 1))  # one is lost
    assert queues.label(state, 1) == "go over"


def test_a_small_shop_has_the_value_of_an_independent_solver():
    """``benchmarks/gap/truths.py`` writes the law again; here it is listed by the step."""
    shop = sc.make("lost-sales:lead=1")
    law = truths.demand_law().tolist()
    middles = [sum(law[:d]) + law[d] / 2 for d in range(18)]

    def outcomes(state, action):
        steps = (shop.oracle.py_func(state, action, Fixed(u)) for u in middles)
        return [(p, r, z) for p, (r, z) in zip(law, steps, strict=True)]

    known = sc.MDP(
        shop.oracle.py_func,
        num_actions=10,
        discount=0.97,
        operator=sc.Max(),
        reward_range=shop.reward_range,
        initial_state=(5,),
        outcomes=outcomes,
    )
    assert sc.plan(known, method="exact").value == pytest.approx(
        truths.lost_sales_value(1, 0.97, None), abs=1e-7
    )
