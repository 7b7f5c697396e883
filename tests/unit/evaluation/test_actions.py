"""A policy that names actions themselves, on a problem whose actions are sampled: by hand,
and against the exact values of linear-quadratic control.
"""

import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


def world(step, **more):
    rest = {"discount": 0.5, "horizon": 3, "operator": sc.Max(), "initial_state": 1.0}
    rest["reward_range"] = (-1.0, 1.0)
    sampler = lambda x, rng: rng.uniform(-1.0, 1.0)  # noqa: E731
    return sc.MDP(step, sample_action=sampler, **(rest | more))


def pay(x, u, rng):
    """The action is the reward, the state halves."""
    return u, 0.5 * x


def test_the_value_of_a_function_by_hand():
    """u = x: 1 + 0.5 * 0.5 + 0.25 * 0.25, without lots."""
    found = sc.evaluate(world(pay, deterministic=True), lambda x: x, budget=400)
    assert found.value == 1.3125
    assert found.interval[0] <= 1.3125 <= found.interval[1]
    assert found.delta == 0.0
    assert found.certificate.kind == "policy"


def test_a_function_with_a_stream_draws_lots_and_is_not_taken_for_certain():
    problem = world(pay, deterministic=True)
    found = sc.evaluate(problem, lambda x, rng: rng.random(), budget=6000, seed=1)
    assert found.delta == 0.05
    assert found.interval[0] <= 0.5 * 1.75 <= found.interval[1]
    assert found.interval[1] - found.interval[0] < 0.2


def test_ends_and_bad_rewards_are_heard():
    problem = world(lambda x, u, rng: (1.0, x, True), terminal=True)
    assert sc.evaluate(problem, lambda x: 0.0, budget=100).value == pytest.approx(1.0)
    with pytest.raises(sc.errors.OracleError, match="outside reward_range"):
        sc.evaluate(world(pay), lambda x: 2.0, budget=100)


@pytest.mark.parametrize(
    "policy, words",
    [
        (lambda x: None, "must give an action that the step takes, got None"),
        ([[1.0, 0.0]], "state -> action"),
        (lambda x: 1 // 0, "The policy raised ZeroDivisionError"),
    ],
)
def test_what_is_no_policy_of_actions_is_refused(policy, words):
    with pytest.raises(sc.InvalidInput, match=words):
        sc.evaluate(world(pay), policy, budget=100)


# --- linear-quadratic control -------------------------------------------------
# x' = x + u + w, w uniform on [-0.3, 0.3], cost x^2 + u^2 / 2 per step, from 1

NOISE, PRICE, STEPS = 0.3, 0.5, 4
LARGEST = (1.0 + 3 * 1.3) ** 2 + PRICE  # |x| grows by at most 1 + 0.3 a step


def control(x, u, rng):
    return -(x * x + PRICE * u * u), x + u + rng.uniform(-NOISE, NOISE)


def lqr_value(gain):
    """The value of u = -gain x at every step, exact."""
    second, total = 1.0, 0.0
    for _ in range(STEPS):
        total -= (1.0 + PRICE * gain * gain) * second
        second = (1.0 - gain) ** 2 * second + NOISE * NOISE / 3.0
    return total


def controlled():
    return world(
        control, discount=1.0, horizon=STEPS, reward_range=(-LARGEST, 0.0)
    )  # fmt: skip


def test_intervals_hold_the_exact_value_of_a_linear_policy():
    """80 runs at delta = 0.2: more than 28 misses have probability below 1e-3 if each
    holds with probability 0.8.
    """
    exact, problem, missed = lqr_value(0.5), controlled(), 0
    for seed in range(80):
        found = sc.evaluate(
            problem, lambda x: -0.5 * x, budget=400, delta=0.2, seed=seed
        )
        low, high = found.interval
        missed += not low <= exact <= high
    assert missed <= 28
