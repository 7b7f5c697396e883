"""A release: one version, whatever asks for it, and packages that hold what they should.

Broken on purpose: another version in CITATION.cff or CHANGELOG.md fails here.
"""

import re
import tomllib
from pathlib import Path

import pytest

import smoothcruiser as sc
from fresh_process import run_words

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_written_once_and_read_from_there():
    assert sc.__version__ == PROJECT["version"]
    assert "__version__" in dir(sc)
    source = (ROOT / "src" / "smoothcruiser" / "__init__.py").read_text()
    assert PROJECT["version"] not in source


def test_the_newest_section_of_the_changelog_and_the_citation_have_it():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(
        rf"{re.escape(PROJECT['version'])} - \d{{4}}-\d\d-\d\d", headings[1]
    )
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {PROJECT['version']}\n" in citation


def test_every_supported_python_is_tested_and_named():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    listed = re.search(r"^ +python: \[(.+)\]$", workflow, re.M)
    assert listed is not None
    tested = re.findall(r"\d\.\d+", listed[1])
    named = [
        line.removeprefix("Programming Language :: Python :: ")
        for line in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: \d\.\d+", line)
    ]
    assert tested == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_type_checkers_read_the_types_of_the_package():
    assert (ROOT / "src" / "smoothcruiser" / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


@pytest.mark.compiles
def test_the_command_prints_the_version():
    done = run_words("-m", "smoothcruiser", "--version")
    assert done.stdout == f"smoothcruiser, version {PROJECT['version']}\n"
