"""A resumed run is of one problem: a table of edits, each refused or accepted.

Laws: an edit that a fingerprint sees is refused with the name of the part; one that no
fingerprint sees is refused by the stored samples, taken again; the same problem, in
another place of its file or after it has run, ends with the bits of one whole run.
"""

import importlib
import os
import sqlite3
import sys

import pytest

import smoothcruiser as sc

WORLD = """
import functools, json, os, statistics
import smoothcruiser as sc
P = 0.5
FORMS = (lambda x: x * 0.5, lambda x: x * 0.25)
MEMO = {}
class Sim:
    def __init__(self, price):
        self.price, self.calls = price, 0
    def pay(self, x):
        self.calls += 1
        return self.price * x
SIM = Sim(0.5)
MADE = {}
exec("def pay(x): return 0.5 * x", MADE)
def step(state, action, rng):
    x = rng.random() < 0.5
    MEMO.setdefault(state, 1)
    return EXPRESSION, (state + 1) % 3
PROBLEM = sc.MDP(
    step, num_actions=2, discount=0.3, operator=sc.Entropy(1.0), initial_state=0,
    reward_range=(0.0, 1.0),
)
"""
READ = "float(open(os.environ['WORLD_PRICE']).read()) * x"
# the reward of the step, an edit of the module, the refusal (None: the same bits)
TABLE = [
    ("P * x", ("P = 0.5", "P = 0.25"), "the global P changed"),
    ("FORMS[0](x)", ("0.5, lambda x: x * 0.25", "0.25, lambda x: x * 0.5"), "lambda"),
    ("SIM.pay(x)", ("Sim(0.5)", "Sim(0.25)"), "the field price of the global SIM"),
    ("SIM.pay(x)", ("self.price * x", "self.price / 2 * x"), "the function Sim.pay"),
    ("MADE['pay'](x)", ("0.5 * x", "0.25 * x"), "the function pay changed"),
    ("MADE['pay'](x)", ("0.5 * x", "0.5 - x"), "the function pay changed"),
    ("statistics.fmean([x])", ("P = 0.5", "statistics.fmean = min"), "step"),
    ("0.5 * x", ("0.5 * x,", "0.25 * x,"), "step changed"),
    ("eval('P') * x", ("P = 0.5", "P = 0.25"), "taken again"),
    ("globals()['P'] * x", ("P = 0.5", "P = 0.25"), "taken again"),
    ("MEMO[state] * x", ("MEMO = {}", "MEMO = {0: 0.5, 1: 0.5}"), "taken again"),
    (READ, "0.25", "taken again"),
    (READ, "0.5", None),
    ("SIM.pay(x)", ("MEMO = {}", "# none yet\n\nUNUSED = 1\nMEMO = {}"), None),
    ("MADE['pay'](x)", ("import functools", "\n\nimport functools"), None),
    ("SIM.pay(MEMO[state] * x)", None, None),
    ("eval('P') * x", ("def step", '"""A text."""\ndef step'), None),
]
METHODS = {
    "smoothcruiser": {"epsilon": 0.3, "delta": 0.3, "shards": 4},
    "certified": {"epsilon": 0.3, "delta": 0.3},
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """The problem of a module that is written and imported anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr("statistics.fmean", __import__("statistics").fmean)
    times = iter(range(10**18, 10**19, 10**9))

    def load_problem(text):
        file = tmp_path / "edited_world.py"
        file.write_text(text)
        os.utime(file, ns=(next(times),) * 2)
        sys.modules.pop("edited_world", None)
        importlib.invalidate_caches()
        return importlib.import_module("edited_world").PROBLEM

    yield load_problem
    sys.modules.pop("edited_world", None)


@pytest.mark.compiles
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reward, edit, refusal", TABLE)
def test_an_edited_problem_is_refused_and_the_same_one_goes_on(
    method, reward, edit, refusal, load, tmp_path, monkeypatch
):
    path, price = tmp_path / "runs.db", tmp_path / "price.txt"
    monkeypatch.setenv("WORLD_PRICE", str(price))
    price.write_text("0.5")
    text = WORLD.replace("EXPRESSION", reward)
    problem, options = load(text), {"executor": "python", **METHODS[method]}
    whole = sc.plan(problem, method=method, store=path, **options)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM shards WHERE shard % 2 = 1")
        connection.execute("DELETE FROM estimates")
    if isinstance(edit, str):
        price.write_text(edit)
    elif edit is not None:
        assert text.count(edit[0]) == 1
        problem = load(text.replace(*edit))
    if refusal is None:
        again = sc.resume(whole.run, path, problem)
        assert (again.value, again.interval) == (whole.value, whole.interval)
        return
    with pytest.raises(sc.InvalidInput, match="made for another problem") as error:
        sc.resume(whole.run, path, problem)
    assert refusal in str(error.value)
