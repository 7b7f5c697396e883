"""Runs of paths: pilot, blocks, ranges, limits of all statements."""
