"""Every executor is known wherever executors are listed, and every row keeps its
word.
"""

import dataclasses
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import smoothcruiser as sc
from smoothcruiser import InvalidInput, Kind
from smoothcruiser.cli.app import app
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.registry import (
    BATCHED,
    COMPILED,
    DASK,
    EXECUTORS,
    PYTHON,
    REFERENCE,
    choose,
    default_executor,
    machine_code,
    make_engine,
    open_workers,
)
from smoothcruiser.engines.shards import cut_shards
from smoothcruiser.query import Compute

ROOT = Path(__file__).resolve().parents[3]
# executors that the golden answers do not name, and why
NOT_GOLDEN = {
    "compiled": "the default of all problems there but two",
    "batched": "the default of 'spring', which is there",
    "dask": "an extra; tests/end_to_end/test_survival.py compares its bits",
}


def place(executor=None, scheduler=None):
    return Compute(executor=executor, scheduler=scheduler, workers=1)


def table():
    return sc.make("garnet:states=5,actions=2", discount=0.4, temperature=1.0)


def step(state, action, rng):
    return rng.random(), (state + action) % 3


def plain():
    return sc.MDP(
        step, num_actions=2, discount=0.4, operator=sc.Entropy(1.0), initial_state=0
    )


def job(problem):
    schedule = sc.explain(problem, epsilon="30%", delta=0.1, method="smoothcruiser")
    return Job(problem, schedule, problem.initial_state)


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_every_list_of_executors_has_every_executor(name):
    help_text = CliRunner().invoke(app, ["plan", "--help"]).output
    listed = re.search(r"--executor NAME\s+(.*?)\s+\[default", help_text, flags=re.S)
    assert listed is not None
    assert name in re.findall(r"\w+", listed[1])
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/scale.md").read_text(), re.M)
    assert rows == list(EXECUTORS)
    golden = (ROOT / "tests/golden/test_answers.py").read_text()
    assert name in NOT_GOLDEN or f'"{name}"' in golden


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_a_row_has_its_own_name_and_an_engine_that_declares_itself(name):
    """Kinds are declared one by one: a kind that is added to the enumeration is
    refused until an engine can run it.
    """
    row = EXECUTORS[name]
    assert row.name == name
    engine = row.engine(table())
    for attribute in ("name", "kinds", "parallel", "python"):
        assert attribute in vars(engine), attribute
    assert isinstance(engine.kinds, frozenset)
    assert engine.kinds <= set(Kind)
    assert {level.kind for level in job(table()).schedule.levels} <= engine.kinds


@pytest.mark.compiles
@pytest.mark.parametrize("name", [REFERENCE.name, PYTHON.name, BATCHED.name])
def test_same_bits_is_what_a_row_says(name):
    """A row whose bits are those of reference runs a shard to the same sums."""
    shard = cut_shards(job(table()).schedule)[0][0]
    mine = make_engine(name, job(table())).run_shard(shard, 5)
    known = make_engine(REFERENCE.name, job(table())).run_shard(shard, 5)
    assert (mine == known) is EXECUTORS[name].same_bits


def test_what_a_row_refuses_is_refused_before_it_opens():
    for name, sentence in (
        ("compiled", "The compiled executor needs a tabular problem"),
        ("batched", "The batched executor needs a step over arrays"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            open_workers(job(plain()), place(name))


def test_the_default_is_the_fastest_that_can():
    import numba

    rows = dataclasses.replace(plain(), oracle=sc.batched(step))
    machine = dataclasses.replace(plain(), oracle=numba.njit(step))
    for problem, expected in (
        (plain(), PYTHON),
        (table(), COMPILED),
        (machine, COMPILED),
        (rows, BATCHED),
    ):
        assert default_executor(problem) == expected.name
        assert choose(problem, place()) is expected


def test_an_address_chooses_the_cluster_and_nothing_else_takes_it():
    assert choose(plain(), place(scheduler="tcp://there:1")) is DASK
    assert choose(plain(), place("dask", "tcp://there:1")) is DASK
    with pytest.raises(InvalidInput, match=r"belongs to executor 'dask', got .*pytho"):
        choose(plain(), place("python", "tcp://there:1"))


def test_methods_with_two_forms_ask_the_table():
    assert machine_code(None, "Tree search") is None
    assert machine_code("compiled", "Tree search") is True
    assert machine_code("reference", "Tree search") is False
    with pytest.raises(InvalidInput, match="Tree search runs on executor 'compiled' "):
        machine_code("dask", "Tree search")
