"""Every object shows itself: as text that fits 80 columns, as HTML that can be read
beside others, in one short line; and hostile names command neither.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

import pytest
from results import a_comparison, an_estimate
from rich.cells import cell_len

import smoothcruiser as sc
from fresh_process import run_python
from smoothcruiser import displayable as shown
from smoothcruiser.comparison import jobs_of
from smoothcruiser.display import markup as picture
from smoothcruiser.display import page
from smoothcruiser.display.document import Column, Grid, table_lines
from smoothcruiser.display.listing_pages import runs_page
from smoothcruiser.display.terminal import text_of
from smoothcruiser.estimate import unsampled_estimate
from smoothcruiser.schedule.number_text import distance, format_bound

pytestmark = pytest.mark.compiles

# markup, a terminal's codes, a carriage return, right-to-left, zero-width, a lone byte
HOSTILE = "<script>alert(1)</script>\x1b[31m&\r\n\u202e\u200b\udcff\"'" + "x" * 60
LABELS = ("buy", HOSTILE, "wait and see what the others do before the market closes")


def step(state: int, action: int, rng) -> tuple[float, int]:
    return 0.5 * rng.random(), (state + action) % 3


def world(name: str = HOSTILE) -> sc.MDP:
    facts = {"discount": 0.3, "operator": sc.Entropy(1.0), "initial_state": 0}
    return sc.MDP(step, num_actions=3, name=name, **facts)


@cache
def known():
    made = sc.make("garnet:states=30,actions=3", discount=0.5, temperature=0.5)
    return replace(made, name=HOSTILE)


@cache
def answer() -> sc.Estimate:
    return sc.plan(world(), epsilon="30%", delta=0.1, method="smoothcruiser")


@cache
def memory():
    made = sc.Certified(world(), delta=0.1)
    made.query(0, epsilon=0.3)
    made.query(1, epsilon=0.3)
    return made


def hostile_table():
    table = memory().table().kept()
    return replace(
        table, rows=tuple(replace(row, label=HOSTILE) for row in table.rows)
    )


def forecast(method: str, **asked):
    return sc.explain(world(), method=method, **asked)


PROMISE = {"epsilon": "30%", "delta": 0.1}
# an example of every class in shown.BUILDERS
OBJECTS: dict[str, Callable[[], Any]] = {
    "Certificate": lambda: answer().certificate,
    "Certified": memory,
    "CertifiedForecast": lambda: forecast("certified", **PROMISE),
    "Check": lambda: sc.check(world()),
    "Comparison": lambda: sc.compare(known(), budgets=[500], methods=["uct", "ments"]),
    "Decision": lambda: sc.prepare(world(), **PROMISE).explanation,
    "Estimate": lambda: replace(answer(), labels=LABELS, notes=(HOSTILE,)),
    "Estimates": lambda: sc.plan_many(known(), [0, 1]),
    "Forecast": lambda: forecast("uct", budget=100),
    "Gap": lambda: replace(sc.gap(known(), delta=0.1, seed=1), notes=(HOSTILE,)),
    "GapCertificate": lambda: sc.gap(known(), delta=0.1, seed=1).certificate,
    "KeptTable": lambda: hostile_table(),
    "OperatorReport": lambda: sc.check_operator(sc.Entropy(0.5)),
    "Prepared": lambda: sc.prepare(world(), method="smoothcruiser", **PROMISE),
    "Problem": known,
    "Relaxation": lambda: forecast(
        "smoothcruiser", options={"relax": "entropy"}, **PROMISE
    ),
    "Schedule": lambda: forecast("smoothcruiser", **PROMISE),
    "Solution": lambda: sc.solve(known()),
    "Summary": lambda: sc.play(
        sc.Agent(world(), "uct", budget=20), episodes=2, steps=2
    ),
    "Table": lambda: memory().table(),
    "Tree": lambda: sc.Tree(known(), method="uct").grow(simulations=200),
}
VOID = {"br", "meta", "line", "circle", "rect", "path", "img"}


class Elements(HTMLParser):
    """The elements of HTML, which must be closed in the order they were opened."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.classes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.classes |= set((dict(attrs).get("class") or "").split())
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str):
        assert self.open.pop() == tag

    def handle_data(self, data: str):
        if self.open[-1:] != ["style"]:
            self.text += data


