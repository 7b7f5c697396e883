"""``exp`` and ``log`` of compiled code return what Python's return."""

from __future__ import annotations

import ctypes
import math
import struct
import sys

import numpy as np
import pytest
from llvmlite import binding
from numba import njit

from smoothcruiser.jit import by_address as libm

NUMBERS = [0.0, -0.0, 1e-320, 0.3, 1.0, 2.5, 709.7, 710.0, 1e308, math.inf]


def bits(x: float) -> bytes:
    return b"nan" if math.isnan(x) else struct.pack("d", x)


@pytest.mark.compiles
def test_bits_are_those_of_the_math_module() -> None:
    libm.bind()

    @njit
    def both(x):
        return math.exp(x), math.log(x)

    points = [*NUMBERS, *np.random.default_rng(0).uniform(1e-3, 50.0, 2000)]
    for x in [*points, *(-x for x in points), math.nan]:
        e, log = both(x)
        assert bits(e) == bits(math.exp(x) if not x >= 710.0 else math.inf)
        if x > 0.0:
            assert bits(log) == bits(math.log(x))
        else:
            assert log == -math.inf if x == 0.0 else math.isnan(log)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone has two")
@pytest.mark.parametrize("name", libm.NAMES)
def test_llvm_has_the_address_of_the_library(name: str) -> None:
    libm.bind()
    place = ctypes.cast(getattr(ctypes.CDLL("libm.so.6"), name), ctypes.c_void_p)
    assert binding.address_of_symbol(name) == place.value
