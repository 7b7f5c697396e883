"""The engine in machine code: the schedule table run by Numba."""
