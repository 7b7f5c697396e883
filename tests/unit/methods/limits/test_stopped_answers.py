"""Trees, evaluations and exact solutions that are stopped answer with what holds."""

import math
import signal
import time

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.exact.model import Watch
from smoothcruiser.exact.reachable import known_model
from smoothcruiser.exact.solver import solve_model

pytestmark = pytest.mark.compiles


class Broken:
    """A coin whose call of the given number is broken off."""

    def __init__(self, number):
        self.left = number

    def __call__(self, state, action, rng):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return float(rng.random() < 0.5), 0


def coin(number):
    """V = 1: a mean reward of 1/2 at discount 1/2."""
    return mdp(Broken(number), operator=sc.Max())


@pytest.mark.parametrize("number", [1, 3, 60, 400])
@pytest.mark.parametrize("certify", [False, True])
def test_a_tree_answers_whenever_it_is_stopped(number, certify):
    """Before the first simulation, while it grows, and while it is rolled out."""
    asked = {"method": "uct", "budget": 700, "certify": certify}
    answer = sc.plan(coin(number), **asked, **({"delta": 0.01} if certify else {}))
    assert "Stopped by hand after" in " ".join(answer.notes)
    assert sum(answer.policy) == pytest.approx(1.0)
    assert math.isfinite(answer.value)
    if certify:
        assert answer.interval[0] <= 1.0 <= answer.interval[1]


def test_a_tree_that_a_callback_stops_is_certified_by_what_the_rewards_allow():
    problem = sc.make("chain:n=5", discount=0.5, temperature=0.1)
    stop = {"progress": lambda news: not news.calls, "certify": True, "budget": 10**8}
    answer = sc.plan(problem, method="ments", **stop)
    assert "Stopped by the callback" in " ".join(answer.notes)
    assert answer.interval == pytest.approx(problem.facts.value_bounds())


@pytest.mark.parametrize("number", [1, 20, 100, 900])
def test_an_evaluation_answers_whenever_it_is_stopped(number):
    found = sc.evaluate(coin(number), lambda s: [0.5, 0.5], delta=0.01)
    assert "Stopped by hand after" in found.notes[-1]
    assert found.interval[0] <= 1.0 <= found.interval[1]
    assert found.epsilon == 0.5 * (found.interval[1] - found.interval[0])


def test_an_evaluation_in_machine_code_is_stopped_from_its_callback():
    problem = sc.make("chain:n=5", discount=0.5, temperature=0.1)
    solution = sc.solve(problem)

    def press(report):
        if report.phase == "evaluating":
            signal.raise_signal(signal.SIGINT)

    found = sc.evaluate(problem, solution, delta=0.01, budget=10**9, progress=press)
    assert "Stopped by hand after" in found.notes[-1]
    assert found.interval[0] <= solution.values[0] <= found.interval[1]
    enough = lambda news: not news.calls  # noqa: E731
    found = sc.evaluate(problem, solution, delta=0.01, budget=10**9, progress=enough)
    assert "by the callback" in found.notes[-1]


def garnet(**about):
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(6), (30, 3))
    wide = np.zeros((30, 3, 30))
    for s, a in np.ndindex(30, 3):
        wide[s, a, rng.choice(30, 6, replace=False)] = P[s, a]
    return sc.tabular(wide, rng.random((30, 3)) - 0.4, **about)


WORLDS = {
    "discount": {"discount": 0.99, "operator": sc.Entropy(0.1)},
    "terminal": {
        "discount": 0.9,
        "operator": sc.Max(),
        "terminal": np.arange(30) % 7 == 1,
    },
    "horizon": {"discount": 1.0, "operator": sc.Sparsemax(0.2), "horizon": 12},
    "short": {"discount": 0.7, "operator": sc.Max(), "horizon": 5},
}


class Counting(Watch):
    """A watch that is pressed after a number of looks."""

    def __init__(self, most):
        super().__init__()
        self.left = most

    def __call__(self):
        self.left -= 1
        return None if self.left >= 0 else "hand"


@pytest.mark.parametrize("name", WORLDS)
def test_every_sweep_of_an_exact_solution_has_a_bound_that_holds(name):
    """Stopped after each number of looks at the clock; values and action values."""
    problem = garnet(**WORLDS[name])
    whole = sc.solve(problem)
    bounds = []
    for most in range(40):
        how = {"method": "value-iteration", "watch": Counting(most)}
        part = solve_model(problem, known_model(problem), **how)
        slack = part.residual_bound + whole.residual_bound
        assert np.abs(part.values - whole.values).max() <= slack
        assert np.nanmax(np.abs(part.q_values - whole.q_values)) <= slack
        bounds.append(part.residual_bound)
    assert bounds[0] > bounds[-1]
    assert "stopped after" in part.note or part.residual_bound <= whole.residual_bound


def test_a_model_that_is_not_listed_in_time_has_what_the_rewards_allow():
    def endless(state, action):
        time.sleep(1e-3)
        return [(0.5, 0.2, state + 1), (0.5, 0.8, 2 * state + action)]

    problem = mdp(
        lambda state, action, rng: (0.5, state + 1),
        operator=sc.Max(),
        outcomes=endless,
    )
    answer = sc.plan(problem, method="exact", seconds=0.05)
    assert answer.interval == pytest.approx((0.0, 2.0))
    assert "The time was up" in answer.notes[-1]


@pytest.mark.parametrize("method", ["smoothcruiser", "sparse-sampling", "auto"])
def test_a_stop_before_the_first_sample_is_answered(method, monkeypatch):
    """The schedule takes seconds to compute, and Ctrl-C may come there too."""

    def pressed(*arguments, **asked):
        raise KeyboardInterrupt

    optimizer = "smoothcruiser.schedule.compiler.optimizer"
    monkeypatch.setattr(f"{optimizer}.compile_schedule", pressed)
    monkeypatch.setattr(f"{optimizer}.sparse_sampling", pressed)
    problem = coin(10**9)
    answer = sc.plan(problem, method=method, epsilon="10%", delta=0.1)
    assert answer.interval == problem.facts.value_bounds()
    assert (answer.num_calls, answer.delta, answer.epsilon) == (0, 0.0, 1.0)
    assert "Stopped by hand before the first sample" in answer.notes[0]


def test_a_tree_that_promises_nothing_passes_a_stop_on(monkeypatch):
    def pressed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "smoothcruiser.methods.tree_search.TreeSearch.prepare", pressed
    )
    with pytest.raises(KeyboardInterrupt):
        sc.plan(coin(10**9), method="uct", budget=100)
