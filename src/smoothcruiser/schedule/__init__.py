"""Sampling plans as frozen tables, and what fills them."""
