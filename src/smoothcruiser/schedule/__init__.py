"""Sampling plans as frozen tables, and the compiler that fills them."""
