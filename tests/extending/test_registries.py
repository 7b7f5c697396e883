"""What goes wrong at an extension point is told in one sentence that names it, to
whoever uses it; everybody else's work goes on.
"""

import importlib
import sys
import types
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

import smoothcruiser as sc
from fresh_process import run_words
from smoothcruiser import cli
from smoothcruiser.certified.bounds import BOUNDS
from smoothcruiser.certified.bounds import register as register_bound
from smoothcruiser.certified.sweeps.compiled_loops import _is_ours, rebound
from smoothcruiser.cli.app import main
from smoothcruiser.engines import registry
from smoothcruiser.engines.base import Executor, Job
from smoothcruiser.engines.interpreted.batched import BatchedEngine
from smoothcruiser.engines.interpreted.python import PythonEngine
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.engines.workers import local_workers
from smoothcruiser.operators import OPERATORS, TemperedOperator
from smoothcruiser.operators import register as register_operator
from smoothcruiser.operators.base import Scalar
from smoothcruiser.operators.entropy import entropy_gradient, entropy_value
from smoothcruiser.problem import adapter_protocol as adapters
from smoothcruiser.problem.adapter_protocol import (
    ADAPTERS,
    FAULTS,
    keep_fault,
    load_adapters,
)
from smoothcruiser.problem.adapter_protocol import register as register_adapter
from smoothcruiser.query import Compute
from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.kinds import register as register_kind
from smoothcruiser.schedule.kinds.constant import Constant

TABLES = (BOUNDS, registry.EXECUTORS, OPERATORS, ADAPTERS, FAULTS, KINDS)


@pytest.fixture(autouse=True)
def tables_kept():
    """What a test registers is out of the tables after it."""
    load_adapters()  # the adapters of the package come late
    before = [dict(table) for table in TABLES]
    yield
    for table, kept in zip(TABLES, before, strict=True):
        table.clear()
        table.update(kept)


def chain(**options):
    options = {"temperature": 1.0} | options
    return sc.make("chain:n=3", discount=0.4, **options)


# --- commands -----------------------------------------------------------------

