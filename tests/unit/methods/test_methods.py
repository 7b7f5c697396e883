"""Methods: options, names, and every table that has a row per method."""

import copy
import dataclasses
import pickle
from pathlib import Path

import click
import pytest
from worlds import mdp

import smoothcruiser as sc
from fresh_process import run_python
from smoothcruiser.cli.app import app
from smoothcruiser.comparison import planners
from smoothcruiser.methods import METHODS, Methods, resolve
from smoothcruiser.methods.base import Session
from smoothcruiser.methods.tree_search import TreeSearch
from smoothcruiser.query import DEFAULTS, KEYWORDS, Query
from smoothcruiser.tree.search_rules import TREE_SEARCHES

NAMES = (
    "auto smoothcruiser paper sparse-sampling certified exact uct ments rents tents"
)
NAMES = f"{NAMES} bts dents puct gumbel".split()

# a value of every keyword that differs from its default and is valid
SET = {
    "epsilon": 0.2,
    "delta": 0.1,
    "target": "value",
    "budget": 10**6,
    "seconds": 5.0,
    "simulations": 3,
    "max_states": 7,
    "seed": 7,
    "executor": "python",
    "workers": 2,
    "scheduler": "tcp://127.0.0.1:1",
    "tls": (__file__, __file__, __file__),
    "shards": 2,
    "store": "runs.db",
    "progress": print,
}


def step(state, action, rng):
    return rng.random(), (state + action) % 3


def simulator(**changes):
    return mdp(step, **({"discount": 0.4} | changes))


def known():
    return sc.make("chain:n=3", discount=0.4, temperature=1.0)


