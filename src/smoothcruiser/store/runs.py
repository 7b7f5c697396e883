"""The runs of a store as one list: for a table, and as JSON."""

from __future__ import annotations

from typing import Any, ClassVar

from smoothcruiser.records.data import DIALECT, head, json_text, with_head
from smoothcruiser.records.frames import Framed
from smoothcruiser.records.shapes import Schema
from smoothcruiser.store.record import StoredRun

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
