"""Confidence bounds on a pair of state and action."""
