"""Sampled actions: one list per state, the same for everybody; what goes with them, and
what is refused.
"""

import functools
from dataclasses import replace

import numba
import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from fresh_process import run_python

pytestmark = pytest.mark.compiles


def step(x, u, rng):
    """Pays for an action near half of the state; the state moves a little."""
    return 1.0 - min(1.0, abs(u - 0.5 * x)), 0.5 * x + 0.1 * rng.random()


def sampler(x, rng):
    return rng.uniform(-1.0, 1.0)


def world(oracle=step, sample_action=sampler, **more):
    rest = {"discount": 1.0, "horizon": 3, "operator": sc.Max(), "initial_state": 0.8}
    return sc.MDP(oracle, sample_action=sample_action, **(rest | more))


def test_the_list_of_a_state_is_always_the_same_and_another_elsewhere():
    problem = world()
    first = [problem.sampled_action(0.8, n) for n in range(64)]
    assert problem.num_actions == 64
    assert first == [world().sampled_action(0.8, n) for n in range(64)]
    assert len(set(first)) == 64
    assert all(-1.0 <= u <= 1.0 for u in first)
    assert not set(first) & {problem.sampled_action(0.7, n) for n in range(64)}
    # equal states have one list, whatever their types
    assert problem.sampled_action(1, 3) == problem.sampled_action(1.0, 3)
    assert problem.sampled_action(0.0, 3) == problem.sampled_action(-0.0, 3)


def test_the_actions_of_many_states_follow_the_samplers_law():
    """First actions of 2,000 states, uniform on [-1, 1]: Kolmogorov-Smirnov at 1e-4
    (2.23 / sqrt(n)); and neighbours in the list are uncorrelated (4.5 deviations).
    """
    problem, n = world(), 2000
    pairs = np.array(
        [[problem.sampled_action(s, i) for i in (0, 1)] for s in range(n)]
    )
    u = np.sort((pairs[:, 0] + 1.0) / 2.0)
    grid = np.arange(n)
    distance = max(np.max(np.abs(u - grid / n)), np.max(np.abs(u - (grid + 1) / n)))
    assert distance < 2.23 / np.sqrt(n)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 4.5 / np.sqrt(n)


def test_text_in_a_state_gives_the_same_list_in_every_process():
    code = (
        "import smoothcruiser as sc\n"
        "p = sc.MDP(lambda s, u, rng: (u, s), sample_action=lambda s, rng: rng.random(),"
        " discount=0.5, operator=sc.Max())\n"
        "print(p.sampled_action(('here', 2), 5))"
    )
    assert len({run_python(code, PYTHONHASHSEED=seed).stdout for seed in "12"}) == 1


def test_the_step_gets_the_action_and_trees_see_numbers():
    problem = world(num_actions=16, horizon=1)
    tree = sc.Tree(problem, method=sc.BTS(), seed=1).grow(simulations=400)
    answer = tree.estimate()
    best = problem.sampled_action(0.8, answer.action)
    closest = min(range(16), key=lambda n: abs(problem.sampled_action(0.8, n) - 0.4))
    assert answer.action == closest
    assert answer.label(answer.action) == f"{best:.6g}"
    assert len(answer.q_values) == 16


def test_a_copy_keeps_its_step():
    problem = world()
    shorter = replace(problem, horizon=1)
    assert shorter.oracle is problem.oracle
    assert shorter.given_step is step
    other = replace(problem, sample_action=lambda x, rng: 0.25)
    assert other.given_step is step
    assert other.sampled_action(0.8, 7) == 0.25
    moved = replace(problem, oracle=lambda x, u, rng: (0.0, x))
    assert moved.given_step is not step
    assert moved.oracle is not moved.given_step


def test_an_agent_acts_in_the_worlds_terms_and_plays():
    agent = sc.Agent(world(), sc.BTS(action_widening=(4, 0.5)), budget=200, seed=3)
    action = agent.act(0.8)
    assert action == agent.problem.sampled_action(0.8, agent.action)
    assert isinstance(action, float)
    assert sc.play(agent, episodes=2, steps=3).decisions == 6


def test_methods_and_verbs_that_need_all_actions_refuse():
    runs = [sc.solve, lambda problem: sc.Certified(problem, delta=0.1)]
    for name in ("auto", "certified", "smoothcruiser", "paper", "exact"):
        promise = {"method": name, "epsilon": 0.1, "delta": 0.1}
        runs.append(functools.partial(sc.plan, **promise))
    for run in runs:
        with pytest.raises(sc.InvalidInput, match="needs a list of all actions"):
            run(world())


def test_a_sampled_list_proves_nothing():
    """The best of 64 samples is not the best of all actions."""
    problem = world(deterministic=True)
    with pytest.raises(sc.InvalidInput, match="solve=True needs a list of all action"):
        sc.Tree(problem, method=sc.UCT(solve=True))
    listed = mdp(operator=sc.Max(), deterministic=True)
    with pytest.raises(sc.InvalidInput, match="solve=True needs all actions of a nod"):
        sc.Tree(listed, method=sc.UCT(solve=True, action_widening=(1, 0.5)))


@pytest.mark.parametrize(
    "more, words",
    [
        ({"operator": sc.Entropy(0.1)}, r"operator=Max\(\) alone"),
        ({"legal": lambda s, a: True}, "legal= belongs to actions that are listed"),
        ({"actions": ["a", "b"]}, "actions= belongs"),
        ({"outcomes": lambda s, a: []}, "outcomes= belongs"),
        ({"sample_action": 3}, "sample_action must be a function"),
    ],
)
def test_what_does_not_go_with_a_sampler_is_refused(more, words):
    with pytest.raises(sc.InvalidInput, match=words):
        world(**more)


def test_actions_as_text():
    for action, text in (
        ((1, 2.5), "(1, 2.5)"),
        (np.arange(10), "(0, 1, 2, 3, 4, 5, 6, 7, …)"),
        ("go", "go"),
    ):
        assert world(sample_action=lambda x, rng, u=action: u).label(0.8, 0) == text


@numba.njit
def pair_step(x, u, rng):
    after = 0.5 * x[0] + 0.2 * u[0] + 0.1 * rng.random()
    return 1.0 / (1.0 + (u[0] - x[0]) ** 2 + u[1] ** 2), (after, x[1] + 1.0)


@numba.njit
def pair_sampler(x, rng):
    return rng.uniform(-1.0, 1.0), rng.normal()


def test_compiled_and_plain_trees_agree_on_sampled_tuples():
    """The engines, and a problem of plain functions: three times the same tree."""
    method = sc.UCT(action_widening=(2, 0.5), widening=(2, 0.25), depth=4)
    more = {"horizon": 4, "initial_state": (0.8, 0.0)}
    compiled = world(pair_step, pair_sampler, **more)
    roots = []
    for executor in ("compiled", "reference"):
        tree = sc.Tree(compiled, method=method, seed=1, executor=executor)
        roots.append(tree.grow(calls=1500).node(0))
    assert roots[0] == roots[1]
