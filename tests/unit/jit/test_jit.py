"""Plain functions rebuilt as compiled ones: the same bits, the right
replacements, a cache that cannot serve a stale function.
"""

import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from smoothcruiser.engines.compiled import kernel
from smoothcruiser.jit import build as jit
from smoothcruiser.jit.build import compile_function, is_compiled, source_fingerprint
from smoothcruiser.operators import dispatch as operators

pytestmark = pytest.mark.compiles


def test_the_same_function_is_built_once():
    first = compile_function(operators.entropy_value)
    assert compile_function(operators.entropy_value) is first
    assert compile_function(first) is first
    assert is_compiled(first)
    assert not any(map(is_compiled, (math.sqrt, operators.entropy_value, None)))


@njit
def seven(data, state, action, rng):
    return 7.0, False


@njit
def eight(data, state, action, rng):
    return 8.0, False


def test_a_replacement_reaches_inner_calls_and_is_not_confused_with_another():
    """``leaf_total`` calls LEAF: each replacement gets its own machine, and
    neither is cached on disk.
    """
    from smoothcruiser.jit.random.streams import stream

    flag = np.zeros(1, np.int64)
    for step, reward in ((seven, 7.0), (eight, 8.0), (seven, 7.0)):
        leaf = compile_function(kernel.leaf_total, LEAF=step)
        total, status = leaf((), 0, 0, 3, 0.5, 0.0, 10.0, stream(0), flag.ctypes.data)
        assert (total, status) == (3 * (reward + 0.5), kernel.DONE)
        assert leaf.stats.cache_path is None
    assert compile_function(kernel.leaf_total, LEAF=seven) is leaf


def test_a_fingerprint_follows_the_sources_of_a_function(monkeypatch):
    """An edit of a file that a function is made of changes its name in the
    cache; of another file, it does not.
    """

    def prints():
        functions = operators.entropy_value, kernel.run_shard
        return [source_fingerprint.__wrapped__(function) for function in functions]

    before = prints()
    assert before[0] != before[1]
    original = jit._digest

    def edited(path):
        return b"edited" if path.name == "kernel.py" else original(path)

    monkeypatch.setattr(jit, "_digest", edited)
    after = prints()
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_every_compiled_module_the_kernel_reaches_is_in_its_fingerprint():
    """What the kernel reaches only through intrinsics or methods has to be
    named in ``jit._SHARED``.
    """
    root = Path(jit.__file__).parent.parent
    reached = (f.__code__.co_filename for f in jit._reachable(kernel.run_shard))
    covered = {Path(name).resolve() for name in reached}
    covered |= {root / name for name in jit._SHARED}
    random = ("stream_type", "distributions", "collection_samplers")
    names = {f"jit/random/{name}.py" for name in random} | {"jit/memory.py"}
    names |= {"engines/compiled/kernel.py", "operators/dispatch.py"}
    assert {root / name for name in names | {"operators/entropy.py"}} <= covered


def test_importing_the_package_does_not_import_numba():
    """``--help`` and ``explain`` stay fast."""
    code = (
        "import sys, smoothcruiser, smoothcruiser.schedule.compiler.optimizer, "
        "smoothcruiser.theory.moments, smoothcruiser.engines.registry as r; "
        "assert list(r.EXECUTORS); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def bits(x: float) -> bytes:
    return b"nan" if math.isnan(x) else struct.pack("d", x)


def test_exp_and_log_of_compiled_code_have_the_bits_of_the_math_module():
    @njit
    def both(x):
        return math.exp(x), math.log(x)

    numbers = [0.0, -0.0, 1e-320, 0.3, 1.0, 2.5, 709.7, 710.0, 1e308, math.inf]
    points = [*numbers, *np.random.default_rng(0).uniform(1e-3, 50.0, 2000)]
    for x in [*points, *(-x for x in points), math.nan]:
        e, log = both(x)
        assert bits(e) == bits(math.exp(x) if not x >= 710.0 else math.inf)
        if x > 0.0:
            assert bits(log) == bits(math.log(x))
        else:
            assert log == -math.inf if x == 0.0 else math.isnan(log)
