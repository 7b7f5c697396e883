"""Machine code from the disk: loaded without a compiler, compiled where it is damaged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcruiser
from smoothcruiser.jit import code_files as disk

pytestmark = pytest.mark.compiles

# A function of a package called smoothcruiser: only those are cached.
PROGRAM = """
import sys
import numpy as np
from smoothcruiser.jit.build import compile_function
from smoothcruiser.operators import dispatch

value = compile_function(dispatch.builtin_value)
found = value(0, np.array([1.0, 2.0]), np.array([1.0, 1.0]), 0.5)
hits = sum(value.stats.cache_hits.values())
print(hits, found, "numba.np.linalg" in sys.modules)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder with what the program has compiled, and its first answer."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, run(folder)


def run(folder: Path) -> list[str]:
    source = str(Path(smoothcruiser.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_function_from_the_disk_needs_none_of_numbas_tables(cache):
    folder, (hits, value, tables) = cache
    assert (hits, tables) == ("0", "True")  # compiled
    assert run(folder) == ["1", value, "False"]


@pytest.mark.parametrize("held", [b"", b"x" * 10_000], ids=["empty", "other"])
def test_a_damaged_file_is_compiled_and_written_again(cache, held):
    folder, (_, value, _) = cache
    for path in folder.rglob("*builtin_value*.nbc"):
        path.write_bytes(held)
    assert run(folder)[:2] == ["0", value]
    assert run(folder)[:2] == ["1", value]


def test_a_name_without_an_address_is_supplied_before_code_is_loaded(monkeypatch):
    """Numba's runtime first, and all of its tables only where that is not enough."""
    supplied = []

    class Context:
        def codegen(self):
            return None

        def refresh(self):
            supplied.append("tables")

    class File:
        def load(self, key):
            return ["name"], "code"

    class Impl:
        def rebuild(self, context, result):
            return result

    ready = object.__new__(disk.OnDisk)
    ready._cache_file, ready._impl = File(), Impl()
    ready._index_key = lambda sig, codegen: None
    runtime = type(
        "Runtime", (), {"initialize": lambda self, c: supplied.append("nrt")}
    )
    monkeypatch.setattr(disk, "rtsys", runtime())
    for known_after, expected in ((0, []), (1, ["nrt"]), (2, ["nrt", "tables"])):
        supplied.clear()
        monkeypatch.setattr(
            disk.binding,
            "address_of_symbol",
            lambda name, n=known_after: len(supplied) >= n or None,
        )
        assert ready._load_overload("sig", Context()) == "code"
        assert supplied == expected
