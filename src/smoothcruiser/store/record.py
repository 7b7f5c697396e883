"""A run as the store holds it: the row that is written, and the row that is read.

A run is (problem, method, plan, state, seed, cut): plain JSON and numbers, and
nothing is ever unpickled. The plan of a method that follows a schedule is the
schedule; that of certified search is its promise. A row is read only if its seal
fits, and every value in it has the type and the range that it was written with.

The runs of a store as one list: for a table, and as JSON.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.problem.fingerprint import contents
from smoothcruiser.problem.make import is_spec
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import WritingOracle
from smoothcruiser.records.data import DIALECT, Framed, head, json_text, with_head
from smoothcruiser.records.shapes import Schema
from smoothcruiser.states.identity import identical
from smoothcruiser.states.state_json import as_tuples, match_form
from smoothcruiser.store.store_file import seal

# the columns of the table ``runs``, in the order in which they are sealed
COLUMNS = (
    "id",
    "created",
    "problem",
    "spec",
    "fingerprint",
    "state",
    "method",
    "plan",
    "seed",
    "shards",
    "executor",
    "versions",
)
VALUES = ("json", "plain")  # kinds of states that are kept, not only described
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in the text of an object


@dataclass(frozen=True, kw_only=True)
class Record:
    """The facts to keep of a run that begins."""

    problem: Problem
    method: str
    plan: dict[str, Any]  # plain data
    state: Any
    seed: int
    executor: str
    shards: int | None = None


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run as the store knows it."""

    id: int
    created: float
    problem: str
    spec: dict[str, Any] | None
    fingerprint: dict[str, str]  # part of the problem -> its digest
    state: dict[str, Any]  # an entry that ``state_at`` reads
    method: str
    plan: dict[str, Any]
    seed: int
    shards: int | None
    executor: str
    versions: dict[str, str]
    seal: str
    estimate: dict[str, Any] | None = None
    finished: float | None = None
    shards_done: int = 0
    calls_done: int = 0

    @property
    def shown_state(self) -> Any:
        """The state, for a reader."""
        ((name, value),) = self.state.items()
        return value if name in VALUES else str(value).rpartition(" ")[0]

    @property
    def status(self) -> str:
        """Whether there is more to do: "saved" is a memory that only answers."""
        if self.plan.get("saved"):
            return "saved"
        return "finished" if self.estimate is not None else "unfinished"

    def to_dict(self) -> dict[str, Any]:
        """The run as plain data, without the table of levels."""
        plan = self.plan
        return {
            "run": self.id,
            "created": self.created,
            "problem": self.problem,
            "state": self.shown_state,
            "method": self.method,
            "epsilon": plan.get("epsilon"),
            "delta": plan.get("delta"),
            "seed": self.seed,
            "executor": self.executor,
            "num_calls": plan.get("num_calls"),
            "log10_calls": plan.get("log10_calls"),
            "calls_done": self.calls_done,
            "shards_done": self.shards_done,
            "status": self.status,
            "estimate": self.estimate,
            "versions": self.versions,
        }

    def state_at(self, problem: Problem, requested_state: Any = None) -> Any:
        """The queried state of the run; a state that is passed has to be the same."""
        if requested_state is not None:
            requested_state = problem.start(requested_state)
            state_entries = (
                state_entry(problem, requested_state),
                _by_contents(problem, requested_state),
            )
            if _comparable(self.state) not in map(_comparable, state_entries):
                raise InvalidInput(
                    f"Run {self.id} was started at state {self.shown_state}, got "
                    f"{requested_state!r}; drop the state, or start a new run."
                )
            return requested_state
        if "initial" in self.state:
            return problem.initial_state
        if "text" in self.state:
            raise InvalidInput(
                f"The state of run {self.id} ({self.shown_state}) is not kept in the "
                "store; pass the same state to resume()."
            )
        try:
            if "plain" in self.state:
                return problem.start(self.state["plain"])
            return match_form(as_tuples(self.state["json"]), problem.initial_state)
        except (
            InvalidInput,
            TypeError,
            ValueError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise InvalidInput(
                f"The state of run {self.id} is none of its problem ({error}); the "
                "store was left untouched: start the run anew."
            ) from error


# --- writing ------------------------------------------------------------------


def state_entry(problem: Problem, state: Any) -> dict[str, Any]:
    """A state as plain data: by its value, or as the oracle writes it, or as text.

    By its value only if ``state_at`` makes the same of it, types included; as the oracle
    writes it only if that is read as a state of the same key.
    """
    plain_state = state.tolist() if hasattr(state, "tolist") else state
    try:
        reread_state = json.loads(json.dumps(plain_state))
        if _same(match_form(as_tuples(reread_state), problem.initial_state), state):
            return {"json": reread_state}
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    entry, oracle = _by_contents(problem, state), problem.oracle
    if "text" in entry and isinstance(oracle, WritingOracle):
        try:
            plain_state = json.loads(json.dumps(oracle.plain(state)))
            reread_state = problem.start(plain_state)
            if problem.key_of(reread_state) == problem.key_of(state):
                return {"plain": plain_state}
        except (SmoothcruiserError, TypeError, ValueError, RecursionError):
            pass  # it cannot be told apart, or not be written
    return entry


def _by_contents(problem: Problem, state: Any) -> dict[str, Any]:
    """A state as the problem's own, or as text with a digest of its contents."""
    text = ADDRESS.sub("", repr(state))
    name = "initial" if identical(state, problem.initial_state) else "text"
    return {name: f"{text} {contents(state)}"}


def _same(x: Any, y: Any) -> bool:
    """Whether two values are the same to the bit, dicts and their order included."""
    if type(x) is not type(y):
        return False
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(map(_same, x, y))
    if type(x) is dict:
        return _same(list(x.items()), list(y.items()))
    return identical(x, y)


def _comparable(entry: dict[str, Any]) -> str:
    """The text that tells states apart: their value or contents, without the kind."""
    ((name, value),) = entry.items()
    text = json.dumps(value, sort_keys=True)
    return text if name in VALUES else text.rpartition(" ")[2]


# --- reading ------------------------------------------------------------------


class Unreadable(ValueError):
    """A row that is not as it was written; the text says why."""


def read_row(row: tuple[Any, ...], seal_found: Any) -> dict[str, Any]:
    """The fields of a run, from the columns of its row."""
    if not all(isinstance(value, None | int | float | str) for value in row):
        raise Unreadable("a value is of the wrong type")
    if seal(*row) != seal_found:
        raise Unreadable("its seal does not fit")
    fields = dict(zip(COLUMNS, row, strict=True))
    for name in ("problem", "method", "executor", "seed"):
        require(isinstance(fields[name], str), name)
    require(_is_time(fields["created"]), "created")
    shards = fields["shards"]
    require(shards is None or (is_whole(shards) and shards >= 1), "shards")
    require(re.fullmatch(r"[0-9]{1,4000}", fields["seed"]) is not None, "seed")
    fields["seed"] = int(fields["seed"])
    for name in ("spec", "fingerprint", "state", "plan", "versions"):
        fields[name] = plain_data(fields[name], name)
    require(fields["spec"] is None or is_spec(fields["spec"]), "spec")
    for name in ("fingerprint", "versions"):
        text_map = fields[name]
        require(
            isinstance(text_map, dict)
            and all(isinstance(t, str) for t in text_map.values()),
            name,
        )
    state = fields["state"]
    require(
        isinstance(state, dict)
        and len(state) == 1
        and next(iter(state)) in (*VALUES, "initial", "text"),
        "state",
    )
    require(isinstance(fields["plan"], dict), "plan")
    _check_shown(fields["plan"])
    return fields | {"seal": seal_found}


def plain_data(text: Any, name: str) -> Any:
    """The data of a column of JSON; None where it is empty."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unreadable(f"its {name} is not JSON") from error


def _is_time(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _check_shown(plan: dict[str, Any]) -> None:
    """Refuse numbers that no list of runs can show."""
    for name in ("epsilon", "delta", "log10_calls"):
        value = plan.get(name)
        is_small_int = (
            isinstance(value, int) and is_whole(value) and abs(value) < 2**63
        )
        require(value is None or isinstance(value, float) or is_small_int, name)
    num_calls = plan.get("num_calls")
    require(num_calls is None or is_whole(num_calls), "num_calls")


def require(condition: bool, name: str) -> None:
    """Refuse a row with a value that no store can have written."""
    if not condition:
        raise Unreadable(f"its {name} cannot be")


NUMBER = {"type": ["number", "null"]}
WHOLE = {"type": ["integer", "null"]}
TEXT = {"type": "string"}
RUN: dict[str, Schema] = {
    "run": {"type": "integer"},
    "created": {"type": "number", "description": "seconds since 1970"},
    "problem": TEXT,
    "state": {"description": "A state: any JSON data."},
    "method": TEXT,
    "epsilon": NUMBER,
    "delta": NUMBER,
    "seed": {"type": "integer"},
    "executor": TEXT,
    "num_calls": WHOLE,
    "log10_calls": NUMBER,
    "calls_done": {"type": "integer"},
    "shards_done": {"type": "integer"},
    "status": {"enum": ["finished", "unfinished", "saved"]},
    "estimate": {
        "type": ["object", "null"],
        "description": "An object of kind estimate, as the version that made it wrote it.",
    },
    "versions": {"type": "object", "additionalProperties": TEXT},
}
DAMAGED: dict[str, Schema] = {
    "run": {"type": "integer"},
    "status": {"const": "damaged"},
    "why": TEXT,
}


class DamagedRun:
    """A run that cannot be read."""

    def __init__(self, number: int, why: str) -> None:
        self.id, self.why = number, why

    def to_dict(self) -> dict[str, Any]:
        """The run as plain data."""
        return {"run": self.id, "status": "damaged", "why": self.why}


class Runs(Framed, list[StoredRun | DamagedRun]):
    """The runs of a store, oldest first."""

    json_kind: ClassVar[str] = "runs"
    frame_columns: ClassVar[tuple[str, ...]] = (
        *("run", "created", "problem", "state", "method", "epsilon", "delta", "seed"),
        *("executor", "num_calls", "calls_done", "shards_done", "status"),
        *("value", "low", "high", "action"),
    )

    def records(self) -> list[dict[str, Any]]:
        """One row per run: its request, its progress, and its answer.

        Of a run that is damaged only ``run`` and ``status`` are known.
        """
        run_rows = []
        for run in self:
            run_data = run.to_dict()
            estimate_data = run_data.get("estimate") or {}
            lower_bound, upper_bound = estimate_data.get("interval") or (None, None)
            run_data |= {
                "value": estimate_data.get("value"),
                "low": lower_bound,
                "high": upper_bound,
            }
            run_data["action"] = estimate_data.get("action")
            run_rows.append({name: run_data.get(name) for name in self.frame_columns})
        return run_rows

    def to_dict(self) -> dict[str, Any]:
        """The runs as plain data; they are read back from their store."""
        return head(self.json_kind) | {"runs": [run.to_dict() for run in self]}

    def to_json(self, **options: Any) -> str:
        """The runs as JSON text."""
        return json_text(self.to_dict(), options)

    @classmethod
    def json_schema(cls) -> Schema:
        """The JSON Schema of the result of ``to_dict``."""
        run_schemas = [
            {"type": "object", "properties": properties, "required": list(properties)}
            for properties in (RUN, DAMAGED)
        ]
        object_schema = {
            "type": "object",
            "properties": {"runs": {"type": "array", "items": {"anyOf": run_schemas}}},
            "required": ["runs"],
        }
        schema_head = {
            "$schema": DIALECT,
            "title": cls.json_kind,
            "description": cls.__doc__,
        }
        return schema_head | with_head(cls.json_kind, object_schema)
