"""Paths beside a certified search: they give one end of its interval."""