FILES = {
    "broken.py": "import no_such_library\n",
    "leaves.py": "import sys\nsys.exit('I leave')\n",
    "helper.py": "def helping():\n    pass\n",
    "number.py": "number = 3\n",
    "package/__init__.py": "",
    "my_cmd.py": (
        "import click\n\n\n@click.command()\ndef my_cmd():\n"
        '    """Say hello."""\n    click.echo("hello")\n'
    ),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    importlib.invalidate_caches()

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["smoothcruiser", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capsys.readouterr()

    yield command
    for name in FILES:
        sys.modules.pop(f"smoothcruiser.cli.{name.split('.')[0].split('/')[0]}", None)


def test_a_broken_command_is_listed_as_such_and_helpers_are_not(run):
    code, out, _ = run("--help")
    told = " ".join(out.split())
    assert code == 0
    assert "broken (cannot be loaded: ModuleNotFoundError: No module named" in told
    assert "leaves (cannot be loaded: SystemExit: I leave)" in told
    assert "my-cmd Say hello." in told
    for name in ("helper", "number", "package", "my_cmd", "options", "app"):
        assert f"\n  {name} " not in out
    assert "\n  plan " in out


@pytest.mark.parametrize("more", [(), ("--help",)])
def test_a_broken_command_refuses_in_one_sentence(run, more):
    code, out, err = run("broken", *more)
    assert (code, out) == (2, "")
    assert err.startswith("Error: The command 'broken' cannot be loaded: ModuleNot")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["helper", "number", "package", "my_cmd", "app"])
def test_what_is_no_command_cannot_be_called(run, name):
    code, _, err = run(name)
    assert code == 2
    assert f"No such command '{name}'" in err


def test_underscores_are_typed_as_hyphens(run):
    assert run("my-cmd") == (0, "hello\n", "")


# --- adapters -----------------------------------------------------------------


class World:
    """A step that reads states from text."""

    actions = (0, 1)

    def __call__(self, state, action, rng):
        return 0.5, state

    def parse(self, state):
        return {"sun": 0}[state] if isinstance(state, str) else state

    def read(self, simulator):
        return 0


class Worlds:
    """An adapter whose ``build`` does what it is told to do."""

    name, summary, example = "worlds", "worlds of a test", "one"
    needs = "worlds-package[all]"
    options = ("discount", "operator")

    def build(self, text, parameters, *, discount, operator):
        if text == "nothing":
            return 3
        if text == "missing":
            importlib.import_module("no_such_library")
        return sc.MDP(
            World(**parameters),
            num_actions=2,
            discount=discount,
            operator=operator,
            initial_state=0,
        )

    def accepts(self, simulator):
        return isinstance(simulator, Path)

    def problem(self, simulator, **options):
        return sc.MDP(World(), num_actions=2, initial_state=0, **options)


class Doubtful(Worlds):
    """An adapter that fails at what it does not know."""

    name = "doubtful"

    def accepts(self, simulator):
        raise ValueError("what is this?")


@pytest.mark.parametrize(
    "text, kind, sentence",
    [
        ("nothing", sc.InvalidInput, r"'worlds' must build a Problem .*, got int"),
        (
            "missing",
            sc.MissingExtra,
            r"'worlds' cannot import .*no_such_library.*pip install 'worlds-package",
        ),
        (
            "one,rain=1",
            sc.InvalidInput,
            r"'worlds' cannot build 'worlds:one,rain=1': TypeError",
        ),
    ],
)
def test_a_build_that_fails_is_told_with_the_adapter(text, kind, sentence):
    register_adapter(Worlds())
    with pytest.raises(kind, match=sentence):
        sc.make(f"worlds:{text}", discount=0.5, temperature=1.0)


def test_a_state_that_cannot_be_parsed_is_told_with_the_adapter():
    register_adapter(Worlds())
    problem = sc.make("worlds:one", discount=0.5, temperature=1.0)
    assert problem.start("sun") == 0
    with pytest.raises(
        sc.InvalidInput, match=r"worlds:one cannot read the state 'snow'"
    ):
        sc.plan(problem, "snow", method="uct", budget=10)


def test_another_adapters_failure_does_not_break_an_agent():
    register_adapter(Doubtful())
    register_adapter(Worlds())
    options = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    assert sc.Agent(Path("here"), "uct", budget=20, **options).act() in (0, 1)
    with pytest.raises(
        sc.InvalidInput, match=r"'doubtful' cannot tell \(ValueError: wh"
    ):
        sc.Agent(3.5, "uct", budget=20, **options)


def test_the_fault_of_a_file_is_told_where_it_is_needed():
    keep_fault("dice", "smoothcruiser.adapters.dice", RuntimeError("no dice"))
    sentence = r"'dice' \(smoothcruiser.adapters.dice\) cannot be imported: RuntimeErr"
    with pytest.raises(sc.InvalidInput, match=sentence):
        sc.make("dice:six", discount=0.5)
    assert "RuntimeError: no dice" in adapters.descriptions()["dice"]
    assert "gym" in adapters.descriptions()
    with pytest.raises(
        sc.InvalidInput, match=r"adapters: .*:; cannot be imported: dice"
    ):
        sc.make("cubes:six", discount=0.5)


def test_a_file_that_raises_leaves_the_package_importable(tmp_path):
    """A copy of the package by links, with one more file among the adapters."""
    source = Path(sc.__file__).parent
    package = tmp_path / "smoothcruiser"
    package.mkdir()
    for entry in source.iterdir():
        if entry.name != "adapters":
            (package / entry.name).symlink_to(entry)
    (package / "adapters").mkdir()
    for entry in (source / "adapters").iterdir():
        (package / "adapters" / entry.name).symlink_to(entry)
    (package / "adapters" / "dice.py").write_text("raise RuntimeError('no dice')\n")
    words = ("-m", "smoothcruiser", "problems")
    done = run_words(*words, PYTHONPATH=str(tmp_path), COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "cannot be imported: RuntimeError: no dice" in " ".join(done.stdout.split())


# --- executors ----------------------------------------------------------------


def row(name, **more):
    """A row that runs like ``reference``."""
    parts = {
        "same_bits": True,
        "engine": lambda problem: ReferenceEngine,
        "open": lambda job, compute: local_workers(ReferenceEngine(job)),
    }
    return Executor(name=name, **parts | more)


def raising(error):
    def function(*arguments):
        raise error

    return function


def job():
    problem = chain()
    schedule = sc.explain(problem, epsilon="30%", delta=0.1, method="smoothcruiser")
    return Job(problem, schedule, problem.initial_state)


def test_an_executor_is_registered_once_and_by_its_own_name():
    mine = registry.register(row("mine"))
    assert registry.find_executor("mine") is mine
    with pytest.raises(sc.InvalidInput, match="'mine' is registered already"):
        registry.register(row("mine"))
    with pytest.raises(sc.InvalidInput, match="'python' is registered already"):
        registry.register(row("python"))
    with pytest.raises(sc.InvalidInput, match=r"letters, digits, - and _, got ''"):
        registry.register(row(""))
    with pytest.raises(
        sc.InvalidInput, match=r"takes an engines.base.Executor, got str"
    ):
        registry.register("mine")
    registry.EXECUTORS["other"] = mine
    with pytest.raises(sc.InvalidInput, match="'mine' stands in the table as 'other'"):
        registry.find_executor("other")


FAULTY = [
    (
        {"engine": raising(ImportError("no jax"))},
        "cannot be loaded: ImportError: no j",
    ),
    ({"refuses": lambda job: True}, "must return a sentence or None, got True"),
    ({"refuses": raising(KeyError("x"))}, r"cannot say whether .* \(KeyError: 'x'\)"),
]


@pytest.mark.parametrize("parts, sentence", FAULTY)
def test_a_faulty_row_stops_nobody_but_itself(parts, sentence, monkeypatch):
    registry.register(row("faulty", default_for=raising(KeyError("y")), **parts))
    compute = Compute(executor="faulty", scheduler=None, workers=1)
    with pytest.raises(sc.InvalidInput, match=sentence):
        registry.open_workers(job(), compute)
    assert registry.default_executor(chain()) == "compiled"
    monkeypatch.setattr(PythonEngine, "kinds", frozenset())
    with pytest.raises(
        sc.InvalidInput, match=r"that can: reference, compiled, batched,"
    ):
        registry.open_workers(job(), replace(compute, executor="python"))


def test_executors_that_can_are_those_that_accept_the_job(monkeypatch):
    """The step is plain: neither machine code nor arrays run it, whatever the kinds."""
    small = job()
    plain = sc.MDP(
        lambda state, action, rng: (0.5, state),
        num_actions=2,
        discount=0.4,
        operator=sc.Entropy(1.0),
        initial_state=0,
    )
    monkeypatch.setattr(PythonEngine, "kinds", frozenset())
    with pytest.raises(sc.InvalidInput, match=r"executors that can: reference\."):
        registry.make_engine("python", replace(small, problem=plain))


# --- kinds that an engine lists and does not run --------------------------------


class Odd(IntEnum):
    ODD = 100
    lower = 101


class OddEstimator(Constant):
    """A kind of its own that goes on."""

    kind = Odd.ODD
    word = "odd"
    asks = False
    goes_on = True


@pytest.mark.parametrize("engine", [ReferenceEngine, PythonEngine, BatchedEngine])
def test_a_kind_without_code_ends_the_run(engine):
    class Listing(engine):
        name = "listing"
        kinds = engine.kinds | {Odd.ODD}

    register_kind(OddEstimator())
    problem = chain()
    levels = (sc.Level(sc.Kind.CONSTANT), sc.Level(Odd.ODD, continuation=0))
    schedule = sc.Schedule(
        "", problem.facts, levels, sc.Root("value", 1, 1, ""), np.inf, 0.1
    )
    registry.register(
        row(
            "listing",
            engine=lambda problem: Listing,
            open=lambda job, compute: local_workers(Listing(job)),
        )
    )
    with pytest.raises(
        sc.BrokenPromise, match="engine listing lists kind ODD and does "
    ):
        sc.run(problem, schedule, executor="listing")


# --- kinds and operators --------------------------------------------------------


def estimator(**attributes):
    made = type("Mine", (OddEstimator,), attributes)
    return made()


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (
            OddEstimator,
            "object of a subclass of Estimator, got the class OddEstimator",
        ),
        (3, "object of a subclass of Estimator, got an object of int"),
        (estimator(kind=100), "Mine needs a class attribute kind, .* got 100"),
        (estimator(kind=property()), "attribute kind, .* got none|got a property"),
        (estimator(kind=Odd.lower), "kind lower must be in capitals, as in LOWER"),
        (estimator(word=""), "Mine needs a class attribute word, .* got ''"),
        (estimator(word=3), "Mine needs a class attribute word, .* got 3"),
        (estimator(asks=None), "Mine needs a class attribute asks, .* got none"),
    ],
)
def test_kinds_that_cannot_be_used_are_refused(wrong, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence) as caught:
        register_kind(wrong)
    assert " at 0x" not in str(caught.value)
    assert set(KINDS) == set(sc.Kind)