class Counting:
    """A step that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, state, action, rng):
        self.calls += 1
        return step(state, action, rng)


def test_there_are_fourteen_methods_and_each_is_a_frozen_object():
    assert list(METHODS) == NAMES
    for name, method in METHODS.items():
        assert method.name == name
        assert resolve(name) is method
        assert resolve(method) is method
        with pytest.raises(dataclasses.FrozenInstanceError):
            method.name_of_a_new_field = 1
        assert pickle.loads(pickle.dumps(method)) == method
        assert hash(method) == hash(copy.deepcopy(method))


@pytest.mark.compiles
@pytest.mark.parametrize(
    "given",
    [
        sc.Auto(),
        sc.SmoothCruiser(),
        sc.SparseSampling(),
        sc.Paper(delta_prime=0.01),
        sc.CertifiedSearch(),
        sc.Exact(),
        sc.UCT(exploration=2.0),
    ],
    ids=lambda m: m.name,
)
def test_a_method_object_plans_as_its_name_does(given):
    problem = known()
    asked = {"epsilon": 0.3, "delta": 0.1} if given.name != "uct" else {"budget": 500}
    if given.name == "paper":  # its price cannot be paid, its explanation is enough
        asked.pop("delta")
        by_object = sc.explain(problem, method=given, **asked)
        by_name = sc.explain(problem, method="paper", delta_prime=0.01, **asked)
        assert by_object == by_name
        return
    options = {"exploration": 2.0} if given.name == "uct" else None
    by_object = sc.plan(problem, method=given, seed=3, **asked)
    by_name = sc.plan(problem, method=given.name, options=options, seed=3, **asked)
    assert by_object.value == by_name.value
    assert by_object.notes == by_name.notes


@pytest.mark.parametrize("name", NAMES)
def test_every_option_that_a_method_does_not_take_is_refused_in_one_sentence(name):
    """Law: given - takes is empty, or the sentence names every one of the rest."""
    method = METHODS[name]
    assert method.takes <= set(KEYWORDS)
    for keyword in KEYWORDS:
        query = Query.of(known(), **{keyword: SET[keyword]})
        assert query.given == {keyword}
        if keyword in method.takes:
            continue
        with pytest.raises(sc.InvalidInput) as caught:
            sc.plan(known(), method=name, **{keyword: SET[keyword]})
        sentence = str(caught.value)
        assert f"{name} does not use {keyword}=" in sentence
        assert "drop it" in sentence
        assert "\n" not in sentence


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_an_option_at_its_default_was_not_given(keyword):
    assert Query.of(known(), **{keyword: DEFAULTS[keyword]}).given == frozenset()


@pytest.mark.compiles
def test_certify_lets_a_tree_search_take_delta():
    problem = known()
    with pytest.raises(sc.InvalidInput, match="uct does not use delta"):
        sc.plan(problem, method="uct", delta=0.1, budget=100)
    answer = sc.plan(problem, method="uct", delta=0.1, budget=1000, certify=True)
    assert answer.certificate.confidence == pytest.approx(0.9)


@pytest.mark.compiles
def test_auto_says_in_a_note_what_the_chosen_method_does_not_use():
    answer = sc.plan(known(), epsilon=0.3, delta=0.1, executor="python")
    assert answer.method == "exact"
    assert any("exact does not use executor" in note for note in answer.notes)


CASES = {
    "tables": (known, {"epsilon": 0.3, "delta": 0.1}),
    "payable": (simulator, {"epsilon": 0.3, "delta": 0.1}),
    "unpayable": (simulator, {"epsilon": 0.3, "delta": 0.1, "budget": 3_000}),
    "far too dear": (lambda: simulator(discount=0.9), {"epsilon": "9%", "delta": 0.1}),
    "horizon": (
        lambda: simulator(discount=1.0, horizon=2),
        {"epsilon": 0.4, "delta": 0.2},
    ),
}


@pytest.mark.compiles
@pytest.mark.parametrize("case", CASES)
def test_auto_runs_what_it_explains(case):
    """Law: explain("auto") and plan("auto") are the same choice, with the same price."""
    make, asked = CASES[case]
    ready = sc.prepare(make(), **asked)
    shown = sc.explain(make(), method="auto", **asked)
    answer = sc.plan(make(), **asked)
    assert shown == ready.explanation
    assert answer.method in getattr(shown, "methods", (shown.method,))
    assert answer.notes[: len(ready.notes)] == ready.notes
    assert ready.run().value == answer.value
    if shown.num_calls is not None:
        assert answer.num_calls <= shown.num_calls


@pytest.mark.parametrize("name", NAMES)
def test_preparing_makes_no_oracle_call(name):
    counting = Counting()
    model = {"outcomes": lambda s, a: [(1.0, 0.5, (s + a) % 3)]}
    problem = dataclasses.replace(simulator(), oracle=counting, **model)
    takes = METHODS[name].takes
    asked = {k: v for k, v in {"epsilon": 0.3, "delta": 0.1}.items() if k in takes}
    counting.calls = 0
    ready = sc.prepare(problem, method=name, **asked)
    assert str(ready)
    assert ready.explanation.to_json()
    assert counting.calls == 0
    assert ready.method.name in NAMES


def test_a_terminal_state_is_worth_nothing_whatever_the_method():
    problem = simulator(terminal=lambda s: s == 0)
    for name in NAMES:
        if name == "exact":
            continue  # no model
        answer = sc.prepare(problem, method=name).run()
        assert (answer.value, answer.method, answer.delta) == (0.0, name, 0.0)


def test_a_terminal_start_still_has_its_schedule_explained():
    """Law: explain of a schedule has levels, and ``run`` takes it to another state."""
    problem = simulator(terminal=lambda s: s == 0)
    schedule = sc.explain(problem, epsilon=0.3, delta=0.1)
    assert schedule.levels
    assert sc.run(problem, schedule, 1).certificate.kind == "schedule"
    assert (sc.run(problem, schedule).value, sc.run(problem, schedule).method) == (
        0.0,
        "smoothcruiser",
    )


def by_uct(**asked):
    return lambda p: sc.plan(p, method="uct", budget=50, **asked)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("^plan has no option 'epsilom'; did you", lambda p: sc.plan(p, epsilom=0.1)),
        ("^An Agent has no option 'bugdet'", lambda p: sc.Agent(p, bugdet=3)),
        ("^evaluate has no option", lambda p: sc.evaluate(p, [0, 0, 0], bugdet=3)),
        (
            "^run has no option",
            lambda p: sc.run(p, sc.explain(p, epsilon=0.3, delta=0.1), notes=()),
        ),
        ("^resume has no option", lambda p: sc.resume(1, "runs.db", seed=3)),
        ("^plan_many has no option 'state'", lambda p: sc.plan_many(p, [0], state=1)),
        (
            "certify= belongs to tree searches",
            lambda p: sc.plan(p, certify=True, method="certified"),
        ),
        (
            "exact has no parameter 'depth'",
            lambda p: sc.plan(p, method="exact", options={"depth": 3}),
        ),
        ("bound must be one of", lambda p: sc.CertifiedSearch(bound="magic")),
        (
            "Tree search runs on executor",
            lambda p: sc.explain(p, method="uct", budget=50, executor="batched"),
        ),
        ("certify must be True or False", by_uct(options={"certify": "false"})),
        (
            "certified search does not run on",
            lambda p: sc.plan(p, method="certified", budget=50, executor="batched"),
        ),
        ("progress must be True", by_uct(progress="bar")),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(words, call):
    with pytest.raises(sc.InvalidInput, match=words):
        call(known())


@pytest.mark.compiles
def test_an_exact_answer_says_where_a_promise_is_below_rounding():
    answer = sc.plan(known(), method="exact", epsilon=1e-18)
    assert any("below what double precision" in note for note in answer.notes)
    kept = sc.plan(known(), method="exact", epsilon=0.1)
    assert not any("double precision" in note for note in kept.notes)


# --- every method is known wherever methods are listed ------------------------


ROOT = Path(__file__).parents[3]


def problem():
    return sc.make("chain:n=3", discount=0.2, temperature=1.0)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_documented_listed_and_keeps_a_session(name):
    method = METHODS[name]
    assert method.__doc__
    assert method.because.startswith(": ")
    assert method.takes
    assert set(method.takes) <= set(KEYWORDS)
    help_text = app.get_command(click.Context(app), "plan").get_help(
        click.Context(app)
    )
    assert name in " ".join(help_text.split())
    read = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    assert any(name in page.read_text() for page in read)
    session = method.session(Query.of(problem()))
    assert isinstance(session, Session)
    assert session.decisions == 0


def test_tree_searches_are_methods_and_planners_are_known():
    assert set(TREE_SEARCHES) == {
        name for name, method in METHODS.items() if isinstance(method, TreeSearch)
    }
    assert planners() == ("smoothcruiser", "certified", *TREE_SEARCHES)


@pytest.mark.compiles
def test_a_session_decides_as_plan_does_at_its_own_seed():
    """Law: the default session's first decision is plan with the seed of (PLANS, 0)."""
    import numpy as np

    from smoothcruiser.jit.random import Key

    first = np.random.SeedSequence(5, spawn_key=(Key.PLANS, 0)).generate_state(1)[0]
    asked = {"epsilon": 0.3, "delta": 0.1, "method": "smoothcruiser"}
    agent = sc.Agent(problem(), seed=5, **asked)
    agent.act(0)
    assert (
        agent.estimate.q_values
        == sc.plan(problem(), seed=int(first), **asked).q_values
    )


