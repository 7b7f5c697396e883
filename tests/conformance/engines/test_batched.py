"""The executors ``python``, ``processes`` and ``batched`` against ``reference``
and ``compiled``.

The law: an engine is a way to run a schedule. ``python`` and ``processes``
return the reference's bits; ``batched`` makes the same number of calls and
estimates the same mean (z-test of two means of independent draws, 4.5 standard
errors: a false alarm in 100,000 tests).
"""

import math

import numpy as np
import pytest
from engine_agreement import (
    CENTER,
    SCORES,
    bits,
    hand_made,
    random_table,
    randomized_table,
)
from test_engines import FAMILIES, OPERATORS, build

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled.engine import CompiledEngine
from smoothcruiser.engines.interpreted.batched import BatchedEngine
from smoothcruiser.engines.interpreted.python import PythonEngine
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.engines.registry import open_workers
from smoothcruiser.engines.root_scores import WHOLE
from smoothcruiser.engines.run import Ledger, run_schedule
from smoothcruiser.engines.shards import Shard, cut_shards
from smoothcruiser.operators.sampling import running_sums, sampled_columns
from smoothcruiser.query import Compute

Z = 4.5
DRAWS = 1500


def problem_of(family, index):
    names = list(OPERATORS)
    operator = names[index % len(names)]
    K = 1 + (FAMILIES.index(family) + index) % 6
    return build(
        family, OPERATORS[operator](K), K, 10 * FAMILIES.index(family) + index
    )


# --- python: the same bits ----------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_python_returns_the_bits_of_reference(family):
    for index in range(6):
        problem = problem_of(family, index)
        facts = problem.facts
        for schedule in (
            hand_made(facts),
            hand_made(facts, target="value", clip=(-0.05, 0.8)),
            random_table(facts, index),
            random_table(facts, index + 1, target="value"),
            randomized_table(facts, index),
        ):
            actions = (
                problem.legal_actions(3) if schedule.root.target == "q_values" else [0]
            )
            shard = Shard(actions[-1], 1, 0, 2)
            job = Job(problem, schedule, 3, CENTER, SCORES[index % 2])
            slow = ReferenceEngine(job).run_shard(shard, 5)
            fast = PythonEngine(job).run_shard(shard, 5)
            assert bits(slow) == bits(fast)


def halved_value(q):
    return 0.5 * math.log(sum(math.exp(x) for x in q))


def halved_gradient(q):
    total = sum(math.exp(x) for x in q)
    return [0.5 * math.exp(x) / total for x in q]


def test_python_returns_the_bits_of_reference_for_a_user_operator():
    operator = sc.CustomOperator(halved_value, halved_gradient, smooth=0.25)
    for i, family in enumerate(("game", "terminals", "varying", "everything")):
        problem = build(family, operator, 1 + i, i)
        shard = Shard(problem.legal_actions(0)[0], 0, 0, 2)
        for schedule in (hand_made(problem.facts), randomized_table(problem.facts, i)):
            slow, fast = (
                kind(Job(problem, schedule, 0, CENTER)).run_shard(shard, 2)
                for kind in (ReferenceEngine, PythonEngine)
            )
            assert bits(slow) == bits(fast)


def flagged(state, action, rng):
    """Ends by its own flag; rewards are NumPy numbers of either width, whole
    numbers and booleans.
    """
    x = rng.random()
    reward = (np.float32(x), np.float64(x), int(x > 0.5), x > 0.3)[state % 4]
    return reward, (state + action + 1) % 9, x < 0.2


def test_python_returns_the_bits_of_reference_for_flags_and_odd_rewards():
    problem = sc.MDP(
        flagged, num_actions=3, discount=0.7, operator=sc.Entropy(0.5), terminal=True
    )
    for schedule in (
        hand_made(problem.facts),
        random_table(problem.facts, 3),
        randomized_table(problem.facts, 3),
    ):
        slow, fast = (
            kind(Job(problem, schedule, 0)).run_shard(Shard(1, 0, 0, 40), 2)
            for kind in (ReferenceEngine, PythonEngine)
        )
        assert bits(slow) == bits(fast)


# --- processes: the same bits -------------------------------------------------