@dataclass(frozen=True)
class Mine(TemperedOperator):
    """Entropy under another name."""

    name = "mine"
    scalar = Scalar(entropy_value, entropy_gradient, entropy_value)

    def offset(self, num_actions):
        return sc.Entropy(self.temperature).offset(num_actions)

    def curvature(self, num_actions):
        return sc.Entropy(self.temperature).curvature(num_actions)

    def smoothness(self, num_actions):
        return sc.Entropy(self.temperature).smoothness(num_actions)

    def omega_range(self, num_actions):
        return sc.Entropy(self.temperature).omega_range(num_actions)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (Mine(1.0), "takes a subclass of Operator .*, got a Mine"),
        (int, "takes a subclass of Operator .*, got int"),
        (
            sc.CustomOperator,
            "CustomOperator needs a class attribute name.*got a property",
        ),
        (type("Mute", (Mine,), {"name": ""}), "Mute needs a class attribute.* got ''"),
        (type("Two", (Mine,), {"name": "a b"}), "of letters, digits.*, got 'a b'"),
        (type("Half", (TemperedOperator,), {"name": "half"}), "define curvature, off"),
    ],
)
def test_operators_that_cannot_be_used_are_refused(wrong, sentence):
    before = dict(OPERATORS)
    with pytest.raises(sc.InvalidInput, match=sentence) as caught:
        register_operator(wrong)
    assert " at 0x" not in str(caught.value)
    assert before == OPERATORS


