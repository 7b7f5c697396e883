"""Runs of paths on a machine of a law: what ends them, what counts, same bits.

``GapRun`` and its crew are imported themselves: the laws here are no problems.
"""

import itertools
import math

import numpy as np
import pytest
from fake_paths import FakeCritic, FakeMachine

import smoothcruiser as sc
from smoothcruiser.duality.runs import path_crew
from smoothcruiser.duality.runs.path_run import NO_LIMIT, GapRun
from smoothcruiser.duality.runs.path_samples import PathRequest
from smoothcruiser.errors import OracleError
from smoothcruiser.progress import Phases
from smoothcruiser.query import Promise
from smoothcruiser.run_control.control import Control, Limits, StopReason


def coin(rng):
    """U is 1 or 0."""
    return float(rng.random() < 0.5)


def jackpot(rng):
    """U is 1 rarely, and such a path costs much."""
    return float(rng.random() < 0.05)


def payer(num_actions=1):
    """One step, worth between -1/2 and 1."""
    return sc.MDP(
        lambda s, a, rng: (float(rng.random() < 0.5), s),
        num_actions=num_actions,
        discount=1.0,
        horizon=1,
        operator=sc.Max(),
        reward_range=(-0.5, 1.0),
        initial_state=0,
    )


def run_on(machine, epsilon=None, calls=None, seconds=None, **more):
    """The summary of a run on a fake machine."""
    promise = Promise(epsilon=epsilon, delta=0.05)
    keywords = {"players": more.pop("players", (1,))}
    keywords["has_policy"] = more.pop("has_policy", True)
    request = PathRequest(
        payer(machine.num_actions), 0, 1, FakeCritic(), 0.05, promise, **keywords
    )
    control = Control(Limits(calls=calls, seconds=seconds))
    more.setdefault("phases", Phases(None))
    phases = more.pop("phases")
    run = GapRun(
        request,
        machine,
        phases,
        control,
        most_calls=NO_LIMIT if calls is None else calls,
        **more,
    )
    return run.run_paths()


def law_of(machine, num_paths):
    """U of the paths that come first."""
    return [machine.law(np.random.default_rng((i, False))) for i in range(num_paths)]


@pytest.fixture
def threads(monkeypatch):
    """Fake machines count as machine code, so that workers are threads."""
    monkeypatch.setattr(path_crew, "runs_in_machine_code", lambda machine: True)


def test_a_run_ends_at_its_accuracy_and_its_limits_hold_the_mean():
    summary = run_on(FakeMachine(coin, loss=0.01), epsilon=0.06)
    low, high = summary.interval
    assert summary.stop is None
    assert (high - low) / 2 <= 0.06
    assert low < 0.5 < high
    samples = law_of(FakeMachine(coin), summary.num_paths)
    assert summary.value == pytest.approx(np.mean(samples) - 0.005)
    assert summary.standard_error == pytest.approx(
        np.std(samples, ddof=1) / math.sqrt(summary.num_paths)
    )
    assert summary.gap == pytest.approx(0.01)
    # the difference is known far better than either end
    assert 0.01 <= summary.regret < 0.1 * (high - low) + 0.01
    assert summary.policy_interval[0] < 0.49 < summary.policy_interval[1]


@pytest.mark.parametrize("budget", [1, 20, 100, 1000, 5000])
def test_calls_never_exceed_the_budget_and_are_all_counted(budget):
    machine = FakeMachine(jackpot, cost=lambda u: 7 if u == 0.0 else 211)
    summary = run_on(machine, calls=budget)
    assert summary.num_calls <= budget
    inspected = summary.calls.get("inspection", 0)
    assert summary.num_calls == inspected + machine.calls
    assert summary.stop is StopReason.BUDGET
    if summary.num_paths == 0:
        assert summary.interval == (-0.5, 1.0)
        assert summary.regret == 1.5
    if budget == 5000:
        # what is left is less than a path of average cost, or the last path was dropped
        assert summary.num_calls > 0.9 * budget


@pytest.mark.parametrize("budget", [15_000, 30_000])
def test_any_number_of_workers_has_the_same_bits(threads, budget):
    answers = []
    for workers in (1, 2, 3):
        machine = FakeMachine(jackpot, cost=lambda u: 7 if u == 0.0 else 2111)
        summary = run_on(machine, calls=budget, workers=workers)
        answers.append((summary.num_paths, summary.interval, summary.value))
        answers[-1] += (summary.num_calls, summary.regret)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] > 100


