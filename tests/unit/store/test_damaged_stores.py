"""A damaged or edited store is refused and left alone, or resumes to the same bits.

Reduced form of benchmarks/reliability/damaged_stores.py (docs/evidence/damaged-stores.md).
"""

import pytest
from benchmarks.reliability.damaged_stores import all_cases

pytestmark = pytest.mark.compiles


@pytest.mark.slow
def test_damaged_stores_are_refused_or_give_the_same_bits(tmp_path):
    cases = all_cases(120, tmp_path)
    assert [case for _, case in cases if case.broken] == []
    results = {case.result for _, case in cases}
    assert {"refused", "the same bits"} <= results, "both ends of the law are met"