# --- methods are imported when they are used ----------------------------------


PROGRAM = """
import sys
import smoothcruiser as sc

problem = sc.make("chain:n=3", discount=0.5, operator="max")
sc.plan(problem, method={method!r}, **{asked!r})
print(*(name for name in {others!r} if "smoothcruiser." + name in sys.modules))
"""
SCHEDULES = (
    "schedule.schedule",
    "schedule.compiler.optimizer",
    "methods.schedules.scheduled",
)
CHOICE = ("methods.auto", "methods.portfolio", "methods.many")
TREES = ("tree.search_rules", "tree.tree", "methods.tree_search")
CERTIFIED = ("methods.certified_search", "certified.search")
SOLVER = ("exact", "methods.exact_method")
PROMISE = {"epsilon": 0.5, "delta": 0.1}


@pytest.mark.parametrize(
    ("method", "asked", "others"),
    [
        ("uct", {"budget": 100}, (*SCHEDULES, *CHOICE, *CERTIFIED, *SOLVER)),
        ("certified", PROMISE, (*SCHEDULES, *CHOICE, *TREES)),
        ("smoothcruiser", PROMISE, (*CHOICE, *CERTIFIED, *TREES, *SOLVER)),
        ("exact", {}, (*SCHEDULES, *CHOICE, *TREES, *CERTIFIED)),
    ],
)
@pytest.mark.compiles
def test_a_method_loads_no_other(method, asked, others):
    program = PROGRAM.format(method=method, asked=asked, others=others)
    assert run_python(program).stdout.split() == []


def test_a_copy_of_the_table_is_a_table_of_its_own():
    mine = copy.copy(METHODS)
    del mine["uct"]
    assert "uct" in METHODS
    assert "uct" not in mine
    assert str(METHODS).startswith("Methods(auto, smoothcruiser, paper")


def test_to_ask_whether_there_is_a_method_imports_none():
    methods = Methods({"absent": "methods.absent:Absent"})
    assert "absent" in methods
    assert "other" not in methods
