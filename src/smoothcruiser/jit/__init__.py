"""Everything that imports Numba, but the kernels: one definition for Python and
compiled code, memory, streams, states.
"""
