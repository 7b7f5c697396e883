"""One server and two queues: where should it work, when going over takes a period?

The state is (jobs in the first queue, jobs in the second, place of the server). In every
period each queue gets a job with its own chance, lost where the queue is full. The server
ends the first job of its queue with chance ``work``; a period in which it goes over ends
none. A period costs the jobs that wait, weighted, and ``over`` per lost job, and the reward
is minus the cost. Without the period for going over the rule of the larger weight would be
best; with it the best switching curve has no formula.

Every state comes back: counting methods can be compared here. Along a path of noise the
places of the server merge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from smoothcruiser.problem.problem import MDP, Problem
from smoothcruiser.problem.zoo.literature import check_real, check_whole

DISCOUNT = 0.99


class QueueState(NamedTuple):
    """Jobs that wait in both queues, and the queue of the server, 0 or 1."""

    first: int
    second: int
    server: int


def two_queues(
    *,
    most: int = 15,
    arrival_1: float = 0.3,
    arrival_2: float = 0.25,
    work: float = 0.8,
    weight_1: float = 1.0,
    weight_2: float = 2.0,
    over: float = 10.0,
    **rest: Any,
) -> Problem:
    """The server between two queues of at most ``most`` jobs; actions stay, go over."""
    most = check_whole("most", most, 1)
    chances = (
        check_real("arrival_1", arrival_1, 0.0, 1.0),
        check_real("arrival_2", arrival_2, 0.0, 1.0),
        check_real("work", work, 0.0, 1.0),
    )
    prices = (
        check_real("weight_1", weight_1, 0.0),
        check_real("weight_2", weight_2, 0.0),
        check_real("over", over, 0.0),
    )
    if rest["discount"] is None:
        rest["discount"] = DISCOUNT
    largest_cost = most * (prices[0] + prices[1]) + 2.0 * prices[2]
    return MDP(
        _serving_step(most, chances, prices),
        num_actions=2,
        reward_range=(-largest_cost, 0.0),
        initial_state=QueueState(0, 0, 0),
        actions=("stay", "go over"),
        **rest,
    )


def _serving_step(
    most: int, chances: tuple[float, float, float], prices: tuple[float, float, float]
) -> Any:
    """The compiled step. It takes three uniform numbers, whatever the action."""
    from numba import njit

    arrival_1, arrival_2, work = chances
    weight_1, weight_2, over = prices

    @njit
    def step(state, action, rng):  # type: ignore[no-untyped-def]
        ends_job = rng.random() < work and action == 0
        first = state.first - (ends_job and state.server == 0 and state.first > 0)
        second = state.second - (ends_job and state.server == 1 and state.second > 0)
        first += rng.random() < arrival_1
        second += rng.random() < arrival_2
        num_lost = max(first - most, 0) + max(second - most, 0)
        waiting = weight_1 * state.first + weight_2 * state.second
        server = 1 - state.server if action == 1 else state.server
        next_state = QueueState(min(first, most), min(second, most), server)
        return -(waiting + over * num_lost), next_state

    return step
