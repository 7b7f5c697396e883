"""The verbs: ``plan`` an answer, ``explain`` and ``prepare`` it before, ``solve`` exactly,
``evaluate`` a policy. Keywords become a Query, and a method answers it:

    keywords -> Query -> Method -> Prepared -> Estimate

``method="auto"`` solves a model that is known; a simulator it samples briefly, and then
runs certified search, the sharp schedule, or one after the other, whichever keeps the
promise for less (docs/auto.md). Its ``notes`` have the choice and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from smoothcruiser.estimate import Estimate
from smoothcruiser.methods import resolve
from smoothcruiser.methods.base import (
    Explanation,
    Method,
    Prepared,
    last_report,
    prepare_answer,
    refuse_unused,
    run_request,
)
from smoothcruiser.problem.action_sampler import refuse_sampled
from smoothcruiser.problem.adapter_protocol import live_problem
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, finish, show_bar
from smoothcruiser.query import (
    KEYWORDS,
    PlanKeywords,
    Query,
    check_problem,
    named_keywords,
    remark_on_delta,
)

if TYPE_CHECKING:
    from smoothcruiser.estimate import Estimates
    from smoothcruiser.exact.solution import Solution
    from smoothcruiser.schedule.schedule import Schedule
    from smoothcruiser.tree.search_rules import Search
else:  # imported by whoever needs them; so ``typing.get_type_hints`` finds a name
    Estimates = Schedule = Search = Solution = Any

# methods that follow a schedule, and ways to solve a known model
Scheduled = Literal["smoothcruiser", "paper", "sparse-sampling"]
Solver = Literal[
    "auto", "value-iteration", "policy-iteration", "modified-policy-iteration"
]

# the keywords of ``plan`` that ``evaluate`` takes
EVALUATES = frozenset(
    ("epsilon", "delta", "budget", "seconds", "seed", "executor", "progress")
)


def _problem_of(verb: str, problem: Any, keywords: Any) -> tuple[Problem, Any]:
    """The problem, made of a running environment where one was passed."""
    if isinstance(problem, Problem):
        return problem, keywords
    return live_problem(f"{verb} takes", problem, keywords)


def checked_query(
    problem: Problem, state: Any, keywords: Any
) -> tuple[Query, Callable[[Estimate], Estimate]]:
    """The request, and the function that turns its answer into that of ``problem``."""
    if not isinstance(problem, Problem) or None not in problem.reward_range:
        return Query.of(problem, state, **keywords), lambda estimate: estimate
    from smoothcruiser.methods.unbounded_rewards import capped_query

    check_keywords("plan", keywords, KEYWORDS)
    return capped_query(problem, state, keywords)


@named_keywords
def plan(
    problem: Problem,
    state: Any = None,
    *,
    method: str | Method | Search = "auto",
    options: dict[str, Any] | None = None,
    delta_prime: float | None = None,
    certify: bool = False,
    **keywords: Unpack[PlanKeywords],
) -> Estimate:
    """The value of ``state`` and of its actions, as exact and as sure as requested.

    The result is the same to the last bit for any number of workers. An option that
    the method does not use is refused.

    >>> import smoothcruiser as sc
    >>> problem = sc.make("chain:n=5", discount=0.2, temperature=1.0)
    >>> answer = sc.plan(problem, epsilon="10%", delta=0.1, method="smoothcruiser")
    >>> answer.interval[0] <= sc.plan(problem).value <= answer.interval[1]
    True

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``, or a running
            environment that an adapter accepts, then with ``discount`` and ``operator``.
        state: where to plan; by default the problem's initial state.
        method: a name or a method object such as ``UCT(exploration=2)``.
        options: parameters of the method, by name.
        delta_prime: the paper's confidence per node, for method "paper".
        certify: let a tree search spend half of its budget on a lower bound.
        epsilon: half-width of the promise, in units of value, as a share of the value
            span such as "5%", or as a share of the value itself such as "2% of value"
            (certified search; others where the bounds on V exclude 0).
        delta: allowed probability that the promise fails, such as 0.1 or "10%".
        target: promise all "q_values" (default), or the "value" alone.
        budget: most oracle calls to pay; by default 10**9, 10**6 for a tree search. A
            schedule above the default is refused. Below the price of epsilon, or
            without one, a budget of your own gets the best promise that it pays for.
        seconds: stop after so long, with the answer so far; compiling does not count. A
            schedule is chosen to fit: for that the simulator is timed in this process,
            for at most 5% of them. These calls are counted.
        simulations: stop a tree search after so many.
        max_states: most states that certified search keeps; by default as many as fit
            in half of the memory that is available.
        seed: of the random numbers; the same seed, the same answer.
        executor: "compiled", "python", "batched", "processes", "dask" or "reference";
            by default the fastest that can.
        workers: threads, processes or cluster workers; by default all cores.
        scheduler: address of a Dask cluster, for executor "dask".
        tls: files of the CA, of a certificate and of its key, for a scheduler that
            asks for certificates.
        shards: parts that an action's samples are cut into, for slow simulators.
        store: a file that keeps finished shards, or the memory of certified search, for
            ``resume``.
        progress: True for a bar, or a function that gets a ``Progress`` now and then
            and may return False to stop with the answer so far (docs/progress.md).
    """
    problem, keywords = _problem_of("plan", problem, keywords)
    query, widen = checked_query(problem, state, keywords)
    if query.state is None:
        problem.start(None)  # refuses: nobody has named a state
    chosen_method = resolve(method, options, delta_prime=delta_prime, certify=certify)
    return widen(run_request(chosen_method, query))


@named_keywords
def plan_many(
    problem: Problem,
    states: Iterable[Any],
    *,
    method: str | Method | Search = "auto",
    options: dict[str, Any] | None = None,
    delta_prime: float | None = None,
    certify: bool = False,
    **keywords: Unpack[PlanKeywords],
) -> Estimates:
    """The values of many states: all promises hold together with probability 1 - delta.

    Certified search keeps one memory for all of them, so that shared states are
    sampled once. A known model is solved once. Other methods plan each of n states
    with delta/n. "auto" decides once, by the first state. A state that is
    listed twice is planned once; one that no limit reached has the interval that
    the rewards allow, with a note.

    >>> import smoothcruiser as sc
    >>> problem = sc.make("chain:n=5", discount=0.2, temperature=1.0)
    >>> answers = sc.plan_many(problem, [0, 1, 4], epsilon="10%", delta=0.1)
    >>> len(answers), answers[2].state, answers.num_calls
    (3, 4, 0)

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``.
        states: where to plan, in the order of the answers.
        method: a name or a method object.
        options: parameters of the method, by name.
        delta_prime: the paper's confidence per node, for method "paper": each state
            has all of it.
        certify: let a tree search spend half of its budget on a lower bound.
        **keywords: the keywords of ``plan`` but ``store``. ``delta``, ``budget`` and
            ``seconds`` are for all states together.
    """
    from smoothcruiser.methods.many import plan_all

    problem, keywords = _problem_of("plan_many", problem, keywords)
    check_keywords("plan_many", keywords, KEYWORDS)
    query = Query.of(problem, None, **keywords)
    chosen_method = resolve(method, options, delta_prime=delta_prime, certify=certify)
    return plan_all(chosen_method, query, states)


@named_keywords
def prepare(
    problem: Problem,
    state: Any = None,
    *,
    method: str | Method | Search = "auto",
    options: dict[str, Any] | None = None,
    delta_prime: float | None = None,
    certify: bool = False,
    **keywords: Unpack[PlanKeywords],
) -> Prepared:
    """A prepared answer: ``.explanation``, ``.notes`` and ``.run()``.

    No oracle call is made, except by the pilot of "auto" and to measure the speed for
    ``seconds``; both are counted. ``.explanation`` is the result of ``explain``,
    ``.run()`` returns that of ``plan``.

    >>> import smoothcruiser as sc
    >>> problem = sc.make("chain:n=5", discount=0.2, temperature=1.0)
    >>> ready = sc.prepare(problem, epsilon="10%", delta=0.1)
    >>> ready.method.name, ready.explanation.num_calls
    ('exact', 0)

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``.
        state: where to plan; by default the problem's initial state.
        method: a name or a method object.
        options: parameters of the method, by name.
        delta_prime: the paper's confidence per node, for method "paper".
        certify: let a tree search spend half of its budget on a lower bound.
        **keywords: the keywords of ``plan``.
    """
    problem, keywords = _problem_of("prepare", problem, keywords)
    query = Query.of(problem, state, **keywords)
    chosen_method = resolve(method, options, delta_prime=delta_prime, certify=certify)
    with show_bar(query.progress):
        return prepare_answer(chosen_method, query)


@overload
def explain(
    problem: Problem,
    state: Any = None,
    *,
    method: Scheduled = "smoothcruiser",
    options: None = None,
    delta_prime: float | None = None,
    **keywords: Unpack[PlanKeywords],
) -> Schedule: ...


@overload
def explain(
    problem: Problem,
    state: Any = None,
    *,
    method: str | Method | Search = "smoothcruiser",
    options: dict[str, Any] | None = None,
    delta_prime: float | None = None,
    **keywords: Unpack[PlanKeywords],
) -> Explanation: ...


@named_keywords
def explain(
    problem: Problem,
    state: Any = None,
    *,
    method: str | Method | Search = "smoothcruiser",
    options: dict[str, Any] | None = None,
    delta_prime: float | None = None,
    **keywords: Unpack[PlanKeywords],
) -> Schedule | Explanation:
    """The plan that ``plan`` would run, with its price; ``str`` shows it.

    Nothing is sampled, except by the pilot of "auto" and to measure the speed for
    ``seconds``.

    For a method that follows a schedule this is the Schedule: ``.num_calls``,
    ``.levels``, ``.epsilon``, ``.delta``. For others it is a forecast with
    ``.num_calls`` (None where it depends on the problem). With "auto" it explains the
    method that ``plan`` would choose.

    >>> import smoothcruiser as sc
    >>> problem = sc.make("chain:n=5", discount=0.2, temperature=1.0)
    >>> sc.explain(problem, epsilon="10%", delta=0.1).num_calls
    1896

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``.
        state: where to plan; by default the problem's initial state.
        method: a name or a method object.
        options: parameters of the method, by name.
        delta_prime: the paper's confidence per node, for method "paper".
        **keywords: the keywords of ``plan``. With ``budget`` or ``seconds`` it is the
            schedule that they pay for; ``prepare`` has the note that says so.
    """
    problem, keywords = _problem_of("explain", problem, keywords)
    check_keywords("explain", keywords, KEYWORDS)
    query, _ = checked_query(problem, state, keywords)
    chosen_method = resolve(method, options, delta_prime=delta_prime)
    with show_bar(query.progress):
        explanation: Schedule | Explanation = prepare_answer(
            chosen_method, query
        ).explanation
    return explanation


@named_keywords
def solve(
    problem: Problem,
    *,
    tolerance: float | None = None,
    method: Solver = "auto",
    max_sweeps: int | None = None,
    progress: bool | Callback | None = None,
) -> Solution:
    """The exact solution of a known model: ``.values .q_values .policy .residual_bound``.

    The problem has tables, or ``outcomes=`` over finitely many hashable states; then
    those that can be reached from ``initial_state`` are solved.

    >>> import smoothcruiser as sc
    >>> chain = sc.make("chain:n=5", discount=0.9, operator="max")
    >>> solution = sc.solve(chain)
    >>> round(float(solution.values[0]), 4)  # one reward, after three steps
    0.729
    >>> solution.residual_bound < 1e-9
    True

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``.
        tolerance: bound on the error of all values, in units of reward; it is met or
            the call raises. By default 1e-10 of the span of rewards is aimed at.
        method: "auto" (the default), "value-iteration", "policy-iteration" or
            "modified-policy-iteration".
        max_sweeps: most passes over the transitions; by default there is no limit.
        progress: True for a bar, or a function that gets a ``Progress``. Where it returns
            False, and at Ctrl-C, the Solution has the bound that the sweeps so far prove.
    """
    from smoothcruiser.exact import solve as solve_exactly

    check_problem(problem)
    refuse_sampled(problem, "solve")
    return solve_exactly(
        problem,
        tolerance=tolerance,
        method=method,
        max_sweeps=max_sweeps,
        progress=progress,
    )


@named_keywords
def evaluate(
    problem: Problem,
    policy: Any,
    state: Any = None,
    *,
    value: Any = None,
    **keywords: Unpack[PlanKeywords],
) -> Estimate:
    """The certified value of a given policy, by fresh rollouts.

    For an MDP the lower end of its interval is a lower bound on V(state).

    >>> import smoothcruiser as sc
    >>> chain = sc.make("chain:n=5", discount=0.5, operator="max")
    >>> always_right = lambda state: "right"
    >>> low, high = sc.evaluate(chain, always_right, epsilon=0.05).interval
    >>> low <= 0.125 <= high  # one reward, after three steps
    True

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``.
        policy: a function of the state that returns an action, its label, or
            probabilities (a list, or a dict from actions); a dict from states to these; a
            list or an array by state: of actions, of rows of probabilities or of action
            values; an object with ``predict``, ``act`` or ``select_action``; a Solution,
            a search Tree, an Estimate, an Agent. A function of (state, rng) may sample.
        state: where episodes begin; by default the problem's initial state.
        value: a guess of the policy's values, which makes the interval narrower and
            cannot make it wrong: a function of the state or of (state, steps_left), a
            dict or an array by state, a Solution, a Certified, ``sc.batched(function)``,
            an object with ``predict``, or a number.
        epsilon: half-width to stop at, a number or a share of the value span ("5%").
        delta: probability that the interval fails; 0.05 by default.
        budget: most oracle calls; where no limit is given a million, in plain Python
            100,000.
        seconds: stop after so long; compiling does not count.
        seed: of the rollouts; the same seed, the same answer.
        executor: "compiled" or "reference"; by default compiled code where it can.
        progress: as in ``plan``.
    """
    from smoothcruiser.evaluation import evaluate as evaluation

    problem, keywords = _problem_of("evaluate", problem, keywords)
    check_keywords("evaluate", keywords, KEYWORDS)
    start_state = evaluation.start_of(policy, state)
    query, widen = checked_query(problem, start_state, keywords)
    if not query.given <= EVALUATES:
        refuse_unused("evaluate", query, EVALUATES)
    with show_bar(query.progress):
        estimate = widen(evaluation.evaluate(query, policy, value))
        delta_remark = remark_on_delta(query.promise.delta)
        if delta_remark is not None:
            estimate = replace(estimate, notes=(*estimate.notes, delta_remark))
        if query.progress is not None:
            finish(query.progress, **last_report(estimate))
    return estimate


@named_keywords
def calibrate(
    problem: Problem, state: Any = None, *, executor: str | None = None
) -> float:
    """Oracle calls per second of one core, measured for about 0.3 s without compiling.

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``.
        state: where to measure; by default the problem's initial state.
        executor: which engine is timed; by default the fastest that can.
    """
    from smoothcruiser.engines.calibrate import calls_per_second

    check_problem(problem)
    return calls_per_second(problem, problem.start(state), executor).rate
