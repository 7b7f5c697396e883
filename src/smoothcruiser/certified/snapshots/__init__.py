"""A certified search as bytes, checked when they are read, and memories in a store."""
