"""Paper-mode schedules: the exact tables, their promises, and a verifier that
notices every way of breaking them.
"""

import math
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.paper_schedule import paper_schedule, paper_sparse_sampling
from smoothcruiser.theory import paper_constants as paper
from smoothcruiser.theory.paper_constants import PaperSetting


def mdp(gamma, temperature, num_actions=2, reward_range=(0.0, 1.0), **more):
    k, operator = num_actions, sc.Entropy(temperature)
    return Facts(k, k, gamma, operator, reward_range, **more)


def paper_price(schedule, *more, setting=None):
    setting = setting or PaperSetting.of(schedule.facts)
    promise = schedule.epsilon, schedule.delta_prime
    return paper.oracle_calls(setting, *promise, *more).exact


def hand_facts():
    """The hand example of tests/unit/theory/test_paper_theory.py: gamma = 1/4, K = 2,
    L = 1/8, M = F(0) = 1.
    """
    value, gradient = (lambda q: 1.0 + 0.5 * (q[0] + q[1])), (lambda q: [0.5, 0.5])
    operator = sc.CustomOperator(value, gradient, smooth=0.125, sums_to_one=True)
    return Facts(2, 2, 0.25, operator, (0.0, 1.0))


def tight_schedule():
    """A table without slack: kappa = gamma V_max and the root's child just
    below kappa, so every chain ends a hair above V_max.

    kappa/V_max = (1-sqrt g)(1-g) lambda / (K (1 + lambda log K)) = g is solved
    by this lambda.
    """
    gamma = 0.2
    below = (1.0 - math.sqrt(gamma)) * (1.0 - gamma) - 2.0 * gamma * math.log(2.0)
    temperature = 2.0 * gamma / below
    facts = mdp(gamma, temperature * (1.0 + 1e-5))
    epsilon = paper.kappa(PaperSetting.of(facts)) * math.sqrt(gamma) * (1.0 - 1e-6)
    return paper_schedule(facts, epsilon=epsilon, delta=0.1)


def deep_schedule():
    return paper_schedule(mdp(0.2, 10.0), epsilon=0.0625, delta=0.1)


def with_level(schedule, index, **changes):
    levels = list(schedule.levels)
    levels[index] = replace(levels[index], **changes)
    return replace(schedule, levels=tuple(levels))


def with_root(schedule, **changes):
    return replace(schedule, root=replace(schedule.root, **changes))


# --- tables -------------------------------------------------------------------


def test_table_by_hand():
    promise = {"epsilon": 0.5, "delta_prime": 4.0 * math.exp(-2.0)}
    schedule = paper_schedule(hand_facts(), **promise)
    assert schedule.levels == (
        sc.Level(sc.Kind.CONSTANT),
        sc.Level(sc.Kind.PLUGIN, 456, 0),
        sc.Level(sc.Kind.ROLLOUT, 911, 0, 1),
    )
    root = schedule.root
    assert (root.samples, root.child) == (7282, 2)
    assert (root.target, root.bound) == ("q_values", "paper")
    assert schedule.num_calls == 2 * 7282 * 2736
    assert schedule.delta == 1.0  # no promise: delta' times the calls is far above 1
    # r + gamma [1, 2]/(1-gamma)
    assert schedule.clip == pytest.approx((1.0 / 3.0, 5.0 / 3.0))


def test_rollout_tables_share_rows_between_near_identical_accuracies():
    """kappa/eps = sqrt(gamma)^-8: continuations and queries of queries fall on
    common accuracies; each row appears once.
    """
    gamma = 0.2
    facts = mdp(gamma, 10.0)
    epsilon = paper.kappa(PaperSetting.of(facts)) * math.sqrt(gamma) ** 8
    schedule = paper_schedule(facts, epsilon=epsilon, delta_prime=0.1)
    rows = [
        (level.kind, level.samples, level.query, level.continuation)
        for level in schedule.levels
    ]
    assert len(rows) == len(set(rows))
    # units of log_{1/sqrt(gamma)} from kappa: -7...-1 and their queries x/2+1,
    # again and again, V_max is at 1.6
    units, todo = set(), [-7.0]
    while todo:
        x = todo.pop()
        if x < 1.6 and x not in units:
            units.add(x)
            todo += [x + 1.0] if x >= 0.0 else [x + 1.0, x / 2.0 + 1.0]
    assert len(rows) == 1 + len(units)


@pytest.mark.parametrize(
    "operator",
    [sc.Entropy(1.0), sc.KL(1.0), sc.Sparsemax(1.0), sc.SquareRoot(1.0), sc.Max()],
    ids=lambda o: o.name,
)
@pytest.mark.parametrize("game", [False, True])
def test_price_equals_the_recurrence_for_every_operator(operator, game):
    facts = Facts(3, 3, 0.3, operator, (-1.0, 2.0), game=game, alternating=game)
    schedule = paper_schedule(facts, epsilon=0.4, delta=0.05)
    assert schedule.num_calls == paper_price(schedule)
    assert schedule.delta == 0.05
    kinds = {level.kind for level in schedule.levels}
    assert sc.Kind.ROLLOUT not in kinds or operator.name != "max"


