"""The run store: one SQLite file that survives ``kill -9`` at any moment."""

from smoothcruiser.store.record import Record, StoredRun
from smoothcruiser.store.runs import Runs
from smoothcruiser.store.store import Store

__all__ = ["Record", "Runs", "Store", "StoredRun"]
