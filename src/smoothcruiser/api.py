"""The verbs: ``explain`` a promise, ``plan`` it, ``solve`` exactly. Data flows
one way: problem, schedule, executor, estimate.

``method="auto"`` takes the exact solution where the model is known (no calls,
no doubt), the sharp schedule where the promise can be paid, certified search
where it cannot and states can be told apart; it says in ``notes`` what it chose
and why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.estimate import Certificate, Estimate, best_action
from smoothcruiser.methods.scheduled import run
from smoothcruiser.problem.arguments import check_seconds, check_seed, is_number
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import check_recognizable
from smoothcruiser.schedule.numbers import short
from smoothcruiser.schedule.schedule import Schedule, Target
from smoothcruiser.tree.searches import (
    TREE_SEARCHES,
    Search,
    is_tree_search,
    tree_search,
)

if TYPE_CHECKING:
    from smoothcruiser.certified.explain import Outlook

DEFAULT_BUDGET = 10**9  # calls; minutes at the speed of the compiled engine
SCHEDULED = ("smoothcruiser", "paper", "sparse-sampling")
METHODS = ("auto", *SCHEDULED, "certified", "exact", *TREE_SEARCHES)


@overload
def explain(  # type: ignore[overload-overlap]
    problem: Problem,
    *,
    epsilon: float | str,
    delta: float | None = ...,
    method: Literal["certified"],
    budget: int | None = ...,
    target: Target = ...,
    delta_prime: float | None = ...,
) -> Outlook: ...
@overload
def explain(
    problem: Problem,
    *,
    epsilon: float | str,
    delta: float | None = ...,
    method: str = ...,
    budget: int | None = ...,
    target: Target = ...,
    delta_prime: float | None = ...,
) -> Schedule: ...
def explain(
    problem: Problem,
    *,
    epsilon: float | str,
    delta: float | None = None,
    method: str = "auto",
    budget: int | None = None,
    target: Target = "q_values",
    delta_prime: float | None = None,
) -> Schedule | Outlook:
    """The cheapest schedule that keeps the promise, with its price; nothing is sampled.

    With ``budget`` an unpayable plan is refused, with what can be paid instead.
    For method "certified", whose price depends on the problem, an ``Outlook``:
    what is known before the run.
    """
    if method == "certified":
        from smoothcruiser.certified.explain import Outlook

        _check_problem(problem)
        return Outlook(
            problem.facts,
            parse_epsilon(epsilon, problem.facts),
            check_delta(delta),
            problem.inspection_calls,
        )
    try:
        schedule = _schedule(
            problem, _scheduled_method(method), epsilon, delta, target, delta_prime
        )
        if budget is not None:
            _afford(problem, schedule, check_budget(budget))
    except Unpayable:
        # plan solves it, or has to be told where
        known = problem.tables is not None or problem.initial_state is None
        if (
            method != "auto"
            or known
            or not _recognizable(problem, problem.initial_state)
        ):
            raise
        # what plan would run
        return explain(problem, epsilon=epsilon, delta=delta, method="certified")
    return schedule


def plan(
    problem: Problem,
    state: Any = None,
    *,
    epsilon: float | str | None = None,
    delta: float | None = None,
    method: str | Search = "auto",
    target: Target = "q_values",
    seed: int = 0,
    executor: str | None = None,
    workers: int | None = None,
    budget: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Any], object] | None = None,
    delta_prime: float | None = None,
    shards: int | None = None,
    scheduler: str | None = None,
    store: str | Path | None = None,
    announce: Callable[[Schedule], object] | None = None,
    simulations: int | None = None,
    certify: bool = False,
    options: dict[str, Any] | None = None,
) -> Estimate:
    """The value of ``state`` and of its actions, within ``epsilon`` with
    probability 1 - ``delta`` where the method promises.

    A tree search spends ``budget`` calls, ``seconds`` or ``simulations``, takes
    its parameters as ``options``, and promises nothing; ``certify`` spends half
    on a lower bound on the value.

    ``epsilon`` is a number or a share of the value span such as "5%". The
    result is the same to the last bit for any ``workers``. ``announce`` is told
    the schedule, and so its price, before the first call; ``progress`` is told
    of the calls made so far.
    """
    _check_problem(problem)
    check_method(method)
    seed = check_seed(seed)
    check_seconds(seconds)
    _check_workers(executor, workers, shards)
    if epsilon is not None:
        parse_epsilon(epsilon, problem.facts)
    if delta is not None:
        check_delta(delta)
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    state = problem.start(state)
    paid = check_budget(DEFAULT_BUDGET if budget is None else budget)
    if problem.is_terminal(state):
        from smoothcruiser.engines.answer import terminal_answer

        return terminal_answer(
            problem, state, method.name if isinstance(method, Search) else method
        )
    if is_tree_search(method):
        from smoothcruiser.methods.tree import plan_tree

        answer = plan_tree(
            problem,
            state,
            tree_search(method, options),
            seed=seed,
            executor=executor,
            budget=None if budget is None else paid,
            seconds=seconds,
            simulations=simulations,
            certify=certify,
            delta=None if delta is None else check_delta(delta),
            progress=progress,
        )
        given = {
            "epsilon": epsilon,
            "target": None if target == "q_values" else target,
            "store": store,
            "shards": shards,
        }
        given |= {
            "workers": None if workers == 1 else workers,
            "scheduler": scheduler,
            "delta_prime": delta_prime,
        }
        given |= {"delta": None if certify else delta}
        idle = [f"{name}=" for name, value in given.items() if value is not None]
        if idle:
            told = (
                f"{', '.join(idle)} not used: a tree search promises nothing and "
                "grows one tree on one thread."
            )
            answer = replace(answer, notes=(*answer.notes, told))
        return answer
    if certify or simulations is not None or options:
        raise InvalidInput(
            "certify=, simulations= and options= belong to tree searches (uct, ments, "
            "...); the others count calls and have promises "
            "of their own. evaluate(problem, policy) certifies any policy from below."
        )
    assert isinstance(method, str)
    chosen, why = choose(problem, method, state, epsilon, delta, target, paid)
    if chosen == "exact":
        return _exact(problem, state, why)
    if chosen == "certified":
        return _certified(
            problem,
            state,
            epsilon,
            delta,
            target,
            seed,
            budget,
            paid,
            seconds,
            progress,
            why,
            executor,
            workers,
            scheduler,
        )
    schedule = _schedule(problem, chosen, epsilon, delta, target, delta_prime)
    _afford(problem, schedule, paid)
    if announce is not None:
        announce(schedule)
    return run(
        problem,
        schedule,
        state,
        seed=seed,
        executor=executor,
        workers=workers,
        seconds=seconds,
        progress=progress,
        shards=shards,
        scheduler=scheduler,
        store=store,
        notes=why,
    )


def solve(problem: Problem, **options: Any) -> Any:
    """The exact values, action values and policy of a problem with a known
    model, with a proven error bound.
    """
    from smoothcruiser.exact import solve as solve_exactly

    _check_problem(problem)
    return solve_exactly(problem, **options)


def evaluate(
    problem: Problem,
    policy: Any,
    state: Any = None,
    *,
    epsilon: float | str | None = None,
    delta: float | None = None,
    budget: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    executor: str | None = None,
) -> Estimate:
    """The certified value of a given policy by fresh rollouts; for an MDP its
    lower end is a lower bound on V(state).

    ``policy`` is a function state -> probabilities, an array (S, A), a
    Solution, a search Tree, an Estimate, or an agent's ``policy``. Without
    ``delta`` it is 0.05; without any limit a million calls are made.
    """
    from smoothcruiser.evaluation.evaluate import evaluate as evaluate_policy

    _check_problem(problem)
    width = None if epsilon is None else parse_epsilon(epsilon, problem.facts)
    return evaluate_policy(
        problem,
        policy,
        state,
        epsilon=width,
        delta=delta,
        budget=budget,
        seconds=seconds,
        seed=seed,
        executor=executor,
    )


def calibrate(
    problem: Problem, state: Any = None, *, executor: str | None = None
) -> float:
    """Oracle calls a second of one core on this problem, measured for about 0.3
    s (compiling not counted).
    """
    from smoothcruiser.engines.calibrate import calls_per_second

    _check_problem(problem)
    return calls_per_second(problem, problem.start(state), executor)


# --- choosing -----------------------------------------------------------------


def choose(
    problem: Problem,
    method: str,
    state: Any,
    epsilon: float | str | None,
    delta: float | None,
    target: Target,
    budget: int,
) -> tuple[str, tuple[str, ...]]:
    """The method to run, and why if the choice was ours."""
    if method != "auto":
        return method, ()
    if problem.tables is not None:
        return "exact", (
            (
                "auto chose exact: the model is known as tables, so no sampling is "
                "needed and delta is 0."
            ),
        )
    if epsilon is None or delta is None:
        return "smoothcruiser", ()  # _schedule asks for what is missing
    try:
        price = _schedule(
            problem, "smoothcruiser", epsilon, delta, target, None
        ).num_calls
        if price + problem.inspection_calls <= budget:
            return "smoothcruiser", (
                (
                    "auto chose smoothcruiser: its schedule keeps the promise for "
                    f"{price:,} calls."
                ),
            )
        told = f"the sharp schedule would cost {short(price)} calls"
    except (InvalidInput, Unpayable) as error:
        told = f"no sharp schedule ({error})"
    if _recognizable(problem, state):
        return "certified", (
            f"auto chose certified search: {told}, and states can be told apart.",
        )
    return "smoothcruiser", ()


def _recognizable(problem: Problem, state: Any) -> bool:
    """Whether certified search would know the state again."""
    try:
        check_recognizable(state, problem.key_of(state))
    except InvalidInput:
        return False
    return True


def check_method(method: str | Search) -> None:
    """Refuse what is no method."""
    if isinstance(method, type) and issubclass(method, Search):
        raise InvalidInput(
            "method is a class; give an object with its parameters, "
            f"{method.__name__}(), or its name, {method.name!r}."
        )
    if not isinstance(method, Search) and method not in METHODS:
        near = [
            name
            for name in METHODS
            if isinstance(method, str) and name == method.lower().replace("_", "-")
        ]
        if near:
            raise InvalidInput(f"Unknown method {method!r}; did you mean {near[0]!r}?")
        raise InvalidInput(
            f"Unknown method {method!r}; choose one of {', '.join(METHODS)}."
        )


def _scheduled_method(method: str) -> str:
    check_method(method)
    if method == "auto":
        return "smoothcruiser"
    if method not in SCHEDULED:
        raise InvalidInput(
            f"{method} follows no schedule, so its price is not known before the "
            f"run; explain takes {', '.join(SCHEDULED)}."
        )
    return method


def _schedule(
    problem: Problem,
    method: str,
    epsilon: float | str | None,
    delta: float | None,
    target: Target,
    delta_prime: float | None,
) -> Schedule:
    _check_problem(problem)
    facts = problem.facts
    width = parse_epsilon(epsilon, facts)
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    if method == "paper":
        from smoothcruiser.schedule.paper import paper_schedule

        if (delta is None) == (delta_prime is None):
            raise InvalidInput(
                "paper mode needs delta (--delta) or delta_prime (--delta-prime), "
                "one of the two."
            )
        return paper_schedule(
            facts,
            epsilon=width,
            delta=None if delta is None else check_delta(delta),
            delta_prime=delta_prime,
        )
    if delta_prime is not None:
        raise InvalidInput(
            "delta_prime (--delta-prime) belongs to method 'paper'; for others "
            "give delta (--delta)."
        )
    from smoothcruiser.schedule.compiler import optimizer

    make = (
        optimizer.sparse_sampling
        if method == "sparse-sampling"
        else optimizer.compile_schedule
    )
    return make(facts, epsilon=width, delta=check_delta(delta), target=target)


def parse_epsilon(epsilon: float | str | None, facts: Facts) -> float:
    """Epsilon as a number; "5%" is five percent of the value span B."""
    if isinstance(epsilon, str):
        text = epsilon.strip()
        try:
            epsilon = (
                float(text[:-1]) / 100.0 * facts.value_span()
                if text.endswith("%")
                else float(text)
            )
        except ValueError:
            raise InvalidInput(
                "epsilon must be a number above 0 or a percentage such as 5%, got "
                f"{text!r}."
            ) from None
    if epsilon is None:
        raise InvalidInput(
            "This method needs epsilon, the half-width of the promised interval "
            "(--epsilon 0.1, or --epsilon 5%)."
        )
    if (
        isinstance(epsilon, bool)
        or not isinstance(epsilon, int | float)
        or not 0.0 < epsilon < math.inf
    ):
        raise InvalidInput(f"epsilon must be a finite number above 0, got {epsilon!r}.")
    return float(epsilon)


def check_delta(delta: float | None) -> float:
    """Delta, if it is a probability strictly between 0 and 1."""
    if delta is None:
        raise InvalidInput(
            "This method needs delta, the allowed probability of failure (--delta 0.1)."
        )
    if (
        isinstance(delta, bool)
        or not isinstance(delta, int | float)
        or not 0.0 < delta < 1.0
    ):
        raise InvalidInput(
            f"delta must be a probability strictly between 0 and 1, got {delta!r}."
        )
    return float(delta)


def _check_problem(problem: object) -> None:
    if not isinstance(problem, Problem):
        raise InvalidInput(
            "A problem (MDP, Game, tabular or make) was expected, got "
            f"{type(problem).__name__}."
        )


def _check_workers(
    executor: str | None, workers: int | None, shards: int | None
) -> None:
    """Refuse before anything is planned or announced what would only fail when
    workers start.
    """
    from smoothcruiser.engines.registry import EXECUTORS

    if executor is not None and executor not in EXECUTORS:
        raise InvalidInput(
            f"Unknown executor {executor!r}; choose one of {', '.join(EXECUTORS)}."
        )
    for name, count in (("workers", workers), ("shards", shards)):
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or count < 1
        ):
            raise InvalidInput(
                f"{name} must be a whole number of at least 1, got {count!r}."
            )


def check_budget(budget: float) -> int:
    """The budget as a whole number of oracle calls."""
    if not is_number(budget) or not 1 <= budget < math.inf:
        raise InvalidInput(
            f"budget must be a number of oracle calls of at least 1, got {budget!r}."
        )
    return int(budget)


def _afford(problem: Problem, schedule: Schedule, budget: int) -> None:
    """Refuse a plan that cannot be paid, with its price and what can be paid
    instead.
    """
    looks = problem.inspection_calls
    if schedule.num_calls + looks <= budget:
        return
    from smoothcruiser.schedule.alternatives import offers

    choices = offers(problem.facts, schedule, max(1, budget - looks))
    listed = "".join(f"\n  - {offer}" for offer in choices)
    raise Unpayable(
        f"This promise costs {short(schedule.num_calls + looks)} oracle calls, above "
        f"the budget of {short(budget)} (--budget). "
        f"What can be paid:{listed}"
    )


# --- running ------------------------------------------------------------------


def _exact(problem: Problem, state: Any, notes: tuple[str, ...]) -> Estimate:
    begin = time.perf_counter()
    solution = solve(
        problem if problem.tables is not None else replace(problem, initial_state=state)
    )
    answer = exact_answer(
        problem, solution, state, (*notes, solution.note) if solution.note else notes
    )
    seconds = time.perf_counter() - begin - solution.compile_seconds
    return replace(answer, seconds=seconds, compile_seconds=solution.compile_seconds)


def exact_answer(
    problem: Problem, solution: Any, state: Any, notes: tuple[str, ...] = ()
) -> Estimate:
    """The row of an exact solution as an Estimate."""
    row = solution.index(state)
    value, bound = float(solution.values[row]), float(solution.residual_bound)
    q_values = tuple(float(q) for q in solution.q_values[row])
    policy = tuple(float(p) for p in solution.policy[row])
    certificate = Certificate(
        kind="exact",
        interval=(value - bound, value + bound),
        q_intervals=tuple((q - bound, q + bound) for q in q_values),
        confidence=1.0,
        bound=f"residual of {solution.method}",
        assumptions=(
            "the tables are the model"
            if problem.tables is not None
            else "outcomes= is the model",
        ),
        best_actions=None,
    )
    return Estimate(
        value=value,
        interval=certificate.interval,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, problem.mover(state)),
        num_calls=0,
        epsilon=bound,
        delta=0.0,
        method="exact",
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        problem=problem.name,
        state=state,
        notes=notes,
    )


def _certified(
    problem: Problem,
    state: Any,
    epsilon: float | str | None,
    delta: float | None,
    target: Target,
    seed: int,
    budget: int | None,
    paid: int,
    seconds: float | None,
    progress: Callable[[Any], object] | None,
    notes: tuple[str, ...],
    executor: str | None,
    workers: int | None,
    scheduler: str | None,
) -> Estimate:
    from smoothcruiser.certified.search import Certified

    width = None if epsilon is None else parse_epsilon(epsilon, problem.facts)
    if width is None and budget is None and seconds is None:
        raise InvalidInput(
            "certified search needs epsilon to stop at a promise, or budget or "
            "seconds to stop at a price."
        )
    memory = Certified(
        problem,
        delta=check_delta(delta),
        seed=seed,
        executor=executor,
        workers=workers,
        scheduler=scheduler,
    )
    try:
        estimate = memory.query(
            state,
            epsilon=width,
            budget=paid,
            seconds=seconds,
            target=target,
            callback=progress,
        )
    finally:
        memory.close()
    return replace(estimate, notes=(*notes, *estimate.notes))