def test_sparse_sampling_is_the_table_with_kappa_zero():
    facts = mdp(0.2, 10.0)
    schedule = paper_sparse_sampling(facts, epsilon=0.5, delta=0.1)
    assert {level.kind for level in schedule.levels} == {
        sc.Kind.CONSTANT,
        sc.Kind.PLUGIN,
    }
    flat = paper.sparse_sampling(PaperSetting.of(facts))
    assert schedule.num_calls == paper_price(schedule, setting=flat)
    assert schedule.num_calls > paper_schedule(facts, epsilon=0.5, delta=0.1).num_calls


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 50])
def test_a_horizon_bounds_the_depth(horizon):
    schedule = paper_schedule(mdp(0.5, 1.0, horizon=horizon), epsilon=0.3, delta=0.1)
    unbounded = paper_schedule(mdp(0.5, 1.0), epsilon=0.3, delta=0.1)
    assert schedule.depth == min(horizon, unbounded.depth)
    assert schedule.num_calls == paper_price(schedule, horizon)
    assert schedule.num_calls <= unbounded.num_calls


# --- the box ------------------------------------------------------------------


def test_the_box_holds_negative_values_of_games():
    """Zero rewards, alternating turns: a min state has V = -M/(1+gamma), so Q =
    -gamma M/(1+gamma) at a max state; printed box: [0, .].
    """
    facts = mdp(0.5, 1.0, reward_range=(0.0, 0.0), game=True, alternating=True)
    schedule = paper_schedule(facts, epsilon=0.5, delta=0.1)
    worst = 0.5 * math.log(2.0) / 1.5
    assert schedule.clip == pytest.approx((-worst, worst))
    with pytest.raises(sc.BrokenPromise, match="cuts off action values"):
        replace(schedule, clip=(0.0, math.log(2.0) / 0.5))


@pytest.mark.parametrize(
    "facts",
    [
        mdp(0.5, 1.0, reward_range=(-3.0, -1.0)),
        mdp(0.5, 1.0, terminals=True, reward_range=(1.0, 2.0)),
        mdp(0.5, 1.0, game=True, reward_range=(-1.0, 0.5)),
        mdp(0.5, 1.0, game=True, alternating=True, horizon=4),
        mdp(0.5, 1.0, horizon=3, reward_range=(1.0, 2.0)),
    ],
)
def test_the_box_holds_every_stage_and_cannot_shrink(facts):
    schedule = paper_schedule(facts, epsilon=0.6, delta=0.1)
    low, high = schedule.clip
    for stage in [None] if facts.horizon is None else range(1, facts.horizon + 1):
        for player in (1, 2) if facts.game else (1,):
            inner = facts.q_bounds(player, stage)
            assert low <= inner[0] <= inner[1] <= high
    for box in (
        (low + 1e-3, high),
        (low, high - 1e-3),
        (low, paper.value_bound(PaperSetting.of(facts)) + 1e-3),
        None,
    ):
        with pytest.raises(sc.BrokenPromise):
            replace(schedule, clip=box)


# --- mutations ----------------------------------------------------------------


