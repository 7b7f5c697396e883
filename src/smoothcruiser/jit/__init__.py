"""Everything that imports Numba, except the kernels.

One definition serves Python and compiled code; memory, streams and the states
of compiled code are here too.
"""