def wander(state, action, rng):
    """At the top of a module, so that another process can find it."""
    return rng.random(), (state + action + rng.integers(3)) % 7


def test_processes_return_the_bits_of_reference():
    by_spec = sc.make("garnet:states=6,actions=2", discount=0.4, temperature=0.5)
    by_pickle = sc.MDP(
        wander, num_actions=2, discount=0.4, operator=sc.KL(0.5, prior=(1, 3))
    )
    for problem in (by_spec, by_pickle):
        schedule = hand_made(problem.facts, samples=6)
        outcomes = []
        for workers in (
            open_workers(
                Job(problem, schedule, 1, CENTER), Compute(executor=name, workers=2)
            )
            for name in ("reference", "processes")
        ):
            try:
                outcomes.append(
                    run_schedule(
                        workers,
                        schedule,
                        Ledger(
                            cut_shards(schedule, shards=3),
                            [0, 1],
                            lambda look, tally: False,
                        ),
                        seed=4,
                    )
                )
            finally:
                workers.close()
        sums = [
            {
                a: (t.draws, t.total.hex(), t.square.hex())
                for a, t in outcome.tallies.items()
            }
            for outcome in outcomes
        ]
        assert sums[0] == sums[1]
        assert outcomes[0].num_calls == outcomes[1].num_calls


def test_a_problem_that_cannot_travel_is_refused_before_anything_runs():
    problem = sc.MDP(
        lambda s, a, rng: (rng.random(), s),
        num_actions=2,
        discount=0.5,
        operator=sc.Entropy(1.0),
        initial_state=0,
    )
    with pytest.raises(
        sc.InvalidInput, match=r"cannot be sent to another process.*top of a module"
    ):
        sc.plan(
            problem,
            method="smoothcruiser",
            epsilon="30%",
            delta=0.1,
            executor="processes",
        )


def test_a_spec_that_gives_other_facts_is_not_trusted():
    """The prior of KL is not part of a spec: the pickle is what travels."""
    from smoothcruiser.engines.pools.processes import rebuild_problem, recipe_of

    problem = sc.make(
        "garnet:states=6,actions=2",
        discount=0.4,
        operator=sc.KL(0.5, prior=(1, 3)),
        temperature=0.5,
    )
    spec, pickled, facts = recipe_of(problem)
    if pickled is None:
        with pytest.raises(sc.InvalidInput, match="could not be rebuilt"):
            rebuild_problem((spec, pickled, facts))
    else:
        assert rebuild_problem((spec, pickled, facts)).facts == problem.facts


# --- batched: the same counts, the same law -----------------------------------


def assert_same_law(one, other, label):
    """Two partial sums of independent draws of the same variable."""
    means = [part.total / part.draws for part in (one, other)]
    variances = [
        max(part.square / part.draws - mean * mean, 0.0)
        for part, mean in zip((one, other), means, strict=True)
    ]
    error = math.sqrt(sum(variances) / one.draws)
    assert abs(means[0] - means[1]) <= Z * error + 1e-9, (label, means, error)


@pytest.mark.parametrize("family", FAMILIES)
def test_batched_agrees_with_compiled_in_law_and_in_counts(family):
    for index in range(6):
        problem = problem_of(family, index)
        facts = problem.facts
        for schedule in (
            hand_made(facts, samples=DRAWS),
            hand_made(facts, target="value", clip=(-0.05, 0.8), samples=DRAWS),
        ):
            action = (
                problem.legal_actions(0)[-1]
                if schedule.root.target == "q_values"
                else 0
            )
            fast = CompiledEngine(Job(problem, schedule, 0)).run_shard(
                Shard(action, 0, 0, DRAWS), 1
            )
            wide = BatchedEngine(Job(problem, schedule, 0), max_batch=4096).run_shard(
                Shard(action, 0, 0, DRAWS), 1
            )
            assert_same_law(fast, wide, (family, index, schedule.root.target))
            if schedule.price_is_exact:
                assert fast.calls == wide.calls
            else:
                assert wide.calls <= DRAWS * (
                    1 + schedule.level_calls[schedule.root.child]
                )


