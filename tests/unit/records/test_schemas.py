"""The schemas that the package ships are those of its classes.

``python tests/unit/records/test_schemas.py`` writes the files anew, after a change of a
class; the difference shows a reader what changes for whoever reads the JSON.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import types
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

import smoothcruiser as sc
from smoothcruiser.certified.price_forecast import CertifiedForecast
from smoothcruiser.certified.state_table import KeptTable
from smoothcruiser.checks import Check
from smoothcruiser.cli import problems
from smoothcruiser.comparison import Comparison
from smoothcruiser.duality.gap_result import Gap
from smoothcruiser.exact.solution import Solution
from smoothcruiser.methods.base import Forecast
from smoothcruiser.methods.portfolio import Decision
from smoothcruiser.playing.episodes import Summary
from smoothcruiser.records.data import Data, kinds
from smoothcruiser.records.json_shapes import Array, shape_of
from smoothcruiser.schedule.relaxation import Relaxation
from smoothcruiser.store.record import Runs


class Alias:
    """What ``type NDArray[S] = np.ndarray[…]`` of NumPy 2.5 is, on every Python."""

    __value__ = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def test_an_array_is_an_array_by_its_own_name_and_by_an_alias():
    assert isinstance(shape_of(NDArray[np.float64]), Array)
    assert isinstance(shape_of(types.GenericAlias(Alias(), (np.float64,))), Array)


FOLDER = Path(sc.__file__).parent / "records" / "schema"
CLASSES: tuple[Any, ...] = (
    *(sc.Estimate, sc.Estimates, sc.Schedule, Solution, Comparison, Check, Summary),
    *(KeptTable, Runs, Forecast, CertifiedForecast, Relaxation, Decision, Gap),
)


def schemas() -> dict[str, Any]:
    found = {cls.json_kind: cls.json_schema() for cls in CLASSES}
    return found | {"problems": problems.SCHEMA}


def text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1) + "\n"


@pytest.mark.parametrize("kind", sorted(schemas()))
def test_the_files_are_current(kind):
    found = (FOLDER / f"{kind}.json").read_text("utf-8")
    remedy = "run python tests/unit/records/test_schemas.py"
    assert found == text(schemas()[kind]), remedy
    jsonschema.Draft202012Validator.check_schema(sc.schema(kind))


@pytest.mark.compiles
def test_every_class_that_writes_itself_has_one():
    for module in pkgutil.walk_packages(sc.__path__, "smoothcruiser."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except sc.MissingExtra:  # such as JAX
                continue
            except ModuleNotFoundError as error:  # the same, met by an adapter
                if str(error.name).startswith("smoothcruiser"):
                    raise

    def below(cls: type) -> set[type]:
        return {cls}.union(*map(below, cls.__subclasses__()))

    own = {c for c in below(Data) - {Data} if c.__module__.startswith("smoothcruiser")}
    assert own <= set(CLASSES)
    assert set(kinds()) == set(schemas())


def test_a_schema_refuses_what_is_wrong():
    from results import an_estimate

    good = json.loads(an_estimate().to_json())
    check = jsonschema.Draft202012Validator(sc.schema("estimate"))
    assert check.is_valid(good)
    wrong = {"schema": 2, "kind": "schedule", "value": "much", "interval": [0.0]}
    wrong |= {"policy": [[0.5]], "num_calls": 1.5, "price_hex": "12"}
    for name, value in wrong.items():
        assert not check.is_valid(good | {name: value}), name
    assert not check.is_valid({k: v for k, v in good.items() if k != "policy"})


def test_an_unknown_kind_names_those_that_there_are():
    with pytest.raises(sc.InvalidInput, match=r"kind 'tree'; there are .*estimate"):
        sc.schema("tree")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        (FOLDER / f"{name}.json").write_text(text(schema), "utf-8")
        print(name)
