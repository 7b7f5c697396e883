"""Every adapter in the table is complete.

Laws: each one is listed by ``smoothcruiser problems``, documented in
docs/simulators.md, installed by an extra of pyproject.toml, and says which one where
its library is missing. Listing them loads none of the libraries.
"""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import smoothcruiser as sc
from fresh_process import run_python
from smoothcruiser.cli.app import app
from smoothcruiser.problem.adapter_protocol import (
    Adapter,
    list_adapters,
    load_adapters,
)

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "src" / "smoothcruiser" / "adapters"
ADAPTERS = dict(
    load_adapters()
)  # those of this package, whatever other tests register
# what each one imports; None for NumPy alone
LIBRARIES = {
    name: name for name in ("bsuite", "dm_env", "gymnax", "pettingzoo", "pgx")
}
LIBRARIES |= {"gym": "gymnasium", "openspiel": "pyspiel", "rddl": "pyRDDLGym"}
LIBRARIES |= {"jani": "stormpy", "prism": "stormpy", "umb": "umbi", "npz": None}
NEEDY = [name for name in ADAPTERS if ADAPTERS[name].needs]


def test_every_file_of_the_folder_registers_an_adapter():
    files = {path.stem for path in FOLDER.iterdir()} - {"__init__", "__pycache__"}
    modules = {type(adapter).__module__.split(".")[2] for adapter in ADAPTERS.values()}
    assert modules == files
    assert ADAPTERS.keys() == LIBRARIES.keys()


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_listed_documented_and_installed_by_an_extra(name):
    adapter = ADAPTERS[name]
    assert isinstance(adapter, Adapter)
    assert adapter.name == name
    assert adapter.summary
    listed = " ".join(CliRunner().invoke(app, ["problems"]).stdout.split())
    assert f"{adapter.summary}: {name}:{adapter.example}" in listed
    assert adapter.needs in listed
    assert f'sc.make("{name}:' in (ROOT / "docs" / "simulators.md").read_text()
    assert bool(adapter.needs) is bool(LIBRARIES[name])
    if adapter.needs:
        assert LIBRARIES[name] in getattr(adapter, "modules", (LIBRARIES[name],))
        extra = re.fullmatch(r"smoothcruiser\[(\w+)\]", adapter.needs)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert extra[1] in project["optional-dependencies"]


@pytest.mark.parametrize("name", NEEDY)
def test_a_missing_library_is_named_with_its_extra(name, monkeypatch):
    adapter = ADAPTERS[name]
    package = type(adapter).__module__
    for module in [m for m in sys.modules if m.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, LIBRARIES[name], None)  # importing it fails
    remedy = re.escape(f"pip install '{adapter.needs}'")
    with pytest.raises(sc.MissingExtra, match=remedy):
        sc.make(f"{name}:{adapter.example}", discount=0.9, operator="max")


def test_a_library_that_is_missing_is_told_from_one_that_is_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    found = list_adapters()["openspiel"]
    assert (found.installed, found.missing) == (False, ("pyspiel",))
    assert str(found).endswith(
        "(not installed: pip install 'smoothcruiser[openspiel]')"
    )
    pytest.importorskip("gymnasium")
    assert list_adapters()["gym"].installed
    assert str(list_adapters()["gym"]).endswith(
        "(installed, smoothcruiser[gymnasium])"
    )


@pytest.mark.compiles
def test_listing_loads_no_library():
    program = (
        "import sys\n"
        "from smoothcruiser.problem.adapter_protocol import descriptions\n"
        "descriptions()\n"
        f"print([name for name in {[*filter(None, LIBRARIES.values())]} if name in sys.modules])"
    )
    assert run_python(program).stdout.strip() == "[]"
