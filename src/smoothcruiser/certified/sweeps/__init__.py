"""Sweeps of bounds over the seen graph: plain, by layers, as totals, pooled."""
