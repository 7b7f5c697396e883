"""Limits and stops of a run: what counts, and what may end it."""