# --- what Numba cannot compile ----------------------------------------------------


def uncompilable_value(q, w, t):
    """It calls the standard library: fine in Python, beyond Numba."""
    return entropy_value(q, w, fmean([t]))


def uncompilable_gradient(q, w, t, out):
    """The same for a gradient."""
    entropy_gradient(q, w, fmean([t]), out)


@dataclass(frozen=True)
class BadValue(Mine):
    """Its value cannot be compiled."""

    name = "bad-value"
    scalar = Scalar(uncompilable_value, entropy_gradient, entropy_value)


@dataclass(frozen=True)
class BadGradient(Mine):
    """Its gradient cannot be compiled."""

    name = "bad-gradient"
    scalar = Scalar(entropy_value, uncompilable_gradient, entropy_value)


@dataclass(frozen=True)
class BadOmega(Mine):
    """Its Omega cannot be compiled, which only ``evaluate`` needs."""

    name = "bad-omega"
    scalar = Scalar(entropy_value, entropy_gradient, uncompilable_value)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "method, promise",
    [
        ("exact", {}),
        ("smoothcruiser", {"epsilon": "40%", "delta": 0.1}),
        ("certified", {"epsilon": "40%", "delta": 0.1}),
    ],
)
@pytest.mark.parametrize("bad, function", [(BadValue, "value"), (BadGradient, "grad")])
def test_an_operator_that_cannot_be_compiled_is_named(method, promise, bad, function):
    problem = chain(operator=bad(1.0), temperature=None)
    sentence = rf"The operator 'bad-.*' \(Bad.*\) cannot be compiled, its {function}"
    with pytest.raises(sc.InvalidInput, match=sentence) as caught:
        sc.plan(problem, method=method, **promise)
    assert "Check that step" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.compiles
