"""The paper reproduced: its two figures and its table, its errors, and the
experiments that its authors could not run.
"""
