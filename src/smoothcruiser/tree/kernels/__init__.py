"""Tree search in the subset of Python that Numba compiles."""
