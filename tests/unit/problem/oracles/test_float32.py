"""Steps in float32: what batches may round is a part of epsilon.

Laws: a batched step in float32 has ``reward_error`` = 2**-21 of the largest reward, and
one in float64 none; a schedule's rounding grows by it at least at the root and at every
level below, discounted, so that the interval of a run is as much wider; an epsilon of
which it would be more than 1% is refused; x64=False is for JAX alone. JAX is not needed:
nothing is stepped here.
"""

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.assumptions import assumptions
from smoothcruiser.schedule.verify.sharp import root_promise


def world(x64, scale=1.0, discount=0.5):
    def step(state, action, key):
        raise AssertionError("nothing is stepped here")

    arrays = sc.batched(step, backend="jax", each=True, x64=x64)
    rewards = {"reward_range": (-scale, scale / 2), "operator": sc.Max()}
    return mdp(arrays, discount=discount, initial_state=0.0, **rewards)


def test_the_allowance_is_a_share_of_the_largest_reward():
    assert world(True).facts.reward_error == 0.0
    assert world(False).facts.reward_error == 2.0**-21
    assert world(False, scale=8.0).facts.reward_error == 2.0**-18
    assert world(False).facts.unpaid.reward_error == 0.0


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
def test_it_enters_the_rounding_of_a_schedule(discount):
    promise = {"epsilon": "20%", "delta": 0.1, "method": "smoothcruiser"}
    rounding = {}
    for x64 in (True, False):
        schedule = sc.explain(world(x64, discount=discount), **promise)
        again = sc.Schedule.from_json(schedule.to_json())
        assert again.facts.reward_error == (0.0 if x64 else 2.0**-21)
        rounding[x64] = root_promise(schedule).rounding
    error = 2.0**-21
    # the root's reward, and that of one level below it where there is one
    assert rounding[False] - rounding[True] >= error * (1.0 + discount) * (1 - 1e-9)
    assert rounding[True] < 1e-8


def test_the_certificate_names_it():
    sentence = "pay within 5e-07 of what a step by itself pays (an allowance"
    named = {x64: " ".join(assumptions(world(x64), "", "")) for x64 in (True, False)}
    assert sentence in named[False]
    assert "float32" not in named[True]


def test_float32_is_for_jax():
    with pytest.raises(sc.InvalidInput, match="with backend='jax', False"):
        sc.batched(lambda states, actions, rng: None, x64=False)
