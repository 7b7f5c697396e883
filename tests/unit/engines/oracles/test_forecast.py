"""What a run likely pays, by its first samples: the run is the same, bit for bit."""

from dataclasses import replace

import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

PROMISE = {"epsilon": "5%", "delta": 0.1, "method": "smoothcruiser"}


def noiseless():
    return sc.make("chain:n=5", discount=0.5, temperature=1.0)


def noisy():
    return sc.make("random-game", discount=0.5, temperature=1.0)


@pytest.mark.parametrize("make", [noiseless, noisy])
@pytest.mark.parametrize("target", ["q_values", "value"])
def test_first_samples_foresee_what_is_paid_and_change_nothing(make, target):
    ready = sc.prepare(make(), target=target, seed=3, **PROMISE)
    known = ready.with_pilot()
    plain, answer = ready.run(), known.run()
    likely = known.explanation.expected_calls
    assert plain.num_calls / 1.5 <= likely <= 1.5 * plain.num_calls
    for name in ("q_values", "value", "interval", "num_calls", "price"):
        assert getattr(answer, name) == getattr(plain, name)
    assert answer.calls_spent <= answer.price == known.price == ready.price
    assert known.with_pilot() is known
    assert "expected by its first samples" in " ".join(str(known).split())


@pytest.mark.slow
def test_a_pilot_inspects_the_step_in_place_of_the_run():
    import numba

    @numba.njit
    def step(state, action, rng):
        return 1.0 * (rng.random() < 0.5), (state + action) % 3

    problem = sc.MDP(
        step, num_actions=2, initial_state=0, discount=0.2, operator=sc.Entropy(1.0)
    )
    ready = sc.prepare(problem, **PROMISE)
    known = ready.with_pilot()
    start = known.fitted.begun
    assert 0 < start.ledger.total < problem.inspection_calls
    plain, answer = ready.run(), known.run()
    assert answer.num_calls == plain.num_calls  # the step is inspected as often
    likely = known.explanation.expected_calls
    assert answer.num_calls / 1.5 <= likely <= 1.5 * answer.num_calls
    assert answer.calls_spent <= answer.price == known.price
    # a stop before the first shard loses no call of the pilot
    query = replace(known.query, progress=lambda report: False)
    stopped = replace(known, query=query).run()
    pilot_calls = start.ledger.total + sum(part.calls for part in start.parts.values())
    assert stopped.calls_spent == stopped.num_calls == pilot_calls


@pytest.mark.parametrize(
    "limits", [{"budget": 3}, {"executor": "python"}, {"executor": "reference"}]
)
def test_there_is_no_pilot_where_a_run_does_not_begin_so(limits):
    ready = sc.prepare(noiseless(), **PROMISE, **limits)
    assert ready.with_pilot() is ready


def test_a_schedule_with_a_pilot_is_written_and_read():
    schedule = sc.prepare(noiseless(), **PROMISE).with_pilot().explanation
    data = schedule.to_dict()
    assert data["expected_calls"] == data["piloted_calls"] == schedule.piloted_calls
    again = sc.Schedule.from_dict(data)
    assert again == schedule
    assert again.expected_calls == schedule.expected_calls
    assert replace(schedule, piloted_calls=10**30).expected_calls == schedule.num_calls
