"""The run store: one SQLite file that survives ``kill -9`` at any moment."""

from smoothcruiser.store.record import Record, Runs, StoredRun
from smoothcruiser.store.store import Store

__all__ = ["Record", "Runs", "Store", "StoredRun"]
