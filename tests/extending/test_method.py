"""The recipes of a method, of a rule of trees and of a command, from docs/extending.md."""

import json
import sys
from dataclasses import dataclass

import numba
import pytest
from recipes import recipe, written

import smoothcruiser as sc
from smoothcruiser import cli, compare
from smoothcruiser.cli.app import main
from smoothcruiser.methods import METHODS, register
from smoothcruiser.tree.search_rules import TREE_SEARCHES


@pytest.fixture
def flat(tmp_path):
    before, searches = dict(METHODS), dict(TREE_SEARCHES)
    with written("A method", tmp_path) as module:
        yield module
    for table, rows in ((METHODS, before), (TREE_SEARCHES, searches)):
        table.clear()
        table.update(rows)


def chain():
    return sc.make("chain:n=3", discount=0.5, operator="max")


def test_a_new_method_is_known_by_its_name(flat):
    answer = sc.plan(
        chain(), method="flat", budget=6_000, options={"depth": 5}, seed=1
    )
    assert answer.method == "flat"
    assert answer.action == sc.plan(chain(), method="exact").action
    assert answer.num_calls <= 6_000
    assert answer.certificate is None
    again = sc.plan(chain(), method=flat.Flat(depth=5), budget=6_000, seed=1)
    assert again.q_values == answer.q_values
    assert sc.explain(chain(), method="flat", budget=6_000).num_calls == 6_000
    assert sc.Agent(chain(), "flat", budget=2_000).act(0) == answer.action


def test_what_it_does_not_take_is_refused_for_it_too(flat):
    with pytest.raises(sc.InvalidInput, match=r"flat does not use epsilon=.*random p"):
        sc.plan(chain(), method="flat", epsilon=0.1)
    with pytest.raises(sc.InvalidInput, match="flat has no parameter 'deep'"):
        sc.plan(chain(), method="flat", options={"deep": 3})
    with pytest.raises(sc.InvalidInput, match="There is a method 'flat' already"):
        register(flat.Flat())


def test_compare_and_the_command_line_know_it(flat, monkeypatch, capsys):
    runs = compare(chain(), budgets=[2_000])
    assert "flat" in [run.method for run in runs]
    assert all(run.value is not None for run in runs if run.method == "flat")
    words = "plan chain:n=3 --discount 0.5 --operator max --method flat --budget 900"
    monkeypatch.setattr(sys, "argv", ["smoothcruiser", *words.split(), "--json"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["method"] == "flat"


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (sc.UCT, "A method is an object"),
        (3, "A method is an object"),
        (sc.UCT(), "There is a method 'uct' already"),
    ],
)
def test_what_is_no_method_is_refused_when_it_is_registered(bad, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence):
        register(bad)


def test_a_keyword_that_plan_does_not_have_is_refused_when_it_is_registered(flat):
    class Misspelled(flat.Flat):
        name = "misspelled"

        @property
        def takes(self):
            return frozenset(("budgett",))

    with pytest.raises(sc.InvalidInput, match=r"misspelled.takes must be .*budgett"):
        register(Misspelled())


def test_a_method_that_fails_leaves_a_row_and_not_a_ruin(flat):
    class Broken(flat.Flat):
        name = "broken"

        def prepare(self, query):
            raise ZeroDivisionError("by nothing")

    register(Broken())
    rows = compare(chain(), budgets=[500], methods=["broken", "uct"])
    assert rows[0].note == "ZeroDivisionError: by nothing"
    assert rows[1].value is not None


def test_a_tree_search_is_one_class(flat):
    """A subclass of Search, registered, is grown, kept by agents and certified."""

    @dataclass(frozen=True, kw_only=True)
    class Greedy(sc.UCT):
        """UCT that explores little."""

        exploration: float | None = 0.01
        name = "greedy"

    register(Greedy())
    answer = sc.plan(chain(), method="greedy", budget=3_000, certify=True, delta=0.1)
    assert answer.method == "greedy"
    assert answer.certificate is not None
    assert sc.Agent(chain(), "greedy", budget=500).act(0) in (0, 1)
    tree = sc.Tree(chain(), method="greedy")
    assert tree.method.exploration == 0.01
    assert "greedy" in [run.method for run in compare(chain(), budgets=[500])]


# --- a rule of trees ----------------------------------------------------------


@pytest.fixture
def rules(tmp_path):
    before, searches = dict(METHODS), dict(TREE_SEARCHES)
    with written("A tree-search rule", tmp_path) as module:
        yield module
    for table, rows in ((METHODS, before), (TREE_SEARCHES, searches)):
        table.clear()
        table.update(rows)


def walk(place, action, rng):
    """A walk that pays for the height reached."""
    move = action - 1 if rng.random() < 0.8 else rng.integers(3) - 1
    after = min(6, max(0, place + move))
    return after / 6.0, after


def grow(step, method, **more):
    problem = sc.MDP(
        step, num_actions=3, discount=0.6, operator=sc.Max(), initial_state=3
    )
    tree = sc.Tree(problem, method=method, seed=4, **more)
    return tree.grow(simulations=300).node(0)


def test_it_is_planned_with_by_its_name(rules):
    chain = sc.make("chain:n=3", discount=0.5, operator="max")
    answer = sc.plan(chain, method="root-uct", budget=3_000, seed=1)
    assert answer.method == "root-uct"
    assert answer.action == sc.plan(chain, method="exact").action


def test_its_own_descent_decides_the_visits(rules):
    """Of three actions it goes down by those that its formula ranks first."""
    node = grow(walk, rules.RootUCT(), executor="reference")
    flat = grow(walk, rules.RootUCT(exploration=1e6), executor="reference")
    assert max(flat.edge_visits) - min(flat.edge_visits) <= 1
    assert max(node.edge_visits) - min(node.edge_visits) > 50


@pytest.mark.compiles
@pytest.mark.parametrize("leaves", [{}, {"value": lambda place: 0.5}])
def test_both_forms_have_the_same_bits(rules, leaves):
    method = rules.RootUCT(**leaves)
    plain = grow(walk, method, executor="reference")
    compiled = grow(numba.njit(walk), method, executor="compiled")
    assert plain.edge_visits == compiled.edge_visits
    assert plain.edge_totals == compiled.edge_totals


def test_a_rule_without_its_function_is_refused(rules):
    class Forgetful(rules.RootUCT):
        pick = None

    with pytest.raises(sc.InvalidInput, match="needs a function pick"):
        grow(walk, Forgetful())


# --- a command in one file ----------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    (tmp_path / "worth.py").write_text(recipe("A command"))
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["smoothcruiser", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capsys.readouterr()

    yield command
    sys.modules.pop("smoothcruiser.cli.worth", None)


def test_a_new_command_is_listed_and_runs(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "worth" in out
    words = ("worth", "chain:n=3", "--discount", "0.5", "--operator", "max")
    code, out, _ = run(*words, "--json")
    assert code == 0
    assert abs(json.loads(out)["value"] - 0.5) < 0.6
    code, out, _ = run(*words, "--state", "1")
    assert code == 0
    assert float(out) > 0.0
