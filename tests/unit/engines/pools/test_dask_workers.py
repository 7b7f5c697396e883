"""A Dask worker gets work only if it would compute the bits of this process, and a
cluster that cannot be used is one sentence; what was finished is kept.

The scenarios from the command line (Ctrl-C, kill -9, certificates of the user's own)
are in benchmarks/scale/cluster.py.
"""

import contextlib
import logging
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser import InvalidInput, MissingExtra, OracleError, WorkersLost
from smoothcruiser.engines import base as versions
from smoothcruiser.engines.first_shard import MOST_CALLS
from smoothcruiser.engines.pools.base import Build
from smoothcruiser.engines.registry import first_shard_of
from smoothcruiser.problem.fingerprint import Fingerprint
from smoothcruiser.query import Compute
from smoothcruiser.store import Store

distributed = pytest.importorskip("distributed")
import psutil  # noqa: E402 - Dask brings it
from benchmarks.scale.cluster_nodes import Node, edited_copy, listening, world  # noqa: E402

from smoothcruiser.engines.pools import dask, dask_cluster, dask_worker  # noqa: E402

pytestmark = pytest.mark.compiles
PROMISE = {"epsilon": "25%", "delta": 0.1, "shards": 6}
PROMISE["method"] = "smoothcruiser"


class Counting:
    """A step that counts its calls."""

    calls = 0

    def __call__(self, state, action, rng):
        Counting.calls += 1
        return rng.random(), state


def problem(**changes):
    facts = {"num_actions": 2, "discount": 0.4, "operator": sc.Entropy(1.0)}
    return sc.MDP(Counting(), initial_state=0, **(facts | changes))


def itself(problem):
    return problem


def payload(**changes):
    mine = problem(**changes)
    return dask_worker.pack_build(Build(mine, itself), first_shard_of(mine, "python"))


@pytest.fixture(autouse=True)
def address(monkeypatch):
    """This process stands for a worker where a test calls what runs there."""
    monkeypatch.setattr(dask_worker, "_worker_address", lambda: "here")


# --- evidence -----------------------------------------------------------------


def test_evidence_of_equal_processes_is_equal_and_makes_no_call():
    Counting.calls = 0
    one, two = (dask_worker.Evidence.here(payload()) for _ in range(2))
    assert one.digest == two.digest
    assert one.against(two) is None
    assert Counting.calls == 0


DIFFERENT = {
    "sources": ({"engines/run.py": "0"}, "the source file"),
    "edited": (True, "before its files were changed"),
    "versions": ({"Python": "2.7"}, r"has Python 2\.7 where this process has"),
    "problem": (Fingerprint({"step": "0"}, ()), "version of the problem: step"),
    "first_shard": ("0x0p+0 0x0p+0 0", "computes other bits"),
    "failure": ("has no module named 'x'", "has no module named 'x'"),
}


def test_every_part_of_the_evidence_counts_and_is_named():
    own = dask_worker.Evidence.here(payload())
    for field, (value, fragment) in DIFFERENT.items():
        other = replace(own, **{field: value})
        assert other.digest != own.digest
        assert re.search(fragment, str(other.against(own)))


def test_one_edited_byte_of_any_source_file_changes_the_hashes(tmp_path, monkeypatch):
    """An upgrade in place leaves old code in workers that are running."""
    shutil.copytree(versions.PACKAGE / "engines", tmp_path / "engines")
    monkeypatch.setattr(versions, "PACKAGE", tmp_path)
    before = versions.source_hashes()
    assert "engines/pools/dask_worker.py" in before
    file = tmp_path / "engines" / "shards.py"
    file.write_text(file.read_text().replace("1_000_000", "1_000_001"))
    after = versions.source_hashes()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"engines/shards.py"}
    monkeypatch.setattr(dask_worker, "IMPORTED", before)
    assert dask_worker.Evidence.here(payload()).edited


def test_a_worker_that_is_not_as_expected_runs_nothing():
    def runs(built, item):
        raise AssertionError("it ran")

    reply = dask_worker.run_item("one", payload(), "another digest", runs, 1)
    assert reply.result is None
    assert reply.evidence is not None