@pytest.mark.parametrize("workers", [1, 2])
def test_a_clock_ends_a_run_at_a_prefix_however_slow_its_paths_are(threads, workers):
    machine = FakeMachine(
        jackpot, sleep=lambda u: 0.05 if u == 1.0 else 0.0005, cost=lambda u: 10
    )
    summary = run_on(machine, seconds=0.6, workers=workers)
    assert summary.stop is StopReason.SECONDS
    assert summary.num_paths > 16
    # no slow path is left out
    expected = np.mean(law_of(machine, summary.num_paths))
    assert summary.value == pytest.approx(expected, abs=1e-12)


def test_a_stop_by_hand_and_a_callback_end_a_run_with_an_answer():
    control_stops = []

    def law(rng):
        if control_stops and rng.random() < 0.001:
            control_stops[0].hold.ask()
        return coin(rng)

    request = PathRequest(payer(), 0, 1, FakeCritic(), 0.05, Promise(delta=0.05))
    control = Control(Limits())
    control_stops.append(control)
    run = GapRun(request, FakeMachine(law), Phases(None), control)
    summary = run.run_paths()
    assert summary.stop is StopReason.HAND
    assert summary.num_paths > 0
    assert summary.interval[0] < 0.5 < summary.interval[1]

    phases_seen = []

    def stop_late(news):
        phases_seen.append(news.phase)
        return len(phases_seen) < 4

    summary = run_on(
        FakeMachine(coin, sleep=lambda u: 0.002), phases=Phases(stop_late)
    )
    assert summary.stop is StopReason.CALLBACK
    assert phases_seen[:2] == ["inspecting", "evaluating"]


def test_a_refit_replaces_w_and_its_ranges_between_blocks():
    fits = []

    def refit(num_paths):
        fits.append(num_paths)
        return (FakeCritic(0.25), 11) if len(fits) == 1 else None

    machine = FakeMachine(coin)
    summary = run_on(machine, calls=30_000, refit=refit)
    assert fits[0] >= 256
    assert fits[1] >= 1024
    assert [r.path for r in summary.refits] == [fits[0]]
    assert summary.refits[0].root_value == 0.25
    assert summary.calls["fit"] == 11
    assert len(machine.critics) == 1
    # pilot paths of the refit are fresh, and no path that counts is played twice
    pilots = [first for first, _, is_pilot in machine.asked if is_pilot]
    assert pilots[-1] > max(pilots[:-1])
    played = [
        (first, count) for first, count, is_pilot in machine.asked if not is_pilot
    ]
    assert all(a[0] + a[1] == b[0] for a, b in itertools.pairwise(played))
    assert summary.interval[0] < 0.5 < summary.interval[1]


def test_a_path_beyond_its_range_is_an_error():
    machine = FakeMachine(lambda rng: 1.0 if rng.random() < 0.9 else 1.5)
    with pytest.raises(OracleError, match="reward_range"):
        run_on(machine, calls=10_000)


def test_without_a_policy_all_of_delta_is_the_interval_s():
    with_policy = run_on(FakeMachine(coin), calls=20_000)
    without = run_on(FakeMachine(coin), calls=20_000, has_policy=False)
    widths = [high - low for low, high in (with_policy.interval, without.interval)]
    assert widths[1] < widths[0]
    assert math.isnan(without.regret)
    assert math.isnan(without.policy_interval[0])


def test_actions_have_limits_and_paired_differences():
    machine = FakeMachine(coin, num_actions=2, loss=0.1)
    summary = run_on(machine, calls=20_000)
    for low, high in summary.q_intervals:
        assert low < 0.4 < 0.5 < high
    assert summary.action_means == pytest.approx(
        np.repeat([summary.q_values[0] + 0.05, summary.q_values[0] - 0.05], 2)
    )
    covariances = summary.action_covariances
    # equal on every path: their difference has no noise
    difference = covariances[2, 2] + covariances[3, 3] - 2 * covariances[2, 3]
    assert difference == pytest.approx(0.0, abs=1e-12)
