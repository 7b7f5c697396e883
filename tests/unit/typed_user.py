"""A user's program that touches the public surface, for mypy (``test_types``).

It is checked, not run. ``assert_type`` fails where a result is Any, or another type. It
names every name of ``sc.__all__`` and every way in which a result leaves the library. Any
stands where it has to: a state is anything, ``rng`` too, JSON data are what they are, and
``to_frame`` returns a type of pandas, which need not be there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

import smoothcruiser as sc

Interval = tuple[float, float]
Rows = list[dict[str, Any]]


def step(state: int, action: int, rng: Any) -> tuple[float, int]:
    return float(rng.random() < 0.5), (state + action) % 3


def steps(
    states: NDArray[np.int64], actions: NDArray[np.int64], rng: Any
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return rng.random(len(states)), (states + actions) % 3


# operators
operators: list[sc.Operator] = [
    sc.Entropy(0.1),
    sc.KL(0.1, prior=(0.5, 0.5)),
    sc.Sparsemax(0.1),
    sc.SquareRoot(0.1),
    sc.Max(),
    sc.CustomOperator(lambda q: float(max(q)), lambda q: [1.0, 0.0], smooth=1.0),
]
assert_type(sc.check_operator(operators[0], num_actions=2).ok, bool)

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
assert_type(shop.labels(0), tuple[str, ...] | None)
assert_type(shop.legal_actions(0), list[int])
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
rows = sc.MDP(
    sc.batched(steps, backend="numpy", max_batch=1000),
    num_actions=2,
    discount=0.9,
    operator=sc.Max(),
)
assert_type(rows, sc.MDP)
assert_type(sc.adapters.Adapter.__name__, str)


# progress
def report(news: sc.Progress) -> bool:
    assert_type(news.price, int | None)
    assert_type(news.seconds_left, float | None)
    assert_type(news.interval, Interval | None)
    return news.seconds < 60


# one answer
answer = sc.plan(shop, epsilon="5%", delta=0.1, budget=1e6, seed=1, progress=report)
assert_type(answer, sc.Estimate)
assert_type(answer.interval, Interval | None)
assert_type(answer.policy, tuple[float, ...])
assert_type(answer.action_label, str | None)
assert_type(answer.notes, tuple[str, ...])
assert_type(answer.certificate, sc.Certificate | None)
if answer.certificate is not None:
    assert_type(answer.certificate.q_intervals, tuple[Interval, ...])

# methods as objects
methods = [
    sc.Auto(),
    sc.SmoothCruiser(),
    sc.SparseSampling(),
    sc.Paper(delta_prime=0.1),
    sc.CertifiedSearch(),
    sc.Exact(),
]
for method in methods:
    assert_type(sc.plan(shop, method=method), sc.Estimate)
searches = [sc.UCT(), sc.MENTS(), sc.RENTS(), sc.TENTS(), sc.BTS(), sc.DENTS()]
asking = [sc.PUCT(exploration=1.5), sc.Gumbel(), sc.UCT(solve=True, trees=2)]
for search in searches:
    assert_type(sc.plan(shop, method=search, simulations=10), sc.Estimate)

# many answers
answers = sc.plan_many(shop, [0, 1], epsilon=0.1, delta=0.1, method="certified")
assert_type(answers, sc.Estimates)
assert_type(answers[0], sc.Estimate)
assert_type([one.value for one in answers], list[float])

# before and beside
plan = sc.explain(chain, epsilon=0.1, delta=0.1)
assert_type(plan, sc.Schedule)
assert_type(plan.num_calls, int)
assert_type(plan.levels, tuple[sc.Level, ...])
assert_type(plan.root, sc.Root)
assert_type(plan.levels[0].kind == sc.Kind.CONSTANT, bool)
assert_type(sc.run(chain, plan, seed=1), sc.Estimate)
forecast = sc.explain(chain, method="certified", epsilon=0.1, delta=0.1)
assert_type(forecast.num_calls, int | None)
assert_type(forecast.to_json(), str)
ready = sc.prepare(shop, epsilon=0.1, delta=0.1)
assert_type(ready, sc.Prepared)
assert_type(ready.run(), sc.Estimate)
solution = sc.solve(chain, tolerance=1e-8, method="policy-iteration", max_sweeps=1000)
assert_type(solution, sc.Solution)
assert_type(solution.values, NDArray[np.float64])
assert_type(solution.policy, NDArray[np.float64])
assert_type(solution.index(0), int)
worth = sc.evaluate(shop, lambda state: (0.5, 0.5), epsilon=0.1, delta=0.1)
distance = sc.gap(shop, lambda state: (0.5, 0.5), epsilon=0.1, delta=0.1, seed=1)
assert_type(distance, sc.Gap)
assert_type(distance.regret, float)
followed = sc.plan(shop, method=sc.GapMethod(inner=8), budget=10_000, delta=0.1)
assert_type(worth, sc.Estimate)
assert_type(sc.calibrate(shop), float)
check = sc.check(shop, epsilon="10%")
assert_type(check, sc.Check)
assert_type(check.ok, bool)
assert_type([finding.sentence for finding in check.findings], list[str])

# searches to hold on to
memory = sc.Certified(shop, delta=0.1, seed=1, max_states=1000, workers=2)
assert_type(memory, sc.Certified)
assert_type(memory.query(0, epsilon=0.1, progress=report), sc.Estimate)
assert_type(memory.save(Path("memory.db")), int)
assert_type(sc.Certified.load("memory.db", shop), sc.Certified)
assert_type(memory.table().at(0).interval, Interval)
assert_type([row.value for row in memory.table()], list[float])
tree = sc.Tree(shop, method=sc.UCT(exploration=1.0), seed=1).grow(calls=1000)
assert_type(tree, sc.Tree)
assert_type(tree.estimate(), sc.Estimate)
assert_type(tree.policy(), list[float])
assert_type(tree.action(), int)

# agents, comparisons, stored runs
agent = sc.Agent(shop, sc.UCT(), budget=1000, progress=True)
assert_type(agent, sc.Agent)
assert_type(agent.decide(0), int)
assert_type(agent.estimate, sc.Estimate | None)
assert_type(agent.policy(0), tuple[float, ...])
played = sc.play(agent, episodes=3, progress=report)
assert_type(played, sc.Summary)
assert_type(played.actions, dict[str, int])
runs = sc.compare(chain, budgets=[1000], methods=["uct", "certified"], progress=True)
assert_type(runs, sc.Comparison)
assert_type(runs[0].error, float | None)
assert_type(sc.resume(1, "runs.db", shop, seconds=1.0), sc.Estimate)

# what shows itself: nine objects and more
shown = [
    *(answer, plan, ready, solution, check, runs, tree, memory, shop),
    *(answers, played, answer.certificate, memory.table()),
]
for thing in (answer, plan, ready, solution, check, runs, tree, memory, shop, played):
    assert_type(thing.summary(), str)
    assert_type(thing.summary(width=100), str)
    assert_type(thing._repr_html_(), str)
assert_type(sc.report(answer, "answer.html", problem=shop, exact=answer), Path)
assert_type(sc.view(tree), str)
assert_type(sc.view(tree, "tree.html", depth=2, width=4), Path)

# tables
for framed in (answer, answers, solution, runs, memory, memory.table(), check):
    assert_type(framed.records(), Rows)
    framed.to_frame()

# JSON
writers: list[Callable[[], dict[str, Any]]] = [
    *(answer.to_dict, answers.to_dict, plan.to_dict, solution.to_dict),
    *(check.to_dict, runs.to_dict, played.to_dict, memory.table().to_dict),
]
assert_type(writers[0](), dict[str, Any])
assert_type(answer.to_json(indent=2), str)
assert_type(sc.Estimate.from_json(answer.to_json()), sc.Estimate)
assert_type(sc.Estimate.from_dict(answer.to_dict()), sc.Estimate)
assert_type(sc.Estimates.from_json(answers.to_json()), sc.Estimates)
assert_type(sc.Schedule.from_json(plan.to_json()), sc.Schedule)
assert_type(sc.Schedule.from_dict(plan.to_dict(), facts=chain.facts), sc.Schedule)
assert_type(sc.Solution.from_json(solution.to_json()), sc.Solution)
assert_type(sc.Check.from_json(check.to_json()), sc.Check)
assert_type(sc.Comparison.from_json(runs.to_json()), sc.Comparison)
assert_type(sc.Summary.from_json(played.to_json()), sc.Summary)
assert_type(
    memory.table().from_json(memory.table().to_json())[0].samples, tuple[int, ...]
)
assert_type(sc.schema("estimate"), dict[str, Any])

# pictures
axes = answer.plot()
assert_type(axes, Axes)
assert_type(answer.plot(ax=axes), Axes)
assert_type(plan.plot(against="epsilon"), Axes)
assert_type(runs.plot(axes, of="value"), Axes)
assert_type(memory.plot(state=0), Axes)
assert_type(solution.plot(shape=(1, 5)), Axes)

# errors
try:
    sc.plan(shop, epsilon=1e-9, delta=0.1)
except sc.Unpayable as error:
    assert_type(error, sc.Unpayable)
except (sc.InvalidInput, sc.OracleError, sc.MissingExtra, sc.StoreError) as error:
    assert_type(str(error), str)
except (sc.WorkersLost, sc.BrokenPromise) as error:
    raise RuntimeError("no answer") from error
except sc.SmoothcruiserError as error:
    assert_type(error, sc.SmoothcruiserError)
