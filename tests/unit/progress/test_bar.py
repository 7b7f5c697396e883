"""The line of the progress bar."""

from __future__ import annotations

import io
import sys

import pytest

from smoothcruiser.progress import Progress
from smoothcruiser.progress.bar import Bar, describe


class Full(io.StringIO):
    """A log on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("closed", [False, True])
def test_a_log_that_takes_nothing_does_not_end_the_run(closed, monkeypatch):
    stream = io.StringIO() if closed else Full()
    monkeypatch.setattr(sys, "stderr", stream)
    if closed:
        stream.close()
    with Bar() as bar:
        bar(Progress(phase="solving", calls=0, seconds=0.0))
    assert bar.last is not None


def test_a_line_of_numbers_holds_what_it_says():
    """Half-widths are rounded up."""
    one = Progress(calls=5, seconds=1.0, price=10, interval=(0.0, 0.4682))
    assert "value 0.2341 ± 0.24" in describe(one)
    known = Progress(phase="solving", calls=0, seconds=0.0, done=3, half_width=0.00101)
    assert "error at most 0.0011" in describe(known)