def randomized_problems():
    """Every operator in every family; one of each family, all operators among
    them, in CI.
    """
    for i, family in enumerate(FAMILIES):
        for index in range(6):
            marks = [] if (i + index) % 6 == 1 else [pytest.mark.slow]
            yield pytest.param(family, index, marks=marks)


@pytest.mark.parametrize("family, index", list(randomized_problems()))
def test_batched_agrees_with_compiled_in_law_on_randomized_levels(family, index):
    """In the mean of the sums and in the mean number of calls, which is random: two
    means over twenty shards each, as far apart as their own deviation allows.
    """
    problem = problem_of(family, index)
    schedule = randomized_table(problem.facts, index)
    action = problem.legal_actions(0)[-1]
    parts = [
        [engine.run_shard(Shard(action, i, 0, 20), 1) for i in range(20)]
        for engine in (
            CompiledEngine(Job(problem, schedule, 0)),
            BatchedEngine(Job(problem, schedule, 0), max_batch=4096),
        )
    ]
    for sums in ("total", "calls"):
        one, other = (np.array([getattr(p, sums) for p in part]) for part in parts)
        error = math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / len(one))
        gap = abs(one.mean() - other.mean())
        assert gap <= Z * error + 1e-9, (sums, gap, error)


@pytest.mark.parametrize("max_batch", [1, 7, 64, 100_000])
def test_slices_change_neither_counts_nor_law(max_batch):
    problem = problem_of("game", 1)
    schedule = hand_made(problem.facts, samples=200)
    whole = BatchedEngine(Job(problem, schedule, 0)).run_shard(Shard(0, 0, 0, 200), 1)
    sliced = BatchedEngine(Job(problem, schedule, 0), max_batch=max_batch).run_shard(
        Shard(0, 0, 0, 20 if max_batch == 1 else 200), 2
    )
    assert sliced.calls * whole.draws == whole.calls * sliced.draws
    if sliced.draws == whole.draws:
        assert_same_law(whole, sliced, max_batch)


def test_a_batched_run_is_reproducible():
    problem = problem_of("everything", 2)
    schedule = hand_made(problem.facts, samples=50)
    parts = [
        BatchedEngine(Job(problem, schedule, 0, 0.0, SCORES[0])).run_shard(
            Shard(problem.legal_actions(0)[0], 3, 0, 50), 9
        )
        for _ in range(2)
    ]
    assert bits(parts[0]) == bits(parts[1])
    assert sum(parts[0].score) == 50 * WHOLE


@pytest.mark.parametrize("name", list(OPERATORS))
def test_operators_over_columns_are_the_scalar_ones(name):
    """Equation F and its gradient, with actions missing at random."""
    rng = np.random.default_rng(3)
    K = 5
    operator = OPERATORS[name](K)
    q = rng.normal(size=(K, 50))
    q[rng.random((K, 50)) < 0.3] = -np.inf
    q[2] = rng.normal(size=50)
    weights = np.array(operator.weights(K))
    value, gradient = operator.batch(q, weights)
    for i in range(50):
        legal = np.flatnonzero(q[:, i] > -np.inf)
        assert value[i] == pytest.approx(
            operator.value(q[legal, i], weights=weights[legal]), abs=1e-12
        )
        assert gradient[legal, i] == pytest.approx(
            operator.gradient(q[legal, i], weights=weights[legal]), abs=1e-12
        )
        assert np.all(np.delete(gradient[:, i], legal) == 0.0)


@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (9, 2), (17, 300)])
def test_running_sums_are_those_of_numpy_to_the_bit(shape):
    g = np.random.default_rng(2).normal(size=shape)
    assert running_sums(g).tobytes() == np.cumsum(g, axis=0).tobytes()
    assert running_sums(g[::-1]).tobytes() == np.cumsum(g[::-1], axis=0).tobytes()


