"""Agents and episodes."""
