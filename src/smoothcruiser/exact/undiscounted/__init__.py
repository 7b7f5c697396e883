"""Exact solutions at discount 1."""