def test_every_class_that_shows_itself_has_a_builder_and_an_example():
    """And every builder is there, and belongs to a class that shows itself."""
    assert set(OBJECTS) == set(shown.BUILDERS)
    for name in sc.__all__:
        getattr(sc, name)  # imported when it is first asked for

    def below(cls: type) -> set[type]:
        return {cls}.union(*(below(other) for other in cls.__subclasses__()))

    ours = {
        cls
        for cls in below(shown.Shown)
        if cls.__module__.startswith("smoothcruiser.") and cls is not shown.Shown
    }
    named = {cls.__name__ for cls in ours}
    assert set(shown.BUILDERS) <= named
    for cls in ours:
        assert any(base.__name__ in shown.BUILDERS for base in cls.__mro__), cls
    for place in shown.BUILDERS.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_shows_itself_in_three_forms(name):
    """Text that fits and obeys no code; HTML without a script or a request; one line."""
    made = OBJECTS[name]()
    assert str(made) == made.summary()
    assert str(made).strip()
    for width in (40, 80, 100):
        lines = made.summary(width).split("\n")
        assert all(line.isprintable() for line in lines)
        assert max(map(cell_len, lines)) <= width, max(lines, key=cell_len)
    html = made._repr_html_()
    elements = Elements(html)
    assert elements.open == []
    assert not {"script", "img", "link", "iframe", "object", "form"} & elements.tags
    assert not {"id", "style", "href", "src"} & elements.attributes
    assert not [a for a in elements.attributes if a.startswith("on")]
    addresses = re.findall(r"https?://[^\"' ]+", html)
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(", html)
    assert all(c.isprintable() or c == "\n" for c in html)
    assert elements.text.strip()
    assert elements.classes <= set(re.findall(r"\.([a-z-]+)", page.STYLE))
    line = repr(made)
    assert line.startswith("MDP(" if name == "Problem" else f"{name}(")
    assert line.endswith(")")
    assert len(line) <= 120
    assert line.isprintable()


def test_an_estimate_names_what_a_reader_needs():
    plain = sc.plan(sc.make("chain:n=5", discount=0.2, temperature=10))
    assert repr(plain) == (
        "Estimate(value=8.66493, interval=(8.66493, 8.66493), action=1, label='right', "
        "method='exact', calls=0)"
    )
    made = OBJECTS["Estimate"]()
    assert "buy" in str(made)
    assert re.search(r"^  wait and see.*… ", str(made), re.MULTILINE)
    html = made._repr_html_()
    assert LABELS[2] in html  # whole in the table, cut in the picture
    assert "<svg" in html
    assert "&lt;script&gt;" in html


def test_style_rules_stay_inside_their_piece():
    """Several pieces stand in one notebook, and change nothing around them."""
    rules = re.sub(r"\{[^}]*\}", "|", page.STYLE).replace("\n", " ").split("|")
    selectors = [s.strip() for rule in rules for s in rule.split(",") if s.strip()]
    assert len(selectors) > 10
    assert all(s.startswith("div.smoothcruiser") for s in selectors)


def test_a_wide_terminal_is_used_and_a_string_is_not_wider(monkeypatch):
    assert shown.columns() == 80
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    assert shown.columns() == 100
    monkeypatch.setenv("COLUMNS", "50")
    assert shown.columns() == 80
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert str(OBJECTS["Estimate"]()).replace("\n", "").isprintable()


def test_importing_loads_no_renderer_and_printing_no_compiler():
    code = (
        "import sys, smoothcruiser as sc\n"
        "p = sc.make('chain:n=5', discount=0.2, temperature=10)\n"
        "e = sc.explain(p, epsilon='20%', delta=0.1)\n"
        "early = {'rich', 'smoothcruiser.display'} & set(sys.modules)\n"
        "str(e), e._repr_html_(), repr(e), str(p), p._repr_html_()\n"
        "assert not early, early\n"
        "assert 'numba' not in sys.modules\n"
        "assert 'jinja2' not in sys.modules\n"
    )
    run_python(code)


def test_an_object_of_a_users_own_costs_one_builder(monkeypatch):
    class Mine(shown.Shown):
        sentence = "thirteen calls"

    with pytest.raises(TypeError, match=r"Mine has no page"):
        str(Mine())
    builder = "smoothcruiser.display.plans:forecast_page"
    monkeypatch.setitem(shown.BUILDERS, "Mine", builder)
    assert str(Mine()) == "thirteen calls"
    assert "<p>thirteen calls</p>" in Mine()._repr_html_()


def test_brief_lines_hold_any_value():
    @dataclass
    class Loud:
        def __repr__(self) -> str:
            return "a\x1b[31mb"

    assert shown.brief("X", a=1.23456789, b=(0.5, math.inf)) == (
        "X(a=1.23457, b=(0.5, inf))"
    )
    assert shown.brief("X", calls=10**5000) == "X(calls=1.00e5000)"
    assert shown.brief("X", state=Loud()) == "X(state=a\\x1b[31mb)"
    cut = shown.brief("X", name="n" * 50)
    assert cut == f"X(name='{'n' * 37}…')"
    assert len(shown.brief("X", **{f"a{i}": "y" * 30 for i in range(9)})) == 120


# --- parts --------------------------------------------------------------------


def lines(grid: Grid, width: int) -> list[str]:
    return [line.plain for line in table_lines(grid, width)]


def test_a_table_gives_way_without_losing_anything_first():
    """By hand: 2 + 5 + 2 + 13 columns fit 22; with 21 the heading is broken."""
    columns = (Column("name"), Column("action regret", right=True))
    grid = Grid(columns, (("uct", "1.5"), ("ments", "12")), best=1)
    whole = ["  name   action regret", "  uct              1.5"]
    assert lines(grid, 22)[:2] == whole
    assert lines(grid, 21) == [
        "         action",
        "  name   regret",
        "  uct       1.5",
        "  ments      12",
    ]
    assert str(table_lines(grid, 22)[2].style) == "bold"


def test_names_are_cut_or_stand_below_or_are_wrapped():
    rows = (("a" * 20, "1"), ("日本語" * 4, "2"))
    cut = Grid((Column("name", fit="cut"), Column("n", right=True)), rows)
    shown_rows = lines(cut, 15)
    assert shown_rows[1] == "  aaaaaaaaa…  1"
    assert shown_rows[2] == "  日本語日 …  2"  # two columns for each letter
    below = Grid((Column("run"), Column("name", fit="below")), (("1", "b" * 30),))
    assert lines(below, 40) == ["  run  name", f"  1    {'b' * 30}"]
    assert lines(below, 20) == ["  run", "  1", f"       {'b' * 30}"]
    wrapped = Grid((Column(""), Column("", fit="wrap")), (("x", "one two " * 5),))
    assert lines(wrapped, 25)[:2] == [
        "  x  one two one two one",
        "     two one two one two",
    ]


def test_a_table_that_no_columns_fit_stands_row_by_row():
    """By hand: 2 + 2 + 5 + 2 + 12 columns do not fit 20; headings are 5 wide."""
    columns = (Column("a"), Column("value", right=True), Column(""))
    rows = (("x", "1.5", "recommended!"), ("y", "22222", ""))
    grid = Grid(columns, rows, best=0, more="… 5 more rows of the table")
    assert lines(grid, 20) == [
        "  a      x",
        "  value  1.5",
        "         recommende…",
        "",
        "  a      y",
        "  value  22222",
        "  … 5 more rows of",
        "  the table",
    ]
    assert str(table_lines(grid, 20)[0].style) == "bold"
    blank = Grid((Column("a"), Column("b", fit="wrap")), (("x", " " * 90),))
    assert lines(blank, 40)[1] == "  x"


def test_runs_fit_80_columns_with_long_names():
    class Run:
        def __init__(self, name: str):
            self.name = name

        def to_dict(self) -> dict[str, Any]:
            numbers = {"run": 1, "epsilon": 0.125, "delta": 0.05, "calls_done": 10**7}
            texts = {"problem": self.name, "method": "sparse-sampling"}
            price = {"num_calls": 10**9, "log10_calls": 9.0}
            return numbers | texts | price | {"status": "unfinished"}

    name = "gym:FrozenLake-v1,map_name=8x8,is_slippery=true"
    text = text_of(runs_page("runs.db", [Run(name), Run("chain:n=5")]), 80)
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert name in text
    assert re.search(r"^ +1 +sparse-sampling .* unfinished$", text, re.MULTILINE)


def test_many_actions_are_counted_not_listed():
    count = 500
    values = tuple(float(a % 7) for a in range(count))
    policy = tuple(2.0 * a / count / (count - 1) for a in range(count))
    changes = {"action": 499, "certificate": None}
    many = replace(answer(), q_values=values, policy=policy, **changes)
    text = str(many)
    assert "… 440 more actions, illegal or less likely" in text
    assert re.search(r"^ +499 .* recommended$", text, re.MULTILINE)
    assert many._repr_html_().count("<circle") == 60
    named = replace(
        world("shop"), num_actions=count, actions=[f"a{i}" for i in range(count)]
    )
    assert re.search(r"a58, a59, 440 more$", str(named), re.MULTILINE)
    equal = replace(many, policy=(1.0 / count,) * count)  # the best one is among them
    assert re.search(r"^ +499 .* recommended$", str(equal), re.MULTILINE)


def test_a_comparison_is_a_sequence_of_its_runs():
    made = sc.compare(known(), budgets=[300], methods=["uct"], seeds=(0, 1))
    assert [run.seed for run in made] == [0, 1]
    assert made[0] is made.runs[0]
    assert made[-1:] == made.runs[1:]
    assert len(made) == made.repeats == 2
    assert made.truth is not None
    assert (made.problem, made.state) == (known().name, 0)
    stopped = replace(made, not_run=tuple(jobs_of(["ments"], [300], [0])))
    assert "runs that were cut, by planner: ments (1)" in str(stopped)
    assert stopped.to_dict()["not_run"][0]["method"] == "ments"


def test_a_memory_shows_its_queries_in_their_order():
    made = sc.Certified(world("ring"), delta=0.1)
    assert "No query so far" in str(made)
    first = made.query(2, epsilon=0.3)
    made.query(2, epsilon=0.25)
    second = made.query(0, epsilon=0.2)
    row = r"^ +(\d) +\d\.\d+ +(?:[\d.]+ +)?\[(\S+), (\S+)\]"
    rows = re.findall(row, str(made), re.MULTILINE)
    assert [row[0] for row in rows] == ["2", "0"]
    low, high = float(rows[0][1]), float(rows[0][2])
    assert high - low <= 0.5 + 0.01 < first.interval[1] - first.interval[0] + 0.2
    assert float(rows[1][1]) == pytest.approx(second.interval[0], abs=0.01)
    assert f"{made.num_calls:,} oracle calls" in str(made)


def test_many_answers_show_the_usual_error_of_those_that_have_one():
    with_error = an_estimate(standard_error=0.0314)
    for made in (
        sc.Estimates((with_error, an_estimate()), 0.1, 9, 0.1, "auto"),
        sc.Estimates((with_error,), 0.1, 9, 0.1, "auto"),
    ):
        for text in (str(made), made._repr_html_()):
            assert "usual error" in text
            assert "0.032" in text  # rounded up
            assert "a usual error is not promised" in " ".join(text.split())
    bare = sc.Estimates((an_estimate(),), 0.1, 9, 0.1, "auto")
    assert "usual error" not in str(bare)


def test_a_comparison_shows_the_usual_error_of_those_that_have_one():
    made = a_comparison()
    assert "usual error" not in str(made)
    runs = tuple(replace(run, standard_error=0.25) for run in made.runs)
    text = " ".join(str(replace(made, runs=runs)).split())
    assert "the usual error is that of one run, and not promised" in text
    assert "0.25" in text
    assert replace(made, runs=runs).to_frame().standard_error[0] == 0.25
    assert made.to_dict()["means"][0]["standard_error"] is None


def test_an_answer_that_was_not_sampled_says_so_and_claims_no_accuracy():
    problem = world("ring")
    made = unsampled_estimate(problem, 0, "uct", "The limit was reached")
    text = " ".join(str(made).split())
    assert "which is all that the rewards allow not sampled" in text
    assert "proven" not in text
    assert "±" not in text.partition("Actions")[0]
    assert "the value only its middle, no estimate" in text


def test_a_tree_shows_the_line_that_it_expects():
    tree = sc.Tree(known(), method="uct").grow(simulations=300)
    from smoothcruiser.display.result_pages import principal_line

    line = principal_line(tree)
    root = tree.node(0)
    best = tree.action()
    visits = root.edge_visits[root.actions.index(best)]
    assert line[0] == (tree.problem.label(tree.state, best), visits)
    assert [n for _, n in line] == sorted((n for _, n in line), reverse=True)
    assert f"{line[0][0]} ({line[0][1]:,})" in str(tree)
    empty = sc.Tree(known(), method="uct")
    assert "grow it first" in str(empty)
    assert "grow it first" in empty._repr_html_()


def test_a_solution_counts_what_it_leaves_out():
    text = str(sc.solve(known()))
    assert "… 10 more states" in text
    plain = replace(sc.solve(known()), problem="shop")
    assert str(plain).splitlines()[0] == "Solution · shop · 30 states · 3 actions"


# --- files --------------------------------------------------------------------


def test_report_writes_any_object_and_refuses_the_rest(tmp_path):
    path = sc.report(answer(), tmp_path / "a.html", problem=world(), exact=answer())
    text = path.read_text("utf-8")
    assert "ring: the exact value" in text
    assert "discount 0.3" in text
    assert Elements(text.partition(">")[2]).open == []
    solved = sc.report(sc.solve(known()), str(tmp_path / "s.html"))
    assert "more states" in solved.read_text("utf-8")
    with pytest.raises(sc.InvalidInput, match="got dict"):
        sc.report({}, tmp_path / "x.html")  # type: ignore[arg-type]
    with pytest.raises(sc.InvalidInput, match="beside an Estimate"):
        sc.report(sc.solve(known()), tmp_path / "x.html", problem=known())
    with pytest.raises(sc.InvalidInput, match="cannot be written"):
        sc.report(answer(), tmp_path / "no" / "x.html")


def test_view_returns_or_writes_a_tree(tmp_path):
    tree = OBJECTS["Tree"]()
    text = sc.view(tree)
    assert text.startswith("<!doctype html>")
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "<script" not in text
    assert sc.view(tree, tmp_path / "tree.svg").read_text("utf-8").startswith("<svg")
    with pytest.raises(sc.InvalidInput, match="search Tree, got Estimate"):
        sc.view(answer())  # type: ignore[arg-type]


def test_small_numbers_are_not_printed_as_zero_and_infinite_ones_are_printed():
    small = an_estimate(value=2e-9, interval=(1.9e-9, 2.1e-9), q_values=(2e-9,) * 4)
    assert "0.00000000190, 0.00000000210" in str(small)
    for interval in ((0.5, math.inf), (-math.inf, math.inf), (math.nan, math.nan)):
        odd = an_estimate(interval=interval, epsilon=None)
        assert f"{interval[1]:.3f}" in str(odd)
        assert "shop" in odd._repr_html_()
    assert "nan" in str(an_estimate(value=math.nan, interval=None))


def test_half_widths_are_rounded_up():
    """The last bits are of a subtraction: 0.1 stays 0.1."""
    assert distance(0.2341, 2) == "0.24"
    assert distance(2.371 - 2.271, 3) == "0.100"
    bounds = {
        0.2341: "0.24",
        3.41e-14: "3.5e-14",
        0.1: "0.1",
        0.0: "0",
        math.inf: "inf",
    }
    assert {x: format_bound(x) for x in bounds} == bounds
    assert format_bound(4.1e-14, 1) == "5e-14"
    shown_text = str(an_estimate(value=2.0, interval=(1.7659, 2.2341), epsilon=0.5))
    assert "2.00 ± 0.24  in [1.76, 2.24]" in shown_text


@pytest.mark.parametrize(
    ("value", "told"),
    [(1.7e308, "1.7e+308"), (5e-324, "4.941e-324"), (-3e15, "-3e+15")],
)
def test_numbers_of_any_size_fit(value, told):
    ends = sorted((0.0, value))
    q_values = value, 0.0, math.nan, value
    odd = an_estimate(value=value, interval=tuple(ends), q_values=q_values)
    text = str(odd)
    assert max(map(len, text.split("\n"))) <= 80
    assert told in text
    assert "shop" in odd._repr_html_()
    many = sc.Estimates((odd,), 0.1, 5, 0.5, "auto", ())
    assert max(map(len, str(many).split("\n"))) <= 80


def test_a_policy_that_is_not_known_has_no_bar():
    text = str(an_estimate(policy=(math.nan,) * 4))
    assert "buy" in text
    assert "█" not in text


class Mute:
    """A state that cannot be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mute)


def test_a_state_without_a_text_is_planned_and_shown():
    def step(state, action: int, rng) -> tuple[float, Any]:
        return rng.random(), state

    facts = {"discount": 0.3, "operator": sc.Entropy(1.0), "initial_state": Mute()}
    mdp = sc.MDP(step, num_actions=2, **facts)
    answer = sc.plan(mdp, epsilon=0.5, delta=0.1, method="certified")
    assert "state a Mute without a text" in str(answer)
    assert "a Mute without a text" in str(mdp)
    again = sc.Estimate.from_json(answer.to_json())
    assert again.state == "a Mute without a text"
    tree = sc.Tree(mdp).grow(simulations=20)
    assert "state=a Mute without a text" in repr(tree)
    assert "state a Mute without a text" in sc.view(tree)


def test_ticks_are_round_numbers_inside_the_axis():
    labels = {(0.0, 1.0): "0.0 0.2 0.4 0.6 0.8 1.0", (-3.0, 11.0): "-2 0 2 4 6 8 10"}
    for ends, expected in labels.items():
        assert " ".join(label for _, label in picture._ticks(*ends)) == expected
    for width in (0.1, 0.37, 1.0, 2.4, 5.2, 9.9):
        assert 3 <= len(picture._ticks(0.033, 0.033 + width)) <= 8
