"""Processes that are started run nothing of the current folder, and leave no traces."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.pools.processes import (
    VARIABLE,
    forget_safe_path,
    outside_folder,
)
from smoothcruiser.errors import describe_error

SCRIPT = """
import os, sys
import smoothcruiser as sc
if __name__ == "__main__":
    os.chdir(sys.argv[1])
    problem = sc.make("chain:n=3", discount=0.2, temperature=10.0)
    sc.plan(problem, epsilon="20%", delta=0.1, method="smoothcruiser", seed=1,
            executor=sys.argv[2], workers=1)
    assert not {"PYTHONSAFEPATH", "OMP_NUM_THREADS"} & os.environ.keys()
"""


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_a_worker_runs_no_file_of_the_current_folder(executor, tmp_path):
    if executor == "dask":
        pytest.importorskip("distributed")
    here, script = tmp_path / "here", tmp_path / "script.py"
    here.mkdir()
    script.write_text(SCRIPT)
    for name in ("multiprocessing", "pickle", "struct", "numpy"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    source = str(Path(sc.__file__).parents[1])
    hidden = ("OMP_NUM_THREADS", VARIABLE)
    rest = {name: x for name, x in os.environ.items() if name not in hidden}
    subprocess.run(
        [sys.executable, str(script), str(here), executor],
        env=rest | {"PYTHONPATH": source},
        check=True,
        timeout=100,
    )
    assert not (tmp_path / "ran").exists()


def test_variables_are_as_before_whatever_the_order(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("OTHER", "before")
    first, second = outside_folder("OTHER"), outside_folder()
    first.__enter__()
    second.__enter__()
    os.environ["OTHER"] = "meanwhile"
    first.__exit__(None, None, None)
    assert os.environ[VARIABLE] == "1"
    second.__exit__(None, None, None)
    assert VARIABLE not in os.environ
    assert os.environ["OTHER"] == "before"


@pytest.mark.parametrize("asked", [True, False])
def test_a_worker_keeps_what_the_user_asked_for(asked, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    forget_safe_path(asked)
    assert (VARIABLE in os.environ) is asked


def test_an_error_that_cannot_be_printed_is_named():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert describe_error(Mute()) == "Mute"


def test_ctrl_c_while_a_cluster_starts_ends_it_later(monkeypatch):
    pytest.importorskip("distributed")
    from smoothcruiser.engines.pools import dask_cluster
    from smoothcruiser.query import Compute

    closed, go = threading.Event(), threading.Event()

    class Cluster:
        def close(self, timeout):
            closed.set()

    class Pressed(dask_cluster.Future):
        def result(self, timeout=None):
            if not self.done():
                raise KeyboardInterrupt
            return super().result(timeout)

    def started(workers):
        go.wait(10)
        return Cluster()

    monkeypatch.setattr(dask_cluster, "local_cluster", started)
    monkeypatch.setattr(dask_cluster, "Future", Pressed)
    with pytest.raises(KeyboardInterrupt):
        dask_cluster.Connection(Compute(executor="dask", workers=1))
    assert not closed.is_set()
    go.set()
    assert closed.wait(10)