def test_actions_are_drawn_in_proportion_and_never_with_weight_zero():
    g = np.array([[0.0], [0.25], [0.0], [0.75], [0.0]]).repeat(40_000, axis=1)
    action, norm = sampled_columns(g, np.random.default_rng(0))
    counts = np.bincount(action, minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert np.all(norm == 1.0)
    assert abs(counts[1] / 40_000 - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 40_000)


# --- oracles over arrays: every kind of state ---------------------------------


def line(states, actions, rng):
    after = 0.8 * states + 0.5 * (actions - 1) + 0.3 * rng.normal(size=len(states))
    return np.exp(-after * after), after


def line_one(state, action, rng):
    after = 0.8 * state + 0.5 * (action - 1) + 0.3 * rng.normal()
    return math.exp(-after * after), after


def far(states):
    return np.abs(states) > 1.2


def plane(states, actions, rng):
    after = 0.5 * states + rng.random(states.shape)
    after[:, 0] += 0.1 * actions
    return 1.0 / (1.0 + after.sum(axis=1)), after, after[:, 1] > 0.9


def plane_one(state, action, rng):
    after = np.array(
        [0.5 * state[0] + rng.random() + 0.1 * action, 0.5 * state[1] + rng.random()]
    )
    return 1.0 / (1.0 + after.sum()), after, after[1] > 0.9


def duel(states, actions, rng):
    mover, score = states
    after = (
        0.5 * score
        + 0.2 * actions * (3 - 2 * mover)
        + 0.1 * rng.exponential(size=len(score))
    )
    return 1.0 / (1.0 + after * after), (3 - mover, after)


def duel_one(state, action, rng):
    mover, score = state
    after = 0.5 * score + 0.2 * action * (3 - 2 * mover) + 0.1 * rng.exponential()
    return 1.0 / (1.0 + after * after), (3 - mover, after)


RECORD = np.dtype([("x", np.int64), ("heat", np.float64)])


def room(states, actions, rng):
    after = np.empty(len(states), RECORD)
    after["x"] = (states["x"] + actions + rng.integers(2, size=len(states))) % 5
    after["heat"] = 0.5 * states["heat"] + rng.random(len(states))
    return after["heat"] / 2.0, after


def room_one(state, action, rng):
    x, heat = state
    heat = 0.5 * heat + rng.random()
    return heat / 2.0, ((x + action + rng.integers(2)) % 5, heat)


COMMON = {"num_actions": 3, "operator": sc.Entropy(0.5), "discount": 0.5}
ARRAYS = {
    "numbers": (
        sc.MDP(sc.batched(line), terminal=far, **COMMON),
        sc.MDP(line_one, terminal=lambda s: abs(s) > 1.2, **COMMON),
        0.25,
        0.25,
    ),
    "rows": (
        sc.MDP(sc.batched(plane), terminal=True, **COMMON),
        sc.MDP(plane_one, terminal=True, **COMMON),
        np.zeros(2),
        np.zeros(2),
    ),
    "tuples": (
        sc.Game(sc.batched(duel), player=lambda s: s[0], alternating=True, **COMMON),
        sc.Game(duel_one, player=lambda s: s[0], alternating=True, **COMMON),
        (1, 0.0),
        (1, 0.0),
    ),
    "records": (
        sc.MDP(
            sc.batched(room),
            legal=lambda s, a: (a == 0) | ((s["x"] + a) % 2 == 0),
            **COMMON,
        ),
        sc.MDP(room_one, legal=lambda s, a: a == 0 or (s[0] + a) % 2 == 0, **COMMON),
        np.array((1, 0.5), RECORD)[()],
        (1, 0.5),
    ),
}


@pytest.mark.parametrize("kind", list(ARRAYS))
def test_oracles_over_arrays_agree_with_their_scalar_forms(kind):
    wide, scalar, wide_state, state = ARRAYS[kind]
    schedule = hand_made(scalar.facts, samples=4000)
    assert wide.facts == scalar.facts
    action = scalar.legal_actions(state)[-1]
    assert wide.legal_actions(wide_state) == scalar.legal_actions(state)
    assert wide.mover(wide_state) == scalar.mover(state)
    one = PythonEngine(Job(scalar, schedule, state)).run_shard(
        Shard(action, 0, 0, 400), 1
    )
    many = BatchedEngine(Job(wide, schedule, wide_state)).run_shard(
        Shard(action, 0, 0, 400), 1
    )
    assert_same_law(one, many, kind)
    if scalar.facts.price_is_exact:
        assert one.calls == many.calls
    # a batch of one row at a time
    single = ReferenceEngine(Job(wide, schedule, wide_state)).run_shard(
        Shard(action, 0, 0, 40), 1
    )
    assert 0 < single.calls <= 40 * (1 + schedule.level_calls[schedule.root.child])


def test_plans_with_a_batched_oracle_keep_their_promise():
    """Batched is chosen by itself, and its answer and the scalar one are both
    within epsilon of the truth, so within 2 epsilon.
    """
    wide, scalar, state, _ = ARRAYS["tuples"]
    answers = [
        sc.plan(
            problem, state, epsilon="20%", delta=0.01, method="smoothcruiser", seed=3
        )
        for problem in (wide, scalar)
    ]
    assert [a.executor for a in answers] == ["batched", "python"]
    assert abs(answers[0].value - answers[1].value) <= 2 * answers[0].epsilon
    assert sc.calibrate(wide, state) > 0


def test_four_executors_on_one_problem():
    """Issue: estimates agree (errors at most epsilon, against the exact value),
    counts agree exactly.
    """
    problem = sc.make(
        "garnet:states=12,actions=3,branching=4", discount=0.4, temperature=1.0
    )
    exact = sc.plan(problem, method="exact")
    schedule = sc.explain(problem, epsilon="12%", delta=0.02, method="smoothcruiser")
    answers = {
        name: sc.run(problem, schedule, executor=name, seed=5)
        for name in ("reference", "python", "compiled", "batched")
    }
    for name, answer in answers.items():
        errors = [
            abs(q - truth)
            for q, truth in zip(answer.q_values, exact.q_values, strict=True)
        ]
        assert max(errors) <= schedule.epsilon, name
        assert answer.interval[0] <= exact.value <= answer.interval[1], name
    assert (
        answers["reference"].value
        == answers["python"].value
        == answers["compiled"].value
    )
    per_draw = 1 + schedule.level_calls[schedule.root.child]
    assert all(answer.num_calls % per_draw == 0 for answer in answers.values())


# --- JAX ----------------------------------------------------------------------


def test_jax_oracles_agree_with_their_scalar_forms():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def each(state, action, key):
        after = (
            0.8 * state
            + 0.5 * (action - 1)
            + 0.3 * jax.random.normal(key, dtype=state.dtype)
        )
        return jnp.exp(-after * after), after

    def rows(states, actions, key):
        after = (
            0.8 * states
            + 0.5 * (actions - 1)
            + 0.3 * jax.random.normal(key, states.shape, dtype=states.dtype)
        )
        return jnp.exp(-after * after), after

    scalar = ARRAYS["numbers"][1]
    schedule = hand_made(scalar.facts, samples=4000)
    one = PythonEngine(Job(scalar, schedule, 0.25)).run_shard(Shard(1, 0, 0, 400), 1)
    for step, mapped in ((each, True), (rows, False)):
        problem = sc.MDP(
            sc.batched(step, backend="jax", each=mapped, max_batch=4096),
            terminal=lambda s: jnp.abs(s) > 1.2,
            **COMMON,
        )
        assert problem.facts == scalar.facts
        engine = BatchedEngine(Job(problem, schedule, 0.25))
        many = engine.run_shard(Shard(1, 0, 0, 400), 1)
        assert_same_law(one, many, step.__name__)
        assert bits(many) == bits(engine.run_shard(Shard(1, 0, 0, 400), 1))
        assert problem.is_terminal(1.5)
        assert not problem.is_terminal(0.5)
        endless = sc.MDP(
            sc.batched(step, backend="jax", each=mapped, max_batch=4096), **COMMON
        )
        plain = sc.MDP(line_one, **COMMON)
        table = hand_made(plain.facts, samples=400)
        parts = [
            kind(Job(p, table, 0.25)).run_shard(Shard(1, 0, 0, 200), 1)
            for kind, p in ((BatchedEngine, endless), (PythonEngine, plain))
        ]
        assert (
            parts[0].calls
            == parts[1].calls
            == 200 * (1 + table.level_calls[table.root.child])
        )
        assert_same_law(*parts, step.__name__)
    assert jnp.ones(1).dtype == jnp.float32, "float64 is switched on inside calls only"
