"""The code that runs on a Dask worker: its evidence, and the items sent to it.

A worker proves itself before it runs an item. Its evidence is a hash of every
source file of this package as the worker has it, the versions that bits depend
on, the fingerprint of the problem as the worker rebuilt it, and the bits of a
small first shard (``engines.first_shard``). Every reply carries the digest of
that evidence, and the driver compares it with its own before it uses anything.
So a worker that joins late, or is restarted under its old address, cannot slip
in. A worker with another digest than the expected one runs nothing: it sends its
evidence, and the driver names the difference.

Nothing here raises: an error travels as a part of the reply, so that Dask logs
no traceback of it on the worker.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import distributed

from smoothcruiser.engines.base import source_hashes, versions
from smoothcruiser.engines.first_shard import FirstShard
from smoothcruiser.engines.pools.base import Build, Task
from smoothcruiser.errors import (
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    describe_error,
)
from smoothcruiser.problem.fingerprint import Fingerprint, fingerprint
from smoothcruiser.problem.make import from_spec

# This process may have imported files that have changed on disk since.
IMPORTED = source_hashes()


UNKNOWN = Fingerprint({}, ())  # of a problem that could not be rebuilt


@dataclass(frozen=True)
class Evidence:
    """The code and versions of a process, as far as bits depend on them."""

    sources: dict[str, str]  # the hash of each of the package's files
    edited: bool  # whether a file was changed after this process had imported it
    versions: dict[str, str]
    problem: Fingerprint  # of the problem as it was rebuilt in this process
    first_shard: str  # its bits
    failure: str | None = None  # why the last two are empty

    @classmethod
    def here(cls, payload: bytes) -> Evidence:
        """The evidence of this process."""
        current_sources = source_hashes()
        library_evidence = (current_sources, current_sources != IMPORTED, versions())
        try:
            build, first_shard = unpack_build(payload)
            return cls(
                *library_evidence, fingerprint(build.problem), first_shard.bits()
            )
        except ModuleNotFoundError as error:
            return cls(*library_evidence, UNKNOWN, "", missing_module(error.name))
        except (Exception, SystemExit) as error:
            failure = (
                f"cannot rebuild the problem ({describe_error(error)}). Put the same modules on "
                "the worker, and restart it"
            )
            return cls(*library_evidence, UNKNOWN, "", failure)

    @functools.cached_property
    def digest(self) -> str:
        """A hash over all of it."""
        sorted_items = [sorted(x.items()) for x in (self.sources, self.versions)]
        scalar_fields = (
            self.edited,
            self.problem.digest,
            self.first_shard,
            self.failure,
        )
        return hashlib.sha256(repr((sorted_items, scalar_fields)).encode()).hexdigest()

    def against(self, own_evidence: Evidence) -> str | None:
        """How this evidence differs from the driver's ``own``; None if it does not.

        It is the end of a sentence that begins with the worker.
        """
        changed_files = [
            name
            for name in sorted(self.sources.keys() | own_evidence.sources.keys())
            if self.sources.get(name) != own_evidence.sources.get(name)
        ]
        if changed_files:
            more_text = (
                f" (and {len(changed_files) - 1} more)"
                if len(changed_files) > 1
                else ""
            )
            return other_library(
                f"the source file {changed_files[0]}{more_text} differs"
            )
        if self.edited:
            return (
                "imported smoothcruiser before its files were changed; restart the "
                "worker"
            )
        for name, own_version in own_evidence.versions.items():
            worker_version = self.versions.get(name)
            if worker_version != own_version:
                return (
                    f"has {name} {worker_version} where this process has {own_version}, and the "
                    "last bits of a result depend on it; use the same on both"
                )
        if self.failure is not None:
            return self.failure
        changes = self.problem.changes(own_evidence.problem.parts)
        if changes:
            more_text = f" (and {len(changes) - 1} more)" if changes[1:] else ""
            return (
                f"has another version of the problem: {changes[0]}{more_text} differs; put "
                "the same modules on the worker, and restart it"
            )
        if self.first_shard != own_evidence.first_shard:
            return (
                "computes other bits than this process from the same sources and "
                "versions; use machines of one kind, or run 'smoothcruiser cache clear' there if "
                "its compiled code may be out of date"
            )
        return None


def other_library(how: str) -> str:
    """Why a worker with another smoothcruiser is refused."""
    return (
        f"runs another smoothcruiser than this process: {how}; install the same "
        "version on both, and restart the worker"
    )


def missing_module(name: str | None) -> str:
    """Why a worker that lacks a module is refused."""
    if name is not None and name.startswith("smoothcruiser."):
        return other_library(f"it has no module {name}")
    return (
        f"has no module named {name!r}; install it there, or start the worker with the "
        "module's folder in PYTHONPATH"
    )


class Reply(NamedTuple):
    """The reply of a worker."""

    address: str  # the worker's
    digest: str  # of its evidence
    result: Any = None
    evidence: Evidence | None = None  # where it was requested, or is not as expected
    error: SmoothcruiserError | None = None  # raised by the item


class _Process:
    """The evidence of this worker process, for one pool at a time."""

    key: str | None = None
    evidence: Evidence


_process, _lock = _Process(), threading.Lock()
# One build per thread: two threads on one engine would mix their streams.
_thread = threading.local()


def pack_build(build: Build, first_shard: FirstShard) -> bytes:
    """The recipe for workers, as bytes; a problem that cannot be sent is refused.

    Dask would unpack it before a line of this file runs, and a module that is
    missing there would be a traceback. A problem that cannot be pickled, such as
    one with a live simulator, travels as its spec; its fingerprint is compared
    in any case.
    """
    problem, spec = build.problem, build.problem.spec
    pickled_problem: bytes | None = None
    try:
        pickled_problem = cloudpickle.dumps(problem)
    except Exception as error:
        if spec is None:
            raise InvalidInput(
                f"The problem cannot be sent to a cluster ({describe_error(error)}); define "
                "step, legal, terminal and player at the top of a module, or name the "
                "problem as module:attribute (make)."
            ) from error
    try:
        return bytes(
            cloudpickle.dumps(
                (pickled_problem, spec, build.make, build.arguments, first_shard)
            )
        )
    except Exception as error:
        raise InvalidInput(
            f"The state cannot be sent to a cluster ({describe_error(error)}); use a state of "
            "plain data, or another executor."
        ) from error


def unpack_build(payload: bytes) -> tuple[Build, FirstShard]:
    """The packed recipe, with the problem rebuilt."""
    pickled_problem, spec, make, arguments, first_shard = pickle.loads(payload)
    problem = (
        from_spec(spec) if pickled_problem is None else pickle.loads(pickled_problem)
    )
    return Build(problem, make, arguments), first_shard


def prove(key: str, payload: bytes) -> Reply:
    """The evidence of this worker for the pool ``key``."""
    evidence = _evidence(key, payload)
    return Reply(_worker_address(), evidence.digest, evidence=evidence)


def run_item(
    key: str, payload: bytes, expected: str, task: Task[Any, Any], item: Any
) -> Reply:
    """The result of one item, or evidence that is not the expected one."""
    evidence, address = _evidence(key, payload), _worker_address()
    if evidence.digest != expected:
        return Reply(address, evidence.digest, evidence=evidence)
    try:
        return Reply(address, expected, task(_build_once(key, payload), item))
    except SmoothcruiserError as error:
        # without its cause, which may not be possible to send
        return Reply(address, expected, error=type(error)(str(error)))
    except (Exception, SystemExit) as error:
        failure = OracleError(
            f"A task failed on a worker of the cluster: {describe_error(error)}."
        )
        return Reply(address, expected, error=failure)


def _worker_address() -> str:
    """The address of the worker that runs this."""
    return str(distributed.get_worker().address)


def _evidence(key: str, payload: bytes) -> Evidence:
    """The evidence of this process, found once per pool."""
    with _lock:
        if _process.key != key:
            _process.evidence = Evidence.here(payload)
            _process.key = key
        return _process.evidence


def _build_once(key: str, payload: bytes) -> Any:
    """This thread's build for the pool; only one is kept, since it may be large."""
    if getattr(_thread, "key", None) != key:
        _thread.built, _thread.key = None, None
        build_recipe, _ = unpack_build(payload)
        _thread.built = build_recipe.make(
            build_recipe.problem, **build_recipe.arguments
        )
        _thread.key = key
    return _thread.built
