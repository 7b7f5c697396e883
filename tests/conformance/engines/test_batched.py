"""The executors ``python`` and ``batched`` against ``reference`` and ``compiled``.

The law: an engine is a way to run a schedule. ``python`` returns the reference's
bits (also in engine_agreement.py); ``batched`` makes the same number of calls and
estimates the same mean (z-test of two means of independent draws, 4.5 standard
errors: a false alarm in 100,000 tests).
"""

import itertools
import math
from dataclasses import replace
from functools import partial

import numba
import numpy as np
import pytest
from engine_agreement import (
    CENTER,
    SCORES,
    assert_engines_agree,
    bits,
    by_hand,
    engine_of,
    hand_made,
    random_table,
    randomized_table,
    root_actions,
    sums_of,
)
from test_engines import FAMILIES, OPERATORS, build, halved_gradient, halved_value

import smoothcruiser as sc
from smoothcruiser import Kind, Level

Z = 4.5
DRAWS = 1500


COMMON = {"num_actions": 3, "operator": sc.Entropy(0.5), "discount": 0.5}


def problem_of(family, index):
    names = list(OPERATORS)
    operator = names[index % len(names)]
    K = 1 + (FAMILIES.index(family) + index) % 6
    return build(
        family, OPERATORS[operator](K), K, 10 * FAMILIES.index(family) + index
    )


def flagged(state, action, rng):
    """Ends by its own flag; rewards are NumPy numbers of either width, whole
    numbers and booleans.
    """
    x = rng.random()
    reward = (np.float32(x), np.float64(x), int(x > 0.5), x > 0.3)[state % 4]
    return reward, (state + action + 1) % 9, x < 0.2


def test_python_returns_the_bits_of_reference_for_flags_and_odd_rewards():
    halved = halved_value.py_func, halved_gradient.py_func
    for operator in (sc.Entropy(0.5), sc.CustomOperator(*halved, smooth=0.25)):
        facts = {"num_actions": 3, "discount": 0.7, "operator": operator}
        problem = sc.MDP(flagged, terminal=True, **facts)
        makers = (hand_made, partial(random_table, seed=3))
        for make in (*makers, partial(randomized_table, seed=3)):
            schedule = make(problem.facts)
            slow, fast = (
                sums_of(engine_of(kind, problem, schedule, 0), 1, 40, seed=2)
                for kind in ("reference", "python")
            )
            assert bits(slow) == bits(fast)


def test_a_problem_that_cannot_travel_is_refused_before_anything_runs():
    problem = sc.MDP(lambda s, a, rng: (rng.random(), s), **COMMON, initial_state=0)
    how = {"method": "smoothcruiser", "epsilon": "30%", "delta": 0.1}
    with pytest.raises(sc.InvalidInput, match=r"cannot be sent to another process.*t"):
        sc.plan(problem, executor="processes", **how)


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
        clipped = {"target": "value", "clip": (-0.05, 0.8)}
        for how in ({}, clipped):
            schedule = hand_made(problem.facts, samples=DRAWS, **how)
            action = root_actions(problem, schedule, 0)[-1]
            asked = problem, schedule, 0
            fast = sums_of(engine_of("compiled", *asked), action, DRAWS)
            batched = engine_of("batched", *asked, max_batch=4096)
            wide = sums_of(batched, action, DRAWS)
            assert_same_law(fast, wide, (family, index, schedule.root.target))
            most = DRAWS * (1 + schedule.level_calls[schedule.root.child])
            same = fast.calls == wide.calls
            assert same if schedule.price_is_exact else wide.calls <= most


@pytest.mark.parametrize("family, index", [(f, 1 - i) for i, f in enumerate(FAMILIES)])
def test_batched_agrees_with_compiled_in_law_on_randomized_levels(family, index):
    """In the mean of the sums and in the mean number of calls, which is random: two
    means over twenty shards each, as far apart as their own deviation allows. Every
    family, all operators among them.
    """
    problem = problem_of(family, index % 6)
    asked = problem, randomized_table(problem.facts, index % 6), 0
    action = problem.legal_actions(0)[-1]
    parts = [
        [sums_of(engine, action, 20, number=i) for i in range(20)]
        for engine in (
            engine_of("compiled", *asked),
            engine_of("batched", *asked, max_batch=4096),
        )
    ]
    for sums in ("total", "calls"):
        one, other = (np.array([getattr(p, sums) for p in part]) for part in parts)
        error = math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / len(one))
        gap = abs(one.mean() - other.mean())
        assert gap <= Z * error + 1e-9, (sums, gap, error)


