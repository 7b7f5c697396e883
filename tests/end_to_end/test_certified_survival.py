"""A certified search that is killed while it samples, and taken up again.

The long form (ten kills, worker processes) is benchmarks/certified_survival.py.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "certified_survival.py"


@pytest.mark.slow
@pytest.mark.compiles
def test_a_search_killed_in_the_middle_ends_with_the_same_bits(tmp_path, monkeypatch):
    """kill -9 while a slow step is sampled: what was saved is there, and the resumed
    run has the bits of one that nobody disturbed.
    """
    spec = importlib.util.spec_from_file_location("certified_survival", FILE)
    survival = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "certified_survival", survival)
    spec.loader.exec_module(survival)
    monkeypatch.setattr(survival, "__file__", str(FILE))
    found = survival.survive(tmp_path / "store.db", kills=1, executor="python")
    assert found.same
    assert len(found.kills) == 1
    assert 0 < found.kills[0] < found.calls
