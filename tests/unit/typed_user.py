"""A user's program that touches the public surface, for mypy (``test_types``).

It is checked, not run. ``assert_type`` fails where a result is Any, or another type.
"""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import smoothcruiser as sc

Interval = tuple[float, float]


def step(state: int, action: int, rng: Any) -> tuple[float, int]:
    return float(rng.random() < 0.5), (state + action) % 3


# problems
shop = sc.MDP(
    step,
    actions=["wait", "buy"],
    discount=0.9,
    operator=sc.Entropy(0.1),
    reward_range=(0.0, 1.0),
    initial_state=0,
)
assert_type(shop, sc.MDP)
assert_type(shop.num_actions, int)
assert_type(shop.labels(0), tuple[str, ...] | None)
game = sc.Game(
    step,
    player=lambda state: 1 + state % 2,
    alternating=False,
    num_actions=2,
    discount=0.9,
    operator=sc.Max(),
)
assert_type(game, sc.Game)
table = sc.tabular(
    np.full((2, 2, 2), 0.5), np.zeros((2, 2)), discount=0.5, operator=sc.Max()
)
assert_type(table, sc.Problem)
chain = sc.make("chain:n=5", discount=0.5, temperature=1.0, actions=["back", "on"])
assert_type(chain, sc.Problem)

# one answer
answer = sc.plan(shop, epsilon="5%", delta=0.1, budget=1e6, seed=1)
assert_type(answer, sc.Estimate)
assert_type(answer.value, float)
assert_type(answer.interval, Interval | None)
assert_type(answer.q_values, tuple[float, ...])
assert_type(answer.policy, tuple[float, ...])
assert_type(answer.action, int | None)
assert_type(answer.action_label, str | None)
assert_type(answer.labels, tuple[str, ...] | None)
assert_type(answer.label(0), str)
assert_type(answer.num_calls, int)
assert_type(answer.certificate, sc.Certificate | None)
assert_type(answer.to_json(), str)
if answer.certificate is not None:
    assert_type(answer.certificate.confidence, float)
    assert_type(answer.certificate.q_intervals, tuple[Interval, ...])
    assert_type(answer.certificate.best_actions, tuple[int, ...] | None)

# many answers
answers = sc.plan_many(shop, [0, 1], epsilon=0.1, delta=0.1, method="certified")
assert_type(answers, sc.Estimates)
assert_type(answers[0], sc.Estimate)

# before and beside
plan = sc.explain(chain, epsilon=0.1, delta=0.1)
assert_type(plan, sc.Schedule)
assert_type(plan.num_calls, int)
assert_type(plan.levels, tuple[sc.Level, ...])
forecast = sc.explain(chain, method="certified", epsilon=0.1, delta=0.1)
assert_type(forecast.num_calls, int | None)
ready = sc.prepare(shop, epsilon=0.1, delta=0.1)
assert_type(ready.run(), sc.Estimate)
assert_type(ready.notes, tuple[str, ...])
solution = sc.solve(chain, tolerance=1e-8, method="policy-iteration", max_sweeps=1000)
assert_type(solution, sc.Solution)
assert_type(solution.values, NDArray[np.float64])
assert_type(solution.policy, NDArray[np.float64])
assert_type(solution.residual_bound, float)
assert_type(solution.index(0), int)
worth = sc.evaluate(shop, lambda state: (0.5, 0.5), epsilon=0.1, delta=0.1)
assert_type(worth, sc.Estimate)
assert_type(sc.calibrate(shop), float)
assert_type(sc.check(shop).ok, bool)

# searches to hold on to
memory = sc.Certified(shop, delta=0.1, seed=1, max_states=1000, workers=2)
assert_type(memory, sc.Certified)
assert_type(memory.query(0, epsilon=0.1), sc.Estimate)
assert_type(memory.save(Path("memory.db")), int)
assert_type(sc.Certified.load("memory.db", shop), sc.Certified)
tree = sc.Tree(shop, method=sc.UCT(exploration=1.0), seed=1).grow(calls=1000)
assert_type(tree, sc.Tree)
assert_type(tree.estimate(), sc.Estimate)
assert_type(tree.policy(), list[float])

# agents, comparisons, stored runs
agent = sc.Agent(shop, sc.UCT(), budget=1000)
assert_type(agent, sc.Agent)
assert_type(agent.decide(0), int)
assert_type(agent.action_label, str | None)
assert_type(agent.policy(0), tuple[float, ...])
summary = sc.play(agent, episodes=3)
assert_type(summary.mean_return, float)
assert_type(summary.actions, dict[str, int])
runs = sc.compare(chain, budgets=[1000], methods=["uct", "certified"])
assert_type(runs[0].value, float | None)
assert_type(runs[0].error, float | None)
assert_type(sc.resume(1, "runs.db", shop, seconds=1.0), sc.Estimate)
try:
    sc.plan(shop, epsilon=1e-9, delta=0.1)
except sc.Unpayable as error:
    assert_type(error, sc.Unpayable)