def test_an_omega_that_cannot_be_compiled_matters_where_it_is_used():
    problem = chain(operator=BadOmega(1.0), temperature=None)
    assert sc.plan(problem, method="exact").value > 0.0
    policy = np.full((problem.tables.num_states, problem.num_actions), 0.5)
    with pytest.raises(sc.InvalidInput, match=r"'bad-omega' .* compiled, its omega"):
        sc.evaluate(problem, policy, budget=100, delta=0.1)


def uncompilable_side(g, pair, upper, tune, rules):
    """A side that Numba refuses."""
    return fmean([1.0])


@pytest.mark.compiles
def test_a_bound_that_cannot_be_compiled_is_named():
    betting = BOUNDS["betting"]
    register_bound(betting._replace(word="bad", side=uncompilable_side))
    register_bound(betting._replace(word="worse", side=3))
    for word in ("bad", "worse"):
        with pytest.raises(
            sc.InvalidInput, match=f"bound '{word}' cannot be co"
        ) as told:
            sc.Certified(chain(), delta=0.1, bound=word).query(budget=100)
        assert "\n" not in str(told.value)


def test_a_bound_is_registered_once():
    betting = BOUNDS["betting"]
    assert register_bound(betting) is betting
    with pytest.raises(sc.InvalidInput, match="'betting' is registered already"):
        register_bound(betting._replace(cost=betting.cost, fields=()))
    with pytest.raises(sc.InvalidInput, match=r"needs a word.* got ''"):
        register_bound(betting._replace(word=""))
    with pytest.raises(sc.InvalidInput, match=r"bounds.base.Bound, got str"):
        register_bound("betting")


def test_a_package_whose_name_begins_like_ours_is_not_ours():
    def replaced():
        return VALUE  # noqa: F821

    for package, expected in (("smoothcruiser_x.bounds", 1), ("smoothcruiser.x", 2)):
        inner = types.FunctionType(replaced.__code__, {"VALUE": 1}, "inner")
        inner.__module__ = package
        outer = types.FunctionType(
            compile("inner()", "outer", "eval"), {"inner": inner}, "outer"
        )
        assert _is_ours(inner) is (expected == 2)
        assert rebound(outer, {"VALUE": 2})() == expected


# --- tree searches ------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"descent": 7},
        {"descent": 0.0},
        {"up": 9},
        {"prior": -1},
        {"code": -1},
        {"up": 1, "code": sc.Entropy.code, "temperature": 0.0},
        {"exploration": -1.0},
        {"descent": 1, "exploration": float("nan")},
        {"shift": 0.0},
        {"entropy": float("inf")},
        {"initial": float("inf")},
        {"cools": 1},
    ],
)
def test_rules_that_no_engine_runs_are_refused(wrong):
    class Wrong(sc.UCT):
        name = "wrong"

        def rule(self, problem_operator):
            return super().rule(problem_operator)._replace(**wrong)

    field = list(wrong)[-1]
    with pytest.raises(
        sc.InvalidInput, match=f"wrong: {field} of its TreeRule must be"
    ):
        sc.Tree(chain(), method=Wrong())


def test_a_rule_that_is_no_rule_is_refused():
    class Wrong(sc.UCT):
        name = "wrong"

        def rule(self, problem_operator):
            return (0, 0)

    with pytest.raises(
        sc.InvalidInput, match="wrong: rule must return a TreeRule, got "
    ):
        sc.Tree(chain(), method=Wrong())
