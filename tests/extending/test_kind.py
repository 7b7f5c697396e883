"""The recipes of a kind of estimator and of an executor, from docs/extending.md: a kind is
compiled, verified, priced, printed and stored, and refused where nobody can run it.
"""

from dataclasses import replace

import numpy as np
import pytest
import recipes
from recipes import written

import smoothcruiser as sc
from smoothcruiser.display.price_text import explain_dict
from smoothcruiser.engines.registry import EXECUTORS
from smoothcruiser.schedule.compiler.candidates import frontier_of
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.kinds import KINDS, kind_named, register
from smoothcruiser.schedule.paper_schedule import paper_schedule
from smoothcruiser.tree.sample_v import SampleV


@pytest.fixture
def recipe(tmp_path):
    """The page's module, its kind registered while a test runs."""
    with recipes.written("A kind of estimator", tmp_path) as module:
        try:
            yield module
        finally:
            KINDS.pop(module.MyKind.HALVES, None)
            EXECUTORS.pop("halves", None)
            frontier_of.cache_clear()


def problem(**more):
    return sc.make("chain:n=5", discount=0.4, temperature=0.5, **more)


def compiled(recipe, facts, share=0.1):
    return compile_schedule(
        facts,
        epsilon=share * facts.value_span(),
        delta=0.1,
        kinds={recipe.MyKind.HALVES},
        adaptive=False,
    )


def test_beside_the_other_kinds_it_never_makes_a_schedule_dearer(recipe):
    """One more kind to choose from: the frontier is at most as dear."""
    facts = problem().facts
    promise = {"epsilon": 0.1 * facts.value_span(), "delta": 0.1}
    before = compile_schedule(facts, **promise)
    both = compile_schedule(facts, kinds={*sc.Kind, recipe.MyKind.HALVES}, **promise)
    assert both.num_calls <= 1.01 * before.num_calls  # candidates are on a grid
    assert compile_schedule(facts, **promise) == before  # nobody else's changes


def test_it_is_verified(recipe):
    """A table keeps its promise as it was compiled, and no longer with a count
    or a shift altered.
    """
    schedule = compiled(recipe, problem().facts)
    top = schedule.levels[-1]
    assert top.kind == recipe.MyKind.HALVES
    for changes in (
        {"samples": top.samples // 2},
        {"shift": top.shift + 0.1},
        {"query": -1},
    ):
        with pytest.raises(sc.BrokenPromise):
            replace(schedule, levels=(*schedule.levels[:-1], replace(top, **changes)))


def test_it_is_printed_and_is_plain_data(recipe):
    schedule = compiled(recipe, problem().facts)
    assert " halves " in str(schedule)
    data = explain_dict(schedule, problem="", speed=None, measured=False, budget=None)
    assert {row["kind"] for row in data["levels"]} == {"constant", "halves"}
    assert kind_named("halves") is recipe.MyKind.HALVES


def test_the_paper_refuses_it(recipe):
    schedule = paper_schedule(problem().facts, epsilon=0.8, delta=0.1)
    top = replace(schedule.levels[-1], kind=recipe.MyKind.HALVES)
    with pytest.raises(sc.BrokenPromise, match="no halves levels there"):
        replace(schedule, levels=(*schedule.levels[:-1], top))


def test_the_template_of_the_paper_refuses_it(recipe):
    schedule = compiled(recipe, problem().facts)
    last = len(schedule.levels) - 1
    with pytest.raises(sc.InvalidInput, match="has no halves levels"):
        SampleV(problem(), schedule, last, lambda s, a: (0.0, s, False), lambda: 0.5)


def test_a_number_or_a_name_that_is_taken_is_refused(recipe):
    with pytest.raises(sc.InvalidInput, match="is taken by"):
        register(recipe.Halves())
    own = type("Own", (recipe.Halves,), {"kind": sc.Kind.PLUGIN})
    with pytest.raises(sc.InvalidInput, match="choose a larger one"):
        register(own())


def test_an_unknown_kind_is_refused_with_those_that_are_known(recipe):
    schedule = compiled(recipe, problem().facts)
    del KINDS[recipe.MyKind.HALVES]
    with pytest.raises(sc.InvalidInput, match=r"no estimator of the kind .*HALVES"):
        replace(schedule)
    with pytest.raises(sc.InvalidInput, match="no estimator of the kind 'halves'"):
        kind_named("halves")


@pytest.mark.parametrize("executor", ["reference", "python", "compiled", "batched"])
def test_an_engine_that_does_not_declare_it_refuses_it(recipe, executor):
    """In one sentence, which names who can, before anything runs."""
    schedule = compiled(recipe, problem().facts)
    with pytest.raises(
        sc.InvalidInput, match=r"kind halves; executors that can: halves"
    ):
        sc.run(problem(), schedule, executor=executor)


def test_an_engine_that_declares_it_keeps_the_promise(recipe):
    """Within epsilon of the exact values, at exactly the price."""
    schedule = compiled(recipe, problem().facts, share=0.25)
    estimate = sc.run(problem(), schedule, executor="halves", seed=3)
    exact = sc.plan(problem(), method="exact")
    assert (
        np.abs(np.subtract(estimate.q_values, exact.q_values)).max()
        <= schedule.epsilon
    )
    assert estimate.num_calls == schedule.num_calls


# --- an executor --------------------------------------------------------------


PROMISE = {
    "method": "smoothcruiser",
    "epsilon": "25%",
    "delta": 0.1,
    "seed": 3,
    "shards": 5,
}


@pytest.fixture
def backwards(tmp_path):
    before = dict(EXECUTORS)
    try:
        with written("An executor", tmp_path) as module:
            yield module
    finally:
        EXECUTORS.clear()
        EXECUTORS.update(before)


def step(state, action, rng):
    return rng.random(), (state + action + int(rng.integers(3))) % 5


def executor_problem(kind=sc.MDP, **more):
    facts = {"discount": 0.4, "operator": sc.Entropy(1.0), "initial_state": 0}
    return kind(step, num_actions=2, **facts, **more)


def test_an_executor_is_one_file(backwards, monkeypatch):
    """The law of a row: same schedule, same shards, so the bits of ``reference``;
    and it was the recipe that ran them, in its own order.
    """
    indices = []
    plain = backwards.ReferenceEngine.run_shard

    def spied(engine, shard, seed):
        indices.append((shard.index, shard.action))
        return plain(engine, shard, seed)

    monkeypatch.setattr(backwards.ReferenceEngine, "run_shard", spied)
    mine = sc.plan(executor_problem(), executor="backwards", **PROMISE)
    assert indices
    assert indices == sorted(indices, reverse=True)
    known = sc.plan(executor_problem(), executor="reference", **PROMISE)
    assert mine.executor == "backwards"
    assert (mine.value, mine.q_values, mine.interval, mine.num_calls) == (
        known.value,
        known.q_values,
        known.interval,
        known.num_calls,
    )


def test_the_table_lists_it(backwards):
    """Whoever names an executor that does not exist is told of this one."""
    with pytest.raises(
        sc.InvalidInput, match=r"executor 'sideways'.*dask, backwards\."
    ):
        sc.plan(executor_problem(), executor="sideways", **PROMISE)


def test_it_refuses_in_one_sentence(backwards):
    """What ``refuses`` returns is what the user reads, before anything runs."""
    game = executor_problem(sc.Game, player=lambda state: 1 + state % 2)
    with pytest.raises(sc.InvalidInput, match=r"'backwards' runs MDPs; use executor="):
        sc.plan(game, executor="backwards", **PROMISE)
