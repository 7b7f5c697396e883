"""Fingerprints of problems: a module that somebody edits, problems that are built again,
code of the user that was run among the names of a library.

Laws: every edit that can change an answer changes the digest and is named; what
cannot change an answer (comments, places, hash seeds, other processes) changes
nothing; what cannot be seen is named.
"""

import dataclasses
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import types
from collections import namedtuple
from pathlib import Path

import numba
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser import Game
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.fingerprint import (
    DERIVED,
    UNANSWERING,
    WHERE_TRUE,
    fingerprint,
)
from smoothcruiser.problem.fingerprint.encoding import USER, owner_of_function
from smoothcruiser.problem.zoo import ZOO

HELPERS = """
RATE = 0.5

def rate(x):
    return RATE * x

def tax(x):
    return 0.25 * x

class Clerk:
    BONUS = 3
    def greet(self, x):
        return x + self.BONUS
"""

SHOP = '''
"""A shop."""
import functools
import math
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np

import shop_helpers
import shop_helpers as other
from shop_helpers import tax
import smoothcruiser as sc

PRICES = {"tea": 2.0, "milk": 1.0}
DEMAND = np.array([0.1, 0.2, 0.7])
HOURS = (1, 2, 3)
TAGS = {"a", "b", "c"}
LIMIT = 7
NOISE = 0.0
TEXT = "open"
UNUSED = 11
BIG = [float(i) for i in range(1000)]
NESTED = {"deep": [{"er": (1, [2, 3])}]}


class Color(Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: int = 4


@dataclass(frozen=True)
class Config:
    size: int = 5
    weights: tuple = (1, 2)
    names: list = field(default_factory=lambda: ["u"])


class Base:
    STEP = 2

    def inherited(self, x):
        return x * 3

    @property
    def shown(self):
        return 1

    @staticmethod
    def fixed(x):
        return x - 1

    @classmethod
    def made(cls, x):
        return x + cls.STEP


class Shop(Base):
    __slots__ = ("wage",)

    def __init__(self, price, wage):
        self.price = price
        self.wage = wage

    def cost(self, x):
        return self.price * x + self.wage


SHOP = Shop(1.5, 0.75)
CONFIG = Config()


def helper_of_helper(x):
    return x + 17


def helper(x):
    """Help."""
    return helper_of_helper(x)


def scaled(x, factor):
    return x * factor


doubled = functools.partial(scaled, factor=2.5)


def outer(amount):
    def inner(x):
        return x + amount
    return inner


added = outer(9)


def step(state, action, rng, bonus=6, *, extra=8):
    """One day."""
    # a comment
    def local(x):
        return x + 21
    total = helper(state) + doubled(action) + added(1) + local(2)
    total += sum(x for x in HOURS) + PRICES["tea"] + DEMAND[0]
    total += SHOP.cost(1) + SHOP.inherited(2) + Base.fixed(3) + SHOP.made(4)
    total += CONFIG.size + len(CONFIG.names) + Color.RED.value + Point(1).y
    total += shop_helpers.rate(1) + other.Clerk().greet(1) + tax(2) + math.sqrt(4)
    total += max(1, 2) + (LIMIT if "a" in TAGS else 0) + BIG[3] + len(TEXT) + NOISE
    total += NESTED["deep"][0]["er"][0] + [k for k in (51, 52)][0] + 1.0
    return (total + bonus + extra) % 1.0, state


def legal(state, action):
    return action < 2


def terminal(state):
    return state > 99


def outcomes(state, action):
    return [(1.0, 0.5, state)]


def key(state):
    return state % 1000


PROBLEM = sc.MDP(
    step, num_actions=2, discount=0.5, operator=sc.KL(1.0, prior=(0.5, 0.5)),
    legal=legal, terminal=terminal, outcomes=outcomes, key=key, initial_state=0,
    reward_range=(0.0, 1.0), min_actions=1,
)
'''


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes the two modules with an edit, and returns the fingerprint."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(shop=SHOP, helpers=HELPERS):
        (tmp_path / "shop.py").write_text(shop)
        (tmp_path / "shop_helpers.py").write_text(helpers)
        for name in ("shop", "shop_helpers"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return fingerprint(importlib.import_module("shop").PROBLEM)

    yield write
    for name in ("shop", "shop_helpers"):
        sys.modules.pop(name, None)


# what stands in the module, what is put there, and the part that says so
EDITS = [
    ("+ 1.0\n", "+ 1.5\n", "step"),
    ("+ 1.0\n", "+ 1\n", "step"),
    ("k for k in", "item for item in", "step"),
    ("bonus=6", "bonus=7", "step: the default of bonus in step"),
    ("extra=8", "extra=9", "step: the default of extra in step"),
    ("import math\n", "import cmath as math\n", "step"),
    ("x + 17", "x + 18", "step: the function helper_of_helper"),
    ('"tea": 2.0', '"tea": 2.5', "step: the global PRICES"),
    ('"tea": 2.0', '"tea": 2', "step: the global PRICES"),
    ('"tea": 2.0, "milk": 1.0', '"milk": 1.0, "tea": 2.0', "step: the global PRICES"),
    ("0.1, 0.2, 0.7", "0.1, 0.3, 0.6", "step: the global DEMAND"),
    ("[0.1, 0.2, 0.7]", "[0.1, 0.2, 0.7], dtype='f4'", "step: the global DEMAND"),
    ("HOURS = (1, 2, 3)", "HOURS = [1, 2, 3]", "step: the global HOURS"),
    ('{"a", "b", "c"}', '{"a", "b", "d"}', "step: the global TAGS"),
    ("LIMIT = 7", "LIMIT = 7.0", "step: the global LIMIT"),
    ("NOISE = 0.0", "NOISE = -0.0", "step: the global NOISE"),
    ('TEXT = "open"', 'TEXT = b"open"', "step: the global TEXT"),
    ("float(i) for i", "float(i or 5) for i", "step: the global BIG"),
    ("(1, [2, 3])", "(1, [2, 4])", "step: the global NESTED"),
    ("RED = 1", "RED = 3", "step: the class Color"),
    ("y: int = 4", "y: int = 5", "step: the class Point"),
    ("size: int = 5", "size: int = 6", "step: the field size of the global CONFIG"),
    ('["u"]', '["v"]', "step: the field names of the global CONFIG"),
    ("STEP = 2", "STEP = 3", "step: the class Base"),
    ("x * 3\n", "x * 4\n", "step: the function Base.inherited"),
    ("x - 1", "x - 2", "step: the function Base.fixed"),
    ("x + cls.STEP", "x - cls.STEP", "step: the function Base.made"),
    ("return 1\n", "return 2\n", "step: the function Base.shown"),
    ("self.price * x", "self.price + x", "step: the function Shop.cost"),
    ("Shop(1.5, 0.75)", "Shop(1.75, 0.75)", "step: the field price of the global SHOP"),
    ("Shop(1.5, 0.75)", "Shop(1.5, 0.5)", "step: the field wage of the global SHOP"),
    ("class Shop(Base)", "class Other: pass\n\nclass Shop(Other, Base)",
     "step: the class Shop"),
    ("SHOP = Shop(1.5, 0.75)", "SHOP = Shop(1.5, 0.75); SHOP.cost = abs",
     "step: the field cost of the global SHOP"),
    ("CONFIG = Config()", "CONFIG = Config()\nShop.cost = lambda self, x: 0",
     "step: the class Shop"),
    ("CONFIG = Config()", "CONFIG = Config()\nclass Max:\n    pass\ndef max(*a): return 5",
     "step"),
    ("def legal", "helper.__code__ = helper_of_helper.__code__\n\ndef legal",
     "step: the function helper"),
    ("x * factor", "x + factor", "step: the function scaled"),
    ("factor=2.5", "factor=2.25", "step: the global doubled"),
    ("outer(9)", "outer(10)", "step: the closure variable amount"),
    ("import shop_helpers\n", "import shop_helpers\nshop_helpers.RATE = 0.125\n",
     "step: the global RATE"),
    ("from shop_helpers import tax", "from shop_helpers import rate as tax", "step"),
    ("action < 2", "action < 3", "legal"),
    ("state > 99", "state > 98", "terminal"),
    ("0.5, state)", "0.25, state)", "outcomes"),
    ("state % 1000", "state % 999", "key"),
    ("num_actions=2, discount=0.5, operator=sc.KL(1.0, prior=(0.5, 0.5))",
     "num_actions=3, discount=0.5, operator=sc.Max()", "num_actions"),
    ("discount=0.5", "discount=0.25", "discount"),
    ("KL(1.0", "KL(2.0", "operator: the field temperature"),
    ("prior=(0.5, 0.5)", "prior=(0.75, 0.25)", "operator: the field prior"),
    ("operator=sc.KL(1.0, prior=(0.5, 0.5))", "operator=sc.Entropy(1.0)", "operator"),
    ("initial_state=0", "initial_state=1", "initial_state"),
    ("reward_range=(0.0, 1.0)", "reward_range=(0.0, 2.0)", "reward_range"),
    ("min_actions=1", "min_actions=2", "min_actions"),
    ("min_actions=1", "horizon=9", "horizon"),
    ("min_actions=1", "value_bounds=(-1.0, 2.0)", "value_bounds"),
    ("min_actions=1", "deterministic=True", "deterministic"),
    ("PROBLEM = sc.MDP(",
     "PROBLEM = (lambda step, **facts: sc.Game(step, player=len, **facts))(", "class"),
    ("HELPERS", "RATE = 0.5", "RATE = 0.75", "step: the global RATE"),
    ("HELPERS", "RATE * x", "RATE + x", "step: the function rate"),
    ("HELPERS", "BONUS = 3", "BONUS = 4", "step: the class Clerk"),
]  # fmt: skip


@pytest.mark.parametrize(
    "edit", EDITS, ids=lambda edit: f"{edit[-3]}->{edit[-2]}"[:50]
)
def test_every_edit_changes_the_digest_and_is_named(written, edit):
    *where, old, new, part = edit
    before = written()
    text = HELPERS if where else SHOP
    assert text.count(old) == 1, "the edit is not unique"
    edited = text.replace(old, new)
    after = written(helpers=edited) if where else written(edited)
    assert after.digest != before.digest
    assert part in after.changes(before.parts)
    assert len(after.digest) == 32


SAME = [
    ("bonus=6, *, extra=8", "bonus: int = 6, *, extra: int = 8"),
    ("# a comment", "# another comment\n    # and one more"),
    ('"""One day."""', '"""One long day."""'),
    ('"""Help."""', ""),
    ('"""A shop."""', "\n\n\n"),
    ("UNUSED = 11", "UNUSED = 12"),
    ("total = helper(state)", "total = (\n        helper(state)\n    )"),
    ("x: int\n", "x: float\n"),
    (
        "def helper_of_helper",
        "def unrelated(x):\n    return 3\n\n\ndef helper_of_helper",
    ),
]


@pytest.mark.parametrize("old, new", SAME, ids=range(len(SAME)))
def test_what_changes_no_answer_changes_nothing(written, old, new):
    before = written()
    assert old in SHOP
    after = written(SHOP.replace(old, new, 1))
    assert after.changes(before.parts) == ()
    assert after.digest == before.digest


def test_a_refusal_can_name_parts_that_are_new_or_gone(written):
    before = written()
    after = written(SHOP.replace("+ NOISE", "+ UNUSED"))
    changes = after.changes(before.parts)
    assert "step: the global UNUSED" in changes
    assert "step: the global NOISE" in changes


def test_every_field_of_a_problem_is_read_or_left_out_on_purpose(written):
    parts = written().parts
    named = {field.name for field in dataclasses.fields(sc.MDP)}
    assert named - set(parts) - {"tables"} == {*UNANSWERING, "oracle", *WHERE_TRUE}
    facts = {field.name for field in dataclasses.fields(Facts)}
    assert facts - {field.name for field in dataclasses.fields(Game)} == set(DERIVED)


def test_costs_have_a_part_of_their_own_and_rewards_none():
    rewards, costs = fingerprint(mdp()), fingerprint(mdp(minimize=True))
    assert costs.changes(rewards.parts) == ("minimize",)
    assert "minimize" not in rewards.parts


# --- other processes ----------------------------------------------------------

PRINT = """
import sys
sys.path.insert(0, {folder!r})
from smoothcruiser.problem.fingerprint import fingerprint
from {module} import PROBLEM
print(fingerprint(PROBLEM).digest)
"""


def elsewhere(code, seed="0", cwd=None):
    chosen = {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    run = [sys.executable, "-c", code]
    how = {"capture_output": True, "text": True, "check": True, "cwd": cwd}
    out = subprocess.run(run, env={**os.environ, **chosen}, **how)
    return out.stdout.strip().splitlines()


@pytest.mark.compiles
def test_another_process_seed_and_folder_change_nothing(written, tmp_path):
    here = written().digest
    moved = tmp_path / "moved" / "deeper"
    moved.mkdir(parents=True)
    (moved / "shop.py").write_text("\n\n" + SHOP)
    (moved / "shop_helpers.py").write_text(HELPERS)
    for folder, seed in ((tmp_path, "1"), (moved, "2")):
        code = PRINT.format(folder=str(folder), module="shop")
        assert elsewhere(code, seed) == [here]


@pytest.mark.compiles
def test_a_script_and_a_module_have_one_fingerprint(written, tmp_path):
    """A problem of __main__ is the same when its script is run again or imported."""
    here = written().digest
    script = SHOP + "\nfrom smoothcruiser.problem.fingerprint import fingerprint"
    script += "\nprint(fingerprint(PROBLEM).digest)\n"
    (tmp_path / "script.py").write_text(script)
    code = f"import runpy; runpy.run_path({str(tmp_path / 'script.py')!r}, run_name='__main__')"
    assert elsewhere(code, cwd=tmp_path) == [here]


# --- problems that are built again, here and in another process ---------------


ROOT = Path(__file__).parents[4]
PLAIN = {"discount": 0.5, "temperature": 1.0}
GYM = (
    "gym:FrozenLake-v1",
    "gym:CartPole-v1",
    "gym:CartPole-v1,access=snapshot",
    "gym:Blackjack-v1,reward_low=-1,reward_high=1.5",
)
SPIEL = ("openspiel:tic_tac_toe", "openspiel:pig", "openspiel:nim")
EXAMPLES = ("own_simulator:problem", "own_simulator:plain")


def texts():
    found = [*ZOO, "chain:n=6", "garnet:seed=3", *EXAMPLES]
    for library, names in (("gymnasium", GYM), ("pyspiel", SPIEL)):
        if importlib.util.find_spec(library) is not None:
            found += names
    return found


def made(text):
    return sc.make(text, **({} if text in EXAMPLES else PLAIN))


CODE = """
import json, sys
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.make import from_spec
specs = json.load(sys.stdin)
print(json.dumps({text: fingerprint(from_spec(spec)).parts for text, spec in specs.items()}))
"""


@pytest.fixture(scope="module")
def problems():
    sys.path.insert(0, str(ROOT / "examples"))
    yield {text: made(text) for text in texts()}
    sys.path.remove(str(ROOT / "examples"))


@pytest.mark.compiles
def test_another_process_finds_the_same_parts(problems):
    here = {text: fingerprint(problem) for text, problem in problems.items()}
    assert len({found.digest for found in here.values()}) == len(here)
    folders = os.pathsep.join([str(ROOT / "examples"), str(ROOT / "src")])
    environment = os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": folders}
    specs = {text: problem.spec for text, problem in problems.items()}
    how = {"env": environment, "input": json.dumps(specs), "text": True}
    out = subprocess.check_output([sys.executable, "-c", CODE], **how)
    there = json.loads(out.splitlines()[-1])
    for text, found in here.items():
        assert found.changes(there[text]) == (), text
        assert found.unseen == (), text


@pytest.mark.compiles
@pytest.mark.parametrize("text", ["chain", "own_simulator:plain", *GYM[:3], SPIEL[0]])
def test_plans_change_nothing(problems, text):
    if text not in problems:
        pytest.skip("needs an extra")
    problem = made(text)
    before = fingerprint(problem)
    sc.plan(problem, method="uct", budget=60)
    assert fingerprint(problem) == before


@pytest.mark.compiles
def test_an_edited_environment_is_seen():
    gymnasium = pytest.importorskip("gymnasium")
    found = []
    for gravity in (9.8, 9.8, 20.0):
        env = gymnasium.make("CartPole-v1")
        env.unwrapped.gravity = gravity
        env.reset(seed=1)
        problem = sc.adapters.gymnasium.problem(
            env, discount=0.5, operator=sc.Max(), reward_range=(0.0, 1.0)
        )
        found.append(fingerprint(problem))
    assert found[0] == found[1]
    assert found[2].changes(found[0].parts) == ("step",)


# --- code of the user, in a library's names or a copy of them -----------------


STEP = "def step(state, action, rng): return PRICE * state, state"
HELPER = "def paid(x): return PRICE * x"


def copied(library):
    """A step that was run in a copy of a library's names."""

    def make(price):
        names = {**vars(library), "PRICE": price}
        exec(STEP, names)
        return names["step"]

    return make


def planted(library):
    """A step whose helper was run in a library's own names, and is there to import."""

    def make(price):
        library.PRICE = price
        exec(HELPER, vars(library))
        paid = numba.njit(library.paid)

        def step(state, action, rng):
            return paid(state), state

        return step

    return make


def named(price):
    """A step of a namespace that has the name of a module of Python."""
    names = {"__name__": "queue", "PRICE": price}
    exec(STEP, names)
    return names["step"]


def module_by_hand(price):
    module = types.ModuleType("turtle")
    exec("import numba\n@numba.njit\n" + HELPER, vars(module))
    module.PRICE = price
    sys.modules["turtle"] = module

    def step(state, action, rng):
        return module.paid(state), state

    return step


def lent(price):
    """A step of the user that is given other names to look up."""
    names = {**vars(statistics), "PRICE": price}
    return types.FunctionType(other_step.__code__, names)


def other_step(state, action, rng):
    return PRICE * state, state  # noqa: F821


def class_in_library(price):
    """A class among a library's names, whose fields change their order."""
    fields = "x y" if price == 0.25 else "y x"
    statistics.Pair = namedtuple("Pair", fields, module="statistics")

    def step(state, action, rng):
        return statistics.Pair(0.25, 0.5).x, state

    return step


MAKERS = {
    "a copy of math": copied(math),
    "a copy of this package": copied(sc),
    "names of statistics": planted(statistics),
    "names of this package": planted(sc),
    "a name of Python": named,
    "a module by hand": module_by_hand,
    "lent names": lent,
    "a class in a library": class_in_library,
}


@pytest.fixture
def clean(monkeypatch):
    """Take back what a test puts into libraries."""
    for library in (statistics, sc):
        for name in ("PRICE", "paid", "Pair"):
            monkeypatch.setitem(vars(library), name, None)
    monkeypatch.setitem(sys.modules, "turtle", None)


@pytest.mark.compiles
@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("name", MAKERS)
def test_what_a_step_looks_up_is_read_wherever_it_was_run(name):
    def digests(price):
        step = MAKERS[name](price)
        assert owner_of_function(step) == USER
        return fingerprint(mdp(step)).digest

    first = digests(0.25)
    assert digests(0.25) == first
    assert digests(0.5) != first
