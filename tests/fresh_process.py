"""Programs in processes of their own, for tests of what a fresh interpreter does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def run_python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which has to end well, and its output."""
    done = run_words("-c", program, **variables)
    assert done.returncode == 0, done.stderr
    return done


def run_words(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with these words in a process of its own, and its output."""
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | variables,
    )


def begin_words(*words: str) -> subprocess.Popen[str]:
    """Python with these words in a process of its own that goes on; it hears Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background job ignores Ctrl-C, and so do its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
