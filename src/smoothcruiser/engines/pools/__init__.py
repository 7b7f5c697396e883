"""Pools: tasks run by threads, processes and clusters."""
