"""A method in one file: it is planned with, explained, acted with and refused options."""

import json
import sys
from dataclasses import dataclass

import pytest
from recipes import written

import smoothcruiser as sc
from smoothcruiser import compare
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
