"""Adaptive planners: they spend a budget or stop at a promise."""
