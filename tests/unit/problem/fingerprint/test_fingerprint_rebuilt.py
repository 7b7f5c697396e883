"""Fingerprints of problems that are built again.

Laws: a problem of the zoo, of an adapter or of an example has one fingerprint, built
twice, rebuilt from its spec, in another process with another hash seed, and after
plans have run; two different ones have two.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcruiser as sc
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.zoo import ZOO

pytestmark = pytest.mark.compiles

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


@pytest.mark.parametrize("text", ["chain", "own_simulator:plain", *GYM[:3], SPIEL[0]])
def test_plans_change_nothing(problems, text):
    if text not in problems:
        pytest.skip("needs an extra")
    problem = made(text)
    before = fingerprint(problem)
    sc.plan(problem, method="uct", budget=60)
    assert fingerprint(problem) == before


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
