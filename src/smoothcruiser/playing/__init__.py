"""Agents, and the episodes that they play."""