@pytest.mark.parametrize("max_batch", [1, 7, 100_000])
def test_slices_change_neither_counts_nor_law(max_batch):
    problem = problem_of("game", 1)
    asked = problem, hand_made(problem.facts, samples=200), 0
    whole = sums_of(engine_of("batched", *asked), 0, 200)
    cut = engine_of("batched", *asked, max_batch=max_batch)
    sliced = sums_of(cut, 0, 20 if max_batch == 1 else 200, seed=2)
    assert sliced.calls * whole.draws == whole.calls * sliced.draws
    if sliced.draws == whole.draws:
        assert_same_law(whole, sliced, max_batch)


def test_a_batched_run_is_reproducible():
    problem = problem_of("everything", 2)
    schedule = hand_made(problem.facts, samples=50)
    engine = engine_of("batched", problem, schedule, 0, 0.0, SCORES[0])
    action = problem.legal_actions(0)[0]
    parts = [sums_of(engine, action, 50, seed=9, number=3) for _ in range(2)]
    assert bits(parts[0]) == bits(parts[1])
    assert sum(parts[0].score) == 50 * 2**24


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


def pair(kind, wide, scalar, companions, **more):
    """A problem over arrays and its scalar form; companions have two forms too."""
    return tuple(
        kind(step, **COMMON, **more, **{name: f[i] for name, f in companions.items()})
        for i, step in enumerate((sc.batched(wide), scalar))
    )


def allowed(x, a):
    return (a == 0) | ((x + a) % 2 == 0)


MOVER = {"player": (lambda s: s[0],) * 2}
FAR = {"terminal": (far, lambda s: abs(s) > 1.2)}
LEGAL = {
    "legal": (lambda s, a: allowed(s["x"], a), lambda s, a: bool(allowed(s[0], a)))
}
RECORDS = np.array((1, 0.5), RECORD)[()], (1, 0.5)
ARRAYS = {
    "numbers": (*pair(sc.MDP, line, line_one, FAR), 0.25, 0.25),
    "rows": (
        *pair(sc.MDP, plane, plane_one, {}, terminal=True),
        *(np.zeros(2), np.zeros(2)),
    ),
    "tuples": (
        *pair(sc.Game, duel, duel_one, MOVER, alternating=True),
        *((1, 0.0), (1, 0.0)),
    ),
    "records": (*pair(sc.MDP, room, room_one, LEGAL), *RECORDS),
}


@pytest.mark.parametrize("kind", list(ARRAYS))
def test_oracles_over_arrays_agree_with_their_scalar_forms(kind):
    wide, scalar, wide_state, state = ARRAYS[kind]
    schedule = hand_made(scalar.facts, samples=4000)
    assert wide.facts == scalar.facts
    action = scalar.legal_actions(state)[-1]
    assert wide.legal_actions(wide_state) == scalar.legal_actions(state)
    assert wide.mover(wide_state) == scalar.mover(state)
    one = sums_of(engine_of("python", scalar, schedule, state), action, 400)
    many = sums_of(engine_of("batched", wide, schedule, wide_state), action, 400)
    assert_same_law(one, many, kind)
    if scalar.facts.price_is_exact:
        assert one.calls == many.calls
    # a batch of one row at a time
    single = sums_of(engine_of("reference", wide, schedule, wide_state), action, 40)
    assert 0 < single.calls <= 40 * (1 + schedule.level_calls[schedule.root.child])


def test_plans_with_a_batched_oracle_keep_their_promise():
    """Batched is chosen by itself, and its answer and the scalar one are both
    within epsilon of the truth, so within 2 epsilon.
    """
    wide, scalar, state, _ = ARRAYS["tuples"]
    how = {"epsilon": "20%", "delta": 0.01, "method": "smoothcruiser", "seed": 3}
    answers = [sc.plan(problem, state, **how) for problem in (wide, scalar)]
    assert [a.executor for a in answers] == ["batched", "python"]
    assert abs(answers[0].value - answers[1].value) <= 2 * answers[0].epsilon
    assert sc.calibrate(wide, state) > 0


# --- JAX ----------------------------------------------------------------------