def test_what_an_item_raises_is_part_of_the_reply():
    packed = payload()
    expected = dask_worker.prove("two", packed).digest

    def fails(built, item):
        raise item

    def reply(error):
        return dask_worker.run_item("two", packed, expected, fails, error).error

    assert isinstance(reply(sc.Unpayable("too much")), sc.Unpayable)
    for error in (ZeroDivisionError("x"), SystemExit(3)):
        assert isinstance(reply(error), OracleError)
        assert type(error).__name__ in str(reply(error))


def test_threads_of_a_worker_share_nothing():
    """An engine in plain Python keeps the stream of its shard: two threads on one
    engine would mix their numbers.
    """
    packed = payload()
    expected = dask_worker.prove("three", packed).digest
    things = []

    def ask():
        for i in range(3):
            reply = dask_worker.run_item(
                "three", packed, expected, lambda thing, _: thing, i
            )
            things.append(reply.result)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len(things) == 6
    assert len(set(map(id, things))) == 2


# --- the first shard ----------------------------------------------------------


def test_the_first_shard_follows_the_levels_and_the_operator():
    mine = problem()
    schedule = sc.explain(mine, epsilon="10%", delta=0.1)
    pieces = {
        "schedule": first_shard_of(mine, "python", schedule.levels),
        "every kind": first_shard_of(mine, "python"),
        "operator": first_shard_of(problem(operator=sc.Max()), "python"),
        "actions": first_shard_of(problem(num_actions=3), "python"),
    }
    bits = {name: piece.bits() for name, piece in pieces.items()}
    assert len(set(bits.values())) == len(bits)
    assert first_shard_of(mine, "compiled").bits() == bits["every kind"]


def test_the_first_shard_of_a_huge_schedule_is_small():
    schedule = sc.explain(problem(), epsilon="1%", delta=0.1)
    assert schedule.num_calls > 100 * MOST_CALLS
    job = first_shard_of(problem(), "python", schedule.levels).job()
    calls = job.schedule.level_calls[job.schedule.root.child]
    assert job.schedule.root.samples * (1 + calls) <= MOST_CALLS


# --- what is refused before anything starts -----------------------------------


def test_files_for_tls_are_checked(tmp_path):
    file = tmp_path / "some.pem"
    file.write_text("no certificate")
    missing = str(tmp_path / "none.pem")
    for scheduler, tls, fragment in (
        ("tls://127.0.0.1:1", ("a", "b"), "three files"),
        ("tls://127.0.0.1:1", (missing, file, file), "none.pem' .* does not exist"),
        ("tls://127.0.0.1:1", (file, file, file), "cannot be read"),
        ("tls://127.0.0.1:1", None, "asks for certificates; give their files"),
        (None, (file, file, file), "give scheduler="),
        ("tcp://127.0.0.1:1", (file, file, file), "write tls://"),
    ):
        with pytest.raises(InvalidInput, match=fragment):
            sc.plan(problem(), **PROMISE, scheduler=scheduler, tls=tls)


@pytest.mark.parametrize("address", ["", " ", "inproc://x"])
def test_an_address_that_is_none_is_refused_at_once(address):
    with pytest.raises(InvalidInput, match="tcp://HOST:PORT"):
        sc.plan(problem(), scheduler=address, **PROMISE)


def test_a_limit_for_workers_is_a_number(monkeypatch):
    monkeypatch.setenv(dask.WAIT_VARIABLE, "soon")
    with pytest.raises(InvalidInput, match=r"SMOOTHCRUISER_WORKER_SECONDS .* 'soon'"):
        sc.plan(problem(), executor="dask", workers=1, **PROMISE)


def test_a_local_cluster_without_certificates_is_not_started(monkeypatch):
    def missing():
        raise ImportError("no cryptography")

    monkeypatch.setattr(distributed.Security, "temporary", missing)
    with pytest.raises(MissingExtra, match=r"cryptography: pip install .*\[dask\]"):
        dask_cluster.Connection(Compute(workers=1))


# --- clusters -----------------------------------------------------------------


