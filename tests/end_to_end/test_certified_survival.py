"""A certified search that is killed while it samples, and taken up again.

The long form (ten kills, worker processes) is benchmarks/reliability/certified_survival.py.
"""

from __future__ import annotations

import pytest
from benchmarks.reliability import certified_survival as survival


@pytest.mark.slow
@pytest.mark.compiles
def test_a_search_killed_in_the_middle_ends_with_the_same_bits(tmp_path):
    """kill -9 while a slow step is sampled: what was saved is there, and the resumed
    run has the bits of one that nobody disturbed.
    """
    found = survival.survive(tmp_path / "store.db", kills=1, executor="python")
    assert found.same
    assert len(found.kills) == 1
    assert 0 < found.kills[0] < found.calls