def test_halving_the_samples_of_any_level_or_of_the_root_breaks_the_promise():
    schedule = tight_schedule()
    kinds = [level.kind for level in schedule.levels]
    assert kinds.count(sc.Kind.ROLLOUT) == 1
    assert kinds.count(sc.Kind.PLUGIN) >= 2
    for index, level in enumerate(schedule.levels):
        if level.kind != sc.Kind.CONSTANT:
            with pytest.raises(sc.BrokenPromise, match="above the promised epsilon"):
                with_level(schedule, index, samples=level.samples // 2)
            # the same table unchanged passes
            with_level(schedule, index, samples=level.samples)
    with pytest.raises(sc.BrokenPromise, match="above the promised epsilon"):
        with_root(schedule, samples=schedule.root.samples // 2)


def test_swapping_query_and_continuation_breaks_the_promise():
    schedule = deep_schedule()
    levels = enumerate(schedule.levels)
    rollouts = [i for i, level in levels if level.kind == sc.Kind.ROLLOUT]
    assert len(rollouts) == 6
    for index in rollouts:
        level = schedule.levels[index]
        # the accuracy (near the root), or the calls and with them delta (near the
        # leaves)
        swapped = {"query": level.continuation, "continuation": level.query}
        with pytest.raises(sc.BrokenPromise):
            with_level(schedule, index, **swapped)


def test_promising_more_breaks_the_promise():
    schedule = tight_schedule()
    with pytest.raises(sc.BrokenPromise, match="above the promised epsilon"):
        replace(schedule, epsilon=0.999 * schedule.epsilon)
    with pytest.raises(sc.BrokenPromise, match="above the promised delta"):
        replace(schedule, delta=0.999 * schedule.delta)
    with pytest.raises(sc.BrokenPromise):
        replace(schedule, delta_prime=2.0 * schedule.delta_prime)
    # fewer misses, but each Q-hat is too coarse for it
    with pytest.raises(sc.BrokenPromise):
        replace(schedule, delta_prime=0.5 * schedule.delta_prime)
    # a table that keeps more passes
    replace(schedule, epsilon=2.0 * schedule.epsilon, delta=0.5)


def test_what_the_paper_does_not_have_is_refused():
    schedule = tight_schedule()
    with pytest.raises(sc.BrokenPromise, match="not part of the paper"):
        with_level(schedule, len(schedule.levels) - 1, kind=sc.Kind.BLIND)
    with pytest.raises(sc.BrokenPromise, match="not part of the paper"):
        with_level(schedule, 0, shift=0.1)
    with pytest.raises(sc.BrokenPromise, match="beyond C_gamma"):
        with_level(schedule, 0, constant=1e9)
    changes = {"target": "value", "bound": "hoeffding", "looks": (10,)}
    for name, value in (changes | {"adaptive_delta": 0.01}).items():
        with pytest.raises(sc.BrokenPromise, match="fixed number"):
            with_root(schedule, **{name: value})
    plain = replace(schedule.facts, operator=sc.Max())
    with pytest.raises(sc.BrokenPromise, match="not smooth"):
        replace(schedule, facts=plain, clip=(0.0, 1.25))


def test_a_level_beyond_the_horizon_is_refused():
    """A table for 7 steps run with 2: its plug-ins would sample after the end."""
    schedule = paper_schedule(mdp(0.5, 1.0, horizon=7), epsilon=0.3, delta=0.1)
    with pytest.raises(sc.BrokenPromise, match="no steps left"):
        replace(schedule, facts=replace(schedule.facts, horizon=2), clip=(0.0, 3.0))


def test_the_constant_is_exact_only_at_the_end():
    """The table for 2 steps is not enough for 3: its constant then stands for
    one more step.
    """
    schedule = paper_schedule(mdp(0.5, 1.0, horizon=2), epsilon=0.3, delta=0.1)
    with pytest.raises(sc.BrokenPromise, match="above the promised epsilon"):
        replace(schedule, facts=replace(schedule.facts, horizon=3), clip=(0.0, 3.0))


# --- refusals -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "promise"),
    [
        (mdp(1.0, 1.0, horizon=3), {"epsilon": 0.1, "delta": 0.1}),
        (Facts(1, 1, 0.2, sc.Max(), (0.0, 1.0)), {"epsilon": 0.1, "delta": 0.1}),
        (mdp(0.2, 1.0), {"epsilon": 0.0, "delta": 0.1}),
        (mdp(0.2, 1.0), {"epsilon": 0.1}),
        (mdp(0.2, 1.0), {"epsilon": 0.1, "delta": 0.1, "delta_prime": 0.1}),
        (mdp(0.2, 1.0), {"epsilon": 0.1, "delta": 1.0}),
        (mdp(0.2, 1.0), {"epsilon": 0.1, "delta_prime": 0.0}),
    ],
)
def test_bad_input_is_refused(facts, promise):
    with pytest.raises(sc.InvalidInput):
        paper_schedule(facts, **promise)


@pytest.mark.parametrize(
    ("facts", "promise"),
    [
        (mdp(0.9, 50.0, 4), {"epsilon": 0.5, "delta": 0.1}),  # delta' below the floats
        (mdp(0.999, 1.0), {"epsilon": 50.0, "delta_prime": 0.1}),  # 114,448 digits
        # more than 10^4 levels
        (mdp(0.999, 1.0), {"epsilon": 1e-6, "delta_prime": 0.1}),
        (mdp(1.0 - 1e-12, 1.0), {"epsilon": 50.0, "delta": 0.1}),
        (
            mdp(0.99, 1.0, game=True, alternating=True, horizon=10_000),
            {"epsilon": 0.3, "delta_prime": 0.1},
        ),
    ],
)
def test_a_table_too_large_to_make_is_refused_with_its_price(facts, promise):
    with pytest.raises(
        sc.Unpayable, match=r"10\^[0-9.e+]+ oracle calls.*smoothcruiser"
    ):
        paper_schedule(facts, **promise)


def test_a_long_horizon_has_a_box_without_a_hull_of_every_stage():
    facts = mdp(0.95, 5.0, horizon=90)
    schedule = paper_schedule(facts, epsilon=0.2, delta_prime=0.1)
    assert schedule.depth > 64
    top = paper.value_bound(PaperSetting.of(schedule.facts))
    assert schedule.clip == (-top, top)