@contextlib.contextmanager
def scheduler_here():
    """A scheduler in this process, without workers."""
    with distributed.LocalCluster(
        n_workers=0,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=dask_cluster.SILENT,
    ) as cluster:
        yield cluster


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A problem in a module that only a worker with the right folder can import."""
    world(tmp_path, 0.0, name="dask_world")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "dask_world", raising=False)
    return sc.make("dask_world:problem")


def ours(caplog):
    """The warnings of this package, without Dask's own log."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == dask.__name__ and record.levelno == logging.WARNING
    ]


@pytest.mark.slow
def test_workers_that_differ_are_refused_and_the_others_do_it_all(
    tmp_path, mine, caplog
):
    """One line of the package was edited; the problem's module is missing; and the
    bits are those of this process.
    """
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with scheduler_here() as cluster:
        address = cluster.scheduler_address
        asked = PROMISE | {"scheduler": address}
        with Node(
            "worker", address, path=edited_copy(tmp_path), folder=tmp_path
        ) as bad:
            with pytest.raises(
                WorkersLost,
                match=rf"{bad.address} .* engines/interpreted/python\.py differs",
            ):
                sc.plan(mine, **asked)
            with Node("worker", address, folder=elsewhere) as lacking:
                with pytest.raises(WorkersLost, match="1 more is refused too"):
                    sc.plan(mine, **asked)
                with Node("worker", address, folder=tmp_path) as good:
                    there = sc.plan(mine, **asked)
    told = "\n".join(ours(caplog))
    assert f"{bad.address} runs another smoothcruiser" in told
    assert f"{lacking.address} has no module named 'dask_world'" in told
    assert good.address not in told
    here = sc.plan(mine, **PROMISE)
    assert (there.q_values, there.num_calls) == (here.q_values, here.num_calls)


def test_a_lost_scheduler_keeps_what_was_finished(tmp_path, mine):
    path = tmp_path / "runs.db"
    with (
        scheduler_here() as cluster,
        Node("worker", cluster.scheduler_address, folder=tmp_path),
    ):
        reports = iter(range(10**6))

        def lose(progress):
            if progress.calls and next(reports) == 1:
                cluster.close()

        where = {"scheduler": cluster.scheduler_address, "store": path}
        with pytest.raises(WorkersLost, match=r"is gone.* resume\(1, store="):
            sc.plan(mine, **PROMISE, **where, progress=lose)
    with Store(path, write=False) as store:
        assert len(store.parts(1)) >= 2
    resumed = sc.resume(1, path, mine, executor="python")
    assert resumed.q_values == sc.plan(mine, **PROMISE).q_values


def test_no_workers_is_a_message_and_then_a_sentence(mine, monkeypatch, caplog):
    monkeypatch.setenv(dask.WAIT_VARIABLE, "0.2")
    with (
        scheduler_here() as cluster,
        pytest.raises(WorkersLost, match=r"start workers there \(dask worker tcp://"),
    ):
        sc.plan(mine, **PROMISE, scheduler=cluster.scheduler_address)
    (message,) = ours(caplog)
    assert message.startswith("Waiting for workers at tcp://127.0.0.1")


def test_a_local_cluster_is_private_and_leaves_nothing_behind():
    """Loopback alone, no HTTP, and no one else's client gets in."""
    script = "import time; time.sleep(60)"
    link = dask_cluster.Connection(Compute(workers=1))
    try:
        me = psutil.Process()
        family = [me, *me.children(recursive=True)]
        ports = listening(family)
        assert len(ports) == 3  # scheduler, nanny, worker
        assert {port.ip for port in ports} == {"127.0.0.1"}
        number = link.address.rpartition(":")[2]
        other = distributed.Security.temporary()
        for protocol, security in (("tcp", None), ("tls", other)):
            where = f"{protocol}://127.0.0.1:{number}"
            how = {"timeout": 1, "set_as_default": False}
            with pytest.raises((OSError, TimeoutError)):
                distributed.Client(where, security=security, **how)
        # an item that would take a minute does not delay the end
        link.client.submit(subprocess.run, [sys.executable, "-c", "pass"]).result()
        link.client.submit(exec, script)
    finally:
        link.close()
    workers = [p for p in family[1:] if "resource_tracker" not in " ".join(_line(p))]
    assert workers == []


def _line(process):
    """The command line of a process that runs, or what filters it out."""
    with contextlib.suppress(psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE:
            return process.cmdline()
    return ["resource_tracker"]