def test_jax_oracles_agree_with_their_scalar_forms():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def rows(states, actions, key):
        noise = jax.random.normal(key, states.shape, dtype=states.dtype)
        after = 0.8 * states + 0.5 * (actions - 1) + 0.3 * noise
        return jnp.exp(-after * after), after

    def each(state, action, key):
        return rows(state, action, key)

    endings = (lambda s: jnp.abs(s) > 1.2), FAR["terminal"][1]
    for step, ends in itertools.product((each, rows), (True, False)):
        wide, plain = ({"terminal": x} if ends else {} for x in endings)
        oracle = sc.batched(step, backend="jax", each=step is each, max_batch=4096)
        problem = sc.MDP(oracle, **wide, **COMMON)
        scalar = sc.MDP(line_one, **plain, **COMMON)
        assert problem.facts == scalar.facts
        schedule = hand_made(scalar.facts, samples=4000)
        engine = engine_of("batched", problem, schedule, 0.25)
        many = sums_of(engine, 1, 400)
        one = sums_of(engine_of("python", scalar, schedule, 0.25), 1, 400)
        assert_same_law(one, many, (step.__name__, ends))
        assert bits(many) == bits(sums_of(engine, 1, 400))
        if ends:
            assert problem.is_terminal(1.5)
            assert not problem.is_terminal(0.5)
        else:
            assert one.calls == many.calls
    assert jnp.ones(1).dtype == jnp.float32, "float64 is switched on inside calls only"


GAP = 0.25


@numba.njit
def lower(state):
    return 0.1 * (state % 3) - 0.2


@numba.njit
def upper(state):
    return 0.1 * (state % 3) + 0.05 * (state % 2)


def bounded(problem, bounds=(lower, upper), gap=GAP):
    return replace(problem, value_bounds=bounds, value_gap=gap)


def middle_table(facts, target="q_values"):
    """A middle as query, as continuation, and under levels that are no leaves."""
    levels = (
        Level(Kind.MIDDLE),
        Level(Kind.PLUGIN, samples=2, query=0, shift=0.05),
        Level(Kind.ROLLOUT, samples=2, query=0, continuation=0, shift=0.03),
        Level(Kind.BLIND, continuation=2),
        Level(Kind.ROLLOUT, samples=1, query=1, continuation=3, shift=-0.02),
    )
    return by_hand(facts, levels, target=target, samples=3)


@pytest.mark.compiles
@pytest.mark.parametrize("family", FAMILIES)
def test_three_engines_return_the_same_bits(family):
    """One machine serves all worlds, since the functions are the same."""
    K = 2 + FAMILIES.index(family) % 2
    problem = bounded(build(family, sc.Max(), K, FAMILIES.index(family)))
    for target in ("q_values", "value"):
        assert_engines_agree(problem, middle_table(problem.facts, target), 3)


@pytest.mark.compiles
def test_compiled_code_names_the_state_whose_bounds_are_false():
    """Bounds of odd states are too wide; the shard is replayed to name one."""
    P = np.eye(6)[(np.arange(6) + 1) % 6][:, None, :].repeat(2, axis=1)
    ring = sc.tabular(P, np.zeros((6, 2)), discount=0.5, operator=sc.Max())
    wrong = bounded(ring, gap=0.22)
    schedule = by_hand(wrong.facts, [Level(Kind.MIDDLE)])
    for executor in ("compiled", "batched"):
        sums_of(engine_of(executor, wrong, schedule, 3, CENTER), 0, 2)
        engine = engine_of(executor, wrong, schedule, 4, CENTER)
        with pytest.raises(sc.OracleError, match=r"at state 5.* 0\.25 apart"):
            sums_of(engine, 0, 2)


@pytest.mark.compiles
def test_batches_and_trees_agree_where_nothing_is_random():
    def walk(states, actions, rng):
        return 0.1 * actions, (states + actions + 1) % 5

    batch = sc.MDP(
        sc.batched(walk),
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=0,
        terminal=lambda states: states == 4,
        value_bounds=(lambda s: 0.01 * s, lambda s: 0.02 * s + 0.1),
        value_gap=0.2,
    )
    one = replace(
        batch,
        oracle=lambda s, a, rng: (0.1 * a, (s + a + 1) % 5),
        terminal=lambda s: s == 4,
        value_bounds=(lambda s: 0.01 * s, lambda s: 0.02 * s + 0.1),
    )
    levels = (Level(Kind.MIDDLE), Level(Kind.PLUGIN, samples=2, query=0))
    schedule = by_hand(batch.facts, levels)
    for action in range(2):
        rows = sums_of(engine_of("batched", batch, schedule, 0), action, 2)
        single = sums_of(engine_of("reference", one, schedule, 0), action, 2)
        assert rows.total == pytest.approx(single.total)
        assert rows.calls == single.calls
    # at depth 1 a leaf is worth the middle of its bounds: Q = r + gamma m(next)
    tree = sc.plan(one, method=sc.UCT(depth=1), budget=50, executor="reference")
    assert tree.q_values == pytest.approx((0.5 * 0.065, 0.1 + 0.5 * 0.08))
